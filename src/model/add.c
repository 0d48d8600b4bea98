// Adding a function to a model.
#include "base/handles.h"
#include "base/options.h"
#include "grad/state.h"
#include "jit/symbol.h"
#include "model/adding.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kiln_status check_function(const kiln_function *f)
{
    TRY(handle_check("model_add", "f", HANDLE_FUNCTION, f));
    if (f->bundle_fn)
        return error_set(KILN_E_UNSUPPORTED, "model_add: %s takes bundles, which no file can hold", f->name);
    if (f->o.capture == KILN_CAPTURE_AUTO)
        return error_set(KILN_E_UNSUPPORTED,
                         "model_add: %s is captured by AUTO, in pieces; capture it with KILN_CAPTURE_STRICT", f->name);
    if (thread_state.sink) return error_set(KILN_E_STATE, "model_add: %s is added inside of a capture", f->name);
    return KILN_OK;
}

static kiln_status check_names(const char *what, const char *const *names, size_t n)
{
    for (size_t i = 0; names && i < n; i++) {
        if (!names[i] || !*names[i]) return error_set(KILN_E_ARGUMENT, "model_add: name %zu of .%s is empty", i, what);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(names[i], names[k]))
                return error_set(KILN_E_ARGUMENT, "model_add: .%s names \"%s\" twice", what, names[i]);
    }
    return KILN_OK;
}

static kiln_status check_name(const struct model *m, const char *name)
{
    if (!name || !*name) return error_set(KILN_E_ARGUMENT, "model_add: name is %s", name ? "empty" : "NULL");
    if (strlen(name) > IR_MAX_NAME / 8)
        return error_set(KILN_E_ARGUMENT, "model_add: name has more than %d characters", IR_MAX_NAME / 8);
    if (model_find(m, name)) return error_set(KILN_E_ARGUMENT, "model_add: the model has a function \"%s\"", name);
    return KILN_OK;
}

// --- open dimensions

static bool has_open(const struct adding *a, const char *name)
{
    for (size_t i = 0; i < a->open.n; i++)
        if (!strcmp(a->open.v[i].name, name)) return true;
    return false;
}

// A word of the text form, which no other is.
static void make_word(const struct adding *a, const char *wanted, char *out, size_t size_B)
{
    snprintf(out, size_B, "%.48s", wanted);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    if (!isalpha((unsigned char)*out) || !strncmp(out, "host", 4)) snprintf(out, size_B, "d_%.48s", wanted);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    size_t len = strlen(out);
    for (unsigned i = 1; has_open(a, out); i++) snprintf(out + len, size_B - len, "_%u", i);
}

static size_t find_shared(const struct adding *a, const struct symbol *s)
{
    size_t i = 0;
    while (i < a->open.n && !(s && s->unique && a->open.v[i].symbol == s)) i++;
    return i;
}

static kiln_status add_open(struct adding *a, size_t input, int dim)
{
    const struct symbol *s = symbol_of(a->f->signature.v[input].dims[dim]);
    size_t at = find_shared(a, s);
    if (at == a->open.n) {
        char wanted[64];
        struct open_dim o = {.symbol = s, .rule = {.min = 0, .max = INT64_MAX, .divisor = 1}};
        snprintf(wanted, sizeof wanted, "in%zu_%d", input, dim);
        make_word(a, s ? s->name : wanted, o.name, sizeof o.name);
        if (s) o.rule = (struct face_rule){NULL, 0, s->min, s->max, s->divisor, s->remainder};
        o.rule.seen = a->in[input]->type.dims[dim];
        TRY(vec_push(&a->open, o));
    }
    const struct open_place p = {input, dim, at};
    return vec_push(&a->places, p);
}

static kiln_status find_open(struct adding *a)
{
    const struct signature *s = &a->f->signature;
    for (size_t i = 0; i < s->n && i < a->n_in; i++)
        for (int d = 0; d < s->v[i].rank; d++)
            if (s->v[i].dims[d] < 0) TRY(add_open(a, i, d));
    for (size_t i = 0; i < a->open.n; i++) a->open.v[i].rule.name = a->open.v[i].name;
    if (a->open.n && a->f->o.capture != KILN_CAPTURE_STRICT)
        return error_set(KILN_E_UNSUPPORTED,
                         "model_add: %s has open dimensions and is captured by TRACE, which would run it for other "
                         "sizes; capture it with KILN_CAPTURE_STRICT",
                         a->f->name);
    return KILN_OK;
}

// --- the whole

kiln_status adding_record(const struct adding *a, kiln_tensor *const *in, struct captured *c)
{
    return function_record(a->f, in, a->n_in, a->n_out, c);
}

static char *take_text(struct str *s)
{
    return s->len ? model_copy(str_text(s), s->len) : NULL;
}

// The text form has no places in the user's code.
static uintptr_t *take_callers(const struct kiln_graph *g)
{
    uintptr_t *callers = malloc((g->nodes.n + 1) * sizeof *callers);
    for (size_t i = 0; callers && i < g->nodes.n; i++) callers[i] = g->nodes.v[i].caller;
    if (!callers) error_set(KILN_E_MEMORY, "model_add: out of memory");
    return callers;
}

static kiln_status keep(struct adding *a, const struct captured *c, struct texts *t)
{
    struct model_function f = {.interface = take_text(&t->interface),
                               .forward = take_text(&t->forward),
                               .backward = take_text(&t->backward),
                               .callers = take_callers(c->graph)};
    kiln_status status = error_pending;
    if (!status) status = model_describe(a->m, &f, "model_add");
    if (!status) status = vec_push(&a->m->functions, f);
    if (status) model_function_finish(&f);
    return status;
}

static kiln_status set_device(struct adding *a, const struct captured *c)
{
    if (!a->m->dev) a->m->dev = c->dev;
    if (a->m->dev == c->dev) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "model_add: %s runs on %s, other functions of the model on %s", a->f->name,
                     c->dev->name, a->m->dev->name);
}

static kiln_status add_captured(struct adding *a, struct captured *c)
{
    struct texts t;
    TRY(adding_check(a, c));
    TRY(set_device(a, c));
    texts_init(&t);
    kiln_status status = adding_gather(a, c, &t);
    if (!status && a->open.n) status = fit_texts(a, &t);
    if (!status) status = keep(a, c, &t);
    texts_free(&t);
    return status;
}

static kiln_status add(struct adding *a)
{
    struct captured c = {0};
    TRY(find_open(a));
    TRY(adding_record(a, a->in, &c));
    kiln_status status = add_captured(a, &c);
    captured_finish(&c);
    return status;
}

static void finish_adding(void *at)
{
    struct adding *a = at;
    vec_free(&a->open);
    vec_free(&a->places);
}

kiln_status model_add(kiln_model *m, const char *name, kiln_function *f, kiln_tensor *const *in, size_t n_in,
                      size_t n_out, const kiln_model_add_opts *opts, bool onnx)
{
    kiln_model_add_opts o;
    TRY(options_read("model_add", KILN_MODEL_ADD, &o, opts));
    TRY(handle_check("model_add", "m", HANDLE_MODEL, m));
    if (m->model->onnx)
        return error_set(KILN_E_UNSUPPORTED, "model_add: the model was read from a file of ONNX, and has one function");
    TRY(check_name(m->model, name));
    TRY(check_function(f));
    if (n_in && !in) return error_set(KILN_E_ARGUMENT, "model_add: in is NULL, of %zu inputs", n_in);
    TRY(check_names("inputs", o.inputs, n_in));
    TRY(check_names("outputs", o.outputs, n_out));
    TRY(function_check_inputs(f, in, n_in));
    struct adding a = {.m = m->model,
                       .f = f,
                       .name = name,
                       .inputs = o.inputs,
                       .outputs = o.outputs,
                       .in = in,
                       .n_in = n_in,
                       .n_out = n_out,
                       .onnx = onnx};
    struct kiln_scope scope;
    struct state_leave left;
    state_push(&left, finish_adding, &a);
    scope_enter(&scope);
    kiln_status status = add(&a);
    scope_leave(&scope, NULL, 0);
    state_pop(&left);
    finish_adding(&a);
    return status;
}

kiln_status kiln_model_add(kiln_model *m, const char *name, kiln_function *f, kiln_tensor *const *in, size_t n_in,
                           size_t n_out, const kiln_model_add_opts *opts)
{
    return error_pending ? error_pending : model_add(m, name, f, in, n_in, n_out, opts, false);
}
