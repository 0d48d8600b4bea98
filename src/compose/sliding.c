// Windows along axes, by the places of their elements: taken, and added up.
#include "compose/sliding.h"
#include "compose/given.h"

#include <string.h>

static const int64_t most = INT32_MAX;

bool sliding_count(struct sliding *s, int64_t size, const char *argument, int axis)
{
    if (error_pending) return false;
    int64_t reach = s->dilation * (s->kernel - 1) + 1, span = size + 2 * s->padding - reach;
    if (s->kernel < 1 || size > most || span < 0) {
        error_set(KILN_E_SHAPE, "a window of %lld elements with dilation %lld does not fit into %lld, axis %d of %s",
                  (long long)s->kernel, (long long)s->dilation, (long long)size, axis, argument);
        return false;
    }
    s->count = (span + (s->ceil_mode ? s->stride - 1 : 0)) / s->stride + 1;
    if (s->ceil_mode && (s->count - 1) * s->stride >= size + s->padding) s->count--;
    return true;
}

kiln_tensor *sliding_places(const struct sliding *s, kiln_device *dev)
{
    int64_t *v = table_new(s->count * s->kernel);
    for (int64_t i = 0; v && i < s->count; i++)
        for (int64_t k = 0; k < s->kernel; k++) v[i * s->kernel + k] = i * s->stride + k * s->dilation;
    return table_ints(dev, KILN_SHAPE(s->count, s->kernel), v);
}

// Where element 0 of each window's tap k goes, as strides over [..., count, ...] in a row-major [..., length, ...].
struct tap_places {
    size_t rank;
    int64_t dims[KILN_MAX_RANK], strides[KILN_MAX_RANK],
        step; // of the whole; step: from element to element of the axis
};

static struct tap_places places_of(kiln_tensor *windows, int axis, const struct sliding *s, int64_t length)
{
    struct tap_places p = {.rank = kiln_rank(windows) - 1};
    const int64_t *d = kiln_dims(windows);
    int64_t stride = 1;
    for (size_t i = p.rank; i-- > 0;) {
        p.dims[i] = i == (size_t)axis ? length : d[i > (size_t)axis ? i + 1 : i];
        p.strides[i] = i == (size_t)axis ? stride * s->stride : stride;
        if (i == (size_t)axis) p.step = stride * s->dilation;
        stride *= p.dims[i];
    }
    return p;
}

// Tap by tap: each goes to places of its own.
static kiln_tensor *added_by_taps(kiln_tensor *windows, int axis, const struct sliding *s, const struct tap_places *p)
{
    kiln_tensor *sum = NULL;
    for (int64_t k = 0; k < s->kernel && !error_pending; k++) {
        kiln_tensor *tap = kiln_select(windows, axis + 1, k);
        sum = sum ? kiln_as_strided_add(sum, tap, p->rank, p->strides, k * p->step)
                  : kiln_embed(tap, p->rank, p->dims, p->rank, p->strides, 0);
    }
    return sum;
}

kiln_tensor *sliding_added(kiln_tensor *windows, int axis, const struct sliding *s, int64_t length)
{
    enum { FEW_TAPS = 16, NARROW_STRIDE = 4 };
    if (error_pending) return NULL;
    struct tap_places p = places_of(windows, axis, s, length);
    kiln_device *dev = kiln_tensor_device(windows);
    kiln_dtype dtype = kiln_tensor_dtype(windows);
    // Each tap goes over the whole result, an index over each element of the windows, at more cost.
    bool few = s->kernel <= FEW_TAPS && s->stride <= NARROW_STRIDE && kiln_numel(windows) > 0;
    if (few && dtype != KILN_BOOL) return added_by_taps(windows, axis, s, &p);
    kiln_tensor *zeros = kiln_zeros(dev, dtype, p.rank, p.dims);
    p.dims[axis] = s->count * s->kernel;
    kiln_tensor *places = kiln_reshape(sliding_places(s, dev), KILN_SHAPE(s->count * s->kernel));
    return kiln_index_add(zeros, axis, places, kiln_reshape(windows, p.rank, p.dims));
}

// x in memory of its own, in row-major order, with strides.
static kiln_tensor *laid_out(kiln_tensor *x, int64_t *strides)
{
    kiln_tensor *own = kiln_contiguous(x);
    int64_t stride = 1;
    for (size_t i = kiln_rank(own); i-- > 0 && !error_pending;) {
        strides[i] = stride;
        stride *= kiln_dims(own)[i];
    }
    return own;
}

kiln_tensor *compose_sliding_window(kiln_tensor *x, int64_t axis, int64_t size, int64_t step)
{
    int at = composite_axis("axis", axis, kiln_rank(x), x);
    if (at < 0 || !given_range("size", size, 1, most) || !given_range("step", step, 1, most)) return NULL;
    size_t rank = kiln_rank(x);
    int64_t dims[KILN_MAX_RANK + 1], strides[KILN_MAX_RANK + 1];
    if (rank == KILN_MAX_RANK) error_set(KILN_E_SHAPE, "x has %zu dimensions already", rank);
    struct sliding s = {.kernel = size, .stride = step, .dilation = 1};
    if (!sliding_count(&s, kiln_dims(x)[at], "x", at)) return NULL;
    memcpy(dims, kiln_dims(x), rank * sizeof *dims);
    kiln_tensor *own = laid_out(x, strides);
    dims[at] = s.count, dims[rank] = size;
    strides[rank] = strides[at];
    strides[at] *= step;
    return kiln_as_strided(own, rank + 1, dims, rank + 1, strides, 0);
}

// --- columns of images

static bool read_columns(struct sliding s[2], const int64_t size[2], const kiln_unfold_opts *o, const char *argument)
{
    for (int i = 0; i < 2; i++) {
        if (!given_range(".kernel", o->kernel[i], 1, most) || !given_range(".stride", o->stride[i], 1, most) ||
            !given_range(".padding", o->padding[i], 0, most) || !given_range(".dilation", o->dilation[i], 1, most))
            return false;
        s[i] = (struct sliding){o->kernel[i], o->stride[i], o->padding[i], o->dilation[i], false, 0};
        if (!sliding_count(&s[i], size[i], argument, 2 + i)) return false;
    }
    return true;
}

kiln_tensor *compose_unfold(kiln_tensor *x, const kiln_unfold_opts *o)
{
    struct sliding s[2];
    if (!given_rank("x", x, 4, "[N,C,H,W]") || !read_columns(s, kiln_dims(x) + 2, o, "x")) return NULL;
    int64_t n = kiln_dims(x)[0], c = kiln_dims(x)[1], around[] = {0, 0, o->padding[0], o->padding[1]};
    int64_t h = kiln_dims(x)[2] + 2 * around[2], w = kiln_dims(x)[3] + 2 * around[3];
    // Both are in memory of their own, in row-major order.
    bool padded = around[2] || around[3];
    x = padded ? kiln_pad(x, KILN_PAD(.before = {4, around}, .after = {4, around})) : kiln_contiguous(x);
    const int64_t dims[] = {n, c, s[0].kernel, s[1].kernel, s[0].count, s[1].count};
    const int64_t strides[] = {c * h * w, h * w, s[0].dilation * w, s[1].dilation, s[0].stride * w, s[1].stride};
    kiln_tensor *windows = kiln_as_strided(x, 6, dims, 6, strides, 0);
    return kiln_reshape(windows, KILN_SHAPE(n, c * dims[2] * dims[3], dims[4] * dims[5]));
}

kiln_tensor *compose_fold(kiln_tensor *x, int64_t height, int64_t width, const kiln_unfold_opts *o)
{
    struct sliding s[2];
    int64_t size[] = {height, width};
    if (!given_rank("x", x, 3, "[N,C*KH*KW,OH*OW]") || !given_range("height", height, 1, most) ||
        !given_range("width", width, 1, most) || !read_columns(s, size, o, "the result"))
        return NULL;
    int64_t n = kiln_dims(x)[0], taps = s[0].kernel * s[1].kernel, c = kiln_dims(x)[1] / taps;
    if (kiln_dims(x)[1] != c * taps || kiln_dims(x)[2] != s[0].count * s[1].count) {
        error_set(KILN_E_SHAPE, "x is %s: windows of %lld x %lld are %lld, at %lld x %lld places", type_of(x).s,
                  (long long)s[0].kernel, (long long)s[1].kernel, (long long)taps, (long long)s[0].count,
                  (long long)s[1].count);
        return NULL;
    }
    kiln_dtype dtype = kiln_tensor_dtype(x);
    if (dtype_is_half_float(dtype)) x = kiln_cast(x, KILN_F32); // rounded once, at the end
    x = kiln_reshape(x, KILN_SHAPE(n, c, s[0].kernel, s[1].kernel, s[0].count, s[1].count));
    x = kiln_permute(x, KILN_AXES(0, 1, 4, 2, 5, 3)); // [N,C,OH,KH,OW,KW]
    x = sliding_added(x, 4, &s[1], width + 2 * o->padding[1]);
    x = sliding_added(x, 2, &s[0], height + 2 * o->padding[0]);
    x = kiln_narrow(kiln_narrow(x, 2, o->padding[0], height), 3, o->padding[1], width);
    return as_dtype(x, dtype);
}
