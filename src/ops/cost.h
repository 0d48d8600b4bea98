// What launches read, write and compute.
//
// Operations are those of the op's expression in the table, a point each: a function such as exp counts as one, and so
// does a reduction, for each element of the row. Conversions, selections and what is done to integers count as none,
// nor does what is the same at all points. A sum of products is two an element of the sum.
#pragma once
#include "ir/op.h"
#include "scalar/scalar.h"

struct kernel_work {
    uint16_t element, row; // operations of an element of the row, or of a point, and of a row
};
// Of a body whose first n_in parameters are inputs, the others run-time scalars.
struct kernel_work kernel_work_of(const struct scalar_dag *d, int n_in);

struct launch_cost {
    double read_B, written_B; // elements that are touched, each once
    double flops;             // negative: not known
};
// Of a launch of this op; NULL: of none, such as a copy. Where an op has several launches, its products are those of
// the first that is no copy.
struct launch_cost launch_cost(const struct op *op, const struct type *const *in, const struct type *out,
                               const struct launch *l);
