// kiln_backward: the gradient of one tensor by every leaf it depends on.
#include "grad/backward.h"
#include "base/base.h"
#include "base/caller.h"
#include "base/options.h"
#include "grad/fit.h"
#include "grad/run.h"
#include "grad/state.h"
#include "tensor/apply.h"
#include <kiln/ops.h>

kiln_status backward_check_sens(const char *function, int index, const kiln_tensor *out, const kiln_tensor *sens)
{
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    TRY(tensor_check(function, "sens", sens));
    struct type type;
    grad_type_of(&out->type, &type);
    if (sens->type.weak && type.rank == 0) return KILN_OK;
    if (!type_same_shape(&sens->type, &type))
        return error_set(KILN_E_SHAPE, "%s: sens should have the shape of output %d, %s, it is %s", function, index,
                         type_text(&type, a, sizeof a), type_text(&sens->type, b, sizeof b));
    if (sens->type.dtype != type.dtype)
        return error_set(KILN_E_DTYPE, "%s: sens should have the dtype of output %d, %s, it is %s", function, index,
                         dtype_name(type.dtype), dtype_name(sens->type.dtype));
    return KILN_OK;
}

kiln_tensor *backward_root(const kiln_tensor *out, kiln_tensor *sens)
{
    struct type type;
    grad_type_of(&out->type, &type);
    if (sens && !(sens->type.weak && !sens->storage)) {
        kiln_tensor *t = grad_second_handle(sens);
        if (t && thread_state.no_grad) tape_set_node(t, NULL, 0);
        return t;
    }
    return kiln_full(out->storage ? out->storage->dev : NULL, (kiln_dtype)type.dtype, type.rank, type.dims,
                     sens ? sens->number : 1);
}

kiln_status backward_has_no_root(const char *function, const kiln_tensor *out)
{
    if (node_is_cut(out->node)) return node_cut_error(function, out->node);
    return error_set(KILN_E_GRADIENT, "%s: out depends on nothing that requires a gradient", function);
}

// The gradient of a sum may be what is meant; mostly a mean was forgotten.
static void warn_of_many(const kiln_tensor *out)
{
    char type[TYPE_TEXT_MAX];
    log_warn_here("backward: out is %s and sens is NULL: the gradients are those of the sum of its elements",
                  type_text(&out->type, type, sizeof type));
}

static kiln_status backward(kiln_tensor *out, const kiln_backward_opts *o)
{
    TRY(tensor_check("backward", "out", out));
    if (!o->sens && type_numel(&out->type) > 1) warn_of_many(out);
    struct tape_edge root;
    TRY(tape_current(out, &root));
    if (node_is_cut(out->node)) return node_cut_error("backward", out->node);
    if (o->sens) TRY(backward_check_sens("backward", 0, out, o->sens));
    if (!root.node) { // all gradients are zero, as in kiln_grad; here there is none to set
        log_warn_here("backward: out depends on nothing that requires a gradient: no gradient is set; kiln_parameter "
                      "makes what has one, and kiln_no_grad_begin, kiln_stop_gradient and comparisons cut it off");
        return KILN_OK;
    }
    struct run r = {.keep = o->keep_tape, .create_graph = o->create_graph, .accumulate = o->accumulate};
    struct kiln_scope scope;
    struct state_leave left;
    state_push(&left, NULL, NULL);
    scope_enter(&scope);
    int no_grad = thread_state.no_grad;
    thread_state.no_grad = !o->create_graph;
    kiln_tensor *sens = backward_root(out, o->sens);
    kiln_status status = sens ? run_add(&r, &root, sens) : error_pending;
    thread_state.no_grad = no_grad;
    if (!status) status = run_backward(&r);
    run_finish(&r);
    scope_leave(&scope, NULL, 0);
    state_pop(&left);
    return status;
}

kiln_status kiln_backward_with(kiln_tensor *out, const kiln_backward_opts *opts)
{
    kiln_backward_opts o;
    if (error_pending) return error_pending;
    TRY(options_read("backward", KILN_BACKWARD, &o, opts));
    return backward(out, &o);
}

kiln_status kiln_backward(kiln_tensor *out, kiln_tensor *sens)
{
    return kiln_backward_with(out, KILN_BACKWARD(.sens = sens));
}
