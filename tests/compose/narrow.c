// Floats of 8 bits and integers of 4: what each code means, and the code nearest to a number, found among all of them.
#include "compose/case.h"
#include <math.h>

struct format {
    int digits, bias, largest, infinity; // infinity: 0: none
    const char *name;
};
static const struct format e4m3fn = {3, 7, 0x7e, 0, "e4m3fn"}, e5m2 = {2, 15, 0x7b, 0x7c, "e5m2"};

static long double meaning(const struct format *f, int code)
{
    int size = code & 0x7f, exponent = size >> f->digits, rest = size & ((1 << f->digits) - 1);
    long double v =
        exponent ? ldexpl(1 + ldexpl(rest, -f->digits), exponent - f->bias) : ldexpl(rest, 1 - f->bias - f->digits);
    if (size > f->largest) v = size == f->infinity ? INFINITY : NAN;
    return code & 0x80 ? -v : v;
}

static int nearest(const struct format *f, long double v)
{
    int best = 0, sign = signbit(v) ? 0x80 : 0;
    if (isnan(v)) return 0x7f | sign;
    for (int code = 1; code <= f->largest; code++) {
        long double now = fabsl(fabsl(v) - meaning(f, code)), before = fabsl(fabsl(v) - meaning(f, best));
        if (now < before || (now == before && code % 2 == 0)) best = code;
    }
    return (isinf(v) ? f->largest : best) | sign;
}

// --- from_float8: every byte

static kiln_tensor *all_codes(kiln_tensor *like, int n)
{
    return kiln_arange(kiln_tensor_device(like), KILN_U8, 0, n, 1);
}

static kiln_tensor *read_as(kiln_tensor *codes, kiln_dtype dtype, const struct format *f)
{
    return kiln_from_float8(codes, dtype, KILN_FLOAT8(.format = f->name));
}

static void expect_codes(const struct host *in, struct host *out, const struct format *f)
{
    int64_t dims[] = {256};
    *out = host_new(in[0].dtype, 1, dims);
    for (int code = 0; code < 256; code++) out->v[code] = meaning(f, code);
}

static void call_from_e4m3fn(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_from_float8(all_codes(in[0], 256), kiln_tensor_dtype(in[0]), NULL);
}

static void expect_from_e4m3fn(const struct host *in, struct host *out)
{
    expect_codes(in, out, &e4m3fn);
}

// By way of f16, which holds them all.
static void call_from_e5m2(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_cast(read_as(all_codes(in[0], 256), KILN_F16, &e5m2), kiln_tensor_dtype(in[0]));
}

static void expect_from_e5m2(const struct host *in, struct host *out)
{
    expect_codes(in, out, &e5m2);
}

// --- to_float8

static void expect_nearest(const struct host *in, struct host *out, const struct format *f)
{
    *out = host_new(KILN_U8, in[0].rank, in[0].dims);
    for (int64_t i = 0; i < out->n; i++) out->v[i] = nearest(f, in[0].v[i]);
}

static void call_to_e4m3fn(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_to_float8(in[0], NULL);
}

static void expect_to_e4m3fn(const struct host *in, struct host *out)
{
    expect_nearest(in, out, &e4m3fn);
}

static void call_to_e5m2(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_to_float8(in[0], KILN_FLOAT8(.format = e5m2.name));
}

static void expect_to_e5m2(const struct host *in, struct host *out)
{
    expect_nearest(in, out, &e5m2);
}

// Every number, infinities and NaN, and what lies in the middle between two numbers.
static void call_again(kiln_tensor *in, const struct format *f, kiln_tensor **out)
{
    kiln_dtype dtype = kiln_tensor_dtype(in);
    kiln_tensor *v = read_as(all_codes(in, 256), dtype, f), *low = kiln_narrow(v, 0, 0, f->largest);
    kiln_tensor *middles = kiln_mul(kiln_add(low, kiln_narrow(v, 0, 1, f->largest)), kiln_scalar(0.5));
    out[0] = kiln_to_float8(v, KILN_FLOAT8(.format = f->name));
    out[1] = kiln_to_float8(middles, KILN_FLOAT8(.format = f->name));
}

static void expect_again(struct host *out, const struct format *f)
{
    int64_t dims[] = {256, f->largest};
    out[0] = host_new(KILN_U8, 1, dims);
    out[1] = host_new(KILN_U8, 1, dims + 1);
    for (int code = 0; code < 256; code++) {
        int size = code & 0x7f, kept = size <= f->largest ? size : size == f->infinity ? f->largest : 0x7f;
        out[0].v[code] = (code & 0x80) | kept;
    }
    for (int code = 0; code < f->largest; code++) out[1].v[code] = code % 2 ? code + 1 : code;
}

static void call_again_e4m3fn(kiln_tensor *const *in, kiln_tensor **out)
{
    call_again(in[0], &e4m3fn, out);
}

static void expect_again_e4m3fn(const struct host *in, struct host *out)
{
    expect_again(out, &e4m3fn);
}

static void call_again_e5m2(kiln_tensor *const *in, kiln_tensor **out)
{
    call_again(in[0], &e5m2, out);
}

static void expect_again_e5m2(const struct host *in, struct host *out)
{
    expect_again(out, &e5m2);
}

// --- integers of 4 bits

static void call_pack(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_pack_int4(kiln_cast(in[0], KILN_I8));
    out[1] = kiln_unpack_int4(out[0], KILN_I8);
    out[2] = kiln_unpack_int4(out[0], KILN_U8);
}

static void expect_pack(const struct host *in, struct host *out)
{
    int rank = in[0].rank;
    int64_t half[KILN_MAX_RANK];
    for (int i = 0; i < rank; i++) half[i] = in[0].dims[i] / (i == rank - 1 ? 2 : 1);
    out[0] = host_new(KILN_U8, rank, half);
    out[1] = host_new(KILN_I8, rank, in[0].dims);
    out[2] = host_new(KILN_U8, rank, in[0].dims);
    for (int64_t i = 0; i < in[0].n; i++) {
        int bits = (int)in[0].v[i] & 15;
        out[0].v[i / 2] += i % 2 ? 16 * bits : bits;
        out[1].v[i] = bits < 8 ? bits : bits - 16;
        out[2].v[i] = bits;
    }
}

static const struct op_case narrow_cases[] = {
    {"from_float8", "e4m3fn, every byte", "1", IN_FLOATS, call_from_e4m3fn, expect_from_e4m3fn},
    {"from_float8", "e5m2, every byte", "1", IN_WIDE, call_from_e5m2, expect_from_e5m2},
    {"to_float8", "e4m3fn", "4x80", IN_FLOATS, call_to_e4m3fn, expect_to_e4m3fn, .lo = -500, .hi = 500},
    {"to_float8", "e4m3fn, steps", "200", IN_FLOATS, call_to_e4m3fn, expect_to_e4m3fn, .lo = -0.03, .hi = 0.03},
    {"to_float8", "e5m2", "200", IN_FLOATS, call_to_e5m2, expect_to_e5m2, .lo = -65000, .hi = 65000},
    {"to_float8", "e5m2, steps", "200", IN_WIDE, call_to_e5m2, expect_to_e5m2, .lo = -0.0003, .hi = 0.0003},
    {"to_float8", "e4m3fn, back and between", "1", IN_FLOATS, call_again_e4m3fn, expect_again_e4m3fn, .n_out = 2},
    {"to_float8", "e5m2, back and between", "1", IN_WIDE, call_again_e5m2, expect_again_e5m2, .n_out = 2},
    {"pack_int4", "and back", "n3x2x6<30", IN_F32, call_pack, expect_pack, .n_out = 3},
    {"unpack_int4", "of nothing", "n3x0<30", IN_F32, call_pack, expect_pack, .n_out = 3},
};
FAMILY_OF(narrow);
