// Index spaces of launches, with dimensions joined where all operands allow it; views seen as one row.
#include "ops/families.h"
#include "ops/index.h"
#include <string.h>

void space_add(struct index_space *s, int64_t size, const int64_t *strides, bool fenced)
{
    if (size == 1 && !fenced) return;
    int last = s->rank - 1;
    bool merge = !fenced && last >= 0 && !s->fenced[last];
    for (int o = 0; merge && o < s->n; o++) merge = s->strides[o][last] == strides[o] * size;
    if (merge)
        s->sizes[last] *= size;
    else {
        last = s->rank++;
        s->sizes[last] = size;
        s->fenced[last] = fenced;
    }
    for (int o = 0; o < s->n; o++) s->strides[o][last] = strides[o];
}

void space_add_dim(struct index_space *s, int64_t size, const struct view *const *v, int d)
{
    int64_t strides[SPACE_OPERANDS];
    for (int o = 0; o < s->n; o++) strides[o] = v[o]->immediate || v[o]->dims[d] == 1 ? 0 : v[o]->strides[d];
    space_add(s, size, strides, false);
}

int64_t space_count(const struct index_space *s)
{
    int64_t n = 1;
    for (int d = 0; d < s->rank; d++) n *= s->sizes[d];
    return n;
}

void space_launch(struct launch *l, struct lowering *lo, int family, enum scalar_class cls, const struct index_space *s)
{
    launch_init(l, lo, kernel_of(family, cls), s->rank, s->sizes);
    l->extent[0] = space_count(s);
}

bool view_is_contiguous(const struct view *v)
{
    int64_t stride = 1;
    for (int d = v->rank - 1; d >= 0; d--) {
        if (v->dims[d] == 0) return true;
        if (v->dims[d] != 1 && v->strides[d] != stride) return false;
        stride *= v->dims[d];
    }
    return true;
}

int64_t view_count(const struct view *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->rank; d++) n *= v->dims[d];
    return n;
}

struct view view_flat(const struct view *v)
{
    struct view r = *v;
    r.dims[0] = view_count(v);
    r.strides[0] = 1;
    r.rank = 1;
    return r;
}

kiln_status lower_flat(struct lowering *lo, const struct view *x, struct view *out)
{
    struct view copy;
    if (view_is_contiguous(x)) {
        *out = view_flat(x);
        return KILN_OK;
    }
    TRY(lower_temp(lo, x->dtype, x->rank, x->dims, &copy));
    TRY(lower_copy(lo, x, &copy));
    *out = view_flat(&copy);
    return KILN_OK;
}

bool lowers_to_cpu(const struct lowering *lo, enum scalar_class cls)
{
    return lo->caps->host || (cls == CLASS_F64 && !lo->caps->f64) || (cls == CLASS_I64 && !lo->caps->i64);
}

unsigned class_dtype(enum scalar_class cls)
{
    static const uint8_t dtypes[CLASS_COUNT] = {KILN_F32, KILN_F64, KILN_I32, KILN_I64, KILN_BOOL};
    return dtypes[cls];
}
