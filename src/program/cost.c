// What a run costs, as far as that is known before it: products that are added up, and bytes that launches touch.
//
// Of a loop whose number of trips is not known one trip counts, of a condition the branch that costs most bytes, and
// all branches' products.
#include "program/cost.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include "program/region.h"
#include "tensor/apply.h"

#include <stdlib.h>

static double trips_of(const struct ir_node *n)
{
    if (n->op != &op_instances[OP_loop]) return 1;
    int64_t trips = n->attrs[AT_loop_trips].i;
    return trips > 0 ? (double)trips : 1;
}

static double times_of(const struct kiln_graph *g, const struct ir_node *n)
{
    double times = 1;
    for (int32_t r = n->region; r >= 0 && g->regions.v[r].owner >= 0;) {
        const struct ir_node *owner = &g->nodes.v[g->regions.v[r].owner];
        times *= trips_of(owner);
        r = owner->region;
    }
    return times;
}

double cost_flops_from(const struct kiln_graph *g, size_t first)
{
    double flops = 0;
    for (size_t i = first; i < g->nodes.n; i++) {
        const struct ir_node *n = &g->nodes.v[i];
        const struct type *in[3] = {NULL};
        if (!n->op->products.kind) continue;
        for (int k = 0; k < n->n_in && k < 3; k++) {
            int32_t v = ir_operands(g, n)[k];
            in[k] = v < 0 ? NULL : &g->values.v[v].type;
        }
        flops += 2 * times_of(g, n) * op_multiply_adds(n->op, in, &g->values.v[n->first_out].type);
    }
    return flops;
}

double cost_flops(const struct kiln_graph *g)
{
    return cost_flops_from(g, 0);
}

static double access_B(const struct fused_kernel *k, const struct fused_access *a)
{
    double n = dtype_size_B[a->dtype];
    for (int d = 0; d < k->n_dims; d++)
        if (a->strides[d]) n *= (double)k->sizes[d];
    return n;
}

// How often a place of the access is computed.
static double places(const struct fused_kernel *k, int access)
{
    enum fused_level most = LEVEL_UNIFORM;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (n->kind == SCALAR_LOAD && n->code == access && k->level[i] > most) most = (enum fused_level)k->level[i];
    }
    if (most == LEVEL_UNIFORM || most == LEVEL_TOTAL) return 1;
    return (double)fused_points(k) * (most == LEVEL_ELEMENT ? (double)fused_row_length(k) : 1);
}

double cost_access_B(const struct fused_kernel *k, int access)
{
    const struct fused_access *a = fused_access_at(k, access);
    if (access >= k->n_in || !fused_is_placed(k, access)) return access_B(k, a);
    return places(k, access) * dtype_size_B[a->dtype];
}

static double launch_B(const struct launch *l)
{
    double n = 0;
    for (int i = 0; i < l->n_operands; i++)
        if (!(l->operands[i].flags & OPERAND_IMMEDIATE))
            n += (double)(l->operands[i].range_hi_B - l->operands[i].range_lo_B);
    return n;
}

static double moved_by(const struct program *p)
{
    return p ? p->facts.moved_B : 0;
}

static int kernels_of(const struct program *p)
{
    return p ? p->facts.n_kernels : 0;
}

static int region_kernels(const struct program_region *r)
{
    int n = kernels_of(r->start) + kernels_of(r->end) + kernels_of(r->child[0]) + kernels_of(r->child[1]);
    for (int i = 0; i < r->n_branches; i++) n += kernels_of(r->branches[i]);
    return n;
}

static int by_address(const void *x, const void *y)
{
    uintptr_t a = (uintptr_t) * (void *const *)x, b = (uintptr_t) * (void *const *)y;
    return (a > b) - (a < b);
}

int cost_kernels(struct program *p)
{
    int n = 0;
    if (p->n_kernels > 1) qsort(p->kernels, (size_t)p->n_kernels, sizeof(struct jit_kernel *), by_address);
    for (int i = 0; i < p->n_kernels; i++) n += p->kernels[i] && (!i || p->kernels[i] != p->kernels[i - 1]);
    for (int i = 0; i < p->n_actions; i++)
        if (p->actions[i].region) n += region_kernels(p->actions[i].region);
    return n;
}

static double region_B(const struct program_region *r)
{
    double most = 0, trips = r->trips > 0 ? (double)r->trips : 1;
    for (int i = 0; i < r->n_branches; i++)
        if (moved_by(r->branches[i]) > most) most = moved_by(r->branches[i]);
    if (r->n_branches) return most;
    return moved_by(r->start) + moved_by(r->end) + trips * (moved_by(r->child[0]) + moved_by(r->child[1]));
}

double cost_moved_B(const struct program *p)
{
    double n = 0;
    for (int i = 0; i < p->n_actions; i++) {
        const struct action *a = &p->actions[i];
        for (int e = 0; e < a->n_entries && a->fused; e++)
            for (int k = 0; k < a->fused[e]->n_in + a->fused[e]->n_out; k++)
                n += access_B(a->fused[e], fused_access_at(a->fused[e], k));
        if (a->plain) n += launch_B(a->plain);
        if (a->region) n += region_B(a->region);
    }
    return n;
}
