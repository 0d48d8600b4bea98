// Gradients through conditions and loops, where captures and eager mode could part.
#include "jit_cells.h"
#include <kiln/control.h>
#include <math.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

// Eagerly, then in each capture.
#define FIRST_WAY (-1)

struct way {
    int cell;
    kiln_fn fn;
    void *user;
    kiln_function *captured;
};

static struct way begin(int cell, kiln_fn fn, void *user)
{
    return (struct way){cell, fn, user, cell < 0 ? NULL : capture_in((enum cell)cell, fn, user)};
}

static kiln_status call(const struct way *w, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return w->captured ? kiln_call(w->captured, in, n_in, out, n_out) : w->fn(w->user, in, n_in, out, n_out);
}

static void end(struct way *w)
{
    kiln_function_free(&w->captured);
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

REGION(row_and_product)
{
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(0.5)), in[1]);
    out[1] = kiln_mul(out[0], in[1]);
    return kiln_error();
}

REGION(last_of_scan)
{
    kiln_tensor *all[] = {kiln_mul(kiln_select(in[0], 0, 0), kiln_scalar(0)), in[0]}, *y[2];
    bool rows = *(bool *)user;
    TRY_(kiln_scan(row_and_product, NULL, all, 2, KILN_SCAN(.carried = 1), y, 2));
    out[0] = kiln_alias(y[rows]);
    return kiln_error();
}

// The rows that nobody asks for multiply by what is infinite. No gradient comes to them, and nothing of it to the
// input.
static void what_does_not_arrive_is_no_zero(void **state)
{
    struct fixture *f = *state;
    bool rows = false;
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, last_of_scan, &rows);
        for (int t = 0; t < 2; t++) {
            kiln_tensor *x = vec(f, 4, 1., 2., INFINITY, 4.), *y;
            ok(kiln_set_requires_grad(x, true));
            ok(call(&w, &x, 1, &y, 1));
            ok(kiln_backward(y, NULL));
            expect(kiln_gradient(x), 4, 0.125, 0.25, 0.5, 1.);
        }
        end(&w);
    }
}

REGION(two_parts)
{
    out[0] = kiln_mul(in[0], kiln_scalar(3));
    out[1] = kiln_mul(in[0], in[1]);
    return kiln_error();
}

REGION(first_of_two)
{
    kiln_tensor *y[2];
    TRY_(kiln_cond(kiln_greater(kiln_select(in[0], 0, 0), kiln_scalar(0)), two_parts, two_parts, NULL, in, 2, y, 2));
    out[0] = kiln_alias(y[0]);
    return kiln_error();
}

static void of_a_branch_too(void **state)
{
    struct fixture *f = *state;
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, first_of_two, NULL);
        for (int t = 0; t < 2; t++) {
            kiln_tensor *in[] = {vec(f, 2, 1., 2.), vec(f, 2, INFINITY, NAN)}, *y;
            for (int i = 0; i < 2; i++) ok(kiln_set_requires_grad(in[i], true));
            ok(call(&w, in, 2, &y, 1));
            ok(kiln_backward(y, NULL));
            expect(kiln_gradient(in[0]), 2, 3., 3.);
            assert_null(kiln_gradient(in[1]));
        }
        end(&w);
    }
}

REGION(times_constant)
{
    out[0] = kiln_mul(in[n_in - 1], kiln_square((kiln_tensor *)user));
    return kiln_error();
}

REGION(constant_in_region_and_after)
{
    kiln_tensor *c = kiln_constant(user), *x, *y;
    TRY_(kiln_cond(kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0)), times_constant, times_constant, c, in, 1, &x,
                   1));
    TRY_(kiln_for(kiln_scalar_int(2), times_constant, c, &x, 1, NULL, &y, 1));
    out[0] = kiln_mul(y, c);
    return kiln_error();
}

// The region is the first to see it.
static void constants_of_regions(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *c = vec(f, 2, 2., 3.);
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, constant_in_region_and_after, c);
        for (int t = 0; t < 2; t++) {
            kiln_tensor *x = vec(f, 2, 3., 4.), *y;
            ok(kiln_set_requires_grad(x, true));
            ok(call(&w, &x, 1, &y, 1));
            ok(kiln_backward(y, NULL));
            expect(kiln_gradient(x), 2, 128., 2187.);
        }
        end(&w);
    }
}

static kiln_tensor *outer;

REGION(times_outer)
{
    out[0] = kiln_mul(in[n_in - 1], outer);
    return kiln_error();
}

REGION(view_of_repeated)
{
    outer = kiln_unsqueeze(in[0], 0);
    kiln_tensor *ones = kiln_ones_like(outer);
    return kiln_for(kiln_scalar_int(1), times_outer, NULL, &ones, 1, NULL, out, 1);
}

// A leaf of which one row of memory is shown three times: each time it is a row of the leaf's own.
static void views_of_memory_shown_several_times(void **state)
{
    struct fixture *f = *state;
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, view_of_repeated, NULL);
        for (int t = 0; t < 2; t++) {
            kiln_tensor *row = vec(f, 2, 1., 2.), *y;
            kiln_tensor *x = kiln_as_strided(row, KILN_SHAPE(3, 2), 2, (int64_t[]){0, 1}, 0);
            ok(kiln_set_requires_grad(x, true));
            ok(call(&w, &x, 1, &y, 1));
            ok(kiln_backward(y, NULL));
            expect(kiln_reshape(kiln_gradient(x), KILN_SHAPE(6)), 6, 1., 1., 1., 1., 1., 1.);
        }
        end(&w);
    }
}

REGION(adds_to_outer)
{
    return kiln_add_(outer, kiln_scalar(1));
}

REGION(writes_first_of_twins)
{
    outer = in[0];
    TRY_(kiln_cond(kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0)), adds_to_outer, NULL, NULL, NULL, 0, NULL, 0));
    out[0] = kiln_sum(kiln_square(in[0]), NULL);
    return kiln_error();
}

REGION(slope_of_twins)
{
    kiln_tensor *x = kiln_mul(in[0], kiln_scalar(1)), *twins[] = {x, x};
    return kiln_grad(writes_first_of_twins, NULL, twins, 2, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, 2);
}

static void one_tensor_given_twice_is_written(void **state)
{
    struct fixture *f = *state;
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, slope_of_twins, NULL);
        kiln_tensor *x = vec(f, 2, 1., 2.), *y[2];
        if (cell >= 0 && cell != AUTO)
            fails(call(&w, &x, 1, y, 2), KILN_E_UNSUPPORTED, "give one of them a memory of its own");
        else {
            ok(call(&w, &x, 1, y, 2));
            expect(y[0], 2, 4., 6.);
        }
        end(&w);
    }
}

REGION(writes_view_of_leaf)
{
    outer = *(bool *)user ? kiln_flip(in[0], KILN_AXES(0)) : kiln_narrow(in[0], 0, 0, 1);
    out[0] = kiln_alias(in[0]);
    return kiln_add_(outer, kiln_scalar(1));
}

REGION(may_write_view_of_leaf)
{
    outer = *(bool *)user ? kiln_flip(in[0], KILN_AXES(0)) : kiln_narrow(in[0], 0, 0, 1);
    out[0] = kiln_alias(in[0]);
    return kiln_cond(kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0)), adds_to_outer, NULL, NULL, NULL, 0, NULL, 0);
}

static void a_view_of_a_leaf_is_not_written(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        kiln_fn fn = i & 1 ? may_write_view_of_leaf : writes_view_of_leaf;
        bool flips = i & 2;
        for (int cell = FIRST_WAY; cell < CELLS; cell++) {
            struct way w = begin(cell, fn, &flips);
            kiln_tensor *p = kiln_parameter(vec(f, 2, 1., 2.), "p"), *y;
            fails(call(&w, &p, 1, &y, 1), KILN_E_GRADIENT, "is a view of a leaf");
            expect(p, 2, 1., 2.);
            end(&w);
        }
    }
}

// --- gradients taken inside of a region

static kiln_tensor *weight;

REGION(loss)
{
    out[0] = kiln_sum(kiln_square(kiln_sub(kiln_mul(in[0], weight), kiln_scalar(2))), NULL);
    return kiln_error();
}

REGION(descends_what_it_carries)
{
    kiln_tensor *slope;
    TRY_(kiln_grad(loss, NULL, in + 1, 1, NULL, &slope, 1));
    out[0] = kiln_sub(in[1], kiln_mul(slope, kiln_scalar(0.25)));
    return kiln_error();
}

REGION(descends_by_outer)
{
    kiln_tensor *slope;
    TRY_(kiln_grad(loss, NULL, &outer, 1, NULL, &slope, 1));
    out[0] = kiln_sub(in[1], kiln_mul(slope, kiln_scalar(0.25)));
    return kiln_error();
}

REGION(descends_outer)
{
    kiln_tensor *both[2];
    TRY_(kiln_value_and_grad(loss, NULL, &outer, 1, NULL, both, 2));
    kiln_no_grad_begin();
    kiln_sub_(outer, kiln_mul(both[1], kiln_scalar(0.25)));
    kiln_no_grad_end();
    out[0] = kiln_add(in[1], kiln_reshape(both[0], KILN_SHAPE(1)));
    return kiln_error();
}

REGION(descends_by_parameter)
{
    kiln_tensor *both[2];
    const kiln_grad_opts *opts = KILN_GRAD(.params = {1, &weight});
    TRY_(kiln_value_and_grad(loss, NULL, &outer, 1, opts, both, 2));
    kiln_no_grad_begin();
    kiln_sub_(weight, kiln_mul(both[1], kiln_scalar(0.25)));
    kiln_no_grad_end();
    out[0] = kiln_add(in[1], kiln_reshape(both[0], KILN_SHAPE(1)));
    return kiln_error();
}

REGION(descends_by_backward)
{
    kiln_tensor *y;
    TRY_(loss(NULL, &outer, 1, &y, 1));
    TRY_(kiln_backward(y, NULL));
    kiln_no_grad_begin();
    kiln_sub_(weight, kiln_mul(kiln_gradient(weight), kiln_scalar(0.25)));
    kiln_no_grad_end();
    TRY_(kiln_set_gradient(weight, NULL));
    out[0] = kiln_add(in[1], kiln_reshape(kiln_stop_gradient(y), KILN_SHAPE(1)));
    return kiln_error();
}

static const kiln_fn descents[] = {descends_what_it_carries, descends_by_outer, descends_outer, descends_by_parameter,
                                   descends_by_backward};

struct descent {
    kiln_fn fn;
    kiln_tensor *weight;
};

REGION(runs_descent)
{
    const struct descent *d = user;
    weight = d->weight;
    outer = kiln_mul(in[0], kiln_scalar(1));
    kiln_tensor *start = kiln_mul(in[0], kiln_scalar(1));
    TRY_(kiln_for(kiln_scalar_int(3), d->fn, NULL, &start, 1, NULL, out, 1));
    out[1] = outer;
    return kiln_error();
}

static void descents_inside_of_loops(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof descents / sizeof *descents; i++) {
        kiln_tensor *want[3], *y[2];
        for (int cell = FIRST_WAY; cell < CELLS; cell++) {
            struct descent d = {descents[i], kiln_parameter(vec(f, 1, 0.5), "w")};
            struct way w = begin(cell, runs_descent, &d);
            kiln_tensor *x = vec(f, 1, 1.);
            for (int t = 0; t < 2; t++) {
                ok(kiln_set_gradient(d.weight, NULL));
                ok(call(&w, &x, 1, y, 2));
            }
            for (int k = 0; k < 3; k++) {
                kiln_tensor *got = k < 2 ? y[k] : d.weight;
                if (cell == FIRST_WAY)
                    want[k] = got;
                else
                    near(got, want[k], 1e-6);
            }
            end(&w);
        }
        assert_true(fabs(kiln_item(want[2]) - 0.5) > 0.1 || i < 3);
        assert_true(kiln_item(want[0]) != 1);
    }
}

// --- what regions refuse

REGION(comes_to_outer)
{
    kiln_tensor *y = kiln_sum(kiln_square(outer), NULL);
    TRY_(kiln_backward(y, NULL));
    TRY_(kiln_set_gradient(weight, NULL));
    out[0] = kiln_stop_gradient(in[1]);
    return kiln_error();
}

// `outer` depends on the parameter; the way there lies outside.
REGION(asks_by_what_outer_depends_on)
{
    kiln_tensor *y = kiln_sum(kiln_square(outer), NULL), *d;
    TRY_(kiln_gradients(y, &weight, 1, KILN_GRADIENTS(.keep_tape = true), &d));
    out[0] = kiln_stop_gradient(kiln_add(in[n_in - 1], d));
    return kiln_error();
}

REGION(asks_so_in_a_branch)
{
    kiln_tensor *pred = kiln_greater(kiln_sum(in[1], NULL), kiln_scalar(0));
    return kiln_cond(pred, asks_by_what_outer_depends_on, asks_by_what_outer_depends_on, NULL, in + 1, 1, out, 1);
}

struct refused {
    kiln_fn fn;
    const char *why;
};

REGION(runs_refused)
{
    const struct refused *r = user;
    kiln_tensor *start = kiln_mul(in[0], kiln_scalar(1));
    outer = kiln_mul(weight, kiln_scalar(3));
    return kiln_for(kiln_scalar_int(2), r->fn, NULL, &start, 1, NULL, out, 1);
}

static void what_would_be_lost_is_refused(void **state)
{
    static const struct refused all[] = {
        {comes_to_outer, "comes to a tensor from outside of the region"},
        {asks_by_what_outer_depends_on, "from outside of the region that depends on wrt 0"},
        {asks_so_in_a_branch, "from outside of the region that depends on wrt 0"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int cell = FIRST_WAY; cell < CELLS; cell++) {
            struct way w = begin(cell, runs_refused, (void *)(uintptr_t)&all[i]);
            kiln_tensor *x = vec(f, 1, 1.), *y;
            weight = kiln_parameter(vec(f, 1, 0.5), "w");
            if (cell >= 0 && cell != AUTO)
                fails(call(&w, &x, 1, &y, 1), KILN_E_UNSUPPORTED, all[i].why);
            else if (i != 0) // its tape is used up in the second trip, as in any loop
                ok(call(&w, &x, 1, &y, 1));
            kiln_error_clear();
            end(&w);
        }
}

// --- a region that has no gradient

static kiln_tensor *slope; // of `weighted`, which kept no tape

REGION(weighted)
{
    out[0] = kiln_mul(kiln_square(in[0]), (kiln_tensor *)user);
    return kiln_error();
}

REGION(squared)
{
    out[0] = kiln_square(in[0]);
    return kiln_error();
}

REGION(less_slope)
{
    kiln_tensor *x = in[n_in - 1], *first = kiln_lerp(slope, x, kiln_scalar(0.75)); // a backward comes to it last
    out[0] = kiln_sub(first, kiln_mul(x, kiln_scalar(0.25)));
    return kiln_error();
}

REGION(branch_without_a_gradient)
{
    kiln_tensor *x = kiln_add(in[0], kiln_scalar(1));
    slope = in[1];
    TRY_(kiln_cond(kiln_greater(kiln_sum(x, NULL), kiln_scalar(0)), squared, less_slope, NULL, &x, 1, out, 1));
    kiln_tensor *again[] = {out[0]};
    return kiln_for(kiln_scalar_int(2), less_slope, NULL, again, 1, NULL, out, 1);
}

static void regions_without_a_gradient_run(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *ones = kiln_parameter(vec(f, 2, 1., 1.), "ones");
    for (int cell = FIRST_WAY; cell < CELLS; cell++) {
        struct way w = begin(cell, branch_without_a_gradient, NULL);
        for (int t = 0; t < 4; t++) {
            kiln_tensor *x = vec(f, 2, t % 2 ? -3. : 3., 0.), *in[2] = {vec(f, 2, t % 2 ? -3. : 3., 0.)}, *y;
            ok(kiln_set_requires_grad(in[0], true));
            ok(kiln_grad(weighted, ones, &x, 1, NULL, &in[1], 1)); // 6 or -6, and 0
            ok(call(&w, in, 2, &y, 1));
            if (t % 2)
                expect(y, 2, ((-1. - 1.5) * 0.5 - 1.5) * 0.5 - 1.5, 0.125);
            else
                expect(y, 2, (16 * 0.5 + 1.5) * 0.5 + 1.5, 0.25);
            fails(kiln_backward(y, NULL), KILN_E_GRADIENT, "kept no tape");
        }
        end(&w);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(what_does_not_arrive_is_no_zero),
        FIXTURE(of_a_branch_too),
        FIXTURE(constants_of_regions),
        FIXTURE(views_of_memory_shown_several_times),
        FIXTURE(one_tensor_given_twice_is_written),
        FIXTURE(a_view_of_a_leaf_is_not_written),
        FIXTURE(descents_inside_of_loops),
        FIXTURE(what_would_be_lost_is_refused),
        FIXTURE(regions_without_a_gradient_run),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
