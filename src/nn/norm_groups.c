// Cells that normalise groups of channels.
#include "nn/cell.h"

#include <inttypes.h>
#include <kiln/ops.h>

struct groups {
    int64_t groups, channels;
    double eps;
    size_t min_rank;
};

// The number of channels must be that of the cell; without gamma the op alone could not tell.
static kiln_status run_groups(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                              size_t n_out)
{
    const struct groups *g = user;
    size_t rank = kiln_rank(in[0]);
    int64_t channels = rank > 1 ? kiln_dims(in[0])[1] : -1;
    if (rank < g->min_rank || channels != g->channels)
        return error_set(KILN_E_SHAPE,
                         "%s cell: x must have %" PRId64 " channels along axis 1 and rank %zu at least; its rank is "
                         "%zu, its channels %" PRId64,
                         cell->kind, g->channels, g->min_rank, rank, channels);
    out[0] = kiln_group_norm(in[0], g->groups,
                             KILN_GROUP_NORM(.weight = cell_tensor_at(cell, 0), .bias = cell_tensor_at(cell, 1),
                                             .eps = g->eps == 0 ? KILN_ZERO : g->eps));
    return kiln_error();
}

static kiln_cell *group_cell(const char *kind, kiln_device *dev, struct groups g, const kiln_nn_norm_opts *o)
{
    g.eps = option_or(o->eps, 1e-5);
    if (kiln_error()) return NULL;
    if (g.channels < 1 || g.groups < 1 || g.channels % g.groups || !(g.eps >= 0)) {
        error_set(KILN_E_ARGUMENT,
                  "nn_%s: groups must be positive and divide channels, eps not be negative, got %" PRId64 ", %" PRId64
                  ", %g",
                  kind, g.groups, g.channels, g.eps);
        return NULL;
    }
    kiln_cell *cell = cell_make(kind, run_groups, sizeof g);
    if (!cell) return NULL;
    *(struct groups *)cell->user = g;
    cell_say_sizes(cell, "%" PRId64, g.channels);
    if (o->no_affine) return cell;
    kiln_dtype dtype = dtype_or_f32(o->dtype);
    kiln_cell_make_parameter(cell, "gamma", dev, dtype, KILN_SHAPE(g.channels), o->gamma_init ? o->gamma_init : "ones");
    kiln_cell_make_parameter(cell, "beta", dev, dtype, KILN_SHAPE(g.channels), o->beta_init ? o->beta_init : "zeros");
    return cell_or_null(cell);
}

kiln_cell *kiln_nn_group_norm(kiln_device *dev, int64_t groups, int64_t channels, const kiln_nn_norm_opts *opts)
{
    kiln_nn_norm_opts o;
    if (options_read("nn_group_norm", KILN_NN_NORM, &o, opts)) return NULL;
    return group_cell("group_norm", dev, (struct groups){.groups = groups, .channels = channels, .min_rank = 2}, &o);
}

kiln_cell *kiln_nn_instance_norm(kiln_device *dev, int64_t channels, const kiln_nn_norm_opts *opts)
{
    kiln_nn_norm_opts o;
    if (options_read("nn_instance_norm", KILN_NN_NORM, &o, opts)) return NULL;
    return group_cell("instance_norm", dev, (struct groups){.groups = channels, .channels = channels, .min_rank = 3},
                      &o);
}
