// Sums, products, quotients, comparison.
#include "complex/complex.h"

static bool is_complex(const kiln_tensor *t)
{
    return t->shown == SHOWN_COMPLEX;
}

// A real tensor beside pairs.
static kiln_tensor *beside_pairs(kiln_tensor *x)
{
    return x->type.rank ? kiln_unsqueeze(x, -1) : x;
}

static kiln_tensor *sum(const struct complex_call *c) // and difference
{
    kiln_tensor *a = c->in[0], *b = c->in[1];
    if (is_complex(a) && is_complex(b))
        return tensor_as_complex(same_op(c, (kiln_tensor *[]){tensor_as_pairs(a), tensor_as_pairs(b)}));
    kiln_tensor *re = same_op(c, (kiln_tensor *[]){real_part(a), real_part(b)});
    return from_parts(re, same_op(c, (kiln_tensor *[]){imaginary_part(a), imaginary_part(b)}));
}

static kiln_tensor *on_pairs(const struct complex_call *c)
{
    return tensor_as_complex(same_op(c, (kiln_tensor *[]){tensor_as_pairs(c->in[0])}));
}

kiln_tensor *complex_product(kiln_tensor *a, kiln_tensor *b)
{
    if (error_pending) return NULL;
    if (!is_complex(a)) return tensor_as_complex(kiln_mul(beside_pairs(a), tensor_as_pairs(b)));
    if (!is_complex(b)) return tensor_as_complex(kiln_mul(tensor_as_pairs(a), beside_pairs(b)));
    kiln_tensor *ar = real_part(a), *ai = imaginary_part(a), *br = real_part(b), *bi = imaginary_part(b);
    kiln_tensor *re = kiln_sub(kiln_mul(ar, br), kiln_mul(ai, bi));
    return from_parts(re, kiln_add(kiln_mul(ar, bi), kiln_mul(ai, br)));
}

// a / b = a conj(b / s) / |b / s|^2 / s, by the larger part s of b, which keeps squares in range.
kiln_tensor *complex_quotient(kiln_tensor *a, kiln_tensor *b)
{
    if (error_pending) return NULL;
    if (!is_complex(b)) return tensor_as_complex(kiln_div(tensor_as_pairs(a), beside_pairs(b)));
    kiln_tensor *br = real_part(b), *bi = imaginary_part(b);
    kiln_tensor *s = kiln_stop_gradient(kiln_maximum(kiln_abs(br), kiln_abs(bi)));
    kiln_tensor *cr = kiln_div(br, s), *ci = kiln_div(bi, s);
    kiln_tensor *square = kiln_mul(kiln_add(kiln_square(cr), kiln_square(ci)), s);
    if (!is_complex(a)) {
        kiln_tensor *re = kiln_div(kiln_mul(a, cr), square);
        return from_parts(re, kiln_neg(kiln_div(kiln_mul(a, ci), square)));
    }
    kiln_tensor *ar = real_part(a), *ai = imaginary_part(a);
    kiln_tensor *re = kiln_add(kiln_mul(ar, cr), kiln_mul(ai, ci)), *im = kiln_sub(kiln_mul(ai, cr), kiln_mul(ar, ci));
    return from_parts(kiln_div(re, square), kiln_div(im, square));
}

static kiln_tensor *product(const struct complex_call *c)
{
    return complex_product(c->in[0], c->in[1]);
}

static kiln_tensor *quotient(const struct complex_call *c)
{
    return complex_quotient(c->in[0], c->in[1]);
}

static kiln_tensor *reciprocal(const struct complex_call *c)
{
    return complex_quotient(kiln_scalar(1), c->in[0]);
}

static kiln_tensor *square(const struct complex_call *c)
{
    return complex_product(c->in[0], c->in[0]);
}

static kiln_tensor *equal(const struct complex_call *c)
{
    kiln_tensor *a = c->in[0], *b = c->in[1];
    return kiln_logical_and(kiln_equal(real_part(a), real_part(b)), kiln_equal(imaginary_part(a), imaginary_part(b)));
}

static kiln_tensor *not_equal(const struct complex_call *c)
{
    return kiln_logical_not(equal(c));
}

static kiln_tensor *of_any_part(const struct complex_call *c) // isnan, isinf
{
    kiln_tensor *re = same_op(c, (kiln_tensor *[]){real_part(c->in[0])});
    return kiln_logical_or(re, same_op(c, (kiln_tensor *[]){imaginary_part(c->in[0])}));
}

static kiln_tensor *of_both_parts(const struct complex_call *c) // isfinite
{
    kiln_tensor *re = same_op(c, (kiln_tensor *[]){real_part(c->in[0])});
    return kiln_logical_and(re, same_op(c, (kiln_tensor *[]){imaginary_part(c->in[0])}));
}

const struct complex_rule complex_arithmetic[] = {
    {"add", sum},
    {"sub", sum},
    {"neg", on_pairs},
    {"positive", on_pairs},
    {"mul", product},
    {"div", quotient},
    {"reciprocal", reciprocal},
    {"square", square},
    {"equal", equal},
    {"not_equal", not_equal},
    {"isnan", of_any_part},
    {"isinf", of_any_part},
    {"isfinite", of_both_parts},
    {NULL, NULL},
};
