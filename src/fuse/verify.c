// What code generators rely on in a fused kernel, looked at once more when fusion has decided, by other means than it
// used: the classes of nodes, levels, the factors of a product or of attention, the places of loads and stores.
#include "fuse/fuse.h"
#include "ir/overlap.h"
#include "scalar/prim.h"
#include "scalar/reduce.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kernel_check {
    const struct fused_kernel *k;
    const struct unit_buffer *buffers;
    uint32_t *dims; // by node: the dimensions that it depends on, as bits
};

__attribute__((format(printf, 3, 4))) static kiln_status wrong(const struct kernel_check *c, int node,
                                                               const char *format, ...)
{
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set(KILN_E_INTERNAL, "fused kernel %s: node %d %s", c->k->name, node, what);
}

// Nodes

static kiln_status check_prim(const struct kernel_check *c, int i)
{
    const struct scalar_node *nodes = c->k->dag.nodes, *n = &nodes[i];
    if (n->code >= PRIM_COUNT || n->n_args != prim_arity(n->code)) return wrong(c, i, "is no primitive");
    if (!n->n_args) return KILN_OK;
    bool selects = prim_chooses(n->code);
    enum scalar_class key = nodes[n->arg[selects ? 1 : 0]].cls;
    const struct prim_spelling *s = prim_spelling(n->code, key);
    if (!s || s->result != n->cls)
        return wrong(c, i, "is %s in a class that it does not have", scalar_prim_name(n->code));
    if (selects && nodes[n->arg[0]].cls != CLASS_BOOL) return wrong(c, i, "selects by what is no bool");
    for (int a = selects; a < n->n_args; a++)
        if (nodes[n->arg[a]].cls != key) return wrong(c, i, "takes arguments of several classes");
    return KILN_OK;
}

static kiln_status check_node(const struct kernel_check *c, int i)
{
    const struct scalar_node *nodes = c->k->dag.nodes, *n = &nodes[i];
    if (n->kind == SCALAR_PRIM) return check_prim(c, i);
    if (n->kind != SCALAR_REDUCE) return KILN_OK;
    if (reduce_of(n) >= REDUCE_COUNT || n->n_args != 1) return wrong(c, i, "is no reduction");
    bool place = reduce_info[reduce_of(n)].finds_place;
    return n->cls == (place ? CLASS_I64 : nodes[n->arg[0]].cls) ? KILN_OK : wrong(c, i, "reduces into another class");
}

// Levels and stages are what an analysis of the kernel as it is now finds.
static kiln_status check_levels(const struct kernel_check *c)
{
    struct arena a;
    struct fused_kernel again = *c->k;
    size_t n = (size_t)again.dag.n_nodes;
    arena_init(&a);
    kiln_status status = fused_finish(&a, &again);
    if (!status && (memcmp(again.level, c->k->level, n) != 0 || memcmp(again.stage, c->k->stage, n) != 0 ||
                    memcmp(again.turns, c->k->turns, n) != 0 || again.n_stages != c->k->n_stages ||
                    again.has_total != c->k->has_total))
        status = error_set(KILN_E_INTERNAL, "fused kernel %s: its levels are those of another one", c->k->name);
    arena_finish(&a);
    return status;
}

// Dimensions

static uint32_t dims_between(int from, int to)
{
    return ((uint32_t)1 << to) - ((uint32_t)1 << from);
}

static void find_dims(const struct kernel_check *c)
{
    const struct fused_kernel *k = c->k;
    uint32_t rows = dims_between(0, k->n_dims - k->n_reduce);
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        uint32_t dims = n->kind == SCALAR_DIM ? (uint32_t)1 << n->code : 0;
        for (int d = 0; n->kind == SCALAR_LOAD && d < k->n_dims; d++)
            dims |= (uint32_t)(k->in[n->code].strides[d] != 0) << d;
        for (int a = 0; a < n->n_args; a++) dims |= c->dims[n->arg[a]];
        if (n->kind == SCALAR_REDUCE) dims = n->code & REDUCE_ACROSS ? 0 : dims & rows;
        c->dims[i] = dims;
    }
}

static kiln_status check_product(const struct kernel_check *c)
{
    const struct fused_kernel *k = c->k;
    const struct fused_product *p = &k->product;
    int n = p->n_batch + p->n_m, n_folds = 0;
    if (!p->n_m) return KILN_OK;
    if (!p->n_n || n + p->n_n != k->n_dims - k->n_reduce) return wrong(c, p->sum, "is a product of other dimensions");
    for (int i = 0; i < k->dag.n_nodes; i++) n_folds += k->dag.nodes[i].kind == SCALAR_REDUCE;
    const struct scalar_node *sum = &k->dag.nodes[p->sum], *times = &k->dag.nodes[sum->arg[0]];
    bool sums = n_folds == 1 && sum->kind == SCALAR_REDUCE && sum->code == REDUCE_SUM;
    bool multiplies = times->kind == SCALAR_PRIM && times->code == PRIM_mul;
    bool factors = (times->arg[0] == p->a && times->arg[1] == p->b) || (times->arg[0] == p->b && times->arg[1] == p->a);
    if (!sums || !multiplies || !factors) return wrong(c, p->sum, "is no sum of the factors' products");
    if (c->dims[p->a] & dims_between(n, n + p->n_n)) return wrong(c, p->a, "depends on the columns");
    if (c->dims[p->b] & dims_between(p->n_batch, n)) return wrong(c, p->b, "depends on the rows");
    return KILN_OK;
}

static kiln_status check_attention(const struct kernel_check *c)
{
    const struct fused_attention *t = &c->k->attention;
    int m = t->n_batch, d = m + t->n_m, n = d + t->n_d, k = n + t->n_n, end = k + t->n_k;
    if (!t->n_m) return KILN_OK;
    if (!t->n_d || !t->n_n || !t->n_k || n != c->k->n_dims - c->k->n_reduce || end != c->k->n_dims)
        return wrong(c, t->out, "is attention over other dimensions");
    if (c->dims[t->q] & dims_between(d, k)) return wrong(c, t->q, "is a query that depends on keys or values");
    if (c->dims[t->k] & dims_between(m, n)) return wrong(c, t->k, "is a key that depends on queries or values");
    if (c->dims[t->v] & (dims_between(m, d) | dims_between(k, end)))
        return wrong(c, t->v, "is a value that depends on queries or keys");
    return KILN_OK;
}

// What is carried is read where it is written, at no computed place, and is there when the next trip begins.
static kiln_status check_trips(const struct kernel_check *c)
{
    const struct fused_kernel *k = c->k;
    const struct fused_trips *t = &k->trips;
    if (!t->on) return KILN_OK;
    bool scalars = t->first < k->n_scalars && t->count < k->n_scalars;
    scalars = scalars && k->scalar_cls[t->first] == CLASS_I64 && k->scalar_cls[t->count] == CLASS_I64;
    if (!scalars || t->most < 1) return wrong(c, 0, "is of a kernel whose trips are not counted");
    bool folds = k->n_reduce || k->n_stages;
    if ((folds && !t->in_place) || k->has_total || k->n_checks || k->table || k->product.n_m || k->attention.n_m)
        return wrong(c, 0, "is of a kernel that makes trips and cannot");
    for (int i = 0; i < k->dag.n_nodes; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (!fused_is_carried(k, i)) continue;
        int output = t->carried[n->code] - 1;
        if ((n->n_args && !t->together) || output >= k->n_out) return wrong(c, i, "is carried from nowhere");
        const struct fused_access *from = &k->in[n->code], *to = &k->out[output].to;
        if (t->together && from->dtype == to->dtype && t->in_place && t->last[output]) continue;
        bool same =
            from->offset == to->offset && from->dtype == to->dtype && !t->step[n->code] && !t->step[k->n_in + output];
        for (int d = 0; d < k->n_dims; d++) same = same && from->strides[d] == to->strides[d];
        if (!same) return wrong(c, i, "is carried from another place");
    }
    return KILN_OK;
}

// Memory

// Each point that has the value has an element of its own.
static kiln_status check_stores(const struct kernel_check *c, const struct fused_output *o)
{
    const struct fused_kernel *k = c->k;
    struct type t = {.dtype = o->to.dtype};
    struct layout l = {.offset = 0};
    enum fused_level level = (enum fused_level)k->level[o->node];
    int end = level == LEVEL_ELEMENT ? k->n_dims : level == LEVEL_ROW ? k->n_dims - k->n_reduce : 0;
    for (int d = 0; d < end && t.rank < MAX_RANK; d++) {
        bool shared = k->trips.on && !(c->dims[o->node] >> d & 1); // all points along it store the same
        if (k->sizes[d] == 1 || shared) continue;
        t.dims[t.rank] = k->sizes[d];
        l.strides[t.rank++] = o->to.strides[d];
    }
    return layout_overlaps(&t, &l) ? wrong(c, o->node, "is stored twice in one place") : KILN_OK;
}

static bool has_place(const struct fused_kernel *k, int access)
{
    for (int i = 0; i < k->dag.n_nodes && access < k->n_in; i++)
        if (k->dag.nodes[i].kind == SCALAR_LOAD && k->dag.nodes[i].code == access && k->dag.nodes[i].n_args)
            return true;
    return false;
}

// Buffers of the graph's own values are dense; where they end is known.
static kiln_status check_reach(const struct kernel_check *c, int access)
{
    const struct fused_access *a = fused_access_at(c->k, access);
    const struct unit_buffer *b = &c->buffers[a->buffer];
    int64_t lo_B, hi_B;
    fused_range(c->k, a, &lo_B, &hi_B);
    bool known = b->kind == BUFFER_VALUE || b->kind == BUFFER_TEMP;
    if (!known || has_place(c->k, access) || fused_row_length(c->k) == 0) return KILN_OK;
    if (lo_B >= 0 && hi_B <= b->numel * dtype_size_B[b->dtype]) return KILN_OK;
    return error_set(KILN_E_INTERNAL, "fused kernel %s: access %d reaches around buffer %d", c->k->name, access,
                     a->buffer);
}

static kiln_status check(const struct kernel_check *c)
{
    const struct fused_kernel *k = c->k;
    TRY(check_levels(c));
    for (int i = 0; i < k->dag.n_nodes; i++) TRY(check_node(c, i));
    find_dims(c);
    TRY(check_product(c));
    TRY(check_attention(c));
    TRY(check_trips(c));
    for (int i = 0; i < k->n_out; i++) TRY(check_stores(c, &k->out[i]));
    for (int i = 0; i < k->n_in + k->n_out; i++) TRY(check_reach(c, i));
    return KILN_OK;
}

kiln_status fused_verify(const struct fused_kernel *k, const struct unit_buffer *buffers)
{
    struct kernel_check c = {k, buffers, calloc((size_t)k->dag.n_nodes + 1, sizeof *c.dims)};
    kiln_status status = c.dims ? check(&c) : error_set(KILN_E_MEMORY, "graph: out of memory");
    free(c.dims);
    return status;
}
