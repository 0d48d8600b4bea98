// Integers that stand for floats, and back.
#include "compose/case.h"
#include <string.h>

static void call_quantize(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_quantize(in[0], in[1], KILN_I8, NULL);
}

static void call_quantize_axis(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_quantize(in[0], kiln_add(kiln_abs(in[1]), kiln_scalar(0.25)), KILN_U8,
                           KILN_QUANTIZE(.zero = kiln_cast(in[2], KILN_U8), .axis = 0));
}

static void call_quantize_4(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_quantize(in[0], in[1], KILN_I8, KILN_QUANTIZE(.bits = 4));
}

static long double limited(long double v, long double low, long double high)
{
    return v < low ? low : v > high ? high : v;
}

// As floats of the dtype: x / scale is rounded before it becomes an integer.
static long double whole(int dtype, long double x, long double scale)
{
    return rintl(quantized(dtype, x / scale));
}

static void quantize(const struct host *in, struct host *out, long double low, long double high)
{
    *out = host_new(KILN_I8, in[0].rank, in[0].dims);
    for (int64_t i = 0; i < out->n; i++) out->v[i] = limited(whole(in[0].dtype, in[0].v[i], in[1].v[0]), low, high);
}

static void expect_quantize(const struct host *in, struct host *out)
{
    quantize(in, out, -128, 127);
}

static void expect_quantize_4(const struct host *in, struct host *out)
{
    quantize(in, out, -8, 7);
}

static void expect_quantize_axis(const struct host *in, struct host *out)
{
    int64_t row = in[0].n / in[0].dims[0];
    *out = host_new(KILN_U8, in[0].rank, in[0].dims);
    for (int64_t i = 0; i < out->n; i++) {
        int dtype = in[0].dtype;
        long double scale = quantized(dtype, fabsl(in[1].v[i / row]) + 0.25L);
        out->v[i] = limited(whole(dtype, in[0].v[i], scale) + in[2].v[i / row], 0, 255);
    }
}

static void call_dequantize(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] =
        kiln_dequantize(kiln_cast(in[0], KILN_U8), in[1], KILN_QUANTIZE(.zero = kiln_cast(in[2], KILN_U8), .axis = -1));
}

static void expect_dequantize(const struct host *in, struct host *out)
{
    int64_t last = in[0].dims[in[0].rank - 1];
    *out = host_new(in[1].dtype, in[0].rank, in[0].dims);
    for (int64_t i = 0; i < out->n; i++) out->v[i] = (in[0].v[i] - in[2].v[i % last]) * in[1].v[i % last];
}

static void call_dequantize_one(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_dequantize(in[0], in[1], NULL);
}

static void expect_dequantize_one(const struct host *in, struct host *out)
{
    *out = host_new(in[1].dtype, in[0].rank, in[0].dims);
    for (int64_t i = 0; i < out->n; i++) out->v[i] = in[0].v[i] * in[1].v[0];
}

static void call_product(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *a_zero = kiln_cast(in[2], KILN_U8), *b_zero = kiln_cast(in[3], KILN_I8);
    out[0] = kiln_matmul_integer(kiln_cast(in[0], KILN_U8), kiln_cast(in[1], KILN_I8),
                                 KILN_MATMUL_INTEGER(.a_zero = a_zero, .b_zero = b_zero));
}

static void call_product_plain(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_matmul_integer(kiln_cast(in[0], KILN_I8), kiln_cast(in[1], KILN_I8), NULL);
}

// a [..., M, K], b [K, N], with a zero for each row and each column where there are some.
static void product(const struct host *in, struct host *out, const struct host *a_zero, const struct host *b_zero)
{
    int rank = in[0].rank;
    int64_t dims[KILN_MAX_RANK], k = in[0].dims[rank - 1], n = in[1].dims[1], rows = k ? in[0].n / k : 0;
    memcpy(dims, in[0].dims, sizeof dims[0] * (size_t)rank);
    dims[rank - 1] = n;
    *out = host_new(KILN_I32, rank, dims);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            long double a0 = a_zero ? a_zero->v[a_zero->n == 1 ? 0 : i % in[0].dims[rank - 2]] : 0;
            long double b0 = b_zero ? b_zero->v[j] : 0, sum = 0;
            for (int64_t l = 0; l < k; l++) sum += (in[0].v[i * k + l] - a0) * (in[1].v[l * n + j] - b0);
            out->v[i * n + j] = sum;
        }
}

static void expect_product(const struct host *in, struct host *out)
{
    product(in, out, &in[2], &in[3]);
}

static void expect_product_plain(const struct host *in, struct host *out)
{
    product(in, out, NULL, NULL);
}

static const struct op_case quantize_cases[] = {
    {"matmul_integer", "zeros along rows and columns", "i3x40<256 n40x5<128 i3<256 n5<128", IN_F32, call_product,
     expect_product},
    {"matmul_integer", "one zero", "i2x3x4<256 n4x5<128 i1<256 n5<128", IN_F32, call_product, expect_product},
    {"matmul_integer", "without zeros", "n3x300<128 n300x2<128", IN_F32, call_product_plain, expect_product_plain},
    {"matmul_integer", "nothing to add", "n3x0<128 n0x2<128", IN_F32, call_product_plain, expect_product_plain},
    {"quantize", "one scale", "3x4 -", IN_WIDE, call_quantize, expect_quantize, .lo = 0.05, .hi = 3},
    {"quantize", "along an axis", "3x4 3 i3<200", IN_WIDE, call_quantize_axis, expect_quantize_axis, .lo = -90,
     .hi = 90},
    {"quantize", "4 bits", "5 -", IN_WIDE, call_quantize_4, expect_quantize_4, .lo = 0.05, .hi = 3},
    {"dequantize", "along an axis", "i2x3<256 3 i3<256", IN_WIDE, call_dequantize, expect_dequantize, .units = 1,
     .order = 2},
    {"dequantize", "one scale", "n2x3<100 -", IN_WIDE, call_dequantize_one, expect_dequantize_one, .units = 1,
     .order = 2},
};
FAMILY_OF(quantize);
