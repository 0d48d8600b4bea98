// Convolutions in one and three dimensions, and transposed ones, by those in two. A line is an image of height 1. A
// volume becomes an image whose channels are those of all its slices under the kernel, so that one product sums over
// the depth too; the transposed one gives such images, which are then added up along the depth.
#include "compose/given.h"
#include "compose/sliding.h"

#include <string.h>

static const int64_t most = INT32_MAX;

// stride, padding, dilation of one axis.
static bool sound(int64_t stride, int64_t padding, int64_t dilation)
{
    return given_range(".stride", stride, 1, most) && given_range(".padding", padding, 0, most) &&
           given_range(".dilation", dilation, 1, most);
}

// Zeros before and after an axis.
static kiln_tensor *with_zeros(kiln_tensor *x, size_t axis, int64_t before, int64_t after)
{
    int64_t b[KILN_MAX_RANK] = {0}, a[KILN_MAX_RANK] = {0};
    if (before == 0 && after == 0) return x;
    b[axis] = before;
    a[axis] = after;
    return kiln_pad(x, KILN_PAD(.before = {axis + 1, b}, .after = {axis + 1, a}));
}

// The zeros with which the result has ceil(size / stride) places; an odd one goes to the end.
static kiln_tensor *same(kiln_tensor *x, size_t axis, int64_t kernel, int64_t stride, int64_t dilation)
{
    int64_t size = kiln_dims(x)[axis], places = (size + stride - 1) / stride, reach, total;
    if (__builtin_mul_overflow(kernel - 1, dilation, &reach) || reach > most) {
        error_set(KILN_E_SHAPE, "a kernel of %lld with dilation %lld is too large", (long long)kernel,
                  (long long)dilation);
        return NULL;
    }
    total = (places - 1) * stride + reach + 1 - size;
    return total > 0 ? with_zeros(x, axis, total / 2, total - total / 2) : x;
}

static bool no_padding(const int64_t *padding, int n)
{
    for (int i = 0; i < n; i++)
        if (padding[i] && !error_pending)
            error_set(KILN_E_ARGUMENT, ".padding is %lld beside .same", (long long)padding[i]);
    return !error_pending;
}

kiln_tensor *compose_conv1d(kiln_tensor *x, kiln_tensor *w, const kiln_conv1d_opts *o)
{
    if (!given_rank("x", x, 3, "[N,C,L]") || !given_rank("w", w, 3, "[O,C/groups,K]")) return NULL;
    if (!sound(o->stride, o->padding, o->dilation) || (o->same && !no_padding(&o->padding, 1))) return NULL;
    if (o->same) x = same(x, 2, kiln_dims(w)[2], o->stride, o->dilation);
    kiln_tensor *y = kiln_conv2d(kiln_unsqueeze(x, 2), kiln_unsqueeze(w, 2),
                                 KILN_CONV2D(.bias = o->bias, .stride = {1, o->stride}, .padding = {0, o->padding},
                                             .dilation = {1, o->dilation}, .groups = o->groups));
    return kiln_squeeze(y, KILN_AXES(2));
}

// --- three dimensions

struct volume {
    int64_t n, c, o, groups, taps, count; // of slices under the kernel; of the result's slices
};

// [N,C,D,H,W] -> [N * count, groups * taps * C / groups, H, W]
static kiln_tensor *slices_under_kernel(kiln_tensor *x, const struct volume *v, kiln_tensor *places)
{
    if (error_pending) return NULL;
    int64_t h = kiln_dims(x)[3], w = kiln_dims(x)[4], d = kiln_dims(x)[2];
    kiln_tensor *t;
    if (v->groups == 1) { // one copy
        t = kiln_take(kiln_permute(x, KILN_AXES(0, 2, 1, 3, 4)), 1, places);
    } else {
        t = kiln_reshape(x, KILN_SHAPE(v->n, v->groups, v->c / v->groups, d, h, w));
        t = kiln_take(kiln_permute(t, KILN_AXES(0, 3, 1, 2, 4, 5)), 1, places);
        t = kiln_permute(t, KILN_AXES(0, 1, 3, 2, 4, 5, 6));
    }
    return kiln_reshape(t, KILN_SHAPE(v->n * v->count, v->taps * v->c, h, w));
}

static bool read_volume(struct volume *v, kiln_tensor *x, kiln_tensor *w, const kiln_conv3d_opts *o)
{
    if (!given_range(".groups", o->groups, 1, most)) return false;
    for (int i = 0; i < 3; i++)
        if (!sound(o->stride[i], o->padding[i], o->dilation[i])) return false;
    if (o->same && !no_padding(o->padding, 3)) return false;
    *v = (struct volume){
        .n = kiln_dims(x)[0], .c = kiln_dims(x)[1], .o = kiln_dims(w)[0], .groups = o->groups, .taps = kiln_dims(w)[2]};
    if (v->c % v->groups || v->o % v->groups || kiln_dims(w)[1] != v->c / v->groups)
        error_set(KILN_E_SHAPE, "x is %s and w is %s: %lld channels, %lld outputs and .groups %lld do not fit",
                  type_of(x).s, type_of(w).s, (long long)v->c, (long long)v->o, (long long)v->groups);
    return !error_pending;
}

kiln_tensor *compose_conv3d(kiln_tensor *x, kiln_tensor *w, const kiln_conv3d_opts *o)
{
    struct volume v;
    if (!given_rank("x", x, 5, "[N,C,D,H,W]") || !given_rank("w", w, 5, "[O,C/groups,KD,KH,KW]")) return NULL;
    if (!read_volume(&v, x, w, o)) return NULL;
    int64_t kernel[3];
    memcpy(kernel, kiln_dims(w) + 2, sizeof kernel);
    for (size_t i = 0; i < 3 && o->same && x; i++) x = same(x, 2 + i, kernel[i], o->stride[i], o->dilation[i]);
    x = with_zeros(x, 2, o->padding[0], o->padding[0]);
    if (error_pending) return NULL;
    struct sliding along = {.kernel = v.taps, .stride = o->stride[0], .dilation = o->dilation[0]};
    if (!sliding_count(&along, kiln_dims(x)[2], "x", 2)) return NULL;
    v.count = along.count;
    kiln_tensor *image = slices_under_kernel(x, &v, sliding_places(&along, kiln_tensor_device(x)));
    kiln_tensor *weight = kiln_reshape(kiln_permute(w, KILN_AXES(0, 2, 1, 3, 4)),
                                       KILN_SHAPE(v.o, v.taps * (v.c / v.groups), kernel[1], kernel[2]));
    kiln_tensor *y = kiln_conv2d(image, weight,
                                 KILN_CONV2D(.bias = o->bias, .stride = {o->stride[1], o->stride[2]},
                                             .padding = {o->padding[1], o->padding[2]},
                                             .dilation = {o->dilation[1], o->dilation[2]}, .groups = o->groups));
    if (error_pending) return NULL;
    y = kiln_reshape(y, KILN_SHAPE(v.n, v.count, v.o, kiln_dims(y)[2], kiln_dims(y)[3]));
    return kiln_permute(y, KILN_AXES(0, 2, 1, 3, 4));
}

// --- transposed

struct spreading {
    int n; // dimensions
    int64_t kernel[3], stride[3], padding[3], more[3], dilation[3], groups, in[3], out[3];
};

static bool read_axis(struct spreading *t, int i, int64_t in, int64_t kernel)
{
    if (!sound(t->stride[i], t->padding[i], t->dilation[i])) return false;
    if (!given_range(".output_padding, which stays below .stride,", t->more[i], 0, t->stride[i] - 1)) return false;
    t->in[i] = in, t->kernel[i] = kernel;
    if (in > most || kernel > most || in < 1 || kernel < 1)
        error_set(KILN_E_SHAPE, "a side of %lld and a kernel of %lld", (long long)in, (long long)kernel);
    t->out[i] = (in - 1) * t->stride[i] - 2 * t->padding[i] + t->dilation[i] * (kernel - 1) + t->more[i] + 1;
    if (!error_pending && (t->out[i] < 1 || t->out[i] > most))
        error_set(KILN_E_SHAPE, "a side of %lld with a kernel of %lld, stride %lld and padding %lld would become %lld",
                  (long long)in, (long long)kernel, (long long)t->stride[i], (long long)t->padding[i],
                  (long long)t->out[i]);
    return !error_pending;
}

static bool read_transposed(struct spreading *t, kiln_tensor *x, kiln_tensor *w, kiln_tensor *bias)
{
    size_t rank = (size_t)t->n + 2;
    static const char *const layouts[][2] = {
        {"[N,C,L]", "[C,O/groups,K]"}, {"[N,C,H,W]", "[C,O/groups,KH,KW]"}, {"[N,C,D,H,W]", "[C,O/groups,KD,KH,KW]"}};
    if (!given_rank("x", x, rank, layouts[t->n - 1][0]) || !given_rank("w", w, rank, layouts[t->n - 1][1]))
        return false;
    for (int i = 0; i < t->n; i++)
        if (!read_axis(t, i, kiln_dims(x)[2 + i], kiln_dims(w)[2 + i])) return false;
    if (!given_range(".groups", t->groups, 1, most)) return false;
    int64_t c = kiln_dims(x)[1], o = kiln_dims(w)[1] * t->groups;
    if (c != kiln_dims(w)[0] || c % t->groups)
        error_set(KILN_E_SHAPE, "x is %s and w is %s: %lld channels and .groups %lld do not fit", type_of(x).s,
                  type_of(w).s, (long long)c, (long long)t->groups);
    else if (bias && (kiln_rank(bias) != 1 || kiln_dims(bias)[0] != o))
        error_set(KILN_E_SHAPE, ".bias must have %lld values, it is %s", (long long)o, type_of(bias).s);
    return !error_pending;
}

// Of images, by the two last of the dimensions of `t`.
static kiln_tensor *spread(kiln_tensor *x, kiln_tensor *w, const struct spreading *t)
{
    int a = t->n - 2, b = t->n - 1;
    return kiln_conv2d_input_grad(x, w, t->out[a], t->out[b],
                                  KILN_CONV2D_GRAD(.stride = {t->stride[a], t->stride[b]},
                                                   .padding = {t->padding[a], t->padding[b]},
                                                   .dilation = {t->dilation[a], t->dilation[b]}, .groups = t->groups));
}

// Where sums are made of its results, half floats become f32 until the end, so that they are rounded once. Returns the
// dtype of that end, or -1.
static int widened(kiln_tensor **x, kiln_tensor **w, kiln_tensor *bias)
{
    kiln_dtype dtype = kiln_tensor_dtype(*x);
    if (!dtype_is_half_float(dtype) || kiln_tensor_dtype(*w) != dtype) return -1;
    if (bias && kiln_tensor_dtype(bias) != dtype) return -1;
    *x = as_dtype(*x, KILN_F32);
    *w = as_dtype(*w, KILN_F32);
    return (int)dtype;
}

static kiln_tensor *ended(kiln_tensor *y, kiln_tensor *bias, int dtype)
{
    if (error_pending) return NULL;
    if (bias) y = kiln_add(y, laid_along(bias, kiln_rank(y), 1));
    return dtype < 0 ? y : as_dtype(y, (kiln_dtype)dtype);
}

kiln_tensor *compose_conv_transpose1d(kiln_tensor *x, kiln_tensor *w, const kiln_conv_transpose1d_opts *o)
{
    struct spreading t = {1, {0}, {o->stride}, {o->padding}, {o->output_padding}, {o->dilation}, o->groups, {0}, {0}};
    if (!read_transposed(&t, x, w, o->bias)) return NULL;
    struct spreading flat = {.n = 2,
                             .stride = {1, t.stride[0]},
                             .padding = {0, t.padding[0]},
                             .dilation = {1, t.dilation[0]},
                             .groups = t.groups,
                             .out = {1, t.out[0]}};
    int dtype = o->bias ? widened(&x, &w, o->bias) : -1;
    kiln_tensor *y = spread(kiln_unsqueeze(x, 2), kiln_unsqueeze(w, 2), &flat);
    return ended(kiln_squeeze(y, KILN_AXES(2)), o->bias, dtype);
}

kiln_tensor *compose_conv_transpose2d(kiln_tensor *x, kiln_tensor *w, const kiln_conv_transpose2d_opts *o)
{
    struct spreading t = {.n = 2, .groups = o->groups};
    memcpy(t.stride, o->stride, sizeof o->stride);
    memcpy(t.padding, o->padding, sizeof o->padding);
    memcpy(t.more, o->output_padding, sizeof o->output_padding);
    memcpy(t.dilation, o->dilation, sizeof o->dilation);
    if (!read_transposed(&t, x, w, o->bias)) return NULL;
    int dtype = o->bias ? widened(&x, &w, o->bias) : -1;
    return ended(spread(x, w, &t), o->bias, dtype);
}

// [N, D, O, taps, H, W] -> [N, O, out, H, W]: what a slice gives is added at its places along the depth.
static kiln_tensor *added_along_depth(kiln_tensor *y, const struct spreading *t, int64_t n)
{
    if (error_pending) return NULL;
    int64_t h = t->out[1], w = t->out[2], o = kiln_dims(y)[1] / t->kernel[0];
    struct sliding along = {
        .kernel = t->kernel[0], .stride = t->stride[0], .dilation = t->dilation[0], .count = t->in[0]};
    int64_t length = t->out[0] + 2 * t->padding[0];
    y = kiln_reshape(y, KILN_SHAPE(n, t->in[0], o, t->kernel[0], h, w));
    y = kiln_permute(y, KILN_AXES(0, 2, 1, 3, 4, 5));
    return kiln_narrow(sliding_added(y, 2, &along, length), 2, t->padding[0], t->out[0]);
}

kiln_tensor *compose_conv_transpose3d(kiln_tensor *x, kiln_tensor *w, const kiln_conv_transpose3d_opts *o)
{
    struct spreading t = {.n = 3, .groups = o->groups};
    memcpy(t.stride, o->stride, sizeof t.stride);
    memcpy(t.padding, o->padding, sizeof t.padding);
    memcpy(t.more, o->output_padding, sizeof t.more);
    memcpy(t.dilation, o->dilation, sizeof t.dilation);
    if (!read_transposed(&t, x, w, o->bias)) return NULL;
    int64_t n = kiln_dims(x)[0], c = kiln_dims(x)[1];
    int dtype = widened(&x, &w, o->bias);
    if (error_pending) return NULL;
    kiln_tensor *slices =
        kiln_reshape(kiln_permute(x, KILN_AXES(0, 2, 1, 3, 4)), KILN_SHAPE(n * t.in[0], c, t.in[1], t.in[2]));
    kiln_tensor *weight = kiln_reshape(w, KILN_SHAPE(c, kiln_dims(w)[1] * t.kernel[0], t.kernel[1], t.kernel[2]));
    return ended(added_along_depth(spread(slices, weight, &t), &t, n), o->bias, dtype);
}
