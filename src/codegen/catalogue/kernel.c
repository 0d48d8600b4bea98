// What a kernel's expression needs: which values are one a row, and after how many reductions each is known.
//
// Input: the DAG, in topological order. Output: per node its stage and whether it is a row value. A constant, a
// run-time scalar, rcount() and a reduction are row values; what is computed from row values alone is one too; inputs
// and rindex() are element values, but for inputs that are said to have one value a row (row_in). A reduction comes one
// stage after its argument. A loop that goes over the row s times has done all reductions of stage s; the last pass,
// after n_stages of them, computes the output.
#include "codegen/catalogue/kernel.h"
#include "scalar/prim.h"
#include <string.h>

static kiln_status check_node(const struct kernel *k, int i)
{
    const struct scalar_node *n = &k->dag.nodes[i];
    if (n->kind == SCALAR_LIB)
        return error_set(KILN_E_INTERNAL, "kernel %s: library call %s is not expanded", k->name,
                         scalar_lib_name(n->code));
    if (n->kind == SCALAR_REDUCE && k->kind != KERNEL_ROW)
        return error_set(KILN_E_INTERNAL, "kernel %s: a reduction in a pointwise kernel", k->name);
    if (n->kind == SCALAR_INPUT && n->code >= k->n_in + k->n_scalars)
        return error_set(KILN_E_INTERNAL, "kernel %s: reads parameter %d of %d", k->name, n->code,
                         k->n_in + k->n_scalars);
    for (int a = 0; a < n->n_args; a++)
        if (n->arg[a] >= i) return error_set(KILN_E_INTERNAL, "kernel %s: node %d is out of order", k->name, i);
    return KILN_OK;
}

// True when the node itself, whatever its arguments are, has one value a row.
static bool starts_row(const struct kernel *k, const struct scalar_node *n)
{
    switch (n->kind) {
    case SCALAR_CONST:
    case SCALAR_REDUCE: return true;
    case SCALAR_INPUT: return n->code >= k->n_in || k->row_in >> n->code & 1;
    case SCALAR_PRIM: return n->n_args == 0 && n->code == PRIM_rcount;
    default: return false;
    }
}

// A row, its elements, and one value that is stored for either: what the loops over it follow from.
static kiln_status make_loops(struct arena *a, struct kernel *k)
{
    struct fused_kernel *f = k->loops = arena_alloc(a, sizeof *f);
    uint8_t *level = arena_alloc(a, (size_t)k->dag.n_nodes);
    if (!f || !level) return error_pending;
    for (int i = 0; i < k->dag.n_nodes; i++) level[i] = k->is_row[i] ? LEVEL_ROW : LEVEL_ELEMENT;
    *f =
        (struct fused_kernel){.n_dims = 2, .n_reduce = 1, .n_out = 1, .dag = k->dag, .level = level, .stage = k->stage};
    f->n_stages = k->n_stages;
    f->out[0].node = (uint16_t)k->dag.root;
    f->out[0].to.strides[1] = !k->row_out;
    return KILN_OK;
}

kiln_status kernel_analyze(struct arena *a, struct kernel *k)
{
    int n_nodes = k->dag.n_nodes;
    if (n_nodes <= 0 || k->dag.root < 0 || k->dag.root >= n_nodes)
        return error_set(KILN_E_INTERNAL, "kernel %s has no expression", k->name);
    k->stage = arena_alloc(a, (size_t)n_nodes);
    k->is_row = arena_alloc(a, (size_t)n_nodes);
    if (!k->stage || !k->is_row) return error_pending;
    for (int i = 0; i < n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        TRY(check_node(k, i));
        bool row = n->n_args > 0;
        int stage = 0;
        for (int j = 0; j < n->n_args; j++) {
            row = row && k->is_row[n->arg[j]];
            if (k->stage[n->arg[j]] > stage) stage = k->stage[n->arg[j]];
        }
        if (n->kind == SCALAR_REDUCE) stage++;
        k->stage[i] = (uint8_t)stage;
        k->is_row[i] = row || starts_row(k, n);
    }
    k->n_stages = k->stage[k->dag.root];
    k->row_out = k->kind == KERNEL_ROW && k->is_row[k->dag.root];
    return make_loops(a, k);
}

// What stands in for node i: of the most or the least of one value, that value. An empty row has it too.
static int stand_in(const struct kernel *k, int i)
{
    const struct scalar_node *n = &k->dag.nodes[i];
    bool picks = n->kind == SCALAR_REDUCE && (n->code == REDUCE_MAX || n->code == REDUCE_MIN);
    if (!picks) return i;
    const struct scalar_node *of = &k->dag.nodes[n->arg[0]];
    return of->kind == SCALAR_INPUT && of->code < k->n_in && k->row_in >> of->code & 1 ? n->arg[0] : i;
}

kiln_status kernel_by_rows(struct arena *a, const struct kernel *k, struct kernel *out)
{
    *out = *k;
    struct scalar_node *nodes = arena_alloc(a, sizeof *nodes * (size_t)k->dag.n_nodes);
    if (!nodes) return error_pending;
    memcpy(nodes, k->dag.nodes, sizeof *nodes * (size_t)k->dag.n_nodes);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        for (int j = 0; j < nodes[i].n_args; j++) nodes[i].arg[j] = (uint16_t)stand_in(k, nodes[i].arg[j]);
        if (stand_in(k, i) != i) nodes[i] = (struct scalar_node){.kind = SCALAR_CONST, .cls = nodes[i].cls};
    }
    out->dag.nodes = nodes;
    out->dag.root = stand_in(k, k->dag.root);
    TRY(kernel_analyze(a, out));
    if (out->n_stages != k->n_stages || out->row_out != k->row_out)
        return error_set(KILN_E_INTERNAL, "kernel %s: its launches know of %d stages, not of %d", k->name, k->n_stages,
                         out->n_stages);
    return KILN_OK;
}
