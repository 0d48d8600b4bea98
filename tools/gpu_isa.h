// What the assembly of a kernel for an AMD GPU says about it.
#pragma once
#include <stddef.h>

// Of a run of instructions, an invocation's share each.
struct isa_counts {
    size_t instructions;
    size_t multiply_adds; // packed and dual ones count twice
    size_t arithmetic;    // instructions on floating-point values, multiply-adds among them
    size_t loads, stores; // of global memory
    size_t load_B, store_B;
    size_t widest_load_B, widest_store_B;
    size_t shared; // accesses of shared memory
    size_t moves;  // v_mov
};

struct isa_summary {
    struct isa_counts whole, loop; // loop: the hottest one, without those inside; all 0 without one
    struct isa_counts straight;    // what is in no loop
    struct isa_counts walks;       // loops whose accesses are as wide as any of the kernel's, without those inside
    size_t n_loops, depth;         // of the hottest one: loops that it is in, itself among them
};

// The hottest loop is the one with most multiply-adds of its own, then the deepest, then the one that loads most, then
// the longest.
void isa_read(const char *assembly, struct isa_summary *out);
