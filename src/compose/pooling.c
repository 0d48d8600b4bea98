// Pooling in one and three dimensions by pooling in two: a line is an image of height 1; a volume is pooled slice by
// slice, then along the depth. Of equal largest elements the first still takes the gradient: the first slice that has
// one, and the first in it.
#include "compose/pooling.h"
#include "compose/given.h"

#include <math.h>
#include <string.h>

static const char *const layouts[] = {"[N,C,L]", "[N,C,H,W]", "[N,C,D,H,W]"};

bool pool_sliding(const struct pooling *p, int i, int64_t size, struct sliding *s)
{
    *s = (struct sliding){
        p->kernel[i], p->stride[i] ? p->stride[i] : p->kernel[i], p->padding[i], p->dilation[i], p->ceil_mode, 0};
    if (!given_range(".kernel", s->kernel, 1, INT32_MAX) || !given_range(".stride", s->stride, 1, INT32_MAX) ||
        !given_range(".dilation", s->dilation, 1, INT32_MAX))
        return false;
    // More, and a window would hold nothing else.
    return given_range(".padding", s->padding, 0, s->dilation * (s->kernel - 1)) && sliding_count(s, size, "x", 2 + i);
}

bool pool_takes(const struct pooling *p, kiln_tensor *x)
{
    return given_rank("x", x, (size_t)p->n + 2, layouts[p->n - 1]);
}

static kiln_pool2d_opts flat(const struct pooling *p, int a, int b)
{
    kiln_pool2d_opts o = {.size = sizeof o,
                          .kernel = {1, 1},
                          .stride = {1, 1},
                          .dilation = {1, 1},
                          .ceil_mode = p->ceil_mode,
                          .exclude_padding = p->exclude_padding};
    int of[] = {a, b};
    for (int i = 0; i < 2; i++) {
        if (of[i] < 0) continue;
        o.kernel[i] = p->kernel[of[i]];
        o.stride[i] = p->stride[of[i]] ? p->stride[of[i]] : p->kernel[of[i]];
        o.padding[i] = p->padding[of[i]];
        if (p->dilation[of[i]]) o.dilation[i] = p->dilation[of[i]];
    }
    return o;
}

kiln_tensor *pooled(kiln_tensor *x, const struct pooling *p, pool_fn fn)
{
    if (!pool_takes(p, x)) return NULL;
    kiln_pool2d_opts last = flat(p, p->n - 2, p->n - 1), first = flat(p, 0, -1);
    if (p->n == 2) return fn(x, &last);
    if (p->n == 1) return kiln_squeeze(fn(kiln_unsqueeze(x, 2), &last), KILN_AXES(2));
    int64_t d[5];
    memcpy(d, kiln_dims(x), sizeof d);
    kiln_tensor *y = fn(kiln_reshape(x, KILN_SHAPE(d[0], d[1] * d[2], d[3], d[4])), &last);
    if (error_pending) return NULL;
    int64_t h = kiln_dims(y)[2], w = kiln_dims(y)[3];
    y = fn(kiln_reshape(y, KILN_SHAPE(d[0], d[1], d[2], h * w)), &first);
    if (error_pending) return NULL;
    return kiln_reshape(y, KILN_SHAPE(d[0], d[1], kiln_dims(y)[2], h, w));
}

struct pooling pool_of_line(const kiln_pool1d_opts *o)
{
    return (struct pooling){1, {o->kernel}, {o->stride}, {o->padding}, {o->dilation}, o->ceil_mode, o->exclude_padding};
}

struct pooling pool_of_image(const kiln_pool2d_opts *o)
{
    struct pooling p = {.n = 2, .ceil_mode = o->ceil_mode, .exclude_padding = o->exclude_padding};
    memcpy(p.kernel, o->kernel, sizeof o->kernel);
    memcpy(p.stride, o->stride, sizeof o->stride);
    memcpy(p.padding, o->padding, sizeof o->padding);
    memcpy(p.dilation, o->dilation, sizeof o->dilation);
    return p;
}

struct pooling pool_of_volume(const kiln_pool3d_opts *o)
{
    struct pooling p = {.n = 3, .ceil_mode = o->ceil_mode, .exclude_padding = o->exclude_padding};
    memcpy(p.kernel, o->kernel, sizeof p.kernel);
    memcpy(p.stride, o->stride, sizeof p.stride);
    memcpy(p.padding, o->padding, sizeof p.padding);
    memcpy(p.dilation, o->dilation, sizeof p.dilation);
    return p;
}

kiln_tensor *compose_max_pool1d(kiln_tensor *x, const kiln_pool1d_opts *o)
{
    struct pooling p = pool_of_line(o);
    return pooled(x, &p, kiln_max_pool2d);
}

kiln_tensor *compose_max_pool3d(kiln_tensor *x, const kiln_pool3d_opts *o)
{
    struct pooling p = pool_of_volume(o);
    return pooled(x, &p, kiln_max_pool2d);
}

kiln_tensor *compose_avg_pool1d(kiln_tensor *x, const kiln_pool1d_opts *o)
{
    struct pooling p = pool_of_line(o);
    return pooled(x, &p, kiln_avg_pool2d);
}

kiln_tensor *compose_avg_pool3d(kiln_tensor *x, const kiln_pool3d_opts *o)
{
    struct pooling p = pool_of_volume(o);
    return pooled(x, &p, kiln_avg_pool2d);
}

// --- norms of windows

// Zeros all around, so that each window is whole and a mean is a sum over so many elements.
static kiln_tensor *filled_up(kiln_tensor *x, struct pooling *p)
{
    int64_t before[5] = {0}, after[5] = {0};
    if (error_pending) return NULL;
    for (int i = 0; i < p->n; i++) {
        struct sliding s;
        if (!pool_sliding(p, i, kiln_dims(x)[2 + i], &s)) return NULL;
        int64_t reach = (s.count - 1) * s.stride + (s.kernel - 1) * s.dilation + 1;
        before[2 + i] = s.padding;
        after[2 + i] = reach - s.padding - kiln_dims(x)[2 + i];
        if (after[2 + i] < 0) after[2 + i] = 0;
        p->padding[i] = 0;
    }
    p->ceil_mode = false;
    size_t rank = (size_t)p->n + 2;
    return kiln_pad(x, KILN_PAD(.before = {rank, before}, .after = {rank, after}));
}

static kiln_tensor *lp_pooled(kiln_tensor *x, double order, struct pooling p)
{
    if (!pool_takes(&p, x) || !given_float("x", x)) return NULL;
    if (!(order > 0) || isinf(order)) error_set(KILN_E_ARGUMENT, "p must be positive and finite, it is %g", order);
    kiln_dtype dtype = kiln_tensor_dtype(x);
    double size = 1;
    for (int i = 0; i < p.n; i++) size *= (double)p.kernel[i];
    x = filled_up(as_dtype(x, wide_dtype(dtype)), &p);
    kiln_tensor *power = order == 2 ? kiln_square(x) : kiln_pow(kiln_abs(x), kiln_scalar(order));
    kiln_tensor *sum = kiln_mul(pooled(power, &p, kiln_avg_pool2d), kiln_scalar(size));
    // The root has no slope at 0: there the gradient is 0.
    kiln_tensor *none = kiln_equal(sum, kiln_scalar(0)), *safe = kiln_where(none, kiln_scalar(1), sum);
    kiln_tensor *root = order == 2 ? kiln_sqrt(safe) : kiln_pow(safe, kiln_scalar(1 / order));
    return as_dtype(kiln_where(none, kiln_scalar(0), root), dtype);
}

kiln_tensor *compose_lp_pool1d(kiln_tensor *x, double p, const kiln_pool1d_opts *o)
{
    return lp_pooled(x, p, pool_of_line(o));
}

kiln_tensor *compose_lp_pool2d(kiln_tensor *x, double p, const kiln_pool2d_opts *o)
{
    return lp_pooled(x, p, pool_of_image(o));
}

kiln_tensor *compose_lp_pool3d(kiln_tensor *x, double p, const kiln_pool3d_opts *o)
{
    return lp_pooled(x, p, pool_of_volume(o));
}

// --- all of each channel

static kiln_tensor *over_places(kiln_tensor *x, kiln_tensor *(*fold)(kiln_tensor *x, const kiln_reduce_opts *o))
{
    int64_t axes[KILN_MAX_RANK];
    size_t rank = kiln_rank(x);
    if (rank < 3) {
        error_set(KILN_E_SHAPE, "x must be [N,C,...], it is %s", type_of(x).s);
        return NULL;
    }
    for (size_t i = 2; i < rank; i++) axes[i - 2] = (int64_t)i;
    return fold(x, KILN_REDUCE(.axes = {rank - 2, axes}, .keepdims = true));
}

kiln_tensor *compose_global_avg_pool(kiln_tensor *x)
{
    return over_places(x, kiln_mean);
}

kiln_tensor *compose_global_max_pool(kiln_tensor *x)
{
    return over_places(x, kiln_max);
}
