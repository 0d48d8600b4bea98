// A bank of Kalman filters follows a target on a plane, and finds out how the target moves.
//
//     kalman --steps 200 --filters 16
//
// A target moves with a velocity that changes at random, and its place is measured with noise. A Kalman filter (Kalman
// 1960) knows how strong both are; here neither is known. The bank runs one filter for each of several strengths of the
// change of velocity, all along the same measurements, as one batch in one kiln_scan; the likelihood of the
// measurements says which filter knows best. Then both strengths are learnt by going up the gradient of the likelihood
// through all steps of the filter, with captured functions.
#include "options.h"

#include <kiln/kiln.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STATE = 4, SEEN = 2 }; // place and velocity; the place is seen

static const double true_change = 0.05, true_noise = 0.5, log_2_pi = 1.8378770664093453;

struct options {
    const char *device;
    int64_t steps, filters, rounds;
};

static const char usage[] = "usage: kalman [options]\n"
                            "  --device D   cpu, gpu, vulkan, vulkan:N; default: $KILN_DEVICE, else the best there is\n"
                            "  --steps N    measurements (200)\n"
                            "  --filters N  in the bank (16)\n"
                            "  --rounds N   of learning (60)\n";

static bool parse_options(int argc, char **argv, struct options *o)
{
    bool read = READ_OPTIONS(argc, argv, {"device", .text = &o->device}, {"steps", .whole = &o->steps, .least = 2},
                             {"filters", .whole = &o->filters, .least = 2}, {"rounds", .whole = &o->rounds});
    bool good = read && no_arguments(argc, argv);
    if (!good) fputs(usage, stderr);
    return good;
}

// --- the filter. Shapes begin with the filters of the bank [B].

struct motion {
    kiln_tensor *next; // [STATE, STATE]: the place moves by the velocity
    kiln_tensor *push; // [STATE, STATE]: covariance of what a change of strength 1 does in a step
    kiln_tensor *seen; // [SEEN, STATE]: what is measured of the state
};

static void make_motion(struct motion *m, kiln_device *dev)
{
    const float next[] = {1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1};
    const float push[] = {0.25F, 0, 0.5F, 0, 0, 0.25F, 0, 0.5F, 0.5F, 0, 1, 0, 0, 0.5F, 0, 1};
    m->next = kiln_constant(kiln_from_data(dev, KILN_F32, KILN_SHAPE(STATE, STATE), next));
    m->push = kiln_constant(kiln_from_data(dev, KILN_F32, KILN_SHAPE(STATE, STATE), push));
    m->seen = kiln_constant(kiln_eye(dev, KILN_F32, SEEN, STATE));
}

static kiln_tensor *both_sides(kiln_tensor *a, kiln_tensor *p)
{
    return kiln_matmul(kiln_matmul(a, p), kiln_transpose(a, -2, -1));
}

// in: mean [B, STATE, 1], covariance [B, STATE, STATE], push [B, STATE, STATE], noise [B, SEEN, SEEN], and a
// measurement [SEEN, 1]. Gives the first four for the next step, then the mean and the logarithm of the likelihood [B].
static kiln_status filter(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct motion *m = user;
    kiln_tensor *mean = kiln_matmul(m->next, in[0]), *cov = kiln_add(both_sides(m->next, in[1]), in[2]);
    kiln_tensor *off = kiln_sub(in[4], kiln_matmul(m->seen, mean)), *spread = kiln_add(both_sides(m->seen, cov), in[3]);
    // gain^T = spread^-1 seen cov: the covariances are symmetric.
    kiln_tensor *gain = kiln_transpose(kiln_solve(spread, kiln_matmul(m->seen, cov)), -2, -1), *sign, *log_det;
    if (kiln_slogdet(spread, &sign, &log_det)) return kiln_error();
    kiln_tensor *distance = kiln_mul(off, kiln_solve(spread, off));
    distance = kiln_sum(distance, KILN_REDUCE(.axes = KILN_AXES(-2, -1)));
    out[0] = out[4] = kiln_add(mean, kiln_matmul(gain, off));
    out[1] = kiln_sub(cov, kiln_matmul(gain, kiln_matmul(m->seen, cov)));
    out[2] = in[2];
    out[3] = in[3];
    out[5] = kiln_mul(kiln_add(kiln_add(distance, log_det), SEEN * log_2_pi), -0.5);
    return kiln_error();
}

// change, noise: standard deviations [B]. Gives the logarithm of the likelihood of all measurements [T, SEEN, 1], by
// filter, and the means of each step [T, B, STATE, 1].
static kiln_status run_filters(struct motion *m, kiln_tensor *change, kiln_tensor *noise, kiln_tensor *measured,
                               kiln_tensor **likelihood, kiln_tensor **means)
{
    kiln_device *dev = kiln_tensor_device(measured);
    int64_t n = kiln_dim(change, 0);
    kiln_tensor *start = kiln_mul(kiln_eye(dev, KILN_F32, STATE, STATE), 10.0);
    kiln_tensor *push = kiln_mul(kiln_reshape(kiln_square(change), KILN_SHAPE(n, 1, 1)), m->push);
    kiln_tensor *blur =
        kiln_mul(kiln_reshape(kiln_square(noise), KILN_SHAPE(n, 1, 1)), kiln_eye(dev, KILN_F32, SEEN, SEEN));
    kiln_tensor *in[] = {kiln_zeros(dev, KILN_F32, KILN_SHAPE(n, STATE, 1)),
                         kiln_broadcast_to(start, KILN_SHAPE(n, STATE, STATE)), push, blur, measured};
    kiln_tensor *out[6];
    if (kiln_scan(filter, m, in, 5, KILN_SCAN(.carried = 4), out, 6)) return kiln_error();
    *means = out[4];
    *likelihood = kiln_sum(out[5], KILN_REDUCE(.axes = KILN_AXES(0)));
    return kiln_error();
}

// --- the target

// Places [T, SEEN, 1] of a target whose velocity changes, and what is measured of them.
static void make_track(kiln_device *dev, int64_t steps, kiln_tensor **places, kiln_tensor **measured)
{
    kiln_tensor *change = kiln_normal(dev, KILN_F32, KILN_SHAPE(steps, SEEN, 1), 0, true_change);
    kiln_tensor *velocity = kiln_cumsum(change, 0);
    // Within a step the change acts all the time: half of it on the place.
    *places = kiln_cumsum(kiln_sub(velocity, kiln_mul(change, 0.5)), 0);
    *measured = kiln_add(*places, kiln_normal(dev, KILN_F32, KILN_SHAPE(steps, SEEN, 1), 0, true_noise));
}

static double rms(kiln_tensor *difference)
{
    return kiln_item(kiln_sqrt(kiln_mean(kiln_square(difference), NULL)));
}

// --- the bank, then learning

struct bank {
    struct motion motion;
    kiln_tensor *log_change, *log_noise; // parameters [1]
    kiln_optim *opt;
};

// in: strengths of the change [B], of the noise [B], measurements. Gives likelihoods and places [T, B, SEEN, 1].
static kiln_status try_all(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct bank *b = user;
    kiln_tensor *means;
    if (run_filters(&b->motion, in[0], in[1], in[2], &out[0], &means)) return kiln_error();
    out[1] = kiln_narrow(means, 2, 0, SEEN);
    return kiln_error();
}

// in: measurements. Gives the logarithm of their likelihood, by measurement.
static kiln_status learn(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct bank *b = user;
    kiln_tensor *means, *likelihood;
    if (run_filters(&b->motion, kiln_exp(b->log_change), kiln_exp(b->log_noise), in[0], &likelihood, &means))
        return kiln_error();
    out[0] = kiln_div(kiln_sum(likelihood, NULL), (double)kiln_dim(in[0], 0));
    kiln_optim_zero_grad(b->opt);
    kiln_backward(kiln_neg(out[0]), NULL);
    return kiln_optim_step(b->opt);
}

static bool try_bank(struct bank *b, kiln_tensor *places, kiln_tensor *measured, int64_t filters)
{
    kiln_device *dev = kiln_tensor_device(measured);
    kiln_function *f = kiln_jit(try_all, b, NULL);
    kiln_tensor *changes = kiln_exp(kiln_linspace(dev, KILN_F32, log(0.001), log(2), filters));
    kiln_tensor *in[] = {changes, kiln_full(dev, KILN_F32, KILN_SHAPE(filters), true_noise), measured}, *out[2];
    bool better = false;
    if (!kiln_call(f, in, 3, out, 2)) {
        int64_t best = kiln_item_int(kiln_argmax(out[0], NULL));
        double raw = rms(kiln_sub(measured, places));
        double filtered = rms(kiln_sub(kiln_reshape(kiln_narrow(out[1], 1, best, 1), KILN_SHAPE(-1, SEEN, 1)), places));
        printf("best of %" PRId64 " filters: change %.4f, likelihood %.4f a measurement\n", filters,
               kiln_item(kiln_narrow(changes, 0, best, 1)),
               kiln_item(kiln_narrow(out[0], 0, best, 1)) / (double)kiln_dim(measured, 0));
        printf("off by %.3f as measured, by %.3f as filtered\n", raw, filtered);
        better = filtered < raw && best > 0 && best < filters - 1;
    }
    kiln_function_free(&f);
    return better && !kiln_error();
}

static bool learn_strengths(struct bank *b, kiln_tensor *measured, int64_t rounds)
{
    kiln_device *dev = kiln_tensor_device(measured);
    b->log_change = kiln_parameter(kiln_full(dev, KILN_F32, KILN_SHAPE(1), log(0.5)), "log change");
    b->log_noise = kiln_parameter(kiln_full(dev, KILN_F32, KILN_SHAPE(1), log(2)), "log noise");
    kiln_tensor *params[] = {b->log_change, b->log_noise};
    b->opt = kiln_optim_adam(params, 2, KILN_ADAM(.lr = 0.1));
    kiln_function *f = kiln_jit(learn, b, NULL);
    double first = 0, last = 0;
    for (int64_t i = 0; i < rounds && !kiln_error(); i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *likelihood;
        if (!kiln_call(f, &measured, 1, &likelihood, 1)) last = kiln_item(likelihood);
        if (i == 0) first = last;
        kiln_scope_end(&scope);
    }
    double change = exp(kiln_item(b->log_change)), noise = exp(kiln_item(b->log_noise));
    if (!kiln_error())
        printf("learnt: change %.4f (true %.4f), noise %.4f (true %.4f), likelihood %.4f, at the beginning %.4f\n",
               change, true_change, noise, true_noise, last, first);
    kiln_function_free(&f);
    kiln_optim_free(&b->opt);
    return !kiln_error() && (rounds < 2 || last > first);
}

int main(int argc, char **argv)
{
    struct options o = {.steps = 200, .filters = 16, .rounds = 60};
    if (!parse_options(argc, argv, &o)) return 2;
    kiln_device *dev = kiln_device_open(o.device);
    kiln_scope *scope = kiln_scope_begin();
    kiln_seed(dev, 3);
    struct bank bank = {0};
    kiln_tensor *places, *measured;
    make_motion(&bank.motion, dev);
    make_track(dev, o.steps, &places, &measured);
    bool good = try_bank(&bank, places, measured, o.filters);
    good = learn_strengths(&bank, measured, o.rounds) && good;
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    int code = good ? 0 : kiln_error() == KILN_E_MISSING ? 77 : 1;
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return code;
}
