// Attention of several heads as a cell, and positions.
#include "nn/cell.h"

#include <inttypes.h>
#include <kiln/composites.h>
#include <stdio.h>
#include <string.h>

struct heads {
    int64_t width, heads, kv_width, kv_heads;
    double dropout;
    bool causal;
};

// Rows [first, first + n) of the joint projection.
static kiln_tensor *project(kiln_cell *cell, kiln_tensor *x, int64_t first, int64_t n)
{
    kiln_tensor *w = kiln_narrow(cell_tensor_at(cell, 0), 0, first, n), *bias = cell_tensor_at(cell, 1);
    kiln_tensor *y = kiln_matmul(x, kiln_transpose(w, 0, 1));
    return bias ? kiln_add(y, kiln_narrow(bias, 0, first, n)) : y;
}

// [..., L, width] -> [..., heads, L, width / heads]
static kiln_tensor *split_heads(kiln_tensor *t, int64_t heads)
{
    int64_t dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(t);
    if (!t) return NULL;
    memcpy(dims, kiln_dims(t), rank * sizeof *dims);
    dims[rank] = dims[rank - 1] / heads;
    dims[rank - 1] = heads;
    return kiln_transpose(kiln_reshape(t, rank + 1, dims), -3, -2);
}

static kiln_tensor *merge_heads(kiln_tensor *t)
{
    return kiln_flatten(kiln_transpose(t, -3, -2), -2, -1);
}

static kiln_status check_inputs(const kiln_cell *cell, const struct heads *h, kiln_tensor *const *in, size_t n_in)
{
    if (n_in < 1 || n_in > 4)
        return error_set(KILN_E_ARGUMENT,
                         "%s cell: takes x, or q, k and v, and perhaps a mask behind them, got %zu "
                         "inputs",
                         cell->kind, n_in);
    for (size_t i = 0; i < (n_in > 2 ? 3 : 1); i++) {
        size_t rank = kiln_rank(in[i]);
        int64_t last = rank ? kiln_dims(in[i])[rank - 1] : 1;
        if (rank < 2 || rank == KILN_MAX_RANK || last != h->width)
            return error_set(KILN_E_SHAPE,
                             "%s cell: input %zu must be [...,L,%" PRId64 "], its rank is %zu, its last axis %" PRId64,
                             cell->kind, i, h->width, rank, last);
    }
    return KILN_OK;
}

static kiln_status run_heads(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    const struct heads *h = user;
    TRY(check_inputs(cell, h, in, n_in));
    kiln_tensor *mask = n_in % 2 ? NULL : in[n_in - 1], *part[3];
    const int64_t sizes[] = {h->width, h->kv_width, h->kv_width};
    if (n_in < 3) {
        TRY(kiln_split_sizes(project(cell, in[0], 0, h->width + 2 * h->kv_width), -1, 3, sizes, part));
    } else {
        for (int64_t i = 0, first = 0; i < 3; first += sizes[i++]) part[i] = project(cell, in[i], first, sizes[i]);
    }
    for (int i = 0; i < 3; i++) part[i] = split_heads(part[i], i ? h->kv_heads : h->heads);
    const kiln_attention_opts *o = KILN_ATTENTION(.causal = h->causal, .dropout = cell->training ? h->dropout : 0);
    kiln_tensor *y = kiln_scaled_dot_product_attention(part[0], part[1], part[2], mask, o);
    out[0] = kiln_cell_call(kiln_cell_child(cell, "out_proj"), merge_heads(y));
    return kiln_error();
}

kiln_cell *kiln_nn_multi_head_attention(kiln_device *dev, int64_t width, int64_t heads,
                                        const kiln_nn_attention_opts *opts)
{
    kiln_nn_attention_opts o;
    if (options_read("nn_multi_head_attention", KILN_NN_ATTENTION, &o, opts) || kiln_error()) return NULL;
    int64_t kv_heads = o.kv_heads ? o.kv_heads : heads;
    if (width < 1 || heads < 1 || kv_heads < 1 || width % heads || heads % kv_heads ||
        !(o.dropout >= 0 && o.dropout < 1)) {
        error_set(KILN_E_ARGUMENT,
                  "nn_multi_head_attention: heads must divide width, .kv_heads heads, .dropout be in [0, 1), got width "
                  "%" PRId64 ", heads %" PRId64 ", .kv_heads %" PRId64 ", .dropout %g",
                  width, heads, kv_heads, o.dropout);
        return NULL;
    }
    kiln_cell *cell = cell_make("multi_head_attention", run_heads, sizeof(struct heads));
    if (!cell) return NULL;
    cell->n_in = 0;
    if (o.dropout > 0) cell->by_mode = "dropout";
    int64_t kv_width = width / heads * kv_heads, rows = width + 2 * kv_width;
    *(struct heads *)cell->user = (struct heads){width, heads, kv_width, kv_heads, o.dropout, o.causal};
    cell_say_sizes(cell, "%" PRId64 ", %" PRId64 " heads", width, heads);
    kiln_dtype dtype = dtype_or_f32(o.dtype);
    kiln_cell_make_parameter(cell, "in_proj_weight", dev, dtype, KILN_SHAPE(rows, width), "xavier_uniform");
    if (cell_wants_bias("nn_multi_head_attention", o.bias, o.no_bias, true))
        kiln_cell_make_parameter(cell, "in_proj_bias", dev, dtype, KILN_SHAPE(rows), "zeros");
    kiln_cell_add_child(
        cell, "out_proj",
        kiln_nn_dense(dev, width, width, KILN_NN_DENSE(.bias = o.bias, .no_bias = o.no_bias, .dtype = dtype)));
    return cell_or_null(cell);
}

// --- positions

static kiln_status run_positions(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    kiln_tensor *table = cell_tensor_at(cell, 0);
    size_t rank = kiln_rank(in[0]);
    const int64_t *dims = kiln_dims(in[0]), *all = kiln_dims(table);
    if (rank < 2 || dims[rank - 1] != all[1] || dims[rank - 2] > all[0])
        return error_set(KILN_E_SHAPE,
                         "%s cell: x must be [...,L,%" PRId64 "] with L up to %" PRId64
                         ", its rank is %zu, its last axes "
                         "%" PRId64 " and %" PRId64,
                         cell->kind, all[1], all[0], rank, rank > 1 ? dims[rank - 2] : 1, rank ? dims[rank - 1] : 1);
    out[0] =
        kiln_cell_call(kiln_cell_child(cell, "dropout"), kiln_add(in[0], kiln_narrow(table, 0, 0, dims[rank - 2])));
    return kiln_error();
}

kiln_cell *kiln_nn_positional_encoding(kiln_device *dev, int64_t length, int64_t width, double dropout)
{
    if (kiln_error()) return NULL;
    if (length < 1 || width < 1) {
        error_set(KILN_E_ARGUMENT,
                  "nn_positional_encoding: length and width must be positive, got %" PRId64 " and %" PRId64, length,
                  width);
        return NULL;
    }
    kiln_cell *cell = cell_make("positional_encoding", run_positions, 0);
    if (!cell) return NULL;
    kiln_scope *scope = kiln_scope_begin();
    kiln_cell_add_buffer(cell, "pe", kiln_sinusoidal_positions(dev, KILN_F32, length, width));
    kiln_scope_end(&scope);
    kiln_cell_add_child(cell, "dropout", kiln_nn_dropout(dropout));
    return cell_or_null(cell);
}
