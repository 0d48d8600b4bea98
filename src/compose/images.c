// Images [...,C,H,W] cut, mirrored, and with other brightness and colours. What is said of a sample is a tensor of rank
// 0, or of one number a sample, x's first axis. Floats lie in [0, 1], integers up to their dtype's largest; integers
// are computed in f32, rounded and cut to their range.
#include "compose/given.h"

#include <math.h>
#include <string.h>

// --- parts

static kiln_tensor *part(kiln_tensor *x, int64_t top, int64_t left, int64_t height, int64_t width)
{
    kiln_tensor *rows = kiln_narrow(x, -2, top, height);
    return kiln_narrow(rows, -1, left, width);
}

kiln_tensor *compose_crop(kiln_tensor *x, int64_t top, int64_t left, int64_t height, int64_t width)
{
    if (!given_image("x", x)) return NULL;
    int64_t h = kiln_dim(x, -2), w = kiln_dim(x, -1);
    if (top < 0 || left < 0 || height < 0 || width < 0 || top > h || left > w || height > h - top || width > w - left)
        error_set(KILN_E_ARGUMENT, "%lld x %lld at %lld, %lld is not inside of %lld x %lld", (long long)height,
                  (long long)width, (long long)top, (long long)left, (long long)h, (long long)w);
    return part(x, top, left, height, width);
}

kiln_tensor *compose_center_crop(kiln_tensor *x, int64_t height, int64_t width)
{
    if (!given_image("x", x)) return NULL;
    int64_t h = kiln_dim(x, -2), w = kiln_dim(x, -1);
    if (height < 0 || width < 0 || height > h || width > w)
        error_set(KILN_E_ARGUMENT, "%lld x %lld is not inside of %lld x %lld", (long long)height, (long long)width,
                  (long long)h, (long long)w);
    return part(x, (h - height) / 2, (w - width) / 2, height, width);
}

kiln_tensor *compose_hflip(kiln_tensor *x)
{
    return given_image("x", x) ? kiln_flip(x, KILN_AXES(-1)) : NULL;
}

kiln_tensor *compose_vflip(kiln_tensor *x)
{
    return given_image("x", x) ? kiln_flip(x, KILN_AXES(-2)) : NULL;
}

// --- in what is computed, and back

static kiln_tensor *wide(kiln_tensor *x)
{
    return error_pending ? NULL : as_dtype(x, wide_dtype(kiln_tensor_dtype(x)));
}

static double white(kiln_dtype dtype)
{
    if (dtype_is_float(dtype) || dtype == KILN_BOOL) return 1;
    return ldexp(1, (int)dtype_info[dtype].size_B * 8 - dtype_info[dtype].is_signed) - 1;
}

static kiln_tensor *back(kiln_tensor *y, kiln_dtype dtype)
{
    y = kiln_clip(y, kiln_scalar(0), kiln_scalar(white(dtype)));
    return rounded_to(y, dtype);
}

// A number a sample, to be broadcast over x.
static kiln_tensor *of_samples(const char *argument, kiln_tensor *v, kiln_tensor *x)
{
    if (error_pending || kiln_rank(v) == 0) return v;
    if (kiln_rank(v) != 1 || kiln_rank(x) == 0 || kiln_dims(v)[0] != kiln_dims(x)[0]) {
        error_set(KILN_E_SHAPE, "%s must be one number, or one for each sample, it is %s, x is %s", argument,
                  type_of(v).s, type_of(x).s);
        return NULL;
    }
    return laid_along(v, kiln_rank(x), 0);
}

static bool has_colours(kiln_tensor *x)
{
    if (kiln_rank(x) < 3 || kiln_dim(x, -3) != 3)
        error_set(KILN_E_SHAPE, "x must be images of three colours, [...,3,H,W], it is %s", type_of(x).s);
    if (!error_pending && kiln_tensor_dtype(x) == KILN_BOOL) error_set(KILN_E_DTYPE, "x is %s", type_of(x).s);
    return !error_pending;
}

static bool has_numbers(kiln_tensor *x)
{
    if (!error_pending && kiln_tensor_dtype(x) == KILN_BOOL)
        error_set(KILN_E_DTYPE, "x must be numbers, it is %s", type_of(x).s);
    return given_image("x", x);
}

kiln_tensor *compose_normalize_image(kiln_tensor *x, kiln_tensor *mean, kiln_tensor *std)
{
    if (!given_float("x", x)) return NULL;
    if (kiln_rank(x) < 3) error_set(KILN_E_SHAPE, "x must be [...,C,H,W], it is %s", type_of(x).s);
    kiln_tensor *given[] = {mean, std};
    for (int i = 0; i < 2 && !error_pending; i++) {
        if (kiln_rank(given[i]) != 1 || kiln_dims(given[i])[0] != kiln_dim(x, -3))
            error_set(KILN_E_SHAPE, "%s must have a number for each channel of x, %s, it is %s", i ? "std" : "mean",
                      type_of(x).s, type_of(given[i]).s);
        given[i] = laid_along(given[i], 3, 0);
    }
    kiln_tensor *y = kiln_div(kiln_sub(wide(x), given[0]), given[1]);
    return error_pending ? NULL : as_dtype(y, kiln_tensor_dtype(x));
}

// --- brightness

static kiln_tensor *grey(kiln_tensor *x) // ITU-R BT.601
{
    static const double share[] = {0.299, 0.587, 0.114};
    kiln_tensor *sum = kiln_mul(kiln_narrow(x, -3, 0, 1), kiln_scalar(share[0]));
    for (int i = 1; i < 3; i++) sum = kiln_addcmul(sum, kiln_narrow(x, -3, i, 1), kiln_scalar(share[i]));
    return sum;
}

kiln_tensor *compose_rgb_to_grayscale(kiln_tensor *x)
{
    return has_colours(x) ? rounded_to(grey(wide(x)), kiln_tensor_dtype(x)) : NULL;
}

kiln_tensor *compose_adjust_brightness(kiln_tensor *x, kiln_tensor *factor)
{
    if (!has_numbers(x)) return NULL;
    return back(kiln_mul(wide(x), of_samples("factor", factor, x)), kiln_tensor_dtype(x));
}

kiln_tensor *compose_adjust_contrast(kiln_tensor *x, kiln_tensor *factor)
{
    if (!has_numbers(x)) return NULL;
    kiln_tensor *y = wide(x), *f = of_samples("factor", factor, x);
    bool colours = kiln_rank(x) > 2 && kiln_dim(x, -3) == 3;
    bool channels = kiln_rank(x) > 2;
    kiln_tensor *mean =
        kiln_mean(colours ? grey(y) : y, channels ? KILN_REDUCE(.axes = KILN_AXES(-3, -2, -1), .keepdims = true)
                                                  : KILN_REDUCE(.axes = KILN_AXES(-2, -1), .keepdims = true));
    return back(kiln_lerp(mean, y, f), kiln_tensor_dtype(x));
}

kiln_tensor *compose_adjust_saturation(kiln_tensor *x, kiln_tensor *factor)
{
    if (!has_colours(x)) return NULL;
    kiln_tensor *y = wide(x), *f = of_samples("factor", factor, x);
    return back(kiln_lerp(grey(y), y, f), kiln_tensor_dtype(x));
}

kiln_tensor *compose_adjust_gamma(kiln_tensor *x, kiln_tensor *gamma)
{
    if (!has_numbers(x)) return NULL;
    kiln_dtype dtype = kiln_tensor_dtype(x);
    kiln_tensor *of_white = kiln_div(wide(x), kiln_scalar(white(dtype)));
    kiln_tensor *y = kiln_pow(kiln_clip(of_white, kiln_scalar(0), kiln_scalar(1)), of_samples("gamma", gamma, x));
    return back(kiln_mul(y, kiln_scalar(white(dtype))), dtype);
}

// --- hue, saturation, value: A. R. Smith, Color gamut transform pairs, 1978. All in [0, 1]

static kiln_tensor *channel(kiln_tensor *x, int i)
{
    return kiln_narrow(x, -3, i, 1);
}

static void hsv_of(kiln_tensor *x, kiln_tensor **hsv)
{
    kiln_tensor *r = channel(x, 0), *g = channel(x, 1), *b = channel(x, 2), *zero = kiln_scalar(0),
                *one = kiln_scalar(1);
    kiln_tensor *high = kiln_maximum(kiln_maximum(r, g), b), *low = kiln_minimum(kiln_minimum(r, g), b);
    kiln_tensor *span = kiln_sub(high, low), *flat = kiln_equal(span, zero), *by = kiln_where(flat, one, span);
    kiln_tensor *of_red = kiln_div(kiln_sub(g, b), by);
    kiln_tensor *of_green = kiln_add(kiln_div(kiln_sub(b, r), by), kiln_scalar(2));
    kiln_tensor *of_blue = kiln_add(kiln_div(kiln_sub(r, g), by), kiln_scalar(4));
    kiln_tensor *sixths = kiln_where(kiln_equal(high, r), of_red, kiln_where(kiln_equal(high, g), of_green, of_blue));
    hsv[0] = kiln_remainder(kiln_div(sixths, kiln_scalar(6)), one);
    hsv[1] = kiln_div(span, kiln_where(kiln_equal(high, zero), one, high));
    hsv[2] = high;
}

// v - v s max(0, min(k, 4 - k, 1)), k = (n + 6 h) mod 6, n = 5, 3, 1 of red, green, blue.
static kiln_tensor *rgb_of(kiln_tensor *const *hsv)
{
    kiln_tensor *rgb[3], *sixths = kiln_mul(hsv[0], kiln_scalar(6)), *depth = kiln_mul(hsv[1], hsv[2]);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *k = kiln_remainder(kiln_add(sixths, kiln_scalar(5 - 2 * i)), kiln_scalar(6));
        kiln_tensor *least = kiln_minimum(k, kiln_sub(kiln_scalar(4), k));
        rgb[i] = kiln_sub(hsv[2], kiln_mul(depth, kiln_clip(least, kiln_scalar(0), kiln_scalar(1))));
    }
    return kiln_concat(rgb, 3, -3);
}

kiln_tensor *compose_rgb_to_hsv(kiln_tensor *x)
{
    kiln_tensor *hsv[3] = {NULL};
    if (!has_colours(x) || !given_float("x", x)) return NULL;
    hsv_of(wide(x), hsv);
    return rounded_to(kiln_concat(hsv, 3, -3), kiln_tensor_dtype(x));
}

kiln_tensor *compose_hsv_to_rgb(kiln_tensor *x)
{
    if (!has_colours(x) || !given_float("x", x)) return NULL;
    kiln_tensor *y = wide(x);
    y = rgb_of((kiln_tensor *[]){channel(y, 0), channel(y, 1), channel(y, 2)});
    return rounded_to(y, kiln_tensor_dtype(x));
}

kiln_tensor *compose_adjust_hue(kiln_tensor *x, kiln_tensor *shift)
{
    kiln_tensor *hsv[3] = {NULL};
    if (!has_colours(x)) return NULL;
    kiln_dtype dtype = kiln_tensor_dtype(x);
    hsv_of(kiln_div(wide(x), kiln_scalar(white(dtype))), hsv);
    hsv[0] = kiln_remainder(kiln_add(hsv[0], of_samples("shift", shift, x)), kiln_scalar(1));
    return back(kiln_mul(rgb_of(hsv), kiln_scalar(white(dtype))), dtype);
}

// --- equal shares of all values

kiln_tensor *compose_equalize_histogram(kiln_tensor *x)
{
    if (!given_image("x", x)) return NULL;
    if (kiln_tensor_dtype(x) != KILN_U8) error_set(KILN_E_DTYPE, "x must be u8, it is %s", type_of(x).s);
    if (error_pending || kiln_numel(x) == 0) return error_pending ? NULL : kiln_alias(x);
    kiln_device *dev = kiln_tensor_device(x);
    int64_t size = kiln_dim(x, -2) * kiln_dim(x, -1), planes = kiln_numel(x) / size;
    kiln_tensor *places = kiln_cast(kiln_reshape(x, KILN_SHAPE(planes, size)), KILN_I64);
    kiln_tensor *zero = kiln_scalar_int(0), *ones = kiln_ones(dev, KILN_I64, KILN_SHAPE(planes, size));
    kiln_tensor *count = kiln_scatter_add(kiln_zeros(dev, KILN_I64, KILN_SHAPE(planes, 256)), 1, places, ones);
    // All but those of the brightest value, in 255 steps.
    kiln_tensor *bright = kiln_max(places, KILN_REDUCE(.axes = KILN_AXES(1), .keepdims = true));
    kiln_tensor *rest = kiln_sub(kiln_scalar_int(size), kiln_gather(count, 1, bright));
    kiln_tensor *step = kiln_floor_divide(rest, kiln_scalar_int(255)), *none = kiln_equal(step, zero);
    kiln_tensor *by = kiln_where(none, kiln_scalar_int(1), step);
    kiln_tensor *below = kiln_sub(kiln_cumsum(count, 1), count);
    kiln_tensor *level = kiln_floor_divide(kiln_add(below, kiln_floor_divide(by, kiln_scalar_int(2))), by);
    level = kiln_where(none, kiln_arange(dev, KILN_I64, 0, 256, 1), kiln_minimum(level, kiln_scalar_int(255)));
    kiln_tensor *y = as_dtype(kiln_gather(level, 1, places), KILN_U8);
    return kiln_reshape(y, kiln_rank(x), kiln_dims(x));
}
