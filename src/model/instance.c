// What a function of a model is for the inputs of a call: graphs, read with the sizes of these inputs, and around them
// what a capture would have found.
//
// Texts come from anywhere: each number in an interface is checked against the graphs and the weights before it is
// used. The graphs were verified as they were read.
#include "model/instance.h"
#include "ir/overlap.h"
#include "model/host.h"
#include "tensor/reach.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kiln_status instance_fails(const struct model_instance *in, const char *format, ...)
{
    char text[2 * TYPE_TEXT_MAX + 300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(KILN_E_FORMAT, "call: the file of %.100s does not hold: %s", in->f->name, text);
}

// `what` is what the value of that number is given.
static kiln_status another_type(const struct model_instance *in, const char *what, const char *name,
                                const struct type *is, size_t value, const struct type *want)
{
    char given[TYPE_TEXT_MAX], said[TYPE_TEXT_MAX];
    return instance_fails(in, "%s \"%.100s\" is %s, %%%zu of its graph is %s", what, name,
                          type_text(is, given, sizeof given), value, type_text(want, said, sizeof said));
}

// --- the inputs of the call

static kiln_status check_number(const struct model_instance *in, size_t i)
{
    const struct face_input *want = &in->face.in.v[i];
    const kiln_tensor *t = in->q->in[i];
    bool is_number = !t->storage && !(t->builder && !t->type.weak);
    if (want->type.weak != is_number)
        return error_set(KILN_E_ARGUMENT, "call: input %zu of %s, \"%.100s\", is a %s: %s", i, in->f->name, want->name,
                         want->type.weak ? "number" : "tensor",
                         want->type.weak ? "give what kiln_scalar or kiln_mutable makes" : "a number is given");
    bool same = !memcmp(&want->number, &t->number, sizeof t->number) && want->integer == t->integer;
    if (!want->fixed || (same && !t->run_time && !t->builder)) return KILN_OK;
    return error_set(KILN_E_ARGUMENT,
                     "call: input %zu of %s, \"%.100s\", was read when the function was captured: it is %g", i,
                     in->f->name, want->name, want->number);
}

static kiln_status check_inputs(const struct model_instance *in)
{
    char a[TYPE_TEXT_MAX], b[TYPE_TEXT_MAX];
    for (size_t i = 0; i < in->face.in.n; i++) {
        const struct type *want = &in->face.in.v[i].type, *is = &in->q->in[i]->type;
        TRY(check_number(in, i));
        if (!type_equal(want, is))
            return error_set(KILN_E_SHAPE, "call: input %zu of %s, \"%.100s\", is %s, not %s", i, in->f->name,
                             in->face.in.v[i].name, type_text(is, a, sizeof a), type_text(want, b, sizeof b));
        kiln_device *dev = in->q->in[i]->storage ? in->q->in[i]->storage->dev : in->m->dev;
        if (in->m->dev && dev != in->m->dev)
            return error_set(KILN_E_ARGUMENT, "call: input %zu of %s lies on %s, its weights on %s", i, in->f->name,
                             dev->name, in->m->dev->name);
    }
    return KILN_OK;
}

static kiln_status check_counts(const struct model_instance *in)
{
    const struct interface *f = &in->f->face;
    if (in->q->n_in != f->in.n)
        return error_set(KILN_E_ARGUMENT, "call: %s takes %zu inputs, %zu are given", in->f->name, f->in.n,
                         in->q->n_in);
    if (in->q->n_out == f->results.n) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "call: %s gives %zu outputs, %zu are asked for", in->f->name, f->results.n,
                     in->q->n_out);
}

// --- sizes

static int64_t size_of(const struct model_instance *in, size_t rule)
{
    const struct interface *f = &in->f->face;
    for (size_t i = 0; i < f->in.n; i++)
        for (int d = 0; d < f->in.v[i].type.rank && d < in->q->in[i]->type.rank; d++)
            if (f->in.v[i].symbols[d] == (int16_t)(rule + 1)) return in->q->in[i]->type.dims[d];
    return f->rules.v[rule].seen;
}

static kiln_status add_sizes(const struct model_instance *in, size_list *sizes)
{
    for (size_t i = 0; i < in->f->face.rules.n; i++) {
        const struct ir_size s = {in->f->face.rules.v[i].name, size_of(in, i)};
        TRY(vec_push(sizes, s));
    }
    return KILN_OK;
}

// --- what the graph is given

static int32_t *list_inputs(const struct kiln_graph *g, size_t *n)
{
    int32_t *values = malloc(sizeof *values * (g->values.n + 1));
    *n = 0;
    for (size_t i = 0; values && i < g->values.n; i++)
        if (g->values.v[i].kind == IR_INPUT) values[(*n)++] = (int32_t)i;
    if (!values) error_set(KILN_E_MEMORY, "call: out of memory");
    return values;
}

kiln_status instance_bind_constants(struct model_instance *in, struct kiln_graph *g)
{
    struct captured *c = in->c;
    size_t n = c->n_constants;
    for (size_t i = 0; i < g->values.n; i++) n += g->values.v[i].kind == IR_CONSTANT;
    kiln_tensor **room = realloc(c->constants, sizeof *room * (n + 1));
    if (!room) return error_set(KILN_E_MEMORY, "call: out of memory");
    c->constants = room;
    for (size_t i = 0; i < g->values.n; i++) {
        struct ir_value *v = &g->values.v[i];
        if (v->kind != IR_CONSTANT) continue;
        int32_t w = v->name ? model_find_weight(in->m, v->name) : -1;
        if (w < 0)
            return instance_fails(in, "constant %%%zu, \"%.100s\", is none of its tensors", i, v->name ? v->name : "");
        kiln_tensor *t = in->m->weights.v[w].t;
        if (!type_equal(&t->type, &v->type)) return another_type(in, "constant", v->name, &t->type, i, &v->type);
        kiln_tensor *held = tensor_on(t->storage, &t->type, &t->layout);
        if (!held) return error_pending;
        held->constant = true; // to a capture around the call, too
        v->held = c->constants[c->n_constants++] = kiln_own(held);
    }
    return KILN_OK;
}

// Inside of a capture it is the one that the leaf has there. *out NULL: it has none.
static kiln_status find_gradient(kiln_tensor *t, kiln_tensor **out)
{
    struct sink *s = thread_state.sink;
    if (!s || !s->capture) return leaf_hold_gradient(t->node, out);
    *out = kiln_gradient(t);
    return error_pending;
}

static kiln_status check_no_gradient(const struct model_instance *in, kiln_tensor *t, const char *name)
{
    kiln_tensor *g;
    TRY(find_gradient(t, &g));
    if (!g) return KILN_OK;
    return error_set(KILN_E_GRADIENT,
                     "call: %s was added when %.100s had no gradient, and adds to it or reads it; now it has one: call "
                     "kiln_set_gradient with NULL before, or add the function when there is one",
                     in->f->name, name);
}

static kiln_status place_input(struct model_instance *in, const struct face_source *from, struct source *s)
{
    kiln_tensor *t = in->q->in[from->index];
    s->kind = t->storage || (t->builder && !t->type.weak) ? SOURCE_INPUT : SOURCE_NUMBER;
    s->input = (size_t)from->index;
    s->type = t->type;
    s->layout = t->layout;
    bool leaf = t->node && t->node->kind == NODE_LEAF;
    if (leaf && s->kind == SOURCE_INPUT) s->leaf = node_ref(t->node);
    if ((from->changed || from->no_gradient) && !(leaf && node_requires_grad(t->node)))
        return error_set(KILN_E_GRADIENT, "call: %s leaves a gradient in input %d: give a parameter", in->f->name,
                         (int)from->index);
    in->c->source_of[from->index] = (int32_t)(in->c->n_sources);
    return from->no_gradient ? check_no_gradient(in, t, in->face.in.v[from->index].name) : KILN_OK;
}

static kiln_status place_weight(struct model_instance *in, const struct face_source *from, struct source *s)
{
    const struct model_weight *w = &in->m->weights.v[from->index];
    if (!w->t->node || w->t->node->kind != NODE_LEAF)
        return instance_fails(in, "\"%.100s\" is a constant, and read as what may change", w->name);
    s->kind = SOURCE_LEAF;
    s->type = w->t->type;
    s->layout = w->t->layout;
    s->leaf = node_ref(w->t->node);
    s->storage = storage_ref(w->t->storage);
    s->grad = s->leaf->leaf->requires_grad;
    return from->no_gradient ? check_no_gradient(in, w->t, w->name) : KILN_OK;
}

static kiln_status place_gradient(struct model_instance *in, const struct face_source *from, struct source *s)
{
    bool of_input = from->from == FROM_INPUT_GRADIENT;
    kiln_tensor *t = of_input ? in->q->in[from->index] : in->m->weights.v[from->index].t, *g = NULL;
    s->kind = SOURCE_GRADIENT;
    s->of_input = of_input;
    s->input = of_input ? (size_t)from->index : 0;
    bool leaf = t->node && t->node->kind == NODE_LEAF;
    if (leaf && !of_input) s->leaf = node_ref(t->node);
    if (leaf) TRY(find_gradient(t, &g));
    if (!g || (!g->storage && !g->builder))
        return error_set(KILN_E_GRADIENT, "call: %s reads the gradient of %s, which has none", in->f->name,
                         of_input ? in->face.in.v[from->index].name : in->m->weights.v[from->index].name);
    s->type = g->type;
    s->layout = g->layout;
    return KILN_OK;
}

static const char *const source_words[] = {[FROM_INPUT] = "input",
                                           [FROM_WEIGHT] = "weight",
                                           [FROM_GRADIENT] = "the gradient of",
                                           [FROM_INPUT_GRADIENT] = "the gradient of input"};

static kiln_status place_source(struct model_instance *in, size_t i)
{
    const struct face_source *from = &in->face.sources.v[i];
    const struct ir_value *v = &in->c->graph->values.v[in->input_values[i]];
    bool of_input = from->from == FROM_INPUT || from->from == FROM_INPUT_GRADIENT;
    struct source *s = &in->c->sources[i];
    size_t most = of_input ? in->face.in.n : in->m->weights.n;
    if ((size_t)from->index >= most)
        return instance_fails(in, "source %zu is number %d of %zu", i, (int)from->index, most);
    *s = (struct source){.value = in->input_values[i],
                         .written = from->written,
                         .again = from->again,
                         .gradient_read = from->gradient_read,
                         .changed = from->changed,
                         .no_gradient = from->no_gradient,
                         .outer = -1};
    kiln_status status = from->from == FROM_INPUT    ? place_input(in, from, s)
                         : from->from == FROM_WEIGHT ? place_weight(in, from, s)
                                                     : place_gradient(in, from, s);
    in->c->n_sources++; // so that what it holds goes
    if (!status && !type_equal(&s->type, &v->type))
        status = another_type(in, source_words[from->from],
                              of_input ? in->face.in.v[from->index].name : in->m->weights.v[from->index].name, &s->type,
                              (size_t)s->value, &v->type);
    s->row_major = !source_is_number(s) && layout_is_contiguous(&s->type, &s->layout);
    return status;
}

static kiln_status place_sources(struct model_instance *in)
{
    size_t n, n_in = in->q->n_in;
    in->input_values = list_inputs(in->c->graph, &n);
    if (!in->input_values) return error_pending;
    if (n != in->face.sources.n)
        return instance_fails(in, "its graph has %zu inputs, %zu are described", n, in->face.sources.n);
    in->c->sources = calloc(n + 1, sizeof *in->c->sources);
    in->c->source_of = malloc(sizeof *in->c->source_of * (n_in + 1));
    if (!in->c->sources || !in->c->source_of) return error_set(KILN_E_MEMORY, "call: out of memory");
    for (size_t i = 0; i < n_in; i++) in->c->source_of[i] = -1;
    for (size_t i = 0; i < n; i++) TRY(place_source(in, i));
    for (size_t i = 0; i < n_in; i++)
        if (in->c->source_of[i] < 0 && !in->face.in.v[i].fixed)
            return instance_fails(in, "input %zu is given to nothing", i);
    return KILN_OK;
}

static int32_t source_of_value(const struct model_instance *in, int32_t value)
{
    for (size_t i = 0; i < in->c->n_sources; i++)
        if (in->c->sources[i].value == value) return (int32_t)i;
    return -1;
}

static kiln_status place_writes(struct model_instance *in)
{
    const struct kiln_graph *g = in->c->graph;
    for (size_t i = 0; i < g->outputs.n; i++) {
        if (g->outputs.v[i].target < 0) continue;
        int32_t s = source_of_value(in, g->outputs.v[i].target);
        if (s < 0 || source_is_number(&in->c->sources[s]))
            return instance_fails(in, "it writes %%%d, which is not given to it", (int)g->outputs.v[i].target);
        in->c->sources[s].written = true;
    }
    return KILN_OK;
}

static bool shares(const struct source *a, const struct storage *of_a, const struct source *b,
                   const struct storage *of_b)
{
    return of_a && of_a == of_b && layout_overlap(&a->type, &a->layout, &b->type, &b->layout);
}

static const struct storage *storage_of(const struct model_instance *in, const struct source *s)
{
    return s->kind == SOURCE_INPUT ? in->q->in[s->input]->storage : s->storage;
}

// The graph takes its inputs for apart.
static kiln_status check_apart(const struct model_instance *in)
{
    const struct captured *c = in->c;
    for (size_t i = 0; i < c->n_sources; i++)
        for (size_t k = 0; k < i; k++) {
            const struct source *a = &c->sources[i], *b = &c->sources[k];
            if ((a->written || b->written) && shares(a, storage_of(in, a), b, storage_of(in, b)))
                return error_set(KILN_E_UNSUPPORTED,
                                 "call: inputs %zu and %zu of the graph of %s share memory, of which it writes; pass a "
                                 "copy",
                                 k, i, in->f->name);
        }
    return KILN_OK;
}

// --- what becomes of its outputs

const struct type *instance_output_type(const struct model_instance *in, int32_t output)
{
    const struct kiln_graph *g = in->c->graph;
    for (size_t i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].target < 0 && output-- == 0) return &g->values.v[g->outputs.v[i].value].type;
    return NULL;
}

static bool lies_inside(const struct type *t, const struct layout *l, const struct type *whole)
{
    int64_t first, last;
    if (t->dtype != whole->dtype) return false;
    if (!layout_reach(t, l, &first, &last)) return true; // no elements
    return first >= 0 && last < type_numel(whole);
}

static kiln_status place_part(struct model_instance *in, size_t i, const struct face_result *from, struct result *to)
{
    const struct type *whole = instance_output_type(in, to->index);
    if (!whole) return instance_fails(in, "result %zu is output %d, which is not there", i, (int)to->index);
    to->part = from->placed;
    bool fits = to->part ? lies_inside(&to->type, &to->layout, whole) : type_equal(&to->type, whole);
    return fits ? KILN_OK : instance_fails(in, "result %zu does not fit output %d", i, (int)to->index);
}

static kiln_status place_shown(struct model_instance *in, size_t i, const struct face_result *from, struct result *to)
{
    if ((size_t)to->index >= in->c->n_sources || in->c->sources[to->index].kind == SOURCE_GRADIENT)
        return instance_fails(in, "result %zu shows source %d, which it cannot", i, (int)to->index);
    const struct source *s = &in->c->sources[to->index];
    if (!from->placed) {
        to->layout = s->layout;
        return type_equal(&to->type, &s->type) ? KILN_OK
                                               : instance_fails(in, "result %zu has another type than its source", i);
    }
    if (!s->row_major)
        return error_set(KILN_E_UNSUPPORTED,
                         "call: %s gives a view of input %zu, which is to be row-major: pass what "
                         "kiln_contiguous gives",
                         in->f->name, s->input);
    if (!lies_inside(&to->type, &to->layout, &s->type))
        return instance_fails(in, "result %zu lies outside of its source", i);
    to->layout.offset += s->layout.offset;
    return KILN_OK;
}

static kiln_status place_results(struct model_instance *in)
{
    size_t n = in->face.results.n;
    in->c->results = calloc(n + 1, sizeof *in->c->results);
    if (!in->c->results) return error_set(KILN_E_MEMORY, "call: out of memory");
    for (size_t i = 0; i < n; i++) {
        const struct face_result *from = &in->face.results.v[i];
        struct result *to = &in->c->results[i];
        *to = from->r;
        if (to->kind == RESULT_OUTPUT) TRY(place_part(in, i, from, to));
        if (to->kind == RESULT_SOURCE) TRY(place_shown(in, i, from, to));
    }
    in->c->n_results = n;
    return KILN_OK;
}

static kiln_status check_left(const struct model_instance *in, const struct left_gradient *l)
{
    if ((size_t)l->source >= in->c->n_sources)
        return instance_fails(in, "it leaves a gradient in source %d", (int)l->source);
    const struct source *s = &in->c->sources[l->source];
    if (s->kind != SOURCE_LEAF && s->kind != SOURCE_INPUT)
        return instance_fails(in, "it leaves a gradient in source %d, no parameter", (int)l->source);
    if (!node_requires_grad(source_leaf(s, in->q->in)))
        return error_set(KILN_E_GRADIENT, "call: %s leaves a gradient in a parameter that requires none now",
                         in->f->name);
    const struct type *t = l->output < 0 ? &s->type : instance_output_type(in, l->output);
    return t && type_same_shape(t, &s->type)
               ? KILN_OK
               : instance_fails(in, "the gradient of source %d does not fit", (int)l->source);
}

static kiln_status check_step(const struct model_instance *in, const struct gradient_step *g)
{
    bool known = g->event == GRADIENT_RUN || g->event == GRADIENT_LEFT || g->event == GRADIENT_SET;
    bool fits = g->source < (int32_t)in->c->n_sources && g->value < (int32_t)in->c->graph->values.n &&
                (g->output < 0 || instance_output_type(in, g->output)) && g->n_nodes <= in->c->graph->nodes.n;
    const struct source *s = fits && g->source >= 0 ? &in->c->sources[g->source] : NULL;
    fits &= !s || s->kind == SOURCE_LEAF || s->kind == SOURCE_INPUT;
    fits &= g->event == GRADIENT_RUN || s;
    return known && fits ? KILN_OK : instance_fails(in, "a step of its gradients does not fit its graph");
}

static kiln_status check_happened(const struct model_instance *in, const struct happened *h)
{
    const struct kiln_graph *g = in->c->graph;
    bool fits = h->value < (int32_t)g->values.n && source_of_value(in, h->target) >= 0 && h->n_nodes <= g->nodes.n &&
                h->region < (int32_t)g->regions.n;
    return fits ? KILN_OK : instance_fails(in, "a write does not fit its graph");
}

// A list of the interface becomes one of the capture.
#define TAKE_LIST(in, from, to, count)                      \
    do {                                                    \
        (in)->c->to = (in)->face.from.v;                    \
        (in)->c->count = (in)->face.from.n;                 \
        memset(&(in)->face.from, 0, sizeof(in)->face.from); \
    } while (0)

static kiln_status place_effects(struct model_instance *in)
{
    for (size_t i = 0; i < in->face.left.n; i++) TRY(check_left(in, &in->face.left.v[i]));
    for (size_t i = 0; i < in->face.steps.n; i++) TRY(check_step(in, &in->face.steps.v[i]));
    for (size_t i = 0; i < in->face.happened.n; i++) TRY(check_happened(in, &in->face.happened.v[i]));
    TAKE_LIST(in, left, left, n_left);
    TAKE_LIST(in, steps, gradient_steps, n_gradient_steps);
    TAKE_LIST(in, happened, happened, n_happened);
    in->c->counters = in->face.counters;
    return KILN_OK;
}

// --- the whole

// Outputs that only a backward needs go where there is none.
static void drop_saved(struct model_instance *in)
{
    struct kiln_graph *g = in->c->graph;
    int32_t last = -1, output = 0;
    for (size_t i = 0; i < in->c->n_results; i++)
        if (in->c->results[i].kind == RESULT_OUTPUT && in->c->results[i].index > last) last = in->c->results[i].index;
    for (size_t i = 0; i < in->c->n_left; i++)
        if (in->c->left[i].output > last) last = in->c->left[i].output;
    for (size_t i = 0; i < in->c->n_gradient_steps; i++)
        if (in->c->gradient_steps[i].output > last) last = in->c->gradient_steps[i].output;
    size_t kept = 0;
    for (size_t i = 0; i < g->outputs.n; i++) {
        bool is_result = g->outputs.v[i].target < 0;
        if (!is_result || output <= last) g->outputs.v[kept++] = g->outputs.v[i];
        output += is_result;
    }
    g->outputs.n = kept;
}

static struct kiln_graph *read_graph(const struct model_instance *in, const char *text, const size_list *sizes)
{
    char where[160];
    const struct ir_sizes s = {sizes->n, sizes->v};
    snprintf(where, sizeof where, "the graph of %.120s", in->f->name);
    return ir_parse_sized(text, strlen(text), where, &s);
}

static void count_outputs(struct captured *c)
{
    c->n_outputs = 0;
    for (size_t i = 0; i < c->graph->outputs.n; i++) c->n_outputs += c->graph->outputs.v[i].target < 0;
}

static kiln_status find_device(struct model_instance *in)
{
    in->c->dev = in->m->dev;
    for (size_t i = 0; i < in->q->n_in && !in->c->dev; i++)
        if (in->q->in[i]->storage) in->c->dev = in->q->in[i]->storage->dev;
    if (!in->c->dev) in->c->dev = device_default();
    return in->c->dev ? KILN_OK : error_pending;
}

static kiln_status fill(struct model_instance *in, const size_list *sizes)
{
    const struct face_names names = model_names(in->m);
    const struct ir_sizes s = {sizes->n, sizes->v};
    TRY(interface_parse(in->f->interface, strlen(in->f->interface), in->f->name, &names, &s, &in->face));
    TRY(check_inputs(in));
    TRY(find_device(in));
    in->c->graph = read_graph(in, in->f->forward, sizes);
    if (!in->c->graph) return error_pending;
    TRY(instance_bind_constants(in, in->c->graph));
    TRY(place_sources(in));
    TRY(place_writes(in));
    TRY(check_apart(in));
    TRY(place_results(in));
    TRY(place_effects(in));
    TRY(host_hold_calls(in->c));
    if (!instance_wants_gradient(in)) {
        drop_saved(in);
        count_outputs(in->c);
        return KILN_OK;
    }
    count_outputs(in->c);
    struct kiln_graph *backward = in->f->backward ? read_graph(in, in->f->backward, sizes) : NULL;
    return error_pending ? error_pending : instance_make_gradient(in, backward);
}

kiln_status instance_make(void *user, const struct capture_request *q, struct captured *out)
{
    const struct instance_user *u = user;
    struct model_instance in = {.m = u->model, .f = &u->model->functions.v[u->function], .q = q, .c = out};
    struct host_numbers numbers = {0};
    size_list sizes = {0};
    *out = (struct captured){0};
    kiln_status status = check_counts(&in);
    if (!status) status = host_numbers_of(u->model, &numbers, &sizes);
    if (!status) status = add_sizes(&in, &sizes);
    if (!status) status = fill(&in, &sizes);
    host_numbers_drop(&numbers);
    vec_free(&sizes);
    interface_finish(&in.face);
    free(in.input_values);
    if (status) captured_finish(out);
    return status;
}

void instance_drop(void *user)
{
    struct instance_user *u = user;
    model_unref(u->model);
    free(u);
}
