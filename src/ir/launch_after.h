// What goes on with the result of a product while it lies in the cache: a second launch, made slice by slice of the
// result's rows as they become ready, on whatever thread made them. The host's kernel for products takes it along.
#pragma once
#include "base/base.h"

struct launch;

enum { AFTER_PATCHES = 12, AFTER_OPERANDS = 48 };

struct launch_after {
    int64_t rows, slices, points; // rows of a slice, the last may have fewer; and elements of the result in it
    // The launch over all rows: code that was compiled, with its block of words, which begins with the addresses ...
    void (*run)(const uint64_t *words, int64_t begin, int64_t end);
    const uint64_t *words;
    const struct launch *launch; // ... or a pointwise kernel of the catalogue, NULL else
    int n_words, n_operands;
    int64_t step_B[AFTER_OPERANDS]; // of each operand, from one slice to the next
    // What is different for a slice, and for the last one. Of a launch its first size.
    int64_t units[2], first_size[2];
    int n_patches;
    int patch_at[AFTER_PATCHES];
    uint64_t patch[2][AFTER_PATCHES];
};
