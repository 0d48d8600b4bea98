// What a capture found, as an interface, and the texts of a function.
#include "grad/registry.h"
#include "model/adding.h"
#include "model/host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void texts_init(struct texts *t)
{
    str_init(&t->interface);
    str_init(&t->forward);
    str_init(&t->backward);
}

void texts_free(struct texts *t)
{
    str_free(&t->interface);
    str_free(&t->forward);
    str_free(&t->backward);
}

struct gathering {
    struct adding *a;
    struct captured *c;
    struct interface face;
};

static const char *own_name(struct gathering *g, const char *format, size_t i)
{
    char name[48];
    snprintf(name, sizeof name, format, i);
    const char *kept = arena_strdup(&g->face.text->arena, name);
    if (!kept && !error_pending) error_set(KILN_E_MEMORY, "model_add: out of memory");
    return kept;
}

static kiln_status gather_rules(struct gathering *g)
{
    for (size_t i = 0; i < g->a->open.n; i++) TRY(vec_push(&g->face.rules, g->a->open.v[i].rule));
    return KILN_OK;
}

static size_t size_in(const struct gathering *g, size_t input, int dim)
{
    for (size_t i = 0; i < g->a->places.n; i++)
        if (g->a->places.v[i].input == input && g->a->places.v[i].dim == dim) return g->a->places.v[i].open + 1;
    return 0;
}

static kiln_status gather_input(struct gathering *g, size_t i)
{
    const kiln_tensor *t = g->a->in[i];
    struct face_input in = {.type = t->type, .fixed = !t->storage && g->c->source_of[i] < 0};
    in.name = g->a->inputs ? g->a->inputs[i] : own_name(g, "in%zu", i);
    in.number = t->number;
    in.integer = t->integer;
    for (int d = 0; d < t->type.rank; d++) in.symbols[d] = (int16_t)size_in(g, i, d);
    return in.name ? vec_push(&g->face.in, in) : error_pending;
}

// A number of the host's becomes an input behind those of the call.
static kiln_status gather_host_number(struct gathering *g, const struct source *s, struct face_source *to)
{
    struct face_input in = {.type = s->type, .name = own_name(g, "number%zu", g->face.in.n - g->a->n_in)};
    if (!in.name) return error_pending;
    for (size_t i = 0; g->a->inputs && i < g->a->n_in; i++)
        if (!strcmp(g->a->inputs[i], in.name))
            return error_set(KILN_E_ARGUMENT, "model_add: an input is named \"%s\", as a number of the host is",
                             in.name);
    to->from = FROM_INPUT;
    to->index = (int32_t)g->face.in.n;
    return vec_push(&g->face.in, in);
}

static const struct source *source_of_leaf(const struct captured *c, const struct tape_node *leaf)
{
    for (size_t i = 0; i < c->n_sources; i++)
        if (c->sources[i].kind == SOURCE_LEAF && c->sources[i].leaf == leaf) return &c->sources[i];
    return NULL;
}

static kiln_status gather_source(struct gathering *g, const struct source *s)
{
    struct face_source to = {.written = s->written,
                             .again = s->again,
                             .gradient_read = s->gradient_read,
                             .changed = s->changed,
                             .no_gradient = s->no_gradient};
    if (s->kind == SOURCE_HOST)
        TRY(gather_host_number(g, s, &to));
    else if (s->kind == SOURCE_INPUT || s->kind == SOURCE_NUMBER || s->of_input) {
        to.from = s->kind == SOURCE_GRADIENT ? FROM_INPUT_GRADIENT : FROM_INPUT;
        to.index = (int32_t)s->input;
    } else {
        to.from = s->kind == SOURCE_GRADIENT ? FROM_GRADIENT : FROM_WEIGHT;
        const struct source *of = s->kind == SOURCE_GRADIENT ? source_of_leaf(g->c, s->leaf) : s;
        to.index = of ? model_weight_of(g->a->m, of) : -1;
        if (!of)
            return error_set(KILN_E_UNSUPPORTED,
                             "model_add: %s reads the gradient of a parameter, and not the parameter", g->a->f->name);
        if (to.index < 0) return error_pending;
    }
    return vec_push(&g->face.sources, to);
}

static kiln_status gather_result(struct gathering *g, size_t i)
{
    struct face_result to = {.r = g->c->results[i]};
    to.name = g->a->outputs ? g->a->outputs[i] : own_name(g, "out%zu", i);
    to.placed = to.r.kind == RESULT_OUTPUT && to.r.part;
    if (to.r.kind == RESULT_SOURCE) {
        const struct source *s = &g->c->sources[to.r.index];
        to.placed = !source_is_number(s) && !result_is_whole(s, &to.r);
        to.r.layout.offset -= s->layout.offset;
        to.r.dense = false;
    }
    return to.name ? vec_push(&g->face.results, to) : error_pending;
}

static kiln_status gather_effects(struct gathering *g)
{
    const struct captured *c = g->c;
    for (size_t i = 0; i < c->n_left; i++) TRY(vec_push(&g->face.left, c->left[i]));
    for (size_t i = 0; i < c->n_happened; i++) TRY(vec_push(&g->face.happened, c->happened[i]));
    for (size_t i = 0; i < c->n_gradient_steps; i++) TRY(vec_push(&g->face.steps, c->gradient_steps[i]));
    g->face.counters = c->counters;
    return KILN_OK;
}

// A rule of the user's is in the backward graph, and nowhere for gradients of gradients.
static bool has_rules_of_users(const struct kiln_graph *g)
{
    for (size_t i = 0; i < g->nodes.n; i++) {
        const struct grad_rule *rule = grad_rule_of(g->nodes.v[i].op);
        if (rule && !grad_is_built_in(g->nodes.v[i].op, rule)) return true;
    }
    return false;
}

static kiln_status gather_gradient(struct gathering *g)
{
    const struct gradient *from = &g->c->gradient;
    for (size_t i = 0; i < from->n_targets; i++) {
        const struct face_target t = {from->targets[i], from->all.outputs[i]};
        TRY(vec_push(&g->face.targets, t));
    }
    for (size_t i = 0; i < from->n_saved; i++) TRY(vec_push(&g->face.saved, from->saved[i]));
    for (size_t i = 0; i < from->n_rewritten; i++) TRY(vec_push(&g->face.rewritten, from->rewritten[i]));
    for (size_t i = 0; from->n_targets && i < from->n_outputs; i++) {
        const struct face_place p = {from->types[i], from->values[i], from->douts[i],
                                     from->used_up[i] ? from->used_up[i]->name : NULL};
        TRY(vec_push(&g->face.places, p));
    }
    g->face.unlike = from->is_unlike_replay || has_rules_of_users(g->c->graph);
    g->face.without = thread_state.no_grad > 0;
    return KILN_OK;
}

static kiln_status gather(struct gathering *g)
{
    g->face.name = g->a->name;
    TRY(gather_rules(g));
    for (size_t i = 0; i < g->a->n_in; i++) TRY(gather_input(g, i));
    for (size_t i = 0; i < g->c->n_sources; i++) TRY(gather_source(g, &g->c->sources[i]));
    for (size_t i = 0; i < g->c->n_results; i++) TRY(gather_result(g, i));
    TRY(gather_effects(g));
    return gather_gradient(g);
}

// --- names in graphs

static kiln_status name_constants(const struct adding *a, struct kiln_graph *g)
{
    for (size_t i = 0; i < g->values.n; i++) {
        const struct ir_value *v = &g->values.v[i];
        if (v->kind != IR_CONSTANT) continue;
        const kiln_tensor *t = v->held;
        const struct source s = {.storage = t->storage, .type = t->type, .layout = t->layout};
        int32_t w = model_weight_of(a->m, &s);
        if (w < 0) return error_pending;
        TRY(ir_name_value(g, (int32_t)i, a->m->weights.v[w].name));
    }
    return KILN_OK;
}

static kiln_status name_hosts(const struct adding *a, struct kiln_graph *g)
{
    int64_t number;
    char name[24];
    for (size_t i = 0; i < g->nodes.n; i++) {
        if (!host_is_call(&g->nodes.v[i], &number)) continue;
        int32_t at = host_add(a->m, number);
        if (at < 0) return error_pending ? error_pending : error_set(KILN_E_INTERNAL, "model_add: a call of the host");
        ((struct attr *)g->nodes.v[i].attrs)->i = at;
        snprintf(name, sizeof name, "host%d", (int)at);
        if (ir_add_symbol(g, name, at) < 0) return error_pending;
    }
    return KILN_OK;
}

static kiln_status mark_sizes(const struct gathering *g, struct kiln_graph *graph, bool forward)
{
    for (size_t i = 0; i < g->a->open.n; i++)
        if (ir_add_symbol(graph, g->a->open.v[i].name, g->a->open.v[i].rule.seen) < 0) return error_pending;
    for (size_t i = 0; i < g->c->n_sources && forward; i++) {
        const struct source *s = &g->c->sources[i];
        for (int d = 0; d < s->type.rank && s->kind == SOURCE_INPUT; d++) {
            size_t open = size_in(g, s->input, d);
            if (open) TRY(ir_mark_symbol(graph, s->value, d, (int32_t)open - 1));
        }
    }
    return KILN_OK;
}

static kiln_status write_graph(const struct gathering *g, struct kiln_graph *graph, bool forward, struct str *out)
{
    TRY(adding_take_ops(g->a, graph));
    TRY(mark_sizes(g, graph, forward));
    TRY(name_constants(g->a, graph));
    TRY(name_hosts(g->a, graph));
    ir_graph_file_text(graph, out);
    TRY(str_check(out));
    return text_name_hosts(g->a->m, out);
}

kiln_status adding_gather(struct adding *a, struct captured *c, struct texts *out)
{
    struct gathering g = {.a = a, .c = c};
    g.face.text = ir_graph_create();
    kiln_status status = g.face.text ? gather(&g) : error_pending;
    if (!status) status = write_graph(&g, c->graph, true, &out->forward);
    if (!status && c->gradient.all.graph) status = write_graph(&g, c->gradient.all.graph, false, &out->backward);
    const struct face_names names = model_names(a->m);
    if (!status) interface_text(&g.face, &names, &out->interface);
    if (!status) status = str_check(&out->interface);
    interface_finish(&g.face);
    return status;
}
