// Recording: from ops to steps of a segment and handles on pending storages.
//
// Each operand is resolved to what it is within the segment: a value that a step made, an input, or a number. A storage
// that another segment is to fill is computed first. A handle that shows its storage in a way that no step gave (a
// saved value, a view that was made before a write) is an as_strided of the storage's whole value. If the last step has
// a child for this op and these operands, the child tells the types of the results; else they are inferred and the
// child is made.
#include "jit/auto.h"
#include "ops/families.h"
#include <string.h>

enum { STEPS_OF_SEGMENT = 2048, PERIOD_MAX = 512 };

static struct walk *walk_of(struct sink *s)
{
    return (struct walk *)s;
}

// Handles remember their value, for as long as nothing is written.
void auto_remember(kiln_tensor *t, const struct lazy *l, const struct ref *value)
{
    t->capture = l->serial;
    t->seen = l->version;
    t->value = value->kind == REF_STEP ? value->index : ~value->index;
}

static bool remembers(const kiln_tensor *t, const struct lazy *l, struct ref *out)
{
    if (t->capture != l->serial || t->seen != l->version) return false;
    *out = (struct ref){.kind = t->value < 0 ? REF_INPUT : REF_STEP, .index = t->value < 0 ? ~t->value : t->value};
    return true;
}

bool auto_covers(const struct type *base, const kiln_tensor *t)
{
    return t->layout.offset == 0 && type_numel(base) == type_numel(&t->type) &&
           layout_is_contiguous(&t->type, &t->layout);
}

static bool same_layout(const struct shown *s, const kiln_tensor *t)
{
    if (s->layout.offset != t->layout.offset || !type_same_shape(&s->type, &t->type)) return false;
    for (int i = 0; i < t->type.rank; i++)
        if (t->type.dims[i] > 1 && s->layout.strides[i] != t->layout.strides[i]) return false;
    return true;
}

// Steps that no call of the user's stands for

static kiln_status infer_and_add(struct walk *w, const struct step_key *k, const struct type *const *types,
                                 struct step **out)
{
    struct attr attrs[OP_MAX_ATTRS];
    struct op_call c = {.op = k->op, .n_in = k->n_in, .n_out = k->op->n_out, .in = types, .attrs = attrs};
    if (k->op->n_attrs) memcpy(attrs, k->asked, k->op->n_attrs * sizeof *attrs);
    TRY(k->op->fn->infer(&c));
    *out = step_add(w, k, &c, NULL);
    return *out ? KILN_OK : error_pending;
}

kiln_status auto_emit_key(struct walk *w, const struct step_key *k, const struct type *const *types, struct ref *out)
{
    struct step *s = step_find(w->seg, k);
    if (!s) TRY(infer_and_add(w, k, types, &s));
    TRY(step_take(w, s, k->in)); // first: *out may be an operand
    *out = (struct ref){.kind = REF_STEP, .index = s->n_values};
    return KILN_OK;
}

kiln_status auto_emit(struct walk *w, const struct op *op, const struct attr *attrs, int n_in, struct ref *in,
                      const struct type *const *types, struct ref *out)
{
    const struct step_key k = {.op = op, .asked = attrs, .n_in = n_in, .in = in, .mode = STEP_INNER};
    return auto_emit_key(w, &k, types, out);
}

kiln_status auto_emit_shape(struct walk *w, const struct op *op, const struct type *to, const struct type *from,
                            struct ref *value)
{
    struct attr attrs[] = {attr_of_ints(to->rank, to->dims)};
    return auto_emit(w, op, attrs, 1, value, &from, value);
}

static kiln_status emit_part(struct walk *w, const struct lazy *l, const kiln_tensor *t, struct ref *out)
{
    const struct type *from = &l->base;
    struct attr attrs[] = {attr_of_ints(t->type.rank, t->type.dims), attr_of_ints(t->type.rank, t->layout.strides),
                           attr_of_int(t->layout.offset)};
    struct ref whole = l->value;
    if (!auto_covers(&l->base, t)) return auto_emit(w, &op_instances[OP_as_strided], attrs, 1, &whole, &from, out);
    *out = whole;
    return auto_emit_shape(w, &op_instances[OP_reshape], &t->type, from, out);
}

// Operands

static kiln_status resolve_lazy(struct walk *w, struct lazy *l, kiln_tensor *t, struct ref *out)
{
    if (remembers(t, l, out)) return KILN_OK;
    bool found = auto_covers(&l->base, t) && type_same_shape(&l->base, &t->type);
    if (found) *out = l->value;
    for (size_t i = 0; i < l->shown.n && !found; i++) {
        found = same_layout(&l->shown.v[i], t);
        if (found) *out = l->shown.v[i].value;
    }
    if (!found) {
        TRY(emit_part(w, l, t, out));
        TRY(lazy_show(l, &t->type, &t->layout, out));
    }
    auto_remember(t, l, out);
    return KILN_OK;
}

static kiln_status resolve(struct walk *w, kiln_tensor *t, struct ref *out)
{
    *out = (struct ref){REF_NONE, 0, -1, 0, 0};
    if (!t) return KILN_OK;
    if (!t->storage) {
        *out = (struct ref){REF_NUMBER, t->type.dtype, 0, t->number, t->integer};
        return KILN_OK;
    }
    struct lazy *l = t->storage->lazy;
    if (l && l->seg == w->seg) return resolve_lazy(w, l, t, out);
    if (l) TRY(storage_force(t->storage, "a value from before the break is used"));
    return segment_input(w->seg, t->storage, &t->type, &t->layout, out);
}

kiln_status auto_resolve(struct walk *w, const struct op *op, int n_in, kiln_tensor *const *in, struct ref *refs)
{
    for (int i = 0; i < n_in; i++) TRY(resolve(w, in[i], &refs[i]));
    struct lazy *l = n_in && in[0] && in[0]->storage ? in[0]->storage->lazy : NULL;
    if (l && op == &op_instances[OP_as_strided]) refs[0] = l->value; // it speaks of the memory
    return KILN_OK;
}

// Results

static kiln_status fresh_output(struct walk *w, const struct op *op, const struct type *type, int32_t index,
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

static kiln_status view_output(const struct step *s, kiln_tensor *base, kiln_tensor **out)
{
    struct ref value = {.kind = REF_STEP, .index = s->n_values};
    struct lazy *l = base->storage->lazy;
    *out = tensor_on(base->storage, &s->out[0], &s->view);
    if (!*out) return error_pending;
    TRY(lazy_show(l, &s->out[0], &s->view, &value));
    auto_remember(*out, l, &value);
    return KILN_OK;
}

static bool wants_tape(int n_in, kiln_tensor *const *in)
{
    for (int i = 0; i < n_in && !thread_state.no_grad; i++)
        if (in[i] && (in[i]->node || in[i]->family)) return true;
    return false;
}

// `attrs`: what the tape is to keep.
static kiln_status give(struct walk *w, const struct step *s, kiln_tensor *const *in, struct attr *attrs,
                        kiln_tensor **out)
{
    for (int i = 0; i < s->n_out; i++)
        TRY(s->mode == STEP_VIEW ? view_output(s, in[0], &out[i])
                                 : fresh_output(w, s->op, &s->out[i], s->n_values + i, &out[i]));
    if (wants_tape(s->n_in, in)) {
        const struct type *types[AUTO_OPERANDS];
        struct op_call c = {.op = s->op, .n_in = s->n_in, .n_out = s->n_out, .in = types, .attrs = attrs};
        for (int i = 0; i < s->n_in; i++) types[i] = in[i] ? &in[i]->type : NULL;
        for (int i = 0; i < s->n_out; i++) c.out[i] = s->out[i];
        TRY(tensor_tape.record(&c, in, out));
        if (w->results && out[0]->node) auto_tag(w, s, out[0]->node);
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

static bool repeats(const struct step *last, int period, int times)
{
    const struct step *a = last, *b = last;
    for (int i = 0; i < period; i++) b = b->op ? b->parent : b;
    for (int i = 0; i < period * (times - 1); i++, a = a->parent, b = b->parent)
        if (!b->op || a->op != b->op || a->n_in != b->n_in) return false;
    return true;
}

static int find_period(const struct step *last, int times)
{
    for (int p = 1; p <= PERIOD_MAX && p * times <= last->depth; p++)
        if (repeats(last, p, times)) return p;
    return 0;
}

// A segment ends when it is too long; where it repeats itself it ends between two repetitions, so that the next one is
// the same path again.
static bool is_long(struct walk *w, const struct step *s)
{
    int times = w->trie->f ? (int)w->trie->f->o.loop_unrolling : 0;
    if (times > 1 && !w->period && s->depth % 16 == 0) w->period = find_period(s, times);
    if (times > 1 && w->period) return s->depth % (w->period * times) == 0;
    int limit = w->period ? STEPS_OF_SEGMENT - STEPS_OF_SEGMENT % w->period : STEPS_OF_SEGMENT;
    if (s->depth < limit) return false;
    if (!w->period) w->period = find_period(s, 3);
    return true;
}

static kiln_status end_if_long(struct walk *w, struct step *s, bool added)
{
    if (added && is_long(w, s)) s->cut = true;
    return s->cut ? segment_break(w->seg, NULL, "size limit") : KILN_OK;
}

// Known ops

// Random ops, and those that draw the numbers of another one again.
static bool takes_numbers(const struct op *op)
{
    return op->flags & OP_RANDOM || (op->n_attrs >= 2 && op_attr_index(op, "seed") >= 0);
}

static bool can_match(const struct walk *w, const struct op *op, int n_in, kiln_tensor *const *in, kiln_device **dev)
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
    return *dev == w->seg->dev;
}

static bool match_locked(struct walk *w, const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs,
                         kiln_tensor **out, kiln_status *status)
{
    struct ref refs[AUTO_OPERANDS];
    struct step_key k = {.op = op, .asked = attrs, .n_in = n_in, .in = refs};
    *status = auto_resolve(w, op, n_in, in, refs);
    if (*status) return true;
    if (op->flags & OP_VIEW) k.base = &in[0]->layout;
    struct step *s = step_find(w->seg, &k);
    if (!s) {
        segment_forget_inputs(w->seg, w->seg->kept);
        return false;
    }
    *status = step_take(w, s, refs);
    if (!*status) *status = give(w, s, in, s->attrs, out);
    if (*status) drop(s->n_out, out);
    if (!*status && KILN_UNLIKELY(s->cut)) *status = end_if_long(w, s, false);
    return true;
}

static bool match(struct sink *sink, const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in,
                  struct attr *attrs, kiln_tensor **out, kiln_status *status)
{
    struct walk *w = walk_of(sink);
    bool done = false;
    auto_lock();
    if (w->seg && !w->seg->ended) {
        kiln_device *of = n_in ? NULL : dev ? dev : device_default();
        if (can_match(w, op, n_in, in, &of)) done = match_locked(w, op, n_in, in, attrs, out, status);
    }
    auto_unlock();
    if (done) return true;
    w->asked_op = op;
    if (op->n_attrs) memcpy(w->asked, attrs, op->n_attrs * sizeof *attrs);
    return false;
}

// Others

bool auto_can_record(const struct walk *w, const struct op_call *c, const kiln_device *dev, kiln_tensor *const *in)
{
    if (!dev || (w->only && w->only != dev) || c->op->flags & OP_EFFECT || c->n_in >= AUTO_OPERANDS) return false;
    for (int i = 0; i < c->n_in; i++)
        if (in[i] && in[i]->builder) return false;
    bool weak = c->n_in > 0;
    for (int i = 0; i < c->n_in; i++) weak &= !in[i] || in[i]->type.weak;
    return !weak;
}

static kiln_status run_at_once(struct op_call *c, kiln_device *dev, kiln_tensor *const *in, kiln_tensor **out)
{
    struct sink *sink = thread_state.sink;
    thread_state.sink = NULL;
    kiln_status status = eager_sink.apply(&eager_sink, c, dev, in, out);
    thread_state.sink = sink;
    return status;
}

// Random ops have their numbers already: they are counted from the segment's first.
static kiln_status place_numbers(struct walk *w, const struct op_call *c, struct attr *attrs)
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

static kiln_status record_step(struct walk *w, struct op_call *c, kiln_tensor *const *in, const struct layout *view,
                               kiln_tensor **out)
{
    struct ref refs[AUTO_OPERANDS];
    struct attr attrs[OP_MAX_ATTRS], *mine = c->attrs;
    if (c->op->n_attrs) memcpy(attrs, c->attrs, c->op->n_attrs * sizeof *attrs);
    if (takes_numbers(c->op)) TRY(place_numbers(w, c, attrs));
    TRY(auto_resolve(w, c->op, c->n_in, in, refs));
    bool based = c->op->flags & OP_VIEW && in[0]->storage->lazy;
    struct step_key k = {.op = c->op,
                         .asked = w->asked_op == c->op && !takes_numbers(c->op) ? w->asked : attrs,
                         .n_in = c->n_in,
                         .in = refs,
                         .base = based ? &in[0]->layout : NULL,
                         .mode = view ? STEP_VIEW : STEP_FRESH};
    struct step *s = step_find(w->seg, &k);
    bool added = !s;
    c->attrs = attrs;
    if (!s) s = step_add(w, &k, c, view);
    c->attrs = mine;
    if (!s) return error_pending;
    TRY(step_take(w, s, refs));
    TRY(give(w, s, in, mine, out));
    return end_if_long(w, s, added);
}

static kiln_status record(struct walk *w, struct op_call *c, kiln_device *dev, kiln_tensor *const *in,
                          kiln_tensor **out)
{
    struct layout view;
    bool copy = true;
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
            return run_at_once(c, dev, in, out); // no memory is touched
        if (!copy) TRY(eager_check_reach(c, st, &view));
    }
    kiln_status status = record_step(w, c, in, copy ? NULL : &view, out);
    if (status) segment_forget_inputs(w->seg, w->seg->kept);
    return status;
}

static kiln_status apply(struct sink *sink, struct op_call *c, kiln_device *dev, kiln_tensor *const *in,
                         kiln_tensor **out)
{
    struct walk *w = walk_of(sink);
    if (!auto_can_record(w, c, dev, in)) {
        if (w->trie->f) function_count_ops(w->trie->f, false, 0, 1);
        return run_at_once(c, dev, in, out);
    }
    auto_lock();
    kiln_status status = record(w, c, dev, in, out);
    auto_unlock();
    if (status) {
        error_name_op(c->op->name);
        drop(c->n_out, out);
    }
    return status;
}

struct sink auto_sink = {.apply = apply, .match = match, .write = auto_write};

struct walk *walk_current(void)
{
    return thread_state.sink && thread_state.sink->apply == apply ? walk_of(thread_state.sink) : NULL;
}
