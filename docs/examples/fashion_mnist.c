// Trains a small convolutional network on Fashion-MNIST, tests it, and compares a Vulkan device with the CPU step by
// step.
//
//     fashion_mnist --epochs 2 --batch-norm --modes jit --folder run --curve curve.svg
//
// The images are those of Zalando (Xiao, Rasul, Vollgraf 2017; Debian package dataset-fashion-mnist), the network has
// the shape of LeNet-5 (LeCun et al. 1998). The program prints the loss and the accuracy of each epoch, writes the
// learning curve, and in a folder keeps logs and checkpoints, from which a later run goes on. It trains twice from the
// same beginning: op by op, and with the whole step (forward, loss, backward, update) captured as one graph. Then it
// trains on the first Vulkan device there is (software ones included) and on the CPU: the losses must agree step by
// step.
//
// With --export the classifier goes into a file, for any number of images, and the test images into an npy file:
//
//     fashion_mnist --export classifier.kiln --sample images.npy
//     kiln-run classifier.kiln --input images=images.npy --output classes=classes.npy
#include "options.h"

#include <kiln/kiln.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct options {
    const char *device, *data, *folder, *curve, *export, *sample;
    int64_t epochs, limit, batch, compare, seed;
    double lr;
    bool batch_norm, eager, jit;
};

static const char usage[] =
    "usage: fashion_mnist [options]\n"
    "  --device D      cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n"
    "  --epochs N      passes over the training images (2)\n"
    "  --limit N       only the first N training images, and N test images; 0: all (0)\n"
    "  --batch N       images a step (64)\n"
    "  --lr R          highest learning rate (0.05)\n"
    "  --batch-norm    normalise after each convolution\n"
    "  --seed N        of the weights and of the order of the images (1)\n"
    "  --data DIR      folder of the four .gz files (/usr/share/datasets/fashion-mnist)\n"
    "  --folder DIR    logs, curves and checkpoints; a run that finds them there goes on\n"
    "  --curve F       learning curve, SVG (fashion_mnist.svg)\n"
    "  --export F      write the trained classifier as a file of graphs\n"
    "  --sample F      write the test images as npy, for kiln-run\n"
    "  --modes LIST    eager, jit, or both with a comma between them; a run with a folder has one (eager,jit)\n"
    "  --compare N     steps of the comparison of devices; 0: none (100)\n";

static void parse_modes(struct options *o, const char *list)
{
    o->eager = !strncmp(list, "eager", 5);
    const char *rest = list + (o->eager ? 5 : 0);
    o->jit = !strcmp(o->eager && *rest == ',' ? rest + 1 : rest, "jit");
    if (*rest && !o->jit) o->eager = false; // no such mode
}

static bool parse_options(int argc, char **argv, struct options *o)
{
    const char *modes = "eager,jit";
    bool read = READ_OPTIONS(argc, argv, {"device", .text = &o->device}, {"epochs", .whole = &o->epochs},
                             {"limit", .whole = &o->limit}, {"batch", .whole = &o->batch, .least = 1},
                             {"lr", .real = &o->lr, .positive = true}, {"batch-norm", .flag = &o->batch_norm},
                             {"seed", .whole = &o->seed}, {"data", .text = &o->data}, {"folder", .text = &o->folder},
                             {"curve", .text = &o->curve}, {"compare", .whole = &o->compare}, {"modes", .text = &modes},
                             {"export", .text = &o->export}, {"sample", .text = &o->sample});
    parse_modes(o, modes);
    bool good = read && no_arguments(argc, argv) &&
                option_fits(o->eager || o->jit, "--modes takes eager, jit, or both with a comma between them");
    if (!good) fputs(usage, stderr);
    return good;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// --- images and labels, on the host

struct data {
    uint8_t *images, *labels; // n x 28 x 28, n
    int64_t n;
};

static uint8_t *load_bytes(kiln_device *dev, const char *dir, const char *name, int64_t limit, int64_t *n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = kiln_idx_load(dev, path);
    if (t && limit > 0 && limit < kiln_dim(t, 0)) t = kiln_contiguous(kiln_narrow(t, 0, 0, limit));
    size_t size_B = t ? (size_t)kiln_numel(t) : 0;
    uint8_t *bytes = size_B ? malloc(size_B) : NULL;
    if (bytes) {
        *n = kiln_dim(t, 0);
        kiln_read(t, bytes, size_B);
    }
    kiln_scope_end(&scope);
    return bytes;
}

static struct data load(kiln_device *dev, const char *dir, const char *part, int64_t limit)
{
    struct data d = {0};
    char name[64];
    int64_t n_labels = 0;
    snprintf(name, sizeof name, "%s-images-idx3-ubyte.gz", part);
    d.images = load_bytes(dev, dir, name, limit, &d.n);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte.gz", part);
    d.labels = load_bytes(dev, dir, name, limit, &n_labels);
    if (n_labels != d.n) d.n = 0;
    return d;
}

// Images [first, first + count) as f32 in [0, 1], and their labels.
static void batch_of(kiln_device *dev, const struct data *d, int64_t first, int64_t count, kiln_tensor **x,
                     kiln_tensor **y)
{
    kiln_tensor *bytes = kiln_from_data(dev, KILN_U8, KILN_SHAPE(count, 1, 28, 28), d->images + first * 784);
    *x = kiln_div(kiln_cast(bytes, KILN_F32), kiln_scalar(255));
    *y = kiln_cast(kiln_from_data(dev, KILN_U8, KILN_SHAPE(count), d->labels + first), KILN_I64);
}

// --- the network

static kiln_cell *make_net(kiln_device *dev, bool batch_norm)
{
    kiln_cell *net = kiln_nn_sequential(0, NULL);
    kiln_sequential_append(net, kiln_nn_conv2d(dev, 1, 6, 5, KILN_NN_CONV2D(.bias = !batch_norm, .pad_mode = "same")));
    if (batch_norm) kiln_sequential_append(net, kiln_nn_batch_norm2d(dev, 6, NULL));
    kiln_sequential_append(net, kiln_nn_relu());
    kiln_sequential_append(net, kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})));
    kiln_sequential_append(net, kiln_nn_conv2d(dev, 6, 16, 5, KILN_NN_CONV2D(.bias = !batch_norm)));
    if (batch_norm) kiln_sequential_append(net, kiln_nn_batch_norm2d(dev, 16, NULL));
    kiln_sequential_append(net, kiln_nn_relu());
    kiln_sequential_append(net, kiln_nn_max_pool2d(KILN_POOL2D(.kernel = {2, 2})));
    kiln_sequential_append(net, kiln_nn_flatten());
    kiln_sequential_append(net, kiln_nn_dense(dev, 400, 120, NULL));
    kiln_sequential_append(net, kiln_nn_relu());
    kiln_sequential_append(net, kiln_nn_dense(dev, 120, 84, NULL));
    kiln_sequential_append(net, kiln_nn_relu());
    kiln_sequential_append(net, kiln_nn_dense(dev, 84, 10, KILN_NN_DENSE(.weight_init = "xavier_uniform")));
    return net;
}

#define MAX_STATE 64

struct run {
    const struct options *o;
    kiln_device *dev;
    kiln_cell *net;
    kiln_optim *opt;
    kiln_loader *loader;
    kiln_function *step; // captured; NULL: op by op
    kiln_training *training;
    double step_s; // of the last epoch
};

static kiln_optim *make_optim(kiln_cell *net, double lr)
{
    kiln_tensor *params[MAX_STATE];
    size_t n = kiln_cell_parameters(net, params, MAX_STATE);
    return kiln_optim_sgd(params, n, KILN_SGD(.lr = lr, .momentum = 0.9, .weight_decay = 5e-4));
}

// One step: forward, backward, update. Returns the loss, not yet read.
static kiln_tensor *train_step(kiln_cell *net, kiln_optim *opt, kiln_tensor *x, kiln_tensor *y)
{
    kiln_tensor *loss = kiln_cross_entropy(kiln_cell_call(net, x), y, NULL);
    kiln_backward(loss, NULL);
    kiln_optim_step(opt);
    return loss;
}

// in: images, labels; out: the loss.
static kiln_status captured_step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct run *r = user;
    out[0] = train_step(r->net, r->opt, in[0], in[1]);
    return kiln_error();
}

static kiln_tensor *one_step(struct run *r, kiln_tensor *const *batch)
{
    kiln_tensor *loss = NULL;
    if (!r->step) return train_step(r->net, r->opt, batch[0], batch[1]);
    kiln_call(r->step, batch, 2, &loss, 1);
    return loss;
}

static double test_accuracy(struct run *r, const struct data *d)
{
    kiln_metric *m = kiln_metric_create(KILN_METRIC(.classes = 10));
    kiln_cell_set_training(r->net, false);
    kiln_no_grad_begin();
    for (int64_t at = 0, count; at < d->n && !kiln_error(); at += count) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x, *y;
        count = d->n - at < 500 ? d->n - at : 500;
        batch_of(r->dev, d, at, count, &x, &y);
        kiln_metric_update(m, kiln_cell_call(r->net, x), y);
        kiln_scope_end(&scope);
    }
    kiln_no_grad_end();
    kiln_cell_set_training(r->net, true);
    double accuracy = kiln_metric_value(m, "accuracy");
    kiln_metric_free(&m);
    return accuracy;
}

// --- the trained classifier as a file

// in: images; out: the class of each, and the probabilities of all classes.
static kiln_status classify(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[1] = kiln_softmax(kiln_cell_call(user, in[0]), 1);
    out[0] = kiln_argmax(out[1], KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

static void export_classifier(struct run *r)
{
    const char *names[MAX_STATE], *inputs[] = {"images"}, *outputs[] = {"classes", "probabilities"};
    kiln_tensor *tensors[MAX_STATE], *x = kiln_zeros(r->dev, KILN_F32, KILN_SHAPE(4, 1, 28, 28));
    size_t n = kiln_cell_state(r->net, names, tensors, MAX_STATE);
    int64_t count = kiln_symbol("count", KILN_SYMBOL(.unique = true));
    kiln_function *f =
        kiln_jit(classify, r->net, KILN_JIT(.input_types = KILN_TYPES(KILN_TYPE(KILN_F32, count, 1, 28, 28))));
    kiln_model *m = kiln_model_create();
    kiln_cell_set_training(r->net, false);
    kiln_no_grad_begin();
    kiln_model_name_weights(m, n, names, tensors);
    kiln_model_add(m, "classify", f, &x, 1, 2, KILN_MODEL_ADD(.inputs = inputs, .outputs = outputs));
    kiln_no_grad_end();
    kiln_model_save(m, r->o->export);
    kiln_model_free(&m);
    kiln_function_free(&f);
    if (!kiln_error()) printf("exported: %s\n", r->o->export);
}

static void write_sample(struct run *r, const struct data *d)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x, *y;
    batch_of(r->dev, d, 0, d->n, &x, &y);
    kiln_npy_save(r->o->sample, x);
    kiln_scope_end(&scope);
}

// --- training

// One pass over the images, or what is left of it.
static void train_epoch(struct run *r)
{
    int64_t first = kiln_training_steps(r->training), steps = 0, untimed = kiln_loader_batches(r->loader) > 10 ? 3 : 0;
    double timed_s = now_s();
    for (bool more = true; more && kiln_training_goes_on(r->training);) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *batch[2];
        kiln_loader_next(r->loader, batch, 2, &more);
        if (more && !kiln_error()) {
            kiln_training_log(r->training, "lr", kiln_optim_lr(r->opt));
            kiln_training_log_tensor(r->training, "train/loss", one_step(r, batch));
            kiln_training_step(r->training);
        }
        kiln_scope_end(&scope);
        steps = kiln_training_steps(r->training) - first;
        if (more && steps == untimed) { // what is made once is made
            kiln_device_synchronize(r->dev);
            timed_s = now_s();
        }
    }
    kiln_device_synchronize(r->dev);
    r->step_s = (now_s() - timed_s) / (double)(steps > untimed ? steps - untimed : 1);
}

static kiln_training *make_training(struct run *r, bool captured)
{
    kiln_training *t = kiln_training_create(
        r->o->folder, KILN_TRAINING(.title = captured ? "captured" : "eager", .epochs = r->o->epochs, .resume = true,
                                    .log_every = 20, .print_every = 200, .output = stdout));
    kiln_training_keep_cell(t, "net", r->net);
    kiln_training_keep_optim(t, "optim", r->opt);
    kiln_training_keep_loader(t, "images", r->loader);
    return t;
}

static double train(struct run *r, bool captured, const struct data *images, const struct data *tests)
{
    const struct options *o = r->o;
    kiln_seed(r->dev, (uint64_t)o->seed);
    r->net = make_net(r->dev, o->batch_norm);
    r->opt = make_optim(r->net, o->lr);
    r->loader =
        kiln_loader_create(r->dev, NULL, 0, KILN_LOADER(.batch = o->batch, .shuffle = true, .seed = (uint64_t)o->seed));
    kiln_loader_add_host(r->loader, KILN_U8, KILN_SHAPE(images->n, 1, 28, 28), images->images);
    kiln_loader_add_host(r->loader, KILN_U8, KILN_SHAPE(images->n), images->labels);
    kiln_loader_convert(r->loader, 0, KILN_F32, KILN_CONVERT(.scale = 1.0 / 255));
    kiln_loader_convert(r->loader, 1, KILN_I64, NULL);
    int64_t steps = o->epochs * kiln_loader_batches(r->loader);
    if (steps > 0) kiln_optim_set_schedule(r->opt, kiln_schedule_cosine(o->lr, o->lr / 100, steps));
    kiln_cell_set_training(r->net, true);
    if (captured) r->step = kiln_jit(captured_step, r, NULL);
    r->training = make_training(r, captured);
    double accuracy = NAN;
    while (kiln_training_epoch(r->training)) {
        train_epoch(r);
        accuracy = test_accuracy(r, tests);
        kiln_training_log(r->training, "test/accuracy", accuracy);
    }
    if (isnan(accuracy)) accuracy = test_accuracy(r, tests); // of no epoch, or of a run that was at its end
    if (o->curve && !kiln_error() && kiln_training_steps(r->training) > 0) {
        kiln_training_save_curves(r->training, o->curve,
                                  KILN_CURVES(.names = KILN_NAMES("train/loss", "test/accuracy"),
                                              .title = "A small convolutional network on Fashion-MNIST",
                                              .height = 160));
        if (!kiln_error()) printf("learning curve: %s\n", o->curve);
    }
    if (o->export) export_classifier(r);
    if (o->sample) write_sample(r, tests);
    return accuracy;
}

static void end_run(struct run *r)
{
    kiln_training_free(&r->training);
    kiln_function_free(&r->step);
    kiln_loader_free(&r->loader);
    kiln_optim_free(&r->opt);
    kiln_cell_free(&r->net);
}

// Trains in one mode; the curve is that of the last one.
static double train_in_mode(const struct options *o, kiln_device *dev, bool captured, const struct data *images,
                            const struct data *tests, double *step_s)
{
    struct run *r = &(struct run){.o = o, .dev = dev};
    printf("training %s\n", captured ? "captured, a step as one graph" : "eagerly, op by op");
    kiln_scope *scope = kiln_scope_begin();
    double accuracy = train(r, captured, images, tests);
    kiln_scope_end(&scope);
    *step_s = r->step_s;
    end_run(r);
    return accuracy;
}

// 0, or 1 where both modes ran and ended apart: rounding differs from one to the other, and training amplifies it.
static int train_all(const struct options *o, kiln_device *dev, const struct data *images, const struct data *tests)
{
    double accuracy[2] = {0, 0}, step_s[2] = {0, 0};
    bool both = o->eager && o->jit && !o->folder;
    if (o->eager && (both || !o->jit)) accuracy[0] = train_in_mode(o, dev, false, images, tests, &step_s[0]);
    if (o->jit && !kiln_error()) accuracy[1] = train_in_mode(o, dev, true, images, tests, &step_s[1]);
    if (kiln_error()) return 1;
    if (both)
        printf("a step: %.2f ms eager, %.2f ms captured; test accuracy %.4f and %.4f\n", 1e3 * step_s[0],
               1e3 * step_s[1], accuracy[0], accuracy[1]);
    printf("test accuracy: %.4f\n", accuracy[o->jit]);
    return both && !(fabs(accuracy[0] - accuracy[1]) <= 0.05 + 1 / sqrt((double)tests->n));
}

// --- one device against another

static void copy_state(kiln_cell *to, kiln_cell *from)
{
    const char *names[MAX_STATE];
    kiln_tensor *dst[MAX_STATE], *src[MAX_STATE];
    size_t n = kiln_cell_state(from, names, src, MAX_STATE);
    kiln_cell_state(to, NULL, dst, MAX_STATE);
    kiln_scope *scope = kiln_scope_begin();
    kiln_no_grad_begin();
    for (size_t i = 0; i < n && !kiln_error(); i++)
        kiln_assign(dst[i], kiln_to_device(src[i], kiln_tensor_device(dst[i])));
    kiln_no_grad_end();
    kiln_scope_end(&scope);
}

// Trains the same network on the same batches on both; true when the losses agree within 1e-3 at every step.
static bool compare(const struct options *o, kiln_device *gpu, kiln_device *cpu, int64_t batch, const struct data *d)
{
    kiln_device *devices[2] = {gpu, cpu};
    kiln_cell *nets[2];
    kiln_optim *opts[2];
    int64_t worst_step = 0, steps = 0;
    bool terminal = isatty(STDERR_FILENO);
    if (batch > d->n) batch = d->n;
    double worst = 0, first = 0, last = 0;
    kiln_seed(cpu, (uint64_t)o->seed);
    for (int i = 1; i >= 0; i--) {
        nets[i] = make_net(devices[i], o->batch_norm);
        if (i == 0) copy_state(nets[0], nets[1]);
        opts[i] = make_optim(nets[i], 0.01);
        kiln_cell_set_training(nets[i], true);
    }
    for (; steps < o->compare && !kiln_error(); steps++) {
        double loss[2] = {0, 0};
        int64_t at = steps * batch % (d->n - batch + 1);
        for (int i = 0; i < 2; i++) {
            kiln_scope *scope = kiln_scope_begin();
            kiln_tensor *x, *y;
            batch_of(devices[i], d, at, batch, &x, &y);
            loss[i] = kiln_item(train_step(nets[i], opts[i], x, y));
            kiln_scope_end(&scope);
        }
        double difference = fabs(loss[0] - loss[1]);
        if (!(difference <= worst)) {
            worst = difference;
            worst_step = steps;
        }
        if (steps == 0) first = loss[1];
        last = loss[1];
        if (terminal && (steps + 1) % 10 == 0) fprintf(stderr, "\rcompared %" PRId64 " steps ", steps + 1);
    }
    if (terminal) fputc('\n', stderr);
    for (int i = 0; i < 2; i++) {
        kiln_optim_free(&opts[i]);
        kiln_cell_free(&nets[i]);
    }
    if (kiln_error()) return false;
    bool equal = worst <= 1e-3;
    printf("devices compared: %" PRId64 " steps, loss %.4f to %.4f, largest difference %.3g at step %" PRId64 ": %s\n",
           steps, first, last, worst, worst_step, equal ? "equal" : "DIFFERENT");
    return equal;
}

// 0: equal or nothing to compare, 1: different or failed.
static int compare_devices(const struct options *o, const struct data *d)
{
    kiln_device *gpu = kiln_device_open("vulkan");
    // No driver, or a library built without Vulkan.
    if (!gpu && (kiln_error() == KILN_E_MISSING || kiln_error() == KILN_E_ARGUMENT)) {
        printf("devices not compared: %s\n", kiln_error_message());
        kiln_error_clear();
        return 0;
    }
    kiln_device *cpu = kiln_device_open("cpu");
    kiln_device_info info = {.size = sizeof info};
    if (gpu && kiln_device_get_info(gpu, &info) == KILN_OK) printf("comparing %s with the CPU\n", info.name);
    bool equal = cpu && compare(o, gpu, cpu, info.software ? 8 : 32, d);
    kiln_device_close(&gpu);
    kiln_device_close(&cpu);
    return !equal;
}

int main(int argc, char **argv)
{
    struct options o = {.data = "/usr/share/datasets/fashion-mnist",
                        .curve = "fashion_mnist.svg",
                        .epochs = 2,
                        .batch = 64,
                        .compare = 100,
                        .seed = 1,
                        .lr = 0.05,
                        .eager = true,
                        .jit = true};
    if (!parse_options(argc, argv, &o)) return 2;
    kiln_device *dev = kiln_device_open(o.device);
    struct data images = {0}, tests = {0};
    int failures = !dev;
    if (!failures) {
        kiln_device_info info = {.size = sizeof info};
        kiln_device_get_info(dev, &info);
        images = load(dev, o.data, "train", o.limit);
        tests = load(dev, o.data, "t10k", o.limit);
        printf("device: %s (%s)\n", info.name, info.kind);
        printf("images: %" PRId64 " to learn from, %" PRId64 " to test with\n", images.n, tests.n);
        failures = images.n == 0 || tests.n == 0;
    }
    if (!failures) {
        failures += train_all(&o, dev, &images, &tests);
        if (!kiln_error() && o.compare > 0) failures += compare_devices(&o, &images);
    }
    bool no_data = !kiln_error() ? false : kiln_error() == KILN_E_MISSING;
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    failures += kiln_error() != KILN_OK;
    kiln_error_clear();
    kiln_device_close(&dev);
    free(images.images);
    free(images.labels);
    free(tests.images);
    free(tests.labels);
    return no_data ? 77 : failures != 0;
}
