// The scalar language: grammar, semantics of the primitives, derivatives, emitted text.
#include "scalar_fixture.h"
#include "scalar/lib.h"

#include <float.h>
#include <stdio.h>

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
    assert_true(same_f32(f32_of("scale_down(a, b)", 1.5f, bias - 4), 0.09375f));
    assert_true(same_f32(f32_of("scale_down(a, b)", 1, bias - 149), 0x1p-149f));
    assert_true(same_f32(f32_of("scale_down(a, b)", -1.5f, bias - 149), -0x1p-148f));
    assert_true(same_f32(f32_of("scale_down(a, b)", 0x1.000002p0f, bias - 150), 0x1p-149f));
    assert_true(isnan(f32_of("scale_down(a, b)", NAN, bias)));
    assert_true(isnan(
        f32_of("scale_down(a, b)", f32_of("from_bits(0x7fc00001)", 0, 0), f32_of("from_bits(0x7fc00001)", 0, 0))));
    const float vanishing[] = {bias - 151, 1, -1e30f, -INFINITY}, any[] = {1, INFINITY, NAN};
    for (size_t i = 0; i < COUNT_OF(vanishing) * COUNT_OF(any); i++) {
        float a = any[i % COUNT_OF(any)], b = vanishing[i / COUNT_OF(any)];
        assert_true(same_f32(f32_of("scale(a, b)", a, b), 0) && same_f32(f32_of("scale_down(a, b)", a, b), 0));
    }
}

static void errors_of_squares_are_exact(void **state)
{
    const float numbers[] = {1.1f, -1.7f, 3.14159274f, 0x1.fffffep0f, 0.500001f, 12345.678f, 1e15f};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        float a = numbers[i], square = a * a;
        float error = (float)((double)a * (double)a - (double)square);
        if (!same_f32(f32_of("square_error(a, b)", a, square), error)) fail_msg("%a", (double)a);
        double wide = 1.0 / (double)a, rounded = wide * wide;
        if (f64_of("square_error(a, b)", wide, rounded) != fma(wide, wide, -rounded)) fail_msg("%a", wide);
    }
    assert_true(isnan(f32_of("square_error(a, b)", NAN, NAN)));
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
        // Steps have no slope where they jump; tetragamma has no gradient; nextafter counts as constant.
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
    d = parse("tetragamma(a)", CLASS_F64);
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
    assert_true(d.n_nodes < e.n_nodes + 60);
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
        CASE(grammar),
        CASE(mistakes_are_reported),
        CASE(nodes_are_shared_and_ordered),
        CASE(integers_wrap),
        CASE(scales_round_once),
        CASE(errors_of_squares_are_exact),
        CASE(products_may_meet_sums),
        CASE(integer_division),
        CASE(shifts_and_bits),
        CASE(float_semantics),
        CASE(conversions),
        CASE(gradients_of_the_library),
        CASE(gradients_of_expressions),
        CASE(emitted_text),
        CASE(chosen_nodes_are_emitted),
        CASE(expansion),
        CASE(names_of_nodes),
        CASE(blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
