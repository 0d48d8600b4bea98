// Host-side tensors of the conformance suite: values with a shape, and the many ways in which a device tensor can hold
// them.
#pragma once
#include "reference/reference.h"
#include <kiln/ops.h>
#include <stdio.h>

#define HOST_MAX_RANK KILN_MAX_RANK

struct host {
    int dtype, rank;
    int64_t dims[HOST_MAX_RANK];
    int64_t n;
    long double *v; // row-major; owned
};

enum host_layout {
    LAYOUT_CONTIGUOUS,
    LAYOUT_TRANSPOSED, // all axes reversed in memory
    LAYOUT_STEP,       // every second element of each axis of a larger tensor
    LAYOUT_NEGATIVE,   // all axes walked backwards
    LAYOUT_OFFSET,     // behind three other elements of the last axis
    LAYOUT_ROTATED,    // the first axis last in memory
    LAYOUT_EXPANDED,   // stride 0 along the first axis, whose entries must be equal
    LAYOUT_COUNT,
};
extern const char *const host_layout_names[LAYOUT_COUNT];

struct host host_new(int dtype, int rank, const int64_t *dims); // zeros
void host_free(struct host *h);
struct host host_copy(const struct host *h);
// Random values from [low, high), rounded to the dtype; integers for integer dtypes.
void host_fill(struct host *h, struct random *r, double low, double high);
// Makes the entries of the first axis equal, for LAYOUT_EXPANDED.
void host_repeat_first(struct host *h);
// Index of an element, by its position in the row-major order of `dims` (broadcast: size-1 axes of h stay at 0).
int64_t host_at(const struct host *h, int rank, const int64_t *dims, int64_t position);

// A device tensor with these values in that layout; NULL with an error pending on failure.
kiln_tensor *host_tensor(kiln_device *dev, const struct host *h, enum host_layout layout);
// The values of a device tensor; .v is NULL on failure.
struct host host_read(kiln_tensor *t);
void host_shape_text(char *buf, size_t cap, int rank, const int64_t *dims);
