// What a pass over the row computes (fuse/loops.h), as vectors see it.
//
// A kernel that reduces nothing is flat: all of its dimensions count as points, and no pass goes over a row.
#include "llvm/emit.h"
#include "scalar/prim.h"
#include <string.h>

enum {
    WORTH_KEEPING = 8,     // arithmetic steps; fewer are done again
    MOST_KEPT_B = 80 << 10 // of buffers on the stack
};

enum fused_level pass_level(const struct emitter *e, int node)
{
    enum fused_level level = (enum fused_level)e->k->level[node];
    return level == LEVEL_ELEMENT && e->n_parallel == e->k->n_dims ? LEVEL_ROW : level;
}

int row_pass_count(const struct emitter *e)
{
    return fused_is_flat(e->k) ? 0 : fused_last_pass(e->k) + 1;
}

bool pass_by_element(const struct emitter *e, int output)
{
    return !fused_is_flat(e->k) && fused_by_element(e->k, output);
}

void pass_want(struct emitter *e, int pass, uint8_t *want)
{
    const struct fused_kernel *k = e->k;
    fused_pass_mark(k, pass, want);
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (pass_level(e, i) != LEVEL_ELEMENT) want[i] = 0;
        if (!want[i]) continue;
        if (e->kept_pass[i] && e->kept_pass[i] <= pass) want[i] = 2;
        for (int a = 0; want[i] == 1 && a < n->n_args; a++) want[n->arg[a]] = 1;
    }
}

// --- values kept for later passes ---

// Steps to compute a node from the inputs and row values, shared parts counted once.
static int cone_cost(const struct emitter *e, int node, uint8_t *mark)
{
    int cost = 0;
    memset(mark, 0, (size_t)e->k->dag.n_nodes);
    mark[node] = 1;
    for (int i = node; i >= 0; i--) {
        if (!mark[i] || pass_level(e, i) != LEVEL_ELEMENT) continue;
        cost += scalar_node_steps(&e->k->dag.nodes[i]);
        for (int a = 0; a < e->k->dag.nodes[i].n_args; a++) mark[e->k->dag.nodes[i].arg[a]] = 1;
    }
    return cost;
}

static bool is_narrow(const struct emitter *e, int node)
{
    enum scalar_class cls = e->k->dag.nodes[node].cls;
    return cls != CLASS_F64 && cls != CLASS_I64;
}

// Of the steps to an element those that wait for each other.
static int longest_chain(const struct emitter *e, uint8_t *depth)
{
    int longest = 0;
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        const struct scalar_node *n = &e->k->dag.nodes[i];
        int before = 0;
        for (int a = 0; a < n->n_args; a++)
            if (depth[n->arg[a]] > before) before = depth[n->arg[a]];
        int now = before + (n->kind == SCALAR_PRIM && !e->waits[i]);
        depth[i] = (uint8_t)(now < UINT8_MAX ? now : UINT8_MAX);
        if (depth[i] > longest) longest = depth[i];
    }
    return longest;
}

struct pass_load pass_measure(struct emitter *e, int pass)
{
    struct pass_load load = {0};
    bool by_row = e->over_row && pass >= 0;
    if (by_row) pass_want(e, pass, e->want);
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        const struct scalar_node *n = &e->k->dag.nodes[i];
        bool is_float = n->cls == CLASS_F32 || n->cls == CLASS_F64;
        if (e->waits[i] || (by_row && e->want[i] != 1)) continue;
        load.wide_lanes = load.wide_lanes || n->cls == CLASS_F64 || n->cls == CLASS_I64;
        load.steps += n->kind == SCALAR_PRIM;
        load.by_lanes = load.by_lanes || (n->kind == SCALAR_PRIM && n->code == PRIM_div && !is_float);
    }
    load.chain = longest_chain(e, e->want + 2 * e->k->dag.n_nodes);
    return load;
}

struct keeper {
    struct emitter *e;
    int kept_B;
};

static bool is_worth_keeping(void *user, int node)
{
    struct keeper *keeper = user;
    struct emitter *e = keeper->e;
    int more_B = 8 * ((int)e->plan->choices[LLVM_KEEP] + 64) / (is_narrow(e, node) ? 2 : 1);
    if (!e->varies[node] || e->waits[node] || keeper->kept_B + more_B > MOST_KEPT_B) return false;
    if (cone_cost(e, node, e->want + 2 * e->k->dag.n_nodes) < WORTH_KEEPING) return false;
    keeper->kept_B += more_B;
    return true;
}

void pass_choose_kept(struct emitter *e)
{
    struct keeper keeper = {e, 0};
    fused_choose_kept(e->k, is_worth_keeping, &keeper, e->want + e->k->dag.n_nodes, e->want, e->kept_pass);
}
