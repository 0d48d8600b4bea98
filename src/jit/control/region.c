// Runs regions: the user's code in a scope of its own, and what is checked of its outputs.
#include "jit/control/region.h"
#include "grad/state.h"
#include "ir/regions.h"
#include <inttypes.h>
#include <stdlib.h>

kiln_status region_check_output(const struct region *r, size_t i, size_t n, const kiln_tensor *t)
{
    if (!t)
        return error_set(KILN_E_ARGUMENT, "%s: %s left output %zu of %zu NULL: set each out[i], or ask for fewer",
                         r->op, r->part, i, n);
    if (t->magic == TENSOR_ALIVE && t->builder && tensor_outlives_captures())
        return error_set(KILN_E_STATE, "%s: output %zu of %s was made in a capture that has ended", r->op, i, r->part);
    if (t->magic == TENSOR_ALIVE) return KILN_OK;
    char output[128];
    snprintf(output, sizeof output, "output %zu of %s", i, r->part);
    return tensor_check(r->op, output, t);
}

static kiln_status run(const struct region *r, kiln_tensor *const *in, size_t n_in, kiln_tensor **made, size_t n_out)
{
    struct leave left;
    leave_push(&left, free, made);
    kiln_status status = state_call(r->fn, r->user, in, n_in, made, n_out);
    leave_pop(&left);
    if (error_pending) return error_pending;
    return status ? error_set(status, "%s: %s failed with %s", r->op, r->part, kiln_status_name(status)) : KILN_OK;
}

kiln_status region_run(const struct region *r, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor **made = calloc(n_out + 1, sizeof *made);
    if (!made) return error_set(KILN_E_MEMORY, "%s: out of memory", r->op);
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_status status = run(r, in, n_in, made, n_out);
    for (size_t i = 0; i < n_out && !status; i++)
        if (!(status = region_check_output(r, i, n_out, made[i])) && !(out[i] = kiln_alias(made[i])))
            status = error_pending;
    scope_leave(&scope, out, status ? 0 : n_out);
    for (size_t i = 0; i < n_out && status; i++) out[i] = NULL;
    free(made);
    return status;
}

kiln_status region_check_bool(const char *op, const char *what, const kiln_tensor *t)
{
    char text[TYPE_TEXT_MAX];
    if (t->type.dtype != KILN_BOOL)
        return error_set(KILN_E_DTYPE, "%s: %s is %s, not bool; compare it with something", op, what,
                         type_text(&t->type, text, sizeof text));
    if (t->type.rank)
        return error_set(KILN_E_SHAPE, "%s: %s is %s, not one bool of rank 0; reduce it with kiln_all or kiln_any", op,
                         what, type_text(&t->type, text, sizeof text));
    return KILN_OK;
}

kiln_status carried_check(const char *op, size_t i, int64_t trip, const struct type *before, const struct type *after)
{
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX], at[32];
    if (type_equal(before, after)) return KILN_OK;
    if (before->weak && !after->rank) return KILN_OK; // a number before the first trip
    kiln_status code = type_difference(before, after, at, sizeof at);
    return error_set(code, "%s: carried value %zu is %s before trip %" PRId64 " and %s after it: they differ %s", op, i,
                     type_text(before, a, sizeof a), trip, type_text(after, b, sizeof b), at);
}
