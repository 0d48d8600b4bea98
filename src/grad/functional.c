// kiln_grad and kiln_value_and_grad: gradients of a function at its inputs.
//
// The function runs on handles of its own. Each input that is differentiated, or that depends on a tape outside, gets
// an INPUT node: the backward of this call ends there, and the tape outside, if one records, goes on through it.
// Without a tape outside nothing of this call's tape is left; with one, the backward is itself recorded and the tape
// stays, which is how orders nest.
#include "base/caller.h"
#include "base/thread.h"
#include "grad/backward.h"
#include "grad/bundle.h"
#include "grad/state.h"
#include "base/options.h"
#include "grad/fit.h"
#include "grad/run.h"
#include "tensor/apply.h"
#include "tensor/reach.h"
#include <kiln/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static THREAD_LOCAL int depth;

bool grad_is_nested(void)
{
    return depth > 0;
}

struct call {
    const char *name;
    kiln_fn fn;
    void *user;
    kiln_tensor *const *in;
    size_t n_in, n_wrt, n_out, n_differentiated;
    kiln_grad_opts o;
    int64_t first;              // the wrt of a call without one
    bool outside;               // a tape outside sees this call
    bool no_grad;               // the caller wants no tape
    bool cut;                   // the results depend on leaves by a tape that is not kept
    struct grad_bundle *bundle; // fn takes and gives one; NULL: tensors
    uint64_t since, inputs_until;
    kiln_tensor **from;       // n_in: the inputs, as the capture in progress has them
    kiln_tensor **inner;      // n_in: the handles the function gets
    kiln_tensor **out;        // n_out: what it gave
    kiln_tensor **list;       // of a bundle: room for the results
    kiln_tensor **grads;      // n_wrt + params
    kiln_tensor **room;       // of these
    uint64_t *versions;       // n_in: of what is given
    struct tape_node **nodes; // n_wrt: references, then those of params
    struct tape_node **also;  // of the outputs that are not differentiated
};

static kiln_status check_wrt(struct call *c)
{
    if (!c->o.wrt.count && !c->o.params.count) {
        if (!c->n_in)
            return error_set(KILN_E_ARGUMENT,
                             "%s: fn has no inputs and no .params are given: nothing to differentiate by", c->name);
        c->o.wrt = (kiln_ints){1, &c->first};
    }
    for (size_t i = 0; i < c->o.wrt.count; i++) {
        int64_t v = c->o.wrt.v[i];
        if (v < 0 || v >= (int64_t)c->n_in)
            return error_set(KILN_E_ARGUMENT, "%s: .wrt names input %lld, fn has %zu", c->name, (long long)v, c->n_in);
        for (size_t k = 0; k < i; k++)
            if (c->o.wrt.v[k] == v)
                return error_set(KILN_E_ARGUMENT, "%s: .wrt names input %lld twice", c->name, (long long)v);
    }
    for (size_t i = 0; i < c->o.params.count; i++) {
        kiln_tensor *p = c->o.params.v[i];
        TRY(tensor_check_any(c->name, ".params", p));
        if (!p->node || p->node->kind != NODE_LEAF || !p->node->leaf->requires_grad)
            return error_set(KILN_E_ARGUMENT, "%s: .params entry %zu is no parameter that requires a gradient", c->name,
                             i);
        for (size_t k = 0; k < i; k++)
            if (c->o.params.v[k]->node == p->node)
                return error_set(KILN_E_ARGUMENT, "%s: .params has %s twice", c->name, node_name(p->node));
    }
    for (size_t i = 0; i < c->o.wrt.count; i++)
        TRY(tensor_check_numbers(c->name, "an input to differentiate by", c->in[c->o.wrt.v[i]]));
    c->n_wrt = c->o.wrt.count;
    return KILN_OK;
}

static kiln_status check(struct call *c, const kiln_grad_opts *opts, kiln_tensor **results, size_t n_results,
                         bool values)
{
    TRY(options_read_as(c->name, "KILN_GRAD", &c->o, sizeof c->o, opts));
    if (!c->fn && !c->bundle) return error_set(KILN_E_ARGUMENT, "%s: fn is NULL", c->name);
    if (c->n_in && !c->in) return error_set(KILN_E_ARGUMENT, "%s: in is NULL", c->name);
    for (size_t i = 0; i < c->n_in; i++) TRY(tensor_check_any(c->name, "in", c->in[i]));
    const char *null = c->o.wrt.count && !c->o.wrt.v         ? ".wrt"
                       : c->o.params.count && !c->o.params.v ? ".params"
                       : c->o.sens.count && !c->o.sens.v     ? ".sens"
                                                             : NULL;
    if (null) return error_set(KILN_E_ARGUMENT, "%s: the list %s is NULL", c->name, null);
    TRY(check_wrt(c));
    if (c->bundle) return KILN_OK; // the rest is known when it has run
    c->n_out = c->o.outputs ? c->o.outputs : 1;
    c->n_differentiated = c->o.has_aux ? 1 : c->n_out;
    if (c->o.sens.count && c->o.sens.count != c->n_differentiated)
        return error_set(KILN_E_SHAPE, "%s: sens size should be same as output: %zu are given for %zu", c->name,
                         c->o.sens.count, c->n_differentiated);
    size_t expected = c->n_wrt + c->o.params.count + (values ? c->n_out : c->n_out - c->n_differentiated);
    if (expected != n_results || !results)
        return error_set(KILN_E_ARGUMENT, "%s: the call has %zu results, room is given for %zu", c->name, expected,
                         results ? n_results : 0);
    return KILN_OK;
}

static bool is_wrt(const struct call *c, size_t i)
{
    for (size_t k = 0; k < c->n_wrt; k++)
        if (c->o.wrt.v[k] == (int64_t)i) return true;
    return false;
}

// In a region of a capture an abstract value of the capture around is from outside, too.
static kiln_tensor *as_captured(kiln_tensor *t)
{
    bool outside = t->storage || (t->builder && t->capture != thread_state.capture);
    struct sink *s = outside ? thread_state.sink : NULL;
    if (!s || !s->capture || !s->capture->show) return t;
    return s->capture->show(s, t, &t) ? NULL : t;
}

// The handle that fn gets for an input: the same value, a place of its own in the graph.
static kiln_tensor *inner_input(struct call *c, size_t i)
{
    kiln_tensor *from = c->from[i] = as_captured(c->in[i]);
    if (!from) return NULL;
    struct tape_edge outer = {NULL, 0};
    if (c->outside && tape_current(from, &outer)) return NULL;
    kiln_tensor *t = grad_second_handle(from);
    if (!t) return NULL;
    tape_set_node(t, NULL, 0);
    if ((!is_wrt(c, i) && !outer.node) || !dtype_has_gradient(from->type.dtype)) return t;
    struct tape_node *n = node_input(&from->type, &outer);
    if (!n) return NULL;
    tape_set_node(t, n, 0);
    node_unref(n);
    return t;
}

static bool overlap(const kiln_tensor *a, const kiln_tensor *b)
{
    return a->storage && a->storage == b->storage && layout_overlap(&a->type, &a->layout, &b->type, &b->layout);
}

// Each input has a place of its own on the tape, until fn writes through one: then all in that memory show it.
static kiln_status join_inputs(struct call *c)
{
    for (size_t i = 0; i < c->n_in; i++) {
        kiln_tensor *t = c->inner[i];
        struct sink *capture = tensor_capture(t);
        size_t k = 0;
        if (capture) {
            TRY(capture->capture->enter(capture, t, i, c->inner));
            continue;
        }
        while (k < i && !overlap(c->inner[k], t)) k++;
        if (k < i) TRY(family_join(c->inner[k], t));
    }
    return KILN_OK;
}

// What a function of bundles gives is known when it has run.
static kiln_status call_bundle_function(struct call *c)
{
    struct grad_bundle *b = c->bundle;
    TRY(bundle_run(&b->run, c->inner, c->n_in));
    size_t n_aux = 0;
    TRY(grad_bundle_aux(b, &n_aux));
    c->out = b->run.made.v;
    c->n_out = b->run.made.n;
    c->n_differentiated = c->n_out - n_aux;
    if (!c->n_differentiated) return error_set(KILN_E_ARGUMENT, "%s: fn gave no tensor to differentiate", c->name);
    if (c->o.sens.count && c->o.sens.count != c->n_differentiated)
        return error_set(KILN_E_SHAPE, "%s: sens size should be same as output: %zu are given for %zu", c->name,
                         c->o.sens.count, c->n_differentiated);
    c->list = calloc(c->n_out + c->n_wrt + c->o.params.count + 1, sizeof *c->list);
    return c->list ? KILN_OK : error_set(KILN_E_MEMORY, "%s: out of memory", c->name);
}

struct fn_place {
    char s[CALLER_TEXT_MAX + 32];
};

// "; it is the function at train.c:42"
static struct fn_place place_of(kiln_fn fn)
{
    struct fn_place p = {""};
    char line[CALLER_TEXT_MAX];
    if (!caller_is_library((uintptr_t)fn) && caller_describe((uintptr_t)fn, line, sizeof line))
        snprintf(p.s, sizeof p.s, "; it is the function at %s", line);
    return p;
}

static kiln_status call_function(struct call *c)
{
    if (c->bundle) return call_bundle_function(c);
    kiln_status status = state_call(c->fn, c->user, c->inner, c->n_in, c->out, c->n_out);
    if (error_pending) return error_pending;
    if (status)
        return error_set(status, "%s: fn failed with %s%s", c->name, kiln_status_name(status), place_of(c->fn).s);
    for (size_t i = 0; i < c->n_out; i++) {
        if (!c->out[i])
            return error_set(KILN_E_ARGUMENT, "%s: fn left output %zu of %zu NULL: set each out[i], or ask for fewer%s",
                             c->name, i, c->n_out, place_of(c->fn).s);
        TRY((i < c->n_differentiated ? tensor_check : tensor_check_any)(c->name, "an output of fn", c->out[i]));
    }
    return KILN_OK;
}

// What lies behind may lead to the parameters.
static kiln_status entry_error(const struct call *c)
{
    return error_set(KILN_E_UNSUPPORTED,
                     "%s: its function uses a tensor that depends on others outside of the capture, perhaps on one of "
                     ".params; give it by `in`, or use KILN_CAPTURE_AUTO",
                     c->name);
}

// One target an entry of wrt and params, in the order of the results. An input that fn overwrote still has its first
// node: the gradient is that of the value at entry.
static kiln_status run(struct call *c, struct tape_node **nodes)
{
    size_t n = c->n_wrt + c->o.params.count;
    for (size_t i = 0; i < c->o.params.count; i++) nodes[c->n_wrt + i] = c->o.params.v[i]->node;
    struct run r = {.create_graph = c->outside,
                    .since = c->since,
                    .inputs_until = c->inputs_until,
                    .n_targets = n,
                    .targets = nodes,
                    .captured = c->grads,
                    .only_new = c->o.params.count == 0,
                    .cuts = c->o.params.count > 0,
                    .n_also = c->n_out - c->n_differentiated};
    struct tape_node **also = c->also = r.n_also ? calloc(r.n_also, sizeof *also) : NULL;
    if (r.n_also && !also) return error_set(KILN_E_MEMORY, "%s: out of memory", c->name);
    for (size_t i = 0; i < r.n_also; i++) also[i] = c->out[c->n_differentiated + i]->node;
    r.also = also;
    kiln_status status = KILN_OK;
    int no_grad = thread_state.no_grad;
    for (size_t i = 0; i < c->n_differentiated && !status; i++) {
        struct tape_edge root;
        if (c->o.sens.count) status = backward_check_sens(c->name, (int)i, c->out[i], c->o.sens.v[i]);
        if (!status) status = tape_current(c->out[i], &root);
        if (!status && r.cuts && node_is_cut(c->out[i]->node)) status = node_cut_error(c->name, c->out[i]->node);
        if (status || !root.node) continue;
        thread_state.no_grad = !c->outside;
        kiln_tensor *sens = backward_root(c->out[i], c->o.sens.count ? c->o.sens.v[i] : NULL);
        thread_state.no_grad = no_grad;
        status = sens ? run_add(&r, &root, sens) : error_pending;
    }
    if (!status) status = run_backward(&r);
    if (!status && r.enters && c->o.params.count) status = entry_error(c);
    c->cut = r.is_outside;
    run_finish(&r);
    return status;
}

static kiln_tensor *zeros_for(const kiln_tensor *t)
{
    struct type type;
    grad_type_of(&t->type, &type);
    return kiln_zeros(t->storage ? t->storage->dev : NULL, (kiln_dtype)type.dtype, type.rank, type.dims);
}

static kiln_status differentiate(struct call *c)
{
    size_t n = c->n_wrt + c->o.params.count;
    struct tape_node **nodes = c->nodes = calloc(n + 1, sizeof *nodes);
    if (!nodes) return error_set(KILN_E_MEMORY, "%s: out of memory", c->name);
    kiln_status status = KILN_OK;
    c->since = node_sequence();
    for (size_t i = 0; i < c->n_in && !status; i++)
        if (!(c->inner[i] = inner_input(c, i))) status = error_pending;
    if (!status) status = join_inputs(c);
    c->inputs_until = node_sequence();
    for (size_t i = 0; i < c->n_wrt && !status; i++) nodes[i] = node_ref(c->inner[c->o.wrt.v[i]]->node);
    if (!status) status = call_function(c);
    if (!status) status = run(c, nodes);
    for (size_t i = 0; i < n && !status; i++) {
        const kiln_tensor *t = i < c->n_wrt ? c->in[c->o.wrt.v[i]] : c->o.params.v[i - c->n_wrt];
        if (!c->grads[i] && !(c->grads[i] = zeros_for(t))) status = error_pending;
    }
    return status;
}

// In a capture: the memory of an input that fn wrote has the place on the tape that fn left it with.
static kiln_status hand_back_variable(struct call *c, struct sink *capture, kiln_tensor *from, kiln_tensor *t)
{
    int32_t value = from->value;
    struct tape_edge before, after;
    TRY(tape_current(from, &before));
    bool leaf = before.node && before.node->kind == NODE_LEAF; // stays one, as after a write without gradients
    if (from->value == value || leaf) return KILN_OK;
    TRY(tape_current(t, &after));
    tape_set_node(from, c->outside ? after.node : NULL, after.out);
    return capture->capture->rebase(capture, from);
}

// What was a constant of the capture before fn wrote it.
static kiln_status hand_back_constant(const struct call *c, struct sink *capture, kiln_tensor *from)
{
    kiln_tensor *t = from;
    struct tape_edge after;
    TRY(capture->capture->show(capture, from, &t));
    if (!t->builder) return KILN_OK;
    TRY(tape_current(t, &after));
    tape_set_node(t, c->outside ? after.node : NULL, after.out);
    return capture->capture->rebase(capture, t);
}

// What fn wrote into an input is the value of the caller's tensor from now on; a tape outside has to know. A leaf stays
// a leaf: its memory has another value, as after a write without gradients.
static kiln_status hand_back_writes(struct call *c, const uint64_t *versions)
{
    for (size_t i = 0; i < c->n_in; i++) {
        struct tape_edge before, after;
        kiln_tensor *from = c->from[i], *t = c->inner[i];
        struct sink *capture = tensor_capture(from);
        if (capture) TRY(hand_back_variable(c, capture, from, t));
        struct sink *around =
            from->storage && thread_state.sink && thread_state.sink->capture ? thread_state.sink : NULL;
        if (around) TRY(hand_back_constant(c, around, from));
        if (!c->outside || !from->storage || from->storage->version == versions[i]) continue;
        TRY(tape_current(from, &before));
        TRY(tape_current(t, &after));
        if (family_is_of_leaf(from) || (before.node && before.node->kind == NODE_LEAF)) continue;
        if (before.node || from->family || after.node) TRY(family_written(from, &after));
    }
    return KILN_OK;
}

// What a result shows of the tape that was used up: whether there were ways to leaves.
static struct tape_node *node_of_result(const struct call *c, const kiln_tensor *t, bool is_gradient)
{
    bool cut = c->cut && !c->no_grad && (is_gradient || t->node) && dtype_kind_of[t->type.dtype] == KIND_FLOAT;
    return cut ? node_cut(c->name) : NULL;
}

static kiln_tensor *result_of(const struct call *c, bool values, size_t i)
{
    size_t n_first = values ? c->n_out : 0, n_grads = c->n_wrt + c->o.params.count;
    if (i < n_first) return c->out[i];
    i -= n_first;
    return i < n_grads ? c->grads[i] : c->out[c->n_differentiated + i - n_grads];
}

// What gradient i is by.
static const kiln_tensor *target_of(const struct call *c, size_t i)
{
    return i < c->n_wrt ? c->in[c->o.wrt.v[i]] : c->o.params.v[i - c->n_wrt];
}

// A result belongs to the caller: a handle of its own, without the tape that was used up.
static kiln_status collect(struct call *c, kiln_tensor **results, size_t n, bool values)
{
    size_t n_grads = c->n_wrt + c->o.params.count, first_grad = values ? c->n_out : 0;
    for (size_t i = 0; i < n; i++) {
        kiln_tensor *t = result_of(c, values, i);
        results[i] = grad_second_handle(t);
        if (!results[i]) return error_pending;
        bool is_gradient = i >= first_grad && i < first_grad + n_grads;
        if (is_gradient) tensor_show(results[i], target_of(c, i - first_grad)->shown);
        bool is_state = t->node && t->node->kind == NODE_LEAF && !node_requires_grad(t->node);
        if (!c->outside && !is_state) tape_set_node(results[i], node_of_result(c, t, is_gradient), 0);
    }
    return KILN_OK;
}

static kiln_status run_call(struct call *c, kiln_tensor **results, size_t n_results, bool values)
{
    size_t n_grads = c->n_wrt + c->o.params.count;
    kiln_tensor **room = c->room = calloc(2 * c->n_in + c->n_out + n_grads + 1, sizeof *room);
    uint64_t *versions = c->versions = calloc(c->n_in + 1, sizeof *versions);
    if (!room || !versions) return error_set(KILN_E_MEMORY, "%s: out of memory", c->name);
    c->inner = room;
    c->from = c->inner + c->n_in;
    c->grads = c->from + c->n_in;
    c->out = c->grads + n_grads;
    for (size_t i = 0; i < c->n_in; i++) versions[i] = c->in[i]->storage ? c->in[i]->storage->version : 0;
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_status status = differentiate(c);
    if (c->list) results = c->list;
    if (c->list) n_results = c->n_out + n_grads;
    if (!status) status = hand_back_writes(c, versions);
    if (!status) status = collect(c, results, n_results, values);
    scope_leave(&scope, results, status ? 0 : n_results);
    for (size_t i = 0; status && i < n_results; i++) results[i] = NULL;
    return status;
}

static void finish(void *at)
{
    struct call *c = at;
    depth--;
    for (size_t i = 0; i < c->n_wrt && c->nodes; i++) node_unref(c->nodes[i]);
    free(c->nodes);
    free(c->also);
    free(c->room);
    if (c->bundle) bundle_run_drop(&c->bundle->run);
    free(c->versions);
}

static void leave(void *at)
{
    struct call *c = at;
    finish(c);
    free(c->list);
    if (c->bundle) bundle_run_finish(&c->bundle->run);
}

static bool any_requires_grad(const struct call *c)
{
    for (size_t i = 0; i < c->n_in; i++)
        if (tensor_requires_grad(c->in[i])) return true;
    return false;
}

static kiln_status run_checked(struct call *c, const kiln_grad_opts *opts, kiln_tensor **results, size_t n_results,
                               bool values)
{
    if (error_pending) return error_pending;
    for (size_t i = 0; results && i < n_results; i++) results[i] = NULL;
    TRY(check(c, opts, results, n_results, values));
    int no_grad = thread_state.no_grad;
    struct state_leave left;
    c->outside = !no_grad && (c->o.create_graph || depth > 0 || any_requires_grad(c));
    state_push(&left, leave, c);
    thread_state.no_grad = 0;
    c->no_grad = no_grad > 0;
    depth++;
    kiln_status status = run_call(c, results, n_results, values);
    state_pop(&left);
    finish(c);
    thread_state.no_grad = no_grad;
    return status;
}

kiln_status kiln_grad(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, const kiln_grad_opts *opts,
                      kiln_tensor **grads, size_t n_grads)
{
    struct call c = {.name = "grad", .fn = fn, .user = user, .in = in, .n_in = n_in};
    return run_checked(&c, opts, grads, n_grads, false);
}

kiln_status kiln_value_and_grad(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, const kiln_grad_opts *opts,
                                kiln_tensor **results, size_t n_results)
{
    struct call c = {.name = "value_and_grad", .fn = fn, .user = user, .in = in, .n_in = n_in};
    return run_checked(&c, opts, results, n_results, true);
}

kiln_status grad_of_bundle(const char *name, struct grad_bundle *b, kiln_tensor *const *in, size_t n_in,
                           const kiln_grad_opts *opts)
{
    struct call c = {.name = name, .in = in, .n_in = n_in, .bundle = b};
    kiln_status status = run_checked(&c, opts, NULL, 0, true);
    b->results = c.list;
    b->n_results = status ? 0 : c.n_out + c.n_wrt + c.o.params.count;
    return status;
}
