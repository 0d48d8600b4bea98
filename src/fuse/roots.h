// Inside fusion: which units are computed where they are read, and what then depends on what.
#pragma once
#include "fuse/fuse.h"

// A unit is *inlined* when every reader computes it again: it has an expression without folds, and it is cheap or has
// one reader. All others are roots: their results are stored unless all readers end up in their kernel. The closure of
// a root is the root and the inlined units that it reads, directly or through others, in order.
struct roots {
    const struct units *u;
    struct arena *arena;
    bool *inlined;     // by unit
    int32_t **closure; // by unit; NULL: inlined
    int32_t *n_closure;
    int32_t *first_reader;          // by buffer, into readers; one more than there are buffers
    int32_t *readers;               // roots that read it, in order
    int32_t *first_after;           // by unit, into after
    int32_t *after;                 // roots that must run after this root
    int32_t *first_before, *before; // the same the other way round
};

kiln_status roots_again(struct roots *r); // after a change of `inlined`
kiln_status roots_find(struct roots *r, const struct units *u, struct arena *arena);
// The units in the closure of `root` cannot be inlined after all; find again.
kiln_status roots_split(struct roots *r, int32_t root);
