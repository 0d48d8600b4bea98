// The loops of a fused kernel: which pass over a row folds, stores, or keeps a value for later ones.
//
// Pass p < n_stages feeds the folds of stage p + 1; where outputs or checks by element stand on folds of the last
// stage, pass n_stages follows. Outputs by element are all stored in the last pass that there is, never earlier: an
// output may lie where an input does, and a later pass may read that again. What a pass computes is found from there
// down to row values and to what an earlier pass has kept; the rest of it is computed again.
//
// Each target writes loops of its own, and what is worth keeping it says itself. Inline throughout: the module that
// makes machine code asks too, and links none of this library.
#pragma once
#include "fuse/kernel.h"
#include <string.h>

static inline bool fused_is_fold(const struct scalar_node *n, bool across)
{
    return n->kind == SCALAR_REDUCE && ((n->code & REDUCE_ACROSS) != 0) == across;
}

// Nothing is folded: R is as good as P.
static inline bool fused_is_flat(const struct fused_kernel *k)
{
    return k->n_stages == 0 && !k->has_total;
}

// Whether an output has a value for each element of the row, not one for the row or for all.
static inline bool fused_by_element(const struct fused_kernel *k, int output)
{
    const struct fused_output *o = &k->out[output];
    if (k->level[o->node] == LEVEL_TOTAL) return false;
    for (int d = k->n_dims - k->n_reduce; d < k->n_dims; d++)
        if (o->to.strides[d]) return true;
    return k->level[o->node] == LEVEL_ELEMENT;
}

// --- passes ---

// The last one, which stores by element; -1: none goes over the row.
static inline int fused_last_pass(const struct fused_kernel *k)
{
    for (int i = 0; i < k->n_out; i++)
        if (fused_by_element(k, i) && k->stage[k->out[i].node] == k->n_stages) return k->n_stages;
    for (int i = 0; i < k->n_checks; i++)
        if (k->level[k->checks[i]] == LEVEL_ELEMENT && k->stage[k->checks[i]] == k->n_stages) return k->n_stages;
    return k->n_stages - 1;
}

static inline bool fused_pass_folds(const struct fused_kernel *k, int pass, int node)
{
    return fused_is_fold(&k->dag.nodes[node], false) && k->stage[node] == pass + 1;
}

static inline bool fused_pass_stores(const struct fused_kernel *k, int pass, int output)
{
    return pass == fused_last_pass(k) && fused_by_element(k, output);
}

static inline bool fused_pass_checks(const struct fused_kernel *k, int pass, int check)
{
    return k->level[k->checks[check]] == LEVEL_ELEMENT && k->stage[k->checks[check]] == pass;
}

// Marks in `want`, n_nodes, what a pass is for: arguments of its folds, what it stores and checks.
static inline void fused_pass_mark(const struct fused_kernel *k, int pass, uint8_t *want)
{
    memset(want, 0, (size_t)k->dag.n_nodes);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (fused_pass_folds(k, pass, i)) want[k->dag.nodes[i].arg[0]] = 1;
    for (int i = 0; i < k->n_out; i++)
        if (fused_pass_stores(k, pass, i)) want[k->out[i].node] = 1;
    for (int i = 0; i < k->n_checks; i++)
        if (fused_pass_checks(k, pass, i)) want[k->checks[i]] = 1;
}

// Whether parts of a row may be passed over by themselves, as long as someone joins their folds: the first pass is the
// last one.
static inline bool fused_may_cut(const struct fused_kernel *k)
{
    return k->n_stages == 1 && fused_last_pass(k) == 0;
}

// --- values kept ---

// kept[i] becomes 1 + the pass that hands element value i on to later ones, 0 for none. Pass by pass, from the top
// down, values that an earlier pass has computed are offered; what lies below one that is kept is then not needed.
// `first` and `want` are scratch; all have n_nodes.
static inline void fused_choose_kept(const struct fused_kernel *k, bool (*worth)(void *user, int node), void *user,
                                     uint8_t *first, uint8_t *want, uint8_t *kept)
{
    memset(first, 0, (size_t)k->dag.n_nodes);
    memset(kept, 0, (size_t)k->dag.n_nodes);
    for (int pass = 0, last = fused_last_pass(k); pass <= last; pass++) {
        fused_pass_mark(k, pass, want);
        for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
            const struct scalar_node *n = &k->dag.nodes[i];
            if (!want[i] || k->level[i] != LEVEL_ELEMENT) continue;
            if (!kept[i] && first[i] && worth(user, i)) kept[i] = first[i];
            if (kept[i]) continue;
            if (!first[i]) first[i] = (uint8_t)(pass + 1);
            for (int a = 0; a < n->n_args; a++) want[n->arg[a]] = 1;
        }
    }
}
