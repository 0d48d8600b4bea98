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
    int32_t step, needed; // the first step after it that must come after it
    int32_t first, next;  // of the table whose last it is, the first member; the next of its own table; -1: none
};

struct tables {
    struct table_input *in;
    struct table_member *members; // by step
    struct table_member **sorted; // by family
    int32_t *lasts;               // of the tables of a family, from the last up
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
    *m = (struct table_member){.step = (int32_t)i, .needed = INT32_MAX, .first = -1, .next = -1};
    t->sorted[i] = m;
    str_init(&m->family);
    if (!may_join(t, i)) return KILN_OK;
    fused_family(t->in->kernels[i], &m->family);
    m->hash = hash_bytes(0, str_text(&m->family), m->family.len);
    return str_check(&m->family);
}

static int compare_families(const struct table_member *a, const struct table_member *b)
{
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    if (a->family.len != b->family.len) return a->family.len < b->family.len ? -1 : 1;
    return a->family.len ? memcmp(str_text(&a->family), str_text(&b->family), a->family.len) : 0;
}

static int by_family(const void *x, const void *y)
{
    const struct table_member *a = *(struct table_member *const *)x, *b = *(struct table_member *const *)y;
    int order = compare_families(a, b);
    return order ? order : (a->step < b->step) - (a->step > b->step);
}

// Roots' successors are found by their steps.
static void find_needing(struct tables *t)
{
    const struct roots *r = t->in->r;
    for (int32_t root = 0; root < (int32_t)r->u->v.n; root++) {
        if (r->inlined[root]) continue;
        struct table_member *m = &t->members[t->in->step_of[root]];
        for (int32_t i = r->first_after[root]; i < r->first_after[root + 1]; i++) {
            int32_t after = t->in->step_of[r->after[i]];
            if (after > m->step && after < m->needed) m->needed = after;
        }
    }
}

// The highest of `lasts`, which fall, that comes before all that needs the member; -1: none.
static int32_t table_for(const struct table_member *m, const int32_t *lasts, int n)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (lasts[middle] < m->needed)
            high = middle;
        else
            low = middle + 1;
    }
    return low < n ? lasts[low] : -1;
}

// Of one family, from the last step up: a member joins the last table that all that needs it comes after, else it is
// the last of another.
static void find_tables_of(struct tables *t, struct table_member *const *members, size_t n)
{
    int n_lasts = 0;
    for (size_t i = 0; i < n; i++) {
        struct table_member *m = members[i];
        int32_t last = table_for(m, t->lasts, n_lasts);
        if (last < 0) {
            t->lasts[n_lasts++] = m->step;
            continue;
        }
        t->table[m->step] = t->table[last] = last;
        m->next = t->members[last].first;
        t->members[last].first = m->step;
    }
}

static void find_tables(struct tables *t)
{
    size_t n = t->in->out->steps.n, end;
    find_needing(t);
    qsort(t->sorted, n, sizeof *t->sorted, by_family);
    for (size_t i = 0; i < n; i = end) {
        for (end = i + 1; end < n && !compare_families(t->sorted[i], t->sorted[end]);) end++;
        if (t->sorted[i]->family.len) find_tables_of(t, t->sorted + i, end - i);
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
        for (int32_t k = t->members[i].first; k >= 0; k = t->members[k].next) TRY(add(t, to, &n, (size_t)k));
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
    t.sorted = malloc(sizeof *t.sorted * (n + 1));
    t.lasts = malloc(sizeof *t.lasts * (n + 1));
    t.table = malloc(sizeof *t.table * (n + 1));
    kiln_status status =
        t.members && t.sorted && t.lasts && t.table ? KILN_OK : error_set(KILN_E_MEMORY, "graph: out of memory");
    if (!status) memset(t.table, -1, sizeof *t.table * (n + 1));
    for (size_t i = 0; i < n && !status; i++) status = describe(&t, i);
    if (!status) find_tables(&t);
    if (!status) status = move_together(&t);
    for (size_t i = 0; i < n && t.members; i++) str_free(&t.members[i].family);
    free(t.members);
    free(t.sorted);
    free(t.lasts);
    free(t.table);
    return status;
}
