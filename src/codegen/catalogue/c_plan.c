// Which pass computes what.
//
// Pass s < n_stages goes over the row to fold the reductions of stage s + 1; the last pass computes the output. An
// element value that several passes need is computed again in each, unless that costs more than reading it back: then
// the first pass that computes it keeps it. The walk goes from what a pass must deliver down to the inputs and stops at
// row values and at kept values, so only the topmost value of a costly expression is kept.
#include "codegen/catalogue/c_plan.h"
#include "scalar/prim.h"

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

// Marks in p->element what pass must deliver: arguments of its reductions, or the root. Row values among them go to
// `frontier`.
static void mark_roots(struct c_plan *p, int pass)
{
    const struct kernel *k = p->k;
    for (int i = 0; i < k->dag.n_nodes; i++) p->element[i] = p->kept[i] = p->row[i] = p->frontier[i] = 0;
    if (pass == k->n_stages) {
        if (k->is_row[k->dag.root])
            p->frontier[k->dag.root] = 1;
        else
            p->element[k->dag.root] = 1;
        return;
    }
    for (int i = 0; i < p->n_reduce; i++) {
        int node = p->reduce_node[i], arg = k->dag.nodes[node].arg[0];
        if (k->stage[node] != pass + 1) continue;
        if (k->is_row[arg])
            p->frontier[arg] = 1;
        else
            p->element[arg] = 1;
    }
}

void c_plan_pass(struct c_plan *p, int pass)
{
    const struct kernel *k = p->k;
    const struct scalar_node *nodes = k->dag.nodes;
    mark_roots(p, pass);
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        if (!p->element[i]) continue;
        int keep = c_plan_keep(p, i);
        if (keep >= 0 && p->keep_pass[keep] < pass) {
            p->kept[i] = 1;
            p->element[i] = 0;
            continue;
        }
        for (int j = 0; j < nodes[i].n_args; j++) {
            int arg = nodes[i].arg[j];
            if (k->is_row[arg])
                p->frontier[arg] = 1;
            else
                p->element[arg] = 1;
        }
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

// Looks, pass by pass, for values that an earlier pass has computed at some cost. A pass's masks are made again after
// each value found, since what lies below it is then not needed.
static void choose_kept(struct c_plan *p, uint8_t *first_pass, uint8_t *mark)
{
    const struct kernel *k = p->k;
    for (int pass = 0; pass <= k->n_stages; pass++) {
        c_plan_pass(p, pass);
        for (int i = k->dag.n_nodes - 1; i >= 0 && p->n_keep < C_MAX_KEEP; i--) {
            if (!p->element[i] || !first_pass[i] || first_pass[i] > pass) continue;
            if (cone_cost(p, i, mark) < WORTH_KEEPING) continue;
            p->keep_node[p->n_keep] = i;
            p->keep_pass[p->n_keep++] = first_pass[i] - 1;
            c_plan_pass(p, pass);
        }
        for (int i = 0; i < k->dag.n_nodes; i++) {
            if (!p->element[i]) continue;
            p->cost += scalar_node_steps(&k->dag.nodes[i]);
            if (!first_pass[i]) first_pass[i] = (uint8_t)(pass + 1);
        }
        p->cost++;
    }
}

// The reductions that the root needs.
static kiln_status find_reductions(struct c_plan *p, uint8_t *mark)
{
    const struct kernel *k = p->k;
    for (int i = 0; i < k->dag.n_nodes; i++) mark[i] = i == k->dag.root;
    for (int i = k->dag.root; i >= 0; i--)
        for (int j = 0; mark[i] && j < k->dag.nodes[i].n_args; j++) mark[k->dag.nodes[i].arg[j]] = 1;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (!mark[i] || k->dag.nodes[i].kind != SCALAR_REDUCE) continue;
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
    TRY(find_reductions(out, masks + 4 * n));
    for (size_t i = 0; i < n; i++) masks[4 * n + i] = 0;
    choose_kept(out, masks + 4 * n, masks + 5 * n);
    return KILN_OK;
}
