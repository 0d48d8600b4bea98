// Two groups as one: the kernel that they would become, what it costs, and whether that is worth it.
#include "fuse/groups.h"
#include "scalar/prim.h"
#include <stdlib.h>

enum { FEW_ROWS_LENGTH = 1 << 15 };

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

int group_gather(struct fuser *f, const int32_t *roots, int n_roots)
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

static bool is_read_outside(const struct fuser *f, uint32_t b)
{
    const struct unit_buffer *buffer = &f->u->buffers.v[b];
    if (buffer->kept || buffer->ordered || unit_buffer_is_given(buffer)) return true;
    for (int32_t i = f->r.first_reader[b]; i < f->r.first_reader[b + 1]; i++)
        if (!f->inside[f->r.readers[i]]) return true;
    return false;
}

kiln_status group_try(struct fuser *f, const int32_t *roots, int n_roots, struct group *out, const char **why)
{
    int n = group_gather(f, roots, n_roots);
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

// --- two groups ---

void group_merge_lists(const struct group *a, const struct group *b, int32_t *out)
{
    for (int i = 0, j = 0, n = 0; i < a->n || j < b->n;)
        out[n++] = j == b->n || (i < a->n && a->roots[i] < b->roots[j]) ? a->roots[i++] : b->roots[j++];
}

// Whether a root of group `reader` reads what one of group `maker` makes.
static bool reads_from(const struct fuser *f, const struct group *reader, const struct group *maker)
{
    for (int i = 0; i < maker->n; i++) {
        uint32_t b = result_of(f, maker->roots[i]);
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

kiln_status group_merge(struct fuser *f, int32_t x, int32_t y, bool *done)
{
    int32_t first = x < y ? x : y, second = x < y ? y : x;
    struct group *a = &f->groups[first], *b = &f->groups[second], both = {.n = a->n + b->n};
    const char *why = not_around_product(f, a, b);
    *done = false;
    both.anchored = a->anchored || b->anchored;
    struct arena_mark before = arena_mark(&f->out->arena);
    if (!why && both.n > MAX_GROUP) why = "the kernel would be too large";
    if (!why && (group_path_between(f, first, second) || group_path_between(f, second, first)))
        why = "what lies between them needs one and feeds the other";
    if (!why) {
        both.roots = arena_alloc(&f->out->arena, sizeof *both.roots * (size_t)both.n);
        if (!both.roots) return error_pending;
        group_merge_lists(a, b, both.roots);
        TRY(group_try(f, both.roots, both.n, &both, &why));
    }
    if (!why) why = not_worth(f, a, b, &both);
    if (why) {
        arena_rewind(&f->out->arena, before);
        f->why[second] = why;
        return KILN_OK;
    }
    for (int i = 0; i < both.n; i++) f->group_of[both.roots[i]] = first;
    *a = both;
    b->n = 0;
    group_set_reach(f, first);
    *done = true;
    return KILN_OK;
}
