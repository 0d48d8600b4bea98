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
    kiln_tensor *const *in, *const *outputs;
    const struct onward *o;
};

static struct tape_node *leaf_of(const struct taking *t, const struct gradient_step *s)
{
    struct tape_node *leaf = s->source < 0 ? NULL : source_leaf(&t->c->sources[s->source], t->in);
    return leaf && reach_has(&t->o->reach, leaf) ? leaf : NULL;
}

static kiln_tensor *gradient_of(const struct taking *t, const struct gradient_step *s)
{
    const kiln_tensor *g = t->outputs[s->output];
    return tensor_on(g->storage, &g->type, &g->layout);
}

static kiln_status begin_at(const struct taking *t, size_t i, struct run *r)
{
    const struct gradient_step *s = &t->c->gradient_steps[i];
    struct tape_edge at = s->event == GRADIENT_ARRIVED ? t->o->edges[i] : (struct tape_edge){leaf_of(t, s), 0};
    kiln_tensor *g = at.node ? gradient_of(t, s) : NULL;
    if (!at.node) return KILN_OK;
    return g ? run_add(r, &at, g) : error_pending;
}

// The backward that step i has begun; *next: the step behind it.
static kiln_status run_one(const struct taking *t, size_t i, size_t *next)
{
    const struct gradient_step *all = t->c->gradient_steps;
    struct run r = {.keep = all[i].keep, .accumulate = all[i].accumulate};
    kiln_status status = KILN_OK;
    for (i++; i < t->c->n_gradient_steps && !status; i++) {
        if (all[i].event != GRADIENT_LEFT && all[i].event != GRADIENT_ARRIVED) break;
        status = begin_at(t, i, &r);
    }
    if (!status && r.n_heap) status = run_backward(&r);
    run_finish(&r);
    *next = i;
    return status;
}

static kiln_status set_one(const struct taking *t, const struct gradient_step *s)
{
    struct tape_node *leaf = leaf_of(t, s);
    kiln_tensor *g = leaf && s->output >= 0 ? gradient_of(t, s) : NULL;
    if (leaf && s->output >= 0 && !g) return error_pending;
    if (leaf) leaf_set_gradient(leaf, g);
    return KILN_OK;
}

kiln_status onward_run(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *outputs,
                       const struct onward *o)
{
    const struct taking t = {c, in, outputs, o};
    kiln_status status = KILN_OK;
    for (size_t i = 0, next; i < c->n_gradient_steps && c->goes_on && !status; i = next) {
        next = i + 1;
        if (c->gradient_steps[i].event == GRADIENT_RUN)
            status = run_one(&t, i, &next);
        else
            status = set_one(&t, &c->gradient_steps[i]);
    }
    return status;
}
