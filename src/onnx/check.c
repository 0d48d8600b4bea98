// Names become places. In each graph every value has one maker, and is made before it is used: so there are no cycles.
// What a graph uses and does not make belongs to a graph around it, made there before the node that has the graph.
//
// Names are sorted, not hashed: a file that was made to be slow gains nothing.
#include "onnx/model.h"
#include <stdlib.h>
#include <string.h>

struct maker {
    const char *name;
    int32_t node; // that makes it; -1: an input or initialiser
    int32_t slot;
};

struct scope {
    struct scope *outer;
    struct onnx_graph *graph;
    struct maker *makers; // sorted by name
    size_t n_makers;
    int32_t node; // that is looked at
};

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct maker *)a)->name, ((const struct maker *)b)->name);
}

static struct maker *find(const struct scope *s, const char *name)
{
    struct maker key = {.name = name};
    return s->n_makers ? bsearch(&key, s->makers, s->n_makers, sizeof key, compare) : NULL;
}

static const char *graph_text(const struct onnx_graph *g)
{
    return *g->name ? g->name : "?";
}

static kiln_status bad_node(const struct onnx_model *m, const struct onnx_graph *g, const struct onnx_node *n,
                            const char *what, const char *name)
{
    return error_set(KILN_E_FORMAT, "%s: graph \"%.60s\": node %d \"%.60s\" (%.40s) %s \"%.80s\"", m->where,
                     graph_text(g), n->index, n->name, n->op, what, name);
}

static void add_maker(struct scope *s, const char *name, int32_t node, int32_t slot)
{
    s->makers[s->n_makers++] = (struct maker){name, node, slot};
}

static kiln_status check_makers(const struct onnx_model *m, struct scope *s)
{
    const struct onnx_graph *g = s->graph;
    if (s->n_makers) qsort(s->makers, s->n_makers, sizeof *s->makers, compare);
    for (size_t i = 0; i < s->n_makers; i++) {
        const char *name = s->makers[i].name;
        if (i && !strcmp(name, s->makers[i - 1].name))
            return error_set(KILN_E_FORMAT, "%s: graph \"%.60s\": two values are named \"%.80s\"", m->where,
                             graph_text(g), name);
        for (const struct scope *o = s->outer; o; o = o->outer) {
            const struct maker *there = find(o, name);
            if (there && there->node < o->node)
                return error_set(KILN_E_FORMAT,
                                 "%s: graph \"%.60s\": \"%.80s\" is the name of a value of the graph around it, too",
                                 m->where, graph_text(g), name);
        }
    }
    return KILN_OK;
}

// An initialiser under the name of an input is its default: the input is dropped.
static kiln_status list_inputs(struct onnx_model *m, struct scope *s)
{
    struct onnx_graph *g = s->graph;
    struct scope constants = *s;
    if (constants.n_makers) qsort(constants.makers, constants.n_makers, sizeof *s->makers, compare);
    int32_t kept = 0;
    size_t n = s->n_makers;
    for (int32_t i = 0; i < g->n_in; i++) {
        if (find(&constants, g->in[i].name)) continue;
        g->in[kept] = g->in[i];
        g->in_slots[kept++] = g->n_slots;
        s->makers[n++] = (struct maker){g->in[i].name, -1, g->n_slots++};
    }
    g->n_in = kept;
    s->n_makers = n;
    return KILN_OK;
}

static kiln_status list_makers(struct onnx_model *m, struct scope *s)
{
    struct onnx_graph *g = s->graph;
    size_t n = (size_t)g->n_constants + (size_t)g->n_in;
    for (int32_t i = 0; i < g->n_nodes; i++) n += (size_t)g->nodes[i].n_out;
    if (n > INT32_MAX / 2)
        return error_set(KILN_E_UNSUPPORTED, "%s: has more than a thousand million values", m->where);
    s->makers = malloc((n + 1) * sizeof *s->makers);
    if (!s->makers) return error_set(KILN_E_MEMORY, "%s: out of memory", m->where);
    TRY(onnx_take(m, (size_t)g->n_constants, sizeof *g->constant_slots, &g->constant_slots));
    TRY(onnx_take(m, (size_t)g->n_in, sizeof *g->in_slots, &g->in_slots));
    for (int32_t i = 0; i < g->n_constants; i++) {
        g->constant_slots[i] = g->n_slots;
        add_maker(s, g->constants[i].name, -1, g->n_slots++);
    }
    TRY(list_inputs(m, s));
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct onnx_node *node = &g->nodes[i];
        for (int32_t k = 0; k < node->n_out; k++) {
            node->out[k] = *node->out_names[k] ? g->n_slots : -1;
            if (*node->out_names[k]) add_maker(s, node->out_names[k], i, g->n_slots++);
        }
    }
    return check_makers(m, s);
}

// The value of a name, seen from the node that is looked at. Marks that it is wanted until then.
static bool resolve(struct scope *s, const char *name, struct onnx_ref *out, bool *late)
{
    int16_t depth = 0;
    *late = false;
    for (; s; s = s->outer, depth++) {
        const struct maker *found = find(s, name);
        if (!found) continue;
        *late = found->node >= s->node;
        *out = (struct onnx_ref){depth, found->slot};
        if (s->graph->last_use[found->slot] < s->node) s->graph->last_use[found->slot] = s->node;
        return !*late;
    }
    return false;
}

static kiln_status check_graph(struct onnx_model *m, struct onnx_graph *g, struct scope *outer);

static kiln_status check_node(struct onnx_model *m, struct scope *s, struct onnx_node *n)
{
    bool late;
    if (!*n->op) return bad_node(m, s->graph, n, "names no op, its output is", n->n_out ? n->out_names[0] : "");
    for (int32_t i = 0; i < n->n_in; i++) {
        n->in[i] = (struct onnx_ref){-1, 0};
        if (*n->in_names[i] && !resolve(s, n->in_names[i], &n->in[i], &late))
            return bad_node(m, s->graph, n,
                            late ? "uses before it is made (a cycle, or the wrong order)" : "uses what nothing makes:",
                            n->in_names[i]);
    }
    for (int32_t i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].graph && n->attrs[i].type == ONNX_GRAPH) TRY(check_graph(m, n->attrs[i].graph, s));
    return KILN_OK;
}

static kiln_status check_results(struct onnx_model *m, struct scope *s)
{
    struct onnx_graph *g = s->graph;
    bool late;
    s->node = g->n_nodes;
    TRY(onnx_take(m, (size_t)g->n_out, sizeof *g->results, &g->results));
    for (int32_t i = 0; i < g->n_out; i++)
        if (!resolve(s, g->out[i].name, &g->results[i], &late))
            return error_set(KILN_E_FORMAT, "%s: graph \"%.60s\": nothing makes its output \"%.80s\"", m->where,
                             graph_text(g), g->out[i].name);
    return KILN_OK;
}

static kiln_status check_inside(struct onnx_model *m, struct scope *s)
{
    struct onnx_graph *g = s->graph;
    TRY(list_makers(m, s));
    TRY(onnx_take(m, (size_t)g->n_slots, sizeof *g->last_use, &g->last_use));
    for (int32_t i = 0; i < g->n_slots; i++) g->last_use[i] = -1;
    for (s->node = 0; s->node < g->n_nodes; s->node++) TRY(check_node(m, s, &g->nodes[s->node]));
    return check_results(m, s);
}

static kiln_status check_graph(struct onnx_model *m, struct onnx_graph *g, struct scope *outer)
{
    struct scope s = {.outer = outer, .graph = g};
    if (outer) {
        g->outer = outer->graph;
        g->outer_node = outer->node;
        g->depth = outer->graph->depth + 1;
        g->opset = outer->graph->opset;
    }
    kiln_status status = check_inside(m, &s);
    free(s.makers);
    return status;
}

// --- functions

static struct onnx_function *find_function(struct onnx_model *m, const struct onnx_node *n)
{
    for (int32_t i = 0; i < m->n_functions; i++) {
        struct onnx_function *f = &m->functions[i];
        if (!strcmp(f->name, n->op) && !strcmp(f->domain, n->domain) && !strcmp(f->overload, n->overload)) return f;
    }
    return NULL;
}

static kiln_status link_calls(struct onnx_model *m, struct onnx_graph *g, int64_t *size);

enum { NEW, OPEN, DONE };

// Functions that call functions twice each would make of few nodes more than anybody waits for.
enum { NODES_MAX = 1 << 22 };

static kiln_status link_call(struct onnx_model *m, const struct onnx_graph *g, const struct onnx_node *n)
{
    struct onnx_function *f = n->function;
    if (n->n_in > f->body.n_in || n->n_out > f->body.n_out)
        return bad_node(m, g, n, "has more inputs or outputs than the function", f->name);
    if (f->state == OPEN) return bad_node(m, g, n, "is a call of a function inside of itself,", f->name);
    if (f->state == DONE) return KILN_OK;
    f->state = OPEN;
    TRY(link_calls(m, &f->body, &f->size));
    f->state = DONE;
    return KILN_OK;
}

// `size`: the nodes that a run goes through, those of functions at each call.
static kiln_status link_calls(struct onnx_model *m, struct onnx_graph *g, int64_t *size)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        struct onnx_node *n = &g->nodes[i];
        n->function = m->n_functions ? find_function(m, n) : NULL;
        if (n->function) TRY(link_call(m, g, n));
        *size += 1 + (n->function ? n->function->size : 0);
        for (int32_t k = 0; k < n->n_attrs; k++)
            if (n->attrs[k].graph) TRY(link_calls(m, n->attrs[k].graph, size));
        if (*size > NODES_MAX)
            return error_set(KILN_E_UNSUPPORTED, "%s: its functions make more than %d nodes of it", m->where,
                             NODES_MAX);
    }
    return KILN_OK;
}

kiln_status onnx_check(struct onnx_model *m)
{
    if (m->n_functions > 256)
        return error_set(KILN_E_UNSUPPORTED, "%s: has %d functions, more than 256", m->where, m->n_functions);
    for (int32_t i = 0; i < m->n_functions; i++) TRY(check_graph(m, &m->functions[i].body, NULL));
    TRY(check_graph(m, &m->graph, NULL));
    for (int32_t i = 0; i < m->n_functions; i++)
        for (int32_t k = 0; k < i; k++)
            if (!strcmp(m->functions[i].name, m->functions[k].name) &&
                !strcmp(m->functions[i].domain, m->functions[k].domain) &&
                !strcmp(m->functions[i].overload, m->functions[k].overload))
                return error_set(KILN_E_FORMAT, "%s: two functions are named \"%.80s\"", m->where,
                                 m->functions[i].name);
    int64_t size = 0;
    return link_calls(m, &m->graph, &size);
}
