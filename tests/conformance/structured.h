// Conformance of structured ops: each row of structured.def has a case here, a function that runs it over shapes,
// layouts and dtypes and compares with the loops of tests/reference.
#pragma once
#include "conformance/suite.h"
#include "reference/structured.h"

typedef void (*conform_fn)(const char *op);
#define CASE(op, fn) void fn(const char *name);
#include "conformance/structured.def"
#undef CASE

// Compares dtype, shape and values. want: exact results. A float may be off by half a unit in the last place of its own
// dtype and by `k` units of rounding of the compute dtype (f32, or f64) at the magnitude of the element in `scale`
// (NULL: of the result itself). k 0 asks for equality. Frees neither.
void check_values(kiln_tensor *t, const struct host *want, const struct host *scale, double k, const char *what);
static inline void check_equal(kiln_tensor *t, const struct host *want, const char *what)
{
    check_values(t, want, NULL, 0, what);
}
// A tensor of random values in a layout, and the values themselves in *h (to be freed).
kiln_tensor *random_tensor(struct host *h, int dtype, int rank, const int64_t *dims, enum host_layout layout,
                           double low, double high);
extern struct random structured_random;
// "op dtype[shape] layout note" into a static buffer of its own for each call (two live at a time).
const char *case_text(const char *op, const struct host *x, enum host_layout layout, const char *note);
// Whether this combination is left out where kernels are slow to make: keeps about one in `n`.
bool thinned(int index, int n);
int float_result(int dtype); // f32 for integers and bool
// Whether the pending error names the index that is out of range.
bool names_index(const char *value);
