// If, Loop and Scan: their graphs are regions of Kiln's control flow. Where the condition of an If is a number of the
// host, as it is when a model asks for a shape, its branch is a part of the graph around it.
#include "onnx/onnx_fns.h"
#include <kiln/control.h>
#include <kiln/jit.h>
#include <stdlib.h>
#include <string.h>

struct onnx_region {
    struct onnx_call *c;
    const struct onnx_graph *graphs[2]; // then and else; of loops the first is the body
    kiln_tensor *limit;                 // of Loop: the most trips; NULL: none
};

// Runs the graph on `in`, as its inputs from `first` on; outputs from `skip` on.
static kiln_status run_region(struct onnx_region *r, const struct onnx_graph *g, kiln_tensor *const *in, size_t n_in,
                              kiln_tensor **out, size_t n_out)
{
    struct onnx_frame f;
    if (n_in != (size_t)g->n_in || n_out != (size_t)g->n_out)
        return onnx_bad(r->c, KILN_E_FORMAT, "its graph has %d inputs and %d outputs, not %zu and %zu", g->n_in,
                        g->n_out, n_in, n_out);
    TRY(onnx_frame_init(r->c->run, &f, g, r->c->frame));
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n_in && !status; i++) {
        struct onnx_value v = {.kind = ONNX_COMPUTED, .tensor = in[i]};
        status = onnx_value_copy(&f.values[g->in_slots[i]], &v);
    }
    if (!status) status = onnx_run_graph(r->c->run, &f);
    for (size_t i = 0; i < n_out && !status; i++)
        if (!(out[i] = onnx_result(r->c->run, &f, (int32_t)i))) status = error_pending;
    onnx_frame_finish(&f);
    return status;
}

static kiln_status give_list(struct onnx_call *c, int first, kiln_tensor *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (onnx_wants(c, first + (int)i)) TRY(onnx_give(c, first + (int)i, list[i]));
    return KILN_OK;
}

static kiln_status make_list(struct onnx_call *c, size_t n, kiln_tensor ***out)
{
    *out = arena_alloc(&c->run->arena, (n + 1) * sizeof **out);
    return *out ? KILN_OK : error_pending;
}

// --- If

static kiln_status then_region(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct onnx_region *r = user;
    return run_region(r, r->graphs[0], in, n_in, out, n_out);
}

static kiln_status else_region(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct onnx_region *r = user;
    return run_region(r, r->graphs[1], in, n_in, out, n_out);
}

// Values stay what they are, on the host too.
static kiln_status run_branch(struct onnx_call *c, const struct onnx_graph *g)
{
    struct onnx_frame f;
    if (g->n_in || g->n_out != c->n_out)
        return onnx_bad(c, KILN_E_FORMAT, "a branch has %d inputs and %d outputs", g->n_in, g->n_out);
    TRY(onnx_frame_init(c->run, &f, g, c->frame));
    kiln_status status = onnx_run_graph(c->run, &f);
    for (int i = 0; i < c->n_out && !status; i++)
        if (onnx_wants(c, i)) status = onnx_value_copy(&c->out[i], onnx_value_at(&f, g->results[i]));
    onnx_frame_finish(&f);
    return status;
}

kiln_status onnx_op_if(struct onnx_call *c)
{
    struct onnx_region r = {.c = c};
    struct onnx_graph *then_graph, *else_graph;
    struct onnx_host h;
    kiln_tensor **out;
    TRY(onnx_check_counts(c, 1, 1, c->n_out));
    TRY(onnx_graph_attr(c, "then_branch", &then_graph));
    TRY(onnx_graph_attr(c, "else_branch", &else_graph));
    TRY(onnx_in_type(c, 0, &h));
    if (h.numel != 1 || h.dtype != KILN_BOOL)
        return onnx_bad(c, KILN_E_SHAPE, "its condition is %lld of %s", (long long)h.numel, dtype_info[h.dtype].name);
    if (onnx_is_host(c->in[0])) return run_branch(c, onnx_host_int(&h, 0) ? then_graph : else_graph);
    r.graphs[0] = then_graph;
    r.graphs[1] = else_graph;
    kiln_tensor *condition = onnx_in(c, 0);
    NEED(condition);
    TRY(make_list(c, (size_t)c->n_out, &out));
    TRY(kiln_cond(kiln_reshape(condition, 0, NULL), then_region, else_region, &r, NULL, 0, out, (size_t)c->n_out));
    return give_list(c, 0, out, (size_t)c->n_out);
}

// --- Loop. The body gets the trip's number, the condition, what is carried; it gives the condition, what is carried,
// and what is stacked.

struct onnx_loop {
    struct onnx_region r;
    size_t carried, stacked;
    bool always;         // the condition is true from the first trip to the last
    bool limited, known; // the number of trips is, and by the host
    int64_t trips;
    kiln_tensor **in; // what is carried at first
};

// Whether the body's condition is the one that it was given, or true.
static bool stays_true(const struct onnx_graph *g)
{
    struct onnx_ref at = g->results[0];
    for (int32_t i = g->n_nodes - 1; i >= 0 && at.depth == 0; i--) {
        const struct onnx_node *n = &g->nodes[i];
        if (n->n_out != 1 || n->out[0] != at.slot) continue;
        if (!strcmp(n->op, "Constant") && n->n_attrs == 1 && n->attrs[0].tensor && n->attrs[0].tensor->host.data)
            return n->attrs[0].tensor->host.numel == 1 && onnx_host_int(&n->attrs[0].tensor->host, 0);
        if (strcmp(n->op, "Identity") != 0 || n->n_in != 1) return false;
        at = n->in[0];
    }
    if (at.depth != 0) return false;
    for (int32_t i = 0; i < g->n_constants; i++)
        if (g->constant_slots[i] == at.slot)
            return g->constants[i].host.data && g->constants[i].host.numel == 1 &&
                   onnx_host_int(&g->constants[i].host, 0);
    return g->n_in > 1 && g->in_slots[1] == at.slot;
}

static kiln_tensor *one_bool(struct onnx_call *c, bool v)
{
    return kiln_full_int(c->dev, KILN_BOOL, KILN_SHAPE0, v);
}

static kiln_tensor *number_of_trip(struct onnx_call *c, kiln_tensor *trip)
{
    // A number that a loop gives has no dtype of its own yet.
    return kiln_reshape(kiln_add(kiln_full_int(c->dev, KILN_I64, KILN_SHAPE0, 0), trip), KILN_SHAPE0);
}

// in: the trip's number, then what is carried. out: without the condition.
static kiln_status counted_body(struct onnx_loop *l, kiln_tensor *trip, kiln_tensor *const *carried, kiln_tensor **out,
                                kiln_tensor **condition)
{
    struct onnx_call *c = l->r.c;
    kiln_tensor **all, **results;
    size_t n_out = 1 + l->carried + l->stacked;
    TRY(make_list(c, 2 + l->carried, &all));
    TRY(make_list(c, n_out, &results));
    all[0] = number_of_trip(c, trip);
    all[1] = one_bool(c, true);
    NEED(all[0] && all[1]);
    for (size_t i = 0; i < l->carried; i++) all[2 + i] = carried[i];
    TRY(run_region(&l->r, l->r.graphs[0], all, 2 + l->carried, results, n_out));
    for (size_t i = 1; i < n_out; i++) out[i - 1] = results[i];
    if (condition) *condition = kiln_reshape(results[0], KILN_SHAPE0);
    return error_pending;
}

static kiln_status for_body(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return counted_body(user, in[0], in + 1, out, NULL);
}

// Carried first, then the trip's number as what is scanned.
static kiln_status scan_body(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return counted_body(user, in[n_in - 1], in, out, NULL);
}

static kiln_status while_condition(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct onnx_loop *l = user;
    out[0] = l->r.limit ? kiln_logical_and(in[1], kiln_less(in[0], l->r.limit)) : kiln_alias(in[1]);
    return kiln_error();
}

static kiln_status while_body(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    TRY(counted_body(user, in[0], in + 2, out + 2, &out[1]));
    out[0] = kiln_add(in[0], kiln_scalar_int(1));
    return kiln_error();
}

static kiln_status run_counted(struct onnx_loop *l, kiln_tensor **out)
{
    struct onnx_call *c = l->r.c;
    size_t n_out = l->carried + l->stacked;
    if (!l->stacked)
        return kiln_for(l->known ? kiln_scalar_int(l->trips) : l->r.limit, for_body, l, l->in, l->carried, NULL, out,
                        n_out);
    l->in[l->carried] = kiln_arange(c->dev, KILN_I64, 0, (double)l->trips, 1);
    NEED(l->in[l->carried]);
    return kiln_scan(scan_body, l, l->in, l->carried + 1, KILN_SCAN(.carried = l->carried), out, n_out);
}

static kiln_status run_while(struct onnx_loop *l, kiln_tensor *condition, kiln_tensor **out)
{
    struct onnx_call *c = l->r.c;
    kiln_tensor **in, **all;
    TRY(make_list(c, 2 + l->carried, &in));
    TRY(make_list(c, 2 + l->carried, &all));
    in[0] = kiln_full_int(c->dev, KILN_I64, KILN_SHAPE0, 0);
    in[1] = condition ? kiln_reshape(condition, KILN_SHAPE0) : one_bool(c, true);
    NEED(in[0] && in[1]);
    for (size_t i = 0; i < l->carried; i++) in[2 + i] = l->in[i];
    TRY(kiln_while(while_condition, while_body, l, in, 2 + l->carried, NULL, all, 2 + l->carried));
    for (size_t i = 0; i < l->carried; i++) out[i] = all[2 + i];
    return KILN_OK;
}

static kiln_status read_loop(struct onnx_call *c, struct onnx_loop *l, kiln_tensor **condition)
{
    struct onnx_graph *body;
    struct onnx_host h;
    l->r.c = c;
    TRY(onnx_graph_attr(c, "body", &body));
    l->r.graphs[0] = body;
    l->carried = c->n_in > 2 ? (size_t)c->n_in - 2 : 0;
    if (body->n_in != (int32_t)l->carried + 2 || body->n_out < (int32_t)l->carried + 1 || c->n_out > body->n_out - 1)
        return onnx_bad(c, KILN_E_FORMAT, "carries %zu values through a graph of %d inputs and %d outputs", l->carried,
                        body->n_in, body->n_out);
    l->stacked = (size_t)body->n_out - 1 - l->carried;
    bool starts = !onnx_has(c, 1), host = !starts && onnx_is_host(c->in[1]);
    if (host) TRY(onnx_in_host(c, 1, &h));
    if (host && h.numel != 1) return onnx_bad(c, KILN_E_SHAPE, "its condition has %lld elements", (long long)h.numel);
    bool never = host && !onnx_host_int(&h, 0);
    l->always = (starts || host) && stays_true(body);
    l->limited = never || onnx_has(c, 0);
    l->known = never || (onnx_has(c, 0) && onnx_is_host(c->in[0]));
    if (l->known && !never) TRY(onnx_in_int(c, 0, &l->trips));
    if (never) l->always = true;
    if (!never && onnx_has(c, 0)) NEED(l->r.limit = kiln_reshape(onnx_in(c, 0), KILN_SHAPE0));
    if (!starts) NEED(*condition = onnx_in(c, 1));
    TRY(make_list(c, l->carried + 1, &l->in));
    for (size_t i = 0; i < l->carried; i++) NEED(l->in[i] = onnx_in(c, (int)i + 2));
    return KILN_OK;
}

kiln_status onnx_op_loop(struct onnx_call *c)
{
    struct onnx_loop l = {.carried = 0};
    kiln_tensor *condition = NULL, **out;
    TRY(read_loop(c, &l, &condition));
    bool counted = l.always && l.limited;
    // How many rows are stacked has to be known.
    if (l.stacked && counted && !l.known) {
        TRY(onnx_in_int(c, 0, &l.trips));
        l.known = true;
    }
    if (l.stacked && !counted) return onnx_bad(c, KILN_E_UNSUPPORTED, "stacks rows whose number a condition decides");
    if (l.known && l.trips < 0) l.trips = 0;
    TRY(make_list(c, l.carried + l.stacked, &out));
    TRY(counted ? run_counted(&l, out) : run_while(&l, condition, out));
    return give_list(c, 0, out, l.carried + l.stacked);
}

// --- Scan

static kiln_status scan_step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct onnx_region *r = user;
    return run_region(r, r->graphs[0], in, n_in, out, n_out);
}

static kiln_tensor *move_axis(kiln_tensor *x, int64_t from, int64_t to)
{
    int64_t order[KILN_MAX_RANK], rank = (int64_t)kiln_rank(x), n = 0;
    for (int64_t i = 0; i < rank; i++)
        if (i != from) order[n++] = i;
    memmove(order + to + 1, order + to, (size_t)(rank - 1 - to) * sizeof *order);
    order[to] = from;
    return kiln_permute(x, (kiln_ints){(size_t)rank, order});
}

struct scan_list {
    kiln_ints axes, directions;
};

static kiln_status read_list(struct onnx_call *c, const char *axes, const char *directions, size_t n,
                             struct scan_list *s)
{
    TRY(onnx_ints(c, axes, &s->axes));
    TRY(onnx_ints(c, directions, &s->directions));
    if ((!s->axes.v || s->axes.count == n) && (!s->directions.v || s->directions.count == n)) return KILN_OK;
    return onnx_bad(c, KILN_E_FORMAT, "%s or %s has another number than %zu entries", axes, directions, n);
}

// The axis that is gone through comes first, in the direction of the loop; or goes back.
static kiln_status turn(struct onnx_call *c, const struct scan_list *s, size_t i, bool back, kiln_tensor **t)
{
    int64_t axis = s->axes.v ? s->axes.v[i] : 0, first = 0;
    NEED(*t);
    TRY(onnx_axis(c, axis, kiln_rank(*t), &axis));
    if (axis && !back) *t = move_axis(*t, axis, 0);
    if (s->directions.v && s->directions.v[i]) *t = kiln_flip(*t, (kiln_ints){1, &first});
    if (axis && back) *t = move_axis(*t, 0, axis);
    NEED(*t);
    return KILN_OK;
}

kiln_status onnx_op_scan(struct onnx_call *c)
{
    struct onnx_region r = {.c = c};
    struct onnx_graph *body;
    struct scan_list in_list, out_list;
    int64_t scanned;
    kiln_tensor **in, **out;
    TRY(onnx_graph_attr(c, "body", &body));
    TRY(onnx_int(c, "num_scan_inputs", 0, &scanned));
    if (scanned < 1 || scanned > c->n_in || body->n_in != c->n_in || body->n_out < c->n_in - scanned ||
        c->n_out > body->n_out)
        return onnx_bad(c, KILN_E_FORMAT, "%lld of %d inputs are scanned by a graph of %d inputs and %d outputs",
                        (long long)scanned, c->n_in, body->n_in, body->n_out);
    r.graphs[0] = body;
    size_t carried = (size_t)(c->n_in - scanned), n_out = (size_t)body->n_out;
    TRY(read_list(c, "scan_input_axes", "scan_input_directions", (size_t)scanned, &in_list));
    TRY(read_list(c, "scan_output_axes", "scan_output_directions", n_out - carried, &out_list));
    TRY(make_list(c, (size_t)c->n_in, &in));
    TRY(make_list(c, n_out, &out));
    for (size_t i = 0; i < (size_t)c->n_in; i++) {
        NEED(in[i] = onnx_in(c, (int)i));
        if (i >= carried) TRY(turn(c, &in_list, i - carried, false, &in[i]));
    }
    TRY(kiln_scan(scan_step, &r, in, (size_t)c->n_in, KILN_SCAN(.carried = carried), out, n_out));
    for (size_t i = carried; i < n_out; i++) TRY(turn(c, &out_list, i - carried, true, &out[i]));
    return give_list(c, 0, out, n_out);
}
