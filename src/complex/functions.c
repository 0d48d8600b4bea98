// Magnitude, exponentials, logarithms, roots, trigonometry: principal values (Kahan, Branch cuts for complex elementary
// functions, 1987).
#include "complex/complex.h"

static kiln_tensor *is_zero(kiln_tensor *z)
{
    kiln_tensor *zero = kiln_scalar(0);
    return kiln_logical_and(kiln_equal(real_part(z), zero), kiln_equal(imaginary_part(z), zero));
}

kiln_tensor *complex_magnitude(kiln_tensor *z)
{
    kiln_tensor *none = is_zero(z), *safe = kiln_where(none, kiln_scalar(1), real_part(z));
    return kiln_where(none, kiln_scalar(0), kiln_hypot(safe, imaginary_part(z)));
}

kiln_tensor *complex_angle(kiln_tensor *z)
{
    return kiln_atan2(imaginary_part(z), real_part(z));
}

static kiln_tensor *magnitude(const struct complex_call *c)
{
    return complex_magnitude(c->in[0]);
}

// z / |z|, 0 at 0.
static kiln_tensor *sign(const struct complex_call *c)
{
    kiln_tensor *none = is_zero(c->in[0]), *size = kiln_where(none, kiln_scalar(1), complex_magnitude(c->in[0]));
    return complex_quotient(c->in[0], size);
}

static kiln_tensor *exponential(kiln_tensor *z)
{
    kiln_tensor *size = kiln_exp(real_part(z)), *angle = imaginary_part(z);
    return from_parts(kiln_mul(size, kiln_cos(angle)), kiln_mul(size, kiln_sin(angle)));
}

static kiln_tensor *logarithm(kiln_tensor *z)
{
    return from_parts(kiln_log(complex_magnitude(z)), complex_angle(z));
}

static kiln_tensor *exp_of(const struct complex_call *c)
{
    return exponential(c->in[0]);
}

static kiln_tensor *log_of(const struct complex_call *c)
{
    return logarithm(c->in[0]);
}

// With s = sqrt((|z| + |re|) / 2): s + i im / 2 s on the right, |im| / 2 s + i s with im's sign on the left.
static kiln_tensor *sqrt_of(const struct complex_call *c)
{
    kiln_tensor *re = real_part(c->in[0]), *im = imaginary_part(c->in[0]), *none = is_zero(c->in[0]);
    kiln_tensor *safe = kiln_where(none, kiln_scalar(1), re);
    kiln_tensor *half = kiln_mul(kiln_add(kiln_hypot(safe, im), kiln_abs(safe)), kiln_scalar(0.5));
    kiln_tensor *s = kiln_sqrt(half), *other = kiln_div(im, kiln_mul(s, kiln_scalar(2)));
    kiln_tensor *right = kiln_logical_not(kiln_signbit(safe));
    kiln_tensor *x = kiln_where(right, s, kiln_abs(other)), *y = kiln_where(right, other, kiln_copysign(s, im));
    return from_parts(kiln_where(none, kiln_scalar(0), x), kiln_where(none, im, y));
}

static kiln_tensor *sin_of(const struct complex_call *c)
{
    kiln_tensor *re = real_part(c->in[0]), *im = imaginary_part(c->in[0]);
    return from_parts(kiln_mul(kiln_sin(re), kiln_cosh(im)), kiln_mul(kiln_cos(re), kiln_sinh(im)));
}

static kiln_tensor *cos_of(const struct complex_call *c)
{
    kiln_tensor *re = real_part(c->in[0]), *im = imaginary_part(c->in[0]);
    return from_parts(kiln_mul(kiln_cos(re), kiln_cosh(im)), kiln_neg(kiln_mul(kiln_sin(re), kiln_sinh(im))));
}

static kiln_tensor *sinh_of(const struct complex_call *c)
{
    kiln_tensor *re = real_part(c->in[0]), *im = imaginary_part(c->in[0]);
    return from_parts(kiln_mul(kiln_sinh(re), kiln_cos(im)), kiln_mul(kiln_cosh(re), kiln_sin(im)));
}

static kiln_tensor *cosh_of(const struct complex_call *c)
{
    kiln_tensor *re = real_part(c->in[0]), *im = imaginary_part(c->in[0]);
    return from_parts(kiln_mul(kiln_cosh(re), kiln_cos(im)), kiln_mul(kiln_sinh(re), kiln_sin(im)));
}

// With t = tanh(re), u = tan(im): (t + i u) / (1 + i t u).
static kiln_tensor *tanh_of(const struct complex_call *c)
{
    kiln_tensor *t = kiln_tanh(real_part(c->in[0])), *u = kiln_tan(imaginary_part(c->in[0]));
    return complex_quotient(from_parts(t, u), from_parts(kiln_scalar(1), kiln_mul(t, u)));
}

// exp(b log(a)); where a is 0: 1 for b = 0, else 0.
static kiln_tensor *pow_of(const struct complex_call *c)
{
    kiln_tensor *a = c->in[0], *b = c->in[1];
    if (a->shown != SHOWN_COMPLEX) a = from_parts(a, kiln_scalar(0));
    if (error_pending) return NULL;
    kiln_tensor *none = is_zero(a),
                *safe = from_parts(kiln_where(none, kiln_scalar(1), real_part(a)), imaginary_part(a));
    kiln_tensor *value = exponential(complex_product(b, logarithm(safe)));
    kiln_tensor *zero = kiln_scalar(0);
    kiln_tensor *one = kiln_logical_and(kiln_equal(real_part(b), zero), kiln_equal(imaginary_part(b), zero));
    kiln_tensor *re = kiln_where(none, kiln_where(one, kiln_scalar(1), zero), real_part(value));
    return from_parts(re, kiln_where(none, zero, imaginary_part(value)));
}

// Of the magnitudes.
static kiln_tensor *norm_of(const struct complex_call *c)
{
    return same_op(c, (kiln_tensor *[]){complex_magnitude(c->in[0])});
}

const struct complex_rule complex_functions[] = {
    {"abs", magnitude}, {"sign", sign},    {"exp", exp_of},   {"log", log_of},   {"sqrt", sqrt_of},
    {"sin", sin_of},    {"cos", cos_of},   {"sinh", sinh_of}, {"cosh", cosh_of}, {"tanh", tanh_of},
    {"pow", pow_of},    {"norm", norm_of}, {NULL, NULL},
};
