// A graph as nodes of ONNX: those that the results need, in their order.
#include "onnx/write.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPSET = 18 }; // of what is written, unless an op is of a later one

static const struct writer {
    const char *op;
    onnx_write_fn fn;
} writers[] = {
#define WRITER(name) {#name, onnx_write_##name},
#include "onnx/writers.def"
#undef WRITER
};

// --- names

// Whether a name is one of those that nodes give: "MatMul_12".
static bool looks_given(const char *name)
{
    const char *digits = strrchr(name, '_');
    return digits && digits[1] && strspn(digits + 1, "0123456789") == strlen(digits + 1);
}

static bool is_in_the_way(const char *prefix, const char *name)
{
    return !strncmp(prefix, name, strlen(prefix)) && looks_given(name);
}

static kiln_status choose_prefix(struct onnx_writer *w, const struct onnx_export *e)
{
    char prefix[64] = "";
    for (bool taken = true; taken && strlen(prefix) + 3 < sizeof prefix;) {
        taken = false;
        for (size_t i = 0; i < e->n_given; i++) taken |= is_in_the_way(prefix, e->given[i].name);
        for (size_t i = 0; i < e->n_made; i++) taken |= is_in_the_way(prefix, e->made[i].name);
        if (taken) strcat(prefix, "k.");
    }
    w->prefix = arena_strdup(&w->arena, prefix);
    return error_pending;
}

kiln_status onnx_writer_init(struct onnx_writer *w, const struct onnx_export *e)
{
    *w = (struct onnx_writer){.g = e->graph,
                              .callers = e->callers,
                              .cannot = e->cannot,
                              .user = e->user,
                              .open = e->open,
                              .opset = OPSET,
                              .node = -1};
    arena_init(&w->arena);
    str_init(&w->nodes);
    str_init(&w->pending);
    w->names = arena_alloc(&w->arena, (e->graph->values.n + 1) * sizeof *w->names);
    TRY(choose_prefix(w, e));
    for (size_t i = 0; i < e->graph->values.n; i++) // where nodes are checked alone, nobody says what is given
        w->names[i] =
            e->graph->values.v[i].kind == IR_INPUT || e->graph->values.v[i].kind == IR_CONSTANT ? "given" : NULL;
    for (size_t i = 0; i < e->n_given; i++)
        if (e->given[i].value >= 0) w->names[e->given[i].value] = e->given[i].name;
    return KILN_OK;
}

void onnx_writer_finish(struct onnx_writer *w)
{
    str_free(&w->nodes);
    str_free(&w->pending);
    vec_free(&w->kept);
    arena_finish(&w->arena);
}

// --- which nodes

static bool is_effect(const struct onnx_writer *w, const struct ir_node *n)
{
    return n->region < 0 && ir_node_has_effect(w->g, n);
}

// Nodes of regions are needed with the node that owns them.
static bool is_needed(const struct onnx_writer *w, const struct ir_node *n, const bool *needed)
{
    while (n->region >= 0) n = &w->g->nodes.v[w->g->regions.v[n->region].owner];
    bool any = is_effect(w, n);
    for (int i = 0; i < ir_node_outputs(n); i++) any |= needed[n->first_out + i];
    return any;
}

static bool *find_needed(const struct onnx_writer *w, const struct onnx_export *e)
{
    bool *needed = calloc(w->g->values.n + 1, sizeof *needed);
    if (!needed) {
        error_set(KILN_E_MEMORY, "model_save: out of memory");
        return NULL;
    }
    for (size_t i = 0; i < e->n_made; i++)
        if (e->made[i].value >= 0) needed[e->made[i].value] = true;
    for (size_t i = w->g->nodes.n; i-- > 0;) {
        const struct ir_node *n = &w->g->nodes.v[i];
        if (!is_needed(w, n, needed)) continue;
        for (int k = 0; k < n->n_in; k++)
            if (ir_operands(w->g, n)[k] >= 0) needed[ir_operands(w->g, n)[k]] = true;
    }
    return needed;
}

// --- one node

static const struct writer *find_writer(const struct op *op)
{
    for (size_t i = 0; i < COUNT_OF(writers); i++)
        if (!strcmp(writers[i].op, op->name)) return &writers[i];
    return NULL;
}

static void write_by_rule(struct onnx_writer *w, const struct ir_node *n)
{
    const struct writer *own = find_writer(n->op);
    if (n->op->flags & OP_RANDOM)
        onnx_cannot(w, "it draws random numbers");
    else if (is_effect(w, n))
        onnx_cannot(w, "a function of this process");
    else if (own)
        own->fn(w);
    else if (!onnx_write_row(w)) {
        if (error_pending) return;
        if (n->op->elementwise)
            onnx_write_expr(w);
        else
            onnx_cannot(w, "ONNX has no such op");
    }
}

// A value that could not be written has a name all the same, so that what follows is looked at, too.
static kiln_status write_node(struct onnx_writer *w, int32_t node)
{
    const struct ir_node *n = &w->g->nodes.v[node];
    w->node = node;
    w->failed = false;
    write_by_rule(w, n);
    for (int i = 0; i < ir_node_outputs(n); i++)
        if (!w->names[n->first_out + i]) w->names[n->first_out + i] = w->failed ? "missing" : NULL;
    if (error_pending) return error_pending;
    if (!w->failed && !w->names[n->first_out])
        return error_set(KILN_E_INTERNAL, "model_save: %s has no name in ONNX", n->op->name);
    return KILN_OK;
}

kiln_status onnx_write_region(struct onnx_writer *w, int32_t region)
{
    const struct ir_region *r = &w->g->regions.v[region];
    bool failed = w->failed;
    for (int32_t i = r->first_node; i < r->first_node + r->n_nodes; i++) {
        int32_t around = w->node;
        if (w->g->nodes.v[i].region != region) continue;
        TRY(write_node(w, i));
        failed |= w->failed;
        w->node = around;
    }
    w->failed = failed;
    return KILN_OK;
}

kiln_status onnx_write_nodes(struct onnx_writer *w, const struct onnx_export *e)
{
    bool *needed = find_needed(w, e);
    kiln_status status = needed ? KILN_OK : error_pending;
    for (size_t i = 0; i < w->g->nodes.n && !status; i++)
        if (w->g->nodes.v[i].region < 0 && is_needed(w, &w->g->nodes.v[i], needed)) status = write_node(w, (int32_t)i);
    for (size_t i = 0; i < w->g->values.n && needed; i++) // what nothing needs is not in the file
        if (!needed[i]) w->names[i] = NULL;
    free(needed);
    return status;
}

// --- alone

static kiln_status write_alone(struct onnx_writer *w, const struct onnx_export *e)
{
    TRY(onnx_writer_init(w, e));
    return onnx_write_nodes(w, e);
}

kiln_status onnx_check_export(const struct onnx_export *e)
{
    struct onnx_writer w;
    kiln_status status = write_alone(&w, e);
    onnx_writer_finish(&w);
    return status;
}

kiln_status onnx_export_nodes(const struct onnx_export *e, char **bytes, size_t *size_B)
{
    struct onnx_writer w;
    kiln_status status = write_alone(&w, e);
    *size_B = w.nodes.len;
    *bytes = status ? NULL : malloc(w.nodes.len + 1);
    if (*bytes)
        memcpy(*bytes, str_text(&w.nodes), w.nodes.len);
    else if (!status)
        status = error_set(KILN_E_MEMORY, "model_save: out of memory");
    onnx_writer_finish(&w);
    return status;
}
