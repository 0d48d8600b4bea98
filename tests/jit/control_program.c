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

static kiln_jit_stats stats_after(struct fixture *f, enum cell cell, kiln_fn fn, int64_t trips, int *runs)
{
    kiln_function *j = capture_in(cell, fn, NULL);
    kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(trips, 3), 0.25), *y[2];
    kiln_jit_stats stats = {.size = sizeof stats};
    body_runs = 0;
    for (int t = 0; t < 3; t++) ok(kiln_call(j, &x, 1, y, 2));
    kiln_function_stats(j, &stats);
    *runs = body_runs;
    kiln_function_free(&j);
    ok(kiln_set_mode(KILN_MODE_EAGER));
    return stats;
}

// The gradient, too.
static void many_trips_are_captured_as_few_are(void **state)
{
    struct fixture *f = *state;
    static const kiln_fn functions[] = {scans, slope_of_scan};
    for (enum cell cell = 0; cell < AUTO; cell++)
        for (int i = 0; i < 2; i++) {
            int few_runs, many_runs;
            kiln_jit_stats few = stats_after(f, cell, functions[i], 10, &few_runs);
            kiln_jit_stats many = stats_after(f, cell, functions[i], 10000, &many_runs);
            assert_int_equal(many.nodes, few.nodes);
            assert_int_equal(many.captures, 1);
            assert_true(many.kernels_compiled <= few.kernels_compiled);
            assert_int_equal(many_runs, few_runs);
            assert_true(many_runs <= 3);
            assert_int_equal(many.fallbacks, 0);
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
    static const char *const parts[] = {"loop: 1 value carried, 1 scanned, 5 trips\n      body: ",
                                        "switch: 2 regions",
                                        "      region 0: ",
                                        "      region 1: ",
                                        "as long as a condition holds",
                                        ", 9 at most\n",
                                        "      cond: "};
    struct fixture *f = *state;
    kiln_function *j = capture_in(STRICT, does_all, NULL);
    kiln_tensor *x = kiln_full(f->dev, KILN_F32, KILN_SHAPE(5, 3), 0.25), *y;
    ok(kiln_call(j, &x, 1, &y, 1));
    char *text = NULL;
    size_t size_B;
    FILE *file = open_memstream(&text, &size_B);
    kiln_explain(j, file);
    fclose(file);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strstr(text, parts[i])) fail_msg("\"%s\" is not in\n%s", parts[i], text);
    free(text);
    kiln_function_free(&j);
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
        FIXTURE(regions_nest_64_deep),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
