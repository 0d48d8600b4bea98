// Wrong shapes, dtypes, axes and values for the ops, family by family.
#include "bad_input.h"

void wrong_shapes(void **state)
{
    kiln_tensor *a = F32(2, 3), *b = F32(4, 5), *v = F32(3), *s = F32(1), *c4 = F32(1, 2, 4, 4),
                *one = kiln_full(dev, KILN_F32, KILN_SHAPE0, 1);
    kiln_tensor *out[2], *list[] = {a, b}, *index = I64(2, 9);
    BAD(kiln_add(a, b), KILN_E_SHAPE, "add: ", "do not broadcast", "a is f32[2,3]", "b is f32[4,5]");
    BAD(kiln_clip(a, one, b), KILN_E_SHAPE, "clip: ", "f32[2,3]", "f32[4,5]");
    BAD(kiln_where(BOOL(7), a, b), KILN_E_SHAPE, "where: ", "bool[7]", "f32[2,3]");
    BAD(kiln_matmul(a, b), KILN_E_SHAPE, "matmul: ", "inner dimensions differ", "a is f32[2,3]", "b is f32[4,5]");
    BAD(kiln_matmul(one, a), KILN_E_SHAPE, "matmul: ", "rank 1 or more", "a is f32[]");
    BAD(kiln_matmul(F32(2, 4, 3), F32(5, 3, 4)), KILN_E_SHAPE, "matmul: ", "batch dimensions", "f32[2,4,3]",
        "f32[5,3,4]");
    BAD(kiln_reshape(a, KILN_SHAPE(4, 2)), KILN_E_SHAPE, "reshape: ", "f32[2,3]", "6 elements", "8");
    BAD(kiln_reshape(a, KILN_SHAPE(-1, 4)), KILN_E_SHAPE, "reshape: ", "-1", "f32[2,3]");
    BAD(kiln_reshape(a, KILN_SHAPE(-1, -1)), KILN_E_SHAPE, "reshape: ", "dimensions 0 and 1 are both -1");
    BAD(kiln_reshape(a, KILN_SHAPE(-2, 3)), KILN_E_SHAPE, "reshape: ", "negative", "-2");
    BAD(kiln_expand(a, KILN_SHAPE(2, 4)), KILN_E_SHAPE, "expand: ", "f32[2,3]", "4");
    BAD(kiln_expand(a, KILN_SHAPE(3)), KILN_E_SHAPE, "expand: ", "f32[2,3]");
    BAD(kiln_squeeze(a, KILN_AXES(0)), KILN_E_SHAPE, "squeeze: ", "axis 0", "f32[2,3]");
    BAD(kiln_concat(list, 2, 0), KILN_E_SHAPE, "concat: ", "f32[2,3]", "f32[4,5]");
    BAD(kiln_stack(list, 2, 0), KILN_E_SHAPE, "stack: ", "f32[2,3]", "f32[4,5]");
    BAD(kiln_split(a, 1, out, 2), KILN_E_SHAPE, "split: ", "axis 1", "f32[2,3]", "2 parts");
    BAD(kiln_split_sizes(a, 1, 2, (int64_t[]){1, 1}, out), KILN_E_SHAPE, "split_sizes: ", "2", "f32[2,3]");
    BAD(kiln_split_sizes(a, 1, 2, (int64_t[]){4, -1}, out), KILN_E_SHAPE, "f32[2,3]");
    BAD(kiln_max(F32(0, 3), NULL), KILN_E_SHAPE, "max: ", "no elements", "f32[0,3]");
    BAD(kiln_argmin(F32(0), NULL), KILN_E_SHAPE, "argmin: ", "f32[0]");
    BAD(kiln_tril(v, 0), KILN_E_SHAPE, "tril: ", "f32[3]");
    BAD(kiln_gather(a, 0, I64(2)), KILN_E_SHAPE, "gather: ", "f32[2,3]", "i64[2]");
    BAD(kiln_gather(F32(2, 3, 4), 0, I64(2, 9, 1)), KILN_E_SHAPE, "gather: ", "f32[2,3,4]", "i64[2,9,1]");
    BAD(kiln_index_select(a, 0, index), KILN_E_SHAPE, "index_select: ", "index", "i64[2,9]");
    BAD(kiln_slice_at(a, 0, I64(2, 1), 1), KILN_E_SHAPE, "slice_at: ", "start", "f32[2,3]", "i64[2,1]");
    BAD(kiln_slice_at(a, 1, kiln_scalar_int(0), 4), KILN_E_SHAPE, "slice_at: ", "length 4", "axis 1", "f32[2,3]");
    BAD(kiln_update_at(a, 0, kiln_scalar_int(0), v), KILN_E_SHAPE, "update_at: ", "src", "f32[2,3]", "f32[3]");
    BAD(kiln_update_at(a, 0, kiln_scalar_int(0), F32(3, 3)), KILN_E_SHAPE, "update_at: ", "axis 0", "f32[3,3]");
    BAD(kiln_scatter(a, 0, I64(2, 3), b), KILN_E_SHAPE, "scatter: ", "src", "f32[4,5]");
    BAD(kiln_conv2d(a, b, NULL), KILN_E_SHAPE, "conv2d: ", "x", "4 dimensions", "f32[2,3]");
    BAD(kiln_conv2d(c4, F32(1, 3, 2, 2), NULL), KILN_E_SHAPE, "conv2d: ", "2", "3");
    BAD(kiln_conv2d(c4, F32(1, 2, 9, 9), NULL), KILN_E_SHAPE, "conv2d: ", "9 x 9", "4 x 4");
    BAD(kiln_conv2d(c4, F32(3, 2, 2, 2), KILN_CONV2D(.bias = a)), KILN_E_SHAPE, "conv2d: ", "bias", "f32[2,3]",
        "3 values");
    BAD(kiln_max_pool2d(a, KILN_POOL2D(.kernel = {2, 2})), KILN_E_SHAPE, "max_pool2d: ", "f32[2,3]");
    BAD(kiln_avg_pool2d(c4, KILN_POOL2D(.kernel = {5, 5})), KILN_E_SHAPE, "avg_pool2d: ", "5 x 5", "4 x 4");
    BAD(kiln_layer_norm(a, 1, KILN_LAYER_NORM(.weight = F32(4))), KILN_E_SHAPE, "layer_norm: ", "weight", "f32[4]");
    BAD(kiln_batch_norm(c4, v, v, NULL), KILN_E_SHAPE, "batch_norm: ", "mean", "f32[3]");
    BAD(kiln_cross_entropy(a, I64(3), NULL), KILN_E_SHAPE, "cross_entropy: ", "f32[2,3]", "i64[3]");
    BAD(kiln_pad(a, KILN_PAD(.before = KILN_ARGS(0, 0, 1))), KILN_E_SHAPE, "pad: ", "before has 3", "f32[2,3]");
    BAD(kiln_as_strided(a, KILN_SHAPE(4), KILN_SHAPE(2), 0), KILN_E_SHAPE, "as_strided: ", "6");
    BAD(kiln_as_strided(a, KILN_SHAPE(4), KILN_SHAPE(2, 1), 0), KILN_E_SHAPE, "as_strided: ", "1", "2");
    BAD(kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, -3)), KILN_E_SHAPE, "zeros: ", "negative", "-3");
    BAD(kiln_zeros(dev, KILN_F32, KILN_SHAPE(INT64_MAX, 16)), KILN_E_SHAPE, "overflow");
    BAD(kiln_eye(dev, KILN_F32, -1, 2), KILN_E_SHAPE, "eye: ", "-1");
    BAD(kiln_add_(a, F32(5, 2, 3)), KILN_E_SHAPE, "add_: ", "f32[5,2,3]", "f32[2,3]");
    BAD(kiln_add_(s, v), KILN_E_SHAPE, "add_: ", "f32[3]", "f32[1]");
    BAD(kiln_item_int(a), KILN_E_SHAPE, "item_int: ", "f32[2,3]");
    BAD_VOID(assert_true(isnan(kiln_item(a))), KILN_E_SHAPE, "item: ", "one element", "f32[2,3]");
}

void wrong_dtypes(void **state)
{
    kiln_tensor *f = F32(2, 3), *b = BOOL(2, 3), *i = I64(2, 3), *list[] = {f};
    (void)list;
    BAD(kiln_add(b, b), KILN_E_DTYPE, "add: ", "bool[2,3]", "cast it first");
    BAD(kiln_bitwise_and(f, f), KILN_E_DTYPE, "bitwise_and: ", "f32");
    BAD(kiln_bitwise_left_shift(b, b), KILN_E_DTYPE, "bitwise_left_shift: ", "bool");
    BAD(kiln_where(f, f, f), KILN_E_DTYPE, "where: ", "bool", "f32[2,3]");
    BAD(kiln_matmul(BOOL(2, 2), BOOL(2, 2)), KILN_E_DTYPE, "matmul: ", "bool");
    BAD(kiln_gather(f, 0, F32(2, 3)), KILN_E_DTYPE, "gather: ", "index", "f32[2,3]");
    BAD(kiln_one_hot(f, 3), KILN_E_DTYPE, "one_hot: ", "ids", "f32[2,3]");
    BAD(kiln_embedding(f, f), KILN_E_DTYPE, "embedding: ", "ids", "f32[2,3]");
    BAD(kiln_slice_at(f, 0, F32(1), 1), KILN_E_DTYPE, "slice_at: ", "start", "f32[1]");
    BAD(kiln_update_at(i, 0, kiln_scalar_int(0), f), KILN_E_DTYPE, "update_at: ", "src", "f32[2,3]", "i64[2,3]");
    BAD(kiln_scatter(i, 0, I64(2, 3), f), KILN_E_DTYPE, "scatter: ", "src", "f32[2,3]", "i64[2,3]");
    BAD(kiln_conv2d(I64(1, 1, 3, 3), I64(1, 1, 2, 2), NULL), KILN_E_DTYPE, "conv2d: ", "i64[1,1,3,3]");
    BAD(kiln_max_pool2d(BOOL(1, 1, 4, 4), KILN_POOL2D(.kernel = {2, 2})), KILN_E_DTYPE, "max_pool2d: ", "bool");
    BAD(kiln_avg_pool2d(I64(1, 1, 4, 4), KILN_POOL2D(.kernel = {2, 2})), KILN_E_DTYPE, "avg_pool2d: ", "i64");
    BAD(kiln_dropout(i, 0.5), KILN_E_DTYPE, "dropout: ", "i64[2,3]");
    BAD(kiln_uniform(dev, KILN_I32, KILN_SHAPE(2), 0, 1), KILN_E_DTYPE, "uniform: ", "i32");
    BAD(kiln_randint(dev, KILN_F32, KILN_SHAPE(2), 0, 5), KILN_E_DTYPE, "randint: ", "f32");
    BAD(kiln_cast(f, (kiln_dtype)77), KILN_E_DTYPE, "cast: ", "77");
    BAD(kiln_zeros(dev, (kiln_dtype)-1, KILN_SHAPE(2)), KILN_E_DTYPE, "zeros: ", "dtype");
    BAD(kiln_arange(dev, KILN_BOOL, 0, 5, 1), KILN_E_DTYPE, "arange: ");
    BAD(kiln_add_(i, f), KILN_E_DTYPE, "add_: ", "f32", "i64");
    BAD(kiln_mul_(b, i), KILN_E_DTYPE, "mul_: ");
    BAD(kiln_sqrt_(i), KILN_E_DTYPE, "sqrt_: ", "f32", "i64");
    BAD(kiln_cross_entropy(f, BOOL(2), NULL), KILN_E_DTYPE, "cross_entropy: ", "labels", "bool[2]");
    BAD(kiln_dtype_size((kiln_dtype)31), KILN_E_DTYPE, "dtype_size: ", "31");
}

void wrong_axes(void **state)
{
    kiln_tensor *a = F32(2, 3), *list[] = {a, a}, *out[2];
    BAD(kiln_sum(a, KILN_REDUCE(.axes = KILN_AXES(2))), KILN_E_AXIS, "sum: ", "axis 2", "f32[2,3]");
    BAD(kiln_mean(a, KILN_REDUCE(.axes = KILN_AXES(0, -2))), KILN_E_AXIS, "mean: ", "axis -2", "twice");
    BAD(kiln_argmax(a, KILN_REDUCE(.axes = KILN_AXES(0, 1))), KILN_E_AXIS, "argmax: ", "one axis", "2");
    BAD(kiln_softmax(a, -3), KILN_E_AXIS, "softmax: ", "-3", "f32[2,3]");
    BAD(kiln_log_softmax(a, 2), KILN_E_AXIS, "log_softmax: ", "2");
    BAD(kiln_transpose(a, 0, 5), KILN_E_AXIS, "transpose: ", "5", "f32[2,3]");
    BAD(kiln_permute(a, KILN_AXES(0, 0)), KILN_E_AXIS, "permute: ", "given twice");
    BAD(kiln_permute(a, KILN_AXES(0)), KILN_E_AXIS, "permute: ", "1 axes", "f32[2,3]");
    BAD(kiln_unsqueeze(a, 4), KILN_E_AXIS, "unsqueeze: ", "4", "f32[2,3]");
    BAD(kiln_flip(a, KILN_AXES(7)), KILN_E_AXIS, "flip: ", "7");
    BAD(kiln_flatten(a, 1, 0), KILN_E_AXIS, "flatten: ", "1", "0");
    BAD(kiln_concat(list, 2, 2), KILN_E_AXIS, "concat: ", "2", "f32[2,3]");
    BAD(kiln_stack(list, 2, 3), KILN_E_AXIS, "stack: ", "3", "f32[2,3]");
    BAD(kiln_split(a, 2, out, 2), KILN_E_AXIS, "split: ", "axis 2", "f32[2,3]");
    BAD(kiln_cumsum(a, 9), KILN_E_AXIS, "cumsum: ", "9");
    BAD(kiln_sort(a, 2, false, &out[0], &out[1]), KILN_E_AXIS, "sort: ", "2");
    BAD(kiln_topk(a, 1, -3, true, &out[0], &out[1]), KILN_E_AXIS, "topk: ", "-3");
    BAD(kiln_select(a, 1, 3), KILN_E_AXIS, "select: ", "index 3", "axis 1", "f32[2,3]");
    BAD(kiln_narrow(a, -4, 0, 1), KILN_E_AXIS, "narrow: ", "-4");
    BAD(kiln_gather(a, 3, I64(2, 3)), KILN_E_AXIS, "gather: ", "3");
    BAD(kiln_take(a, 3, I64(2)), KILN_E_AXIS, "take: ", "3");
    BAD(kiln_scatter_add(a, -3, I64(2, 3), a), KILN_E_AXIS, "scatter_add: ", "-3");
    BAD(kiln_layer_norm(a, 3, NULL), KILN_E_AXIS, "layer_norm: ", "3", "f32[2,3]");
    BAD(kiln_diagonal(a, 0, 1, 1), KILN_E_AXIS, "diagonal: ", "f32[2,3]");
    BAD(kiln_repeat_interleave(a, 2, 5), KILN_E_AXIS, "repeat_interleave: ", "5");
    BAD(kiln_roll(a, KILN_ARGS(1), KILN_AXES(2)), KILN_E_AXIS, "roll: ", "2");
    BAD_VOID(assert_int_equal(kiln_dim(a, 2), -1), KILN_E_AXIS, "dim: ", "axis 2", "f32[2,3]");
}

void wrong_values(void **state)
{
    kiln_tensor *a = F32(2, 3), *c4 = F32(1, 2, 4, 4), *w = F32(2, 2, 2, 2), *out[2];
    BAD(kiln_arange(dev, KILN_F32, 0, 5, 0), KILN_E_ARGUMENT, "arange: ", "step");
    BAD(kiln_arange(dev, KILN_F32, 0, INFINITY, 1), KILN_E_ARGUMENT, "arange: ", "inf");
    BAD(kiln_arange(dev, KILN_I32, 0, 5, 0.5), KILN_E_ARGUMENT, "arange: ", "i32", "whole", "step 0.5");
    BAD(kiln_linspace(dev, KILN_F32, 0, 1, -2), KILN_E_ARGUMENT, "linspace: ", "-2");
    BAD(kiln_conv2d(c4, w, KILN_CONV2D(.stride = {-1, 1})), KILN_E_ARGUMENT, "conv2d: ", "stride", "-1");
    BAD(kiln_conv2d(c4, w, KILN_CONV2D(.padding = {0, -2})), KILN_E_ARGUMENT, "conv2d: ", "padding", "-2");
    BAD(kiln_conv2d(c4, w, KILN_CONV2D(.groups = -3)), KILN_E_ARGUMENT, "conv2d: ", "groups", "-3");
    BAD(kiln_max_pool2d(c4, KILN_POOL2D(.kernel = {2, 2}, .padding = {2, 2})), KILN_E_ARGUMENT,
        "max_pool2d: ", "padding 2");
    BAD(kiln_max_pool2d(c4, KILN_POOL2D(.kernel = {-2, 2})), KILN_E_ARGUMENT, "max_pool2d: ", "kernel -2");
    BAD(kiln_cross_entropy(a, I64(2), KILN_CROSS_ENTROPY(.reduction = 9)), KILN_E_ARGUMENT,
        "cross_entropy: ", "reduction 9");
    BAD(kiln_cross_entropy(a, I64(2), KILN_CROSS_ENTROPY(.label_smoothing = 2)), KILN_E_ARGUMENT,
        "cross_entropy: ", "label_smoothing 2");
    BAD(kiln_norm(a, KILN_NORM(.ord = NAN)), KILN_E_ARGUMENT, "norm: ", "ord is NaN");
    BAD(kiln_one_hot(I64(2), -1), KILN_E_ARGUMENT, "one_hot: ", "depth", "-1");
    BAD(kiln_topk(a, 4, 1, true, &out[0], &out[1]), KILN_E_ARGUMENT, "topk: ", "k is 4", "f32[2,3]");
    BAD(kiln_tile(a, KILN_SHAPE(2, -1)), KILN_E_ARGUMENT, "tile: ", "-1");
    BAD(kiln_repeat_interleave(a, -2, 0), KILN_E_ARGUMENT, "repeat_interleave: ", "-2");
    BAD(kiln_roll(a, KILN_ARGS(1, 2), KILN_AXES(0)), KILN_E_ARGUMENT, "roll: ", "2 shifts", "1 axes");
    BAD(kiln_pad(a, KILN_PAD(.before = KILN_ARGS(1, 1), .after = KILN_ARGS(0, 0), .mode = 9)), KILN_E_ARGUMENT,
        "pad: ", "mode 9");
    BAD(kiln_pad(a, KILN_PAD(.before = KILN_ARGS(2, 1), .after = KILN_ARGS(0, 0), .mode = 1)), KILN_E_ARGUMENT,
        "pad: ", "axis 0", "f32[2,3]");
    BAD(kiln_slice(a, KILN_SLICE(.step = KILN_ARGS(0, 1))), KILN_E_ARGUMENT, "slice: ", "step", "axis 0", "0");
    BAD(kiln_slice(a, KILN_SLICE(.start = KILN_ARGS(0, 0, 0))), KILN_E_SHAPE, "slice: ", "start", "3 entries",
        "f32[2,3]");
    BAD(kiln_narrow(a, 1, 2, 2), KILN_E_SHAPE, "narrow: ", "start 2", "length 2", "f32[2,3]");
    BAD(kiln_dropout(a, 1.5), KILN_E_ARGUMENT, "dropout: ", "1.5");
    BAD(kiln_dropout(a, NAN), KILN_E_ARGUMENT, "dropout: ", "nan");
    BAD(kiln_bernoulli(dev, KILN_F32, KILN_SHAPE(2), -0.5), KILN_E_ARGUMENT, "bernoulli: ", "-0.5");
    BAD(kiln_uniform(dev, KILN_F32, KILN_SHAPE(2), 1, -3), KILN_E_ARGUMENT, "uniform: ", "from 1 to -3");
    BAD(kiln_normal(dev, KILN_F32, KILN_SHAPE(2), 0, -1), KILN_E_ARGUMENT, "normal: ", "std -1");
    BAD(kiln_randint(dev, KILN_I32, KILN_SHAPE(2), 5, 5), KILN_E_ARGUMENT, "randint: ", "5");
    BAD(kiln_randperm(dev, -1), KILN_E_ARGUMENT, "randperm: ", "-1");
    BAD(kiln_concat(NULL, 2, 0), KILN_E_ARGUMENT, "concat: ", "NULL");
    BAD(kiln_concat(&a, 0, 0), KILN_E_ARGUMENT, "concat: ", "0");
    BAD(kiln_apply("frobnicate", &a, 1), KILN_E_ARGUMENT, "frobnicate");
    BAD(kiln_apply(NULL, &a, 1), KILN_E_ARGUMENT, "NULL");
    BAD(kiln_apply("add", &a, 1), KILN_E_ARGUMENT, "add: ", "2", "1");
}

void wrong_views(void **state)
{
    BAD(kiln_reshape(F32(6), 1, NULL), KILN_E_ARGUMENT, "reshape: ", "shape is NULL");
    BAD(kiln_zeros(dev, KILN_F32, 2, NULL), KILN_E_ARGUMENT, "zeros: ", "shape is NULL");
    BAD(kiln_sum(F32(6), KILN_REDUCE(.axes = {1, NULL})), KILN_E_ARGUMENT, "sum: ", "axes is NULL");
    // A number has no storage to look at differently: it becomes a tensor first.
    assert_non_null(kiln_reshape(kiln_scalar(2), KILN_SHAPE(1, 1)));
    BAD(kiln_reshape(kiln_scalar(2), KILN_SHAPE(2)), KILN_E_SHAPE, "reshape: ", "1 elements");
}

void too_many_dimensions(void **state)
{
    int64_t dims[KILN_MAX_RANK + 1], places[KILN_MAX_RANK + 1] = {0};
    for (int d = 0; d <= KILN_MAX_RANK; d++) dims[d] = d % 8 ? 1 : 2;
    kiln_tensor *deep = kiln_zeros(dev, KILN_F32, KILN_MAX_RANK, dims), *list[] = {deep, deep},
                *index = kiln_zeros(dev, KILN_I64, KILN_MAX_RANK, dims), *pairs = I64(2, 1);
    size_t n = KILN_MAX_RANK + 1;
    BAD(kiln_full(dev, KILN_F32, n, dims, 1), KILN_E_SHAPE, "full: ", "shape", "more than 16");
    BAD(kiln_initializer(dev, KILN_F32, n, dims, "ones"), KILN_E_SHAPE, "ones: ", "shape", "more than 16");
    BAD(kiln_zeros(dev, KILN_F32, n, dims), KILN_E_SHAPE, "zeros: ", "shape", "more than 16");
    BAD(kiln_reshape(deep, n, dims), KILN_E_SHAPE, "reshape: ", "shape", "more than 16");
    BAD(kiln_expand(deep, n, dims), KILN_E_SHAPE, "expand: ", "shape", "more than 16");
    BAD(kiln_permute(deep, (kiln_ints){n, places}), KILN_E_SHAPE, "permute: ", "axes", "more than 16");
    BAD(kiln_tile(deep, n, dims), KILN_E_SHAPE, "tile: ", "repeats", "more than 16");
    BAD(kiln_as_strided(deep, n, dims, n, places, 0), KILN_E_SHAPE, "as_strided: ", "shape", "more than 16");
    BAD(kiln_slice(deep, KILN_SLICE(.start = {n, places})), KILN_E_SHAPE, "slice: ", "start", "more than 16");
    BAD(kiln_sum(deep, KILN_REDUCE(.axes = {n, places})), KILN_E_SHAPE, "sum: ", "axes", "more than 16");
    BAD(kiln_pad(deep, KILN_PAD(.before = {n, places})), KILN_E_SHAPE, "pad: ", "before", "more than 16");
    BAD(kiln_unsqueeze(deep, 0), KILN_E_SHAPE, "unsqueeze: ", "more than 16 dimensions");
    BAD(kiln_stack(list, 2, 0), KILN_E_SHAPE, "stack: ", "more than 16 dimensions");
    BAD(kiln_one_hot(index, 2), KILN_E_SHAPE, "one_hot: ", "more than 16 dimensions");
    BAD(kiln_take(deep, 0, pairs), KILN_E_SHAPE, "take: ", "more than 16 dimensions");
    BAD(kiln_embedding(deep, pairs), KILN_E_SHAPE, "embedding: ", "more than 16 dimensions");
    BAD(kiln_gather_nd(deep, kiln_reshape(pairs, KILN_SHAPE(1, 2, 1))), KILN_E_SHAPE,
        "gather_nd: ", "more than 16 dimensions");
    BAD(kiln_scatter_nd(pairs, F32(1), n, dims), KILN_E_SHAPE, "scatter_nd: ", "shape", "more than 16");
}
