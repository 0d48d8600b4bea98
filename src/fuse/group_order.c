// The steps of a program: groups in an order in which each comes after what it reads.
#include "fuse/groups.h"
#include "base/dtype.h"
#include "scalar/reduce.h"
#include <stdlib.h>
#include <string.h>

static bool is_half(const struct launch_operand *o)
{
    return !(o->flags & OPERAND_IMMEDIATE) && dtype_is_half_float(o->dtype);
}

static bool is_by_row(const struct launch *l, const struct launch_operand *o)
{
    for (int d = l->rank - l->n_reduce; d < l->rank; d++)
        if (o->strides[d] && l->sizes[d] != 1) return false;
    return true;
}

// The catalogue's kernels take what lies in memory block by block, in one class. Compiled, a fold passes over it once,
// and half floats are converted on the way; a place is found faster by them, and so is what stands in each element.
bool group_is_kernel_alone(const struct fuser *f, int32_t root)
{
    enum { WORTH_COMPILING = 1 << 16 }; // elements
    enum { ENOUGH_ROWS = 64 };          // where they cannot be cut, or lie across vectors
    enum { LONG_ROW = 16 };             // of which each element is stored
    const struct unit *u = group_unit(f, root);
    bool half = false;
    int folds = 0;
    int64_t n = 1, points = 1;
    if (f->o->alone) return true;
    if (!f->caps->cheap_launches || !u->body || !u->folds || u->n_parts) return false;
    for (int d = 0; d < u->l.rank; d++) n *= u->l.sizes[d];
    for (int d = 0; d < u->l.rank - u->l.n_reduce; d++) points *= u->l.sizes[d];
    for (int i = 0; i < u->body->dag.n_nodes; i++) {
        const struct scalar_node *node = &u->body->dag.nodes[i];
        if (node->kind != SCALAR_REDUCE) continue;
        if (reduce_finds_place(node)) return false;
        folds++;
    }
    for (int i = 0; i < u->l.n_operands; i++) half = half || is_half(&u->l.operands[i]);
    bool by_row = is_by_row(&u->l, &u->l.operands[u->n_in]);
    bool in_a_row = u->l.rank > 0 && u->l.operands[0].strides[u->l.rank - 1] == 1;
    if ((!by_row || folds > 1 || !in_a_row) && points < ENOUGH_ROWS) return false;
    if (!by_row && n < points * LONG_ROW) return false;
    return n >= WORTH_COMPILING && (half || in_a_row);
}

static kiln_status emit(struct fuser *f, int32_t *waits, int32_t whole)
{
    int n_roots, n;
    const int32_t *roots = roots_of(f, &whole, &n_roots);
    n = group_gather(f, roots, n_roots);
    int32_t *units = arena_alloc(&f->out->arena, sizeof *units * (size_t)n);
    if (!units) return error_pending;
    memcpy(units, f->units, sizeof *units * (size_t)n);
    for (int i = 0; i < n; i++) f->inside[units[i]] = false;
    for (int i = 0; i < n_roots; i++)
        for (int32_t a = f->r.first_after[roots[i]]; a < f->r.first_after[roots[i] + 1]; a++)
            if (whole_of(f, f->r.after[a]) != whole) waits[f->r.after[a]]--;
    bool kernel = f->group_of[whole] >= 0 && (n > 1 || group_is_kernel_alone(f, whole));
    struct fuse_step s = {.table = -1,
                          .root = whole,
                          .kernel = kernel ? f->groups[whole].k : NULL,
                          .units = units,
                          .n_units = n,
                          .why = f->why[whole]};
    return vec_push(&f->out->steps, s);
}

static bool ready(const struct fuser *f, const int32_t *waits, int32_t whole)
{
    int n;
    const int32_t *roots = roots_of(f, &whole, &n);
    for (int i = 0; i < n; i++)
        if (waits[roots[i]]) return false;
    return true;
}

// Effects come after all that stands before them, and might fail; what waits for one of them itself cannot.
static bool is_held(const struct fuser *f, const bool *done, int32_t whole)
{
    const struct unit *u = group_unit(f, whole);
    if (!u->region || !u->region->has_effect) return false;
    for (int32_t i = 0; i < whole; i++)
        if (!f->r.inlined[i] && !done[i] && whole_of(f, i) == i) return true;
    return false;
}

// A copy into memory that may be seen through another input: no dependence tells who reads it there.
static bool is_last(const struct fuser *f, int32_t root)
{
    const struct unit *u = group_unit(f, root);
    return u->node < 0 && !u->body && unit_buffer_is_given(&f->u->buffers.v[result_of(f, root)]);
}

// Groups in the order of their first roots, each as soon as what it waits for is done; copies into shared memory when
// all others are done.
kiln_status group_order(struct fuser *f)
{
    int32_t n = (int32_t)f->u->v.n;
    int32_t *waits = calloc((size_t)n + 1, sizeof *waits);
    bool *done = calloc((size_t)n + 1, 1), more = true, last = false, holds = true;
    kiln_status status = waits && done ? KILN_OK : error_set(KILN_E_MEMORY, "graph: out of memory");
    for (int32_t i = 0; i < n && !status; i++)
        for (int32_t a = f->r.first_after[i]; a < f->r.first_after[i + 1]; a++)
            if (whole_of(f, i) != whole_of(f, f->r.after[a])) waits[f->r.after[a]]++;
    while (more && !status) {
        bool moved = more = false;
        for (int32_t i = 0; i < n && !status; i++) {
            if (f->r.inlined[i] || done[i] || whole_of(f, i) != i) continue;
            more = true;
            if ((!last && is_last(f, i)) || !ready(f, waits, i) || (holds && is_held(f, done, i))) continue;
            done[i] = moved = holds = true;
            status = emit(f, waits, i);
        }
        if (more && !moved && holds)
            moved = !(holds = false);
        else if (more && !moved && !last)
            last = moved = true;
        if (more && !moved && !status) status = error_set(KILN_E_INTERNAL, "fusion: groups wait for each other");
    }
    free(waits);
    free(done);
    return status;
}
