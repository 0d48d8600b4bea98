// Rows about the process: how long a cold one takes to its first result, and whether memory grows over many steps.
#include "bench.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COLD_RUNS 15

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

bool run_child(const char *const *arguments, const char *cache, void *told, size_t told_B, double *time_ns)
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

void sort_times(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, by_value);
}

void take_times(struct row *out, double *times, int n)
{
    sort_times(times, n);
    out->runs = n;
    out->time_ns = times[n / 2];
    out->min_ns = times[0];
    out->p90_ns = times[(int)(0.9 * (n - 1))];
}

void measure_cold_start(const struct plan *p, kiln_device *dev, int kind, struct row *out)
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

void measure_memory(const struct plan *p, kiln_device *dev, int kind, struct row *out)
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

const struct process_row process_rows[] = {
    {"train_10000", "eager", measure_memory, 0, MODE_EAGER, .on_request = true},
    {"cold_start", "eager", measure_cold_start, 0, MODE_EAGER, .cpu_alone = true},
    {"first_call", "cold", measure_first_call, FIRST_CHAIN, MODE_JIT},
    {"first_call", "warm", measure_first_call, FIRST_CHAIN + FIRST_WARM, MODE_JIT},
    {"first_rnn", "cold", measure_first_call, FIRST_RNN, MODE_JIT},
    {"first_rnn", "warm", measure_first_call, FIRST_RNN + FIRST_WARM, MODE_JIT},
    {"compile_1000", "cold", measure_first_call, FIRST_1000, MODE_JIT},
    {"compile_1000", "warm", measure_first_call, FIRST_1000 + FIRST_WARM, MODE_JIT},
    {"compile_4000", "cold", measure_first_call, FIRST_4000, MODE_JIT},
    {"compile_4000", "warm", measure_first_call, FIRST_4000 + FIRST_WARM, MODE_JIT},
    {"warm_gpt", "jit", measure_warm_gpt, 0, MODE_JIT},
    {"import_100mb", "eager", measure_import, 0, MODE_EAGER},
    {"busy_step", "jit", measure_busy, 0, MODE_JIT, .cpu_alone = true},
    {"new_shape", "softmax", measure_shapes, SHAPES_ROWS, MODE_JIT},
    {"new_shape", "gpt_step", measure_shapes, SHAPES_TRAINING, MODE_JIT},
    {"resnet_sizes", "jit", measure_shapes, SHAPES_IMAGES, MODE_JIT},
};
const int process_row_count = sizeof process_rows / sizeof process_rows[0];
