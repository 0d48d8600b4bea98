// The graph IR: values with types, nodes that make them. Each value is defined once, before its uses, so the order of
// nodes is an order of execution.
//
// Nodes and values lie in two arrays and name each other by index. Control flow hangs on a node as regions: each is a
// run of nodes of the same array, just before the node that owns it, with parameters and results of its own; a node
// says which region it is in. Nodes inside may use values of the regions around them.
//
// Effects of the host (prints, assertions, calls: OP_HOST, see host.h) happen in the order in which their nodes stand,
// which no pass changes. Writes are outputs, random draws have their places in the stream as attributes. Beside them
// there are tokens, which no op of the table uses: a node with OP_EFFECT takes a token as its last operand and makes
// one as its last output, a chain from the graph's entry token; a region has its own, from a parameter that is a token.
// The op's row counts neither. Of ops with regions `switch` and `loop` are control flow, and `call` is for tests.
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
    int32_t out;      // which output of the node
    int32_t node;     // IR_NODE; IR_PARAM: the region
    const char *name; // inputs, and constants that have one; NULL for others
    double number;    // IR_NUMBER
    int64_t integer;
    const void *held;       // IR_CONSTANT
    const int16_t *symbols; // type.rank entries, 0 or 1 + index into kiln_graph.symbols; NULL: all sizes are fixed
};

struct ir_node {
    const struct op *op;
    int32_t n_in, first_in;          // in kiln_graph.operands; -1 there: an optional input that is absent
    int32_t first_out;               // values first_out .. first_out + ir_node_outputs(n) - 1
    int32_t n_out;                   // op->n_out, or what its regions give; without the token of an effect
    const struct attr *attrs;        // op->n_attrs
    uintptr_t caller;                // address of the call, for messages; 0: unknown
    int32_t region;                  // in which the node lies; -1: none
    int32_t n_regions, first_region; // that it owns
};

struct ir_region {
    int32_t owner;                   // node
    int32_t first_param, n_params;   // values; without parameters, where the region's values begin
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
    VEC(int32_t) open; // regions that are being built, innermost last
    VEC(int32_t) held; // constants by what they hold, a hash table: 1 + value, or 0
    size_t n_held;
};

// What builds a graph. Handles of abstract tensors point to it, so it outlives them.
struct ir_builder {
    struct kiln_graph *graph;
};

// Elements that a value may have, sizes of 0 taken as 1: sums and small multiples of sizes do not overflow.
#define IR_MAX_NUMEL ((int64_t)1 << 48)
enum {
    IR_MAX_DEPTH = 64,    // regions inside each other
    IR_MAX_SYMBOLS = 256, // of a graph
    IR_MAX_NAME = 4096,   // bytes of a name
};

struct kiln_graph *ir_graph_create(void);
void ir_graph_destroy(struct kiln_graph **g);
size_t ir_graph_size_B(const struct kiln_graph *g); // the memory that it takes

// Each returns the value's number, or -1 with an error. Names are copied.
int32_t ir_add_input(struct kiln_graph *g, const struct type *type, const char *name);
int32_t ir_add_number(struct kiln_graph *g, const struct type *type, double number, int64_t integer);
int32_t ir_add_constant(struct kiln_graph *g, const struct type *type,
                        const void *held); // the same number for the same `held`
// A constant whose data are bound later, by its name; NULL: it has none. A new number each time.
int32_t ir_add_named_constant(struct kiln_graph *g, const struct type *type, const char *name);
kiln_status ir_name_value(struct kiln_graph *g, int32_t value, const char *name); // an input or a constant
// A node as it is added, in the innermost region that is open.
struct ir_new_node {
    const struct op *op;
    const struct attr *attrs; // op->n_attrs, copied
    int n_in, n_out;          // without tokens
    const int32_t *in;
    const struct type *out;
    int32_t *token; // NULL: no effect; else as in ir_add_effect
    uintptr_t caller;
    int32_t first_region;
    int n_regions;
};
int32_t ir_push_node(struct kiln_graph *g, const struct ir_new_node *n); // the first of its outputs
// The first of the outputs, whose types are c->out. `in`: n_in value numbers.
int32_t ir_add_node(struct kiln_graph *g, const struct op_call *c, const int32_t *in, uintptr_t caller);
// A node with OP_EFFECT; c has no tokens. Follows *token, or the entry token when that is -1, and puts the node's own
// there. Returns the first output: the token where the op has no other.
int32_t ir_add_effect(struct kiln_graph *g, const struct op_call *c, const int32_t *in, int32_t *token,
                      uintptr_t caller);
kiln_status ir_add_output(struct kiln_graph *g, int32_t value, const char *name);
kiln_status ir_add_write(struct kiln_graph *g, int32_t value, int32_t target, const char *name);
int32_t ir_add_token(struct kiln_graph *g); // the entry token, the same number each time

// Regions are built before the node that owns them:
//     int32_t first = ir_add_regions(g, 2);
//     for each of the two: ir_region_begin(g, first + i), ir_add_param..., nodes..., ir_region_end(g, results, n);
//     ir_add_region_node(g, &call, in, NULL, caller, first, 2);
// Nodes that are added between begin and end lie in the region; regions nest up to IR_MAX_DEPTH.
// `token` is for a node with OP_EFFECT, as in ir_add_effect; NULL for others. The outputs are those that the op's rule
// gives for the regions; where it has none, c->out.
int32_t ir_add_regions(struct kiln_graph *g, int n); // the first, or -1 with an error
kiln_status ir_region_begin(struct kiln_graph *g, int32_t region);
int32_t ir_add_param(struct kiln_graph *g, const struct type *type); // before the region's first node
kiln_status ir_region_end(struct kiln_graph *g, const int32_t *results, int n);
int32_t ir_add_region_node(struct kiln_graph *g, const struct op_call *c, const int32_t *in, int32_t *token,
                           uintptr_t caller, int32_t first_region, int n_regions);

// Whether a node is an effect of the host's, or has one in a region.
bool ir_node_has_effect(const struct kiln_graph *g, const struct ir_node *n);
bool ir_node_draws(const struct ir_node *n);                      // itself, of the numbers of the run
bool ir_region_draws(const struct kiln_graph *g, int32_t region); // random numbers of the run

// A symbol's number, the same for the same name; -1 with an error when its size was another. A name is a word.
int32_t ir_add_symbol(struct kiln_graph *g, const char *name, int64_t size);
kiln_status ir_mark_symbol(struct kiln_graph *g, int32_t value, int dim, int32_t symbol);

static inline const int32_t *ir_operands(const struct kiln_graph *g, const struct ir_node *n)
{
    return n->n_in ? g->operands.v + n->first_in : NULL; // a graph may have no operands at all
}
// The value in whose memory another lies: what it is a view of, or itself.
int32_t ir_memory_of(const struct kiln_graph *g, int32_t value);
// Whether it may show an element of that memory several times, as views of what was expanded do.
bool ir_may_repeat(const struct kiln_graph *g, int32_t value);
// The token of an effect counted.
static inline int ir_node_outputs(const struct ir_node *n)
{
    return n->n_out + !!(n->op->flags & OP_EFFECT);
}
static inline bool ir_is_token(const struct type *t)
{
    return t->dtype == DTYPE_TOKEN;
}
// In which region a value is defined; -1: it is seen everywhere.
static inline int32_t ir_value_region(const struct kiln_graph *g, const struct ir_value *v)
{
    return v->kind == IR_NODE ? g->nodes.v[v->node].region : v->kind == IR_PARAM ? v->node : -1;
}
static inline struct type ir_token_type(void)
{
    return (struct type){.dtype = DTYPE_TOKEN};
}

// `%3: f32[2,3] = mul(%1, %2)`, one line a value; the outputs follow after `return`. The whole grammar is in
// docs/guide/graphs.md. ir_parse reads back exactly what was written: numbers of values, order, names, bits of floats.
// Not written are the data of constants and the addresses of callers. The graph must pass ir_verify.
void ir_graph_text(const struct kiln_graph *g, struct str *s);
void ir_graph_file_text(const struct kiln_graph *g, struct str *s);         // the same with the line `kiln 1` first
void ir_node_text(const struct kiln_graph *g, int32_t node, struct str *s); // its line, without regions
void ir_graph_dot_text(const struct kiln_graph *g, struct str *s);

// The graph that a text describes, verified; NULL with an error "name:line:column: ...". The text may come from
// anywhere: what memory and time it takes is linear in its size, and sizes have bounds. `name` is for messages.
struct kiln_graph *ir_parse(const char *text, size_t size_B, const char *name);
// The same where symbols have other sizes than were seen; those that are not named here have those.
struct ir_size {
    const char *name;
    int64_t size;
};
struct ir_sizes {
    size_t n;
    const struct ir_size *v;
};
struct kiln_graph *ir_parse_sized(const char *text, size_t size_B, const char *name, const struct ir_sizes *sizes);

// Whether a graph keeps the rules of this file: KILN_E_FORMAT, or what an op's infer says, with the text of the node.
// The arrays of g must be arrays and its pointers valid; all numbers in them are checked.
kiln_status ir_verify(const struct kiln_graph *g);
kiln_status ir_verify_node_of(const struct kiln_graph *g, int32_t *node); // the same; *node: the one at fault, or -1

// Whether two graphs compute the same in the same order. Ignored: names, numbers of values, callers, whose data a
// constant holds. Equal graphs have equal hashes, in each process the same. Both graphs must pass ir_verify. When
// memory is out, false and 0 with an error.
bool ir_graph_equal(const struct kiln_graph *a, const struct kiln_graph *b);
uint64_t ir_graph_hash(const struct kiln_graph *g);
// What a graph is, as bytes: not its names, callers and the data of its constants.
enum ir_detail {
    IR_NO_SIZES, // nor sizes, nor numbers that the host may have made of them
    IR_ALIKE,    // but for which sizes are 0, 1, or as large as others near them, and which numbers are special
    IR_ALL,      // with all of them
};
void ir_graph_form(const struct kiln_graph *g, enum ir_detail detail, struct str *out);
