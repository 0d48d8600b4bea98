// Padding. Every element of the result is written once, by copies and fills, or, on the CPU, by one kernel that goes
// through the result in its order.
//
// Input: x and how many elements come before and after it along each axis. The interior is a copy of x. Then axis by
// axis: when axis d is treated, the result holds its final values where the axes before d have any index and those from
// d on lie in the interior; the slabs before and after it along d are filled, or copied from what is there already.
// Axes in any order give the same values, corners included.
#include "ops/family.h"
#include "ops/index.h"

enum { MODE_CONSTANT, MODE_REFLECT, MODE_EDGE, MODE_CIRCULAR }; // as KILN_PAD_* of ops.h

static int64_t entry(const struct attr *list, int d)
{
    return d < list->count ? list->v[d] : 0;
}

// The largest pad that a mode can make from `size` elements; -1: any.
static int64_t most_pad(int64_t mode, int64_t size)
{
    switch (mode) {
    case MODE_REFLECT: return size > 0 ? size - 1 : 0;
    case MODE_EDGE: return size > 0 ? -1 : 0;
    case MODE_CIRCULAR: return size;
    default: return -1;
    }
}

kiln_status infer_pad(struct op_call *c)
{
    struct type *out = &c->out[0];
    int64_t mode = attr_int(c, AT_pad_mode);
    type_copy(out, c->in[0]);
    out->weak = false;
    if (mode < MODE_CONSTANT || mode > MODE_CIRCULAR)
        return op_fail(c, KILN_E_ARGUMENT, "mode %lld is not one of KILN_PAD_CONSTANT, _REFLECT, _EDGE, _CIRCULAR",
                       (long long)mode);
    for (int i = AT_pad_before; i <= AT_pad_after; i++) {
        const struct attr *list = &c->attrs[i];
        if (list->count > out->rank)
            return op_fail(c, KILN_E_SHAPE, "%s has %d entries for x of %s", c->op->attrs[i].name, list->count,
                           type_string(c->in[0]).s);
        for (int d = 0; d < list->count; d++) {
            int64_t n = list->v[d], most = most_pad(mode, c->in[0]->dims[d]);
            if (n < 0 || (most >= 0 && n > most))
                return op_fail(c, KILN_E_ARGUMENT, "%s of axis %d is %lld, x is %s", c->op->attrs[i].name, d,
                               (long long)n, type_string(c->in[0]).s);
            if (__builtin_add_overflow(out->dims[d], n, &out->dims[d]))
                return op_fail(c, KILN_E_SHAPE, "axis %d overflows", d);
        }
    }
    uint64_t size_B;
    return type_size_B(out, &size_B);
}

// Axis d of v backwards.
static struct view view_backwards(const struct view *v, int d)
{
    struct view r = *v;
    r.offset += (v->dims[d] - 1) * v->strides[d];
    r.strides[d] = -v->strides[d];
    return r;
}

// The n elements of axis d that a slab of the pad repeats; `done` holds the interior at [at, at + size).
static struct view slab_source(const struct view *done, int d, int64_t mode, int64_t at, int64_t size, int64_t n,
                               bool before)
{
    struct view s;
    switch (mode) {
    case MODE_REFLECT: s = view_narrow(done, d, before ? at + 1 : at + size - 1 - n, n); return view_backwards(&s, d);
    case MODE_CIRCULAR: return view_narrow(done, d, before ? at + size - n : at, n);
    default:
        s = view_narrow(done, d, before ? at : at + size - 1, 1);
        s.dims[d] = n;
        s.strides[d] = 0;
        return s;
    }
}

// The kernel writes rows: copies and fills, launch by launch, would touch the lines of short ones several times. Where
// x is made by a kernel that the copy can join, x itself is never written.
static bool is_one_launch(const struct op_call *c, struct lowering *lo)
{
    const struct view *x = &c->vin[0], *out = &c->vout[0];
    int last = out->rank - 1;
    if (!lo->caps->host || attr_int(c, AT_pad_mode) != MODE_CONSTANT || last < 0 || x->immediate) return false;
    if (out->rank > MAX_SCALARS / 2) return false;
    if ((x->strides[last] != 1 && x->dims[last] > 1) || (out->strides[last] != 1 && out->dims[last] > 1)) return false;
    return view_count(x) > 0 && !(lo->joins && lo->joins(lo, x));
}

// The launch. Space: out, dimensions without padding joined but for the last two. Operands: x, one element, out, as
// bits. Scalars: of each dimension how many elements come before those of x, and how many x has.
static kiln_status pad_rows(const struct op_call *c, struct lowering *lo)
{
    struct view fill, x = view_as_bits(&c->vin[0]), out = view_as_bits(&c->vout[0]), value;
    int64_t before[MAX_RANK] = {0}, size[MAX_RANK] = {0}, none[MAX_RANK] = {0};
    struct index_space s = {.n = 2};
    TRY(lower_temp(lo, c->vout[0].dtype, 0, NULL, &fill));
    TRY(lower_fill(lo, attr_float(c, AT_pad_value), &fill));
    value = view_as_bits(&fill);
    if (out.rank == 1) space_add(&s, 1, none, true), size[0] = 1; // a row
    for (int d = 0; d < out.rank; d++) {
        bool padded = x.dims[d] != out.dims[d] || d >= out.rank - 2;
        space_add(&s, out.dims[d], (int64_t[]){x.strides[d], out.strides[d]}, padded);
        if (padded) before[s.rank - 1] = entry(&c->attrs[AT_pad_before], d), size[s.rank - 1] = x.dims[d];
    }
    struct launch l;
    space_launch(&l, lo, FAMILY_pad_rows, dtype_class(out.dtype), &s);
    launch_operand(&l, &x, s.strides[0], false);
    launch_operand(&l, &value, none, false);
    launch_operand(&l, &out, s.strides[1], true);
    for (int d = 0; d < s.rank; d++) {
        launch_scalar_i(&l, before[d]);
        launch_scalar_i(&l, s.fenced[d] ? size[d] : s.sizes[d]);
    }
    return lo->launch(lo, &l);
}

kiln_status lower_pad(const struct op_call *c, struct lowering *lo)
{
    const struct type *x = c->in[0];
    if (is_one_launch(c, lo)) return pad_rows(c, lo);
    struct view done = c->vout[0];
    int64_t mode = attr_int(c, AT_pad_mode);
    for (int d = 0; d < x->rank; d++) done = view_narrow(&done, d, entry(&c->attrs[AT_pad_before], d), x->dims[d]);
    TRY(lower_copy(lo, &c->vin[0], &done));
    for (int d = 0; d < x->rank; d++) {
        int64_t before = entry(&c->attrs[AT_pad_before], d), after = entry(&c->attrs[AT_pad_after], d),
                size = x->dims[d];
        done.offset -= before * done.strides[d];
        done.dims[d] = before + size + after;
        for (int i = 0; i < 2; i++) {
            int64_t n = i ? after : before;
            if (n == 0) continue;
            struct view to = view_narrow(&done, d, i ? before + size : 0, n);
            if (mode == MODE_CONSTANT) {
                TRY(lower_fill(lo, attr_float(c, AT_pad_value), &to));
                continue;
            }
            struct view from = slab_source(&done, d, mode, before, size, n, i == 0);
            TRY(lower_copy(lo, &from, &to));
        }
    }
    return KILN_OK;
}
