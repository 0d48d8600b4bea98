// Writes of a recorded scope.
//
// A write replaces the value of the whole storage: by the new value itself where that covers it, else by an
// as_strided_scatter. Views of before are forgotten and made anew when they are asked for. Memory that was there before
// the segment changes when the segment ends.
#include "jit/auto/auto.h"
#include "ops/families.h"
#include <string.h>

static kiln_status emit_cast(struct auto_walk *w, uint8_t dtype, const struct type *from, struct ref *value)
{
    struct attr attrs[] = {attr_of_dtype((kiln_dtype)dtype)};
    return auto_emit(w, &op_instances[OP_cast], attrs, 1, value, &from, value);
}

// The value that goes into t, of its type.
static kiln_status new_value(struct auto_walk *w, struct op_call *c, kiln_tensor *const *in, struct ref *out)
{
    struct ref refs[AUTO_OPERANDS];
    const struct type *to = &in[0]->type;
    struct type from = c->out[0];
    if (c->op != &op_instances[OP_assign]) {
        TRY(auto_resolve(w, c->op, c->n_in, in, refs));
        TRY(auto_emit(w, c->op, c->attrs, c->n_in, refs, c->in, out));
    } else if (!in[1]->storage) {
        struct attr attrs[] = {attr_of_dtype((kiln_dtype)to->dtype), attr_of_ints(to->rank, to->dims),
                               attr_of_float(in[1]->number)};
        return auto_emit_fill(w, attrs, out);
    } else {
        from = in[1]->type;
        TRY(auto_resolve(w, NULL, 1, &in[1], out));
        if (!type_same_shape(&from, to)) TRY(auto_emit_shape(w, &op_instances[OP_expand], to, &from, out));
        from.rank = to->rank;
        memcpy(from.dims, to->dims, sizeof from.dims);
    }
    return from.dtype == to->dtype ? KILN_OK : emit_cast(w, to->dtype, &from, out);
}

// What was there before the segment: from now on the segment knows its value. `value` is that of t.
static kiln_status make_known(struct auto_walk *w, kiln_tensor *t, const struct ref *value, struct lazy **out)
{
    struct storage *st = t->storage;
    struct type base = {.dtype = t->type.dtype, .rank = 1};
    const struct layout line = {0, {1}};
    struct ref before = {.kind = REF_INPUT};
    base.dims[0] = (int64_t)(st->block.size_B / dtype_size_B[base.dtype]);
    if (auto_covers(&base, t)) return lazy_new(w->seg, st, &t->type, value, true, out);
    TRY(segment_input(w->seg, st, &base, &line, &before));
    return lazy_new(w->seg, st, &base, &before, true, out);
}

static kiln_status replace_part(struct auto_walk *w, const struct lazy *l, const kiln_tensor *t,
                                const struct ref *value, struct ref *out)
{
    const struct type *types[] = {&l->base, &t->type};
    struct attr attrs[] = {attr_of_ints(t->type.rank, t->layout.strides), attr_of_int(t->layout.offset)};
    struct ref in[] = {l->value, *value};
    return auto_emit(w, &op_instances[OP_as_strided_scatter], attrs, 2, in, types, out);
}

static kiln_status record_write(struct auto_walk *w, struct op_call *c, kiln_device *dev, kiln_tensor *const *in)
{
    kiln_tensor *t = in[0];
    struct ref value;
    TRY(auto_ready(w, dev, c->n_in, in));
    struct lazy *l = t->storage->lazy;
    TRY(new_value(w, c, in, &value));
    bool known = l != NULL;
    if (!l) TRY(make_known(w, t, &value, &l));
    bool whole = auto_covers(&l->base, t);
    struct ref new_whole = whole ? value : l->value;
    kiln_status status = KILN_OK;
    if (!whole)
        status = replace_part(w, l, t, &value, &new_whole);
    else if (!type_same_shape(&t->type, &l->base))
        status = auto_emit_shape(w, &op_instances[OP_reshape], &l->base, &t->type, &new_whole);
    if (status && !known) lazy_free(l); // nothing is written
    TRY(status);
    l->value = new_whole;
    l->version++;
    l->shown.n = 0;
    if (!whole || l->value.index != value.index) TRY(lazy_show(l, &t->type, &t->layout, &value));
    auto_remember(t, l, &value);
    w->seg->kept = w->seg->inputs.n;
    return KILN_OK;
}

static bool is_exact(const kiln_tensor *t)
{
    return t->storage || t->type.dtype != KILN_I64 || (double)t->integer == t->number;
}

kiln_status auto_write(struct sink *sink, struct op_call *c, kiln_device *dev, kiln_tensor *const *in, bool *taken)
{
    struct auto_walk *w = (struct auto_walk *)sink;
    bool assigns = c->op == &op_instances[OP_assign];
    *taken = !auto_gave_up(w) && auto_can_record(w, c, dev, in) && in[0]->storage && !(c->op->flags & OP_RANDOM) &&
             (!assigns || is_exact(in[1])) && !in[0]->type.weak && type_numel(&in[0]->type) > 0;
    if (!*taken) return KILN_OK;
    auto_lock();
    kiln_status status = record_write(w, c, dev, in);
    if (status && w->seg && !w->seg->ended) segment_forget_inputs(w->seg, w->seg->kept);
    if (status == AUTO_LOST) {
        *taken = false;
        status = auto_lose_op(w);
    }
    auto_unlock();
    return status;
}
