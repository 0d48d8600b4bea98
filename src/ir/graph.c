// Building a graph: inputs, constants, nodes and outputs are appended; a constant is held once.
#include "ir/graph.h"
#include "base/handles.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

struct kiln_graph *ir_graph_create(void)
{
    struct kiln_graph *g = handle_new(HANDLE_GRAPH, sizeof *g);
    if (g)
        arena_init(&g->arena);
    else
        error_set(KILN_E_MEMORY, "graph: out of memory");
    return g;
}

void ir_graph_destroy(struct kiln_graph **g)
{
    if (!g || !*g) return;
    vec_free(&(*g)->values);
    vec_free(&(*g)->nodes);
    vec_free(&(*g)->operands);
    vec_free(&(*g)->outputs);
    vec_free(&(*g)->regions);
    vec_free(&(*g)->symbols);
    vec_free(&(*g)->open);
    vec_free(&(*g)->held);
    arena_finish(&(*g)->arena);
    handle_free(HANDLE_GRAPH, *g);
    *g = NULL;
}

size_t ir_graph_size_B(const struct kiln_graph *g)
{
    return sizeof *g + arena_size_B(&g->arena) + g->values.cap * sizeof *g->values.v +
           g->nodes.cap * sizeof *g->nodes.v + g->operands.cap * sizeof *g->operands.v +
           g->outputs.cap * sizeof *g->outputs.v + g->regions.cap * sizeof *g->regions.v +
           g->symbols.cap * sizeof *g->symbols.v + g->held.cap * sizeof *g->held.v;
}

static int32_t add_value(struct kiln_graph *g, const struct ir_value *v)
{
    if (vec_push(&g->values, *v)) return -1;
    return (int32_t)g->values.n - 1;
}

int32_t ir_add_input(struct kiln_graph *g, const struct type *type, const char *name)
{
    struct ir_value v = {.type = *type, .kind = IR_INPUT, .node = -1, .name = arena_strdup(&g->arena, name)};
    return v.name ? add_value(g, &v) : -1;
}

int32_t ir_add_number(struct kiln_graph *g, const struct type *type, double number, int64_t integer)
{
    struct ir_value v = {.type = *type, .kind = IR_NUMBER, .node = -1, .number = number, .integer = integer};
    return add_value(g, &v);
}

// The slot of a constant, or the free one where it belongs. The table is never full.
static int32_t *held_slot(const struct kiln_graph *g, const struct type *type, const void *held)
{
    size_t mask = g->held.n - 1;
    for (size_t i = hash_u64(0, (uintptr_t)held) & mask;; i = (i + 1) & mask) {
        int32_t *slot = &g->held.v[i];
        if (!*slot) return slot;
        const struct ir_value *v = (size_t)*slot <= g->values.n ? &g->values.v[*slot - 1] : NULL;
        if (v && v->kind == IR_CONSTANT && v->held == held && type_equal(&v->type, type)) return slot;
    }
}

// Twice the slots, a power of two, once half of them are taken.
static kiln_status grow_held(struct kiln_graph *g)
{
    if (g->held.n > 2 * g->n_held) return KILN_OK;
    struct kiln_graph old = {.held = {g->held.v, g->held.n, g->held.cap}};
    size_t n = old.held.n ? 2 * old.held.n : 16;
    g->held.v = NULL;
    g->held.n = g->held.cap = 0;
    if (vec_reserve(&g->held, n)) {
        g->held.v = old.held.v, g->held.n = old.held.n, g->held.cap = old.held.cap;
        return error_pending;
    }
    memset(g->held.v, 0, n * sizeof *g->held.v);
    g->held.n = n;
    for (size_t i = 0; i < old.held.n; i++) {
        if (!old.held.v[i] || (size_t)old.held.v[i] > g->values.n) continue;
        const struct ir_value *v = &g->values.v[old.held.v[i] - 1];
        *held_slot(g, &v->type, v->held) = old.held.v[i];
    }
    vec_free(&old.held);
    return KILN_OK;
}

int32_t ir_add_constant(struct kiln_graph *g, const struct type *type, const void *held)
{
    if (grow_held(g)) return -1;
    int32_t *slot = held_slot(g, type, held);
    if (*slot) return *slot - 1;
    struct ir_value v = {.type = *type, .kind = IR_CONSTANT, .node = -1, .held = held};
    int32_t value = add_value(g, &v);
    if (value < 0) return -1;
    *slot = value + 1;
    g->n_held++;
    return value;
}

int32_t ir_add_named_constant(struct kiln_graph *g, const struct type *type, const char *name)
{
    struct ir_value v = {.type = *type, .kind = IR_CONSTANT, .node = -1};
    if (name && !(v.name = arena_strdup(&g->arena, name))) return -1;
    return add_value(g, &v);
}

kiln_status ir_name_value(struct kiln_graph *g, int32_t value, const char *name)
{
    struct ir_value *v = value >= 0 && (size_t)value < g->values.n ? &g->values.v[value] : NULL;
    if (!v || (v->kind != IR_INPUT && v->kind != IR_CONSTANT))
        return error_set(KILN_E_ARGUMENT, "graph: value %d is neither input nor constant and has no name", (int)value);
    char *copy = arena_strdup(&g->arena, name);
    if (!copy) return error_pending;
    v->name = copy;
    return KILN_OK;
}

static int32_t innermost(const struct kiln_graph *g)
{
    return g->open.n ? g->open.v[g->open.n - 1] : -1;
}

int32_t ir_push_node(struct kiln_graph *g, const struct ir_new_node *new)
{
    int32_t after = !new->token ? -1 : *new->token >= 0 ? *new->token : ir_add_token(g);
    if (new->token && after < 0) return -1;
    struct ir_node n = {.op = new->op,
                        .n_in = new->n_in + (after >= 0),
                        .first_in = (int32_t)g->operands.n,
                        .first_out = (int32_t)g->values.n,
                        .n_out = new->n_out,
                        .caller = new->caller,
                        .region = innermost(g),
                        .n_regions = new->n_regions,
                        .first_region = new->n_regions ? new->first_region : 0};
    if (n.op->n_attrs) {
        struct attr *attrs = arena_alloc(&g->arena, sizeof *attrs * n.op->n_attrs);
        if (!attrs) return -1;
        memcpy(attrs, new->attrs, sizeof *attrs * n.op->n_attrs);
        n.attrs = attrs;
    }
    for (int i = 0; i < new->n_in; i++)
        if (vec_push(&g->operands, new->in[i])) return -1;
    if (after >= 0 && vec_push(&g->operands, after)) return -1;
    if (vec_push(&g->nodes, n)) return -1;
    struct ir_value v = {.kind = IR_NODE, .node = (int32_t)g->nodes.n - 1};
    for (v.out = 0; v.out < new->n_out; v.out++) {
        v.type = new->out[v.out];
        if (add_value(g, &v) < 0) return -1;
    }
    if (after < 0) return n.first_out;
    v.type = ir_token_type();
    int32_t made = add_value(g, &v);
    if (made < 0) return -1;
    *new->token = made;
    return n.first_out;
}

int32_t ir_add_node(struct kiln_graph *g, const struct op_call *c, const int32_t *in, uintptr_t caller)
{
    const struct ir_new_node n = {
        .op = c->op, .attrs = c->attrs, .n_in = c->n_in, .in = in, .n_out = c->n_out, .out = c->out, .caller = caller};
    return ir_push_node(g, &n);
}

int32_t ir_add_effect(struct kiln_graph *g, const struct op_call *c, const int32_t *in, int32_t *token,
                      uintptr_t caller)
{
    const struct ir_new_node n = {.op = c->op,
                                  .attrs = c->attrs,
                                  .n_in = c->n_in,
                                  .in = in,
                                  .n_out = c->n_out,
                                  .out = c->out,
                                  .token = token,
                                  .caller = caller};
    if (c->op->flags & OP_EFFECT) return ir_push_node(g, &n);
    error_set(KILN_E_ARGUMENT, "graph: %s has no effect to order", c->op->name);
    return -1;
}

kiln_status ir_add_write(struct kiln_graph *g, int32_t value, int32_t target, const char *name)
{
    struct ir_output o = {value, target, arena_strdup(&g->arena, name)};
    if (!o.name) return error_pending;
    return vec_push(&g->outputs, o);
}

kiln_status ir_add_output(struct kiln_graph *g, int32_t value, const char *name)
{
    return ir_add_write(g, value, -1, name);
}

int32_t ir_add_token(struct kiln_graph *g)
{
    for (size_t i = 0; i < g->values.n; i++)
        if (g->values.v[i].kind == IR_TOKEN) return (int32_t)i;
    struct ir_value v = {.type = ir_token_type(), .kind = IR_TOKEN, .node = -1};
    return add_value(g, &v);
}

static bool is_inlined(const struct ir_node *n)
{
    const struct op_regions_rule *rule = op_regions_rule(n->op);
    return rule && rule->inlined;
}

// The same value before calls: what the region of one gives, what a parameter takes.
static int32_t through_calls(const struct kiln_graph *g, int32_t value)
{
    for (;;) {
        const struct ir_value *v = &g->values.v[value];
        if (v->kind == IR_NODE && is_inlined(&g->nodes.v[v->node])) {
            value = g->operands.v[g->regions.v[g->nodes.v[v->node].first_region].first_result + v->out];
        } else if (v->kind == IR_PARAM && is_inlined(&g->nodes.v[g->regions.v[v->node].owner])) {
            const struct ir_region *r = &g->regions.v[v->node];
            value = ir_operands(g, &g->nodes.v[r->owner])[value - r->first_param];
        } else
            return value;
    }
}

int32_t ir_memory_of(const struct kiln_graph *g, int32_t value)
{
    value = through_calls(g, value);
    while (g->values.v[value].kind == IR_NODE) {
        const struct ir_node *n = &g->nodes.v[g->values.v[value].node];
        if (!(n->op->flags & OP_VIEW)) break;
        value = through_calls(g, ir_operands(g, n)[0]);
    }
    return value;
}

bool ir_may_repeat(const struct kiln_graph *g, int32_t value)
{
    value = through_calls(g, value);
    while (g->values.v[value].kind == IR_NODE) {
        const struct ir_node *n = &g->nodes.v[g->values.v[value].node];
        if (!(n->op->flags & OP_VIEW)) return false;
        int32_t of = through_calls(g, ir_operands(g, n)[0]);
        if (n->op->flags & OP_STORAGE_VIEW || type_numel(&g->values.v[value].type) > type_numel(&g->values.v[of].type))
            return true;
        value = of;
    }
    return false;
}
