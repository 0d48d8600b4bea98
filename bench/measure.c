// Medians of repeated calls, as peers/torch_rows.py takes them: a first call, three to warm up, one to estimate, then
// as many as fit the budget, 5 to 200. The library times them (kiln_bench_function).
#include "bench.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { WARM_UP = 3, MIN_RUNS = 5, MAX_RUNS = 200, ROUNDS = 3 };

double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

// Of one call more, without the wait at its end.
static void count_waste(struct state *s, struct row *out)
{
    kiln_device_stats before = {.size = sizeof before}, after = {.size = sizeof after}, end = {.size = sizeof end};
    kiln_tensor *results[STATE_OUTPUTS] = {NULL};
    kiln_scope *scope = kiln_scope_begin();
    kiln_device_get_stats(s->dev, &before);
    state_call(s, results);
    kiln_device_get_stats(s->dev, &after);
    kiln_scope_end(&scope);
    kiln_device_synchronize(s->dev);
    kiln_device_get_stats(s->dev, &end);
    out->idle_waits = (double)(after.idle_waits - before.idle_waits);
    out->wasted_launches = (double)(end.wasted_launches - before.wasted_launches);
}

static kiln_status call(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    return state_call(user, out);
}

static kiln_status time_calls(const struct plan *p, struct state *s, kiln_bench_result *r)
{
    const kiln_bench_opts *o = KILN_BENCH(.budget_s = p->budget_s, .warm_up = WARM_UP, .min_runs = MIN_RUNS,
                                          .max_runs = MAX_RUNS, .device = s->dev);
    return kiln_bench_function(call, s, NULL, 0, (size_t)state_outs(s), o, r);
}

static void repeat(const struct plan *p, struct state *s, struct row *out)
{
    kiln_bench_result r = {.size = sizeof r};
    if (time_calls(p, s, &r)) return;
    out->runs = (int)r.runs;
    out->first_ns = r.first_ns;
    out->time_ns = r.median_ns;
    out->min_ns = r.min_ns;
    out->p90_ns = r.p90_ns;
    out->launches = r.launches;
    out->submits = r.submits;
    out->waits = r.waits;
    count_waste(s, out);
    out->moved_B = moved_by_call(s);
    if (s->c->ops) out->cpu_ns = r.cpu_ns / (s->function ? r.launches : s->c->ops);
}

static void take_error(struct row *out)
{
    if (!kiln_error()) return;
    if (!out->error[0]) snprintf(out->error, sizeof out->error, "%s", kiln_error_message());
    kiln_error_clear();
}

// Of the program that ran.
static void take_cost(const struct state *s, struct row *out)
{
    kiln_cost cost = {.size = sizeof cost};
    if (kiln_function_cost(s->function, &cost)) return;
    out->kernels = (double)cost.kernels;
}

// What the ceiling limits.
static double limited(const struct bench_case *c, const struct row *r)
{
    if (r->ceiling == CEILING_LAUNCH) return c->ops;
    return r->ceiling >= CEILING_FMA ? r->flops : r->bytes;
}

void measure_case(const struct plan *p, kiln_device *dev, const struct bench_case *c, enum mode mode, struct row *out)
{
    struct state s;
    const struct sizes *z = bench_sizes(p->size);
    if (!state_begin(&s, dev, z, c, mode)) repeat(p, &s, out);
    if (mode == MODE_JIT && !kiln_error()) take_cost(&s, out);
    out->bytes = s.bytes;
    out->flops = s.flops;
    out->ceiling = ceiling_of(c);
    out->group = c->group;
    take_error(out);
    state_finish(&s);
    kiln_device_trim(dev);
    if (mode != MODE_EAGER && !out->error[0]) {
        check_values(dev, z, c, mode, out->error, sizeof out->error);
        take_error(out);
        kiln_device_trim(dev);
    }
    if (out->ceiling && !out->error[0]) out->ceiling_ns = ceiling_ns(dev, out->ceiling, limited(c, out));
    kiln_error_clear();
}

static double least_ns(const struct plan *p, kiln_device *dev, const struct bench_case *c, enum mode mode)
{
    struct state s;
    kiln_bench_result r = {.size = sizeof r, .min_ns = INFINITY};
    if (!state_begin(&s, dev, bench_sizes(p->size), c, mode)) time_calls(p, &s, &r);
    kiln_error_clear();
    state_finish(&s);
    kiln_device_trim(dev);
    return r.min_ns;
}

// Of the least times: those so far, and those of more runs of each in turns, for a machine's speed changes between one
// run and the next.
static double beside_eager(const struct plan *p, kiln_device *dev, const struct bench_case *c, enum mode mode,
                           double least, double eager_least)
{
    for (int i = 0; i < ROUNDS; i++) {
        eager_least = fmin(eager_least, least_ns(p, dev, c, MODE_EAGER));
        least = fmin(least, least_ns(p, dev, c, mode));
    }
    return least / eager_least;
}

// What a captured case may take beside an eager one.
static const double allowed[MODE_COUNT] = {[MODE_JIT] = 1.03, [MODE_AUTO] = 1.10};

void mark_slower(const struct plan *p, kiln_device *dev, const struct bench_case *c, enum mode mode,
                 const struct row *eager, struct row *r)
{
    if (r->error[0] || !(r->time_ns > allowed[mode] * eager->time_ns)) return;
    double ratio = beside_eager(p, dev, c, mode, r->min_ns, eager->min_ns);
    if (ratio > allowed[mode]) r->slower = ratio;
}
