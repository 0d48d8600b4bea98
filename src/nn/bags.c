// Cells of embedding bags and of products of pairs.
#include "nn/cell.h"
#include "nn/init.h"

#include <inttypes.h>
#include <kiln/composites.h>
#include <stdio.h>
#include <string.h>

struct bag {
    char mode[8];
};

static kiln_status run_bag(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                           size_t n_out)
{
    const struct bag *b = user;
    if (n_in < 1 || n_in > 2)
        return error_set(KILN_E_ARGUMENT, "embedding_bag cell: takes ids, or ids and offsets, got %zu inputs", n_in);
    out[0] = kiln_embedding_bag(cell_tensor_at(cell, 0), in[0], n_in > 1 ? in[1] : NULL, NULL,
                                KILN_EMBEDDING_BAG(.mode = b->mode));
    return kiln_error();
}

kiln_cell *kiln_nn_embedding_bag(kiln_device *dev, int64_t count, int64_t width, const char *mode, const char *init)
{
    if (kiln_error()) return NULL;
    if (!mode) mode = "mean";
    if (count < 1 || width < 1 || (strcmp(mode, "mean") && strcmp(mode, "sum") && strcmp(mode, "max"))) {
        error_set(KILN_E_ARGUMENT,
                  "nn_embedding_bag: count and width must be positive, mode \"mean\", \"sum\" or \"max\", got %" PRId64
                  ", %" PRId64 ", \"%s\"",
                  count, width, mode);
        return NULL;
    }
    kiln_cell *cell = cell_make("embedding_bag", run_bag, sizeof(struct bag));
    if (!cell) return NULL;
    cell->n_in = 0;
    snprintf(((struct bag *)cell->user)->mode, sizeof(struct bag), "%s", mode);
    kiln_cell_make_parameter(cell, "weight", dev, KILN_F32, KILN_SHAPE(count, width), init ? init : "normal(1)");
    return cell_or_null(cell);
}

static kiln_status run_bilinear(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                size_t n_out)
{
    out[0] = kiln_bilinear(in[0], in[1], cell_tensor_at(cell, 0), cell_tensor_at(cell, 1));
    return kiln_error();
}

kiln_cell *kiln_nn_bilinear(kiln_device *dev, int64_t in1, int64_t in2, int64_t out, const kiln_nn_dense_opts *opts)
{
    kiln_nn_dense_opts o;
    char init[INIT_TEXT_B];
    if (options_read("nn_bilinear", KILN_NN_DENSE, &o, opts) || kiln_error()) return NULL;
    if (in1 < 1 || in2 < 1 || out < 1) {
        error_set(KILN_E_ARGUMENT,
                  "nn_bilinear: in1, in2 and out must be positive, got %" PRId64 ", %" PRId64 ", %" PRId64, in1, in2,
                  out);
        return NULL;
    }
    kiln_cell *cell = cell_make("bilinear", run_bilinear, 0);
    if (!cell) return NULL;
    cell->n_in = 2;
    init_by_fan_in(init, in1);
    kiln_dtype dtype = dtype_or_f32(o.dtype);
    kiln_cell_make_parameter(cell, "weight", dev, dtype, KILN_SHAPE(out, in1, in2),
                             o.weight_init ? o.weight_init : init);
    if (cell_wants_bias("nn_bilinear", o.bias, o.no_bias, true))
        kiln_cell_make_parameter(cell, "bias", dev, dtype, KILN_SHAPE(out), o.bias_init ? o.bias_init : init);
    return cell_or_null(cell);
}
