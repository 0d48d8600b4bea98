// A variational autoencoder (Kingma and Welling 2014) of Fashion-MNIST: images become a few numbers, and such numbers,
// drawn at random, become images.
//
//     vae --epochs 10 --output clothes.png
//
// The encoder gives mean and logarithm of the variance of a normal distribution, from which a sample is drawn in a way
// that gradients pass: mean + deviation * noise. The loss, minus the evidence lower bound, is what the decoder's image
// differs, plus how much that distribution differs from the normal one of mean 0 and variance 1. A step of training is
// one captured function, the noise drawn inside. The images are those of Zalando (Xiao, Rasul, Vollgraf 2017).
#include "options.h"

#include <kiln/kiln.h>

#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, MAX_PARAMS = 16 };

struct options {
    const char *device, *data, *folder, *output;
    int64_t epochs, limit, batch, latent, hidden;
};

static const char usage[] =
    "usage: vae [options]\n"
    "  --device D   cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n"
    "  --data DIR   folder of the .gz files (/usr/share/datasets/fashion-mnist)\n"
    "  --epochs N   passes over the images (5)\n"
    "  --limit N    only the first N images; 0: all (0)\n"
    "  --batch N    images a step (128)\n"
    "  --latent N   numbers that an image becomes (16)\n"
    "  --hidden N   width of the layers between (256)\n"
    "  --folder DIR logs, curves and checkpoints; a run that finds them there goes on\n"
    "  --output F   PNG of the first test images, what they become, and images drawn at random\n";

static bool parse_options(int argc, char **argv, struct options *o)
{
    bool read = READ_OPTIONS(argc, argv, {"device", .text = &o->device}, {"data", .text = &o->data},
                             {"epochs", .whole = &o->epochs, .least = 1}, {"limit", .whole = &o->limit},
                             {"batch", .whole = &o->batch, .least = 1}, {"latent", .whole = &o->latent, .least = 1},
                             {"hidden", .whole = &o->hidden, .least = 1}, {"folder", .text = &o->folder},
                             {"output", .text = &o->output});
    bool good = read && no_arguments(argc, argv);
    if (!good) fputs(usage, stderr);
    return good;
}

// Images [n, PIXELS], u8.
static kiln_tensor *load(kiln_device *dev, const struct options *o, const char *part)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte.gz", o->data, part);
    kiln_tensor *t = kiln_idx_load(dev, path);
    if (t && o->limit && o->limit < kiln_dim(t, 0)) t = kiln_narrow(t, 0, 0, o->limit);
    return kiln_flatten(t, 1, -1);
}

static kiln_tensor *in_unit_range(kiln_tensor *bytes)
{
    return kiln_mul(kiln_cast(bytes, KILN_F32), 1.0 / 255);
}

struct vae {
    int64_t latent;
    kiln_cell *encoder, *decoder;
    kiln_optim *opt;
};

static void make_vae(struct vae *v, kiln_device *dev, const struct options *o)
{
    v->latent = o->latent;
    v->encoder = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, PIXELS, o->hidden, NULL), kiln_nn_relu(),
                                               kiln_nn_dense(dev, o->hidden, 2 * o->latent, NULL)));
    v->decoder = kiln_nn_sequential(KILN_CELLS(kiln_nn_dense(dev, o->latent, o->hidden, NULL), kiln_nn_relu(),
                                               kiln_nn_dense(dev, o->hidden, PIXELS, NULL)));
    kiln_tensor *params[MAX_PARAMS];
    size_t n = kiln_cell_parameters(v->encoder, params, MAX_PARAMS);
    n += kiln_cell_parameters(v->decoder, params + n, MAX_PARAMS - n);
    v->opt = kiln_optim_adam(params, n, KILN_ADAM(.lr = 1e-3));
}

static void free_vae(struct vae *v)
{
    kiln_optim_free(&v->opt);
    kiln_cell_free(&v->encoder);
    kiln_cell_free(&v->decoder);
}

// in: images in bytes [n, PIXELS]. Gives the loss of an image, in nats.
static kiln_status train(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct vae *v = user;
    kiln_tensor *x = in_unit_range(in[0]), *code[2];
    if (kiln_split(kiln_cell_call(v->encoder, x), -1, code, 2)) return kiln_error();
    kiln_tensor *mean = code[0], *log_var = code[1];
    kiln_tensor *noise = kiln_normal(kiln_tensor_device(x), KILN_F32, KILN_SHAPE(kiln_dim(x, 0), v->latent), 0, 1);
    kiln_tensor *z = kiln_add(mean, kiln_mul(kiln_exp(kiln_mul(log_var, 0.5)), noise));
    kiln_tensor *differs = kiln_loss_bce_with_logits(kiln_cell_call(v->decoder, z), x, KILN_REDUCTION_BATCH_MEAN);
    kiln_tensor *kl = kiln_sub(kiln_add(kiln_square(mean), kiln_exp(log_var)), kiln_add(log_var, 1));
    kl = kiln_mean(kiln_mul(kiln_sum(kl, KILN_REDUCE(.axes = KILN_AXES(-1))), 0.5), NULL);
    out[0] = kiln_add(differs, kl);
    kiln_optim_zero_grad(v->opt);
    kiln_backward(out[0], NULL);
    return kiln_optim_step(v->opt);
}

static void run_epoch(kiln_training *t, kiln_function *step, kiln_loader *loader)
{
    for (bool more = true; more && kiln_training_goes_on(t);) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x, *loss;
        if (!kiln_loader_next(loader, &x, 1, &more) && more && !kiln_call(step, &x, 1, &loss, 1)) {
            kiln_training_log_tensor(t, "train/loss", loss); // of an image
            kiln_training_step(t);
        }
        kiln_scope_end(&scope);
    }
}

// n images [n, PIXELS] in [0, 1], side by side: [SIDE, n * SIDE].
static kiln_tensor *in_a_row(kiln_tensor *images)
{
    kiln_tensor *t = kiln_reshape(images, KILN_SHAPE(-1, SIDE, SIDE));
    return kiln_reshape(kiln_transpose(t, 0, 1), KILN_SHAPE(SIDE, -1));
}

static void write_images(const struct vae *v, kiln_device *dev, kiln_tensor *bytes, const char *path)
{
    kiln_tensor *x = in_unit_range(bytes), *z = kiln_narrow(kiln_cell_call(v->encoder, x), -1, 0, v->latent);
    kiln_tensor *drawn = kiln_normal(dev, KILN_F32, KILN_SHAPE(kiln_dim(x, 0), v->latent), 0, 1);
    kiln_tensor *rows[] = {in_a_row(x), in_a_row(kiln_sigmoid(kiln_cell_call(v->decoder, z))),
                           in_a_row(kiln_sigmoid(kiln_cell_call(v->decoder, drawn)))};
    kiln_save_image(path, kiln_cast(kiln_round(kiln_mul(kiln_concat(rows, 3, 0), 255)), KILN_U8), NULL);
}

static bool learn(struct vae *v, kiln_device *dev, const struct options *o)
{
    kiln_tensor *images = load(dev, o, "train"), *tests = load(dev, o, "t10k");
    kiln_loader *loader =
        kiln_loader_create(dev, &images, 1, KILN_LOADER(.batch = o->batch, .shuffle = true, .drop_last = true));
    make_vae(v, dev, o);
    kiln_function *step = kiln_jit(train, v, NULL);
    // A row an epoch.
    kiln_training *t =
        kiln_training_create(o->folder, KILN_TRAINING(.epochs = o->epochs, .resume = true, .output = stdout,
                                                      .log_every = kiln_loader_batches(loader)));
    kiln_training_keep_cell(t, "encoder", v->encoder);
    kiln_training_keep_cell(t, "decoder", v->decoder);
    kiln_training_keep_optim(t, "optim", v->opt);
    kiln_training_keep_loader(t, "images", loader);
    while (kiln_training_epoch(t)) run_epoch(t, step, loader);
    double losses[2] = {0, 0};
    size_t epochs = kiln_training_history(t, "train/loss", NULL, losses, 2);
    if (o->output) write_images(v, dev, kiln_narrow(tests, 0, 0, 10), o->output);
    kiln_training_free(&t);
    kiln_function_free(&step);
    kiln_loader_free(&loader);
    return !kiln_error() && (epochs < 2 || losses[1] < losses[0]);
}

int main(int argc, char **argv)
{
    struct options o = {
        .data = "/usr/share/datasets/fashion-mnist", .epochs = 5, .batch = 128, .latent = 16, .hidden = 256};
    if (!parse_options(argc, argv, &o)) return 2;
    kiln_device *dev = kiln_device_open(o.device);
    kiln_scope *scope = kiln_scope_begin();
    kiln_seed(dev, 1);
    struct vae v = {0};
    bool learnt = learn(&v, dev, &o);
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    int code = learnt ? 0 : kiln_error() == KILN_E_MISSING ? 77 : 1;
    free_vae(&v);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return code;
}
