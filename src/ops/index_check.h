// What is known of integers that ops take as indices, and of integers that ops give, before anything is computed.
#pragma once
#include "ir/op.h"

// Whether an index out of range, or the numbers that it is given (INDEX_VALUES), can make this op fail as it runs.
bool op_checks_index(const struct op *op);
bool op_call_checks_index(const struct op_call *c); // of a call: labels that are probabilities are none
// The same for a call, on a device of these capabilities: on a GPU such an op never fails.
bool op_can_fail(const struct op_call *c, const struct device_caps *caps);

// Indices are in range when all of operand `operand` lie in [-size, size), labels in [0, size). Of tuples, column j has
// a size of its own.
struct index_bounds {
    int operand;
    bool tuples;
    bool labels, ignores;
    int64_t ignored; // one label that is never out of range
    int64_t sizes[MAX_RANK];
};
void op_index_bounds(const struct op_call *c, struct index_bounds *out);

// What lies in the results of an op whatever its inputs hold.
enum range_kind {
    RANGE_UNKNOWN,
    RANGE_KNOWN, // lo to hi
    RANGE_SAME,  // as in operand 0
};
enum range_kind op_result_range(const struct op_call *c, int output, int64_t *lo, int64_t *hi);
