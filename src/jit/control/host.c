// kiln_host_call: checks, what runs, and the tape.
#include "jit/control/host.h"
#include "base/caller.h"
#include "grad/registry.h"
#include "grad/state.h"
#include "grad/tape.h"
#include "ir/regions.h"
#include "jit/control/region.h"
#include "tensor/flow.h"
#include <kiln/host.h>
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

enum { ALL_FLAGS = KILN_HOST_PURE | KILN_HOST_READS | KILN_HOST_WRITES | KILN_HOST_IO };

// Behind the results stand the inputs as fn has written them.
static size_t count_written(const struct host_call *h, size_t n_in)
{
    return h->flags & KILN_HOST_WRITES ? n_in : 0;
}

// --- on the tape

static const char *const value_names[] = {"value"};
static const struct op tape_op = {
    .name = "host_call", .flags = OP_HIDDEN | OP_VARIADIC, .max_in = 255, .n_out = 1, .in_names = value_names};

static void drop_call(void *held)
{
    host_call_unref(held);
}

// What a bundle owns of the user's, the rule's data say, lives as long as the node.
static kiln_status hold_form(struct tape_node *n, const struct host_call *h)
{
    if (!h->form) return KILN_OK;
    if (!(n->held = host_call_get(h))) return error_pending;
    n->drop = drop_call;
    return KILN_OK;
}

static kiln_status make_node(const struct host_call *h, kiln_tensor *const *in, size_t n_in, kiln_tensor *const *out,
                             const struct grad_rule *rule)
{
    struct tape_node *n;
    struct tape_edge edges[UINT8_MAX];
    const struct type *types[UINT8_MAX];
    struct type made[UINT8_MAX];
    for (size_t i = 0; i < n_in; i++) {
        TRY(tape_current(in[i], &edges[i]));
        types[i] = &in[i]->type;
    }
    for (int i = 0; i < h->n_out; i++) made[i] = h->out[i];
    TRY(tape_node_make(&tape_op, (int)n_in, edges, types, NULL, h->n_out, made, NULL, &n));
    n->rule = rule;
    kiln_status status = hold_form(n, h);
    if (status) {
        node_unref(n);
        return status;
    }
    for (size_t i = 0; i < n_in; i++) tape_keep(n, (int)i, in[i]);
    for (int i = 0; i < h->n_out; i++) {
        tape_keep(n, (int)n_in + i, out[i]);
        if (i < h->n_out - (int)count_written(h, n_in) && dtype_kind_of[h->out[i].dtype] == KIND_FLOAT)
            tape_set_node(out[i], n, (uint32_t)i);
    }
    node_unref(n);
    return KILN_OK;
}

static kiln_status without_rule(const struct host_call *h)
{
    char place[CALLER_TEXT_MAX];
    struct sink *s = thread_state.sink;
    host_call_where(h, place, sizeof place);
    if (s && s->capture && s->capture->is_strict && s->capture->is_strict(s))
        return error_set(KILN_E_GRADIENT,
                         "host_call: at %s an input requires a gradient and there is no rule; with KILN_SYNTAX_STRICT "
                         "that is an error",
                         place);
    log_warn("host_call at %s has no rule: no gradient goes through it", place);
    return KILN_OK;
}

kiln_status host_call_place(const struct host_call *h, kiln_tensor *const *in, size_t n_in, kiln_tensor *const *out)
{
    bool wanted = false;
    for (size_t i = 0; i < n_in && !thread_state.no_grad; i++) {
        struct tape_edge edge;
        TRY(tape_current(in[i], &edge));
        wanted |= node_requires_grad(edge.node);
    }
    if (!wanted || h->n_out == (int)count_written(h, n_in)) return KILN_OK;
    if (!h->rule) return without_rule(h);
    const struct grad_rule *rule = grad_rule_for((kiln_bprop_fn)h->rule, h->user);
    return rule ? make_node(h, in, n_in, out, rule) : error_pending;
}

// --- what runs

static const char *name_value(const struct host_call *h, bool is_input, size_t i, char *text, size_t size_B)
{
    if (h->kind->name_value && h->kind->name_value(h, is_input, i, text, size_B)) return text;
    snprintf(text, size_B, is_input ? "in[%zu]" : "output %zu", i);
    return text;
}

const char *host_call_name_input(const struct host_call *h, size_t i, char *text, size_t size_B)
{
    return name_value(h, true, i, text, size_B);
}

const char *host_call_name_output(const struct host_call *h, size_t i, char *text, size_t size_B)
{
    return name_value(h, false, i, text, size_B);
}

const char *host_call_who_says(const struct host_call *h)
{
    return h->flags & HOST_UNDECLARED ? "the capture learnt" : "spec says";
}

kiln_status host_call_take_as_f64(kiln_tensor **out)
{
    kiln_tensor *t = (*out)->type.dtype == KILN_F64 && !(*out)->type.weak ? *out : kiln_cast(*out, KILN_F64);
    if (!t) return error_pending;
    *out = t;
    return KILN_OK;
}

static kiln_status check_result(const struct host_call *h, kiln_device *dev, int i, const kiln_tensor *t)
{
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX], at[32], name[HOST_NAME_MAX];
    host_call_name_output(h, (size_t)i, name, sizeof name);
    if (t->storage && dev && t->storage->dev != dev)
        return error_set(KILN_E_DEVICE_MISMATCH, "host_call: %s of fn lies on %s, its inputs on %s", name,
                         t->storage->dev->name, dev->name);
    if (type_equal(&t->type, &h->out[i])) return KILN_OK;
    kiln_status code = type_difference(&t->type, &h->out[i], at, sizeof at);
    return error_set(code, "host_call: %s of fn is %s, %s %s: they differ %s%s", name, type_text(&t->type, a, sizeof a),
                     host_call_who_says(h), type_text(&h->out[i], b, sizeof b), at,
                     h->flags & HOST_UNDECLARED ? "; declare the results, and capture each shape by itself" : "");
}

kiln_status host_call_run_fn(const struct host_call *h, const struct region *r, kiln_device *dev,
                             kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    char name[HOST_NAME_MAX];
    uint64_t *versions = calloc(n_in + 1, sizeof *versions);
    if (!versions) return error_set(KILN_E_MEMORY, "host_call: out of memory");
    for (size_t i = 0; i < n_in; i++) versions[i] = in[i]->storage ? in[i]->storage->version : 0;
    struct leave left;
    leave_push(&left, free, versions);
    kiln_status status = region_run(r, in, n_in, out, n_out);
    leave_pop(&left);
    for (size_t i = 0; i < n_in && !status; i++)
        if (in[i]->storage && in[i]->storage->version != versions[i] && !(h->flags & KILN_HOST_WRITES))
            status = error_set(KILN_E_ARGUMENT, "host_call: fn writes %s, and KILN_HOST_WRITES is not given",
                               host_call_name_input(h, i, name, sizeof name));
    for (size_t i = 0; i < n_out && !status; i++) {
        if (h->flags & HOST_UNDECLARED) status = host_call_take_as_f64(&out[i]);
        if (!status && !(h->flags & HOST_LEARNS)) status = check_result(h, dev, (int)i, out[i]);
    }
    free(versions);
    return status;
}

// An error in fn names the line of the call, whoever runs it.
static kiln_status name_call(const struct host_call *h)
{
    char place[CALLER_TEXT_MAX];
    struct error_record e, named;
    error_capture(&e);
    named = e;
    host_call_where(h, place, sizeof place);
    snprintf(named.text, sizeof named.text, "host_call at %s: %.800s", place, e.text);
    return error_raise(&named);
}

kiln_status host_call_run_region(const struct host_call *h, const struct region *r, kiln_device *dev,
                                 kiln_tensor *const *in, size_t n_in, kiln_tensor **out)
{
    size_t n_out = (size_t)h->n_out - count_written(h, n_in);
    kiln_status status = host_call_run_fn(h, r, dev, in, n_in, out, n_out);
    for (size_t i = n_out; i < (size_t)h->n_out && !status; i++)
        if (!(out[i] = kiln_alias(in[i - n_out]))) status = error_pending;
    return status ? name_call(h) : KILN_OK;
}

static kiln_status run(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                       kiln_tensor **out)
{
    const struct region r = {"host_call", "fn", (kiln_fn)h->fn, h->user};
    return host_call_run_region(h, &r, dev, in, n_in, out);
}

bool host_call_is_recorded(void)
{
    struct sink *s = thread_state.sink;
    return s && s->capture && s->capture->host;
}

static kiln_status call_at_once(const struct host_call *h, kiln_tensor *const *in, size_t n_in, kiln_tensor **out)
{
    kiln_device *dev = NULL;
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n_in && !status; i++) {
        status = tensor_force(in[i], h->kind->name); // a break of AUTO
        if (in[i]->storage && !dev) dev = in[i]->storage->dev;
    }
    if (!status) status = flow_call_host(h, dev, in, n_in, out);
    scope_leave(&scope, out, status ? 0 : (size_t)h->n_out);
    for (int i = 0; i < h->n_out && status; i++) out[i] = NULL;
    return status;
}

kiln_status host_call_take(const struct host_call *h, kiln_tensor *const *in, size_t n_in, kiln_tensor **out)
{
    struct sink *s = thread_state.sink;
    return host_call_is_recorded() ? s->capture->host(s, h, in, n_in, out) : call_at_once(h, in, n_in, out);
}

// --- the call

static kiln_status declare(struct host_request *q, const kiln_host_spec *spec)
{
    for (size_t i = 0; i < q->n_out; i++) {
        const kiln_host_spec *s = &spec[i];
        struct type *t = &q->types[i];
        if (s->rank > KILN_MAX_RANK || (s->rank && !s->dims))
            return error_set(KILN_E_ARGUMENT, "host_call: spec[%zu] has rank %zu%s", i, s->rank,
                             s->rank > KILN_MAX_RANK ? "" : " and no dims");
        if ((unsigned)s->dtype >= DTYPE_COUNT)
            return error_set(KILN_E_ARGUMENT, "host_call: spec[%zu].dtype is %d, no dtype", i, (int)s->dtype);
        *t = (struct type){.dtype = (uint8_t)s->dtype, .rank = (uint8_t)s->rank};
        for (size_t k = 0; k < s->rank; k++) {
            if (s->dims[k] < 0)
                return error_set(KILN_E_SHAPE, "host_call: spec[%zu].dims[%zu] is %lld", i, k, (long long)s->dims[k]);
            t->dims[k] = s->dims[k];
        }
    }
    return KILN_OK;
}

kiln_status host_request_learn(struct host_request *q, host_learn_fn *fn)
{
    struct sink *s = thread_state.sink;
    struct kiln_scope scope;
    kiln_tensor **room = calloc(q->n_in + q->n_out + 1, sizeof *room);
    if (!room) return error_set(KILN_E_MEMORY, "host_call: out of memory");
    struct leave left;
    leave_push(&left, free, room);
    scope_enter(&scope);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < q->n_in && !status; i++) status = s->capture->value(s, "host_call", q->in[i], &room[i]);
    const struct thread_state around = thread_state;
    thread_state.sink = NULL;
    thread_state.capture = 0;
    thread_state.no_grad = 1;
    if (!status) status = fn(q, room, room + q->n_in);
    struct kiln_scope *inner = thread_state.scope;
    thread_state = around;
    thread_state.scope = inner;
    scope_leave(&scope, NULL, 0);
    leave_pop(&left);
    free(room);
    return status;
}

static kiln_status learn_types(struct host_request *q, kiln_tensor *const *in, kiln_tensor **out)
{
    struct host_call h = q->h;
    const struct region r = {"host_call", "fn", (kiln_fn)h.fn, h.user};
    h.flags |= HOST_LEARNS;
    TRY(host_call_run_fn(&h, &r, NULL, in, q->n_in, out, q->n_out));
    for (size_t i = 0; i < q->n_out; i++) q->types[i] = out[i]->type;
    return KILN_OK;
}

kiln_status host_request_undeclared(struct host_request *q)
{
    struct sink *s = thread_state.sink;
    bool graph = host_call_is_recorded();
    q->h.flags |= HOST_UNDECLARED | (graph ? 0 : HOST_LEARNS);
    if (graph && s->capture->is_strict(s))
        return error_set(KILN_E_STATE, "host_call: spec is NULL; with KILN_SYNTAX_STRICT results are declared");
    return KILN_OK;
}

// Eagerly what fn gives tells the types.
static kiln_status find_types(struct host_request *q, const kiln_host_spec *spec)
{
    if (spec) return declare(q, spec);
    if (!q->n_out) return KILN_OK;
    TRY(host_request_undeclared(q));
    return host_call_is_recorded() ? host_request_learn(q, learn_types) : KILN_OK;
}

// What fn wrote into its inputs is the caller's.
static kiln_status give(struct host_request *q, kiln_tensor **out)
{
    for (size_t i = 0; i < q->n_out; i++)
        if (q->h.flags & HOST_LEARNS) q->types[i] = q->made[i]->type;
    if (!host_call_is_recorded()) TRY(host_call_place(&q->h, q->in, q->n_in, q->made));
    for (size_t i = q->n_out; i < (size_t)q->h.n_out; i++)
        if (q->made[i]->storage != q->in[i - q->n_out]->storage || q->made[i]->builder)
            TRY(kiln_assign(q->in[i - q->n_out], q->made[i]));
    for (size_t i = 0; i < q->n_out; i++) out[i] = q->made[i];
    return KILN_OK;
}

// What fn writes past the tape would leave an input, and all that shows its memory, the gradient of what was there.
// Where there may be a tape fn is given a copy, as in a graph, and what it leaves there is assigned.
static kiln_status given_to_fn(const struct host_request *q, kiln_tensor *in, kiln_tensor **given)
{
    struct tape_edge edge;
    *given = in;
    if (!(q->h.flags & KILN_HOST_WRITES) || thread_state.no_grad || host_call_is_recorded()) return KILN_OK;
    TRY(tape_current(in, &edge));
    if (!node_requires_grad(edge.node) && !in->family) return KILN_OK;
    kiln_no_grad_begin();
    *given = kiln_zeros_like(in);
    kiln_status status = *given ? kiln_assign(*given, in) : error_pending;
    kiln_no_grad_end();
    return status;
}

static kiln_status call(struct host_request *q)
{
    kiln_tensor *given[UINT8_MAX];
    for (size_t i = 0; i < q->n_in; i++) TRY(given_to_fn(q, q->in[i], &given[i]));
    return host_call_take(&q->h, given, q->n_in, q->made);
}

kiln_status host_request_take(struct host_request *q, kiln_tensor **out)
{
    struct kiln_scope scope;
    q->h.n_out = (int)(q->n_out + count_written(&q->h, q->n_in));
    for (size_t i = q->n_out; i < (size_t)q->h.n_out; i++) q->types[i] = q->in[i - q->n_out]->type;
    scope_enter(&scope);
    kiln_status status = call(q);
    if (!status) status = give(q, out);
    scope_leave(&scope, out, status ? 0 : q->n_out);
    for (size_t i = 0; i < q->n_out && status; i++) out[i] = NULL;
    return status;
}

static kiln_status check_lists(kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    char name[32];
    if (error_pending) return error_pending;
    for (size_t i = 0; out && i < n_out; i++) out[i] = NULL;
    if (n_in && !in) return error_set(KILN_E_ARGUMENT, "host_call: in is NULL, n_in is %zu", n_in);
    if (n_out && !out) return error_set(KILN_E_ARGUMENT, "host_call: out is NULL, n_out is %zu", n_out);
    for (size_t i = 0; i < n_in; i++) {
        snprintf(name, sizeof name, "in[%zu]", i);
        TRY(tensor_check("host_call", name, in[i]));
    }
    return KILN_OK;
}

kiln_status host_request_begin(struct host_request *q, const struct host_kind *kind, void (*fn)(void), void *user,
                               unsigned flags, kiln_bprop_fn rule)
{
    char name[HOST_NAME_MAX];
    bool pure = flags == KILN_HOST_PURE;
    size_t most = q->n_in + q->n_out;
    q->h = (struct host_call){.kind = kind,
                              .fn = fn,
                              .rule = (void (*)(void))rule,
                              .user = user,
                              .flags = flags,
                              .effect = !pure,
                              .folds = pure,
                              .text = "",
                              .form = q->form,
                              .caller = caller_find()};
    if (!fn) return error_set(KILN_E_ARGUMENT, "host_call: fn is NULL");
    if (most > UINT8_MAX)
        return error_set(KILN_E_ARGUMENT, "host_call: n_in is %zu, n_out is %zu; together %d are the most", q->n_in,
                         q->n_out, UINT8_MAX);
    if (flags & ~(unsigned)ALL_FLAGS) return error_set(KILN_E_ARGUMENT, "host_call: flags are %#x", flags);
    if (flags & KILN_HOST_PURE && !pure)
        return error_set(KILN_E_ARGUMENT, "host_call: flags are %#x: what is pure does nothing else", flags);
    for (size_t i = 0; i < q->n_in && flags & KILN_HOST_WRITES; i++)
        if (q->in[i]->type.weak)
            return error_set(KILN_E_ARGUMENT, "host_call: %s is a number, which cannot be written",
                             host_call_name_input(&q->h, i, name, sizeof name));
    q->types = calloc(most + 1, sizeof *q->types);
    q->made = calloc(most + 1, sizeof *q->made);
    q->h.out = q->types;
    return q->types && q->made ? KILN_OK : error_set(KILN_E_MEMORY, "host_call: out of memory");
}

void host_request_finish(struct host_request *q)
{
    free(q->types);
    free(q->made);
}

static void finish_request(void *at)
{
    host_request_finish(at);
}

kiln_status kiln_host_call(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, const kiln_host_spec *spec,
                           kiln_tensor **out, size_t n_out, unsigned flags, kiln_bprop_fn rule)
{
    static const struct host_kind kind = {.name = "host_call", .run = run};
    TRY(check_lists(in, n_in, out, n_out));
    struct host_request q = {.in = in, .n_in = n_in, .n_out = n_out};
    struct state_leave left;
    state_push(&left, finish_request, &q);
    kiln_status status = host_request_begin(&q, &kind, (void (*)(void))fn, user, flags, rule);
    if (!status) status = find_types(&q, spec);
    if (!status) status = host_request_take(&q, out);
    state_pop(&left);
    host_request_finish(&q);
    return status;
}
