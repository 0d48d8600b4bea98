// Decides which units become roots of kernels, what each root computes in passing, and in what order roots may run.
#include "fuse/roots.h"
#include "scalar/prim.h"
#include <stdlib.h>
#include <string.h>

// A value with several readers is computed again by each if that takes at most so many steps an element and reads at
// most so many operands; a chain of single readers ends before a kernel has too many inputs.
enum { MAX_AGAIN_STEPS = 30, MAX_AGAIN_READS = 4, MAX_CHAIN_READS = 12, MAX_CHAIN_STEPS = 600 };

static bool in_memory(const struct launch_operand *o)
{
    return !(o->flags & OPERAND_IMMEDIATE);
}

static int body_steps(const struct scalar_dag *d)
{
    int n = 0;
    for (int i = 0; i < d->n_nodes; i++) n += scalar_node_steps(&d->nodes[i]);
    return n;
}

struct weight {
    int steps, reads; // with all that is inlined
    int n_readers;
    bool opaque_reader;
    bool reads_written; // memory that is written later: computed then, it would be another value
};

static int32_t inlined_maker(const struct roots *r, const struct launch_operand *o)
{
    if (!in_memory(o)) return -1;
    const struct unit_buffer *b = &r->u->buffers.v[o->slot];
    return b->writer >= 0 && !unit_buffer_is_given(b) && r->inlined[b->writer] ? b->writer : -1;
}

// It runs as it was lowered, and reads memory.
static bool runs_plain(const struct roots *r, const struct unit *u)
{
    return u->region || !u->body || u->anchor || r->u->buffers.v[u->l.operands[u->n_in].slot].ordered;
}

static void count_readers(const struct roots *r, struct weight *w)
{
    for (size_t i = 0; i < r->u->v.n; i++) {
        const struct unit *u = &r->u->v.v[i];
        bool plain = runs_plain(r, u);
        for (int o = 0; o < unit_n_operands(u); o++) {
            const struct launch_operand *in = &unit_operands(u)[o];
            if (!unit_reads(u, o) || r->u->buffers.v[in->slot].writer < 0) continue;
            struct weight *maker = &w[r->u->buffers.v[in->slot].writer];
            maker->n_readers++;
            maker->opaque_reader = maker->opaque_reader || plain || unit_gathers(u, o);
        }
    }
}

static void weigh(const struct roots *r, int32_t i, struct weight *w)
{
    const struct unit *u = &r->u->v.v[i];
    w[i].steps = u->body ? body_steps(&u->body->dag) : 0;
    for (int o = 0; o < u->n_in; o++) {
        int32_t maker = inlined_maker(r, &u->l.operands[o]);
        w[i].reads += maker >= 0 ? w[maker].reads : in_memory(&u->l.operands[o]);
        w[i].steps += maker >= 0 ? w[maker].steps : 0;
        if (!in_memory(&u->l.operands[o])) continue;
        const struct unit_buffer *b = &r->u->buffers.v[u->l.operands[o].slot];
        w[i].reads_written =
            w[i].reads_written || (unit_buffer_is_given(b) && !b->ordered ? b->writer >= 0 : b->writer > i);
    }
}

static bool may_inline(const struct roots *r, int32_t i, const struct weight *w)
{
    const struct unit *u = &r->u->v.v[i];
    if (!u->body || u->folds || w[i].opaque_reader || w[i].reads_written) return false;
    const struct unit_buffer *b = &r->u->buffers.v[u->l.operands[u->n_in].slot];
    if (b->kept || b->ordered || unit_buffer_is_given(b)) return false;
    if (w[i].n_readers == 1) return w[i].reads <= MAX_CHAIN_READS && w[i].steps <= MAX_CHAIN_STEPS;
    return w[i].steps <= MAX_AGAIN_STEPS && w[i].reads <= MAX_AGAIN_READS;
}

// --- closures ---

static int by_number(const void *x, const void *y)
{
    const int32_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

// `found`: room for all units; of those, which are few, `root` reaches some that lie far before it.
static kiln_status make_closure(struct roots *r, int32_t root, int32_t *found, int32_t *mark)
{
    int n = 1;
    found[0] = root;
    mark[root] = root + 1;
    for (int at = 0; at < n; at++) {
        const struct unit *u = &r->u->v.v[found[at]];
        for (int o = 0; o < u->n_in; o++) {
            int32_t maker = inlined_maker(r, &u->l.operands[o]);
            if (maker < 0 || mark[maker] == root + 1) continue;
            mark[maker] = root + 1;
            found[n++] = maker;
        }
    }
    r->closure[root] = arena_alloc(r->arena, sizeof **r->closure * (size_t)n);
    if (!r->closure[root]) return error_pending;
    if (n > 1) qsort(found, (size_t)n, sizeof *found, by_number);
    memcpy(r->closure[root], found, sizeof *found * (size_t)n);
    r->n_closure[root] = n;
    return KILN_OK;
}

static kiln_status make_closures(struct roots *r)
{
    size_t n = r->u->v.n + 1;
    int32_t *found = arena_alloc(r->arena, sizeof *found * n), *mark = arena_alloc(r->arena, sizeof *mark * n);
    r->closure = arena_alloc(r->arena, sizeof *r->closure * n);
    r->n_closure = arena_alloc(r->arena, sizeof *r->n_closure * n);
    if (!found || !mark || !r->closure || !r->n_closure) return error_pending;
    for (int32_t i = 0; i < (int32_t)r->u->v.n; i++)
        if (!r->inlined[i]) TRY(make_closure(r, i, found, mark));
    return KILN_OK;
}

// --- dependences ---

struct tally {
    int32_t *n_readers, *n_after; // by buffer, by unit
    int32_t *last_reader;         // by buffer
    int32_t *before;              // by buffer: its writer; where it is written again, whoever touched it last
    bool list;
};

static void add_after(struct roots *r, struct tally *t, int32_t before, int32_t unit)
{
    if (before < 0 || before == unit) return;
    if (t->list) r->after[r->first_after[before] + t->n_after[before]] = unit;
    t->n_after[before]++;
}

static void read_buffer(struct roots *r, struct tally *t, int32_t root, uint32_t b)
{
    const struct unit_buffer *buffer = &r->u->buffers.v[b];
    if (t->last_reader[b] == root) return;
    t->last_reader[b] = root;
    add_after(r, t, t->before[b], root);
    if (buffer->ordered) t->before[b] = root;
    // What is written back is written after all have read it.
    if (unit_buffer_is_given(buffer) && buffer->writer >= 0 && !buffer->ordered) add_after(r, t, root, buffer->writer);
    if (t->list) r->readers[r->first_reader[b] + t->n_readers[b]] = root;
    t->n_readers[b]++;
}

static void walk(struct roots *r, struct tally *t)
{
    memset(t->n_readers, 0, sizeof *t->n_readers * r->u->buffers.n);
    memset(t->n_after, 0, sizeof *t->n_after * r->u->v.n);
    memset(t->before, -1, sizeof *t->before * r->u->buffers.n);
    memset(t->last_reader, -1, sizeof *t->last_reader * r->u->buffers.n);
    for (int32_t root = 0; root < (int32_t)r->u->v.n; root++) {
        for (int k = 0; k < r->n_closure[root]; k++) {
            const struct unit *u = &r->u->v.v[r->closure[root][k]];
            for (int o = 0; o < unit_n_operands(u); o++)
                if (unit_reads(u, o) && inlined_maker(r, &unit_operands(u)[o]) < 0)
                    read_buffer(r, t, root, unit_operands(u)[o].slot);
        }
        if (r->inlined[root]) continue;
        const struct unit *u = &r->u->v.v[root];
        for (int o = 0; o < unit_n_operands(u); o++) {
            if (!unit_writes(u, o)) continue;
            add_after(r, t, t->before[unit_operands(u)[o].slot], root);
            t->before[unit_operands(u)[o].slot] = root;
        }
    }
}

static int32_t *starts(struct arena *a, const int32_t *counts, size_t n, int32_t **items)
{
    int32_t *first = arena_alloc(a, sizeof *first * (n + 1));
    int32_t total = 0;
    if (!first) return NULL;
    for (size_t i = 0; i < n; i++) {
        first[i] = total;
        total += counts[i];
    }
    first[n] = total;
    *items = arena_alloc(a, sizeof **items * ((size_t)total + 1));
    return *items ? first : NULL;
}

// `n`: room, by unit.
static kiln_status turn_round(struct roots *r, int32_t *n)
{
    int32_t n_units = (int32_t)r->u->v.n;
    memset(n, 0, sizeof *n * r->u->v.n);
    for (int32_t i = 0; i < r->first_after[n_units]; i++) n[r->after[i]]++;
    r->first_before = starts(r->arena, n, r->u->v.n, &r->before);
    if (!r->first_before) return error_pending;
    memset(n, 0, sizeof *n * r->u->v.n);
    for (int32_t unit = 0; unit < n_units; unit++)
        for (int32_t i = r->first_after[unit]; i < r->first_after[unit + 1]; i++)
            r->before[r->first_before[r->after[i]] + n[r->after[i]]++] = unit;
    return KILN_OK;
}

static kiln_status find_dependences(struct roots *r)
{
    struct arena *a = r->arena;
    struct tally t = {.n_readers = arena_alloc(a, sizeof *t.n_readers * (r->u->buffers.n + 1)),
                      .n_after = arena_alloc(a, sizeof *t.n_after * (r->u->v.n + 1)),
                      .last_reader = arena_alloc(a, sizeof *t.last_reader * (r->u->buffers.n + 1)),
                      .before = arena_alloc(a, sizeof *t.before * (r->u->buffers.n + 1))};
    if (!t.n_readers || !t.n_after || !t.last_reader || !t.before) return error_pending;
    walk(r, &t);
    r->first_reader = starts(a, t.n_readers, r->u->buffers.n, &r->readers);
    r->first_after = starts(a, t.n_after, r->u->v.n, &r->after);
    if (!r->first_reader || !r->first_after) return error_pending;
    t.list = true;
    walk(r, &t);
    return turn_round(r, t.n_after);
}

kiln_status roots_again(struct roots *r)
{
    TRY(make_closures(r));
    return find_dependences(r);
}

kiln_status roots_find(struct roots *r, const struct units *u, struct arena *arena)
{
    *r = (struct roots){.u = u, .arena = arena, .inlined = arena_alloc(arena, u->v.n + 1)};
    struct weight *w = arena_alloc(arena, sizeof *w * (u->v.n + 1));
    if (!r->inlined || !w) return error_pending;
    count_readers(r, w);
    for (int32_t i = 0; i < (int32_t)u->v.n; i++) {
        weigh(r, i, w);
        r->inlined[i] = may_inline(r, i, w);
    }
    return roots_again(r);
}

kiln_status roots_split(struct roots *r, int32_t root)
{
    for (int i = 0; i < r->n_closure[root]; i++) r->inlined[r->closure[root][i]] = false;
    return roots_again(r);
}
