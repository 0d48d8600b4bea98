// The npy format, as a file of its own and as a member of npz.
#pragma once
#include "io/array.h"

struct npy_header {
    struct io_array array;
    bool swap, fortran;
    uint64_t data_at, size_B; // of the elements, from the start of the npy
};

enum { NPY_PREFIX_MIN_B = 10, NPY_PREFIX_B = 12, NPY_HEADER_MAX_B = 1 << 20 };

// From the first bytes of a file (NPY_PREFIX_B, fewer where the file is shorter): bytes up to the data, at most
// NPY_HEADER_MAX_B.
kiln_status npy_data_at(const char *where, const unsigned char *prefix, uint64_t n, uint64_t *data_at);
// Parses the `data_at` bytes before the data.
kiln_status npy_parse(const char *where, const unsigned char *bytes, uint64_t data_at, struct npy_header *h);
// A tensor from the elements as they stand in the file; `data` is changed.
kiln_tensor *npy_tensor(const char *where, kiln_device *dev, const struct npy_header *h, void *data);

// Everything before the data, a multiple of 64 bytes; KILN_E_UNSUPPORTED for bf16.
enum { NPY_WRITE_MAX_B = 512 };
kiln_status npy_format(const char *where, const struct io_array *a, unsigned char *out, size_t *size_B);
