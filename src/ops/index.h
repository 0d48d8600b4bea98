// Spaces of hand-written kernels that index: dimensions of size 1 are dropped and neighbours merged as operands are
// added up.
#pragma once
#include "ops/lower.h"

#define SPACE_OPERANDS 4
struct index_space {
    int rank, n; // n operands
    int64_t sizes[MAX_RANK];
    int64_t strides[SPACE_OPERANDS][MAX_RANK];
    bool fenced[MAX_RANK]; // never merged
};

// The next dimension, from the outermost, with one stride an operand. A fenced one is kept as it is, even of size 1.
void space_add(struct index_space *s, int64_t size, const int64_t *strides, bool fenced);
// The same for dimension d of views of one rank.
void space_add_dim(struct index_space *s, int64_t size, const struct view *const *v, int d);
int64_t space_count(const struct index_space *s);
void space_launch(struct launch *l, struct lowering *lo, int family, enum scalar_class cls,
                  const struct index_space *s);

// Whether input 1 may be the index of gather and scatter along an axis of input 0.
kiln_status op_index_fits(const struct op_call *c, int axis);

// A contiguous view seen with one dimension.
struct view view_flat(const struct view *v);
bool view_is_contiguous(const struct view *v);
int64_t view_count(const struct view *v);
// x with one dimension: itself where strides allow it, else a copy in a temporary.
kiln_status lower_flat(struct lowering *lo, const struct view *x, struct view *out);
// Whether kernels of this class run on the CPU: it is the device, or the device falls back on it.
bool lowers_to_cpu(const struct lowering *lo, enum scalar_class cls);

// Sorts along the last dimension of x, stably, NaN last, and keeps the first `keep` places, which is the size of the
// results' last dimension. Either result may be NULL; `indices` is an integer view.
kiln_status lower_sort_views(struct lowering *lo, const struct view *x, bool descending, int64_t keep,
                             const struct view *values, const struct view *indices);
// out[..., index, ...] = x's element: the kernel behind all gathers. Views over the result's dimensions; `axis_size`
// and `axis_stride` are x's along the indexed axis.
kiln_status lower_gather_views(struct lowering *lo, const struct view *x, const struct view *index,
                               const struct view *out, int64_t axis_size, int64_t axis_stride);
// out[index[i]] += src[i]: rows of matrices by a vector of indices, in order; src and out of one dtype, one of a
// compute class.
kiln_status lower_add_rows(struct lowering *lo, const struct view *index, const struct view *src,
                           const struct view *out);
// The dtype in which a class computes.
unsigned class_dtype(enum scalar_class cls);
