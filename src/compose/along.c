// Tensors along one axis, for other composites.
#include "compose/along.h"
#include <string.h>

kiln_tensor *along_part(kiln_tensor *t, int axis, int64_t start, int64_t length)
{
    return kiln_narrow(t, axis, start, length);
}

kiln_tensor *along_flip(kiln_tensor *t, int axis)
{
    return kiln_flip(t, KILN_AXES(axis));
}

kiln_tensor *along_join(kiln_tensor *a, kiln_tensor *b, int axis)
{
    return kiln_concat((kiln_tensor *[]){a, b}, 2, axis);
}

kiln_tensor *along_axis(kiln_tensor *vector, int axis, size_t rank)
{
    int64_t dims[KILN_MAX_RANK];
    for (size_t d = 0; d < rank; d++) dims[d] = (int)d == axis ? kiln_numel(vector) : 1;
    return kiln_reshape(vector, rank, dims);
}

kiln_tensor *along_places(kiln_tensor *t, int axis)
{
    return along_axis(kiln_arange(kiln_tensor_device(t), KILN_I64, 0, (double)kiln_dim(t, axis), 1), axis,
                      kiln_rank(t));
}

kiln_tensor *along_full(kiln_tensor *t, int axis, int64_t size, kiln_dtype dtype, double value)
{
    int64_t dims[KILN_MAX_RANK];
    for (size_t d = 0; d < kiln_rank(t); d++) dims[d] = (int)d == axis ? size : kiln_dims(t)[d];
    return kiln_full(kiln_tensor_device(t), dtype, kiln_rank(t), dims, value);
}

static kiln_tensor *axis_moved(kiln_tensor *t, int axis, size_t to)
{
    int64_t order[KILN_MAX_RANK];
    size_t rank = kiln_rank(t), from = 0;
    for (size_t d = 0; d < rank; d++) {
        if (d == to) {
            order[d] = axis;
            continue;
        }
        if ((int)from == axis) from++;
        order[d] = (int64_t)from++;
    }
    return kiln_permute(t, (kiln_ints){rank, order});
}

kiln_tensor *axis_last(kiln_tensor *t, int axis)
{
    return axis_moved(t, axis, kiln_rank(t) - 1);
}

kiln_tensor *axis_first(kiln_tensor *t, int axis)
{
    return axis_moved(t, axis, 0);
}
