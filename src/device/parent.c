// A device whose driver does not survive a fork, in the child: its threads and its connection are the parent's.
#include "device/device.h"

static kiln_status refuse(kiln_device *dev)
{
    return error_set(KILN_E_STATE, "%s belongs to the process that this one was forked from; here the CPU can be used",
                     dev->name);
}

static void parent_close(kiln_device *dev)
{
    (void)dev;
}

static kiln_status parent_slab_alloc(kiln_device *dev, uint64_t size_B, struct slab *out)
{
    (void)size_B, (void)out;
    return refuse(dev);
}

static void parent_slab_free(kiln_device *dev, struct slab *s)
{
    (void)dev, (void)s;
}

// The launch tells.
static bool parent_supports(kiln_device *dev, const struct launch *l)
{
    (void)dev, (void)l;
    return true;
}

static kiln_status parent_launch(kiln_device *dev, const struct launch *l)
{
    (void)l;
    return refuse(dev);
}

static kiln_status parent_copy(kiln_device *dev, uint64_t dst, uint64_t src, uint64_t size_B,
                               const struct launch_facts *facts)
{
    (void)dst, (void)src, (void)size_B;
    return refuse(dev);
}

static kiln_status parent_upload(kiln_device *dev, uint64_t dst, const void *src, uint64_t size_B)
{
    (void)dst, (void)src, (void)size_B;
    return refuse(dev);
}

static kiln_status parent_download(kiln_device *dev, void *dst, uint64_t src, uint64_t size_B)
{
    (void)dst, (void)src, (void)size_B;
    return refuse(dev);
}

static kiln_status parent_mark(kiln_device *dev, unsigned mark)
{
    (void)mark;
    return refuse(dev);
}

static kiln_status parent_elapsed(kiln_device *dev, unsigned from, unsigned to, double *time_ns)
{
    (void)from, (void)to, (void)time_ns;
    return refuse(dev);
}

static kiln_status parent_load(kiln_device *dev, const struct compiled_code *code, void **out)
{
    (void)code, (void)out;
    return refuse(dev);
}

static void parent_unload(kiln_device *dev, void *compiled)
{
    (void)dev, (void)compiled;
}

static kiln_status parent_launch_compiled(kiln_device *dev, const struct compiled_launch *l)
{
    (void)l;
    return refuse(dev);
}

const struct device_ops *device_of_parent(const struct device_ops *ops)
{
    static struct device_ops gone = {
        .close = parent_close,
        .slab_alloc = parent_slab_alloc,
        .slab_free = parent_slab_free,
        .supports = parent_supports,
        .launch = parent_launch,
        .copy = parent_copy,
        .upload = parent_upload,
        .download = parent_download,
        .mark = parent_mark,
        .elapsed = parent_elapsed,
        .synchronize = refuse,
        .load_compiled = parent_load,
        .unload_compiled = parent_unload,
        .launch_compiled = parent_launch_compiled,
    };
    gone.kind = ops->kind;
    gone.role = ops->role;
    gone.shader_text = ops->shader_text;
    return &gone;
}
