// Opening, counting, the default device, and the way of a launch to its back end.
#include "base/environment.h"
#include "base/thread.h"
#include "device/device.h"
#include "base/handles.h"
#include "base/note.h"
#include "base/where.h"
#include "device/profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device_upper device_upper;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_list, list_lock)
static kiln_device *open_list;                   // newest first; the default is the oldest that is not closed
static kiln_device *process_default;             // that was set in its place, not closed; NULL: none
static THREAD_LOCAL kiln_device *thread_default; // held

static kiln_status unknown_name(const char *name)
{
    char list[256] = "";
    for (const struct device_ops *const *kind = device_kinds; *kind; kind++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", (*kind)->kind);
    }
    const struct device_ops *gpu = device_kind_for(ROLE_GPU);
    if (gpu) snprintf(list + strlen(list), sizeof list - strlen(list), ", gpu, %s:N", gpu->kind);
    bool gpu_meant =
        gpu && (!strncasecmp(name, "cuda", 4) || !strncasecmp(name, "gpu", 3) || !strncasecmp(name, "hip", 3) ||
                !strncasecmp(name, "mps", 3) || !strncasecmp(name, "rocm", 4));
    return error_set(KILN_E_ARGUMENT, "device_open: there is no device \"%s\" in this build; built in: %s%s", name,
                     list, gpu_meant ? "; GPUs of any maker are reached by Vulkan, \"gpu\" is the first one" : "");
}

static kiln_device *open_kind(const struct device_ops *ops, const char *spec)
{
    kiln_device *dev = handle_new(HANDLE_DEVICE, sizeof *dev);
    if (!dev) {
        error_set(KILN_E_MEMORY, "device_open: out of memory");
        return NULL;
    }
    dev->ops = ops;
    atomic_init(&dev->refs, 1);
    atomic_init(&dev->holders, 1);
    pthread_mutex_init(&dev->lock, NULL);
    lock_guard(&dev->guarded, &dev->lock, false);
    dev->rng_seed = 0x9e3779b97f4a7c15u;
    kiln_status status = heap_create(dev);
    if (!status) status = ops->open(dev, spec);
    if (status) {
        heap_destroy(dev);
        lock_unguard(&dev->guarded);
        pthread_mutex_destroy(&dev->lock);
        handle_free(HANDLE_DEVICE, dev);
        return NULL;
    }
    if (dev->caps.host && debug_flag("redzones")) heap_use_redzones(dev);
    dev->info.size = sizeof dev->info;
    dev->info.kind = ops->kind;
    dev->info.name = dev->name;
    dev->info.driver = dev->driver;
    pthread_mutex_lock(&list_lock);
    dev->next = open_list;
    open_list = dev;
    pthread_mutex_unlock(&list_lock);
    return dev;
}

static kiln_device *open_named(const char *name)
{
    const struct device_ops *gpu = device_kind_for(ROLE_GPU);
    if (gpu && !strcmp(name, "gpu")) return open_kind(gpu, "gpu");
    for (const struct device_ops *const *kind = device_kinds; *kind; kind++) {
        size_t n = strlen((*kind)->kind);
        if (strncmp(name, (*kind)->kind, n)) continue;
        if (name[n] == 0 || (name[n] == ':' && (*kind)->role == ROLE_GPU)) return open_kind(*kind, name + n);
    }
    unknown_name(name);
    return NULL;
}

const char *(*device_shown_text(const kiln_device *dev))(void *unused, const char *name)
{
    const struct device_ops *gpu = dev->caps.code == CODE_GLSL ? device_kind_for(ROLE_GPU) : NULL;
    return dev->ops->shader_text || !gpu ? dev->ops->shader_text : gpu->shader_text;
}

kiln_device *kiln_device_open(const char *name)
{
    if (error_pending) return NULL;
    environment_check();
    profile_from_environment();
    if (!name) name = getenv("KILN_DEVICE");
    if (name && *name) return open_named(name);
    const struct device_ops *gpus = device_kind_for(ROLE_GPU);
    kiln_device *gpu = gpus ? open_kind(gpus, "gpu") : NULL;
    if (gpu) return gpu;
    if (gpus) kiln_error_clear(); // no real GPU: the CPU is the answer, not an error
    return open_kind(device_kind_for(ROLE_HOST), "");
}

static void let_go(kiln_device *dev)
{
    bool last = dev && atomic_fetch_sub_explicit(&dev->holders, 1, memory_order_acq_rel) == 1;
    if (last) handle_free(HANDLE_DEVICE, dev);
}

kiln_status device_check(const char *function, const kiln_device *dev)
{
    return handle_check(function, "dev", HANDLE_DEVICE, dev);
}

kiln_device *device_ref(kiln_device *dev)
{
    atomic_fetch_add_explicit(&dev->refs, 1, memory_order_relaxed);
    return dev;
}

void device_unref(kiln_device *dev)
{
    if (!dev || atomic_fetch_sub_explicit(&dev->refs, 1, memory_order_acq_rel) != 1) return;
    pthread_mutex_lock(&list_lock);
    for (kiln_device **p = &open_list; *p; p = &(*p)->next)
        if (*p == dev) {
            *p = dev->next;
            break;
        }
    pthread_mutex_unlock(&list_lock);
    heap_destroy(dev);
    dev->ops->close(dev);
    lock_unguard(&dev->guarded);
    pthread_mutex_destroy(&dev->lock);
    handle_close(dev);
    let_go(dev);
}

static void set_default(kiln_device *dev)
{
    let_go(thread_default);
    thread_default = dev;
}

static void drop_default(void)
{
    set_default(NULL);
}

void kiln_device_close(kiln_device **dev)
{
    if (!handle_may_free("device_close", HANDLE_DEVICE, dev)) return;
    kiln_device *d = *dev;
    *dev = NULL;
    pthread_mutex_lock(&list_lock);
    bool twice = d->closed;
    d->closed = true;
    if (process_default == d) process_default = NULL;
    pthread_mutex_unlock(&list_lock);
    if (twice) {
        error_set(KILN_E_HANDLE, "device_close: the device was closed already");
        return;
    }
    if (error_is_unheard())
        log_warn("device_close: an error is pending that nobody has read: %s", kiln_error_message());
    if (thread_default == d) drop_default();
    if (device_upper.forget) device_upper.forget(d);
    if (device_upper.report_alive) device_upper.report_alive(d);
    if (d->ops->leave) d->ops->leave(d);
    device_unref(d);
}

// Those that are open, held.
static size_t hold_devices(kiln_device **devices, size_t max)
{
    size_t n = 0;
    pthread_mutex_lock(&list_lock);
    for (kiln_device *d = open_list; d && n < max; d = d->next) {
        int refs = atomic_load(&d->refs); // 0: it is being freed
        while (refs && !atomic_compare_exchange_weak(&d->refs, &refs, refs + 1)) {}
        if (refs) devices[n++] = d;
    }
    pthread_mutex_unlock(&list_lock);
    return n;
}

static bool is_named(const kiln_device *d, const char *kind, const char *name)
{
    return !strcmp(d->ops->kind, kind) && !strcmp(d->name, name);
}

// The first of its kind, where it has that name.
static kiln_device *open_named_so(const char *kind, const char *name)
{
    const struct device_ops *const *k = device_kinds;
    while (*k && strcmp((*k)->kind, kind)) k++;
    kiln_device *dev = *k ? open_kind(*k, "") : NULL;
    if (!dev && error_pending) kiln_error_clear();
    if (!dev) return NULL;
    dev->internal = true; // never a default
    if (is_named(dev, kind, name)) return dev;
    device_unref(dev);
    return NULL;
}

kiln_device *device_named(const char *kind, const char *name)
{
    kiln_device *devices[64], *found = NULL;
    size_t n = hold_devices(devices, COUNT_OF(devices));
    for (size_t i = 0; i < n; i++) {
        if (!found && is_named(devices[i], kind, name))
            found = devices[i];
        else
            device_unref(devices[i]);
    }
    return found ? found : open_named_so(kind, name);
}

void profile_tell_memory(void)
{
    kiln_device *devices[64];
    size_t n = hold_devices(devices, COUNT_OF(devices));
    for (size_t i = 0; i < n; i++) {
        profile_memory(devices[i], STAT_GET(devices[i], heap_used_B));
        device_unref(devices[i]);
    }
}

kiln_status profile_settle_devices(void)
{
    kiln_device *devices[64];
    kiln_status status = KILN_OK;
    size_t n = hold_devices(devices, COUNT_OF(devices));
    for (size_t i = 0; i < n; i++) {
        if (!status) status = devices[i]->ops->synchronize(devices[i]);
        device_unref(devices[i]);
    }
    return status;
}

// A driver that computes on the host does so with libraries that end with the process.
static void settle_software(void)
{
    kiln_device *devices[64];
    size_t n = hold_devices(devices, COUNT_OF(devices));
    for (size_t i = 0; i < n; i++)
        if (devices[i]->info.software && devices[i]->ops->synchronize(devices[i])) kiln_error_clear();
}

static void refuse_open_devices(void)
{
    for (kiln_device *d = open_list; d; d = d->next)
        if (!d->ops->forks) d->ops = device_of_parent(d->ops);
}

__attribute__((constructor)) static void install(void)
{
    process_at_fork(NULL, refuse_open_devices);
    process_at_end(settle_software);
}

kiln_device *device_default(void)
{
    if (KILN_LIKELY(thread_default && !atomic_load_explicit(&thread_default->closed, memory_order_relaxed)))
        return thread_default;
    if (thread_default) {
        error_set(KILN_E_STATE, "the default device of this thread, %s, was closed: call kiln_set_device",
                  thread_default->name);
        return NULL;
    }
    pthread_mutex_lock(&list_lock);
    kiln_device *found = process_default;
    for (kiln_device *d = process_default ? NULL : open_list; d; d = d->next)
        if (!d->closed && !d->internal) found = d; // the oldest
    pthread_mutex_unlock(&list_lock);
    if (!found) error_set(KILN_E_STATE, "no device is open: call kiln_device_open first");
    return found;
}

bool device_is_open(enum device_role role)
{
    bool open = false;
    pthread_mutex_lock(&list_lock);
    for (kiln_device *d = open_list; d; d = d->next) open = open || (!d->closed && d->ops->role == role);
    pthread_mutex_unlock(&list_lock);
    return open;
}

kiln_status kiln_set_device(kiln_device *dev)
{
    if (error_pending) return error_pending;
    TRY(device_check("set_device", dev));
    pthread_mutex_lock(&list_lock);
    bool open = !dev->closed;
    if (open) atomic_fetch_add_explicit(&dev->holders, 1, memory_order_relaxed);
    pthread_mutex_unlock(&list_lock);
    if (!open) return error_set(KILN_E_HANDLE, "set_device: the device was closed");
    thread_at_end(THREAD_DEVICE, drop_default);
    set_default(dev);
    return KILN_OK;
}

kiln_status kiln_set_default_device(kiln_device *dev)
{
    if (error_pending) return error_pending;
    if (dev) TRY(device_check("set_default_device", dev));
    pthread_mutex_lock(&list_lock);
    bool closed = dev && dev->closed;
    if (!closed) process_default = dev;
    pthread_mutex_unlock(&list_lock);
    return closed ? error_set(KILN_E_HANDLE, "set_default_device: the device was closed") : KILN_OK;
}

kiln_device *kiln_get_device(void)
{
    return error_pending ? NULL : device_default();
}

kiln_status device_fallback_cpu(kiln_device **out)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static kiln_device *cpu;
    pthread_mutex_lock(&lock);
    if (!cpu) {
        cpu = open_kind(device_kind_for(ROLE_HOST), "");
        if (cpu) cpu->internal = true;
    }
    *out = cpu;
    pthread_mutex_unlock(&lock);
    return cpu ? KILN_OK : error_pending;
}

// A user's kernel at its first use on a device.
static kiln_status compile_for(kiln_device *dev, const struct launch *l)
{
    bool can = user_kernel(l->kernel) && device_upper.compile && dev->ops->add_kernel;
    return can && !dev->ops->has_kernel(dev, l->kernel) ? device_upper.compile(dev, l->kernel) : KILN_OK;
}

kiln_status device_launch(kiln_device *dev, const struct launch *l)
{
    if (KILN_UNLIKELY(!dev->ops->supports(dev, l))) {
        TRY(compile_for(dev, l));
        if (!dev->ops->supports(dev, l)) return device_fall_back(dev, l);
    }
    if (KILN_LIKELY(!l->record)) STAT_ADD(dev, launches, 1);
    struct profile_span span = profile_span_of_launch(dev, l->op, l->facts);
    kiln_status status = dev->ops->launch(dev, l);
    if (!dev->ops->elapsed) profile_span_end(&span); // else the device's clock tells
    return status;
}

kiln_status device_launch_compiled(kiln_device *dev, const struct compiled_launch *l)
{
    if (KILN_LIKELY(!l->record)) STAT_ADD(dev, launches, 1);
    struct profile_span span = profile_span_of_launch(dev, l->op, l->facts);
    kiln_status status = dev->ops->launch_compiled(dev, l);
    if (!dev->ops->elapsed) profile_span_end(&span);
    return status;
}

kiln_status device_run_record(kiln_device *dev, struct device_record *r, uint64_t launches, bool *ran)
{
    TRY(dev->ops->records->run(dev, r, ran));
    if (!*ran) return KILN_OK;
    STAT_ADD(dev, launches, launches);
    STAT_ADD(dev, recorded_launches, launches);
    return KILN_OK;
}

void device_count_launches(kiln_device *dev, uint64_t n)
{
    STAT_ADD(dev, launches, n);
}

// Of a copy, while a profile is taken: its bytes, what they are, and who asked for it.
struct copy_facts {
    struct launch_facts facts;
    uintptr_t place;
    char type[TYPE_TEXT_MAX];
};

static void tell_copy(struct profile_span *span, kiln_device *dev, uint64_t size_B, const struct type *of,
                      struct copy_facts *f)
{
    if (KILN_LIKELY(!span->start_ns)) return;
    f->place = where_now();
    f->facts = (struct launch_facts){.op = span->name,
                                     .read_B = (double)size_B,
                                     .written_B = (double)size_B,
                                     .flops = 0,
                                     .places = &f->place,
                                     .n_places = 1};
    if (of) f->facts.in = f->facts.out = type_text(of, f->type, sizeof f->type);
    span->dev = dev;
    span->facts = &f->facts;
}

kiln_status device_upload_as(kiln_device *dev, const struct type *of, uint64_t dst, const void *src, uint64_t size_B)
{
    if (size_B == 0) return KILN_OK;
    STAT_ADD(dev, copies_B, size_B);
    struct copy_facts facts;
    PROFILE("copy", "upload");
    tell_copy(&profile_span_, dev, size_B, of, &facts);
    return dev->ops->upload(dev, dst, src, size_B);
}

// The device's work is over before the copy begins, so that the time of each counts once.
static kiln_status settle(kiln_device *dev)
{
    PROFILE("wait", "download");
    return dev->ops->elapsed ? dev->ops->synchronize(dev) : KILN_OK;
}

kiln_status device_download_as(kiln_device *dev, const struct type *of, void *dst, uint64_t src, uint64_t size_B)
{
    if (size_B == 0) return KILN_OK;
    STAT_ADD(dev, copies_B, size_B);
    if (profile_on()) TRY(settle(dev));
    struct copy_facts facts;
    PROFILE("copy", "download");
    tell_copy(&profile_span_, dev, size_B, of, &facts);
    return dev->ops->download(dev, dst, src, size_B);
}

kiln_status device_upload(kiln_device *dev, uint64_t dst, const void *src, uint64_t size_B)
{
    return device_upload_as(dev, NULL, dst, src, size_B);
}

kiln_status device_download(kiln_device *dev, void *dst, uint64_t src, uint64_t size_B)
{
    return device_download_as(dev, NULL, dst, src, size_B);
}

kiln_status device_copy(kiln_device *dev, uint64_t dst, uint64_t src, uint64_t size_B)
{
    if (size_B == 0) return KILN_OK;
    struct copy_facts facts;
    PROFILE("copy", "copy");
    tell_copy(&profile_span_, dev, size_B, NULL, &facts);
    kiln_status status = dev->ops->copy(dev, dst, src, size_B, profile_span_.facts);
    if (dev->ops->elapsed) profile_span_.start_ns = 0; // the device's clock tells
    return status;
}
