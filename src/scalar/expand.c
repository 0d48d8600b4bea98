// Library calls replaced by their expressions, and questions about a DAG.
#include "scalar/dag.h"

static int expand_node(struct dag_builder *b, const struct scalar_node *n, const int *arg)
{
    if (n->kind != SCALAR_LIB) return dag_copy(b, n, arg);
    const struct scalar_dag *body = scalar_lib_dag(n->code, n->cls);
    return body ? dag_inline(b, body, arg) : -1;
}

kiln_status scalar_expand(struct arena *a, const struct scalar_dag *in, struct scalar_dag *out)
{
    struct dag_builder b;
    dag_begin(&b);
    int *at = arena_alloc(&b.scratch, (size_t)in->n_nodes * sizeof *at);
    kiln_status status = at ? KILN_OK : error_pending;
    for (int i = 0; !status && i < in->n_nodes; i++) {
        const struct scalar_node *n = &in->nodes[i];
        int arg[3] = {0};
        for (int k = 0; k < n->n_args; k++) arg[k] = at[n->arg[k]];
        at[i] = expand_node(&b, n, arg);
        if (at[i] < 0) status = error_pending;
    }
    if (!status) status = dag_finish(&b, a, at[in->root], out);
    dag_end(&b);
    return status;
}

bool scalar_has_lib(const struct scalar_dag *d)
{
    for (int i = 0; i < d->n_nodes; i++)
        if (d->nodes[i].kind == SCALAR_LIB) return true;
    return false;
}

bool scalar_has_lib_class(const struct scalar_dag *d, enum scalar_class cls)
{
    for (int i = 0; i < d->n_nodes; i++)
        if (d->nodes[i].kind == SCALAR_LIB && d->nodes[i].cls == cls) return true;
    return false;
}

uint32_t scalar_used_params(const struct scalar_dag *d)
{
    uint32_t used = 0;
    for (int i = 0; i < d->n_nodes; i++)
        if (d->nodes[i].kind == SCALAR_INPUT && d->nodes[i].code < 32) used |= UINT32_C(1) << d->nodes[i].code;
    return used;
}

const char *scalar_class_name(enum scalar_class cls)
{
    static const char *const names[CLASS_COUNT] = {"f32", "f64", "i32", "i64", "bool"};
    return names[cls];
}

const char *scalar_node_op(const struct scalar_node *n)
{
    if (n->kind == SCALAR_LIB) {
        const struct scalar_lib_row *row = scalar_lib_row(n->code);
        return row->hidden ? NULL : row->op ? row->op : row->name;
    }
    if (n->kind != SCALAR_PRIM) return NULL;
    // Logical forms exist for and, or, xor, not, whose value has the class of the arguments.
    bool logical = n->cls == CLASS_BOOL && n->code >= PRIM_and && n->code <= PRIM_not;
    return prim_op(n->code, logical ? CLASS_BOOL : CLASS_F32);
}
