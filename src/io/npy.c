// npy: "\x93NUMPY", a version of two bytes, the length of the header (2 bytes in version 1, else 4, little-endian), the
// header, the elements. The header is the text of a Python dict with exactly the keys descr (a text like '<f4'),
// fortran_order (True or False) and shape (a tuple of integers), padded with spaces to a newline. The parser takes any
// order of the keys, either quote and any white space, and nothing else.
#include "io/kind.h"
#include "io/npy.h"
#include "base/dtype.h"
#include "io/file.h"

#include <kiln/io.h>

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

kiln_status npy_data_at(const char *where, const unsigned char *prefix, uint64_t n, uint64_t *data_at)
{
    if (n < NPY_PREFIX_MIN_B || memcmp(prefix, magic, sizeof magic) != 0) {
        return error_set(KILN_E_FORMAT, "%s: is not npy: it does not begin with \\x93NUMPY%s", where,
                         io_looks_like(prefix, n));
    }
    unsigned version = prefix[6];
    if (version < 1 || version > 3 || prefix[7] != 0) {
        return error_set(KILN_E_UNSUPPORTED, "%s: npy version %u.%u", where, version, prefix[7]);
    }
    uint64_t start = version == 1 ? NPY_PREFIX_MIN_B : NPY_PREFIX_B;
    if (n < start) return error_set(KILN_E_FORMAT, "%s: the npy header is cut off", where);
    uint64_t header_B = prefix[8] | (uint64_t)prefix[9] << 8;
    if (version > 1) header_B |= (uint64_t)prefix[10] << 16 | (uint64_t)prefix[11] << 24;
    if (header_B > NPY_HEADER_MAX_B - start) {
        return error_set(KILN_E_FORMAT, "%s: an npy header of %" PRIu64 " bytes is too long", where, header_B);
    }
    *data_at = start + header_B;
    return KILN_OK;
}

struct reader {
    const char *at, *end, *where;
};

static kiln_status bad(const struct reader *r, const char *what)
{
    int n = (int)(r->end - r->at);
    return error_set(KILN_E_FORMAT, "%s: npy header: %s at \"%.*s\"", r->where, what, n < 24 ? n : 24, r->at);
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static bool take(struct reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool take_word(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    skip_space(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

// A text in either quote, without escapes.
static kiln_status read_text(struct reader *r, char *out, size_t cap)
{
    char quote = take(r, '\'') ? '\'' : take(r, '"') ? '"' : 0;
    if (!quote) return bad(r, "a text is expected");
    size_t n = 0;
    for (; r->at < r->end && *r->at != quote; r->at++) {
        bool plain = isprint((unsigned char)*r->at) && *r->at != '\\';
        if (n + 1 == cap || !plain) return bad(r, "this text is not expected");
        out[n++] = *r->at;
    }
    out[n] = '\0';
    return take(r, quote) ? KILN_OK : bad(r, "a text does not end");
}

static kiln_status read_descr(struct reader *r, struct npy_header *h)
{
    char text[32];
    const char *start = r->at;
    if (take(r, '[')) {
        r->at = start;
        return error_set(KILN_E_UNSUPPORTED, "%s: the npy holds a structured array", r->where);
    }
    TRY(read_text(r, text, sizeof text));
    size_t len = strlen(text);
    if (len > 1 && strchr("<>|=", text[0])) {
        for (int i = 0; i <= KILN_C128; i++) {
            const char *code = dtype_npy((unsigned)i);
            if (!code || strcmp(text + 1, code) != 0) continue;
            h->array.dtype = (kiln_dtype)i;
            h->swap = text[0] == '>';
            return KILN_OK;
        }
    }
    return error_set(KILN_E_UNSUPPORTED,
                     "%s: the npy dtype \"%s\" (b1, i1 to i8, u1 to u8, f2, f4, f8, c8 and c16 are read)", r->where,
                     text);
}

static kiln_status read_shape(struct reader *r, struct npy_header *h)
{
    if (!take(r, '(')) return bad(r, "a tuple is expected");
    h->array.rank = 0;
    while (!take(r, ')')) {
        skip_space(r);
        uint64_t dim = 0;
        const char *start = r->at;
        for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
            if (__builtin_mul_overflow(dim, 10u, &dim) || __builtin_add_overflow(dim, (uint64_t)(*r->at - '0'), &dim))
                return bad(r, "a dimension is too large");
        }
        if (r->at == start) return bad(r, "a dimension is expected");
        TRY(io_array_push(r->where, &h->array, dim));
        // Python 2 wrote long integers so.
        take(r, 'L');
        if (!take(r, ',')) {
            if (h->array.rank == 1 || !take(r, ')')) return bad(r, "a tuple does not end");
            break;
        }
    }
    return KILN_OK;
}

static kiln_status read_value(struct reader *r, struct npy_header *h, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[16];
    TRY(read_text(r, key, sizeof key));
    unsigned i = 0;
    while (i < COUNT_OF(keys) && strcmp(key, keys[i]) != 0) i++;
    if (i == COUNT_OF(keys)) return error_set(KILN_E_FORMAT, "%s: npy header: unknown key \"%s\"", r->where, key);
    if (*seen & 1u << i) return error_set(KILN_E_FORMAT, "%s: npy header: \"%s\" is given twice", r->where, key);
    *seen |= 1u << i;
    if (!take(r, ':')) return bad(r, "a colon is expected");
    if (i == 0) return read_descr(r, h);
    if (i == 2) return read_shape(r, h);
    h->fortran = take_word(r, "True");
    return h->fortran || take_word(r, "False") ? KILN_OK : bad(r, "True or False is expected");
}

kiln_status npy_parse(const char *where, const unsigned char *bytes, uint64_t data_at, struct npy_header *h)
{
    uint64_t start = bytes[6] == 1 ? NPY_PREFIX_MIN_B : NPY_PREFIX_B;
    struct reader r = {.at = (const char *)bytes + start, .end = (const char *)bytes + data_at, .where = where};
    *h = (struct npy_header){.data_at = data_at};
    unsigned seen = 0;
    if (!take(&r, '{')) return bad(&r, "a brace is expected");
    while (!take(&r, '}')) {
        TRY(read_value(&r, h, &seen));
        if (take(&r, ',')) continue;
        if (!take(&r, '}')) return bad(&r, "the dict does not end");
        break;
    }
    skip_space(&r);
    if (r.at != r.end) return bad(&r, "nothing more is expected");
    if (seen != 7) return error_set(KILN_E_FORMAT, "%s: npy header: descr, fortran_order or shape is missing", where);
    return io_array_size(where, &h->array, &h->size_B);
}

// Column-major to row-major: out[i0, i1, ...] = in[i0 + d0 * (i1 + d1 * ...)].
static void reorder(const struct io_array *a, const unsigned char *in, unsigned char *out, uint64_t size_B)
{
    size_t item_B = kiln_dtype_size(a->dtype);
    uint64_t n = size_B / item_B, strides[KILN_MAX_RANK], index[KILN_MAX_RANK] = {0}, stride = 1, from = 0;
    for (size_t i = 0; i < a->rank; i++) {
        strides[i] = stride;
        stride *= (uint64_t)a->dims[i];
    }
    for (uint64_t k = 0; k < n; k++) {
        memcpy(out + k * item_B, in + from * item_B, item_B);
        for (size_t axis = a->rank; axis-- > 0;) {
            from += strides[axis];
            if (++index[axis] < (uint64_t)a->dims[axis]) break;
            from -= index[axis] * strides[axis];
            index[axis] = 0;
        }
    }
}

kiln_tensor *npy_tensor(const char *where, kiln_device *dev, const struct npy_header *h, void *data)
{
    const struct io_array *a = &h->array;
    bool pairs = a->dtype == KILN_C64 || a->dtype == KILN_C128;
    if (h->swap) io_swap_bytes(data, h->size_B, kiln_dtype_size(a->dtype) >> pairs);
    if (!h->fortran || a->rank < 2) return io_array_tensor(dev, a, data);
    unsigned char *ordered;
    if (io_alloc(where, h->size_B, &ordered)) return NULL;
    reorder(a, data, ordered, h->size_B);
    kiln_tensor *t = io_array_tensor(dev, a, ordered);
    free(ordered);
    return t;
}

kiln_status npy_format(const char *where, const struct io_array *a, unsigned char *out, size_t *size_B)
{
    const char *descr = dtype_npy(a->dtype);
    if (!descr) {
        bool stored = a->dtype >= KILN_F8_E4M3;
        return error_set(KILN_E_UNSUPPORTED, "%s: npy has no %s; %s", where, kiln_dtype_name(a->dtype),
                         stored ? "see kiln_bitcast, to u8" : "cast to f32, or use safetensors");
    }
    char text[NPY_WRITE_MAX_B];
    int n = snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                     kiln_dtype_size(a->dtype) == 1 ? '|' : '<', descr);
    for (size_t i = 0; i < a->rank; i++) {
        const char *after = i + 1 < a->rank ? ", " : a->rank == 1 ? "," : "";
        n += snprintf(text + n, sizeof text - (size_t)n, "%" PRId64 "%s", a->dims[i], after);
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "), }");
    size_t whole_B = ((size_t)n + NPY_PREFIX_MIN_B + 1 + 63) / 64 * 64, header_B = whole_B - NPY_PREFIX_MIN_B;
    memset(out, ' ', whole_B);
    memcpy(out, magic, sizeof magic);
    out[6] = 1;
    out[7] = 0;
    out[8] = header_B & 255;
    out[9] = (unsigned char)(header_B >> 8);
    memcpy(out + NPY_PREFIX_MIN_B, text, (size_t)n);
    out[whole_B - 1] = '\n';
    *size_B = whole_B;
    return KILN_OK;
}

// --- public functions

static kiln_tensor *load(const struct io_reader *r, kiln_device *dev)
{
    unsigned char prefix[NPY_PREFIX_B], *bytes;
    uint64_t prefix_B = r->size_B < NPY_PREFIX_B ? r->size_B : NPY_PREFIX_B;
    struct npy_header h = {0};
    if (io_read(r, 0, prefix, prefix_B) || npy_data_at(r->where, prefix, prefix_B, &h.data_at) ||
        io_alloc(r->where, h.data_at, &bytes))
        return NULL;
    kiln_status status = io_read(r, 0, bytes, h.data_at);
    if (!status) status = npy_parse(r->where, bytes, h.data_at, &h);
    free(bytes);
    if (status) return NULL;
    if (h.size_B != r->size_B - h.data_at) {
        char text[IO_ARRAY_TEXT];
        error_set(KILN_E_FORMAT, "%s: %s has %" PRIu64 " bytes, the file holds %" PRIu64, r->where,
                  io_array_text(&h.array, text), h.size_B, r->size_B - h.data_at);
        return NULL;
    }
    if (io_alloc(r->where, h.size_B, &bytes)) return NULL;
    kiln_tensor *t = NULL;
    if (!io_read(r, h.data_at, bytes, h.size_B)) t = npy_tensor(r->where, dev, &h, bytes);
    free(bytes);
    return t;
}

kiln_tensor *kiln_npy_load(kiln_device *dev, const char *path)
{
    struct io_reader r;
    if (error_pending || io_open(&r, "npy_load", path)) return NULL;
    kiln_tensor *t = load(&r, dev);
    io_close(&r);
    return t;
}

kiln_status kiln_npy_save(const char *path, const kiln_tensor *t)
{
    if (error_pending) return error_pending;
    char *where = io_where("npy_save", path);
    if (!where) return error_pending;
    struct io_array array;
    struct io_writer w;
    unsigned char header[NPY_WRITE_MAX_B];
    void *data = NULL;
    uint64_t size_B = 0;
    size_t header_B = 0;
    kiln_status status = io_array_read(where, t, &array, &data, &size_B);
    if (!status) status = npy_format(where, &array, header, &header_B);
    if (!status) status = io_create(&w, "npy_save", path);
    if (!status) {
        status = io_write(&w, header, header_B);
        if (!status) status = io_write(&w, data, size_B);
        if (!status) status = io_commit(&w);
        io_abandon(&w);
    }
    free(data);
    free(where);
    return status;
}
