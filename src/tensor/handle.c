// Handles and scopes. Freed handles go to a per-thread free list, poisoned; a handle may be freed on any thread.
#include "base/caller.h"
#include "base/thread.h"
#include "tensor/tensor.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

THREAD_LOCAL struct thread_state thread_state;
struct tape_hooks tensor_tape;
struct lazy_hooks tensor_lazy;
void (*tensor_drain_bundles)(struct kiln_scope *s);

#define FREE_LIST_MAX 4096
struct free_list {
    kiln_tensor *first;
    int count;
    bool kept; // until the thread ends
};
static THREAD_LOCAL struct free_list free_list;

static void free_list_drop(void)
{
    while (free_list.first) {
        kiln_tensor *t = free_list.first;
        free_list.first = t->next;
        free(t);
    }
    free_list.count = 0;
    free_list.kept = false;
}

// A loop without a scope of its own keeps all that it makes. So many handles are told of, once a line.
enum { MANY_IN_SCOPE = 100000, MANY_UNSCOPED = 10000 };
static atomic_llong n_unscoped;

static void warn_of_scope(const struct kiln_scope *s)
{
    char begun[CALLER_TEXT_MAX];
    caller_describe(s->begun_at, begun, sizeof begun);
    log_warn_here(
        "the scope begun at %s owns %zu tensors, which live until it ends: a loop takes a scope of its own in each "
        "turn, from kiln_scope_begin to kiln_scope_end",
        begun, s->n);
}

static void count_unscoped(kiln_tensor *t)
{
    t->unscoped = true;
    long long n = atomic_fetch_add_explicit(&n_unscoped, 1, memory_order_relaxed) + 1;
    if (KILN_UNLIKELY(n == MANY_UNSCOPED))
        log_warn_here(
            "%lld tensors are alive that no scope owns: each needs kiln_free; a loop takes a scope in each turn, "
            "from kiln_scope_begin to kiln_scope_end, which frees what was made in it",
            n);
}

static void link_into(kiln_tensor *t, struct kiln_scope *s)
{
    t->scope = s;
    t->prev = NULL;
    t->next = s ? s->first : NULL;
    if (t->next) t->next->prev = t;
    if (!s) return;
    s->first = t;
    if (KILN_UNLIKELY(++s->n == MANY_IN_SCOPE) && s->begun_at) warn_of_scope(s);
}

static void unlink_tensor(kiln_tensor *t)
{
    if (!t->scope) return;
    if (t->prev)
        t->prev->next = t->next;
    else
        t->scope->first = t->next;
    t->scope->n--;
    if (t->next) t->next->prev = t->prev;
    t->scope = NULL;
    t->prev = t->next = NULL;
}

void tensor_clear(kiln_tensor *t)
{
    t->storage = NULL;
    t->number = 0;
    t->integer = 0;
    t->magic = TENSOR_ALIVE;
    t->node = NULL;
    t->node_out = 0;
    t->family = NULL;
    t->generation = 0;
    t->state = NULL;
    t->detached = false;
    t->builder = NULL;
    t->value = -1;
    t->capture = 0;
    t->variable = 0;
    t->seen = 0;
    t->place = 0;
    t->run_time = false;
    t->constant = false;
    t->lent = false;
    t->unscoped = false;
    t->type.weak = false;
    t->shown = SHOWN_PLAIN;
}

kiln_tensor *tensor_new(void)
{
    kiln_tensor *t = free_list.first;
    if (KILN_LIKELY(t != NULL)) {
        free_list.first = t->next;
        free_list.count--;
    } else {
        if (!free_list.kept) thread_at_end(THREAD_HANDLES, free_list_drop);
        free_list.kept = true;
        t = malloc(sizeof *t);
        if (!t) {
            error_set(KILN_E_MEMORY, "out of memory for a handle");
            return NULL;
        }
    }
    tensor_clear(t);
    link_into(t, thread_state.scope);
    if (!t->scope) count_unscoped(t);
    if (KILN_UNLIKELY(live_tracked)) live_add(t);
    return t;
}

struct taker *taker_new(const char *name)
{
    size_t n = strlen(name) + 1;
    struct taker *t = malloc(sizeof *t + n);
    if (!t) {
        error_set(KILN_E_MEMORY, "jit: out of memory");
        return NULL;
    }
    atomic_init(&t->refs, 1);
    memcpy(t->name, name, n);
    return t;
}

void taker_unref(struct taker **ref)
{
    struct taker *t = *ref;
    *ref = NULL;
    if (t && atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1) free(t);
}

void tensor_take(kiln_tensor *t, struct taker *by, uintptr_t at)
{
    if (t->node || t->family) tensor_tape.release(t);
    storage_unref(t->storage);
    t->storage = NULL;
    t->node = NULL;
    t->family = NULL;
    t->builder = NULL;
    t->magic = TENSOR_TAKEN;
    atomic_fetch_add_explicit(&by->refs, 1, memory_order_relaxed);
    t->taker = by;
    t->taken_at = at;
}

static void destroy(kiln_tensor *t, uintptr_t gone_with)
{
    if (KILN_UNLIKELY(live_tracked)) live_remove(t);
    unlink_tensor(t);
    if (t->unscoped) atomic_fetch_sub_explicit(&n_unscoped, 1, memory_order_relaxed);
    if (KILN_UNLIKELY(t->magic == TENSOR_TAKEN)) taker_unref(&t->taker);
    if (t->node || t->family) tensor_tape.release(t);
    storage_unref(t->storage);
    t->storage = NULL;
    t->magic = TENSOR_FREED;
    t->gone_with = gone_with;
    // A thread that has made no handle has nobody to drop its list when it ends.
    if (free_list.count >= FREE_LIST_MAX || KILN_UNLIKELY(!free_list.kept)) {
        free(t);
        return;
    }
    t->next = free_list.first;
    free_list.first = t;
    free_list.count++;
}

void tensor_destroy(kiln_tensor *t)
{
    destroy(t, 0);
}

static kiln_status refuse_taken(const char *op, const char *argument, const kiln_tensor *t)
{
    char place[CALLER_TEXT_MAX];
    bool known = caller_describe(t->taken_at, place, sizeof place) > 0;
    return error_set(KILN_E_HANDLE, "%s: %s was given away to %s%s%s", op, argument, t->taker->name,
                     known ? " at " : "", known ? place : "");
}

kiln_status tensor_check(const char *op, const char *argument, const kiln_tensor *t)
{
    TRY(tensor_check_numbers(op, argument, t));
    if (KILN_LIKELY(t->shown != SHOWN_COMPLEX)) return KILN_OK;
    char text[TYPE_TEXT_MAX];
    return error_set(KILN_E_DTYPE, "%s: takes no complex numbers, %s is %s (kiln_view_as_real has its pairs)", op,
                     argument, tensor_text(t, text, sizeof text));
}

kiln_status tensor_check_numbers(const char *op, const char *argument, const kiln_tensor *t)
{
    TRY(tensor_check_any(op, argument, t));
    if (KILN_LIKELY(!shown_is_stored(t->shown))) return KILN_OK;
    char text[TYPE_TEXT_MAX];
    return error_set(KILN_E_DTYPE, "%s: takes no %s, %s is %s: convert it by kiln_cast", op,
                     dtype_name(shown_dtype(t->shown, t->type.dtype)), argument, tensor_text(t, text, sizeof text));
}

// What it was, where it was made if that is known, and what it went with.
static const char *describe_freed(const kiln_tensor *t, char *out, size_t size_B)
{
    if (t->magic != TENSOR_FREED) return ", or no tensor";
    if (t->builder) return " (made in a capture: what a captured function does not return goes with the call)";
    char type[TYPE_TEXT_MAX], made[CALLER_TEXT_MAX] = "", begun[CALLER_TEXT_MAX] = "";
    if (live_tracked) caller_describe(t->made_at, made, sizeof made);
    if (t->gone_with) caller_describe(t->gone_with, begun, sizeof begun);
    snprintf(out, size_B, ": %s%s%s%s%s%s", tensor_text(t, type, sizeof type), *made ? " made at " : "", made,
             *begun ? ", with the scope begun at " : "", begun,
             *begun ? "; kiln_keep hands a tensor to the scope around, kiln_own to the caller" : "");
    return out;
}

static kiln_status refuse_number(const char *op, const char *argument, uintptr_t number)
{
    if (!number) return error_set(KILN_E_ARGUMENT, "%s: %s is NULL", op, argument);
    return error_set(KILN_E_ARGUMENT, "%s: %s is the number %zu, not a tensor; kiln_scalar makes one of a number", op,
                     argument, (size_t)number);
}

kiln_status tensor_check_any(const char *op, const char *argument, const kiln_tensor *t)
{
    if (KILN_UNLIKELY((uintptr_t)t < PAGE_B)) return refuse_number(op, argument, (uintptr_t)t);
    if (KILN_LIKELY(t->magic == TENSOR_ALIVE)) return KILN_OK;
    if (t->magic == TENSOR_TAKEN) return refuse_taken(op, argument, t);
    char what[512];
    return error_set(KILN_E_HANDLE, "%s: %s is a handle that was freed%s", op, argument,
                     describe_freed(t, what, sizeof what));
}

// A handle that was given away is still there to be freed.
static kiln_status check_not_freed(const char *op, const kiln_tensor *t)
{
    if (t->magic == TENSOR_ALIVE || t->magic == TENSOR_TAKEN) return KILN_OK;
    char what[512];
    return error_set(KILN_E_HANDLE, "%s: the handle was freed already%s", op, describe_freed(t, what, sizeof what));
}

void kiln_free(kiln_tensor **t)
{
    if (!t || !*t || check_not_freed("free", *t)) return;
    tensor_destroy(*t);
    *t = NULL;
}

static void scope_drain(struct kiln_scope *s)
{
    do { // what goes with a bundle may be user code, which makes others
        while (s->first) destroy(s->first, s->begun_at);
        if (KILN_UNLIKELY(s->bundles != NULL)) tensor_drain_bundles(s);
    } while (KILN_UNLIKELY(s->first != NULL));
}

static const char *name_of(int n, int regions)
{
    if (regions == 0) return n == 1 ? "scope" : "scopes";
    if (regions == n) return n == 1 ? "capture region" : "capture regions";
    return "scopes and capture regions";
}

// The thread ends with scopes open. A frame of the library among them means that it ended in the middle of a call.
static void end_scopes(void)
{
    char place[CALLER_TEXT_MAX];
    int n = 0, regions = 0;
    uintptr_t begun_at = 0;
    thread_state.scopes_end = false;
    for (struct kiln_scope *s = thread_state.scope; s && s->begun_at; s = s->outer, n++) {
        begun_at = s->begun_at;
        regions += s->end != NULL;
    }
    if (n == 0) return;
    caller_describe(begun_at, place, sizeof place);
    log_warn("a thread ended with %d open %s, begun at %s: what %s held is freed", n, name_of(n, regions), place,
             n == 1 ? "it" : "they");
    while (n--) scope_drop(thread_state.scope);
}

void scope_give(struct kiln_scope *s, uintptr_t begun_at, void (*end)(struct kiln_scope *innermost))
{
    if (KILN_UNLIKELY(!thread_state.scopes_end)) thread_at_end(THREAD_SCOPES, end_scopes);
    thread_state.scopes_end = true;
    s->begun_at = begun_at;
    s->end = end;
}

kiln_scope *kiln_scope_begin(void)
{
    struct kiln_scope *s = malloc(sizeof *s);
    if (!s) {
        error_set(KILN_E_MEMORY, "scope_begin: out of memory");
        return NULL;
    }
    scope_enter(s);
    scope_give(s, (uintptr_t)__builtin_return_address(0) - 1, NULL);
    return s;
}

bool scope_is_open(const struct kiln_scope *s, const struct kiln_scope **inside)
{
    *inside = NULL;
    for (const struct kiln_scope *o = thread_state.scope; o; o = o->outer) {
        if (o == s) return true;
        bool region = o->end != NULL, known = *inside != NULL;
        if (region ? !known : !o->begun_at && (!known || (*inside)->end)) *inside = o;
    }
    return false;
}

void scope_drop(struct kiln_scope *s)
{
    bool own = s->begun_at != 0;
    if (KILN_UNLIKELY(s->end != NULL)) {
        s->end(s);
        return;
    }
    scope_drain(s);
    thread_state.scope = s->outer;
    if (own) free(s);
}

void kiln_scope_end(kiln_scope **scope)
{
    if (!scope || !*scope) return;
    struct kiln_scope *s = *scope;
    const struct kiln_scope *inside;
    bool last, open = scope_is_open(s, &inside);
    if (open && inside) {
        error_set(KILN_E_STATE, "scope_end: the scope was begun outside of the function or region that runs now, which "
                                "ends before it");
        return;
    }
    *scope = NULL;
    if (!open) {
        error_set(KILN_E_STATE, "scope_end: the scope is not open on this thread (ended already, or begun on another)");
        return;
    }
    do {
        last = thread_state.scope == s;
        scope_drop(thread_state.scope);
    } while (!last);
}

void scope_enter(struct kiln_scope *s)
{
    s->first = NULL;
    s->n = 0;
    s->bundles = NULL;
    s->begun_at = 0;
    s->end = NULL;
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
    while (thread_state.scope != s) scope_drop(thread_state.scope); // user code left scopes open
    scope_drain(s);
    thread_state.scope = s->outer;
}

kiln_tensor *kiln_keep(kiln_tensor *t)
{
    if (error_pending || tensor_check_any("keep", "t", t)) return NULL;
    struct kiln_scope *s = t->scope;
    if (!s) return t;
    unlink_tensor(t);
    link_into(t, s->outer);
    return t;
}

kiln_tensor *kiln_own(kiln_tensor *t)
{
    if (error_pending || tensor_check_any("own", "t", t)) return NULL;
    unlink_tensor(t);
    return t;
}

// Whether what `outer` owns lives longer than what `s` owns. NULL is the caller, who ends nothing.
static bool outlives(const struct kiln_scope *outer, const struct kiln_scope *s)
{
    if (!outer) return s != NULL;
    while (s && s != outer) s = s->outer;
    return s != NULL;
}

kiln_status kiln_replace(kiln_tensor **t, kiln_tensor *next)
{
    if (error_pending) return kiln_error();
    if (!t) return error_set(KILN_E_ARGUMENT, "replace: t is NULL");
    TRY(tensor_check_any("replace", "next", next));
    kiln_tensor *old = *t;
    if (old == next) return KILN_OK;
    if (old) {
        TRY(check_not_freed("replace", old));
        struct kiln_scope *owner = old->scope;
        if (outlives(owner, next->scope)) {
            unlink_tensor(next);
            link_into(next, owner);
        }
        tensor_destroy(old);
    }
    *t = next;
    return KILN_OK;
}
