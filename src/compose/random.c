// Random numbers by inversion: one uniform number an element, or few. L. Devroye, Non-Uniform Random Variate
// Generation, 1986. What is computed in f16 and bf16 otherwise is computed in f32, and rounded at the end.
#include "compose/random.h"
#include "base/dtype.h"

#define PI 3.14159265358979323846

kiln_dtype random_wide(kiln_dtype dtype)
{
    return dtype == KILN_F64 ? KILN_F64 : KILN_F32;
}

kiln_tensor *random_open(kiln_device *dev, kiln_dtype wide, size_t rank, const int64_t *dims)
{
    return kiln_uniform(dev, wide, rank, dims, wide == KILN_F64 ? 0x1p-54 : 0x1p-25, 1);
}

kiln_tensor *random_exponential(kiln_device *dev, kiln_dtype wide, size_t rank, const int64_t *dims)
{
    kiln_tensor *t = random_open(dev, wide, rank, dims);
    t = composite_instead_of(t, kiln_log(t));
    return composite_instead_of(t, kiln_neg(t));
}

kiln_tensor *random_gumbel(kiln_device *dev, kiln_dtype wide, size_t rank, const int64_t *dims)
{
    kiln_tensor *t = random_exponential(dev, wide, rank, dims);
    t = composite_instead_of(t, kiln_log(t));
    return composite_instead_of(t, kiln_neg(t));
}

static bool floats(kiln_dtype dtype)
{
    if (!dtype_is_float(dtype)) error_set(KILN_E_DTYPE, "makes floats, not %s", kiln_dtype_name(dtype));
    return !error_pending;
}

bool random_positive(const char *name, double v)
{
    if (!error_pending && !(v > 0 && v < INFINITY))
        error_set(KILN_E_ARGUMENT, "%s must be positive and finite, it is %g", name, v);
    return !error_pending;
}

static bool is_finite(const char *name, double v)
{
    if (!error_pending && !(fabs(v) < INFINITY)) error_set(KILN_E_ARGUMENT, "%s must be finite, it is %g", name, v);
    return !error_pending;
}

// loc + scale * t, in the dtype asked for.
static kiln_tensor *placed(kiln_tensor *t, double loc, double scale, kiln_dtype dtype)
{
    return kiln_cast(kiln_add(kiln_mul(t, kiln_scalar(scale)), kiln_scalar(loc)), dtype);
}

kiln_tensor *compose_exponential(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double rate)
{
    if (!floats(dtype) || !random_positive("rate", rate)) return NULL;
    return placed(random_exponential(dev, random_wide(dtype), rank, dims), 0, 1 / rate, dtype);
}

kiln_tensor *compose_laplace(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double loc,
                             double scale)
{
    if (!floats(dtype) || !is_finite("loc", loc) || !random_positive("scale", scale)) return NULL;
    kiln_dtype wide = random_wide(dtype);
    kiln_tensor *a = random_exponential(dev, wide, rank, dims), *b = random_exponential(dev, wide, rank, dims);
    return placed(kiln_sub(a, b), loc, scale, dtype);
}

kiln_tensor *compose_gumbel(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double loc,
                            double scale)
{
    if (!floats(dtype) || !is_finite("loc", loc) || !random_positive("scale", scale)) return NULL;
    return placed(random_gumbel(dev, random_wide(dtype), rank, dims), loc, scale, dtype);
}

kiln_tensor *compose_logistic(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double loc,
                              double scale)
{
    if (!floats(dtype) || !is_finite("loc", loc) || !random_positive("scale", scale)) return NULL;
    return placed(kiln_logit(random_open(dev, random_wide(dtype), rank, dims)), loc, scale, dtype);
}

kiln_tensor *compose_cauchy(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double loc,
                            double scale)
{
    if (!floats(dtype) || !is_finite("loc", loc) || !random_positive("scale", scale)) return NULL;
    kiln_tensor *turn = kiln_sub(random_open(dev, random_wide(dtype), rank, dims), kiln_scalar(0.5));
    return placed(kiln_tan(kiln_mul(turn, kiln_scalar(PI))), loc, scale, dtype);
}

kiln_tensor *compose_log_normal(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double mean,
                                double std)
{
    if (!floats(dtype)) return NULL;
    return kiln_cast(kiln_exp(kiln_normal(dev, random_wide(dtype), rank, dims, mean, std)), dtype);
}

kiln_tensor *compose_weibull(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double scale,
                             double concentration)
{
    if (!floats(dtype) || !random_positive("scale", scale) || !random_positive("concentration", concentration))
        return NULL;
    kiln_tensor *e = random_exponential(dev, random_wide(dtype), rank, dims);
    return placed(kiln_pow(e, kiln_scalar(1 / concentration)), 0, scale, dtype);
}

kiln_tensor *compose_pareto(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double scale,
                            double alpha)
{
    if (!floats(dtype) || !random_positive("scale", scale) || !random_positive("alpha", alpha)) return NULL;
    kiln_tensor *e = random_exponential(dev, random_wide(dtype), rank, dims);
    return placed(kiln_exp(kiln_mul(e, kiln_scalar(1 / alpha))), 0, scale, dtype);
}

kiln_tensor *compose_geometric(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double p)
{
    if (!(p > 0 && p <= 1)) error_set(KILN_E_ARGUMENT, "p is %g, it must lie in (0, 1]", p);
    if (dtype == KILN_BOOL) error_set(KILN_E_DTYPE, "makes numbers, not bool");
    if (error_pending) return NULL;
    kiln_dtype wide = dtype_is_half_float(dtype) || dtype == KILN_F32 ? KILN_F32 : KILN_F64;
    kiln_tensor *log_u = kiln_log(random_open(dev, wide, rank, dims));
    kiln_tensor *trials = kiln_ceil(kiln_mul(log_u, kiln_scalar(1 / log1p(-p))));
    return kiln_cast(kiln_maximum(trials, kiln_scalar(1)), dtype);
}

kiln_tensor *compose_rademacher(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims)
{
    if (dtype == KILN_BOOL || dtype == KILN_U8) error_set(KILN_E_DTYPE, "-1 is no %s", kiln_dtype_name(dtype));
    kiln_tensor *bit = kiln_bernoulli(dev, KILN_F32, rank, dims, 0.5);
    return kiln_cast(kiln_sub(kiln_mul(bit, kiln_scalar(2)), kiln_scalar(1)), dtype);
}

static double below(double x) // the normal distribution function
{
    return erfc(-x * sqrt(0.5)) / 2;
}

// Above the mean the tail is taken from below, where the distribution function and its inverse lose nothing.
kiln_tensor *compose_truncated_normal(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double mean,
                                      double std, double lo, double hi)
{
    if (!floats(dtype) || !is_finite("mean", mean) || !random_positive("std", std)) return NULL;
    if (!(lo < hi)) {
        error_set(KILN_E_ARGUMENT, "the range from %g to %g is empty", lo, hi);
        return NULL;
    }
    double a = (lo - mean) / std, b = (hi - mean) / std;
    bool mirrored = a > 0;
    kiln_dtype wide = random_wide(dtype);
    double from = below(mirrored ? -b : a), to = below(mirrored ? -a : b);
    if (!(to > (wide == KILN_F32 ? 0x1p-126 : 0x1p-1022)) || from == to) {
        error_set(KILN_E_ARGUMENT, "the range from %g to %g lies where there is nothing of mean %g and std %g", lo, hi,
                  mean, std);
        return NULL;
    }
    kiln_tensor *share = random_open(dev, wide, rank, dims);
    kiln_tensor *u = kiln_add(kiln_mul(share, kiln_scalar(to - from)), kiln_scalar(from));
    kiln_tensor *z = kiln_ndtri(u);
    z = kiln_add(kiln_mul(z, kiln_scalar(mirrored ? -std : std)), kiln_scalar(mean));
    return kiln_cast(kiln_clip(z, kiln_scalar(lo), kiln_scalar(hi)), dtype);
}

static kiln_tensor *like(kiln_tensor *x, bool normal)
{
    kiln_device *dev = kiln_tensor_device(x);
    kiln_dtype dtype = kiln_tensor_dtype(x);
    return normal ? kiln_normal(dev, dtype, kiln_rank(x), kiln_dims(x), 0, 1)
                  : kiln_uniform(dev, dtype, kiln_rank(x), kiln_dims(x), 0, 1);
}

kiln_tensor *compose_rand_like(kiln_tensor *x)
{
    return like(x, false);
}

kiln_tensor *compose_randn_like(kiln_tensor *x)
{
    return like(x, true);
}

kiln_tensor *compose_randint_like(kiln_tensor *x, int64_t lo, int64_t hi)
{
    return kiln_randint(kiln_tensor_device(x), kiln_tensor_dtype(x), kiln_rank(x), kiln_dims(x), lo, hi);
}

kiln_tensor *compose_shuffle(kiln_tensor *x, int64_t axis)
{
    int at = composite_axis("axis", axis, kiln_rank(x), x);
    if (at < 0) return NULL;
    return kiln_take(x, at, kiln_randperm(kiln_tensor_device(x), kiln_dims(x)[at]));
}

// A number for each of the first axes, 1 along the others: 1 / (1 - p) or 0.
static kiln_tensor *kept(kiln_tensor *x, size_t axes, double p)
{
    int64_t dims[KILN_MAX_RANK];
    for (size_t i = 0; i < kiln_rank(x); i++) dims[i] = i < axes ? kiln_dims(x)[i] : 1;
    return kiln_bernoulli(kiln_tensor_device(x), kiln_tensor_dtype(x), kiln_rank(x), dims, 1 - p);
}

static bool drops(kiln_tensor *x, double p)
{
    if (!(p >= 0 && p <= 1)) error_set(KILN_E_ARGUMENT, "p is %g, a probability lies in [0, 1]", p);
    return !error_pending && floats(kiln_tensor_dtype(x));
}

kiln_tensor *compose_feature_dropout(kiln_tensor *x, double p)
{
    if (!drops(x, p)) return NULL;
    if (kiln_rank(x) < 2) error_set(KILN_E_SHAPE, "x must be [N, C, ...], it is %s", type_of(x).s);
    if (error_pending) return NULL;
    return kiln_mul(x, kiln_mul(kept(x, 2, p), kiln_scalar(p < 1 ? 1 / (1 - p) : 0)));
}

// a (x k + s (1 - k)) + b, s being the least value of selu, with a and b so that mean 0 and variance 1 stay.
kiln_tensor *compose_alpha_dropout(kiln_tensor *x, double p)
{
    if (!drops(x, p)) return NULL;
    double least = -1.75809934084737685994;
    double a = p < 1 ? 1 / sqrt((1 - p) * (1 + p * least * least)) : 0, b = -a * p * least;
    kiln_tensor *keep = kept(x, kiln_rank(x), p);
    kiln_tensor *dropped = kiln_mul(kiln_sub(kiln_scalar(1), keep), kiln_scalar(a * least));
    return kiln_add(kiln_add(kiln_mul(x, kiln_mul(keep, kiln_scalar(a))), dropped), kiln_scalar(b));
}
