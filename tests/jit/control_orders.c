// Gradients of gradients through conditions and loops: inside of a captured function, and of one.
#include "jit_cells.h"
#include <kiln/control.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static kiln_tensor *weight; // of the function that is differentiated
static kiln_tensor *stopped;

REGION(curved)
{
    out[0] = kiln_mul(kiln_sin(in[n_in - 1]), weight);
    return kiln_error();
}

REGION(other)
{
    out[0] = kiln_exp(kiln_mul(in[n_in - 1], kiln_scalar(0.5)));
    return kiln_error();
}

static kiln_tensor *is_below(kiln_tensor *x, double limit)
{
    return kiln_less(kiln_sum(x, NULL), kiln_scalar(limit));
}

REGION(nested)
{
    return kiln_cond(is_below(in[n_in - 1], 100), curved, other, NULL, in + n_in - 1, 1, out, 1);
}

REGION(carries_row)
{
    out[0] = kiln_mul(kiln_sin(in[0]), in[1]);
    out[1] = kiln_mul(kiln_square(out[0]), weight);
    return kiln_error();
}

REGION(by_cond)
{
    return kiln_cond(is_below(in[0], 100), curved, other, NULL, in, 1, out, 1);
}

REGION(by_cond_not_taken)
{
    return kiln_cond(is_below(in[0], -100), curved, other, NULL, in, 1, out, 1);
}

REGION(by_nested_cond)
{
    return kiln_cond(is_below(in[0], 100), nested, other, NULL, in, 1, out, 1);
}

REGION(by_switch)
{
    kiln_tensor *index = kiln_cast(is_below(in[0], 100), KILN_I32);
    return kiln_switch(index, (const kiln_fn[]){other, nested, curved}, 3, NULL, in, 1, out, 1);
}

REGION(by_for)
{
    return kiln_for(kiln_scalar_int(3), curved, NULL, in, 1, NULL, out, 1);
}

REGION(by_for_with_cond)
{
    return kiln_for(kiln_scalar_int(3), nested, NULL, in, 1, NULL, out, 1);
}

REGION(grows)
{
    kiln_tensor *x = in[n_in - 1];
    out[0] = kiln_add(kiln_mul(x, kiln_scalar(1.25)), kiln_mul(kiln_sin(x), weight));
    return kiln_error();
}

REGION(is_small)
{
    out[0] = is_below(kiln_square(in[0]), 10);
    return kiln_error();
}

// As often as the values say, 16 times at most.
REGION(by_while)
{
    return kiln_while(is_small, grows, NULL, in, 1, KILN_LOOP(.bound = 16), out, 1);
}

REGION(by_counted_for)
{
    kiln_tensor *count = kiln_cast(kiln_mul(kiln_sum(in[0], NULL), kiln_scalar(1.25)), KILN_I32);
    return kiln_for(count, grows, NULL, in, 1, KILN_LOOP(.bound = 16), out, 1);
}

REGION(grows_twice)
{
    kiln_tensor *y;
    TRY_(kiln_while(is_small, grows, NULL, in + n_in - 1, 1, KILN_LOOP(.bound = 16), &y, 1));
    out[0] = kiln_mul(kiln_sin(y), kiln_scalar(0.5));
    return kiln_error();
}

REGION(by_while_in_for)
{
    return kiln_for(kiln_scalar_int(2), grows_twice, NULL, in, 1, NULL, out, 1);
}

static kiln_status scans(kiln_tensor *x, bool reverse, kiln_tensor **out)
{
    kiln_tensor *all[] = {kiln_select(x, 0, 0), x}, *y[2];
    TRY_(kiln_scan(carries_row, NULL, all, 2, KILN_SCAN(.carried = 1, .reverse = reverse), y, 2));
    out[0] = kiln_add(y[0], kiln_sum(y[1], NULL));
    return kiln_error();
}

REGION(by_scan)
{
    return scans(in[0], false, out);
}

REGION(by_scan_back)
{
    return scans(in[0], true, out);
}

REGION(times_outer)
{
    out[0] = kiln_mul(kiln_square(in[n_in - 1]), stopped);
    return kiln_error();
}

// The region reads one memory at two places on the tape.
REGION(by_stopped)
{
    stopped = kiln_stop_gradient(in[0]);
    return kiln_cond(is_below(in[0], 100), times_outer, other, NULL, in, 1, out, 1);
}

REGION(stops_itself)
{
    kiln_tensor *x = in[n_in - 1], *there = kiln_stop_gradient(stopped), *here = kiln_stop_gradient(x);
    out[0] = kiln_mul(kiln_mul(kiln_square(x), here), there);
    return kiln_error();
}

// A region stops what another capture around it made, or was given.
REGION(by_stopped_inside)
{
    stopped = in[0];
    return kiln_cond(is_below(in[0], 100), stops_itself, other, NULL, in, 1, out, 1);
}

REGION(by_stopped_in_loop)
{
    stopped = kiln_stop_gradient(in[0]);
    return kiln_for(kiln_scalar_int(2), times_outer, NULL, in, 1, NULL, out, 1);
}

REGION(adds_to_view)
{
    return kiln_add_(stopped, kiln_mul(weight, kiln_scalar(0.5)));
}

// A view of what is differentiated, written if the condition holds.
REGION(by_written_view)
{
    kiln_tensor *x = kiln_sin(in[0]);
    stopped = kiln_narrow(x, 0, 1, 2);
    TRY_(kiln_cond(is_below(x, 100), adds_to_view, NULL, NULL, NULL, 0, NULL, 0));
    out[0] = kiln_mul(x, kiln_scalar(0.5));
    return kiln_error();
}

REGION(by_view)
{
    stopped = kiln_narrow(in[0], 0, 1, 2);
    kiln_tensor *part = kiln_narrow(in[0], 0, 0, 2);
    return kiln_cond(is_below(in[0], 100), times_outer, other, NULL, &part, 1, out, 1);
}

REGION(stops_in_part)
{
    out[0] = kiln_add(kiln_stop_gradient(in[0]), kiln_mul(kiln_square(in[0]), weight));
    return kiln_error();
}

// A view of what is carried, stopped in a region inside.
REGION(turns_and_stops)
{
    kiln_tensor *turned = kiln_flip(in[n_in - 1], KILN_AXES(0));
    return kiln_cond(is_below(turned, 1000), stops_in_part, other, NULL, &turned, 1, out, 1);
}

REGION(by_view_stopped_in_loop)
{
    return kiln_for(kiln_scalar_int(2), turns_and_stops, NULL, in, 1, NULL, out, 1);
}

static kiln_tensor *fixed; // of f32[3], made outside of the function

REGION(by_for_from_constant)
{
    kiln_tensor *start = kiln_constant(fixed);
    stopped = in[0];
    return kiln_for(kiln_scalar_int(3), times_outer, NULL, &start, 1, NULL, out, 1);
}

static kiln_status scan_beside_constant(kiln_tensor *start, kiln_tensor *rows, kiln_tensor **out)
{
    kiln_tensor *all[] = {start, rows}, *y[2];
    TRY_(kiln_scan(carries_row, NULL, all, 2, KILN_SCAN(.carried = 1), y, 2));
    out[0] = kiln_add(y[0], kiln_sum(y[1], NULL));
    return kiln_error();
}

REGION(by_scan_of_constant)
{
    return scan_beside_constant(kiln_select(in[0], 0, 0), kiln_constant(fixed), out);
}

REGION(by_scan_from_constant)
{
    return scan_beside_constant(kiln_select(kiln_constant(fixed), 0, 0), in[0], out);
}

REGION(by_cond_on_constant)
{
    kiln_tensor *start = kiln_constant(fixed);
    stopped = in[0];
    return kiln_cond(is_below(in[0], 100), times_outer, other, NULL, &start, 1, out, 1);
}

static const struct form {
    const char *name;
    kiln_fn fn;
} forms[] = {
    {"cond", by_cond},
    {"cond, the other branch", by_cond_not_taken},
    {"cond in a cond", by_nested_cond},
    {"switch", by_switch},
    {"for", by_for},
    {"cond in a for", by_for_with_cond},
    {"while", by_while},
    {"for, by a count that is a value", by_counted_for},
    {"while in a for", by_while_in_for},
    {"scan", by_scan},
    {"scan back", by_scan_back},
    {"cond by what was stopped", by_stopped},
    {"cond by what a branch stops", by_stopped_inside},
    {"for by what was stopped", by_stopped_in_loop},
    {"cond by views", by_view},
    {"cond that writes a view", by_written_view},
    {"for from a constant", by_for_from_constant},
    {"scan of a constant", by_scan_of_constant},
    {"scan from a constant", by_scan_from_constant},
    {"cond on a constant", by_cond_on_constant},
    {"view stopped in a loop", by_view_stopped_in_loop},
};
enum { FORMS = sizeof forms / sizeof *forms };

REGION(core)
{
    const struct form *form = user;
    kiln_tensor *y;
    weight = in[1];
    TRY_(form->fn(NULL, in, 1, &y, 1));
    out[0] = kiln_sum(kiln_square(y), NULL);
    return kiln_error();
}

// Gradients of `fn` by both inputs, as one number.
static kiln_status slope_of(kiln_fn fn, void *user, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *d[2];
    TRY_(kiln_grad(fn, user, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), d, 2));
    out[0] = kiln_add(kiln_sum(kiln_square(d[0]), NULL), kiln_mul(d[1], kiln_scalar(3)));
    return kiln_error();
}

REGION(slope)
{
    return slope_of(core, user, in, out);
}

REGION(second)
{
    return slope_of(slope, user, in, out);
}

static const kiln_fn orders[] = {core, slope, second};
static kiln_function *captured; // NULL: none

REGION(captured_core)
{
    return captured ? kiln_call(captured, in, n_in, out, n_out) : core(user, in, n_in, out, n_out);
}

REGION(slope_of_captured)
{
    return slope_of(captured_core, user, in, out);
}

struct inside {
    kiln_fn fn;
    void *user;
};

REGION(differentiates_inside)
{
    const struct inside *i = user;
    return kiln_grad(i->fn, i->user, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, 2);
}

// Loops make other numbers of trips with each, one of them none.
enum { CALLS = 3 };

static void inputs(struct fixture *f, int call, kiln_tensor **in)
{
    static const double scales[CALLS] = {1, 0.2, 2.5};
    in[0] = kiln_mul(vec(f, 3, 0.4, 0.8, 1.2), kiln_scalar(scales[call]));
    in[1] = kiln_full(f->dev, KILN_F32, KILN_SHAPE0, 0.5);
}

static void same_gradients(const struct form *form, int order, int cell, kiln_tensor *const *got,
                           kiln_tensor *const *want)
{
    for (int k = 0; k < 2; k++) {
        double most = kiln_item(kiln_max(kiln_abs(want[k]), NULL));
        double by = kiln_item(kiln_max(kiln_abs(kiln_sub(got[k], want[k])), NULL));
        if (!(by <= 2e-5 * (most + 1)))
            print_error("%s, order %d, %s: gradient %d is %g away of %g\n", form->name, order, cell_names[cell], k, by,
                        most);
        assert_true(by <= 2e-5 * (most + 1));
    }
}

static void gradients_of_gradients_inside_of_a_capture(void **state)
{
    struct fixture *f = *state;
    fixed = vec(f, 3, 0.9, 0.3, 0.6);
    for (int i = 0; i < FORMS; i++)
        for (int order = 1; order <= 3; order++)
            for (enum cell cell = 0; cell < CELLS; cell++) {
                kiln_tensor *in[2], *want[2], *got[2];
                struct inside inside = {orders[order - 1], (void *)(uintptr_t)&forms[i]};
                kiln_function *j = capture_in(cell, differentiates_inside, &inside);
                for (int t = 0; t < CALLS; t++) {
                    inputs(f, t, in);
                    ok(kiln_call(j, in, 2, got, 2));
                    kiln_mode mode = kiln_get_mode();
                    ok(kiln_set_mode(KILN_MODE_EAGER));
                    ok(differentiates_inside(&inside, in, 2, want, 2));
                    ok(kiln_set_mode(mode));
                    same_gradients(&forms[i], order, cell, got, want);
                }
                kiln_function_free(&j);
                ok(kiln_set_mode(KILN_MODE_EAGER));
            }
}

static void second_gradients_of_a_captured_function(void **state)
{
    struct fixture *f = *state;
    const kiln_grad_opts *by_both = KILN_GRAD(.wrt = KILN_ARGS(0, 1));
    fixed = vec(f, 3, 0.9, 0.3, 0.6);
    for (int i = 0; i < FORMS; i++)
        for (enum cell cell = 0; cell < CELLS; cell++) {
            void *form = (void *)(uintptr_t)&forms[i];
            kiln_function *j = capture_in(cell, core, form);
            for (int t = 0; t < CALLS; t++) {
                kiln_tensor *in[2], *want[2], *got[2];
                inputs(f, t, in);
                captured = j;
                ok(kiln_grad(slope_of_captured, form, in, 2, by_both, got, 2));
                captured = NULL;
                ok(kiln_grad(slope_of_captured, form, in, 2, by_both, want, 2));
                same_gradients(&forms[i], 2, cell, got, want);
            }
            kiln_function_free(&j);
            ok(kiln_set_mode(KILN_MODE_EAGER));
        }
}

// An input that is a leaf is stopped in a region.
static void regions_stop_inputs(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *want = NULL;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, by_stopped_inside, NULL);
        kiln_tensor *y, *x = vec(f, 2, 1., 2.);
        ok(kiln_set_requires_grad(x, true));
        ok(j ? kiln_call(j, &x, 1, &y, 1) : by_stopped_inside(NULL, &x, 1, &y, 1));
        ok(kiln_backward(kiln_sum(y, NULL), NULL));
        if (cell < 0) want = kiln_gradient(x);
        same(kiln_gradient(x), want);
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(gradients_of_gradients_inside_of_a_capture),
        FIXTURE(second_gradients_of_a_captured_function),
        FIXTURE(regions_stop_inputs),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
