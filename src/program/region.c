// Makes the children of a node with regions.
//
// A child's graph is the region: parameters are inputs, and each result is written to a further input, which stands for
// memory of the parent's. So a kernel of the child writes there itself. What a loop carries and changes in part alone
// is written to its own parameter: then the child changes it where it lies.
#include "program/region.h"
#include "ir/graft.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include "program/gated.h"
#include "program/maker.h"
#include "program/series.h"
#include "program/series_code.h"
#include "tensor/apply.h"
#include <stdio.h>
#include <string.h>

static const struct ir_node *node_of(const struct program_maker *m, const struct unit *u)
{
    return &m->g->nodes.v[u->node];
}

static kiln_status set_operands(const struct program_maker *m, const struct unit *u, struct program_region *r)
{
    const struct ir_node *n = node_of(m, u);
    const int32_t *in = ir_operands(m->g, n);
    int at = 0;
    for (int i = 0; i < r->n_in; i++) {
        const struct unit_view *v = &m->units.values[in[i]];
        const struct type *t = &m->g->values.v[in[i]].type;
        struct region_operand *o = &r->in[i];
        *o = (struct region_operand){.buffer = -1, .input = -1};
        if (v->buffer < 0 && m->g->values.v[in[i]].kind == IR_INPUT) o->input = v->input;
        if (v->buffer < 0) continue;
        o->buffer = unit_operands(u)[at++].slot;
        o->at_B = (uint64_t)v->layout.offset * dtype_size_B[t->dtype];
        if (t->rank) o->row_B = (uint64_t)v->layout.strides[0] * dtype_size_B[t->dtype];
    }
    for (int i = 0; i < r->n_out; i++) {
        const struct type *t = &m->g->values.v[n->first_out + i].type;
        r->out[i] = unit_operands(u)[at++].slot;
        r->out_B[i] = (uint64_t)type_numel(t) * dtype_size_B[t->dtype];
        if (!r->n_branches && i >= r->n_carried && t->dims[0]) r->out_B[i] /= (uint64_t)t->dims[0];
    }
    return KILN_OK;
}

// --- the graph of a child

struct child {
    struct kiln_graph *g;
    const struct layout **layouts; // by input
    bool *numbers;
    int32_t *aliases;
    int64_t *step_B;
    int n;
    struct layout *room;
    struct program_trips trips; // of a body
};

static int32_t add_input(struct child *c, const struct type *t, bool number, const struct layout *layout)
{
    char name[24];
    snprintf(name, sizeof name, "in%d", c->n);
    c->numbers[c->n] = number;
    c->aliases[c->n] = c->n;
    c->layouts[c->n] = NULL;
    c->step_B[c->n] = 0;
    if (layout) {
        c->room[c->n] = *layout;
        c->room[c->n].offset = 0;
        c->layouts[c->n] = &c->room[c->n];
    }
    c->n++;
    return ir_add_input(c->g, t, name);
}

// The input that was added last goes on from row to row.
static void add_step(const struct program_region *r, struct child *c, uint64_t row_B)
{
    c->step_B[c->n - 1] = r->reverse ? -(int64_t)row_B : (int64_t)row_B;
}

// What a parameter of the region is to the child; a known number is no input.
static kiln_status add_param(struct program_maker *m, const struct program_region *r, const int32_t *in, int k,
                             const struct type *t, struct child *c, int32_t *value)
{
    if (k == r->n_taken) { // the number of the trip
        c->trips.number = c->n;
        *value = add_input(c, t, true, NULL);
        return *value < 0 ? error_pending : KILN_OK;
    }
    const struct ir_value *v = &m->g->values.v[in[k]];
    const struct unit_view *at = &m->units.values[in[k]];
    bool carried = !r->n_branches && k < r->n_carried;
    struct layout layout = at->layout;
    if (carried)
        *value = add_input(c, t, false, NULL);
    else if (at->buffer < 0 && v->kind == IR_NUMBER)
        *value = ir_add_number(c->g, t, v->number, v->integer);
    else if (at->buffer < 0)
        *value = add_input(c, t, true, NULL);
    else {
        if (t->rank < v->type.rank) memmove(layout.strides, layout.strides + 1, sizeof *layout.strides * t->rank);
        *value = add_input(c, t, false, &layout);
        if (!r->n_branches && k < r->n_carried + r->n_scanned) add_step(r, c, r->in[k].row_B);
    }
    return *value < 0 ? error_pending : KILN_OK;
}

// How often a value is an operand or a region's result.
static int count_uses(const struct kiln_graph *g, int32_t value)
{
    int n = 0;
    for (size_t i = 0; i < g->operands.n; i++) n += g->operands.v[i] == value;
    return n;
}

// Whether the body gives of carried value k what it was given but for parts, and reads it no more once a part is
// changed.
static bool stays(const struct kiln_graph *g, const struct ir_region *body, int k)
{
    int32_t param = body->first_param + k, value = g->operands.v[body->first_result + k];
    bool any = false;
    while (value != param) {
        const struct ir_value *v = &g->values.v[value];
        if (v->kind != IR_NODE || (any && count_uses(g, value) != 1)) return false;
        const struct ir_node *n = &g->nodes.v[v->node];
        if (!(n->op->flags & OP_CHANGES)) return false;
        value = ir_operands(g, n)[0];
        any = true;
    }
    return any && count_uses(g, param) == 1;
}

static void find_in_place(const struct program_maker *m, const struct ir_node *n, struct program_region *r)
{
    for (int k = 0; k < r->n_carried; k++) {
        r->in_place[k] = stays(m->g, &m->g->regions.v[n->first_region], k);
        r->n_stay += r->in_place[k];
    }
}

static kiln_status fill_child(struct program_maker *m, const struct program_region *r, const struct ir_node *n,
                              int32_t region, struct child *c)
{
    const struct ir_region *of = &m->g->regions.v[region];
    struct ir_graft graft;
    TRY(ir_graft_begin(&graft, m->g, c->g));
    kiln_status status = KILN_OK;
    for (int k = 0; k < of->n_params && !status; k++)
        status = add_param(m, r, ir_operands(m->g, n), k, &m->g->values.v[of->first_param + k].type, c,
                           &graft.map[of->first_param + k]);
    if (!status) status = ir_graft_nodes(&graft, region);
    c->trips.first_result = c->n;
    for (int i = 0; i < of->n_results && !status; i++) {
        int32_t result = m->g->operands.v[of->first_result + i];
        const struct type *t = &m->g->values.v[result].type;
        bool stay = region == n->first_region && i < r->n_carried && r->in_place[i];
        int32_t to = stay ? graft.map[of->first_param + i] : add_input(c, t, false, NULL);
        if (!r->n_branches && i >= r->n_carried) add_step(r, c, r->out_B[i]);
        status = to < 0 ? error_pending : ir_graft_value(&graft, result);
        if (!status) status = ir_add_write(c->g, graft.map[result], to, "result");
    }
    ir_graft_end(&graft);
    return status ? status : ir_renumber(c->g);
}

// The most trips that there can be; where nobody knows, and no rows say it, some.
static int64_t rows_of(const struct program_maker *m, const struct program_region *r, const struct ir_node *n)
{
    enum { SOME_TRIPS = 1000 };
    if (r->trips >= 0) return r->trips;
    if (r->n_scanned) return m->g->values.v[ir_operands(m->g, n)[r->n_carried]].type.dims[0];
    if (r->n_out > r->n_carried) return m->g->values.v[n->first_out + r->n_carried].type.dims[0];
    return r->bound ? r->bound : SOME_TRIPS;
}

static kiln_status begin_child(struct program_maker *m, struct child *c, int most)
{
    struct arena *a = &m->units.arena;
    *c = (struct child){.g = ir_graph_create(),
                        .layouts = arena_alloc(a, sizeof *c->layouts * (size_t)(most + 1)),
                        .numbers = arena_alloc(a, sizeof *c->numbers * (size_t)(most + 1)),
                        .aliases = arena_alloc(a, sizeof *c->aliases * (size_t)(most + 1)),
                        .step_B = arena_alloc(a, sizeof *c->step_B * (size_t)(most + 1)),
                        .room = arena_alloc(a, sizeof *c->room * (size_t)(most + 1))};
    return c->g && c->layouts && c->numbers && c->aliases && c->step_B && c->room ? KILN_OK : error_pending;
}

static kiln_status compile(struct program_maker *m, struct child *c, struct program **out)
{
    struct program_options o = *m->o;
    o.background = false;
    o.numbers = c->numbers;
    o.dense = NULL;
    o.given = NULL;
    o.aliases = c->aliases;
    o.in_place = true;
    o.trips = c->trips.step_B ? &c->trips : NULL;
    TRY(m->create(c->g, m->p->dev, c->layouts, &o, out));
    m->p->facts.host_B += (*out)->facts.host_B;
    return KILN_OK;
}

static kiln_status add_count(struct program_maker *m, const struct program_region *r, const struct ir_node *n,
                             struct child *c)
{
    const struct type number = {.dtype = KILN_I64};
    c->trips.n_carried = r->n_carried;
    c->trips.step_B = r->n_stay ? NULL : c->step_B; // a kernel of trips writes no part in place
    c->trips.count = c->n;
    c->trips.most = rows_of(m, r, n);
    return add_input(c, &number, true, NULL) < 0 ? error_pending : KILN_OK;
}

static kiln_status make_child(struct program_maker *m, const struct program_region *r, const struct ir_node *n,
                              int32_t region, struct program **out)
{
    struct child c;
    const struct ir_region *of = &m->g->regions.v[region];
    bool counted = !r->n_branches && n->n_regions == 1;
    kiln_status status = begin_child(m, &c, of->n_params + of->n_results + 1);
    if (!status) status = fill_child(m, r, n, region, &c);
    if (!status && counted) status = add_count(m, r, n, &c);
    if (!status) status = compile(m, &c, out);
    ir_graph_destroy(&c.g);
    return status;
}

// --- loops

// What does not lie in rows as the body gives it, or is a number, is copied first. So is all where it is not known
// which buffer the last trip leaves it in.
static bool find_copied(struct program_maker *m, const struct ir_node *n, struct program_region *r)
{
    const int32_t *in = ir_operands(m->g, n);
    bool all = r->gated || r->trips == 0, any = false;
    for (int k = 0; k < r->n_carried; k++) {
        const struct unit_view *v = &m->units.values[in[k]];
        r->copied[k] =
            all || r->in_place[k] || v->buffer < 0 || !layout_is_contiguous(&m->g->values.v[in[k]].type, &v->layout);
        any |= r->copied[k];
    }
    return any;
}

static kiln_status add_copy(struct program_maker *m, int32_t value, bool from_operand, struct child *c)
{
    const struct ir_value *v = &m->g->values.v[value];
    const struct unit_view *at = &m->units.values[value];
    int32_t from;
    if (!from_operand)
        from = add_input(c, &v->type, false, NULL);
    else if (at->buffer < 0 && v->kind == IR_NUMBER)
        from = ir_add_number(c->g, &v->type, v->number, v->integer);
    else
        from = add_input(c, &v->type, at->buffer < 0, &at->layout);
    int32_t to = from < 0 ? -1 : add_input(c, &v->type, false, NULL);
    return to < 0 ? error_pending : ir_add_write(c->g, from, to, "carried");
}

// From the operands to where the first trip reads them, or from the workspace to the results.
static kiln_status make_copies(struct program_maker *m, const struct ir_node *n, const struct program_region *r,
                               bool of_operands, struct program **out)
{
    struct child c;
    kiln_status status = begin_child(m, &c, 2 * r->n_carried);
    for (int k = 0; k < r->n_carried && !status; k++)
        if (!of_operands || r->copied[k]) status = add_copy(m, ir_operands(m->g, n)[k], of_operands, &c);
    if (!status) status = ir_renumber(c.g);
    if (!status) status = compile(m, &c, out);
    ir_graph_destroy(&c.g);
    return status;
}

static uint64_t aligned(uint64_t at_B)
{
    return (at_B + 255) / 256 * 256;
}

static uint64_t arena_of(const struct program *p)
{
    return p ? p->arena_B : 0;
}

static void place_workspace(struct program_region *r)
{
    uint64_t at = 0, most = arena_of(r->start);
    for (int k = 0; k < r->n_carried; k++) {
        r->carried_at[k] = at;
        if (!r->in_place[k]) at = aligned(at + r->out_B[k]);
    }
    r->flag_at = at;
    at = aligned(at + 1);
    r->state_at = at;
    at = aligned(at + sizeof(struct gate_state));
    r->child_at = at;
    if (arena_of(r->end) > most) most = arena_of(r->end);
    for (int i = 0; i < 2; i++)
        if (arena_of(r->child[i]) > most) most = arena_of(r->child[i]);
    for (int i = 0; i < r->n_branches; i++)
        if (arena_of(r->branches[i]) > most) most = arena_of(r->branches[i]);
    r->workspace_B = at + most;
}

static kiln_status make_room(struct program_maker *m, const struct ir_node *n, struct program_region **out)
{
    struct arena *a = &m->p->arena;
    struct program_region *r = *out = arena_alloc(a, sizeof *r);
    if (!r) return error_pending;
    *r = (struct program_region){.n_in = n->n_in, .n_out = n->n_out};
    bool loop = n->op == &op_instances[OP_loop];
    r->n_branches = loop ? 0 : n->n_regions;
    r->n_carried = loop ? (int)n->attrs[AT_loop_carried].i : 0;
    r->n_scanned = loop ? (int)n->attrs[AT_loop_scanned].i : 0;
    r->counted = loop && n->attrs[AT_loop_counted].i;
    r->n_taken = loop ? n->n_in - r->counted : n->n_in - 1;
    r->trips = loop ? n->attrs[AT_loop_trips].i : 0;
    r->bound = loop ? n->attrs[AT_loop_bound].i : 0;
    r->reverse = loop && n->attrs[AT_loop_reverse].i;
    r->number = (uint64_t)n->attrs[loop ? AT_loop_draws : AT_switch_draws].i;
    r->in = arena_alloc(a, sizeof *r->in * (size_t)(n->n_in + 1));
    r->out = arena_alloc(a, sizeof *r->out * (size_t)(n->n_out + 1));
    r->out_B = arena_alloc(a, sizeof *r->out_B * (size_t)(n->n_out + 1));
    r->branches = arena_alloc(a, sizeof *r->branches * (size_t)(r->n_branches + 1));
    r->copied = arena_alloc(a, sizeof *r->copied * (size_t)(r->n_carried + 1));
    r->in_place = arena_alloc(a, sizeof *r->in_place * (size_t)(r->n_carried + 1));
    r->carried_at = arena_alloc(a, sizeof *r->carried_at * (size_t)(r->n_carried + 1));
    if (!r->in || !r->out || !r->out_B || !r->branches || !r->copied || !r->in_place || !r->carried_at)
        return error_pending;
    memset(r->branches, 0, sizeof *r->branches * (size_t)(r->n_branches + 1));
    if (n->n_in) r->index_dtype = m->g->values.v[ir_operands(m->g, n)[n->n_in - 1]].type.dtype;
    return KILN_OK;
}

static kiln_status make_children(struct program_maker *m, const struct unit *u, struct program_region *r)
{
    const struct ir_node *n = node_of(m, u);
    TRY(set_operands(m, u, r));
    find_in_place(m, n, r);
    for (int i = 0; i < n->n_regions; i++)
        TRY(make_child(m, r, n, n->first_region + i, r->n_branches ? &r->branches[i] : &r->child[i]));
    TRY(region_find_gateable(m->p->dev, m->p->name, r));
    if (!r->n_branches && find_copied(m, n, r)) TRY(make_copies(m, n, r, true, &r->start));
    if (!r->n_branches && r->gated && r->n_carried) TRY(make_copies(m, n, r, false, &r->end));
    if (r->start && r->start->host_decides) r->host_decides = r->start->host_decides;
    r->gated = r->gated && !r->host_decides;
    if (!r->n_branches) r->one_by_one = program_series_refuses(r->child[0]);
    if (!r->n_branches && !r->one_by_one && r->child[1]) r->one_by_one = program_series_refuses(r->child[1]);
    if (!r->n_branches && !r->one_by_one) {
        r->code = series_code_new(&m->p->arena);
        if (!r->code) return error_pending;
    }
    place_workspace(r);
    return KILN_OK;
}

kiln_status program_region_make(struct program_maker *m, const struct unit *u, struct program_region **out)
{
    const struct ir_node *n = node_of(m, u);
    if (n->op != &op_instances[OP_loop] && n->op != &op_instances[OP_switch])
        return error_set(KILN_E_UNSUPPORTED, "graph: %s: a node with regions is not compiled", n->op->name);
    TRY(make_room(m, n, out));
    kiln_status status = make_children(m, u, *out);
    if (status) program_region_destroy(m->p->dev, *out, m->destroy);
    return status;
}

void program_region_destroy(kiln_device *dev, struct program_region *r, void (*destroy)(struct program **p))
{
    region_drop_gate(dev, r);
    series_code_drop(r->code);
    for (int i = 0; i < r->n_branches; i++) destroy(&r->branches[i]);
    for (int i = 0; i < 2; i++) destroy(&r->child[i]);
    destroy(&r->start);
    destroy(&r->end);
}

static void explain_child(const struct program *p, const char *what, int number, const char *indent,
                          program_explain_fn *explain, struct str *out)
{
    struct str text;
    if (!p) return;
    str_init(&text);
    explain(p, &text);
    str_addf(out, "%s%s", indent, what);
    if (number >= 0) str_addf(out, " %d", number);
    str_add(out, ": ");
    for (const char *at = text.text ? text.text : ""; *at;) {
        size_t line = strcspn(at, "\n");
        str_addf(out, "%.*s\n%s", (int)line, at, at[line] && at[line + 1] ? indent : "");
        at += line + (at[line] == '\n');
    }
    str_free(&text);
}

// "for which the host waits", and why the device does not decide by itself.
static void explain_wait(const struct program_region *r, const char *how, struct str *out)
{
    str_addf(out, "for which the host waits%s", how);
    if (r->host_decides && *r->host_decides) str_addf(out, " (%s)", r->host_decides);
}

static void explain_trips(const struct program_region *r, struct str *out)
{
    if (r->trips >= 0) {
        str_addf(out, "%lld trips", (long long)r->trips);
        return;
    }
    str_add(out, r->child[1] ? "as long as a condition holds, " : "as often as a value says, ");
    if (r->gated && r->reads_count)
        str_add(out, "which is read once, for a kernel makes the trips; behind a gate the device decides");
    else if (r->gated)
        str_addf(out, "which the device decides, in chunks of %lld trips", (long long)r->chunk);
    else
        explain_wait(r, r->child[1] ? " in each trip" : " once", out);
}

static void explain_head(const struct program_region *r, struct str *out)
{
    if (r->n_branches) {
        str_addf(out, "switch: %d regions, ", r->n_branches);
        if (r->gated)
            str_add(out, "the device decides by the index");
        else
            explain_wait(r, " by the index", out);
        str_add(out, "\n");
        return;
    }
    str_addf(out, "loop: %d value%s carried, ", r->n_carried, r->n_carried == 1 ? "" : "s");
    if (r->n_stay) str_addf(out, "%d of them in place, ", r->n_stay);
    str_addf(out, "%d scanned, ", r->n_scanned);
    explain_trips(r, out);
    if (r->bound) str_addf(out, ", %lld at most", (long long)r->bound);
    if (!r->one_by_one && r->child[0]->trips_at_once < 2)
        str_add(out, ", launches laid out once");
    else if (r->child[0]->dev->caps.host && r->one_by_one)
        str_addf(out, ", launches laid out in each trip (%s)", r->one_by_one);
    str_addf(out, "%s\n", r->reverse ? ", from the last row to the first" : "");
}

void program_region_explain(const struct program_region *r, const char *indent, program_explain_fn *explain,
                            struct str *out)
{
    explain_head(r, out);
    for (int i = 0; i < r->n_branches; i++) explain_child(r->branches[i], "region", i, indent, explain, out);
    explain_child(r->start, "start", -1, indent, explain, out);
    explain_child(r->end, "end, after an odd number of trips", -1, indent, explain, out);
    explain_child(r->child[0], "body", -1, indent, explain, out);
    explain_child(r->child[1], "cond", -1, indent, explain, out);
}
