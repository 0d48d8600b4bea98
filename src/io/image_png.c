// PNG by libpng, which is opened at its first use. The library leaves a function that fails by longjmp, to a frame that
// holds nothing: what is owned lies in the job, and is freed there.
#include "io/image.h"
#include "io/inflate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#if KILN_WITH_PNG
#include <png.h>

// clang-format off
#define FUNCTIONS(X) \
    X(create_read_struct) X(create_write_struct) X(create_info_struct) X(destroy_read_struct) \
    X(destroy_write_struct) X(set_longjmp_fn) X(set_read_fn) X(set_write_fn) X(set_crc_action) \
    X(set_benign_errors) X(set_keep_unknown_chunks) X(get_io_ptr) X(get_error_ptr) X(error) X(read_info) \
    X(get_IHDR) X(get_valid) X(set_expand) X(set_strip_16) X(set_interlace_handling) X(read_update_info) \
    X(get_rowbytes) X(get_channels) X(read_image) X(read_end) X(set_IHDR) X(set_compression_level) \
    X(write_info) X(write_image) X(write_end)
// clang-format on

static struct {
#define X(name) __typeof__(png_##name) *name;
    FUNCTIONS(X)
#undef X
} lib;
#define X(name) "png_" #name,
static const char *const names[] = {FUNCTIONS(X) NULL};
#undef X
_Static_assert(sizeof lib == sizeof names - sizeof names[0], "a pointer for each name");
static struct image_library library = {
    .file = "libpng16.so.16", .package = "libpng16-16", .names = names, .functions = &lib};

struct png_job {
    const char *where;
    png_structp png;
    png_infop info;
    const struct image_source *source;
    size_t at_B;
    struct image *image;
    struct image_bytes *out;
    png_bytep *rows;
    char message[160];
    bool no_memory;
};

static void fail(png_structp png, png_const_charp message)
{
    struct png_job *j = lib.get_error_ptr(png);
    strncpy(j->message, message, sizeof j->message - 1);
    longjmp(*lib.set_longjmp_fn(png, longjmp, sizeof(jmp_buf)), 1);
}

static void ignore(png_structp png, png_const_charp message)
{
    (void)png, (void)message;
}

static kiln_status job_error(const struct png_job *j)
{
    if (j->no_memory) return error_set(KILN_E_MEMORY, "%s: no memory", j->where);
    bool memory = !strcmp(j->message, "Out of memory") || !strcmp(j->message, "Insufficient memory");
    return error_set(memory ? KILN_E_MEMORY : KILN_E_FORMAT, "%s: the PNG data is broken: %s", j->where, j->message);
}

// Pointers to the rows of the image.
static bool make_rows(struct png_job *j)
{
    const struct image *i = j->image;
    j->rows = malloc((size_t)i->height * sizeof *j->rows + 1);
    for (int64_t y = 0; j->rows && y < i->height; y++) j->rows[y] = i->pixels + y * i->width * i->channels;
    j->no_memory = !j->rows;
    return j->rows;
}

// --- reading

static void read_some(png_structp png, png_bytep out, size_t n)
{
    struct png_job *j = lib.get_io_ptr(png);
    if (n > j->source->size_B - j->at_B) lib.error(png, "the file is cut off");
    memcpy(out, j->source->data + j->at_B, n);
    j->at_B += n;
}

// Whether the file can hold its rows, packed as well as deflate can.
static kiln_status check_size(const struct png_job *j, uint64_t height, uint64_t width, uint64_t bits)
{
    uint64_t packed_B = (width * bits + 7) / 8 * height;
    if (inflate_can_be(j->source->size_B, packed_B)) return KILN_OK;
    return error_set(KILN_E_FORMAT, "%s: %" PRIu64 " x %" PRIu64 " pixels are more than a file of %zu bytes can hold",
                     j->where, height, width, j->source->size_B);
}

static void ask_for(struct png_job *j)
{
    // Checked, but not looked into: what is no pixel. Nothing that the library would pass over is passed over.
    lib.set_keep_unknown_chunks(j->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    lib.set_crc_action(j->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    lib.set_benign_errors(j->png, 0);
    lib.set_read_fn(j->png, j, read_some);
    lib.read_info(j->png, j->info);
}

static kiln_status read_pixels(struct png_job *j)
{
    png_uint_32 width, height;
    int depth, colour;
    ask_for(j);
    lib.get_IHDR(j->png, j->info, &width, &height, &depth, &colour, NULL, NULL, NULL);
    static const unsigned char channels_of[] = {1, 0, 3, 1, 2, 0, 4};
    TRY(check_size(j, height, width, (uint64_t)channels_of[colour] * (uint64_t)depth));
    lib.set_expand(j->png);
    lib.set_strip_16(j->png);
    lib.set_interlace_handling(j->png);
    lib.read_update_info(j->png, j->info);
    *j->image = (struct image){.height = height, .width = width, .channels = lib.get_channels(j->png, j->info)};
    if (!j->source->pixels) return KILN_OK;
    if (lib.get_rowbytes(j->png, j->info) != (size_t)(j->image->width * j->image->channels))
        return error_set(KILN_E_FORMAT, "%s: the rows have another length than their pixels", j->where);
    TRY(image_alloc(j->where, j->image));
    if (!make_rows(j)) return job_error(j);
    lib.read_image(j->png, j->rows);
    lib.read_end(j->png, NULL);
    return KILN_OK;
}

static kiln_status try_read(struct png_job *j)
{
    if (setjmp(*lib.set_longjmp_fn(j->png, longjmp, sizeof(jmp_buf)))) return job_error(j);
    return read_pixels(j);
}

kiln_status image_read_png(const struct image_source *s, struct image *out)
{
    TRY(image_library(s->where, &library));
    struct png_job j = {.where = s->where, .source = s, .image = out};
    j.png = lib.create_read_struct(PNG_LIBPNG_VER_STRING, &j, fail, ignore);
    j.info = j.png ? lib.create_info_struct(j.png) : NULL;
    kiln_status status = j.info ? try_read(&j) : error_set(KILN_E_MEMORY, "%s: no memory for libpng", s->where);
    if (j.png) lib.destroy_read_struct(&j.png, j.info ? &j.info : NULL, NULL);
    free(j.rows);
    if (status) {
        free(out->pixels);
        *out = (struct image){0};
    }
    return status;
}

// --- writing

static void write_some(png_structp png, png_bytep data, size_t n)
{
    struct png_job *j = lib.get_io_ptr(png);
    if (image_append(j->out, data, n)) return;
    j->no_memory = true;
    lib.error(png, "no memory");
}

static void flush(png_structp png)
{
    (void)png;
}

static kiln_status try_write(struct png_job *j, int level)
{
    static const int colours[] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                  PNG_COLOR_TYPE_RGB_ALPHA};
    const struct image *i = j->image;
    if (setjmp(*lib.set_longjmp_fn(j->png, longjmp, sizeof(jmp_buf)))) return job_error(j);
    lib.set_write_fn(j->png, j, write_some, flush);
    lib.set_compression_level(j->png, level);
    lib.set_IHDR(j->png, j->info, (png_uint_32)i->width, (png_uint_32)i->height, 8, colours[i->channels],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    lib.write_info(j->png, j->info);
    lib.write_image(j->png, j->rows);
    lib.write_end(j->png, j->info);
    return KILN_OK;
}

kiln_status image_write_png(const char *where, const struct image *i, int level, struct image_bytes *out)
{
    TRY(image_library(where, &library));
    struct image image = *i;
    struct png_job j = {.where = where, .image = &image, .out = out};
    if (!make_rows(&j)) return job_error(&j);
    j.png = lib.create_write_struct(PNG_LIBPNG_VER_STRING, &j, fail, ignore);
    j.info = j.png ? lib.create_info_struct(j.png) : NULL;
    kiln_status status = j.info ? try_write(&j, level) : error_set(KILN_E_MEMORY, "%s: no memory for libpng", where);
    if (j.png) lib.destroy_write_struct(&j.png, j.info ? &j.info : NULL);
    free(j.rows);
    return status;
}
#else
static kiln_status missing(const char *where)
{
    return error_set(KILN_E_UNSUPPORTED, "%s: this build is without PNG; it needs libpng-dev and -Dpng=enabled", where);
}

kiln_status image_read_png(const struct image_source *s, struct image *out)
{
    return missing(s->where);
}

kiln_status image_write_png(const char *where, const struct image *i, int level, struct image_bytes *out)
{
    return missing(where);
}
#endif
