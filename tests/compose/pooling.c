// Pooling in one to three dimensions, element by element of each window; columns of images.
#include "compose/volume.h"

struct pool {
    int64_t kernel[3], stride[3], padding[3], dilation[3]; // depth, height, width
    bool ceil_mode, exclude;
};
enum kind { LARGEST, MEAN, NORM };

static struct host result(const struct host *x, int dtype, const int64_t *sizes)
{
    int64_t dims[5] = {x->dims[0], x->dims[1]};
    for (int i = 0; i < x->rank - 2; i++) dims[2 + i] = sizes[3 - (x->rank - 2) + i];
    return host_new(dtype, x->rank, dims);
}

static void counts(const struct pool *o, const int64_t *x, int64_t *sizes)
{
    for (int i = 0; i < 3; i++) {
        int64_t span = x[i] + 2 * o->padding[i] - o->dilation[i] * (o->kernel[i] - 1) - 1;
        sizes[i] = span / o->stride[i] + 1;
        if (o->ceil_mode && span % o->stride[i] && sizes[i] * o->stride[i] < x[i] + o->padding[i]) sizes[i]++;
    }
}

static bool is_larger(long double v, long double than)
{
    return v > than || (isnan(v) && !isnan(than));
}

// *where: the places of the largest.
static void pooled(const struct host *x, struct host *out, const struct pool *o, enum kind kind, long double p,
                   struct host *where)
{
    int64_t d[3], sizes[3], whole = o->kernel[0] * o->kernel[1] * o->kernel[2];
    volume(x, d);
    counts(o, d, sizes);
    *out = result(x, x->dtype, sizes);
    if (where) *where = result(x, KILN_I64, sizes);
    int64_t plane = d[0] * d[1] * d[2], places = sizes[0] * sizes[1] * sizes[2];
    for (int64_t nc = 0; nc < x->dims[0] * x->dims[1]; nc++) {
        int64_t at[3] = {0};
        for (int64_t i = 0; i < places; i++, next(at, sizes)) {
            long double sum = 0, best = 0;
            int64_t tap[3] = {0}, first = -1, counted = 0, inside = 0;
            for (int64_t k = 0; k < whole; k++, next(tap, o->kernel)) {
                bool in = true, padded = true;
                int64_t from[3];
                for (int a = 0; a < 3; a++) {
                    from[a] = at[a] * o->stride[a] - o->padding[a] + tap[a] * o->dilation[a];
                    in &= from[a] >= 0 && from[a] < d[a];
                    padded &= from[a] < d[a] + o->padding[a];
                }
                counted += padded;
                if (!in) continue;
                inside++;
                int64_t place = (from[0] * d[1] + from[1]) * d[2] + from[2];
                long double v = x->v[nc * plane + place];
                sum += kind == NORM ? powl(fabsl(v), p) : v;
                if (first < 0 || is_larger(v, best)) best = v, first = place;
            }
            out->v[nc * places + i] = kind == LARGEST ? best
                                      : kind == MEAN  ? sum / (long double)(o->exclude ? inside : counted)
                                                      : powl(sum, 1 / p);
            if (where) where->v[nc * places + i] = (long double)first;
        }
    }
}

#define ONES    \
    {           \
        1, 1, 1 \
    }
#define OF_LINE(k, s, p, d)          \
    {1, 1, k}, {1, 1, s}, {0, 0, p}, \
    {                                \
        1, 1, d                      \
    }
#define OF_VOLUME                    \
    {2, 3, 2}, {1, 2, 2}, {1, 1, 0}, \
    {                                \
        1, 1, 2                      \
    }
#define LINE(k, s, p, d, ...) KILN_POOL1D(.kernel = k, .stride = s, .padding = p, .dilation = d, __VA_ARGS__)
#define VOLUME(...) \
    KILN_POOL3D(.kernel = {2, 3, 2}, .stride = {1, 2, 2}, .padding = {1, 1, 0}, .dilation = {1, 1, 2}, __VA_ARGS__)

#define POOL(op, name, kind, options, ...)                                     \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out)         \
    {                                                                          \
        out[0] = op(in[0], options);                                           \
    }                                                                          \
    static void expect_##name(const struct host *in, struct host *out)         \
    {                                                                          \
        pooled(&in[0], out, &(const struct pool){__VA_ARGS__}, kind, 0, NULL); \
    }
POOL(kiln_max_pool1d, max1, LARGEST, KILN_POOL1D(.kernel = 3), OF_LINE(3, 3, 0, 1))
POOL(kiln_max_pool1d, max1_all, LARGEST, LINE(3, 2, 2, 2, .ceil_mode = true), OF_LINE(3, 2, 2, 2), true)
POOL(kiln_max_pool3d, max3, LARGEST, KILN_POOL3D(.kernel = {2, 2, 2}), {2, 2, 2}, {2, 2, 2}, .dilation = ONES)
POOL(kiln_max_pool3d, max3_all, LARGEST, VOLUME(.ceil_mode = true), OF_VOLUME, true)
POOL(kiln_avg_pool1d, avg1, MEAN, LINE(3, 2, 1, 1, .ceil_mode = true), OF_LINE(3, 2, 1, 1), true)
POOL(kiln_avg_pool1d, avg1_inside, MEAN, LINE(3, 2, 1, 1, .exclude_padding = true), OF_LINE(3, 2, 1, 1),
     .exclude = true)
POOL(kiln_avg_pool3d, avg3, MEAN, VOLUME(.ceil_mode = true), OF_VOLUME, true)
POOL(kiln_avg_pool3d, avg3_inside, MEAN, VOLUME(.exclude_padding = true), OF_VOLUME, .exclude = true)

#define WITH_PLACES(op, name, options, ...)                                              \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out)                   \
    {                                                                                    \
        op(in[0], options, &out[0], &out[1]);                                            \
    }                                                                                    \
    static void expect_##name(const struct host *in, struct host *out)                   \
    {                                                                                    \
        pooled(&in[0], &out[0], &(const struct pool){__VA_ARGS__}, LARGEST, 0, &out[1]); \
    }
WITH_PLACES(kiln_max_pool1d_with_indices, places1, LINE(3, 2, 2, 2, .ceil_mode = true), OF_LINE(3, 2, 2, 2), true)
WITH_PLACES(kiln_max_pool2d_with_indices, places2, KILN_POOL2D(.kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 1}),
            {1, 3, 2}, {1, 2, 2}, {0, 1, 1}, ONES)
WITH_PLACES(kiln_max_pool2d_with_indices, places2_whole,
            KILN_POOL2D(.kernel = {2, 3}, .stride = {1, 2}, .dilation = {2, 1}), {1, 2, 3}, {1, 1, 2}, {0, 0, 0},
            {1, 2, 1})
WITH_PLACES(kiln_max_pool2d_with_indices, places2_many,
            KILN_POOL2D(.kernel = {4, 5}, .stride = {2, 1}, .padding = {1, 2}), {1, 4, 5}, {1, 2, 1}, {0, 1, 2}, ONES)
WITH_PLACES(kiln_max_pool3d_with_indices, places3, VOLUME(.ceil_mode = true), OF_VOLUME, true)

// NaN, and windows of nothing but -infinity beside padding.
static void spoil(struct host *h)
{
    for (int64_t i = 0; i < h->n; i++)
        h->v[i] = i % 11 == 3 ? (long double)NAN : i % 3 ? -(long double)INFINITY : h->v[i];
}

static kiln_tensor *spoiled(kiln_tensor *t)
{
    kiln_tensor *at = kiln_reshape(kiln_arange(kiln_tensor_device(t), KILN_I32, 0, (double)kiln_numel(t), 1),
                                   kiln_rank(t), kiln_dims(t));
    kiln_tensor *nan = kiln_equal(kiln_remainder(at, kiln_scalar_int(11)), kiln_scalar_int(3));
    kiln_tensor *least = kiln_not_equal(kiln_remainder(at, kiln_scalar_int(3)), kiln_scalar_int(0));
    return kiln_where(nan, kiln_scalar((double)NAN), kiln_where(least, kiln_scalar((double)-INFINITY), t));
}

static void call_spoiled(kiln_tensor *const *in, kiln_tensor **out)
{
    call_places2((kiln_tensor *[]){spoiled(in[0])}, out);
}

static void expect_spoiled(const struct host *in, struct host *out)
{
    struct host x = host_copy(&in[0]);
    spoil(&x);
    expect_places2(&x, out);
    host_free(&x);
}

// --- back to the places

#define UNPOOL(op, name, options, ...)                                 \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        out[0] = op(in[0], in[1], options);                            \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        unpooled(in, out, (const int64_t[]){__VA_ARGS__});             \
    }
static void unpooled(const struct host *in, struct host *out, const int64_t *sizes)
{
    *out = result(&in[0], in[0].dtype, sizes);
    int64_t planes = in[0].dims[0] * in[0].dims[1];
    for (int64_t i = 0; planes && i < in[0].n; i++)
        out->v[i / (in[0].n / planes) * (out->n / planes) + (int64_t)in[1].v[i]] = in[0].v[i];
}
UNPOOL(kiln_max_unpool1d, un1, KILN_UNPOOL1D(.kernel = 3, .stride = 2, .padding = 1), 1, 1, 7)
UNPOOL(kiln_max_unpool2d, un2, KILN_UNPOOL2D(.kernel = {2, 2}, .output_size = {5, 6}), 1, 5, 6)
UNPOOL(kiln_max_unpool3d, un3, KILN_UNPOOL3D(.kernel = {2, 2, 2}), 4, 4, 2)

// --- parts

static void parts(const struct host *x, struct host *out, const int64_t *sizes, bool largest)
{
    int64_t d[3], plane, places = sizes[0] * sizes[1] * sizes[2];
    volume(x, d);
    plane = d[0] * d[1] * d[2];
    *out = result(x, x->dtype, sizes);
    for (int64_t nc = 0; nc < x->dims[0] * x->dims[1]; nc++) {
        int64_t at[3] = {0};
        for (int64_t i = 0; i < places; i++, next(at, sizes)) {
            long double sum = 0, best = 0;
            int64_t n = 0, from[3] = {0};
            for (int64_t k = 0; k < plane; k++, next(from, d)) {
                bool in = true;
                for (int a = 0; a < 3; a++) // from floor(i d / n) to ceil((i + 1) d / n)
                    in &= (from[a] + 1) * sizes[a] > at[a] * d[a] && from[a] * sizes[a] < (at[a] + 1) * d[a];
                if (!in) continue;
                long double v = x->v[nc * plane + k];
                if (!n++ || is_larger(v, best)) best = v;
                sum += v;
            }
            out->v[nc * places + i] = largest ? best : sum / (long double)n;
        }
    }
}
#define PARTS(op, name, largest, sizes, ...)                           \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        out[0] = op(in[0], __VA_ARGS__);                               \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        parts(&in[0], out, (const int64_t[])sizes, largest);           \
    }
#define SIZES(...)  \
    {               \
        __VA_ARGS__ \
    }
PARTS(kiln_adaptive_avg_pool1d, part1, false, SIZES(1, 1, 3), 3)
PARTS(kiln_adaptive_avg_pool2d, part2, false, SIZES(1, 4, 3), 4, 0)
PARTS(kiln_adaptive_avg_pool2d, part2_even, false, SIZES(1, 2, 3), 2, 3)
PARTS(kiln_adaptive_avg_pool3d, part3, false, SIZES(2, 3, 4), 2, 3, 4)
PARTS(kiln_adaptive_avg_pool2d, part2_whole, false, SIZES(1, 1, 1), 1, 1)
PARTS(kiln_adaptive_avg_pool3d, part3_whole, false, SIZES(1, 1, 1), 1, 1, 1)
PARTS(kiln_adaptive_max_pool1d, most1, true, SIZES(1, 1, 3), 3)
PARTS(kiln_adaptive_max_pool2d, most2, true, SIZES(1, 4, 3), 4, 0)
PARTS(kiln_adaptive_max_pool2d, most2_even, true, SIZES(1, 2, 3), 2, 3)
PARTS(kiln_adaptive_max_pool3d, most3, true, SIZES(2, 3, 4), 2, 3, 4)

static void call_global(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_global_avg_pool(in[0]);
    out[1] = kiln_global_max_pool(in[0]);
}

static void expect_global(const struct host *in, struct host *out)
{
    parts(&in[0], &out[0], (const int64_t[]){1, 1, 1}, false);
    parts(&in[0], &out[1], (const int64_t[]){1, 1, 1}, true);
}

#define NORM_OF(op, name, p, options, ...)                                     \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out)         \
    {                                                                          \
        out[0] = op(in[0], p, options);                                        \
    }                                                                          \
    static void expect_##name(const struct host *in, struct host *out)         \
    {                                                                          \
        pooled(&in[0], out, &(const struct pool){__VA_ARGS__}, NORM, p, NULL); \
    }
NORM_OF(kiln_lp_pool1d, norm1, 3, LINE(3, 2, 1, 1, .ceil_mode = true), OF_LINE(3, 2, 1, 1), true)
NORM_OF(kiln_lp_pool2d, norm2, 2, KILN_POOL2D(.kernel = {2, 3}, .stride = {1, 2}), {1, 2, 3}, {1, 1, 2}, {0}, ONES)
NORM_OF(kiln_lp_pool3d, norm3, 1.5,
        KILN_POOL3D(.kernel = {2, 3, 2}, .stride = {1, 2, 2}, .dilation = {1, 1, 2}, .ceil_mode = true), {2, 3, 2},
        {1, 2, 2}, {0}, {1, 1, 2}, true)

// --- windows

static void call_windows(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_sliding_window(in[0], 1, 3, 2);
    out[1] = kiln_sliding_window(in[0], -1, 2, 1);
    out[2] = kiln_sliding_window(in[0], 1, 2, 3);
}

static void windows(const struct host *x, struct host *out, int axis, int64_t size, int64_t step)
{
    int64_t dims[HOST_MAX_RANK], at[HOST_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dims[i] = i == axis ? (x->dims[i] - size) / step + 1 : x->dims[i];
    dims[x->rank] = size;
    *out = host_new(x->dtype, x->rank + 1, dims);
    for (int64_t i = 0; i < out->n; i++) {
        unravel(out->rank, dims, i, at);
        at[axis] = at[axis] * step + at[x->rank];
        out->v[i] = host_get(x, at);
    }
}

static void expect_windows(const struct host *in, struct host *out)
{
    windows(&in[0], &out[0], 1, 3, 2);
    windows(&in[0], &out[1], in[0].rank - 1, 2, 1);
    windows(&in[0], &out[2], 1, 2, 3);
}

enum { KH = 2, KW = 3, SH = 2, SW = 1, PH = 1, PW = 2, DH = 2, DW = 1 };
#define COLUMNS KILN_UNFOLD(.kernel = {KH, KW}, .stride = {SH, SW}, .padding = {PH, PW}, .dilation = {DH, DW})

static void call_unfold(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_unfold(in[0], COLUMNS);
}

static void call_fold(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_fold(in[0], 5, 4, COLUMNS);
}

// Which element of an image [N,C,h,w] element i of the columns is; -1: none.
static int64_t source(int64_t i, int64_t rows, int64_t h, int64_t w)
{
    int64_t ow = (w + 2 * PW - DW * (KW - 1) - 1) / SW + 1, oh = (h + 2 * PH - DH * (KH - 1) - 1) / SH + 1;
    int64_t place = i % (oh * ow), row = i / (oh * ow) % rows, n = i / (oh * ow) / rows;
    int64_t tap = row % (KH * KW), c = row / (KH * KW);
    int64_t y = place / ow * SH - PH + tap / KW * DH, x = place % ow * SW - PW + tap % KW * DW;
    if (y < 0 || y >= h || x < 0 || x >= w) return -1;
    return ((n * (rows / (KH * KW)) + c) * h + y) * w + x;
}

static void expect_unfold(const struct host *in, struct host *out)
{
    const int64_t *d = in[0].dims;
    int64_t oh = (d[2] + 2 * PH - DH * (KH - 1) - 1) / SH + 1, ow = (d[3] + 2 * PW - DW * (KW - 1) - 1) / SW + 1;
    *out = host_new(in[0].dtype, 3, (int64_t[]){d[0], d[1] * KH * KW, oh * ow});
    for (int64_t i = 0; i < out->n; i++) {
        int64_t from = source(i, out->dims[1], d[2], d[3]);
        out->v[i] = from < 0 ? 0 : in[0].v[from];
    }
}

static void expect_fold(const struct host *in, struct host *out)
{
    *out = host_new(in[0].dtype, 4, (int64_t[]){in[0].dims[0], in[0].dims[1] / (KH * KW), 5, 4});
    for (int64_t i = 0; i < in[0].n; i++) {
        int64_t to = source(i, in[0].dims[1], 5, 4);
        if (to >= 0) out->v[to] += in[0].v[i];
    }
}

#define OF(op, note, inputs, dtypes, name, ...)                            \
    {                                                                      \
#op, note, inputs, dtypes, call_##name, expect_##name, __VA_ARGS__ \
    }
static const struct op_case pooling_cases[] = {
    OF(max_pool1d, "plain", "2x3x9", IN_NUMBERS, max1, .order = 1),
    OF(max_pool1d, "all options", "2x3x9", IN_NUMBERS, max1_all, .order = 1),
    OF(max_pool3d, "plain", "1x2x4x4x5", IN_NUMBERS, max3, .order = 1),
    OF(max_pool3d, "all options", "1x2x3x4x5", IN_NUMBERS, max3_all, .order = 1),
    OF(avg_pool1d, "over the end", "2x3x8", IN_FLOATS, avg1, .units = 8, .order = 2),
    OF(avg_pool1d, "without padding", "2x3x8", IN_FLOATS, avg1_inside, .units = 8, .order = 2),
    OF(avg_pool3d, "over the end", "1x2x3x4x5", IN_WIDE, avg3, .units = 16, .order = 2),
    OF(avg_pool3d, "halves", "1x2x3x4x5", IN_HALF, avg3, .units = 4096),
    OF(avg_pool3d, "without padding", "1x2x3x4x5", IN_WIDE, avg3_inside, .units = 16, .order = 2),
    OF(max_pool1d_with_indices, "all options", "2x3x9", IN_NUMBERS, places1, .n_out = 2, .order = 2),
    OF(max_pool2d_with_indices, "padded", "2x2x5x5", IN_NUMBERS, places2, .n_out = 2, .order = 2),
    OF(max_pool2d_with_indices, "whole", "2x2x4x6", IN_NUMBERS, places2_whole, .n_out = 2),
    OF(max_pool2d_with_indices, "many", "1x2x4x4", IN_NUMBERS, places2_many, .n_out = 2, .order = 1),
    OF(max_pool2d_with_indices, "NaN and infinity", "2x2x5x6", IN_FLOATS, spoiled, .n_out = 2),
    OF(max_pool3d_with_indices, "all options", "1x2x3x4x5", IN_NUMBERS, places3, .n_out = 2, .order = 1),
    OF(max_unpool1d, "padded", "1x2x4 i1x2x4<7", IN_WIDE, un1, .order = 0),
    OF(max_unpool2d, "of a size", "2x1x1x2 i2x1x1x2<30", IN_NUMBERS, un2, .order = 0),
    OF(max_unpool3d, "one each", "2x2x2x2x1 i2x2x2x2x1<1", IN_WIDE, un3, .order = 0),
    OF(adaptive_avg_pool1d, "uneven", "2x2x8", IN_FLOATS, part1, .units = 8, .order = 2),
    OF(adaptive_avg_pool2d, "uneven", "2x2x6x3", IN_FLOATS, part2, .units = 8, .order = 2),
    OF(adaptive_avg_pool2d, "even", "2x2x6x3", IN_FLOATS, part2_even, .units = 8, .order = 2),
    OF(adaptive_avg_pool2d, "whole", "2x2x6x3", IN_FLOATS, part2_whole, .units = 8, .order = 2),
    OF(adaptive_avg_pool3d, "whole", "1x2x3x3x5", IN_FLOATS, part3_whole, .units = 16, .order = 2),
    OF(adaptive_avg_pool3d, "uneven", "1x2x3x3x5", IN_FLOATS, part3, .units = 16, .order = 2),
    OF(adaptive_max_pool1d, "uneven", "2x2x8", IN_NUMBERS, most1, .order = 2),
    OF(adaptive_max_pool2d, "uneven", "2x2x6x3", IN_NUMBERS, most2, .order = 2),
    OF(adaptive_max_pool2d, "even", "2x2x6x3", IN_NUMBERS, most2_even, .order = 1),
    OF(adaptive_max_pool3d, "uneven", "1x2x3x3x5", IN_NUMBERS, most3, .order = 2),
    OF(global_avg_pool, "and the largest", "2x3x4x5", IN_FLOATS, global, .n_out = 2, .units = 8, .order = 1),
    OF(global_max_pool, "of volumes", "2x3x2x2x3", IN_FLOATS, global, .n_out = 2, .units = 8, .order = 1),
    OF(lp_pool1d, "third", "2x3x8", IN_FLOATS, norm1, .units = 64, .order = 2, .lo = 0.75, .hi = 2),
    OF(lp_pool1d, "of both signs", "2x3x8", IN_FLOATS, norm1, .units = 64, .order = 1),
    OF(lp_pool2d, "second", "1x2x4x7", IN_FLOATS, norm2, .units = 64, .order = 2),
    OF(lp_pool3d, "one and a half", "1x2x3x4x5", IN_FLOATS, norm3, .units = 64, .order = 2, .lo = 0.75, .hi = 2),
    OF(sliding_window, "overlapping", "2x7x3", IN_NUMBERS | IN_BOOL, windows, .n_out = 3, .order = 2),
    OF(unfold, "all options", "2x2x5x4", IN_NUMBERS, unfold, .order = 2),
    OF(fold, "all options", "2x12x18", IN_FLOATS, fold, .units = 16, .order = 2),
};
FAMILY_OF(pooling);
