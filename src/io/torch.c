// Files of PyTorch, as torch.save writes them: a zip file of "<name>/data.pkl", a pickle of whatever was saved, and
// "<name>/data/<key>", the bytes of each storage. The pickle is read as a tree (io/pickle.h), in which a tensor is a
// call of torch._utils._rebuild_tensor_v2 on a storage, an offset, sizes and strides: nothing in the file is ever run.
//
// Tensors get the keys on the way to them as their name, joined by dots; numbers and texts become metadata. All that a
// tensor can reach must lie in its storage, and the storage in the file. Checksums are not tested, as PyTorch may be
// told to write none.
#include "io/kind.h"
#include "io/archive.h"
#include "base/c_locale.h"
#include "io/json.h"
#include "io/pickle.h"
#include "io/zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 64,
    PATH_MAX_B = 4096,
    REPEATS_MAX = 1024, // a tensor may be so many times larger than the file, by strides of 0
};

// --- what the pickle may name

static const struct {
    const char *storage, *dtype; // of typed storages, and torch.<dtype>
    kiln_dtype is;
} dtypes[] = {
    {"torch\nFloatStorage", "torch\nfloat32", KILN_F32},
    {"torch\nDoubleStorage", "torch\nfloat64", KILN_F64},
    {"torch\nHalfStorage", "torch\nfloat16", KILN_F16},
    {"torch\nBFloat16Storage", "torch\nbfloat16", KILN_BF16},
    {"torch\nLongStorage", "torch\nint64", KILN_I64},
    {"torch\nIntStorage", "torch\nint32", KILN_I32},
    {"torch\nShortStorage", "torch\nint16", KILN_I16},
    {"torch\nCharStorage", "torch\nint8", KILN_I8},
    {"torch\nByteStorage", "torch\nuint8", KILN_U8},
    {"torch\nBoolStorage", "torch\nbool", KILN_BOOL},
    {"torch\nComplexFloatStorage", "torch\ncomplex64", KILN_C64},
    {"torch\nComplexDoubleStorage", "torch\ncomplex128", KILN_C128},
    {NULL, "torch\nuint16", KILN_U16},
    {NULL, "torch\nuint32", KILN_U32},
    {NULL, "torch\nuint64", KILN_U64},
    {NULL, "torch\nfloat8_e4m3fn", KILN_F8_E4M3},
    {NULL, "torch\nfloat8_e5m2", KILN_F8_E5M2},
};

static const char untyped[] = "torch.storage\nUntypedStorage";
static const char rebuild[] = "torch._utils\n_rebuild_tensor_v2", rebuild_typed[] = "torch._utils\n_rebuild_tensor_v3",
                  parameter[] = "torch._utils\n_rebuild_parameter";
// Known, and passed over where they stand for a value.
static const char *const others[] = {
    untyped, rebuild, rebuild_typed, parameter, "collections\nOrderedDict", "torch\nSize", "torch\ndevice"};

static bool is(const char *text, size_t n, const char *name)
{
    return name && n == strlen(name) && !memcmp(text, name, n);
}

static kiln_status check_global(const char *where, const char *text, size_t n)
{
    for (size_t i = 0; i < COUNT_OF(dtypes); i++)
        if (is(text, n, dtypes[i].storage) || is(text, n, dtypes[i].dtype)) return KILN_OK;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (is(text, n, others[i])) return KILN_OK;
    const char *line = memchr(text, '\n', n);
    int module = line ? (int)(line - text) : 0, name = (int)(n < 200 ? n : 200) - module - 1;
    if (!line || module > 100 || name < 0 || !json_is_utf8(text, n))
        return error_set(KILN_E_UNSUPPORTED, "%s: the pickle asks for a global without a name", where);
    return error_set(
        KILN_E_UNSUPPORTED,
        "%s: the pickle asks for %.*s.%.*s, which only Python can give; save model.state_dict() alone, or as "
        "safetensors",
        where, module, text, name, line + 1);
}

// --- tensors

struct torch_walk {
    const char *where;
    const struct io_reader *file;
    const struct archive_table *members; // of the zip file, in the order of their names
    struct archive_table *out;
    struct pickle pickle;
    char folder[256]; // "<name>/"
    char path[PATH_MAX_B];
    uint64_t visits_left, path_B_left;
};

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct archive_entry *)a)->name, ((const struct archive_entry *)b)->name);
}

static const struct archive_entry *find_member(const struct archive_table *members, const char *name)
{
    struct archive_entry key = {.name = (char *)(uintptr_t)name};
    return members->n ? bsearch(&key, members->entries, members->n, sizeof key, compare_entries) : NULL;
}

static kiln_status bad(const struct torch_walk *w, const char *what)
{
    return error_set(KILN_E_FORMAT, "%s: \"%s\" %s", w->where, w->path, what);
}

// dtype of the elements from the storage's or the tensor's name.
static bool find_dtype(const struct pickle_value *name, kiln_dtype *out)
{
    for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
        *out = dtypes[i].is;
        if ((dtypes[i].storage && pickle_is(name, dtypes[i].storage)) || pickle_is(name, dtypes[i].dtype)) return true;
    }
    return false;
}

// Where the storage lies in the file.
static kiln_status find_storage(const struct torch_walk *w, const struct pickle_value *storage, uint64_t *at,
                                uint64_t *size_B)
{
    const struct pickle_value *id = pickle_item(&w->pickle, storage, 0), *key = pickle_item(&w->pickle, id, 2);
    if (storage->kind != PICKLE_PERSISTENT || id->kind != PICKLE_TUPLE ||
        !pickle_is(pickle_item(&w->pickle, id, 0), "storage") || key->kind != PICKLE_TEXT || key->n_text > 100 ||
        memchr(key->text, 0, key->n_text))
        return bad(w, "is a tensor without a storage");
    char name[sizeof w->folder + 120];
    snprintf(name, sizeof name, "%sdata/%.*s", w->folder, (int)key->n_text, key->text);
    const struct archive_entry *e = find_member(w->members, name);
    if (!e) return error_set(KILN_E_FORMAT, "%s: \"%s\" is in \"%s\", which is missing", w->where, w->path, name);
    if (e->deflated)
        return error_set(KILN_E_UNSUPPORTED, "%s: member \"%s\" is deflated, PyTorch stores it", w->where, name);
    TRY(zip_find_data(w->file, e, at));
    *size_B = e->size_B;
    if (*at <= w->file->size_B && *size_B <= w->file->size_B - *at) return KILN_OK;
    return error_set(KILN_E_FORMAT, "%s: member \"%s\" passes the end of the file", w->where, name);
}

static kiln_status read_shape(const struct torch_walk *w, const struct pickle_value *sizes,
                              const struct pickle_value *strides, struct archive_entry *e, int64_t *out)
{
    if (sizes->kind != PICKLE_TUPLE || strides->kind != PICKLE_TUPLE || sizes->n != strides->n)
        return bad(w, "has sizes that do not go with its strides");
    for (size_t i = 0; i < sizes->n; i++) {
        const struct pickle_value *dim = pickle_item(&w->pickle, sizes, i);
        const struct pickle_value *stride = pickle_item(&w->pickle, strides, i);
        bool fine = dim->kind == PICKLE_INT && stride->kind == PICKLE_INT && !dim->broken && !stride->broken;
        if (!fine || dim->integer < 0 || stride->integer < 0)
            return bad(w, "has a size or a stride that is no number from 0 on");
        TRY(io_array_push(w->where, &e->array, (uint64_t)dim->integer));
        out[i] = stride->integer;
    }
    return KILN_OK;
}

// Whether the elements follow each other in row-major order.
static bool is_dense(const struct io_array *a, const int64_t *strides)
{
    int64_t step = 1;
    for (size_t i = a->rank; i-- > 0;) {
        if (a->dims[i] != 1 && strides[i] != step) return false;
        step *= a->dims[i];
    }
    return true;
}

// From the first element to the last, in bytes; the entry's place is that of the storage.
static kiln_status place(const struct torch_walk *w, struct archive_entry *e, uint64_t offset, const int64_t *strides,
                         uint64_t storage_B)
{
    uint64_t item_B = kiln_dtype_size(e->array.dtype), whole_B, last = 0, at_B = 0;
    TRY(io_array_size(w->where, &e->array, &whole_B));
    e->size_B = 0;
    if (!whole_B) return KILN_OK;
    if (whole_B / REPEATS_MAX > w->file->size_B)
        return error_set(KILN_E_UNSUPPORTED, "%s: \"%s\" has %" PRIu64 " bytes, in a file of %" PRIu64, w->where,
                         w->path, whole_B, w->file->size_B);
    bool overflow = false;
    for (size_t i = 0; i < e->array.rank; i++) {
        uint64_t more;
        overflow |= __builtin_mul_overflow((uint64_t)e->array.dims[i] - 1, (uint64_t)strides[i], &more);
        overflow |= __builtin_add_overflow(last, more, &last);
    }
    overflow |= __builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, item_B, &e->size_B);
    overflow |= __builtin_mul_overflow(offset, item_B, &at_B);
    if (overflow || at_B > storage_B || e->size_B > storage_B - at_B)
        return bad(w, "reaches beyond the end of its storage");
    e->offset_B += at_B;
    return KILN_OK;
}

static kiln_status fill_tensor(struct torch_walk *w, const struct pickle_value *arguments, bool typed,
                               struct archive_entry *e)
{
    const struct pickle *p = &w->pickle;
    const struct pickle_value *storage = pickle_item(p, arguments, 0), *offset = pickle_item(p, arguments, 1);
    int64_t strides[KILN_MAX_RANK];
    uint64_t storage_B;
    TRY(find_storage(w, storage, &e->offset_B, &storage_B));
    if (!find_dtype(typed ? pickle_item(p, arguments, 6) : pickle_item(p, pickle_item(p, storage, 0), 1),
                    &e->array.dtype))
        return bad(w, "has no dtype");
    if (offset->kind != PICKLE_INT || offset->broken || offset->integer < 0) return bad(w, "has no offset");
    TRY(read_shape(w, pickle_item(p, arguments, 2), pickle_item(p, arguments, 3), e, strides));
    TRY(place(w, e, (uint64_t)offset->integer, strides, storage_B));
    if (!e->size_B || is_dense(&e->array, strides)) return KILN_OK;
    TRY(io_alloc(w->where, sizeof strides, &e->data));
    memcpy(e->data, strides, sizeof strides);
    return KILN_OK;
}

static kiln_status add_tensor(struct torch_walk *w, const struct pickle_value *arguments, bool typed)
{
    struct archive_entry *e = archive_add(w->where, w->out);
    if (!e || !(e->name = io_strdup(w->where, *w->path ? w->path : "tensor"))) return error_pending;
    return fill_tensor(w, arguments, typed, e);
}

// --- the tree

static kiln_status add_text(struct torch_walk *w, const char *text, size_t n)
{
    if (memchr(text, 0, n) || !json_is_utf8(text, n)) return KILN_OK; // bytes that are no text
    struct archive_pair *pair = archive_add_pair(w->where, w->out);
    if (!pair || !(pair->key = io_strdup(w->where, w->path))) return error_pending;
    TRY(io_alloc(w->where, n + 1, &pair->value));
    memcpy(pair->value, text, n);
    pair->value[n] = '\0';
    return KILN_OK;
}

static kiln_status add_scalar(struct torch_walk *w, const struct pickle_value *v)
{
    char text[C_NUMBER_B];
    if (v->kind == PICKLE_TEXT) return add_text(w, v->text, v->n_text);
    if (v->kind == PICKLE_BOOL) return add_text(w, v->integer ? "true" : "false", v->integer ? 4 : 5);
    if (v->kind == PICKLE_INT) snprintf(text, sizeof text, "%" PRId64, v->integer);
    const char *number = v->kind == PICKLE_FLOAT ? c_shortest(text, v->number, 0) : text;
    return v->broken ? KILN_OK : add_text(w, number, strlen(number));
}

// One more name at the end of the path; *before is the length to go back to.
static kiln_status enter(struct torch_walk *w, const struct pickle_value *key, size_t i, size_t *before)
{
    char number[24];
    const char *text = number;
    size_t n = (size_t)snprintf(number, sizeof number, "%" PRId64, key ? key->integer : (int64_t)i);
    if (key && key->kind == PICKLE_TEXT) {
        text = key->text;
        n = key->n_text;
        if (memchr(text, 0, n) || !json_is_utf8(text, n)) return bad(w, "has a key that is not UTF-8");
    }
    *before = strlen(w->path);
    if (n > sizeof w->path - *before - 2) return bad(w, "has a key that is too long");
    if (*before) w->path[*before] = '.';
    memcpy(w->path + *before + (*before > 0), text, n);
    w->path[*before + (*before > 0) + n] = '\0';
    if (w->path_B_left < strlen(w->path)) return bad(w, "and others have names that are too long");
    w->path_B_left -= strlen(w->path);
    return KILN_OK;
}

static kiln_status visit(struct torch_walk *w, const struct pickle_value *v, int depth);

static kiln_status visit_items(struct torch_walk *w, const struct pickle_value *v, int depth)
{
    bool dict = v->kind == PICKLE_DICT;
    for (size_t i = 0; i < v->n; i += 1 + dict) {
        const struct pickle_value *key = dict ? pickle_item(&w->pickle, v, i) : NULL;
        if (key && key->kind != PICKLE_TEXT && (key->kind != PICKLE_INT || key->broken)) continue;
        size_t before = 0;
        TRY(enter(w, key, i, &before));
        TRY(visit(w, pickle_item(&w->pickle, v, i + dict), depth + 1));
        w->path[before] = '\0';
    }
    return KILN_OK;
}

static kiln_status visit(struct torch_walk *w, const struct pickle_value *v, int depth)
{
    if (depth > DEPTH_MAX) return bad(w, "is more than 64 deep");
    if (!w->visits_left--) return bad(w, "is reached too often: values contain themselves, or each other");
    const struct pickle_value *function = pickle_item(&w->pickle, v, 0), *arguments = pickle_item(&w->pickle, v, 1);
    switch (v->kind) {
    case PICKLE_TUPLE:
    case PICKLE_LIST:
    case PICKLE_DICT: return visit_items(w, v, depth);
    case PICKLE_CALL:
        if (pickle_is(function, parameter)) return visit(w, pickle_item(&w->pickle, arguments, 0), depth + 1);
        if (pickle_is(function, rebuild)) return add_tensor(w, arguments, false);
        return pickle_is(function, rebuild_typed) ? add_tensor(w, arguments, true) : KILN_OK;
    case PICKLE_BOOL:
    case PICKLE_INT:
    case PICKLE_FLOAT:
    case PICKLE_TEXT: return add_scalar(w, v);
    default: return KILN_OK;
    }
}

// --- the file

// The name of the first "<folder>/data.pkl".
static const struct archive_entry *find_pickle(struct torch_walk *w)
{
    static const char name[] = "/data.pkl";
    for (size_t i = 0; i < w->members->n; i++) {
        const struct archive_entry *e = &w->members->entries[i];
        size_t n = strlen(e->name);
        if (n < sizeof name || n - sizeof name + 2 >= sizeof w->folder || strcmp(e->name + n - sizeof name + 1, name))
            continue;
        memcpy(w->folder, e->name, n - sizeof name + 2);
        w->folder[n - sizeof name + 2] = '\0';
        return e;
    }
    return NULL;
}

static kiln_status check_order(const struct torch_walk *w)
{
    char name[sizeof w->folder + 16], text[8] = "";
    uint64_t at;
    snprintf(name, sizeof name, "%sbyteorder", w->folder);
    const struct archive_entry *e = find_member(w->members, name);
    if (!e) return KILN_OK;
    TRY(zip_find_data(w->file, e, &at));
    if (e->size_B < sizeof text) TRY(io_read(w->file, at, text, e->size_B));
    if (!e->deflated && !strcmp(text, "little")) return KILN_OK;
    return error_set(KILN_E_UNSUPPORTED, "%s: its byte order is \"%s\", \"little\" can be read", w->where, text);
}

static kiln_status read_pickle(struct torch_walk *w, const struct archive_entry *e)
{
    uint64_t at;
    unsigned char *bytes;
    if (e->deflated) return error_set(KILN_E_UNSUPPORTED, "%s: member \"%s\" is deflated", w->where, e->name);
    TRY(zip_find_data(w->file, e, &at));
    TRY(io_alloc(w->where, e->size_B, &bytes));
    kiln_status status = io_read(w->file, at, bytes, e->size_B);
    if (!status) status = pickle_read(w->where, bytes, (size_t)e->size_B, check_global, &w->pickle);
    // Shared values are seen more than once, but not without end.
    w->visits_left = 4 * e->size_B + 1024;
    w->path_B_left = 64 * e->size_B + (1 << 20);
    if (!status) status = visit(w, &w->pickle.values[w->pickle.root], 0);
    pickle_free(&w->pickle);
    free(bytes);
    return status;
}

static kiln_status check_kind(const struct io_reader *f)
{
    unsigned char first[4] = {0};
    TRY(io_read(f, 0, first, f->size_B < 4 ? f->size_B : 4));
    if (!memcmp(first, "PK\3\4", 4)) return KILN_OK;
    if (first[0] == 0x80)
        return error_set(KILN_E_UNSUPPORTED,
                         "%s: is a file of PyTorch before 1.6, or no zip file: save it with torch.save(..., "
                         "_use_new_zipfile_serialization=True), or as safetensors",
                         f->where);
    return error_set(KILN_E_FORMAT, "%s: is no file of PyTorch: it is no zip file%s", f->where, io_file_looks_like(f));
}

static kiln_status open_torch(struct io_reader *f, struct archive_table *t)
{
    TRY(check_kind(f));
    struct archive_table members = {0};
    struct torch_walk *w;
    TRY(io_alloc(f->where, sizeof *w, &w));
    memset(w, 0, sizeof *w);
    w->where = f->where;
    w->file = f;
    w->members = &members;
    w->out = t;
    kiln_status status = zip_read_directory(f, &members);
    if (!status) status = archive_check_names(f->where, &members);
    if (!status && members.n) qsort(members.entries, members.n, sizeof *members.entries, compare_entries);
    const struct archive_entry *e = status ? NULL : find_pickle(w);
    if (!status && !e) status = error_set(KILN_E_FORMAT, "%s: is a zip file without data.pkl", f->where);
    if (!status) status = check_order(w);
    if (!status) status = read_pickle(w, e);
    if (!status) status = archive_check_names(f->where, t);
    archive_table_free(&members);
    free(w);
    return status;
}

// --- one tensor

struct gather {
    const struct io_array *array;
    const int64_t *strides;
    const unsigned char *from;
    unsigned char *to;
    size_t item_B;
};

static void gather(struct gather *g, size_t axis, uint64_t at)
{
    if (axis == g->array->rank) {
        memcpy(g->to, g->from + at * g->item_B, g->item_B);
        g->to += g->item_B;
        return;
    }
    for (int64_t i = 0; i < g->array->dims[axis]; i++) gather(g, axis + 1, at + (uint64_t)(i * g->strides[axis]));
}

static kiln_tensor *read_strided(const kiln_archive *a, kiln_device *dev, const struct archive_entry *e,
                                 const void *bytes)
{
    uint64_t size_B;
    void *dense;
    if (io_array_size(a->file.where, &e->array, &size_B) || io_alloc(a->file.where, size_B, &dense)) return NULL;
    struct gather g = {&e->array, e->data, bytes, dense, kiln_dtype_size(e->array.dtype)};
    if (g.strides)
        gather(&g, 0, 0);
    else
        memcpy(dense, bytes, (size_t)size_B);
    kiln_tensor *t = io_array_tensor(dev, &e->array, dense);
    free(dense);
    return t;
}

static kiln_tensor *read_torch(kiln_archive *a, kiln_device *dev, const struct archive_entry *e)
{
    struct io_mapping m;
    void *copy;
    const void *bytes = archive_bytes(a, e, &m, &copy);
    if (!bytes) return NULL;
    bool as_it_is = !e->data && e->array.dtype != KILN_BOOL;
    kiln_tensor *t = as_it_is ? kiln_from_data(dev, e->array.dtype, e->array.rank, e->array.dims, bytes)
                              : read_strided(a, dev, e, bytes);
    free(copy);
    io_unmap(&m);
    return t;
}

kiln_archive *kiln_torch_load(const char *path)
{
    static const struct archive_format format = {"torch_load", open_torch, read_torch, NULL, NULL};
    return archive_open(&format, path);
}
