// Backward graphs of parts of the tape: what they are found by, and what they need.
#pragma once
#include "jit/auto/auto.h"

// Where a saved value comes from at each call: a value of a node, or a run-time number of the segment.
enum { ORIGIN_NUMBER = -1 };
struct origin {
    int32_t node, value;
};

struct auto_gradient {
    struct auto_gradient *next;
    int64_t *key;
    size_t n_key;
    bool *present;       // by what leaves the part: whether a gradient arrives
    struct entry *entry; // NULL: it cannot be compiled
    struct origin *origins;
};

// The step that left a node; NULL: none did.
static inline const struct auto_step *auto_step_of(const struct tape_node *n)
{
    return auto_is_tagged(n) ? n->held_place : NULL;
}

// derive.c: entry and origins of g, for a part whose last step is `at`.
kiln_status auto_derive(struct trie *t, const struct tape_part *p, struct segment *s, const struct auto_step *at,
                        struct auto_gradient *g);

// trie.c
void auto_gradient_free(struct auto_gradient *g);
void auto_gradients_free(struct auto_step *s);
