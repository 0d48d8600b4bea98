// What all composites begin and end with.
#include "compose/composite.h"

#include <stdio.h>

bool composite_begin(struct composite *c, const char *name)
{
    *c = (struct composite){.name = name};
    if (error_pending) return false;
    c->scope = kiln_scope_begin();
    return c->scope != NULL;
}

bool composite_takes(const struct composite *c, const char *argument, kiln_tensor *t)
{
    if (!t)
        error_set(KILN_E_ARGUMENT, "%s: %s is NULL", c->name, argument);
    else
        kiln_rank(t); // tells of a handle that was freed
    return !error_pending;
}

bool composite_takes_all(const struct composite *c, const char *argument, kiln_tensor *const *t, size_t n)
{
    if (n && !t) error_set(KILN_E_ARGUMENT, "%s: %s is NULL", c->name, argument);
    for (size_t i = 0; i < n && !error_pending; i++) composite_takes(c, argument, t[i]);
    return !error_pending;
}

bool composite_takes_text(const struct composite *c, const char *argument, const char *text)
{
    if (!text) error_set(KILN_E_ARGUMENT, "%s: %s is NULL", c->name, argument);
    return !error_pending;
}

void composite_end(struct composite *c, kiln_tensor **results, size_t n)
{
    if (error_pending && c->scope) error_name_op(c->name); // else it is that of a call before
    for (size_t i = 0; i < n; i++) {
        if (error_pending) results[i] = NULL;
        if (results[i]) kiln_keep(results[i]);
    }
    if (c->scope) kiln_scope_end(&c->scope);
}

struct type_words type_of(const kiln_tensor *t)
{
    struct type_words w;
    size_t n = (size_t)snprintf(w.s, sizeof w.s, "%s[", kiln_dtype_name(kiln_tensor_dtype(t)));
    for (size_t i = 0; i < kiln_rank(t) && n < sizeof w.s; i++)
        n += (size_t)snprintf(w.s + n, sizeof w.s - n, i ? ",%lld" : "%lld", (long long)kiln_dims(t)[i]);
    if (n < sizeof w.s) snprintf(w.s + n, sizeof w.s - n, "]");
    return w;
}

int composite_axis(const char *argument, int64_t axis, size_t rank, const kiln_tensor *t)
{
    int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
    if (at >= 0 && at < (int64_t)rank) return (int)at;
    error_set(KILN_E_AXIS, "%s %lld is out of range for %s", argument, (long long)axis, type_of(t).s);
    return -1;
}
