// Control flow, calls of the host and bundles on several threads: one function that all call, and one for each, in
// every capture. Each thread checks the numbers that it gets. ThreadSanitizer runs the same program (tools/test).
#include "threads_fixture.h"
#include <kiln/bundle.h>
#include <kiln/control.h>
#include <kiln/host.h>
#include <stdatomic.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_TRACE, KILN_CAPTURE_AUTO};
enum { CALLS = 12, CAPTURES = sizeof captures / sizeof *captures };

// --- control flow: x, and a count of trips

REGION(halves)
{
    out[0] = kiln_mul(in[n_in - 1], kiln_scalar(0.5));
    return kiln_error();
}

REGION(adds_three)
{
    out[0] = kiln_add(in[n_in - 1], kiln_scalar(3));
    return kiln_error();
}

REGION(is_large)
{
    out[0] = kiln_greater(kiln_max(in[0], NULL), kiln_scalar(4));
    return kiln_error();
}

REGION(steps)
{
    kiln_tensor *large;
    TRY_(is_large(NULL, in + 1, 1, &large, 1));
    return kiln_cond(large, halves, adds_three, NULL, in + 1, 1, out, 1);
}

REGION(adds_row)
{
    out[0] = kiln_add(in[0], in[1]);
    out[1] = kiln_mul(out[0], kiln_scalar(2));
    return kiln_error();
}

// After the loops each row is what it was in the trips before, and a sum of rows.
REGION(flows)
{
    static const kiln_fn branches[] = {halves, adds_three, halves};
    kiln_tensor *y[2], *index = kiln_remainder(in[1], kiln_scalar_int(3));
    TRY_(kiln_for(in[1], steps, NULL, in, 1, KILN_LOOP(.bound = 20), y, 1));
    TRY_(kiln_switch(index, branches, 3, NULL, y, 1, y + 1, 1));
    TRY_(kiln_while(is_large, halves, NULL, y + 1, 1, KILN_LOOP(.bound = 20), y, 1));
    kiln_tensor *all[] = {kiln_zeros_like(kiln_select(y[0], 0, 0)), y[0]};
    TRY_(kiln_scan(adds_row, NULL, all, 2, KILN_SCAN(.carried = 1), y, 2));
    out[0] = y[0];
    out[1] = kiln_sum(y[1], KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

enum { ROWS = 3 };

static double flows_on_host(double v, int64_t trips)
{
    for (int64_t i = 0; i < trips; i++) v = v > 4 ? v / 2 : v + 3;
    v = trips % 3 == 1 ? v + 3 : v / 2;
    while (v > 4) v /= 2;
    return v;
}

static bool call_flows(struct fixture *f, kiln_function *j, double v, int64_t trips)
{
    kiln_scope *scope = kiln_scope_begin();
    double want = flows_on_host(v, trips), rows[ROWS];
    kiln_tensor *in[] = {rows_of(f, ROWS, v), kiln_full_int(f->dev, KILN_I64, KILN_SHAPE0, trips)}, *out[2] = {NULL};
    float all[WIDTH]; // who reads is told of errors
    bool fine = !kiln_call(j, in, 2, out, 2) && !kiln_read(out[0], all, sizeof all);
    fine = fine && holds(out[0], WIDTH, ROWS * want);
    if (fine) read_all(out[1], rows);
    for (int i = 0; i < ROWS && fine && computes(); i++) fine = fabs(rows[i] - 2 * WIDTH * want * (i + 1)) < 1e-3;
    kiln_scope_end(&scope);
    return fine;
}

static const char *flow_often(struct job *job)
{
    for (int i = 0; i < CALLS; i++)
        if (!call_flows(job->f, job->j, job->id + 0.25 * i, (job->id + i) % 7)) return "wrong control flow";
    return NULL;
}

static void regions_of_one_function(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < CAPTURES; c++) {
        kiln_function *j = kiln_jit(flows, NULL, KILN_JIT(.capture = captures[c]));
        run_alike(f, flow_often, j, NULL);
        assert_int_equal(stats_of(j).calls, THREADS * CALLS);
        if (captures[c] != KILN_CAPTURE_AUTO) assert_int_equal(stats_of(j).programs, 1);
        kiln_function_free(&j);
    }
}

static const char *flow_with_own(struct job *job)
{
    kiln_function *j = kiln_jit(flows, NULL, KILN_JIT(.capture = captures[job->id % CAPTURES]));
    job->j = j;
    const char *wrong = flow_often(job);
    kiln_function_free(&j);
    return wrong;
}

static void regions_of_many_functions(void **state)
{
    run_alike(*state, flow_with_own, NULL, NULL);
}

// An error of one thread's loop is not that of another.
static const char *flow_too_far(struct job *job)
{
    for (int i = 0; i < CALLS; i++) {
        bool far = (i + job->id) % 2 && computes();
        bool fine = call_flows(job->f, job->j, 1, far ? 21 : 5);
        if (far && (fine || kiln_error() != KILN_E_STATE || !strstr(kiln_error_message(), "its .bound")))
            return "no bound was found exceeded";
        if (!far && (!fine || kiln_error())) return "the bound of another thread's loop";
        kiln_error_clear();
    }
    return NULL;
}

static void bounds_belong_to_threads(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < CAPTURES; c++) {
        kiln_function *j = kiln_jit(flows, NULL, KILN_JIT(.capture = captures[c]));
        run_alike(f, flow_too_far, j, NULL);
        kiln_function_free(&j);
    }
}

// --- gradients through loops

REGION(curve)
{
    kiln_tensor *y[2];
    TRY_(kiln_for(in[1], adds_three, NULL, in, 1, KILN_LOOP(.bound = 8), y, 1));
    TRY_(kiln_for(kiln_scalar_int(2), halves, NULL, y, 1, NULL, y + 1, 1));
    out[0] = kiln_sum(kiln_square(y[1]), NULL);
    return kiln_error();
}

REGION(slope)
{
    return kiln_value_and_grad(curve, NULL, in, 2, KILN_GRAD(.wrt = KILN_ARGS(0)), out, 2);
}

static const char *slope_often(struct job *job)
{
    for (int i = 0; i < CALLS; i++) {
        kiln_scope *scope = kiln_scope_begin();
        int64_t trips = (job->id + i) % 5;
        double y = (job->id + 3. * (double)trips) / 4;
        kiln_tensor *in[] = {rows_of(job->f, 2, job->id), kiln_full_int(job->f->dev, KILN_I64, KILN_SHAPE0, trips)};
        kiln_tensor *out[2] = {NULL};
        bool fine =
            !kiln_call(job->j, in, 2, out, 2) && holds(out[0], 1, 2 * WIDTH * y * y) && holds(out[1], 2 * WIDTH, y / 2);
        kiln_scope_end(&scope);
        if (!fine) return "a wrong slope";
    }
    return NULL;
}

static void gradients_of_loops(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < CAPTURES; c++) {
        kiln_function *j = kiln_jit(slope, NULL, KILN_JIT(.capture = captures[c]));
        run_alike(f, slope_often, j, NULL);
        kiln_function_free(&j);
    }
}

// --- calls of the host: they are made on the thread that runs the function

static _Thread_local int mine;
static atomic_int of_all;

static kiln_status doubles(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    mine++;
    atomic_fetch_add(&of_all, 1);
    out[0] = kiln_mul(in[0], kiln_scalar(2));
    return kiln_error();
}

static kiln_status doubled_slope(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                                 kiln_tensor **din)
{
    din[0] = kiln_mul(dout[0], kiln_scalar(2));
    return kiln_error();
}

REGION(calls_in_trip)
{
    const kiln_host_spec spec = {KILN_F32, 2, (const int64_t[]){ROWS, WIDTH}};
    return kiln_host_call(doubles, NULL, in + 1, 1, &spec, out, 1, KILN_HOST_READS, doubled_slope);
}

REGION(calls_in_loop)
{
    kiln_tensor *y;
    TRY_(kiln_for(kiln_scalar_int(3), calls_in_trip, NULL, in, 1, NULL, &y, 1));
    kiln_assert(kiln_all(kiln_less(y, kiln_scalar(1e6)), NULL), "{} is large", in[0]);
    out[0] = kiln_sum(y, KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

static const char *call_host(struct job *job)
{
    mine = 0;
    for (int i = 0; i < CALLS; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = rows_of(job->f, ROWS, job->id + i), *y = NULL;
        bool fine = !kiln_call(job->j, &x, 1, &y, 1) && holds(y, ROWS, 8 * WIDTH * (job->id + i));
        kiln_scope_end(&scope);
        if (!fine) return "a wrong call of the host";
    }
    return mine == 3 * CALLS ? NULL : "calls were made on other threads";
}

static void calls_of_the_host(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < CAPTURES && computes(); c++) {
        kiln_function *j = kiln_jit(calls_in_loop, NULL, KILN_JIT(.capture = captures[c]));
        atomic_store(&of_all, 0);
        run_alike(f, call_host, j, NULL);
        assert_int_equal(atomic_load(&of_all), 3 * CALLS * THREADS);
        kiln_function_free(&j);
    }
}

static const char *call_host_of_own(struct job *job)
{
    kiln_function *j = kiln_jit(calls_in_loop, NULL, KILN_JIT(.capture = captures[job->id % CAPTURES]));
    job->j = j;
    const char *wrong = call_host(job);
    kiln_function_free(&j);
    return wrong;
}

static void calls_of_the_host_by_many_functions(void **state)
{
    if (computes()) run_alike(*state, call_host_of_own, NULL, NULL);
}

static kiln_status doubles_bundle(void *user, kiln_bundle *in, kiln_bundle **out)
{
    mine++;
    atomic_fetch_add(&of_all, 1);
    *out = kiln_bundle_create();
    kiln_bundle_set(*out, "name", KILN_STRING(kiln_bundle_string(in, "name")));
    return kiln_bundle_set(*out, "y", KILN_TENSOR(kiln_mul(kiln_bundle_tensor(in, "x"), kiln_scalar(2))));
}

REGION(calls_by_bundle)
{
    kiln_bundle *given = kiln_bundle_create(), *spec = kiln_bundle_create(), *made;
    kiln_bundle_set(given, "x", KILN_TENSOR(in[1]));
    kiln_bundle_set(given, "name", KILN_STRING("doubled"));
    kiln_bundle_set(spec, "name", KILN_STRING("doubled"));
    kiln_bundle_set(spec, "y", KILN_TENSOR(in[1]));
    TRY_(kiln_bundle_host_call(doubles_bundle, NULL, given, spec, &made, KILN_HOST_READS, doubled_slope));
    out[0] = kiln_bundle_tensor(made, "y");
    return kiln_error();
}

REGION(calls_by_bundles_in_loop)
{
    kiln_tensor *y;
    TRY_(kiln_for(kiln_scalar_int(3), calls_by_bundle, NULL, in, 1, NULL, &y, 1));
    out[0] = kiln_sum(y, KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

static const char *call_own_by_bundle(struct job *job)
{
    kiln_capture capture = captures[job->id % CAPTURES];
    kiln_function *j = job->j = kiln_jit(calls_by_bundles_in_loop, NULL, KILN_JIT(.capture = capture));
    const char *wrong = call_host(job);
    kiln_function_free(&j);
    return wrong;
}

static void calls_of_the_host_by_bundles(void **state)
{
    struct fixture *f = *state;
    for (int c = 0; c < CAPTURES && computes(); c++) {
        kiln_function *j = kiln_jit(calls_by_bundles_in_loop, NULL, KILN_JIT(.capture = captures[c]));
        atomic_store(&of_all, 0);
        run_alike(f, call_host, j, NULL);
        assert_int_equal(atomic_load(&of_all), 3 * CALLS * THREADS);
        kiln_function_free(&j);
    }
    if (computes()) run_alike(f, call_own_by_bundle, NULL, NULL);
}

// --- bundles

static kiln_status weighs(void *user, kiln_bundle *in, kiln_bundle **out)
{
    kiln_tensor *y = kiln_mul(kiln_bundle_tensor(in, "x"), kiln_bundle_tensor(in, "by"));
    if (kiln_bundle_has(in, "bias")) y = kiln_add(y, kiln_bundle_tensor(in, "bias"));
    kiln_bundle_append(in, "y", KILN_TENSOR(y)); // of its copy
    *out = kiln_bundle_copy(in);
    return kiln_bundle_set(*out, "name", KILN_STRING(kiln_bundle_string(user, "name")));
}

static kiln_bundle *global;

static const char *call_by_bundles(struct job *job)
{
    for (int i = 0; i < CALLS; i++) {
        kiln_scope *scope = kiln_scope_begin();
        bool biased = (i + job->id) % 2;
        kiln_bundle *in = kiln_bundle_create(), *out = NULL;
        kiln_bundle_set(in, "x", KILN_TENSOR(rows_of(job->f, 2, i)));
        kiln_bundle_set(in, "by", KILN_TENSOR(kiln_mutable(job->id)));
        if (biased) kiln_bundle_set(in, "bias", KILN_TENSOR(rows_of(job->f, 2, 100)));
        bool fine = !kiln_bundle_call(job->j, in, &out) && kiln_bundle_count(in) == 2u + biased &&
                    holds(kiln_bundle_tensor(out, "y"), 2 * WIDTH, i * job->id + (biased ? 100 : 0)) &&
                    !strcmp(kiln_bundle_string(out, "name"), "all");
        kiln_scope_end(&scope);
        if (!fine) return "a wrong bundle";
    }
    return NULL;
}

static const char *call_own_by_bundles(struct job *job)
{
    kiln_function *j = kiln_bundle_jit(weighs, global, KILN_JIT(.capture = captures[job->id % CAPTURES]));
    job->j = j;
    const char *wrong = call_by_bundles(job);
    kiln_function_free(&j);
    return wrong;
}

static void bundles_are_passed(void **state)
{
    struct fixture *f = *state;
    global = kiln_bundle_create();
    ok(kiln_bundle_set(global, "name", KILN_STRING("all")));
    for (int c = 0; c < CAPTURES; c++) {
        kiln_function *j = kiln_bundle_jit(weighs, global, KILN_JIT(.capture = captures[c]));
        run_alike(f, call_by_bundles, j, NULL);
        kiln_function_free(&j);
    }
    run_alike(f, call_own_by_bundles, NULL, NULL);
    kiln_bundle_free(&global);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(regions_of_one_function),
        FIXTURE(regions_of_many_functions),
        FIXTURE(bounds_belong_to_threads),
        FIXTURE(gradients_of_loops),
        FIXTURE(calls_of_the_host),
        FIXTURE(calls_of_the_host_by_many_functions),
        FIXTURE(calls_of_the_host_by_bundles),
        FIXTURE(bundles_are_passed),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
