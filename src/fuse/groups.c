// Which units become one kernel.
//
// Units that are cheap, or have one reader, are computed where they are read (roots.c); the others are roots.
// Every root that has an expression begins as a group of its own, with what it inlines. Pairs of groups that share a
// buffer, as maker and reader or as two readers, are tried in the order of the bytes they share; a pair becomes one
// group when its units fit into one kernel (build.c), when that kernel moves fewer bytes than the two, computes
// not much more, and when no path leads from one of the two to the other through a third. Rounds go on until none
// succeeds, ten at most.
#include "fuse/attention.h"
#include "fuse/roots.h"
#include "fuse/table.h"
#include "scalar/prim.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 10, MAX_GROUP = 64, MAX_PAIRS_OF_BUFFER = 64, FEW_ROWS_LENGTH = 1 << 15 };

struct group {
    int32_t *roots; // in order
    int n;          // 0: merged into another
    struct fused_kernel *k;
    double bytes, steps; // that its kernel moves and computes
    bool anchored;       // around a product
};

struct pair {
    int32_t a, b; // roots
    double bytes;
};

struct fuser {
    const struct units *u;
    const struct device_caps *caps;
    const struct fuse_options *o;
    struct fuse_schedule *out;
    struct roots r;
    struct group *groups; // by first root
    int32_t *group_of;    // by root; -1: it runs by itself
    bool *inside;         // by unit, while a set is tried
    bool *escapes;        // by buffer, while a set is tried
    int32_t *mark;        // by root: visited by search n
    int32_t search;
    int32_t *stack;     // of a search
    const char **why;   // by root
    int32_t *units;     // of the set that is tried
    bool for_attention; // while rows and their product are tried
    bool prologues;     // products may take in what makes their operands
    VEC(struct pair) pairs;
};

static const struct unit *unit_at(const struct fuser *f, int32_t i)
{
    return &f->u->v.v[i];
}

static uint16_t result_of(const struct fuser *f, int32_t unit)
{
    return unit_at(f, unit)->l.operands[unit_at(f, unit)->n_in].slot;
}

// What runs as one: a group by its first root, or a root.
static int32_t whole_of(const struct fuser *f, int32_t root)
{
    return f->group_of[root] >= 0 ? f->group_of[root] : root;
}

static const int32_t *roots_of(const struct fuser *f, const int32_t *whole, int *n)
{
    bool grouped = f->group_of[*whole] >= 0;
    *n = grouped ? f->groups[*whole].n : 1;
    return grouped ? f->groups[*whole].roots : whole;
}

static void push_next(struct fuser *f, int32_t whole, int32_t avoid, int32_t last, int *n)
{
    int n_roots;
    const int32_t *roots = roots_of(f, &whole, &n_roots);
    for (int k = 0; k < n_roots; k++) {
        for (int32_t i = f->r.first_after[roots[k]]; i < f->r.first_after[roots[k] + 1]; i++) {
            int32_t next = whole_of(f, f->r.after[i]);
            if (next == whole || next == avoid || next > last || f->mark[next] == f->search) continue;
            f->mark[next] = f->search;
            f->stack[(*n)++] = next;
        }
    }
}

// Units come after what they depend on. So only groups that begin up to here can lead to group `to`: up to its last
// root, or that of a group that begins before and through which a path leads back.
static int32_t last_leading_to(const struct fuser *f, int32_t to)
{
    int32_t last = f->groups[to].roots[f->groups[to].n - 1];
    for (int32_t i = 0; i <= last; i++)
        if (f->group_of[i] == i && f->groups[i].roots[f->groups[i].n - 1] > last)
            last = f->groups[i].roots[f->groups[i].n - 1];
    return last;
}

// Whether a path leads from group `from` to group `to` through another one.
static bool path_between(struct fuser *f, int32_t from, int32_t to)
{
    int32_t last = last_leading_to(f, to);
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

static void set_cost(struct group *g)
{
    const struct fused_kernel *k = g->k;
    double rows = (double)fused_points(k), points = rows * (double)fused_row_length(k);
    g->bytes = g->steps = 0;
    for (int i = 0; i < k->n_in + k->n_out; i++) g->bytes += touched_B(k, fused_access_at(k, i));
    for (int i = 0; i < k->dag.n_nodes; i++) {
        int arg = k->dag.nodes[i].kind == SCALAR_REDUCE ? k->dag.nodes[i].arg[0] : i;
        if (k->product.n_m && k->level[arg] == LEVEL_ELEMENT) continue;
        double times = k->level[arg] == LEVEL_ELEMENT ? points : k->level[arg] == LEVEL_ROW ? rows : 1;
        g->steps += scalar_node_steps(&k->dag.nodes[i]) * times;
    }
    if (k->product.n_m) g->steps += points * (2 + anchor_again(k));
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

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// The roots and what they inline, in order, once each.
static int gather(struct fuser *f, const int32_t *roots, int n_roots)
{
    int n = 0, kept = 0;
    for (int i = 0; i < n_roots; i++) {
        for (int k = 0; k < f->r.n_closure[roots[i]]; k++) {
            int32_t unit = f->r.closure[roots[i]][k];
            if (!f->inside[unit]) f->units[n++] = unit;
            f->inside[unit] = true;
        }
    }
    qsort(f->units, (size_t)n, sizeof *f->units, by_number);
    for (int i = 0; i < n; i++)
        if (!kept || f->units[kept - 1] != f->units[i]) f->units[kept++] = f->units[i];
    return kept;
}

static bool is_read_outside(const struct fuser *f, uint16_t b)
{
    const struct unit_buffer *buffer = &f->u->buffers.v[b];
    if (buffer->kept || buffer->ordered || unit_buffer_is_given(buffer)) return true;
    for (int32_t i = f->r.first_reader[b]; i < f->r.first_reader[b + 1]; i++)
        if (!f->inside[f->r.readers[i]]) return true;
    return false;
}

static kiln_status try_set(struct fuser *f, const int32_t *roots, int n_roots, struct group *out, const char **why)
{
    int n = gather(f, roots, n_roots);
    for (int i = 0; i < n; i++)
        f->escapes[result_of(f, f->units[i])] =
            !f->r.inlined[f->units[i]] && is_read_outside(f, result_of(f, f->units[i]));
    struct fuse_set set = {.u = f->u,
                           .units = f->units,
                           .n_units = n,
                           .inside = f->inside,
                           .escapes = f->escapes,
                           .round_casts = f->o->round_casts,
                           .for_attention = f->for_attention,
                           .checks = f->caps->checks_indices};
    kiln_status status = fuse_kernel(&f->out->arena, &set, &out->k, why);
    for (int i = 0; i < n; i++) f->inside[f->units[i]] = false;
    if (!status && out->k) set_cost(out);
    return status;
}

static void merge_lists(const struct group *a, const struct group *b, int32_t *out)
{
    for (int i = 0, j = 0, n = 0; i < a->n || j < b->n;)
        out[n++] = j == b->n || (i < a->n && a->roots[i] < b->roots[j]) ? a->roots[i++] : b->roots[j++];
}

// Whether a root of group `reader` reads what one of group `maker` makes.
static bool reads_from(const struct fuser *f, const struct group *reader, const struct group *maker)
{
    for (int i = 0; i < maker->n; i++) {
        uint16_t b = result_of(f, maker->roots[i]);
        for (int32_t r = f->r.first_reader[b]; r < f->r.first_reader[b + 1]; r++)
            if (f->group_of[f->r.readers[r]] == reader->roots[0]) return true;
    }
    return false;
}

// A product and something else: what keeps them apart before they are tried, or NULL.
static const char *not_around_product(const struct fuser *f, const struct group *a, const struct group *b)
{
    if (!a->anchored && !b->anchored) return NULL;
    if (a->anchored && b->anchored) return "each is a product";
    const struct group *product = a->anchored ? a : b, *other = a->anchored ? b : a;
    bool before = reads_from(f, product, other), after = reads_from(f, other, product);
    if (before && !f->prologues) return "a product takes in what reads it first";
    return before || after ? NULL : "a product only shares an operand with it";
}

static const char *not_worth_around_product(const struct group *a, const struct group *b, const struct group *both)
{
    return anchor_objects(a->anchored ? a->k : b->k, both->k);
}

static const char *not_worth(const struct fuser *f, const struct group *a, const struct group *b,
                             const struct group *both)
{
    double saved = a->bytes + b->bytes - both->bytes, more = both->steps - a->steps - b->steps;
    if (saved <= 0) return "one kernel would move as many bytes";
    if (both->anchored && both->k->product.n_m) return not_worth_around_product(a, b, both);
    if (more > 2 * saved) return "values would be computed again too often";
    return starves(f, both->k) ? "few long rows" : NULL;
}

static kiln_status try_merge(struct fuser *f, int32_t x, int32_t y, bool *done)
{
    int32_t first = x < y ? x : y, second = x < y ? y : x;
    struct group *a = &f->groups[first], *b = &f->groups[second], both = {.n = a->n + b->n};
    const char *why = not_around_product(f, a, b);
    *done = false;
    both.anchored = a->anchored || b->anchored;
    if (!why && both.n > MAX_GROUP) why = "the kernel would be too large";
    if (!why && (path_between(f, first, second) || path_between(f, second, first)))
        why = "what lies between them needs one and feeds the other";
    if (!why) {
        both.roots = arena_alloc(&f->out->arena, sizeof *both.roots * (size_t)both.n);
        if (!both.roots) return error_pending;
        merge_lists(a, b, both.roots);
        TRY(try_set(f, both.roots, both.n, &both, &why));
    }
    if (!why) why = not_worth(f, a, b, &both);
    if (why) {
        f->why[second] = why;
        return KILN_OK;
    }
    for (int i = 0; i < both.n; i++) f->group_of[both.roots[i]] = first;
    *a = both;
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
    if (f->group_of[a] < 0 || f->group_of[b] < 0 || f->group_of[a] == f->group_of[b]) return KILN_OK;
    return vec_push(&f->pairs, ((struct pair){a, b, bytes}));
}

static kiln_status find_pairs(struct fuser *f)
{
    f->pairs.n = 0;
    for (size_t i = 0; i < f->u->buffers.n; i++) {
        const struct unit_buffer *b = &f->u->buffers.v[i];
        int32_t from = f->r.first_reader[i], to = f->r.first_reader[i + 1];
        double bytes = (double)b->numel * dtype_size_B[b->dtype];
        if (to - from > MAX_PAIRS_OF_BUFFER) to = from + MAX_PAIRS_OF_BUFFER;
        for (int32_t r = from; r < to && b->writer >= 0 && !b->ordered; r++)
            TRY(add_pair(f, b->writer, f->r.readers[r], 2 * bytes));
        for (int32_t r = from + 1; r < to; r++) TRY(add_pair(f, f->r.readers[r - 1], f->r.readers[r], bytes));
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

static kiln_status begin_group(struct fuser *f, int32_t root, const char **why)
{
    struct group *g = &f->groups[root];
    *g = (struct group){.roots = arena_alloc(&f->out->arena, sizeof *g->roots), .n = 1};
    if (!g->roots) return error_pending;
    g->roots[0] = root;
    g->anchored = unit_at(f, root)->anchor;
    *why = NULL;
    return try_set(f, g->roots, 1, g, why);
}

// A root that cannot be one kernel with what it inlines gets that from memory instead.
static kiln_status begin_groups(struct fuser *f)
{
    for (bool again = true; again;) {
        again = false;
        for (int32_t i = 0; i < (int32_t)f->u->v.n && !again; i++) {
            const struct unit *u = unit_at(f, i);
            f->group_of[i] = -1;
            if (f->r.inlined[i] || !u->body || f->u->buffers.v[result_of(f, i)].ordered) continue;
            TRY(begin_group(f, i, &f->why[i]));
            if (f->groups[i].k) {
                f->group_of[i] = i;
            } else if (f->r.n_closure[i] > 1) {
                TRY(roots_split(&f->r, i));
                again = true;
            }
        }
    }
    return KILN_OK;
}

// --- attention ---

// Whether only groups x and y read what group `maker` makes, and it makes one thing.
static bool feeds_only(const struct fuser *f, const struct group *maker, int32_t x, int32_t y)
{
    if (maker->k->n_out != 1) return false;
    uint16_t b = maker->k->out[0].to.buffer;
    const struct unit_buffer *buffer = &f->u->buffers.v[b];
    if (buffer->kept || buffer->ordered || unit_buffer_is_given(buffer)) return false;
    for (int32_t r = f->r.first_reader[b]; r < f->r.first_reader[b + 1]; r++)
        if (f->group_of[f->r.readers[r]] != x && f->group_of[f->r.readers[r]] != y) return false;
    return true;
}

static kiln_status merge_roots(struct fuser *f, const struct group *a, const struct group *b, struct group *out)
{
    *out = (struct group){.n = a->n + b->n, .anchored = true};
    out->roots = arena_alloc(&f->out->arena, sizeof *out->roots * (size_t)out->n);
    if (!out->roots) return error_pending;
    merge_lists(a, b, out->roots);
    return KILN_OK;
}

static void take_group(struct fuser *f, int32_t *into, int32_t other, const struct group *merged)
{
    int32_t first = *into < other ? *into : other;
    f->groups[*into].n = f->groups[other].n = 0;
    f->groups[first] = *merged;
    for (int i = 0; i < merged->n; i++) f->group_of[merged->roots[i]] = first;
    *into = first;
}

// A product of scores, rows of them, and the product of the rows with values: one kernel.
static kiln_status try_attention(struct fuser *f, int32_t scores, int32_t rows, int32_t values, bool *done)
{
    struct group *s = &f->groups[scores], *r = &f->groups[rows], *v = &f->groups[values], rest, all;
    const char *why = NULL;
    *done = false;
    if (!feeds_only(f, s, rows, values) || s->n + r->n + v->n > MAX_GROUP) return KILN_OK;
    if (path_between(f, rows, values)) return KILN_OK;
    TRY(merge_roots(f, r, v, &rest));
    f->for_attention = true;
    kiln_status status = try_set(f, rest.roots, rest.n, &rest, &why);
    f->for_attention = false;
    TRY(status);
    if (why || !rest.k) return KILN_OK;
    TRY(merge_roots(f, s, &rest, &all));
    TRY(attention_make(&f->out->arena, s->k, rest.k, &all.k));
    if (!all.k) return KILN_OK;
    struct group old_rows = *r, old_values = *v;
    int32_t merged = values;
    take_group(f, &merged, rows, &rest);
    *done = !path_between(f, scores, merged);
    if (*done) {
        take_group(f, &merged, scores, &all);
        return KILN_OK;
    }
    f->groups[merged].n = 0;
    f->groups[rows] = old_rows;
    f->groups[values] = old_values;
    for (int i = 0; i < old_rows.n; i++) f->group_of[old_rows.roots[i]] = rows;
    for (int i = 0; i < old_values.n; i++) f->group_of[old_values.roots[i]] = values;
    return KILN_OK;
}

static int32_t maker_of(const struct fuser *f, const struct fused_access *a, bool anchored)
{
    int32_t writer = f->u->buffers.v[a->buffer].writer, group = writer < 0 ? -1 : f->group_of[writer];
    return group >= 0 && f->groups[group].n && f->groups[group].anchored == anchored ? group : -1;
}

static kiln_status find_attention(struct fuser *f)
{
    for (int32_t values = 0; values < (int32_t)f->u->v.n; values++) {
        bool done = f->group_of[values] != values || !f->groups[values].anchored || !f->groups[values].k->product.n_m;
        for (int i = 0; !done && i < f->groups[values].k->n_in; i++) {
            int32_t rows = maker_of(f, &f->groups[values].k->in[i], false);
            for (int n = 0; rows >= 0 && !done && n < f->groups[rows].k->n_in; n++) {
                int32_t scores = maker_of(f, &f->groups[rows].k->in[n], true);
                if (scores >= 0 && scores != values) TRY(try_attention(f, scores, rows, values, &done));
            }
        }
    }
    return KILN_OK;
}

// --- the steps ---

static kiln_status emit(struct fuser *f, int32_t *waits, int32_t whole)
{
    int n_roots, n;
    const int32_t *roots = roots_of(f, &whole, &n_roots);
    n = gather(f, roots, n_roots);
    int32_t *units = arena_alloc(&f->out->arena, sizeof *units * (size_t)n);
    if (!units) return error_pending;
    memcpy(units, f->units, sizeof *units * (size_t)n);
    for (int i = 0; i < n; i++) f->inside[units[i]] = false;
    for (int i = 0; i < n_roots; i++)
        for (int32_t a = f->r.first_after[roots[i]]; a < f->r.first_after[roots[i] + 1]; a++)
            if (whole_of(f, f->r.after[a]) != whole) waits[f->r.after[a]]--;
    bool kernel = f->group_of[whole] >= 0 && (n > 1 || f->o->alone);
    struct fuse_step s = {.table = -1,
                          .root = whole,
                          .kernel = kernel ? f->groups[whole].k : NULL,
                          .units = units,
                          .n_units = n,
                          .why = f->why[whole]};
    return vec_push(&f->out->steps, s);
}

static bool ready(const struct fuser *f, const int32_t *waits, int32_t whole)
{
    int n;
    const int32_t *roots = roots_of(f, &whole, &n);
    for (int i = 0; i < n; i++)
        if (waits[roots[i]]) return false;
    return true;
}

// A copy into memory that may be seen through another input: no dependence tells who reads it there.
static bool is_last(const struct fuser *f, int32_t root)
{
    const struct unit *u = unit_at(f, root);
    return u->node < 0 && !u->body && unit_buffer_is_given(&f->u->buffers.v[result_of(f, root)]);
}

// Groups in the order of their first roots, each as soon as what it waits for is done; copies into shared memory when
// all others are done.
static kiln_status order(struct fuser *f)
{
    int32_t n = (int32_t)f->u->v.n;
    int32_t *waits = calloc((size_t)n + 1, sizeof *waits);
    bool *done = calloc((size_t)n + 1, 1), more = true, last = false;
    kiln_status status = waits && done ? KILN_OK : error_set(KILN_E_MEMORY, "graph: out of memory");
    for (int32_t i = 0; i < n && !status; i++)
        for (int32_t a = f->r.first_after[i]; a < f->r.first_after[i + 1]; a++)
            if (whole_of(f, i) != whole_of(f, f->r.after[a])) waits[f->r.after[a]]++;
    while (more && !status) {
        bool moved = more = false;
        for (int32_t i = 0; i < n && !status; i++) {
            if (f->r.inlined[i] || done[i] || whole_of(f, i) != i) continue;
            more = true;
            if ((!last && is_last(f, i)) || !ready(f, waits, i)) continue;
            done[i] = moved = true;
            status = emit(f, waits, i);
        }
        if (more && !moved && !last) last = moved = true;
        if (more && !moved && !status) status = error_set(KILN_E_INTERNAL, "fusion: groups wait for each other");
    }
    free(waits);
    free(done);
    return status;
}

static kiln_status make_tables(struct fuser *f)
{
    struct table_input in = {.out = f->out, .r = &f->r};
    in.step_of = arena_alloc(&f->out->arena, sizeof *in.step_of * (f->u->v.n + 1));
    in.kernels = arena_alloc(&f->out->arena, sizeof *in.kernels * (f->out->steps.n + 1));
    if (!in.step_of || !in.kernels) return error_pending;
    for (size_t i = 0; i < f->out->steps.n; i++) {
        int32_t whole = f->out->steps.v[i].root;
        int n;
        const int32_t *roots = roots_of(f, &whole, &n);
        for (int k = 0; k < n; k++) in.step_of[roots[k]] = (int32_t)i;
        if (f->group_of[whole] >= 0) in.kernels[i] = f->groups[whole].k;
    }
    return fuse_tables(&in, f->caps->cheap_launches);
}

static kiln_status run(struct fuser *f)
{
    TRY(roots_find(&f->r, f->u, &f->out->arena));
    if (f->o->off) memset(f->r.inlined, 0, f->u->v.n);
    if (f->o->off) TRY(roots_split(&f->r, 0));
    TRY(begin_groups(f));
    bool any = !f->o->off;
    for (int round = 0; round < MAX_ROUNDS && any; round++) {
        TRY(run_round(f, &any));
        if (any || f->prologues) continue;
        any = f->prologues = true; // what comes out of a product was offered to it before it is offered to the next
    }
    if (!f->o->off) TRY(find_attention(f));
    TRY(order(f));
    return f->o->off ? KILN_OK : make_tables(f);
}

kiln_status fuse(const struct units *u, const struct device_caps *caps, const struct fuse_options *o,
                 struct fuse_schedule *out)
{
    size_t n = u->v.n + 1;
    *out = (struct fuse_schedule){0};
    arena_init(&out->arena);
    struct arena *a = &out->arena;
    struct fuser f = {.u = u, .caps = caps, .o = o, .out = out};
    f.groups = arena_alloc(a, sizeof *f.groups * n);
    f.group_of = arena_alloc(a, sizeof *f.group_of * n);
    f.inside = arena_alloc(a, n);
    f.escapes = arena_alloc(a, u->buffers.n + 1);
    f.mark = arena_alloc(a, sizeof *f.mark * n);
    f.stack = arena_alloc(a, sizeof *f.stack * n);
    f.why = arena_alloc(a, sizeof *f.why * n);
    f.units = arena_alloc(a, sizeof *f.units * n);
    bool room = f.groups && f.group_of && f.inside && f.escapes && f.mark && f.stack && f.why && f.units;
    kiln_status status = room ? (u->v.n ? run(&f) : KILN_OK) : error_pending;
    vec_free(&f.pairs);
    return status;
}

void schedule_finish(struct fuse_schedule *s)
{
    vec_free(&s->steps);
    arena_finish(&s->arena);
}
