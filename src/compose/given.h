// What composites of images and windows ask of what they are given, and the tables that they bring along.
#pragma once
#include "base/base.h"
#include "base/dtype.h"
#include "compose/composite.h"

// Errors that name the argument. `layout` says what the dimensions are: "[N,C,H,W]".
bool given_rank(const char *argument, const kiln_tensor *t, size_t rank, const char *layout);
// The last two axes are an image's.
bool given_image(const char *argument, const kiln_tensor *t);
bool given_float(const char *argument, const kiln_tensor *t);
bool given_integer(const char *argument, const kiln_tensor *t);
bool given_range(const char *option, int64_t value, int64_t least, int64_t most);
// The place of a word in a list that NULL ends; the first where it is NULL; -1 with an error that shows the list.
int given_word(const char *option, const char *word, const char *const *words);

// Tables of the host as tensors. Floats are rounded once, to the dtype. `v` is freed, and may be NULL with an error
// pending.
kiln_tensor *table_ints(kiln_device *dev, size_t rank, const int64_t *dims, int64_t *v);
kiln_tensor *table_floats(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double *v);
// Memory for n numbers of 8 bytes; NULL with an error.
void *table_new(int64_t n);

// f16 and bf16 become f32, integers and bool too: in what sums are made.
kiln_dtype wide_dtype(kiln_dtype dtype);
// x in a dtype, itself where it has it: kiln_cast copies.
kiln_tensor *as_dtype(kiln_tensor *x, kiln_dtype dtype);
// x in dtype; integers are rounded and cut to its range.
kiln_tensor *rounded_to(kiln_tensor *x, kiln_dtype dtype);
// A vector as one that is broadcast along an axis of `rank`.
kiln_tensor *laid_along(kiln_tensor *line, size_t rank, int axis);
// x with the leading axes of `like`, then other sizes.
kiln_tensor *with_dims_of(const kiln_tensor *like, size_t leading, kiln_tensor *x, size_t n, const int64_t *dims);
// x, an axis of it times a matrix [out, in].
kiln_tensor *times_along(kiln_tensor *matrix, kiln_tensor *x, int axis);
