// Images: the file's kind by its first bytes, the channels that are asked for, tensors.
#include "io/image.h"
#include "base/options.h"
#include "io/array.h"

#include <kiln/media.h>

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool image_append(struct image_bytes *b, const void *data, size_t n)
{
    if (n > b->cap - b->n) {
        size_t cap = b->cap ? b->cap : 1 << 12;
        while (cap - b->n < n && cap <= SIZE_MAX / 2) cap *= 2;
        unsigned char *grown = cap - b->n < n ? NULL : realloc(b->v, cap);
        if (!grown) return false;
        b->v = grown;
        b->cap = cap;
    }
    if (n) memcpy(b->v + b->n, data, n);
    b->n += n;
    return true;
}

kiln_status image_alloc(const char *where, struct image *i)
{
    struct io_array a = {.dtype = KILN_U8, .rank = 3, .dims = {i->height, i->width, i->channels}};
    uint64_t size_B;
    TRY(io_array_size(where, &a, &size_B));
    return io_alloc(where, size_B, &i->pixels);
}

static bool find_functions(const struct image_library *l)
{
    for (int i = 0; l->names[i]; i++) {
        void *symbol = dlsym(l->handle, l->names[i]);
        if (!symbol) return false;
        memcpy((char *)l->functions + (size_t)i * sizeof symbol, &symbol, sizeof symbol);
    }
    return true;
}

kiln_status image_library(const char *where, struct image_library *l)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&lock);
    if (!l->handle) l->handle = dlopen(l->file, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle)
        status = error_set(KILN_E_UNSUPPORTED, "%s: %s is missing; Debian has it in %s", where, l->file, l->package);
    else if (!l->found && !(l->found = find_functions(l)))
        status = error_set(KILN_E_UNSUPPORTED, "%s: %s lacks functions", where, l->file);
    pthread_mutex_unlock(&lock);
    return status;
}

// --- reading

static kiln_status read_file(const char *function, const char *path, struct io_reader *f, unsigned char **data)
{
    *data = NULL;
    TRY(io_open(f, function, path));
    kiln_status status = f->size_B <= PTRDIFF_MAX ? io_alloc(f->where, f->size_B, data)
                                                  : error_set(KILN_E_MEMORY, "%s: is too large", f->where);
    if (!status) status = io_read(f, 0, *data, f->size_B);
    return status;
}

static kiln_status decode(const struct image_source *s, struct image *out)
{
    static const unsigned char png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, jpeg[3] = {0xff, 0xd8, 0xff};
    *out = (struct image){0};
    if (s->size_B >= sizeof png && !memcmp(s->data, png, sizeof png)) return image_read_png(s, out);
    if (s->size_B >= sizeof jpeg && !memcmp(s->data, jpeg, sizeof jpeg)) return image_read_jpeg(s, out);
    return error_set(KILN_E_UNSUPPORTED, "%s: is neither PNG nor JPEG", s->where);
}

// Reads the file at `path`, with its pixels or without; the caller frees these.
static kiln_status read_image(const char *function, const char *path, bool pixels, struct image *out)
{
    struct io_reader f;
    unsigned char *data;
    *out = (struct image){0};
    kiln_status status = read_file(function, path, &f, &data);
    if (!status) status = decode(&(struct image_source){f.where, data, (size_t)f.size_B, pixels}, out);
    free(data);
    io_close(&f);
    return status;
}

static unsigned char grey_of(const unsigned char *p)
{
    return (unsigned char)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16);
}

static void convert_pixel(const unsigned char *in, int64_t from, unsigned char *out, int64_t to)
{
    bool colour = from > 2, alpha = from % 2 == 0;
    if (to > 2)
        for (int c = 0; c < 3; c++) out[c] = in[colour ? c : 0];
    else
        out[0] = colour ? grey_of(in) : in[0];
    if (to % 2 == 0) out[to - 1] = alpha ? in[from - 1] : 255;
}

static void convert_pixels(const struct image *i, int64_t channels, unsigned char *out)
{
    for (int64_t p = 0; p < i->height * i->width; p++)
        convert_pixel(i->pixels + p * i->channels, i->channels, out + p * channels, channels);
}

static kiln_status check_channels(const char *function, int64_t channels, int64_t least)
{
    if (channels >= least && channels <= 4) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: %" PRId64 " channels, from %" PRId64 " to 4 are allowed", function, channels,
                     least);
}

static kiln_tensor *make_tensor(kiln_device *dev, struct image *i, int64_t channels)
{
    struct image as = {.height = i->height, .width = i->width, .channels = channels ? channels : i->channels};
    const unsigned char *pixels = i->pixels;
    if (as.channels != i->channels) {
        if (image_alloc("load_image", &as)) return NULL;
        convert_pixels(i, as.channels, as.pixels);
        pixels = as.pixels;
    }
    kiln_tensor *t = kiln_from_data(dev, KILN_U8, KILN_SHAPE(as.height, as.width, as.channels), pixels);
    free(as.pixels);
    return t;
}

kiln_tensor *kiln_load_image(kiln_device *dev, const char *path, int64_t channels)
{
    struct image i;
    if (error_pending || check_channels("load_image", channels, 0) || read_image("load_image", path, true, &i))
        return NULL;
    kiln_tensor *t = make_tensor(dev, &i, channels);
    free(i.pixels);
    return t;
}

kiln_status kiln_image_size(const char *path, int64_t *dims)
{
    struct image i;
    if (error_pending) return error_pending;
    if (!dims) return error_set(KILN_E_ARGUMENT, "image_size: dims is NULL");
    TRY(read_image("image_size", path, false, &i));
    dims[0] = i.height;
    dims[1] = i.width;
    dims[2] = i.channels;
    return KILN_OK;
}

static kiln_status check_room(const char *path, const struct image *i, int64_t height, int64_t width, int64_t channels,
                              size_t out_B)
{
    if (i->height != height || i->width != width)
        return error_set(KILN_E_SHAPE, "read_image: %s: is %" PRId64 " x %" PRId64 ", not %" PRId64 " x %" PRId64, path,
                         i->height, i->width, height, width);
    uint64_t need_B = (uint64_t)height * (uint64_t)width * (uint64_t)channels;
    if (need_B == out_B) return KILN_OK;
    return error_set(KILN_E_SHAPE, "read_image: %s: memory of %zu bytes for %" PRIu64, path, out_B, need_B);
}

kiln_status kiln_read_image(const char *path, int64_t height, int64_t width, int64_t channels, void *out, size_t out_B)
{
    struct image i;
    if (error_pending) return error_pending;
    if (!out) return error_set(KILN_E_ARGUMENT, "read_image: out is NULL");
    TRY(check_channels("read_image", channels, 1));
    TRY(read_image("read_image", path, true, &i));
    kiln_status status = check_room(path, &i, height, width, channels, out_B);
    if (!status && i.channels == channels)
        memcpy(out, i.pixels, out_B);
    else if (!status)
        convert_pixels(&i, channels, out);
    free(i.pixels);
    return status;
}

// --- writing

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n > m && !strcasecmp(path + n - m, end);
}

static kiln_status check_image(const char *path, const kiln_tensor *t, bool jpeg, struct image *out)
{
    kiln_dtype dtype = kiln_tensor_dtype(t);
    size_t rank = kiln_rank(t);
    if (error_pending) return error_pending;
    if (dtype != KILN_U8)
        return error_set(KILN_E_DTYPE,
                         "save_image: %s: the image is %s, not u8; kiln_cast(kiln_mul(x, 255), KILN_U8) makes one of "
                         "floats in [0, 1]",
                         path, kiln_dtype_name(dtype));
    const int64_t *d = kiln_dims(t);
    bool fits = rank == 2 || (rank == 3 && d[2] >= 1 && d[2] <= 4 && (!jpeg || d[2] == 1 || d[2] == 3));
    int64_t most = jpeg ? 65500 : 1000000; // what libjpeg takes, and what libpng takes
    fits = fits && d[0] > 0 && d[1] > 0 && d[0] <= most && d[1] <= most;
    if (!fits)
        return error_set(KILN_E_SHAPE,
                         "save_image: %s: an image is [height, width, channels] with sizes from 1 to %" PRId64
                         " and %s channels; the rank is %zu",
                         path, most, jpeg ? "1 or 3" : "1 to 4", rank);
    *out = (struct image){.height = d[0], .width = d[1], .channels = rank == 3 ? d[2] : 1};
    return KILN_OK;
}

static kiln_status write_bytes(const char *path, const struct image_bytes *b)
{
    struct io_writer w;
    TRY(io_create(&w, "save_image", path));
    kiln_status status = io_write(&w, b->v, b->n);
    if (!status) status = io_commit(&w);
    io_abandon(&w);
    return status;
}

kiln_status kiln_save_image(const char *path, const kiln_tensor *t, const kiln_save_image_opts *opts)
{
    kiln_save_image_opts o;
    TRY(options_read("save_image", KILN_SAVE_IMAGE, &o, opts));
    if (error_pending) return error_pending;
    if (!path || !t) return error_set(KILN_E_ARGUMENT, "save_image: %s is NULL", path ? "the image" : "the path");
    bool png = ends_with(path, ".png"), jpeg = ends_with(path, ".jpg") || ends_with(path, ".jpeg");
    if (!png && !jpeg)
        return error_set(KILN_E_ARGUMENT, "save_image: %s: the name ends neither in .png nor in .jpg", path);
    if (o.quality < 0 || o.quality > 100 || o.compression < 0 || o.compression > 9)
        return error_set(KILN_E_ARGUMENT, "save_image: a quality of %" PRId64 " and a compression of %" PRId64,
                         o.quality, o.compression);
    struct image i;
    TRY(check_image(path, t, jpeg, &i));
    char *where = io_where("save_image", path);
    if (!where) return error_pending;
    struct image_bytes b = {0};
    kiln_status status = image_alloc(where, &i);
    if (!status) status = kiln_read(t, i.pixels, (size_t)(i.height * i.width * i.channels));
    if (!status && png) status = image_write_png(where, &i, o.compression ? (int)o.compression : 6, &b);
    if (!status && jpeg) status = image_write_jpeg(where, &i, o.quality ? (int)o.quality : 90, &b);
    if (!status) status = write_bytes(path, &b);
    free(b.v);
    free(i.pixels);
    free(where);
    return status;
}
