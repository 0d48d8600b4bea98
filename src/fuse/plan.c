// What fusion decided about some units, for units that differ from them in sizes alone.
//
// A plan says which units are computed where they are read, and which roots are one kernel. Finding that out takes a
// try for each pair of groups; following it one for each group. Nothing is believed: each group is built anew, of the
// units as they are now, and one that cannot be built makes the plan void. What a plan may miss is a better choice, so
// that plans are kept by the order of magnitude of sizes.
#include "base/hash.h"
#include "fuse/groups.h"
#include <stdlib.h>
#include <string.h>

// Laid out in one block: `why`, `group_of`, `inlined`, n each.
struct fuse_plan {
    int32_t n; // units
    const char *why[];
};

static int32_t *plan_groups(const struct fuse_plan *p)
{
    return (int32_t *)(p->why + p->n);
}

static bool *plan_inlined(const struct fuse_plan *p)
{
    return (bool *)(plan_groups(p) + p->n);
}

static size_t plan_size_B(int32_t n)
{
    return sizeof(struct fuse_plan) + (size_t)n * (sizeof(char *) + sizeof(int32_t) + sizeof(bool));
}

// --- the form of units

// 0, 1, else the order of magnitude.
static uint64_t size_class(int64_t n)
{
    uint64_t c = 0;
    for (uint64_t left = (uint64_t)n; left; left >>= 1) c++;
    return c;
}

static uint64_t stride_class(int64_t stride)
{
    return stride < 0 ? 3 : stride > 1 ? 2 : (uint64_t)stride;
}

static uint64_t operand_form(uint64_t h, const struct launch_operand *o, int rank)
{
    h = hash_u64(h, (uint64_t)o->slot << 32 | (uint64_t)o->dtype << 8 | o->flags);
    if (o->flags & OPERAND_IMMEDIATE) return h;
    uint64_t strides = o->address != 0;
    for (int d = 0; d < rank; d++) strides = strides << 2 | stride_class(o->strides[d]);
    return hash_u64(h, strides);
}

static uint64_t unit_form(uint64_t h, const struct unit *u)
{
    h = hash_u64(h, (uint64_t)u->l.kernel << 32 | (uint64_t)u->l.rank << 24 | (uint64_t)u->l.n_reduce << 16 |
                        (uint64_t)(uint32_t)u->n_windows << 8 | (uint64_t)u->bits_dtype);
    h = hash_u64(h, (uint64_t)(uint32_t)u->n_in << 32 | (uint64_t)(u->n_parts > 0) << 8 | (uint64_t)u->anchor << 5 |
                        (uint64_t)u->folds << 4 | (uint64_t)u->random << 3 | (uint64_t)(u->plain != NULL) << 2 |
                        (uint64_t)(u->body != NULL) << 1 | (u->region != NULL));
    for (int d = 0; d < u->l.rank && !u->region; d++) h = hash_u64(h, size_class(u->l.sizes[d]));
    for (int i = 0; i < unit_n_operands(u); i++) h = operand_form(h, &unit_operands(u)[i], u->region ? 0 : u->l.rank);
    return h;
}

static uint64_t buffer_form(uint64_t h, const struct unit_buffer *b)
{
    h = hash_u64(h, (uint64_t)b->kind << 16 | (uint64_t)b->dtype << 8 | (uint64_t)b->kept << 2 |
                        (uint64_t)b->ordered << 1 | b->in_place);
    return hash_u64(h, (uint64_t)(uint32_t)b->writer << 32 | (uint32_t)b->n_writes);
}

uint64_t fuse_form(const struct units *u, const struct fuse_options *o)
{
    uint64_t h = hash_u64(u->v.n, (uint64_t)o->off << 2 | (uint64_t)o->alone << 1 | o->round_casts);
    for (size_t i = 0; i < u->v.n; i++) h = unit_form(h, &u->v.v[i]);
    for (size_t i = 0; i < u->buffers.n; i++) h = buffer_form(h, &u->buffers.v[i]);
    return h;
}

// --- keeping and following

struct fuse_plan *group_plan(const struct fuser *f, size_t *size_B)
{
    int32_t n = (int32_t)f->u->v.n;
    *size_B = plan_size_B(n);
    struct fuse_plan *p = malloc(*size_B);
    if (!p) return NULL; // it is found again
    p->n = n;
    memcpy(p->why, f->why, (size_t)n * sizeof *f->why);
    memcpy(plan_groups(p), f->group_of, (size_t)n * sizeof *f->group_of);
    memcpy(plan_inlined(p), f->r.inlined, (size_t)n);
    return p;
}

// The roots of each group, in order.
static kiln_status list_roots(struct fuser *f, const int32_t *group_of)
{
    int32_t n = (int32_t)f->u->v.n;
    for (int32_t i = 0; i < n; i++) {
        f->group_of[i] = group_of[i];
        if (group_of[i] < 0) continue;
        struct group *g = &f->groups[group_of[i]];
        g->n++;
        g->anchored |= group_unit(f, i)->anchor;
    }
    for (int32_t i = 0; i < n; i++) {
        struct group *g = group_of[i] < 0 ? NULL : &f->groups[group_of[i]];
        if (!g) continue;
        if (!g->roots && !(g->roots = arena_alloc(&f->out->arena, sizeof *g->roots * (size_t)g->n)))
            return error_pending;
        g->roots[f->mark[group_of[i]]++] = i;
    }
    memset(f->mark, 0, sizeof *f->mark * (size_t)n);
    return KILN_OK;
}

static bool is_for_these(const struct fuser *f, const struct fuse_plan *p)
{
    if (p->n != (int32_t)f->u->v.n) return false;
    for (int32_t i = 0; i < p->n; i++) {
        int32_t g = plan_groups(p)[i];
        if (g >= 0 && (g > i || plan_groups(p)[g] != g || plan_inlined(p)[i] || !group_unit(f, i)->body)) return false;
        if (plan_inlined(p)[i] && !f->r.inlined[i]) return false;
    }
    return true;
}

// It would be a launch of the catalogue in the end: see group_order and fuse_tables.
static bool stays_as_it_is(const struct fuser *f, const struct group *g)
{
    return f->caps->cheap_launches && !f->o->alone && !g->anchored && g->n == 1 && f->r.n_closure[g->roots[0]] == 1;
}

kiln_status group_follow(struct fuser *f, const struct fuse_plan *p, bool *done)
{
    *done = false;
    if (!is_for_these(f, p)) return KILN_OK;
    memcpy(f->r.inlined, plan_inlined(p), (size_t)p->n);
    TRY(roots_again(&f->r));
    TRY(list_roots(f, plan_groups(p)));
    memcpy(f->why, p->why, (size_t)p->n * sizeof *f->why);
    for (int32_t i = 0; i < p->n; i++) {
        struct group *g = &f->groups[i];
        const char *why;
        if (!g->n) continue;
        if (stays_as_it_is(f, g)) {
            f->group_of[i] = -1;
            g->n = 0;
            continue;
        }
        TRY(group_try(f, g->roots, g->n, g, &why));
        if (!g->k) return KILN_OK;
    }
    *done = true;
    return KILN_OK;
}

void group_forget(struct fuser *f)
{
    size_t n = f->u->v.n;
    memset(f->groups, 0, sizeof *f->groups * n);
    memset(f->group_of, 0, sizeof *f->group_of * n);
    memset(f->why, 0, sizeof *f->why * n);
}
