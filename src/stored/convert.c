// Storage dtypes from numbers and back: by the composites that work on bytes.
#include "grad/tape.h"
#include "stored/stored.h"
#include <kiln/composites.h>
#include <string.h>

static const char *format_of(enum shown_as shown)
{
    return shown == SHOWN_F8_E4M3 ? "e4m3fn" : "e5m2";
}

// What has no gradient must not be met by one without a word.
static bool takes(kiln_tensor *x, kiln_dtype to)
{
    char text[TYPE_TEXT_MAX];
    if (x->shown == SHOWN_COMPLEX) {
        error_set(KILN_E_DTYPE, "%s does not become %s: take kiln_real or kiln_abs of it",
                  tensor_text(x, text, sizeof text), dtype_name(to));
    } else if (!thread_state.no_grad && dtype_is_stored(to) && (node_is_cut(x->node) || tensor_requires_grad(x)))
        error_set(KILN_E_GRADIENT,
                  "x, %s, requires a gradient, which does not come through %s: take kiln_stop_gradient "
                  "of it",
                  tensor_text(x, text, sizeof text), dtype_name(to));
    return !error_pending;
}

// Floats are cut off to an integer and saturate, integers lose their upper bits: as other casts to integers do.
static kiln_tensor *in_four_bits(kiln_tensor *x, bool is_signed)
{
    bool of_floats = dtype_is_float(x->type.dtype);
    kiln_tensor *y = kiln_cast(x, is_signed || !of_floats ? KILN_I8 : KILN_U8);
    if (!of_floats) return y;
    y = kiln_minimum(y, kiln_scalar_int(is_signed ? 7 : 15));
    return is_signed ? kiln_maximum(y, kiln_scalar_int(-8)) : y;
}

static kiln_tensor *encoded(kiln_tensor *x, enum shown_as shown)
{
    char text[TYPE_TEXT_MAX];
    if (!shown_is_packed(shown)) {
        if (!dtype_is_float(x->type.dtype)) x = kiln_cast(x, KILN_F32); // past 2^24 all is saturated
        return tensor_shown_as(kiln_to_float8(x, KILN_FLOAT8(.format = format_of(shown))), shown);
    }
    if (x->type.rank == 0 || x->type.dims[x->type.rank - 1] % 2) {
        error_set(KILN_E_SHAPE, "two %s lie in a byte: the last axis must be of even size, x is %s",
                  dtype_name(shown_dtype(shown, KILN_U8)), type_text(&x->type, text, sizeof text));
        return NULL;
    }
    return tensor_shown_as(kiln_pack_int4(in_four_bits(x, shown == SHOWN_I4)), shown);
}

static kiln_tensor *decoded(kiln_tensor *x, kiln_dtype to)
{
    kiln_tensor *bytes = tensor_shown_as(x, SHOWN_PLAIN);
    if (error_pending) return NULL;
    if (shown_is_packed(x->shown))
        return kiln_cast(kiln_unpack_int4(bytes, x->shown == SHOWN_I4 ? KILN_I8 : KILN_U8), to);
    bool to_float = dtype_is_float(to);
    kiln_tensor *y = kiln_from_float8(bytes, to_float ? to : KILN_F32, KILN_FLOAT8(.format = format_of(x->shown)));
    return to_float ? y : kiln_cast(y, to);
}

kiln_tensor *stored_cast(const struct stored_call *c)
{
    kiln_tensor *x = c->in[0];
    int64_t to = c->attrs[op_attr_index(c->op, "dtype")].i;
    enum shown_as shown = shown_of_dtype(to);
    if (!takes(x, (kiln_dtype)to)) return NULL;
    if (shown == SHOWN_PLAIN) return decoded(x, (kiln_dtype)to);
    if (shown == SHOWN_COMPLEX) return kiln_cast(decoded(x, KILN_F32), (kiln_dtype)to);
    if (x->shown == shown) return tensor_shown_as(kiln_cast(tensor_shown_as(x, SHOWN_PLAIN), KILN_U8), shown);
    if (x->shown != SHOWN_PLAIN) x = decoded(x, shown_is_packed(x->shown) ? KILN_I8 : KILN_F32);
    return x ? encoded(x, shown) : NULL;
}

kiln_tensor *stored_bitcast(const struct stored_call *c)
{
    kiln_tensor *x = c->in[0];
    int64_t to = c->attrs[op_attr_index(c->op, "dtype")].i;
    enum shown_as shown = shown_of_dtype(to);
    if (!takes(x, (kiln_dtype)to)) return NULL;
    kiln_tensor *bits = tensor_shown_as(x, SHOWN_PLAIN);
    if (shown == SHOWN_COMPLEX)
        error_set(KILN_E_DTYPE, "bits are not read as %s: see kiln_view_as_complex", dtype_name((unsigned)to));
    if (error_pending) return NULL;
    kiln_tensor *y = kiln_bitcast(bits, shown == SHOWN_PLAIN ? (kiln_dtype)to : KILN_U8);
    if (y && shown_is_packed(shown) && y->type.rank == 0) {
        error_set(KILN_E_SHAPE, "to %s takes rank 1 or more, x is a scalar", dtype_name((unsigned)to));
        return NULL;
    }
    return tensor_shown_as(y, shown);
}

// zeros, full, arange, and their kin
kiln_tensor *stored_created(const struct stored_call *c)
{
    struct attr attrs[OP_MAX_ATTRS];
    memcpy(attrs, c->attrs, sizeof *attrs * c->op->n_attrs);
    struct attr *dtype = &attrs[op_attr_index(c->op, "dtype")];
    kiln_dtype to = (kiln_dtype)dtype->i;
    dtype->i = KILN_F32;
    kiln_tensor *numbers = op_apply1(c->op, c->dev, c->n_in, c->in, attrs);
    return numbers ? kiln_cast(numbers, to) : NULL;
}

// ones_like, full_like
kiln_tensor *stored_filled(const struct stored_call *c)
{
    kiln_tensor *numbers = decoded(c->in[0], KILN_F32);
    kiln_tensor *y = numbers ? op_apply1(c->op, c->dev, 1, &numbers, c->attrs) : NULL;
    return y ? kiln_cast(y, stored_dtype(c->in[0])) : NULL;
}
