// Elementwise values that a loop alone reads, row by row: each row is computed in its trip.
//
// Where an elementwise node makes what a loop scans, nothing else reads it, and the body uses rows of it in elementwise
// nodes only, the loop scans the node's operands instead, and the body computes the row. So it is fused there, and lies
// in memory no more. An operand with less dimensions is the same for all rows: all trips read it. The same elements are
// computed, each once. The other way round, behind a loop, nothing is moved: a row that is given is stored in any case.
#include "pass/weave.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_IN = 4 };

struct sinking {
    const struct ir_node *n;
    struct weave_loop l;
    const struct ir_node **makers; // by scanned operand; NULL: it is scanned as it is
    int n_scanned, n_added;        // of the new loop: scanned; read by all trips beside those of the old one
    int32_t *in, *params;          // of the new loop, what it scans and reads in addition: operands, parameters
    int32_t *room;
};

static const struct ir_node *maker_of(const struct kiln_graph *g, int32_t v)
{
    return v >= 0 && g->values.v[v].kind == IR_NODE ? &g->nodes.v[g->values.v[v].node] : NULL;
}

// Whether rows of it are read by elementwise nodes of the body, and by nothing else.
static bool is_fused_there(const struct kiln_graph *g, const struct weave_loop *l, int32_t param)
{
    int n = 0;
    int32_t region = (int32_t)(l->body - g->regions.v);
    for (int32_t i = 0; i < l->body->n_results; i++)
        if (g->operands.v[l->body->first_result + i] == param) return false;
    for (int32_t i = l->body->first_node; i < l->body->first_node + l->body->n_nodes; i++) {
        const struct ir_node *user = &g->nodes.v[i];
        for (int32_t k = 0; k < user->n_in; k++) {
            if (ir_operands(g, user)[k] != param) continue;
            if (user->region != region || !(user->op->flags & OP_ELEMENTWISE)) return false;
            n++;
        }
    }
    return n > 0;
}

enum part { OF_ROW, OF_ALL, OF_NUMBER, OF_NONE };

// What an operand of the maker is to a row.
static enum part part_of(const struct kiln_graph *g, int32_t operand, const struct type *all)
{
    if (operand < 0) return OF_NONE;
    const struct ir_value *v = &g->values.v[operand];
    if (v->kind == IR_NUMBER) return OF_NUMBER;
    if (v->symbols) return OF_NONE;
    if (v->type.rank < all->rank) return OF_ALL;
    return v->type.rank == all->rank && v->type.dims[0] == all->dims[0] ? OF_ROW : OF_NONE;
}

static bool can_sink(const struct kiln_graph *g, const struct sinking *s, const int32_t *uses, int j)
{
    int32_t v = ir_operands(g, s->n)[s->l.n_carried + j];
    const struct ir_node *p = maker_of(g, v);
    if (!p || uses[v] != 1 || p->region != s->n->region || p->n_out != 1 || p->n_in > MOST_IN) return false;
    if (p->op->index >= (unsigned)op_count || !(p->op->flags & OP_ELEMENTWISE)) return false;
    if (p->op->flags & (OP_EFFECT | OP_RANDOM | OP_HOST) || g->values.v[v].symbols) return false;
    bool rows = false;
    for (int k = 0; k < p->n_in; k++) {
        enum part part = part_of(g, ir_operands(g, p)[k], &g->values.v[v].type);
        if (part == OF_NONE) return false;
        rows |= part == OF_ROW;
    }
    return rows && is_fused_there(g, &s->l, s->l.body->first_param + s->l.n_carried + j);
}

// Of the makers' operands those of one part, in their order. `each` is asked of each.
static kiln_status each_of(struct ir_graft *c, struct sinking *s, int j, enum part part,
                           kiln_status (*each)(struct ir_graft *c, struct sinking *s, int32_t operand))
{
    const struct ir_node *p = s->makers[j];
    const struct type *all = p ? &c->from->values.v[p->first_out].type : NULL;
    for (int k = 0; p && k < p->n_in; k++) {
        int32_t operand = ir_operands(c->from, p)[k];
        if (part_of(c->from, operand, all) == part) TRY(each(c, s, operand));
    }
    return KILN_OK;
}

static kiln_status scan_operand(struct ir_graft *c, struct sinking *s, int32_t operand)
{
    return (s->in[s->n_scanned++] = weave_value(c, operand)) < 0 ? error_pending : KILN_OK;
}

static kiln_status add_row(struct ir_graft *c, struct sinking *s, int32_t operand)
{
    struct type row = c->from->values.v[operand].type;
    row.rank--;
    memmove(row.dims, row.dims + 1, sizeof *row.dims * row.rank);
    return (s->params[s->n_scanned++] = ir_add_param(c->to, &row)) < 0 ? error_pending : KILN_OK;
}

static kiln_status read_operand(struct ir_graft *c, struct sinking *s, int32_t operand)
{
    int at = s->n_scanned + s->n_added++;
    return (s->in[at] = weave_value(c, operand)) < 0 ? error_pending : KILN_OK;
}

static kiln_status add_read(struct ir_graft *c, struct sinking *s, int32_t operand)
{
    int at = s->n_scanned + s->n_added++;
    return (s->params[at] = ir_add_param(c->to, &c->from->values.v[operand].type)) < 0 ? error_pending : KILN_OK;
}

static kiln_status find_operands(struct ir_graft *c, struct sinking *s)
{
    s->n_scanned = s->n_added = 0;
    for (int j = 0; j < s->l.n_scanned; j++) {
        int32_t v = ir_operands(c->from, s->n)[s->l.n_carried + j];
        TRY(s->makers[j] ? each_of(c, s, j, OF_ROW, scan_operand) : scan_operand(c, s, v));
    }
    for (int j = 0; j < s->l.n_scanned; j++) TRY(each_of(c, s, j, OF_ALL, read_operand));
    return KILN_OK;
}

static kiln_status add_params(struct ir_graft *c, struct sinking *s)
{
    const struct weave_loop *l = &s->l;
    int32_t first = l->body->first_param;
    s->n_scanned = s->n_added = 0;
    for (int k = 0; k < l->n_carried; k++) TRY(weave_param(c, first + k));
    for (int j = 0; j < l->n_scanned; j++) {
        if (s->makers[j]) {
            TRY(each_of(c, s, j, OF_ROW, add_row));
            continue;
        }
        TRY(weave_param(c, first + l->n_carried + j));
        s->n_scanned++;
    }
    for (int k = l->n_carried + l->n_scanned; k < l->n_taken; k++) TRY(weave_param(c, first + k));
    for (int j = 0; j < l->n_scanned; j++) TRY(each_of(c, s, j, OF_ALL, add_read));
    return weave_param(c, first + l->n_taken);
}

// The rows, by the makers' ops on what stands for their operands.
static kiln_status compute_rows(struct ir_graft *c, const struct sinking *s)
{
    const struct kiln_graph *g = c->from;
    int row = 0, read = s->n_scanned;
    for (int j = 0; j < s->l.n_scanned; j++) {
        const struct ir_node *p = s->makers[j];
        int32_t in[MOST_IN];
        row += !p;
        for (int k = 0; p && k < p->n_in; k++) {
            int32_t operand = ir_operands(g, p)[k];
            enum part part = part_of(g, operand, &g->values.v[p->first_out].type);
            in[k] = part == OF_ROW ? s->params[row++] : part == OF_ALL ? s->params[read++] : weave_value(c, operand);
            if (in[k] < 0) return error_pending;
        }
        if (!p) continue;
        int32_t value = weave_emit(c, p->op, p->n_in, in, (struct attr *)p->attrs, p->caller);
        TRY(weave_map(c, s->l.body->first_param + s->l.n_carried + j, value));
    }
    return KILN_OK;
}

static kiln_status add_body(struct ir_graft *c, struct sinking *s, int32_t region)
{
    const struct ir_region *body = s->l.body;
    TRY(ir_region_begin(c->to, region));
    TRY(add_params(c, s));
    TRY(compute_rows(c, s));
    TRY(weave_inline(c, body));
    for (int i = 0; i < body->n_results; i++) s->room[i] = c->map[c->from->operands.v[body->first_result + i]];
    return ir_region_end(c->to, s->room, body->n_results);
}

static kiln_status add(struct ir_graft *c, struct sinking *s)
{
    const struct weave_loop *l = &s->l;
    const int32_t *old = ir_operands(c->from, s->n);
    struct attr attrs[OP_MAX_ATTRS];
    int n = 0;
    TRY(find_operands(c, s));
    int32_t region = ir_add_regions(c->to, 1);
    if (region < 0) return error_pending;
    TRY(add_body(c, s, region));
    memcpy(attrs, s->n->attrs, sizeof *attrs * s->n->op->n_attrs);
    attrs[AT_loop_scanned].i = s->n_scanned;
    for (int k = 0; k < l->n_carried; k++) s->room[n++] = weave_value(c, old[k]);
    for (int k = 0; k < s->n_scanned; k++) s->room[n++] = s->in[k];
    for (int k = l->n_carried + l->n_scanned; k < l->n_taken; k++) s->room[n++] = weave_value(c, old[k]);
    for (int k = 0; k < s->n_added; k++) s->room[n++] = s->in[s->n_scanned + k];
    if (l->counted) s->room[n++] = weave_value(c, old[l->n_taken]);
    if (error_pending) return error_pending;
    int32_t out = weave_owner(c, s->n, attrs, n, s->room, region, 1);
    if (out < 0) return error_pending;
    for (int i = 0; i < s->n->n_out; i++) TRY(weave_map(c, s->n->first_out + i, out + i));
    return KILN_OK;
}

static bool find_makers(const struct kiln_graph *g, struct sinking *s, const int32_t *uses)
{
    bool any = false;
    for (int j = 0; j < s->l.n_scanned; j++) {
        s->makers[j] = can_sink(g, s, uses, j) ? maker_of(g, ir_operands(g, s->n)[s->l.n_carried + j]) : NULL;
        any |= s->makers[j] != NULL;
    }
    return any;
}

static kiln_status visit(struct ir_graft *c, int32_t node, bool *done)
{
    struct sinking s = {.n = &c->from->nodes.v[node]};
    if (!weave_is_loop(c->from, node, &s.l) || s.l.cond || !s.l.n_scanned) return KILN_OK;
    size_t most = (size_t)(s.n->n_in + MOST_IN * s.l.n_scanned);
    s.makers = calloc((size_t)s.l.n_scanned, sizeof *s.makers);
    s.in = calloc(3 * most + (size_t)s.l.body->n_results + 1, sizeof *s.in);
    kiln_status status = s.makers && s.in ? KILN_OK : error_set(KILN_E_MEMORY, "passes: out of memory");
    if (!status) {
        s.params = s.in + most;
        s.room = s.params + most;
        *done = find_makers(c->from, &s, weave_user(c));
        if (*done) status = add(c, &s);
    }
    free((void *)s.makers);
    free(s.in);
    return status;
}

kiln_status pass_sink(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    (void)o;
    int32_t *uses = pass_count_uses(from);
    if (!uses) return error_pending;
    kiln_status status = weave_graph(from, visit, uses, to);
    free(uses);
    return status;
}
