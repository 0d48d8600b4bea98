// Capturing: the function runs once, on abstract tensors, under the recorder.
//
// Inputs that overlap, and one of which is written, become views of one source, so that the write is seen through the
// others (recorder_memory.c). Each result is an output of the program, except where it shows memory that was there
// before: that of an input or a parameter; then a call gives a handle on that memory, as the function itself would.
#include "device/profile.h"
#include "grad/state.h"
#include "jit/capture/recorder.h"
#include "jit/capture/capture.h"
#include "tensor/reach.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

struct capturing {
    struct capture_request *q;
    struct recorder r;
    kiln_tensor **inner;      // n_in: the handles that the function gets
    kiln_tensor **made;       // n_out: what it gave
    struct tape_node **nodes; // n_in: the places on the tape of `inner` at entry; references
    int32_t *source_of;       // n_in
    uint64_t since, until;    // between them are the nodes made for inputs
    struct kiln_scope scope;  // of the function
    struct sink *sink;        // outside
    uint32_t capture;
    struct captured *out;
};

// Inputs

static bool same_place(const kiln_tensor *a, const kiln_tensor *b)
{
    return type_equal(&a->type, &b->type) && a->layout.offset == b->layout.offset &&
           !memcmp(a->layout.strides, b->layout.strides, sizeof *a->layout.strides * a->type.rank);
}

// The same memory, and the same place on the tape.
static bool is_twin(kiln_tensor *a, kiln_tensor *b)
{
    struct tape_edge x, y;
    if (a->storage != b->storage || !same_place(a, b) || tape_current(a, &x) || tape_current(b, &y)) return false;
    return x.node == y.node && x.out == y.out;
}

struct span {
    int64_t first, last;
    bool alone; // all inputs in it lie in the same place
};

// Of input i and all that overlap with it, and with those; false where it has no elements.
static bool find_span(const struct capture_request *q, size_t i, struct span *s)
{
    const kiln_tensor *t = q->in[i];
    if (!layout_reach(&t->type, &t->layout, &s->first, &s->last)) return false;
    s->alone = true;
    for (bool grown = true; grown;) {
        grown = false;
        for (size_t k = 0; k < q->n_in; k++) {
            int64_t first, last;
            const kiln_tensor *other = q->in[k];
            if (other->storage != t->storage || !layout_reach(&other->type, &other->layout, &first, &last)) continue;
            if (first > s->last || last < s->first) continue;
            grown |= first < s->first || last > s->last;
            s->first = first < s->first ? first : s->first;
            s->last = last > s->last ? last : s->last;
            s->alone &= same_place(t, other);
        }
    }
    return true;
}

// What an earlier input that is the same tensor became.
static kiln_tensor *twin_of(const struct capturing *c, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (c->q->in[k]->storage && is_twin(c->q->in[k], c->q->in[i])) return c->inner[k];
    return NULL;
}

// The function sees what kept no tape as that: a backward inside that would have to go through it says so.
static void place_cut(struct capturing *c, kiln_tensor *t, struct tape_node *outside)
{
    struct tape_node *cut = node_is_cut(outside) && !thread_state.no_grad ? outside : NULL;
    tape_set_node(t, cut, 0);
    kiln_tensor *current = c->r.variables.v[t->variable].current;
    if (cut && current->value == t->value && !current->node) tape_set_node(current, cut, 0);
}

// The function sees a leaf as that leaf, and anything else that requires a gradient as an input of its own.
static kiln_status place_on_tape(struct capturing *c, size_t i, const struct tape_node *outside)
{
    kiln_tensor *t = c->inner[i], *twin = twin_of(c, i);
    if (twin)
        tape_set_node(t, twin->node, twin->node_out);
    else if (c->q->in[i]->node && c->q->in[i]->node->kind == NODE_LEAF)
        tape_set_node(t, c->q->in[i]->node, 0);
    else if (thread_state.no_grad || !node_requires_grad(outside))
        place_cut(c, t, c->q->in[i]->node);
    else {
        const struct tape_edge none = {NULL, 0};
        struct tape_node *n = node_input(&t->type, &none);
        if (!n) return error_pending;
        tape_set_node(t, n, 0);
        node_unref(n);
        kiln_tensor *current = c->r.variables.v[t->variable].current;
        if (current->value == t->value && !current->node) tape_set_node(current, n, 0);
    }
    c->nodes[i] = node_ref(t->node);
    return replayed_source(&c->r, t->value, t->node);
}

static kiln_status add_number(struct capturing *c, size_t i)
{
    kiln_tensor *t = c->q->in[i];
    bool run_time = t->run_time || t->node || (c->q->run_time && c->q->run_time[i]);
    if (!run_time) {
        c->inner[i] = tensor_second(t);
        return c->inner[i] ? KILN_OK : error_pending;
    }
    char name[32];
    struct source s = {.kind = SOURCE_NUMBER, .input = i, .type = t->type};
    snprintf(name, sizeof name, "in%zu", i);
    int32_t variable;
    TRY(recorder_add_source(&c->r, &s, &s.type, name, &variable));
    c->source_of[i] = c->r.variables.v[variable].source;
    struct tape_edge edge;
    TRY(tape_current(t, &edge));
    TRY(variable_show(&c->r, variable, &s.type, &s.layout, &c->inner[i]));
    return place_on_tape(c, i, edge.node);
}

// The variable of an earlier input that i lies in; 0: none.
static int32_t find_earlier(const struct capturing *c, size_t i, const struct span *span)
{
    for (size_t k = 0; k < i; k++) {
        int64_t first, last;
        kiln_tensor *t = c->q->in[k];
        if (t->storage != c->q->in[i]->storage) continue;
        bool inside =
            span && layout_reach(&t->type, &t->layout, &first, &last) && span->first <= first && last <= span->last;
        if (inside || is_twin(t, c->q->in[i])) return c->r.sources.v[c->source_of[k]].variable;
    }
    return 0;
}

static kiln_status add_source_of(struct capturing *c, size_t i, const struct span *span, int32_t *variable)
{
    kiln_tensor *t = c->q->in[i];
    char name[32];
    struct source s = {.kind = SOURCE_INPUT, .input = i, .storage = t->storage, .type = t->type, .layout = t->layout};
    if (span && !span->alone) {
        s.kind = SOURCE_SPAN;
        s.type = (struct type){.dtype = t->type.dtype, .rank = 1};
        s.type.dims[0] = span->last - span->first + 1;
        s.layout = (struct layout){span->first, {1}};
        s.shift = span->first - t->layout.offset;
    } else if (t->node && t->node->kind == NODE_LEAF)
        s.leaf = t->node;
    snprintf(name, sizeof name, "in%zu", i);
    return s.leaf ? recorder_add_parameter(&c->r, &s, name, variable)
                  : recorder_add_source(&c->r, &s, &s.type, name, variable);
}

static kiln_status find_variable(struct capturing *c, size_t i, int32_t *variable)
{
    kiln_tensor *t = c->q->in[i];
    struct span span;
    const struct joined *joined = recorder_joined(&c->r, t->storage);
    if (joined && joined->whole) return recorder_add_memory(&c->r, t->storage, t->type.dtype, variable);
    bool spans = joined && find_span(c->q, i, &span);
    *variable = find_earlier(c, i, spans ? &span : NULL);
    return *variable ? KILN_OK : add_source_of(c, i, spans ? &span : NULL, variable);
}

static kiln_status add_tensor(struct capturing *c, size_t i)
{
    kiln_tensor *t = c->q->in[i];
    struct tape_edge edge;
    int32_t variable;
    TRY(tape_current(t, &edge));
    TRY(find_variable(c, i, &variable));
    c->source_of[i] = c->r.variables.v[variable].source;
    TRY(variable_show(&c->r, variable, &t->type, &t->layout, &c->inner[i]));
    return place_on_tape(c, i, edge.node);
}

static kiln_status add_inputs(struct capturing *c)
{
    for (size_t i = 0; i < c->q->n_in; i++) {
        const struct storage *s = c->q->in[i]->storage;
        if (s && !c->r.dev) c->r.dev = s->dev;
        if (s && s->dev != c->r.dev)
            return error_set(KILN_E_DEVICE_MISMATCH, "call: input %zu of %s is on %s, another one on %s", i, c->q->name,
                             s->dev->name, c->r.dev->name);
        TRY(s ? add_tensor(c, i) : add_number(c, i));
    }
    return KILN_OK;
}

kiln_status captured_check_output(const char *name, size_t i, const kiln_tensor *t)
{
    if (!t) return error_set(KILN_E_ARGUMENT, "call: %s left output %zu NULL", name, i);
    if (t->magic == TENSOR_ALIVE) return KILN_OK;
    return error_set(KILN_E_HANDLE, "call: output %zu of %s is a handle that was freed, or no tensor", i, name);
}

static kiln_status call_function(struct capturing *c)
{
    const struct capture_request *q = c->q;
    kiln_status status = state_call(q->fn, q->user, c->inner, q->n_in, c->made, q->n_out);
    if (error_pending) return error_pending;
    if (status) return error_set(status, "call: %s failed with %s", q->name, kiln_status_name(status));
    for (size_t i = 0; i < q->n_out; i++) TRY(captured_check_output(q->name, i, c->made[i]));
    return KILN_OK;
}

// Outputs

static kiln_status add_output(struct captured *out, int32_t value, const char *name, int32_t *index)
{
    *index = 0;
    for (size_t i = 0; i < out->graph->outputs.n; i++) {
        if (out->graph->outputs.v[i].value == value) return KILN_OK;
        ++*index;
    }
    out->n_outputs++;
    return ir_add_output(out->graph, value, name);
}

static bool shows_source(const struct capturing *c, const kiln_tensor *t, int32_t *source)
{
    *source = t->builder && t->variable ? c->r.variables.v[t->variable].source : -1;
    if (*source < 0) return false;
    uint8_t kind = c->r.sources.v[*source].kind;
    return kind != SOURCE_GRADIENT;
}

static bool shares_variable(const struct capturing *c, size_t i)
{
    for (size_t k = 0; k < c->q->n_out && c->made[i]->variable; k++)
        if (k != i && c->made[k]->variable == c->made[i]->variable) return true;
    return false;
}

static kiln_status add_result(struct capturing *c, struct captured *out, size_t i)
{
    kiln_tensor *t = c->made[i];
    struct result *to = &out->results[i];
    char name[32];
    int32_t value;
    *to = (struct result){.type = t->type, .layout = t->layout, .number = t->number, .integer = t->integer};
    snprintf(name, sizeof name, "out%zu", i);
    if (!t->storage && !t->builder) {
        to->kind = RESULT_NUMBER;
        return KILN_OK;
    }
    if (shows_source(c, t, &to->index)) {
        to->kind = RESULT_SOURCE;
        return KILN_OK;
    }
    TRY(recorder_value(&c->r, t, &value));
    if (shares_variable(c, i)) {
        const struct variable *v = &c->r.variables.v[t->variable];
        to->part = true;
        to->layout.offset -= v->layout.offset;
        if (layout_is_contiguous(&v->current->type, &v->layout))
            value = v->current->value;
        else
            to->part = false;
    }
    to->dense = to->part || layout_is_contiguous(&t->type, &t->layout);
    return add_output(out, value, name, &to->index);
}

// The value whose memory a result would lie in.
static int32_t memory_of(const struct capturing *c, const kiln_tensor *t)
{
    if (!t->builder) return -1;
    int32_t value = t->variable ? c->r.variables.v[t->variable].current->value : t->value;
    return ir_memory_of(c->r.sink.builder.graph, value);
}

// Whether memory made here, which was assigned a tensor, has the value of an input, a constant or another result.
static bool holds_value_of_another(const struct capturing *c, size_t i)
{
    const kiln_tensor *t = c->made[i];
    int32_t memory = memory_of(c, t);
    if (!t->variable || c->r.variables.v[t->variable].source >= 0) return false;
    uint8_t kind = c->r.sink.builder.graph->values.v[memory].kind;
    bool found = kind == IR_INPUT || kind == IR_CONSTANT;
    for (size_t k = 0; k < c->q->n_out && !found; k++)
        found = c->made[k]->variable != t->variable && memory_of(c, c->made[k]) == memory;
    return found;
}

// The caller may write what it gets, and that is seen where it would be seen without a capture, nowhere else.
static kiln_status part_results(struct capturing *c)
{
    for (size_t i = 0; i < c->q->n_out; i++) {
        kiln_tensor *t = c->made[i];
        if (!t->builder || !t->variable) continue;
        if (holds_value_of_another(c, i)) TRY(variable_copy(&c->r, t->variable));
        // A part that was assigned a tensor is that tensor until it is looked up.
        if (ir_memory_of(c->r.sink.builder.graph, t->value) != memory_of(c, t)) t->seen--;
        TRY(variable_refresh(&c->r, t));
    }
    return KILN_OK;
}

static int by_order(const void *a, const void *b)
{
    const struct variable *x = *(const struct variable *const *)a, *y = *(const struct variable *const *)b;
    return (x->written > y->written) - (x->written < y->written);
}

static kiln_status add_writes(struct capturing *c, struct captured *out)
{
    const struct variable **written = malloc(sizeof *written * (c->r.variables.n + 1));
    size_t n = 0;
    if (!written) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 1; i < c->r.variables.n; i++)
        if (c->r.variables.v[i].written && c->r.variables.v[i].source >= 0) written[n++] = &c->r.variables.v[i];
    qsort(written, n, sizeof *written, by_order);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n && !status; i++) {
        int32_t target = c->r.sources.v[written[i]->source].value;
        status = ir_add_write(out->graph, written[i]->current->value, target, out->graph->values.v[target].name);
    }
    free(written);
    return status;
}

static struct tape_node *leaf_of_source(const struct source *s)
{
    return s->kind == SOURCE_INPUT || s->kind == SOURCE_LEAF ? s->leaf : NULL;
}

// What kiln_backward left in parameters becomes outputs.
static kiln_status add_left_gradients(struct capturing *c, struct captured *out)
{
    for (size_t i = 0; i < c->r.sources.n; i++) {
        const struct tape_node *leaf = leaf_of_source(&c->r.sources.v[i]);
        kiln_tensor *g = leaf ? leaf->leaf->gradient : NULL;
        bool dropped = !g && c->r.sources.v[i].gradient;
        if (!dropped && (!g || !g->builder)) continue;
        struct left_gradient *left = &out->left[out->n_left++];
        *left = (struct left_gradient){(int32_t)i, -1};
        if (dropped) continue;
        TRY(variable_refresh(&c->r, g));
        TRY(add_output(out, g->value, "gradient", &left->output));
    }
    return KILN_OK;
}

// Where a backward inside goes on outside, all that was done to gradients is done once more, with what comes of that.
static kiln_status add_gradient_steps(struct capturing *c, struct captured *out)
{
    for (size_t i = 0; i < c->r.gradient_steps.n; i++) {
        struct gradient_step *s = &c->r.gradient_steps.v[i];
        for (size_t k = 0; s->event == GRADIENT_ARRIVED && k < c->q->n_in && s->input < 0; k++)
            if (c->nodes[k] == s->node) s->input = (int32_t)k;
        out->goes_on |= s->input >= 0 || (s->event == GRADIENT_ARRIVED && s->source >= 0);
        node_unref(s->node);
        s->node = NULL;
    }
    for (size_t i = 0; i < c->r.gradient_steps.n && out->goes_on; i++) {
        struct gradient_step *s = &c->r.gradient_steps.v[i];
        if (s->value >= 0) TRY(add_output(out, s->value, "gradient", &s->output));
    }
    return KILN_OK;
}

static kiln_status add_prints(struct capturing *c, struct captured *out)
{
    for (size_t i = 0; i < c->r.prints.n; i++) {
        struct printed *p = &out->prints[out->n_prints++];
        *p = c->r.prints.v[i];
        TRY(add_output(out, c->r.prints.v[i].output, "print", &p->output));
    }
    return KILN_OK;
}

// Parameters have the gradients again that they had before.
static void restore_gradients(struct capturing *c)
{
    for (size_t i = 0; i < c->r.sources.n; i++) {
        struct source *s = &c->r.sources.v[i];
        struct tape_node *leaf = leaf_of_source(s);
        kiln_tensor *g = leaf ? leaf->leaf->gradient : NULL;
        if (!leaf || (g && !g->builder)) continue;
        if (!g && !s->gradient) continue; // others may be reading a parameter that was only read here
        leaf->leaf->gradient = s->gradient;
        s->gradient = NULL;
        if (g) tensor_destroy(g);
    }
}

// Results on one memory that the function made of host data.
static bool shares_constant(const struct capturing *c, size_t i)
{
    const kiln_tensor *t = c->made[i];
    if (t->builder || !t->storage || t->constant) return false;
    for (size_t k = 0; k < c->q->n_out; k++)
        if (k != i && !c->made[k]->builder && c->made[k]->storage == t->storage) return true;
    return false;
}

static kiln_status collect(struct capturing *c, struct captured *out)
{
    out->graph = c->r.sink.builder.graph;
    out->results = calloc(c->q->n_out + 1, sizeof *out->results);
    out->left = calloc(c->r.sources.n + 1, sizeof *out->left);
    out->prints = calloc(c->r.prints.n + 1, sizeof *out->prints);
    if (!out->results || !out->left || !out->prints) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < c->q->n_out; i++) {
        kiln_tensor *t = c->made[i];
        bool number = !t->storage && !t->builder;
        if (!number) TRY(recorder_resolve(&c->r, "call", t, &c->made[i]));
        if (shares_constant(c, i)) TRY(recorder_take_memory(&c->r, c->made[i], &c->made[i]));
    }
    TRY(part_results(c));
    for (size_t i = 0; i < c->q->n_out; i++) TRY(add_result(c, out, i));
    out->n_results = c->q->n_out;
    TRY(add_left_gradients(c, out));
    TRY(add_gradient_steps(c, out));
    TRY(add_prints(c, out));
    return add_writes(c, out);
}

// What the program needs outlives the recorder.
static kiln_status take_over(struct capturing *c, struct captured *out)
{
    out->constants = calloc(c->r.constants.n + 1, sizeof *out->constants);
    if (!out->constants) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < c->r.constants.n; i++) {
        out->constants[out->n_constants++] = c->r.constants.v[i].tensor;
        c->r.constants.v[i].tensor = NULL;
    }
    out->dev = c->r.dev ? c->r.dev : device_default();
    if (!out->dev) return error_pending;
    for (size_t i = 0; i < c->r.sources.n; i++)
        c->r.sources.v[i].written = c->r.variables.v[c->r.sources.v[i].variable].written > 0;
    out->asks_sharing = c->r.asks_sharing;
    out->sources = c->r.sources.v;
    out->n_sources = c->r.sources.n;
    out->happened = c->r.happened.v;
    out->n_happened = c->r.happened.n;
    c->r.happened.v = NULL;
    c->r.happened.n = c->r.happened.cap = 0;
    out->gradient_steps = c->r.gradient_steps.v;
    out->n_gradient_steps = c->r.gradient_steps.n;
    c->r.gradient_steps.v = NULL;
    c->r.gradient_steps.n = c->r.gradient_steps.cap = 0;
    out->leaves = c->r.leaves.v;
    out->n_leaves = c->r.leaves.n;
    c->r.leaves.v = NULL;
    c->r.leaves.n = c->r.leaves.cap = 0;
    out->counters = c->r.random_counters;
    for (size_t i = 0; i < out->n_sources; i++) {
        if (out->sources[i].gradient) tensor_destroy(out->sources[i].gradient);
        out->sources[i].gradient = NULL;
        node_unref(out->sources[i].place);
        out->sources[i].place = NULL;
    }
    c->r.sources.v = NULL;
    c->r.sources.n = c->r.sources.cap = 0;
    c->r.sink.builder.graph = NULL;
    return KILN_OK;
}

static kiln_status record(struct capturing *c, struct captured *out)
{
    scope_enter(&c->scope);
    c->since = node_sequence();
    kiln_status status = add_inputs(c);
    c->until = node_sequence();
    if (!status) status = call_function(c);
    if (!status && c->r.conflict.storage)
        status = error_set(KILN_E_STATE, "call: %s hid an error of its capture", c->q->name);
    out->source_of = c->source_of;
    c->source_of = NULL;
    if (!status) status = collect(c, out);
    if (!status) status = gradient_make(&c->r, out, c->q->in, c->q->n_in, c->made, c->nodes, c->since, c->until);
    restore_gradients(c);
    scope_leave(&c->scope, NULL, 0);
    return status ? status : take_over(c, out);
}

static kiln_status real_input(struct recorder *r, const struct source *s, kiln_tensor **out)
{
    const struct capture_request *q = r->user;
    return source_tensor(s, q->in, out);
}

// The function was left.
static void leave_recorder(void *at)
{
    struct capturing *c = at;
    restore_gradients(c);
    scope_leave(&c->scope, NULL, 0);
    thread_state.sink = c->sink;
    thread_state.capture = c->capture;
    c->r.conflict.storage = NULL;
    if (c->out->graph == c->r.sink.builder.graph) c->out->graph = NULL;
    recorder_finish(&c->r);
}

static kiln_status capture_with(struct capturing *c, struct captured *out)
{
    struct leave left;
    c->sink = thread_state.sink;
    c->capture = thread_state.capture;
    TRY(recorder_init(&c->r, c->q->name, c->q->kind, c->q->syntax));
    if (c->q->kind == KILN_CAPTURE_TRACE) {
        c->r.input_value = real_input;
        c->r.user = c->q;
    }
    c->r.joined = c->q->joined;
    c->r.n_joined = c->q->n_joined;
    thread_state.sink = &c->r.sink.base;
    thread_state.capture = c->r.capture;
    leave_push(&left, leave_recorder, c);
    kiln_status status = record(c, out);
    leave_pop(&left);
    thread_state.sink = c->sink;
    thread_state.capture = c->capture;
    c->q->must_be_constant = c->r.must_be_constant;
    c->q->conflict = c->r.conflict;
    c->r.conflict.storage = NULL;
    if (status && out->graph == c->r.sink.builder.graph) out->graph = NULL;
    recorder_finish(&c->r);
    return status;
}

static void finish_capturing(struct capturing *c)
{
    for (size_t i = 0; i < c->q->n_in; i++) node_unref(c->nodes[i]);
    free(c->source_of);
    free(c->inner); // the room of all lists
}

static void drop_captured(void *at)
{
    struct capturing *c = at;
    captured_finish(c->out);
    finish_capturing(c);
}

kiln_status capture_run(struct capture_request *q, struct captured *out)
{
    struct capturing c = {.q = q};
    PROFILE("capture", q->name);
    *out = (struct captured){0};
    void **room = calloc(2 * q->n_in + q->n_out + 1, sizeof *room);
    c.source_of = malloc(sizeof *c.source_of * (q->n_in + 1));
    if (!room || !c.source_of) {
        free(room);
        free(c.source_of);
        return error_set(KILN_E_MEMORY, "jit: out of memory");
    }
    for (size_t i = 0; i < q->n_in; i++) c.source_of[i] = -1;
    c.inner = (kiln_tensor **)room;
    c.made = c.inner + q->n_in;
    c.nodes = (struct tape_node **)(room + q->n_in + q->n_out);
    c.out = out;
    struct leave left;
    leave_push(&left, drop_captured, &c);
    kiln_status status = capture_with(&c, out);
    leave_pop(&left);
    if (status) captured_finish(out);
    finish_capturing(&c);
    return status;
}

void captured_finish(struct captured *c)
{
    for (size_t i = 0; i < c->n_sources; i++) {
        node_unref(c->sources[i].leaf);
        if (source_holds_storage(&c->sources[i])) storage_unref(c->sources[i].storage);
    }
    for (size_t i = 0; i < c->n_leaves; i++) node_unref(c->leaves[i]);
    free(c->leaves);
    free(c->happened);
    free(c->gradient_steps);
    free(c->source_of);
    for (size_t i = 0; i < c->n_constants; i++) tensor_destroy(c->constants[i]);
    gradient_finish(&c->gradient);
    free(c->sources);
    free(c->results);
    free(c->left);
    free(c->prints);
    free(c->constants);
    ir_graph_destroy(&c->graph);
    *c = (struct captured){0};
}

// Calls

// Where it lies in this call.
static struct layout place_of(const struct source *s, const struct layout *at_capture, kiln_tensor *const *in)
{
    struct layout l = *at_capture;
    if (s->kind == SOURCE_INPUT || s->kind == SOURCE_SPAN)
        l.offset += in[s->input]->layout.offset + s->shift - s->layout.offset;
    return l;
}

struct host_call {
    const struct source *s;
    double number;
};

static void call_host(void *at)
{
    struct host_call *c = at;
    c->number = c->s->number(c->s->user);
}

static kiln_tensor *ask_host(const struct source *s)
{
    struct host_call c = {s, 0};
    leave_call(call_host, &c);
    return kiln_scalar(c.number);
}

kiln_status source_tensor(const struct source *s, kiln_tensor *const *in, kiln_tensor **out)
{
    struct layout layout;
    switch (s->kind) {
    case SOURCE_INPUT:
    case SOURCE_NUMBER: *out = in[s->input]; break;
    case SOURCE_HOST: *out = ask_host(s); break;
    case SOURCE_SPAN:
        layout = place_of(s, &s->layout, in);
        *out = tensor_on(in[s->input]->storage, &s->type, &layout);
        break;
    case SOURCE_LEAF:
    case SOURCE_MEMORY: *out = tensor_on(s->storage, &s->type, &s->layout); break;
    default: *out = source_leaf(s, in)->leaf->gradient;
    }
    if (*out || error_pending) return error_pending;
    return error_set(KILN_E_STATE, "call: a gradient that the function uses is gone");
}

kiln_status source_history(const struct source *s, struct tape_edge *out)
{
    const kiln_tensor *t = family_show(s->leaf, s->storage, &s->type, &s->layout); // until the call ends
    if (!t) return error_pending;
    *out = (struct tape_edge){t->node, t->node_out};
    return KILN_OK;
}

static kiln_tensor *shown(const struct source *s, const struct result *r, kiln_tensor *source, kiln_tensor *const *in)
{
    if (source_is_number(s)) return tensor_second(source);
    bool fixed = s->kind == SOURCE_LEAF || s->kind == SOURCE_MEMORY;
    struct layout layout = place_of(s, &r->layout, in);
    return tensor_on(fixed ? s->storage : in[s->input]->storage, &r->type, &layout);
}

static kiln_tensor *number_of(const struct result *r)
{
    kiln_tensor *t = r->type.dtype == KILN_F64   ? kiln_scalar(r->number)
                     : r->type.dtype == KILN_I64 ? kiln_scalar_int(r->integer)
                                                 : kiln_scalar_bool(r->integer != 0);
    return t;
}

kiln_status captured_results(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *sources,
                             kiln_tensor *const *outputs, kiln_tensor **out)
{
    for (size_t i = 0; i < c->n_results; i++) {
        const struct result *r = &c->results[i];
        if (r->kind == RESULT_NUMBER)
            out[i] = number_of(r);
        else if (r->kind == RESULT_SOURCE)
            out[i] = shown(&c->sources[r->index], r, sources[r->index], in);
        else {
            const kiln_tensor *t = outputs[r->index];
            out[i] = tensor_on(t->storage, &r->type, r->part ? &r->layout : &t->layout);
        }
        if (!out[i]) return error_pending;
    }
    return KILN_OK;
}

size_t captured_unread(const struct captured *c)
{
    const struct kiln_graph *g = c->graph;
    size_t n = 0;
    uint8_t *read = calloc(g->values.n + 1, 1);
    for (size_t i = 0; read && i < g->operands.n; i++)
        if (g->operands.v[i] >= 0) read[g->operands.v[i]] = 1;
    for (size_t i = 0; read && i < g->outputs.n; i++) read[g->outputs.v[i].value] = 1;
    for (size_t i = 0; read && i < c->n_results; i++)
        if (c->results[i].kind == RESULT_SOURCE) read[c->sources[c->results[i].index].value] = 1;
    for (size_t i = 0; read && i < c->gradient.n_saved; i++)
        if (c->gradient.saved[i].source >= 0) read[c->sources[c->gradient.saved[i].source].value] = 1;
    for (size_t i = 0; read && i < c->n_sources; i++) n += !read[c->sources[i].value];
    free(read);
    return n;
}
