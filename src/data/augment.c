// Ready steps for images. A step is a struct with what it was made with; it draws with the numbers of the sample's
// seed, of which the first, number 0, decides whether it runs. Pixels go through f64, and back to u8 by rounding.
#include "data/loader.h"
#include "base/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS_MAX = 64 };

struct image_step {
    size_t field;
    kiln_dtype dtype;
    int64_t channels, height, width, item_B;
    int64_t of_channel, of_row, of_column; // strides, in elements
    int64_t size;                          // padding, side
    double fill, chance, brightness, contrast;
    double mean[CHANNELS_MAX], std_dev[CHANNELS_MAX];
    unsigned char fill_bytes[8];
};

static double load_pixel(const struct image_step *s, const unsigned char *image, int64_t i)
{
    if (s->dtype == KILN_U8) return image[i];
    return s->dtype == KILN_F32 ? ((const float *)(const void *)image)[i] : ((const double *)(const void *)image)[i];
}

static void store_pixel(const struct image_step *s, unsigned char *image, int64_t i, double v)
{
    if (s->dtype == KILN_U8)
        image[i] = v > 0 ? v < 255 ? (unsigned char)lrint(v) : 255 : 0;
    else if (s->dtype == KILN_F32)
        ((float *)(void *)image)[i] = (float)v;
    else
        ((double *)(void *)image)[i] = v;
}

static bool runs(const struct image_step *s, const kiln_sample *sample)
{
    return kiln_sample_uniform(sample, 0) < s->chance;
}

// From 0 to n - 1.
static int64_t draw(const kiln_sample *sample, uint64_t k, int64_t n)
{
    int64_t v = (int64_t)(kiln_sample_uniform(sample, k) * (double)n);
    return v < n ? v : n - 1;
}

// Fills the part of rows [top, bottom) and columns [left, right) that lies in the image.
static void fill_part(const struct image_step *s, unsigned char *image, int64_t top, int64_t bottom, int64_t left,
                      int64_t right)
{
    if (top < 0) top = 0;
    if (left < 0) left = 0;
    if (bottom > s->height) bottom = s->height;
    if (right > s->width) right = s->width;
    for (int64_t c = 0; c < s->channels; c++) {
        for (int64_t y = top; y < bottom; y++) {
            unsigned char *at = image + (c * s->of_channel + y * s->of_row) * s->item_B;
            for (int64_t x = left; x < right; x++)
                memcpy(at + x * s->of_column * s->item_B, s->fill_bytes, (size_t)s->item_B);
        }
    }
}

// --- crop: the image moves by up to `padding`, in place

// Moves one row of one channel by dx elements that are of_column apart.
static void copy_row(const struct image_step *s, unsigned char *to, const unsigned char *from, int64_t dx)
{
    int64_t n = s->width - llabs(dx), step_B = s->of_column * s->item_B;
    if (n <= 0) return;
    to += dx < 0 ? -dx * step_B : 0;
    from += dx > 0 ? dx * step_B : 0;
    if (s->of_column == 1) {
        memmove(to, from, (size_t)(n * s->item_B));
        return;
    }
    // In the order in which nothing is overwritten that is still to be read.
    for (int64_t i = 0; i < n; i++) {
        int64_t x = dx > 0 ? i : n - 1 - i;
        memcpy(to + x * step_B, from + x * step_B, (size_t)s->item_B);
    }
}

static kiln_status crop(void *user, const kiln_sample *sample)
{
    const struct image_step *s = user;
    if (!runs(s, sample)) return KILN_OK;
    unsigned char *image = sample->fields[s->field];
    int64_t dy = draw(sample, 1, 2 * s->size + 1) - s->size, dx = draw(sample, 2, 2 * s->size + 1) - s->size;
    for (int64_t c = 0; c < s->channels; c++) {
        for (int64_t i = 0; i < s->height; i++) {
            int64_t y = dy > 0 ? i : s->height - 1 - i, from = y + dy;
            if (from < 0 || from >= s->height) continue;
            copy_row(s, image + (c * s->of_channel + y * s->of_row) * s->item_B,
                     image + (c * s->of_channel + from * s->of_row) * s->item_B, dx);
        }
    }
    fill_part(s, image, 0, -dy, 0, s->width);
    fill_part(s, image, s->height - dy, s->height, 0, s->width);
    fill_part(s, image, 0, s->height, 0, -dx);
    fill_part(s, image, 0, s->height, s->width - dx, s->width);
    return KILN_OK;
}

// --- the others

static kiln_status flip(void *user, const kiln_sample *sample)
{
    const struct image_step *s = user;
    if (!runs(s, sample)) return KILN_OK;
    for (int64_t row = 0; row < s->channels * s->height; row++) {
        int64_t c = row / s->height, y = row % s->height;
        unsigned char *at = (unsigned char *)sample->fields[s->field] + (c * s->of_channel + y * s->of_row) * s->item_B;
        for (int64_t x = 0; x < s->width / 2; x++) {
            unsigned char *a = at + x * s->of_column * s->item_B,
                          *b = at + (s->width - 1 - x) * s->of_column * s->item_B;
            unsigned char kept[8];
            memcpy(kept, a, (size_t)s->item_B);
            memcpy(a, b, (size_t)s->item_B);
            memcpy(b, kept, (size_t)s->item_B);
        }
    }
    return KILN_OK;
}

static kiln_status cut_out(void *user, const kiln_sample *sample)
{
    const struct image_step *s = user;
    if (!runs(s, sample) || !s->height || !s->width) return KILN_OK;
    int64_t top = draw(sample, 1, s->height) - s->size / 2, left = draw(sample, 2, s->width) - s->size / 2;
    fill_part(s, sample->fields[s->field], top, top + s->size, left, left + s->size);
    return KILN_OK;
}

static double within(const kiln_sample *sample, uint64_t k, double range)
{
    return 1 + range * (2 * kiln_sample_uniform(sample, k) - 1);
}

static kiln_status jitter(void *user, const kiln_sample *sample)
{
    const struct image_step *s = user;
    int64_t n = s->channels * s->height * s->width;
    if (!runs(s, sample) || n == 0) return KILN_OK;
    unsigned char *image = sample->fields[s->field];
    double b = within(sample, 1, s->brightness), c = within(sample, 2, s->contrast), mean = 0;
    for (int64_t i = 0; i < n; i++) mean += load_pixel(s, image, i);
    mean *= b / (double)n;
    for (int64_t i = 0; i < n; i++) store_pixel(s, image, i, mean + c * (b * load_pixel(s, image, i) - mean));
    return KILN_OK;
}

static kiln_status normalise(void *user, const kiln_sample *sample)
{
    const struct image_step *s = user;
    unsigned char *image = sample->fields[s->field];
    for (int64_t c = 0; c < s->channels; c++) {
        for (int64_t p = 0; p < s->height * s->width; p++) {
            int64_t i = c * s->of_channel + p * s->of_column;
            store_pixel(s, image, i, (load_pixel(s, image, i) - s->mean[c]) / s->std_dev[c]);
        }
    }
    return KILN_OK;
}

// --- making steps

static kiln_status read_layout(const char *function, const struct field *f, bool channels_last, struct image_step *s)
{
    if (f->rank != 3 && f->rank != 4)
        return error_set(KILN_E_SHAPE, "%s: field %zu has rank %zu, images have 3 or 4", function, s->field, f->rank);
    if (f->out_dtype != KILN_U8 && f->out_dtype != KILN_F32 && f->out_dtype != KILN_F64)
        return error_set(KILN_E_DTYPE, "%s: field %zu is %s in batches; images are u8, f32 or f64", function, s->field,
                         kiln_dtype_name(f->out_dtype));
    bool last = channels_last && f->rank == 4;
    const int64_t *d = f->dims + (f->rank == 4 && !last ? 2 : 1);
    s->dtype = f->out_dtype;
    s->item_B = (int64_t)kiln_dtype_size(s->dtype);
    s->height = d[0];
    s->width = d[1];
    s->channels = f->rank == 3 ? 1 : last ? f->dims[3] : f->dims[1];
    s->of_column = last ? s->channels : 1;
    s->of_row = s->width * s->of_column;
    s->of_channel = last ? 1 : s->height * s->width;
    return KILN_OK;
}

static kiln_status read_options(const char *function, const kiln_image_opts *opts, double chance, struct image_step *s,
                                kiln_image_opts *o)
{
    TRY(options_read(function, KILN_IMAGE, o, opts));
    s->chance = o->chance != 0 ? o->chance : chance;
    s->fill = o->fill;
    if (s->chance > 0 && s->chance <= 1) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: .chance is %g, not in (0, 1]", function, s->chance);
}

// Checks loader, field and options, and adds a copy of the step. *s has what the step itself was made with.
static kiln_status add(const char *function, kiln_loader *l, struct image_step *s, kiln_augment_fn fn, double chance,
                       const kiln_image_opts *opts)
{
    kiln_image_opts o;
    TRY(loader_check(function, l));
    TRY(read_options(function, opts, chance, s, &o));
    if (s->field >= l->n_fields)
        return error_set(KILN_E_ARGUMENT, "%s: there is no field %zu, the loader has %zu, from 0", function, s->field,
                         l->n_fields);
    TRY(read_layout(function, &l->fields[s->field], o.channels_last, s));
    store_pixel(s, s->fill_bytes, 0, s->fill);
    struct image_step *copy = malloc(sizeof *copy);
    if (!copy) return error_set(KILN_E_MEMORY, "%s: no memory", function);
    *copy = *s;
    kiln_status status = loader_add_step(function, l, &(struct step){.fn = fn, .user = copy, .user_free = free});
    if (status)
        free(copy);
    else
        l->fields[s->field].has_steps = true;
    return status;
}

static kiln_status check_size(const char *function, int64_t size, int64_t least)
{
    if (size >= least && size <= INT32_MAX) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: a size of %" PRId64, function, size);
}

kiln_status kiln_loader_random_crop(kiln_loader *loader, size_t field, int64_t padding, const kiln_image_opts *opts)
{
    TRY(loader_check("loader_random_crop", loader));
    TRY(check_size("loader_random_crop", padding, 0));
    return add("loader_random_crop", loader, &(struct image_step){.field = field, .size = padding}, crop, 1, opts);
}

kiln_status kiln_loader_random_flip(kiln_loader *loader, size_t field, const kiln_image_opts *opts)
{
    return add("loader_random_flip", loader, &(struct image_step){.field = field}, flip, 0.5, opts);
}

kiln_status kiln_loader_cutout(kiln_loader *loader, size_t field, int64_t side, const kiln_image_opts *opts)
{
    TRY(loader_check("loader_cutout", loader));
    TRY(check_size("loader_cutout", side, 1));
    return add("loader_cutout", loader, &(struct image_step){.field = field, .size = side}, cut_out, 1, opts);
}

kiln_status kiln_loader_jitter(kiln_loader *loader, size_t field, double brightness, double contrast,
                               const kiln_image_opts *opts)
{
    TRY(loader_check("loader_jitter", loader));
    if (!(brightness >= 0 && brightness <= 1 && contrast >= 0 && contrast <= 1))
        return error_set(KILN_E_ARGUMENT, "loader_jitter: ranges of %g and %g, not in [0, 1]", brightness, contrast);
    struct image_step s = {.field = field, .brightness = brightness, .contrast = contrast};
    return add("loader_jitter", loader, &s, jitter, 1, opts);
}

kiln_status kiln_loader_normalise(kiln_loader *loader, size_t field, size_t n, const double *mean,
                                  const double *std_dev, const kiln_image_opts *opts)
{
    static const char function[] = "loader_normalise";
    struct image_step s = {.field = field};
    kiln_image_opts o;
    TRY(loader_check(function, loader));
    if (!mean || !std_dev) return error_set(KILN_E_ARGUMENT, "%s: %s is NULL", function, mean ? "std_dev" : "mean");
    if (n > CHANNELS_MAX) return error_set(KILN_E_ARGUMENT, "%s: %zu channels, %d at most", function, n, CHANNELS_MAX);
    for (size_t c = 0; c < n; c++) {
        s.mean[c] = mean[c];
        s.std_dev[c] = std_dev[c];
        if (!isfinite(mean[c]) || !(std_dev[c] > 0) || !isfinite(std_dev[c]))
            return error_set(KILN_E_ARGUMENT, "%s: a mean of %g and a deviation of %g", function, mean[c], std_dev[c]);
    }
    TRY(read_options(function, opts, 1, &s, &o));
    if (field >= loader->n_fields)
        return error_set(KILN_E_ARGUMENT, "%s: there is no field %zu, the loader has %zu, from 0", function, field,
                         loader->n_fields);
    TRY(read_layout(function, &loader->fields[field], o.channels_last, &s));
    if (s.dtype == KILN_U8)
        return error_set(KILN_E_DTYPE, "%s: field %zu is u8 in batches, not floats", function, field);
    if ((int64_t)n != s.channels)
        return error_set(KILN_E_SHAPE, "%s: %zu channels, field %zu has %" PRId64, function, n, field, s.channels);
    return add(function, loader, &s, normalise, 1, opts);
}
