// Intel's instructions for matrices.
#pragma once
#include <stdint.h>

// Why products of bf16 cannot use them, or NULL where they can. Linux gives the registers, 8 KiB, to programs that ask:
// the first call does, for all threads of the process. From then on Linux refuses stacks for signals that could not
// hold them (sigaltstack), and it gives none to a program that has such a stack.
const char *cpu_amx_missing(void);

// What the processor is told of its registers of tiles: rows, and bytes of each.
struct amx_shape {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_B[16];
    uint8_t rows[16];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct amx_shape) == 64, "as the instruction reads it");

// The height of a tile for which this thread's registers are shaped; 0: they are not in use.
extern _Thread_local uint8_t cpu_amx_rows __attribute__((tls_model("initial-exec")));
