// Wrong indices of kiln_index and its writes, and of composites that count, split and search.
#include "bad_input.h"

void wrong_indices(void **state)
{
    kiln_tensor *x = F32(3, 4), *i = I64(2), *m = BOOL(3, 5), *out[2], *s = F32(1);
    BAD(kiln_index(x, KILN_INDEX(KILN_AT(0), KILN_AT(1), KILN_ALL)), KILN_E_SHAPE,
        "index: x f32[3,4] has 2 dimensions, 3 are indexed");
    BAD(kiln_index(x, KILN_INDEX(KILN_ELLIPSIS, KILN_ELLIPSIS)), KILN_E_ARGUMENT, "index: ", "2 KILN_ELLIPSIS");
    BAD(kiln_index(x, KILN_INDEX(KILN_ALL, KILN_AT(4))), KILN_E_AXIS, "index: ", "4 is out of range", "dimension 1",
        "f32[3,4]");
    BAD(kiln_index(x, KILN_INDEX(KILN_AT(-4))), KILN_E_AXIS, "index: ", "-4", "dimension 0");
    BAD(kiln_index(x, KILN_INDEX(KILN_BY(0))), KILN_E_ARGUMENT, "index: ", "step", "0");
    BAD(kiln_index(x, KILN_INDEX(KILN_TAKE(x))), KILN_E_DTYPE, "index: ", "KILN_TAKE", "f32[3,4]");
    BAD(kiln_index(x, KILN_INDEX(KILN_TAKE(m))), KILN_E_DTYPE, "index: ", "KILN_TAKE", "bool[3,5]");
    BAD(kiln_index(x, KILN_INDEX(KILN_MASK(i))), KILN_E_DTYPE, "index: ", "KILN_MASK", "i64[2]");
    BAD(kiln_index(x, KILN_INDEX(KILN_MASK(m))), KILN_E_SHAPE, "index: ", "KILN_MASK bool[3,5]", "f32[3,4]");
    BAD(kiln_index(x, KILN_INDEX(KILN_TAKE(NULL))), KILN_E_ARGUMENT, "index: ", "NULL");
    BAD(kiln_index(x, 1, NULL), KILN_E_ARGUMENT, "index: ", "items is NULL");
    BAD(kiln_index(x, KILN_INDEX(KILN_TAKE(i), KILN_TAKE(I64(3)))), KILN_E_SHAPE, "index: ", "i64[3]");
    BAD(kiln_index(x, 1, &(kiln_index_item){.kind = 9}), KILN_E_ARGUMENT, "index: ", "kind 9");
    BAD(kiln_index_assign(x, KILN_INDEX(KILN_AT(0)), F32(5)), KILN_E_SHAPE, "index_assign: ", "f32[5]");
    BAD(kiln_index_assign(x, KILN_INDEX(KILN_TAKE(i)), F32(3, 4)), KILN_E_SHAPE, "index_assign: ", "f32[3,4]");
    BAD(kiln_index_assign(i, KILN_INDEX(KILN_AT(0)), kiln_scalar(2)), KILN_E_DTYPE, "index_assign: ", "i64[]");
    BAD(kiln_index_assign(i, KILN_INDEX(KILN_MASK(BOOL(2))), s), KILN_E_DTYPE, "index_assign: ", "f32[1]", "i64[2]");
    BAD(kiln_index_assign(kiln_parameter(x, "p"), KILN_INDEX(KILN_AT(0)), s), KILN_E_GRADIENT, "index_assign: ");
    BAD(kiln_index_put(x, KILN_INDEX(KILN_MASK(BOOL(3))), F32(7, 4), false), KILN_E_SHAPE, "index_put: ", "f32[7,4]");
    BAD(kiln_bincount(x, NULL), KILN_E_DTYPE, "bincount: ", "f32[3,4]");
    BAD(kiln_bincount(kiln_neg(kiln_ones(dev, KILN_I64, KILN_SHAPE(2))), NULL), KILN_E_ARGUMENT, "bincount: ", "-1");
    BAD(kiln_bincount(i, KILN_BINCOUNT(.weights = F32(3))), KILN_E_SHAPE, "bincount: ", "f32[3]", "i64[2]");
    BAD(kiln_histogram(x, 0, NULL, &out[0], &out[1]), KILN_E_ARGUMENT, "histogram: ", "bins is 0");
    BAD(kiln_histogram(x, 4, KILN_HISTOGRAM(.lo = 2, .hi = 1), &out[0], &out[1]), KILN_E_ARGUMENT,
        "histogram: ", "from 2 to 1");
    BAD(kiln_searchsorted(x, F32(2, 4), false), KILN_E_SHAPE, "searchsorted: ", "f32[3,4]", "f32[2,4]");
    BAD(kiln_quantile(x, s, 1, KILN_QUANTILE(.interpolation = 7)), KILN_E_ARGUMENT, "quantile: ", "interpolation is 7");
    BAD(kiln_kthvalue(x, 5, 1, false, &out[0], &out[1]), KILN_E_ARGUMENT, "kthvalue: ", "k is 5", "axis 1");
    BAD(kiln_median(F32(3, 0), 1, false, &out[0], &out[1]), KILN_E_SHAPE, "median: ", "no elements", "f32[3,0]");
    BAD(kiln_scatter_reduce(x, 0, I64(1, 4), F32(1, 4), 9, true), KILN_E_ARGUMENT, "scatter_reduce: ", "9");
    BAD(kiln_tensor_split(x, 0, KILN_SHAPE(1), out, 1), KILN_E_ARGUMENT, "tensor_split: ", "2 parts", "n_out is 1");
    BAD(kiln_array_split(x, 0, NULL, 2), KILN_E_ARGUMENT, "array_split: ", "parts is NULL");
    BAD(kiln_moveaxis(x, KILN_AXES(0, 0), KILN_AXES(0, 1)), KILN_E_AXIS, "moveaxis: ", "from", "0 twice");
    BAD(kiln_unflatten(x, 1, 2, NULL), KILN_E_ARGUMENT, "unflatten: ", "shape is NULL");
    BAD(kiln_moveaxis(x, (kiln_ints){1, NULL}, KILN_AXES(0)), KILN_E_ARGUMENT, "moveaxis: ", "from is NULL");
    BAD(kiln_unflatten(x, 1, KILN_SHAPE(3, -1)), KILN_E_SHAPE, "unflatten: ", "axis 1", "f32[3,4]");
    BAD(kiln_select_scatter(x, s, 0, 3), KILN_E_AXIS, "select_scatter: ", "index 3", "f32[3,4]");
    BAD(kiln_slice_scatter(x, s, 0, 0, 2, -1), KILN_E_ARGUMENT, "slice_scatter: ", "step is -1");
}

// Places that tensors name: the CPU says so, a GPU reads 0 and writes nothing.
void indices_out_of_range(void **state)
{
    kiln_tensor *x = F32(3, 4), *i = kiln_full_int(dev, KILN_I64, KILN_SHAPE(2), 7), *two = kiln_scalar(2);
    kiln_device_info info = {.size = sizeof info};
    assert_int_equal(kiln_device_get_info(dev, &info), KILN_OK);
    if (!strcmp(info.kind, "cpu")) {
        BAD(kiln_index(x, KILN_INDEX(KILN_TAKE(i))), KILN_E_ARGUMENT, "index: ", "7", "3 elements");
        BAD(kiln_index(x, KILN_INDEX(KILN_TAKE(i), KILN_TAKE(I64(2)))), KILN_E_ARGUMENT, "index: ", "7");
        BAD(kiln_index_assign(x, KILN_INDEX(KILN_TAKE(i)), two), KILN_E_ARGUMENT, "index_assign: ", "7");
        BAD(kiln_index_assign_add(x, KILN_INDEX(KILN_TAKE(i), KILN_TAKE(I64(2))), two), KILN_E_ARGUMENT,
            "index_assign_add: ", "out of range");
        BAD(kiln_bincount_sized(i, 3, NULL), KILN_E_ARGUMENT, "bincount_sized: ", "7");
        BAD(kiln_quantile(x, two, 1, NULL), KILN_E_ARGUMENT, "quantile: ", "out of range");
        return;
    }
    assert_true(kiln_item(kiln_sum(kiln_index(x, KILN_INDEX(KILN_TAKE(i))), NULL)) == 0);
    assert_int_equal(kiln_index_assign(x, KILN_INDEX(KILN_TAKE(i), KILN_TAKE(I64(2))), two), KILN_OK);
    assert_true(kiln_item(kiln_sum(x, NULL)) == 12);
    assert_int_equal(kiln_item_int(kiln_sum(kiln_bincount_sized(i, 3, NULL), NULL)), 0);
}
