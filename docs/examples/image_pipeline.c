// Sharpens an image that is out of focus: a pipeline of one captured function, with Fourier transforms.
//
//     image_pipeline --input photo.jpg --output sharp.png
//     image_pipeline --output sharp.png               with a picture of rings and squares, blurred before
//
// A blur is a product in the frequencies. Wiener's filter (1949) divides by it where there is more picture than noise:
// conj(H) / (|H|^2 + noise). Then single pixels that stick out are taken by a median filter, and the picture is made
// smaller. Without an input the program blurs a picture of its own, adds noise, and compares what it restores.
#include "options.h"

#include <kiln/kiln.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    const char *device, *input, *output;
    int64_t side;
    double blur, noise;
};

static const char usage[] = "usage: image_pipeline [options]\n"
                            "  --device D  cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n"
                            "  --input F   PNG or JPEG that is out of focus\n"
                            "  --output F  PNG of what it becomes, half as large\n"
                            "  --side N    height and width of the program's own picture, even (256)\n"
                            "  --blur S    standard deviation of the blur, in pixels (2)\n"
                            "  --noise R   power of noise, as a share of the picture's (0.001)\n";

static bool parse_options(int argc, char **argv, struct options *o)
{
    bool read =
        READ_OPTIONS(argc, argv, {"device", .text = &o->device}, {"input", .text = &o->input},
                     {"output", .text = &o->output}, {"side", .whole = &o->side, .least = 16},
                     {"blur", .real = &o->blur, .positive = true}, {"noise", .real = &o->noise, .positive = true});
    bool good = read && no_arguments(argc, argv) && option_fits(o->side % 2 == 0, "--side has to be even");
    if (!good) fputs(usage, stderr);
    return good;
}

// exp(-2 (pi s f)^2): the transform of a normal distribution, along one axis.
static kiln_tensor *damping(kiln_tensor *frequencies, double blur)
{
    return kiln_exp(kiln_mul(kiln_square(frequencies), -2 * M_PI * M_PI * blur * blur));
}

// What a blur does to the frequencies that kiln_rfft2 gives of images [..., height, width]: [height, width / 2 + 1].
static kiln_tensor *blur_of(kiln_tensor *x, double blur)
{
    kiln_device *dev = kiln_tensor_device(x);
    kiln_tensor *rows = damping(kiln_fftfreq(dev, KILN_F32, kiln_dim(x, -2), 1), blur);
    kiln_tensor *columns = damping(kiln_rfftfreq(dev, KILN_F32, kiln_dim(x, -1), 1), blur);
    return kiln_outer(rows, columns);
}

// in: an image [channels, height, width] in [0, 1]. Gives it sharpened, then that half as large, as bytes.
static kiln_status sharpen(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct options *o = user;
    kiln_tensor *h = blur_of(in[0], o->blur);
    kiln_tensor *wiener = kiln_div(h, kiln_add(kiln_square(h), o->noise));
    kiln_tensor *restored = kiln_irfft2(kiln_mul(kiln_rfft2(in[0], NULL), wiener), NULL);
    out[0] = kiln_clip(kiln_median_filter(restored, 3), 0, 1);
    kiln_tensor *small =
        kiln_resize(out[0], kiln_dim(in[0], -2) / 2, kiln_dim(in[0], -1) / 2, KILN_RESIZE(.antialias = true));
    out[1] = kiln_cast(kiln_round(kiln_mul(kiln_permute(small, KILN_AXES(1, 2, 0)), 255)), KILN_U8);
    return kiln_error();
}

// --- pictures

// Rings that become finer outwards, and squares: [1, side, side] in [0, 1].
static kiln_tensor *draw(kiln_device *dev, int64_t side)
{
    kiln_tensor *line = kiln_linspace(dev, KILN_F32, -1, 1, side), *y = kiln_reshape(line, KILN_SHAPE(side, 1));
    kiln_tensor *far = kiln_add(kiln_square(line), kiln_square(y));
    kiln_tensor *rings = kiln_mul(kiln_add(kiln_cos(kiln_mul(far, (double)side / 8)), 1), 0.5);
    kiln_tensor *waves = kiln_mul(kiln_sin(kiln_mul(line, 20)), kiln_sin(kiln_mul(y, 20)));
    return kiln_unsqueeze(kiln_where(kiln_less(far, 0.7), rings, kiln_cast(kiln_greater(waves, 0), KILN_F32)), 0);
}

static kiln_tensor *out_of_focus(kiln_tensor *x, double blur)
{
    kiln_tensor *soft = kiln_irfft2(kiln_mul(kiln_rfft2(x, NULL), blur_of(x, blur)), NULL);
    return kiln_add(soft, kiln_normal(kiln_tensor_device(x), KILN_F32, kiln_rank(x), kiln_dims(x), 0, 0.005));
}

// [channels, height, width] in [0, 1], height and width even.
static kiln_tensor *load(kiln_device *dev, const char *path)
{
    kiln_tensor *t = kiln_load_image(dev, path, 0);
    if (!t) return NULL;
    t = kiln_narrow(kiln_narrow(t, 0, 0, kiln_dim(t, 0) / 2 * 2), 1, 0, kiln_dim(t, 1) / 2 * 2);
    return kiln_mul(kiln_cast(kiln_permute(t, KILN_AXES(2, 0, 1)), KILN_F32), 1.0 / 255);
}

// How much of a picture there is to its error, in decibel.
static double quality(kiln_tensor *x, kiln_tensor *want)
{
    return -10 * log10(kiln_item(kiln_mean(kiln_square(kiln_sub(x, want)), NULL)));
}

static bool run(kiln_device *dev, struct options *o)
{
    kiln_tensor *picture = o->input ? NULL : draw(dev, o->side);
    kiln_tensor *x = o->input ? load(dev, o->input) : out_of_focus(picture, o->blur), *out[2];
    kiln_function *f = kiln_jit(sharpen, o, NULL);
    bool better = !kiln_call(f, &x, 1, out, 2);
    if (better && picture) {
        double before = quality(x, picture), after = quality(out[0], picture);
        printf("%.1f dB out of focus, %.1f dB restored\n", before, after);
        better = option_fits(after > before + 1, "that is not 1 dB better: --side may be too small");
    }
    if (better && o->output) kiln_save_image(o->output, out[1], NULL);
    kiln_function_free(&f);
    return better && !kiln_error();
}

int main(int argc, char **argv)
{
    struct options o = {.side = 256, .blur = 2, .noise = 0.001};
    if (!parse_options(argc, argv, &o)) return 2;
    kiln_device *dev = kiln_device_open(o.device);
    kiln_scope *scope = kiln_scope_begin();
    kiln_seed(dev, 1);
    bool good = run(dev, &o);
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    int code = good ? 0 : kiln_error() == KILN_E_MISSING ? 77 : 1;
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return code;
}
