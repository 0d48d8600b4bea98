// Steps that move elements: views, parts, and what is put together of them.
#include "fuzz.h"

kiln_tensor *step_view(struct operands *o)
{
    int64_t rank = (int64_t)kiln_rank(o->a), axis = choose_axis(o, o->a);
    uint32_t which = choose(o, 6);
    if (!rank) return say(o, "unsqueeze(%s, 0)", o->na), kiln_unsqueeze(o->a, 0);
    int64_t size = kiln_dim(o->a, axis), at = size ? choose(o, (uint32_t)size) : 0;
    switch (which) {
    case 0: say(o, "transpose(%s, 0, -1)", o->na); return kiln_transpose(o->a, 0, -1);
    case 1:
        say(o, "narrow(%s, %d, %d, %d)", o->na, (int)axis, (int)at, (int)(size - at));
        return kiln_narrow(o->a, axis, at, size - at);
    case 2:
        if (!size) return NULL;
        say(o, "select(%s, %d, %d)", o->na, (int)axis, (int)at);
        return kiln_select(o->a, axis, at);
    case 3: say(o, "unsqueeze(%s, %d)", o->na, (int)axis); return kiln_unsqueeze(o->a, axis);
    case 4: say(o, "squeeze(%s)", o->na); return kiln_squeeze(o->a, KILN_AXES0);
    default: say(o, "flip(%s, %d)", o->na, (int)axis); return kiln_flip(o->a, (kiln_ints){1, &axis});
    }
}

// Bounds and steps along each axis. The text is that of Python.
struct bounds {
    int64_t start[KILN_MAX_RANK], stop[KILN_MAX_RANK], step[KILN_MAX_RANK];
    char text[12 * KILN_MAX_RANK];
};

static void choose_bounds(struct operands *o, kiln_tensor *t, struct bounds *b)
{
    int at = 0;
    for (size_t i = 0; i < kiln_rank(t); i++) {
        int64_t size = kiln_dims(t)[i];
        b->start[i] = choose(o, 2) && size ? choose(o, (uint32_t)size) : 0;
        b->stop[i] = choose(o, 2) && size > 1 ? -1 : KILN_END;
        b->step[i] = choose(o, 3) ? 1 : 2;
        at += snprintf(b->text + at, sizeof b->text - (size_t)at, "%s%d:%s:%d", i ? ", " : "", (int)b->start[i],
                       b->stop[i] == KILN_END ? "" : "-1", (int)b->step[i]);
    }
}

#define SLICE_OF(b, rank) KILN_SLICE(.start = {rank, (b).start}, .stop = {rank, (b).stop}, .step = {rank, (b).step})

kiln_tensor *step_slice(struct operands *o)
{
    struct bounds b = {.text = ""};
    if (!kiln_rank(o->a)) return NULL;
    choose_bounds(o, o->a, &b);
    say(o, "%s[%s]", o->na, b.text);
    return kiln_slice(o->a, SLICE_OF(b, kiln_rank(o->a)));
}

kiln_tensor *step_set_slice(struct operands *o)
{
    struct bounds b = {.text = ""};
    size_t rank = kiln_rank(o->a);
    if (!rank || !is_float(o->a)) return NULL;
    choose_bounds(o, o->a, &b);
    kiln_tensor *part = kiln_slice(o->a, SLICE_OF(b, rank));
    if (!part) return NULL;
    bool fits = broadcasts(part, o->b, true);
    kiln_tensor *src = fits ? o->b : kiln_scalar(1.5);
    say(o, "set_slice(%s, [%s], %s)", o->na, b.text, fits ? o->nb : "1.5");
    return kiln_set_slice(o->a, SLICE_OF(b, rank), src) ? NULL : o->a;
}

kiln_tensor *step_reshape(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    int64_t n = kiln_numel(o->a), part = 2 + choose(o, 3);
    switch (choose(o, 4)) {
    case 0: say(o, "reshape(%s, -1)", o->na); return kiln_reshape(o->a, KILN_SHAPE(n));
    case 1:
        if (!rank) return NULL;
        say(o, "flatten(%s, 0, -1)", o->na);
        return kiln_flatten(o->a, 0, -1);
    case 2:
        if (n % part) return NULL;
        say(o, "reshape(%s, %d, -1)", o->na, (int)part);
        return kiln_reshape(o->a, KILN_SHAPE(part, n / part));
    default: say(o, "contiguous(%s)", o->na); return kiln_contiguous(o->a);
    }
}

// Along a new axis, or along those of size 1.
kiln_tensor *step_expand(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    int64_t dims[KILN_MAX_RANK + 1], n = kiln_numel(o->a);
    bool grown = choose(o, 2) || !rank;
    kiln_tensor *x = grown ? kiln_unsqueeze(o->a, choose(o, 2) && rank ? -1 : 0) : o->a;
    for (size_t i = 0; i < kiln_rank(x); i++) {
        dims[i] = kiln_dims(x)[i] == 1 ? 1 + (int64_t)choose(o, 4) : -1;
        if (dims[i] > 0) n *= dims[i];
    }
    if (n > LARGEST || too_deep(o, x, 5)) return NULL;
    say(o, "expand(%s%s, %d ...)", grown ? "unsqueezed " : "", o->na, (int)dims[0]);
    return kiln_expand(x, kiln_rank(x), dims);
}

kiln_tensor *step_strided(struct operands *o)
{
    size_t rank = kiln_rank(o->a);
    if (choose(o, 2) && rank >= 2) {
        say(o, "diagonal(%s, 0, 0, -1)", o->na);
        return kiln_diagonal(o->a, (int64_t)choose(o, 2), 0, -1);
    }
    int64_t n = kiln_numel(o->a);
    if (n < 6 || !kiln_is_contiguous(o->a)) return NULL;
    if (choose(o, 2)) {
        say(o, "(flat %s)[::2]", o->na);
        return kiln_slice(kiln_reshape(o->a, KILN_SHAPE(n)), KILN_SLICE(.step = KILN_ARGS(2)));
    }
    // By places in its memory: where a value lies there is not the same captured, so the step is of one made here.
    say(o, "as_strided(%s + 0, (2, 2), (3, 1), 1)", o->na);
    kiln_tensor *own = kiln_contiguous(o->a);
    return kiln_as_strided(own, 2, (const int64_t[]){2, 2}, 2, (const int64_t[]){3, 1}, 1);
}

kiln_tensor *step_part(struct operands *o)
{
    kiln_tensor *out[8];
    int64_t axis = choose_axis(o, o->a);
    if (!kiln_rank(o->a)) return NULL;
    int64_t size = kiln_dim(o->a, axis);
    if (!size) return NULL;
    switch (choose(o, 3)) {
    case 0: {
        if (size > 8) return NULL;
        uint32_t which = choose(o, (uint32_t)size);
        say(o, "unstack(%s, %d), part %u", o->na, (int)axis, which);
        return kiln_unstack(o->a, axis, out, (size_t)size) ? NULL : out[which];
    }
    case 1: {
        if (size % 2) return NULL;
        uint32_t which = choose(o, 2);
        say(o, "split(%s, %d, 2), part %u", o->na, (int)axis, which);
        return kiln_split(o->a, axis, out, 2) ? NULL : out[which];
    }
    default: {
        const int64_t sizes[] = {size / 3, size - size / 3};
        uint32_t which = choose(o, 2);
        say(o, "split_sizes(%s, %d, {%d, %d}), part %u", o->na, (int)axis, (int)sizes[0], (int)sizes[1], which);
        return kiln_split_sizes(o->a, axis, 2, sizes, out) ? NULL : out[which];
    }
    }
}

// Other handles on the same memory.
kiln_tensor *step_alias(struct operands *o)
{
    switch (choose(o, 3)) {
    case 0: say(o, "stop_gradient(%s)", o->na); return kiln_stop_gradient(o->a);
    case 1: say(o, "alias(%s)", o->na); return kiln_alias(o->a);
    default: say(o, "positive(%s)", o->na); return is_bool(o->a) ? NULL : kiln_positive(o->a);
    }
}

static bool joins(kiln_tensor *a, kiln_tensor *b, int64_t axis)
{
    if (kiln_rank(a) != kiln_rank(b)) return false;
    for (int64_t i = 0; i < (int64_t)kiln_rank(a); i++)
        if (i != axis && kiln_dims(a)[i] != kiln_dims(b)[i]) return false;
    return true;
}

kiln_tensor *step_join(struct operands *o)
{
    int64_t rank = (int64_t)kiln_rank(o->a), axis = rank ? choose(o, (uint32_t)rank) : 0;
    bool stack = choose(o, 2) || !rank, fits = stack ? same_shape(o->a, o->b) : joins(o->a, o->b, axis);
    bool third = choose(o, 3) == 0, last = stack ? same_shape(o->a, o->c) : joins(o->a, o->c, axis);
    kiln_tensor *all[] = {o->a, fits ? o->b : o->a, last ? o->c : o->a};
    size_t n = third ? 3 : 2;
    say(o, "%s(%s, %s%s%s; %d)", stack ? "stack" : "concat", o->na, fits ? o->nb : o->na, third ? ", " : "",
        !third ? ""
        : last ? o->nc
               : o->na,
        (int)axis);
    return stack ? kiln_stack(all, n, axis) : kiln_concat(all, n, axis);
}

kiln_tensor *step_repeat(struct operands *o)
{
    int64_t rank = (int64_t)kiln_rank(o->a), axis = choose_axis(o, o->a), times = 1 + choose(o, 3);
    if (kiln_numel(o->a) * times * 2 > LARGEST || too_deep(o, o->a, 4)) return NULL;
    if (choose(o, 2) && rank) {
        say(o, "repeat_interleave(%s, %d, %d)", o->na, (int)times, (int)axis);
        return kiln_repeat_interleave(o->a, times, axis);
    }
    say(o, "tile(%s, {2, %d})", o->na, (int)times);
    return kiln_tile(o->a, KILN_SHAPE(2, times));
}

kiln_tensor *step_pad(struct operands *o)
{
    static const char *const modes[] = {"constant", "reflect", "edge", "circular"};
    size_t rank = kiln_rank(o->a);
    int64_t before[KILN_MAX_RANK], after[KILN_MAX_RANK], n = 1, mode = choose(o, 4);
    if (!rank || too_deep(o, o->a, 4) || !kiln_numel(o->a)) return NULL;
    for (size_t i = 0; i < rank; i++) {
        int64_t size = kiln_dims(o->a)[i], most = mode == KILN_PAD_REFLECT    ? size - 1
                                                  : mode == KILN_PAD_CIRCULAR ? size
                                                                              : 3;
        before[i] = choose(o, 2) && most ? choose(o, (uint32_t)(most < 3 ? most : 3) + 1) : 0;
        after[i] = choose(o, 2) && most ? choose(o, (uint32_t)(most < 3 ? most : 3) + 1) : 0;
        n *= before[i] + size + after[i];
    }
    double value = choose(o, 2) ? 0 : 1.5;
    if (n > LARGEST || (value && !is_float(o->a))) return NULL;
    say(o, "pad(%s, %s, before %d ... %d, after %d ... %d, %g)", o->na, modes[mode], (int)before[0],
        (int)before[rank - 1], (int)after[0], (int)after[rank - 1], value);
    return kiln_pad(o->a, KILN_PAD(.before = {rank, before}, .after = {rank, after}, .value = value, .mode = mode));
}

kiln_tensor *step_roll(struct operands *o)
{
    int64_t shift = (int64_t)choose(o, 5) - 2, axis = choose_axis(o, o->a);
    bool flat = choose(o, 3) == 0 || !kiln_rank(o->a);
    say(o, "roll(%s, %d, %s %d)", o->na, (int)shift, flat ? "flat" : "axis", flat ? 0 : (int)axis);
    return kiln_roll(o->a, (kiln_ints){1, &shift}, (kiln_ints){flat ? 0 : 1, &axis});
}

kiln_tensor *step_triangle(struct operands *o)
{
    if (kiln_rank(o->a) < 2) return NULL;
    int64_t k = (int64_t)choose(o, 3) - 1;
    bool low = choose(o, 2);
    say(o, "%s(%s, %d)", low ? "tril" : "triu", o->na, (int)k);
    return low ? kiln_tril(o->a, k) : kiln_triu(o->a, k);
}

// x with a part replaced by src, or with src added to it: src's elements in order, or a matrix by its columns.
static kiln_tensor *into_part(struct operands *o, kiln_tensor *src)
{
    bool add = choose(o, 2) && !is_bool(o->a), turned = kiln_rank(src) == 2 && choose(o, 2);
    int64_t m = kiln_numel(src), offset = kiln_numel(o->a) - m, strides[] = {1, turned ? kiln_dims(src)[0] : 0};
    if (!turned) src = kiln_reshape(src, KILN_SHAPE(m));
    say(o, "as_strided_%s(%s, %s%s, {1%s}, %d)", add ? "add" : "scatter", o->na, turned ? "" : "flat ", o->nb,
        turned ? ", its height" : "", (int)offset);
    src = kiln_cast(src, kiln_tensor_dtype(o->a));
    return add ? kiln_as_strided_add(o->a, src, turned ? 2 : 1, strides, offset)
               : kiln_as_strided_scatter(o->a, src, turned ? 2 : 1, strides, offset);
}

// Into every second element of a line, and the copy that has a part of another tensor.
kiln_tensor *step_embed(struct operands *o)
{
    int64_t n = kiln_numel(o->a), step = 2, m = kiln_numel(o->b);
    if (!n || 2 * n + 1 > LARGEST) return NULL;
    if (!choose(o, 2) && m && m <= n && is_float(o->b) == is_float(o->a)) return into_part(o, o->b);
    say(o, "embed(flat %s, {%d}, {2}, 1)", o->na, (int)(2 * n + 1));
    return kiln_embed(kiln_reshape(o->a, KILN_SHAPE(n)), KILN_SHAPE(2 * n + 1), 1, &step, 1);
}
