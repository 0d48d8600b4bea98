// Types, inferred again, and the marks of dimensions that vary from call to call.
//
// Types: each op's own rule must give what the graph says; a difference is a defect of whoever made the graph.
//
// Marks: the rules know nothing of symbols. So each is asked again, for each symbol among the operands, with another
// size in the symbol's place: an output's dimension that then has that size is the symbol itself, one that changes to
// something else (a product with it, a sum) gets a symbol of its own, one that stays does not depend on it. Several
// sizes are tried, for some rules take only multiples; where all are refused (an attribute that names the size), the op
// holds for the size that was seen, and nothing is marked. A mark that is there already stays. A region's parameters
// have the marks of the operands, its node's outputs those of the results.
#include "ir/regions.h"
#include "pass/passes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS_MAX = 256 };

static kiln_status check_types(const struct kiln_graph *g, const struct ir_node *n, const struct type **types)
{
    struct op_call c;
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    TRY(ir_infer(g, n->op, n->n_in, ir_operands(g, n), (struct attr *)n->attrs, types, &c));
    for (int i = 0; i < n->n_out; i++) {
        const struct type *t = &g->values.v[n->first_out + i].type;
        if (!ir_type_same(t, &c.out[i]))
            return error_set(KILN_E_INTERNAL, "%s: result %d is %s, the graph says %s", n->op->name, i,
                             type_text(&c.out[i], a, sizeof a), type_text(t, b, sizeof b));
    }
    return KILN_OK;
}

// The rule's answer with `size` in the place of symbol `s`.
static bool try_size(const struct kiln_graph *g, const struct ir_node *n, int16_t s, int64_t size, struct type *copies,
                     const struct type **types, struct op_call *c)
{
    for (int32_t i = 0; i < n->n_in; i++) {
        int32_t v = ir_operands(g, n)[i];
        types[i] = v < 0 ? NULL : &copies[i];
        if (v < 0) continue;
        copies[i] = g->values.v[v].type;
        for (int k = 0; k < copies[i].rank && g->values.v[v].symbols; k++)
            if (g->values.v[v].symbols[k] == s) copies[i].dims[k] = size;
    }
    *c = (struct op_call){
        .op = n->op, .n_in = n->n_in, .n_out = n->n_out, .in = types, .attrs = (struct attr *)n->attrs};
    if (!op_infer(c)) return true;
    kiln_error_clear();
    return false;
}

static bool is_name(const struct kiln_graph *g, const char *name)
{
    for (size_t i = 0; i < g->symbols.n; i++)
        if (!strcmp(g->symbols.v[i].name, name)) return true;
    return false;
}

// A new one under a name that is free; 0 where a graph may have no more.
static kiln_status add_symbol(struct kiln_graph *g, int64_t size, int16_t *out)
{
    char name[24];
    *out = 0;
    if (g->symbols.n >= IR_MAX_SYMBOLS) return KILN_OK;
    size_t i = g->symbols.n;
    do snprintf(name, sizeof name, "s%zu", i++);
    while (is_name(g, name));
    int32_t s = ir_add_symbol(g, name, size);
    *out = (int16_t)(s + 1);
    return s < 0 ? error_pending : KILN_OK;
}

static kiln_status mark(struct kiln_graph *g, int32_t v, int dim, int16_t s, bool itself)
{
    struct ir_value *value = &g->values.v[v];
    int16_t *symbols = (int16_t *)value->symbols; // the graph's own, from its arena
    if (!symbols) {
        symbols = arena_alloc(&g->arena, sizeof *symbols * MAX_RANK);
        if (!symbols) return error_pending;
        value->symbols = symbols;
    }
    if (symbols[dim]) return KILN_OK;
    if (itself) {
        symbols[dim] = s;
        return KILN_OK;
    }
    return add_symbol(g, value->type.dims[dim], &symbols[dim]);
}

static kiln_status carry(struct kiln_graph *g, const struct ir_node *n, int16_t s, struct type *copies,
                         const struct type **types)
{
    int64_t seen = g->symbols.v[s - 1].size;
    const int64_t sizes[] = {2 * seen, seen + 1, 3 * seen, 16 * seen};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct op_call c;
        if (sizes[i] == seen || !try_size(g, n, s, sizes[i], copies, types, &c)) continue;
        for (int k = 0; k < n->n_out; k++) {
            int32_t v = n->first_out + k;
            const struct type t = g->values.v[v].type;
            for (int d = 0; d < t.rank && c.out[k].rank == t.rank; d++)
                if (c.out[k].dims[d] != t.dims[d]) TRY(mark(g, v, d, s, c.out[k].dims[d] == sizes[i]));
        }
        return KILN_OK;
    }
    return KILN_OK;
}

static kiln_status carry_all(struct kiln_graph *g, const struct ir_node *n, struct type *copies,
                             const struct type **types)
{
    int16_t done[64];
    int n_done = 0;
    for (int32_t i = 0; i < n->n_in; i++) {
        int32_t v = ir_operands(g, n)[i];
        for (int k = 0; v >= 0 && g->values.v[v].symbols && k < g->values.v[v].type.rank; k++) {
            int16_t s = g->values.v[v].symbols[k];
            bool known = s == 0 || n_done == (int)COUNT_OF(done);
            for (int j = 0; j < n_done; j++) known |= done[j] == s;
            if (known) continue;
            done[n_done++] = s;
            TRY(carry(g, n, s, copies, types));
        }
    }
    return KILN_OK;
}

struct room {
    struct type copies[OPERANDS_MAX];
    const struct type *types[OPERANDS_MAX];
};

// The same value at another place.
static kiln_status mark_as(struct kiln_graph *g, int32_t v, int32_t like)
{
    const struct ir_value *from = &g->values.v[like];
    for (int d = 0; from->symbols && d < from->type.rank && d < g->values.v[v].type.rank; d++)
        if (from->symbols[d]) TRY(mark(g, v, d, from->symbols[d], true));
    return KILN_OK;
}

// The parameters of a region that is its node's operands.
static kiln_status mark_params(struct ir_rewrite *r, int32_t region, void *user)
{
    const struct ir_region *from = &r->from->regions.v[region];
    const struct ir_node *n = &r->from->nodes.v[from->owner];
    const struct op_regions_rule *rule = op_regions_rule(n->op);
    for (int32_t i = 0; rule && rule->inlined && i < n->n_in; i++) {
        int32_t v = ir_operands(r->from, n)[i];
        if (r->map[v] >= 0) TRY(mark_as(r->to, r->map[from->first_param + i], r->map[v]));
    }
    return KILN_OK;
}

static kiln_status check_regions(struct kiln_graph *g, int32_t node)
{
    const struct ir_node *n = &g->nodes.v[node];
    const struct ir_new_node again = ir_node_again(g, node);
    struct ir_regions_types t;
    kiln_status status = ir_regions_infer(g, &again, &t);
    if (!status && t.r.n_out != n->n_out)
        status = error_set(KILN_E_INTERNAL, "%s: %d results, the graph says %d", n->op->name, t.r.n_out, n->n_out);
    for (int i = 0; i < n->n_out && !status; i++)
        status = op_types_agree(n->op, i, "result %d", &t.r.out[i], "output %d of the graph",
                                &g->values.v[n->first_out + i].type);
    ir_regions_finish(&t);
    for (int i = 0; i < n->n_out && !status && op_regions_rule(n->op)->inlined; i++)
        status = mark_as(g, n->first_out + i, g->operands.v[g->regions.v[n->first_region].first_result + i]);
    return status;
}

static kiln_status visit(struct ir_rewrite *r, int32_t node, void *user)
{
    struct room *room = user;
    TRY(ir_rewrite_copy(r, node));
    if (op_regions_rule(r->from->nodes.v[node].op)) return check_regions(r->to, (int32_t)r->to->nodes.n - 1);
    const struct ir_node n = r->to->nodes.v[r->to->nodes.n - 1];
    if (!n.op->fn->infer || n.n_regions || n.n_in > OPERANDS_MAX || (n.op->flags & OP_EFFECT)) return KILN_OK;
    TRY(check_types(r->to, &n, room->types));
    return r->to->symbols.n ? carry_all(r->to, &n, room->copies, room->types) : KILN_OK;
}

kiln_status pass_types(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    struct room *room = malloc(sizeof *room);
    if (!room) return error_set(KILN_E_MEMORY, "passes: out of memory");
    const struct ir_rewrite_choice choice = {.opened = mark_params};
    kiln_status status = ir_rewrite_some(from, &choice, visit, room, to);
    free(room);
    return status;
}
