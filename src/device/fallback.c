// A launch that a device lacks runs on the CPU: the bytes each operand touches come to the host, the CPU's kernel runs,
// what was written goes back. Counted, reported once, and an error in strict-device mode.
#include "device/device.h"
#include <stdlib.h>

struct staged {
    void *host;
    uint64_t base;
    uint64_t size_B;
    bool written;
};

// Operands whose ranges overlap share one piece, so that an output written in place stays one memory.
static int stage_of(const struct staged *s, int n, uint64_t lo, uint64_t hi)
{
    for (int i = 0; i < n; i++)
        if (lo < s[i].base + s[i].size_B && s[i].base < hi) return i;
    return -1;
}

static int gather_ranges(const struct launch *l, struct staged *s)
{
    int n = 0;
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        if (o->flags & OPERAND_IMMEDIATE) continue;
        uint64_t lo = o->address + (uint64_t)o->range_lo_B, hi = o->address + (uint64_t)o->range_hi_B;
        int k;
        while ((k = stage_of(s, n, lo, hi)) >= 0) { // merge with every piece it meets
            if (s[k].base < lo) lo = s[k].base;
            if (s[k].base + s[k].size_B > hi) hi = s[k].base + s[k].size_B;
            s[k] = s[--n];
        }
        s[n++] = (struct staged){.base = lo, .size_B = hi - lo};
    }
    return n;
}

static kiln_status run_staged(kiln_device *dev, kiln_device *cpu, const struct launch *l, struct staged *s, int n)
{
    struct launch host = *l;
    for (int i = 0; i < n; i++) {
        s[i].host = malloc(s[i].size_B);
        if (!s[i].host) return error_set(KILN_E_MEMORY, "%s: out of host memory for a fallback", l->op);
        TRY(device_download(dev, s[i].host, s[i].base, s[i].size_B));
    }
    for (int i = 0; i < l->n_operands; i++) {
        struct launch_operand *o = &host.operands[i];
        if (o->flags & OPERAND_IMMEDIATE) continue;
        int k = stage_of(s, n, o->address + (uint64_t)o->range_lo_B, o->address + (uint64_t)o->range_hi_B);
        o->address = (uint64_t)(uintptr_t)s[k].host + (o->address - s[k].base);
        if (o->flags & OPERAND_WRITE) s[k].written = true;
    }
    TRY(device_launch(cpu, &host));
    for (int i = 0; i < n; i++)
        if (s[i].written) TRY(device_upload(dev, s[i].base, s[i].host, s[i].size_B));
    return KILN_OK;
}

kiln_status device_fall_back(kiln_device *dev, const struct launch *l)
{
    const char *kernel = kernel_info(l->kernel)->name;
    if (dev->ops->role != ROLE_GPU)
        return error_set(KILN_E_UNSUPPORTED, "%s: the %s device has no kernel %s for these dtypes", l->op,
                         dev->ops->kind, kernel);
    if (dev->strict)
        return error_set(KILN_E_UNSUPPORTED,
                         "%s: %s has no kernel %s for these dtypes, and strict-device mode forbids the CPU", l->op,
                         dev->name, kernel);
    kiln_device *cpu;
    struct staged s[MAX_OPERANDS] = {{0}};
    int n = gather_ranges(l, s);
    kiln_status status = device_fallback_cpu(&cpu);
    if (!status) {
        STAT_ADD(dev, fallbacks, 1);
        log_warn("%s: %s lacks kernel %s; it runs on the CPU", l->op, dev->name, kernel);
        status = run_staged(dev, cpu, l, s, n);
    }
    for (int i = 0; i < n; i++) free(s[i].host);
    return status;
}
