// Sums of products over axes, Kronecker and vector products.
#include "compose/case.h"

// Over the last n axes of a and the first n of b.
static void contracted(const struct host *a, const struct host *b, int n, struct host *out)
{
    int64_t dims[HOST_MAX_RANK], summed = 1;
    int rank = 0;
    for (int d = 0; d < a->rank - n; d++) dims[rank++] = a->dims[d];
    for (int d = n; d < b->rank; d++) dims[rank++] = b->dims[d];
    for (int d = 0; d < n; d++) summed *= b->dims[d];
    *out = host_new(promoted(a->dtype, b->dtype), rank, dims);
    int64_t cols = summed ? b->n / summed : 0;
    for (int64_t i = 0; i < out->n; i++)
        for (int64_t k = 0; k < summed; k++) out->v[i] += a->v[i / cols * summed + k] * b->v[k * cols + i % cols];
}

static void call_tensordot(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_tensordot(in[0], in[1], KILN_AXES(1, 2), KILN_AXES(0, -2));
}

static void expect_tensordot(const struct host *in, struct host *out)
{
    contracted(&in[0], &in[1], 2, out);
}

static void call_tensordot_none(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_tensordot(in[0], in[1], KILN_AXES0, KILN_AXES0);
}

static void expect_tensordot_none(const struct host *in, struct host *out)
{
    contracted(&in[0], &in[1], 0, out);
}

static void call_tensordot_crossed(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_tensordot(in[0], in[1], KILN_AXES(0, 2), KILN_AXES(1, 0));
}

// a [2,3,4], b [4,2,5]
static void expect_tensordot_crossed(const struct host *in, struct host *out)
{
    int64_t dims[] = {3, 5};
    out[0] = host_new(promoted(in[0].dtype, in[1].dtype), 2, dims);
    for (int64_t p = 0; p < 15; p++)
        for (int64_t i = 0; i < 2; i++)
            for (int64_t k = 0; k < 4; k++)
                out[0].v[p] += host_get(&in[0], (int64_t[]){i, p / 5, k}) * host_get(&in[1], (int64_t[]){k, i, p % 5});
}

static void call_dot(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_dot(in[0], in[1]);
}

static void expect_dot(const struct host *in, struct host *out)
{
    contracted(&in[0], &in[1], in[0].rank && in[1].rank ? 1 : 0, out);
}

// a [2,3], b [2,3,4]
static void expect_dot_deep(const struct host *in, struct host *out)
{
    int64_t dims[] = {2, 2, 4};
    out[0] = host_new(promoted(in[0].dtype, in[1].dtype), 3, dims);
    for (int64_t p = 0; p < 16; p++)
        for (int64_t k = 0; k < 3; k++)
            out[0].v[p] += host_get(&in[0], (int64_t[]){p / 8, k}) * host_get(&in[1], (int64_t[]){p / 4 % 2, k, p % 4});
}

static void call_inner(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_inner(in[0], in[1]);
}

static void expect_inner(const struct host *in, struct host *out)
{
    int64_t dims[HOST_MAX_RANK], n = in[1].dims[in[1].rank - 1];
    int rank = 0;
    for (int d = 0; d + 1 < in[0].rank; d++) dims[rank++] = in[0].dims[d];
    for (int d = 0; d + 1 < in[1].rank; d++) dims[rank++] = in[1].dims[d];
    out[0] = host_new(promoted(in[0].dtype, in[1].dtype), rank, dims);
    int64_t cols = in[1].n / n;
    for (int64_t i = 0; i < out[0].n; i++)
        for (int64_t k = 0; k < n; k++) out[0].v[i] += in[0].v[i / cols * n + k] * in[1].v[i % cols * n + k];
}

static void call_vecdot(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_vecdot(in[0], in[1], -1);
}

// a [2,1,4], b [3,4]
static void expect_vecdot(const struct host *in, struct host *out)
{
    int64_t dims[] = {2, 3};
    out[0] = host_new(promoted(in[0].dtype, in[1].dtype), 2, dims);
    for (int64_t p = 0; p < 6; p++)
        for (int64_t k = 0; k < 4; k++) out[0].v[p] += in[0].v[p / 3 * 4 + k] * in[1].v[p % 3 * 4 + k];
}

static void call_vecdot_middle(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_vecdot(in[0], in[1], -2);
}

// a [2,4,3], b [4,3]
static void expect_vecdot_middle(const struct host *in, struct host *out)
{
    int64_t dims[] = {2, 3};
    out[0] = host_new(promoted(in[0].dtype, in[1].dtype), 2, dims);
    for (int64_t p = 0; p < 6; p++)
        for (int64_t k = 0; k < 4; k++) out[0].v[p] += in[0].v[(p / 3 * 4 + k) * 3 + p % 3] * in[1].v[k * 3 + p % 3];
}

static void call_kron(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_kron(in[0], in[1]);
}

// Matrices, or a vector by a matrix.
static void expect_kron(const struct host *in, struct host *out)
{
    int64_t rows = in[0].rank == 2 ? in[0].dims[0] : 1, cols = in[0].dims[in[0].rank - 1];
    int64_t p = in[1].dims[0], q = in[1].dims[1], dims[] = {rows * p, cols * q};
    out[0] = host_new(promoted(in[0].dtype, in[1].dtype), 2, dims);
    for (int64_t i = 0; i < dims[0]; i++)
        for (int64_t j = 0; j < dims[1]; j++)
            out[0].v[i * dims[1] + j] = in[0].v[i / p * cols + j / q] * in[1].v[i % p * q + j % q];
}

static void call_cross(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_cross(in[0], in[1], -1);
}

// a [2,3], b [3]
static void expect_cross(const struct host *in, struct host *out)
{
    out[0] = host_new(promoted(in[0].dtype, in[1].dtype), 2, in[0].dims);
    for (int64_t r = 0; r < in[0].dims[0]; r++) {
        const long double *a = in[0].v + 3 * r, *b = in[1].v;
        out[0].v[3 * r] = a[1] * b[2] - a[2] * b[1];
        out[0].v[3 * r + 1] = a[2] * b[0] - a[0] * b[2];
        out[0].v[3 * r + 2] = a[0] * b[1] - a[1] * b[0];
    }
    for (int64_t i = 0; i < out[0].n && !is_float(out[0].dtype); i++)
        out[0].v[i] = (long double)wrapped(out[0].dtype, (int64_t)out[0].v[i]);
}

static const struct op_case contract_cases[] = {
    {"tensordot", "two axes", "2x3x4 3x4x2", IN_NUMBERS, call_tensordot, expect_tensordot, .units = 32, .order = 2},
    {"tensordot", "no axes", "2x3 2", IN_WIDE, call_tensordot_none, expect_tensordot_none, .units = 2, .order = 2},
    {"tensordot", "crossed", "2x3x4 4x2x5", IN_WIDE, call_tensordot_crossed, expect_tensordot_crossed, .units = 32,
     .order = 2},
    {"tensordot", "empty sum", "2x0x4 0x4x3", IN_WIDE, call_tensordot, expect_tensordot, .units = 1},
    {"dot", "vectors", "5 5", IN_NUMBERS, call_dot, expect_dot, .units = 16, .order = 2},
    {"dot", "matrix, vector", "3x5 5", IN_WIDE, call_dot, expect_dot, .units = 16, .order = 2},
    {"dot", "a scalar", "- 3x2", IN_WIDE, call_dot, expect_dot, .units = 2, .order = 2},
    {"dot", "deep", "2x3 2x3x4", IN_FLOATS, call_dot, expect_dot_deep, .units = 16, .order = 2},
    {"inner", "matrices", "2x4 3x4", IN_NUMBERS, call_inner, expect_inner, .units = 16, .order = 2},
    {"inner", "deep", "2x2x3 3", IN_WIDE, call_inner, expect_inner, .units = 16, .order = 2},
    {"vecdot", "broadcast", "2x1x4 3x4", IN_NUMBERS, call_vecdot, expect_vecdot, .units = 16, .order = 2},
    {"vecdot", "middle", "2x4x3 4x3", IN_FLOATS, call_vecdot_middle, expect_vecdot_middle, .units = 16, .order = 2},
    {"kron", "matrices", "2x3 3x2", IN_NUMBERS, call_kron, expect_kron, .units = 1, .order = 2},
    {"kron", "vector, matrix", "3 2x2", IN_WIDE, call_kron, expect_kron, .units = 1, .order = 2},
    {"kron", "empty", "0x3 2x2", IN_WIDE, call_kron, expect_kron, .units = 1},
    {"cross", "broadcast", "2x3 3", IN_WIDE | IN_INTEGERS, call_cross, expect_cross, .units = 8, .order = 2},
};
FAMILY_OF(contract);
