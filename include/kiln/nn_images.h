/// @file nn_images.h
/// Cells of convolution and pooling in one and three dimensions, transposed convolution, and other sizes. Those of
/// images are in nn.h.
///
///     kiln_cell *up = kiln_nn_conv_transpose2d(dev, 64, 32, 4, KILN_NN_CONV_TRANSPOSE(.stride = {2, 2}, .padding = {1,
///     1}));
///
/// Each has one input and one output. `dev` NULL: the thread's default device.
#ifndef KILN_NN_IMAGES_H
#define KILN_NN_IMAGES_H

#include <kiln/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Options of kiln_nn_conv1d; those of kiln_nn_conv2d have the same meaning.
typedef struct kiln_nn_conv1d_opts {
    size_t size KILN_0;
    int64_t stride KILN_0;   ///< 0: 1
    int64_t padding KILN_0;  ///< zeros at both ends; only with pad_mode "pad"
    int64_t dilation KILN_0; ///< 0: 1
    int64_t groups KILN_0;   ///< 0: 1
    bool bias KILN_0;        ///< adds a bias by channel
    bool no_bias KILN_0;     ///< as without .bias; both are an error
    const char *weight_init KILN_0;
    const char *bias_init KILN_0;
    const char *pad_mode KILN_0; ///< "pad" (NULL), "valid" or "same"
    kiln_dtype dtype KILN_0;     ///< 0: KILN_F32
} kiln_nn_conv1d_opts;
#define KILN_NN_CONV1D(...) KILN_OPTS_(kiln_nn_conv1d_opts, __VA_ARGS__)
/// Convolution of lines: [N, in, L] -> [N, out, L']. Parameters: "weight" [out, in / groups, kernel], "bias" [out].
KILN_API kiln_cell *kiln_nn_conv1d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                                   const kiln_nn_conv1d_opts *opts);

/// Options of kiln_nn_conv3d: depth, height, width.
typedef struct kiln_nn_conv3d_opts {
    size_t size KILN_0;
    int64_t kernel_height KILN_0; ///< 0: as the depth
    int64_t kernel_width KILN_0;  ///< 0: as the depth
    int64_t stride[3] KILN_0;     ///< 0: 1; the first alone is for all: .stride = 2 is {2, 2, 2}
    int64_t padding[3] KILN_0;    ///< .padding = 1 is {1, 0, 0}, the depth alone
    int64_t dilation[3] KILN_0;   ///< as .stride
    int64_t groups KILN_0;
    bool bias KILN_0;    ///< adds a bias by channel
    bool no_bias KILN_0; ///< as without .bias; both are an error
    const char *weight_init KILN_0;
    const char *bias_init KILN_0;
    const char *pad_mode KILN_0;
    kiln_dtype dtype KILN_0;
} kiln_nn_conv3d_opts;
#define KILN_NN_CONV3D(...) KILN_OPTS_(kiln_nn_conv3d_opts, __VA_ARGS__)
/// Convolution of volumes: [N, in, D, H, W] -> [N, out, D', H', W']. Parameters: "weight" [out, in / groups, kernel,
/// kernel_height, kernel_width], "bias" [out].
KILN_API kiln_cell *kiln_nn_conv3d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                                   const kiln_nn_conv3d_opts *opts);

/// Options of kiln_nn_conv_transpose1d, 2d and 3d, which take the first 1, 2 or 3 entries of each list: those of the
/// convolution whose gradient it is.
typedef struct kiln_nn_conv_transpose_opts {
    size_t size KILN_0;
    int64_t kernel[3] KILN_0;         ///< 0: the argument `kernel`; the first alone is for all
    int64_t stride[3] KILN_0;         ///< 0: 1; the first alone is for all: .stride = 2 is {2, 2, 2}
    int64_t padding[3] KILN_0;        ///< what is cut off at both ends
    int64_t output_padding[3] KILN_0; ///< what is added at the end; below the stride
    int64_t dilation[3] KILN_0;       ///< as .stride
    int64_t groups KILN_0;            ///< 0: 1
    bool bias KILN_0;                 ///< adds a bias by channel
    bool no_bias KILN_0;              ///< as without .bias; both are an error
    const char *weight_init KILN_0;   ///< NULL: uniform within 1 / sqrt(dims[1] of the weight times its kernel)
    const char *bias_init KILN_0;     ///< NULL: the same
    kiln_dtype dtype KILN_0;          ///< 0: KILN_F32
} kiln_nn_conv_transpose_opts;
#define KILN_NN_CONV_TRANSPOSE(...) KILN_OPTS_(kiln_nn_conv_transpose_opts, __VA_ARGS__)
/// Transposed convolution: [N, in, L] -> [N, out, (L - 1) stride - 2 padding + dilation (kernel - 1) + output_padding +
/// 1], and so on. Parameters: "weight" [in, out / groups, kernel ...], "bias" [out].
KILN_API kiln_cell *kiln_nn_conv_transpose1d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                                             const kiln_nn_conv_transpose_opts *opts);
KILN_API kiln_cell *kiln_nn_conv_transpose2d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                                             const kiln_nn_conv_transpose_opts *opts);
KILN_API kiln_cell *kiln_nn_conv_transpose3d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                                             const kiln_nn_conv_transpose_opts *opts);

/// Pooling of [N, C, L] and [N, C, D, H, W]; options of kiln/composites.h, KILN_POOL1D(.kernel = 2).
struct kiln_pool1d_opts;
struct kiln_pool3d_opts;
KILN_API kiln_cell *kiln_nn_max_pool1d(const struct kiln_pool1d_opts *opts);
KILN_API kiln_cell *kiln_nn_avg_pool1d(const struct kiln_pool1d_opts *opts);
KILN_API kiln_cell *kiln_nn_max_pool3d(const struct kiln_pool3d_opts *opts);
KILN_API kiln_cell *kiln_nn_avg_pool3d(const struct kiln_pool3d_opts *opts);
/// Pooling to 1, 2 or 3 sizes, from kiln_adaptive_avg_pool1d to kiln_adaptive_max_pool3d; 0 keeps the size of the
/// input. Errors: KILN_E_ARGUMENT for another number of sizes, and for a negative one.
KILN_API kiln_cell *kiln_nn_adaptive_avg_pool(size_t rank, const int64_t *dims);
KILN_API kiln_cell *kiln_nn_adaptive_max_pool(size_t rank, const int64_t *dims);
/// Other sizes of lines, images or volumes; the options are those of kiln_interpolate in kiln/composites.h, copied:
/// KILN_INTERPOLATE(.scale = 2).
struct kiln_interpolate_opts;
KILN_API kiln_cell *kiln_nn_upsample(const struct kiln_interpolate_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
