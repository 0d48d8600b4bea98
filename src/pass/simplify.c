// Canonical form and algebra of elementwise ops, by the table of rules.
//
// Each node is copied with its operands, which are simple already, and put into canonical order where it commutes:
// values before numbers, lower values first. Then the first rule that holds replaces it, and again for what it was
// replaced by, a bounded number of times. What is no longer used is left for dce.
#include "pass/match.h"
#include "pass/passes.h"
#include "ops/elementwise.h"
#include <stdlib.h>

enum { STEPS_MAX = 16 };

struct simplifying {
    bool inexact;
    const struct rule_terms *terms;
    int32_t *first; // by op index: first rule of that op, -1 none
    int32_t *next;  // by rule
};

static bool comes_after(const struct kiln_graph *g, int32_t a, int32_t b)
{
    bool p = g->values.v[a].kind == IR_NUMBER, q = g->values.v[b].kind == IR_NUMBER;
    return p != q ? p : a > b;
}

static void order_operands(struct kiln_graph *g, int32_t node)
{
    const struct ir_node *n = &g->nodes.v[node];
    struct op_call c;
    const struct type *types[16];
    if (!(n->op->flags & OP_COMMUTES) || n->n_in != 2) return;
    int32_t *in = g->operands.v + n->first_in;
    if (ir_infer(g, n->op, 2, in, (struct attr *)n->attrs, types, &c)) {
        kiln_error_clear();
        return;
    }
    if (!match_commutes(&c) || !comes_after(g, in[0], in[1])) return;
    int32_t first = in[0];
    in[0] = in[1];
    in[1] = first;
}

static kiln_status replace(struct ir_rewrite *r, const struct simplifying *s, int32_t *value)
{
    for (int step = 0; step < STEPS_MAX; step++) {
        const struct ir_value *v = &r->to->values.v[*value];
        if (v->kind != IR_NODE || r->to->nodes.v[v->node].op->index >= op_count) return KILN_OK;
        if (!(r->to->nodes.v[v->node].op->flags & OP_ELEMENTWISE)) return KILN_OK;
        if (v->node == (int32_t)r->to->nodes.n - 1) order_operands(r->to, v->node);
        int32_t found = -1;
        for (int32_t i = s->first[r->to->nodes.v[v->node].op->index]; i >= 0 && found < 0; i = s->next[i])
            if (rule_table[i].exactness == EXACT || s->inexact) TRY(match_rule(r, i, *value, &found));
        if (found < 0) return KILN_OK;
        *value = found;
    }
    return KILN_OK;
}

static kiln_status visit(struct ir_rewrite *r, int32_t node, void *user)
{
    const struct ir_node *n = &r->from->nodes.v[node];
    int32_t out = n->first_out, value;
    TRY(ir_rewrite_copy(r, node));
    if (!(n->op->flags & OP_ELEMENTWISE)) return KILN_OK;
    value = r->map[out];
    TRY(replace(r, user, &value));
    return value == r->map[out] ? KILN_OK : ir_rewrite_map(r, out, value);
}

static void index_rules(struct simplifying *s)
{
    for (int i = 0; i < op_count; i++) s->first[i] = -1;
    for (int i = rule_count - 1; i >= 0; i--) {
        s->next[i] = s->first[s->terms[i].pattern->op->index];
        s->first[s->terms[i].pattern->op->index] = i;
    }
}

kiln_status pass_simplify(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    struct simplifying s = {o->inexact, rule_terms(), malloc(sizeof(int32_t) * (size_t)op_count),
                            malloc(sizeof(int32_t) * (size_t)rule_count)};
    kiln_status status = KILN_OK;
    if (!s.terms)
        status = error_pending;
    else if (!s.first || !s.next)
        status = error_set(KILN_E_MEMORY, "passes: out of memory");
    else {
        index_rules(&s);
        status = ir_rewrite_graph(from, NULL, visit, &s, to);
    }
    free(s.first);
    free(s.next);
    return status;
}
