// A digest of what a graph computes. Each value gets a hash of how it is made, over the hashes of the operands; the
// digest takes in nodes in order, then the outputs. Numbers count by what they are, not by where they stand.
#include "base/hash.h"
#include "ir/rewrite.h"
#include <stdlib.h>
#include <string.h>

static uint64_t hash_type(uint64_t h, const struct ir_value *v)
{
    h = hash_u64(h, (uint64_t)v->type.dtype << 16 | (uint64_t)v->type.rank << 8 | v->type.weak);
    for (int i = 0; i < v->type.rank; i++) {
        h = hash_u64(h, (uint64_t)v->type.dims[i]);
        if (v->symbols) h = hash_u64(h, (uint64_t)v->symbols[i]);
    }
    return h;
}

static uint64_t hash_leaf(const struct ir_value *v, uint64_t ordinal)
{
    uint64_t bits, h = hash_type(v->kind, v);
    memcpy(&bits, &v->number, sizeof bits);
    if (v->kind == IR_NUMBER) return hash_u64(hash_u64(h, bits), (uint64_t)v->integer);
    if (v->kind == IR_CONSTANT) return hash_u64(h, (uintptr_t)v->held);
    return hash_u64(h, ordinal);
}

static uint64_t hash_node(const struct kiln_graph *g, const struct ir_node *n, const uint64_t *values)
{
    uint64_t h = hash_u64(hash_str(n->op->name), (uint64_t)(uint32_t)n->region << 32 | (uint32_t)n->n_regions);
    for (int i = 0; i < n->op->n_attrs; i++) {
        const struct attr *a = &n->attrs[i];
        h = a->kind == ATTR_INTS ? hash_bytes(h, a->v, sizeof a->v[0] * a->count) : hash_u64(h, (uint64_t)a->i);
    }
    for (int32_t i = 0; i < n->n_in; i++) {
        int32_t v = ir_operands(g, n)[i];
        h = hash_u64(h, v < 0 ? 0 : values[v]);
    }
    return h;
}

static uint64_t hash_result(const struct kiln_graph *g, const uint64_t *values)
{
    uint64_t h = 0;
    for (size_t i = 0; i < g->nodes.n; i++) h = hash_u64(h, values[g->nodes.v[i].first_out]);
    for (size_t i = 0; i < g->regions.n; i++)
        for (int32_t k = 0; k < g->regions.v[i].n_results; k++) {
            int32_t v = g->operands.v[g->regions.v[i].first_result + k];
            h = hash_u64(h, v < 0 ? 0 : values[v]);
        }
    for (size_t i = 0; i < g->outputs.n; i++) {
        const struct ir_output *o = &g->outputs.v[i];
        h = hash_u64(hash_u64(h, values[o->value]), o->target < 0 ? 0 : values[o->target]);
    }
    return h;
}

kiln_status ir_digest(const struct kiln_graph *g, uint64_t *digest)
{
    uint64_t *values = calloc(g->values.n + 1, sizeof *values), ordinal = 0;
    if (!values) return error_set(KILN_E_MEMORY, "graph: out of memory");
    for (size_t i = 0; i < g->values.n; i++)
        if (g->values.v[i].kind != IR_NODE)
            values[i] = hash_leaf(&g->values.v[i], g->values.v[i].kind == IR_NUMBER ? 0 : ordinal++);
    for (size_t i = 0; i < g->nodes.n; i++) {
        const struct ir_node *n = &g->nodes.v[i];
        uint64_t h = hash_node(g, n, values);
        for (int k = 0; k < n->op->n_out; k++)
            values[n->first_out + k] = hash_u64(hash_type(h, &g->values.v[n->first_out + k]), (uint64_t)k);
    }
    *digest = hash_result(g, values);
    free(values);
    return KILN_OK;
}
