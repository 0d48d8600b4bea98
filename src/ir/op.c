// Finding ops by name, and adding users' ops behind the built-in rows.
#include "base/process.h"
#include "ir/op.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static _Atomic(const struct op *) user_ops[USER_OPS_MAX];
static atomic_int user_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_ops, lock)

_Atomic(const struct user_kernel *) user_kernels[USER_KERNELS_MAX];

const struct kernel_info *kernel_info_of_user(kernel_id k)
{
    static const struct kernel_info none = {.name = "none", .kind = KERNEL_NONE};
    const struct user_kernel *u = user_kernel(k);
    return u ? &u->info : &none;
}

static const struct op *find_row(const char *name)
{
    for (int i = 0; i < op_count; i++)
        if (!strcmp(op_table[i]->name, name)) return op_table[i];
    return NULL;
}

// By the name before of an op, or of the op whose gradient it is: "hardshrink.grad0".
static const struct op *find_renamed(const char *name)
{
    size_t n = strcspn(name, ".");
    char now[64];
    for (int i = 0; i < op_count; i++) {
        const char *was = op_table[i]->was;
        if (!was || strncmp(was, name, n) != 0 || was[n]) continue;
        snprintf(now, sizeof now, "%s%s", op_table[i]->name, name + n);
        return find_row(now);
    }
    return NULL;
}

// Names are looked up by registration and tools only, never on the way of an op.
const struct op *op_find(const char *name)
{
    const struct op *row = find_row(name);
    if (row) return row;
    for (int i = 0; i < op_count; i++)
        if (op_table[i]->alias && !strcmp(op_table[i]->alias, name)) return op_table[i];
    for (int i = 0, n = op_user_count(); i < n; i++)
        if (!strcmp(user_ops[i]->name, name)) return user_ops[i];
    return find_renamed(name);
}

struct nearest_hint op_nearest(const char *name)
{
    struct nearest near;
    nearest_begin(&near, name, strlen(name));
    for (int i = 0; i < op_count; i++)
        if (!(op_table[i]->flags & OP_HIDDEN)) nearest_try(&near, op_table[i]->name, strlen(op_table[i]->name));
    for (int i = 0, n = op_user_count(); i < n; i++) nearest_try(&near, user_ops[i]->name, strlen(user_ops[i]->name));
    return nearest_hint(&near);
}

int op_user_count(void)
{
    return atomic_load_explicit(&user_count, memory_order_acquire);
}

kiln_status op_add(const struct op *op)
{
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&lock);
    int n = op_user_count();
    if (op_find(op->name))
        status = error_set(KILN_E_ARGUMENT, "register_op: there is an op named \"%s\"", op->name);
    else if (n == USER_OPS_MAX || op->index != op_count + n)
        status = error_set(KILN_E_STATE, "register_op: no room for another op, or two threads registered one at once");
    else {
        user_ops[n] = op;
        atomic_store_explicit(&user_count, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int op_attr_index(const struct op *op, const char *name)
{
    for (int i = 0; i < op->n_attrs; i++)
        if (!strcmp(op->attrs[i].name, name)) return i;
    return -1;
}

static double elements(const struct type *t, int from)
{
    double n = 1;
    for (int d = from; d < t->rank; d++) n *= (double)t->dims[d];
    return n;
}

static const struct type *product_type(uint8_t which, const struct type *const *in, const struct type *out)
{
    return which == PRODUCTS_RESULT ? out : in[which];
}

// Of each query and key so many products of the width of keys, and of values.
static double attention(const struct type *const *in, const struct type *out, double of_keys, double of_values)
{
    const struct type *k = in[1], *v = in[2];
    double queries = 1, keys = (double)k->dims[k->rank - 2];
    for (int d = 0; d < out->rank - 1; d++) queries *= (double)out->dims[d];
    return queries * keys * (of_keys * (double)k->dims[k->rank - 1] + of_values * (double)v->dims[v->rank - 1]);
}

double op_multiply_adds(const struct op *op, const struct type *const *in, const struct type *out)
{
    const struct op_products *p = &op->products;
    switch (p->kind) {
    case PRODUCTS_MATRICES: return elements(out, 0) * (double)in[0]->dims[in[0]->rank - 1];
    case PRODUCTS_IMAGES:
        return elements(product_type(p->grid, in, out), 0) * elements(product_type(p->weight, in, out), 1);
    case PRODUCTS_ATTENTION: return attention(in, out, 1, 1);
    case PRODUCTS_ATTENTION_GRAD: return attention(in, out, 3, 2);
    default: return 0;
    }
}

static bool has_u64(const struct op_call *c)
{
    for (int i = 0; i < c->n_in; i++)
        if (KILN_UNLIKELY(c->in[i] && c->in[i]->dtype == KILN_U64)) return true;
    return false;
}

static bool all_floats(const struct op_call *c)
{
    for (int i = 0; i < c->op->n_out; i++)
        if (dtype_kind_of[c->out[i].dtype] != KIND_FLOAT) return false;
    return true;
}

// Kernels have the bits of u64 as i64: an op whose result depends on the sign has to be made of others, and an index
// may be none.
static kiln_status check_unsigned(const struct op_call *c)
{
    const struct op *op = c->op;
    int index = op->indexed.operand;
    bool bound = op->indexed.bound && op->indexed.bound != INDEX_VALUES && index < c->n_in && c->in[index];
    if (bound && c->in[index]->dtype == KILN_U64)
        return error_set(KILN_E_DTYPE, "%s: %s is u64, which is no dtype of indices; cast it to i64", op->name,
                         op->in_names[index]);
    if (op->flags & (OP_VIEW | OP_SIGNLESS)) return KILN_OK;
    if (op->flags & OP_ELEMENTWISE ? c->compute_dtype != KILN_U64 : all_floats(c)) return KILN_OK;
    return error_set(KILN_E_DTYPE, "%s: is not defined for u64", op->name);
}

kiln_status op_infer(struct op_call *c)
{
    kiln_status status = c->op->fn->infer(c);
    if (KILN_UNLIKELY(status)) {
        error_name_op(c->op->name);
        return status;
    }
    return KILN_LIKELY(!has_u64(c)) ? KILN_OK : check_unsigned(c);
}

struct attr op_attr_default(const struct attr_info *info)
{
    struct attr a = {.kind = info->kind, .set = info->kind != ATTR_FLOAT, .count = info->count};
    if (info->kind == ATTR_FLOAT)
        a.f = info->fallback;
    else if (info->kind != ATTR_INTS)
        a.i = (int64_t)info->fallback;
    for (int i = 0; i < info->count; i++) a.v[i] = (int64_t)info->fallback;
    return a;
}
