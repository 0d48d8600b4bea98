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
#include <kiln/io.h>
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
    kiln_construct_fn construct KILN_0;   ///< what a call computes; NULL: it only holds children and tensors by name
    void *user KILN_0;                    ///< given to construct
    void (*user_free)(void *user) KILN_0; ///< called once, when the cell is freed or making it fails; or NULL
    size_t n_in KILN_0;                   ///< inputs that a call must have; 0: any number
    size_t n_out KILN_0;                  ///< outputs that a call must ask for; 0: any number
} kiln_cell_opts;
#define KILN_CELL(...) KILN_OPTS_(kiln_cell_opts, __VA_ARGS__)

/// Makes a cell with a function of the user's and nothing in it. Free it with kiln_cell_free, or give it to a parent.
/// Without a function it is a level of names, as in "encoder.0.weight": calling it is KILN_E_STATE.
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
/// another device. The names that kiln_cell_restore knows for those of norms are found too ("1.weight"). Errors:
/// KILN_E_ARGUMENT for a path that is not there; the message lists what is.
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

/// Writes a checkpoint's tensors into the parameters and buffers of the cell, by their names of kiln_cell_state. All
/// are checked first, as in kiln_checkpoint_restore. What norms call "gamma", "beta", "moving_mean" and
/// "moving_variance" may be called "weight", "bias", "running_mean" and "running_var" in the file: KILN_E_ARGUMENT
/// where it has both.
KILN_API kiln_status kiln_cell_restore(kiln_cell *cell, const kiln_checkpoint *c);

/// What kiln_cell_load finds that does not fit.
typedef enum kiln_load_problem {
    KILN_LOAD_MISSING,    ///< a tensor of the cell that the file lacks
    KILN_LOAD_UNEXPECTED, ///< an array of the file that the cell lacks, or a second name of one tensor
    KILN_LOAD_MISFIT,     ///< another shape or dtype
} kiln_load_problem;
/// Told of each; `name` as in the cell, behind the prefix. Texts are borrowed for the call.
typedef void (*kiln_load_report_fn)(void *user, kiln_load_problem problem, const char *name, const char *message);
/// What an array of the file is called in the cell (behind the prefix, where there is one), valid until the next call;
/// NULL: it is passed over.
typedef const char *(*kiln_rename_fn)(void *user, const char *name);

/// Options of kiln_cell_load.
typedef struct kiln_cell_load_opts {
    size_t size KILN_0;
    const char *prefix KILN_0;         ///< before each name in the file ("model."); others are passed over
    bool partial KILN_0;               ///< what the file lacks stays as it is, and what the cell lacks is passed over
    kiln_rename_fn rename KILN_0;      ///< NULL: names are the file's
    kiln_load_report_fn report KILN_0; ///< NULL: nobody is told but by the error
    void *user KILN_0;                 ///< of both
} kiln_cell_load_opts;
#define KILN_CELL_LOAD(...) KILN_OPTS_(kiln_cell_load_opts, __VA_ARGS__)
/// Writes the arrays of a file (safetensors, npz, PyTorch's, GGUF) into the cell, with the same names, or those that
/// .rename gives. Floats are cast to the cell's dtype. All are read and checked before one is written, and an error
/// lists all that does not fit, the first twelve with their names; .report is told of each, with .partial too, where
/// what is missing and unexpected is no error. Errors: KILN_E_ARGUMENT for a tensor that the file lacks, for both names
/// of one, and for an array that the cell lacks ("num_batches_tracked" apart); KILN_E_SHAPE, KILN_E_DTYPE; the code is
/// the first's.
KILN_API kiln_status kiln_cell_load(kiln_cell *cell, kiln_archive *a, const kiln_cell_load_opts *opts);

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

/// Writes a table of the cell and those below it for an input: what each is, the dtype and shape of what it gives, its
/// parameters as a number and in bytes, whether they are trained ("in part": some are), and the products that it adds
/// up in matrix products and convolutions. A line counts what is below it, too; a parameter that is shared counts once
/// there. A last line has the totals, with buffers.
///
/// The cell is called once, as it is (in training or inference), by the recorder of captured functions: shapes are
/// found, and nothing is computed but values that it reads on the host. No gradient, buffer or generator changes, and
/// prints are not made; its hooks run. A cell that was called several times has the sum of its calls, and the shapes of
/// the last. Errors: those of a call; KILN_E_STATE inside of a capture; KILN_E_IO where `f` cannot be written.
KILN_API kiln_status kiln_cell_summary(kiln_cell *cell, kiln_tensor *x, FILE *f);
/// The same for several inputs and outputs.
KILN_API kiln_status kiln_cell_summary_n(kiln_cell *cell, kiln_tensor *const *in, size_t n_in, size_t n_out, FILE *f);

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
///   "zeros", "ones", a number such as "0.5", or "constant(0.5)";
///   "normal" or "normal(sigma)": normal with mean 0, sigma 0.01 when not given;
///   "truncated_normal" or "truncated_normal(sigma)": the same, cut off at two sigma;
///   "uniform" or "uniform(bound)": uniform in [-bound, bound), bound 0.07 when not given;
///   "xavier_uniform", "xavier_normal": variance 2 gain^2 / (fan_in + fan_out), gain 1 (Glorot and Bengio 2010);
///   "he_uniform", "he_normal", also "kaiming_uniform", "kaiming_normal": variance gain^2 / fan_in, gain sqrt(2) (He et
///   al. 2015);
///   "lecun_uniform", "lecun_normal": variance 1 / fan_in (LeCun et al. 1998), not cut off;
///   "orthogonal": gain times a matrix [dims[0], the others] with orthonormal rows, or columns where it has more rows,
///   evenly among such matrices, gain 1 (Saxe et al. 2014); computed by the host in f64, so not in a capture;
///   "dirac" or "dirac(groups)": a kernel [out, in / groups, ...] of a convolution that hands its input on;
///   "eye": a matrix with ones on its diagonal.
/// A gain stands in parentheses, as a number or by what follows the layer: "he_normal(1.5)", "he_normal(tanh)". linear
/// and sigmoid have 1, tanh 5 / 3, relu sqrt(2), selu 3 / 4, leaky_relu sqrt(2 / (1 + slope^2)) with a slope of 0.01 or
/// that which follows: "he_uniform(leaky_relu, 0.2)". "he_normal(relu, fan_out)" divides by fan_out, and
/// "he_normal(fan_out)" too. fan_in is dims[1] and fan_out dims[0], each times the size of the dimensions after them;
/// of a vector both are its length. Draws from the device's generator (kiln_seed). Errors: KILN_E_ARGUMENT for another
/// text; the message lists these. KILN_E_SHAPE for a shape that the last three do not take.
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
    int64_t kernel_width KILN_0; ///< 0: as the height
    int64_t stride[2] KILN_0;    ///< 0: 1; the first alone is for both: .stride = 2 is {2, 2}
    int64_t padding[2] KILN_0;   ///< zeros at both ends, with pad_mode "pad"; .padding = 1 is {1, 0}, the height alone
    int64_t dilation[2] KILN_0;  ///< as .stride
    int64_t groups KILN_0;       ///< 0: 1
    bool bias KILN_0;            ///< adds a bias by channel
    bool no_bias KILN_0;         ///< as without .bias; both are an error
    const char *weight_init
        KILN_0;                   ///< NULL: uniform within 1 / sqrt(fan_in), as "he_uniform(leaky_relu, 2.2360679775)"
    const char *bias_init KILN_0; ///< NULL: the same, with the weight's fan_in
    const char *pad_mode KILN_0;  ///< "pad" (NULL): by .padding; "valid": none; "same": output size = ceil(input size /
                                  ///< stride), an odd zero goes to the bottom and the right
    kiln_dtype dtype KILN_0;      ///< 0: KILN_F32
} kiln_nn_conv2d_opts;
#define KILN_NN_CONV2D(...) KILN_OPTS_(kiln_nn_conv2d_opts, __VA_ARGS__)
/// Two-dimensional convolution (cross-correlation): [N, in, H, W] -> [N, out, H', W'] with a square kernel, or kernel x
/// kernel_width. Parameters: "weight" [out, in / groups, kernel, kernel_width], "bias" [out].
KILN_API kiln_cell *kiln_nn_conv2d(kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                                   const kiln_nn_conv2d_opts *opts);

/// Options of kiln_nn_dense.
typedef struct kiln_nn_dense_opts {
    size_t size KILN_0;
    bool bias KILN_0;    ///< as without .no_bias; both are an error
    bool no_bias KILN_0; ///< leaves out the bias
    const char *weight_init
        KILN_0;                   ///< NULL: uniform within 1 / sqrt(fan_in), as "he_uniform(leaky_relu, 2.2360679775)"
    const char *bias_init KILN_0; ///< NULL: the same, with the weight's fan_in
    kiln_dtype dtype KILN_0;      ///< 0: KILN_F32
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
/// KILN_POOL2D(.kernel = {2, 2}); the first alone is for both: .kernel = 2.
struct kiln_pool2d_opts;
KILN_API kiln_cell *kiln_nn_max_pool2d(const struct kiln_pool2d_opts *opts);
KILN_API kiln_cell *kiln_nn_avg_pool2d(const struct kiln_pool2d_opts *opts);

/// [N, ...] -> [N, product of the others].
KILN_API kiln_cell *kiln_nn_flatten(void);
/// Splits an axis into `rank` ones of the given sizes, one of which may be -1.
KILN_API kiln_cell *kiln_nn_unflatten(int64_t axis, size_t rank, const int64_t *dims);

/// Gives what it gets.
KILN_API kiln_cell *kiln_nn_identity(void);
/// x + body(x). Takes over the body, its child "body".
KILN_API kiln_cell *kiln_nn_residual(kiln_cell *body);
/// A function as a cell, with any number of inputs and outputs. `user` must outlive the cell.
KILN_API kiln_cell *kiln_nn_lambda(kiln_fn fn, void *user);
/// A gated unit along an axis, which becomes half as large: "glu" (NULL), "swiglu", "geglu", "reglu", "bilinear_glu";
/// see the ops of these names.
KILN_API kiln_cell *kiln_nn_glu(const char *kind, int64_t axis);

/// Group normalisation of [N, channels, ...]: kiln_group_norm. Parameters: "gamma", "beta" [channels].
KILN_API kiln_cell *kiln_nn_group_norm(kiln_device *dev, int64_t groups, int64_t channels,
                                       const kiln_nn_norm_opts *opts);
/// The same with a group for each channel, of [N, channels, ...] with something behind the channels.
KILN_API kiln_cell *kiln_nn_instance_norm(kiln_device *dev, int64_t channels, const kiln_nn_norm_opts *opts);

/// Means ("mean", NULL), sums ("sum") or the largest ("max") of rows of a table: ids [B, L], or ids [n] and the offsets
/// [B] where bags begin, a second input: [B, width]. Parameter: "weight" [count, width], init NULL: "normal(1)".
KILN_API kiln_cell *kiln_nn_embedding_bag(kiln_device *dev, int64_t count, int64_t width, const char *mode,
                                          const char *init);
/// kiln_bilinear of two inputs [..., in1] and [..., in2]: [..., out]. Parameters: "weight" [out, in1, in2], "bias"
/// [out], both uniform in plus and minus 1 / sqrt(in1) where the options do not say otherwise.
KILN_API kiln_cell *kiln_nn_bilinear(kiln_device *dev, int64_t in1, int64_t in2, int64_t out,
                                     const kiln_nn_dense_opts *opts);

// --- recurrent layers

/// Options of recurrent layers; a step has .bias, .no_bias, .relu, .init and .dtype alone.
typedef struct kiln_nn_recurrent_opts {
    size_t size KILN_0;
    int64_t layers KILN_0; ///< 0: 1
    bool bidirectional KILN_0;
    bool bias KILN_0;          ///< as without .no_bias; both are an error
    bool no_bias KILN_0;       ///< leaves out the bias
    bool batch_first KILN_0;   ///< [N, T, ...] instead of [T, N, ...]; states are [layers * directions, N, H] always
    bool lengths KILN_0;       ///< the last input is lengths [N], see kiln_rnn
    bool relu KILN_0;          ///< of kiln_nn_rnn and its step: in the place of tanh
    double dropout KILN_0;     ///< in training, between layers
    int64_t projection KILN_0; ///< of kiln_nn_lstm: the size of h; 0: hidden
    const char *init KILN_0;   ///< of all parameters; NULL: uniform in plus and minus 1 / sqrt(hidden)
    kiln_dtype dtype KILN_0;   ///< 0: KILN_F32
} kiln_nn_recurrent_opts;
#define KILN_NN_RECURRENT(...) KILN_OPTS_(kiln_nn_recurrent_opts, __VA_ARGS__)
/// Recurrent networks along sequences: kiln_rnn, kiln_gru and kiln_lstm in kiln/composites.h. Inputs: x, then perhaps
/// the first states (h, of an LSTM h and c), then the lengths where .lengths is set. Outputs: y, or y and the last
/// states. Parameters have PyTorch's names and order: "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
/// perhaps "weight_hr_l0", then those of the reverse direction ("weight_ih_l0_reverse"), then the next layer's.
KILN_API kiln_cell *kiln_nn_rnn(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts);
KILN_API kiln_cell *kiln_nn_gru(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts);
KILN_API kiln_cell *kiln_nn_lstm(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts);
/// A step: of x [N, in] and h, of an LSTM h and c, the next h, of an LSTM h and c. Parameters: "weight_ih",
/// "weight_hh", "bias_ih", "bias_hh".
KILN_API kiln_cell *kiln_nn_rnn_cell(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts);
KILN_API kiln_cell *kiln_nn_gru_cell(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts);
KILN_API kiln_cell *kiln_nn_lstm_cell(kiln_device *dev, int64_t in, int64_t hidden, const kiln_nn_recurrent_opts *opts);

// --- attention

/// Options of kiln_nn_multi_head_attention.
typedef struct kiln_nn_attention_opts {
    size_t size KILN_0;
    bool bias KILN_0;        ///< as without .no_bias; both are an error
    bool no_bias KILN_0;     ///< leaves out the bias
    bool causal KILN_0;      ///< a place sees itself and those before
    double dropout KILN_0;   ///< in training, of weights
    int64_t kv_heads KILN_0; ///< heads of keys and values, which divide heads; 0: heads
    kiln_dtype dtype KILN_0; ///< 0: KILN_F32
} kiln_nn_attention_opts;
#define KILN_NN_ATTENTION(...) KILN_OPTS_(kiln_nn_attention_opts, __VA_ARGS__)
/// Attention of several heads (Vaswani et al. 2017): [..., L, width] -> [..., L, width]. Inputs: x, or q, k and v, and
/// perhaps a mask behind them, which broadcasts to [..., heads, L, S]: bool (true: is seen), or floats that are added
/// to the scores. The batch comes first. Parameters, as PyTorch's: "in_proj_weight" [3 width, width] (q, k, v below
/// each other), "in_proj_bias", "out_proj.weight", "out_proj.bias".
KILN_API kiln_cell *kiln_nn_multi_head_attention(kiln_device *dev, int64_t width, int64_t heads,
                                                 const kiln_nn_attention_opts *opts);
/// x + waves of [..., L, width], then dropout: kiln_sinusoidal_positions, for L up to `length`. Buffer: "pe".
KILN_API kiln_cell *kiln_nn_positional_encoding(kiln_device *dev, int64_t length, int64_t width, double dropout);

/// Options of transformer layers.
typedef struct kiln_nn_transformer_opts {
    size_t size KILN_0;
    int64_t feed_forward KILN_0;   ///< the width between the two dense layers; 0: 2048
    double dropout KILN_0;         ///< in training, of weights, between the dense layers, and of what is added to x
    const char *activation KILN_0; ///< the name of an op; NULL: "relu"
    bool norm_first KILN_0;        ///< norms before attention and dense layers, else behind the sums
    double eps KILN_0;             ///< of the norms; 0: 1e-5; KILN_ZERO: 0
    bool causal KILN_0;            ///< a place of x sees itself and those before
    int64_t kv_heads KILN_0;       ///< as in kiln_nn_attention_opts
    bool bias KILN_0;              ///< as without .no_bias; both are an error
    bool no_bias KILN_0;           ///< of attention and dense layers
    bool final_norm KILN_0;        ///< of a stack: a layer norm at the end
    kiln_dtype dtype KILN_0;       ///< 0: KILN_F32
} kiln_nn_transformer_opts;
#define KILN_NN_TRANSFORMER(...) KILN_OPTS_(kiln_nn_transformer_opts, __VA_ARGS__)
/// Attention, then two dense layers, each added to what it gets and normalised (Vaswani et al. 2017). Inputs: x
/// [..., L, width] and perhaps a mask. Children: "self_attn", "linear1", "dropout", "linear2", "norm1", "norm2",
/// "dropout1", "dropout2".
KILN_API kiln_cell *kiln_nn_transformer_encoder_layer(kiln_device *dev, int64_t width, int64_t heads,
                                                      const kiln_nn_transformer_opts *opts);
/// The same with attention to a memory between: inputs x, memory, then perhaps a mask of x, then one of memory.
/// Children also "multihead_attn", "norm3", "dropout3".
KILN_API kiln_cell *kiln_nn_transformer_decoder_layer(kiln_device *dev, int64_t width, int64_t heads,
                                                      const kiln_nn_transformer_opts *opts);
/// Layers one after the other, with the inputs of one: children "layers.0", "layers.1", ..., perhaps "norm".
KILN_API kiln_cell *kiln_nn_transformer_encoder(kiln_device *dev, int64_t width, int64_t heads, int64_t layers,
                                                const kiln_nn_transformer_opts *opts);
KILN_API kiln_cell *kiln_nn_transformer_decoder(kiln_device *dev, int64_t width, int64_t heads, int64_t layers,
                                                const kiln_nn_transformer_opts *opts);

// --- norms of weights

/// From now on a parameter of the cell itself is g v / |v| with the norm over all axes but one (kiln_weight_norm),
/// computed at each call: the parameter becomes "<name>_v", and "<name>_g" is new, so that nothing changes at first.
/// Make optimisers afterwards. Errors: KILN_E_ARGUMENT for a name that is not there or is of a norm already.
KILN_API kiln_status kiln_cell_weight_norm(kiln_cell *cell, const char *name, int64_t axis);
/// From now on a parameter is divided by its largest singular value, as a matrix whose rows lie along an axis
/// (kiln_spectral_norm). In training each call makes `iterations` (0: 1) turns of the power iteration. The parameter
/// becomes "<name>_orig", new are the buffers "<name>_u" and "<name>_v". Errors as in kiln_cell_weight_norm.
KILN_API kiln_status kiln_cell_spectral_norm(kiln_cell *cell, const char *name, int64_t axis, int64_t iterations);

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
