// Solving works digit by digit. The strides of a buffer that is written once are nested: sorted, each is at least as
// large as what all smaller ones reach together. An element's number then has one representation, as digits, the
// indices of the unit. Each coefficient of the wanted form is written in these digits, from the largest stride down; so
// is its offset. The digits of the sum are the sums of the digits as long as none of them leaves its range, which is
// checked.
//
// A digit that leaves its range because one dimension of the space runs through several dimensions of the unit (a
// reshape) can be mended: the dimension is cut where the digit is full, and the caller tries again. Each cut makes a
// dimension shorter, so that this ends.
#include "fuse/affine.h"
#include <string.h>

struct digits {
    int n;
    int dim[FUSED_DIMS]; // by falling stride
    int64_t stride[FUSED_DIMS], size[FUSED_DIMS];
    bool flipped[FUSED_DIMS];
    int64_t base; // the lowest element
};

static bool set_up(struct digits *d, int n, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    d->n = 0;
    d->base = offset;
    for (int j = 0; j < n; j++) {
        if (sizes[j] == 1) continue;
        if (strides[j] == 0) return false; // several points have this element
        bool flipped = strides[j] < 0;
        int64_t stride = flipped ? -strides[j] : strides[j];
        if (flipped) d->base += strides[j] * (sizes[j] - 1);
        int at = d->n++;
        for (; at > 0 && d->stride[at - 1] < stride; at--) {
            d->dim[at] = d->dim[at - 1], d->stride[at] = d->stride[at - 1];
            d->size[at] = d->size[at - 1], d->flipped[at] = d->flipped[at - 1];
        }
        d->dim[at] = j, d->stride[at] = stride, d->size[at] = sizes[j], d->flipped[at] = flipped;
    }
    int64_t reach = 0;
    for (int j = d->n - 1; j >= 0; j--) {
        if (d->stride[j] <= reach) return false;
        reach += d->stride[j] * (d->size[j] - 1);
    }
    return true;
}

// `k` in digits; false when the smallest stride does not divide the rest.
static bool spell(const struct digits *d, int64_t k, int64_t *digit)
{
    for (int j = 0; j < d->n; j++) {
        digit[j] = k / d->stride[j];
        k -= digit[j] * d->stride[j];
    }
    return k == 0;
}

// The same for the offset, with no digit negative where that can be.
static bool spell_offset(const struct digits *d, int64_t k, int64_t *digit)
{
    for (int j = 0; j < d->n; j++) {
        digit[j] = k >= 0 ? k / d->stride[j] : 0;
        k -= digit[j] * d->stride[j];
    }
    return k == 0;
}

// Digit j runs over its end: can a cut of one dimension mend it?
static void propose_cut(const struct space *s, const struct digits *d, int64_t (*a)[FUSED_DIMS], int j, struct cut *cut)
{
    for (int i = 0; i < s->n_dims; i++) {
        int64_t step = a[i][j];
        if (step <= 0 || step * (s->sizes[i] - 1) < d->size[j] || d->size[j] % step) continue;
        int64_t inner = d->size[j] / step;
        if (inner < 2 || inner >= s->sizes[i] || s->sizes[i] % inner) continue;
        *cut = (struct cut){i, inner};
        return;
    }
}

// The digits are coefficients of one map, in range for every index of the space.
static bool in_range(const struct space *s, const struct digits *d, int64_t (*a)[FUSED_DIMS], const int64_t *first,
                     struct cut *cut)
{
    for (int j = 0; j < d->n; j++) {
        int64_t lo = first[j], hi = first[j];
        for (int i = 0; i < s->n_dims; i++) {
            int64_t reach = a[i][j] * (s->sizes[i] - 1);
            if (reach < 0)
                lo += reach;
            else
                hi += reach;
        }
        if (lo >= 0 && hi < d->size[j]) continue;
        if (lo >= 0) propose_cut(s, d, a, j, cut);
        return false;
    }
    return true;
}

bool affine_solve(const struct space *s, const struct form *e, int n, const int64_t *sizes, const int64_t *strides,
                  int64_t offset, struct point_map *out, struct cut *cut)
{
    struct digits d;
    int64_t a[FUSED_MAX_DIMS][FUSED_DIMS], first[FUSED_DIMS];
    *cut = (struct cut){0, 0};
    if (!set_up(&d, n, sizes, strides, offset)) return false;
    for (int i = 0; i < s->n_dims; i++)
        if (!spell(&d, s->sizes[i] == 1 ? 0 : e->k[i], a[i])) return false;
    if (!spell_offset(&d, e->offset - d.base, first)) return false;
    if (!in_range(s, &d, a, first, cut)) return false;
    memset(out, 0, sizeof *out);
    out->n = n;
    for (int j = 0; j < d.n; j++) {
        struct form *f = &out->to[d.dim[j]];
        f->offset = d.flipped[j] ? d.size[j] - 1 - first[j] : first[j];
        for (int i = 0; i < s->n_dims; i++) f->k[i] = d.flipped[j] ? -a[i][j] : a[i][j];
    }
    return true;
}

void affine_compose(const struct space *s, const struct point_map *m, const int64_t *strides, int64_t offset,
                    struct form *out)
{
    memset(out, 0, sizeof *out);
    out->offset = offset;
    for (int j = 0; j < m->n; j++) {
        out->offset += strides[j] * m->to[j].offset;
        for (int i = 0; i < s->n_dims; i++) out->k[i] += strides[j] * m->to[j].k[i];
    }
}

void space_cut(struct space *s, const struct cut *c)
{
    if (c->dim >= s->n_dims - s->n_reduce) s->n_reduce++;
    for (int i = s->n_dims; i > c->dim + 1; i--) s->sizes[i] = s->sizes[i - 1];
    s->sizes[c->dim] /= c->inner;
    s->sizes[c->dim + 1] = c->inner;
    s->n_dims++;
}

void form_cut(struct form *f, int n_dims, const struct cut *c)
{
    for (int i = n_dims; i > c->dim + 1; i--) f->k[i] = f->k[i - 1];
    f->k[c->dim + 1] = f->k[c->dim];
    f->k[c->dim] *= c->inner;
}

bool form_equal(const struct form *a, const struct form *b, int n_dims)
{
    return a->offset == b->offset && !memcmp(a->k, b->k, sizeof *a->k * (size_t)n_dims);
}

bool map_equal(const struct point_map *a, const struct point_map *b, int n_dims)
{
    if (a->n != b->n) return false;
    for (int j = 0; j < a->n; j++)
        if (!form_equal(&a->to[j], &b->to[j], n_dims)) return false;
    return true;
}

bool map_depends(const struct point_map *m, int dim)
{
    for (int j = 0; j < m->n; j++)
        if (m->to[j].k[dim]) return true;
    return false;
}

// Of the dimensions that move one index of the unit, each takes steps as long as all smaller ones reach together,
// plus 1.
static bool index_covers(const struct space *s, const struct form *f, int64_t size)
{
    int64_t reached = 1, lo = f->offset;
    bool used[FUSED_MAX_DIMS] = {false};
    for (bool found = true; found;) {
        found = false;
        for (int i = 0; i < s->n_dims && !found; i++) {
            int64_t step = f->k[i] < 0 ? -f->k[i] : f->k[i];
            if (used[i] || step != reached || s->sizes[i] == 1) continue;
            used[i] = true;
            found = true;
            if (f->k[i] < 0) lo += f->k[i] * (s->sizes[i] - 1);
            reached *= s->sizes[i];
        }
    }
    for (int i = 0; i < s->n_dims; i++)
        if (f->k[i] && s->sizes[i] != 1 && !used[i]) return false;
    return lo == 0 && reached == size;
}

bool map_covers(const struct space *s, const struct point_map *m, const int64_t *sizes)
{
    for (int i = 0; i < s->n_dims; i++) {
        int moves = 0;
        for (int j = 0; j < m->n; j++) moves += m->to[j].k[i] != 0;
        if (moves > 1) return false;
    }
    for (int j = 0; j < m->n; j++)
        if (!index_covers(s, &m->to[j], sizes[j])) return false;
    return true;
}
