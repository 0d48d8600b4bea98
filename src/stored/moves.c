// What each op does with tensors of storage dtypes.
#include "stored/stored.h"
#include <stdlib.h>
#include <string.h>

const struct stored_rule stored_rules[] = {
    {"cast", stored_cast, NULL, 0},
    {"bitcast", stored_bitcast, NULL, 0},
    {"zeros", stored_created, NULL, 0},
    {"ones", stored_created, NULL, 0},
    {"full", stored_created, NULL, 0},
    {"full_int", stored_created, NULL, 0},
    {"eye", stored_created, NULL, 0},
    {"arange", stored_created, NULL, 0},
    {"linspace", stored_created, NULL, 0},
    {"ones_like", stored_filled, NULL, 0},
    {"full_like", stored_filled, NULL, 0},
    // The rest moves elements. The code 0 is the number 0.
    {"contiguous", NULL, packed_as_is, 0},
    {"zeros_like", NULL, packed_as_is, 0},
    {"reshape", NULL, packed_reshape, 0},
    {"flatten", NULL, packed_as_is, 0},
    {"expand", NULL, packed_expand, 0},
    {"permute", NULL, packed_permute, 0},
    {"transpose", NULL, packed_two_axes, 0},
    {"diagonal", NULL, NULL, 0},
    {"slice", NULL, packed_slice, 0},
    {"narrow", NULL, packed_axis, 0},
    {"select", NULL, packed_axis, 0},
    {"squeeze", stored_squeeze, NULL, 0},
    {"unsqueeze", NULL, packed_new_axis, 0},
    {"flip", NULL, packed_axes, 0},
    {"as_strided", NULL, NULL, 0},
    {"concat", NULL, packed_axis, 0},
    {"stack", NULL, packed_new_axis, 0},
    {"tile", NULL, packed_tile, 0},
    {"roll", NULL, packed_axes, 0},
    {"repeat_interleave", NULL, packed_axis, 0},
    {"tril", NULL, NULL, 0},
    {"triu", NULL, NULL, 0},
    {"where", NULL, NULL, 1 << 0},
    {"gather", NULL, NULL, 1 << 1},
    {"take", NULL, packed_axis, 1 << 1},
    {"index_select", NULL, packed_axis, 1 << 1},
    {"embedding", NULL, packed_as_is, 1 << 1},
    {"gather_nd", NULL, NULL, 1 << 1},
    {"slice_at", NULL, packed_axis, 1 << 1},
    {"update_at", NULL, packed_axis, 1 << 1},
    {"scatter", NULL, NULL, 1 << 1},
    {NULL, NULL, NULL, 0},
};

static bool is_apart(const struct stored_rule *r, int i)
{
    return i < 8 && r->apart >> i & 1;
}

// What is moved is of one dtype; what says from where or whether is no storage dtype.
static const kiln_tensor *check_operands(const struct stored_call *c, const struct stored_rule *r)
{
    const kiln_tensor *first = NULL;
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    int first_i = 0;
    for (int i = 0; i < c->n_in; i++) {
        const kiln_tensor *t = c->in[i];
        if (is_apart(r, i)) {
            if (t && tensor_check(c->op->name, stored_name(c->op, i), t)) return NULL;
        } else if (!first) {
            first = t, first_i = i;
        } else if (t->shown != first->shown || t->type.dtype != first->type.dtype) {
            error_set(KILN_E_DTYPE, "tensors are of one storage dtype, %s is %s, %s is %s: convert one by kiln_cast",
                      stored_name(c->op, first_i), tensor_text(first, a, sizeof a), stored_name(c->op, i),
                      tensor_text(t, b, sizeof b));
            return NULL;
        }
    }
    return first;
}

kiln_tensor *stored_move(const struct stored_call *c, const struct stored_rule *r)
{
    const kiln_tensor *x = check_operands(c, r);
    struct attr attrs[OP_MAX_ATTRS];
    kiln_tensor *few[16], **bytes = few, *y = NULL;
    char text[TYPE_TEXT_MAX];
    if (!x) return NULL;
    if (c->op->n_attrs) memcpy(attrs, c->attrs, sizeof *attrs * c->op->n_attrs);
    if (shown_is_packed(x->shown) && !r->packed)
        error_set(KILN_E_DTYPE, "takes no %s, of which two lie in a byte, x is %s: convert it by kiln_cast",
                  dtype_name(stored_dtype(x)), tensor_text(x, text, sizeof text));
    else if (shown_is_packed(x->shown))
        r->packed(c, attrs);
    if (error_pending) return NULL;
    if (c->n_in > 16) bytes = malloc(sizeof *bytes * (size_t)c->n_in);
    if (!bytes) {
        error_set(KILN_E_MEMORY, "out of memory");
        return NULL;
    }
    for (int i = 0; i < c->n_in; i++) bytes[i] = is_apart(r, i) ? c->in[i] : tensor_shown_as(c->in[i], SHOWN_PLAIN);
    if (!error_pending) y = op_apply1(c->op, c->dev, c->n_in, bytes, attrs);
    if (bytes != few) free(bytes);
    return y ? tensor_shown_as(y, x->shown) : NULL;
}
