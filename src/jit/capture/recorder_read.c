// Reads by the host while a function is captured.
//
// Constants have values. A value of the graph has one if all that it is made of is constant, or, in a trace, from the
// tensors of the call that is being recorded; then the nodes that it needs are run.
#include "jit/capture/recorder.h"
#include "jit/capture/replay.h"
#include "tensor/draw.h"
#include <stdlib.h>

// Constants are printed at once.
static kiln_status unknown_value(const struct recorder *r)
{
    return error_set(
        KILN_E_STATE,
        "the value depends on an input of %s, which is being captured and has no values yet; choose by kiln_where or "
        "kiln_cond, give it to kiln_host_call, return the value and read it outside, or capture with "
        "KILN_CAPTURE_AUTO",
        r->name);
}

// Marks what `value` is made of; false when that includes inputs (unless they may be read) or random numbers.
static bool mark_cone(const struct recorder *r, int32_t value, uint8_t *needed)
{
    const struct kiln_graph *g = r->sink.builder.graph;
    bool known = true;
    needed[value] = 1;
    for (size_t i = g->values.n; i-- > 0;) {
        const struct ir_value *v = &g->values.v[i];
        if (!needed[i]) continue;
        known &= v->kind != IR_INPUT || r->traces;
        if (v->kind != IR_NODE) continue;
        const struct ir_node *n = &g->nodes.v[v->node];
        bool draws = n->op->flags & OP_RANDOM;
        for (int k = 0; k < n->n_regions; k++) draws |= ir_region_draws(g, n->first_region + k);
        known &= !(n->op->flags & OP_EFFECT) && !ir_node_has_effect(g, n) && (!draws || r->traces);
        for (int k = 0; k < n->n_in; k++)
            if (ir_operands(g, n)[k] >= 0) needed[ir_operands(g, n)[k]] = 1;
    }
    return known;
}

static kiln_status check_known(const struct recorder *r, int32_t value)
{
    uint8_t *needed = calloc(r->sink.builder.graph->values.n + 1, 1);
    if (!needed) return error_set(KILN_E_MEMORY, "jit: out of memory");
    bool known = mark_cone(r, value, needed);
    free(needed);
    return known ? KILN_OK : unknown_value(r);
}

static kiln_status evaluate_value(struct recorder *r, int32_t value, kiln_tensor **out)
{
    const struct kiln_graph *g = r->sink.builder.graph;
    kiln_tensor **in = calloc(r->sources.n + 1, sizeof *in);
    uint8_t *needed = calloc(g->values.n + 1, 1);
    kiln_status status = in && needed ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    if (!status) mark_cone(r, value, needed);
    for (size_t i = 0; i < r->sources.n && !status; i++)
        if (needed[r->sources.v[i].value]) status = r->input_value(r, &r->sources.v[i], &in[i]);
    struct rng rng = {0, 0};
    if (r->dev) rng = draw_take(r->dev, 0);
    if (!status) status = graph_evaluate(g, r->dev, in, &rng, 1, &value, out);
    free(in);
    free(needed);
    return status;
}

// For what the library itself asks, in the midst of a capture.
kiln_status recorder_known_value(struct sink *s, const char *op, kiln_tensor *t, kiln_tensor **out)
{
    struct recorder *r = recorder_of(s);
    if (is_number(t) || recorder_is_constant(r, t)) return (*out = kiln_alias(t)) ? KILN_OK : error_pending;
    if (!r->input_value)
        return error_set(KILN_E_UNSUPPORTED,
                         "%s: spec is NULL, and in a region of %s nothing tells what it gives; declare it", op,
                         r->name);
    TRY(recorder_resolve(r, op, t, &t));
    TRY(variable_refresh(r, t));
    thread_state.sink = NULL;
    thread_state.no_grad++;
    kiln_status status = evaluate_value(r, t->value, out);
    thread_state.no_grad--;
    thread_state.sink = s;
    return status;
}

// The host reads a value: constants, and in a trace the values of this call, are known.
static kiln_status read_value(struct recorder *r, kiln_tensor *t, kiln_tensor **real)
{
    struct sink *sink = thread_state.sink;
    kiln_tensor *known = NULL;
    TRY(variable_refresh(r, t));
    int32_t value = t->value;
    thread_state.sink = NULL;
    thread_state.no_grad++;
    kiln_status status = evaluate_value(r, value, &known);
    thread_state.no_grad--;
    thread_state.sink = sink;
    TRY(status);
    kiln_own(known);
    if (vec_push(&r->known, known)) {
        tensor_destroy(known);
        return error_pending;
    }
    *real = known;
    return KILN_OK;
}

kiln_status recorder_force(struct sink *s, kiln_tensor *t, kiln_tensor **real)
{
    struct recorder *r = recorder_of(s);
    if (is_number(t)) return KILN_OK;
    if (recorder_is_constant(r, t)) {
        if (r->syntax == KILN_SYNTAX_LAX) return KILN_OK;
        return error_set(KILN_E_STATE,
                         "%s is captured with KILN_SYNTAX_STRICT, which reads no values, not those of "
                         "constants either",
                         r->name);
    }
    kiln_tensor *now = t;
    if (!t->builder && !recorder_find(r, t) && !recorder_leaf_of(t)) return recorder_refuse(r, "read", t);
    for (size_t i = 0; i < r->sources.n; i++)
        if (t->builder && r->sources.v[i].kind == SOURCE_NUMBER && r->sources.v[i].value == t->value)
            r->must_be_constant = (int)r->sources.v[i].input;
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_status status = recorder_resolve(r, "read", t, &now);
    if (!status) status = variable_refresh(r, now);
    if (!status) status = r->syntax == KILN_SYNTAX_STRICT ? unknown_value(r) : check_known(r, now->value);
    if (!status) status = read_value(r, now, real);
    scope_leave(&scope, NULL, 0);
    return status;
}
