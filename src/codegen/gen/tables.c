// ops_table.c: the op table and the kernel catalogue as the library reads them.
#include "codegen/gen/gen.h"
#include <stdio.h>
#include <string.h>

static const char *const attr_kinds[] = {
    [PARAM_INT] = "ATTR_INT",   [PARAM_FLOAT] = "ATTR_FLOAT", [PARAM_BOOL] = "ATTR_BOOL",
    [PARAM_INTS] = "ATTR_INTS", [PARAM_ARRAY] = "ATTR_INTS",  [PARAM_DTYPE] = "ATTR_DTYPE",
};

static void str_or_null(struct str *s, const char *field, const char *value)
{
    if (value) str_addf(s, ", .%s = \"%s\"", field, value);
}

static void symbol(struct str *s, const char *name)
{
    for (; *name; name++) str_addf(s, "%c", *name == '.' ? '_' : *name);
}

static void params_arrays(struct str *s, const char *name, const char *const *params)
{
    if (!params[0]) return;
    str_add(s, "static const struct attr_info attrs_");
    symbol(s, name);
    str_add(s, "[] = {");
    for (int i = 0; i < ELEMENTWISE_MAX_PARAMS && params[i]; i++)
        str_addf(s, "{.name = \"%s\", .kind = ATTR_FLOAT}, ", params[i]);
    str_add(s, "};\n");
}

static int param_count(const struct op_elementwise *e)
{
    int n = 0;
    while (n < ELEMENTWISE_MAX_PARAMS && e->params[n]) n++;
    return n;
}

static void elementwise_columns(struct str *s, const struct elementwise_row *r)
{
    str_addf(s, "static const struct op_elementwise elementwise_%s = {.type = %d, .expr = \"%s\"", r->name, r->e.type,
             r->e.expr);
    str_or_null(s, "iexpr", r->e.iexpr);
    str_or_null(s, "bexpr", r->e.bexpr);
    str_add(s, ", .grad = {");
    for (int i = 0; i < ELEMENTWISE_MAX_IN; i++)
        r->e.grad[i] ? str_addf(s, "\"%s\", ", r->e.grad[i]) : str_add(s, "NULL, ");
    str_add(s, "}, .params = {");
    for (int i = 0; i < param_count(&r->e); i++) str_addf(s, "\"%s\", ", r->e.params[i]);
    str_add(s, "NULL}, .domain = {");
    for (int i = 0; i < r->n_in; i++) str_addf(s, "{%.17g, %.17g}, ", r->e.domain[i][0], r->e.domain[i][1]);
    str_addf(s, "}, .ulp = {%.9g, %.9g}, .condition_mask = %d, .n_at = %d", (double)r->e.ulp[0], (double)r->e.ulp[1],
             r->e.type == TYPE_SELECT, r->e.n_at);
    for (int i = 0; i < r->e.n_at; i++) str_addf(s, ", .at[%d] = {%.17g, %d}", i, r->e.at[i].number, r->e.at[i].op);
    str_add(s, "};\n");
}

static void input_names(struct str *s, const struct elementwise_row *r)
{
    if (!r->e.in[0]) return;
    str_addf(s, "static const char *const names_%s[] = {", r->name);
    for (int i = 0; i < r->n_in; i++) str_addf(s, "\"%s\", ", r->e.in[i]);
    str_add(s, "};\n");
}

static int gradient_of(const struct catalogue *g, int row, int input)
{
    for (int i = 0; i < g->n_gradients; i++)
        if (g->gradients[i].source == row && g->gradients[i].input == input) return i;
    return -1;
}

static void gradient_links(struct str *s, const struct catalogue *g, int row)
{
    const struct elementwise_row *r = &elementwise_rows[row];
    str_addf(s, "static const struct op_gradient gradients_%s[] = {", r->name);
    for (int i = 0; i < r->n_in; i++) {
        int h = gradient_of(g, row, i);
        if (h < 0) {
            str_add(s, "{0}, ");
            continue;
        }
        if (g->gradients[h].passes) {
            str_add(s, "{NULL, 1, {GRADIENT_DY}}, ");
            continue;
        }
        str_addf(s, "{&op_instances[%d], %d, {", OP_GRADIENTS + h, g->gradients[h].n_in);
        for (int j = 0; j < g->gradients[h].n_in; j++) str_addf(s, "%d, ", g->gradients[h].from[j]);
        str_add(s, "}}, ");
    }
    str_add(s, "};\n");
}

static bool has_gradient(const struct elementwise_row *r)
{
    for (int i = 0; i < r->n_in; i++)
        if (r->e.grad[i]) return true;
    return false;
}

static void elementwise_op(struct str *s, int row)
{
    const struct elementwise_row *r = &elementwise_rows[row];
    int n_params = param_count(&r->e);
    str_addf(s,
             "    [%d] = {.name = \"%s\", .index = %d, .family = %d, .flags = %d, .min_in = %d, .max_in = %d, .n_out = "
             "1, .n_attrs = %d, .u64 = %d, "
             ".in_names = ",
             row, r->name, row, row, r->e.flags | OP_ELEMENTWISE, r->n_in, r->n_in, n_params, r->e.u64);
    r->e.in[0] ? str_addf(s, "names_%s", r->name) : str_addf(s, "names_%d", r->n_in);
    str_addf(s, ", .fn = &elementwise_functions, .elementwise = &elementwise_%s", r->name);
    str_or_null(s, "alias", r->e.alias);
    str_or_null(s, "was", r->e.was);
    if (n_params) str_addf(s, ", .attrs = attrs_%s", r->name);
    if (has_gradient(r)) str_addf(s, ", .gradients = gradients_%s", r->name);
    str_add(s, "},\n");
}

static void gradient_arrays(struct str *s, const struct gradient_row *h)
{
    const struct elementwise_row *r = &elementwise_rows[h->source];
    str_add(s, "static const char *const names_");
    symbol(s, h->name);
    str_add(s, "[] = {");
    int mask = 0;
    for (int i = 0; i < h->n_in; i++) {
        str_addf(s, "\"%s\", ", h->in_names[i]);
        if (r->e.type == TYPE_SELECT && h->from[i] == 0) mask |= 1 << i;
    }
    str_add(s, "};\nstatic const struct op_elementwise elementwise_");
    symbol(s, h->name);
    str_addf(s, " = {.type = %d, .expr = \"%s\", .params = {",
             mask                      ? TYPE_SELECT
             : r->e.type == TYPE_FLOAT ? TYPE_FLOAT
                                       : TYPE_NUMERIC,
             h->expr);
    for (int i = 0; i < param_count(&r->e); i++) str_addf(s, "\"%s\", ", r->e.params[i]);
    str_addf(s, "NULL}, .condition_mask = %d, .source_op = \"%s\", .source_input = %d};\n", mask, r->name, h->input);
}

static void gradient_op(struct str *s, const struct gradient_row *h, int index)
{
    const struct elementwise_row *r = &elementwise_rows[h->source];
    int n_params = param_count(&r->e);
    str_addf(s,
             "    [%d] = {.name = \"%s\", .index = %d, .family = %d, .flags = %d, .min_in = %d, .max_in = %d, .n_out = "
             "1, .n_attrs = %d, ",
             OP_GRADIENTS + index, h->name, OP_GRADIENTS + index, FAMILY_GRADIENTS + index, OP_ELEMENTWISE | OP_HIDDEN,
             h->n_in, h->n_in, n_params);
    str_add(s, ".fn = &elementwise_functions, .in_names = names_");
    symbol(s, h->name);
    str_add(s, ", .elementwise = &elementwise_");
    symbol(s, h->name);
    if (n_params) str_addf(s, ", .attrs = attrs_%s", r->name);
    str_add(s, "},\n");
}

static void attribute(struct str *s, const struct param *p)
{
    str_addf(s, "{.name = \"%s\", .kind = %s", p->name, attr_kinds[p->kind]);
    if (p->is_size) str_add(s, ", .is_size = true");
    if (p->is_option || p->fallback[0]) str_add(s, ", .has_default = true");
    if (p->fallback[0]) str_addf(s, ", .fallback = %s", p->fallback);
    if (p->kind == PARAM_ARRAY) str_addf(s, ", .count = %d", p->count);
    str_add(s, "}, ");
}

static void structured_arrays(struct str *s, const struct structured_row *r)
{
    struct flat f = {0};
    gen_flatten(r->args, &f);
    str_addf(s, "static const char *const names_%s[] = {", r->name);
    for (int i = 0; i < f.n_in; i++) str_addf(s, "\"%s\", ", f.in[i]);
    str_add(s, "NULL};\n");
    if (!f.n_attrs) return;
    str_addf(s, "static const struct attr_info attrs_%s[] = {", r->name);
    for (int i = 0; i < f.n_attrs; i++) attribute(s, &f.attrs[i]);
    str_add(s, "};\n");
}

static void structured_op(struct str *s, const struct structured_row *r, int index)
{
    struct flat f = {0};
    gen_flatten(r->args, &f);
    int flags = r->flags | (f.list ? OP_VARIADIC : 0);
    int n_out = r->fn.regions ? 0 : r->n_out ? r->n_out : 1;
    str_addf(s,
             "    [%d] = {.name = \"%s\", .index = %d, .family = %d, .flags = %d, .min_in = %d, .max_in = %d, .n_out = "
             "%d, .n_attrs = %d, .indexed = {%d, %d}, .uniform = %d, .u64 = %d, .products = {%d, %d, %d}, "
             ".in_names = names_%s, .fn = &structured_rows[%d].fn",
             index, r->name, index, r->kernel, flags, f.list ? !r->fn.regions : f.n_required, f.list ? 255 : f.n_in,
             n_out, f.n_attrs, r->indexed.bound, r->indexed.operand, r->uniform, r->u64, r->products.kind,
             r->products.grid, r->products.weight, r->name, index - elementwise_row_count);
    if (f.n_attrs) str_addf(s, ", .attrs = attrs_%s", r->name);
    str_or_null(s, "alias", r->alias);
    str_or_null(s, "was", r->was);
    str_add(s, "},\n");
}

static void catalogue(struct str *s, const struct catalogue *g)
{
    str_addf(s, "const int kernel_count = %d;\nconst struct kernel_info kernel_catalogue[%d] = {\n",
             g->n_families * CLASS_COUNT, g->n_families * CLASS_COUNT);
    for (int i = 0; i < g->n_families * CLASS_COUNT; i++) {
        const struct kernel_info *k = &g->kernels[i].info;
        if (!g->kernels[i].present) continue;
        str_addf(s,
                 "    [%d] = {.name = \"%s\", .kind = %d, .cls = %d, .n_operands = %d, .n_out = %d, .n_scalars = %d, "
                 ".row_out = %d, "
                 ".n_stages = %d, .n_reductions = %d, .picks_tile = %d, .matrices = %d, .by_rows = %d, .narrow = %d, "
                 ".hands_on = %d, "
                 ".cpu_only = %d, "
                 ".tile = {%d, "
                 "%d, %d}, .in_cls = {",
                 i, k->name, k->kind, k->cls, k->n_operands, k->n_out, k->n_scalars, k->row_out, k->n_stages,
                 k->n_reductions, k->picks_tile, k->matrices, k->by_rows, k->narrow, k->hands_on, k->cpu_only,
                 k->tile[0], k->tile[1], k->tile[2]);
        for (int j = 0; j < MAX_OPERANDS; j++) str_addf(s, "%d,", k->in_cls[j]);
        str_add(s, "}, .scalar_cls = {");
        for (int j = 0; j < 8; j++) str_addf(s, "%d,", k->scalar_cls[j]);
        str_add(s, "}},\n");
    }
    str_add(s, "};\n");
}

static const char table_intro[] =
    "// Written by kiln-gen from the op tables.\n#include \"ops/row.h\"\n\n"
    "static const char *const names_1[] = {\"x\"};\nstatic const char *const names_2[] = {\"a\", \"b\"};\n"
    "static const char *const names_3[] = {\"a\", \"b\", \"c\"};\n";

static void table_arrays(struct str *s, const struct catalogue *g)
{
    for (int i = 0; i < elementwise_row_count; i++) {
        const struct elementwise_row *r = &elementwise_rows[i];
        params_arrays(s, r->name, r->e.params);
        input_names(s, r);
        elementwise_columns(s, r);
        if (has_gradient(r)) gradient_links(s, g, i);
    }
    for (int i = 0; i < structured_row_count; i++) structured_arrays(s, &structured_rows[i]);
    for (int i = 0; i < g->n_gradients; i++) gradient_arrays(s, &g->gradients[i]);
}

kiln_status gen_tables(struct catalogue *g, const char *dir)
{
    struct str s;
    str_init(&s);
    int count = OP_GRADIENTS + g->n_gradients;
    str_add(&s, table_intro);
    str_addf(&s, "extern const struct op op_instances[%d];\n", count);
    str_addf(&s, "_Static_assert(%d <= OPS_MAX, \"ir/op.h\");\n", count);
    table_arrays(&s, g);
    str_addf(&s, "const int op_count = %d;\nconst struct op op_instances[%d] = {\n", count, count);
    for (int i = 0; i < elementwise_row_count; i++) elementwise_op(&s, i);
    for (int i = 0; i < structured_row_count; i++) structured_op(&s, &structured_rows[i], elementwise_row_count + i);
    for (int i = 0; i < g->n_gradients; i++) gradient_op(&s, &g->gradients[i], i);
    str_addf(&s, "};\nconst struct op *const op_table[%d] = {\n", count);
    for (int i = 0; i < count; i++) str_addf(&s, "    &op_instances[%d],\n", i);
    str_add(&s, "};\n");
    catalogue(&s, g);
    TRY(gen_write(dir, "ops_table.c", &s));
    str_init(&s);
    gen_api(&s);
    return gen_write(dir, "ops_api.c", &s);
}
