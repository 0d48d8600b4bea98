// Kernels are compiled for several instruction sets (KILN_ISA_LIST, best last); which to take is asked of the
// processor.
#include "cpu/isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(isa) extern const struct cpu_isa cpu_isa_##isa;
KILN_ISA_LIST
#undef X

static const struct cpu_isa *const built[] = {
#define X(isa) &cpu_isa_##isa,
    KILN_ISA_LIST
#undef X
};

// The levels of the x86-64 psABI; what is not asked for comes with what is on every processor made.
static bool machine_runs(const char *isa)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!strcmp(isa, "v2")) return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    if (!strcmp(isa, "v3"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
               __builtin_cpu_supports("fma");
    if (!strcmp(isa, "v4"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return !strcmp(isa, "base");
}

kiln_status cpu_isa_choose(const struct cpu_isa **out)
{
    const char *wanted = getenv("KILN_CPU_ISA");
    char names[64] = "";
    for (size_t i = COUNT_OF(built); i-- > 0;) {
        size_t len = strlen(names);
        snprintf(names + len, sizeof names - len, " %s", built[i]->name);
        if (wanted && *wanted && strcmp(wanted, built[i]->name)) continue;
        if (!machine_runs(built[i]->name)) continue;
        *out = built[i];
        return KILN_OK;
    }
    if (wanted && *wanted)
        return error_set(KILN_E_ARGUMENT, "KILN_CPU_ISA=%s: not built, or not on this machine; built:%s", wanted,
                         names);
    return error_set(KILN_E_UNSUPPORTED,
                     "this machine runs none of the instruction sets that the CPU kernels were built for:%s", names);
}
