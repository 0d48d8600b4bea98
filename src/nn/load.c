// Values from files into a tree of cells, by names; names that others give to the same things.
#include "nn/cell.h"
#include "base/handles.h"
#include "base/options.h"

#include <kiln/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What a tensor of a norm is called in files of PyTorch. A cell that has a tensor of the second name itself means that.
static const struct {
    const char *name, *alias;
} aliases[] = {
    {"gamma", "weight"}, {"beta", "bias"}, {"moving_mean", "running_mean"}, {"moving_variance", "running_var"}};

static bool has_tensor(const kiln_cell *cell, const char *name)
{
    for (size_t i = 0; i < cell->n_tensors; i++)
        if (!strcmp(cell->tensors[i].name, name)) return true;
    return false;
}

const char *cell_alias(const kiln_cell *cell, const char *name)
{
    for (size_t i = 0; i < COUNT_OF(aliases); i++)
        if (!strcmp(aliases[i].name, name)) return has_tensor(cell, aliases[i].alias) ? NULL : aliases[i].alias;
    return NULL;
}

// --- which entry of a file is which tensor

typedef bool (*has_fn)(const void *file, const char *name);

struct fit {
    kiln_cell *root;
    const char *function, *prefix;
    const void *file;
    has_fn has;
    bool partial;
    kiln_tensor **tensors; // those that the file has, and their names there
    char **names;
    size_t n;
};

// The prefix and the path of `name`, from malloc.
static char *full_path(const struct fit *f, const kiln_cell *owner, const char *name)
{
    size_t before = strlen(f->prefix), size_B = before + cell_path(f->root, owner, name, NULL, 0) + 1;
    char *path = malloc(size_B);
    if (!path) {
        error_set(KILN_E_MEMORY, "%s: host memory is exhausted", f->function);
        return NULL;
    }
    memcpy(path, f->prefix, before);
    cell_path(f->root, owner, name, path + before, size_B - before);
    return path;
}

static kiln_status keep(struct fit *f, kiln_tensor *t, char *name)
{
    kiln_tensor **tensors = cell_grow(f->tensors, f->n, sizeof *tensors);
    if (tensors) f->tensors = tensors;
    char **names = tensors ? cell_grow(f->names, f->n, sizeof *names) : NULL;
    if (!names) {
        free(name);
        return error_pending;
    }
    f->names = names;
    f->tensors[f->n] = t;
    f->names[f->n++] = name;
    return KILN_OK;
}

static bool choose(void *user, kiln_cell *owner, struct cell_tensor *t)
{
    struct fit *f = user;
    const char *alias = cell_alias(owner, t->name);
    char *own = full_path(f, owner, t->name), *other = own && alias ? full_path(f, owner, alias) : NULL;
    bool has_own = own && f->has(f->file, own), has_other = other && f->has(f->file, other);
    if (has_own && has_other)
        error_set(KILN_E_ARGUMENT, "%s: there is both \"%s\" and \"%s\", two names of one tensor", f->function, own,
                  other);
    else if (!error_pending && !has_own && !has_other && !f->partial)
        error_set(KILN_E_ARGUMENT, "%s: there is no \"%s\"%s%s%s", f->function, own, other ? " and no \"" : "",
                  other ? other : "", other ? "\"" : "");
    if (!error_pending && (has_own || has_other)) {
        keep(f, t->tensor, has_own ? own : other);
        free(has_own ? other : own);
        return !error_pending;
    }
    free(own);
    free(other);
    return !error_pending;
}

static void fit_free(struct fit *f)
{
    for (size_t i = 0; i < f->n; i++) free(f->names[i]);
    free(f->names);
    free(f->tensors);
}

// --- checkpoints

static bool checkpoint_has(const void *c, const char *name)
{
    return kiln_checkpoint_has(c, name);
}

kiln_status kiln_cell_restore(kiln_cell *cell, const kiln_checkpoint *c)
{
    TRY(cell_check("cell_restore", cell));
    TRY(handle_check("cell_restore", "c", HANDLE_CHECKPOINT, c));
    struct fit f = {.root = cell, .function = "cell_restore", .prefix = "", .file = c, .has = checkpoint_has};
    cell_visit(cell, choose, &f);
    if (!error_pending) kiln_checkpoint_restore(c, (const char *const *)f.names, f.tensors, f.n);
    fit_free(&f);
    return error_pending;
}

// --- archives

static bool archive_has(const void *a, const char *name)
{
    return kiln_archive_has(a, name);
}

static bool is_among(const struct fit *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->names[i], name)) return true;
    return false;
}

// What the file has below the prefix must be something of the cell. How many batches a norm has seen is no state here.
static kiln_status check_rest(const struct fit *f, const kiln_archive *a)
{
    static const char counter[] = "num_batches_tracked";
    size_t before = strlen(f->prefix);
    for (size_t i = 0; i < kiln_archive_count(a); i++) {
        const char *name = kiln_archive_name(a, i), *dot = strrchr(name, '.');
        if (strncmp(name, f->prefix, before) || is_among(f, name) || !strcmp(dot ? dot + 1 : name, counter)) continue;
        return error_set(KILN_E_ARGUMENT, "cell_load: the file has \"%s\", the cell has no such tensor", name);
    }
    return KILN_OK;
}

static bool is_real(kiln_dtype dtype)
{
    return dtype == KILN_F16 || dtype == KILN_BF16 || dtype == KILN_F32 || dtype == KILN_F64;
}

static kiln_status check_entry(const char *name, const kiln_tensor *got, const kiln_tensor *want)
{
    kiln_dtype from = kiln_tensor_dtype(got), to = kiln_tensor_dtype(want);
    size_t rank = kiln_rank(got);
    if (from != to && !(is_real(from) && is_real(to)))
        return error_set(KILN_E_DTYPE, "cell_load: \"%s\" is %s, in the cell %s", name, kiln_dtype_name(from),
                         kiln_dtype_name(to));
    if (rank == kiln_rank(want) && (!rank || !memcmp(kiln_dims(got), kiln_dims(want), rank * sizeof *kiln_dims(got))))
        return error_pending;
    kiln_tensor *both[] = {(kiln_tensor *)(uintptr_t)got, (kiln_tensor *)(uintptr_t)want};
    char text[2][KILN_MAX_RANK * 12 + 1];
    for (int k = 0; k < 2; k++) {
        size_t len = 0;
        text[k][0] = '\0';
        for (size_t i = 0; i < kiln_rank(both[k]) && len + 24 < sizeof text[k]; i++)
            len += (size_t)snprintf(text[k] + len, sizeof text[k] - len, "%s%lld", i ? "," : "",
                                    (long long)kiln_dims(both[k])[i]);
    }
    return error_set(KILN_E_SHAPE, "cell_load: \"%s\" is [%s], in the cell [%s]", name, text[0], text[1]);
}

// All are read and checked before one is written.
static kiln_status load(const struct fit *f, kiln_archive *a)
{
    kiln_tensor **got = calloc(f->n + 1, sizeof(kiln_tensor *));
    if (!got) return error_set(KILN_E_MEMORY, "cell_load: host memory is exhausted");
    kiln_scope *scope = kiln_scope_begin();
    for (size_t i = 0; i < f->n && !error_pending; i++) {
        got[i] = kiln_archive_get(a, kiln_tensor_device(f->tensors[i]), f->names[i]);
        if (got[i]) check_entry(f->names[i], got[i], f->tensors[i]);
    }
    bool sound = !error_pending;
    kiln_no_grad_begin();
    for (size_t i = 0; i < f->n && sound && !error_pending; i++) kiln_assign(f->tensors[i], got[i]);
    kiln_no_grad_end();
    kiln_scope_end(&scope);
    free(got);
    return error_pending;
}

kiln_status kiln_cell_load(kiln_cell *cell, kiln_archive *a, const kiln_cell_load_opts *opts)
{
    kiln_cell_load_opts o;
    TRY(options_read("cell_load", KILN_CELL_LOAD, &o, opts));
    TRY(cell_check("cell_load", cell));
    TRY(handle_check("cell_load", "a", HANDLE_ARCHIVE, a));
    struct fit f = {.root = cell,
                    .function = "cell_load",
                    .prefix = o.prefix ? o.prefix : "",
                    .file = a,
                    .has = archive_has,
                    .partial = o.partial};
    cell_visit(cell, choose, &f);
    if (!error_pending && !o.partial) check_rest(&f, a);
    if (!error_pending) load(&f, a);
    fit_free(&f);
    return error_pending;
}
