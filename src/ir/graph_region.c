// Building regions and symbols.
#include "ir/graph.h"
#include "ir/regions.h"
#include <string.h>

int32_t ir_add_regions(struct kiln_graph *g, int n)
{
    int32_t first = (int32_t)g->regions.n;
    for (int i = 0; i < n; i++) {
        struct ir_region r = {.owner = -1, .first_node = -1};
        if (vec_push(&g->regions, r)) return -1;
    }
    return first;
}

static struct ir_region *region_of(const struct kiln_graph *g, int32_t region)
{
    return region >= 0 && (size_t)region < g->regions.n ? &g->regions.v[region] : NULL;
}

kiln_status ir_region_begin(struct kiln_graph *g, int32_t region)
{
    struct ir_region *r = region_of(g, region);
    if (!r || r->first_node >= 0)
        return error_set(KILN_E_STATE, "graph: region %d %s", (int)region, r ? "was begun before" : "does not exist");
    if (g->open.n >= IR_MAX_DEPTH)
        return error_set(KILN_E_UNSUPPORTED, "graph: regions nest more than %d deep", IR_MAX_DEPTH);
    TRY(vec_push(&g->open, region));
    r->first_node = (int32_t)g->nodes.n;
    r->first_param = (int32_t)g->values.n;
    return KILN_OK;
}

int32_t ir_add_param(struct kiln_graph *g, const struct type *type)
{
    struct ir_region *r = g->open.n ? &g->regions.v[g->open.v[g->open.n - 1]] : NULL;
    if (!r || (size_t)(r->first_param + r->n_params) != g->values.n) {
        error_set(KILN_E_STATE, "graph: %s",
                  r ? "a parameter comes after other values of its region" : "a parameter is added outside regions");
        return -1;
    }
    struct ir_value v = {.type = *type, .kind = IR_PARAM, .node = g->open.v[g->open.n - 1]};
    if (vec_push(&g->values, v)) return -1;
    r->n_params++;
    return (int32_t)g->values.n - 1;
}

kiln_status ir_region_end(struct kiln_graph *g, const int32_t *results, int n)
{
    if (!g->open.n) return error_set(KILN_E_STATE, "graph: no region is open");
    struct ir_region *r = &g->regions.v[g->open.v[g->open.n - 1]];
    r->first_result = (int32_t)g->operands.n;
    for (int i = 0; i < n; i++) TRY(vec_push(&g->operands, results[i]));
    r->n_results = n;
    r->n_nodes = (int32_t)g->nodes.n - r->first_node;
    g->open.n--;
    return KILN_OK;
}

static bool is_open(const struct kiln_graph *g, int32_t region)
{
    for (size_t i = 0; i < g->open.n; i++)
        if (g->open.v[i] == region) return true;
    return false;
}

int32_t ir_add_region_node(struct kiln_graph *g, const struct op_call *c, const int32_t *in, int32_t *token,
                           uintptr_t caller, int32_t first_region, int n_regions)
{
    for (int i = 0; i < n_regions; i++) {
        const struct ir_region *r = region_of(g, first_region + i);
        if (r && r->first_node >= 0 && r->owner < 0 && !is_open(g, first_region + i)) continue;
        error_set(KILN_E_STATE, "graph: region %d of %s is not there, not finished, or another node's",
                  (int)first_region + i, c->op->name);
        return -1;
    }
    if (token && !(c->op->flags & OP_EFFECT)) {
        error_set(KILN_E_ARGUMENT, "graph: %s has no effect to order", c->op->name);
        return -1;
    }
    struct ir_new_node n = {.op = c->op,
                            .attrs = c->attrs,
                            .n_in = c->n_in,
                            .n_out = c->n_out,
                            .in = in,
                            .out = c->out,
                            .token = token,
                            .caller = caller,
                            .first_region = first_region,
                            .n_regions = n_regions};
    struct ir_regions_types t = {0};
    if (op_regions_rule(c->op)) {
        if (ir_regions_infer(g, &n, &t)) return ir_regions_finish(&t), -1;
        n.n_out = t.r.n_out;
        n.out = t.r.out;
    }
    int32_t first = ir_push_node(g, &n);
    ir_regions_finish(&t);
    for (int i = 0; i < n_regions && first >= 0; i++) g->regions.v[first_region + i].owner = (int32_t)g->nodes.n - 1;
    return first;
}

bool ir_node_has_effect(const struct kiln_graph *g, const struct ir_node *n)
{
    bool has = n->op->flags & OP_HOST;
    for (int32_t k = 0; k < n->n_regions && !has; k++) {
        const struct ir_region *r = &g->regions.v[n->first_region + k];
        for (int32_t i = r->first_node; i < r->first_node + r->n_nodes; i++) has |= g->nodes.v[i].op->flags & OP_HOST;
    }
    return has;
}

bool ir_node_draws(const struct ir_node *n)
{
    int seed = op_attr_index(n->op, "seed");
    return seed >= 0 && n->attrs[seed].i == RNG_OF_RUN;
}

bool ir_region_draws(const struct kiln_graph *g, int32_t region)
{
    const struct ir_region *r = &g->regions.v[region];
    for (int32_t i = r->first_node; i < r->first_node + r->n_nodes; i++)
        if (ir_node_draws(&g->nodes.v[i])) return true;
    return false;
}

static bool is_word(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n > 0 && !name[n] && !(name[0] >= '0' && name[0] <= '9') && n <= IR_MAX_NAME;
}

int32_t ir_add_symbol(struct kiln_graph *g, const char *name, int64_t size)
{
    for (size_t i = 0; i < g->symbols.n; i++) {
        if (strcmp(g->symbols.v[i].name, name)) continue;
        if (g->symbols.v[i].size == size) return (int32_t)i;
        error_set(KILN_E_SHAPE, "graph: symbol %s is %lld here, it was %lld before", name, (long long)size,
                  (long long)g->symbols.v[i].size);
        return -1;
    }
    if (!is_word(name) || size < 0 || g->symbols.n >= IR_MAX_SYMBOLS) {
        error_set(KILN_E_ARGUMENT,
                  "graph: \"%.60s\" of size %lld cannot be symbol %zu: names are words, %d is the most", name,
                  (long long)size, g->symbols.n, IR_MAX_SYMBOLS);
        return -1;
    }
    struct ir_symbol s = {arena_strdup(&g->arena, name), size};
    if (!s.name || vec_push(&g->symbols, s)) return -1;
    return (int32_t)g->symbols.n - 1;
}

kiln_status ir_mark_symbol(struct kiln_graph *g, int32_t value, int dim, int32_t symbol)
{
    struct ir_value *v = value >= 0 && (size_t)value < g->values.n ? &g->values.v[value] : NULL;
    if (!v || dim < 0 || dim >= v->type.rank || symbol < 0 || (size_t)symbol >= g->symbols.n)
        return error_set(KILN_E_ARGUMENT, "graph: there is no dimension %d of value %d, or no symbol %d", dim,
                         (int)value, (int)symbol);
    if (v->type.dims[dim] != g->symbols.v[symbol].size)
        return error_set(KILN_E_SHAPE, "graph: dimension %d of value %d is %lld, symbol %s is %lld", dim, (int)value,
                         (long long)v->type.dims[dim], g->symbols.v[symbol].name, (long long)g->symbols.v[symbol].size);
    int16_t *marks = arena_alloc(&g->arena, sizeof *marks * v->type.rank);
    if (!marks) return error_pending;
    if (v->symbols) memcpy(marks, v->symbols, sizeof *marks * v->type.rank);
    marks[dim] = (int16_t)(symbol + 1);
    v->symbols = marks;
    return KILN_OK;
}
