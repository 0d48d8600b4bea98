// Reading and writing by index, sorting, one-hot.
#include "onnx/onnx_fns.h"
#include <string.h>

// Tuples of indices [..., k] as places in what the first k dims of a tensor count, row-major. Those below 0 count from
// the end.
static kiln_tensor *flat_places(kiln_tensor *index, const int64_t *dims, int64_t k)
{
    int64_t axis = (int64_t)kiln_rank(index) - 1;
    kiln_tensor *sum = kiln_scalar_int(0);
    for (int64_t i = 0; i < k && sum; i++) {
        kiln_tensor *at = kiln_select(index, axis, i);
        at = kiln_where(kiln_less(at, kiln_scalar_int(0)), kiln_add(at, kiln_scalar_int(dims[i])), at);
        sum = kiln_add(kiln_mul(sum, kiln_scalar_int(dims[i])), at);
    }
    return sum;
}

static int64_t product(const int64_t *dims, size_t n)
{
    int64_t p = 1;
    for (size_t i = 0; i < n; i++) p *= dims[i];
    return p;
}

// The first `batch` dims of both are gone through side by side: as one more index in front.
static kiln_tensor *with_batch(struct onnx_call *c, kiln_tensor *index, size_t batch)
{
    int64_t dims[KILN_MAX_RANK], n = product(kiln_dims(index), batch), axis = (int64_t)kiln_rank(index) - 1;
    for (size_t i = 0; i < kiln_rank(index); i++) dims[i] = i < batch ? kiln_dims(index)[i] : 1;
    kiln_tensor *numbers = kiln_reshape(kiln_arange(c->dev, KILN_I64, 0, (double)n, 1), kiln_rank(index), dims);
    for (size_t i = batch; i + 1 < kiln_rank(index); i++) dims[i] = kiln_dims(index)[i];
    kiln_tensor *both[] = {kiln_expand(numbers, kiln_rank(index), dims), kiln_cast(index, KILN_I64)};
    return kiln_concat(both, 2, axis);
}

kiln_status onnx_op_gather_nd(struct onnx_call *c)
{
    int64_t batch, dims[KILN_MAX_RANK];
    TRY(onnx_check_counts(c, 2, 2, 1));
    TRY(onnx_int(c, "batch_dims", 0, &batch));
    kiln_tensor *x = onnx_in(c, 0), *index = onnx_in(c, 1);
    NEED(x && index);
    size_t rank = kiln_rank(x);
    if (batch < 0 || batch >= (int64_t)rank || batch >= (int64_t)kiln_rank(index))
        return onnx_bad(c, KILN_E_SHAPE, "batch_dims is %lld", (long long)batch);
    if (!batch) return onnx_give(c, 0, kiln_gather_nd(x, index));
    if (memcmp(kiln_dims(x), kiln_dims(index), (size_t)batch * sizeof *dims) != 0)
        return onnx_bad(c, KILN_E_SHAPE, "the first %lld dimensions differ", (long long)batch);
    dims[0] = product(kiln_dims(x), (size_t)batch);
    memcpy(dims + 1, kiln_dims(x) + batch, (rank - (size_t)batch) * sizeof *dims);
    kiln_tensor *flat = kiln_reshape(x, rank - (size_t)batch + 1, dims);
    return onnx_give(c, 0, kiln_gather_nd(flat, with_batch(c, index, (size_t)batch)));
}

typedef kiln_tensor *scatter_fn(kiln_tensor *x, int64_t axis, kiln_tensor *index, kiln_tensor *src);

static kiln_status reduction_of(struct onnx_call *c, scatter_fn **scatter)
{
    static const struct {
        const char *name;
        scatter_fn *fn;
    } reductions[] = {{"none", kiln_scatter},
                      {"add", kiln_scatter_add},
                      {"mul", kiln_scatter_mul},
                      {"max", kiln_scatter_max},
                      {"min", kiln_scatter_min}};
    const char *name;
    TRY(onnx_string(c, "reduction", "none", &name));
    for (size_t i = 0; i < COUNT_OF(reductions); i++) {
        *scatter = reductions[i].fn;
        if (!strcmp(name, reductions[i].name)) return KILN_OK;
    }
    return onnx_bad(c, KILN_E_UNSUPPORTED, "reduction is \"%.20s\"", name);
}

kiln_status onnx_op_scatter(struct onnx_call *c)
{
    int64_t axis;
    scatter_fn *scatter;
    TRY(onnx_check_counts(c, 3, 3, 1));
    TRY(onnx_int(c, "axis", 0, &axis));
    TRY(reduction_of(c, &scatter));
    kiln_tensor *x = onnx_in(c, 0), *index = onnx_in(c, 1), *src = onnx_in(c, 2);
    NEED(x && index && src);
    return onnx_give(c, 0, scatter(x, axis, index, src));
}

// Slices of a matrix: one row for each tuple of indices.
kiln_status onnx_op_scatter_nd(struct onnx_call *c)
{
    scatter_fn *scatter;
    TRY(onnx_check_counts(c, 3, 3, 1));
    TRY(reduction_of(c, &scatter));
    kiln_tensor *x = onnx_in(c, 0), *index = onnx_in(c, 1), *src = onnx_in(c, 2);
    NEED(x && index && src);
    size_t rank = kiln_rank(x), tuples = kiln_rank(index) - 1;
    int64_t k = kiln_rank(index) ? kiln_dims(index)[tuples] : 0;
    if (!kiln_rank(index) || k < 1 || k > (int64_t)rank)
        return onnx_bad(c, KILN_E_SHAPE, "tuples of %lld indices for rank %zu", (long long)k, rank);
    int64_t count = product(kiln_dims(index), tuples);
    int64_t rows = product(kiln_dims(x), (size_t)k), width = product(kiln_dims(x) + k, rank - (size_t)k);
    if (kiln_numel(src) != count * width)
        return onnx_bad(c, KILN_E_SHAPE, "%lld elements for %lld slices of %lld", (long long)kiln_numel(src),
                        (long long)count, (long long)width);
    kiln_tensor *places = kiln_reshape(flat_places(index, kiln_dims(x), k), KILN_SHAPE(count, 1));
    kiln_tensor *matrix = kiln_reshape(x, KILN_SHAPE(rows, width)),
                *slices = kiln_reshape(src, KILN_SHAPE(count, width));
    places = kiln_expand(places, KILN_SHAPE(count, width));
    kiln_tensor *y = scatter(matrix, 0, places, slices);
    return onnx_give(c, 0, kiln_reshape(y, rank, kiln_dims(x)));
}

kiln_status onnx_op_one_hot(struct onnx_call *c)
{
    int64_t axis, depth;
    TRY(onnx_check_counts(c, 3, 3, 1));
    TRY(onnx_int(c, "axis", -1, &axis));
    TRY(onnx_in_int(c, 1, &depth));
    kiln_tensor *ids = onnx_in(c, 0), *values = onnx_in(c, 2);
    NEED(ids && values);
    if (kiln_rank(values) != 1 || kiln_dims(values)[0] != 2 || depth < 1)
        return onnx_bad(c, KILN_E_SHAPE, "depth is %lld, values are %lld", (long long)depth,
                        (long long)kiln_numel(values));
    TRY(onnx_axis(c, axis, kiln_rank(ids) + 1, &axis));
    ids = kiln_cast(ids, KILN_I64);
    ids = kiln_where(kiln_less(ids, kiln_scalar_int(0)), kiln_add(ids, kiln_scalar_int(depth)), ids);
    kiln_tensor *hot = kiln_cast(kiln_one_hot(ids, depth), KILN_BOOL);
    NEED(hot);
    int64_t order[KILN_MAX_RANK];
    for (int64_t i = 0, from = 0; i < (int64_t)kiln_rank(hot); i++)
        order[i] = i == axis ? (int64_t)kiln_rank(hot) - 1 : from++;
    kiln_tensor *y = kiln_where(hot, kiln_select(values, 0, 1), kiln_select(values, 0, 0));
    return onnx_give(c, 0, kiln_permute(y, (kiln_ints){kiln_rank(hot), order}));
}

kiln_status onnx_op_topk(struct onnx_call *c)
{
    int64_t axis, k, largest, sorted;
    kiln_tensor *values, *places;
    TRY(onnx_check_counts(c, 2, 2, 2));
    TRY(onnx_int(c, "axis", -1, &axis));
    TRY(onnx_int(c, "largest", 1, &largest));
    TRY(onnx_int(c, "sorted", 1, &sorted)); // they always are
    TRY(onnx_in_int(c, 1, &k));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(kiln_topk(x, k, axis, largest != 0, &values, &places));
    TRY(onnx_wants(c, 0) ? onnx_give(c, 0, values) : KILN_OK);
    return onnx_wants(c, 1) ? onnx_give(c, 1, places) : KILN_OK;
}

// How many there are is known of values alone: on the host, and eagerly.
kiln_status onnx_op_nonzero(struct onnx_call *c)
{
    TRY(onnx_check_counts(c, 1, 1, 1));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    kiln_tensor *places = kiln_nonzero(kiln_rank(x) ? x : kiln_reshape(x, KILN_SHAPE(1)));
    return onnx_give(c, 0, kiln_transpose(places, 0, 1));
}
