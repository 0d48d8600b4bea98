// Equality and hashes of graphs, by a canonical form: a list of words in which values are named by what they are (the
// third input, output 1 of node 7) and numbers by their bits. Two graphs are equal when their words are; the hash is
// that of the words.
#include "base/hash.h"
#include "ir/graph.h"
#include <stdlib.h>
#include <string.h>

struct canon {
    const struct kiln_graph *g;
    VEC(uint64_t) words;
    int32_t *ordinal; // of each input among inputs, of each constant among constants
    int32_t *region;  // of each region: its place when regions are taken in the order of their nodes
};

static kiln_status word(struct canon *c, uint64_t w)
{
    return vec_push(&c->words, w);
}

static kiln_status text(struct canon *c, const char *s)
{
    size_t n = strlen(s);
    TRY(word(c, n));
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t w = 0;
        memcpy(&w, s + i, n - i < sizeof w ? n - i : sizeof w);
        TRY(word(c, w));
    }
    return KILN_OK;
}

static uint64_t bits(double x)
{
    uint64_t w;
    memcpy(&w, &x, sizeof w);
    return w;
}

static kiln_status type(struct canon *c, const struct ir_value *v)
{
    const struct type *t = &v->type;
    TRY(word(c, (uint64_t)t->dtype | (uint64_t)t->rank << 8 | (uint64_t)t->weak << 16));
    for (int i = 0; i < t->rank; i++) {
        TRY(word(c, (uint64_t)t->dims[i]));
        TRY(word(c, v->symbols ? (uint64_t)v->symbols[i] : 0));
    }
    return KILN_OK;
}

static kiln_status value(struct canon *c, int32_t index)
{
    if (index < 0) return word(c, UINT64_MAX);
    const struct ir_value *v = &c->g->values.v[index];
    TRY(word(c, v->kind));
    switch (v->kind) {
    case IR_NODE: return word(c, (uint64_t)v->node << 8 | v->out);
    case IR_PARAM:
        TRY(word(c, (uint64_t)c->region[v->node]));
        return word(c, (uint64_t)(index - c->g->regions.v[v->node].first_param));
    case IR_NUMBER:
        TRY(type(c, v));
        return word(c, dtype_kind_of[v->type.dtype] == KIND_FLOAT ? bits(v->number) : (uint64_t)v->integer);
    default: return word(c, (uint64_t)c->ordinal[index]);
    }
}

static kiln_status attr(struct canon *c, const struct attr *a)
{
    TRY(word(c, (uint64_t)a->kind << 8 | a->set));
    if (a->kind == ATTR_FLOAT) return word(c, bits(a->f));
    if (a->kind != ATTR_INTS) return word(c, (uint64_t)a->i);
    TRY(word(c, a->count));
    for (int i = 0; i < a->count; i++) TRY(word(c, (uint64_t)a->v[i]));
    return KILN_OK;
}

static kiln_status region(struct canon *c, const struct ir_region *r)
{
    TRY(word(c, (uint64_t)r->n_params));
    TRY(word(c, (uint64_t)r->n_nodes));
    TRY(word(c, (uint64_t)r->n_results));
    for (int i = 0; i < r->n_params; i++) TRY(type(c, &c->g->values.v[r->first_param + i]));
    for (int i = 0; i < r->n_results; i++) TRY(value(c, c->g->operands.v[r->first_result + i]));
    return KILN_OK;
}

static kiln_status node(struct canon *c, const struct ir_node *n)
{
    TRY(text(c, n->op->name));
    TRY(word(c, (uint64_t)n->n_in));
    TRY(word(c, (uint64_t)n->n_out));
    TRY(word(c, (uint64_t)n->n_regions));
    TRY(word(c, n->region < 0 ? UINT64_MAX : (uint64_t)c->region[n->region]));
    for (int i = 0; i < n->n_in; i++) TRY(value(c, ir_operands(c->g, n)[i]));
    for (int i = 0; i < n->op->n_attrs; i++) TRY(attr(c, &n->attrs[i]));
    for (int i = 0; i < n->n_regions; i++) TRY(region(c, &c->g->regions.v[n->first_region + i]));
    for (int i = 0; i < ir_node_outputs(n); i++) TRY(type(c, &c->g->values.v[n->first_out + i]));
    return KILN_OK;
}

// The types of all inputs, then of all constants.
static kiln_status loose_values(struct canon *c, unsigned kind)
{
    int32_t n = 0;
    for (size_t i = 0; i < c->g->values.n; i++) {
        if (c->g->values.v[i].kind != kind) continue;
        c->ordinal[i] = n++;
        TRY(type(c, &c->g->values.v[i]));
    }
    return word(c, (uint64_t)n);
}

static kiln_status build(struct canon *c)
{
    const struct kiln_graph *g = c->g;
    int32_t n_regions = 0;
    for (size_t i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i].n_regions; k++) c->region[g->nodes.v[i].first_region + k] = n_regions++;
    TRY(word(c, g->symbols.n));
    for (size_t i = 0; i < g->symbols.n; i++) TRY(word(c, (uint64_t)g->symbols.v[i].size));
    TRY(loose_values(c, IR_INPUT));
    TRY(loose_values(c, IR_CONSTANT));
    TRY(word(c, g->nodes.n));
    for (size_t i = 0; i < g->nodes.n; i++) TRY(node(c, &g->nodes.v[i]));
    for (size_t i = 0; i < g->outputs.n; i++) {
        TRY(value(c, g->outputs.v[i].value));
        TRY(value(c, g->outputs.v[i].target));
    }
    return KILN_OK;
}

static kiln_status canon_init(struct canon *c, const struct kiln_graph *g)
{
    *c = (struct canon){.g = g};
    c->ordinal = calloc(g->values.n + 1, sizeof *c->ordinal);
    c->region = calloc(g->regions.n + 1, sizeof *c->region);
    if (!c->ordinal || !c->region) return error_set(KILN_E_MEMORY, "graph: out of memory");
    return build(c);
}

static void canon_finish(struct canon *c)
{
    vec_free(&c->words);
    free(c->ordinal);
    free(c->region);
}

bool ir_graph_equal(const struct kiln_graph *a, const struct kiln_graph *b)
{
    struct canon x, y = {0};
    bool equal = !canon_init(&x, a) && !canon_init(&y, b) && x.words.n == y.words.n &&
                 !memcmp(x.words.v, y.words.v, x.words.n * sizeof *x.words.v);
    canon_finish(&x);
    canon_finish(&y);
    return equal;
}

uint64_t ir_graph_hash(const struct kiln_graph *g)
{
    struct canon c;
    uint64_t h = canon_init(&c, g) ? 0 : hash_bytes(0, c.words.v, c.words.n * sizeof *c.words.v);
    canon_finish(&c);
    return h;
}
