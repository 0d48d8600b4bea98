// A function is recorded for what it would do. As a trace it may read values: those of the tensors that it is given.
#include "jit/capture/sketch.h"
#include "jit/capture/capturing.h"
#include "jit/capture/region_gradient.h"
#include "jit/capture/region_loop.h"
#include "program/cost.h"
#include <stdlib.h>

static void finish(void *at)
{
    struct capturing *c = at;
    recorder_finish(&c->r);
    for (size_t i = 0; c->nodes && i < c->q->n_in; i++) node_unref(c->nodes[i]);
    free(c->source_of);
    free(c->inner); // the room of all lists
}

static kiln_status make_room(struct capturing *c)
{
    size_t n_in = c->q->n_in;
    void **room = calloc(2 * n_in + c->q->n_out + 1, sizeof *room);
    c->source_of = calloc(n_in + 1, sizeof *c->source_of);
    c->inner = (kiln_tensor **)room;
    if (!room || !c->source_of) return error_set(KILN_E_MEMORY, "%s: out of memory", c->q->name);
    c->nodes = (struct tape_node **)(room + n_in);
    c->made = c->inner + 2 * n_in;
    return KILN_OK;
}

static kiln_status input_value(struct recorder *r, const struct source *s, kiln_tensor **out)
{
    const struct capture_request *q = r->user;
    return source_tensor(s, q->in, out);
}

static kiln_status record(struct capturing *c)
{
    const struct capture_request *q = c->q;
    TRY(capture_add_inputs(c));
    kiln_status status = state_call(q->fn, q->user, c->inner, q->n_in, c->made, q->n_out);
    if (error_pending) return error_pending;
    return status ? error_set(status, "%s failed with %s", q->name, kiln_status_name(status)) : KILN_OK;
}

kiln_status sketch_run(const char *name, kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, size_t n_out)
{
    static const struct flow_ops flow = {.branches = capture_branches, .loop = capture_loop};
    struct capture_request q = {.fn = fn, .user = user, .name = name, .in = in, .n_in = n_in, .n_out = n_out};
    struct capturing c = {.q = &q};
    if (recorder_current()) return error_set(KILN_E_STATE, "%s: is asked for inside of a capture", name);
    for (size_t i = 0; i < n_in; i++) TRY(tensor_check_any(name, "x", in[i]));
    TRY(recorder_init(&c.r, name, KILN_CAPTURE_TRACE, KILN_SYNTAX_LAX));
    c.r.sink.base.flow = &flow;
    c.r.types_alone = c.r.traces = true;
    c.r.input_value = input_value;
    c.r.user = &q;
    kiln_status status = make_room(&c);
    struct state_leave left;
    state_push(&left, finish, &c);
    struct recorder_switch before = recorder_enter(&c.r);
    scope_enter(&c.scope);
    thread_state.no_grad++;
    if (!status) status = record(&c);
    thread_state.no_grad--;
    scope_leave(&c.scope, NULL, 0);
    recorder_leave(&before);
    state_pop(&left);
    finish(&c);
    return status;
}

static const struct kiln_graph *graph_now(void)
{
    const struct recorder *r = recorder_current();
    return r ? r->sink.builder.graph : NULL;
}

size_t sketch_nodes(void)
{
    const struct kiln_graph *g = graph_now();
    return g ? g->nodes.n : 0;
}

double sketch_flops(size_t first)
{
    const struct kiln_graph *g = graph_now();
    return g ? cost_flops_from(g, first) : 0;
}
