// Placing intervals. A buffer is a rectangle: its steps one way, its bytes the other; the steps are given, the offset
// is to be found so that no two rectangles overlap and the highest end is low.
//
// 0. What finds a place in memory that is there anyway (memory_host.c) needs none in the arena.
//
// 1. Candidates in place, in order: where `a` begins at the step at which `b` ends and is no larger, they become one
//    item, which lives from b's first step to a's last. An item takes part in more than one, as a chain.
// 2. Pairs of items that are live at a common step, by a sweep over the steps: item by item in order of the first step,
//    against those still live. They are the only ones that must not overlap.
// 3. Items are placed one after the other: best fit, the smallest gap between the neighbours that are placed already
//    which holds it, else behind the last. Greedy placement depends on the order, and which order is best on the
//    instance: by size, by size times life, and by the first step are tried, larger and earlier items first among
//    equals, and the lowest result is kept.
//
// Cost: sorting, and for each item its neighbours, sorted by offset. Ties go to the lower number, so a plan is
// reproducible.
#include "fuse/memory_host.h"
#include "base/vec.h"
#include <stdlib.h>
#include <string.h>

struct memory_item {
    uint64_t size_B; // a multiple of PLAN_ALIGN_B; 0: merged into another
    int32_t first, last;
    int32_t n_neighbours;
    size_t first_neighbour;
    int32_t merged_into; // -1: itself
};

struct item_pair {
    int32_t a, b;
};

struct item_key {
    uint64_t high, low; // descending, then ascending
    int32_t item;
};

struct item_span {
    uint64_t begin, end;
};

struct planning {
    const struct plan_buffer *buffers;
    int32_t n, n_items;
    struct memory_item *items;
    int32_t *item_of; // buffer -> item, -1: no place
    int32_t *live, *neighbours;
    VEC(struct item_pair) pairs;
    struct item_key *keys;
    struct item_span *near;
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

// --- which items meet

static int by_key(const void *a, const void *b)
{
    const struct item_key *p = a, *q = b;
    if (p->high != q->high) return p->high > q->high ? -1 : 1;
    if (p->low != q->low) return p->low < q->low ? -1 : 1;
    return p->item < q->item ? -1 : p->item > q->item;
}

enum { FEW_SPANS = 64 };
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

// Over the items by first step; `live` are those that may still meet others. Also the most bytes live at one step.
static kiln_status find_pairs(struct planning *p, uint64_t *bound_B)
{
    int32_t n_live = 0;
    uint64_t live_B = 0;
    sort_items(p, BY_FIRST);
    for (int32_t k = 0; k < p->n_items; k++) {
        int32_t i = p->keys[k].item, kept = 0;
        if (!p->items[i].size_B) continue;
        for (int32_t j = 0; j < n_live; j++) {
            int32_t other = p->live[j];
            if (p->items[other].last < p->items[i].first) {
                live_B -= p->items[other].size_B;
                continue;
            }
            p->live[kept++] = other;
            struct item_pair pair = {i, other};
            TRY(vec_push(&p->pairs, pair));
            p->items[i].n_neighbours++;
            p->items[other].n_neighbours++;
        }
        p->live[kept++] = i;
        n_live = kept;
        live_B += p->items[i].size_B;
        if (live_B > *bound_B) *bound_B = live_B;
    }
    return KILN_OK;
}

static kiln_status find_neighbours(struct planning *p, uint64_t *bound_B)
{
    TRY(find_pairs(p, bound_B));
    p->neighbours = malloc(sizeof *p->neighbours * (2 * p->pairs.n + 1));
    if (!p->neighbours) return error_set(KILN_E_MEMORY, "plan: out of memory");
    size_t first = 0;
    for (int32_t i = 0; i < p->n_items; i++) {
        p->items[i].first_neighbour = first;
        first += (size_t)p->items[i].n_neighbours;
        p->items[i].n_neighbours = 0;
    }
    for (size_t k = 0; k < p->pairs.n; k++) {
        struct memory_item *a = &p->items[p->pairs.v[k].a], *b = &p->items[p->pairs.v[k].b];
        p->neighbours[a->first_neighbour + (size_t)a->n_neighbours++] = p->pairs.v[k].b;
        p->neighbours[b->first_neighbour + (size_t)b->n_neighbours++] = p->pairs.v[k].a;
    }
    return KILN_OK;
}

// --- placing

static int by_offset(const void *a, const void *b)
{
    const struct item_span *p = a, *q = b;
    return p->begin < q->begin ? -1 : p->begin > q->begin;
}

// A few are in order sooner without a call for each comparison.
static void sort_spans(struct item_span *v, size_t n)
{
    if (n > FEW_SPANS) {
        qsort(v, n, sizeof *v, by_offset);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        struct item_span moved = v[i];
        size_t at = i;
        for (; at && v[at - 1].begin > moved.begin; at--) v[at] = v[at - 1];
        v[at] = moved;
    }
}

static uint64_t place(struct planning *p, int32_t i)
{
    const struct memory_item *it = &p->items[i];
    size_t n = 0;
    for (int32_t k = 0; k < it->n_neighbours; k++) {
        int32_t other = p->neighbours[it->first_neighbour + (size_t)k];
        if (p->offset[other] == PLAN_NOWHERE) continue;
        p->near[n++] = (struct item_span){p->offset[other], p->offset[other] + p->items[other].size_B};
    }
    sort_spans(p->near, n);
    uint64_t end = 0, best = PLAN_NOWHERE, best_gap = UINT64_MAX;
    for (size_t k = 0; k < n; k++) {
        if (p->near[k].begin > end) {
            uint64_t gap = p->near[k].begin - end;
            if (gap >= it->size_B && gap < best_gap) {
                best = end;
                best_gap = gap;
            }
        }
        if (p->near[k].end > end) end = p->near[k].end;
    }
    return best == PLAN_NOWHERE ? end : best;
}

static uint64_t place_all(struct planning *p, enum order order)
{
    uint64_t total = 0;
    sort_items(p, order);
    for (int32_t i = 0; i < p->n_items; i++) p->offset[i] = PLAN_NOWHERE;
    for (int32_t k = 0; k < p->n_items; k++) {
        int32_t i = p->keys[k].item;
        if (!p->items[i].size_B) continue;
        p->offset[i] = place(p, i);
        if (p->offset[i] + p->items[i].size_B > total) total = p->offset[i] + p->items[i].size_B;
    }
    return total;
}

static kiln_status solve(struct planning *p, struct memory_plan *out)
{
    out->total_B = UINT64_MAX;
    TRY(find_neighbours(p, &out->bound_B));
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
    p->live = calloc(n, sizeof *p->live);
    p->keys = calloc(n, sizeof *p->keys);
    p->near = calloc(n, sizeof *p->near);
    p->offset = calloc(n, sizeof *p->offset);
    p->best = calloc(n, sizeof *p->best);
    out->offset_B = calloc(n, sizeof *out->offset_B);
    out->in_place = calloc(n, sizeof *out->in_place);
    out->within = calloc(n, sizeof *out->within);
    bool all = p->items && p->item_of && p->live && p->keys && p->near && p->offset && p->best && out->offset_B &&
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
    void *scratch[] = {p.items, p.item_of, p.live, p.keys, p.near, p.offset, p.best, p.neighbours};
    for (size_t i = 0; i < COUNT_OF(scratch); i++) free(scratch[i]);
    vec_free(&p.pairs);
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
