// Reading a file of graphs with 100 MB of weights, which the system has in memory. Beside it, as the ceiling, what
// read() takes for the same bytes.
#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WEIGHTS = 8, ROWS = 1280, COLUMNS = 2560, MAX_RUNS = 200, LEAST_RUNS = 5, LARGEST_B = 110 << 20 };

struct files {
    kiln_device *dev;
    kiln_tensor *weights[WEIGHTS];
    char path[256], *room;
    size_t size_B;
};

static kiln_status sum_all(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct files *z = user;
    out[0] = in[0];
    for (int i = 0; i < WEIGHTS; i++) out[0] = kiln_add(out[0], kiln_sum(z->weights[i], NULL));
    return kiln_error();
}

static void write_model(struct files *z)
{
    kiln_tensor *x = kiln_zeros(z->dev, KILN_F32, KILN_SHAPE0);
    for (int i = 0; i < WEIGHTS; i++)
        z->weights[i] = kiln_parameter(kiln_uniform(z->dev, KILN_F32, KILN_SHAPE(ROWS, COLUMNS), -1, 1), "w");
    kiln_function *f = kiln_jit(sum_all, z, NULL);
    kiln_no_grad_begin();
    kiln_graph_export(f, &x, 1, 1, z->path, NULL);
    kiln_no_grad_end();
    kiln_function_free(&f);
}

static double read_ns(struct files *z)
{
    double from = now_ns();
    int fd = open(z->path, O_RDONLY);
    ssize_t n = 1;
    for (z->size_B = 0; fd >= 0 && n > 0; z->size_B += n > 0 ? (size_t)n : 0)
        n = read(fd, z->room + z->size_B, LARGEST_B - z->size_B);
    if (fd >= 0) close(fd);
    return now_ns() - from;
}

static double import_ns(struct files *z)
{
    double from = now_ns();
    kiln_model *m = kiln_graph_import(z->dev, z->path);
    kiln_device_synchronize(z->dev);
    double took = now_ns() - from;
    kiln_model_free(&m);
    return took;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const struct plan *p, struct files *z, struct row *out)
{
    double times[MAX_RUNS], reads[MAX_RUNS], end = now_ns() + 1e9 * p->budget_s;
    int n = 0;
    out->first_ns = import_ns(z); // pages of the file and of memory are taken
    for (; n < MAX_RUNS && (n < LEAST_RUNS || now_ns() < end) && !kiln_error(); n++) {
        reads[n] = read_ns(z);
        times[n] = import_ns(z);
    }
    if (kiln_error()) return;
    qsort(times, (size_t)n, sizeof *times, by_value);
    qsort(reads, (size_t)n, sizeof *reads, by_value);
    out->runs = n;
    out->time_ns = times[n / 2];
    out->min_ns = times[0];
    out->p90_ns = times[(int)(0.9 * (n - 1))];
    out->bytes = (double)z->size_B;
    out->ceiling = CEILING_COPY;
    out->ceiling_ns = reads[n / 2];
}

void measure_import(const struct plan *p, kiln_device *dev, int kind, struct row *out)
{
    const char *folder = getenv("TMPDIR");
    struct files z = {.dev = dev, .room = malloc(LARGEST_B)};
    snprintf(z.path, sizeof z.path, "%.200s/kiln-bench-%d.kiln", folder ? folder : "/tmp", (int)getpid());
    if (!z.room) {
        snprintf(out->error, sizeof out->error, "out of memory");
        return;
    }
    memset(z.room, 1, LARGEST_B);
    kiln_scope *scope = kiln_scope_begin();
    write_model(&z);
    kiln_scope_end(&scope);
    if (!kiln_error()) measure(p, &z, out);
    if (kiln_error()) snprintf(out->error, sizeof out->error, "%s", kiln_error_message());
    kiln_error_clear();
    unlink(z.path);
    free(z.room);
}
