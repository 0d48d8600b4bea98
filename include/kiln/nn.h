/// @file nn.h
/// Networks: cells, layers, initialisers and losses.
///
///     kiln_cell *net = kiln_nn_sequential(KILN_CELLS(
///         kiln_nn_conv2d(dev, 1, 8, 3, KILN_NN_CONV2D(.pad_mode = "same")), kiln_nn_relu(), kiln_nn_flatten(),
///         kiln_nn_dense(dev, 8 * 28 * 28, 10, NULL)));
///     kiln_cell_set_training(net, true);
///     kiln_tensor *logits = kiln_cell_call(net, images);        // parameters: "0.weight", "3.weight", "3.bias"
///     kiln_cell_free(&net);                                     // frees the layers and their parameters
///
/// A cell holds parameters (trainable), buffers (state that no optimiser moves, such as running statistics), children,
/// and a function that computes its outputs. All of them have names; a dot joins the names of a path: "0.weight". A
/// cell owns what it holds, whatever scope is open. It is made in inference mode. A cell is used by one thread at a
/// time.
///
/// While an error is pending, functions that make or call a cell return NULL, 0 or the pending status, without effect;
/// freeing works.
#ifndef KILN_NN_H
#define KILN_NN_H

#include <kiln/grad.h>
#include <kiln/jit.h>
#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_cell kiln_cell;

/// A list of cells, as two arguments: the count and the cells.
#define KILN_CELLS(...) KILN_COUNT_(kiln_cell *, __VA_ARGS__), KILN_LIST_(kiln_cell *, __VA_ARGS__)

// --- cells

/// Computes the outputs of a cell: fills exactly n_out handles; one left NULL is an error naming its index. Inputs are
/// borrowed, and may be returned. It runs in a scope of its own: what it makes and does not return is freed when it
/// returns. `user` is that of kiln_cell_create. Return kiln_error(), or a status of your own.
typedef kiln_status (*kiln_construct_fn)(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in,
                                         kiln_tensor **out, size_t n_out);

/// Options of kiln_cell_create.
typedef struct kiln_cell_opts {
    size_t size KILN_0;
    const char *kind KILN_0;              ///< what it is, for messages and kiln_cell_print; copied; NULL: "cell"
    kiln_construct_fn construct KILN_0;   ///< required
    void *user KILN_0;                    ///< given to construct
    void (*user_free)(void *user) KILN_0; ///< called once, when the cell is freed or making it fails; or NULL
    size_t n_in KILN_0;                   ///< inputs that a call must have; 0: any number
    size_t n_out KILN_0;                  ///< outputs that a call must ask for; 0: any number
} kiln_cell_opts;
#define KILN_CELL(...) KILN_OPTS_(kiln_cell_opts, __VA_ARGS__)

/// Makes a cell with a function of the user's and nothing in it. Free it with kiln_cell_free, or give it to a parent.
/// Errors: KILN_E_ARGUMENT without a construct function.
KILN_API kiln_cell *kiln_cell_create(const kiln_cell_opts *opts);

/// Frees the cell, its children, parameters and buffers, and nulls the pointer; NULL is fine. A child is freed by its
/// parent: freeing it alone takes it out of the parent first.
KILN_API void kiln_cell_free(kiln_cell **cell);

/// Adds a trainable parameter with the value of `init`. Where init is itself a parameter (a leaf that requires a
/// gradient), the cell shares it: weights tied between cells are one parameter. The handle given stays its owner's.
/// Names must not be empty, hold a dot, or be taken in this cell. Returns the parameter, borrowed from the cell; NULL
/// on error.
KILN_API kiln_tensor *kiln_cell_add_parameter(kiln_cell *cell, const char *name, kiln_tensor *init);

/// Adds a parameter filled by an initialiser; see kiln_initializer for `init`. Borrowed from the cell; NULL on error.
KILN_API kiln_tensor *kiln_cell_make_parameter(kiln_cell *cell, const char *name, kiln_device *dev, kiln_dtype dtype,
                                               size_t rank, const int64_t *dims, const char *init);

/// Adds a buffer: state that is saved with the cell and has no gradient. The cell holds a second handle on the value of
/// `t`, which it may write. Borrowed from the cell; NULL on error.
KILN_API kiln_tensor *kiln_cell_add_buffer(kiln_cell *cell, const char *name, kiln_tensor *t);

/// Gives `child` to the cell under a name. The child is owned by the cell from then on; where adding fails it is freed,
/// unless it has a parent already. It takes over the cell's training or inference mode. NULL is an error (that of the
/// function that failed to make it, when one is pending). Returns the child.
KILN_API kiln_cell *kiln_cell_add_child(kiln_cell *cell, const char *name, kiln_cell *child);

/// The parameter or buffer at a dotted path ("1.moving_mean"); borrowed, valid until the cell is freed or moved to
/// another device. Errors: KILN_E_ARGUMENT for a path that is not there; the message lists what is.
KILN_API kiln_tensor *kiln_cell_parameter(kiln_cell *cell, const char *path);
/// The child at a dotted path ("features.0"); borrowed. Errors as kiln_cell_parameter.
KILN_API kiln_cell *kiln_cell_child(kiln_cell *cell, const char *path);

/// The parameters of the cell and its descendants in the order in which they were added, those of a cell before those
/// of its children; a parameter shared by several is listed once. Writes up to `max` borrowed handles to `out` and
/// returns how many there are; `out` may be NULL when max is 0.
KILN_API size_t kiln_cell_parameters(kiln_cell *cell, kiln_tensor **out, size_t max);

/// Everything that a checkpoint must hold: parameters and buffers with their dotted names. Writes up to `max` of each
/// and returns how many there are. Tensors and names are borrowed; the names are valid until the next kiln_cell_state
/// of this cell or its freeing. Either array may be NULL. A parameter shared by several cells is listed once, under its
/// first name.
KILN_API size_t kiln_cell_state(kiln_cell *cell, const char **names, kiln_tensor **tensors, size_t max);

/// The number of elements of all parameters.
KILN_API int64_t kiln_cell_parameter_count(kiln_cell *cell);

/// Training mode: batch norm uses and updates statistics, dropout drops. Applies to all descendants. A backward through
/// batch norm or dropout in inference mode is told to the log, once a kind, unless that mode was set here.
KILN_API kiln_status kiln_cell_set_training(kiln_cell *cell, bool training);
KILN_API bool kiln_cell_is_training(const kiln_cell *cell);

/// Freezes (false) or thaws (true) all parameters of the cell and its descendants: a frozen one gets no gradient.
KILN_API kiln_status kiln_cell_set_requires_grad(kiln_cell *cell, bool on);

/// Moves parameters and buffers to a device. Handles got from the cell before are freed: make optimisers afterwards.
KILN_API kiln_status kiln_cell_to_device(kiln_cell *cell, kiln_device *dev);

/// Calls a cell with one input and one output: a new handle, or NULL with an error pending.
KILN_API kiln_tensor *kiln_cell_call(kiln_cell *cell, kiln_tensor *x);
/// Calls a cell with several inputs and outputs. The results are new handles in the caller's scope, even where the cell
/// returns an input.
KILN_API kiln_status kiln_cell_call_n(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                      size_t n_out);
/// The same as a function in the sense of kiln/grad.h, with the cell as its user data: kiln_grad(kiln_cell_fn, net,
/// ...).
KILN_API kiln_status kiln_cell_fn(void *cell, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);

/// Marks a cell: from now on its calls run as a captured function, in either mode. In KILN_MODE_GRAPH all cells do. A
/// change of mode (training, inference) or of structure (children, parameters, hooks), of the cell or below it, is a
/// new capture. `opts` as for kiln_jit; NULL: STRICT. A mark of AUTO is void in KILN_MODE_GRAPH. Backward hooks then
/// see the gradients once, while the backward graph is made.
KILN_API kiln_status kiln_cell_jit(kiln_cell *cell, const kiln_jit_opts *opts);
/// The captured function of a cell that was marked or called in graph mode, for kiln_explain and kiln_function_stats;
/// borrowed, NULL when there is none.
KILN_API kiln_function *kiln_cell_function(const kiln_cell *cell);

/// What the cell is ("conv2d"), its name in its parent ("" when it has none), and the user data of its function.
/// Borrowed.
KILN_API const char *kiln_cell_kind(const kiln_cell *cell);
KILN_API const char *kiln_cell_name(const kiln_cell *cell);
KILN_API void *kiln_cell_user(const kiln_cell *cell);

/// Writes the tree of cells with the shapes of their parameters, and the number of elements.
KILN_API void kiln_cell_print(kiln_cell *cell, FILE *f);

// --- hooks

/// Called before construct; may put other tensors into `in`. Runs in the scope of the call.
typedef kiln_status (*kiln_cell_pre_hook_fn)(void *user, kiln_cell *cell, kiln_tensor **in, size_t n_in);
/// Called after construct; may put other tensors into `out`. One made without its inputs cuts the gradient there.
typedef kiln_status (*kiln_cell_hook_fn)(void *user, kiln_cell *cell, kiln_tensor *const *in, size_t n_in,
                                         kiln_tensor **out, size_t n_out);
/// Called in backward with the gradient by output (or input) `index`; may return another, NULL keeps it.
typedef kiln_tensor *(*kiln_cell_grad_hook_fn)(void *user, kiln_cell *cell, size_t index, kiln_tensor *grad);

/// Hooks run in the order of their registration, at every call from then on. Each returns an id for removal, 0 on
/// error.
KILN_API uint64_t kiln_cell_register_forward_pre_hook(kiln_cell *cell, kiln_cell_pre_hook_fn fn, void *user);
KILN_API uint64_t kiln_cell_register_forward_hook(kiln_cell *cell, kiln_cell_hook_fn fn, void *user);
/// Gradients by the outputs, before they go into the cell.
KILN_API uint64_t kiln_cell_register_backward_pre_hook(kiln_cell *cell, kiln_cell_grad_hook_fn fn, void *user);
/// Gradients by the inputs (those that need one), as they leave the cell.
KILN_API uint64_t kiln_cell_register_backward_hook(kiln_cell *cell, kiln_cell_grad_hook_fn fn, void *user);
/// Removes a hook; backward hooks of calls already made do not run any more either. Errors: KILN_E_ARGUMENT for an id
/// that the cell does not have.
KILN_API kiln_status kiln_cell_remove_hook(kiln_cell *cell, uint64_t id);

// --- initialisers

/// A new tensor of a float dtype, filled as `init` says:
///   "zeros", "ones", or a number such as "0.5";
///   "normal" or "normal(sigma)": normal with mean 0, sigma 0.01 when not given;
///   "truncated_normal" or "truncated_normal(sigma)": the same, cut off at two sigma;
///   "uniform" or "uniform(bound)": uniform in [-bound, bound), bound 0.07 when not given;
///   "xavier_uniform", "xavier_normal": variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010);
///   "he_uniform", "he_normal": variance 2 / fan_in (He et al. 2015).
/// fan_in is dims[1] and fan_out dims[0], each times the size of the dimensions after them; of a vector both are its
/// length. Draws from the device's generator (kiln_seed). Errors: KILN_E_ARGUMENT for another text; the message lists
/// these.
KILN_API kiln_tensor *kiln_initializer(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                       const char *init);

// --- layers. Each is a cell with one input and one output. `dev` NULL: the thread's default device.

/// Calls cells one after the other; children are named "0", "1", ... It owns them from the call on: where one is NULL
/// or has a parent already, the others are freed and the result is NULL. Further ones may be added with
/// kiln_sequential_append.
KILN_API kiln_cell *kiln_nn_sequential(size_t count, kiln_cell *const *cells);
/// Appends a cell to a sequential one, as kiln_cell_add_child does, under the next number.
KILN_API kiln_status kiln_sequential_append(kiln_cell *sequential, kiln_cell *cell);

/// Options of kiln_nn_conv2d.
typedef struct kiln_nn_conv2d_opts {
    size_t size KILN_0;
    int64_t kernel_width KILN_0;    ///< 0: as the height
    int64_t stride[2] KILN_0;       ///< 0: 1
    int64_t padding[2] KILN_0;      ///< zeros at both ends of height and width; only with pad_mode "pad"
    int64_t dilation[2] KILN_0;     ///< 0: 1
    int64_t groups KILN_0;          ///< 0: 1
    bool bias KILN_0;               ///< adds a bias by channel
    const char *weight_init KILN_0; ///< NULL: "he_uniform"
    const char *bias_init KILN_0;   ///< NULL: "zeros"
    const char *pad_mode KILN_0; ///< "pad" (NULL): by .padding; "valid": none; "same": output size = ceil(input size /
                                 ///< stride), an odd zero goes to the bottom and the right
    kiln_dtype dtype KILN_0;     ///< 0: KILN_F32
} kiln_nn_conv2d_opts;
#define KILN_NN_CONV2D(...) KILN_OPTS_(kiln_nn_conv2d_opts, __VA_ARGS__)
/// Two-dimensional convolution (cross-correlation): [N, in, H, W] -> [N, out, H', W'] with a square kernel, or kernel x
/// kernel_width. Parameters: "weight" [out, in / groups, kernel, kernel_width], "bias" [out].
KILN_API kiln_cell *kiln_nn_conv2d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                                   const kiln_nn_conv2d_opts *opts);

/// Options of kiln_nn_conv1d; those of kiln_nn_conv2d have the same meaning.
typedef struct kiln_nn_conv1d_opts {
    size_t size KILN_0;
    int64_t stride KILN_0;   ///< 0: 1
    int64_t padding KILN_0;  ///< zeros at both ends; only with pad_mode "pad"
    int64_t dilation KILN_0; ///< 0: 1
    int64_t groups KILN_0;   ///< 0: 1
    bool bias KILN_0;
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
    int64_t stride[3] KILN_0;
    int64_t padding[3] KILN_0;
    int64_t dilation[3] KILN_0;
    int64_t groups KILN_0;
    bool bias KILN_0;
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
    int64_t kernel[3] KILN_0;         ///< 0: the argument `kernel`
    int64_t stride[3] KILN_0;         ///< 0: 1
    int64_t padding[3] KILN_0;        ///< what is cut off at both ends
    int64_t output_padding[3] KILN_0; ///< what is added at the end; below the stride
    int64_t dilation[3] KILN_0;       ///< 0: 1
    int64_t groups KILN_0;            ///< 0: 1
    bool bias KILN_0;
    const char *weight_init KILN_0; ///< NULL: "he_uniform"
    const char *bias_init KILN_0;   ///< NULL: "zeros"
    kiln_dtype dtype KILN_0;        ///< 0: KILN_F32
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

/// Options of kiln_nn_dense.
typedef struct kiln_nn_dense_opts {
    size_t size KILN_0;
    bool no_bias KILN_0;
    const char *weight_init KILN_0; ///< NULL: "he_uniform"
    const char *bias_init KILN_0;   ///< NULL: "zeros"
    kiln_dtype dtype KILN_0;        ///< 0: KILN_F32
} kiln_nn_dense_opts;
#define KILN_NN_DENSE(...) KILN_OPTS_(kiln_nn_dense_opts, __VA_ARGS__)
/// x . weight^T + bias over the last axis: [..., in] -> [..., out]. Parameters: "weight" [out, in], "bias" [out].
KILN_API kiln_cell *kiln_nn_dense(kiln_device *dev, int64_t in, int64_t out, const kiln_nn_dense_opts *opts);

/// Options of kiln_nn_batch_norm2d.
typedef struct kiln_nn_batch_norm_opts {
    size_t size KILN_0;
    double momentum KILN_0;        ///< 0: 0.9; KILN_ZERO: 0. running = momentum running + (1 - momentum) batch
    double eps KILN_0;             ///< 0: 1e-5; KILN_ZERO: 0
    const char *gamma_init KILN_0; ///< NULL: "ones"
    const char *beta_init KILN_0;  ///< NULL: "zeros"
    bool no_affine KILN_0;         ///< no gamma and beta
    kiln_dtype dtype KILN_0;       ///< 0: KILN_F32
} kiln_nn_batch_norm_opts;
#define KILN_NN_BATCH_NORM(...) KILN_OPTS_(kiln_nn_batch_norm_opts, __VA_ARGS__)
/// Batch normalisation over all axes but 1 of [N, channels, ...] (Ioffe and Szegedy 2015). In training it normalises
/// with the batch's own mean and biased variance and moves the running ones, the variance with its unbiased estimate;
/// in inference it takes the running ones. Parameters: "gamma", "beta" [channels]; buffers: "moving_mean" (zeros),
/// "moving_variance" (ones).
KILN_API kiln_cell *kiln_nn_batch_norm2d(kiln_device *dev, int64_t channels, const kiln_nn_batch_norm_opts *opts);

/// Options of kiln_nn_layer_norm and kiln_nn_rms_norm.
typedef struct kiln_nn_norm_opts {
    size_t size KILN_0;
    double eps KILN_0;             ///< 0: 1e-5; KILN_ZERO: 0
    const char *gamma_init KILN_0; ///< NULL: "ones"
    const char *beta_init KILN_0;  ///< NULL: "zeros"; layer norm only
    bool no_affine KILN_0;         ///< no gamma and beta
    kiln_dtype dtype KILN_0;       ///< 0: KILN_F32
} kiln_nn_norm_opts;
#define KILN_NN_NORM(...) KILN_OPTS_(kiln_nn_norm_opts, __VA_ARGS__)
/// Layer normalisation over the last axes, whose sizes are given (Ba et al. 2016). Parameters: "gamma", "beta" of that
/// shape.
KILN_API kiln_cell *kiln_nn_layer_norm(kiln_device *dev, size_t rank, const int64_t *dims,
                                       const kiln_nn_norm_opts *opts);
/// x / sqrt(mean(x^2) + eps) * gamma over the last axis of `size` elements (Zhang and Sennrich 2019). Parameter:
/// "gamma" [size].
KILN_API kiln_cell *kiln_nn_rms_norm(kiln_device *dev, int64_t size, const kiln_nn_norm_opts *opts);

/// In training zeroes each element with probability p and divides the others by 1 - p; else the identity. p in [0, 1).
KILN_API kiln_cell *kiln_nn_dropout(double p);

/// Rows of a table by integer ids: [...] -> [..., width]. Parameter: "weight" [count, width], init NULL: "normal(1)".
KILN_API kiln_cell *kiln_nn_embedding(kiln_device *dev, int64_t count, int64_t width, const char *init);

/// Activations, element by element; kiln_nn_unary makes a cell of any op without attributes that has one input, by its
/// name ("mish").
KILN_API kiln_cell *kiln_nn_unary(const char *op);
KILN_API kiln_cell *kiln_nn_relu(void);
KILN_API kiln_cell *kiln_nn_gelu(void);
KILN_API kiln_cell *kiln_nn_silu(void);
KILN_API kiln_cell *kiln_nn_sigmoid(void);
KILN_API kiln_cell *kiln_nn_tanh(void);
KILN_API kiln_cell *kiln_nn_leaky_relu(double slope);
/// Softmax over one axis.
KILN_API kiln_cell *kiln_nn_softmax(int64_t axis);

/// Pooling of [N, C, H, W]; the options are those of kiln_max_pool2d and kiln_avg_pool2d in kiln/ops.h,
/// KILN_POOL2D(.kernel = {2, 2}).
struct kiln_pool2d_opts;
KILN_API kiln_cell *kiln_nn_max_pool2d(const struct kiln_pool2d_opts *opts);
KILN_API kiln_cell *kiln_nn_avg_pool2d(const struct kiln_pool2d_opts *opts);
/// The same of [N, C, L] and [N, C, D, H, W]; options of kiln/composites.h, KILN_POOL1D(.kernel = 2).
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

/// [N, ...] -> [N, product of the others].
KILN_API kiln_cell *kiln_nn_flatten(void);

// --- losses

/// What becomes of the losses of the elements.
typedef enum kiln_reduction {
    KILN_REDUCTION_MEAN = 0,
    KILN_REDUCTION_SUM = 1,
    KILN_REDUCTION_NONE = 2,
    KILN_REDUCTION_BATCH_MEAN = 3, ///< the sum divided by the size of the first axis
} kiln_reduction;

/// Losses of x against a target that broadcasts to it: a new handle of rank 0, or of x's shape with
/// KILN_REDUCTION_NONE. They are differentiable by both. Cross entropy is an op: kiln_cross_entropy in kiln/ops.h.
KILN_API kiln_tensor *kiln_loss_mse(kiln_tensor *x, kiln_tensor *target, kiln_reduction reduction); ///< (x - t)^2
KILN_API kiln_tensor *kiln_loss_l1(kiln_tensor *x, kiln_tensor *target, kiln_reduction reduction);  ///< |x - t|
/// d = |x - t|: d^2 / (2 beta) below beta, else d - beta / 2. beta > 0.
KILN_API kiln_tensor *kiln_loss_smooth_l1(kiln_tensor *x, kiln_tensor *target, double beta, kiln_reduction reduction);
/// d = |x - t|: d^2 / 2 below delta, else delta (d - delta / 2). delta > 0.
KILN_API kiln_tensor *kiln_loss_huber(kiln_tensor *x, kiln_tensor *target, double delta, kiln_reduction reduction);
/// -(t log x + (1 - t) log(1 - x)) of probabilities x; x and 1 - x are taken as at least 2^-126 (f16: 2^-14), with no
/// gradient below.
KILN_API kiln_tensor *kiln_loss_bce(kiln_tensor *x, kiln_tensor *target, kiln_reduction reduction);
/// The same of logits, stable for large ones: the target must have x's shape or broadcast to it.
KILN_API kiln_tensor *kiln_loss_bce_with_logits(kiln_tensor *x, kiln_tensor *target, kiln_reduction reduction);
/// -x[i, label[i]] of log probabilities x [N, C] (or [N, C, ...] with labels [N, ...]) and integer labels. A label out
/// of range is an error on the CPU and gives 0 on a GPU.
KILN_API kiln_tensor *kiln_loss_nll(kiln_tensor *log_probs, kiln_tensor *labels, kiln_reduction reduction);
/// t (log t - x) of log probabilities x and probabilities t: the divergence of t from exp(x) (Kullback and Leibler
/// 1951); its usual reduction is KILN_REDUCTION_BATCH_MEAN.
KILN_API kiln_tensor *kiln_loss_kl_div(kiln_tensor *log_probs, kiln_tensor *target, kiln_reduction reduction);

#ifdef __cplusplus
}
#endif
#endif
