// The drawing of a graph. A region is a cluster with its parameters and nodes. All edges are written outside clusters:
// an edge inside one would pull both its ends in.
#include "ir/graph_text.h"

static void label(struct str *s, const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '"' || *p == '\\') str_add(s, "\\");
        if (*p == '\n')
            str_add(s, "\\n");
        else
            str_addn(s, p, 1);
    }
}

static const char *type(const struct type *t, char *buf, size_t cap)
{
    return ir_is_token(t) ? "token" : type_text(t, buf, cap);
}

static void indent(struct str *s, int depth)
{
    for (int i = 0; i <= depth; i++) str_add(s, "    ");
}

static void ellipse(struct str *s, const struct kiln_graph *g, int32_t value, int depth)
{
    const struct ir_value *v = &g->values.v[value];
    char text[TYPE_TEXT_MAX];
    indent(s, depth);
    str_addf(s, "v%d [label=\"", (int)value);
    label(s, v->name ? v->name : v->kind == IR_CONSTANT ? "constant" : v->kind == IR_TOKEN ? "entry" : "parameter");
    str_addf(s, "\\n%s\", shape=ellipse];\n", type(&v->type, text, sizeof text));
}

static void edge(struct str *s, const struct kiln_graph *g, int32_t from, char kind, size_t to, const char *style)
{
    if (from < 0 || g->values.v[from].kind == IR_NUMBER) return;
    const struct ir_value *v = &g->values.v[from];
    if (v->kind == IR_NODE)
        str_addf(s, "    n%d -> %c%zu", (int)v->node, kind, to);
    else
        str_addf(s, "    v%d -> %c%zu", (int)from, kind, to);
    str_addf(s, "%s;\n", ir_is_token(&v->type) ? " [style=dashed]" : style);
}

// Operands, and from what the regions give.
static void edges(struct str *s, const struct kiln_graph *g, size_t i)
{
    const struct ir_node *n = &g->nodes.v[i];
    for (int k = 0; k < n->n_in; k++) edge(s, g, ir_operands(g, n)[k], 'n', i, "");
    for (int r = 0; r < n->n_regions; r++) {
        const struct ir_region *region = &g->regions.v[n->first_region + r];
        for (int k = 0; k < region->n_results; k++)
            edge(s, g, g->operands.v[region->first_result + k], 'n', i, " [style=dotted]");
    }
}

static void block(struct str *s, const struct kiln_graph *g, int32_t region, int32_t first, int32_t n, int depth);

static void cluster(struct str *s, const struct kiln_graph *g, int32_t index, int ordinal, int depth)
{
    const struct ir_region *r = &g->regions.v[index];
    indent(s, depth);
    str_addf(s, "subgraph cluster%d {\n", (int)index);
    indent(s, depth + 1);
    str_addf(s, "label=\"%s region %d\";\n", g->nodes.v[r->owner].op->name, ordinal);
    for (int i = 0; i < r->n_params; i++) ellipse(s, g, r->first_param + i, depth + 1);
    block(s, g, index, r->first_node, r->n_nodes, depth + 1);
    indent(s, depth);
    str_add(s, "}\n");
}

static void block(struct str *s, const struct kiln_graph *g, int32_t region, int32_t first, int32_t n, int depth)
{
    char text[TYPE_TEXT_MAX];
    for (int32_t i = first, edged = first; i < first + n; i++) {
        const struct ir_node *node = &g->nodes.v[i];
        if (node->region != region) continue;
        for (int k = 0; k < node->n_regions; k++) cluster(s, g, node->first_region + k, k, depth);
        indent(s, depth);
        str_addf(s, "n%d [label=\"%s", (int)i, node->op->name);
        if (ir_node_outputs(node)) str_addf(s, "\\n%s", type(&g->values.v[node->first_out].type, text, sizeof text));
        str_add(s, "\"];\n");
        for (; !depth && edged <= i; edged++) edges(s, g, (size_t)edged);
    }
}

static void output(struct str *s, const struct kiln_graph *g, size_t i)
{
    const struct ir_output *o = &g->outputs.v[i];
    str_addf(s, "    r%zu [label=\"%s", i, o->target < 0 ? "" : "write ");
    label(s, o->name);
    str_add(s, "\", shape=ellipse];\n");
    edge(s, g, o->value, 'r', i, "");
    if (o->target >= 0) str_addf(s, "    r%zu -> v%d [style=bold, constraint=false];\n", i, (int)o->target);
}

void ir_graph_dot_text(const struct kiln_graph *g, struct str *s)
{
    str_add(s, "digraph kiln {\n    node [shape=box];\n");
    for (size_t i = 0; i < g->values.n; i++) {
        unsigned kind = g->values.v[i].kind;
        if (kind == IR_INPUT || kind == IR_CONSTANT || kind == IR_TOKEN) ellipse(s, g, (int32_t)i, 0);
    }
    block(s, g, -1, 0, (int32_t)g->nodes.n, 0);
    for (size_t i = 0; i < g->outputs.n; i++) output(s, g, i);
    str_add(s, "}\n");
}
