// Reading and writing by index. Indices below 0 count from the end in ONNX as well.
#include "base/resample.h"
#include "onnx/write.h"
#include "ops/attrs.h"
#include <string.h>

static const char *put_index(struct onnx_writer *w, int i)
{
    return onnx_operand(w, i, KILN_I64);
}

static unsigned out_dtype(const struct onnx_writer *w)
{
    return onnx_type_out(w, 0)->dtype;
}

static void write_take(struct onnx_writer *w, int axis)
{
    const char *x = onnx_operand(w, 0, out_dtype(w)), *index = put_index(w, 1);
    onnx_put_int(w, "axis", axis);
    onnx_gives(w, 0, PUT(w, "Gather", x, index), out_dtype(w));
}

void onnx_write_index_select(struct onnx_writer *w)
{
    write_take(w, onnx_axis_of(w, AT_index_select_axis, onnx_type_in(w, 0)->rank));
}

void onnx_write_embedding(struct onnx_writer *w)
{
    write_take(w, 0);
}

void onnx_write_gather_nd(struct onnx_writer *w)
{
    const char *x = onnx_operand(w, 0, out_dtype(w)), *index = put_index(w, 1);
    onnx_gives(w, 0, PUT(w, "GatherND", x, index), out_dtype(w));
}

// --- axes of other sizes

enum { RESAMPLED_MOST = 1 << 20 }; // elements of an axis, whose taps are constants of the file

// Tap k of each element of the result, and its weight, which is broadcast along the axis.
static void put_tap(struct onnx_writer *w, const struct resample *r, int axis, int k, const char *x, unsigned dtype,
                    const char **tap, const char **weight)
{
    int rank = onnx_type_out(w, 0)->rank;
    int64_t at[RESAMPLE_MOST_TAPS], dims[MAX_RANK] = {r->out}, *places = arena_alloc(&w->arena, (size_t)r->out * 8);
    char *weights = arena_alloc(&w->arena, (size_t)r->out * 8);
    double of[RESAMPLE_MOST_TAPS];
    for (int64_t i = 0; places && weights && i < r->out; i++) {
        resample_taps(r, i, at, of);
        places[i] = at[k];
        if (dtype == KILN_F64)
            memcpy(weights + i * 8, &of[k], 8);
        else
            memcpy(weights + i * 4, &(float){(float)of[k]}, 4);
    }
    if (!places || !weights) return;
    for (int d = 1; d < rank - axis; d++) dims[d] = 1;
    *weight = onnx_put_tensor(w, dtype, rank - axis, dims, weights);
    onnx_put_int(w, "axis", axis);
    *tap = PUT(w, "Gather", x, onnx_put_ints(w, (size_t)r->out, places));
}

// x with an axis of another size.
static const char *put_resampled(struct onnx_writer *w, const struct resample *r, int axis, const char *x,
                                 unsigned dtype)
{
    const char *tap[RESAMPLE_MOST_TAPS] = {NULL}, *weight[RESAMPLE_MOST_TAPS] = {NULL};
    for (int k = 0; k < (r->cubic ? 4 : 2); k++) put_tap(w, r, axis, k, x, dtype, &tap[k], &weight[k]);
    const char *sum = r->cubic ? PUT(w, "Mul", tap[0], weight[0]) : tap[0];
    if (!r->cubic) sum = PUT(w, "Add", sum, PUT(w, "Mul", PUT(w, "Sub", tap[1], tap[0]), weight[1]));
    for (int k = 1; r->cubic && k < 4; k++) sum = PUT(w, "Add", sum, PUT(w, "Mul", tap[k], weight[k]));
    return sum;
}

// The axis of input and result; false where its taps cannot be constants of the file.
static bool resample_of(const struct onnx_writer *w, int axis, double step, bool align, bool cubic, struct resample *r)
{
    *r = (struct resample){onnx_type_in(w, 0)->dims[axis], onnx_type_out(w, 0)->dims[axis], step, align, cubic};
    return !onnx_is_open(w, onnx_value_in(w, 0), axis) && r->out <= RESAMPLED_MOST;
}

void onnx_write_resample(struct onnx_writer *w)
{
    unsigned dtype = out_dtype(w) == KILN_F64 ? KILN_F64 : KILN_F32;
    int axis = onnx_axis_of(w, AT_resample_axis, onnx_type_in(w, 0)->rank);
    bool align = onnx_attr_of(w, AT_resample_align) != 0, cubic = onnx_attr_of(w, AT_resample_cubic) != 0;
    struct resample r;
    if (!resample_of(w, axis, onnx_node_of(w)->attrs[AT_resample_step].f, align, cubic, &r) ||
        onnx_attr_of(w, AT_resample_adjoint)) {
        onnx_cannot(w, "ONNX has no such sums along an axis");
        return;
    }
    onnx_gives(w, 0, put_resampled(w, &r, axis, onnx_operand(w, 0, dtype), dtype), dtype);
}

void onnx_write_resample2d(struct onnx_writer *w)
{
    unsigned dtype = out_dtype(w) == KILN_F64 ? KILN_F64 : KILN_F32;
    int tall = onnx_type_in(w, 0)->rank - 2;
    bool align = onnx_attr_of(w, AT_resample2d_align) != 0, cubic = onnx_attr_of(w, AT_resample2d_cubic) != 0;
    const struct attr *attrs = onnx_node_of(w)->attrs;
    struct resample r[2];
    if (!resample_of(w, tall, attrs[AT_resample2d_step_height].f, align, cubic, &r[0]) ||
        !resample_of(w, tall + 1, attrs[AT_resample2d_step_width].f, align, cubic, &r[1]) ||
        onnx_attr_of(w, AT_resample2d_adjoint)) {
        onnx_cannot(w, "ONNX has no such sums along axes");
        return;
    }
    const char *x = onnx_operand(w, 0, dtype);
    for (int i = 0; i < 2; i++) x = put_resampled(w, &r[i], tall + i, x, dtype);
    onnx_gives(w, 0, x, dtype);
}

static const char *put_numbers(struct onnx_writer *w, int64_t n)
{
    return PUT(w, "Range", onnx_put_integer(w, KILN_I64, 0), onnx_put_integer(w, KILN_I64, n),
               onnx_put_integer(w, KILN_I64, 1));
}

static const char *put_unsqueezed(struct onnx_writer *w, const char *x, int64_t axis)
{
    return PUT(w, "Unsqueeze", x, onnx_put_ints(w, 1, &axis));
}

// Not OneHot, for which ids below 0 count from the end.
void onnx_write_one_hot(struct onnx_writer *w)
{
    const char *ids = put_unsqueezed(w, put_index(w, 0), -1);
    const char *hit = PUT(w, "Equal", ids, put_numbers(w, onnx_attr_of(w, AT_one_hot_depth)));
    onnx_gives(w, 0, hit, KILN_BOOL);
}

void onnx_write_isin(struct onnx_writer *w)
{
    uint8_t dtype;
    bool weak;
    (void)type_promote(onnx_type_in(w, 0), onnx_type_in(w, 1), &dtype, &weak);
    if (weak && dtype == KILN_F64) dtype = KILN_F32;
    const char *x = put_unsqueezed(w, onnx_operand(w, 0, dtype), -1);
    const char *values = PUT(w, "Reshape", onnx_operand(w, 1, dtype), onnx_put_ints(w, 1, (const int64_t[]){-1}));
    const char *hits = onnx_put_cast(w, PUT(w, "Equal", x, values), KILN_BOOL, KILN_I64);
    const char *axes = onnx_put_ints(w, 1, (const int64_t[]){-1});
    onnx_put_int(w, "keepdims", 0);
    onnx_gives(w, 0, PUT(w, "ReduceSum", hits, axes), KILN_I64);
}

// --- a part at a place that is a tensor

// Indices of the part, of x's rank, with 1 where start is one number; it is moved to where the part lies inside of x.
static const char *put_part_index(struct onnx_writer *w, int axis, int at, int64_t length)
{
    const struct type *x = onnx_type_in(w, 0), *start = onnx_type_in(w, at);
    int64_t along[MAX_RANK];
    for (int d = 0; d < x->rank; d++) along[d] = d == axis ? -1 : 1;
    const char *first = put_index(w, at), *zero = onnx_put_integer(w, KILN_I64, 0);
    const char *from_end = PUT(w, "Add", first, onnx_put_integer(w, KILN_I64, x->dims[axis]));
    first = PUT(w, "Where", PUT(w, "Less", first, zero), from_end, first);
    first = PUT(w, "Max", PUT(w, "Min", first, onnx_put_integer(w, KILN_I64, x->dims[axis] - length)), zero);
    if (start->rank < x->rank) {
        int64_t dims[MAX_RANK];
        for (int d = 0; d < x->rank; d++) {
            int of_start = d - (x->rank - start->rank);
            dims[d] = of_start >= 0 ? start->dims[of_start] : 1;
        }
        first = PUT(w, "Reshape", first, onnx_put_ints(w, x->rank, dims));
    }
    const char *steps = PUT(w, "Reshape", put_numbers(w, length), onnx_put_ints(w, x->rank, along));
    return PUT(w, "Add", first, steps);
}

static const char *put_expanded(struct onnx_writer *w, const char *x, const struct type *to)
{
    return PUT(w, "Expand", x, onnx_put_ints(w, to->rank, to->dims));
}

void onnx_write_slice_at(struct onnx_writer *w)
{
    const struct type *y = onnx_type_out(w, 0);
    int axis = onnx_axis_of(w, AT_slice_at_axis, y->rank);
    const char *x = onnx_operand(w, 0, y->dtype);
    const char *index = put_expanded(w, put_part_index(w, axis, 1, onnx_attr_of(w, AT_slice_at_length)), y);
    onnx_put_int(w, "axis", axis);
    onnx_gives(w, 0, PUT(w, "GatherElements", x, index), y->dtype);
}

static const char *put_scattered(struct onnx_writer *w, int axis, const char *x, const char *index, const char *src,
                                 const char *joins)
{
    onnx_put_int(w, "axis", axis);
    if (joins) onnx_put_text(w, "reduction", joins);
    return PUT(w, "ScatterElements", x, index, src);
}

void onnx_write_update_at(struct onnx_writer *w)
{
    const struct type *src = onnx_type_in(w, 2);
    int axis = onnx_axis_of(w, AT_update_at_axis, src->rank);
    const char *x = onnx_operand(w, 0, out_dtype(w)), *value = onnx_operand(w, 2, out_dtype(w));
    const char *index = put_expanded(w, put_part_index(w, axis, 1, src->dims[axis]), src);
    onnx_gives(w, 0, put_scattered(w, axis, x, index, value, NULL), out_dtype(w));
}

// --- scatter

// Sums of halves are in f32.
static unsigned sum_dtype(unsigned dtype)
{
    return dtype == KILN_F16 || dtype == KILN_BF16 ? KILN_F32 : dtype;
}

// joins: what ONNX calls it; NULL: the last one stays.
static void write_scatter(struct onnx_writer *w, int axis_at, const char *joins)
{
    const struct type *index = onnx_type_in(w, 1), *src = onnx_type_in(w, 2);
    unsigned dtype = joins ? sum_dtype(out_dtype(w)) : out_dtype(w);
    int axis = onnx_axis_of(w, axis_at, index->rank);
    const char *x = onnx_operand(w, 0, dtype), *where = put_index(w, 1), *values = onnx_operand(w, 2, dtype);
    if (!type_same_shape(index, src)) values = put_expanded(w, values, index);
    onnx_gives(w, 0, put_scattered(w, axis, x, where, values, joins), dtype);
}

void onnx_write_scatter(struct onnx_writer *w)
{
    write_scatter(w, AT_scatter_axis, NULL);
}

void onnx_write_scatter_add(struct onnx_writer *w)
{
    write_scatter(w, AT_scatter_add_axis, "add");
}

void onnx_write_scatter_mul(struct onnx_writer *w)
{
    write_scatter(w, AT_scatter_mul_axis, "mul");
}

void onnx_write_scatter_max(struct onnx_writer *w)
{
    write_scatter(w, AT_scatter_max_axis, "max");
}

void onnx_write_scatter_min(struct onnx_writer *w)
{
    write_scatter(w, AT_scatter_min_axis, "min");
}

void onnx_write_index_add(struct onnx_writer *w)
{
    const struct type *src = onnx_type_in(w, 2);
    unsigned dtype = sum_dtype(out_dtype(w));
    int axis = onnx_axis_of(w, AT_index_add_axis, src->rank);
    int64_t along[MAX_RANK];
    for (int d = 0; d < src->rank; d++) along[d] = d == axis ? -1 : 1;
    const char *x = onnx_operand(w, 0, dtype), *values = onnx_operand(w, 2, dtype);
    const char *index = PUT(w, "Reshape", put_index(w, 1), onnx_put_ints(w, src->rank, along));
    onnx_gives(w, 0, put_scattered(w, axis, x, put_expanded(w, index, src), values, "add"), dtype);
}

void onnx_write_scatter_nd(struct onnx_writer *w)
{
    struct type t = *onnx_type_out(w, 0);
    t.dtype = (uint8_t)sum_dtype(t.dtype);
    const char *zeros = onnx_put_full(w, &t, 0, 0), *index = put_index(w, 0), *src = onnx_operand(w, 1, t.dtype);
    onnx_put_text(w, "reduction", "add");
    onnx_gives(w, 0, PUT(w, "ScatterND", zeros, index, src), t.dtype);
}

// --- views the other way round: by the places of the elements

enum { PLACES_MAX = 1 << 22 };

static const char *put_places(struct onnx_writer *w, const struct type *src, const int64_t *strides, int64_t offset)
{
    int64_t n = type_numel(src), index[MAX_RANK] = {0};
    if (n > PLACES_MAX) return onnx_cannot(w, "more than %d elements by their places", PLACES_MAX);
    int64_t *places = arena_alloc(&w->arena, sizeof *places * (size_t)(n + 1));
    for (int64_t i = 0; places && i < n; i++) {
        places[i] = offset;
        for (int d = 0; d < src->rank; d++) places[i] += index[d] * strides[d];
        for (int d = src->rank - 1; d >= 0 && ++index[d] == src->dims[d]; d--) index[d] = 0;
    }
    return places ? onnx_put_ints(w, (size_t)n, places) : NULL;
}

static const char *put_flat(struct onnx_writer *w, const char *x)
{
    return PUT(w, "Reshape", x, onnx_put_ints(w, 1, (const int64_t[]){-1}));
}

static void write_placed(struct onnx_writer *w, const char *onto, int src_at, const struct attr *strides,
                         int64_t offset, bool adds, unsigned dtype)
{
    const char *places = put_places(w, onnx_type_in(w, src_at), strides->v, offset);
    const char *src = put_flat(w, onnx_operand(w, src_at, dtype));
    const char *y = put_scattered(w, 0, put_flat(w, onto), places, src, adds ? "add" : NULL);
    onnx_gives(w, 0, onnx_put_reshape(w, y, onnx_type_out(w, 0)), dtype);
}

void onnx_write_embed(struct onnx_writer *w)
{
    const struct type *t = onnx_type_out(w, 0);
    write_placed(w, onnx_put_full(w, t, 0, 0), 0, &onnx_node_of(w)->attrs[AT_embed_strides],
                 onnx_attr_of(w, AT_embed_offset), false, t->dtype);
}

static void write_onto(struct onnx_writer *w, bool adds)
{
    unsigned dtype = adds ? sum_dtype(out_dtype(w)) : out_dtype(w);
    write_placed(w, onnx_operand(w, 0, dtype), 1, &onnx_node_of(w)->attrs[AT_as_strided_scatter_strides],
                 onnx_attr_of(w, AT_as_strided_scatter_offset), adds, dtype);
}

void onnx_write_as_strided_scatter(struct onnx_writer *w)
{
    write_onto(w, false);
}

void onnx_write_as_strided_add(struct onnx_writer *w)
{
    write_onto(w, true);
}

// --- remainders of integers: 0 by 0, of which ONNX does not speak

static void write_remainder(struct onnx_writer *w)
{
    const struct type *y = onnx_type_out(w, 0);
    const struct ir_value *by = &w->g->values.v[onnx_value_in(w, 1)];
    bool safe = by->kind == IR_NUMBER && by->integer != 0;
    if (dtype_kind_of[y->dtype] == KIND_FLOAT) {
        if (strcmp(onnx_node_of(w)->op->name, "fmod") || !onnx_write_row(w)) onnx_write_expr(w);
        return;
    }
    if (safe && onnx_write_row(w)) return;
    const char *a = onnx_operand(w, 0, y->dtype), *b = onnx_operand(w, 1, y->dtype);
    const char *zero = onnx_put_integer(w, y->dtype, 0), *is_zero = PUT(w, "Equal", b, zero);
    b = PUT(w, "Where", is_zero, onnx_put_integer(w, y->dtype, 1), b);
    const char *r = onnx_put_row(w, onnx_node_of(w)->op, NULL, 2, (const char *const[]){a, b}, y->dtype);
    onnx_gives(w, 0, PUT(w, "Where", is_zero, zero, r), y->dtype);
}

void onnx_write_remainder(struct onnx_writer *w)
{
    write_remainder(w);
}

void onnx_write_fmod(struct onnx_writer *w)
{
    write_remainder(w);
}

// The numbers of ONNX's approximation are of f32.
void onnx_write_gelu_tanh(struct onnx_writer *w)
{
    if (out_dtype(w) == KILN_F64 || !onnx_write_row(w)) onnx_write_expr(w);
}
