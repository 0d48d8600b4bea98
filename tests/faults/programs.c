// Programs of single ops: each is short, asks for errors at its end only, and computes numbers that do not depend on
// the order of sums.
#include "faults.h"

static kiln_tensor *numbers(kiln_device *dev, size_t rank, const int64_t *dims, int step)
{
    float v[64];
    for (int i = 0; i < 64; i++) v[i] = (float)(i * step % 7) / 4 - 1;
    return kiln_from_data(dev, KILN_F32, rank, dims, v);
}

void outcome_add(struct outcome *o, const kiln_tensor *t)
{
    int64_t n = t ? kiln_numel(t) : 0;
    if (!t || o->n + n > OUT_MAX) return;
    if (!kiln_read(t, o->out + o->n, (size_t)n * sizeof *o->out)) o->n += (int)n;
}

static void run_open(const char *device, struct outcome *o)
{
    kiln_device *dev = kiln_device_open(device);
    kiln_tensor *x = numbers(dev, KILN_SHAPE(4, 4), 3);
    outcome_add(o, x);
    kiln_free(&x);
    kiln_device_close(&dev);
}

static void run_ops(const char *device, struct outcome *o)
{
    kiln_device *dev = kiln_device_open(device);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = numbers(dev, KILN_SHAPE(4, 8), 3), *w = numbers(dev, KILN_SHAPE(8, 4), 5);
    kiln_tensor *index = kiln_from_data(dev, KILN_I64, 1, (int64_t[]){2}, (int64_t[]){3, 1});
    kiln_tensor *y = kiln_softmax(kiln_matmul(x, w), 1), *values, *indices;
    outcome_add(o, y);
    outcome_add(o, kiln_sum(kiln_add(kiln_mul(x, x), kiln_scalar(2)), NULL));
    kiln_tensor *both[] = {x, kiln_transpose(w, 0, 1)};
    outcome_add(o, kiln_take(kiln_concat(both, 2, 0), 0, index));
    outcome_add(o, kiln_cast(kiln_cast(x, KILN_F16), KILN_F32));
    if (!kiln_sort(x, 1, true, &values, &indices)) outcome_add(o, values);
    kiln_tensor *image = kiln_reshape(x, KILN_SHAPE(1, 2, 4, 4)), *filter = numbers(dev, KILN_SHAPE(1, 2, 3, 3), 2);
    outcome_add(o, kiln_conv2d(image, filter, NULL));
    kiln_add_(y, kiln_scalar(1));
    outcome_add(o, y);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

static kiln_tensor *loss_of(kiln_tensor *x, kiln_tensor *w)
{
    return kiln_sum(kiln_square(kiln_mul(kiln_softmax(kiln_matmul(x, w), 1), kiln_narrow(x, 1, 0, 4))), NULL);
}

static void run_backward(const char *device, struct outcome *o)
{
    kiln_device *dev = kiln_device_open(device);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = numbers(dev, KILN_SHAPE(4, 8), 3);
    kiln_tensor *w = kiln_parameter(numbers(dev, KILN_SHAPE(8, 4), 5), "w");
    kiln_optim *opt = kiln_optim_adam(&w, 1, NULL);
    for (int i = 0; i < 2; i++) {
        kiln_backward(loss_of(x, w), NULL);
        outcome_add(o, kiln_gradient(w));
        kiln_optim_step(opt);
        kiln_optim_zero_grad(opt);
    }
    outcome_add(o, w);
    kiln_optim_free(&opt);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

static void run_cells(const char *device, struct outcome *o)
{
    kiln_device *dev = kiln_device_open(device);
    kiln_scope *scope = kiln_scope_begin();
    kiln_seed(dev, 3);
    kiln_tensor *x = numbers(dev, KILN_SHAPE(4, 8), 3);
    kiln_tensor *labels = kiln_from_data(dev, KILN_I64, 1, (int64_t[]){4}, (int64_t[]){0, 1, 1, 0});
    kiln_cell *net =
        kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, 8, 3, NULL), kiln_nn_relu(), kiln_nn_dense(dev, 3, 2, NULL)));
    kiln_tensor *params[4] = {NULL}, *loss = kiln_cross_entropy(kiln_cell_call(net, x), labels, NULL);
    kiln_backward(loss, NULL);
    outcome_add(o, loss);
    if (kiln_cell_parameters(net, params, 4) == 4) outcome_add(o, kiln_gradient(params[0]));
    kiln_cell_free(&net);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

static void run_loader(const char *device, struct outcome *o)
{
    kiln_device *dev = kiln_device_open(device);
    kiln_tensor *set = numbers(dev, KILN_SHAPE(16, 4), 3);
    kiln_loader *loader = kiln_loader_create(dev, &set, 1, KILN_LOADER(.batch = 4, .shuffle = true, .seed = 1));
    for (bool more = true; more;) {
        kiln_tensor *batch = NULL;
        if (kiln_loader_next(loader, &batch, 1, &more)) break;
        if (more) outcome_add(o, batch);
        kiln_free(&batch);
    }
    kiln_loader_free(&loader);
    kiln_free(&set);
    kiln_device_close(&dev);
}

const struct program base_programs[] = {
    {"open", run_open},   {"ops", run_ops},       {"backward", run_backward},
    {"cells", run_cells}, {"loader", run_loader}, {NULL},
};
