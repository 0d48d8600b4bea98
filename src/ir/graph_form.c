// What a graph is beside its sizes: ops, operands, dtypes, ranks and attributes.
//
// Left out are dimensions, attributes that go with them (attr_info.is_size), and numbers that the host may have made of
// them, such as 1 / n. What passes look at can be put in again: which dimensions are 0 or 1 or equal to one of an
// operand, and which numbers are special; or all of it. Lists have their lengths before them, so that with all of it
// equal bytes are equal graphs.
#include "ir/graph.h"

struct ir_form {
    const struct kiln_graph *g;
    enum ir_detail detail;
    struct str *out;
};

static void word(struct ir_form *f, uint64_t w)
{
    str_add_word(f->out, w);
}

// The first of the operands' dimensions that has this size, from 2; 0 and 1 are themselves.
static uint64_t like_operand(const struct ir_form *f, const struct ir_node *n, int64_t size)
{
    if (size < 2 || !n) return size < 2 ? (uint64_t)size : UINT64_MAX;
    uint64_t at = 2;
    for (int i = 0; i < n->n_in; i++) {
        int32_t v = ir_operands(f->g, n)[i];
        const struct type *t = v < 0 ? NULL : &f->g->values.v[v].type;
        for (int d = 0; t && d < t->rank; d++, at++)
            if (t->dims[d] == size) return at;
    }
    return UINT64_MAX;
}

static void type(struct ir_form *f, const struct type *t, const struct ir_node *n)
{
    word(f, (uint64_t)t->dtype | (uint64_t)t->rank << 8 | (uint64_t)t->weak << 16);
    for (int d = 0; d < t->rank && f->detail == IR_ALIKE; d++) word(f, like_operand(f, n, t->dims[d]));
    for (int d = 0; d < t->rank && f->detail == IR_ALL; d++) word(f, (uint64_t)t->dims[d]);
}

static bool is_special(double x)
{
    return x == 0 || x == 1 || x == -1 || x == 2 || x == 0.5 || x - x != 0;
}

static void number(struct ir_form *f, const struct ir_value *v)
{
    uint64_t bits = 1;
    if (f->detail == IR_ALL || is_special(v->number)) memcpy(&bits, &v->number, sizeof bits);
    if (f->detail != IR_NO_SIZES) word(f, bits);
    if (f->detail == IR_ALL) word(f, (uint64_t)v->integer);
}

static void symbols(struct ir_form *f, const struct ir_value *v)
{
    word(f, v->symbols != NULL);
    for (int d = 0; v->symbols && d < v->type.rank; d++) word(f, (uint64_t)(int64_t)v->symbols[d]);
}

static void attr(struct ir_form *f, const struct attr *a, const struct attr_info *info)
{
    word(f, (uint64_t)a->kind << 8 | a->set);
    if (info->is_size && f->detail != IR_ALL) return;
    if (a->kind != ATTR_INTS) {
        word(f, (uint64_t)a->i); // of floats the bits
        return;
    }
    word(f, a->count);
    for (int i = 0; i < a->count; i++) word(f, (uint64_t)a->v[i]);
}

static void value(struct ir_form *f, const struct ir_value *v)
{
    word(f, v->kind);
    type(f, &v->type, NULL);
    if (v->kind == IR_NUMBER) number(f, v);
}

static void node(struct ir_form *f, const struct ir_node *n)
{
    word(f, n->op->index);
    word(f, (uint64_t)(uint32_t)n->region);
    word(f, (uint64_t)n->n_regions << 32 | (uint32_t)n->n_out);
    word(f, (uint64_t)n->n_in);
    for (int i = 0; i < n->n_in; i++) word(f, (uint64_t)(uint32_t)ir_operands(f->g, n)[i]);
    for (int i = 0; i < n->op->n_attrs; i++) attr(f, &n->attrs[i], &n->op->attrs[i]);
    for (int i = 0; i < ir_node_outputs(n); i++) type(f, &f->g->values.v[n->first_out + i].type, n);
}

static void region(struct ir_form *f, const struct ir_region *r)
{
    word(f, (uint64_t)(uint32_t)r->first_param << 32 | (uint32_t)r->n_params);
    word(f, (uint64_t)(uint32_t)r->first_node << 32 | (uint32_t)r->n_nodes);
    word(f, (uint64_t)(uint32_t)r->owner << 32 | (uint32_t)r->n_results);
    for (int i = 0; i < r->n_results; i++) word(f, (uint64_t)(uint32_t)f->g->operands.v[r->first_result + i]);
}

void ir_graph_form(const struct kiln_graph *g, enum ir_detail detail, struct str *out)
{
    struct ir_form f = {.g = g, .detail = detail, .out = out};
    word(&f, g->values.n);
    for (size_t i = 0; i < g->values.n; i++)
        if (g->values.v[i].kind != IR_NODE) value(&f, &g->values.v[i]);
    for (size_t i = 0; i < g->values.n && detail == IR_ALL; i++) symbols(&f, &g->values.v[i]);
    word(&f, g->nodes.n);
    for (size_t i = 0; i < g->nodes.n; i++) node(&f, &g->nodes.v[i]);
    word(&f, g->regions.n);
    for (size_t i = 0; i < g->regions.n; i++) region(&f, &g->regions.v[i]);
    word(&f, g->outputs.n);
    for (size_t i = 0; i < g->outputs.n; i++)
        word(&f, (uint64_t)(uint32_t)g->outputs.v[i].value << 32 | (uint32_t)g->outputs.v[i].target);
}
