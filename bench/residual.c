// A step of training of a residual network (He et al. 2015): three blocks, of which the last two halve the image, with
// norms over the batch; and a step of an optimiser over many tensors by itself.
#include "bench.h"

#include <stdlib.h>

enum { BLOCKS = 3, CLASSES = 10, TENSORS = 100 };

struct block_parts {
    kiln_cell *conv[2], *norm[2], *skip; // skip is NULL where the shape stays
};

struct parts {
    kiln_cell *stem, *norm, *head;
    struct block_parts block[BLOCKS];
};

static kiln_cell *conv(kiln_cell *cell, const char *name, kiln_device *dev, int64_t in, int64_t out, int64_t kernel,
                       int64_t stride)
{
    int64_t padding = kernel / 2;
    return kiln_cell_add_child(
        cell, name,
        kiln_nn_conv2d(dev, in, out, kernel,
                       KILN_NN_CONV2D(.stride = {stride, stride}, .padding = {padding, padding})));
}

static kiln_tensor *block_of(const struct block_parts *b, kiln_tensor *x)
{
    kiln_tensor *y = kiln_relu(kiln_cell_call(b->norm[0], kiln_cell_call(b->conv[0], x)));
    y = kiln_cell_call(b->norm[1], kiln_cell_call(b->conv[1], y));
    return kiln_relu(kiln_add(y, b->skip ? kiln_cell_call(b->skip, x) : x));
}

static kiln_status forward(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                           size_t n_out)
{
    const struct parts *p = user;
    kiln_tensor *x = kiln_relu(kiln_cell_call(p->norm, kiln_cell_call(p->stem, in[0])));
    (void)cell, (void)n_in, (void)n_out;
    for (int i = 0; i < BLOCKS; i++) x = block_of(&p->block[i], x);
    out[0] = kiln_cell_call(p->head, kiln_mean(x, KILN_REDUCE(.axes = KILN_AXES(2, 3))));
    return kiln_error();
}

static void add_block(kiln_cell *cell, struct block_parts *b, kiln_device *dev, int number, int64_t in, int64_t out)
{
    int64_t stride = in == out ? 1 : 2;
    char name[] = "block0_conv0";
    name[5] = (char)('0' + number);
    for (int k = 0; k < 2; k++) {
        name[11] = (char)('0' + k);
        b->conv[k] = conv(cell, name, dev, k ? out : in, out, 3, k ? 1 : stride);
        char norm[] = "block0_norm0";
        norm[5] = name[5];
        norm[11] = name[11];
        b->norm[k] = kiln_cell_add_child(cell, norm, kiln_nn_batch_norm2d(dev, out, NULL));
    }
    name[11] = 's';
    if (stride > 1) b->skip = conv(cell, name, dev, in, out, 1, stride);
}

kiln_status setup_resnet(struct state *s)
{
    const int64_t *n = case_sizes(s), width = n[2]; // images, their side, channels of the first block
    own_input(s, 0, kiln_normal(s->dev, KILN_F32, KILN_SHAPE(n[0], 3, n[1], n[1]), 0, 1));
    random_labels(s, n[0], CLASSES);
    struct parts *p = calloc(1, sizeof *p);
    if (!p) return KILN_E_MEMORY;
    kiln_cell *cell = kiln_cell_create(
        KILN_CELL(.kind = "resnet", .construct = forward, .user = p, .user_free = free, .n_in = 1, .n_out = 1));
    if (!cell) return kiln_error();
    p->stem = conv(cell, "stem", s->dev, 3, width, 3, 1);
    p->norm = kiln_cell_add_child(cell, "norm", kiln_nn_batch_norm2d(s->dev, width, NULL));
    for (int i = 0; i < BLOCKS; i++) add_block(cell, &p->block[i], s->dev, i, i ? width << (i - 1) : width, width << i);
    p->head = kiln_cell_add_child(cell, "head", kiln_nn_dense(s->dev, width << (BLOCKS - 1), CLASSES, NULL));
    return make_trainer(s, cell, CLASSES, false);
}

// --- the optimiser: Adam over 100 tensors, with gradients that stay

static kiln_status nothing(kiln_cell *cell, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                           size_t n_out)
{
    (void)cell, (void)user, (void)n_in, (void)n_out;
    out[0] = in[0];
    return kiln_error();
}

kiln_status setup_adam(struct state *s)
{
    const int64_t *n = case_sizes(s); // rows, columns of each
    kiln_cell *cell = kiln_cell_create(KILN_CELL(.kind = "tensors", .construct = nothing, .n_in = 1, .n_out = 1));
    own_input(s, 0, kiln_normal(s->dev, KILN_F32, KILN_SHAPE(TENSORS, n[0], n[1]), 0, 1));
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        kiln_cell_make_parameter(cell, name, s->dev, KILN_F32, KILN_SHAPE(n[0], n[1]), "zeros");
    }
    s->bytes = 4.0 * 7 * TENSORS * (double)(n[0] * n[1]);
    return make_trainer(s, cell, 0, true);
}

// Gives the sum of the last tensor.
kiln_status run_adam(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *params[TENSORS];
    kiln_cell_parameters(s->net->net, params, TENSORS);
    for (int i = 0; i < TENSORS; i++) kiln_set_gradient(params[i], kiln_select(in[0], 0, i));
    if (kiln_optim_step(s->net->opt)) return kiln_error();
    *out = kiln_sum(params[TENSORS - 1], NULL);
    return kiln_error();
}
