// Outer products, traces, scaled sums of products.
#include "compose/case.h"

static void call_outer(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_outer(in[0], in[1]);
}

static void expect_outer(const struct host *in, struct host *out)
{
    int64_t dims[] = {in[0].n, in[1].n};
    out[0] = host_new(promoted(in[0].dtype, in[1].dtype), 2, dims);
    for (int64_t i = 0; i < in[0].n; i++)
        for (int64_t k = 0; k < in[1].n; k++) out[0].v[i * in[1].n + k] = in[0].v[i] * in[1].v[k];
}

static void call_trace(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_trace(in[0], 0);
}

static void call_trace_above(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_trace(in[0], 1);
}

static void trace(const struct host *x, struct host *out, int64_t offset)
{
    int64_t rows = x->dims[x->rank - 2], cols = x->dims[x->rank - 1];
    *out = host_new(is_float(x->dtype) ? x->dtype : KILN_I64, x->rank - 2, x->dims);
    for (int64_t m = 0; m < out->n; m++)
        for (int64_t i = 0; i < rows; i++)
            if (i + offset < cols) out->v[m] += x->v[(m * rows + i) * cols + i + offset];
}

static void expect_trace(const struct host *in, struct host *out)
{
    trace(&in[0], out, 0);
}

static void expect_trace_above(const struct host *in, struct host *out)
{
    trace(&in[0], out, 1);
}

static void call_addmm(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_addmm(in[0], in[1], in[2], KILN_ADDMM(.alpha = 0.5, .beta = 2));
}

static void call_addmm_alone(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_addmm(in[0], in[1], in[2], KILN_ADDMM(.beta = KILN_ZERO));
}

static void addmm(const struct host *in, struct host *out, long double alpha, long double beta)
{
    *out = reference_matmul(&in[1], &in[2], in[0].dtype, NULL);
    for (int64_t i = 0; i < out->n; i++)
        out->v[i] = alpha * out->v[i] + beta * in[0].v[host_at(&in[0], out->rank, out->dims, i)];
}

static void expect_addmm(const struct host *in, struct host *out)
{
    addmm(in, out, 0.5, 2);
}

static void expect_addmm_alone(const struct host *in, struct host *out)
{
    addmm(in, out, 1, 0);
}

static const struct op_case products_cases[] = {
    {"outer", "vectors", "3 4", IN_NUMBERS, call_outer, expect_outer, .units = 1, .order = 2},
    {"outer", "matrices", "2x3 2x2", IN_FLOATS, call_outer, expect_outer, .units = 1, .order = 2},
    {"outer", "none", "0 3", IN_FLOATS, call_outer, expect_outer, .units = 1},
    {"trace", "square", "4x4", IN_NUMBERS, call_trace, expect_trace, .units = 4, .order = 2},
    {"trace", "wide", "2x3x5", IN_NUMBERS, call_trace_above, expect_trace_above, .units = 4, .order = 2},
    {"trace", "tall", "5x2", IN_FLOATS, call_trace_above, expect_trace_above, .units = 4, .order = 2},
    {"addmm", "scaled", "4 3x5 5x4", IN_FLOATS, call_addmm, expect_addmm, .units = 16, .order = 2},
    {"addmm", "alone", "3x4 3x5 5x4", IN_FLOATS, call_addmm_alone, expect_addmm_alone, .units = 16},
    {"addmm", "batched", "2x1x4 2x3x5 5x4", IN_WIDE, call_addmm, expect_addmm, .units = 16, .order = 2},
};
FAMILY_OF(products);
