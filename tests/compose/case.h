// Cases of ops: how each is called, on what, and what it must give. drive.c runs a case on a device in each dtype and
// layout that it takes, eagerly and in each kind of capture between two cheap ops, against its reference, and its
// gradients against differences.
#pragma once
#include "conformance/suite.h"
#include "reference/structured.h"
#include <kiln/composites.h>

enum { CASE_INPUTS = 6, CASE_OUTPUTS = 4 };

enum case_dtypes {
    IN_F32 = 1,
    IN_F64 = 2,
    IN_HALF = 4, // f16, bf16
    IN_INTEGERS = 8,
    IN_BOOL = 16,
    IN_WIDE = IN_F32 | IN_F64,
    IN_FLOATS = IN_WIDE | IN_HALF,
    IN_NUMBERS = IN_FLOATS | IN_INTEGERS,
};

struct op_case {
    const char *op, *note;
    // One word an input: its shape, "2x3", "-" for rank 0, of the dtype under test; behind a letter of another:
    // "i2x3<5" i64 from 0 to 4, "n2x3<5" from -5 to 4, "b2x3" bool, "d2x3" f64, "s2x3" f32.
    const char *inputs;
    unsigned dtypes;                                         // enum case_dtypes: of the inputs without a letter
    void (*call)(kiln_tensor *const *in, kiln_tensor **out); // errors are left pending
    // The exact results, made by host_new with their dtypes. The driver frees them.
    void (*expect)(const struct host *in, struct host *out);
    int n_out;       // 0: one
    double lo, hi;   // of floats; 0, 0: [-2, 2)
    double units;    // how many units of rounding a float result may be off, at the size of the output's largest value
    int order;       // of the derivatives that are compared with differences; 0: none
    bool by_values;  // sizes of results depend on values: no STRICT capture
    bool no_capture; // eager only; say why beside it
};

struct case_family {
    const char *name;
    const struct op_case *cases;
    size_t n;
};
#define FAMILY_OF(name) \
    const struct case_family name##_family = {#name, name##_cases, sizeof name##_cases / sizeof name##_cases[0]}

// The reference's own helpers: an element of a host tensor by its index.
static inline long double host_get(const struct host *h, const int64_t *at)
{
    int64_t i = ravel(h->rank, h->dims, at);
    return i < 0 ? 0 : h->v[i];
}

void drive_case(const struct op_case *c); // records mistakes
