// Complex tensors of constants, and conversions.
#include "complex/complex.h"
#include <string.h>

// The op with the dtype of parts, and no imaginary part.
static kiln_tensor *created(const struct complex_call *c)
{
    struct attr attrs[OP_MAX_ATTRS];
    memcpy(attrs, c->attrs, sizeof *attrs * c->op->n_attrs);
    struct attr *dtype = &attrs[attr_at(c, "dtype")];
    dtype->i = dtype_of_part(dtype->i);
    kiln_tensor *re = same_op_with(c, c->in, attrs);
    return from_parts(re, re ? kiln_zeros_like(re) : NULL);
}

// ones_like, full_like
static kiln_tensor *filled(const struct complex_call *c)
{
    kiln_tensor *in[] = {real_part(c->in[0])}, *re = same_op(c, in);
    return from_parts(re, re ? kiln_zeros_like(re) : NULL);
}

static kiln_tensor *converted(const struct complex_call *c)
{
    int64_t to = c->attrs[attr_at(c, "dtype")].i;
    char text[TYPE_TEXT_MAX];
    if (!dtype_is_complex(to)) {
        error_set(KILN_E_DTYPE, "%s does not become %s: take kiln_real or kiln_abs of it",
                  tensor_text(c->in[0], text, sizeof text), dtype_name((unsigned)to));
        return NULL;
    }
    kiln_dtype part = (kiln_dtype)dtype_of_part(to);
    if (c->in[0]->shown == SHOWN_COMPLEX) return tensor_as_complex(kiln_cast(tensor_as_pairs(c->in[0]), part));
    kiln_tensor *re = kiln_cast(c->in[0], part);
    return from_parts(re, re ? kiln_zeros_like(re) : NULL);
}

const struct complex_rule complex_create[] = {
    {"zeros", created},    {"ones", created},   {"full", created},     {"full_int", created},
    {"eye", created},      {"arange", created}, {"linspace", created}, {"ones_like", filled},
    {"full_like", filled}, {"cast", converted}, {NULL, NULL},
};
