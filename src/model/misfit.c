// What has no form in a file: all of it is listed, each with the line that made it.
#include "base/caller.h"
#include "grad/registry.h"
#include "jit/control/host.h"
#include "model/adding.h"
#include "model/export.h"
#include "model/host.h"
#include <kiln/ops.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 12 };

void misfits_init(struct misfits *m)
{
    str_init(&m->text);
    m->n = 0;
}

void misfits_add(void *user, uintptr_t caller, const char *what, const char *why)
{
    struct misfits *m = user;
    char place[CALLER_TEXT_MAX + 8] = "", entry[CALLER_TEXT_MAX + 512];
    if (caller) {
        caller_describe(caller, place + 4, CALLER_TEXT_MAX);
        memcpy(place, " at ", 4);
    }
    snprintf(entry, sizeof entry, "%s%s, %s", what, place, why);
    if (strstr(str_text(&m->text), entry)) return; // in the backward graph, too
    if (m->n++ < SHOWN) str_addf(&m->text, "%s%s", m->text.len ? "; " : "", entry);
}

kiln_status misfits_end(struct misfits *m, const char *op, const char *name, const char *kind)
{
    if (m->n > SHOWN) str_addf(&m->text, "; and %zu more", m->n - SHOWN);
    if (m->n && !error_pending)
        error_set(KILN_E_UNSUPPORTED, "%s: %s has what no %s can hold: %s", op, name, kind, str_text(&m->text));
    str_free(&m->text);
    return error_pending;
}

static void check_node(struct misfits *m, const struct ir_node *n)
{
    int64_t number;
    const kiln_op_spec *user = user_op_spec(n->op);
    if (user && !user->expr) misfits_add(m, n->caller, n->op->name, "an op of the user in GLSL");
    if (!host_is_call(n, &number)) return;
    struct host_call *h = host_call_of(number);
    if (h && !host_call_is_report(h)) misfits_add(m, h->caller, h->kind->name, "a function of this process");
    host_call_unref(h);
}

static void check_graph(struct misfits *m, const struct kiln_graph *g)
{
    for (size_t i = 0; g && i < g->nodes.n; i++) check_node(m, &g->nodes.v[i]);
}

static void check_source(struct misfits *m, const struct captured *c, size_t i)
{
    const struct source *s = &c->sources[i];
    const char *name = c->graph->values.v[s->value].name;
    if (s->kind == SOURCE_SPAN || s->kind == SOURCE_MEMORY || s->pinned || s->placed)
        misfits_add(m, 0, name, "memory that several tensors share, of which the function writes");
    if (s->history) misfits_add(m, 0, name, "a state whose value requires a gradient");
}

static void check_shown(struct misfits *m, const char *what, unsigned shown, unsigned dtype)
{
    char why[96];
    if (shown == SHOWN_PLAIN) return;
    snprintf(why, sizeof why, "it is %s; take and give %s", dtype_name(shown_dtype(shown, dtype)),
             shown == SHOWN_COMPLEX ? "pairs, by kiln_view_as_real" : "bytes, by kiln_bitcast");
    misfits_add(m, 0, what, why);
}

// Two inputs that are one tensor have one input of the graph.
static void check_inputs(struct misfits *m, const struct adding *a, const struct captured *c)
{
    char what[64];
    for (size_t i = 0; i < a->n_in; i++) {
        snprintf(what, sizeof what, "input %zu", i);
        check_shown(m, what, a->in[i]->shown, a->in[i]->type.dtype);
    }
    for (size_t i = 0; i < a->n_in; i++)
        for (size_t k = 0; k < i; k++) {
            if (c->source_of[i] < 0 || c->source_of[i] != c->source_of[k]) continue;
            snprintf(what, sizeof what, "inputs %zu and %zu", k, i);
            misfits_add(m, 0, what, "one tensor; give two");
        }
}

static void check_results(struct misfits *m, const struct captured *c)
{
    char what[64];
    for (size_t i = 0; i < c->n_results; i++) {
        const struct result *r = &c->results[i];
        snprintf(what, sizeof what, "output %zu", i);
        check_shown(m, what, r->shown, r->type.dtype);
        if (c->gradient.cuts && c->gradient.cuts[i]) misfits_add(m, 0, what, "it comes of what kept no tape");
        const struct source *s = r->kind == RESULT_SOURCE ? &c->sources[r->index] : NULL;
        if (s && !source_is_number(s) && !s->row_major && !result_is_whole(s, r))
            misfits_add(m, 0, what, "a view of an input that is not row-major");
    }
}

kiln_status adding_check(const struct adding *a, const struct captured *c)
{
    struct misfits m;
    misfits_init(&m);
    check_graph(&m, c->graph);
    check_graph(&m, c->gradient.all.graph);
    for (size_t i = 0; i < c->n_sources; i++) check_source(&m, c, i);
    check_inputs(&m, a, c);
    check_results(&m, c);
    if (c->goes_on) misfits_add(&m, 0, "kiln_backward", "it goes on outside of the function, behind its inputs");
    if (c->n_leaves) misfits_add(&m, 0, "parameters", "they lie in memory that others share");
    if (c->gradient.failure) misfits_add(&m, 0, "the gradient", c->gradient.failure->text);
    if (a->onnx && !error_pending) export_check_capture(a, c, &m);
    return misfits_end(&m, "model_add", a->f->name, a->onnx ? "file of ONNX" : "file");
}
