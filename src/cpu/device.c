// The CPU as a device: memory is the host's, launches run before they return. A small launch runs on the calling
// thread, a large one on the threads of OpenMP. It is also the device that others fall back on.
#include "base/process.h"
#include "device/device.h"
#include "cpu/blas.h"
#include "cpu/compiled.h"
#include "cpu/isa.h"
#include "cpu/parallel.h"
#include "cpu/user.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE_B = 2 << 20 };

// The table of kernels of this process's instruction set, hand-written ones filled in. Made once, kept.
static struct {
    const struct cpu_isa *isa;
    struct cpu_kernel *kernels;
    pthread_mutex_t lock;
} code = {.lock = PTHREAD_MUTEX_INITIALIZER};
GUARD_LOCK(guard_code, code.lock)

static const struct cpu_custom *find_custom(const struct cpu_isa *isa, const char *name)
{
    for (const struct cpu_custom *c = isa->customs; c->name; c++)
        if (!strcmp(c->name, name)) return c;
    return NULL;
}

static kiln_status make_table(void)
{
    const struct cpu_isa *isa;
    TRY(cpu_isa_choose(&isa));
    struct cpu_kernel *kernels = calloc((size_t)kernel_count + 1, sizeof *kernels);
    if (!kernels) return error_set(KILN_E_MEMORY, "device_open: out of memory for the table of kernels");
    for (int i = 0; i < cpu_n_generated; i++) {
        struct cpu_kernel *k = &kernels[cpu_generated[i].id];
        *k = cpu_generated[i];
        k->fn = isa->functions[i];
    }
    for (int i = 0; i < kernel_count; i++) {
        if (kernel_catalogue[i].kind != KERNEL_CUSTOM) continue;
        kernels[i].custom = find_custom(isa, kernel_catalogue[i].name);
        if (kernels[i].custom) kernels[i].form = CPU_CUSTOM;
    }
    code.isa = isa;
    code.kernels = kernels;
    return KILN_OK;
}

const struct cpu_kernel *cpu_kernel_of(kernel_id id)
{
    return &code.kernels[id];
}

static void processor_name(char *out, size_t size_B)
{
    snprintf(out, size_B, "CPU");
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10)) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, size_B, "%s", colon + 2);
        break;
    }
    if (f) fclose(f);
}

static kiln_status cpu_open(kiln_device *dev, const char *spec)
{
    if (*spec) return error_set(KILN_E_ARGUMENT, "device_open: there is one CPU device, \"cpu\"; got \"cpu%s\"", spec);
    pthread_mutex_lock(&code.lock);
    kiln_status status = code.kernels ? KILN_OK : make_table();
    pthread_mutex_unlock(&code.lock);
    TRY(status);
    processor_name(dev->name, sizeof dev->name);
    snprintf(dev->driver, sizeof dev->driver, "kernels %s, %s", code.isa->name, cpu_blas()->name);
    long pages = sysconf(_SC_PHYS_PAGES), page_B = sysconf(_SC_PAGESIZE);
    dev->info.memory_B = pages > 0 && page_B > 0 ? (uint64_t)pages * (uint64_t)page_B : 0;
    dev->info.subgroup_size = 1;
    dev->info.threads = (uint32_t)cpu_threads_wanted();
    dev->caps = (struct device_caps){.code = CODE_LLVM,
                                     .host = true,
                                     .checks_indices = true,
                                     .checks_values = true,
                                     .own_products = true,
                                     .cheap_launches = true,
                                     .f64 = true,
                                     .i64 = true,
                                     .f16_storage = true,
                                     .i8_storage = true,
                                     .subgroup_size = 1,
                                     .parallelism = (uint32_t)cpu_threads_wanted()};
    return KILN_OK;
}

static void cpu_close(kiln_device *dev)
{
    (void)dev;
}

// Large slabs are mapped on whole huge pages: the first touch of 16 MB in small ones costs as much as several passes
// over it.
static kiln_status cpu_slab_alloc(kiln_device *dev, uint64_t size_B, struct slab *out)
{
    (void)dev;
    if (size_B > SIZE_MAX / 2)
        return error_set(KILN_E_DEVICE_MEMORY, "cpu: %llu bytes are more than memory can have",
                         (unsigned long long)size_B);
    bool large = size_B >= HUGE_PAGE_B;
    size_t align_B = large ? HUGE_PAGE_B : 256;
    size_t rounded_B = ((size_t)size_B + align_B - 1) / align_B * align_B;
    void *p;
    if (large) {
        char *map = mmap(NULL, rounded_B + align_B, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p = map == MAP_FAILED ? NULL : map;
        if (p) {
            size_t skip_B = (align_B - (uintptr_t)map % align_B) % align_B;
            if (skip_B) munmap(map, skip_B);
            if (align_B - skip_B) munmap(map + skip_B + rounded_B, align_B - skip_B);
            p = map + skip_B;
            madvise(p, rounded_B, MADV_HUGEPAGE);
        }
    } else {
        p = aligned_alloc(align_B, rounded_B ? rounded_B : align_B);
    }
    if (!p) return error_set(KILN_E_DEVICE_MEMORY, "cpu: out of memory: %llu bytes", (unsigned long long)size_B);
    *out = (struct slab){.address = (uint64_t)(uintptr_t)p, .host = p, .size_B = size_B, .handle = large ? p : NULL};
    return KILN_OK;
}

static void cpu_slab_free(kiln_device *dev, struct slab *s)
{
    (void)dev;
    if (s->handle)
        munmap(s->host, ((size_t)s->size_B + HUGE_PAGE_B - 1) / HUGE_PAGE_B * HUGE_PAGE_B);
    else
        free(s->host);
    *s = (struct slab){0};
}

static bool cpu_supports(kiln_device *dev, const struct launch *l)
{
    (void)dev;
    if (KILN_UNLIKELY(l->kernel >= kernel_count)) return cpu_user_supports(l);
    return code.kernels[l->kernel].form != CPU_NONE;
}

struct custom_range {
    const struct cpu_custom *custom;
    const struct launch *l;
};

static kiln_status run_custom(void *user, int64_t begin, int64_t end)
{
    const struct custom_range *r = user;
    return r->custom->run(r->l, begin, end);
}

static kiln_status cpu_launch(kiln_device *dev, const struct launch *l)
{
    (void)dev;
    if (KILN_UNLIKELY(l->kernel >= kernel_count)) return cpu_user_launch(code.isa, l);
    const struct cpu_kernel *k = &code.kernels[l->kernel];
    if (KILN_LIKELY(k->form == CPU_POINTWISE)) return code.isa->pointwise(k, l);
    if (k->form == CPU_ROW) return code.isa->row(k, l);
    if (!k->custom->units) return k->custom->run(l, 0, 1);
    struct cpu_work w = k->custom->units(l);
    return cpu_parallel(w.units, w.unit_cost, run_custom, &(struct custom_range){k->custom, l});
}

static uint64_t cpu_keep(kiln_device *dev, const struct launch *l, void *to)
{
    (void)dev;
    const struct cpu_custom *custom = l->kernel < kernel_count ? code.kernels[l->kernel].custom : NULL;
    return custom && !strcmp(custom->name, "matmul") ? code.isa->keep_matmul(l, to) : 0;
}

static kiln_status cpu_copy(kiln_device *dev, uint64_t dst, uint64_t src, uint64_t size_B,
                            const struct launch_facts *facts)
{
    (void)dev;
    memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, (size_t)size_B);
    return KILN_OK;
}

static kiln_status cpu_upload(kiln_device *dev, uint64_t dst, const void *src, uint64_t size_B)
{
    (void)dev;
    memcpy((void *)(uintptr_t)dst, src, (size_t)size_B);
    return KILN_OK;
}

static kiln_status cpu_download(kiln_device *dev, void *dst, uint64_t src, uint64_t size_B)
{
    (void)dev;
    memcpy(dst, (const void *)(uintptr_t)src, (size_t)size_B);
    return KILN_OK;
}

static kiln_status cpu_synchronize(kiln_device *dev)
{
    (void)dev;
    return KILN_OK;
}

// Code that is loaded already: two functions.
static kiln_status cpu_load_compiled(kiln_device *dev, const struct compiled_code *given, void **out)
{
    (void)dev;
    struct compiled_code *copy = malloc(sizeof *copy);
    if (!copy) return error_set(KILN_E_MEMORY, "cpu: out of memory for kernel %s", given->name);
    *copy = *given;
    *out = copy;
    return KILN_OK;
}

static void cpu_unload_compiled(kiln_device *dev, void *compiled)
{
    (void)dev;
    free(compiled);
}

static kiln_status cpu_launch_compiled(kiln_device *dev, const struct compiled_launch *l)
{
    (void)dev;
    const struct compiled_code *c = l->compiled;
    return cpu_run_compiled(c->run, l->run_end ? c->end : NULL, l->words, l->units, l->unit_cost);
}

const struct device_ops cpu_device_ops = {
    .kind = "cpu",
    .role = ROLE_HOST,
    .forks = true,
    .open = cpu_open,
    .close = cpu_close,
    .slab_alloc = cpu_slab_alloc,
    .slab_free = cpu_slab_free,
    .supports = cpu_supports,
    .launch = cpu_launch,
    .copy = cpu_copy,
    .upload = cpu_upload,
    .download = cpu_download,
    .synchronize = cpu_synchronize,
    .load_compiled = cpu_load_compiled,
    .unload_compiled = cpu_unload_compiled,
    .launch_compiled = cpu_launch_compiled,
    .keep = cpu_keep,
};
