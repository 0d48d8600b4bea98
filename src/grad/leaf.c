// Parameters and what is said of tensors: names, hooks, gradients, and where no tape is wanted.
#include "base/process.h"
#include "grad/run.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t hook_lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_hooks, hook_lock)

static struct tape_node *new_leaf(const struct type *type, const char *name)
{
    struct tape_leaf *leaf = calloc(1, sizeof *leaf);
    struct tape_node *n = leaf ? node_new(NODE_LEAF, 0, 1, 0, 2 * type->rank) : NULL;
    if (!n) {
        free(leaf);
        error_set(KILN_E_MEMORY, "parameter: out of memory");
        return NULL;
    }
    n->leaf = leaf;
    n->values[0] =
        (struct tape_value){.dtype = type->dtype, .rank = type->rank, .weak = type->weak, .state = VALUE_TYPE};
    for (int i = 0; i < type->rank; i++) n->dims[i] = type->dims[i];
    leaf->requires_grad = true;
    atomic_init(&leaf->handles, 0);
    if (name) leaf->name = strdup(name);
    if (!name || leaf->name) return n;
    node_unref(n);
    error_set(KILN_E_MEMORY, "parameter: out of memory");
    return NULL;
}

// Its memory may be the parameter's when nothing else uses it.
static bool can_take(const kiln_tensor *t)
{
    return t->storage && !t->node && !t->family && !t->detached && atomic_load(&t->storage->refs) == 1 &&
           t->layout.offset == 0 && layout_is_contiguous(&t->type, &t->layout);
}

static kiln_tensor *own_value(kiln_tensor *init)
{
    if (can_take(init)) {
        kiln_tensor *t = tensor_on(init->storage, &init->type, &init->layout);
        if (t) tensor_show(t, init->shown);
        return t;
    }
    kiln_no_grad_begin();
    kiln_tensor *t = init->type.weak && !init->storage ? kiln_add(init, kiln_zeros(NULL, KILN_F32, KILN_SHAPE0))
                                                       : kiln_contiguous(init);
    kiln_no_grad_end();
    return t;
}

kiln_tensor *kiln_parameter(kiln_tensor *init, const char *name)
{
    if (error_pending || tensor_check_numbers("parameter", "init", init)) return NULL;
    if (init->builder) {
        error_set(KILN_E_STATE, "parameter: init is a value of a captured function, which has no data; make parameters "
                                "before, and let the function use them");
        return NULL;
    }
    if (!dtype_has_gradient(init->type.dtype)) {
        error_set(KILN_E_DTYPE, "parameter: a %s has no gradient", dtype_info[init->type.dtype].name);
        return NULL;
    }
    kiln_tensor *t = own_value(init);
    if (!t) return NULL;
    struct tape_node *n = new_leaf(&t->type, name);
    bool shared = n && t->storage == init->storage;
    if (!n || family_make_leaf(t, n, shared ? init : NULL)) {
        tensor_destroy(t);
        t = NULL;
    }
    node_unref(n);
    return t;
}

const char *kiln_name(const kiln_tensor *t)
{
    if (error_pending || tensor_check_any("name", "t", t)) return "";
    return t->node && t->node->kind == NODE_LEAF && t->node->leaf->name ? t->node->leaf->name : "";
}

static bool has_op_node(kiln_tensor *t)
{
    struct tape_edge e;
    return !tape_current(t, &e) && t->node && t->node->kind != NODE_LEAF && t->node->kind != NODE_CUT;
}

kiln_status kiln_set_requires_grad(kiln_tensor *t, bool on)
{
    if (error_pending) return error_pending;
    TRY(tensor_check_numbers("set_requires_grad", "t", t));
    if (has_op_node(t))
        return error_set(KILN_E_GRADIENT, "set_requires_grad: t is no leaf, it is the result of %s",
                         node_name(t->node));
    if (!dtype_has_gradient(t->type.dtype) && on)
        return error_set(KILN_E_DTYPE, "set_requires_grad: a %s has no gradient", dtype_info[t->type.dtype].name);
    if (t->node && t->node->kind == NODE_LEAF) {
        t->node->leaf->requires_grad = on;
        return KILN_OK;
    }
    if (!on) return KILN_OK;
    struct tape_node *n = new_leaf(&t->type, NULL);
    if (!n) return error_pending;
    kiln_status status = family_make_leaf(t, n, NULL);
    node_unref(n);
    return status;
}

bool kiln_requires_grad(const kiln_tensor *t)
{
    return !error_pending && !tensor_check_any("requires_grad", "t", t) && tensor_requires_grad(t);
}

bool kiln_is_leaf(const kiln_tensor *t)
{
    return !error_pending && !tensor_check_any("is_leaf", "t", t) && !has_op_node((kiln_tensor *)t);
}

// Threads may share leaves. Held while a gradient takes the place of another, and while one is given a second handle.
static pthread_mutex_t place_lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_place, place_lock)

// NULL: an error.
static kiln_tensor **place_of_gradient(struct tape_node *leaf)
{
    struct sink *sink = thread_state.sink;
    return sink && sink->capture ? sink->capture->gradient_of(sink, leaf) : &leaf->leaf->gradient;
}

kiln_status leaf_get_gradient(struct tape_node *leaf, kiln_tensor **out)
{
    kiln_tensor **place = place_of_gradient(leaf);
    *out = place ? *place : NULL;
    return place ? KILN_OK : error_pending;
}

kiln_status leaf_hold_gradient(const struct tape_node *leaf, kiln_tensor **out)
{
    pthread_mutex_lock(&place_lock);
    kiln_tensor *g = leaf->leaf->gradient;
    *out = g ? tensor_second(g) : NULL;
    pthread_mutex_unlock(&place_lock);
    return g && !*out ? error_pending : KILN_OK;
}

bool leaf_gradient_is_on(const struct tape_node *leaf, const struct storage *storage)
{
    pthread_mutex_lock(&place_lock);
    bool found = leaf->leaf->gradient && leaf->leaf->gradient->storage == storage;
    pthread_mutex_unlock(&place_lock);
    return found;
}

void leaf_set_gradient(struct tape_node *leaf, kiln_tensor *g)
{
    kiln_tensor **place = place_of_gradient(leaf), *old = g;
    pthread_mutex_lock(&place_lock);
    if (place) {
        old = *place;
        *place = g ? kiln_own(g) : NULL;
        if (g) g->lent = true;
    }
    pthread_mutex_unlock(&place_lock);
    if (old) tensor_destroy(old);
}

kiln_tensor *kiln_gradient(kiln_tensor *param)
{
    if (error_pending || tensor_check_any("gradient", "param", param)) return NULL;
    struct sink *sink = thread_state.sink;
    struct tape_node *leaf = param->node && param->node->kind == NODE_LEAF ? param->node : NULL;
    kiln_tensor *g = NULL;
    bool captured = sink && sink->capture && leaf;
    if (captured && sink->capture->share(sink, param)) return NULL;
    if (!leaf || leaf_get_gradient(leaf, &g)) return NULL;
    if (captured && !g) sink->capture->found_no_gradient(sink, leaf);
    if (run_note(&(struct gradient_note){.event = GRADIENT_READ, .node = leaf})) return NULL;
    return tensor_shown_as(g, param->shown);
}

kiln_status leaf_make_state(kiln_tensor *t)
{
    if (has_op_node(t))
        return error_set(KILN_E_GRADIENT, "state: t is no leaf, it is the result of %s", node_name(t->node));
    if (t->node && t->node->kind == NODE_LEAF) return KILN_OK;
    struct tape_node *n = new_leaf(&t->type, NULL);
    if (!n) return error_pending;
    n->leaf->requires_grad = false;
    kiln_status status = family_make_leaf(t, n, NULL);
    node_unref(n);
    return status;
}

kiln_status kiln_set_gradient(kiln_tensor *param, kiln_tensor *grad)
{
    if (error_pending) return error_pending;
    TRY(tensor_check_any("set_gradient", "param", param));
    if (!param->node || param->node->kind != NODE_LEAF)
        return error_set(KILN_E_GRADIENT, "set_gradient: param is no leaf that requires a gradient");
    struct sink *sink = thread_state.sink;
    if (sink && sink->capture) TRY(sink->capture->share(sink, param));
    kiln_tensor *mine = NULL;
    if (grad) {
        char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
        TRY(tensor_check_numbers("set_gradient", "grad", grad));
        if (!type_equal(&grad->type, &param->type) || grad->shown != param->shown)
            return error_set(KILN_E_SHAPE, "set_gradient: grad is %s, param is %s", type_text(&grad->type, a, sizeof a),
                             type_text(&param->type, b, sizeof b));
        mine = grad_second_handle(grad);
        if (!mine) return error_pending;
        tensor_show(mine, SHOWN_PLAIN);
        tape_set_node(mine, NULL, 0);
        kiln_own(mine);
    }
    const struct gradient_note note = {.event = GRADIENT_SET, .node = param->node, .gradient = mine};
    if (run_note(&note)) {
        if (mine) tensor_destroy(mine);
        return error_pending;
    }
    leaf_set_gradient(param->node, mine);
    return KILN_OK;
}

kiln_tensor *kiln_stop_gradient(kiln_tensor *t)
{
    if (error_pending || tensor_check_any("stop_gradient", "t", t)) return NULL;
    struct sink *sink = thread_state.sink;
    bool parted = t->place && t->capture == thread_state.capture;
    bool leaf = (t->node && t->node->kind == NODE_LEAF) || t->state || parted;
    bool captured = sink && sink->capture && leaf;
    if (captured && sink->capture->share(sink, t)) return NULL;
    kiln_tensor *r = grad_second_handle(t);
    if (!r) return NULL;
    tape_set_node(r, NULL, 0);
    struct sink *capture = captured && sink->capture->part ? sink : tensor_capture(r);
    if (!capture || !capture->capture->part(capture, r)) return r;
    tensor_destroy(r);
    return NULL;
}

void kiln_no_grad_begin(void)
{
    thread_state.no_grad++;
}

void kiln_no_grad_end(void)
{
    if (thread_state.no_grad)
        thread_state.no_grad--;
    else
        error_set(KILN_E_STATE, "no_grad_end: without kiln_no_grad_begin on this thread");
}

bool kiln_grad_enabled(void)
{
    return thread_state.no_grad == 0;
}

static kiln_status hook_place(const char *function, kiln_tensor *t, struct tape_edge *at)
{
    TRY(tensor_check(function, "t", t));
    TRY(tape_current(t, at));
    return at->node ? KILN_OK : error_set(KILN_E_GRADIENT, "%s: t requires no gradient", function);
}

uint64_t kiln_register_hook(kiln_tensor *t, kiln_grad_hook fn, void *user)
{
    static uint64_t last;
    struct tape_edge at;
    if (error_pending || hook_place("register_hook", t, &at)) return 0;
    struct tape_hook *h = fn ? malloc(sizeof *h) : NULL, **end = &at.node->hooks;
    if (!h) {
        error_set(fn ? KILN_E_MEMORY : KILN_E_ARGUMENT,
                  fn ? "register_hook: out of memory" : "register_hook: fn is NULL");
        return 0;
    }
    pthread_mutex_lock(&hook_lock);
    uint64_t id = ++last;
    *h = (struct tape_hook){NULL, id, at.out, fn, user};
    while (*end) end = &(*end)->next;
    *end = h;
    pthread_mutex_unlock(&hook_lock);
    return id;
}

kiln_status kiln_remove_hook(kiln_tensor *t, uint64_t id)
{
    struct tape_edge at;
    if (error_pending) return error_pending;
    TRY(hook_place("remove_hook", t, &at));
    pthread_mutex_lock(&hook_lock);
    struct tape_hook **p = &at.node->hooks, *found;
    while (*p && (*p)->id != id) p = &(*p)->next;
    found = *p;
    if (found) *p = found->next;
    pthread_mutex_unlock(&hook_lock);
    if (!found) return error_set(KILN_E_ARGUMENT, "remove_hook: t has no hook %llu", (unsigned long long)id);
    free(found);
    return KILN_OK;
}
