// From the tables to kernels: classes of each row, gradient rows, parsed expressions, catalogue entries.
#include "codegen/catalogue/catalogue.h"
#include "ops/expr.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t classes_of_type[] = {
    [TYPE_NUMERIC] = CLASSES_FI,  [TYPE_FLOAT] = CLASSES_F,   [TYPE_REAL] = CLASSES_FI,
    [TYPE_COMPARE] = CLASSES_ALL, [TYPE_LOGICAL] = CLASSES_B, [TYPE_BITWISE] = CLASSES_I | CLASSES_B,
    [TYPE_INTEGER] = CLASSES_I,   [TYPE_TEST] = CLASSES_FI,   [TYPE_SELECT] = CLASSES_ALL,
};

static unsigned classes_of(const struct op_elementwise *e)
{
    return classes_of_type[e->type] | (e->bexpr ? CLASSES_B : 0);
}

static bool is_int(enum scalar_class c)
{
    return c == CLASS_I32 || c == CLASS_I64;
}

static bool bool_result(uint8_t type)
{
    return type == TYPE_COMPARE || type == TYPE_TEST || type == TYPE_LOGICAL;
}

static const char *symbol_safe(struct arena *a, const char *name)
{
    char *s = arena_strdup(a, name);
    for (char *p = s; p && *p; p++)
        if (*p == '.') *p = '_';
    return s;
}

static kiln_status add_kernel(struct catalogue *g, int family, const char *name, uint8_t kind, enum scalar_class cls,
                              const char *expr, const struct scalar_param *params, int n_in, int n_scalars,
                              enum scalar_class out_cls, bool cpu_only)
{
    struct catalogue_kernel *k = &g->kernels[family * CLASS_COUNT + (int)cls];
    struct kernel *body = &k->kernel;
    struct scalar_dag raw;
    TRY(expr_parse(&g->arena, expr, params, n_in + n_scalars, cls, &raw));
    TRY(scalar_expand(&g->arena, &raw, &body->dag));
    if (body->dag.nodes[body->dag.root].cls != out_cls)
        return error_set(KILN_E_ARGUMENT, "the result is %s, not %s",
                         scalar_class_name(body->dag.nodes[body->dag.root].cls), scalar_class_name(out_cls));
    body->name = symbol_safe(&g->arena, name);
    if (!body->name) return kiln_error();
    body->kind = (enum kernel_kind)kind;
    body->cls = cls;
    body->n_in = n_in;
    body->n_scalars = n_scalars;
    body->out_cls = out_cls;
    for (int i = 0; i < n_in; i++) body->in_cls[i] = k->info.in_cls[i] = (uint8_t)params[i].cls;
    for (int i = 0; i < n_scalars; i++) body->scalar_cls[i] = k->info.scalar_cls[i] = (uint8_t)params[n_in + i].cls;
    TRY(kernel_analyze(&g->arena, body));
    k->info.in_cls[n_in] = (uint8_t)out_cls;
    k->info.name = name;
    k->info.kind = kind;
    k->info.cls = (uint8_t)cls;
    k->info.n_operands = (uint8_t)(n_in + 1);
    k->info.n_out = 1;
    k->info.n_scalars = (uint8_t)n_scalars;
    k->info.row_out = body->row_out;
    k->info.n_stages = (uint8_t)body->n_stages;
    for (int i = 0; i < body->dag.n_nodes; i++) k->info.n_reductions += body->dag.nodes[i].kind == SCALAR_REDUCE;
    k->info.cpu_only = cpu_only || scalar_has_lib_class(&raw, CLASS_F64);
    k->present = true;
    return KILN_OK;
}

static const char *symbol_of(struct catalogue *g, const char *name, enum scalar_class cls)
{
    char text[96];
    snprintf(text, sizeof text, "%s_%s", name, scalar_class_name(cls));
    for (char *p = text; *p; p++)
        if (*p == '.') *p = '_';
    return arena_strdup(&g->arena, text);
}

static kiln_status row_error(const char *name, enum scalar_class cls)
{
    char text[700];
    kiln_status code = kiln_error();
    snprintf(text, sizeof text, "%s", kiln_error_message());
    kiln_error_clear();
    return error_set(code, "row %s, class %s: %s", name, scalar_class_name(cls), text);
}

static kiln_status add_elementwise(struct catalogue *g, int row)
{
    const struct elementwise_row *r = &elementwise_rows[row];
    for (int c = 0; c < CLASS_COUNT; c++) {
        if (!(classes_of(&r->e) >> c & 1)) continue;
        enum scalar_class cls = (enum scalar_class)c;
        struct scalar_param p[ELEMENTWISE_MAX_IN + ELEMENTWISE_MAX_PARAMS];
        int n = 0, n_scalars = 0;
        for (int i = 0; i < r->n_in; i++)
            p[n++] = (struct scalar_param){elementwise_input_name(r->n_in, i),
                                           r->e.type == TYPE_SELECT && i == 0 ? CLASS_BOOL : cls};
        for (; n_scalars < ELEMENTWISE_MAX_PARAMS && r->e.params[n_scalars]; n_scalars++)
            p[n++] = (struct scalar_param){r->e.params[n_scalars], cls};
        enum scalar_class out = bool_result(r->e.type) ? CLASS_BOOL : cls;
        if (add_kernel(g, row, r->name, KERNEL_POINTWISE, cls, elementwise_expr(&r->e, cls), p, r->n_in, n_scalars, out,
                       false)) {
            if (kiln_error() != KILN_E_UNSUPPORTED) return row_error(r->name, cls);
            kiln_error_clear();
            continue;
        }
        g->kernels[row * CLASS_COUNT + c].symbol = symbol_of(g, r->name, cls);
    }
    return KILN_OK;
}

// All names a gradient may use: the inputs, y, dy, the params.
static int gradient_params(const struct elementwise_row *r, enum scalar_class cls, struct scalar_param *p)
{
    int n = 0;
    for (int i = 0; i < r->n_in; i++)
        p[n++] = (struct scalar_param){elementwise_input_name(r->n_in, i),
                                       r->e.type == TYPE_SELECT && i == 0 ? CLASS_BOOL : cls};
    p[n++] = (struct scalar_param){"y", cls};
    p[n++] = (struct scalar_param){"dy", cls};
    for (int i = 0; i < ELEMENTWISE_MAX_PARAMS && r->e.params[i]; i++)
        p[n++] = (struct scalar_param){r->e.params[i], cls};
    return n;
}

static kiln_status find_gradient(struct catalogue *g, int row, int input)
{
    const struct elementwise_row *r = &elementwise_rows[row];
    struct gradient_row *h = &g->gradients[g->n_gradients++];
    struct scalar_param p[ELEMENTWISE_MAX_IN + 2 + ELEMENTWISE_MAX_PARAMS];
    struct scalar_dag dag;
    int n = gradient_params(r, CLASS_F32, p);
    if (scalar_parse(&g->arena, r->e.grad[input], p, n, CLASS_F32, &dag)) return row_error(r->name, CLASS_F32);
    uint32_t used = scalar_used_params(&dag);
    h->passes = dag.nodes[dag.root].kind == SCALAR_INPUT && dag.nodes[dag.root].code == r->n_in + 1;
    snprintf(h->name, sizeof h->name, "%s.grad%d", r->name, input);
    h->source = row;
    h->input = input;
    h->expr = r->e.grad[input];
    for (int i = 0; i < r->n_in + 2; i++) {
        // dy always: it gives the shape.
        if (!(used >> i & 1) && i != r->n_in + 1) continue;
        h->from[h->n_in] = (uint8_t)(i < r->n_in ? i : i == r->n_in ? GRADIENT_Y : GRADIENT_DY);
        h->in_names[h->n_in++] = p[i].name;
    }
    return KILN_OK;
}

static kiln_status add_gradient(struct catalogue *g, int index)
{
    const struct gradient_row *h = &g->gradients[index];
    const struct elementwise_row *r = &elementwise_rows[h->source];
    int family = FAMILY_GRADIENTS + index;
    for (int c = 0; c < CLASS_COUNT; c++) {
        enum scalar_class cls = (enum scalar_class)c;
        if (h->passes || !g->kernels[h->source * CLASS_COUNT + c].present || cls == CLASS_BOOL) continue;
        struct scalar_param p[5 + ELEMENTWISE_MAX_PARAMS];
        int n = 0, n_scalars = 0;
        for (; n < h->n_in; n++)
            p[n] =
                (struct scalar_param){h->in_names[n], r->e.type == TYPE_SELECT && h->from[n] == 0 ? CLASS_BOOL : cls};
        for (; n_scalars < ELEMENTWISE_MAX_PARAMS && r->e.params[n_scalars]; n_scalars++)
            p[n++] = (struct scalar_param){r->e.params[n_scalars], cls};
        // Gradients of integers run on the CPU alone; one that integers cannot express (a half for equal operands) is
        // left out.
        if (add_kernel(g, family, h->name, KERNEL_POINTWISE, cls, h->expr, p, h->n_in, n_scalars, cls, is_int(cls))) {
            if (!is_int(cls) && kiln_error() != KILN_E_UNSUPPORTED) return row_error(h->name, cls);
            kiln_error_clear();
            g->kernels[family * CLASS_COUNT + c].present = false;
            continue;
        }
        g->kernels[family * CLASS_COUNT + c].symbol = symbol_of(g, h->name, cls);
    }
    return KILN_OK;
}

static kiln_status add_custom(struct catalogue *g, const struct kernel_row *r, int family, enum scalar_class cls)
{
    struct catalogue_kernel *k = &g->kernels[family * CLASS_COUNT + (int)cls];
    k->info = (struct kernel_info){.name = r->name,
                                   .kind = KERNEL_CUSTOM,
                                   .cls = (uint8_t)cls,
                                   .n_operands = r->n_operands,
                                   .n_out = r->n_out,
                                   .cpu_only = r->cpu_only};
    memcpy(k->info.tile, r->tile, sizeof r->tile);
    k->info.picks_tile = r->picks_tile;
    k->info.matrices = r->matrices;
    k->info.by_rows = r->by_rows;
    k->info.narrow = r->narrow;
    k->info.hands_on = r->hands_on;
    for (int i = 0; i < 3; i++)
        if (!k->info.tile[i]) k->info.tile[i] = 1;
    for (int i = 0; i < MAX_OPERANDS; i++) k->info.in_cls[i] = (uint8_t)cls;
    k->symbol = symbol_of(g, r->name, cls);
    k->present = true;
    return KILN_OK;
}

static enum scalar_class out_class(const struct kernel_row *r, enum scalar_class cls)
{
    for (int c = 0; c < CLASS_COUNT; c++)
        if (!strcmp(scalar_class_name((enum scalar_class)c), r->out)) return (enum scalar_class)c;
    return cls;
}

static kiln_status add_row_kernel(struct catalogue *g, int row)
{
    const struct kernel_row *r = &kernel_rows[row];
    int family = elementwise_row_count + row;
    for (int c = 0; c < CLASS_COUNT; c++) {
        if (!(r->classes >> c & 1)) continue;
        enum scalar_class cls = (enum scalar_class)c;
        if (r->kind == KERNEL_CUSTOM) {
            TRY(add_custom(g, r, family, cls));
            continue;
        }
        struct scalar_param p[KERNEL_MAX_IN + 8];
        int n_in = expr_params(&g->arena, r->in, cls, p), n_scalars = expr_params(&g->arena, r->scalars, cls, p + n_in);
        enum scalar_class out = r->out ? out_class(r, cls) : cls;
        if (add_kernel(g, family, r->name, r->kind, cls, r->expr, p, n_in, n_scalars, out, r->cpu_only)) {
            if (kiln_error() != KILN_E_UNSUPPORTED) return row_error(r->name, cls);
            kiln_error_clear();
            continue;
        }
        g->kernels[family * CLASS_COUNT + c].symbol = symbol_of(g, r->name, cls);
        g->kernels[family * CLASS_COUNT + c].kernel.row_in = r->row_in;
    }
    return KILN_OK;
}

kiln_status catalogue_init(struct catalogue *g)
{
    *g = (struct catalogue){0};
    arena_init(&g->arena);
    g->gradients = arena_alloc(&g->arena, sizeof *g->gradients * (size_t)elementwise_row_count * ELEMENTWISE_MAX_IN);
    if (!g->gradients) return kiln_error();
    for (int i = 0; i < elementwise_row_count; i++)
        for (int j = 0; j < elementwise_rows[i].n_in; j++)
            if (elementwise_rows[i].e.grad[j]) TRY(find_gradient(g, i, j));
    g->n_families = FAMILY_GRADIENTS + g->n_gradients;
    g->kernels = arena_alloc(&g->arena, sizeof *g->kernels * (size_t)g->n_families * CLASS_COUNT);
    if (!g->kernels) return kiln_error();
    for (int i = 0; i < elementwise_row_count; i++) TRY(add_elementwise(g, i));
    for (int i = 0; i < kernel_row_count; i++) TRY(add_row_kernel(g, i));
    for (int i = 0; i < g->n_gradients; i++) TRY(add_gradient(g, i));
    return KILN_OK;
}

void catalogue_finish(struct catalogue *g)
{
    arena_finish(&g->arena);
}
