// A graph, node by node, through Kiln's ops: eagerly, or to be captured. Arithmetic on shapes stays on the host: a node
// all of whose inputs are there is computed at once, on the CPU, outside of any capture, and its results are read back;
// so each op knows its kernel alone, and shapes are numbers wherever they do not depend on values.
//
// Values go when nobody wants them any more. What an op makes on the way belongs to a scope around it.
#include "base/note.h"
#include "base/str.h"
#include "onnx/call.h"
#include "tensor/tensor.h"
#include <kiln/jit.h>
#include <stdlib.h>
#include <string.h>

// --- values

void onnx_value_finish(struct onnx_value *v)
{
    if (v->kind == ONNX_COMPUTED) kiln_free(&v->tensor);
    *v = (struct onnx_value){.kind = ONNX_NONE};
}

kiln_status onnx_value_copy(struct onnx_value *to, const struct onnx_value *from)
{
    *to = *from;
    if (from->kind != ONNX_COMPUTED) return KILN_OK;
    kiln_tensor *mine = kiln_alias(from->tensor);
    if (!mine) {
        to->kind = ONNX_NONE;
        return error_pending;
    }
    to->tensor = kiln_own(mine);
    return KILN_OK;
}

struct onnx_value *onnx_value_at(struct onnx_frame *f, struct onnx_ref ref)
{
    for (int16_t i = 0; i < ref.depth; i++) f = f->outer;
    return &f->values[ref.slot];
}

kiln_status onnx_frame_init(struct onnx_run *r, struct onnx_frame *f, const struct onnx_graph *g,
                            struct onnx_frame *outer)
{
    *f = (struct onnx_frame){.outer = outer, .graph = g};
    f->values = calloc((size_t)g->n_slots + 1, sizeof *f->values);
    if (!f->values) return error_set(KILN_E_MEMORY, "%s: out of memory", r->m->where);
    for (int32_t i = 0; i < g->n_constants; i++)
        f->values[g->constant_slots[i]] = (struct onnx_value){.kind = ONNX_CONST, .constant = &g->constants[i]};
    return KILN_OK;
}

void onnx_frame_finish(struct onnx_frame *f)
{
    for (int32_t i = 0; f->values && i < f->graph->n_slots; i++) onnx_value_finish(&f->values[i]);
    free(f->values);
    f->values = NULL;
}

// --- nodes

static bool takes_graphs(const struct onnx_node *n)
{
    for (int32_t i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].graph) return true;
    return false;
}

static bool all_on_host(const struct onnx_call *c)
{
    int present = 0;
    for (int i = 0; i < c->n_in; i++) {
        if (!c->in[i]) continue;
        if (!onnx_is_host(c->in[i])) return false;
        present++;
    }
    return present > 0 && !takes_graphs(c->node);
}

// A tensor that was computed aside as numbers; many become a tensor of the model's device.
static kiln_status bring_back(struct onnx_call *c, struct onnx_value *v)
{
    if (v->kind != ONNX_COMPUTED) return KILN_OK;
    if (dtype_is_stored(kiln_tensor_dtype(v->tensor))) { // no numbers yet
        struct onnx_value there = {.kind = ONNX_COMPUTED, .tensor = kiln_to_device(v->tensor, c->run->m->dev)};
        NEED(there.tensor);
        kiln_own(there.tensor);
        onnx_value_finish(v);
        *v = there;
        return KILN_OK;
    }
    struct onnx_value mine = {.kind = ONNX_ON_HOST};
    struct onnx_host *h = &mine.host;
    h->dtype = (uint8_t)kiln_tensor_dtype(v->tensor);
    h->rank = (uint8_t)kiln_rank(v->tensor);
    h->numel = kiln_numel(v->tensor);
    if (h->rank) memcpy(h->dims, kiln_dims(v->tensor), h->rank * sizeof *h->dims);
    size_t size_B = (size_t)h->numel * dtype_info[h->dtype].size_B;
    h->data = arena_alloc(&c->run->arena, size_B + 1);
    NEED(h->data);
    TRY(kiln_read(v->tensor, h->data, size_B));
    onnx_value_finish(v);
    *v = mine;
    return KILN_OK;
}

static kiln_status settle(struct onnx_call *c, struct onnx_value *v)
{
    if (v->kind != ONNX_ON_HOST || v->host.numel <= ONNX_HOST_MAX) return KILN_OK;
    kiln_tensor *t = onnx_from_host(c, &v->host);
    NEED(t);
    *v = (struct onnx_value){.kind = ONNX_COMPUTED, .tensor = kiln_own(t)};
    return KILN_OK;
}

static kiln_status apply(struct onnx_call *c)
{
    if (c->row->fn)
        TRY(c->row->fn(c));
    else
        TRY(onnx_apply_row(c));
    if (c->redo) return KILN_OK;
    for (int i = 0; i < c->n_out; i++)
        if (onnx_wants(c, i) && c->out[i].kind == ONNX_NONE)
            return onnx_bad(c, KILN_E_UNSUPPORTED, "output %d is not computed", i);
    return onnx_check_asked(c);
}

// Eagerly on the CPU, whatever this thread is doing.
static kiln_status apply_aside(struct onnx_call *c)
{
    const struct thread_state around = thread_state;
    thread_state.sink = NULL;
    thread_state.capture = 0;
    thread_state.no_grad = 1;
    thread_state.numbers_given = thread_state.indices_fit = false;
    thread_state.effects = NULL;
    c->aside = true;
    c->dev = c->run->m->host;
    kiln_status status = apply(c);
    for (int i = 0; i < c->n_out && !status; i++) status = bring_back(c, &c->out[i]);
    if (status) // what is left belongs to the thread as it was here
        for (int i = 0; i < c->n_out; i++) onnx_value_finish(&c->out[i]);
    struct kiln_scope *scope = thread_state.scope;
    thread_state = around;
    thread_state.scope = scope;
    c->aside = false;
    c->dev = c->run->m->dev;
    for (int i = 0; i < c->n_out && !status; i++) status = settle(c, &c->out[i]);
    return status;
}

static kiln_status call_function(struct onnx_call *c)
{
    const struct onnx_function *fn = c->node->function;
    struct onnx_frame f;
    TRY(onnx_frame_init(c->run, &f, &fn->body, NULL));
    f.caller = c->node;
    f.caller_frame = c->frame;
    f.function = fn;
    kiln_status status = KILN_OK;
    for (int i = 0; i < c->n_in && !status; i++)
        if (c->in[i]) status = onnx_value_copy(&f.values[fn->body.in_slots[i]], c->in[i]);
    if (!status) status = onnx_run_graph(c->run, &f);
    for (int i = 0; i < c->n_out && !status; i++)
        status = onnx_value_copy(&c->out[i], onnx_value_at(&f, fn->body.results[i]));
    onnx_frame_finish(&f);
    return status;
}

struct attrs_of {
    const struct onnx_frame *frame;
    const struct onnx_node *node;
};

static const struct onnx_attr *attr_of(const void *user, const char *name)
{
    const struct attrs_of *a = user;
    return onnx_frame_attr(a->frame, a->node, name, NULL);
}

static kiln_status run_call(struct onnx_call *c)
{
    const struct onnx_node *n = c->node;
    for (int i = 0; i < c->n_in; i++) {
        struct onnx_value *v = n->in[i].depth < 0 ? NULL : onnx_value_at(c->frame, n->in[i]);
        c->in[i] = v && v->kind != ONNX_NONE ? v : NULL; // a function's input may be left out
    }
    if (n->function) return call_function(c);
    c->row = onnx_find_row(n, c->opset, attr_of, &(struct attrs_of){c->frame, n});
    if (!c->row) return onnx_bad(c, KILN_E_UNSUPPORTED, "is missing with these attributes");
    if (all_on_host(c)) TRY(apply_aside(c));
    if (all_on_host(c) && !c->redo) return KILN_OK;
    c->redo = false;
    return apply(c);
}

static kiln_status run_node(struct onnx_run *r, struct onnx_frame *f, const struct onnx_node *n)
{
    struct onnx_value *few_in[16], few_out[8] = {{0}};
    struct onnx_call c = {.run = r,
                          .frame = f,
                          .node = n,
                          .dev = r->m->dev,
                          .opset = f->graph->opset,
                          .n_in = n->n_in,
                          .n_out = n->n_out,
                          .in = few_in,
                          .out = few_out};
    while (c.n_in && n->in[c.n_in - 1].depth < 0) c.n_in--;
    if (c.n_in > (int)COUNT_OF(few_in)) c.in = calloc((size_t)c.n_in, sizeof *c.in);
    if (c.n_out > (int)COUNT_OF(few_out)) c.out = calloc((size_t)c.n_out, sizeof *c.out);
    kiln_status status = c.in && c.out ? KILN_OK : error_set(KILN_E_MEMORY, "%s: out of memory", r->m->where);
    kiln_scope *scope = kiln_scope_begin();
    if (!scope && !status) status = error_pending;
    if (!status) status = run_call(&c);
    kiln_scope_end(&scope);
    for (int i = 0; c.out && i < c.n_out; i++) {
        if (!status && n->out[i] >= 0)
            f->values[n->out[i]] = c.out[i];
        else
            onnx_value_finish(&c.out[i]);
    }
    if (c.in != few_in) free(c.in);
    if (c.out != few_out) free(c.out);
    if (status)
        error_note_where("node %d \"%.60s\" (%.40s) of graph \"%.40s\"", n->index, n->name, n->op, f->graph->name);
    return status;
}

static void drop_unused(struct onnx_frame *f, const struct onnx_node *n)
{
    const struct onnx_graph *g = f->graph;
    for (int32_t i = 0; i < n->n_in; i++)
        if (n->in[i].depth == 0 && g->last_use[n->in[i].slot] <= n->index) onnx_value_finish(&f->values[n->in[i].slot]);
    for (int32_t i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0 && g->last_use[n->out[i]] < 0) onnx_value_finish(&f->values[n->out[i]]);
}

kiln_status onnx_run_graph(struct onnx_run *r, struct onnx_frame *f)
{
    for (int32_t i = 0; i < f->graph->n_nodes; i++) {
        TRY(run_node(r, f, &f->graph->nodes[i]));
        drop_unused(f, &f->graph->nodes[i]);
    }
    return KILN_OK;
}

kiln_tensor *onnx_result(struct onnx_run *r, struct onnx_frame *f, int32_t i)
{
    struct onnx_call c = {.run = r, .dev = r->m->dev, .frame = f};
    struct onnx_value *v = onnx_value_at(f, f->graph->results[i]);
    if (v->kind == ONNX_NONE) {
        error_set(KILN_E_UNSUPPORTED, "%s: output \"%.80s\" was not computed", r->m->where, f->graph->out[i].name);
        return NULL;
    }
    kiln_tensor *t = onnx_tensor(&c, v);
    return t ? kiln_alias(t) : NULL;
}

// --- the model

static void add_shape(struct str *s, size_t rank, const int64_t *dims)
{
    str_add(s, "[");
    for (size_t i = 0; i < rank; i++)
        dims[i] < 0 ? str_addf(s, "%s?", i ? "," : "") : str_addf(s, "%s%lld", i ? "," : "", (long long)dims[i]);
    str_add(s, "]");
}

static kiln_status check_input(const struct onnx_model *m, size_t i, kiln_tensor *t)
{
    const struct onnx_port *p = &m->graph.in[i];
    if (p->typed && kiln_tensor_dtype(t) != p->dtype)
        return error_set(KILN_E_DTYPE, "%s: input %zu \"%.60s\" is %s, it was given %s", m->where, i, p->name,
                         kiln_dtype_name(p->dtype), kiln_dtype_name(kiln_tensor_dtype(t)));
    bool fits = !p->shaped || kiln_rank(t) == p->rank;
    for (size_t k = 0; p->shaped && fits && k < p->rank; k++) fits = p->dims[k] < 0 || p->dims[k] == kiln_dims(t)[k];
    if (fits) return error_pending;
    struct str said;
    str_init(&said);
    add_shape(&said, p->rank, p->dims);
    str_add(&said, ", it was given one of ");
    add_shape(&said, kiln_rank(t), kiln_dims(t));
    error_set(KILN_E_SHAPE, "%s: input %zu \"%.60s\" has shape %s", m->where, i, p->name, str_text(&said));
    str_free(&said);
    return error_pending;
}

// In a capture a constant is what the host may read: a few integers may be a shape.
static bool is_known(kiln_tensor *t)
{
    return t->constant && kiln_is_capturing() && kiln_numel(t) <= ONNX_HOST_MAX &&
           !dtype_is_stored(kiln_tensor_dtype(t)) && !dtype_is_float(kiln_tensor_dtype(t));
}

static kiln_status take_input(struct onnx_run *r, kiln_tensor *t, struct onnx_value *out)
{
    struct onnx_value v = {.kind = ONNX_COMPUTED, .tensor = t};
    struct onnx_call c = {.run = r, .dev = r->m->dev};
    TRY(onnx_value_copy(out, &v));
    return is_known(t) ? bring_back(&c, out) : KILN_OK;
}

static kiln_status run_model(struct onnx_run *r, kiln_tensor *const *in, size_t n_in, kiln_tensor **out)
{
    const struct onnx_graph *g = &r->m->graph;
    struct onnx_frame f;
    TRY(onnx_frame_init(r, &f, g, NULL));
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < n_in && !status; i++) {
        status = check_input(r->m, i, in[i]);
        if (!status) status = take_input(r, in[i], &f.values[g->in_slots[i]]);
    }
    if (!status) status = onnx_run_graph(r, &f);
    for (int32_t i = 0; i < g->n_out && !status; i++)
        if (!(out[i] = onnx_result(r, &f, i))) status = error_pending;
    onnx_frame_finish(&f);
    return status;
}

kiln_status onnx_run(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct onnx_run r = {.m = user};
    const struct onnx_graph *g = &r.m->graph;
    if (n_in != (size_t)g->n_in || n_out != (size_t)g->n_out)
        return error_set(KILN_E_ARGUMENT, "%s: has %d inputs and %d outputs, not %zu and %zu", r.m->where, g->n_in,
                         g->n_out, n_in, n_out);
    arena_init(&r.arena);
    kiln_status status = run_model(&r, in, n_in, out);
    arena_finish(&r.arena);
    return status;
}
