// Loops and conditions as programs: however many trips there are, one body is captured and compiled; what is told of
// it.
#include "jit_cells.h"
#include <kiln/control.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static int body_runs; // of the function of C

REGION(adds_row)
{
    body_runs++;
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(0.5)), in[1]);
    out[1] = kiln_tanh(out[0]);
    return kiln_error();
}

REGION(scans)
{
    kiln_tensor *all[] = {kiln_mul(kiln_select(in[0], 0, 0), kiln_scalar(0)), in[0]};
    return kiln_scan(adds_row, NULL, all, 2, KILN_SCAN(.carried = 1), out, 2);
}

REGION(sum_of_scan)
{
    kiln_tensor *y[2];
    TRY_(scans(user, in, n_in, y, 2));
    out[0] = kiln_add(kiln_sum(y[0], NULL), kiln_sum(y[1], NULL));
    return kiln_error();
}

REGION(slope_of_scan)
{
    return kiln_value_and_grad(sum_of_scan, NULL, in, n_in, NULL, out, 2);
}

// As many trips as there are rows: a number that is known, one that is a value, as long as a condition holds.
REGION(adds_trip)
{
    body_runs++;
    out[0] = kiln_tanh(kiln_add(kiln_mul(in[n_in - 1], kiln_scalar(0.5)), kiln_scalar(0.25)));
    return kiln_error();
}

REGION(counts_trip)
{
    out[1] = kiln_add(in[1], kiln_scalar(1));
    return adds_trip(user, in, 1, out, 1);
}

REGION(is_below)
{
    out[0] = kiln_less(in[1], (kiln_tensor *)user);
    return kiln_error();
}

REGION(loops_by_number)
{
    kiln_tensor *row = kiln_select(in[0], 0, 0), *rows = kiln_scalar_int(kiln_dim(in[0], 0));
    out[1] = kiln_sum(row, NULL);
    return kiln_for(rows, adds_trip, NULL, &row, 1, NULL, out, 1);
}

static kiln_tensor *rows_of(kiln_tensor *x)
{
    return kiln_sum(kiln_narrow(kiln_ones_like(x), 1, 0, 1), NULL);
}

REGION(loops_by_value)
{
    kiln_tensor *row = kiln_select(in[0], 0, 0), *rows = kiln_cast(rows_of(in[0]), KILN_I64);
    out[1] = kiln_sum(row, NULL);
    return kiln_for(rows, adds_trip, NULL, &row, 1, KILN_LOOP(.bound = 10000), out, 1);
}

REGION(loops_by_condition)
{
    kiln_tensor *all[] = {kiln_select(in[0], 0, 0), kiln_zeros(kiln_tensor_device(in[0]), KILN_F32, KILN_SHAPE0)};
    return kiln_while(is_below, counts_trip, rows_of(in[0]), all, 2, KILN_LOOP(.bound = 10000), out, 2);
}

static kiln_fn differentiated;

REGION(sum_of_differentiated)
{
    kiln_tensor *y[2];
    TRY_(differentiated(NULL, in, 1, y, 2));
    out[0] = kiln_sum(y[0], NULL);
    return kiln_error();
}

REGION(slope_of_differentiated)
{
    return kiln_value_and_grad(sum_of_differentiated, NULL, in, 1, NULL, out, 2);
}

struct measured {
    kiln_jit_stats stats;
    int runs, kernels; // kernels as an explanation lists them
    kiln_tensor *last;
};

// The value that the trips come to, trip by trip.
static kiln_tensor *loops_to(struct fixture *f, int trips)
{
    float v = 0.25f;
    for (int i = 0; i < trips; i++) v = tanhf(v * 0.5f + 0.25f);
    return kiln_full(f->dev, KILN_F32, KILN_SHAPE(3), v);
}

static int count_in_explanation(kiln_function *j, const char *part)
{
    char *text = NULL;
    size_t size_B;
    int n = 0;
    FILE *file = open_memstream(&text, &size_B);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    for (const char *at = text; (at = strstr(at, part)); at++) n++;
    free(text);
    return n;
}

static struct measured measure(struct fixture *f, enum cell cell, kiln_fn fn, int64_t trips)
{
    struct measured m = {.stats = {.size = sizeof m.stats}};
    kiln_function *j = capture_in(cell, fn, NULL);
    kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(trips, 3), 0.25), *y[2];
    body_runs = 0;
    for (int t = 0; t < 3; t++) ok(kiln_call(j, &x, 1, y, 2));
    kiln_function_stats(j, &m.stats);
    m.runs = body_runs;
    m.kernels = count_in_explanation(j, "  kernel ");
    m.last = y[0];
    kiln_function_free(&j);
    ok(kiln_set_mode(KILN_MODE_EAGER));
    return m;
}

// The gradient, too. What the loops give is what as many trips give eagerly.
static void many_trips_are_captured_as_few_are(void **state)
{
    struct fixture *f = *state;
    static const kiln_fn functions[] = {scans, loops_by_number, loops_by_value, loops_by_condition};
    enum { FUNCTIONS = sizeof functions / sizeof *functions };
    for (enum cell cell = 0; cell < AUTO; cell++)
        for (int i = 0; i < 2 * FUNCTIONS + 1; i++) {
            differentiated = i < FUNCTIONS ? NULL : functions[i % FUNCTIONS];
            kiln_fn fn = i == 2 * FUNCTIONS ? slope_of_scan : differentiated ? slope_of_differentiated : functions[i];
            struct measured few = measure(f, cell, fn, 10), many = measure(f, cell, fn, 10000);
            assert_int_equal(many.stats.nodes, few.stats.nodes);
            assert_int_equal(many.stats.captures, 1);
            assert_int_equal(few.stats.captures, 1);
            assert_int_equal(many.kernels, few.kernels);
            assert_true(many.stats.kernels_compiled <= few.stats.kernels_compiled);
            assert_int_equal(many.runs, few.runs);
            assert_true(many.runs <= 3);
            assert_int_equal(many.stats.fallbacks + few.stats.fallbacks, 0);
            if (i == 1 || i == 2 || i == 3) near(many.last, loops_to(f, 10000), 1e-6);
        }
}

REGION(raises)
{
    out[0] = kiln_exp(in[0]);
    return kiln_error();
}

REGION(evens)
{
    out[0] = kiln_softmax(in[0], -1); // more than is computed for both branches
    return kiln_error();
}

REGION(is_small)
{
    out[0] = kiln_less(kiln_sum(in[0], NULL), kiln_scalar(100));
    return kiln_error();
}

REGION(does_all)
{
    kiln_tensor *y[2], *z;
    TRY_(scans(user, in, n_in, y, 2));
    TRY_(kiln_cond(kiln_greater(kiln_sum(y[0], NULL), kiln_scalar(0)), raises, evens, NULL, y, 1, &z, 1));
    return kiln_while(is_small, raises, NULL, &z, 1, KILN_LOOP(.bound = 9), out, 1);
}

static void an_explanation_shows_the_children(void **state)
{
    static const char *const parts[] = {"loop: 1 value carried, 1 scanned, 5 trips",
                                        "\n      body: ",
                                        "switch: 2 regions",
                                        "      region 0: ",
                                        "      region 1: ",
                                        "as long as a condition holds",
                                        ", 9 at most",
                                        "      cond: "};
    struct fixture *f = *state;
    kiln_function *j = capture_in(STRICT, does_all, NULL);
    kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(5, 3), 0.25), *y;
    ok(kiln_call(j, &x, 1, &y, 1));
    char *text = NULL;
    size_t size_B;
    FILE *file = open_memstream(&text, &size_B);
    kiln_explain_with(j, file, KILN_EXPLAIN(.level = KILN_EXPLAIN_DETAIL));
    fclose(file);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i])) fail_msg("\"%s\" is not in\n%s", parts[i], text);
    free(text);
    kiln_function_free(&j);
}

// --- many rows

REGION(running_sum)
{
    out[0] = kiln_add(in[0], in[1]);
    out[1] = kiln_mul(out[0], kiln_scalar(2));
    return kiln_error();
}

REGION(sums_of_rows)
{
    kiln_tensor *all[] = {kiln_zeros_like(kiln_select(in[0], 0, 0)), in[0]};
    return kiln_scan(running_sum, NULL, all, 2, KILN_SCAN(.carried = 1), out, 2);
}

static void no_difference(kiln_tensor *a, kiln_tensor *b)
{
    assert_true(kiln_item(kiln_max(kiln_abs(kiln_sub(a, b)), NULL)) == 0);
}

// More rows than an op takes tensors, in eager mode as in captures. The numbers are exact.
static void scans_have_any_number_of_rows(void **state)
{
    static const int64_t counts[] = {127, 128, 129, 255, 256, 257, 1000, 16385};
    struct fixture *f = *state;
    for (int i = 0; i < 8; i++) {
        kiln_tensor *x = kiln_remainder(kiln_arange(f->dev, KILN_F32, 0, (double)counts[i], 1), kiln_scalar(7)), *y[2];
        kiln_tensor *sums = kiln_cumsum(x, 0);
        ok(sums_of_rows(NULL, &x, 1, y, 2));
        no_difference(y[0], kiln_sum(x, NULL));
        no_difference(y[1], kiln_mul(sums, kiln_scalar(2)));
        for (enum cell cell = 0; cell < CELLS; cell++) {
            if (cell == AUTO && counts[i] > 1000) continue;
            kiln_function *j = capture_in(cell, sums_of_rows, NULL);
            for (int t = 0; t < 2; t++) ok(kiln_call(j, &x, 1, y, 2));
            no_difference(y[1], kiln_mul(sums, kiln_scalar(2)));
            kiln_function_free(&j);
        }
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

// --- nesting

REGION(nests)
{
    int inside = *(const int *)user - 1;
    if (inside >= 0) return kiln_for(kiln_scalar_int(1), nests, &inside, in + n_in - 1, 1, NULL, out, 1);
    out[0] = kiln_add(in[n_in - 1], kiln_scalar(1));
    return kiln_error();
}

static void regions_nest_64_deep(void **state)
{
    struct fixture *f = *state;
    for (int depth = 64; depth <= 65; depth++) {
        kiln_tensor *x = vec(f, 2, 1., 2.), *y;
        ok(nests(&depth, &x, 1, &y, 1));
        same(y, vec(f, 2, 2., 3.));
        for (enum cell cell = 0; cell < CELLS; cell++) {
            kiln_function *j = capture_in(cell, nests, &depth);
            if (depth <= 64 || cell == AUTO) {
                for (int t = 0; t < 2; t++) ok(kiln_call(j, &x, 1, &y, 1));
                same(y, vec(f, 2, 2., 3.));
            } else
                fails(kiln_call(j, &x, 1, &y, 1), KILN_E_UNSUPPORTED, "regions nest more than 64 deep");
            kiln_function_free(&j);
        }
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(many_trips_are_captured_as_few_are),
        FIXTURE(an_explanation_shows_the_children),
        FIXTURE(scans_have_any_number_of_rows),
        FIXTURE(regions_nest_64_deep),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
