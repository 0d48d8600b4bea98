// The node of a loop: its operands, and its regions grafted into the graph.
#include "jit/capture/region_loop.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include "tensor/apply.h"
#include <stdlib.h>

static size_t n_taken(const struct looping *c) // operands that the regions take
{
    return c->l->n_carried + c->written.v.n + c->l->n_scanned + c->read.v.n;
}

static bool is_written(const struct looping *c, int32_t variable)
{
    return region_find(&c->written, variable) >= 0;
}

static kiln_status find_read(struct looping *c)
{
    struct region_variables all = {{0}};
    kiln_status status = region_find_read(&c->body, &all);
    if (!status && c->cond.begun) status = region_find_read(&c->cond, &all);
    for (size_t i = 0; i < all.v.n && !status; i++)
        if (!is_written(c, all.v.v[i])) status = vec_push(&c->read.v, all.v.v[i]);
    vec_free(&all.v);
    return status;
}

// The body alone is differentiated.
static kiln_status operand(const struct looping *c, int32_t variable, kiln_tensor **out)
{
    return region_operand(c->o, &c->body, 1, variable, out);
}

static kiln_status find_operands(struct looping *c)
{
    const struct control_loop *l = c->l;
    size_t n = 0;
    c->operands = calloc(n_taken(c) + 2, sizeof *c->operands);
    if (!c->operands) return error_set(KILN_E_MEMORY, "%s: out of memory", l->op);
    for (size_t i = 0; i < l->n_carried; i++) c->operands[n++] = c->in[i];
    for (size_t i = 0; i < c->written.v.n; i++) TRY(operand(c, c->written.v.v[i], &c->operands[n++]));
    for (size_t i = 0; i < l->n_scanned; i++) c->operands[n++] = c->in[l->n_carried + i];
    for (size_t i = 0; i < c->read.v.n; i++) TRY(operand(c, c->read.v.v[i], &c->operands[n++]));
    if (c->count) c->operands[n++] = c->count;
    c->n_operands = n;
    return KILN_OK;
}

// The parameter of the node's regions that shows a source of the body or of cond.
static size_t place_of(const struct looping *c, const struct region_record *r, size_t source)
{
    const struct control_loop *l = c->l;
    size_t n_written = c->written.v.n;
    int32_t param = loop_param_of(c, (int32_t)source);
    if (param >= 0 && (size_t)param < l->n_carried) return (size_t)param;
    if (param >= 0 && (size_t)param < l->n_carried + l->n_scanned) return n_written + (size_t)param;
    if (param >= 0) return n_taken(c); // the number
    int32_t variable = r->r.sources.v[source].outer;
    if (is_written(c, variable)) return l->n_carried + (size_t)region_find(&c->written, variable);
    return l->n_carried + n_written + l->n_scanned + (size_t)region_find(&c->read, variable);
}

static kiln_status add_params(const struct looping *c, int32_t *params)
{
    struct kiln_graph *g = c->o->sink.builder.graph;
    const struct control_loop *l = c->l;
    const struct type number = {.dtype = KILN_I64, .weak = true};
    size_t n = n_taken(c), scanned = l->n_carried + c->written.v.n;
    for (size_t i = 0; i <= n; i++) {
        const struct type *t = i == n ? &number : &c->operands[i]->type;
        if (i >= scanned && i < scanned + l->n_scanned) t = &c->params[l->n_carried + i - scanned].type;
        params[i] = ir_add_param(g, t);
        if (params[i] < 0) return error_pending;
    }
    return KILN_OK;
}

// What the backward graph asks for and is another one in each trip, as a further row.
static bool is_stacked(const struct looping *c, const struct saved *s)
{
    if (s->source < 0) return true;
    int32_t param = loop_param_of(c, s->source);
    if (param >= 0) return (size_t)param < c->l->n_carried;
    return is_written(c, c->body.r.sources.v[s->source].outer);
}

static size_t count_saved(const struct looping *c)
{
    size_t n = 0;
    for (size_t i = 0; i < region_saved(&c->body); i++) n += is_stacked(c, &c->body.g.saved[i]);
    return n;
}

static kiln_status add_region(const struct looping *c, const struct region_record *r, int32_t region, int32_t *room)
{
    struct kiln_graph *g = c->o->sink.builder.graph;
    struct ir_graft graft;
    int n = 0;
    int32_t *results = room + n_taken(c) + 1;
    TRY(ir_region_begin(g, region));
    TRY(add_params(c, room));
    TRY(ir_graft_begin(&graft, r->r.sink.builder.graph, g));
    for (size_t i = 0; i < r->r.sources.n; i++) graft.map[r->r.sources.v[i].value] = room[place_of(c, r, i)];
    kiln_status status = KILN_OK;
    for (size_t i = 0; r == &c->body && i < c->written.v.n && !status; i++)
        status = region_note_start(c->o, c->written.v.v[i], room[c->l->n_carried + i], region);
    if (!status) status = ir_graft_nodes(&graft, -1);
    if (!status) status = region_take_writes(r, &graft, region);
    for (size_t i = 0; i < r->n_values && !status; i++) {
        status = ir_graft_value(&graft, r->values[i]);
        results[n++] = graft.map[r->values[i]];
    }
    for (size_t i = 0; r == &c->body && i < region_saved(r) && !status; i++)
        if (is_stacked(c, &r->g.saved[i])) results[n++] = graft.map[region_saved_value(r, i)];
    if (!status) status = ir_region_end(g, results, n);
    ir_graft_end(&graft);
    return status;
}

static void set_attrs(const struct looping *c, struct attr *attrs)
{
    attrs[AT_loop_carried] = attr_of_int((int64_t)(c->l->n_carried + c->written.v.n));
    attrs[AT_loop_scanned] = attr_of_int((int64_t)c->l->n_scanned);
    attrs[AT_loop_trips] = attr_of_int(c->count ? -1 : c->trips);
    attrs[AT_loop_counted] = attr_of_bool(c->count != NULL);
    attrs[AT_loop_bound] = attr_of_int(c->l->bound);
    attrs[AT_loop_reverse] = attr_of_bool(c->l->reverse);
    attrs[AT_loop_draws] = attr_of_int(c->number);
    attrs[AT_loop_unroll] = attr_of_int(c->l->unroll);
}

static kiln_status add(struct looping *c, int32_t *operands, int32_t *room)
{
    struct kiln_graph *g = c->o->sink.builder.graph;
    struct attr attrs[OP_MAX_ATTRS];
    int n_in = (int)c->n_operands, n_regions = c->cond.begun ? 2 : 1;
    size_t n_values = c->body.n_values, n_saved = count_saved(c);
    for (int i = 0; i < n_in; i++) TRY(recorder_value(c->o, c->operands[i], &operands[i]));
    TRY(replayed_operands(c->o, n_in, c->operands, operands));
    int32_t first = ir_add_regions(g, n_regions);
    if (first < 0) return error_pending;
    TRY(add_region(c, &c->body, first, room));
    if (n_regions == 2) TRY(add_region(c, &c->cond, first + 1, room));
    const struct control_loop *l = c->l;
    bool told = !l->draws.late && region_takes_number(NULL, 0, l->count_of, l->in, l->n_carried + l->n_scanned);
    bool takes = told || c->body.r.random_counters || (n_regions == 2 && c->cond.r.random_counters);
    c->number = recorder_take_number(c->o, &l->draws, takes);
    set_attrs(c, attrs);
    const struct op_call call = {.op = &op_instances[OP_loop], .n_in = n_in, .attrs = attrs};
    int32_t out = ir_add_region_node(g, &call, operands, NULL, c->caller, first, n_regions);
    if (out < 0) return error_pending;
    for (size_t i = 0; i < n_values + n_saved; i++) {
        const struct type type = g->values.v[out + (int32_t)i].type;
        c->results[i] = variable_handle(c->o, &type, out + (int32_t)i);
        if (!c->results[i]) return error_pending;
    }
    c->n_results = n_values;
    TRY(loop_place_on_tape(c));
    const struct op_call done = {.op = call.op, .n_in = n_in, .n_out = (int)n_values};
    return replayed_results(c->o, &done, operands, c->results);
}

kiln_status loop_add_node(struct looping *c)
{
    TRY(find_read(c));
    TRY(find_operands(c));
    size_t n_results = c->body.n_values + count_saved(c);
    c->results = calloc(n_results + 1, sizeof *c->results);
    int32_t *room = malloc(sizeof *room * (2 * c->n_operands + n_results + 4));
    kiln_status status = c->results && room ? KILN_OK : error_set(KILN_E_MEMORY, "%s: out of memory", c->l->op);
    if (!status) status = add(c, room, room + c->n_operands);
    free(room);
    return status;
}
