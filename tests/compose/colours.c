// Colours and filters of images.
#include "compose/case.h"
#include <stdlib.h>

static long double white(int dtype)
{
    return is_float(dtype)     ? 1
           : dtype == KILN_U8  ? 255
           : dtype == KILN_I16 ? 32767
           : dtype == KILN_I32 ? 2147483647
                               : 9223372036854775807.0L;
}

static long double ended(long double v, int dtype)
{
    v = fminl(fmaxl(v, 0), white(dtype));
    return is_float(dtype) ? v : rintl(v);
}

static int64_t plane_of(const struct host *x)
{
    return x->dims[x->rank - 2] * x->dims[x->rank - 1];
}

static long double grey(const struct host *x, int64_t image, int64_t place)
{
    int64_t p = plane_of(x);
    const long double *v = x->v + image * 3 * p + place;
    return 0.299L * v[0] + 0.587L * v[p] + 0.114L * v[2 * p];
}

// --- what each sample has a number for: x [N,3,H,W], factors [N] or of rank 0

enum change { BRIGHTNESS, CONTRAST, SATURATION, GAMMA };

static void changed(const struct host *in, struct host *out, enum change what)
{
    const struct host *x = &in[0];
    int64_t p = plane_of(x);
    *out = host_copy(x);
    for (int64_t i = 0; i < x->n; i++) {
        int64_t image = i / (3 * p);
        long double f = in[1].v[in[1].rank ? image : 0], mean = 0, v = x->v[i];
        for (int64_t k = 0; k < p; k++) mean += grey(x, image, k) / (long double)p;
        if (what == BRIGHTNESS) v *= f;
        if (what == CONTRAST) v = mean + (v - mean) * f;
        if (what == SATURATION) v = grey(x, image, i % p) + (v - grey(x, image, i % p)) * f;
        if (what == GAMMA) v = powl(v / white(x->dtype), f) * white(x->dtype);
        out->v[i] = ended(v, x->dtype);
    }
}
#define CHANGE(name, what)                                             \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        out[0] = kiln_adjust_##name(in[0], in[1]);                     \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        changed(in, out, what);                                        \
    }
CHANGE(brightness, BRIGHTNESS)
CHANGE(contrast, CONTRAST)
CHANGE(saturation, SATURATION)
CHANGE(gamma, GAMMA)

// Without colours the mean is that of the image.
static void call_plain(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_adjust_contrast(in[0], kiln_scalar(0.5));
}

static void expect_plain(const struct host *in, struct host *out)
{
    long double mean = 0;
    *out = host_copy(&in[0]);
    for (int64_t i = 0; i < in[0].n; i++) mean += in[0].v[i] / (long double)in[0].n;
    for (int64_t i = 0; i < in[0].n; i++) out->v[i] = ended(mean + (in[0].v[i] - mean) / 2, in[0].dtype);
}

static void call_grey(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_rgb_to_grayscale(in[0]);
}

static void expect_grey(const struct host *in, struct host *out)
{
    *out = host_copy(&in[0]);
    out->dims[out->rank - 3] = 1;
    out->n = in[0].n / 3;
    for (int64_t i = 0; i < out->n; i++) {
        long double v = grey(&in[0], i / plane_of(&in[0]), i % plane_of(&in[0]));
        out->v[i] = is_float(in[0].dtype) ? v : rintl(v);
    }
}

// --- hue: by sectors of a sixth

static void hsv(const long double *rgb, int64_t step, long double *to)
{
    long double r = rgb[0], g = rgb[step], b = rgb[2 * step], high = fmaxl(r, fmaxl(g, b)), low = fminl(r, fminl(g, b));
    long double h = high == low ? 0
                    : high == r ? (g - b) / (high - low)
                    : high == g ? 2 + (b - r) / (high - low)
                                : 4 + (r - g) / (high - low);
    to[0] = h < 0 ? h / 6 + 1 : h / 6;
    to[step] = high == 0 ? 0 : (high - low) / high;
    to[2 * step] = high;
}

static void rgb(const long double *hsv, int64_t step, long double *to)
{
    long double h = (hsv[0] - floorl(hsv[0])) * 6, s = hsv[step], v = hsv[2 * step], f = h - floorl(h);
    long double p = v * (1 - s), q = v * (1 - s * f), t = v * (1 - s * (1 - f));
    const long double all[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    for (int i = 0; i < 3; i++) to[i * step] = all[(int)h % 6][i];
}

static void each_colour(const struct host *x, struct host *out, void (*f)(const long double *, int64_t, long double *))
{
    int64_t p = plane_of(x);
    *out = host_copy(x);
    for (int64_t i = 0; i < x->n / 3; i++) f(x->v + i / p * 3 * p + i % p, p, out->v + i / p * 3 * p + i % p);
}

static void call_hsv(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_rgb_to_hsv(in[0]);
    out[1] = kiln_hsv_to_rgb(in[0]);
}

static void expect_hsv(const struct host *in, struct host *out)
{
    each_colour(&in[0], &out[0], hsv);
    each_colour(&in[0], &out[1], rgb);
}

static void call_hue(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_adjust_hue(in[0], in[1]);
}

static void expect_hue(const struct host *in, struct host *out)
{
    struct host part = host_copy(&in[0]), turned;
    for (int64_t i = 0; i < part.n; i++) part.v[i] /= white(in[0].dtype);
    each_colour(&part, &turned, hsv);
    for (int64_t i = 0, p = plane_of(&part); i < part.n; i++)
        if (i / p % 3 == 0) turned.v[i] += in[1].v[in[1].rank ? i / (3 * p) : 0];
    each_colour(&turned, out, rgb);
    for (int64_t i = 0; i < out->n; i++) out->v[i] = ended(out->v[i] * white(in[0].dtype), in[0].dtype);
    host_free(&part);
    host_free(&turned);
}

static void call_normal(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_normalize_image(in[0], in[1], in[2]);
}

static void expect_normal(const struct host *in, struct host *out)
{
    *out = host_copy(&in[0]);
    for (int64_t i = 0; i < out->n; i++) {
        int64_t c = i / plane_of(&in[0]) % in[1].n;
        out->v[i] = (in[0].v[i] - in[1].v[c]) / in[2].v[c];
    }
}

// --- equal shares, as Pillow's ImageOps.equalize

static void call_equal(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_equalize_histogram(kiln_cast(in[0], KILN_U8));
}

static void expect_equal(const struct host *in, struct host *out)
{
    int64_t p = plane_of(&in[0]);
    *out = host_new(KILN_U8, in[0].rank, in[0].dims);
    for (int64_t at = 0; at < in[0].n; at += p) {
        int64_t h[256] = {0}, lut[256], last = 0, below = 0;
        for (int64_t i = 0; i < p; i++) h[(int)in[0].v[at + i]]++;
        for (int i = 0; i < 256; i++)
            if (h[i]) last = h[i];
        int64_t step = (p - last) / 255;
        for (int i = 0; i < 256; below += h[i++]) {
            lut[i] = step ? (step / 2 + below) / step : i;
            if (lut[i] > 255) lut[i] = 255;
        }
        for (int64_t i = 0; i < p; i++) out->v[at + i] = lut[(int)in[0].v[at + i]];
    }
}

// --- filters: [N,H,W]

static long double pixel(const struct host *x, int64_t plane, int64_t row, int64_t column, bool mirrored)
{
    int64_t h = x->dims[x->rank - 2], w = x->dims[x->rank - 1];
    if (mirrored) {
        row = llabs(row), column = llabs(column);
        row = row < h ? row : 2 * (h - 1) - row, column = column < w ? column : 2 * (w - 1) - column;
    }
    row = row < 0 ? 0 : row < h ? row : h - 1, column = column < 0 ? 0 : column < w ? column : w - 1;
    return x->v[(plane * h + row) * w + column];
}

static void call_blur(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_gaussian_blur(in[0], 5, 1.25);
    out[1] = kiln_gaussian_blur(in[0], 3, 0);
}

static void blurred(const struct host *x, struct host *out, int size, long double sigma)
{
    int64_t w = x->dims[x->rank - 1], p = plane_of(x);
    *out = host_copy(x);
    for (int64_t i = 0; i < x->n; i++) {
        long double sum = 0, all = 0;
        for (int k = 0; k < size * size; k++) {
            int dy = k / size - size / 2, dx = k % size - size / 2;
            long double g = expl(-(dx * dx + dy * dy) / (2 * sigma * sigma));
            sum += g * pixel(x, i / p, i % p / w + dy, i % w + dx, true);
            all += g;
        }
        out->v[i] = is_float(x->dtype) ? sum / all : rintl(sum / all);
    }
}

static void expect_blur(const struct host *in, struct host *out)
{
    blurred(&in[0], &out[0], 5, 1.25L);
    blurred(&in[0], &out[1], 3, 0.8L);
}

static void call_sobel(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_sobel(in[0], &out[0], &out[1]);
}

static void expect_sobel(const struct host *in, struct host *out)
{
    static const int smooth[] = {1, 2, 1};
    int64_t w = in[0].dims[in[0].rank - 1], p = plane_of(&in[0]);
    for (int k = 0; k < 2; k++) {
        out[k] = host_new(in[0].dtype, in[0].rank, in[0].dims);
        for (int64_t i = 0; i < in[0].n; i++)
            for (int t = 0; t < 9; t++) {
                int dy = t / 3 - 1, dx = t % 3 - 1;
                out[k].v[i] += (k ? smooth[dx + 1] * dy : smooth[dy + 1] * dx) *
                               pixel(&in[0], i / p, i % p / w + dy, i % w + dx, false);
            }
    }
}

static int by_value(const void *a, const void *b)
{
    long double x = *(const long double *)a, y = *(const long double *)b;
    return (x > y) - (x < y);
}

enum pick { LEAST, MIDDLE, MOST };

static struct host picked(const struct host *x, int size, enum pick which)
{
    int64_t h = x->dims[x->rank - 2], w = x->dims[x->rank - 1], p = h * w;
    struct host y = host_copy(x);
    for (int64_t i = 0; i < x->n; i++) {
        long double v[64];
        for (int k = 0; k < size * size; k++) // repeated edges change no extremum
            v[k] = pixel(x, i / p, i % p / w + k / size - size / 2, i % w + k % size - size / 2, false);
        qsort(v, (size_t)(size * size), sizeof *v, by_value);
        y.v[i] = v[which == LEAST ? 0 : which == MOST ? size * size - 1 : size * size / 2];
    }
    return y;
}

static void call_median(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x = in[0];
    if (kiln_dims(x)[0] == 1) { // element 7 is NaN
        kiln_tensor *at = kiln_reshape(kiln_arange(kiln_tensor_device(x), KILN_I32, 0, (double)kiln_numel(x), 1),
                                       kiln_rank(x), kiln_dims(x));
        x = kiln_where(kiln_equal(at, kiln_scalar_int(7)), kiln_scalar((double)NAN), x);
    }
    out[0] = kiln_median_filter(x, 3);
    out[1] = kiln_median_filter(x, 5);
}

static void expect_median(const struct host *in, struct host *out)
{
    out[0] = picked(&in[0], 3, MIDDLE);
    out[1] = picked(&in[0], 5, MIDDLE);
    for (int k = 0; k < 2; k++) // where element 7 is in reach
        for (int64_t i = 0, w = in[0].dims[2]; in[0].dims[0] == 1 && i < out[k].n; i++)
            if (llabs(i / w - 7 / w) <= k + 1 && llabs(i % w - 7 % w) <= k + 1) out[k].v[i] = (long double)NAN;
}

static void call_morphology(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_dilation(in[0], 3);
    out[1] = kiln_erosion(in[0], 3);
    out[2] = kiln_opening(in[0], 3);
    out[3] = kiln_closing(in[0], 3);
}

static void expect_morphology(const struct host *in, struct host *out)
{
    out[0] = picked(&in[0], 3, MOST);
    out[1] = picked(&in[0], 3, LEAST);
    out[2] = picked(&out[1], 3, MOST);
    out[3] = picked(&out[0], 3, LEAST);
}

static void call_edges(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_morphological_gradient(in[0], 5);
}

static void expect_edges(const struct host *in, struct host *out)
{
    struct host least = picked(&in[0], 5, LEAST);
    out[0] = picked(&in[0], 5, MOST);
    for (int64_t i = 0; i < least.n; i++)
        out->v[i] = in[0].dtype == KILN_BOOL ? out->v[i] != least.v[i] : out->v[i] - least.v[i];
    host_free(&least);
}

#define OF(op, note, inputs, dtypes, name, ...)                            \
    {                                                                      \
#op, note, inputs, dtypes, call_##name, expect_##name, __VA_ARGS__ \
    }
#define BRIGHT .lo = 0.125, .hi = 0.9
static const struct op_case colours_cases[] = {
    OF(adjust_brightness, "a factor each", "2x3x2x3 2", IN_FLOATS, brightness, .units = 4, .order = 2, BRIGHT),
    OF(adjust_brightness, "too bright", "2x3x2x3 d-", IN_FLOATS, brightness, .units = 4, .lo = 0.9, .hi = 3),
    OF(adjust_brightness, "bytes", "2x3x2x3 n2<3", IN_INTEGERS, brightness, .lo = 0, .hi = 120),
    OF(adjust_contrast, "a factor each", "2x3x2x3 2", IN_FLOATS, contrast, .units = 16, .order = 2, BRIGHT),
    OF(adjust_contrast, "without colours", "1x2x3", IN_FLOATS, plain, .units = 16, .order = 2, BRIGHT),
    OF(adjust_saturation, "a factor each", "2x3x2x3 2", IN_FLOATS, saturation, .units = 16, .order = 2, BRIGHT),
    OF(adjust_gamma, "an exponent each", "2x3x2x3 2", IN_FLOATS, gamma, .units = 16, .order = 2, BRIGHT),
    OF(rgb_to_grayscale, "floats", "2x3x2x3", IN_FLOATS, grey, .units = 8, .order = 2),
    OF(rgb_to_grayscale, "bytes", "3x2x3", IN_INTEGERS, grey, .lo = 0, .hi = 255),
    OF(rgb_to_hsv, "and back", "2x3x4x3", IN_FLOATS, hsv, .n_out = 2, .units = 64, .order = 2, BRIGHT),
    OF(hsv_to_rgb, "and back", "3x1x5", IN_WIDE, hsv, .n_out = 2, .units = 64, BRIGHT),
    OF(adjust_hue, "a shift each", "2x3x2x3 2", IN_FLOATS, hue, .units = 64, .order = 1, BRIGHT),
    OF(adjust_hue, "bytes", "2x3x2x3 i-<1", IN_INTEGERS, hue, .lo = 0, .hi = 255),
    OF(normalize_image, "three channels", "2x3x2x2 3 3", IN_FLOATS, normal, .units = 16, .order = 2, BRIGHT),
    OF(equalize_histogram, "few values", "2x40x20", IN_INTEGERS, equal, .lo = 0, .hi = 20),
    OF(equalize_histogram, "many values", "1x30x30", IN_INTEGERS, equal, .lo = 0, .hi = 120),
    OF(equalize_histogram, "one value", "2x3x4", IN_INTEGERS, equal, .lo = 7, .hi = 8),
    OF(gaussian_blur, "two sizes", "2x4x5", IN_FLOATS, blur, .n_out = 2, .units = 16, .order = 2),
    OF(gaussian_blur, "bytes", "2x4x5", IN_INTEGERS, blur, .n_out = 2, .lo = 0, .hi = 120),
    OF(sobel, "edges", "2x4x5", IN_FLOATS, sobel, .n_out = 2, .units = 16, .order = 2),
    OF(median_filter, "two sizes", "2x4x5", IN_NUMBERS, median, .n_out = 2, .order = 1),
    OF(median_filter, "NaN", "1x6x8", IN_FLOATS, median, .n_out = 2),
    OF(dilation, "of nine", "2x5x6", IN_NUMBERS | IN_BOOL, morphology, .n_out = 4, .order = 1),
    OF(erosion, "of nine", "1x3x3", IN_FLOATS, morphology, .n_out = 4),
    OF(opening, "of nine", "1x1x7", IN_FLOATS, morphology, .n_out = 4),
    OF(closing, "of nine", "1x7x1", IN_FLOATS, morphology, .n_out = 4),
    OF(morphological_gradient, "of twenty-five", "2x6x7", IN_NUMBERS | IN_BOOL, edges, .units = 1, .order = 1),
};
FAMILY_OF(colours);
