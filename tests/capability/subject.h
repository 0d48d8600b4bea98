// What eager mode and captures have to agree on (row 11): every op of the tables, elementwise rows several at a time,
// structured ones by the cases of ../grad/grad_cases.def and own_cases.def.
#pragma once
#include "capability.h"
#include "ir/op.h"

enum { OUTPUTS = 8, SUBJECT_INPUTS = 3 * OUTPUTS + 1 };

struct row_case;
// A function of n_in inputs, the last one an i64 zero that makes indices depend on an input, with n_out results.
struct subject {
    char name[96];
    kiln_fn fn; // its user data is the subject
    size_t n_in, n_out;
    const struct op *rows[OUTPUTS]; // of each result
    size_t first[OUTPUTS + 1];      // of each row: where its inputs begin; the last: where they end
    const struct row_case *c;       // of a structured op
};

void subject_inputs(const struct subject *s, kiln_device *dev, kiln_dtype dtype, kiln_tensor **in);
// Calls fn with each subject that there is for inputs of this dtype; returns how many rows they are of. An op that no
// subject calls fails the test.
int for_each_subject(kiln_device *dev, kiln_dtype dtype, void (*fn)(kiln_device *dev, kiln_dtype d, struct subject *s));

bool is_subject_elsewhere(const struct op *op); // other tests have it
bool is_float(kiln_dtype d);
