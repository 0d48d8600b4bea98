// Gradients of gradients of a region: its forward graph is run once more, under a tape, and differentiated there.
#include "jit/capture/region_again.h"
#include "grad/rule.h"
#include "jit/capture/replay.h"
#include <kiln/ops.h>
#include <stdlib.h>
#include <string.h>

kiln_status again_take(struct region_again *a, struct region_record *r)
{
    a->n_values = r->n_values;
    a->n_sources = r->r.sources.n;
    a->is_unlike = r->r.is_unlike_replay;
    a->values = malloc(sizeof *a->values * (r->n_values + 1));
    a->gives = malloc(sizeof *a->gives * (r->n_values + 1));
    if (!a->values || !a->gives) return error_set(KILN_E_MEMORY, "jit: out of memory");
    for (size_t i = 0; i < r->n_values; i++) {
        a->values[i] = r->again[i];
        a->gives[i] = r->g.douts[i] >= 0;
    }
    a->graph = r->r.sink.builder.graph;
    r->r.sink.builder.graph = NULL;
    return KILN_OK;
}

void again_finish(struct region_again *a)
{
    ir_graph_destroy(&a->graph);
    free(a->values);
    free(a->gives);
    *a = (struct region_again){0};
}

kiln_tensor *again_handle(kiln_tensor *kept)
{
    kiln_tensor *t = grad_second_handle(kept);
    if (!t) return NULL;
    tape_set_node(t, NULL, 0);
    t->variable = t->place = 0;
    return t;
}

struct forward {
    const struct again_call *call;
    int32_t *values; // those whose gradients arrived
    kiln_tensor **sens;
    size_t n;
};

static kiln_status run_forward(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct forward *f = user;
    (void)n_in, (void)n_out;
    return graph_evaluate(f->call->of->graph, f->call->dev, in, NULL, f->n, f->values, out);
}

static kiln_status differentiate(struct forward *f, kiln_tensor **out)
{
    const struct again_call *c = f->call;
    for (size_t i = 0; i < c->of->n_values; i++) {
        if (!c->of->gives[i] || !c->dout[i]) continue;
        f->values[f->n] = c->of->values[i];
        f->sens[f->n++] = c->dout[i];
    }
    for (size_t i = 0; i < c->n_wrt && !f->n; i++)
        if (!(out[i] = region_zeros_of(&c->sources[c->wrt[i]]->type))) return error_pending;
    if (!f->n) return KILN_OK;
    const kiln_grad_opts opts = {
        .size = sizeof opts, .wrt = {c->n_wrt, c->wrt}, .sens = {f->n, f->sens}, .outputs = f->n, .create_graph = true};
    return kiln_grad(run_forward, f, c->sources, c->of->n_sources, &opts, out, c->n_wrt);
}

kiln_status again_differentiate(const struct again_call *c, kiln_tensor **out)
{
    if (!c->n_wrt) return KILN_OK;
    if (c->of->is_unlike)
        return error_set(KILN_E_UNSUPPORTED,
                         "backward: a region of kiln_%s writes memory without gradients in a way that gradients of its "
                         "gradients do not follow; use KILN_CAPTURE_AUTO",
                         c->op);
    struct forward f = {.call = c,
                        .values = calloc(c->of->n_values + 1, sizeof *f.values),
                        .sens = calloc(c->of->n_values + 1, sizeof *f.sens)};
    kiln_status status = f.values && f.sens ? KILN_OK : error_set(KILN_E_MEMORY, "backward: out of memory");
    if (!status) status = differentiate(&f, out);
    free(f.values);
    free(f.sens);
    return status;
}
