// The types of tensors in GGUF files: those of ggml. Quantised ones pack a fixed number of neighbouring elements into a
// block of bytes.
#pragma once
#include "base/base.h"
#include <kiln/tensor.h>

struct ggml_type {
    uint32_t number;
    const char *name;
    uint32_t block, block_B; // elements and bytes of a block
    kiln_dtype dtype;        // what the elements are once they are read
    // A quantised type: one block to floats. NULL with a block above 1: Kiln cannot read it.
    void (*unpack)(const unsigned char *packed, float *out);
};

// NULL: there is none of this number.
const struct ggml_type *ggml_type_find(uint32_t number);
