// kiln_bundle_host_call: a call of the host by bundles. It is one by tensors, and a form: of what goes in, to make the
// bundle again at each call, and of what comes out, to check it. What fn gives without a spec tells the form of it:
// eagerly at each call, in a graph once, while it is captured.
#include "base/leave.h"
#include "bundle/bundle.h"
#include "grad/state.h"
#include "jit/control/host.h"
#include "tensor/flow.h"
#include <stdlib.h>

struct host_form {
    atomic_int refs;
    struct bundle_content *in, *out; // without tensors; out NULL: nobody wants it, or nobody knows it yet
    bool nothing;                    // *out stays NULL
    bool learns;
    bundle_tensors learnt; // then: what fn gave, owned by the user
};

static struct host_form *form_new(struct bundle_content *in)
{
    struct host_form *f = calloc(1, sizeof *f);
    if (!f) error_set(KILN_E_MEMORY, "host_call: out of memory");
    if (!f) return NULL;
    atomic_init(&f->refs, 1);
    f->in = bundle_strip(in);
    if (f->in) return f;
    free(f);
    return NULL;
}

static void form_ref(struct host_form *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}

static void form_unref(struct host_form *f)
{
    if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < f->learnt.n; i++) tensor_destroy(f->learnt.v[i]);
    vec_free(&f->learnt);
    bundle_content_unref(f->in);
    bundle_content_unref(f->out);
    free(f);
}

static bool form_same(const struct host_form *a, const struct host_form *b)
{
    if (a->nothing != b->nothing || !a->out != !b->out || !bundle_is_like(a->in, b->in, NULL)) return false;
    return !a->out || bundle_is_like(a->out, b->out, NULL);
}

static bool name_value(const struct host_call *h, bool is_operand, size_t i, char *text, size_t size_B)
{
    const struct bundle_content *c = is_operand ? h->form->in : h->form->out;
    struct str path;
    str_init(&path);
    bool found = c && bundle_name_slot(c, i, &path);
    if (found) snprintf(text, size_B, "%s%s", is_operand ? "in" : "out", str_text(&path));
    str_free(&path);
    return found;
}

// --- what runs

struct calling {
    const struct host_call *h;
    struct bundle_run run;
};

static void finish_calling(void *at)
{
    struct calling *c = at;
    bundle_run_finish(&c->run);
}

// A number that programs take at run time has no place in what a call gives: a tensor of rank 0 has.
static kiln_status check_slots(const char *what, const struct bundle_content *c)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < c->n_slots && !status; i++) {
        struct str path;
        str_init(&path);
        if (bundle_name_slot(c, i, &path)->kind != KILN_KIND_TENSOR)
            status = error_set(KILN_E_ARGUMENT, "host_call: %s%s is a mutable number; give a tensor of rank 0", what,
                               str_text(&path));
        str_free(&path);
    }
    return status;
}

static kiln_status check_form(const struct host_call *h, const struct bundle_content *given)
{
    struct bundle_difference d;
    kiln_status status = KILN_OK;
    bool differs = bundle_differs(h->form->out, given, &d);
    const char *says = host_call_who_says(h), *path = str_text(&d.path);
    if (differs && d.what == BUNDLE_NAMES)
        status = error_set(KILN_E_ARGUMENT, "host_call: out%s of fn has another name than %s", path, says);
    else if (differs)
        status = error_set(KILN_E_ARGUMENT, "host_call: out%s of fn %s %s, %s %s", path,
                           d.what == BUNDLE_COUNTS ? "has" : "is", str_text(&d.is), says, str_text(&d.was));
    bundle_difference_finish(&d);
    return status;
}

static kiln_status learn_form(struct calling *c)
{
    struct host_form *f = c->h->form;
    f->nothing = !c->run.out;
    if (f->nothing) return KILN_OK;
    TRY(check_slots("out", c->run.out));
    f->out = bundle_content_ref(c->run.result.out);
    for (size_t i = 0; i < c->run.made.n; i++) {
        kiln_tensor *t = kiln_alias(c->run.made.v[i]);
        if (t) TRY(host_call_take_as_f64(&t));
        if (!t) return error_pending;
        TRY(vec_push(&f->learnt, NULL));
        f->learnt.v[i] = kiln_own(t);
    }
    return KILN_OK;
}

// The function of tensors that the user's function of bundles is.
static kiln_status on_tensors(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct calling *c = user;
    const struct host_form *f = c->h->form;
    TRY(bundle_run(&c->run, in, n_in));
    if (f->learns) return learn_form(c);
    if (!f->out) return KILN_OK;
    struct bundle_content *empty = c->run.result.out ? NULL : bundle_content_new();
    if (!c->run.result.out && !empty) return error_pending;
    kiln_status status = check_form(c->h, empty ? empty : c->run.result.out);
    bundle_content_unref(empty);
    for (size_t i = 0; i < n_out && !status; i++) out[i] = c->run.made.v[i];
    return status;
}

typedef kiln_status run_fn(const struct host_call *h, const struct region *r, kiln_device *dev, kiln_tensor *const *in,
                           size_t n_in, kiln_tensor **out);

static kiln_status call_fn(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                           kiln_tensor **out, run_fn *how)
{
    struct calling c = {.h = h,
                        .run = {.fn = (kiln_bundle_fn)h->fn,
                                .user = h->user,
                                .op = "host_call",
                                .name = "fn",
                                .in = h->form->in,
                                .by_value = true}};
    const struct region r = {"host_call", "fn", on_tensors, &c};
    struct leave left;
    leave_push(&left, finish_calling, &c);
    kiln_status status = how(h, &r, dev, in, n_in, out);
    leave_pop(&left);
    finish_calling(&c);
    return status;
}

static kiln_status run(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                       kiln_tensor **out)
{
    return call_fn(h, dev, in, n_in, out, host_call_run_region);
}

// --- the call

struct bundle_request {
    struct host_request q;
    struct bundle_content *in; // a reference
    bundle_tensors tensors;    // borrowed of it
    kiln_tensor **given;       // q.n_out
};

static void finish(void *at)
{
    struct bundle_request *b = at;
    host_request_finish(&b->q);
    if (b->q.form) form_unref(b->q.form);
    vec_free(&b->tensors);
    free(b->given);
    bundle_content_unref(b->in);
}

// What the tensors of a bundle are, is what those of the result are to be.
static kiln_status declare(struct bundle_request *b, const kiln_bundle *spec)
{
    struct bundle_content *c;
    TRY(bundle_read("host_call", spec, &c));
    TRY(check_slots("spec", c));
    b->q.n_out = (size_t)c->n_slots;
    b->q.form->out = bundle_strip(c);
    return b->q.form->out ? KILN_OK : error_pending;
}

static kiln_status take_types(struct bundle_request *b, const kiln_bundle *spec)
{
    struct bundle_content *c;
    bundle_tensors like = {0};
    TRY(bundle_read("host_call", spec, &c));
    kiln_status status = bundle_flatten(c, &like);
    for (size_t i = 0; i < like.n && !status; i++) {
        status = tensor_check("host_call", "a tensor of spec", like.v[i]);
        b->q.types[i] = like.v[i]->type;
        b->q.types[i].weak = false;
    }
    vec_free(&like);
    return status;
}

static kiln_status run_to_learn(const struct host_call *h, const struct region *r, kiln_device *dev,
                                kiln_tensor *const *in, size_t n_in, kiln_tensor **out)
{
    return host_call_run_fn(h, r, dev, in, n_in, out, 0);
}

static kiln_status learn(struct host_request *q, kiln_tensor *const *in, kiln_tensor **out)
{
    return call_fn(&q->h, NULL, in, q->n_in, out, run_to_learn);
}

// There is room for as many results as there may be.
static kiln_status take_learnt(struct bundle_request *b)
{
    struct host_request *q = &b->q;
    size_t n = q->form->learnt.n;
    if (q->n_in + n > UINT8_MAX)
        return error_set(KILN_E_ARGUMENT, "host_call: in has %zu tensors, out %zu; together %d are the most", q->n_in,
                         n, UINT8_MAX);
    q->form->learns = false;
    q->n_out = n;
    for (size_t i = 0; i < n; i++) q->types[i] = q->form->learnt.v[i]->type;
    return KILN_OK;
}

// In a graph: a call to learn from, and then the node.
static kiln_status learn_then_take(struct bundle_request *b)
{
    struct host_request *q = &b->q;
    TRY(host_request_learn(q, learn));
    TRY(take_learnt(b));
    for (size_t i = 0; i < q->n_out; i++) tensor_destroy(q->form->learnt.v[i]);
    q->form->learnt.n = 0;
    return host_request_take(q, b->given);
}

// Eagerly the call to learn from is the call.
static kiln_status take_then_learn(struct bundle_request *b)
{
    struct host_request *q = &b->q;
    TRY(host_request_take(q, b->given));
    TRY(take_learnt(b));
    q->h.n_out = (int)q->n_out;
    for (size_t i = 0; i < q->n_out; i++)
        if (!(b->given[i] = kiln_alias(q->form->learnt.v[i]))) return error_pending;
    struct host_call h = q->h; // of the results alone
    h.flags &= ~(uint64_t)KILN_HOST_WRITES;
    return host_call_place(&h, q->in, q->n_in, b->given);
}

static kiln_status give(struct bundle_request *b, kiln_bundle **out)
{
    struct host_form *f = b->q.form;
    if (!out || f->nothing || !f->out) return KILN_OK;
    struct bundle_content *c = bundle_fill(f->out, b->given, false);
    if (c) *out = bundle_handle_on(c);
    return *out ? KILN_OK : error_pending;
}

static kiln_status call(struct bundle_request *b, kiln_bundle_fn fn, void *user, const kiln_bundle *spec,
                        kiln_bundle **out, unsigned flags, kiln_bprop_fn rule)
{
    static const struct host_kind kind = {.name = "host_call",
                                          .run = run,
                                          .form_ref = form_ref,
                                          .form_unref = form_unref,
                                          .form_same = form_same,
                                          .name_value = name_value};
    struct host_request *q = &b->q;
    bool undeclared = out && !spec;
    TRY(bundle_flatten(b->in, &b->tensors));
    q->in = b->tensors.v;
    q->n_in = b->tensors.n;
    if (!(q->form = form_new(b->in))) return error_pending;
    q->form->learns = undeclared;
    if (spec) TRY(declare(b, spec));
    if (undeclared) q->n_out = q->n_in < UINT8_MAX ? UINT8_MAX - q->n_in : 0;
    b->given = calloc(q->n_out + 1, sizeof(kiln_tensor *));
    if (!b->given) return error_set(KILN_E_MEMORY, "host_call: out of memory");
    TRY(host_request_begin(q, &kind, (void (*)(void))fn, user, flags, rule));
    if (spec) TRY(take_types(b, spec));
    if (!undeclared) return host_request_take(q, b->given);
    q->n_out = 0;
    TRY(host_request_undeclared(q));
    return host_call_is_recorded() ? learn_then_take(b) : take_then_learn(b);
}

kiln_status kiln_bundle_host_call(kiln_bundle_fn fn, void *user, const kiln_bundle *in, const kiln_bundle *spec,
                                  kiln_bundle **out, unsigned flags, kiln_bprop_fn rule)
{
    struct bundle_request b = {0};
    struct kiln_scope scope;
    if (error_pending) return error_pending;
    if (out) *out = NULL;
    TRY(bundle_check("host_call", "in", in));
    if (spec) TRY(bundle_check("host_call", "spec", spec));
    TRY(bundle_read("host_call", in, &b.in));
    bundle_content_ref(b.in);
    struct state_leave left;
    state_push(&left, finish, &b);
    scope_enter(&scope);
    kiln_status status = call(&b, fn, user, spec, out, flags, rule);
    if (!status) status = give(&b, out);
    if (out && *out) kiln_bundle_keep(*out);
    scope_leave(&scope, NULL, 0);
    state_pop(&left);
    finish(&b);
    return status;
}
