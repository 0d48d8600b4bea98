// Making a program for a call, and running it.
#include "base/leave.h"
#include "jit/donate.h"
#include "jit/onward.h"
#include "program/kernels.h"
#include "jit/capture/replay.h"
#include "tensor/draw.h"
#include "tensor/flow.h"
#include <kiln/graph.h>
#include <stdlib.h>
#include <string.h>

#define FEW 32

// What a program has to know of the inputs and results of a captured function.
struct layout_room {
    const struct layout **layouts;
    int32_t *aliases;
    bool *numbers, *dense, *given;
    bool apart; // the guards see to it that sources lie apart, those of gradients excepted
};

static kiln_status describe(const struct captured *c, struct layout_room *r)
{
    *r = (struct layout_room){.layouts = calloc(c->n_sources + 1, sizeof *r->layouts),
                              .aliases = calloc(c->n_sources + 1, sizeof *r->aliases),
                              .numbers = calloc(c->n_sources + 1, sizeof *r->numbers),
                              .dense = calloc(c->graph->outputs.n + 1, sizeof *r->dense),
                              .given = calloc(c->n_sources + 1, sizeof *r->given),
                              .apart = true};
    if (!r->layouts || !r->aliases || !r->numbers || !r->dense || !r->given)
        return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < c->n_sources; i++) {
        r->numbers[i] = source_is_number(&c->sources[i]);
        if (!c->sources[i].row_major && !r->numbers[i]) r->layouts[i] = &c->sources[i].layout;
        r->aliases[i] = (int32_t)i;
        r->apart &= c->sources[i].kind != SOURCE_GRADIENT;
    }
    for (size_t i = 0; i < c->n_results; i++)
        if (c->results[i].kind == RESULT_OUTPUT && c->results[i].dense) r->dense[c->results[i].index] = true;
    for (size_t i = 0; i < c->gradient.n_saved; i++) // the backward program takes them so
        if (c->gradient.saved[i].source < 0) r->dense[c->gradient.saved[i].output] = true;
    return KILN_OK;
}

// What nobody needs once the call has read it. Memory that a result shows stays, and what a tape keeps has another
// reference when the program runs.
static void find_given(const struct kiln_function *f, const struct captured *c, bool *given)
{
    for (size_t i = 0; i < c->n_sources && !c->goes_on; i++) {
        const struct source *s = &c->sources[i];
        given[i] = s->kind == SOURCE_INPUT && !s->pinned && !s->written && donate_gives(f, s->input);
    }
    for (size_t i = 0; i < c->n_results; i++)
        if (c->results[i].kind == RESULT_SOURCE) given[c->results[i].index] = false;
}

static kiln_status compile_to(const struct kiln_function *f, const struct entry *e, struct str *picture,
                              struct program **out)
{
    const struct captured *c = &e->captured;
    struct layout_room r;
    kiln_status status = describe(c, &r);
    struct program_options options = e->how;
    options.aliases = r.apart ? r.aliases : NULL;
    options.numbers = r.numbers;
    options.dense = r.dense;
    options.given = f->n_donated ? r.given : NULL;
    options.picture = picture;
    if (!status && options.given) find_given(f, c, r.given);
    if (!status) status = program_create(c->graph, c->dev, r.layouts, &options, out);
    free(r.layouts);
    free(r.aliases);
    free(r.numbers);
    free(r.dense);
    free(r.given);
    return status;
}

static kiln_status compile(const struct kiln_function *f, struct entry *e)
{
    if (!e->by_hand && !debug_flag("replay")) return compile_to(f, e, NULL, &e->program);
    e->reused = program_forms_know(e->forms, e->captured.graph); // without a program, node by node
    return KILN_OK;
}

kiln_status entry_picture(const struct kiln_function *f, const struct entry *e, struct str *out)
{
    struct program *none;
    return compile_to(f, e, out, &none);
}

static kiln_status capture(struct kiln_function *f, struct capture_request *q, struct entry *e, struct guard_key key)
{
    TRY(guard_make(&e->guard, q->in, q->n_in, q->run_time, key));
    TRY(capture_run(q, &e->captured));
    guard_take(&e->guard, &e->captured);
    for (size_t i = 0; i < e->captured.n_sources; i++)
        e->guard.sees_grad |= e->captured.sources[i].kind == SOURCE_LEAF &&
                              (e->captured.sources[i].grad || family_has_history(e->captured.sources[i].leaf));
    const struct kiln_graph *backward = e->captured.gradient.all.graph;
    if (f->o.print_after_all) TRY(kiln_graph_print(e->captured.graph, stderr));
    if (f->o.print_after_all && backward) TRY(kiln_graph_print(backward, stderr));
    return compile(f, e);
}

static void run_time_flags(struct kiln_function *f, size_t n_in, uint8_t *flags)
{
    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < n_in; i++) {
        uint8_t state = i < f->n_scalars ? f->scalars[i] : SCALAR_CONSTANT;
        bool as_input = f->o.deterministic || f->origin.captured;
        flags[i] = state == SCALAR_RUN_TIME || (as_input && state == SCALAR_CONSTANT);
    }
    pthread_mutex_unlock(&f->lock);
}

static kiln_status keep_constant(struct kiln_function *f, size_t input)
{
    pthread_mutex_lock(&f->lock);
    if (input < f->n_scalars) f->scalars[input] = SCALAR_ALWAYS_CONSTANT;
    pthread_mutex_unlock(&f->lock);
    log_warn("recompile-const: %s reads the value of its scalar input %zu: each new value is a new capture; pass a "
             "tensor where the value is only computed with",
             f->name, input);
    return KILN_OK;
}

static bool is_new(const struct joined *known, size_t n, const struct joined *j)
{
    for (size_t i = 0; i < n; i++)
        if (known[i].storage == j->storage && (known[i].whole || !j->whole)) return false;
    return true;
}

struct making {
    uint8_t *flags;
    struct entry **out;
};

static void finish_making(void *at)
{
    struct making *m = at;
    free(m->flags);
    entry_unref(m->out);
}

static struct capture_request request_of(const struct kiln_function *f, kiln_tensor *const *in, size_t n_in,
                                         const struct outputs *o, const uint8_t *flags)
{
    return (struct capture_request){.origin = f->origin.captured ? &f->origin : NULL,
                                    .fn = f->fn,
                                    .user = f->user,
                                    .name = f->name,
                                    .kind = f->o.capture,
                                    .syntax = f->o.syntax,
                                    .max_nodes = function_max_nodes(f),
                                    .in = in,
                                    .n_in = n_in,
                                    .n_out = o->n,
                                    .run_time = flags,
                                    .run = o->run};
}

typedef VEC(struct joined) joined_list;

// After an attempt that has failed: whether the function is captured once more, for memory that turned out to be
// shared.
static bool joins_more(const struct capture_request *q, joined_list *joined, kiln_status *status)
{
    if (!q->conflict.storage || !is_new(joined->v, joined->n, &q->conflict)) {
        storage_unref(q->conflict.storage);
        return false;
    }
    kiln_error_clear();
    *status = vec_push(joined, q->conflict);
    return true;
}

static void free_joined(joined_list *joined)
{
    for (size_t i = 0; i < joined->n; i++) storage_unref(joined->v[i].storage);
    vec_free(joined);
}

static void count_bytes(struct entry *e)
{
    struct program_facts facts;
    entry_facts(e, &facts);
    const struct captured *c = &e->captured;
    e->size_B = sizeof *e + facts.host_B + ir_graph_size_B(c->graph);
    if (c->gradient.all.graph) e->size_B += ir_graph_size_B(c->gradient.all.graph);
    e->reused |= facts.reused;
    e->n_launches = (uint64_t)facts.n_launches;
}

kiln_status entry_make(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, const struct outputs *o,
                       struct guard_key key, bool by_hand, struct entry **out)
{
    uint8_t *flags = calloc(n_in + 1, 1);
    struct capture_request q = request_of(f, in, n_in, o, flags);
    if (!flags) return error_set(KILN_E_MEMORY, "jit: out of memory");
    joined_list joined = {0};
    struct making m = {flags, out};
    struct leave left;
    leave_push(&left, finish_making, &m);
    *out = NULL;
    kiln_status status;
    do { // once more for each scalar that turns out to be read, and for memory that turns out to be shared
        run_time_flags(f, n_in, flags);
        q.must_be_constant = -1;
        q.joined = joined.v;
        q.n_joined = joined.n;
        status = entry_new(f, out);
        if (!status) (*out)->by_hand = by_hand;
        if (!status) status = capture(f, &q, *out, key);
        if (!status) break;
        entry_unref(out);
        if (joins_more(&q, &joined, &status)) continue;
        if (q.must_be_constant < 0 || !flags[q.must_be_constant]) break;
        kiln_error_clear();
        status = keep_constant(f, (size_t)q.must_be_constant);
    } while (!status);
    free_joined(&joined);
    leave_pop(&left);
    free(flags);
    if (!status) count_bytes(*out);
    return status;
}

kiln_status function_capture(struct kiln_function *f, kiln_tensor *const *in, size_t n_in, size_t n_out,
                             struct captured *out)
{
    const struct outputs o = {.n = n_out};
    uint8_t *flags = malloc(n_in + 1);
    struct capture_request q = request_of(f, in, n_in, &o, flags);
    if (!flags) return error_set(KILN_E_MEMORY, "jit: out of memory");
    memset(flags, 1, n_in + 1);
    joined_list joined = {0};
    struct leave left;
    leave_push(&left, free, flags);
    kiln_status status;
    do {
        q.must_be_constant = -1;
        q.joined = joined.v;
        q.n_joined = joined.n;
        status = capture_run(&q, out);
        if (!status || joins_more(&q, &joined, &status)) continue;
        if (q.must_be_constant < 0 || !flags[q.must_be_constant]) break;
        kiln_error_clear();
        flags[q.must_be_constant] = 0;
        status = KILN_OK;
    } while (!status && !out->graph);
    free_joined(&joined);
    leave_pop(&left);
    free(flags);
    return status;
}

// The capture that a call without code is a part of, node by node; NULL: none.
static struct sink *capture_around(void)
{
    struct sink *s = thread_state.sink;
    return s && s->capture ? s : NULL;
}

static kiln_status leave_gradients(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *sources,
                                   kiln_tensor *const *outputs, const struct onward *o)
{
    for (size_t i = 0; i < c->n_left; i++) {
        const struct source *s = &c->sources[c->left[i].source];
        struct tape_node *leaf = source_leaf(s, in);
        if (c->goes_on && reach_has(&o->reach, leaf)) continue;
        kiln_tensor *g = c->left[i].output < 0 ? NULL : outputs[c->left[i].output];
        if (capture_around()) {
            TRY(kiln_set_gradient(sources[c->left[i].source], g));
            continue;
        }
        kiln_tensor *mine = g ? tensor_on(g->storage, &g->type, &g->layout) : NULL;
        if (g && !mine) return error_pending;
        leaf_set_gradient(leaf, mine);
    }
    return KILN_OK;
}

struct running {
    struct entry *e; // a reference
    struct gradient_call call;
    struct onward onward;
    struct flow_effects effects;
    bool *undone;         // NULL: a call that fails is brought to where it fails eagerly
    kiln_tensor **room;   // allocated, or NULL
    kiln_tensor **values; // the same
};

static void finish_running(void *at)
{
    struct running *r = at;
    if (r->call.node) node_unref(r->call.node);
    flow_effects_finish(&r->effects);
    if (r->e->captured.goes_on) onward_finish(&r->e->captured, &r->onward);
    if (r->room) free(r->room);
    if (r->values) free(r->values);
    entry_unref(&r->e);
}

static bool has_written(const struct entry *e)
{
    return e->captured.n_happened && e->program && !program_writes_last(e->program);
}

static bool any_is_spent(const struct captured *c, kiln_tensor *const *sources)
{
    for (size_t i = 0; i < c->n_sources; i++)
        if (sources[i]->storage && sources[i]->storage->spent) return true;
    return false;
}

// What came before an error has happened, as it has eagerly; the op that fails tells why, as it does eagerly.
static void catch_up(const struct entry *e, struct running *r, kiln_tensor *const *in, kiln_tensor *const *sources,
                     const struct rng *rng)
{
    const struct captured *c = &e->captured;
    struct error_record now, why;
    struct flow_effects *effects = &r->effects;
    if (has_written(e) || any_is_spent(c, sources) || effects->lost || (r->undone && effects->done)) return;
    if (error_pending == KILN_E_TIMEOUT) return; // what has not ended would not do so op by op
    if (r->undone) {
        *r->undone = true;
        draw_give_back(c->dev, rng, c->counters);
        return;
    }
    error_capture(&now);
    why = now;
    kiln_error_clear();
    r->values = calloc(c->n_gradient_steps + 1, sizeof *r->values);
    struct catching_up done = {.writes = c->happened,
                               .n_writes = c->n_happened,
                               .steps = c->gradient_steps,
                               .n_steps = c->n_gradient_steps,
                               .values = r->values,
                               .why = &why};
    effects->skip = effects->done;
    effects->is_second_attempt = true;
    if (done.values) graph_catch_up(c->graph, c->dev, sources, rng, &done);
    if (done.values) onward_catch_up(c, in, done.values, done.n_taken, &r->onward);
    kiln_error_clear();
    error_raise(effects->failed && !effects->skip ? &now : &why);
}

static kiln_status take_numbers(const struct entry *e, struct rng *out)
{
    const struct captured *c = &e->captured;
    struct sink *around = capture_around();
    *out = (struct rng){0, 0};
    if (!c->counters) return KILN_OK;
    if (around) return around->capture->numbers(around, e->name, c->counters, out);
    *out = draw_take(c->dev, c->counters);
    return KILN_OK;
}

// A capture around the call has parameters and states as values of its own, and their gradients.
static kiln_status place_source(const struct entry *e, const struct source *s, kiln_tensor *const *in,
                                kiln_tensor **out)
{
    struct sink *around = capture_around();
    if (around && s->kind == SOURCE_GRADIENT)
        TRY(leaf_get_gradient(source_leaf(s, in), out));
    else
        TRY(source_tensor(s, in, out));
    if (!e->by_hand || source_is_number(s) || s->kind == SOURCE_GRADIENT) return KILN_OK;
    if (s->kind == SOURCE_LEAF) tape_set_node(*out, s->leaf, 0);
    return around ? around->capture->reach(around, "call", *out, false, out) : KILN_OK;
}

static kiln_status run(struct entry *e, struct running *r, kiln_tensor *const *in, kiln_tensor **tensors,
                       kiln_tensor **out)
{
    const struct captured *c = &e->captured;
    kiln_tensor **outputs = tensors + c->n_sources;
    for (size_t i = 0; i < c->n_sources; i++) TRY(place_source(e, &c->sources[i], in, &tensors[i]));
    if (c->goes_on) TRY(onward_begin(c, e->name, in, &r->onward));
    struct rng rng;
    TRY(take_numbers(e, &rng));
    TRY(gradient_begin(e, in, tensors, &r->call));
    struct flow_effects *around = thread_state.effects;
    thread_state.effects = &r->effects;
    kiln_status status = entry_run_graph(e, e->program, c->graph, tensors, &rng, outputs);
    if (status) catch_up(e, r, in, tensors, &rng);
    thread_state.effects = around;
    TRY(status);
    TRY(leave_gradients(c, in, tensors, outputs, &r->onward));
    if (c->goes_on) TRY(onward_run(c, in, outputs, &r->onward));
    TRY(captured_results(c, in, tensors, outputs, e->program && !r->call.node, out)); // a tape keeps the others as well
    return gradient_end(e, &r->call, &rng, in, tensors, outputs, out);
}

kiln_status entry_run(struct entry *e, kiln_tensor *const *in, kiln_tensor **out, bool *undone)
{
    const struct captured *c = &e->captured;
    size_t n = c->n_sources + c->n_outputs;
    kiln_tensor *few[FEW], **tensors = n > FEW ? malloc(sizeof *tensors * n) : few;
    if (!tensors) {
        entry_unref(&e);
        return error_set(KILN_E_MEMORY, "call: out of memory");
    }
    struct kiln_scope scope;
    struct running r = {.e = e, .undone = undone, .room = tensors == few ? NULL : tensors};
    struct leave left;
    scope_enter(&scope);
    leave_push(&left, finish_running, &r);
    kiln_status status = run(e, &r, in, tensors, out);
    leave_pop(&left);
    scope_leave(&scope, out, status ? 0 : c->n_results);
    for (size_t i = 0; i < c->n_results && status; i++) out[i] = NULL;
    finish_running(&r);
    return status;
}
