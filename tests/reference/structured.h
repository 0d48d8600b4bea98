// Structured ops as plain loops over host tensors. Results are exact up to the rounding of long double unless said
// otherwise; the caller frees them. Integers wrap in 64 bits.
#pragma once
#include "conformance/host.h"

enum reduction {
    RED_SUM,
    RED_PROD,
    RED_MEAN,
    RED_MAX,
    RED_MIN,
    RED_ANY,
    RED_ALL,
    RED_ARGMAX,
    RED_ARGMIN,
    RED_VAR,
    RED_STD,
    RED_NORM,
    RED_LOGSUMEXP
};
// Over the axes of `mask`. `param`: the correction of var and std, the order of norm. *scale (if not NULL) gets the
// magnitude that rounding errors are measured against.
struct host reference_reduce(const struct host *x, enum reduction what, uint32_t mask, bool keepdims, double param,
                             int dtype, struct host *scale);
struct host reference_matmul(const struct host *a, const struct host *b, int dtype, struct host *scale);

// out[i...] = x[map(i...)]; the map may give an index outside, which reads `fill`.
typedef void (*index_map)(const int64_t *out, int64_t *in, const void *user);
struct host reference_map(const struct host *x, int rank, const int64_t *dims, index_map map, const void *user,
                          long double fill);

void unravel(int rank, const int64_t *dims, int64_t position, int64_t *index);
int64_t ravel(int rank, const int64_t *dims, const int64_t *index); // -1 when outside

// One axis of a tensor: element k of line (outer, inner) lies at (outer * length + k) * inner_count + inner.
struct lines {
    int64_t outer, length, inner;
};
struct lines lines_of(const struct host *h, int axis);
static inline int64_t line_at(const struct lines *l, int64_t outer, int64_t inner, int64_t k)
{
    return (outer * l->length + k) * l->inner + inner;
}

// softmax along an axis, or its logarithm; and the gradient from the result y and dy, by the Jacobian.
struct host reference_softmax(const struct host *x, int axis, bool log, int dtype);
struct host reference_softmax_backward(const struct host *y, const struct host *dy, int axis, bool log, int dtype,
                                       struct host *scale);
// Normalisation over sets of elements: set `s` of `sets` has the `members` elements index(s, k); weight and bias of
// element k or of set s.
struct normed {
    const struct host *x;
    int64_t sets, members;
    bool by_channel;                  // sets are the channels of axis 1, else the leading axes
    const struct host *weight, *bias; // NULL: 1 and 0
    double eps;
};
struct host reference_norm(const struct normed *n, int dtype, struct host *mean, struct host *var);
struct host reference_norm_backward(const struct normed *n, const struct host *dy, int dtype, struct host *scale);
int64_t normed_at(const struct normed *n, int64_t set, int64_t member);

struct loss {
    int reduction; // 0 mean, 1 sum, 2 none
    double smoothing;
    bool ignore;
    int64_t ignore_index;
};
// Labels: class indices (integers) or probabilities (floats). With `dy` given: the gradient by the logits instead.
struct host reference_cross_entropy(const struct host *logits, const struct host *labels, const struct loss *o,
                                    const struct host *dy, int dtype);

struct window {
    int64_t kernel[2], stride[2], padding[2], dilation[2], groups;
    bool ceil_mode, exclude_padding;
};
int64_t window_count(const struct window *w, int axis, int64_t size); // outputs along an axis of `size`
struct host reference_conv2d(const struct host *x, const struct host *w, const struct host *bias,
                             const struct window *o, int dtype, struct host *scale);
struct host reference_conv2d_input_grad(const struct host *dy, const struct host *w, int64_t height, int64_t width,
                                        const struct window *o, int dtype, struct host *scale);
struct host reference_conv2d_weight_grad(const struct host *x, const struct host *dy, int64_t height, int64_t width,
                                         const struct window *o, int dtype, struct host *scale);
struct host reference_max_pool(const struct host *x, const struct window *o);
struct host reference_max_pool_backward(const struct host *x, const struct host *dy, const struct window *o,
                                        struct host *scale);
struct host reference_avg_pool(const struct host *x, const struct window *o, struct host *scale);
struct host reference_avg_pool_backward(const struct host *dy, int64_t height, int64_t width, const struct window *o,
                                        struct host *scale);

struct host reference_concat(const struct host *parts, int n, int axis, int dtype);
enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_CIRCULAR };
struct host reference_pad(const struct host *x, const int64_t *before, const int64_t *after, enum pad_mode mode,
                          long double value);
// take_along_axis; slices by an index of any shape; both with negative indices.
struct host reference_gather(const struct host *x, int axis, const struct host *index);
struct host reference_take(const struct host *x, int axis, const struct host *index);
// A copy of x with src (of index's shape) written, added or otherwise joined at index along an axis, in order.
enum scatter_verb { SCATTER_SET, SCATTER_SUM, SCATTER_PRODUCT, SCATTER_LARGEST, SCATTER_LEAST };
struct host reference_scatter(const struct host *x, int axis, const struct host *index, const struct host *src,
                              enum scatter_verb verb, struct host *scale);
struct host reference_scan(const struct host *x, int axis, bool product, int dtype, struct host *scale);
// The places of the elements along an axis in sorted order: stable, NaN last.
struct host reference_argsort(const struct host *x, int axis, bool descending);
