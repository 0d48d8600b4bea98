// Capturing: the function runs once, on abstract tensors, under the recorder.
//
// Input: a function and the tensors of a call. Output: a graph with its sources (capture_input.c), what of it is a
// result, a gradient or a write (capture_result.c), and the backward graph (gradient.c). All of it outlives the
// recorder; a capture that fails leaves nothing.
#include "device/profile.h"
#include "jit/capture/capturing.h"
#include "jit/capture/region_gradient.h"
#include "jit/capture/region_loop.h"
#include <stdlib.h>

static kiln_status call_function(struct capturing *c)
{
    struct capture_request *q = c->q;
    if (q->run) TRY(bundle_run(q->run, c->inner, q->n_in));
    if (q->run) q->n_out = q->run->made.n;
    c->made = calloc(q->n_out + 1, sizeof *c->made);
    if (!c->made) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < q->n_out && q->run; i++) c->made[i] = q->run->made.v[i];
    if (q->run) return bundle_result_copy(&q->run->result, &c->out->form);
    kiln_status status = state_call(q->fn, q->user, c->inner, q->n_in, c->made, q->n_out);
    if (error_pending) return error_pending;
    if (status) return error_set(status, "call: %s failed with %s", q->name, kiln_status_name(status));
    for (size_t i = 0; i < q->n_out; i++) TRY(captured_check_output(q->name, i, q->n_out, c->made[i]));
    return KILN_OK;
}

// What it reads of bundles is as constant as they are.
static kiln_status call_watched(struct capturing *c)
{
    bundle_watch_begin(&c->watch);
    kiln_status status = call_function(c);
    bundle_watch_end(&c->watch);
    c->out->bundles = c->watch.seen.v;
    c->out->n_bundles = c->watch.seen.n;
    return status;
}

// What the program needs outlives the recorder.
static kiln_status take_over(struct capturing *c, struct captured *out)
{
    out->constants = calloc(c->r.constants.n + 1, sizeof *out->constants);
    if (!out->constants) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < c->r.constants.n; i++) {
        out->constants[out->n_constants++] = c->r.constants.v[i].tensor;
        c->r.constants.v[i].tensor = NULL;
    }
    out->dev = c->r.dev ? c->r.dev : device_default();
    if (!out->dev) return error_pending;
    for (size_t i = 0; i < c->r.sources.n; i++)
        c->r.sources.v[i].written = c->r.variables.v[c->r.sources.v[i].variable].written > 0;
    out->asks_sharing = c->r.asks_sharing;
    out->sources = c->r.sources.v;
    out->n_sources = c->r.sources.n;
    out->happened = c->r.happened.v;
    out->n_happened = c->r.happened.n;
    c->r.happened.v = NULL;
    c->r.happened.n = c->r.happened.cap = 0;
    out->gradient_steps = c->r.gradient_steps.v;
    out->n_gradient_steps = c->r.gradient_steps.n;
    c->r.gradient_steps.v = NULL;
    c->r.gradient_steps.n = c->r.gradient_steps.cap = 0;
    out->leaves = c->r.leaves.v;
    out->n_leaves = c->r.leaves.n;
    c->r.leaves.v = NULL;
    c->r.leaves.n = c->r.leaves.cap = 0;
    out->counters = c->r.random_counters;
    for (size_t i = 0; i < out->n_sources; i++) {
        if (out->sources[i].gradient) tensor_destroy(out->sources[i].gradient);
        out->sources[i].gradient = NULL;
        node_unref(out->sources[i].place);
        out->sources[i].place = NULL;
    }
    c->r.sources.v = NULL;
    c->r.sources.n = c->r.sources.cap = 0;
    c->r.sink.builder.graph = NULL;
    return KILN_OK;
}

static kiln_status record(struct capturing *c, struct captured *out)
{
    scope_enter(&c->scope);
    c->since = node_sequence();
    kiln_status status = capture_add_inputs(c);
    c->until = node_sequence();
    if (!status) status = call_watched(c);
    if (!status && c->r.conflict.storage)
        status = error_set(KILN_E_STATE, "call: %s hid an error of its capture", c->q->name);
    out->source_of = c->source_of;
    c->source_of = NULL;
    if (!status) recorder_tell_unrolled(&c->r);
    if (!status) status = capture_collect(c, out);
    if (!status) status = gradient_make(&c->r, out, c->q->in, c->q->n_in, c->made, c->nodes, c->since, c->until);
    scope_leave(&c->scope, NULL, 0);
    return status ? status : take_over(c, out);
}

static kiln_status real_input(struct recorder *r, const struct source *s, kiln_tensor **out)
{
    const struct capture_request *q = r->user;
    return source_tensor(s, q->in, out);
}

// The function was left.
static void leave_recorder(void *at)
{
    struct capturing *c = at;
    bundle_watch_end(&c->watch);
    c->out->bundles = c->watch.seen.v;
    c->out->n_bundles = c->watch.seen.n;
    scope_leave(&c->scope, NULL, 0);
    thread_state.sink = c->sink;
    thread_state.capture = c->capture;
    c->r.conflict.storage = NULL;
    if (c->out->graph == c->r.sink.builder.graph) c->out->graph = NULL;
    recorder_finish(&c->r);
}

static const struct flow_ops capture_flow = {.branches = capture_branches, .loop = capture_loop};

static kiln_status capture_with(struct capturing *c, struct captured *out)
{
    struct leave left;
    c->sink = thread_state.sink;
    c->capture = thread_state.capture;
    TRY(recorder_init(&c->r, c->q->name, c->q->kind, c->q->syntax));
    c->r.sink.base.flow = &capture_flow;
    c->r.max_nodes = c->q->max_nodes;
    c->r.input_value = real_input;
    c->r.user = c->q;
    c->r.traces = c->q->kind == KILN_CAPTURE_TRACE;
    c->r.joined = c->q->joined;
    c->r.n_joined = c->q->n_joined;
    thread_state.sink = &c->r.sink.base;
    thread_state.capture = c->r.capture;
    leave_push(&left, leave_recorder, c);
    kiln_status status = record(c, out);
    leave_pop(&left);
    thread_state.sink = c->sink;
    thread_state.capture = c->capture;
    c->q->must_be_constant = c->r.must_be_constant;
    c->q->conflict = c->r.conflict;
    c->r.conflict.storage = NULL;
    out->hosts = c->r.hosts.v; // of the gradient, too
    out->n_hosts = c->r.hosts.n;
    c->r.hosts.v = NULL;
    c->r.hosts.n = c->r.hosts.cap = 0;
    if (status && out->graph == c->r.sink.builder.graph) out->graph = NULL;
    recorder_finish(&c->r);
    return status;
}

static void finish_capturing(struct capturing *c)
{
    for (size_t i = 0; i < c->q->n_in; i++) node_unref(c->nodes[i]);
    free(c->source_of);
    free(c->inner); // the room of all other lists
    free(c->made);
}

static void drop_captured(void *at)
{
    struct capturing *c = at;
    captured_finish(c->out);
    finish_capturing(c);
}

kiln_status capture_run(struct capture_request *q, struct captured *out)
{
    struct capturing c = {.q = q};
    PROFILE("capture", q->name);
    *out = (struct captured){0};
    q->must_be_constant = -1;
    if (q->origin) return q->origin->captured(q->origin->user, q, out);
    void **room = calloc(2 * q->n_in + 1, sizeof *room);
    c.source_of = malloc(sizeof *c.source_of * (q->n_in + 1));
    if (!room || !c.source_of) {
        free(room);
        free(c.source_of);
        return error_set(KILN_E_MEMORY, "jit: out of memory");
    }
    for (size_t i = 0; i < q->n_in; i++) c.source_of[i] = -1;
    c.inner = (kiln_tensor **)room;
    c.nodes = (struct tape_node **)(room + q->n_in);
    c.out = out;
    struct leave left;
    leave_push(&left, drop_captured, &c);
    kiln_status status = capture_with(&c, out);
    leave_pop(&left);
    if (status) captured_finish(out);
    finish_capturing(&c);
    return status;
}

// Here and not beside it: a program that is linked with the archive has this file where it captures.
__attribute__((constructor)) static void install(void)
{
    control_rows = loop_rows;
}
