// Several trips of a loop as one, where the loop asks for it.
//
// The body stands as often in a row as `unroll` says, each copy on what the one before carries. What is scanned comes
// as so many operands, of which each is every so manieth row; what is given by trip goes out so, and is put together.
// The trips that are left over stand behind the loop. Not done where the trips are not known, where random numbers are
// drawn (a trip has a stream of its own), where the host is called (reports name the trip), and where the body computes
// with the trip's number something whose type a number that is computed would change.
#include "pass/weave.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include <stdlib.h>
#include <string.h>

enum { UNROLL_MOST = 64, UNROLL_NODES = 4096 };

struct unrolling {
    struct ir_graft *c;
    const struct ir_node *n;
    struct weave_loop l;
    int64_t trips, times, groups, rest; // groups of so many `times`, and the rest
    bool reverse;
    int n_rows;       // stacked
    int32_t *carried; // n_carried, of c->to: before the next copy
    int32_t *taken;   // n_taken operands of the loop
    int32_t *rows;    // what copy i gives for row r: rows[r * most + i]
    int32_t *room;
    int64_t most;
};

static struct attr number_attr(int64_t i)
{
    return (struct attr){.kind = ATTR_INT, .set = true, .i = i};
}

static int32_t known(struct unrolling *u, int64_t value)
{
    const struct type number = {.dtype = KILN_I64, .weak = true};
    return ir_add_number(u->c->to, &number, (double)value, value);
}

// --- what can be done

static bool same_with(const struct kiln_graph *g, const struct ir_node *n, int32_t param, const struct type *t)
{
    const struct type *types[16];
    struct op_call before, after;
    if (!(n->op->flags & OP_ELEMENTWISE) || n->n_in > 16) return false;
    bool fits = !ir_infer(g, n->op, n->n_in, ir_operands(g, n), (struct attr *)n->attrs, types, &before);
    after = before;
    for (int i = 0; i < n->n_in; i++)
        if (ir_operands(g, n)[i] == param) types[i] = t;
    fits = fits && !op_infer(&after) && ir_type_same(&before.out[0], &after.out[0]) &&
           before.compute_dtype == after.compute_dtype;
    if (error_pending) kiln_error_clear();
    return fits;
}

// Whether a computed number may stand for that of the trip.
static bool number_fits(const struct kiln_graph *g, const struct weave_loop *l)
{
    const struct type t = {.dtype = KILN_I64};
    const struct ir_region *r = l->body;
    int32_t param = r->first_param + l->n_taken;
    for (int32_t i = 0; i < r->n_results; i++)
        if (g->operands.v[r->first_result + i] == param) return false;
    for (int32_t i = r->first_node; i < r->first_node + r->n_nodes; i++) {
        const struct ir_node *n = &g->nodes.v[i];
        bool uses = false;
        for (int k = 0; k < n->n_in; k++) uses |= ir_operands(g, n)[k] == param;
        if (uses && !same_with(g, n, param, &t)) return false;
    }
    return true;
}

static bool may_unroll(const struct kiln_graph *g, const struct ir_node *n, const struct weave_loop *l)
{
    if (n->attrs[AT_loop_unroll].i < 2 || l->trips < 1 || weave_gives_weak(g, n)) return false;
    if (weave_draws(g, n) || ir_node_has_effect(g, n)) return false;
    for (int i = 0; i < l->n_carried + l->n_scanned; i++)
        if (pass_has_symbols(&g->values.v[ir_operands(g, n)[i]])) return false;
    for (int i = l->n_carried; i < n->n_out; i++) {
        const struct ir_value *v = &g->values.v[n->first_out + i];
        if (pass_has_symbols(v) || v->type.rank >= MAX_RANK) return false;
    }
    return true;
}

static bool set_times(const struct kiln_graph *g, struct unrolling *u)
{
    int64_t most = UNROLL_NODES / (u->l.body->n_nodes + 1);
    u->trips = u->l.trips;
    u->times = u->n->attrs[AT_loop_unroll].i;
    if (u->times > most) u->times = most;
    if (u->times > UNROLL_MOST) u->times = UNROLL_MOST;
    if (u->times > u->trips) u->times = u->trips;
    if (u->times < 2 && u->trips > 1) return false;
    u->groups = u->times == u->trips ? 0 : u->trips / u->times;
    u->rest = u->trips - u->groups * u->times;
    u->reverse = u->n->attrs[AT_loop_reverse].i;
    u->n_rows = u->n->n_out - u->l.n_carried;
    u->most = u->times + u->rest;
    return !u->groups || number_fits(g, &u->l);
}

// Inner loops come first: the copies of a body count its nodes as they are then.
static bool has_inner(const struct kiln_graph *g, const struct ir_region *body)
{
    for (int32_t i = body->first_node; i < body->first_node + body->n_nodes; i++) {
        struct unrolling inner = {.n = &g->nodes.v[i]};
        if (weave_is_loop(g, i, &inner.l) && may_unroll(g, inner.n, &inner.l) && set_times(g, &inner)) return true;
    }
    return false;
}

// --- copies of the body

// One trip where the graph is being built; the parameters but for what is carried are mapped.
static kiln_status add_copy(struct unrolling *u, int64_t copy)
{
    const struct weave_loop *l = &u->l;
    const int32_t *results = u->c->from->operands.v + l->body->first_result;
    for (int k = 0; k < l->n_carried; k++) TRY(weave_map(u->c, l->body->first_param + k, u->carried[k]));
    TRY(weave_inline(u->c, l->body));
    for (int k = 0; k < l->n_carried; k++) u->carried[k] = u->c->map[results[k]];
    for (int k = 0; k < u->n_rows; k++) u->rows[k * u->most + copy] = u->c->map[results[l->n_carried + k]];
    return KILN_OK;
}

// Trips first ... first + count, outside of any loop.
static kiln_status add_known(struct unrolling *u, int64_t first, int64_t count)
{
    const struct weave_loop *l = &u->l;
    struct ir_graft *c = u->c;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = u->reverse ? u->trips - 1 - first - i : first + i;
        for (int k = l->n_carried; k < l->n_taken; k++) {
            int32_t value = u->taken[k];
            struct attr attrs[2] = {number_attr(0), number_attr(row)};
            if (k < l->n_carried + l->n_scanned)
                value = weave_emit(c, op_table[OP_select], 1, &value, attrs, u->n->caller);
            TRY(weave_map(c, l->body->first_param + k, value));
        }
        TRY(weave_map(c, l->body->first_param + l->n_taken, known(u, first + i)));
        TRY(add_copy(u, i));
    }
    return KILN_OK;
}

// --- the loop of groups

static int64_t first_row(const struct unrolling *u, int64_t copy)
{
    return u->reverse ? u->trips - 1 - copy - (u->groups - 1) * u->times : copy;
}

// The rows of one copy in all groups.
static int32_t rows_of_copy(struct unrolling *u, int32_t value, int64_t copy)
{
    int rank = u->c->to->values.v[value].type.rank;
    struct attr attrs[3];
    for (int i = 0; i < 3; i++) attrs[i] = (struct attr){.kind = ATTR_INTS, .set = true, .count = (uint8_t)rank};
    for (int d = 0; d < rank; d++) {
        attrs[AT_slice_start].v[d] = d ? 0 : first_row(u, copy);
        attrs[AT_slice_stop].v[d] =
            d ? u->c->to->values.v[value].type.dims[d] : first_row(u, copy) + (u->groups - 1) * u->times + 1;
        attrs[AT_slice_step].v[d] = d ? 1 : u->times;
    }
    return weave_emit(u->c, op_table[OP_slice], 1, &value, attrs, u->n->caller);
}

static int add_operands(struct unrolling *u, int32_t *in)
{
    const struct weave_loop *l = &u->l;
    int n = 0;
    for (int k = 0; k < l->n_carried; k++) in[n++] = u->taken[k];
    for (int k = l->n_carried; k < l->n_carried + l->n_scanned; k++)
        for (int64_t i = 0; i < u->times; i++)
            if ((in[n++] = rows_of_copy(u, u->taken[k], i)) < 0) return -1;
    for (int k = l->n_carried + l->n_scanned; k < l->n_taken; k++) in[n++] = u->taken[k];
    return n;
}

static int32_t add_param_like(struct unrolling *u, int32_t param)
{
    return ir_add_param(u->c->to, &u->c->from->values.v[param].type);
}

// The number of the trip that a copy stands for: groups before it times their length, and its own place.
static int32_t number_of_copy(struct unrolling *u, int32_t group, int64_t copy)
{
    int32_t in[] = {group, known(u, u->times)};
    in[0] = weave_emit(u->c, op_table[OP_mul], 2, in, NULL, u->n->caller);
    in[1] = known(u, copy);
    return in[0] < 0 ? -1 : weave_emit(u->c, op_table[OP_add], 2, in, NULL, u->n->caller);
}

static kiln_status add_body(struct unrolling *u, int32_t region)
{
    const struct weave_loop *l = &u->l;
    int32_t first = l->body->first_param, *scanned = u->room, n = 0;
    TRY(ir_region_begin(u->c->to, region));
    for (int k = 0; k < l->n_carried; k++) u->carried[k] = add_param_like(u, first + k);
    for (int k = l->n_carried; k < l->n_carried + l->n_scanned; k++)
        for (int64_t i = 0; i < u->times; i++) scanned[n++] = add_param_like(u, first + k);
    for (int k = l->n_carried + l->n_scanned; k < l->n_taken; k++) TRY(weave_param(u->c, first + k));
    int32_t group = add_param_like(u, first + l->n_taken);
    if (error_pending) return error_pending;
    for (int64_t i = 0; i < u->times; i++) {
        for (int k = 0; k < l->n_scanned; k++)
            TRY(weave_map(u->c, first + l->n_carried + k, scanned[k * u->times + i]));
        u->c->map[first + l->n_taken] = number_of_copy(u, group, i);
        if (u->c->map[first + l->n_taken] < 0) return error_pending;
        TRY(add_copy(u, i));
    }
    int32_t *results = u->room;
    n = 0;
    for (int k = 0; k < l->n_carried; k++) results[n++] = u->carried[k];
    for (int k = 0; k < u->n_rows; k++)
        for (int64_t i = 0; i < u->times; i++) results[n++] = u->rows[k * u->most + i];
    return ir_region_end(u->c->to, results, n);
}

static kiln_status add_groups(struct unrolling *u)
{
    struct attr attrs[OP_MAX_ATTRS];
    memcpy(attrs, u->n->attrs, sizeof *attrs * u->n->op->n_attrs);
    attrs[AT_loop_scanned].i *= u->times;
    attrs[AT_loop_trips].i = u->groups;
    attrs[AT_loop_unroll].i = 0;
    int32_t first = ir_add_regions(u->c->to, 1);
    if (first < 0) return error_pending;
    int32_t *in = u->room;
    int n_in = add_operands(u, in);
    if (n_in < 0) return error_pending;
    u->room += n_in;
    TRY(add_body(u, first));
    u->room = in;
    int32_t out = weave_owner(u->c, u->n, attrs, n_in, in, first, 1);
    if (out < 0) return error_pending;
    for (int k = 0; k < u->l.n_carried; k++) u->carried[k] = out++;
    for (int k = 0; k < u->n_rows; k++)
        for (int64_t i = 0; i < u->times; i++) u->rows[k * u->most + i] = out++;
    return KILN_OK;
}

// --- rows put together

// Values side by side, in the order of rows.
static int32_t stack(struct unrolling *u, const int32_t *values, int64_t n, int axis)
{
    struct attr at = number_attr(axis);
    for (int64_t i = 0; i < n; i++) u->room[i] = values[u->reverse ? n - 1 - i : i];
    return weave_emit(u->c, op_table[OP_stack], (int)n, u->room, &at, u->n->caller);
}

// [groups, times, ...] as [groups * times, ...].
static int32_t flatten(struct unrolling *u, int32_t value)
{
    const struct type t = u->c->to->values.v[value].type;
    struct attr shape = {.kind = ATTR_INTS, .set = true, .count = (uint8_t)(t.rank - 1)};
    shape.v[0] = t.dims[0] * t.dims[1];
    for (int d = 2; d < t.rank; d++) shape.v[d - 1] = t.dims[d];
    return weave_emit(u->c, op_table[OP_reshape], 1, &value, &shape, u->n->caller);
}

// `grouped`: of all groups, flat; -1 without groups.
static kiln_status join_rows(struct unrolling *u, int k, int32_t grouped)
{
    struct attr axis = number_attr(0);
    int32_t value = grouped;
    if (u->rest) value = stack(u, u->rows + k * u->most, u->rest, 0);
    if (value >= 0 && u->rest && grouped >= 0) {
        const int32_t both[] = {u->reverse ? value : grouped, u->reverse ? grouped : value};
        value = weave_emit(u->c, op_table[OP_concat], 2, both, &axis, u->n->caller);
    }
    return weave_map(u->c, u->n->first_out + u->l.n_carried + k, value);
}

static kiln_status unroll(struct unrolling *u, int32_t *grouped)
{
    for (int k = 0; k < u->l.n_taken; k++)
        if ((u->taken[k] = weave_value(u->c, ir_operands(u->c->from, u->n)[k])) < 0) return error_pending;
    memcpy(u->carried, u->taken, sizeof *u->carried * (size_t)u->l.n_carried);
    if (u->groups) TRY(add_groups(u));
    for (int k = 0; k < u->n_rows; k++) {
        grouped[k] = u->groups ? stack(u, u->rows + k * u->most, u->times, 1) : -1;
        if (grouped[k] >= 0) grouped[k] = flatten(u, grouped[k]);
        if (u->groups && grouped[k] < 0) return error_pending;
    }
    TRY(add_known(u, u->groups * u->times, u->rest));
    for (int k = 0; k < u->l.n_carried; k++) TRY(weave_map(u->c, u->n->first_out + k, u->carried[k]));
    for (int k = 0; k < u->n_rows; k++) TRY(join_rows(u, k, grouped[k]));
    return KILN_OK;
}

static kiln_status visit(struct ir_graft *c, int32_t node, bool *done)
{
    struct unrolling u = {.c = c, .n = &c->from->nodes.v[node]};
    if (!weave_is_loop(c->from, node, &u.l) || !may_unroll(c->from, u.n, &u.l)) return KILN_OK;
    if (!set_times(c->from, &u) || has_inner(c->from, u.l.body)) return KILN_OK;
    size_t n_taken = (size_t)u.l.n_taken, n_rows = (size_t)u.n_rows, most = (size_t)u.most;
    size_t room = (2 * n_taken + (size_t)u.n->n_out + 2) * (size_t)(u.times + 1) + most;
    *done = true;
    int32_t *all = malloc(((size_t)u.l.n_carried + n_taken + n_rows * (most + 1) + room) * sizeof *all);
    if (!all) return error_set(KILN_E_MEMORY, "passes: out of memory");
    u.carried = all;
    u.taken = u.carried + u.l.n_carried;
    u.rows = u.taken + n_taken;
    u.room = u.rows + n_rows * most;
    kiln_status status = unroll(&u, u.room + room);
    free(all);
    return status;
}

kiln_status pass_unroll(const struct kiln_graph *from, const struct pass_options *o, struct kiln_graph **to)
{
    (void)o;
    return weave_graph(from, visit, NULL, to);
}
