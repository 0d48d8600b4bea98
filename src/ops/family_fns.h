// Declares every function a row of structured.def names.
#pragma once
#include "ir/op.h"

#define INFER(f) kiln_status f(struct op_call *c);
#define LOWER(f) kiln_status f(const struct op_call *c, struct lowering *lo);
#define VIEW(f)  kiln_status f(const struct op_call *c, const struct layout *in, struct layout *out, bool *copy);

// Shared
INFER(infer_same)
// creation.c
INFER(infer_full)
INFER(infer_arange)
INFER(infer_linspace) LOWER(lower_full) LOWER(lower_full_int) LOWER(lower_zeros) LOWER(lower_ones) LOWER(lower_arange)
    LOWER(lower_linspace)
    // cast.c
    INFER(infer_cast) LOWER(lower_cast)
    // assign.c
    INFER(infer_assign) LOWER(lower_assign)
    // reduce.c
    INFER(infer_sum) INFER(infer_mean) INFER(infer_extremum) INFER(infer_any) INFER(infer_arg) LOWER(lower_reduce)
        LOWER(lower_extremum) LOWER(lower_mean) LOWER(lower_var) LOWER(lower_norm)
    // matmul.c
    INFER(infer_matmul) LOWER(lower_matmul)
    // view_ops.c
    INFER(infer_reshape) INFER(infer_permute) INFER(infer_transpose) INFER(infer_expand) INFER(infer_slice)
        INFER(infer_narrow) INFER(infer_select) INFER(infer_squeeze) INFER(infer_unsqueeze) INFER(infer_flip)
            INFER(infer_flatten) INFER(infer_as_strided) INFER(infer_diagonal) LOWER(lower_reshape) VIEW(view_reshape)
                VIEW(view_permute_op) VIEW(view_transpose) VIEW(view_expand_op) VIEW(view_slice) VIEW(view_narrow_op)
                    VIEW(view_select) VIEW(view_squeeze_op) VIEW(view_unsqueeze) VIEW(view_flip) VIEW(view_as_strided)
                        VIEW(view_diagonal) VIEW(view_same)

    // embed.c
    INFER(infer_embed) INFER(infer_as_strided_scatter) LOWER(lower_embed) LOWER(lower_as_strided_scatter)
    // norm.c
    INFER(infer_softmax) INFER(infer_layer_norm) INFER(infer_layer_norm_backward) INFER(infer_batch_norm)
        INFER(infer_batch_norm_train) INFER(infer_batch_norm_backward) LOWER(lower_softmax) LOWER(lower_layer_norm)
            LOWER(lower_layer_norm_backward) LOWER(lower_batch_norm) LOWER(lower_batch_norm_train)
                LOWER(lower_batch_norm_backward)
    // loss.c
    INFER(infer_cross_entropy) INFER(infer_cross_entropy_backward) LOWER(lower_cross_entropy)
        LOWER(lower_cross_entropy_backward)
    // conv.c
    INFER(infer_conv2d) INFER(infer_conv2d_input_grad) INFER(infer_conv2d_weight_grad) LOWER(lower_conv2d)
        LOWER(lower_conv2d_input_grad) LOWER(lower_conv2d_weight_grad)
    // pool.c
    INFER(infer_pool2d) INFER(infer_pool2d_backward) INFER(infer_avg_pool2d_backward) LOWER(lower_pool2d)
        LOWER(lower_max_pool2d_backward) LOWER(lower_avg_pool2d_backward)
    // join.c, pad.c, triangle.c
    INFER(infer_concat) INFER(infer_stack) INFER(infer_tile) INFER(infer_repeat_interleave) INFER(infer_roll)
        INFER(infer_pad) INFER(infer_triangle) INFER(infer_eye) LOWER(lower_concat) LOWER(lower_stack) LOWER(lower_tile)
            LOWER(lower_repeat_interleave) LOWER(lower_roll) LOWER(lower_pad) LOWER(lower_tril) LOWER(lower_triu)
                LOWER(lower_eye) LOWER(lower_full_like)
    // index.c, scatter.c
    INFER(infer_gather) INFER(infer_take) INFER(infer_index_select) INFER(infer_one_hot) INFER(infer_isin)
        INFER(infer_scatter) INFER(infer_scatter_add) INFER(infer_index_add) LOWER(lower_gather) LOWER(lower_take)
            LOWER(lower_one_hot) LOWER(lower_isin) LOWER(lower_scatter) LOWER(lower_scatter_add) LOWER(lower_index_add)
    // nd.c
    INFER(infer_gather_nd) INFER(infer_scatter_nd) LOWER(lower_gather_nd) LOWER(lower_scatter_nd)
    // scan.c, sort.c
    INFER(infer_scan_extremum) LOWER(lower_cummax) LOWER(lower_cummin) INFER(infer_scan) INFER(infer_sort)
        INFER(infer_argsort) INFER(infer_topk) LOWER(lower_cumsum) LOWER(lower_cumprod) LOWER(lower_sort)
            LOWER(lower_argsort) LOWER(lower_topk)
    // random.c
    INFER(infer_uniform) INFER(infer_normal) INFER(infer_randint) INFER(infer_bernoulli) INFER(infer_randperm)
        INFER(infer_dropout) LOWER(lower_uniform) LOWER(lower_normal) LOWER(lower_randint) LOWER(lower_bernoulli)
            LOWER(lower_randperm) LOWER(lower_dropout)

#undef INFER
#undef LOWER
#undef VIEW
