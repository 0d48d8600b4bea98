// Input: a kernel with one fold. The fold must be a sum of x * y. For each node the set of dimensions that its value
// depends on follows from its arguments, and for a load from the strides. A dimension of P that only x depends on
// belongs to M, one that only y depends on to N, any other to the batch. Neither loop repeats: the nodes are in order.
#include "fuse/product.h"
#include "scalar/prim.h"
#include <string.h>

enum side { SIDE_BATCH, SIDE_M, SIDE_N };

// The only fold over R; -1 when there are several, or one across rows.
static int only_fold(const struct fused_kernel *k)
{
    int found = -1;
    for (int i = 0; i < k->dag.n_nodes; i++) {
        if (k->dag.nodes[i].kind != SCALAR_REDUCE) continue;
        if (found >= 0 || k->dag.nodes[i].code & REDUCE_ACROSS) return -1;
        found = i;
    }
    return found;
}

// All that a node stands on, itself included, as bits.
struct below {
    uint8_t bits[UINT16_MAX / 8 + 1];
};

static void add_below(struct below *b, int node)
{
    b->bits[node / 8] = (uint8_t)(b->bits[node / 8] | 1u << node % 8);
}

static bool is_below(const struct below *b, int node)
{
    return b->bits[node / 8] >> node % 8 & 1;
}

static void find_below(const struct fused_kernel *k, int node, struct below *b)
{
    memset(b->bits, 0, (size_t)node / 8 + 1);
    add_below(b, node);
    for (int i = node; i >= 0; i--)
        for (int a = 0; is_below(b, i) && a < k->dag.nodes[i].n_args; a++) add_below(b, k->dag.nodes[i].arg[a]);
}

static uint32_t dims_of(const struct fused_kernel *k, int node)
{
    struct below below;
    uint32_t dims = 0;
    find_below(k, node, &below);
    for (int i = 0; i <= node; i++) {
        const struct scalar_node *n = &k->dag.nodes[i];
        if (!is_below(&below, i)) continue;
        if (n->kind == SCALAR_DIM) dims |= 1u << n->code;
        for (int d = 0; n->kind == SCALAR_LOAD && d < k->n_dims; d++)
            dims |= (uint32_t)(k->in[n->code].strides[d] != 0) << d;
    }
    return dims;
}

// The nodes a, b and the sum of a product, with the dimensions that a and b depend on.
static bool find_factors(const struct fused_kernel *k, struct fused_product *p, uint32_t *a, uint32_t *b)
{
    int fold = only_fold(k);
    if (fold < 0 || k->dag.nodes[fold].code != REDUCE_SUM) return false;
    const struct scalar_node *times = &k->dag.nodes[k->dag.nodes[fold].arg[0]];
    if (times->kind != SCALAR_PRIM || times->code != PRIM_mul) return false;
    p->sum = (uint16_t)fold;
    p->a = times->arg[0];
    p->b = times->arg[1];
    *a = dims_of(k, p->a);
    *b = dims_of(k, p->b);
    uint32_t first_a = *a & ~*b, first_b = *b & ~*a, rows = (1u << (k->n_dims - k->n_reduce)) - 1;
    // N is the side whose dimensions are the faster ones.
    if ((first_a & rows) > (first_b & rows)) {
        uint16_t node = p->a;
        uint32_t dims = *a;
        p->a = p->b, *a = *b;
        p->b = node, *b = dims;
    }
    return true;
}

static enum side side_of(uint32_t a, uint32_t b, int d)
{
    bool of_a = a >> d & 1, of_b = b >> d & 1;
    return of_a == of_b ? SIDE_BATCH : of_a ? SIDE_M : SIDE_N;
}

static void permute(struct fused_kernel *k, const int *from) // the dimension that comes to each place
{
    struct scalar_node *nodes = (struct scalar_node *)(uintptr_t)k->dag.nodes; // the kernel's own, from its arena
    int64_t old[FUSED_MAX_DIMS];
    int to[FUSED_MAX_DIMS];
    for (int d = 0; d < k->n_dims; d++) to[from[d]] = d;
    memcpy(old, k->sizes, sizeof old);
    for (int d = 0; d < k->n_dims; d++) k->sizes[d] = old[from[d]];
    for (int i = 0; i < k->n_in + k->n_out; i++) {
        struct fused_access *a = i < k->n_in ? &k->in[i] : &k->out[i - k->n_in].to;
        memcpy(old, a->strides, sizeof old);
        for (int d = 0; d < k->n_dims; d++) a->strides[d] = old[from[d]];
    }
    for (int i = 0; i < k->dag.n_nodes; i++)
        if (nodes[i].kind == SCALAR_DIM || nodes[i].kind == SCALAR_SIZE) nodes[i].code = (uint16_t)to[nodes[i].code];
}

void product_arrange(struct fused_kernel *k)
{
    struct fused_product p;
    uint32_t a, b;
    int from[FUSED_MAX_DIMS], n = 0, parallel = k->n_dims - k->n_reduce;
    if (!find_factors(k, &p, &a, &b)) return;
    for (enum side side = SIDE_BATCH; side <= SIDE_N; side++)
        for (int d = 0; d < parallel; d++)
            if (side_of(a, b, d) == side) from[n++] = d;
    for (int d = parallel; d < k->n_dims; d++) from[n++] = d;
    permute(k, from);
}

static bool one_for_each_row(const struct fused_kernel *k)
{
    if (k->has_total || k->n_checks) return false;
    for (int i = 0; i < k->n_out; i++) {
        if (k->level[k->out[i].node] == LEVEL_ELEMENT) return false;
        for (int d = k->n_dims - k->n_reduce; d < k->n_dims; d++)
            if (k->out[i].to.strides[d]) return false;
    }
    return true;
}

bool product_find(struct fused_kernel *k)
{
    struct fused_product p = {0};
    uint32_t a, b;
    k->product = p;
    if (!find_factors(k, &p, &a, &b) || !one_for_each_row(k)) return false;
    int parallel = k->n_dims - k->n_reduce, count[SIDE_N + 1] = {0};
    for (int d = 0; d < parallel; d++) {
        enum side side = side_of(a, b, d);
        for (int later = (int)side + 1; later <= SIDE_N; later++)
            if (count[later]) return false; // was not arranged
        count[side]++;
    }
    if (!count[SIDE_M] || !count[SIDE_N]) return true;
    p.n_batch = (uint8_t)count[SIDE_BATCH];
    p.n_m = (uint8_t)count[SIDE_M];
    p.n_n = (uint8_t)count[SIDE_N];
    k->product = p;
    return true;
}

int product_side_steps(const struct fused_kernel *k, int node)
{
    struct below below;
    int sum = 0;
    find_below(k, node, &below);
    for (int i = 0; i <= node; i++)
        if (is_below(&below, i) && k->level[i] == LEVEL_ELEMENT) sum += scalar_node_steps(&k->dag.nodes[i]);
    return sum;
}
