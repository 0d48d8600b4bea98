// Common subexpressions: a node that does what an earlier one did is replaced by it.
//
// Equal means: the same op, the same attributes, the same operands (numbers by what they are) and the same types. Never
// equal are nodes with effects, random draws and owners of regions. An earlier node serves only where it is visible: in
// the region of the later node or one around it. A table of hashes, open addressing; linear in nodes and operands.
#include "pass/passes.h"
#include "base/hash.h"
#include "ir/regions.h"
#include <stdlib.h>
#include <string.h>

struct table {
    int32_t *slots; // node of `to` + 1; 0: free
    size_t mask;
};

static uint64_t operand_hash(const struct kiln_graph *g, int32_t v)
{
    if (v < 0 || g->values.v[v].kind != IR_NUMBER) return (uint64_t)(int64_t)v;
    uint64_t bits;
    memcpy(&bits, &g->values.v[v].number, sizeof bits);
    return hash_u64(bits ^ g->values.v[v].type.dtype, (uint64_t)g->values.v[v].integer);
}

static bool same_operand(const struct kiln_graph *g, int32_t a, int32_t b)
{
    if (a == b) return true;
    if (a < 0 || b < 0) return false;
    const struct ir_value *p = &g->values.v[a], *q = &g->values.v[b];
    return p->kind == IR_NUMBER && q->kind == IR_NUMBER && ir_type_same(&p->type, &q->type) &&
           !memcmp(&p->number, &q->number, sizeof p->number) && p->integer == q->integer;
}

static bool same_node(const struct kiln_graph *g, const struct ir_node *a, const struct ir_node *b)
{
    if (a->op != b->op || a->n_in != b->n_in) return false;
    for (int32_t i = 0; i < a->n_in; i++)
        if (!same_operand(g, ir_operands(g, a)[i], ir_operands(g, b)[i])) return false;
    for (int i = 0; i < a->op->n_attrs; i++)
        if (!ir_attr_equal(&a->attrs[i], &b->attrs[i])) return false;
    for (int i = 0; i < a->n_out; i++)
        if (!ir_type_same(&g->values.v[a->first_out + i].type, &g->values.v[b->first_out + i].type)) return false;
    return true;
}

// A region of `to` that is open now, or no region at all; none that is around one that sees its parameters alone.
static bool visible(const struct ir_rewrite *r, int32_t region)
{
    for (size_t i = r->open.n; i-- > 0;) {
        if (r->regions[r->open.v[i]] == region) return true;
        if (ir_region_is_closed(r->from, r->open.v[i])) return false;
    }
    return region < 0;
}

static uint64_t node_hash(const struct kiln_graph *g, const struct ir_node *n)
{
    uint64_t h = hash_u64(n->op->index, (uint64_t)n->n_in);
    for (int32_t i = 0; i < n->n_in; i++) h = hash_u64(h, operand_hash(g, ir_operands(g, n)[i]));
    for (int i = 0; i < n->op->n_attrs; i++)
        h = hash_u64(h, n->attrs[i].kind == ATTR_INTS ? 0 : (uint64_t)n->attrs[i].i);
    return h;
}

// The earlier node that does the same, or -1 after adding this one.
static int32_t find(struct table *t, const struct ir_rewrite *r, int32_t node)
{
    const struct kiln_graph *g = r->to;
    const struct ir_node *n = &g->nodes.v[node];
    for (size_t at = node_hash(g, n) & t->mask;; at = (at + 1) & t->mask) {
        if (!t->slots[at]) {
            t->slots[at] = node + 1;
            return -1;
        }
        const struct ir_node *other = &g->nodes.v[t->slots[at] - 1];
        if (same_node(g, n, other) && visible(r, other->region)) return t->slots[at] - 1;
    }
}

static kiln_status visit(struct ir_rewrite *r, int32_t node, void *user)
{
    const struct ir_node *n = &r->from->nodes.v[node];
    TRY(ir_rewrite_copy(r, node));
    if ((n->op->flags & (OP_EFFECT | OP_RANDOM | OP_HOST)) || n->n_regions || !n->n_out) return KILN_OK;
    int32_t earlier = find(user, r, (int32_t)r->to->nodes.n - 1);
    if (earlier < 0) return KILN_OK;
    // The copy is dropped again: nothing refers to it yet.
    int32_t first = r->to->nodes.v[earlier].first_out;
    struct ir_node *copy = &r->to->nodes.v[--r->to->nodes.n];
    r->to->values.n = (size_t)copy->first_out;
    r->to->operands.n = (size_t)copy->first_in;
    for (int i = 0; i < n->n_out; i++) r->map[n->first_out + i] = first + i;
    return KILN_OK;
}

kiln_status pass_cse(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    size_t size = 16;
    while (size < 2 * from->nodes.n) size *= 2;
    struct table t = {calloc(size, sizeof *t.slots), size - 1};
    if (!t.slots) return error_set(KILN_E_MEMORY, "passes: out of memory");
    kiln_status status = ir_rewrite_graph(from, NULL, visit, &t, to);
    free(t.slots);
    return status;
}
