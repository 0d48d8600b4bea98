// What a loop carries and changes in part: in every capture it is what it is eagerly, and where nothing else reads what
// it was before, each trip writes the part alone.
#include "jit_cells.h"
#include <kiln/control.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { ROWS = 6, WIDTH = 4 };

// A row for the place, made of what the cache holds after it.
static kiln_tensor *row_of(kiln_tensor *from, kiln_tensor *x)
{
    kiln_tensor *sum = kiln_sum(from, KILN_REDUCE(.axes = KILN_AXES(0), .keepdims = true));
    return kiln_add(kiln_mul(sum, kiln_scalar(0.25)), x);
}

// Bodies are given two caches, then a row and a place.

REGION(writes_then_reads)
{
    out[0] = kiln_update_at(in[0], 0, in[3], row_of(in[1], in[2]));
    out[1] = kiln_add(in[1], row_of(out[0], in[2]));
    return kiln_error();
}

REGION(writes_two_rows)
{
    kiln_tensor *next = kiln_add(in[3], kiln_scalar_int(2));
    out[0] = kiln_update_at(kiln_update_at(in[0], 0, in[3], in[2]), 0, next, kiln_neg(in[2]));
    out[1] = kiln_update_at(in[1], 1, in[3], kiln_slice_at(out[0], 1, next, 1));
    return kiln_error();
}

REGION(gives_all_of_it)
{
    out[0] = kiln_update_at(in[0], 0, in[3], in[2]);
    out[1] = kiln_update_at(in[1], 0, in[3], kiln_exp(in[2]));
    out[2] = out[0];
    return kiln_error();
}

REGION(writes_a_known_part)
{
    const int64_t one = 1;
    kiln_tensor *flat = kiln_reshape(in[2], KILN_SHAPE(WIDTH)), *again = kiln_reshape(in[1], KILN_SHAPE(ROWS * WIDTH));
    out[0] = kiln_update_at(in[0], 0, in[3], in[2]);
    out[1] = kiln_reshape(kiln_as_strided_add(again, flat, 1, &one, WIDTH), KILN_SHAPE(ROWS, WIDTH));
    return kiln_error();
}

REGION(reads_what_it_was)
{
    out[0] = kiln_update_at(in[0], 0, in[3], in[2]);
    out[1] = kiln_add(in[1], in[0]);
    return kiln_error();
}

REGION(keeps_what_it_was)
{
    out[0] = kiln_update_at(in[0], 0, in[3], in[2]);
    out[1] = in[1];
    out[2] = in[0];
    return kiln_error();
}

REGION(takes_the_row_from_it)
{
    out[0] = kiln_update_at(in[0], 0, in[3], kiln_add(kiln_slice_at(in[0], 0, kiln_neg(in[3]), 1), in[2]));
    out[1] = in[1];
    return kiln_error();
}

REGION(changes_places)
{
    out[0] = kiln_update_at(in[1], 0, in[3], in[2]);
    out[1] = kiln_update_at(in[0], 0, in[3], kiln_neg(in[2]));
    return kiln_error();
}

REGION(branches_off)
{
    kiln_tensor *first = kiln_update_at(in[0], 0, in[3], in[2]);
    out[0] = kiln_update_at(first, 0, kiln_scalar_int(0), in[2]);
    out[1] = kiln_update_at(first, 0, kiln_scalar_int(1), in[2]);
    return kiln_error();
}

static const struct form {
    const char *name;
    kiln_fn body;
    int n_out, in_place;
} forms[] = {
    {"written, then read", writes_then_reads, 2, 1},
    {"two rows", writes_two_rows, 2, 2},
    {"all of it in each trip", gives_all_of_it, 3, 2},
    {"a known part", writes_a_known_part, 2, 1},
    {"what it was is read", reads_what_it_was, 2, 0},
    {"what it was is a result", keeps_what_it_was, 3, 0},
    {"the row is taken from it", takes_the_row_from_it, 2, 0},
    {"two change places", changes_places, 2, 0},
    {"two of one", branches_off, 2, 0},
};
enum { FORMS = sizeof forms / sizeof *forms, RESULTS = 4 };

// in: rows, and the cache that both begin with, which is read again in the end.
REGION(scans)
{
    const struct form *form = user;
    kiln_tensor *places = kiln_arange(kiln_tensor_device(in[0]), KILN_I64, 0, (double)kiln_dim(in[0], 0), 1);
    kiln_tensor *all[] = {in[1], in[1], kiln_unsqueeze(in[0], 1), places};
    TRY_(kiln_scan(form->body, NULL, all, 4, KILN_SCAN(.carried = 2), out, (size_t)form->n_out));
    for (int i = form->n_out; i < RESULTS; i++) out[i] = kiln_mul(in[1], kiln_scalar(2));
    return kiln_error();
}

static void make_inputs(struct fixture *f, int64_t trips, kiln_tensor **in)
{
    in[0] = kiln_reshape(kiln_arange(f->dev, KILN_F32, 0, (double)(trips * WIDTH), 1), KILN_SHAPE(trips, WIDTH));
    in[0] = kiln_mul(in[0], kiln_scalar(0.125));
    in[1] = kiln_full(f->dev, KILN_F32, KILN_SHAPE(ROWS, WIDTH), 0.5);
}

static bool is_told(kiln_function *j, const char *what)
{
    char *text = NULL;
    size_t size_B;
    FILE *file = open_memstream(&text, &size_B);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    bool is = strstr(text, what) != NULL;
    free(text);
    return is;
}

// More trips than rows: places beyond the end are moved. The results are written afterwards, and the next call begins
// with what the first one did.
static void parts_are_written_as_eagerly(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < FORMS; i++)
        for (enum cell cell = 0; cell < CELLS; cell++)
            for (int64_t trips = 1; trips <= 9; trips += 4) {
                kiln_tensor *in[2], *want[RESULTS], *got[RESULTS];
                make_inputs(f, trips, in);
                ok(kiln_set_mode(KILN_MODE_EAGER));
                ok(scans((void *)(uintptr_t)&forms[i], in, 2, want, RESULTS));
                kiln_function *j = capture_in(cell, scans, (void *)(uintptr_t)&forms[i]);
                for (int t = 0; t < 3; t++) {
                    ok(kiln_call(j, in, 2, got, RESULTS));
                    for (int k = 0; k < RESULTS; k++) same_or_say(cell, t, forms[i].name, got[k], want[k]);
                    if (cell != GRAPH) ok(kiln_add_(got[0], kiln_scalar(7)));
                }
                kiln_function_free(&j);
            }
}

// Captures that are run node by node have no program to tell of.
static void skip_without_programs(void)
{
    const char *debug = getenv("KILN_DEBUG");
    if (debug && strstr(debug, "replay")) skip();
}

// Without what it promises the caches would be copied in each trip.
static void parts_are_written_in_place(void **state)
{
    struct fixture *f = *state;
    skip_without_programs();
    for (int i = 0; i < FORMS; i++) {
        kiln_tensor *in[2], *out[RESULTS];
        char line[64];
        make_inputs(f, 5, in);
        kiln_function *j = capture_in(STRICT, scans, (void *)(uintptr_t)&forms[i]);
        ok(kiln_call(j, in, 2, out, RESULTS));
        snprintf(line, sizeof line, "2 values carried, %d of them in place", forms[i].in_place);
        if (is_told(j, "in place") != (forms[i].in_place > 0) || (forms[i].in_place && !is_told(j, line)))
            fail_msg("%s: not %d in place", forms[i].name, forms[i].in_place);
        kiln_function_free(&j);
    }
}

REGION(one_row)
{
    out[0] = kiln_update_at(in[0], 0, in[1], in[2]);
    return kiln_error();
}

REGION(writes_one_row)
{
    kiln_tensor *all[] = {in[0], kiln_arange(kiln_tensor_device(in[0]), KILN_I64, 0, 8, 1), in[1]};
    return kiln_scan(one_row, NULL, all, 3, KILN_SCAN(.carried = 1), out, 1);
}

// It moves a row. A copy of the cache would be another.
static void a_trip_is_one_launch(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[] = {kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(64, 32)),
                         kiln_ones(f->dev, KILN_F32, KILN_SHAPE(8, 1, 32))};
    kiln_tensor *out;
    skip_without_programs();
    kiln_function *j = capture_in(STRICT, writes_one_row, NULL);
    ok(kiln_call(j, in, 2, &out, 1));
    if (!is_told(j, "body: 1 op in 1 launch;")) {
        kiln_explain(j, stderr);
        fail();
    }
    kiln_function_free(&j);
}

// No trip at all, a count that a tensor says, a condition, a place that is the number of the trip.
REGION(fills_place)
{
    kiln_tensor *zero = kiln_zeros(kiln_tensor_device(in[1]), KILN_F32, KILN_SHAPE(1));
    out[0] = kiln_update_at(in[1], 0, in[0], kiln_add(zero, kiln_cast(in[0], KILN_F32)));
    return kiln_error();
}

REGION(fills_and_counts)
{
    out[0] = kiln_add(in[0], kiln_scalar_int(1));
    return fills_place(user, in, n_in, out + 1, 1);
}

REGION(is_below)
{
    out[0] = kiln_less(in[0], (kiln_tensor *)user);
    return kiln_error();
}

REGION(fills)
{
    kiln_tensor *all[] = {kiln_mul(in[1], kiln_scalar_int(0)), in[0]}, *z[2];
    TRY_(kiln_for(in[1], fills_place, NULL, in, 1, NULL, out, 1));
    TRY_(kiln_while(is_below, fills_and_counts, in[1], all, 2, NULL, z, 2));
    out[1] = kiln_add(z[1], kiln_scalar(1));
    out[2] = kiln_mul(in[0], kiln_scalar(3));
    return kiln_error();
}

static void loops_of_any_count(void **state)
{
    struct fixture *f = *state;
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, fills, NULL);
        for (int64_t n = 0; n < 5; n++) {
            kiln_tensor *in[] = {vec(f, 4, 9., 9., 9., 9.), kiln_full_int(f->dev, KILN_I64, KILN_SHAPE0, n)}, *out[3];
            ok(kiln_call(j, in, 2, out, 3));
            for (int k = 0; k < 4; k++) {
                double held = k < n ? k : 9;
                assert_float_equal(kiln_item(kiln_select(out[0], 0, k)), held, 0);
                assert_float_equal(kiln_item(kiln_select(out[1], 0, k)), held + 1, 0);
                assert_float_equal(kiln_item(kiln_select(out[2], 0, k)), 27, 0);
            }
        }
        kiln_function_free(&j);
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

// --- gradients: of the rows and of what the caches began with

REGION(weighs_all)
{
    kiln_tensor *y[RESULTS];
    TRY_(scans(user, in, n_in, y, RESULTS));
    out[0] = kiln_scalar(0);
    for (int i = 0; i < RESULTS; i++) {
        kiln_tensor *w = kiln_linspace(kiln_tensor_device(y[i]), KILN_F32, 0.5, 1.5, kiln_numel(y[i]));
        kiln_tensor *flat = kiln_square(kiln_reshape(y[i], KILN_SHAPE(-1)));
        out[0] = kiln_add(out[0], kiln_sum(kiln_mul(flat, w), NULL));
    }
    return kiln_error();
}

REGION(gradients)
{
    return kiln_grad(weighs_all, user, in, n_in, KILN_GRAD(.wrt = KILN_ARGS(0, 1)), out, n_out);
}

static void gradients_are_those_of_eager_mode(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < FORMS; i++) {
        kiln_tensor *in[2], *want[2], *got[2];
        make_inputs(f, 5, in);
        ok(kiln_set_mode(KILN_MODE_EAGER));
        ok(gradients((void *)(uintptr_t)&forms[i], in, 2, want, 2));
        for (enum cell cell = 0; cell < CELLS; cell++) {
            kiln_function *j = capture_in(cell, gradients, (void *)(uintptr_t)&forms[i]);
            for (int t = 0; t < 2; t++) {
                ok(kiln_call(j, in, 2, got, 2));
                for (int k = 0; k < 2; k++) {
                    kiln_tensor *apart = kiln_max(kiln_abs(kiln_sub(got[k], want[k])), NULL);
                    kiln_tensor *size = kiln_max(kiln_abs(want[k]), NULL);
                    if (!(kiln_item(apart) <= 1e-5 * kiln_item(size)))
                        fail_msg("%s, %s: gradient %d differs", forms[i].name, cell_names[cell], k);
                }
            }
            kiln_function_free(&j);
            ok(kiln_set_mode(KILN_MODE_EAGER));
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(parts_are_written_as_eagerly),
        FIXTURE(parts_are_written_in_place),
        FIXTURE(a_trip_is_one_launch),
        FIXTURE(loops_of_any_count),
        FIXTURE(gradients_are_those_of_eager_mode),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
