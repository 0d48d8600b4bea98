// The graph IR: values with types, nodes that make them. Each value is defined once, before its uses, so the order of
// nodes is an order of execution.
//
// Nodes and values lie in two arrays and name each other by index. Control flow hangs on a node as regions: each is a
// run of nodes of the same array, just before the node that owns it, with parameters and results of its own; a node
// says which region it is in. Nodes inside may use values of the regions around them.
//
// Effects (writes, prints, random draws) are ordered by tokens: a node with OP_EFFECT takes a token as its last operand
// and makes one as its last output, so that effects form a chain from the graph's entry token.
//
// Types hold numbers. A dimension that may differ from call to call is marked with a symbol beside its number, which is
// then the size that was seen.
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
    IR_PARAM,    // of a region
    IR_TOKEN,    // what the first effect follows
};

// The dtype of tokens, beyond those of tensors; rank 0.
#define DTYPE_TOKEN 15

struct ir_value {
    struct type type;
    uint8_t kind;
    uint8_t out;      // which output of the node
    int32_t node;     // IR_NODE; IR_PARAM: the region
    const char *name; // inputs; NULL for others
    double number;    // IR_NUMBER
    int64_t integer;
    const void *held;       // IR_CONSTANT
    const int16_t *symbols; // type.rank entries, 0 or 1 + index into kiln_graph.symbols; NULL: all sizes are fixed
};

struct ir_node {
    const struct op *op;
    int32_t n_in, first_in;          // in kiln_graph.operands; -1 there: an optional input that is absent
    int32_t first_out;               // values first_out .. first_out + op->n_out - 1
    const struct attr *attrs;        // op->n_attrs
    uintptr_t caller;                // address of the call, for messages; 0: unknown
    int32_t region;                  // in which the node lies; -1: none
    int32_t n_regions, first_region; // that it owns
};

struct ir_region {
    int32_t owner;                   // node
    int32_t first_param, n_params;   // values
    int32_t first_node, n_nodes;     // nested regions' nodes among them
    int32_t first_result, n_results; // in kiln_graph.operands
};

struct ir_symbol {
    const char *name; // "s0"
    int64_t size;     // as seen when the graph was made
};

// What a graph gives: a result, or the new value of something that it was given (a parameter, an input written in
// place), which is written back in the order of outputs when all results are known.
struct ir_output {
    int32_t value;
    int32_t target; // -1: a result; else the input or constant that takes the value
    const char *name;
};

struct kiln_graph {
    struct arena arena;
    VEC(struct ir_value) values;
    VEC(struct ir_node) nodes;
    VEC(int32_t) operands;
    VEC(struct ir_output) outputs;
    VEC(struct ir_region) regions;
    VEC(struct ir_symbol) symbols;
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
kiln_status ir_add_write(struct kiln_graph *g, int32_t value, int32_t target, const char *name);
int32_t ir_add_token(struct kiln_graph *g); // the entry token, the same number each time

static inline const int32_t *ir_operands(const struct kiln_graph *g, const struct ir_node *n)
{
    return g->operands.v + n->first_in;
}

// `%3: f32[2,3] = mul(%1, %2)`, one line a value; the outputs follow after `return`.
void ir_graph_text(const struct kiln_graph *g, struct str *s);
void ir_graph_dot_text(const struct kiln_graph *g, struct str *s);
