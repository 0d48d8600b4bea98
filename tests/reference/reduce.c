// Reductions: for each result, a loop over the elements that fold into it.
#include "reference/structured.h"

// The elements of x that belong to result `index`, in row-major order; returns how many.
struct fold {
    const struct host *x;
    uint32_t mask;
    int64_t kept[HOST_MAX_RANK]; // index of the result, on the axes that stay
    int64_t row_dims[HOST_MAX_RANK];
    int64_t count;
};

static long double element(const struct fold *f, int64_t k)
{
    int64_t row[HOST_MAX_RANK] = {0}, at[HOST_MAX_RANK] = {0};
    unravel(f->x->rank, f->row_dims, k, row);
    for (int i = 0; i < f->x->rank; i++) at[i] = f->mask >> i & 1 ? row[i] : f->kept[i];
    return f->x->v[ravel(f->x->rank, f->x->dims, at)];
}

static int64_t arg_of(const struct fold *f, bool largest)
{
    int64_t best = 0;
    for (int64_t k = 0; k < f->count; k++) {
        long double v = element(f, k), b = element(f, best);
        if (isnan(v)) return k;
        if (largest ? v > b : v < b) best = k;
    }
    return best;
}

static long double integer_fold(const struct fold *f, bool product)
{
    int64_t acc = product;
    for (int64_t k = 0; k < f->count; k++)
        acc = product ? wrap_mul(acc, integer_bits(element(f, k))) : wrap_add(acc, integer_bits(element(f, k)));
    return wrapped(f->x->dtype == KILN_U64 ? KILN_U64 : KILN_I64, acc);
}

static long double sum_of(const struct fold *f, bool magnitudes)
{
    long double sum = 0;
    for (int64_t k = 0; k < f->count; k++) sum += magnitudes ? fabsl(element(f, k)) : element(f, k);
    return sum;
}

static long double variance(const struct fold *f, double correction)
{
    long double mean = sum_of(f, false) / f->count, sum = 0;
    for (int64_t k = 0; k < f->count; k++) sum += (element(f, k) - mean) * (element(f, k) - mean);
    return sum / fmaxl(0, f->count - (long double)correction);
}

static long double norm(const struct fold *f, double order)
{
    long double sum = 0;
    for (int64_t k = 0; k < f->count; k++) {
        long double v = fabsl(element(f, k));
        if (isinf(order) && order < 0)
            sum = k == 0 || isnan(v) || v < sum ? v : sum;
        else if (order == 0)
            sum += v != 0;
        else if (isinf(order))
            sum = isnan(v) || v > sum ? v : sum;
        else
            sum += powl(v, order);
    }
    if (f->count == 0 && isinf(order) && order < 0) return INFINITY;
    return isinf(order) || order == 0 ? sum : powl(sum, 1 / (long double)order);
}

static long double log_sum_exp(const struct fold *f)
{
    long double largest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < f->count; k++) {
        if (isnan(element(f, k))) return NAN;
        largest = fmaxl(largest, element(f, k));
    }
    if (isinf(largest)) return largest;
    for (int64_t k = 0; k < f->count; k++) sum += expl(element(f, k) - largest);
    return largest + logl(sum);
}

static long double fold(const struct fold *f, enum reduction what, double param)
{
    bool ints = !is_float(f->x->dtype);
    long double r = 1;
    switch (what) {
    case RED_SUM: return ints ? integer_fold(f, false) : sum_of(f, false);
    case RED_PROD:
        if (ints) return integer_fold(f, true);
        for (int64_t k = 0; k < f->count; k++) r *= element(f, k);
        return r;
    case RED_MEAN: return f->count ? sum_of(f, false) / f->count : NAN;
    case RED_ARGMAX: return (long double)arg_of(f, true);
    case RED_ARGMIN: return (long double)arg_of(f, false);
    case RED_MAX: return element(f, arg_of(f, true));
    case RED_MIN: return element(f, arg_of(f, false));
    case RED_ANY:
    case RED_ALL: {
        int64_t set = 0;
        for (int64_t k = 0; k < f->count; k++) set += element(f, k) != 0;
        return what == RED_ANY ? set > 0 : set == f->count;
    }
    case RED_VAR: return variance(f, param);
    case RED_STD: return sqrtl(variance(f, param));
    case RED_NORM: return norm(f, param);
    default: return log_sum_exp(f);
    }
}

struct host reference_reduce(const struct host *x, enum reduction what, uint32_t mask, bool keepdims, double param,
                             int dtype, struct host *scale)
{
    struct fold f = {.x = x, .mask = mask, .count = 1};
    int64_t dims[HOST_MAX_RANK], full[HOST_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->rank; i++) {
        bool reduced = mask >> i & 1;
        f.row_dims[i] = reduced ? x->dims[i] : 1;
        full[i] = reduced ? 1 : x->dims[i];
        f.count *= f.row_dims[i];
        if (!reduced || keepdims) dims[rank++] = full[i];
    }
    struct host out = host_new(dtype, rank, dims);
    if (scale) *scale = host_new(dtype, rank, dims);
    for (int64_t i = 0; i < out.n; i++) {
        unravel(x->rank, full, i, f.kept);
        out.v[i] = fold(&f, what, param);
        if (!scale) continue;
        if (what == RED_SUM)
            scale->v[i] = sum_of(&f, true);
        else if (what == RED_MEAN)
            scale->v[i] = f.count ? sum_of(&f, true) / f.count : 0;
        else if (what == RED_LOGSUMEXP)
            scale->v[i] = fmaxl(1, fabsl(out.v[i]));
        else
            scale->v[i] = fabsl(out.v[i]);
    }
    return out;
}
