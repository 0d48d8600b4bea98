// The scalar language: grammar, semantics of the primitives, bounds of the library, derivatives, emitted text.
#include "base/arena.h"
#include "base/float16.h"
#include "scalar/lib.h"
#include "scalar/prim.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct arena arena;

static int set_up(void **state)
{
    kiln_error_clear();
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_finish(&arena);
    kiln_error_clear();
    return 0;
}

static const struct scalar_param f32_params[] = {{"x", CLASS_F32}, {"a", CLASS_F32}, {"b", CLASS_F32}};
static const struct scalar_param f64_params[] = {{"x", CLASS_F64}, {"a", CLASS_F64}, {"b", CLASS_F64}};
static const struct scalar_param i32_params[] = {{"x", CLASS_I32}, {"a", CLASS_I32}, {"b", CLASS_I32}};
static const struct scalar_param i64_params[] = {{"x", CLASS_I64}, {"a", CLASS_I64}, {"b", CLASS_I64}};
static const struct scalar_param bool_params[] = {{"x", CLASS_BOOL}, {"a", CLASS_BOOL}, {"b", CLASS_BOOL}};
static const struct scalar_param *const params_of[] = {f32_params, f64_params, i32_params, i64_params, bool_params};

static struct scalar_dag parse(const char *text, enum scalar_class cls)
{
    struct scalar_dag d = {0};
    if (scalar_parse(&arena, text, params_of[cls], 3, cls, &d)) fail_msg("%s", kiln_error_message());
    return d;
}

static union scalar_value f32_value(float v)
{
    union scalar_value r = {.bits = 0};
    r.f32 = v;
    return r;
}

static union scalar_value i32_value(int32_t v)
{
    union scalar_value r = {.bits = 0};
    r.i32 = v;
    return r;
}

static float f32_of(const char *text, float a, float b)
{
    struct scalar_dag d = parse(text, CLASS_F32);
    return scalar_eval(&d, (const union scalar_value[]){f32_value(a), f32_value(a), f32_value(b)}).f32;
}

static double f64_of(const char *text, double a, double b)
{
    struct scalar_dag d = parse(text, CLASS_F64);
    return scalar_eval(&d, (const union scalar_value[]){{.f64 = a}, {.f64 = a}, {.f64 = b}}).f64;
}

static int32_t i32_of(const char *text, int32_t a, int32_t b)
{
    struct scalar_dag d = parse(text, CLASS_I32);
    return scalar_eval(&d, (const union scalar_value[]){i32_value(a), i32_value(a), i32_value(b)}).i32;
}

static int64_t i64_of(const char *text, int64_t a, int64_t b)
{
    struct scalar_dag d = parse(text, CLASS_I64);
    return scalar_eval(&d, (const union scalar_value[]){{.i64 = a}, {.i64 = a}, {.i64 = b}}).i64;
}

static bool same_f32(float x, float y)
{
    return (isnan(x) && isnan(y)) || f32_value(x).bits == f32_value(y).bits;
}

// --- grammar

static void grammar(void **state)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"1 + 2 * 3", 7},
        {"(1 + 2) * 3", 9},
        {"2 - 3 - 4", -5},
        {"8 / 4 / 2", 1},
        {"-a * b", -6},
        {"- -a", 2},
        {"a > b ? 1 : a < b ? 2 : 3", 2},
        {"a == 2 && b == 3 ? 1 : 0", 1},
        {"a == 3 || b == 3 ? 1 : 0", 1},
        {"a == 2 ^^ b == 3 ? 1 : 0", 0},
        {"!(a == 2) ? 1 : 0", 0},
        {"a + 1 == b ? 1 : 0", 1},
        {"s = a + b; t = s * s; t - s", 20},
        {"max(a, min(b, 2.5))", 2.5},
        {"1e3", 1000},
        {".5", 0.5},
        {"0x10", 16},
        {"0x1p-2", 0.25},
        {"abs(-inf) == inf ? 1 : 0", 1},
        {"isnan(nan) ? 1 : 0", 1},
        {"pi", 3.14159265358979323846},
        {"select(true, a, b)", 2},
        {"select(false, a, b)", 3},
        {"add(a, mul(a, b))", 8},
        {"f64(f32(0.1))", (double)0.1f},
        {"f64(0.1)", 0.1},
        {"f64(i32(a) << 3)", 16},
        {"f64(i32(7) & 12 ^ 1 | 2)", 7},
        {"f64(i32(a) >> 1)", 1},
        {"f64(~i32(a))", -3},
        {"1/3", 1.0 / 3},
        {"i32(1.9) == 1 ? a : b", 2},
        {"  a\n +\tb ", 5},
        {"a_b = a; a_b", 2},
        {"i64(0xffffffffffffffff) == -1 ? 1 : 0", 1},
        {"i32(0x80000000) < 0 ? 1 : 0", 1},
        {"rint(2.5)", 2},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        double got = f64_of(cases[i].text, 2, 3);
        if (got != cases[i].value) fail_msg("%s: %g instead of %g", cases[i].text, got, cases[i].value);
    }
    assert_true(same_f32(f32_of("-0", 0, 0), -0.0f));
    assert_true(same_f32(f32_of("-0.0", 0, 0), -0.0f));
    assert_true(same_f32(f32_of("1/3", 0, 0), 1.0f / 3));
}

static void mistakes_are_reported(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a + ", "at 5: a value expected, found the end"},
        {"a + y", "at 5: unknown name \"y\""},
        {"foo(a)", "at 1: unknown function \"foo\""},
        {"exp(a, b)", "exp takes 1 argument"},
        {"max(a)", "max takes 2 arguments, not 1"},
        {"(a", "')' expected, found the end"},
        {"a b", "at 3: unexpected 'b'"},
        {"a ? 1 : 2", "the condition is f32, not bool"},
        {"a + i32(b)", "f32 meets i32"},
        {"a & b", "and does not take f32"},
        {"!a", "'!' does not take f32"},
        {"a && b", "&& does not take f32"},
        {"a = 1; a", "\"a\" is bound already"},
        {"c = 1; c = 2; c", "\"c\" is bound already"},
        {"c = 1", "';' expected"},
        {"1x", "malformed number"},
        {"i32(a) + 1.5", "1.5 is no i32"},
        {"i32(a) + 5000000000", "is no i32"},
        {"exp(i32(a))", "exp does not take i32"},
        {"a ? b", "':' expected"},
        {"", "a value expected"},
        {"a @ b", "unexpected '@'"},
        {"true + 1", "add does not take bool"},
        {"rsum(a == b)", "rsum does not take bool"},
        {"rany(a)", "rany does not take f32"},
        {"~(a < b)", "'~' does not take bool"},
        {"a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + y + a + a + a + a + a + a", "\"...+ a + a"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct scalar_dag d;
        assert_int_equal(scalar_parse(&arena, cases[i].text, f32_params, 3, CLASS_F32, &d), KILN_E_ARGUMENT);
        if (!strstr(kiln_error_message(), cases[i].message))
            fail_msg("\"%s\": the message \"%s\" does not say \"%s\"", cases[i].text, kiln_error_message(),
                     cases[i].message);
        kiln_error_clear();
    }
    char deep[1000];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    struct scalar_dag d;
    assert_int_equal(scalar_parse(&arena, deep, f32_params, 3, CLASS_F32, &d), KILN_E_ARGUMENT);
    assert_non_null(strstr(kiln_error_message(), "nested too deeply"));
}

static void nodes_are_shared_and_ordered(void **state)
{
    struct scalar_dag d = parse("(a + b) * (a + b) + (a + b)", CLASS_F32);
    assert_int_equal(d.n_nodes, 5);
    for (int i = 0; i < d.n_nodes; i++)
        for (int k = 0; k < d.nodes[i].n_args; k++) assert_true(d.nodes[i].arg[k] < i);
    assert_int_equal(scalar_used_params(&d), 6);
    d = parse("unused = exp(x); a * 1 - 0", CLASS_F32);
    assert_int_equal(d.n_nodes, 1);
    assert_int_equal(d.nodes[d.root].kind, SCALAR_INPUT);
    // Adding 0 is no identity for a float: -0 + 0 is 0.
    assert_true(same_f32(f32_of("a + 0", -0.0f, 0), 0.0f));
    assert_int_equal(parse("a + 0", CLASS_I32).n_nodes, 1);
    // 2 * 3 is folded with the semantics of the class.
    d = parse("i32(2147483647) + i32(1)", CLASS_I32);
    assert_int_equal(d.nodes[d.root].kind, SCALAR_CONST);
    assert_int_equal(d.nodes[d.root].value.i32, INT32_MIN);
}

// --- primitives

static void integers_wrap(void **state)
{
    assert_int_equal(i32_of("a + b", INT32_MAX, 1), INT32_MIN);
    assert_int_equal(i32_of("a - b", INT32_MIN, 1), INT32_MAX);
    assert_int_equal(i32_of("a * b", 65537, 65537), 131073);
    assert_int_equal(i32_of("-a", INT32_MIN, 0), INT32_MIN);
    assert_int_equal(i32_of("abs(a)", INT32_MIN, 0), INT32_MIN);
    assert_true(i64_of("a + b", INT64_MAX, 1) == INT64_MIN);
    assert_true(i64_of("a * b", INT64_C(4294967297), INT64_C(4294967297)) == INT64_C(8589934593));
    assert_true(i64_of("-a", INT64_MIN, 0) == INT64_MIN);
    assert_int_equal(i32_of("umulhi(a, b)", -1, -1), -2);
    assert_int_equal(i32_of("umulhi(a, b)", 65536, 65536), 1);
}

static void scales_round_once(void **state)
{
    const float bias = 0x1.8p23f;
    assert_true(same_f32(f32_of("scale(a, b)", 1.5f, bias + 4), 24.0f));
    assert_true(same_f32(f32_of("scale(a, b)", 1, bias - 149), 0x1p-149f));
    assert_true(same_f32(f32_of("scale(a, b)", -1.5f, bias - 149), -0x1p-148f)); // half to even
    assert_true(same_f32(f32_of("scale(a, b)", 0x1.fffffep-1f, bias + 128), 0x1.fffffep127f));
    assert_true(same_f32(f32_of("scale(a, b)", 1, bias + 128), INFINITY));
    assert_true(isnan(f32_of("scale(a, b)", NAN, bias)));
}

// One rounding or two, but one of them.
static void products_may_meet_sums(void **state)
{
    float a = 1 + 0x1p-12f, c = -1 - 0x1p-11f, once = 0x1p-24f, twice = 0;
    float got = f32_of("mad(a, a, b)", a, c);
    assert_true(same_f32(got, once) || same_f32(got, twice));
    assert_true(same_f32(f32_of("mad(a, b, 3)", 2, 5), 13.0f));
    assert_true(isnan(f32_of("mad(a, b, a)", INFINITY, -1)));
}

static void integer_division(void **state)
{
    static const struct {
        int32_t a, b, quotient, floor, remainder;
    } cases[] = {
        {7, 2, 3, 3, 1},
        {-7, 2, -3, -4, 1},
        {7, -2, -3, -4, -1},
        {-7, -2, 3, 3, -1},
        {6, -2, -3, -3, 0},
        {5, 0, 0, 0, 0},
        {-5, 0, 0, 0, 0},
        {0, 0, 0, 0, 0},
        {INT32_MIN, -1, INT32_MIN, INT32_MIN, 0},
        {INT32_MIN, 1, INT32_MIN, INT32_MIN, 0},
        {INT32_MAX, -1, -INT32_MAX, -INT32_MAX, 0},
        {INT32_MIN, INT32_MAX, -1, -2, INT32_MAX - 1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(i32_of("a / b", cases[i].a, cases[i].b), cases[i].quotient);
        assert_int_equal(i32_of("floordiv(a, b)", cases[i].a, cases[i].b), cases[i].floor);
        assert_int_equal(i32_of("floormod(a, b)", cases[i].a, cases[i].b), cases[i].remainder);
    }
    assert_true(i64_of("a / b", INT64_MIN, -1) == INT64_MIN);
    assert_true(i64_of("floordiv(a, b)", INT64_MIN, -1) == INT64_MIN);
    assert_true(i64_of("floormod(a, b)", INT64_MIN, -1) == 0);
    assert_true(i64_of("floordiv(a, b)", 9, 0) == 0);
    assert_true(i64_of("floordiv(a, b)", -9, 4) == -3);
    assert_true(i64_of("floormod(a, b)", -9, 4) == 3);
}

static void shifts_and_bits(void **state)
{
    static const struct {
        int32_t a, b, left, right, logical;
    } cases[] = {
        {-8, 0, -8, -8, -8}, {-8, 1, -16, -4, 0x7ffffffc}, {-8, 31, 0, -1, 1},
        {-8, 32, 0, -1, 0},  {-8, -1, 0, -1, 0},           {8, 32, 0, 0, 0},
        {8, -5, 0, 0, 0},    {1, 31, INT32_MIN, 0, 0},     {8, INT32_MIN, 0, 0, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(i32_of("a << b", cases[i].a, cases[i].b), cases[i].left);
        assert_int_equal(i32_of("a >> b", cases[i].a, cases[i].b), cases[i].right);
        assert_int_equal(i32_of("shru(a, b)", cases[i].a, cases[i].b), cases[i].logical);
    }
    assert_true(i64_of("a << b", 1, 63) == INT64_MIN);
    assert_true(i64_of("a << b", 1, 64) == 0);
    assert_true(i64_of("a >> b", -2, 200) == -1);
    assert_true(i64_of("shru(a, b)", -1, 60) == 15);
    assert_int_equal(i32_of("a & b", 12, 10), 8);
    assert_int_equal(i32_of("a | b", 12, 10), 14);
    assert_int_equal(i32_of("a ^ b", 12, 10), 6);
    assert_int_equal(i32_of("~a", 12, 0), -13);
    assert_int_equal(i32_of("bits(f32(a))", 1, 0), 0x3f800000);
    assert_true(f32_of("from_bits(bits(a) | 0x80000000)", 1.5f, 0) == -1.5f);
    assert_true(f64_of("f64(bits(a) >> 52)", 1, 0) == 1023);
    struct scalar_dag d = parse("a && !b || a ^^ x", CLASS_BOOL);
    for (int i = 0; i < 8; i++) {
        union scalar_value in[3] = {{.b = (uint8_t)(i & 1)}, {.b = (uint8_t)(i >> 1 & 1)}, {.b = (uint8_t)(i >> 2)}};
        bool x = in[0].b, a = in[1].b, b = in[2].b;
        assert_int_equal(scalar_eval(&d, in).b, (a && !b) || (a != x));
    }
}

static void float_semantics(void **state)
{
    const float inf = INFINITY, nan = NAN;
    static const float halves[][2] = {{0.5f, 0},   {1.5f, 2},          {2.5f, 2},        {-0.5f, -0.0f}, {-1.5f, -2},
                                      {-2.5f, -2}, {8388609, 8388609}, {0.49999997f, 0}, {1e30f, 1e30f}, {-2.6f, -3}};
    for (size_t i = 0; i < COUNT_OF(halves); i++)
        assert_true(same_f32(f32_of("rint(a)", halves[i][0], 0), halves[i][1]));
    assert_true(same_f32(f32_of("max(a, b)", nan, 1), nan));
    assert_true(same_f32(f32_of("max(a, b)", 1, nan), nan));
    assert_true(same_f32(f32_of("min(a, b)", nan, 1), nan));
    assert_true(same_f32(f32_of("min(a, b)", 1, nan), nan));
    assert_true(f32_of("max(a, b)", -inf, 1) == 1);
    assert_true(f32_of("min(a, b)", inf, -3) == -3);
    assert_true(isnan(f64_of("max(a, b)", 1, (double)nan)) && isnan(f64_of("min(a, b)", (double)nan, 1)));
    assert_true(f32_of("a < b ? 1 : 0", nan, 1) == 0 && f32_of("a != b ? 1 : 0", nan, nan) == 1);
    assert_true(f32_of("a == b ? 1 : 0", 0.0f, -0.0f) == 1 && f32_of("a >= b ? 1 : 0", nan, nan) == 0);
    assert_true(f32_of("isnan(a) ? 1 : 0", nan, 0) == 1 && f32_of("isnan(a) ? 1 : 0", inf, 0) == 0);
    assert_true(f32_of("isinf(a) ? 1 : 0", -inf, 0) == 1 && f32_of("isinf(a) ? 1 : 0", nan, 0) == 0);
    assert_true(f32_of("isfinite(a) ? 1 : 0", FLT_MAX, 0) == 1 && f32_of("isfinite(a) ? 1 : 0", nan, 0) == 0);
    assert_true(f32_of("signbit(a) ? 1 : 0", -0.0f, 0) == 1 && f32_of("signbit(a) ? 1 : 0", 0, 0) == 0);
    assert_true(same_f32(f32_of("copysign(a, b)", 0, -1), -0.0f) && f32_of("copysign(a, b)", -3, 2) == 3);
    assert_true(same_f32(f32_of("floor(a)", -0.0f, 0), -0.0f) && f32_of("floor(a)", -1.5f, 0) == -2);
    assert_true(f32_of("ceil(a)", 1.2f, 0) == 2 && f32_of("trunc(a)", -1.7f, 0) == -1 && f32_of("sqrt(a)", 9, 0) == 3);
    assert_true(same_f32(f32_of("-a", 0, 0), -0.0f) && same_f32(f32_of("abs(a)", -0.0f, 0), 0));
    assert_true(isnan(f32_of("sqrt(a)", -1, 0)) && f32_of("a / b", 1, 0) == inf);
}

static void conversions(void **state)
{
    static const struct {
        double x;
        int32_t i32;
        int64_t i64;
    } cases[] = {
        {1.9, 1, 1},
        {-1.9, -1, -1},
        {3e9, INT32_MAX, INT64_C(3000000000)},
        {-3e9, INT32_MIN, -INT64_C(3000000000)},
        {1e30, INT32_MAX, INT64_MAX},
        {-1e30, INT32_MIN, INT64_MIN},
        {NAN, 0, 0},
        {INFINITY, INT32_MAX, INT64_MAX},
        {-INFINITY, INT32_MIN, INT64_MIN},
        {2147483648.0, INT32_MAX, INT64_C(2147483648)},
        {-0.0, 0, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct scalar_dag d32 = parse("i32(a)", CLASS_F64), d64 = parse("i64(a)", CLASS_F64);
        const union scalar_value in[3] = {{.f64 = cases[i].x}, {.f64 = cases[i].x}};
        assert_int_equal(scalar_eval(&d32, in).i32, cases[i].i32);
        assert_true(scalar_eval(&d64, in).i64 == cases[i].i64);
        d32 = parse("i32(a)", CLASS_F32), d64 = parse("i64(a)", CLASS_F32);
        const union scalar_value single[3] = {f32_value((float)cases[i].x), f32_value((float)cases[i].x)};
        assert_int_equal(scalar_eval(&d32, single).i32, cases[i].i32);
        assert_true(scalar_eval(&d64, single).i64 == cases[i].i64);
    }
    assert_true(f64_of("f64(i32(a))", 2147483646.5, 0) == 2147483646.0);
    assert_true(f64_of("f64(i32(a))", -2147483647.5, 0) == -2147483647.0);
    assert_int_equal(i64_of("i64(i32(a))", INT64_C(0x100000005), 0), 5);
    assert_int_equal(i64_of("i64(i32(a))", INT64_C(0xffffffff), 0), -1);
    assert_true(f64_of("f64(bool(a)) + f64(bool(b))", (double)NAN, 0) == 1);
    assert_true(f64_of("f64(i32(2147483647.5))", 0, 0) == 2147483647.0);
    assert_true(f64_of("f64(f32(a))", 1e300, 0) == (double)INFINITY);
}

// --- the library against the C library

typedef long double real;

static real digamma_reference(real x)
{
    static const real b[] = {1 / 12.0L, -1 / 120.0L, 1 / 252.0L, -1 / 240.0L, 1 / 132.0L, -691 / 32760.0L, 1 / 12.0L};
    real r = 0, s = 0;
    for (; x < 25; x += 1) r -= 1 / x;
    for (int i = 6; i >= 0; i--) s = (s + b[i]) / (x * x);
    return r + logl(x) - 0.5L / x - s;
}

static real trigamma_reference(real x)
{
    static const real b[] = {1 / 6.0L, -1 / 30.0L, 1 / 42.0L, -1 / 30.0L, 5 / 66.0L, -691 / 2730.0L, 7 / 6.0L};
    real r = 0, s = 0;
    for (; x < 25; x += 1) r += 1 / (x * x);
    for (int i = 6; i >= 0; i--) s = (s + b[i]) / (x * x);
    return r + 1 / x + 0.5L / (x * x) + s / x;
}

// Newton's method on erfc, where it keeps its digits.
static real erfinv_reference(real x)
{
    real a = fabsl(x), y = sqrtl(-logl((1 - a) * (1 + a))) * 0.8L;
    if (a > 1) return (real)NAN;
    if (a == 0 || a == 1) return a == 0 ? x : copysignl(HUGE_VALL, x);
    for (int i = 0; i < 40; i++) {
        real f = a > 0.5L ? (1 - a) - erfcl(y) : erfl(y) - a;
        real step = f * 0.88622692545275801365L * expl(y * y);
        y -= step / (1 + y * step);
    }
    return copysignl(y, x);
}

static real sigmoid_reference(real x)
{
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}

static real logaddexp_reference(real a, real b)
{
    if (a == b) return a + logl(2);
    return fmaxl(a, b) + log1pl(expl(-fabsl(a - b)));
}

static real floormod_reference(real a, real b)
{
    real r = fmodl(a, b);
    if (r == 0) return copysignl(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

static real half_exp_reference(real x)
{
    return 0.5L * expl(x);
}

// `least`: the error counts in units of the last place of max(|y|, least). `low`, `high`: where the bound holds.
static const struct reference {
    const char *name;
    real (*one)(real), (*two)(real, real);
    double bound, least, low, high;
    // clang-format off
} references[] = {
    {"exp", .one = expl}, {"half_exp", .one = half_exp_reference}, {"exp2", .one = exp2l}, {"expm1", .one = expm1l},
    {"log", .one = logl}, {"log2", .one = log2l}, {"log10", .one = log10l}, {"log1p", .one = log1pl},
    {"sin", .one = sinl}, {"cos", .one = cosl},
    {"cos_near", .one = cosl, .low = -1e9, .high = 1e9},
    {"tan", .one = tanl}, {"asin", .one = asinl}, {"acos", .one = acosl},
    {"atan", .one = atanl}, {"atan2", .two = atan2l}, {"sinh", .one = sinhl}, {"cosh", .one = coshl},
    {"tanh", .one = tanhl}, {"asinh", .one = asinhl}, {"acosh", .one = acoshl}, {"atanh", .one = atanhl},
    {"sigmoid", .one = sigmoid_reference}, {"logaddexp", .two = logaddexp_reference, .bound = 2, .least = 1, -80, 80},
    {"erfc_tail", .one = erfcl, .low = 0.5, .high = 30}, {"erf", .one = erfl}, {"erfc", .one = erfcl},
    {"erfinv", .one = erfinv_reference}, {"pow", .two = powl}, {"cbrt", .one = cbrtl}, {"hypot", .two = hypotl},
    {"lgamma", .one = lgammal, .low = 0, .high = 1e30},
    {"digamma", .one = digamma_reference, .bound = 8, .least = 1, .low = 1e-3, .high = 1e6},
    {"trigamma", .one = trigamma_reference, .bound = 8, .low = 1e-3, .high = 1e6},
    {"fmod", .two = fmodl, .bound = 1e-30}, {"floormod", .two = floormod_reference, .bound = 0.51},
};
// clang-format on

static uint64_t random_state;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static double uniform(double low, double high)
{
    return low + (high - low) * (double)(random_bits() >> 11) * 0x1p-53;
}

// Error of `got` in units of the last place of max(|ref|, least), for a format of `digits` bits, least exponent `low`.
static double error_ulp(double got, real ref, real least, int digits, int lowest, double largest)
{
    if (isnan(ref) || isnan(got)) return isnan(ref) && isnan(got) ? 0 : HUGE_VAL;
    real unit_of = fmaxl(fabsl(ref), least);
    if (fabsl(ref) > (real)largest || isinf(got)) {
        // Infinity stands for the number that would follow the largest one, and for all beyond.
        real next = ldexpl(1, ilogbl((real)largest) + 1);
        real value = copysignl(fminl(fabsl((real)got), next), (real)got);
        real goal = copysignl(fminl(fabsl(ref), next), ref);
        return (double)(fabsl(value - goal) / ldexpl(1, ilogbl((real)largest) - digits + 1));
    }
    if (ref == 0) return got == 0 && !signbit(got) == !signbit(ref) ? 0 : HUGE_VAL;
    int exponent = ilogbl(unit_of) - digits + 1;
    return (double)(fabsl((real)got - ref) / ldexpl(1, exponent < lowest ? lowest : exponent));
}

static double f32_error(float got, real ref, real least)
{
    return error_ulp((double)got, ref, least, 24, -149, (double)FLT_MAX);
}

static double f64_error(double got, real ref, real least)
{
    return error_ulp(got, ref, least, 53, -1074, DBL_MAX);
}

static real reference_value(const struct reference *r, real a, real b)
{
    return r->one ? r->one(a) : r->two(a, b);
}

enum { SAMPLES = 16384 };

// A mix of all bit patterns, a neighbourhood of 1, the row's interesting range, and large and small magnitudes.
static double sample(const struct scalar_lib_row *row, bool is_f32, int i)
{
    uint64_t bits = random_bits();
    uint32_t narrow = (uint32_t)(bits >> 32);
    float f;
    double d;
    switch (i & 3) {
    case 0:
        memcpy(&f, &narrow, sizeof f);
        memcpy(&d, &bits, sizeof d);
        return is_f32 ? (double)f : d;
    case 1: return uniform(row->low, row->high);
    case 2: return uniform(0.5, 1.5) * (bits & 1 ? 1 : -1);
    default: return exp(uniform(-30, 30)) * (bits & 1 ? 1 : -1);
    }
}

static void check_f32(const struct reference *r, uint16_t lib)
{
    static float in[2][SAMPLES], out[SAMPLES];
    const struct scalar_lib_row *row = scalar_lib_row(lib);
    const struct scalar_dag *d = scalar_lib_dag(lib, CLASS_F32);
    assert_non_null(d);
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < 2; k++) in[k][i] = (float)sample(row, true, k ? (int)random_bits() : i);
    void *scratch = aligned_alloc(64, scalar_block_scratch_B(d));
    assert_non_null(scratch);
    scalar_eval_block(d, (const void *const[]){in[0], in[1]}, out, SAMPLES, scratch);
    double bound = r->bound > 0 ? r->bound : row->ulp_f32;
    for (int i = 0; i < SAMPLES; i++) {
        double a = (double)in[0][i], b = (double)in[1][i];
        if (i % 61 == 0) {
            const union scalar_value arg[2] = {f32_value(in[0][i]), f32_value(in[1][i])};
            float one = scalar_eval(d, arg).f32;
            if (!same_f32(one, out[i]))
                fail_msg("%s(%a, %a): alone %a, in a block %a", r->name, a, b, (double)one, (double)out[i]);
        }
        if (r->low < r->high && !(a >= r->low && a <= r->high && (r->one || (b >= r->low && b <= r->high)))) continue;
        double error = f32_error(out[i], reference_value(r, (real)a, (real)b), (real)r->least);
        if (!(error <= bound))
            fail_msg("f32 %s(%a, %a) is %a: %g ulp, bound %g", r->name, a, b, (double)out[i], error, bound);
    }
    free(scratch);
}

static void check_f64(const struct reference *r, uint16_t lib)
{
    static double in[2][SAMPLES], out[SAMPLES];
    const struct scalar_lib_row *row = scalar_lib_row(lib);
    const struct scalar_dag *d = scalar_lib_dag(lib, CLASS_F64);
    assert_non_null(d);
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < 2; k++) in[k][i] = sample(row, false, k ? (int)random_bits() : i);
    void *scratch = aligned_alloc(64, scalar_block_scratch_B(d));
    assert_non_null(scratch);
    scalar_eval_block(d, (const void *const[]){in[0], in[1]}, out, SAMPLES, scratch);
    // The reference has 11 bits more, which adds a little where it is itself off by an ulp.
    double bound = (r->bound > 0 ? r->bound : row->ulp_f64) + 0.01;
    for (int i = 0; i < SAMPLES; i++) {
        double a = in[0][i], b = in[1][i];
        if (r->low < r->high && !(a >= r->low && a <= r->high && (r->one || (b >= r->low && b <= r->high)))) continue;
        double error = f64_error(out[i], reference_value(r, (real)a, (real)b), (real)r->least);
        if (!(error <= bound)) fail_msg("f64 %s(%a, %a) is %a: %g ulp, bound %g", r->name, a, b, out[i], error, bound);
    }
    free(scratch);
}

// Angles far beyond where their multiples of pi/2 are known to the last place without some thousand bits of pi; the
// eighth lies nearest to one of all numbers in f64.
static void large_angles_keep_their_meaning(void **state)
{
    static const struct {
        double x, sin, cos, tan;
    } cases[] = {
        {0x1.dcd65p+29, 0x1.1778cae83c69bp-1, 0x1.acff8c7364234p-1, 0x1.4d8b249e3dba7p-1},
        {0x1.2a05f2p+33, -0x1.f334c7896a4e3p-2, 0x1.bf098901c931ap-1, -0x1.1de000f443f5p-1},
        {0x1.c6bf52634p+49, 0x1.b76f88136cebap-1, -0x1.06c154609d33fp-1, -0x1.ac23600a95be4p+0},
        {0x1.0f0cf064dd592p+73, -0x1.b453ab76bf397p-1, 0x1.0be2cef01c8f4p-1, -0x1.a0f79c1b6b257p+0},
        {0x1.b69b4ba630f35p+56, 0x1.d63b86274bfb9p-2, 0x1.c6d2cbca32cd3p-1, 0x1.08ac5021c33efp-1},
        {0x1.249ad2594c37dp+332, -0x1.85c5e5b929359p-2, 0x1.d9757496841f5p-1, -0x1.a5807d6f76f7dp-2},
        {0x1.7e43c8800759cp+996, -0x1.a2c16b010e385p-1, -0x1.2699022adc4c1p-1, 0x1.6be411f37ac77p+0},
        {0x1.6ac5b262ca1ffp+849, 1, -0x1.14ae72e6ba22fp-61, -0x1.d9ba9a7975636p+60},
        {0x1.fffffffffffffp+1023, 0x1.452fc98b34e97p-8, -0x1.fffe62ecfab75p-1, -0x1.4530cfe729484p-8},
        {0x1p+1000, -0x1.460b8ae1c886ep-3, 0x1.f9785160c8815p-1, -0x1.4a41d560c08ccp-3},
    };
    static const char *const names[] = {"sin(a)", "cos(a)", "tan(a)"};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int k = 0; k < 3; k++) {
            double want = (&cases[i].sin)[k], got = f64_of(names[k], cases[i].x, 0);
            double unit = ldexp(1, ilogb(want) - 52);
            if (!(fabs(got - want) <= (k == 2 ? 4.5 : 2.5) * unit))
                fail_msg("%s at %a: %a, expected %a", names[k], cases[i].x, got, want);
        }
}

static void library_keeps_its_bounds(void **state)
{
    random_state = 88172645463325252u;
    for (size_t i = 0; i < COUNT_OF(references); i++) {
        int lib = scalar_lib_find(references[i].name, strlen(references[i].name));
        assert_true(lib >= 0);
        check_f32(&references[i], (uint16_t)lib);
        // long double must be wider than double for it to judge.
        if (LDBL_MANT_DIG > DBL_MANT_DIG) check_f64(&references[i], (uint16_t)lib);
    }
}

static void every_row_has_a_reference(void **state)
{
    // Checked in tests of their own, and through fmod.
    static const char *const others[] = {"floordiv", "nextafter", "fmod_part", "as_f16", "as_bf16"};
    for (int lib = 0; lib < LIB_COUNT; lib++) {
        bool found = false;
        for (size_t i = 0; i < COUNT_OF(references); i++)
            found = found || strcmp(references[i].name, scalar_lib_name((uint16_t)lib)) == 0;
        for (size_t i = 0; i < COUNT_OF(others); i++)
            found = found || strcmp(others[i], scalar_lib_name((uint16_t)lib)) == 0;
        if (!found) fail_msg("%s is not tested", scalar_lib_name((uint16_t)lib));
        for (int cls = 0; cls < CLASS_COUNT; cls++)
            if (scalar_lib_row((uint16_t)lib)->expr[cls])
                assert_false(scalar_has_lib(scalar_lib_dag((uint16_t)lib, (enum scalar_class)cls)));
    }
}

static const float specials[] = {0, -0.0f, 1, -1, 0.5f, -0.5f, 2, -2, 3, -3, 1e-45f, -1e-45f, 1e-38f, -1e-38f, 1e-20f,
                                 7, -1e-20f, 1e20f, -1e20f, FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, NAN, 88.8f, -103.9f,
                                 0.99999994f, 1.0000001f, 16777216, 2147483648.0f, 1e10f,
                                 // The float that lies closest to a multiple of pi/2 for its size.
                                 16367173 * 0x1p72f};

static void special_values(void **state)
{
    for (size_t i = 0; i < COUNT_OF(references); i++) {
        const struct reference *r = &references[i];
        int lib = scalar_lib_find(r->name, strlen(r->name));
        const struct scalar_lib_row *row = scalar_lib_row((uint16_t)lib);
        const struct scalar_dag *d = scalar_lib_dag((uint16_t)lib, CLASS_F32);
        double bound = r->bound > 0 ? r->bound : row->ulp_f32;
        for (size_t k = 0; k < COUNT_OF(specials) * COUNT_OF(specials); k++) {
            float a = specials[k % COUNT_OF(specials)], b = specials[k / COUNT_OF(specials)];
            if (r->one && k >= COUNT_OF(specials)) break;
            if (r->low < r->high && !((double)a >= r->low && (double)a <= r->high)) continue;
            if (r->two == logaddexp_reference && (isinf(a) || isinf(b))) continue;
            float got = scalar_eval(d, (const union scalar_value[]){f32_value(a), f32_value(b)}).f32;
            real ref = reference_value(r, (real)a, (real)b);
            double error = f32_error(got, ref, (real)r->least);
            if (!(error <= bound))
                fail_msg("%s(%g, %g) is %g, not %Lg: %g ulp", r->name, (double)a, (double)b, (double)got, ref, error);
        }
    }
    assert_true(f32_of("logaddexp(a, b)", -INFINITY, -INFINITY) == -INFINITY);
    assert_true(f32_of("logaddexp(a, b)", -INFINITY, 3) == 3 && isnan(f32_of("logaddexp(a, b)", NAN, 3)));
    assert_true(f32_of("lgamma(x)", -2, 0) == INFINITY && f32_of("lgamma(x)", -INFINITY, 0) == INFINITY);
    assert_true(f32_of("digamma(x)", 0, 0) == -INFINITY && isnan(f32_of("digamma(x)", -3, 0)));
    assert_true(fabs(f64_of("lgamma(x)", -2.5, 0) - lgamma(-2.5)) < 1e-14);
    assert_true(fabs(f64_of("digamma(x)", -0.3, 0) - 2.1133097796353987) < 1e-13);
}

static void float_division_and_neighbours(void **state)
{
    static const struct {
        float a, b, quotient;
    } cases[] = {
        {7, 2, 3},        {-7, 2, -4},          {7, -2, -4},      {1, 0.1f, 9},       {-1, 0.1f, -10},
        {6, 3, 2},        {1e30f, 1, 1e30f},    {5, INFINITY, 0}, {-5, INFINITY, -1}, {5, -INFINITY, -1},
        {1, 0, INFINITY}, {-1e-40f, 1e10f, -1}, {0.3f, 0.1f, 3},  {0.6f, 0.2f, 3},    {0.7f, 0.1f, 6},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        float got = f32_of("floordiv(a, b)", cases[i].a, cases[i].b), a = cases[i].a, b = cases[i].b;
        float exact = isfinite(b) && b != 0 ? (float)floor((double)a / (double)b) : cases[i].quotient;
        if (got != exact) fail_msg("floordiv(%a, %a) is %g, not %g", (double)a, (double)b, (double)got, (double)exact);
    }
    struct scalar_dag d = parse("floordiv(a, b)", CLASS_F32);
    random_state = 2463534242u;
    for (int i = 0; i < 20000; i++) {
        // Half of the quotients are next to a whole number.
        float b = (float)uniform(-3, 3), near = rintf((float)uniform(-999, 999)) * b;
        float a = i & 1 ? (float)uniform(-3e5, 3e5) : near;
        float exact = (float)floor((double)a / (double)b);
        float got = scalar_eval(&d, (const union scalar_value[]){f32_value(0), f32_value(a), f32_value(b)}).f32;
        if (fabsf(exact) < 0x1p23f && got != exact)
            fail_msg("floordiv(%a, %a) is %g, not %g", (double)a, (double)b, (double)got, (double)exact);
    }
    assert_true(isnan(f32_of("floordiv(a, b)", 0, 0)) && isnan(f32_of("floordiv(a, b)", NAN, 2)));
    for (size_t i = 0; i < COUNT_OF(specials); i++) {
        for (size_t k = 0; k < COUNT_OF(specials); k++) {
            float a = specials[i], b = specials[k];
            if (!same_f32(f32_of("nextafter(a, b)", a, b), nextafterf(a, b)))
                fail_msg("nextafter(%a, %a)", (double)a, (double)b);
            double wide = f64_of("nextafter(a, b)", (double)a, (double)b), expected = nextafter((double)a, (double)b);
            assert_true((isnan(wide) && isnan(expected)) || wide == expected);
        }
    }
}

static void check_narrow(uint32_t bits)
{
    float x = float16_value(bits), half = f16_to_float(f16_from_float(x)), brain = bf16_to_float(bf16_from_float(x));
    if (!same_f32(f32_of("as_f16(a)", x, 0), half)) fail_msg("as_f16(%a): %a expected", (double)x, (double)half);
    if (!same_f32(f32_of("as_bf16(a)", x, 0), brain)) fail_msg("as_bf16(%a): %a expected", (double)x, (double)brain);
}

static void narrow_floats(void **state)
{
    for (uint32_t h = 0; h < 0x10000; h += 7) // values that are there already, ties and their neighbours
        for (int by = -1; by <= 1; by++) {
            check_narrow(float16_bits(f16_to_float((uint16_t)h)) + 0x1000u + (uint32_t)by);
            check_narrow((h << 16) + 0x8000u + (uint32_t)by);
            check_narrow(float16_bits(f16_to_float((uint16_t)h)) + (uint32_t)by);
        }
    for (int i = 0; i < 20000; i++) check_narrow((uint32_t)random_bits());
}

// --- derivatives

static double diff_of(const struct scalar_dag *d, int param, double a, double b)
{
    struct scalar_dag g;
    if (scalar_diff(&arena, d, param, 3, &g)) fail_msg("%s", kiln_error_message());
    return scalar_eval(&g, (const union scalar_value[]){{.f64 = a}, {.f64 = a}, {.f64 = b}, {.f64 = 1}}).f64;
}

// Central differences with Richardson's step: error about h^4.
static double slope_of(const struct scalar_dag *d, int param, double a, double b)
{
    double h = 1e-3, at = param == 2 ? b : a, value[4];
    const double step[4] = {-2 * h, -h, h, 2 * h};
    for (int i = 0; i < 4; i++) {
        union scalar_value in[3] = {{.f64 = a}, {.f64 = a}, {.f64 = b}};
        in[param].f64 = at + step[i];
        value[i] = scalar_eval(d, in).f64;
    }
    return (value[0] - 8 * value[1] + 8 * value[2] - value[3]) / (12 * h);
}

static void check_gradient(const char *text, int param, double a, double b)
{
    struct scalar_dag d = parse(text, CLASS_F64);
    double got = diff_of(&d, param, a, b), slope = slope_of(&d, param, a, b);
    if (!(fabs(got - slope) <= 1e-6 * (1 + fabs(slope))))
        fail_msg("d(%s) at %g, %g by parameter %d: %.12g, differences say %.12g", text, a, b, param, got, slope);
}

static void gradients_of_the_library(void **state)
{
    random_state = 1181783497276652981u;
    for (int lib = 0; lib < LIB_COUNT; lib++) {
        const struct scalar_lib_row *row = scalar_lib_row((uint16_t)lib);
        // Steps have no slope where they jump; trigamma has no gradient; nextafter counts as constant.
        if (!row->grad[0] || lib == LIB_floordiv || lib == LIB_nextafter) continue;
        char text[64];
        snprintf(text, sizeof text, row->arity == 1 ? "%s(x)" : "%s(a, b)", row->name);
        for (int i = 0; i < 20; i++) {
            // Away from the edges of the domain, where the step would leave it; remainders keep away from their jumps.
            double width = row->high - row->low, b = 1.7;
            double a = uniform(row->low + 0.05 * width, row->high - 0.05 * width);
            if (width > 40) a = uniform(0.1, 3);
            if (row->arity == 2) b = uniform(0.6, 2.9);
            if (lib == LIB_fmod || lib == LIB_floormod) a = b * (floor(a / b) + uniform(0.1, 0.9));
            check_gradient(text, row->arity == 1 ? 0 : 1, a, b);
            if (row->arity == 2) check_gradient(text, 2, a, b);
        }
    }
}

static void gradients_of_expressions(void **state)
{
    static const char *const texts[] = {
        "a * b + a",
        "a / b",
        "sqrt(a * a + b)",
        "abs(a - b)",
        "max(a, b) * min(a, 1.5)",
        "a > b ? a * a : b * b * a",
        "copysign(a, -b)",
        "s = sigmoid(a); s * s * b",
        "f64(f32(0.5)) * a",
        "mad(a, sin(b), a * b)",
        "exp(sin(a) * b) / (1 + exp(b))",
        "a * a * a * a",
        "-(a - b) * (b - a)",
        "log(a + b) * pow(a, b)",
        "floor(a) * b + trunc(b)",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        check_gradient(texts[i], 1, 1.3, 0.7);
        check_gradient(texts[i], 2, 1.3, 0.7);
        check_gradient(texts[i], 1, 0.4, 2.2);
    }
    // A second derivative: that of the derivative.
    struct scalar_dag d = parse("tanh(a)", CLASS_F64), first, second;
    assert_int_equal(scalar_diff(&arena, &d, 1, 2, &first), KILN_OK);
    assert_int_equal(scalar_diff(&arena, &first, 1, 3, &second), KILN_OK);
    double t = tanh(0.3);
    const union scalar_value in[4] = {{.f64 = 0}, {.f64 = 0.3}, {.f64 = 1}, {.f64 = 1}};
    double got = scalar_eval(&second, in).f64;
    assert_true(fabs(got + 2 * t * (1 - t * t)) < 1e-14);
    // What does not depend on the parameter costs nothing, and dy alone is the gradient of a sum.
    d = parse("exp(b) + a", CLASS_F64);
    assert_int_equal(scalar_diff(&arena, &d, 1, 3, &first), KILN_OK);
    assert_int_equal(first.n_nodes, 1);
    assert_int_equal(first.nodes[0].kind, SCALAR_INPUT);
    assert_int_equal(scalar_diff(&arena, &d, 0, 3, &first), KILN_OK);
    assert_int_equal(first.nodes[first.root].kind, SCALAR_CONST);
    d = parse("rsum(a)", CLASS_F64);
    assert_int_equal(scalar_diff(&arena, &d, 1, 3, &first), KILN_E_UNSUPPORTED);
    kiln_error_clear();
    d = parse("trigamma(a)", CLASS_F64);
    assert_int_equal(scalar_diff(&arena, &d, 1, 3, &first), KILN_E_UNSUPPORTED);
}

// --- emission

static void leaf(struct str *s, const struct scalar_dag *d, int node, void *user)
{
    const struct scalar_node *n = &d->nodes[node];
    static const char *const names[] = {"x", "a", "b"};
    if (n->kind == SCALAR_INPUT)
        str_add(s, names[n->code]);
    else if (n->kind == SCALAR_REDUCE)
        str_addf(s, "sum_of_t%d", n->arg[0]);
    else
        str_add(s, n->code == PRIM_rindex ? "column" : "columns");
}

static void expect_text(const char *text, enum scalar_class cls, enum scalar_target target, const char *expected)
{
    struct scalar_dag d = parse(text, cls);
    struct str s;
    str_init(&s);
    struct scalar_emit e = {.target = target, .indent = "", .leaf = leaf};
    scalar_emit(&s, &d, &e);
    str_add(&s, "-> ");
    scalar_emit_ref(&s, target, &d, d.root);
    assert_string_equal(str_text(&s), expected);
    str_free(&s);
}

static void emitted_text(void **state)
{
    expect_text("a * b + 0.1", CLASS_F32, TARGET_GLSL,
                "precise float t0 = a;\nprecise float t1 = b;\nprecise float t2 = t0 * t1;\n"
                "precise float t4 = t2 + 0.100000001;\n-> t4");
    expect_text("a * b + 0.1", CLASS_F32, TARGET_C,
                "float t0 = a;\nfloat t1 = b;\nfloat t2 = t0 * t1;\nfloat t4 = t2 + 0.100000001f;\n-> t4");
    expect_text("a * -2", CLASS_F64, TARGET_GLSL, "precise double t0 = a;\nprecise double t2 = t0 * (-2.0lf);\n-> t2");
    expect_text("a < inf ? a : 1e-45", CLASS_F32, TARGET_GLSL,
                "precise float t0 = a;\nbool t2 = t0 < intBitsToFloat(int(0x7f800000u));\n"
                "precise float t4 = t2 ? t0 : intBitsToFloat(int(0x00000001u));\n-> t4");
    expect_text("(a << 3) + b", CLASS_I32, TARGET_C,
                "int32_t t0 = a;\nint32_t t2 = (int32_t)((uint32_t)t0 << 3);\nint32_t t3 = b;\n"
                "int32_t t4 = (int32_t)((uint32_t)t2 + (uint32_t)t3);\n-> t4");
    expect_text("a << b", CLASS_I32, TARGET_GLSL,
                "int t0 = a;\nint t1 = b;\nint t2 = uint(t1) < 32u ? t0 << (t1 & 31) : 0;\n-> t2");
    expect_text("a ^ 0x8000000000000000", CLASS_I64, TARGET_GLSL,
                "int64_t t0 = a;\nint64_t t2 = t0 ^ (-9223372036854775807L - 1L);\n-> t2");
    expect_text("a && !b", CLASS_BOOL, TARGET_C,
                "bool t0 = a;\nbool t1 = b;\nbool t2 = !t1;\nbool t3 = t0 & t2;\n-> t3");
    expect_text("3", CLASS_F32, TARGET_C, "float t0 = 3.0f;\n-> 3.0f");
    // What a reduction folds belongs to an earlier stage.
    expect_text("a - rsum(exp(a) * b)", CLASS_F32, TARGET_C,
                "float t0 = a;\nfloat t4 = sum_of_t3;\nfloat t5 = t0 - t4;\n-> t5");
    expect_text("rindex() < rcount()", CLASS_F32, TARGET_GLSL,
                "int64_t t0 = column;\nint64_t t1 = columns;\nbool t2 = t0 < t1;\n-> t2");
}

static void chosen_nodes_are_emitted(void **state)
{
    struct scalar_dag d = parse("(a + b) * x", CLASS_F32);
    uint8_t chosen[5] = {0};
    struct str s;
    str_init(&s);
    struct scalar_emit e = {.target = TARGET_C, .indent = "  ", .leaf = leaf, .skip = chosen};
    chosen[2] = 1;
    scalar_emit(&s, &d, &e);
    assert_string_equal(str_text(&s), "  float t3 = x;\n  float t4 = t2 * t3;\n");
    str_free(&s);
    e.skip = NULL, e.want = chosen;
    scalar_emit(&s, &d, &e);
    assert_string_equal(str_text(&s), "  float t2 = t0 + t1;\n");
    str_free(&s);
}

static void expansion(void **state)
{
    struct scalar_dag d = parse("tanh(a) + f32(exp(f64(b)))", CLASS_F32), e;
    assert_true(scalar_has_lib(&d) && scalar_has_lib_class(&d, CLASS_F32) && scalar_has_lib_class(&d, CLASS_F64));
    assert_false(scalar_has_lib_class(&d, CLASS_I32));
    assert_int_equal(scalar_expand(&arena, &d, &e), KILN_OK);
    assert_false(scalar_has_lib(&e));
    const union scalar_value in[3] = {f32_value(0), f32_value(0.3f), f32_value(0.4f)};
    assert_true(same_f32(scalar_eval(&d, in).f32, scalar_eval(&e, in).f32));
    // A reduction that two calls need is there once.
    struct scalar_dag both = parse("sin(a) + cos(a)", CLASS_F32), one = parse("sin(a)", CLASS_F32);
    assert_int_equal(scalar_expand(&arena, &both, &d), KILN_OK);
    assert_int_equal(scalar_expand(&arena, &one, &e), KILN_OK);
    assert_true(d.n_nodes < e.n_nodes + 12);
}

static void names_of_nodes(void **state)
{
    static const struct {
        const char *text, *op;
        enum scalar_class cls;
    } cases[] = {
        {"a + b", "add", CLASS_F32},
        {"a < b ? a : b", "where", CLASS_F32},
        {"exp(a)", "exp", CLASS_F32},
        {"a & b", "bitwise_and", CLASS_I32},
        {"a && b", "logical_and", CLASS_BOOL},
        {"!a", "logical_not", CLASS_BOOL},
        {"a < b", "less", CLASS_F64},
        {"rint(a)", "round", CLASS_F32},
        {"floordiv(a, b)", "floor_divide", CLASS_I64},
        {"a == b", "equal", CLASS_BOOL},
        {"max(a, b)", "maximum", CLASS_I32},
        {"f64(a)", "cast", CLASS_F32},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct scalar_dag d = parse(cases[i].text, cases[i].cls);
        assert_string_equal(scalar_node_op(&d.nodes[d.root]), cases[i].op);
    }
    struct scalar_dag d = parse("bits(a)", CLASS_F32);
    assert_null(scalar_node_op(&d.nodes[d.root]));
    assert_string_equal(scalar_prim_name(d.nodes[d.root].code), "bits");
    assert_string_equal(scalar_class_name(CLASS_BOOL), "bool");
}

static void blocks(void **state)
{
    enum { N = 1000 };
    static float a[N], b[N];
    static uint8_t mask[N], expected[N];
    static int64_t wide[N];
    for (int i = 0; i < N; i++) a[i] = (float)i * 0.37f - 150, b[i] = (float)(i % 17) - 8;
    struct scalar_dag d = parse("a > b && isfinite(a / b)", CLASS_F32), w = parse("i64(a) << 33", CLASS_F32);
    void *scratch = aligned_alloc(64, scalar_block_scratch_B(&d) + scalar_block_scratch_B(&w));
    assert_non_null(scratch);
    const void *const in[3] = {NULL, a, b};
    scalar_eval_block(&d, in, mask, N, scratch);
    scalar_eval_block(&w, in, wide, N, scratch);
    for (int i = 0; i < N; i++) {
        expected[i] = a[i] > b[i] && b[i] != 0;
        assert_true(wide[i] == (int64_t)((uint64_t)(int64_t)a[i] << 33));
    }
    assert_memory_equal(mask, expected, N);
    // In place, a constant, a bare input.
    d = parse("a * 2", CLASS_F32);
    scalar_eval_block(&d, in, a, N, scratch);
    assert_true(a[999] == 2 * (999 * 0.37f - 150));
    d = parse("7", CLASS_F32);
    scalar_eval_block(&d, in, a, N, scratch);
    assert_true(a[0] == 7 && a[999] == 7);
    d = parse("b", CLASS_F32);
    scalar_eval_block(&d, in, a, N, scratch);
    assert_memory_equal(a, b, sizeof a);
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(grammar, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mistakes_are_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nodes_are_shared_and_ordered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(integers_wrap, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scales_round_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(products_may_meet_sums, set_up, tear_down),
        cmocka_unit_test_setup_teardown(integer_division, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shifts_and_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(float_semantics, set_up, tear_down),
        cmocka_unit_test_setup_teardown(conversions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_row_has_a_reference, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_angles_keep_their_meaning, set_up, tear_down),
        cmocka_unit_test_setup_teardown(library_keeps_its_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(special_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(float_division_and_neighbours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(narrow_floats, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gradients_of_the_library, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gradients_of_expressions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(emitted_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(chosen_nodes_are_emitted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expansion, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_of_nodes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
