// Pieces side by side: each input takes its part of the gradient; what was repeated is summed.
#include "grad/rules/rules.h"

static int64_t axis_of(const char *attr, size_t rank)
{
    int64_t axis = kiln_rule_int(attr);
    return axis < 0 ? axis + (int64_t)rank : axis;
}

RULE(concat)
{
    size_t axis = (size_t)axis_of("axis", kiln_rule_in_shape(0, NULL));
    int64_t at = 0;
    for (size_t i = 0; i < kiln_rule_n_in(); i++) {
        int64_t n = rule_in_dims(i)[axis];
        if (kiln_rule_wants(i)) din[i] = kiln_narrow(dout[0], (int64_t)axis, at, n);
        at += n;
    }
    return kiln_error();
}

RULE(stack)
{
    int64_t axis = axis_of("axis", kiln_rule_in_shape(0, NULL) + 1);
    for (size_t i = 0; i < kiln_rule_n_in(); i++)
        if (kiln_rule_wants(i)) din[i] = kiln_select(dout[0], axis, (int64_t)i);
    return kiln_error();
}

// Sums `repeats` copies of each piece of `size` elements along an axis of t: copies that lie behind each other, or each
// element's side by side (`inner`).
static kiln_tensor *sum_copies(kiln_tensor *t, size_t axis, int64_t size, int64_t repeats, bool inner)
{
    int64_t before = 1, after = 1, dims[KILN_MAX_RANK];
    size_t rank = kiln_rank(t);
    for (size_t d = 0; d < rank; d++) {
        dims[d] = d == axis ? size : kiln_dims(t)[d];
        if (d < axis) before *= dims[d];
        if (d > axis) after *= dims[d];
    }
    t = kiln_reshape(t, KILN_SHAPE(before, inner ? size : repeats, inner ? repeats : size, after));
    t = kiln_sum(t, KILN_REDUCE(.axes = KILN_AXES(inner ? 2 : 1)));
    return kiln_reshape(t, rank, dims);
}

RULE(tile)
{
    const int64_t *repeats, *dims;
    size_t n = kiln_rule_ints("repeats", &repeats), rank = kiln_rule_in_shape(0, &dims), all = n > rank ? n : rank;
    kiln_tensor *t = dout[0];
    for (size_t d = 0; d < all && t; d++) {
        int64_t size = d < all - rank ? 1 : dims[d - (all - rank)], times = d < all - n ? 1 : repeats[d - (all - n)];
        if (times != 1) t = sum_copies(t, d, size, times, false);
    }
    din[0] = kiln_reshape(t, rank, dims);
    return kiln_error();
}

RULE(repeat_interleave)
{
    size_t axis = (size_t)axis_of("axis", kiln_rule_in_shape(0, NULL));
    din[0] = sum_copies(dout[0], axis, rule_in_dims(0)[axis], kiln_rule_int("repeats"), true);
    return kiln_error();
}

RULE(roll)
{
    const int64_t *shifts, *axes;
    int64_t back[KILN_MAX_RANK];
    size_t n = kiln_rule_ints("shifts", &shifts), n_axes = kiln_rule_ints("axes", &axes);
    for (size_t i = 0; i < n; i++) back[i] = -shifts[i];
    din[0] = kiln_roll(dout[0], (kiln_ints){n, back}, (kiln_ints){n_axes, axes});
    return kiln_error();
}

// t along `axis` put to `at` among zeros, `size` elements in all.
static kiln_tensor *place(kiln_tensor *t, size_t axis, int64_t at, int64_t size)
{
    int64_t before[KILN_MAX_RANK] = {0}, after[KILN_MAX_RANK] = {0};
    if (!t) return NULL;
    before[axis] = at;
    after[axis] = size - at - kiln_dims(t)[axis];
    return kiln_pad(t, KILN_PAD(.before = {axis + 1, before}, .after = {axis + 1, after}));
}

// The gradient of a slab of the pad goes to the elements of which it is a copy.
static kiln_tensor *fold_slab(kiln_tensor *slab, size_t axis, int64_t size, int64_t mode, bool first)
{
    int64_t n = kiln_dim(slab, (int64_t)axis), a = (int64_t)axis;
    switch (mode) {
    case KILN_PAD_REFLECT: return place(kiln_flip(slab, KILN_AXES(a)), axis, first ? 1 : size - 1 - n, size);
    case KILN_PAD_EDGE:
        return place(kiln_sum(slab, KILN_REDUCE(.axes = KILN_AXES(a), .keepdims = true)), axis, first ? 0 : size - 1,
                     size);
    default: return place(slab, axis, first ? size - n : 0, size);
    }
}

RULE(pad)
{
    const int64_t *lists[2], *dims;
    size_t counts[2] = {kiln_rule_ints("before", &lists[0]), kiln_rule_ints("after", &lists[1])};
    size_t rank = kiln_rule_in_shape(0, &dims);
    int64_t mode = kiln_rule_int("mode");
    kiln_tensor *t = dout[0];
    for (size_t d = rank; d-- > 0 && t;) {
        int64_t before = d < counts[0] ? lists[0][d] : 0, after = d < counts[1] ? lists[1][d] : 0, a = (int64_t)d;
        if (!before && !after) continue;
        kiln_tensor *sum = kiln_narrow(t, a, before, dims[d]);
        for (int i = 0; i < 2 && mode != KILN_PAD_CONSTANT; i++) {
            int64_t n = i ? after : before;
            kiln_tensor *slab = n ? kiln_narrow(t, a, i ? before + dims[d] : 0, n) : NULL;
            if (slab) sum = kiln_add(sum, fold_slab(slab, d, dims[d], mode, i == 0));
        }
        t = sum;
    }
    din[0] = t;
    return kiln_error();
}

RULE(tril)
{
    din[0] = kiln_tril(dout[0], kiln_rule_int("k"));
    return kiln_error();
}

RULE(triu)
{
    din[0] = kiln_triu(dout[0], kiln_rule_int("k"));
    return kiln_error();
}

// Linear in x: the gradient of the gradient is the op itself.
RULE(resample)
{
    const int64_t *dims;
    int64_t axis = kiln_rule_int("axis");
    size_t rank = kiln_rule_in_shape(0, &dims);
    din[0] = kiln_resample(dout[0], axis, dims[axis < 0 ? axis + (int64_t)rank : axis], kiln_rule_float("step"),
                           kiln_rule_int("align"), kiln_rule_int("cubic"), !kiln_rule_int("adjoint"));
    return kiln_error();
}

RULE(resample2d)
{
    const int64_t *dims;
    size_t rank = kiln_rule_in_shape(0, &dims);
    din[0] = kiln_resample2d(dout[0], dims[rank - 2], dims[rank - 1], kiln_rule_float("step_height"),
                             kiln_rule_float("step_width"), kiln_rule_int("align"), kiln_rule_int("cubic"),
                             !kiln_rule_int("adjoint"));
    return kiln_error();
}

static const kiln_rule_spec rules[] = {
    {.op = "resample", .fn = resample}, {.op = "resample2d", .fn = resample2d},
    {.op = "concat", .fn = concat},     {.op = "stack", .fn = stack},
    {.op = "tile", .fn = tile},         {.op = "repeat_interleave", .fn = repeat_interleave},
    {.op = "roll", .fn = roll},         {.op = "pad", .fn = pad},
    {.op = "tril", .fn = tril},         {.op = "triu", .fn = triu},
};
RULES(join, rules);
