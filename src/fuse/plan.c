// What fusion decided about some units, for units that differ from them in sizes alone.
//
// A plan says which units are computed where they are read, and which roots are one kernel. Finding that out takes a
// try for each pair of groups; following it one for each group. Nothing is believed: each group is built anew, of the
// units as they are now, and one that cannot be built makes the plan void. What a plan may miss is a better choice, so
// that plans are kept by the order of magnitude of sizes.
#include "fuse/groups.h"
#include <stdlib.h>
#include <string.h>

// Laid out in one block without addresses, for it is kept on disk: `group_of`, `why` (1 + where its text begins, 0:
// none), `inlined`, n each, and the texts of all reasons.
struct fuse_plan {
    int32_t n; // units
    uint32_t texts_B;
    int32_t group_of[];
};

static uint32_t *plan_why(const struct fuse_plan *p)
{
    return (uint32_t *)(p->group_of + p->n);
}

static uint8_t *plan_inlined(const struct fuse_plan *p)
{
    return (uint8_t *)(plan_why(p) + p->n);
}

static char *plan_texts(const struct fuse_plan *p)
{
    return (char *)plan_inlined(p) + p->n;
}

static size_t plan_size_B(int32_t n, uint32_t texts_B)
{
    return sizeof(struct fuse_plan) + (size_t)n * (2 * sizeof(int32_t) + 1) + texts_B;
}

// --- the form of units

struct units_form {
    struct str *out;
    bool exact; // with all sizes and numbers
};

static void word(const struct units_form *f, uint64_t w)
{
    str_add_word(f->out, w);
}

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

static void operand_form(const struct units_form *f, const struct launch_operand *o, int rank)
{
    word(f, (uint64_t)o->slot << 32 | (uint64_t)o->dtype << 8 | o->flags);
    if (f->exact) word(f, o->address);
    if (o->flags & OPERAND_IMMEDIATE) return;
    uint64_t strides = o->address != 0;
    for (int d = 0; d < rank; d++) strides = strides << 2 | stride_class(o->strides[d]);
    word(f, strides);
    for (int d = 0; d < rank && f->exact; d++) word(f, (uint64_t)o->strides[d]);
}

// What a launch is beside its operands, where all of it counts.
static void launch_form(const struct units_form *f, const struct launch *l)
{
    word(f, (uint64_t)l->kernel << 32 | (uint64_t)l->rank << 16 | (uint64_t)l->n_reduce << 8 | l->n_scalars);
    for (int d = 0; d < l->rank; d++) word(f, (uint64_t)l->sizes[d]);
    for (int i = 0; i < l->n_scalars; i++) word(f, l->scalars[i]);
    for (size_t i = 0; i < COUNT_OF(l->extent); i++) word(f, (uint64_t)l->extent[i]);
    for (size_t i = 0; i < COUNT_OF(l->variant); i++) word(f, l->variant[i]);
}

static void exact_form(const struct units_form *f, const struct unit *u)
{
    word(f, (uint64_t)(uint32_t)u->node << 32 | (uint32_t)u->n_parts);
    word(f, (uint64_t)u->row_dims << 8 | (u->region && u->region->has_effect));
    if (!u->region) launch_form(f, &u->l);
    for (int i = 0; i < u->n_in && i < MAX_OPERANDS; i++) word(f, u->in_cls[i]);
    for (int i = 0; i < u->n_windows; i++) {
        const struct launch_window *w = &u->windows[i];
        word(f, (uint64_t)w->outer << 8 | w->inner);
        word(f, (uint64_t)(uint32_t)w->step << 32 | (uint32_t)w->tap);
        word(f, (uint64_t)(uint32_t)w->first << 32 | (uint32_t)w->size);
    }
}

static void unit_form(const struct units_form *f, const struct unit *u)
{
    word(f, (uint64_t)u->l.kernel << 32 | (uint64_t)u->l.rank << 24 | (uint64_t)u->l.n_reduce << 16 |
                (uint64_t)(uint32_t)u->n_windows << 8 | (uint64_t)u->bits_dtype);
    word(f, (uint64_t)(uint32_t)u->n_in << 32 | (uint64_t)(u->n_parts > 0) << 8 | (uint64_t)u->anchor << 5 |
                (uint64_t)u->folds << 4 | (uint64_t)u->random << 3 | (uint64_t)(u->plain != NULL) << 2 |
                (uint64_t)(u->body != NULL) << 1 | (u->region != NULL));
    word(f, (uint64_t)unit_n_operands(u));
    for (int d = 0; d < u->l.rank && !u->region; d++) word(f, size_class(u->l.sizes[d]));
    for (int i = 0; i < unit_n_operands(u); i++) operand_form(f, &unit_operands(u)[i], u->region ? 0 : u->l.rank);
    if (f->exact) exact_form(f, u);
}

static void buffer_form(const struct units_form *f, const struct unit_buffer *b)
{
    word(f, (uint64_t)b->kind << 16 | (uint64_t)b->dtype << 8 | (uint64_t)b->kept << 2 | (uint64_t)b->ordered << 1 |
                b->in_place);
    word(f, (uint64_t)(uint32_t)b->writer << 32 | (uint32_t)b->n_writes);
    if (f->exact) word(f, (uint64_t)b->numel);
}

void fuse_form(const struct units *u, const struct fuse_options *o, bool exact, struct str *out)
{
    const struct units_form f = {out, exact};
    word(&f, (uint64_t)o->off << 2 | (uint64_t)o->alone << 1 | o->round_casts);
    word(&f, u->v.n);
    for (size_t i = 0; i < u->v.n; i++) unit_form(&f, &u->v.v[i]);
    word(&f, u->buffers.n);
    for (size_t i = 0; i < u->buffers.n; i++) buffer_form(&f, &u->buffers.v[i]);
}

// --- keeping and following

// Where the text of root i's reason begins: that of a root before it, or the end.
static uint32_t place_of_text(const struct fuser *f, int32_t i, const uint32_t *why, uint32_t end)
{
    for (int32_t k = 0; k < i; k++)
        if (f->why[k] == f->why[i]) return why[k] - 1;
    return end;
}

static uint32_t texts_of(const struct fuser *f, uint32_t *why, char *texts)
{
    uint32_t texts_B = 0;
    for (int32_t i = 0; i < (int32_t)f->u->v.n; i++) {
        why[i] = 0;
        if (!f->why[i]) continue;
        uint32_t at = place_of_text(f, i, why, texts_B);
        why[i] = 1 + at;
        if (at < texts_B) continue;
        size_t len = strlen(f->why[i]) + 1;
        if (texts) memcpy(texts + at, f->why[i], len);
        texts_B += (uint32_t)len;
    }
    return texts_B;
}

struct fuse_plan *group_plan(const struct fuser *f, size_t *size_B)
{
    int32_t n = (int32_t)f->u->v.n;
    uint32_t texts_B = texts_of(f, (uint32_t *)f->mark, NULL);
    memset(f->mark, 0, sizeof *f->mark * (size_t)n);
    *size_B = plan_size_B(n, texts_B);
    struct fuse_plan *p = malloc(*size_B);
    if (!p) return NULL; // it is found again
    p->n = n;
    p->texts_B = texts_B;
    texts_of(f, plan_why(p), plan_texts(p));
    memcpy(p->group_of, f->group_of, (size_t)n * sizeof *f->group_of);
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

// A plan may come from a file.
static bool is_for_these(const struct fuser *f, const struct fuse_plan *p, size_t size_B)
{
    if (size_B < sizeof *p || p->n != (int32_t)f->u->v.n || size_B != plan_size_B(p->n, p->texts_B) ||
        (p->texts_B && plan_texts(p)[p->texts_B - 1]))
        return false;
    for (int32_t i = 0; i < p->n; i++) {
        int32_t g = p->group_of[i];
        bool inlined = plan_inlined(p)[i];
        if (g < -1 || plan_inlined(p)[i] > 1 || plan_why(p)[i] > p->texts_B) return false;
        if (g >= 0 && (g > i || p->group_of[g] != g || inlined || !group_unit(f, i)->body)) return false;
        if (inlined && !f->r.inlined[i]) return false;
    }
    return true;
}

// The texts stay with the schedule.
static kiln_status take_reasons(struct fuser *f, const struct fuse_plan *p)
{
    char *texts = arena_alloc(&f->out->arena, p->texts_B + 1);
    if (!texts) return error_pending;
    memcpy(texts, plan_texts(p), p->texts_B);
    for (int32_t i = 0; i < p->n; i++) f->why[i] = plan_why(p)[i] ? texts + plan_why(p)[i] - 1 : NULL;
    return KILN_OK;
}

// It would be a launch of the catalogue in the end: see group_order and fuse_tables.
static bool stays_as_it_is(const struct fuser *f, const struct group *g)
{
    return f->caps->cheap_launches && !g->anchored && g->n == 1 && f->r.n_closure[g->roots[0]] == 1 &&
           !group_is_kernel_alone(f, g->roots[0]);
}

kiln_status group_follow(struct fuser *f, const struct fuse_plan *p, size_t size_B, bool *done)
{
    *done = false;
    if (!is_for_these(f, p, size_B)) return KILN_OK;
    memcpy(f->r.inlined, plan_inlined(p), (size_t)p->n);
    TRY(roots_again(&f->r));
    TRY(list_roots(f, p->group_of));
    TRY(take_reasons(f, p));
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
