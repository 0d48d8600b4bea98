// The programs of a function, the one used last first. Bounded in entries and in bytes; what goes over the bounds
// leaves the list, and its memory goes with the last call that runs it.
#include "jit/function.h"
#include "program/kernels.h"
#include <stdlib.h>

struct entry *cache_find(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, struct guard_key key,
                         enum guard_kind *failed, size_t *at)
{
    *failed = GUARD_OK;
    for (struct entry **p = &f->first, *e; (e = *p); p = &e->next) {
        size_t where;
        enum guard_kind kind = guard_check(&e->guard, in, n_in, key, &where);
        if (kind == GUARD_OK) {
            *p = e->next;
            e->next = f->first;
            f->first = e;
            return entry_ref(e);
        }
        if (e != f->first) continue;
        *failed = kind;
        *at = where;
    }
    return NULL;
}

static struct entry *evict_last(struct kiln_function *f)
{
    struct entry **p = &f->first;
    while ((*p)->next) p = &(*p)->next;
    struct entry *e = *p;
    *p = NULL;
    f->n_entries--;
    f->size_B -= e->size_B;
    f->stats.evictions++;
    function_note(f, "program %llu: evicted, %zu are kept", (unsigned long long)e->number, f->n_entries);
    return e;
}

void cache_remove(struct kiln_function *f, struct entry *e)
{
    struct entry **p = &f->first;
    while (*p && *p != e) p = &(*p)->next;
    if (!*p) return;
    *p = e->next;
    f->n_entries--;
    f->size_B -= e->size_B;
    entry_unref(&e);
}

struct entry *cache_add(struct kiln_function *f, struct entry *e)
{
    uint64_t entries = f->o.cache_entries ? f->o.cache_entries : 64;
    uint64_t size_B = f->o.cache_B ? f->o.cache_B : UINT64_C(1) << 30;
    e->next = f->first;
    f->first = e;
    f->n_entries++;
    f->size_B += e->size_B;
    struct entry *dropped = NULL;
    while (f->n_entries > 1 && (f->n_entries > entries || f->size_B > size_B)) {
        struct entry *last = evict_last(f);
        last->next = dropped;
        dropped = last;
    }
    return dropped;
}
