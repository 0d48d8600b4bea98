// Steps by indices: gathers, scatters, running sums, sorting.
#include "fuzz.h"

kiln_tensor *step_gather(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    int64_t dims[KILN_MAX_RANK], axis = rank ? choose(o, (uint32_t)rank) : 0;
    if (!rank || !kiln_numel(o->a)) return NULL;
    for (size_t i = 0; i < rank; i++) dims[i] = kiln_dims(o->a)[i];
    if (choose(o, 2)) dims[axis] = 1 + choose(o, 4);
    kiln_tensor *index = make_index(o, rank, dims, kiln_dims(o->a)[axis]);
    if (!index) return NULL;
    say(o, "gather(%s, %d, an index of %d along it)", o->na, (int)axis, (int)dims[axis]);
    return kiln_gather(o->a, axis, index);
}

kiln_tensor *step_take(struct operands *o)
{
    int64_t axis = choose_axis(o, o->a), dims[] = {1 + choose(o, 4), 2};
    size_t rank = 1 + choose(o, 2);
    if (!kiln_rank(o->a) || too_deep(o, o->a, 4) || kiln_numel(o->a) * dims[0] * 2 > LARGEST) return NULL;
    kiln_tensor *index = make_index(o, rank, dims, kiln_dim(o->a, axis));
    if (!index) return NULL;
    say(o, "take(%s, %d, an index of rank %d)", o->na, (int)axis, (int)rank);
    return choose(o, 2) && axis == 0 ? kiln_embedding(o->a, index) : kiln_take(o->a, axis, index);
}

static kiln_tensor *index_add(struct operands *o, int64_t axis)
{
    int64_t dims[KILN_MAX_RANK], n = kiln_dims(o->a)[axis];
    memcpy(dims, kiln_dims(o->a), kiln_rank(o->a) * sizeof *dims);
    kiln_tensor *index = make_index(o, 1, &n, n);
    kiln_tensor *src = same_shape(o->a, o->b) && is_float(o->b) ? o->b : o->a;
    say(o, "index_add(%s, %d, an index, %s)", o->na, (int)axis, src == o->a ? o->na : o->nb);
    return index ? kiln_index_add(o->a, axis, index, kiln_cast(src, kiln_tensor_dtype(o->a))) : NULL;
}

kiln_tensor *step_scatter(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    int64_t dims[KILN_MAX_RANK], axis = rank ? choose(o, (uint32_t)rank) : 0;
    if (!rank || !is_float(o->a) || !kiln_numel(o->a)) return NULL;
    if (choose(o, 3) == 0) return index_add(o, axis);
    memcpy(dims, kiln_dims(o->a), rank * sizeof *dims);
    if (choose(o, 2)) dims[axis] = 1 + choose(o, 4);
    kiln_tensor *index = make_index(o, rank, dims, kiln_dims(o->a)[axis]);
    if (!index) return NULL;
    bool fits = broadcasts(index, o->b, true) && is_float(o->b);
    kiln_tensor *src = fits ? kiln_cast(o->b, kiln_tensor_dtype(o->a))
                            : kiln_full_like(kiln_narrow(kiln_reshape(o->a, KILN_SHAPE(-1)), 0, 0, 1), 0.5);
    bool add = choose(o, 2);
    say(o, "%s(%s, %d, an index of %d along it, %s)", add ? "scatter_add" : "scatter", o->na, (int)axis,
        (int)dims[axis], fits ? o->nb : "0.5");
    return add ? kiln_scatter_add(o->a, axis, index, src) : kiln_scatter(o->a, axis, index, src);
}

// Where a part begins, one number or one for each line; as it comes, so that it may have to be moved.
static kiln_tensor *make_start(struct operands *o, int64_t axis)
{
    int64_t dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(o->a);
    memcpy(dims, kiln_dims(o->a), rank * sizeof *dims);
    dims[axis] = 1;
    bool lines = choose(o, 2);
    kiln_tensor *start = make_index(o, lines ? rank : 0, dims, 2 * kiln_dims(o->a)[axis] + 1);
    return start && choose(o, 2) ? kiln_sub(start, kiln_scalar_int(kiln_dims(o->a)[axis])) : start;
}

kiln_tensor *step_slice_at(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    int64_t axis = rank ? choose(o, (uint32_t)rank) : 0;
    if (!rank || !kiln_numel(o->a)) return NULL;
    kiln_tensor *start = make_start(o, axis);
    if (!start) return NULL;
    int64_t length = 1 + choose(o, (uint32_t)kiln_dims(o->a)[axis]);
    say(o, "slice_at(%s, %d, a start of rank %d, %d)", o->na, (int)axis, (int)kiln_rank(start), (int)length);
    return kiln_slice_at(o->a, axis, start, length);
}

// The part is x's own, from another place, or a number of its own.
kiln_tensor *step_update_at(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    int64_t axis = rank ? choose(o, (uint32_t)rank) : 0;
    if (!rank || !kiln_numel(o->a)) return NULL;
    kiln_tensor *start = make_start(o, axis);
    if (!start) return NULL;
    int64_t length = 1 + choose(o, (uint32_t)kiln_dims(o->a)[axis]);
    bool own = choose(o, 2);
    kiln_tensor *src = kiln_narrow(o->a, axis, kiln_dims(o->a)[axis] - length, length);
    if (!own) src = is_bool(o->a) ? kiln_logical_not(src) : is_float(o->a) ? kiln_sin(src) : kiln_zeros_like(src);
    say(o, "update_at(%s, %d, a start of rank %d, %s of its last %d)", o->na, (int)axis, (int)kiln_rank(start),
        own ? "a copy" : "something", (int)length);
    return kiln_update_at(o->a, axis, start, src);
}

kiln_tensor *step_gather_nd(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    if (!rank || too_deep(o, o->a, 4) || !kiln_numel(o->a)) return NULL;
    int64_t least = kiln_dims(o->a)[0], depth = rank > 1 && choose(o, 2) ? 2 : 1, dims[] = {3, depth};
    if (depth == 2 && kiln_dims(o->a)[1] < least) least = kiln_dims(o->a)[1];
    kiln_tensor *index = make_index(o, 2, dims, least);
    if (!index) return NULL;
    say(o, "gather_nd(%s, an index of 3 by %d)", o->na, (int)depth);
    return kiln_gather_nd(o->a, index);
}

kiln_tensor *step_scatter_nd(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    if (!rank || too_deep(o, o->a, 3) || !is_float(o->a)) return NULL;
    if (!kiln_numel(o->a) || kiln_numel(o->a) * 4 > LARGEST) return NULL;
    int64_t dims[KILN_MAX_RANK], index_dims[] = {kiln_dims(o->a)[0], 1};
    memcpy(dims, kiln_dims(o->a), rank * sizeof *dims);
    dims[0] = 1 + choose(o, 4);
    kiln_tensor *index = make_index(o, 2, index_dims, dims[0]);
    say(o, "scatter_nd(an index, %s, %d rows)", o->na, (int)dims[0]);
    return index ? kiln_scatter_nd(index, o->a, rank, dims) : NULL;
}

kiln_tensor *step_one_hot(struct operands *o)
{
    if (choose(o, 2)) {
        if (!kiln_numel(o->b) || is_float(o->a) || is_float(o->b)) return NULL;
        say(o, "isin(%s, %s)", o->na, o->nb);
        return kiln_isin(o->a, o->b);
    }
    if (too_deep(o, o->a, 3) || kiln_numel(o->a) * 4 > LARGEST) return NULL;
    kiln_tensor *ids = make_index(o, kiln_rank(o->a), kiln_dims(o->a), 5);
    say(o, "one_hot(an index of %s's dims, 4)", o->na);
    return ids ? kiln_one_hot(ids, 4) : NULL;
}

kiln_tensor *step_scan(struct operands *o)
{
    static const char *const names[] = {"cumsum", "cumprod", "cummax", "cummin"};
    int64_t axis = choose_axis(o, o->a);
    uint32_t which = choose(o, 4);
    if (!kiln_rank(o->a) || (which > 1 && is_bool(o->a))) return NULL;
    say(o, "%s(%s, %d)", names[which], o->na, (int)axis);
    switch (which) {
    case 0: return kiln_cumsum(o->a, axis);
    case 1: return kiln_cumprod(o->a, axis);
    case 2: return kiln_cummax(o->a, axis);
    default: return kiln_cummin(o->a, axis);
    }
}

kiln_tensor *step_sort(struct operands *o)
{
    kiln_tensor *values, *indices;
    int64_t axis = choose_axis(o, o->a);
    if (!kiln_rank(o->a) || !kiln_numel(o->a) || is_bool(o->a)) return NULL;
    uint32_t which = choose(o, 4);
    bool turned = choose(o, 2);
    int64_t k = 1 + choose(o, (uint32_t)kiln_dim(o->a, axis));
    switch (which) {
    case 0: say(o, "argsort(%s, %d, %d)", o->na, (int)axis, turned); return kiln_argsort(o->a, axis, turned);
    case 1:
        say(o, "values of sort(%s, %d, %d)", o->na, (int)axis, turned);
        return kiln_sort(o->a, axis, turned, &values, &indices) ? NULL : values;
    default:
        say(o, "%s of topk(%s, %d, %d, %d)", which == 2 ? "values" : "indices", o->na, (int)k, (int)axis, turned);
        return kiln_topk(o->a, k, axis, turned, &values, &indices) ? NULL : which == 2 ? values : indices;
    }
}

// Indexing in one call, of all kinds of items but masks, whose results are of no known size.
kiln_tensor *step_index(struct operands *o)
{
    int64_t dims[] = {1 + choose(o, 3)}, rank = (int64_t)kiln_rank(o->a), n = rank ? kiln_dim(o->a, 0) : 0;
    if (!n || too_deep(o, o->a, 4) || kiln_numel(o->a) * dims[0] > LARGEST) return NULL;
    int64_t at = choose(o, (uint32_t)n), last = kiln_dim(o->a, -1), step = choose(o, 2) ? 2 : -1;
    kiln_tensor *ids = make_index(o, 1, dims, n);
    if (!ids) return NULL;
    switch (choose(o, rank > 1 && last ? 4 : 2)) {
    case 0:
        say(o, "index(%s, at %d, new axis)", o->na, (int)at);
        return kiln_index(o->a, KILN_INDEX(KILN_AT(at), KILN_NEW_AXIS));
    case 1: say(o, "index(%s, %d rows)", o->na, (int)dims[0]); return kiln_index(o->a, KILN_INDEX(KILN_TAKE(ids)));
    case 2:
        say(o, "index(%s, ..., by %d)", o->na, (int)step);
        return kiln_index(o->a, KILN_INDEX(KILN_ELLIPSIS, KILN_BY(step)));
    default:
        say(o, "index(%s, %d rows, ..., their remainders by %d)", o->na, (int)dims[0], (int)last);
        return kiln_index(
            o->a, KILN_INDEX(KILN_TAKE(ids), KILN_ELLIPSIS, KILN_TAKE(kiln_remainder(ids, kiln_scalar_int(last)))));
    }
}

// Values by their rank along an axis.
kiln_tensor *step_rank(struct operands *o)
{
    int64_t axis = choose_axis(o, o->a);
    kiln_tensor *values = NULL, *places;
    if (!kiln_rank(o->a) || !is_float(o->a) || !kiln_dim(o->a, axis)) return NULL;
    switch (choose(o, 3)) {
    case 0:
        say(o, "median(%s, %d)", o->na, (int)axis);
        kiln_median(o->a, axis, choose(o, 2), &values, &places);
        return values;
    case 1:
        say(o, "cummax_indices(%s, %d)", o->na, (int)axis);
        kiln_cummax_indices(o->a, axis, &values, &places);
        return values;
    default:
        say(o, "running_sum(%s, %d, before, from the end)", o->na, (int)axis);
        return kiln_running_sum(o->a, axis, true, true);
    }
}
