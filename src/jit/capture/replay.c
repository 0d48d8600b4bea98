// Running a graph node by node.
//
// Input: a graph whose nodes stand in an order of execution. Every value that something needs gets a handle; a handle
// goes when its last user has run. What is needed is found by one pass backwards from the outputs.
#include "jit/capture/replay.h"
#include "ir/overlap.h"
#include "jit/control/control.h"
#include "jit/control/host.h"
#include "base/caller.h"
#include "base/where.h"
#include "base/leave.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include "tensor/apply.h"
#include "tensor/draw.h"
#include "tensor/flow.h"
#include <kiln/host.h>
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

struct replay {
    const struct kiln_graph *g;
    kiln_device *dev;
    const struct rng *rng;
    kiln_tensor **values; // by value; borrowed for inputs and constants
    int32_t *uses;        // by value: how often it is still asked for
    int32_t most_operands;
    bool effects;                    // the host's happen; else those alone run whose results are asked for
    struct catching_up *catching_up; // NULL: no
};

static kiln_status place_inputs(struct replay *r, kiln_tensor *const *in)
{
    size_t next = 0;
    for (size_t i = 0; i < r->g->values.n; i++) {
        const struct ir_value *v = &r->g->values.v[i];
        if (v->kind == IR_INPUT)
            r->values[i] = in[next++];
        else if (v->kind == IR_CONSTANT)
            r->values[i] = (kiln_tensor *)v->held;
        else if (v->kind == IR_NUMBER && r->uses[i]) {
            r->values[i] = v->type.dtype == KILN_F64   ? kiln_scalar(v->number)
                           : v->type.dtype == KILN_I64 ? kiln_scalar_int(v->integer)
                                                       : kiln_scalar_bool(v->integer != 0);
            if (!r->values[i]) return error_pending;
        }
    }
    return KILN_OK;
}

static bool is_made(const struct replay *r, int32_t value)
{
    return r->g->values.v[value].kind == IR_NODE;
}

static void drop_use(struct replay *r, int32_t value)
{
    if (value < 0 || --r->uses[value] || !is_made(r, value) || !r->values[value]) return;
    tensor_destroy(r->values[value]);
    r->values[value] = NULL;
}

static bool is_needed(const struct replay *r, const struct ir_node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (r->uses[n->first_out + i]) return true;
    return n->op->flags & OP_EFFECT || (r->effects && ir_node_has_effect(r->g, n));
}

static void count_use(struct replay *r, const int32_t *v, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (v[i] >= 0) r->uses[v[i]]++;
}

static void count_uses(struct replay *r)
{
    for (size_t i = r->g->nodes.n; i-- > 0;) {
        const struct ir_node *n = &r->g->nodes.v[i];
        if (!is_needed(r, n)) continue;
        count_use(r, ir_operands(r->g, n), n->n_in);
        for (int32_t k = 0; k < n->n_regions; k++) {
            const struct ir_region *region = &r->g->regions.v[n->first_region + k];
            count_use(r, r->g->operands.v + region->first_result, region->n_results);
        }
    }
}

// as_strided of the graph speaks of its operand's elements in row-major order, that of a tensor of its memory.
static kiln_status place_strided(kiln_tensor **in, struct attr *attrs)
{
    if (!layout_is_contiguous(&in[0]->type, &in[0]->layout)) {
        in[0] = kiln_contiguous(in[0]);
        if (!in[0]) return error_pending;
    }
    struct attr *offset = &attrs[AT_as_strided_offset];
    offset->i = (offset->set ? offset->i : 0) + in[0]->layout.offset;
    offset->set = true;
    return KILN_OK;
}

// What runs is recorded; a capture that asks for a value runs what there is of its graph by itself.
static bool is_recorded(void)
{
    return thread_state.capture && thread_state.sink;
}

// The numbers are a piece of those that each run of the capture around takes (capture_ops.numbers).
static bool is_of_run(const struct replay *r)
{
    return r->rng && r->rng->seed == (uint64_t)RNG_OF_RUN && is_recorded();
}

// Where a graph is recorded the numbers stay those of its run; else in a region they are those of the trip.
static kiln_status place_numbers(const struct replay *r, const struct op *op, struct attr *attrs)
{
    int seed = op_attr_index(op, "seed"), offset = op_attr_index(op, "offset");
    if (seed < 0 || offset < 0 || attrs[seed].i != RNG_OF_RUN) return KILN_OK;
    if (!r->rng && is_recorded()) return KILN_OK;
    if (!r->rng) return error_set(KILN_E_INTERNAL, "%s: a graph with random nodes runs without numbers", op->name);
    attrs[seed].i = (int64_t)r->rng->seed;
    attrs[offset].i += (int64_t)r->rng->offset;
    return KILN_OK;
}

static kiln_status run_node(struct replay *r, const struct ir_node *n, kiln_tensor **in);

// The needed nodes that lie in a region themselves, -1: in none. `in`: room for the operands of one.
static kiln_status run_region(struct replay *r, int32_t region, size_t first, size_t end, kiln_tensor **in, size_t *at)
{
    for (*at = first; *at < end; ++*at) {
        const struct ir_node *n = &r->g->nodes.v[*at];
        if (n->region == region && is_needed(r, n)) TRY(run_node(r, n, in));
    }
    return KILN_OK;
}

// A region as a function of control flow: what it makes goes with the scope that it runs in.
struct replayed_region {
    struct replay *r;
    int32_t region;
    kiln_tensor *const *params; // of a loop: the operands
    const int32_t *uses;        // of its values, before it ran
    bool draws_apart;           // from a stream of its own
};

static kiln_status give(struct replay *r, int32_t value, kiln_tensor **out);

static bool is_last(const struct happened *w, size_t n, size_t i, int32_t region, size_t reached)
{
    if (w[i].region != region || w[i].n_nodes > reached) return false;
    for (size_t k = i + 1; k < n; k++)
        if (w[k].region == region && w[k].target == w[i].target && w[k].n_nodes <= reached) return false;
    return true;
}

// What was written by a region, before a later one that the run does not come out of.
static int find_kept(const struct catching_up *c, int32_t target)
{
    for (size_t i = 0; i < c->n_writes; i++)
        if (c->of_regions[i] && c->writes[i].target == target) return (int)i;
    return -1;
}

static bool lies_in(const struct kiln_graph *g, int32_t region, int32_t around)
{
    const struct ir_region *in = &g->regions.v[region], *out = &g->regions.v[around];
    return in != out && in->first_node >= out->first_node &&
           in->first_node + in->n_nodes <= out->first_node + out->n_nodes && in->owner < out->owner;
}

static void drop_kept(struct catching_up *c, size_t i)
{
    if (c->of_regions[i]) tensor_destroy(c->of_regions[i]);
    c->of_regions[i] = NULL;
}

// The values that memory has in the midst of a region, or at the end of a trip. Those of a region inside of it that has
// failed are later ones.
static kiln_status keep_writes(struct replay *r, int32_t region, size_t reached)
{
    struct catching_up *c = r->catching_up;
    for (size_t i = 0; c && i < c->n_writes; i++) {
        if (!is_last(c->writes, c->n_writes, i, region, reached)) continue;
        int kept = find_kept(c, c->writes[i].target);
        if (kept >= 0 && lies_in(r->g, c->writes[kept].region, region)) continue;
        if (kept >= 0) drop_kept(c, (size_t)kept);
        kiln_tensor *t;
        TRY(give(r, c->writes[i].value, &t));
        c->of_regions[i] = kiln_own(t);
    }
    return KILN_OK;
}

// They are what the node gives.
static void forget_writes(struct replay *r, const struct ir_node *n)
{
    struct catching_up *c = r->catching_up;
    for (size_t i = 0; c && i < c->n_writes; i++)
        if (c->writes[i].region >= n->first_region && c->writes[i].region < n->first_region + n->n_regions)
            drop_kept(c, i);
}

static void keep_failed(struct replay *r, int32_t region, size_t reached)
{
    struct error_record why;
    if (!r->catching_up) return;
    error_capture(&why);
    kiln_error_clear();
    if (keep_writes(r, region, reached)) kiln_error_clear();
    error_raise(&why);
}

static kiln_status run_nodes_of(struct replay *r, int32_t region)
{
    const struct ir_region *of = &r->g->regions.v[region];
    size_t at, first = (size_t)of->first_node, end = first + (size_t)of->n_nodes;
    kiln_tensor **in = malloc(sizeof *in * (size_t)(r->most_operands + 1));
    if (!in) return error_set(KILN_E_MEMORY, "jit: out of memory");
    struct leave left;
    leave_push(&left, free, in);
    kiln_status status = run_region(r, region, first, end, in, &at);
    leave_pop(&left);
    free(in);
    if (status) keep_failed(r, region, at);
    return status ? status : keep_writes(r, region, end);
}

static int32_t end_of_values(const struct kiln_graph *g, const struct ir_region *region)
{
    return g->nodes.v[region->owner].first_out;
}

// A region may run again: what it counts down begins anew, and what it made is forgotten.
static void begin_again(const struct replayed_region *c)
{
    const struct ir_region *region = &c->r->g->regions.v[c->region];
    int32_t n = end_of_values(c->r->g, region) - region->first_param;
    memcpy(c->r->uses + region->first_param, c->uses, sizeof *c->uses * (size_t)n);
}

static void forget(const struct replayed_region *c)
{
    const struct ir_region *region = &c->r->g->regions.v[c->region];
    for (int32_t i = region->first_node; i < region->first_node + region->n_nodes; i++) {
        const struct ir_node *n = &c->r->g->nodes.v[i];
        for (int32_t k = 0; k < n->n_out; k++) c->r->values[n->first_out + k] = NULL;
    }
}

// What a constant chose is no region of the capture, and has no stream of its own.
static kiln_status check_chosen(const struct replayed_region *c)
{
    const struct draw_frame *f = thread_state.draws;
    if (!is_recorded() || !f || f->capture != thread_state.capture || !ir_region_draws(c->r->g, c->region))
        return KILN_OK;
    return error_set(KILN_E_UNSUPPORTED,
                     "call: a condition that is a constant inside of a capture chose a region that draws random "
                     "numbers; make the call outside of it, or give it a condition that is computed");
}

static kiln_status run_again(const struct replayed_region *c, kiln_tensor **out, size_t n_out)
{
    struct replay *r = c->r;
    const int32_t *results = r->g->operands.v + r->g->regions.v[c->region].first_result;
    const struct rng *around = r->rng;
    begin_again(c);
    forget(c);
    struct rng of_trip;
    if (c->draws_apart && (!around || is_of_run(r))) {
        TRY(check_chosen(c));
        r->rng = NULL; // a stream of its own, counted from its beginning
    } else if (c->draws_apart && !is_recorded()) {
        of_trip = thread_state.draws->at;
        r->rng = &of_trip;
    }
    kiln_status status = run_nodes_of(r, c->region);
    r->rng = around;
    TRY(status);
    for (size_t i = 0; i < n_out; i++) out[i] = r->values[results[i]];
    forget(c);
    return KILN_OK;
}

static kiln_status replay_region(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct replayed_region *c = user;
    const struct ir_region *region = &c->r->g->regions.v[c->region];
    (void)in, (void)n_in;
    for (int32_t i = 0; i < region->n_params; i++) c->r->values[region->first_param + i] = c->params[i];
    return run_again(c, out, n_out);
}

// A trip: `in` is the number, unless it is asked whether there is one, what is carried, and a row of what is scanned.
static kiln_status replay_trip(const struct replayed_region *c, kiln_tensor *number, kiln_tensor *const *in,
                               size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct ir_region *region = &c->r->g->regions.v[c->region];
    kiln_tensor **params = c->r->values + region->first_param;
    size_t n_taken = (size_t)region->n_params - 1;
    for (size_t i = 0; i < n_taken; i++) params[i] = i < n_in ? in[i] : c->params[i];
    params[n_taken] = number ? number : kiln_scalar_int(0);
    return params[n_taken] ? run_again(c, out, n_out) : error_pending;
}

static kiln_status replay_body(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct replayed_region *regions = user;
    return replay_trip(&regions[0], in[0], in + 1, n_in - 1, out, n_out);
}

static kiln_status replay_cond(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct replayed_region *regions = user;
    return replay_trip(&regions[1], NULL, in, n_in, out, n_out);
}

static kiln_status give_outputs(struct replay *r, const struct ir_node *n, kiln_tensor **out)
{
    for (int32_t i = 0; i < n->n_out; i++) {
        if (r->uses[n->first_out + i])
            r->values[n->first_out + i] = out[i];
        else
            tensor_destroy(out[i]);
    }
    for (int32_t i = 0; i < n->n_in; i++) drop_use(r, ir_operands(r->g, n)[i]);
    return KILN_OK;
}

// A node that has no number of its own takes none here either.
static struct control_draws draws_of(const struct replay *r, int64_t place)
{
    static const struct rng none = {0, 0};
    if (place < 0) return (struct control_draws){.given = true, .base = &none};
    if (is_of_run(r)) return (struct control_draws){.given = true, .place = place + (int64_t)r->rng->offset};
    return (struct control_draws){.given = true, .place = place, .base = r->rng};
}

static kiln_status run_switch(struct replay *r, const struct ir_node *n, kiln_tensor *const *in, kiln_tensor **out,
                              struct replayed_region *regions, void **users, kiln_fn *fns)
{
    for (int32_t k = 0; k < n->n_regions; k++) {
        users[k] = &regions[k];
        fns[k] = replay_region;
    }
    const struct control_branches b = {.op = in[n->n_in - 1]->type.dtype == KILN_BOOL ? "cond" : "switch",
                                       .index = in[n->n_in - 1],
                                       .fn = fns,
                                       .n = (size_t)n->n_regions,
                                       .users = users,
                                       .n_out = (size_t)n->n_out,
                                       .draws = draws_of(r, n->attrs[AT_switch_draws].i)};
    TRY(branches_take(&b, out));
    return give_outputs(r, n, out);
}

static kiln_status run_loop(struct replay *r, const struct ir_node *n, kiln_tensor *const *in, kiln_tensor **out,
                            struct replayed_region *regions)
{
    size_t n_carried = (size_t)n->attrs[AT_loop_carried].i, n_stacked = (size_t)n->n_out - n_carried;
    bool counted = n->attrs[AT_loop_counted].i;
    struct type *rows = calloc(n_stacked + 1, sizeof *rows);
    if (!rows) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < n_stacked; i++) rows[i] = r->g->values.v[(size_t)n->first_out + n_carried + i].type;
    const struct control_loop l = {.op = n->n_regions > 1 ? "while" : "for",
                                   .cond = n->n_regions > 1 ? replay_cond : NULL,
                                   .body = replay_body,
                                   .user = regions,
                                   .in = in,
                                   .n_carried = n_carried,
                                   .n_scanned = (size_t)n->attrs[AT_loop_scanned].i,
                                   .n_stacked = n_stacked,
                                   .rows = rows,
                                   .count = n->attrs[AT_loop_trips].i,
                                   .count_of = counted ? in[n->n_in - 1] : NULL,
                                   .bound = n->attrs[AT_loop_bound].i,
                                   .unroll = n->attrs[AT_loop_unroll].i,
                                   .numbered = true,
                                   .is_node = !r->catching_up,
                                   .reverse = n->attrs[AT_loop_reverse].i,
                                   .draws = draws_of(r, n->attrs[AT_loop_draws].i)};
    struct leave left;
    leave_push(&left, free, rows);
    kiln_status status = loop_take(&l, out);
    leave_pop(&left);
    free(rows);
    return status ? status : give_outputs(r, n, out);
}

// A node that is its one region: parameters show the operands.
static kiln_status run_inlined(struct replay *r, const struct ir_node *n, kiln_tensor **out,
                               struct replayed_region *regions)
{
    const struct region region = {n->op->name, "the region", replay_region, regions};
    TRY(region_run(&region, NULL, 0, out, (size_t)n->n_out));
    return give_outputs(r, n, out);
}

static kiln_status run_regions(struct replay *r, const struct ir_node *n, kiln_tensor **in, kiln_tensor **out,
                               struct replayed_region *regions, void **room)
{
    const struct op_regions_rule *rule = op_regions_rule(n->op);
    for (int32_t k = 0; r->rng && is_recorded() && !is_of_run(r) && k < n->n_regions; k++)
        if (ir_region_draws(r->g, n->first_region + k))
            return error_set(KILN_E_UNSUPPORTED,
                             "%s: it drew random numbers in a call that was made before this capture, and is run once "
                             "more inside of it; make the call inside, or take the gradient outside",
                             n->op->name);
    for (int32_t i = 0; i < n->n_in; i++) {
        in[i] = r->values[ir_operands(r->g, n)[i]];
        if (!in[i]) return error_set(KILN_E_INTERNAL, "%s: operand %d was not made", n->op->name, (int)i);
    }
    if (n->op == &op_instances[OP_switch])
        return run_switch(r, n, in, out, regions, room, (kiln_fn *)(room + n->n_regions));
    if (n->op == &op_instances[OP_loop]) return run_loop(r, n, in, out, regions);
    if (rule && rule->inlined) return run_inlined(r, n, out, regions);
    return error_set(KILN_E_UNSUPPORTED, "%s: a node with regions is not run alone", n->op->name);
}

// With what its regions count, as it is before they run.
static kiln_status run_owner(struct replay *r, const struct ir_node *n)
{
    size_t n_in = (size_t)n->n_in, n_out = (size_t)n->n_out, n_regions = (size_t)n->n_regions;
    const struct ir_region *first = &r->g->regions.v[n->first_region];
    size_t n_values = (size_t)(n->first_out - first->first_param);
    void **room = calloc(n_in + n_out + 2 * n_regions + 1, sizeof *room);
    struct replayed_region *regions = calloc(n_regions + 1, sizeof *regions);
    int32_t *uses = malloc(sizeof *uses * (n_values + 1));
    kiln_tensor **in = (kiln_tensor **)room;
    kiln_status status = room && regions && uses ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    if (!status) memcpy(uses, r->uses + first->first_param, sizeof *uses * n_values);
    for (size_t k = 0; k < n_regions && !status; k++)
        regions[k] = (struct replayed_region){.r = r,
                                              .region = n->first_region + (int32_t)k,
                                              .params = in,
                                              .draws_apart = !op_regions_rule(n->op)->inlined,
                                              .uses = uses + first[k].first_param - first->first_param};
    if (!status) status = run_regions(r, n, in, in + n_in, regions, room + n_in + n_out);
    if (!status) forget_writes(r, n);
    free(room);
    free(regions);
    free(uses);
    return status;
}

static kiln_status refuse_again(const struct host_call *h)
{
    char place[CALLER_TEXT_MAX];
    host_call_where(h, place, sizeof place);
    return error_set(KILN_E_UNSUPPORTED,
                     "%s: what it gives at %s is asked for once more, by gradients of gradients or by a capture that "
                     "reads a value or learns a type, and the host is not asked again; declare types, or capture with "
                     "KILN_CAPTURE_AUTO",
                     h->kind->name, place);
}

static bool is_asked_once(const struct host_call *h)
{
    return h->kind->advances || (h->effect && h->flags & (KILN_HOST_WRITES | KILN_HOST_IO));
}

// Numbers may stand for what the host is given.
static kiln_status call_host(struct replay *r, const struct ir_node *n, kiln_tensor *const *in, kiln_tensor **out)
{
    struct sink *s = thread_state.sink;
    struct host_call *h = host_call_of(n->attrs[AT_host_call_call].i);
    if (!h) return error_pending;
    bool graph = s && s->capture && s->capture->host;
    kiln_status status = KILN_OK;
    if (!r->effects && is_asked_once(h))
        status = refuse_again(h);
    else if (graph)
        status = s->capture->host(s, h, in, (size_t)n->n_in, out);
    else
        status = flow_call_host(h, r->dev, in, (size_t)n->n_in, out);
    if (!status && !graph) status = host_call_place(h, in, (size_t)n->n_in, out);
    host_call_unref(h);
    return status;
}

static kiln_status run_host(struct replay *r, const struct ir_node *n)
{
    kiln_tensor **room = calloc((size_t)(n->n_in + n->n_out) + 1, sizeof *room), **out = room + n->n_in;
    kiln_status status = room ? KILN_OK : error_set(KILN_E_MEMORY, "%s: out of memory", n->op->name);
    for (int32_t i = 0; i < n->n_in && !status; i++) room[i] = r->values[ir_operands(r->g, n)[i]];
    if (!status) status = call_host(r, n, room, out);
    if (!status) status = give_outputs(r, n, out);
    free(room);
    return status;
}

// A view of it would be one of the memory, at that memory's place on the tape.
static void part_from_memory(kiln_tensor *t)
{
    t->variable = t->place = 0;
    layout_contiguous(&t->type, &t->layout);
}

static kiln_status run_node(struct replay *r, const struct ir_node *n, kiln_tensor **in)
{
    struct attr attrs[OP_MAX_ATTRS];
    kiln_tensor *out[OP_MAX_OUT];
    const int32_t *from = ir_operands(r->g, n);
    if (n->n_regions) return run_owner(r, n);
    if (op_regions_rule(n->op)) return run_host(r, n);
    for (int i = 0; i < n->n_in; i++) in[i] = from[i] < 0 ? NULL : r->values[from[i]];
    if (n->op->n_attrs) memcpy(attrs, n->attrs, sizeof *attrs * n->op->n_attrs);
    if (n->op->flags & OP_STORAGE_VIEW) TRY(place_strided(in, attrs));
    TRY(place_numbers(r, n->op, attrs));
    bool given = thread_state.numbers_given;
    thread_state.numbers_given = true;
    uintptr_t where = where_give(n->caller);
    kiln_status status = op_apply(n->op, n->op->flags & OP_CREATES ? r->dev : NULL, n->n_in, in, attrs, out);
    where_give(where);
    thread_state.numbers_given = given;
    TRY(status);
    if (n->op == &op_instances[OP_at_place] && out[0]->builder) part_from_memory(out[0]);
    for (int i = 0; i < n->n_out; i++) r->values[n->first_out + i] = out[i];
    for (int i = 0; i < n->n_in; i++) drop_use(r, from[i]);
    return KILN_OK;
}

static kiln_status run_nodes(struct replay *r, size_t *reached)
{
    r->most_operands = 1;
    for (size_t i = 0; i < r->g->nodes.n; i++)
        if (r->g->nodes.v[i].n_in > r->most_operands) r->most_operands = r->g->nodes.v[i].n_in;
    kiln_tensor **in = malloc(sizeof *in * (size_t)r->most_operands);
    if (!in) return error_set(KILN_E_MEMORY, "jit: out of memory");
    kiln_status status = run_region(r, -1, 0, r->g->nodes.n, in, reached);
    free(in);
    return status;
}

static kiln_tensor *copy_of(const kiln_tensor *t, const struct type *type)
{
    kiln_tensor *copy = tensor_empty(t->storage ? t->storage->dev : device_default(), type);
    if (!copy || !kiln_assign(copy, (kiln_tensor *)t)) return copy;
    tensor_destroy(copy);
    return NULL;
}

// A value as a handle of its own. Without a tape, memory that is not this value's alone is copied: it belongs to an
// input or a constant, or may be written back to.
static kiln_status give(struct replay *r, int32_t value, kiln_tensor **out)
{
    kiln_tensor *t = r->values[value];
    if (t->storage && layout_overlaps(&t->type, &t->layout)) t = kiln_contiguous(t); // its caller may write it
    if (!t) return error_pending;
    bool alone = t->storage && is_made(r, value) && atomic_load(&t->storage->refs) == 1;
    if (t->builder || alone || (t->storage && !thread_state.no_grad))
        *out = kiln_alias(t);
    else
        *out = copy_of(t, &r->g->values.v[value].type);
    return *out ? KILN_OK : error_pending;
}

// All new values are known, and lie elsewhere, before the first is written.
// Into memory that shows an element several times, too: what the graph gives of it is the same there.
static kiln_status assign_all(kiln_tensor *target, kiln_tensor *value)
{
    if (!layout_overlaps(&target->type, &target->layout)) return kiln_assign(target, value);
    kiln_status status = KILN_OK;
    for (int64_t i = 0; i < target->type.dims[0] && !status; i++) {
        kiln_tensor *part = kiln_select(target, 0, i), *of_value = kiln_select(value, 0, i);
        status = part && of_value ? assign_all(part, of_value) : error_pending;
    }
    return status;
}

static kiln_status write_back(struct replay *r, size_t n_writes)
{
    kiln_tensor **values = malloc(sizeof *values * n_writes);
    size_t n = 0;
    if (!values) return error_set(KILN_E_MEMORY, "jit: out of memory");
    thread_state.no_grad++;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < r->g->outputs.n && !status; i++)
        if (r->g->outputs.v[i].target >= 0) status = give(r, r->g->outputs.v[i].value, &values[n++]);
    n = 0;
    for (size_t i = 0; i < r->g->outputs.n && !status; i++)
        if (r->g->outputs.v[i].target >= 0) status = assign_all(r->values[r->g->outputs.v[i].target], values[n++]);
    thread_state.no_grad--;
    free(values);
    return status;
}

struct asked {
    size_t n;
    const int32_t *values; // NULL: the graph's outputs
};

static kiln_status run(struct replay *r, kiln_tensor *const *in, const struct asked *asked, kiln_tensor **out)
{
    size_t n = 0, n_writes = 0, reached;
    for (size_t i = 0; i < r->g->outputs.n && !asked->values; i++) r->uses[r->g->outputs.v[i].value]++;
    for (size_t i = 0; i < asked->n && asked->values; i++) r->uses[asked->values[i]]++;
    count_uses(r);
    TRY(place_inputs(r, in));
    TRY(run_nodes(r, &reached));
    for (size_t i = 0; i < asked->n && asked->values; i++) TRY(give(r, asked->values[i], &out[i]));
    if (asked->values) return KILN_OK;
    for (size_t i = 0; i < r->g->outputs.n; i++)
        if (r->g->outputs.v[i].target < 0)
            TRY(give(r, r->g->outputs.v[i].value, &out[n++]));
        else
            n_writes++;
    return n_writes ? write_back(r, n_writes) : KILN_OK;
}

static kiln_status do_writes(struct replay *r, struct catching_up *c, size_t reached)
{
    kiln_tensor **values = calloc(c->n_writes + 1, sizeof *values);
    kiln_status status = values ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < c->n_writes && !status; i++)
        if (is_last(c->writes, c->n_writes, i, -1, reached) && find_kept(c, c->writes[i].target) < 0)
            status = give(r, c->writes[i].value, &values[i]);
    for (size_t i = 0; i < c->n_writes && !status; i++) {
        kiln_tensor *value = c->of_regions[i] ? c->of_regions[i] : values[i];
        if (value) status = assign_all(r->values[c->writes[i].target], value);
    }
    free(values);
    return status;
}

static kiln_status take_steps(struct replay *r, struct catching_up *c, size_t reached)
{
    for (size_t i = 0, end; i < c->n_steps; i = end) {
        end = gradient_step_end(c->steps, c->n_steps, i);
        if (c->steps[end - 1].n_nodes > reached) return KILN_OK;
        for (size_t k = i; k < end; k++)
            if (c->steps[k].value >= 0) TRY(give(r, c->steps[k].value, &c->values[k]));
        c->n_taken = end;
    }
    return KILN_OK;
}

static void catch_up(struct replay *r, kiln_tensor *const *in, struct catching_up *c)
{
    size_t reached = 0;
    for (size_t i = 0; i < r->g->outputs.n; i++) r->uses[r->g->outputs.v[i].value]++;
    for (size_t i = 0; i < c->n_writes; i++) r->uses[c->writes[i].value]++;
    for (size_t i = 0; i < c->n_steps; i++)
        if (c->steps[i].value >= 0) r->uses[c->steps[i].value]++;
    count_uses(r);
    if (place_inputs(r, in) || !run_nodes(r, &reached)) return;
    error_capture(c->why);
    kiln_error_clear();
    if (!take_steps(r, c, reached)) do_writes(r, c, reached);
}

void graph_catch_up(const struct kiln_graph *g, kiln_device *dev, kiln_tensor *const *in, const struct rng *rng,
                    struct catching_up *c)
{
    size_t n = g->values.n + 1;
    struct replay r = {g, dev, rng, calloc(n, sizeof *r.values), calloc(n, sizeof *r.uses), 1, true, c};
    struct kiln_scope scope;
    scope_enter(&scope);
    thread_state.no_grad++;
    c->of_regions = calloc(c->n_writes + 1, sizeof *c->of_regions);
    if (r.values && r.uses && c->of_regions) catch_up(&r, in, c);
    for (size_t i = 0; c->of_regions && i < c->n_writes; i++) drop_kept(c, i);
    free(c->of_regions);
    thread_state.no_grad--;
    scope_leave(&scope, c->values, c->n_steps);
    kiln_error_clear();
    free(r.values);
    free(r.uses);
}

static kiln_status start(const struct kiln_graph *g, kiln_device *dev, kiln_tensor *const *in, const struct rng *rng,
                         const struct asked *asked, kiln_tensor **out)
{
    size_t n = g->values.n + 1;
    struct replay r = {g, dev, rng, calloc(n, sizeof *r.values), calloc(n, sizeof *r.uses), 1, !asked->values, NULL};
    for (size_t i = 0; i < asked->n; i++) out[i] = NULL;
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_status status =
        r.values && r.uses ? run(&r, in, asked, out) : error_set(KILN_E_MEMORY, "jit: out of memory for a replay");
    scope_leave(&scope, out, status ? 0 : asked->n);
    for (size_t i = 0; i < asked->n && status; i++) out[i] = NULL;
    free(r.values);
    free(r.uses);
    return status;
}

kiln_status graph_replay(const struct kiln_graph *g, kiln_device *dev, kiln_tensor *const *in, const struct rng *rng,
                         kiln_tensor **out)
{
    struct asked all = {0, NULL};
    for (size_t i = 0; i < g->outputs.n; i++) all.n += g->outputs.v[i].target < 0;
    return start(g, dev, in, rng, &all, out);
}

kiln_status graph_evaluate(const struct kiln_graph *g, kiln_device *dev, kiln_tensor *const *in, const struct rng *rng,
                           size_t n, const int32_t *values, kiln_tensor **out)
{
    const struct asked some = {n, values};
    return start(g, dev, in, rng, &some, out);
}
