// Numbers of 8 and 4 bits: bytes, by the bits of wider ones.
#include "base/dtype.h"
#include "compose/composite.h"

#include <math.h>
#include <string.h>

// Sign, exponent, significand, as of the wide floats; without infinities the last number stands where they would.
struct small_float {
    const char *name;
    int digits, bias; // bits of the significand; exponents are stored plus bias
    int largest, nan; // codes without a sign
    int infinity;     // 0: none
};
static const struct small_float formats[] = {
    {"e4m3fn", 3, 7, 0x7e, 0x7f, 0},
    {"e5m2", 2, 15, 0x7b, 0x7f, 0x7c},
};

static const struct small_float *format_of(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (!name || !strcmp(name, formats[i].name)) return &formats[i];
    error_set(KILN_E_ARGUMENT, "unknown .format \"%s\"; there are \"e4m3fn\" and \"e5m2\"", name);
    return NULL;
}

// The float in whose bits the work is done.
struct wide_float {
    kiln_dtype dtype, bits;
    int digits, bias, width;
    int64_t magnitude; // all bits but the sign
};

static struct wide_float wide_of(kiln_dtype dtype)
{
    return dtype == KILN_F64 ? (struct wide_float){KILN_F64, KILN_I64, 52, 1023, 64, INT64_MAX}
                             : (struct wide_float){KILN_F32, KILN_I32, 23, 127, 32, INT32_MAX};
}

static kiln_tensor *number(int64_t v)
{
    return kiln_scalar_int(v);
}

// The code of a normal number with these bits: half of what is cut off is added, less one bit where the last that stays
// is 0. A carry goes into the exponent, as it should.
static kiln_tensor *normal_code(kiln_tensor *bits, const struct wide_float *w, const struct small_float *f)
{
    int cut = w->digits - f->digits;
    kiln_tensor *last = kiln_bitwise_and(kiln_bitwise_right_shift(bits, number(cut)), number(1));
    kiln_tensor *nearest = kiln_add(kiln_add(bits, number((INT64_C(1) << (cut - 1)) - 1)), last);
    return kiln_sub(kiln_bitwise_right_shift(nearest, number(cut)), number((int64_t)(w->bias - f->bias) << f->digits));
}

kiln_tensor *compose_to_float8(kiln_tensor *x, const kiln_float8_opts *o)
{
    const struct small_float *f = format_of(o->format);
    if (!f) return NULL;
    if (!dtype_is_float(kiln_tensor_dtype(x))) {
        error_set(KILN_E_DTYPE, "takes floats, x is %s", type_of(x).s);
        return NULL;
    }
    struct wide_float w = wide_of(kiln_tensor_dtype(x));
    kiln_tensor *wide = kiln_cast(x, w.dtype), *all = kiln_bitcast(wide, w.bits);
    int64_t infinity = (INT64_C(2) * w.bias + 1) << w.digits;
    kiln_tensor *bits = kiln_bitwise_and(all, number(w.magnitude));
    // Below the least normal number codes count its steps.
    kiln_tensor *steps = kiln_round(kiln_mul(kiln_abs(wide), kiln_scalar(ldexp(1, f->bias - 1 + f->digits))));
    kiln_tensor *is_small = kiln_less(bits, number((int64_t)(w.bias - f->bias + 1) << w.digits));
    kiln_tensor *code = kiln_where(is_small, kiln_cast(steps, w.bits), normal_code(bits, &w, f));
    code = kiln_minimum(code, number(f->largest));
    code = kiln_where(kiln_greater(bits, number(infinity)), number(f->nan), code);
    kiln_tensor *sign = kiln_bitwise_and(kiln_bitwise_right_shift(all, number(w.width - 8)), number(0x80));
    return kiln_cast(kiln_bitwise_or(code, sign), KILN_U8);
}

static bool takes_bytes(kiln_tensor *x)
{
    if (kiln_tensor_dtype(x) == KILN_U8) return true;
    error_set(KILN_E_DTYPE, "takes u8, x is %s", type_of(x).s);
    return false;
}

kiln_tensor *compose_from_float8(kiln_tensor *x, kiln_dtype dtype, const kiln_float8_opts *o)
{
    const struct small_float *f = format_of(o->format);
    if (!f || !takes_bytes(x)) return NULL;
    if (!dtype_is_float(dtype)) {
        error_set(KILN_E_DTYPE, "dtype must be a float, it is %s", kiln_dtype_name(dtype));
        return NULL;
    }
    struct wide_float w = wide_of(KILN_F32);
    kiln_tensor *all = kiln_cast(x, w.bits), *code = kiln_bitwise_and(all, number(0x7f));
    kiln_tensor *placed = kiln_bitwise_left_shift(code, number(w.digits - f->digits));
    kiln_tensor *normal = kiln_add(placed, number((int64_t)(w.bias - f->bias) << w.digits));
    kiln_tensor *steps = kiln_mul(kiln_cast(code, w.dtype), kiln_scalar(ldexp(1, 1 - f->bias - f->digits)));
    kiln_tensor *is_small = kiln_less(code, number(INT64_C(1) << f->digits));
    kiln_tensor *y = kiln_where(is_small, steps, kiln_bitcast(normal, w.dtype));
    if (f->infinity) y = kiln_where(kiln_equal(code, number(f->infinity)), kiln_scalar(INFINITY), y);
    y = kiln_where(kiln_greater(code, number(f->infinity ? f->infinity : f->largest)), kiln_scalar(NAN), y);
    return kiln_cast(kiln_where(kiln_greater(all, code), kiln_neg(y), y), dtype);
}

static bool takes_pairs(kiln_tensor *x)
{
    kiln_dtype dtype = kiln_tensor_dtype(x);
    if (dtype != KILN_U8 && dtype != KILN_I8)
        error_set(KILN_E_DTYPE, "takes u8 or i8, x is %s", type_of(x).s);
    else if (kiln_rank(x) == 0 || kiln_dims(x)[kiln_rank(x) - 1] % 2)
        error_set(KILN_E_SHAPE, "takes a last axis of even size, x is %s", type_of(x).s);
    return !error_pending;
}

kiln_tensor *compose_pack_int4(kiln_tensor *x)
{
    if (!takes_pairs(x)) return NULL;
    size_t rank = kiln_rank(x);
    int64_t half = kiln_dims(x)[rank - 1] / 2;
    kiln_tensor *pairs = kiln_unflatten(kiln_bitcast(x, KILN_U8), -1, KILN_SHAPE(half, 2));
    kiln_tensor *low = kiln_bitwise_and(kiln_select(pairs, -1, 0), number(15));
    return kiln_bitwise_or(low, kiln_bitwise_left_shift(kiln_select(pairs, -1, 1), number(4)));
}

kiln_tensor *compose_unpack_int4(kiln_tensor *x, kiln_dtype dtype)
{
    if (!takes_bytes(x)) return NULL;
    if (dtype != KILN_U8 && dtype != KILN_I8) {
        error_set(KILN_E_DTYPE, "dtype must be u8 or i8, it is %s", kiln_dtype_name(dtype));
        return NULL;
    }
    if (kiln_rank(x) == 0) {
        error_set(KILN_E_SHAPE, "takes rank 1 or more, x is %s", type_of(x).s);
        return NULL;
    }
    // A byte with the number in its upper half; what is signed spreads its sign on the way down.
    kiln_tensor *upper[] = {kiln_bitcast(kiln_bitwise_left_shift(x, number(4)), dtype),
                            kiln_bitcast(kiln_bitwise_and(x, number(0xf0)), dtype)};
    return kiln_flatten(kiln_bitwise_right_shift(kiln_stack(upper, 2, -1), number(4)), -2, -1);
}
