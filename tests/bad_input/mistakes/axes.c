// Axes: out of range, twice, too many; and options that did not go through their macros.
#include "mistakes.h"

static void axis_out_of_range(void)
{
    AT(kiln_softmax(F32(2, 3), 2));
}

static void axis_of_a_scalar(void)
{
    AT(kiln_softmax(kiln_sum(F32(2, 3), NULL), 0));
}

static void axis_twice(void)
{
    AT(kiln_sum(F32(2, 3), KILN_REDUCE(.axes = KILN_AXES(0, -2))));
}

static void permutation_of_fewer_axes(void)
{
    AT(kiln_permute(F32(2, 3, 4), KILN_AXES(0, 2)));
}

static void permutation_with_an_axis_twice(void)
{
    AT(kiln_permute(F32(2, 3, 4), KILN_AXES(0, 1, 1)));
}

static void transpose_of_a_vector(void)
{
    AT(kiln_transpose(F32(3), 0, 1));
}

static void argmax_over_several_axes(void)
{
    AT(kiln_argmax(F32(2, 3, 4), KILN_REDUCE(.axes = KILN_AXES(0, 1))));
}

static void maximum_of_nothing(void)
{
    AT(kiln_max(F32(0, 3), KILN_REDUCE(.axes = KILN_AXES(0))));
}

static void roll_with_more_shifts_than_axes(void)
{
    const int64_t shifts[] = {1, 2}, axes[] = {0};
    AT(kiln_roll(F32(4, 4), (kiln_ints){2, shifts}, (kiln_ints){1, axes}));
}

static void flatten_from_the_end_to_the_start(void)
{
    AT(kiln_flatten(F32(2, 3, 4), 2, 1));
}

static void axes_in_braces(void)
{
    AT(kiln_sum(F32(2, 3), KILN_REDUCE(.axes = {1})));
}

static void options_without_their_macro(void)
{
    const kiln_reduce_opts opts = {.keepdims = true};
    AT(kiln_sum(F32(2, 3), &opts));
}

static void options_of_a_cell_without_their_macro(void)
{
    const kiln_nn_dense_opts opts = {.no_bias = true};
    AT(kiln_nn_dense(dev, 2, 3, &opts));
}

static void a_struct_to_fill_without_its_size(void)
{
    kiln_device_stats stats = {0};
    AT(kiln_device_get_stats(dev, &stats));
}

static void unstack_into_another_number(void)
{
    kiln_tensor *out[3];
    AT(kiln_unstack(F32(2, 5), 0, out, 3));
}

static void index_with_more_items_than_axes(void)
{
    AT(kiln_index(F32(4, 4), KILN_INDEX(KILN_AT(0), KILN_AT(0), KILN_AT(0))));
}

static void index_out_of_range(void)
{
    AT(kiln_index(F32(4, 4), KILN_INDEX(KILN_AT(4))));
}

static void mask_of_another_shape(void)
{
    AT(kiln_index(F32(4, 4), KILN_INDEX(KILN_MASK(BOOL(3, 4)))));
}

static void step_of_zero(void)
{
    AT(kiln_index(F32(4), KILN_INDEX(KILN_BY(0))));
}

static void range_without_a_step(void)
{
    AT(kiln_arange(dev, KILN_F32, 0, 10, 0));
}

// clang-format takes rows without commas for calls.
// clang-format off
const struct mistake mistakes_in_axes[] = {
    ROW(axis_out_of_range, KILN_E_AXIS, WHAT_TO_DO,
        "softmax: axis 2 is out of range for x of f32[2,3], whose axes are -2 to 1 ({here})")
    ROW(axis_of_a_scalar, KILN_E_AXIS, WHAT,
        "softmax: axis 0 is out of range for x of f32[], which has no axes ({here})")
    ROW(axis_twice, KILN_E_AXIS, WHAT,
        "sum: axis -2 of x of f32[2,3] is given twice ({here})")
    ROW(permutation_of_fewer_axes, KILN_E_AXIS, WHAT,
        "permute: 2 axes are given for f32[2,3,4] ({here})")
    ROW(permutation_with_an_axis_twice, KILN_E_AXIS, WHAT,
        "permute: axis 1 is given twice for f32[2,3,4] ({here})")
    ROW(transpose_of_a_vector, KILN_E_AXIS, WHAT_TO_DO,
        "transpose: axis1 1 is out of range for x of f32[3], whose axes are -1 to 0 ({here})")
    ROW(argmax_over_several_axes, KILN_E_AXIS, WHAT_TO_DO,
        "argmax: takes one axis, or none for the flattened tensor; 2 are given ({here})")
    ROW(maximum_of_nothing, KILN_E_SHAPE, WHAT,
        "max: has no value over no elements: x is f32[0,3] ({here})")
    ROW(roll_with_more_shifts_than_axes, KILN_E_ARGUMENT, WHAT,
        "roll: 2 shifts are given for 1 axes ({here})")
    ROW(flatten_from_the_end_to_the_start, KILN_E_AXIS, WHAT,
        "flatten: start axis 2 is behind stop axis 1 ({here})")
    ROW(axes_in_braces, KILN_E_ARGUMENT, WHAT_TO_DO,
        "sum: axes is NULL, with a count above 0; write KILN_AXES(0, 1) or KILN_ARGS(...) ({here})")
    ROW(options_without_their_macro, KILN_E_ARGUMENT, WHAT_TO_DO,
        "sum: the options have size 0; write KILN_REDUCE(.field = value), which sets it ({here})")
    ROW(options_of_a_cell_without_their_macro, KILN_E_ARGUMENT, WHAT_TO_DO,
        "nn_dense: the options have size 0; write KILN_NN_DENSE(.field = value), which sets it ({here})")
    ROW(a_struct_to_fill_without_its_size, KILN_E_ARGUMENT, WHAT_TO_DO,
        "device_get_stats: out->size is 0; set it to sizeof(kiln_device_stats) ({here})")
    ROW(unstack_into_another_number, KILN_E_SHAPE, WHAT,
        "unstack: axis 0 of f32[2,5] does not have 3 entries ({here})")
    ROW(index_with_more_items_than_axes, KILN_E_SHAPE, WHAT,
        "index: x f32[4,4] has 2 dimensions, 3 are indexed ({here})")
    ROW(index_out_of_range, KILN_E_AXIS, WHAT,
        "index: 4 is out of range for dimension 0 of x f32[4,4] ({here})")
    ROW(mask_of_another_shape, KILN_E_SHAPE, WHAT,
        "index: KILN_MASK bool[3,4] does not have the sizes of x f32[4,4] from dimension 0 on ({here})")
    ROW(step_of_zero, KILN_E_ARGUMENT, WHAT,
        "index: slice: the step of axis 0 is 0 ({here})")
    ROW(range_without_a_step, KILN_E_ARGUMENT, WHAT_TO_DO,
        "arange: needs finite bounds and a step other than 0: start 0, stop 10, step 0 ({here})")
    LAST_ROW
};
// clang-format on
