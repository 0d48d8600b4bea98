// Gradients where shapes and values are unusual: nothing along an axis, options left out or given without their
// fellows, values at the edge of what a rule may assume. Against numbers that are worked out here, or central
// differences.
#include "grad_fixture.h"

static bool on_cpu;

// Draws without a pattern.
static kiln_tensor *draw(kiln_dtype dtype, size_t rank, const int64_t *dims, double lo, double hi, double seed)
{
    int64_t n = 1;
    for (size_t i = 0; i < rank; i++) n *= dims[i];
    double *v = malloc(sizeof *v * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++) v[i] = lo + (hi - lo) * fmod(seed + (double)(i + 1) * 0.7548776662466927, 1.0);
    kiln_tensor *t = kiln_cast(kiln_from_data(dev, KILN_F64, rank, dims, v), dtype);
    free(v);
    return t;
}

static void expect_zeros(int line, kiln_tensor *g, const kiln_tensor *of)
{
    if (!g || kiln_error()) fail_msg("line %d: %s", line, kiln_error_message());
    assert_int_equal(kiln_rank(g), kiln_rank(of));
    for (size_t i = 0; i < kiln_rank(of); i++) assert_int_equal(kiln_dims(g)[i], kiln_dims(of)[i]);
    static double v[256];
    assert_true(kiln_numel(g) <= 256);
    kiln_read(kiln_cast(g, KILN_F64), v, sizeof(double) * (size_t)kiln_numel(g));
    for (int64_t i = 0; i < kiln_numel(g); i++) assert_true(v[i] == 0);
}

// Remainders: a = q b + r, so the derivative by b is -q, where q is the number of multiples that r leaves out.

FN(fmod_of)
{
    out[0] = kiln_fmod(in[0], in[1]);
    return kiln_error();
}

FN(remainder_of)
{
    out[0] = kiln_remainder(in[0], in[1]);
    return kiln_error();
}

#define PAIRS 4096
static void remainders_count_their_own_multiples(kiln_fn fn, kiln_dtype dtype)
{
    kiln_tensor *in[] = {draw(dtype, KILN_SHAPE(PAIRS), -30, 30, 0.1), draw(dtype, KILN_SHAPE(PAIRS), 0.1, 3, 0.6)};
    // Half of the dividends are rounded multiples.
    kiln_tensor *multiple = kiln_mul(in[1], kiln_round(kiln_div(in[0], in[1])));
    kiln_tensor *some = kiln_greater(draw(dtype, KILN_SHAPE(PAIRS), 0, 1, 0.3), kiln_scalar(0.5));
    in[0] = kiln_where(some, multiple, in[0]);
    kiln_tensor *results[2];
    static double a[PAIRS], b[PAIRS], r[PAIRS], g[PAIRS];
    kiln_value_and_grad(fn, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(1)), results, 2);
    kiln_tensor *read[] = {in[0], in[1], results[0], results[1]};
    double *to[] = {a, b, r, g};
    for (int i = 0; i < 4; i++) assert_int_equal(kiln_read(kiln_cast(read[i], KILN_F64), to[i], sizeof a), KILN_OK);
    int wrong = 0;
    for (int i = 0; i < PAIRS; i++) {
        double multiples = nearbyint((a[i] - r[i]) / b[i]);
        if (g[i] == -multiples) continue;
        if (!wrong++) print_error("(%.17g, %.17g): %g, expected %g\n", a[i], b[i], g[i], -multiples);
    }
    assert_int_equal(wrong, 0);
}

static void fmod_counts_its_own_multiples(void **state)
{
    remainders_count_their_own_multiples(fmod_of, KILN_F32);
    remainders_count_their_own_multiples(fmod_of, KILN_F64);
}

static void remainder_counts_its_own_multiples(void **state)
{
    remainders_count_their_own_multiples(remainder_of, KILN_F32);
    remainders_count_their_own_multiples(remainder_of, KILN_F64);
}

// Powers: by the exponent y log(a), which no base below 0 has; at 0 it is 0 where the power stays finite.

FN(power)
{
    out[0] = kiln_pow(in[0], in[1]);
    return kiln_error();
}

static void powers_of_negative_bases_have_no_slope_by_the_exponent(void **state)
{
    double bases[] = {-2, -2, -1, 0, 0, 0, 2, 1}, exponents[] = {3, 2, 0, 2, 0, -1, 3, 5};
    kiln_tensor *in[] = {kiln_from_data(dev, KILN_F64, KILN_SHAPE(8), bases),
                         kiln_from_data(dev, KILN_F64, KILN_SHAPE(8), exponents)};
    kiln_tensor *g;
    kiln_grad(power, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(1)), &g, 1);
    double got[8], want[] = {NAN, NAN, NAN, 0, 0, (double)-INFINITY, 8 * log(2), 0};
    assert_int_equal(kiln_read(g, got, sizeof got), KILN_OK);
    for (int i = 0; i < 8; i++)
        if (isnan(want[i]) ? !isnan(got[i]) : !(got[i] == want[i] || fabs(got[i] - want[i]) < 1e-14))
            fail_msg("%g to the power %g: %.17g, expected %.17g", bases[i], exponents[i], got[i], want[i]);
}

// What goes by steps, or ends the way: kiln_backward and kiln_grad agree that nothing comes back.

typedef kiln_tensor *(*unary_fn)(kiln_tensor *);

FN(sum_of_steps)
{
    kiln_tensor *y = (*(unary_fn *)user)(in[0]);
    out[0] = kiln_sum(kiln_mul(y, kiln_scalar(3)), NULL);
    return kiln_error();
}

static kiln_tensor *floor_divided(kiln_tensor *x)
{
    return kiln_floor_divide(x, kiln_add(x, kiln_scalar(2)));
}

static void steps_have_zero_gradients(void **state)
{
    unary_fn steps[] = {kiln_floor, kiln_ceil, kiln_round, kiln_trunc, kiln_sign, floor_divided};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        kiln_tensor *w = kiln_parameter(draw(KILN_F32, KILN_SHAPE(2, 3), -2, 2, 0.3), "w"), *g, *loss;
        kiln_set_gradient(w, kiln_ones_like(w));
        kiln_grad(sum_of_steps, &steps[i], &w, 1, NULL, &g, 1);
        expect_zeros(__LINE__, g, w);
        assert_int_equal(sum_of_steps(&steps[i], &w, 1, &loss, 1), KILN_OK);
        assert_int_equal(kiln_backward(loss, NULL), KILN_OK);
        expect_zeros(__LINE__, kiln_gradient(w), w);
    }
}

static kiln_tensor *largest_place(kiln_tensor *x)
{
    return kiln_cast(kiln_argmax(x, NULL), KILN_F32);
}

static kiln_tensor *above_zero(kiln_tensor *x)
{
    return kiln_cast(kiln_greater(x, kiln_scalar(0)), KILN_F32);
}

static void ways_that_end_set_no_gradient(void **state)
{
    unary_fn ends[] = {kiln_stop_gradient, largest_place, above_zero};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        kiln_tensor *w = kiln_parameter(draw(KILN_F32, KILN_SHAPE(2, 3), -2, 2, 0.3), "w"), *g, *loss;
        kiln_grad(sum_of_steps, &ends[i], &w, 1, NULL, &g, 1);
        expect_zeros(__LINE__, g, w);
        assert_int_equal(sum_of_steps(&ends[i], &w, 1, &loss, 1), KILN_OK);
        assert_int_equal(kiln_backward(loss, NULL), KILN_OK);
        assert_null(kiln_gradient(w));
    }
}

// Zeros, where rules that divide or take logarithms have to take care, to the second order.

FN(running_product)
{
    out[0] = kiln_cumprod(in[0], 0);
    return kiln_error();
}

FN(powers_of_each)
{
    out[0] = kiln_pow(in[0], kiln_from_data(dev, KILN_F64, KILN_SHAPE(5), (double[]){0, 1, 2, 3, -1}));
    return kiln_error();
}

static void zeros_have_second_derivatives(void **state)
{
    static const double values[][5] = {{0.5, 0, 2, 0.7, 3}, {0.5, 0, 2, 0, 3}, {0, 0, 2, 0.7, 0}, {0, 0, 0, 0, 3}};
    for (size_t i = 0; i < 4; i++) {
        kiln_tensor *x = kiln_from_data(dev, KILN_F64, KILN_SHAPE(5), values[i]);
        kiln_gradcheck(running_product, NULL, &x, 1, KILN_GRADCHECK(.order = 2, .atol = 1e-6));
        if (kiln_error()) fail_msg("cumprod, %zu: %s", i, kiln_error_message());
        if (i == 3) kiln_gradcheck(powers_of_each, NULL, &x, 1, KILN_GRADCHECK(.order = 2, .rtol = 1e-4, .atol = 1e-4));
        if (kiln_error()) fail_msg("pow: %s", kiln_error_message());
    }
}

// Labels that name no class

static void labels_out_of_range_are_told(void **state)
{
    if (!on_cpu) skip();
    const int64_t labels[] = {1, 0, -100, 3, 2, 1}, below[] = {1, -1};
    kiln_tensor *x = draw(KILN_F32, KILN_SHAPE(2, 3, 3), -2, 2, 0.3);
    kiln_tensor *t = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2, 3), labels);
    assert_null(kiln_cross_entropy(x, t, KILN_CROSS_ENTROPY(.ignore = true, .ignore_index = -100)));
    assert_int_equal(kiln_error(), KILN_E_ARGUMENT);
    assert_non_null(strstr(kiln_error_message(), "cross_entropy: label 3 at [1, 0] is out of range for 3 classes"));
    kiln_error_clear();
    kiln_tensor *rows = kiln_select(x, 0, 0);
    assert_null(kiln_cross_entropy(kiln_slice(rows, KILN_SLICE(.stop = KILN_ARGS(2))),
                                   kiln_from_data(dev, KILN_I64, KILN_SHAPE(2), below), NULL));
    assert_non_null(strstr(kiln_error_message(), "cross_entropy: label -1 at [1] is out of range for 3 classes"));
    kiln_error_clear();
    // Strided, narrower, and all in range.
    kiln_tensor *narrow =
        kiln_cast(kiln_from_data(dev, KILN_I64, KILN_SHAPE(3, 2), (int64_t[]){0, 7, 1, 7, 2, 7}), KILN_U8);
    kiln_cross_entropy(rows, kiln_select(narrow, 1, 0), NULL);
    assert_int_equal(kiln_error(), KILN_OK);
}

FN(loss_of)
{
    out[0] = kiln_cross_entropy(kiln_mul(in[0], kiln_scalar(2)), in[1], NULL);
    return kiln_error();
}

static void captures_tell_of_labels_too(void **state)
{
    const int64_t good[] = {1, 2}, bad[] = {1, 5};
    kiln_capture modes[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO};
    if (!on_cpu) skip();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        kiln_function *f = kiln_jit(loss_of, NULL, KILN_JIT(.capture = modes[i]));
        kiln_tensor *y, *in[] = {draw(KILN_F32, KILN_SHAPE(2, 3), -2, 2, 0.3), NULL};
        for (int k = 0; k < 6; k++) {
            in[1] = kiln_from_data(dev, KILN_I64, KILN_SHAPE(2), k == 4 ? bad : good);
            kiln_status status = kiln_call(f, in, 2, &y, 1);
            if (!status) kiln_item(y);
            assert_int_equal(kiln_error(), k == 4 ? KILN_E_ARGUMENT : KILN_OK);
            if (k == 4) assert_non_null(strstr(kiln_error_message(), "label 5 at [1] is out of range for 3 classes"));
            kiln_error_clear();
        }
        kiln_function_free(&f);
    }
}

// What has a size of 0 gets zeros of its own shape.

FN(product)
{
    out[0] = kiln_matmul(in[0], in[1]);
    return kiln_error();
}

static void products_over_nothing_have_gradients(void **state)
{
    static const struct {
        size_t rank[2];
        int64_t dims[2][4];
    } cases[] = {
        {{3, 2}, {{4, 3, 0}, {0, 5}}},    {{2, 3}, {{3, 0}, {4, 0, 5}}},
        {{3, 3}, {{1, 3, 0}, {4, 0, 5}}}, {{4, 2}, {{2, 3, 4, 0}, {0, 5}}},
        {{3, 2}, {{0, 3, 2}, {2, 5}}},    {{3, 2}, {{4, 0, 2}, {2, 5}}},
        {{3, 2}, {{4, 3, 2}, {2, 0}}},    {{1, 3}, {{0}, {4, 0, 5}}},
        {{3, 1}, {{4, 3, 0}, {0}}},       {{1, 1}, {{0}, {0}}},
        {{2, 3}, {{3, 2}, {0, 2, 5}}},    {{3, 3}, {{0, 3, 2}, {1, 2, 5}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kiln_tensor *in[2], *g[2];
        for (int k = 0; k < 2; k++) in[k] = kiln_ones(dev, KILN_F32, cases[i].rank[k], cases[i].dims[k]);
        kiln_grad(product, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), g, 2);
        if (kiln_error()) fail_msg("case %zu: %s", i, kiln_error_message());
        for (int k = 0; k < 2; k++) expect_zeros(__LINE__, g[k], in[k]);
    }
}

// Options without their fellows

FN(batch_norm_with_bias)
{
    out[0] = kiln_batch_norm(in[0], in[1], in[2], KILN_BATCH_NORM(.bias = in[3]));
    return kiln_error();
}

FN(batch_norm_train_with_bias)
{
    kiln_tensor *mean, *var;
    return kiln_batch_norm_train(in[0], KILN_BATCH_NORM(.bias = in[1]), &out[0], &mean, &var);
}

FN(layer_norm_with_bias)
{
    out[0] = kiln_layer_norm(in[0], 1, KILN_LAYER_NORM(.bias = in[1]));
    return kiln_error();
}

static void norms_take_a_bias_without_a_weight(void **state)
{
    kiln_tensor *x = draw(KILN_F64, KILN_SHAPE(4, 3), -2, 2, 0.2),
                *of_channel = draw(KILN_F64, KILN_SHAPE(3), 0.5, 2, 0.4);
    kiln_tensor *with_statistics[] = {x, of_channel, draw(KILN_F64, KILN_SHAPE(3), 0.5, 2, 0.6), of_channel};
    kiln_tensor *without[] = {x, of_channel};
    kiln_gradcheck(batch_norm_with_bias, NULL, with_statistics, 4,
                   KILN_GRADCHECK(.order = 2, .rtol = 1e-4, .atol = 1e-6));
    kiln_gradcheck(batch_norm_train_with_bias, NULL, without, 2,
                   KILN_GRADCHECK(.order = 2, .rtol = 1e-4, .atol = 1e-6));
    kiln_gradcheck(layer_norm_with_bias, NULL, without, 2, KILN_GRADCHECK(.order = 2, .rtol = 1e-4, .atol = 1e-6));
    if (kiln_error()) fail_msg("%s", kiln_error_message());
}

// Second derivatives where the operands meet in a wider dtype than the first one has

FN(entropy_of_probabilities)
{
    out[0] = kiln_cross_entropy(in[0], kiln_softmax(in[1], 1), NULL);
    return kiln_error();
}

FN(scaled_norm)
{
    out[0] = kiln_tanh(kiln_layer_norm(in[0], 1, KILN_LAYER_NORM(.weight = kiln_select(in[1], 0, 0))));
    return kiln_error();
}

FN(scaled_batch_norm)
{
    kiln_tensor *y, *mean, *var;
    kiln_batch_norm_train(in[0], KILN_BATCH_NORM(.weight = kiln_select(in[1], 0, 0)), &y, &mean, &var);
    out[0] = kiln_tanh(y);
    return kiln_error();
}

FN(slope_of)
{
    kiln_tensor *g[2];
    kiln_grad(*(kiln_fn *)user, NULL, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), g, 2);
    out[0] = kiln_add(kiln_cast(kiln_sum(kiln_square(g[0]), NULL), KILN_F64),
                      kiln_cast(kiln_sum(kiln_square(g[1]), NULL), KILN_F64));
    return kiln_error();
}

static void second_derivatives_in_mixed_dtypes(void **state)
{
    kiln_fn fns[] = {entropy_of_probabilities, scaled_norm, scaled_batch_norm};
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) {
        kiln_tensor *x = kiln_cast(draw(KILN_F64, KILN_SHAPE(4, 3), -2, 2, 0.2), KILN_BF16),
                    *w = kiln_cast(draw(KILN_F64, KILN_SHAPE(4, 3), 0.5, 2, 0.4), KILN_F32), *got[2], *want[2];
        kiln_tensor *mixed[] = {x, w}, *wide[] = {kiln_cast(x, KILN_F64), kiln_cast(w, KILN_F64)};
        kiln_grad(slope_of, &fns[i], mixed, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), got, 2);
        kiln_grad(slope_of, &fns[i], wide, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), want, 2);
        if (kiln_error()) fail_msg("function %zu: %s", i, kiln_error_message());
        for (int k = 0; k < 2; k++) {
            kiln_tensor *far = kiln_max(kiln_abs(kiln_sub(got[k], want[k])), NULL),
                        *size = kiln_max(kiln_abs(want[k]), NULL);
            if (!(kiln_item(far) <= 0.05 * kiln_item(size)))
                fail_msg("function %zu: gradient %d is %g away, of %g", i, k, kiln_item(far), kiln_item(size));
        }
    }
}

int main(int argc, char **argv)
{
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    on_cpu = argc < 2 || !strcmp(argv[1], "cpu");
    if (!dev) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return argc > 1 ? 77 : 1;
    }
    const struct CMUnitTest tests[] = {
        CASE(fmod_counts_its_own_multiples),
        CASE(remainder_counts_its_own_multiples),
        CASE(powers_of_negative_bases_have_no_slope_by_the_exponent),
        CASE(steps_have_zero_gradients),
        CASE(ways_that_end_set_no_gradient),
        CASE(zeros_have_second_derivatives),
        CASE(labels_out_of_range_are_told),
        CASE(captures_tell_of_labels_too),
        CASE(products_over_nothing_have_gradients),
        CASE(norms_take_a_bias_without_a_weight),
        CASE(second_derivatives_in_mixed_dtypes),
    };
    return cmocka_run_group_tests(tests, NULL, group_teardown);
}
