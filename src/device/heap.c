// The caching heap. Input: sizes; output: 256-byte aligned blocks of slabs. Sizes are rounded to a class (four to a
// power of two up to 64 KiB, eight above), each class has a stack of free blocks, and the last freed is the first
// reused, so that it is warm. Blocks up to 1 MiB are cut from slabs of many; a larger one has a slab of its own.
// Invariants: a block is live or on its class's stack; a slab's `live` counts its live blocks; reserved_B is the sum of
// all slabs. Nothing goes back to the system until memory runs out, the limit is met or trim is called; then every slab
// without live blocks goes, its free blocks first.
#include "device/device.h"
#include <stdlib.h>

#define ALIGN_B 256u
#define LARGE_B (1u << 20)
#define BINS    400

struct heap_slab {
    struct slab slab;
    uint64_t used_B; // carved so far
    uint64_t live;   // blocks handed out
    bool dying;
    struct heap_slab *next;
};

struct free_block {
    uint64_t address;
    void *host;
    struct heap_slab *slab;
};
struct bin {
    struct free_block *v;
    size_t n, cap;
    uint64_t size_B;
};

struct heap {
    pthread_mutex_t lock;
    struct bin bins[BINS];
    struct heap_slab *slabs, *small, *medium; // the slabs being carved
    uint64_t limit_B;
};

// Class of a size: exponent and the top bits below it.
static uint32_t bin_of(uint64_t size_B, uint64_t *rounded_B)
{
    uint64_t units = (size_B + ALIGN_B - 1) / ALIGN_B;
    int sub = units > 256 ? 3 : 2;
    int exp = 63 - __builtin_clzll(units);
    if (exp <= sub) {
        *rounded_B = units * ALIGN_B;
        return (uint32_t)units;
    }
    uint64_t step = 1ull << (exp - sub), up = (units + step - 1) & ~(step - 1);
    exp = 63 - __builtin_clzll(up);
    *rounded_B = up * ALIGN_B;
    return (uint32_t)(16 + exp * 8 + (int)((up >> (exp - 3)) & 7));
}

kiln_status heap_create(kiln_device *dev)
{
    struct heap *h = calloc(1, sizeof *h);
    if (!h) return error_set(KILN_E_MEMORY, "out of memory for a heap");
    pthread_mutex_init(&h->lock, NULL);
    dev->heap = h;
    return KILN_OK;
}

static void give_back(kiln_device *dev, struct heap_slab *s)
{
    __atomic_fetch_sub(&dev->stats.heap_reserved_B, s->slab.size_B, __ATOMIC_RELAXED);
    dev->ops->slab_free(dev, &s->slab);
    free(s);
}

void heap_destroy(kiln_device *dev)
{
    struct heap *h = dev->heap;
    if (!h) return;
    while (h->slabs) {
        struct heap_slab *s = h->slabs;
        h->slabs = s->next;
        give_back(dev, s);
    }
    for (int i = 0; i < BINS; i++) free(h->bins[i].v);
    pthread_mutex_destroy(&h->lock);
    free(h);
    dev->heap = NULL;
}

// Drops free blocks of dying slabs from their classes, then the slabs. Called with the lock held.
static bool trim_locked(kiln_device *dev)
{
    struct heap *h = dev->heap;
    bool any = false;
    for (struct heap_slab *s = h->slabs; s; s = s->next) any |= s->dying = s->live == 0;
    if (!any) return false;
    if (dev->ops->synchronize(dev)) return false;
    for (int i = 0; i < BINS; i++) {
        struct bin *b = &h->bins[i];
        size_t kept = 0;
        for (size_t j = 0; j < b->n; j++)
            if (!b->v[j].slab->dying) b->v[kept++] = b->v[j];
        b->n = kept;
    }
    for (struct heap_slab **p = &h->slabs; *p;) {
        struct heap_slab *s = *p;
        if (!s->dying) {
            p = &s->next;
            continue;
        }
        if (h->small == s) h->small = NULL;
        if (h->medium == s) h->medium = NULL;
        *p = s->next;
        give_back(dev, s);
    }
    return true;
}

kiln_status heap_trim(kiln_device *dev)
{
    pthread_mutex_lock(&dev->heap->lock);
    trim_locked(dev);
    pthread_mutex_unlock(&dev->heap->lock);
    return error_pending;
}

kiln_status heap_set_limit(kiln_device *dev, uint64_t limit_B)
{
    pthread_mutex_lock(&dev->heap->lock);
    dev->heap->limit_B = limit_B;
    pthread_mutex_unlock(&dev->heap->lock);
    return KILN_OK;
}

static bool over_limit(kiln_device *dev, uint64_t size_B)
{
    uint64_t limit_B = dev->heap->limit_B;
    return limit_B && dev->stats.heap_reserved_B + size_B > limit_B;
}

static kiln_status exhausted(kiln_device *dev, uint64_t size_B)
{
    return error_set(KILN_E_DEVICE_MEMORY,
                     "out of memory on %s: %llu bytes are asked for, %llu are in use, %llu reserved%s%.0llu", dev->name,
                     (unsigned long long)size_B, (unsigned long long)dev->stats.heap_used_B,
                     (unsigned long long)dev->stats.heap_reserved_B, dev->heap->limit_B ? ", the limit is " : "",
                     (unsigned long long)dev->heap->limit_B);
}

static kiln_status slab_new(kiln_device *dev, uint64_t size_B, struct heap_slab **out)
{
    struct heap *h = dev->heap;
    if (over_limit(dev, size_B) && !(trim_locked(dev) && !over_limit(dev, size_B))) return exhausted(dev, size_B);
    struct heap_slab *s = calloc(1, sizeof *s);
    if (!s) return error_set(KILN_E_MEMORY, "out of memory for a slab");
    kiln_status status = dev->ops->slab_alloc(dev, size_B, &s->slab);
    if (status == KILN_E_DEVICE_MEMORY || status == KILN_E_MEMORY) {
        kiln_error_clear();
        if (trim_locked(dev)) status = dev->ops->slab_alloc(dev, size_B, &s->slab);
        if (status) {
            kiln_error_clear();
            status = exhausted(dev, size_B);
        }
    }
    if (status) {
        free(s);
        return status;
    }
    s->next = h->slabs;
    h->slabs = s;
    STAT_ADD(dev, heap_reserved_B, s->slab.size_B);
    STAT_ADD(dev, heap_allocs, 1);
    *out = s;
    return KILN_OK;
}

static kiln_status carve(kiln_device *dev, uint64_t size_B, struct block *out)
{
    struct heap *h = dev->heap;
    struct heap_slab *s;
    if (size_B > LARGE_B)
        TRY(slab_new(dev, size_B, &s));
    else {
        bool small = size_B <= 16384;
        struct heap_slab **current = small ? &h->small : &h->medium;
        if (!*current || (*current)->slab.size_B - (*current)->used_B < size_B) {
            struct heap_slab *fresh;
            TRY(slab_new(dev, small ? 1u << 20 : 8u << 20, &fresh));
            *current = fresh;
        }
        s = *current;
    }
    out->address = s->slab.address + s->used_B;
    out->host = s->slab.host ? (char *)s->slab.host + s->used_B : NULL;
    out->slab = s;
    s->used_B += size_B;
    return KILN_OK;
}

kiln_status device_alloc(kiln_device *dev, uint64_t size_B, struct block *out)
{
    *out = (struct block){.size_B = size_B};
    if (size_B == 0) return KILN_OK;
    if (size_B > (1ull << 46)) return exhausted(dev, size_B);
    struct heap *h = dev->heap;
    uint64_t rounded_B;
    out->bin = bin_of(size_B, &rounded_B);
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&h->lock);
    struct bin *b = &h->bins[out->bin];
    if (b->n) {
        struct free_block *f = &b->v[--b->n];
        out->address = f->address;
        out->host = f->host;
        out->slab = f->slab;
    } else
        status = carve(dev, rounded_B, out);
    if (!status) {
        out->slab->live++;
        STAT_ADD(dev, heap_used_B, size_B);
        if (STAT_GET(dev, heap_used_B) > STAT_GET(dev, heap_peak_B))
            STAT_SET(dev, heap_peak_B, STAT_GET(dev, heap_used_B));
    }
    pthread_mutex_unlock(&h->lock);
    return status;
}

static bool push(struct bin *b, const struct block *block)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 16;
        struct free_block *v = realloc(b->v, cap * sizeof *v);
        if (!v) return false; // the block is lost until its slab goes
        b->v = v;
        b->cap = cap;
    }
    b->v[b->n++] = (struct free_block){block->address, block->host, block->slab};
    return true;
}

void device_release(kiln_device *dev, const struct block *b)
{
    if (!b->slab) return;
    struct heap *h = dev->heap;
    pthread_mutex_lock(&h->lock);
    push(&h->bins[b->bin], b);
    b->slab->live--;
    STAT_ADD(dev, heap_used_B, -b->size_B);
    pthread_mutex_unlock(&h->lock);
}

bool heap_find(kiln_device *dev, uint64_t address, struct slab *out)
{
    bool found = false;
    pthread_mutex_lock(&dev->heap->lock);
    for (struct heap_slab *s = dev->heap->slabs; s && !found; s = s->next)
        if (address >= s->slab.address && address < s->slab.address + s->slab.size_B) {
            *out = s->slab;
            found = true;
        }
    pthread_mutex_unlock(&dev->heap->lock);
    return found;
}
