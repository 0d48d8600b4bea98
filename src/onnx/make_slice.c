// Parts of tensors, and tensors around them.
#include "onnx/onnx_fns.h"
#include <string.h>

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

// ONNX's bounds, which may lie anywhere, as Kiln's.
static void set_bounds(int64_t size, int64_t step, int64_t *start, int64_t *stop)
{
    int64_t top = step < 0 ? size - 1 : size;
    if (*start < 0) *start = *start < -size ? (step < 0 ? -1 : 0) : *start + size;
    if (*stop < 0) *stop = *stop < -size ? (step < 0 ? -1 : 0) : *stop + size;
    *start = clamp(*start, step < 0 ? -1 : 0, top);
    *stop = clamp(*stop, step < 0 ? -1 : 0, size);
    if (step < 0 && *start <= *stop) *start = *stop = 0; // nothing
    if (step < 0 && *stop < 0) *stop = KILN_END;
}

kiln_status onnx_op_slice(struct onnx_call *c)
{
    int64_t given[4][KILN_MAX_RANK], start[KILN_MAX_RANK], stop[KILN_MAX_RANK], step[KILN_MAX_RANK];
    size_t n[4] = {0};
    TRY(onnx_check_counts(c, 3, 5, 1));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    size_t rank = kiln_rank(x);
    for (int i = 0; i < 4; i++)
        if (onnx_has(c, i + 1)) TRY(onnx_in_ints(c, i + 1, given[i], KILN_MAX_RANK, &n[i]));
    bool fits = n[0] == n[1] && (!onnx_has(c, 3) || n[2] == n[0]) && (!onnx_has(c, 4) || n[3] == n[0]) && n[0] <= rank;
    if (!fits)
        return onnx_bad(c, KILN_E_SHAPE, "starts, ends, axes and steps differ in length, or have more than rank %zu",
                        rank);
    bool seen[KILN_MAX_RANK] = {false};
    for (size_t i = 0; i < rank; i++) {
        start[i] = 0;
        stop[i] = kiln_dims(x)[i];
        step[i] = 1;
    }
    for (size_t i = 0; i < n[0]; i++) {
        int64_t axis;
        TRY(onnx_axis(c, onnx_has(c, 3) ? given[2][i] : (int64_t)i, rank, &axis));
        if (seen[axis]) return onnx_bad(c, KILN_E_AXIS, "axis %lld is given twice", (long long)axis);
        seen[axis] = true;
        step[axis] = onnx_has(c, 4) ? given[3][i] : 1;
        if (!step[axis] || step[axis] == INT64_MIN)
            return onnx_bad(c, KILN_E_ARGUMENT, "a step is %lld", (long long)step[axis]);
        start[axis] = given[0][i];
        stop[axis] = given[1][i];
        set_bounds(kiln_dims(x)[axis], step[axis], &start[axis], &stop[axis]);
        if (step[axis] < -kiln_dims(x)[axis]) step[axis] = -kiln_dims(x)[axis] - 1;
        if (step[axis] > kiln_dims(x)[axis]) step[axis] = kiln_dims(x)[axis] + 1;
    }
    return onnx_give(c, 0,
                     kiln_slice(x, KILN_SLICE(.start = {rank, start}, .stop = {rank, stop}, .step = {rank, step})));
}

kiln_status onnx_op_split(struct onnx_call *c)
{
    int64_t axis, wanted, start = 0;
    struct onnx_host sizes = {0};
    TRY(onnx_check_counts(c, 1, 2, c->n_out));
    TRY(onnx_int(c, "axis", 0, &axis));
    TRY(onnx_int(c, "num_outputs", c->n_out, &wanted));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    TRY(onnx_axis(c, axis, kiln_rank(x), &axis));
    if (onnx_has(c, 1)) TRY(onnx_in_host(c, 1, &sizes));
    if (wanted != c->n_out || (sizes.data && sizes.numel != wanted))
        return onnx_bad(c, KILN_E_SHAPE, "has %d outputs, and %lld parts", c->n_out,
                        (long long)(sizes.data ? sizes.numel : wanted));
    int64_t size = kiln_dims(x)[axis], part = (size + wanted - 1) / wanted;
    for (int i = 0; i < c->n_out; i++) {
        int64_t length = sizes.data ? onnx_host_int(&sizes, i) : part < size - start ? part : size - start;
        if (length < 0 || length > size - start || (i == c->n_out - 1 && start + length != size))
            return onnx_bad(c, KILN_E_SHAPE, "the parts do not make up %lld", (long long)size);
        if (onnx_wants(c, i)) TRY(onnx_give(c, i, kiln_narrow(x, axis, start, length)));
        start += length;
    }
    return KILN_OK;
}

static kiln_status pad_mode(struct onnx_call *c, int64_t *mode)
{
    static const struct {
        const char *name;
        int mode;
    } modes[] = {{"constant", KILN_PAD_CONSTANT},
                 {"reflect", KILN_PAD_REFLECT},
                 {"edge", KILN_PAD_EDGE},
                 {"wrap", KILN_PAD_CIRCULAR}};
    const char *name;
    TRY(onnx_string(c, "mode", "constant", &name));
    for (size_t i = 0; i < COUNT_OF(modes); i++)
        if (!strcmp(modes[i].name, name)) return *mode = modes[i].mode, KILN_OK;
    return onnx_bad(c, KILN_E_UNSUPPORTED, "mode is \"%.20s\"", name);
}

// Places to add before and after each axis; those below 0 cut off.
static kiln_status pad_places(struct onnx_call *c, size_t rank, int64_t *before, int64_t *after)
{
    int64_t pads[2 * KILN_MAX_RANK], axes[KILN_MAX_RANK];
    size_t n, n_axes = rank;
    TRY(onnx_in_ints(c, 1, pads, COUNT_OF(pads), &n));
    for (size_t i = 0; i < rank; i++) {
        before[i] = after[i] = 0;
        axes[i] = (int64_t)i;
    }
    if (onnx_has(c, 3)) TRY(onnx_axes(c, 3, rank, axes, &n_axes));
    if (n != 2 * n_axes) return onnx_bad(c, KILN_E_SHAPE, "%zu pads for %zu axes", n, n_axes);
    for (size_t i = 0; i < n_axes; i++) {
        before[axes[i]] = pads[i];
        after[axes[i]] = pads[n_axes + i];
    }
    return KILN_OK;
}

// What is below 0 is cut off first, and the rest added.
static kiln_tensor *cut(kiln_tensor *x, size_t rank, int64_t *before, int64_t *after)
{
    for (size_t i = 0; i < rank && x; i++) {
        int64_t front = before[i] < 0 ? -before[i] : 0, back = after[i] < 0 ? -after[i] : 0;
        if (front || back) x = kiln_narrow(x, (int64_t)i, front, kiln_dims(x)[i] - front - back);
        if (before[i] < 0) before[i] = 0;
        if (after[i] < 0) after[i] = 0;
    }
    return x;
}

kiln_status onnx_op_pad(struct onnx_call *c)
{
    int64_t before[KILN_MAX_RANK], after[KILN_MAX_RANK], mode;
    double value = 0;
    TRY(onnx_check_counts(c, 2, 4, 1));
    TRY(pad_mode(c, &mode));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    size_t rank = kiln_rank(x);
    TRY(pad_places(c, rank, before, after));
    if (onnx_has(c, 2) && mode == KILN_PAD_CONSTANT) TRY(onnx_in_float(c, 2, &value));
    x = cut(x, rank, before, after);
    NEED(x);
    return onnx_give(
        c, 0, kiln_pad(x, KILN_PAD(.before = {rank, before}, .after = {rank, after}, .value = value, .mode = mode)));
}

kiln_status onnx_op_trilu(struct onnx_call *c)
{
    int64_t upper, k = 0;
    TRY(onnx_check_counts(c, 1, 2, 1));
    TRY(onnx_int(c, "upper", 1, &upper));
    if (onnx_has(c, 1)) TRY(onnx_in_int(c, 1, &k));
    kiln_tensor *x = onnx_in(c, 0);
    NEED(x);
    return onnx_give(c, 0, upper ? kiln_triu(x, k) : kiln_tril(x, k));
}
