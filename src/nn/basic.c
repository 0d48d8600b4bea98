// Cells without weights: sequences, activations, dropout, flattening, pooling.
#include "nn/cell.h"
#include "base/handles.h"
#include "base/options.h"

#include <kiln/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- one after the other

static kiln_status run_sequence(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                size_t n_out)
{
    kiln_tensor *x = in[0];
    for (size_t i = 0; i < cell->n_children; i++) {
        kiln_tensor *y = kiln_cell_call(cell->children[i], x);
        if (x != in[0]) kiln_free(&x);
        if (!y) return kiln_error();
        x = y;
    }
    out[0] = x;
    return KILN_OK;
}

kiln_status kiln_sequential_append(kiln_cell *sequential, kiln_cell *cell)
{
    if (!handle_check("sequential_append", "sequential", HANDLE_CELL, sequential) && !sequential->appends)
        error_set(KILN_E_ARGUMENT, "sequential_append: the cell is not a sequential one");
    char name[24] = "";
    if (kiln_error())
        sequential = NULL;
    else
        snprintf(name, sizeof name, "%zu", sequential->n_children);
    kiln_cell_add_child(sequential, name, cell);
    return kiln_error();
}

kiln_cell *kiln_nn_sequential(size_t count, kiln_cell *const *cells)
{
    if (count && !cells) error_set(KILN_E_ARGUMENT, "nn_sequential: cells is NULL, %zu are given", count);
    kiln_cell *sequential = cell_make("sequential", run_sequence, 0);
    if (sequential) sequential->appends = true;
    // With an error pending each append frees its cell.
    for (size_t i = 0; i < count && cells; i++) kiln_sequential_append(sequential, cells[i]);
    return cell_or_null(sequential);
}

// --- element by element

static kiln_status run_unary(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    out[0] = kiln_apply(cell->kind, in, 1);
    return kiln_error();
}

kiln_cell *kiln_nn_unary(const char *op)
{
    if (kiln_error()) return NULL;
    if (!op) {
        error_set(KILN_E_ARGUMENT, "nn_unary: op is NULL");
        return NULL;
    }
    kiln_apply(op, NULL, 0); // says whether there is such an op
    bool unknown = strstr(kiln_error_message(), "no op is named") != NULL;
    if (unknown)
        error_name_op("nn_unary");
    else
        kiln_error_clear();
    return unknown ? NULL : cell_make(op, run_unary, 0);
}

kiln_cell *kiln_nn_relu(void)
{
    return kiln_nn_unary("relu");
}

kiln_cell *kiln_nn_gelu(void)
{
    return kiln_nn_unary("gelu");
}

kiln_cell *kiln_nn_silu(void)
{
    return kiln_nn_unary("silu");
}

kiln_cell *kiln_nn_sigmoid(void)
{
    return kiln_nn_unary("sigmoid");
}

kiln_cell *kiln_nn_tanh(void)
{
    return kiln_nn_unary("tanh");
}

static kiln_status run_leaky_relu(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                  size_t n_out)
{
    out[0] = kiln_leaky_relu(in[0], *(double *)user);
    return kiln_error();
}

kiln_cell *kiln_nn_leaky_relu(double slope)
{
    kiln_cell *cell = cell_make("leaky_relu", run_leaky_relu, sizeof slope);
    if (cell) *(double *)cell->user = slope;
    return cell;
}

static kiln_status run_softmax(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                               size_t n_out)
{
    out[0] = kiln_softmax(in[0], *(int64_t *)user);
    return kiln_error();
}

kiln_cell *kiln_nn_softmax(int64_t axis)
{
    kiln_cell *cell = cell_make("softmax", run_softmax, sizeof axis);
    if (cell) *(int64_t *)cell->user = axis;
    return cell;
}

static kiln_status run_dropout(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                               size_t n_out)
{
    double p = *(double *)user;
    out[0] = cell->training && p > 0 ? kiln_dropout(in[0], p) : in[0];
    return kiln_error();
}

kiln_cell *kiln_nn_dropout(double p)
{
    if (kiln_error()) return NULL;
    if (!(p >= 0 && p < 1)) {
        error_set(KILN_E_ARGUMENT, "nn_dropout: p must be in [0, 1), got %g", p);
        return NULL;
    }
    kiln_cell *cell = cell_make("dropout", run_dropout, sizeof p);
    if (!cell) return NULL;
    cell->by_mode = "dropout";
    *(double *)cell->user = p;
    return cell;
}

// --- shapes

static kiln_status run_flatten(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                               size_t n_out)
{
    out[0] = kiln_flatten(in[0], 1, -1);
    return kiln_error();
}

kiln_cell *kiln_nn_flatten(void)
{
    return cell_make("flatten", run_flatten, 0);
}

static kiln_status run_max_pool(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                size_t n_out)
{
    out[0] = kiln_max_pool2d(in[0], user);
    return kiln_error();
}

static kiln_status run_avg_pool(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                size_t n_out)
{
    out[0] = kiln_avg_pool2d(in[0], user);
    return kiln_error();
}

static kiln_cell *pool(const char *kind, kiln_construct_fn run, const struct kiln_pool2d_opts *opts)
{
    char name[32];
    kiln_pool2d_opts o;
    snprintf(name, sizeof name, "nn_%s", kind);
    if (options_read_as(name, "KILN_POOL2D", &o, sizeof o, opts)) return NULL;
    kiln_cell *cell = cell_make(kind, run, sizeof o);
    if (!cell) return NULL;
    o.size = sizeof o;
    memcpy(cell->user, &o, sizeof o);
    return cell;
}

kiln_cell *kiln_nn_max_pool2d(const struct kiln_pool2d_opts *opts)
{
    return pool("max_pool2d", run_max_pool, opts);
}

kiln_cell *kiln_nn_avg_pool2d(const struct kiln_pool2d_opts *opts)
{
    return pool("avg_pool2d", run_avg_pool, opts);
}
