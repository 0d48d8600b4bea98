// Values that are one known number everywhere, and what ops make of them on the host. The arithmetic is that of the
// kernels: an operand is converted from its storage to the compute class, the row's expression is evaluated there, the
// result is rounded or wrapped into the storage of the result.
#pragma once
#include "ir/graph.h"
#include "scalar/scalar.h"

struct known {
    bool is;
    bool weak;     // a number of the graph: number and integer hold
    uint8_t dtype; // of a tensor: v holds, in the class of the dtype, as it is stored
    union scalar_value v;
    double number;
    int64_t integer;
};

struct known known_number(const struct ir_value *v);  // of kind IR_NUMBER
struct known known_real(uint8_t dtype, double value); // as `full` stores it
// Whether a load would have to see the bits as unsigned ones.
bool known_needs_sign(const struct known *k, enum scalar_class cls);
union scalar_value known_load(const struct known *k, enum scalar_class cls);
struct known known_store(union scalar_value v, enum scalar_class cls, uint8_t dtype);
// The double that `full` turns back into the same bits; false where there is none (large i64).
bool known_as_double(const struct known *k, double *out);

// The row's expression in a class, over its inputs, then its parameters. KILN_E_UNSUPPORTED where it has none.
kiln_status known_expression(struct arena *a, const struct op *op, enum scalar_class cls, struct scalar_dag *out);
// An elementwise op whose inputs are known; `c` after infer. out->is stays false where there is nothing to evaluate.
kiln_status known_elementwise(const struct op_call *c, const struct known *in, struct known *out);
