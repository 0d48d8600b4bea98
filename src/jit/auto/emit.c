// What operands are within a segment, and steps that no call of the user's stands for.
//
// Each operand is resolved to a value that a step made, an input, or a number. A handle that shows its storage in a way
// that no step gave (a saved value, a view that was made before a write) is an as_strided of the storage's whole value.
#include "jit/auto/auto.h"
#include "ops/families.h"
#include <string.h>

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

static kiln_status infer_and_add(struct auto_walk *w, const struct auto_step_key *k, const struct type *const *types,
                                 struct auto_step **out)
{
    struct attr attrs[OP_MAX_ATTRS];
    struct op_call c = {.op = k->op, .n_in = k->n_in, .n_out = k->op->n_out, .in = types, .attrs = attrs};
    if (k->op->n_attrs) memcpy(attrs, k->asked, k->op->n_attrs * sizeof *attrs);
    TRY(op_infer(&c));
    *out = auto_step_add(w, k, &c, NULL);
    return *out ? KILN_OK : error_pending;
}

kiln_status auto_emit_key(struct auto_walk *w, const struct auto_step_key *k, const struct type *const *types,
                          struct ref *out)
{
    struct auto_step *s = auto_step_find(w->seg, k);
    if (!s && w->trie->closed) return AUTO_LOST;
    if (!s) TRY(infer_and_add(w, k, types, &s));
    TRY(auto_step_take(w, s, k->in)); // first: *out may be an operand
    *out = (struct ref){.kind = REF_STEP, .index = s->n_values};
    return KILN_OK;
}

kiln_status auto_emit(struct auto_walk *w, const struct op *op, const struct attr *attrs, int n_in, struct ref *in,
                      const struct type *const *types, struct ref *out)
{
    const struct auto_step_key k = {.op = op, .asked = attrs, .n_in = n_in, .in = in, .mode = STEP_INNER};
    return auto_emit_key(w, &k, types, out);
}

kiln_status auto_emit_shape(struct auto_walk *w, const struct op *op, const struct type *to, const struct type *from,
                            struct ref *value)
{
    struct attr attrs[] = {attr_of_ints(to->rank, to->dims)};
    return auto_emit(w, op, attrs, 1, value, &from, value);
}

static kiln_status emit_part(struct auto_walk *w, const struct lazy *l, const kiln_tensor *t, struct ref *out)
{
    const struct type *from = &l->base;
    struct attr attrs[] = {attr_of_ints(t->type.rank, t->type.dims), attr_of_ints(t->type.rank, t->layout.strides),
                           attr_of_int(t->layout.offset)};
    struct ref whole = l->value;
    if (!auto_covers(&l->base, t)) return auto_emit(w, &op_instances[OP_as_strided], attrs, 1, &whole, &from, out);
    *out = whole;
    return auto_emit_shape(w, &op_instances[OP_reshape], &t->type, from, out);
}

static kiln_status resolve_lazy(struct auto_walk *w, struct lazy *l, kiln_tensor *t, struct ref *out)
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

static kiln_status resolve(struct auto_walk *w, kiln_tensor *t, struct ref *out)
{
    *out = (struct ref){REF_NONE, 0, -1, 0, 0};
    if (!t) return KILN_OK;
    if (!t->storage) {
        *out = (struct ref){REF_NUMBER, t->type.dtype, 0, t->number, t->integer};
        return KILN_OK;
    }
    struct lazy *l = t->storage->lazy;
    if (l) return resolve_lazy(w, l, t, out);
    if (KILN_UNLIKELY(w->passed.n)) TRY(auto_learn_read(w, t->storage));
    return segment_input(w->seg, t->storage, &t->type, &t->layout, out);
}

kiln_status auto_resolve(struct auto_walk *w, const struct op *op, int n_in, kiln_tensor *const *in, struct ref *refs)
{
    for (int i = 0; i < n_in; i++) TRY(resolve(w, in[i], &refs[i]));
    struct lazy *l = n_in && in[0] && in[0]->storage ? in[0]->storage->lazy : NULL;
    if (l && op && op->flags & OP_STORAGE_VIEW) refs[0] = l->value; // it speaks of the memory
    return KILN_OK;
}

bool auto_can_record(const struct auto_walk *w, const struct op_call *c, const kiln_device *dev, kiln_tensor *const *in)
{
    if (!dev || (w->only && w->only != dev) || thread_state.no_capture || c->op->flags & OP_EFFECT ||
        c->n_in >= AUTO_OPERANDS)
        return false;
    for (int i = 0; i < c->n_in; i++)
        if (in[i] && in[i]->builder) return false;
    bool weak = c->n_in > 0;
    for (int i = 0; i < c->n_in; i++) weak &= !in[i] || in[i]->type.weak;
    return !weak;
}
