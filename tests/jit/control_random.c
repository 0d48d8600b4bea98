// Random numbers in regions of control flow: the same bits eagerly and in all captures, another piece of the stream for
// each trip, what comes after is drawn as if the region had drawn nothing, and gradients know what was drawn.
#include "jit_cells.h"
#include <kiln/control.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { SIDE = 5, TRIPS = 3 };

static kiln_tensor *uniform(void)
{
    return kiln_uniform(NULL, KILN_F32, KILN_SHAPE(SIDE), 0, 1);
}

// --- programs: they give a value that is differentiated, what was drawn, and what is drawn afterwards

REGION(drops)
{
    kiln_tensor *x = in[n_in - 1];
    out[0] =
        kiln_add(kiln_dropout(kiln_mul(x, x), 0.5), kiln_mul(x, kiln_normal(NULL, KILN_F32, KILN_SHAPE(SIDE), 0, 1)));
    return kiln_error();
}

static kiln_status with_draws(kiln_tensor *y, kiln_tensor *drawn, kiln_tensor **out)
{
    out[0] = y;
    out[1] = drawn ? drawn : kiln_zeros_like(y);
    out[2] = uniform();
    return kiln_error();
}

REGION(by_for)
{
    kiln_tensor *y, *x = kiln_mul(in[0], kiln_scalar(0.5));
    TRY_(kiln_for(kiln_scalar_int(TRIPS), drops, NULL, &x, 1, NULL, &y, 1));
    return with_draws(y, NULL, out);
}

REGION(draws_row)
{
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(0.5)), kiln_dropout(in[1], 0.25));
    out[1] = uniform();
    return kiln_error();
}

static kiln_status scans(kiln_tensor *x, bool reverse, kiln_tensor **out)
{
    kiln_tensor *rows = kiln_stack((kiln_tensor *[]){x, kiln_sin(x), kiln_mul(x, x)}, TRIPS, 0), *y[2];
    kiln_tensor *all[] = {uniform(), rows};
    TRY_(kiln_scan(draws_row, NULL, all, 2, KILN_SCAN(.carried = 1, .reverse = reverse), y, 2));
    return with_draws(y[0], y[1], out);
}

REGION(by_scan)
{
    return scans(in[0], false, out);
}

REGION(by_reverse_scan)
{
    return scans(in[0], true, out);
}

REGION(draws_twice)
{
    out[0] = kiln_mul(in[0], uniform());
    out[1] = uniform();
    return kiln_error();
}

REGION(draws_nothing)
{
    out[0] = kiln_sin(in[0]);
    out[1] = kiln_zeros_like(in[0]);
    return kiln_error();
}

static kiln_status chooses(kiln_tensor *x, double above, kiln_tensor **out)
{
    kiln_tensor *y[2], *pred = kiln_greater(kiln_sum(kiln_abs(x), NULL), kiln_scalar(above));
    TRY_(kiln_cond(pred, draws_twice, draws_nothing, NULL, &x, 1, y, 2));
    return with_draws(y[0], y[1], out);
}

REGION(by_branch_that_draws)
{
    return chooses(in[0], 0, out);
}

REGION(by_branch_that_does_not)
{
    return chooses(in[0], 1e6, out);
}

REGION(draws_again)
{
    out[0] = kiln_less(kiln_uniform(NULL, KILN_F32, KILN_SHAPE0, 0, 1), kiln_scalar(0.75));
    return kiln_error();
}

REGION(adds_draw)
{
    kiln_tensor *u = uniform();
    out[0] = kiln_add(kiln_dropout(in[0], 0.25), kiln_mul(u, kiln_sin(in[0])));
    out[1] = kiln_add(in[1], u);
    return kiln_error();
}

// As long as the dice say.
REGION(by_while)
{
    kiln_tensor *start[] = {in[0], kiln_zeros_like(in[0])}, *y[2];
    TRY_(kiln_while(draws_again, adds_draw, NULL, start, 2, KILN_LOOP(.bound = 64), y, 2));
    return with_draws(y[0], y[1], out);
}

REGION(nested_trip)
{
    kiln_tensor *x = kiln_add(in[1], uniform()), *y, *z[2];
    TRY_(kiln_for(kiln_scalar_int(2), drops, NULL, &x, 1, NULL, &y, 1));
    kiln_tensor *pred = kiln_less(kiln_uniform(NULL, KILN_F32, KILN_SHAPE0, 0, 1), kiln_scalar(0.5));
    TRY_(kiln_cond(pred, draws_twice, draws_nothing, NULL, &y, 1, z, 2));
    out[0] = kiln_mul(kiln_sin(z[0]), kiln_scalar(0.5));
    out[1] = kiln_add(in[2], kiln_add(z[1], uniform()));
    return kiln_error();
}

REGION(by_nested_regions)
{
    kiln_tensor *start[] = {in[0], kiln_zeros_like(in[0])}, *y[2];
    TRY_(kiln_for(kiln_scalar_int(TRIPS), nested_trip, NULL, start, 2, NULL, y, 2));
    return with_draws(y[0], y[1], out);
}

REGION(two_loops)
{
    kiln_tensor *x = kiln_mul(in[0], uniform()), *y, *z;
    TRY_(kiln_for(kiln_scalar_int(2), drops, NULL, &x, 1, NULL, &y, 1));
    TRY_(kiln_for(kiln_scalar_int(2), drops, NULL, &x, 1, NULL, &z, 1));
    return with_draws(kiln_add(y, z), kiln_sub(y, z), out);
}

// So many that the host draws them in pieces of 2^18.
REGION(by_pieces)
{
    kiln_tensor *z = kiln_normal(NULL, KILN_F32, KILN_SHAPE((1 << 19) + 77), 0, 1);
    kiln_tensor *at_first_seam = kiln_narrow(z, 0, (1 << 18) - 2, SIDE);
    return with_draws(kiln_mul(in[0], kiln_narrow(z, 0, (1 << 19) - 3, SIDE)), at_first_seam, out);
}

static const struct {
    const char *name;
    kiln_fn fn;
} programs[] = {{"for", by_for},
                {"scan", by_scan},
                {"reverse scan", by_reverse_scan},
                {"a branch that draws", by_branch_that_draws},
                {"a branch that does not", by_branch_that_does_not},
                {"while", by_while},
                {"nested regions", by_nested_regions},
                {"two loops", two_loops},
                {"pieces", by_pieces}};
enum { PROGRAMS = sizeof programs / sizeof *programs, CALLS = 3, OUT = 3 };

static kiln_tensor *input(struct fixture *f)
{
    return kiln_add(kiln_mul(kiln_arange(f->dev, KILN_F32, 0, SIDE, 1), kiln_scalar(0.25)), kiln_scalar(0.125));
}

static uint64_t place_in_stream(struct fixture *f)
{
    uint64_t seed, offset;
    ok(kiln_rng_state(f->dev, &seed, &offset));
    assert_int_equal(seed, 17);
    return offset;
}

static void captures_draw_what_eager_mode_draws(void **state)
{
    struct fixture *f = *state;
    for (int p = 0; p < PROGRAMS; p++) {
        kiln_tensor *x = input(f), *want[CALLS][OUT], *got[OUT];
        uint64_t places[CALLS];
        ok(kiln_seed(f->dev, 17));
        for (int t = 0; t < CALLS; t++) {
            ok(programs[p].fn(NULL, &x, 1, want[t], OUT));
            places[t] = place_in_stream(f);
        }
        for (enum cell cell = 0; cell < CELLS; cell++) {
            kiln_function *j = capture_in(cell, programs[p].fn, NULL);
            ok(kiln_seed(f->dev, 17));
            for (int t = 0; t < CALLS; t++) {
                ok(kiln_call(j, &x, 1, got, OUT));
                for (int i = 0; i < OUT; i++) same_or_say(cell, t, programs[p].name, got[i], want[t][i]);
                for (int i = 1; i < OUT; i++) near(got[i], want[t][i], p == 7 && i == 1 ? 1e-6 : 0);
                if (place_in_stream(f) != places[t]) fail_msg("%s, %s", programs[p].name, cell_names[cell]);
            }
            kiln_function_free(&j);
        }
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

// --- gradients

static kiln_fn differentiated;

REGION(loss)
{
    kiln_tensor *y[OUT];
    TRY_(differentiated(user, in, n_in, y, OUT));
    out[0] = kiln_sum(kiln_mul(y[0], kiln_sin(y[0])), NULL);
    return kiln_error();
}

REGION(slope)
{
    return kiln_value_and_grad(loss, NULL, in, n_in, NULL, out, 2);
}

REGION(sum_of_squared_slope)
{
    kiln_tensor *d[2];
    TRY_(kiln_value_and_grad(loss, NULL, in, n_in, KILN_GRAD(.create_graph = true), d, 2));
    out[0] = kiln_sum(kiln_square(d[1]), NULL);
    return kiln_error();
}

REGION(second_slope)
{
    return kiln_value_and_grad(sum_of_squared_slope, NULL, in, n_in, NULL, out, 2);
}

static void slopes_agree(struct fixture *f, kiln_fn of)
{
    kiln_tensor *x = input(f);
    for (int p = 0; p < PROGRAMS; p++) {
        kiln_tensor *want[2], *got[2];
        differentiated = programs[p].fn;
        ok(kiln_seed(f->dev, 17));
        ok(of(NULL, &x, 1, want, 2));
        for (enum cell cell = 0; cell < CELLS; cell++) {
            kiln_function *j = capture_in(cell, of, NULL);
            for (int t = 0; t < 2; t++) {
                ok(kiln_seed(f->dev, 17));
                ok(kiln_call(j, &x, 1, got, 2));
                for (int i = 0; i < 2; i++) same_or_say(cell, t, programs[p].name, got[i], want[i]);
            }
            kiln_function_free(&j);
        }
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

static void gradients_inside_of_captures_know_what_was_drawn(void **state)
{
    slopes_agree(*state, slope);
}

static void so_do_gradients_of_gradients(void **state)
{
    slopes_agree(*state, second_slope);
}

static kiln_function *called;

REGION(call)
{
    return kiln_call(called, in, n_in, out, n_out);
}

// The backward program of a call is given its numbers; other draws lie in between.
static void gradients_of_captured_functions_know_what_was_drawn(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = input(f);
    for (int p = 0; p < PROGRAMS; p++) {
        kiln_tensor *want[2], *got[2];
        for (enum cell cell = 0; cell < CELLS; cell++)
            for (int second = 0; second < 2; second++) {
                differentiated = programs[p].fn;
                ok(kiln_set_mode(KILN_MODE_EAGER));
                ok(kiln_seed(f->dev, 17));
                ok((second ? second_slope : slope)(NULL, &x, 1, want, 2));
                called = capture_in(cell, programs[p].fn, NULL);
                ok(kiln_set_mode(KILN_MODE_EAGER));
                differentiated = call;
                for (int t = 0; t < 2; t++) {
                    ok(kiln_seed(f->dev, 17));
                    ok((second ? second_slope : slope)(NULL, &x, 1, got, 2));
                    for (int i = 0; i < 2; i++) same_or_say(cell, t, programs[p].name, got[i], want[i]);
                }
                kiln_function_free(&called);
            }
    }
}

// --- what is drawn

static bool any_equal(kiln_tensor *a, kiln_tensor *b)
{
    kiln_tensor *same = kiln_any(kiln_equal(a, b), NULL);
    return kiln_item(same) != 0;
}

static void trips_draw_other_numbers(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = input(f), *y[OUT], *next[OUT];
    ok(kiln_seed(f->dev, 17));
    ok(by_scan(NULL, &x, 1, y, OUT));
    ok(by_scan(NULL, &x, 1, next, OUT));
    for (int i = 0; i < TRIPS; i++) {
        kiln_tensor *row = kiln_select(y[1], 0, i);
        for (int k = 0; k < i; k++) assert_false(any_equal(row, kiln_select(y[1], 0, k)));
        for (int k = 0; k < TRIPS; k++) assert_false(any_equal(row, kiln_select(next[1], 0, k)));
        assert_false(any_equal(row, y[2]));
    }
}

// What comes after does not depend on what was drawn.
static void branches_leave_the_stream_where_it_was(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = input(f), *one[OUT], *other[OUT];
    ok(kiln_seed(f->dev, 17));
    ok(by_branch_that_draws(NULL, &x, 1, one, OUT));
    ok(kiln_seed(f->dev, 17));
    ok(by_branch_that_does_not(NULL, &x, 1, other, OUT));
    near(one[2], other[2], 0);
}

// A captured function that is called in a region draws as its ops would there.
REGION(calls_in_trip)
{
    return kiln_call(called, in + 1, 1, out, 1);
}

REGION(drops_in_trip)
{
    return drops(user, in + 1, 1, out, 1);
}

static void captured_functions_draw_in_regions(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = input(f), *want, *got;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        ok(kiln_set_mode(KILN_MODE_EAGER));
        ok(kiln_seed(f->dev, 17));
        ok(kiln_for(kiln_scalar_int(TRIPS), drops_in_trip, NULL, &x, 1, NULL, &want, 1));
        called = capture_in(cell, drops, NULL);
        ok(kiln_set_mode(KILN_MODE_EAGER));
        ok(kiln_seed(f->dev, 17));
        ok(kiln_for(kiln_scalar_int(TRIPS), calls_in_trip, NULL, &x, 1, NULL, &got, 1));
        same_or_say(cell, 0, "a call in a trip", got, want);
        kiln_function_free(&called);
    }
}

static kiln_tensor *known;

REGION(by_constant)
{
    kiln_tensor *y[2];
    TRY_(kiln_cond(known, draws_twice, draws_nothing, NULL, in, 1, y, 2));
    return with_draws(y[0], y[1], out);
}

// The region is chosen while the function is captured, so that it would draw from the stream around.
static void constant_conditions_of_regions_that_draw_are_refused(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = input(f), *y[OUT];
    known = kiln_constant(kiln_full(f->dev, KILN_BOOL, KILN_SHAPE0, 1));
    kiln_function *j = kiln_jit(by_constant, NULL, NULL);
    assert_int_equal(kiln_call(j, &x, 1, y, OUT), KILN_E_UNSUPPORTED);
    assert_non_null(strstr(kiln_error_message(), "choose by if"));
    kiln_error_clear();
    known = kiln_constant(kiln_full(f->dev, KILN_BOOL, KILN_SHAPE0, 0));
    kiln_function *k = kiln_jit(by_constant, NULL, NULL);
    ok(kiln_call(k, &x, 1, y, OUT));
    kiln_function_free(&j);
    kiln_function_free(&k);
}

// --- what a trace reads behind a loop that draws

REGION(drops_half)
{
    out[0] = kiln_dropout(in[1], 0.5);
    return kiln_error();
}

REGION(reads_behind_a_loop)
{
    kiln_tensor *y;
    TRY_(kiln_for(kiln_scalar_int(2), drops_half, NULL, in, 1, NULL, &y, 1));
    out[0] = kiln_mul(y, kiln_scalar(kiln_item(kiln_sum(y, NULL))));
    return kiln_error();
}

static void a_trace_reads_behind_draws(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(40)), *got, *want;
    kiln_function *j = kiln_jit(reads_behind_a_loop, NULL, KILN_JIT(.capture = KILN_CAPTURE_TRACE));
    kiln_seed(f->dev, 3);
    ok(reads_behind_a_loop(NULL, &x, 1, &want, 1));
    kiln_seed(f->dev, 3);
    ok(kiln_call(j, &x, 1, &got, 1));
    near(got, want, 1e-6);
    kiln_function_free(&j);
}

// --- what a region leaves in a parameter is no operand of the user's

static kiln_tensor *weight;

// user: whether it draws.
REGION(leaves_a_gradient)
{
    kiln_tensor *y = user ? kiln_dropout(weight, 0.5) : weight;
    return kiln_backward(kiln_sum(kiln_square(y), NULL), NULL);
}

REGION(trains)
{
    TRY_(kiln_for(kiln_scalar_int(2), leaves_a_gradient, user, NULL, 0, NULL, NULL, 0));
    out[0] = kiln_add(kiln_uniform(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(4), 0, 1), in[0]);
    return kiln_error();
}

static void gradients_that_are_left_take_no_number(void **state)
{
    struct fixture *f = *state;
    for (int draws = 0; draws < 2; draws++) {
        kiln_tensor *want = NULL, *want_slope = NULL, *y, *x = kiln_ones(f->dev, KILN_F32, KILN_SHAPE(4));
        uint64_t seed, offset, want_offset = 0;
        for (int cell = -1; cell < CELLS; cell++) {
            void *user = draws ? &draws : NULL;
            kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, trains, user);
            weight = kiln_parameter(kiln_full(f->dev, KILN_F32, KILN_SHAPE(4), 3), "w");
            kiln_seed(f->dev, 3);
            ok(j ? kiln_call(j, &x, 1, &y, 1) : trains(user, &x, 1, &y, 1));
            kiln_rng_state(f->dev, &seed, &offset);
            if (cell < 0) want = y, want_slope = kiln_gradient(weight), want_offset = offset;
            assert_int_equal(offset, want_offset);
            if (cell >= 0) {
                same_or_say((enum cell)cell, draws, "what is drawn behind it", y, want);
                same_or_say((enum cell)cell, draws, "gradient", kiln_gradient(weight), want_slope);
            }
            kiln_function_free(&j);
            ok(kiln_set_mode(KILN_MODE_EAGER));
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(captures_draw_what_eager_mode_draws),
        FIXTURE(gradients_inside_of_captures_know_what_was_drawn),
        FIXTURE(so_do_gradients_of_gradients),
        FIXTURE(gradients_of_captured_functions_know_what_was_drawn),
        FIXTURE(trips_draw_other_numbers),
        FIXTURE(branches_leave_the_stream_where_it_was),
        FIXTURE(captured_functions_draw_in_regions),
        FIXTURE(constant_conditions_of_regions_that_draw_are_refused),
        FIXTURE(a_trace_reads_behind_draws),
        FIXTURE(gradients_that_are_left_take_no_number),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
