// Whether the processor has AMX, and Linux gives it to this process.
#include "cpu/tiles.h"
#include "base/base.h"

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

// Leaf 7 of cpuid, edx: Intel's manual, volume 2, "CPUID".
static bool processor_has_amx(void)
{
    enum { LEAF = 7, BF16 = 1 << 22, TILE = 1 << 24 };
    unsigned a, b, c, d;
    return __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && (d & BF16) && (d & TILE);
}

// Linux's Documentation/arch/x86/xstate.rst.
static bool system_gives_registers(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILE_DATA = 18 };
    return !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA);
}
#else
static bool processor_has_amx(void)
{
    return false;
}

static bool system_gives_registers(void)
{
    return false;
}
#endif

_Thread_local uint8_t cpu_amx_rows __attribute__((tls_model("initial-exec"))); // a byte: little such storage is left

static const char *ask(void)
{
    if (!processor_has_amx()) return "the processor lacks them";
    if (debug_flag("no-matrices")) return "KILN_DEBUG=no-matrices";
    if (!system_gives_registers()) return "the system does not give their registers to this process";
    return "";
}

// Threads that ask at once hear the same.
const char *cpu_amx_missing(void)
{
    static _Atomic(const char *) answer;
    const char *why = atomic_load_explicit(&answer, memory_order_acquire);
    if (!why) {
        why = ask();
        atomic_store_explicit(&answer, why, memory_order_release);
    }
    return why[0] ? why : NULL;
}
