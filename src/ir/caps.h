// What a device can do, as far as lowering and code generation ask.
#pragma once
#include "base/base.h"
#include <kiln/macros.h>

struct tile_table;

enum code_target { CODE_GLSL, CODE_LLVM };
struct device_caps {
    uint8_t code;        // enum code_target: what fused kernels are made for
    bool host;           // memory is the host's, kernels are functions of the host
    bool checks_indices; // an index out of range is an error; elsewhere it reads 0
    bool checks_values;  // numbers for which an op has no result are an error; elsewhere it is NaN
    bool own_products;   // its kernels for matrix products are faster than generated ones
    bool cheap_launches; // joining launches gains nothing
    bool f64, i64, f16_storage, i8_storage;
    bool shuffle; // compute shaders may exchange values within a subgroup
    bool halves;  // instructions convert f16, rounding to nearest and with denormals, where a module asks for it
    uint32_t subgroup_size;
    uint32_t max_shared_B;
    uint32_t max_push_B;
    uint32_t parallelism; // rough count of work items that fill the device
    uint32_t max_local;   // invocations of a workgroup
    uint32_t max_turns;   // of all loops of an invocation together, what is beyond is left out; 0: as many as it takes
    uint32_t matrix;      // side of the matrices of f16 that a subgroup multiplies, with sums of f32; 0: none
    uint32_t matrix_bf16; // the same of bf16
    struct tile_table *tiles; // as measured on the device, see ir/tile.h; NULL: start values
};

// Of matrices whose elements have this dtype.
static inline uint32_t caps_matrix_side(const struct device_caps *c, unsigned dtype)
{
    return dtype == KILN_F16 ? c->matrix : dtype == KILN_BF16 ? c->matrix_bf16 : 0;
}
