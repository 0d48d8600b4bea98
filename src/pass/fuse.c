// Which units become one kernel.
//
// Greedy: every unit that has an expression begins as a group of its own. Pairs of groups that share a buffer, as maker
// and reader or as two readers, are tried in the order of the bytes they share; a pair becomes one group when its units
// fit into one kernel (fuse_kernel), when that kernel moves fewer bytes than the two, computes not much more, and when
// no path leads from one of the two to the other through a third. Rounds go on until none succeeds, ten at most.
//
// Units that read no memory (fills, counters) belong to no group: whoever reads one computes it again.
#include "pass/fuse.h"
#include "scalar/prim.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 10, MAX_GROUP = 64, MAX_PAIRS_OF_BUFFER = 64, FEW_ROWS_LENGTH = 1 << 15 };

struct group {
    int32_t *units; // in order; NULL: merged into another
    int n;
    struct fused_kernel *k;
    double bytes, steps; // that its kernel moves and computes
};

struct pair {
    int32_t a, b; // units
    double bytes;
};

struct fuser {
    const struct units *u;
    const struct device_caps *caps;
    const struct fuse_options *o;
    struct schedule *out;
    struct group *groups;  // by first unit
    int32_t *group_of;     // by unit; -1: it has no expression
    bool *is_free;         // by unit
    bool *inside;          // by unit, while a set is tried
    bool *escapes;         // by buffer, while a set is tried
    int32_t *first_reader; // by buffer, into readers
    int32_t *readers;      // units, buffer by buffer
    int32_t *mark;         // by unit: visited by search n
    int32_t search;
    int32_t *stack;               // of a search
    int32_t *first_after, *after; // units that must come after a unit
    VEC(struct pair) pairs;
    const char **why; // by unit
};

static const struct unit *unit_at(const struct fuser *f, int32_t i)
{
    return &f->u->v.v[i];
}

static bool in_memory(const struct launch_operand *o)
{
    return !(o->flags & OPERAND_IMMEDIATE);
}

// --- dependences ---

struct tally {
    int32_t *n_readers, *n_after; // by buffer, by unit
    int32_t *before;              // by buffer: its writer; of a buffer that is written again, whoever touched it last
    bool list;
};

static void touch(struct fuser *f, struct tally *t, int32_t unit, int o)
{
    const struct unit *u = unit_at(f, unit);
    uint16_t b = u->l.operands[o].slot;
    int32_t before = t->before[b];
    if (before >= 0 && before != unit) {
        if (t->list) f->after[f->first_after[before] + t->n_after[before]] = unit;
        t->n_after[before]++;
    }
    if (o >= u->n_in || f->u->buffers.v[b].ordered) t->before[b] = unit;
    if (o >= u->n_in) return;
    if (t->list) f->readers[f->first_reader[b] + t->n_readers[b]] = unit;
    t->n_readers[b]++;
}

// What is written back is written after all have read it.
static void walk_writes(struct fuser *f, struct tally *t)
{
    for (int32_t i = 0; i < (int32_t)f->u->v.n; i++) {
        const struct unit *u = unit_at(f, i);
        for (int o = 0; o < u->n_in; o++) {
            const struct unit_buffer *b = &f->u->buffers.v[u->l.operands[o].slot];
            if (!in_memory(&u->l.operands[o]) || !unit_buffer_is_given(b) || b->writer < 0 || b->writer == i) continue;
            if (t->list) f->after[f->first_after[i] + t->n_after[i]] = b->writer;
            t->n_after[i]++;
        }
    }
}

// For each buffer its readers, for each unit those that must come after it; counted, then listed.
static void walk_dependences(struct fuser *f, struct tally *t)
{
    memset(t->n_readers, 0, sizeof *t->n_readers * f->u->buffers.n);
    memset(t->n_after, 0, sizeof *t->n_after * f->u->v.n);
    memset(t->before, -1, sizeof *t->before * f->u->buffers.n);
    for (int32_t i = 0; i < (int32_t)f->u->v.n; i++)
        for (int o = 0; o < unit_at(f, i)->l.n_operands; o++)
            if (in_memory(&unit_at(f, i)->l.operands[o])) touch(f, t, i, o);
    walk_writes(f, t);
}

static kiln_status make_room(struct fuser *f, const struct tally *t)
{
    size_t n = 0, n_units = f->u->v.n, n_buffers = f->u->buffers.n;
    struct arena *a = &f->out->arena;
    f->first_reader = arena_alloc(a, sizeof *f->first_reader * (n_buffers + 1));
    f->first_after = arena_alloc(a, sizeof *f->first_after * (n_units + 1));
    if (!f->first_reader || !f->first_after) return error_pending;
    for (size_t i = 0; i < n_buffers; n += (size_t)t->n_readers[i++]) f->first_reader[i] = (int32_t)n;
    f->first_reader[n_buffers] = (int32_t)n;
    f->readers = arena_alloc(a, sizeof *f->readers * (n + 1));
    n = 0;
    for (size_t i = 0; i < n_units; n += (size_t)t->n_after[i++]) f->first_after[i] = (int32_t)n;
    f->first_after[n_units] = (int32_t)n;
    f->after = arena_alloc(a, sizeof *f->after * (n + 1));
    return f->readers && f->after ? KILN_OK : error_pending;
}

static kiln_status find_dependences(struct fuser *f)
{
    struct arena *a = &f->out->arena;
    struct tally t = {0};
    t.n_readers = arena_alloc(a, sizeof *t.n_readers * (f->u->buffers.n + 1));
    t.n_after = arena_alloc(a, sizeof *t.n_after * (f->u->v.n + 1));
    t.before = arena_alloc(a, sizeof *t.before * (f->u->buffers.n + 1));
    if (!t.n_readers || !t.n_after || !t.before) return error_pending;
    walk_dependences(f, &t);
    TRY(make_room(f, &t));
    t.list = true;
    walk_dependences(f, &t);
    return KILN_OK;
}

// What runs as one: a group by its first unit, or a unit.
static int32_t whole_of(const struct fuser *f, int32_t unit)
{
    return f->group_of[unit] >= 0 ? f->group_of[unit] : unit;
}

static void push_next(struct fuser *f, int32_t whole, int32_t avoid, int32_t last, int *n)
{
    const int32_t *units = f->group_of[whole] >= 0 ? f->groups[whole].units : &whole;
    int n_units = f->group_of[whole] >= 0 ? f->groups[whole].n : 1;
    for (int u = 0; u < n_units; u++) {
        for (int32_t i = f->first_after[units[u]]; i < f->first_after[units[u] + 1]; i++) {
            int32_t next = whole_of(f, f->after[i]);
            // Units come after what they depend on: nothing behind the last of the goal leads back to it.
            if (next == whole || next == avoid || next > last || f->mark[next] == f->search) continue;
            f->mark[next] = f->search;
            f->stack[(*n)++] = next;
        }
    }
}

// Whether a path leads from group `from` to group `to` through another one.
static bool path_between(struct fuser *f, int32_t from, int32_t to)
{
    int32_t last = f->groups[to].units[f->groups[to].n - 1];
    int n = 0;
    f->search++;
    push_next(f, from, to, last, &n);
    while (n > 0) {
        int32_t whole = f->stack[--n];
        if (whole == to) return true;
        push_next(f, whole, -1, last, &n);
    }
    return false;
}

// --- what a kernel costs ---

static double touched_B(const struct fused_kernel *k, const struct fused_access *a)
{
    double n = dtype_size_B[a->dtype];
    for (int d = 0; d < k->n_dims; d++)
        if (a->strides[d]) n *= (double)k->sizes[d];
    return n;
}

static double node_steps(const struct scalar_node *n)
{
    if (n->kind != SCALAR_PRIM) return n->kind == SCALAR_REDUCE;
    return n->code == PRIM_div || n->code == PRIM_sqrt ? 4 : 1;
}

static void set_cost(struct group *g)
{
    const struct fused_kernel *k = g->k;
    double rows = (double)fused_points(k), points = rows * (double)fused_row_length(k);
    g->bytes = g->steps = 0;
    for (int i = 0; i < k->n_in + k->n_out; i++) g->bytes += touched_B(k, fused_access_at(k, i));
    for (int i = 0; i < k->dag.n_nodes; i++) {
        int arg = k->dag.nodes[i].kind == SCALAR_REDUCE ? k->dag.nodes[i].arg[0] : i;
        double times = k->level[arg] == LEVEL_ELEMENT ? points : k->level[arg] == LEVEL_ROW ? rows : 1;
        g->steps += node_steps(&k->dag.nodes[i]) * times;
    }
}

// Few long rows whose folds are read along the row again: one workgroup, or thread, would walk each row alone.
static bool starves(const struct fuser *f, const struct fused_kernel *k)
{
    if (fused_row_length(k) < FEW_ROWS_LENGTH || fused_points(k) >= f->caps->parallelism) return false;
    for (int i = 0; i < k->n_out; i++)
        if (k->level[k->out[i].node] == LEVEL_ELEMENT && k->stage[k->out[i].node] > 0) return true;
    return k->n_stages > 1;
}

// --- trying a set ---

static void set_escapes(struct fuser *f, const int32_t *units, int n)
{
    for (int i = 0; i < n; i++) {
        const struct unit *unit = unit_at(f, units[i]);
        uint16_t b = unit->l.operands[unit->n_in].slot;
        const struct unit_buffer *buffer = &f->u->buffers.v[b];
        f->escapes[b] = buffer->kept || buffer->ordered || unit_buffer_is_given(buffer);
        for (int32_t r = f->first_reader[b]; r < f->first_reader[b + 1] && !f->escapes[b]; r++)
            f->escapes[b] = !f->inside[f->readers[r]];
    }
}

static kiln_status try_set(struct fuser *f, const int32_t *units, int n, struct group *out, const char **why)
{
    for (int i = 0; i < n; i++) f->inside[units[i]] = true;
    set_escapes(f, units, n);
    struct fuse_set set = {f->u, units, n, f->inside, f->escapes, f->o->round_casts};
    kiln_status status = fuse_kernel(&f->out->arena, &set, &out->k, why);
    for (int i = 0; i < n; i++) f->inside[units[i]] = f->is_free[units[i]];
    if (!status && out->k) set_cost(out);
    return status;
}

static void merge_lists(const struct group *a, const struct group *b, int32_t *out)
{
    for (int i = 0, j = 0, n = 0; i < a->n || j < b->n;)
        out[n++] = j == b->n || (i < a->n && a->units[i] < b->units[j]) ? a->units[i++] : b->units[j++];
}

static const char *not_worth(const struct fuser *f, const struct group *a, const struct group *b,
                             const struct group *both)
{
    double saved = a->bytes + b->bytes - both->bytes, more = both->steps - a->steps - b->steps;
    if (saved <= 0) return "one kernel would move as many bytes";
    if (more > 2 * saved) return "values would be computed again too often";
    return starves(f, both->k) ? "few long rows" : NULL;
}

static kiln_status try_merge(struct fuser *f, int32_t x, int32_t y, bool *done)
{
    struct group *a = &f->groups[x < y ? x : y], *b = &f->groups[x < y ? y : x], both = {.n = a->n + b->n};
    int32_t first = x < y ? x : y, second = x < y ? y : x;
    const char *why = NULL;
    *done = false;
    if (both.n > MAX_GROUP)
        why = "the kernel would be too large";
    else if (path_between(f, first, second) || path_between(f, second, first))
        why = "what lies between them needs one and feeds the other";
    if (!why) {
        both.units = arena_alloc(&f->out->arena, sizeof *both.units * (size_t)both.n);
        if (!both.units) return error_pending;
        merge_lists(a, b, both.units);
        TRY(try_set(f, both.units, both.n, &both, &why));
    }
    if (!why) why = not_worth(f, a, b, &both);
    if (why) {
        f->why[second] = why;
        return KILN_OK;
    }
    for (int i = 0; i < both.n; i++) f->group_of[both.units[i]] = first;
    *a = both;
    b->units = NULL;
    b->n = 0;
    *done = true;
    return KILN_OK;
}

// --- rounds ---

static int more_bytes(const void *x, const void *y)
{
    const struct pair *a = x, *b = y;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->a != b->a ? (a->a > b->a) - (a->a < b->a) : (a->b > b->b) - (a->b < b->b);
}

static kiln_status add_pair(struct fuser *f, int32_t a, int32_t b, double bytes)
{
    if (f->group_of[a] < 0 || f->group_of[b] < 0 || f->group_of[a] == f->group_of[b])
        return KILN_OK; // b may be a itself
    return vec_push(&f->pairs, ((struct pair){a, b, bytes}));
}

static kiln_status find_pairs(struct fuser *f)
{
    f->pairs.n = 0;
    for (size_t i = 0; i < f->u->buffers.n; i++) {
        const struct unit_buffer *b = &f->u->buffers.v[i];
        int32_t from = f->first_reader[i], to = f->first_reader[i + 1];
        double bytes = (double)b->numel * dtype_size_B[b->dtype];
        if (to - from > MAX_PAIRS_OF_BUFFER) to = from + MAX_PAIRS_OF_BUFFER;
        for (int32_t r = from; r < to && b->writer >= 0 && !b->ordered; r++)
            TRY(add_pair(f, b->writer, f->readers[r], 2 * bytes));
        for (int32_t r = from + 1; r < to; r++) TRY(add_pair(f, f->readers[r - 1], f->readers[r], bytes));
    }
    if (f->pairs.n) qsort(f->pairs.v, f->pairs.n, sizeof *f->pairs.v, more_bytes);
    return KILN_OK;
}

static kiln_status run_round(struct fuser *f, bool *any)
{
    *any = false;
    TRY(find_pairs(f));
    for (size_t i = 0; i < f->pairs.n; i++) {
        int32_t a = f->group_of[f->pairs.v[i].a], b = f->group_of[f->pairs.v[i].b];
        bool done = false;
        if (a != b) TRY(try_merge(f, a, b, &done));
        *any = *any || done;
    }
    return KILN_OK;
}

static bool reads_memory(const struct unit *u)
{
    for (int o = 0; o < u->n_in; o++)
        if (in_memory(&u->l.operands[o])) return true;
    return false;
}

static kiln_status begin_groups(struct fuser *f)
{
    const char *why;
    for (int32_t i = 0; i < (int32_t)f->u->v.n; i++) {
        const struct unit *u = unit_at(f, i);
        uint16_t out = u->l.operands[u->n_in].slot;
        f->group_of[i] = -1;
        f->is_free[i] = u->body && !u->folds && !reads_memory(u) && !f->u->buffers.v[out].ordered;
        f->inside[i] = f->is_free[i];
    }
    for (int32_t i = 0; i < (int32_t)f->u->v.n; i++) {
        struct group *g = &f->groups[i];
        const struct unit *u = unit_at(f, i);
        if (!u->body || f->is_free[i] || f->u->buffers.v[u->l.operands[u->n_in].slot].ordered) continue;
        g->units = arena_alloc(&f->out->arena, sizeof *g->units);
        if (!g->units) return error_pending;
        g->units[0] = i;
        g->n = 1;
        TRY(try_set(f, g->units, 1, g, &why));
        if (g->k)
            f->group_of[i] = i;
        else
            f->why[i] = why;
    }
    return KILN_OK;
}

// --- the steps ---

// A free unit is a step of its own where its value must lie in memory.
static bool is_read_from_memory(const struct fuser *f, int32_t i)
{
    const struct unit *u = unit_at(f, i);
    uint16_t b = u->l.operands[u->n_in].slot;
    if (f->u->buffers.v[b].kept) return true;
    for (int32_t r = f->first_reader[b]; r < f->first_reader[b + 1]; r++) {
        int32_t g = f->group_of[f->readers[r]];
        if (g < 0 || f->groups[g].n == 1) return true;
    }
    return false;
}

static bool ready(const int32_t *waits, const int32_t *units, int n)
{
    for (int i = 0; i < n; i++)
        if (waits[units[i]]) return false;
    return true;
}

static bool of_one_group(const struct fuser *f, int32_t a, int32_t b)
{
    return f->group_of[a] >= 0 && f->group_of[a] == f->group_of[b];
}

static kiln_status emit(struct fuser *f, int32_t *waits, const int32_t *units, int n, struct fused_kernel *k)
{
    struct step s = {.kernel = n > 1 ? k : NULL, .unit = units[0], .n_units = n, .why = f->why[units[0]]};
    bool dropped = f->is_free[units[0]] && !is_read_from_memory(f, units[0]);
    for (int i = 0; i < n; i++) {
        f->out->step_of[units[i]] = dropped ? -1 : (int32_t)f->out->steps.n;
        for (int32_t a = f->first_after[units[i]]; a < f->first_after[units[i] + 1]; a++)
            if (!of_one_group(f, units[i], f->after[a])) waits[f->after[a]]--;
    }
    return dropped ? KILN_OK : vec_push(&f->out->steps, s);
}

// Groups in the order of their first units, each as soon as what it waits for is done. A unit of a group does not wait
// for others of it.
static kiln_status order(struct fuser *f)
{
    int32_t n = (int32_t)f->u->v.n, left = n;
    int32_t *waits = calloc((size_t)n + 1, sizeof *waits);
    bool *done = calloc((size_t)n + 1, 1);
    kiln_status status = waits && done ? KILN_OK : error_set(KILN_E_MEMORY, "graph: out of memory");
    for (int32_t i = 0; i < n && !status; i++)
        for (int32_t a = f->first_after[i]; a < f->first_after[i + 1]; a++)
            if (!of_one_group(f, i, f->after[a])) waits[f->after[a]]++;
    while (left > 0 && !status) {
        int32_t before = left;
        for (int32_t i = 0; i < n && !status; i++) {
            int32_t g = f->group_of[i];
            const int32_t *units = g < 0 ? &i : f->groups[g].units;
            int n_units = g < 0 ? 1 : f->groups[g].n;
            if (done[i] || (g >= 0 && g != i) || !ready(waits, units, n_units)) continue;
            for (int k = 0; k < n_units; k++) done[units[k]] = true;
            left -= n_units;
            status = emit(f, waits, units, n_units, g < 0 ? NULL : f->groups[g].k);
        }
        if (left == before && !status) status = error_set(KILN_E_INTERNAL, "fusion: groups wait for each other");
    }
    free(waits);
    free(done);
    return status;
}

static kiln_status run(struct fuser *f)
{
    TRY(find_dependences(f));
    TRY(begin_groups(f));
    bool any = !f->o->off;
    for (int round = 0; round < MAX_ROUNDS && any; round++) TRY(run_round(f, &any));
    return order(f);
}

kiln_status fuse(const struct units *u, const struct device_caps *caps, const struct fuse_options *o,
                 struct schedule *out)
{
    size_t n = u->v.n + 1;
    *out = (struct schedule){0};
    arena_init(&out->arena);
    struct arena *a = &out->arena;
    struct fuser f = {.u = u, .caps = caps, .o = o, .out = out};
    f.groups = arena_alloc(a, sizeof *f.groups * n);
    f.group_of = arena_alloc(a, sizeof *f.group_of * n);
    f.is_free = arena_alloc(a, n);
    f.inside = arena_alloc(a, n);
    f.escapes = arena_alloc(a, u->buffers.n + 1);
    f.mark = arena_alloc(a, sizeof *f.mark * n);
    f.stack = arena_alloc(a, sizeof *f.stack * n);
    f.why = arena_alloc(a, sizeof *f.why * n);
    out->step_of = arena_alloc(a, sizeof *out->step_of * n);
    kiln_status status =
        f.groups && f.group_of && f.is_free && f.inside && f.escapes && f.mark && f.stack && f.why && out->step_of
            ? run(&f)
            : error_pending;
    vec_free(&f.pairs);
    return status;
}

void schedule_finish(struct schedule *s)
{
    vec_free(&s->steps);
    arena_finish(&s->arena);
}
