// Lists of numbers by address.
#include "base/chains.h"
#include "base/hash.h"

#include <stdlib.h>

static struct chain_slot *find(const struct chains *c, const void *key)
{
    size_t i = (size_t)hash_u64(0, (uint64_t)(uintptr_t)key) & (c->cap - 1);
    while (c->v[i].key && c->v[i].key != key) i = (i + 1) & (c->cap - 1);
    return &c->v[i];
}

static kiln_status out_of_memory(size_t count)
{
    return error_set(KILN_E_MEMORY, "out of memory: lists of %zu numbers", count);
}

static kiln_status grow(struct chains *c)
{
    struct chains bigger = {.cap = c->cap ? c->cap * 2 : 64};
    bigger.v = calloc(bigger.cap, sizeof *bigger.v);
    if (!bigger.v) return out_of_memory(bigger.cap);
    for (size_t i = 0; i < c->cap; i++)
        if (c->v[i].key) *find(&bigger, c->v[i].key) = c->v[i];
    free(c->v);
    c->v = bigger.v;
    c->cap = bigger.cap;
    return KILN_OK;
}

static kiln_status reserve(struct chains *c, size_t count)
{
    if (count <= c->n_next) return KILN_OK;
    size_t n = c->n_next ? c->n_next * 2 : 64;
    if (n < count) n = count;
    int32_t *next = realloc(c->next, n * sizeof *next);
    if (!next) return out_of_memory(n);
    for (size_t i = c->n_next; i < n; i++) next[i] = -1;
    c->next = next;
    c->n_next = n;
    return KILN_OK;
}

kiln_status chains_add(struct chains *c, const void *key, int32_t number)
{
    if (!key) return KILN_OK;
    TRY(reserve(c, (size_t)number + 1));
    if ((c->n + 1) * 2 > c->cap) TRY(grow(c));
    struct chain_slot *of = find(c, key);
    if (of->key)
        c->next[of->last] = number;
    else
        *of = (struct chain_slot){key, number, number}, c->n++;
    of->last = number;
    return KILN_OK;
}

int32_t chains_first(const struct chains *c, const void *key)
{
    const struct chain_slot *of = c->cap && key ? find(c, key) : NULL;
    return of && of->key ? of->first : -1;
}

void chains_finish(struct chains *c)
{
    free(c->v);
    free(c->next);
    *c = (struct chains){0};
}
