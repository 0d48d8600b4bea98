// Archives as bundles, bundles and cells as archives.
#include "base/blocks.h"
#include "base/handles.h"
#include "base/options.h"
#include "io/archive.h"
#include "io/safetensors.h"
#include "io/zip.h"

#include <kiln/grad.h>
#include <kiln/ops.h>
#include <kiln/weights.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// --- a file of any format

static bool is_of_torch(const struct io_reader *f)
{
    static const char pickle[] = "data.pkl";
    struct archive_table members = {0};
    bool found = false;
    kiln_status status = zip_read_directory(f, &members);
    for (size_t i = 0; !status && i < members.n; i++) {
        const char *name = members.entries[i].name, *slash = strrchr(name, '/');
        found |= !strcmp(slash ? slash + 1 : name, pickle);
    }
    archive_table_free(&members);
    return found;
}

kiln_archive *kiln_archive_load(const char *path)
{
    struct io_reader f;
    unsigned char first[4] = {0};
    if (error_pending || io_open(&f, "archive_load", path)) return NULL;
    kiln_archive *(*load)(const char *path) = kiln_safetensors_load;
    if (f.size_B >= sizeof first) io_read(&f, 0, first, sizeof first);
    if (!memcmp(first, "GGUF", 4))
        load = kiln_gguf_load;
    else if (!memcmp(first, "PK", 2))
        load = is_of_torch(&f) ? kiln_torch_load : kiln_npz_load;
    io_close(&f);
    return load(path);
}

// --- an archive as a bundle

struct reading {
    kiln_archive *a;
    kiln_device *dev;
    const kiln_archive_bundle_opts *o;
    kiln_bundle *out;
};

static bool is_float(kiln_dtype dtype)
{
    return dtype == KILN_F16 || dtype == KILN_BF16 || dtype == KILN_F32 || dtype == KILN_F64;
}

static kiln_status append(const struct reading *r, const char *name, const char *in_file, const kiln_value *v)
{
    if (!error_pending && kiln_bundle_has(r->out, name))
        return error_set(KILN_E_ARGUMENT, "archive_bundle: \"%s\" of the file is the second one called \"%s\"", in_file,
                         name);
    return kiln_bundle_append(r->out, name, v);
}

static kiln_status append_packed(const struct reading *r, const char *name, const char *in_file)
{
    const char *format = NULL;
    kiln_tensor *t = kiln_archive_packed(r->a, r->dev, in_file, &format);
    size_t size_B = strlen(name) + sizeof ".format";
    char *second = malloc(size_B);
    if (!second) return error_set(KILN_E_MEMORY, "archive_bundle: host memory is exhausted");
    snprintf(second, size_B, "%s.format", name);
    kiln_status status = append(r, name, in_file, KILN_TENSOR(t));
    if (!status) status = append(r, second, in_file, KILN_INT(kiln_packing(format)));
    free(second);
    return status;
}

static kiln_status append_array(const struct reading *r, const char *name, size_t i)
{
    kiln_tensor *t = kiln_archive_tensor(r->a, r->dev, i);
    if (t && is_float(kiln_tensor_dtype(t))) {
        if (r->o->dtype != KILN_BOOL) t = kiln_cast(t, r->o->dtype);
        if (r->o->trained) t = kiln_parameter(t, name);
    }
    return append(r, name, kiln_archive_name(r->a, i), KILN_TENSOR(t));
}

static kiln_status append_all(const struct reading *r)
{
    const char *prefix = r->o->prefix ? r->o->prefix : "";
    size_t before = strlen(prefix), n = kiln_archive_count(r->a), found = 0;
    for (size_t i = 0; i < n && !error_pending; i++) {
        const char *in_file = kiln_archive_name(r->a, i), *name = in_file + before;
        if (strncmp(in_file, prefix, before)) continue;
        found++;
        if (r->o->rename) name = r->o->rename(r->o->user, name);
        if (!name || error_pending) continue;
        kiln_scope *scope = kiln_scope_begin();
        if (r->o->packed && archive_is_packed(r->a, i))
            append_packed(r, name, in_file);
        else
            append_array(r, name, i);
        kiln_scope_end(&scope);
    }
    if (!error_pending && before && !found)
        return error_set(KILN_E_ARGUMENT, "archive_bundle: none of %zu arrays of %s begins with \"%s\"%s%s%s", n,
                         r->a->file.where, prefix, n ? ", the first is \"" : "", n ? kiln_archive_name(r->a, 0) : "",
                         n ? "\"" : "");
    return error_pending;
}

kiln_bundle *kiln_archive_bundle(kiln_archive *a, kiln_device *dev, const kiln_archive_bundle_opts *opts)
{
    kiln_archive_bundle_opts o;
    if (error_pending || options_read("archive_bundle", KILN_ARCHIVE_BUNDLE, &o, opts) ||
        handle_check("archive_bundle", "a", HANDLE_ARCHIVE, a))
        return NULL;
    if (o.dtype != KILN_BOOL && !is_float(o.dtype)) {
        error_set(KILN_E_DTYPE, "archive_bundle: .dtype is %s, and floats are not cast to that",
                  kiln_dtype_name(o.dtype));
        return NULL;
    }
    struct reading r = {a, dev, &o, kiln_bundle_create()};
    if (r.out && append_all(&r)) kiln_bundle_free(&r.out);
    return r.out;
}

int64_t kiln_packing(const char *format)
{
    static const uint8_t numbers[] = {BLOCKS_Q4_0, BLOCKS_Q8_0, BLOCKS_Q4_K, BLOCKS_Q6_K};
    if (error_pending) return -1;
    if (!format) {
        error_set(KILN_E_ARGUMENT, "packing: format is NULL");
        return -1;
    }
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        if (!strcasecmp(block_format_of(numbers[i])->name, format)) return numbers[i];
    error_set(KILN_E_UNSUPPORTED,
              "packing: no product takes \"%s\", but q4_0, q8_0, q4_K and q6_K; kiln_archive_get unpacks others",
              format);
    return -1;
}

// --- bundles and cells as archives

struct list {
    const char *function;
    char **names;
    kiln_tensor **tensors;
    size_t n;
};

static kiln_status no_memory(const struct list *l)
{
    return error_set(KILN_E_MEMORY, "%s: host memory is exhausted", l->function);
}

// Takes over the name, NULL being none for want of memory.
static kiln_status add(struct list *l, char *name, kiln_tensor *t)
{
    bool full = (l->n & (l->n - 1)) == 0; // room doubles at powers of two
    size_t room = l->n ? 2 * l->n : 1;
    char **names = full && name ? realloc(l->names, room * sizeof *names) : l->names;
    if (names) l->names = names;
    kiln_tensor **tensors = full && names ? realloc(l->tensors, room * sizeof *tensors) : l->tensors;
    if (tensors) l->tensors = tensors;
    if (!name || !names || !tensors) {
        free(name);
        return no_memory(l);
    }
    l->names[l->n] = name;
    l->tensors[l->n++] = t;
    return KILN_OK;
}

static void list_free(struct list *l)
{
    for (size_t i = 0; i < l->n; i++) free(l->names[i]);
    free(l->names);
    free(l->tensors);
}

static char *joined(const char *before, const char *name, size_t index)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", index);
    if (!name) name = number;
    size_t size_B = strlen(before) + strlen(name) + 2;
    char *path = malloc(size_B);
    if (path) snprintf(path, size_B, "%s%s%s", before, *before ? "." : "", name);
    return path;
}

static kiln_status add_bundle(struct list *l, const kiln_bundle *b, const char *before);

static kiln_status add_value(struct list *l, const kiln_value *v, char *path)
{
    static const char *const kinds[] = {[KILN_KIND_INT] = "an int",
                                        [KILN_KIND_DOUBLE] = "a double",
                                        [KILN_KIND_BOOL] = "a bool",
                                        [KILN_KIND_STRING] = "a string",
                                        [KILN_KIND_POINTER] = "a pointer"};
    kiln_status status = KILN_OK;
    if (!path) return no_memory(l);
    if (v->kind == KILN_KIND_TENSOR) return add(l, path, v->tensor);
    if (v->kind == KILN_KIND_BUNDLE)
        status = add_bundle(l, v->bundle, path);
    else if (v->kind != KILN_KIND_NONE)
        status = error_set(KILN_E_ARGUMENT, "%s: \"%s\" is %s; files of weights hold tensors alone", l->function, path,
                           kinds[v->kind]);
    free(path);
    return status;
}

static kiln_status add_bundle(struct list *l, const kiln_bundle *b, const char *before)
{
    size_t n = kiln_bundle_count(b);
    for (size_t i = 0; i < n && !error_pending; i++) {
        kiln_value v = {.size = sizeof v};
        TRY(kiln_bundle_get_at(b, (int64_t)i, &v));
        TRY(add_value(l, &v, joined(before, kiln_bundle_name(b, (int64_t)i), i)));
    }
    return error_pending;
}

kiln_status kiln_bundle_save(const kiln_bundle *b, const char *path)
{
    struct list l = {.function = "bundle_save"};
    if (error_pending) return error_pending;
    TRY(handle_check(l.function, "b", HANDLE_BUNDLE, b));
    kiln_scope *scope = kiln_scope_begin();
    if (!add_bundle(&l, b, ""))
        safetensors_write(l.function, path, (const char *const *)l.names, l.tensors, l.n, NULL, 0);
    kiln_scope_end(&scope);
    list_free(&l);
    return error_pending;
}

kiln_status kiln_cell_save(kiln_cell *cell, const char *path)
{
    if (error_pending) return error_pending;
    TRY(handle_check("cell_save", "cell", HANDLE_CELL, cell));
    size_t n = kiln_cell_state(cell, NULL, NULL, 0);
    const char **names = calloc(n + 1, sizeof *names);
    kiln_tensor **tensors = calloc(n + 1, sizeof(kiln_tensor *));
    if (!names || !tensors)
        error_set(KILN_E_MEMORY, "cell_save: host memory is exhausted");
    else if (kiln_cell_state(cell, names, tensors, n) == n && !error_pending)
        safetensors_write("cell_save", path, names, tensors, n, NULL, 0);
    free(names);
    free(tensors);
    return error_pending;
}
