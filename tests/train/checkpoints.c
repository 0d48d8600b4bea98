// Trainings that go on: killed at any step, eager and captured, they end with the same bits as one that was not. What
// checkpoints hold, which are kept, what a broken or a foreign one does; the best, and stopping without a better one.
#include "fixture.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define QUIET .progress = "none"
extern char **environ;

// --- a training in a process of its own

enum { SAMPLES = 54, BATCH = 8, EPOCHS = 3 };

struct program {
    kiln_cell *net;
    kiln_optim *opt;
    kiln_average *average;
    kiln_loader *loader;
    kiln_generator *own;
    kiln_tensor *carried;
    double seen;
    int64_t count;
};

static kiln_status step(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct program *p = user;
    kiln_tensor *loss = kiln_cross_entropy(kiln_cell_call(p->net, in[0]), in[1], NULL);
    kiln_backward(loss, NULL);
    kiln_optim_step(p->opt);
    kiln_optim_zero_grad(p->opt);
    kiln_average_update(p->average);
    out[0] = loss;
    return kiln_error();
}

static void make_program(struct program *p)
{
    float x[SAMPLES * 6];
    int64_t y[SAMPLES];
    for (int i = 0; i < SAMPLES * 6; i++) x[i] = (float)sin(i * 1.7);
    for (int i = 0; i < SAMPLES; i++) y[i] = i % 3;
    kiln_seed(dev, 3);
    p->net = kiln_nn_sequential(KILN_CELLS(kiln_nn_conv2d(dev, 1, 4, 3, KILN_NN_CONV2D(.pad_mode = "same")),
                                           kiln_nn_batch_norm2d(dev, 4, NULL), kiln_nn_relu(), kiln_nn_flatten(),
                                           kiln_nn_dropout(0.3), kiln_nn_dense(dev, 24, 3, NULL)));
    kiln_tensor *params[8];
    size_t n = kiln_cell_parameters(p->net, params, 8);
    p->opt = kiln_optim_adam(params, n, KILN_ADAM(.lr = 0.01));
    kiln_optim_set_schedule(p->opt, kiln_schedule_warmup(3, kiln_schedule_plateau(0.02, KILN_PLATEAU(.patience = 1))));
    p->average = kiln_average_ema(params, n, KILN_EMA(.decay = 0.9));
    kiln_tensor *sets[] = {kiln_from_data(dev, KILN_F32, KILN_SHAPE(SAMPLES, 1, 2, 3), x),
                           kiln_from_data(dev, KILN_I64, KILN_SHAPE(SAMPLES), y)};
    p->loader = kiln_loader_create(dev, sets, 2, KILN_LOADER(.batch = BATCH, .shuffle = true, .seed = 5));
    p->own = kiln_generator_new(11);
    p->carried = kiln_zeros(dev, KILN_F32, KILN_SHAPE(2));
    kiln_cell_set_training(p->net, true);
}

static void write_bytes(FILE *f, kiln_tensor *x)
{
    size_t size_B = (size_t)kiln_numel(x) * kiln_dtype_size(kiln_tensor_dtype(x));
    char *bytes = malloc(size_B + 1);
    kiln_read(x, bytes, size_B);
    fwrite(bytes, 1, size_B, f);
    free(bytes);
}

// All that a program has at its end, as bytes.
static void write_state(const struct program *p, const char *path)
{
    kiln_tensor *all[64];
    uint64_t seed, offset;
    FILE *f = fopen(path, "w");
    size_t n = kiln_cell_state(p->net, NULL, all, 64);
    n += kiln_optim_state(p->opt, NULL, all + n, 64 - n);
    n += kiln_average_state(p->average, NULL, all + n, 64 - n);
    all[n++] = p->carried;
    for (size_t i = 0; i < n; i++) write_bytes(f, all[i]);
    kiln_loader_state place = {.size = sizeof place};
    kiln_loader_get_state(p->loader, &place);
    kiln_rng_state(dev, &seed, &offset);
    fprintf(f, "\n%zu tensors, steps %lld, lr %a, updates %lld, epoch %llu at %lld, random %llu %llu", n,
            (long long)kiln_optim_steps(p->opt), kiln_optim_lr(p->opt), (long long)kiln_average_updates(p->average),
            (unsigned long long)place.epoch, (long long)place.position, (unsigned long long)seed,
            (unsigned long long)offset);
    kiln_generator_state(p->own, &seed, &offset);
    fprintf(f, ", own %llu %llu, seen %a, count %lld\n", (unsigned long long)seed, (unsigned long long)offset, p->seen,
            (long long)p->count);
    fclose(f);
}

static void one_step(struct program *p, kiln_training *t, kiln_function *f, kiln_tensor **batch)
{
    kiln_tensor *loss = NULL;
    if (f)
        kiln_call(f, batch, 2, &loss, 1);
    else
        step(p, batch, 2, &loss, 1);
    kiln_generator *before = kiln_use_generator(p->own);
    kiln_assign(p->carried,
                kiln_add(kiln_mul(p->carried, kiln_scalar(0.5)), kiln_uniform(dev, KILN_F32, KILN_SHAPE(2), 0, 1)));
    kiln_use_generator(before);
    p->count += 2;
    p->seen += 0.1;
    // What a step does after its end is not in the checkpoint of that step.
    if (kiln_training_steps(t) % 4 == 3) kiln_optim_report(p->opt, 1.0); // the rate falls
    kiln_training_log_tensor(t, "train/loss", loss);
    kiln_training_log(t, "lr", kiln_optim_lr(p->opt));
    kiln_training_step(t);
}

// Arguments: the device, the folder, steps between checkpoints, the step to be killed after, "captured" or "eager".
static int run_program(const char *device, char **argv)
{
    struct program p = {0};
    char path[512];
    int64_t last = atoll(argv[2]);
    dev = kiln_device_open(device);
    kiln_scope *all = kiln_scope_begin();
    make_program(&p);
    kiln_function *f = !strcmp(argv[3], "captured") ? kiln_jit(step, &p, NULL) : NULL;
    kiln_training *t = kiln_training_create(argv[0], KILN_TRAINING(.epochs = EPOCHS, .log_every = 3,
                                                                   .checkpoint_every = atoll(argv[1]), .resume = true,
                                                                   .progress = "none"));
    kiln_training_keep_cell(t, "net", p.net);
    kiln_training_keep_optim(t, "optim", p.opt);
    kiln_training_keep_average(t, "average", p.average);
    kiln_training_keep_loader(t, "data", p.loader);
    kiln_training_keep_generator(t, "own", p.own);
    kiln_training_keep_tensor(t, "carried", p.carried);
    kiln_training_keep_double(t, "seen", &p.seen);
    kiln_training_keep_int(t, "count", &p.count);
    while (kiln_training_epoch(t)) {
        for (bool more = true; more && kiln_training_goes_on(t);) {
            kiln_scope *scope = kiln_scope_begin();
            kiln_tensor *batch[2];
            kiln_loader_next(p.loader, batch, 2, &more);
            if (more) one_step(&p, t, f, batch);
            kiln_scope_end(&scope);
            if (more && kiln_training_steps(t) == last) raise(SIGKILL);
        }
        kiln_training_log(t, "valid/loss", p.seen);
    }
    snprintf(path, sizeof path, "%s/state", argv[0]);
    write_state(&p, path);
    kiln_training_free(&t);
    kiln_function_free(&f);
    kiln_loader_free(&p.loader);
    kiln_optim_free(&p.opt);
    kiln_average_free(&p.average);
    kiln_cell_free(&p.net);
    kiln_generator_free(&p.own);
    kiln_scope_end(&all);
    return kiln_error_report(__FILE__, __LINE__);
}

// Whether it came to its end.
static bool run(const char *name, const char *every, int last, const char *how)
{
    char text[16], path[512], arguments[3][16];
    snprintf(arguments[0], 16, "%s", every);
    snprintf(arguments[2], 16, "%s", device_name);
    snprintf(arguments[1], 16, "%s", how);
    snprintf(text, sizeof text, "%d", last);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *const argv[] = {arguments[0], arguments[2], path, arguments[0], text, arguments[1], NULL};
    pid_t child;
    int status;
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

static void expect_same_file(const char *a, const char *b)
{
    char command[1200];
    snprintf(command, sizeof command, "cmp %s/%s %s/%s", folder, a, folder, b);
    assert_int_equal(system(command), 0);
}

static void expect_same_run(const char *a, const char *b)
{
    char x[64], y[64];
    snprintf(x, sizeof x, "%s/state", a);
    snprintf(y, sizeof y, "%s/state", b);
    expect_same_file(x, y);
    snprintf(x, sizeof x, "%s/log.csv", a);
    snprintf(y, sizeof y, "%s/log.csv", b);
    char *p = without_seconds(in_folder(x)), *q = without_seconds(in_folder(y));
    assert_string_equal(p, q);
    free(p);
    free(q);
    char command[1600];
    snprintf(
        command, sizeof command,
        "cd %s && for f in %s %s; do sed 's/\"seconds\":[^,]*//' $f/log.jsonl > $f/rows; done && cmp %s/rows %s/rows",
        folder, a, b, a, b);
    assert_int_equal(system(command), 0);
}

static void killed_and_gone_on(const char *how)
{
    assert_true(run("whole", "5", 0, how));
    char *rows = without_seconds(in_folder("whole/log.csv"));
    int lines = 0;
    for (const char *at = rows; *at; at++) lines += *at == '\n';
    assert_int_equal(lines, 1 + 9); // steps 3, 6, 7 for the epoch, 9, 12, 14, 15, 18, 21
    free(rows);
    // In the midst of an epoch, at its end, before the first checkpoint.
    assert_false(run("once", "5", 13, how));
    assert_true(run("once", "5", 0, how));
    expect_same_run("whole", "once");
    const int steps[] = {2, 6, 7, 8, 14, 20, 21};
    for (size_t i = 0; i < COUNT_OF(steps); i++) assert_false(run("often", "1", steps[i], how));
    assert_true(run("often", "1", 0, how));
    expect_same_run("whole", "often");
    // Checkpoints at ends of epochs alone.
    assert_false(run("epochs", "0", 10, how));
    assert_true(run("epochs", "0", 0, how));
    expect_same_run("whole", "epochs");
    // What is done is done.
    assert_true(run("once", "5", 0, how));
    expect_same_run("whole", "once");
}

static void killed_eager(void **state)
{
    killed_and_gone_on("eager");
}

static void killed_captured(void **state)
{
    killed_and_gone_on("captured");
}

// --- within this process

static kiln_tensor *param(double v)
{
    return kiln_own(kiln_parameter(kiln_full(dev, KILN_F32, KILN_SHAPE(3), v), "p"));
}

static void make_steps(kiln_training *t, int n)
{
    for (int i = 0; i < n && kiln_training_goes_on(t); i++) {
        kiln_training_log(t, "a", i);
        kiln_training_step(t);
    }
}

static bool is_there(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

static bool any_checkpoint(void)
{
    char command[512];
    snprintf(command, sizeof command, "ls %s | grep -q ckpt", folder);
    return system(command) == 0;
}

static void which_are_kept(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.steps = 10, .checkpoint_every = 3, QUIET));
    make_steps(t, 10);
    assert_false(kiln_training_goes_on(t)); // the end is one, too
    no_error();
    assert_true(is_there("step-00000009.ckpt") && is_there("step-00000010.ckpt"));
    assert_false(is_there("step-00000006.ckpt") || is_there("step-00000003.ckpt"));
    kiln_training_free(&t);
    assert_null(kiln_training_create(folder, KILN_TRAINING(QUIET)));
    expect_error(KILN_E_STATE, "holds an earlier training (log.csv); .resume goes on with it, .overwrite removes it");
    t = kiln_training_create(folder,
                             KILN_TRAINING(.steps = 10, .checkpoint_every = 4, .keep = -1, .overwrite = true, QUIET));
    assert_false(is_there("step-00000009.ckpt") || is_there("step-00000010.ckpt") || is_there("log.csv"));
    make_steps(t, 9);
    kiln_training_save(t);
    no_error();
    assert_true(is_there("step-00000004.ckpt") && is_there("step-00000008.ckpt") && is_there("step-00000009.ckpt"));
    kiln_training_free(&t);
    t = kiln_training_create(folder, KILN_TRAINING(.checkpoint_every = -1, .overwrite = true, QUIET));
    make_steps(t, 20);
    kiln_training_free(&t);
    assert_false(any_checkpoint());
}

static void damaged_ones(void **state)
{
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.steps = 8, .checkpoint_every = 4, QUIET));
    make_steps(t, 8);
    kiln_training_free(&t);
    assert_int_equal(truncate(in_folder("step-00000008.ckpt"), 100), 0);
    t = kiln_training_create(folder, KILN_TRAINING(.steps = 8, .checkpoint_every = 4, .resume = true, QUIET));
    assert_true(kiln_training_goes_on(t));
    assert_int_equal(kiln_training_steps(t), 4);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(first_warning, "an older checkpoint is taken: checkpoint_load: "));
    make_steps(t, 4);
    assert_false(kiln_training_goes_on(t));
    kiln_training_free(&t);
    no_error();
    // The damaged one has been replaced; both damaged is an error.
    assert_int_equal(truncate(in_folder("step-00000008.ckpt"), 100), 0);
    assert_int_equal(truncate(in_folder("step-00000004.ckpt"), 0), 0);
    t = kiln_training_create(folder, KILN_TRAINING(.steps = 8, .checkpoint_every = 4, .resume = true, QUIET));
    assert_false(kiln_training_goes_on(t));
    expect_error(KILN_E_FORMAT, "step-00000004.ckpt");
    kiln_training_free(&t);
}

static void foreign_ones(void **state)
{
    kiln_tensor *p = param(1), *longer = kiln_own(kiln_zeros(dev, KILN_F32, KILN_SHAPE(4))), *q = param(7);
    int64_t number = 3;
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.steps = 8, .checkpoint_every = 4, QUIET));
    kiln_training_keep_tensor(t, "p", p);
    kiln_training_keep_int(t, "n", &number);
    make_steps(t, 4);
    kiln_training_free(&t);
    no_error();
    number = 5;
    // Something is not kept any more.
    t = kiln_training_create(folder, KILN_TRAINING(.steps = 8, .checkpoint_every = 4, .resume = true, QUIET));
    kiln_training_keep_int(t, "n", &number);
    assert_false(kiln_training_goes_on(t));
    expect_error(KILN_E_ARGUMENT, "step-00000004.ckpt holds tensor p, int n; the training keeps int n");
    kiln_training_free(&t);
    // A tensor has another shape: nothing is written.
    t = kiln_training_create(folder, KILN_TRAINING(.steps = 8, .checkpoint_every = 4, .resume = true, QUIET));
    kiln_training_keep_tensor(t, "p", longer);
    kiln_training_keep_int(t, "n", &number);
    assert_false(kiln_training_epoch(t));
    expect_error(KILN_E_SHAPE, "\"p.tensor\" is f32[3] in the checkpoint, the tensor to fill is f32[4]");
    assert_int_equal(number, 5);
    assert_int_equal(kiln_training_steps(t), 0);
    assert_int_equal(kiln_training_history(t, "a", NULL, NULL, 0), 0);
    kiln_training_free(&t);
    t = kiln_training_create(folder, KILN_TRAINING(.steps = 8, .checkpoint_every = 4, .resume = true, QUIET));
    kiln_training_keep_tensor(t, "p", q);
    kiln_training_keep_int(t, "n", &number);
    assert_true(kiln_training_goes_on(t));
    no_error();
    float v[3];
    kiln_read(q, v, sizeof v);
    assert_true(v[0] == 1 && number == 3 && kiln_training_steps(t) == 4);
    kiln_training_keep_int(t, "late", &number);
    expect_error(KILN_E_STATE, "the training has begun");
    kiln_training_free(&t);
    kiln_free(&p);
    kiln_free(&q);
    kiln_free(&longer);
}

static kiln_optim *two_groups(kiln_tensor **p)
{
    kiln_optim *opt = kiln_optim_sgd(&p[0], 1, KILN_SGD(.lr = 0.5));
    kiln_optim_add_group(opt, &p[1], 1, KILN_OPTIM_GROUP(.lr_scale = 0.1));
    kiln_optim_add_group(opt, &p[2], 1, KILN_OPTIM_GROUP(.schedule = kiln_schedule_exponential(1, 0.5)));
    return opt;
}

// A rate set by hand comes back; a schedule that is another one now is followed, also by what stands to it in a ratio.
static void rates(void **state)
{
    kiln_tensor *p[] = {param(1), param(2), param(3)};
    kiln_optim *opt = two_groups(p);
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.checkpoint_every = 4, QUIET));
    kiln_training_keep_optim(t, "optim", opt);
    kiln_optim_set_lr(opt, 0.25);
    make_steps(t, 4);
    kiln_training_free(&t);
    kiln_optim_free(&opt);
    for (int scheduled = 0; scheduled < 2; scheduled++) {
        opt = two_groups(p);
        if (scheduled) kiln_optim_set_schedule(opt, kiln_schedule_constant(8));
        assert_true(!kiln_optim_schedule(opt, 0) == !scheduled && !kiln_optim_schedule(opt, 1) &&
                    kiln_optim_schedule(opt, 2));
        t = kiln_training_create(folder, KILN_TRAINING(.checkpoint_every = 4, .resume = true, QUIET));
        kiln_training_keep_optim(t, "optim", opt);
        assert_true(kiln_training_goes_on(t));
        no_error();
        assert_true(kiln_optim_lr(opt) == (scheduled ? 8 : 0.25));
        assert_true(fabs(kiln_optim_group_lr(opt, 1) - kiln_optim_lr(opt) / 10) < 1e-12);
        assert_true(kiln_optim_group_lr(opt, 2) == 1);
        kiln_training_free(&t);
        kiln_optim_free(&opt);
    }
    for (int i = 0; i < 3; i++) kiln_free(&p[i]);
}

static void set_file_limit(rlim_t most_B)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = most_B;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void full_disks(void **state)
{
    kiln_tensor *p = kiln_own(kiln_zeros(dev, KILN_F32, KILN_SHAPE(1000)));
    signal(SIGXFSZ, SIG_IGN);
    kiln_training *t = kiln_training_create(folder, KILN_TRAINING(.checkpoint_every = 2, QUIET));
    kiln_training_keep_tensor(t, "p", p);
    make_steps(t, 2);
    set_file_limit(3000);
    make_steps(t, 5);
    set_file_limit(RLIM_INFINITY);
    no_error();
    assert_int_equal(kiln_training_steps(t), 7);
    assert_true(warnings >= 1);
    assert_non_null(strstr(first_warning, "training: a checkpoint is not saved: checkpoint_save: "));
    assert_non_null(strstr(first_warning, "File too large"));
    assert_true(is_there("step-00000002.ckpt") && !is_there("step-00000004.ckpt")); // the old one stays
    kiln_training_free(&t);
    t = kiln_training_create(folder, KILN_TRAINING(.checkpoint_every = 2, .resume = true, .strict = true, QUIET));
    kiln_training_keep_tensor(t, "p", p);
    assert_true(kiln_training_goes_on(t));
    set_file_limit(3000);
    make_steps(t, 5);
    set_file_limit(RLIM_INFINITY);
    expect_error(KILN_E_IO, "File too large");
    assert_int_equal(kiln_training_steps(t), 4);
    kiln_training_free(&t);
    kiln_free(&p);
}

// Where nothing may be written, the training is told of it and makes its steps.
static void read_only_folders(void **state)
{
    bool root = geteuid() == 0;
    assert_int_equal(chmod(folder, 0555), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    kiln_training *t =
        kiln_training_create(folder, KILN_TRAINING(.steps = 6, .log_every = 1, .checkpoint_every = 2, QUIET));
    make_steps(t, 6);
    assert_false(kiln_training_goes_on(t));
    no_error();
    assert_int_equal(kiln_training_steps(t), 6);
    assert_int_equal(kiln_training_history(t, "a", NULL, NULL, 0), 6);
    kiln_training_free(&t);
    t = kiln_training_create(folder, KILN_TRAINING(.checkpoint_every = 2, .log_every = 1, .strict = true, QUIET));
    make_steps(t, 2);
    expect_error(KILN_E_IO, "Permission denied");
    kiln_training_free(&t);
    expect_error(KILN_E_IO, "Permission denied"); // what was left could not be written either
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(warnings, 2 + 2 + 4); // rows, curves, checkpoints, the last of which is tried again at the end
    assert_non_null(strstr(first_warning, "log.csv cannot be written: Permission denied; the training goes on"));
    assert_false(any_checkpoint() || is_there("log.csv"));
}

// --- the best

static int rows_until_stop(kiln_training *t, const double *values, int n)
{
    int i = 0;
    for (; i < n && kiln_training_goes_on(t); i++) {
        kiln_training_log(t, "m", values[i]);
        kiln_training_step(t);
    }
    return kiln_training_goes_on(t) ? 0 : i;
}

static void stops_without_a_better_one(void **state)
{
    const double falls[] = {5, 4, 4, 3.95, 3, 3, NAN, 3.5, 2, 1}, rises[] = {1, 2, 2.05, 1, 3};
    double best;
    int64_t at;
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(.log_every = 1, .monitor = "m", .patience = 3, QUIET));
    assert_false(kiln_training_best(t, &best, &at));
    assert_int_equal(rows_until_stop(t, falls, 10), 8);
    assert_true(kiln_training_best(t, &best, &at) && best == 3 && at == 5);
    kiln_training_free(&t);
    t = kiln_training_create(
        NULL, KILN_TRAINING(.log_every = 1, .monitor = "m", .patience = 2, .min_delta = 0.1, .mode = "max", QUIET));
    assert_int_equal(rows_until_stop(t, rises, 5), 4);
    assert_true(kiln_training_best(t, &best, &at) && best == 2 && at == 2);
    kiln_training_free(&t);
    t = kiln_training_create(NULL, KILN_TRAINING(.log_every = 1, .monitor = "m", QUIET));
    assert_int_equal(rows_until_stop(t, falls, 10), 0); // without patience it goes on
    assert_true(kiln_training_best(t, &best, NULL) && best == 1);
    kiln_training_free(&t);
    // A name that nobody logs is told.
    t = kiln_training_create(NULL, KILN_TRAINING(.steps = 2, .monitor = "mm", .patience = 3, QUIET));
    make_steps(t, 2);
    assert_false(kiln_training_goes_on(t));
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(first_warning, "nothing was logged by the name \"mm\""));
    kiln_training_free(&t);
    no_error();
}

// Two bad rows before the process ends and one after it are three.
static void patience_goes_on(void **state)
{
    const double values[] = {5, 6, 7, 8, 9};
    const kiln_training_opts *opts =
        KILN_TRAINING(.log_every = 1, .checkpoint_every = 1, .monitor = "m", .patience = 3, .resume = true, QUIET);
    kiln_training *t = kiln_training_create(folder, opts);
    assert_int_equal(rows_until_stop(t, values, 3), 0);
    kiln_training_free(&t);
    t = kiln_training_create(folder, opts);
    assert_int_equal(rows_until_stop(t, values + 3, 2), 1);
    kiln_training_free(&t);
    FILE *f = fopen(in_folder("out"), "w");
    kiln_training_opts told = *opts;
    told.progress = "lines";
    told.output = f;
    t = kiln_training_create(folder, &told);
    assert_false(kiln_training_goes_on(t));
    kiln_training_free(&t);
    fclose(f);
    no_error();
    char *text = text_of(in_folder("out"));
    assert_string_equal(text, "stopped: 3 rows of m, and none better than 5 (step 1)\n");
    free(text);
}

static void best_comes_back(void **state)
{
    const double values[] = {5, 1, 3};
    kiln_tensor *p = kiln_own(kiln_zeros(dev, KILN_F32, KILN_SHAPE(1)));
    kiln_training *t =
        kiln_training_create(folder, KILN_TRAINING(.log_every = 1, .monitor = "m", .keep_best = true, QUIET));
    kiln_training_keep_tensor(t, "p", p);
    kiln_training_restore_best(t);
    expect_error(KILN_E_STATE, "there is no best.ckpt");
    for (int i = 0; i < 3; i++) {
        kiln_assign(p, kiln_scalar(10 + i));
        kiln_training_log(t, "m", values[i]);
        kiln_training_step(t);
    }
    assert_true(kiln_item(p) == 12);
    assert_int_equal(kiln_training_restore_best(t), KILN_OK);
    assert_true(kiln_item(p) == 11);
    assert_int_equal(kiln_training_steps(t), 3);
    kiln_training_free(&t);
    kiln_free(&p);
}

static void wrong_calls(void **state)
{
    assert_null(kiln_training_create(NULL, KILN_TRAINING(.patience = 3)));
    expect_error(KILN_E_ARGUMENT, ".patience needs .monitor");
    assert_null(kiln_training_create(NULL, KILN_TRAINING(.keep_best = true)));
    expect_error(KILN_E_ARGUMENT, ".keep_best needs .monitor");
    assert_null(kiln_training_create(NULL, KILN_TRAINING(.monitor = "m", .mode = "least")));
    expect_error(KILN_E_ARGUMENT, ".mode is \"least\"");
    assert_null(kiln_training_create(NULL, KILN_TRAINING(.monitor = "m", .min_delta = NAN)));
    expect_error(KILN_E_ARGUMENT, ".min_delta is nan");
    assert_null(kiln_training_create(NULL, KILN_TRAINING(.keep = -2)));
    expect_error(KILN_E_ARGUMENT, "must not be below -1");
    assert_null(kiln_training_create(folder, KILN_TRAINING(.resume = true, .overwrite = true)));
    expect_error(KILN_E_ARGUMENT, ".resume and .overwrite are both there");
    kiln_training *t = kiln_training_create(NULL, KILN_TRAINING(QUIET));
    kiln_cell *cell = kiln_nn_relu(), *stale = cell;
    kiln_training_keep_cell(t, "a", cell);
    kiln_training_keep_cell(t, "a", cell);
    expect_error(KILN_E_ARGUMENT, "training_keep_cell: \"a\" is kept already, a cell");
    kiln_training_keep_cell(t, "a.b", cell);
    expect_error(KILN_E_ARGUMENT, "it holds a dot");
    kiln_training_keep_cell(t, "training", cell);
    expect_error(KILN_E_ARGUMENT, "it is taken");
    kiln_training_keep_cell(t, "", cell);
    expect_error(KILN_E_ARGUMENT, "the name is empty");
    kiln_cell_free(&cell);
    kiln_training_keep_cell(t, "b", stale);
    expect_error(KILN_E_HANDLE, "the cell was freed");
    kiln_training_save(t);
    expect_error(KILN_E_STATE, "training_save: the training has no folder");
    kiln_training_free(&t);
}

int main(int argc, char **argv)
{
    if (argc == 6) return run_program(argv[1], argv + 2);
    if (argc == 2) device_name = argv[1];
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(killed_eager),     TEST(killed_captured),   TEST(which_are_kept),
        TEST(damaged_ones),     TEST(foreign_ones),      TEST(rates),
        TEST(full_disks),       TEST(read_only_folders), TEST(stops_without_a_better_one),
        TEST(patience_goes_on), TEST(best_comes_back),   TEST(wrong_calls),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
