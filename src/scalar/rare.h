// What waits for a rare case: nodes whose values nothing but the second argument of rare(c, a, b) needs. A target that
// asks whether some element is such a case leaves them out where none is.
#pragma once
#include "scalar/prim.h"

static inline bool scalar_may_wait(const struct scalar_node *n)
{
    return n->kind == SCALAR_PRIM && n->n_args > 0;
}

static inline bool scalar_has_rare(const struct scalar_dag *d)
{
    for (int i = 0; i < d->n_nodes; i++)
        if (d->nodes[i].kind == SCALAR_PRIM && d->nodes[i].code == PRIM_rare) return true;
    return false;
}

// On entry waits[i] says that node i may wait, and is read by nodes alone; on return, that it does. A node waits only
// for those of its own level, where there are levels (else NULL).
static inline void scalar_find_waiting(const struct scalar_dag *d, const uint8_t *level, uint8_t *waits)
{
    for (int i = d->n_nodes - 1; i >= 0; i--) {
        const struct scalar_node *n = &d->nodes[i];
        bool rare = n->kind == SCALAR_PRIM && n->code == PRIM_rare;
        for (int k = 0; k < n->n_args; k++) {
            bool same = !level || level[i] == level[n->arg[k]];
            if (!same || !(waits[i] || (rare && k == 1))) waits[n->arg[k]] = 0;
        }
    }
    for (int i = 0; i < d->n_nodes; i++) waits[i] = waits[i] && scalar_may_wait(&d->nodes[i]);
}
