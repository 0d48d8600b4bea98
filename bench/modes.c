// The ways to call a case: as it is, op by op, or captured, as one graph (jit) or by running it (auto). A step of
// training is captured whole: forward, loss, backward and update.
//
// That both give the same is checked on two states made from the same random numbers. Both are called a few times, so
// that of a step of training the loss tells whether the updates before it were the same.
#include "bench.h"

#include <math.h>
#include <string.h>

#define CHECKED_CALLS 5
#define SEED          1

const char *mode_name(enum mode m)
{
    static const char *const names[MODE_COUNT] = {"eager", "jit", "auto"};
    return names[m];
}

static kiln_status run_captured(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct state *s = user;
    kiln_tensor *all[STATE_INPUTS] = {NULL};
    memcpy(all, in, n_in * sizeof *in);
    return s->c->run(s, all, out);
}

kiln_status state_begin(struct state *s, kiln_device *dev, const struct sizes *z, const struct bench_case *c,
                        enum mode mode)
{
    *s = (struct state){.dev = dev, .z = z, .c = c};
    kiln_scope *scope = kiln_scope_begin();
    c->setup(s);
    kiln_scope_end(&scope);
    if (mode == MODE_JIT) s->function = kiln_jit(run_captured, s, NULL);
    if (mode == MODE_AUTO) s->function = kiln_jit(run_captured, s, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    return kiln_error();
}

int state_outs(const struct state *s)
{
    return s->c->outs ? s->c->outs : 1;
}

kiln_status state_call(struct state *s, kiln_tensor **out)
{
    return s->function ? kiln_call(s->function, s->in, count_inputs(s), out, (size_t)state_outs(s))
                       : s->c->run(s, s->in, out);
}

void state_finish(struct state *s)
{
    kiln_function_free(&s->function);
    for (size_t i = 0; i < STATE_INPUTS; i++) kiln_free(&s->in[i]);
    trainer_free(&s->net);
}

// --- the comparison

// What the last of the calls gave, owned by the caller.
static void results_of(kiln_device *dev, const struct sizes *z, const struct bench_case *c, enum mode mode,
                       kiln_tensor **results)
{
    struct state s;
    kiln_seed(dev, SEED);
    state_begin(&s, dev, z, c, mode);
    for (int i = 0; i < CHECKED_CALLS && !kiln_error(); i++) {
        kiln_scope *scope = kiln_scope_begin();
        for (int k = 0; k < state_outs(&s); k++) kiln_free(&results[k]);
        if (!state_call(&s, results))
            for (int k = 0; k < state_outs(&s); k++) kiln_own(results[k]);
        kiln_scope_end(&scope);
    }
    state_finish(&s);
}

// In units of the largest value: what another order of sums may change in each dtype.
static double tolerance_of(kiln_dtype dtype)
{
    return dtype == KILN_BF16 ? 0x1p-7 : dtype == KILN_F16 ? 0x1p-9 : 2e-5;
}

static kiln_tensor *comparable(kiln_tensor *t)
{
    return kiln_tensor_dtype(t) == KILN_C64 ? t : kiln_cast(t, KILN_F32);
}

static double largest(kiln_tensor *t)
{
    return kiln_item(kiln_max(kiln_abs(comparable(t)), NULL));
}

static void compare_values(kiln_tensor *eager, kiln_tensor *jit, char *error, size_t size)
{
    if (kiln_error()) return;
    double tolerance = tolerance_of(kiln_tensor_dtype(eager));
    double scale = largest(eager), apart = largest(kiln_sub(comparable(jit), comparable(eager)));
    if (kiln_error() || (isfinite(scale) && apart <= tolerance * scale)) return;
    snprintf(error, size, "it differs from eager by %g, where values go up to %g", apart, scale);
}

void check_values(kiln_device *dev, const struct sizes *z, const struct bench_case *c, enum mode mode, char *error,
                  size_t size)
{
    kiln_tensor *eager[STATE_OUTPUTS] = {NULL}, *jit[STATE_OUTPUTS] = {NULL};
    results_of(dev, z, c, MODE_EAGER, eager);
    results_of(dev, z, c, mode, jit);
    kiln_scope *scope = kiln_scope_begin();
    for (int k = 0; k < STATE_OUTPUTS && eager[k] && !error[0]; k++) compare_values(eager[k], jit[k], error, size);
    kiln_scope_end(&scope);
    for (int k = 0; k < STATE_OUTPUTS; k++) {
        kiln_free(&eager[k]);
        kiln_free(&jit[k]);
    }
}
