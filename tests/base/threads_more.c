// What eight threads use at once besides captured functions: devices, files, cells, optimisers, loaders, errors, random
// numbers, statistics and profiles, ops of the user, tensors of each other. ThreadSanitizer runs it, too (tools/test).
#include "threads_fixture.h"
#include <stdatomic.h>
#include <unistd.h>

// --- devices

static const char *open_and_close(struct job *job)
{
    for (int i = 0; i < 12; i++) {
        kiln_device_info infos[8] = {{.size = sizeof *infos}};
        kiln_device *dev = kiln_device_open(jit_device);
        if (!dev || kiln_set_device(dev)) return "no device";
        kiln_device_list(infos, 8);
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_full(NULL, KILN_F32, KILN_SHAPE(2, WIDTH), job->id); // on the default device
        bool fine = kiln_get_device() == dev && kiln_tensor_device(x) == dev &&
                    holds(kiln_sum(x, NULL), 1, 2. * WIDTH * job->id);
        if (i % 2) kiln_device_close(&dev); // it lives on until its last tensor goes
        fine &= holds(kiln_add(x, x), 2 * WIDTH, 2. * job->id);
        kiln_scope_end(&scope);
        kiln_device_close(&dev);
        // The others' are no concern of this one's default.
        kiln_set_device(job->f->dev);
        if (!fine || !holds(rows_of(job->f, 1, i), WIDTH, i)) return "a wrong value";
    }
    return NULL;
}

static void devices_come_and_go(void **state)
{
    run_alike(*state, open_and_close, NULL, NULL);
}

// --- functions

// Of a function that nobody has called before, all call first.
struct first {
    kiln_function *j[6];
    pthread_barrier_t go;
};

static kiln_status twice_and_one(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_add(kiln_mul(in[0], kiln_scalar(2)), kiln_scalar(1));
    out[0] = kiln_sum(kiln_relu(y), KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

static bool gives_twice_and_one(struct job *job, kiln_function *j, double v)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = rows_of(job->f, 3, v), *out = NULL;
    bool fine = !kiln_call(j, &x, 1, &out, 1) && holds(out, 3, WIDTH * fmax(2 * v + 1, 0));
    kiln_scope_end(&scope);
    return fine;
}

static const char *call_first(struct job *job)
{
    static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
    struct first *f = job->user;
    const char *failure = NULL;
    for (int i = 0; i < 6; i++) {
        kiln_function *own = kiln_jit(twice_and_one, NULL, KILN_JIT(.capture = captures[(i + job->id) % 3]));
        pthread_barrier_wait(&f->go);
        if (!gives_twice_and_one(job, f->j[i], job->id) || !gives_twice_and_one(job, own, i)) failure = "a wrong sum";
        kiln_function_free(&own);
    }
    return failure;
}

static void first_calls_race(void **state)
{
    static const kiln_capture captures[] = {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE};
    struct fixture *f = *state;
    struct first first;
    pthread_barrier_init(&first.go, NULL, THREADS);
    for (int i = 0; i < 6; i++)
        first.j[i] = kiln_jit(twice_and_one, NULL, KILN_JIT(.capture = captures[i % 3], .background = i >= 3));
    run_alike(f, call_first, NULL, &first);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(stats_of(first.j[i]).calls, THREADS);
        uint64_t n = stats_of(first.j[i]).captures; // recordings of AUTO are made by all that come meanwhile
        if (n < 1 || n > (i % 3 == 1 ? THREADS : 1)) fail_msg("function %d was captured %d times", i, (int)n);
        kiln_function_free(&first.j[i]);
    }
    pthread_barrier_destroy(&first.go);
}

// --- files

static char folder[] = "/tmp/kiln-threads-XXXXXX";

static const char *path_of(char *out, size_t size_B, const char *name, int id)
{
    if (id < 0)
        snprintf(out, size_B, "%s/all.%s", folder, name);
    else
        snprintf(out, size_B, "%s/%d.%s", folder, id, name);
    return out;
}

enum format { NPY, NPZ, SAFETENSORS, CHECKPOINT, FORMATS };
static const char *const format_names[] = {"npy", "npz", "safetensors", "checkpoint"};

static kiln_status save(enum format format, const char *path, kiln_tensor *t)
{
    const char *name = "t";
    if (format == NPY) return kiln_npy_save(path, t);
    if (format == NPZ) return kiln_npz_save(path, &name, &t, 1, KILN_NPZ(.compress = true));
    if (format == SAFETENSORS) return kiln_safetensors_save(path, &name, &t, 1);
    kiln_checkpoint *c = kiln_checkpoint_create();
    kiln_checkpoint_put(c, &name, &t, 1);
    kiln_status status = kiln_checkpoint_save(c, path);
    kiln_checkpoint_free(&c);
    return status;
}

static kiln_tensor *load(enum format format, const char *path, kiln_device *dev)
{
    if (format == NPY) return kiln_npy_load(dev, path);
    if (format == CHECKPOINT) {
        kiln_checkpoint *c = kiln_checkpoint_load(path);
        kiln_tensor *t = c ? kiln_checkpoint_get(c, dev, "t") : NULL;
        kiln_checkpoint_free(&c);
        return t;
    }
    kiln_archive *a = format == NPZ ? kiln_npz_load(path) : kiln_safetensors_load(path);
    kiln_tensor *t = a ? kiln_archive_get(a, dev, "t") : NULL;
    kiln_archive_free(&a);
    return t;
}

// One writer's file, whole.
static bool is_of_one(kiln_tensor *t, int64_t n)
{
    double v[256];
    if (!t || kiln_numel(t) != n) return false;
    read_all(t, v);
    for (int64_t i = 1; i < n && computes(); i++)
        if (v[i] != v[0]) return false;
    return !computes() || (v[0] >= 0 && v[0] < 16 * THREADS && v[0] == floor(v[0]));
}

static const char *save_and_load(struct job *job)
{
    char own[80], all[80];
    for (int i = 0; i < 16; i++) {
        enum format format = (enum format)((i + job->id) % FORMATS);
        const char *name = format_names[format];
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *t = rows_of(job->f, 20, i * THREADS + job->id);
        path_of(own, sizeof own, name, job->id);
        path_of(all, sizeof all, name, -1);
        bool fine = !save(format, own, t) && !save(format, all, t);
        fine = fine && holds(load(format, own, job->f->dev), 20 * WIDTH, i * THREADS + job->id);
        fine = fine && is_of_one(load(format, all, job->f->dev), 20 * WIDTH);
        kiln_scope_end(&scope);
        if (!fine) return "a wrong file";
    }
    return NULL;
}

static void files_are_saved_and_loaded(void **state)
{
    char path[80];
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    assert_non_null(mkdtemp(folder));
    run_alike(*state, save_and_load, NULL, NULL);
    for (int format = 0; format < FORMATS; format++)
        for (int id = -1; id < THREADS; id++) unlink(path_of(path, sizeof path, format_names[format], id));
    assert_int_equal(rmdir(folder), 0); // no temporary file is left
}

// --- cells and optimisers

enum { STEPS = 5 };

static bool train(struct fixture *f, int id, double *losses)
{
    kiln_cell *cell = kiln_nn_dense(f->dev, WIDTH, 2, KILN_NN_DENSE(.weight_init = "ones", .bias_init = "zeros"));
    kiln_tensor *params[4];
    size_t n = kiln_cell_parameters(cell, params, 4);
    kiln_optim *opt = id % 2 ? kiln_optim_adam(params, n, KILN_ADAM(.lr = 0.05))
                             : kiln_optim_sgd(params, n, KILN_SGD(.lr = 0.01, .momentum = 0.5));
    kiln_set_mode(id / 2 % 2 ? KILN_MODE_GRAPH : KILN_MODE_EAGER);
    for (int i = 0; i < STEPS && !kiln_error(); i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *y = kiln_cell_call(cell, rows_of(f, 3, 0.25 * (id + 1)));
        kiln_tensor *loss = kiln_mean(kiln_square(kiln_sub(y, kiln_scalar(1))), NULL);
        kiln_optim_zero_grad(opt);
        kiln_backward(loss, NULL);
        kiln_optim_step(opt);
        losses[i] = kiln_item(loss);
        kiln_scope_end(&scope);
    }
    kiln_set_mode(KILN_MODE_EAGER);
    kiln_optim_free(&opt);
    kiln_cell_free(&cell);
    return !kiln_error();
}

static const char *train_ones_own(struct job *job)
{
    double(*want)[STEPS] = job->user, got[STEPS];
    if (!train(job->f, job->id, got)) return "no training";
    for (int i = 0; i < STEPS && computes(); i++)
        if (!(fabs(got[i] - want[job->id][i]) <= 1e-5 * (1 + want[job->id][i]))) return "a wrong loss";
    return NULL;
}

static void networks_are_trained(void **state)
{
    double want[THREADS][STEPS];
    for (int id = 0; id < THREADS; id++) {
        assert_true(train(*state, id, want[id]));
        assert_true(!computes() || want[id][STEPS - 1] < want[id][0]);
    }
    run_alike(*state, train_ones_own, NULL, want);
}

// --- loaders

static const char *take_batches(struct job *job)
{
    float v[60];
    for (int i = 0; i < 60; i++) v[i] = (float)(i + job->id);
    kiln_tensor *set = kiln_from_data(job->f->dev, KILN_F32, KILN_SHAPE(60), v);
    kiln_loader *l = kiln_loader_create(job->f->dev, &set, 1, KILN_LOADER(.batch = 7, .shuffle = true, .seed = 5));
    bool fine = l != NULL;
    for (int epoch = 0; epoch < 8 && fine; epoch++) {
        double sum = 0;
        for (bool more = true; more && fine;) {
            kiln_scope *scope = kiln_scope_begin();
            kiln_tensor *batch = NULL;
            fine = !kiln_loader_next(l, &batch, 1, &more);
            if (fine && more) sum += kiln_item(kiln_sum(batch, NULL));
            kiln_scope_end(&scope);
        }
        fine &= !computes() || sum == 60 * 59 / 2 + 60. * job->id;
    }
    kiln_loader_free(&l);
    return fine ? NULL : "a wrong epoch";
}

static void loaders_prepare_batches(void **state)
{
    run_alike(*state, take_batches, NULL, NULL);
}

// --- errors

static const char *err_or_compute(struct job *job)
{
    char part[32];
    snprintf(part, sizeof part, "f32[%d,%d]", 20 + job->id, WIDTH);
    for (int i = 0; i < 60; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = rows_of(job->f, 2, i),
                    *y = job->id % 2 ? kiln_add(x, rows_of(job->f, 20 + job->id, 1)) : kiln_add(x, x);
        bool fine;
        if (job->id % 2) {
            fine = !y && kiln_error() == KILN_E_SHAPE && strstr(kiln_error_message(), part);
            kiln_error_clear();
        } else {
            fine = !kiln_error() && !*kiln_error_message() && holds(y, 2 * WIDTH, 2 * i);
        }
        kiln_scope_end(&scope);
        if (!fine) return "another thread's error";
    }
    return NULL;
}

static void errors_belong_to_threads(void **state)
{
    run_alike(*state, err_or_compute, NULL, NULL);
}

// --- random numbers

static const char *draw_numbers(struct job *job)
{
    for (int i = 0; i < 40; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_uniform(job->f->dev, KILN_F32, KILN_SHAPE(WIDTH), 0, 1);
        double mean = kiln_item(kiln_mean(x, NULL));
        kiln_scope_end(&scope);
        if (computes() && !(mean > 0 && mean < 1)) return "a wrong mean";
    }
    return NULL;
}

// No piece of the stream is given twice.
static void random_numbers_are_given_once(void **state)
{
    struct fixture *f = *state;
    uint64_t seed, before, after;
    ok(kiln_rng_state(f->dev, &seed, &before));
    run_alike(f, draw_numbers, NULL, NULL);
    ok(kiln_rng_state(f->dev, &seed, &after));
    assert_int_equal(after - before, THREADS * 40 * WIDTH / 2);
}

// --- looking on

struct watched {
    kiln_function *j;
    atomic_int working;
    char path[64];
};

static const char *work(struct job *job)
{
    struct watched *w = job->user;
    const char *failure = NULL;
    for (int i = 0; i < 100 && !failure; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *p = kiln_parameter(rows_of(job->f, 2, i), "p"), *y = kiln_sum(kiln_square(p), NULL);
        if (kiln_backward(y, NULL) || !holds(kiln_gradient(p), 2 * WIDTH, 2 * i)) failure = "a wrong gradient";
        kiln_scope_end(&scope);
        if (!gives_twice_and_one(job, w->j, i)) failure = "a wrong sum";
    }
    atomic_fetch_sub(&w->working, 1);
    return failure;
}

static const char *explain_and_count(struct job *job)
{
    struct watched *w = job->user;
    uint64_t launches = 0;
    while (atomic_load(&w->working)) {
        char *text = NULL;
        size_t size;
        FILE *file = open_memstream(&text, &size);
        kiln_explain(w->j, file);
        fclose(file);
        free(text);
        uint64_t now = launches_of(job->f);
        if (now < launches || stats_of(w->j).captures > stats_of(w->j).calls) return "counts went back";
        launches = now;
        kiln_device_trim(job->f->dev);
        usleep(1000);
    }
    return NULL;
}

static const char *profile_again(struct job *job)
{
    struct watched *w = job->user;
    while (atomic_load(&w->working)) {
        if (kiln_profile_begin(w->path)) return "no profile";
        usleep(3000);
        if (kiln_profile_end()) return "no end of a profile";
    }
    return NULL;
}

static void runs_are_watched(void **state)
{
    struct fixture *f = *state;
    struct watched w = {.j = kiln_jit(twice_and_one, NULL, NULL), .working = THREADS - 2};
    struct job jobs[THREADS];
    snprintf(w.path, sizeof w.path, "/tmp/kiln-threads-%d.json", (int)getpid());
    for (int i = 0; i < THREADS; i++)
        jobs[i] = (struct job){.f = f,
                               .id = i,
                               .user = &w,
                               .body = i == 0   ? explain_and_count
                                       : i == 1 ? profile_again
                                                : work};
    run_together(jobs, THREADS);
    unlink(w.path);
    kiln_function_free(&w.j);
}

// --- ops of the user

static const char *register_and_use(struct job *job)
{
    static atomic_int round;
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "t_thread_%d", atomic_fetch_add(&round, 1));
        if (kiln_register_op(KILN_OP(.name = name, .n_in = 1, .expr = "3 * x + 1", .grad = {"3 * dy"}))) return "no op";
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_parameter(rows_of(job->f, 2, i), "x"), *y = kiln_apply(name, &x, 1);
        bool fine = holds(y, 2 * WIDTH, 3 * i + 1);
        fine = fine && !kiln_backward(kiln_sum(y, NULL), NULL) && holds(kiln_gradient(x), 2 * WIDTH, 3);
        kiln_scope_end(&scope);
        if (!fine) return "a wrong result of an op";
    }
    return NULL;
}

static void ops_are_registered(void **state)
{
    run_alike(*state, register_and_use, NULL, NULL);
}

// --- tensors of each other

// Two threads and what lies between them.
struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kiln_tensor *there, *back;
};

struct mail {
    struct mailbox box[THREADS / 2];
    kiln_function *j;
};

static void put(struct mailbox *m, kiln_tensor **slot, kiln_tensor *t)
{
    pthread_mutex_lock(&m->lock);
    while (*slot) pthread_cond_wait(&m->changed, &m->lock);
    *slot = t;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static kiln_tensor *take(struct mailbox *m, kiln_tensor **slot)
{
    pthread_mutex_lock(&m->lock);
    while (!*slot) pthread_cond_wait(&m->changed, &m->lock);
    kiln_tensor *t = *slot;
    *slot = NULL;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    return t;
}

enum { LETTERS = 100 };

// What is sent: a tensor, a view of one whose handle is gone, one with a tape, or what is not computed yet.
static kiln_tensor *letter(struct job *job, int i)
{
    kiln_tensor *x = rows_of(job->f, 3, i);
    if (i % 4 == 1) return kiln_own(kiln_transpose(kiln_narrow(x, 0, 1, 2), 0, 1));
    if (i % 4 == 2) return kiln_own(kiln_mul(kiln_parameter(x, "x"), kiln_scalar(1)));
    kiln_tensor *late = NULL;
    if (i % 4 == 3) KILN_CAPTURE(job->f->dev) late = kiln_own(kiln_neg(kiln_neg(x)));
    return late ? late : kiln_own(x);
}

static const char *send_letters(struct job *job)
{
    struct mailbox *m = &((struct mail *)job->user)->box[job->id / 2];
    const char *failure = NULL;
    for (int i = 0; i < LETTERS; i++) {
        kiln_scope *scope = kiln_scope_begin();
        put(m, &m->there, letter(job, i));
        kiln_tensor *answer = take(m, &m->back);
        if (!holds(answer, 3, WIDTH * (2 * i + 1)) && !holds(answer, WIDTH, 2 * (2 * i + 1)))
            failure = "a wrong answer";
        kiln_free(&answer);
        kiln_scope_end(&scope);
    }
    return failure;
}

// Computed by a captured function, from what is freed at once.
static const char *answer_letters(struct job *job)
{
    struct mail *mail = job->user;
    struct mailbox *m = &mail->box[job->id / 2];
    const char *failure = NULL;
    for (int i = 0; i < LETTERS; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = take(m, &m->there), *out = NULL;
        if (kiln_call(mail->j, &x, 1, &out, 1)) failure = "no answer";
        kiln_free(&x);
        put(m, &m->back, kiln_own(out ? out : rows_of(job->f, 1, 0)));
        kiln_scope_end(&scope);
    }
    return failure;
}

static const char *write_letters(struct job *job)
{
    return job->id % 2 ? answer_letters(job) : send_letters(job);
}

static void tensors_pass_from_hand_to_hand(void **state)
{
    struct mail mail = {.j = kiln_jit(twice_and_one, NULL, NULL)};
    for (int i = 0; i < THREADS / 2; i++) {
        pthread_mutex_init(&mail.box[i].lock, NULL);
        pthread_cond_init(&mail.box[i].changed, NULL);
    }
    run_alike(*state, write_letters, NULL, &mail);
    for (int i = 0; i < THREADS / 2; i++) {
        pthread_mutex_destroy(&mail.box[i].lock);
        pthread_cond_destroy(&mail.box[i].changed);
    }
    kiln_function_free(&mail.j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(devices_come_and_go),
        FIXTURE(first_calls_race),
        FIXTURE(files_are_saved_and_loaded),
        FIXTURE(networks_are_trained),
        FIXTURE(loaders_prepare_batches),
        FIXTURE(errors_belong_to_threads),
        FIXTURE(random_numbers_are_given_once),
        FIXTURE(runs_are_watched),
        FIXTURE(ops_are_registered),
        FIXTURE(tensors_pass_from_hand_to_hand),
    };
    if (choose_device(argc, argv)) return 77;
    setenv("KILN_CACHE_DIR", "/dev/null/none", 1); // where no file can be: what is asked for is compiled here
    return cmocka_run_group_tests(tests, NULL, NULL);
}
