// The device: a vtable at the level of launches, a heap over slabs, and the counters. Every device implements
// device_ops; everything above uses device_*.
#pragma once
#include "base/process.h"
#include "device/gate.h"
#include "device/record.h"
#include "ir/caps.h"
#include "ir/compiled.h"
#include "ir/launch.h"
#include <kiln/device.h>
#include <pthread.h>
#include <stdatomic.h>

struct slab {         // a piece of memory from the system
    uint64_t address; // device address (CPU: the pointer)
    void *host;       // mapped memory, or NULL
    uint64_t size_B;
    void *handle; // the device's own
};

enum device_role {
    ROLE_NONE, // opened by its name alone
    ROLE_HOST, // always there: the default without a GPU, and what runs what another device lacks
    ROLE_GPU,  // "gpu" and the default open its first real one, "kind:N" the one with that number
};

// Each entry is required unless it says what NULL means.
struct device_ops {
    const char *kind; // "cpu", "vulkan", "null"
    enum device_role role;
    // Fills infos of the devices of this kind, at most `max`; how many there are. NULL: none that a user could choose.
    size_t (*list)(kiln_device_info *out, size_t max);
    // Fills dev->impl, caps, info. `spec` is what follows the kind in the name ("" or ":1" and so on).
    kiln_status (*open)(kiln_device *dev, const char *spec);
    void (*close)(kiln_device *dev);
    kiln_status (*slab_alloc)(kiln_device *dev, uint64_t size_B, struct slab *out);
    void (*slab_free)(kiln_device *dev, struct slab *s);
    bool (*supports)(kiln_device *dev, const struct launch *l);
    kiln_status (*launch)(kiln_device *dev, const struct launch *l); // stream order; may return before it ran
    // `facts` for profiles, or NULL.
    kiln_status (*copy)(kiln_device *dev, uint64_t dst, uint64_t src, uint64_t size_B,
                        const struct launch_facts *facts);
    kiln_status (*upload)(kiln_device *dev, uint64_t dst, const void *src, uint64_t size_B); // src is free on return
    kiln_status (*download)(kiln_device *dev, void *dst, uint64_t src, uint64_t size_B);     // waits
    // The clock that kiln_device_mark reads; NULL: launches run before they return, and the host's clock will do.
    kiln_status (*mark)(kiln_device *dev, unsigned mark);
    kiln_status (*elapsed)(kiln_device *dev, unsigned from, unsigned to, double *time_ns);
    kiln_status (*synchronize)(kiln_device *dev);
    kiln_status (*tune)(kiln_device *dev); // NULL: it measures nothing of itself
    void (*leave)(kiln_device *dev); // the user has closed it, and it can still be used; NULL: nothing is left to do
    // Devices that run kernels compiled while the program runs; NULL for others. A module for a user's kernel, whether
    // there is one, and the text of a shader template (NULL when there is none of that name).
    kiln_status (*add_kernel)(kiln_device *dev, kernel_id kernel, const uint32_t *words, size_t n_words, bool f64);
    bool (*has_kernel)(kiln_device *dev, kernel_id kernel);
    const char *(*shader_text)(void *unused, const char *name);
    // Code compiled while the program runs, of kernels that no catalogue lists; NULL where there is none. A device that
    // is not a CPU and has no shader_text does not look at the code. Loading copies the code. Unloading may come while
    // launches are in flight. A launch is recorded in stream order.
    kiln_status (*load_compiled)(kiln_device *dev, const struct compiled_code *code, void **out);
    void (*unload_compiled)(kiln_device *dev, void *compiled);
    kiln_status (*launch_compiled)(kiln_device *dev, const struct compiled_launch *l);
    // What is launched between begin and end belongs together and goes to the queue at once, as far as the bound on a
    // submission's work allows; may nest. NULL: launches run one by one.
    kiln_status (*batch)(kiln_device *dev, bool begin);
    const struct gate_ops *gates;     // NULL: the host decides what is launched
    const struct record_ops *records; // NULL: each launch is made anew
    // Of a launch that is to run many times with operand 1 as it is now: the bytes which that takes as the kernel reads
    // it, 0 where it is read as it lies. Written to `to`, 64-byte aligned, unless it is NULL; launches that have it in
    // .kept give the same bits. NULL: nothing is kept.
    uint64_t (*keep)(kiln_device *dev, const struct launch *l, void *to);
    bool forks; // works on in the child of a fork
};

struct heap; // device/heap.c

struct kiln_device {
    const struct device_ops *ops;
    void *impl;
    struct device_caps caps;
    atomic_int refs;    // one for the user's handle, one a storage
    atomic_int holders; // of this struct alone: one for all of refs, one a thread whose default the device is
    atomic_bool closed; // the user's handle is gone
    bool internal;      // the fallback's CPU, never a default
    bool strict;
    char name[128], driver[192];
    kiln_device_info info;
    kiln_device_stats stats; // counters by STAT_ADD
    struct heap *heap;
    pthread_mutex_t lock; // the generator and the open list; heap and back ends have locks of their own
    struct guarded guarded;
    uint64_t rng_seed, rng_offset;
    double marks_ns[KILN_MARKS];     // of the host's clock; 0: never set
    uint64_t nothing;                // address of operands without elements, which kernels may read; 0: any will do
    uint64_t wait_limit_ns;          // of the host for it; 0: none
    double copy_B_per_s, flop_per_s; // at best; 0: not measured, see debug/profile_print.c
    atomic_ullong held_B;            // memory that recordings keep for temporaries, see program/records.c
    struct kiln_device *next;        // list of open devices
};

// A piece of a slab, 256-byte aligned. Reuse is in stream order: a freed block may be handed out at once, since
// launches run in order and hazards are tracked by address.
// Who owns memory that is not of the heap; told when it is no longer needed, from whichever thread.
struct foreign {
    void (*release)(struct foreign *f);
};

struct block {
    uint64_t address;
    void *host;      // where the host sees it, or NULL
    uint64_t size_B; // as asked for
    uint64_t held_B; // with what rounding adds
    struct heap_slab *slab;
    struct piece *piece;     // of a pool; NULL: of a size class
    struct foreign *foreign; // NULL: of the heap
};
kiln_status device_alloc(kiln_device *dev, uint64_t size_B, struct block *out); // size 0: a block without memory
void device_release(kiln_device *dev, const struct block *b);
kiln_status heap_create(kiln_device *dev);
void heap_use_redzones(kiln_device *dev); // before its first block; see device/redzone.h
bool heap_has_redzones(const kiln_device *dev);
void heap_destroy(kiln_device *dev);
kiln_status heap_trim(kiln_device *dev);
kiln_status heap_set_limit(kiln_device *dev, uint64_t limit_B);
uint64_t heap_most_B(kiln_device *dev); // that there can be: the limit, or what the device has; 0: nobody knows
#define STAT_ADD(dev, field, n) ((void)__atomic_fetch_add(&(dev)->stats.field, (uint64_t)(n), __ATOMIC_RELAXED))
#define STAT_SET(dev, field, n) __atomic_store_n(&(dev)->stats.field, (uint64_t)(n), __ATOMIC_RELAXED)
#define STAT_GET(dev, field)    __atomic_load_n(&(dev)->stats.field, __ATOMIC_RELAXED)
kiln_status device_launch(kiln_device *dev, const struct launch *l); // counts; falls back to the CPU when unsupported
kiln_status device_launch_compiled(kiln_device *dev, const struct compiled_launch *l); // counts
// A record of `launches` launches, which count.
kiln_status device_run_record(kiln_device *dev, struct device_record *r, uint64_t launches, bool *ran);
void device_count_launches(kiln_device *dev, uint64_t n); // of those that were handed to ops->launch_compiled
static inline kiln_status device_batch(kiln_device *d, bool begin)
{
    return d->ops->batch ? d->ops->batch(d, begin) : KILN_OK;
}
kiln_status device_upload(kiln_device *dev, uint64_t dst, const void *src, uint64_t size_B);
kiln_status device_download(kiln_device *dev, void *dst, uint64_t src, uint64_t size_B);
// The same with what the bytes are, for profiles.
kiln_status device_upload_as(kiln_device *dev, const struct type *of, uint64_t dst, const void *src, uint64_t size_B);
kiln_status device_download_as(kiln_device *dev, const struct type *of, void *dst, uint64_t src, uint64_t size_B);
kiln_status device_copy(kiln_device *dev, uint64_t dst, uint64_t src, uint64_t size_B);
// A device that a caller gives: NULL and one that was closed, and of which nothing lives, are errors.
kiln_status device_check(const char *function, const kiln_device *dev);
kiln_device *device_ref(kiln_device *dev);
void device_unref(kiln_device *dev);
// What layers above do for a device. They fill it, since this layer does not know them; NULL: nothing is done.
extern struct device_upper {
    // As the library is loaded, by tensor/live.c: reports the handles that are alive as a device is closed.
    void (*report_alive)(kiln_device *dev);
    // As the library is loaded, by jit/auto: drops what the library itself keeps for a device that is being closed.
    void (*forget)(kiln_device *dev);
    // As the first op is registered, by jit/user_op.c: compiles a user's kernel for a device that has add_kernel.
    kiln_status (*compile)(kiln_device *dev, kernel_id kernel);
} device_upper;
kiln_status device_fall_back(kiln_device *dev, const struct launch *l);
// The device of this kind and name, held: one that is open, else the first of the kind, opened. NULL, without an error:
// there is none.
kiln_device *device_named(const char *kind, const char *name);
// This thread's default device: set, else the first open one; NULL and an error when there is none.
kiln_device *device_default(void);
bool device_is_open(enum device_role role); // one of that role, that is
// The CPU device that runs fallbacks; opened at first use.
kiln_status device_fallback_cpu(kiln_device **out);

// What takes the place of these ops in the child of a fork: all is an error, and closing leaves the driver alone.
const struct device_ops *device_of_parent(const struct device_ops *ops);

// table.c
extern const struct device_ops cpu_device_ops, null_device_ops, vulkan_device_ops;
extern const struct device_ops *const device_kinds[];            // of this build; ends with NULL
const struct device_ops *device_kind_for(enum device_role role); // NULL: this build has none
// By which a kernel's shader is shown: the device's shader_text or, of one that takes shaders and does not look at
// them, a GPU's. NULL: the device takes none.
const char *(*device_shown_text(const kiln_device *dev))(void *unused, const char *name);
