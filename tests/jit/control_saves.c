// What loops keep for their gradients: .save_every changes memory, and no value.
#include "jit_cells.h"
#include <kiln/control.h>
#include <kiln/host.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { ROWS = 11 };
static int64_t every;
static kiln_tensor *weight;  // of the function that is differentiated
static kiln_tensor *written; // by its loop

REGION(one_step)
{
    out[0] = kiln_tanh(kiln_add(kiln_mul(kiln_sin(in[0]), weight), in[1]));
    out[1] = kiln_mul(kiln_square(out[0]), in[1]);
    return kiln_error();
}

static kiln_status scan(kiln_fn step, kiln_tensor *x, bool reverse, kiln_tensor **out)
{
    kiln_tensor *all[] = {kiln_select(x, 0, 0), x}, *y[2];
    TRY_(kiln_scan(step, NULL, all, 2, KILN_SCAN(.carried = 1, .reverse = reverse, .save_every = every), y, 2));
    out[0] = kiln_add(kiln_sum(y[0], NULL), kiln_sum(kiln_mul(y[1], kiln_cumsum(x, 0)), NULL));
    return kiln_error();
}

REGION(by_scan)
{
    return scan(one_step, in[0], false, out);
}

REGION(by_scan_back)
{
    return scan(one_step, in[0], true, out);
}

REGION(counted_step)
{
    kiln_tensor *row = kiln_squeeze(kiln_slice_at(weight, 0, in[0], 1), KILN_AXES(0));
    out[0] = kiln_sin(kiln_add(in[1], kiln_mul(row, in[0])));
    return kiln_error();
}

REGION(by_for)
{
    kiln_tensor *x = kiln_select(in[0], 0, 1), *y;
    weight = in[0];
    TRY_(kiln_for(kiln_scalar_int(ROWS), counted_step, NULL, &x, 1, KILN_LOOP(.save_every = every), &y, 1));
    out[0] = kiln_sum(kiln_square(y), NULL);
    return kiln_error();
}

REGION(counted_by_value)
{
    kiln_tensor *x = kiln_select(in[0], 0, 1), *y;
    kiln_tensor *n = kiln_add(kiln_cast(kiln_greater(kiln_sum(in[0], NULL), kiln_scalar(-100)), KILN_I64),
                              kiln_scalar_int(ROWS - 3));
    weight = in[0];
    TRY_(kiln_for(n, counted_step, NULL, &x, 1, KILN_LOOP(.bound = ROWS, .save_every = every), &y, 1));
    out[0] = kiln_sum(kiln_square(y), NULL);
    return kiln_error();
}

REGION(is_small)
{
    out[0] = kiln_less(kiln_sum(kiln_square(in[0]), NULL), kiln_scalar(40));
    return kiln_error();
}

REGION(grows)
{
    out[0] = kiln_add(kiln_mul(in[0], kiln_scalar(1.25)), kiln_mul(kiln_sin(in[0]), weight));
    return kiln_error();
}

REGION(by_while)
{
    kiln_tensor *x = kiln_select(in[0], 0, 1), *y;
    TRY_(kiln_while(is_small, grows, NULL, &x, 1, KILN_LOOP(.bound = 40, .save_every = every), &y, 1));
    out[0] = kiln_sum(kiln_square(y), NULL);
    return kiln_error();
}

static kiln_status grows_by_number(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return grows(user, in + 1, n_in - 1, out, n_out);
}

REGION(nested_for)
{
    kiln_tensor *y;
    TRY_(kiln_for(kiln_scalar_int(5), grows_by_number, NULL, in, 1, KILN_LOOP(.save_every = every), &y, 1));
    out[0] = kiln_mul(kiln_sin(y), in[1]);
    out[1] = kiln_square(y);
    return kiln_error();
}

REGION(by_nested)
{
    return scan(nested_for, in[0], false, out);
}

REGION(positive)
{
    out[0] = kiln_exp(kiln_mul(in[0], kiln_scalar(0.25)));
    return kiln_error();
}

REGION(step_with_cond)
{
    kiln_tensor *s = kiln_greater(kiln_sum(in[1], NULL), kiln_scalar(0.5)), *y;
    TRY_(kiln_cond(s, positive, grows, NULL, in, 1, &y, 1));
    out[0] = kiln_tanh(kiln_add(y, in[1]));
    out[1] = kiln_mul(out[0], weight);
    return kiln_error();
}

REGION(by_cond_in_scan)
{
    return scan(step_with_cond, in[0], true, out);
}

REGION(writing_step)
{
    TRY_(kiln_add_(written, kiln_mul(in[1], in[0])));
    out[0] = kiln_sin(kiln_add(in[0], written));
    out[1] = kiln_sub(written, weight);
    return kiln_error();
}

REGION(by_writes)
{
    written = kiln_mul(kiln_select(in[0], 0, 0), kiln_scalar(2));
    TRY_(scan(writing_step, in[0], false, out));
    out[0] = kiln_add(out[0], kiln_sum(written, NULL));
    return kiln_error();
}

REGION(drawing_step)
{
    out[0] = kiln_dropout(kiln_tanh(kiln_add(kiln_mul(in[0], weight), in[1])), 0.5);
    out[1] = kiln_mul(out[0], kiln_uniform(kiln_tensor_device(in[1]), KILN_F32, 1, kiln_dims(in[1]), 0, 1));
    return kiln_error();
}

REGION(by_draws)
{
    return scan(drawing_step, in[0], false, out);
}

static const struct form {
    const char *name;
    kiln_fn fn;
} forms[] = {{"scan", by_scan},
             {"scan back", by_scan_back},
             {"for", by_for},
             {"for, by a count that is a value", counted_by_value},
             {"while", by_while},
             {"for in a scan", by_nested},
             {"cond in a scan", by_cond_in_scan},
             {"scan that writes", by_writes},
             {"scan that draws", by_draws}};
enum { FORMS = sizeof forms / sizeof *forms };

REGION(core)
{
    const struct form *form = user;
    weight = in[1];
    return form->fn(NULL, in, n_in, out, 1);
}

static const kiln_grad_opts *by_both(void)
{
    static int64_t both[] = {0, 1};
    static const kiln_grad_opts opts = {.size = sizeof opts, .wrt = {2, both}};
    return &opts;
}

REGION(first)
{
    return kiln_value_and_grad(core, user, in, n_in, by_both(), out, 3);
}

REGION(slope)
{
    kiln_tensor *d[2];
    TRY_(kiln_grad(core, user, in, n_in, by_both(), d, 2));
    out[0] = kiln_add(kiln_sum(kiln_square(d[0]), NULL), kiln_sum(kiln_square(d[1]), NULL));
    return kiln_error();
}

REGION(second)
{
    return kiln_value_and_grad(slope, user, in, n_in, by_both(), out, 3);
}

static void inputs(struct fixture *f, kiln_tensor **in)
{
    in[0] = kiln_sin(kiln_reshape(kiln_arange(f->dev, KILN_F32, 0, ROWS * 3, 1), 2, (const int64_t[]){ROWS, 3}));
    in[1] = kiln_full(f->dev, KILN_F32, KILN_SHAPE0, 0.5);
}

static void agree(const struct form *form, const char *what, enum cell cell, kiln_tensor *const *got,
                  kiln_tensor *const *want)
{
    for (int k = 0; k < 3; k++) {
        double most = kiln_item(kiln_max(kiln_abs(want[k]), NULL));
        double by = kiln_item(kiln_max(kiln_abs(kiln_sub(got[k], want[k])), NULL));
        if (!(by <= 2e-5 * (most + 1)))
            print_error("%s, %s, every %d, %s: result %d is %g away of %g\n", form->name, what, (int)every,
                        cell_names[cell], k, by, most);
        assert_true(by <= 2e-5 * (most + 1));
    }
}

static void check_form(struct fixture *f, const struct form *form, kiln_fn fn, const char *what, int64_t k)
{
    kiln_tensor *in[2], *want[3], *got[3];
    void *user = (void *)(uintptr_t)form;
    uint64_t seed, drawn, number;
    inputs(f, in);
    every = k;
    kiln_seed(f->dev, 5);
    ok(fn(user, in, 2, want, 3));
    kiln_rng_state(f->dev, &seed, &drawn);
    for (enum cell cell = 0; cell < CELLS; cell++) {
        kiln_function *j = capture_in(cell, fn, user);
        for (int t = 0; t < 2; t++) {
            kiln_seed(f->dev, 5);
            ok(kiln_call(j, in, 2, got, 3));
            agree(form, what, cell, got, want);
            kiln_rng_state(f->dev, &seed, &number);
            assert_int_equal(number, drawn);
        }
        kiln_function_free(&j);
        ok(kiln_set_mode(KILN_MODE_EAGER));
    }
}

// 11 trips in blocks of 3 and 4 leave some over; 11 are no blocks.
static void gradients_are_the_same(void **state)
{
    static const int64_t all[] = {4, 1, 0, 3, 11};
    size_t n = strcmp(jit_device, "vulkan") ? sizeof all / sizeof *all : 2; // each is a program of shaders
    for (int i = 0; i < FORMS; i++)
        for (size_t k = 0; k < n; k++) check_form(*state, &forms[i], first, "first", all[k]);
}

static void second_gradients_are_the_same(void **state)
{
    static const int64_t all[] = {3, 1};
    size_t n = strcmp(jit_device, "vulkan") ? 2 : 1;
    for (int i = 0; i < FORMS; i++)
        for (size_t k = 0; k < n; k++) check_form(*state, &forms[i], second, "second", all[k]);
}

REGION(captured_core)
{
    return kiln_call(*(kiln_function **)user, in, n_in, out, n_out);
}

// The function is differentiated from outside, so that what is kept lies in memory between two programs.
static void gradients_of_a_captured_function(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < FORMS; i++)
        for (every = strcmp(jit_device, "vulkan") ? 0 : 4; every < 5; every += 2) {
            kiln_tensor *in[2], *want[3], *got[3];
            void *form = (void *)(uintptr_t)&forms[i];
            inputs(f, in);
            kiln_seed(f->dev, 5);
            ok(first(form, in, 2, want, 3));
            for (enum cell cell = 0; cell < CELLS; cell++) {
                kiln_function *j = capture_in(cell, core, form);
                kiln_seed(f->dev, 5);
                ok(kiln_value_and_grad(captured_core, &j, in, 2, by_both(), got, 3));
                agree(&forms[i], "from outside", cell, got, want);
                kiln_function_free(&j);
                ok(kiln_set_mode(KILN_MODE_EAGER));
            }
        }
}

// --- memory

enum { TRIPS = 64, SIZE = 16384 }; // 64 KiB a value

REGION(long_step)
{
    kiln_tensor *x = in[1];
    for (int i = 0; i < 4; i++) x = kiln_sin(kiln_sub(x, kiln_mean(kiln_square(x), NULL)));
    out[0] = x;
    return kiln_error();
}

REGION(long_loop)
{
    kiln_tensor *y;
    TRY_(kiln_for(kiln_scalar_int(TRIPS), long_step, NULL, in, 1, KILN_LOOP(.save_every = every), &y, 1));
    out[0] = kiln_sum(y, NULL);
    return kiln_error();
}

REGION(gradient_of_long_loop)
{
    return kiln_grad(long_loop, NULL, in, 1, NULL, out, 1);
}

static double peak_of(struct fixture *f, int64_t k)
{
    kiln_tensor *x = kiln_cos(kiln_arange(f->dev, KILN_F32, 0, SIZE, 1)), *y;
    kiln_device_stats s = {.size = sizeof s};
    every = k;
    kiln_function *j = kiln_jit(gradient_of_long_loop, NULL, NULL);
    ok(kiln_call(j, &x, 1, &y, 1));
    ok(kiln_device_synchronize(f->dev));
    kiln_device_reset_stats(f->dev);
    kiln_device_get_stats(f->dev, &s);
    double before = (double)s.heap_used_B;
    ok(kiln_call(j, &x, 1, &y, 1));
    ok(kiln_device_synchronize(f->dev));
    kiln_device_get_stats(f->dev, &s);
    kiln_function_free(&j);
    return ((double)s.heap_peak_B - before) / (SIZE * sizeof(float));
}

// In values of a trip. All: 8 of each trip. Carried: one of each. Every 4th: 16, and all of 4 trips.
static void less_is_kept(void **state)
{
    const char *debug = getenv("KILN_DEBUG");
    if (debug && strstr(debug, "replay")) skip(); // no program, no plan of memory
    double all = peak_of(*state, 0), carried = peak_of(*state, 1), some = peak_of(*state, 4);
    print_message("values kept of %d trips: all %.1f, carried %.1f, every 4th %.1f\n", TRIPS, all, carried, some);
    assert_true(all > 4 * TRIPS);
    assert_true(carried > 0.9 * TRIPS && carried < 1.4 * TRIPS);
    assert_true(some < 0.9 * carried);
}

// --- calls of the host

static int n_calls;

static kiln_status count_call(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    n_calls++;
    out[0] = kiln_mul(in[0], kiln_scalar(0.5));
    (void)user, (void)n_in, (void)n_out;
    return kiln_error();
}

static kiln_status half(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                        kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_scalar(0.5));
    (void)user, (void)in, (void)out;
    return kiln_error();
}

REGION(calling_step)
{
    static const int64_t dims[] = {3};
    const kiln_host_spec spec = {KILN_F32, 1, dims};
    kiln_tensor *x = kiln_sin(in[0]), *y;
    TRY_(kiln_host_call(count_call, NULL, &x, 1, &spec, &y, 1, KILN_HOST_READS, half));
    out[0] = kiln_sin(kiln_add(y, in[1]));
    out[1] = kiln_square(y);
    return kiln_error();
}

REGION(by_calls)
{
    return scan(calling_step, in[0], false, out);
}

static void calls_of_the_host_are_made_once(void **state)
{
    static const struct form calls = {"scan that calls the host", by_calls};
    struct fixture *f = *state;
    for (every = 0; every < 4; every++)
        for (enum cell cell = 0; cell < CELLS; cell++) {
            kiln_tensor *in[2], *want[3], *got[3];
            void *form = (void *)(uintptr_t)&calls;
            inputs(f, in);
            ok(first(form, in, 2, want, 3));
            kiln_function *j = capture_in(cell, first, form);
            ok(kiln_call(j, in, 2, got, 3));
            n_calls = 0;
            ok(kiln_call(j, in, 2, got, 3));
            assert_int_equal(n_calls, ROWS);
            agree(&calls, "first", cell, got, want);
            kiln_function_free(&j);
            ok(kiln_set_mode(KILN_MODE_EAGER));
        }
}

static void wrong_options(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *in[2], *y[2];
    inputs(f, in);
    kiln_tensor *all[] = {kiln_select(in[0], 0, 0), in[0]};
    weight = in[1];
    fails(kiln_scan(one_step, NULL, all, 2, KILN_SCAN(.carried = 1, .save_every = -1), y, 2), KILN_E_ARGUMENT,
          "scan: .save_every is -1");
    fails(kiln_for(kiln_scalar_int(2), grows, NULL, all, 1, KILN_LOOP(.save_every = -2), y, 1), KILN_E_ARGUMENT,
          "for: .save_every is -2");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(gradients_are_the_same),           FIXTURE(second_gradients_are_the_same),
        FIXTURE(gradients_of_a_captured_function), FIXTURE(less_is_kept),
        FIXTURE(calls_of_the_host_are_made_once),  FIXTURE(wrong_options),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
