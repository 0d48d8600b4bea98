// The walk of passes over regions.
#include "pass/weave.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include <stdlib.h>
#include <string.h>

// --- the walk

static bool has_tokens(const struct kiln_graph *g)
{
    for (size_t i = 0; i < g->values.n; i++)
        if (ir_is_token(&g->values.v[i].type)) return true;
    return false;
}

static kiln_status copy(struct ir_rewrite *r, int32_t node, void *user)
{
    (void)user;
    return ir_rewrite_copy(r, node);
}

static kiln_status add_inputs(struct ir_graft *c)
{
    for (size_t i = 0; i < c->from->symbols.n; i++)
        if (ir_add_symbol(c->to, c->from->symbols.v[i].name, c->from->symbols.v[i].size) < 0) return error_pending;
    for (size_t i = 0; i < c->from->values.n; i++) {
        const struct ir_value *v = &c->from->values.v[i];
        if (v->kind != IR_INPUT) continue;
        TRY(weave_map(c, (int32_t)i, ir_add_input(c->to, &v->type, v->name)));
    }
    return KILN_OK;
}

static kiln_status add_outputs(struct ir_graft *c)
{
    for (size_t i = 0; i < c->from->outputs.n; i++) {
        const struct ir_output *o = &c->from->outputs.v[i];
        int32_t value = weave_value(c, o->value), target = o->target < 0 ? -1 : weave_value(c, o->target);
        if (error_pending) return error_pending;
        TRY(ir_add_write(c->to, value, target, o->name));
    }
    return KILN_OK;
}

kiln_status weave_graph(const struct kiln_graph *from, weave_visit visit, void *user, struct kiln_graph **to)
{
    struct weave w = {.user = user};
    *to = NULL;
    if (has_tokens(from)) return ir_rewrite_graph(from, NULL, copy, NULL, to);
    struct kiln_graph *made = ir_graph_create();
    kiln_status status = made ? ir_graft_begin(&w.c, from, made) : error_pending;
    w.c.visit = visit;
    w.c.marks = true;
    if (!status) status = add_inputs(&w.c);
    if (!status) status = ir_graft_nodes(&w.c, -1);
    if (!status) status = add_outputs(&w.c);
    if (!status) status = ir_renumber(made);
    ir_graft_end(&w.c);
    if (status) ir_graph_destroy(&made);
    *to = made;
    return status;
}

// --- for visitors

int32_t weave_value(struct ir_graft *c, int32_t value)
{
    return ir_graft_value(c, value) ? -1 : c->map[value];
}

kiln_status weave_map(struct ir_graft *c, int32_t value, int32_t as)
{
    if (as < 0) return error_pending ? error_pending : error_set(KILN_E_INTERNAL, "weave: no value for %d", (int)value);
    if (!ir_type_same(&c->from->values.v[value].type, &c->to->values.v[as].type))
        return error_set(KILN_E_INTERNAL, "weave: value %d would become one of another type", (int)value);
    c->map[value] = as;
    unsigned kind = c->to->values.v[as].kind;
    return kind == IR_NODE || kind == IR_PARAM || kind == IR_INPUT ? ir_graft_mark(c, value, as) : KILN_OK;
}

int32_t weave_emit(struct ir_graft *c, const struct op *op, int n_in, const int32_t *in, struct attr *attrs,
                   uintptr_t caller)
{
    struct op_call call;
    const struct type *few[8], **types = n_in > 8 ? malloc(sizeof *types * (size_t)n_in) : few;
    if (!types) {
        error_set(KILN_E_MEMORY, "passes: out of memory");
        return -1;
    }
    int32_t out = ir_infer(c->to, op, n_in, in, attrs, types, &call) ? -1 : ir_add_node(c->to, &call, in, caller);
    if (types != few) free((void *)types);
    return out;
}

int32_t weave_owner(struct ir_graft *c, const struct ir_node *n, const struct attr *attrs, int n_in, const int32_t *in,
                    int32_t first_region, int n_regions)
{
    const struct op_call call = {.op = n->op, .n_in = n_in, .attrs = (struct attr *)attrs};
    return ir_add_region_node(c->to, &call, in, NULL, n->caller, first_region, n_regions);
}

kiln_status weave_param(struct ir_graft *c, int32_t param)
{
    return weave_map(c, param, ir_add_param(c->to, &c->from->values.v[param].type));
}

kiln_status weave_inline(struct ir_graft *c, const struct ir_region *region)
{
    TRY(ir_graft_nodes(c, (int32_t)(region - c->from->regions.v)));
    for (int32_t i = 0; i < region->n_results; i++)
        if (weave_value(c, c->from->operands.v[region->first_result + i]) < 0) return error_pending;
    return KILN_OK;
}

// --- what visitors ask

bool weave_is_loop(const struct kiln_graph *g, int32_t node, struct weave_loop *l)
{
    const struct ir_node *n = &g->nodes.v[node];
    if (n->op != op_table[OP_loop]) return false;
    bool counted = n->attrs[AT_loop_counted].i;
    *l = (struct weave_loop){.body = &g->regions.v[n->first_region],
                             .cond = n->n_regions > 1 ? &g->regions.v[n->first_region + 1] : NULL,
                             .n_carried = (int)n->attrs[AT_loop_carried].i,
                             .n_scanned = (int)n->attrs[AT_loop_scanned].i,
                             .n_taken = n->n_in - counted,
                             .trips = n->n_regions > 1 || counted ? -1 : n->attrs[AT_loop_trips].i,
                             .counted = counted};
    return true;
}

bool weave_is_switch(const struct kiln_graph *g, int32_t node)
{
    return g->nodes.v[node].op == op_table[OP_switch];
}

bool weave_draws(const struct kiln_graph *g, const struct ir_node *n)
{
    bool draws = false;
    for (int32_t i = 0; i < n->n_regions; i++) draws |= ir_region_draws(g, n->first_region + i);
    return draws;
}

bool weave_gives_weak(const struct kiln_graph *g, const struct ir_node *n)
{
    bool weak = false;
    for (int32_t i = 0; i < n->n_out; i++) weak |= g->values.v[n->first_out + i].type.weak;
    return weak;
}

bool weave_known(const struct kiln_graph *g, int32_t value, int64_t *out)
{
    const struct ir_value *v = &g->values.v[value];
    if (dtype_kind_of[v->type.dtype] == KIND_FLOAT || v->type.rank) return false;
    if (v->kind == IR_NUMBER) {
        *out = v->integer;
        return true;
    }
    const struct ir_node *n = v->kind == IR_NODE ? &g->nodes.v[v->node] : NULL;
    if (n && n->op == op_table[OP_full_int] && v->type.dtype == KILN_I64) {
        *out = n->attrs[AT_full_int_value].i;
        return true;
    }
    if (!n || n->op != op_table[OP_full]) return false;
    double given = n->attrs[AT_full_value].f;
    if (!(given >= 0 && given <= 127)) return false; // of any dtype the same
    *out = v->type.dtype == KILN_BOOL ? given != 0 : (int64_t)given;
    return true;
}
