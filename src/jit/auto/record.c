// Recording: from ops to steps of a segment and handles on pending storages.
//
// Each operand is resolved to what it is within the segment (emit.c). A storage that another segment is to fill is
// computed first. If the last step has a child for this op and these operands, the child tells the types of the
// results; else they are inferred and the child is made.
#include "jit/auto/auto.h"
#include "jit/capture/recorder.h"
#include "ops/families.h"
#include "ops/index_check.h"
#include <string.h>

enum { STEPS_OF_SEGMENT = 2048, PERIOD_MAX = 512 };

// Results

static kiln_status fresh_output(struct auto_walk *w, const struct op *op, const struct type *type, int32_t index,
                                kiln_tensor **out)
{
    uint64_t size_B;
    struct lazy *l;
    struct ref value = {.kind = REF_STEP, .index = index};
    TRY(type_size_B(type, &size_B));
    struct storage *st = storage_pending(w->seg->dev, size_B);
    if (!st) return error_pending;
    struct layout layout;
    layout_contiguous(type, &layout);
    *out = tensor_on(st, type, &layout);
    storage_unref(st);
    if (!*out) return error_pending;
    st->writer = op->name;
    TRY(lazy_new(w->seg, st, type, &value, false, &l));
    auto_remember(*out, l, &value);
    return KILN_OK;
}

static kiln_status view_output(const struct auto_step *s, kiln_tensor *base, kiln_tensor **out)
{
    struct ref value = {.kind = REF_STEP, .index = s->n_values};
    struct lazy *l = base->storage->lazy;
    *out = tensor_on(base->storage, &s->out[0], &s->view);
    if (!*out) return error_pending;
    TRY(lazy_show(l, &s->out[0], &s->view, &value));
    auto_remember(*out, l, &value);
    return KILN_OK;
}

// `attrs`: what the tape is to keep.
static kiln_status give(struct auto_walk *w, const struct auto_step *s, kiln_tensor *const *in, struct attr *attrs,
                        kiln_tensor **out)
{
    for (int i = 0; i < s->n_out; i++)
        TRY(s->mode == STEP_VIEW ? view_output(s, in[0], &out[i])
                                 : fresh_output(w, s->op, &s->out[i], s->n_values + i, &out[i]));
    if (tensor_wants_tape(s->n_in, in)) {
        const struct type *types[AUTO_OPERANDS];
        struct op_call c = {.op = s->op, .n_in = s->n_in, .n_out = s->n_out, .in = types, .attrs = attrs};
        for (int i = 0; i < s->n_in; i++) types[i] = in[i] ? &in[i]->type : NULL;
        for (int i = 0; i < s->n_out; i++) c.out[i] = s->out[i];
        TRY(tensor_tape.record(&c, in, out));
        // The gradient's steps are new where this one is, and get their places from it.
        if (w->added == s && out[0]->node && !node_is_cut(out[0]->node)) out[0]->node->where = s->caller;
        if (w->results && out[0]->node && !node_is_cut(out[0]->node)) auto_tag(w, s, out[0]->node);
    }
    return s->mode == STEP_VIEW ? tensor_tape.viewed(in[0], out[0]) : KILN_OK;
}

static void drop(int n, kiln_tensor **out)
{
    for (int i = 0; i < n; i++) {
        if (out[i]) tensor_destroy(out[i]);
        out[i] = NULL;
    }
}

// Loops

static bool repeats(const struct auto_step *last, int period, int times)
{
    const struct auto_step *a = last, *b = last;
    for (int i = 0; i < period; i++) b = b->op ? b->parent : b;
    for (int i = 0; i < period * (times - 1); i++, a = a->parent, b = b->parent)
        if (!b->op || a->op != b->op || a->n_in != b->n_in) return false;
    return true;
}

static int find_period(const struct auto_step *last, int times)
{
    for (int p = 1; p <= PERIOD_MAX && p * times <= last->depth; p++)
        if (repeats(last, p, times)) return p;
    return 0;
}

// So many copies: all that there is so far, or what was recorded last, which is looked for now and then.
static int find_copies(const struct auto_step *s, int times)
{
    int period = s->depth / times;
    bool whole = s->depth >= 8 && s->depth % times == 0 && period <= PERIOD_MAX;
    if (whole && repeats(s, period, times)) return period;
    return s->depth % 16 == 0 ? find_period(s, times) : 0;
}

// A segment ends when it is too long; where it repeats itself it ends between two repetitions, so that the next one is
// the same path again.
static bool is_long(struct auto_walk *w, const struct auto_step *s)
{
    const kiln_function *f = w->trie->f;
    uint64_t most = f ? function_max_nodes(f) : STEPS_OF_SEGMENT;
    if (f && f->o.fullgraph) return (uint64_t)s->depth > most;
    int times = f ? (int)f->o.loop_unrolling : 0;
    if (times > 1 && !w->period) w->period = find_copies(s, times);
    if (times > 1 && w->period) return s->depth % (w->period * times) == 0;
    int limit = most < STEPS_OF_SEGMENT ? (int)most : STEPS_OF_SEGMENT;
    if (w->period && w->period <= limit) limit -= limit % w->period;
    if (s->depth < limit) return false;
    if (!w->period) w->period = find_period(s, 3);
    return true;
}

static kiln_status end_if_long(struct auto_walk *w, struct auto_step *s, bool added)
{
    if (added && is_long(w, s)) s->cut = true;
    if (KILN_UNLIKELY(s->cut && w->trie->f && w->trie->f->o.fullgraph))
        return recorder_refuse_size(w->trie->f->name, function_max_nodes(w->trie->f));
    return s->cut ? segment_break(w->seg, NULL, "size limit") : KILN_OK;
}

// Known ops

// Random ops, and those that draw the numbers of another one again.
static bool takes_numbers(const struct op *op)
{
    return op->flags & OP_RANDOM || (op->n_attrs >= 2 && op_attr_index(op, "seed") >= 0);
}

static bool index_fits(const struct auto_walk *w, const struct op *op, int n_in, kiln_tensor *const *in,
                       struct attr *attrs)
{
    const struct type *types[AUTO_OPERANDS];
    const struct op_call c = {.op = op, .n_in = n_in, .n_out = op->n_out, .in = types, .attrs = attrs};
    for (int i = 0; i < n_in; i++) types[i] = in[i] ? &in[i]->type : NULL;
    return auto_index_known_to_fit(w, &c, w->seg->dev, in);
}

static bool can_match(const struct auto_walk *w, const struct op *op, int n_in, kiln_tensor *const *in,
                      struct attr *attrs, kiln_device **dev)
{
    if (op->flags & OP_EFFECT || takes_numbers(op) || n_in >= AUTO_OPERANDS || n_in < op->min_in) return false;
    for (int i = 0; i < n_in; i++) {
        const kiln_tensor *t = in[i];
        if (!t && i >= op->min_in) continue;
        if (!t || t->magic != TENSOR_ALIVE || t->builder) return false;
        if (!t->storage) continue;
        if (*dev && t->storage->dev != *dev) return false;
        *dev = t->storage->dev;
    }
    if (op->flags & OP_VIEW && (!in[0]->storage || !in[0]->storage->lazy || in[0]->storage->lazy->seg != w->seg))
        return false;
    return *dev == w->seg->dev && (!op_checks_index(op) || index_fits(w, op, n_in, in, attrs));
}

static bool match_locked(struct auto_walk *w, const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs,
                         kiln_tensor **out, kiln_status *status)
{
    struct ref refs[AUTO_OPERANDS];
    struct auto_step_key k = {.op = op, .asked = attrs, .n_in = n_in, .in = refs};
    bool again;
    *status = auto_force_foreign(w, n_in, in, &again);
    if (!*status && again && w->seg->ended) return false;
    if (!*status) *status = auto_resolve(w, op, n_in, in, refs);
    if (*status) return *status != AUTO_LOST;
    if (op->flags & OP_VIEW) k.base = &in[0]->layout;
    struct auto_step *s = auto_step_find(w->seg, &k);
    if (!s) {
        segment_forget_inputs(w->seg, w->seg->kept);
        return false;
    }
    *status = auto_step_take(w, s, refs);
    if (!*status) *status = give(w, s, in, s->attrs, out);
    if (*status) drop(s->n_out, out);
    if (!*status && KILN_UNLIKELY(s->cut)) *status = end_if_long(w, s, false);
    return true;
}

static bool match(struct sink *sink, const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in,
                  struct attr *attrs, kiln_tensor **out, kiln_status *status)
{
    struct auto_walk *w = auto_walk_of(sink);
    bool done = false;
    auto_lock();
    if (w->seg && !w->seg->ended && !auto_gave_up(w) && !thread_state.no_capture) {
        kiln_device *of = n_in ? NULL : dev ? dev : device_default();
        if (can_match(w, op, n_in, in, attrs, &of)) done = match_locked(w, op, n_in, in, attrs, out, status);
    }
    auto_unlock();
    if (done) return true;
    w->asked_op = op;
    if (op->n_attrs) memcpy(w->asked, attrs, op->n_attrs * sizeof *attrs);
    return false;
}

// Others

// Random ops have their numbers already: they are counted from the segment's first.
static kiln_status place_numbers(struct auto_walk *w, const struct op_call *c, struct attr *attrs)
{
    int seed = op_attr_index(c->op, "seed"), offset = op_attr_index(c->op, "offset");
    uint64_t first = (uint64_t)attrs[offset].i, of = (uint64_t)attrs[seed].i;
    if (w->seg->random && w->seg->seed != of) {
        if (!(c->op->flags & OP_RANDOM)) return KILN_OK;
        kiln_device *dev = w->seg->dev;
        TRY(segment_break(w->seg, NULL, "another random seed"));
        TRY(segment_open(w, dev));
    }
    if (!w->seg->random) {
        w->seg->random = true;
        w->seg->seed = of;
        w->seg->offset = first;
    }
    attrs[seed].i = RNG_OF_RUN;
    attrs[offset].i = (int64_t)(first - w->seg->offset);
    return KILN_OK;
}

static bool has_mutable(int n_in, kiln_tensor *const *in)
{
    for (int i = 0; i < n_in; i++)
        if (in[i] && in[i]->run_time) return true;
    return false;
}

static kiln_status record_step(struct auto_walk *w, struct op_call *c, kiln_tensor *const *in,
                               const struct layout *view, kiln_tensor **out)
{
    struct ref refs[AUTO_OPERANDS];
    struct attr attrs[OP_MAX_ATTRS], *mine = c->attrs;
    if (c->op->n_attrs) memcpy(attrs, c->attrs, c->op->n_attrs * sizeof *attrs);
    if (takes_numbers(c->op)) {
        kiln_device *dev = w->seg->dev;
        TRY(place_numbers(w, c, attrs));
        TRY(auto_ready(w, dev, c->n_in, in)); // it may have opened another one, which nobody else knows yet
    }
    TRY(auto_resolve(w, c->op, c->n_in, in, refs));
    bool based = c->op->flags & OP_VIEW && in[0]->storage->lazy;
    struct auto_step_key k = {.op = c->op,
                              .asked = w->asked_op == c->op && !takes_numbers(c->op) ? w->asked : attrs,
                              .n_in = c->n_in,
                              .in = refs,
                              .base = based ? &in[0]->layout : NULL,
                              .mode = view ? STEP_VIEW : STEP_FRESH};
    struct auto_step *s = auto_step_find(w->seg, &k);
    bool added = !s;
    if (!s && w->trie->closed) return AUTO_LOST;
    c->attrs = attrs;
    if (!s) k.run_time = has_mutable(c->n_in, in);
    if (!s) s = auto_step_add(w, &k, c, view);
    c->attrs = mine;
    if (!s) return error_pending;
    TRY(auto_step_take(w, s, refs));
    TRY(give(w, s, in, mine, out));
    return end_if_long(w, s, added);
}

static kiln_status record(struct auto_walk *w, struct op_call *c, kiln_device *dev, kiln_tensor *const *in,
                          kiln_tensor **out)
{
    struct layout view;
    bool copy = true, fits = true;
    if (op_checks_index(c->op)) TRY(auto_index_check(w, c, dev, in, &fits));
    if (!fits) return eager_at_once(c, dev, in, out); // it fails as it does eagerly
    TRY(segment_open(w, dev));
    if (c->op == &op_instances[OP_full] && auto_fill_changes(w, c->attrs)) {
        struct ref value;
        TRY(auto_emit_fill(w, c->attrs, &value));
        return fresh_output(w, c->op, &c->out[0], value.index, &out[0]);
    }
    if (c->op->flags & OP_VIEW) {
        struct storage *st = in[0]->storage;
        copy = false;
        TRY(c->op->fn->view(c, &in[0]->layout, &view, &copy));
        if (!copy && (!st->lazy || st->lazy->seg != w->seg))
            return eager_at_once(c, dev, in, out); // no memory is touched
        if (!copy) TRY(eager_check_reach(c, st, &view));
    }
    if (copy) TRY(auto_ready(w, dev, c->n_in, in));
    kiln_status status = record_step(w, c, in, copy ? NULL : &view, out);
    if (status) segment_forget_inputs(w->seg, w->seg->kept);
    return status;
}

static kiln_status apply(struct sink *sink, struct op_call *c, kiln_device *dev, kiln_tensor *const *in,
                         kiln_tensor **out)
{
    struct auto_walk *w = auto_walk_of(sink);
    if (auto_gave_up(w)) return eager_at_once(c, dev, in, out);
    if (!auto_can_record(w, c, dev, in)) {
        if (w->trie->f) function_count_ops(w->trie->f, false, 0, 1);
        return eager_at_once(c, dev, in, out);
    }
    auto_lock();
    kiln_status status = record(w, c, dev, in, out);
    bool lost = status == AUTO_LOST;
    if (lost) status = auto_lose_op(w);
    auto_unlock();
    if (lost && !status) return eager_at_once(c, dev, in, out);
    if (status) {
        error_name_op(c->op->name);
        drop(c->n_out, out);
    }
    return status;
}

struct sink auto_sink = {.apply = apply, .match = match, .write = auto_write, .has_memory = true};
