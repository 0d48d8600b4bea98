// Differentiating a capture.
//
// The function has run on abstract tensors, and where its inputs or parameters require gradients the tape has recorded
// it. The backward engine now runs back from the results, on abstract gradients, by the same rules as ever; the nodes
// that it appends are the backward half of a joint graph. split_graph cuts that in two.
#include "jit/capture/gradient.h"
#include "base/leave.h"
#include "grad/fit.h"
#include "grad/run.h"
#include "jit/capture/capture.h"
#include "jit/capture/recorder.h"
#include <stdlib.h>
#include <string.h>

void gradient_finish(struct gradient *g)
{
    lock_unguard(&g->guarded);
    if (g->all.graph) pthread_mutex_destroy(&g->lock);
    backward_finish(&g->all);
    for (struct backward *b; (b = g->some);) {
        g->some = b->next;
        backward_finish(b);
        free(b);
    }
    free(g->failure);
    free(g->targets);
    free(g->saved);
    free(g->rewritten);
    free(g->types);
    free(g->values);
    free(g->cuts);
    free(g->douts);
    free(g->used_up);
    free(g->arrived);
    free(g->leads);
    *g = (struct gradient){0};
}

struct differentiation {
    struct recorder *r;
    struct captured *c;
    struct gradient *g;
    kiln_tensor *const *in, *const *made;
    size_t n_in, n_results;
    struct tape_node **nodes; // by target; references
    kiln_tensor **grads;      // by target
    kiln_tensor **roots;      // by output of the node
    kiln_tensor **sens;       // by output of the node; NULL: nothing flows back
    void *room;               // of these
};

static bool is_target(const struct differentiation *d, const struct tape_node *n)
{
    for (size_t i = 0; i < d->g->n_targets; i++)
        if (d->nodes[i] == n) return true;
    return false;
}

static void add_target(struct differentiation *d, struct tape_node *n, int32_t input, int32_t source)
{
    if (is_target(d, n)) return;
    d->nodes[d->g->n_targets] = node_ref(n);
    d->g->targets[d->g->n_targets++] = (struct target){input, source};
}

static kiln_status find_targets(struct differentiation *d, struct tape_node *const *nodes)
{
    for (size_t i = 0; i < d->n_in; i++) {
        if (!node_requires_grad(nodes[i])) continue;
        int32_t source = d->c->source_of[i];
        uint8_t kind = source < 0 ? SOURCE_INPUT : d->r->sources.v[source].kind;
        if (kind == SOURCE_SPAN || kind == SOURCE_MEMORY)
            return error_set(KILN_E_UNSUPPORTED,
                             "call: input %zu of %s requires a gradient and shares its memory with another tensor, and "
                             "that memory is written; pass a copy",
                             i, d->r->name);
        if (source >= 0) add_target(d, nodes[i], (int32_t)i, source);
    }
    for (size_t i = 0; i < d->r->sources.n; i++) {
        const struct source *s = &d->r->sources.v[i];
        if (s->kind == SOURCE_LEAF && (s->grad || s->history))
            add_target(d, s->grad ? s->leaf : s->place, -1, (int32_t)i);
    }
    return KILN_OK;
}

static kiln_status add_rewritten(struct differentiation *d, size_t input, const struct source *s)
{
    const struct kiln_tensor *t = d->in[input];
    kiln_tensor *root = d->r->variables.v[s->variable].current;
    if (s->kind != SOURCE_INPUT) TRY(variable_show(d->r, s->variable, &t->type, &t->layout, &root));
    int32_t output = (int32_t)d->g->n_outputs;
    d->g->rewritten[d->g->n_rewritten++] = (struct rewritten){(int32_t)input, -1, output};
    d->roots[d->g->n_outputs++] = root;
    return KILN_OK;
}

// What was written to a state with a tape: its value has another history, or none any more.
static kiln_status add_written_state(struct differentiation *d, size_t i)
{
    const struct source *s = &d->r->sources.v[i];
    const struct variable *v = &d->r->variables.v[s->variable];
    const struct tape_node *before = s->place ? s->place : s->leaf;
    bool shared = s->kind == SOURCE_MEMORY || v->parted;
    if (shared && v->written && node_requires_grad(v->current->node))
        return error_set(KILN_E_UNSUPPORTED,
                         "call: %s writes what requires a gradient to memory that a state, or what kiln_stop_gradient "
                         "gave, shares with another tensor; give one of them memory of its own, or use "
                         "KILN_CAPTURE_AUTO",
                         d->r->name);
    if (s->kind != SOURCE_LEAF || s->grad || !v->written || v->current->node == before) return KILN_OK;
    if (!s->history && !node_requires_grad(v->current->node)) return KILN_OK;
    int32_t output = (int32_t)d->g->n_outputs;
    d->g->rewritten[d->g->n_rewritten++] = (struct rewritten){-1, (int32_t)i, output};
    d->roots[d->g->n_outputs++] = v->current;
    return KILN_OK;
}

// The memory of inputs that was written has a new place on the caller's tape. Parameters keep theirs.
static kiln_status find_rewritten(struct differentiation *d)
{
    for (size_t i = 0; i < d->n_in; i++) {
        const struct source *s = d->c->source_of[i] < 0 ? NULL : &d->r->sources.v[d->c->source_of[i]];
        if (!s || source_is_number(s) || (s->kind == SOURCE_INPUT && s->input != i)) continue;
        const struct variable *v = &d->r->variables.v[s->variable];
        bool leaf = v->current->node && v->current->node->kind == NODE_LEAF;
        if (v->written && !leaf) TRY(add_rewritten(d, i, s));
    }
    for (size_t i = 0; i < d->r->sources.n; i++) TRY(add_written_state(d, i));
    return KILN_OK;
}

static kiln_status add_dout(struct differentiation *d, size_t i, const struct tape_edge *root, struct run *run)
{
    struct kiln_graph *graph = d->r->sink.builder.graph;
    struct type type;
    char name[32];
    grad_type_of(&d->roots[i]->type, &type);
    snprintf(name, sizeof name, "dout%zu", i);
    int32_t value = ir_add_input(graph, &type, name);
    kiln_tensor *dout = variable_handle(d->r, &type, value);
    if (!dout) return error_pending;
    d->sens[i] = dout;
    d->g->douts[i] = value; // its place, later
    d->g->n_douts++;
    kiln_tensor *given = variable_handle(d->r, &type, value);
    return given ? run_add(run, root, given) : error_pending;
}

static kiln_status run_back(struct differentiation *d, uint64_t since, uint64_t until)
{
    struct run run = {.since = since,
                      .inputs_until = until,
                      .n_targets = d->g->n_targets,
                      .targets = d->nodes,
                      .captured = d->grads,
                      .may_be_absent = true,
                      .cuts = true};
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < d->g->n_outputs && !status; i++) {
        struct tape_edge root;
        int32_t value = d->g->values[i];
        d->g->douts[i] = d->g->values[i] = -1;
        d->g->types[i] = d->roots[i]->type;
        status = tape_current(d->roots[i], &root);
        if (!status && root.node && root.node->freed) d->g->used_up[i] = root.node->op;
        bool leads_on =
            (node_requires_grad(root.node) || node_is_cut(root.node)) && dtype_has_gradient(d->roots[i]->type.dtype);
        if (status || !leads_on || root.node->freed) continue;
        d->g->values[i] = value;
        status = add_dout(d, i, &root, &run);
    }
    if (!status && d->g->n_douts) status = run_backward(&run);
    run_finish(&run);
    return status;
}

// With the sources in *s.
static kiln_status split(struct differentiation *d, struct split *s)
{
    struct gradient *g = d->g;
    size_t n = 0;
    int32_t *values = calloc(g->n_outputs + g->n_targets + 1, sizeof *values);
    if (!values) return error_set(KILN_E_MEMORY, "jit: out of memory");
    kiln_status status = KILN_OK;
    int32_t *douts = values, *grads = douts + g->n_outputs;
    for (size_t i = 0; i < g->n_outputs; i++)
        if (g->douts[i] >= 0) {
            douts[n] = g->douts[i];
            g->douts[i] = (int32_t)n++;
        }
    int32_t next = 0;
    for (size_t i = 0; i < g->n_targets && !status; i++) {
        grads[i] = g->all.outputs[i] = -1;
        if (!d->grads[i]) continue;
        status = recorder_resolve(d->r, "backward", d->grads[i], &d->grads[i]);
        if (!status) status = recorder_value(d->r, d->grads[i], &grads[i]);
        g->all.outputs[i] = next++;
    }
    s->douts = douts, s->n_douts = n;
    s->grads = grads, s->n_grads = g->n_targets;
    if (!status) status = split_graph(d->r->sink.builder.graph, s);
    free(values);
    if (status) return status;
    g->all.graph = s->backward;
    g->saved = s->saved;
    g->n_saved = s->n_saved;
    pthread_mutex_init(&g->lock, NULL);
    lock_guard(&g->guarded, &g->lock, false);
    return KILN_OK;
}

// Gradients of gradients run the forward part again.
static kiln_status find_sources_of_values(struct differentiation *d)
{
    const struct kiln_graph *g = d->r->sink.builder.graph;
    bool *needed = calloc(g->values.n + 1, sizeof *needed);
    if (!needed) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < d->g->n_outputs; i++)
        if (d->g->values[i] >= 0) needed[d->g->values[i]] = true;
    for (size_t i = g->nodes.n; i-- > 0;) {
        const struct ir_node *n = &g->nodes.v[i];
        bool is = false;
        for (int k = 0; k < n->n_out; k++) is |= needed[n->first_out + k];
        for (int k = 0; k < n->n_in && is; k++)
            if (ir_operands(g, n)[k] >= 0) needed[ir_operands(g, n)[k]] = true;
    }
    for (size_t i = 0; i < d->r->sources.n; i++) d->r->sources.v[i].again = needed[d->r->sources.v[i].value];
    for (size_t i = 0; i < d->g->n_targets; i++) d->r->sources.v[d->g->targets[i].source].again = true;
    free(needed);
    return KILN_OK;
}

static kiln_status split_capture(struct differentiation *d, struct split *s)
{
    size_t n = d->r->sources.n;
    int32_t *values = calloc(n + 1, sizeof *values);
    bool *written = calloc(n + 1, sizeof *written);
    kiln_status status = values && written ? KILN_OK : error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < n && !status; i++) {
        values[i] = d->r->sources.v[i].value;
        written[i] = d->r->variables.v[d->r->sources.v[i].variable].written > 0;
    }
    s->sources = values, s->n_sources = n, s->written = written;
    if (!status) status = split(d, s);
    if (!status) status = find_sources_of_values(d);
    free(values);
    free(written);
    return status;
}

static void count_outputs(struct captured *c)
{
    c->n_outputs = 0;
    for (size_t i = 0; i < c->graph->outputs.n; i++) c->n_outputs += c->graph->outputs.v[i].target < 0;
}

// What a backward that failed has left.
static void cut_back(struct kiln_graph *g, const struct split *s)
{
    g->nodes.n = s->n_nodes;
    g->values.n = s->n_values;
    g->operands.n = s->n_operands;
    g->regions.n = s->n_regions;
}

// A function without a gradient may be called all the same; backward says what is missing.
static kiln_status keep_failure(struct differentiation *d, const struct split *s)
{
    d->g->failure = malloc(sizeof *d->g->failure);
    if (!d->g->failure) return error_pending;
    error_capture(d->g->failure);
    cut_back(d->r->sink.builder.graph, s);
    return KILN_OK;
}

static kiln_status differentiate(struct differentiation *d, struct tape_node *const *nodes, uint64_t since,
                                 uint64_t until)
{
    struct kiln_graph *graph = d->r->sink.builder.graph;
    TRY(find_targets(d, nodes));
    if (d->g->n_targets == 0) return KILN_OK;
    d->g->n_outputs = d->c->n_results;
    for (size_t i = 0; i < d->c->n_results; i++) d->roots[i] = d->made[i];
    TRY(find_rewritten(d));
    if (d->g->n_outputs > UINT8_MAX)
        return error_set(KILN_E_UNSUPPORTED,
                         "call: %s has %zu results, written inputs and states, a gradient takes %d at most", d->r->name,
                         d->g->n_outputs, UINT8_MAX);
    for (size_t i = 0; i < d->g->n_outputs; i++) {
        TRY(variable_refresh(d->r, d->roots[i]));
        d->g->values[i] = d->roots[i]->value;
        TRY(replayed_operand(d->r, d->roots[i], &d->g->values[i]));
    }
    d->g->is_unlike_replay = d->r->is_unlike_replay;
    struct split s = {.n_nodes = graph->nodes.n,
                      .n_values = graph->values.n,
                      .n_operands = graph->operands.n,
                      .n_regions = graph->regions.n};
    kiln_status status = run_back(d, since, until);
    if (!status && d->g->n_douts) status = split_capture(d, &s);
    if (status == KILN_E_GRADIENT) status = keep_failure(d, &s);
    count_outputs(d->c);
    return status;
}

static kiln_status make_room(struct differentiation *d, size_t n_targets, size_t n_outputs)
{
    struct gradient *g = d->g;
    d->room = calloc(2 * n_targets + 2 * n_outputs, sizeof(void *));
    g->targets = calloc(n_targets, sizeof *g->targets);
    g->rewritten = calloc(n_outputs, sizeof *g->rewritten);
    g->types = calloc(n_outputs, sizeof *g->types);
    g->values = calloc(n_outputs, sizeof *g->values);
    g->douts = calloc(n_outputs, sizeof *g->douts);
    g->used_up = calloc(n_outputs, sizeof *g->used_up);
    g->all.outputs = malloc(n_targets * sizeof *g->all.outputs);
    bool ok =
        d->room && g->all.outputs && g->targets && g->rewritten && g->types && g->values && g->douts && g->used_up;
    if (!ok) return error_set(KILN_E_MEMORY, "jit: out of memory");
    memset(g->all.outputs, -1, n_targets * sizeof *g->all.outputs);
    d->nodes = d->room;
    d->grads = (kiln_tensor **)d->room + n_targets;
    d->roots = (kiln_tensor **)d->room + 2 * n_targets;
    d->sens = d->roots + n_outputs;
    return KILN_OK;
}

static void finish(void *at)
{
    struct differentiation *d = at;
    for (size_t i = 0; d->room && i < d->g->n_targets; i++) node_unref(d->nodes[i]);
    free(d->room);
}

static kiln_status find_cuts(struct differentiation *d)
{
    for (size_t i = 0; i < d->n_results; i++) {
        struct tape_edge place;
        TRY(tape_current(d->made[i], &place));
        if (!node_is_cut(d->made[i]->node)) continue;
        if (!d->g->cuts) d->g->cuts = calloc(d->n_results, sizeof *d->g->cuts);
        if (!d->g->cuts) return error_set(KILN_E_MEMORY, "jit: out of memory");
        d->g->cuts[i] = d->made[i]->node;
    }
    return KILN_OK;
}

kiln_status gradient_make(struct recorder *r, struct captured *c, kiln_tensor *const *in, size_t n_in,
                          kiln_tensor *const *made, struct tape_node *const *nodes, uint64_t since, uint64_t until)
{
    if (thread_state.no_grad) return KILN_OK;
    struct differentiation d = {
        .r = r, .c = c, .g = &c->gradient, .in = in, .made = made, .n_in = n_in, .n_results = c->n_results};
    struct leave left;
    leave_push(&left, finish, &d); // by a rule of the user's
    kiln_status status = make_room(&d, n_in + r->sources.n + 1, c->n_results + n_in + r->sources.n + 1);
    if (!status) status = find_cuts(&d);
    if (!status) status = differentiate(&d, nodes, since, until);
    leave_pop(&left);
    finish(&d);
    return status;
}

kiln_status gradient_of_part(struct recorder *r, const struct part_graph *p, struct gradient *g)
{
    struct kiln_graph *graph = r->sink.builder.graph;
    struct differentiation d = {.r = r, .g = g, .n_results = p->n_roots};
    struct leave left;
    leave_push(&left, finish, &d);
    kiln_status status = make_room(&d, p->n_targets + 1, p->n_roots + 1);
    g->n_outputs = status ? 0 : p->n_roots;
    for (size_t i = 0; i < p->n_targets && !status; i++) {
        d.nodes[i] = node_ref(p->targets[i]);
        g->targets[g->n_targets++] = (struct target){-1, -1};
    }
    for (size_t i = 0; i < p->n_roots && !status; i++) {
        d.roots[i] = p->roots[i];
        g->values[i] = d.roots[i]->value;
    }
    struct split s = {.n_nodes = graph->nodes.n,
                      .n_values = graph->values.n,
                      .n_operands = graph->operands.n,
                      .n_regions = graph->regions.n,
                      .sources = p->sources,
                      .written = p->written,
                      .n_sources = p->n_sources,
                      .again = p->again};
    if (!status) status = run_back(&d, p->since, p->until);
    if (!status) status = split(&d, &s);
    if (status == KILN_E_GRADIENT) cut_back(graph, &s); // its owner may go on without a gradient
    leave_pop(&left);
    finish(&d);
    return status;
}
