// From views to launches. The space of a pointwise or row kernel is collapsed first: dimensions of size 1 go, and
// neighbours that every operand walks with one stride become one. Input: views of one rank; output: the launch with the
// fewest dimensions; the order of elements never changes, and a row dimension never merges with a parallel one.
#include "ops/lower.h"
#include "ops/families.h"
#include "scalar/number.h"
#include <string.h>

kernel_id kernel_of(int family, enum scalar_class cls)
{
    return (kernel_id)(family * CLASS_COUNT + (int)cls);
}

static uint64_t number_bits(const struct view *v, enum scalar_class cls)
{
    switch (cls) {
    case CLASS_F32: return bits_f32((float)v->number);
    case CLASS_F64: return bits_f64(v->number);
    case CLASS_I32: return (uint32_t)(int32_t)v->integer;
    case CLASS_I64: return (uint64_t)v->integer;
    default: return v->number != 0 || v->integer != 0;
    }
}

void launch_init(struct launch *l, struct lowering *lo, kernel_id k, int rank, const int64_t *sizes)
{
    l->kernel = k;
    l->n_operands = l->n_reduce = l->n_scalars = 0;
    l->rank = (uint8_t)rank;
    l->op = lo->op;
    l->gate = NULL;
    l->record = NULL;
    l->facts = NULL;
    l->after = NULL;
    l->kept = NULL;
    l->extent[0] = l->extent[1] = l->extent[2] = 1;
    memset(l->variant, 0, sizeof l->variant);
    for (int i = 0; i < rank; i++) l->sizes[i] = sizes[i];
}

// Bytes touched, relative to the operand's first element.
static void set_range(struct launch_operand *o, int rank, const int64_t *sizes, unsigned size_B)
{
    int64_t lo = 0, hi = 0;
    o->range_lo_B = o->range_hi_B = 0;
    for (int i = 0; i < rank; i++) {
        if (o->strides[i] == 0) continue;
        if (sizes[i] == 0)
            return; // an empty row; where it is summed up, the result has stride 0 along it and is touched
        int64_t reach = o->strides[i] * (sizes[i] - 1);
        if (reach < 0)
            lo += reach;
        else
            hi += reach;
    }
    o->range_lo_B = lo * (int64_t)size_B;
    o->range_hi_B = (hi + 1) * (int64_t)size_B;
}

static void operand_from_view(struct launch_operand *o, const struct view *v, bool write)
{
    o->slot = v->slot;
    o->dtype = v->dtype;
    o->flags = (uint8_t)((v->immediate ? OPERAND_IMMEDIATE : 0) | (write ? OPERAND_WRITE : 0));
    o->address = v->immediate ? v->bits : (uint64_t)(v->offset * dtype_size_B[v->dtype]);
    o->range_lo_B = o->range_hi_B = 0;
}

void launch_operand(struct launch *l, const struct view *v, const int64_t *strides, bool write)
{
    struct launch_operand *o = &l->operands[l->n_operands];
    operand_from_view(o, v, write);
    if (v->immediate) o->address = number_bits(v, (enum scalar_class)kernel_info(l->kernel)->in_cls[l->n_operands]);
    l->n_operands++;
    for (int i = 0; i < l->rank; i++) o->strides[i] = strides ? strides[i] : 0;
    if (v->immediate) return;
    // A hand-written kernel may walk an operand by other means than the space's strides: its whole view counts as
    // touched.
    struct launch_operand whole;
    for (int i = 0; i < v->rank; i++) whole.strides[i] = v->strides[i];
    set_range(&whole, v->rank, v->dims, dtype_size_B[v->dtype]);
    o->range_lo_B = whole.range_lo_B;
    o->range_hi_B = whole.range_hi_B;
}

void launch_scalar_i(struct launch *l, int64_t v)
{
    l->scalars[l->n_scalars++] = (uint64_t)v;
}

static uint64_t scalar_bits(double v, enum scalar_class cls)
{
    struct view n = view_number(v);
    return number_bits(&n, cls);
}

// Walks dimensions from the fastest; `fence` is the first dimension of the row (never crossed by a merge).
static void collapse(struct launch *l, int rank, const int64_t *dims, int fence, int n, const struct view *const *v)
{
    int out = 0;
    int64_t size[MAX_RANK], stride[MAX_OPERANDS][MAX_RANK];
    int kept_row = 0;
    bool joinable = false;
    for (int d = rank - 1; d >= 0; d--) {
        if (d == fence - 1) joinable = false;
        if (dims[d] == 1) continue;
        bool merge = joinable;
        for (int o = 0; merge && o < n; o++)
            if (!v[o]->immediate && v[o]->strides[d] != stride[o][out - 1] * size[out - 1]) merge = false;
        if (merge) {
            size[out - 1] *= dims[d];
            continue;
        }
        size[out] = dims[d];
        for (int o = 0; o < n; o++) stride[o][out] = v[o]->immediate ? 0 : v[o]->strides[d];
        out++;
        if (d >= fence) kept_row++;
        joinable = true;
    }
    if (fence < rank && kept_row == 0) { // a row of one element is still a row
        for (int i = out; i > 0; i--) {
            size[i] = size[i - 1];
            for (int o = 0; o < n; o++) stride[o][i] = stride[o][i - 1];
        }
        size[0] = 1;
        for (int o = 0; o < n; o++) stride[o][0] = 0;
        out++;
        kept_row = 1;
    }
    l->rank = (uint8_t)out;
    l->n_reduce = (uint8_t)kept_row;
    for (int i = 0; i < out; i++) {
        l->sizes[i] = size[out - 1 - i];
        for (int o = 0; o < n; o++) l->operands[o].strides[i] = stride[o][out - 1 - i];
    }
}

static kiln_status no_kernel(const struct lowering *lo, kernel_id k)
{
    (void)k;
    return error_set(KILN_E_UNSUPPORTED, "%s: no kernel for this dtype", lo->op);
}

// In the order of the kernel: integers first.
struct scalars {
    int n, n_integers;
    const double *v;
    const int64_t *integers;
};

static kiln_status launch_space(struct lowering *lo, kernel_id k, int rank, const int64_t *dims, int n_reduce, int n_in,
                                const struct view *in, const struct view *out, struct scalars s)
{
    const struct kernel_info *info = kernel_info(k);
    if (KILN_UNLIKELY(info->kind == KERNEL_NONE)) return no_kernel(lo, k);
    struct launch l;
    launch_init(&l, lo, k, 0, NULL);
    const struct view *all[MAX_OPERANDS];
    for (int i = 0; i < n_in; i++) {
        all[i] = &in[i];
        operand_from_view(&l.operands[i], &in[i], false);
        if (in[i].immediate) l.operands[i].address = number_bits(&in[i], (enum scalar_class)info->in_cls[i]);
    }
    all[n_in] = out;
    operand_from_view(&l.operands[n_in], out, true);
    l.n_operands = (uint8_t)(n_in + 1);
    collapse(&l, rank, dims, rank - n_reduce, n_in + 1, all);
    for (int i = 0; i <= n_in; i++)
        if (!all[i]->immediate) set_range(&l.operands[i], l.rank, l.sizes, dtype_size_B[all[i]->dtype]);
    for (int i = 0; i < s.n_integers; i++) launch_scalar_i(&l, s.integers[i]);
    for (int i = 0; i < s.n; i++, l.n_scalars++)
        l.scalars[l.n_scalars] = scalar_bits(s.v[i], (enum scalar_class)info->scalar_cls[l.n_scalars]);
    return lo->launch(lo, &l);
}

kiln_status lower_pointwise(struct lowering *lo, int family, enum scalar_class cls, int n_in, const struct view *in,
                            const struct view *out, int n_scalars, const double *scalars)
{
    struct view full[MAX_OPERANDS];
    for (int i = 0; i < out->rank; i++)
        if (out->dims[i] == 0) return KILN_OK;
    for (int i = 0; i < n_in; i++) {
        if (in[i].immediate)
            view_copy_head(&full[i], &in[i]);
        else
            TRY(view_expand(&in[i], out->rank, out->dims, &full[i]));
    }
    return launch_space(lo, kernel_of(family, cls), out->rank, out->dims, 0, n_in, full, out,
                        (struct scalars){.n = n_scalars, .v = scalars});
}

static kiln_status row(struct lowering *lo, kernel_id k, int rank, const int64_t *dims, int n_reduce, int n_in,
                       const struct view *in, const struct view *out, struct scalars s)
{
    struct view full[MAX_OPERANDS], full_out;
    for (int i = 0; i < rank - n_reduce; i++)
        if (dims[i] == 0) return KILN_OK;
    for (int i = 0; i < n_in; i++) {
        if (in[i].immediate)
            view_copy_head(&full[i], &in[i]);
        else
            TRY(view_expand(&in[i], rank, dims, &full[i]));
    }
    TRY(view_expand(out, rank, dims, &full_out));
    return launch_space(lo, k, rank, dims, n_reduce, n_in, full, &full_out, s);
}

kiln_status lower_row(struct lowering *lo, int family, enum scalar_class cls, int rank, const int64_t *dims,
                      int n_reduce, int n_in, const struct view *in, const struct view *out, int n_scalars,
                      const double *scalars)
{
    struct scalars s = {.n = n_scalars, .v = scalars};
    return row(lo, kernel_of(family, cls), rank, dims, n_reduce, n_in, in, out, s);
}

kiln_status lower_row_integers(struct lowering *lo, int family, enum scalar_class cls, int rank, const int64_t *dims,
                               int n_reduce, int n_in, const struct view *in, const struct view *out, int n_integers,
                               const int64_t *integers, int n_scalars, const double *scalars)
{
    struct scalars s = {n_scalars, n_integers, scalars, integers};
    return row(lo, kernel_of(family, cls), rank, dims, n_reduce, n_in, in, out, s);
}

// Moving data keeps bits: equal dtypes go as integers of their size, other pairs convert in the class that loses least.
static enum scalar_class copy_class(unsigned from, unsigned to)
{
    if (dtype_class(from) == CLASS_F64 || dtype_class(to) == CLASS_F64) return CLASS_F64;
    unsigned kf = dtype_kind_of[from], kt = dtype_kind_of[to];
    if (kt == KIND_BOOL) return kf == KIND_BOOL ? CLASS_I32 : dtype_class(from); // bool to bool: a number
    if (kf == KIND_FLOAT || kt == KIND_FLOAT) return CLASS_F32;
    return dtype_class(from) == CLASS_I64 || dtype_class(to) == CLASS_I64 ? CLASS_I64 : CLASS_I32;
}

kiln_status lower_copy(struct lowering *lo, const struct view *in, const struct view *out)
{
    if (!in->immediate && in->dtype == out->dtype) {
        struct view from = view_as_bits(in), to = view_as_bits(out);
        return lower_pointwise(lo, FAMILY_copy, dtype_class(to.dtype), 1, &from, &to, 0, NULL);
    }
    enum scalar_class cls = copy_class(in->dtype, out->dtype);
    int family = out->dtype == KILN_BOOL ? FAMILY_to_bool : FAMILY_convert;
    // An i64 met by a float converts at once, not through a narrower integer.
    return lower_pointwise(lo, family, cls, 1, in, out, 0, NULL);
}

kiln_status lower_fill(struct lowering *lo, double value, const struct view *out)
{
    enum scalar_class cls = dtype_class(out->dtype);
    if (out->dtype == KILN_U64 && value >= 0x1p63) {
        struct view whole = view_integer(number_whole(KILN_U64, value));
        return lower_copy(lo, &whole, out);
    }
    return lower_pointwise(lo, FAMILY_fill, cls, 0, NULL, out, 1, &value);
}

kiln_status lower_temp(struct lowering *lo, unsigned dtype, int rank, const int64_t *dims, struct view *out)
{
    struct type t = {.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    for (int i = 0; i < rank; i++) t.dims[i] = dims[i];
    return lo->temp(lo, &t, out);
}
