// What passes make of control flow: the bits of eager runs, whether it is there afterwards or not, and what must not
// happen because of it.
#include "jit_cells.h"
#include <kiln/control.h>
#include <stdio.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static bool replays(void)
{
    const char *debug = getenv("KILN_DEBUG");
    return debug && strstr(debug, "replay");
}

// *text is the caller's.
static void explain(kiln_function *j, char **text)
{
    size_t size_B;
    FILE *file = open_memstream(text, &size_B);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
}

// Of all programs, those of regions too.
static int count_in(kiln_function *j, const char *part)
{
    char *text = NULL;
    explain(j, &text);
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) n++;
    free(text);
    return n;
}

static void expect_count(kiln_function *j, enum cell cell, const char *part, int want)
{
    if (cell == AUTO || replays()) return;
    int n = count_in(j, part);
    if (n != want) {
        char *text = NULL;
        explain(j, &text);
        print_error("%s: \"%s\" is there %d times, not %d:\n%s", cell_names[cell], part, n, want, text);
        free(text);
    }
    assert_int_equal(n, want);
}

// A line that is before the program's first loop.
static void expect_before_loop(kiln_function *j, const char *part)
{
    if (replays()) return;
    char *text = NULL;
    explain(j, &text);
    char *loop = strstr(text, "loop:");
    if (loop) *loop = '\0';
    bool there = strstr(text, part) != NULL;
    if (!there || !loop) print_error("\"%s\" is not there, or no loop behind it:\n%s", part, text);
    free(text);
    assert_true(there && loop != NULL);
}

static kiln_tensor *some(struct fixture *f, int64_t rows, int64_t columns, double step)
{
    kiln_tensor *line = kiln_arange(f->dev, KILN_F32, 0, (double)(rows * columns), 1);
    return kiln_sin(kiln_mul(kiln_reshape(line, KILN_SHAPE(rows, columns)), kiln_scalar(step)));
}

// --- conditions

REGION(divides)
{
    out[0] = kiln_div(kiln_scalar(1), in[0]);
    return kiln_error();
}

REGION(negates)
{
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

REGION(chooses)
{
    return kiln_cond(in[1], divides, negates, NULL, in, 1, out, 1);
}

// 1/0, 0/0 and -0 of the side that is not taken leave nothing behind.
static void a_selection_gives_the_bits_of_its_branch(void **state)
{
    struct fixture *f = *state;
    static const float values[] = {0, -0.0f, NAN, INFINITY, 1e-40f, 2};
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_function *j = capture_in(cell, chooses, NULL);
        for (int t = 0; t < 4; t++) {
            kiln_tensor *in[] = {kiln_from_data(f->dev, KILN_F32, KILN_SHAPE(6), values),
                                 kiln_full(f->dev, KILN_BOOL, KILN_SHAPE0, t & 1)};
            kiln_tensor *got, *want;
            float x[6], y[6];
            ok(kiln_call(j, in, 2, &got, 1));
            ok((t & 1 ? divides : negates)(NULL, in, 1, &want, 1));
            ok(kiln_read(got, x, sizeof x));
            ok(kiln_read(want, y, sizeof y));
            assert_memory_equal(x, y, 3 * sizeof *x); // the payload of a NaN aside
            for (int i = 0; i < 6; i++)
                if (!(isnan(x[i]) && isnan(y[i])) && memcmp(&x[i], &y[i], sizeof *x))
                    fail_msg("%d: %g, %g", i, (double)x[i], (double)y[i]);
        }
        expect_count(j, cell, "switch:", 0);
        kiln_function_free(&j);
        ok(kiln_set_mode(KILN_MODE_EAGER));
        kiln_scope_end(&scope);
    }
}

REGION(roots_of_elements)
{
    out[0] = kiln_sqrt(in[0]);
    return kiln_error();
}

REGION(keeps)
{
    out[0] = in[0];
    return kiln_error();
}

REGION(roots_where_positive)
{
    kiln_tensor *y;
    kiln_tensor *any = kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(0));
    TRY_(kiln_cond(any, roots_of_elements, keeps, NULL, in, 1, &y, 1));
    out[0] = kiln_sum(y, NULL);
    return kiln_error();
}

REGION(slope_of_roots)
{
    return kiln_value_and_grad(roots_where_positive, NULL, in, 1, NULL, out, 2);
}

// The slope of a root is infinite at 0: times the zero of a branch that is not taken it would be no number.
static void what_is_selected_was_differentiated_before(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_function *j = capture_in(cell, slope_of_roots, NULL);
        for (int t = 0; t < 3; t++) {
            kiln_tensor *x = kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(3)), *out[2];
            ok(kiln_call(j, &x, 1, out, 2));
            float slope[3];
            ok(kiln_read(out[1], slope, sizeof slope));
            for (int i = 0; i < 3; i++) assert_true(slope[i] == 1);
        }
        kiln_function_free(&j);
        ok(kiln_set_mode(KILN_MODE_EAGER));
        kiln_scope_end(&scope);
    }
}

REGION(known_at_last)
{
    kiln_tensor *zero = kiln_mul(kiln_full(NULL, KILN_I32, KILN_SHAPE0, 3), kiln_scalar_int(0));
    return kiln_cond(kiln_equal(zero, kiln_scalar_int(0)), roots_of_elements, divides, NULL, in, 1, out, 1);
}

static void a_known_condition_is_no_condition(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(known_at_last, NULL, NULL);
    kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(4), 4), *y;
    ok(kiln_call(j, &x, 1, &y, 1));
    assert_true(kiln_item(kiln_sum(y, NULL)) == 8);
    expect_count(j, STRICT, "div", 0);
    kiln_function_free(&j);
}

// --- loops

struct scan {
    int64_t unroll;
    bool reverse;
};

REGION(mixes)
{
    out[0] = kiln_add(kiln_tanh(kiln_mul(in[0], in[2])), in[2]);
    out[1] = in[1];
    out[2] = kiln_mul(out[0], in[1]);
    return kiln_error();
}

REGION(scans)
{
    const struct scan *s = user;
    return kiln_scan(mixes, NULL, in, 3, KILN_SCAN(.carried = 2, .reverse = s->reverse, .unroll = s->unroll), out, 3);
}

REGION(loss_of_scan)
{
    kiln_tensor *y[3];
    TRY_(scans(user, in, n_in, y, 3));
    out[0] = kiln_add(kiln_sum(kiln_mul(y[0], y[1]), NULL), kiln_sum(kiln_square(y[2]), NULL));
    return kiln_error();
}

REGION(slopes_of_scan)
{
    return kiln_value_and_grad(loss_of_scan, user, in, 3, KILN_GRAD(.wrt = KILN_ARGS(0, 1, 2)), out, 4);
}

REGION(sum_of_slopes)
{
    kiln_tensor *slopes[4];
    TRY_(slopes_of_scan(user, in, n_in, slopes, 4));
    out[0] = kiln_add(kiln_sum(kiln_square(slopes[1]), NULL), kiln_sum(kiln_square(slopes[3]), NULL));
    return kiln_error();
}

REGION(second_slopes)
{
    return kiln_value_and_grad(sum_of_slopes, user, in, 3, KILN_GRAD(.wrt = KILN_ARGS(0, 1, 2)), out, 4);
}

static void compare_scan(struct fixture *f, enum cell cell, kiln_fn fn, size_t n_out, int64_t trips, struct scan s)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[] = {kiln_select(some(f, 1, 4, 0.7), 0, 0), kiln_select(some(f, 1, 4, 1.3), 0, 0),
                         some(f, trips, 4, 0.3)};
    kiln_tensor *got[4], *want[4];
    ok(fn(&s, in, 3, want, n_out));
    kiln_function *j = capture_in(cell, fn, &s);
    for (int t = 0; t < 2; t++) {
        ok(kiln_call(j, in, 3, got, n_out));
        for (size_t i = 0; i < n_out; i++) {
            if (equal(got[i], want[i])) continue;
            fail_msg("%s: %d trips, %d as one%s: output %d", cell_names[cell], (int)trips, (int)s.unroll,
                     s.reverse ? ", back" : "", (int)i);
        }
    }
    if (fn == scans)
        expect_count(j, cell,
                     "loop:", trips > (s.unroll > 1 ? s.unroll : 1) ? trips / (s.unroll ? s.unroll : 1) > 1 : 0);
    kiln_function_free(&j);
    ok(kiln_set_mode(KILN_MODE_EAGER));
    kiln_scope_end(&scope);
}

static void trips_that_are_one_give_what_they_gave(void **state)
{
    static const int64_t trips[] = {1, 2, 5, 6, 7}, unroll[] = {0, 1, 2, 3, 9};
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int reverse = 0; reverse < 2; reverse++)
            for (size_t i = 0; i < 5; i++)
                for (size_t k = 0; k < 5; k++)
                    compare_scan(*state, cell, scans, 3, trips[i], (struct scan){unroll[k], reverse});
}

static void so_do_their_gradients(void **state)
{
    static const int64_t unroll[] = {0, 2, 3, 9};
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int reverse = 0; reverse < 2; reverse++)
            for (size_t k = 0; k < 4; k++) {
                compare_scan(*state, cell, slopes_of_scan, 4, 5, (struct scan){unroll[k], reverse});
                compare_scan(*state, cell, second_slopes, 4, 5, (struct scan){unroll[k], reverse});
            }
}

REGION(by_number)
{
    out[0] = kiln_add(kiln_mul(in[1], kiln_scalar(0.5)), in[0]);
    return kiln_error();
}

REGION(counts)
{
    const struct scan *s = user;
    return kiln_for(kiln_scalar_int(7), by_number, NULL, in, 1, KILN_LOOP(.unroll = s->unroll), out, 1);
}

REGION(drops)
{
    out[0] = kiln_dropout(kiln_add(in[1], kiln_scalar(1)), 0.5);
    return kiln_error();
}

REGION(draws)
{
    const struct scan *s = user;
    return kiln_for(kiln_scalar_int(7), drops, NULL, in, 1, KILN_LOOP(.unroll = s->unroll), out, 1);
}

static void compare_for(struct fixture *f, enum cell cell, kiln_fn fn, int64_t unroll, kiln_dtype dtype)
{
    kiln_scope *scope = kiln_scope_begin();
    struct scan plain = {0, false}, s = {unroll, false};
    kiln_tensor *x = kiln_full(f->dev, dtype, KILN_SHAPE(6), 3), *got, *want;
    ok(kiln_seed(f->dev, 11));
    ok(fn(&plain, &x, 1, &want, 1));
    kiln_function *j = capture_in(cell, fn, &s);
    ok(kiln_seed(f->dev, 11));
    ok(kiln_call(j, &x, 1, &got, 1));
    same_or_say(cell, (int)unroll, "the result", got, want);
    kiln_function_free(&j);
    ok(kiln_set_mode(KILN_MODE_EAGER));
    kiln_scope_end(&scope);
}

static void trips_know_their_numbers_and_draws(void **state)
{
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int64_t unroll = 0; unroll < 9; unroll += unroll ? 2 : 1) {
            compare_for(*state, cell, counts, unroll, KILN_F32);
            compare_for(*state, cell, draws, unroll, KILN_F32);
        }
}

REGION(finds)
{
    out[0] = kiln_add(in[1], kiln_index_select(in[2], 0, in[3]));
    out[1] = in[2];
    out[2] = in[3];
    return kiln_error();
}

REGION(finds_often)
{
    kiln_tensor *y[3];
    TRY_(kiln_for(in[3], finds, NULL, in, 3, NULL, y, 3));
    out[0] = y[0];
    out[1] = y[1];
    return kiln_error();
}

// An index that is wrong fails in a trip, and not before a loop that makes none. What a loop gives of an input that it
// never changes is a value of its own.
static void a_loop_of_no_trip_finds_nothing(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(finds_often, NULL, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    for (int t = 0; t < 2; t++) {
        kiln_tensor *in[] = {some(f, 2, 3, 1), some(f, 4, 3, 1), kiln_full(f->dev, KILN_I64, KILN_SHAPE(2), t ? 3 : 77),
                             kiln_full(f->dev, KILN_I64, KILN_SHAPE0, t)};
        kiln_tensor *out[2];
        ok(kiln_call(j, in, 4, out, 2));
        assert_true(equal(out[1], in[1]));
        ok(kiln_sub_(out[1], out[1]));
        assert_false(equal(out[1], in[1]));
    }
    kiln_function_free(&j);
}

REGION(multiplies)
{
    out[0] = kiln_matmul(in[1], kiln_softmax(in[2], -1));
    out[1] = in[2];
    return kiln_error();
}

REGION(multiplies_often)
{
    kiln_tensor *y[2];
    TRY_(kiln_for(kiln_scalar_int(3), multiplies, NULL, in, 2, NULL, y, 2));
    out[0] = y[0];
    return kiln_error();
}

REGION(nested_trip)
{
    return multiplies_often(NULL, in + 1, 2, out, 1) ? kiln_error() : (out[1] = in[2], KILN_OK);
}

REGION(nested)
{
    kiln_tensor *y[2];
    TRY_(kiln_for(kiln_scalar_int(4), nested_trip, NULL, in, 2, NULL, y, 2));
    out[0] = y[0];
    return kiln_error();
}

// The softmax stands before the loop, and before both of nested loops.
static void what_is_the_same_in_all_trips_is_computed_once(void **state)
{
    struct fixture *f = *state;
    static const kiln_fn fns[] = {multiplies_often, nested};
    for (int i = 0; i < 2; i++) {
        kiln_tensor *in[] = {some(f, 3, 3, 1), some(f, 3, 3, 0.4)}, *got, *want;
        ok(fns[i](NULL, in, 2, &want, 1));
        kiln_function *j = capture_in(STRICT, fns[i], NULL);
        ok(kiln_call(j, in, 2, &got, 1));
        same_or_say(STRICT, i, "the result", got, want);
        expect_before_loop(j, "softmax");
        kiln_function_free(&j);
    }
}

REGION(keeps_all)
{
    out[0] = in[n_in - 1];
    return kiln_error();
}

REGION(keeps_often)
{
    return kiln_for(in[1], keeps_all, NULL, in, 1, KILN_LOOP(.bound = 4), out, 1);
}

// That nothing changes does not hide that the count is wrong.
static void a_wrong_count_is_told_though_nothing_changes(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, keeps_often, NULL);
        for (int64_t count = 4; count < 6; count++) {
            kiln_tensor *y, *in[] = {some(f, 2, 2, 1), kiln_full(f->dev, KILN_I64, KILN_SHAPE0, (double)count)};
            kiln_status status = kiln_call(j, in, 2, &y, 1);
            if (!status) status = kiln_device_synchronize(f->dev);
            assert_int_equal(status, count > 4 ? KILN_E_STATE : KILN_OK);
            kiln_error_clear();
        }
        kiln_function_free(&j);
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

REGION(inner_trips)
{
    kiln_tensor *x = in[n_in - 1];
    return kiln_for(kiln_scalar_int(9), by_number, NULL, &x, 1, KILN_LOOP(.unroll = 3), out, 1);
}

REGION(outer_trips)
{
    const struct scan *s = user;
    return kiln_for(kiln_scalar_int(8), inner_trips, NULL, in, 1, KILN_LOOP(.unroll = s->unroll), out, 1);
}

static void loops_within_loops_unroll(void **state)
{
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (int64_t unroll = 0; unroll < 11; unroll += 3) compare_for(*state, cell, outer_trips, unroll, KILN_F32);
}

static void a_wrong_unroll_is_told(void **state)
{
    struct fixture *f = *state;
    struct scan s = {-1, false};
    kiln_tensor *in[] = {some(f, 1, 4, 1), some(f, 1, 4, 1), some(f, 2, 4, 1)}, *out[3];
    fails(scans(&s, in, 3, out, 3), KILN_E_ARGUMENT, "scan: .unroll is -1");
    fails(counts(&s, in, 1, out, 1), KILN_E_ARGUMENT, "for: .unroll is -1");
}

// --- rows that are computed in their trips

REGION(uses_rows)
{
    kiln_tensor *y = kiln_add(kiln_mul(in[0], in[1]), in[2]);
    out[0] = kiln_tanh(y);
    out[1] = y;
    return kiln_error();
}

// Rows of values that broadcast: of all rows, of one row, of one number.
REGION(scans_what_is_made)
{
    kiln_tensor *row = kiln_select(in[0], 0, 0);
    kiln_tensor *a = kiln_exp(kiln_mul(kiln_add(in[0], row), kiln_scalar(0.25)));
    kiln_tensor *b = kiln_sub(kiln_narrow(in[0], 1, 0, 1), in[1]);
    kiln_tensor *all[] = {row, a, b};
    return kiln_scan(uses_rows, NULL, all, 3, KILN_SCAN(.carried = 1, .reverse = n_in > 2), out, 2);
}

REGION(sum_of_scanned)
{
    kiln_tensor *y[2];
    TRY_(scans_what_is_made(NULL, in, n_in, y, 2));
    out[0] = kiln_add(kiln_sum(y[0], NULL), kiln_sum(kiln_square(y[1]), NULL));
    return kiln_error();
}

REGION(slopes_of_scanned)
{
    return kiln_value_and_grad(sum_of_scanned, NULL, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, 3);
}

REGION(multiplies_rows)
{
    out[0] = kiln_squeeze(kiln_matmul(kiln_unsqueeze(in[1], 0), in[2]), KILN_AXES(0));
    out[0] = kiln_add(out[0], in[0]);
    return kiln_error();
}

// A product reads the rows: one launch for all of them stays.
REGION(scans_for_products)
{
    kiln_tensor *rows = kiln_reshape(kiln_repeat_interleave(kiln_exp(in[0]), 1, 0), 2, kiln_dims(in[0]));
    kiln_tensor *weights = kiln_broadcast_to(in[0], KILN_SHAPE(3, 3, 3));
    kiln_tensor *all[] = {kiln_select(in[0], 0, 0), rows, weights};
    return kiln_scan(multiplies_rows, NULL, all, 3, KILN_SCAN(.carried = 1), out, 1);
}

static void rows_are_computed_in_their_trips(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {some(f, 3, 3, 1), kiln_full(f->dev, KILN_F32, KILN_SHAPE0, 0.5), some(f, 3, 3, 2)};
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (size_t n_in = 2; n_in < 4; n_in++) {
            kiln_tensor *got[3], *want[3];
            kiln_function *j = capture_in(cell, scans_what_is_made, NULL),
                          *d = capture_in(cell, slopes_of_scanned, NULL);
            ok(scans_what_is_made(NULL, in, n_in, want, 2));
            for (int t = 0; t < 2; t++) ok(kiln_call(j, in, n_in, got, 2));
            same_or_say(cell, 0, "the last", got[0], want[0]);
            same_or_say(cell, 0, "rows", got[1], want[1]);
            if (fuses(f)) expect_count(j, cell, "kernel ", 1); // the loop's, which computes all of it
            ok(slopes_of_scanned(NULL, in, n_in, want, 3));
            for (int t = 0; t < 2; t++) ok(kiln_call(d, in, n_in, got, 3));
            for (int k = 0; k < 3; k++) same_or_say(cell, k, "gradients", got[k], want[k]);
            kiln_function_free(&j);
            kiln_function_free(&d);
            ok(kiln_set_mode(KILN_MODE_EAGER));
        }
    kiln_tensor *got, *want;
    kiln_function *j = capture_in(STRICT, scans_for_products, NULL);
    ok(scans_for_products(NULL, in, 1, &want, 1));
    ok(kiln_call(j, in, 1, &got, 1));
    same_or_say(STRICT, 0, "products", got, want);
    expect_before_loop(j, "exp");
    kiln_function_free(&j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(a_selection_gives_the_bits_of_its_branch),
        FIXTURE(what_is_selected_was_differentiated_before),
        FIXTURE(a_known_condition_is_no_condition),
        FIXTURE(trips_that_are_one_give_what_they_gave),
        FIXTURE(so_do_their_gradients),
        FIXTURE(trips_know_their_numbers_and_draws),
        FIXTURE(a_loop_of_no_trip_finds_nothing),
        FIXTURE(what_is_the_same_in_all_trips_is_computed_once),
        FIXTURE(a_wrong_count_is_told_though_nothing_changes),
        FIXTURE(loops_within_loops_unroll),
        FIXTURE(a_wrong_unroll_is_told),
        FIXTURE(rows_are_computed_in_their_trips),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
