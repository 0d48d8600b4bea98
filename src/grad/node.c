// Nodes: one allocation each, from free lists by size, and freeing that does not recurse.
#include "base/thread.h"
#include "grad/tape.h"
#include <stdlib.h>
#include <string.h>

#define CLASS_SIZE_B    64
#define CLASS_MAX       32   // larger nodes go to malloc
#define CLASS_NODES_MAX 1024 // kept a class

struct node_pool {
    struct tape_node *first[CLASS_MAX + 1];
    int count[CLASS_MAX + 1];
};
static THREAD_LOCAL struct node_pool *pool; // NULL until the thread's first node
static atomic_uint_fast64_t sequence;

// The first word of a free node is the link.
static struct tape_node **link_of(struct tape_node *n)
{
    return (struct tape_node **)(void *)n;
}

static void drop_pool(void)
{
    for (int i = 0; i <= CLASS_MAX; i++)
        while (pool->first[i]) {
            struct tape_node *n = pool->first[i];
            pool->first[i] = *link_of(n);
            free(n);
        }
    free(pool);
    pool = NULL;
}

// Without memory for it nodes come from malloc one by one.
static void make_pool(void)
{
    pool = calloc(1, sizeof *pool);
    if (pool) thread_at_end(THREAD_TAPE, drop_pool);
}

static struct tape_node *pool_take(size_t size_B, uint16_t *size_class)
{
    size_t c = (size_B + CLASS_SIZE_B - 1) / CLASS_SIZE_B;
    *size_class = c > CLASS_MAX ? 0 : (uint16_t)c;
    struct tape_node *n = KILN_LIKELY(pool != NULL) ? pool->first[*size_class] : NULL;
    if (KILN_LIKELY(*size_class && n)) {
        pool->first[*size_class] = *link_of(n);
        pool->count[*size_class]--;
        return n;
    }
    if (!pool) make_pool();
    n = malloc(*size_class ? c * CLASS_SIZE_B : size_B);
    if (!n) error_set(KILN_E_MEMORY, "out of memory for the tape");
    return n;
}

static void pool_give(struct tape_node *n)
{
    int c = n->size_class;
    if (c == 0 || !pool || pool->count[c] >= CLASS_NODES_MAX) {
        free(n);
        return;
    }
    *link_of(n) = pool->first[c];
    pool->first[c] = n;
    pool->count[c]++;
}

struct tape_node *node_new(uint8_t kind, int n_in, int n_out, int n_attrs, int n_dims)
{
    size_t values_B = sizeof(struct tape_value) * (size_t)(n_in + n_out),
           edges_B = sizeof(struct tape_edge) * (size_t)n_in;
    size_t attrs_B = sizeof(struct attr) * (size_t)n_attrs, dims_B = sizeof(int64_t) * (size_t)n_dims;
    uint16_t size_class;
    struct tape_node *n = pool_take(sizeof *n + values_B + edges_B + attrs_B + dims_B, &size_class);
    if (!n) return NULL;
    char *at = (char *)(n + 1);
    atomic_init(&n->refs, 1);
    n->kind = kind;
    n->n_out = (uint8_t)n_out;
    n->n_in = (uint16_t)n_in;
    n->size_class = size_class;
    n->freed = false;
    n->sequence = atomic_fetch_add_explicit(&sequence, 1, memory_order_relaxed) + 1;
    n->op = NULL;
    n->rule = NULL;
    n->values = (struct tape_value *)(void *)at;
    n->edges = (struct tape_edge *)(void *)(at += values_B);
    n->attrs = (struct attr *)(void *)(at += edges_B);
    n->dims = (int64_t *)(void *)(at + attrs_B);
    n->hooks = NULL;
    n->leaf = NULL;
    n->held = NULL;
    n->held_place = NULL;
    n->drop = NULL;
    n->where = 0;
    return n;
}

struct tape_node *node_input(const struct type *type, const struct tape_edge *outer)
{
    struct tape_node *n = node_new(NODE_INPUT, 1, 1, 0, 2 * type->rank);
    if (!n) return NULL;
    for (int k = 0; k < 2; k++)
        n->values[k] =
            (struct tape_value){.dtype = type->dtype, .rank = type->rank, .weak = type->weak, .state = VALUE_TYPE};
    for (int d = 0; d < type->rank; d++) n->dims[d] = type->dims[d];
    n->edges[0] = (struct tape_edge){node_ref(outer->node), outer->out};
    return n;
}

uint64_t node_sequence(void)
{
    return atomic_load_explicit(&sequence, memory_order_relaxed);
}

struct tape_node *node_ref(struct tape_node *n)
{
    if (n) atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
    return n;
}

// Where nodes wait whose last reference went while another one was being freed, linked through `op`, which is dead by
// then; NULL: none is.
static THREAD_LOCAL struct tape_node **doomed;

void node_release_saved(struct tape_node *n)
{
    if (n->freed || n->kind == NODE_LEAF) return;
    n->freed = true;
    for (int i = 0; i < n->n_in + n->n_out; i++)
        if (n->values[i].state == VALUE_STORAGE) {
            storage_unsave(n->values[i].storage);
            n->values[i].state = VALUE_TYPE;
        }
    for (int i = 0; i < n->n_in; i++) {
        struct tape_node *to = n->edges[i].node;
        n->edges[i].node = NULL;
        node_unref(to);
    }
    void (*drop)(void *) = n->drop;
    n->drop = NULL;
    n->where = 0;
    if (drop) drop(n->held);
}

static void destroy(struct tape_node *n)
{
    while (n->hooks) {
        struct tape_hook *h = n->hooks;
        n->hooks = h->next;
        free(h);
    }
    if (n->leaf) {
        if (n->leaf->gradient) tensor_destroy(n->leaf->gradient);
        family_forget(n->leaf->family);
        free(n->leaf->name);
        free(n->leaf);
    }
    node_release_saved(n);
    pool_give(n);
}

void node_unref(struct tape_node *n)
{
    if (!n || atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) != 1) return;
    if (doomed) {
        n->op = (const struct op *)(const void *)*doomed;
        *doomed = n;
        return;
    }
    struct tape_node *waiting = NULL;
    doomed = &waiting;
    destroy(n);
    while (waiting) {
        n = waiting;
        waiting = (struct tape_node *)(uintptr_t)(const void *)n->op;
        destroy(n);
    }
    doomed = NULL;
}

void node_value_type(const struct tape_node *n, const struct tape_value *v, struct type *out)
{
    out->dtype = v->dtype;
    out->rank = v->rank;
    out->weak = v->weak;
    for (int i = 0; i < v->rank; i++) out->dims[i] = n->dims[v->dims_at + i];
}

void node_value_layout(const struct tape_node *n, const struct tape_value *v, struct layout *out)
{
    out->offset = v->state == VALUE_WEAK || v->state == VALUE_ABSTRACT ? 0 : v->offset;
    for (int i = 0; i < v->rank; i++) out->strides[i] = n->dims[v->dims_at + v->rank + i];
}

static struct tape_node cuts[] = {
    {.refs = 1, .kind = NODE_CUT, .n_out = 1, .held_place = "grad"},
    {.refs = 1, .kind = NODE_CUT, .n_out = 1, .held_place = "value_and_grad"},
    {.refs = 1, .kind = NODE_CUT, .n_out = 1, .held_place = "gradients"},
};

struct tape_node *node_cut(const char *function)
{
    size_t i = 0;
    while (i + 1 < COUNT_OF(cuts) && strcmp(cuts[i].held_place, function)) i++;
    return &cuts[i];
}

kiln_status node_cut_error(const char *function, const struct tape_node *cut)
{
    return error_set(
        KILN_E_GRADIENT,
        "%s: out comes from a result of kiln_%s, which kept no tape: pass .create_graph to that one, or take "
        "kiln_stop_gradient of its result",
        function, node_name(cut));
}

const char *node_name(const struct tape_node *n)
{
    if (n->kind == NODE_CUT) return n->held_place;
    if (n->kind == NODE_LEAF) return n->leaf->name ? n->leaf->name : "a leaf";
    return n->kind == NODE_INPUT ? "an input of the function" : n->op->name;
}

kiln_tensor *grad_second_handle(const kiln_tensor *t)
{
    kiln_tensor *r = tensor_second((kiln_tensor *)t);
    if (!r) return NULL;
    tape_set_node(r, t->node, t->node_out);
    return r;
}
