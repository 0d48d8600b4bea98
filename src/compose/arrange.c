// Axes in other places, diagonals, turns: what shapes and views make.
#include "compose/along.h"
#include <string.h>

// --- diagonals

kiln_tensor *compose_diag_embed(kiln_tensor *x, int64_t offset, int64_t axis0, int64_t axis1)
{
    size_t rank = kiln_rank(x), from = 0;
    int64_t dims[KILN_MAX_RANK], strides[KILN_MAX_RANK], at[KILN_MAX_RANK], reach = offset < 0 ? -offset : offset;
    if (rank == 0 || rank == KILN_MAX_RANK) {
        error_set(KILN_E_SHAPE, "x must have 1 to %d dimensions, it is %s", KILN_MAX_RANK - 1, type_of(x).s);
        return NULL;
    }
    int a = composite_axis("axis0", axis0, rank + 1, x), b = composite_axis("axis1", axis1, rank + 1, x);
    if (a < 0 || b < 0) return NULL;
    if (a == b) {
        error_set(KILN_E_AXIS, "axis0 and axis1 are both %d", a);
        return NULL;
    }
    if (offset == INT64_MIN || reach > INT32_MAX) {
        error_set(KILN_E_SHAPE, "offset %lld is too large", (long long)offset);
        return NULL;
    }
    for (size_t d = 0; d <= rank; d++)
        dims[d] = (int)d == a || (int)d == b ? kiln_dim(x, -1) + reach : kiln_dims(x)[from++];
    for (int64_t d = (int64_t)rank, stride = 1; d >= 0; stride *= dims[d--]) at[d] = stride;
    from = 0;
    for (size_t d = 0; d <= rank; d++)
        if ((int)d != a && (int)d != b) strides[from++] = at[d];
    strides[from] = at[a] + at[b];
    return kiln_embed(x, rank + 1, dims, rank, strides, offset < 0 ? reach * at[a] : reach * at[b]);
}

kiln_tensor *compose_diag(kiln_tensor *x, int64_t offset)
{
    if (kiln_rank(x) == 1) return compose_diag_embed(x, offset, 0, 1);
    if (kiln_rank(x) == 2) return kiln_diagonal(x, offset, 0, 1);
    error_set(KILN_E_SHAPE, "x must be a vector or a matrix, it is %s", type_of(x).s);
    return NULL;
}

kiln_tensor *compose_diagflat(kiln_tensor *x, int64_t offset)
{
    return compose_diag_embed(as_line(x), offset, 0, 1);
}

// --- axes

kiln_tensor *compose_moveaxis(kiln_tensor *x, kiln_ints from, kiln_ints to)
{
    size_t rank = kiln_rank(x), next = 0;
    int64_t order[KILN_MAX_RANK];
    bool moved[KILN_MAX_RANK] = {false};
    for (size_t d = 0; d < rank; d++) order[d] = -1;
    if (from.count != to.count) {
        error_set(KILN_E_AXIS, "%zu axes go to %zu places", from.count, to.count);
        return NULL;
    }
    for (size_t i = 0; i < from.count; i++) {
        int a = composite_axis("from", from.v[i], rank, x), b = composite_axis("to", to.v[i], rank, x);
        if (a < 0 || b < 0) return NULL;
        if (moved[a] || order[b] >= 0) {
            error_set(KILN_E_AXIS, "%s has axis %d twice", moved[a] ? "from" : "to", moved[a] ? a : b);
            return NULL;
        }
        moved[a] = true;
        order[b] = a;
    }
    for (size_t d = 0; d < rank; d++) {
        if (order[d] >= 0) continue;
        while (moved[next]) next++;
        order[d] = (int64_t)next++;
    }
    return kiln_permute(x, (kiln_ints){rank, order});
}

kiln_tensor *compose_unflatten(kiln_tensor *x, int64_t axis, size_t shape_count, const int64_t *shape)
{
    int64_t dims[KILN_MAX_RANK], product = 1, open = -1;
    size_t rank = kiln_rank(x), n = 0;
    int a = composite_axis("axis", axis, rank, x);
    if (a < 0) return NULL;
    if (rank - 1 + shape_count > KILN_MAX_RANK) {
        error_set(KILN_E_SHAPE, "the result would have more than %d dimensions", KILN_MAX_RANK);
        return NULL;
    }
    for (int d = 0; d < a; d++) dims[n++] = kiln_dims(x)[d];
    for (size_t i = 0; i < shape_count; i++) {
        if (shape[i] == -1 && open < 0)
            open = (int64_t)n;
        else if (shape[i] < 0 || __builtin_mul_overflow(product, shape[i], &product)) {
            error_set(KILN_E_SHAPE, "dimension %zu of the shape is %lld", i, (long long)shape[i]);
            return NULL;
        }
        dims[n++] = shape[i];
    }
    int64_t size = kiln_dims(x)[a];
    if (open >= 0) dims[open] = product && size % product == 0 ? size / product : -1;
    if (open >= 0 ? dims[open] < 0 : product != size) {
        error_set(KILN_E_SHAPE, "axis %d of %s does not have the elements of the shape", a, type_of(x).s);
        return NULL;
    }
    for (size_t d = (size_t)a + 1; d < rank; d++) dims[n++] = kiln_dims(x)[d];
    return kiln_reshape(x, n, dims);
}

kiln_tensor *compose_ravel(kiln_tensor *x)
{
    return as_line(x);
}

kiln_tensor *compose_atleast_1d(kiln_tensor *x)
{
    return kiln_rank(x) ? kiln_alias(x) : kiln_unsqueeze(x, 0);
}

kiln_tensor *compose_atleast_2d(kiln_tensor *x)
{
    if (kiln_rank(x) == 0) return kiln_reshape(x, KILN_SHAPE(1, 1));
    return kiln_rank(x) == 1 ? kiln_unsqueeze(x, 0) : kiln_alias(x);
}

kiln_tensor *compose_atleast_3d(kiln_tensor *x)
{
    if (kiln_rank(x) == 0) return kiln_reshape(x, KILN_SHAPE(1, 1, 1));
    if (kiln_rank(x) == 1) return kiln_unsqueeze(kiln_unsqueeze(x, 0), 2);
    return kiln_rank(x) == 2 ? kiln_unsqueeze(x, 2) : kiln_alias(x);
}

// --- turns

static bool has_rank(const kiln_tensor *x, size_t least)
{
    if (kiln_rank(x) >= least) return true;
    error_set(KILN_E_SHAPE, "x must have %zu dimensions or more, it is %s", least, type_of(x).s);
    return false;
}

kiln_tensor *compose_fliplr(kiln_tensor *x)
{
    return has_rank(x, 2) ? along_flip(x, 1) : NULL;
}

kiln_tensor *compose_flipud(kiln_tensor *x)
{
    return has_rank(x, 1) ? along_flip(x, 0) : NULL;
}

kiln_tensor *compose_rot90(kiln_tensor *x, int64_t k, int64_t axis0, int64_t axis1)
{
    int a = composite_axis("axis0", axis0, kiln_rank(x), x),
        b = a < 0 ? -1 : composite_axis("axis1", axis1, kiln_rank(x), x);
    if (a < 0 || b < 0) return NULL;
    if (a == b) {
        error_set(KILN_E_AXIS, "axis0 and axis1 are both %d", a);
        return NULL;
    }
    switch ((k % 4 + 4) % 4) {
    case 0: return kiln_alias(x);
    case 1: return kiln_transpose(along_flip(x, b), a, b);
    case 2: return kiln_flip(x, KILN_AXES(a, b));
    default: return along_flip(kiln_transpose(x, a, b), b);
    }
}

// Element t of a row of length n becomes n - 1 - t, those behind stay.
kiln_tensor *compose_reverse_sequence(kiln_tensor *x, kiln_tensor *lengths, int64_t time_axis, int64_t batch_axis)
{
    size_t rank = kiln_rank(x);
    int t = composite_axis("time_axis", time_axis, rank, x),
        b = t < 0 ? -1 : composite_axis("batch_axis", batch_axis, rank, x);
    if (t < 0 || b < 0) return NULL;
    if (t == b || kiln_rank(lengths) != 1 || kiln_numel(lengths) != kiln_dims(x)[b]) {
        error_set(KILN_E_SHAPE,
                  "lengths must have one number for each entry of axis %d of %s, and time another axis: "
                  "lengths is %s, time_axis %d",
                  b, type_of(x).s, type_of(lengths).s, t);
        return NULL;
    }
    kiln_tensor *places = along_places(x, t), *ends = along_axis(kiln_cast(lengths, KILN_I64), b, rank);
    kiln_tensor *mirrored = kiln_sub(kiln_sub(ends, kiln_scalar_int(1)), places);
    kiln_tensor *from = kiln_where(kiln_less(places, ends), mirrored, places);
    return kiln_gather(x, t, kiln_expand(from, rank, kiln_dims(x)));
}
