// A device that computes nothing: it takes the same launches and looks whether they could run. Captures, lowering and
// memory plans are tested with it where there is no hardware. What is read from it is zeros.
#include "base/process.h"
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The live slabs: a launch must not touch memory outside them.
struct null_device {
    pthread_mutex_t lock;
    struct guarded guarded;
    struct slab *slabs;
    size_t n, cap;
};

static kiln_status null_open(kiln_device *dev, const char *spec)
{
    (void)spec;
    struct null_device *d = calloc(1, sizeof *d);
    if (!d) return error_set(KILN_E_MEMORY, "device_open: out of memory");
    pthread_mutex_init(&d->lock, NULL);
    lock_guard(&d->guarded, &d->lock, false);
    dev->impl = d;
    snprintf(dev->name, sizeof dev->name, "null");
    snprintf(dev->driver, sizeof dev->driver, "checks launches, computes nothing");
    dev->info.subgroup_size = 1;
    dev->info.threads = 1;
    dev->caps = (struct device_caps){.code = CODE_GLSL,
                                     .f64 = true,
                                     .i64 = true,
                                     .f16_storage = true,
                                     .i8_storage = true,
                                     .subgroup_size = 32,
                                     .max_shared_B = 32768,
                                     .max_local = 1024,
                                     .shuffle = true,
                                     .halves = true,
                                     .max_push_B = 128,
                                     .parallelism = 1 << 16};
    return KILN_OK;
}

static void null_close(kiln_device *dev)
{
    struct null_device *d = dev->impl;
    if (!d) return;
    lock_unguard(&d->guarded);
    pthread_mutex_destroy(&d->lock);
    free(d->slabs);
    free(d);
    dev->impl = NULL;
}

static kiln_status null_slab_alloc(kiln_device *dev, uint64_t size_B, struct slab *out)
{
    struct null_device *d = dev->impl;
    uint64_t rounded_B = (size_B + 255) / 256 * 256;
    void *p = size_B <= SIZE_MAX / 2 ? aligned_alloc(256, rounded_B ? (size_t)rounded_B : 256) : NULL;
    if (!p) return error_set(KILN_E_DEVICE_MEMORY, "null: out of memory: %llu bytes", (unsigned long long)size_B);
    *out = (struct slab){.address = (uint64_t)(uintptr_t)p, .host = p, .size_B = size_B};
    pthread_mutex_lock(&d->lock);
    if (d->n == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 16;
        struct slab *more = realloc(d->slabs, cap * sizeof *more);
        if (!more) {
            pthread_mutex_unlock(&d->lock);
            free(p);
            return error_set(KILN_E_MEMORY, "null: out of memory");
        }
        d->slabs = more;
        d->cap = cap;
    }
    d->slabs[d->n++] = *out;
    pthread_mutex_unlock(&d->lock);
    // The host view is left out: what is read comes by download, as zeros.
    out->host = NULL;
    return KILN_OK;
}

static void null_slab_free(kiln_device *dev, struct slab *s)
{
    struct null_device *d = dev->impl;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->n; i++)
        if (d->slabs[i].address == s->address) {
            d->slabs[i] = d->slabs[--d->n];
            break;
        }
    pthread_mutex_unlock(&d->lock);
    free((void *)(uintptr_t)s->address);
    *s = (struct slab){0};
}

static bool inside(const struct null_device *d, uint64_t lo, uint64_t hi)
{
    for (size_t i = 0; i < d->n; i++)
        if (lo >= d->slabs[i].address && hi <= d->slabs[i].address + d->slabs[i].size_B) return true;
    return false;
}

static kiln_status check_range(kiln_device *dev, const char *what, uint64_t lo, uint64_t hi)
{
    struct null_device *d = dev->impl;
    pthread_mutex_lock(&d->lock);
    bool ok = lo <= hi && (lo == hi || inside(d, lo, hi));
    pthread_mutex_unlock(&d->lock);
    return ok ? KILN_OK : error_set(KILN_E_INTERNAL, "null: %s touches memory outside the device's", what);
}

// What a condition or a computed place leaves out of a range is not read.
static kiln_status check_reads(kiln_device *dev, const char *what, uint64_t lo, uint64_t hi)
{
    struct null_device *d = dev->impl;
    pthread_mutex_lock(&d->lock);
    bool ok = lo == hi;
    for (size_t i = 0; i < d->n && !ok; i++)
        ok = lo < d->slabs[i].address + d->slabs[i].size_B && hi > d->slabs[i].address;
    pthread_mutex_unlock(&d->lock);
    return ok ? KILN_OK : error_set(KILN_E_INTERNAL, "null: %s reads no memory of the device", what);
}

static bool null_supports(kiln_device *dev, const struct launch *l)
{
    (void)dev;
    return kernel_info(l->kernel)->kind != KERNEL_NONE;
}

// Bytes that the strides reach from element 0, against the range that the launch declares.
static kiln_status check_operand(kiln_device *dev, const struct launch *l, int i)
{
    const struct launch_operand *o = &l->operands[i];
    if (o->dtype >= DTYPE_COUNT)
        return error_set(KILN_E_INTERNAL, "null: %s: operand %d has dtype %d", l->op, i, o->dtype);
    if (o->flags & OPERAND_IMMEDIATE) {
        if (o->flags & OPERAND_WRITE)
            return error_set(KILN_E_INTERNAL, "null: %s: operand %d is an immediate output", l->op, i);
        return KILN_OK;
    }
    if (kernel_info(l->kernel)->kind != KERNEL_CUSTOM) {
        int64_t lo = 0, hi = 0;
        bool empty = false;
        for (int d = 0; d < l->rank; d++) {
            empty = empty || l->sizes[d] == 0;
            *(o->strides[d] < 0 ? &lo : &hi) += (l->sizes[d] - 1) * o->strides[d] * dtype_size_B[o->dtype];
        }
        hi += dtype_size_B[o->dtype];
        if (!empty && (lo < o->range_lo_B || hi > o->range_hi_B))
            return error_set(KILN_E_INTERNAL, "null: %s: operand %d reaches [%lld, %lld) of a declared [%lld, %lld)",
                             l->op, i, (long long)lo, (long long)hi, (long long)o->range_lo_B,
                             (long long)o->range_hi_B);
    }
    return check_range(dev, l->op ? l->op : "a launch", o->address + (uint64_t)o->range_lo_B,
                       o->address + (uint64_t)o->range_hi_B);
}

static kiln_status null_launch(kiln_device *dev, const struct launch *l)
{
    const struct kernel_info *k = kernel_info(l->kernel);
    if (l->rank > MAX_RANK || l->n_reduce > l->rank)
        return error_set(KILN_E_INTERNAL, "null: %s: rank %d with %d reduced dimensions", l->op, l->rank, l->n_reduce);
    if (k->kind != KERNEL_CUSTOM && l->n_operands != k->n_operands)
        return error_set(KILN_E_INTERNAL, "null: %s: kernel %s takes %d operands, got %d", l->op, k->name,
                         k->n_operands, l->n_operands);
    if (k->kind == KERNEL_POINTWISE && l->n_reduce)
        return error_set(KILN_E_INTERNAL, "null: %s: a pointwise kernel has no row", l->op);
    for (int d = 0; d < l->rank; d++)
        if (l->sizes[d] < 0)
            return error_set(KILN_E_INTERNAL, "null: %s: dimension %d has size %lld", l->op, d, (long long)l->sizes[d]);
    for (int i = 0; i < l->n_operands; i++) TRY(check_operand(dev, l, i));
    return KILN_OK;
}

// Compiled code is not looked at: a handle is a name.
static kiln_status null_load_compiled(kiln_device *dev, const struct compiled_code *code, void **out)
{
    (void)dev;
    *out = strdup(code->name);
    return *out ? KILN_OK : error_set(KILN_E_MEMORY, "%s: null: out of memory for a kernel", code->name);
}

static void null_unload_compiled(kiln_device *dev, void *compiled)
{
    (void)dev;
    free(compiled);
}

static kiln_status null_launch_compiled(kiln_device *dev, const struct compiled_launch *l)
{
    if (l->n_ranges > COMPILED_MAX_RANGES)
        return error_set(KILN_E_INTERNAL, "null: %s: %u ranges, %d at most", l->op, l->n_ranges, COMPILED_MAX_RANGES);
    for (uint32_t i = 0; i < l->n_ranges; i++) {
        const struct compiled_range *r = &l->ranges[i];
        uint64_t lo = r->address + (uint64_t)r->lo_B, hi = r->address + (uint64_t)r->hi_B;
        TRY(r->write ? check_range(dev, l->op, lo, hi) : check_reads(dev, l->op, lo, hi));
    }
    return check_range(dev, l->op, l->workspace, l->workspace + l->workspace_B);
}

static kiln_status null_copy(kiln_device *dev, uint64_t dst, uint64_t src, uint64_t size_B,
                             const struct launch_facts *facts)
{
    TRY(check_range(dev, "a copy", src, src + size_B));
    return check_range(dev, "a copy", dst, dst + size_B);
}

static kiln_status null_upload(kiln_device *dev, uint64_t dst, const void *src, uint64_t size_B)
{
    (void)src;
    return check_range(dev, "an upload", dst, dst + size_B);
}

static kiln_status null_download(kiln_device *dev, void *dst, uint64_t src, uint64_t size_B)
{
    TRY(check_range(dev, "a download", src, src + size_B));
    memset(dst, 0, (size_t)size_B);
    return KILN_OK;
}

// A gate that is never open, so that a loop's first trips alone are launched.
static kiln_status null_step(kiln_device *dev, struct device_gate *g, enum gate_step step)
{
    (void)step;
    STAT_ADD(dev, launches, 1);
    TRY(check_range(dev, "a gate's value", g->value, g->value + dtype_size_B[g->dtype]));
    if (g->around) TRY(check_range(dev, "the gate around a gate", g->around, g->around + sizeof(struct gate_state)));
    return check_range(dev, "a gate", g->state, g->state + sizeof(struct gate_state));
}

static kiln_status null_look(kiln_device *dev, const struct device_gate *g, struct gate_look *out)
{
    *out = (struct gate_look){0, 0};
    return check_range(dev, "a gate", g->state, g->state + sizeof(struct gate_state));
}

static kiln_status null_see(kiln_device *dev, const struct device_gate *g, struct gate_look *l, struct gate_state *out)
{
    (void)dev, (void)g, (void)l;
    *out = (struct gate_state){0};
    return KILN_OK;
}

static void null_drop(kiln_device *dev, struct gate_look *l)
{
    (void)dev, (void)l;
}

static kiln_status null_fault_add(kiln_device *dev, const struct device_fault *f, uint32_t *id)
{
    (void)dev, (void)f;
    *id = 1;
    return KILN_OK;
}

static void null_fault_drop(kiln_device *dev, uint32_t id)
{
    (void)dev, (void)id;
}

static const struct gate_ops null_gate_ops = {.step = null_step,
                                              .look = null_look,
                                              .see = null_see,
                                              .drop = null_drop,
                                              .fault_add = null_fault_add,
                                              .fault_drop = null_fault_drop};

static kiln_status null_synchronize(kiln_device *dev)
{
    (void)dev;
    return KILN_OK;
}

const struct device_ops null_device_ops = {
    .kind = "null",
    .forks = true,
    .open = null_open,
    .close = null_close,
    .slab_alloc = null_slab_alloc,
    .slab_free = null_slab_free,
    .supports = null_supports,
    .launch = null_launch,
    .copy = null_copy,
    .upload = null_upload,
    .download = null_download,
    .synchronize = null_synchronize,
    .load_compiled = null_load_compiled,
    .unload_compiled = null_unload_compiled,
    .launch_compiled = null_launch_compiled,
    .gates = &null_gate_ops,
};
