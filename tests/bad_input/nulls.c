// Every public function with each of its pointers NULL in turn, by the headers (nulls.py): an error with a message, or
// nothing at all; and with options of a size that no struct has: an error. A call has a process of its
// own, so that one that crashes does not hide others.
#include <kiln/debug.h>
#include <kiln/kiln.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Names that were are called too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

struct wrong_call {
    void (*call)(void);
    const char *function, *argument;
    bool sized; // the argument has a wrong size, else it is NULL
};

static kiln_device *dev;
static kiln_tensor *tensor, *tensors[8];
static kiln_cell *cell, *cells[2];
static kiln_optim *optim;
static kiln_schedule *schedule;
static kiln_average *average;
static kiln_generator *generator;
static kiln_function *function;
static kiln_graph *graph;
static kiln_loader *loader;
static kiln_archive *archive;
static kiln_checkpoint *checkpoint;
static kiln_model *model;
static kiln_capture_region *region;
static kiln_bundle *bundle;
static kiln_table *table;
static kiln_training *training;
static kiln_metric *metric;
static kiln_vocabulary *vocabulary;
static kiln_value value[1];
static kiln_index_item items[8];
static FILE *sink;
static const char *names[] = {"x", "y"};
static int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
static max_align_t room[256];

static kiln_status same(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_alias(in[0]);
    return kiln_error();
}

// For every callback that a call may make.
static intptr_t nothing(void)
{
    return 0;
}

#include "null_calls.h"

static void make_all(void)
{
    char path[] = "/tmp/kiln-nulls-XXXXXX";
    int fd = mkstemp(path);
    if (fd >= 0) close(fd);
    dev = kiln_device_open("cpu");
    tensor = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(1)), "p");
    for (int i = 0; i < 8; i++) tensors[i] = tensor;
    cell = kiln_nn_relu();
    cells[0] = kiln_nn_relu();
    schedule = kiln_schedule_constant(1);
    optim = kiln_optim_sgd(&tensor, 1, NULL);
    average = kiln_average_swa(&tensor, 1);
    generator = kiln_generator_new(1);
    function = kiln_jit(same, NULL, NULL);
    graph = kiln_graph_parse("%0: f32[2] = input \"x\"\nreturn %0 \"y\"\n");
    loader = kiln_loader_create(dev, &tensor, 1, NULL);
    checkpoint = kiln_checkpoint_create();
    model = kiln_model_create();
    kiln_npz_save(path, names, &tensor, 1, NULL);
    archive = kiln_npz_load(path);
    unlink(path);
    kiln_csv_save(path, names, &tensor, 1, NULL);
    table = kiln_csv_load(path, NULL);
    unlink(path);
    vocabulary = kiln_vocabulary_characters("xyz", 3);
    training = kiln_training_create(NULL, NULL);
    metric = kiln_metric_create(KILN_METRIC(.classes = 2));
    bundle = kiln_bundle_of(&tensor, 1);
    kiln_bundle_append(bundle, "x", KILN_NONE);
    value[0] = (kiln_value){.size = sizeof *value, .kind = KILN_KIND_INT};
    region = kiln_capture_begin(dev, __FILE__, __LINE__);
    sink = fopen("/dev/null", "w");
}

static void make_call(const struct wrong_call *c)
{
    alarm(30);
    c->call();
    bool told = !kiln_error() || strstr(kiln_error_message(), ": ");
    // Functions that look at their function or their loader first may end there: sized.c calls those.
    if (c->sized) told = kiln_error() && strstr(kiln_error_message(), ": ");
    fflush(stdout);
    _exit(told ? 0 : 1);
}

int main(void)
{
    int failed = 0;
    size_t n = sizeof calls / sizeof *calls;
    setenv("KILN_CACHE_DIR", "/dev/null/none", 1); // what clears the cache finds none
    make_all();
    if (kiln_error() || !sink) {
        fprintf(stderr, "%s\n", kiln_error_message());
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) make_call(&calls[i]);
        if (child > 0 && waitpid(child, &status, 0) == child && status == 0) continue;
        fprintf(stderr, "%s with %s %s: %s %d\n", calls[i].function, calls[i].argument,
                calls[i].sized ? "of size 7" : "NULL", WIFSIGNALED(status) ? "signal" : "exit",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        failed++;
    }
    printf("%zu calls, %d failed\n", n, failed);
    fflush(stdout);
    _exit(failed || n < 700); // with all that the calls were made with
}
