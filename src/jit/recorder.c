// Ops of user code to nodes, while a function is captured.
//
// An op goes one of two ways. Where all its inputs are constants it is evaluated at once (LAX). Else its inputs are
// resolved, which is to find the value of the graph that each handle stands for: that of an abstract tensor as of now;
// of a parameter or of its gradient, an input of the graph that is made at its first use; of what the function made of
// host data or was told is a constant, a constant. Any other tensor is refused: its value would go stale.
#include "jit/recorder.h"
#include "base/caller.h"
#include "jit/replay.h"
#include "ops/families.h"
#include <stdlib.h>
#include <string.h>

#define FEW 16

static struct recorder *recorder_of(struct sink *s)
{
    return (struct recorder *)s;
}

kiln_status recorder_add_source(struct recorder *r, struct source *s, const struct type *type, const char *name,
                                int32_t *variable)
{
    s->value = ir_add_input(r->sink.builder.graph, type, name);
    kiln_tensor *t = variable_handle(r, type, s->value);
    if (!t) return error_pending;
    if (s->leaf) tape_set_node(t, s->leaf, 0);
    kiln_status status = variable_new(r, t, &s->layout, variable);
    tensor_destroy(t);
    if (status) return status;
    struct variable *v = &r->variables.v[*variable];
    v->source = (int32_t)r->sources.n;
    v->storage = storage_ref(s->storage);
    s->variable = *variable;
    s->row_major = layout_is_contiguous(&s->type, &s->layout);
    TRY(vec_push(&r->sources, *s));
    node_ref(s->leaf);
    if (s->kind == SOURCE_LEAF) storage_ref(s->storage);
    return KILN_OK;
}

kiln_tensor *recorder_host_number(struct recorder *r, double (*fn)(void *user), void *user)
{
    char name[32];
    int32_t variable;
    struct source s = {.kind = SOURCE_HOST, .number = fn, .user = user, .type = {.dtype = KILN_F64, .weak = true}};
    snprintf(name, sizeof name, "host%zu", r->sources.n);
    return recorder_add_source(r, &s, &s.type, name, &variable) ? NULL : variable_handle(r, &s.type, s.value);
}

// What t is, where it comes from outside.

static struct tape_node *leaf_of(kiln_tensor *t)
{
    struct tape_edge edge;
    if (tape_current(t, &edge) || !t->node || t->node->kind != NODE_LEAF) return NULL;
    return t->node;
}

// The known parameter whose gradient t is.
static struct tape_node *leaf_with_gradient(const struct recorder *r, const kiln_tensor *t)
{
    for (size_t i = 0; i < r->sources.n; i++) {
        struct tape_node *leaf = r->sources.v[i].leaf;
        const kiln_tensor *g = leaf ? leaf->leaf->gradient : NULL;
        if (g && g->storage == t->storage) return leaf;
    }
    return NULL;
}

static kiln_status outside(const struct recorder *r, const char *op, const kiln_tensor *t)
{
    char text[TYPE_TEXT_MAX];
    return error_set(KILN_E_STATE,
                     "%s: %s uses a tensor from outside, %s, made by %s: its value could change between calls; pass it "
                     "as an input, make it state with kiln_state, or wrap it in kiln_constant",
                     op, r->name, type_text(&t->type, text, sizeof text),
                     t->storage->writer ? t->storage->writer : "an op");
}

static kiln_status check_device(struct recorder *r, const char *op, kiln_device *dev)
{
    if (!dev || dev == r->dev) return KILN_OK;
    if (r->dev)
        return error_set(KILN_E_DEVICE_MISMATCH, "%s: %s runs on %s, a tensor is on %s", op, r->name, r->dev->name,
                         dev->name);
    r->dev = dev;
    return KILN_OK;
}

static kiln_status add_outside(struct recorder *r, const char *op, kiln_tensor *t, int32_t *variable)
{
    struct tape_node *leaf = leaf_of(t);
    char name[64];
    struct source s = {.kind = SOURCE_LEAF,
                       .leaf = leaf,
                       .grad = node_requires_grad(leaf),
                       .storage = t->storage,
                       .type = t->type,
                       .layout = t->layout};
    TRY(error_pending);
    TRY(check_device(r, op, t->storage->dev));
    if (leaf) {
        if (leaf->leaf->name)
            snprintf(name, sizeof name, "%s", leaf->leaf->name);
        else
            snprintf(name, sizeof name, "state%zu", r->sources.n);
        if (leaf->leaf->gradient && !leaf->leaf->gradient->builder) {
            s.gradient = tensor_second(leaf->leaf->gradient);
            if (!s.gradient) return error_pending;
            kiln_own(s.gradient);
        }
        kiln_status status = recorder_add_source(r, &s, &t->type, name, variable);
        if (status && s.gradient) tensor_destroy(s.gradient);
        return status;
    }
    s.leaf = leaf_with_gradient(r, t);
    if (!s.leaf) return outside(r, op, t);
    struct tape_node *of = s.leaf;
    s.kind = SOURCE_GRADIENT;
    s.leaf = NULL; // the gradient itself has no place on the tape
    snprintf(name, sizeof name, "d %s", of->leaf->name ? of->leaf->name : "state");
    TRY(recorder_add_source(r, &s, &t->type, name, variable));
    r->sources.v[r->sources.n - 1].leaf = node_ref(of);
    return KILN_OK;
}

static bool is_number(const kiln_tensor *t)
{
    return !t->storage && !t->builder;
}

// Whether the capture may keep the value that t has now.
static bool is_constant(const struct recorder *r, const kiln_tensor *t)
{
    if (is_number(t)) return true;
    if (t->builder || variable_find(r, t->storage)) return false;
    return t->constant || t->storage->capture == r->capture;
}

static kiln_tensor *copy_of(kiln_tensor *t)
{
    kiln_tensor *copy = tensor_empty(t->storage->dev, &t->type);
    if (!copy) return NULL;
    struct sink *sink = thread_state.sink;
    thread_state.sink = NULL;
    thread_state.no_grad++;
    kiln_tensor *const in[] = {copy, t};
    kiln_status status = op_apply_inplace(&op_instances[OP_assign], 2, in, NULL);
    thread_state.no_grad--;
    thread_state.sink = sink;
    if (!status) return copy;
    tensor_destroy(copy);
    return NULL;
}

// The tensor that the graph holds for a constant: of one from outside, a copy.
static kiln_status hold_constant(struct recorder *r, const char *op, kiln_tensor *t, kiln_tensor **out)
{
    for (size_t i = 0; i < r->constants.n; i++) {
        const struct constant *c = &r->constants.v[i];
        if (c->storage != t->storage || !type_equal(&c->tensor->type, &t->type) ||
            memcmp(&c->layout.offset, &t->layout.offset, sizeof c->layout.offset) ||
            memcmp(c->layout.strides, t->layout.strides, sizeof *c->layout.strides * t->type.rank))
            continue;
        *out = c->tensor;
        return KILN_OK;
    }
    TRY(check_device(r, op, t->storage->dev));
    bool inside = t->storage->capture == r->capture;
    kiln_tensor *held = inside ? tensor_on(t->storage, &t->type, &t->layout) : copy_of(t);
    if (!held) return error_pending;
    struct constant c = {kiln_own(held), t->storage, t->layout};
    if (vec_push(&r->constants, c)) {
        tensor_destroy(held);
        return error_pending;
    }
    storage_ref(t->storage);
    *out = held;
    return KILN_OK;
}

// An input that the function also reaches from outside is that input from now on.
static void pin(struct source *s)
{
    if (s->pinned || (s->kind != SOURCE_INPUT && s->kind != SOURCE_STORAGE)) return;
    s->pinned = true;
    storage_ref(s->storage);
}

kiln_status recorder_resolve(struct recorder *r, const char *op, kiln_tensor *t, kiln_tensor **out)
{
    *out = t;
    if (!t || is_number(t)) return KILN_OK;
    if (t->builder) {
        if (t->capture == r->capture) return variable_refresh(r, t);
        return error_set(KILN_E_STATE, "%s: an abstract value of a capture that has ended", op);
    }
    int32_t variable = variable_find(r, t->storage);
    int32_t source = variable ? r->variables.v[variable].source : -1;
    if (source >= 0) pin(&r->sources.v[source]);
    if (!variable && is_constant(r, t)) return KILN_OK;
    if (!variable) TRY(add_outside(r, op, t, &variable));
    TRY(variable_show(r, variable, &t->type, &t->layout, out));
    bool stopped = !t->node && r->variables.v[variable].source >= 0 &&
                   r->sources.v[r->variables.v[variable].source].kind == SOURCE_LEAF;
    if (stopped) tape_set_node(*out, NULL, 0); // by kiln_stop_gradient
    return KILN_OK;
}

kiln_status recorder_value(struct recorder *r, kiln_tensor *t, int32_t *value)
{
    struct kiln_graph *g = r->sink.builder.graph;
    kiln_tensor *held;
    *value = -1;
    if (!t) return KILN_OK;
    if (t->builder)
        *value = t->value;
    else if (!t->storage)
        *value = ir_add_number(g, &t->type, t->number, t->integer);
    else {
        TRY(hold_constant(r, "jit", t, &held));
        *value = ir_add_constant(g, &held->type, held);
    }
    return *value < 0 ? error_pending : KILN_OK;
}

// Ops

static bool can_evaluate(const struct recorder *r, const struct op_call *c, kiln_tensor *const *in)
{
    if (r->syntax == KILN_SYNTAX_STRICT || c->n_in == 0 || (c->op->flags & (OP_RANDOM | OP_EFFECT))) return false;
    bool tensors = false;
    for (int i = 0; i < c->n_in; i++) {
        if (in[i] && !is_constant(r, in[i])) return false;
        tensors |= in[i] && in[i]->storage;
    }
    return tensors;
}

static kiln_status evaluate(struct op_call *c, kiln_device *dev, kiln_tensor *const *in, kiln_tensor **out)
{
    struct sink *sink = thread_state.sink;
    thread_state.sink = NULL;
    kiln_status status = eager_sink.apply(&eager_sink, c, dev, in, out);
    thread_state.sink = sink;
    return status;
}

// The numbers of this op, counted from those that each run reserves.
static void take_numbers(struct recorder *r, struct op_call *c)
{
    c->attrs[op_attr_index(c->op, "seed")].i = RNG_OF_RUN;
    c->attrs[op_attr_index(c->op, "offset")].i = (int64_t)r->random_counters;
    r->random_counters += ((uint64_t)type_numel(&c->out[0]) + 1) / 2;
}

// In user code as_strided speaks of the memory, in the graph of the value of its operand: the variable's.
static kiln_status translate_as_strided(struct recorder *r, struct op_call *c, struct attr *attrs, kiln_tensor **in)
{
    kiln_tensor *t = in[0];
    if (c->op != &op_instances[OP_as_strided] || !t->builder || !t->variable) return KILN_OK;
    const struct variable *v = &r->variables.v[t->variable];
    if (!layout_is_contiguous(&v->current->type, &v->layout))
        return error_set(KILN_E_UNSUPPORTED, "as_strided: in a capture it takes tensors in row-major memory only");
    kiln_tensor *whole = variable_handle(r, &v->current->type, v->current->value);
    if (!whole) return error_pending;
    tape_set_node(whole, v->current->node, v->current->node_out);
    memcpy(attrs, c->attrs, sizeof *attrs * c->op->n_attrs);
    attrs[2].i = (attrs[2].set ? attrs[2].i : 0) - v->layout.offset;
    attrs[2].set = true;
    c->attrs = attrs;
    in[0] = whole;
    return KILN_OK;
}

// A view shows the memory of its operand.
static kiln_status show_same_memory(struct recorder *r, struct op_call *c, const struct attr *attrs, kiln_tensor *base,
                                    kiln_tensor *view)
{
    struct layout layout;
    bool copy = false;
    if (!base->builder) return KILN_OK;
    TRY(variable_own(r, base));
    struct op_call asked = *c;
    asked.attrs = (struct attr *)attrs;
    TRY(c->op->fn->view(&asked, &base->layout, &layout, &copy));
    if (copy) return KILN_OK;
    view->layout = layout;
    view->variable = base->variable;
    view->seen = base->seen;
    return KILN_OK;
}

static bool wants_tape(int n_in, kiln_tensor *const *in)
{
    for (int i = 0; i < n_in && !thread_state.no_grad; i++)
        if (in[i] && (in[i]->node || in[i]->family)) return true;
    return false;
}

static kiln_status add_node(struct recorder *r, struct op_call *c, kiln_tensor **in, int32_t *values, kiln_tensor **out)
{
    struct attr translated[OP_MAX_ATTRS];
    const struct attr *asked = c->attrs;
    kiln_tensor *base = c->n_in ? in[0] : NULL;
    if (c->op->flags & OP_RANDOM) take_numbers(r, c);
    if (c->op->flags & OP_VIEW) TRY(translate_as_strided(r, c, translated, in));
    for (int i = 0; i < c->n_in; i++) TRY(recorder_value(r, in[i], &values[i]));
    int32_t first = ir_add_node(r->sink.builder.graph, c, values, caller_find());
    if (first < 0) return error_pending;
    for (int i = 0; i < c->n_out; i++) {
        out[i] = variable_handle(r, &c->out[i], first + i);
        if (!out[i]) return error_pending;
    }
    if (c->op->flags & OP_VIEW) TRY(show_same_memory(r, c, asked, base, out[0]));
    return wants_tape(c->n_in, in) ? tensor_tape.record(c, in, out) : KILN_OK;
}

static kiln_status apply(struct sink *s, struct op_call *c, kiln_device *dev, kiln_tensor *const *in, kiln_tensor **out)
{
    struct recorder *r = recorder_of(s);
    if (can_evaluate(r, c, in)) return evaluate(c, dev, in, out);
    TRY(check_device(r, c->op->name, dev));
    kiln_tensor *few[FEW], **resolved = c->n_in > FEW ? malloc(sizeof *resolved * (size_t)c->n_in) : few;
    int32_t few_values[FEW], *values = c->n_in > FEW ? malloc(sizeof *values * (size_t)c->n_in) : few_values;
    kiln_status status = resolved && values ? KILN_OK : error_set(KILN_E_MEMORY, "%s: out of memory", c->op->name);
    struct kiln_scope scope;
    scope_enter(&scope);
    for (int i = 0; i < c->n_in && !status; i++) status = recorder_resolve(r, c->op->name, in[i], &resolved[i]);
    if (!status) status = add_node(r, c, resolved, values, out);
    scope_leave(&scope, out, status ? 0 : (size_t)c->n_out);
    if (resolved != few) free(resolved);
    if (values != few_values) free(values);
    for (int i = 0; i < c->n_out && status; i++) out[i] = NULL;
    return status;
}

// Writes

static bool in_graph(const struct recorder *r, const struct storage *s)
{
    for (size_t i = 0; i < r->constants.n; i++)
        if (r->constants.v[i].storage == s) return true;
    return false;
}

// The target as an abstract value with a variable. What the function made of host data becomes one at its first write.
static kiln_status resolve_target(struct recorder *r, const char *op, kiln_tensor *t, kiln_tensor **out)
{
    int32_t value, variable;
    if (is_number(t)) return error_set(KILN_E_ARGUMENT, "%s: a number cannot be written", op);
    TRY(recorder_resolve(r, op, t, out));
    if ((*out)->builder) return variable_own(r, *out);
    if (t->constant) return error_set(KILN_E_STATE, "%s: a constant of %s cannot be written", op, r->name);
    struct type line = {.dtype = t->type.dtype, .rank = 1};
    line.dims[0] = (int64_t)(t->storage->block.size_B / dtype_size_B[t->type.dtype]);
    const struct layout whole = {0, {1}};
    kiln_tensor *all = tensor_on(t->storage, &line, &whole);
    if (!all) return error_pending;
    TRY(recorder_value(r, all, &value));
    kiln_tensor *first = variable_handle(r, &line, value);
    if (!first) return error_pending;
    TRY(variable_new(r, first, &whole, &variable));
    r->variables.v[variable].storage = storage_ref(t->storage);
    return variable_show(r, variable, &t->type, &t->layout, out);
}

static kiln_status write_eagerly(const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs)
{
    struct sink *sink = thread_state.sink;
    thread_state.sink = NULL;
    kiln_status status = op_apply_inplace(op, n_in, in, attrs);
    thread_state.sink = sink;
    return status;
}

// The value that `assign` writes: src in the shape and dtype of dst.
static kiln_tensor *assigned(kiln_tensor *dst, kiln_tensor *src)
{
    const struct type *to = &dst->type;
    if (is_number(src)) {
        struct attr attrs[] = {attr_of_dtype((kiln_dtype)to->dtype), attr_of_ints(to->rank, to->dims),
                               attr_of_float(src->number)};
        return op_apply1(&op_instances[OP_full], NULL, 0, NULL, attrs);
    }
    if (type_same_shape(&src->type, to)) return src;
    struct attr attrs[] = {attr_of_ints(to->rank, to->dims)};
    return op_apply1(&op_instances[OP_expand], NULL, 1, &src, attrs);
}

static kiln_status check_write(const struct op *op, const struct type *result, int n_in, kiln_tensor *const *in)
{
    struct op_call c = {.op = op, .n_in = n_in, .n_out = 1};
    const struct type *types[FEW];
    if (n_in > FEW) return error_set(KILN_E_UNSUPPORTED, "%s_: takes too many tensors in a capture", op->name);
    for (int i = 0; i < n_in; i++) types[i] = in[i] ? &in[i]->type : NULL;
    c.in = types;
    c.out[0] = *result;
    TRY(tensor_check_target(op, result, in[0]));
    return thread_state.no_grad ? KILN_OK : tensor_tape.may_write(&c, in);
}

static kiln_status record_write(struct recorder *r, const struct op *op, int n_in, kiln_tensor *const *in,
                                struct attr *attrs)
{
    bool assigns = op == &op_instances[OP_assign];
    kiln_tensor *resolved[FEW], *value;
    if (n_in > FEW) return error_set(KILN_E_UNSUPPORTED, "%s_: takes too many tensors in a capture", op->name);
    memcpy(resolved, in, sizeof *in * (size_t)n_in);
    TRY(resolve_target(r, op->name, in[0], &resolved[0]));
    value = assigns ? in[1] : op_apply1(op, NULL, n_in, resolved, attrs);
    if (!value) return error_pending;
    if (assigns) { // its own check of shapes
        struct op_call c = {.op = op, .n_in = 2, .in = (const struct type *[]){&in[0]->type, &in[1]->type}};
        TRY(op->fn->infer(&c));
        value = assigned(resolved[0], in[1]);
        if (!value) return error_pending;
    }
    TRY(check_write(op, &value->type, n_in, resolved));
    if (value->type.dtype != in[0]->type.dtype) {
        struct attr to[] = {attr_of_dtype((kiln_dtype)in[0]->type.dtype)};
        value = op_apply1(&op_instances[OP_cast], NULL, 1, &value, to);
        if (!value) return error_pending;
    }
    if (!value->builder) { // a constant
        int32_t number;
        TRY(recorder_value(r, value, &number));
        value = variable_handle(r, &value->type, number);
        if (!value) return error_pending;
    }
    TRY(recorder_resolve(r, op->name, value, &value));
    TRY(variable_write(r, resolved[0], value));
    if (!in[0]->builder) return KILN_OK;
    in[0]->value = resolved[0]->value;
    in[0]->variable = resolved[0]->variable;
    in[0]->seen = resolved[0]->seen;
    return KILN_OK;
}

static kiln_status write(struct sink *s, const struct op *op, int n_in, kiln_tensor *const *in, struct attr *attrs)
{
    struct recorder *r = recorder_of(s);
    bool constant = !is_number(in[0]) && r->syntax == KILN_SYNTAX_LAX;
    for (int i = 0; i < n_in; i++) constant &= !in[i] || (is_constant(r, in[i]) && (i || !in[i]->constant));
    if (constant && !in_graph(r, in[0]->storage)) return write_eagerly(op, n_in, in, attrs);
    return record_write(r, op, n_in, in, attrs);
}

// Reads

static kiln_status refuse(const struct recorder *r)
{
    return error_set(
        KILN_E_STATE,
        "the value depends on an input of %s, which is being captured and has no values yet; use kiln_cond "
        "or kiln_host_call, or capture with KILN_CAPTURE_AUTO",
        r->name);
}

// Marks what `value` is made of; false when that includes inputs (unless they may be read) or random numbers.
static bool mark_cone(const struct recorder *r, int32_t value, uint8_t *needed)
{
    const struct kiln_graph *g = r->sink.builder.graph;
    bool known = true;
    needed[value] = 1;
    for (size_t i = g->values.n; i-- > 0;) {
        const struct ir_value *v = &g->values.v[i];
        if (!needed[i]) continue;
        known &= v->kind != IR_INPUT || r->input_value;
        if (v->kind != IR_NODE) continue;
        const struct ir_node *n = &g->nodes.v[v->node];
        known &= !(n->op->flags & OP_EFFECT) && (!(n->op->flags & OP_RANDOM) || r->input_value);
        for (int k = 0; k < n->n_in; k++)
            if (ir_operands(g, n)[k] >= 0) needed[ir_operands(g, n)[k]] = 1;
    }
    return known;
}

static bool is_known(const struct recorder *r, int32_t value)
{
    uint8_t *needed = calloc(r->sink.builder.graph->values.n + 1, 1);
    bool known = needed && mark_cone(r, value, needed);
    free(needed);
    return known;
}

static kiln_status evaluate_value(struct recorder *r, int32_t value, kiln_tensor **out)
{
    const struct kiln_graph *g = r->sink.builder.graph;
    kiln_tensor **in = calloc(r->sources.n + 1, sizeof *in);
    uint8_t *needed = calloc(g->values.n + 1, 1);
    kiln_status status = in && needed ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    if (!status) mark_cone(r, value, needed);
    for (size_t i = 0; i < r->sources.n && !status; i++)
        if (needed[r->sources.v[i].value]) status = r->input_value(r, &r->sources.v[i], &in[i]);
    struct program_rng rng = {0, 0};
    if (r->dev) {
        rng.seed = r->dev->rng_seed;
        rng.offset = r->dev->rng_offset;
    }
    if (!status) status = graph_evaluate(g, in, &rng, 1, &value, out);
    free(in);
    free(needed);
    return status;
}

// The host reads a value: constants, and in a trace the values of this call, are known.
static kiln_status read_value(struct recorder *r, kiln_tensor *t, kiln_tensor **real)
{
    struct sink *sink = thread_state.sink;
    kiln_tensor *known = NULL;
    TRY(variable_refresh(r, t));
    int32_t value = t->value;
    thread_state.sink = NULL;
    thread_state.no_grad++;
    kiln_status status = evaluate_value(r, value, &known);
    thread_state.no_grad--;
    thread_state.sink = sink;
    TRY(status);
    kiln_own(known);
    if (vec_push(&r->known, known)) {
        tensor_destroy(known);
        return error_pending;
    }
    *real = known;
    return KILN_OK;
}

static kiln_status force(struct sink *s, kiln_tensor *t, kiln_tensor **real)
{
    struct recorder *r = recorder_of(s);
    if (is_number(t)) return KILN_OK;
    if (is_constant(r, t)) {
        if (r->syntax == KILN_SYNTAX_LAX) return KILN_OK;
        return error_set(KILN_E_STATE,
                         "%s is captured with KILN_SYNTAX_STRICT, which reads no values, not those of "
                         "constants either",
                         r->name);
    }
    kiln_tensor *now = t;
    if (!t->builder && !variable_find(r, t->storage) && !leaf_of(t)) return outside(r, "read", t);
    for (size_t i = 0; i < r->sources.n; i++)
        if (t->builder && r->sources.v[i].kind == SOURCE_NUMBER && r->sources.v[i].value == t->value)
            r->must_be_constant = (int)r->sources.v[i].input;
    struct kiln_scope scope;
    scope_enter(&scope);
    kiln_status status = recorder_resolve(r, "read", t, &now);
    if (!status) status = variable_refresh(r, now);
    if (!status && (r->syntax == KILN_SYNTAX_STRICT || !is_known(r, now->value))) status = refuse(r);
    if (!status) status = read_value(r, now, real);
    scope_leave(&scope, NULL, 0);
    return status;
}

static kiln_status refresh(struct sink *s, kiln_tensor *t)
{
    return variable_refresh(recorder_of(s), t);
}

static void found_no_gradient(struct sink *sink, const struct tape_node *leaf)
{
    struct recorder *r = recorder_of(sink);
    for (size_t i = 0; i < r->sources.n; i++) {
        struct source *s = &r->sources.v[i];
        if (s->kind == SOURCE_LEAF && s->leaf == leaf && !s->gradient) s->no_gradient = true;
    }
}

// A parameter is in use: it is an input of the graph.
static kiln_status use_parameter(struct recorder *r, kiln_tensor *t)
{
    struct kiln_scope scope;
    kiln_tensor *unused;
    scope_enter(&scope);
    kiln_status status = recorder_resolve(r, "gradient", t, &unused);
    scope_leave(&scope, NULL, 0);
    return status;
}

static kiln_status share(struct sink *s, kiln_tensor *t)
{
    struct recorder *r = recorder_of(s);
    return t->builder ? variable_own(r, t) : use_parameter(r, t);
}

static kiln_status rebase(struct sink *s, kiln_tensor *t)
{
    struct recorder *r = recorder_of(s);
    TRY(variable_own(r, t));
    struct variable *v = &r->variables.v[t->variable];
    if (v->current->value == t->value) tape_set_node(v->current, t->node, t->node_out);
    return KILN_OK;
}

static kiln_status host_data(struct sink *s, const char *function)
{
    struct recorder *r = recorder_of(s);
    if (r->syntax == KILN_SYNTAX_LAX) return KILN_OK;
    return error_set(KILN_E_STATE, "%s: %s is captured with KILN_SYNTAX_STRICT, which takes no host data", function,
                     r->name);
}

static kiln_device *device(struct sink *s)
{
    struct recorder *r = recorder_of(s);
    return r->dev;
}

static const struct capture_ops capture_ops = {force,  write,     refresh, share,
                                               rebase, host_data, device,  found_no_gradient};

struct recorder *recorder_current(void)
{
    struct sink *s = thread_state.sink;
    return s && s->capture == &capture_ops ? recorder_of(s) : NULL;
}

kiln_status recorder_init(struct recorder *r, const char *name, kiln_capture kind, kiln_syntax syntax)
{
    static atomic_uint last;
    *r = (struct recorder){.name = name, .kind = kind, .syntax = syntax, .must_be_constant = -1};
    struct kiln_graph *g = ir_graph_create();
    if (!g) return error_pending;
    graph_sink_init(&r->sink, g);
    r->sink.base = (struct sink){.apply = apply, .capture = &capture_ops};
    do r->capture = atomic_fetch_add(&last, 1) + 1;
    while (!r->capture);
    return KILN_OK;
}

void recorder_finish(struct recorder *r)
{
    for (size_t i = 1; i < r->variables.n; i++) {
        if (r->variables.v[i].current) tensor_destroy(r->variables.v[i].current);
        storage_unref(r->variables.v[i].storage);
    }
    for (size_t i = 0; i < r->sources.n; i++) {
        if (r->sources.v[i].gradient) tensor_destroy(r->sources.v[i].gradient);
        node_unref(r->sources.v[i].leaf);
        if (r->sources.v[i].kind == SOURCE_LEAF || r->sources.v[i].pinned) storage_unref(r->sources.v[i].storage);
    }
    for (size_t i = 0; i < r->constants.n; i++) {
        if (r->constants.v[i].tensor) tensor_destroy(r->constants.v[i].tensor);
        storage_unref(r->constants.v[i].storage);
    }
    for (size_t i = 0; i < r->known.n; i++)
        if (r->known.v[i]) tensor_destroy(r->known.v[i]);
    vec_free(&r->variables);
    vec_free(&r->sources);
    vec_free(&r->constants);
    vec_free(&r->known);
    ir_graph_destroy(&r->sink.builder.graph);
}
