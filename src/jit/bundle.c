// kiln_bundle_call: a call of a captured function by a bundle. Its tensors are the inputs of a call as any other, the
// rest of it is a guard, and what comes back is put into the form that the function gave.
#include "base/handles.h"
#include "base/leave.h"
#include "jit/function.h"
#include <stdlib.h>

struct bundle_call {
    kiln_function *f;
    struct bundle_run run;
    struct bundle_box *given; // references
    struct bundle_content *in;
    bundle_tensors tensors; // borrowed of `in`
    struct outputs o;
};

static void finish(void *at)
{
    struct bundle_call *c = at;
    bundle_run_finish(&c->run);
    free(c->o.v);
    vec_free(&c->tensors);
    bundle_content_unref(c->in);
    bundle_box_unref(c->given);
}

static kiln_status call(struct bundle_call *c, kiln_bundle **out)
{
    kiln_bundle *gave = NULL;
    c->run = (struct bundle_run){.fn = c->f->bundle_fn,
                                 .user = c->f->user,
                                 .op = "bundle_call",
                                 .name = c->f->name,
                                 .in = c->in,
                                 .in_place = c->f->o.in_place};
    c->o = (struct outputs){.run = &c->run};
    TRY(bundle_flatten(c->in, &c->tensors));
    TRY(function_check_inputs(c->f, c->tensors.v, c->tensors.n));
    TRY(function_call(c->f, c->tensors.v, c->tensors.n, &c->o));
    TRY(bundle_give(&c->run.result, c->given, c->o.v, c->o.n, &gave));
    if (out)
        *out = gave;
    else
        kiln_bundle_free(&gave);
    return KILN_OK;
}

static kiln_status check(const kiln_function *f, const kiln_bundle *in)
{
    TRY(handle_check("bundle_call", "f", HANDLE_FUNCTION, f));
    TRY(bundle_check("bundle_call", "in", in));
    if (!f->bundle_fn) return error_set(KILN_E_ARGUMENT, "bundle_call: %s takes tensors: see kiln_call", f->name);
    return KILN_OK;
}

kiln_status kiln_bundle_call(kiln_function *f, kiln_bundle *in, kiln_bundle **out)
{
    struct bundle_call c = {.f = f};
    if (error_pending) return error_pending;
    if (out) *out = NULL;
    TRY(check(f, in));
    TRY(bundle_read("bundle_call", in, &c.in));
    bundle_content_ref(c.in);
    c.given = bundle_box_ref(in->box);
    struct leave left;
    leave_push(&left, finish, &c);
    kiln_status status = call(&c, out);
    leave_pop(&left);
    finish(&c);
    return status;
}
