// GGUF: the files of llama.cpp and of others that use ggml. A header, pairs of metadata, the table of tensors, and from
// the next multiple of the alignment on the data. The format: ggml, docs/gguf.md. Versions 2 and 3, little-endian.
//
// The header is read through a window on the file, never whole: what the file says of lengths and counts is held
// against the bytes that are left before memory is taken. Of metadata that is long, as the words of a tokenizer, the
// text is. Tensors begin at multiples of the alignment, in the order of the table, and none overlaps the one before it.
#include "io/kind.h"
#include "io/archive.h"
#include "base/c_locale.h"
#include "base/blocks.h"
#include "io/ggml.h"
#include "io/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_B = 1 << 16, DEPTH_MAX = 8, ALIGNMENT = 32 };

enum gguf_kind {
    KIND_U8,
    KIND_I8,
    KIND_U16,
    KIND_I16,
    KIND_U32,
    KIND_I32,
    KIND_F32,
    KIND_TRUTH,
    KIND_TEXT,
    KIND_ARRAY,
    KIND_U64,
    KIND_I64,
    KIND_F64,
    KIND_COUNT
};
// Bytes of a value; of texts and arrays the fewest.
static const uint8_t kind_B[KIND_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

struct gguf_cursor {
    const struct io_reader *f;
    uint64_t at, from_B, size_B; // the window: size_B bytes of the file from from_B on
    unsigned char *window;
};

static uint64_t left_B(const struct gguf_cursor *c)
{
    return c->f->size_B - c->at;
}

static kiln_status take(struct gguf_cursor *c, void *out, uint64_t size_B)
{
    if (size_B > left_B(c))
        return error_set(KILN_E_FORMAT,
                         "%s: the file is cut off: %" PRIu64 " bytes at offset %" PRIu64 " are asked of %" PRIu64,
                         c->f->where, size_B, c->at, c->f->size_B);
    if (size_B > WINDOW_B) {
        TRY(io_read(c->f, c->at, out, size_B));
    } else {
        if (c->at < c->from_B || c->at + size_B > c->from_B + c->size_B) {
            c->from_B = c->at;
            c->size_B = left_B(c) < WINDOW_B ? left_B(c) : WINDOW_B;
            TRY(io_read(c->f, c->from_B, c->window, c->size_B));
        }
        memcpy(out, c->window + (c->at - c->from_B), (size_t)size_B);
    }
    c->at += size_B;
    return KILN_OK;
}

static kiln_status take_number(struct gguf_cursor *c, size_t size_B, uint64_t *out)
{
    unsigned char bytes[8];
    TRY(take(c, bytes, size_B));
    *out = 0;
    for (size_t i = 0; i < size_B; i++) *out |= (uint64_t)bytes[i] << 8 * i;
    return KILN_OK;
}

// A text with a 0 behind it, the caller's to free.
static kiln_status take_text(struct gguf_cursor *c, char **out, uint64_t *n)
{
    TRY(take_number(c, 8, n));
    if (*n > left_B(c))
        return error_set(KILN_E_FORMAT, "%s: a text of %" PRIu64 " bytes at offset %" PRIu64 " of a file of %" PRIu64,
                         c->f->where, *n, c->at, c->f->size_B);
    TRY(io_alloc(c->f->where, *n + 1, out));
    kiln_status status = take(c, *out, *n);
    (*out)[*n] = '\0';
    if (status) free(*out);
    return status;
}

// A text that users get as it is.
static kiln_status take_name(struct gguf_cursor *c, char **out)
{
    uint64_t n = 0;
    TRY(take_text(c, out, &n));
    if (!memchr(*out, 0, (size_t)n) && json_is_utf8(*out, (size_t)n)) return KILN_OK;
    free(*out);
    *out = NULL;
    return error_set(KILN_E_FORMAT, "%s: a text before offset %" PRIu64 " is not UTF-8, or has a zero byte in it",
                     c->f->where, c->at);
}

// --- metadata

static void write_number(FILE *f, uint32_t kind, uint64_t bits)
{
    char text[C_NUMBER_B];
    int unused_bits = 64 - 8 * kind_B[kind];
    uint32_t low = (uint32_t)bits;
    float single;
    double number;
    memcpy(&single, &low, sizeof single);
    memcpy(&number, &bits, sizeof number);
    if (kind == KIND_TRUTH)
        fputs(bits ? "true" : "false", f);
    else if (kind == KIND_F32 || kind == KIND_F64)
        fputs(c_shortest(text, kind == KIND_F32 ? (double)single : number, kind == KIND_F32), f);
    else if (kind == KIND_I8 || kind == KIND_I16 || kind == KIND_I32 || kind == KIND_I64)
        fprintf(f, "%" PRId64, (int64_t)(bits << unused_bits) >> unused_bits);
    else
        fprintf(f, "%" PRIu64, bits);
}

static kiln_status check_kind(const struct gguf_cursor *c, uint64_t kind)
{
    if (kind < KIND_COUNT) return KILN_OK;
    return error_set(KILN_E_FORMAT, "%s: metadata of type %" PRIu64 " before offset %" PRIu64, c->f->where, kind,
                     c->at);
}

static kiln_status copy_array(struct gguf_cursor *c, FILE *f, int depth);

// A value as text, texts in quotes.
static kiln_status copy_value(struct gguf_cursor *c, uint32_t kind, FILE *f, int depth)
{
    if (kind == KIND_ARRAY) return copy_array(c, f, depth);
    uint64_t n = 0;
    if (kind == KIND_TEXT) {
        char *text;
        TRY(take_text(c, &text, &n));
        json_write_text(f, text, (size_t)n);
        free(text);
        return KILN_OK;
    }
    TRY(take_number(c, kind_B[kind], &n));
    write_number(f, kind, n);
    return KILN_OK;
}

static kiln_status copy_array(struct gguf_cursor *c, FILE *f, int depth)
{
    uint64_t kind = 0, n = 0;
    TRY(take_number(c, 4, &kind));
    TRY(take_number(c, 8, &n));
    TRY(check_kind(c, kind));
    if (n > left_B(c) / kind_B[kind])
        return error_set(KILN_E_FORMAT,
                         "%s: an array of %" PRIu64 " values at offset %" PRIu64 " of a file of %" PRIu64 " bytes",
                         c->f->where, n, c->at, c->f->size_B);
    if (depth == DEPTH_MAX)
        return error_set(KILN_E_FORMAT, "%s: arrays in arrays, more than %d deep", c->f->where, DEPTH_MAX);
    fputc('[', f);
    for (uint64_t i = 0; i < n; i++) {
        if (i) fputs(", ", f);
        TRY(copy_value(c, (uint32_t)kind, f, depth + 1));
    }
    fputc(']', f);
    return KILN_OK;
}

static kiln_status take_value(struct gguf_cursor *c, uint32_t kind, char **out)
{
    if (kind == KIND_TEXT) return take_name(c, out);
    size_t size_B = 0;
    FILE *f = open_memstream(out, &size_B);
    if (!f) return error_set(KILN_E_MEMORY, "%s: no memory", c->f->where);
    kiln_status status = copy_value(c, kind, f, 0);
    bool failed = ferror(f);
    failed |= fclose(f) != 0;
    if (failed && !status) status = error_set(KILN_E_MEMORY, "%s: no memory for metadata", c->f->where);
    if (!status) return KILN_OK;
    free(*out);
    *out = NULL;
    return status;
}

static kiln_status read_pair(struct gguf_cursor *c, struct archive_table *t, uint64_t *alignment)
{
    uint64_t kind = 0;
    struct archive_pair *pair = archive_add_pair(c->f->where, t);
    if (!pair) return error_pending;
    TRY(take_name(c, &pair->key));
    TRY(take_number(c, 4, &kind));
    TRY(check_kind(c, kind));
    TRY(take_value(c, (uint32_t)kind, &pair->value));
    if (strcmp(pair->key, "general.alignment") != 0) return KILN_OK;
    *alignment = kind == KIND_U32 ? strtoull(pair->value, NULL, 10) : 0;
    if (*alignment && !(*alignment & (*alignment - 1))) return KILN_OK;
    return error_set(KILN_E_FORMAT, "%s: general.alignment is %s, it must be a power of two of type u32", c->f->where,
                     pair->value);
}

// --- tensors

// Bytes of the tensor, and what it is once it is read. Dimensions come with the one of neighbours first.
static kiln_status measure(const char *where, struct archive_entry *e, uint64_t number, const uint64_t *dims, size_t n)
{
    const struct ggml_type *type = number <= UINT32_MAX ? ggml_type_find((uint32_t)number) : NULL;
    static const struct ggml_type unknown = {.block = 1, .dtype = KILN_U8};
    e->index = (size_t)number;
    e->unsupported = !type || (type->block > 1 && !type->unpack);
    if (!type) {
        snprintf(e->dtype_name, sizeof e->dtype_name, "number %u", (unsigned)(number & 0xffff));
        type = &unknown;
    } else {
        snprintf(e->dtype_name, sizeof e->dtype_name, "%s", type->name);
    }
    for (size_t i = n; i-- > 0;) TRY(io_array_push(where, &e->array, dims[i]));
    // As many bytes as there are elements: no count of elements overflows from here on.
    e->array.dtype = KILN_U8;
    uint64_t elements, row = n ? dims[0] : 1;
    TRY(io_array_size(where, &e->array, &elements));
    e->array.dtype = type->dtype;
    if (row % type->block)
        return error_set(KILN_E_FORMAT, "%s: \"%s\" has rows of %" PRIu64 " elements, and %s packs %u together", where,
                         e->name, row, type->name, type->block);
    bool overflow = __builtin_mul_overflow(elements / type->block, type->block_B, &e->size_B);
    uint64_t read_B;
    if (!overflow) return io_array_size(where, &e->array, &read_B);
    return error_set(KILN_E_FORMAT, "%s: the size of \"%s\" overflows", where, e->name);
}

static kiln_status read_tensor(struct gguf_cursor *c, struct archive_table *t)
{
    uint64_t n = 0, number = 0, dims[KILN_MAX_RANK];
    struct archive_entry *e = archive_add(c->f->where, t);
    if (!e) return error_pending;
    TRY(take_name(c, &e->name));
    TRY(take_number(c, 4, &n));
    if (n > KILN_MAX_RANK)
        return error_set(KILN_E_UNSUPPORTED, "%s: \"%s\" has %" PRIu64 " dimensions, Kiln's have up to %d", c->f->where,
                         e->name, n, KILN_MAX_RANK);
    for (size_t i = 0; i < n; i++) TRY(take_number(c, 8, &dims[i]));
    TRY(take_number(c, 4, &number));
    TRY(take_number(c, 8, &e->offset_B));
    return measure(c->f->where, e, number, dims, (size_t)n);
}

// From offsets in the data to offsets in the file.
static kiln_status place(const struct io_reader *f, struct archive_table *t, uint64_t data_at, uint64_t alignment)
{
    uint64_t data_B = data_at < f->size_B ? f->size_B - data_at : 0, end_B = 0;
    bool whole = true; // all sizes are known
    for (size_t i = 0; i < t->n; i++) {
        struct archive_entry *e = &t->entries[i];
        if (e->offset_B % alignment)
            return error_set(KILN_E_FORMAT, "%s: \"%s\" begins at %" PRIu64 ", no multiple of the alignment %" PRIu64,
                             f->where, e->name, e->offset_B, alignment);
        if (e->offset_B < end_B || e->offset_B > data_B || e->size_B > data_B - e->offset_B)
            return error_set(KILN_E_FORMAT,
                             "%s: \"%s\" has %" PRIu64 " bytes at %" PRIu64 "; the data before it ends at %" PRIu64
                             ", all data at %" PRIu64,
                             f->where, e->name, e->size_B, e->offset_B, end_B, data_B);
        end_B = e->offset_B + e->size_B;
        e->offset_B += data_at;
        whole &= ggml_type_find((uint32_t)e->index) != NULL;
    }
    if (!whole || data_B - end_B < alignment) return KILN_OK;
    return error_set(KILN_E_FORMAT, "%s: the tensors end at %" PRIu64 ", the file at %" PRIu64, f->where,
                     data_at + end_B, f->size_B);
}

static kiln_status read_counts(struct gguf_cursor *c, uint64_t *tensors, uint64_t *pairs)
{
    enum { TENSOR_LEAST_B = 8 + 4 + 4 + 8, PAIR_LEAST_B = 8 + 4 + 1 };
    char mark[4];
    uint64_t version = 0;
    TRY(take(c, mark, sizeof mark));
    if (memcmp(mark, "GGUF", sizeof mark) != 0)
        return error_set(KILN_E_FORMAT, "%s: is not GGUF: it does not begin with these letters%s", c->f->where,
                         io_file_looks_like(c->f));
    TRY(take_number(c, 4, &version));
    if (version && !(version & 0xffff)) return error_set(KILN_E_UNSUPPORTED, "%s: a big-endian GGUF file", c->f->where);
    if (version != 2 && version != 3)
        return error_set(KILN_E_UNSUPPORTED, "%s: GGUF of version %" PRIu64 "; 2 and 3 can be read", c->f->where,
                         version);
    TRY(take_number(c, 8, tensors));
    TRY(take_number(c, 8, pairs));
    if (*tensors <= left_B(c) / TENSOR_LEAST_B && *pairs <= left_B(c) / PAIR_LEAST_B) return KILN_OK;
    return error_set(KILN_E_FORMAT,
                     "%s: %" PRIu64 " tensors and %" PRIu64 " pairs of metadata in a file of %" PRIu64 " bytes",
                     c->f->where, *tensors, *pairs, c->f->size_B);
}

static kiln_status read_all(struct gguf_cursor *c, struct archive_table *t)
{
    uint64_t tensors = 0, pairs = 0, alignment = ALIGNMENT;
    TRY(read_counts(c, &tensors, &pairs));
    for (uint64_t i = 0; i < pairs; i++) TRY(read_pair(c, t, &alignment));
    for (uint64_t i = 0; i < tensors; i++) TRY(read_tensor(c, t));
    uint64_t beyond = c->at % alignment;
    TRY(place(c->f, t, beyond ? c->at + (alignment - beyond) : c->at, alignment));
    return archive_check_names(c->f->where, t);
}

static kiln_status open_gguf(struct io_reader *f, struct archive_table *t)
{
    struct gguf_cursor c = {.f = f};
    TRY(io_alloc(f->where, WINDOW_B, &c.window));
    kiln_status status = read_all(&c, t);
    free(c.window);
    return status;
}

// --- one tensor

static kiln_tensor *unpack(const kiln_archive *a, kiln_device *dev, const struct archive_entry *e,
                           const struct ggml_type *type, const unsigned char *bytes)
{
    uint64_t size_B;
    float *out;
    if (io_array_size(a->file.where, &e->array, &size_B) || io_alloc(a->file.where, size_B, &out)) return NULL;
    uint64_t blocks = e->size_B / type->block_B;
    for (uint64_t i = 0; i < blocks; i++) type->unpack(bytes + i * type->block_B, out + i * type->block);
    kiln_tensor *t = kiln_from_data(dev, e->array.dtype, e->array.rank, e->array.dims, out);
    free(out);
    return t;
}

static const struct ggml_type *type_of(const kiln_archive *a, const struct archive_entry *e)
{
    if (!e->unsupported) return ggml_type_find((uint32_t)e->index);
    error_set(KILN_E_UNSUPPORTED, "%s: \"%s\" is of the type %s, which Kiln cannot read", a->file.where, e->name,
              e->dtype_name);
    return NULL;
}

static kiln_tensor *read_gguf(kiln_archive *a, kiln_device *dev, const struct archive_entry *e)
{
    const struct ggml_type *type = type_of(a, e);
    struct io_mapping m;
    void *copy;
    const void *bytes = type ? archive_bytes(a, e, &m, &copy) : NULL;
    if (!bytes) return NULL;
    kiln_tensor *t = type->unpack ? unpack(a, dev, e, type, bytes)
                                  : kiln_from_data(dev, type->dtype, e->array.rank, e->array.dims, bytes);
    free(copy);
    io_unmap(&m);
    return t;
}

static kiln_tensor *packed_gguf(kiln_archive *a, kiln_device *dev, const struct archive_entry *e, const char **format)
{
    const struct ggml_type *type = type_of(a, e);
    if (!type) return NULL;
    if (!type->unpack) {
        error_set(KILN_E_ARGUMENT, "archive_packed: \"%s\" in %s is %s, which is not packed: see kiln_archive_get",
                  e->name, a->file.where, type->name);
        return NULL;
    }
    struct io_array array = e->array;
    array.dims[array.rank - 1] = array.dims[array.rank - 1] / type->block * type->block_B;
    struct io_mapping m;
    void *copy;
    const void *bytes = archive_bytes(a, e, &m, &copy);
    if (!bytes) return NULL;
    kiln_tensor *t = kiln_from_data(dev, KILN_U8, array.rank, array.dims, bytes);
    if (t) *format = type->name;
    free(copy);
    io_unmap(&m);
    return t;
}

static bool is_packed(const struct archive_entry *e)
{
    return !e->unsupported && block_format_of((int64_t)e->index);
}

kiln_archive *kiln_gguf_load(const char *path)
{
    static const struct archive_format format = {"gguf_load", open_gguf, read_gguf, packed_gguf, is_packed};
    return archive_open(&format, path);
}
