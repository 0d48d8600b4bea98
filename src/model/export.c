// Functions of a model as files of ONNX: what its texts say, for the writer.
#include "model/export.h"
#include "model/foreign.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool export_is_onnx(const char *path)
{
    size_t len = path ? strlen(path) : 0;
    return len > 5 && !strcmp(path + len - 5, ".onnx");
}

// --- what does not go

static const char no_memory[] = "it is written, and a model of ONNX has no memory";

static void check_writes(struct misfits *m, const struct kiln_graph *g, const uintptr_t *callers)
{
    for (size_t i = 0; i < g->outputs.n; i++) {
        const struct ir_output *o = &g->outputs.v[i];
        const struct ir_value *v = &g->values.v[o->value];
        uintptr_t caller = v->kind != IR_NODE ? 0 : callers ? callers[v->node] : g->nodes.v[v->node].caller;
        const char *name = o->target < 0 ? NULL : g->values.v[o->target].name;
        if (o->target >= 0) misfits_add(m, caller, name ? name : "a tensor", no_memory);
    }
}

static void check_effects(struct misfits *m, bool leaves, bool takes)
{
    if (leaves) misfits_add(m, 0, "kiln_backward", "gradients that it leaves are no outputs");
    if (takes) misfits_add(m, 0, "a gradient of a parameter", "a model of ONNX has none");
}

// A number that the graph has built in: a file that took another one would give wrong values.
static void check_fixed(struct misfits *m, const char *name)
{
    misfits_add(m, 0, name, "a number whose value the function reads; leave it out of the inputs");
}

// The output of the graph that a result is, of those that are not written back.
static int32_t output_value(const struct kiln_graph *g, int32_t index)
{
    for (size_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].target < 0 && index-- == 0) return g->outputs.v[i].value;
    return -1;
}

void export_check_capture(const struct adding *a, const struct captured *c, struct misfits *m)
{
    VEC(struct onnx_made) made = {0};
    bool takes = false;
    char name[32];
    for (size_t i = 0; i < c->n_results; i++) {
        struct onnx_made r = {.name = "", .value = -1};
        if (c->results[i].kind == RESULT_OUTPUT) r.value = output_value(c->graph, c->results[i].index);
        if (vec_push(&made, r)) break;
    }
    for (size_t i = 0; i < c->n_sources; i++) takes |= c->sources[i].kind == SOURCE_GRADIENT;
    for (size_t i = 0; i < a->n_in; i++) {
        snprintf(name, sizeof name, "input %zu", i);
        if (!a->in[i]->storage && c->source_of[i] < 0 && a->in[i]->type.weak)
            check_fixed(m, a->inputs ? a->inputs[i] : name);
    }
    check_writes(m, c->graph, NULL);
    check_effects(m, c->n_left > 0, takes);
    const struct onnx_export e = {
        .graph = c->graph, .name = a->name, .n_made = made.n, .made = made.v, .cannot = misfits_add, .user = m};
    if (!error_pending) (void)onnx_check_export(&e);
    vec_free(&made);
}

static void check_function(const struct exporting *x, struct misfits *m)
{
    const struct interface *f = &x->f->face;
    bool takes = false;
    for (size_t i = 0; i < f->sources.n; i++)
        takes |= f->sources.v[i].from == FROM_GRADIENT || f->sources.v[i].from == FROM_INPUT_GRADIENT;
    for (size_t i = 0; i < f->in.n; i++)
        if (f->in.v[i].fixed) check_fixed(m, f->in.v[i].name);
    check_writes(m, x->g, x->f->callers);
    check_effects(m, f->left.n > 0, takes);
}

// --- what goes

static kiln_status find_inputs(struct exporting *x, int32_t *values)
{
    const struct interface *f = &x->f->face;
    size_t n = 0;
    for (size_t i = 0; i < x->g->values.n; i++)
        if (x->g->values.v[i].kind == IR_INPUT && n++ < f->sources.n) values[n - 1] = (int32_t)i;
    if (n == f->sources.n) return KILN_OK;
    return error_set(KILN_E_FORMAT, "model_save: %s: its graph has %zu inputs, its interface %zu", x->f->name, n,
                     f->sources.n);
}

static kiln_status give_inputs(struct exporting *x, const int32_t *values)
{
    const struct interface *f = &x->f->face;
    for (size_t i = 0; i < f->in.n; i++) {
        struct onnx_given g = {
            .name = f->in.v[i].name, .type = f->in.v[i].type, .value = -1, .symbols = f->in.v[i].symbols};
        for (size_t k = 0; k < f->sources.n; k++)
            if (f->sources.v[k].from == FROM_INPUT && f->sources.v[k].index == (int32_t)i) g.value = values[k];
        TRY(vec_push(&x->given, g));
    }
    return KILN_OK;
}

static kiln_status give_weight(struct exporting *x, int32_t weight, int32_t value)
{
    const struct model_weight *w = &x->m->weights.v[weight];
    const struct onnx_given g = {.name = w->name, .type = w->t->type, .value = value, .weight = w->t};
    return vec_push(&x->given, g);
}

static kiln_status give_weights(struct exporting *x, const int32_t *values)
{
    const struct interface *f = &x->f->face;
    for (size_t k = 0; k < f->sources.n; k++)
        if (f->sources.v[k].from == FROM_WEIGHT) TRY(give_weight(x, f->sources.v[k].index, values[k]));
    for (size_t i = 0; i < x->g->values.n; i++) {
        const struct ir_value *v = &x->g->values.v[i];
        int32_t w = v->kind == IR_CONSTANT && v->name ? model_find_weight(x->m, v->name) : -1;
        if (v->kind == IR_CONSTANT && w < 0)
            return error_set(KILN_E_FORMAT, "model_save: %s: constant %%%zu is none of its tensors", x->f->name, i);
        if (v->kind == IR_CONSTANT) TRY(give_weight(x, w, (int32_t)i));
    }
    return KILN_OK;
}

static kiln_status make_result(struct exporting *x, const struct face_result *r, const int32_t *values)
{
    struct onnx_made m = {.name = r->name,
                          .type = r->r.type,
                          .value = -1,
                          .layout = r->placed ? &r->r.layout : NULL,
                          .number = r->r.number,
                          .integer = r->r.integer,
                          .open = r->open};
    if (r->r.kind == RESULT_OUTPUT) m.value = output_value(x->g, r->r.index);
    if (r->r.kind == RESULT_SOURCE && (size_t)r->r.index < x->f->face.sources.n) m.value = values[r->r.index];
    if (m.value < 0 && r->r.kind != RESULT_NUMBER)
        return error_set(KILN_E_FORMAT, "model_save: %s: result \"%.100s\" is none of its values", x->f->name, r->name);
    if (m.value >= 0) m.whole = x->g->values.v[m.value].type;
    return vec_push(&x->made, m);
}

// A model of ONNX has one name for one value.
static kiln_status check_names(const struct exporting *x)
{
    for (size_t i = 0; i < x->made.n; i++)
        for (size_t k = 0; k < x->given.n; k++)
            if (!strcmp(x->made.v[i].name, x->given.v[k].name))
                return error_set(KILN_E_ARGUMENT, "model_save: output %zu and %s are both named \"%.100s\"", i,
                                 x->given.v[k].weight ? "a weight" : "an input", x->made.v[i].name);
    for (size_t i = 0; i < x->given.n; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(x->given.v[i].name, x->given.v[k].name) && !x->given.v[i].weight != !x->given.v[k].weight)
                return error_set(KILN_E_ARGUMENT, "model_save: an input and a weight are both named \"%.100s\"",
                                 x->given.v[i].name);
    return KILN_OK;
}

static kiln_status gather(struct exporting *x, const struct ir_sizes *sizes)
{
    const struct interface *f = &x->f->face;
    x->g = ir_parse_sized(x->f->forward, strlen(x->f->forward), "model_save", sizes);
    int32_t *values = x->g ? malloc((f->sources.n + 1) * sizeof *values) : NULL;
    if (!values) return error_pending ? error_pending : error_set(KILN_E_MEMORY, "model_save: out of memory");
    kiln_status status = find_inputs(x, values);
    if (!status) status = give_inputs(x, values);
    if (!status) status = give_weights(x, values);
    for (size_t i = 0; i < f->results.n && !status; i++) status = make_result(x, &f->results.v[i], values);
    for (size_t i = 0; i < f->rules.n && !status; i++) status = vec_push(&x->symbols, f->rules.v[i].name);
    free(values);
    return status ? status : check_names(x);
}

kiln_status exporting_init(struct exporting *x, const struct model *m, const struct ir_sizes *sizes)
{
    *x = (struct exporting){.m = m, .f = &m->functions.v[0]};
    TRY(gather(x, sizes));
    x->e = (struct onnx_export){.graph = x->g,
                                .callers = x->f->callers,
                                .name = x->f->name,
                                .n_given = x->given.n,
                                .given = x->given.v,
                                .n_made = x->made.n,
                                .made = x->made.v,
                                .symbols = x->symbols.v};
    return KILN_OK;
}

void exporting_finish(struct exporting *x)
{
    vec_free(&x->given);
    vec_free(&x->made);
    vec_free(&x->symbols);
    free(x->open);
    ir_graph_destroy(&x->g);
}

static kiln_status save(struct exporting *x, const char *path)
{
    struct misfits m;
    misfits_init(&m);
    x->e.cannot = misfits_add;
    x->e.user = &m;
    check_function(x, &m);
    kiln_status status = onnx_check_export(&x->e);
    if (!status && !m.n && x->f->face.rules.n) status = export_open(x);
    if (!status && !m.n) status = onnx_write("model_save", &x->e, path);
    return misfits_end(&m, "model_save", x->f->name, "file of ONNX");
}

kiln_status export_onnx(const struct model *m, const char *path)
{
    struct exporting x;
    if (m->functions.n > 1)
        return error_set(
            KILN_E_UNSUPPORTED,
            "model_save: %s: a file of ONNX holds one function, the model has %zu: \"%.100s\", \"%.100s\"%s", path,
            m->functions.n, m->functions.v[0].name, m->functions.v[1].name, m->functions.n > 2 ? " ..." : "");
    kiln_status status = exporting_init(&x, m, NULL);
    if (!status) status = save(&x, path);
    exporting_finish(&x);
    return status;
}
