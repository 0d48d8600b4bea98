// A differential equation as a loop of a graph: y'' = -k y - 0.2 y', solved with steps as large as the error allows, so
// that how many there are depends on the values. The loop is captured once, and differentiated by k: from where the
// oscillator is seen after a while Newton's method finds its stiffness.
#include "check.h"

#include <kiln/control.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static const double until = 3, tolerance = 1e-4;

static kiln_tensor *slope(kiln_tensor *y, kiln_tensor *k)
{
    kiln_tensor *at = kiln_narrow(y, 0, 0, 1), *speed = kiln_narrow(y, 0, 1, 1);
    kiln_tensor *force = kiln_add(kiln_mul(k, at), kiln_mul(speed, kiln_scalar(0.2)));
    return kiln_concat((kiln_tensor *[]){speed, kiln_neg(force)}, 2, 0);
}

// What is carried: the state, the time, the step that is tried next.
REGION(is_before_the_end)
{
    out[0] = kiln_less(in[1], kiln_scalar(until));
    return kiln_error();
}

// Heun's step, beside Euler's for its error.
REGION(step)
{
    kiln_tensor *k = user, *y = in[0], *t = in[1];
    kiln_tensor *h = kiln_minimum(in[2], kiln_sub(kiln_scalar(until), t));
    kiln_tensor *first = slope(y, k), *euler = kiln_add(y, kiln_mul(h, first)), *second = slope(euler, k);
    kiln_tensor *heun = kiln_add(y, kiln_mul(kiln_mul(h, kiln_scalar(0.5)), kiln_add(first, second)));
    // How large a step is, is no part of the derivative.
    kiln_tensor *error = kiln_stop_gradient(kiln_max(kiln_abs(kiln_sub(heun, euler)), NULL));
    kiln_tensor *good = kiln_less(error, kiln_scalar(tolerance));
    kiln_tensor *better = kiln_sqrt(kiln_div(kiln_scalar(tolerance), kiln_add(error, kiln_scalar(1e-12))));
    out[0] = kiln_where(good, heun, y);
    out[1] = kiln_where(good, kiln_add(t, h), t);
    out[2] = kiln_mul(h, kiln_clip(kiln_mul(better, kiln_scalar(0.9)), kiln_scalar(0.3), kiln_scalar(2)));
    return kiln_error();
}

// in: k, the state at time 0. Gives where the oscillator is at the end.
REGION(solve)
{
    kiln_device *dev = kiln_tensor_device(in[0]);
    kiln_tensor *start[] = {in[1], kiln_zeros(dev, KILN_F32, KILN_SHAPE0), kiln_full(dev, KILN_F32, KILN_SHAPE0, 0.05)};
    kiln_tensor *end[3];
    if (kiln_while(is_before_the_end, step, in[0], start, 3, KILN_LOOP(.bound = 1000), end, 3)) return kiln_error();
    out[0] = kiln_sum(kiln_narrow(end[0], 0, 0, 1), NULL);
    return kiln_error();
}

REGION(solve_and_differentiate)
{
    return kiln_value_and_grad(solve, NULL, in, n_in, NULL, out, 2);
}

// From (1, 0) the equation has a solution in closed form.
static double exact(double k)
{
    double d = 0.1, w = sqrt(k - d * d);
    return exp(-d * until) * (cos(w * until) + d / w * sin(w * until));
}

int main(void)
{
    kiln_device *dev = open_device();
    kiln_scope *scope = kiln_scope_begin();
    kiln_function *f = kiln_jit(solve_and_differentiate, NULL, NULL);
    kiln_tensor *state = kiln_from_data(dev, KILN_F32, KILN_SHAPE(2), (float[]){1, 0});
    double k = 3.2, seen = exact(4);
    bool failed = false;
    for (int i = 0; i < 6 && !kiln_error(); i++) {
        kiln_scope *inner = kiln_scope_begin();
        kiln_tensor *in[] = {kiln_full(dev, KILN_F32, KILN_SHAPE0, k), state}, *both[2];
        kiln_call(f, in, 2, both, 2);
        double at = kiln_item(both[0]), by_k = kiln_item(both[1]), want = (exact(k + 1e-5) - exact(k - 1e-5)) / 2e-5;
        printf("k = %.4f: at %.4f, exactly %.4f; derivative %.4f, exactly %.4f\n", k, at, exact(k), by_k, want);
        failed |= !(fabs(at - exact(k)) < 5e-3) || !(fabs(by_k - want) < 1e-2);
        k -= (at - seen) / by_k;
        kiln_scope_end(&inner);
    }
    kiln_jit_stats stats = {.size = sizeof stats};
    kiln_function_stats(f, &stats);
    printf("k = %.3f, found with %d capture\n", k, (int)stats.captures);
    failed |= kiln_error() || !(fabs(k - 4) < 0.02) || stats.captures != 1;
    if (kiln_error()) fprintf(stderr, "%s\n", kiln_error_message());
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return failed;
}
