// Gamma and what is made of it. G. Marsaglia and W. W. Tsang, A simple method for generating gamma variables, 2000: a
// cube of a normal number is taken with probability 0.95 or more. All elements make ROUNDS attempts at once and take
// the first that holds, so that what is drawn depends on the shape alone; none does with probability 1e-11 at most, and
// then the first attempt is taken. Below 1 by the number for alpha + 1 times u^(1 / alpha), in logarithms, which do not
// vanish.
#include "compose/random.h"
#include "base/dtype.h"

enum { ROUNDS = 8 };

struct attempts {
    kiln_device *dev;
    kiln_dtype wide;
    size_t rank;
    int64_t dims[KILN_MAX_RANK + 1]; // behind the number of attempts
};

static bool all_floats(const char *name, kiln_tensor *t)
{
    if (!error_pending && !dtype_is_float(kiln_tensor_dtype(t)))
        error_set(KILN_E_DTYPE, "%s must be floats, it is %s", name, type_of(t).s);
    return !error_pending;
}

static bool space_of(kiln_tensor *t, struct attempts *s)
{
    s->dev = kiln_tensor_device(t);
    s->wide = random_wide(kiln_tensor_dtype(t));
    s->rank = kiln_rank(t);
    if (s->rank >= KILN_MAX_RANK) error_set(KILN_E_SHAPE, "the samples have rank %zu, which is too much", s->rank);
    if (error_pending) return false;
    s->dims[0] = ROUNDS;
    for (size_t i = 0; i < s->rank; i++) s->dims[1 + i] = kiln_dims(t)[i];
    return true;
}

// The first attempt along axis 0 that holds.
static kiln_tensor *first(kiln_tensor *attempts, kiln_tensor *holds)
{
    kiln_tensor *at = kiln_argmax(kiln_cast(holds, KILN_I32), KILN_REDUCE(.axes = KILN_AXES(0), .keepdims = true));
    return kiln_squeeze(kiln_gather(attempts, 0, at), KILN_AXES(0));
}

// The logarithm of gamma numbers of f32 or f64 alpha, already of the shape of the samples.
static kiln_tensor *log_gamma(kiln_tensor *alpha)
{
    struct attempts s;
    if (!space_of(alpha, &s)) return NULL;
    kiln_tensor *one = kiln_scalar(1), *small = kiln_less(alpha, one);
    kiln_tensor *d = kiln_sub(kiln_where(small, kiln_add(alpha, one), alpha), kiln_scalar(1 / 3.0));
    kiln_tensor *c = kiln_rsqrt(kiln_mul(d, kiln_scalar(9)));
    kiln_tensor *x = kiln_normal(s.dev, s.wide, s.rank + 1, s.dims, 0, 1);
    kiln_tensor *log_u = kiln_log(random_open(s.dev, s.wide, s.rank + 1, s.dims));
    kiln_tensor *root = kiln_add(one, kiln_mul(c, x)), *sound = kiln_greater(root, kiln_scalar(0));
    kiln_tensor *log_v = kiln_mul(kiln_log(kiln_where(sound, root, one)), kiln_scalar(3));
    kiln_tensor *bound = kiln_sub(kiln_add(log_v, one), kiln_exp(log_v)); // of d
    kiln_tensor *limit = kiln_add(kiln_mul(kiln_square(x), kiln_scalar(0.5)), kiln_mul(d, bound));
    kiln_tensor *r = first(log_v, kiln_logical_and(sound, kiln_less(log_u, limit)));
    kiln_tensor *boost = kiln_div(kiln_log(random_open(s.dev, s.wide, s.rank, s.dims + 1)), alpha);
    r = kiln_add(kiln_add(r, kiln_log(d)), kiln_where(small, boost, kiln_scalar(0)));
    return kiln_where(kiln_greater(alpha, kiln_scalar(0)), r, kiln_scalar(NAN));
}

// A parameter in the dtype that is computed in, cut off from gradients and broadcast to the shape of the samples.
static kiln_tensor *parameter(const char *name, kiln_tensor *t, kiln_dtype wide, size_t rank, const int64_t *dims)
{
    if (!all_floats(name, t)) return NULL;
    kiln_tensor *own = kiln_cast(kiln_stop_gradient(t), wide);
    return rank ? kiln_expand(own, rank, dims) : own;
}

static kiln_tensor *gamma_of(const char *name, kiln_tensor *t, double factor, size_t rank, const int64_t *dims)
{
    kiln_dtype wide = random_wide(kiln_tensor_dtype(t));
    kiln_tensor *alpha = parameter(name, t, wide, rank, dims);
    return log_gamma(factor == 1 ? alpha : kiln_mul(alpha, kiln_scalar(factor)));
}

kiln_tensor *compose_random_gamma(kiln_tensor *alpha, size_t rank, const int64_t *dims)
{
    return kiln_cast(kiln_exp(gamma_of("alpha", alpha, 1, rank, dims)), kiln_tensor_dtype(alpha));
}

kiln_tensor *compose_random_chi2(kiln_tensor *df, size_t rank, const int64_t *dims)
{
    kiln_tensor *half = kiln_exp(gamma_of("df", df, 0.5, rank, dims));
    return kiln_cast(kiln_mul(half, kiln_scalar(2)), kiln_tensor_dtype(df));
}

kiln_tensor *compose_random_student_t(kiln_tensor *df, size_t rank, const int64_t *dims)
{
    kiln_dtype wide = random_wide(kiln_tensor_dtype(df));
    kiln_tensor *log_half = gamma_of("df", df, 0.5, rank, dims);
    kiln_tensor *log_df = kiln_log(kiln_mul(parameter("df", df, wide, rank, dims), kiln_scalar(0.5)));
    if (error_pending) return NULL;
    kiln_tensor *z = kiln_normal(kiln_tensor_device(log_half), wide, kiln_rank(log_half), kiln_dims(log_half), 0, 1);
    kiln_tensor *scale = kiln_exp(kiln_mul(kiln_sub(log_df, log_half), kiln_scalar(0.5)));
    return kiln_cast(kiln_mul(z, scale), kiln_tensor_dtype(df));
}

kiln_tensor *compose_random_beta(kiln_tensor *a, kiln_tensor *b, size_t rank, const int64_t *dims)
{
    if (!all_floats("a", a) || !all_floats("b", b)) return NULL;
    kiln_tensor *both = kiln_stop_gradient(kiln_add(a, b)); // its dtype and shape alone
    if (error_pending) return NULL;
    if (rank == 0) rank = kiln_rank(both), dims = kiln_dims(both);
    kiln_dtype wide = random_wide(kiln_tensor_dtype(both));
    kiln_tensor *log_a = log_gamma(kiln_expand(kiln_cast(kiln_stop_gradient(a), wide), rank, dims));
    kiln_tensor *log_b = log_gamma(kiln_expand(kiln_cast(kiln_stop_gradient(b), wide), rank, dims));
    return kiln_cast(kiln_sigmoid(kiln_sub(log_a, log_b)), kiln_tensor_dtype(both));
}

kiln_tensor *compose_dirichlet(kiln_tensor *alpha, size_t rank, const int64_t *dims)
{
    if (kiln_rank(alpha) == 0 && rank == 0) error_set(KILN_E_SHAPE, "alpha is a number, it must have an axis");
    return kiln_cast(kiln_softmax(gamma_of("alpha", alpha, 1, rank, dims), -1), kiln_tensor_dtype(alpha));
}
