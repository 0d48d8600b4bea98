// Opening, counting, the default device, and the way of a launch to its back end.
#include "device/device.h"
#include "device/profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct device_ops *const kinds[] = {
    &cpu_device_ops,
#if KILN_WITH_VULKAN
    &vulkan_device_ops,
#endif
    &null_device_ops,
};

void (*device_closing)(kiln_device *dev);
void (*device_forget)(kiln_device *dev);
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static kiln_device *open_list; // newest first; the default is the oldest that is not closed
static _Thread_local kiln_device *thread_default;

static kiln_status unknown_name(const char *name)
{
    char list[128] = "";
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (i) strcat(list, ", ");
        strcat(list, kinds[i]->kind);
    }
    return error_set(KILN_E_ARGUMENT, "device_open: there is no device \"%s\" in this build; built in: %s%s", name,
                     list, KILN_WITH_VULKAN ? ", gpu, vulkan:N" : "");
}

static kiln_device *open_kind(const struct device_ops *ops, const char *spec)
{
    kiln_device *dev = calloc(1, sizeof *dev);
    if (!dev) {
        error_set(KILN_E_MEMORY, "device_open: out of memory");
        return NULL;
    }
    dev->ops = ops;
    atomic_init(&dev->refs, 1);
    pthread_mutex_init(&dev->lock, NULL);
    dev->rng_seed = 0x9e3779b97f4a7c15u;
    kiln_status status = heap_create(dev);
    if (!status) status = ops->open(dev, spec);
    if (status) {
        heap_destroy(dev);
        pthread_mutex_destroy(&dev->lock);
        free(dev);
        return NULL;
    }
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
    if (!strcmp(name, "gpu")) {
#if KILN_WITH_VULKAN
        return open_kind(&vulkan_device_ops, "gpu");
#else
        unknown_name(name);
        return NULL;
#endif
    }
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        size_t n = strlen(kinds[i]->kind);
        if (strncmp(name, kinds[i]->kind, n)) continue;
        if (name[n] == 0 || (name[n] == ':' && !strcmp(kinds[i]->kind, "vulkan"))) return open_kind(kinds[i], name + n);
    }
    unknown_name(name);
    return NULL;
}

kiln_device *kiln_device_open(const char *name)
{
    if (error_pending) return NULL;
    profile_from_environment();
    if (!name) name = getenv("KILN_DEVICE");
    if (name && *name) return open_named(name);
#if KILN_WITH_VULKAN
    kiln_device *gpu = open_kind(&vulkan_device_ops, "gpu");
    if (gpu) return gpu;
    kiln_error_clear(); // no real GPU: the CPU is the answer, not an error
#endif
    return open_kind(&cpu_device_ops, "");
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
    pthread_mutex_destroy(&dev->lock);
    free(dev);
}

void kiln_device_close(kiln_device **dev)
{
    if (!dev || !*dev) return;
    kiln_device *d = *dev;
    *dev = NULL;
    if (thread_default == d) thread_default = NULL;
    if (device_forget) device_forget(d);
    if (device_closing) device_closing(d);
    pthread_mutex_lock(&list_lock);
    d->closed = true;
    pthread_mutex_unlock(&list_lock);
    device_unref(d);
}

kiln_status profile_settle_devices(void)
{
    kiln_device *devices[64];
    size_t n = 0;
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&list_lock);
    for (kiln_device *d = open_list; d && n < COUNT_OF(devices); d = d->next) {
        int refs = atomic_load(&d->refs); // 0: it is being freed
        while (refs && !atomic_compare_exchange_weak(&d->refs, &refs, refs + 1)) {}
        if (refs) devices[n++] = d;
    }
    pthread_mutex_unlock(&list_lock);
    for (size_t i = 0; i < n; i++) {
        if (!status) status = devices[i]->ops->synchronize(devices[i]);
        device_unref(devices[i]);
    }
    return status;
}

kiln_device *device_default(void)
{
    if (KILN_LIKELY(thread_default != NULL)) return thread_default;
    kiln_device *oldest = NULL;
    pthread_mutex_lock(&list_lock);
    for (kiln_device *d = open_list; d; d = d->next)
        if (!d->closed && !d->internal) oldest = d;
    pthread_mutex_unlock(&list_lock);
    if (!oldest) error_set(KILN_E_STATE, "no device is open: call kiln_device_open first");
    return oldest;
}

bool device_is_open(const char *kind)
{
    bool open = false;
    pthread_mutex_lock(&list_lock);
    for (kiln_device *d = open_list; d; d = d->next) open = open || (!d->closed && !strcmp(d->ops->kind, kind));
    pthread_mutex_unlock(&list_lock);
    return open;
}

kiln_status kiln_set_device(kiln_device *dev)
{
    if (error_pending) return error_pending;
    if (!dev) return error_set(KILN_E_ARGUMENT, "set_device: dev is NULL");
    thread_default = dev;
    return KILN_OK;
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
        cpu = open_kind(&cpu_device_ops, "");
        if (cpu) cpu->internal = true;
    }
    *out = cpu;
    pthread_mutex_unlock(&lock);
    return cpu ? KILN_OK : error_pending;
}

kiln_status (*device_compile)(kiln_device *dev, kernel_id kernel);

// A user's kernel at its first use on a device.
static kiln_status compile_for(kiln_device *dev, const struct launch *l)
{
    bool can = user_kernel(l->kernel) && device_compile && dev->ops->add_kernel;
    return can && !dev->ops->has_kernel(dev, l->kernel) ? device_compile(dev, l->kernel) : KILN_OK;
}

kiln_status device_launch(kiln_device *dev, const struct launch *l)
{
    if (KILN_UNLIKELY(!dev->ops->supports(dev, l))) {
        TRY(compile_for(dev, l));
        if (!dev->ops->supports(dev, l)) return device_fall_back(dev, l);
    }
    STAT_ADD(dev, launches, 1);
    struct profile_span span = profile_span_begin("launch", l->op);
    kiln_status status = dev->ops->launch(dev, l);
    if (!dev->ops->elapsed) profile_span_end(&span); // else the device's clock tells
    return status;
}

kiln_status device_launch_compiled(kiln_device *dev, const struct compiled_launch *l)
{
    STAT_ADD(dev, launches, 1);
    struct profile_span span = profile_span_begin("launch", l->op);
    kiln_status status = dev->ops->launch_compiled(dev, l);
    if (!dev->ops->elapsed) profile_span_end(&span);
    return status;
}

kiln_status device_upload(kiln_device *dev, uint64_t dst, const void *src, uint64_t size_B)
{
    if (size_B == 0) return KILN_OK;
    STAT_ADD(dev, copies_B, size_B);
    PROFILE("copy", "upload");
    return dev->ops->upload(dev, dst, src, size_B);
}

kiln_status device_download(kiln_device *dev, void *dst, uint64_t src, uint64_t size_B)
{
    if (size_B == 0) return KILN_OK;
    STAT_ADD(dev, copies_B, size_B);
    PROFILE("copy", "download");
    return dev->ops->download(dev, dst, src, size_B);
}

kiln_status device_copy(kiln_device *dev, uint64_t dst, uint64_t src, uint64_t size_B)
{
    return size_B == 0 ? KILN_OK : dev->ops->copy(dev, dst, src, size_B);
}
