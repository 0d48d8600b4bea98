// Open dimensions in files of ONNX. The nodes of a file are to be right for all sizes, so they may hold no number that
// goes with one. The graph is read for three sets of sizes: what differs between the types is open; then the nodes are
// written for each, byte for byte the same.
#include "model/export.h"
#include <stdlib.h>
#include <string.h>

enum { SETS = 2 };

// Another size by the rule, each dimension by steps of its own; the one seen where there is none.
static int64_t other_size(const struct face_rule *r, int64_t steps)
{
    int64_t divisor = r->divisor > 0 ? r->divisor : 1, up = r->seen + steps * divisor;
    int64_t down = r->seen - divisor, least = r->min > 1 ? r->min : 1;
    return up <= r->max ? up : down >= least ? down : r->seen;
}

static void mark_open(struct exporting *x, const struct kiln_graph *other)
{
    for (size_t i = 0; i < x->g->values.n; i++)
        for (int d = 0; d < x->g->values.v[i].type.rank; d++)
            x->open[i * MAX_RANK + (size_t)d] |= x->g->values.v[i].type.dims[d] != other->values.v[i].type.dims[d];
}

static kiln_status nodes_of(const struct exporting *x, const bool *open, char **bytes, size_t *size_B)
{
    struct onnx_export e = x->e;
    struct misfits m;
    misfits_init(&m);
    e.open = open;
    e.cannot = misfits_add;
    e.user = &m;
    kiln_status status = onnx_export_nodes(&e, bytes, size_B);
    str_free(&m.text); // those of the sizes that were seen are told
    return status;
}

static kiln_status check_same(const struct exporting *x, const struct exporting *others)
{
    char *one = NULL, *other = NULL;
    size_t one_B = 0, other_B = 0;
    kiln_status status = nodes_of(x, x->open, &one, &one_B);
    for (int i = 0; i < SETS && !status; i++) {
        status = nodes_of(&others[i], x->open, &other, &other_B);
        bool same = !status && one_B == other_B && !memcmp(one, other, one_B);
        if (!status && !same)
            status =
                error_set(KILN_E_UNSUPPORTED,
                          "model_save: %s: its ops have numbers that go with open dimensions, which a file of ONNX "
                          "would have to compute; export it for fixed sizes",
                          x->f->name);
        free(other);
        other = NULL;
    }
    free(one);
    return status;
}

static kiln_status read_other(const struct exporting *x, int64_t set, struct exporting *out)
{
    const struct interface *f = &x->f->face;
    struct ir_size *sizes = malloc((f->rules.n + 1) * sizeof *sizes);
    if (!sizes) return error_set(KILN_E_MEMORY, "model_save: out of memory");
    for (size_t i = 0; i < f->rules.n; i++)
        sizes[i] = (struct ir_size){f->rules.v[i].name, other_size(&f->rules.v[i], (int64_t)(i + 1) * (1 + 2 * set))};
    const struct ir_sizes all = {f->rules.n, sizes};
    kiln_status status = exporting_init(out, x->m, &all);
    if (!status && (out->g->values.n != x->g->values.n || out->g->nodes.n != x->g->nodes.n))
        status = error_set(KILN_E_INTERNAL, "model_save: a graph of other sizes has other values");
    free(sizes);
    return status;
}

kiln_status export_open(struct exporting *x)
{
    struct exporting others[SETS] = {0};
    x->open = calloc((x->g->values.n + 1) * MAX_RANK, sizeof *x->open);
    kiln_status status = x->open ? KILN_OK : error_set(KILN_E_MEMORY, "model_save: out of memory");
    for (int i = 0; i < SETS && !status; i++) {
        status = read_other(x, i, &others[i]);
        if (!status) mark_open(x, others[i].g);
    }
    for (size_t i = 0; i < x->made.n && !status; i++)
        if (x->made.v[i].layout)
            status = error_set(KILN_E_UNSUPPORTED, "model_save: %s: output \"%.100s\" is a view, of open dimensions",
                               x->f->name, x->made.v[i].name);
    if (!status) status = check_same(x, others);
    x->e.open = x->open;
    for (int i = 0; i < SETS; i++) exporting_finish(&others[i]);
    return status;
}
