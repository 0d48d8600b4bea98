// Movement of numbers of which two lie in a byte, along the last axis: where that axis stays whole and last, bytes move
// as numbers do.
#include "stored/stored.h"
#include <string.h>

static struct attr *attr_of(const struct stored_call *c, struct attr *attrs, const char *name)
{
    return &attrs[op_attr_index(c->op, name)];
}

static void refuse(const struct stored_call *c, const char *why)
{
    char text[TYPE_TEXT_MAX];
    const kiln_tensor *x = c->in[0];
    error_set(KILN_E_SHAPE, "two %s lie in a byte along the last axis, %s, x is %s: convert it by kiln_cast",
              dtype_name(stored_dtype(x)), why, tensor_text(x, text, sizeof text));
}

static int64_t last_of(const struct stored_call *c)
{
    return c->in[0]->type.rank - 1;
}

// An axis of `rank`, counted from the front, that is not the last.
static int64_t axis_before_last(const struct stored_call *c, int64_t axis, int64_t rank)
{
    char text[TYPE_TEXT_MAX];
    int64_t at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank)
        error_set(KILN_E_AXIS, "axis %lld is out of range for %s", (long long)axis,
                  tensor_text(c->in[0], text, sizeof text));
    else if (at == rank - 1)
        refuse(c, "which has to stay whole and last");
    return at;
}

void packed_as_is(const struct stored_call *c, struct attr *attrs)
{
    (void)c, (void)attrs;
}

void packed_axis(const struct stored_call *c, struct attr *attrs)
{
    struct attr *a = attr_of(c, attrs, "axis");
    a->i = axis_before_last(c, a->i, last_of(c) + 1);
}

void packed_new_axis(const struct stored_call *c, struct attr *attrs)
{
    struct attr *a = attr_of(c, attrs, "axis");
    a->i = axis_before_last(c, a->i, last_of(c) + 2);
}

// None given means all, or the elements in one row.
void packed_axes(const struct stored_call *c, struct attr *attrs)
{
    struct attr *a = attr_of(c, attrs, "axes");
    if (!a->count) refuse(c, "which has to stay whole and last");
    for (int i = 0; i < a->count && i < MAX_RANK && !error_pending; i++)
        a->v[i] = axis_before_last(c, a->v[i], last_of(c) + 1);
}

// None given means all of size 1, of which a last one of two numbers is none.
void packed_squeeze(const struct stored_call *c, struct attr *attrs)
{
    struct attr *a = attr_of(c, attrs, "axes");
    const struct type *t = &c->in[0]->type;
    if (a->count) {
        packed_axes(c, attrs);
        return;
    }
    for (int i = 0; i < last_of(c); i++)
        if (t->dims[i] == 1) a->v[a->count++] = i;
}

kiln_tensor *stored_squeeze(const struct stored_call *c)
{
    static const struct stored_rule move = {"squeeze", NULL, packed_squeeze, 0};
    const kiln_tensor *x = c->in[0];
    bool some = !shown_is_packed(x->shown) || attr_of(c, c->attrs, "axes")->count;
    for (int i = 0; i < last_of(c) && !some; i++) some = x->type.dims[i] == 1;
    return some ? stored_move(c, &move) : kiln_alias(c->in[0]);
}

void packed_two_axes(const struct stored_call *c, struct attr *attrs)
{
    static const char *const names[] = {"axis0", "axis1"};
    for (int i = 0; i < 2 && !error_pending; i++) {
        struct attr *a = attr_of(c, attrs, names[i]);
        a->i = axis_before_last(c, a->i, last_of(c) + 1);
    }
}

void packed_permute(const struct stored_call *c, struct attr *attrs)
{
    const struct attr *a = attr_of(c, attrs, "axes");
    int64_t last = last_of(c);
    bool known = a->count == last + 1;
    if (known && a->v[last] != last && a->v[last] != -1) refuse(c, "which has to stay whole and last");
}

// Elements stay in their order, so bytes do.
void packed_reshape(const struct stored_call *c, struct attr *attrs)
{
    struct attr *a = attr_of(c, attrs, "shape");
    if (a->count > MAX_RANK) return;
    int64_t *last = a->count ? &a->v[a->count - 1] : NULL;
    if (!last || (*last > 0 && *last % 2)) {
        refuse(c, "which would be of odd size");
        return;
    }
    if (*last > 0) *last /= 2;
    if (*last != -1) return;
    int64_t rest = 1, n = type_numel(&c->in[0]->type);
    for (int i = 0; i + 1 < a->count; i++)
        if (a->v[i] < 0 || __builtin_mul_overflow(rest, a->v[i], &rest)) return; // of which the op tells
    if (rest > 0 && rest % 2 == 0 && n % rest == rest / 2) refuse(c, "which would be of odd size");
}

void packed_expand(const struct stored_call *c, struct attr *attrs)
{
    struct attr *a = attr_of(c, attrs, "shape");
    if (a->count > MAX_RANK || a->count == 0) return;
    int64_t *last = &a->v[a->count - 1];
    if (*last == -1) return;
    if (*last != tensor_shown_dims(c->in[0])[last_of(c)])
        refuse(c, "which keeps its size");
    else
        *last /= 2;
}

void packed_slice(const struct stored_call *c, struct attr *attrs)
{
    int64_t last = last_of(c), size = tensor_shown_dims(c->in[0])[last];
    struct attr *start = attr_of(c, attrs, "start"), *stop = attr_of(c, attrs, "stop"),
                *step = attr_of(c, attrs, "step");
    if (start->count > last + 1 || stop->count > last + 1 || step->count > last + 1) return;
    bool whole = (start->count <= last || start->v[last] == 0 || start->v[last] <= -size) &&
                 (stop->count <= last || stop->v[last] >= size) && (step->count <= last || step->v[last] == 1);
    if (!whole) refuse(c, "which has to stay whole and last");
    if (start->count > last) start->count = (int)last;
    if (stop->count > last) stop->count = (int)last;
    if (step->count > last) step->count = (int)last;
}

void packed_tile(const struct stored_call *c, struct attr *attrs)
{
    const struct attr *a = attr_of(c, attrs, "repeats");
    bool known = a->count > 0 && a->count <= MAX_RANK;
    if (known && a->v[a->count - 1] != 1) refuse(c, "which has to stay whole and last");
}
