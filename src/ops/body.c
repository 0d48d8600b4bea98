// Bodies are parsed from the text of their rows when they are first asked for, and kept to the end of the process.
#include "base/process.h"
#include "ops/body.h"
#include "ops/elementwise.h"
#include "ops/expr.h"
#include "ops/families.h"
#include "scalar/dag.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern const struct op op_instances[];

static struct {
    pthread_mutex_t lock;
    struct arena arena;
    const struct kernel_body **of; // by kernel id
} bodies = {.lock = PTHREAD_MUTEX_INITIALIZER};
GUARD_LOCK(guard_bodies, bodies.lock)

// Names of the inputs and the run-time scalars, with their classes, and the text.
static const char *row_text(struct arena *a, int family, const struct kernel_info *k, struct scalar_param *p, int *n)
{
    enum scalar_class cls = (enum scalar_class)k->cls;
    *n = 0;
    if (family >= elementwise_row_count && family < FAMILY_GRADIENTS) {
        const struct kernel_row *r = &kernel_rows[family - elementwise_row_count];
        *n = expr_params(a, r->in, cls, p);
        *n += expr_params(a, r->scalars, cls, p + *n);
        return r->expr;
    }
    const struct op *op =
        &op_instances[family < elementwise_row_count ? family : OP_GRADIENTS + family - FAMILY_GRADIENTS];
    for (int i = 0; i < op->max_in; i++) {
        p[(*n)++] = (struct scalar_param){elementwise_name_in_expr(op, i), (enum scalar_class)k->in_cls[i]};
    }
    for (int i = 0; i < op->n_attrs; i++) p[(*n)++] = (struct scalar_param){op->elementwise->params[i], cls};
    return elementwise_expr(op->elementwise, cls);
}

static const struct kernel_row *custom_row(kernel_id k)
{
    int family = k / CLASS_COUNT;
    if (k >= kernel_count || family < elementwise_row_count || family >= FAMILY_GRADIENTS) return NULL;
    return &kernel_rows[family - elementwise_row_count];
}

// The element of input 0 at the place that the expression gives, 0 outside, if that can be.
static kiln_status add_load(struct arena *a, const struct scalar_dag *place, enum scalar_class cls, bool may_be_outside,
                            struct kernel_body *out)
{
    struct dag_builder b;
    int inputs[MAX_OPERANDS + 8], roots[2];
    dag_begin(&b);
    for (int i = 0; i < MAX_OPERANDS + 8; i++) inputs[i] = dag_input(&b, CLASS_I64, (uint16_t)i);
    int at = dag_inline(&b, place, inputs);
    int outside = dag_const(&b, CLASS_I64, (union scalar_value){.i64 = -INT64_MAX});
    roots[1] = may_be_outside ? dag_prim(&b, PRIM_ne, at, outside, 0) : -1;
    roots[0] = dag_load(&b, cls, 0, at, roots[1]);
    kiln_status status = dag_finish_all(&b, a, roots, may_be_outside ? 2 : 1, &out->dag);
    dag_end(&b);
    out->dag.root = roots[0];
    out->check = roots[1];
    out->moves = out->places = true;
    return status;
}

// Input 0 as it is, where the condition that the expression gives must hold.
static kiln_status add_check(struct arena *a, const struct scalar_dag *condition, enum scalar_class cls,
                             struct kernel_body *out)
{
    struct dag_builder b;
    int inputs[MAX_OPERANDS + 8], roots[2];
    dag_begin(&b);
    for (int i = 0; i < MAX_OPERANDS + 8; i++) inputs[i] = dag_input(&b, cls, (uint16_t)i);
    roots[0] = inputs[0];
    roots[1] = dag_inline(&b, condition, inputs);
    kiln_status status = dag_finish_all(&b, a, roots, 2, &out->dag);
    dag_end(&b);
    out->dag.root = roots[0];
    out->check = roots[1];
    out->moves = true;
    return status;
}

static const struct kernel_body *parse(kernel_id id)
{
    const struct kernel_info *k = &kernel_catalogue[id];
    const struct kernel_row *row = custom_row(id);
    struct arena *a = &bodies.arena;
    struct scalar_param params[MAX_OPERANDS + 8];
    struct scalar_dag raw, expanded;
    struct kernel_body *body = arena_alloc(a, sizeof *body);
    bool gathers = row && row->gathers, checks = row && row->checks;
    int n;
    const char *text = row_text(a, id / CLASS_COUNT, k, params, &n);
    if (!body || expr_parse(a, text, params, n,
                            gathers  ? CLASS_I64
                            : checks ? CLASS_BOOL
                                     : (enum scalar_class)k->cls,
                            &raw))
        return NULL;
    if (scalar_expand(a, &raw, &expanded)) return NULL;
    for (int i = 0; i < k->n_operands - k->n_out; i++) body->in_cls[i] = params[i].cls;
    body->check = -1;
    body->dag = expanded;
    body->work = kernel_work_of(&raw, k->n_operands - k->n_out);
    const struct scalar_node *root = &expanded.nodes[expanded.root];
    body->moves = root->kind == SCALAR_INPUT && root->code == 0 && root->cls == (enum scalar_class)k->cls;
    kiln_status status = KILN_OK;
    if (gathers)
        status = add_load(a, &expanded, (enum scalar_class)k->cls, strstr(row->expr, PLACE_OUTSIDE) != NULL, body);
    if (checks) status = add_check(a, &expanded, (enum scalar_class)k->cls, body);
    return status ? NULL : body;
}

bool kernel_has_body(kernel_id k)
{
    const struct kernel_info *info = kernel_info(k);
    const struct kernel_row *row = custom_row(k);
    if (k >= kernel_count) return user_kernel(k) && user_kernel(k)->dag;
    return info->kind == KERNEL_POINTWISE || info->kind == KERNEL_ROW ||
           (row && (row->gathers || row->checks || row->multiplies));
}

int kernel_unfold(kernel_id k, struct launch *l, struct launch_window *windows)
{
    const struct kernel_row *row = custom_row(k);
    return row && row->unfold ? row->unfold(l, windows) : 0;
}

bool kernel_multiplies(kernel_id k)
{
    const struct kernel_row *row = custom_row(k);
    return row && row->multiplies;
}

// A user's kernel keeps its DAG itself.
static const struct kernel_body *of_user(kernel_id k)
{
    const struct user_kernel *u = user_kernel(k);
    struct kernel_body *body = arena_alloc(&bodies.arena, sizeof *body);
    if (!body) return NULL;
    body->dag = *u->dag;
    body->check = -1;
    body->work = kernel_work_of(u->dag, u->info.n_operands - u->info.n_out);
    for (int i = 0; i < u->info.n_operands - u->info.n_out; i++) body->in_cls[i] = (enum scalar_class)u->info.in_cls[i];
    return body;
}

// What fails leaves nothing in the arena, which stays to the end of the process.
static const struct kernel_body *make(kernel_id k)
{
    struct arena_mark mark = arena_mark(&bodies.arena);
    const struct kernel_body *body = k < kernel_count ? parse(k) : of_user(k);
    if (!body) arena_rewind(&bodies.arena, mark);
    return body;
}

const struct kernel_body *kernel_body(kernel_id k)
{
    const char *name = kernel_info(k)->name;
    int most = kernel_count + USER_KERNELS_MAX;
    if (!kernel_has_body(k)) {
        error_set(KILN_E_INTERNAL, "kernel %s has no expression", name ? name : "?");
        return NULL;
    }
    pthread_mutex_lock(&bodies.lock);
    if (!bodies.of) {
        bodies.of = calloc((size_t)most, sizeof *bodies.of);
        if (bodies.of) arena_init(&bodies.arena);
    }
    const struct kernel_body *body = bodies.of ? bodies.of[k] : NULL;
    if (bodies.of && !body) body = bodies.of[k] = make(k);
    pthread_mutex_unlock(&bodies.lock);
    if (!body && !error_pending) error_set(KILN_E_MEMORY, "kernel %s: out of memory", name);
    return body;
}
