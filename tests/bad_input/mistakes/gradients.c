// Gradients: backward from the wrong place, twice, through what has none.
#include "mistakes.h"

static kiln_tensor *parameter(void)
{
    return kiln_parameter(F32(3), "w");
}

static void backward_without_parameters(void)
{
    AT(kiln_backward(kiln_sum(F32(3), NULL), NULL));
}

static void backward_of_many_numbers(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_backward(kiln_square(w), NULL));
}

static void sens_of_another_shape(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_backward(kiln_square(w), F32(2)));
}

static void backward_twice(void)
{
    kiln_tensor *w = parameter(), *loss = kiln_sum(kiln_square(w), NULL);
    THERE(kiln_backward(loss, NULL));
    AT(kiln_backward(loss, NULL));
}

static void backward_in_no_grad(void)
{
    kiln_tensor *w = parameter();
    kiln_no_grad_begin();
    kiln_tensor *loss = kiln_sum(kiln_square(w), NULL);
    kiln_no_grad_end();
    AT(kiln_backward(loss, NULL));
}

static void backward_through_stop_gradient(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_backward(kiln_sum(kiln_stop_gradient(kiln_square(w)), NULL), NULL));
}

static void backward_through_argmax(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_backward(kiln_cast(kiln_argmax(w, NULL), KILN_F32), NULL));
}

static void backward_of_an_accuracy(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_backward(kiln_mean(kiln_cast(kiln_greater(w, kiln_scalar(0)), KILN_F32), NULL), NULL));
}

static void no_grad_end_without_begin(void)
{
    AT(kiln_no_grad_end());
}

static void write_to_a_parameter(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_sub_(w, kiln_scalar(.1)));
}

static void assignment_to_a_parameter(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_assign(w, F32(3)));
}

static void write_to_what_a_backward_needs(void)
{
    kiln_tensor *w = parameter(), *y = kiln_exp(w);
    kiln_tensor *loss = kiln_sum(kiln_square(y), NULL);
    THERE(kiln_mul_(y, kiln_scalar(2)));
    AT(kiln_backward(loss, NULL));
}

static void broadcast_in_place(void)
{
    AT(kiln_add_(F32(3), F32(2, 3)));
}

static void write_to_an_expanded_view(void)
{
    AT(kiln_add_(kiln_expand(F32(1, 3), KILN_SHAPE(2, 3)), kiln_scalar(1)));
}

static void requires_grad_of_a_result(void)
{
    kiln_tensor *y = kiln_square(parameter());
    AT(kiln_set_requires_grad(y, false));
}

static void gradient_set_of_another_shape(void)
{
    kiln_tensor *w = parameter();
    AT(kiln_set_gradient(w, F32(2)));
}

static kiln_status square(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_sum(kiln_square(in[0]), NULL);
    return kiln_error();
}

static kiln_status weighted(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    out[0] = kiln_sum(kiln_mul(user, kiln_square(in[0])), NULL);
    return kiln_error();
}

static void gradients_through_values(void)
{
    kiln_tensor *x = F32(3), *w = parameter(), *grad;
    kiln_grad(weighted, w, &x, 1, NULL, &grad, 1);
    AT(kiln_backward(kiln_sum(grad, NULL), NULL));
}

static void gradient_by_an_input_that_is_not_there(void)
{
    kiln_tensor *x = F32(3), *grad;
    AT(kiln_grad(square, NULL, &x, 1, KILN_GRAD(.wrt = KILN_ARGS(1)), &grad, 1));
}

static void gradient_of_another_number(void)
{
    kiln_tensor *x = F32(3), *grads[2];
    AT(kiln_grad(square, NULL, &x, 1, NULL, grads, 2));
}

// On one line, for compilers differ in which is that of a function.
// clang-format off
#define FORGETS(name)                                                                                                  \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)          \
    {                                                                                                                  \
        (void)user, (void)in, (void)n_in, (void)out, (void)n_out;                                                      \
        return KILN_OK;                                                                                                \
    }
enum { FORGETS_LINE = __LINE__ + 1 };
FORGETS(forgets)
// clang-format on

static void function_that_gives_nothing(void)
{
    kiln_tensor *x = F32(3), *grad;
    there_line = FORGETS_LINE;
    AT(kiln_grad(forgets, NULL, &x, 1, NULL, &grad, 1));
}

static void check_of_gradients_in_f32(void)
{
    kiln_tensor *x = F32(3);
    AT(kiln_gradcheck(square, NULL, &x, 1, NULL));
}

static void gradients_by_what_is_not_there(void)
{
    kiln_tensor *w = parameter(), *other_one = F32(3), *grad;
    AT(kiln_gradients(kiln_sum(w, NULL), &other_one, 1, NULL, &grad));
}

static void hook_of_a_tensor_without_gradient(void)
{
    AT(kiln_register_hook(F32(3), NULL, NULL));
}

static void bprop_of_an_unknown_op(void)
{
    AT(kiln_register_bprop("gellu", NULL, NULL));
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_gradients[] = {
    ROW(backward_without_parameters, KILN_OK, WHAT_TO_DO,
        "backward: out depends on nothing that requires a gradient: no gradient is set; kiln_parameter makes what "
        "has one, and kiln_no_grad_begin, kiln_stop_gradient and comparisons cut it off ({here})")
    ROW(backward_of_many_numbers, KILN_OK, WHAT,
        "backward: out is f32[3] and sens is NULL: the gradients are those of the sum of its elements ({here})")
    ROW(sens_of_another_shape, KILN_E_SHAPE, WHAT_TO_DO,
        "backward: sens should have the shape of output 0, f32[3], it is f32[2] ({here})")
    ROW(backward_twice, KILN_E_GRADIENT, WHAT_TO_DO,
        "backward: the tape of sum was used up by an earlier backward; pass .keep_tape to that one ({here})")
    ROW(backward_in_no_grad, KILN_OK, WHAT_TO_DO,
        "backward: out depends on nothing that requires a gradient: no gradient is set; kiln_parameter makes what "
        "has one, and kiln_no_grad_begin, kiln_stop_gradient and comparisons cut it off ({here})")
    ROW(backward_through_stop_gradient, KILN_OK, WHAT_TO_DO,
        "backward: out depends on nothing that requires a gradient: no gradient is set; kiln_parameter makes what "
        "has one, and kiln_no_grad_begin, kiln_stop_gradient and comparisons cut it off ({here})")
    ROW(backward_through_argmax, KILN_OK, WHAT_TO_DO,
        "backward: out depends on nothing that requires a gradient: no gradient is set; kiln_parameter makes what "
        "has one, and kiln_no_grad_begin, kiln_stop_gradient and comparisons cut it off ({here})")
    ROW(backward_of_an_accuracy, KILN_OK, WHAT_TO_DO,
        "backward: out depends on nothing that requires a gradient: no gradient is set; kiln_parameter makes what "
        "has one, and kiln_no_grad_begin, kiln_stop_gradient and comparisons cut it off ({here})")
    ROW(no_grad_end_without_begin, KILN_E_STATE, WHAT_TO_DO,
        "no_grad_end: without kiln_no_grad_begin on this thread ({here})")
    ROW(write_to_a_parameter, KILN_E_GRADIENT, WHAT_TO_DO,
        "sub_: w is a leaf that requires a gradient; write it between kiln_no_grad_begin and _end ({here})")
    ROW(assignment_to_a_parameter, KILN_E_GRADIENT, WHAT_TO_DO,
        "assign: w is a leaf that requires a gradient; write it between kiln_no_grad_begin and _end ({here})")
    ROW(write_to_what_a_backward_needs, KILN_E_GRADIENT, WHAT_TO_DO,
        "backward: the gradient of square needs its input x, which mul_ has changed since: it is at version 1, "
        "expected version 0 ({here})")
    ROW(broadcast_in_place, KILN_E_SHAPE, WHAT,
        "add_: the result is f32[2,3], a is f32[3] ({here})")
    ROW(write_to_an_expanded_view, KILN_E_ARGUMENT, WHAT,
        "add_: elements of a share memory: f32[2,3] with strides (0, 1); write to a copy of it ({here})")
    ROW(requires_grad_of_a_result, KILN_E_GRADIENT, WHAT,
        "set_requires_grad: t is no leaf, it is the result of square ({here})")
    ROW(gradient_set_of_another_shape, KILN_E_SHAPE, WHAT,
        "set_gradient: grad is f32[2], param is f32[3] ({here})")
    ROW(gradients_through_values, KILN_E_GRADIENT, WHAT_TO_DO,
        "backward: out comes from a result of kiln_grad, which kept no tape: pass .create_graph to that one, or take "
        "kiln_stop_gradient of its result ({here})")
    ROW(gradient_by_an_input_that_is_not_there, KILN_E_ARGUMENT, WHAT,
        "grad: .wrt names input 1, fn has 1 ({here})")
    ROW(gradient_of_another_number, KILN_E_ARGUMENT, WHAT,
        "grad: the call has 1 results, room is given for 2 ({here})")
    ROW(function_that_gives_nothing, KILN_E_ARGUMENT, WHAT,
        "grad: fn left output 0 of 1 NULL: set each out[i], or ask for fewer; it is the function at {there} ({here})")
    ROW(check_of_gradients_in_f32, KILN_E_ARGUMENT, WHAT,
        "gradcheck: no input is f64 ({here})")
    ROW(gradients_by_what_is_not_there, KILN_E_GRADIENT, WHAT,
        "gradients: wrt 0 requires no gradient ({here})")
    ROW(hook_of_a_tensor_without_gradient, KILN_E_GRADIENT, WHAT,
        "register_hook: t requires no gradient ({here})")
    ROW(bprop_of_an_unknown_op, KILN_E_ARGUMENT, WHAT_TO_DO,
        "register_bprop: no op is named \"gellu\"; is \"gelu\" meant? ({here})")
    LAST_ROW
};
// clang-format on
