// The scalar language: one expression text becomes one typed DAG, and the DAG becomes host values, GLSL, C,
// derivatives. This header is the whole interface of the layer.
//
// Grammar (whitespace free, C-like precedence):
//   program := { name '=' expr ';' } expr          each binding is usable below it; no rebinding
//   expr    := or ['?' expr ':' expr]
//   or .. mul := the usual binary levels: || ^^ && | ^ & == != < <= > >= << >> + - * /
//   unary   := ('-' | '!' | '~') unary | atom
//   atom    := number | name | name '(' expr {',' expr} ')' | '(' expr ')'
// A number is weak: it takes the class of what it meets, else the class of the program. `inf`, `nan`, `pi` are
// numbers. Names are the parameters given to scalar_parse, earlier bindings, primitives, library functions and
// reductions. Types never mix silently: f32(x), f64(x), i32(x), i64(x), bool(x) convert.
#pragma once
#include "base/base.h"
#include "base/arena.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

// Compute classes. f16 and bf16 compute in f32; i8, i16, u8 in i32 (and wrap at the store).
enum scalar_class { CLASS_F32, CLASS_F64, CLASS_I32, CLASS_I64, CLASS_BOOL, CLASS_COUNT };

union scalar_value {
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;
    uint8_t b;
    uint64_t bits;
};

// The last three are made by fusion, never by the parser: they speak of the iteration space of a fused kernel.
enum scalar_kind {
    SCALAR_CONST,
    SCALAR_INPUT,
    SCALAR_PRIM,
    SCALAR_LIB,
    SCALAR_REDUCE,
    SCALAR_LOAD, // code: an access of the kernel; arg[0], if any: i64 elements beyond it; arg[1], if any: read only
                 // where this bool holds, else the value is 0
    SCALAR_DIM,  // code: a dimension; the i64 index of the point along it
    SCALAR_SIZE  // code: a dimension; its i64 size
};

// How a reduction over the row folds; only kernels with a reduced dimension may hold one.
enum scalar_reduce {
#define REDUCE(id, ...) REDUCE_##id,
#define IDENTITY(...)
#include "scalar/reduce.def"
#undef REDUCE
#undef IDENTITY
    REDUCE_COUNT,
    REDUCE_ACROSS = 0x100 // flag, fused kernels only: over the parallel dimensions, of a row value
};

struct scalar_node {
    enum scalar_kind kind;
    enum scalar_class cls; // class of the value
    uint16_t code;         // INPUT: parameter index; PRIM: enum scalar_prim; LIB: row of lib.def; REDUCE: which one;
                           // else see enum scalar_kind
    uint8_t n_args;
    uint16_t arg[3];          // indices of earlier nodes: the array is in topological order
    union scalar_value value; // SCALAR_CONST
};

// Hash-consed, topologically ordered, owned by the arena given to scalar_parse.
struct scalar_dag {
    const struct scalar_node *nodes;
    int n_nodes;
    int root;
};

struct scalar_param {
    const char *name;
    enum scalar_class cls;
};

// Parses `text`. `cls` is the program's class: weak numbers fall to it. On a mistake: KILN_E_ARGUMENT, and the message
// shows the text and the position. scalar_reduce functions are named rsum, rprod, rmax, rmin, rany, rall, rargmax,
// rargmin; `rindex()` is the element's position along the row (i64), `rcount()` the row's length (i64).
kiln_status scalar_parse(struct arena *a, const char *text, const struct scalar_param *params, int n_params,
                         enum scalar_class cls, struct scalar_dag *out);

// Replaces library calls by their expressions (repeatedly, until none is left). Fails with KILN_E_UNSUPPORTED when a
// library function has no expression for a class.
kiln_status scalar_expand(struct arena *a, const struct scalar_dag *in, struct scalar_dag *out);
bool scalar_has_lib(const struct scalar_dag *d);                              // any library call left
bool scalar_has_lib_class(const struct scalar_dag *d, enum scalar_class cls); // a library call computed in that class
uint32_t scalar_used_params(const struct scalar_dag *d);                      // bit i: parameter i is read

// The value of an expanded or unexpanded DAG without reductions, with the semantics every device has
// (docs: scalar semantics). `in` has one value a parameter.
union scalar_value scalar_eval(const struct scalar_dag *d, const union scalar_value *in);

// The same over n elements, for a device without a compiler: an expanded DAG runs block by block, one node after the
// other, each in a vectorised loop; the bits are those of scalar_eval. in[i] is the packed array of parameter i in its
// class (a bool is a byte), NULL for a parameter that is not read; `out` may be one of them. `scratch` has
// scalar_block_scratch_B bytes, aligned to 64, and belongs to one thread at a time.
size_t scalar_block_scratch_B(const struct scalar_dag *d);
void scalar_eval_block(const struct scalar_dag *d, const void *const *in, void *out, int64_t n, void *scratch);

// d(root)/d(param) times dy, where dy is an extra parameter with index `dy_param` (class of the root). Library calls
// use the gradient of their row, and are an error where the row has none; a primitive without derivative (floor,
// compare, bit operations) gives 0. Fails with KILN_E_UNSUPPORTED where the path leads through a reduction.
kiln_status scalar_diff(struct arena *a, const struct scalar_dag *d, int param, int dy_param, struct scalar_dag *out);

// Emission: one statement a node, through the target. Temporaries are named t<N>, N the node's index, so that text is
// stable. The caller gives the spelling of inputs and of reductions (row kernels); see codegen.
// TARGET_LLVM has spellings only: its emitter builds instructions, no text.
enum scalar_target { TARGET_GLSL, TARGET_C, TARGET_LLVM };
struct scalar_emit {
    enum scalar_target target;
    const char *indent;
    // Writes the expression for an input, rindex/rcount or a reduction's result; `user` is the caller's.
    void (*leaf)(struct str *s, const struct scalar_dag *d, int node, void *user);
    void *user;
    const uint8_t *skip; // skip[i] != 0: node i is already in scope under its name (may be NULL)
    const uint8_t *want; // only nodes with want[i] != 0 are emitted (may be NULL: all that root needs)
    bool usual;          // rare(c, a, b) is b: the caller knows that no element is a rare case
    char name;           // the letter of temporaries, but of those in scope (0: t)
    // GLSL: not NULL: what only rare cases need stands in a block of theirs, and within[i] is set where the name of
    // node i does not leave one. read[i] != 0: more than nodes read node i (may be NULL: only the root).
    uint8_t *within;
    const uint8_t *read;
    // Not NULL: names have this type whatever their class, and this spells primitives, in a, b, c.
    const char *type;
    const char *(*text)(uint16_t prim);
};
void scalar_emit(struct str *s, const struct scalar_dag *d, const struct scalar_emit *e);
// How an expression refers to a node after scalar_emit: its name, or the literal of a constant (constants get no name,
// a constant root excepted). A REDUCE node is emitted as its leaf; what it reduces belongs to an earlier statement.
void scalar_emit_ref(struct str *s, enum scalar_target target, const struct scalar_dag *d, int node);
// Text that every generated GLSL (or C) file needs once before the first kernel: helper functions of the primitives.
const char *scalar_prelude(enum scalar_target target);
const char *scalar_dtypes_glsl(void); // the table of dtypes for shaders: DTYPE_F16, is_byte(dtype) and the like
const char *scalar_class_type(enum scalar_target target, enum scalar_class cls); // "float", "int64_t", ...
const char *scalar_class_name(enum scalar_class cls);                            // "f32", ...

// Walking a DAG as public operations (further derivatives in eager mode): names of what a node computes.
const char *scalar_prim_name(uint16_t prim); // as written in the language: "add" for '+', "select", "sqrt", ...
const char *scalar_lib_name(uint16_t lib);
// The op row that computes this node, e.g. "add", "where", "exp"; NULL when none does.
const char *scalar_node_op(const struct scalar_node *n);
