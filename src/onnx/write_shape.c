// Views and what moves elements: in ONNX each is a copy.
#include "onnx/write.h"
#include "ops/attrs.h"
#include <math.h>
#include <string.h>

enum { PLACES_MAX = 1 << 22 }; // of a constant that says where each element comes from

static const char *put_reshape(struct onnx_writer *w, const char *x, size_t n, const int64_t *dims)
{
    bool zero = false;
    for (size_t i = 0; i < n; i++) zero |= !dims[i];
    const char *shape = onnx_put_ints(w, n, dims);
    if (zero) onnx_put_int(w, "allowzero", 1);
    return PUT(w, "Reshape", x, shape);
}

const char *onnx_put_reshape(struct onnx_writer *w, const char *x, const struct type *to)
{
    return put_reshape(w, x, to->rank, to->dims);
}

const char *onnx_put_view(struct onnx_writer *w, const char *x, const struct type *from, const struct type *to,
                          const struct layout *at)
{
    int64_t n = type_numel(to), index[MAX_RANK] = {0};
    if (layout_is_contiguous(to, at) && !at->offset && type_numel(from) == n) return onnx_put_reshape(w, x, to);
    if (n > PLACES_MAX) return onnx_cannot(w, "a view of more than %d elements by their places", PLACES_MAX);
    int64_t *places = arena_alloc(&w->arena, sizeof *places * (size_t)(n + 1));
    for (int64_t i = 0; places && i < n; i++) {
        places[i] = at->offset;
        for (int d = 0; d < to->rank; d++) places[i] += index[d] * at->strides[d];
        for (int d = to->rank - 1; d >= 0 && ++index[d] == to->dims[d]; d--) index[d] = 0;
    }
    if (!places) return NULL;
    const char *flat = put_reshape(w, x, 1, (const int64_t[]){-1});
    const char *which = onnx_put_tensor(w, KILN_I64, to->rank, to->dims, places);
    onnx_put_int(w, "axis", 0);
    return PUT(w, "Gather", flat, which);
}

static void gives_as_is(struct onnx_writer *w, const char *y)
{
    onnx_gives(w, 0, y, onnx_type_out(w, 0)->dtype);
}

static const char *x_of(struct onnx_writer *w)
{
    return onnx_operand(w, 0, onnx_type_out(w, 0)->dtype);
}

// Sizes that go with open ones: 0 says that of x at the same place, -1 is one that follows from the others.
void onnx_write_reshape(struct onnx_writer *w)
{
    const struct type *from = onnx_type_in(w, 0), *to = onnx_type_out(w, 0);
    int64_t dims[MAX_RANK];
    bool inferred = false;
    for (int d = 0; d < to->rank; d++) {
        dims[d] = to->dims[d];
        if (!onnx_is_open(w, onnx_value_out(w, 0), d)) continue;
        bool same = d < from->rank && from->dims[d] == to->dims[d] && onnx_is_open(w, onnx_value_in(w, 0), d);
        if (same)
            dims[d] = 0;
        else if (!inferred)
            dims[d] = -1;
        inferred |= !same;
    }
    bool open = false;
    for (int d = 0; d < to->rank; d++) open |= dims[d] != to->dims[d];
    if (!open) {
        gives_as_is(w, onnx_put_reshape(w, x_of(w), to));
        return;
    }
    const char *shape = onnx_put_ints(w, to->rank, dims);
    gives_as_is(w, PUT(w, "Reshape", x_of(w), shape));
}

void onnx_write_flatten(struct onnx_writer *w)
{
    onnx_write_reshape(w);
}

void onnx_write_squeeze(struct onnx_writer *w)
{
    const struct type *x = onnx_type_in(w, 0);
    const struct attr *a = &onnx_node_of(w)->attrs[AT_squeeze_axes];
    int64_t axes[MAX_RANK];
    size_t n = 0;
    for (int i = 0; i < a->count; i++) axes[n++] = axis_normalize(a->v[i], x->rank);
    for (int d = 0; d < x->rank && !a->count; d++)
        if (x->dims[d] == 1) axes[n++] = d;
    const char *list = onnx_put_ints(w, n, axes);
    gives_as_is(w, n ? PUT(w, "Squeeze", x_of(w), list) : PUT(w, "Identity", x_of(w)));
}

void onnx_write_unsqueeze(struct onnx_writer *w)
{
    const int64_t axis[] = {onnx_axis_of(w, AT_unsqueeze_axis, onnx_type_out(w, 0)->rank)};
    const char *list = onnx_put_ints(w, 1, axis);
    gives_as_is(w, PUT(w, "Unsqueeze", x_of(w), list));
}

static void write_order(struct onnx_writer *w, const int64_t *order)
{
    const char *x = x_of(w);
    onnx_put_list(w, "perm", onnx_type_out(w, 0)->rank, order);
    gives_as_is(w, PUT(w, "Transpose", x));
}

void onnx_write_permute(struct onnx_writer *w)
{
    const struct attr *a = &onnx_node_of(w)->attrs[AT_permute_axes];
    int64_t order[MAX_RANK];
    for (int d = 0; d < a->count; d++) order[d] = axis_normalize(a->v[d], a->count);
    write_order(w, order);
}

void onnx_write_transpose(struct onnx_writer *w)
{
    int rank = onnx_type_out(w, 0)->rank;
    int a = onnx_axis_of(w, AT_transpose_axis0, rank), b = onnx_axis_of(w, AT_transpose_axis1, rank);
    int64_t order[MAX_RANK];
    for (int d = 0; d < rank; d++) order[d] = d == a ? b : d == b ? a : d;
    write_order(w, order);
}

// A size that x has already is written as 1: Expand goes both ways.
void onnx_write_expand(struct onnx_writer *w)
{
    const struct type *from = onnx_type_in(w, 0), *to = onnx_type_out(w, 0);
    int64_t dims[MAX_RANK];
    for (int d = 0; d < to->rank; d++) {
        int at = d - (to->rank - from->rank);
        dims[d] = at >= 0 && from->dims[at] == to->dims[d] ? 1 : to->dims[d];
    }
    const char *shape = onnx_put_ints(w, to->rank, dims);
    gives_as_is(w, PUT(w, "Expand", x_of(w), shape));
}

// --- parts

struct part {
    int64_t start[MAX_RANK], stop[MAX_RANK], axes[MAX_RANK], step[MAX_RANK];
    size_t n;
};

// One axis of which `count` elements are taken.
static void add_axis(struct part *p, int axis, int64_t size, int64_t start, int64_t step, int64_t count)
{
    if (!start && step == 1 && count == size) return; // all of it
    int64_t stop = start + count * step;
    p->axes[p->n] = axis;
    p->step[p->n] = count > 1 ? step : 1;
    p->start[p->n] = count > 1 && step < 0 && start == size - 1 ? -1 : start;
    if (count <= 1) stop = start + count;
    bool to_end = stop >= size && p->step[p->n] > 0;
    p->stop[p->n++] = to_end ? INT64_MAX : stop < 0 ? INT64_MIN : stop;
}

// By the layout that the view has on a row-major tensor: its strides are steps, its offset is where it begins.
static bool find_part(struct onnx_writer *w, struct part *p)
{
    const struct ir_node *n = onnx_node_of(w);
    const struct type *x = onnx_type_in(w, 0), *types[] = {x};
    struct op_call c = {.op = n->op, .n_in = 1, .n_out = 1, .in = types, .attrs = (struct attr *)n->attrs};
    struct layout from, to;
    bool copy = false;
    layout_contiguous(x, &from);
    p->n = 0;
    if (n->op->fn->infer(&c) || n->op->fn->view(&c, &from, &to, &copy)) return false;
    int64_t rest = to.offset;
    for (int d = 0; d < x->rank; d++) {
        int64_t count = c.out[0].dims[d], start = from.strides[d] ? rest / from.strides[d] : 0;
        if (from.strides[d]) rest %= from.strides[d];
        add_axis(p, d, x->dims[d], start, count > 1 && from.strides[d] ? to.strides[d] / from.strides[d] : 1, count);
    }
    return true;
}

// Of what has no elements the layout says nothing.
static bool is_empty(const struct type *t)
{
    return type_numel(t) == 0;
}

void onnx_write_slice(struct onnx_writer *w)
{
    const struct type *to = onnx_type_out(w, 0);
    struct part p;
    if (is_empty(to)) {
        onnx_gives(w, 0, onnx_put_full(w, to, 0, 0), to->dtype);
        return;
    }
    if (!find_part(w, &p)) return;
    const char *x = x_of(w);
    if (!p.n) {
        gives_as_is(w, PUT(w, "Identity", x));
        return;
    }
    const char *start = onnx_put_ints(w, p.n, p.start), *stop = onnx_put_ints(w, p.n, p.stop);
    const char *axes = onnx_put_ints(w, p.n, p.axes), *step = onnx_put_ints(w, p.n, p.step);
    gives_as_is(w, PUT(w, "Slice", x, start, stop, axes, step));
}

void onnx_write_narrow(struct onnx_writer *w)
{
    onnx_write_slice(w);
}

void onnx_write_flip(struct onnx_writer *w)
{
    onnx_write_slice(w);
}

void onnx_write_select(struct onnx_writer *w)
{
    const char *x = x_of(w), *index = onnx_put_integer(w, KILN_I64, onnx_attr_of(w, AT_select_index));
    onnx_put_int(w, "axis", onnx_axis_of(w, AT_select_axis, onnx_type_in(w, 0)->rank));
    gives_as_is(w, PUT(w, "Gather", x, index));
}

static void write_view(struct onnx_writer *w)
{
    const struct ir_node *n = onnx_node_of(w);
    const struct type *x = onnx_type_in(w, 0), *types[] = {x};
    struct op_call c = {.op = n->op, .n_in = 1, .n_out = 1, .in = types, .attrs = (struct attr *)n->attrs};
    struct layout from, to;
    bool copy = false;
    layout_contiguous(x, &from);
    if (n->op->fn->infer(&c) || n->op->fn->view(&c, &from, &to, &copy)) return;
    gives_as_is(w, onnx_put_view(w, x_of(w), x, onnx_type_out(w, 0), &to));
}

void onnx_write_diagonal(struct onnx_writer *w)
{
    write_view(w);
}

void onnx_write_as_strided(struct onnx_writer *w)
{
    write_view(w);
}

// --- the same values

static void write_same(struct onnx_writer *w)
{
    gives_as_is(w, PUT(w, "Identity", x_of(w)));
}

void onnx_write_contiguous(struct onnx_writer *w)
{
    write_same(w);
}

void onnx_write_at_place(struct onnx_writer *w)
{
    write_same(w);
}

void onnx_write_if_arrived(struct onnx_writer *w)
{
    write_same(w);
}

// Floats of an integer dtype's range, ends included, as far as `from` has them; *top: the first one above, where the
// largest integer is none of them.
static double largest_float(unsigned from, unsigned to, double *top)
{
    int bits = dtype_info[to].digits, kept = dtype_info[from].digits;
    *top = bits > kept ? ldexp(1, bits) : 0;
    return bits > kept ? ldexp(1, bits) - ldexp(1, bits - kept) : (double)dtype_highest(to);
}

// What is out of range becomes the nearest integer, and what is no number 0; ONNX's Cast does not say.
static const char *put_saturated(struct onnx_writer *w, const char *x, unsigned from, unsigned to)
{
    double top, highest = largest_float(from, to, &top), lowest = (double)dtype_lowest(to);
    const char *zero = onnx_put_scalar(w, from, 0), *is_nan = PUT(w, "IsNaN", x);
    const char *y = PUT(w, "Where", is_nan, zero, x), *high = onnx_put_scalar(w, from, highest);
    const char *low = onnx_put_scalar(w, from, lowest);
    y = PUT(w, "Min", y, high);
    y = PUT(w, "Max", y, low);
    y = onnx_put_cast(w, y, from, to);
    if (top == 0) return y;
    const char *largest = onnx_put_integer(w, to, dtype_highest(to));
    const char *above = onnx_put_scalar(w, from, top);
    return PUT(w, "Where", PUT(w, "GreaterOrEqual", x, above), largest, y);
}

void onnx_write_cast(struct onnx_writer *w)
{
    const struct type *x = onnx_type_in(w, 0), *to = onnx_type_out(w, 0);
    if (x->dtype == to->dtype)
        write_same(w);
    else if (dtype_kind_of[x->dtype] == KIND_FLOAT && dtype_kind_of[to->dtype] == KIND_INT) {
        unsigned from = x->dtype == KILN_F64 ? KILN_F64 : KILN_F32;
        onnx_gives(w, 0, put_saturated(w, onnx_operand(w, 0, from), from, to->dtype), to->dtype);
    } else
        onnx_gives(w, 0, onnx_operand_as_is(w, 0), x->dtype);
}

// --- tensors side by side

static const char *put_joined(struct onnx_writer *w, int axis, bool new_axis)
{
    unsigned dtype = onnx_type_out(w, 0)->dtype;
    int n = onnx_operands(w);
    const char **in = arena_alloc(&w->arena, sizeof *in * (size_t)n);
    const char *at = new_axis ? onnx_put_ints(w, 1, (const int64_t[]){axis}) : NULL;
    for (int i = 0; in && i < n; i++) {
        in[i] = onnx_operand(w, i, dtype);
        if (new_axis) in[i] = PUT(w, "Unsqueeze", in[i], at);
    }
    onnx_put_int(w, "axis", axis);
    return in ? onnx_put(w, "Concat", (size_t)n, in) : NULL;
}

void onnx_write_stack(struct onnx_writer *w)
{
    gives_as_is(w, put_joined(w, onnx_axis_of(w, AT_stack_axis, onnx_type_out(w, 0)->rank), true));
}

void onnx_write_tile(struct onnx_writer *w)
{
    const struct attr *a = &onnx_node_of(w)->attrs[AT_tile_repeats];
    const struct type *x = onnx_type_in(w, 0), *to = onnx_type_out(w, 0);
    int64_t repeats[MAX_RANK], dims[MAX_RANK];
    for (int d = 0; d < to->rank; d++) {
        int of_repeats = d - (to->rank - a->count), of_x = d - (to->rank - x->rank);
        repeats[d] = of_repeats >= 0 ? a->v[of_repeats] : 1;
        dims[d] = of_x >= 0 ? x->dims[of_x] : 1;
    }
    const char *all = x_of(w), *times = onnx_put_ints(w, to->rank, repeats);
    if (to->rank > x->rank) all = put_reshape(w, all, to->rank, dims);
    gives_as_is(w, PUT(w, "Tile", all, times));
}

// Along an axis, the elements at these places.
static const char *put_taken(struct onnx_writer *w, const char *x, int axis, int64_t n, const int64_t *places)
{
    const char *which = onnx_put_ints(w, (size_t)n, places);
    onnx_put_int(w, "axis", axis);
    return PUT(w, "Gather", x, which);
}

void onnx_write_repeat_interleave(struct onnx_writer *w)
{
    const struct type *x = onnx_type_in(w, 0);
    int axis = onnx_axis_of(w, AT_repeat_interleave_axis, x->rank);
    int64_t times = onnx_attr_of(w, AT_repeat_interleave_repeats), n = x->dims[axis] * times;
    int64_t *places = arena_alloc(&w->arena, sizeof *places * (size_t)(n + 1));
    for (int64_t i = 0; places && i < n; i++) places[i] = i / times;
    if (places) gives_as_is(w, put_taken(w, x_of(w), axis, n, places));
}

static const char *put_rolled(struct onnx_writer *w, const char *x, int axis, int64_t size, int64_t shift)
{
    int64_t *places = arena_alloc(&w->arena, sizeof *places * (size_t)(size + 1));
    for (int64_t i = 0; places && i < size; i++) places[i] = ((i - shift) % size + size) % size;
    return places ? put_taken(w, x, axis, size, places) : NULL;
}

void onnx_write_roll(struct onnx_writer *w)
{
    const struct type *x = onnx_type_in(w, 0);
    const struct attr *shifts = &onnx_node_of(w)->attrs[AT_roll_shifts], *axes = &onnx_node_of(w)->attrs[AT_roll_axes];
    const char *y = x_of(w);
    if (!axes->count) {
        y = put_reshape(w, y, 1, (const int64_t[]){-1});
        y = onnx_put_reshape(w, put_rolled(w, y, 0, type_numel(x), shifts->v[0]), x);
    }
    for (int i = 0; i < axes->count; i++) {
        int axis = axis_normalize(axes->v[i], x->rank);
        y = put_rolled(w, y, axis, x->dims[axis], shifts->v[i]);
    }
    gives_as_is(w, y);
}

void onnx_write_pad(struct onnx_writer *w)
{
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    const struct ir_node *n = onnx_node_of(w);
    const struct type *x = onnx_type_in(w, 0);
    const struct attr *before = &n->attrs[AT_pad_before], *after = &n->attrs[AT_pad_after];
    int64_t pads[2 * MAX_RANK], mode = onnx_attr_of(w, AT_pad_mode);
    for (int d = 0; d < x->rank; d++) {
        pads[d] = d < before->count ? before->v[d] : 0;
        pads[x->rank + d] = d < after->count ? after->v[d] : 0;
    }
    const char *in = x_of(w), *list = onnx_put_ints(w, 2 * (size_t)x->rank, pads), *value = "";
    double number = n->attrs[AT_pad_value].f;
    if (!mode) value = onnx_put_scalar(w, x->dtype, number);
    if (mode == 3) onnx_needs(w, 19);
    onnx_put_text(w, "mode", modes[mode]);
    gives_as_is(w, PUT(w, "Pad", in, list, value));
}
