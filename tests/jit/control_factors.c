// Loops whose products share a factor from outside: it is packed once, and what comes is to the bit what trips one by
// one give. What trips write is read anew in each.
#include "jit_fixture.h"
#include <kiln/control.h>
#include <stdio.h>

#define REGION(name) \
    static kiln_status name(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)

enum { TRIPS = 9, MOST = 4 };

// In: what is carried, then of each row scanned, then a factor from outside.
REGION(recurs)
{
    out[0] = kiln_tanh(kiln_add(kiln_matmul(in[0], kiln_transpose(in[2], 0, 1)), in[1]));
    return kiln_error();
}

REGION(recurs_as_it_lies)
{
    out[0] = kiln_tanh(kiln_add(kiln_matmul(in[0], in[2]), in[1]));
    return kiln_error();
}

// The factor is carried, and another one in each trip.
REGION(learns)
{
    out[0] = kiln_tanh(kiln_add(kiln_matmul(in[0], kiln_transpose(in[1], 0, 1)), in[2]));
    out[1] = kiln_add(kiln_mul(in[1], kiln_scalar(0.75)), kiln_mul(in[3], kiln_scalar(0.25)));
    return kiln_error();
}

// A row of the factor is changed where it lies, and the product reads it.
REGION(changes_rows)
{
    kiln_tensor *row = kiln_narrow(in[2], 0, 0, 1);
    out[1] = kiln_update_at(in[1], 0, in[3], row);
    out[0] = kiln_tanh(kiln_add(kiln_matmul(in[0], kiln_transpose(out[1], 0, 1)), in[2]));
    return kiln_error();
}

// Each trip has a factor of its own.
REGION(reads_its_own)
{
    out[0] = kiln_tanh(kiln_add(kiln_matmul(in[0], kiln_transpose(in[1], 0, 1)), kiln_mul(in[0], kiln_scalar(0.5))));
    return kiln_error();
}

struct loop_case {
    const char *what;
    kiln_fn body;
    int carried, outside; // and one scanned, or two where `places`
    bool places, square;  // what is scanned are square matrices
};

static const struct loop_case loops[] = {
    {"transposed", recurs, 1, 1, false, false},    {"as it lies", recurs_as_it_lies, 1, 1, false, false},
    {"carried", learns, 2, 1, false, false},       {"changed in place", changes_rows, 2, 0, true, false},
    {"scanned", reads_its_own, 1, 0, false, true},
};

struct loop {
    const struct loop_case *c;
    kiln_tensor *const *outside;
};

REGION(runs_trip) // carried, scanned, outside
{
    const struct loop_case *c = user;
    return c->body(NULL, in, n_in, out, n_out);
}

REGION(takes_outside)
{
    const struct loop *l = user;
    kiln_tensor *all[2 * MOST];
    for (size_t i = 0; i < n_in; i++) all[i] = in[i];
    for (int i = 0; i < l->c->outside; i++) all[n_in + (size_t)i] = l->outside[i];
    return l->c->body(NULL, all, n_in + (size_t)l->c->outside, out, n_out);
}

REGION(runs_scan)
{
    const struct loop_case *c = user;
    struct loop l = {c, in + n_in - c->outside};
    return kiln_scan(takes_outside, &l, in, n_in - (size_t)c->outside, KILN_SCAN(.carried = (size_t)c->carried), out,
                     n_out);
}

static bool same_bits(kiln_tensor *a, kiln_tensor *b)
{
    static char x[1 << 20], y[1 << 20];
    size_t n = (size_t)kiln_numel(a) * kiln_dtype_size(kiln_tensor_dtype(a));
    if (n > sizeof x || kiln_numel(a) != kiln_numel(b)) return false;
    ok(kiln_read(a, x, n));
    ok(kiln_read(b, y, n));
    return !memcmp(x, y, n);
}

static bool is_near(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_item(kiln_max(kiln_abs(kiln_sub(kiln_cast(a, KILN_F32), kiln_cast(b, KILN_F32))), NULL)) < 2e-2;
}

static kiln_tensor *random_of(kiln_device *dev, kiln_dtype dtype, size_t rank, const int64_t *dims, double spread)
{
    return kiln_cast(kiln_normal(dev, KILN_F32, rank, dims, 0, spread), dtype);
}

// The inputs of runs_scan; how many.
static size_t make_inputs(kiln_device *dev, const struct loop_case *c, kiln_dtype dtype, int64_t m, int64_t k,
                          kiln_tensor **in)
{
    static const int64_t places[TRIPS] = {0, 2, 1, 1, 0, 2, 0, 1, 2};
    double spread = 1.0 / (double)k;
    size_t n = 0;
    in[n++] = random_of(dev, dtype, KILN_SHAPE(m, k), 1);
    if (c->carried > 1) in[n++] = random_of(dev, dtype, KILN_SHAPE(k, k), spread);
    in[n++] = random_of(dev, dtype, KILN_SHAPE(TRIPS, c->square ? k : m, k), c->square ? spread : 1);
    if (c->places) in[n++] = kiln_from_data(dev, KILN_I64, KILN_SHAPE(TRIPS), places);
    for (int i = 0; i < c->outside; i++) in[n++] = random_of(dev, dtype, KILN_SHAPE(k, k), spread);
    ok(kiln_error());
    return n;
}

static void by_trips(const struct loop_case *c, kiln_tensor *const *in, size_t n_in, kiln_tensor **out)
{
    kiln_function *trip = kiln_jit(runs_trip, (void *)(uintptr_t)c, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    size_t carried = (size_t)c->carried, rows = 1 + c->places;
    kiln_tensor *now[2 * MOST];
    for (size_t i = 0; i < n_in; i++) now[i] = in[i];
    for (int64_t t = 0; t < TRIPS; t++) {
        for (size_t i = carried; i < carried + rows; i++) now[i] = kiln_select(in[i], 0, t);
        ok(kiln_call(trip, now, n_in, out, carried));
        for (size_t i = 0; i < carried; i++) now[i] = out[i];
    }
    kiln_function_free(&trip);
}

static void compare(kiln_function *f, const struct loop_case *c, kiln_tensor *const *in, size_t n_in, const char *when)
{
    kiln_tensor *want[MOST], *got[MOST];
    bool exact = !strcmp(jit_device, "cpu");
    by_trips(c, in, n_in, want);
    ok(kiln_call(f, in, n_in, got, (size_t)c->carried));
    for (int i = 0; i < c->carried; i++)
        if (exact ? !same_bits(got[i], want[i]) : !is_near(got[i], want[i]))
            fail_msg("%s, [%d, %d] of %s, %s: result %d differs", c->what, (int)kiln_dim(in[0], 0),
                     (int)kiln_dim(in[0], 1), kiln_dtype_name(kiln_tensor_dtype(in[0])), when, i);
}

// Rows that are multiplied as they are, by pieces, by panels of a thread's own and of all threads.
static void loops_give_the_bits_of_trips_one_by_one(void **state)
{
    static const int64_t sizes[][2] = {{1, 40},  {3, 70},  {17, 33},  {20, 130},
                                       {49, 64}, {64, 96}, {150, 65}, {260, 200}};
    static const kiln_dtype dtypes[] = {KILN_F32, KILN_F16, KILN_BF16, KILN_F64};
    struct fixture *f = *state;
    size_t n_dtypes = strcmp(jit_device, "cpu") ? 1 : 4; // of others not each has all
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t d = 0; d < n_dtypes; d++) {
                kiln_scope *scope = kiln_scope_begin();
                kiln_tensor *in[2 * MOST];
                size_t n = make_inputs(f->dev, &loops[i], dtypes[d], sizes[s][0], sizes[s][1], in);
                kiln_function *j =
                    kiln_jit(runs_scan, (void *)(uintptr_t)&loops[i], KILN_JIT(.capture = KILN_CAPTURE_STRICT));
                compare(j, &loops[i], in, n, "first");
                kiln_function_free(&j);
                kiln_scope_end(&scope);
            }
}

// Nothing outlives the run: whatever was written between two, the next one reads it.
static void writes_between_runs_are_seen(void **state)
{
    enum { M = 40, K = 96 };
    struct fixture *f = *state;
    kiln_tensor *in[2 * MOST];
    static float values[K * K];
    size_t n = make_inputs(f->dev, &loops[0], KILN_F32, M, K, in);
    kiln_function *j = kiln_jit(runs_scan, (void *)(uintptr_t)&loops[0], KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    kiln_tensor *w = in[n - 1];
    compare(j, &loops[0], in, n, "first");
    compare(j, &loops[0], in, n, "again");
    kiln_mul_(w, kiln_scalar(-1));
    compare(j, &loops[0], in, n, "after an op in place");
    kiln_mul_(kiln_narrow(w, 0, K / 2, 1), kiln_scalar(0.125));
    compare(j, &loops[0], in, n, "after a write through a view");
    for (int i = 0; i < K * K; i++) values[i] = (float)(i % 7 - 3) / K;
    ok(kiln_write(w, values, sizeof values));
    compare(j, &loops[0], in, n, "after kiln_write");
    in[0] = kiln_narrow(w, 0, 0, M); // what is carried begins in the factor
    compare(j, &loops[0], in, n, "with a part of the factor");
    kiln_function_free(&j);
}

// --- memory

struct counted {
    kiln_tensor *w;
};

REGION(counts)
{
    const struct counted *c = user;
    out[0] = kiln_tanh(kiln_matmul(in[1], kiln_transpose(c->w, 0, 1)));
    return kiln_error();
}

REGION(runs_counted) // carried, how often, the factor
{
    struct counted c = {in[2]};
    return kiln_for(in[1], counts, &c, in, 1, NULL, out, 1);
}

static kiln_device_stats heap_of(kiln_device *dev)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    return s;
}

static void call_counted(kiln_function *j, kiln_device *dev, kiln_tensor *h, kiln_tensor *w, int64_t trips)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *in[] = {h, kiln_from_data(dev, KILN_I64, 0, NULL, &trips), w}, *out;
    ok(kiln_call(j, in, 3, &out, 1));
    kiln_scope_end(&scope);
}

// Of three trips none is laid out; of many the factor lies packed beside what the program needs, until the run ends.
static void the_packed_factor_is_counted_and_given_back(void **state)
{
    enum { M = 64, K = 256 };
    kiln_device *dev = kiln_device_open("cpu");
    kiln_device_info info = {.size = sizeof info};
    ok(kiln_device_get_info(dev, &info));
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *h = kiln_normal(dev, KILN_F32, KILN_SHAPE(M, K), 0, 1);
    kiln_tensor *w = kiln_normal(dev, KILN_F32, KILN_SHAPE(K, K), 0, 0.1);
    kiln_function *j = kiln_jit(runs_counted, NULL, KILN_JIT(.capture = KILN_CAPTURE_STRICT));
    kiln_zeros(dev, KILN_F32, KILN_SHAPE(1 << 20)); // more than making the inputs took meanwhile: calls reach the peak
    call_counted(j, dev, h, w, 3);
    kiln_device_stats few = heap_of(dev);
    call_counted(j, dev, h, w, 20);
    kiln_device_stats many = heap_of(dev);
    assert_int_equal(many.heap_used_B, few.heap_used_B);
    bool registers = strstr(info.driver, "kernels v4") || strstr(info.driver, "kernels v3");
    uint64_t least_B = registers ? K * K * sizeof(float) : 0;
    assert_true(many.heap_peak_B >= few.heap_peak_B + least_B);
    kiln_function_free(&j);
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(loops_give_the_bits_of_trips_one_by_one),
        FIXTURE(writes_between_runs_are_seen),
        FIXTURE(the_packed_factor_is_counted_and_given_back),
    };
    if (choose_device(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
