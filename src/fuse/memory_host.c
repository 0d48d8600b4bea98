// Memory that is there anyway: inputs that were given away, once they were read, and results before they are written.
//
// Input: buffers and candidates as of memory_plan_make. Output: in whose memory a buffer lies, whole, from the
// beginning, or -1.
//
// 1. Results in the order of their first step, for the earlier one is the harder to place, each over a given buffer of
//    its very size that is dead by then: rather over one that it takes over in place, else over the one that lived
//    longest. What a result gets stays the caller's: with another size there would be a remainder that is lost.
// 2. Temporaries, larger and earlier ones first, each in the smallest host that holds it and is free for all its life.
//
// Two buffers share a host if their lives are apart, or meet in one step at which the later one takes the place of the
// earlier one: that is what candidates tell.
#include "fuse/memory_host.h"
#include <stdlib.h>

enum { HOSTS_TRIED = 64 }; // by one temporary

struct hosting {
    const struct plan_buffer *buffers;
    const struct plan_candidate *candidates;
    int32_t *first_candidate, *next_candidate; // by buffer, by candidate; -1: none
    int32_t *next;                             // in the host that a buffer lies in, or is; -1: the last
    int32_t *hosts, n_hosts;                   // by size
    int32_t *within;
};

static bool has_flag(const struct hosting *h, int32_t i, enum plan_flags flag)
{
    return h->buffers[i].flags & flag && h->buffers[i].size_B;
}

static int32_t first_step(const struct hosting *h, int32_t i)
{
    return has_flag(h, i, PLAN_GIVEN) ? INT32_MIN : h->buffers[i].first;
}

static int32_t last_step(const struct hosting *h, int32_t i)
{
    return has_flag(h, i, PLAN_RESULT) ? INT32_MAX : h->buffers[i].last;
}

static bool takes_over(const struct hosting *h, int32_t later, int32_t earlier)
{
    if (h->buffers[later].first != h->buffers[earlier].last) return false;
    for (int32_t c = h->first_candidate[later]; c >= 0; c = h->next_candidate[c])
        if (h->candidates[c].b == earlier) return true;
    return false;
}

static bool are_apart(const struct hosting *h, int32_t i, int32_t other)
{
    if (last_step(h, i) < first_step(h, other) || last_step(h, other) < first_step(h, i)) return true;
    return takes_over(h, i, other) || takes_over(h, other, i);
}

static bool fits(const struct hosting *h, int32_t host, int32_t i)
{
    for (int32_t other = host; other >= 0; other = h->next[other])
        if (!are_apart(h, i, other)) return false;
    return true;
}

// It takes over from one that is there, or hands over to one.
static bool meets(const struct hosting *h, int32_t host, int32_t i)
{
    for (int32_t other = host; other >= 0; other = h->next[other])
        if (takes_over(h, i, other) || takes_over(h, other, i)) return true;
    return false;
}

static void lodge(struct hosting *h, int32_t host, int32_t i)
{
    h->within[i] = host;
    h->next[i] = h->next[host];
    h->next[host] = i;
}

// --- results

static void place_result(struct hosting *h, int32_t result, const int32_t *given, int32_t n_given)
{
    int32_t best = -1;
    bool found = false;
    for (int32_t k = 0; k < n_given && !found; k++) {
        if (h->buffers[given[k]].size_B != h->buffers[result].size_B || !fits(h, given[k], result)) continue;
        found = meets(h, given[k], result);
        if (found || best < 0 || h->buffers[given[k]].last > h->buffers[best].last) best = given[k];
    }
    if (best >= 0) lodge(h, best, result);
}

// --- order

struct host_key {
    uint64_t high;
    int32_t low, buffer; // both up
};

static int by_key(const void *a, const void *b)
{
    const struct host_key *p = a, *q = b;
    if (p->high != q->high) return p->high < q->high ? -1 : 1;
    if (p->low != q->low) return p->low < q->low ? -1 : 1;
    return p->buffer < q->buffer ? -1 : p->buffer > q->buffer;
}

enum order { BY_STEP, SMALL_FIRST, LARGE_FIRST };

static int32_t sort_by(const struct hosting *h, int32_t n, bool (*is_one)(const struct hosting *h, int32_t i),
                       enum order order, struct host_key *keys, int32_t *out)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        uint64_t size_B = h->buffers[i].size_B;
        if (!is_one(h, i)) continue;
        uint64_t high = order == BY_STEP ? 0 : order == SMALL_FIRST ? size_B : UINT64_MAX - size_B;
        keys[count++] = (struct host_key){high, h->buffers[i].first, i};
    }
    qsort(keys, (size_t)count, sizeof *keys, by_key);
    for (int32_t i = 0; i < count; i++) out[i] = keys[i].buffer;
    return count;
}

static bool is_given(const struct hosting *h, int32_t i)
{
    return has_flag(h, i, PLAN_GIVEN);
}

static bool is_result(const struct hosting *h, int32_t i)
{
    return has_flag(h, i, PLAN_RESULT);
}

static bool is_host(const struct hosting *h, int32_t i)
{
    return (is_given(h, i) || is_result(h, i)) && h->within[i] < 0;
}

static bool is_lodger(const struct hosting *h, int32_t i)
{
    return !h->buffers[i].flags && h->buffers[i].size_B;
}

// --- temporaries

static int32_t first_that_holds(const struct hosting *h, uint64_t size_B)
{
    int32_t from = 0, to = h->n_hosts;
    while (from < to) {
        int32_t middle = from + (to - from) / 2;
        if (h->buffers[h->hosts[middle]].size_B < size_B)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void place_temporary(struct hosting *h, int32_t i)
{
    int32_t first = first_that_holds(h, h->buffers[i].size_B), best = -1;
    bool found = false;
    for (int32_t k = first; k < h->n_hosts && k < first + HOSTS_TRIED && !found; k++) {
        int32_t host = h->hosts[k];
        if (best >= 0 && h->buffers[host].size_B > h->buffers[best].size_B) break;
        if (!fits(h, host, i)) continue;
        found = meets(h, host, i);
        if (found || best < 0) best = host;
    }
    if (best >= 0) lodge(h, best, i);
}

static void place_all(struct hosting *h, int32_t n, struct host_key *keys, int32_t *order, int32_t *given)
{
    int32_t n_given = sort_by(h, n, is_given, BY_STEP, keys, given);
    int32_t count = sort_by(h, n, is_result, BY_STEP, keys, order);
    for (int32_t i = 0; i < count && n_given; i++) place_result(h, order[i], given, n_given);
    h->n_hosts = sort_by(h, n, is_host, SMALL_FIRST, keys, h->hosts);
    if (!h->n_hosts) return;
    count = sort_by(h, n, is_lodger, LARGE_FIRST, keys, order);
    for (int32_t i = 0; i < count; i++) place_temporary(h, order[i]);
}

static void list_candidates(struct hosting *h, int32_t n, int32_t n_candidates)
{
    for (int32_t i = 0; i < n; i++) h->first_candidate[i] = h->next[i] = -1;
    for (int32_t c = n_candidates; c-- > 0;) {
        h->next_candidate[c] = h->first_candidate[h->candidates[c].a];
        h->first_candidate[h->candidates[c].a] = c;
    }
}

kiln_status memory_find_hosts(const struct plan_buffer *buffers, int32_t n, const struct plan_candidate *candidates,
                              int32_t n_candidates, int32_t *within)
{
    struct hosting h = {.buffers = buffers, .candidates = candidates, .within = within};
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        within[i] = -1;
        any |= is_given(&h, i) || is_result(&h, i);
    }
    if (!any) return KILN_OK;
    size_t room = (size_t)n + 1;
    struct host_key *keys = calloc(room, sizeof *keys);
    int32_t *numbers = calloc(5 * room + (size_t)n_candidates, sizeof *numbers);
    kiln_status status = keys && numbers ? KILN_OK : error_set(KILN_E_MEMORY, "plan: out of memory");
    if (!status) {
        h.first_candidate = numbers;
        h.next = numbers + room;
        h.hosts = numbers + 2 * room;
        h.next_candidate = numbers + 5 * room;
        list_candidates(&h, n, n_candidates);
        place_all(&h, n, keys, numbers + 3 * room, numbers + 4 * room);
    }
    free(keys);
    free(numbers);
    return status;
}
