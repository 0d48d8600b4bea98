// What code generation gives and what a launch of it needs: the contract between the emitters (codegen/glsl, llvm), the
// devices that load code, and the programs that launch it.
//
// A kernel family is compiled once; its plan says how a launch of a kernel of that family is laid out. The argument
// block begins with the addresses of the accesses, inputs then outputs, in the order of the kernel, each the address of
// point 0 (the offset applied), so that a program that runs again only replaces those. Everything behind them is the
// target's.
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "ir/caps.h"
#include "ir/launch.h"
#include "fuse/kernel.h"

#define PLAN_CHOICES 15
struct codegen_plan {
    uint8_t target;                 // enum code_target
    uint8_t form;                   // the emitter's own: pointwise, row, column ...
    uint8_t n_access;               // addresses at the head of the argument block
    bool wide;                      // 64-bit indices
    bool indirect;                  // GLSL: the block lies in memory, the push constant holds its address
    bool has_end;                   // LLVM: there is a second function, <symbol>_end
    uint16_t local[3];              // GLSL: workgroup size
    uint32_t choices[PLAN_CHOICES]; // the emitter's own: tile sizes, units ...
};

// Compiled code of a family. `code` is SPIR-V (GLSL) or a relocatable object (LLVM); the caller frees it.
struct codegen_code {
    struct codegen_plan plan;
    void *code;
    size_t size_B;
    char symbol[64]; // LLVM: name of the function
};

#define CODEGEN_MAX_WORDS                                                                            \
    (2 * (FUSED_MAX_IN + FUSED_MAX_OUT) + FUSED_DIMS + (FUSED_MAX_IN + FUSED_MAX_OUT) * FUSED_DIMS + \
     2 * FUSED_MAX_SCALARS + 2 * (FUSED_MAX_IN + FUSED_MAX_OUT) + 16)

// One launch. GLSL: 32-bit words, an address takes two, low word first. LLVM: 64-bit words, an address takes one.
struct codegen_launch {
    uint32_t groups[3];       // GLSL
    int64_t units, unit_cost; // LLVM: ranges of [0, units) run on several threads; cost in elements of a cheap loop
    bool run_end;             // LLVM: the second function runs once all units are done
    uint64_t workspace_B;     // scratch memory during the launch
    bool workspace_zeroed;    // ... whose first bytes are zero before, and are left zero (counters)
    uint64_t work;            // points, to bound what one submission does
    int scalar_at[FUSED_MAX_SCALARS]; // first word of each scalar; GLSL: one word, or two of f64 and i64
    int n_words;
    int workspace_at, failed_at; // word index of the workspace's address, of the address of the u32 that a failed check
                                 // sets to 1 + its index; -1: none
    int streams_at, n_in; // LLVM: the word that says whether results go past the caches, if so, else -1: 0 where one
                          // lies where one of the first n_in accesses does, for its lines are in the cache then
    uint64_t words[CODEGEN_MAX_WORDS]; // GLSL uses the low halves
};

// Lays out one launch of a kernel of the plan's family; `addresses` holds base addresses by access (offset not
// applied).
typedef kiln_status codegen_pack_fn(const struct codegen_plan *p, const struct fused_kernel *k,
                                    const uint64_t *addresses, const struct device_caps *caps,
                                    struct codegen_launch *out);
codegen_pack_fn glsl_pack, llvm_pack;

// How a kernel of this family runs on a device of these abilities. Cheap: it compiles nothing.
typedef kiln_status codegen_plan_fn(const struct fused_kernel *k, const struct device_caps *caps,
                                    struct codegen_plan *out);
codegen_plan_fn glsl_plan, llvm_plan;

// codegen/glsl: the text of the family's shader, which includes templates of shaders/ by name.
kiln_status glsl_text(const struct fused_kernel *k, const struct codegen_plan *plan, struct str *text);
