// What of the host a capture has frozen, found by capturing again: a number or a size that was read from a struct, a
// branch that another counter takes, data of a table, a parameter in the place of another.
//
// Two captures are compared in the order in which a function makes them: nodes with their numbers and attributes, data
// of constants, sources, results. The first difference is told with the line of the op; what comes after it may follow
// from it.
#include "jit/capture/difference.h"
#include "base/caller.h"
#include <stdlib.h>
#include <string.h>

struct comparison {
    const struct captured *was, *is;
    struct str *why;
};

static void add_place(struct str *s, const struct ir_node *n)
{
    char place[CALLER_TEXT_MAX];
    str_add(s, n->op->name);
    if (caller_describe(n->caller, place, sizeof place)) str_addf(s, " at %s", place);
}

static void add_number(struct str *s, const struct ir_value *v)
{
    if (v->type.dtype == KILN_BOOL)
        str_add(s, v->integer ? "true" : "false");
    else if (dtype_kind_of[v->type.dtype] == KIND_FLOAT)
        str_addf(s, "%.9g", v->number);
    else
        str_addf(s, "%lld", (long long)v->integer);
}

static void add_attr(struct str *s, const struct attr *a)
{
    if (a->kind == ATTR_FLOAT)
        str_addf(s, "%.9g", a->f);
    else if (a->kind != ATTR_INTS)
        str_addf(s, "%lld", (long long)a->i);
    else {
        for (int i = 0; i < a->count; i++) str_addf(s, "%s%lld", i ? "," : "[", (long long)a->v[i]);
        str_add(s, a->count ? "]" : "[]");
    }
}

static bool same_bits(double a, double b)
{
    return !memcmp(&a, &b, sizeof a);
}

static bool same_attr(const struct attr *a, const struct attr *b)
{
    if (a->kind != b->kind || a->set != b->set) return false;
    if (a->kind == ATTR_FLOAT) return same_bits(a->f, b->f);
    if (a->kind != ATTR_INTS) return a->i == b->i;
    return a->count == b->count && !memcmp(a->v, b->v, sizeof *a->v * a->count);
}

// --- nodes ---

static bool number_differs(const struct comparison *c, const struct ir_node *was, const struct ir_node *is)
{
    for (int k = 0; k < is->n_in && k < was->n_in; k++) {
        int32_t a = ir_operands(c->was->graph, was)[k], b = ir_operands(c->is->graph, is)[k];
        const struct ir_value *x = a < 0 ? NULL : &c->was->graph->values.v[a];
        const struct ir_value *y = b < 0 ? NULL : &c->is->graph->values.v[b];
        if (!x || !y || x->kind != IR_NUMBER || y->kind != IR_NUMBER) continue;
        if (type_equal(&x->type, &y->type) && same_bits(x->number, y->number) && x->integer == y->integer) continue;
        add_place(c->why, is);
        str_add(c->why, " takes the number ");
        add_number(c->why, y);
        str_add(c->why, ", which was ");
        add_number(c->why, x);
        return true;
    }
    return false;
}

static bool attr_differs(const struct comparison *c, const struct ir_node *was, const struct ir_node *is)
{
    for (int i = 0; i < is->op->n_attrs; i++) {
        if (same_attr(&was->attrs[i], &is->attrs[i])) continue;
        add_place(c->why, is);
        str_addf(c->why, " has %s ", is->op->attrs[i].name);
        add_attr(c->why, &is->attrs[i]);
        str_add(c->why, ", which was ");
        add_attr(c->why, &was->attrs[i]);
        return true;
    }
    return false;
}

static bool type_differs(const struct comparison *c, const struct ir_node *was, const struct ir_node *is)
{
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    for (int i = 0; i < is->n_out && i < was->n_out; i++) {
        const struct type *x = &c->was->graph->values.v[was->first_out + i].type,
                          *y = &c->is->graph->values.v[is->first_out + i].type;
        if (type_equal(x, y)) continue;
        add_place(c->why, is);
        str_addf(c->why, " gives %s, it gave %s", type_text(y, a, sizeof a), type_text(x, b, sizeof b));
        return true;
    }
    return false;
}

static bool operand_differs(const struct comparison *c, const struct ir_node *was, const struct ir_node *is)
{
    bool same = was->n_in == is->n_in && was->region == is->region && was->n_regions == is->n_regions;
    for (int k = 0; k < is->n_in && same; k++)
        same = ir_operands(c->was->graph, was)[k] == ir_operands(c->is->graph, is)[k];
    if (same) return false;
    add_place(c->why, is);
    str_add(c->why, " takes other values than before");
    return true;
}

static bool node_differs(const struct comparison *c, const struct ir_node *was, const struct ir_node *is)
{
    if (was->op == is->op)
        return number_differs(c, was, is) || attr_differs(c, was, is) || type_differs(c, was, is) ||
               operand_differs(c, was, is);
    add_place(c->why, is);
    str_add(c->why, " stands where ");
    add_place(c->why, was);
    str_add(c->why, " was");
    return true;
}

static void nodes_differ(const struct comparison *c)
{
    const struct kiln_graph *was = c->was->graph, *is = c->is->graph;
    size_t n = was->nodes.n < is->nodes.n ? was->nodes.n : is->nodes.n, i = 0;
    while (i < n && !node_differs(c, &was->nodes.v[i], &is->nodes.v[i])) i++;
    if (i == n && was->nodes.n != is->nodes.n) {
        bool more = is->nodes.n > n;
        add_place(c->why, more ? &is->nodes.v[n] : &was->nodes.v[n]);
        str_add(c->why, more ? " is new" : " is gone");
    } else if (i == n)
        str_add(c->why, "other values are given back");
    if (was->nodes.n != is->nodes.n) str_addf(c->why, " (%zu ops, there were %zu)", is->nodes.n, was->nodes.n);
}

// --- constants ---

static const struct ir_node *reader_of(const struct kiln_graph *g, size_t value)
{
    for (size_t i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i].n_in; k++)
            if (ir_operands(g, &g->nodes.v[i])[k] == (int32_t)value) return &g->nodes.v[i];
    return NULL;
}

static bool is_written(const struct kiln_graph *g, size_t value)
{
    for (size_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].target == (int32_t)value) return true;
    return false;
}

static kiln_status compare_data(const struct comparison *c, size_t value)
{
    const struct kiln_graph *g = c->is->graph;
    const kiln_tensor *was = c->was->graph->values.v[value].held, *is = g->values.v[value].held;
    if (!was || !is || was->storage == is->storage || is_written(g, value)) return KILN_OK;
    size_t n = (size_t)type_numel(&is->type), size = dtype_size_B[is->type.dtype], i = 0;
    char *room = malloc(2 * n * size + 1), text[TYPE_TEXT_MAX];
    if (!room) return error_set(KILN_E_MEMORY, "call: out of memory");
    kiln_status status = tensor_read(was, room);
    if (!status) status = tensor_read(is, room + n * size);
    while (!status && i < n && !memcmp(room + i * size, room + (n + i) * size, size)) i++;
    free(room);
    if (status || i == n) return status;
    const struct ir_node *reader = reader_of(g, value);
    str_addf(c->why, "element %zu of the %s of host data", i, type_text(&is->type, text, sizeof text));
    if (reader) str_add(c->why, " that ");
    if (reader) add_place(c->why, reader);
    str_addf(c->why, "%s has changed", reader ? " takes" : "");
    return KILN_OK;
}

static kiln_status compare_constants(const struct comparison *c)
{
    const struct kiln_graph *was = c->was->graph, *is = c->is->graph;
    for (size_t i = 0; i < is->values.n && i < was->values.n && !c->why->len; i++)
        if (is->values.v[i].kind == IR_CONSTANT && was->values.v[i].kind == IR_CONSTANT) TRY(compare_data(c, i));
    return KILN_OK;
}

// --- sources and results ---

static bool is_input(const struct source *s)
{
    return s->kind == SOURCE_INPUT || s->kind == SOURCE_NUMBER || s->kind == SOURCE_SPAN;
}

static const char *name_of(const struct source *s)
{
    if (s->kind == SOURCE_HOST) return "a number of kiln_host_number";
    if (s->leaf && s->leaf->leaf->name) return s->leaf->leaf->name;
    return is_input(s) ? "an input" : "a state";
}

static void compare_sources(const struct comparison *c)
{
    for (size_t i = 0; i < c->is->n_sources && i < c->was->n_sources; i++) {
        const struct source *a = &c->was->sources[i], *b = &c->is->sources[i];
        bool same = a->kind == b->kind && a->input == b->input;
        if (same && !is_input(a))
            same = a->leaf == b->leaf && a->storage == b->storage && a->number == b->number && a->user == b->user;
        if (same) continue;
        str_addf(c->why, "%s is read where %s was", name_of(b), a->kind == b->kind ? "another one" : name_of(a));
        return;
    }
}

// Where it lies in what it shows: an input may lie elsewhere at each call.
static int64_t offset_in(const struct captured *c, const struct result *r)
{
    const struct source *s = r->kind == RESULT_SOURCE ? &c->sources[r->index] : NULL;
    return s && is_input(s) ? r->layout.offset - s->layout.offset + s->shift : r->layout.offset;
}

static bool same_result(const struct comparison *c, size_t i)
{
    const struct result *a = &c->was->results[i], *b = &c->is->results[i];
    if (a->kind != b->kind || a->index != b->index || !type_equal(&a->type, &b->type)) return false;
    if (a->kind == RESULT_NUMBER) return same_bits(a->number, b->number) && a->integer == b->integer;
    bool laid_out = a->kind == RESULT_SOURCE || a->part;
    for (int d = 0; d < a->type.rank && laid_out; d++)
        if (a->layout.strides[d] != b->layout.strides[d]) return false;
    return !laid_out || offset_in(c->was, a) == offset_in(c->is, b);
}

static void compare_results(const struct comparison *c)
{
    for (size_t i = 0; i < c->is->n_results; i++) {
        if (same_result(c, i)) continue;
        str_addf(c->why, "output %zu is another value", i);
        return;
    }
}

kiln_status captured_difference(const struct captured *was, const struct captured *is, struct str *why)
{
    struct comparison c = {was, is, why};
    if (!ir_graph_equal(was->graph, is->graph)) {
        TRY(error_pending);
        nodes_differ(&c);
        return str_check(why);
    }
    TRY(compare_constants(&c));
    if (!why->len) compare_sources(&c);
    if (!why->len) compare_results(&c);
    return str_check(why);
}
