// Host values, one element at a time.
#include "scalar/lib.h"
#include "scalar/prim.h"
#include <math.h>
#include <stdlib.h>

enum { STACK_NODES = 256 };

static union scalar_value lib_value(const struct scalar_node *n, const union scalar_value *arg)
{
    const struct scalar_dag *body = scalar_lib_dag(n->code, n->cls);
    if (body) return scalar_eval(body, arg);
    union scalar_value r = {.bits = 0};
    if (n->cls == CLASS_F32)
        r.f32 = NAN;
    else
        r.f64 = NAN;
    return r;
}

static union scalar_value node_value(const struct scalar_dag *d, int i, const union scalar_value *in,
                                     const union scalar_value *values)
{
    const struct scalar_node *n = &d->nodes[i];
    union scalar_value arg[3] = {{.bits = 0}, {.bits = 0}, {.bits = 0}}, r = {.bits = 0};
    for (int k = 0; k < n->n_args; k++) arg[k] = values[n->arg[k]];
    if (n->kind == SCALAR_CONST) r = n->value;
    if (n->kind == SCALAR_INPUT) r = in[n->code];
    if (n->kind == SCALAR_LIB) r = lib_value(n, arg);
    if (n->kind == SCALAR_PRIM && n->n_args) {
        enum scalar_class key = d->nodes[n->arg[prim_key_arg(n->code)]].cls;
        r = prim_spelling(n->code, key)->host(arg);
    }
    return r;
}

union scalar_value scalar_eval(const struct scalar_dag *d, const union scalar_value *in)
{
    union scalar_value few[STACK_NODES], *values = few, result = {.bits = 0};
    if (d->n_nodes > STACK_NODES) values = malloc((size_t)d->n_nodes * sizeof *values);
    if (!values) {
        error_set(KILN_E_MEMORY, "out of memory for the value of an expression");
        return result;
    }
    for (int i = 0; i < d->n_nodes; i++) {
        values[i] = node_value(d, i, in, values);
        if (i == d->root) result = values[i];
    }
    if (values != few) free(values);
    return result;
}
