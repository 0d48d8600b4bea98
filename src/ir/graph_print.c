// The text form of a graph, and its drawing.
#include "ir/graph.h"

static void number(struct str *s, const struct ir_value *v)
{
    if (v->type.dtype == KILN_BOOL)
        str_add(s, v->integer ? "true" : "false");
    else if (dtype_kind_of[v->type.dtype] == KIND_INT)
        str_addf(s, "%lld", (long long)v->integer);
    else
        str_addf(s, v->number == (double)(int64_t)v->number && v->number < 1e15 && v->number > -1e15 ? "%.1f" : "%.17g",
                 v->number);
}

static void reference(struct str *s, const struct kiln_graph *g, int32_t value)
{
    if (value < 0)
        str_add(s, "none");
    else if (g->values.v[value].kind == IR_NUMBER)
        number(s, &g->values.v[value]);
    else
        str_addf(s, "%%%d", (int)value);
}

static void attribute(struct str *s, const struct attr_info *info, const struct attr *a)
{
    str_addf(s, "%s = ", info->name);
    switch (a->kind) {
    case ATTR_FLOAT: str_addf(s, "%.17g", a->f); break;
    case ATTR_BOOL: str_add(s, a->i ? "true" : "false"); break;
    case ATTR_DTYPE: str_add(s, dtype_name((unsigned)a->i)); break;
    case ATTR_INTS:
        str_add(s, "[");
        for (int i = 0; i < a->count; i++) str_addf(s, i ? ", %lld" : "%lld", (long long)a->v[i]);
        str_add(s, "]");
        break;
    default: str_addf(s, "%lld", (long long)a->i);
    }
}

static void call(struct str *s, const struct kiln_graph *g, const struct ir_node *n)
{
    str_addf(s, "%s(", n->op->name);
    for (int i = 0; i < n->n_in; i++) {
        if (i) str_add(s, ", ");
        reference(s, g, ir_operands(g, n)[i]);
    }
    str_add(s, ")");
    for (int i = 0; i < n->op->n_attrs; i++) {
        str_add(s, i ? ", " : " {");
        attribute(s, &n->op->attrs[i], &n->attrs[i]);
    }
    if (n->op->n_attrs) str_add(s, "}");
}

static void definition(struct str *s, int32_t value, const struct ir_value *v)
{
    char text[TYPE_TEXT_MAX];
    str_addf(s, "%%%d: %s", (int)value, type_text(&v->type, text, sizeof text));
}

void ir_graph_text(const struct kiln_graph *g, struct str *s)
{
    for (size_t i = 0; i < g->values.n; i++) {
        const struct ir_value *v = &g->values.v[i];
        if (v->kind == IR_NUMBER || (v->kind == IR_NODE && v->out)) continue;
        definition(s, (int32_t)i, v);
        if (v->kind == IR_INPUT)
            str_addf(s, " = input \"%s\"", v->name);
        else if (v->kind == IR_CONSTANT)
            str_add(s, " = constant");
        else {
            const struct ir_node *n = &g->nodes.v[v->node];
            for (int k = 1; k < n->op->n_out; k++) {
                str_add(s, ", ");
                definition(s, (int32_t)i + k, &g->values.v[i + (size_t)k]);
            }
            str_add(s, " = ");
            call(s, g, n);
        }
        str_add(s, "\n");
    }
    for (size_t i = 0; i < g->outputs.n; i++) {
        str_add(s, "return ");
        reference(s, g, g->outputs.v[i].value);
        str_addf(s, " \"%s\"\n", g->outputs.v[i].name);
    }
}

static void dot_node(struct str *s, const struct kiln_graph *g, size_t i)
{
    const struct ir_node *n = &g->nodes.v[i];
    char text[TYPE_TEXT_MAX];
    const struct type *type = &g->values.v[n->first_out].type;
    str_addf(s, "    n%zu [label=\"%s\\n%s\"];\n", i, n->op->name, type_text(type, text, sizeof text));
    for (int k = 0; k < n->n_in; k++) {
        int32_t from = ir_operands(g, n)[k];
        if (from < 0 || g->values.v[from].kind == IR_NUMBER) continue;
        if (g->values.v[from].kind == IR_NODE)
            str_addf(s, "    n%d -> n%zu;\n", (int)g->values.v[from].node, i);
        else
            str_addf(s, "    v%d -> n%zu;\n", (int)from, i);
    }
}

void ir_graph_dot_text(const struct kiln_graph *g, struct str *s)
{
    char text[TYPE_TEXT_MAX];
    str_add(s, "digraph kiln {\n    node [shape=box];\n");
    for (size_t i = 0; i < g->values.n; i++) {
        const struct ir_value *v = &g->values.v[i];
        if (v->kind != IR_INPUT && v->kind != IR_CONSTANT) continue;
        str_addf(s, "    v%zu [label=\"%s\\n%s\", shape=ellipse];\n", i, v->kind == IR_INPUT ? v->name : "constant",
                 type_text(&v->type, text, sizeof text));
    }
    for (size_t i = 0; i < g->nodes.n; i++) dot_node(s, g, i);
    for (size_t i = 0; i < g->outputs.n; i++) {
        const struct ir_value *v = &g->values.v[g->outputs.v[i].value];
        str_addf(s, "    r%zu [label=\"%s\", shape=ellipse];\n", i, g->outputs.v[i].name);
        if (v->kind == IR_NODE)
            str_addf(s, "    n%d -> r%zu;\n", (int)v->node, i);
        else
            str_addf(s, "    v%d -> r%zu;\n", (int)g->outputs.v[i].value, i);
    }
    str_add(s, "}\n");
}
