// How a row of the op table is called and what it must give: shared by the conformance of elementwise ops and the
// comparison of devices.
#pragma once
#include "conformance/suite.h"
#include "ir/op.h"
#include "ops/elementwise.h"

struct row {
    const struct op *op;
    const struct op_elementwise *e;
    const struct reference *ref;
    int n_in, n_params;
    long double params[2];
};

bool row_of(const struct op *op, struct row *out); // false when reference.def has no such row
bool row_takes(const struct row *r, int promoted_dtype);
bool row_is_condition(const struct row *r, int input);
int row_compute_dtype(const struct row *r, const int *dtypes);
int row_result_dtype(const struct row *r, int compute);
kiln_tensor *row_call(const struct row *r, kiln_tensor *const *in);
// The exact result for inputs of these dtypes (each value exact in its dtype).
long double row_exact(const struct row *r, int compute, int result, const long double *in);
// Where tests draw operand i from.
void row_domain(const struct row *r, int input, int dtype, double *low, double *high);
// Values that go wrong: zeros, the ends of the range, infinities, NaN. Returns how many.
int special_values(int dtype, long double *v, int max);
