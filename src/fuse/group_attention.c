// Attention among the groups: a product of scores, rows of them, and the product of the rows with values.
#include "fuse/attention.h"
#include "fuse/groups.h"

// Whether only groups x and y read what group `maker` makes, and it makes one thing.
static bool feeds_only(const struct fuser *f, const struct group *maker, int32_t x, int32_t y)
{
    if (maker->k->n_out != 1) return false;
    uint32_t b = maker->k->out[0].to.buffer;
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
    group_merge_lists(a, b, out->roots);
    return KILN_OK;
}

static void take_group(struct fuser *f, int32_t *into, int32_t other, const struct group *merged)
{
    int32_t first = *into < other ? *into : other;
    f->groups[*into].n = f->groups[other].n = 0;
    f->groups[first] = *merged;
    for (int i = 0; i < merged->n; i++) f->group_of[merged->roots[i]] = first;
    group_set_reach(f, first);
    *into = first;
}

// A product of scores, rows of them, and the product of the rows with values: one kernel.
static kiln_status try_attention(struct fuser *f, int32_t scores, int32_t rows, int32_t values, bool *done)
{
    struct group *s = &f->groups[scores], *r = &f->groups[rows], *v = &f->groups[values], rest, all;
    const char *why = NULL;
    *done = false;
    if (!feeds_only(f, s, rows, values) || s->n + r->n + v->n > MAX_GROUP) return KILN_OK;
    if (group_path_between(f, rows, values)) return KILN_OK;
    TRY(merge_roots(f, r, v, &rest));
    f->for_attention = true;
    kiln_status status = group_try(f, rest.roots, rest.n, &rest, &why);
    f->for_attention = false;
    TRY(status);
    if (why || !rest.k) return KILN_OK;
    TRY(merge_roots(f, s, &rest, &all));
    TRY(attention_make(&f->out->arena, s->k, rest.k, &all.k));
    if (!all.k) return KILN_OK;
    struct group old_rows = *r, old_values = *v;
    int32_t merged = values;
    take_group(f, &merged, rows, &rest);
    *done = !group_path_between(f, scores, merged);
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

kiln_status group_find_attention(struct fuser *f)
{
    group_find_reach(f);
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
