// Placing intervals. A buffer is a rectangle: its steps one way, its bytes the other; the steps are given, the offset
// is to be found so that no two rectangles overlap and the highest end is low.
//
// 0. What finds a place in memory that is there anyway (memory_host.c) needs none in the arena.
//
// 1. Candidates in place, in order: where `a` begins at the step at which `b` ends and is no larger, they become one
//    item, which lives from b's first step to a's last. An item takes part in more than one, as a chain.
// 2. Items are placed one after the other: best fit, the smallest gap which holds it between those that are placed
//    already and live at a common step, else behind the last. Greedy placement depends on the order, and which order is
//    best on the instance: by size, by size times life, and by the first step are tried, larger and earlier items first
//    among equals, and the lowest result is kept, or the first that cannot be lower, as it is all that lives at a step.
//
// Cost: sorting, and for each item a look at those that are placed, which are kept sorted by offset; where items come
// by their first step, at those that still live. Ties go to the lower number, so a plan is reproducible.
#include "fuse/memory_host.h"
#include <stdlib.h>
#include <string.h>

struct memory_item {
    uint64_t size_B; // a multiple of PLAN_ALIGN_B; 0: merged into another
    int32_t first, last;
    int32_t merged_into; // -1: itself
};

struct item_key {
    uint64_t high, low; // descending, then ascending
    int32_t item;
};

struct item_span { // that is placed
    uint64_t begin, end;
    int32_t first, last;
};

struct planning {
    const struct plan_buffer *buffers;
    int32_t n, n_items;
    struct memory_item *items;
    int32_t *item_of; // buffer -> item, -1: no place
    struct item_key *keys;
    struct item_span *placed; // by offset
    int32_t n_placed;
    uint64_t *offset, *best; // by item
};

static uint64_t aligned(uint64_t size_B)
{
    return (size_B + PLAN_ALIGN_B - 1) / PLAN_ALIGN_B * PLAN_ALIGN_B;
}

static kiln_status check(const struct plan_buffer *b, int32_t n, const struct plan_candidate *c, int32_t n_candidates)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < n; i++) {
        if (b[i].first > b[i].last)
            return error_set(KILN_E_ARGUMENT, "plan: buffer %d is used from step %d to %d", (int)i, (int)b[i].first,
                             (int)b[i].last);
        if (b[i].size_B > INT64_MAX || __builtin_add_overflow(sum, aligned(b[i].size_B), &sum))
            return error_set(KILN_E_SHAPE, "plan: the sizes of the buffers overflow");
    }
    for (int32_t i = 0; i < n_candidates; i++) {
        bool known = c[i].a >= 0 && c[i].a < n && c[i].b >= 0 && c[i].b < n && c[i].a != c[i].b;
        if (!known || b[c[i].a].first != c[i].step || b[c[i].b].last != c[i].step)
            return error_set(KILN_E_ARGUMENT, "plan: buffer %d cannot take the place of %d at step %d", (int)c[i].a,
                             (int)c[i].b, (int)c[i].step);
    }
    return KILN_OK;
}

static bool has_place(const struct plan_buffer *b)
{
    return !(b->flags & ~(uint32_t)PLAN_ARENA) && b->size_B;
}

// The item that this one became part of.
static int32_t root(const struct planning *p, int32_t item)
{
    while (item >= 0 && p->items[item].merged_into >= 0) item = p->items[item].merged_into;
    return item;
}

static void make_items(struct planning *p, const struct plan_candidate *c, int32_t n_candidates,
                       struct memory_plan *out)
{
    for (int32_t i = 0; i < p->n; i++) {
        const struct plan_buffer *b = &p->buffers[i];
        p->item_of[i] = -1;
        out->in_place[i] = -1;
        if (!has_place(b)) continue;
        out->naive_B += aligned(b->size_B);
        if (out->within[i] >= 0) continue;
        p->item_of[i] = p->n_items;
        p->items[p->n_items++] =
            (struct memory_item){.size_B = aligned(b->size_B), .first = b->first, .last = b->last, .merged_into = -1};
    }
    for (int32_t i = 0; i < n_candidates; i++) {
        int32_t a = root(p, p->item_of[c[i].a]), b = root(p, p->item_of[c[i].b]);
        if (a < 0 || b < 0 || a == b || out->in_place[c[i].a] >= 0) continue;
        // Only the buffer that an item ends with can be followed, and by a buffer that begins an item.
        if (p->items[b].last != c[i].step || p->items[a].first != c[i].step || p->items[a].size_B > p->items[b].size_B)
            continue;
        p->items[b].last = p->items[a].last;
        p->items[a].size_B = 0;
        p->items[a].merged_into = b;
        out->in_place[c[i].a] = c[i].b;
    }
    for (int32_t i = 0; i < p->n; i++) p->item_of[i] = root(p, p->item_of[i]);
}

// --- orders

static int by_key(const void *a, const void *b)
{
    const struct item_key *p = a, *q = b;
    if (p->high != q->high) return p->high > q->high ? -1 : 1;
    if (p->low != q->low) return p->low < q->low ? -1 : 1;
    return p->item < q->item ? -1 : p->item > q->item;
}

enum order { BY_SIZE, BY_AREA, BY_FIRST, ORDER_COUNT };

static void sort_items(struct planning *p, enum order order)
{
    for (int32_t i = 0; i < p->n_items; i++) {
        const struct memory_item *it = &p->items[i];
        uint64_t life = (uint64_t)(it->last - it->first) + 1, start = (uint64_t)((int64_t)it->first - INT32_MIN), area;
        if (__builtin_mul_overflow(life, it->size_B, &area)) area = UINT64_MAX;
        p->keys[i] = (struct item_key){order == BY_SIZE   ? it->size_B
                                       : order == BY_AREA ? area
                                                          : UINT64_MAX - start,
                                       order == BY_FIRST ? UINT64_MAX - it->size_B : start, i};
    }
    qsort(p->keys, (size_t)p->n_items, sizeof *p->keys, by_key);
}

static int by_last(const void *a, const void *b)
{
    const struct memory_item *p = *(const struct memory_item *const *)a, *q = *(const struct memory_item *const *)b;
    return (p->last > q->last) - (p->last < q->last);
}

// The most bytes that live at one step.
static kiln_status find_bound(struct planning *p, uint64_t *bound_B)
{
    const struct memory_item **ends = malloc(sizeof *ends * ((size_t)p->n_items + 1));
    uint64_t live_B = 0;
    if (!ends) return error_set(KILN_E_MEMORY, "plan: out of memory");
    for (int32_t i = 0; i < p->n_items; i++) ends[i] = &p->items[i];
    qsort(ends, (size_t)p->n_items, sizeof *ends, by_last);
    sort_items(p, BY_FIRST);
    for (int32_t k = 0, gone = 0; k < p->n_items; k++) {
        const struct memory_item *it = &p->items[p->keys[k].item];
        while (ends[gone]->last < it->first) live_B -= ends[gone++]->size_B;
        live_B += it->size_B;
        if (live_B > *bound_B) *bound_B = live_B;
    }
    free(ends);
    return KILN_OK;
}

// --- placing

static void insert(struct planning *p, uint64_t begin, const struct memory_item *it)
{
    int32_t from = 0, to = p->n_placed;
    while (from < to) {
        int32_t middle = from + (to - from) / 2;
        if (p->placed[middle].begin < begin)
            from = middle + 1;
        else
            to = middle;
    }
    memmove(&p->placed[from + 1], &p->placed[from], (size_t)(p->n_placed++ - from) * sizeof *p->placed);
    p->placed[from] = (struct item_span){begin, begin + it->size_B, it->first, it->last};
}

// No item that is still to come begins before this one.
static void forget_dead(struct planning *p, int32_t first)
{
    int32_t kept = 0;
    for (int32_t k = 0; k < p->n_placed; k++)
        if (p->placed[k].last >= first) p->placed[kept++] = p->placed[k];
    p->n_placed = kept;
}

static uint64_t place(const struct planning *p, const struct memory_item *it)
{
    uint64_t end = 0, best = PLAN_NOWHERE, best_gap = UINT64_MAX;
    for (int32_t k = 0; k < p->n_placed; k++) {
        const struct item_span *span = &p->placed[k];
        if (span->last < it->first || span->first > it->last) continue;
        if (span->begin > end) {
            uint64_t gap = span->begin - end;
            if (gap >= it->size_B && gap < best_gap) {
                best = end;
                best_gap = gap;
            }
        }
        if (span->end > end) end = span->end;
    }
    return best == PLAN_NOWHERE ? end : best;
}

static uint64_t place_all(struct planning *p, enum order order)
{
    uint64_t total = 0;
    sort_items(p, order);
    p->n_placed = 0;
    for (int32_t k = 0; k < p->n_items; k++) {
        int32_t i = p->keys[k].item;
        const struct memory_item *it = &p->items[i];
        p->offset[i] = PLAN_NOWHERE;
        if (!it->size_B) continue;
        if (order == BY_FIRST) forget_dead(p, it->first);
        p->offset[i] = place(p, it);
        insert(p, p->offset[i], it);
        if (p->offset[i] + it->size_B > total) total = p->offset[i] + it->size_B;
    }
    return total;
}

static kiln_status solve(struct planning *p, struct memory_plan *out)
{
    out->total_B = UINT64_MAX;
    TRY(find_bound(p, &out->bound_B));
    for (int order = 0; order < ORDER_COUNT && out->total_B > out->bound_B; order++) {
        uint64_t total = place_all(p, (enum order)order);
        if (total >= out->total_B) continue;
        out->total_B = total;
        memcpy(p->best, p->offset, sizeof *p->best * (size_t)p->n_items);
    }
    for (int32_t i = 0; i < p->n; i++) out->offset_B[i] = p->item_of[i] < 0 ? PLAN_NOWHERE : p->best[p->item_of[i]];
    return KILN_OK;
}

static kiln_status allocate(struct planning *p, struct memory_plan *out)
{
    size_t n = (size_t)p->n + 1;
    p->items = calloc(n, sizeof *p->items);
    p->item_of = calloc(n, sizeof *p->item_of);
    p->keys = calloc(n, sizeof *p->keys);
    p->placed = calloc(n, sizeof *p->placed);
    p->offset = calloc(n, sizeof *p->offset);
    p->best = calloc(n, sizeof *p->best);
    out->offset_B = calloc(n, sizeof *out->offset_B);
    out->in_place = calloc(n, sizeof *out->in_place);
    out->within = calloc(n, sizeof *out->within);
    bool all = p->items && p->item_of && p->keys && p->placed && p->offset && p->best && out->offset_B &&
               out->in_place && out->within;
    return all ? KILN_OK : error_set(KILN_E_MEMORY, "plan: out of memory");
}

kiln_status memory_plan_make(const struct plan_buffer *buffers, int32_t n, const struct plan_candidate *candidates,
                             int32_t n_candidates, struct memory_plan *out)
{
    struct planning p = {.buffers = buffers, .n = n};
    *out = (struct memory_plan){0};
    TRY(check(buffers, n, candidates, n_candidates));
    kiln_status status = allocate(&p, out);
    if (!status) status = memory_find_hosts(buffers, n, candidates, n_candidates, out->within);
    if (!status) {
        make_items(&p, candidates, n_candidates, out);
        status = solve(&p, out);
    }
    if (status) memory_plan_free(out);
    void *scratch[] = {p.items, p.item_of, p.keys, p.placed, p.offset, p.best};
    for (size_t i = 0; i < COUNT_OF(scratch); i++) free(scratch[i]);
    return status;
}

void memory_plan_free(struct memory_plan *p)
{
    if (!p) return;
    free(p->offset_B);
    free(p->in_place);
    free(p->within);
    *p = (struct memory_plan){0};
}
