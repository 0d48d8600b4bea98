// safetensors: the length of the header (8 bytes, little-endian), the header in JSON, the data of all tensors without
// gaps. The header is an object: each name has {"dtype", "shape", "data_offsets"}, and "__metadata__", if there, maps
// strings to strings.
//
// Nothing in the header is believed: the length must fit the file, names must differ, the offsets of a tensor must
// agree with its dtype and shape, and in the order of their beginnings the tensors must follow each other from the
// first byte of the data to the last. So no tensor overlaps another or lies outside the file.
#include "io/kind.h"
#include "io/safetensors.h"
#include "base/dtype.h"
#include "io/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Those that Kiln lacks have a size only: files with them can be opened for their other tensors.
static const struct {
    const char *name;
    kiln_dtype of_size; // one of the same size, which stands in for it
} foreign[] = {{"F8_E8M0", KILN_U8}};

static bool find_dtype(const char *name, kiln_dtype *out, bool *known)
{
    *known = true;
    for (int i = 0; i <= KILN_U4; i++) {
        const char *known_name = dtype_safetensors((unsigned)i);
        if (known_name && !strcmp(name, known_name)) return *out = (kiln_dtype)i, true;
    }
    *known = false;
    for (size_t i = 0; i < COUNT_OF(foreign); i++)
        if (!strcmp(name, foreign[i].name)) return *out = foreign[i].of_size, true;
    return false;
}

kiln_status safetensors_header_size(const char *where, const unsigned char *prefix, uint64_t file_B, uint64_t *size_B)
{
    *size_B = 0;
    for (size_t i = 0; i < SAFETENSORS_PREFIX_B; i++) *size_B |= (uint64_t)prefix[i] << 8 * i;
    if (*size_B <= SAFETENSORS_HEADER_MAX_B && *size_B <= file_B - SAFETENSORS_PREFIX_B) return KILN_OK;
    return error_set(KILN_E_FORMAT, "%s: is not safetensors: a header of %" PRIu64 " bytes in a file of %" PRIu64 "%s",
                     where, *size_B, file_B, io_looks_like(prefix, SAFETENSORS_PREFIX_B));
}

// --- the header

struct field_state {
    bool dtype, shape, offsets;
};

static kiln_status parse_dtype(struct json *j, struct archive_entry *e)
{
    char *name;
    TRY(json_string(j, &name));
    size_t len = strlen(name);
    bool fits = len < sizeof e->dtype_name;
    if (fits)
        memcpy(e->dtype_name, name, len + 1);
    else
        error_set(KILN_E_FORMAT, "%s: \"%s\" has a dtype of %zu letters", j->where, e->name, len);
    free(name);
    return fits ? KILN_OK : error_pending;
}

static kiln_status parse_shape(struct json *j, struct archive_entry *e)
{
    TRY(json_expect(j, '['));
    if (json_take(j, ']')) return KILN_OK;
    do {
        uint64_t dim;
        TRY(json_u64(j, &dim));
        TRY(io_array_push(j->where, &e->array, dim));
    } while (json_take(j, ','));
    return json_expect(j, ']');
}

static kiln_status parse_offsets(struct json *j, struct archive_entry *e)
{
    uint64_t end;
    TRY(json_expect(j, '['));
    TRY(json_u64(j, &e->offset_B));
    TRY(json_expect(j, ','));
    TRY(json_u64(j, &end));
    TRY(json_expect(j, ']'));
    e->size_B = end - e->offset_B;
    if (end >= e->offset_B) return KILN_OK;
    return error_set(KILN_E_FORMAT, "%s: \"%s\" ends at %" PRIu64 ", before it begins at %" PRIu64, j->where, e->name,
                     end, e->offset_B);
}

static kiln_status parse_field(struct json *j, struct archive_entry *e, struct field_state *seen)
{
    char *key;
    TRY(json_string(j, &key));
    struct {
        const char *key;
        bool *seen;
        kiln_status (*parse)(struct json *, struct archive_entry *);
    } fields[] = {
        {"dtype", &seen->dtype, parse_dtype},
        {"shape", &seen->shape, parse_shape},
        {"data_offsets", &seen->offsets, parse_offsets},
    };
    kiln_status status = KILN_OK;
    size_t i = 0;
    while (i < COUNT_OF(fields) && strcmp(key, fields[i].key) != 0) i++;
    if (i == COUNT_OF(fields) || *fields[i].seen) {
        status = error_set(KILN_E_FORMAT, "%s: \"%s\" has the key \"%s\"%s", j->where, e->name, key,
                           i == COUNT_OF(fields) ? ", which is unknown" : " twice");
    }
    free(key);
    if (!status) status = json_expect(j, ':');
    if (status) return status;
    *fields[i].seen = true;
    return fields[i].parse(j, e);
}

static kiln_status check_entry(const char *where, struct archive_entry *e)
{
    bool known;
    struct io_array a = e->array;
    if (!find_dtype(e->dtype_name, &a.dtype, &known))
        return error_set(KILN_E_UNSUPPORTED, "%s: \"%s\" has the dtype \"%s\"", where, e->name, e->dtype_name);
    e->unsupported = !known;
    if (known) e->array.dtype = a.dtype;
    uint64_t size_B;
    TRY(io_array_size(where, &a, &size_B));
    if (size_B == e->size_B) return KILN_OK;
    char text[IO_ARRAY_TEXT];
    return error_set(KILN_E_FORMAT,
                     "%s: \"%s\" of dtype %s and shape %s has %" PRIu64 " bytes, its offsets say %" PRIu64, where,
                     e->name, e->dtype_name, strchr(io_array_text(&a, text), '['), size_B, e->size_B);
}

static kiln_status parse_tensor(struct json *j, struct archive_entry *e)
{
    struct field_state seen = {0};
    TRY(json_expect(j, '{'));
    do {
        TRY(parse_field(j, e, &seen));
    } while (json_take(j, ','));
    TRY(json_expect(j, '}'));
    if (seen.dtype && seen.shape && seen.offsets) return check_entry(j->where, e);
    return error_set(KILN_E_FORMAT, "%s: \"%s\" has no %s", j->where, e->name,
                     !seen.dtype   ? "dtype"
                     : !seen.shape ? "shape"
                                   : "data_offsets");
}

static kiln_status parse_metadata(struct json *j, struct archive_table *t)
{
    TRY(json_expect(j, '{'));
    if (json_take(j, '}')) return KILN_OK;
    do {
        struct archive_pair *pair = archive_add_pair(j->where, t);
        if (!pair) return error_pending;
        // Until both are there the pair does not count; what it has is freed here.
        t->n_pairs--;
        TRY(json_string(j, &pair->key));
        kiln_status status = json_expect(j, ':');
        if (!status) status = json_string(j, &pair->value);
        if (status) {
            free(pair->key);
            return status;
        }
        t->n_pairs++;
    } while (json_take(j, ','));
    return json_expect(j, '}');
}

static kiln_status parse_member(struct json *j, struct archive_table *t, bool *metadata)
{
    char *name;
    TRY(json_string(j, &name));
    if (strcmp(name, "__metadata__") == 0) {
        free(name);
        if (*metadata) return json_bad(j, "__metadata__ comes twice");
        *metadata = true;
        TRY(json_expect(j, ':'));
        return parse_metadata(j, t);
    }
    struct archive_entry *e = archive_add(j->where, t);
    if (!e) {
        free(name);
        return error_pending;
    }
    e->name = name;
    TRY(json_expect(j, ':'));
    return parse_tensor(j, e);
}

// Empty tensors go before the one that begins at the same place.
static int compare_places(const void *a, const void *b)
{
    const struct archive_entry *x = a, *y = b;
    if (x->offset_B != y->offset_B) return x->offset_B < y->offset_B ? -1 : 1;
    return x->size_B < y->size_B ? -1 : x->size_B > y->size_B;
}

static kiln_status check_places(const char *where, struct archive_table *t, uint64_t data_B)
{
    uint64_t at = 0;
    if (t->n) qsort(t->entries, t->n, sizeof *t->entries, compare_places);
    for (size_t i = 0; i < t->n; i++) {
        const struct archive_entry *e = &t->entries[i];
        if (e->offset_B != at || e->size_B > data_B - at) {
            return error_set(KILN_E_FORMAT,
                             "%s: \"%s\" has %" PRIu64 " bytes at %" PRIu64 "; the data before it ends at %" PRIu64
                             ", all data at %" PRIu64,
                             where, e->name, e->size_B, e->offset_B, at, data_B);
        }
        at += e->size_B;
    }
    if (at == data_B) return KILN_OK;
    return error_set(KILN_E_FORMAT, "%s: the tensors have %" PRIu64 " bytes, the file holds %" PRIu64, where, at,
                     data_B);
}

kiln_status safetensors_parse(const char *where, const char *json, uint64_t json_B, uint64_t data_B,
                              struct archive_table *t)
{
    struct json j = {.at = json, .end = json + json_B, .where = where};
    bool metadata = false;
    TRY(json_expect(&j, '{'));
    if (!json_take(&j, '}')) {
        do {
            TRY(parse_member(&j, t, &metadata));
        } while (json_take(&j, ','));
        TRY(json_expect(&j, '}'));
    }
    TRY(json_end(&j));
    TRY(check_places(where, t, data_B));
    return archive_check_names(where, t);
}

// --- archives

static kiln_status open_safetensors(struct io_reader *f, struct archive_table *t)
{
    unsigned char prefix[SAFETENSORS_PREFIX_B];
    uint64_t json_B;
    char *json;
    TRY(io_read(f, 0, prefix, sizeof prefix));
    TRY(safetensors_header_size(f->where, prefix, f->size_B, &json_B));
    TRY(io_alloc(f->where, json_B, &json));
    kiln_status status = io_read(f, SAFETENSORS_PREFIX_B, json, json_B);
    uint64_t data_at = SAFETENSORS_PREFIX_B + json_B;
    if (!status) status = safetensors_parse(f->where, json, json_B, f->size_B - data_at, t);
    free(json);
    for (size_t i = 0; !status && i < t->n; i++) t->entries[i].offset_B += data_at;
    return status;
}

static kiln_tensor *read_entry(struct kiln_archive *a, kiln_device *dev, const struct archive_entry *e)
{
    void *data;
    if (e->unsupported) {
        error_set(KILN_E_UNSUPPORTED, "%s: \"%s\" has the dtype %s", a->file.where, e->name, e->dtype_name);
        return NULL;
    }
    struct io_mapping m = {0}; // bools may have to be put right, which changes them
    if (e->array.dtype != KILN_BOOL) io_map(&a->file, e->offset_B, e->size_B, &m);
    kiln_tensor *t = NULL;
    if (m.whole) {
        t = kiln_from_data(dev, e->array.dtype, e->array.rank, e->array.dims, m.data);
        io_unmap(&m);
        return t;
    }
    if (io_alloc(a->file.where, e->size_B, &data)) return NULL;
    if (!io_read(&a->file, e->offset_B, data, e->size_B)) t = io_array_tensor(dev, &e->array, data);
    free(data);
    return t;
}

kiln_archive *kiln_safetensors_load(const char *path)
{
    static const struct archive_format format = {"safetensors_load", open_safetensors, read_entry, NULL};
    return archive_open(&format, path);
}

// --- writing

static void write_entry(FILE *f, const struct archive_entry *e)
{
    json_write_string(f, e->name);
    fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", dtype_safetensors(e->array.dtype));
    for (size_t k = 0; k < e->array.rank; k++) fprintf(f, k ? ",%" PRId64 : "%" PRId64, e->array.dims[k]);
    fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", e->offset_B, e->offset_B + e->size_B);
}

static void write_metadata(FILE *f, const struct archive_table *t)
{
    fputs("\"__metadata__\":{", f);
    for (size_t i = 0; i < t->n_pairs; i++) {
        if (i) fputc(',', f);
        json_write_string(f, t->pairs[i].key);
        fputc(':', f);
        json_write_string(f, t->pairs[i].value);
    }
    fputc('}', f);
}

static void place_entries(struct archive_table *t)
{
    uint64_t at = 0;
    for (size_t item_B = 8; item_B; item_B /= 2) {
        for (size_t i = 0; i < t->n; i++) {
            if (kiln_dtype_size(t->entries[i].array.dtype) != item_B) continue;
            t->entries[i].offset_B = at;
            at += t->entries[i].size_B;
        }
    }
    // A stable order of equal places: empty tensors first, as when read.
    if (t->n) qsort(t->entries, t->n, sizeof *t->entries, compare_places);
}

kiln_status safetensors_format(const char *where, struct archive_table *t, char **out, uint64_t *size_B)
{
    char *text = NULL;
    size_t text_B = 0;
    place_entries(t);
    FILE *f = open_memstream(&text, &text_B);
    if (!f) return error_set(KILN_E_MEMORY, "%s: no memory", where);
    for (size_t i = 0; i < SAFETENSORS_PREFIX_B; i++) fputc(0, f);
    fputc('{', f);
    if (t->n_pairs) write_metadata(f, t);
    for (size_t i = 0; i < t->n; i++) {
        if (i || t->n_pairs) fputc(',', f);
        write_entry(f, &t->entries[i]);
    }
    fputc('}', f);
    long n = ftell(f);
    for (; n % 8; n++) fputc(' ', f);
    bool failed = ferror(f);
    failed |= fclose(f) != 0;
    uint64_t header_B = text_B - SAFETENSORS_PREFIX_B;
    if (failed || header_B > SAFETENSORS_HEADER_MAX_B) {
        free(text);
        if (failed) return error_set(KILN_E_MEMORY, "%s: no memory", where);
        return error_set(KILN_E_UNSUPPORTED, "%s: a header of %" PRIu64 " bytes", where, header_B);
    }
    for (size_t i = 0; i < SAFETENSORS_PREFIX_B; i++) text[i] = (char)(header_B >> 8 * i & 255);
    *out = text;
    *size_B = text_B;
    return KILN_OK;
}

kiln_status safetensors_check_text(const char *where, const char *text)
{
    if (json_is_utf8(text, strlen(text))) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: a text is not UTF-8: %s", where, text);
}

kiln_status safetensors_check_name(const char *where, const char *name)
{
    if (strcmp(name, "__metadata__") != 0) return safetensors_check_text(where, name);
    return error_set(KILN_E_ARGUMENT, "%s: the name \"__metadata__\" is taken", where);
}

static kiln_status write_data(struct io_writer *w, const struct archive_table *t, kiln_tensor *const *tensors)
{
    for (size_t i = 0; i < t->n; i++) {
        struct io_array array;
        void *data;
        uint64_t size_B;
        TRY(io_array_read(w->where, tensors[t->entries[i].index], &array, &data, &size_B));
        kiln_status status = io_write(w, data, size_B);
        free(data);
        if (status) return status;
    }
    return KILN_OK;
}

static kiln_status add_tensors(const char *where, struct archive_table *t, const char *const *names,
                               kiln_tensor *const *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        TRY(safetensors_check_name(where, names[i]));
        struct archive_entry *e = archive_add(where, t);
        if (!e || !(e->name = io_strdup(where, names[i]))) return error_pending;
        e->index = i;
        e->array = (struct io_array){.dtype = kiln_tensor_dtype(tensors[i]), .rank = kiln_rank(tensors[i])};
        if (error_pending) return error_pending;
        if (!dtype_safetensors(e->array.dtype))
            return error_set(KILN_E_UNSUPPORTED, "%s: \"%s\" is %s, which safetensors has not: see %s", where, names[i],
                             kiln_dtype_name(e->array.dtype),
                             e->array.dtype == KILN_C128 ? "kiln_view_as_real" : "kiln_bitcast, to u8");
        if (e->array.rank) memcpy(e->array.dims, kiln_dims(tensors[i]), e->array.rank * sizeof e->array.dims[0]);
        TRY(io_array_size(where, &e->array, &e->size_B));
    }
    return KILN_OK;
}

static kiln_status add_pairs(const char *where, struct archive_table *t, const struct archive_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        TRY(safetensors_check_text(where, pairs[i].key));
        TRY(safetensors_check_text(where, pairs[i].value));
        struct archive_pair *p = archive_add_pair(where, t);
        if (!p || !(p->key = io_strdup(where, pairs[i].key)) || !(p->value = io_strdup(where, pairs[i].value)))
            return error_pending;
    }
    return KILN_OK;
}

kiln_status safetensors_write(const char *function, const char *path, const char *const *names,
                              kiln_tensor *const *tensors, size_t n, const struct archive_pair *pairs, size_t n_pairs)
{
    TRY(io_check_names(function, names, tensors, n));
    struct archive_table t = {0};
    struct io_writer w;
    char *header = NULL;
    uint64_t header_B;
    kiln_status status = add_tensors(function, &t, names, tensors, n);
    if (!status) status = add_pairs(function, &t, pairs, n_pairs);
    if (!status) status = safetensors_format(function, &t, &header, &header_B);
    if (!status) status = io_create(&w, function, path);
    if (!status) {
        status = io_write(&w, header, header_B);
        if (!status) status = write_data(&w, &t, tensors);
        if (!status) status = io_commit(&w);
        io_abandon(&w);
    }
    free(header);
    archive_table_free(&t);
    return status;
}

kiln_status kiln_safetensors_save(const char *path, const char *const *names, kiln_tensor *const *tensors, size_t n)
{
    if (error_pending) return error_pending;
    return safetensors_write("safetensors_save", path, names, tensors, n, NULL, 0);
}
