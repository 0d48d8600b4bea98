// The columns of elementwise.def. Everything about an elementwise op is derived from its row: the public function and
// its documentation, type rule, kernels of every class, host folding, gradient, tests, benchmark case.
#pragma once
#include "ir/op.h"
#include "ops/families.h"
#include "scalar/number.h"
#include "scalar/scalar.h"

enum elementwise_type {
    TYPE_NUMERIC, // integers and floats, bool where the row has .bexpr; the result has the promoted dtype
    TYPE_FLOAT,   // integers and bool become f32 first
    TYPE_REAL,    // as NUMERIC; on integers the identity (floor, round …)
    TYPE_COMPARE, // any two, promoted; the result is bool
    TYPE_LOGICAL, // any, taken as "not zero"; the result is bool
    TYPE_BITWISE, // integers and bool
    TYPE_INTEGER, // integers
    TYPE_TEST,    // integers and floats; the result is bool
    TYPE_SELECT,  // bool, then two promoted operands of any dtype
};

#define ELEMENTWISE_MAX_IN     3
#define ELEMENTWISE_MAX_PARAMS 3

// What an op is where its second operand is a number: another op of the first alone.
struct op_at {
    double number;
    uint16_t op; // enum op_index
};
#define ELEMENTWISE_MAX_AT 3

struct op_elementwise {
    uint8_t type;                                   // enum elementwise_type
    const char *expr;                               // over x (unary), a, b, c (more), and the params
    const char *iexpr, *bexpr;                      // for i32 and i64, for bool; default: expr
    const char *grad[ELEMENTWISE_MAX_IN];           // over the inputs, y, dy and the params; NULL: zero
    const char *params[ELEMENTWISE_MAX_PARAMS + 1]; // run-time scalars, positional doubles of the public function
    const char *in[ELEMENTWISE_MAX_IN];             // names for users; default: x, or a, b, c
    const char *call;                               // "bac": the order of the public function; default: the row's
    uint16_t flags;                                 // OP_COMMUTES, OP_ZERO_GRAD …
    double domain[ELEMENTWISE_MAX_IN][2];           // where tests and benchmarks draw from; {0, 0}: [-3, 3]
    float ulp[2];                                   // bound against an exact result, f32 and f64; 0: exact
    const char *alias;                              // MindSpore's name
    const char *also;                               // a second public name (array API), or NULL
    const char *was;                                // its name before, deprecated; files may have it
    const char *onnx;                               // ONNX ops that it is, see struct structured_row
    const char *doc;
    uint8_t u64; // enum op_u64
    uint8_t n_at;
    struct op_at at[ELEMENTWISE_MAX_AT]; // the first n_at
    uint8_t condition_mask;              // made by the build: bit i: input i is bool whatever the others are
    // Hidden gradient rows only (made by the build): the op and the input they differentiate.
    const char *source_op;
    int16_t source_input;
};

// Row as written in the table.
struct elementwise_row {
    const char *name;
    uint8_t n_in;
    struct op_elementwise e;
};
extern const struct elementwise_row elementwise_rows[];
extern const int elementwise_row_count;

extern const struct op_functions elementwise_functions;
// Type rule of an elementwise op: promotion, broadcasting, weak scalars.
kiln_status elementwise_infer(struct op_call *c);
kiln_status elementwise_lower(const struct op_call *c, struct lowering *lo);
