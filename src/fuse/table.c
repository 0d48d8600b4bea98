// Tables: the update of an optimiser is the same kernel for every parameter, in another size.
//
// Steps of one family (fused_family), without folds, totals and checks, are put together at the place of the last of
// them. A step may move there when nothing in between must come after it. Those that may not stay where they are.
#include "fuse/table.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

struct table_member {
    struct str family;
    uint64_t hash;
};

struct tables {
    struct table_input *in;
    struct table_member *members; // by step
    int32_t *table;               // by step: the last step of its table; -1: none
    bool cheap_launches;
};

static bool may_join(const struct tables *t, size_t i)
{
    const struct fused_kernel *k = t->in->kernels[i];
    if (!k || k->n_reduce || k->has_total || k->n_checks) return false;
    return !t->cheap_launches || t->in->out->steps.v[i].kernel;
}

static kiln_status describe(struct tables *t, size_t i)
{
    struct table_member *m = &t->members[i];
    str_init(&m->family);
    if (!may_join(t, i)) return KILN_OK;
    fused_family(t->in->kernels[i], &m->family);
    m->hash = hash_bytes(0, str_text(&m->family), m->family.len);
    return str_check(&m->family);
}

static bool equal(const struct table_member *a, const struct table_member *b)
{
    return a->family.len && a->hash == b->hash && a->family.len == b->family.len &&
           !memcmp(str_text(&a->family), str_text(&b->family), a->family.len);
}

// The first step after `step` that must come after it. Its roots' successors are found by their steps.
static int32_t first_needing(const struct tables *t, int32_t step, int32_t n_roots)
{
    const struct roots *r = t->in->r;
    int32_t first = INT32_MAX;
    for (int32_t root = 0; root < n_roots; root++) {
        if (r->inlined[root] || t->in->step_of[root] != step) continue;
        for (int32_t i = r->first_after[root]; i < r->first_after[root + 1]; i++) {
            int32_t after = t->in->step_of[r->after[i]];
            if (after > step && after < first) first = after;
        }
    }
    return first;
}

// From the last step of each table up: a member joins when all that needs it comes later than the table.
static void find_tables(struct tables *t)
{
    int32_t n = (int32_t)t->in->out->steps.n, n_roots = (int32_t)t->in->r->u->v.n;
    for (int32_t last = n - 1; last > 0; last--) {
        if (t->table[last] >= 0) continue;
        for (int32_t i = last - 1; i >= 0; i--) {
            if (t->table[i] >= 0 || !equal(&t->members[i], &t->members[last])) continue;
            if (first_needing(t, i, n_roots) <= last) continue;
            t->table[i] = t->table[last] = last;
        }
    }
}

static kiln_status add(struct tables *t, struct fuse_step *to, size_t *n, size_t i)
{
    struct fuse_step *s = &to[(*n)++];
    *s = t->in->out->steps.v[i];
    s->table = t->table[i];
    if (s->table < 0) return KILN_OK;
    struct fused_kernel *k = arena_alloc(&t->in->out->arena, sizeof *k);
    if (!k) return error_pending;
    *k = *t->in->kernels[i];
    k->table = true;
    s->kernel = k;
    return KILN_OK;
}

static kiln_status move_together(struct tables *t)
{
    size_t n_steps = t->in->out->steps.n, n = 0;
    struct fuse_step *to = arena_alloc(&t->in->out->arena, sizeof *to * (n_steps + 1));
    if (!to) return error_pending;
    for (size_t i = 0; i < n_steps; i++) {
        if (t->table[i] >= 0 && t->table[i] != (int32_t)i) continue; // comes with the last
        for (size_t k = 0; k < i && t->table[i] >= 0; k++)
            if (t->table[k] == (int32_t)i) TRY(add(t, to, &n, k));
        TRY(add(t, to, &n, i));
    }
    if (n) memcpy(t->in->out->steps.v, to, sizeof *to * n);
    return KILN_OK;
}

kiln_status fuse_tables(struct table_input *in, bool cheap_launches)
{
    size_t n = in->out->steps.n;
    struct tables t = {.in = in, .cheap_launches = cheap_launches};
    t.members = calloc(n + 1, sizeof *t.members);
    t.table = malloc(sizeof *t.table * (n + 1));
    kiln_status status = t.members && t.table ? KILN_OK : error_set(KILN_E_MEMORY, "graph: out of memory");
    if (!status) memset(t.table, -1, sizeof *t.table * (n + 1));
    for (size_t i = 0; i < n && !status; i++) status = describe(&t, i);
    if (!status) find_tables(&t);
    if (!status) status = move_together(&t);
    for (size_t i = 0; i < n && t.members; i++) str_free(&t.members[i].family);
    free(t.members);
    free(t.table);
    return status;
}
