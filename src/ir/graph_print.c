// The text form of a graph.
//
// Values are written in the order of their numbers, so that a reader who counts definitions finds the same numbers. A
// weak scalar has a line of its own unless its number is the one that the reader would give to a literal among the
// operands: the literals of a node are numbered, from left to right, just before its outputs. Values that belong to no
// node (inputs, constants) are written where their number falls, in a region's body too, and are seen everywhere.
//
// The walk goes over nodes; a cursor over values says which are written. A node with regions comes before the nodes
// inside, although they lie before it: what it owns is found by skipping nodes of other regions until it comes.
#include "ir/graph_text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    const struct kiln_graph *g;
    struct str *s;
    int32_t cursor; // values before it are written
    int depth;
    uint8_t *uses; // of each value: 0, 1, or 2 for more; outputs and results of regions count as two
};

// "%.17g" names each double; fewer digits do for most. The decimal point is '.' in every locale.
static void add_float(struct str *s, double x)
{
    char text[40];
    union {
        double f;
        uint64_t u;
    } bits = {.f = x};
    if (isnan(x)) {
        const char *sign = signbit(x) ? "-" : "";
        uint64_t payload = bits.u & IR_NAN_PAYLOAD;
        if (payload == IR_NAN_QUIET)
            str_addf(s, "%snan", sign);
        else
            str_addf(s, "%snan:0x%llx", sign, (unsigned long long)payload);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    size_t n = strspn(text, "-0123456789");
    size_t after = n + strcspn(text + n, "0123456789efin");
    if (after > n) {
        text[n] = '.';
        memmove(text + n + 1, text + after, strlen(text + after) + 1);
    }
    str_add(s, text);
}

void ir_number_text(const struct ir_value *v, struct str *s)
{
    if (v->type.dtype == KILN_BOOL)
        str_add(s, v->integer ? "true" : "false");
    else if (v->type.dtype < DTYPE_COUNT && dtype_kind_of[v->type.dtype] == KIND_INT)
        str_addf(s, "%lld", (long long)v->integer);
    else {
        size_t from = s->len;
        add_float(s, v->number);
        // A weak float must not read as an integer.
        if (!str_text(s)[from + strcspn(str_text(s) + from, ".en")] && !s->failed) str_add(s, ".0");
    }
}

bool ir_type_is_literal(const struct type *t)
{
    return t->weak && t->rank == 0 && (t->dtype == KILN_F64 || t->dtype == KILN_I64 || t->dtype == KILN_BOOL);
}

static bool is_literal(const struct writer *w, int32_t value)
{
    const struct ir_value *v = value < 0 ? NULL : &w->g->values.v[value];
    return v && v->kind == IR_NUMBER && w->uses[value] == 1 && ir_type_is_literal(&v->type);
}

// How many literals stand among the operands: those whose numbers, read backwards, run down from the first output's.
// A number from before the node's regions, or from before the region that the node is in, is none.
static int literal_count(const struct writer *w, const struct ir_node *n)
{
    const struct ir_region *last = n->n_regions ? &w->g->regions.v[n->first_region + n->n_regions - 1] : NULL;
    int32_t lowest = last ? last->first_param + last->n_params : w->cursor;
    int count = 0;
    for (int i = n->n_in - 1; i >= 0; i--) {
        int32_t value = ir_operands(w->g, n)[i];
        if (value == n->first_out - 1 - count && value >= lowest && is_literal(w, value)) count++;
    }
    return count;
}

void ir_string_text(const char *text, struct str *s)
{
    str_add(s, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            str_addf(s, "\\%c", *p);
        else if (*p == '\n')
            str_add(s, "\\n");
        else if (*p == '\t')
            str_add(s, "\\t");
        else if (*p < 0x20 || *p == 0x7f)
            str_addf(s, "\\x%02x", *p);
        else
            str_addn(s, (const char *)p, 1);
    }
    str_add(s, "\"");
}

static void type(struct str *s, const struct kiln_graph *g, const struct ir_value *v)
{
    if (ir_is_token(&v->type)) {
        str_add(s, "token");
        return;
    }
    str_addf(s, "%s%s[", v->type.weak ? "weak " : "", dtype_name(v->type.dtype));
    for (int i = 0; i < v->type.rank; i++) {
        if (i) str_add(s, ",");
        if (v->symbols && v->symbols[i]) str_addf(s, "%s=", g->symbols.v[v->symbols[i] - 1].name);
        str_addf(s, "%lld", (long long)v->type.dims[i]);
    }
    str_add(s, "]");
}

static void definition(struct str *s, const struct kiln_graph *g, int32_t value)
{
    str_addf(s, "%%%d: ", (int)value);
    type(s, g, &g->values.v[value]);
}

static void attribute(struct str *s, const struct attr_info *info, const struct attr *a)
{
    str_addf(s, "%s = %s", info->name, a->set ? "" : "default ");
    switch (a->kind) {
    case ATTR_FLOAT: add_float(s, a->f); break;
    case ATTR_BOOL: str_add(s, a->i ? "true" : "false"); break;
    case ATTR_DTYPE: str_add(s, dtype_name((unsigned)a->i)); break;
    case ATTR_INTS:
        str_add(s, "[");
        for (int i = 0; i < a->count && i < MAX_RANK; i++) str_addf(s, i ? ", %lld" : "%lld", (long long)a->v[i]);
        str_add(s, "]");
        break;
    default: str_addf(s, "%lld", (long long)a->i);
    }
}

// `n_literals` of the operands, counted from the end, are written as numbers.
static void call(struct str *s, const struct kiln_graph *g, const struct ir_node *n, int n_literals)
{
    int32_t first_literal = n->first_out - n_literals;
    str_addf(s, "%s(", n->op->name);
    for (int i = 0; i < n->n_in; i++) {
        int32_t value = ir_operands(g, n)[i];
        if (i) str_add(s, ", ");
        if (value < 0)
            str_add(s, "none");
        else if (value >= first_literal && value < n->first_out)
            ir_number_text(&g->values.v[value], s);
        else
            str_addf(s, "%%%d", (int)value);
    }
    str_add(s, ")");
    for (int i = 0; i < n->op->n_attrs; i++) {
        str_add(s, i ? ", " : " {");
        attribute(s, &n->op->attrs[i], &n->attrs[i]);
    }
    if (n->op->n_attrs) str_add(s, "}");
}

static void node_line(struct str *s, const struct kiln_graph *g, const struct ir_node *n, int n_literals)
{
    int outputs = ir_node_outputs(n);
    for (int k = 0; k < outputs; k++) {
        if (k) str_add(s, ", ");
        definition(s, g, n->first_out + k);
    }
    str_add(s, outputs ? " = " : "_ = ");
    call(s, g, n, n_literals);
}

static void indent(struct writer *w)
{
    for (int i = 0; i < w->depth; i++) str_add(w->s, "    ");
}

static void loose_value(struct writer *w, int32_t value)
{
    const struct ir_value *v = &w->g->values.v[value];
    indent(w);
    definition(w->s, w->g, value);
    str_add(w->s, " = ");
    switch (v->kind) {
    case IR_INPUT: str_add(w->s, "input "); break;
    case IR_CONSTANT: str_add(w->s, v->name ? "constant " : "constant"); break;
    case IR_TOKEN: str_add(w->s, "entry"); break;
    default: ir_number_text(v, w->s);
    }
    if (v->name) ir_string_text(v->name, w->s);
    str_add(w->s, "\n");
}

// Values before `end` that no node makes.
static void loose_values(struct writer *w, int32_t end)
{
    for (; w->cursor < end; w->cursor++) loose_value(w, w->cursor);
}

static void yield(struct writer *w, const struct ir_region *r)
{
    indent(w);
    str_add(w->s, "yield");
    for (int i = 0; i < r->n_results; i++)
        str_addf(w->s, i ? ", %%%d" : " %%%d", (int)w->g->operands.v[r->first_result + i]);
    str_add(w->s, "\n");
}

static void block(struct writer *w, int32_t region, int32_t first, int32_t n);

static void region(struct writer *w, int32_t index, int32_t end)
{
    const struct ir_region *r = &w->g->regions.v[index];
    str_add(w->s, " region(");
    for (int i = 0; i < r->n_params; i++) {
        if (i) str_add(w->s, ", ");
        definition(w->s, w->g, r->first_param + i);
    }
    str_add(w->s, ") {\n");
    w->cursor = r->first_param + r->n_params;
    w->depth++;
    block(w, index, r->first_node, r->n_nodes);
    loose_values(w, end);
    yield(w, r);
    w->depth--;
    indent(w);
    str_add(w->s, "}");
}

static void node(struct writer *w, const struct ir_node *n)
{
    int n_literals = literal_count(w, n);
    int32_t own = n->first_out - n_literals;
    const struct ir_region *r = n->n_regions ? &w->g->regions.v[n->first_region] : NULL;
    loose_values(w, r ? r->first_param : own);
    indent(w);
    node_line(w->s, w->g, n, n_literals);
    for (int i = 0; i < n->n_regions; i++)
        region(w, n->first_region + i, i + 1 < n->n_regions ? r[i + 1].first_param : own);
    str_add(w->s, "\n");
    w->cursor = n->first_out + ir_node_outputs(n);
}

static void block(struct writer *w, int32_t region, int32_t first, int32_t n)
{
    for (int32_t i = first; i < first + n; i++)
        if (w->g->nodes.v[i].region == region) node(w, &w->g->nodes.v[i]);
}

static void count_uses(struct writer *w)
{
    const struct kiln_graph *g = w->g;
    for (size_t i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i].n_in; k++) {
            int32_t value = ir_operands(g, &g->nodes.v[i])[k];
            if (value >= 0 && w->uses[value] < 2) w->uses[value]++;
        }
    for (size_t i = 0; i < g->regions.n; i++)
        for (int k = 0; k < g->regions.v[i].n_results; k++)
            w->uses[g->operands.v[g->regions.v[i].first_result + k]] = 2;
    for (size_t i = 0; i < g->outputs.n; i++) w->uses[g->outputs.v[i].value] = 2;
}

static void outputs(struct writer *w)
{
    for (size_t i = 0; i < w->g->outputs.n; i++) {
        const struct ir_output *o = &w->g->outputs.v[i];
        str_addf(w->s, o->target < 0 ? "return %%%d " : "write %%%d to %%%d ", (int)o->value, (int)o->target);
        ir_string_text(o->name, w->s);
        str_add(w->s, "\n");
    }
}

void ir_graph_text(const struct kiln_graph *g, struct str *s)
{
    struct writer w = {g, s, 0, 0, calloc(g->values.n + 1, 1)};
    if (!w.uses) {
        s->failed = true;
        return;
    }
    count_uses(&w);
    for (size_t i = 0; i < g->symbols.n; i++)
        str_addf(s, "symbol %s = %lld\n", g->symbols.v[i].name, (long long)g->symbols.v[i].size);
    block(&w, -1, 0, (int32_t)g->nodes.n);
    loose_values(&w, (int32_t)g->values.n);
    outputs(&w);
    free(w.uses);
}

void ir_graph_file_text(const struct kiln_graph *g, struct str *s)
{
    str_addf(s, "kiln %d\n", IR_TEXT_VERSION);
    ir_graph_text(g, s);
}

void ir_node_text(const struct kiln_graph *g, int32_t index, struct str *s)
{
    node_line(s, g, &g->nodes.v[index], 0);
}
