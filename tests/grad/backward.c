// Gradients by kiln_backward: leaves, the tape, writes in place, views, hooks.
#include "grad_values.h"

// Backward

static void capability_17_backward_reaches_leaves(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2, 3), *b = PARAM("b", 0.5f);
    kiln_tensor *y = kiln_add(kiln_mul(w, VEC(2, 2, 2)), b);
    assert_true(kiln_requires_grad(y) && !kiln_is_leaf(y) && kiln_is_leaf(w));
    kiln_backward(y, NULL);
    EXPECT(kiln_gradient(w), 2, 2, 2);
    EXPECT(kiln_gradient(b), 3);
    assert_false(kiln_requires_grad(kiln_gradient(w)));
}

static void gradients_are_replaced_or_added(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2);
    for (int i = 0; i < 2; i++) kiln_backward(kiln_square(w), NULL);
    EXPECT(kiln_gradient(w), 2, 4);
    kiln_backward_with(kiln_square(w), KILN_BACKWARD(.accumulate = true));
    EXPECT(kiln_gradient(w), 4, 8);
    kiln_backward_with(kiln_square(w), KILN_BACKWARD(.sens = VEC(10, 1), .accumulate = true));
    EXPECT(kiln_gradient(w), 24, 12);
    kiln_set_gradient(w, VEC(7, 8));
    EXPECT(kiln_gradient(w), 7, 8);
    kiln_set_gradient(w, VEC(7, 8, 9));
    EXPECT_ERROR(KILN_E_SHAPE, "grad is f32[3], param is f32[2]");
    kiln_set_gradient(w, NULL);
    assert_null(kiln_gradient(w));
    assert_int_equal(kiln_error(), KILN_OK);
}

static void the_tape_is_used_up_unless_kept(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *y = kiln_exp(kiln_square(w));
    kiln_backward_with(y, KILN_BACKWARD(.keep_tape = true));
    kiln_tensor *first = kiln_alias(kiln_gradient(w));
    kiln_backward(y, NULL);
    kiln_tensor *difference = kiln_sub(first, kiln_gradient(w));
    EXPECT(difference, 0, 0);
    kiln_backward(y, NULL);
    EXPECT_ERROR(KILN_E_GRADIENT, "the tape of exp was used up by an earlier backward");
    // What depends on no parameter has no gradient to set.
    assert_int_equal(kiln_backward(VEC(1, 2), NULL), KILN_OK);
}

static void paths_add_up(void **state)
{
    kiln_tensor *w = PARAM("w", 3), *a = kiln_square(w), *b = kiln_mul(a, w), *c = kiln_add(kiln_mul(a, b), a);
    kiln_backward(c, NULL); // w^5 + w^2
    EXPECT(kiln_gradient(w), 5 * 81 + 6);
}

static void broadcasting_is_undone(void **state)
{
    kiln_tensor *a = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 1, 3)), "a");
    kiln_tensor *b = kiln_parameter(kiln_ones(dev, KILN_F16, KILN_SHAPE(4, 1)), "b");
    kiln_backward(kiln_mul(a, b), NULL);
    EXPECT(kiln_gradient(a), 4, 4, 4, 4, 4, 4);
    EXPECT(kiln_gradient(b), 6, 6, 6, 6);
    assert_int_equal(kiln_tensor_dtype(kiln_gradient(b)), KILN_F16);
}

static void nothing_is_recorded_without_need(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2);
    kiln_no_grad_begin();
    assert_false(kiln_grad_enabled());
    kiln_no_grad_begin();
    kiln_no_grad_end();
    kiln_tensor *y = kiln_square(w);
    kiln_no_grad_end();
    assert_true(kiln_grad_enabled());
    assert_false(kiln_requires_grad(y));
    assert_false(kiln_requires_grad(kiln_stop_gradient(kiln_square(w))));
    assert_false(kiln_requires_grad(kiln_argmax(w, NULL)));
    kiln_set_requires_grad(w, false);
    assert_false(kiln_requires_grad(kiln_square(w)));
    kiln_set_requires_grad(w, true);
    assert_true(kiln_requires_grad(kiln_square(w)));
    kiln_set_requires_grad(kiln_square(w), false);
    EXPECT_ERROR(KILN_E_GRADIENT, "t is no leaf, it is the result of square");
    kiln_tensor *mixed = kiln_mul(w, kiln_stop_gradient(w));
    kiln_backward(mixed, NULL);
    EXPECT(kiln_gradient(w), 1, 2);
}

static void a_gradient_is_a_tensor_of_its_own(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *sens = VEC(3, 4);
    kiln_backward(kiln_positive(w), sens);
    kiln_mul_(kiln_gradient(w), kiln_scalar(10));
    EXPECT(kiln_gradient(w), 30, 40);
    EXPECT(sens, 3, 4);
    kiln_backward(kiln_sum(w, NULL), NULL);
    kiln_add_(kiln_gradient(w), VEC(1, 2));
    EXPECT(kiln_gradient(w), 2, 3);
}

// Writes

static void capability_19_saved_values_are_guarded(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *x = VEC(3, 4), *y = kiln_mul(w, x);
    kiln_add_(x, kiln_scalar(1));
    kiln_backward(y, NULL);
    EXPECT_ERROR(KILN_E_GRADIENT, "the gradient of mul needs its input b, which add_ has changed since");
    kiln_tensor *e = kiln_exp(w);
    kiln_mul_(e, kiln_scalar(2));
    kiln_backward(e, NULL);
    EXPECT_ERROR(KILN_E_GRADIENT, "the gradient of exp needs its result, which mul_ has changed since");
    // What no rule needs may change.
    y = kiln_add(w, x);
    kiln_add_(x, kiln_scalar(1));
    kiln_backward(y, NULL);
    EXPECT(kiln_gradient(w), 1, 1);
}

static void versions_belong_to_the_storage(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *x = VEC(3, 4), *part = kiln_narrow(x, 0, 0, 1), *y = kiln_mul(w, x);
    uint64_t before = kiln_tensor_version(x);
    kiln_assign(part, kiln_scalar(9));
    assert_int_equal(kiln_tensor_version(x), before + 1);
    kiln_backward(y, NULL);
    EXPECT_ERROR(KILN_E_GRADIENT, "which assign has changed since");
}

static void leaves_cannot_be_written(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2), *view = kiln_narrow(w, 0, 0, 1);
    kiln_add_(w, kiln_scalar(1));
    EXPECT_ERROR(KILN_E_GRADIENT, "add_: w is a leaf that requires a gradient");
    kiln_assign(view, kiln_scalar(1));
    EXPECT_ERROR(KILN_E_GRADIENT, "assign: dst is a view of a leaf that requires a gradient");
    kiln_tensor *init = VEC(5, 6), *p = kiln_parameter(init, "p");
    kiln_add_(init, kiln_scalar(1));
    EXPECT_ERROR(KILN_E_GRADIENT, "view of a leaf");
    kiln_no_grad_begin();
    kiln_assign(w, VEC(7, 8));
    kiln_no_grad_end();
    EXPECT(w, 7, 8);
    EXPECT(p, 5, 6);
    kiln_backward(kiln_square(w), NULL);
    EXPECT(kiln_gradient(w), 14, 16);
}

static void writes_rebase_history(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *x = kiln_square(w);
    kiln_mul_(x, w); // w^3: needs the old x
    kiln_mul_(x, x); // w^6: needs the old x twice
    kiln_exp_(kiln_neg(x));
    kiln_backward(x, NULL);
    EXPECT(kiln_gradient(w), 6 * 32, 6 * 243);
}

static void a_write_through_a_view_reaches_the_base(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3, 4), *x = kiln_mul(w, kiln_scalar(10));
    kiln_tensor *view = kiln_narrow(x, 0, 1, 2), *other = kiln_flip(x, KILN_AXES(0)), *twin = kiln_alias(x);
    kiln_mul_(view, kiln_narrow(w, 0, 0, 2)); // x = 10w0, 10 w1 w0, 10 w2 w1
    EXPECT(x, 20, 60, 120);
    kiln_backward_with(x, KILN_BACKWARD(.keep_tape = true));
    EXPECT(kiln_gradient(w), 10 + 30, 20 + 40, 30);
    // The other views show the new values, with the new gradient.
    kiln_backward_with(kiln_mul(other, VEC(1, 0, 0)), KILN_BACKWARD(.keep_tape = true));
    EXPECT(kiln_gradient(w), 0, 40, 30);
    kiln_backward_with(kiln_select(twin, 0, 1), KILN_BACKWARD(.keep_tape = true));
    EXPECT(kiln_gradient(w), 30, 20, 0);
    kiln_backward(view, NULL);
    EXPECT(kiln_gradient(w), 30, 60, 30);
}

static void a_buffer_is_filled_part_by_part(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *buffer = kiln_zeros(dev, KILN_F32, KILN_SHAPE(3, 2)),
                *early = kiln_transpose(buffer, 0, 1);
    for (int64_t i = 0; i < 3; i++)
        kiln_set_slice(buffer, KILN_SLICE(.start = KILN_ARGS(i), .stop = KILN_ARGS(i + 1)),
                       kiln_mul(w, kiln_scalar((double)(i + 1))));
    EXPECT(buffer, 2, 3, 4, 6, 6, 9);
    assert_true(kiln_requires_grad(buffer));
    kiln_tensor *y = kiln_square(early);
    kiln_backward(y, NULL);
    EXPECT(kiln_gradient(w), 2 * 2 * (1 + 4 + 9), 2 * 3 * (1 + 4 + 9));
}

static void an_overwritten_value_loses_its_gradient(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *x = kiln_square(w);
    kiln_assign(kiln_narrow(x, 0, 0, 1), VEC(5));
    kiln_backward_with(kiln_square(x), NULL);
    EXPECT(kiln_gradient(w), 0, 2 * 9 * 6);
    const float host[] = {1, 2};
    x = kiln_square(w);
    kiln_write(x, host, sizeof host);
    kiln_set_gradient(w, NULL);
    kiln_backward(x, NULL);
    assert_null(kiln_gradient(w));
}

// What takes the place of a value has its history alone: none, where it was made of constants.
static void an_assigned_constant_has_no_history(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *x = kiln_square(w), *early = kiln_narrow(x, 0, 0, 1);
    kiln_tensor *part = kiln_narrow(x, 0, 0, 1);
    kiln_assign(part, VEC(5));
    assert_true(kiln_requires_grad(x));
    assert_false(kiln_requires_grad(part) || kiln_requires_grad(early));
    kiln_assign(x, VEC(5, 6));
    assert_false(kiln_requires_grad(x) || kiln_requires_grad(part) || kiln_requires_grad(kiln_sum(x, NULL)));
    kiln_assign(part, kiln_narrow(w, 0, 1, 1));
    assert_true(kiln_requires_grad(x) && kiln_requires_grad(part) && kiln_requires_grad(early));
    kiln_backward(x, NULL);
    EXPECT(kiln_gradient(w), 0, 1);
    const float host[] = {1, 2};
    kiln_write(x, host, sizeof host);
    assert_false(kiln_requires_grad(x) || kiln_requires_grad(early));
}

static uint64_t count_tensors(void)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    return s.tensors;
}

// Nor does it keep what was there alive.
static void an_assigned_value_keeps_no_other(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *x = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2));
    uint64_t first = 0;
    for (int i = 0; i < 20; i++) {
        kiln_scope *own = kiln_scope_begin();
        kiln_assign(x, kiln_exp(w));
        kiln_scope_end(&own);
        if (!i) first = count_tensors();
    }
    assert_int_equal(count_tensors(), first);
    kiln_backward(x, NULL);
    assert_non_null(kiln_gradient(w));
}

static void views_without_gradients_are_guarded(void **state)
{
    kiln_tensor *w = PARAM("w", 2, 3), *x = kiln_square(w);
    kiln_no_grad_begin();
    kiln_tensor *view = kiln_narrow(x, 0, 0, 1);
    kiln_no_grad_end();
    kiln_assign(view, kiln_narrow(w, 0, 1, 1));
    EXPECT_ERROR(KILN_E_GRADIENT, "made without gradients");
}

// Hooks

static kiln_tensor *doubled(void *user, kiln_tensor *grad)
{
    ++*(int *)user;
    return kiln_mul(grad, kiln_scalar(2));
}
static kiln_tensor *watches(void *user, kiln_tensor *grad)
{
    *(double *)user = kiln_item(kiln_sum(grad, NULL));
    return NULL;
}
static kiln_tensor *misshapen(void *user, kiln_tensor *grad)
{
    return VEC(1, 2, 3);
}

static void hooks_see_and_replace(void **state)
{
    int calls = 0;
    double seen = 0;
    kiln_tensor *w = PARAM("w", 2, 3), *h = kiln_square(w), *y = kiln_mul(h, h);
    uint64_t id = kiln_register_hook(h, doubled, &calls);
    assert_true(id != 0);
    kiln_register_hook(h, watches, &seen);
    kiln_backward_with(y, KILN_BACKWARD(.keep_tape = true));
    EXPECT(kiln_gradient(w), 2 * 32, 2 * 108);
    assert_int_equal(calls, 1);
    assert_true(fabs(seen - 2 * (8 + 18)) < 1e-4);
    kiln_remove_hook(h, id);
    kiln_remove_hook(h, id);
    EXPECT_ERROR(KILN_E_ARGUMENT, "has no hook");
    kiln_register_hook(w, doubled, &calls);
    kiln_backward(y, NULL);
    EXPECT(kiln_gradient(w), 64, 216);
    assert_int_equal(calls, 2);
    assert_int_equal(kiln_register_hook(VEC(1), doubled, &calls), 0);
    EXPECT_ERROR(KILN_E_GRADIENT, "t requires no gradient");
    kiln_tensor *v = PARAM("v", 1, 2);
    kiln_register_hook(v, misshapen, NULL);
    kiln_backward(kiln_square(v), NULL);
    EXPECT_ERROR(KILN_E_SHAPE, "returned f32[3]");
    assert_null(kiln_gradient(v));
}

static void a_parameter_takes_or_copies(void **state)
{
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2, 2), (float[]){1, 2, 3, 4});
    kiln_tensor *p = kiln_parameter(kiln_transpose(x, 0, 1), "p");
    EXPECT(p, 1, 3, 2, 4);
    assert_false(kiln_is_view_of(p, x));
    assert_true(kiln_is_contiguous(p));
    kiln_tensor *s = kiln_parameter(kiln_scalar(0.5), "s");
    EXPECT(s, 0.5);
    kiln_backward(kiln_mul(s, x), NULL);
    EXPECT(kiln_gradient(s), 10);
    assert_int_equal(kiln_tensor_dtype(kiln_gradient(s)), KILN_F32);
}

static void gradients_cross_devices(void **state)
{
    kiln_device *other = kiln_device_open("cpu");
    kiln_tensor *w = PARAM("w", 1, 2), *there = kiln_to_device(kiln_square(w), other);
    assert_ptr_equal(kiln_tensor_device(there), other);
    kiln_backward(kiln_mul(there, kiln_from_data(other, KILN_F32, KILN_SHAPE(2), (float[]){3, 4})), NULL);
    assert_ptr_equal(kiln_tensor_device(kiln_gradient(w)), dev);
    EXPECT(kiln_gradient(w), 6, 16);
    kiln_device_close(&other);
}

int main(int argc, char **argv)
{
    int status = open_device(argc, argv);
    if (status) return status;
    const struct CMUnitTest tests[] = {
        CASE(capability_17_backward_reaches_leaves),
        CASE(gradients_are_replaced_or_added),
        CASE(the_tape_is_used_up_unless_kept),
        CASE(paths_add_up),
        CASE(broadcasting_is_undone),
        CASE(nothing_is_recorded_without_need),
        CASE(a_gradient_is_a_tensor_of_its_own),
        CASE(capability_19_saved_values_are_guarded),
        CASE(versions_belong_to_the_storage),
        CASE(leaves_cannot_be_written),
        CASE(writes_rebase_history),
        CASE(a_write_through_a_view_reaches_the_base),
        CASE(a_buffer_is_filled_part_by_part),
        CASE(an_overwritten_value_loses_its_gradient),
        CASE(an_assigned_constant_has_no_history),
        CASE(an_assigned_value_keeps_no_other),
        CASE(views_without_gradients_are_guarded),
        CASE(hooks_see_and_replace),
        CASE(a_parameter_takes_or_copies),
        CASE(gradients_cross_devices),
    };
    return cmocka_run_group_tests(tests, NULL, group_teardown);
}
