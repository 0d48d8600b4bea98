// Images of other sizes, at other places, in other orders; boxes. References weigh all elements of an image for each of
// the result's.
#include "compose/volume.h"

// --- interpolate

enum mode { NEAREST, EXACT, LINEAR, CUBIC };
struct resizing {
    enum mode mode;
    bool align, antialias;
    long double scale; // 0: by sizes
    int64_t sizes[3];
};

static long double keys(long double d, long double a)
{
    d = fabsl(d);
    if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

static long double around(enum mode mode, long double d, long double a)
{
    return mode == CUBIC ? keys(d, a) : fmaxl(0, 1 - fabsl(d));
}

// By what element `from` of n is multiplied in element `to` of m.
static long double weight(const struct resizing *r, int64_t to, int64_t from, int64_t n, int64_t m)
{
    long double step = r->scale != 0 ? 1 / r->scale : (long double)n / (long double)m, sum = 0;
    if (r->align) step = m > 1 ? (long double)(n - 1) / (long double)(m - 1) : 0;
    if (r->mode == NEAREST || r->mode == EXACT) {
        long double at = floorl(((long double)to + (r->mode == EXACT ? 0.5L : 0)) * step);
        return (at < n ? at : n - 1) == from;
    }
    if (r->antialias) {
        long double wide = step > 1 ? step : 1, half = wide * (r->mode == CUBIC ? 2 : 1), c = (to + 0.5L) * step,
                    own = 0;
        for (int64_t k = (int64_t)fmaxl(0, c - half + 0.5L); k < (int64_t)(c + half + 0.5L) && k < n; k++) {
            long double w = around(r->mode, (k + 0.5L - c) / wide, -0.5L);
            sum += w;
            if (k == from) own = w;
        }
        return own / sum;
    }
    long double at = r->align ? to * step : (to + 0.5L) * step - 0.5L;
    if (r->mode == LINEAR && at < 0) at = 0;
    for (int64_t k = (int64_t)floorl(at) - 1; k < (int64_t)floorl(at) + 3; k++) {
        int64_t inside = k < 0 ? 0 : k >= n ? n - 1 : k;
        if (inside == from) sum += around(r->mode, at - (long double)k, -0.75L);
    }
    return sum;
}

static void resized(const struct host *x, struct host *out, const struct resizing *r)
{
    int64_t d[3], dims[5] = {x->dims[0], x->dims[1]};
    volume(x, d);
    for (int i = 0; i < x->rank - 2; i++) dims[2 + i] = r->sizes[3 - (x->rank - 2) + i];
    *out = host_new(x->dtype, x->rank, dims);
    int64_t plane = d[0] * d[1] * d[2], places = r->sizes[0] * r->sizes[1] * r->sizes[2];
    for (int64_t i = 0, at[3] = {0}; i < out->n; i++, next(at, r->sizes)) {
        int64_t from[3] = {0};
        for (int64_t k = 0; k < plane; k++, next(from, d)) {
            long double w = 1;
            for (int a = 0; a < 3; a++) w *= 3 - a > x->rank - 2 ? 1 : weight(r, at[a], from[a], d[a], r->sizes[a]);
            out->v[i] += w * x->v[i / places * plane + k];
        }
    }
}

#define RESIZE(name, options, ...)                                     \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        out[0] = kiln_interpolate(in[0], options);                     \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        resized(&in[0], out, &(const struct resizing){__VA_ARGS__});   \
    }
RESIZE(nearest, KILN_INTERPOLATE(.sizes = KILN_ARGS(7, 3)), NEAREST, .sizes = {1, 7, 3})
RESIZE(exact, KILN_INTERPOLATE(.sizes = KILN_ARGS(7, 3), .mode = "nearest-exact"), EXACT, .sizes = {1, 7, 3})
RESIZE(scaled, KILN_INTERPOLATE(.scale = 1.6, .mode = "nearest"), NEAREST, .scale = 1.6L, .sizes = {1, 1, 8})
RESIZE(line, KILN_INTERPOLATE(.scale = 1.9, .mode = "linear"), LINEAR, .scale = 1.9, .sizes = {1, 1, 9})
RESIZE(same_size, KILN_INTERPOLATE(.scale = 1.1, .mode = "linear"), LINEAR, .scale = 1.1, .sizes = {1, 1, 5})
RESIZE(bilinear, KILN_INTERPOLATE(.sizes = KILN_ARGS(7, 3), .mode = "bilinear"), LINEAR, .sizes = {1, 7, 3})
RESIZE(aligned_of, KILN_INTERPOLATE(.sizes = KILN_ARGS(7, 1), .mode = "bilinear", .align_corners = true), LINEAR, true,
       .sizes = {1, 7, 1})
RESIZE(trilinear, KILN_INTERPOLATE(.sizes = KILN_ARGS(2, 3, 5), .mode = "trilinear"), LINEAR, .sizes = {2, 3, 5})
RESIZE(bicubic, KILN_INTERPOLATE(.sizes = KILN_ARGS(7, 3), .mode = "bicubic"), CUBIC, .sizes = {1, 7, 3})
RESIZE(cubic_aligned, KILN_INTERPOLATE(.sizes = KILN_ARGS(7, 3), .mode = "bicubic", .align_corners = true), CUBIC, true,
       .sizes = {1, 7, 3})
RESIZE(smooth, KILN_INTERPOLATE(.sizes = KILN_ARGS(2, 7), .mode = "bilinear", .antialias = true), LINEAR,
       .antialias = true, .sizes = {1, 2, 7})
RESIZE(smooth_cubic, KILN_INTERPOLATE(.sizes = KILN_ARGS(2, 7), .mode = "bicubic", .antialias = true), CUBIC,
       .antialias = true, .sizes = {1, 2, 7})
// Sizes at which the matrix is cut into blocks; factors are as exact as f64 has distances between places near 120.
RESIZE(long_line, KILN_INTERPOLATE(.sizes = KILN_ARGS(65), .mode = "linear", .antialias = true), LINEAR,
       .antialias = true, .sizes = {1, 1, 65})
RESIZE(long_side, KILN_INTERPOLATE(.sizes = KILN_ARGS(65, 2), .mode = "bilinear", .antialias = true), LINEAR,
       .antialias = true, .sizes = {1, 65, 2})

static void call_area(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_interpolate(in[0], KILN_INTERPOLATE(.sizes = KILN_ARGS(2, 7), .mode = "area"));
}

static void expect_area(const struct host *in, struct host *out)
{
    int64_t h = in[0].dims[2], w = in[0].dims[3];
    *out = host_new(in[0].dtype, 4, (int64_t[]){in[0].dims[0], in[0].dims[1], 2, 7});
    for (int64_t i = 0; i < out->n; i++) {
        int64_t y = i / 7 % 2, x = i % 7, n = 0;
        for (int64_t a = y * h / 2; a < ((y + 1) * h + 1) / 2; a++)
            for (int64_t b = x * w / 7; b < ((x + 1) * w + 6) / 7; b++, n++)
                out->v[i] += in[0].v[(i / 14 * h + a) * w + b];
        out->v[i] /= (long double)n;
    }
}

static void call_resize(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_resize(in[0], 7, 3, NULL);
    out[1] = kiln_resize(in[0], 2, 7, KILN_RESIZE(.mode = "bicubic", .antialias = true));
    out[2] = kiln_resize(in[0], 7, 3, KILN_RESIZE(.mode = "nearest"));
}

static void expect_resize(const struct host *in, struct host *out)
{
    resized(&in[0], &out[0], &(const struct resizing){LINEAR, .sizes = {1, 7, 3}});
    resized(&in[0], &out[1], &(const struct resizing){CUBIC, .antialias = true, .sizes = {1, 2, 7}});
    resized(&in[0], &out[2], &(const struct resizing){NEAREST, .sizes = {1, 7, 3}});
}

// Of images without channels; the weights are exact in f32, so that halves are.
static void call_bytes(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_resize(in[0], 8, 10, NULL);
    out[1] = kiln_resize(in[0], 8, 10, KILN_RESIZE(.mode = "bicubic"));
}

static void expect_bytes(const struct host *in, struct host *out)
{
    struct host x = in[0];
    x.rank = 4, x.dims[0] = 1, x.dims[1] = in[0].dims[0], x.dims[2] = in[0].dims[1], x.dims[3] = in[0].dims[2];
    for (int i = 0; i < 2; i++) {
        resized(&x, &out[i], &(const struct resizing){i ? CUBIC : LINEAR, .sizes = {1, 8, 10}});
        out[i].rank = 3, out[i].dims[0] = in[0].dims[0], out[i].dims[1] = 8, out[i].dims[2] = 10;
        for (int64_t k = 0; k < out[i].n; k++) {
            long double v = rintl(out[i].v[k]);
            out[i].v[k] = x.dtype != KILN_U8 ? v : v < 0 ? 0 : v > 255 ? 255 : v;
        }
    }
}

// --- grids

enum sample { BILINEAR, CLOSEST, BICUBIC };
enum beyond { ZEROS, BORDER, REFLECTION };
struct sampling {
    enum sample mode;
    enum beyond beyond;
    bool align;
};

static long double inside(const struct sampling *s, long double at, int64_t size)
{
    if (s->beyond == ZEROS) return at;
    if (s->beyond == REFLECTION) {
        long double low = s->align ? 0 : -0.5L, high = s->align ? size - 1 : size - 0.5L;
        if (low == high) return 0;
        while (at < low || at > high) at = at < low ? 2 * low - at : 2 * high - at;
    }
    return fminl(fmaxl(at, 0), size - 1);
}

// The weight of element `from` of an axis that is read at `g`.
static long double share(const struct sampling *s, long double g, int64_t from, int64_t size)
{
    long double at = s->align ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2, sum = 0;
    if (s->mode == CLOSEST) return rintl(inside(s, at, size)) == from;
    if (s->mode == BILINEAR) return fmaxl(0, 1 - fabsl(inside(s, at, size) - from));
    for (int k = -1; k < 3; k++) {
        long double tap = floorl(at) + k;
        if (rintl(inside(s, tap, size)) == from) sum += keys(at - tap, -0.75L);
    }
    return sum;
}

static void sampled(const struct host *x, const struct host *grid, struct host *out, const struct sampling *s)
{
    int64_t d[3], dims[5] = {x->dims[0], x->dims[1]}, n = x->rank - 2, places = 1;
    volume(x, d);
    for (int64_t i = 0; i < n; i++) dims[2 + i] = grid->dims[1 + i], places *= dims[2 + i];
    *out = host_new(x->dtype, x->rank, dims);
    for (int64_t i = 0; i < out->n; i++) {
        const long double *g = grid->v + (i / (places * dims[1]) * places + i % places) * n;
        int64_t from[3] = {0};
        for (int64_t k = 0; k < d[0] * d[1] * d[2]; k++, next(from, d)) {
            long double w = 1;
            for (int64_t a = 0; a < n; a++) w *= share(s, g[a], from[2 - a], d[2 - a]);
            out->v[i] += w * x->v[i / places * (d[0] * d[1] * d[2]) + k];
        }
    }
}

#define SAMPLE(name, options, ...)                                           \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out)       \
    {                                                                        \
        out[0] = kiln_grid_sample(in[0], in[1], options);                    \
    }                                                                        \
    static void expect_##name(const struct host *in, struct host *out)       \
    {                                                                        \
        sampled(&in[0], &in[1], out, &(const struct sampling){__VA_ARGS__}); \
    }
SAMPLE(zeros, KILN_GRID_SAMPLE(.mode = "bilinear"), BILINEAR)
SAMPLE(zeros_aligned, KILN_GRID_SAMPLE(.padding_mode = "zeros", .align_corners = true), BILINEAR, ZEROS, true)
SAMPLE(border, KILN_GRID_SAMPLE(.padding_mode = "border"), BILINEAR, BORDER)
SAMPLE(mirror, KILN_GRID_SAMPLE(.padding_mode = "reflection"), BILINEAR, REFLECTION)
SAMPLE(mirror_aligned, KILN_GRID_SAMPLE(.padding_mode = "reflection", .align_corners = true), BILINEAR, REFLECTION,
       true)
SAMPLE(closest, KILN_GRID_SAMPLE(.mode = "nearest"), CLOSEST)
SAMPLE(closest_mirror, KILN_GRID_SAMPLE(.mode = "nearest", .padding_mode = "reflection"), CLOSEST, REFLECTION)
SAMPLE(cubic, KILN_GRID_SAMPLE(.mode = "bicubic"), BICUBIC)
SAMPLE(cubic_border, KILN_GRID_SAMPLE(.mode = "bicubic", .padding_mode = "border", .align_corners = true), BICUBIC,
       BORDER, true)
SAMPLE(cubic_mirror, KILN_GRID_SAMPLE(.mode = "bicubic", .padding_mode = "reflection"), BICUBIC, REFLECTION)

static void grid_of(const struct host *theta, struct host *out, const int64_t *size, int n, bool align)
{
    int64_t dims[5] = {theta->dims[0]}, places = 1;
    for (int i = 0; i < n; i++) dims[1 + i] = size[i], places *= size[i];
    dims[n + 1] = n;
    *out = host_new(theta->dtype, n + 2, dims);
    for (int64_t i = 0; i < out->n; i++) {
        int64_t row = i % n, rest = i / n % places;
        const long double *t = theta->v + (i / n / places * n + row) * (n + 1);
        out->v[i] = t[n];
        for (int a = n - 1; a >= 0; a--) {
            long double k = rest % size[a], m = size[a];
            out->v[i] += t[n - 1 - a] * (align ? (m > 1 ? 2 * k / (m - 1) - 1 : 0) : (2 * k + 1) / m - 1);
            rest /= size[a];
        }
    }
}

static void call_grid2(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_affine_grid(in[0], KILN_SHAPE(3, 4), false);
    out[1] = kiln_affine_grid(in[0], KILN_SHAPE(1, 4), true);
}

static void expect_grid2(const struct host *in, struct host *out)
{
    grid_of(&in[0], &out[0], (int64_t[]){3, 4}, 2, false);
    grid_of(&in[0], &out[1], (int64_t[]){1, 4}, 2, true);
}

static void call_grid3(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_affine_grid(in[0], KILN_SHAPE(2, 3, 4), false);
}

static void expect_grid3(const struct host *in, struct host *out)
{
    grid_of(&in[0], out, (int64_t[]){2, 3, 4}, 3, false);
}

// --- rotation: by distances from the middle, in elements

static void turned(const struct host *x, struct host *out, const long double *degrees, bool each, enum sample mode)
{
    int64_t h = x->dims[2], w = x->dims[3];
    *out = host_new(x->dtype, 4, x->dims);
    for (int64_t i = 0; i < out->n; i++) {
        long double a = degrees[each ? i / (h * w) / x->dims[1] : 0] * PI_L / 180;
        long double right = i % w - (w - 1) / 2.0L, down = i / w % h - (h - 1) / 2.0L;
        long double fx = right * cosl(a) - down * sinl(a) + (w - 1) / 2.0L,
                    fy = right * sinl(a) + down * cosl(a) + (h - 1) / 2.0L;
        for (int64_t y = 0; y < h; y++)
            for (int64_t v = 0; v < w; v++) {
                long double near = fmaxl(0, 1 - fabsl(fx - v)) * fmaxl(0, 1 - fabsl(fy - y));
                if (mode == CLOSEST) near = rintl(fx) == v && rintl(fy) == y;
                out->v[i] += near * x->v[(i / (h * w) * h + y) * w + v];
            }
        if (!is_float(x->dtype)) out->v[i] = rintl(out->v[i]);
    }
}

static void call_turn(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_rotate(in[0], kiln_mul(in[1], kiln_scalar(40)), "bilinear");
    out[1] = kiln_rotate(in[0], kiln_scalar(17.5), "nearest");
}

static void expect_turn(const struct host *in, struct host *out)
{
    long double degrees[2];
    for (int64_t i = 0; i < in[1].n; i++) degrees[i] = in[1].v[i] * 40;
    turned(&in[0], &out[0], degrees, in[1].rank == 1, BILINEAR);
    turned(&in[0], &out[1], (long double[]){17.5L}, false, CLOSEST);
}

// --- other orders

static void call_orders(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_depth_to_space(in[0], 2, "DCR");
    out[1] = kiln_pixel_shuffle(in[0], 2);
    out[2] = kiln_space_to_depth(out[0], 2);
    out[3] = kiln_pixel_unshuffle(out[1], 2);
}

static void expect_orders(const struct host *in, struct host *out)
{
    const int64_t *d = in[0].dims;
    int64_t c = d[1] / 4, dims[] = {d[0], c, d[2] * 2, d[3] * 2};
    for (int i = 0; i < 4; i++) out[i] = i < 2 ? host_new(in[0].dtype, 4, dims) : host_copy(&in[0]);
    for (int64_t i = 0; i < out[0].n; i++) {
        int64_t at[4];
        unravel(4, dims, i, at);
        int64_t block = at[2] % 2 * 2 + at[3] % 2;
        for (int k = 0; k < 2; k++) {
            int64_t from[] = {at[0], k ? at[1] * 4 + block : block * c + at[1], at[2] / 2, at[3] / 2};
            out[k].v[i] = host_get(&in[0], from);
        }
    }
}

static void call_crd(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_sub(kiln_depth_to_space(in[0], 2, "CRD"), kiln_pixel_shuffle(in[0], 2));
    out[1] = kiln_pixel_unshuffle(kiln_pixel_shuffle(kiln_select(in[0], 0, 0), 2), 2);
    out[2] = kiln_channel_shuffle(in[0], 4);
}

static void expect_crd(const struct host *in, struct host *out)
{
    const int64_t *d = in[0].dims;
    int64_t plane = d[2] * d[3];
    out[0] = host_new(in[0].dtype, 4, (int64_t[]){d[0], d[1] / 4, d[2] * 2, d[3] * 2});
    out[1] = host_new(in[0].dtype, 3, d + 1);
    out[2] = host_copy(&in[0]);
    for (int64_t i = 0; i < out[1].n; i++) out[1].v[i] = in[0].v[i];
    for (int64_t i = 0; i < in[0].n; i++) {
        int64_t c = i / plane % d[1], per = d[1] / 4; // channel c is member c / 4 of group c % 4
        out[2].v[i] = in[0].v[(i / plane / d[1] * d[1] + c % 4 * per + c / 4) * plane + i % plane];
    }
}

static void call_parts(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_crop(in[0], 1, 2, 3, 2);
    out[1] = kiln_center_crop(in[0], 2, 3);
    out[2] = kiln_hflip(in[0]);
    out[3] = kiln_vflip(in[0]);
}

static void expect_parts(const struct host *in, struct host *out)
{
    int64_t h = in[0].dims[1], w = in[0].dims[2], tops[] = {1, (h - 2) / 2, 0, 0}, lefts[] = {2, (w - 3) / 2, 0, 0};
    int64_t sizes[][2] = {{3, 2}, {2, 3}, {h, w}, {h, w}};
    for (int k = 0; k < 4; k++) {
        out[k] = host_new(in[0].dtype, 3, (int64_t[]){in[0].dims[0], sizes[k][0], sizes[k][1]});
        for (int64_t i = 0; i < out[k].n; i++) {
            int64_t at[3];
            unravel(3, out[k].dims, i, at);
            at[1] += tops[k], at[2] += lefts[k];
            if (k == 2) at[2] = w - 1 - at[2];
            if (k == 3) at[1] = h - 1 - at[1];
            out[k].v[i] = host_get(&in[0], at);
        }
    }
}

// --- boxes: from corners and lengths

static kiln_tensor *boxes_of(kiln_tensor *corner, kiln_tensor *length)
{
    return kiln_concat((kiln_tensor *[]){corner, kiln_add(corner, kiln_abs(length))}, 2, 1);
}

static void call_align(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *of = kiln_cast(kiln_unsqueeze(in[1], 1), kiln_tensor_dtype(in[2]));
    kiln_tensor *boxes = kiln_concat((kiln_tensor *[]){of, boxes_of(in[2], in[3])}, 2, 1);
    out[0] = kiln_roi_align(in[0], boxes, KILN_ROI_ALIGN(.height = 2, .width = 3, .spatial_scale = 0.75));
    out[1] = kiln_roi_align(in[0], boxes, KILN_ROI_ALIGN(.height = 2, .sampling_ratio = 3, .aligned = true));
}

static long double smooth(const struct host *x, int64_t n, int64_t c, long double at_y, long double at_x)
{
    int64_t h = x->dims[2], w = x->dims[3];
    long double sum = 0;
    if (at_y < -1 || at_y > h || at_x < -1 || at_x > w) return 0;
    at_y = fminl(fmaxl(at_y, 0), h - 1), at_x = fminl(fmaxl(at_x, 0), w - 1);
    for (int64_t i = 0; i < h * w; i++)
        sum += fmaxl(0, 1 - fabsl(at_y - i / w)) * fmaxl(0, 1 - fabsl(at_x - i % w)) *
               x->v[(n * x->dims[1] + c) * h * w + i];
    return sum;
}

static void aligned(const struct host *in, struct host *out, int64_t height, int64_t width, int64_t ratio,
                    long double scale, bool half)
{
    int64_t k = in[1].dims[0], c = in[0].dims[1];
    *out = host_new(in[0].dtype, 4, (int64_t[]){k, c, height, width});
    for (int64_t i = 0; i < out->n; i++) {
        int64_t at[4];
        unravel(4, out->dims, i, at);
        const long double *corner = in[2].v + at[0] * 2, *length = in[3].v + at[0] * 2;
        long double from[2], bin[2], cells[] = {width, height};
        for (int a = 0; a < 2; a++) {
            from[a] = corner[a] * scale - (half ? 0.5L : 0);
            long double side = fabsl(length[a]) * scale;
            bin[a] = (half ? side : fmaxl(side, 1)) / cells[a];
        }
        for (int64_t s = 0; s < ratio * ratio; s++)
            out->v[i] +=
                smooth(&in[0], (int64_t)in[1].v[at[0]], at[1], from[1] + bin[1] * (at[2] + (s / ratio + 0.5L) / ratio),
                       from[0] + bin[0] * (at[3] + (s % ratio + 0.5L) / ratio));
        out->v[i] /= (long double)(ratio * ratio);
    }
}

static void expect_align(const struct host *in, struct host *out)
{
    aligned(in, &out[0], 2, 3, 2, 0.75L, false);
    aligned(in, &out[1], 2, 1, 3, 1, true);
}

static void call_nms(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_nms(boxes_of(in[0], in[1]), in[2], 0.25);
}

static void call_nms_sized(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_nms_sized(boxes_of(in[0], in[1]), in[2], 0.25, 20, &out[0], &out[1]);
    kiln_nms_sized(boxes_of(in[0], in[1]), in[2], 0.25, 2, &out[2], NULL);
}

static long double overlap(const struct host *in, int64_t a, int64_t b)
{
    long double both = 1, area[2] = {1, 1};
    for (int i = 0; i < 2; i++) {
        long double low = in[0].v[a * 2 + i], from = in[0].v[b * 2 + i], of = fabsl(in[1].v[a * 2 + i]),
                    to = fabsl(in[1].v[b * 2 + i]);
        both *= fmaxl(0, fminl(low + of, from + to) - fmaxl(low, from));
        area[0] *= of, area[1] *= to;
    }
    return both / (area[0] + area[1] - both);
}

// The boxes that stay, by falling score; returns how many.
static int64_t staying(const struct host *in, int64_t *to)
{
    int64_t n = in[2].n, kept = 0;
    bool gone[64] = {false};
    for (;;) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if (!gone[i] && (best < 0 || in[2].v[i] > in[2].v[best])) best = i;
        if (best < 0) return kept;
        to[kept++] = best;
        for (int64_t i = 0; i < n; i++) gone[i] |= i == best || overlap(in, best, i) > 0.25L;
    }
}

static void expect_nms(const struct host *in, struct host *out)
{
    int64_t kept[64], n = staying(in, kept);
    out[0] = host_new(KILN_I64, 1, &n);
    for (int64_t i = 0; i < n; i++) out[0].v[i] = kept[i];
}

static void expect_nms_sized(const struct host *in, struct host *out)
{
    int64_t kept[64], n = staying(in, kept);
    out[0] = host_new(KILN_I64, 1, (int64_t[]){20});
    out[1] = host_new(KILN_I64, 0, NULL);
    out[2] = host_new(KILN_I64, 1, (int64_t[]){2});
    out[1].v[0] = n;
    for (int k = 0; k < 3; k += 2)
        for (int64_t i = 0; i < out[k].n; i++) out[k].v[i] = i < n ? kept[i] : -1;
}

#define OF(op, note, inputs, dtypes, name, ...)                            \
    {                                                                      \
#op, note, inputs, dtypes, call_##name, expect_##name, __VA_ARGS__ \
    }
static const struct op_case images_cases[] = {
    OF(interpolate, "nearest", "2x2x4x5", IN_FLOATS, nearest, .order = 2),
    OF(interpolate, "nearest, exactly", "2x2x4x5", IN_FLOATS, exact, .order = 2),
    OF(interpolate, "nearest, by scale", "2x2x5", IN_FLOATS, scaled, .order = 2),
    OF(interpolate, "linear", "2x2x5", IN_FLOATS, line, .units = 8, .order = 2),
    OF(interpolate, "as many", "2x2x5", IN_FLOATS, same_size, .units = 8, .order = 2),
    OF(interpolate, "bilinear", "2x2x4x5", IN_FLOATS, bilinear, .units = 8, .order = 2),
    OF(interpolate, "bilinear of corners", "2x2x4x5", IN_FLOATS, aligned_of, .units = 8, .order = 2),
    OF(interpolate, "trilinear", "1x2x3x2x4", IN_FLOATS, trilinear, .units = 8, .order = 2),
    OF(interpolate, "bicubic", "2x2x4x5", IN_FLOATS, bicubic, .units = 64, .order = 2),
    OF(interpolate, "bicubic of corners", "2x2x4x5", IN_FLOATS, cubic_aligned, .units = 64, .order = 2),
    OF(interpolate, "antialias", "2x2x5x4", IN_FLOATS, smooth, .units = 16, .order = 2),
    OF(interpolate, "bicubic, antialias", "2x2x7x4", IN_FLOATS, smooth_cubic, .units = 16, .order = 2),
    OF(interpolate, "antialias, a long line", "1x1x120", IN_FLOATS, long_line, .units = 256, .order = 1),
    OF(interpolate, "antialias, a long side", "1x1x120x3", IN_WIDE, long_side, .units = 256),
    OF(interpolate, "area", "2x2x5x4", IN_FLOATS, area, .units = 16, .order = 2),
    OF(resize, "floats", "2x1x5x4", IN_FLOATS, resize, .n_out = 3, .units = 16, .order = 1),
    OF(resize, "bytes", "2x4x5", IN_INTEGERS, bytes, .n_out = 2, .lo = 0, .hi = 255),
    OF(grid_sample, "zeros", "2x2x4x3 2x2x3x2", IN_WIDE, zeros, .units = 64, .order = 2, .lo = -1.4, .hi = 1.4),
    OF(grid_sample, "zeros, corners", "2x2x4x3 2x2x3x2", IN_WIDE, zeros_aligned, .units = 64, .order = 2, .lo = -1.4,
       .hi = 1.4),
    OF(grid_sample, "border", "2x2x4x3 2x2x3x2", IN_WIDE, border, .units = 64, .order = 2),
    OF(grid_sample, "reflection", "1x2x4x3 1x2x3x2", IN_WIDE, mirror, .units = 64, .order = 2, .lo = -4, .hi = 4),
    OF(grid_sample, "reflection, corners", "2x2x4x3 2x2x3x2", IN_WIDE, mirror_aligned, .units = 64, .order = 2,
       .lo = -4, .hi = 4),
    OF(grid_sample, "nearest", "2x2x4x3 2x2x3x2", IN_WIDE, closest, .order = 1, .lo = -1.4, .hi = 1.4),
    OF(grid_sample, "nearest, reflection", "2x2x4x3 2x2x3x2", IN_WIDE, closest_mirror, .order = 1, .lo = -4, .hi = 4),
    OF(grid_sample, "bicubic", "1x2x4x3 1x2x2x2", IN_WIDE, cubic, .units = 128, .order = 1, .lo = -1.4, .hi = 1.4),
    OF(grid_sample, "bicubic, border", "2x2x4x3 2x2x2x2", IN_WIDE, cubic_border, .units = 128, .order = 1),
    OF(grid_sample, "bicubic, reflection", "2x2x4x3 2x1x3x2", IN_WIDE, cubic_mirror, .units = 128, .order = 1),
    OF(grid_sample, "volumes", "1x2x3x4x3 1x1x2x3x3", IN_WIDE, zeros, .units = 64, .order = 2, .lo = -1.4, .hi = 1.4),
    OF(grid_sample, "volumes, border", "1x2x3x4x3 1x2x2x3x3", IN_WIDE, border, .units = 64, .order = 1),
    OF(grid_sample, "half images", "2x2x4x3 s2x2x3x2", IN_HALF, mirror, .units = 64),
    OF(affine_grid, "images", "2x2x3", IN_FLOATS, grid2, .n_out = 2, .units = 8, .order = 2),
    OF(affine_grid, "volumes", "2x3x4", IN_FLOATS, grid3, .units = 8, .order = 2),
    OF(rotate, "an angle each", "2x1x4x5 2", IN_WIDE, turn, .n_out = 2, .units = 256, .order = 1),
    OF(rotate, "one angle", "2x2x5x3 d-", IN_FLOATS, turn, .n_out = 2, .units = 256),
    OF(rotate, "bytes", "2x1x4x5 d2", IN_INTEGERS, turn, .n_out = 2),
    OF(depth_to_space, "both modes", "2x8x2x3", IN_NUMBERS | IN_BOOL, orders, .n_out = 4, .order = 2),
    OF(space_to_depth, "both modes", "1x4x1x1", IN_FLOATS, orders, .n_out = 4),
    OF(pixel_shuffle, "without a batch", "2x8x2x3", IN_NUMBERS, crd, .n_out = 3, .order = 2),
    OF(pixel_unshuffle, "of none", "1x8x0x3", IN_FLOATS, crd, .n_out = 3),
    OF(channel_shuffle, "four groups", "1x12x1x2", IN_NUMBERS, crd, .n_out = 3),
    OF(crop, "and flips", "2x5x6", IN_NUMBERS | IN_BOOL, parts, .n_out = 4, .order = 2),
    OF(center_crop, "and flips", "1x4x4", IN_FLOATS, parts, .n_out = 4),
    OF(hflip, "and crops", "1x4x5", IN_FLOATS, parts, .n_out = 4),
    OF(vflip, "and crops", "3x5x4", IN_FLOATS, parts, .n_out = 4),
    OF(roi_align, "boxes", "2x2x4x5 i3<2 3x2 3x2", IN_WIDE, align, .n_out = 2, .units = 128, .order = 1, .lo = -1.5,
       .hi = 4),
    OF(nms, "boxes", "12x2 12x2 12", IN_WIDE, nms, .by_values = true, .lo = -2, .hi = 4),
    OF(nms, "none", "0x2 0x2 0", IN_F32, nms, .by_values = true),
    OF(nms_sized, "boxes", "12x2 12x2 12", IN_WIDE, nms_sized, .n_out = 3, .lo = -2, .hi = 4),
    OF(nms_sized, "none", "0x2 0x2 0", IN_F32, nms_sized, .n_out = 3),
};
FAMILY_OF(images);
