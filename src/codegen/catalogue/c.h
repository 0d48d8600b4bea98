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

// Arithmetic steps an element, as many as the kernel's row of the table says.
kiln_status c_cost(const struct kernel *k, int *out);

// Rows of the table under way, and beside each its functions of one instruction set with their declarations.
struct c_table {
    struct str rows, declarations, functions;
    int n;
};

void c_table_init(struct c_table *t);
void c_table_free(struct c_table *t);
kiln_status c_table_add(struct c_table *t, const struct kernel *k, kernel_id id);
// The file of rows, and the file of functions, which is compiled once for each instruction set.
kiln_status c_table_rows(const struct c_table *t, struct str *out);
kiln_status c_table_functions(const struct c_table *t, struct str *out);
