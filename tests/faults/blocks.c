// Blocks by address, in open addressing. A lock that spins: it is held for a few steps.
#include "faults.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 14, FRAMES = 12 }; // a power of two

static struct {
    uintptr_t p, site; // p: 0 free, 1 removed
} slots[SLOTS];
static void *traces[SLOTS][FRAMES]; // while they are asked for
static size_t n_blocks;
static atomic_flag lock = ATOMIC_FLAG_INIT;

static size_t first_slot(uintptr_t p)
{
    return (size_t)((p >> 4) * 0x9e3779b97f4a7c15u >> 50) & (SLOTS - 1);
}

static _Thread_local bool hidden;

void blocks_hide(bool on)
{
    hidden = on;
}

static void acquire(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) {}
}

static void release(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

void blocks_add(void *p, void *site)
{
    void *frames[FRAMES] = {NULL};
    if (hidden) return;
    if (fault_trace) backtrace(frames, FRAMES);
    acquire();
    size_t i = first_slot((uintptr_t)p);
    while (slots[i].p > 1) i = (i + 1) & (SLOTS - 1);
    if (++n_blocks > SLOTS / 2) abort();
    slots[i].p = (uintptr_t)p;
    slots[i].site = (uintptr_t)site;
    if (fault_trace) memcpy(traces[i], frames, sizeof frames);
    release();
}

// What others have taken is not there.
void blocks_remove(void *p)
{
    if (!p) return;
    acquire();
    size_t i = first_slot((uintptr_t)p);
    while (slots[i].p && slots[i].p != (uintptr_t)p) i = (i + 1) & (SLOTS - 1);
    if (slots[i].p) {
        n_blocks--;
        slots[i].p = 1;
        // What is removed and followed by nothing is free.
        for (; slots[i].p == 1 && !slots[(i + 1) & (SLOTS - 1)].p; i = (i - 1) & (SLOTS - 1)) slots[i].p = 0;
    }
    release();
}

static int *count_of(struct block_sites *sites, uintptr_t site)
{
    size_t i = first_slot(site << 4) & (SITES_MAX - 1);
    while (sites->site[i] && sites->site[i] != site) i = (i + 1) & (SITES_MAX - 1);
    sites->site[i] = site;
    return &sites->count[i];
}

void blocks_count(struct block_sites *out)
{
    memset(out, 0, sizeof *out);
    acquire();
    for (size_t i = 0; i < SLOTS; i++) {
        if (slots[i].p < 2) continue;
        ++*count_of(out, slots[i].site);
        out->total++;
    }
    release();
}

// For addr2line.
void print_place(const char *what, uintptr_t place)
{
    Dl_info info;
    if (!dladdr((void *)place, &info) || !info.dli_fname) return;
    const char *slash = strrchr(info.dli_fname, '/');
    fprintf(stderr, "%s %s+0x%zx\n", what, slash ? slash + 1 : info.dli_fname,
            (size_t)(place - (uintptr_t)info.dli_fbase - 1));
}

static void print_traces(uintptr_t site)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (slots[i].p < 2 || slots[i].site != site) continue;
        fprintf(stderr, "  a block\n");
        for (int f = 1; f < FRAMES && traces[i][f]; f++) print_place("    from", (uintptr_t)traces[i][f]);
    }
}

void blocks_print_excess(const struct block_sites *now, const struct block_sites *base)
{
    struct block_sites *b = (struct block_sites *)base;
    for (size_t i = 0; i < SITES_MAX; i++) {
        int more = now->site[i] ? now->count[i] - *count_of(b, now->site[i]) : 0;
        if (more <= 0) continue;
        fprintf(stderr, "  %d blocks more", more);
        print_place(" from", now->site[i]);
        if (fault_trace) print_traces(now->site[i]);
    }
}
