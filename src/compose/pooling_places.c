// Pooling by places: where the largest element of each window lies, what is put back there, and windows that divide an
// axis into as many parts as are wanted.
//
// The largest is looked for axis by axis, from the last to the first: each time the elements of a window along the axis
// lie side by side, the first largest of them is taken, and the places found so far are taken with it. So of several
// the first in row-major order is found. What is found is then read from x itself, which is all that gradients see.
// Windows of a few elements are compared with what pooling gives instead, element by element.
#include "compose/given.h"
#include "compose/pooling.h"

#include <string.h>

struct divided {
    int64_t count, taps;
    kiln_tensor *table; // i64 [count, taps]: the elements of each window; an entry too many repeats another
    // Where no entry is too many: from window to window, from element to element. Else 0.
    int64_t step, dilation;
};

static bool cut_by_pool(struct divided *c, const struct pooling *p, int i, kiln_tensor *x)
{
    struct sliding s;
    int64_t size = kiln_dims(x)[2 + i];
    if (!pool_sliding(p, i, size, &s)) return false;
    bool whole = s.padding == 0 && (s.count - 1) * s.stride + (s.kernel - 1) * s.dilation < size;
    *c = (struct divided){s.count, s.kernel, NULL, whole ? s.stride : 0, s.dilation};
    int64_t *v = table_new(s.count * s.kernel);
    for (int64_t w = 0; v && w < s.count; w++) {
        int64_t begin = w * s.stride - s.padding, first = begin;
        while (first < 0) first += s.dilation;
        for (int64_t k = 0; k < s.kernel; k++) {
            int64_t at = begin + k * s.dilation;
            v[w * s.kernel + k] = at < 0 || at >= size ? first : at;
        }
    }
    c->table = table_ints(kiln_tensor_device(x), KILN_SHAPE(c->count, c->taps), v);
    return c->table != NULL;
}

// Part i of n goes from floor(i size / n) to ceil((i + 1) size / n).
static bool cut_in_parts(struct divided *c, int64_t size, int64_t n, kiln_device *dev)
{
    *c = (struct divided){.count = n, .taps = 1};
    for (int64_t i = 0; i < n; i++) {
        int64_t length = ((i + 1) * size + n - 1) / n - i * size / n;
        if (length > c->taps) c->taps = length;
    }
    int64_t *v = table_new(n * c->taps);
    for (int64_t i = 0; v && i < n; i++)
        for (int64_t k = 0; k < c->taps; k++) {
            int64_t at = i * size / n + k, end = ((i + 1) * size + n - 1) / n;
            v[i * c->taps + k] = at < end ? at : i * size / n;
        }
    c->table = table_ints(dev, KILN_SHAPE(n, c->taps), v);
    return c->table != NULL;
}

// The places along `axis` of the largest elements of windows: x's shape with c->count there.
static kiln_tensor *largest_along(kiln_tensor *x, int axis, const struct divided *c)
{
    if (error_pending) return NULL;
    size_t rank = kiln_rank(x);
    kiln_device *dev = kiln_tensor_device(x);
    kiln_tensor *which = kiln_argmax(kiln_take(x, axis, c->table), KILN_REDUCE(.axes = KILN_AXES(axis + 1)));
    kiln_tensor *first = kiln_arange(dev, KILN_I64, 0, (double)(c->count * c->taps), (double)c->taps);
    kiln_tensor *in_table = kiln_add(which, laid_along(first, rank, axis));
    return kiln_take(kiln_reshape(c->table, KILN_SHAPE(-1)), 0, in_table);
}

// Values and places in the flattened image of the largest elements of windows, of x [N,C,...].
static void largest(kiln_tensor *x, const struct divided *cuts, int n, kiln_tensor **values, kiln_tensor **indices)
{
    kiln_tensor *best = x, *at = NULL;
    int64_t below = 1, dims[KILN_MAX_RANK];
    if (error_pending) return;
    memcpy(dims, kiln_dims(x), (size_t)(n + 2) * sizeof *dims);
    for (int i = n - 1; i >= 0; i--) {
        kiln_tensor *place = largest_along(best, 2 + i, &cuts[i]);
        kiln_tensor *from = below == 1 ? place : kiln_mul(place, kiln_scalar_int(below));
        at = at ? kiln_add(kiln_gather(at, 2 + i, place), from) : from;
        if (i) best = kiln_gather(best, 2 + i, place);
        below *= dims[2 + i];
    }
    if (error_pending) return;
    int64_t places = 1;
    for (int i = 0; i < n; i++) places *= cuts[i].count;
    kiln_tensor *line = kiln_reshape(x, KILN_SHAPE(dims[0], dims[1], below));
    kiln_tensor *y = kiln_gather(line, 2, kiln_reshape(at, KILN_SHAPE(dims[0], dims[1], places)));
    *values = kiln_reshape(y, (size_t)n + 2, kiln_dims(at));
    *indices = at;
}

// Element k of each window along an axis.
static kiln_tensor *element_of_windows(kiln_tensor *x, int axis, const struct divided *c, int64_t k)
{
    if (error_pending) return NULL;
    if (!c->step) return kiln_take(x, axis, kiln_select(c->table, 1, k));
    int64_t start[KILN_MAX_RANK] = {0}, stop[KILN_MAX_RANK], step[KILN_MAX_RANK];
    size_t rank = kiln_rank(x);
    for (size_t i = 0; i < rank; i++) stop[i] = kiln_dims(x)[i], step[i] = 1;
    start[axis] = k * c->dilation;
    stop[axis] = start[axis] + (c->count - 1) * c->step + 1;
    step[axis] = c->step;
    return kiln_slice(x, KILN_SLICE(.start = {rank, start}, .stop = {rank, stop}, .step = {rank, step}));
}

// Where in the flattened image such elements lie: of the shape of windows behind N and C.
static kiln_tensor *place_of_elements(kiln_tensor *x, const struct divided *cuts, int n, const int64_t *k)
{
    kiln_tensor *sum = NULL;
    int64_t below = 1;
    for (int i = n - 1; i >= 0 && !error_pending; i--) {
        kiln_tensor *line = kiln_mul(kiln_select(cuts[i].table, 1, k[i]), kiln_scalar_int(below));
        line = laid_along(line, (size_t)n, i);
        sum = sum ? kiln_add(line, sum) : line;
        below *= kiln_dims(x)[2 + i];
    }
    return sum;
}

// The places of the first elements of windows that are the largest, `values`: from the last to the first, each that is
// takes the place of those behind it.
static kiln_tensor *found_again(kiln_tensor *x, kiln_tensor *values, const struct divided *cuts, int n, int64_t taps)
{
    kiln_tensor *part[4] = {x}, *at = NULL;
    int64_t k[3], now[3] = {-1, -1, -1};
    bool floats = dtype_is_float(kiln_tensor_dtype(x));
    for (int64_t t = taps - 1; t >= 0 && !error_pending; t--) {
        int64_t rest = t;
        for (int i = n - 1; i >= 0; i--) k[i] = rest % cuts[i].taps, rest /= cuts[i].taps;
        bool moved = false;
        for (int i = 0; i < n; i++) {
            moved = moved || now[i] != k[i];
            if (moved) part[i + 1] = element_of_windows(part[i], 2 + i, &cuts[i], k[i]);
            now[i] = k[i];
        }
        kiln_tensor *place = place_of_elements(x, cuts, n, k);
        if (error_pending) return NULL;
        if (!at) {
            at = kiln_contiguous(kiln_expand(place, kiln_rank(values), kiln_dims(values)));
            continue;
        }
        kiln_tensor *is = kiln_equal(part[n], values);
        if (floats) is = kiln_logical_or(is, kiln_isnan(part[n])); // NaN wins, and equals nothing
        at = kiln_where(is, place, at);
    }
    return at;
}

static kiln_status pooled_with_indices(kiln_tensor *x, struct pooling p, kiln_tensor **values, kiln_tensor **indices)
{
    struct divided cuts[3];
    if (!pool_takes(&p, x)) return error_pending;
    if (kiln_tensor_dtype(x) == KILN_BOOL) error_set(KILN_E_DTYPE, "x must be numbers, it is %s", type_of(x).s);
    for (int i = 0; i < p.n; i++)
        if (!cut_by_pool(&cuts[i], &p, i, x)) return error_pending;
    enum { FEW_TAPS = 16 };
    int64_t taps = 1;
    for (int i = 0; i < p.n && taps <= FEW_TAPS; i++) taps *= cuts[i].taps;
    if (taps > FEW_TAPS) {
        largest(x, cuts, p.n, values, indices);
    } else {
        *values = pooled(x, &p, kiln_max_pool2d);
        *indices = found_again(x, *values, cuts, p.n, taps);
    }
    return error_pending;
}

kiln_status compose_max_pool1d_with_indices(kiln_tensor *x, const kiln_pool1d_opts *o, kiln_tensor **values,
                                            kiln_tensor **indices)
{
    return pooled_with_indices(x, pool_of_line(o), values, indices);
}

kiln_status compose_max_pool2d_with_indices(kiln_tensor *x, const kiln_pool2d_opts *o, kiln_tensor **values,
                                            kiln_tensor **indices)
{
    return pooled_with_indices(x, pool_of_image(o), values, indices);
}

kiln_status compose_max_pool3d_with_indices(kiln_tensor *x, const kiln_pool3d_opts *o, kiln_tensor **values,
                                            kiln_tensor **indices)
{
    return pooled_with_indices(x, pool_of_volume(o), values, indices);
}

// --- back to the places

static bool same_dims(const kiln_tensor *a, const kiln_tensor *b)
{
    size_t n = kiln_rank(a);
    return kiln_rank(b) == n && !memcmp(kiln_dims(a), kiln_dims(b), n * sizeof(int64_t));
}

// p->dilation holds the sizes that are wanted, 0 where they follow from the windows.
static kiln_tensor *unpooled(kiln_tensor *x, kiln_tensor *indices, const struct pooling *p)
{
    if (!pool_takes(p, x) || !given_integer("indices", indices)) return NULL;
    if (!same_dims(x, indices)) {
        error_set(KILN_E_SHAPE, "indices must be of x's shape: %s, %s", type_of(indices).s, type_of(x).s);
        return NULL;
    }
    int64_t n = kiln_dims(x)[0], c = kiln_dims(x)[1], out[3], places = 1, all = 1;
    for (int i = 0; i < p->n; i++) {
        int64_t stride = p->stride[i] ? p->stride[i] : p->kernel[i], in = kiln_dims(x)[2 + i];
        if (!given_range(".kernel", p->kernel[i], 1, INT32_MAX) || !given_range(".stride", stride, 1, INT32_MAX) ||
            !given_range(".padding", p->padding[i], 0, INT32_MAX) ||
            !given_range(".output_size", p->dilation[i], 0, INT32_MAX))
            return NULL;
        out[i] = p->dilation[i] ? p->dilation[i] : (in - 1) * stride - 2 * p->padding[i] + p->kernel[i];
        if (!given_range("the size of the result", out[i], 1, INT32_MAX)) return NULL;
        places *= in;
        if (__builtin_mul_overflow(all, out[i], &all)) error_set(KILN_E_SHAPE, "the result is too large");
    }
    if (error_pending) return NULL;
    kiln_tensor *zeros = kiln_zeros(kiln_tensor_device(x), kiln_tensor_dtype(x), KILN_SHAPE(n, c, all));
    kiln_tensor *y = kiln_scatter(zeros, 2, kiln_reshape(indices, KILN_SHAPE(n, c, places)),
                                  kiln_reshape(x, KILN_SHAPE(n, c, places)));
    return with_dims_of(x, 2, y, (size_t)p->n, out);
}

kiln_tensor *compose_max_unpool1d(kiln_tensor *x, kiln_tensor *indices, const kiln_unpool1d_opts *o)
{
    return unpooled(x, indices, &(struct pooling){1, {o->kernel}, {o->stride}, {o->padding}, {o->output_size}, 0, 0});
}

kiln_tensor *compose_max_unpool2d(kiln_tensor *x, kiln_tensor *indices, const kiln_unpool2d_opts *o)
{
    const int64_t *k = o->kernel, *s = o->stride, *p = o->padding, *z = o->output_size;
    return unpooled(x, indices,
                    &(struct pooling){2, {k[0], k[1]}, {s[0], s[1]}, {p[0], p[1]}, {z[0], z[1]}, false, false});
}

kiln_tensor *compose_max_unpool3d(kiln_tensor *x, kiln_tensor *indices, const kiln_unpool3d_opts *o)
{
    struct pooling p = {.n = 3};
    memcpy(p.kernel, o->kernel, sizeof p.kernel);
    memcpy(p.stride, o->stride, sizeof p.stride);
    memcpy(p.padding, o->padding, sizeof p.padding);
    memcpy(p.dilation, o->output_size, sizeof p.dilation);
    return unpooled(x, indices, &p);
}

// --- as many windows as are wanted

static bool read_sizes(kiln_tensor *x, int n, int64_t *size)
{
    struct pooling p = {.n = n};
    if (!pool_takes(&p, x)) return false;
    for (int i = 0; i < n; i++) {
        if (!given_range("the size of the result", size[i], 0, INT32_MAX)) return false;
        int64_t in = kiln_dims(x)[2 + i];
        if (size[i] == 0) size[i] = in;
        if (in < 1 || in > INT32_MAX)
            error_set(KILN_E_SHAPE, "axis %d of x, %s, cannot be divided", 2 + i, type_of(x).s);
    }
    return !error_pending;
}

// Where all sizes are multiples, the windows are those of pooling.
static bool even(kiln_tensor *x, int n, const int64_t *size, struct pooling *p)
{
    *p = (struct pooling){.n = n, .dilation = {1, 1, 1}};
    for (int i = 0; i < n; i++) {
        if (kiln_dims(x)[2 + i] % size[i]) return false;
        p->kernel[i] = kiln_dims(x)[2 + i] / size[i];
    }
    return true;
}

// All of each channel, as kiln_global_avg_pool and kiln_global_max_pool take it.
static bool is_whole(int n, const int64_t *size)
{
    for (int i = 0; i < n; i++)
        if (size[i] != 1) return false;
    return true;
}

static kiln_tensor *means_of_parts(kiln_tensor *x, int axis, int64_t n)
{
    if (error_pending) return NULL;
    int64_t size = kiln_dims(x)[axis];
    if (size == n) return x;
    double *v = table_new(n * size);
    for (int64_t i = 0; v && i < n; i++) {
        int64_t begin = i * size / n, end = ((i + 1) * size + n - 1) / n;
        for (int64_t k = 0; k < size; k++) v[i * size + k] = k >= begin && k < end ? 1.0 / (double)(end - begin) : 0;
    }
    return times_along(table_floats(kiln_tensor_device(x), kiln_tensor_dtype(x), KILN_SHAPE(n, size), v), x, axis);
}

kiln_tensor *averaged_parts(kiln_tensor *x, int n, int64_t *size)
{
    struct pooling p;
    if (!read_sizes(x, n, size) || !given_float("x", x)) return NULL;
    if (is_whole(n, size)) return kiln_global_avg_pool(x);
    kiln_dtype dtype = kiln_tensor_dtype(x);
    bool is_even = even(x, n, size, &p);
    if (is_even && n != 2) return pooled(x, &p, kiln_avg_pool2d);
    kiln_tensor *y = as_dtype(x, wide_dtype(dtype));
    if (is_even) { // rows are added up side by side, then little is left
        y = kiln_avg_pool2d(y, KILN_POOL2D(.kernel = {p.kernel[0], 1}));
        return as_dtype(kiln_avg_pool2d(y, KILN_POOL2D(.kernel = {1, p.kernel[1]})), dtype);
    }
    for (int i = 0; i < n; i++) y = means_of_parts(y, 2 + i, size[i]);
    return as_dtype(y, dtype);
}

static kiln_tensor *largest_of_parts(kiln_tensor *x, int n, int64_t *size)
{
    struct pooling p;
    struct divided cuts[3];
    kiln_tensor *values = NULL, *indices;
    if (!read_sizes(x, n, size)) return NULL;
    if (even(x, n, size, &p)) return pooled(x, &p, kiln_max_pool2d);
    for (int i = 0; i < n; i++)
        if (!cut_in_parts(&cuts[i], kiln_dims(x)[2 + i], size[i], kiln_tensor_device(x))) return NULL;
    largest(x, cuts, n, &values, &indices);
    return values;
}

kiln_tensor *compose_adaptive_avg_pool1d(kiln_tensor *x, int64_t length)
{
    return averaged_parts(x, 1, &length);
}

kiln_tensor *compose_adaptive_avg_pool2d(kiln_tensor *x, int64_t height, int64_t width)
{
    return averaged_parts(x, 2, (int64_t[]){height, width});
}

kiln_tensor *compose_adaptive_avg_pool3d(kiln_tensor *x, int64_t depth, int64_t height, int64_t width)
{
    return averaged_parts(x, 3, (int64_t[]){depth, height, width});
}

kiln_tensor *compose_adaptive_max_pool1d(kiln_tensor *x, int64_t length)
{
    return largest_of_parts(x, 1, &length);
}

kiln_tensor *compose_adaptive_max_pool2d(kiln_tensor *x, int64_t height, int64_t width)
{
    return largest_of_parts(x, 2, (int64_t[]){height, width});
}

kiln_tensor *compose_adaptive_max_pool3d(kiln_tensor *x, int64_t depth, int64_t height, int64_t width)
{
    return largest_of_parts(x, 3, (int64_t[]){depth, height, width});
}
