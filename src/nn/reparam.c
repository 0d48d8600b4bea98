// Parameters that are computed from others at each call: norms of weights.
//
// The tensor that the cell's function reads as the weight keeps its place among the cell's tensors. Between calls the
// parameter that is trained stands there under a name of its own; while the function runs, the computed weight does.
#include "nn/cell.h"

#include <inttypes.h>
#include <kiln/composites.h>
#include <kiln/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum reparam_kind { WEIGHT_NORM, SPECTRAL_NORM };

struct cell_reparam {
    enum reparam_kind kind;
    char *name;         // that the function knows; while it runs, that of the trained parameter
    size_t at;          // its place
    size_t other[2];    // places of g, or of u and v
    kiln_tensor *saved; // the trained parameter, while the function runs
    int64_t axis, iterations;
    struct cell_reparam *next;
};

static kiln_tensor *compute(kiln_cell *cell, const struct cell_reparam *r)
{
    kiln_tensor *v = cell->tensors[r->at].tensor, *other = cell->tensors[r->other[0]].tensor, *y, *next[2];
    if (r->kind == WEIGHT_NORM) return kiln_weight_norm(v, other, r->axis);
    kiln_tensor *last[2] = {other, cell->tensors[r->other[1]].tensor};
    const kiln_spectral_norm_opts *o = KILN_SPECTRAL_NORM(.iterations = r->iterations, .frozen = !cell->training);
    if (kiln_spectral_norm(v, last[0], last[1], r->axis, o, &y, &next[0], &next[1])) return NULL;
    for (int i = 0; i < 2 && cell->training; i++) kiln_assign(last[i], next[i]);
    return kiln_error() ? NULL : y;
}

static void exchange(kiln_cell *cell, struct cell_reparam *r, kiln_tensor *t)
{
    struct cell_tensor *slot = &cell->tensors[r->at];
    char *name = slot->name;
    slot->name = r->name;
    r->name = name;
    slot->tensor = t;
}

kiln_status reparams_enter(kiln_cell *cell)
{
    for (struct cell_reparam *r = cell->reparams; r; r = r->next) {
        kiln_tensor *made = r->saved ? NULL : compute(cell, r);
        if (kiln_error()) return kiln_error();
        if (r->saved) continue; // the cell calls itself
        r->saved = cell_tensor_at(cell, r->at);
        exchange(cell, r, made);
    }
    return kiln_error();
}

void reparams_leave(kiln_cell *cell)
{
    for (struct cell_reparam *r = cell->reparams; r && cell->calls <= 1; r = r->next) {
        if (!r->saved) continue;
        exchange(cell, r, r->saved);
        r->saved = NULL;
    }
}

void reparams_free(kiln_cell *cell)
{
    for (struct cell_reparam *r = cell->reparams, *next; r; r = next) {
        next = r->next;
        free(r->name);
        free(r);
    }
}

// The place of a parameter of the cell itself.
static kiln_status find(const char *call, const kiln_cell *cell, const char *name, int64_t axis, size_t *at)
{
    TRY(cell_check(call, cell));
    if (!name) return error_set(KILN_E_ARGUMENT, "%s: name is NULL", call);
    if (cell->calls) return error_set(KILN_E_STATE, "%s: cell %s is running", call, cell->kind);
    for (*at = 0; *at < cell->n_tensors; ++*at)
        if (cell->tensors[*at].is_parameter && !strcmp(cell->tensors[*at].name, name)) break;
    if (*at == cell->n_tensors)
        return error_set(KILN_E_ARGUMENT, "%s: cell %s has no parameter \"%s\" of its own", call, cell->kind, name);
    for (const struct cell_reparam *r = cell->reparams; r; r = r->next)
        if (r->at == *at || r->other[0] == *at)
            return error_set(KILN_E_ARGUMENT, "%s: \"%s\" is of a norm already", call, name);
    int64_t rank = (int64_t)kiln_rank(cell->tensors[*at].tensor);
    if (axis >= -rank && axis < rank) return KILN_OK;
    return error_set(KILN_E_AXIS, "%s: axis %" PRId64 " is out of range for \"%s\" of rank %" PRId64, call, axis, name,
                     rank);
}

static char *suffixed(const char *name, const char *suffix)
{
    char *text = malloc(strlen(name) + strlen(suffix) + 1);
    if (text)
        sprintf(text, "%s%s", name, suffix);
    else
        error_set(KILN_E_MEMORY, "cell: host memory is exhausted");
    return text;
}

// The parameter at `at` gets a name with a suffix; its own one is that of the computed weight.
static kiln_status install(kiln_cell *cell, const struct cell_reparam *spec, const char *suffix)
{
    struct cell_reparam *r = malloc(sizeof *r);
    char *name = r ? suffixed(cell->tensors[spec->at].name, suffix) : NULL;
    if (!name) {
        free(r);
        return kiln_error() ? kiln_error() : error_set(KILN_E_MEMORY, "cell: host memory is exhausted");
    }
    *r = *spec;
    r->next = cell->reparams;
    r->name = cell->tensors[r->at].name;
    cell->tensors[r->at].name = name;
    cell->reparams = r;
    return KILN_OK;
}

static kiln_tensor *add(kiln_cell *cell, const char *name, const char *suffix, kiln_tensor *t, bool parameter,
                        size_t *at)
{
    char *text = t ? suffixed(name, suffix) : NULL;
    *at = cell->n_tensors;
    if (!text) return NULL;
    kiln_tensor *added = parameter ? kiln_cell_add_parameter(cell, text, t) : kiln_cell_add_buffer(cell, text, t);
    free(text);
    if (added) cell->tensors[*at].is_aside = true;
    return added;
}

// The norm over all axes but one, with 1 in their place.
static kiln_tensor *norm_but(kiln_tensor *w, int64_t axis)
{
    int64_t axes[KILN_MAX_RANK], rank = (int64_t)kiln_rank(w);
    size_t n = 0;
    for (int64_t i = 0; i < rank; i++)
        if (i != (axis < 0 ? axis + rank : axis)) axes[n++] = i;
    return n ? kiln_norm(w, KILN_NORM(.axes = {n, axes}, .keepdims = true)) : kiln_abs(w);
}

kiln_status kiln_cell_weight_norm(kiln_cell *cell, const char *name, int64_t axis)
{
    struct cell_reparam r = {.kind = WEIGHT_NORM, .axis = axis};
    TRY(find("cell_weight_norm", cell, name, axis, &r.at));
    kiln_scope *scope = kiln_scope_begin();
    kiln_no_grad_begin();
    kiln_tensor *g = norm_but(cell_tensor_at(cell, r.at), axis);
    kiln_no_grad_end();
    add(cell, name, "_g", g, true, &r.other[0]);
    r.other[1] = r.other[0];
    kiln_scope_end(&scope);
    return kiln_error() ? kiln_error() : install(cell, &r, "_v");
}

static kiln_tensor *random_unit(kiln_tensor *w, int64_t n)
{
    kiln_tensor *t = kiln_normal(kiln_tensor_device(w), kiln_tensor_dtype(w), KILN_SHAPE(n), 0, 1);
    return kiln_normalize(t, 0, NULL);
}

kiln_status kiln_cell_spectral_norm(kiln_cell *cell, const char *name, int64_t axis, int64_t iterations)
{
    struct cell_reparam r = {.kind = SPECTRAL_NORM, .axis = axis, .iterations = iterations ? iterations : 1};
    TRY(find("cell_spectral_norm", cell, name, axis, &r.at));
    if (iterations < 0)
        return error_set(KILN_E_ARGUMENT, "cell_spectral_norm: iterations must not be negative, got %" PRId64,
                         iterations);
    kiln_tensor *w = cell_tensor_at(cell, r.at);
    int64_t rank = (int64_t)kiln_rank(w), rows = kiln_dims(w)[axis < 0 ? axis + rank : axis];
    kiln_scope *scope = kiln_scope_begin();
    add(cell, name, "_u", random_unit(w, rows), false, &r.other[0]);
    add(cell, name, "_v", random_unit(w, rows ? kiln_numel(w) / rows : 0), false, &r.other[1]);
    kiln_scope_end(&scope);
    if (!kiln_error()) TRY(install(cell, &r, "_orig"));
    if (!kiln_error() && !cell->by_mode) cell->by_mode = "spectral_norm";
    return kiln_error();
}
