// The caching heap. Input: sizes; output: 256-byte aligned blocks of slabs. Sizes are rounded up to a class (four to a
// power of two up to 64 KiB, eight above). Small blocks come from slabs of many: each class has a stack of free ones,
// and the last freed is the first reused, so that it is warm. Larger blocks are cut from the slabs of two pools
// (device/pool.c); from LARGE_B on a slab is made for the block that needs it.
//
// What is free is kept, but not all of it for ever. When the system is asked for a slab, slabs without live blocks are
// given back, the longest idle first, until what is kept is at most what was lately in use at a time; and now and then
// those go that nothing used for a while. So a steady state, which asks the system for nothing and uses all that it
// has, keeps what it has. Where what was given back is missed soon, more is kept from then on.
//
// Invariants: a block is live, on its class's stack, or a free piece; a slab's `live` counts its live blocks, and it is
// idle when that is 0; reserved_B is the sum of all slabs. When memory runs out, the limit is met or trim is called,
// all idle slabs go.
#include "base/process.h"
#include "device/pool.h"
#include "device/profile.h"
#include "device/redzone.h"
#include <stdlib.h>
#include <string.h>

#define SMALL_B      (16u << 10) // up to this, from stacks
#define LARGE_B      (1u << 20)  // above this, slabs of their own
#define SMALL_SLAB_B (1u << 20)
#define POOL_SLAB_B  (8u << 20)
#define KEPT_LEAST_B (32u << 20)
#define EPOCH        4096 // blocks of the pools handed out: what counts as lately

struct free_block {
    uint64_t address;
    void *host;
    struct heap_slab *slab;
};
struct bin {
    struct free_block *v;
    size_t n, cap;
};

struct slab_list {
    struct heap_slab *first, *last;
};

struct heap {
    pthread_mutex_t lock;
    struct guarded guarded;
    struct bin bins[HEAP_CLASSES];
    struct pool medium, large;
    struct slab_list busy, idle; // idle: longest first
    struct heap_slab *small;     // being carved
    uint64_t limit_B;
    bool redzones;
    uint64_t live_B, clock; // blocks of the pools so far
    uint64_t extra_B;       // kept beyond the peak
    struct {
        uint64_t peak_B;                 // most in use
        uint64_t gone[HEAP_CLASS_WORDS]; // bit by class: such slabs were given back unasked
    } epochs[2];                         // this one and the one before
};

static uint64_t round_up(uint64_t size_B)
{
    uint64_t units = (size_B + HEAP_ALIGN_B - 1) / HEAP_ALIGN_B;
    int sub = units > 256 ? 3 : 2, exp = 63 - __builtin_clzll(units);
    if (exp <= sub) return units * HEAP_ALIGN_B;
    uint64_t step = 1ull << (exp - sub);
    return ((units + step - 1) & ~(step - 1)) * HEAP_ALIGN_B;
}

// --- slabs ---

static void list_add(struct slab_list *l, struct heap_slab *s)
{
    s->next = NULL;
    s->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = s;
    l->last = s;
}

static void list_remove(struct slab_list *l, struct heap_slab *s)
{
    *(s->prev ? &s->prev->next : &l->first) = s->next;
    *(s->next ? &s->next->prev : &l->last) = s->prev;
}

kiln_status heap_create(kiln_device *dev)
{
    struct heap *h = calloc(1, sizeof *h);
    if (!h) return error_set(KILN_E_MEMORY, "out of memory for a heap");
    pthread_mutex_init(&h->lock, NULL);
    h->medium.least_rest_B = SMALL_B;
    h->large.least_rest_B = LARGE_B;
    lock_guard(&h->guarded, &h->lock, false);
    dev->heap = h;
    return KILN_OK;
}

static void give_back(kiln_device *dev, struct slab_list *l, struct heap_slab *s)
{
    list_remove(l, s);
    if (s->pool) pool_remove(s);
    if (dev->heap->small == s) dev->heap->small = NULL;
    STAT_ADD(dev, heap_reserved_B, -s->slab.size_B);
    dev->ops->slab_free(dev, &s->slab);
    free(s);
}

bool heap_has_redzones(const kiln_device *dev)
{
    return dev->heap->redzones;
}

void heap_use_redzones(kiln_device *dev)
{
    dev->heap->redzones = true;
}

void heap_destroy(kiln_device *dev)
{
    struct heap *h = dev->heap;
    if (!h) return;
    while (h->busy.first) give_back(dev, &h->busy, h->busy.first);
    while (h->idle.first) give_back(dev, &h->idle, h->idle.first);
    pool_finish(&h->medium);
    pool_finish(&h->large);
    for (int i = 0; i < HEAP_CLASSES; i++) free(h->bins[i].v);
    lock_unguard(&h->guarded);
    pthread_mutex_destroy(&h->lock);
    free(h);
    dev->heap = NULL;
}

static void forget_dying_blocks(struct heap *h)
{
    for (int i = 0; i < HEAP_CLASSES; i++) {
        struct bin *b = &h->bins[i];
        size_t kept = 0;
        for (size_t j = 0; j < b->n; j++)
            if (!b->v[j].slab->dying) b->v[kept++] = b->v[j];
        b->n = kept;
    }
}

// Gives back the slabs that are idle longest, until at most `keep_B` bytes are free or none is left that was idle at
// the time `since`. Notes their classes in `gone` where that is not NULL.
static void shrink(kiln_device *dev, uint64_t keep_B, uint64_t since, uint64_t *gone)
{
    struct heap *h = dev->heap;
    uint64_t free_B = STAT_GET(dev, heap_reserved_B) - h->live_B;
    bool small = false;
    for (struct heap_slab *s = h->idle.first; s && s->idle_since <= since && free_B > keep_B; s = s->next) {
        uint32_t c = heap_class(s->slab.size_B);
        s->dying = true;
        small |= !s->pool;
        free_B -= s->slab.size_B;
        if (gone) gone[c / 64] |= UINT64_C(1) << (c % 64);
    }
    if (small) forget_dying_blocks(h);
    while (h->idle.first && h->idle.first->dying) give_back(dev, &h->idle, h->idle.first);
}

// Called with the lock held. False when there is nothing to give back.
static bool trim_locked(kiln_device *dev)
{
    if (!dev->heap->idle.first || dev->ops->synchronize(dev)) return false;
    shrink(dev, 0, UINT64_MAX, NULL);
    return true;
}

kiln_status heap_trim(kiln_device *dev)
{
    struct heap *h = dev->heap;
    pthread_mutex_lock(&h->lock);
    trim_locked(dev);
    memset(h->epochs, 0, sizeof h->epochs);
    h->epochs[0].peak_B = h->live_B;
    h->extra_B = 0;
    pthread_mutex_unlock(&h->lock);
    return error_pending;
}

kiln_status heap_set_limit(kiln_device *dev, uint64_t limit_B)
{
    pthread_mutex_lock(&dev->heap->lock);
    dev->heap->limit_B = limit_B;
    pthread_mutex_unlock(&dev->heap->lock);
    return KILN_OK;
}

uint64_t heap_most_B(kiln_device *dev)
{
    pthread_mutex_lock(&dev->heap->lock);
    uint64_t limit_B = dev->heap->limit_B;
    pthread_mutex_unlock(&dev->heap->lock);
    return limit_B ? limit_B : dev->info.memory_B;
}

static bool over_limit(kiln_device *dev, uint64_t size_B)
{
    uint64_t limit_B = dev->heap->limit_B;
    return limit_B && STAT_GET(dev, heap_reserved_B) + size_B > limit_B;
}

static kiln_status exhausted(kiln_device *dev, uint64_t size_B)
{
    return error_set(KILN_E_DEVICE_MEMORY,
                     "out of memory on %s: %llu bytes are asked for, %llu are in use, %llu reserved%s%.0llu", dev->name,
                     (unsigned long long)size_B, (unsigned long long)dev->stats.heap_used_B,
                     (unsigned long long)dev->stats.heap_reserved_B, dev->heap->limit_B ? ", the limit is " : "",
                     (unsigned long long)dev->heap->limit_B);
}

// --- what is kept ---

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t recent_peak(const struct heap *h)
{
    return larger(KEPT_LEAST_B, larger(h->epochs[0].peak_B, h->epochs[1].peak_B));
}

static void shrink_unasked(kiln_device *dev, uint64_t since)
{
    struct heap *h = dev->heap;
    shrink(dev, recent_peak(h) + h->extra_B, since, h->epochs[0].gone);
}

// Whether a slab that would do was given back lately; it is named once.
static bool is_missed(struct heap *h, uint64_t size_B)
{
    for (int e = 0; e < 2; e++) {
        uint32_t c = heap_class_from(h->epochs[e].gone, heap_class(size_B));
        if (c == HEAP_CLASSES) continue;
        h->epochs[e].gone[c / 64] &= ~(UINT64_C(1) << (c % 64));
        return true;
    }
    return false;
}

// Called when the system is about to be asked for so much.
static void make_room(kiln_device *dev, uint64_t size_B)
{
    struct heap *h = dev->heap;
    if (is_missed(h, size_B)) h->extra_B = h->extra_B + size_B < recent_peak(h) ? h->extra_B + size_B : recent_peak(h);
    shrink_unasked(dev, UINT64_MAX);
}

static void begin_epoch(kiln_device *dev)
{
    struct heap *h = dev->heap;
    h->epochs[1] = h->epochs[0];
    memset(&h->epochs[0], 0, sizeof h->epochs[0]);
    h->epochs[0].peak_B = h->live_B;
    h->extra_B -= h->extra_B / 4;
    if (h->clock >= EPOCH) shrink_unasked(dev, h->clock - EPOCH);
}

// --- blocks ---

static kiln_status slab_new(kiln_device *dev, uint64_t size_B, struct heap_slab **out)
{
    make_room(dev, size_B);
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
    s->idle_since = dev->heap->clock;
    list_add(&dev->heap->idle, s);
    STAT_ADD(dev, heap_reserved_B, s->slab.size_B);
    STAT_ADD(dev, heap_allocs, 1);
    *out = s;
    return KILN_OK;
}

static void place(struct block *out, struct heap_slab *s, uint64_t at_B)
{
    out->address = s->slab.address + at_B;
    out->host = s->slab.host ? (char *)s->slab.host + at_B : NULL;
    out->slab = s;
}

static kiln_status take_small(kiln_device *dev, struct block *out)
{
    struct heap *h = dev->heap;
    struct bin *b = &h->bins[heap_class(out->held_B)];
    if (b->n) {
        struct free_block *f = &b->v[--b->n];
        out->address = f->address;
        out->host = f->host;
        out->slab = f->slab;
        return KILN_OK;
    }
    if (!h->small || h->small->slab.size_B - h->small->used_B < out->held_B) {
        struct heap_slab *fresh;
        TRY(slab_new(dev, SMALL_SLAB_B, &fresh));
        h->small = fresh;
    }
    place(out, h->small, h->small->used_B);
    h->small->used_B += out->held_B;
    return KILN_OK;
}

static kiln_status take_piece(kiln_device *dev, struct block *out)
{
    struct heap *h = dev->heap;
    bool large = out->held_B > LARGE_B;
    struct pool *pool = large ? &h->large : &h->medium;
    if (++h->clock % EPOCH == 0) begin_epoch(dev);
    out->piece = pool_take(pool, out->held_B);
    if (!out->piece) {
        struct heap_slab *fresh;
        TRY(slab_new(dev, large ? out->held_B : POOL_SLAB_B, &fresh));
        kiln_status status = pool_add(pool, fresh);
        if (status) {
            give_back(dev, &h->idle, fresh);
            return status;
        }
        out->piece = pool_take(pool, out->held_B);
    }
    out->held_B = out->piece->size_B;
    place(out, out->piece->slab, out->piece->at_B);
    return KILN_OK;
}

kiln_status device_alloc(kiln_device *dev, uint64_t size_B, struct block *out)
{
    *out = (struct block){.size_B = size_B, .address = size_B ? 0 : dev->nothing};
    if (size_B == 0) return KILN_OK;
    if (size_B > (1ull << 46)) return exhausted(dev, size_B);
    struct heap *h = dev->heap;
    out->held_B = round_up(KILN_UNLIKELY(h->redzones) ? redzone_room(size_B) : size_B);
    pthread_mutex_lock(&h->lock);
    kiln_status status = out->held_B <= SMALL_B ? take_small(dev, out) : take_piece(dev, out);
    if (!status) {
        if (out->slab->live++ == 0) {
            list_remove(&h->idle, out->slab);
            list_add(&h->busy, out->slab);
        }
        h->live_B += out->held_B;
        h->epochs[0].peak_B = larger(h->epochs[0].peak_B, h->live_B);
        STAT_ADD(dev, heap_used_B, size_B);
        if (STAT_GET(dev, heap_used_B) > STAT_GET(dev, heap_peak_B))
            STAT_SET(dev, heap_peak_B, STAT_GET(dev, heap_used_B));
        if (profile_on()) profile_memory(dev, STAT_GET(dev, heap_used_B));
    }
    pthread_mutex_unlock(&h->lock);
    if (KILN_UNLIKELY(h->redzones) && !status) redzone_lay(out);
    return status;
}

static void push(struct bin *b, const struct block *block)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 16;
        struct free_block *v = realloc(b->v, cap * sizeof *v);
        if (!v) return; // the block is lost until its slab goes
        b->v = v;
        b->cap = cap;
    }
    b->v[b->n++] = (struct free_block){block->address, block->host, block->slab};
}

void device_release(kiln_device *dev, const struct block *b)
{
    if (KILN_UNLIKELY(b->foreign != NULL)) b->foreign->release(b->foreign);
    if (!b->slab) return;
    struct heap *h = dev->heap;
    struct block whole = *b;
    if (KILN_UNLIKELY(h->redzones)) redzone_lift(dev, &whole);
    pthread_mutex_lock(&h->lock);
    if (b->piece)
        pool_give(b->slab->pool, b->piece);
    else
        push(&h->bins[heap_class(b->held_B)], &whole);
    if (--b->slab->live == 0) {
        b->slab->idle_since = h->clock;
        list_remove(&h->busy, b->slab);
        list_add(&h->idle, b->slab);
    }
    h->live_B -= b->held_B;
    STAT_ADD(dev, heap_used_B, -b->size_B);
    if (profile_on()) profile_memory(dev, STAT_GET(dev, heap_used_B));
    pthread_mutex_unlock(&h->lock);
}
