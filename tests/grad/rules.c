// Rules that a user registers, and what the library's ask for.
#include "grad_values.h"

// Rules

static kiln_status my_mul(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                          kiln_tensor **din)
{
    ++*(int *)user;
    assert_int_equal(kiln_rule_n_in(), 2);
    assert_non_null(in[0]);
    assert_non_null(out[0]);
    din[0] = kiln_mul(kiln_mul(in[1], dout[0]), kiln_scalar(100));
    din[1] = kiln_mul(in[0], dout[0]);
    return kiln_error();
}

static void capability_18_a_rule_is_replaced(void **state)
{
    int calls = 0;
    kiln_tensor *w = PARAM("w", 1, 2), *before = kiln_mul(w, VEC(3, 4));
    assert_int_equal(kiln_register_bprop("Mul", my_mul, &calls), KILN_OK);
    kiln_tensor *after = kiln_mul(w, VEC(3, 4)), *broadcast = kiln_mul(PARAM("v", 1), VEC(3, 4));
    kiln_backward(before, NULL);
    EXPECT(kiln_gradient(w), 3, 4); // recorded before
    assert_int_equal(calls, 0);
    kiln_backward(after, NULL);
    EXPECT(kiln_gradient(w), 300, 400);
    kiln_backward(broadcast, NULL); // un-broadcasting is not the rule's business
    assert_int_equal(calls, 2);
    kiln_register_bprop("mul", NULL, NULL);
    kiln_backward(kiln_mul(w, VEC(3, 4)), NULL);
    EXPECT(kiln_gradient(w), 3, 4);
    kiln_register_bprop("no_such_op", my_mul, NULL);
    EXPECT_ERROR(KILN_E_ARGUMENT, "no op is named \"no_such_op\"");
    kiln_rule_n_in();
    EXPECT_ERROR(KILN_E_STATE, "inside a rule only");
}

static kiln_status needs_little(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                                kiln_tensor **din)
{
    const int64_t *dims, *axes;
    assert_null(in[0]);
    assert_null(out[0]);
    assert_int_equal(kiln_rule_in_shape(0, &dims), 2);
    assert_int_equal(dims[0] * 10 + dims[1], 23);
    assert_int_equal(kiln_rule_out_shape(0, NULL), 1);
    assert_int_equal(kiln_rule_ints("axes", &axes), 1);
    assert_int_equal(axes[0], 1);
    assert_false(kiln_rule_int("keepdims"));
    assert_true(kiln_rule_wants(0));
    assert_false(kiln_rule_wants(1));
    assert_int_equal(kiln_rule_in_dtype(0), KILN_F32);
    din[0] = kiln_expand(kiln_unsqueeze(dout[0], 1), KILN_SHAPE(2, 3));
    return kiln_error();
}

static void rules_keep_what_they_ask_for(void **state)
{
    kiln_register_rule(KILN_RULE(.op = "sum", .fn = needs_little));
    kiln_tensor *w = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), "w");
    kiln_backward(kiln_sum(w, KILN_REDUCE(.axes = KILN_AXES(1))), NULL);
    kiln_register_bprop("sum", NULL, NULL);
    EXPECT(kiln_gradient(w), 1, 1, 1, 1, 1, 1);
}

// Of y, mean and var of batch_norm_train.
static kiln_status looks_at_missing(void *user, kiln_tensor *const *in, kiln_tensor *const *out,
                                    kiln_tensor *const *dout, kiln_tensor **din)
{
    int *seen = user;
    for (int i = 0; i < 3; i++) *seen |= dout[i] ? 1 << i : 0;
    din[0] = dout[0];
    return kiln_error();
}

static void rules_may_take_what_is_missing(void **state)
{
    for (int null = 0; null < 2; null++) {
        int seen = 0;
        kiln_register_rule(
            KILN_RULE(.op = "batch_norm_train", .fn = looks_at_missing, .user = &seen, .missing_is_null = null));
        kiln_tensor *w = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(2, 3)), "w"), *made[3];
        kiln_batch_norm_train(w, NULL, &made[0], &made[1], &made[2]);
        kiln_backward(kiln_sum(made[0], NULL), NULL);
        EXPECT(kiln_gradient(w), 1, 1, 1, 1, 1, 1);
        assert_int_equal(seen, null ? 1 : 7);
    }
    kiln_register_bprop("batch_norm_train", NULL, NULL);
}

// Where no gradient reaches the statistics, nothing of x's size is made for them.
static void batch_norm_makes_no_gradients_of_nothing(void **state)
{
    enum { N = 1 << 16 };
    kiln_tensor *x = kiln_own(kiln_parameter(kiln_normal(dev, KILN_F32, KILN_SHAPE(N / 4, 4), 0, 1), "x")), *made[3];
    kiln_batch_norm_train(x, NULL, &made[0], &made[1], &made[2]);
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_reset_stats(dev);
    kiln_device_get_stats(dev, &stats);
    uint64_t before = stats.heap_peak_B;
    kiln_backward(made[0], NULL);
    kiln_device_get_stats(dev, &stats);
    assert_in_range(stats.heap_peak_B - before, 1, 3 * N * sizeof(float));
    kiln_free(&x);
}

static kiln_status returns_nothing(void *user, kiln_tensor *const *in, kiln_tensor *const *out,
                                   kiln_tensor *const *dout, kiln_tensor **din)
{
    return KILN_OK;
}
static kiln_status returns_wrong_shape(void *user, kiln_tensor *const *in, kiln_tensor *const *out,
                                       kiln_tensor *const *dout, kiln_tensor **din)
{
    din[0] = VEC(1, 2, 3, 4);
    return KILN_OK;
}

static void rules_may_fail(void **state)
{
    kiln_tensor *w = PARAM("w", 1, 2);
    kiln_register_bprop("square", returns_nothing, NULL);
    kiln_backward(kiln_square(w), NULL);
    assert_null(kiln_gradient(w));
    kiln_register_bprop("square", returns_wrong_shape, NULL);
    kiln_backward(kiln_square(w), NULL);
    EXPECT_ERROR(KILN_E_SHAPE, "the rule of square returned f32[4] as the gradient by input 0 of f32[2]");
    kiln_register_bprop("square", NULL, NULL);
}

static void capability_72_the_backward_graph_shows_the_rules(void **state)
{
    int calls = 0;
    kiln_tensor *w = PARAM("w", 1, 2), *y = kiln_sum(kiln_mul(w, VEC(3, 4)), NULL);
    kiln_graph *g = kiln_backward_graph(y);
    assert_non_null(g);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    kiln_graph_print(g, f);
    fclose(f);
    assert_non_null(strstr(text, "= input \"dout\""));
    assert_non_null(strstr(text, "f32[2] = input \"mul.b\""));
    assert_non_null(strstr(text, "mul.grad0("));
    assert_non_null(strstr(text, "return %"));
    assert_non_null(strstr(text, "\"w\""));
    free(text);
    kiln_graph_free(&g);
    assert_null(g);
    kiln_register_bprop("mul", my_mul, &calls);
    y = kiln_mul(w, VEC(3, 4));
    g = kiln_backward_graph(y);
    kiln_register_bprop("mul", NULL, NULL);
    assert_non_null(g);
    assert_int_equal(kiln_graph_node_count(g), 3);
    for (size_t i = 0; i < 3; i++) assert_string_equal(kiln_graph_node_op(g, i), "mul");
    kiln_graph_free(&g);
    kiln_backward(y, NULL); // the tape is still there
    EXPECT(kiln_gradient(w), 300, 400);
}

int main(int argc, char **argv)
{
    int status = open_device(argc, argv);
    if (status) return status;
    const struct CMUnitTest tests[] = {
        CASE(capability_18_a_rule_is_replaced),
        CASE(rules_keep_what_they_ask_for),
        CASE(rules_may_take_what_is_missing),
        CASE(batch_norm_makes_no_gradients_of_nothing),
        CASE(rules_may_fail),
        CASE(capability_72_the_backward_graph_shows_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, group_teardown);
}
