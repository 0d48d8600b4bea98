// Steps that call the host: functions of C, prints, assertions.
#include "fuzz.h"
#include <kiln/host.h>

struct site {
    struct run *run;
    int number;
    bool quiet; // it may be called at other times, as all that lies before a call whose type is learnt
};

// What captures keep a pointer to for as long as they live.
static struct site *site_of(struct run *run, int number, bool quiet)
{
    static struct site sites[WAYS][HOST_SITES][2];
    struct site *s = &sites[run->way][number][quiet];
    *s = (struct site){run, number, quiet};
    return s;
}

static void note(const struct site *s, kiln_tensor *x)
{
    char name[32];
    snprintf(name, sizeof name, "host call %d", s->number);
    if (!s->quiet && !s->run->p->learns) trace_add(s->run->trace, name, x);
}

static kiln_status halve(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    note(user, in[0]);
    out[0] = kiln_mul(in[0], kiln_scalar(0.5));
    (void)n_in, (void)n_out;
    return kiln_error();
}

static kiln_status halve_back(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                              kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_scalar(0.5));
    (void)user, (void)in, (void)out;
    return kiln_error();
}

static kiln_tensor *call(struct site *s, kiln_tensor *x, bool declared, unsigned flags, kiln_bprop_fn rule)
{
    kiln_tensor *y;
    const kiln_host_spec spec = {kiln_tensor_dtype(x), kiln_rank(x), kiln_dims(x)};
    return kiln_host_call(halve, s, &x, 1, declared ? &spec : NULL, &y, 1, flags, rule) ? NULL : y;
}

kiln_tensor *host_halves(struct run *run, int site, kiln_tensor *x)
{
    kiln_tensor *zero = kiln_zeros(run->dev, kiln_tensor_dtype(x), KILN_SHAPE0); // of a number a tensor
    return call(site_of(run, site, false), kiln_rank(x) ? x : kiln_add(x, zero), true, KILN_HOST_IO, halve_back);
}

kiln_tensor *step_host_call(struct operands *o)
{
    uint32_t kind = choose(o, 4);
    if (kind == 1 && !o->run->p->learns) kind = 2;
    if (!is_float(o->a) || !kiln_rank(o->a)) return NULL;
    say(o, "the host's half of %s%s", o->na,
        kind == 0   ? ", a pure call"
        : kind == 1 ? ", of a type that is learnt"
        : kind == 2 ? ", without a gradient"
                    : "");
    bool quiet = kind < 2;
    struct site *s = site_of(o->run, o->run->step, quiet);
    return call(s, o->a, kind != 1, kind == 0 ? KILN_HOST_PURE : KILN_HOST_IO, kind == 2 ? NULL : halve_back);
}

static kiln_status write(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    note(user, in[0]);
    (void)n_in, (void)out, (void)n_out;
    return kiln_mul_(in[0], kiln_scalar(0.5));
}

kiln_tensor *step_host_write(struct operands *o)
{
    struct site *s = site_of(o->run, o->run->step, false);
    if (!is_float(o->a) || !kiln_rank(o->a)) return NULL;
    say(o, "the host halves %s", o->na);
    return kiln_host_call(write, s, &o->a, 1, NULL, NULL, 0, KILN_HOST_WRITES, NULL) ? NULL : o->a;
}

// What is printed are numbers that no rounding changes.
void host_tells(struct run *run, int site, kiln_tensor *x)
{
    kiln_tensor *lost = kiln_isnan(x);
    kiln_debug_print("{} of {}", kiln_scalar_int(site), kiln_scalar_int(kiln_numel(x)));
    kiln_assert(kiln_equal(lost, lost), "{} at step {}", x, kiln_scalar_int(run->step));
}

kiln_tensor *step_report(struct operands *o)
{
    if (!is_float(o->a)) return NULL;
    say(o, "prints of %s", o->na);
    host_tells(o->run, o->run->step, o->a);
    return kiln_error() ? NULL : o->a;
}

static kiln_status break_at_last(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct run *run = ((struct site *)user)->run;
    (void)in, (void)n_in, (void)out, (void)n_out;
    return run->call == run->p->n_calls - 1 ? HOST_BROKEN : KILN_OK;
}

kiln_status host_breaks(struct run *run)
{
    return kiln_host_call(break_at_last, site_of(run, HOST_BREAKS, false), NULL, 0, NULL, NULL, 0, KILN_HOST_IO, NULL);
}
