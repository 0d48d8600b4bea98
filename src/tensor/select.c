// Ops whose result's size depends on values: made of others, with one number read by the host between. And lists of
// views.
#include "tensor/select.h"

// The places, in a line, at which a bool line is true: each true element knows its rank among them from the running
// count and writes its place there; the others all write behind the last.
static kiln_tensor *true_places(kiln_tensor *mask)
{
    int64_t n = kiln_numel(mask);
    kiln_device *dev = kiln_tensor_device(mask);
    if (n == 0) return kiln_zeros(dev, KILN_I64, KILN_SHAPE(0));
    kiln_tensor *rank = kiln_cumsum(mask, 0);
    int64_t count = kiln_item_int(kiln_select(rank, 0, n - 1));
    if (error_pending) return NULL;
    kiln_tensor *to = kiln_where(mask, kiln_sub(rank, kiln_scalar_int(1)), kiln_scalar_int(count));
    kiln_tensor *room = kiln_zeros(dev, KILN_I64, KILN_SHAPE(count + 1));
    return kiln_narrow(kiln_scatter(room, 0, to, kiln_arange(dev, KILN_I64, 0, (double)n, 1)), 0, 0, count);
}

kiln_tensor *places_in(const kiln_tensor *x, kiln_tensor *at)
{
    size_t rank = kiln_rank(x);
    kiln_tensor *parts[KILN_MAX_RANK];
    if (!at || rank == 0)
        return at ? kiln_zeros(kiln_tensor_device(at), KILN_I64, KILN_SHAPE(kiln_numel(at), 0)) : NULL;
    for (size_t d = rank; d-- > 0;) {
        kiln_tensor *size = kiln_scalar_int(kiln_dims(x)[d] ? kiln_dims(x)[d] : 1);
        parts[d] = kiln_remainder(at, size);
        at = kiln_floor_divide(at, size);
    }
    return kiln_stack(parts, rank, 1);
}

static kiln_tensor *nonzero(kiln_tensor *x)
{
    kiln_tensor *line = kiln_numel(x) ? line_of(is_set(x)) : kiln_zeros(NULL, KILN_BOOL, KILN_SHAPE(0));
    return places_in(x, true_places(line));
}

kiln_tensor *kiln_nonzero(kiln_tensor *x)
{
    if (error_pending || tensor_check("nonzero", "x", x)) return NULL;
    struct kiln_scope scope;
    scope_enter(&scope);
    bool fit = indices_are_made();
    kiln_tensor *r = nonzero(x);
    thread_state.indices_fit = fit;
    error_name_op("nonzero");
    scope_leave(&scope, &r, r ? 1 : 0);
    return r;
}

static kiln_tensor *masked_select(kiln_tensor *x, kiln_tensor *mask, const struct type *both)
{
    kiln_tensor *wide = kiln_expand(x, both->rank, both->dims), *where = kiln_expand(mask, both->rank, both->dims);
    if (error_pending) return NULL;
    if (kiln_numel(wide) == 0) return kiln_reshape(wide, KILN_SHAPE(0));
    return kiln_take(line_of(wide), 0, true_places(line_of(where)));
}

kiln_status masked_select_check(const char *op, kiln_tensor *x, kiln_tensor *mask, struct type *both)
{
    TRY(tensor_check(op, "x", x));
    TRY(tensor_check(op, "mask", mask));
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    if (mask->type.dtype != KILN_BOOL)
        return error_set(KILN_E_DTYPE, "%s: mask must be bool, it is %s", op, type_text(&mask->type, a, sizeof a));
    if (!shape_broadcast(&x->type, &mask->type, both))
        return error_set(KILN_E_SHAPE, "%s: shapes do not broadcast: x is %s, mask is %s", op,
                         type_text(&x->type, a, sizeof a), type_text(&mask->type, b, sizeof b));
    return KILN_OK;
}

kiln_tensor *kiln_masked_select(kiln_tensor *x, kiln_tensor *mask)
{
    struct type both;
    if (error_pending || masked_select_check("masked_select", x, mask, &both)) return NULL;
    struct kiln_scope scope;
    scope_enter(&scope);
    bool fit = indices_are_made();
    kiln_tensor *r = masked_select(x, mask, &both);
    thread_state.indices_fit = fit;
    error_name_op("masked_select");
    scope_leave(&scope, &r, r ? 1 : 0);
    return r;
}

// Sorted, equal values are neighbours; those that differ from the one before begin a group.
kiln_tensor *group_begins(kiln_tensor *sorted)
{
    int64_t n = kiln_numel(sorted);
    kiln_tensor *differs = kiln_not_equal(kiln_narrow(sorted, 0, 1, n - 1), kiln_narrow(sorted, 0, 0, n - 1));
    kiln_tensor *first = kiln_ones(kiln_tensor_device(sorted), KILN_BOOL, KILN_SHAPE(1));
    return kiln_concat((kiln_tensor *[]){first, differs}, 2, 0);
}

// r: values, inverse, counts.
static void unique(kiln_tensor *x, kiln_tensor **r)
{
    kiln_device *dev = kiln_tensor_device(x);
    kiln_tensor *line = line_of(x), *sorted = NULL, *order = NULL;
    int64_t n = kiln_numel(x);
    if (kiln_sort(line, 0, false, &sorted, &order) || n == 0) {
        r[0] = sorted, r[1] = kiln_reshape(order, kiln_rank(x), kiln_dims(x)), r[2] = order;
        return;
    }
    kiln_tensor *begins = group_begins(sorted);
    kiln_tensor *starts = true_places(begins);
    kiln_tensor *group = kiln_sub(kiln_cumsum(begins, 0), kiln_scalar_int(1));
    r[0] = kiln_take(sorted, 0, starts);
    r[1] = kiln_scatter(kiln_zeros(dev, KILN_I64, KILN_SHAPE(n)), 0, order, group);
    if (error_pending) return;
    kiln_tensor *end = kiln_full(dev, KILN_I64, KILN_SHAPE(1), (double)n);
    kiln_tensor *ends = kiln_concat((kiln_tensor *[]){kiln_narrow(starts, 0, 1, kiln_numel(starts) - 1), end}, 2, 0);
    r[2] = kiln_sub(ends, starts);
    r[1] = kiln_reshape(r[1], kiln_rank(x), kiln_dims(x));
}

kiln_status kiln_unique(kiln_tensor *x, kiln_tensor **values, kiln_tensor **inverse, kiln_tensor **counts)
{
    kiln_tensor *r[3] = {NULL}, **to[3] = {values, inverse, counts};
    if (error_pending) return error_pending;
    TRY(tensor_check("unique", "x", x));
    struct kiln_scope scope;
    scope_enter(&scope);
    bool fit = indices_are_made();
    unique(x, r);
    thread_state.indices_fit = fit;
    error_name_op("unique");
    scope_leave(&scope, r, error_pending ? 0 : 3);
    for (int i = 0; i < 3; i++) {
        if (to[i])
            *to[i] = error_pending ? NULL : r[i];
        else if (!error_pending)
            kiln_free(&r[i]);
    }
    return error_pending;
}

kiln_status kiln_unstack(kiln_tensor *t, int64_t axis, kiln_tensor **out, size_t n_out)
{
    if (error_pending) return error_pending;
    TRY(tensor_check("unstack", "t", t));
    int i = axis_normalize(axis, t->type.rank);
    char text[TYPE_TEXT_MAX];
    type_text(&t->type, text, sizeof text);
    if (!out) return error_set(KILN_E_ARGUMENT, "unstack: out is NULL");
    if (i < 0) return error_set(KILN_E_AXIS, "unstack: axis %lld is out of range for %s", (long long)axis, text);
    if ((int64_t)n_out != t->type.dims[i])
        return error_set(KILN_E_SHAPE, "unstack: axis %d of %s does not have %zu entries", i, text, n_out);
    for (size_t k = 0; k < n_out; k++) {
        out[k] = kiln_select(t, i, (int64_t)k);
        if (out[k]) continue;
        while (k--) kiln_free(&out[k]);
        return error_pending;
    }
    return KILN_OK;
}

// A line as one axis of a grid.
static kiln_tensor *grid_axis(kiln_tensor *line, size_t axis, size_t rank, const int64_t *dims)
{
    int64_t shape[KILN_MAX_RANK];
    for (size_t d = 0; d < rank; d++) shape[d] = d == axis ? dims[d] : 1;
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_tensor *r = kiln_expand(kiln_reshape(line, rank, shape), rank, dims);
    scope_leave(&scope, &r, r ? 1 : 0);
    return r;
}

kiln_status kiln_meshgrid(kiln_tensor *const *lines, size_t n, kiln_tensor **out)
{
    int64_t dims[KILN_MAX_RANK];
    if (error_pending) return error_pending;
    if (n > KILN_MAX_RANK) return error_set(KILN_E_SHAPE, "meshgrid: more than %d lines", KILN_MAX_RANK);
    if (n && (!lines || !out)) return error_set(KILN_E_ARGUMENT, "meshgrid: %s is NULL", lines ? "out" : "lines");
    for (size_t i = 0; i < n; i++) {
        TRY(tensor_check("meshgrid", "lines", lines[i]));
        if (lines[i]->type.rank > 1)
            return error_set(KILN_E_SHAPE, "meshgrid: line %zu has rank %d", i, lines[i]->type.rank);
        dims[i] = kiln_numel(lines[i]);
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = grid_axis(lines[i], i, n, dims);
        if (out[i]) continue;
        while (i--) kiln_free(&out[i]);
        return error_pending;
    }
    return KILN_OK;
}
