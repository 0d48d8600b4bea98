// Calls of the host and assertions. What a call is given is an entry of the trace, so that how often calls happen, in
// which order and with which values is compared as results are.
#include "fuzz.h"
#include <kiln/control.h>
#include <kiln/host.h>

enum { EFFECTS = 64 }; // of a call that are entries of their own; of the others there is a count

// Nodes of graphs lead to these, so they outlive a run.
static struct host {
    struct run *run;
    int step;
} hosts[WAYS][STEPS];

static void *host_of(struct run *r)
{
    int step = r->step < 0 ? 0 : r->step;
    hosts[r->way][step] = (struct host){r, step};
    return &hosts[r->way][step];
}

static void note_effect(const struct host *h, kiln_tensor *t)
{
    char name[32];
    snprintf(name, sizeof name, "effect of step %d", h->step);
    if (h->run->backs_twice) return;
    if (h->run->effects++ < EFFECTS) trace_add(h->run->trace, name, t);
}

static kiln_status pure_tanh(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_tanh(in[0]);
    (void)user, (void)n_in, (void)n_out;
    return kiln_error();
}

static kiln_status noted_tanh(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    note_effect(user, in[0]);
    return pure_tanh(user, in, n_in, out, n_out);
}

static kiln_status note(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    note_effect(user, in[0]);
    (void)n_in, (void)out, (void)n_out;
    return kiln_error();
}

static kiln_status noted_half(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    note_effect(user, in[0]);
    (void)n_in, (void)out, (void)n_out;
    return kiln_mul_(in[0], kiln_scalar(0.5));
}

static kiln_status slope_of_tanh(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                                 kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_sub(kiln_scalar(1), kiln_square(out[0])));
    (void)user, (void)in;
    return kiln_error();
}

kiln_tensor *host_tanh(struct run *run, struct rng *choice, kiln_tensor *x)
{
    kiln_tensor *y = NULL;
    const kiln_host_spec spec = {kiln_tensor_dtype(x), kiln_rank(x), kiln_dims(x)};
    bool pure = rng_chance(choice, 30);
    unsigned flags = pure ? KILN_HOST_PURE : rng_chance(choice, 50) ? KILN_HOST_READS : KILN_HOST_IO;
    kiln_bprop_fn rule = rng_chance(choice, 75) ? slope_of_tanh : NULL;
    if (kiln_host_call(pure ? pure_tanh : noted_tanh, host_of(run), &x, 1, &spec, &y, 1, flags, rule)) return NULL;
    return y;
}

kiln_status host_note(struct run *run, kiln_tensor *x)
{
    return kiln_host_call(note, host_of(run), &x, 1, NULL, NULL, 0, KILN_HOST_IO, NULL);
}

kiln_tensor *step_host_call(struct operands *o)
{
    if (!is_float(o->a)) return NULL;
    bool constant = choose(o, 8) == 0;
    kiln_tensor *x = constant ? kiln_full(o->run->dev, kiln_tensor_dtype(o->a), KILN_SHAPE(3), 0.25) : o->a;
    say(o, "tanh(%s) by the host", constant ? "0.25" : o->na);
    return host_tanh(o->run, &o->choice, x);
}

// A capture runs what an undeclared call is given to learn its types, and makes the calls of the host before it once
// more for that.
static bool follows_effects(const struct run *r)
{
    for (int i = 0; i < r->step; i++) {
        const char *name = step_kinds[r->p->step[i].kind].name;
        if (!r->p->step[i].dropped && (!strncmp(name, "host", 4) || !strncmp(name, "flow", 4))) return true;
    }
    return false;
}

// Its results have no declared shape: a capture calls it itself, so it is not noted.
kiln_tensor *step_host_undeclared(struct operands *o)
{
    kiln_tensor *y = NULL;
    if (!is_float(o->a) || follows_effects(o->run)) return NULL;
    say(o, "tanh(%s) by the host, undeclared", o->na);
    kiln_status status = kiln_host_call(pure_tanh, host_of(o->run), &o->a, 1, NULL, &y, 1, KILN_HOST_PURE, NULL);
    return status ? NULL : kiln_cast(y, kiln_tensor_dtype(o->a));
}

kiln_tensor *step_host_note(struct operands *o)
{
    say(o, "%s, which the host is told", o->na);
    return host_note(o->run, o->a) ? NULL : o->a;
}

kiln_tensor *step_host_write(struct operands *o)
{
    if (!is_float(o->a)) return NULL;
    say(o, "%s halved in place by the host", o->na);
    return kiln_host_call(noted_half, host_of(o->run), &o->a, 1, NULL, NULL, 0, KILN_HOST_WRITES, NULL) ? NULL : o->a;
}

// One that holds, whatever the values are.
kiln_tensor *step_assert(struct operands *o)
{
    say(o, "%s, of which something true is asserted", o->na);
    kiln_tensor *is = kiln_equal(o->a, o->a), *is_not = kiln_not_equal(o->a, o->a);
    return kiln_assert(kiln_all(kiln_maximum(is, is_not), NULL), "{} is not itself", o->a) ? NULL : o->a;
}
