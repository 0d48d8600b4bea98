// Which pass computes what.
//
// Which pass folds, stores and keeps, fuse/loops.h says. Pass s < n_stages goes over the row to fold the reductions of
// stage s + 1; the last pass computes the output. An element value that several passes need is computed again in each,
// unless that costs more than reading it back: then the first pass that computes it keeps it.
#include "codegen/catalogue/c_plan.h"
#include "fuse/loops.h"
#include "scalar/rare.h"
#include <string.h>

enum { WORTH_KEEPING = 8 }; // arithmetic steps; fewer are done again

int c_plan_reduce(const struct c_plan *p, int node)
{
    for (int i = 0; i < p->n_reduce; i++)
        if (p->reduce_node[i] == node) return i;
    return -1;
}

int c_plan_keep(const struct c_plan *p, int node)
{
    for (int i = 0; i < p->n_keep; i++)
        if (p->keep_node[i] == node) return i;
    return -1;
}

void c_plan_pass(struct c_plan *p, int pass)
{
    const struct kernel *k = p->k;
    const struct scalar_node *nodes = k->dag.nodes;
    for (int i = 0; i < k->dag.n_nodes; i++) p->kept[i] = p->row[i] = p->frontier[i] = 0;
    fused_pass_mark(k->loops, pass, p->element);
    if (pass == k->n_stages && k->row_out) p->frontier[k->dag.root] = 1;
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        if (!p->element[i]) continue;
        int keep = c_plan_keep(p, i);
        p->frontier[i] = k->is_row[i];
        p->kept[i] = keep >= 0 && p->keep_pass[keep] < pass;
        p->element[i] = !p->frontier[i] && !p->kept[i];
        for (int j = 0; p->element[i] && j < nodes[i].n_args; j++) p->element[nodes[i].arg[j]] = 1;
    }
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        if (nodes[i].kind == SCALAR_CONST) p->frontier[i] = 0;
        if (p->frontier[i]) p->row[i] = 1;
        if (!p->row[i] || nodes[i].kind == SCALAR_REDUCE) continue;
        for (int j = 0; j < nodes[i].n_args; j++)
            if (nodes[nodes[i].arg[j]].kind != SCALAR_CONST) p->row[nodes[i].arg[j]] = 1;
    }
}

// Steps to compute node i from the inputs and row values, shared parts counted once.
static int cone_cost(struct c_plan *p, int node, uint8_t *mark)
{
    const struct kernel *k = p->k;
    int cost = 0;
    for (int i = 0; i <= node; i++) mark[i] = i == node;
    for (int i = node; i >= 0; i--) {
        if (!mark[i] || k->is_row[i]) continue;
        cost += scalar_node_steps(&k->dag.nodes[i]);
        for (int j = 0; j < k->dag.nodes[i].n_args; j++) mark[k->dag.nodes[i].arg[j]] = 1;
    }
    return cost;
}

struct keeper {
    struct c_plan *p;
    uint8_t *first, *mark; // scratch
};

static bool is_worth_keeping(void *user, int node)
{
    struct keeper *keeper = user;
    struct c_plan *p = keeper->p;
    if (p->n_keep == C_MAX_KEEP || cone_cost(p, node, keeper->mark) < WORTH_KEEPING) return false;
    p->keep_node[p->n_keep] = node;
    p->keep_pass[p->n_keep++] = keeper->first[node] - 1;
    return true;
}

static void add_up_cost(struct c_plan *p, uint8_t *waits)
{
    memset(waits, 1, (size_t)p->k->dag.n_nodes);
    waits[p->k->dag.root] = 0;
    scalar_find_waiting(&p->k->dag, NULL, waits);
    for (int pass = 0; pass <= p->k->n_stages; pass++) {
        c_plan_pass(p, pass);
        p->cost++;
        for (int i = 0; i < p->k->dag.n_nodes; i++)
            if (p->element[i] && !waits[i]) p->cost += scalar_node_steps(&p->k->dag.nodes[i]);
    }
}

static kiln_status find_reductions(struct c_plan *p)
{
    const struct kernel *k = p->k;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (k->dag.nodes[i].kind != SCALAR_REDUCE) continue;
        if (p->n_reduce == C_MAX_REDUCE)
            return error_set(KILN_E_UNSUPPORTED, "kernel %s: more than %d reductions", k->name, C_MAX_REDUCE);
        p->reduce_node[p->n_reduce++] = i;
    }
    return KILN_OK;
}

kiln_status c_plan_make(struct arena *a, const struct kernel *k, struct c_plan *out)
{
    size_t n = (size_t)k->dag.n_nodes;
    *out = (struct c_plan){.k = k};
    uint8_t *masks = arena_alloc(a, 6 * n);
    if (!masks) return error_pending;
    out->element = masks;
    out->kept = masks + n;
    out->row = masks + 2 * n;
    out->frontier = masks + 3 * n;
    if (k->n_in > C_MAX_IN) return error_set(KILN_E_UNSUPPORTED, "kernel %s: more than %d inputs", k->name, C_MAX_IN);
    TRY(find_reductions(out));
    struct keeper keeper = {.p = out, .first = masks + 4 * n, .mark = masks + 5 * n};
    fused_choose_kept(k->loops, is_worth_keeping, &keeper, keeper.first, out->element, out->kept);
    add_up_cost(out, keeper.mark);
    return KILN_OK;
}
