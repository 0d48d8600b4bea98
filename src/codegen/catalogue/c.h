// C of the generated CPU kernels. A file of kernels is c_prologue, then c_kernel for each; the table of a library of
// them is gathered with c_table_add while they are written. The text is the same for every instruction set: src/cpu
// compiles it once for each. The structs that it uses lie in cpu/kernels/kernel.h.
#pragma once
#include "codegen/catalogue/kernel.h"

// Room that cpu/kernels/kernel.h has in a block; the prologue asserts that both agree.
#define C_MAX_IN     8
#define C_MAX_REDUCE 8
#define C_MAX_KEEP   4
#define C_MAX_ROWVAL 8

void c_prologue(struct str *out);

// Rows of the table under way: declarations and initialisers.
struct c_table {
    struct str declarations, rows;
};

void c_table_init(struct c_table *t);
void c_table_free(struct c_table *t);
kiln_status c_table_add(struct c_table *t, const struct kernel *k, kernel_id id);
// The whole file; n_kernels is the size of the catalogue.
kiln_status c_table_text(const struct c_table *t, int n_kernels, struct str *out);
