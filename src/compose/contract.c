// Products of tensors over some of their axes, each as one matrix product.
#include "compose/composite.h"

// The axes of an operand, in the order in which a product takes them.
struct order {
    size_t rank, n_free;
    int64_t perm[KILN_MAX_RANK]; // the free axes, then those that are summed up
    int64_t rows, summed;        // how many elements each of the two kinds has
};

static bool order_of(const char *argument, const kiln_tensor *t, size_t n, const int64_t *axes, struct order *o)
{
    bool taken[KILN_MAX_RANK] = {false};
    *o = (struct order){.rank = kiln_rank(t), .rows = 1, .summed = 1};
    for (size_t i = 0; i < n; i++) {
        int axis = composite_axis(argument, axes[i], o->rank, t);
        if (axis < 0) return false;
        if (taken[axis]) {
            error_set(KILN_E_AXIS, "%s has axis %lld of %s twice", argument, (long long)axes[i], type_of(t).s);
            return false;
        }
        taken[axis] = true;
        o->summed *= kiln_dims(t)[axis];
    }
    for (size_t d = 0; d < o->rank; d++) {
        if (taken[d]) continue;
        o->perm[o->n_free++] = (int64_t)d;
        o->rows *= kiln_dims(t)[d];
    }
    for (size_t i = 0; i < n; i++) o->perm[o->n_free + i] = axes[i] < 0 ? axes[i] + (int64_t)o->rank : axes[i];
    return true;
}

static kiln_tensor *as_matrix(kiln_tensor *t, const struct order *o)
{
    return kiln_reshape(kiln_permute(t, (kiln_ints){o->rank, o->perm}), KILN_SHAPE(o->rows, o->summed));
}

static kiln_tensor *contract(kiln_tensor *a, kiln_tensor *b, size_t n, const int64_t *axes_a, const int64_t *axes_b)
{
    struct order oa, ob;
    int64_t dims[2 * KILN_MAX_RANK];
    if (!order_of("axes_a", a, n, axes_a, &oa) || !order_of("axes_b", b, n, axes_b, &ob)) return NULL;
    for (size_t i = 0; i < n; i++) {
        int64_t da = oa.perm[oa.n_free + i], db = ob.perm[ob.n_free + i];
        if (kiln_dims(a)[da] == kiln_dims(b)[db]) continue;
        error_set(KILN_E_SHAPE, "axis %lld of a, %s, and axis %lld of b, %s, differ in size", (long long)da,
                  type_of(a).s, (long long)db, type_of(b).s);
        return NULL;
    }
    if (oa.n_free + ob.n_free > KILN_MAX_RANK) {
        error_set(KILN_E_SHAPE, "the result has %zu dimensions, the most is %d: a is %s, b is %s",
                  oa.n_free + ob.n_free, KILN_MAX_RANK, type_of(a).s, type_of(b).s);
        return NULL;
    }
    for (size_t d = 0; d < oa.n_free; d++) dims[d] = kiln_dims(a)[oa.perm[d]];
    for (size_t d = 0; d < ob.n_free; d++) dims[oa.n_free + d] = kiln_dims(b)[ob.perm[d]];
    kiln_tensor *product = kiln_matmul(as_matrix(a, &oa), kiln_transpose(as_matrix(b, &ob), 0, 1));
    return kiln_reshape(product, oa.n_free + ob.n_free, dims);
}

kiln_tensor *compose_tensordot(kiln_tensor *a, kiln_tensor *b, kiln_ints axes_a, kiln_ints axes_b)
{
    if (axes_a.count == axes_b.count) return contract(a, b, axes_a.count, axes_a.v, axes_b.v);
    error_set(KILN_E_ARGUMENT, "axes_a has %zu axes, axes_b has %zu", axes_a.count, axes_b.count);
    return NULL;
}

kiln_tensor *compose_inner(kiln_tensor *a, kiln_tensor *b)
{
    static const int64_t last = -1;
    if (kiln_rank(a) == 0 || kiln_rank(b) == 0) return kiln_mul(a, b);
    return contract(a, b, 1, &last, &last);
}

kiln_tensor *compose_dot(kiln_tensor *a, kiln_tensor *b)
{
    static const int64_t last = -1, second = -2;
    if (kiln_rank(a) == 0 || kiln_rank(b) == 0) return kiln_mul(a, b);
    return contract(a, b, 1, &last, kiln_rank(b) == 1 ? &last : &second);
}

kiln_tensor *compose_vecdot(kiln_tensor *a, kiln_tensor *b, int64_t axis)
{
    if (axis >= 0) {
        error_set(KILN_E_AXIS, "axis counts from the end, below 0; it is %lld", (long long)axis);
        return NULL;
    }
    if (composite_axis("axis", axis, kiln_rank(a), a) < 0 || composite_axis("axis", axis, kiln_rank(b), b) < 0)
        return NULL;
    if (kiln_dim(a, axis) != kiln_dim(b, axis)) {
        error_set(KILN_E_SHAPE, "axis %lld of a, %s, and of b, %s, differ in size", (long long)axis, type_of(a).s,
                  type_of(b).s);
        return NULL;
    }
    kiln_tensor *row = kiln_unsqueeze(kiln_transpose(a, axis, -1), -2);
    kiln_tensor *column = kiln_unsqueeze(kiln_transpose(b, axis, -1), -1);
    kiln_tensor *dot = kiln_squeeze(kiln_matmul(row, column), KILN_AXES(-1));
    // What was last stands in the axis's place, and the size 1 of the sum last.
    return kiln_squeeze(kiln_transpose(dot, axis, -1), KILN_AXES(axis));
}

kiln_tensor *compose_kron(kiln_tensor *a, kiln_tensor *b)
{
    size_t rank = kiln_rank(a) > kiln_rank(b) ? kiln_rank(a) : kiln_rank(b);
    size_t from_a = rank - kiln_rank(a), from_b = rank - kiln_rank(b);
    int64_t a_dims[KILN_MAX_RANK], b_dims[KILN_MAX_RANK], dims[KILN_MAX_RANK];
    if (2 * rank > KILN_MAX_RANK) {
        error_set(KILN_E_SHAPE, "takes tensors of rank %d and less: a is %s, b is %s", KILN_MAX_RANK / 2, type_of(a).s,
                  type_of(b).s);
        return NULL;
    }
    for (size_t d = 0; d < rank; d++) {
        a_dims[2 * d] = d < from_a ? 1 : kiln_dims(a)[d - from_a];
        b_dims[2 * d + 1] = d < from_b ? 1 : kiln_dims(b)[d - from_b];
        a_dims[2 * d + 1] = b_dims[2 * d] = 1;
        dims[d] = a_dims[2 * d] * b_dims[2 * d + 1];
    }
    kiln_tensor *product = kiln_mul(kiln_reshape(a, 2 * rank, a_dims), kiln_reshape(b, 2 * rank, b_dims));
    return kiln_reshape(product, rank, dims);
}

kiln_tensor *compose_cross(kiln_tensor *a, kiln_tensor *b, int64_t axis)
{
    if (axis >= 0) {
        error_set(KILN_E_AXIS, "axis counts from the end, below 0; it is %lld", (long long)axis);
        return NULL;
    }
    if (composite_axis("axis", axis, kiln_rank(a), a) < 0 || composite_axis("axis", axis, kiln_rank(b), b) < 0)
        return NULL;
    if (kiln_dim(a, axis) != 3 || kiln_dim(b, axis) != 3) {
        error_set(KILN_E_SHAPE, "axis %lld must have 3 elements: a is %s, b is %s", (long long)axis, type_of(a).s,
                  type_of(b).s);
        return NULL;
    }
    kiln_tensor *a1 = kiln_roll(a, KILN_ARGS(-1), KILN_AXES(axis)), *a2 = kiln_roll(a, KILN_ARGS(1), KILN_AXES(axis));
    kiln_tensor *b1 = kiln_roll(b, KILN_ARGS(-1), KILN_AXES(axis)), *b2 = kiln_roll(b, KILN_ARGS(1), KILN_AXES(axis));
    return kiln_sub(kiln_mul(a1, b2), kiln_mul(a2, b1));
}
