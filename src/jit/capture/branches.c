// kiln_cond and kiln_switch as nodes of a graph.
//
// Each branch is recorded, one after the other, as if it alone was taken. What any of them reads of the capture around
// becomes an operand of the node, what any of them writes a further output: a branch that does not write it gives the
// value that it had. Where the index is known only one branch is left, and no node.
#include "base/caller.h"
#include "jit/capture/region.h"
#include "grad/state.h"
#include "ir/regions.h"
#include "jit/capture/region_gradient.h"
#include "jit/capture/region_leaves.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include <kiln/ops.h>
#include <stdio.h>
#include <stdlib.h>

struct branching {
    const struct control_branches *b;
    struct recorder *o;
    struct region_record *records; // b->n
    struct region_variables written, read;
    struct region_leaves *leaves; // whose gradients some branch leaves
    kiln_tensor *index;
    kiln_tensor **operands; // handles there: of what is read, then the index
    kiln_tensor **results;  // b->n_out, then of what is written
    uintptr_t caller;
};

static kiln_status record_all(struct branching *c)
{
    const struct control_branches *b = c->b;
    char part[48];
    for (size_t k = 0; k < b->n; k++) {
        struct region_record *r = &c->records[k];
        r->made = calloc(b->n_out + 1, sizeof *r->made);
        if (!r->made) return error_set(KILN_E_MEMORY, "%s: out of memory", b->op);
        branches_name(b, k, part, sizeof part);
        const struct region region = {b->op, part, b->fn[k], b->users ? b->users[k] : b->user};
        TRY(region_record(r, c->o, &region, b->in, b->n_in, r->made, b->n_out));
    }
    for (size_t k = 0; k < b->n; k++) TRY(region_leaves_find(c->leaves, &c->records[k].r));
    for (size_t k = 0; k < b->n; k++) TRY(region_find_written(&c->records[k], &c->written));
    return KILN_OK;
}

// A number in one branch is of the dtype that another gives in its place.
static kiln_status agree(struct branching *c, size_t i)
{
    const struct type *strong = NULL;
    for (size_t k = 0; k < c->b->n && !strong; k++)
        if (!c->records[k].made[i]->type.weak) strong = &c->records[k].made[i]->type;
    for (size_t k = 0; k < c->b->n && strong; k++) {
        struct region_record *r = &c->records[k];
        if (!r->made[i]->type.weak || strong->rank) continue;
        struct recorder_switch before = recorder_enter(&r->r);
        r->made[i] = kiln_cast(r->made[i], (kiln_dtype)strong->dtype);
        recorder_leave(&before);
        if (!r->made[i]) return error_pending;
    }
    return KILN_OK;
}

static kiln_status check_results(const struct branching *c, size_t i)
{
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX], at[32], x[48], y[48];
    const struct type *first = &c->records[0].made[i]->type;
    for (size_t k = 1; k < c->b->n; k++) {
        const struct type *t = &c->records[k].made[i]->type;
        if (type_equal(first, t) && first->weak == t->weak) continue;
        kiln_status code = type_difference(first, t, at, sizeof at);
        return error_set(code, "%s: output %zu of %s is %s, of %s %s: they differ %s", c->b->op, i,
                         branches_name(c->b, 0, x, sizeof x), type_text(first, a, sizeof a),
                         branches_name(c->b, k, y, sizeof y), type_text(t, b, sizeof b), at);
    }
    return KILN_OK;
}

// All that the branches give, of the same types.
static kiln_status close_all(struct branching *c)
{
    const struct control_branches *b = c->b;
    for (size_t i = 0; i < b->n_out; i++) {
        TRY(agree(c, i));
        TRY(check_results(c, i));
    }
    for (size_t k = 0; k < b->n; k++) {
        struct region_record *r = &c->records[k];
        r->n_values = b->n_out + c->written.v.n;
        r->values = calloc(r->n_values + 1, sizeof *r->values);
        kiln_tensor **made = realloc(r->made, (r->n_values + 1) * sizeof *made);
        if (made) r->made = made;
        if (!r->values || !made) return error_set(KILN_E_MEMORY, "%s: out of memory", b->op);
        struct recorder_switch before = recorder_enter(&r->r);
        kiln_status status = KILN_OK;
        for (size_t i = 0; i < c->written.v.n && !status; i++)
            status = region_show_outer(r, c->records, b->n, c->written.v.v[i], &r->made[b->n_out + i]);
        recorder_leave(&before);
        if (!status) status = region_close(r, b->op);
        TRY(status);
    }
    for (size_t k = 0; k < b->n; k++) TRY(region_find_read(&c->records[k], &c->read));
    return KILN_OK;
}

// --- the node

static kiln_status add_results(const struct branching *c, size_t k, const struct ir_graft *graft, int32_t *results,
                               int *n)
{
    struct kiln_graph *g = c->o->sink.builder.graph;
    const struct region_record *r = &c->records[k];
    for (size_t i = 0; i < r->n_values; i++) results[(*n)++] = graft->map[r->values[i]];
    for (size_t m = 0; m < c->b->n; m++)
        for (size_t i = 0; i < region_saved(&c->records[m]); i++) {
            const struct region_record *of = &c->records[m];
            if (of->g.saved[i].source >= 0) continue;
            if (m == k) {
                results[(*n)++] = graft->map[region_saved_value(of, i)];
                continue;
            }
            struct attr attrs[3];
            struct op_call full = {
                .op = &op_instances[OP_full], .n_out = 1, .attrs = attrs, .out = {of->g.saved[i].type}};
            op_full_attrs(&full.out[0], 0, attrs);
            results[*n] = ir_add_node(g, &full, NULL, c->caller);
            if (results[(*n)++] < 0) return error_pending;
        }
    return KILN_OK;
}

static kiln_status place_values(const struct branching *c, const struct region_record *r, struct ir_graft *graft,
                                const int32_t *params)
{
    for (size_t i = 0; i < r->r.sources.n; i++) {
        const struct source *s = &r->r.sources.v[i];
        graft->map[s->value] = params[region_find(&c->read, s->outer)];
    }
    // What is given is a number or a constant: no node uses it.
    for (size_t i = 0; i < r->n_values; i++) TRY(ir_graft_value(graft, r->values[i]));
    return KILN_OK;
}

static kiln_status add_region(const struct branching *c, size_t k, int32_t region, int32_t *room)
{
    struct kiln_graph *g = c->o->sink.builder.graph;
    const struct region_record *r = &c->records[k];
    struct ir_graft graft;
    int n = 0;
    TRY(ir_region_begin(g, region));
    for (size_t i = 0; i < c->read.v.n; i++)
        if ((room[i] = ir_add_param(g, &c->operands[i]->type)) < 0) return error_pending;
    TRY(ir_graft_begin(&graft, r->r.sink.builder.graph, g));
    for (size_t i = 0; i < r->r.sources.n; i++)
        graft.map[r->r.sources.v[i].value] = room[region_find(&c->read, r->r.sources.v[i].outer)];
    kiln_status status = ir_graft_nodes(&graft, -1);
    if (!status) status = region_take_writes(r, &graft, region);
    if (!status) status = place_values(c, r, &graft, room);
    int32_t *results = room + c->read.v.n;
    if (!status) status = add_results(c, k, &graft, results, &n);
    if (!status) status = ir_region_end(g, results, n);
    ir_graft_end(&graft);
    return status;
}

static size_t count_saved(const struct branching *c)
{
    size_t n = 0;
    for (size_t k = 0; k < c->b->n; k++)
        for (size_t i = 0; i < region_saved(&c->records[k]); i++) n += c->records[k].g.saved[i].source < 0;
    return n;
}

static kiln_status add_node(struct branching *c, int32_t *operands, int32_t *room)
{
    struct kiln_graph *g = c->o->sink.builder.graph;
    size_t n_read = c->read.v.n, n_values = c->records[0].n_values;
    for (size_t i = 0; i <= n_read; i++) TRY(recorder_value(c->o, c->operands[i], &operands[i]));
    TRY(replayed_operands(c->o, (int)n_read + 1, c->operands, operands));
    int32_t first = ir_add_regions(g, (int)c->b->n);
    if (first < 0) return error_pending;
    for (size_t k = 0; k < c->b->n; k++) TRY(add_region(c, k, first + (int32_t)k, room));
    int64_t number = recorder_take_number(c->o, &c->b->draws,
                                          region_takes_number(c->records, c->b->n, c->b->index, c->b->in, c->b->n_in));
    struct attr attrs[OP_MAX_ATTRS] = {[AT_switch_draws] = attr_of_int(number)};
    const struct op_call call = {.op = &op_instances[OP_switch], .n_in = (int)n_read + 1, .attrs = attrs};
    int32_t out = ir_add_region_node(g, &call, operands, NULL, c->caller, first, (int)c->b->n);
    if (out < 0) return error_pending;
    size_t n_all = n_values + count_saved(c);
    for (size_t i = 0; i < n_all; i++) {
        const struct type type = g->values.v[out + (int32_t)i].type;
        c->results[i] = variable_handle(c->o, &type, out + (int32_t)i);
        if (!c->results[i]) return error_pending;
    }
    const struct region_node node = {.op = c->b->op,
                                     .o = c->o,
                                     .records = c->records,
                                     .n_records = c->b->n,
                                     .read = &c->read,
                                     .operands = c->operands,
                                     .index = c->index,
                                     .results = c->results,
                                     .number = number,
                                     .n_results = n_values};
    TRY(region_place_on_tape(&node));
    const struct op_call done = {.op = call.op, .n_in = call.n_in, .n_out = (int)n_values};
    return replayed_results(c->o, &done, operands, c->results);
}

static kiln_status make_node(struct branching *c)
{
    size_t n_read = c->read.v.n, n_values = c->records[0].n_values, n_saved = count_saved(c);
    c->operands = calloc(n_read + 1, sizeof *c->operands);
    c->results = calloc(n_values + n_saved + 1, sizeof *c->results);
    int32_t *room = malloc(sizeof *room * (2 * n_read + n_values + n_saved + 2));
    kiln_status status = c->operands && c->results && room ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < n_read && !status; i++)
        status = region_operand(c->o, c->records, c->b->n, c->read.v.v[i], &c->operands[i]);
    if (!status) c->operands[n_read] = c->index;
    if (!status) status = add_node(c, room, room + n_read + 1);
    free(room);
    return status;
}

static kiln_status give(struct branching *c, kiln_tensor **out)
{
    size_t n_out = c->b->n_out;
    for (size_t i = 0; i < c->written.v.n; i++)
        TRY(region_write_outer(c->o, c->records, c->b->n, c->written.v.v[i], c->results[n_out + i]));
    for (size_t i = 0; i < n_out; i++) out[i] = c->results[i];
    return KILN_OK;
}

static void finish(void *at)
{
    struct branching *c = at;
    for (size_t k = 0; k < c->b->n; k++) region_finish(&c->records[k], c->b->op, c->caller);
    free(c->records);
    vec_free(&c->written.v);
    vec_free(&c->read.v);
    free(c->operands);
    free(c->results);
}

static kiln_status record(struct branching *c, kiln_tensor **out)
{
    TRY(record_all(c));
    TRY(close_all(c));
    TRY(make_node(c));
    return give(c, out);
}

static kiln_status take(struct sink *sink, const struct control_branches *b, struct region_leaves *leaves,
                        kiln_tensor **out, bool *taken)
{
    struct branching c = {.b = b, .o = recorder_of(sink), .leaves = leaves, .caller = caller_find()};
    struct kiln_scope scope;
    *taken = false;
    scope_enter(&scope);
    kiln_status status = recorder_resolve(c.o, b->op, b->index, &c.index);
    *taken = !status && c.index->builder;
    if (!status && !*taken)
        recorder_take_number(c.o, &b->draws, region_takes_number(NULL, 0, b->index, b->in, b->n_in));
    if (*taken) {
        c.records = calloc(b->n, sizeof *c.records);
        if (!c.records) status = error_set(KILN_E_MEMORY, "%s: out of memory", b->op);
        struct state_leave left;
        state_push(&left, finish, &c);
        if (!status) status = record(&c, out);
        state_pop(&left);
        if (c.records) finish(&c);
    }
    scope_leave(&scope, out, status || !*taken ? 0 : b->n_out);
    for (size_t i = 0; i < b->n_out && status; i++) out[i] = NULL;
    return status;
}

kiln_status capture_branches(struct sink *sink, const struct control_branches *b, kiln_tensor **out, bool *taken)
{
    return region_leaves_of_branches(sink, b, take, out, taken);
}
