// The walk of a rewrite: regions and values of the old graph get their numbers in the new one.
#include "ir/rewrite.h"
#include <stdlib.h>
#include <string.h>

bool ir_attr_equal(const struct attr *a, const struct attr *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == ATTR_INTS) return a->count == b->count && !memcmp(a->v, b->v, sizeof a->v[0] * a->count);
    return a->i == b->i; // a float by its bits
}

bool ir_type_same(const struct type *a, const struct type *b)
{
    return a->weak == b->weak && type_equal(a, b);
}

kiln_status ir_infer(const struct kiln_graph *g, const struct op *op, int n_in, const int32_t *in, struct attr *attrs,
                     const struct type **types, struct op_call *c)
{
    for (int i = 0; i < n_in; i++) types[i] = in[i] < 0 ? NULL : &g->values.v[in[i]].type;
    *c = (struct op_call){.op = op, .n_in = n_in, .n_out = op->n_out, .in = types, .attrs = attrs};
    return op_infer(c);
}

// --- the state

enum { INLINED = -2 };

// A walk meets outer regions before the inner ones that begin at the same node.
static int by_beginning(const void *a, const void *b)
{
    const struct ir_opening *p = a, *q = b;
    if (p->node != q->node) return p->node < q->node ? -1 : 1;
    if (p->owner != q->owner) return p->owner > q->owner ? -1 : 1;
    return p->region < q->region ? -1 : p->region > q->region;
}

static bool kept(const struct ir_rewrite *r, int32_t node)
{
    return !r->choice->keep || r->choice->keep[node];
}

// Whether the region's owner and the owners around it stay.
static bool region_kept(const struct ir_rewrite *r, int32_t region)
{
    while (region >= 0) {
        int32_t owner = r->from->regions.v[region].owner;
        if (!kept(r, owner)) return false;
        region = r->from->nodes.v[owner].region;
    }
    return true;
}

static kiln_status number_regions(struct ir_rewrite *r)
{
    size_t n = r->from->regions.n;
    for (size_t i = 0; i < n; i++) {
        const struct ir_region *from = &r->from->regions.v[i];
        bool inlined = r->choice->inlined && r->choice->inlined[i];
        r->regions[i] = -1;
        if (!region_kept(r, (int32_t)i)) continue;
        r->regions[i] = inlined ? INLINED : (int32_t)r->to->regions.n;
        struct ir_region empty = {.owner = -1};
        if (!inlined) TRY(vec_push(&r->to->regions, empty));
        r->opening[r->n_opening++] = (struct ir_opening){from->first_node, from->owner, (int32_t)i};
    }
    qsort(r->opening, (size_t)r->n_opening, sizeof *r->opening, by_beginning);
    return KILN_OK;
}

static int32_t push_value(struct ir_rewrite *r, int32_t v, const struct ir_value *value)
{
    struct ir_value copy = *value;
    struct arena *a = &r->to->arena;
    if (copy.name) {
        copy.name = arena_strdup(a, copy.name);
        if (!copy.name) return -1;
    }
    if (copy.symbols && copy.type.rank) {
        int16_t *symbols = arena_alloc(a, sizeof *symbols * copy.type.rank);
        if (!symbols) return -1;
        memcpy(symbols, copy.symbols, sizeof *symbols * copy.type.rank);
        copy.symbols = symbols;
    }
    if (vec_push(&r->to->values, copy)) return -1;
    int32_t at = (int32_t)r->to->values.n - 1;
    if (v >= 0) r->map[v] = at;
    return at;
}

static kiln_status copy_head(struct ir_rewrite *r)
{
    for (size_t i = 0; i < r->from->symbols.n; i++) {
        struct ir_symbol s = r->from->symbols.v[i];
        s.name = arena_strdup(&r->to->arena, s.name);
        if (!s.name) return error_pending;
        TRY(vec_push(&r->to->symbols, s));
    }
    for (size_t i = 0; i < r->from->values.n; i++) {
        const struct ir_value *v = &r->from->values.v[i];
        if ((v->kind == IR_INPUT || v->kind == IR_TOKEN) && push_value(r, (int32_t)i, v) < 0) return error_pending;
    }
    return KILN_OK;
}

static kiln_status begin(struct ir_rewrite *r)
{
    size_t n_values = r->from->values.n, n_regions = r->from->regions.n;
    r->map = malloc(sizeof *r->map * (n_values + 1));
    r->regions = malloc(sizeof *r->regions * (n_regions + 1));
    r->opening = malloc(sizeof *r->opening * (n_regions + 1));
    if (!r->map || !r->regions || !r->opening) return error_set(KILN_E_MEMORY, "graph: out of memory");
    memset(r->map, -1, sizeof *r->map * (n_values + 1));
    r->to = ir_graph_create();
    if (!r->to) return error_pending;
    TRY(copy_head(r));
    return number_regions(r);
}

// --- regions on the way

static bool is_unused(const struct ir_rewrite *r, int32_t v)
{
    return r->choice->unused && r->choice->unused[v];
}

static kiln_status inline_region(struct ir_rewrite *r, const struct ir_region *from)
{
    const int32_t *in = ir_operands(r->from, &r->from->nodes.v[from->owner]);
    for (int32_t i = 0; i < from->n_params; i++)
        TRY(ir_rewrite_map(r, from->first_param + i, ir_rewrite_value(r, in[i])));
    return KILN_OK;
}

static kiln_status open_region(struct ir_rewrite *r, int32_t region)
{
    const struct ir_region *from = &r->from->regions.v[region];
    if (r->regions[region] == INLINED) return inline_region(r, from);
    struct ir_region to = {.owner = -1, .first_param = (int32_t)r->to->values.n, .first_node = (int32_t)r->to->nodes.n};
    for (int32_t i = from->first_param; i < from->first_param + from->n_params; i++) {
        struct ir_value param = r->from->values.v[i];
        if (is_unused(r, i)) continue;
        param.node = r->regions[region];
        if (push_value(r, i, &param) < 0) return error_pending;
        to.n_params++;
    }
    r->to->regions.v[r->regions[region]] = to;
    TRY(vec_push(&r->open, region));
    return r->choice->opened ? r->choice->opened(r, region, r->user) : KILN_OK;
}

static kiln_status close_region(struct ir_rewrite *r)
{
    int32_t region = r->open.v[--r->open.n];
    const struct ir_region *from = &r->from->regions.v[region];
    const struct ir_node *owner = &r->from->nodes.v[from->owner];
    int32_t id = r->regions[region], first = (int32_t)r->to->operands.n;
    for (int32_t i = 0; i < from->n_results; i++) {
        if (op_regions_rule(owner->op) && is_unused(r, owner->first_out + i)) continue;
        int32_t v = r->from->operands.v[from->first_result + i], value = ir_rewrite_value(r, v);
        if (value < 0 && v >= 0) return error_pending;
        TRY(vec_push(&r->to->operands, value));
    }
    struct ir_region *to = &r->to->regions.v[id];
    to->n_nodes = (int32_t)r->to->nodes.n - to->first_node;
    to->first_result = first;
    to->n_results = (int32_t)r->to->operands.n - first;
    return KILN_OK;
}

static bool ends_at(const struct ir_rewrite *r, int32_t node)
{
    if (!r->open.n) return false;
    const struct ir_region *region = &r->from->regions.v[r->open.v[r->open.n - 1]];
    return region->first_node + region->n_nodes <= node;
}

// Closes the regions that end before this node and opens those that begin with it. An empty region does both.
static kiln_status step_regions(struct ir_rewrite *r, int32_t node)
{
    while (ends_at(r, node)) TRY(close_region(r));
    while (r->at < r->n_opening && r->opening[r->at].node <= node) {
        TRY(open_region(r, r->opening[r->at++].region));
        while (ends_at(r, node)) TRY(close_region(r));
    }
    return KILN_OK;
}

// --- for visitors

int32_t ir_rewrite_value(struct ir_rewrite *r, int32_t v)
{
    if (v < 0 || r->map[v] >= 0) return v < 0 ? -1 : r->map[v];
    const struct ir_value *value = &r->from->values.v[v];
    if (value->kind == IR_NUMBER || value->kind == IR_CONSTANT) return push_value(r, v, value);
    error_set(KILN_E_INTERNAL, "rewrite: value %d is used and was not made", (int)v);
    return -1;
}

static int32_t push_node(struct ir_rewrite *r, struct ir_node n, const int32_t *in)
{
    struct kiln_graph *g = r->to;
    n.first_in = (int32_t)g->operands.n;
    n.region = r->open.n ? r->regions[r->open.v[r->open.n - 1]] : -1;
    for (int32_t i = 0; i < n.n_in; i++)
        if (vec_push(&g->operands, in[i])) return -1;
    if (n.op->n_attrs) {
        struct attr *attrs = arena_alloc(&g->arena, sizeof *attrs * n.op->n_attrs);
        if (!attrs) return -1;
        memcpy(attrs, n.attrs, sizeof *attrs * n.op->n_attrs);
        n.attrs = attrs;
    }
    n.first_out = (int32_t)g->values.n;
    return vec_push(&g->nodes, n) ? -1 : (int32_t)g->nodes.n - 1;
}

// Whether the parameters that take operand i went.
static bool is_dropped(const struct ir_rewrite *r, const struct ir_node *n, int32_t i)
{
    if (!n->n_regions || !op_regions_rule(n->op)) return false;
    const struct ir_region *region = &r->from->regions.v[n->first_region];
    return i < region->n_params && is_unused(r, region->first_param + i);
}

static void drop_operands(struct ir_rewrite *r, const struct ir_node *from, struct ir_node *to)
{
    if (!from->n_regions || !from->n_in) return;
    int32_t *in = r->to->operands.v + to->first_in, n = 0;
    for (int32_t i = 0; i < to->n_in; i++)
        if (!is_dropped(r, from, i)) in[n++] = in[i];
    r->to->operands.n -= (size_t)(to->n_in - n);
    to->n_in = n;
}

kiln_status ir_rewrite_copy_over(struct ir_rewrite *r, int32_t node, const int32_t *in)
{
    const struct ir_node *from = &r->from->nodes.v[node];
    struct ir_node n = *from;
    if (n.n_regions) n.first_region = r->regions[from->first_region];
    int32_t at = push_node(r, n, in);
    if (at >= 0) drop_operands(r, from, &r->to->nodes.v[at]);
    if (at < 0) return error_pending;
    for (int32_t i = 0; i < n.n_regions; i++) r->to->regions.v[n.first_region + i].owner = at;
    for (int32_t i = 0; i < ir_node_outputs(&n); i++) {
        struct ir_value v = r->from->values.v[from->first_out + i];
        if (is_unused(r, from->first_out + i)) continue;
        v.node = at;
        v.out = (int32_t)r->to->values.n - r->to->nodes.v[at].first_out;
        if (push_value(r, from->first_out + i, &v) < 0) return error_pending;
    }
    r->to->nodes.v[at].n_out = (int32_t)r->to->values.n - r->to->nodes.v[at].first_out - !!(n.op->flags & OP_EFFECT);
    return KILN_OK;
}

kiln_status ir_rewrite_copy(struct ir_rewrite *r, int32_t node)
{
    const struct ir_node *n = &r->from->nodes.v[node];
    int32_t few[16], *in = n->n_in > 16 ? malloc(sizeof *in * (size_t)n->n_in) : few;
    if (!in) return error_set(KILN_E_MEMORY, "graph: out of memory");
    kiln_status status = KILN_OK;
    for (int32_t i = 0; i < n->n_in && !status; i++) {
        int32_t v = is_dropped(r, n, i) ? -1 : ir_operands(r->from, n)[i];
        in[i] = ir_rewrite_value(r, v);
        if (in[i] < 0 && v >= 0) status = error_pending;
    }
    if (!status) status = ir_rewrite_copy_over(r, node, in);
    if (in != few) free(in);
    return status;
}

kiln_status ir_rewrite_map(struct ir_rewrite *r, int32_t v, int32_t value)
{
    if (value < 0)
        return error_pending ? error_pending : error_set(KILN_E_INTERNAL, "rewrite: no value for %d", (int)v);
    const struct ir_value *from = &r->from->values.v[v];
    struct ir_value *to = &r->to->values.v[value];
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    if (!ir_type_same(&from->type, &to->type))
        return error_set(KILN_E_INTERNAL, "rewrite: value %d of %s%s would become one of %s%s", (int)v,
                         type_text(&from->type, a, sizeof a), from->type.weak ? " (weak)" : "",
                         type_text(&to->type, b, sizeof b), to->type.weak ? " (weak)" : "");
    if (from->symbols && !to->symbols && to->kind == IR_NODE && to->type.rank) {
        int16_t *symbols = arena_alloc(&r->to->arena, sizeof *symbols * to->type.rank);
        if (!symbols) return error_pending;
        memcpy(symbols, from->symbols, sizeof *symbols * to->type.rank);
        to->symbols = symbols;
    }
    r->map[v] = value;
    return KILN_OK;
}

int32_t ir_rewrite_emit(struct ir_rewrite *r, const struct op *op, int n_in, const int32_t *in, struct attr *attrs)
{
    struct op_call c;
    const struct type *types[16];
    if (n_in > 16) {
        error_set(KILN_E_INTERNAL, "rewrite: %s over %d operands", op->name, n_in);
        return -1;
    }
    if (ir_infer(r->to, op, n_in, in, attrs, types, &c)) return -1;
    struct ir_node n = {.op = op, .n_in = n_in, .n_out = op->n_out, .attrs = attrs, .caller = r->caller};
    int32_t at = push_node(r, n, in), first = -1;
    if (at < 0) return -1;
    for (int i = 0; i < op->n_out; i++) {
        struct ir_value v = {.type = c.out[i], .kind = IR_NODE, .out = i, .node = at};
        int32_t value = push_value(r, -1, &v);
        if (value < 0) return -1;
        if (i == 0) first = value;
    }
    return first;
}

// --- the walk

static kiln_status copy_outputs(struct ir_rewrite *r)
{
    for (size_t i = 0; i < r->from->outputs.n; i++) {
        const struct ir_output *o = &r->from->outputs.v[i];
        int32_t value = ir_rewrite_value(r, o->value), target = ir_rewrite_value(r, o->target);
        if (error_pending) return error_pending;
        TRY(ir_add_write(r->to, value, target, o->name));
    }
    return KILN_OK;
}

static kiln_status walk(struct ir_rewrite *r, ir_rewrite_visit visit, void *user)
{
    for (int32_t i = 0; i < (int32_t)r->from->nodes.n; i++) {
        TRY(step_regions(r, i));
        int32_t region = r->from->nodes.v[i].region;
        if (!kept(r, i) || (region >= 0 && r->regions[region] == -1)) continue;
        r->caller = r->from->nodes.v[i].caller;
        TRY(visit(r, i, user));
    }
    return copy_outputs(r);
}

kiln_status ir_rewrite_graph(const struct kiln_graph *from, const bool *keep, ir_rewrite_visit visit, void *user,
                             struct kiln_graph **to)
{
    const struct ir_rewrite_choice choice = {.keep = keep};
    return ir_rewrite_some(from, &choice, visit, user, to);
}

kiln_status ir_rewrite_some(const struct kiln_graph *from, const struct ir_rewrite_choice *choice,
                            ir_rewrite_visit visit, void *user, struct kiln_graph **to)
{
    struct ir_rewrite r = {.from = from, .choice = choice, .user = user};
    kiln_status status = begin(&r);
    if (!status) status = walk(&r, visit, user);
    if (!status) status = ir_renumber(r.to);
    if (status) ir_graph_destroy(&r.to);
    *to = r.to;
    free(r.map);
    free(r.regions);
    free(r.opening);
    vec_free(&r.open);
    return status;
}
