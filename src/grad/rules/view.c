// Views. Those that only rename positions are undone by the opposite view; those that leave elements out are undone by
// embed, which writes the gradient to the elements that were taken and zeros elsewhere.
#include "grad/rules/rules.h"
#include "grad/tape.h"

RULE(reshape)
{
    din[0] = kiln_reshape(dout[0], IN_SHAPE(0));
    return kiln_error();
}

RULE(permute)
{
    const int64_t *axes;
    int64_t inverse[KILN_MAX_RANK];
    size_t n = kiln_rule_ints("axes", &axes), rank = kiln_rule_in_shape(0, NULL);
    for (size_t i = 0; i < n; i++) inverse[axes[i] < 0 ? axes[i] + (int64_t)rank : axes[i]] = (int64_t)i;
    din[0] = kiln_permute(dout[0], (kiln_ints){n, inverse});
    return kiln_error();
}

RULE(transpose)
{
    din[0] = kiln_transpose(dout[0], kiln_rule_int("axis0"), kiln_rule_int("axis1"));
    return kiln_error();
}

// The caller of the rule sums over what was broadcast.
RULE(expand)
{
    din[0] = dout[0];
    return KILN_OK;
}

RULE(flip)
{
    const int64_t *axes;
    size_t n = kiln_rule_ints("axes", &axes);
    din[0] = kiln_flip(dout[0], (kiln_ints){n, axes});
    return kiln_error();
}

static size_t row_major(size_t input, const int64_t **dims, int64_t *strides)
{
    size_t rank = kiln_rule_in_shape(input, dims);
    int64_t stride = 1;
    for (size_t i = rank; i-- > 0;) {
        strides[i] = stride;
        stride *= (*dims)[i];
    }
    return rank;
}

static int64_t axis_of(const char *attr, size_t rank)
{
    int64_t axis = kiln_rule_int(attr);
    return axis < 0 ? axis + (int64_t)rank : axis;
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

// Where a slice starts on an axis of `size`, as in kiln_slice.
static int64_t slice_start(size_t axis, int64_t size, int64_t step)
{
    const int64_t *start;
    int64_t lo = step < 0 ? -1 : 0, hi = step < 0 ? size - 1 : size;
    if (axis >= kiln_rule_ints("start", &start) || start[axis] == KILN_END) return step < 0 ? hi : lo;
    return clamp(start[axis] < 0 ? start[axis] + size : start[axis], lo, hi);
}

RULE(slice)
{
    const int64_t *dims, *step, *got;
    int64_t strides[KILN_MAX_RANK], offset = 0;
    size_t rank = row_major(0, &dims, strides), n_step = kiln_rule_ints("step", &step);
    kiln_rule_out_shape(0, &got);
    for (size_t i = 0; i < rank; i++) {
        int64_t by = i < n_step ? step[i] : 1;
        if (got[i]) offset += slice_start(i, dims[i], by) * strides[i];
        strides[i] *= by;
    }
    din[0] = kiln_embed(dout[0], rank, dims, rank, strides, offset);
    return kiln_error();
}

RULE(narrow)
{
    const int64_t *dims;
    int64_t strides[KILN_MAX_RANK];
    size_t rank = row_major(0, &dims, strides);
    int64_t offset = kiln_rule_int("start") * strides[axis_of("axis", rank)];
    din[0] = kiln_embed(dout[0], rank, dims, rank, strides, kiln_numel(dout[0]) ? offset : 0);
    return kiln_error();
}

static void drop(int64_t *v, size_t rank, int64_t axis)
{
    for (size_t i = (size_t)axis; i + 1 < rank; i++) v[i] = v[i + 1];
}

RULE(select)
{
    const int64_t *dims;
    int64_t strides[KILN_MAX_RANK];
    size_t rank = row_major(0, &dims, strides);
    int64_t axis = axis_of("axis", rank), index = kiln_rule_int("index");
    int64_t offset = (index < 0 ? index + dims[axis] : index) * strides[axis];
    drop(strides, rank, axis);
    din[0] = kiln_embed(dout[0], rank, dims, rank - 1, strides, offset);
    return kiln_error();
}

RULE(diagonal)
{
    const int64_t *dims;
    int64_t strides[KILN_MAX_RANK], part[KILN_MAX_RANK], k = kiln_rule_int("offset");
    size_t rank = row_major(0, &dims, strides), n = 0;
    int64_t i = axis_of("axis0", rank), j = axis_of("axis1", rank), offset = k < 0 ? -k * strides[i] : k * strides[j];
    for (size_t d = 0; d < rank; d++)
        if ((int64_t)d != i && (int64_t)d != j) part[n++] = strides[d];
    part[n] = strides[i] + strides[j];
    din[0] = kiln_embed(dout[0], rank, dims, rank - 1, part, kiln_numel(dout[0]) ? offset : 0);
    return kiln_error();
}

// as_strided reads a storage, of which x shows some positions, too. So the gradient is gathered over the storage's
// positions, and read back through x's strides. Positions that the result shows several times add up: dimensions are
// taken apart, one index after the other, until the rest shows no position twice.

struct strided {
    size_t rank;
    int64_t dims[KILN_MAX_RANK], strides[KILN_MAX_RANK], offset;
};

static int64_t distance(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

// Of the dimensions up to the first that does not clear the reach of those with smaller strides the one with the fewest
// entries: windows are taken apart by their elements, not one by one. -1 when no position is shown twice.
static int overlapping_dim(const struct strided *s)
{
    uint32_t done = 0;
    int fewest = -1;
    int64_t reach = 0;
    for (size_t k = 0; k < s->rank; k++) {
        int least = -1;
        for (size_t i = 0; i < s->rank; i++)
            if (!(done >> i & 1) && (least < 0 || distance(s->strides[i]) < distance(s->strides[least])))
                least = (int)i;
        if (s->dims[least] > 1 && (fewest < 0 || s->dims[least] < s->dims[fewest])) fewest = least;
        if (s->dims[least] > 1 && distance(s->strides[least]) <= reach) return fewest;
        reach += distance(s->strides[least]) * (s->dims[least] - 1);
        done |= 1u << least;
    }
    return -1;
}

static kiln_tensor *gather(kiln_tensor *dy, struct strided s, int64_t n)
{
    int d = overlapping_dim(&s);
    if (d < 0) return kiln_embed(dy, KILN_SHAPE(n), s.rank, s.strides, s.offset);
    struct strided part = s;
    kiln_tensor *total = NULL;
    drop(part.dims, s.rank, d);
    drop(part.strides, s.rank, d);
    part.rank--;
    if (s.strides[d] == 0) return gather(kiln_sum(dy, KILN_REDUCE(.axes = KILN_AXES(d))), part, n);
    for (int64_t i = 0; i < s.dims[d] && !kiln_error(); i++) {
        part.offset = s.offset + i * s.strides[d];
        kiln_tensor *one = gather(kiln_select(dy, d, i), part, n);
        total = total ? kiln_add(total, one) : one;
    }
    return total;
}

static int64_t end_of(const struct strided *s)
{
    int64_t end = s->offset;
    for (size_t i = 0; i < s->rank; i++) {
        if (s->dims[i] == 0) return 0;
        if (s->strides[i] > 0) end += s->strides[i] * (s->dims[i] - 1);
    }
    return end + 1;
}

static void strided_from(struct strided *s, size_t rank, const int64_t *dims, const int64_t *strides, int64_t offset)
{
    *s = (struct strided){.rank = rank, .offset = offset};
    for (size_t i = 0; i < rank; i++) {
        s->dims[i] = dims[i];
        s->strides[i] = strides[i];
    }
}

RULE(as_strided)
{
    const int64_t *shape, *strides, *dims, *x_strides;
    struct strided x, y;
    size_t rank = kiln_rule_ints("shape", &shape);
    kiln_rule_ints("strides", &strides);
    strided_from(&y, rank, shape, strides, kiln_rule_int("offset"));
    rank = kiln_rule_in_shape(0, &dims);
    int64_t offset = kiln_rule_in_strides(0, &x_strides);
    strided_from(&x, rank, dims, x_strides, offset);
    if (kiln_numel(dout[0]) == 0 || end_of(&x) == 0) return KILN_OK;
    int64_t n = end_of(&x) > end_of(&y) ? end_of(&x) : end_of(&y), shared = 1;
    kiln_tensor *whole = gather(dout[0], y, n);
    din[0] = kiln_as_strided(whole, rank, x.dims, rank, x.strides, x.offset);
    // Elements of x that are one in memory share its gradient.
    for (size_t i = 0; i < rank; i++)
        if (x.strides[i] == 0) shared *= x.dims[i];
    if (shared > 1) din[0] = kiln_div(din[0], kiln_scalar((double)shared));
    return kiln_error();
}

RULE(embed)
{
    const int64_t *strides;
    size_t n = kiln_rule_ints("strides", &strides);
    din[0] = kiln_as_strided(kiln_contiguous(dout[0]), IN_SHAPE(0), n, strides, kiln_rule_int("offset"));
    return kiln_error();
}

RULE(as_strided_scatter)
{
    const int64_t *strides, *dims;
    size_t n = kiln_rule_ints("strides", &strides), rank = kiln_rule_in_shape(1, &dims);
    int64_t offset = kiln_rule_int("offset");
    if (kiln_rule_wants(0)) {
        kiln_tensor *zeros = kiln_zeros(kiln_tensor_device(dout[0]), kiln_tensor_dtype(dout[0]), rank, dims);
        din[0] = kiln_as_strided_scatter(dout[0], zeros, n, strides, offset);
    }
    if (kiln_rule_wants(1)) din[1] = kiln_as_strided(kiln_contiguous(dout[0]), rank, dims, n, strides, offset);
    return kiln_error();
}

// t where its memory is its own elements in row-major order, else a copy. As a handle of its own: in a capture a handle
// of which a view was taken speaks of memory, which may be another's.
static kiln_tensor *in_order(kiln_tensor *t)
{
    bool shown = t->builder && t->variable;
    return shown || !layout_is_contiguous(&t->type, &t->layout) ? kiln_contiguous(t) : t;
}

// Many of them follow each other, one for each of many pieces: they share the copy.
RULE(as_strided_add)
{
    const int64_t *strides;
    size_t n = kiln_rule_ints("strides", &strides);
    din[0] = in_order(dout[0]);
    kiln_tensor *other = din[0] ? grad_second_handle(din[0]) : NULL;
    if (other && kiln_rule_wants(1))
        din[1] = kiln_as_strided(other, IN_SHAPE(1), n, strides, other->layout.offset + kiln_rule_int("offset"));
    return kiln_error();
}

static const kiln_rule_spec rules[] = {
    {.op = "reshape", .fn = reshape},
    {.op = "squeeze", .fn = reshape},
    {.op = "unsqueeze", .fn = reshape},
    {.op = "flatten", .fn = reshape},
    {.op = "permute", .fn = permute},
    {.op = "transpose", .fn = transpose},
    {.op = "expand", .fn = expand},
    {.op = "flip", .fn = flip},
    {.op = "slice", .fn = slice},
    {.op = "narrow", .fn = narrow},
    {.op = "select", .fn = select},
    {.op = "diagonal", .fn = diagonal},
    {.op = "as_strided", .fn = as_strided},
    {.op = "embed", .fn = embed},
    {.op = "as_strided_scatter", .fn = as_strided_scatter},
    {.op = "as_strided_add", .fn = as_strided_add},
};
RULES(view, rules);
