// Views: of pairs, with the pairs' dimension left where it is, the last.
#include "complex/complex.h"
#include <string.h>

struct viewed {
    const struct complex_call *c;
    int64_t rank; // as the user sees it
    struct attr attrs[OP_MAX_ATTRS];
};

static struct viewed begin(const struct complex_call *c)
{
    struct viewed v = {.c = c, .rank = (int64_t)complex_rank(c->in[0])};
    memcpy(v.attrs, c->attrs, sizeof *v.attrs * c->op->n_attrs);
    return v;
}

static kiln_tensor *end(struct viewed *v)
{
    kiln_tensor *in[] = {tensor_as_pairs(v->c->in[0])};
    return tensor_as_complex(same_op_with(v->c, in, v->attrs));
}

// An axis of the user's, counted from the front; one that is out of range is told of.
static int64_t axis_of(const struct viewed *v, int64_t axis, int64_t rank)
{
    char text[TYPE_TEXT_MAX];
    int64_t at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && at < rank) return at;
    error_set(KILN_E_AXIS, "axis %lld is out of range for %s", (long long)axis,
              tensor_text(v->c->in[0], text, sizeof text));
    return 0;
}

static void place_axis(struct viewed *v, const char *name, int64_t rank)
{
    struct attr *a = &v->attrs[attr_at(v->c, name)];
    a->i = axis_of(v, a->i, rank);
}

static struct attr *list_of(struct viewed *v, const char *name)
{
    struct attr *a = &v->attrs[attr_at(v->c, name)];
    if (a->count >= MAX_RANK) error_set(KILN_E_SHAPE, "%s has more than %d entries", name, MAX_RANK - 1);
    return a;
}

static void append(struct viewed *v, const char *name, int64_t value)
{
    struct attr *a = list_of(v, name);
    if (!error_pending) a->v[a->count++] = value;
}

static void place_axes(struct viewed *v, const char *name)
{
    struct attr *a = list_of(v, name);
    for (int i = 0; i < a->count && !error_pending; i++) a->v[i] = axis_of(v, a->v[i], v->rank);
}

static kiln_tensor *to_shape(const struct complex_call *c)
{
    struct viewed v = begin(c);
    append(&v, "shape", 2);
    return end(&v);
}

static kiln_tensor *permuted(const struct complex_call *c)
{
    struct viewed v = begin(c);
    place_axes(&v, "axes");
    append(&v, "axes", v.rank);
    return end(&v);
}

static kiln_tensor *of_two_axes(const struct complex_call *c)
{
    struct viewed v = begin(c);
    place_axis(&v, "axis0", v.rank);
    place_axis(&v, "axis1", v.rank);
    return end(&v);
}

// The diagonal comes last, behind the pairs.
static kiln_tensor *diagonal(const struct complex_call *c)
{
    struct viewed v = begin(c);
    place_axis(&v, "axis0", v.rank);
    place_axis(&v, "axis1", v.rank);
    kiln_tensor *in[] = {tensor_as_pairs(c->in[0])};
    return tensor_as_complex(kiln_transpose(same_op_with(c, in, v.attrs), -1, -2));
}

static kiln_tensor *of_one_axis(const struct complex_call *c)
{
    struct viewed v = begin(c);
    place_axis(&v, "axis", v.rank);
    return end(&v);
}

static kiln_tensor *with_new_axis(const struct complex_call *c)
{
    struct viewed v = begin(c);
    place_axis(&v, "axis", v.rank + 1);
    return end(&v);
}

// None given means all of the user's.
static kiln_tensor *of_axes(const struct complex_call *c)
{
    struct viewed v = begin(c);
    place_axes(&v, "axes");
    struct attr *a = &v.attrs[attr_at(c, "axes")];
    if (a->count) return end(&v);
    if (v.rank == 0) return kiln_alias(c->in[0]);
    for (int64_t d = 0; d < v.rank; d++) a->v[a->count++] = d;
    return end(&v);
}

static kiln_tensor *squeezed(const struct complex_call *c) // the pairs are two
{
    struct viewed v = begin(c);
    place_axes(&v, "axes");
    return end(&v);
}

static kiln_tensor *flattened(const struct complex_call *c)
{
    struct viewed v = begin(c);
    if (v.rank == 0) return kiln_reshape(c->in[0], KILN_SHAPE(1));
    place_axis(&v, "start", v.rank);
    place_axis(&v, "stop", v.rank);
    return end(&v);
}

static kiln_tensor *sliced(const struct complex_call *c)
{
    struct viewed v = begin(c);
    if (list_of(&v, "start")->count) append(&v, "start", 0);
    if (list_of(&v, "stop")->count) append(&v, "stop", INT64_MAX);
    if (list_of(&v, "step")->count) append(&v, "step", 1);
    return end(&v);
}

const struct complex_rule complex_views[] = {
    {"reshape", to_shape},
    {"expand", to_shape},
    {"permute", permuted},
    {"transpose", of_two_axes},
    {"diagonal", diagonal},
    {"narrow", of_one_axis},
    {"select", of_one_axis},
    {"squeeze", squeezed},
    {"unsqueeze", with_new_axis},
    {"flip", of_axes},
    {"flatten", flattened},
    {"slice", sliced},
    {NULL, NULL},
};
