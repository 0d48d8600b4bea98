// The front door. One check of every op: handles, device, attributes; the op's own infer gives types; the thread's sink
// does the rest.
#include "ir/overlap.h"
#include "ops/families.h"
#include "tensor/apply.h"
#include "tensor/draw.h"
#include "tensor/tensor.h"
#include "tensor/unsigned.h"
#include "tensor/watch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attr attr_of_ints(size_t n, const int64_t *v)
{
    struct attr a;
    a.kind = ATTR_INTS;
    a.set = true;
    a.count = n > MAX_RANK ? MAX_RANK + 1 : (uint8_t)n;
    for (size_t i = 0; v && n <= MAX_RANK && i < n; i++) a.v[i] = v[i];
    if (n && !v) a.count = MAX_RANK + 2;
    return a;
}

static kiln_status check_attrs(const struct op *op, const struct attr *attrs)
{
    for (int i = 0; i < op->n_attrs; i++) {
        if (attrs[i].kind != ATTR_INTS || attrs[i].count <= MAX_RANK) continue;
        if (attrs[i].count == MAX_RANK + 2)
            return error_set(KILN_E_ARGUMENT,
                             "%s: %s is NULL, with a count above 0; write KILN_AXES(0, 1) or KILN_ARGS(...)", op->name,
                             op->attrs[i].name);
        return error_set(KILN_E_SHAPE, "%s: %s has more than %d entries", op->name, op->attrs[i].name, MAX_RANK);
    }
    return KILN_OK;
}

struct input_name {
    char s[64];
};

static struct input_name input_name(const struct op *op, int i)
{
    struct input_name name;
    if (op->flags & OP_VARIADIC)
        snprintf(name.s, sizeof name.s, "%s[%d]", op->in_names[0], i);
    else
        snprintf(name.s, sizeof name.s, "%s", op->in_names[i]);
    return name;
}

// Outside of captures, an abstract value is one that was kept longer than its capture.
static kiln_status outlived(const struct op *op, int n_in, kiln_tensor *const *in)
{
    int i = 0;
    while (i + 1 < n_in && !(in[i] && in[i]->builder)) i++;
    return error_set(KILN_E_STATE,
                     "%s: %s was made in a capture that has ended; let the captured function return it as an output",
                     op->name, input_name(op, i).s);
}

// The one device of all inputs that have one; abstract values have none.
static kiln_status find_device(const struct op *op, int n_in, kiln_tensor *const *in, kiln_device **dev)
{
    const struct storage *first = NULL;
    int first_i = 0;
    bool abstract = false;
    if (KILN_UNLIKELY(*dev)) TRY(device_check(op->name, *dev));
    for (int i = 0; i < n_in; i++) {
        if (!in[i]) continue;
        abstract |= in[i]->builder != NULL;
        const struct storage *s = in[i]->storage;
        if (!s) continue;
        if (!first) {
            first = s;
            first_i = i;
        } else if (s->dev != first->dev)
            return error_set(KILN_E_DEVICE_MISMATCH, "%s: %s is on %s, %s is on %s; copy one with kiln_to_device",
                             op->name, input_name(op, first_i).s, first->dev->name, input_name(op, i).s, s->dev->name);
    }
    if (KILN_UNLIKELY(abstract && tensor_outlives_captures())) return outlived(op, n_in, in);
    if (first)
        *dev = first->dev;
    else if (!*dev && thread_state.capture && thread_state.sink)
        *dev = thread_state.sink->capture->device(thread_state.sink);
    else if (!*dev && !abstract) {
        *dev = device_default();
        if (!*dev) return error_pending;
    }
    return KILN_OK;
}

static kiln_status check_inputs(const struct op *op, int n_in, kiln_tensor *const *in)
{
    if (n_in < op->min_in || n_in > op->max_in)
        return error_set(KILN_E_ARGUMENT, "%s: takes %d to %d tensors, %d are given", op->name, op->min_in, op->max_in,
                         n_in);
    if (n_in && !in) return error_set(KILN_E_ARGUMENT, "%s: the list of tensors is NULL", op->name);
    for (int i = 0; i < n_in; i++) {
        bool needed = in[i] || i < op->min_in || (op->flags & OP_VARIADIC);
        if (needed && KILN_UNLIKELY(!tensor_is_plain(in[i]))) TRY(tensor_check(op->name, input_name(op, i).s, in[i]));
    }
    return KILN_OK;
}

static bool has_weak(int n_in, kiln_tensor *const *in)
{
    for (int i = 0; i < n_in; i++)
        if (tensor_is_handle(in[i]) && in[i]->type.weak) return true;
    return false;
}

struct prepared {
    struct op_call call;
    const struct type *types[16];
    const struct type **type_list;
    kiln_device *dev;
};

static kiln_status prepare(struct prepared *p, const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in,
                           struct attr *attrs)
{
    p->type_list = p->types;
    p->dev = dev;
    TRY(check_inputs(op, n_in, in));
    if (op->n_attrs) TRY(check_attrs(op, attrs));
    TRY(find_device(op, n_in, in, &p->dev));
    if (n_in > 16) {
        p->type_list = malloc(sizeof *p->type_list * (size_t)n_in);
        if (!p->type_list) return error_set(KILN_E_MEMORY, "%s: out of memory", op->name);
    }
    for (int i = 0; i < n_in; i++) p->type_list[i] = in[i] ? &in[i]->type : NULL;
    struct op_call *c = &p->call;
    c->op = op;
    c->n_in = n_in;
    c->n_out = op->n_out;
    c->in = p->type_list;
    c->attrs = attrs;
    c->vin = c->vout = NULL;
    kiln_status status = op_infer(c);
    if (KILN_UNLIKELY(watched_kinds() & WATCH_PROMOTE) && !status) watch_promotion(c);
    if (status && p->type_list != p->types) free(p->type_list);
    return status;
}

// A random op takes its piece of the device's stream when it is checked, in program order: one counter (four 32-bit
// words) for two elements, the most that an element needs.
static void reserve_numbers(const struct op_call *c, kiln_device *dev)
{
    uint64_t counters = ((uint64_t)type_numel(&c->out[0]) + 1) / 2;
    int seed = op_attr_index(c->op, "seed"), offset = op_attr_index(c->op, "offset");
    struct rng at = draw_take(dev, counters);
    c->attrs[seed].i = (int64_t)at.seed;
    c->attrs[offset].i = (int64_t)at.offset;
}

static kiln_status apply_checked(const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in,
                                 struct attr *attrs, kiln_tensor **out)
{
    struct prepared p;
    kiln_status taken;
    struct sink *matches = thread_state.sink;
    if (KILN_UNLIKELY(matches && matches->match) && matches->match(matches, op, dev, n_in, in, attrs, out, &taken))
        return taken;
    TRY(prepare(&p, op, dev, n_in, in, attrs));
    if (KILN_UNLIKELY(op->flags & OP_RANDOM) && p.dev && !thread_state.capture && !thread_state.numbers_given)
        reserve_numbers(&p.call, p.dev);
    struct sink *sink = thread_state.sink ? thread_state.sink : &eager_sink;
    kiln_status status = sink->apply(sink, &p.call, p.dev, in, out);
    if (p.type_list != p.types) free(p.type_list);
    return status;
}

// Ops that are not elementwise see weak scalars as tensors. In a graph that is a node of its own: a number there may be
// one that is known at run time only, and may have a gradient.
static kiln_tensor *number_node(kiln_tensor *t)
{
    struct attr attrs[] = {attr_of_dtype(t->type.dtype == KILN_F64 ? KILN_F32 : (kiln_dtype)t->type.dtype)};
    kiln_tensor *out = NULL;
    apply_checked(&op_instances[OP_cast], NULL, 1, &t, attrs, &out);
    return out;
}

static kiln_status place_scalars(const struct op *op, kiln_device *dev, int n_in, kiln_tensor **in)
{
    for (int i = 0; i < n_in; i++) {
        if (!in[i] || !in[i]->type.weak || in[i]->storage) continue;
        in[i] = thread_state.sink || in[i]->builder ? number_node(in[i]) : tensor_place(in[i], dev);
        if (!in[i]) return error_pending;
    }
    (void)op;
    return KILN_OK;
}

// The same with weak scalars placed in a scope of their own.
static kiln_status apply_placed(const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in,
                                struct attr *attrs, kiln_tensor **out)
{
    kiln_tensor *few[16], **placed = n_in > 16 ? malloc(sizeof *placed * (size_t)n_in) : few;
    if (!placed) return error_set(KILN_E_MEMORY, "%s: out of memory", op->name);
    struct kiln_scope scope;
    scope_enter(&scope);
    memcpy(placed, in, sizeof *placed * (size_t)n_in);
    kiln_status status = check_inputs(op, n_in, in);
    if (!status) status = find_device(op, n_in, in, &dev);
    if (!status) status = place_scalars(op, dev, n_in, placed);
    if (!status) status = apply_checked(op, dev, n_in, placed, attrs, out);
    scope_leave(&scope, out, status ? 0 : op->n_out);
    if (placed != few) free(placed);
    return status;
}

tensor_apply_fn *tensor_apply_complex, *tensor_apply_stored;
kiln_status (*tensor_write_stored)(const struct op *op, int n_in, kiln_tensor *const *in);

// Who takes the op where an operand is shown as something else than it is, or the result is to be. NULL: it is as
// usual.
static tensor_apply_fn *find_shown(const struct op *op, int n_in, kiln_tensor *const *in, const struct attr *attrs)
{
    unsigned shown = SHOWN_PLAIN; // the last of all
    for (int i = 0; in && i < n_in && n_in <= 255; i++)
        if (tensor_is_alive(in[i]) && in[i]->shown > shown) shown = in[i]->shown;
    for (int i = 0; attrs && i < op->n_attrs; i++)
        if (attrs[i].kind == ATTR_DTYPE && shown_of_dtype(attrs[i].i) > shown) shown = shown_of_dtype(attrs[i].i);
    if (KILN_LIKELY(shown == SHOWN_PLAIN)) return NULL;
    return shown == SHOWN_COMPLEX ? tensor_apply_complex : tensor_apply_stored;
}

// An op whose bits differ where 64-bit integers have no sign, which kernels do not know.
static bool minds_sign(const struct op *op, int n_in, kiln_tensor *const *in)
{
    if (op->flags & (OP_SIGNLESS | OP_VIEW)) return false;
    for (int i = 0; in && i < n_in && n_in <= op->max_in; i++)
        if (tensor_is_alive(in[i]) && in[i]->type.dtype == KILN_U64) return true;
    return false;
}

kiln_status op_apply(const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in, struct attr *attrs,
                     kiln_tensor **out)
{
    for (int i = 0; i < op->n_out; i++) out[i] = NULL;
    if (KILN_UNLIKELY(error_pending)) return error_pending;
    tensor_apply_fn *other = find_shown(op, n_in, in, attrs);
    if (KILN_UNLIKELY(other)) return other(op, dev, n_in, in, attrs, out);
    if (KILN_UNLIKELY(minds_sign(op, n_in, in)) && unsigned_apply(op, n_in, in, attrs, out)) return error_pending;
    if (KILN_LIKELY((op->flags & OP_ELEMENTWISE) || !in || n_in > 255 || !has_weak(n_in, in)))
        return apply_checked(op, dev, n_in, in, attrs, out);
    return apply_placed(op, dev, n_in, in, attrs, out);
}

kiln_tensor *op_apply1(const struct op *op, kiln_device *dev, int n_in, kiln_tensor *const *in, struct attr *attrs)
{
    kiln_tensor *out[OP_MAX_OUT];
    op_apply(op, dev, n_in, in, attrs, out);
    return out[0];
}

static char *strides_text(const struct type *t, const struct layout *l, char *buf, size_t cap)
{
    size_t n = 0;
    for (int i = 0; i < t->rank && n < cap; i++)
        n += (size_t)snprintf(buf + n, cap - n, "%s%lld", i ? ", " : "(", (long long)l->strides[i]);
    if (n < cap) snprintf(buf + n, cap - n, ")");
    return buf;
}

kiln_status tensor_check_target(const struct op *op, const struct type *result, const kiln_tensor *t)
{
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    if (!t->storage && !tensor_capture(t))
        return error_set(KILN_E_ARGUMENT, "%s_: %s cannot be written", op->name,
                         t->builder ? "an abstract value" : "a weak scalar");
    if (!type_same_shape(result, &t->type))
        return error_set(KILN_E_SHAPE, "%s_: the result is %s, %s is %s", op->name, type_text(result, a, sizeof a),
                         op->in_names[0], type_text(&t->type, b, sizeof b));
    if (dtype_kind_of[result->dtype] > dtype_kind_of[t->type.dtype])
        return error_set(KILN_E_DTYPE, "%s_: a result of %s does not go into %s", op->name, dtype_name(result->dtype),
                         dtype_name(t->type.dtype));
    if (!layout_is_contiguous(&t->type, &t->layout) && layout_overlaps(&t->type, &t->layout))
        return error_set(KILN_E_ARGUMENT, "%s_: elements of %s share memory: %s with strides %s; write to a copy of it",
                         op->name, op->in_names[0], type_text(&t->type, a, sizeof a),
                         strides_text(&t->type, &t->layout, b, sizeof b));
    return KILN_OK;
}

// At once, or as a part of what is being recorded.
static kiln_status write_values(struct prepared *p, kiln_tensor *const *in)
{
    kiln_tensor *t = in[0], *safe[OP_MAX_OUT + 4] = {t};
    struct sink *sink = thread_state.sink;
    bool taken = false;
    if (sink && sink->write) TRY(sink->write(sink, &p->call, p->dev, in, &taken));
    if (taken) return KILN_OK;
    thread_state.no_grad++;
    thread_state.sink = NULL;
    for (int i = 1; i < p->call.n_in; i++) safe[i] = write_safe_operand(t, in[i]);
    thread_state.sink = sink;
    thread_state.no_grad--;
    if (error_pending) return error_pending;
    return eager_lower(&p->call, p->dev, safe, &t);
}

static kiln_status write_in_place(const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs)
{
    struct prepared p;
    kiln_tensor *t = in[0], *saved[OP_MAX_OUT + 4] = {NULL};
    TRY(prepare(&p, op, NULL, n_in, in, attrs));
    TRY(tensor_check_target(op, &p.call.out[0], t));
    bool grad = tensor_tape.before_write && tensor_wants_tape(n_in, in);
    if (grad) TRY(tensor_tape.before_write(&p.call, in, saved));
    TRY(write_values(&p, in));
    t->storage->version++;
    t->storage->writer = op->name;
    return grad ? tensor_tape.after_write(&p.call, in, saved) : KILN_OK;
}

// A complex tensor is written as what the op gives, pair by pair.
static kiln_status write_complex(const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs)
{
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_tensor *value = op == &op_instances[OP_assign] ? in[1] : op_apply1(op, NULL, n_in, in, attrs);
    if (value && in[0] && in[0]->shown != SHOWN_COMPLEX)
        error_set(KILN_E_DTYPE, "%s_: complex numbers do not go into %s", op->name, dtype_name(in[0]->type.dtype));
    kiln_tensor *zero[] = {in[0]}, *whole = value;
    if (value && value->shown != SHOWN_COMPLEX && !error_pending) {
        zero[0] = op_apply1(&op_instances[OP_zeros_like], NULL, 1, zero, NULL);
        whole = op_apply1(&op_instances[OP_add], NULL, 2, (kiln_tensor *[]){zero[0], value}, NULL);
    }
    kiln_tensor *to[] = {error_pending ? NULL : tensor_as_pairs(in[0]), error_pending ? NULL : tensor_as_pairs(whole)};
    if (!error_pending) op_apply_inplace(&op_instances[OP_assign], 2, to, NULL);
    scope_leave(&scope, NULL, 0);
    return error_pending;
}

kiln_status op_apply_inplace(const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs)
{
    if (error_pending) return error_pending;
    tensor_apply_fn *other = find_shown(op, n_in, in, attrs);
    if (KILN_UNLIKELY(other))
        return other == tensor_apply_stored ? tensor_write_stored(op, n_in, in) : write_complex(op, n_in, in, attrs);
    struct kiln_scope scope;
    struct sink *sink = thread_state.sink;
    scope_enter(&scope);
    kiln_status status = check_inputs(op, n_in, in);
    kiln_tensor *value[OP_MAX_OUT], *both[2] = {status ? NULL : in[0]};
    bool made = !status && KILN_UNLIKELY(minds_sign(op, n_in, in)) && unsigned_apply(op, n_in, in, attrs, value);
    if (made) {
        status = error_pending;
        op = &op_instances[OP_assign], n_in = 2, in = both, both[1] = value[0];
    }
    if (!status)
        status = sink && sink->capture ? sink->capture->write(sink, op, n_in, in, attrs)
                                       : write_in_place(op, n_in, in, attrs);
    scope_leave(&scope, NULL, 0);
    return status;
}
