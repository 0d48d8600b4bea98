// A small residual network on Fashion-MNIST: threads move and mirror the images while the device trains, a training
// step is one graph, and the learning rate rises and falls once.
//
//     resnet --epochs 10 --batch 128
//
// The images are those of Zalando (Xiao, Rasul, Vollgraf 2017; Debian package dataset-fashion-mnist). The network has
// three stages, each with twice the channels and half the height and width of the one before, made of blocks x + f(x)
// in which normalisation and activation stand before the convolutions (He et al. 2016, Identity mappings in deep
// residual networks). The mean over all places of the last stage goes into a dense layer. The program prints the loss
// and the accuracy of each epoch, and fails where the last loss is not below the one before.
#include "options.h"

#include <kiln/kiln.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    const char *device, *data, *folder;
    int64_t epochs, limit, batch, width, blocks, workers, seed;
    double lr;
};

static const char usage[] = "usage: resnet [options]\n"
                            "  --device D   cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n"
                            "  --data DIR   folder of the four .gz files (/usr/share/datasets/fashion-mnist)\n"
                            "  --epochs N   passes over the training images (5)\n"
                            "  --limit N    only the first N training images, and N test images; 0: all (0)\n"
                            "  --batch N    images a step (128)\n"
                            "  --lr R       highest learning rate (0.1)\n"
                            "  --width N    channels of the first stage (16)\n"
                            "  --blocks N   blocks of a stage (2)\n"
                            "  --workers N  threads that prepare images (2)\n"
                            "  --folder DIR logs, curves and checkpoints; a run that finds them there goes on\n"
                            "  --seed N     of the weights, and of the order and the changes of the images (1)\n";

static bool parse_options(int argc, char **argv, struct options *o)
{
    bool read =
        READ_OPTIONS(argc, argv, {"device", .text = &o->device}, {"data", .text = &o->data},
                     {"epochs", .whole = &o->epochs, .least = 1}, {"limit", .whole = &o->limit},
                     {"batch", .whole = &o->batch, .least = 1}, {"lr", .real = &o->lr, .positive = true},
                     {"width", .whole = &o->width, .least = 1}, {"blocks", .whole = &o->blocks},
                     {"workers", .whole = &o->workers}, {"folder", .text = &o->folder}, {"seed", .whole = &o->seed});
    bool good = read && no_arguments(argc, argv);
    if (!good) fputs(usage, stderr);
    return good;
}

// --- images

static kiln_tensor *load(kiln_device *dev, const struct options *o, const char *part, const char *what)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s-%s-ubyte.gz", o->data, part, what);
    kiln_tensor *t = kiln_idx_load(dev, path);
    return t && o->limit > 0 && o->limit < kiln_dim(t, 0) ? kiln_narrow(t, 0, 0, o->limit) : t;
}

// Batches of images and labels. Those to learn from are shuffled, and moved and mirrored anew, in each epoch.
static kiln_loader *open_set(kiln_device *dev, const struct options *o, const char *part, bool train)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *images = load(dev, o, part, "images-idx3"), *labels = load(dev, o, part, "labels-idx1");
    kiln_tensor *set[] = {kiln_reshape(images, KILN_SHAPE(-1, 1, 28, 28)), labels};
    kiln_loader *loader = kiln_loader_create(dev, set, 2,
                                             KILN_LOADER(.batch = o->batch, .shuffle = train, .drop_last = train,
                                                         .seed = (uint64_t)o->seed, .workers = o->workers));
    kiln_loader_convert(loader, 0, KILN_F32, KILN_CONVERT(.scale = 1.0 / 255));
    kiln_loader_convert(loader, 1, KILN_I64, NULL);
    if (train) {
        kiln_loader_random_crop(loader, 0, 2, NULL);
        kiln_loader_random_flip(loader, 0, NULL);
    }
    kiln_loader_normalise(loader, 0, 1, (double[]){0.286}, (double[]){0.353}, NULL); // of the training images
    kiln_scope_end(&scope);
    return loader;
}

// --- the network

enum { STAGES = 3, CLASSES = 10 };

static kiln_cell *conv(kiln_device *dev, int64_t in, int64_t out, int64_t stride)
{
    return kiln_nn_conv2d(
        dev, in, out, 3,
        KILN_NN_CONV2D(.stride = {stride, stride}, .padding = {1, 1}, .weight_init = "he_normal(relu, fan_out)"));
}

static void append_conv(kiln_cell *net, kiln_device *dev, int64_t in, int64_t out, int64_t stride)
{
    kiln_sequential_append(net, kiln_nn_batch_norm2d(dev, in, NULL));
    kiln_sequential_append(net, kiln_nn_relu());
    kiln_sequential_append(net, conv(dev, in, out, stride));
}

static kiln_cell *block(kiln_device *dev, int64_t width)
{
    kiln_cell *body = kiln_nn_sequential(0, NULL);
    append_conv(body, dev, width, width, 1);
    append_conv(body, dev, width, width, 1);
    return kiln_nn_residual(body);
}

static kiln_status mean_of_places(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_mean(in[0], KILN_REDUCE(.axes = KILN_AXES(2, 3)));
    return kiln_error();
}

static kiln_cell *make_net(kiln_device *dev, int64_t width, int64_t blocks)
{
    kiln_cell *net = kiln_nn_sequential(KILN_CELLS(conv(dev, 1, width, 1)));
    for (int stage = 0; stage < STAGES; stage++) {
        if (stage > 0) {
            append_conv(net, dev, width, 2 * width, 2);
            width *= 2;
        }
        for (int64_t i = 0; i < blocks; i++) kiln_sequential_append(net, block(dev, width));
    }
    kiln_sequential_append(net, kiln_nn_batch_norm2d(dev, width, NULL));
    kiln_sequential_append(net, kiln_nn_relu());
    kiln_sequential_append(net, kiln_nn_lambda(mean_of_places, NULL));
    kiln_sequential_append(net, kiln_nn_dense(dev, width, CLASSES, NULL));
    return net;
}

// --- training

struct run {
    kiln_cell *net;
    kiln_optim *opt;
};

static kiln_optim *make_optim(kiln_cell *net, double lr, int64_t steps)
{
    size_t n = kiln_cell_parameters(net, NULL, 0);
    kiln_tensor **params = calloc(n + 1, sizeof(kiln_tensor *));
    if (!params) return NULL;
    kiln_cell_parameters(net, params, n);
    kiln_optim *opt = kiln_optim_sgd(params, n, KILN_SGD(.momentum = 0.9, .nesterov = true, .weight_decay = 5e-4));
    kiln_optim_set_schedule(opt, kiln_schedule_one_cycle(lr, steps, NULL));
    free(params);
    return opt;
}

// in: images, labels; out: the loss.
static kiln_status train_step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct run *r = user;
    out[0] = kiln_cross_entropy(kiln_cell_call(r->net, in[0]), in[1], NULL);
    kiln_backward(out[0], NULL);
    return kiln_optim_step(r->opt);
}

// in: images; out: what it thinks of them.
static kiln_status scores(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct run *r = user;
    out[0] = kiln_cell_call(r->net, in[0]);
    return kiln_error();
}

// Neither losses nor scores are read before they are wanted, so that nothing waits for a step before the next one is
// under way.
static void train_epoch(kiln_training *t, kiln_function *step, kiln_loader *images)
{
    for (bool more = true; more && kiln_training_goes_on(t);) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *batch[2], *loss;
        if (!kiln_loader_next(images, batch, 2, &more) && more && !kiln_call(step, batch, 2, &loss, 1)) {
            kiln_training_log_tensor(t, "train/loss", loss);
            kiln_training_step(t);
        }
        kiln_scope_end(&scope);
    }
}

static double accuracy_of(kiln_function *test, kiln_loader *tests)
{
    kiln_metric *m = kiln_metric_create(KILN_METRIC(.classes = CLASSES));
    for (bool more = true; more && !kiln_error();) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *batch[2], *said;
        if (!kiln_loader_next(tests, batch, 2, &more) && more && !kiln_call(test, batch, 1, &said, 1))
            kiln_metric_update(m, said, batch[1]);
        kiln_scope_end(&scope);
    }
    double accuracy = kiln_metric_value(m, "accuracy");
    kiln_metric_free(&m);
    return accuracy;
}

static kiln_training *make_training(const struct options *o, struct run *r, kiln_loader *images)
{
    kiln_training *t =
        kiln_training_create(o->folder, KILN_TRAINING(.epochs = o->epochs, .resume = true, .output = stdout,
                                                      .log_every = kiln_loader_batches(images)));
    kiln_training_keep_cell(t, "net", r->net);
    kiln_training_keep_optim(t, "optim", r->opt);
    kiln_training_keep_loader(t, "images", images);
    return t;
}

// False where the loss of the last epoch is not below that of the one before.
static bool train(kiln_device *dev, const struct options *o, kiln_loader *images, kiln_loader *tests)
{
    int64_t steps = kiln_loader_batches(images);
    struct run r = {.net = make_net(dev, o->width, o->blocks)};
    r.opt = make_optim(r.net, o->lr, o->epochs * steps);
    kiln_function *step = kiln_jit(train_step, &r, NULL), *test = kiln_jit(scores, &r, NULL);
    if (!kiln_error())
        printf("%" PRId64 " parameters, %" PRId64 " steps an epoch\n", kiln_cell_parameter_count(r.net), steps);
    kiln_training *t = make_training(o, &r, images);
    while (kiln_training_epoch(t)) {
        kiln_cell_set_training(r.net, true);
        train_epoch(t, step, images);
        kiln_cell_set_training(r.net, false);
        kiln_no_grad_begin();
        kiln_training_log(t, "test/accuracy", accuracy_of(test, tests));
        kiln_no_grad_end();
    }
    double losses[2] = {0, 0}; // a row an epoch
    size_t epochs = kiln_training_history(t, "train/loss", NULL, losses, 2);
    kiln_training_free(&t);
    kiln_function_free(&step);
    kiln_function_free(&test);
    kiln_optim_free(&r.opt);
    kiln_cell_free(&r.net);
    return epochs < 2 || losses[1] < losses[0];
}

int main(int argc, char **argv)
{
    struct options o = {.data = "/usr/share/datasets/fashion-mnist",
                        .epochs = 5,
                        .batch = 128,
                        .width = 16,
                        .blocks = 2,
                        .workers = 2,
                        .seed = 1,
                        .lr = 0.1};
    if (!parse_options(argc, argv, &o)) return 2;
    kiln_device *dev = kiln_device_open(o.device);
    kiln_seed(dev, (uint64_t)o.seed);
    kiln_loader *images = open_set(dev, &o, "train", true), *tests = open_set(dev, &o, "t10k", false);
    bool learned = false;
    if (!kiln_error()) learned = train(dev, &o, images, tests);
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    int result = kiln_error() == KILN_E_MISSING ? 77 : kiln_error() || !learned; // no device, no images: skipped
    kiln_error_clear();
    kiln_loader_free(&images);
    kiln_loader_free(&tests);
    kiln_device_close(&dev);
    return result;
}
