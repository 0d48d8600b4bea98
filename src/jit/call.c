// kiln_call: which way a call goes.
//
// Inside a capture, and where capture is off, the function itself runs. Else the programs are asked, the one used last
// first; where none fits, the function is captured under the inputs' conditions, up to the recompile limit. Captures of
// one function take turns, so that two threads that miss alike capture once.
#include "base/thread.h"
#include "jit/donate.h"
#include "jit/told.h"
#include "base/handles.h"
#include "base/options.h"
#include "device/profile.h"
#include "grad/state.h"
#include "jit/auto/auto.h"
#include "jit/capture/difference.h"
#include "program/kernels.h"
#include "tensor/apply.h"
#include <stdlib.h>
#include <string.h>

// Functions whose code runs on this thread inside a capture, and those whose programs run, so that a call of the host
// is inside of them; innermost first.
struct call_running {
    const struct kiln_function *f;
    struct call_running *outer;
    bool is_program;
};
static THREAD_LOCAL struct call_running *running;

// Inside another capture, a function is a part of that one's graph.
static kiln_status run_inline(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o)
{
    for (const struct call_running *r = running; r; r = r->outer)
        if (r->f == f && !r->is_program)
            return error_set(KILN_E_STATE,
                             "call: %s calls itself while it is captured, which would never end; recursion needs "
                             "KILN_CAPTURE_AUTO or no capture",
                             f->name);
    struct call_running me = {f, running, false};
    running = &me;
    kiln_status status = function_run(f, in, n_in, o);
    running = me.outer;
    return status;
}

// Where they share memory, what the function takes would go while it runs.
static bool lists_overlap(kiln_tensor *const *in, size_t n_in, kiln_tensor *const *out, size_t n_out)
{
    uintptr_t a = (uintptr_t)in, b = (uintptr_t)out;
    return a < b + n_out * sizeof *out && b < a + n_in * sizeof *in;
}

static kiln_status check_lists(const kiln_function *f, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                               size_t n_out)
{
    TRY(handle_check("call", "f", HANDLE_FUNCTION, f));
    if (f->bundle_fn) return error_set(KILN_E_ARGUMENT, "call: %s takes bundles: see kiln_bundle_call", f->name);
    if (n_in && !in) return error_set(KILN_E_ARGUMENT, "call: in is NULL, of %zu inputs of %s", n_in, f->name);
    if (n_out && !out) return error_set(KILN_E_ARGUMENT, "call: out is NULL, of %zu outputs of %s", n_out, f->name);
    if (n_in && n_out && lists_overlap(in, n_in, out, n_out))
        return error_set(KILN_E_ARGUMENT, "call: the lists of inputs and outputs of %s overlap", f->name);
    return KILN_OK;
}

kiln_status function_check_inputs(const kiln_function *f, kiln_tensor *const *in, size_t n_in)
{
    for (size_t i = 0; i < n_in; i++) {
        if (KILN_LIKELY(in[i] && in[i]->magic == TENSOR_ALIVE)) continue;
        char input[sizeof f->name + 32];
        snprintf(input, sizeof input, "input %zu of %s", i, f->name);
        return tensor_check_any("call", input, in[i]);
    }
    return signature_check(&f->signature, f->name, in, n_in);
}

// With the lock. Room for the states of scalar inputs; a scalar whose value changed is a run-time value from now on.
static kiln_status note_scalars(kiln_function *f, size_t n_in, enum guard_kind failed, size_t at)
{
    if (f->n_scalars < n_in) {
        uint8_t *more = realloc(f->scalars, n_in);
        if (!more) return error_set(KILN_E_MEMORY, "call: out of memory");
        memset(more + f->n_scalars, SCALAR_CONSTANT, n_in - f->n_scalars);
        f->scalars = more;
        f->n_scalars = n_in;
    }
    if (failed == GUARD_NUMBER && f->scalars[at] == SCALAR_CONSTANT) f->scalars[at] = SCALAR_RUN_TIME;
    return KILN_OK;
}

struct missed {
    enum guard_kind kind;
    size_t at;
    char why[400];
};

static void describe_miss(kiln_function *f, struct missed *m, kiln_tensor *const *in, size_t n_in, struct guard_key key)
{
    snprintf(m->why, sizeof m->why, "first call");
    if (!f->first) return;
    struct str s;
    str_init(&s);
    guard_describe(&f->first->guard, m->kind, m->at, in, n_in, key, &s);
    snprintf(m->why, sizeof m->why, "guard %s", str_text(&s));
    str_free(&s);
}

// With the lock. What fits no program runs eagerly from now on.
static void give_up(kiln_function *f, const struct missed *m)
{
    f->gave_up = true;
    function_note(f, "gave up after %llu captures: %s", (unsigned long long)f->stats.captures, m->why);
    log_warn("%s%s was captured %llu times, its limit, sizes of known graphs not counted; calls that fit no "
             "program run eagerly. The last to fail: %s",
             m->kind == GUARD_NUMBER || m->kind == GUARD_FORM ? "recompile-const: " : "", f->name,
             (unsigned long long)(f->stats.captures - f->n_free), m->why);
}

static bool is_at_limit(const kiln_function *f)
{
    return f->stats.captures - f->n_free > function_recompile_limit(f) && !f->o.deterministic;
}

// Another size of a graph that is known costs little, and says nothing of how many graphs there will be.
static bool may_be_known(const struct missed *m)
{
    return m->kind == GUARD_DIMS || m->kind == GUARD_STRIDES;
}

// With the lock: what a call that no program fits means. KILN_OK and *capture false: it runs eagerly.
static kiln_status miss(kiln_function *f, struct missed *m, kiln_tensor *const *in, size_t n_in, struct guard_key key,
                        bool *capture)
{
    describe_miss(f, m, in, n_in, key);
    bool first = f->stats.captures == 0;
    if (!first) f->stats.guard_misses++;
    *capture = !f->gave_up;
    if (f->gave_up) return KILN_OK;
    TRY(note_scalars(f, n_in, m->kind, m->at));
    if (!is_at_limit(f) || may_be_known(m)) return KILN_OK; // whether the graph is known the capture tells
    give_up(f, m);
    *capture = false;
    return KILN_OK;
}

static void count_capture(kiln_function *f, struct entry *e, const struct missed *m)
{
    bool counts = !e->reused || !may_be_known(m), limit = is_at_limit(f);
    e->number = ++f->stats.captures;
    f->stats.nodes = e->captured.graph->nodes.n;
    f->stats.reused += e->reused;
    f->n_free += !counts;
    if (counts && limit && may_be_known(m)) give_up(f, m);
}

#define TINY_NODES 2

static kiln_status add_captured(kiln_function *f, struct entry *e, kiln_tensor *const *in, const struct missed *m)
{
    size_t n = e->captured.graph->nodes.n, unread = captured_unread(&e->captured);
    char unread_text[64] = "";
    if (unread) snprintf(unread_text, sizeof unread_text, " (%zu dropped, nothing reads them)", unread);
    pthread_mutex_lock(&f->lock);
    count_capture(f, e, m);
    size_t n_in = e->captured.n_sources, n_out = e->captured.n_results;
    function_note(f, "capture %llu: %zu op%s, %zu input%s%s, %zu output%s; %s", (unsigned long long)e->number, n,
                  n == 1 ? "" : "s", n_in, n_in == 1 ? "" : "s", unread_text, n_out, n_out == 1 ? "" : "s", m->why);
    struct entry *dropped;
    kiln_status status = cache_add(f, e, in, &dropped);
    pthread_mutex_unlock(&f->lock);
    while (dropped) { // without the lock: a program may wait for what compiles in the background
        struct entry *next = dropped->next;
        entry_unref(&dropped);
        dropped = next;
    }
    if (n < TINY_NODES)
        log_warn("tiny-graph: %s has %zu op%s: its calls cost more than they gain; capture larger functions", f->name,
                 n, n == 1 ? "" : "s");
    return status;
}

static struct entry *find(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct guard_key key, struct missed *m)
{
    pthread_mutex_lock(&f->lock);
    struct entry *e = cache_find(f, in, n_in, key, &m->kind, &m->at);
    pthread_mutex_unlock(&f->lock);
    return e;
}

// A second look, then a capture. *out NULL: the call runs eagerly.
static kiln_status find_or_capture(kiln_function *f, kiln_tensor *const *in, size_t n_in, const struct outputs *o,
                                   struct guard_key key, struct entry **out)
{
    struct missed m;
    bool capture = false;
    pthread_mutex_lock(&f->lock);
    *out = cache_find(f, in, n_in, key, &m.kind, &m.at);
    kiln_status status = *out ? KILN_OK : miss(f, &m, in, n_in, key, &capture);
    pthread_mutex_unlock(&f->lock);
    if (status || *out || !capture) return status;
    struct call_running me = {f, running, false};
    running = &me;
    status = entry_make(f, in, n_in, o, key, false, out);
    running = me.outer;
    if (status) return status;
    status = add_captured(f, *out, in, &m);
    if (status) entry_unref(out);
    return status;
}

static kiln_status refuse_outputs(const kiln_function *f, size_t before, size_t n_out)
{
    return error_set(KILN_E_ARGUMENT, "call: %s had %zu outputs at its first call, %zu are asked for", f->name, before,
                     n_out);
}

static void unref_entry(void *at)
{
    struct entry *e = at;
    entry_unref(&e);
}

static void unlock_captures(void *at)
{
    kiln_function *f = at;
    pthread_mutex_unlock(&f->capture_lock);
}

// *out: what was found, or NULL.
static kiln_status make_unless_found(kiln_function *f, kiln_tensor *const *in, size_t n_in, const struct outputs *o,
                                     struct guard_key key, struct entry **out)
{
    kiln_status status = KILN_OK;
    if (!*out) {
        struct leave left;
        pthread_mutex_lock(&f->capture_lock);
        leave_push(&left, unlock_captures, f);
        status = find_or_capture(f, in, n_in, o, key, out);
        leave_pop(&left);
        pthread_mutex_unlock(&f->capture_lock);
    }
    size_t n = *out ? (*out)->captured.n_results : o->n;
    if (status || n == o->n || o->run) return status;
    entry_unref(out); // of another thread, whose first call began before this one
    return refuse_outputs(f, n, o->n);
}

static kiln_status get_entry(kiln_function *f, kiln_tensor *const *in, size_t n_in, const struct outputs *o,
                             struct guard_key key, struct entry **out)
{
    struct missed m;
    *out = find(f, in, n_in, key, &m);
    return make_unless_found(f, in, n_in, o, key, out);
}

// With the lock. Counts the call. *before: its number of outputs so far, -1: none.
static uint64_t count_call(kiln_function *f, const struct outputs *o, bool eager, int64_t *before)
{
    *before = f->n_out;
    if (*before < 0) f->n_out = (int64_t)o->n;
    f->stats.calls++;
    f->stats.fallbacks += eager;
    return f->stats.captures;
}

// The number of outputs is that of the first call, unless that fails.
static kiln_status check_outputs(const kiln_function *f, const struct outputs *o, int64_t before)
{
    if (before < 0 || before == (int64_t)o->n) return KILN_OK;
    return refuse_outputs(f, (size_t)before, o->n);
}

// *captures: before this call.
static kiln_status enter(kiln_function *f, const struct outputs *o, bool eager, uint64_t *captures)
{
    int64_t before;
    pthread_mutex_lock(&f->lock);
    *captures = count_call(f, o, eager, &before);
    pthread_mutex_unlock(&f->lock);
    return check_outputs(f, o, before);
}

// The same, and the first look for a program, under one lock.
static kiln_status enter_and_find(kiln_function *f, kiln_tensor *const *in, size_t n_in, const struct outputs *o,
                                  struct guard_key key, uint64_t *captures, struct entry **out)
{
    struct missed m;
    int64_t before;
    pthread_mutex_lock(&f->lock);
    *captures = count_call(f, o, false, &before);
    *out = cache_find(f, in, n_in, key, &m.kind, &m.at);
    pthread_mutex_unlock(&f->lock);
    kiln_status status = check_outputs(f, o, before);
    if (status && *out) entry_unref(out);
    return status;
}

static void leave(kiln_function *f, bool failed)
{
    if (KILN_LIKELY(atomic_load_explicit(&f->has_worked, memory_order_relaxed))) return;
    pthread_mutex_lock(&f->lock);
    if (!failed)
        atomic_store_explicit(&f->has_worked, true, memory_order_relaxed);
    else if (!f->has_worked)
        f->n_out = -1;
    pthread_mutex_unlock(&f->lock);
}

// What a capture that differs means for those that are kept: each is looked at before its next run.
static kiln_status replace_entry(kiln_function *f, struct entry *old, struct entry *new, kiln_tensor *const *in,
                                 const char *why)
{
    struct missed m = {.kind = GUARD_OK};
    snprintf(m.why, sizeof m.why, "verify: %s", why);
    pthread_mutex_lock(&f->lock);
    cache_remove(f, old);
    for (struct entry *e = f->first; e; e = e->next) e->suspect = true;
    pthread_mutex_unlock(&f->lock);
    kiln_status status = add_captured(f, new, in, &m);
    log_warn("%s was captured again, as .verify asks, and gave another recording than before: %s; calls since the last "
             "check ran the old one",
             f->name, why);
    return status;
}

// The function is captured again at every .verify-th call. Where the recording is another one, it takes over.
static kiln_status verify(kiln_function *f, kiln_tensor *const *in, size_t n_in, const struct outputs *o,
                          struct guard_key key, struct entry **e)
{
    struct entry *again;
    struct leave holds, locks;
    struct str why;
    pthread_mutex_lock(&f->capture_lock);
    leave_push(&holds, unref_entry, *e);
    leave_push(&locks, unlock_captures, f);
    struct call_running me = {f, running, false};
    running = &me;
    kiln_status status = entry_make(f, in, n_in, o, key, false, &again);
    running = me.outer;
    leave_pop(&locks);
    leave_pop(&holds);
    str_init(&why);
    if (!status) status = captured_difference(&(*e)->captured, &again->captured, &why);
    if (!status && !why.len && !bundle_result_equal(&(*e)->captured.form, &again->captured.form))
        str_add(&why, "the bundle that it gives has another form");
    if (!status && why.len) {
        status = replace_entry(f, *e, again, in, str_text(&why));
        entry_unref(e);
        *e = again;
    } else
        entry_unref(&again);
    str_free(&why);
    pthread_mutex_unlock(&f->capture_lock);
    return status;
}

struct hash_call {
    const kiln_function *f;
    uint64_t hash;
};

static void call_hash(void *at)
{
    struct hash_call *c = at;
    c->hash = c->f->o.hash_args(c->f->user);
}

static struct guard_key key_of(const kiln_function *f, const struct outputs *o)
{
    struct hash_call c = {f, 0};
    if (f->o.hash_args) leave_call(call_hash, &c);
    return (struct guard_key){c.hash, o->run ? o->run->in : NULL};
}

// The entry is captured again, unless it just was.
static bool is_due(kiln_function *f, struct entry *e, uint64_t captures)
{
    if (KILN_LIKELY(!f->o.verify)) return false;
    pthread_mutex_lock(&f->lock);
    bool due = f->stats.captures == captures && (e->suspect || f->stats.calls % f->o.verify == 0);
    if (due) e->suspect = false;
    pthread_mutex_unlock(&f->lock);
    return due;
}

static kiln_status verify_if_due(kiln_function *f, kiln_tensor *const *in, size_t n_in, const struct outputs *o,
                                 struct guard_key key, uint64_t captures, struct entry **e)
{
    if (!*e || !is_due(f, *e, captures)) return KILN_OK;
    kiln_status status = verify(f, in, n_in, o, key, e);
    if (status) entry_unref(e);
    return status;
}

// Takes the reference.
static kiln_status run_entry(kiln_function *f, struct entry *e, kiln_tensor *const *in, struct outputs *o, bool *undone)
{
    for (const struct call_running *r = running; r; r = r->outer)
        if (r->f == f && r->is_program) {
            entry_unref(&e);
            return error_set(KILN_E_STATE, "call: %s is running: a function that it calls on the host may not call it",
                             f->name);
        }
    if (KILN_UNLIKELY(o->run != NULL)) {
        bundle_run_finish(o->run);
        kiln_status status = function_room(o, e->captured.n_results);
        if (!status) status = bundle_result_copy(&e->captured.form, &o->run->result);
        if (status) entry_unref(&e);
        TRY(status);
    }
    if (profile_on() && e->program) o->flops = program_flops(e->program);
    function_count_ops(f, e->program != NULL, e->n_launches, e->captured.graph->nodes.n);
    struct call_running me = {f, running, true};
    running = &me;
    kiln_status status = entry_run(e, in, o->v, undone);
    running = me.outer;
    return status;
}

// In graph mode the mark of AUTO is void: the function is C code as any other, whose cells are graphs.
static bool runs_eagerly(const kiln_function *f)
{
    if (!jit_enabled()) return true;
    if (f->o.capture != KILN_CAPTURE_AUTO || kiln_get_mode() != KILN_MODE_GRAPH) return false;
    log_warn("%s is marked KILN_CAPTURE_AUTO, which is void in graph mode: it runs as without capture", f->name);
    return true;
}

kiln_status function_program(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o,
                             struct entry **out)
{
    struct guard_key key = key_of(f, o);
    *out = NULL;
    TRY(error_pending);
    return get_entry(f, in, n_in, o, key, out);
}

// A function without effects on the host need not run where it is one graph. Whether it is, a capture shows.
static kiln_status replay(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o, uint64_t captures,
                          bool *done)
{
    struct guard_key key = key_of(f, o);
    TRY(error_pending);
    struct entry *e = NULL;
    if (get_entry(f, in, n_in, o, key, &e) || verify_if_due(f, in, n_in, o, key, captures, &e)) {
        pthread_mutex_lock(&f->lock);
        f->no_replay = true;
        function_note(f, "runs at every call: %s", kiln_error_message());
        pthread_mutex_unlock(&f->lock);
        kiln_error_clear();
    }
    if (!e) return KILN_OK;
    bool undone = false;
    kiln_status status = run_entry(f, e, in, o, &undone);
    *done = !undone;
    if (undone) kiln_error_clear(); // it may know what to do about it
    return undone ? KILN_OK : status;
}

// Without a program: graphs that are there already have no code, and run node by node.
static kiln_status run_by_hand(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o)
{
    struct entry *e;
    TRY(entry_make(f, in, n_in, o, key_of(f, o), true, &e));
    size_t n = e->captured.n_results;
    if (n == o->n) return entry_run(e, in, o->v, NULL);
    entry_unref(&e);
    return refuse_outputs(f, n, o->n);
}

static kiln_status run_code(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o)
{
    return f->origin.captured ? run_by_hand(f, in, n_in, o) : function_run(f, in, n_in, o);
}

kiln_status function_record(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, size_t n_out,
                            struct captured *out)
{
    struct leave left;
    pthread_mutex_lock(&f->capture_lock);
    leave_push(&left, unlock_captures, f);
    struct call_running me = {f, running, false};
    running = &me;
    kiln_status status = function_capture(f, in, n_in, n_out, out);
    running = me.outer;
    leave_pop(&left);
    pthread_mutex_unlock(&f->capture_lock);
    return status;
}

static kiln_status call(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o)
{
    bool eager = runs_eagerly(f);
    uint64_t captures;
    if (eager || f->o.capture == KILN_CAPTURE_AUTO) TRY(enter(f, o, eager, &captures));
    if (eager) return run_code(f, in, n_in, o);
    if (f->o.capture == KILN_CAPTURE_AUTO) {
        bool done = false;
        kiln_status status = f->o.pure_host && !f->no_replay ? replay(f, in, n_in, o, captures, &done) : KILN_OK;
        return done ? status : auto_call(f, in, n_in, o);
    }
    struct guard_key key = key_of(f, o);
    TRY(error_pending);
    struct entry *e;
    TRY(enter_and_find(f, in, n_in, o, key, &captures, &e));
    TRY(make_unless_found(f, in, n_in, o, key, &e));
    TRY(verify_if_due(f, in, n_in, o, key, captures, &e));
    if (!e) {
        pthread_mutex_lock(&f->lock);
        f->stats.fallbacks++;
        pthread_mutex_unlock(&f->lock);
        return run_code(f, in, n_in, o);
    }
    return run_entry(f, e, in, o, NULL);
}

static kiln_status call_by_mode(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o)
{
    if (f->origin.captured && (auto_walk_current() || thread_state.sink)) return run_by_hand(f, in, n_in, o);
    if (auto_walk_current()) return function_run(f, in, n_in, o);
    if (thread_state.sink) return run_inline(f, in, n_in, o);
    kiln_status status = call(f, in, n_in, o);
    leave(f, status != KILN_OK);
    return status;
}

static kiln_status profiled_call(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o)
{
    struct call_told told;
    PROFILE("call", f->name);
    call_told_begin(&told, in, n_in);
    kiln_status status = call_by_mode(f, in, n_in, o);
    call_told_end(&told, o);
    profile_span_.facts = &told.facts;
    return status;
}

struct calling {
    kiln_function *f;
    struct call_running *running;
    struct donate_frame frame;
};

// Of a call that was left.
static void end_call(void *at)
{
    struct calling *c = at;
    running = c->running;
    donate_leave(&c->frame);
    leave(c->f, true);
    function_unref(c->f);
}

kiln_status function_call(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o)
{
    struct calling c = {.f = f, .running = running};
    struct state_leave left;
    donate_enter(&c.frame, f, in, n_in);
    function_ref(f); // it may be freed meanwhile
    state_push(&left, end_call, &c);
    kiln_status status = profile_on() ? profiled_call(f, in, n_in, o) : call_by_mode(f, in, n_in, o);
    state_pop(&left);
    donate_leave(&c.frame);
    function_unref(f);
    return status;
}

// f outlives the call, for it takes what it was given.
static kiln_status call_and_take(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o, uintptr_t at)
{
    TRY(donate_check(f, in, n_in));
    function_ref(f);
    kiln_status status = function_call(f, in, n_in, o);
    donate_take(f, in, at, status != KILN_OK);
    function_unref(f);
    return status;
}

kiln_status kiln_call(kiln_function *f, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    if (error_pending) return error_pending;
    size_t n_clear = out && !lists_overlap(in, n_in, out, n_out) ? n_out : 0;
    for (size_t i = 0; i < n_clear; i++) out[i] = NULL;
    TRY(check_lists(f, in, n_in, out, n_out));
    TRY(function_check_inputs(f, in, n_in));
    struct outputs o = {.v = out, .n = n_out};
    if (KILN_LIKELY(!f->n_donated)) return function_call(f, in, n_in, &o);
    return call_and_take(f, in, n_in, &o, (uintptr_t)__builtin_return_address(0) - 1);
}
