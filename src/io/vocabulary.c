// Vocabularies: the bytes, or characters by their code points, and texts as their numbers.
#include "base/handles.h"
#include "base/options.h"
#include "io/file.h"

#include <kiln/text.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_POINTS = 0x110000, BYTES = 256, CHARACTER_B = 4 };

struct kiln_vocabulary {
    bool bytes;
    uint32_t *points; // sorted
    int64_t n;
    char *text; // the characters one after the other
};

static kiln_status check(const char *function, const kiln_vocabulary *v)
{
    if (error_pending) return error_pending;
    return handle_check(function, "the vocabulary", HANDLE_VOCABULARY, v);
}

// --- UTF-8

// The character at text[at], and its length; 0 for what is none: cut off, longer than need be, a surrogate, too large
// (RFC 3629).
static size_t character(const unsigned char *text, size_t left_B, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char b = text[0];
    size_t n = b < 0x80 ? 1 : b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
    if (b >= 0xf8 || (b >= 0x80 && b < 0xc0) || n > left_B) return 0;
    uint32_t p = n == 1 ? b : b & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        p = p << 6 | (text[i] & 0x3f);
    }
    *point = p;
    return p < least[n] || p >= CODE_POINTS || (p >= 0xd800 && p < 0xe000) ? 0 : n;
}

static size_t put_character(uint32_t p, char *out)
{
    unsigned char *o = (unsigned char *)out;
    if (p < 0x80) {
        o[0] = (unsigned char)p;
        return 1;
    }
    size_t n = p < 0x800 ? 2 : p < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, p >>= 6) o[i] = (unsigned char)(0x80 | (p & 0x3f));
    o[0] = (unsigned char)((0xf00u >> n & 0xff) | p);
    return n;
}

static kiln_status no_character(const char *where, const char *text, size_t at_B)
{
    return error_set(KILN_E_FORMAT, "%s: byte %zu, %02x, %s", where, at_B, (unsigned char)text[at_B],
                     text[at_B] ? "begins no character of UTF-8" : "is a character 0");
}

// --- making

static kiln_vocabulary *make(const char *where, int64_t n)
{
    kiln_vocabulary *v = handle_new(HANDLE_VOCABULARY, sizeof *v);
    if (v) {
        v->n = n;
        v->points = calloc((size_t)n + 1, sizeof *v->points);
        v->text = calloc((size_t)n + 1, CHARACTER_B);
    }
    if (v && v->points && v->text) return v;
    error_set(KILN_E_MEMORY, "%s: no memory for %" PRId64 " characters", where, n);
    kiln_vocabulary_free(&v);
    return NULL;
}

kiln_vocabulary *kiln_vocabulary_bytes(void)
{
    if (error_pending) return NULL;
    kiln_vocabulary *v = make("vocabulary_bytes", BYTES);
    if (v) v->bytes = true;
    return v;
}

void kiln_vocabulary_free(kiln_vocabulary **vocabulary)
{
    if (!handle_may_free("vocabulary_free", HANDLE_VOCABULARY, vocabulary)) return;
    kiln_vocabulary *v = *vocabulary;
    free(v->points);
    free(v->text);
    handle_free(HANDLE_VOCABULARY, v);
    *vocabulary = NULL;
}

static kiln_status mark_characters(const char *where, const char *text, size_t size_B, unsigned char *seen, int64_t *n)
{
    *n = 0;
    for (size_t at_B = 0; at_B < size_B;) {
        uint32_t point;
        size_t len = character((const unsigned char *)text + at_B, size_B - at_B, &point);
        if (len == 0 || point == 0) return no_character(where, text, at_B);
        *n += !seen[point];
        seen[point] = 1;
        at_B += len;
    }
    return KILN_OK;
}

static kiln_vocabulary *of_text(const char *where, const char *text, size_t size_B)
{
    unsigned char *seen = calloc(CODE_POINTS, 1);
    int64_t n;
    kiln_vocabulary *v = NULL;
    if (!seen)
        error_set(KILN_E_MEMORY, "%s: no memory", where);
    else if (!mark_characters(where, text, size_B, seen, &n))
        v = make(where, n);
    size_t at_B = 0;
    int64_t id = 0;
    for (uint32_t p = 0; v && p < CODE_POINTS; p++) {
        if (!seen[p]) continue;
        v->points[id++] = p;
        at_B += put_character(p, v->text + at_B);
    }
    free(seen);
    return v;
}

kiln_vocabulary *kiln_vocabulary_characters(const char *text, size_t size_B)
{
    if (error_pending) return NULL;
    if (text || !size_B) return of_text("vocabulary_characters", text, size_B);
    error_set(KILN_E_ARGUMENT, "vocabulary_characters: the text is NULL");
    return NULL;
}

static kiln_status read_whole(const char *function, const char *path, struct io_reader *f, char **text)
{
    *text = NULL;
    TRY(io_open(f, function, path));
    TRY(io_alloc(f->where, f->size_B, text));
    return io_read(f, 0, *text, f->size_B);
}

kiln_vocabulary *kiln_vocabulary_of_file(const char *path)
{
    struct io_reader f;
    char *text;
    if (error_pending) return NULL;
    kiln_vocabulary *v = NULL;
    if (!read_whole("vocabulary_of_file", path, &f, &text)) v = of_text(f.where, text, (size_t)f.size_B);
    free(text);
    io_close(&f);
    return v;
}

int64_t kiln_vocabulary_count(const kiln_vocabulary *vocabulary)
{
    return check("vocabulary_count", vocabulary) ? 0 : vocabulary->n;
}

const char *kiln_vocabulary_text(const kiln_vocabulary *vocabulary)
{
    return check("vocabulary_text", vocabulary) ? NULL : vocabulary->text;
}

// --- to numbers

static int compare_points(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int64_t id_of(const kiln_vocabulary *v, uint32_t point)
{
    const uint32_t *found = bsearch(&point, v->points, (size_t)v->n, sizeof point, compare_points);
    return found ? found - v->points : -1;
}

static kiln_status encode_characters(const kiln_vocabulary *v, const char *where, const char *text, size_t size_B,
                                     bool drop, int64_t *ids, int64_t *n)
{
    *n = 0;
    for (size_t at_B = 0; at_B < size_B;) {
        uint32_t point;
        size_t len = character((const unsigned char *)text + at_B, size_B - at_B, &point);
        if (len == 0) return no_character(where, text, at_B);
        int64_t id = id_of(v, point);
        if (id < 0 && !drop)
            return error_set(KILN_E_ARGUMENT, "%s: \"%.*s\" (U+%04" PRIX32 ") at byte %zu is not in the vocabulary",
                             where, (int)len, text + at_B, point, at_B);
        if (id >= 0) ids[(*n)++] = id;
        at_B += len;
    }
    return KILN_OK;
}

static kiln_tensor *encode(const kiln_vocabulary *v, const char *where, kiln_device *dev, const char *text,
                           size_t size_B, bool drop)
{
    int64_t *ids, n = (int64_t)size_B;
    kiln_tensor *t = NULL;
    if (size_B > PTRDIFF_MAX / sizeof *ids || io_alloc(where, size_B * sizeof *ids, &ids)) {
        error_set(KILN_E_MEMORY, "%s: no memory for %zu numbers", where, size_B);
        return NULL;
    }
    kiln_status status = KILN_OK;
    for (size_t i = 0; v->bytes && i < size_B; i++) ids[i] = (unsigned char)text[i];
    if (!v->bytes) status = encode_characters(v, where, text, size_B, drop, ids, &n);
    if (!status) t = kiln_from_data(dev, KILN_I64, KILN_SHAPE(n), ids);
    free(ids);
    return t;
}

kiln_tensor *kiln_encode(const kiln_vocabulary *vocabulary, kiln_device *dev, const char *text, size_t size_B,
                         const kiln_encode_opts *opts)
{
    kiln_encode_opts o;
    if (options_read("encode", KILN_ENCODE, &o, opts) || check("encode", vocabulary)) return NULL;
    if (text || !size_B) return encode(vocabulary, "encode", dev, text, size_B, o.drop_unknown);
    error_set(KILN_E_ARGUMENT, "encode: the text is NULL");
    return NULL;
}

kiln_tensor *kiln_encode_file(const kiln_vocabulary *vocabulary, kiln_device *dev, const char *path,
                              const kiln_encode_opts *opts)
{
    kiln_encode_opts o;
    struct io_reader f;
    char *text;
    if (options_read("encode_file", KILN_ENCODE, &o, opts) || check("encode_file", vocabulary)) return NULL;
    kiln_tensor *t = NULL;
    if (!read_whole("encode_file", path, &f, &text))
        t = encode(vocabulary, f.where, dev, text, (size_t)f.size_B, o.drop_unknown);
    free(text);
    io_close(&f);
    return t;
}

// --- and back

static int64_t load_id(kiln_dtype dtype, const void *ids, int64_t i)
{
    switch (dtype) {
    case KILN_U8: return ((const uint8_t *)ids)[i];
    case KILN_I8: return ((const int8_t *)ids)[i];
    case KILN_I16: return ((const int16_t *)ids)[i];
    case KILN_I32: return ((const int32_t *)ids)[i];
    default: return ((const int64_t *)ids)[i];
    }
}

static kiln_status decode(const kiln_vocabulary *v, kiln_dtype dtype, const void *ids, int64_t n, char *out,
                          size_t *size_B)
{
    *size_B = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t id = load_id(dtype, ids, i);
        if (id < 0 || id >= v->n)
            return error_set(KILN_E_ARGUMENT, "decode: element %" PRId64 " is %" PRId64 ", of %" PRId64 " characters",
                             i, id, v->n);
        if (v->bytes)
            out[(*size_B)++] = (char)id;
        else
            *size_B += put_character(v->points[id], out + *size_B);
    }
    out[*size_B] = '\0';
    return KILN_OK;
}

char *kiln_decode(const kiln_vocabulary *vocabulary, const kiln_tensor *ids, size_t *size_B)
{
    if (check("decode", vocabulary)) return NULL;
    kiln_dtype dtype = ids ? kiln_tensor_dtype(ids) : KILN_I64;
    if (!ids) error_set(KILN_E_ARGUMENT, "decode: ids is NULL");
    if (error_pending) return NULL;
    if (dtype < KILN_U8 || dtype > KILN_I64) {
        error_set(KILN_E_DTYPE, "decode: ids are %s, not integers", kiln_dtype_name(dtype));
        return NULL;
    }
    size_t n = (size_t)kiln_numel(ids), item_B = kiln_dtype_size(dtype), length_B;
    void *v = malloc(n * item_B + 1);
    char *out = v ? malloc(n * CHARACTER_B + 1) : NULL;
    if (!out) error_set(KILN_E_MEMORY, "decode: no memory for %zu characters", n);
    if (!out || kiln_read(ids, v, n * item_B) || decode(vocabulary, dtype, v, (int64_t)n, out, &length_B)) {
        free(out);
        out = NULL;
    } else if (size_B) {
        *size_B = length_B;
    }
    free(v);
    return out;
}
