// Resize. Along each axis an element of the result is a sum of some of the input's, its taps, with weights that the
// host computes: one tap of the nearest, two of linear, four of cubic interpolation.
#include "onnx/onnx_fns.h"
#include <math.h>
#include <string.h>

enum { TAPS_MAX = 4, LENGTH_MAX = 1 << 20 };

struct resizing {
    const char *transform, *mode, *nearest;
    double cubic;
    bool exclude_outside;
    int64_t in, out; // sizes along the axis
    float scale;
};

static float original(const struct resizing *r, float x)
{
    const char *t = r->transform;
    float center = (x + 0.5f) / r->scale - 0.5f;
    if (!strcmp(t, "asymmetric")) return x / r->scale;
    if (!strcmp(t, "align_corners")) return r->out == 1 ? 0 : x * (float)(r->in - 1) / (float)(r->out - 1);
    if (!strcmp(t, "pytorch_half_pixel")) return r->out > 1 ? center : 0;
    if (!strcmp(t, "half_pixel_symmetric")) {
        float adjust = (float)r->out / (r->scale * (float)r->in);
        return (float)r->in / 2 * (1 - adjust) + center;
    }
    return center;
}

static float nearest(const struct resizing *r, float x)
{
    if (!strcmp(r->nearest, "floor")) return floorf(x);
    if (!strcmp(r->nearest, "ceil")) return ceilf(x);
    if (!strcmp(r->nearest, "round_prefer_ceil")) return floorf(x + 0.5f);
    return ceilf(x - 0.5f);
}

// Taps begin at floor(x) - (n / 2 - 1).
static int weights_at(const struct resizing *r, float x, int64_t *first, float *w)
{
    if (!strcmp(r->mode, "nearest")) {
        *first = (int64_t)nearest(r, x);
        w[0] = 1;
        return 1;
    }
    float low = floorf(x), t = x - low, a = (float)r->cubic;
    *first = (int64_t)low;
    if (!strcmp(r->mode, "linear")) {
        w[0] = 1 - t;
        w[1] = t;
        return 2;
    }
    --*first;
    w[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    w[2] = ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1;
    w[3] = ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a;
    return 4;
}

static int fill_taps(const struct resizing *r, int64_t *index, float *weight)
{
    int n = 0;
    for (int64_t i = 0; i < r->out; i++) {
        int64_t first;
        float w[TAPS_MAX], sum = 0;
        n = weights_at(r, original(r, (float)i), &first, w);
        for (int k = 0; k < n; k++) {
            int64_t at = first + k, inside = at < 0 ? 0 : at >= r->in ? r->in - 1 : at;
            if (r->exclude_outside && at != inside) w[k] = 0;
            index[k * r->out + i] = inside;
            sum += w[k];
        }
        for (int k = 0; k < n; k++) weight[k * r->out + i] = r->exclude_outside && sum != 0 ? w[k] / sum : w[k];
    }
    return n;
}

static kiln_status resize_axis(struct onnx_call *c, const struct resizing *r, int64_t axis, kiln_tensor **x)
{
    size_t count = (size_t)r->out * TAPS_MAX;
    int64_t *index = arena_alloc(&c->run->arena, count * sizeof *index + 1), dims[KILN_MAX_RANK];
    float *weight = arena_alloc(&c->run->arena, count * sizeof *weight + 1);
    NEED(index && weight);
    int n = r->in ? fill_taps(r, index, weight) : 0;
    for (size_t i = 0; i < kiln_rank(*x); i++) dims[i] = (int64_t)i == axis ? r->out : 1;
    kiln_tensor *sum = NULL;
    for (int k = 0; k < n; k++) {
        kiln_tensor *part = kiln_take(*x, axis, kiln_from_data(c->dev, KILN_I64, 1, &r->out, index + k * r->out));
        NEED(part);
        if (n > 1) {
            kiln_tensor *w = kiln_from_data(c->dev, KILN_F32, kiln_rank(*x), dims, weight + k * r->out);
            part = kiln_mul(part, kiln_cast(w, kiln_tensor_dtype(part)));
        }
        sum = sum ? kiln_add(sum, part) : part;
    }
    *x = sum;
    return sum             ? KILN_OK
           : error_pending ? error_pending
                           : onnx_bad(c, KILN_E_SHAPE, "an axis of size 0 is to be resized");
}

struct targets {
    int64_t axes[KILN_MAX_RANK], size[KILN_MAX_RANK];
    float scale[KILN_MAX_RANK];
    size_t n;
};

static kiln_status keep_aspect(struct onnx_call *c, kiln_tensor *x, struct targets *t)
{
    const char *policy;
    TRY(onnx_string(c, "keep_aspect_ratio_policy", "stretch", &policy));
    bool larger = !strcmp(policy, "not_smaller");
    if (!strcmp(policy, "stretch")) return KILN_OK;
    if (!larger && strcmp(policy, "not_larger") != 0)
        return onnx_bad(c, KILN_E_FORMAT, "keep_aspect_ratio_policy is \"%.20s\"", policy);
    float scale = t->scale[0];
    for (size_t i = 1; i < t->n; i++) scale = larger ? fmaxf(scale, t->scale[i]) : fminf(scale, t->scale[i]);
    for (size_t i = 0; i < t->n; i++) {
        t->scale[i] = scale;
        t->size[i] = (int64_t)floorf(scale * (float)kiln_dims(x)[t->axes[i]] + 0.5f);
    }
    return KILN_OK;
}

static kiln_status read_targets(struct onnx_call *c, kiln_tensor *x, struct targets *t)
{
    struct onnx_host h = {0};
    bool by_scales = onnx_has(c, 2);
    const char *unused;
    if (by_scales) TRY(onnx_in_host(c, 2, &h));
    by_scales = by_scales && h.numel;
    if (!by_scales) TRY(onnx_in_host(c, 3, &h));
    kiln_ints axes;
    TRY(onnx_ints(c, "axes", &axes));
    t->n = axes.v ? axes.count : kiln_rank(x);
    if ((int64_t)t->n != h.numel || t->n > kiln_rank(x))
        return onnx_bad(c, KILN_E_SHAPE, "%lld sizes or scales for %zu axes", (long long)h.numel, t->n);
    for (size_t i = 0; i < t->n; i++) {
        TRY(onnx_axis(c, axes.v ? axes.v[i] : (int64_t)i, kiln_rank(x), &t->axes[i]));
        int64_t in = kiln_dims(x)[t->axes[i]];
        t->scale[i] = by_scales ? (float)onnx_host_float(&h, (int64_t)i)
                                : (float)onnx_host_int(&h, (int64_t)i) / (float)(in ? in : 1);
        t->size[i] = by_scales ? (int64_t)floorf((float)in * t->scale[i]) : onnx_host_int(&h, (int64_t)i);
        if (!(t->scale[i] > 0 && t->scale[i] < 1e6f) || t->size[i] < 1 || t->size[i] > LENGTH_MAX)
            return onnx_bad(c, KILN_E_SHAPE, "axis %lld is to have size %lld", (long long)t->axes[i],
                            (long long)t->size[i]);
    }
    return by_scales ? onnx_string(c, "keep_aspect_ratio_policy", "", &unused) : keep_aspect(c, x, t);
}

static kiln_status read_way(struct onnx_call *c, struct resizing *r)
{
    static const char *const transforms[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
                                             "half_pixel_symmetric"};
    int64_t exclude, antialias;
    double outside;
    TRY(onnx_string(c, "coordinate_transformation_mode", "half_pixel", &r->transform));
    TRY(onnx_string(c, "mode", "nearest", &r->mode));
    TRY(onnx_string(c, "nearest_mode", "round_prefer_floor", &r->nearest));
    TRY(onnx_float(c, "cubic_coeff_a", -0.75, &r->cubic));
    TRY(onnx_float(c, "extrapolation_value", 0, &outside)); // of a transform that is not known here
    TRY(onnx_int(c, "exclude_outside", 0, &exclude));
    TRY(onnx_int(c, "antialias", 0, &antialias));
    r->exclude_outside = exclude != 0;
    bool known = false;
    for (size_t i = 0; i < COUNT_OF(transforms); i++) known |= !strcmp(r->transform, transforms[i]);
    if (!known) return onnx_bad(c, KILN_E_UNSUPPORTED, "coordinate_transformation_mode is \"%.30s\"", r->transform);
    if (antialias) return onnx_bad(c, KILN_E_UNSUPPORTED, "antialias is set");
    if (strcmp(r->mode, "nearest") != 0 && strcmp(r->mode, "linear") != 0 && strcmp(r->mode, "cubic") != 0)
        return onnx_bad(c, KILN_E_UNSUPPORTED, "mode is \"%.20s\"", r->mode);
    return KILN_OK;
}

kiln_status onnx_op_resize(struct onnx_call *c)
{
    struct resizing r;
    struct targets t;
    TRY(onnx_check_counts(c, 1, 4, 1));
    TRY(read_way(c, &r));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    bool moves = !strcmp(r.mode, "nearest");
    if (!moves && !dtype_is_float(kiln_tensor_dtype(x)))
        return onnx_bad(c, KILN_E_UNSUPPORTED, "%s of %s", r.mode, kiln_dtype_name(kiln_tensor_dtype(x)));
    TRY(read_targets(c, x, &t));
    for (size_t i = 0; i < t.n; i++) {
        r.in = kiln_dims(x)[t.axes[i]];
        r.out = t.size[i];
        r.scale = t.scale[i];
        if (r.in == r.out && r.scale == 1) continue;
        TRY(resize_axis(c, &r, t.axes[i], &x));
    }
    return onnx_give(c, 0, x);
}
