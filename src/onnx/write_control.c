// Conditions and loops. A region becomes a graph in an attribute, which sees the names around it: its parameters are
// the operands' names. What is carried through a loop has names of its own there.
#include "onnx/model.h"
#include "onnx/wire_out.h"
#include "onnx/write.h"
#include "ops/attrs.h"
#include <string.h>

enum { GRAPH_NAME = 2, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, ATTR_NAME = 1, ATTR_G = 6, ATTR_TYPE = 20 };

// A graph that is being written inside of the one around it.
struct inner {
    struct str nodes, ports; // the nodes around it; what it takes and gives
    size_t n_kept;
    int32_t node;
};

static void inner_begin(struct onnx_writer *w, struct inner *in)
{
    *in = (struct inner){.nodes = w->nodes, .n_kept = w->kept.n, .node = w->node};
    str_init(&w->nodes);
    str_init(&in->ports);
}

// As an attribute of the next node. Constants inside are not seen outside.
static void inner_end(struct onnx_writer *w, struct inner *in, const char *name)
{
    struct str attr;
    str_init(&attr);
    wire_put_text(&w->nodes, GRAPH_NAME, name);
    str_addn(&w->nodes, str_text(&in->ports), in->ports.len);
    wire_put_text(&attr, ATTR_NAME, name);
    wire_put_message(&attr, ATTR_G, &w->nodes);
    wire_put_number(&attr, ATTR_TYPE, ONNX_GRAPH);
    wire_put_message(&w->pending, 5, &attr);
    if (in->ports.failed) str_fail(&w->pending);
    str_free(&in->ports);
    w->nodes = in->nodes;
    w->kept.n = in->n_kept;
    w->node = in->node;
}

static kiln_status inner_gives(struct onnx_writer *w, struct inner *in, const char *value, const struct type *t)
{
    const char *name = PUT(w, "Identity", value);
    if (name) onnx_put_port(&in->ports, GRAPH_OUTPUT, name, t, NULL, NULL);
    return error_pending;
}

static const struct ir_region *region_of(const struct onnx_writer *w, const struct ir_node *n, int i)
{
    return &w->g->regions.v[n->first_region + i];
}

static int32_t result_of(const struct onnx_writer *w, const struct ir_region *r, int i)
{
    return w->g->operands.v[r->first_result + i];
}

static const struct type *type_of(const struct onnx_writer *w, int32_t value)
{
    return &w->g->values.v[value].type;
}

static const char *name_of(struct onnx_writer *w, int32_t value)
{
    const struct ir_value *v = &w->g->values.v[value];
    if (v->kind != IR_NUMBER) return w->names[value];
    bool is_float = dtype_kind_of[v->type.dtype] == KIND_FLOAT;
    return is_float ? onnx_put_scalar(w, v->type.dtype, v->number) : onnx_put_integer(w, v->type.dtype, v->integer);
}

static const char **names_of_operands(struct onnx_writer *w)
{
    int n = onnx_operands(w);
    const char **names = arena_alloc(&w->arena, sizeof *names * (size_t)(n + 1));
    for (int i = 0; names && i < n; i++)
        if (!(names[i] = onnx_operand_as_is(w, i))) return NULL;
    return names;
}

// --- conditions

static kiln_status put_branch(struct onnx_writer *w, const struct ir_node *n, int region, const char *const *operands,
                              const char *name)
{
    const struct ir_region *r = region_of(w, n, region);
    struct inner in;
    inner_begin(w, &in);
    for (int i = 0; i < r->n_params; i++) w->names[r->first_param + i] = operands[i];
    kiln_status status = onnx_write_region(w, n->first_region + region);
    for (int i = 0; i < r->n_results && !status; i++)
        status = inner_gives(w, &in, name_of(w, result_of(w, r, i)), type_of(w, result_of(w, r, i)));
    inner_end(w, &in, name);
    return status;
}

// All regions from one on: each the first branch of a node, and the rest the other.
static kiln_status put_choice(struct onnx_writer *w, const struct ir_node *n, int from, const char *const *operands,
                              const char **out)
{
    int at = onnx_operands(w) - 1;
    bool is_bool = onnx_type_in(w, at)->dtype == KILN_BOOL, last = from + 2 >= n->n_regions;
    const char *index = is_bool ? operands[at] : onnx_operand(w, at, KILN_I64);
    const char *condition = is_bool ? index : PUT(w, "Equal", index, onnx_put_integer(w, KILN_I64, from));
    TRY(put_branch(w, n, from, operands, "then_branch"));
    struct str then = w->pending;
    str_init(&w->pending);
    if (last)
        TRY(put_branch(w, n, from + 1 < n->n_regions ? from + 1 : from, operands, "else_branch"));
    else {
        struct inner in;
        inner_begin(w, &in);
        kiln_status status = put_choice(w, n, from + 1, operands, out);
        for (int i = 0; i < n->n_out && !status; i++) status = inner_gives(w, &in, out[i], onnx_type_out(w, i));
        inner_end(w, &in, "else_branch");
        TRY(status);
    }
    str_addn(&w->pending, str_text(&then), then.len);
    if (then.failed) str_fail(&w->pending);
    str_free(&then);
    return onnx_put_all(w, "If", 1, &condition, (size_t)n->n_out, out);
}

void onnx_write_switch(struct onnx_writer *w)
{
    const struct ir_node *n = onnx_node_of(w);
    const char **operands = names_of_operands(w), **out = arena_alloc(&w->arena, sizeof *out * (size_t)(n->n_out + 1));
    if (!operands || !out || put_choice(w, n, 0, operands, out)) return;
    for (int i = 0; i < n->n_out; i++) onnx_gives(w, i, out[i], onnx_type_out(w, i)->dtype);
}

// --- loops

struct written_loop {
    const struct ir_node *n;
    const struct ir_region *body, *cond; // NULL: as many trips as are known before
    int n_carried, n_scanned, n_taken;
    int64_t trips;
    bool reverse;
    const char **operands;
};

// The row of a trip.
static const char *put_place(struct onnx_writer *w, const struct written_loop *l, const char *trip)
{
    return l->reverse ? PUT(w, "Sub", onnx_put_integer(w, KILN_I64, l->trips - 1), trip) : trip;
}

static void bind(struct onnx_writer *w, const struct ir_region *r, const struct written_loop *l,
                 const char *const *carried, const char *trip)
{
    const char *place = l->n_scanned ? put_place(w, l, trip) : trip;
    for (int i = 0; i < l->n_taken; i++) {
        bool row = i >= l->n_carried && i < l->n_carried + l->n_scanned;
        if (row) onnx_put_int(w, "axis", 0);
        w->names[r->first_param + i] = i < l->n_carried ? carried[i]
                                       : row            ? PUT(w, "Gather", l->operands[i], place)
                                                        : l->operands[i];
    }
    w->names[r->first_param + l->n_taken] = trip;
}

// Whether there is another trip; `was`: whether there was this one.
static const char *put_goes_on(struct onnx_writer *w, const struct written_loop *l, const char *const *carried,
                               const char *trip, const char *was)
{
    if (!l->cond) return was;
    bind(w, l->cond, l, carried, trip);
    return onnx_write_region(w, l->n->first_region + 1) ? NULL : name_of(w, result_of(w, l->cond, 0));
}

// A name for what the body is given.
static const char *put_param(struct onnx_writer *w, struct inner *in, const char *kind, const struct type *t)
{
    const char *name = onnx_new_name(w, kind);
    if (name) onnx_put_port(&in->ports, GRAPH_INPUT, name, t, NULL, NULL);
    return name;
}

static kiln_status put_body(struct onnx_writer *w, struct written_loop *l, struct inner *in)
{
    const struct type number = {.dtype = KILN_I64}, truth = {.dtype = KILN_BOOL};
    const char **carried = arena_alloc(&w->arena, sizeof *carried * (size_t)(l->n_carried + 1));
    const char *trip = put_param(w, in, "trip", &number), *goes_on = put_param(w, in, "go", &truth);
    if (!carried || !trip || !goes_on) return error_pending;
    for (int i = 0; i < l->n_carried; i++)
        if (!(carried[i] = put_param(w, in, "carried", type_of(w, l->body->first_param + i)))) return error_pending;
    bind(w, l->body, l, carried, trip);
    TRY(onnx_write_region(w, l->n->first_region));
    const char **left = arena_alloc(&w->arena, sizeof *left * (size_t)(l->body->n_results + 1));
    for (int i = 0; left && i < l->body->n_results; i++) left[i] = name_of(w, result_of(w, l->body, i));
    if (!left) return error_pending;
    const char *next = PUT(w, "Add", trip, onnx_put_integer(w, KILN_I64, 1));
    TRY(inner_gives(w, in, put_goes_on(w, l, left, next, goes_on), &truth));
    for (int i = 0; i < l->body->n_results; i++) TRY(inner_gives(w, in, left[i], type_of(w, result_of(w, l->body, i))));
    return error_pending;
}

// Rows in the other order.
static const char *put_turned(struct onnx_writer *w, const char *x)
{
    const char *first = onnx_put_ints(w, 1, (const int64_t[]){-1}),
               *last = onnx_put_ints(w, 1, (const int64_t[]){INT64_MIN});
    return PUT(w, "Slice", x, first, last, onnx_put_ints(w, 1, (const int64_t[]){0}), first);
}

static void put_loop(struct onnx_writer *w, struct written_loop *l)
{
    const struct ir_node *n = l->n;
    const char **in = arena_alloc(&w->arena, sizeof *in * (size_t)(l->n_carried + 2));
    const char **out = arena_alloc(&w->arena, sizeof *out * (size_t)(n->n_out + 1));
    bool counted = onnx_attr_of(w, AT_loop_counted) != 0;
    if (!in || !out) return;
    in[0] = counted         ? onnx_operand(w, l->n_taken, KILN_I64)
            : l->trips >= 0 ? onnx_put_integer(w, KILN_I64, l->trips)
                            : "";
    in[1] = put_goes_on(w, l, l->operands, onnx_put_integer(w, KILN_I64, 0), onnx_put_integer(w, KILN_BOOL, 1));
    for (int i = 0; i < l->n_carried; i++) in[2 + i] = l->operands[i];
    struct inner inner;
    inner_begin(w, &inner);
    kiln_status status = put_body(w, l, &inner);
    inner_end(w, &inner, "body");
    if (status || onnx_put_all(w, "Loop", (size_t)l->n_carried + 2, in, (size_t)n->n_out, out)) return;
    for (int i = 0; i < n->n_out; i++) {
        bool turned = i >= l->n_carried && l->reverse;
        onnx_gives(w, i, turned ? put_turned(w, out[i]) : out[i], onnx_type_out(w, i)->dtype);
    }
}

// In another direction the number of a trip might be that of its row.
static bool asks_number(const struct onnx_writer *w, const struct written_loop *l)
{
    int32_t number = l->body->first_param + l->n_taken;
    for (size_t i = 0; i < w->g->operands.n; i++)
        if (w->g->operands.v[i] == number) return true;
    return false;
}

void onnx_write_loop(struct onnx_writer *w)
{
    const struct ir_node *n = onnx_node_of(w);
    struct written_loop l = {.n = n,
                             .body = region_of(w, n, 0),
                             .cond = n->n_regions > 1 ? region_of(w, n, 1) : NULL,
                             .n_carried = (int)onnx_attr_of(w, AT_loop_carried),
                             .n_scanned = (int)onnx_attr_of(w, AT_loop_scanned),
                             .n_taken = onnx_operands(w) - (onnx_attr_of(w, AT_loop_counted) != 0),
                             .trips = onnx_attr_of(w, AT_loop_trips),
                             .reverse = onnx_attr_of(w, AT_loop_reverse) != 0};
    bool has_rows = l.n_scanned || l.body->n_results > l.n_carried;
    if (l.reverse && (l.trips < 0 || l.cond || asks_number(w, &l)))
        onnx_cannot(w, "a loop that goes backwards, and asks for the number of the trip");
    else if (has_rows && (l.trips < 0 || l.cond))
        onnx_cannot(w, "rows of a loop whose number of trips is not known");
    else if ((l.operands = names_of_operands(w)))
        put_loop(w, &l);
}
