// What families build launches from: views in, launches out. Dimensions of size 1 are dropped and adjacent ones merged
// on the way, so that kernels see the fewest dimensions. A launch over zero elements is not emitted.
#pragma once
#include "ir/view.h"
#include "scalar/number.h"
#include "ir/op.h"
#include "scalar/scalar.h"

kernel_id kernel_of(int family, enum scalar_class cls);

struct view view_of(const struct type *t, const struct layout *l, uint16_t slot);
struct view view_number(double v); // an immediate
struct view view_integer(int64_t v);
// Views over the same slot.
kiln_status view_expand(const struct view *v, int rank, const int64_t *dims, struct view *out); // broadcast
struct view view_permute(const struct view *v, const int *perm);
struct view view_narrow(const struct view *v, int axis, int64_t start, int64_t length);
struct view view_squeeze(const struct view *v, int axis);
struct view view_insert(const struct view *v, int axis); // a dimension of size 1
struct view view_as_bits(const struct view *v);          // the integer dtype of the same size: for moving data

// out[i] = f(in...[i]); inputs are broadcast to the output's shape. Scalars are given as doubles and converted to their
// class.
kiln_status lower_pointwise(struct lowering *lo, int family, enum scalar_class cls, int n_in, const struct view *in,
                            const struct view *out, int n_scalars, const double *scalars);
// The last n_reduce dimensions of `space` are the row. Inputs and the output are given over the full space's rank (a
// row output has size 1 or stride 0 there); sizes come from `dims`.
kiln_status lower_row(struct lowering *lo, int family, enum scalar_class cls, int rank, const int64_t *dims,
                      int n_reduce, int n_in, const struct view *in, const struct view *out, int n_scalars,
                      const double *scalars);
// lower_row for a kernel whose first n_integers scalars are i64, which a double would round.
kiln_status lower_row_integers(struct lowering *lo, int family, enum scalar_class cls, int rank, const int64_t *dims,
                               int n_reduce, int n_in, const struct view *in, const struct view *out, int n_integers,
                               const int64_t *integers, int n_scalars, const double *scalars);
// Copy with conversion; out may be of any dtype.
kiln_status lower_copy(struct lowering *lo, const struct view *in, const struct view *out);
kiln_status lower_fill(struct lowering *lo, double value, const struct view *out);

// For hand-written kernels: operands over an uncollapsed space.
void launch_init(struct launch *l, struct lowering *lo, kernel_id k, int rank, const int64_t *sizes);
void launch_operand(struct launch *l, const struct view *v, const int64_t *strides,
                    bool write);                   // strides over the space
void launch_scalar_i(struct launch *l, int64_t v); // a 64-bit integer
kiln_status lower_temp(struct lowering *lo, unsigned dtype, int rank, const int64_t *dims, struct view *out);
