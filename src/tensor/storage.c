// Storages: reference counted pieces of a device's heap.
#include "tensor/tensor.h"
#include <stdlib.h>

#define FREE_LIST_MAX 4096
static _Thread_local struct {
    struct storage *first[FREE_LIST_MAX];
    int count;
} cache;
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static _Thread_local bool exit_armed;

static void drop_cache(void *unused)
{
    (void)unused;
    while (cache.count) free(cache.first[--cache.count]);
}

static void make_exit_key(void)
{
    pthread_key_create(&exit_key, drop_cache);
}

__attribute__((destructor)) static void drop_main_cache(void)
{
    drop_cache(NULL);
}

static struct storage *new_storage(kiln_device *dev, uint64_t size_B, bool pending)
{
    struct storage *s;
    if (cache.count)
        s = cache.first[--cache.count];
    else {
        if (!exit_armed) {
            pthread_once(&exit_once, make_exit_key);
            pthread_setspecific(exit_key, &cache);
            exit_armed = true;
        }
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
    s->capture = thread_state.capture;
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

void storage_unref(struct storage *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    kiln_device *dev = s->dev;
    if (KILN_UNLIKELY(s->lazy != NULL)) tensor_lazy.release(s);
    if (s->block.address && !s->borrowed) device_release(dev, &s->block);
    STAT_ADD(dev, tensors, -1);
    if (cache.count < FREE_LIST_MAX && exit_armed)
        cache.first[cache.count++] = s;
    else
        free(s);
    device_unref(dev);
}

kiln_tensor *tensor_on(struct storage *s, const struct type *t, const struct layout *l)
{
    kiln_tensor *r = tensor_new();
    if (!r) return NULL;
    r->type = *t;
    r->type.weak = false;
    r->layout = *l;
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
    r->type = *t;
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
    if (device_upload(dev, tensor_address(r), src, dtype_size_B[type.dtype])) {
        tensor_destroy(r);
        return NULL;
    }
    if (!t->node || !tensor_tape.share || !tensor_tape.share((kiln_tensor *)t, r)) return r;
    tensor_destroy(r);
    return NULL;
}
