// Breaks: a segment ends, and what is needed of it is computed.
//
// What is needed: the value asked for, the effects so far, and what earlier walks asked for after a break at this step
// and a storage still waits for. A value that is asked for after the break is computed op by op, with what it passes
// by, and learnt, so that the next walk computes it at the break.
//
// Results take the place of the pending memory. Where there was memory before, whoever still reads it keeps it; if
// nobody does, they may lie over it (lend.c). If a run fails, its values have failed for good; writes are tried once
// more by themselves.
#include "device/profile.h"
#include "jit/auto/auto.h"
#include "jit/capture/replay.h"
#include "ops/families.h"
#include <stdlib.h>
#include <string.h>

static bool has(const struct ref *v, size_t n, const struct ref *r)
{
    for (size_t i = 0; i < n; i++)
        if (ref_equal(&v[i], r)) return true;
    return false;
}

static struct break_point *end_of(struct segment *s)
{
    if (!s->at->end) s->at->end = calloc(1, sizeof *s->at->end);
    if (!s->at->end) error_set(KILN_E_MEMORY, "jit: out of memory");
    return s->at->end;
}

// Running

// The memory that an input of the segment is in, through a storage of its own: a later value may wait to replace it, or
// come while the segment runs.
static kiln_tensor *input_tensor(struct lazy_reader *r)
{
    struct storage *st = r->storage, *window = storage_pending(st->dev, st->block.size_B);
    if (!window) return NULL;
    window->block = st->block;
    window->borrowed = true;
    kiln_tensor *t = tensor_on(window, &r->type, &r->layout);
    if (t) t->type.weak = r->type.weak;
    storage_unref(window);
    return t;
}

kiln_tensor *auto_number_tensor(const struct auto_number *n)
{
    kiln_tensor *t = n->dtype == KILN_F64   ? kiln_scalar(n->number)
                     : n->dtype == KILN_I64 ? kiln_scalar_int(n->integer)
                                            : kiln_scalar_bool(n->integer != 0);
    return t;
}

static kiln_status run_body(struct segment *s, const struct auto_plan *p, kiln_tensor **in, kiln_tensor **out)
{
    struct rng rng = {s->seed, s->offset};
    for (size_t i = 0; i < p->n_inputs; i++) {
        const struct ref *r = &p->inputs[i];
        in[i] =
            r->kind == REF_INPUT ? input_tensor(s->inputs.v[r->index]) : auto_number_tensor(&s->numbers.v[r->index]);
        if (!in[i]) return error_pending;
    }
    const struct auto_body *b = p->body;
    auto_lend(s, p, in);
    if (s->trie->f) function_count_ops(s->trie->f, b->program != NULL, (uint64_t)b->launches, b->graph->nodes.n);
    int depth = auto_unlock_all();
    kiln_status status =
        b->program ? program_run(b->program, in, &rng, out) : graph_replay(b->graph, s->dev, in, &rng, out);
    auto_lock_again(depth);
    auto_take_back(s, p, in, status != KILN_OK);
    return status;
}

// Installing

static kiln_status copy_of(const kiln_tensor *t, const struct type *base, kiln_device *dev, kiln_tensor **out)
{
    *out = tensor_empty(dev, base);
    if (!*out) return error_pending;
    kiln_tensor *const in[] = {*out, (kiln_tensor *)t};
    return op_apply_inplace(&op_instances[OP_assign], 2, in, NULL);
}

static bool is_alone(const kiln_tensor *t, const struct lazy *l)
{
    const struct storage *st = t->storage;
    return st && atomic_load(&st->refs) == 1 && !st->borrowed && !st->readers && t->layout.offset == 0 &&
           layout_is_contiguous(&t->type, &t->layout) && st->block.size_B == l->storage->block.size_B;
}

// The memory that l is to have. What others have taken already is copied.
static kiln_status take_block(struct segment *s, const struct lazy *l, kiln_tensor **from, struct block *out)
{
    kiln_tensor *t = *from;
    if (!is_alone(t, l)) TRY(copy_of(*from, &l->base, s->dev, &t));
    *out = t->storage->block;
    if (t != *from) {
        t->storage->block.address = 0;
        return KILN_OK;
    }
    // Another value may be a copy of it.
    t->storage->borrowed = true;
    return KILN_OK;
}

static size_t count_lazies(const struct segment *s)
{
    size_t n = 0;
    for (const struct lazy *l = s->lazies; l; l = l->next) n++;
    return n;
}

// The value has its memory. Later ones of the segment are computed of what lies there.
static kiln_status give(struct segment *s, const struct lazy *l)
{
    struct layout layout;
    struct ref at;
    if (l->value.kind != REF_STEP) return KILN_OK;
    layout_contiguous(&l->base, &layout);
    TRY(segment_input(s, l->storage, &l->base, &layout, &at));
    struct given g = {l->value.index, at.index};
    return vec_push(&s->given, g);
}

// A walk that reads this later asks for it after the break, though it need not be computed then any more.
static kiln_status note_passed(struct segment *s, const struct lazy *l)
{
    struct auto_walk *w = s->asked_by;
    if (!w || w->trie != s->trie || s->trie->closed || l->outside || !s->at->end) return KILN_OK;
    struct passed p = {l->storage, s, l->value};
    TRY(vec_push(&w->passed, p));
    s->refs++;
    return KILN_OK;
}

void auto_forget_passed(struct auto_walk *w)
{
    while (w->passed.n) segment_unref(w->passed.v[--w->passed.n].seg);
    vec_free(&w->passed);
}

struct taken_block {
    struct lazy *l;
    struct block b;
};

// The storage's memory was lent, and has become a result's.
static bool is_lent(const struct storage *s)
{
    return !s->block.address && s->block.size_B && s->lazy->outside;
}

// All or nothing: the memory of each is there before the first changes hands; `taken` has room for all.
static kiln_status install(struct segment *s, const struct auto_plan *p, kiln_tensor **results,
                           struct taken_block *taken)
{
    kiln_status status = KILN_OK;
    bool apart = true;
    size_t n = 0;
    for (struct lazy *l = s->lazies; l && !status; l = l->next) {
        int i = l->failed ? -1 : auto_plan_find(p, &l->value);
        if (i < 0) continue;
        taken[n].l = l;
        apart &= is_alone(results[i], l);
        status = take_block(s, l, &results[i], &taken[n].b);
        n += !status;
    }
    if (p->body) p->body->apart = apart;
    bool more = n < count_lazies(s);
    for (size_t i = 0; i < n; i++) {
        if (!status && p->once) status = note_passed(s, taken[i].l);
        struct storage *st = taken[i].l->storage;
        kiln_status replaced = status && !is_lent(st) ? status : storage_replace(st, &taken[i].b);
        bool installed = !replaced;
        if (!status) status = replaced;
        if (!status && more) status = give(s, taken[i].l);
        if (installed)
            lazy_free(taken[i].l);
        else
            device_release(s->dev, &taken[i].b);
    }
    return status;
}

// One tensor for each wanted value: a result, or an input as it is.
static kiln_status gather(struct segment *s, const struct auto_plan *p, kiln_tensor *const *out, kiln_tensor **results)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_wanted; i++) {
        const struct ref *r = &p->wanted[i];
        // Another walk wanted it: an input that only a write named.
        if (r->kind == REF_INPUT && (size_t)r->index >= s->inputs.n) continue;
        results[i] = r->kind == REF_STEP ? out[n++] : input_tensor(s->inputs.v[r->index]);
        if (!results[i]) return error_pending;
    }
    return KILN_OK;
}

static kiln_status run_plan(struct segment *s, const struct auto_plan *p)
{
    kiln_tensor **room = calloc(p->n_inputs + 2 * p->n_wanted + 1, sizeof *room);
    struct taken_block *taken = malloc(sizeof *taken * (count_lazies(s) + 1));
    if (!room || !taken) {
        free(room);
        free(taken);
        return error_set(KILN_E_MEMORY, "jit: out of memory");
    }
    kiln_tensor **out = room + p->n_inputs, **results = out + p->n_wanted;
    kiln_status status = p->body ? run_body(s, p, room, out) : KILN_OK;
    if (!status) status = gather(s, p, out, results);
    if (!status) status = install(s, p, results, taken);
    free(taken);
    free(room);
    return status;
}

// Failing

static kiln_status failed(const struct segment *s)
{
    return error_raise(s->failed);
}

static void fail(struct segment *s, const struct auto_plan *p)
{
    struct error_record now;
    error_capture(&now);
    if (!s->failed) {
        s->failed = malloc(sizeof *s->failed);
        if (s->failed) *s->failed = now;
    }
    for (struct lazy *l = s->lazies, *next; l; l = next) {
        next = l->next;
        if (p && auto_plan_find(p, &l->value) < 0) continue;
        if (l->outside && (l->storage->block.address || !l->storage->block.size_B))
            lazy_free(l);
        else
            l->failed = s->failed != NULL;
    }
    error_raise(&now);
}

// What was written does not go with what failed beside it: it is computed by itself, op by op.
static void save_effects(struct segment *s)
{
    struct error_record now;
    struct auto_plan *p = NULL;
    struct ref *wanted = malloc((count_lazies(s) + 1) * sizeof *wanted);
    size_t n = 0;
    for (const struct lazy *l = s->lazies; l && wanted; l = l->next)
        if (l->outside) wanted[n++] = l->value;
    error_capture(&now);
    kiln_error_clear();
    if (n && !auto_plan_make(s, wanted, n, true, &p)) {
        (void)run_plan(s, p);
        auto_plan_free(s->trie, p);
    }
    free(wanted);
    kiln_error_clear();
    error_raise(&now);
}

// Which plan: where the trie is closed, and has none, one for this time, op by op.

static bool contains(const struct auto_plan *p, const struct ref *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (auto_plan_find(p, &wanted[i]) < 0) return false;
    return true;
}

static struct auto_plan *find_plan(struct break_point *end, const struct ref *wanted, size_t n)
{
    struct auto_plan *best = NULL;
    for (struct auto_plan *p = end->plans; p; p = p->next)
        if (contains(p, wanted, n) && (!best || p->n_wanted < best->n_wanted)) best = p;
    return best;
}

static kiln_status get_plan(struct segment *s, const struct ref *wanted, size_t n, struct auto_plan **out)
{
    struct break_point *end = s->at->end;
    *out = find_plan(end, wanted, n);
    if (*out) return KILN_OK;
    if (s->trie->closed) return auto_plan_make(s, wanted, n, true, out);
    TRY(auto_plan_make(s, wanted, n, false, out));
    struct auto_plan *same = find_plan(end, wanted, n); // another thread's, which compiled it with this one
    if (same && same->n_wanted <= (*out)->n_wanted) {
        auto_plan_free(s->trie, *out);
        *out = same;
        return KILN_OK;
    }
    (*out)->next = end->plans;
    end->plans = *out;
    return KILN_OK;
}

enum { IS_LEARNT = 1, IS_CHOSEN = 2 };

static bool is_marked(const struct ref *r, const uint8_t *marks, int mark, const struct ref *v, size_t n)
{
    return r->kind == REF_STEP ? marks[r->index] & mark : has(v, n, r);
}

// `marks`: by value, clear.
static void choose_among(const struct segment *s, const struct lazy *asked, uint8_t *marks, struct ref *wanted,
                         size_t *n)
{
    const struct break_point *end = s->at->end;
    for (size_t i = 0; i < end->learnt.n; i++)
        if (end->learnt.v[i].kind == REF_STEP) marks[end->learnt.v[i].index] |= IS_LEARNT;
    for (const struct lazy *l = s->lazies; l; l = l->next) {
        const struct ref *r = &l->value;
        if (l != asked && !l->outside && !l->asked && !is_marked(r, marks, IS_LEARNT, end->learnt.v, end->learnt.n))
            continue;
        if (is_marked(r, marks, IS_CHOSEN, wanted, *n)) continue;
        wanted[(*n)++] = *r;
        if (r->kind == REF_STEP) marks[r->index] |= IS_CHOSEN;
    }
}

static kiln_status choose(struct segment *s, const struct lazy *asked, struct ref **wanted, size_t *n)
{
    enum { FEW = 64 };
    size_t n_values = auto_step_values(s->at);
    uint8_t few[FEW] = {0}, *marks = n_values > FEW ? calloc(n_values, 1) : few;
    *n = 0;
    *wanted = malloc((count_lazies(s) + 1) * sizeof **wanted);
    bool room = *wanted && marks;
    if (room) choose_among(s, asked, marks, *wanted, n);
    if (marks != few) free(marks);
    return room ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
}

// Telling

// What the host asks for, as text; its one element, where it has no more.
static void describe(const struct type *type, struct storage *st, char *text, size_t size)
{
    char of[TYPE_TEXT_MAX];
    const struct layout whole = {0, {0}};
    type_text(type, of, sizeof of);
    kiln_tensor *t = type_numel(type) == 1 && !error_pending ? tensor_on(st, type, &whole) : NULL;
    if (t)
        snprintf(text, size, " of %s, made by %s, which is %.9g,", of, st->writer ? st->writer : "an op", kiln_item(t));
    else
        snprintf(text, size, " of %s, made by %s,", of, st->writer ? st->writer : "an op");
}

// Once for each place in the trie.
static void note(struct segment *s, const struct type *type, struct storage *asked, const char *why, size_t n)
{
    kiln_function *f = s->trie->f;
    struct break_point *end = s->at->end;
    if (!f || !end || end->noted) return;
    end->noted = true;
    char place[CALLER_TEXT_MAX] = "", of[TYPE_TEXT_MAX + 64] = "", text[700];
    caller_describe(caller_find(), place, sizeof place);
    if (asked) describe(type, asked, of, sizeof of);
    int ops = s->at->depth;
    snprintf(text, sizeof text, "%s%s%s%s%s; %d op%s recorded, %zu value%s computed",
             why ? "break: " : "end: ", why ? why : "of the scope", of, place[0] ? " at " : "", place, ops,
             ops == 1 ? "" : "s", n, n == 1 ? " is" : "s are");
    pthread_mutex_lock(&f->lock);
    function_note(f, "%s", text);
    pthread_mutex_unlock(&f->lock);
    if (debug_flag("breaks")) log_warn("%s: %s", f->name, text);
    if (f->o.print_after_all) fprintf(stderr, "# %s: %s\n", f->name, text);
}

static void count_break(struct segment *s, const char *why)
{
    kiln_function *f = s->trie->f;
    if (!f) return;
    pthread_mutex_lock(&f->lock);
    struct break_count *b = f->breaks;
    while (b->n && strncmp(b->why, why, sizeof b->why - 1) != 0 && b < f->breaks + BREAK_REASONS - 1) b++;
    if (!b->n++) snprintf(b->why, sizeof b->why, "%s", why);
    f->stats.breaks++;
    pthread_mutex_unlock(&f->lock);
}

// Breaking

// Whether its ops by themselves would take less time than recording them: few, on small values of the host.
static bool is_slight(const struct segment *s)
{
    enum { FEW_OPS = 4, SMALL = 1024 }; // three ops on four numbers take 1.0 us by themselves and 1.4 us recorded
    bool slight = s->dev->caps.host && s->at->depth <= FEW_OPS;
    for (size_t i = 0; i < s->inputs.n && slight; i++) slight = type_numel(&s->inputs.v[i]->type) <= SMALL;
    for (const struct lazy *l = s->lazies; l && slight; l = l->next) slight = type_numel(&l->base) <= SMALL;
    return slight;
}

static void count_broken(const struct segment *s)
{
    if (!s->asked_by) return;
    s->asked_by->n_broken++;
    s->asked_by->n_slight += is_slight(s);
}

static kiln_status end_segment(struct segment *s, struct lazy *l, const char *why)
{
    struct ref *wanted = NULL;
    struct auto_plan *p = NULL;
    size_t n = 0;
    PROFILE(why ? "break" : "segment", why ? why : trie_name(s->trie));
    s->ended = true;
    kiln_status status = end_of(s) ? choose(s, l, &wanted, &n) : error_pending;
    const struct type type = l ? l->base : (struct type){0};
    struct storage *asked = l ? storage_ref(l->storage) : NULL;
    if (why) count_break(s, why);
    if (why) count_broken(s);
    if (!status && n) status = get_plan(s, wanted, n, &p);
    if (!status && p) {
        p->used = ++s->trie->clock;
        status = run_plan(s, p);
    }
    free(wanted);
    if (status) {
        if (!s->spoiled) save_effects(s);
        fail(s, p);
    }
    if (p && p->once) auto_plan_free(s->trie, p);
    note(s, &type, status ? NULL : asked, why, n);
    storage_unref(asked);
    return status;
}

static kiln_status learn(struct break_point *end, const struct ref *value)
{
    return has(end->learnt.v, end->learnt.n, value) ? KILN_OK : vec_push(&end->learnt, *value);
}

kiln_status auto_learn_read(struct auto_walk *w, const struct storage *st)
{
    for (size_t i = 0; i < w->passed.n; i++) {
        struct passed *p = &w->passed.v[i];
        if (p->storage != st) continue;
        p->storage = NULL; // once
        return learn(p->seg->at->end, &p->value);
    }
    return KILN_OK;
}

static kiln_status ask_later(struct segment *s, struct lazy *l)
{
    struct auto_plan *p = NULL;
    struct ref wanted = l->value;
    if (l->failed) return failed(s);
    if (!end_of(s)) return error_pending;
    TRY(learn(s->at->end, &wanted));
    TRY(auto_plan_make(s, &wanted, 1, true, &p));
    kiln_status status = run_plan(s, p);
    if (status) fail(s, p);
    auto_plan_free(s->trie, p);
    return status;
}

// A function that is to be one graph.
static kiln_status refuse(const struct segment *s, const struct lazy *l, const char *why)
{
    char of[TYPE_TEXT_MAX + 64] = "", type[TYPE_TEXT_MAX];
    if (l)
        snprintf(of, sizeof of, " of %s, made by %s", type_text(&l->base, type, sizeof type),
                 l->storage->writer ? l->storage->writer : "an op");
    return error_set(KILN_E_STATE, "the graph of %s breaks here, which .fullgraph does not allow: %s%s",
                     trie_name(s->trie), why, of);
}

kiln_status segment_break(struct segment *s, struct lazy *l, const char *why)
{
    if (KILN_UNLIKELY(why && !s->ended && s->trie->f && s->trie->f->o.fullgraph)) return refuse(s, l, why);
    struct error_record before = {.code = KILN_OK};
    struct sink *sink = thread_state.sink;
    struct kiln_scope scope;
    kiln_function *f = s->trie->f && function_try_ref(s->trie->f) ? s->trie->f : NULL;
    bool was_busy = s->busy;
    if (error_pending) error_capture(&before);
    s->refs++;
    scope_enter(&scope);
    s->asked_by = auto_walk_current();
    thread_state.sink = NULL;
    thread_state.no_grad++;
    s->busy = true;
    s->runner = pthread_self();
    kiln_status status = s->ended ? (l ? ask_later(s, l) : KILN_OK) : end_segment(s, l, why);
    s->busy = was_busy;
    auto_lock_wake();
    thread_state.no_grad--;
    thread_state.sink = sink;
    scope_leave(&scope, NULL, 0);
    if (!s->lazies) segment_forget_inputs(s, 0);
    segment_unref(s);
    if (f) function_unref(f);
    if (before.code) {
        kiln_error_clear();
        error_raise(&before);
    }
    return status ? status : error_pending;
}
