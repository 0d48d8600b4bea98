// dtype and shape of an array in a file, and its way to and from tensors.
#pragma once
#include "base/base.h"
#include <kiln/tensor.h>

struct io_array {
    kiln_dtype dtype;
    size_t rank;
    int64_t dims[KILN_MAX_RANK];
};

// Bytes of the elements; KILN_E_FORMAT when they overflow.
kiln_status io_array_size(const char *where, const struct io_array *a, uint64_t *size_B);
// One more dimension, as read from a file. KILN_E_FORMAT above INT64_MAX, KILN_E_UNSUPPORTED above the largest rank.
kiln_status io_array_push(const char *where, struct io_array *a, uint64_t dim);
// Makes bytes of bool elements 0 or 1.
void io_fix_bools(const struct io_array *a, void *data);
// A tensor from row-major elements of the machine's byte order. `data` is changed: bools become 0 or 1.
kiln_tensor *io_array_tensor(kiln_device *dev, const struct io_array *a, void *data);
// The type of a tensor and a copy of its elements, which the caller frees.
kiln_status io_array_read(const char *where, const kiln_tensor *t, struct io_array *a, void **data, uint64_t *size_B);
void io_swap_bytes(void *data, uint64_t size_B, size_t item_B);
// "f32[2,3]"
enum { IO_ARRAY_TEXT = 360 };
const char *io_array_text(const struct io_array *a, char *text);

// KILN_E_ARGUMENT for NULL lists, NULL, empty or repeated names and NULL tensors.
kiln_status io_check_names(const char *where, const char *const *names, kiln_tensor *const *tensors, size_t n);
// Whether two of the n texts are equal; names the second in *twice. KILN_E_MEMORY.
kiln_status io_find_twice(const char *where, const char *const *names, size_t n, const char **twice);
