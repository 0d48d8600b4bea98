// Ops that are linear: they do the same to both parts. And what all rules make results of.
#include "complex/complex.h"
#include <string.h>

enum { OPERANDS_MOST = 255 };

size_t complex_rank(const kiln_tensor *t)
{
    return (size_t)tensor_shown_rank(t);
}

kiln_tensor *real_part(kiln_tensor *t)
{
    return t && t->shown == SHOWN_COMPLEX ? kiln_select(tensor_as_pairs(t), -1, 0) : t;
}

kiln_tensor *imaginary_part(kiln_tensor *t)
{
    if (!t) return NULL;
    if (t->shown == SHOWN_COMPLEX) return kiln_select(tensor_as_pairs(t), -1, 1);
    return t->type.weak && !t->storage ? kiln_scalar(0) : kiln_zeros_like(t);
}

static kiln_tensor *as_part(kiln_tensor *t, bool wide)
{
    kiln_dtype d = wide ? KILN_F64 : KILN_F32;
    return t && (t->type.dtype != d || t->type.weak) ? kiln_cast(t, d) : t;
}

kiln_tensor *from_parts(kiln_tensor *re, kiln_tensor *im)
{
    if (error_pending || !re || !im) return NULL;
    struct type both;
    bool strong_f64 = (re->type.dtype == KILN_F64 && !re->type.weak) || (im->type.dtype == KILN_F64 && !im->type.weak);
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    if (!shape_broadcast(&re->type, &im->type, &both)) {
        error_set(KILN_E_SHAPE, "shapes do not broadcast: the real part is %s, the imaginary part is %s",
                  type_text(&re->type, a, sizeof a), type_text(&im->type, b, sizeof b));
        return NULL;
    }
    kiln_tensor *parts[] = {as_part(re, strong_f64), as_part(im, strong_f64)};
    for (int i = 0; i < 2 && !error_pending; i++)
        if (!type_same_shape(&parts[i]->type, &both)) parts[i] = kiln_expand(parts[i], both.rank, both.dims);
    return tensor_as_complex(kiln_stack(parts, 2, -1));
}

kiln_tensor *same_op_with(const struct complex_call *c, kiln_tensor *const *in, struct attr *attrs)
{
    if (error_pending) return NULL;
    return op_apply1(c->op, c->dev, c->n_in, in, attrs);
}

kiln_tensor *same_op(const struct complex_call *c, kiln_tensor *const *in)
{
    return same_op_with(c, in, c->attrs);
}

// The operands that `apart` has a bit for, indices and conditions, are the same for both.
static kiln_tensor *linear(const struct complex_call *c, unsigned apart)
{
    kiln_tensor *re[OPERANDS_MOST], *im[OPERANDS_MOST];
    if (c->n_in > OPERANDS_MOST) {
        error_set(KILN_E_ARGUMENT, "takes %d tensors at most, %d are given", OPERANDS_MOST, c->n_in);
        return NULL;
    }
    for (int i = 0; i < c->n_in; i++) {
        bool same = i < 8 && apart >> i & 1;
        if (same && c->in[i]) tensor_check(c->op->name, c->op->in_names[i], c->in[i]);
        re[i] = same ? c->in[i] : real_part(c->in[i]);
        im[i] = same ? c->in[i] : imaginary_part(c->in[i]);
    }
    kiln_tensor *first = same_op(c, re);
    return from_parts(first, same_op(c, im));
}

static kiln_tensor *all_linear(const struct complex_call *c)
{
    return linear(c, 0);
}

static kiln_tensor *by_first(const struct complex_call *c) // a condition, or an index
{
    return linear(c, 1 << 0);
}

static kiln_tensor *by_second(const struct complex_call *c)
{
    return linear(c, 1 << 1);
}

// Element by element on pairs.
static kiln_tensor *on_pairs(const struct complex_call *c)
{
    kiln_tensor *in[] = {tensor_as_pairs(c->in[0])};
    return tensor_as_complex(same_op(c, in));
}

// The value around is real.
static kiln_tensor *padded(const struct complex_call *c)
{
    struct attr attrs[OP_MAX_ATTRS];
    memcpy(attrs, c->attrs, sizeof *attrs * c->op->n_attrs);
    attrs[attr_at(c, "value")].f = 0;
    kiln_tensor *re[] = {real_part(c->in[0])}, *im[] = {imaginary_part(c->in[0])};
    kiln_tensor *first = same_op(c, re);
    return from_parts(first, same_op_with(c, im, attrs));
}

// a b = (ar br - ai bi) + i (ar bi + ai br), by whole products.
static kiln_tensor *matrix_product(const struct complex_call *c)
{
    kiln_tensor *ar = real_part(c->in[0]), *br = real_part(c->in[1]);
    if (c->in[0]->shown != SHOWN_COMPLEX)
        return from_parts(kiln_matmul(ar, br), kiln_matmul(ar, imaginary_part(c->in[1])));
    kiln_tensor *ai = imaginary_part(c->in[0]);
    if (c->in[1]->shown != SHOWN_COMPLEX) return from_parts(kiln_matmul(ar, br), kiln_matmul(ai, br));
    kiln_tensor *bi = imaginary_part(c->in[1]);
    kiln_tensor *re = kiln_sub(kiln_matmul(ar, br), kiln_matmul(ai, bi));
    return from_parts(re, kiln_add(kiln_matmul(ar, bi), kiln_matmul(ai, br)));
}

const struct complex_rule complex_parts[] = {
    {"contiguous", on_pairs},
    {"zeros_like", on_pairs},
    {"sum", all_linear},
    {"mean", all_linear},
    {"cumsum", all_linear},
    {"concat", all_linear},
    {"stack", all_linear},
    {"tile", all_linear},
    {"roll", all_linear},
    {"repeat_interleave", all_linear},
    {"tril", all_linear},
    {"triu", all_linear},
    {"where", by_first},
    {"scatter_nd", by_first},
    {"gather", by_second},
    {"take", by_second},
    {"embedding", by_second},
    {"index_select", by_second},
    {"gather_nd", by_second},
    {"scatter", by_second},
    {"scatter_add", by_second},
    {"index_add", by_second},
    {"slice_at", by_second},
    {"update_at", by_second},
    {"pad", padded},
    {"matmul", matrix_product},
    {NULL, NULL},
};
