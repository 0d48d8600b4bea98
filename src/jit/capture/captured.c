// What was captured, at a call: the tensors of its sources, and the handles of its results.
#include "grad/state.h"
#include "jit/capture/capture.h"
#include "jit/capture/recorder.h"
#include <kiln/ops.h>
#include <stdlib.h>

kiln_status captured_check_output(const char *name, size_t i, size_t n, const kiln_tensor *t)
{
    if (!t)
        return error_set(KILN_E_ARGUMENT, "call: %s left output %zu of %zu NULL: set each out[i], or ask for fewer",
                         name, i, n);
    if (t->magic == TENSOR_ALIVE) return KILN_OK;
    char output[256];
    snprintf(output, sizeof output, "output %zu of %s", i, name);
    return tensor_check_any("call", output, t);
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
    for (size_t i = 0; i < c->n_hosts; i++) host_call_unref(c->hosts[i]);
    free(c->hosts);
    free(c->constants);
    bundle_result_finish(&c->form);
    bundle_seen_free(c->bundles, c->n_bundles);
    ir_graph_destroy(&c->graph);
    *c = (struct captured){0};
}

// Where it lies in this call.
static struct layout place_of(const struct source *s, const struct layout *at_capture, kiln_tensor *const *in)
{
    struct layout l = *at_capture;
    if (s->kind == SOURCE_INPUT || s->kind == SOURCE_SPAN)
        l.offset += in[s->input]->layout.offset + s->shift - s->layout.offset;
    return l;
}

struct number_call {
    const struct source *s;
    double number;
};

static void call_host(void *at)
{
    struct number_call *c = at;
    c->number = c->s->number(c->s->user);
}

static kiln_tensor *ask_host(const struct source *s)
{
    struct number_call c = {s, 0};
    leave_call(call_host, &c);
    return kiln_scalar(c.number);
}

kiln_status source_tensor(const struct source *s, kiln_tensor *const *in, kiln_tensor **out)
{
    struct layout layout;
    switch (s->kind) {
    case SOURCE_INPUT: *out = tensor_shown_as(in[s->input], SHOWN_PLAIN); break;
    case SOURCE_NUMBER: *out = in[s->input]; break;
    case SOURCE_HOST: *out = ask_host(s); break;
    case SOURCE_SPAN:
        layout = place_of(s, &s->layout, in);
        *out = tensor_on(in[s->input]->storage, &s->type, &layout);
        break;
    case SOURCE_LEAF:
    case SOURCE_MEMORY: *out = tensor_on(s->storage, &s->type, &s->layout); break;
    default: TRY(leaf_hold_gradient(source_leaf(s, in), out));
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

// Where a call is a part of another capture.
static kiln_tensor *part_inside(kiln_tensor *t, const struct type *type, const struct layout *layout)
{
    if (!layout) return tensor_second(t);
    thread_state.no_grad++;
    kiln_tensor *part = kiln_as_strided(t, type->rank, type->dims, type->rank, layout->strides, layout->offset);
    thread_state.no_grad--;
    return part;
}

static kiln_tensor *shown(const struct source *s, const struct result *r, kiln_tensor *source, kiln_tensor *const *in)
{
    if (source_is_number(s)) return tensor_second(source);
    bool inside = thread_state.sink && thread_state.sink->capture;
    if (inside) return part_inside(source, &r->type, result_is_whole(s, r) ? NULL : &r->layout);
    bool fixed = s->kind == SOURCE_LEAF || s->kind == SOURCE_MEMORY;
    struct layout layout = place_of(s, &r->layout, in);
    return tensor_on(fixed ? s->storage : in[s->input]->storage, &r->type, &layout);
}

static kiln_tensor *as_result(kiln_tensor *output, const struct type *type)
{
    type_copy(&output->type, type);
    output->type.weak = false;
    return output;
}

static kiln_tensor *number_of(const struct result *r)
{
    kiln_tensor *t = r->type.dtype == KILN_F64   ? kiln_scalar(r->number)
                     : r->type.dtype == KILN_I64 ? kiln_scalar_int(r->integer)
                                                 : kiln_scalar_bool(r->integer != 0);
    return t;
}

kiln_status captured_results(const struct captured *c, kiln_tensor *const *in, kiln_tensor *const *sources,
                             kiln_tensor *const *outputs, bool fresh, kiln_tensor **out)
{
    for (size_t i = 0; i < c->n_results; i++) {
        const struct result *r = &c->results[i];
        if (r->kind == RESULT_NUMBER)
            out[i] = number_of(r);
        else if (r->kind == RESULT_SOURCE)
            out[i] = shown(&c->sources[r->index], r, sources[r->index], in);
        else {
            kiln_tensor *t = outputs[r->index];
            if (t->builder)
                out[i] = part_inside(t, &r->type, r->part ? &r->layout : NULL);
            else if (fresh && r->alone && !r->part)
                out[i] = as_result(t, &r->type);
            else
                out[i] = tensor_on(t->storage, &r->type, r->part ? &r->layout : &t->layout);
        }
        if (!out[i]) return error_pending;
        tensor_show(out[i], r->shown);
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
