// What the Vulkan tests share: a device under the validation layer, arrays on it, launches by kernel name.
#pragma once
#include "base/float16.h"
#include "device/device.h"
#include "scalar/scalar.h"
#include "vulkan/vk.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kiln_device *dev;

#define assert_ok(expr) assert_string_equal((expr) ? kiln_error_message() : "", "")

static inline void assert_no_validation_message(void)
{
    const char *text;
    uint64_t n = vk_validation_messages(dev, &text);
    if (n) fprintf(stderr, "%s\n", text);
    assert_int_equal(n, 0);
}

static int open_device(void **state)
{
    (void)state;
    kiln_error_clear();
    dev = kiln_device_open("vulkan");
    if (!dev) fprintf(stderr, "%s\n", kiln_error_message());
    return dev ? 0 : -1;
}

static int close_device(void **state)
{
    (void)state;
    kiln_error_clear();
    bool lost = vk_of(dev)->lost;
    kiln_device_close(&dev);
    const char *text;
    uint64_t n = lost ? 0 : vk_validation_messages(dev, &text);
    if (n) fprintf(stderr, "%s\n", text);
    vk_validation_reset();
    return n ? -1 : 0;
}

static inline kernel_id find_kernel(const char *name, enum scalar_class cls)
{
    for (int i = 0; i < kernel_count; i++) {
        const struct kernel_info *k = &kernel_catalogue[i];
        if (k->kind != KERNEL_NONE && k->cls == cls && !strcmp(k->name, name)) return (kernel_id)i;
    }
    fail_msg("no kernel %s in class %s", name, scalar_class_name(cls));
    return 0;
}

static inline struct block block_new(uint64_t size_B, const void *data)
{
    struct block b;
    assert_ok(device_alloc(dev, size_B, &b));
    if (data) assert_ok(device_upload(dev, b.address, data, size_B));
    return b;
}

static inline struct launch launch_new(const char *name, enum scalar_class cls, int rank, const int64_t *sizes)
{
    struct launch l = {.kernel = find_kernel(name, cls), .rank = (uint8_t)rank, .op = name};
    for (int d = 0; d < rank; d++) l.sizes[d] = sizes[d];
    return l;
}

// An operand whose element 0 lies `offset` elements into the block; the range is the whole block.
static inline void add_operand(struct launch *l, const struct block *b, kiln_dtype dtype, int64_t offset,
                               const int64_t *strides, bool write)
{
    struct launch_operand *o = &l->operands[l->n_operands++];
    *o = (struct launch_operand){.dtype = (uint8_t)dtype, .flags = write ? OPERAND_WRITE : 0};
    int64_t offset_B = offset * dtype_size_B[dtype];
    o->address = b->address + (uint64_t)offset_B;
    o->range_lo_B = -offset_B;
    o->range_hi_B = (int64_t)b->size_B - offset_B;
    for (int d = 0; d < l->rank; d++) o->strides[d] = strides[d];
}

static inline void add_immediate(struct launch *l, kiln_dtype dtype, uint64_t bits)
{
    l->operands[l->n_operands++] =
        (struct launch_operand){.dtype = (uint8_t)dtype, .flags = OPERAND_IMMEDIATE, .address = bits};
}

// Pseudo-random and repeatable, in [-1, 1).
static inline float noise(uint32_t i)
{
    i = i * 747796405u + 2891336453u;
    i = ((i >> ((i >> 28) + 4)) ^ i) * 277803737u;
    return (float)(int32_t)((i >> 22) ^ i) * 0x1p-31f;
}
