// Matrix products: da = dy bᵀ, db = aᵀ dy. Batch dimensions that were broadcast are summed by the caller of the rule.
#include "grad/rules/rules.h"

static kiln_tensor *transposed(kiln_tensor *t)
{
    return kiln_transpose(t, -2, -1);
}

// A tensor of many rows by one matrix: the rows of all batches make one product, instead of one a batch and a sum.
static kiln_tensor *flat_rows(kiln_tensor *t)
{
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < kiln_rank(t); i++) rows *= kiln_dims(t)[i];
    return kiln_reshape(t, KILN_SHAPE(rows, kiln_dim(t, -1)));
}

// Vectors become matrices: dy as [..., m, n], a as [..., m, k], b as [..., k, n].
static kiln_status matmul(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                          kiln_tensor **din)
{
    bool a_vector = kiln_rule_in_shape(0, NULL) == 1, b_vector = kiln_rule_in_shape(1, NULL) == 1;
    kiln_tensor *dy = dout[0];
    if (b_vector) dy = kiln_unsqueeze(dy, -1);
    if (a_vector) dy = kiln_unsqueeze(dy, -2);
    if (kiln_rule_wants(0)) {
        kiln_tensor *b = b_vector ? kiln_unsqueeze(in[1], 1) : in[1];
        kiln_tensor *da = kiln_matmul(dy, transposed(b));
        din[0] = a_vector ? kiln_squeeze(da, KILN_AXES(-2)) : da;
    }
    if (kiln_rule_wants(1)) {
        kiln_tensor *a = a_vector ? kiln_unsqueeze(in[0], 0) : in[0];
        if (kiln_rule_in_shape(1, NULL) <= 2 && kiln_rank(a) > 2) {
            a = flat_rows(a);
            dy = flat_rows(dy);
        }
        kiln_tensor *db = kiln_matmul(transposed(a), dy);
        din[1] = b_vector ? kiln_squeeze(db, KILN_AXES(-1)) : db;
    }
    return kiln_error();
}

// w is bytes, and not trained: it is unpacked for the gradient by x alone.
RULE(matmul_packed)
{
    kiln_tensor *w = kiln_unpack_blocks(in[1], kiln_rule_int("format"));
    din[0] = kiln_cast(kiln_matmul(dout[0], w), kiln_tensor_dtype(dout[0]));
    return kiln_error();
}

static const kiln_rule_spec rules[] = {
    {.op = "matmul", .fn = matmul, .needs_in_for = {1 << 1, 1 << 0}},
    {.op = "matmul_packed", .fn = matmul_packed, .needs_in = 1 << 1},
};
RULES(matmul, rules);
