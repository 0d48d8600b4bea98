// Archives once they are open: entries and metadata are added, checked, counted, found and freed.
#include "io/archive.h"
#include "base/handles.h"
#include "base/nearest.h"

#include <stdlib.h>
#include <string.h>

// Room for one more item of item_B bytes, zeroed.
static void *add(const char *where, void **items, size_t *n, size_t *cap, size_t item_B)
{
    if (*n == *cap) {
        size_t more = *cap ? *cap * 2 : 16;
        void *grown = more <= SIZE_MAX / item_B ? realloc(*items, more * item_B) : NULL;
        if (!grown) {
            error_set(KILN_E_MEMORY, "%s: no memory for a table of %zu entries", where, more);
            return NULL;
        }
        *items = grown;
        *cap = more;
    }
    void *item = (char *)*items + *n * item_B;
    memset(item, 0, item_B);
    (*n)++;
    return item;
}

struct archive_entry *archive_add(const char *where, struct archive_table *t)
{
    void *items = t->entries, *item = add(where, &items, &t->n, &t->cap, sizeof *t->entries);
    t->entries = items;
    return item;
}

struct archive_pair *archive_add_pair(const char *where, struct archive_table *t)
{
    void *items = t->pairs, *item = add(where, &items, &t->n_pairs, &t->cap_pairs, sizeof *t->pairs);
    t->pairs = items;
    return item;
}

void archive_table_free(struct archive_table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->entries[i].name);
        free(t->entries[i].data);
    }
    for (size_t i = 0; i < t->n_pairs; i++) {
        free(t->pairs[i].key);
        free(t->pairs[i].value);
    }
    free(t->entries);
    free(t->pairs);
    *t = (struct archive_table){0};
}

kiln_status archive_check_names(const char *where, const struct archive_table *t)
{
    size_t n = t->n > t->n_pairs ? t->n : t->n_pairs;
    const char **names, *twice;
    TRY(io_alloc(where, (uint64_t)n * sizeof *names, &names));
    for (size_t i = 0; i < t->n; i++) names[i] = t->entries[i].name;
    kiln_status status = io_find_twice(where, names, t->n, &twice);
    if (!status && !twice) {
        for (size_t i = 0; i < t->n_pairs; i++) names[i] = t->pairs[i].key;
        status = io_find_twice(where, names, t->n_pairs, &twice);
    }
    free(names);
    if (!status && twice) status = error_set(KILN_E_FORMAT, "%s: the name \"%s\" is given twice", where, twice);
    return status;
}

kiln_archive *archive_open(const struct archive_format *format, const char *path)
{
    if (error_pending) return NULL;
    kiln_archive *a = handle_new(HANDLE_ARCHIVE, sizeof *a);
    if (!a) {
        error_set(KILN_E_MEMORY, "%s: no memory", format->function);
        return NULL;
    }
    a->format = format;
    kiln_status status = io_open(&a->file, format->function, path);
    if (!status) status = format->open(&a->file, &a->table);
    if (status) kiln_archive_free(&a);
    return a;
}

const void *archive_bytes(const kiln_archive *a, const struct archive_entry *e, struct io_mapping *m, void **copy)
{
    *copy = NULL;
    io_map(&a->file, e->offset_B, e->size_B, m);
    if (m->whole) return m->data;
    if (io_alloc(a->file.where, e->size_B, copy)) return NULL;
    if (!io_read(&a->file, e->offset_B, *copy, e->size_B)) return *copy;
    free(*copy);
    *copy = NULL;
    return NULL;
}

void kiln_archive_free(kiln_archive **a)
{
    if (!handle_may_free("archive_free", HANDLE_ARCHIVE, a)) return;
    archive_table_free(&(*a)->table);
    io_close(&(*a)->file);
    handle_free(HANDLE_ARCHIVE, *a);
    *a = NULL;
}

// --- queries

static kiln_status check_archive(const char *function, const kiln_archive *a)
{
    if (error_pending) return error_pending;
    return handle_check(function, "the archive", HANDLE_ARCHIVE, a);
}

// Where the file lies is behind the name of the function that opened it.
static void refuse_name(const char *function, const kiln_archive *a, const char *name)
{
    const char *colon = strstr(a->file.where, ": ");
    struct nearest near;
    nearest_begin(&near, name, strlen(name));
    for (size_t i = 0; i < a->table.n; i++)
        nearest_try(&near, a->table.entries[i].name, strlen(a->table.entries[i].name));
    error_set(KILN_E_ARGUMENT, "%s: there is no array \"%s\" in %s (%zu arrays%s%s%s)%s", function, name,
              colon ? colon + 2 : a->file.where, a->table.n, a->table.n ? ", the first is \"" : "",
              a->table.n ? a->table.entries[0].name : "", a->table.n ? "\"" : "", nearest_hint(&near).s);
}

static const struct archive_entry *find(const kiln_archive *a, const char *name)
{
    for (size_t i = 0; i < a->table.n; i++) {
        if (strcmp(a->table.entries[i].name, name) == 0) return &a->table.entries[i];
    }
    return NULL;
}

static kiln_status check_index(const char *function, const kiln_archive *a, size_t i)
{
    TRY(check_archive(function, a));
    if (i < a->table.n) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: array %zu of %zu in %s", function, i, a->table.n, a->file.where);
}

size_t kiln_archive_count(const kiln_archive *a)
{
    return check_archive("archive_count", a) ? 0 : a->table.n;
}

const char *kiln_archive_name(const kiln_archive *a, size_t i)
{
    return check_index("archive_name", a, i) ? NULL : a->table.entries[i].name;
}

bool kiln_archive_has(const kiln_archive *a, const char *name)
{
    return a && name && !handle_check("archive_has", "the archive", HANDLE_ARCHIVE, a) && find(a, name);
}

kiln_tensor *kiln_archive_tensor(kiln_archive *a, kiln_device *dev, size_t i)
{
    return check_index("archive_tensor", a, i) ? NULL : a->format->read(a, dev, &a->table.entries[i]);
}

static const struct archive_entry *find_named(const char *function, const kiln_archive *a, const char *name)
{
    if (check_archive(function, a)) return NULL;
    if (!name) {
        error_set(KILN_E_ARGUMENT, "%s: the name is NULL", function);
        return NULL;
    }
    const struct archive_entry *e = find(a, name);
    if (!e) refuse_name(function, a, name);
    return e;
}

kiln_tensor *kiln_archive_get(kiln_archive *a, kiln_device *dev, const char *name)
{
    const struct archive_entry *e = find_named("archive_get", a, name);
    return e ? a->format->read(a, dev, e) : NULL;
}

kiln_tensor *kiln_archive_packed(kiln_archive *a, kiln_device *dev, const char *name, const char **format)
{
    const struct archive_entry *e = find_named("archive_packed", a, name);
    const char *ignored;
    if (e && a->format->packed) return a->format->packed(a, dev, e, format ? format : &ignored);
    if (e) error_set(KILN_E_ARGUMENT, "archive_packed: %s has no packed arrays, GGUF files do", a->file.where);
    return NULL;
}

bool archive_is_packed(const kiln_archive *a, size_t i)
{
    return a->format->packed && a->format->is_packed(&a->table.entries[i]);
}

size_t kiln_archive_metadata_count(const kiln_archive *a)
{
    return check_archive("archive_metadata_count", a) ? 0 : a->table.n_pairs;
}

kiln_status kiln_archive_metadata(const kiln_archive *a, size_t i, const char **key, const char **value)
{
    TRY(check_archive("archive_metadata", a));
    if (i >= a->table.n_pairs) {
        return error_set(KILN_E_ARGUMENT, "archive_metadata: entry %zu of %zu in %s", i, a->table.n_pairs,
                         a->file.where);
    }
    if (key) *key = a->table.pairs[i].key;
    if (value) *value = a->table.pairs[i].value;
    return KILN_OK;
}
