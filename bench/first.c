// First calls of captured functions in new processes: of a chain, of a recurrent network that the host unrolls with its
// gradients, of graphs of many nodes; and the first step of training from the start of the process.
#include "bench.h"

#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLD_RUNS = 15, FIRST_ELEMENTS = 4096, SIDE = 32 };

// So many nodes, some of which fuse.
static kiln_status setup_nodes(struct state *s)
{
    for (int i = 0; i < 2; i++) own_input(s, i, kiln_uniform(s->dev, KILN_F32, KILN_SHAPE(SIDE, SIDE), -0.1, 0.1));
    return kiln_error();
}

static kiln_status run_nodes(struct state *s, kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x = in[0];
    for (int64_t i = 0; i < s->c->sizes[0]; i++) {
        if (i % 32 == 31)
            x = kiln_softmax(x, -1);
        else if (i % 8 == 7)
            x = kiln_matmul(x, in[1]);
        else
            x = i % 2 ? kiln_add(x, in[0]) : kiln_mul(x, in[1]);
    }
    out[0] = x;
    return kiln_error();
}

static const struct bench_case graphs[] = {
    {.name = "compile_1000", .setup = setup_nodes, .run = run_nodes, .sizes = {1000}},
    {.name = "compile_4000", .setup = setup_nodes, .run = run_nodes, .sizes = {4000}},
    {.name = "unrolled_16", .setup = setup_unrolled, .run = run_unrolled, .sizes = {16}},
    {.name = "unrolled_64", .setup = setup_unrolled, .run = run_unrolled, .sizes = {64}},
    {.name = "parameters_500", .setup = setup_deep, .run = run_regression_step, .sizes = {500}},
    {.name = "parameters_2000", .setup = setup_deep, .run = run_regression_step, .sizes = {2000}}};
static const char *const first_names[FIRST_KINDS] = {"chain5", "rnn_64", "compile_1000", "compile_4000"};

static const struct bench_case *case_named(const char *name)
{
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++)
        if (!strcmp(graphs[i].name, name)) return &graphs[i];
    return case_of(name);
}

static void ignore(void *user, const char *message)
{
    (void)user, (void)message;
}

static double driver_time(kiln_device *dev)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    return (double)stats.pipeline_ns;
}

// Writes a struct first_call.
int first_call_child(const char *device, const char *name)
{
    struct sizes few = *bench_sizes("small");
    static float values[FIRST_ELEMENTS];
    struct state s;
    kiln_device *dev = kiln_device_open(device);
    kiln_tensor *out[STATE_OUTPUTS] = {NULL};
    few.n = FIRST_ELEMENTS;
    kiln_set_log(ignore, NULL); // that a loop of the host was unrolled: it was meant
    state_begin(&s, dev, &few, case_named(name), MODE_JIT);
    kiln_device_synchronize(dev);
    kiln_scope *scope = kiln_scope_begin();
    double t0 = now_ns(), driver_ns = dev ? driver_time(dev) : 0;
    state_call(&s, out);
    kiln_read(out[0], values, (size_t)kiln_numel(out[0]) * sizeof *values);
    struct first_call call = {.time_ns = now_ns() - t0};
    call.driver_ns = dev ? driver_time(dev) - driver_ns : 0;
    bool ok = !kiln_error() && isfinite(values[0]) && write(STDOUT_FILENO, &call, sizeof call) == sizeof call;
    if (kiln_error()) fprintf(stderr, "kiln-bench: %s\n", kiln_error_message());
    kiln_scope_end(&scope);
    state_finish(&s);
    kiln_device_close(&dev);
    return ok ? 0 : 1;
}

static bool first_call_once(const struct plan *p, int kind, const char *cache, struct first_call *out)
{
    const char *arguments[] = {
        "kiln-bench", "--first-child", first_names[kind], p->device ? "--device" : NULL, p->device, NULL};
    double time_ns;
    return run_child(arguments, cache, out, sizeof *out, &time_ns);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

typedef bool call_fn(const struct plan *p, int kind, const char *cache, struct first_call *out);

// The calls with a cache folder of their own, which goes afterwards.
static bool calls_of(const struct plan *p, call_fn *once, int kind, int n, struct first_call *calls)
{
    const char *temporary = getenv("TMPDIR");
    char folder[512];
    snprintf(folder, sizeof folder, "%s/kiln-bench-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return false;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) ok = once(p, kind, folder, &calls[i]);
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return ok;
}

static void take_calls(const struct first_call *calls, struct row *out)
{
    double times[COLD_RUNS], driver[COLD_RUNS];
    out->first_ns = calls[0].time_ns;
    for (int i = 0; i < COLD_RUNS; i++) {
        times[i] = calls[i + 1].time_ns;
        driver[i] = calls[i + 1].driver_ns;
    }
    take_times(out, times, COLD_RUNS);
    sort_times(driver, COLD_RUNS);
    if (driver[COLD_RUNS - 1] > 0) out->driver_ns = driver[COLD_RUNS / 2];
}

void measure_first_call(const struct plan *p, kiln_device *dev, int kind, struct row *out)
{
    bool warm = kind >= FIRST_WARM;
    kind %= FIRST_WARM;
    struct first_call calls[COLD_RUNS + 1];
    bool ok = true;
    if (warm)
        ok = calls_of(p, first_call_once, kind, COLD_RUNS + 1, calls);
    else
        for (int i = 0; i <= COLD_RUNS && ok; i++) ok = calls_of(p, first_call_once, kind, 1, &calls[i]);
    if (ok)
        take_calls(calls, out);
    else
        snprintf(out->error, sizeof out->error, "the new process gave no result");
}

// --- the first step of training in a process: all of it, from fork to the loss

int warm_gpt_child(const struct plan *p)
{
    struct state s;
    kiln_device *dev = kiln_device_open(p->device);
    kiln_tensor *loss = NULL;
    kiln_seed(dev, 0);
    state_begin(&s, dev, bench_sizes(p->size), case_named("gpt_step"), MODE_JIT);
    kiln_scope *scope = kiln_scope_begin();
    state_call(&s, &loss);
    double value = kiln_item(loss);
    kiln_device_synchronize(dev);
    bool ok = !kiln_error() && isfinite(value) && write(STDOUT_FILENO, &value, sizeof value) == sizeof value;
    if (kiln_error()) fprintf(stderr, "kiln-bench: %s\n", kiln_error_message());
    kiln_scope_end(&scope);
    state_finish(&s);
    kiln_device_close(&dev);
    return ok ? 0 : 1;
}

static bool warm_gpt_once(const struct plan *p, int kind, const char *cache, struct first_call *out)
{
    const char *arguments[8] = {"kiln-bench", "--size", p->size};
    int n = 3;
    if (p->device) {
        arguments[n++] = "--device";
        arguments[n++] = p->device;
    }
    arguments[n] = "--gpt-child";
    double loss;
    *out = (struct first_call){0};
    return run_child(arguments, cache, &loss, sizeof loss, &out->time_ns);
}

void measure_warm_gpt(const struct plan *p, kiln_device *dev, int kind, struct row *out)
{
    struct first_call calls[COLD_RUNS + 1];
    if (calls_of(p, warm_gpt_once, 0, COLD_RUNS + 1, calls))
        take_calls(calls, out);
    else
        snprintf(out->error, sizeof out->error, "the new process gave no result");
}
