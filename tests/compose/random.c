// Random composites, in each dtype and kind of capture: that what they give is of the right shape and lies where it
// must. How it is distributed: distributions.c.
#include "compose/case.h"

#include <math.h>

// Whether all of t lies in [lo, hi], or on whole numbers of it.
static kiln_tensor *all_in(kiln_tensor *t, double lo, double hi, bool whole)
{
    kiln_tensor *wide = kiln_cast(t, KILN_F64);
    kiln_tensor *sound =
        kiln_logical_and(kiln_greater_equal(wide, kiln_scalar(lo)), kiln_less_equal(wide, kiln_scalar(hi)));
    if (whole) sound = kiln_logical_and(sound, kiln_equal(wide, kiln_floor(wide)));
    return kiln_logical_and(
        kiln_all(sound, NULL),
        kiln_any(kiln_not_equal(wide, kiln_select(kiln_reshape(wide, KILN_SHAPE(-1)), 0, 0)), NULL));
}

static void expect_true(const struct host *in, struct host *out)
{
    (void)in;
    out[0] = host_new(KILN_BOOL, 0, NULL);
    out[0].v[0] = 1;
}

#define DEV   kiln_tensor_device(in[0])
#define DTYPE kiln_tensor_dtype(in[0])
#define SHAPE KILN_SHAPE(7, 11)
#define DRAWN(name, call_expr, lo, hi, whole)                          \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        out[0] = all_in(call_expr, lo, hi, whole);                     \
    }

DRAWN(exponential, kiln_exponential(DEV, DTYPE, SHAPE, 2), 0, 20, false)
DRAWN(laplace, kiln_laplace(DEV, DTYPE, SHAPE, 1, 2), -50, 50, false)
DRAWN(gumbel, kiln_gumbel(DEV, DTYPE, SHAPE, 1, 2), -10, 60, false)
DRAWN(logistic, kiln_logistic(DEV, DTYPE, SHAPE, 1, 2), -60, 60, false)
DRAWN(cauchy, kiln_cauchy(DEV, DTYPE, SHAPE, 1, 2), -INFINITY, INFINITY, false)
DRAWN(log_normal, kiln_log_normal(DEV, DTYPE, SHAPE, 0, 1), 0, 1000, false)
DRAWN(weibull, kiln_weibull(DEV, DTYPE, SHAPE, 2, 1.5), 0, 50, false)
DRAWN(pareto, kiln_pareto(DEV, DTYPE, SHAPE, 2, 3), 2, 3000, false)
DRAWN(geometric, kiln_geometric(DEV, DTYPE, SHAPE, 0.3), 1, 120, true)
DRAWN(rademacher, kiln_rademacher(DEV, DTYPE, SHAPE), -1, 1, true)
DRAWN(truncated_normal, kiln_truncated_normal(DEV, DTYPE, SHAPE, 1, 2, 3, INFINITY), 3, 20, false)
DRAWN(truncated_middle, kiln_truncated_normal(DEV, DTYPE, SHAPE, 1, 2, -1.5, 2), -1.5, 2, false)
DRAWN(rand_like, kiln_rand_like(in[0]), 0, 1, false)
DRAWN(randn_like, kiln_randn_like(in[0]), -10, 10, false)
DRAWN(randint_like, kiln_randint_like(in[0], 3, 9), 3, 8, true)
DRAWN(gamma, kiln_random_gamma(in[0], KILN_SHAPE(9, 5, 4)), 0, 60, false)
DRAWN(chi2, kiln_random_chi2(in[0], KILN_SHAPE0), 0, 60, false)
DRAWN(student_t, kiln_random_student_t(kiln_add(in[0], kiln_scalar(2)), KILN_SHAPE(9, 5, 4)), -100, 100, false)
DRAWN(beta, kiln_random_beta(in[0], in[1], KILN_SHAPE0), 0, 1, false)
DRAWN(dirichlet, kiln_dirichlet(in[0], KILN_SHAPE(6, 5, 4)), 0, 1, false)
DRAWN(poisson, kiln_random_poisson(kiln_mul(in[0], kiln_scalar_int(5)), KILN_SHAPE(3, 5, 4)), 0, 80, true)
DRAWN(binomial, kiln_random_binomial(in[0], kiln_scalar(0.4), KILN_SHAPE(3, 5, 4)), 0, 40, true)
DRAWN(categorical, kiln_categorical(in[0], KILN_SHAPE(20, 2)), 0, 3, true)
DRAWN(categorical_each, kiln_categorical(in[0], KILN_SHAPE0), 0, 3, true)
DRAWN(multinomial, kiln_multinomial(kiln_exp(in[0]), 9, true), 0, 3, true)

// All different, so that each line adds up to 0 + 1 + 2 + 3.
static void call_without(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *t = kiln_multinomial(kiln_exp(in[0]), 4, false);
    kiln_tensor *sum = kiln_sum(kiln_square(t), KILN_REDUCE(.axes = KILN_AXES(-1)));
    out[0] = kiln_all(kiln_equal(sum, kiln_scalar_int(14)), NULL);
}

// What is moved, and what is found moved back by the order of another shuffle's numbers: sums are as they were.
static void call_shuffle(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *y = kiln_shuffle(in[0], 0), *values, *places, *want;
    kiln_sort(y, 0, false, &values, &places);
    kiln_sort(in[0], 0, false, &want, &places);
    out[0] = kiln_all(kiln_equal(values, want), NULL);
}

// Of ones: each channel 0 or 2.
static void call_channels(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *y = kiln_feature_dropout(kiln_ones_like(in[0]), 0.5), *two = kiln_scalar(2);
    kiln_tensor *most = kiln_max(y, KILN_REDUCE(.axes = KILN_AXES(2, 3)));
    kiln_tensor *least = kiln_min(y, KILN_REDUCE(.axes = KILN_AXES(2, 3)));
    kiln_tensor *sound = kiln_logical_or(kiln_equal(most, kiln_scalar(0)), kiln_equal(most, two));
    sound = kiln_logical_and(kiln_all(sound, NULL), kiln_all(kiln_equal(most, least), NULL));
    out[0] = kiln_logical_and(sound, kiln_not_equal(kiln_max(most, NULL), kiln_min(most, NULL)));
}

// Of zeros: two values, whose mean by their probabilities is 0.
static void call_alpha(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *y = kiln_cast(kiln_alpha_dropout(kiln_zeros_like(in[0]), 0.25), KILN_F64);
    kiln_tensor *kept = kiln_max(y, NULL), *dropped = kiln_min(y, NULL);
    kiln_tensor *mean = kiln_add(kiln_mul(kept, kiln_scalar(0.75)), kiln_mul(dropped, kiln_scalar(0.25)));
    kiln_tensor *two = kiln_logical_or(kiln_equal(y, kept), kiln_equal(y, dropped));
    two = kiln_logical_and(kiln_all(two, NULL), kiln_greater(kept, kiln_scalar(0.3)));
    out[0] = kiln_logical_and(two, kiln_less(kiln_abs(mean), kiln_scalar(0.01)));
}

// One 1 in each line.
static void call_hard(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *y = kiln_cast(kiln_gumbel_softmax(in[0], 0.5, true), KILN_F64), *one = kiln_scalar(1);
    kiln_tensor *sums = kiln_sum(y, KILN_REDUCE(.axes = KILN_AXES(-1))),
                *most = kiln_max(y, KILN_REDUCE(.axes = KILN_AXES(-1)));
    kiln_tensor *near = kiln_less(kiln_abs(kiln_sub(sums, one)), kiln_scalar(0.02));
    out[0] = kiln_logical_and(kiln_all(near, NULL), kiln_all(kiln_greater(most, kiln_scalar(0.98)), NULL));
}
DRAWN(soft, kiln_gumbel_softmax(in[0], 0.5, false), 0, 1, false)

static const struct op_case random_cases[] = {
    {"exponential", "", "1", IN_FLOATS, call_exponential, expect_true},
    {"laplace", "", "1", IN_FLOATS, call_laplace, expect_true},
    {"gumbel", "", "1", IN_FLOATS, call_gumbel, expect_true},
    {"logistic", "", "1", IN_FLOATS, call_logistic, expect_true},
    {"cauchy", "", "1", IN_FLOATS, call_cauchy, expect_true},
    {"log_normal", "", "1", IN_FLOATS, call_log_normal, expect_true},
    {"weibull", "", "1", IN_FLOATS, call_weibull, expect_true},
    {"pareto", "", "1", IN_FLOATS, call_pareto, expect_true},
    {"geometric", "", "1", IN_NUMBERS, call_geometric, expect_true},
    {"rademacher", "", "1", IN_FLOATS, call_rademacher, expect_true},
    {"truncated_normal", "a tail", "1", IN_FLOATS, call_truncated_normal, expect_true},
    {"truncated_normal", "the middle", "1", IN_FLOATS, call_truncated_middle, expect_true},
    {"rand_like", "", "5x7", IN_FLOATS, call_rand_like, expect_true},
    {"randn_like", "", "5x7", IN_FLOATS, call_randn_like, expect_true},
    {"randint_like", "", "5x7", IN_INTEGERS, call_randint_like, expect_true},
    {"random_gamma", "broadcast", "5x4", IN_FLOATS, call_gamma, expect_true, .lo = 0.5, .hi = 4},
    {"random_chi2", "", "5x4", IN_FLOATS, call_chi2, expect_true, .lo = 0.5, .hi = 4},
    {"random_student_t", "broadcast", "5x4", IN_FLOATS, call_student_t, expect_true, .lo = 0.5, .hi = 4},
    {"random_beta", "two shapes", "5x1 1x4", IN_FLOATS, call_beta, expect_true, .lo = 0.5, .hi = 4},
    {"dirichlet", "broadcast", "5x4", IN_FLOATS, call_dirichlet, expect_true, .lo = 0.5, .hi = 4},
    {"random_poisson", "broadcast", "5x4", IN_NUMBERS, call_poisson, expect_true, .lo = 1, .hi = 5},
    {"random_binomial", "broadcast", "5x4", IN_NUMBERS, call_binomial, expect_true, .lo = 9, .hi = 40},
    {"categorical", "many", "5x4", IN_FLOATS, call_categorical, expect_true},
    {"categorical", "one each", "5x6x4", IN_FLOATS, call_categorical_each, expect_true},
    {"multinomial", "with replacement", "3x5x4", IN_FLOATS, call_multinomial, expect_true},
    {"multinomial", "without", "5x4", IN_FLOATS, call_without, expect_true},
    {"shuffle", "", "9", IN_NUMBERS, call_shuffle, expect_true},
    {"feature_dropout", "images", "5x7x2x3", IN_FLOATS, call_channels, expect_true},
    {"alpha_dropout", "zeros", "5x7", IN_FLOATS, call_alpha, expect_true},
    {"gumbel_softmax", "soft", "5x4", IN_FLOATS, call_soft, expect_true},
    {"gumbel_softmax", "hard", "5x4", IN_FLOATS, call_hard, expect_true},
};
FAMILY_OF(random);
