// Inputs that a call gives away.
//
// Before anything happens it is known that nobody else has a use for what they hold: the handle is the only one on its
// storage, and no backward needs it. Then the call runs in whatever way it runs; a program may let other values lie
// there (program/places.c). When it has succeeded the handles are taken: their owner can free them, and nothing else.
// A call that fails takes none, but where a program had begun to write over them, which no mistake in the function's
// values can come after; then what they held is lost, and they are taken as well.
//
// Inside of a capture, and of eager code, the rules are the same. There the handle may be an input of a call further
// out, whose owner knows nothing of it: that call has to give it away, too.
#include "jit/donate.h"
#include "grad/state.h"
#include "jit/capture/recorder.h"
#include <stdlib.h>
#include <string.h>

// --- the option

bool donate_gives(const kiln_function *f, size_t input)
{
    for (size_t i = 0; i < f->n_donated; i++)
        if (f->donated[i] == input) return true;
    return false;
}

kiln_status donate_read_option(kiln_function *f)
{
    const kiln_ints list = f->o.donate;
    f->o.donate = (kiln_ints){0};
    if (!list.count) return KILN_OK;
    if (f->bundle_fn)
        return error_set(KILN_E_ARGUMENT, "jit: .donate is for kiln_jit; a bundle keeps the tensors that are in it");
    if (!list.v) return error_set(KILN_E_ARGUMENT, "jit: .donate is NULL, of %zu inputs", list.count);
    f->donated = calloc(list.count, sizeof *f->donated);
    if (!f->donated) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < list.count; i++) {
        if (list.v[i] < 0)
            return error_set(KILN_E_ARGUMENT, "jit: .donate entry %zu is %lld, which is no input", i,
                             (long long)list.v[i]);
        if (donate_gives(f, (size_t)list.v[i]))
            return error_set(KILN_E_ARGUMENT, "jit: .donate names input %lld twice", (long long)list.v[i]);
        f->donated[f->n_donated++] = (size_t)list.v[i];
    }
    f->taker = taker_new(f->name);
    return f->taker ? KILN_OK : error_pending;
}

void donate_finish(kiln_function *f)
{
    free(f->donated);
    taker_unref(&f->taker);
}

// --- calls around

static THREAD_LOCAL const struct donate_frame *innermost;

void donate_enter(struct donate_frame *frame, const kiln_function *f, kiln_tensor *const *in, size_t n_in)
{
    *frame = (struct donate_frame){f, in, n_in, thread_state.sink, innermost};
    innermost = frame;
}

void donate_leave(const struct donate_frame *frame)
{
    innermost = frame->outer;
}

static bool captures(const struct sink *s)
{
    return s && s->capture;
}

// The call whose function is being captured: those further in are parts of it.
static const struct donate_frame *frame_of_capture(void)
{
    const struct donate_frame *o = innermost;
    while (o && captures(o->sink)) o = o->outer;
    return o;
}

// --- what may be given away

struct giving {
    const kiln_function *f;
    size_t input;
    kiln_tensor *t;
};

static kiln_status refuse(const struct giving *g, kiln_status status, const char *why)
{
    return error_set(status, "call: input %zu of %s cannot be given away: %s", g->input, g->f->name, why);
}

static kiln_status refuse_input_of(const struct giving *g, const kiln_function *outer)
{
    return error_set(KILN_E_STATE,
                     "call: input %zu of %s cannot be given away: it is an input of %s, which does not give it away",
                     g->input, g->f->name, outer->name);
}

static kiln_status check_around(const struct giving *g)
{
    for (const struct donate_frame *o = innermost; o; o = o->outer)
        for (size_t i = 0; i < o->n_in; i++)
            if (o->in[i] == g->t && !donate_gives(o->f, i)) return refuse_input_of(g, o->f);
    return KILN_OK;
}

static const char another_handle[] = "its memory has another handle, such as a view, or a captured function keeps it";

static kiln_status check_storage(const struct giving *g)
{
    struct storage *s = g->t->storage;
    int refs = atomic_load_explicit(&s->refs, memory_order_acquire);
    if (refs > 1 && (s->readers || s->lazy)) refs -= tensor_lazy.count(s);
    if (refs <= 1) return KILN_OK;
    bool saved = atomic_load_explicit(&s->saved, memory_order_relaxed) > 0;
    return refuse(g, KILN_E_STATE, saved ? "the tape keeps it for a backward" : another_handle);
}

static bool has_other_handle(const kiln_tensor *t)
{
    for (const struct kiln_scope *s = thread_state.scope; s; s = s->outer)
        for (const kiln_tensor *o = s->first; o; o = o->next) {
            bool shows = t->builder && t->variable && o->builder == t->builder && o->variable == t->variable;
            bool lies = t->storage && o->storage == t->storage;
            if (o != t && (shows || lies)) return true;
        }
    return false;
}

// An abstract value: where it shows memory from outside, that of an input which is given away.
static kiln_status check_variable(const struct giving *g, const struct recorder *r)
{
    int32_t source = g->t->variable ? r->variables.v[g->t->variable].source : -1;
    if (source < 0) return KILN_OK;
    const struct source *s = &r->sources.v[source];
    const struct donate_frame *o = frame_of_capture();
    if (s->kind != SOURCE_INPUT || r->outer || !o)
        return refuse(g, KILN_E_STATE, "it comes from outside of the capture");
    return donate_gives(o->f, s->input) ? KILN_OK : refuse_input_of(g, o->f);
}

static kiln_status check_in_capture(const struct giving *g)
{
    const struct recorder *r = recorder_current();
    const kiln_tensor *t = g->t;
    bool mine = r && (t->builder ? t->capture == r->capture : t->storage->capture == r->capture);
    if (!mine) return refuse(g, KILN_E_STATE, "it comes from outside of the capture");
    if (t->builder) TRY(check_variable(g, r));
    return has_other_handle(t) ? refuse(g, KILN_E_STATE, another_handle) : KILN_OK;
}

static kiln_status check_one(const struct giving *g, kiln_tensor *const *in, size_t n_in)
{
    const kiln_tensor *t = g->t;
    for (size_t i = 0; i < n_in; i++)
        if (i != g->input && in[i] == t)
            return error_set(KILN_E_ARGUMENT, "call: input %zu of %s is given away, and is input %zu, too", g->input,
                             g->f->name, i);
    if (!t->storage && !t->builder) return refuse(g, KILN_E_ARGUMENT, "it is a number, without memory");
    if (recorder_leaf_of(g->t)) return refuse(g, KILN_E_ARGUMENT, "it is a parameter, or another leaf of the tape");
    TRY(error_pending);
    if (t->lent) return refuse(g, KILN_E_ARGUMENT, "it is the gradient of a parameter, which owns it");
    TRY(check_around(g));
    if (captures(thread_state.sink)) return check_in_capture(g);
    return t->storage ? check_storage(g) : KILN_OK;
}

kiln_status donate_check(const kiln_function *f, kiln_tensor *const *in, size_t n_in)
{
    for (size_t i = 0; i < f->n_donated; i++) {
        size_t input = f->donated[i];
        if (input >= n_in)
            return error_set(KILN_E_ARGUMENT, "call: %s is to be given input %zu for good, there are %zu", f->name,
                             input, n_in);
        const struct giving g = {f, input, in[input]};
        TRY(check_one(&g, in, n_in));
    }
    return KILN_OK;
}

void donate_take(const kiln_function *f, kiln_tensor *const *in, uintptr_t at, bool spent_alone)
{
    for (size_t i = 0; i < f->n_donated; i++) {
        kiln_tensor *t = in[f->donated[i]];
        if (t->magic != TENSOR_ALIVE) continue; // a call further in has it
        if (!spent_alone || (t->storage && t->storage->spent)) tensor_take(t, f->taker, at);
    }
}
