#include "ops/body.h"
#include "ops/elementwise.h"
#include "ops/expr.h"
#include "ops/families.h"
#include <pthread.h>
#include <stdlib.h>

extern const struct op op_instances[];

static struct {
    pthread_mutex_t lock;
    struct arena arena;
    const struct scalar_dag **dags; // by kernel id
} bodies = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((destructor)) static void drop(void)
{
    if (bodies.dags) arena_finish(&bodies.arena);
    free(bodies.dags);
    bodies.dags = NULL;
}

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
        const char *name = family < elementwise_row_count ? elementwise_input_name(op->max_in, i) : op->in_names[i];
        p[(*n)++] = (struct scalar_param){name, (enum scalar_class)k->in_cls[i]};
    }
    for (int i = 0; i < op->n_attrs; i++) p[(*n)++] = (struct scalar_param){op->elementwise->params[i], cls};
    return elementwise_expr(op->elementwise, cls);
}

static const struct scalar_dag *parse(kernel_id id)
{
    const struct kernel_info *k = &kernel_catalogue[id];
    struct scalar_param params[MAX_OPERANDS + 8];
    struct scalar_dag raw, *dag = arena_alloc(&bodies.arena, sizeof *dag);
    int n;
    const char *text = row_text(&bodies.arena, id / CLASS_COUNT, k, params, &n);
    if (!dag || expr_parse(&bodies.arena, text, params, n, (enum scalar_class)k->cls, &raw)) return NULL;
    return scalar_expand(&bodies.arena, &raw, dag) ? NULL : dag;
}

const struct scalar_dag *kernel_body(kernel_id k)
{
    const struct kernel_info *info = kernel_info(k);
    if (info->kind != KERNEL_POINTWISE && info->kind != KERNEL_ROW) {
        error_set(KILN_E_INTERNAL, "kernel %s has no expression", info->name ? info->name : "?");
        return NULL;
    }
    if (k >= kernel_count) {
        if (!user_kernel(k)->dag) error_set(KILN_E_UNSUPPORTED, "kernel %s has no expression", info->name);
        return user_kernel(k)->dag;
    }
    pthread_mutex_lock(&bodies.lock);
    if (!bodies.dags) {
        bodies.dags = calloc((size_t)kernel_count, sizeof *bodies.dags);
        if (bodies.dags) arena_init(&bodies.arena);
    }
    const struct scalar_dag *dag = bodies.dags ? bodies.dags[k] : NULL;
    if (bodies.dags && !dag) dag = bodies.dags[k] = parse(k);
    pthread_mutex_unlock(&bodies.lock);
    if (!dag && !error_pending) error_set(KILN_E_MEMORY, "kernel %s: out of memory", info->name);
    return dag;
}
