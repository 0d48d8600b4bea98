// Handles and scopes. Freed handles go to a per-thread free list, poisoned; a handle may be freed on any thread.
#include "tensor/tensor.h"
#include <stdlib.h>
#include <string.h>

_Thread_local struct thread_state thread_state;
struct tape_hooks tensor_tape;
struct lazy_hooks tensor_lazy;

#define FREE_LIST_MAX 4096
struct free_list {
    kiln_tensor *first;
    int count;
};
static _Thread_local struct free_list free_list;
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static _Thread_local bool exit_armed;

static void free_list_drop(void *unused)
{
    (void)unused;
    while (free_list.first) {
        kiln_tensor *t = free_list.first;
        free_list.first = t->next;
        free(t);
    }
    free_list.count = 0;
}

static void make_exit_key(void)
{
    pthread_key_create(&exit_key, free_list_drop);
}

static void arm_exit(void)
{
    pthread_once(&exit_once, make_exit_key);
    pthread_setspecific(exit_key, &free_list);
    exit_armed = true;
}

__attribute__((destructor)) static void drop_main_list(void)
{
    free_list_drop(NULL);
}

static void link_into(kiln_tensor *t, struct kiln_scope *s)
{
    t->scope = s;
    t->prev = NULL;
    t->next = s ? s->first : NULL;
    if (t->next) t->next->prev = t;
    if (s) s->first = t;
}

static void unlink_tensor(kiln_tensor *t)
{
    if (!t->scope) return;
    if (t->prev)
        t->prev->next = t->next;
    else
        t->scope->first = t->next;
    if (t->next) t->next->prev = t->prev;
    t->scope = NULL;
    t->prev = t->next = NULL;
}

kiln_tensor *tensor_new(void)
{
    kiln_tensor *t = free_list.first;
    if (KILN_LIKELY(t != NULL)) {
        free_list.first = t->next;
        free_list.count--;
    } else {
        if (!exit_armed) arm_exit();
        t = malloc(sizeof *t);
        if (!t) {
            error_set(KILN_E_MEMORY, "out of memory for a handle");
            return NULL;
        }
    }
    t->storage = NULL;
    t->number = 0;
    t->integer = 0;
    t->magic = TENSOR_ALIVE;
    t->node = NULL;
    t->node_out = 0;
    t->family = NULL;
    t->generation = 0;
    t->detached = false;
    t->builder = NULL;
    t->value = -1;
    t->capture = 0;
    t->variable = 0;
    t->seen = 0;
    t->run_time = false;
    t->constant = false;
    t->type.weak = false;
    link_into(t, thread_state.scope);
    if (KILN_UNLIKELY(live_tracked)) live_add(t);
    return t;
}

void tensor_destroy(kiln_tensor *t)
{
    if (KILN_UNLIKELY(live_tracked)) live_remove(t);
    unlink_tensor(t);
    if (t->node || t->family) tensor_tape.release(t);
    storage_unref(t->storage);
    t->storage = NULL;
    t->magic = TENSOR_FREED;
    // A thread that has made no handle has nobody to drop its list when it ends.
    if (free_list.count >= FREE_LIST_MAX || KILN_UNLIKELY(!exit_armed)) {
        free(t);
        return;
    }
    t->next = free_list.first;
    free_list.first = t;
    free_list.count++;
}

kiln_status tensor_check(const char *op, const char *argument, const kiln_tensor *t)
{
    if (KILN_UNLIKELY(!t)) return error_set(KILN_E_ARGUMENT, "%s: %s is NULL", op, argument);
    if (KILN_LIKELY(t->magic == TENSOR_ALIVE)) return KILN_OK;
    return error_set(KILN_E_HANDLE, "%s: %s is a handle that was freed, or no tensor", op, argument);
}

void kiln_free(kiln_tensor **t)
{
    if (!t || !*t) return;
    if ((*t)->magic != TENSOR_ALIVE) {
        error_set(KILN_E_HANDLE, "free: the handle was freed already, or is no tensor");
        return;
    }
    tensor_destroy(*t);
    *t = NULL;
}

static void scope_drain(struct kiln_scope *s)
{
    while (s->first) tensor_destroy(s->first);
}

kiln_scope *kiln_scope_begin(void)
{
    struct kiln_scope *s = malloc(sizeof *s);
    if (!s) {
        error_set(KILN_E_MEMORY, "scope_begin: out of memory");
        return NULL;
    }
    scope_enter(s);
    return s;
}

static bool is_open(const struct kiln_scope *s)
{
    for (const struct kiln_scope *o = thread_state.scope; o; o = o->outer)
        if (o == s) return true;
    return false;
}

void kiln_scope_end(kiln_scope **scope)
{
    if (!scope || !*scope) return;
    struct kiln_scope *s = *scope;
    *scope = NULL;
    if (!is_open(s)) {
        error_set(KILN_E_STATE, "scope_end: the scope is not open on this thread (ended already, or begun on another)");
        return;
    }
    bool last;
    do {
        struct kiln_scope *inner = thread_state.scope;
        scope_drain(inner);
        thread_state.scope = inner->outer;
        last = inner == s;
        free(inner);
    } while (!last);
}

void scope_enter(struct kiln_scope *s)
{
    s->first = NULL;
    s->outer = thread_state.scope;
    thread_state.scope = s;
}

// Whether `inner` is s or was begun inside it.
static bool lies_in(const struct kiln_scope *inner, const struct kiln_scope *s)
{
    for (const struct kiln_scope *o = thread_state.scope; inner; o = o->outer) {
        if (o == inner) return true;
        if (o == s) break;
    }
    return false;
}

void scope_leave(struct kiln_scope *s, kiln_tensor *const *keep, size_t n_keep)
{
    for (size_t i = 0; i < n_keep; i++) {
        if (!keep[i] || !lies_in(keep[i]->scope, s)) continue;
        unlink_tensor(keep[i]);
        link_into(keep[i], s->outer);
    }
    while (thread_state.scope != s) { // user code left scopes open
        struct kiln_scope *inner = thread_state.scope;
        kiln_scope_end(&inner);
    }
    scope_drain(s);
    thread_state.scope = s->outer;
}

kiln_tensor *kiln_keep(kiln_tensor *t)
{
    if (error_pending || tensor_check("keep", "t", t)) return NULL;
    struct kiln_scope *s = t->scope;
    if (!s) return t;
    unlink_tensor(t);
    link_into(t, s->outer);
    return t;
}

kiln_tensor *kiln_own(kiln_tensor *t)
{
    if (error_pending || tensor_check("own", "t", t)) return NULL;
    unlink_tensor(t);
    return t;
}
