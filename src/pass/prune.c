// Conditions that are known, and loops of no trip or of one.
//
// A switch whose index is known is what that region computes, in its place; calls of the host in it keep their order. A
// loop of no trip gives what it carries, a loop of one trip is its body once. What draws random numbers is left alone,
// for a region has a stream of its own; so is a loop that calls the host, whose reports name the trip.
#include "pass/weave.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include <stdlib.h>
#include <string.h>

static int32_t result_of(const struct kiln_graph *g, const struct ir_region *r, int i)
{
    return g->operands.v[r->first_result + i];
}

// --- conditions

static kiln_status take_branch(struct ir_graft *c, const struct ir_node *n, int64_t index)
{
    const struct kiln_graph *g = c->from;
    const struct ir_region *r = &g->regions.v[n->first_region + index];
    for (int32_t i = 0; i < r->n_params; i++)
        TRY(weave_map(c, r->first_param + i, weave_value(c, ir_operands(g, n)[i])));
    TRY(weave_inline(c, r));
    for (int32_t i = 0; i < n->n_out; i++) TRY(weave_map(c, n->first_out + i, c->map[result_of(g, r, i)]));
    return KILN_OK;
}

static kiln_status visit_switch(struct ir_graft *c, const struct ir_node *n, bool *done)
{
    int64_t index;
    int32_t last = ir_operands(c->from, n)[n->n_in - 1];
    if (!weave_known(c->from, last, &index) || weave_gives_weak(c->from, n) || weave_draws(c->from, n)) return KILN_OK;
    if (c->from->values.v[last].type.dtype == KILN_BOOL) index = !index;
    if (index < 0 || index >= n->n_regions) return KILN_OK; // an error of the call
    *done = true;
    return take_branch(c, n, index);
}

// --- loops

// The trips of a count that is known, of a condition that never holds; else -1.
static int64_t known_trips(const struct kiln_graph *g, const struct ir_node *n, const struct weave_loop *l)
{
    int64_t trips = l->trips, goes_on;
    if (l->cond && weave_known(g, result_of(g, l->cond, 0), &goes_on) && !goes_on) trips = 0;
    if (!l->cond && l->counted && !weave_known(g, ir_operands(g, n)[l->n_taken], &trips)) trips = -1;
    int64_t bound = n->attrs[AT_loop_bound].i;
    bool rows = l->n_scanned || n->n_out > l->n_carried; // as many as there may be
    return l->trips < 0 && (rows || (bound && trips > bound)) ? -1 : trips;
}

static kiln_status no_trip(struct ir_graft *c, const struct ir_node *n, const struct weave_loop *l)
{
    const struct kiln_graph *g = c->from;
    for (int i = 0; i < n->n_out; i++) {
        int32_t value;
        if (i < l->n_carried)
            value = weave_value(c, ir_operands(g, n)[i]);
        else {
            struct attr attrs[3];
            op_full_attrs(&g->values.v[n->first_out + i].type, 0, attrs);
            value = weave_emit(c, op_table[OP_full], 0, NULL, attrs, n->caller);
        }
        TRY(weave_map(c, n->first_out + i, value));
    }
    return KILN_OK;
}

static kiln_status one_trip(struct ir_graft *c, const struct ir_node *n, const struct weave_loop *l)
{
    const struct kiln_graph *g = c->from;
    struct attr first[2] = {{.kind = ATTR_INT, .set = true}, {.kind = ATTR_INT, .set = true}};
    for (int i = 0; i < l->n_taken; i++) {
        int32_t value = weave_value(c, ir_operands(g, n)[i]);
        if (value < 0) return error_pending;
        if (i >= l->n_carried && i < l->n_carried + l->n_scanned)
            value = weave_emit(c, op_table[OP_select], 1, &value, first, n->caller);
        TRY(weave_map(c, l->body->first_param + i, value));
    }
    const struct type number = {.dtype = KILN_I64, .weak = true};
    TRY(weave_map(c, l->body->first_param + l->n_taken, ir_add_number(c->to, &number, 0, 0)));
    TRY(weave_inline(c, l->body));
    for (int i = 0; i < n->n_out; i++) {
        int32_t value = c->map[result_of(g, l->body, i)];
        struct attr axis = {.kind = ATTR_INT, .set = true};
        if (i >= l->n_carried) value = weave_emit(c, op_table[OP_stack], 1, &value, &axis, n->caller);
        TRY(weave_map(c, n->first_out + i, value));
    }
    return KILN_OK;
}

// A count that is known is no operand.
static kiln_status set_trips(struct ir_graft *c, const struct ir_node *n, const struct weave_loop *l, int64_t trips)
{
    const struct kiln_graph *g = c->from;
    struct attr attrs[OP_MAX_ATTRS];
    memcpy(attrs, n->attrs, sizeof *attrs * n->op->n_attrs);
    attrs[AT_loop_counted].i = 0;
    attrs[AT_loop_trips].i = trips;
    int32_t *in = malloc(sizeof *in * (size_t)(l->n_taken + 1)), first = ir_add_regions(c->to, 1);
    kiln_status status = in ? first < 0 ? error_pending : KILN_OK : error_set(KILN_E_MEMORY, "passes: out of memory");
    for (int i = 0; i < l->n_taken && !status; i++)
        if ((in[i] = weave_value(c, ir_operands(g, n)[i])) < 0) status = error_pending;
    if (!status) status = ir_graft_region(c, n->first_region, first);
    int32_t out = status ? -1 : weave_owner(c, n, attrs, l->n_taken, in, first, 1);
    free(in);
    for (int i = 0; i < n->n_out && out >= 0; i++) TRY(weave_map(c, n->first_out + i, out + i));
    return out < 0 ? error_pending : KILN_OK;
}

// Rows whose number may differ from call to call.
static bool varies(const struct kiln_graph *g, const struct ir_node *n, const struct weave_loop *l)
{
    bool any = false;
    for (int i = l->n_carried; i < n->n_out; i++) any |= pass_has_symbols(&g->values.v[n->first_out + i]);
    for (int i = l->n_carried; i < l->n_carried + l->n_scanned; i++)
        any |= pass_has_symbols(&g->values.v[ir_operands(g, n)[i]]);
    return any;
}

static kiln_status visit_loop(struct ir_graft *c, const struct ir_node *n, const struct weave_loop *l, bool *done)
{
    const struct kiln_graph *g = c->from;
    int64_t trips = known_trips(g, n, l);
    bool stays = weave_gives_weak(g, n) || weave_draws(g, n) || ir_node_has_effect(g, n) || varies(g, n, l);
    *done = true;
    if (!stays && trips == 0) return no_trip(c, n, l);
    if (!stays && trips == 1) return one_trip(c, n, l);
    if (l->counted && !l->cond && trips >= 0) return set_trips(c, n, l, trips);
    *done = false;
    return KILN_OK;
}

static kiln_status visit(struct ir_graft *c, int32_t node, bool *done)
{
    const struct ir_node *n = &c->from->nodes.v[node];
    struct weave_loop l;
    if (weave_is_switch(c->from, node)) return visit_switch(c, n, done);
    return weave_is_loop(c->from, node, &l) ? visit_loop(c, n, &l, done) : KILN_OK;
}

kiln_status pass_prune(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    (void)o;
    return weave_graph(from, visit, NULL, to);
}
