// Ops of the user by expression: their definitions go with the graphs that use them.
#include "model/adding.h"
#include "model/user_ops.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

static bool is_known(const struct model *m, const char *name)
{
    for (size_t i = 0; i < m->ops.n; i++)
        if (!strcmp(m->ops.v[i].name, name)) return true;
    return false;
}

static kiln_status take(struct model *m, const kiln_op_spec *s)
{
    struct model_op op = {.n_in = s->n_in};
    TRY(vec_push(&m->ops, op));
    struct model_op *to = &m->ops.v[m->ops.n - 1];
    to->name = model_copy(s->name, strlen(s->name));
    to->expr = model_copy(s->expr, strlen(s->expr));
    for (size_t i = 0; i < COUNT_OF(to->grads); i++)
        if (s->grad[i]) to->grads[i] = model_copy(s->grad[i], strlen(s->grad[i]));
    return error_pending;
}

kiln_status adding_take_ops(const struct adding *a, const struct kiln_graph *g)
{
    for (size_t i = 0; i < g->nodes.n; i++) {
        const kiln_op_spec *s = user_op_spec(g->nodes.v[i].op);
        if (s && !is_known(a->m, s->name)) TRY(take(a->m, s));
    }
    return KILN_OK;
}

static bool same_text(const char *a, const char *b)
{
    return !a == !b && (!a || !strcmp(a, b));
}

static kiln_status check_same(const struct model_op *op, const kiln_op_spec *there)
{
    bool same = there && there->n_in == op->n_in && same_text(there->expr, op->expr);
    for (size_t i = 0; i < COUNT_OF(op->grads) && same; i++) same = same_text(there->grad[i], op->grads[i]);
    if (same) return KILN_OK;
    return error_set(KILN_E_STATE, "graph_import: the op \"%s\" of the file is another one than that of this process",
                     op->name);
}

kiln_status user_ops_register(const struct model *m)
{
    for (size_t i = 0; i < m->ops.n; i++) {
        const struct model_op *op = &m->ops.v[i];
        const struct op *there = op_find(op->name);
        const kiln_op_spec s = {.size = sizeof s,
                                .name = op->name,
                                .n_in = op->n_in,
                                .expr = op->expr,
                                .grad = {op->grads[0], op->grads[1], op->grads[2]}};
        TRY(there ? check_same(op, user_op_spec(there)) : kiln_register_op(&s));
    }
    return KILN_OK;
}
