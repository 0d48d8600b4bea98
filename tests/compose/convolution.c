// Convolutions in one to three dimensions as sums over volumes: what has fewer dimensions is a volume of depth, or
// height, 1.
#include "compose/volume.h"

struct conv {
    int64_t stride[3], padding[3], more[3], dilation[3], groups; // depth, height, width
    bool same;
};

// [n, c, d, h, w] of a tensor with the dimensions n, c and the last of these.
static void volumes(const struct host *t, int64_t *d)
{
    d[0] = t->dims[0], d[1] = t->dims[1];
    volume(t, d + 2);
}

static long double *element(const struct host *t, const int64_t *d, int64_t n, int64_t c, const int64_t *at)
{
    for (int i = 0; i < 3; i++)
        if (at[i] < 0 || at[i] >= d[2 + i]) return NULL;
    return &t->v[(((n * d[1] + c) * d[2] + at[0]) * d[3] + at[1]) * d[4] + at[2]];
}

static struct host result(const struct host *x, const struct host *w, int64_t n, int64_t c, const int64_t *sizes)
{
    int64_t dims[5] = {n, c};
    for (int i = 0; i < x->rank - 2; i++) dims[2 + i] = sizes[3 - (x->rank - 2) + i];
    return host_new(promoted(x->dtype, w->dtype), x->rank, dims);
}

static void forward(const struct host *in, struct host *out, const struct conv *o, bool bias)
{
    int64_t x[5], w[5], sizes[3], before[3];
    volumes(&in[0], x);
    volumes(&in[1], w);
    for (int i = 0; i < 3; i++) {
        int64_t reach = o->dilation[i] * (w[2 + i] - 1) + 1;
        before[i] = o->padding[i];
        sizes[i] = (x[2 + i] + 2 * o->padding[i] - reach) / o->stride[i] + 1;
        if (!o->same) continue;
        sizes[i] = (x[2 + i] + o->stride[i] - 1) / o->stride[i];
        int64_t total = (sizes[i] - 1) * o->stride[i] + reach - x[2 + i];
        before[i] = total > 0 ? total / 2 : 0;
    }
    *out = result(&in[0], &in[1], x[0], w[0], sizes);
    int64_t places = sizes[0] * sizes[1] * sizes[2], per_group = w[0] / o->groups;
    for (int64_t i = 0; i < x[0] * w[0]; i++) {
        int64_t n = i / w[0], co = i % w[0], at[3] = {0};
        for (int64_t p = 0; p < places; p++, next(at, sizes)) {
            long double sum = bias ? in[2].v[co] : 0;
            for (int64_t c = 0; c < w[1]; c++) {
                int64_t tap[3] = {0};
                for (int64_t k = 0; k < w[2] * w[3] * w[4]; k++, next(tap, w + 2)) {
                    int64_t from[3];
                    for (int a = 0; a < 3; a++) from[a] = at[a] * o->stride[a] - before[a] + tap[a] * o->dilation[a];
                    const long double *v = element(&in[0], x, n, co / per_group * w[1] + c, from);
                    if (v) sum += *v * *element(&in[1], w, co, c, tap);
                }
            }
            out->v[i * places + p] = sum;
        }
    }
}

static void transposed(const struct host *in, struct host *out, const struct conv *o, bool bias)
{
    int64_t x[5], w[5], sizes[3], y[5];
    volumes(&in[0], x);
    volumes(&in[1], w);
    for (int i = 0; i < 3; i++)
        y[2 + i] = sizes[i] =
            (x[2 + i] - 1) * o->stride[i] - 2 * o->padding[i] + o->dilation[i] * (w[2 + i] - 1) + o->more[i] + 1;
    y[0] = x[0], y[1] = w[1] * o->groups;
    *out = result(&in[0], &in[1], y[0], y[1], sizes);
    for (int64_t i = 0; bias && i < out->n; i++) out->v[i] = in[2].v[i / (sizes[0] * sizes[1] * sizes[2]) % y[1]];
    for (int64_t i = 0; i < x[0] * x[1]; i++) {
        int64_t n = i / x[1], c = i % x[1], at[3] = {0}, group = c / (x[1] / o->groups);
        for (int64_t p = 0; p < x[2] * x[3] * x[4]; p++, next(at, x + 2))
            for (int64_t co = 0; co < w[1]; co++) {
                int64_t tap[3] = {0}, to[3];
                for (int64_t k = 0; k < w[2] * w[3] * w[4]; k++, next(tap, w + 2)) {
                    for (int a = 0; a < 3; a++) to[a] = at[a] * o->stride[a] - o->padding[a] + tap[a] * o->dilation[a];
                    long double *v = element(out, y, n, group * w[1] + co, to);
                    if (v) *v += *element(&in[0], x, n, c, at) * *element(&in[1], w, c, co, tap);
                }
            }
    }
}

// --- the cases: name, bias, the options as Kiln and as the reference have them

#define CONV(op, kind, name, has_bias, options, ...)                   \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        kiln_tensor *b = has_bias ? in[2] : NULL;                      \
        out[0] = op(in[0], in[1], options);                            \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        kind(in, out, &(const struct conv){__VA_ARGS__}, has_bias);    \
    }
#define ONES    \
    {           \
        1, 1, 1 \
    }

CONV(kiln_conv1d, forward, line, false, KILN_CONV1D(.bias = b), ONES, .dilation = ONES, .groups = 1)
CONV(kiln_conv1d, forward, line_all, true,
     KILN_CONV1D(.bias = b, .stride = 2, .padding = 3, .dilation = 2, .groups = 2), {1, 1, 2}, {0, 0, 3},
     .dilation = {1, 1, 2}, .groups = 2)
CONV(kiln_conv1d, forward, line_same, true, KILN_CONV1D(.bias = b, .stride = 2, .same = true), {1, 1, 2},
     .dilation = ONES, .groups = 1, .same = true)
CONV(kiln_conv1d, forward, line_each, false, KILN_CONV1D(.bias = b, .padding = 1, .groups = 3), ONES, {0, 0, 1},
     .dilation = ONES, .groups = 3)
CONV(kiln_conv3d, forward, volume, false, KILN_CONV3D(.bias = b), ONES, .dilation = ONES, .groups = 1)
CONV(kiln_conv3d, forward, volume_all, true,
     KILN_CONV3D(.bias = b, .stride = {2, 1, 2}, .padding = {2, 0, 1}, .dilation = {2, 1, 1}, .groups = 2), {2, 1, 2},
     {2, 0, 1}, .dilation = {2, 1, 1}, .groups = 2)
CONV(kiln_conv3d, forward, volume_same, false, KILN_CONV3D(.bias = b, .stride = {2, 2, 1}, .same = true), {2, 2, 1},
     .dilation = ONES, .groups = 1, .same = true)
CONV(kiln_conv_transpose1d, transposed, line_back, false, KILN_CONV_TRANSPOSE1D(.bias = b), ONES, .dilation = ONES,
     .groups = 1)
CONV(kiln_conv_transpose1d, transposed, line_back_all, true,
     KILN_CONV_TRANSPOSE1D(.bias = b, .stride = 3, .padding = 2, .output_padding = 1, .dilation = 2, .groups = 2),
     {1, 1, 3}, {0, 0, 2}, {0, 0, 1}, {1, 1, 2}, 2)
CONV(kiln_conv_transpose2d, transposed, image_back, false, KILN_CONV_TRANSPOSE2D(.bias = b), ONES, .dilation = ONES,
     .groups = 1)
CONV(kiln_conv_transpose2d, transposed, image_back_all, true,
     KILN_CONV_TRANSPOSE2D(.bias = b, .stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}, .dilation = {1, 2},
                           .groups = 2),
     {1, 2, 3}, {0, 1, 0}, {0, 1, 2}, {1, 1, 2}, 2)
CONV(kiln_conv_transpose3d, transposed, volume_back, false, KILN_CONV_TRANSPOSE3D(.bias = b), ONES, .dilation = ONES,
     .groups = 1)
CONV(kiln_conv_transpose3d, transposed, volume_back_all, true,
     KILN_CONV_TRANSPOSE3D(.bias = b, .stride = {2, 2, 1}, .padding = {1, 1, 0}, .output_padding = {1, 0, 0},
                           .dilation = {2, 1, 1}, .groups = 2),
     {2, 2, 1}, {1, 1, 0}, {1, 0, 0}, {2, 1, 1}, 2)

#define OF(op, note, inputs, name)                                                        \
    {                                                                                     \
#op, note, inputs, IN_FLOATS, call_##name, expect_##name, .units = 32, .order = 2 \
    }
static const struct op_case convolution_cases[] = {
    OF(conv1d, "plain", "2x3x8 4x3x3", line),
    OF(conv1d, "all options", "2x4x9 6x2x3 6", line_all),
    OF(conv1d, "same", "2x3x7 2x3x4 2", line_same),
    OF(conv1d, "depthwise", "2x3x7 6x1x3", line_each),
    {"conv1d", "of none", "0x3x8 4x3x3", IN_WIDE, call_line, expect_line},
    OF(conv3d, "plain", "2x2x3x4x2 2x2x2x3x2", volume),
    OF(conv3d, "all options", "1x4x3x3x4 2x2x2x2x3 2", volume_all),
    OF(conv3d, "same", "1x2x3x3x4 2x2x2x2x3", volume_same),
    OF(conv_transpose1d, "plain", "2x3x5 3x2x3", line_back),
    OF(conv_transpose1d, "all options", "2x4x4 4x3x3 6", line_back_all),
    OF(conv_transpose2d, "plain", "2x3x4x3 3x2x2x3", image_back),
    OF(conv_transpose2d, "all options", "2x4x3x3 4x2x3x2 4", image_back_all),
    OF(conv_transpose3d, "plain", "1x2x3x2x3 2x3x2x3x2", volume_back),
    OF(conv_transpose3d, "all options", "2x2x3x2x2 2x2x2x3x2 4", volume_back_all),
};
FAMILY_OF(convolution);
