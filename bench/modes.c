// The two ways to call a case: as it is, op by op, or captured as one graph. A step of training is captured whole:
// forward, loss, backward and update.
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
    static const char *const names[MODE_COUNT] = {"eager", "jit"};
    return names[m];
}

static kiln_status run_captured(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct state *s = user;
    kiln_tensor *all[STATE_INPUTS] = {NULL};
    memcpy(all, in, n_in * sizeof *in);
    return s->c->run(s, all, out);
}

static size_t count_inputs(const struct state *s)
{
    size_t n = 0;
    while (n < STATE_INPUTS && s->in[n]) n++;
    return n;
}

kiln_status state_begin(struct state *s, kiln_device *dev, const struct sizes *z, const struct bench_case *c,
                        enum mode mode)
{
    *s = (struct state){.dev = dev, .z = z, .c = c};
    kiln_scope *scope = kiln_scope_begin();
    c->setup(s);
    kiln_scope_end(&scope);
    if (mode == MODE_JIT) s->function = kiln_jit(run_captured, s, NULL);
    return kiln_error();
}

kiln_status state_call(struct state *s, kiln_tensor **out)
{
    return s->function ? kiln_call(s->function, s->in, count_inputs(s), out, 1) : s->c->run(s, s->in, out);
}

void state_finish(struct state *s)
{
    kiln_function_free(&s->function);
    for (size_t i = 0; i < STATE_INPUTS; i++) kiln_free(&s->in[i]);
    trainer_free(&s->net);
}

// --- the comparison

// What the last of the calls gave, owned by the caller.
static kiln_tensor *result_of(kiln_device *dev, const struct sizes *z, const struct bench_case *c, enum mode mode)
{
    struct state s;
    kiln_tensor *result = NULL;
    kiln_seed(dev, SEED);
    state_begin(&s, dev, z, c, mode);
    for (int i = 0; i < CHECKED_CALLS && !kiln_error(); i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_free(&result);
        if (!state_call(&s, &result)) kiln_own(result);
        kiln_scope_end(&scope);
    }
    state_finish(&s);
    return result;
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

void check_values(kiln_device *dev, const struct sizes *z, const struct bench_case *c, char *error, size_t size)
{
    kiln_tensor *eager = result_of(dev, z, c, MODE_EAGER), *jit = result_of(dev, z, c, MODE_JIT);
    kiln_scope *scope = kiln_scope_begin();
    compare_values(eager, jit, error, size);
    kiln_scope_end(&scope);
    kiln_free(&eager);
    kiln_free(&jit);
}
