// WAV: chunks of "RIFF" (Multimedia Programming Interface, IBM and Microsoft 1991; the extensible form of 2001).
// Samples of a frame stand side by side; tensors have a row for each channel.
#include "base/options.h"
#include "io/array.h"
#include "io/file.h"

#include <kiln/media.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_PCM = 1, TAG_FLOAT = 3, TAG_EXTENSIBLE = 0xfffe, FMT_B = 16, EXTENSIBLE_B = 40, PIECE_FRAMES = 4096 };

// What follows the tag in the subformat of the extensible form.
static const unsigned char guid_tail[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};

struct wav_form {
    unsigned tag, channels, bits;
    uint32_t rate;
    uint64_t frames, data_at_B;
};

static uint32_t get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static unsigned get_u16(const unsigned char *p)
{
    return (unsigned)p[0] | (unsigned)p[1] << 8;
}

static size_t frame_B(const struct wav_form *w)
{
    return (size_t)w->channels * (w->bits / 8);
}

// --- reading

static kiln_status read_form(const struct io_reader *f, uint64_t at_B, uint32_t size_B, struct wav_form *w)
{
    unsigned char b[EXTENSIBLE_B] = {0};
    if (size_B < FMT_B) return error_set(KILN_E_FORMAT, "%s: a form of %u bytes", f->where, size_B);
    TRY(io_read(f, at_B, b, size_B < EXTENSIBLE_B ? size_B : EXTENSIBLE_B));
    w->tag = get_u16(b);
    w->channels = get_u16(b + 2);
    w->rate = get_u32(b + 4);
    w->bits = get_u16(b + 14);
    if (w->tag == TAG_EXTENSIBLE) {
        if (size_B < EXTENSIBLE_B || memcmp(b + 26, guid_tail, sizeof guid_tail))
            return error_set(KILN_E_UNSUPPORTED, "%s: an extensible form of an unknown kind", f->where);
        w->tag = get_u16(b + 24);
    }
    bool pcm = w->tag == TAG_PCM && (w->bits == 8 || w->bits == 16 || w->bits == 24 || w->bits == 32);
    if (!pcm && !(w->tag == TAG_FLOAT && (w->bits == 32 || w->bits == 64)))
        return error_set(KILN_E_UNSUPPORTED, "%s: samples of kind %u with %u bits", f->where, w->tag, w->bits);
    if (w->channels == 0 || get_u16(b + 12) != frame_B(w))
        return error_set(KILN_E_FORMAT, "%s: %u channels of %u bits in frames of %u bytes", f->where, w->channels,
                         w->bits, get_u16(b + 12));
    return KILN_OK;
}

static kiln_status read_data(const struct io_reader *f, uint64_t at_B, uint32_t said_B, struct wav_form *w)
{
    uint64_t left_B = f->size_B - at_B, size_B = said_B;
    bool open_end = said_B == UINT32_MAX || (said_B == 0 && left_B);
    if (open_end)
        size_B = left_B - left_B % frame_B(w);
    else if (size_B > left_B)
        return error_set(KILN_E_FORMAT, "%s: the file is cut off: it has %" PRIu64 " of %u bytes of samples", f->where,
                         left_B, said_B);
    if (size_B % frame_B(w))
        return error_set(KILN_E_FORMAT, "%s: %u bytes of samples are no whole number of frames", f->where, said_B);
    w->frames = size_B / frame_B(w);
    w->data_at_B = at_B;
    return KILN_OK;
}

// Goes from chunk to chunk, up to the samples.
static kiln_status read_header(const struct io_reader *f, struct wav_form *w)
{
    unsigned char b[12];
    bool has_form = false;
    TRY(io_read(f, 0, b, sizeof b));
    if (memcmp(b, "RIFF", 4) || memcmp(b + 8, "WAVE", 4)) return error_set(KILN_E_FORMAT, "%s: is not WAV", f->where);
    for (uint64_t at_B = sizeof b;;) {
        TRY(io_read(f, at_B, b, 8));
        uint32_t size_B = get_u32(b + 4);
        at_B += 8;
        if (!memcmp(b, "data", 4)) {
            if (!has_form) return error_set(KILN_E_FORMAT, "%s: samples come before their form", f->where);
            return read_data(f, at_B, size_B, w);
        }
        if (!memcmp(b, "fmt ", 4)) {
            TRY(read_form(f, at_B, size_B, w));
            has_form = true;
        }
        at_B += size_B + (size_B & 1);
    }
}

static double sample_of(const struct wav_form *w, const unsigned char *p)
{
    if (w->tag == TAG_FLOAT && w->bits == 64) {
        uint64_t bits = get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
        double v;
        memcpy(&v, &bits, sizeof v);
        return v;
    }
    if (w->tag == TAG_FLOAT) {
        uint32_t bits = get_u32(p);
        float v;
        memcpy(&v, &bits, sizeof v);
        return (double)v;
    }
    switch (w->bits) {
    case 8: return ((int)p[0] - 128) / 128.0;
    case 16: return (int16_t)get_u16(p) / 32768.0;
    case 24: return (int32_t)((uint32_t)p[0] << 8 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 24) / 2147483648.0;
    default: return (int32_t)get_u32(p) / 2147483648.0;
    }
}

static void store(void *out, kiln_dtype dtype, uint64_t i, double v)
{
    if (dtype == KILN_F32)
        ((float *)out)[i] = (float)v;
    else
        ((double *)out)[i] = v;
}

static kiln_status read_samples(const struct io_reader *f, const struct wav_form *w, kiln_dtype dtype, void *out)
{
    size_t size_B = frame_B(w);
    unsigned char *piece;
    TRY(io_alloc(f->where, PIECE_FRAMES * size_B, &piece));
    kiln_status status = KILN_OK;
    for (uint64_t from = 0; from < w->frames && !status; from += PIECE_FRAMES) {
        uint64_t n = w->frames - from < PIECE_FRAMES ? w->frames - from : PIECE_FRAMES;
        status = io_read(f, w->data_at_B + from * size_B, piece, n * size_B);
        for (uint64_t i = 0; i < n && !status; i++)
            for (unsigned c = 0; c < w->channels; c++)
                store(out, dtype, c * w->frames + from + i, sample_of(w, piece + i * size_B + c * (w->bits / 8)));
    }
    free(piece);
    return status;
}

static kiln_tensor *load(const struct io_reader *f, kiln_device *dev, double *rate, kiln_dtype dtype)
{
    struct wav_form w = {0};
    if (read_header(f, &w)) return NULL;
    struct io_array a = {.dtype = dtype, .rank = 2, .dims = {w.channels, (int64_t)w.frames}};
    uint64_t size_B;
    void *data;
    if (io_array_size(f->where, &a, &size_B) || io_alloc(f->where, size_B, &data)) return NULL;
    kiln_tensor *t = read_samples(f, &w, dtype, data) ? NULL : io_array_tensor(dev, &a, data);
    free(data);
    if (t && rate) *rate = w.rate;
    return t;
}

kiln_tensor *kiln_load_wav(kiln_device *dev, const char *path, double *rate, const kiln_load_wav_opts *opts)
{
    kiln_load_wav_opts o;
    struct io_reader f;
    if (options_read("load_wav", KILN_LOAD_WAV, &o, opts) || error_pending) return NULL;
    kiln_dtype dtype = o.dtype == KILN_BOOL ? KILN_F32 : o.dtype;
    if (dtype != KILN_F32 && dtype != KILN_F64) {
        error_set(KILN_E_DTYPE, "load_wav: .dtype is %s, f32 and f64 are allowed", kiln_dtype_name(dtype));
        return NULL;
    }
    if (io_open(&f, "load_wav", path)) return NULL;
    kiln_tensor *t = load(&f, dev, rate, dtype);
    io_close(&f);
    return t;
}

// --- writing

static unsigned char *put(unsigned char *p, uint64_t v, size_t size_B)
{
    for (size_t i = 0; i < size_B; i++) p[i] = (unsigned char)(v >> 8 * i);
    return p + size_B;
}

static unsigned char *put_text(unsigned char *p, const char *text)
{
    memcpy(p, text, 4);
    return p + 4;
}

// Up to the samples. Floats too have an extension's size, and the number of frames in a chunk of its own.
static size_t make_header(const struct wav_form *w, unsigned char *out)
{
    bool extensible = w->channels > 2 || (w->tag == TAG_PCM && w->bits > 16), plain = w->tag == TAG_PCM && !extensible;
    uint64_t size_B = w->frames * frame_B(w);
    uint32_t form_B = extensible ? EXTENSIBLE_B : plain ? FMT_B : FMT_B + 2;
    uint64_t riff_B = 4 + 8 + form_B + (plain ? 0 : 12) + 8 + size_B + (size_B & 1);
    unsigned char *p = put(put_text(out, "RIFF"), riff_B, 4);
    p = put(put_text(put_text(p, "WAVE"), "fmt "), form_B, 4);
    p = put(put(p, extensible ? TAG_EXTENSIBLE : w->tag, 2), w->channels, 2);
    p = put(put(p, w->rate, 4), (uint64_t)w->rate * frame_B(w), 4);
    p = put(put(p, frame_B(w), 2), w->bits, 2);
    if (!plain) p = put(p, extensible ? EXTENSIBLE_B - FMT_B - 2 : 0, 2);
    if (extensible) {
        p = put(put(put(p, w->bits, 2), 0, 4), w->tag, 2);
        memcpy(p, guid_tail, sizeof guid_tail);
        p += sizeof guid_tail;
    }
    if (!plain) p = put(put(put_text(p, "fact"), 4, 4), w->frames, 4);
    p = put(put_text(p, "data"), size_B, 4);
    return (size_t)(p - out);
}

static void put_sample(const struct wav_form *w, unsigned char *p, double v)
{
    if (w->tag == TAG_FLOAT) {
        float narrow = (float)v;
        uint32_t bits;
        uint64_t wide;
        memcpy(&bits, &narrow, sizeof bits);
        memcpy(&wide, &v, sizeof wide);
        put(p, w->bits == 64 ? wide : bits, w->bits / 8);
        return;
    }
    double half = ldexp(1, (int)w->bits - 1), scaled = rint(v * half);
    int64_t n = isnan(v) ? 0 : scaled <= -half ? (int64_t)-half : scaled >= half ? (int64_t)half - 1 : (int64_t)scaled;
    put(p, (uint64_t)(w->bits == 8 ? n + 128 : n), w->bits / 8);
}

static kiln_status write_samples(struct io_writer *out, const struct wav_form *w, kiln_dtype dtype, const void *data)
{
    size_t size_B = frame_B(w);
    unsigned char *piece;
    TRY(io_alloc(out->where, PIECE_FRAMES * size_B, &piece));
    kiln_status status = KILN_OK;
    for (uint64_t from = 0; from < w->frames && !status; from += PIECE_FRAMES) {
        uint64_t n = w->frames - from < PIECE_FRAMES ? w->frames - from : PIECE_FRAMES;
        for (uint64_t i = 0; i < n; i++) {
            for (unsigned c = 0; c < w->channels; c++) {
                uint64_t at = c * w->frames + from + i;
                double v = dtype == KILN_F32 ? (double)((const float *)data)[at] : ((const double *)data)[at];
                put_sample(w, piece + i * size_B + c * (w->bits / 8), v);
            }
        }
        status = io_write(out, piece, n * size_B);
    }
    free(piece);
    if (!status && w->frames * size_B % 2) status = io_write(out, "", 1);
    return status;
}

static kiln_status make_form(const kiln_tensor *t, double rate, const kiln_save_wav_opts *o, struct wav_form *w)
{
    kiln_dtype dtype = kiln_tensor_dtype(t);
    size_t rank = kiln_rank(t);
    if (error_pending) return error_pending;
    if (dtype != KILN_F32 && dtype != KILN_F64)
        return error_set(KILN_E_DTYPE, "save_wav: the sound is %s, not f32 or f64", kiln_dtype_name(dtype));
    int64_t channels = rank == 2 ? kiln_dims(t)[0] : 1, frames = rank ? kiln_dims(t)[rank - 1] : 0;
    if (rank < 1 || rank > 2 || channels < 1 || channels > 65535 / 8)
        return error_set(KILN_E_SHAPE,
                         "save_wav: a sound is [channels, frames] or [frames] with 1 to %d channels; the "
                         "rank is %zu, and %" PRId64 " channels",
                         65535 / 8, rank, channels);
    int64_t bits = o->bits ? o->bits : o->as_floats ? 32 : 16;
    bool known = o->as_floats ? bits == 32 || bits == 64 : bits == 8 || bits == 16 || bits == 24 || bits == 32;
    if (!known || !(rate >= 0.5 && rate < 4294967295.0))
        return error_set(KILN_E_ARGUMENT, "save_wav: %s of %" PRId64 " bits, %g frames in a second",
                         o->as_floats ? "floats" : "integers", bits, rate);
    *w = (struct wav_form){.tag = o->as_floats ? TAG_FLOAT : TAG_PCM,
                           .channels = (unsigned)channels,
                           .bits = (unsigned)bits,
                           .rate = (uint32_t)rint(rate),
                           .frames = (uint64_t)frames};
    if (w->frames <= (UINT32_MAX - 128) / frame_B(w)) return KILN_OK;
    return error_set(KILN_E_UNSUPPORTED, "save_wav: %" PRId64 " frames of %zu bytes are 4 GiB or more", frames,
                     frame_B(w));
}

static kiln_status write_file(const char *path, const struct wav_form *w, kiln_dtype dtype, const void *data)
{
    struct io_writer out;
    unsigned char header[128];
    size_t header_B = make_header(w, header);
    TRY(io_create(&out, "save_wav", path));
    kiln_status status = io_write(&out, header, header_B);
    if (!status) status = write_samples(&out, w, dtype, data);
    if (!status) status = io_commit(&out);
    io_abandon(&out);
    return status;
}

kiln_status kiln_save_wav(const char *path, const kiln_tensor *t, double rate, const kiln_save_wav_opts *opts)
{
    kiln_save_wav_opts o;
    struct wav_form w;
    struct io_array a;
    void *data;
    uint64_t size_B;
    TRY(options_read("save_wav", KILN_SAVE_WAV, &o, opts));
    if (error_pending) return error_pending;
    if (!path || !t) return error_set(KILN_E_ARGUMENT, "save_wav: %s is NULL", path ? "the sound" : "the path");
    TRY(make_form(t, rate, &o, &w));
    TRY(io_array_read("save_wav", t, &a, &data, &size_B));
    kiln_status status = write_file(path, &w, a.dtype, data);
    free(data);
    return status;
}
