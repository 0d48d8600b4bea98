// The networks of the training rows, attention from its parts, and the language model token by token. A step is: forget
// the gradients, forward, backward, update, as in peers/torch_rows.py.
#include "bench.h"

#include <kiln/control.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_PARAMETERS = 4096, MAX_LAYERS = 16 };

void trainer_free(struct trainer **t)
{
    if (!*t) return;
    kiln_optim_free(&(*t)->opt);
    kiln_cell_free(&(*t)->net);
    free(*t);
    *t = NULL;
}

kiln_status run_step(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    struct trainer *t = s->net;
    kiln_optim_zero_grad(t->opt);
    kiln_tensor *logits = kiln_cell_call(t->net, in[0]);
    kiln_tensor *labels = in[1];
    if (logits && kiln_rank(logits) > 2) {
        int64_t rows = kiln_numel(labels);
        logits = kiln_reshape(logits, KILN_SHAPE(rows, t->classes));
        labels = kiln_reshape(labels, KILN_SHAPE(rows));
    }
    *out = kiln_cross_entropy(logits, labels, NULL);
    kiln_backward(*out, NULL);
    return kiln_optim_step(t->opt);
}

kiln_status make_trainer(struct state *s, kiln_cell *net, int64_t classes, bool adamw)
{
    kiln_tensor *params[MAX_PARAMETERS];
    struct trainer *t = calloc(1, sizeof *t);
    if (!t || !net) {
        free(t);
        kiln_cell_free(&net);
        return kiln_error() ? kiln_error() : KILN_E_MEMORY;
    }
    *t = (struct trainer){.net = net, .classes = classes};
    s->net = t;
    kiln_cell_set_training(net, true);
    size_t n = kiln_cell_parameters(net, params, MAX_PARAMETERS);
    t->opt = adamw ? kiln_optim_adamw(params, n, KILN_ADAM(.lr = 1e-4))
                   : kiln_optim_sgd(params, n, KILN_SGD(.lr = 0.01, .momentum = 0.9));
    return kiln_error();
}

void random_labels(struct state *s, int64_t count, int64_t classes)
{
    own_input(s, 1, kiln_randint(s->dev, KILN_I64, KILN_SHAPE(count), 0, classes));
}

kiln_status setup_lenet(struct state *s)
{
    kiln_device *dev = s->dev;
    int64_t batch = s->z->bl;
    own_input(s, 0, kiln_normal(dev, KILN_F32, KILN_SHAPE(batch, 1, 28, 28), 0, 1));
    random_labels(s, batch, 10);
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(
        kiln_nn_conv2d(dev, 1, 6, 5, KILN_NN_CONV2D(.padding = {2, 2}, .bias = true)), kiln_nn_relu(),
        kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})), kiln_nn_conv2d(dev, 6, 16, 5, KILN_NN_CONV2D(.bias = true)),
        kiln_nn_relu(), kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})), kiln_nn_flatten(),
        kiln_nn_dense(dev, 400, 120, NULL), kiln_nn_relu(), kiln_nn_dense(dev, 120, 84, NULL), kiln_nn_relu(),
        kiln_nn_dense(dev, 84, 10, NULL)));
    return make_trainer(s, net, 10, false);
}

static kiln_status setup_dense(struct state *s, int64_t batch, int64_t in, int64_t hidden)
{
    kiln_device *dev = s->dev;
    own_input(s, 0, kiln_normal(dev, KILN_F32, KILN_SHAPE(batch, in), 0, 1));
    random_labels(s, batch, 10);
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, in, hidden, NULL), kiln_nn_relu(),
                                                   kiln_nn_dense(dev, hidden, hidden, NULL), kiln_nn_relu(),
                                                   kiln_nn_dense(dev, hidden, 10, NULL)));
    return make_trainer(s, net, 10, false);
}

kiln_status setup_mlp(struct state *s)
{
    return setup_dense(s, s->z->bm, 784, 512);
}

kiln_status setup_small_net(struct state *s)
{
    return setup_dense(s, 8, 32, 16);
}

// So many parameters, two a layer.
kiln_status setup_deep(struct state *s)
{
    enum { WIDTH = 4 };
    kiln_cell *net = kiln_nn_sequential(0, NULL);
    for (int i = 0; i < 2; i++) random_input(s, i, KILN_SHAPE(2, WIDTH));
    for (int64_t i = 0; i < s->c->sizes[0] / 2; i++) {
        if (kiln_sequential_append(net, kiln_nn_dense(s->dev, WIDTH, WIDTH, NULL))) break;
        if (kiln_sequential_append(net, kiln_nn_tanh())) break;
    }
    return make_trainer(s, net, 0, true);
}

// --- attention

kiln_tensor *causal_mask(kiln_device *dev, int64_t length)
{
    uint8_t *seen = malloc((size_t)(length * length));
    if (!seen) return NULL;
    for (int64_t q = 0; q < length; q++)
        for (int64_t k = 0; k < length; k++) seen[q * length + k] = k <= q;
    kiln_tensor *mask = kiln_from_data(dev, KILN_BOOL, KILN_SHAPE(length, length), seen);
    free(seen);
    return mask;
}

kiln_tensor *attention(kiln_tensor *q, kiln_tensor *k, kiln_tensor *v, kiln_tensor *mask)
{
    double scale = q ? 1 / sqrt((double)kiln_dim(q, -1)) : 1;
    kiln_tensor *h = kiln_mul(q, kiln_scalar(scale));
    kiln_replace(&h, kiln_matmul(h, kiln_transpose(k, -2, -1)));
    if (mask) kiln_replace(&h, kiln_where(mask, h, kiln_scalar(-INFINITY)));
    kiln_replace(&h, kiln_softmax(h, -1));
    kiln_replace(&h, kiln_matmul(h, v));
    return h;
}

// --- the language model

struct block {
    kiln_cell *norm1, *norm2, *qkv, *out, *up, *down;
    kiln_tensor *mask; // the model's; NULL: each place sees all
    int64_t heads;
};

// The first ones of what is there for the longest sequence.
static kiln_tensor *first_of(kiln_tensor *t, int axis, int64_t n)
{
    return t && kiln_dim(t, axis) > n ? kiln_narrow(t, axis, 0, n) : t;
}

// [batch, seq, width] -> [batch, heads, seq, width / heads]
static kiln_tensor *split_heads(kiln_tensor *t, int64_t heads)
{
    if (!t) return NULL;
    const int64_t *d = kiln_dims(t);
    return kiln_transpose(kiln_reshape(t, KILN_SHAPE(d[0], d[1], heads, d[2] / heads)), 1, 2);
}

static kiln_status block_forward(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    struct block *b = user;
    kiln_tensor *x = in[0], *part[3] = {NULL, NULL, NULL};
    const int64_t *d = kiln_dims(x);
    kiln_split(kiln_cell_call(b->qkv, kiln_cell_call(b->norm1, x)), -1, part, 3);
    for (int i = 0; i < 3; i++) part[i] = split_heads(part[i], b->heads);
    kiln_tensor *mask = first_of(first_of(b->mask, 0, d[1]), 1, d[1]);
    kiln_tensor *seen =
        mask ? attention(part[0], part[1], part[2], mask) : kiln_sdpa(part[0], part[1], part[2], NULL, NULL);
    seen = kiln_transpose(seen, 1, 2);
    x = kiln_add(x, kiln_cell_call(b->out, kiln_reshape(seen, KILN_SHAPE(d[0], d[1], d[2]))));
    kiln_tensor *wide = kiln_gelu_tanh(kiln_cell_call(b->up, kiln_cell_call(b->norm2, x)));
    out[0] = kiln_add(x, kiln_cell_call(b->down, wide));
    return kiln_error();
}

static kiln_cell *make_block(kiln_device *dev, int64_t width, int64_t heads, kiln_tensor *mask,
                             const struct block **out)
{
    struct block *b = calloc(1, sizeof *b);
    *out = b;
    if (!b) return NULL;
    *b = (struct block){.mask = mask, .heads = heads};
    kiln_cell *cell = kiln_cell_create(
        KILN_CELL(.kind = "block", .construct = block_forward, .user = b, .user_free = free, .n_in = 1, .n_out = 1));
    if (!cell) return NULL;
    b->norm1 = kiln_cell_add_child(cell, "n1", kiln_nn_layer_norm(dev, KILN_SHAPE(width), NULL));
    b->norm2 = kiln_cell_add_child(cell, "n2", kiln_nn_layer_norm(dev, KILN_SHAPE(width), NULL));
    b->qkv = kiln_cell_add_child(cell, "qkv", kiln_nn_dense(dev, width, 3 * width, NULL));
    b->out = kiln_cell_add_child(cell, "out", kiln_nn_dense(dev, width, width, NULL));
    b->up = kiln_cell_add_child(cell, "up", kiln_nn_dense(dev, width, 4 * width, NULL));
    b->down = kiln_cell_add_child(cell, "down", kiln_nn_dense(dev, 4 * width, width, NULL));
    return cell;
}

struct model {
    kiln_cell *token, *blocks, *norm, *head;
    kiln_tensor *position;
    const struct block *block[MAX_LAYERS];
};

static kiln_status model_forward(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    struct model *m = user;
    int64_t length = kiln_dim(in[0], 1);
    kiln_tensor *x = kiln_add(kiln_cell_call(m->token, in[0]), first_of(m->position, 0, length));
    out[0] = kiln_cell_call(m->head, kiln_cell_call(m->norm, kiln_cell_call(m->blocks, x)));
    return kiln_error();
}

static kiln_cell *make_model(struct state *s, const struct model **out)
{
    const struct sizes *z = s->z;
    kiln_device *dev = s->dev;
    struct model *m = calloc(1, sizeof *m);
    *out = m;
    if (!m) return NULL;
    kiln_cell *cell = kiln_cell_create(
        KILN_CELL(.kind = "model", .construct = model_forward, .user = m, .user_free = free, .n_in = 1, .n_out = 1));
    if (!cell) return NULL;
    kiln_tensor *mask = kiln_cell_add_buffer(cell, "mask", causal_mask(dev, z->seq));
    m->position = kiln_cell_make_parameter(cell, "position", dev, KILN_F32, KILN_SHAPE(z->seq, z->dm), "zeros");
    m->token = kiln_cell_add_child(cell, "token", kiln_nn_embedding(dev, z->vocab, z->dm, NULL));
    m->blocks = kiln_cell_add_child(cell, "blocks", kiln_nn_sequential(0, NULL));
    for (int64_t i = 0; i < z->layers; i++)
        kiln_sequential_append(m->blocks, make_block(dev, z->dm, z->heads, mask, &m->block[i]));
    m->norm = kiln_cell_add_child(cell, "norm", kiln_nn_layer_norm(dev, KILN_SHAPE(z->dm), NULL));
    m->head = kiln_cell_add_child(cell, "head", kiln_nn_dense(dev, z->dm, z->vocab, KILN_NN_DENSE(.no_bias = true)));
    return cell;
}

kiln_status setup_gpt(struct state *s)
{
    const struct sizes *z = s->z;
    const struct model *m;
    own_input(s, 0, kiln_randint(s->dev, KILN_I64, KILN_SHAPE(z->batch, z->seq), 0, z->vocab));
    own_input(s, 1, kiln_randint(s->dev, KILN_I64, KILN_SHAPE(z->batch, z->seq), 0, z->vocab));
    return make_trainer(s, make_model(s, &m), z->vocab, true);
}

// --- an encoder: blocks in which each place sees all; batch, tokens, width, layers

static kiln_cell *make_encoder(struct state *s)
{
    const int64_t *n = case_sizes(s);
    const struct block *b;
    kiln_cell *blocks = kiln_nn_sequential(0, NULL);
    for (int i = 0; i < 2; i++) random_input(s, i, KILN_SHAPE(n[0], n[1], n[2]));
    for (int64_t i = 0; i < n[3]; i++)
        if (kiln_sequential_append(blocks, make_block(s->dev, n[2], n[2] / 32 > 1 ? n[2] / 32 : 2, NULL, &b))) break;
    double tokens = (double)(n[0] * n[1]), width = (double)n[2];
    s->flops = (double)n[3] * tokens * (24 * width * width + 4 * (double)n[1] * width);
    return blocks;
}

kiln_status setup_encoder(struct state *s)
{
    make_trainer(s, make_encoder(s), 0, false);
    kiln_free(&s->in[1]);
    return s->net ? kiln_cell_set_training(s->net->net, false) : kiln_error();
}

kiln_status run_encoder(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_no_grad_begin();
    *out = kiln_cell_call(s->net->net, in[0]);
    kiln_no_grad_end();
    return kiln_error();
}

kiln_status setup_encoder_step(struct state *s)
{
    kiln_status status = make_trainer(s, make_encoder(s), 0, true);
    s->flops *= 3;
    return status;
}

// A step towards values that the network is to give.
kiln_status run_regression_step(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_optim_zero_grad(s->net->opt);
    *out = kiln_loss_mse(kiln_cell_call(s->net->net, in[0]), in[1], KILN_REDUCTION_MEAN);
    kiln_backward(*out, NULL);
    return kiln_optim_step(s->net->opt);
}

// --- the same model token by token: 128 likeliest ones, over a cache of keys and values of so many

static int64_t decoded(const struct sizes *z)
{
    return z->seq < 128 ? z->seq : 128;
}

kiln_status setup_decode(struct state *s)
{
    struct trainer *t = calloc(1, sizeof *t);
    if (!t) return KILN_E_MEMORY;
    s->net = t;
    own_input(s, 0, kiln_full_int(s->dev, KILN_I64, KILN_SHAPE(1), 1));
    t->net = make_model(s, &t->model);
    kiln_cell_set_training(t->net, false);
    return kiln_error();
}

// in: a token, keys and values of each layer, the place. Gives the next ones, and the token once more.
static kiln_status decode_token(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct state *s = user;
    const struct model *m = s->net->model;
    int64_t width = s->z->dm, heads = s->z->heads, each = width / heads;
    kiln_tensor *at = in[n_in - 1], *part[3] = {NULL, NULL, NULL};
    kiln_tensor *x = kiln_add(kiln_cell_call(m->token, in[0]), kiln_slice_at(m->position, 0, at, 1));
    for (int64_t i = 0; i < s->z->layers; i++) {
        const struct block *b = m->block[i];
        kiln_tensor **cache = &out[1 + 2 * i];
        if (kiln_split(kiln_cell_call(b->qkv, kiln_cell_call(b->norm1, x)), -1, part, 3)) return kiln_error();
        for (int k = 0; k < 3; k++) part[k] = kiln_reshape(part[k], KILN_SHAPE(heads, 1, each));
        for (int k = 0; k < 2; k++) cache[k] = kiln_update_at(in[1 + 2 * i + k], 1, at, part[1 + k]);
        kiln_tensor *mask = kiln_narrow(kiln_slice_at(b->mask, 0, at, 1), 1, 0, decoded(s->z));
        kiln_tensor *seen = attention(part[0], cache[0], cache[1], mask);
        x = kiln_add(x, kiln_cell_call(b->out, kiln_reshape(seen, KILN_SHAPE(1, width))));
        kiln_tensor *wide = kiln_gelu_tanh(kiln_cell_call(b->up, kiln_cell_call(b->norm2, x)));
        x = kiln_add(x, kiln_cell_call(b->down, wide));
    }
    kiln_tensor *logits = kiln_cell_call(m->head, kiln_cell_call(m->norm, x));
    out[0] = out[n_out - 1] = kiln_argmax(logits, KILN_REDUCE(.axes = KILN_AXES(-1)));
    return kiln_error();
}

kiln_status run_decode(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    const struct sizes *z = s->z;
    kiln_tensor *all[2 + 2 * MAX_LAYERS], *made[2 + 2 * MAX_LAYERS];
    size_t n = 1 + 2 * (size_t)z->layers;
    kiln_no_grad_begin();
    all[0] = in[0];
    kiln_tensor *none = kiln_zeros(s->dev, KILN_F32, KILN_SHAPE(z->heads, decoded(z), z->dm / z->heads));
    for (size_t i = 1; i < n; i++) all[i] = none;
    all[n] = kiln_arange(s->dev, KILN_I64, 0, (double)decoded(z), 1);
    if (!kiln_scan(decode_token, s, all, n + 1, KILN_SCAN(.carried = n), made, n + 1)) *out = made[n];
    kiln_no_grad_end();
    return kiln_error();
}
