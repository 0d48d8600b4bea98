// Joining, padding, indexing, scans and sorting.
#include "reference/structured.h"
#include <string.h>

struct host reference_concat(const struct host *parts, int n, int axis, int dtype)
{
    int64_t dims[HOST_MAX_RANK] = {0};
    memcpy(dims, parts[0].dims, (size_t)parts[0].rank * sizeof dims[0]);
    for (int i = 1; i < n; i++) dims[axis] += parts[i].dims[axis];
    struct host out = host_new(dtype, parts[0].rank, dims);
    int64_t start = 0;
    for (int p = 0; p < n; p++) {
        for (int64_t i = 0; i < parts[p].n; i++) {
            int64_t at[HOST_MAX_RANK];
            unravel(parts[p].rank, parts[p].dims, i, at);
            at[axis] += start;
            out.v[ravel(out.rank, dims, at)] = converted(parts[p].dtype, dtype, parts[p].v[i]);
        }
        start += parts[p].dims[axis];
    }
    return out;
}

// Where position i of a padded axis comes from; -1: the constant.
static int64_t pad_source(int64_t i, int64_t size, enum pad_mode mode)
{
    if (i >= 0 && i < size) return i;
    if (mode == PAD_CONSTANT) return -1;
    if (mode == PAD_EDGE) return i < 0 ? 0 : size - 1;
    if (mode == PAD_CIRCULAR) return ((i % size) + size) % size;
    return i < 0 ? -i : 2 * (size - 1) - i;
}

struct host reference_pad(const struct host *x, const int64_t *before, const int64_t *after, enum pad_mode mode,
                          long double value)
{
    int64_t dims[HOST_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dims[i] = before[i] + x->dims[i] + after[i];
    struct host out = host_new(x->dtype, x->rank, dims);
    for (int64_t i = 0; i < out.n; i++) {
        int64_t at[HOST_MAX_RANK];
        unravel(x->rank, dims, i, at);
        for (int d = 0; d < x->rank; d++) at[d] = pad_source(at[d] - before[d], x->dims[d], mode);
        int64_t from = ravel(x->rank, x->dims, at);
        out.v[i] = from < 0 ? converted(KILN_F64, x->dtype, value) : x->v[from];
    }
    return out;
}

static int64_t from_end(long double index, int64_t size)
{
    return (int64_t)(index < 0 ? index + size : index);
}

struct host reference_gather(const struct host *x, int axis, const struct host *index)
{
    struct host out = host_new(x->dtype, index->rank, index->dims);
    for (int64_t i = 0; i < out.n; i++) {
        int64_t at[HOST_MAX_RANK];
        unravel(out.rank, out.dims, i, at);
        at[axis] = from_end(index->v[i], x->dims[axis]);
        out.v[i] = x->v[ravel(x->rank, x->dims, at)];
    }
    return out;
}

struct host reference_take(const struct host *x, int axis, const struct host *index)
{
    int64_t dims[HOST_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < axis; i++) dims[rank++] = x->dims[i];
    for (int i = 0; i < index->rank; i++) dims[rank++] = index->dims[i];
    for (int i = axis + 1; i < x->rank; i++) dims[rank++] = x->dims[i];
    struct host out = host_new(x->dtype, rank, dims);
    for (int64_t i = 0; i < out.n; i++) {
        int64_t to[HOST_MAX_RANK], from[HOST_MAX_RANK];
        unravel(rank, dims, i, to);
        int64_t which = ravel(index->rank, index->dims, to + axis);
        for (int d = 0; d < x->rank; d++)
            from[d] = d < axis ? to[d] : d == axis ? from_end(index->v[which], x->dims[axis]) : to[d - 1 + index->rank];
        out.v[i] = x->v[ravel(x->rank, x->dims, from)];
    }
    return out;
}

static long double joined(int dtype, enum scatter_verb verb, long double a, long double b)
{
    switch (verb) {
    case SCATTER_SUM: return is_float(dtype) ? a + b : wrapped(dtype, wrap_add(integer_bits(a), integer_bits(b)));
    case SCATTER_PRODUCT: return is_float(dtype) ? a * b : wrapped(dtype, wrap_mul(integer_bits(a), integer_bits(b)));
    case SCATTER_LARGEST: return isnan(a) || a >= b ? a : b;
    case SCATTER_LEAST: return isnan(a) || a <= b ? a : b;
    default: return b;
    }
}

struct host reference_scatter(const struct host *x, int axis, const struct host *index, const struct host *src,
                              enum scatter_verb verb, struct host *scale)
{
    struct host out = host_copy(x);
    if (scale) {
        *scale = host_copy(x);
        for (int64_t i = 0; i < x->n; i++) scale->v[i] = fabsl(x->v[i]);
    }
    for (int64_t i = 0; i < index->n; i++) {
        int64_t at[HOST_MAX_RANK];
        unravel(index->rank, index->dims, i, at);
        at[axis] = from_end(index->v[i], x->dims[axis]);
        int64_t to = ravel(x->rank, x->dims, at);
        out.v[to] = joined(x->dtype, verb, out.v[to], src->v[i]);
        if (scale && verb == SCATTER_PRODUCT)
            scale->v[to] *= fabsl(src->v[i]);
        else if (scale)
            scale->v[to] += fabsl(src->v[i]);
    }
    return out;
}

struct host reference_scan(const struct host *x, int axis, bool product, int dtype, struct host *scale)
{
    struct host out = host_new(dtype, x->rank, x->dims);
    *scale = host_new(dtype, x->rank, x->dims);
    struct lines l = lines_of(x, axis);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            long double acc = product, size = 0;
            for (int64_t k = 0; k < l.length; k++) {
                int64_t at = line_at(&l, o, i, k);
                if (is_float(x->dtype))
                    acc = product ? acc * x->v[at] : acc + x->v[at];
                else
                    acc = wrapped(dtype, product ? wrap_mul(integer_bits(acc), integer_bits(x->v[at]))
                                                 : wrap_add(integer_bits(acc), integer_bits(x->v[at])));
                size += fabsl(x->v[at]);
                out.v[at] = acc;
                scale->v[at] = product ? fabsl(acc) : size;
            }
        }
    return out;
}

// Whether a must come before b.
static bool before(long double a, long double b, bool descending)
{
    if (isnan(a) || isnan(b)) return !isnan(a) && isnan(b);
    return descending ? a > b : a < b;
}

struct host reference_argsort(const struct host *x, int axis, bool descending)
{
    struct host out = host_new(KILN_I64, x->rank, x->dims);
    struct lines l = lines_of(x, axis);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++)
            for (int64_t k = 0; k < l.length; k++) {
                long double v = x->v[line_at(&l, o, i, k)];
                int64_t j = k;
                for (; j > 0; j--) {
                    long double other = out.v[line_at(&l, o, i, j - 1)];
                    if (!before(v, x->v[line_at(&l, o, i, (int64_t)other)], descending)) break;
                    out.v[line_at(&l, o, i, j)] = other;
                }
                out.v[line_at(&l, o, i, j)] = (long double)k;
            }
    return out;
}
