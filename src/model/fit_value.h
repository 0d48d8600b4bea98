// Numbers of a text as expressions of sizes.
#pragma once
#include "base/base.h"

enum { FIT_SIZES_MAX = 16, FIT_ROWS_MAX = 96 };

// What was seen: rows of sizes, and the number there.
struct fit_seen {
    size_t n, n_sizes;
    const int64_t *sizes;     // n * n_sizes
    const char *const *names; // n_sizes
};

// Writes an expression that gives v[i] for row i; false: none of the forms that are known does.
bool fit_int(const struct fit_seen *s, const int64_t *v, char *out, size_t size_B);
bool fit_float(const struct fit_seen *s, const double *v, char *out, size_t size_B);
// A rounded quotient has an offset that few rows tell: two that fit as well, in the size that it is of. False: there is
// one only, or it is no quotient.
struct fit_quotient {
    size_t of;               // which size
    int64_t p, q, low, high; // (p * size + r) / q, r from low to high
};
bool fit_is_quotient(const struct fit_seen *s, const int64_t *v, struct fit_quotient *out);
