// Values from files into a tree of cells, by names; names that others give to the same things.
#include "nn/cell.h"
#include "base/handles.h"
#include "base/options.h"

#include <kiln/ops.h>
#include <stdarg.h>
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

// --- what does not fit: all of it is gathered before anything is said

enum { TOLD_MAX = 12 };

struct problems {
    const kiln_cell_load_opts *o; // NULL: nobody asks for a report
    const char *function;
    size_t n, n_told;
    kiln_status first;
    char text[1600];
};

// `fatal` false: it goes into the report alone.
__attribute__((format(printf, 6, 7))) static void found(struct problems *p, bool fatal, kiln_load_problem kind,
                                                        kiln_status code, const char *name, const char *format, ...)
{
    char message[600];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (p->o && p->o->report) p->o->report(p->o->user, kind, name, message);
    if (!fatal) return;
    if (!p->n++) p->first = code;
    size_t used = strlen(p->text), more = strlen(message) + 3;
    if (p->n_told == TOLD_MAX || used + more > sizeof p->text) return;
    p->n_told++;
    snprintf(p->text + used, sizeof p->text - used, "%s%s", used ? "; " : "", message);
}

static kiln_status tell(const struct problems *p)
{
    if (error_pending || !p->n) return error_pending;
    if (p->n == p->n_told) return error_set(p->first, "%s: %s", p->function, p->text);
    return error_set(p->first, "%s: %s; and %zu more", p->function, p->text, p->n - p->n_told);
}

// --- which entry of a file is which tensor

typedef bool (*has_fn)(const void *file, const char *name);

struct fit {
    kiln_cell *root;
    const char *function, *prefix, *holder; // what has the entries, in words
    const void *file;
    has_fn has;
    bool partial;
    kiln_tensor **tensors; // those that the file has, and their names there
    char **names;
    size_t n;
    struct problems problems;
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
        found(&f->problems, true, KILN_LOAD_UNEXPECTED, KILN_E_ARGUMENT, other,
              "there is both \"%s\" and \"%s\", two names of one tensor", own, other);
    else if (!error_pending && !has_own && !has_other)
        found(&f->problems, !f->partial, KILN_LOAD_MISSING, KILN_E_ARGUMENT, own, "the %s has no \"%s\"%s%s%s",
              f->holder, own, other ? " and no \"" : "", other ? other : "", other ? "\"" : "");
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
    struct fit f = {.root = cell,
                    .function = "cell_restore",
                    .holder = "checkpoint",
                    .prefix = "",
                    .file = c,
                    .has = checkpoint_has,
                    .problems = {.function = "cell_restore"}};
    cell_visit(cell, choose, &f);
    if (!tell(&f.problems)) kiln_checkpoint_restore(c, (const char *const *)f.names, f.tensors, f.n);
    fit_free(&f);
    return error_pending;
}

// --- archives

// An archive, and what its arrays are called in the cell; NULL: passed over.
struct renamed {
    kiln_archive *a;
    char **names;
    size_t n;
};

static void renamed_free(struct renamed *r)
{
    for (size_t i = 0; i < r->n; i++) free(r->names[i]);
    free(r->names);
}

static kiln_status rename_all(struct renamed *r, kiln_archive *a, const kiln_cell_load_opts *o)
{
    size_t n = kiln_archive_count(a);
    *r = (struct renamed){.a = a, .names = calloc(n + 1, sizeof *r->names)};
    bool whole = r->names != NULL;
    for (size_t i = 0; whole && i < n; i++) {
        const char *name = kiln_archive_name(a, i), *to = o->rename ? o->rename(o->user, name) : name;
        r->n++;
        if (to) whole = (r->names[i] = strdup(to)) != NULL;
    }
    return whole ? error_pending : error_set(KILN_E_MEMORY, "cell_load: host memory is exhausted");
}

static size_t renamed_find(const struct renamed *r, const char *name)
{
    size_t i = 0;
    while (i < r->n && (!r->names[i] || strcmp(r->names[i], name))) i++;
    return i;
}

static bool archive_has(const void *r, const char *name)
{
    const struct renamed *in = r;
    return renamed_find(in, name) < in->n;
}

static bool is_among(const struct fit *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->names[i], name)) return true;
    return false;
}

// What the file has below the prefix must be something of the cell. How many batches a norm has seen is no state here.
static void check_rest(struct fit *f, const struct renamed *r)
{
    static const char counter[] = "num_batches_tracked";
    size_t before = strlen(f->prefix);
    for (size_t i = 0; i < r->n; i++) {
        const char *name = r->names[i], *dot = name ? strrchr(name, '.') : NULL;
        if (!name || strncmp(name, f->prefix, before)) continue;
        if (renamed_find(r, name) != i)
            found(&f->problems, true, KILN_LOAD_UNEXPECTED, KILN_E_ARGUMENT, name,
                  "two arrays of the file are called \"%s\" by .rename", name);
        else if (!is_among(f, name) && strcmp(dot ? dot + 1 : name, counter))
            found(&f->problems, !f->partial, KILN_LOAD_UNEXPECTED, KILN_E_ARGUMENT, name,
                  "the file has \"%s\", the cell has no such tensor", name);
    }
}

static bool is_real(kiln_dtype dtype)
{
    return dtype == KILN_F16 || dtype == KILN_BF16 || dtype == KILN_F32 || dtype == KILN_F64;
}

static void check_entry(struct problems *p, const char *name, const kiln_tensor *got, const kiln_tensor *want)
{
    kiln_dtype from = kiln_tensor_dtype(got), to = kiln_tensor_dtype(want);
    size_t rank = kiln_rank(got);
    if (from != to && !(is_real(from) && is_real(to))) {
        found(p, true, KILN_LOAD_MISFIT, KILN_E_DTYPE, name, "\"%s\" is %s, in the cell %s", name,
              kiln_dtype_name(from), kiln_dtype_name(to));
        return;
    }
    if (rank == kiln_rank(want) && (!rank || !memcmp(kiln_dims(got), kiln_dims(want), rank * sizeof *kiln_dims(got))))
        return;
    kiln_tensor *both[] = {(kiln_tensor *)(uintptr_t)got, (kiln_tensor *)(uintptr_t)want};
    char text[2][KILN_MAX_RANK * 12 + 1];
    for (int k = 0; k < 2; k++) {
        size_t len = 0;
        text[k][0] = '\0';
        for (size_t i = 0; i < kiln_rank(both[k]) && len + 24 < sizeof text[k]; i++)
            len += (size_t)snprintf(text[k] + len, sizeof text[k] - len, "%s%lld", i ? "," : "",
                                    (long long)kiln_dims(both[k])[i]);
    }
    found(p, true, KILN_LOAD_MISFIT, KILN_E_SHAPE, name, "\"%s\" is [%s], in the cell [%s]", name, text[0], text[1]);
}

// All are read and checked before one is written.
static kiln_status load(struct fit *f, const struct renamed *r)
{
    kiln_tensor **got = calloc(f->n + 1, sizeof(kiln_tensor *));
    if (!got) return error_set(KILN_E_MEMORY, "cell_load: host memory is exhausted");
    kiln_scope *scope = kiln_scope_begin();
    for (size_t i = 0; i < f->n && !error_pending; i++) {
        got[i] = kiln_archive_tensor(r->a, kiln_tensor_device(f->tensors[i]), renamed_find(r, f->names[i]));
        if (got[i]) check_entry(&f->problems, f->names[i], got[i], f->tensors[i]);
    }
    bool sound = !tell(&f->problems);
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
    struct renamed r;
    TRY(options_read("cell_load", KILN_CELL_LOAD, &o, opts));
    TRY(cell_check("cell_load", cell));
    TRY(handle_check("cell_load", "a", HANDLE_ARCHIVE, a));
    struct fit f = {.root = cell,
                    .function = "cell_load",
                    .holder = "file",
                    .prefix = o.prefix ? o.prefix : "",
                    .file = &r,
                    .has = archive_has,
                    .partial = o.partial,
                    .problems = {.o = &o, .function = "cell_load"}};
    if (!rename_all(&r, a, &o)) cell_visit(cell, choose, &f);
    if (!error_pending) check_rest(&f, &r);
    if (!error_pending) load(&f, &r);
    fit_free(&f);
    renamed_free(&r);
    return error_pending;
}
