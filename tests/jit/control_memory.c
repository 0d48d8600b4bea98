// What conditions and loops read and write: in every capture the memory is what it is eagerly.
#include "jit_cells.h"
#include <kiln/control.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static kiln_tensor *outer; // what a region reaches from outside

REGION(gives_what_it_is_given)
{
    out[0] = in[n_in - 1];
    return kiln_error();
}

REGION(gives_outer)
{
    out[0] = outer;
    return kiln_error();
}

REGION(writes_outer_and_reads)
{
    TRY_(kiln_add_(outer, kiln_scalar(1)));
    out[0] = kiln_mul(in[n_in - 1], kiln_scalar(2));
    return kiln_error();
}

REGION(writes_outer_and_gives_it)
{
    TRY_(kiln_add_(outer, kiln_scalar(1)));
    out[0] = outer;
    return kiln_error();
}

REGION(writes_what_it_is_given)
{
    TRY_(kiln_add_(in[n_in - 1], kiln_scalar(1)));
    out[0] = kiln_mul(in[n_in - 1], kiln_scalar(2));
    return kiln_error();
}

REGION(gives_it_twice)
{
    out[0] = kiln_mul(in[n_in - 1], kiln_scalar(2));
    out[1] = out[0];
    return kiln_error();
}

REGION(gives_it_twice_again)
{
    out[0] = out[1] = kiln_mul(in[1], kiln_scalar(2));
    return kiln_error();
}

struct form {
    const char *name;
    kiln_fn fn;
    bool loop;
    int trips;
    double memory, result; // of ones, after the region, 1000 added to the one and 100 to the other
};

static const struct form forms[] = {
    {"a branch that gives its operand", gives_what_it_is_given, false, 0, 1001, 101},
    {"a branch that gives outer memory", gives_outer, false, 0, 1001, 101},
    {"a branch that writes its operand from outside", writes_outer_and_reads, false, 0, 1002, 104},
    {"a branch that writes its operand", writes_what_it_is_given, false, 0, 1002, 104},
    {"a branch that gives what it wrote", writes_outer_and_gives_it, false, 0, 1002, 102},
    {"a loop of no trips", writes_outer_and_gives_it, true, 0, 1001, 101},
    {"a body that gives what it carries", gives_what_it_is_given, true, 2, 1001, 101},
    {"a body that gives outer memory", gives_outer, true, 2, 1001, 101},
    {"a body that writes from outside what it began with", writes_outer_and_reads, true, 2, 1003, 104},
    {"a body that gives what it wrote", writes_outer_and_gives_it, true, 2, 1003, 103},
};

REGION(runs_form)
{
    const struct form *form = user;
    kiln_tensor *x = outer = kiln_mul(in[0], kiln_scalar(1)), *y = NULL;
    if (form->loop)
        TRY_(kiln_for(kiln_scalar_int(form->trips), form->fn, NULL, &x, 1, NULL, &y, 1));
    else
        TRY_(kiln_cond(kiln_greater(kiln_sum(x, NULL), kiln_scalar(0)), form->fn, form->fn, NULL, &x, 1, &y, 1));
    TRY_(kiln_add_(y, kiln_scalar(100)));
    TRY_(kiln_add_(x, kiln_scalar(1000)));
    out[0] = kiln_mul(x, kiln_scalar(1));
    out[1] = kiln_mul(y, kiln_scalar(1));
    return kiln_error();
}

// Eagerly, then in each capture.
static kiln_status call_in(int cell, kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                           size_t n_out)
{
    if (cell < 0) return fn(user, in, n_in, out, n_out);
    kiln_function *f = capture_in((enum cell)cell, fn, user);
    kiln_status status = kiln_call(f, in, n_in, out, n_out);
    kiln_function_free(&f);
    if (!status) kiln_set_mode(KILN_MODE_EAGER);
    return status;
}

static void results_have_memory_of_their_own(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (int cell = -1; cell < CELLS; cell++) {
            kiln_tensor *x = vec(f, 2, 1., 1.), *y[2];
            ok(call_in(cell, runs_form, (void *)(uintptr_t)&forms[i], &x, 1, y, 2));
            if (kiln_item(kiln_select(y[0], 0, 0)) != forms[i].memory ||
                kiln_item(kiln_select(y[1], 0, 1)) != forms[i].result)
                print_error("%s, %s\n", forms[i].name, cell < 0 ? "eager" : cell_names[cell]);
            expect(y[0], 2, forms[i].memory, forms[i].memory);
            expect(y[1], 2, forms[i].result, forms[i].result);
        }
}

REGION(writes_one_of_two)
{
    kiln_tensor *y[2];
    if (*(bool *)user)
        TRY_(kiln_for(kiln_scalar_int(2), gives_it_twice_again, NULL, (kiln_tensor *[]){in[0], in[0]}, 2, NULL, y, 2));
    else
        TRY_(kiln_cond(kiln_greater(in[0], kiln_scalar(0)), gives_it_twice, gives_it_twice, NULL, in, 1, y, 2));
    TRY_(kiln_add_(y[0], kiln_scalar(1)));
    out[0] = kiln_mul(y[0], kiln_scalar(1));
    out[1] = kiln_mul(y[1], kiln_scalar(1));
    return kiln_error();
}

static void results_are_apart(void **state)
{
    struct fixture *f = *state;
    for (int loop = 0; loop < 2; loop++)
        for (int cell = -1; cell < CELLS; cell++) {
            kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE0, 3), *y[2];
            bool is_loop = loop;
            ok(call_in(cell, writes_one_of_two, &is_loop, &x, 1, y, 2));
            assert_float_equal(kiln_item(y[0]), loop ? 13 : 7, 0);
            assert_float_equal(kiln_item(y[1]), loop ? 12 : 6, 0);
        }
}

REGION(carries_and_writes)
{
    return kiln_for(kiln_scalar_int(2), writes_what_it_is_given, NULL, in, 1, NULL, out, 1);
}

static void a_body_may_not_write_what_it_carries(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_tensor *x = vec(f, 2, 1., 1.), *y;
        fails(call_in(cell, carries_and_writes, NULL, &x, 1, &y, 1), KILN_E_UNSUPPORTED,
              "it is given; give the new value as an output");
        ok(kiln_set_mode(KILN_MODE_EAGER));
        expect(x, 2, 1., 1.);
    }
}

REGION(adds_row)
{
    TRY_(kiln_add_(outer, kiln_scalar(1)));
    out[0] = kiln_add(in[0], in[1]);
    out[1] = outer;
    return kiln_error();
}

REGION(scans)
{
    outer = kiln_mul(in[0], kiln_scalar(1));
    kiln_tensor *all[] = {kiln_mul(in[0], kiln_scalar(0)), in[1]};
    return kiln_scan(adds_row, NULL, all, 2, KILN_SCAN(.carried = 1), out, 2);
}

// A row is what the memory held at the end of its trip.
static void rows_are_values(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_tensor *in[] = {vec(f, 2, 1., 2.), kiln_reshape(vec(f, 6, 1., 2., 3., 4., 5., 6.), KILN_SHAPE(3, 2))};
        kiln_tensor *y[2];
        ok(call_in(cell, scans, NULL, in, 2, y, 2));
        expect(y[0], 2, 9., 12.);
        expect(kiln_reshape(y[1], KILN_SHAPE(6)), 6, 2., 3., 3., 4., 4., 5.);
    }
}

REGION(writes_first)
{
    TRY_(kiln_add_(outer, kiln_scalar(1)));
    return kiln_error();
}

REGION(writes_through_one_of_two_shapes)
{
    outer = in[0];
    TRY_(kiln_cond(kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0)), writes_first, NULL, NULL, NULL, 0, NULL, 0));
    out[0] = kiln_mul(in[1], kiln_scalar(1));
    return kiln_error();
}

// Two inputs that are the same three elements by other strides.
static void a_region_writes_what_another_input_shows(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_tensor *base = vec(f, 5, 0., 1., 2., 3., 0.), *y, *in[2];
        for (int i = 0; i < 2; i++)
            in[i] = kiln_as_strided(base, KILN_SHAPE(3, 1), 2, i ? (int64_t[]){1, 3} : (int64_t[]){1, 1}, 1);
        ok(call_in(cell, writes_through_one_of_two_shapes, NULL, in, 2, &y, 1));
        expect(y, 3, 2., 3., 4.);
        expect(base, 5, 0., 2., 3., 4., 0.);
    }
}

// --- many trips, by their number, on rows, and with an index that is out of range in one

REGION(adds_number)
{
    out[0] = kiln_add(kiln_mul(in[1], kiln_scalar(0.5)), in[0]);
    return kiln_error();
}

REGION(adds_row_and_gives_both)
{
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(0.5)), in[1]);
    out[1] = kiln_sub(in[1], in[0]);
    return kiln_error();
}

struct many {
    int64_t trips;
    bool reverse;
};

REGION(makes_many_trips)
{
    const struct many *m = user;
    TRY_(kiln_for(kiln_scalar_int(m->trips), adds_number, NULL, in, 1, NULL, out, 1));
    kiln_tensor *all[] = {in[0], kiln_narrow(in[1], 0, 0, m->trips)};
    return kiln_scan(adds_row_and_gives_both, NULL, all, 2, KILN_SCAN(.carried = 1, .reverse = m->reverse), out + 1, 2);
}

static void many_trips(void **state)
{
    struct fixture *f = *state;
    for (int64_t trips = 1; trips < 12; trips++)
        for (int reverse = 0; reverse < 2; reverse++)
            for (enum cell cell = 0; cell < CELLS; cell++) {
                struct many many = {trips, reverse};
                kiln_tensor *line = kiln_arange(f->dev, KILN_F32, 0, 33, 1), *got[3], *want[3];
                kiln_tensor *in[] = {vec(f, 3, 1., -2., 0.5), kiln_reshape(line, KILN_SHAPE(11, 3))};
                ok(call_in(cell, makes_many_trips, &many, in, 2, got, 3));
                ok(makes_many_trips(&many, in, 2, want, 3));
                for (int k = 0; k < 3; k++) near(got[k], want[k], 1e-6);
            }
}

REGION(takes_at)
{
    kiln_tensor *index = kiln_add(kiln_full(NULL, KILN_I64, KILN_SHAPE(1), 0), in[0]);
    out[0] = kiln_add(in[1], kiln_gather(outer, 0, index));
    return kiln_error();
}

REGION(takes_seven)
{
    outer = in[1];
    return kiln_for(kiln_scalar_int(7), takes_at, NULL, in, 1, NULL, out, 1);
}

// As in eager mode, on a device that checks.
static void an_index_out_of_range_in_a_trip(void **state)
{
    struct fixture *f = *state;
    for (int cell = -1; cell < CELLS && !strcmp(jit_device, "cpu"); cell++) {
        kiln_tensor *in[] = {vec(f, 1, 0.), vec(f, 5, 1., 2., 3., 4., 5.)}, *y;
        fails(call_in(cell, takes_seven, NULL, in, 2, &y, 1), KILN_E_ARGUMENT, "out of range");
        in[1] = vec(f, 7, 1., 2., 3., 4., 5., 6., 7.);
        ok(kiln_set_mode(KILN_MODE_EAGER));
        ok(call_in(cell, takes_seven, NULL, in, 2, &y, 1));
        expect(y, 1, 28.);
    }
}

// --- what stands behind a node that fails has not happened

static kiln_tensor *written;

REGION(takes_row)
{
    kiln_tensor *const *outside = user;
    out[0] = kiln_add(in[n_in - 1], kiln_take(outside[0], 0, outside[1]));
    return kiln_error();
}

REGION(fails_in_trip)
{
    kiln_tensor *start = kiln_scalar(0);
    TRY_(kiln_assign(written, kiln_add(written, kiln_scalar(1))));
    TRY_(kiln_for(kiln_scalar_int(3), takes_row, (void *)(uintptr_t)in, &start, 1, NULL, out, 1));
    return kiln_assign(written, kiln_add(written, kiln_scalar(10)));
}

REGION(fails_by_bound)
{
    kiln_tensor *start = kiln_scalar(0);
    TRY_(kiln_assign(written, kiln_add(written, kiln_scalar(1))));
    const int64_t row[] = {0};
    kiln_tensor *outside[] = {in[0], kiln_from_data(kiln_tensor_device(in[0]), KILN_I64, 0, NULL, row)};
    TRY_(kiln_for(in[1], takes_row, outside, &start, 1, KILN_LOOP(.bound = 3), out, 1));
    return kiln_assign(written, kiln_add(written, kiln_scalar(10)));
}

REGION(fails_by_index)
{
    const kiln_fn branches[] = {takes_row, takes_row, takes_row};
    kiln_tensor *start = kiln_scalar(0);
    const int64_t row[] = {0};
    kiln_tensor *outside[] = {in[0], kiln_from_data(kiln_tensor_device(in[0]), KILN_I64, 0, NULL, row)};
    TRY_(kiln_assign(written, kiln_add(written, kiln_scalar(1))));
    TRY_(kiln_switch(in[1], branches, 3, outside, &start, 1, out, 1));
    return kiln_assign(written, kiln_add(written, kiln_scalar(10)));
}

static void what_stands_behind_a_failure_has_not_happened(void **state)
{
    struct fixture *f = *state;
    static const kiln_fn functions[] = {fails_in_trip, fails_by_bound, fails_by_index};
    static const double want[] = {11, 12, 23};
    if (strcmp(jit_device, "cpu")) return; // on a GPU indices read 0, and the others come late
    for (int i = 0; i < 3; i++)
        for (int cell = -1; cell < CELLS; cell++) {
            written = vec(f, 1, 0.);
            ok(kiln_state(written));
            kiln_function *j = cell < 0 ? NULL : capture_in((enum cell)cell, functions[i], NULL);
            for (int t = 0; t < 3; t++) {
                int64_t index = t == 1 ? 9 : 1;
                kiln_tensor *y, *in[] = {vec(f, 4, 1., 2., 3., 4.), kiln_from_data(f->dev, KILN_I64, 0, NULL, &index)};
                kiln_status status = j ? kiln_call(j, in, 2, &y, 1) : functions[i](NULL, in, 2, &y, 1);
                assert_int_equal(status != KILN_OK, t == 1);
                kiln_error_clear();
                if (kiln_item(written) != want[t]) fail_msg("function %d, %d: %g", i, cell, kiln_item(written));
            }
            kiln_function_free(&j);
        }
    ok(kiln_set_mode(KILN_MODE_EAGER));
}

// --- views of memory that shows elements several times

static kiln_tensor *row_of_outer;

REGION(writes_row)
{
    return kiln_mul_(row_of_outer, kiln_scalar(0.75));
}

REGION(writes_row_of_its_own)
{
    kiln_tensor *last = kiln_narrow(outer, 1, 2, 1); // of all rows
    kiln_tensor *before = kiln_sum(last, NULL);
    TRY_(kiln_mul_(kiln_narrow(outer, 0, 1, 1), kiln_scalar(0.75)));
    return kiln_add_(row_of_outer, kiln_add(before, kiln_sum(last, NULL)));
}

REGION(writes_in_a_trip)
{
    return kiln_for(kiln_scalar_int(2), user ? writes_row_of_its_own : writes_row, NULL, NULL, 0, NULL, NULL, 0);
}

struct writing {
    kiln_fn fn;
    void *user;
    bool loops;
};

// One of three elements is what both rows show.
REGION(writes_shown_twice)
{
    const struct writing *w = user;
    outer = in[1];
    row_of_outer = kiln_narrow(in[1], 0, 0, 1);
    if (w->loops)
        TRY_(kiln_for(kiln_scalar_int(2), w->fn, w->user, NULL, 0, NULL, NULL, 0));
    else
        TRY_(kiln_cond(kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0)), w->fn, NULL, w->user, NULL, 0, NULL, 0));
    out[0] = kiln_add(in[0], kiln_scalar(0));
    out[1] = kiln_contiguous(in[1]);
    return kiln_error();
}

static void a_region_writes_a_part_of_what_repeats(void **state)
{
    static const struct writing ways[] = {
        {writes_row, NULL, false},        {writes_row, NULL, true},
        {writes_in_a_trip, NULL, false},  {writes_row_of_its_own, NULL, false},
        {writes_in_a_trip, &outer, true}, {writes_row_of_its_own, NULL, true},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        kiln_tensor *want = NULL, *want_rows = NULL, *y[2];
        for (int cell = -1; cell < CELLS; cell++) {
            kiln_tensor *base = vec(f, 6, 0., 1., 2., 3., 4., 5.);
            kiln_tensor *in[] = {kiln_narrow(base, 0, 2, 2),
                                 kiln_as_strided(base, KILN_SHAPE(2, 3), 2, (int64_t[]){2, 1}, 1)};
            ok(call_in(cell, writes_shown_twice, (void *)(uintptr_t)&ways[i], in, 2, y, 2));
            if (cell < 0)
                want = base, want_rows = y[1];
            else
                same_or_say((enum cell)cell, (int)i, "memory", base, want),
                    same_or_say((enum cell)cell, (int)i, "what shows it", y[1], want_rows);
        }
        assert_false(kiln_item(kiln_select(want, 0, 1)) == 1);
    }
}

REGION(sum_of_what_a_region_wrote)
{
    outer = in[0];
    row_of_outer = kiln_narrow(in[0], 0, 0, 1);
    TRY_(kiln_for(kiln_scalar_int(1), user ? writes_row_of_its_own : writes_row, NULL, NULL, 0, NULL, NULL, 0));
    out[0] = kiln_sum(kiln_square(in[0]), NULL);
    return kiln_error();
}

REGION(slope_of_it)
{
    return kiln_grad(sum_of_what_a_region_wrote, user, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0)), out, 1);
}

REGION(slopes_of_it)
{
    return kiln_grad(sum_of_what_a_region_wrote, user, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, 2);
}

// Right, or refused.
static void gradients_of_what_repeats(void **state)
{
    struct fixture *f = *state;
    for (int own = 0; own < 2; own++) {
        kiln_tensor *want = NULL, *y;
        for (int cell = -1; cell < CELLS; cell++) {
            kiln_tensor *base = vec(f, 6, 0., 1., 2., 3., 4., 5.);
            kiln_tensor *in = kiln_as_strided(base, KILN_SHAPE(2, 3), 2, (int64_t[]){2, 1}, 1);
            kiln_status status = call_in(cell, slope_of_it, own ? &outer : NULL, &in, 1, &y, 1);
            if (cell < 0) want = y;
            if (cell < 0 || cell == AUTO) ok(status);
            if (status)
                fails(status, KILN_E_UNSUPPORTED, "in a region of");
            else
                same_or_say((enum cell)cell, own, "gradient", y, want);
            ok(kiln_set_mode(KILN_MODE_EAGER));
        }
    }
}

static void two_gradients_by_one_memory(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *want[2] = {NULL}, *y[2];
    for (int cell = -1; cell < CELLS; cell++) {
        kiln_tensor *a = kiln_reshape(vec(f, 4, 1., 2., 3., 4.), KILN_SHAPE(2, 2)), *in[] = {a, a};
        kiln_status status = call_in(cell, slopes_of_it, NULL, in, 2, y, 2);
        if (cell < 0) memcpy(want, y, sizeof want);
        if (cell < 0 || cell == AUTO)
            ok(status);
        else
            fails(status, KILN_E_UNSUPPORTED, "is differentiated by shares its memory with another one, and a region");
        for (int i = 0; i < 2 && !status; i++) same_or_say((enum cell)cell, i, "gradient", y[i], want[i]);
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

// --- what a function makes of host data

enum { VIEW = 1, BRANCH = 2, USED_BEFORE = 4, DEEP = 8, READ_FIRST = 16, HOWS = 32 };

REGION(writes_host_data)
{
    const int *how = user;
    kiln_tensor *by = *how & READ_FIRST ? kiln_div(kiln_sum(outer, NULL), kiln_scalar(64)) : kiln_scalar(0.75);
    return kiln_mul_(*how & VIEW ? kiln_narrow(outer, 0, 1, 3) : outer, by);
}

REGION(writes_host_data_in_a_trip)
{
    return kiln_for(kiln_scalar_int(2), writes_host_data, user, NULL, 0, NULL, NULL, 0);
}

REGION(gives_host_data)
{
    const float v[4] = {1, 2, 3, 4};
    const int *how = user;
    kiln_fn fn = *how & DEEP ? writes_host_data_in_a_trip : writes_host_data;
    outer = kiln_exp(kiln_from_data(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE(4), v));
    out[0] = *how & USED_BEFORE ? kiln_add(outer, in[0]) : in[0];
    if (*how & BRANCH)
        TRY_(kiln_cond(kiln_greater(in[0], kiln_scalar(0)), fn, NULL, user, NULL, 0, NULL, 0));
    else
        TRY_(kiln_for(kiln_scalar_int(2), fn, user, NULL, 0, NULL, NULL, 0));
    out[1] = kiln_add(outer, kiln_scalar(0));
    return kiln_error();
}

static void a_region_writes_host_data(void **state)
{
    struct fixture *f = *state;
    for (int how = 0; how < HOWS; how++)
        for (int negative = 0; negative < 2; negative++) {
            kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE0, negative ? -1 : 1), *want[2], *y[2];
            ok(call_in(-1, gives_host_data, &how, &x, 1, want, 2));
            for (int cell = 0; cell < CELLS; cell++) {
                ok(call_in(cell, gives_host_data, &how, &x, 1, y, 2));
                same_or_say((enum cell)cell, how, "what is made before", y[0], want[0]);
                same_or_say((enum cell)cell, how, "what is written", y[1], want[1]);
            }
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(results_have_memory_of_their_own),
        FIXTURE(results_are_apart),
        FIXTURE(a_body_may_not_write_what_it_carries),
        FIXTURE(rows_are_values),
        FIXTURE(a_region_writes_what_another_input_shows),
        FIXTURE(many_trips),
        FIXTURE(an_index_out_of_range_in_a_trip),
        FIXTURE(what_stands_behind_a_failure_has_not_happened),
        FIXTURE(a_region_writes_a_part_of_what_repeats),
        FIXTURE(gradients_of_what_repeats),
        FIXTURE(two_gradients_by_one_memory),
        FIXTURE(a_region_writes_host_data),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
