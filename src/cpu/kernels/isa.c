// What this instruction set offers, in one place.
#include "cpu/kernels/kernel.h"

#define UNITS_0(name) NULL
#define UNITS_1(name) CPU_FN(cpu_units_##name)
const struct cpu_custom CPU_FN(cpu_customs)[] = {
#define CUSTOM(name, units) {#name, CPU_FN(cpu_kernel_##name), UNITS_##units(name)},
#include "cpu/kernels/custom.def"
    {NULL},
};

#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)

const struct cpu_isa CPU_FN(cpu_isa) = {
    .name = TEXT(KILN_ISA),
    .functions = CPU_FN(cpu_functions),
    .customs = CPU_FN(cpu_customs),
    .pointwise = CPU_FN(cpu_pointwise),
    .row = CPU_FN(cpu_row),
    .keep_matmul = CPU_FN(cpu_keep_matmul),
};
