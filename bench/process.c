// Rows about the process: how long a cold one takes to its first result, and whether memory grows over many steps.
#include "bench.h"

#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COLD_RUNS      15
#define FIRST_ELEMENTS 4096

// --- cold start: this program again, from fork to the first result of an op on the CPU

int cold_child(void)
{
    const float a[] = {1, 2, 3}, b[] = {4, 5, 6};
    float sum[3] = {0};
    kiln_device *dev = kiln_device_open("cpu");
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(3), a);
    kiln_read(kiln_add(x, kiln_from_data(dev, KILN_F32, KILN_SHAPE(3), b)), sum, sizeof sum);
    char answer = sum[0] == 5 && sum[1] == 7 && sum[2] == 9 ? 'y' : 'n';
    bool told = write(STDOUT_FILENO, &answer, 1) == 1;
    kiln_scope_end(&scope);
    kiln_device_close(&dev);
    return told && answer == 'y' ? 0 : 1;
}

// This program again, with a cache folder of its own unless that is NULL: what it tells, and the time from fork until
// it is told. False when it told nothing, or failed.
static bool run_child(const char *const *arguments, const char *cache, void *told, size_t told_B, double *time_ns)
{
    int ends[2];
    if (pipe(ends)) return false;
    double t0 = now_ns();
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (cache) setenv("KILN_CACHE_DIR", cache, 1);
        execv("/proc/self/exe", (char *const *)arguments);
        _exit(127);
    }
    close(ends[1]);
    bool ok = child > 0 && read(ends[0], told, told_B) == (ssize_t)told_B;
    *time_ns = now_ns() - t0;
    close(ends[0]);
    int status = 1;
    if (child > 0) waitpid(child, &status, 0);
    return ok && status == 0;
}

static double cold_once(void)
{
    const char *const arguments[] = {"kiln-bench", "--cold-child", NULL};
    char answer = 0;
    double time_ns;
    return run_child(arguments, NULL, &answer, 1, &time_ns) && answer == 'y' ? time_ns : -1;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void take_times(struct row *out, double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, by_value);
    out->runs = n;
    out->time_ns = times[n / 2];
    out->min_ns = times[0];
    out->p90_ns = times[(int)(0.9 * (n - 1))];
}

void measure_cold_start(struct row *out)
{
    double times[COLD_RUNS];
    out->first_ns = cold_once();
    for (int i = 0; i < COLD_RUNS; i++) {
        times[i] = cold_once();
        if (times[i] < 0) {
            snprintf(out->error, sizeof out->error, "the new process gave no result");
            return;
        }
    }
    take_times(out, times, COLD_RUNS);
}

// --- the first call of a captured function in a process

static const struct bench_case *case_named(const char *name)
{
    for (int i = 0; i < bench_case_count; i++)
        if (!strcmp(bench_cases[i].name, name)) return &bench_cases[i];
    return NULL;
}

struct first_call {
    double time_ns, driver_ns;
};

static double driver_time(kiln_device *dev)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_get_stats(dev, &stats);
    return (double)stats.pipeline_ns;
}

// Writes a struct first_call.
int first_call_child(const char *device)
{
    static const struct sizes few = {.n = FIRST_ELEMENTS};
    static float values[FIRST_ELEMENTS];
    struct state s;
    kiln_device *dev = kiln_device_open(*device ? device : NULL);
    kiln_tensor *out = NULL;
    state_begin(&s, dev, &few, case_named("chain5"), MODE_JIT);
    kiln_device_synchronize(dev);
    kiln_scope *scope = kiln_scope_begin();
    double t0 = now_ns(), driver_ns = dev ? driver_time(dev) : 0;
    state_call(&s, &out);
    kiln_read(out, values, sizeof values);
    struct first_call call = {.time_ns = now_ns() - t0};
    call.driver_ns = dev ? driver_time(dev) - driver_ns : 0;
    bool ok = !kiln_error() && isfinite(values[0]) && write(STDOUT_FILENO, &call, sizeof call) == sizeof call;
    if (kiln_error()) fprintf(stderr, "kiln-bench: %s\n", kiln_error_message());
    kiln_scope_end(&scope);
    state_finish(&s);
    kiln_device_close(&dev);
    return ok ? 0 : 1;
}

static bool first_call_once(const struct plan *p, const char *cache, struct first_call *out)
{
    const char *const arguments[] = {"kiln-bench", "--first-child", p->device ? p->device : "", NULL};
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

typedef bool call_fn(const struct plan *p, const char *cache, struct first_call *out);

// The calls with a cache folder of their own, which goes afterwards.
static bool calls_of(const struct plan *p, call_fn *once, int n, struct first_call *calls)
{
    const char *temporary = getenv("TMPDIR");
    char folder[512];
    snprintf(folder, sizeof folder, "%s/kiln-bench-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return false;
    bool ok = true;
    for (int i = 0; i < n && ok; i++) ok = once(p, folder, &calls[i]);
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
    qsort(driver, COLD_RUNS, sizeof *driver, by_value);
    if (driver[COLD_RUNS - 1] > 0) out->driver_ns = driver[COLD_RUNS / 2];
}

void measure_first_call(const struct plan *p, bool warm, struct row *out)
{
    struct first_call calls[COLD_RUNS + 1];
    bool ok = true;
    if (warm)
        ok = calls_of(p, first_call_once, COLD_RUNS + 1, calls);
    else
        for (int i = 0; i <= COLD_RUNS && ok; i++) ok = calls_of(p, first_call_once, 1, &calls[i]);
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

static bool warm_gpt_once(const struct plan *p, const char *cache, struct first_call *out)
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

void measure_warm_gpt(const struct plan *p, struct row *out)
{
    struct first_call calls[COLD_RUNS + 1];
    if (calls_of(p, warm_gpt_once, COLD_RUNS + 1, calls))
        take_calls(calls, out);
    else
        snprintf(out->error, sizeof out->error, "the new process gave no result");
}

// --- memory: figures of the heap after 100 steps of training, and after 10,000

const char *const memory_keys[6] = {"heap_used_B_100",   "heap_reserved_B_100",   "heap_allocs_100",
                                    "heap_used_B_10000", "heap_reserved_B_10000", "heap_allocs_10000"};

static void take_figures(kiln_device *dev, double *out)
{
    kiln_device_stats stats = {.size = sizeof stats};
    kiln_device_synchronize(dev);
    kiln_device_get_stats(dev, &stats);
    out[0] = (double)stats.heap_used_B;
    out[1] = (double)stats.heap_reserved_B;
    out[2] = (double)stats.heap_allocs;
}

static void steps(struct state *s, int n)
{
    for (int i = 0; i < n && !kiln_error(); i++) {
        kiln_tensor *loss = NULL;
        kiln_scope *scope = kiln_scope_begin();
        run_step(s, s->in, &loss);
        kiln_scope_end(&scope);
    }
}

void measure_memory(const struct plan *p, kiln_device *dev, struct row *out)
{
    struct state s = {.dev = dev, .z = bench_sizes(p->size)};
    kiln_scope *scope = kiln_scope_begin();
    kiln_status status = setup_small_net(&s);
    kiln_scope_end(&scope);
    if (!status) {
        double t0 = now_ns();
        steps(&s, 1);
        out->first_ns = now_ns() - t0;
        steps(&s, 99);
        take_figures(dev, out->extra);
        t0 = now_ns();
        steps(&s, 9900);
        take_figures(dev, out->extra + 3);
        out->time_ns = out->min_ns = out->p90_ns = (now_ns() - t0) / 9900;
        out->runs = 9900;
        out->has_extra = true;
    }
    if (kiln_error()) {
        snprintf(out->error, sizeof out->error, "%s", kiln_error_message());
        kiln_error_clear();
    }
    state_finish(&s);
}
