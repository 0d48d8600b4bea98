// Memory of what a segment writes: where nobody needs what was there, the program may put its results over it, as
// writes in place do. Else results lie in new memory, so that twice as much is in use, and in caches.
#include "jit/auto/auto.h"
#include <stdlib.h>

// Whether the segment needs none of its inputs once the plan has run: it gives all that is waited for, each value to
// one storage, and nothing else, such as a node of the tape, refers to the segment.
static bool is_last(const struct segment *s, const struct auto_plan *p)
{
    int known = 2; // the walk, and who breaks it
    uint8_t *taken = p->once || p->passes ? NULL : calloc(p->n_wanted + 1, 1);
    const struct lazy *l = taken ? s->lazies : NULL;
    for (; l; l = l->next, known++) {
        int i = l->failed ? -1 : auto_plan_find(p, &l->value);
        if (i < 0 || taken[i]++) break;
    }
    bool last = taken && !l && s->refs == known;
    free(taken);
    return last;
}

static bool is_replaced(const struct segment *s, const struct lazy_reader *r)
{
    const struct lazy *l = r->storage->lazy;
    return l && l->seg == s && l->outside && r->storage->readers == r && !r->next && !r->storage->borrowed &&
           r->layout.offset == 0;
}

void auto_lend(struct segment *s, const struct auto_plan *p, kiln_tensor **in)
{
    const struct auto_body *b = p->body;
    if (!b->replaced || !b->apart || !b->program || !is_last(s, p)) return;
    for (size_t i = 0; i < p->n_inputs; i++) {
        struct lazy_reader *r = b->replaced[i] ? s->inputs.v[p->inputs[i].index] : NULL;
        if (!r || !is_replaced(s, r)) continue;
        in[i]->storage->borrowed = false;
        r->storage->block.address = 0;
    }
}

void auto_take_back(struct segment *s, const struct auto_plan *p, kiln_tensor **in, bool has_failed)
{
    for (size_t i = 0; i < p->n_inputs; i++) {
        struct storage *window = in[i]->storage;
        if (!window || window->borrowed) continue;
        if (has_failed) {
            s->inputs.v[p->inputs[i].index]->storage->block = window->block;
            window->borrowed = true;
            s->spoiled |= window->spent;
        }
        tensor_destroy(in[i]);
        in[i] = NULL;
    }
}
