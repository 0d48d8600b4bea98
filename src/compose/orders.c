// Orders of lines, and the different slices among those of an axis.
#include "compose/along.h"

kiln_tensor *compose_msort(kiln_tensor *x)
{
    kiln_tensor *values = NULL, *order;
    kiln_sort(x, 0, false, &values, &order);
    return values;
}

static bool has_place(kiln_tensor *x, int64_t kth, int64_t axis, int *a)
{
    *a = composite_axis("axis", axis, kiln_rank(x), x);
    if (*a < 0) return false;
    int64_t n = kiln_dims(x)[*a];
    if (kth >= -n && kth < n) return true;
    error_set(KILN_E_ARGUMENT, "kth is %lld, axis %d of %s has %lld elements", (long long)kth, *a, type_of(x).s,
              (long long)n);
    return false;
}

kiln_tensor *compose_partition(kiln_tensor *x, int64_t kth, int64_t axis)
{
    int a;
    kiln_tensor *values = NULL, *order;
    if (has_place(x, kth, axis, &a)) kiln_sort(x, a, false, &values, &order);
    return values;
}

kiln_tensor *compose_argpartition(kiln_tensor *x, int64_t kth, int64_t axis)
{
    int a;
    return has_place(x, kth, axis, &a) ? kiln_argsort(x, a, false) : NULL;
}

// Stable sorts, by the least important key first.
kiln_tensor *compose_lexsort(kiln_tensor *const *keys, size_t n, int64_t axis)
{
    kiln_tensor *order = NULL;
    if (n == 0) error_set(KILN_E_ARGUMENT, "there are no keys");
    for (size_t i = 0; i < n && !kiln_error(); i++) {
        int a = composite_axis("axis", axis, kiln_rank(keys[i]), keys[i]);
        if (a < 0) return NULL;
        kiln_tensor *next = kiln_argsort(order ? kiln_gather(keys[i], a, order) : keys[i], a, false);
        order = order ? kiln_gather(order, a, next) : next;
    }
    return order;
}

kiln_tensor *compose_argwhere(kiln_tensor *x)
{
    return kiln_nonzero(x);
}

// --- different slices

// Of each column of [n, m], the rank of its values among those of the column: equal ones have one.
static kiln_tensor *ranks_of(kiln_tensor *columns)
{
    kiln_tensor *sorted, *order;
    if (kiln_sort(columns, 0, false, &sorted, &order)) return NULL;
    int64_t n = kiln_dim(columns, 0);
    kiln_tensor *differs = kiln_not_equal(along_part(sorted, 0, 1, n - 1), along_part(sorted, 0, 0, n - 1));
    kiln_tensor *first = along_full(sorted, 0, 1, KILN_I64, 0);
    kiln_tensor *group = kiln_cumsum(along_join(first, kiln_cast(differs, KILN_I64), 0), 0);
    return kiln_scatter(kiln_zeros_like(order), 0, order, group);
}

// The rank of each row among the rows of [n, m], by its first element, then the second ... Neighbouring columns become
// one, whose values are pairs of ranks, until one is left.
static kiln_tensor *ranks_of_rows(kiln_tensor *rows)
{
    int64_t n = kiln_dim(rows, 0), m = kiln_dim(rows, 1);
    if (m == 0) return kiln_zeros(kiln_tensor_device(rows), KILN_I64, KILN_SHAPE(n));
    kiln_tensor *ranks = ranks_of(rows);
    while (m > 1 && !kiln_error()) {
        int64_t pairs = m / 2;
        kiln_tensor *two = kiln_reshape(along_part(ranks, 1, 0, 2 * pairs), KILN_SHAPE(n, pairs, 2));
        kiln_tensor *high = kiln_mul(kiln_select(two, 2, 0), kiln_scalar_int(n));
        kiln_tensor *joined = kiln_add(high, kiln_select(two, 2, 1));
        if (m % 2) joined = along_join(joined, along_part(ranks, 1, m - 1, 1), 1);
        ranks = ranks_of(joined);
        m = pairs + m % 2;
    }
    return kiln_reshape(ranks, KILN_SHAPE(n));
}

static kiln_tensor *as_rows(kiln_tensor *x, int axis)
{
    int64_t n = kiln_dim(x, axis), rest = 1;
    for (size_t d = 0; d < kiln_rank(x); d++) rest *= (int)d == axis ? 1 : kiln_dim(x, (int64_t)d);
    return kiln_reshape(axis_first(x, axis), KILN_SHAPE(n, rest));
}

kiln_status compose_unique_axis(kiln_tensor *x, int64_t axis, kiln_tensor **values, kiln_tensor **inverse,
                                kiln_tensor **counts, kiln_tensor **first)
{
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    kiln_tensor *different;
    if (a < 0) return kiln_error();
    if (kiln_dims(x)[a] == 0) {
        *values = kiln_alias(x);
        *inverse = kiln_zeros(kiln_tensor_device(x), KILN_I64, KILN_SHAPE(0));
        *counts = kiln_zeros(kiln_tensor_device(x), KILN_I64, KILN_SHAPE(0));
        *first = kiln_zeros(kiln_tensor_device(x), KILN_I64, KILN_SHAPE(0));
        return kiln_error();
    }
    kiln_tensor *ranks = ranks_of_rows(as_rows(x, a));
    if (kiln_unique(ranks, &different, inverse, counts)) return kiln_error();
    kiln_tensor *begins = kiln_sub(kiln_cumsum(*counts, 0), *counts);
    *first = kiln_take(kiln_argsort(ranks, 0, false), 0, begins);
    *values = kiln_take(x, a, *first);
    return kiln_error();
}

kiln_status compose_unique_consecutive(kiln_tensor *x, int64_t axis, kiln_tensor **values, kiln_tensor **inverse,
                                       kiln_tensor **counts)
{
    int a = composite_axis("axis", axis, kiln_rank(x), x);
    if (a < 0) return kiln_error();
    kiln_device *dev = kiln_tensor_device(x);
    int64_t n = kiln_dims(x)[a];
    if (n == 0) {
        *values = kiln_alias(x);
        *inverse = kiln_zeros(dev, KILN_I64, KILN_SHAPE(0));
        *counts = kiln_zeros(dev, KILN_I64, KILN_SHAPE(0));
        return kiln_error();
    }
    kiln_tensor *rows = as_rows(x, a);
    kiln_tensor *differs = kiln_any(kiln_not_equal(along_part(rows, 0, 1, n - 1), along_part(rows, 0, 0, n - 1)),
                                    KILN_REDUCE(.axes = KILN_AXES(1)));
    kiln_tensor *begins = along_join(kiln_ones(dev, KILN_BOOL, KILN_SHAPE(1)), differs, 0);
    kiln_tensor *places = as_line(kiln_nonzero(begins));
    int64_t groups = kiln_numel(places);
    kiln_tensor *end = kiln_full_int(dev, KILN_I64, KILN_SHAPE(1), n);
    *values = kiln_take(x, a, places);
    *inverse = kiln_sub(kiln_cumsum(begins, 0), kiln_scalar_int(1));
    *counts = kiln_sub(along_join(along_part(places, 0, 1, groups - 1), end, 0), places);
    return kiln_error();
}
