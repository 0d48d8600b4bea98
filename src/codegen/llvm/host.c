// The processor's own words, by its instruction for that: which LLVM would have to be opened to put into names.
#include "codegen/llvm/host.h"

#if defined(__x86_64__)
#include <cpuid.h>

struct leaf {
    unsigned number, sub;
    unsigned keep_b, keep_c, keep_d; // what is left out tells which of the cores this is, or how many there are
};

// Which registers the system saves.
static uint64_t saved_registers(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

bool host_add_processor(struct str *out)
{
    enum { FEATURES = 1 };
    static const struct leaf leaves[] = {
        {0, 0, ~0u, ~0u, ~0u},
        {FEATURES, 0, 0xffff, ~0u, ~0u},
        {7, 0, ~0u, ~0u, ~0u},
        {7, 1, ~0u, ~0u, ~0u},
        {13, 1, 0, ~0u, 0},
        {20, 0, ~0u, ~0u, ~0u},
        {25, 0, ~0u, ~0u, ~0u},
        {0x80000000, 0, ~0u, ~0u, ~0u},
        {0x80000001, 0, ~0u, ~0u, ~0u},
        {0x80000008, 0, ~0u, 0, 0},
    };
    bool saves = false;
    str_add(out, "llvm for x86-64");
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        const struct leaf *l = &leaves[i];
        unsigned a = 0, b = 0, c = 0, d = 0;
        if (!__get_cpuid_count(l->number, l->sub, &a, &b, &c, &d)) continue;
        if (l->number == FEATURES) saves = c & bit_OSXSAVE;
        str_addf(out, ", %x.%x:%08x.%08x.%08x.%08x", l->number, l->sub, a, b & l->keep_b, c & l->keep_c, d & l->keep_d);
    }
    str_addf(out, ", saved:%llx", saves ? (unsigned long long)saved_registers() : 0);
    return true;
}
#else
bool host_add_processor(struct str *out)
{
    (void)out;
    return false;
}
#endif
