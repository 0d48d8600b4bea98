// What a loop carries and never changes: values that the body gives back as they were given to it. All trips read them
// as they read what the loop does not carry, and what the loop gives of them is the operand. A loop whose number of
// trips may turn out wrong keeps them where nothing else that it gives is used: without it nobody would tell.
#include "pass/weave.h"
#include "ops/attrs.h"
#include <stdlib.h>
#include <string.h>

struct carrying {
    const struct ir_node *n;
    struct weave_loop l;
    int n_same, *order; // of the operands, n_taken: what is still carried, then scanned, then read
    int32_t *room;      // n_in and as many results
};

static bool is_same(const struct kiln_graph *g, const struct weave_loop *l, int k)
{
    return k < l->n_carried && g->operands.v[l->body->first_result + k] == l->body->first_param + k &&
           !g->values.v[l->body->first_param + k].type.weak;
}

static void set_order(const struct kiln_graph *g, struct carrying *c)
{
    const struct weave_loop *l = &c->l;
    int at = 0, behind = l->n_carried + l->n_scanned;
    for (int k = 0; k < behind; k++)
        if (!is_same(g, l, k)) c->order[at++] = k;
    for (int k = 0; k < l->n_carried; k++)
        if (is_same(g, l, k)) c->order[at++] = k;
    for (int k = behind; k < l->n_taken; k++) c->order[at++] = k;
}

static kiln_status add_region(struct ir_graft *g, const struct carrying *c, const struct ir_region *from, int32_t to)
{
    int n = 0, skipped = from == c->l.body ? c->l.n_carried : 0;
    TRY(ir_region_begin(g->to, to));
    for (int i = 0; i < c->l.n_taken; i++) TRY(weave_param(g, from->first_param + c->order[i]));
    TRY(weave_param(g, from->first_param + c->l.n_taken));
    TRY(weave_inline(g, from));
    for (int i = 0; i < from->n_results; i++)
        if (i >= skipped || !is_same(g->from, &c->l, i))
            c->room[n++] = g->map[g->from->operands.v[from->first_result + i]];
    return ir_region_end(g->to, c->room, n);
}

static kiln_status add(struct ir_graft *g, const struct carrying *c)
{
    const struct ir_node *n = c->n;
    struct attr attrs[OP_MAX_ATTRS];
    int32_t first = ir_add_regions(g->to, n->n_regions);
    memcpy(attrs, n->attrs, sizeof *attrs * n->op->n_attrs);
    attrs[AT_loop_carried].i -= c->n_same;
    if (first < 0) return error_pending;
    for (int i = 0; i < n->n_regions; i++) TRY(add_region(g, c, &g->from->regions.v[n->first_region + i], first + i));
    for (int i = 0; i < n->n_in; i++) {
        int32_t from = ir_operands(g->from, n)[i < c->l.n_taken ? c->order[i] : i];
        if ((c->room[i] = weave_value(g, from)) < 0) return error_pending;
    }
    int32_t out = weave_owner(g, n, attrs, n->n_in, c->room, first, n->n_regions);
    if (out < 0) return error_pending;
    for (int i = 0; i < n->n_out; i++) {
        bool same = is_same(g->from, &c->l, i);
        TRY(weave_map(g, n->first_out + i, same ? weave_value(g, ir_operands(g->from, n)[i]) : out++));
    }
    return KILN_OK;
}

static bool stays_used(const struct kiln_graph *g, const struct carrying *c, const int32_t *uses)
{
    bool used = c->l.trips >= 0;
    for (int k = 0; k < c->n->n_out && !used; k++) used = !is_same(g, &c->l, k) && uses[c->n->first_out + k];
    return used;
}

static kiln_status visit(struct ir_graft *g, int32_t node, bool *done)
{
    struct carrying c = {.n = &g->from->nodes.v[node]};
    if (!weave_is_loop(g->from, node, &c.l)) return KILN_OK;
    for (int k = 0; k < c.l.n_carried; k++) c.n_same += is_same(g->from, &c.l, k);
    if (!c.n_same || !stays_used(g->from, &c, weave_user(g))) return KILN_OK;
    *done = true;
    c.order = malloc(sizeof *c.order * (size_t)(c.l.n_taken + 1));
    c.room = malloc(sizeof *c.room * (size_t)(c.n->n_in + c.n->n_out + 2));
    kiln_status status = c.order && c.room ? KILN_OK : error_set(KILN_E_MEMORY, "passes: out of memory");
    if (!status) {
        set_order(g->from, &c);
        status = add(g, &c);
    }
    free(c.order);
    free(c.room);
    return status;
}

kiln_status pass_carry(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    (void)o;
    int32_t *uses = pass_count_uses(from);
    if (!uses) return error_pending;
    kiln_status status = weave_graph(from, visit, uses, to);
    free(uses);
    return status;
}
