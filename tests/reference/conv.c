// Convolution and pooling in two dimensions: every output, every tap.
#include "reference/structured.h"

int64_t window_count(const struct window *w, int axis, int64_t size)
{
    int64_t count = 0, span = w->dilation[axis] * (w->kernel[axis] - 1) + 1;
    for (int64_t start = -w->padding[axis];; start += w->stride[axis]) {
        bool fits = start + span <= size + w->padding[axis];
        // With ceil_mode a window may hang over the end, if the one before it does not reach the end and it starts
        // before it.
        bool hangs =
            w->ceil_mode && count > 0 && start < size && start - w->stride[axis] + span < size + w->padding[axis];
        if (!fits && !hangs) return count;
        count++;
    }
}

static long double *at4(const struct host *h, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return &h->v[((a * h->dims[1] + b) * h->dims[2] + c) * h->dims[3] + d];
}

// Calls fn for every multiplication of a convolution: x at (n, ci, ih, iw), w at (o, ci in its group, kh, kw), y at (n,
// o, oh, ow).
struct taps {
    const struct host *x, *w, *y; // shapes
    const struct window *o;
    void (*fn)(struct taps *t, const int64_t *x, const int64_t *w, const int64_t *y);
    const struct host *p, *q;
    struct host *sum, *scale;
};

static void each_tap(struct taps *t)
{
    int64_t in_group = t->w->dims[1], out_group = t->w->dims[0] / t->o->groups;
    for (int64_t i = 0; i < t->y->n; i++) {
        int64_t y[4];
        unravel(4, t->y->dims, i, y);
        for (int64_t k = 0; k < in_group * t->w->dims[2] * t->w->dims[3]; k++) {
            int64_t w[4] = {y[1], 0, 0, 0}, x[4];
            unravel(3, t->w->dims + 1, k, w + 1);
            x[0] = y[0];
            x[1] = y[1] / out_group * in_group + w[1];
            x[2] = y[2] * t->o->stride[0] - t->o->padding[0] + w[2] * t->o->dilation[0];
            x[3] = y[3] * t->o->stride[1] - t->o->padding[1] + w[3] * t->o->dilation[1];
            if (x[2] >= 0 && x[2] < t->x->dims[2] && x[3] >= 0 && x[3] < t->x->dims[3]) t->fn(t, x, w, y);
        }
    }
}

static void add(struct taps *t, int64_t to, long double p, long double q)
{
    t->sum->v[to] += p * q;
    t->scale->v[to] += fabsl(p * q);
}

static void forward_tap(struct taps *t, const int64_t *x, const int64_t *w, const int64_t *y)
{
    add(t, ravel(4, t->y->dims, y), t->p->v[ravel(4, t->x->dims, x)], t->q->v[ravel(4, t->w->dims, w)]);
}

static void input_tap(struct taps *t, const int64_t *x, const int64_t *w, const int64_t *y)
{
    add(t, ravel(4, t->x->dims, x), t->p->v[ravel(4, t->y->dims, y)], t->q->v[ravel(4, t->w->dims, w)]);
}

static void weight_tap(struct taps *t, const int64_t *x, const int64_t *w, const int64_t *y)
{
    add(t, ravel(4, t->w->dims, w), t->p->v[ravel(4, t->x->dims, x)], t->q->v[ravel(4, t->y->dims, y)]);
}

static struct host shape4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (struct host){.rank = 4, .dims = {a, b, c, d}, .n = a * b * c * d};
}

struct host reference_conv2d(const struct host *x, const struct host *w, const struct host *bias,
                             const struct window *o, int dtype, struct host *scale)
{
    struct window k = *o;
    k.kernel[0] = w->dims[2], k.kernel[1] = w->dims[3];
    struct host shape =
        shape4(x->dims[0], w->dims[0], window_count(&k, 0, x->dims[2]), window_count(&k, 1, x->dims[3]));
    struct host y = host_new(dtype, 4, shape.dims);
    *scale = host_new(dtype, 4, shape.dims);
    for (int64_t i = 0; i < y.n && bias; i++) {
        int64_t at[4];
        unravel(4, y.dims, i, at);
        y.v[i] = bias->v[at[1]];
        scale->v[i] = fabsl(y.v[i]);
    }
    each_tap(&(struct taps){
        .x = x, .w = w, .y = &shape, .o = o, .fn = forward_tap, .p = x, .q = w, .sum = &y, .scale = scale});
    return y;
}

struct host reference_conv2d_input_grad(const struct host *dy, const struct host *w, int64_t height, int64_t width,
                                        const struct window *o, int dtype, struct host *scale)
{
    struct host shape = shape4(dy->dims[0], w->dims[1] * o->groups, height, width), dx = host_new(dtype, 4, shape.dims);
    *scale = host_new(dtype, 4, shape.dims);
    each_tap(&(struct taps){
        .x = &shape, .w = w, .y = dy, .o = o, .fn = input_tap, .p = dy, .q = w, .sum = &dx, .scale = scale});
    return dx;
}

struct host reference_conv2d_weight_grad(const struct host *x, const struct host *dy, int64_t height, int64_t width,
                                         const struct window *o, int dtype, struct host *scale)
{
    struct host shape = shape4(dy->dims[1], x->dims[1] / o->groups, height, width), dw = host_new(dtype, 4, shape.dims);
    *scale = host_new(dtype, 4, shape.dims);
    each_tap(&(struct taps){
        .x = x, .w = &shape, .y = dy, .o = o, .fn = weight_tap, .p = x, .q = dy, .sum = &dw, .scale = scale});
    return dw;
}

// --- pooling

static struct host pooled(const struct host *x, const struct window *o)
{
    return host_new(
        x->dtype, 4,
        (const int64_t[]){x->dims[0], x->dims[1], window_count(o, 0, x->dims[2]), window_count(o, 1, x->dims[3])});
}

// Position of tap k of an output's window; false when it lies outside the image.
static bool pool_tap(const struct window *o, const int64_t *y, int64_t k, int64_t height, int64_t width, int64_t *h,
                     int64_t *w)
{
    *h = y[2] * o->stride[0] - o->padding[0] + k / o->kernel[1] * o->dilation[0];
    *w = y[3] * o->stride[1] - o->padding[1] + k % o->kernel[1] * o->dilation[1];
    return *h >= 0 && *h < height && *w >= 0 && *w < width;
}

// Tap of the first largest value; the first NaN wins. -1: the window lies in the padding.
static int64_t largest_tap(const struct host *x, const struct window *o, const int64_t *y, long double *value)
{
    int64_t best = -1;
    *value = -INFINITY;
    for (int64_t k = 0; k < o->kernel[0] * o->kernel[1]; k++) {
        int64_t h, w;
        if (!pool_tap(o, y, k, x->dims[2], x->dims[3], &h, &w)) continue;
        long double v = *at4(x, y[0], y[1], h, w);
        if (isnan(*value) || !(best < 0 || isnan(v) || v > *value)) continue;
        best = k;
        *value = v;
    }
    return best;
}

struct host reference_max_pool(const struct host *x, const struct window *o)
{
    struct host y = pooled(x, o);
    for (int64_t i = 0; i < y.n; i++) {
        int64_t at[4];
        unravel(4, y.dims, i, at);
        // A window of padding alone: the least value of the dtype.
        if (largest_tap(x, o, at, &y.v[i]) < 0 && is_integer(x->dtype)) y.v[i] = (long double)integer_min(x->dtype);
    }
    return y;
}

struct host reference_max_pool_backward(const struct host *x, const struct host *dy, const struct window *o,
                                        struct host *scale)
{
    struct host dx = host_new(x->dtype, 4, x->dims);
    *scale = host_new(x->dtype, 4, x->dims);
    for (int64_t i = 0; i < dy->n; i++) {
        int64_t at[4], h, w;
        long double value;
        unravel(4, dy->dims, i, at);
        int64_t k = largest_tap(x, o, at, &value);
        if (k < 0) continue;
        pool_tap(o, at, k, x->dims[2], x->dims[3], &h, &w);
        *at4(&dx, at[0], at[1], h, w) += dy->v[i];
        *at4(scale, at[0], at[1], h, w) += fabsl(dy->v[i]);
    }
    return dx;
}

// What a mean divides by: the taps inside the image, or those inside the image and its padding (what hangs over the end
// counts for nothing).
static int64_t divisor(const struct window *o, const int64_t *y, int64_t height, int64_t width)
{
    int64_t n = 0, h, w;
    for (int64_t k = 0; k < o->kernel[0] * o->kernel[1]; k++) {
        bool inside = pool_tap(o, y, k, height, width, &h, &w);
        n += o->exclude_padding ? inside : h < height + o->padding[0] && w < width + o->padding[1];
    }
    return n;
}

struct host reference_avg_pool(const struct host *x, const struct window *o, struct host *scale)
{
    struct host y = pooled(x, o);
    *scale = host_new(x->dtype, 4, y.dims);
    for (int64_t i = 0; i < y.n; i++) {
        int64_t at[4], h, w;
        unravel(4, y.dims, i, at);
        long double n = divisor(o, at, x->dims[2], x->dims[3]);
        for (int64_t k = 0; k < o->kernel[0] * o->kernel[1]; k++)
            if (pool_tap(o, at, k, x->dims[2], x->dims[3], &h, &w)) {
                y.v[i] += *at4(x, at[0], at[1], h, w) / n;
                scale->v[i] += fabsl(*at4(x, at[0], at[1], h, w)) / n;
            }
    }
    return y;
}

struct host reference_avg_pool_backward(const struct host *dy, int64_t height, int64_t width, const struct window *o,
                                        struct host *scale)
{
    const int64_t dims[] = {dy->dims[0], dy->dims[1], height, width};
    struct host dx = host_new(dy->dtype, 4, dims);
    *scale = host_new(dy->dtype, 4, dims);
    for (int64_t i = 0; i < dy->n; i++) {
        int64_t at[4], h, w;
        unravel(4, dy->dims, i, at);
        long double share = dy->v[i] / divisor(o, at, height, width);
        for (int64_t k = 0; k < o->kernel[0] * o->kernel[1]; k++)
            if (pool_tap(o, at, k, height, width, &h, &w)) {
                *at4(&dx, at[0], at[1], h, w) += share;
                *at4(scale, at[0], at[1], h, w) += fabsl(share);
            }
    }
    return dx;
}
