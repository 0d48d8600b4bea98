// Transformer layers (Vaswani et al. 2017) and stacks of them, with PyTorch's names of children.
#include "nn/cell.h"

#include <inttypes.h>
#include <kiln/ops.h>
#include <stdio.h>
#include <string.h>

struct transformer {
    bool norm_first;
    bool decodes;
    char activation[32];
};

// --- a layer. What is added to x comes behind a norm of x, or the norm comes behind the sum.

typedef kiln_tensor *(*part_fn)(kiln_cell *cell, kiln_tensor *x, kiln_tensor *memory, kiln_tensor *mask);

static kiln_tensor *attend_by(kiln_cell *cell, const char *child, kiln_tensor *x, kiln_tensor *from, kiln_tensor *mask)
{
    kiln_tensor *in[4] = {x}, *y = NULL;
    size_t n = 1;
    if (from) in[n++] = from, in[n++] = from;
    if (mask) in[n++] = mask;
    kiln_cell_call_n(kiln_cell_child(cell, child), in, n, &y, 1);
    return y;
}

static kiln_tensor *attend_self(kiln_cell *cell, kiln_tensor *x, kiln_tensor *memory, kiln_tensor *mask)
{
    (void)memory;
    return attend_by(cell, "self_attn", x, NULL, mask);
}

static kiln_tensor *attend_memory(kiln_cell *cell, kiln_tensor *x, kiln_tensor *memory, kiln_tensor *mask)
{
    return attend_by(cell, "multihead_attn", x, memory, mask);
}

static kiln_tensor *feed_forward(kiln_cell *cell, kiln_tensor *x, kiln_tensor *memory, kiln_tensor *mask)
{
    const struct transformer *t = cell->user;
    kiln_tensor *wide = kiln_cell_call(kiln_cell_child(cell, "linear1"), x);
    (void)memory, (void)mask;
    wide = kiln_cell_call(kiln_cell_child(cell, "dropout"), kiln_apply(t->activation, &wide, 1));
    return kiln_cell_call(kiln_cell_child(cell, "linear2"), wide);
}

// Part `number`, from 1, with the norm and the dropout of this number.
static kiln_tensor *join(kiln_cell *cell, int number, part_fn part, kiln_tensor *x, kiln_tensor *memory,
                         kiln_tensor *mask)
{
    const struct transformer *t = cell->user;
    char norm[16], dropout[16];
    snprintf(norm, sizeof norm, "norm%d", number);
    snprintf(dropout, sizeof dropout, "dropout%d", number);
    kiln_cell *norms = kiln_cell_child(cell, norm), *drops = kiln_cell_child(cell, dropout);
    kiln_tensor *y = part(cell, t->norm_first ? kiln_cell_call(norms, x) : x, memory, mask);
    y = kiln_add(x, kiln_cell_call(drops, y));
    return t->norm_first ? y : kiln_cell_call(norms, y);
}

static kiln_status check_count(const kiln_cell *cell, const struct transformer *t, size_t n_in)
{
    if (t->decodes ? n_in >= 2 && n_in <= 4 : n_in == 1 || n_in == 2) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s cell: takes %s, got %zu inputs", cell->kind,
                     t->decodes ? "x, memory, and perhaps a mask of x and one of memory" : "x and perhaps a mask",
                     n_in);
}

static kiln_status run_layer(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    const struct transformer *t = user;
    TRY(check_count(cell, t, n_in));
    kiln_tensor *memory = t->decodes ? in[1] : NULL, *mask = n_in > 1u + t->decodes ? in[1 + t->decodes] : NULL;
    kiln_tensor *x = join(cell, 1, attend_self, in[0], NULL, mask);
    if (t->decodes) x = join(cell, 2, attend_memory, x, memory, n_in > 3 ? in[3] : NULL);
    out[0] = join(cell, t->decodes ? 3 : 2, feed_forward, x, NULL, NULL);
    return kiln_error();
}

static kiln_status check_options(const char *name, int64_t width, const kiln_nn_transformer_opts *o)
{
    if (kiln_error()) return kiln_error();
    if (width < 1 || o->feed_forward < 0 || (o->activation && strlen(o->activation) >= 32))
        return error_set(KILN_E_ARGUMENT,
                         "%s: width must be positive, .feed_forward not negative, .activation the name of an op, got "
                         "%" PRId64 ", %" PRId64 ", \"%s\"",
                         name, width, o->feed_forward, o->activation ? o->activation : "relu");
    return KILN_OK;
}

static kiln_cell *make_layer(const char *kind, kiln_device *dev, int64_t width, int64_t heads, bool decodes,
                             const kiln_nn_transformer_opts *o)
{
    char name[48];
    snprintf(name, sizeof name, "nn_%s", kind);
    if (check_options(name, width, o)) return NULL;
    kiln_cell *cell = cell_make(kind, run_layer, sizeof(struct transformer));
    if (!cell) return NULL;
    cell->n_in = 0;
    struct transformer *t = cell->user;
    *t = (struct transformer){.norm_first = o->norm_first, .decodes = decodes};
    cell_say_sizes(cell, "%" PRId64 ", %" PRId64 " heads", width, heads);
    snprintf(t->activation, sizeof t->activation, "%s", o->activation ? o->activation : "relu");
    bool bias = cell_wants_bias(name, o->bias, o->no_bias, true);
    int64_t inner = o->feed_forward ? o->feed_forward : 2048;
    const kiln_nn_dense_opts *dense = KILN_NN_DENSE(.no_bias = !bias, .dtype = o->dtype);
    kiln_nn_attention_opts attention = {.size = sizeof attention,
                                        .no_bias = !bias,
                                        .dropout = o->dropout,
                                        .causal = o->causal,
                                        .kv_heads = o->kv_heads,
                                        .dtype = o->dtype};
    kiln_cell_add_child(cell, "self_attn", kiln_nn_multi_head_attention(dev, width, heads, &attention));
    attention.causal = false;
    if (decodes)
        kiln_cell_add_child(cell, "multihead_attn", kiln_nn_multi_head_attention(dev, width, heads, &attention));
    kiln_cell_add_child(cell, "linear1", kiln_nn_dense(dev, width, inner, dense));
    kiln_cell_add_child(cell, "dropout", kiln_nn_dropout(o->dropout));
    kiln_cell_add_child(cell, "linear2", kiln_nn_dense(dev, inner, width, dense));
    for (int i = 1; i <= 2 + decodes; i++) {
        snprintf(name, sizeof name, "norm%d", i);
        kiln_cell_add_child(cell, name,
                            kiln_nn_layer_norm(dev, KILN_SHAPE(width), KILN_NN_NORM(.eps = o->eps, .dtype = o->dtype)));
    }
    for (int i = 1; i <= 2 + decodes; i++) {
        snprintf(name, sizeof name, "dropout%d", i);
        kiln_cell_add_child(cell, name, kiln_nn_dropout(o->dropout));
    }
    return cell_or_null(cell);
}

kiln_cell *kiln_nn_transformer_encoder_layer(kiln_device *dev, int64_t width, int64_t heads,
                                             const kiln_nn_transformer_opts *opts)
{
    kiln_nn_transformer_opts o;
    if (options_read("nn_transformer_encoder_layer", KILN_NN_TRANSFORMER, &o, opts)) return NULL;
    return make_layer("transformer_encoder_layer", dev, width, heads, false, &o);
}

kiln_cell *kiln_nn_transformer_decoder_layer(kiln_device *dev, int64_t width, int64_t heads,
                                             const kiln_nn_transformer_opts *opts)
{
    kiln_nn_transformer_opts o;
    if (options_read("nn_transformer_decoder_layer", KILN_NN_TRANSFORMER, &o, opts)) return NULL;
    return make_layer("transformer_decoder_layer", dev, width, heads, true, &o);
}

// --- stacks

static kiln_status run_stack(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                             size_t n_out)
{
    kiln_cell *layers = kiln_cell_child(cell, "layers");
    kiln_tensor *all[4] = {NULL};
    TRY(check_count(cell, user, n_in));
    if (!layers) return kiln_error();
    memcpy(all, in, n_in * sizeof *all);
    for (size_t i = 0; i < layers->n_children; i++) {
        kiln_tensor *y;
        TRY(kiln_cell_call_n(layers->children[i], all, n_in, &y, 1));
        if (i) kiln_free(&all[0]);
        all[0] = y;
    }
    bool normed = layers != cell->children[cell->n_children - 1];
    out[0] = normed ? kiln_cell_call(kiln_cell_child(cell, "norm"), all[0]) : all[0];
    return kiln_error();
}

static kiln_cell *make_stack(const char *kind, const char *layer_kind, kiln_device *dev, int64_t width, int64_t heads,
                             int64_t layers, bool decodes, const kiln_nn_transformer_opts *o)
{
    if (!kiln_error() && (layers < 1 || layers > 900))
        error_set(KILN_E_ARGUMENT, "nn_%s: layers must be 1 to 900, got %" PRId64, kind, layers);
    kiln_cell *cell = cell_make(kind, run_stack, sizeof(struct transformer));
    if (!cell) return NULL;
    cell->n_in = 0;
    ((struct transformer *)cell->user)->decodes = decodes;
    kiln_cell *all = kiln_cell_add_child(cell, "layers", kiln_nn_sequential(0, NULL));
    for (int64_t i = 0; i < layers && !kiln_error(); i++)
        kiln_sequential_append(all, make_layer(layer_kind, dev, width, heads, decodes, o));
    if (o->final_norm)
        kiln_cell_add_child(cell, "norm",
                            kiln_nn_layer_norm(dev, KILN_SHAPE(width), KILN_NN_NORM(.eps = o->eps, .dtype = o->dtype)));
    return cell_or_null(cell);
}

kiln_cell *kiln_nn_transformer_encoder(kiln_device *dev, int64_t width, int64_t heads, int64_t layers,
                                       const kiln_nn_transformer_opts *opts)
{
    kiln_nn_transformer_opts o;
    if (options_read("nn_transformer_encoder", KILN_NN_TRANSFORMER, &o, opts)) return NULL;
    return make_stack("transformer_encoder", "transformer_encoder_layer", dev, width, heads, layers, false, &o);
}

kiln_cell *kiln_nn_transformer_decoder(kiln_device *dev, int64_t width, int64_t heads, int64_t layers,
                                       const kiln_nn_transformer_opts *opts)
{
    kiln_nn_transformer_opts o;
    if (options_read("nn_transformer_decoder", KILN_NN_TRANSFORMER, &o, opts)) return NULL;
    return make_stack("transformer_decoder", "transformer_decoder_layer", dev, width, heads, layers, true, &o);
}
