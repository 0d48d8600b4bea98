// Ops of user code to nodes, while a function is captured. Where all inputs of an op are constants it is evaluated at
// once (LAX); else its inputs are resolved and it becomes a node.
#include "jit/capture/recorder.h"
#include "base/where.h"
#include "ops/attrs.h"
#include "jit/control/control.h"
#include "ops/families.h"
#include "tensor/draw.h"
#include "tensor/reach.h"
#include <stdlib.h>
#include <string.h>

#define FEW 16

static bool can_evaluate(const struct recorder *r, const struct op_call *c, kiln_tensor *const *in)
{
    if (r->syntax == KILN_SYNTAX_STRICT || c->n_in == 0 || (c->op->flags & (OP_RANDOM | OP_EFFECT))) return false;
    bool tensors = false;
    for (int i = 0; i < c->n_in; i++) {
        if (in[i] && !recorder_is_constant(r, in[i])) return false;
        tensors |= in[i] && in[i]->storage;
    }
    return tensors;
}

// In a region, a view of what a function around it made of host data shows that memory, which may be written.
static bool shows_host_data(const struct recorder *r, const struct op_call *c, kiln_tensor *const *in)
{
    if (!r->outer || !(c->op->flags & OP_VIEW) || is_number(in[0]) || in[0]->builder) return false;
    for (; r; r = r->outer) {
        if (recorder_find(r, in[0])) return false;
        if (in[0]->storage->capture == r->capture) return true;
    }
    return false;
}

// Whether it records a region that a constant chose, which draws from no stream of its own.
static bool is_chosen(const struct recorder *r)
{
    for (; r; r = r->outer)
        for (const struct draw_frame *f = thread_state.draws; f; f = f->outer)
            if (f->capture == r->capture) return true;
    return false;
}

static kiln_status refuse_chosen(const struct recorder *r, const char *op)
{
    return error_set(KILN_E_UNSUPPORTED,
                     "%s: a condition that is a constant chose this region while %s is captured, and a region "
                     "that draws random numbers needs one that is computed; choose by if",
                     op, r->name);
}

// The numbers of this op, counted from those that each run reserves.
static kiln_status take_numbers(struct recorder *r, struct op_call *c)
{
    struct attr *seed = &c->attrs[op_attr_index(c->op, "seed")];
    if (thread_state.numbers_given && seed->i == RNG_OF_RUN) return KILN_OK; // another run of a node
    if (is_chosen(r)) return refuse_chosen(r, c->op->name);
    seed->i = RNG_OF_RUN;
    c->attrs[op_attr_index(c->op, "offset")].i = (int64_t)r->random_counters;
    r->random_counters += ((uint64_t)type_numel(&c->out[0]) + 1) / 2;
    return KILN_OK;
}

static kiln_status numbers(struct sink *s, const char *op, uint64_t n, struct rng *out)
{
    struct recorder *r = recorder_of(s);
    if (is_chosen(r)) return refuse_chosen(r, op);
    *out = (struct rng){RNG_OF_RUN, r->random_counters};
    r->random_counters += n;
    return KILN_OK;
}

int64_t recorder_take_number(struct recorder *r, const struct control_draws *d, bool takes)
{
    return d->given ? d->place : takes && !is_chosen(r) ? (int64_t)r->random_counters++ : -1;
}

// In user code as_strided speaks of the memory, in the graph of the value of its operand: the variable's.
static kiln_status translate_as_strided(struct recorder *r, struct op_call *c, struct attr *attrs,
                                        const struct type **type, kiln_tensor **in)
{
    kiln_tensor *t = in[0];
    if (!(c->op->flags & OP_STORAGE_VIEW) || !t->builder || !t->variable) return KILN_OK;
    const struct variable *v = &r->variables.v[t->variable];
    if (v->source >= 0) r->sources.v[v->source].placed = true;
    if (!layout_is_contiguous(&v->current->type, &v->layout))
        return error_set(KILN_E_UNSUPPORTED, "as_strided: in a capture it takes tensors in row-major memory only");
    kiln_tensor *whole;
    struct type all = v->current->type;
    struct layout layout = v->layout;
    TRY(variable_refresh(r, t));
    TRY(variable_show_at(r, t->variable, t->place, &all, &layout, &whole));
    if (whole->value == t->value) tape_set_node(whole, t->node, t->node_out); // it may lie at a place of its own
    memcpy(attrs, c->attrs, sizeof *attrs * c->op->n_attrs);
    struct attr *offset = &attrs[AT_as_strided_offset];
    offset->i = (offset->set ? offset->i : 0) - v->layout.offset;
    offset->set = true;
    c->attrs = attrs;
    *type = &whole->type;
    c->in = type;
    in[0] = whole;
    return KILN_OK;
}

// In eager mode the storage is the bound, here the value.
static kiln_status check_positions(const struct op_call *c, const kiln_tensor *base)
{
    struct layout layout, row_major;
    bool copy;
    if (!(c->op->flags & OP_STORAGE_VIEW) || !base->builder) return KILN_OK;
    layout_contiguous(&base->type, &row_major);
    TRY(c->op->fn->view(c, &row_major, &layout, &copy));
    return layout_check_within(c->op->name, &c->out[0], &layout, type_numel(&base->type));
}

// A view shows the memory of its operand.
static kiln_status show_same_memory(struct recorder *r, const struct op_call *asked, kiln_tensor *base,
                                    kiln_tensor *view)
{
    struct layout layout;
    bool copy = false;
    if (!base->builder) return KILN_OK;
    TRY(variable_own(r, base));
    TRY(asked->op->fn->view(asked, &base->layout, &layout, &copy));
    if (copy) return KILN_OK;
    view->layout = layout;
    view->variable = base->variable;
    view->seen = base->seen;
    view->place = base->place;
    view->generation = base->generation;
    view->detached = base->detached || thread_state.no_grad;
    return KILN_OK;
}

kiln_status recorder_refuse_size(const char *name, uint64_t max_nodes)
{
    return error_set(KILN_E_STATE,
                     "the graph of %s has more than %llu ops, its .max_nodes; loops in C are unrolled, see "
                     "kiln_for",
                     name, (unsigned long long)max_nodes);
}

static kiln_status check_size(const struct recorder *r)
{
    uint64_t n = 0;
    for (const struct recorder *o = r; o; o = o->outer) n += o->sink.builder.graph->nodes.n;
    return KILN_LIKELY(n < r->max_nodes || !r->max_nodes) ? KILN_OK : recorder_refuse_size(r->name, r->max_nodes);
}

static kiln_status add_node(struct recorder *r, struct op_call *c, kiln_tensor **in, int32_t *values, kiln_tensor **out)
{
    struct attr translated[OP_MAX_ATTRS];
    const struct op_call asked = *c;
    const struct type *translated_type;
    kiln_tensor *base = c->n_in ? in[0] : NULL;
    if (c->op->flags & OP_RANDOM) TRY(take_numbers(r, c));
    if (c->op->flags & OP_VIEW) {
        TRY(translate_as_strided(r, c, translated, &translated_type, in));
        TRY(check_positions(c, in[0]));
    }
    for (int i = 0; i < c->n_in; i++) {
        TRY(recorder_value(r, in[i], &values[i]));
        if (in[i] && in[i]->storage) TRY(recorder_show_constant(r, values[i], &in[i]));
    }
    TRY(replayed_operands(r, c->n_in, in, values));
    TRY(check_size(r));
    int32_t first = ir_add_node(r->sink.builder.graph, c, values, where_now());
    if (first < 0) return error_pending;
    if (thread_state.in_rules) TRY(recorder_note_rule(r, r->sink.builder.graph->nodes.n - 1));
    for (int i = 0; i < c->n_out; i++) {
        out[i] = variable_handle(r, &c->out[i], first + i);
        if (!out[i]) return error_pending;
    }
    if (c->op->flags & OP_VIEW) TRY(show_same_memory(r, &asked, base, out[0]));
    if (tensor_wants_tape(c->n_in, in)) TRY(tensor_tape.record(c, in, out));
    return replayed_results(r, c, values, out);
}

static kiln_status apply(struct sink *s, struct op_call *c, kiln_device *dev, kiln_tensor *const *in, kiln_tensor **out)
{
    struct recorder *r = recorder_of(s);
    if (can_evaluate(r, c, in) || shows_host_data(r, c, in)) return eager_at_once(c, dev, in, out);
    TRY(recorder_check_device(r, c->op->name, dev));
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

static kiln_status refresh(struct sink *s, kiln_tensor *t)
{
    struct recorder_switch before = recorder_enter(recorder_of(s));
    kiln_status status = variable_refresh(recorder_of(s), t);
    recorder_leave(&before);
    return status;
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

// The recorder that t's variable and place are of: r, or one that r's region stands in.
static struct recorder *owner_of(struct recorder *r, const kiln_tensor *t)
{
    struct recorder *o = r;
    while (o && o->capture != t->capture) o = o->outer;
    return o ? o : r;
}

static kiln_status share(struct sink *s, kiln_tensor *t)
{
    struct recorder *r = owner_of(recorder_of(s), t);
    struct recorder_switch before = recorder_enter(r);
    kiln_status status = t->builder ? variable_own(r, t) : use_parameter(r, t);
    recorder_leave(&before);
    return status;
}

static kiln_status part(struct sink *s, kiln_tensor *t)
{
    struct recorder *r = owner_of(recorder_of(s), t);
    TRY(vec_push(&r->places, ((struct own_place){.node = NULL})));
    t->place = (int32_t)r->places.n;
    t->capture = r->capture; // a parameter's or state's handle is no abstract one
    t->generation = 0;
    return KILN_OK;
}

static kiln_status rebase(struct sink *s, kiln_tensor *t)
{
    return variable_rebase(recorder_of(s), t, true);
}

static kiln_status show(struct sink *s, kiln_tensor *t, kiln_tensor **out)
{
    return recorder_resolve(recorder_of(s), "grad", t, out);
}

static kiln_status enter(struct sink *s, kiln_tensor *t, size_t n, kiln_tensor *const *before)
{
    struct recorder *r = recorder_of(s);
    TRY(variable_own(r, t));
    size_t k = 0;
    while (k < n && (before[k]->variable != t->variable ||
                     !layout_overlap(&before[k]->type, &before[k]->layout, &t->type, &t->layout)))
        k++;
    if (k < n) {
        t->place = before[k]->place;
        r->places.v[t->place - 1].shared = true;
    } else
        TRY(part(s, t));
    return variable_rebase(r, t, false);
}

// Inputs are asked of the storages of this call.
static bool on_one_storage(struct sink *s, const kiln_tensor *a, const kiln_tensor *b)
{
    struct recorder *r = recorder_of(s);
    if (!a->variable || !b->variable) return false;
    r->asks_sharing = true;
    const struct storage *x = r->variables.v[a->variable].storage, *y = r->variables.v[b->variable].storage;
    return a->variable == b->variable || (x && x == y);
}

static bool is_of_leaf(struct sink *s, const kiln_tensor *t)
{
    const struct recorder *r = recorder_of(s);
    kiln_tensor at = {.variable = t->variable, .place = t->place};
    while (at.variable && !variable_is_leaf(r, &at)) { // in a region perhaps there, where the memory comes from
        const struct variable *v = &r->variables.v[at.variable];
        const struct source *from = v->source < 0 ? NULL : &r->sources.v[v->source];
        if (!from || from->kind != SOURCE_OUTER) return false;
        at = (kiln_tensor){.variable = from->outer, .place = from->outside_place};
        r = r->outer;
    }
    return at.variable;
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

static bool is_strict(struct sink *s)
{
    return recorder_of(s)->syntax == KILN_SYNTAX_STRICT;
}

static kiln_status reach(struct sink *s, const char *op, kiln_tensor *t, bool write, kiln_tensor **out)
{
    struct recorder *r = recorder_of(s);
    struct recorder_switch before = recorder_enter(r);
    kiln_status status = write ? recorder_resolve_target(r, op, t, out) : recorder_resolve(r, op, t, out);
    if (!status && (*out)->builder) status = variable_own(r, *out);
    recorder_leave(&before);
    return status;
}

static const struct capture_ops capture_ops = {
    .force = recorder_force,
    .write = recorder_write,
    .refresh = refresh,
    .share = share,
    .part = part,
    .show = show,
    .enter = enter,
    .rebase = rebase,
    .host_data = host_data,
    .device = device,
    .found_no_gradient = recorder_found_no_gradient,
    .gradient_of = recorder_gradient_of,
    .note_gradient = recorder_note_gradient,
    .is_entry = recorder_is_entry,
    .check_whole = recorder_check_whole,
    .is_strict = is_strict,
    .value = recorder_known_value,
    .host = recorder_host,
    .on_one_storage = on_one_storage,
    .is_of_leaf = is_of_leaf,
    .numbers = numbers,
    .reach = reach,
};

struct recorder *recorder_current(void)
{
    struct sink *s = thread_state.sink;
    return s && s->capture == &capture_ops ? recorder_of(s) : NULL;
}

kiln_status recorder_init(struct recorder *r, const char *name, kiln_capture kind, kiln_syntax syntax)
{
    static atomic_uint last;
    *r = (struct recorder){.name = name, .kind = kind, .syntax = syntax, .must_be_constant = -1};
    r->no_grad = thread_state.no_grad;
    r->since = node_sequence();
    struct kiln_graph *g = ir_graph_create();
    if (!g) return error_pending;
    graph_sink_init(&r->sink, g);
    do r->capture = atomic_fetch_add(&last, 1) + 1;
    while (!r->capture);
    r->sink.base = (struct sink){.apply = apply, .capture = &capture_ops, .number = r->capture};
    return KILN_OK;
}

void recorder_finish(struct recorder *r)
{
    for (size_t i = 0; i < r->hosts.n; i++) host_call_unref(r->hosts.v[i]);
    vec_free(&r->hosts);
    recorder_drop_gradients(r);
    for (size_t i = 1; i < r->variables.n; i++) {
        if (r->variables.v[i].current) tensor_destroy(r->variables.v[i].current);
        storage_unref(r->variables.v[i].storage);
    }
    for (size_t i = 0; i < r->sources.n; i++) {
        if (r->sources.v[i].gradient) tensor_destroy(r->sources.v[i].gradient);
        node_unref(r->sources.v[i].leaf);
        node_unref(r->sources.v[i].place);
        node_unref(r->sources.v[i].outside.node);
        if (source_holds_storage(&r->sources.v[i])) storage_unref(r->sources.v[i].storage);
    }
    for (size_t i = 0; i < r->constants.n; i++) {
        if (r->constants.v[i].tensor) tensor_destroy(r->constants.v[i].tensor);
        storage_unref(r->constants.v[i].storage);
    }
    for (size_t i = 0; i < r->known.n; i++)
        if (r->known.v[i]) tensor_destroy(r->known.v[i]);
    for (size_t i = 0; i < r->places.n; i++) node_unref(r->places.v[i].node);
    vec_free(&r->places);
    replayed_finish(r);
    vec_free(&r->happened);
    for (size_t i = 0; i < r->gradient_steps.n; i++) node_unref(r->gradient_steps.v[i].node);
    vec_free(&r->gradient_steps);
    for (size_t i = 0; i < r->leaves.n; i++) node_unref(r->leaves.v[i]);
    storage_unref(r->conflict.storage);
    vec_free(&r->leaves);
    struct chains *const lists[] = {&r->variables_on, &r->sources_on, &r->sources_of, &r->gradients_of, &r->leaves_of};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) chains_finish(lists[i]);
    vec_free(&r->of_rules);
    vec_free(&r->variables);
    vec_free(&r->sources);
    vec_free(&r->constants);
    vec_free(&r->known);
    vec_free(&r->ended);
    ir_graph_destroy(&r->sink.builder.graph);
}
