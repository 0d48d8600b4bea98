// What a loop computes anew in each trip and is the same in all: it is computed once, before the loop.
//
// Invariant is what depends on nothing but operands that all trips read, numbers and constants. Moved is of that
//   - what folds, multiplies, sorts or gathers: all but elementwise ops, views and the making of a tensor of numbers,
//   - and what a node of that kind that is not invariant, or an owner of regions, reads: as an elementwise value it
//     would be computed again in each trip, or lie in memory anyway. It may not have more elements than its operands.
// Elementwise ops for elementwise ops stay: they are computed where they are used, without memory, in the kernel of the
// body. So does what could fail where the loop would not have come to it: without a trip, or behind a call of the host.
#include "pass/weave.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include "ops/index_check.h"
#include <stdlib.h>
#include <string.h>

struct hoisting {
    bool *invariant; // by value of `from`
    bool *moves;     // by node: it stands before its loop now
    int32_t *before; // by value: what stands for it there
};

// --- what is moved

static bool is_light(const struct ir_node *n)
{
    if (n->op->index >= (unsigned)op_count) return false;
    return n->op->flags & (OP_ELEMENTWISE | OP_VIEW | OP_CREATES);
}

static bool is_pure(const struct ir_node *n, bool certain)
{
    if (n->op->index >= (unsigned)op_count || n->n_regions || op_regions_rule(n->op)) return false; // a user's may fail
    if (n->op->flags & (OP_EFFECT | OP_RANDOM | OP_HOST | OP_STORAGE_VIEW)) return false;
    return certain || !op_checks_index(n->op);
}

static void find_invariant(const struct kiln_graph *g, struct hoisting *h, const struct weave_loop *l,
                           const struct ir_region *r, int32_t region, bool certain)
{
    for (int k = l->n_carried + l->n_scanned; k < l->n_taken; k++) h->invariant[r->first_param + k] = true;
    for (int32_t i = r->first_node; i < r->first_node + r->n_nodes; i++) {
        const struct ir_node *n = &g->nodes.v[i];
        bool all = n->region == region && is_pure(n, certain);
        for (int k = 0; k < n->n_in && all; k++) {
            int32_t v = ir_operands(g, n)[k];
            bool shared = v < 0 || g->values.v[v].kind == IR_NUMBER || g->values.v[v].kind == IR_CONSTANT;
            all = shared || h->invariant[v];
        }
        for (int k = 0; k < n->n_out; k++) all &= !g->values.v[n->first_out + k].type.weak;
        for (int k = 0; k < n->n_out; k++) h->invariant[n->first_out + k] = all;
    }
}

static int32_t maker(const struct kiln_graph *g, const struct hoisting *h, int32_t v)
{
    return v >= 0 && g->values.v[v].kind == IR_NODE && h->invariant[v] ? g->values.v[v].node : -1;
}

// What moved nodes read moves as well.
static bool move_makers(const struct kiln_graph *g, struct hoisting *h, const struct ir_region *r)
{
    bool any = false;
    for (int32_t i = r->first_node + r->n_nodes; i-- > r->first_node;) {
        const struct ir_node *n = &g->nodes.v[i];
        any |= h->moves[i];
        for (int k = 0; k < n->n_in && h->moves[i]; k++) {
            int32_t before = maker(g, h, ir_operands(g, n)[k]);
            if (before >= 0) h->moves[before] = true;
        }
    }
    return any;
}

static bool grows(const struct kiln_graph *g, const struct ir_node *n)
{
    int64_t most = 1;
    for (int k = 0; k < n->n_in; k++) {
        int32_t v = ir_operands(g, n)[k];
        if (v >= 0 && type_numel(&g->values.v[v].type) > most) most = type_numel(&g->values.v[v].type);
    }
    return type_numel(&g->values.v[n->first_out].type) > most;
}

// An invariant elementwise value that a node reads which is neither elementwise nor invariant, maybe as a view.
static void move_operand(const struct kiln_graph *g, struct hoisting *h, int32_t v)
{
    int32_t node = maker(g, h, v);
    while (node >= 0 && g->nodes.v[node].op->flags & OP_VIEW) node = maker(g, h, ir_operands(g, &g->nodes.v[node])[0]);
    if (node < 0 || !(g->nodes.v[node].op->flags & OP_ELEMENTWISE) || grows(g, &g->nodes.v[node])) return;
    h->moves[node] = true;
}

static bool choose(const struct kiln_graph *g, struct hoisting *h, const struct ir_region *r, int32_t region)
{
    for (int32_t i = r->first_node; i < r->first_node + r->n_nodes; i++) {
        const struct ir_node *n = &g->nodes.v[i];
        if (n->region != region || (is_light(n) && !n->n_regions)) continue;
        if (n->n_out && h->invariant[n->first_out])
            h->moves[i] = true;
        else
            for (int k = 0; k < n->n_in; k++) move_operand(g, h, ir_operands(g, n)[k]);
    }
    return move_makers(g, h, r);
}

// --- the loop without it

// Moved values that something reads which is not moved, one after the other.
static int find_read(const struct kiln_graph *g, const struct hoisting *h, const struct ir_region *r, int32_t *out)
{
    int n_out = 0;
    for (int32_t i = r->first_node; i < r->first_node + r->n_nodes; i++) {
        const struct ir_node *n = &g->nodes.v[i];
        for (int k = 0; k < n->n_out && h->moves[i]; k++) out[n_out++] = n->first_out + k;
    }
    return n_out;
}

static kiln_status compute_before(struct ir_graft *c, struct hoisting *h, const struct ir_node *n,
                                  const struct weave_loop *l, const struct ir_region *r)
{
    const struct kiln_graph *g = c->from;
    for (int k = l->n_carried + l->n_scanned; k < l->n_taken; k++)
        TRY(weave_map(c, r->first_param + k, weave_value(c, ir_operands(g, n)[k])));
    for (int32_t i = r->first_node; i < r->first_node + r->n_nodes; i++) {
        if (!h->moves[i]) continue;
        TRY(ir_graft_node(c, i));
        const struct ir_node *moved = &g->nodes.v[i];
        for (int k = 0; k < moved->n_out; k++) h->before[moved->first_out + k] = c->map[moved->first_out + k];
    }
    return KILN_OK;
}

static kiln_status add_region(struct ir_graft *c, const struct weave_loop *l, const struct ir_region *r, int32_t to,
                              const int32_t *read, int n_read, int32_t *room)
{
    const struct kiln_graph *g = c->from;
    TRY(ir_region_begin(c->to, to));
    for (int k = 0; k < l->n_taken; k++) TRY(weave_param(c, r->first_param + k));
    for (int k = 0; k < n_read; k++) TRY(weave_param(c, read[k]));
    TRY(weave_param(c, r->first_param + l->n_taken));
    TRY(weave_inline(c, r));
    for (int k = 0; k < r->n_results; k++) room[k] = c->map[g->operands.v[r->first_result + k]];
    return ir_region_end(c->to, room, r->n_results);
}

static kiln_status add(struct ir_graft *c, struct hoisting *h, const struct ir_node *n, const struct weave_loop *l,
                       int32_t *read, int32_t *room)
{
    const struct kiln_graph *g = c->from;
    int n_read = 0, n_in = 0;
    for (int i = 0; i < n->n_regions; i++) {
        const struct ir_region *r = &g->regions.v[n->first_region + i];
        TRY(compute_before(c, h, n, l, r));
        n_read += find_read(g, h, r, read + n_read);
    }
    int32_t first = ir_add_regions(c->to, n->n_regions);
    if (first < 0) return error_pending;
    for (int i = 0; i < n->n_regions; i++)
        TRY(add_region(c, l, &g->regions.v[n->first_region + i], first + i, read, n_read, room));
    for (int i = 0; i < l->n_taken; i++) room[n_in++] = weave_value(c, ir_operands(g, n)[i]);
    for (int i = 0; i < n_read; i++) room[n_in++] = h->before[read[i]];
    if (l->counted) room[n_in++] = weave_value(c, ir_operands(g, n)[l->n_taken]);
    if (error_pending) return error_pending;
    int32_t out = weave_owner(c, n, n->attrs, n_in, room, first, n->n_regions);
    if (out < 0) return error_pending;
    for (int i = 0; i < n->n_out; i++) TRY(weave_map(c, n->first_out + i, out + i));
    return KILN_OK;
}

static int count_values(const struct kiln_graph *g, const struct ir_node *n)
{
    int count = n->n_in + n->n_out + 2;
    for (int i = 0; i < n->n_regions; i++) {
        const struct ir_region *r = &g->regions.v[n->first_region + i];
        count += r->n_results;
        for (int32_t k = r->first_node; k < r->first_node + r->n_nodes; k++) count += g->nodes.v[k].n_out;
    }
    return count;
}

static kiln_status visit(struct ir_graft *c, int32_t node, bool *done)
{
    struct hoisting *h = weave_user(c);
    const struct kiln_graph *g = c->from;
    const struct ir_node *n = &g->nodes.v[node];
    struct weave_loop l;
    bool any = false;
    *done = h->moves[node]; // it stands before its loop already
    if (*done || !weave_is_loop(g, node, &l)) return KILN_OK;
    bool certain = l.trips > 0 && !ir_node_has_effect(g, n);
    for (int i = 0; i < n->n_regions; i++) {
        const struct ir_region *r = &g->regions.v[n->first_region + i];
        find_invariant(g, h, &l, r, n->first_region + i, certain);
        any |= choose(g, h, r, n->first_region + i);
    }
    *done = any;
    if (!any) return KILN_OK;
    size_t count = (size_t)count_values(g, n);
    int32_t *read = malloc(2 * count * sizeof *read);
    if (!read) return error_set(KILN_E_MEMORY, "passes: out of memory");
    kiln_status status = add(c, h, n, &l, read, read + count);
    free(read);
    return status;
}

kiln_status pass_hoist(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    (void)o;
    struct hoisting h = {calloc(from->values.n + 1, sizeof *h.invariant), calloc(from->nodes.n + 1, sizeof *h.moves),
                         malloc((from->values.n + 1) * sizeof *h.before)};
    kiln_status status = KILN_OK;
    if (!h.invariant || !h.moves || !h.before)
        status = error_set(KILN_E_MEMORY, "passes: out of memory");
    else
        status = weave_graph(from, visit, &h, to);
    free(h.invariant);
    free(h.moves);
    free(h.before);
    return status;
}
