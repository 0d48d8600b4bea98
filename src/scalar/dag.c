// Makes nodes of a DAG, each once, and simpler where that is exact.
#include "scalar/dag.h"
#include "scalar/reduce.h"
#include "base/hash.h"
#include <math.h>
#include <string.h>

enum { MAX_NODES = 65535 }; // node indices are 16 bits

void dag_begin(struct dag_builder *b)
{
    *b = (struct dag_builder){0};
    arena_init(&b->scratch);
}

void dag_end(struct dag_builder *b)
{
    arena_finish(&b->scratch);
    b->nodes = NULL;
    b->table = NULL;
}

static uint32_t node_hash(const struct scalar_node *n)
{
    uint64_t head = (uint64_t)n->kind | (uint64_t)n->cls << 8 | (uint64_t)n->code << 16 | (uint64_t)n->n_args << 32;
    uint64_t args = (uint64_t)n->arg[0] | (uint64_t)n->arg[1] << 16 | (uint64_t)n->arg[2] << 32;
    return (uint32_t)hash_u64(hash_u64(hash_u64(0, head), args), n->value.bits);
}

static bool node_equal(const struct scalar_node *x, const struct scalar_node *y)
{
    return x->kind == y->kind && x->cls == y->cls && x->code == y->code && x->n_args == y->n_args &&
           x->arg[0] == y->arg[0] && x->arg[1] == y->arg[1] && x->arg[2] == y->arg[2] && x->value.bits == y->value.bits;
}

static uint32_t *find_slot(const struct dag_builder *b, const struct scalar_node *n)
{
    uint32_t at = node_hash(n) & (b->table_size - 1);
    while (b->table[at] && !node_equal(&b->nodes[b->table[at] - 1], n)) at = (at + 1) & (b->table_size - 1);
    return &b->table[at];
}

// Nodes and table double together; the old ones stay in the scratch arena until dag_end.
static bool grow(struct dag_builder *b)
{
    int capacity = b->capacity ? b->capacity * 2 : 64;
    if (b->capacity >= MAX_NODES) {
        error_set(KILN_E_UNSUPPORTED, "expression: more than %d nodes", MAX_NODES);
        return false;
    }
    if (capacity > MAX_NODES) capacity = MAX_NODES;
    uint32_t table_size = b->table_size ? b->table_size * 2 : 128;
    struct scalar_node *nodes = arena_alloc(&b->scratch, (size_t)capacity * sizeof *nodes);
    uint32_t *table = arena_alloc(&b->scratch, table_size * sizeof *table);
    if (!nodes || !table) return false;
    if (b->n_nodes) memcpy(nodes, b->nodes, (size_t)b->n_nodes * sizeof *nodes);
    b->nodes = nodes;
    b->capacity = capacity;
    b->table = table;
    b->table_size = table_size;
    for (int i = 0; i < b->n_nodes; i++) *find_slot(b, &nodes[i]) = (uint32_t)i + 1;
    return true;
}

static int intern(struct dag_builder *b, const struct scalar_node *n)
{
    if (b->n_nodes == b->capacity && !grow(b)) return -1;
    uint32_t *slot = find_slot(b, n);
    if (!*slot) {
        b->nodes[b->n_nodes++] = *n;
        *slot = (uint32_t)b->n_nodes;
    }
    return (int)*slot - 1;
}

int dag_const(struct dag_builder *b, enum scalar_class cls, union scalar_value value)
{
    // The bytes beside a narrow value are cleared, since constants are told apart by all 64 bits.
    union scalar_value v = {.bits = 0};
    switch (cls) {
    case CLASS_F32: v.f32 = value.f32; break;
    case CLASS_I32: v.i32 = value.i32; break;
    case CLASS_BOOL: v.b = value.b != 0; break;
    default: v.bits = value.bits; break;
    }
    return intern(b, &(struct scalar_node){.kind = SCALAR_CONST, .cls = cls, .value = v});
}

int dag_number(struct dag_builder *b, enum scalar_class cls, double value)
{
    union scalar_value v = {.bits = 0};
    switch (cls) {
    case CLASS_F32: v.f32 = (float)value; break;
    case CLASS_F64: v.f64 = value; break;
    case CLASS_I32: v.i32 = (int32_t)value; break;
    case CLASS_I64: v.i64 = (int64_t)value; break;
    default: v.b = value != 0; break;
    }
    return dag_const(b, cls, v);
}

int dag_input(struct dag_builder *b, enum scalar_class cls, uint16_t index)
{
    return intern(b, &(struct scalar_node){.kind = SCALAR_INPUT, .cls = cls, .code = index});
}

int dag_reduce(struct dag_builder *b, enum scalar_reduce how, int x)
{
    if (x < 0) return -1;
    bool finds_place = reduce_info[how & ~REDUCE_ACROSS].finds_place;
    enum scalar_class cls = finds_place ? CLASS_I64 : dag_class(b, x);
    return intern(b, &(struct scalar_node){
                         .kind = SCALAR_REDUCE, .cls = cls, .code = (uint16_t)how, .n_args = 1, .arg = {(uint16_t)x}});
}

int dag_load(struct dag_builder *b, enum scalar_class cls, uint16_t access, int at, int where)
{
    struct scalar_node n = {.kind = SCALAR_LOAD, .cls = cls, .code = access};
    if (at >= 0) n.arg[n.n_args++] = (uint16_t)at;
    if (where >= 0) n.arg[n.n_args++] = (uint16_t)where;
    return intern(b, &n);
}

int dag_dim(struct dag_builder *b, uint16_t dim)
{
    return intern(b, &(struct scalar_node){.kind = SCALAR_DIM, .cls = CLASS_I64, .code = dim});
}

int dag_size(struct dag_builder *b, uint16_t dim)
{
    return intern(b, &(struct scalar_node){.kind = SCALAR_SIZE, .cls = CLASS_I64, .code = dim});
}

int dag_lib(struct dag_builder *b, uint16_t lib, const int *arg)
{
    struct scalar_node n = {.kind = SCALAR_LIB, .code = lib, .n_args = scalar_lib_row(lib)->arity};
    for (int i = 0; i < n.n_args; i++) {
        if (arg[i] < 0) return -1;
        n.arg[i] = (uint16_t)arg[i];
    }
    n.cls = dag_class(b, arg[0]);
    return intern(b, &n);
}

static bool is_const(const struct dag_builder *b, int node, double value)
{
    const struct scalar_node *n = &b->nodes[node];
    if (n->kind != SCALAR_CONST) return false;
    switch (n->cls) {
    case CLASS_F32: return n->value.f32 == value && !signbit(n->value.f32);
    case CLASS_F64: return n->value.f64 == value && !signbit(n->value.f64);
    case CLASS_I32: return n->value.i32 == value;
    case CLASS_I64: return n->value.i64 == (int64_t)value;
    default: return n->value.b == (uint8_t)value;
    }
}

static int arg_of_prim(const struct dag_builder *b, int node, enum scalar_prim prim)
{
    const struct scalar_node *n = &b->nodes[node];
    return n->kind == SCALAR_PRIM && n->code == prim ? n->arg[0] : -1;
}

enum { SIGN_DEPTH = 4 };

// No number below 0 for any input; NaN it may be.
static bool never_negative(const struct dag_builder *b, int node, int depth)
{
    const struct scalar_node *n = &b->nodes[node];
    if (n->cls != CLASS_F32 && n->cls != CLASS_F64) return false;
    if (n->kind == SCALAR_CONST) return n->cls == CLASS_F32 ? n->value.f32 >= 0 : n->value.f64 >= 0;
    if (n->kind != SCALAR_PRIM || depth == 0) return false;
    switch (n->code) {
    case PRIM_abs: return true;
    case PRIM_mul: return n->arg[0] == n->arg[1];
    case PRIM_add: return never_negative(b, n->arg[0], depth - 1) && never_negative(b, n->arg[1], depth - 1);
    case PRIM_select:
    case PRIM_rare: return never_negative(b, n->arg[1], depth - 1) && never_negative(b, n->arg[2], depth - 1);
    default: return false;
    }
}

// None above 0: x - max over x, or what is the negative of the others.
static bool never_positive(const struct dag_builder *b, int node)
{
    const struct scalar_node *n = &b->nodes[node];
    if (n->kind != SCALAR_PRIM) return false;
    if (n->code == PRIM_neg) return never_negative(b, n->arg[0], SIGN_DEPTH);
    const struct scalar_node *most = n->code == PRIM_sub ? &b->nodes[n->arg[1]] : NULL;
    return most && most->kind == SCALAR_REDUCE && most->code == REDUCE_MAX && most->arg[0] == n->arg[0];
}

// What keeps an exponential from overflow is not needed where its argument cannot be so large, or so small.
static bool never_above(const struct dag_builder *b, int x, int bound)
{
    return b->nodes[bound].kind == SCALAR_CONST && never_negative(b, bound, 0) && never_positive(b, x);
}

static bool never_below(const struct dag_builder *b, int x, int bound)
{
    const struct scalar_node *c = &b->nodes[bound];
    bool low = c->kind == SCALAR_CONST &&
               ((c->cls == CLASS_F32 && c->value.f32 <= 0) || (c->cls == CLASS_F64 && c->value.f64 <= 0));
    return low && never_negative(b, x, SIGN_DEPTH);
}

// A node of the same value for every input, NaN and -0 included; -1 when there is none.
static int simplify(struct dag_builder *b, enum scalar_prim prim, int x, int y, int z)
{
    enum scalar_class cls = dag_class(b, x);
    bool whole = cls == CLASS_I32 || cls == CLASS_I64;
    switch (prim) {
    case PRIM_add:
        if (whole && is_const(b, y, 0)) return x;
        if (whole && is_const(b, x, 0)) return y;
        return -1;
    case PRIM_sub: return is_const(b, y, 0) ? x : -1;
    case PRIM_mul:
        if (is_const(b, y, 1)) return x;
        if (is_const(b, x, 1)) return y;
        if (whole && is_const(b, y, 0)) return y;
        return whole && is_const(b, x, 0) ? x : -1;
    case PRIM_div: return is_const(b, y, 1) ? x : -1;
    case PRIM_shl:
    case PRIM_shr:
    case PRIM_shru: return is_const(b, y, 0) ? x : -1;
    case PRIM_gt: return never_above(b, x, y) ? dag_number(b, CLASS_BOOL, 0) : -1;
    case PRIM_lt: return never_below(b, x, y) ? dag_number(b, CLASS_BOOL, 0) : -1;
    case PRIM_neg: return arg_of_prim(b, x, PRIM_neg);
    case PRIM_not: return arg_of_prim(b, x, PRIM_not);
    case PRIM_bits: return arg_of_prim(b, x, PRIM_from_bits);
    case PRIM_from_bits: return arg_of_prim(b, x, PRIM_bits);
    case PRIM_and:
        if (x == y) return x;
        if (cls == CLASS_BOOL && is_const(b, x, 1)) return y;
        if (cls == CLASS_BOOL && is_const(b, y, 1)) return x;
        return -1;
    case PRIM_or:
        if (x == y) return x;
        if (is_const(b, x, 0)) return y;
        return is_const(b, y, 0) ? x : -1;
    case PRIM_select:
    case PRIM_rare:
        if (y == z) return y;
        if (is_const(b, x, 1)) return y;
        return is_const(b, x, 0) ? z : -1;
    case PRIM_to_f32: return cls == CLASS_F32 ? x : -1;
    case PRIM_to_f64: return cls == CLASS_F64 ? x : -1;
    case PRIM_to_i32: return cls == CLASS_I32 ? x : -1;
    case PRIM_to_i64: return cls == CLASS_I64 ? x : -1;
    case PRIM_to_bool: return cls == CLASS_BOOL ? x : -1;
    default: return -1;
    }
}

int dag_prim(struct dag_builder *b, enum scalar_prim prim, int x, int y, int z)
{
    const int arg[3] = {x, y, z};
    int arity = prim_arity(prim);
    struct scalar_node n = {.kind = SCALAR_PRIM, .cls = CLASS_I64, .code = (uint16_t)prim, .n_args = (uint8_t)arity};
    bool all_const = arity > 0;
    union scalar_value v[3] = {{.bits = 0}, {.bits = 0}, {.bits = 0}};
    for (int i = 0; i < arity; i++) {
        if (arg[i] < 0) return -1;
        n.arg[i] = (uint16_t)arg[i];
        all_const = all_const && b->nodes[arg[i]].kind == SCALAR_CONST;
        v[i] = b->nodes[arg[i]].value;
    }
    if (arity == 0) return intern(b, &n);
    int same = simplify(b, prim, x, y, z);
    if (same >= 0) return same;
    const struct prim_spelling *s = prim_spelling((uint16_t)prim, dag_class(b, prim_chooses((uint16_t)prim) ? y : x));
    if (!s) {
        error_set(KILN_E_INTERNAL, "expression: %s does not take %s", scalar_prim_name((uint16_t)prim),
                  scalar_class_name(dag_class(b, x)));
        return -1;
    }
    n.cls = s->result;
    return all_const ? dag_const(b, n.cls, s->host(v)) : intern(b, &n);
}

int dag_copy(struct dag_builder *b, const struct scalar_node *n, const int arg[3])
{
    switch (n->kind) {
    case SCALAR_CONST: return dag_const(b, n->cls, n->value);
    case SCALAR_INPUT: return dag_input(b, n->cls, n->code);
    case SCALAR_PRIM: return dag_prim(b, (enum scalar_prim)n->code, arg[0], arg[1], arg[2]);
    case SCALAR_LIB: return dag_lib(b, n->code, arg);
    case SCALAR_REDUCE: return dag_reduce(b, (enum scalar_reduce)n->code, arg[0]);
    case SCALAR_LOAD: return dag_load(b, n->cls, n->code, n->n_args > 0 ? arg[0] : -1, n->n_args > 1 ? arg[1] : -1);
    case SCALAR_DIM: return dag_dim(b, n->code);
    case SCALAR_SIZE: return dag_size(b, n->code);
    }
    return -1;
}

int dag_inline(struct dag_builder *b, const struct scalar_dag *d, const int *inputs)
{
    int *at = arena_alloc(&b->scratch, (size_t)d->n_nodes * sizeof *at);
    if (!at) return -1;
    for (int i = 0; i < d->n_nodes; i++) {
        const struct scalar_node *n = &d->nodes[i];
        int arg[3] = {0};
        for (int k = 0; k < n->n_args; k++) arg[k] = at[n->arg[k]];
        at[i] = n->kind == SCALAR_INPUT ? inputs[n->code] : dag_copy(b, n, arg);
        if (at[i] < 0) return -1;
    }
    return at[d->root];
}

kiln_status dag_finish_all(const struct dag_builder *b, struct arena *a, int *roots, int n_roots,
                           struct scalar_dag *out)
{
    int top = -1, count = 0, n = 0;
    for (int i = 0; i < n_roots; i++) {
        if (roots[i] < 0) return error_pending;
        if (roots[i] > top) top = roots[i];
    }
    uint8_t *used = arena_alloc(a, (size_t)top + 1);
    uint16_t *renamed = arena_alloc(a, ((size_t)top + 1) * sizeof *renamed);
    if (!used || !renamed) return error_pending;
    for (int i = 0; i < n_roots; i++) used[roots[i]] = 1;
    for (int i = top; i >= 0; i--) {
        if (!used[i]) continue;
        count++;
        for (int k = 0; k < b->nodes[i].n_args; k++) used[b->nodes[i].arg[k]] = 1;
    }
    struct scalar_node *nodes = arena_alloc(a, (size_t)count * sizeof *nodes);
    if (!nodes) return error_pending;
    for (int i = 0; i <= top; i++) {
        if (!used[i]) continue;
        nodes[n] = b->nodes[i];
        for (int k = 0; k < nodes[n].n_args; k++) nodes[n].arg[k] = renamed[nodes[n].arg[k]];
        renamed[i] = (uint16_t)n++;
    }
    for (int i = 0; i < n_roots; i++) roots[i] = renamed[roots[i]];
    *out = (struct scalar_dag){.nodes = nodes, .n_nodes = count, .root = count - 1};
    return KILN_OK;
}

kiln_status dag_finish(const struct dag_builder *b, struct arena *a, int root, struct scalar_dag *out)
{
    return dag_finish_all(b, a, &root, 1, out);
}
