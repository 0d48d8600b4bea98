// Ops that users register: an expression becomes an op like a row of the table, with gradient ops of its own. It lives
// as long as the process, for nodes, graphs and caches may name it.
//
// The expression is parsed in every compute class it allows. If it allows the integers, integers stay integers, else
// they are taken as f32; a bool result makes the op a comparison. On the CPU the parsed expression is interpreted block
// by block.
#include "base/note.h"
#include "base/process.h"
#include "base/arena.h"
#include "base/options.h"
#include "grad/registry.h"
#include "jit/function.h"
#include "program/user_kernel.h"
#include "ops/elementwise.h"
#include "ops/lower.h"
#include "tensor/apply.h"
#include <ctype.h>
#include <kiln/ops.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IN ELEMENTWISE_MAX_IN

// Everything of one registration; kept for ever.
struct user_op {
    struct arena arena;
    struct op ops[1 + MAX_IN]; // the op, then its gradients
    struct op_elementwise columns[1 + MAX_IN];
    struct op_gradient gradients[MAX_IN];
    struct user_kernel kernels[1 + MAX_IN][CLASS_COUNT];
    int n_ops;
    kiln_op_spec spec; // as it was given
    struct user_op *next;
};

static struct user_op *registered; // reachable, so that nothing counts as lost
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_ops, lock)

static const char *const one_name[] = {"x"}, *const more_names[] = {"a", "b", "c"};
static const char *const no_params[] = {NULL};

// An expression over `names`, in one class. `out` is the class of its value.
static kiln_status parse(struct user_op *u, const char *text, const char *const *names, int n, enum scalar_class cls,
                         struct scalar_dag **out)
{
    struct scalar_param params[MAX_IN + 2];
    struct scalar_dag raw;
    for (int i = 0; i < n; i++) params[i] = (struct scalar_param){names[i], cls};
    *out = arena_alloc(&u->arena, sizeof **out);
    if (!*out) return error_pending;
    kiln_status status = scalar_parse(&u->arena, text, params, n, cls, &raw);
    if (status) error_note_before("register_op: %s", u->ops[0].name);
    if (status) return status;
    return scalar_expand(&u->arena, &raw, *out);
}

static kiln_status check_name(const char *name)
{
    if (!name || !*name) return error_set(KILN_E_ARGUMENT, "register_op: name is %s", name ? "empty" : "NULL");
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_')
            return error_set(KILN_E_ARGUMENT, "register_op: \"%s\" is no name: letters, digits and _ make one", name);
    if (strlen(name) > 60)
        return error_set(KILN_E_ARGUMENT, "register_op: the name \"%s\" has more than 60 letters", name);
    return KILN_OK;
}

static void set_kernel(struct user_op *u, int which, enum scalar_class cls, const struct scalar_dag *dag, int n_in,
                       const char *glsl)
{
    struct user_kernel *k = &u->kernels[which][cls];
    *k = (struct user_kernel){.dag = dag, .glsl = glsl};
    k->info = (struct kernel_info){.name = u->ops[which].name,
                                   .kind = KERNEL_POINTWISE,
                                   .cls = (uint8_t)cls,
                                   .n_operands = (uint8_t)(n_in + 1),
                                   .n_out = 1};
    for (int i = 0; i < n_in; i++) k->info.in_cls[i] = (uint8_t)cls;
    k->info.in_cls[n_in] = (uint8_t)(dag ? dag->nodes[dag->root].cls : cls);
}

// Kernels of every class in which the expression has a value of the right class; a mistake in f32 is the user's.
// Returns which.
static kiln_status make_kernels(struct user_op *u, int which, const char *expr, const char *const *names, int n_in,
                                const char *glsl, uint32_t *classes, bool *is_test)
{
    struct scalar_dag *dag;
    TRY(parse(u, expr, names, n_in, CLASS_F32, &dag));
    enum scalar_class result = dag->nodes[dag->root].cls;
    *is_test = result == CLASS_BOOL;
    if (result != CLASS_F32 && (result != CLASS_BOOL || which))
        return error_set(KILN_E_ARGUMENT, "register_op: %s: the value of \"%s\" is %s", u->ops[0].name, expr,
                         scalar_class_name(result));
    *classes = 0;
    for (int c = CLASS_F32; c < CLASS_BOOL; c++) {
        enum scalar_class cls = (enum scalar_class)c;
        bool fits =
            !parse(u, expr, names, n_in, cls, &dag) && dag->nodes[dag->root].cls == (*is_test ? CLASS_BOOL : cls);
        if (!fits) {
            if (kiln_error() == KILN_E_MEMORY) return error_pending;
            kiln_error_clear();
            continue;
        }
        set_kernel(u, which, cls, dag, n_in, glsl);
        *classes |= 1u << c;
    }
    return KILN_OK;
}

static void describe(struct user_op *u, int which, const char *name, int n_in, const char *const *names,
                     const char *expr, uint8_t type)
{
    u->columns[which] = (struct op_elementwise){.type = type, .expr = expr};
    memcpy(u->columns[which].params, no_params, sizeof no_params);
    u->ops[which] = (struct op){.name = name,
                                .flags = OP_ELEMENTWISE | (which ? OP_HIDDEN : 0),
                                .min_in = (uint8_t)n_in,
                                .max_in = (uint8_t)n_in,
                                .n_out = 1,
                                .in_names = names,
                                .fn = &elementwise_functions,
                                .elementwise = &u->columns[which]};
}

// The gradient by one input, as a hidden op over what its expression reads, and dy.
static kiln_status make_gradient(struct user_op *u, const char *expr, const char *const *names, int n_in, int input)
{
    const char *all[MAX_IN + 2], **used = arena_alloc(&u->arena, sizeof *used * (MAX_IN + 2));
    struct scalar_param params[MAX_IN + 2];
    struct scalar_dag dag;
    char name[80];
    int which = u->n_ops, n = 0;
    for (int i = 0; i < n_in; i++) all[i] = names[i];
    all[n_in] = "y";
    all[n_in + 1] = "dy";
    for (int i = 0; i < n_in + 2; i++) params[i] = (struct scalar_param){all[i], CLASS_F32};
    TRY(scalar_parse(&u->arena, expr, params, n_in + 2, CLASS_F32, &dag));
    struct op_gradient *g = &u->gradients[input];
    if (dag.nodes[dag.root].kind == SCALAR_INPUT && dag.nodes[dag.root].code == n_in + 1) {
        *g = (struct op_gradient){.n_in = 1, .from = {GRADIENT_DY}}; // dy itself: no op
        return KILN_OK;
    }
    uint32_t reads = scalar_used_params(&dag);
    for (int i = 0; i < n_in + 2; i++) {
        if (!(reads >> i & 1) && i != n_in + 1) continue;
        g->from[n] = (uint8_t)(i < n_in ? i : i == n_in ? GRADIENT_Y : GRADIENT_DY);
        if (used) used[n++] = all[i];
    }
    snprintf(name, sizeof name, "%s.grad%d", u->ops[0].name, input);
    const char *kept = arena_strdup(&u->arena, name);
    if (!used || !kept) return error_pending;
    uint32_t classes;
    bool is_test;
    describe(u, which, kept, n, used, expr, u->columns[0].type == TYPE_FLOAT ? TYPE_FLOAT : TYPE_NUMERIC);
    TRY(make_kernels(u, which, expr, used, n, NULL, &classes, &is_test));
    g->op = &u->ops[which];
    g->n_in = (uint8_t)n;
    u->n_ops++;
    return KILN_OK;
}

static kiln_status build(struct user_op *u, const kiln_op_spec *s)
{
    u->spec = *s;
    const char *name = arena_strdup(&u->arena, s->name), *expr = s->expr ? arena_strdup(&u->arena, s->expr) : NULL;
    const char *glsl = s->glsl ? arena_strdup(&u->arena, s->glsl) : NULL, *const *names =
                                                                              s->n_in == 1 ? one_name : more_names;
    bool some = false, is_test = false;
    uint32_t classes = 0;
    if (!name || (s->expr && !expr) || (s->glsl && !glsl)) return error_pending;
    u->spec.name = name, u->spec.expr = expr, u->spec.glsl = glsl;
    describe(u, 0, name, s->n_in, names, expr ? expr : glsl, TYPE_FLOAT);
    u->n_ops = 1;
    if (expr)
        TRY(make_kernels(u, 0, expr, names, s->n_in, glsl, &classes, &is_test));
    else
        set_kernel(u, 0, CLASS_F32, NULL, s->n_in, glsl);
    bool integers = (classes >> CLASS_I32 & 1) && (classes >> CLASS_I64 & 1);
    if (is_test)
        u->columns[0].type = TYPE_COMPARE;
    else if (integers)
        u->columns[0].type = TYPE_NUMERIC;
    if (is_test) u->ops[0].flags |= OP_ZERO_GRAD;
    for (int i = 0; i < s->n_in; i++) {
        if (!s->grad[i]) continue;
        const char *grad = arena_strdup(&u->arena, s->grad[i]);
        if (!grad) return error_pending;
        u->spec.grad[i] = grad;
        TRY(make_gradient(u, grad, names, s->n_in, i));
        some = true;
    }
    if (some) u->ops[0].gradients = u->gradients;
    return KILN_OK;
}

// Numbers, kernels, then names: what a name leads to is complete.
static kiln_status publish(struct user_op *u)
{
    int first = op_user_count();
    if (first + u->n_ops > USER_OPS_MAX)
        return error_set(KILN_E_STATE, "register_op: there are %d ops of users already", first);
    for (int i = 0; i < u->n_ops; i++) {
        u->ops[i].index = (uint16_t)(op_count + first + i);
        u->ops[i].family = (uint16_t)(kernel_count / CLASS_COUNT + first + i);
        for (int c = 0; c < CLASS_COUNT; c++)
            if (u->kernels[i][c].info.kind != KERNEL_NONE)
                user_kernels[(first + i) * CLASS_COUNT + c] = &u->kernels[i][c];
    }
    for (int i = 0; i < u->n_ops; i++) {
        TRY(op_add(&u->ops[i]));
        if (i || u->ops[0].gradients) grad_use_expressions(&u->ops[i]);
    }
    u->next = registered;
    registered = u;
    device_upper.compile = jit_compile_user;
    return KILN_OK;
}

static kiln_status register_locked(const kiln_op_spec *s)
{
    TRY(check_name(s->name));
    if (op_find(s->name)) return error_set(KILN_E_ARGUMENT, "register_op: there is an op named \"%s\"", s->name);
    if (s->n_in < 1 || s->n_in > MAX_IN)
        return error_set(KILN_E_ARGUMENT, "register_op: %s: n_in is %d, an op takes 1 to %d tensors", s->name, s->n_in,
                         MAX_IN);
    if (!s->expr && !s->glsl)
        return error_set(KILN_E_ARGUMENT, "register_op: %s: neither expr nor glsl is given", s->name);
    struct user_op *u = calloc(1, sizeof *u);
    if (!u) return error_set(KILN_E_MEMORY, "register_op: out of memory");
    arena_init(&u->arena);
    kiln_status status = build(u, s);
    if (!status) status = publish(u);
    if (!status) return KILN_OK;
    arena_finish(&u->arena);
    free(u);
    return status;
}

const kiln_op_spec *user_op_spec(const struct op *op)
{
    pthread_mutex_lock(&lock);
    const struct user_op *u = registered;
    while (u && (op < u->ops || op >= u->ops + u->n_ops)) u = u->next;
    pthread_mutex_unlock(&lock);
    return u ? &u->spec : NULL;
}

kiln_status kiln_register_op(const kiln_op_spec *spec)
{
    kiln_op_spec s;
    if (error_pending) return error_pending;
    if (!spec) return error_set(KILN_E_ARGUMENT, "register_op: spec is NULL");
    TRY(options_read("register_op", KILN_OP, &s, spec));
    pthread_mutex_lock(&lock);
    kiln_status status = register_locked(&s);
    pthread_mutex_unlock(&lock);
    return status;
}
