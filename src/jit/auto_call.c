// Scopes that record: a call of an AUTO function, and regions of user code.
//
// A scope's handles go before its last segment is run, so that what nobody can ask for any more is not computed.
// Effects are run whatever way the scope is left, with an error pending too.
#include "jit/auto.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

kiln_status auto_enter(struct auto_scope *a, kiln_function *f, kiln_device *only)
{
    a->walk = (struct walk){.base = auto_sink, .only = only, .since = node_sequence()};
    a->in = NULL;
    a->n_in = 0;
    auto_lock();
    if (!f->trie) f->trie = trie_new(f);
    a->walk.trie = f->trie;
    if (f->trie) f->trie->refs++;
    auto_unlock();
    if (!a->walk.trie) return error_pending;
    a->outer = thread_state.sink;
    scope_enter(&a->scope);
    thread_state.sink = &a->walk.base;
    return KILN_OK;
}

static kiln_status ask_for(kiln_tensor *t, const struct segment *s)
{
    struct lazy *l = t && t->storage ? t->storage->lazy : NULL;
    if (!l) return KILN_OK;
    if (l->seg != s || s->ended) return storage_force(t->storage, "a result");
    l->asked = true;
    return KILN_OK;
}

static kiln_status end_walk(struct walk *w, kiln_tensor *const *out, size_t n_out)
{
    struct segment *s = w->seg;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n_out && !status; i++) status = ask_for(out[i], s);
    if (s && !s->ended) {
        kiln_status last = segment_break(s, NULL, NULL);
        if (!status) status = last;
    }
    return status;
}

// Walks that find something new more often than not cost more than they gain.
static void count_miss(struct walk *w)
{
    struct trie *t = w->trie;
    kiln_function *f = t->f;
    if (!f) return;
    uint64_t limit = function_recompile_limit(f);
    pthread_mutex_lock(&f->lock);
    if (w->missed) f->stats.captures++;
    if (w->missed && t->walked) {
        f->stats.guard_misses++;
        t->misses++;
    } else if (!w->missed && t->misses)
        t->misses--;
    t->walked = true;
    bool gave_up = t->misses > limit && !f->gave_up;
    f->gave_up |= gave_up;
    if (gave_up) function_note(f, "gave up: %llu calls recorded something new", (unsigned long long)t->misses);
    pthread_mutex_unlock(&f->lock);
    if (gave_up)
        log_warn("%s recorded something new in %llu calls, its limit; it runs eagerly from now on", f->name,
                 (unsigned long long)t->misses);
}

kiln_status auto_leave(struct auto_scope *a, kiln_tensor *const *out, size_t n_out, bool has_failed)
{
    struct walk *w = &a->walk;
    scope_leave(&a->scope, out, has_failed ? 0 : n_out);
    thread_state.sink = a->outer;
    auto_lock();
    kiln_status status = KILN_OK;
    if (w->results && !has_failed && !error_pending) status = auto_collapse(w, a->in, a->n_in, out, n_out);
    kiln_status last = end_walk(w, out, has_failed ? 0 : n_out);
    if (!status) status = last;
    count_miss(w);
    if (w->seg) segment_unref(w->seg);
    trie_unref(w->trie);
    auto_unlock();
    return status;
}

kiln_status auto_call(kiln_function *f, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct auto_scope a;
    TRY(auto_enter(&a, f, NULL));
    a.walk.results = true;
    a.in = in;
    a.n_in = n_in;
    kiln_status status = function_run(f, in, n_in, out, n_out);
    kiln_status last = auto_leave(&a, out, n_out, status != KILN_OK);
    if (!status && last) status = last;
    for (size_t i = 0; i < n_out && status; i++) {
        if (out[i]) tensor_destroy(out[i]);
        out[i] = NULL;
    }
    return status;
}
