// What a device runs: a kernel, a collapsed iteration space and its operands. Ops lower to launches; a sink resolves
// slots to addresses and hands the launch to a device. The argument block that Vulkan pushes is packed from this
// struct; CPU kernels read it directly.
#pragma once
#include "ir/kernel_info.h"
#include "ir/type.h"
#include <stddef.h>
#include <string.h>

#define MAX_SCALARS 20

struct device_gate;
struct device_record;
struct launch_after;
struct launch_facts;

enum operand_flags {
    OPERAND_IMMEDIATE = 1, // `address` holds the value's bits (class of the operand), no memory
    OPERAND_WRITE = 2,
    OPERAND_OVER = 4, // written, and lies as operand 0 does, whose place it may take: what comes of a part of that is
                      // written when all of the part was read
};

// Slots name buffers while a launch has no addresses yet.
#define SLOT_OUT  0x4000
#define SLOT_TEMP 0x8000
// An immediate whose value is an input of the program, by its number; the bits are set at each run.
#define SLOT_SCALAR 0x2000

struct launch_operand {
    uint64_t address;   // device address of element 0 of the space (layout offset applied), or immediate bits
    int64_t range_lo_B; // bytes touched: [address + lo, address + hi)
    int64_t range_hi_B;
    uint32_t slot;
    uint8_t dtype;             // storage dtype
    uint8_t flags;             // enum operand_flags
    int64_t strides[MAX_RANK]; // elements, one a dimension of the space
};

struct launch {
    kernel_id kernel;
    uint8_t n_operands; // inputs first
    uint8_t rank;       // of the collapsed space; a pointwise space of one element has rank 0
    uint8_t n_reduce;   // KERNEL_ROW: how many trailing dimensions are the row
    uint8_t n_scalars;
    int64_t sizes[MAX_RANK];
    int64_t extent[3];             // KERNEL_CUSTOM: work items in the kernel's own units
    uint32_t variant[4];           // KERNEL_CUSTOM: specialisation constants with the ids 32 to 35. Of what has a tile
                                   // (ir/tile.h) the last two are its size and run; 0: the device chooses
    uint64_t scalars[MAX_SCALARS]; // bits: f32 in the low word, else as written; see launch_set_*
    struct launch_operand operands[MAX_OPERANDS];
    const char *op;                   // name of the op, for messages and profiles
    struct device_gate *gate;         // behind which it runs, see device/gate.h; NULL: it runs
    struct device_record *record;     // into which it goes, to be run later, see device/record.h; NULL: it runs
    const struct launch_facts *facts; // for profiles; NULL: not known
    const struct launch_after *after; // of a product on the host, see ir/launch_after.h; NULL: nothing
    const void *kept;                 // operand 1 as the kernel reads it (device_ops.keep); NULL: as it lies
};

// The operands, dimensions and scalars that there are, not those that there might be.
static inline void launch_copy(struct launch *to, const struct launch *from)
{
    to->kernel = from->kernel;
    to->n_operands = from->n_operands;
    to->rank = from->rank;
    to->n_reduce = from->n_reduce;
    to->n_scalars = from->n_scalars;
    to->op = from->op;
    to->gate = from->gate;
    to->record = from->record;
    to->facts = from->facts;
    to->after = from->after;
    to->kept = from->kept;
    memcpy(to->extent, from->extent, sizeof to->extent);
    memcpy(to->variant, from->variant, sizeof to->variant);
    for (int d = 0; d < from->rank; d++) to->sizes[d] = from->sizes[d];
    for (int i = 0; i < from->n_scalars; i++) to->scalars[i] = from->scalars[i];
    for (int i = 0; i < from->n_operands; i++) {
        memcpy(&to->operands[i], &from->operands[i], offsetof(struct launch_operand, strides));
        for (int d = 0; d < from->rank; d++) to->operands[i].strides[d] = from->operands[i].strides[d];
    }
}

static inline uint64_t bits_f32(float v)
{
    union {
        float f;
        uint32_t u;
    } x = {.f = v};
    return x.u;
}
static inline uint64_t bits_f64(double v)
{
    union {
        double f;
        uint64_t u;
    } x = {.f = v};
    return x.u;
}
static inline float f32_bits(uint64_t v)
{
    union {
        uint32_t u;
        float f;
    } x = {.u = (uint32_t)v};
    return x.f;
}
static inline double f64_bits(uint64_t v)
{
    union {
        uint64_t u;
        double f;
    } x = {.u = v};
    return x.f;
}
