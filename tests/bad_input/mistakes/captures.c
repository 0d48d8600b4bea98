// Captured functions: what has no value while it is captured, what is kept, what the guards see.
#include "mistakes.h"

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

// Calls fn with one input and one output, both f32[2,3].
static kiln_function *call(kiln_fn fn, void *user, const kiln_jit_opts *opts)
{
    kiln_tensor *x = F32(2, 3), *y;
    kiln_function *f = kiln_jit(fn, user, opts);
    AT(kiln_call(f, &x, 1, &y, 1));
    return f;
}

FN(reads)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = THERE(kiln_item(kiln_sum(in[0], NULL))) > 0 ? kiln_exp(in[0]) : kiln_neg(in[0]);
    return kiln_error();
}

static void a_read_in_strict(void)
{
    kiln_function *f = call(reads, NULL, KILN_JIT(.name = "step"));
    kiln_function_free(&f);
}

FN(reaches_outside)
{
    (void)n_in, (void)n_out;
    out[0] = THERE(kiln_add(in[0], user));
    return kiln_error();
}

static void a_tensor_from_outside_in_strict(void)
{
    kiln_function *f = call(reaches_outside, F32(2, 3), KILN_JIT(.name = "step"));
    kiln_function_free(&f);
}

FN(leaves_null)
{
    (void)user, (void)in, (void)n_in, (void)out, (void)n_out;
    return KILN_OK;
}

static void an_output_left_null(void)
{
    kiln_function *f = call(leaves_null, NULL, KILN_JIT(.name = "step"));
    kiln_function_free(&f);
}

FN(fails_without_an_error)
{
    (void)user, (void)in, (void)n_in, (void)out, (void)n_out;
    return KILN_E_STATE;
}

static void a_status_without_an_error(void)
{
    kiln_function *f = call(fails_without_an_error, NULL, KILN_JIT(.name = "step"));
    kiln_function_free(&f);
}

FN(mixes_sizes)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = THERE(kiln_matmul(in[0], in[0]));
    return kiln_error();
}

static void a_wrong_op_inside(void)
{
    kiln_function *f = call(mixes_sizes, NULL, KILN_JIT(.name = "step"));
    kiln_function_free(&f);
}

FN(negates)
{
    (void)user, (void)n_in;
    for (size_t i = 0; i < n_out; i++) out[i] = kiln_neg(kiln_exp(in[0]));
    return kiln_error();
}

static void another_number_of_outputs(void)
{
    kiln_tensor *x = F32(2), *y[2];
    kiln_function *f = kiln_jit(negates, NULL, KILN_JIT(.name = "step"));
    kiln_call(f, &x, 1, y, 1);
    AT(kiln_call(f, &x, 1, y, 2));
    kiln_function_free(&f);
}

static void another_shape_than_the_signature(void)
{
    kiln_tensor *x = F32(2), *y;
    kiln_function *f =
        kiln_jit(negates, NULL, KILN_JIT(.name = "step", .input_types = KILN_TYPES(KILN_TYPE(KILN_F32, 3))));
    AT(kiln_call(f, &x, 1, &y, 1));
    kiln_function_free(&f);
}

static void another_dtype_than_the_signature(void)
{
    kiln_tensor *x = I64(3), *y;
    kiln_function *f =
        kiln_jit(negates, NULL, KILN_JIT(.name = "step", .input_types = KILN_TYPES(KILN_TYPE(KILN_F32, -1))));
    AT(kiln_call(f, &x, 1, &y, 1));
    kiln_function_free(&f);
}

static kiln_tensor *kept;

FN(keeps)
{
    (void)n_in, (void)n_out;
    kept = kiln_exp(in[0]);
    if (user) kiln_own(kept);
    out[0] = kiln_neg(kept);
    return kiln_error();
}

static void a_value_kept_beyond_the_call(void)
{
    kiln_function *f = call(keeps, NULL, NULL);
    AT(kiln_add(kept, kept));
    kiln_function_free(&f);
}

static void a_value_owned_beyond_the_capture(void)
{
    bool own = true;
    kiln_function *f = call(keeps, &own, NULL);
    AT(kiln_add(kept, kept));
    kiln_free(&kept);
    kiln_function_free(&f);
}

static void a_shape_each_call(void)
{
    kiln_function *f =
        kiln_jit(negates, NULL, KILN_JIT(.name = "step", .recompile_limit = 2, .level = KILN_LEVEL_AS_IS));
    for (int64_t i = 1; i < 6; i++) {
        int64_t dims[] = {1, 1, 1, 1, 2};
        kiln_tensor *x = kiln_ones(dev, KILN_F32, (size_t)i, dims + 5 - i), *y;
        AT(kiln_call(f, &x, 1, &y, 1));
    }
    kiln_function_free(&f);
}

FN(breaks)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = THERE(kiln_item(kiln_sum(in[0], NULL))) > 0 ? kiln_exp(in[0]) : kiln_neg(in[0]);
    return kiln_error();
}

static void a_break_where_there_may_be_none(void)
{
    kiln_function *f = call(breaks, NULL, KILN_JIT(.name = "step", .capture = KILN_CAPTURE_AUTO, .fullgraph = true));
    kiln_function_free(&f);
}

static void a_function_that_is_null(void)
{
    AT(kiln_jit(NULL, NULL, NULL));
}

FN(donates)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_neg(kiln_exp(in[0]));
    return kiln_error();
}

static void an_input_used_after_it_was_given_away(void)
{
    kiln_tensor *x = F32(2), *y;
    kiln_function *f = kiln_jit(donates, NULL, KILN_JIT(.name = "step", .donate = KILN_ARGS(0)));
    THERE(kiln_call(f, &x, 1, &y, 1));
    AT(kiln_add(x, y));
    kiln_function_free(&f);
}

FN(makes_gradients)
{
    (void)user, (void)n_in, (void)n_out;
    kiln_tensor *w = THERE(kiln_parameter(in[0], "w"));
    out[0] = kiln_sum(kiln_square(w), NULL);
    kiln_backward(out[0], NULL);
    return kiln_error();
}

static void a_parameter_made_inside(void)
{
    kiln_function *f = call(makes_gradients, NULL, KILN_JIT(.name = "step"));
    kiln_function_free(&f);
}

FN(conditional)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

FN(conditional_of_another_shape)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_sum(in[0], NULL);
    return kiln_error();
}

FN(branches)
{
    (void)user, (void)n_in, (void)n_out;
    kiln_tensor *is = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0));
    THERE(kiln_cond(is, conditional, conditional_of_another_shape, NULL, in, 1, out, 1));
    return kiln_error();
}

static void branches_of_other_shapes(void)
{
    kiln_function *f = call(branches, NULL, KILN_JIT(.name = "step"));
    kiln_function_free(&f);
}

static void a_condition_of_many_elements(void)
{
    kiln_tensor *x = F32(3), *y;
    AT(kiln_cond(kiln_greater(x, kiln_scalar(0)), conditional, conditional, NULL, &x, 1, &y, 1));
}

static kiln_status gives_no_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    (void)user, (void)out;
    THERE(kiln_bundle_tensor(in, "y"));
    return kiln_error();
}

static void a_name_that_is_not_in_a_bundle(void)
{
    kiln_bundle *in = kiln_bundle_create(), *out;
    kiln_function *f = kiln_bundle_jit(gives_no_bundle, NULL, KILN_JIT(.name = "step"));
    kiln_bundle_set(in, "x", KILN_TENSOR(F32(2)));
    AT(kiln_bundle_call(f, in, &out));
    kiln_function_free(&f);
}

static kiln_status fails_of_bundles(void *user, kiln_bundle *in, kiln_bundle **out)
{
    (void)user, (void)in, (void)out;
    return KILN_E_STATE;
}

static void a_function_of_bundles_that_fails(void)
{
    kiln_bundle *in = kiln_bundle_create(), *out;
    kiln_function *f = kiln_bundle_jit(fails_of_bundles, NULL, KILN_JIT(.name = "step"));
    AT(kiln_bundle_call(f, in, &out));
    kiln_function_free(&f);
}

FN(grows)
{
    (void)user, (void)n_in, (void)n_out;
    kiln_tensor *both[] = {in[1], in[1]};
    out[0] = kiln_concat(both, 2, 0);
    return kiln_error();
}

FN(loops)
{
    (void)user, (void)n_in, (void)n_out;
    THERE(kiln_for(kiln_scalar_int(3), grows, NULL, in, 1, NULL, out, 1));
    return kiln_error();
}

static void a_loop_whose_shapes_grow(void)
{
    kiln_function *f = call(loops, NULL, KILN_JIT(.name = "step"));
    kiln_function_free(&f);
}

FN(counts)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = in[0];
    return kiln_error();
}

static void a_loop_that_is_told_no_condition(void)
{
    kiln_tensor *x = F32(2), *y;
    AT(kiln_while(counts, counts, NULL, &x, 1, NULL, &y, 1));
}

static void an_assertion_that_does_not_hold(void)
{
    AT(kiln_assert(kiln_any(kiln_greater(F32(2), kiln_scalar(1)), NULL), "x is above 1"));
}

static void an_expression_that_is_none(void)
{
    AT(kiln_register_op(KILN_OP(.name = "my_op", .n_in = 1, .expr = "x * (1 + ")));
}

static void an_expression_of_an_unknown_name(void)
{
    AT(kiln_register_op(KILN_OP(.name = "my_op", .n_in = 1, .expr = "sigmoidd(x)")));
}

static void an_op_that_is_not_there(void)
{
    kiln_tensor *x = F32(2);
    AT(kiln_apply("gellu", &x, 1));
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_captures[] = {
    ROW(a_read_in_strict, KILN_E_STATE, WHAT_TO_DO,
        "item: the value depends on an input of step, which is being captured and has no values yet; choose by "
        "kiln_where or kiln_cond, give it to kiln_host_call, return the value and read it outside, or capture with "
        "KILN_CAPTURE_AUTO ({there})")
    ROW(a_tensor_from_outside_in_strict, KILN_E_STATE, WHAT_TO_DO,
        "add: step uses a tensor from outside, f32[2,3], made by ones: its value could change between calls; pass it "
        "as an input, make it state with kiln_state, or wrap it in kiln_constant ({there})")
    ROW(an_output_left_null, KILN_E_ARGUMENT, WHAT,
        "call: step left output 0 of 1 NULL: set each out[i], or ask for fewer ({here})")
    ROW(a_status_without_an_error, KILN_E_STATE, WHAT,
        "call: step failed with KILN_E_STATE ({here})")
    ROW(a_wrong_op_inside, KILN_E_SHAPE, WHAT_TO_DO,
        "matmul: inner dimensions differ: a is f32[2,3], b is f32[2,3]; they fit with kiln_transpose(b, -2, -1) "
        "({there})")
    ROW(another_number_of_outputs, KILN_E_ARGUMENT, WHAT,
        "call: step had 1 outputs at its first call, 2 are asked for ({here})")
    ROW(another_shape_than_the_signature, KILN_E_SHAPE, WHAT,
        "call: input 0 of step is f32[2], its signature says f32[3] ({here})")
    ROW(another_dtype_than_the_signature, KILN_E_SHAPE, WHAT,
        "call: input 0 of step is i64[3], its signature says f32[-1] ({here})")
    ROW(a_value_kept_beyond_the_call, KILN_E_HANDLE, WHAT_TO_DO,
        "add: a is a handle that was freed (made in a capture: what a captured function does not return goes with "
        "the call) ({here})")
    ROW(a_value_owned_beyond_the_capture, KILN_E_STATE, WHAT_TO_DO,
        "add: a was made in a capture that has ended; let the captured function return it as an output ({here})")
    ROW(a_shape_each_call, KILN_OK, WHAT,
        "step was captured 3 times, its limit, sizes of known graphs not counted; calls that fit no program run "
        "eagerly. The last to fail: guard rank: input 0 was f32[1,1,2], is f32[1,1,1,2]")
    ROW(a_break_where_there_may_be_none, KILN_E_STATE, WHAT,
        "item: the graph of step breaks here, which .fullgraph does not allow: read of f32[], made by sum ({there})")
    ROW(a_function_that_is_null, KILN_E_ARGUMENT, WHAT,
        "jit: fn is NULL ({here})")
    ROW(an_input_used_after_it_was_given_away, KILN_E_HANDLE, WHAT,
        "add: a was given away to step at {there} ({here})")
    ROW(a_parameter_made_inside, KILN_E_STATE, WHAT,
        "parameter: init is a value of a captured function, which has no data; make parameters before, and let the "
        "function use them ({there})")
    ROW(branches_of_other_shapes, KILN_E_SHAPE, WHAT,
        "cond: output 0 of then_fn is f32[2,3], of else_fn f32[]: they differ in rank ({there})")
    ROW(a_condition_of_many_elements, KILN_E_SHAPE, WHAT_TO_DO,
        "cond: pred is bool[3], not one bool of rank 0; reduce it with kiln_all or kiln_any ({here})")
    ROW(an_expression_that_is_none, KILN_E_ARGUMENT, WHAT,
        "register_op: my_op: expression \"x * (1 + \", at 10: a value expected, found the end ({here})")
    ROW(an_expression_of_an_unknown_name, KILN_E_ARGUMENT, WHAT_TO_DO,
        "register_op: my_op: expression \"sigmoidd(x)\", at 1: unknown function \"sigmoidd\"; is \"sigmoid\" meant? "
        "({here})")
    ROW(an_op_that_is_not_there, KILN_E_ARGUMENT, WHAT_TO_DO,
        "apply: no op is named \"gellu\"; is \"gelu\" meant? ({here})")
    ROW(a_name_that_is_not_in_a_bundle, KILN_E_ARGUMENT, WHAT,
        "bundle_tensor: there is no entry \"y\"; \"x\" is one ({there})")
    ROW(a_function_of_bundles_that_fails, KILN_E_STATE, WHAT,
        "bundle_call: step failed with KILN_E_STATE ({here})")
    ROW(a_loop_whose_shapes_grow, KILN_E_SHAPE, WHAT,
        "for: carried value 0 is f32[2,3] before trip 0 and f32[4,3] after it: they differ in dimension 0 ({there})")
    ROW(a_loop_that_is_told_no_condition, KILN_E_DTYPE, WHAT,
        "while: what cond gives is f32[2], not bool; compare it with something ({here})")
    ROW(an_assertion_that_does_not_hold, KILN_E_ASSERT, WHAT,
        "assert at {here}: x is above 1 ({here})")
    LAST_ROW
};
// clang-format on
