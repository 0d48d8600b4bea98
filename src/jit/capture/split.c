// Splitting a joint graph.
//
// Input: a graph whose first nodes are the forward part and whose others make gradients. Output: the forward part, with
// further outputs, and a graph of its own for the others.
//
// A value of the forward part that the backward part uses is saved or made again. It is made again when its op is cheap
// (it computes each element from one of each operand, or moves nothing) and all that it is made of is at hand in the
// backward graph anyway: inputs that keep their values, constants, and values that are saved already. Making it again
// then costs no memory, and inside a fused kernel next to no time. Everything else becomes an output of the forward
// graph, once, as does what a gradient compares with an op's result; on request it is made again, too, random numbers
// by the place of their draw. Nodes are visited from the last to the first, so a value's users are known before it is.
#include "jit/capture/split.h"
#include "ir/graft.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 12

enum mark { UNUSED, NEEDED, SAVED };

struct splitting {
    struct split *s;
    struct kiln_graph *g;
    uint8_t *marks;  // by value
    int32_t *number; // by value: in the backward graph, -1: not there
    bool *compared;  // by value
};

static int source_of(const struct splitting *p, int32_t value)
{
    for (size_t i = 0; i < p->s->n_sources; i++)
        if (p->s->sources[i] == value) return (int)i;
    return -1;
}

static bool is_cheap(const struct op *op)
{
    if (op->flags & (OP_RANDOM | OP_EFFECT) || op_regions_rule(op)) return false;
    return op->flags & (OP_ELEMENTWISE | OP_VIEW | OP_CREATES);
}

// Calls of the host are made once.
static bool is_computed_again(const struct splitting *p, const struct ir_node *n)
{
    return p->s->again && !(n->op->flags & OP_EFFECT) && !ir_node_has_effect(p->g, n);
}

// Whether the backward graph has the value without saving anything more for it.
static bool is_at_hand(const struct splitting *p, int32_t value, int depth)
{
    const struct ir_value *v = &p->g->values.v[value];
    if (v->kind == IR_NUMBER || v->kind == IR_CONSTANT) return true;
    if (v->kind == IR_INPUT) {
        int source = source_of(p, value);
        return source < 0 || !p->s->written[source];
    }
    if (v->kind != IR_NODE || depth == 0) return false;
    const struct ir_node *n = &p->g->nodes.v[v->node];
    if (!is_cheap(n->op)) return p->marks[value] != UNUSED;
    for (int i = 0; i < n->n_in; i++) {
        int32_t in = ir_operands(p->g, n)[i];
        if (in >= 0 && !is_at_hand(p, in, depth - 1)) return false;
    }
    return true;
}

static void need_operands(struct splitting *p, const struct ir_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        int32_t in = ir_operands(p->g, n)[i];
        if (in >= 0 && !p->marks[in]) p->marks[in] = NEEDED;
    }
}

// Values in which the gradient looks for what an op has found there: computed anew, of what was computed anew, they may
// differ from it by their last bits.
static void find_compared(struct splitting *p)
{
    for (size_t i = 0; i < p->s->n_nodes; i++) {
        const struct ir_node *n = &p->g->nodes.v[i];
        for (int k = 0; k < n->n_in && n->op->flags & OP_COMPARES; k++) p->compared[ir_operands(p->g, n)[k]] = true;
    }
}

static void mark(struct splitting *p)
{
    for (size_t i = 0; i < p->s->n_grads; i++)
        if (p->s->grads[i] >= 0) p->marks[p->s->grads[i]] = NEEDED;
    for (size_t i = p->g->nodes.n; i-- > 0;) {
        const struct ir_node *n = &p->g->nodes.v[i];
        bool needed = false, remade = true;
        if (n->region >= 0) continue; // a part of its owner
        for (int k = 0; k < n->n_out; k++) {
            int32_t value = n->first_out + k;
            needed |= p->marks[value] != UNUSED;
            if (p->marks[value] && i < p->s->n_nodes)
                remade &= is_cheap(n->op) && is_at_hand(p, value, DEPTH_MAX) && !p->compared[value];
        }
        if (!needed) continue;
        if (i >= p->s->n_nodes || remade || is_computed_again(p, n)) {
            need_operands(p, n);
            continue;
        }
        for (int k = 0; k < n->n_out; k++)
            if (p->marks[n->first_out + k]) p->marks[n->first_out + k] = SAVED;
    }
    for (size_t i = 0; i < p->g->values.n; i++)
        if (p->marks[i] && p->g->values.v[i].kind == IR_INPUT && source_of(p, (int32_t)i) >= 0) p->marks[i] = SAVED;
}

static kiln_status copy_leaf(struct splitting *p, int32_t value)
{
    const struct ir_value *v = &p->g->values.v[value];
    struct kiln_graph *b = p->s->backward;
    p->number[value] = v->kind == IR_NUMBER ? ir_add_number(b, &v->type, v->number, v->integer)
                                            : ir_add_constant(b, &v->type, v->held);
    return p->number[value] < 0 ? error_pending : KILN_OK;
}

static kiln_status add_saved(struct splitting *p, int32_t value)
{
    struct split *s = p->s;
    struct ir_value *v = &p->g->values.v[value];
    int source = v->kind == IR_INPUT ? source_of(p, value) : -1;
    struct saved *to = &s->saved[s->n_saved];
    char name[32];
    snprintf(name, sizeof name, "saved%zu", s->n_saved++);
    struct type type = v->type;
    type.weak = v->kind == IR_INPUT && type.weak;
    p->number[value] = ir_add_input(s->backward, &type, name);
    if (p->number[value] < 0) return error_pending;
    *to = (struct saved){source, -1, type};
    if (source >= 0 && !s->written[source]) return KILN_OK;
    to->source = -1;
    to->output = 0;
    for (size_t i = 0; i < p->g->outputs.n; i++) {
        if (p->g->outputs.v[i].target >= 0) continue;
        if (p->g->outputs.v[i].value == value) return KILN_OK;
        to->output++;
    }
    return ir_add_output(p->g, value, name);
}

// What is saved stands for what the node gives of it.
static kiln_status copy_node(struct splitting *p, int32_t node)
{
    const struct ir_node *n = &p->g->nodes.v[node];
    struct ir_graft graft = {p->g, p->s->backward, p->number};
    int32_t few[OP_MAX_OUT], *kept = n->n_out > OP_MAX_OUT ? malloc(sizeof *kept * (size_t)n->n_out) : few;
    if (!kept) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (int i = 0; i < n->n_out; i++) kept[i] = p->number[n->first_out + i];
    kiln_status status = ir_graft_node(&graft, node);
    for (int i = 0; i < n->n_out; i++)
        if (p->marks[n->first_out + i] == SAVED) p->number[n->first_out + i] = kept[i];
    if (kept != few) free(kept);
    return status;
}

static kiln_status add_inputs(struct splitting *p)
{
    for (size_t i = 0; i < p->s->n_douts; i++) {
        int32_t value = p->s->douts[i];
        const struct ir_value *v = &p->g->values.v[value];
        p->number[value] = ir_add_input(p->s->backward, &v->type, v->name);
        if (p->number[value] < 0) return error_pending;
    }
    for (size_t i = 0; i < p->g->values.n; i++) {
        uint8_t kind = p->g->values.v[i].kind;
        if (p->marks[i] == SAVED)
            TRY(add_saved(p, (int32_t)i));
        else if (p->marks[i] && (kind == IR_NUMBER || kind == IR_CONSTANT))
            TRY(copy_leaf(p, (int32_t)i));
    }
    return KILN_OK;
}

static kiln_status build(struct splitting *p)
{
    TRY(add_inputs(p));
    for (size_t i = 0; i < p->g->nodes.n; i++) {
        const struct ir_node *n = &p->g->nodes.v[i];
        bool needed = false;
        for (int k = 0; k < n->n_out; k++) needed |= p->marks[n->first_out + k] == NEEDED;
        if (needed && n->region < 0) TRY(copy_node(p, (int32_t)i));
    }
    for (size_t i = 0; i < p->s->n_grads; i++)
        if (p->s->grads[i] >= 0) TRY(ir_add_output(p->s->backward, p->number[p->s->grads[i]], "grad"));
    p->g->nodes.n = p->s->n_nodes;
    p->g->values.n = p->s->n_values;
    p->g->operands.n = p->s->n_operands;
    p->g->regions.n = p->s->n_regions;
    return KILN_OK;
}

kiln_status split_graph(struct kiln_graph *g, struct split *s)
{
    size_t n = g->values.n + 1;
    struct splitting p = {s, g, calloc(n, 1), malloc(n * sizeof(int32_t)), calloc(n, 1)};
    s->backward = ir_graph_create();
    s->saved = calloc(n, sizeof *s->saved);
    s->n_saved = 0;
    kiln_status status = s->backward ? KILN_OK : error_pending;
    if (!status && (!p.marks || !p.number || !p.compared || !s->saved))
        status = error_set(KILN_E_MEMORY, "jit: out of memory");
    if (!status) {
        memset(p.number, -1, n * sizeof *p.number);
        find_compared(&p);
        mark(&p);
        status = build(&p);
    }
    free(p.marks);
    free(p.number);
    free(p.compared);
    if (!status) return KILN_OK;
    ir_graph_destroy(&s->backward);
    free(s->saved);
    s->saved = NULL;
    return status;
}
