// Ops whose column says all: the row's op on the node's inputs, its attributes by the maps.
#include "onnx/call.h"
#include "tensor/apply.h"
#include <stdlib.h>

static kiln_status number_of(struct onnx_call *c, const struct onnx_map *map, uint8_t kind, struct attr *out)
{
    const struct onnx_attr *a = map->kind == ONNX_CONSTANT ? NULL : onnx_attr(c, map->name);
    if (!a && map->kind == ONNX_REQUIRED) return onnx_bad(c, KILN_E_FORMAT, "attribute %s is not given", map->name);
    if (a && a->type != (kind == ATTR_FLOAT ? ONNX_FLOAT : ONNX_INT))
        return onnx_bad(c, KILN_E_FORMAT, "attribute %s is of type %d", map->name, a->type);
    if (kind == ATTR_FLOAT)
        *out = attr_of_float(a ? (double)a->f : (double)(float)map->number);
    else
        *out = kind == ATTR_BOOL ? attr_of_bool(a ? a->i != 0 : map->number != 0)
                                 : attr_of_int(a ? a->i : (int64_t)map->number);
    return KILN_OK;
}

kiln_status onnx_apply_row(struct onnx_call *c)
{
    const struct op *op = op_table[c->row->op];
    struct attr attrs[OP_MAX_ATTRS];
    kiln_tensor *few[8], *out[OP_MAX_OUT];
    for (int i = 0; i < c->row->n_maps; i++) {
        const struct onnx_map *map = &c->row->maps[i];
        if (map->attr < 0)
            (void)onnx_attr(c, map->name); // what found the row
        else
            TRY(number_of(c, map, op->attrs[map->attr].kind, &attrs[map->attr]));
    }
    TRY(onnx_check_counts(c, c->n_in, op->flags & OP_VARIADIC ? INT32_MAX : op->max_in, op->n_out));
    if (c->n_in > 255) return onnx_bad(c, KILN_E_UNSUPPORTED, "has %d inputs, more than 255", c->n_in);
    kiln_tensor **in = c->n_in <= (int)COUNT_OF(few) ? few : malloc((size_t)c->n_in * sizeof *in);
    kiln_status status = in ? KILN_OK : onnx_bad(c, KILN_E_MEMORY, "out of memory");
    for (int i = 0; i < c->n_in && !status; i++)
        if (!(in[i] = onnx_in(c, i))) status = error_pending;
    if (!status) status = op_apply(op, c->dev, c->n_in, in, attrs, out);
    for (int i = 0; i < op->n_out && !status; i++) status = onnx_wants(c, i) ? onnx_give(c, i, out[i]) : KILN_OK;
    if (in != few) free(in);
    return status;
}
