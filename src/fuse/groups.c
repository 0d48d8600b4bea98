// Which units become one kernel.
//
// Units that are cheap, or have one reader, are computed where they are read (roots.c); the others are roots. Every
// root that has an expression begins as a group of its own, with what it inlines. Pairs of groups that share a buffer,
// as maker and reader or as two readers, are tried in the order of the bytes they share (group_merge.c); a pair becomes
// one group when its units fit into one kernel (build.c), when that kernel moves fewer bytes than the two, computes not
// much more, and when no path leads from one of the two to the other through a third. Rounds go on until none succeeds,
// ten at most. What was decided about units of the same form is followed instead, where that is known (plan.c).
#include "fuse/groups.h"
#include "fuse/table.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 10, MAX_PAIRS_OF_BUFFER = 64 };

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
        if (a != b) TRY(group_merge(f, a, b, &done));
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
    g->anchored = group_unit(f, root)->anchor;
    *why = NULL;
    return group_try(f, g->roots, 1, g, why);
}

// A root that cannot be one kernel with what it inlines gets that from memory instead.
static kiln_status begin_groups(struct fuser *f)
{
    for (bool again = true; again;) {
        again = false;
        for (int32_t i = 0; i < (int32_t)f->u->v.n && !again; i++) {
            const struct unit *u = group_unit(f, i);
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

static kiln_status search(struct fuser *f)
{
    TRY(begin_groups(f));
    group_find_reach(f);
    bool any = !f->o->off;
    for (int round = 0; round < MAX_ROUNDS && any; round++) {
        TRY(run_round(f, &any));
        if (any || f->prologues) continue;
        any = f->prologues = true; // what comes out of a product was offered to it before it is offered to the next
    }
    f->out->plan = group_plan(f, &f->out->plan_B);
    return KILN_OK;
}

static kiln_status find_roots(struct fuser *f)
{
    TRY(roots_find(&f->r, f->u, &f->out->arena));
    if (!f->o->off) return KILN_OK;
    memset(f->r.inlined, 0, f->u->v.n);
    return roots_again(&f->r);
}

static kiln_status search_anew(struct fuser *f, struct arena_mark before)
{
    arena_rewind(&f->out->arena, before);
    f->out->steps.n = 0;
    group_forget(f);
    TRY(find_roots(f));
    return search(f);
}

static kiln_status order_groups(struct fuser *f)
{
    if (!f->o->off) TRY(group_find_attention(f));
    return group_order(f);
}

// A plan that comes from a file might be of groups that can be built and wait for each other.
static kiln_status find_steps(struct fuser *f)
{
    bool done = false;
    struct arena_mark before = arena_mark(&f->out->arena);
    TRY(find_roots(f));
    if (!f->o->plan) {
        TRY(search(f));
        return order_groups(f);
    }
    TRY(group_follow(f, f->o->plan, f->o->plan_B, &done));
    if (!done) TRY(search_anew(f, before));
    kiln_status status = order_groups(f);
    if (status != KILN_E_INTERNAL || !done) return status;
    kiln_error_clear();
    TRY(search_anew(f, before));
    return order_groups(f);
}

static kiln_status run(struct fuser *f)
{
    TRY(find_steps(f));
    for (size_t i = 0; f->o->verify && i < f->out->steps.n; i++)
        if (f->out->steps.v[i].kernel) TRY(fused_verify(f->out->steps.v[i].kernel, f->u->buffers.v));
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
    f.queue = arena_alloc(a, sizeof *f.queue * n);
    f.reach = arena_alloc(a, sizeof *f.reach * n);
    f.reach_back = arena_alloc(a, sizeof *f.reach_back * n);
    f.why = arena_alloc(a, sizeof *f.why * n);
    f.units = arena_alloc(a, sizeof *f.units * n);
    bool room = f.groups && f.group_of && f.inside && f.escapes && f.mark && f.stack && f.queue && f.reach &&
                f.reach_back && f.why && f.units;
    kiln_status status = room ? (u->v.n ? run(&f) : KILN_OK) : error_pending;
    vec_free(&f.pairs);
    return status;
}

void schedule_finish(struct fuse_schedule *s)
{
    vec_free(&s->steps);
    free(s->plan);
    s->plan = NULL;
    arena_finish(&s->arena);
}
