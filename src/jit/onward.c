// The steps that the function took are taken again, with the values that the program gave: a backward runs from the
// inputs on, and from what it has left in leaves itself, so that hooks and sums are those of one run. Leaves that no
// input leads to have their gradients by then.
#include "jit/onward.h"
#include "grad/run.h"
#include <stdlib.h>

static kiln_status find_edge(const struct captured *c, const struct gradient_step *s, kiln_tensor *const *in,
                             struct tape_edge *out)
{
    if (s->input >= 0) return tape_current(in[s->input], out);
    return s->source >= 0 ? source_history(&c->sources[s->source], out) : KILN_OK;
}

static kiln_status find_edges(const struct captured *c, kiln_tensor *const *in, struct onward *o)
{
    for (size_t i = 0; i < c->n_gradient_steps; i++) {
        struct tape_edge edge = {NULL, 0};
        if (c->gradient_steps[i].event != GRADIENT_ARRIVED) continue;
        TRY(find_edge(c, &c->gradient_steps[i], in, &edge));
        o->edges[i] = (struct tape_edge){node_ref(edge.node), edge.out};
        if (edge.node) TRY(reach_from(&o->reach, edge.node));
    }
    return KILN_OK;
}

static kiln_status refuse_read(const struct captured *c, const char *name, const struct tape_node *leaf,
                               const struct onward *o)
{
    int32_t input = -1;
    for (size_t i = 0; i < c->n_gradient_steps && input < 0; i++) {
        struct tape_reach one = {0};
        if (!o->edges[i].node) continue;
        kiln_status status = reach_from(&one, o->edges[i].node);
        if (!status && reach_has(&one, leaf)) input = c->gradient_steps[i].input;
        reach_finish(&one);
        TRY(status);
    }
    char of[48] = "a state";
    if (input >= 0) snprintf(of, sizeof of, "its input %d", (int)input);
    return error_set(
        KILN_E_UNSUPPORTED,
        "call: %s reads the gradient of %s after a backward, and a part of this gradient comes through %s, "
        "which was made of it outside; make it inside, differentiate by the input with "
        "kiln_value_and_grad, or use KILN_CAPTURE_AUTO",
        name, node_name(leaf), of);
}

static kiln_status check_reads(const struct captured *c, const char *name, kiln_tensor *const *in,
                               const struct onward *o)
{
    for (size_t i = 0; i < c->n_sources; i++) {
        const struct tape_node *leaf = c->sources[i].gradient_read ? source_leaf(&c->sources[i], in) : NULL;
        if (leaf && reach_has(&o->reach, leaf)) return refuse_read(c, name, leaf, o);
    }
    return KILN_OK;
}

kiln_status onward_begin(const struct captured *c, const char *name, kiln_tensor *const *in, struct onward *o)
{
    *o = (struct onward){0};
    if (!c->goes_on) return KILN_OK;
    o->edges = calloc(c->n_gradient_steps, sizeof *o->edges);
    if (!o->edges) return error_set(KILN_E_MEMORY, "call: out of memory");
    TRY(find_edges(c, in, o));
    return check_reads(c, name, in, o);
}

void onward_finish(const struct captured *c, struct onward *o)
{
    for (size_t i = 0; o->edges && i < c->n_gradient_steps; i++) node_unref(o->edges[i].node);
    free(o->edges);
    reach_finish(&o->reach);
}

struct taking {
    const struct captured *c;
    kiln_tensor *const *in;
    kiln_tensor *const *outputs; // NULL: `values`, by step
    kiln_tensor *const *values;
    size_t n_steps;
    const struct onward *o;
};

// All leaves, or those that the inputs lead to.
static struct tape_node *leaf_of(const struct taking *t, const struct gradient_step *s)
{
    struct tape_node *leaf = s->source < 0 ? NULL : source_leaf(&t->c->sources[s->source], t->in);
    return leaf && (!t->outputs || reach_has(&t->o->reach, leaf)) ? leaf : NULL;
}

static kiln_tensor *gradient_of(const struct taking *t, size_t i)
{
    const kiln_tensor *g = t->outputs ? t->outputs[t->c->gradient_steps[i].output] : t->values[i];
    return tensor_on(g->storage, &g->type, &g->layout);
}

static kiln_status begin_at(const struct taking *t, size_t i, struct run *r)
{
    const struct gradient_step *s = &t->c->gradient_steps[i];
    struct tape_edge at = {NULL, 0};
    if (s->event == GRADIENT_LEFT)
        at.node = leaf_of(t, s);
    else if (t->o->edges)
        at = t->o->edges[i];
    kiln_tensor *g = at.node ? gradient_of(t, i) : NULL;
    if (!at.node) return KILN_OK;
    return g ? run_add(r, &at, g) : error_pending;
}

static kiln_status run_one(const struct taking *t, size_t begin, size_t end)
{
    const struct gradient_step *s = &t->c->gradient_steps[begin];
    struct run r = {.keep = s->keep, .accumulate = s->accumulate};
    kiln_status status = KILN_OK;
    for (size_t i = begin + 1; i < end && !status; i++) status = begin_at(t, i, &r);
    if (!status && r.n_heap) status = run_backward(&r);
    run_finish(&r);
    return status;
}

static kiln_status set_one(const struct taking *t, size_t i)
{
    const struct gradient_step *s = &t->c->gradient_steps[i];
    struct tape_node *leaf = leaf_of(t, s);
    kiln_tensor *g = leaf && s->value >= 0 ? gradient_of(t, i) : NULL;
    if (leaf && s->value >= 0 && !g) return error_pending;
    if (leaf) leaf_set_gradient(leaf, g);
    return KILN_OK;
}

static kiln_status take(const struct taking *t)
{
    const struct gradient_step *all = t->c->gradient_steps;
    for (size_t i = 0, end; i < t->n_steps; i = end) {
        end = gradient_step_end(all, t->n_steps, i);
        TRY(all[i].event == GRADIENT_RUN ? run_one(t, i, end) : set_one(t, i));
    }
    return KILN_OK;
}

kiln_status onward_run(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *outputs,
                       const struct onward *o)
{
    const struct taking t = {c, in, outputs, NULL, c->n_gradient_steps, o};
    return c->goes_on ? take(&t) : KILN_OK;
}

kiln_status onward_catch_up(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *values, size_t n,
                            const struct onward *o)
{
    const struct taking t = {c, in, NULL, values, n, o};
    return take(&t);
}
