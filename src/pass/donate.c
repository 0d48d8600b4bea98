// Donation. Let value v be made by node N and be wanted in the storage of t. That is right when no one looks at the old
// value of t, itself or by a view of it, once N has begun to write:
//
//   - readers of t and of its views lie before N. At N itself only where N is elementwise and reads each element of t
//     just for the one element that it writes there: t is the operand itself, not a view, in v's type;
//   - no output gives t or a view of it, and no write stores them elsewhere;
//   - v is no view: its elements are N's own; and no other output gives v or a view of it, for that would lie in t.
//
// Nodes inside regions count as the owner that lies outside all regions: a loop may read again what it read before.
// Writes choose first, in the order of outputs, then results. For a result the first input of the same type that is
// given away and fits is taken. Cost: nodes times values that somebody wants to write, a pass over operands each.
#include "pass/donate.h"
#include <stdlib.h>

struct donating {
    const struct kiln_graph *g;
    int32_t *root;  // of each value: the input or constant that it is a view of, or itself
    bool *taken;    // by value: its storage is given to an output
    int32_t *outer; // of each node: the owner outside all regions
};

static void find_roots(struct donating *d)
{
    const struct kiln_graph *g = d->g;
    for (size_t i = 0; i < g->values.n; i++) {
        const struct ir_value *v = &g->values.v[i];
        d->root[i] = (int32_t)i;
        if (v->kind != IR_NODE || !(g->nodes.v[v->node].op->flags & OP_VIEW)) continue;
        d->root[i] = d->root[ir_operands(g, &g->nodes.v[v->node])[0]];
    }
    for (size_t i = g->nodes.n; i-- > 0;) {
        int32_t region = g->nodes.v[i].region;
        d->outer[i] = region < 0 ? (int32_t)i : d->outer[g->regions.v[region].owner];
    }
}

// How many outputs lie in the storage of `v`.
static int count_outputs(const struct donating *d, int32_t v)
{
    int n = 0;
    for (size_t i = 0; i < d->g->outputs.n; i++) n += d->root[d->g->outputs.v[i].value] == v;
    return n;
}

static bool is_written(const struct donating *d, int32_t v)
{
    for (size_t i = 0; i < d->g->outputs.n; i++)
        if (d->g->outputs.v[i].target == v) return true;
    return false;
}

static bool yields(const struct donating *d, int32_t target)
{
    for (size_t i = 0; i < d->g->regions.n; i++)
        for (int32_t k = 0; k < d->g->regions.v[i].n_results; k++) {
            int32_t v = d->g->operands.v[d->g->regions.v[i].first_result + k];
            if (v >= 0 && d->root[v] == target) return true;
        }
    return false;
}

// The last node outside regions that reads the target, and whether the node `at` reads it element by element only.
static int32_t last_reader(const struct donating *d, int32_t target, int32_t at, bool *aligned)
{
    const struct kiln_graph *g = d->g;
    int32_t last = -1;
    *aligned = true;
    for (size_t i = 0; i < g->nodes.n; i++)
        for (int32_t k = 0; k < g->nodes.v[i].n_in; k++) {
            const struct ir_node *n = &g->nodes.v[i];
            int32_t v = ir_operands(g, n)[k];
            if (v < 0 || d->root[v] != target) continue;
            if (n->op->flags & OP_VIEW && k == 0) continue; // looks, but does not read
            if (d->outer[i] > last) last = d->outer[i];
            if (d->outer[i] != at) continue;
            *aligned &= n->op->flags & OP_ELEMENTWISE && !n->n_regions && v == target &&
                        type_equal(&g->values.v[v].type, &g->values.v[n->first_out].type);
        }
    return last;
}

static bool fits(const struct donating *d, int32_t v, int32_t target, struct pass_donation *out)
{
    const struct ir_value *value = &d->g->values.v[v];
    bool aligned;
    if (value->kind != IR_NODE || d->root[v] != v || d->taken[target]) return false;
    if (!type_equal(&value->type, &d->g->values.v[target].type) || count_outputs(d, target) ||
        count_outputs(d, v) != 1 || yields(d, target))
        return false;
    out->safe_after = last_reader(d, target, value->node, &aligned);
    out->at_once = out->safe_after == value->node && aligned;
    return out->safe_after < value->node || out->at_once;
}

static void choose(struct donating *d, const bool *given, bool writes, struct pass_donation *out)
{
    const struct kiln_graph *g = d->g;
    for (size_t i = 0; i < g->outputs.n; i++) {
        const struct ir_output *o = &g->outputs.v[i];
        if ((o->target >= 0) != writes) continue;
        out[i] = (struct pass_donation){(int32_t)i, -1, -1, false};
        struct pass_donation found = out[i];
        for (int32_t t = writes ? o->target : 0; t < (int32_t)g->values.n && found.target < 0; t++) {
            bool mine = writes || (given && given[t] && g->values.v[t].kind == IR_INPUT && !is_written(d, t));
            if (mine && fits(d, o->value, t, &found)) found.target = t;
            if (writes) break;
        }
        if (found.target < 0) continue;
        d->taken[found.target] = true;
        out[i] = found;
    }
}

kiln_status pass_donations(const struct kiln_graph *g, const bool *given, struct pass_donation *out)
{
    struct donating d = {g, calloc(g->values.n + 1, sizeof *d.root), calloc(g->values.n + 1, sizeof *d.taken),
                         calloc(g->nodes.n + 1, sizeof *d.outer)};
    kiln_status status = KILN_OK;
    if (!d.root || !d.taken || !d.outer)
        status = error_set(KILN_E_MEMORY, "donation: out of memory");
    else {
        find_roots(&d);
        choose(&d, given, true, out);
        choose(&d, given, false, out);
    }
    free(d.root);
    free(d.taken);
    free(d.outer);
    return status;
}
