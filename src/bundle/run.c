// A run of a function of bundles: tensors in, a bundle made of them, what it gives as tensors and a form.
#include "base/leave.h"
#include "bundle/bundle.h"
#include <stdio.h>

void bundle_result_finish(struct bundle_result *r)
{
    bundle_content_unref(r->out);
    bundle_content_unref(r->after);
    bundle_box_unref(r->box);
    *r = (struct bundle_result){0};
}

kiln_status bundle_result_copy(const struct bundle_result *r, struct bundle_result *out)
{
    *out = (struct bundle_result){.input = r->input,
                                  .out = bundle_content_ref(r->out),
                                  .after = bundle_content_ref(r->after),
                                  .box = r->box ? bundle_box_ref(r->box) : NULL};
    return KILN_OK;
}

static bool alike(const struct bundle_content *a, const struct bundle_content *b)
{
    return a && b ? bundle_is_like(a, b, NULL) : a == b;
}

bool bundle_result_equal(const struct bundle_result *a, const struct bundle_result *b)
{
    return a->box == b->box && a->input == b->input && alike(a->out, b->out) && alike(a->after, b->after);
}

struct running {
    struct bundle_run *r;
    kiln_bundle *in, *out;
    kiln_status status;
};

static void call(void *at)
{
    struct running *c = at;
    c->status = c->r->fn(c->r->user, c->in, &c->out);
}

// What it gave: a bundle from before it began is given as it is, the others by what is in them.
static kiln_status take(struct bundle_run *r, const kiln_bundle *out, struct bundle_box *in, uint64_t began)
{
    char argument[256];
    if (!out) return KILN_OK;
    snprintf(argument, sizeof argument, "what %s gave", r->name);
    TRY(bundle_check(r->op, argument, out));
    struct bundle_box *box = out->box;
    r->result.input = box == in && r->in_place;
    if (r->result.input) return KILN_OK;
    if (box != in && box->made < began && !r->by_value)
        r->result.box = bundle_box_ref(box);
    else
        r->out = bundle_content_ref(box->content);
    return KILN_OK;
}

static kiln_status flatten(struct bundle_run *r)
{
    if (r->out) TRY(bundle_flatten(r->out, &r->made));
    if (r->out && !(r->result.out = bundle_strip(r->out))) return error_pending;
    if (r->after) TRY(bundle_flatten(r->after, &r->made));
    if (r->after && !(r->result.after = bundle_strip(r->after))) return error_pending;
    return KILN_OK;
}

static kiln_status run(struct bundle_run *r, struct bundle_box *in)
{
    uint64_t began = bundle_now();
    struct running c = {.r = r, .in = bundle_handle(bundle_box_ref(in))};
    if (!c.in) return error_pending;
    leave_call(call, &c);
    if (error_pending) return error_pending;
    if (c.status) return error_set(c.status, "%s: %s failed with %s", r->op, r->name, kiln_status_name(c.status));
    TRY(take(r, c.out, in, began));
    if (r->in_place && in->version) r->after = bundle_content_ref(in->content);
    return flatten(r);
}

kiln_status bundle_run(struct bundle_run *r, kiln_tensor *const *tensors, size_t n_in)
{
    (void)n_in;
    bundle_run_finish(r);
    // Held by a handle of the scope, should the function be left.
    kiln_bundle *holder = bundle_handle_on(bundle_fill(r->in, (kiln_tensor **)tensors, false));
    return holder ? run(r, holder->box) : error_pending;
}

void bundle_run_drop(struct bundle_run *r)
{
    vec_free(&r->made);
    bundle_content_unref(r->out);
    bundle_content_unref(r->after);
    r->out = r->after = NULL;
}

void bundle_run_finish(struct bundle_run *r)
{
    bundle_run_drop(r);
    bundle_result_finish(&r->result);
}

static kiln_status give(const struct bundle_result *r, struct bundle_box *given, kiln_tensor **tensors,
                        kiln_bundle **out)
{
    struct bundle_content *after = NULL, *made = NULL;
    if (r->after) TRY(bundle_may_change("bundle_call", given));
    if (r->out && !(made = bundle_fill(r->out, tensors, true))) return error_pending;
    if (r->after && !(after = bundle_fill(r->after, tensors + (made ? made->n_slots : 0), true))) {
        bundle_content_unref(made);
        return error_pending;
    }
    if (after) bundle_box_fill(given, after);
    if (!r->out && !r->box && !r->input) return KILN_OK;
    *out = r->out ? bundle_handle_on(made) : bundle_handle(bundle_box_ref(r->box ? r->box : given));
    return *out ? KILN_OK : error_pending;
}

kiln_status bundle_give(const struct bundle_result *r, struct bundle_box *given, kiln_tensor **tensors, size_t n,
                        kiln_bundle **out)
{
    *out = NULL;
    for (size_t i = 0; i < n; i++) kiln_own(tensors[i]);
    kiln_status status = error_pending ? error_pending : give(r, given, tensors, out);
    for (size_t i = 0; i < n; i++)
        if (tensors[i]) tensor_destroy(tensors[i]);
    return status;
}
