// The library functions of the scalar language: rows of lib.def.
#pragma once
#include "base/nearest.h"
#include "scalar/scalar.h"

enum scalar_lib {
#define LIB(name, ...) LIB_##name,
#include "scalar/lib.def"
    LIB_COUNT
};

// A function takes one to three arguments of one class and gives a value of that class. Its parameters are called x, or
// a, b, c when there are several; gradient expressions see also the result y and the gradient dy of the result.
struct scalar_lib_row {
    const char *name;
    const char *op;                // the op row of the same meaning; NULL: the name is the op
    const char *expr[CLASS_COUNT]; // NULL: not offered for that class
    const char *grad[3];           // NULL: taking a derivative is an error
    double ulp_f32, ulp_f64;       // bound of the error in units of the last place; 0: exact, or stated in `doc`
    double low, high;              // where tests sample the first argument; both 0: everywhere
    uint8_t arity;
    bool hidden; // a building block of other rows, no op of its own
    const char *doc;
};

const struct scalar_lib_row *scalar_lib_row(uint16_t lib);
void scalar_lib_nearest(struct nearest *n);           // tries the names of all
int scalar_lib_find(const char *name, size_t length); // -1: no such function
// The row as a DAG without library calls, parsed once and kept for the life of the process. NULL (error set) when the
// row has no expression for the class. Safe from any thread.
const struct scalar_dag *scalar_lib_dag(uint16_t lib, enum scalar_class cls);
