// The name that was probably meant where one is not found: among those that there are, the one that takes the fewest
// changes.
#pragma once
#include <stddef.h>

struct nearest {
    const char *wanted;
    size_t length;
    char best[64];
    size_t distance; // SIZE_MAX: none is near
};

void nearest_begin(struct nearest *n, const char *wanted, size_t length);
// One of the names that there are, which need not live on.
void nearest_try(struct nearest *n, const char *name, size_t length);

// "; is \"weight\" meant?", or "" where no name is near.
struct nearest_hint {
    char s[96];
};
struct nearest_hint nearest_hint(const struct nearest *n);
// The same of a list that ends with NULL.
struct nearest_hint nearest_of(const char *wanted, const char *const *names);
