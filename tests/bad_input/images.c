// Wrong calls of convolutions, pooling and images, which are functions of other ops, and of their cells.
#include "bad_input.h"
#include <kiln/composites.h>

void wrong_convolutions(void **state)
{
    kiln_tensor *line = F32(1, 4, 9), *w1 = F32(2, 4, 3), *volume = F32(1, 2, 4, 5, 6), *w3 = F32(2, 2, 2, 2, 2);
    kiln_tensor *image = F32(1, 2, 4, 5), *w2 = F32(2, 3, 2, 2);
    BAD(kiln_conv1d(image, w1, NULL), KILN_E_SHAPE, "conv1d: ", "x must have 3 dimensions, [N,C,L]", "f32[1,2,4,5]");
    BAD(kiln_conv1d(line, image, NULL), KILN_E_SHAPE, "conv1d: ", "w must", "f32[1,2,4,5]");
    BAD(kiln_conv1d(line, w1, KILN_CONV1D(.stride = -2)), KILN_E_ARGUMENT, "conv1d: ", ".stride is -2");
    BAD(kiln_conv1d(line, w1, KILN_CONV1D(.padding = -1)), KILN_E_ARGUMENT, "conv1d: ", ".padding is -1");
    BAD(kiln_conv1d(line, w1, KILN_CONV1D(.dilation = INT64_MAX)), KILN_E_ARGUMENT, "conv1d: ", ".dilation");
    BAD(kiln_conv1d(line, w1, KILN_CONV1D(.padding = 1, .same = true)), KILN_E_ARGUMENT, "conv1d: ", ".padding is 1");
    BAD(kiln_conv1d(line, w1, KILN_CONV1D(.groups = 3)), KILN_E_SHAPE, "conv1d: ", "groups 3");
    BAD(kiln_conv1d(line, w1, KILN_CONV1D(.dilation = 5)), KILN_E_SHAPE, "conv1d: ", "does not fit");
    BAD(kiln_conv1d(line, w1, KILN_CONV1D(.bias = F32(3))), KILN_E_SHAPE, "conv1d: ", "bias", "f32[3]");
    BAD(kiln_conv1d(I64(1, 4, 9), I64(2, 4, 3), NULL), KILN_E_DTYPE, "conv1d: ", "i64");
    BAD(kiln_conv1d(NULL, w1, NULL), KILN_E_ARGUMENT, "conv1d: ", "x is NULL");
    BAD(kiln_conv3d(volume, w2, NULL), KILN_E_SHAPE, "conv3d: ", "w must", "f32[2,3,2,2]");
    BAD(kiln_conv3d(volume, F32(2, 3, 2, 2, 2), NULL), KILN_E_SHAPE, "conv3d: ", "f32[2,3,2,2,2]", "groups 1");
    BAD(kiln_conv3d(volume, F32(2, 2, 5, 2, 2), NULL), KILN_E_SHAPE, "conv3d: ", "5 elements", "into 4, axis 2");
    BAD(kiln_conv3d(volume, F32(2, 2, 2, 2, 7), NULL), KILN_E_SHAPE, "conv3d: ", "2 x 7");
    BAD(kiln_conv3d(volume, w3, KILN_CONV3D(.stride = {1, -1, 1})), KILN_E_ARGUMENT, "conv3d: ", ".stride is -1");
    BAD(kiln_conv3d(volume, w3, KILN_CONV3D(.groups = -1)), KILN_E_ARGUMENT, "conv3d: ", ".groups is -1");
    BAD(kiln_conv_transpose1d(line, w1, NULL), KILN_E_SHAPE, "conv_transpose1d: ", "4 channels", "f32[2,4,3]");
    BAD(kiln_conv_transpose2d(image, w2, KILN_CONV_TRANSPOSE2D(.output_padding = {1, 0})), KILN_E_ARGUMENT,
        "conv_transpose2d: ", ".output_padding", "below .stride");
    BAD(kiln_conv_transpose2d(image, w2, KILN_CONV_TRANSPOSE2D(.padding = {3, 0})), KILN_E_SHAPE,
        "conv_transpose2d: ", "padding 3", "-1");
    BAD(kiln_conv_transpose2d(image, w2, KILN_CONV_TRANSPOSE2D(.bias = F32(2))), KILN_E_SHAPE,
        "conv_transpose2d: ", ".bias must have 3 values", "f32[2]");
    BAD(kiln_conv_transpose3d(volume, w3, KILN_CONV_TRANSPOSE3D(.dilation = {1, 1, -4})), KILN_E_ARGUMENT,
        "conv_transpose3d: ", ".dilation is -4");
    BAD(kiln_sliding_window(line, 3, 2, 1), KILN_E_AXIS, "sliding_window: ", "axis 3", "f32[1,4,9]");
    BAD(kiln_sliding_window(line, 2, 10, 1), KILN_E_SHAPE, "sliding_window: ", "10 elements", "into 9");
    BAD(kiln_sliding_window(line, 2, 2, 0), KILN_E_ARGUMENT, "sliding_window: ", "step is 0");
    BAD(kiln_unfold(image, KILN_UNFOLD(.kernel = {5, 1})), KILN_E_SHAPE, "unfold: ", "5 elements", "into 4");
    BAD(kiln_unfold(image, KILN_UNFOLD(.kernel = {-5, 1})), KILN_E_ARGUMENT, "unfold: ", ".kernel is -5");
    BAD(kiln_fold(F32(1, 5, 4), 3, 3, KILN_UNFOLD(.kernel = {2, 2})), KILN_E_SHAPE, "fold: ", "f32[1,5,4]", "2 x 2");
    BAD(kiln_fold(F32(1, 4, 4), 0, 3, KILN_UNFOLD(.kernel = {2, 2})), KILN_E_ARGUMENT, "fold: ", "height is 0");
}

void wrong_pools(void **state)
{
    kiln_tensor *line = F32(1, 4, 9), *image = F32(1, 2, 4, 5), *none = F32(1, 2, 0, 5), *y, *at;
    BAD(kiln_max_pool1d(image, KILN_POOL1D(.kernel = 2)), KILN_E_SHAPE, "max_pool1d: ", "[N,C,L]", "f32[1,2,4,5]");
    BAD(kiln_avg_pool1d(line, KILN_POOL1D(.kernel = 10)), KILN_E_SHAPE, "avg_pool1d: ", "10", "9");
    BAD(kiln_max_pool3d(F32(1, 1, 2, 2, 2), KILN_POOL3D(.kernel = {3, 1, 1})), KILN_E_SHAPE, "max_pool3d: ", "3 x 1");
    BAD(kiln_max_pool1d(line, KILN_POOL1D(.kernel = -2)), KILN_E_ARGUMENT, "max_pool1d: ", "kernel -2");
    BAD(kiln_avg_pool1d(I64(1, 4, 9), KILN_POOL1D(.kernel = 2)), KILN_E_DTYPE, "avg_pool1d: ", "i64");
    BAD(kiln_max_pool2d_with_indices(image, KILN_POOL2D(.kernel = {2, 2}, .padding = {2, 0}), &y, &at), KILN_E_ARGUMENT,
        "max_pool2d_with_indices: ", ".padding is 2");
    BAD(kiln_max_pool2d_with_indices(none, KILN_POOL2D(.kernel = {2, 2}), &y, &at), KILN_E_SHAPE,
        "max_pool2d_with_indices: ", "into 0");
    BAD(kiln_max_pool2d_with_indices(BOOL(1, 1, 2, 2), NULL, &y, &at), KILN_E_DTYPE, "with_indices: ", "bool");
    BAD(kiln_max_unpool2d(image, I64(1, 2, 4, 4), NULL), KILN_E_SHAPE, "max_unpool2d: ", "i64[1,2,4,4]");
    BAD(kiln_max_unpool2d(image, F32(1, 2, 4, 5), NULL), KILN_E_DTYPE, "max_unpool2d: ", "indices must be integers");
    BAD(kiln_max_unpool1d(line, I64(1, 4, 9), KILN_UNPOOL1D(.padding = 9)), KILN_E_ARGUMENT, "max_unpool1d: ", "-9");
    BAD(kiln_adaptive_avg_pool1d(line, -1), KILN_E_ARGUMENT, "adaptive_avg_pool1d: ", "-1");
    BAD(kiln_adaptive_max_pool2d(none, 2, 2), KILN_E_SHAPE, "adaptive_max_pool2d: ", "f32[1,2,0,5]");
    BAD(kiln_lp_pool1d(line, -1, KILN_POOL1D(.kernel = 2)), KILN_E_ARGUMENT, "lp_pool1d: ", "p must be positive", "-1");
    BAD(kiln_lp_pool1d(line, (double)NAN, KILN_POOL1D(.kernel = 2)), KILN_E_ARGUMENT, "lp_pool1d: ", "nan");
    BAD(kiln_global_avg_pool(F32(2, 3)), KILN_E_SHAPE, "global_avg_pool: ", "f32[2,3]");
}

void wrong_images(void **state)
{
    kiln_tensor *image = F32(2, 4, 4, 6), *rgb = F32(2, 3, 4, 4), *boxes = F32(3, 4), *a, *b;
    BAD(kiln_depth_to_space(image, 2, "RCD"), KILN_E_ARGUMENT, "depth_to_space: ", "mode is \"RCD\"", "\"CRD\"");
    BAD(kiln_depth_to_space(image, 3, "CRD"), KILN_E_SHAPE, "depth_to_space: ", "3 does not divide", "f32[2,4,4,6]");
    BAD(kiln_space_to_depth(image, 0), KILN_E_ARGUMENT, "space_to_depth: ", "block is 0");
    BAD(kiln_pixel_shuffle(F32(2, 3), 2), KILN_E_SHAPE, "pixel_shuffle: ", "f32[2,3]");
    BAD(kiln_channel_shuffle(image, 3), KILN_E_SHAPE, "channel_shuffle: ", "3 does not divide");
    BAD(kiln_interpolate(image, NULL), KILN_E_ARGUMENT, "interpolate: ", ".sizes with 2 entries");
    BAD(kiln_interpolate(image, KILN_INTERPOLATE(.sizes = KILN_ARGS(2))), KILN_E_ARGUMENT, "interpolate: ", "1 sizes");
    BAD(kiln_interpolate(image, KILN_INTERPOLATE(.sizes = KILN_ARGS(2, 0))), KILN_E_ARGUMENT, "interpolate: ", "is 0");
    BAD(kiln_interpolate(image, KILN_INTERPOLATE(.scale = 0.1)), KILN_E_ARGUMENT, "interpolate: ", ".scale 0.1");
    BAD(kiln_interpolate(image, KILN_INTERPOLATE(.scale = (double)INFINITY)), KILN_E_ARGUMENT, "interpolate: ", "inf");
    BAD(kiln_interpolate(image, KILN_INTERPOLATE(.scale = 2, .mode = "cubist")), KILN_E_ARGUMENT,
        "interpolate: ", "\"cubist\"", "\"cubic\"");
    BAD(kiln_interpolate(image, KILN_INTERPOLATE(.scale = 2, .mode = "trilinear")), KILN_E_ARGUMENT,
        "interpolate: ", "for 3 axes, x has 2");
    BAD(kiln_interpolate(image, KILN_INTERPOLATE(.scale = 2, .align_corners = true)), KILN_E_ARGUMENT,
        "interpolate: ", ".align_corners does not go");
    BAD(kiln_interpolate(I64(1, 1, 2), KILN_INTERPOLATE(.scale = 2)), KILN_E_DTYPE, "interpolate: ", "i64[1,1,2]");
    BAD(kiln_resize(image, 2, -2, NULL), KILN_E_ARGUMENT, "resize: ", "-2");
    BAD(kiln_resize(F32(4), 2, 2, NULL), KILN_E_SHAPE, "resize: ", "f32[4]");
    BAD(kiln_resize(F32(0, 4), 2, 2, NULL), KILN_E_SHAPE, "resize: ", "0 elements");
    BAD(kiln_grid_sample(image, F32(2, 3, 3, 3), NULL), KILN_E_SHAPE, "grid_sample: ", "f32[2,3,3,3]", "the last 2");
    BAD(kiln_grid_sample(image, F32(1, 3, 3, 2), NULL), KILN_E_SHAPE, "grid_sample: ", "the first 2");
    BAD(kiln_grid_sample(image, F32(2, 3, 3, 2), KILN_GRID_SAMPLE(.padding_mode = "mirror")), KILN_E_ARGUMENT,
        "grid_sample: ", ".padding_mode is \"mirror\"");
    BAD(kiln_grid_sample(F32(1, 1, 2, 2, 2), F32(1, 1, 1, 1, 3), KILN_GRID_SAMPLE(.mode = "bicubic")), KILN_E_ARGUMENT,
        "grid_sample: ", "bicubic");
    BAD(kiln_affine_grid(F32(1, 2, 2), KILN_SHAPE(2, 2), false), KILN_E_SHAPE, "affine_grid: ", "[N,2,3]",
        "f32[1,2,2]");
    BAD(kiln_affine_grid(F32(1, 2, 3), KILN_SHAPE(2), false), KILN_E_ARGUMENT, "affine_grid: ", "1 entries");
    BAD(kiln_affine_grid(F32(1, 2, 3), 2, NULL, false), KILN_E_ARGUMENT, "affine_grid: ", "size is NULL");
    BAD(kiln_rotate(image, F32(3), NULL), KILN_E_ARGUMENT, "rotate: ", "mode is NULL");
    BAD(kiln_rotate(image, F32(3), "bilinear"), KILN_E_SHAPE, "rotate: ", "angle must be", "f32[3]");
    BAD(kiln_roi_align(image, boxes, NULL), KILN_E_SHAPE, "roi_align: ", "[K,5]", "f32[3,4]");
    BAD(kiln_roi_align(image, F32(3, 5), KILN_ROI_ALIGN(.sampling_ratio = -1)), KILN_E_ARGUMENT, "roi_align: ", "-1");
    BAD(kiln_nms(boxes, F32(2), 0.5), KILN_E_SHAPE, "nms: ", "scores must be [3]", "f32[2]");
    BAD(kiln_nms(boxes, F32(3), 1.5), KILN_E_ARGUMENT, "nms: ", "iou_threshold is 1.5");
    BAD(kiln_nms_sized(boxes, F32(3), 0.5, -1, &a, &b), KILN_E_ARGUMENT, "nms_sized: ", "size is -1");
    BAD(kiln_crop(rgb, 1, 0, 4, 2), KILN_E_ARGUMENT, "crop: ", "4 x 2 at 1, 0", "4 x 4");
    BAD(kiln_center_crop(rgb, 2, 5), KILN_E_ARGUMENT, "center_crop: ", "2 x 5");
    BAD(kiln_hflip(F32(3)), KILN_E_SHAPE, "hflip: ", "f32[3]");
    BAD(kiln_normalize_image(rgb, F32(3), F32(2)), KILN_E_SHAPE, "normalize_image: ", "std must", "f32[2]");
    BAD(kiln_adjust_hue(image, kiln_scalar(0.1)), KILN_E_SHAPE, "adjust_hue: ", "three colours", "f32[2,4,4,6]");
    BAD(kiln_adjust_brightness(rgb, F32(3)), KILN_E_SHAPE, "adjust_brightness: ", "factor must", "f32[3]");
    BAD(kiln_adjust_gamma(BOOL(2, 2), F32(2)), KILN_E_DTYPE, "adjust_gamma: ", "bool[2,2]");
    BAD(kiln_equalize_histogram(rgb), KILN_E_DTYPE, "equalize_histogram: ", "f32[2,3,4,4]");
    BAD(kiln_gaussian_blur(rgb, 4, 1), KILN_E_ARGUMENT, "gaussian_blur: ", "size is 4", "odd");
    BAD(kiln_gaussian_blur(rgb, 3, -1), KILN_E_ARGUMENT, "gaussian_blur: ", "sigma is -1");
    BAD(kiln_median_filter(rgb, 0), KILN_E_ARGUMENT, "median_filter: ", "size is 0");
    BAD(kiln_dilation(F32(2), 3), KILN_E_SHAPE, "dilation: ", "f32[2]");
    BAD(kiln_sobel(I64(3, 3), &a, &b), KILN_E_DTYPE, "sobel: ", "i64[3,3]");
}

void wrong_cells_of_convolutions(void **state)
{
    BAD(kiln_nn_conv1d(dev, 0, 2, 3, NULL), KILN_E_ARGUMENT, "nn_conv1d: ", "got 0 and 2");
    BAD(kiln_nn_conv1d(dev, 1, 2, 0, NULL), KILN_E_ARGUMENT, "nn_conv1d: ", "kernel 0");
    BAD(kiln_nn_conv3d(dev, 3, 4, 3, KILN_NN_CONV3D(.groups = 2)), KILN_E_ARGUMENT, "nn_conv3d: ", "got 2 for 3 and 4");
    BAD(kiln_nn_conv3d(dev, 3, 4, 3, KILN_NN_CONV3D(.pad_mode = "mirror")), KILN_E_ARGUMENT,
        "nn_conv3d: ", "\"mirror\"");
    BAD(kiln_nn_conv3d(dev, 3, 4, 3, KILN_NN_CONV3D(.padding = {0, 0, 1}, .pad_mode = "same")), KILN_E_ARGUMENT,
        "nn_conv3d: ", "\"same\"");
    BAD(kiln_nn_conv_transpose2d(dev, 3, 4, 3, KILN_NN_CONV_TRANSPOSE(.output_padding = {0, 1})), KILN_E_ARGUMENT,
        "nn_conv_transpose2d: ", ".output_padding", "it is 1");
    BAD(kiln_nn_conv_transpose3d(dev, 3, 4, 3, KILN_NN_CONV_TRANSPOSE(.weight_init = "heavy")), KILN_E_ARGUMENT,
        "\"heavy\"");
    BAD(kiln_nn_adaptive_avg_pool(KILN_SHAPE(1, 2, 3, 4)), KILN_E_ARGUMENT, "nn_adaptive_avg_pool: ", "there are 4");
    BAD(kiln_nn_adaptive_max_pool(KILN_SHAPE(-1)), KILN_E_ARGUMENT, "nn_adaptive_max_pool: ", "-1");
    BAD(kiln_nn_upsample(NULL), KILN_E_ARGUMENT, "nn_upsample: ", ".scale is 0");
    kiln_cell *cell = kiln_nn_conv1d(dev, 2, 3, 3, NULL);
    BAD(kiln_cell_call(cell, F32(1, 3, 8)), KILN_E_SHAPE, "conv1d: ", "3 input channels");
    kiln_cell_free(&cell);
}
