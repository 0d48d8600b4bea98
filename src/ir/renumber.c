// Numbers the values of a graph anew, in the order of its nodes; numbers and constants that nothing reads go.
#include "ir/rewrite.h"
#include <stdlib.h>
#include <string.h>

struct renumbering {
    struct kiln_graph *g;
    VEC(struct ir_value) values;
    int32_t *at; // old number -> new number, or where the next value would come
    bool *used;  // numbers: by results and outputs, which keep them where they are; constants: by anything
    int32_t cursor;
};

static void find_uses(struct renumbering *r)
{
    const struct kiln_graph *g = r->g;
    for (size_t i = 0; i < g->nodes.n; i++)
        for (int32_t k = 0; k < g->nodes.v[i].n_in; k++) {
            int32_t v = ir_operands(g, &g->nodes.v[i])[k];
            if (v >= 0 && g->values.v[v].kind == IR_CONSTANT) r->used[v] = true;
        }
    for (size_t i = 0; i < g->regions.n; i++)
        for (int32_t k = 0; k < g->regions.v[i].n_results; k++) {
            int32_t v = g->operands.v[g->regions.v[i].first_result + k];
            if (v >= 0) r->used[v] = true;
        }
    for (size_t i = 0; i < g->outputs.n; i++) {
        r->used[g->outputs.v[i].value] = true;
        if (g->outputs.v[i].target >= 0) r->used[g->outputs.v[i].target] = true;
    }
}

static kiln_status place_until(struct renumbering *r, int32_t end)
{
    for (; r->cursor < end; r->cursor++) {
        const struct ir_value *v = &r->g->values.v[r->cursor];
        r->at[r->cursor] = (int32_t)r->values.n;
        bool optional = v->kind == IR_NUMBER || v->kind == IR_CONSTANT;
        if (!optional || r->used[r->cursor]) TRY(vec_push(&r->values, *v));
    }
    return KILN_OK;
}

static kiln_status place_node(struct renumbering *r, struct ir_node *n)
{
    TRY(place_until(r, n->first_out));
    for (int32_t i = 0; i < n->n_in; i++) {
        int32_t *in = &r->g->operands.v[n->first_in + i];
        if (*in < 0) continue;
        const struct ir_value number = r->g->values.v[*in];
        *in = number.kind == IR_NUMBER ? (int32_t)r->values.n : r->at[*in];
        if (number.kind == IR_NUMBER) TRY(vec_push(&r->values, number));
    }
    int32_t first = n->first_out;
    n->first_out = (int32_t)r->values.n;
    return place_until(r, first + ir_node_outputs(n));
}

static kiln_status place_all(struct renumbering *r)
{
    struct kiln_graph *g = r->g;
    for (size_t i = 0; i < g->nodes.n; i++) TRY(place_node(r, &g->nodes.v[i]));
    TRY(place_until(r, (int32_t)g->values.n));
    r->at[g->values.n] = (int32_t)r->values.n;
    for (size_t i = 0; i < g->regions.n; i++) {
        struct ir_region *region = &g->regions.v[i];
        region->first_param = r->at[region->first_param];
        for (int32_t k = 0; k < region->n_results; k++) {
            int32_t *v = &g->operands.v[region->first_result + k];
            if (*v >= 0) *v = r->at[*v];
        }
    }
    for (size_t i = 0; i < g->outputs.n; i++) {
        struct ir_output *o = &g->outputs.v[i];
        o->value = r->at[o->value];
        if (o->target >= 0) o->target = r->at[o->target];
    }
    return KILN_OK;
}

kiln_status ir_renumber(struct kiln_graph *g)
{
    struct renumbering r = {.g = g};
    kiln_status status = KILN_OK;
    r.at = malloc(sizeof *r.at * (g->values.n + 1));
    r.used = calloc(g->values.n + 1, sizeof *r.used);
    if (!r.at || !r.used)
        status = error_set(KILN_E_MEMORY, "graph: out of memory");
    else {
        find_uses(&r);
        status = place_all(&r);
    }
    if (!status) {
        vec_free(&g->values);
        memcpy(&g->values, &r.values, sizeof g->values);
    } else
        vec_free(&r.values);
    free(r.at);
    free(r.used);
    return status;
}
