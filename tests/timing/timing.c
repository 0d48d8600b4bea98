// Times of functions, and ceilings: counts of calls, statistics of sleeps whose lengths are known, costs by hand.
#include <kiln/ops.h>
#include <kiln/random.h>
#include <kiln/timing.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../clock.h"
#include "../processor.h"
#include "peak.h"

static kiln_device *dev;
static kiln_scope *scope;

static int begin(void **state)
{
    kiln_error_clear();
    scope = kiln_scope_begin();
    return scope ? 0 : -1;
}

static int end(void **state)
{
    if (kiln_error()) fprintf(stderr, "left pending: %s\n", kiln_error_message());
    int failed = kiln_error() ? -1 : 0;
    kiln_error_clear();
    kiln_scope_end(&scope);
    return failed;
}

static uint64_t tensors_alive(void)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    return stats.tensors;
}

// --- functions

struct sleeper {
    int calls;
    int long_every; // such a call takes ten times as long
    int fail_at;
    jmp_buf *leave;
};

static void sleep_ms(double ms)
{
    struct timespec t = {0, (long)(1e6 * ms)};
    nanosleep(&t, NULL);
}

static kiln_status sleeping(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct sleeper *s = user;
    s->calls++;
    if (s->fail_at == s->calls) return KILN_E_STATE;
    if (s->leave) longjmp(*s->leave, 1);
    sleep_ms(s->long_every && s->calls % s->long_every == 0 ? 20 : 2);
    out[0] = kiln_ones(dev, KILN_F32, KILN_SHAPE(1000));
    return kiln_error();
}

static kiln_status product(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_relu(kiln_matmul(in[0], in[1]));
    return kiln_error();
}

static void expect_order(const kiln_bench_result *r)
{
    assert_true(r->min_ns > 0 && r->min_ns <= r->median_ns && r->median_ns <= r->p90_ns);
    assert_true(r->iqr_ns >= 0);
}

// --- tests

// A first call, two to warm up, one to estimate, and the timed ones; none of their results is left.
static void calls_are_counted(void **state)
{
    struct sleeper s = {0};
    kiln_bench_result r = {.size = sizeof r};
    uint64_t before = tensors_alive();
    kiln_bench_function(sleeping, &s, NULL, 0, 1, KILN_BENCH(.budget_s = 10, .warm_up = 2, .max_runs = 6), &r);
    assert_int_equal(kiln_error(), KILN_OK);
    assert_int_equal(r.runs, 6);
    assert_int_equal(s.calls, 1 + 2 + 1 + 6);
    assert_int_equal(tensors_alive(), before);
    expect_order(&r);
    assert_true(r.median_ns >= 2e6 && r.first_ns >= 2e6);
    assert_true(r.cpu_ns < r.median_ns); // it sleeps
    assert_true(isnan(r.flops) && isnan(r.moved_B) && isnan(r.memory_share));
    assert_true(r.compile_ns == 0);
}

// 40 ms have room for 20 calls of 2 ms at most, and a budget that one call breaks still gives as many as are asked for.
static void the_budget_bounds_calls(void **state)
{
    struct sleeper s = {0};
    kiln_bench_result r = {.size = sizeof r};
    kiln_bench_function(sleeping, &s, NULL, 0, 1, KILN_BENCH(.budget_s = 0.04, .warm_up = -1), &r);
    assert_true(r.runs >= 5 && r.runs <= 20);
    assert_int_equal(s.calls, 2 + (int)r.runs);
    s.calls = 0;
    kiln_bench_function(sleeping, &s, NULL, 0, 1, KILN_BENCH(.budget_s = 1e-6, .min_runs = 3), &r);
    assert_int_equal(r.runs, 3);
    assert_int_equal(s.calls, 1 + 1 + 1 + 3); // the warm-up ends with the budget, too
}

// Of each four calls one takes ten times as long: the median does not see it, the nine of ten do.
static void quantiles(void **state)
{
    struct sleeper s = {.long_every = 4};
    kiln_bench_result r = {.size = sizeof r};
    kiln_bench_function(sleeping, &s, NULL, 0, 1, KILN_BENCH(.budget_s = 1e-6, .min_runs = 24, .warm_up = -1), &r);
    assert_int_equal(r.runs, 24);
    expect_order(&r);
    assert_true(r.min_ns < 15e6 && r.median_ns < 15e6);
    assert_true(r.p90_ns >= 20e6);
}

// 2 x 48^3 operations; compilation is told of the first call alone.
static void captured_functions(void **state)
{
    kiln_tensor *in[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(48, 48)), kiln_ones(dev, KILN_F32, KILN_SHAPE(48, 48))};
    kiln_bench_result r = {.size = sizeof r}, again = {.size = sizeof again};
    kiln_function *f = kiln_jit(product, NULL, NULL);
    kiln_bench_captured(f, in, 2, 1, KILN_BENCH(.budget_s = 0.01), &r);
    assert_int_equal(kiln_error(), KILN_OK);
    expect_order(&r);
    assert_true(r.compile_ns > 0 && r.compile_ns < r.first_ns);
    assert_true(r.flops >= 2.0 * 48 * 48 * 48);
    assert_true(r.moved_B >= 3 * 48 * 48 * 4);
    assert_true(r.launches >= 1 && r.launches <= 3);
    assert_true(r.waits >= 1 || r.submits == 0);
    assert_true(fabs(r.memory_share * r.median_ns * r.copy_B_s / (1e9 * r.moved_B) - 1) < 1e-9);
    assert_true(fabs(r.flops_share * r.median_ns * r.fma_flops / (1e9 * r.flops) - 1) < 1e-9);

    kiln_bench_captured(f, in, 2, 1, KILN_BENCH(.budget_s = 0.001, .no_ceilings = true), &again);
    assert_true(again.compile_ns == 0);
    assert_true(again.flops == r.flops && isnan(again.fma_flops) && isnan(again.memory_share));
    kiln_function_free(&f);

    kiln_bench_function(product, NULL, in, 2, 1, KILN_BENCH(.budget_s = 0.001, .jit = true, .no_ceilings = true),
                        &again);
    assert_true(again.flops == r.flops && again.moved_B == r.moved_B);
    kiln_bench_function(product, NULL, in, 2, 1, KILN_BENCH(.budget_s = 0.001), &again);
    assert_true(isnan(again.flops));
}

// In pieces, what it costs is not known, and no error.
static void pieces(void **state)
{
    kiln_tensor *in[] = {kiln_ones(dev, KILN_F32, KILN_SHAPE(8, 8)), kiln_ones(dev, KILN_F32, KILN_SHAPE(8, 8))};
    kiln_bench_result r = {.size = sizeof r};
    kiln_function *f = kiln_jit(product, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    kiln_bench_captured(f, in, 2, 1, KILN_BENCH(.budget_s = 0.001), &r);
    assert_int_equal(kiln_error(), KILN_OK);
    expect_order(&r);
    assert_true(isnan(r.flops) && isnan(r.copy_B_s));
    kiln_function_free(&f);
}

static kiln_status negation(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_neg(in[0]);
    return kiln_error();
}

// The best of a few copies of 16 MB by the C library, on one thread.
static double own_copy_rate(void)
{
    enum { SIZE = 16 << 20 };
    char *a = malloc(SIZE), *b = malloc(SIZE);
    double best = 1e9;
    memset(a, 1, SIZE);
    memset(b, 2, SIZE);
    for (int i = 0; i < 10; i++) {
        double t0 = clock_s();
        memcpy(a, b, SIZE);
        best = fmin(best, clock_s() - t0);
        assert_int_equal(*(volatile char *)(a + i), 2);
    }
    free(a);
    free(b);
    return 2.0 * SIZE / best;
}

// On a machine that does other things too, one measurement tells little: it is tried again. Sanitizers slow loops of C
// down, and checks of memory copies of many pieces: with them rates are told, and mean little.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWED true
#elif defined(__has_feature)
#define SLOWED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SLOWED false
#endif

static bool holds(bool (*claim)(void))
{
    for (int i = 0; i < 12; i++)
        if (claim()) return true;
    return false;
}

static bool copies_are_above(void)
{
    double copy = kiln_device_ceiling(dev, KILN_CEILING_COPY, 32 << 20), own = own_copy_rate();
    return copy > own / 2 && copy < own * 64;
}

static bool others_are_near(void)
{
    double copy = kiln_device_ceiling(dev, KILN_CEILING_COPY, 32 << 20);
    double read = kiln_device_ceiling(dev, KILN_CEILING_READ, 32 << 20);
    double triad = kiln_device_ceiling(dev, KILN_CEILING_TRIAD, 32 << 20);
    return read > copy / 6 && read < copy * 6 && triad > copy / 6 && triad < copy * 6;
}

static bool products_are_above(void)
{
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(384, 384)), *in[] = {x, x};
    kiln_bench_result r = {.size = sizeof r};
    kiln_bench_function(product, NULL, in, 2, 1, KILN_BENCH(.budget_s = 0.05, .jit = true), &r);
    return r.flops_share > 0.001 && 1e9 * r.flops / r.min_ns < 4 * r.fma_flops;
}

static bool products_of_bf16_are_above(void)
{
    enum { SIDE = 768 };
    kiln_tensor *x = kiln_ones(dev, KILN_BF16, KILN_SHAPE(SIDE, SIDE)), *in[] = {x, x};
    kiln_bench_result r = {.size = sizeof r};
    kiln_bench_function(product, NULL, in, 2, 1, KILN_BENCH(.budget_s = 0.05), &r);
    double rate = 2e9 * SIDE * SIDE * SIDE / r.min_ns, most = kiln_device_ceiling(dev, KILN_CEILING_FMA_BF16, 0);
    return rate < 1.3 * most && rate > most / 200;
}

// Not more than a loop in one thread does, times the threads: equal chains that a compiler makes one would seem to.
static bool arithmetic_is_the_machines(void)
{
    void (*run)(void) = NULL;
    double operations = peak_operations(&run), best = 1e9;
    if (operations == 0) return true;
    for (int i = 0; i < 40; i++) {
        double t0 = clock_s();
        run();
        best = fmin(best, clock_s() - t0);
    }
    kiln_device_info info = {.size = sizeof info};
    kiln_device_get_info(dev, &info);
    double own = operations / best, f32 = kiln_device_ceiling(dev, KILN_CEILING_FMA, 0);
    return f32 < 1.2 * own * info.threads && f32 > own / 2;
}

// The instruction for pairs of bf16 does half as many multiply-adds as that of f32, where it has half the units, or
// twice; tiles, where the system gives them, 16 times.
static bool dtypes_go_together(void)
{
    double most = processor_has("amx_bf16") ? 40 : 3;
    double f32 = kiln_device_ceiling(dev, KILN_CEILING_FMA, 0), f64 = kiln_device_ceiling(dev, KILN_CEILING_FMA_F64, 0);
    double bf16 = kiln_device_ceiling(dev, KILN_CEILING_FMA_BF16, 0);
    double f16 = kiln_device_ceiling(dev, KILN_CEILING_FMA_F16, 0);
    return f64 > f32 / 3 && f64 < f32 && bf16 > f32 / 3 && bf16 < f32 * most && f16 > f32 / 2 && f16 < f32 * 2;
}

static bool launches_are_near(void)
{
    kiln_bench_result r = {.size = sizeof r};
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(1)), *in[] = {x};
    kiln_bench_function(negation, NULL, in, 1, 1, KILN_BENCH(.budget_s = 0.02), &r);
    double own = 1e9 / r.median_ns, rate = kiln_device_ceiling(dev, KILN_CEILING_LAUNCH, 0);
    return rate > own / 2 && rate < own * 20;
}

// No program does better than what it is compared with: not a copy, nor the library's own product.
static void ceilings_are_above(void **state)
{
    if (SLOWED) {
        for (kiln_ceiling kind = KILN_CEILING_READ; kind <= KILN_CEILING_LAUNCH; kind++)
            assert_true(kiln_device_ceiling(dev, kind, 32 << 20) > 1e3);
        return;
    }
    assert_true(holds(copies_are_above));
    assert_true(holds(launches_are_near));
    assert_true(holds(arithmetic_is_the_machines));
    assert_true(holds(dtypes_go_together));
    assert_true(holds(others_are_near));
    assert_true(holds(products_are_above));
    assert_true(holds(products_of_bf16_are_above));
}

static void devices_of_vulkan(void **state)
{
    kiln_device *gpu = kiln_device_open("vulkan");
    if (!gpu) {
        kiln_error_clear();
        skip();
    }
    kiln_tensor *in[] = {kiln_ones(gpu, KILN_F32, KILN_SHAPE(48, 48)), kiln_ones(gpu, KILN_F32, KILN_SHAPE(48, 48))};
    kiln_bench_result r = {.size = sizeof r};
    kiln_bench_function(product, NULL, in, 2, 1, KILN_BENCH(.budget_s = 0.02, .jit = true), &r);
    assert_int_equal(kiln_error(), KILN_OK);
    expect_order(&r);
    assert_true(r.submits > 0 && r.fma_flops > 0 && r.copy_B_s > 0);
    kiln_free(&in[0]);
    kiln_free(&in[1]);
    kiln_device_close(&gpu);
}

// --- text

static void expect_text(const kiln_bench_result *r, const char *want)
{
    char *text = NULL;
    size_t size_B = 0;
    FILE *f = open_memstream(&text, &size_B);
    assert_int_equal(kiln_bench_print(r, f), KILN_OK);
    fclose(f);
    assert_string_equal(text, want);
    free(text);
}

static void texts(void **state)
{
    kiln_bench_result r = {.size = sizeof r,
                           .median_ns = 12345,
                           .min_ns = 999.4,
                           .p90_ns = 1234567,
                           .iqr_ns = 99.96,
                           .cpu_ns = 2.5,
                           .first_ns = 2.5e9,
                           .compile_ns = 2.4e9,
                           .runs = 17,
                           .launches = 2,
                           .submits = 1,
                           .waits = 1,
                           .flops = NAN,
                           .moved_B = NAN};
    const char *times = "median 12.3 us, min 999 ns, p90 1.23 ms, iqr 100 ns, of 17 calls\n"
                        "first call 2.50 s, of it 2.40 s capture and compilation\n"
                        "calling thread 2.50 ns; 2 launches, 1 submits, 1 waits a call\n";
    expect_text(&r, times);
    r.moved_B = 123450, r.copy_B_s = 20e9, r.memory_share = 0.5, r.flops = 1e6;
    char all[512];
    snprintf(all, sizeof all, "%s%s", times,
             "moves 123 kB: 10.0 GB/s, 50% of a copy, 20.0 GB/s\ncomputes 1.00 Mflop: 81.0 Gflop/s\n");
    expect_text(&r, all);
}

// --- errors

static void expect_error(kiln_status status, kiln_status want, const char *part)
{
    assert_int_equal(status, want);
    if (!strstr(kiln_error_message(), part)) fprintf(stderr, "no \"%s\" in %s\n", part, kiln_error_message());
    assert_non_null(strstr(kiln_error_message(), part));
    kiln_error_clear();
}

static kiln_status timing_inside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_bench_result r = {.size = sizeof r};
    out[0] = in[0];
    return kiln_bench_function(product, NULL, in, 1, 1, NULL, &r);
}

static void failures(void **state)
{
    struct sleeper s = {.fail_at = 3};
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), *none = NULL, *out;
    kiln_bench_result r = {.size = sizeof r, .runs = 99}, unset = {0};
    expect_error(kiln_bench_function(sleeping, &s, NULL, 0, 1, NULL, &r), KILN_E_STATE, "bench_function: fn failed");
    assert_int_equal(s.calls, 3);
    assert_int_equal(r.runs, 99);
    expect_error(kiln_bench_function(NULL, NULL, NULL, 0, 1, NULL, &r), KILN_E_ARGUMENT, "bench_function: fn is NULL");
    expect_error(kiln_bench_function(sleeping, &s, NULL, 1, 1, NULL, &r), KILN_E_ARGUMENT, "in is NULL");
    expect_error(kiln_bench_function(sleeping, &s, &none, 1, 1, NULL, &r), KILN_E_ARGUMENT, "input 0 is NULL");
    expect_error(kiln_bench_function(sleeping, &s, NULL, 0, 1, NULL, NULL), KILN_E_ARGUMENT, "out is NULL");
    expect_error(kiln_bench_function(sleeping, &s, NULL, 0, 1, NULL, &unset), KILN_E_ARGUMENT, "kiln_bench_result");
    expect_error(kiln_bench_captured(NULL, NULL, 0, 1, NULL, &r), KILN_E_ARGUMENT, "bench_captured: f is NULL");
    expect_error(kiln_bench_function(sleeping, &s, NULL, 0, 1, KILN_BENCH(.max_runs = -1), &r), KILN_E_ARGUMENT,
                 ".max_runs is -1");
    expect_error(kiln_bench_function(sleeping, &s, NULL, 0, 1, KILN_BENCH(.budget_s = -2), &r), KILN_E_ARGUMENT,
                 ".budget_s is -2");
    expect_error(kiln_bench_print(NULL, stdout), KILN_E_ARGUMENT, "bench_print: r is NULL");
    expect_error(kiln_bench_print(&r, NULL), KILN_E_ARGUMENT, "bench_print: f is NULL");
    kiln_function *f = kiln_jit(timing_inside, NULL, NULL);
    expect_error(kiln_call(f, &x, 1, &out, 1), KILN_E_STATE, "bench_function: is asked for inside of a capture");
    kiln_function_free(&f);
    assert_true(isnan(kiln_device_ceiling(dev, KILN_CEILING_READ, 0)));
    expect_error(kiln_error(), KILN_E_ARGUMENT, "device_ceiling: bytes is 0");
    assert_true(isnan(kiln_device_ceiling(dev, (kiln_ceiling)8, 1)));
    expect_error(kiln_error(), KILN_E_ARGUMENT, "device_ceiling: kind is 8");
    assert_true(isnan(kiln_device_ceiling(NULL, KILN_CEILING_FMA, 1)));
    expect_error(kiln_error(), KILN_E_ARGUMENT, "device_ceiling: dev is NULL");
}

// The function is left for good: nothing stays open, and the next one is timed.
static void left_functions(void **state)
{
    jmp_buf back;
    struct sleeper s = {.leave = &back};
    kiln_bench_result r = {.size = sizeof r};
    uint64_t before = tensors_alive();
    if (!setjmp(back)) {
        kiln_bench_function(sleeping, &s, NULL, 0, 1, NULL, &r);
        fail();
    }
    kiln_tensor *t = kiln_ones(dev, KILN_F32, KILN_SHAPE(2));
    assert_int_equal(tensors_alive(), before + 1);
    kiln_free(&t);
    s.leave = NULL;
    kiln_bench_function(sleeping, &s, NULL, 0, 1, KILN_BENCH(.budget_s = 0.001), &r);
    assert_int_equal(r.runs, 5);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(calls_are_counted),
        TEST(the_budget_bounds_calls),
        TEST(quantiles),
        TEST(captured_functions),
        TEST(pieces),
        TEST(ceilings_are_above),
        TEST(devices_of_vulkan),
        TEST(texts),
        TEST(failures),
        TEST(left_functions),
    };
    dev = kiln_device_open("cpu");
    if (!dev) return 1;
    kiln_set_device(dev);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    kiln_device_close(&dev);
    return failures != 0;
}
