// Whether a graph keeps the rules of graph.h.
//
// Each step relies on those before it: first ranges of all numbers, so that nothing reads outside an array; then how
// nodes lie in regions; then the order of values; then each node by itself, with the types that its op infers. That
// nodes lie in the regions they name is shown by counting: each node names one region around it, and the nodes that
// name a region, with those of the regions inside, must be as many as lie in it. A node that named a region further out
// would be missing in the one it lies in.
#include "ir/verify.h"
#include "ir/regions.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kiln_status verify_fail(const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(KILN_E_FORMAT, "graph: %s", text);
}

static bool in_range(int32_t first, int32_t n, size_t count)
{
    return first >= 0 && n >= 0 && (int64_t)first + n <= (int64_t)count;
}

static kiln_status check_symbols(const struct kiln_graph *g)
{
    if (g->symbols.n > IR_MAX_SYMBOLS) return verify_fail("%zu symbols, %d are the most", g->symbols.n, IR_MAX_SYMBOLS);
    for (size_t i = 0; i < g->symbols.n; i++) {
        const struct ir_symbol *s = &g->symbols.v[i];
        if (!s->name || !*s->name || s->size < 0) return verify_fail("symbol %zu has no name or a size below 0", i);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(s->name, g->symbols.v[k].name)) return verify_fail("there are two symbols %.60s", s->name);
    }
    return KILN_OK;
}

static kiln_status check_type(int32_t i, const struct type *t)
{
    if (ir_is_token(t)) return t->rank || t->weak ? verify_fail("token %%%d has a rank or is weak", (int)i) : KILN_OK;
    if (t->dtype >= DTYPE_COUNT) return verify_fail("%%%d has dtype %d, which is none", (int)i, t->dtype);
    if (t->rank > MAX_RANK) return verify_fail("%%%d has rank %d, %d is the most", (int)i, t->rank, MAX_RANK);
    int64_t numel = 1;
    for (int k = 0; k < t->rank; k++) {
        if (t->dims[k] < 0) return verify_fail("%%%d: dimension %d is %lld", (int)i, k, (long long)t->dims[k]);
        int64_t at_least_1 = t->dims[k] ? t->dims[k] : 1;
        if (__builtin_mul_overflow(numel, at_least_1, &numel) || numel > IR_MAX_NUMEL)
            return verify_fail("%%%d has more than 2^48 elements", (int)i);
    }
    return KILN_OK;
}

static kiln_status check_marks(const struct kiln_graph *g, int32_t i, const struct ir_value *v)
{
    for (int k = 0; v->symbols && k < v->type.rank; k++) {
        int mark = v->symbols[k];
        if (!mark) continue;
        if (mark < 0 || (size_t)mark > g->symbols.n) return verify_fail("%%%d names symbol %d", (int)i, mark - 1);
        if (v->type.dims[k] != g->symbols.v[mark - 1].size)
            return verify_fail("%%%d: dimension %d is %lld, symbol %s is %lld", (int)i, k, (long long)v->type.dims[k],
                               g->symbols.v[mark - 1].name, (long long)g->symbols.v[mark - 1].size);
    }
    return KILN_OK;
}

static kiln_status check_name(int32_t i, const char *name)
{
    if (!name) return verify_fail("%%%d has no name", (int)i);
    return strnlen(name, IR_MAX_NAME + 1) > IR_MAX_NAME ? verify_fail("the name of %%%d is too long", (int)i) : KILN_OK;
}

static kiln_status check_kind(const struct kiln_graph *g, int32_t i, const struct ir_value *v, int *n_entries)
{
    bool token = ir_is_token(&v->type);
    if (v->name && v->kind != IR_INPUT && v->kind != IR_CONSTANT)
        return verify_fail("%%%d is neither input nor constant and has a name", (int)i);
    switch (v->kind) {
    case IR_NODE: {
        if (!in_range(v->node, 1, g->nodes.n)) return verify_fail("%%%d is made by node %d", (int)i, (int)v->node);
        const struct ir_node *n = &g->nodes.v[v->node];
        if (v->out < 0 || v->out >= ir_node_outputs(n) || (int64_t)n->first_out + v->out != i)
            return verify_fail("%%%d is not output %d of node %d", (int)i, v->out, (int)v->node);
        return KILN_OK;
    }
    case IR_PARAM: {
        if (!in_range(v->node, 1, g->regions.n)) return verify_fail("%%%d is of region %d", (int)i, (int)v->node);
        const struct ir_region *r = &g->regions.v[v->node];
        if (i < r->first_param || i >= r->first_param + r->n_params)
            return verify_fail("%%%d is no parameter of region %d", (int)i, (int)v->node);
        return KILN_OK;
    }
    case IR_INPUT: return token ? verify_fail("input %%%d is a token", (int)i) : check_name(i, v->name);
    case IR_CONSTANT:
        if (token) return verify_fail("constant %%%d is a token", (int)i);
        return v->name ? check_name(i, v->name) : KILN_OK;
    case IR_NUMBER:
        return token || v->type.rank ? verify_fail("number %%%d is a token or has a rank", (int)i) : KILN_OK;
    case IR_TOKEN:
        if (!token) return verify_fail("the entry %%%d is no token", (int)i);
        return (*n_entries)++ ? verify_fail("%%%d is a second entry", (int)i) : KILN_OK;
    default: return verify_fail("%%%d is of kind %d, which is none", (int)i, v->kind);
    }
}

static kiln_status check_values(const struct kiln_graph *g)
{
    int n_entries = 0;
    for (size_t i = 0; i < g->values.n; i++) {
        const struct ir_value *v = &g->values.v[i];
        TRY(check_type((int32_t)i, &v->type));
        TRY(check_kind(g, (int32_t)i, v, &n_entries));
        TRY(check_marks(g, (int32_t)i, v));
    }
    return KILN_OK;
}

// Ranges of a node, and that its outputs are its.
static kiln_status check_node_ranges(const struct kiln_graph *g, int32_t i)
{
    const struct ir_node *n = &g->nodes.v[i];
    if (!n->op || !n->op->name || n->op->n_out > OP_MAX_OUT) return verify_fail("node %d has no op", (int)i);
    if (n->n_out < 0 || n->n_out == INT32_MAX || (!op_regions_rule(n->op) && n->n_out != n->op->n_out))
        return verify_fail("node %d, a %s, has %d outputs", (int)i, n->op->name, (int)n->n_out);
    if (!in_range(n->first_in, n->n_in, g->operands.n))
        return verify_fail("the operands of node %d lie outside", (int)i);
    if (!in_range(n->first_out, ir_node_outputs(n), g->values.n))
        return verify_fail("the outputs of node %d lie outside", (int)i);
    if (n->region != -1 && !in_range(n->region, 1, g->regions.n))
        return verify_fail("node %d is in region %d", (int)i, (int)n->region);
    if (n->n_regions && !in_range(n->first_region, n->n_regions, g->regions.n))
        return verify_fail("the regions of node %d lie outside", (int)i);
    for (int k = 0; k < ir_node_outputs(n); k++) {
        const struct ir_value *v = &g->values.v[n->first_out + k];
        if (v->kind != IR_NODE || v->node != i || v->out != k)
            return verify_fail("%%%d is not what node %d makes", (int)n->first_out + k, (int)i);
    }
    return KILN_OK;
}

static kiln_status check_region_ranges(const struct kiln_graph *g, int32_t i)
{
    const struct ir_region *r = &g->regions.v[i];
    if (!in_range(r->owner, 1, g->nodes.n)) return verify_fail("region %d is owned by node %d", (int)i, (int)r->owner);
    const struct ir_node *n = &g->nodes.v[r->owner];
    if (i < n->first_region || i >= (int64_t)n->first_region + n->n_regions)
        return verify_fail("region %d is not among those of node %d", (int)i, (int)r->owner);
    if (!in_range(r->first_node, r->n_nodes, (size_t)r->owner))
        return verify_fail("the nodes of region %d do not lie before node %d", (int)i, (int)r->owner);
    if (!in_range(r->first_param, r->n_params, g->values.n) || !in_range(r->first_result, r->n_results, g->operands.n))
        return verify_fail("the parameters or results of region %d lie outside", (int)i);
    for (int k = 0; k < r->n_params; k++) {
        const struct ir_value *v = &g->values.v[r->first_param + k];
        if (v->kind != IR_PARAM || v->node != i)
            return verify_fail("%%%d is no parameter of region %d", (int)r->first_param + k, (int)i);
    }
    return KILN_OK;
}

// The nodes of a node's regions, one run after the other, end just before it.
static kiln_status check_runs(const struct kiln_graph *g, int32_t i)
{
    const struct ir_node *n = &g->nodes.v[i];
    for (int k = n->n_regions; k > 0; k--) {
        const struct ir_region *r = &g->regions.v[n->first_region + k - 1];
        int32_t end = k == n->n_regions ? i : r[1].first_node;
        if (r->owner != i)
            return verify_fail("region %d is not owned by node %d", (int)n->first_region + k - 1, (int)i);
        if (r->first_node + r->n_nodes != end)
            return verify_fail("the nodes of region %d do not end at node %d", (int)n->first_region + k - 1, (int)end);
    }
    return KILN_OK;
}

bool verify_inside(const struct kiln_graph *g, int32_t inner, int32_t outer)
{
    while (inner != outer && inner >= 0) inner = g->nodes.v[g->regions.v[inner].owner].region;
    return inner == outer;
}

// The nodes [first, first + n) lie in the region that node `at` names.
static kiln_status check_contained(const struct kiln_graph *g, int32_t at, int32_t first, int32_t n)
{
    int32_t region = g->nodes.v[at].region;
    if (region < 0) return KILN_OK;
    const struct ir_region *r = &g->regions.v[region];
    if (first >= r->first_node && first + n <= r->first_node + r->n_nodes) return KILN_OK;
    return verify_fail("node %d says that it is in region %d, it lies outside", (int)at, (int)region);
}

// Owners before what they own, that is from the last node to the first: a depth is known when it is asked for.
static kiln_status check_nesting(struct verifier *v)
{
    const struct kiln_graph *g = v->g;
    for (int32_t i = (int32_t)g->nodes.n - 1; i >= 0; i--) {
        const struct ir_node *n = &g->nodes.v[i];
        v->node = i;
        TRY(check_contained(g, i, i, 1));
        if (n->region >= 0) v->n_claimed[n->region]++;
        for (int k = 0; k < n->n_regions; k++) {
            int32_t region = n->first_region + k;
            const struct ir_region *r = &g->regions.v[region];
            TRY(check_contained(g, i, r->first_node, r->n_nodes));
            v->depth[region] = n->region >= 0 ? v->depth[n->region] + 1 : 1;
            if (v->depth[region] > IR_MAX_DEPTH) return verify_fail("regions nest more than %d deep", IR_MAX_DEPTH);
            if (n->region >= 0) v->n_claimed[n->region] += r->n_nodes;
        }
    }
    v->node = -1;
    int64_t outside = (int64_t)g->nodes.n;
    for (size_t i = 0; i < g->regions.n; i++) {
        const struct ir_region *r = &g->regions.v[i];
        if (v->n_claimed[i] != r->n_nodes)
            return verify_fail("region %zu holds %d nodes, %lld say so", i, (int)r->n_nodes,
                               (long long)v->n_claimed[i]);
        if (g->nodes.v[r->owner].region < 0) outside -= r->n_nodes;
    }
    for (size_t i = 0; i < g->nodes.n; i++) outside -= g->nodes.v[i].region < 0;
    return outside ? verify_fail("a node in a region says that it is in none") : KILN_OK;
}

// Values come in the order of the nodes that make them, parameters before the nodes of their region and after what is
// before it.
static kiln_status check_order(struct verifier *v)
{
    const struct kiln_graph *g = v->g;
    int32_t made = 0;
    for (size_t i = 0; i < g->nodes.n; i++) {
        const struct ir_node *n = &g->nodes.v[i];
        v->node = (int32_t)i;
        if (n->first_out < made) return verify_fail("%%%d comes before values of nodes before it", (int)n->first_out);
        made = n->first_out + ir_node_outputs(n);
    }
    for (size_t i = 0; i < g->regions.n; i++) {
        const struct ir_region *r = &g->regions.v[i];
        const struct ir_node *owner = &g->nodes.v[v->node = r->owner];
        const struct ir_node *before = r->first_node ? &g->nodes.v[r->first_node - 1] : NULL;
        int32_t low = before ? before->first_out + ir_node_outputs(before) : 0, end = r->first_param + r->n_params;
        if (owner->region >= 0) {
            const struct ir_region *around = &g->regions.v[owner->region];
            if (low < around->first_param + around->n_params) low = around->first_param + around->n_params;
        }
        if ((int32_t)i > owner->first_region && low < r[-1].first_param + r[-1].n_params)
            low = r[-1].first_param + r[-1].n_params;
        int32_t high = r->n_nodes ? g->nodes.v[r->first_node].first_out : owner->first_out;
        if (r->first_param < low || end > high)
            return verify_fail("the parameters of region %zu are not between what is before it and in it", i);
    }
    v->node = -1;
    return KILN_OK;
}

static bool is_seen(const struct kiln_graph *g, int32_t region, const struct ir_value *x)
{
    int32_t home = ir_value_region(g, x);
    bool anywhere = x->kind == IR_NUMBER || x->kind == IR_CONSTANT;
    for (; region != home && !anywhere; region = g->nodes.v[g->regions.v[region].owner].region)
        if (ir_region_is_closed(g, region)) return false;
    return true;
}

kiln_status verify_use(struct verifier *v, int32_t value, int32_t region, int32_t before, const char *what)
{
    const struct kiln_graph *g = v->g;
    if (!in_range(value, 1, g->values.n)) return verify_fail("%s is value %d, which does not exist", what, (int)value);
    if (value >= before) return verify_fail("%s is %%%d, which is defined later", what, (int)value);
    const struct ir_value *x = &g->values.v[value];
    int32_t home = ir_value_region(g, x);
    if (!verify_inside(g, region, home))
        return verify_fail("%s is %%%d of a region that does not surround it", what, (int)value);
    if (!is_seen(g, region, x))
        return verify_fail("%s is %%%d, which is outside of a region that only sees its parameters", what, (int)value);
    if (!ir_is_token(&x->type)) return KILN_OK;
    if (home != region) return verify_fail("%s is the token %%%d of another region", what, (int)value);
    if (v->used[value]) return verify_fail("%s is the token %%%d, which was taken before", what, (int)value);
    v->used[value] = 1;
    return KILN_OK;
}

static kiln_status check_region(struct verifier *v, int32_t i)
{
    const struct kiln_graph *g = v->g;
    const struct ir_region *r = &g->regions.v[i];
    int n_tokens = 0;
    int32_t before = g->nodes.v[r->owner].first_out;
    v->node = r->owner;
    // Results are known before the region that follows begins.
    if (i + 1 < g->nodes.v[r->owner].first_region + g->nodes.v[r->owner].n_regions) before = r[1].first_param;
    for (int k = 0; k < r->n_params; k++) n_tokens += ir_is_token(&g->values.v[r->first_param + k].type);
    if (n_tokens > 1) return verify_fail("region %d has %d tokens for parameters", (int)i, n_tokens);
    for (int k = 0; k < r->n_results; k++)
        TRY(verify_use(v, g->operands.v[r->first_result + k], i, before, "a result of a region"));
    return KILN_OK;
}

static kiln_status check_outputs(struct verifier *v)
{
    const struct kiln_graph *g = v->g;
    int32_t end = (int32_t)g->values.n;
    for (size_t i = 0; i < g->outputs.n; i++) {
        const struct ir_output *o = &g->outputs.v[i];
        if (!o->name || strnlen(o->name, IR_MAX_NAME + 1) > IR_MAX_NAME)
            return verify_fail("output %zu has no name, or one that is too long", i);
        TRY(verify_use(v, o->value, -1, end, "an output"));
        const struct type *type = &g->values.v[o->value].type;
        if (ir_is_token(type)) return verify_fail("output %zu is a token", i);
        if (o->target == -1) continue;
        if (!in_range(o->target, 1, g->values.n))
            return verify_fail("output %zu is written to value %d", i, (int)o->target);
        const struct ir_value *t = &g->values.v[o->target];
        if (t->kind != IR_INPUT && t->kind != IR_CONSTANT)
            return verify_fail("output %zu is written to %%%d, which is neither input nor constant", i, (int)o->target);
        if (!type_equal(&t->type, type) || t->type.weak != type->weak)
            return verify_fail("output %zu, %%%d, is written to %%%d of another type", i, (int)o->value,
                               (int)o->target);
    }
    return KILN_OK;
}

static kiln_status check(struct verifier *v)
{
    const struct kiln_graph *g = v->g;
    if (g->open.n) return verify_fail("a region is open");
    if (g->values.n > INT32_MAX || g->nodes.n > INT32_MAX || g->operands.n > INT32_MAX || g->regions.n > INT32_MAX)
        return verify_fail("it has more than 2^31 values, nodes, operands or regions");
    TRY(check_symbols(g));
    for (size_t i = 0; i < g->nodes.n; i++) TRY(check_node_ranges(g, (int32_t)i));
    for (size_t i = 0; i < g->regions.n; i++) TRY(check_region_ranges(g, (int32_t)i));
    for (size_t i = 0; i < g->nodes.n; i++) TRY(check_runs(g, (int32_t)i));
    TRY(check_values(g));
    TRY(check_nesting(v));
    TRY(check_order(v));
    for (size_t i = 0; i < g->nodes.n; i++) TRY(verify_node(v, (int32_t)i));
    for (size_t i = 0; i < g->regions.n; i++) TRY(check_region(v, (int32_t)i));
    v->node = -1;
    return check_outputs(v);
}

kiln_status ir_verify_node_of(const struct kiln_graph *g, int32_t *node)
{
    struct verifier v = {.g = g, .node = -1};
    *node = -1;
    if (error_pending) return error_pending;
    v.used = calloc(g->values.n + 1, sizeof *v.used);
    v.depth = calloc(g->regions.n + 1, sizeof *v.depth);
    v.n_claimed = calloc(g->regions.n + 1, sizeof *v.n_claimed);
    kiln_status status =
        v.used && v.depth && v.n_claimed ? check(&v) : error_set(KILN_E_MEMORY, "graph: out of memory");
    *node = v.node;
    free(v.used);
    free(v.depth);
    free(v.n_claimed);
    free(v.in);
    return status;
}

kiln_status ir_verify(const struct kiln_graph *g)
{
    int32_t node;
    return ir_verify_node_of(g, &node);
}
