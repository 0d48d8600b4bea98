// What is differentiated by may be a constant of the capture: host data, kiln_constant, what was made of these. All is
// what it is eagerly.
#include "jit_cells.h"
#include <kiln/control.h>
#include <kiln/host.h>

#define FN(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { CALLS = 3 };

static kiln_tensor *outside; // a tensor that is no parameter and no state

static kiln_tensor *host_data(kiln_tensor *like)
{
    return kiln_from_data(kiln_tensor_device(like), KILN_F32, KILN_SHAPE(3), (float[]){1, 2, 3});
}

// --- what is differentiated; user is the input of the capture

FN(waves)
{
    out[0] = kiln_sum(kiln_sin(kiln_mul(kiln_square(in[0]), user)), NULL);
    return kiln_error();
}

FN(waves_of_both)
{
    out[0] = kiln_sum(kiln_sin(kiln_mul(in[0], in[1])), NULL);
    return kiln_error();
}

FN(writes_by_numbers)
{
    TRY_(kiln_mul_(kiln_narrow(in[0], 0, 1, 2), kiln_scalar(3)));
    return waves(user, in, n_in, out, n_out);
}

FN(writes_by_input)
{
    kiln_tensor *view = kiln_narrow(in[0], 0, 0, 2);
    TRY_(kiln_mul_(kiln_narrow(in[0], 0, 1, 2), kiln_narrow(user, 0, 0, 2)));
    out[0] = kiln_add(kiln_sum(kiln_square(in[0]), NULL), kiln_sum(kiln_mul(view, view), NULL));
    return kiln_error();
}

struct within {
    kiln_tensor *x, *y;
};

FN(branch)
{
    const struct within *w = user;
    out[0] = kiln_mul(in[0], kiln_sin(kiln_mul(w->x, w->y)));
    return kiln_error();
}

FN(other_branch)
{
    const struct within *w = user;
    out[0] = kiln_add(in[0], kiln_exp(w->x));
    return kiln_error();
}

FN(reaches_from_a_branch)
{
    const struct within w = {in[0], user};
    kiln_tensor *y;
    TRY_(kiln_cond(kiln_greater(kiln_sum(user, NULL), kiln_scalar(2)), branch, other_branch, (void *)&w,
                   (kiln_tensor **)&user, 1, &y, 1));
    out[0] = kiln_sum(y, NULL);
    return kiln_error();
}

FN(trip)
{
    const struct within *w = user;
    out[0] = kiln_add(kiln_mul(in[1], kiln_scalar(0.5)), kiln_mul(w->x, w->y));
    return kiln_error();
}

FN(is_carried)
{
    const struct within w = {kiln_square(in[0]), user};
    kiln_tensor *y;
    TRY_(kiln_for(kiln_scalar_int(3), trip, (void *)&w, in, 1, NULL, &y, 1));
    out[0] = kiln_sum(kiln_mul(y, y), NULL);
    return kiln_error();
}

FN(host_half)
{
    out[0] = kiln_mul(in[0], kiln_scalar(0.5));
    return kiln_error();
}

static kiln_status half_back(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                             kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_scalar(0.5));
    return kiln_error();
}

FN(calls_the_host)
{
    static const int64_t dims[] = {3};
    const kiln_host_spec spec = {KILN_F32, 1, dims};
    kiln_tensor *y;
    TRY_(kiln_host_call(host_half, NULL, in, 1, &spec, &y, 1, KILN_HOST_IO, half_back));
    out[0] = kiln_sum(kiln_mul(kiln_square(y), user), NULL);
    return kiln_error();
}

FN(slope)
{
    kiln_tensor *d;
    TRY_(kiln_grad(waves, user, in, 1, KILN_GRAD(.create_graph = true), &d, 1));
    out[0] = kiln_sum(kiln_square(d), NULL);
    return kiln_error();
}

// --- captures: the gradient, and the constant afterwards

static kiln_status differentiate(kiln_fn fn, kiln_tensor *x, kiln_tensor *const *in, kiln_tensor **out)
{
    TRY_(kiln_value_and_grad(fn, in[0], &x, 1, NULL, out, 2));
    out[2] = kiln_mul(kiln_stop_gradient(x), in[0]);
    if (kiln_requires_grad(x)) return KILN_E_INTERNAL;
    return kiln_error();
}

FN(by_host_data)
{
    return differentiate(*(const kiln_fn *)user, host_data(in[0]), in, out);
}

FN(by_constant)
{
    return differentiate(*(const kiln_fn *)user, kiln_constant(outside), in, out);
}

FN(by_part)
{
    kiln_tensor *all = kiln_concat((kiln_tensor *[]){host_data(in[0]), host_data(in[0])}, 2, 0);
    return differentiate(*(const kiln_fn *)user, kiln_narrow(all, 0, 2, 3), in, out);
}

struct inner {
    kiln_fn fn;
    kiln_tensor *y;
};

FN(differentiates)
{
    const struct inner *n = user;
    return kiln_grad(n->fn, n->y, in + n_in - 1, 1, NULL, out, 1);
}

// The constant lies outside of the region that differentiates by it.
FN(in_regions)
{
    kiln_tensor *x = host_data(in[0]);
    const struct inner n = {*(const kiln_fn *)user, in[0]};
    kiln_tensor *large = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(2));
    TRY_(kiln_cond(large, differentiates, host_half, (void *)&n, &x, 1, out, 1));
    TRY_(kiln_for(kiln_scalar_int(2), differentiates, (void *)&n, &x, 1, NULL, out + 1, 1));
    out[2] = kiln_mul(x, in[0]);
    return kiln_error();
}

FN(by_both)
{
    kiln_tensor *both[] = {host_data(in[0]), in[0]};
    return kiln_value_and_grad(waves_of_both, NULL, both, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, 3);
}

FN(by_parameter)
{
    kiln_tensor *x = kiln_parameter(host_data(in[0]), "made inside");
    TRY_(waves(in[0], &x, 1, out, 1));
    TRY_(kiln_backward(out[0], NULL));
    out[1] = kiln_mul(kiln_gradient(x), kiln_scalar(1));
    TRY_(reaches_from_a_branch(in[0], &x, 1, out, 1));
    TRY_(kiln_backward(out[0], NULL));
    out[2] = kiln_mul(kiln_gradient(x), kiln_scalar(1));
    out[0] = kiln_stop_gradient(out[0]);
    return kiln_error();
}

static void agree(struct fixture *f, kiln_fn fn, void *user)
{
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, fn, user);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *x = vec(f, 3, 0.25, 0.5 + t, 0.75), *y[3], *z[3];
            ok(kiln_call(j, &x, 1, y, 3));
            ok(fn(user, &x, 1, z, 3));
            for (int i = 0; i < 3; i++) {
                double most = kiln_item(kiln_max(kiln_abs(kiln_sub(y[i], z[i])), NULL));
                if (!(most < 1e-4)) print_error("%s, call %d, result %d\n", cell_names[cell], t, i);
                if (!(most < 1e-4)) kiln_print(y[i], stderr);
                if (!(most < 1e-4)) kiln_print(z[i], stderr);
                assert_true(most < 1e-4);
                assert_false(kiln_requires_grad(y[i]));
            }
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

static void constants_are_differentiated_by(void **state)
{
    static const kiln_fn of[] = {waves, reaches_from_a_branch, is_carried, calls_the_host, slope};
    static const kiln_fn by[] = {by_host_data, by_constant, by_part};
    struct fixture *f = *state;
    outside = vec(f, 3, 3., 1., 2.);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (size_t k = 0; k < sizeof by / sizeof *by; k++) agree(f, by[k], (void *)&of[i]);
    agree(f, by_both, NULL);
}

static void constants_are_written(void **state)
{
    static const kiln_fn of[] = {writes_by_numbers, writes_by_input};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        agree(f, by_host_data, (void *)&of[i]);
        agree(f, by_part, (void *)&of[i]);
    }
}

static void constants_around_regions(void **state)
{
    static const kiln_fn of[] = {waves, reaches_from_a_branch, is_carried, slope};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) agree(f, in_regions, (void *)&of[i]);
}

static void parameters_that_are_made_inside(void **state)
{
    agree(*state, by_parameter, NULL);
}

// --- a state that leads to a parameter outside, beside such a derivative

struct led {
    kiln_tensor *state, *w;
    bool by_slope;
};

FN(slope_by_data)
{
    kiln_tensor *d, *data = host_data(in[0]);
    out[0] = kiln_sum(in[0], NULL);
    if (!((struct led *)user)->by_slope) return kiln_error();
    TRY_(kiln_grad(waves_of_both, NULL, (kiln_tensor *[]){data, in[0]}, 2, KILN_GRAD(.create_graph = true), &d, 1));
    out[0] = kiln_sum(d, NULL);
    return kiln_error();
}

FN(of_the_state)
{
    const struct led *l = user;
    return slope_by_data(user, &l->state, 1, out, 1);
}

FN(by_what_lies_behind)
{
    const struct led *l = user;
    return kiln_grad(of_the_state, user, NULL, 0, KILN_GRAD(.params = {1, (kiln_tensor *const *)&l->w}), out, 1);
}

// What lies behind a state is known at each call only: an error, or the gradient that eager mode gives.
static void states_with_a_history_are_not_passed_over(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int by_slope = 0; by_slope < 2; by_slope++) {
            struct led l = {vec(f, 3, 1, -1, 0.5), kiln_parameter(vec(f, 3, 2, 3, 4), "w"), by_slope};
            kiln_tensor *got = NULL, *want = NULL;
            ok(kiln_state(l.state));
            ok(kiln_mul_(l.state, l.w));
            kiln_function *j = capture_in(cell, by_what_lies_behind, &l);
            if (cell == AUTO) {
                ok(by_what_lies_behind(&l, NULL, 0, &want, 1));
                ok(kiln_call(j, NULL, 0, &got, 1));
                same_or_say(cell, by_slope, "the gradient", got, want);
            } else
                fails(kiln_call(j, NULL, 0, &got, 1), KILN_E_UNSUPPORTED, "depends on others outside of the capture");
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

int main(int argc, char **argv)
{
    if (choose_device(argc, argv)) return 77;
    const struct CMUnitTest tests[] = {
        FIXTURE(constants_are_differentiated_by),
        FIXTURE(constants_are_written),
        FIXTURE(constants_around_regions),
        FIXTURE(parameters_that_are_made_inside),
        FIXTURE(states_with_a_history_are_not_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
