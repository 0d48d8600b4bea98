// Cells that normalise: by batch, by layer, by root mean square.
#include "nn/cell.h"
#include "base/options.h"

#include <inttypes.h>
#include <kiln/ops.h>
#include <string.h>

// --- batch norm. Tensors in this order: moving_mean, moving_variance, gamma, beta.

struct batch_norm {
    double momentum, eps;
};

// running = momentum running + (1 - momentum) batch; the variance of the batch is biased, the running one is not.
static kiln_status update_statistics(kiln_cell *cell, const struct batch_norm *b, kiln_tensor *mean,
                                     kiln_tensor *variance, int64_t n)
{
    if (n > 1) variance = kiln_mul(variance, kiln_scalar((double)n / (double)(n - 1)));
    kiln_tensor *batch[] = {mean, variance};
    for (size_t i = 0; i < 2; i++) {
        TRY(kiln_lerp_(cell_tensor_at(cell, i), batch[i], kiln_scalar(1 - b->momentum)));
    }
    return KILN_OK;
}

static kiln_status run_batch_norm(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                  size_t n_out)
{
    const struct batch_norm *b = user;
    kiln_tensor *gamma = cell_tensor_at(cell, 2), *beta = cell_tensor_at(cell, 3);
    double eps = b->eps == 0 ? KILN_ZERO : b->eps;
    const kiln_batch_norm_opts *opts = KILN_BATCH_NORM(.weight = gamma, .bias = beta, .eps = eps);
    if (!cell->training) {
        out[0] = kiln_batch_norm(in[0], cell_tensor_at(cell, 0), cell_tensor_at(cell, 1), opts);
        return kiln_error();
    }
    kiln_tensor *mean = NULL, *variance = NULL;
    TRY(kiln_batch_norm_train(in[0], opts, &out[0], &mean, &variance));
    int64_t channels = kiln_numel(mean);
    kiln_no_grad_begin();
    kiln_status status = update_statistics(cell, b, mean, variance, channels ? kiln_numel(in[0]) / channels : 0);
    kiln_no_grad_end();
    return status;
}

static void add_moving(kiln_cell *cell, const char *name, kiln_device *dev, kiln_dtype dtype, int64_t channels,
                       double value)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell_add_buffer(cell, name, kiln_full(dev, dtype, KILN_SHAPE(channels), value));
    kiln_scope_end(&scope);
}

kiln_cell *kiln_nn_batch_norm2d(kiln_device *dev, int64_t channels, const kiln_nn_batch_norm_opts *opts)
{
    kiln_nn_batch_norm_opts o;
    if (options_read("nn_batch_norm2d", KILN_NN_BATCH_NORM, &o, opts)) return NULL;
    struct batch_norm b = {option_or(o.momentum, 0.9), option_or(o.eps, 1e-5)};
    if (kiln_error()) return NULL;
    if (channels < 1 || !(b.momentum >= 0 && b.momentum <= 1) || !(b.eps >= 0)) {
        error_set(KILN_E_ARGUMENT,
                  "nn_batch_norm2d: channels must be positive, momentum in [0, 1], eps not negative, got %" PRId64
                  ", %g, %g",
                  channels, b.momentum, b.eps);
        return NULL;
    }
    kiln_cell *cell = cell_make("batch_norm2d", run_batch_norm, sizeof b);
    if (!cell) return NULL;
    memcpy(cell->user, &b, sizeof b);
    cell_say_sizes(cell, "%" PRId64, channels);
    cell->by_mode = "batch_norm2d";
    kiln_dtype dtype = dtype_or_f32(o.dtype);
    add_moving(cell, "moving_mean", dev, dtype, channels, 0);
    add_moving(cell, "moving_variance", dev, dtype, channels, 1);
    if (!o.no_affine) {
        kiln_cell_make_parameter(cell, "gamma", dev, dtype, KILN_SHAPE(channels), o.gamma_init ? o.gamma_init : "ones");
        kiln_cell_make_parameter(cell, "beta", dev, dtype, KILN_SHAPE(channels), o.beta_init ? o.beta_init : "zeros");
    }
    return cell_or_null(cell);
}

// --- layer norm and root mean square norm

struct row_norm {
    double eps;
    size_t rank;
    int64_t dims[KILN_MAX_RANK];
};

// The last dimensions of x must be those of the cell; without gamma the op alone could not tell.
static kiln_status check_row(const kiln_cell *cell, const struct row_norm *r, kiln_tensor *x)
{
    size_t rank = kiln_rank(x);
    bool fits = rank >= r->rank && !memcmp(kiln_dims(x) + (rank - r->rank), r->dims, r->rank * sizeof *r->dims);
    if (fits) return kiln_error();
    const int64_t *dims = kiln_dims(x);
    return error_set(KILN_E_SHAPE,
                     "%s cell: x must end in %zu axes, the last of size %" PRId64
                     "; its rank is %zu, its last axis %" PRId64,
                     cell->kind, r->rank, r->dims[r->rank - 1], rank, rank ? dims[rank - 1] : 1);
}

static kiln_status run_layer_norm(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                  size_t n_out)
{
    const struct row_norm *r = user;
    TRY(check_row(cell, r, in[0]));
    out[0] = kiln_layer_norm(in[0], (int64_t)r->rank,
                             KILN_LAYER_NORM(.weight = cell_tensor_at(cell, 0), .bias = cell_tensor_at(cell, 1),
                                             .eps = r->eps == 0 ? KILN_ZERO : r->eps));
    return kiln_error();
}

static kiln_status run_rms_norm(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                size_t n_out)
{
    const struct row_norm *r = user;
    TRY(check_row(cell, r, in[0]));
    out[0] = kiln_rms_norm(in[0], 1,
                           KILN_RMS_NORM(.weight = cell_tensor_at(cell, 0), .eps = r->eps == 0 ? KILN_ZERO : r->eps));
    return kiln_error();
}

static kiln_cell *row_norm(const char *kind, kiln_construct_fn run, size_t rank, const int64_t *dims, double eps)
{
    if (kiln_error()) return NULL;
    if (!dims) {
        error_set(KILN_E_ARGUMENT, "nn_%s: dims is NULL", kind);
        return NULL;
    }
    struct row_norm r = {.eps = option_or(eps, 1e-5), .rank = rank};
    bool fits = rank > 0 && rank <= KILN_MAX_RANK && r.eps >= 0;
    for (size_t i = 0; fits && i < rank; i++) {
        fits = dims[i] > 0;
        r.dims[i] = dims[i];
    }
    if (!fits) {
        error_set(KILN_E_ARGUMENT, "nn_%s: the shape must have 1 to %d positive sizes, eps must not be negative", kind,
                  KILN_MAX_RANK);
        return NULL;
    }
    kiln_cell *cell = cell_make(kind, run, sizeof r);
    if (cell) memcpy(cell->user, &r, sizeof r);
    cell_say_sizes(cell, rank > 1 ? "… %" PRId64 : "%" PRId64, dims[rank - 1]);
    return cell;
}

kiln_cell *kiln_nn_layer_norm(kiln_device *dev, size_t rank, const int64_t *dims, const kiln_nn_norm_opts *opts)
{
    kiln_nn_norm_opts o;
    if (options_read("nn_layer_norm", KILN_NN_NORM, &o, opts)) return NULL;
    kiln_cell *cell = row_norm("layer_norm", run_layer_norm, rank, dims, o.eps);
    if (!cell || o.no_affine) return cell;
    kiln_cell_make_parameter(cell, "gamma", dev, dtype_or_f32(o.dtype), rank, dims,
                             o.gamma_init ? o.gamma_init : "ones");
    kiln_cell_make_parameter(cell, "beta", dev, dtype_or_f32(o.dtype), rank, dims, o.beta_init ? o.beta_init : "zeros");
    return cell_or_null(cell);
}

kiln_cell *kiln_nn_rms_norm(kiln_device *dev, int64_t size, const kiln_nn_norm_opts *opts)
{
    kiln_nn_norm_opts o;
    if (options_read("nn_rms_norm", KILN_NN_NORM, &o, opts)) return NULL;
    kiln_cell *cell = row_norm("rms_norm", run_rms_norm, KILN_SHAPE(size), o.eps);
    if (!cell || o.no_affine) return cell;
    kiln_cell_make_parameter(cell, "gamma", dev, dtype_or_f32(o.dtype), KILN_SHAPE(size),
                             o.gamma_init ? o.gamma_init : "ones");
    return cell_or_null(cell);
}
