/// @file tensor.h
/// Tensors: creation, reading, printing, queries, copies between devices, scopes.
///
///     kiln_scope *scope = kiln_scope_begin();
///     const float v[] = {1, 2, 3, 4, 5, 6};
///     kiln_tensor *x = kiln_from_data(NULL, KILN_F32, KILN_SHAPE(2, 3), v);
///     kiln_print(kiln_mul(x, kiln_scalar(2)), stdout);
///     kiln_scope_end(&scope);                        // frees x and the product
///
/// Functions that make a tensor return a new handle, or NULL with an error pending. Each handle has one owner: the
/// innermost scope open on the thread that made it, else the caller. While an error is pending nothing has an effect
/// (see error.h). A tensor may be read by several threads at once and written by one at a time.
#ifndef KILN_TENSOR_H
#define KILN_TENSOR_H

#include <kiln/device.h>
#include <kiln/error.h>
#include <kiln/macros.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The largest rank of a tensor. More is KILN_E_SHAPE, of an array in a file KILN_E_UNSUPPORTED.
#define KILN_MAX_RANK 16

/// A tensor with a copy of row-major host data. `dev` NULL: this thread's default device.
/// Errors: KILN_E_SHAPE for a negative dimension, KILN_E_ARGUMENT for NULL data of a non-empty shape.
KILN_API kiln_tensor *kiln_from_data(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                     const void *data);

/// The same from `size_B` bytes, which must be as many as the shape takes: of another number, as of integers of 32 bits
/// given as KILN_I64, KILN_E_SHAPE with both. KILN_BYTES gives an array and its size:
///
///     const int64_t labels[] = {3, 1, 4};
///     kiln_tensor *t = kiln_from_bytes(NULL, KILN_I64, KILN_SHAPE(3), KILN_BYTES(labels));
KILN_API kiln_tensor *kiln_from_bytes(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims,
                                      const void *data, size_t size_B);
#define KILN_BYTES(array) (array), sizeof(array)

/// Weak scalars: rank 0; in an op they take the dtype of the other operand within its kind.
KILN_API kiln_tensor *kiln_scalar(double value);
KILN_API kiln_tensor *kiln_scalar_int(int64_t value);
KILN_API kiln_tensor *kiln_scalar_bool(bool value);

/// Queries. A NULL handle answers KILN_F32, 0 and NULL, with an argument error set.
KILN_API kiln_dtype kiln_tensor_dtype(const kiln_tensor *t);
/// Whether both handles show the same elements of the same memory: true of a handle and what kiln_alias makes of it,
/// not of a view that shows a part. False for weak scalars.
KILN_API bool kiln_is_same(const kiln_tensor *a, const kiln_tensor *b);
KILN_API size_t kiln_rank(const kiln_tensor *t);
KILN_API const int64_t *kiln_dims(const kiln_tensor *t); ///< borrowed, rank entries
KILN_API int64_t kiln_dim(const kiln_tensor *t,
                          int64_t axis); ///< negative axes count from the end; -1 and an error when out of range
KILN_API int64_t kiln_numel(const kiln_tensor *t);
KILN_API const int64_t *kiln_strides(const kiln_tensor *t); ///< borrowed, rank entries, in elements
KILN_API bool kiln_is_contiguous(const kiln_tensor *t);
KILN_API bool kiln_is_view_of(const kiln_tensor *t, const kiln_tensor *base); ///< both lie on one storage
KILN_API kiln_device *
kiln_tensor_device(const kiln_tensor *t);                    ///< borrowed; NULL for a weak scalar that no op has placed
KILN_API uint64_t kiln_tensor_version(const kiln_tensor *t); ///< of the storage: raised by each write
KILN_API size_t kiln_dtype_size(kiln_dtype dtype);      ///< bytes of one element; 0 and an error where two lie in one
KILN_API const char *kiln_dtype_name(kiln_dtype dtype); ///< "f32", "i64", "bool" ...

/// Copies the elements in row-major order to host memory. Waits for the device. `size_B` must be numel x element size,
/// numel / 2 of KILN_I4 and KILN_U4.
KILN_API kiln_status kiln_read(const kiln_tensor *t, void *dst, size_t size_B);
/// The value of a tensor with one element; NaN (or 0) and an error for any other. As an integer u64 keeps its bits:
/// cast it to uint64_t.
KILN_API double kiln_item(const kiln_tensor *t);
KILN_API int64_t kiln_item_int(const kiln_tensor *t);

/// Prints as NumPy does, and a newline.
KILN_API void kiln_print(const kiln_tensor *t, FILE *f);
/// The same text in a string that the caller frees with free(); NULL and an error on failure.
KILN_API char *kiln_to_string(const kiln_tensor *t);

/// A copy on another device (a new handle on the same storage when it lies there already). Differentiable.
KILN_API kiln_tensor *kiln_to_device(kiln_tensor *t, kiln_device *dev);

/// Writes `src` (broadcast, cast within its kind) into dst's storage, seen through views; raises its version. Errors:
/// KILN_E_GRADIENT for a leaf that requires a gradient, outside no-grad; KILN_E_ARGUMENT where elements share memory.
KILN_API kiln_status kiln_assign(kiln_tensor *dst, kiln_tensor *src);
/// Replaces the elements of dst with row-major host data of dst's dtype and size.
KILN_API kiln_status kiln_write(kiln_tensor *dst, const void *data, size_t size_B);
/// dst[start:stop:step] = src (broadcast); the bounds as in kiln_slice, see kiln/ops.h for KILN_SLICE.
struct kiln_slice_opts;
KILN_API kiln_status kiln_set_slice(kiln_tensor *dst, const struct kiln_slice_opts *opts, kiln_tensor *src);

/// Splits along an axis into equal parts: fills exactly `n_out` handles (views). Errors: KILN_E_SHAPE when n_out does
/// not divide it.
KILN_API kiln_status kiln_split(kiln_tensor *t, int64_t axis, kiln_tensor **out, size_t n_out);
/// Splits into parts of the given sizes, which add up to the axis.
KILN_API kiln_status kiln_split_sizes(kiln_tensor *t, int64_t axis, size_t n_out, const int64_t *sizes,
                                      kiln_tensor **out);

/// The entries of an axis, which is dropped: fills exactly `n_out` handles (views). Errors: KILN_E_SHAPE when it has
/// another number.
KILN_API kiln_status kiln_unstack(kiln_tensor *t, int64_t axis, kiln_tensor **out, size_t n_out);
/// A grid over n lines (rank 1 or 0): fills `n` handles, of the shape that the lines' lengths make; the i-th holds the
/// i-th line along axis i (views).
KILN_API kiln_status kiln_meshgrid(kiln_tensor *const *lines, size_t n, kiln_tensor **out);

/// Results whose size depends on values: the host waits for one number. Zero gradients, but for masked_select by x.
/// The places of elements that are not zero: i64 [count, rank], in row-major order.
KILN_API kiln_tensor *kiln_nonzero(kiln_tensor *x);
/// The elements of x where mask (bool) is true, in one dimension; the two are broadcast.
KILN_API kiln_tensor *kiln_masked_select(kiln_tensor *x, kiln_tensor *mask);
/// The different values of x, sorted, in one dimension; for each element of x where its value is among them (i64, x's
/// shape); and how often each occurs (i64). Any result may be NULL. Each NaN is a value of its own.
KILN_API kiln_status kiln_unique(kiln_tensor *x, kiln_tensor **values, kiln_tensor **inverse, kiln_tensor **counts);

/// The same where it is known how many there are at most: nothing waits, and captured functions hold them in their
/// graphs. Results have `size` entries, as many as are found, up to size, then `fill`; what finds no room
/// is left out. `count` becomes an i64 scalar: how many there are in all, which may be more than size.
/// Any result may be NULL. Gradients as above. Errors: KILN_E_ARGUMENT for a negative size.
/// Places: i64 [size, rank].
KILN_API kiln_status kiln_nonzero_sized(kiln_tensor *x, int64_t size, int64_t fill, kiln_tensor **places,
                                        kiln_tensor **count);
/// Values: x's dtype [size].
KILN_API kiln_status kiln_masked_select_sized(kiln_tensor *x, kiln_tensor *mask, int64_t size, double fill,
                                              kiln_tensor **values, kiln_tensor **count);
/// Values: x's dtype [size]; counts: i64 [size], 0 where there is no value; inverse: i64, x's shape, size or more where
/// the value found no room.
KILN_API kiln_status kiln_unique_sized(kiln_tensor *x, int64_t size, double fill, kiln_tensor **values,
                                       kiln_tensor **inverse, kiln_tensor **counts, kiln_tensor **count);

/// Complex numbers, KILN_C64 and KILN_C128, are pairs of floats: a real part and an imaginary part. Their bytes are
/// those of C's `float complex` and `double complex`; kiln_strides counts their parts. The gradient of a real loss L by
/// z = x + i y is dL/dx + i dL/dy. Ops that take complex tensors are listed in the guide; others refuse them.
/// The pairs of a complex tensor, [..., 2]; the other way round, pairs as complex numbers. Both share memory and
/// gradients with what they are made of. Errors: KILN_E_DTYPE, KILN_E_SHAPE where the last dimension is not 2.
KILN_API kiln_tensor *kiln_view_as_real(kiln_tensor *z);
KILN_API kiln_tensor *kiln_view_as_complex(kiln_tensor *pairs);

/// Storage dtypes hold numbers that casts alone compute with. KILN_F8_E4M3 and KILN_F8_E5M2 are floats of 8 bits, in
/// the formats e4m3fn and e5m2 of kiln_to_float8. KILN_I4 and KILN_U4 are integers of 4 bits; two lie in a byte, the
/// first in its lower half, so the last axis has an even size, and kiln_strides counts bytes. kiln_cast makes them of
/// every real dtype and every real dtype of them: floats of 8 bits round to nearest, half to even, and saturate,
/// infinities too, and NaN stays one; integers of 4 bits truncate and saturate floats (NaN is 0), and wrap integers, as
/// other casts do. kiln_bitcast reads their bytes, u8 [..., N], and bytes as them, i4 [..., 2 N]. Ops that move
/// elements take them, of KILN_I4 and KILN_U4 where the last axis stays whole and last; the guide has the list. Others
/// refuse them. They have no gradient: the cast of a tensor that requires one is an error.

/// Frees early and nulls the handle; NULL is fine.
KILN_API void kiln_free(kiln_tensor **t);
/// Puts next in the place of *t, which is freed: h = f(h), where nothing else reads the old h, as
/// kiln_replace(&h, kiln_relu(h)). The memory of h is free for what follows, as under Python's counts of references.
/// next goes to the scope that owned the old handle, or to the caller where none did, if that one ends later than its
/// own: h lives on over turns of a loop that have a scope each. An empty place, *t == NULL, takes next as it is; where
/// next is *t nothing changes, nor on an error, which *t survives. *t is the caller's to free: the inputs of a function
/// are not its own. Errors: KILN_E_ARGUMENT for NULL, KILN_E_HANDLE.
KILN_API kiln_status kiln_replace(kiln_tensor **t, kiln_tensor *next);
/// Scopes own the handles made while they are open on this thread. Innermost first; ending an outer one ends the inner
/// ones.
KILN_API kiln_scope *kiln_scope_begin(void);
KILN_API void kiln_scope_end(kiln_scope **s);
/// Moves t from the scope that owns it to the next one out, or to the caller. Returns t.
KILN_API kiln_tensor *kiln_keep(kiln_tensor *t);
/// Takes t out of all scopes: the caller frees it. Returns t.
KILN_API kiln_tensor *kiln_own(kiln_tensor *t);
/// A second handle on the same value (same storage, same place in the graph of gradients).
KILN_API kiln_tensor *kiln_alias(kiln_tensor *t);

/// Random numbers: seeds the generator of a device (NULL: the default device). The state is a seed and an offset.
KILN_API kiln_status kiln_seed(kiln_device *dev, uint64_t seed);
KILN_API kiln_status kiln_rng_state(kiln_device *dev, uint64_t *seed, uint64_t *offset);
KILN_API kiln_status kiln_set_rng_state(kiln_device *dev, uint64_t seed, uint64_t offset);

#ifdef __cplusplus
}
#endif
#endif
