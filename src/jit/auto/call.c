// Scopes that record: a call of an AUTO function, and regions of user code.
//
// A scope's handles go before its last segment is run, so that what nobody can ask for any more is not computed.
// Effects are run whatever way the scope is left, with an error pending too.
#include "base/leave.h"
#include "jit/auto/auto.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

static void forget_trie(kiln_function *f)
{
    auto_lock();
    f->trie->f = NULL; // segments may outlive it
    trie_unref(f->trie);
    auto_unlock();
}

kiln_status auto_scope_enter(struct auto_scope *a, kiln_function *f, kiln_device *only)
{
    a->walk = (struct auto_walk){.base = auto_sink, .only = only, .since = node_sequence()};
    a->in = NULL;
    a->n_in = 0;
    auto_lock();
    if (!f->trie && (f->trie = trie_new(f))) f->forget_trie = forget_trie;
    a->walk.trie = f->trie;
    a->walk.forms = f->trie ? f->trie->forms : 0;
    if (f->trie) f->trie->refs++;
    auto_unlock();
    if (!a->walk.trie) return error_pending;
    a->outer = thread_state.sink;
    scope_enter(&a->scope);
    thread_state.sink = &a->walk.base;
    return KILN_OK;
}

// One op of which no kernel was made runs as it would by itself, and recording it takes longer. So do a few ops on
// small values between one break and the next, on a device whose launches cost little: a loop of such breaks is slower
// recorded. Then most calls are not recorded; those that still are tell whether that has changed.

enum { IDLE_WALKS = 2, PLAIN_CALLS = 63, MANY_BREAKS = 32 };

static bool breaks_for_little(const struct auto_walk *w)
{
    return w->n_broken >= MANY_BREAKS && w->n_slight >= w->n_broken - w->n_broken / 8;
}

static bool may_be_plain(const kiln_function *f)
{
    return f && !f->o.fullgraph && !debug_flag("fuse-all") && !debug_flag("record-all");
}

static bool gained_nothing(const struct auto_walk *w)
{
    const struct segment *s = w->seg;
    if (!w->missed && !w->lost && breaks_for_little(w)) return true;
    if (!s || w->opened != 1 || w->missed || w->lost || !s->at->end || s->at->depth != 1) return false;
    const struct auto_plan *last = s->at->end->plans;
    while (last && last->used != s->trie->clock) last = last->next;
    const struct auto_body *y = last ? last->body : NULL;
    return y && y->program && !y->kernels && y->launches;
}

static void note_gain(struct auto_walk *w)
{
    struct trie *t = w->trie;
    t->idle = may_be_plain(t->f) && gained_nothing(w) ? t->idle + 1 : 0;
    if (t->idle >= IDLE_WALKS) t->plain = PLAIN_CALLS;
}

static bool is_plain(const kiln_function *f)
{
    auto_lock();
    bool plain = f->trie && f->trie->plain > 0;
    if (plain) f->trie->plain--;
    auto_unlock();
    return plain;
}

// The last segment computes the results with its effects; what earlier ones left pending is computed by itself.
static kiln_status end_walk(struct auto_walk *w, kiln_tensor *const *out, size_t n_out)
{
    struct segment *s = w->seg;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n_out && s && !s->ended; i++)
        if (out[i] && out[i]->storage && out[i]->storage->lazy && out[i]->storage->lazy->seg == s)
            out[i]->storage->lazy->asked = true;
    if (s && !s->ended) status = segment_break(s, NULL, NULL);
    if (s) segment_wait(s);
    for (size_t i = 0; i < n_out && !status; i++)
        if (out[i]) status = tensor_force(out[i], "a result");
    return status;
}

static void count_misses(struct trie *t, const struct auto_walk *w, kiln_jit_stats *stats)
{
    if (w->missed) stats->captures++;
    if (t->walked && (w->missed || w->lost)) stats->guard_misses++;
    if (w->lost) stats->fallbacks++;
    bool other_size = w->missed && t->walked && !w->strayed && t->forms == w->forms;
    stats->reused += other_size;
    if (w->missed && t->walked && !other_size)
        t->misses++;
    else if (!w->missed && t->misses)
        t->misses--;
    t->walked = true;
}

// Walks that find something new more often than not cost more than they gain. What is compiled by then stays in use.
static void count_walk(struct auto_walk *w)
{
    struct trie *t = w->trie;
    kiln_function *f = t->f;
    if (!f) return;
    uint64_t limit = function_recompile_limit(f);
    pthread_mutex_lock(&f->lock);
    count_misses(t, w, &f->stats);
    bool closes = t->misses > limit && !t->closed;
    t->closed |= closes;
    if (closes) function_note(f, "gave up: %llu calls recorded something new", (unsigned long long)t->misses);
    pthread_mutex_unlock(&f->lock);
    if (closes)
        log_warn("%s recorded something new in %llu calls, its limit; calls that fit no program run eagerly", f->name,
                 (unsigned long long)t->misses);
}

kiln_status auto_scope_leave(struct auto_scope *a, kiln_tensor *const *out, size_t n_out, bool has_failed)
{
    struct auto_walk *w = &a->walk;
    scope_leave(&a->scope, out, has_failed ? 0 : n_out);
    thread_state.sink = a->outer;
    auto_lock();
    kiln_status status = KILN_OK;
    if (w->results && !has_failed && !error_pending) status = auto_collapse(w, a->in, a->n_in, out, n_out);
    kiln_status last = end_walk(w, out, has_failed ? 0 : n_out);
    if (!status) status = last;
    count_walk(w);
    if (!status && !has_failed) note_gain(w);
    auto_forget_passed(w);
    if (w->seg) segment_unref(w->seg);
    trie_unref(w->trie);
    auto_unlock();
    return status;
}

// The function was left: what it wrote by then is done.
static void leave_walk(void *at)
{
    auto_scope_leave(at, NULL, 0, true);
}

kiln_status auto_call(kiln_function *f, kiln_tensor *const *in, size_t n_in, struct outputs *o)
{
    struct auto_scope a;
    if (is_plain(f)) return function_run(f, in, n_in, o);
    TRY(auto_scope_enter(&a, f, NULL));
    a.walk.results = true;
    a.in = in;
    a.n_in = n_in;
    struct leave left;
    leave_push(&left, leave_walk, &a);
    kiln_status status = function_run(f, in, n_in, o);
    leave_pop(&left);
    kiln_status last = auto_scope_leave(&a, o->v, o->n, status != KILN_OK);
    if (!status && last) status = last;
    for (size_t i = 0; i < o->n && status; i++) {
        if (o->v[i]) tensor_destroy(o->v[i]);
        o->v[i] = NULL;
    }
    return status;
}
