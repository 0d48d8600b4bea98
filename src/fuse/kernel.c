// Checks, levels and shapes of fused kernels.
#include "fuse/kernel.h"
#include "fuse/loops.h"
#include "ops/lower.h"
#include "scalar/prim.h"
#include <string.h>

static bool varies(const struct fused_kernel *k, const struct fused_access *a, int from, int to)
{
    for (int d = from; d < to; d++)
        if (a->strides[d] && k->sizes[d] != 1) return true;
    return false;
}

static enum fused_level access_level(const struct fused_kernel *k, const struct fused_access *a)
{
    int n_parallel = k->n_dims - k->n_reduce;
    if (varies(k, a, n_parallel, k->n_dims)) return LEVEL_ELEMENT;
    return varies(k, a, 0, n_parallel) ? LEVEL_ROW : LEVEL_UNIFORM;
}

static kiln_status wrong(const struct fused_kernel *k, int node, const char *what)
{
    return error_set(KILN_E_INTERNAL, "fused kernel %s: node %d: %s", k->name, node, what);
}

static kiln_status check_node(const struct fused_kernel *k, int i)
{
    const struct scalar_node *n = &k->dag.nodes[i];
    for (int a = 0; a < n->n_args; a++)
        if (n->arg[a] >= i) return wrong(k, i, "is before what it uses");
    switch (n->kind) {
    case SCALAR_LIB: return wrong(k, i, "is a library call");
    case SCALAR_INPUT:
        if (n->code >= k->n_scalars || k->scalar_cls[n->code] != n->cls)
            return wrong(k, i, "is no scalar of the kernel");
        return KILN_OK;
    case SCALAR_DIM:
    case SCALAR_SIZE: return n->code >= k->n_dims ? wrong(k, i, "names no dimension") : KILN_OK;
    case SCALAR_LOAD:
        if (n->code >= k->n_in || k->in[n->code].cls != n->cls) return wrong(k, i, "names no access");
        if (n->n_args > 0 && k->dag.nodes[n->arg[0]].cls != CLASS_I64) return wrong(k, i, "has a place that is no i64");
        if (n->n_args > 1 && k->dag.nodes[n->arg[1]].cls != CLASS_BOOL)
            return wrong(k, i, "has a condition that is no bool");
        return KILN_OK;
    default: return KILN_OK;
    }
}

static kiln_status level_of_reduce(struct fused_kernel *k, int i, int arg)
{
    if (!(k->dag.nodes[i].code & REDUCE_ACROSS)) {
        if (k->level[arg] == LEVEL_TOTAL) return wrong(k, i, "folds a total");
        k->level[i] = LEVEL_ROW;
        k->stage[i]++;
        return KILN_OK;
    }
    if (k->level[arg] > LEVEL_ROW) return wrong(k, i, "folds across the rows what is no row value");
    k->level[i] = LEVEL_TOTAL;
    k->has_total = true;
    return KILN_OK;
}

static kiln_status analyse(struct fused_kernel *k, int i)
{
    const struct scalar_node *n = &k->dag.nodes[i];
    enum fused_level level = LEVEL_UNIFORM;
    int stage = 0, n_parallel = k->n_dims - k->n_reduce;
    TRY(check_node(k, i));
    if (n->kind == SCALAR_DIM) level = n->code >= n_parallel ? LEVEL_ELEMENT : LEVEL_ROW;
    if (n->kind == SCALAR_LOAD) level = access_level(k, &k->in[n->code]);
    bool turns = fused_is_carried(k, i) || fused_is_number(k, i);
    if (n->kind == SCALAR_LOAD) turns |= fused_step(k, n->code) != 0;
    for (int a = 0; a < n->n_args; a++) turns |= k->turns[n->arg[a]];
    k->turns[i] = turns;
    if (turns && level == LEVEL_UNIFORM) level = LEVEL_ROW;
    bool below_total = level == LEVEL_ROW || level == LEVEL_ELEMENT;
    for (int a = 0; a < n->n_args; a++) {
        enum fused_level l = (enum fused_level)k->level[n->arg[a]];
        below_total = below_total || l == LEVEL_ROW || l == LEVEL_ELEMENT;
        if (l > level) level = l;
        if (k->stage[n->arg[a]] > stage) stage = k->stage[n->arg[a]];
    }
    if (level == LEVEL_TOTAL && below_total) return wrong(k, i, "takes a total back into the rows");
    k->level[i] = (uint8_t)level;
    k->stage[i] = (uint8_t)stage;
    if (n->kind == SCALAR_REDUCE) TRY(level_of_reduce(k, i, n->arg[0]));
    if (k->stage[i] > k->n_stages) k->n_stages = k->stage[i];
    return KILN_OK;
}

static kiln_status check_output(const struct fused_kernel *k, const struct fused_output *o)
{
    int n_parallel = k->n_dims - k->n_reduce;
    if (o->node >= k->dag.n_nodes || k->dag.nodes[o->node].cls != o->to.cls) return wrong(k, o->node, "is no output");
    enum fused_level level = (enum fused_level)k->level[o->node];
    for (int d = 0; d < k->n_dims; d++) {
        bool moves = o->to.strides[d] != 0, may = d < n_parallel || level == LEVEL_ELEMENT || level == LEVEL_UNIFORM;
        if (moves && (!may || level == LEVEL_TOTAL)) return wrong(k, o->node, "is stored where it has no place");
    }
    return KILN_OK;
}

static kiln_status check_access(const struct fused_kernel *k, const struct fused_access *a)
{
    if (a->dtype < DTYPE_COUNT && dtype_class(a->dtype) == (enum scalar_class)a->cls) return KILN_OK;
    return error_set(KILN_E_INTERNAL, "fused kernel %s: an access of %s in class %d", k->name, dtype_name(a->dtype),
                     a->cls);
}

kiln_status fused_finish(struct arena *a, struct fused_kernel *k)
{
    k->level = arena_alloc(a, (size_t)k->dag.n_nodes + 1);
    k->stage = arena_alloc(a, (size_t)k->dag.n_nodes + 1);
    k->turns = arena_alloc(a, sizeof *k->turns * ((size_t)k->dag.n_nodes + 1));
    if (!k->level || !k->stage || !k->turns) return error_pending;
    k->n_stages = 0;
    k->has_total = false;
    if (k->n_dims < 0 || k->n_dims > FUSED_DIMS || k->n_reduce < 0 || k->n_reduce > k->n_dims || k->n_out < 1)
        return error_set(KILN_E_INTERNAL, "fused kernel %s: %d dimensions, %d of them reduced, %d outputs", k->name,
                         k->n_dims, k->n_reduce, k->n_out);
    for (int i = 0; i < k->n_in + k->n_out; i++) TRY(check_access(k, fused_access_at(k, i)));
    for (int i = 0; i < k->dag.n_nodes; i++) TRY(analyse(k, i));
    for (int i = 0; i < k->n_out; i++) TRY(check_output(k, &k->out[i]));
    for (int i = 0; i < k->n_checks; i++)
        if (k->checks[i] >= k->dag.n_nodes || k->dag.nodes[k->checks[i]].cls != CLASS_BOOL)
            return wrong(k, k->checks[i], "is no check");
    return KILN_OK;
}

// --- collapse ---

static struct fused_access *access_at(struct fused_kernel *k, int i)
{
    return i < k->n_in ? &k->in[i] : &k->out[i - k->n_in].to;
}

static bool joins(const struct fused_kernel *k, int d) // with d + 1
{
    if (d + 1 == k->n_dims - k->n_reduce) return false;
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        const struct fused_access *a = fused_access_at(k, i);
        if (a->strides[d] != a->strides[d + 1] * k->sizes[d + 1]) return false;
    }
    return true;
}

static void remove_dim(struct fused_kernel *k, int d, struct scalar_node *nodes, bool *named)
{
    if (d >= k->n_dims - k->n_reduce) k->n_reduce--;
    k->n_dims--;
    for (int i = d; i < k->n_dims; i++) {
        k->sizes[i] = k->sizes[i + 1];
        named[i] = named[i + 1];
    }
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        int64_t *s = access_at(k, i)->strides;
        memmove(s + d, s + d + 1, sizeof *s * (size_t)(k->n_dims - d));
    }
    for (int i = 0; i < k->dag.n_nodes; i++) {
        struct scalar_node *n = &nodes[i];
        if ((n->kind != SCALAR_DIM && n->kind != SCALAR_SIZE) || n->code < d) continue;
        if (n->code > d)
            n->code--;
        else // a dimension of size 1
            *n = (struct scalar_node){.kind = SCALAR_CONST, .cls = CLASS_I64, .value = {.i64 = n->kind == SCALAR_SIZE}};
    }
}

static bool has_reductions(const struct fused_kernel *k, bool across)
{
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (fused_is_fold(&k->dag.nodes[i], across)) return true;
    return false;
}

static bool is_moved_along(const struct fused_kernel *k, int d)
{
    for (int i = 0; i < k->n_out; i++)
        if (k->out[i].to.strides[d]) return true;
    return k->n_checks > 0;
}

// Where nothing is folded, a dimension along which no output moves would only do the same again: to what is written
// back, a second time.
static void drop_unmoved(struct fused_kernel *k, const bool *named)
{
    for (int d = 0; d < k->n_dims; d++)
        if (k->sizes[d] > 1 && !named[d] && !is_moved_along(k, d)) k->sizes[d] = 1;
}

void fused_collapse(struct fused_kernel *k)
{
    struct scalar_node *nodes = (struct scalar_node *)(uintptr_t)k->dag.nodes; // the kernel's own, from its arena
    bool named[FUSED_MAX_DIMS + 1] = {false}, folds = has_reductions(k, false);
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (nodes[i].kind == SCALAR_DIM || nodes[i].kind == SCALAR_SIZE) named[nodes[i].code] = true;
    if (!folds && !has_reductions(k, true)) drop_unmoved(k, named);
    for (int d = k->n_dims - 1; d >= 0; d--) {
        bool last_reduced = d >= k->n_dims - k->n_reduce && k->n_reduce == 1 && folds;
        if (k->sizes[d] == 1 && !last_reduced) remove_dim(k, d, nodes, named);
    }
    for (int d = k->n_dims - 2; d >= 0; d--) {
        if (named[d] || named[d + 1] || !joins(k, d)) continue;
        int64_t size = k->sizes[d] * k->sizes[d + 1];
        remove_dim(k, d, nodes, named); // the inner strides stay
        k->sizes[d] = size;
    }
}

// --- facts ---

bool fused_is_placed(const struct fused_kernel *k, int access)
{
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (n->kind == SCALAR_LOAD && n->code == access && n->n_args > 0) return true;
    }
    return false;
}

bool fused_is_linear(const struct fused_kernel *k, const struct fused_access *a)
{
    int64_t dense = 1;
    for (int d = k->n_dims - 1; d >= 0; d--) {
        if (a->strides[d] != dense) return false;
        dense *= k->sizes[d];
    }
    return true;
}

bool fused_goes_back(const struct fused_kernel *k, const struct fused_access *a)
{
    for (int d = 0; d < k->n_dims; d++)
        if (a->strides[d] < 0) return true;
    return false;
}

bool fused_same_places(const struct fused_kernel *k, const struct fused_access *a, const struct fused_access *b)
{
    if (a->offset != b->offset) return false;
    for (int d = 0; d < k->n_dims; d++)
        if (a->strides[d] != b->strides[d]) return false;
    return true;
}

static bool repeats(const struct fused_kernel *k, const struct fused_access *to, int n_dims)
{
    for (int d = 0; d < n_dims; d++)
        if (!to->strides[d] && k->sizes[d] > 1) return true;
    return false;
}

bool fused_stores_again(const struct fused_kernel *k, const struct fused_access *to)
{
    return fused_is_flat(k) && repeats(k, to, k->n_dims);
}

// A value of a row is stored by one of those who go over it, when others may still read; that of a tile is each one's
// own.
bool fused_may_lie_over(const struct fused_kernel *k, int output, uint32_t buffer)
{
    const struct fused_access *to = &k->out[output].to;
    bool own = fused_is_flat(k) || fused_by_element(k, output) || k->product.n_m;
    int n_dims = fused_is_flat(k) ? k->n_dims : k->n_dims - k->n_reduce;
    if (!own || k->trips.on || k->attention.n_m || repeats(k, to, n_dims)) return false;
    for (int i = 0; i < k->n_in; i++) {
        const struct fused_access *from = &k->in[i];
        if (from->buffer != buffer) continue;
        if (fused_is_placed(k, i) || dtype_size_B[from->dtype] != dtype_size_B[to->dtype]) return false;
        if (!fused_same_places(k, from, to)) return false;
    }
    for (int i = 0; i < k->n_out; i++)
        if (i != output && k->out[i].to.buffer == buffer) return false;
    return true;
}

int64_t fused_points(const struct fused_kernel *k)
{
    int64_t n = 1;
    for (int d = 0; d < k->n_dims - k->n_reduce; d++) n *= k->sizes[d];
    return n;
}

int64_t fused_row_length(const struct fused_kernel *k)
{
    int64_t n = 1;
    for (int d = k->n_dims - k->n_reduce; d < k->n_dims; d++) n *= k->sizes[d];
    return n;
}

bool fused_is_nothing(const struct fused_kernel *k, const struct fused_access *a)
{
    for (int d = 0; d < k->n_dims; d++)
        if (k->sizes[d] == 0 && a->strides[d] != 0) return true;
    return false;
}

void fused_range(const struct fused_kernel *k, const struct fused_access *a, int64_t *lo_B, int64_t *hi_B)
{
    *lo_B = *hi_B = 0;
    if (fused_is_nothing(k, a)) return;
    int64_t lo = a->offset, hi = a->offset, size_B = dtype_size_B[a->dtype];
    for (int d = 0; d < k->n_dims; d++) {
        int64_t reach = a->strides[d] * (k->sizes[d] - 1);
        if (reach < 0)
            lo += reach;
        else
            hi += reach;
    }
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        if (fused_access_at(k, i) != a) continue;
        int64_t reach = fused_step(k, i) * (k->trips.most - 1);
        if (reach < 0)
            lo += reach;
        else
            hi += reach;
    }
    *lo_B = lo * size_B;
    *hi_B = (hi + 1) * size_B;
}

bool fused_needs_wide_index(const struct fused_kernel *k)
{
    int64_t lo_B, hi_B;
    if (fused_points(k) > INT32_MAX || fused_row_length(k) > INT32_MAX) return true;
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        const struct fused_access *a = fused_access_at(k, i);
        fused_range(k, a, &lo_B, &hi_B);
        if (lo_B < -(int64_t)INT32_MAX || hi_B > INT32_MAX) return true;
    }
    return false;
}

int fused_bucket(const struct fused_kernel *k)
{
    int64_t n = fused_row_length(k);
    return n <= 8 ? (int)n : 64 - __builtin_clzll((unsigned long long)n - 1) + 8;
}

int64_t fused_longest_row(const struct fused_kernel *k)
{
    int bucket = fused_bucket(k);
    return bucket <= 8 ? bucket : INT64_C(1) << (bucket - 8);
}
