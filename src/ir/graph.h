// The graph IR: values with types, nodes that make them. Each value is defined once, before its uses, so the order of
// nodes is an order of execution.
//
// Kept simple on purpose: nodes and values lie in two arrays and name each other by index. Control flow will hang on a
// node as regions, each a list of nodes of the same arrays with parameters and results of its own; the field for them
// belongs into struct ir_node.
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "ir/op.h"

enum ir_value_kind {
    IR_NODE,     // made by a node
    IR_INPUT,    // given to the graph; has a name
    IR_NUMBER,   // a weak scalar
    IR_CONSTANT, // a tensor that is there already; `held` is whoever builds' to interpret
};

struct ir_value {
    struct type type;
    uint8_t kind;
    uint8_t out;      // which output of the node
    int32_t node;     // IR_NODE
    const char *name; // inputs; NULL for others
    double number;    // IR_NUMBER
    int64_t integer;
    const void *held; // IR_CONSTANT
};

struct ir_node {
    const struct op *op;
    int32_t n_in, first_in;   // in kiln_graph.operands; -1 there: an optional input that is absent
    int32_t first_out;        // values first_out .. first_out + op->n_out - 1
    const struct attr *attrs; // op->n_attrs
    uintptr_t caller;         // address of the call, for messages; 0: unknown
};

struct ir_output {
    int32_t value;
    const char *name;
};

struct kiln_graph {
    struct arena arena;
    VEC(struct ir_value) values;
    VEC(struct ir_node) nodes;
    VEC(int32_t) operands;
    VEC(struct ir_output) outputs;
};

// What builds a graph. Handles of abstract tensors point to it, so it outlives them.
struct ir_builder {
    struct kiln_graph *graph;
};

struct kiln_graph *ir_graph_create(void);
void ir_graph_destroy(struct kiln_graph **g);

// Each returns the value's number, or -1 with an error. Names are copied.
int32_t ir_add_input(struct kiln_graph *g, const struct type *type, const char *name);
int32_t ir_add_number(struct kiln_graph *g, const struct type *type, double number, int64_t integer);
int32_t ir_add_constant(struct kiln_graph *g, const struct type *type,
                        const void *held); // the same number for the same `held`
// The first of the outputs, whose types are c->out. `in`: n_in value numbers.
int32_t ir_add_node(struct kiln_graph *g, const struct op_call *c, const int32_t *in, uintptr_t caller);
kiln_status ir_add_output(struct kiln_graph *g, int32_t value, const char *name);

static inline const int32_t *ir_operands(const struct kiln_graph *g, const struct ir_node *n)
{
    return g->operands.v + n->first_in;
}

// `%3: f32[2,3] = mul(%1, %2)`, one line a value; the outputs follow after `return`.
void ir_graph_text(const struct kiln_graph *g, struct str *s);
void ir_graph_dot_text(const struct kiln_graph *g, struct str *s);
