// Which pass over the row does what.
//
// Pass p < n_stages goes over the row to fold the reductions of stage p + 1; pass n_stages computes what is left. An
// output that has a value for each element is stored by the last pass, for it may lie where an input lies that later
// passes read again; where no later pass goes over the row, it is stored by the pass of its stage. What a pass needs is
// found from there down to the inputs, row values and kept values. A kernel that reduces nothing is flat: all of its
// dimensions count as points.
#include "llvm/emit.h"
#include "scalar/prim.h"
#include <string.h>

enum {
    WORTH_KEEPING = 8,     // arithmetic steps; fewer are done again
    MOST_KEPT_B = 80 << 10 // of buffers on the stack
};

bool pass_flat(const struct fused_kernel *k)
{
    return k->n_stages == 0 && !k->has_total;
}

enum fused_level pass_level(const struct emitter *e, int node)
{
    enum fused_level level = (enum fused_level)e->k->level[node];
    return level == LEVEL_ELEMENT && e->n_parallel == e->k->n_dims ? LEVEL_ROW : level;
}

bool pass_folds(const struct emitter *e, int node, int pass)
{
    const struct scalar_node *n = &e->k->dag.nodes[node];
    return n->kind == SCALAR_REDUCE && !(n->code & REDUCE_ACROSS) && e->k->stage[node] == pass + 1;
}

bool pass_by_element(const struct emitter *e, int output)
{
    const struct fused_output *o = &e->k->out[output];
    if (pass_level(e, o->node) == LEVEL_TOTAL) return false;
    for (int d = e->n_parallel; d < e->k->n_dims; d++)
        if (o->to.strides[d]) return true;
    return pass_level(e, o->node) == LEVEL_ELEMENT;
}

// Whether a pass goes over the row for other reasons than outputs of earlier stages.
static bool goes_anyway(const struct emitter *e, int pass)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (pass_folds(e, i, pass)) return true;
    for (int i = 0; i < e->k->n_out; i++)
        if (pass_by_element(e, i) && e->k->stage[e->k->out[i].node] == pass) return true;
    return false;
}

bool pass_stores(const struct emitter *e, int output, int pass)
{
    if (!pass_by_element(e, output)) return false;
    int at = e->k->stage[e->k->out[output].node];
    for (int p = at + 1; p <= e->k->n_stages; p++)
        if (goes_anyway(e, p)) at = e->k->n_stages;
    return at == pass;
}

static bool checks(const struct emitter *e, int check, int pass)
{
    int node = e->k->checks[check];
    return pass_level(e, node) == LEVEL_ELEMENT && e->k->stage[node] == pass;
}

bool pass_has_elements(const struct emitter *e, int pass)
{
    for (int i = 0; i < e->k->dag.n_nodes; i++)
        if (pass_folds(e, i, pass)) return true;
    for (int i = 0; i < e->k->n_out; i++)
        if (pass_stores(e, i, pass)) return true;
    for (int i = 0; i < e->k->n_checks; i++)
        if (checks(e, i, pass)) return true;
    return false;
}

void pass_want(struct emitter *e, int pass, uint8_t *want)
{
    const struct fused_kernel *k = e->k;
    memset(want, 0, (size_t)k->dag.n_nodes);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (pass_folds(e, i, pass)) want[k->dag.nodes[i].arg[0]] = 1;
    for (int i = 0; i < k->n_out; i++)
        if (pass_stores(e, i, pass)) want[k->out[i].node] = 1;
    for (int i = 0; i < k->n_checks; i++)
        if (checks(e, i, pass)) want[k->checks[i]] = 1;
    for (int i = k->dag.n_nodes - 1; i >= 0; i--) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (pass_level(e, i) != LEVEL_ELEMENT) want[i] = 0;
        if (!want[i]) continue;
        if (e->kept_pass[i] && e->kept_pass[i] <= pass) want[i] = 2;
        for (int a = 0; want[i] == 1 && a < n->n_args; a++) want[n->arg[a]] = 1;
    }
}

// --- values kept for later passes ---

static int step_cost(const struct scalar_node *n)
{
    if (n->kind != SCALAR_PRIM) return 0;
    return n->code == PRIM_div || n->code == PRIM_sqrt ? 4 : 1;
}

// Steps to compute a node from the inputs and row values, shared parts counted once.
static int cone_cost(const struct emitter *e, int node, uint8_t *mark)
{
    int cost = 0;
    memset(mark, 0, (size_t)e->k->dag.n_nodes);
    mark[node] = 1;
    for (int i = node; i >= 0; i--) {
        if (!mark[i] || pass_level(e, i) != LEVEL_ELEMENT) continue;
        cost += step_cost(&e->k->dag.nodes[i]);
        for (int a = 0; a < e->k->dag.nodes[i].n_args; a++) mark[e->k->dag.nodes[i].arg[a]] = 1;
    }
    return cost;
}

static bool is_narrow(const struct emitter *e, int node)
{
    enum scalar_class cls = e->k->dag.nodes[node].cls;
    return cls != CLASS_F64 && cls != CLASS_I64;
}

int pass_steps(struct emitter *e, int pass, bool *wide_lanes)
{
    enum { BY_LANES = 60 }; // divisions of integers go lane by lane, or by two vectors of f64
    int steps = 0;
    bool by_row = e->over_row && pass >= 0;
    if (by_row) pass_want(e, pass, e->want);
    for (int i = 0; i < e->k->dag.n_nodes; i++) {
        const struct scalar_node *n = &e->k->dag.nodes[i];
        bool is_float = n->cls == CLASS_F32 || n->cls == CLASS_F64;
        if (by_row && e->want[i] != 1) continue;
        *wide_lanes = *wide_lanes || n->cls == CLASS_F64 || n->cls == CLASS_I64;
        steps += n->kind == SCALAR_PRIM;
        if (n->kind == SCALAR_PRIM && n->code == PRIM_div && !is_float) steps += BY_LANES;
    }
    return steps;
}

// Pass by pass, costly values that an earlier pass has computed. A pass's needs are found again after each, for what
// lies below it is then not needed. kept_pass is 1 + the pass that computes the value.
void pass_choose_kept(struct emitter *e)
{
    int n = e->k->dag.n_nodes, kept_B = 0;
    uint8_t *first = e->want + n, *mark = e->want + 2 * n;
    memset(first, 0, (size_t)n);
    for (int pass = 0; pass <= e->k->n_stages; pass++) {
        if (!pass_has_elements(e, pass)) continue;
        pass_want(e, pass, e->want);
        for (int i = n - 1; i >= 0; i--) {
            if (e->want[i] != 1 || !first[i] || !e->varies[i]) continue;
            int more_B = 8 * ((int)e->plan->choices[LLVM_KEEP] + 64) / (is_narrow(e, i) ? 2 : 1);
            if (kept_B + more_B > MOST_KEPT_B) continue;
            if (cone_cost(e, i, mark) < WORTH_KEEPING) continue;
            e->kept_pass[i] = first[i];
            kept_B += more_B;
            pass_want(e, pass, e->want);
        }
        for (int i = 0; i < n; i++)
            if (e->want[i] == 1 && !first[i]) first[i] = (uint8_t)(pass + 1);
    }
}
