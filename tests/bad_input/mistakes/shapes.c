// Shapes that do not fit together.
#include "mistakes.h"

static void matmul_of_other_sizes(void)
{
    AT(kiln_matmul(F32(2, 3), F32(4, 5)));
}

// w [out, in], as PyTorch's Linear has it, without the transpose.
static void matmul_with_weights_of_a_linear(void)
{
    AT(kiln_matmul(F32(32, 100), F32(10, 100)));
}

static void matmul_of_other_batches(void)
{
    AT(kiln_matmul(F32(4, 2, 3), F32(5, 3, 2)));
}

static void matmul_with_a_scalar(void)
{
    AT(kiln_matmul(F32(2, 3), kiln_scalar(2)));
}

static void no_broadcast(void)
{
    AT(kiln_add(F32(2, 3), F32(4)));
}

static void bias_along_rows(void)
{
    AT(kiln_add(F32(8, 10), F32(8)));
}

static void where_of_other_shapes(void)
{
    AT(kiln_where(BOOL(3), F32(2), F32(3)));
}

static void image_with_channels_last(void)
{
    AT(kiln_conv2d(F32(1, 28, 28, 3), F32(8, 3, 3, 3), NULL));
}

static void image_without_batch(void)
{
    AT(kiln_conv2d(F32(3, 28, 28), F32(8, 3, 3, 3), NULL));
}

// As TensorFlow and JAX have them.
static void kernel_with_channels_last(void)
{
    AT(kiln_conv2d(F32(1, 3, 28, 28), F32(5, 5, 3, 8), NULL));
}

static void kernel_larger_than_the_image(void)
{
    AT(kiln_conv2d(F32(1, 1, 4, 4), F32(1, 1, 5, 5), NULL));
}

static void groups_that_do_not_divide(void)
{
    AT(kiln_conv2d(F32(1, 4, 8, 8), F32(6, 4, 3, 3), KILN_CONV2D(.groups = 2)));
}

static void groups_of_uneven_outputs(void)
{
    AT(kiln_conv2d(F32(1, 4, 8, 8), F32(5, 2, 3, 3), KILN_CONV2D(.groups = 2)));
}

static void convolution_bias_of_other_size(void)
{
    AT(kiln_conv2d(F32(1, 3, 8, 8), F32(6, 3, 3, 3), KILN_CONV2D(.bias = F32(3))));
}

static void pool_larger_than_the_image(void)
{
    AT(kiln_max_pool2d(F32(1, 1, 2, 2), KILN_POOL2D(.kernel = {3, 3})));
}

static void pool_of_a_flat_image(void)
{
    AT(kiln_max_pool2d(F32(1, 784), KILN_POOL2D(.kernel = {2, 2})));
}

static void pool_padded_by_a_window(void)
{
    AT(kiln_avg_pool2d(F32(1, 1, 8, 8), KILN_POOL2D(.kernel = {2, 2}, .padding = {2, 2})));
}

static void reshape_to_another_size(void)
{
    AT(kiln_reshape(F32(2, 3), KILN_SHAPE(4, 2)));
}

static void reshape_by_a_rest_that_does_not_divide(void)
{
    AT(kiln_reshape(F32(2, 3), KILN_SHAPE(-1, 4)));
}

static void reshape_with_two_rests(void)
{
    AT(kiln_reshape(F32(2, 3), KILN_SHAPE(-1, -1)));
}

static void expand_of_a_size_that_is_not_1(void)
{
    AT(kiln_expand(F32(3, 1), KILN_SHAPE(4, 5)));
}

static void squeeze_of_a_larger_size(void)
{
    AT(kiln_squeeze(F32(3, 1), KILN_AXES(0)));
}

static void concat_of_other_shapes(void)
{
    kiln_tensor *t[] = {F32(2, 3), F32(2, 4)};
    AT(kiln_concat(t, 2, 0));
}

static void stack_of_other_shapes(void)
{
    kiln_tensor *t[] = {F32(2, 3), F32(3, 2)};
    AT(kiln_stack(t, 2, 0));
}

static void split_that_does_not_divide(void)
{
    kiln_tensor *parts[3];
    AT(kiln_split(F32(10, 2), 0, parts, 3));
}

static void split_sizes_of_another_sum(void)
{
    kiln_tensor *parts[2];
    const int64_t sizes[] = {3, 4};
    AT(kiln_split_sizes(F32(10), 0, 2, sizes, parts));
}

static void narrow_beyond_the_end(void)
{
    AT(kiln_narrow(F32(4, 4), 0, 2, 3));
}

static void select_beyond_the_end(void)
{
    AT(kiln_select(F32(4, 4), 0, 4));
}

static void a_negative_size(void)
{
    AT(kiln_zeros(dev, KILN_F32, KILN_SHAPE(-1, 3)));
}

static void a_size_beyond_all_memory(void)
{
    AT(kiln_zeros(dev, KILN_F32, KILN_SHAPE(1 << 30, 1 << 30, 1 << 30)));
}

static void more_dimensions_than_there_are(void)
{
    AT(kiln_zeros(dev, KILN_F32, KILN_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)));
}

static void weight_of_a_norm_of_other_size(void)
{
    AT(kiln_layer_norm(F32(4, 8), 1, KILN_LAYER_NORM(.weight = F32(4))));
}

static void norm_over_more_axes_than_there_are(void)
{
    AT(kiln_layer_norm(F32(8), 2, NULL));
}

static void statistics_of_other_size(void)
{
    AT(kiln_batch_norm(F32(2, 3, 4, 4), F32(4), F32(4), NULL));
}

static void einsum_of_other_sizes(void)
{
    kiln_tensor *in[] = {F32(2, 3), F32(4, 5)};
    AT(kiln_einsum("ij,jk->ik", in, 2));
}

static void einsum_with_another_number_of_letters(void)
{
    kiln_tensor *in[] = {F32(2, 3, 4)};
    AT(kiln_einsum("ij->ji", in, 1));
}

static void loss_of_other_shapes(void)
{
    AT(kiln_loss_mse(F32(32, 10), F32(32), KILN_REDUCTION_MEAN));
}

static void attention_heads_of_other_widths(void)
{
    AT(kiln_sdpa(F32(2, 4, 8), F32(2, 4, 6), F32(2, 4, 8), NULL, NULL));
}

static void solve_of_a_matrix_that_is_not_square(void)
{
    AT(kiln_solve(F32(3, 2), F32(3)));
}

static void slice_into_a_smaller_place(void)
{
    kiln_tensor *x = F32(4, 4);
    AT(kiln_set_slice(x, KILN_SLICE(.start = KILN_ARGS(0), .stop = KILN_ARGS(2)), F32(3, 4)));
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_shapes[] = {
    ROW(matmul_of_other_sizes, KILN_E_SHAPE, WHAT,
        "matmul: inner dimensions differ: a is f32[2,3], b is f32[4,5] ({here})")
    ROW(matmul_with_weights_of_a_linear, KILN_E_SHAPE, WHAT_TO_DO,
        "matmul: inner dimensions differ: a is f32[32,100], b is f32[10,100]; they fit with kiln_transpose(b, -2, "
        "-1) ({here})")
    ROW(matmul_of_other_batches, KILN_E_SHAPE, WHAT,
        "matmul: batch dimensions do not broadcast: a is f32[4,2,3], b is f32[5,3,2] ({here})")
    ROW(matmul_with_a_scalar, KILN_E_SHAPE, WHAT_TO_DO,
        "matmul: takes tensors of rank 1 or more: a is f32[2,3], b is f32[]; kiln_mul takes scalars ({here})")
    ROW(no_broadcast, KILN_E_SHAPE, WHAT,
        "add: shapes do not broadcast: a is f32[2,3], b is f32[4] ({here})")
    ROW(bias_along_rows, KILN_E_SHAPE, WHAT_TO_DO,
        "add: shapes do not broadcast: a is f32[8,10], b is f32[8]; along axis 0 of a it is kiln_unsqueeze(b, 1) "
        "({here})")
    ROW(where_of_other_shapes, KILN_E_SHAPE, WHAT,
        "where: shapes do not broadcast: x is f32[2] against bool[3] ({here})")
    ROW(image_with_channels_last, KILN_E_SHAPE, WHAT_TO_DO,
        "conv2d: x is f32[1,28,28,3] and w is f32[8,3,3,3]: 28 input channels (axis 1, NCHW), 8 outputs and groups 1 "
        "do not fit a weight with 3 channels; x looks like NHWC: kiln_permute(x, KILN_AXES(0, 3, 1, 2)) makes it "
        "NCHW ({here})")
    ROW(image_without_batch, KILN_E_SHAPE, WHAT_TO_DO,
        "conv2d: x must have 4 dimensions, [N, C, H, W], it is f32[3,28,28]; kiln_unsqueeze(x, 0) makes it a batch "
        "of one ({here})")
    ROW(kernel_with_channels_last, KILN_E_SHAPE, WHAT_TO_DO,
        "conv2d: x is f32[1,3,28,28] and w is f32[5,5,3,8]: 3 input channels (axis 1, NCHW), 5 outputs and groups 1 "
        "do not fit a weight with 5 channels; w looks like HWIO: kiln_permute(w, KILN_AXES(3, 2, 0, 1)) makes it "
        "OIHW ({here})")
    ROW(kernel_larger_than_the_image, KILN_E_SHAPE, WHAT,
        "conv2d: a kernel of 5 x 5 with dilation 1, 1 does not fit into 4 x 4 with padding 0, 0; x is f32[1,1,4,4] "
        "({here})")
    ROW(groups_that_do_not_divide, KILN_E_SHAPE, WHAT,
        "conv2d: x is f32[1,4,8,8] and w is f32[6,4,3,3]: 4 input channels (axis 1, NCHW), 6 outputs and groups 2 do "
        "not fit a weight with 4 channels; of w axis 1 is the input channels divided by groups ({here})")
    ROW(groups_of_uneven_outputs, KILN_E_SHAPE, WHAT,
        "conv2d: x is f32[1,4,8,8] and w is f32[5,2,3,3]: 4 input channels (axis 1, NCHW), 5 outputs and groups 2 do "
        "not fit a weight with 2 channels ({here})")
    ROW(convolution_bias_of_other_size, KILN_E_SHAPE, WHAT_TO_DO,
        "conv2d: bias is f32[3], it must have 6 values, the outputs of w f32[6,3,3,3] ({here})")
    ROW(pool_larger_than_the_image, KILN_E_SHAPE, WHAT,
        "max_pool2d: a window of 3 x 3 does not fit into 2 x 2, x is f32[1,1,2,2] ({here})")
    ROW(pool_of_a_flat_image, KILN_E_SHAPE, WHAT_TO_DO,
        "max_pool2d: x must have 4 dimensions, [N, C, H, W]; it is f32[1,784] ({here})")
    ROW(pool_padded_by_a_window, KILN_E_ARGUMENT, WHAT,
        "avg_pool2d: padding 2: a window of 2 would hold nothing else ({here})")
    ROW(reshape_to_another_size, KILN_E_SHAPE, WHAT,
        "reshape: f32[2,3] has 6 elements, the shape f32[4,2] has 8 ({here})")
    ROW(reshape_by_a_rest_that_does_not_divide, KILN_E_SHAPE, WHAT,
        "reshape: -1 has no size that fits: x is f32[2,3] of 6 elements, the others make 4 ({here})")
    ROW(reshape_with_two_rests, KILN_E_SHAPE, WHAT_TO_DO,
        "reshape: dimensions 0 and 1 are both -1, one can be found ({here})")
    ROW(expand_of_a_size_that_is_not_1, KILN_E_SHAPE, WHAT,
        "expand: dimension 0 of f32[3,1] does not broadcast to 4 ({here})")
    ROW(squeeze_of_a_larger_size, KILN_E_SHAPE, WHAT,
        "squeeze: axis 0 of f32[3,1] does not have size 1 ({here})")
    ROW(concat_of_other_shapes, KILN_E_SHAPE, WHAT,
        "concat: tensor 0 is f32[2,3], tensor 1 is f32[2,4] ({here})")
    ROW(stack_of_other_shapes, KILN_E_SHAPE, WHAT,
        "stack: tensor 0 is f32[2,3], tensor 1 is f32[3,2] ({here})")
    ROW(split_that_does_not_divide, KILN_E_SHAPE, WHAT_TO_DO,
        "split: axis 0 of f32[10,2] does not divide into 3 parts; kiln_split_sizes makes uneven ones ({here})")
    ROW(split_sizes_of_another_sum, KILN_E_SHAPE, WHAT,
        "split_sizes: the sizes add up to 7, axis 0 of f32[10] does not ({here})")
    ROW(narrow_beyond_the_end, KILN_E_SHAPE, WHAT,
        "narrow: start 2 and length 3 leave axis 0 of f32[4,4] ({here})")
    ROW(select_beyond_the_end, KILN_E_AXIS, WHAT,
        "select: index 4 is out of range for axis 0 of f32[4,4] ({here})")
    ROW(a_negative_size, KILN_E_SHAPE, WHAT,
        "zeros: dimension 0 is negative: -1 ({here})")
    ROW(a_size_beyond_all_memory, KILN_E_SHAPE, WHAT,
        "zeros: the size of f32[1073741824,1073741824,1073741824] overflows ({here})")
    ROW(more_dimensions_than_there_are, KILN_E_SHAPE, WHAT,
        "zeros: shape has more than 16 entries ({here})")
    ROW(weight_of_a_norm_of_other_size, KILN_E_SHAPE, WHAT_TO_DO,
        "layer_norm: weight is f32[4], it must have the shape of the last 1 axes of x, f32[4,8] ({here})")
    ROW(norm_over_more_axes_than_there_are, KILN_E_AXIS, WHAT,
        "layer_norm: n_axes 2 is out of range for x of f32[8] ({here})")
    ROW(statistics_of_other_size, KILN_E_SHAPE, WHAT_TO_DO,
        "batch_norm: mean is f32[4], it must have one value for each channel of x, f32[2,3,4,4] ({here})")
    ROW(einsum_of_other_sizes, KILN_E_ARGUMENT, WHAT,
        "einsum: \"ij,jk->ik\": 'j' is 3 and, in tensors[1] of f32[4,5], 4 ({here})")
    ROW(einsum_with_another_number_of_letters, KILN_E_ARGUMENT, WHAT,
        "einsum: \"ij->ji\": \"ij\" has 2 letters for tensors[0] of f32[2,3,4] ({here})")
    ROW(loss_of_other_shapes, KILN_E_SHAPE, WHAT,
        "loss_mse: the target does not broadcast to x: it is f32[32], x is f32[32,10] ({here})")
    ROW(attention_heads_of_other_widths, KILN_E_SHAPE, WHAT,
        "scaled_dot_product_attention: the last axes of q and k must agree; q is f32[2,4,8], k is f32[2,4,6], v is "
        "f32[2,4,8] ({here})")
    ROW(solve_of_a_matrix_that_is_not_square, KILN_E_SHAPE, WHAT,
        "solve: takes square matrices, a is f32[3,2] ({here})")
    ROW(slice_into_a_smaller_place, KILN_E_SHAPE, WHAT,
        "set_slice: assign: src is f32[3,4], it does not broadcast to dst of f32[2,4] ({here})")
    LAST_ROW
};
// clang-format on
