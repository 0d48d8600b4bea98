// JPEG by libjpeg, which is opened at its first use. As with PNG, the library leaves a function that fails by longjmp
// to a frame that holds nothing. What it would warn of and pass over is an error: data that ends early or is broken.
#include "io/image.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if KILN_WITH_JPEG
#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>

// clang-format off
#define FUNCTIONS(X) \
    X(std_error) X(CreateDecompress) X(CreateCompress) X(destroy_decompress) X(destroy_compress) X(mem_src) \
    X(read_header) X(start_decompress) X(read_scanlines) X(finish_decompress) X(set_defaults) X(set_quality) \
    X(start_compress) X(write_scanlines) X(finish_compress)
// clang-format on

static struct {
#define X(name) __typeof__(jpeg_##name) *name;
    FUNCTIONS(X)
#undef X
} lib;
#define X(name) "jpeg_" #name,
static const char *const names[] = {FUNCTIONS(X) NULL};
#undef X
_Static_assert(sizeof lib == sizeof names - sizeof names[0], "a pointer for each name");
static struct image_library library = {
    .file = "libjpeg.so.62", .package = "libjpeg62-turbo", .names = names, .functions = &lib};

// A progressive file says over and over how a pixel is; none has so many turns.
enum { SCANS_MAX = 200, BUFFER_B = 1 << 14 };

struct jpeg_job {
    const char *where;
    struct jpeg_error_mgr errors;
    jmp_buf back;
    struct jpeg_decompress_struct in;
    struct jpeg_compress_struct out;
    struct jpeg_progress_mgr progress;
    struct jpeg_destination_mgr to;
    struct image_bytes *bytes;
    unsigned char *buffer;
    struct image *image;
    const struct image_source *source;
    char message[JMSG_LENGTH_MAX];
    bool no_memory;
};

static void fail(j_common_ptr c)
{
    struct jpeg_job *j = c->client_data;
    c->err->format_message(c, j->message);
    j->no_memory |= c->err->msg_code == JERR_OUT_OF_MEMORY;
    longjmp(j->back, 1);
}

// Level -1 is a warning: what is lost then is not to go unnoticed. Some cameras leave bytes between markers.
static void tell(j_common_ptr c, int level)
{
    int code = c->err->msg_code;
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR) fail(c);
}

static void ignore(j_common_ptr c)
{
    (void)c;
}

static void count_scans(j_common_ptr c)
{
    struct jpeg_job *j = c->client_data;
    if (!c->is_decompressor || j->in.input_scan_number <= SCANS_MAX) return;
    snprintf(j->message, sizeof j->message, "more than %d scans", SCANS_MAX);
    longjmp(j->back, 1);
}

static struct jpeg_error_mgr *errors_of(struct jpeg_job *j)
{
    lib.std_error(&j->errors);
    j->errors.error_exit = fail;
    j->errors.emit_message = tell;
    j->errors.output_message = ignore;
    return &j->errors;
}

static kiln_status job_error(const struct jpeg_job *j)
{
    if (j->no_memory) return error_set(KILN_E_MEMORY, "%s: no memory", j->where);
    return error_set(KILN_E_FORMAT, "%s: the JPEG data is broken: %s", j->where, j->message);
}

// --- reading

// Of each 8 x 8 block of the component with the finest grid the file holds a bit at least.
static kiln_status check_size(const struct jpeg_job *j)
{
    uint64_t pixels = (uint64_t)j->in.image_width * j->in.image_height;
    if (pixels / 512 <= j->source->size_B) return KILN_OK;
    return error_set(KILN_E_FORMAT, "%s: %u x %u pixels are more than a file of %zu bytes can hold", j->where,
                     j->in.image_height, j->in.image_width, j->source->size_B);
}

static kiln_status read_pixels(struct jpeg_job *j)
{
    struct image *i = j->image;
    lib.mem_src(&j->in, j->source->data, (unsigned long)j->source->size_B);
    lib.read_header(&j->in, TRUE);
    bool grey = j->in.jpeg_color_space == JCS_GRAYSCALE;
    if (!grey && j->in.jpeg_color_space != JCS_YCbCr && j->in.jpeg_color_space != JCS_RGB)
        return error_set(KILN_E_UNSUPPORTED, "%s: a JPEG of %d components that are neither grey nor colours", j->where,
                         j->in.num_components);
    TRY(check_size(j));
    j->in.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    *i = (struct image){.height = j->in.image_height, .width = j->in.image_width, .channels = grey ? 1 : 3};
    if (!j->source->pixels) return KILN_OK;
    TRY(image_alloc(j->where, i));
    lib.start_decompress(&j->in);
    while (j->in.output_scanline < j->in.output_height) {
        JSAMPROW row = i->pixels + (int64_t)j->in.output_scanline * i->width * i->channels;
        lib.read_scanlines(&j->in, &row, 1);
    }
    lib.finish_decompress(&j->in);
    return KILN_OK;
}

static kiln_status try_read(struct jpeg_job *j)
{
    j->in.err = errors_of(j);
    j->in.client_data = j;
    if (setjmp(j->back)) return job_error(j);
    lib.CreateDecompress(&j->in, JPEG_LIB_VERSION, sizeof j->in);
    j->progress.progress_monitor = count_scans;
    j->in.progress = &j->progress;
    return read_pixels(j);
}

kiln_status image_read_jpeg(const struct image_source *s, struct image *out)
{
    TRY(image_library(s->where, &library));
    struct jpeg_job *j = calloc(1, sizeof *j);
    if (!j) return error_set(KILN_E_MEMORY, "%s: no memory", s->where);
    j->where = s->where;
    j->source = s;
    j->image = out;
    kiln_status status = try_read(j);
    lib.destroy_decompress(&j->in);
    free(j);
    if (status) {
        free(out->pixels);
        *out = (struct image){0};
    }
    return status;
}

// --- writing

static void begin_buffer(j_compress_ptr c)
{
    struct jpeg_job *j = c->client_data;
    j->to.next_output_byte = j->buffer;
    j->to.free_in_buffer = BUFFER_B;
}

static void append(struct jpeg_job *j, size_t n)
{
    if (image_append(j->bytes, j->buffer, n)) return;
    j->no_memory = true;
    longjmp(j->back, 1);
}

static boolean take_buffer(j_compress_ptr c)
{
    append(c->client_data, BUFFER_B);
    begin_buffer(c);
    return TRUE;
}

static void end_buffer(j_compress_ptr c)
{
    struct jpeg_job *j = c->client_data;
    append(j, BUFFER_B - j->to.free_in_buffer);
}

static kiln_status try_write(struct jpeg_job *j, int quality)
{
    const struct image *i = j->image;
    j->out.err = errors_of(j);
    j->out.client_data = j;
    if (setjmp(j->back)) return job_error(j);
    lib.CreateCompress(&j->out, JPEG_LIB_VERSION, sizeof j->out);
    j->to.init_destination = begin_buffer;
    j->to.empty_output_buffer = take_buffer;
    j->to.term_destination = end_buffer;
    j->out.dest = &j->to;
    j->out.image_width = (JDIMENSION)i->width;
    j->out.image_height = (JDIMENSION)i->height;
    j->out.input_components = (int)i->channels;
    j->out.in_color_space = i->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    lib.set_defaults(&j->out);
    lib.set_quality(&j->out, quality, TRUE);
    lib.start_compress(&j->out, TRUE);
    while (j->out.next_scanline < j->out.image_height) {
        JSAMPROW row = i->pixels + (int64_t)j->out.next_scanline * i->width * i->channels;
        lib.write_scanlines(&j->out, &row, 1);
    }
    lib.finish_compress(&j->out);
    return KILN_OK;
}

kiln_status image_write_jpeg(const char *where, const struct image *i, int quality, struct image_bytes *out)
{
    TRY(image_library(where, &library));
    struct image image = *i;
    struct jpeg_job *j = calloc(1, sizeof *j);
    if (j) j->buffer = malloc(BUFFER_B);
    kiln_status status = KILN_E_MEMORY;
    if (j && j->buffer) {
        j->where = where;
        j->image = &image;
        j->bytes = out;
        status = try_write(j, quality);
        lib.destroy_compress(&j->out);
    } else {
        error_set(KILN_E_MEMORY, "%s: no memory", where);
    }
    if (j) free(j->buffer);
    free(j);
    return status;
}
#else
static kiln_status missing(const char *where)
{
    return error_set(KILN_E_UNSUPPORTED,
                     "%s: this build is without JPEG; it needs libjpeg62-turbo-dev and -Djpeg=enabled", where);
}

kiln_status image_read_jpeg(const struct image_source *s, struct image *out)
{
    return missing(s->where);
}

kiln_status image_write_jpeg(const char *where, const struct image *i, int quality, struct image_bytes *out)
{
    return missing(where);
}
#endif
