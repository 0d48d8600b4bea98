// Functions of elements that are few steps of others.
#include "compose/composite.h"
#include "base/dtype.h"

#include <float.h>
#include <kiln/control.h>
#include <math.h>

kiln_tensor *compose_addcdiv(kiln_tensor *x, kiln_tensor *a, kiln_tensor *b)
{
    return kiln_add(x, kiln_div(a, b));
}

static kiln_dtype promoted(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_tensor_dtype(kiln_where(kiln_scalar_bool(true), a, b));
}

kiln_tensor *compose_heaviside(kiln_tensor *x, kiln_tensor *at_zero)
{
    kiln_tensor *above = kiln_cast(kiln_greater(x, kiln_scalar_int(0)), promoted(x, at_zero));
    kiln_tensor *y = kiln_where(kiln_equal(x, kiln_scalar_int(0)), at_zero, above);
    return dtype_is_float(kiln_tensor_dtype(x)) ? kiln_where(kiln_isnan(x), x, y) : y;
}

static double largest(kiln_dtype dtype)
{
    return dtype == KILN_F64 ? DBL_MAX : dtype == KILN_F16 ? 65504 : dtype == KILN_BF16 ? 0x1.fep127 : FLT_MAX;
}

kiln_tensor *compose_nan_to_num(kiln_tensor *x, double nan, double posinf, double neginf)
{
    kiln_dtype dtype = kiln_tensor_dtype(x);
    if (error_pending) return NULL;
    if (!dtype_is_float(dtype)) return kiln_alias(x);
    double most = largest(dtype);
    kiln_tensor *high = kiln_scalar(posinf == INFINITY ? most : posinf);
    kiln_tensor *low = kiln_scalar(neginf == -INFINITY ? -most : neginf);
    kiln_tensor *y = kiln_where(kiln_isnan(x), kiln_scalar(nan), x);
    y = kiln_where(kiln_equal(x, kiln_scalar(INFINITY)), high, y);
    return kiln_where(kiln_equal(x, kiln_scalar(-INFINITY)), low, y);
}

static kiln_tensor *without_nan(kiln_tensor *a, kiln_tensor *b, kiln_tensor *y)
{
    if (dtype_is_float(kiln_tensor_dtype(b))) y = kiln_where(kiln_isnan(b), a, y);
    if (dtype_is_float(kiln_tensor_dtype(a))) y = kiln_where(kiln_isnan(a), b, y);
    return y;
}

kiln_tensor *compose_fmax(kiln_tensor *a, kiln_tensor *b)
{
    return without_nan(a, b, kiln_maximum(a, b));
}

kiln_tensor *compose_fmin(kiln_tensor *a, kiln_tensor *b)
{
    return without_nan(a, b, kiln_minimum(a, b));
}

static kiln_tensor *is_infinity(kiln_tensor *x, double which)
{
    if (dtype_is_float(kiln_tensor_dtype(x))) return kiln_equal(x, kiln_scalar(which));
    return kiln_cast(kiln_zeros_like(x), KILN_BOOL);
}

kiln_tensor *compose_isposinf(kiln_tensor *x)
{
    return is_infinity(x, INFINITY);
}

kiln_tensor *compose_isneginf(kiln_tensor *x)
{
    return is_infinity(x, -INFINITY);
}

// a less its remainder is divided without one.
kiln_tensor *compose_trunc_divide(kiln_tensor *a, kiln_tensor *b)
{
    if (dtype_is_float(promoted(a, b))) return kiln_trunc(kiln_div(a, b));
    return kiln_floor_divide(kiln_sub(a, kiln_fmod(a, b)), b);
}

kiln_status compose_divmod(kiln_tensor *a, kiln_tensor *b, kiln_tensor **quotient, kiln_tensor **rest)
{
    *quotient = kiln_floor_divide(a, b);
    *rest = kiln_remainder(a, b);
    return kiln_error();
}

kiln_status compose_modf(kiln_tensor *x, kiln_tensor **fraction, kiln_tensor **whole)
{
    *fraction = kiln_where(kiln_isinf(x), kiln_copysign(kiln_scalar(0), x), kiln_frac(x));
    *whole = kiln_trunc(x);
    return kiln_error();
}

kiln_tensor *compose_float_power(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_pow(kiln_cast(a, KILN_F64), kiln_cast(b, KILN_F64));
}

// In two factors: each is a number where the result is one.
kiln_tensor *compose_ldexp(kiln_tensor *x, kiln_tensor *n)
{
    if (!error_pending && dtype_is_float(kiln_tensor_dtype(n)))
        error_set(KILN_E_DTYPE, "n must be integers, it is %s", type_of(n).s);
    kiln_dtype dtype = kiln_tensor_dtype(x);
    kiln_dtype wide = dtype == KILN_F64 ? KILN_F64 : KILN_F32;
    kiln_tensor *most = kiln_scalar_int(wide == KILN_F64 ? 2200 : 300);
    kiln_tensor *m = kiln_clip(kiln_cast(n, KILN_I32), kiln_neg(most), most);
    kiln_tensor *part = kiln_floor_divide(m, kiln_scalar_int(3)),
                *rest = kiln_sub(m, kiln_mul(part, kiln_scalar_int(2)));
    kiln_tensor *third = kiln_exp2(kiln_cast(part, wide)), *last = kiln_exp2(kiln_cast(rest, wide));
    kiln_tensor *y = kiln_mul(kiln_mul(kiln_mul(kiln_cast(x, wide), third), third), last);
    return dtype_is_float(dtype) ? kiln_cast(y, dtype) : y;
}

// The exponent by log2, which may be off by one where x is near a power of two.
kiln_status compose_frexp(kiln_tensor *x, kiln_tensor **mantissa, kiln_tensor **exponent)
{
    kiln_dtype dtype = kiln_tensor_dtype(x), wide = dtype == KILN_F64 ? KILN_F64 : KILN_F32;
    if (error_pending) return kiln_error();
    double tiny = wide == KILN_F64 ? 0x1p-900 : 0x1p-60, lift = wide == KILN_F64 ? 100 : 64;
    kiln_tensor *one = kiln_scalar(1), *v = kiln_cast(x, wide), *a = kiln_stop_gradient(kiln_abs(v));
    kiln_tensor *plain = kiln_logical_and(kiln_isfinite(a), kiln_greater(a, kiln_scalar(0)));
    kiln_tensor *small = kiln_less(a, kiln_scalar(tiny));
    a = kiln_where(plain, kiln_where(small, kiln_mul(a, kiln_scalar(exp2(lift))), a), one);
    kiln_tensor *e = kiln_floor(kiln_log2(a)); // |e| is small enough for one factor each way
    kiln_tensor *half = kiln_floor(kiln_mul(e, kiln_scalar(0.5)));
    kiln_tensor *m = kiln_mul(kiln_mul(a, kiln_exp2(kiln_neg(half))), kiln_exp2(kiln_sub(half, e)));
    kiln_tensor *up = kiln_greater_equal(m, kiln_scalar(2)), *down = kiln_less(m, one);
    e = kiln_add(e, kiln_sub(kiln_cast(up, wide), kiln_cast(down, wide)));
    e = kiln_sub(kiln_add(e, one), kiln_where(small, kiln_scalar(lift), kiln_scalar(0)));
    e = kiln_cast(kiln_where(plain, e, kiln_scalar(0)), KILN_I32);
    *exponent = e;
    *mantissa = kiln_where(plain, kiln_ldexp(x, kiln_neg(e)), x);
    return kiln_error();
}

// |x| - x / 2 ... by sums of ever wider fields, in 64 bits.
kiln_tensor *compose_bitwise_count(kiln_tensor *x)
{
    kiln_dtype dtype = kiln_tensor_dtype(x);
    if (!error_pending && dtype_is_float(dtype)) error_set(KILN_E_DTYPE, "takes integers, x is %s", type_of(x).s);
    static const int64_t masks[] = {0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f};
    // The least i64 has no absolute value: it stays itself, whose one bit is the highest.
    kiln_tensor *v = kiln_cast(x, KILN_I64);
    v = kiln_abs(v);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *mask = kiln_scalar_int(masks[i]), *high = kiln_bitwise_right_shift(v, kiln_scalar_int(1 << i));
        v = kiln_add(kiln_bitwise_and(v, mask), kiln_bitwise_and(high, mask));
    }
    v = kiln_bitwise_right_shift(kiln_mul(v, kiln_scalar_int(0x0101010101010101)), kiln_scalar_int(56));
    return kiln_cast(kiln_bitwise_and(v, kiln_scalar_int(127)), KILN_U8);
}

static bool integers(kiln_tensor *a, kiln_tensor *b)
{
    if (error_pending) return false;
    if (dtype_info[kiln_tensor_dtype(a)].kind != KIND_INT || dtype_info[kiln_tensor_dtype(b)].kind != KIND_INT)
        error_set(KILN_E_DTYPE, "takes integers, a is %s, b is %s", type_of(a).s, type_of(b).s);
    return !error_pending;
}

static kiln_status is_left(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_any(in[1], NULL);
    (void)user, (void)n_in, (void)n_out;
    return kiln_error();
}

static kiln_status euclid(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *done = kiln_equal(in[1], kiln_scalar_int(0));
    out[0] = kiln_where(done, in[0], in[1]);
    out[1] = kiln_where(done, in[1], kiln_fmod(in[0], in[1]));
    (void)user, (void)n_in, (void)n_out;
    return kiln_error();
}

// Euclid's: at most 92 trips in 64 bits, until all elements have ended.
static kiln_tensor *divisor(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *sum = kiln_add(a, b), *out[2];
    if (error_pending) return NULL;
    kiln_dtype dtype = kiln_tensor_dtype(sum);
    kiln_tensor *in[2] = {kiln_cast(a, KILN_I64), kiln_cast(b, KILN_I64)};
    for (int i = 0; i < 2 && !error_pending; i++)
        in[i] = kiln_contiguous(kiln_expand(in[i], kiln_rank(sum), kiln_dims(sum)));
    kiln_while(is_left, euclid, NULL, in, 2, NULL, out, 2);
    return kiln_cast(kiln_abs(out[0]), dtype);
}

kiln_tensor *compose_gcd(kiln_tensor *a, kiln_tensor *b)
{
    return integers(a, b) ? divisor(a, b) : NULL;
}

kiln_tensor *compose_lcm(kiln_tensor *a, kiln_tensor *b)
{
    if (!integers(a, b)) return NULL;
    return kiln_abs(kiln_mul(kiln_floor_divide(a, divisor(a, b)), b)); // 0 / 0 is 0
}

kiln_tensor *compose_sequence_mask(kiln_tensor *lengths, int64_t size)
{
    if (!error_pending && dtype_info[kiln_tensor_dtype(lengths)].kind != KIND_INT)
        error_set(KILN_E_DTYPE, "lengths must be integers, it is %s", type_of(lengths).s);
    if (!error_pending && size < 0) error_set(KILN_E_SHAPE, "size is %lld", (long long)size);
    if (error_pending) return NULL;
    kiln_tensor *at = kiln_arange(kiln_tensor_device(lengths), KILN_I64, 0, (double)size, 1);
    return kiln_less(at, kiln_unsqueeze(lengths, -1));
}

// base^t of evenly spaced t.
static kiln_tensor *powers(kiln_device *dev, kiln_dtype dtype, double start, double stop, int64_t count, double base)
{
    if (!dtype_is_float(dtype)) error_set(KILN_E_DTYPE, "makes floats, not %s", kiln_dtype_name(dtype));
    if (!(base > 0 && base < INFINITY)) error_set(KILN_E_ARGUMENT, "base must be positive, it is %g", base);
    if (error_pending) return NULL;
    return kiln_cast(kiln_pow(kiln_scalar(base), kiln_linspace(dev, KILN_F64, start, stop, count)), dtype);
}

kiln_tensor *compose_logspace(kiln_device *dev, kiln_dtype dtype, double start, double stop, int64_t count, double base)
{
    return powers(dev, dtype, start, stop, count, base);
}

kiln_tensor *compose_geomspace(kiln_device *dev, kiln_dtype dtype, double start, double stop, int64_t count)
{
    if (!(start * stop > 0 && fabs(start) < INFINITY && fabs(stop) < INFINITY))
        error_set(KILN_E_ARGUMENT, "start and stop must have one sign, they are %g and %g", start, stop);
    kiln_tensor *t = powers(dev, dtype, log2(fabs(start)), log2(fabs(stop)), count, 2);
    return start < 0 ? kiln_neg(t) : t;
}
