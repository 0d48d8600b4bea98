// Levels of a DAG as in fused kernels: what depends on an element of the row is done for each, what depends on
// reductions alone once a row.
#include "ops/cost.h"
#include "ops/body.h"
#include "scalar/rare.h"

enum work_level { UNIFORM, ROW, ELEMENT };
enum { NODES_MAX = 512 };

static bool is_float(enum scalar_class cls)
{
    return cls == CLASS_F32 || cls == CLASS_F64;
}

static bool is_free(uint16_t prim)
{
    return prim_chooses(prim) || prim == PRIM_bits || prim == PRIM_from_bits ||
           (prim >= PRIM_to_f32 && prim <= PRIM_to_bool);
}

static bool computes(const struct scalar_dag *d, const struct scalar_node *n)
{
    bool floats = is_float(n->cls);
    if (n->kind == SCALAR_PRIM && is_free(n->code)) return false;
    if (n->kind != SCALAR_PRIM && n->kind != SCALAR_LIB && n->kind != SCALAR_REDUCE) return false;
    for (int i = 0; i < n->n_args; i++) floats |= is_float(d->nodes[n->arg[i]].cls);
    return floats;
}

static enum work_level level_of(const struct scalar_node *n, const uint8_t *level, int n_in)
{
    uint8_t most = UNIFORM;
    if (n->kind == SCALAR_INPUT) return n->code < n_in ? ELEMENT : UNIFORM;
    if (n->kind == SCALAR_LOAD) return ELEMENT;
    if (n->kind == SCALAR_REDUCE) return ROW;
    if (n->kind == SCALAR_PRIM && n->code == PRIM_rindex) return ELEMENT;
    for (int i = 0; i < n->n_args; i++)
        if (level[n->arg[i]] > most) most = level[n->arg[i]];
    return (enum work_level)most;
}

struct kernel_work kernel_work_of(const struct scalar_dag *d, int n_in)
{
    uint8_t level[NODES_MAX], waits[NODES_MAX] = {0};
    struct kernel_work work = {0, 0};
    if (d->n_nodes <= NODES_MAX) {
        for (int i = 0; i < d->n_nodes; i++) waits[i] = i != d->root;
        scalar_find_waiting(d, NULL, waits);
    }
    for (int i = 0; i < d->n_nodes && i < NODES_MAX; i++) {
        const struct scalar_node *n = &d->nodes[i];
        level[i] = (uint8_t)level_of(n, level, n_in);
        if (waits[i] || !computes(d, n)) continue;
        work.element += n->kind == SCALAR_REDUCE || level[i] == ELEMENT;
        work.row += n->kind != SCALAR_REDUCE && level[i] == ROW;
    }
    return work;
}

static double product(const int64_t *sizes, int from, int to)
{
    double n = 1;
    for (int d = from; d < to; d++) n *= (double)sizes[d];
    return n;
}

// Elements of the operand: those that the space walks through, or, of a kernel that has its own ways, its range.
static double touched(const struct launch *l, const struct kernel_info *k, const struct launch_operand *o)
{
    double n = dtype_size_B[o->dtype];
    if (k->kind == KERNEL_CUSTOM) return (double)(o->range_hi_B - o->range_lo_B);
    for (int d = 0; d < l->rank; d++)
        if (o->strides[d]) n *= (double)l->sizes[d];
    return n;
}

static const struct kernel_body *body_of(const struct launch *l)
{
    const struct kernel_body *body = kernel_has_body(l->kernel) ? kernel_body(l->kernel) : NULL;
    if (!body && error_pending) kiln_error_clear(); // memory is out, and this is no reason to fail
    return body;
}

static double flops_of(const struct op *op, const struct type *const *in, const struct type *out,
                       const struct launch *l, const struct kernel_body *body)
{
    const struct kernel_info *k = kernel_info(l->kernel);
    if (op && op->products.kind && k->kind == KERNEL_CUSTOM)
        return dtype_kind_of[out->dtype] == KIND_FLOAT ? 2 * op_multiply_adds(op, in, out) : 0;
    if (!body) return -1;
    if (k->kind == KERNEL_CUSTOM) return 0; // gathers, checks
    double rows = product(l->sizes, 0, l->rank - l->n_reduce);
    return rows * (body->work.row + body->work.element * product(l->sizes, l->rank - l->n_reduce, l->rank));
}

struct launch_cost launch_cost(const struct op *op, const struct type *const *in, const struct type *out,
                               const struct launch *l)
{
    const struct kernel_info *k = kernel_info(l->kernel);
    const struct kernel_body *body = body_of(l);
    struct launch_cost c = {.flops = flops_of(op, in, out, l, body)};
    double written = 0;
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        if (o->flags & OPERAND_IMMEDIATE) continue;
        double n = touched(l, k, o);
        if (o->flags & OPERAND_WRITE) c.written_B += n, written += n / dtype_size_B[o->dtype];
    }
    for (int i = 0; i < l->n_operands; i++) {
        const struct launch_operand *o = &l->operands[i];
        if (o->flags & (OPERAND_IMMEDIATE | OPERAND_WRITE)) continue;
        double n = touched(l, k, o), picked = written * dtype_size_B[o->dtype];
        c.read_B += i == 0 && body && body->places && picked < n ? picked : n;
    }
    return c;
}
