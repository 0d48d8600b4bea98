// Medians of repeated calls, as peers/torch_rows.py takes them: a first call, three to warm up, one to estimate, then
// as many as fit the budget, 5 to 200. What a call makes is freed within its time. On a GPU the time is the device's
// own between two marks, and nothing else runs between repetitions; elsewhere it is the host's, and ends when the
// device has nothing left to do.
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_UP  3
#define MIN_RUNS 5
#define MAX_RUNS 200

static double clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

double now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

struct sample {
    double time_ns, cpu_ns;
};

static struct sample once(struct state *s)
{
    if (s->device_clock) kiln_device_mark(s->dev, 0);
    double t0 = now_ns(), cpu0 = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    kiln_tensor *result = NULL;
    kiln_scope *scope = kiln_scope_begin();
    state_call(s, &result);
    kiln_scope_end(&scope);
    double cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu0;
    if (s->device_clock) {
        kiln_device_mark(s->dev, 1);
        return (struct sample){.time_ns = kiln_device_elapsed(s->dev, 0, 1), .cpu_ns = cpu_ns};
    }
    kiln_device_synchronize(s->dev);
    return (struct sample){.time_ns = now_ns() - t0, .cpu_ns = cpu_ns};
}

// True on a GPU whose clock answers.
bool has_device_clock(kiln_device *dev)
{
    kiln_device_info info = {.size = sizeof info};
    if (kiln_device_get_info(dev, &info) || strcmp(info.kind, "vulkan") || info.software) return false;
    bool works = !kiln_device_mark(dev, 0) && !kiln_device_mark(dev, 1) && kiln_device_elapsed(dev, 0, 1) >= 0;
    kiln_error_clear();
    return works;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int runs_for(const struct plan *p, double estimate_ns)
{
    double n = p->budget_s * 1e9 / (estimate_ns > 1 ? estimate_ns : 1);
    return n < MIN_RUNS ? MIN_RUNS : n > MAX_RUNS ? MAX_RUNS : (int)n;
}

// Of one call more, without the wait at its end.
static void count_waste(struct state *s, struct row *out)
{
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after}, end = {.size = sizeof end};
    kiln_tensor *result = NULL;
    kiln_scope *scope = kiln_scope_begin();
    kiln_device_get_stats(s->dev, &before);
    state_call(s, &result);
    kiln_device_get_stats(s->dev, &after);
    kiln_scope_end(&scope);
    kiln_device_synchronize(s->dev);
    kiln_device_get_stats(s->dev, &end);
    out->idle_waits = (double)(after.idle_waits - before.idle_waits);
    out->wasted_launches = (double)(end.wasted_launches - before.wasted_launches);
}

static void repeat(const struct plan *p, struct state *s, struct row *out)
{
    double times[MAX_RUNS], cpu[MAX_RUNS];
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    double t0 = now_ns();
    once(s);
    out->first_ns = now_ns() - t0;
    for (int i = 0; i < WARM_UP && !kiln_error(); i++) once(s);
    int n = runs_for(p, once(s).time_ns);
    kiln_device_get_stats(s->dev, &before);
    for (int i = 0; i < n && !kiln_error(); i++) {
        struct sample t = once(s);
        times[i] = t.time_ns;
        cpu[i] = t.cpu_ns;
    }
    if (kiln_error()) return;
    kiln_device_get_stats(s->dev, &after);
    out->runs = n;
    out->time_ns = median(times, n);
    out->min_ns = times[0];
    out->p90_ns = times[(int)(0.9 * (n - 1))];
    out->launches = (double)(after.launches - before.launches) / n;
    out->submits = (double)(after.submits - before.submits) / n;
    out->waits = (double)(after.waits - before.waits) / n;
    count_waste(s, out);
    if (s->c->ops) out->cpu_ns = median(cpu, n) / (s->function ? out->launches : s->c->ops);
}

static void take_error(struct row *out)
{
    if (!kiln_error()) return;
    if (!out->error[0]) snprintf(out->error, sizeof out->error, "%s", kiln_error_message());
    kiln_error_clear();
}

void measure_case(const struct plan *p, kiln_device *dev, const struct bench_case *c, enum mode mode, struct row *out)
{
    struct state s;
    const struct sizes *z = bench_sizes(p->size);
    if (!state_begin(&s, dev, z, c, mode)) repeat(p, &s, out);
    out->bytes = s.bytes;
    out->flops = s.flops;
    out->ceiling = c->ceiling;
    take_error(out);
    state_finish(&s);
    kiln_device_trim(dev);
    if (mode == MODE_JIT && !out->error[0]) {
        check_values(dev, z, c, out->error, sizeof out->error);
        take_error(out);
        kiln_device_trim(dev);
    }
    if (out->ceiling && !out->error[0]) out->ceiling_ns = ceiling_ns(dev, out->ceiling, out->bytes);
    kiln_error_clear();
}
