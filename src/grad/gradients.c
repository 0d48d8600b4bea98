// kiln_gradients: gradients of one tensor by others on the tape.
#include "base/options.h"
#include "grad/backward.h"
#include "grad/fit.h"
#include "grad/run.h"
#include "grad/state.h"
#include <kiln/ops.h>
#include <stdlib.h>

struct query {
    kiln_gradients_opts o;
    bool create_graph;
    struct tape_edge root;
    size_t n;
    struct tape_node **nodes; // n: of what is differentiated by
    uint32_t *outs;           // n
    kiln_tensor **found;      // n
};

static kiln_status find_targets(struct query *q, kiln_tensor *const *wrt)
{
    for (size_t i = 0; i < q->n; i++) {
        struct tape_edge edge;
        TRY(tensor_check_numbers("gradients", "wrt", wrt[i]));
        TRY(tape_current(wrt[i], &edge));
        if (!edge.node) return error_set(KILN_E_GRADIENT, "gradients: wrt %zu requires no gradient", i);
        q->nodes[i] = edge.node;
        q->outs[i] = edge.out;
    }
    return KILN_OK;
}

static kiln_status run(struct query *q, const kiln_tensor *out)
{
    struct run r = {.keep = q->o.keep_tape,
                    .create_graph = q->create_graph,
                    .n_targets = q->n,
                    .targets = q->nodes,
                    .outs = q->outs,
                    .captured = q->found,
                    .cuts = true};
    int no_grad = thread_state.no_grad;
    thread_state.no_grad = !q->create_graph;
    kiln_tensor *sens = backward_root(out, q->o.sens);
    kiln_status status = sens ? run_add(&r, &q->root, sens) : error_pending;
    thread_state.no_grad = no_grad;
    if (!status) status = run_backward(&r);
    run_finish(&r);
    return status;
}

// Handles of the caller's. Without a recorded backward they say that they kept no tape.
static kiln_status collect(const struct query *q, kiln_tensor *const *wrt, kiln_tensor **grads)
{
    for (size_t i = 0; i < q->n; i++) {
        struct type type;
        grad_type_of(&wrt[i]->type, &type);
        kiln_device *dev = wrt[i]->storage ? wrt[i]->storage->dev : NULL;
        grads[i] = q->found[i] ? grad_second_handle(q->found[i])
                               : kiln_zeros(dev, (kiln_dtype)type.dtype, type.rank, type.dims);
        if (!grads[i]) return error_pending;
        tensor_show(grads[i], wrt[i]->shown);
        if (q->create_graph) continue;
        bool cut = q->found[i] && !thread_state.no_grad && dtype_kind_of[type.dtype] == KIND_FLOAT;
        tape_set_node(grads[i], cut ? node_cut("gradients") : NULL, 0);
    }
    return KILN_OK;
}

static kiln_status differentiate(struct query *q, kiln_tensor *out, kiln_tensor *const *wrt, kiln_tensor **grads)
{
    struct sink *s = thread_state.sink;
    TRY(find_targets(q, wrt));
    if (s && s->capture && s->capture->check_whole) TRY(s->capture->check_whole(s, q->root.node, q->nodes, q->n));
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_status status = run(q, out);
    if (!status) status = collect(q, wrt, grads);
    scope_leave(&scope, grads, status ? 0 : q->n);
    return status;
}

static kiln_status check(struct query *q, kiln_tensor *out, kiln_tensor *const *wrt, kiln_tensor **grads)
{
    TRY(tensor_check("gradients", "out", out));
    if (!wrt || !grads || !q->n)
        return error_set(KILN_E_ARGUMENT, "gradients: %s",
                         !wrt     ? "wrt is NULL"
                         : !grads ? "grads is NULL"
                                  : "there is nothing to differentiate by");
    TRY(tape_current(out, &q->root));
    if (!q->root.node) return backward_has_no_root("gradients", out);
    return q->o.sens ? backward_check_sens("gradients", 0, out, q->o.sens) : KILN_OK;
}

static void finish(void *at)
{
    struct query *q = at;
    free(q->nodes);
    free(q->outs);
    free(q->found);
}

kiln_status kiln_gradients(kiln_tensor *out, kiln_tensor *const *wrt, size_t n, const kiln_gradients_opts *opts,
                           kiln_tensor **grads)
{
    struct query q = {.n = n};
    if (error_pending) return error_pending;
    for (size_t i = 0; grads && i < n; i++) grads[i] = NULL;
    TRY(options_read("gradients", KILN_GRADIENTS, &q.o, opts));
    TRY(check(&q, out, wrt, grads));
    q.create_graph = q.o.create_graph || (grad_is_nested() && !thread_state.no_grad);
    q.nodes = calloc(n, sizeof *q.nodes);
    q.outs = calloc(n, sizeof *q.outs);
    q.found = calloc(n, sizeof *q.found);
    struct state_leave left;
    state_push(&left, finish, &q);
    kiln_status status = q.nodes && q.outs && q.found ? differentiate(&q, out, wrt, grads)
                                                      : error_set(KILN_E_MEMORY, "gradients: out of memory");
    for (size_t i = 0; status && i < n; i++) grads[i] = NULL;
    state_pop(&left);
    finish(&q);
    return status;
}
