// Times of repeated calls.
//
// A first call; a few to warm up; one to estimate; then as many as fit the budget. What a call makes is freed within
// its time. On a GPU the time is the device's own between two marks, and nothing else runs between repetitions;
// elsewhere it is the host's, and ends when the device has nothing left to do.
#include "base/clock.h"
#include "base/handles.h"
#include "base/leave.h"
#include "base/options.h"
#include "jit/measured.h"
#include "timing/timing.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RUNS = 1000000 };

struct bench {
    const char *function; // in messages
    kiln_fn fn;           // or `captured`
    void *user;
    kiln_function *captured, *made; // made: to be freed
    kiln_tensor *const *in;
    size_t n_in, n_out;
    kiln_tensor **out;
    kiln_bench_opts o;
    kiln_device *dev;
    double *times, *cpu;
    kiln_bench_result r;
};

struct sample {
    double time_ns, cpu_ns;
};

static double thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void call(struct bench *b)
{
    kiln_status status = b->captured ? kiln_call(b->captured, b->in, b->n_in, b->out, b->n_out)
                                     : b->fn(b->user, b->in, b->n_in, b->out, b->n_out);
    if (status && !kiln_error()) error_set(status, "%s: fn failed with %s", b->function, kiln_status_name(status));
}

static struct sample once(struct bench *b)
{
    if (b->r.device_clock) kiln_device_mark(b->dev, 0);
    uint64_t t0 = clock_now_ns();
    double cpu0 = thread_ns();
    kiln_scope *scope = kiln_scope_begin();
    if (scope) call(b);
    kiln_scope_end(&scope);
    struct sample s = {.cpu_ns = thread_ns() - cpu0};
    if (b->r.device_clock) kiln_device_mark(b->dev, 1);
    if (!b->r.device_clock) kiln_device_synchronize(b->dev);
    s.time_ns = b->r.device_clock ? kiln_device_elapsed(b->dev, 0, 1) : (double)(clock_now_ns() - t0);
    return s;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sort_median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double quantile(const double *sorted, size_t n, double q)
{
    return sorted[(size_t)(q * (double)(n - 1))];
}

static size_t runs_for(const struct bench *b, double estimate_ns)
{
    double n = b->o.budget_s * 1e9 / (estimate_ns > 1 ? estimate_ns : 1);
    return n < (double)b->o.min_runs   ? (size_t)b->o.min_runs
           : n > (double)b->o.max_runs ? (size_t)b->o.max_runs
                                       : (size_t)n;
}

static void take_times(struct bench *b, size_t n)
{
    b->r.runs = n;
    b->r.median_ns = sort_median(b->times, n);
    b->r.cpu_ns = sort_median(b->cpu, n);
    b->r.min_ns = b->times[0];
    b->r.p90_ns = quantile(b->times, n, 0.9);
    b->r.iqr_ns = quantile(b->times, n, 0.75) - quantile(b->times, n, 0.25);
}

// The estimate may have been wrong: where calls take twice the budget, those at least are enough.
static void repeat(struct bench *b, size_t n)
{
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    uint64_t start = clock_now_ns();
    size_t i = 0;
    kiln_device_get_stats(b->dev, &before);
    for (; i < n && !kiln_error(); i++) {
        if (i >= (size_t)b->o.min_runs && (double)(clock_now_ns() - start) > 2e9 * b->o.budget_s) break;
        struct sample s = once(b);
        b->times[i] = s.time_ns;
        b->cpu[i] = s.cpu_ns;
    }
    if (kiln_error()) return;
    kiln_device_get_stats(b->dev, &after);
    b->r.launches = (double)(after.launches - before.launches) / (double)i;
    b->r.submits = (double)(after.submits - before.submits) / (double)i;
    b->r.waits = (double)(after.waits - before.waits) / (double)i;
    take_times(b, i);
}

static uint64_t captures_of(const struct bench *b)
{
    kiln_jit_stats s = {.size = sizeof s};
    if (b->captured) kiln_function_stats(b->captured, &s);
    return b->captured ? s.captures : 0;
}

static void measure(void *at)
{
    struct bench *b = at;
    uint64_t captures = captures_of(b), t0;
    kiln_device_synchronize(b->dev);
    t0 = clock_now_ns();
    once(b);
    if (b->r.device_clock) kiln_device_synchronize(b->dev);
    b->r.first_ns = (double)(clock_now_ns() - t0);
    bool captured = captures_of(b) > captures;
    t0 = clock_now_ns();
    for (int64_t i = 0; i < b->o.warm_up && !kiln_error(); i++) {
        once(b);
        if ((double)(clock_now_ns() - t0) > 1e9 * b->o.budget_s) break;
    }
    double estimate_ns = kiln_error() ? 0 : once(b).time_ns;
    if (!kiln_error()) repeat(b, runs_for(b, estimate_ns));
    b->r.compile_ns = captured ? fmax(b->r.first_ns - b->r.median_ns, 0) : 0;
}

// Where it is captured in pieces, what they cost together is not known.
static void take_cost(struct bench *b)
{
    kiln_cost cost = {.size = sizeof cost};
    if (!b->captured) return;
    if (kiln_function_cost(b->captured, &cost)) {
        kiln_error_clear();
        return;
    }
    b->r.flops = cost.flops;
    b->r.moved_B = cost.moved_B;
    if (b->o.no_ceilings) return;
    if (cost.moved_B > 0) {
        b->r.copy_B_s = kiln_device_ceiling(b->dev, KILN_CEILING_COPY, cost.moved_B);
        b->r.memory_share = 1e9 * cost.moved_B / b->r.copy_B_s / b->r.median_ns;
    }
    if (cost.flops > 0) {
        b->r.fma_flops = kiln_device_ceiling(b->dev, KILN_CEILING_FMA, 0);
        b->r.flops_share = 1e9 * cost.flops / b->r.fma_flops / b->r.median_ns;
    }
}

// --- what is asked for

static kiln_status check_number(const struct bench *b, const char *name, int64_t v, int64_t least, int64_t most)
{
    if (v >= least && v <= most) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: .%s is %" PRId64 ", not from %" PRId64 " to %" PRId64, b->function, name, v,
                     least, most);
}

static kiln_status read_options(struct bench *b, const kiln_bench_opts *opts)
{
    kiln_bench_opts *o = &b->o;
    TRY(options_read(b->function, KILN_BENCH, o, opts));
    TRY(check_number(b, "warm_up", o->warm_up, -1, MOST_RUNS));
    TRY(check_number(b, "min_runs", o->min_runs, 0, MOST_RUNS));
    TRY(check_number(b, "max_runs", o->max_runs, 0, MOST_RUNS));
    if (!(o->budget_s >= 0 && o->budget_s < INFINITY))
        return error_set(KILN_E_ARGUMENT, "%s: .budget_s is %g, not over 0", b->function, o->budget_s);
    if (!o->budget_s) o->budget_s = 1;
    if (!o->warm_up) o->warm_up = 3;
    if (!o->min_runs) o->min_runs = 5;
    if (!o->max_runs) o->max_runs = 10000;
    if (o->max_runs < o->min_runs) o->max_runs = o->min_runs;
    return KILN_OK;
}

static kiln_status find_device(struct bench *b)
{
    if (b->o.device) TRY(handle_check(b->function, ".device", HANDLE_DEVICE, b->o.device));
    b->dev = b->o.device;
    for (size_t i = 0; i < b->n_in; i++) {
        kiln_device *dev = b->in[i] ? kiln_tensor_device(b->in[i]) : NULL;
        if (!b->in[i]) return error_set(KILN_E_ARGUMENT, "%s: input %zu is NULL", b->function, i);
        if (kiln_error()) return kiln_error();
        if (!b->dev) b->dev = dev;
    }
    if (!b->dev) b->dev = kiln_get_device();
    return kiln_error();
}

static kiln_status check(struct bench *b, const kiln_bench_opts *opts, const kiln_bench_result *out)
{
    TRY(sized_check_as(b->function, "out", "kiln_bench_result", out));
    TRY(read_options(b, opts));
    if (b->n_in && !b->in) return error_set(KILN_E_ARGUMENT, "%s: in is NULL", b->function);
    if (kiln_is_capturing()) return error_set(KILN_E_STATE, "%s: is asked for inside of a capture", b->function);
    return find_device(b);
}

static kiln_status make_room(struct bench *b)
{
    size_t n = (size_t)b->o.max_runs;
    b->times = calloc(2 * n, sizeof *b->times);
    b->cpu = b->times + n;
    b->out = calloc(b->n_out + 1, sizeof(kiln_tensor *));
    return b->times && b->out ? KILN_OK : error_set(KILN_E_MEMORY, "%s: host memory is exhausted", b->function);
}

static void finish(void *at)
{
    struct bench *b = at;
    kiln_function_free(&b->made);
    free(b->times);
    free(b->out);
}

static kiln_status run(struct bench *b, const kiln_bench_opts *opts, kiln_bench_result *out)
{
    struct leave left;
    TRY(check(b, opts, out));
    b->r = (kiln_bench_result){.flops = NAN,
                               .moved_B = NAN,
                               .copy_B_s = NAN,
                               .fma_flops = NAN,
                               .memory_share = NAN,
                               .flops_share = NAN,
                               .device_clock = timing_has_clock(b->dev)};
    if (b->fn && b->o.jit) b->captured = b->made = kiln_jit(b->fn, b->user, NULL);
    kiln_status status = kiln_error() ? kiln_error() : make_room(b);
    leave_push(&left, finish, b);
    if (!status) leave_call(measure, b);
    leave_pop(&left);
    if (!kiln_error() && b->captured) function_note_time(b->captured, b->r.median_ns, b->r.runs);
    if (!kiln_error()) take_cost(b);
    finish(b);
    if (!kiln_error()) sized_fill(out, &b->r, sizeof b->r);
    return kiln_error();
}

kiln_status kiln_bench_function(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, size_t n_out,
                                const kiln_bench_opts *opts, kiln_bench_result *out)
{
    struct bench b = {.function = "bench_function", .fn = fn, .user = user, .in = in, .n_in = n_in, .n_out = n_out};
    if (kiln_error()) return kiln_error();
    if (!fn) return error_set(KILN_E_ARGUMENT, "bench_function: fn is NULL");
    return run(&b, opts, out);
}

kiln_status kiln_bench_captured(kiln_function *f, kiln_tensor *const *in, size_t n_in, size_t n_out,
                                const kiln_bench_opts *opts, kiln_bench_result *out)
{
    struct bench b = {.function = "bench_captured", .captured = f, .in = in, .n_in = n_in, .n_out = n_out};
    if (kiln_error()) return kiln_error();
    TRY(handle_check("bench_captured", "f", HANDLE_FUNCTION, f));
    return run(&b, opts, out);
}
