// Attributes of a node. One that stands for the attribute of a function's caller is looked up there.
#include "onnx/call.h"
#include <string.h>

static const struct onnx_attr *own(const struct onnx_attr *v, int32_t n, const char *name, int *index)
{
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(v[i].name, name)) {
            if (index) *index = i;
            return &v[i];
        }
    return NULL;
}

const struct onnx_attr *onnx_frame_attr(const struct onnx_frame *frame, const struct onnx_node *n, const char *name,
                                        int *index)
{
    const struct onnx_attr *a = own(n->attrs, n->n_attrs, name, index);
    while (a && a->of_caller) {
        while (frame && frame->outer) frame = frame->outer;
        if (!frame || !frame->caller) return NULL;
        const struct onnx_attr *given = own(frame->caller->attrs, frame->caller->n_attrs, a->of_caller, NULL);
        if (!given) return own(frame->function->defaults, frame->function->n_defaults, a->of_caller, NULL);
        a = given;
        frame = frame->caller_frame;
    }
    return a;
}

const struct onnx_attr *onnx_attr(struct onnx_call *c, const char *name)
{
    int index = -1;
    const struct onnx_attr *a = onnx_frame_attr(c->frame, c->node, name, &index);
    if (index >= 0) c->asked |= UINT64_C(1) << index;
    return a;
}

static kiln_status wrong_type(const struct onnx_call *c, const struct onnx_attr *a)
{
    return onnx_bad(c, KILN_E_FORMAT, "attribute %.40s is of type %d", a->name, a->type);
}

kiln_status onnx_int(struct onnx_call *c, const char *name, int64_t fallback, int64_t *out)
{
    const struct onnx_attr *a = onnx_attr(c, name);
    *out = a ? a->i : fallback;
    return !a || a->type == ONNX_INT ? KILN_OK : wrong_type(c, a);
}

kiln_status onnx_float(struct onnx_call *c, const char *name, double fallback, double *out)
{
    const struct onnx_attr *a = onnx_attr(c, name);
    *out = a ? (double)a->f : fallback;
    return !a || a->type == ONNX_FLOAT ? KILN_OK : wrong_type(c, a);
}

kiln_status onnx_string(struct onnx_call *c, const char *name, const char *fallback, const char **out)
{
    const struct onnx_attr *a = onnx_attr(c, name);
    *out = a ? a->s : fallback;
    return !a || a->type == ONNX_STRING ? KILN_OK : wrong_type(c, a);
}

kiln_status onnx_ints(struct onnx_call *c, const char *name, kiln_ints *out)
{
    const struct onnx_attr *a = onnx_attr(c, name);
    *out = (kiln_ints){a ? a->n : 0, a ? a->ints : NULL};
    return !a || a->type == ONNX_INTS ? KILN_OK : wrong_type(c, a);
}

kiln_status onnx_floats(struct onnx_call *c, const char *name, size_t *n, const float **out)
{
    const struct onnx_attr *a = onnx_attr(c, name);
    *n = a ? a->n : 0;
    *out = a ? a->floats : NULL;
    return !a || a->type == ONNX_FLOATS ? KILN_OK : wrong_type(c, a);
}

kiln_status onnx_graph_attr(struct onnx_call *c, const char *name, struct onnx_graph **out)
{
    const struct onnx_attr *a = onnx_attr(c, name);
    *out = a ? a->graph : NULL;
    if (!a) return onnx_bad(c, KILN_E_FORMAT, "attribute %s is not given", name);
    // The values that such a graph uses are not where the caller's graph is.
    if (a->type == ONNX_GRAPH && !onnx_frame_attr(NULL, c->node, name, NULL))
        return onnx_bad(c, KILN_E_UNSUPPORTED, "attribute %s is a graph of a function's caller", name);
    return a->type == ONNX_GRAPH ? KILN_OK : wrong_type(c, a);
}

kiln_status onnx_check_asked(struct onnx_call *c)
{
    for (int32_t i = 0; i < c->node->n_attrs; i++)
        if (!(c->asked >> i & 1))
            return onnx_bad(c, KILN_E_UNSUPPORTED, "attribute \"%.60s\" is not known here", c->node->attrs[i].name);
    return KILN_OK;
}
