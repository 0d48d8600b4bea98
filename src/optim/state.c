// Parameters of groups: which there may be, handles on them, and state beside them, named by the parameter's number.
#include "optim/state.h"
#include "base/dtype.h"

#include <kiln/jit.h>
#include <kiln/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t state_count_params(const kiln_optim *opt)
{
    size_t n = 0;
    for (size_t i = 0; opt && i < opt->n_groups; i++) n += opt->groups[i]->n;
    return n;
}

static kiln_status check_one(const char *kind, size_t i, kiln_tensor *p)
{
    if (!p) return error_set(KILN_E_ARGUMENT, "%s: parameter %zu is NULL", kind, i);
    kiln_dtype dtype = kiln_tensor_dtype(p);
    TRY(kiln_error());
    if (!dtype_is_float(dtype) || !kiln_is_leaf(p))
        return error_set(KILN_E_ARGUMENT, "%s: parameter %zu \"%s\" must be a leaf of a float dtype, it is %s of %s",
                         kind, i, kiln_name(p), kiln_is_leaf(p) ? "a leaf" : "a result", kiln_dtype_name(dtype));
    if (!kiln_requires_grad(p) && !*kiln_name(p)) // a frozen parameter has its name
        return error_set(KILN_E_ARGUMENT,
                         "%s: parameter %zu is no parameter: no gradient would ever move it; make one of it with "
                         "kiln_parameter",
                         kind, i);
    return KILN_OK;
}

static kiln_status check_apart(const char *kind, size_t i, kiln_tensor *p, size_t k, kiln_tensor *other)
{
    if (!kiln_is_same(p, other)) return kiln_error();
    return error_set(KILN_E_ARGUMENT,
                     "%s: parameter %zu \"%s\" is parameter %zu, too: it would be moved twice in a step", kind, i,
                     kiln_name(p), k);
}

static kiln_status check_device(const char *kind, size_t i, kiln_tensor *p, kiln_tensor *first)
{
    kiln_device_info here = {.size = sizeof here}, there = {.size = sizeof there};
    if (kiln_tensor_device(p) == kiln_tensor_device(first)) return kiln_error();
    TRY(kiln_device_get_info(kiln_tensor_device(p), &here));
    TRY(kiln_device_get_info(kiln_tensor_device(first), &there));
    return error_set(KILN_E_DEVICE_MISMATCH,
                     "%s: parameter %zu \"%s\" is on %s, parameter 0 is on %s; make an optimiser for each", kind, i,
                     kiln_name(p), here.kind, there.kind);
}

kiln_status state_check_params(const struct optim_kind *kind, const kiln_optim *opt, kiln_tensor *const *params,
                               size_t n)
{
    const char *name = opt ? "optim_add_group" : kind->name;
    size_t first = state_count_params(opt);
    if (!params || n == 0) return error_set(KILN_E_ARGUMENT, "%s: there are no parameters", name);
    for (size_t i = 0; i < n; i++) {
        TRY(check_one(name, first + i, params[i]));
        if (kind->accepts) TRY(kind->accepts(name, params[i], first + i));
        TRY(check_device(name, first + i, params[i], opt ? opt->groups[0]->params[0] : params[0]));
        for (size_t k = 0; opt && k < opt->n_groups; k++)
            for (size_t j = 0; j < opt->groups[k]->n; j++)
                TRY(check_apart(name, first + i, params[i], opt->groups[k]->first + j, opt->groups[k]->params[j]));
        for (size_t k = 0; k < i; k++) TRY(check_apart(name, first + i, params[i], first + k, params[k]));
    }
    return KILN_OK;
}

kiln_tensor *optim_state_tensor(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double fill)
{
    kiln_tensor *t = kiln_full(dev, dtype, rank, dims, fill);
    if (!t) return NULL;
    kiln_own(t);
    if (kiln_state(t)) kiln_free(&t);
    return t;
}

kiln_status optim_replace(kiln_tensor **slot, kiln_tensor *next)
{
    if (!next) return kiln_error();
    if (kiln_is_capturing()) return kiln_assign(*slot, next);
    kiln_own(next);
    kiln_free(slot);
    *slot = next;
    return kiln_state(next);
}

// Narrow floats keep their state in f32, where small second moments do not vanish.
static kiln_status make_slot(struct optim_group *g, size_t i, size_t j)
{
    const kiln_optim *opt = g->opt;
    kiln_tensor *p = g->params[i];
    int64_t dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(p), at = i * opt->n_slots + j;
    kiln_dtype dtype = kiln_tensor_dtype(p) == KILN_F64 ? KILN_F64 : KILN_F32;
    if (rank) memcpy(dims, kiln_dims(p), rank * sizeof *dims);
    if (!opt->kind.slots[j] || (opt->kind.slot_dims && !opt->kind.slot_dims(p, j, dims))) return KILN_OK;
    g->slots[at] = optim_state_tensor(kiln_tensor_device(p), dtype, rank, dims, g->o.start);
    if (!g->slots[at]) return kiln_error();
    char name[64];
    snprintf(name, sizeof name, "optim.%zu.%s", g->first + i, opt->kind.slots[j]);
    g->names[at] = strdup(name);
    return g->names[at] ? KILN_OK : error_set(KILN_E_MEMORY, "%s: host memory is exhausted", opt->kind.name);
}

kiln_status state_fill(struct optim_group *g, kiln_tensor *const *params)
{
    size_t n_slots = g->opt->n_slots;
    g->params = calloc(g->n, sizeof *g->params);
    g->slots = calloc(g->n * n_slots + 1, sizeof *g->slots);
    g->names = calloc(g->n * n_slots + 1, sizeof *g->names);
    if (!g->params || !g->slots || !g->names)
        return error_set(KILN_E_MEMORY, "%s: host memory is exhausted", g->opt->kind.name);
    for (size_t i = 0; i < g->n; i++) {
        kiln_tensor *p = kiln_alias(params[i]);
        if (!p) return kiln_error();
        g->params[i] = kiln_own(p);
        for (size_t j = 0; j < n_slots; j++) TRY(make_slot(g, i, j));
    }
    return KILN_OK;
}

void state_drop(struct optim_group *g)
{
    size_t n = g->n * g->opt->n_slots;
    for (size_t i = 0; g->params && i < g->n; i++) kiln_free(&g->params[i]);
    for (size_t i = 0; g->slots && i < n; i++) kiln_free(&g->slots[i]);
    for (size_t i = 0; g->names && i < n; i++) free(g->names[i]);
    free(g->params);
    free(g->slots);
    free(g->names);
}

size_t state_list(kiln_optim *opt, const char **names, kiln_tensor **tensors, size_t max)
{
    size_t n = 0;
    for (size_t k = 0; k < opt->n_groups; k++) {
        const struct optim_group *g = opt->groups[k];
        for (size_t i = 0; i < g->n * opt->n_slots; i++) {
            if (!g->slots[i]) continue;
            if (names && n < max) names[n] = g->names[i];
            if (tensors && n < max) tensors[n] = g->slots[i];
            n++;
        }
    }
    for (size_t i = 0; i < WHOLE_MAX && opt->whole[i]; i++, n++) {
        if (names && n < max) names[n] = opt->whole_names[i];
        if (tensors && n < max) tensors[n] = opt->whole[i];
    }
    return n;
}
