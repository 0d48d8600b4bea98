// Lists of numbers by address: "which variables lie on this storage". A number is in one list at most, and comes in the
// order in which it was added: `for (i = chains_first(&c, key); i >= 0; i = chains_next(&c, i))`.
#pragma once
#include "base/base.h"

struct chain_slot {
    const void *key;
    int32_t first, last;
};
struct chains {
    struct chain_slot *v; // open addressing with linear probing
    size_t cap, n;
    int32_t *next; // by number
    size_t n_next;
};

// Nothing for NULL. KILN_E_MEMORY leaves the lists as they were.
kiln_status chains_add(struct chains *c, const void *key, int32_t number);
int32_t chains_first(const struct chains *c, const void *key); // -1: none
void chains_finish(struct chains *c);

static inline int32_t chains_next(const struct chains *c, int32_t number)
{
    return c->next[number];
}
