// Writing elements by index, into a copy of the target. Where several elements go to one place, the last one along the
// axis wins (scatter), or all are joined in the order of the axis (scatter_add, scatter_mul ..., index_add): the same
// bits on every run.
//
// A column is what the axis leaves free: elements of different columns never meet. On the CPU a column is walked in
// order. A GPU does the same when there are enough columns, or the axis is short; else
//   - scatter marks, by an atomic maximum, which place along the axis wins each element, and then lets the winners
//   write;
//   - the others sort the indices, stably, and give each run of equal ones to one invocation, which joins it in order.
// A negative index counts from the end; one out of range is an error on the CPU and dropped on a GPU.
#include "ops/family.h"
#include "ops/index.h"

enum { MODE_SET, MODE_JOIN, MODE_MARK, MODE_WRITE, MODE_RUNS }; // variant 0 of the kernel, see shaders/scatter.comp
enum verb { VERB_ADD, VERB_MUL, VERB_MAX, VERB_MIN, VERB_SET }; // variant 2: what joins two elements
enum { SHORT_AXIS = 32 };

static kiln_status check_source(const struct op_call *c, int index_in, int src_in)
{
    const struct type *index = c->in[index_in], *src = c->in[src_in], *x = c->in[0];
    if (dtype_kind_of[index->dtype] != KIND_INT)
        return op_fail(c, KILN_E_DTYPE, "index must be integers, it is %s", type_string(index).s);
    if (dtype_kind_of[src->dtype] <= dtype_kind_of[x->dtype]) return KILN_OK;
    return op_fail(c, KILN_E_DTYPE, "src is %s, it does not go into x of %s; cast it first", type_string(src).s,
                   type_string(x).s);
}

kiln_status infer_scatter(struct op_call *c)
{
    int axis;
    const struct type *index = c->in[1], *src = c->in[2];
    struct type both;
    TRY(check_source(c, 1, 2));
    TRY(op_axis(c, AT_scatter_axis, 0, &axis));
    TRY(op_index_fits(c, axis));
    if (!shape_broadcast(index, src, &both) || !type_same_shape(&both, index))
        return op_fail(c, KILN_E_SHAPE, "src does not broadcast to index: src is %s, index is %s", type_string(src).s,
                       type_string(index).s);
    return infer_same(c);
}

static kiln_status refuse_bool(const struct op_call *c)
{
    if (c->in[0]->dtype != KILN_BOOL) return KILN_OK;
    return op_fail(c, KILN_E_DTYPE, "joins integers and floats, x is %s", type_string(c->in[0]).s);
}

kiln_status infer_scatter_add(struct op_call *c)
{
    TRY(refuse_bool(c));
    return infer_scatter(c);
}

kiln_status infer_index_add(struct op_call *c)
{
    int axis;
    const struct type *x = c->in[0], *index = c->in[1], *src = c->in[2];
    TRY(refuse_bool(c));
    TRY(check_source(c, 1, 2));
    TRY(op_axis(c, AT_index_add_axis, 0, &axis));
    struct type want = *x, both;
    if (index->rank == 1) want.dims[axis] = index->dims[0];
    if (index->rank != 1 || !shape_broadcast(&want, src, &both) || !type_same_shape(&both, &want))
        return op_fail(
            c, KILN_E_SHAPE,
            "index must be a vector, src x's shape with its length at axis %d: x is %s, index is %s, src is %s", axis,
            type_string(x).s, type_string(index).s, type_string(src).s);
    return infer_same(c);
}

struct scatter {
    struct lowering *lo;
    enum scalar_class cls;
    enum verb verb;
    int axis;
    bool shared_index;           // one index for all columns
    struct view index, src, out; // over src's dimensions; out has its whole axis
};

// One launch of the kernel; operands that a mode does not use are immediates. aux and out move along the axis by index.
static kiln_status run(const struct scatter *s, int mode, const struct view *index, const struct view *aux,
                       const struct view *src, const struct view *out)
{
    const struct view *v[4] = {index, aux, src, out};
    bool aux_indexed = mode == MODE_MARK || mode == MODE_WRITE;
    struct index_space space = {.n = 4};
    int at = 0;
    for (int d = 0; d < s->src.rank; d++) {
        int64_t strides[SPACE_OPERANDS];
        for (int o = 0; o < 4; o++) {
            bool indexed = d == s->axis && (o == 3 || (o == 1 && aux_indexed));
            strides[o] = v[o]->immediate || v[o]->dims[d] == 1 || indexed ? 0 : v[o]->strides[d];
        }
        if (d == s->axis) at = space.rank;
        space_add(&space, s->src.dims[d], strides, d == s->axis);
    }
    struct launch l;
    space_launch(&l, s->lo, FAMILY_scatter, s->cls, &space);
    if (mode == MODE_SET || mode == MODE_JOIN) l.extent[0] /= s->src.dims[s->axis]; // one a column
    l.variant[0] = (uint32_t)mode;
    l.variant[1] = (uint32_t)at;
    l.variant[2] = s->verb == VERB_SET ? 0 : s->verb;
    launch_operand(&l, index, space.strides[0], false);
    launch_operand(&l, aux, space.strides[1], mode == MODE_MARK);
    launch_operand(&l, src, space.strides[2], false);
    launch_operand(&l, out, space.strides[3], mode != MODE_MARK);
    launch_scalar_i(&l, s->out.dims[s->axis]);
    launch_scalar_i(&l, out->immediate ? 0 : out->strides[s->axis]);
    launch_scalar_i(&l, aux_indexed ? aux->strides[s->axis] : 0);
    return s->lo->launch(s->lo, &l);
}

static kiln_status set_winners(const struct scatter *s)
{
    struct view none = view_integer(0), winners;
    TRY(lower_temp(s->lo, KILN_I32, s->out.rank, s->out.dims, &winners));
    TRY(lower_fill(s->lo, -1, &winners));
    TRY(run(s, MODE_MARK, &s->index, &winners, &none, &none));
    return run(s, MODE_WRITE, &s->index, &winners, &s->src, &s->out);
}

// The index sorted along the axis, with the places from which its elements came, both over src's dimensions.
static kiln_status sort_index(const struct scatter *s, struct view *sorted, struct view *order)
{
    struct view index = s->index, wrapped;
    int rank = index.rank, perm[MAX_RANK], back[MAX_RANK], n = 0;
    if (s->shared_index) {
        index.dims[0] = index.dims[s->axis], index.strides[0] = index.strides[s->axis];
        rank = index.rank = 1;
        perm[0] = 0;
    } else {
        for (int d = 0; d < rank; d++)
            if (d != s->axis) perm[n++] = d;
        perm[n] = s->axis;
    }
    double size = (double)s->out.dims[s->axis];
    index = view_permute(&index, perm);
    TRY(lower_temp(s->lo, KILN_I64, rank, index.dims, &wrapped));
    TRY(lower_temp(s->lo, KILN_I64, rank, index.dims, sorted));
    TRY(lower_temp(s->lo, KILN_I32, rank, index.dims, order));
    TRY(lower_pointwise(s->lo, FAMILY_wrap_index, CLASS_I64, 1, &index, &wrapped, 1, &size));
    TRY(lower_sort_views(s->lo, &wrapped, false, index.dims[rank - 1], sorted, order));
    for (int d = 0; d < rank; d++) back[perm[d]] = d;
    *sorted = view_permute(sorted, back);
    *order = view_permute(order, back);
    if (!s->shared_index) return KILN_OK;
    struct view *both[2] = {sorted, order};
    for (int i = 0; i < 2; i++) {
        struct view wide = s->src; // its dimensions
        wide.slot = both[i]->slot, wide.dtype = both[i]->dtype, wide.offset = both[i]->offset;
        for (int d = 0; d < wide.rank; d++) wide.strides[d] = d == s->axis ? both[i]->strides[0] : 0;
        *both[i] = wide;
    }
    return KILN_OK;
}

static kiln_status join_runs(const struct scatter *s)
{
    struct view sorted, order;
    TRY(sort_index(s, &sorted, &order));
    return run(s, MODE_RUNS, &sorted, &order, &s->src, &s->out);
}

static kiln_status scatter_into(const struct scatter *s)
{
    int64_t count = view_count(&s->src), length = s->src.dims[s->axis];
    if (count == 0) return KILN_OK;
    struct view none = view_integer(0);
    bool walk = lowers_to_cpu(s->lo, s->cls) || length <= SHORT_AXIS || count / length >= s->lo->caps->parallelism;
    bool sets = s->verb == VERB_SET;
    if (walk) return run(s, sets ? MODE_SET : MODE_JOIN, &s->index, &none, &s->src, &s->out);
    return sets ? set_winners(s) : join_runs(s);
}

kiln_status lower_add_rows(struct lowering *lo, const struct view *index, const struct view *src,
                           const struct view *out)
{
    struct scatter s = {.lo = lo, .cls = dtype_class(out->dtype), .shared_index = true, .src = *src, .out = *out};
    s.verb = VERB_ADD;
    s.index = *src;
    s.index.slot = index->slot, s.index.dtype = index->dtype, s.index.offset = index->offset;
    s.index.strides[0] = index->strides[0], s.index.strides[1] = 0;
    return scatter_into(&s);
}

_Static_assert(AT_scatter_axis == AT_scatter_add_axis && AT_scatter_axis == AT_index_add_axis &&
                   AT_scatter_axis == AT_scatter_mul_axis && AT_scatter_axis == AT_scatter_max_axis &&
                   AT_scatter_axis == AT_scatter_min_axis,
               "lower_scatter_to serves all");

static kiln_status lower_scatter_to(const struct op_call *c, struct lowering *lo, enum verb verb, bool vector)
{
    struct scatter s = {.lo = lo, .verb = verb, .shared_index = vector};
    bool joins = verb != VERB_SET;
    const struct type *x = c->in[0];
    struct view out = c->vout[0], target = out, src = c->vin[2];
    TRY(op_axis(c, AT_scatter_axis, 0, &s.axis));
    unsigned dtype = joins ? class_dtype(dtype_class(x->dtype)) : x->dtype;
    if (dtype != x->dtype) TRY(lower_temp(lo, dtype, x->rank, x->dims, &target));
    TRY(lower_copy(lo, &c->vin[0], &target));
    int64_t dims[MAX_RANK];
    for (int d = 0; d < x->rank; d++) dims[d] = vector ? x->dims[d] : c->in[1]->dims[d];
    if (vector) dims[s.axis] = c->in[1]->dims[0];
    if (src.dtype != dtype) {
        struct view same;
        TRY(lower_temp(lo, dtype, src.rank, src.dims, &same));
        TRY(lower_copy(lo, &src, &same));
        src = same;
    }
    TRY(view_expand(&src, x->rank, dims, &s.src));
    s.index = c->vin[1];
    if (vector) {
        s.index = s.src;
        s.index.slot = c->vin[1].slot, s.index.dtype = c->vin[1].dtype, s.index.offset = c->vin[1].offset;
        for (int d = 0; d < x->rank; d++) s.index.strides[d] = d == s.axis ? c->vin[1].strides[0] : 0;
    }
    s.out = target;
    for (int d = 0; d < x->rank; d++)
        if (d != s.axis) s.out.dims[d] = dims[d];
    s.cls = joins ? dtype_class(dtype) : dtype_class(view_as_bits(&target).dtype);
    if (!joins) {
        s.src = view_as_bits(&s.src);
        s.out = view_as_bits(&s.out);
    }
    TRY(scatter_into(&s));
    return dtype == x->dtype ? KILN_OK : lower_copy(lo, &target, &out);
}

kiln_status lower_scatter(const struct op_call *c, struct lowering *lo)
{
    return lower_scatter_to(c, lo, VERB_SET, false);
}

kiln_status lower_scatter_add(const struct op_call *c, struct lowering *lo)
{
    return lower_scatter_to(c, lo, VERB_ADD, false);
}

kiln_status lower_scatter_mul(const struct op_call *c, struct lowering *lo)
{
    return lower_scatter_to(c, lo, VERB_MUL, false);
}

kiln_status lower_scatter_max(const struct op_call *c, struct lowering *lo)
{
    return lower_scatter_to(c, lo, VERB_MAX, false);
}

kiln_status lower_scatter_min(const struct op_call *c, struct lowering *lo)
{
    return lower_scatter_to(c, lo, VERB_MIN, false);
}

kiln_status lower_index_add(const struct op_call *c, struct lowering *lo)
{
    return lower_scatter_to(c, lo, VERB_ADD, true);
}
