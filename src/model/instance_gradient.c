// The gradient of an instance: which of the places that the file has one for want one now.
#include "grad/fit.h"
#include "grad/state.h"
#include "jit/capture/region.h"
#include "model/instance.h"
#include <stdlib.h>

static bool input_wants(const struct model_instance *in, size_t i)
{
    const kiln_tensor *t = in->q->in[i];
    return (t->node || t->family) && tensor_requires_grad(t);
}

static bool source_wants(const struct source *s)
{
    return s->kind == SOURCE_LEAF && s->grad;
}

bool instance_wants_gradient(const struct model_instance *in)
{
    if (thread_state.no_grad || in->face.without) return false;
    for (size_t i = 0; i < in->q->n_in; i++)
        if (input_wants(in, i)) return true;
    for (size_t i = 0; i < in->c->n_sources; i++)
        if (source_wants(&in->c->sources[i])) return true;
    return false;
}

static const struct face_target *find_target(const struct model_instance *in, int32_t input, int32_t source)
{
    for (size_t i = 0; i < in->face.targets.n; i++) {
        const struct face_target *t = &in->face.targets.v[i];
        if (t->target.input == input && (input >= 0 || t->target.source == source)) return t;
    }
    return NULL;
}

static kiln_status check_targets(const struct model_instance *in)
{
    for (size_t i = 0; i < in->face.targets.n; i++) {
        const struct face_target *t = &in->face.targets.v[i];
        bool fits = (size_t)t->target.source < in->c->n_sources && t->target.input < (int32_t)in->q->n_in;
        if (fits && t->target.input >= 0) fits = in->c->source_of[t->target.input] == t->target.source;
        if (fits && t->target.input < 0) fits = in->c->sources[t->target.source].kind == SOURCE_LEAF;
        if (!fits) return instance_fails(in, "gradient %zu is by nothing that it is given", i);
    }
    return KILN_OK;
}

static kiln_status without(const struct model_instance *in, const char *what, const char *name)
{
    return error_set(KILN_E_GRADIENT,
                     "call: %s \"%.100s\" requires a gradient, which it did not when %s was added to its model; add it "
                     "with gradients, or call it where they are off",
                     what, name, in->f->name);
}

// Whatever requires a gradient now did when the function was captured.
static kiln_status check_wanted(const struct model_instance *in)
{
    for (size_t i = 0; i < in->q->n_in; i++)
        if (input_wants(in, i) && !find_target(in, (int32_t)i, -1)) return without(in, "input", in->face.in.v[i].name);
    for (size_t i = 0; i < in->c->n_sources; i++) {
        const struct source *s = &in->c->sources[i];
        if (source_wants(s) && !find_target(in, -1, (int32_t)i))
            return without(in, "weight", in->m->weights.v[in->face.sources.v[i].index].name);
    }
    return KILN_OK;
}

static bool is_wanted(const struct model_instance *in, const struct face_target *t)
{
    return t->target.input >= 0 ? input_wants(in, (size_t)t->target.input)
                                : source_wants(&in->c->sources[t->target.source]);
}

static const struct type *backward_output(const struct kiln_graph *g, int32_t output)
{
    bool there = g && output < (int32_t)g->outputs.n && g->outputs.v[output].target < 0;
    return there ? &g->values.v[g->outputs.v[output].value].type : NULL;
}

// The backward graph gives what is wanted, in the order of the targets, and nothing else.
static kiln_status take_targets(struct model_instance *in, struct gradient *g, struct kiln_graph *backward)
{
    VEC(struct ir_output) outputs = {0};
    for (size_t i = 0; i < in->face.targets.n; i++) {
        const struct face_target *t = &in->face.targets.v[i];
        struct type want;
        if (!is_wanted(in, t)) continue;
        grad_type_of(&in->c->sources[t->target.source].type, &want);
        const struct type *is = t->output < 0 ? &want : backward_output(backward, t->output);
        if (!is || !type_same_shape(is, &want) || is->dtype != want.dtype) {
            vec_free(&outputs);
            return instance_fails(in, "gradient %zu does not fit what it is by", i);
        }
        g->targets[g->n_targets] = t->target;
        g->all.outputs[g->n_targets++] = t->output < 0 ? -1 : (int32_t)outputs.n;
        if (t->output >= 0 && vec_push(&outputs, backward->outputs.v[t->output])) break;
    }
    if (backward) backward->outputs.n = 0;
    for (size_t i = 0; i < outputs.n && !error_pending; i++) (void)vec_push(&backward->outputs, outputs.v[i]);
    vec_free(&outputs);
    return error_pending;
}

static kiln_status take_place(struct model_instance *in, struct gradient *g, size_t i)
{
    const struct face_place *p = &in->face.places.v[i];
    if (p->value >= (int32_t)in->c->graph->values.n || (p->dout >= 0) != (p->value >= 0))
        return instance_fails(in, "place %zu of the tape is value %d", i, (int)p->value);
    if (p->value >= 0 && !type_same_shape(&p->type, &in->c->graph->values.v[p->value].type))
        return instance_fails(in, "place %zu of the tape has another type than its value", i);
    if (p->value >= 0 && ir_value_region(in->c->graph, &in->c->graph->values.v[p->value]) >= 0)
        return instance_fails(in, "place %zu of the tape lies in a region", i);
    g->types[i] = p->type;
    g->values[i] = p->value;
    g->douts[i] = p->dout;
    if (p->used_up) g->used_up[i] = op_find(p->used_up);
    if (p->used_up && !g->used_up[i]) g->used_up[i] = region_op(p->used_up);
    if (p->used_up && !g->used_up[i]) return instance_fails(in, "there is no op \"%.60s\"", p->used_up);
    if (p->dout >= 0) g->n_douts++;
    return KILN_OK;
}

static kiln_status take_places(struct model_instance *in, struct gradient *g)
{
    size_t n = in->face.places.n;
    if (n != in->c->n_results + in->face.rewritten.n || n > UINT8_MAX)
        return instance_fails(in, "%zu places on the tape are described, there are %zu", n,
                              in->c->n_results + in->face.rewritten.n);
    for (size_t i = 0; i < n; i++) TRY(take_place(in, g, i));
    for (size_t i = 0; i < in->c->n_results; i++)
        if (!type_same_shape(&g->types[i], &in->c->results[i].type))
            return instance_fails(in, "result %zu has another type on the tape", i);
    g->n_outputs = n;
    return KILN_OK;
}

static kiln_status take_rewritten(struct model_instance *in, struct gradient *g)
{
    for (size_t i = 0; i < in->face.rewritten.n; i++) {
        const struct rewritten *w = &in->face.rewritten.v[i];
        bool of_input = w->input >= 0;
        bool fits = of_input ? w->input < (int32_t)in->q->n_in && in->c->source_of[w->input] >= 0 &&
                                   in->c->sources[in->c->source_of[w->input]].kind == SOURCE_INPUT
                             : w->source >= 0 && w->source < (int32_t)in->c->n_sources &&
                                   in->c->sources[w->source].kind == SOURCE_LEAF;
        fits &= w->output >= 0 && (size_t)w->output == in->c->n_results + i;
        int32_t at = !fits ? -1 : of_input ? in->c->source_of[w->input] : w->source;
        if (at < 0 || !type_same_shape(&in->c->sources[at].type, &g->types[w->output]))
            return instance_fails(in, "place %zu of what is written does not fit", i);
        g->rewritten[g->n_rewritten++] = *w;
    }
    return KILN_OK;
}

static kiln_status take_saved(struct model_instance *in, struct gradient *g)
{
    for (size_t i = 0; i < in->face.saved.n; i++) {
        const struct saved *s = &in->face.saved.v[i];
        const struct type *t = s->source < 0                           ? instance_output_type(in, s->output)
                               : s->source < (int32_t)in->c->n_sources ? &in->c->sources[s->source].type
                                                                       : NULL;
        if (!t || !type_equal(t, &s->type)) return instance_fails(in, "value %zu that is saved does not fit", i);
    }
    g->saved = in->face.saved.v;
    g->n_saved = in->face.saved.n;
    in->face.saved.v = NULL;
    in->face.saved.n = in->face.saved.cap = 0;
    return KILN_OK;
}

// Gradients come first, each once, then what was saved.
static kiln_status check_backward(const struct model_instance *in, const struct gradient *g)
{
    const struct kiln_graph *b = g->all.graph;
    size_t n = 0;
    for (size_t i = 0; i < b->values.n; i++) {
        if (b->values.v[i].kind != IR_INPUT) continue;
        const struct type *t = &b->values.v[i].type;
        struct type want = {0};
        bool found = false;
        for (size_t k = 0; k < g->n_outputs && n < g->n_douts; k++)
            if (g->douts[k] == (int32_t)n) {
                if (found) return instance_fails(in, "two places have gradient %zu", n);
                grad_type_of(&g->types[k], &want);
                found = true;
            }
        if (n >= g->n_douts && n - g->n_douts < g->n_saved) want = g->saved[n - g->n_douts].type, found = true;
        if (!found || !type_equal(t, &want))
            return instance_fails(in, "input %zu of its backward graph does not fit", n);
        n++;
    }
    if (n == g->n_douts + g->n_saved) return KILN_OK;
    return instance_fails(in, "its backward graph has %zu inputs, not %zu", n, g->n_douts + g->n_saved);
}

static kiln_status make_room(struct gradient *g, size_t n_targets, size_t n_places)
{
    g->targets = calloc(n_targets + 1, sizeof *g->targets);
    g->all.outputs = calloc(n_targets + 1, sizeof *g->all.outputs);
    g->rewritten = calloc(n_places + 1, sizeof *g->rewritten);
    g->types = calloc(n_places + 1, sizeof *g->types);
    g->values = calloc(n_places + 1, sizeof *g->values);
    g->douts = calloc(n_places + 1, sizeof *g->douts);
    g->used_up = calloc(n_places + 1, sizeof *g->used_up);
    bool ok = g->targets && g->all.outputs && g->rewritten && g->types && g->values && g->douts && g->used_up;
    return ok ? KILN_OK : error_set(KILN_E_MEMORY, "call: out of memory");
}

static void take_graph(struct gradient *g, struct kiln_graph *backward)
{
    g->all.graph = backward;
    if (!backward) return;
    pthread_mutex_init(&g->lock, NULL);
    lock_guard(&g->guarded, &g->lock, false);
}

kiln_status instance_make_gradient(struct model_instance *in, struct kiln_graph *backward)
{
    struct gradient *g = &in->c->gradient;
    take_graph(g, backward);
    TRY(check_targets(in));
    TRY(check_wanted(in));
    TRY(make_room(g, in->face.targets.n, in->face.places.n));
    TRY(take_targets(in, g, backward));
    TRY(take_places(in, g));
    TRY(take_rewritten(in, g));
    TRY(take_saved(in, g));
    g->is_unlike_replay = in->face.unlike;
    if (!backward) return g->n_douts ? instance_fails(in, "it has no backward graph") : KILN_OK;
    TRY(instance_bind_constants(in, backward));
    return check_backward(in, g);
}
