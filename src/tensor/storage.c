// Storages: reference counted pieces of a device's heap.
#include "base/thread.h"
#include "tensor/tensor.h"
#include <stdlib.h>

#define FREE_LIST_MAX 4096
static THREAD_LOCAL struct {
    struct storage *first;
    int count;
    bool kept; // until the thread ends; one that has made no storage has nobody to drop its list
} cache;

// The first word of a free storage is the link.
static struct storage **link_of(struct storage *s)
{
    return (struct storage **)(void *)s;
}

static struct storage *cache_take(void)
{
    struct storage *s = cache.first;
    cache.first = *link_of(s);
    cache.count--;
    return s;
}

static void drop_cache(void)
{
    while (cache.first) free(cache_take());
    cache.kept = false;
}

// The thread's number, then how many storages it has made.
enum { MADE_BITS = 40 };
static THREAD_LOCAL uint64_t made;

uint64_t storage_now(void)
{
    static atomic_uint_fast64_t threads;
    if (!made) made = (atomic_fetch_add(&threads, 1) + 1) << MADE_BITS;
    return made;
}

bool storage_is_since(const struct storage *s, uint64_t moment)
{
    return s->made > moment && s->made >> MADE_BITS == moment >> MADE_BITS;
}

static void set_made(struct storage *s)
{
    if (KILN_UNLIKELY(!made)) storage_now();
    s->capture = thread_state.capture;
    s->made = ++made;
}

void storage_renew(struct storage *s, const char *writer)
{
    s->version++;
    s->writer = writer;
    s->spent = false;
    set_made(s);
}

static struct storage *new_storage(kiln_device *dev, uint64_t size_B, bool pending)
{
    struct storage *s;
    if (cache.first)
        s = cache_take();
    else {
        if (!cache.kept) thread_at_end(THREAD_STORAGES, drop_cache);
        cache.kept = true;
        s = malloc(sizeof *s);
    }
    if (!s) {
        error_set(KILN_E_MEMORY, "out of memory for a storage");
        return NULL;
    }
    s->block = (struct block){.size_B = size_B};
    if (!pending && device_alloc(dev, size_B, &s->block)) {
        free(s);
        return NULL;
    }
    atomic_init(&s->refs, 1);
    s->dev = device_ref(dev);
    s->version = 0;
    s->writer = NULL;
    s->lazy = NULL;
    s->readers = NULL;
    s->borrowed = false;
    s->spent = false;
    atomic_init(&s->saved, 0);
    set_made(s);
    STAT_ADD(dev, tensors, 1);
    return s;
}

struct storage *storage_new(kiln_device *dev, uint64_t size_B)
{
    return new_storage(dev, size_B, false);
}

struct storage *storage_pending(kiln_device *dev, uint64_t size_B)
{
    return new_storage(dev, size_B, true);
}

struct storage *storage_ref(struct storage *s)
{
    if (s) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

struct storage *storage_save(struct storage *s)
{
    if (s) atomic_fetch_add_explicit(&s->saved, 1, memory_order_relaxed);
    return storage_ref(s);
}

void storage_unsave(struct storage *s)
{
    if (s) atomic_fetch_sub_explicit(&s->saved, 1, memory_order_relaxed);
    storage_unref(s);
}

void storage_unref(struct storage *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    kiln_device *dev = s->dev;
    // Another thread may have ended its segment just now.
    if (KILN_UNLIKELY(__atomic_load_n(&s->lazy, __ATOMIC_ACQUIRE) != NULL)) tensor_lazy.release(s);
    if (s->block.address && !s->borrowed) device_release(dev, &s->block);
    STAT_ADD(dev, tensors, -1);
    if (cache.count < FREE_LIST_MAX && cache.kept) {
        *link_of(s) = cache.first;
        cache.first = s;
        cache.count++;
    } else {
        free(s);
    }
    device_unref(dev);
}

kiln_tensor *tensor_on(struct storage *s, const struct type *t, const struct layout *l)
{
    kiln_tensor *r = tensor_new();
    if (!r) return NULL;
    type_copy(&r->type, t);
    r->type.weak = false;
    layout_copy(&r->layout, l, t->rank);
    r->storage = storage_ref(s);
    return r;
}

kiln_tensor *tensor_empty(kiln_device *dev, const struct type *t)
{
    uint64_t size_B;
    if (type_size_B(t, &size_B)) return NULL;
    struct storage *s = storage_new(dev, size_B);
    if (!s) return NULL;
    kiln_tensor *r = tensor_new();
    if (!r) {
        storage_unref(s);
        return NULL;
    }
    type_copy(&r->type, t);
    r->type.weak = false;
    layout_contiguous(t, &r->layout);
    r->storage = s;
    return r;
}

kiln_tensor *tensor_place(const kiln_tensor *t, kiln_device *dev)
{
    struct type type = t->type;
    if (type.dtype == KILN_F64) type.dtype = KILN_F32;
    kiln_tensor *r = tensor_empty(dev, &type);
    if (!r) return NULL;
    float f = (float)t->number;
    int64_t i = t->integer;
    uint8_t b = t->integer != 0;
    const void *src = type.dtype == KILN_F32 ? (const void *)&f : type.dtype == KILN_I64 ? (const void *)&i : &b;
    if (device_upload_as(dev, &type, tensor_address(r), src, dtype_size_B[type.dtype])) {
        tensor_destroy(r);
        return NULL;
    }
    if (!t->node || !tensor_tape.share || !tensor_tape.share((kiln_tensor *)t, r)) return r;
    tensor_destroy(r);
    return NULL;
}
