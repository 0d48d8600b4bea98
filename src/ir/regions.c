// What the rules of ops with regions are asked, and what they share.
#include "ir/regions.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ir_new_node ir_node_again(const struct kiln_graph *g, int32_t node)
{
    const struct ir_node *n = &g->nodes.v[node];
    return (struct ir_new_node){.op = n->op,
                                .attrs = n->attrs,
                                .n_in = n->n_in - !!(n->op->flags & OP_EFFECT),
                                .n_out = n->n_out,
                                .in = ir_operands(g, n),
                                .caller = n->caller,
                                .first_region = n->first_region,
                                .n_regions = n->n_regions};
}

static size_t count_types(const struct kiln_graph *g, const struct ir_new_node *n, size_t *most_results)
{
    size_t count = (size_t)n->n_in;
    *most_results = 0;
    for (int i = 0; i < n->n_regions; i++) {
        const struct ir_region *r = &g->regions.v[n->first_region + i];
        count += (size_t)r->n_params + (size_t)r->n_results;
        if ((size_t)r->n_results > *most_results) *most_results = (size_t)r->n_results;
    }
    return count;
}

// NULL for what is absent, or no value at all, which the verifier finds by itself.
static const struct type *type_of(const struct kiln_graph *g, int32_t value)
{
    return value < 0 || (size_t)value >= g->values.n ? NULL : &g->values.v[value].type;
}

kiln_status ir_regions_infer(const struct kiln_graph *g, const struct ir_new_node *n, struct ir_regions_types *t)
{
    size_t most_results, count = count_types(g, n, &most_results), at = 0;
    const struct op_regions_rule *rule = op_regions_rule(n->op);
    int n_results = rule->count_results ? rule->count_results(n->attrs) : 0;
    *t = (struct ir_regions_types){.r = {.op = n->op, .attrs = n->attrs, .n_in = n->n_in, .n_regions = n->n_regions}};
    if (n_results < 0) return error_pending;
    if ((size_t)n_results > most_results) most_results = (size_t)n_results;
    t->types = malloc((count + 1) * sizeof *t->types);
    t->regions = calloc((size_t)n->n_regions + 1, sizeof *t->regions);
    t->r.out = malloc((most_results + 1) * sizeof *t->r.out);
    if (!t->types || !t->regions || !t->r.out) return error_set(KILN_E_MEMORY, "graph: out of memory");
    t->r.in = t->types;
    t->r.regions = t->regions;
    for (int i = 0; i < n->n_in; i++) t->types[at++] = type_of(g, n->in[i]);
    for (int i = 0; i < n->n_regions; i++) {
        const struct ir_region *r = &g->regions.v[n->first_region + i];
        t->regions[i] = (struct op_region){r->n_params, r->n_results, t->types + at, t->types + at + r->n_params};
        for (int k = 0; k < r->n_params; k++) t->types[at++] = type_of(g, r->first_param + k);
        for (int k = 0; k < r->n_results; k++) t->types[at++] = type_of(g, g->operands.v[r->first_result + k]);
    }
    for (size_t i = 0; i < at; i++)
        if (!t->types[i]) return error_set(KILN_E_FORMAT, "graph: %s lacks an operand or a result", n->op->name);
    return rule->types(&t->r);
}

void ir_regions_finish(struct ir_regions_types *t)
{
    free((void *)t->types);
    free(t->regions);
    free(t->r.out);
    *t = (struct ir_regions_types){0};
}

kiln_status type_difference(const struct type *a, const struct type *b, char *text, size_t size_B)
{
    if (a->dtype != b->dtype || a->weak != b->weak) {
        snprintf(text, size_B, "in dtype");
        return KILN_E_DTYPE;
    }
    int d = 0;
    while (d < a->rank && d < b->rank && a->dims[d] == b->dims[d]) d++;
    if (a->rank != b->rank)
        snprintf(text, size_B, "in rank");
    else
        snprintf(text, size_B, "in dimension %d", d);
    return KILN_E_SHAPE;
}

kiln_status op_types_agree(const struct op *op, int i, const char *what, const struct type *a, const char *other,
                           const struct type *b)
{
    char at[32], x[TYPE_TEXT_MAX], y[TYPE_TEXT_MAX], name[2][80];
    if (type_equal(a, b) && a->weak == b->weak) return KILN_OK;
    kiln_status code = type_difference(a, b, at, sizeof at);
    snprintf(name[0], sizeof name[0], what, i);
    snprintf(name[1], sizeof name[1], other, i);
    return error_set(code, "%s: %s is %s%s, %s is %s%s: they differ %s", op->name, name[0], a->weak ? "weak " : "",
                     type_text(a, x, sizeof x), name[1], b->weak ? "weak " : "", type_text(b, y, sizeof y), at);
}

kiln_status op_regions_take_operands(const struct op_regions *r, int n)
{
    for (int i = 0; i < r->n_regions; i++) {
        if (r->regions[i].n_params != n)
            return error_set(KILN_E_ARGUMENT, "%s: region %d has %d parameters, there are %d operands", r->op->name, i,
                             r->regions[i].n_params, n);
        for (int k = 0; k < n; k++)
            TRY(op_types_agree(r->op, k, "operand %d", r->in[k], "the region's parameter %d", r->regions[i].params[k]));
    }
    return KILN_OK;
}
