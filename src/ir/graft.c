// A graph, or a region, copied into a graph that is being built.
#include "ir/graft.h"
#include <stdlib.h>
#include <string.h>

static int32_t value_of(struct ir_graft *c, int32_t v)
{
    if (v < 0) return -1;
    const struct ir_value *value = &c->from->values.v[v];
    if (c->map[v] >= 0) return c->map[v];
    if (value->kind == IR_NUMBER)
        c->map[v] = ir_add_number(c->to, &value->type, value->number, value->integer);
    else if (value->kind == IR_CONSTANT && value->held)
        c->map[v] = ir_add_constant(c->to, &value->type, value->held);
    else if (value->kind == IR_CONSTANT)
        c->map[v] = ir_add_named_constant(c->to, &value->type, value->name);
    else
        error_set(KILN_E_INTERNAL, "graft: value %d is used and was not made", (int)v);
    return c->map[v];
}

static kiln_status copy_list(struct ir_graft *c, const int32_t *from, int32_t n, int32_t **out)
{
    *out = malloc(((size_t)n + 1) * sizeof **out);
    if (!*out) return error_set(KILN_E_MEMORY, "graph: out of memory");
    for (int32_t i = 0; i < n; i++) {
        (*out)[i] = value_of(c, from[i]);
        if (error_pending) return error_pending;
    }
    return KILN_OK;
}

kiln_status ir_graft_region(struct ir_graft *c, int32_t from, int32_t to)
{
    const struct ir_region *r = &c->from->regions.v[from];
    int32_t *results = NULL;
    TRY(ir_region_begin(c->to, to));
    for (int32_t i = 0; i < r->n_params; i++) {
        c->map[r->first_param + i] = ir_add_param(c->to, &c->from->values.v[r->first_param + i].type);
        if (c->map[r->first_param + i] < 0) return error_pending;
        TRY(ir_graft_mark(c, r->first_param + i, c->map[r->first_param + i]));
    }
    TRY(ir_graft_nodes(c, from));
    kiln_status status = copy_list(c, c->from->operands.v + r->first_result, r->n_results, &results);
    if (!status) status = ir_region_end(c->to, results, r->n_results);
    free(results);
    return status;
}

static kiln_status copy_regions(struct ir_graft *c, const struct ir_node *n, int32_t *first)
{
    *first = n->n_regions ? ir_add_regions(c->to, n->n_regions) : 0;
    if (*first < 0) return error_pending;
    for (int32_t i = 0; i < n->n_regions; i++) TRY(ir_graft_region(c, n->first_region + i, *first + i));
    return KILN_OK;
}

kiln_status ir_graft_mark(struct ir_graft *c, int32_t value, int32_t as)
{
    const struct ir_value *from = &c->from->values.v[value];
    struct ir_value *to = &c->to->values.v[as];
    if (!c->marks || !from->symbols || to->symbols || !to->type.rank) return KILN_OK;
    int16_t *symbols = arena_alloc(&c->to->arena, sizeof *symbols * to->type.rank);
    if (!symbols) return error_pending;
    memcpy(symbols, from->symbols, sizeof *symbols * to->type.rank);
    to->symbols = symbols;
    return KILN_OK;
}

static kiln_status push(struct ir_graft *c, const struct ir_node *n, const int32_t *in, int32_t first_region)
{
    struct type few[8], *out = n->n_out > 8 ? malloc(sizeof *out * (size_t)n->n_out) : few;
    if (!out) return error_set(KILN_E_MEMORY, "graph: out of memory");
    for (int32_t i = 0; i < n->n_out; i++) out[i] = c->from->values.v[n->first_out + i].type;
    const struct ir_new_node copy = {.op = n->op,
                                     .attrs = n->attrs,
                                     .n_in = n->n_in,
                                     .n_out = n->n_out,
                                     .in = in,
                                     .out = out,
                                     .caller = n->caller,
                                     .first_region = first_region,
                                     .n_regions = n->n_regions};
    int32_t first = ir_push_node(c->to, &copy);
    if (out != few) free(out);
    if (first < 0) return error_pending;
    for (int32_t i = 0; i < n->n_out; i++) {
        c->map[n->first_out + i] = first + i;
        TRY(ir_graft_mark(c, n->first_out + i, first + i));
    }
    for (int32_t i = 0; i < n->n_regions; i++) c->to->regions.v[first_region + i].owner = (int32_t)c->to->nodes.n - 1;
    return KILN_OK;
}

kiln_status ir_graft_node(struct ir_graft *c, int32_t node)
{
    const struct ir_node *n = &c->from->nodes.v[node];
    int32_t first_region, *in = NULL;
    if (n->op->flags & OP_EFFECT) return error_set(KILN_E_UNSUPPORTED, "graft: %s has an effect", n->op->name);
    TRY(copy_regions(c, n, &first_region));
    kiln_status status = copy_list(c, ir_operands(c->from, n), n->n_in, &in);
    if (!status) status = push(c, n, in, first_region);
    free(in);
    return status;
}

kiln_status ir_graft_value(struct ir_graft *c, int32_t value)
{
    return value_of(c, value) < 0 ? error_pending : KILN_OK;
}

kiln_status ir_graft_nodes(struct ir_graft *c, int32_t region)
{
    const struct ir_region *r = region < 0 ? NULL : &c->from->regions.v[region];
    int32_t first = r ? r->first_node : 0, end = r ? first + r->n_nodes : (int32_t)c->from->nodes.n;
    for (int32_t i = first; i < end; i++) {
        bool done = false;
        if (c->from->nodes.v[i].region != region) continue;
        if (c->visit) TRY(c->visit(c, i, &done));
        if (!done) TRY(ir_graft_node(c, i));
    }
    return KILN_OK;
}

kiln_status ir_graft_begin(struct ir_graft *c, const struct kiln_graph *from, struct kiln_graph *to)
{
    *c = (struct ir_graft){.from = from, .to = to, .map = malloc(sizeof *c->map * (from->values.n + 1))};
    if (!c->map) return error_set(KILN_E_MEMORY, "graph: out of memory");
    memset(c->map, -1, sizeof *c->map * (from->values.n + 1));
    return KILN_OK;
}

void ir_graft_end(struct ir_graft *c)
{
    free(c->map);
    c->map = NULL;
}
