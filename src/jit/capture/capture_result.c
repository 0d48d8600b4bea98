// What a capture leaves: outputs of the graph for results, gradients and writes.
//
// Each result is an output of the program, except where it shows memory that was there before: that of an input or a
// parameter; then a call gives a handle on that memory, as the function itself would.
#include "jit/capture/capturing.h"
#include "ir/overlap.h"
#include <stdlib.h>

static kiln_status add_output(struct captured *out, int32_t value, const char *name, int32_t *index)
{
    *index = 0;
    for (size_t i = 0; i < out->graph->outputs.n; i++) {
        if (out->graph->outputs.v[i].value == value) return KILN_OK;
        ++*index;
    }
    out->n_outputs++;
    return ir_add_output(out->graph, value, name);
}

static bool shows_source(const struct capturing *c, const kiln_tensor *t, int32_t *source)
{
    *source = t->builder && t->variable ? c->r.variables.v[t->variable].source : -1;
    if (*source < 0) return false;
    uint8_t kind = c->r.sources.v[*source].kind;
    return kind != SOURCE_GRADIENT;
}

static bool shares_variable(const struct capturing *c, size_t i)
{
    for (size_t k = 0; k < c->q->n_out && c->made[i]->variable; k++)
        if (k != i && c->made[k]->variable == c->made[i]->variable) return true;
    return false;
}

static kiln_status add_result(struct capturing *c, struct captured *out, size_t i)
{
    kiln_tensor *t = c->made[i];
    struct result *to = &out->results[i];
    char name[32];
    int32_t value;
    *to = (struct result){
        .type = t->type, .layout = t->layout, .number = t->number, .integer = t->integer, .shown = t->shown};
    snprintf(name, sizeof name, "out%zu", i);
    if (!t->storage && !t->builder) {
        to->kind = RESULT_NUMBER;
        return KILN_OK;
    }
    if (shows_source(c, t, &to->index)) {
        to->kind = RESULT_SOURCE;
        return KILN_OK;
    }
    TRY(recorder_value(&c->r, t, &value));
    if (shares_variable(c, i)) {
        const struct variable *v = &c->r.variables.v[t->variable];
        to->part = true;
        to->layout.offset -= v->layout.offset;
        if (layout_is_contiguous(&v->current->type, &v->layout))
            value = v->current->value;
        else
            to->part = false;
    }
    to->dense = to->part || layout_is_contiguous(&t->type, &t->layout);
    // What its caller may write eagerly it may write here.
    to->dense |= ir_may_repeat(out->graph, value) && !layout_overlaps(&t->type, &t->layout);
    size_t before = out->n_outputs;
    TRY(add_output(out, value, name, &to->index));
    to->alone = out->n_outputs > before;
    for (size_t k = 0; k < i && !to->alone; k++)
        if (out->results[k].kind == RESULT_OUTPUT && out->results[k].index == to->index) out->results[k].alone = false;
    return KILN_OK;
}

// The value whose memory a result would lie in.
static int32_t memory_of(const struct capturing *c, const kiln_tensor *t)
{
    if (!t->builder) return -1;
    int32_t value = t->variable ? c->r.variables.v[t->variable].current->value : t->value;
    return ir_memory_of(c->r.sink.builder.graph, value);
}

// Whether memory made here, which was assigned a tensor, has the value of an input, a constant or another result.
static bool holds_value_of_another(const struct capturing *c, size_t i)
{
    const kiln_tensor *t = c->made[i];
    int32_t memory = memory_of(c, t);
    if (!t->variable || c->r.variables.v[t->variable].source >= 0) return false;
    uint8_t kind = c->r.sink.builder.graph->values.v[memory].kind;
    bool found = kind == IR_INPUT || kind == IR_CONSTANT;
    for (size_t k = 0; k < c->q->n_out && !found; k++)
        found = c->made[k]->variable != t->variable && memory_of(c, c->made[k]) == memory;
    return found;
}

// The caller may write what it gets, and that is seen where it would be seen without a capture, nowhere else.
static kiln_status part_results(struct capturing *c)
{
    for (size_t i = 0; i < c->q->n_out; i++) {
        kiln_tensor *t = c->made[i];
        if (!t->builder || !t->variable) continue;
        if (holds_value_of_another(c, i)) TRY(variable_copy(&c->r, t->variable));
        // A part that was assigned a tensor is that tensor until it is looked up.
        if (ir_memory_of(c->r.sink.builder.graph, t->value) != memory_of(c, t)) t->seen--;
        TRY(variable_refresh(&c->r, t));
    }
    return KILN_OK;
}

static int by_order(const void *a, const void *b)
{
    const struct variable *x = *(const struct variable *const *)a, *y = *(const struct variable *const *)b;
    return (x->written > y->written) - (x->written < y->written);
}

static kiln_status add_writes(struct capturing *c, struct captured *out)
{
    const struct variable **written = malloc(sizeof *written * (c->r.variables.n + 1));
    size_t n = 0;
    if (!written) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 1; i < c->r.variables.n; i++)
        if (c->r.variables.v[i].written && c->r.variables.v[i].source >= 0) written[n++] = &c->r.variables.v[i];
    qsort(written, n, sizeof *written, by_order);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n && !status; i++) {
        int32_t target = c->r.sources.v[written[i]->source].value;
        status = ir_add_write(out->graph, written[i]->current->value, target, out->graph->values.v[target].name);
    }
    free(written);
    return status;
}

static struct tape_node *leaf_of_source(const struct source *s)
{
    return s->kind == SOURCE_INPUT || s->kind == SOURCE_LEAF ? s->leaf : NULL;
}

static kiln_tensor *gradient_now(const struct recorder *r, const struct tape_node *leaf)
{
    int32_t i = chains_first(&r->gradients_of, leaf);
    return i < 0 ? NULL : r->gradients.v[i].now;
}

// What kiln_backward left in parameters becomes outputs.
static kiln_status add_left_gradients(struct capturing *c, struct captured *out)
{
    for (size_t i = 0; i < c->r.sources.n; i++) {
        const struct tape_node *leaf = leaf_of_source(&c->r.sources.v[i]);
        if (!leaf || !c->r.sources.v[i].changed) continue;
        kiln_tensor *g = gradient_now(&c->r, leaf);
        bool dropped = !g && c->r.sources.v[i].gradient;
        if (!dropped && (!g || !g->builder)) continue;
        struct left_gradient *left = &out->left[out->n_left++];
        *left = (struct left_gradient){(int32_t)i, -1};
        if (dropped) continue;
        TRY(variable_refresh(&c->r, g));
        TRY(add_output(out, g->value, "gradient", &left->output));
    }
    return KILN_OK;
}

// What has arrived at an input of the call or a state. At one of a function that is differentiated inside, behind which
// nothing is, it ends.
static void find_arrived(struct capturing *c, struct captured *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->r.gradient_steps.n; i++) {
        struct gradient_step s = c->r.gradient_steps.v[i];
        bool arrived = s.event == GRADIENT_ARRIVED;
        for (size_t k = 0; arrived && k < c->q->n_in && s.input < 0; k++)
            if (c->nodes[k] == s.node) s.input = (int32_t)k;
        bool leads_on = arrived && (s.input >= 0 || s.source >= 0);
        out->goes_on |= leads_on;
        node_unref(s.node);
        s.node = NULL;
        if (!arrived || leads_on) c->r.gradient_steps.v[kept++] = s;
    }
    c->r.gradient_steps.n = kept;
}

// Where a backward inside goes on outside, all that was done to gradients is done once more, with what comes of that.
static kiln_status add_gradient_steps(struct capturing *c, struct captured *out)
{
    find_arrived(c, out);
    for (size_t i = 0; i < c->r.gradient_steps.n && out->goes_on; i++) {
        struct gradient_step *s = &c->r.gradient_steps.v[i];
        if (s->value >= 0) TRY(add_output(out, s->value, "gradient", &s->output));
    }
    return KILN_OK;
}

// Results on one memory that the function made of host data.
static bool shares_constant(const struct capturing *c, size_t i)
{
    const kiln_tensor *t = c->made[i];
    if (t->builder || !t->storage || t->constant) return false;
    for (size_t k = 0; k < c->q->n_out; k++)
        if (k != i && !c->made[k]->builder && c->made[k]->storage == t->storage) return true;
    return false;
}

kiln_status capture_collect(struct capturing *c, struct captured *out)
{
    out->graph = c->r.sink.builder.graph;
    out->results = calloc(c->q->n_out + 1, sizeof *out->results);
    out->left = calloc(c->r.sources.n + 1, sizeof *out->left);
    if (!out->results || !out->left) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < c->q->n_out; i++) {
        kiln_tensor *t = c->made[i];
        bool number = !t->storage && !t->builder;
        enum shown_as shown = t->shown;
        if (!number) TRY(recorder_resolve(&c->r, "call", t, &c->made[i]));
        if (shares_constant(c, i)) TRY(recorder_take_memory(&c->r, c->made[i], &c->made[i]));
        tensor_show(c->made[i], shown);
    }
    TRY(part_results(c));
    for (size_t i = 0; i < c->q->n_out; i++) TRY(add_result(c, out, i));
    out->n_results = c->q->n_out;
    TRY(add_left_gradients(c, out));
    TRY(add_gradient_steps(c, out));
    return add_writes(c, out);
}
