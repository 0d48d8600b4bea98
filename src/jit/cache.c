// The programs of a function: in the order of their last use, and by what their inputs look like. Bounded in bytes, and
// in number where that is asked for; what goes over the bounds leaves, and its memory goes with the last call that runs
// it.
//
// A call asks the program used last. Where that does not fit, those that were made for inputs of the same dtypes and
// shapes are asked, so that a call costs the same however many shapes there are.
#include "base/hash.h"
#include "jit/function.h"
#include "program/kernels.h"
#include <stdlib.h>

enum { FEW_BUCKETS = 16 };
#define CACHE_B (UINT64_C(256) << 20)

// Of all that guard_check compares for equality, whatever else an entry was made for.
static uint64_t shape_key(kiln_tensor *const *in, size_t n_in)
{
    uint64_t h = hash_u64(0, n_in);
    for (size_t i = 0; i < n_in; i++) {
        const struct type *t = &in[i]->type;
        h = hash_u64(h, (uint64_t)t->dtype << 16 | (uint64_t)t->rank << 8 | (uint64_t)t->weak << 1 | !in[i]->storage);
        for (int d = 0; d < t->rank; d++) h = hash_u64(h, (uint64_t)t->dims[d]);
    }
    return h;
}

static struct entry **bucket_of(const struct kiln_function *f, uint64_t key)
{
    return &f->buckets[key & (f->n_buckets - 1)];
}

// --- the order of use

static void unlink_entry(struct kiln_function *f, struct entry *e)
{
    *(e->prev ? &e->prev->next : &f->first) = e->next;
    *(e->next ? &e->next->prev : &f->last) = e->prev;
    e->prev = e->next = NULL;
}

static void link_first(struct kiln_function *f, struct entry *e)
{
    e->next = f->first;
    *(f->first ? &f->first->prev : &f->last) = e;
    f->first = e;
}

// --- buckets

static void take_out(struct kiln_function *f, struct entry *e)
{
    struct entry **p = bucket_of(f, e->key);
    while (*p != e) p = &(*p)->chain;
    *p = e->chain;
    unlink_entry(f, e);
    f->n_entries--;
    f->size_B -= e->size_B;
}

static kiln_status grow(struct kiln_function *f)
{
    size_t n = f->n_buckets ? 2 * f->n_buckets : FEW_BUCKETS;
    struct entry **buckets = calloc(n, sizeof *buckets);
    if (!buckets) return error_set(KILN_E_MEMORY, "jit: out of memory");
    free(f->buckets);
    f->buckets = buckets;
    f->n_buckets = n;
    for (struct entry *e = f->last; e; e = e->prev) { // the one used last comes first
        struct entry **b = bucket_of(f, e->key);
        e->chain = *b;
        *b = e;
    }
    return KILN_OK;
}

// --- what others call

struct entry *cache_find(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, struct guard_key key,
                         enum guard_kind *failed, size_t *at)
{
    *failed = GUARD_OK;
    if (!f->first) return NULL;
    *failed = guard_check(&f->first->guard, in, n_in, key, at);
    if (KILN_LIKELY(*failed == GUARD_OK)) return entry_ref(f->first);
    uint64_t shapes = shape_key(in, n_in);
    for (struct entry *e = *bucket_of(f, shapes); e; e = e->chain) {
        size_t where;
        if (e == f->first || e->key != shapes || guard_check(&e->guard, in, n_in, key, &where)) continue;
        unlink_entry(f, e);
        link_first(f, e);
        return entry_ref(e);
    }
    return NULL;
}

void cache_remove(struct kiln_function *f, struct entry *e)
{
    struct entry *kept = f->n_buckets ? *bucket_of(f, e->key) : NULL;
    while (kept && kept != e) kept = kept->chain;
    if (!kept) return;
    take_out(f, e);
    entry_unref(&e);
}

kiln_status cache_add(struct kiln_function *f, struct entry *e, kiln_tensor *const *in, struct entry **dropped)
{
    uint64_t entries = f->o.cache_entries ? f->o.cache_entries : UINT64_MAX;
    uint64_t size_B = f->o.cache_B ? f->o.cache_B : CACHE_B;
    *dropped = NULL;
    if (f->n_entries >= f->n_buckets) TRY(grow(f));
    e->key = shape_key(in, e->guard.n_in);
    struct entry **b = bucket_of(f, e->key);
    e->chain = *b;
    *b = entry_ref(e);
    link_first(f, e);
    f->n_entries++;
    f->size_B += e->size_B;
    while (f->n_entries > 1 && (f->n_entries > entries || f->size_B > size_B)) {
        struct entry *last = f->last;
        take_out(f, last);
        f->stats.evictions++;
        function_note(f, "program %llu: evicted, %zu are kept", (unsigned long long)last->number, f->n_entries);
        last->next = *dropped;
        *dropped = last;
    }
    return KILN_OK;
}
