// Checkpoints: a safetensors file whose metadata holds what is no tensor.
//
// The metadata begins with "kiln.checkpoint", the version of this format, and "kiln.crc32", eight hexadecimal digits:
// the checksum of the whole file with these digits read as zeros. They stand at a fixed place, so that the checksum can
// be filled in after the header is made. The other entries are "int:" and decimal digits, "double:" and the 16
// hexadecimal digits of the bits, "string:" and the text.
#include "io/inflate.h"
#include "base/handles.h"
#include "io/safetensors.h"

#include <kiln/grad.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kiln_checkpoint {
    struct archive_table table;
};

static const char version_key[] = "kiln.checkpoint", version[] = "1";
static const char crc_key[] = "kiln.crc32", crc_zeros[] = "00000000";
// The first bytes of the header, up to the digits of the checksum.
static const char opening[] = "{\"__metadata__\":{\"kiln.checkpoint\":\"1\",\"kiln.crc32\":\"";
enum { CRC_DIGITS = 8, CRC_AT = SAFETENSORS_PREFIX_B + sizeof opening - 1 };

// --- entries

static kiln_status check(const char *function, const kiln_checkpoint *c)
{
    if (error_pending) return error_pending;
    return handle_check(function, "the checkpoint", HANDLE_CHECKPOINT, c);
}

static struct archive_entry *find_tensor(const kiln_checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->table.n; i++) {
        if (strcmp(c->table.entries[i].name, name) == 0) return &c->table.entries[i];
    }
    return NULL;
}

static struct archive_pair *find_pair(const kiln_checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->table.n_pairs; i++) {
        if (strcmp(c->table.pairs[i].key, name) == 0) return &c->table.pairs[i];
    }
    return NULL;
}

static void remove_entry(kiln_checkpoint *c, const char *name)
{
    struct archive_table *t = &c->table;
    struct archive_entry *e = find_tensor(c, name);
    struct archive_pair *p = find_pair(c, name);
    if (e) {
        free(e->name);
        free(e->data);
        t->n--;
        memmove(e, e + 1, (size_t)(t->entries + t->n - e) * sizeof *e);
    }
    if (p) {
        free(p->key);
        free(p->value);
        t->n_pairs--;
        memmove(p, p + 1, (size_t)(t->pairs + t->n_pairs - p) * sizeof *p);
    }
}

static kiln_status check_name(const char *function, const char *name)
{
    if (!name || !name[0]) return error_set(KILN_E_ARGUMENT, "%s: the name is empty", function);
    if (strncmp(name, "kiln.", 5) == 0) {
        return error_set(KILN_E_ARGUMENT, "%s: names that begin with \"kiln.\" are taken: \"%s\"", function, name);
    }
    return safetensors_check_name(function, name);
}

// Takes both texts, also when it fails.
static kiln_status add_pair(const char *function, kiln_checkpoint *c, char *key, char *value)
{
    struct archive_pair *p = key && value ? archive_add_pair(function, &c->table) : NULL;
    if (p) {
        *p = (struct archive_pair){key, value};
        return KILN_OK;
    }
    free(key);
    free(value);
    return error_set(KILN_E_MEMORY, "%s: no memory for an entry", function);
}

// Replaces what has the name by a text of the form "kind:...".
static kiln_status put_text(const char *function, kiln_checkpoint *c, const char *name, const char *kind,
                            const char *text)
{
    TRY(check(function, c));
    TRY(check_name(function, name));
    char *value = NULL;
    if (asprintf(&value, "%s:%s", kind, text) < 0) value = NULL;
    char *key = value ? strdup(name) : NULL;
    if (key) remove_entry(c, name);
    return add_pair(function, c, key, value);
}

static const char *get_text(const char *function, const kiln_checkpoint *c, const char *name, const char *kind)
{
    if (check(function, c)) return NULL;
    if (!name) {
        error_set(KILN_E_ARGUMENT, "%s: the name is NULL", function);
        return NULL;
    }
    const struct archive_pair *p = find_pair(c, name);
    size_t len = strlen(kind);
    if (p && strncmp(p->value, kind, len) == 0 && p->value[len] == ':') return p->value + len + 1;
    error_set(KILN_E_ARGUMENT, "%s: the checkpoint has no %s \"%s\"%s", function, kind, name,
              p || find_tensor(c, name) ? "; that entry is of another kind" : "");
    return NULL;
}

// --- life

kiln_checkpoint *kiln_checkpoint_create(void)
{
    if (error_pending) return NULL;
    kiln_checkpoint *c = handle_new(HANDLE_CHECKPOINT, sizeof *c);
    if (!c) {
        error_set(KILN_E_MEMORY, "checkpoint_create: no memory");
        return NULL;
    }
    if (add_pair("checkpoint_create", c, strdup(version_key), strdup(version)) ||
        add_pair("checkpoint_create", c, strdup(crc_key), strdup(crc_zeros)))
        kiln_checkpoint_free(&c);
    return c;
}

void kiln_checkpoint_free(kiln_checkpoint **c)
{
    if (!handle_may_free("checkpoint_free", HANDLE_CHECKPOINT, c)) return;
    archive_table_free(&(*c)->table);
    handle_free(HANDLE_CHECKPOINT, *c);
    *c = NULL;
}

static kiln_status write_checkpoint(struct io_writer *w, const struct archive_table *t, char *header, uint64_t header_B)
{
    uint32_t crc = io_crc(0, header, header_B);
    char digits[CRC_DIGITS + 1];
    for (size_t i = 0; i < t->n; i++) crc = io_crc(crc, t->entries[i].data, t->entries[i].size_B);
    snprintf(digits, sizeof digits, "%08" PRIx32, crc);
    memcpy(header + CRC_AT, digits, CRC_DIGITS);
    TRY(io_write(w, header, header_B));
    for (size_t i = 0; i < t->n; i++) TRY(io_write(w, t->entries[i].data, t->entries[i].size_B));
    return io_commit(w);
}

kiln_status kiln_checkpoint_save(kiln_checkpoint *c, const char *path)
{
    TRY(check("checkpoint_save", c));
    struct io_writer w;
    char *header;
    uint64_t header_B;
    TRY(safetensors_format("checkpoint_save", &c->table, &header, &header_B));
    kiln_status status = io_create(&w, "checkpoint_save", path);
    if (!status) {
        status = write_checkpoint(&w, &c->table, header, header_B);
        io_abandon(&w);
    }
    free(header);
    return status;
}

// Checks the opening of the header and puts zeros for the digits of the checksum.
static kiln_status take_crc(const char *where, char *header, uint64_t header_B, uint32_t *crc)
{
    size_t open_B = sizeof opening - 1, version_at = strlen("{\"__metadata__\":{\"kiln.checkpoint\":\"");
    if (header_B < open_B + CRC_DIGITS || memcmp(header, opening, version_at) != 0) {
        return error_set(KILN_E_FORMAT,
                         "%s: is a safetensors file, and is not a checkpoint; kiln_safetensors_load reads it", where);
    }
    if (memcmp(header, opening, open_B) != 0) {
        return error_set(KILN_E_UNSUPPORTED, "%s: is a checkpoint of another version than %s", where, version);
    }
    char digits[CRC_DIGITS + 1] = "", *end;
    memcpy(digits, header + open_B, CRC_DIGITS);
    *crc = (uint32_t)strtoul(digits, &end, 16);
    if (*end || strspn(digits, "0123456789abcdef") != CRC_DIGITS) {
        return error_set(KILN_E_FORMAT, "%s: the checkpoint's checksum is broken", where);
    }
    memcpy(header + open_B, crc_zeros, CRC_DIGITS);
    return KILN_OK;
}

static kiln_status read_tensors(const struct io_reader *f, uint64_t data_at, struct archive_table *t, uint32_t *crc)
{
    for (size_t i = 0; i < t->n; i++) {
        struct archive_entry *e = &t->entries[i];
        if (e->unsupported) {
            return error_set(KILN_E_UNSUPPORTED, "%s: \"%s\" has the dtype %s", f->where, e->name, e->dtype_name);
        }
        TRY(io_alloc(f->where, e->size_B, &e->data));
        TRY(io_read(f, data_at + e->offset_B, e->data, e->size_B));
        *crc = io_crc(*crc, e->data, e->size_B);
        io_fix_bools(&e->array, e->data);
    }
    return KILN_OK;
}

static kiln_status read_checkpoint(const struct io_reader *f, struct archive_table *t)
{
    unsigned char prefix[SAFETENSORS_PREFIX_B];
    char *header;
    uint64_t header_B;
    uint32_t expected = 0;
    TRY(io_read(f, 0, prefix, sizeof prefix));
    TRY(safetensors_header_size(f->where, prefix, f->size_B, &header_B));
    TRY(io_alloc(f->where, header_B, &header));
    uint64_t data_at = SAFETENSORS_PREFIX_B + header_B;
    kiln_status status = io_read(f, SAFETENSORS_PREFIX_B, header, header_B);
    if (!status) status = take_crc(f->where, header, header_B, &expected);
    if (!status) status = safetensors_parse(f->where, header, header_B, f->size_B - data_at, t);
    uint32_t crc = io_crc(io_crc(0, prefix, sizeof prefix), header, header_B);
    free(header);
    if (!status) status = read_tensors(f, data_at, t, &crc);
    if (!status && crc != expected) {
        status = error_set(KILN_E_FORMAT, "%s: the checksum is %08" PRIx32 ", the file says %08" PRIx32, f->where, crc,
                           expected);
    }
    return status;
}

kiln_checkpoint *kiln_checkpoint_load(const char *path)
{
    if (error_pending) return NULL;
    struct io_reader f;
    if (io_open(&f, "checkpoint_load", path)) return NULL;
    kiln_checkpoint *c = handle_new(HANDLE_CHECKPOINT, sizeof *c);
    kiln_status status = c ? read_checkpoint(&f, &c->table) : error_set(KILN_E_MEMORY, "%s: no memory", f.where);
    io_close(&f);
    if (status) kiln_checkpoint_free(&c);
    return c;
}

// --- tensors

static kiln_status put_tensor(kiln_checkpoint *c, const char *name, const kiln_tensor *tensor)
{
    struct io_array array;
    void *data;
    uint64_t size_B;
    TRY(io_array_read("checkpoint_put", tensor, &array, &data, &size_B));
    char *copy = io_strdup("checkpoint_put", name);
    if (copy) remove_entry(c, name);
    struct archive_entry *e = copy ? archive_add("checkpoint_put", &c->table) : NULL;
    if (!e) {
        free(copy);
        free(data);
        return error_pending;
    }
    e->name = copy;
    e->array = array;
    e->data = data;
    e->size_B = size_B;
    return KILN_OK;
}

kiln_status kiln_checkpoint_put(kiln_checkpoint *c, const char *const *names, kiln_tensor *const *tensors, size_t n)
{
    TRY(check("checkpoint_put", c));
    TRY(io_check_names("checkpoint_put", names, tensors, n));
    for (size_t i = 0; i < n; i++) TRY(check_name("checkpoint_put", names[i]));
    for (size_t i = 0; i < n; i++) TRY(put_tensor(c, names[i], tensors[i]));
    return KILN_OK;
}

static kiln_status check_fit(const kiln_checkpoint *c, const char *name, const kiln_tensor *t)
{
    const struct archive_entry *e = find_tensor(c, name);
    if (!e) return error_set(KILN_E_ARGUMENT, "checkpoint_restore: the checkpoint has no tensor \"%s\"", name);
    struct io_array to = {.dtype = kiln_tensor_dtype(t), .rank = kiln_rank(t)};
    if (error_pending) return error_pending;
    if (to.rank) memcpy(to.dims, kiln_dims(t), to.rank * sizeof to.dims[0]);
    bool same_shape = to.rank == e->array.rank && memcmp(to.dims, e->array.dims, to.rank * sizeof to.dims[0]) == 0;
    if (to.dtype == e->array.dtype && same_shape) return KILN_OK;
    char have[IO_ARRAY_TEXT], want[IO_ARRAY_TEXT];
    return error_set(same_shape ? KILN_E_DTYPE : KILN_E_SHAPE,
                     "checkpoint_restore: \"%s\" is %s in the checkpoint, the tensor to fill is %s", name,
                     io_array_text(&e->array, have), io_array_text(&to, want));
}

kiln_status kiln_checkpoint_restore(const kiln_checkpoint *c, const char *const *names, kiln_tensor *const *tensors,
                                    size_t n)
{
    TRY(check("checkpoint_restore", c));
    TRY(io_check_names("checkpoint_restore", names, tensors, n));
    for (size_t i = 0; i < n; i++) TRY(check_fit(c, names[i], tensors[i]));
    kiln_status status = KILN_OK;
    // A parameter may be written outside of gradients only.
    kiln_no_grad_begin();
    for (size_t i = 0; i < n && !status; i++) {
        const struct archive_entry *e = find_tensor(c, names[i]);
        status = kiln_write(tensors[i], e->data, (size_t)e->size_B);
    }
    kiln_no_grad_end();
    return status;
}

kiln_tensor *kiln_checkpoint_get(const kiln_checkpoint *c, kiln_device *dev, const char *name)
{
    if (check("checkpoint_get", c)) return NULL;
    const struct archive_entry *e = name ? find_tensor(c, name) : NULL;
    if (e) return kiln_from_data(dev, e->array.dtype, e->array.rank, e->array.dims, e->data);
    error_set(KILN_E_ARGUMENT, "checkpoint_get: the checkpoint has no tensor \"%s\"", name ? name : "(NULL)");
    return NULL;
}

bool kiln_checkpoint_has(const kiln_checkpoint *c, const char *name)
{
    return c && name && !handle_check("checkpoint_has", "the checkpoint", HANDLE_CHECKPOINT, c) &&
           strncmp(name, "kiln.", 5) != 0 && (find_tensor(c, name) || find_pair(c, name));
}

// --- the other kinds

kiln_status kiln_checkpoint_put_int(kiln_checkpoint *c, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return put_text("checkpoint_put_int", c, name, "int", text);
}

kiln_status kiln_checkpoint_put_double(kiln_checkpoint *c, const char *name, double value)
{
    char text[32];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    snprintf(text, sizeof text, "%016" PRIx64, bits);
    return put_text("checkpoint_put_double", c, name, "double", text);
}

kiln_status kiln_checkpoint_put_string(kiln_checkpoint *c, const char *name, const char *value)
{
    TRY(check("checkpoint_put_string", c));
    if (!value) return error_set(KILN_E_ARGUMENT, "checkpoint_put_string: the value is NULL");
    TRY(safetensors_check_text("checkpoint_put_string", value));
    return put_text("checkpoint_put_string", c, name, "string", value);
}

kiln_status kiln_checkpoint_get_int(const kiln_checkpoint *c, const char *name, int64_t *value)
{
    const char *text = get_text("checkpoint_get_int", c, name, "int");
    if (!text) return error_pending;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno) {
        return error_set(KILN_E_FORMAT, "checkpoint_get_int: \"%s\" is no integer: %s", name, text);
    }
    if (value) *value = v;
    return KILN_OK;
}

kiln_status kiln_checkpoint_get_double(const kiln_checkpoint *c, const char *name, double *value)
{
    const char *text = get_text("checkpoint_get_double", c, name, "double");
    if (!text) return error_pending;
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        return error_set(KILN_E_FORMAT, "checkpoint_get_double: \"%s\" is no number: %s", name, text);
    }
    uint64_t bits = strtoull(text, NULL, 16);
    if (value) memcpy(value, &bits, sizeof bits);
    return KILN_OK;
}

const char *kiln_checkpoint_get_string(const kiln_checkpoint *c, const char *name)
{
    return get_text("checkpoint_get_string", c, name, "string");
}
