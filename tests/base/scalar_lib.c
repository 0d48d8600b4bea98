// The library of the scalar language against the C library: bounds of its functions, special values, narrow floats.
#include "scalar_fixture.h"
#include "base/float16.h"
#include "scalar/lib.h"

#include <float.h>
#include <stdio.h>

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

static real tetragamma_reference(real x)
{
    static const real b[] = {0.5L, -1 / 6.0L, 1 / 6.0L, -0.3L, 5 / 6.0L, -8983 / 2730.0L, 17.5L};
    real r = 0, s = 0;
    for (; x < 25; x += 1) r += 2 / (x * x * x);
    for (int i = 6; i >= 0; i--) s = (s + b[i]) / (x * x);
    return -(r + (1 + 1 / x + s) / (x * x));
}

static real erfcx_reference(real x)
{
    if (isnan(x) || x < 6) return expl(x * x) * erfcl(x);
    real f = x;
    for (int k = 120; k >= 1 && !isinf(x); k--) f = x + k / (2 * f);
    return 0.56418958354775628694807945156077L / f;
}

// The trapezoidal rule for the integral of exp(|x| (cos t - 1)) over half a turn, times cos t for order 1 (by parts, so
// that nothing cancels: x sin(t)^2); far out it has no terms to cancel, and the asymptotic series is exact.
static real bessel_reference(real x, int order)
{
    real a = fabsl(x), sum = 0, term = 1;
    if (isnan(x) || (order && x == 0)) return x;
    if (a > 60) {
        for (int k = 1; k < 30; k++) {
            sum += term;
            term *= -((real)(4 * order) - (real)((2 * k - 1) * (2 * k - 1))) / (8 * (real)k * a);
        }
        sum /= sqrtl(6.28318530717958647692528676656L * a);
        return order ? copysignl(sum, x) : sum;
    }
    enum { N = 400 };
    for (int i = 0; i <= N; i++) {
        real t = 3.14159265358979323846264338328L * i / N, s = sinl(t), half = sinl(t / 2);
        sum += (i == 0 || i == N ? 0.5L : 1) * expl(-2 * a * half * half) * (order ? x * s * s : 1);
    }
    return sum / N;
}

static real i0e_reference(real x)
{
    return bessel_reference(x, 0);
}

static real i1e_reference(real x)
{
    return bessel_reference(x, 1);
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
    {"exp", .one = expl}, {"exp_down", .one = expl, .low = -INFINITY, .high = 0},
    {"half_exp", .one = half_exp_reference}, {"exp2", .one = exp2l}, {"expm1", .one = expm1l},
    {"log", .one = logl}, {"log2", .one = log2l}, {"log10", .one = log10l}, {"log1p", .one = log1pl},
    {"sin", .one = sinl}, {"cos", .one = cosl},
    {"sin_near", .one = sinl, .low = -3200, .high = 3200}, {"cos_near", .one = cosl, .low = -3200, .high = 3200},
    {"tan_near", .one = tanl, .low = -3200, .high = 3200},
    {"tan", .one = tanl}, {"asin", .one = asinl}, {"acos", .one = acosl},
    {"atan", .one = atanl}, {"atan2", .two = atan2l}, {"sinh", .one = sinhl}, {"cosh", .one = coshl},
    {"tanh", .one = tanhl}, {"asinh", .one = asinhl}, {"acosh", .one = acoshl}, {"atanh", .one = atanhl},
    {"sigmoid", .one = sigmoid_reference}, {"logaddexp", .two = logaddexp_reference, .bound = 2, .least = 1, -80, 80},
    {"erfc_tail", .one = erfcl, .low = 0.5, .high = 30}, {"erf", .one = erfl}, {"erfc", .one = erfcl},
    {"erfinv", .one = erfinv_reference}, {"pow", .two = powl}, {"cbrt", .one = cbrtl}, {"hypot", .two = hypotl},
    {"lgamma", .one = lgammal, .low = 0, .high = 1e30},
    {"digamma", .one = digamma_reference, .bound = 8, .least = 1, .low = 1e-3, .high = 1e6},
    {"trigamma", .one = trigamma_reference, .bound = 8, .low = 1e-3, .high = 1e6},
    {"tetragamma", .one = tetragamma_reference, .bound = 16, .low = 1e-3, .high = 1e6},
    {"erfcx", .one = erfcx_reference}, {"i0e", .one = i0e_reference}, {"i1e", .one = i1e_reference},
    {"fmod", .two = fmodl, .bound = 1e-30}, {"floormod", .two = floormod_reference, .bound = 0.51},
};
// clang-format on

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_row_has_a_reference),     CASE(large_angles_keep_their_meaning),
        CASE(library_keeps_its_bounds),      CASE(special_values),
        CASE(float_division_and_neighbours), CASE(narrow_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
