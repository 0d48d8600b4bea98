// Gradients of gradients run the graph again, op by op on a tape (replay.c). There a value lies on the tape where its
// node put it. In the function it may have lain elsewhere: nowhere, after kiln_stop_gradient or between
// kiln_no_grad_begin and _end; or where the memory was before it was written without gradients. Then an at_place node
// stands between the value and its reader, which passes rules for values see through.
#include "jit/capture/recorder.h"
#include "ops/families.h"

enum { WITHOUT_GRADIENT, ON_TAPE, WITHOUT_NODE }; // WITHOUT_NODE: the replay has a node for it, the function has none

static const struct replayed *find(const struct recorder *r, int32_t value)
{
    static const struct replayed none;
    return value >= 0 && (size_t)value < r->replayed.n ? &r->replayed.v[value] : &none;
}

static int32_t latest_at(const struct recorder *r, const struct tape_node *n)
{
    return (int32_t)(intptr_t)node_map_get(&r->latest, n) - 1;
}

static kiln_status set_latest(struct recorder *r, const struct tape_node *n, int32_t value)
{
    if (value >= 0) return node_map_put(&r->latest, n, (void *)((intptr_t)value + 1));
    node_map_remove(&r->latest, n);
    return KILN_OK;
}

// The values at a node are a list, from the last one made to the first.
static kiln_status add_to_node(struct recorder *r, int32_t value)
{
    struct replayed *v = r->replayed.v, *is = &v[value];
    int32_t at = latest_at(r, is->node);
    if (at < value) {
        is->earlier = at;
        return set_latest(r, is->node, value);
    }
    while (v[at].earlier > value) at = v[at].earlier;
    is->earlier = v[at].earlier;
    v[at].earlier = value;
    return KILN_OK;
}

static kiln_status take_from_node(struct recorder *r, int32_t value)
{
    struct replayed *v = r->replayed.v;
    int32_t at = latest_at(r, v[value].node);
    if (at == value) return set_latest(r, v[value].node, v[value].earlier);
    while (v[at].earlier != value) at = v[at].earlier;
    v[at].earlier = v[value].earlier;
    return KILN_OK;
}

static kiln_status set(struct recorder *r, int32_t value, uint8_t state, struct tape_node *n, uint32_t out)
{
    while (r->replayed.n <= (size_t)value)
        TRY(vec_push(&r->replayed, ((struct replayed){.state = WITHOUT_GRADIENT, .earlier = -1})));
    struct tape_node *old = r->replayed.v[value].node;
    if (old) TRY(take_from_node(r, value));
    r->replayed.v[value] = (struct replayed){state, out, node_ref(n), -1};
    node_unref(old);
    kiln_status status = n ? add_to_node(r, value) : KILN_OK;
    if (status) { // it is on no list
        r->replayed.v[value] = (struct replayed){.state = WITHOUT_GRADIENT, .earlier = -1};
        node_unref(n);
    }
    return status;
}

static int32_t value_at(const struct recorder *r, const struct tape_edge *e)
{
    int32_t value = latest_at(r, e->node);
    while (value >= 0 && r->replayed.v[value].out != e->out) value = r->replayed.v[value].earlier;
    return value;
}

// An input of a function that is differentiated inside lies where its caller's tensor lies, or nowhere.
static struct tape_edge place_in_function(const struct recorder *r, const kiln_tensor *t)
{
    struct tape_edge e = {t->node, t->node_out}, none = {NULL, 0};
    while (e.node && e.node->kind == NODE_INPUT && e.node->edges[0].node) e = e.node->edges[0];
    if (!e.node || !node_requires_grad(e.node)) return none;
    return e.node->kind == NODE_INPUT && value_at(r, &e) < 0 ? none : e;
}

bool recorder_is_entry(struct sink *s, const struct tape_node *n)
{
    const struct tape_edge e = {(struct tape_node *)n, 0};
    return value_at(recorder_of(s), &e) >= 0;
}

kiln_status replayed_source(struct recorder *r, int32_t value, struct tape_node *n)
{
    return n && node_requires_grad(n) ? set(r, value, ON_TAPE, n, 0) : KILN_OK;
}

kiln_status replayed_outer(struct recorder *r, int32_t value, int32_t there)
{
    return find(r->outer, there)->state == WITHOUT_GRADIENT ? KILN_OK : set(r, value, WITHOUT_NODE, NULL, 0);
}

kiln_status replayed_operand(struct recorder *r, const kiln_tensor *t, int32_t *value)
{
    const struct replayed *is = find(r, *value);
    struct tape_edge e = place_in_function(r, t);
    if (!e.node && is->state == WITHOUT_GRADIENT) return KILN_OK;
    if (e.node && is->node == e.node && is->out == e.out) return KILN_OK;
    int32_t values[] = {*value, e.node ? value_at(r, &e) : -1};
    if (e.node && values[1] < 0) {
        r->is_unlike_replay = true;
        return KILN_OK;
    }
    const struct ir_value *v = &r->sink.builder.graph->values.v[*value];
    const struct type *types[] = {&v->type, values[1] < 0 ? NULL : &r->sink.builder.graph->values.v[values[1]].type};
    struct op_call c = {.op = &op_instances[OP_at_place], .n_in = 2, .n_out = 1, .in = types, .out = {v->type}};
    *value = ir_add_node(r->sink.builder.graph, &c, values, 0);
    if (*value < 0) return error_pending;
    return e.node ? set(r, *value, ON_TAPE, e.node, e.out) : KILN_OK;
}

kiln_status replayed_operands(struct recorder *r, int n_in, kiln_tensor *const *in, int32_t *values)
{
    if (r->replayed.n == 0 || thread_state.no_grad) return KILN_OK;
    for (int i = 0; i < n_in; i++)
        if (in[i] && in[i]->builder) TRY(replayed_operand(r, in[i], &values[i]));
    return KILN_OK;
}

kiln_status replayed_results(struct recorder *r, const struct op_call *c, const int32_t *values,
                             kiln_tensor *const *out)
{
    bool on_tape = false;
    for (int i = 0; i < c->n_in; i++) on_tape |= find(r, values[i])->state != WITHOUT_GRADIENT;
    for (int i = 0; i < c->n_out && on_tape; i++) {
        bool has_node = node_requires_grad(out[i]->node);
        if (dtype_has_gradient(out[i]->type.dtype))
            TRY(set(r, out[i]->value, has_node ? ON_TAPE : WITHOUT_NODE, has_node ? out[i]->node : NULL,
                    out[i]->node_out));
    }
    return KILN_OK;
}

void replayed_finish(struct recorder *r)
{
    for (size_t i = 0; i < r->replayed.n; i++) node_unref(r->replayed.v[i].node);
    vec_free(&r->replayed);
    node_map_finish(&r->latest);
}
