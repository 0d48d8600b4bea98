// Calls of the host as nodes of a graph.
#include "base/caller.h"
#include "jit/control/host.h"
#include "jit/capture/recorder.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include "tensor/flow.h"
#include <stdlib.h>

static kiln_status add_node(struct recorder *r, const struct host_call *h, kiln_tensor **in, int32_t *values,
                            size_t n_in, kiln_tensor **out)
{
    struct kiln_graph *g = r->sink.builder.graph;
    struct attr attrs[OP_MAX_ATTRS] = {[AT_host_call_call] = attr_of_int(h->number)};
    struct op_call c = {
        .op = &op_instances[h->effect ? OP_host_call : OP_host_value], .n_in = (int)n_in, .attrs = attrs};
    for (size_t i = 0; i < n_in; i++) {
        TRY(recorder_value(r, in[i], &values[i]));
        if (in[i]->storage) TRY(recorder_show_constant(r, values[i], &in[i]));
    }
    TRY(replayed_operands(r, (int)n_in, in, values));
    int32_t first = ir_add_region_node(g, &c, values, NULL, h->caller, 0, 0);
    if (first < 0) return error_pending;
    for (int i = 0; i < h->n_out; i++)
        if (!(out[i] = variable_handle(r, &h->out[i], first + i))) return error_pending;
    c.n_out = h->n_out;
    TRY(host_call_place(h, in, n_in, out));
    return replayed_results(r, &c, values, out);
}

static bool is_folded(const struct recorder *r, const struct host_call *h, kiln_tensor *const *in, size_t n_in)
{
    bool all = h->folds && r->syntax == KILN_SYNTAX_LAX;
    for (size_t i = 0; i < n_in && all; i++) all = recorder_is_constant(r, in[i]);
    return all;
}

static kiln_status record(struct recorder *r, const struct host_call *h, kiln_tensor *const *in, size_t n_in,
                          kiln_tensor **out)
{
    kiln_tensor **resolved = calloc(n_in + 1, sizeof *resolved);
    int32_t *values = calloc(n_in + 1, sizeof *values);
    kiln_status status = resolved && values ? KILN_OK : error_set(KILN_E_MEMORY, "%s: out of memory", h->kind->name);
    for (size_t i = 0; i < n_in && !status; i++) status = recorder_resolve(r, h->kind->name, in[i], &resolved[i]);
    if (!status) status = add_node(r, h, resolved, values, n_in, out);
    free(resolved);
    free(values);
    return status;
}

kiln_status recorder_host(struct sink *s, const struct host_call *like, kiln_tensor *const *in, size_t n_in,
                          kiln_tensor **out)
{
    struct recorder *r = recorder_of(s);
    if (is_folded(r, like, in, n_in)) {
        TRY(flow_call_host(like, r->dev, in, n_in, out));
        for (int i = 0; i < like->n_out; i++)
            if (out[i]->storage) out[i]->storage->capture = r->capture; // as what the function makes of host data
        return KILN_OK;
    }
    struct host_call *h = host_call_get(like);
    if (!h) return error_pending;
    kiln_status status = vec_push(&r->hosts, h);
    if (status) {
        host_call_unref(h);
        return status;
    }
    struct kiln_scope scope;
    scope_enter(&scope);
    status = record(r, h, in, n_in, out);
    scope_leave(&scope, out, status ? 0 : (size_t)h->n_out);
    for (int i = 0; i < h->n_out && status; i++) out[i] = NULL;
    return status;
}

kiln_status recorder_take_hosts(struct recorder *r, struct recorder *from)
{
    while (from->hosts.n) {
        TRY(vec_push(&r->hosts, from->hosts.v[from->hosts.n - 1]));
        from->hosts.n--;
    }
    return KILN_OK;
}

static kiln_status ask(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                       kiln_tensor **out)
{
    (void)dev, (void)in, (void)n_in;
    out[0] = kiln_scalar(((double (*)(void *user))h->fn)(h->user));
    return out[0] ? KILN_OK : error_pending;
}

static kiln_tensor *number_of_node(struct recorder *r, double (*fn)(void *user), void *user)
{
    static const struct host_kind kind = {.name = "host_number", .advances = true, .run = ask};
    const struct type number = {.dtype = KILN_F64, .weak = true};
    const struct host_call h = {.kind = &kind,
                                .fn = (void (*)(void))fn,
                                .user = user,
                                .effect = true,
                                .text = "",
                                .out = &number,
                                .n_out = 1,
                                .caller = caller_find()};
    kiln_tensor *t;
    return recorder_host(&r->sink.base, &h, NULL, 0, &t) ? NULL : t;
}

// In a region it is asked for as often as that runs, and behind another effect after that one.
kiln_tensor *recorder_host_number(struct recorder *r, double (*fn)(void *user), void *user)
{
    bool of_call = !r->outer;
    for (size_t i = 0; i < r->hosts.n && of_call; i++) of_call = !r->hosts.v[i]->effect;
    return of_call ? recorder_number_of_call(r, fn, user) : number_of_node(r, fn, user);
}
