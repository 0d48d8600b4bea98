// Where values lie on the tape in captured functions that differentiate, or that are differentiated twice: what was
// stopped, computed or written without gradients, and inputs that share their memory.
#include "jit_cells.h"

enum { CALLS = 3 };

struct twice {
    kiln_fn fn;
    kiln_function *captured; // NULL: fn itself runs
};

static kiln_status run_fn(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct twice *w = user;
    return w->captured ? kiln_call(w->captured, in, n_in, out, n_out) : w->fn(NULL, in, n_in, out, n_out);
}

// Second derivatives

static kiln_status stops(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *c = kiln_stop_gradient(kiln_square(in[0]));
    out[0] = kiln_mul(kiln_square(in[0]), c);
    return kiln_error();
}

static kiln_status computes_without(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_no_grad_begin();
    kiln_tensor *c = kiln_exp(in[0]);
    kiln_no_grad_end();
    out[0] = kiln_mul(kiln_square(in[0]), kiln_square(c));
    return kiln_error();
}

static kiln_status writes_without(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_square(in[0]);
    kiln_no_grad_begin();
    kiln_sub_(y, kiln_div(y, kiln_scalar(8)));
    kiln_no_grad_end();
    out[0] = kiln_mul(y, in[0]);
    return kiln_error();
}

static kiln_status uses_its_gradient(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *g = NULL;
    TRY_(kiln_grad(stops, NULL, in, 1, NULL, &g, 1));
    out[0] = kiln_mul(kiln_stop_gradient(g), kiln_square(in[0]));
    return kiln_error();
}

// Integers have gradients, too.
static kiln_status passes_integers(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *i = kiln_cast(kiln_mul(in[0], kiln_scalar(4)), KILN_I32);
    out[0] = kiln_mul(kiln_cast(kiln_add(i, i), KILN_F32), kiln_square(in[0]));
    return kiln_error();
}

static kiln_status first_derivative(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_grad(run_fn, user, in, n_in, KILN_GRAD(.create_graph = true), out, 1);
}

static void second_derivatives_stop_where_first_ones_do(void **state)
{
    static const kiln_fn functions[] = {stops, computes_without, writes_without, uses_its_gradient, passes_integers};
    struct fixture *f = *state;
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
        for (enum cell cell = 0; cell < CELLS; cell++) {
            struct twice mine = {functions[k], capture_in(cell, functions[k], NULL)};
            struct twice theirs = {functions[k], NULL};
            for (int t = 0; t < CALLS; t++) {
                kiln_tensor *x = vec(f, 2, 1. + t, .5), *got = NULL, *want = NULL;
                ok(kiln_grad(first_derivative, &mine, &x, 1, NULL, &got, 1));
                ok(kiln_grad(first_derivative, &theirs, &x, 1, NULL, &want, 1));
                near(got, want, 1e-5);
            }
            kiln_function_free(&mine.captured);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Derivatives inside

struct inside {
    kiln_tensor *p;
    kiln_fn fn; // of two tensors on one memory; `user` is this struct
};

static kiln_status reads_what_lies_outside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                           size_t n_out)
{
    struct inside *w = user;
    out[0] = kiln_sum(kiln_square(w->p), NULL);
    return kiln_error();
}

static kiln_status writes_one(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_mul_(in[0], kiln_scalar(3));
    out[0] = kiln_sum(kiln_square(in[1]), NULL);
    return kiln_error();
}

static kiln_status writes_one_without_gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                                size_t n_out)
{
    kiln_no_grad_begin();
    kiln_mul_(in[0], kiln_scalar(3));
    kiln_no_grad_end();
    out[0] = kiln_sum(kiln_square(in[1]), NULL);
    return kiln_error();
}

static kiln_status differentiates(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct inside *w = user;
    kiln_tensor *x = w->fn == reads_what_lies_outside ? w->p : kiln_add(in[0], kiln_scalar(1));
    kiln_tensor *both[] = {x, x}, *results[3];
    TRY_(kiln_value_and_grad(w->fn, w, both, 2, KILN_GRAD(.wrt = {2, (int64_t[]){0, 1}}), results, 3));
    out[0] = results[1];
    out[1] = results[2];
    return kiln_error();
}

static void inputs_on_one_memory_part_on_the_tape(void **state)
{
    // x = {2, 3}: 9 x^2 by what was written; 9 x^2 at 3 x by the other; nothing by what is only outside.
    static const struct {
        kiln_fn fn;
        double by_first[2], by_second[2];
    } cases[] = {{reads_what_lies_outside, {0, 0}, {0, 0}},
                 {writes_one, {36, 54}, {0, 0}},
                 {writes_one_without_gradients, {0, 0}, {12, 18}}};
    struct fixture *f = *state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int cell = -1; cell < CELLS; cell++) {
            struct inside w = {kiln_parameter(vec(f, 2, 3, 4), "p"), cases[k].fn};
            kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, differentiates, &w);
            for (int t = 0; t < CALLS; t++) {
                kiln_tensor *x = vec(f, 2, 1, 2), *out[2];
                ok(j ? kiln_call(j, &x, 1, out, 2) : differentiates(&w, &x, 1, out, 2));
                expect(out[0], 2, cases[k].by_first[0], cases[k].by_first[1]);
                expect(out[1], 2, cases[k].by_second[0], cases[k].by_second[1]);
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// The parameter is what the function is differentiated by, too.
static kiln_status updates(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct inside *w = user;
    kiln_no_grad_begin();
    kiln_mul_(w->p, kiln_scalar(0.5));
    kiln_no_grad_end();
    out[0] = kiln_sum(kiln_square(in[1]), NULL);
    return kiln_error();
}

static kiln_status differentiates_an_update(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                            size_t n_out)
{
    struct inside *w = user;
    kiln_tensor *both[] = {in[0], w->p}, *results[2];
    TRY_(kiln_value_and_grad(updates, w, both, 2, KILN_GRAD(.wrt = {1, (int64_t[]){1}}), results, 2));
    out[0] = results[1];
    return kiln_error();
}

static void an_updated_parameter_stays_one(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        struct inside w = {kiln_parameter(vec(f, 2, 8, 16), "p"), NULL};
        kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, differentiates_an_update, &w);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *x = vec(f, 2, 1, 2), *out;
            ok(j ? kiln_call(j, &x, 1, &out, 1) : differentiates_an_update(&w, &x, 1, &out, 1));
            expect(out, 2, 8. / (1 << t), 16. / (1 << t));
            assert_true(kiln_requires_grad(w.p));
            ok(kiln_set_gradient(w.p, kiln_zeros_like(w.p)));
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// Results

static kiln_status fills(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_square(in[0]);
    return kiln_assign(out[0], kiln_sum(in[0], NULL));
}

static void results_can_be_written_where_they_can_eagerly(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, fills, NULL);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *x = vec(f, 3, 1, 2, 3. + t), *out;
            ok(kiln_call(j, &x, 1, &out, 1));
            expect(out, 3, 6. + t, 6. + t, 6. + t);
            kiln_mul_(out, x);
            expect(out, 3, 6. + t, 2 * (6. + t), (3. + t) * (6. + t));
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// An integer's gradient is an integer: it is rounded when all has been added up, not piece by piece.
static kiln_status spreads_an_integer(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_mul(in[0], kiln_scalar(0));
    TRY_(kiln_assign(y, kiln_sum(kiln_cast(in[0], KILN_I32), NULL)));
    out[0] = kiln_mul(y, kiln_scalar(0.25));
    return kiln_error();
}

static void gradients_of_integers_add_up_first(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        struct twice w = {spreads_an_integer, NULL};
        if (cell >= 0) w.captured = capture_in((enum cell)cell, spreads_an_integer, NULL);
        kiln_tensor *x = vec(f, 8, 1, 2, 3, 4, 5, 6, 7, 8), *g = NULL;
        ok(kiln_grad(run_fn, &w, &x, 1, NULL, &g, 1));
        expect(g, 8, 2., 2., 2., 2., 2., 2., 2., 2.);
        kiln_function_free(&w.captured);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// The gradient of a maximum looks for the element that equals it: where a kernel computes the elements anew, unrounded,
// none may.
static kiln_status largest_of_halves(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = kiln_cast(in[0], KILN_BF16);
    out[0] = kiln_mul(x, kiln_max(kiln_sigmoid(x), KILN_REDUCE(.axes = KILN_ARGS(-1), .keepdims = true)));
    return kiln_error();
}

static void maxima_of_halves_are_found_again(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        struct twice mine = {largest_of_halves, capture_in(cell, largest_of_halves, NULL)};
        struct twice theirs = {largest_of_halves, NULL};
        kiln_tensor *x = mat(f, 2, 3, 0.3, 0.7, -1.1, 1.7, 0.2, 0.9), *got = NULL, *want = NULL;
        ok(kiln_grad(run_fn, &mine, &x, 1, NULL, &got, 1));
        ok(kiln_grad(run_fn, &theirs, &x, 1, NULL, &want, 1));
        near(got, want, 0.02);
        kiln_function_free(&mine.captured);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// By the numbers of places in its memory, an input that is differentiated inside is still that input.
static kiln_status sum_of_places(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *pairs = kiln_as_strided(in[0], KILN_SHAPE(2, 2), 2, (int64_t[]){1, 1}, 0);
    out[0] = kiln_sum(kiln_square(pairs), NULL);
    return kiln_error();
}

static kiln_status slope_of_places(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return kiln_grad(sum_of_places, NULL, in, 1, NULL, out, 1);
}

static void places_of_what_is_differentiated(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, slope_of_places, NULL);
        for (int t = 0; t < CALLS; t++) {
            kiln_tensor *x = vec(f, 3, 1., 2., 3.), *y;
            ok(kiln_call(j, &x, 1, &y, 1));
            expect(y, 3, 2., 8., 6.);
        }
        kiln_function_free(&j);
    }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(second_derivatives_stop_where_first_ones_do),
        FIXTURE(inputs_on_one_memory_part_on_the_tape),
        FIXTURE(an_updated_parameter_stays_one),
        FIXTURE(results_can_be_written_where_they_can_eagerly),
        FIXTURE(gradients_of_integers_add_up_first),
        FIXTURE(maxima_of_halves_are_found_again),
        FIXTURE(places_of_what_is_differentiated),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
