// The captured function as an object: made, named, run as it is, counted, freed.
#include "jit/donate.h"
#include "base/handles.h"
#include "base/options.h"
#include "base/text.h"
#include "device/profile.h"
#include "grad/state.h"
#include "program/kernels.h"
#include "tensor/apply.h"
#include <stdlib.h>
#include <string.h>

enum { LOG_MAX_B = 1 << 16 }; // of a function that runs for days, the beginning

void function_ref(kiln_function *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}

bool function_try_ref(kiln_function *f)
{
    int n = atomic_load_explicit(&f->refs, memory_order_relaxed);
    while (n > 0 &&
           !atomic_compare_exchange_weak_explicit(&f->refs, &n, n + 1, memory_order_relaxed, memory_order_relaxed)) {}
    return n > 0;
}

void function_unref(kiln_function *f)
{
    if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1) return;
    while (f->first) {
        struct entry *e = f->first;
        f->first = e->next;
        entry_unref(&e);
    }
    free(f->buckets);
    if (f->forget_trie) f->forget_trie(f);
    lock_unguard(&f->guarded);
    lock_unguard(&f->capture_guarded);
    pthread_mutex_destroy(&f->lock);
    pthread_mutex_destroy(&f->capture_lock);
    str_free(&f->log);
    kernel_count_unref(&f->kernels);
    program_forms_unref(&f->forms);
    free(f->scalars);
    donate_finish(f);
    signature_finish(&f->signature);
    if (f->origin.drop) f->origin.drop(f->origin.user);
    handle_free(HANDLE_FUNCTION, f);
}

// Code of the library stands for what its caller makes of it.
static void name_function(kiln_function *f)
{
    char place[CALLER_TEXT_MAX];
    uintptr_t fn = f->bundle_fn ? (uintptr_t)f->bundle_fn : (uintptr_t)f->fn;
    if (f->o.name && *f->o.name) {
        snprintf(f->name, sizeof f->name, "%s", f->o.name);
        text_escape(f->name, sizeof f->name);
    } else {
        caller_describe(caller_is_library(fn) ? caller_find() : fn, place, sizeof place);
        snprintf(f->name, sizeof f->name, "the function at %.*s", CALLER_TEXT_MAX - 1, place);
    }
    f->o.name = NULL;
}

// The function itself may fork while it is captured, so that the capture's lock is one that its thread can take again.
static void make_locks(kiln_function *f)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_init(&f->capture_lock, &a);
    pthread_mutexattr_destroy(&a);
    lock_guard(&f->guarded, &f->lock, false);
    lock_guard(&f->capture_guarded, &f->capture_lock, true);
}

static kiln_status check_bundle_options(const kiln_function *f)
{
    if (!f->o.in_place || f->bundle_fn) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "jit: .in_place is for kiln_bundle_jit; functions of tensors write theirs");
}

static kiln_function *make(const char *jit, kiln_fn fn, kiln_bundle_fn bundle_fn, void *user, const kiln_jit_opts *opts)
{
    kiln_jit_opts o;
    bool given = fn || bundle_fn;
    if (error_pending || options_read_as(jit, "KILN_JIT", &o, sizeof o, opts)) return NULL;
    kiln_function *f = given ? handle_new(HANDLE_FUNCTION, sizeof *f) : NULL;
    if (!f) {
        error_set(given ? KILN_E_MEMORY : KILN_E_ARGUMENT, given ? "%s: out of memory" : "%s: fn is NULL", jit);
        return NULL;
    }
    f->o = o;
    f->fn = fn;
    f->bundle_fn = bundle_fn;
    f->user = user;
    f->n_out = -1;
    atomic_init(&f->refs, 1);
    make_locks(f);
    str_init(&f->log);
    name_function(f);
    jit_warm();
    f->kernels = kernel_count_new();
    f->forms = program_forms_new();
    if (f->kernels && f->forms && !check_bundle_options(f) && !function_check_options(&f->o) &&
        !signature_take(&f->signature, &f->o) && !donate_read_option(f))
        return f;
    function_unref(f);
    return NULL;
}

kiln_function *kiln_jit(kiln_fn fn, void *user, const kiln_jit_opts *opts)
{
    return make("jit", fn, NULL, user, opts);
}

kiln_function *kiln_bundle_jit(kiln_bundle_fn fn, void *user, const kiln_jit_opts *opts)
{
    return make("bundle_jit", NULL, fn, user, opts);
}

static kiln_status no_code(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)in, (void)n_in, (void)out, (void)n_out;
    return error_set(KILN_E_INTERNAL, "call: a function without code was run");
}

kiln_function *function_of_origin(const char *op, kiln_fn fn, const struct capture_origin *o, const kiln_jit_opts *opts)
{
    kiln_function *f = make(op, o->captured ? no_code : fn, NULL, o->user, opts);
    if (f)
        f->origin = *o;
    else
        o->drop(o->user);
    return f;
}

kiln_function *function_for_region(const char *file, int line)
{
    kiln_function *f = handle_new(HANDLE_FUNCTION, sizeof *f);
    if (f) f->kernels = kernel_count_new();
    if (f) f->forms = program_forms_new();
    if (!f || !f->kernels || !f->forms) {
        if (f) kernel_count_unref(&f->kernels);
        if (f) program_forms_unref(&f->forms);
        handle_free(HANDLE_FUNCTION, f);
        return NULL;
    }
    f->o.capture = KILN_CAPTURE_AUTO;
    atomic_init(&f->refs, 1);
    make_locks(f);
    str_init(&f->log);
    const char *name = strrchr(file, '/');
    snprintf(f->name, sizeof f->name, "the region at %.*s:%d", CALLER_TEXT_MAX - 16, name ? name + 1 : file, line);
    return f;
}

void function_enter_region(kiln_function *f)
{
    pthread_mutex_lock(&f->lock);
    f->stats.calls++;
    pthread_mutex_unlock(&f->lock);
}

void kiln_function_free(kiln_function **f)
{
    if (!handle_may_free("function_free", HANDLE_FUNCTION, f)) return;
    handle_close(*f); // a call in progress may keep the memory
    function_unref(*f);
    *f = NULL;
}

kiln_status function_room(struct outputs *o, size_t n)
{
    free(o->v);
    o->v = calloc(n + 1, sizeof *o->v);
    o->n = o->v ? n : 0;
    return o->v ? KILN_OK : error_set(KILN_E_MEMORY, "call: out of memory");
}

static kiln_status call_code(kiln_function *f, kiln_tensor *const *in, size_t n_in, kiln_tensor **made,
                             struct outputs *o)
{
    if (o->run) {
        TRY(bundle_run(o->run, in, n_in));
        return function_room(o, o->run->made.n);
    }
    kiln_status status = state_call(f->fn, f->user, in, n_in, made, o->n);
    if (error_pending || !status) return error_pending;
    return error_set(status, "call: %s failed with %s", f->name, kiln_status_name(status));
}

enum { FEW_RESULTS = 4 };

// A result as it leaves the scope. One that is only there goes itself, where finding out is cheap.
static kiln_tensor *hand_over(const struct kiln_scope *scope, kiln_tensor *const *all, size_t i, size_t n)
{
    bool again = all[i]->scope != scope || n > FEW_RESULTS;
    for (size_t k = 0; k < i && !again; k++) again = all[k] == all[i];
    return again ? kiln_alias(all[i]) : all[i];
}

// Runs the user's function in a scope of its own, which its results outlive.
kiln_status function_run(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o)
{
    kiln_tensor *few[FEW_RESULTS] = {NULL}, **room = o->n > FEW_RESULTS ? calloc(o->n, sizeof *room) : NULL;
    kiln_tensor **made = o->n > FEW_RESULTS ? room : few;
    if (!made) return error_set(KILN_E_MEMORY, "call: out of memory");
    struct kiln_scope scope;
    scope_enter(&scope);
    struct leave left;
    leave_push(&left, free, room);
    kiln_status status = call_code(f, in, n_in, made, o);
    leave_pop(&left);
    kiln_tensor *const *from = o->run ? o->run->made.v : made;
    for (size_t i = 0; i < o->n && !status; i++)
        if (!(status = captured_check_output(f->name, i, o->n, from[i])) &&
            !(o->v[i] = o->run ? kiln_alias(from[i]) : hand_over(&scope, from, i, o->n)))
            status = error_pending;
    if (o->run) bundle_run_drop(o->run);
    scope_leave(&scope, o->v, status ? 0 : o->n);
    for (size_t i = 0; i < o->n && status; i++) o->v[i] = NULL;
    free(room);
    return status;
}

void function_count_ops(kiln_function *f, bool in_graph, uint64_t launches, uint64_t ops)
{
    atomic_fetch_add_explicit(&f->launches, launches, memory_order_relaxed);
    atomic_fetch_add_explicit(in_graph ? &f->graph_ops : &f->single_ops, ops, memory_order_relaxed);
}

void function_note(struct kiln_function *f, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (f->log.len < LOG_MAX_B) {
        str_addf(&f->log, "  %s\n", text);
        if (f->log.len >= LOG_MAX_B) str_add(&f->log, "  (what came later is left out)\n");
    }
    if (debug_flag("guards")) log_warn("%s: %s", f->name, text);
}
