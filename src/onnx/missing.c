// All ops of a model that are not mapped, in one message.
#include "base/str.h"
#include "onnx/model.h"
#include "onnx/table.h"
#include <stdlib.h>
#include <string.h>

struct lack {
    const char *domain, *op;
    int opset;
    bool variant; // the op is mapped, not with these attributes
    size_t count;
};

struct lacks {
    VEC(struct lack) list;
};

static const struct onnx_attr *attr_of(const void *user, const char *name)
{
    const struct onnx_node *n = user;
    for (int32_t i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].name, name)) return &n->attrs[i];
    return NULL;
}

static bool refers_to_caller(const struct onnx_node *n)
{
    for (int32_t i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].of_caller) return true;
    return false;
}

static kiln_status collect(struct lacks *l, const struct onnx_graph *g)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const struct onnx_node *n = &g->nodes[i];
        bool known = n->function || onnx_find_row(n, g->opset, NULL, NULL);
        bool fits = known && (n->function || refers_to_caller(n) || onnx_find_row(n, g->opset, attr_of, n));
        if (!fits) TRY(vec_push(&l->list, ((struct lack){n->domain, n->op, g->opset, known, 1})));
        for (int32_t k = 0; k < n->n_attrs; k++)
            if (n->attrs[k].graph && n->attrs[k].type == ONNX_GRAPH) TRY(collect(l, n->attrs[k].graph));
    }
    return KILN_OK;
}

static int compare(const void *a, const void *b)
{
    const struct lack *x = a, *y = b;
    int order = strcmp(x->domain, y->domain);
    if (!order) order = strcmp(x->op, y->op);
    return order ? order : x->variant - y->variant;
}

static kiln_status report(const struct onnx_model *m, struct lacks *l)
{
    struct str s;
    str_init(&s);
    qsort(l->list.v, l->list.n, sizeof *l->list.v, compare);
    for (size_t i = 0, next; i < l->list.n; i = next) {
        const struct lack *x = &l->list.v[i];
        for (next = i; next < l->list.n && !compare(x, &l->list.v[next]);) next++;
        str_addf(&s, "%s%.60s%s%.60s%s (%zu)", i ? ", " : "", x->domain, *x->domain ? "." : "", x->op,
                 x->variant ? " with these attributes" : "", next - i);
    }
    kiln_status status = str_check(&s);
    if (!status)
        status = error_set(KILN_E_UNSUPPORTED, "%s: needs ops that are missing, version %d (number of nodes): %s",
                           m->where, m->opset, str_text(&s));
    str_free(&s);
    return status;
}

kiln_status onnx_check_ops(struct onnx_model *m)
{
    struct lacks l = {{0}};
    kiln_status status = collect(&l, &m->graph);
    for (int32_t i = 0; i < m->n_functions && !status; i++) status = collect(&l, &m->functions[i].body);
    if (!status && l.list.n) status = report(m, &l);
    vec_free(&l.list);
    return status;
}
