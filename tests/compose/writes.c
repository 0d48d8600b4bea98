// Copies of a tensor with others written into them.
#include "compose/case.h"
#include <kiln/kiln.h>

#define CALL(name, ...)                                                \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        out[0] = __VA_ARGS__;                                          \
    }

// What becomes of the places of x along axis 1 by index and src of one shape.
static void reduce(const struct host *in, struct host *out, int64_t how, bool self)
{
    const struct host *x = &in[0], *index = &in[1], *src = &in[2];
    int64_t rows = index->dims[0], cols = index->dims[1], width = x->dims[1];
    out[0] = host_copy(x);
    for (int64_t i = 0; i < x->n; i++) {
        long double v = x->v[i];
        int64_t n = self, row = i / width;
        for (int64_t k = 0; row < rows && k < cols; k++) {
            int64_t to = (int64_t)index->v[row * cols + k];
            if ((to < 0 ? to + width : to) != i % width) continue;
            long double s = src->v[src->rank ? row * cols + k : 0];
            bool first = n++ == 0;
            if (first)
                v = s;
            else if (how == KILN_SCATTER_PROD)
                v *= s;
            else if (how == KILN_SCATTER_MAX)
                v = isnan(v) || v >= s ? v : s;
            else if (how == KILN_SCATTER_MIN)
                v = isnan(v) || v <= s ? v : s;
            else
                v += s;
        }
        if (how == KILN_SCATTER_MEAN && n) v = is_float(x->dtype) ? v / n : floorl(v / n);
        out[0].v[i] = v;
    }
    for (int64_t i = 0; i < out[0].n; i++) out[0].v[i] = quantized(out[0].dtype, out[0].v[i]);
}
#define REDUCES(name, how, self, expr)                                 \
    CALL(name, expr)                                                   \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        reduce(in, out, how, self);                                    \
    }
#define SCATTERS(name, how, self) REDUCES(name, how, self, kiln_scatter_reduce(in[0], 1, in[1], in[2], how, self))
SCATTERS(sum, KILN_SCATTER_SUM, true)
SCATTERS(sum_without, KILN_SCATTER_SUM, false)
SCATTERS(prod, KILN_SCATTER_PROD, true)
SCATTERS(prod_without, KILN_SCATTER_PROD, false)
SCATTERS(mean, KILN_SCATTER_MEAN, true)
SCATTERS(mean_without, KILN_SCATTER_MEAN, false)
SCATTERS(max, KILN_SCATTER_MAX, true)
SCATTERS(max_without, KILN_SCATTER_MAX, false)
SCATTERS(min, KILN_SCATTER_MIN, true)
SCATTERS(min_without, KILN_SCATTER_MIN, false)
REDUCES(scatter_mul, KILN_SCATTER_PROD, true, kiln_scatter_mul(in[0], 1, in[1], in[2]))
REDUCES(scatter_max, KILN_SCATTER_MAX, true, kiln_scatter_max(in[0], 1, in[1], in[2]))
REDUCES(scatter_min, KILN_SCATTER_MIN, true, kiln_scatter_min(in[0], 1, in[1], in[2]))

CALL(index_copy, kiln_index_copy(in[0], 1, in[1], in[2]))
static void expect_index_copy(const struct host *in, struct host *out)
{
    int64_t w = in[0].dims[1], n = in[1].n;
    out[0] = host_copy(&in[0]);
    for (int64_t i = 0; i < in[0].dims[0]; i++)
        for (int64_t k = 0; k < n; k++) {
            int64_t to = (int64_t)in[1].v[k];
            out[0].v[i * w + (to < 0 ? to + w : to)] = in[2].v[i * n + k];
        }
}
CALL(index_fill, kiln_index_fill(in[0], 1, in[1], 3))
static void expect_index_fill(const struct host *in, struct host *out)
{
    int64_t w = in[0].dims[1];
    out[0] = host_copy(&in[0]);
    for (int64_t i = 0; i < in[0].dims[0]; i++)
        for (int64_t k = 0; k < in[1].n; k++) {
            int64_t to = (int64_t)in[1].v[k];
            out[0].v[i * w + (to < 0 ? to + w : to)] = quantized(in[0].dtype, 3);
        }
}
CALL(take_flat, kiln_take_flat(in[0], in[1]))
static void expect_take_flat(const struct host *in, struct host *out)
{
    out[0] = host_new(in[0].dtype, in[1].rank, in[1].dims);
    for (int64_t i = 0; i < out[0].n; i++) {
        int64_t from = (int64_t)in[1].v[i];
        out[0].v[i] = in[0].v[from < 0 ? from + in[0].n : from];
    }
}
CALL(put, kiln_put(in[0], in[1], in[2], false))
CALL(put_add, kiln_put(in[0], in[1], in[2], true))
static void put(const struct host *in, struct host *out, bool add)
{
    out[0] = host_copy(&in[0]);
    for (int64_t i = 0; i < in[1].n; i++) {
        int64_t to = (int64_t)in[1].v[i];
        long double *v = &out[0].v[to < 0 ? to + in[0].n : to];
        *v = (add ? *v : 0) + in[2].v[host_at(&in[2], in[1].rank, in[1].dims, i)];
    }
    for (int64_t i = 0; i < out[0].n; i++) out[0].v[i] = quantized(out[0].dtype, out[0].v[i]);
}
static void expect_put(const struct host *in, struct host *out)
{
    put(in, out, false);
}
static void expect_put_add(const struct host *in, struct host *out)
{
    put(in, out, true);
}
CALL(masked_scatter, kiln_masked_scatter(in[0], in[1], in[2]))
static void expect_masked_scatter(const struct host *in, struct host *out)
{
    int64_t n = 0;
    out[0] = host_copy(&in[0]);
    for (int64_t i = 0; i < in[0].n; i++)
        if (in[1].v[host_at(&in[1], in[0].rank, in[0].dims, i)] != 0) out[0].v[i] = in[2].v[n++];
}

// Into elements [at + i * step] of x in row-major order.
static void into(const struct host *in, struct host *out, int64_t (*to)(int64_t i, const struct host *in))
{
    out[0] = host_copy(&in[0]);
    for (int64_t i = 0; i < in[1].n; i++) out[0].v[to(i, in)] = in[1].v[i];
}
#define INTO(name, place, expr)                                        \
    CALL(name, expr)                                                   \
    static int64_t to_##name(int64_t i, const struct host *in)         \
    {                                                                  \
        (void)in;                                                      \
        return place;                                                  \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        into(in, out, to_##name);                                      \
    }
INTO(select_scatter, i *in[0].dims[1] + 2, kiln_select_scatter(in[0], in[1], 1, -2))
INTO(slice_scatter, i / 2 * in[0].dims[1] + 1 + i % 2 * 2, kiln_slice_scatter(in[0], in[1], 1, 1, KILN_END, 2))
INTO(diagonal_scatter, (i + 1) * in[0].dims[1] + i, kiln_diagonal_scatter(in[0], in[1], -1, 0, 1))

enum { ALL = IN_NUMBERS | IN_BOOL };
#define IS(name) call_##name, expect_##name
#define SCATTER_CASE(name, note)                                                                \
    {                                                                                           \
        "scatter_reduce", note, "3x4 n2x5<4 2x5", IN_NUMBERS, IS(name), .units = 16, .order = 2 \
    }

static const struct op_case writes_cases[] = {
    SCATTER_CASE(sum, "sum"),
    SCATTER_CASE(sum_without, "sum without x"),
    SCATTER_CASE(prod, "prod"),
    SCATTER_CASE(prod_without, "prod without x"),
    SCATTER_CASE(mean, "mean"),
    SCATTER_CASE(mean_without, "mean without x"),
    SCATTER_CASE(max, "max"),
    SCATTER_CASE(max_without, "max without x"),
    SCATTER_CASE(min, "min"),
    SCATTER_CASE(min_without, "min without x"),
    {"scatter_mul", "row", "3x4 n2x5<4 2x5", IN_NUMBERS, IS(scatter_mul), .units = 16, .order = 2},
    {"scatter_max", "row", "3x4 n2x5<4 2x5", IN_NUMBERS, IS(scatter_max), .order = 2},
    {"scatter_min", "row", "3x4 n2x5<4 2x5", IN_NUMBERS, IS(scatter_min), .order = 2},
    {"scatter_max", "a long line", "1x7 n1x700<7 1x700", IN_NUMBERS, IS(scatter_max)},
    {"scatter_mul", "a long line", "1x7 n1x70<7 1x70", IN_WIDE, IS(scatter_mul), .units = 64, .lo = 0.8, .hi = 1.25},
    {"index_copy", "columns", "3x4 n2<4 3x2", ALL, IS(index_copy), .order = 2},
    {"index_fill", "columns", "3x4 n2<4", ALL, IS(index_fill), .order = 2},
    {"take_flat", "matrix", "3x4 n2x3<12", ALL, IS(take_flat), .order = 2},
    {"put", "matrix", "3x4 n2x3<12 3", ALL, IS(put), .order = 2},
    {"put", "added", "3x4 n2x3<12 2x3", IN_NUMBERS, IS(put_add), .units = 8, .order = 2},
    {"masked_scatter", "matrix", "3x4 b4 12", ALL, IS(masked_scatter), .order = 2},
    {"select_scatter", "column", "3x4 3", ALL, IS(select_scatter), .order = 2},
    {"slice_scatter", "columns", "3x4 3x2", ALL, IS(slice_scatter), .order = 2},
    {"diagonal_scatter", "below", "4x4 3", ALL, IS(diagonal_scatter), .order = 2},
};
FAMILY_OF(writes);
