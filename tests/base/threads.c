// Captured functions on several threads: calls, captures, compilation in parallel and in the background, eviction,
// explanations. Each thread checks the numbers that it gets. ThreadSanitizer runs the same program (tools/test).
#include "../clock.h"
#include "threads_fixture.h"
#include <stdatomic.h>
#include <unistd.h>

// --- one function, many callers ---

static kiln_status affine(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_relu(kiln_add(kiln_mul(in[0], kiln_scalar(2)), kiln_scalar(1)));
    out[0] = kiln_sum(y, KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

static bool call_affine(struct fixture *f, kiln_function *j, int64_t rows, double v)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = rows_of(f, rows, v), *out = NULL;
    bool fine = !kiln_call(j, &x, 1, &out, 1) && holds(out, rows, WIDTH * fmax(2 * v + 1, 0));
    kiln_scope_end(&scope);
    return fine;
}

static const char *call_one(struct job *job)
{
    for (int i = 0; i < 30; i++)
        if (!call_affine(job->f, job->j, 3, job->id - 0.25 * i)) return "a wrong sum";
    return NULL;
}

static void callers_share_one_program(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(affine, NULL, NULL);
    run_alike(f, call_one, j, NULL);
    assert_int_equal(stats_of(j).calls, THREADS * 30);
    assert_int_equal(stats_of(j).captures, 1);
    assert_int_equal(stats_of(j).programs, 1);
    if (fuses(f)) assert_true(stats_of(j).kernels_compiled > 0);
    kiln_function_free(&j);
}

// More kinds of calls than programs are kept: each is dropped while others run it.
static const char *call_many_shapes(struct job *job)
{
    for (int i = 0; i < 30; i++)
        if (!call_affine(job->f, job->j, 1 + (i + job->id) % 5, i)) return "a wrong sum";
    return NULL;
}

static void programs_are_evicted_while_others_run(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(affine, NULL, KILN_JIT(.cache_entries = 2, .recompile_limit = 1 << 20));
    run_alike(f, call_many_shapes, j, NULL);
    assert_int_equal(stats_of(j).calls, THREADS * 30);
    assert_int_equal(stats_of(j).programs, 2);
    assert_int_equal(stats_of(j).evictions, stats_of(j).captures - 2);
    assert_true(stats_of(j).evictions >= 3);
    kiln_function_free(&j);
}

// --- a function for each thread ---

// Another graph for each length: v / 2 + i, so many times; then folds over either dimension, which are kernels of their
// own.
static kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = in[0];
    for (int i = 0; i < *(const int *)user; i++) y = kiln_add(kiln_mul(y, kiln_scalar(0.5)), kiln_scalar(i));
    out[0] = kiln_sum(y, KILN_REDUCE(.axes = KILN_AXES(1)));
    out[1] = kiln_max(kiln_neg(y), KILN_REDUCE(.axes = KILN_AXES(0)));
    return kiln_error();
}

static bool call_chain(struct fixture *f, kiln_function *j, int length, double v)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = rows_of(f, 4, v), *out[2] = {NULL};
    for (int i = 0; i < length; i++) v = v / 2 + i;
    bool fine = !kiln_call(j, &x, 1, out, 2) && holds(out[0], 4, WIDTH * v) && holds(out[1], WIDTH, -v);
    kiln_scope_end(&scope);
    return fine;
}

// All make, call and free functions, some of them alike: kernels come and go while others ask for them.
static const char *make_and_free(struct job *job)
{
    for (int i = 0; i < 8; i++) {
        int length = 1 + (job->id / 2 + i) % 4;
        kiln_function *j = kiln_jit(chain, &length, NULL);
        bool fine = j && call_chain(job->f, j, length, i) && call_chain(job->f, j, length, -i);
        kiln_function_free(&j);
        if (!fine) return "a wrong chain";
    }
    return NULL;
}

static void functions_come_and_go_while_others_compile(void **state)
{
    struct fixture *f = *state;
    run_alike(f, make_and_free, NULL, NULL);
}

// Freed by its owner in the middle of a call: the call ends as if nothing had happened.
struct leaving {
    kiln_function *j;
    pthread_barrier_t called, freed;
};

static kiln_status waits(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct leaving *l = user;
    pthread_barrier_wait(&l->called);
    pthread_barrier_wait(&l->freed);
    return affine(NULL, in, n_in, out, n_out);
}

static const char *call_or_free(struct job *job)
{
    struct leaving *l = job->user;
    if (job->id == 0) return call_affine(job->f, job->j, 2, 3) ? NULL : "a wrong sum";
    pthread_barrier_wait(&l->called);
    kiln_function_free(&l->j);
    pthread_barrier_wait(&l->freed);
    return NULL;
}

static void free_in_the_middle_of_a_call(struct fixture *f, kiln_capture capture)
{
    struct leaving l;
    pthread_barrier_init(&l.called, NULL, 2);
    pthread_barrier_init(&l.freed, NULL, 2);
    l.j = kiln_jit(waits, &l, KILN_JIT(.capture = capture));
    struct job jobs[2];
    for (int i = 0; i < 2; i++) jobs[i] = (struct job){.f = f, .id = i, .j = l.j, .user = &l, .body = call_or_free};
    run_together(jobs, 2);
    assert_null(l.j);
    pthread_barrier_destroy(&l.called);
    pthread_barrier_destroy(&l.freed);
}

static void a_function_may_be_freed_while_a_call_runs(void **state)
{
    struct fixture *f = *state;
    free_in_the_middle_of_a_call(f, KILN_CAPTURE_STRICT);
    free_in_the_middle_of_a_call(f, KILN_CAPTURE_AUTO);
}

// --- in the background ---

static const char *call_in_background(struct job *job)
{
    for (int i = 0; i < 40; i++)
        if (!call_chain(job->f, job->j, *(int *)job->user, i + job->id)) return "a wrong chain";
    return NULL;
}

static void calls_go_on_while_the_background_compiles(void **state)
{
    struct fixture *f = *state;
    int length = 7;
    kiln_function *j = kiln_jit(chain, &length, KILN_JIT(.background = true));
    run_alike(f, call_in_background, j, &length);
    assert_int_equal(stats_of(j).captures, 1);
    assert_true(computes() || fuses(f)); // what does not look at code takes any
    // Single ops first; in the end fewer launches, where there is a compiler.
    for (int i = 0; i < 3000 && fuses(f); i++) {
        uint64_t before = launches_of(f);
        assert_true(call_chain(f, j, length, 1));
        // One fill, two reads of two launches each at most, and the program.
        if (launches_of(f) - before < (uint64_t)length) break;
        assert_true(i < 2999);
        usleep(10000);
    }
    kiln_function_free(&j);
}

// Nobody waits for what it compiles: it is freed at once.
static const char *leave_the_background(struct job *job)
{
    for (int i = 0; i < 4; i++) {
        int length = 8 + (job->id + i) % 4;
        kiln_function *j = kiln_jit(chain, &length, KILN_JIT(.background = true));
        bool fine = j && call_chain(job->f, j, length, i);
        kiln_function_free(&j);
        if (!fine) return "a wrong chain";
    }
    return NULL;
}

static void functions_are_freed_while_the_background_compiles(void **state)
{
    struct fixture *f = *state;
    run_alike(f, leave_the_background, NULL, NULL);
}

// --- whose kernels ---

static uint64_t compiled_on(struct fixture *f)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(f->dev, &s);
    return s.kernels_compiled;
}

// Functions of one graph, of which every thread has its own: each kernel is compiled for one of them.
struct owners {
    int length;
    kiln_function *j[THREADS];
};

static const char *call_ones_own(struct job *job)
{
    struct owners *o = job->user;
    for (int i = 0; i < 4; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_parameter(rows_of(job->f, 2 + i, 1), "x"), *out[2] = {NULL}; // programs of equal kernels
        bool fine = !kiln_call(o->j[job->id], &x, 1, out, 2) && !kiln_backward(kiln_sum(out[0], NULL), NULL);
        fine = fine && holds(kiln_gradient(x), (2 + i) * WIDTH, ldexp(1, -o->length));
        kiln_scope_end(&scope);
        if (!fine) return "a wrong gradient";
    }
    return NULL;
}

static void count_for_whom(struct fixture *f, int length, const kiln_jit_opts *opts)
{
    struct owners o = {.length = length};
    bool compiles = fuses(f);
    uint64_t before = compiled_on(f), sum = 0;
    for (int i = 0; i < THREADS; i++) o.j[i] = kiln_jit(chain, &o.length, opts);
    run_alike(f, call_ones_own, NULL, &o);
    for (int tries = 0; tries < 1000; tries++) { // what compiles in the background comes to an end
        uint64_t now = compiled_on(f);
        sum = 0;
        for (int i = 0; i < THREADS; i++) sum += stats_of(o.j[i]).kernels_compiled;
        if (sum == now - before && (sum || !compiles)) break;
        usleep(10000);
    }
    uint64_t all = compiled_on(f) - before;
    if (sum != all) fail_msg("%d kernels were compiled, %d are counted", (int)all, (int)sum);
    for (int i = 0; i < THREADS; i++) kiln_function_free(&o.j[i]);
}

// One of some functions no kernel of which is another's.
static kiln_status own_op(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    static kiln_tensor *(*const ops[THREADS])(kiln_tensor *) = {kiln_exp, kiln_tanh, kiln_sin,  kiln_sigmoid,
                                                                kiln_cos, kiln_exp2, kiln_sinh, kiln_cosh};
    kiln_tensor *y = ops[*(int *)user](kiln_mul(in[0], in[0]));
    out[0] = kiln_sum(kiln_mul(y, y), NULL);
    out[1] = y;
    return kiln_error();
}

static const char *call_own_op(struct job *job)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_parameter(rows_of(job->f, 2, 1), "x"), *out[2] = {NULL};
    kiln_function *const *j = job->user;
    bool fine = !kiln_call(j[job->id], &x, 1, out, 2) && !kiln_backward(kiln_sum(out[0], NULL), NULL);
    kiln_scope_end(&scope);
    return fine ? NULL : "no gradient";
}

// Side by side each is credited with what it is alone: no other's kernels.
static void kernels_are_counted_for_their_own_function(void **state)
{
    struct fixture *f = *state;
    int which[THREADS];
    kiln_function *j[THREADS];
    uint64_t before = compiled_on(f), sum = 0;
    for (int i = 0; i < THREADS; i++) {
        which[i] = i;
        j[i] = kiln_jit(own_op, &which[i], NULL);
    }
    run_alike(f, call_own_op, NULL, j);
    uint64_t own = stats_of(j[0]).kernels_compiled;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(stats_of(j[i]).kernels_compiled, own);
        sum += stats_of(j[i]).kernels_compiled;
        kiln_function_free(&j[i]);
    }
    assert_int_equal(sum, compiled_on(f) - before);
    assert_true(sum || !fuses(f));
}

static void kernels_are_counted_for_whom_they_are_compiled(void **state)
{
    struct fixture *f = *state;
    count_for_whom(f, 14, NULL);
    count_for_whom(f, 15, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    count_for_whom(f, 16, KILN_JIT(.background = true));
    count_for_whom(f, 17, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .background = true));
}

// --- looking on ---

static const char *look_on(struct job *job)
{
    uint64_t launches = 0;
    for (int i = 0; i < 20; i++) {
        char *text = NULL;
        size_t size;
        FILE *file = open_memstream(&text, &size);
        if (!file) return "no memory for an explanation";
        kiln_explain(job->j, file);
        fclose(file);
        bool fine = strstr(text, "threads.c") != NULL;
        free(text);
        kiln_jit_stats s = stats_of(job->j);
        uint64_t now = launches_of(job->f);
        fine &= now >= launches;
        launches = now;
        if (!fine || s.captures > s.calls) return "a wrong explanation";
    }
    return NULL;
}

static void look_while_others_call(struct fixture *f, kiln_function *j, const char *(*body)(struct job *))
{
    struct job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) jobs[i] = (struct job){.f = f, .id = i, .j = j, .body = i % 2 ? look_on : body};
    run_together(jobs, THREADS);
}

static void functions_are_explained_while_they_run(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(affine, NULL, KILN_JIT(.cache_entries = 2, .recompile_limit = 1 << 20));
    look_while_others_call(f, j, call_many_shapes);
    kiln_function_free(&j);
}

// --- AUTO ---

// Breaks in the middle; the branch depends on the thread.
static kiln_status branches(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = kiln_add(kiln_mul(in[0], kiln_scalar(3)), kiln_scalar(1));
    bool large = kiln_item(kiln_mean(y, NULL)) > 10;
    out[0] = kiln_sum(large ? kiln_neg(y) : kiln_mul(y, y), KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

static bool call_branches(struct fixture *f, kiln_function *j, int64_t rows, double v)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = rows_of(f, rows, v), *out = NULL;
    double y = 3 * v + 1;
    bool fine = !kiln_call(j, &x, 1, &out, 1) && holds(out, rows, WIDTH * (y > 10 ? -y : y * y));
    kiln_scope_end(&scope);
    return fine;
}

static const char *call_with_breaks(struct job *job)
{
    for (int i = 0; i < 30; i++)
        if (!call_branches(job->f, job->j, 1 + i % 3, job->id + i % 4)) return "a wrong branch";
    return NULL;
}

static void recordings_are_shared_evicted_and_explained(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(branches, NULL,
                                KILN_JIT(.capture = KILN_CAPTURE_AUTO, .cache_entries = 2, .recompile_limit = 1 << 20));
    run_alike(f, call_with_breaks, j, NULL);
    assert_int_equal(stats_of(j).calls, THREADS * 30);
    assert_true(stats_of(j).breaks >= 1);
    assert_true(stats_of(j).evictions > 0);
    look_while_others_call(f, j, call_with_breaks);
    kiln_function_free(&j);
}

static const char *use_regions(struct job *job)
{
    for (int i = 0; i < 10; i++) {
        double total = 0;
        KILN_CAPTURE(job->f->dev)
        {
            kiln_tensor *y = kiln_mul(rows_of(job->f, 2, i), kiln_scalar(job->id));
            total = kiln_item(kiln_sum(y, NULL));
        }
        if (computes() && total != 2. * WIDTH * i * job->id) return "a wrong total";
    }
    return NULL;
}

static void regions_are_shared(void **state)
{
    struct fixture *f = *state;
    run_alike(f, use_regions, NULL, NULL);
}

// A thread that compiles keeps no other from recording and running what is compiled already.
struct hot {
    kiln_function *j;
    int length; // of the next new chain: none is compiled twice
    atomic_bool done;
    _Atomic double last, longest; // when the last call ended, the longest time between two ends, in seconds
    double share;                 // of a compilation in which no call ended: of the one that held up least
};

enum { NEW_SEGMENTS = 8 };

static const char *call_until_done(struct job *job)
{
    struct hot *h = job->user;
    for (int i = 0; !atomic_load(&h->done); i++) {
        if (!call_branches(job->f, h->j, 3, i % 8)) return "a wrong branch";
        double now = clock_s(), gap = now - atomic_exchange(&h->last, now);
        if (gap > atomic_load(&h->longest)) atomic_store(&h->longest, gap);
    }
    return NULL;
}

static const char *compile_new_segments(struct job *job)
{
    struct hot *h = job->user;
    const char *failure = NULL;
    for (int i = 0; i < NEW_SEGMENTS && !failure; i++) {
        int length = h->length++;
        kiln_function *j = kiln_jit(chain, &length, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
        double from = clock_s();
        atomic_store(&h->longest, 0);
        if (!j || !call_chain(job->f, j, length, i)) failure = "a wrong chain";
        double to = clock_s(), gap = fmax(atomic_load(&h->longest), to - fmax(from, atomic_load(&h->last)));
        h->share = fmin(h->share, gap / (to - from));
        kiln_function_free(&j);
    }
    atomic_store(&h->done, true);
    return failure;
}

static void others_go_on_while_one_compiles(void **state)
{
    struct fixture *f = *state;
    struct hot h = {.j = kiln_jit(branches, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO)), .length = 30, .share = 1};
    for (int i = 0; i < 8; i++) assert_true(call_branches(f, h.j, 3, i));
    // A lock takes half of a compilation at least, and free threads wait for less than a sixth of one of them. Others
    // on the processors keep a thread waiting as well, but hardly each time.
    for (int tries = 0; tries < 6 && h.share > 0.3; tries++) {
        struct job jobs[] = {{.f = f, .user = &h, .body = call_until_done},
                             {.f = f, .user = &h, .body = compile_new_segments}};
        atomic_store(&h.done, false);
        atomic_store(&h.last, clock_s());
        run_together(jobs, 2);
    }
    if (computes() && fuses(f) && h.share > 0.3) fail_msg("no call ended for %.2f of a compilation", h.share);
    kiln_function_free(&h.j);
}

// What one thread has recorded is asked for, read and overwritten by others.
struct passed {
    kiln_tensor *source, *left[THREADS];
    pthread_barrier_t recorded, read;
};

static const char *leave_pending_values(struct job *job)
{
    struct passed *p = job->user;
    const char *failure = NULL;
    for (int i = 0; i < 15; i++) {
        KILN_CAPTURE(job->f->dev)
        {
            kiln_tensor *y = kiln_add(kiln_mul(p->source, kiln_scalar(job->id + 1)), kiln_scalar(i % 3));
            p->left[job->id] = kiln_own(kiln_neg(y));
            pthread_barrier_wait(&p->recorded);
            int next = (job->id + 1) % THREADS;
            // Some write what the others' values are still to be computed from.
            if (job->id == 0) kiln_add_(p->source, kiln_scalar(1));
            if (!holds(p->left[next], WIDTH, -((next + 1) * (double)i + i % 3)))
                failure = "a wrong value of another thread";
        }
        pthread_barrier_wait(&p->read);
        kiln_free(&p->left[job->id]);
    }
    return failure;
}

static void values_pass_between_threads(void **state)
{
    struct fixture *f = *state;
    struct passed p = {.source = kiln_zeros(f->dev, KILN_F32, KILN_SHAPE(WIDTH))};
    pthread_barrier_init(&p.recorded, NULL, THREADS);
    pthread_barrier_init(&p.read, NULL, THREADS);
    run_alike(f, leave_pending_values, NULL, &p);
    assert_true(holds(p.source, WIDTH, 15));
    pthread_barrier_destroy(&p.recorded);
    pthread_barrier_destroy(&p.read);
}

static _Thread_local int kind;

static kiln_status branches_of_a_kind(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *x = in[0];
    for (int i = 0; i < kind; i++) x = kiln_maximum(x, in[0]);
    return branches(user, &x, n_in, out, n_out);
}

// Too many kinds of calls: it gives up while others are on the way.
static const char *call_too_many_kinds(struct job *job)
{
    for (int i = 0; i < 20; i++) {
        kind = i + 20 * job->id; // no two alike
        if (!call_branches(job->f, job->j, 2, 1)) return "a wrong branch";
    }
    return NULL;
}

static void giving_up_is_seen_by_all(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(branches_of_a_kind, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .recompile_limit = 5));
    run_alike(f, call_too_many_kinds, j, NULL);
    assert_true(stats_of(j).fallbacks > 0);
    kiln_function_free(&j);
    j = kiln_jit(branches, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO, .pure_host = true));
    run_alike(f, call_with_breaks, j, NULL);
    assert_int_equal(stats_of(j).calls, THREADS * 30);
    kiln_function_free(&j);
}

// --- modes ---

// Even threads run graphs, odd ones do not, and both switch on the way. A cell belongs to one thread.
static const char *switch_modes(struct job *job)
{
    kiln_cell *cell = kiln_nn_dense(job->f->dev, WIDTH, 2, KILN_NN_DENSE(.weight_init = "ones", .bias_init = "zeros"));
    bool fine = cell != NULL;
    for (int i = 0; i < 20 && fine; i++) {
        kiln_mode mode = (i / 5 + job->id) % 2 ? KILN_MODE_EAGER : KILN_MODE_GRAPH;
        kiln_set_mode(mode);
        fine = call_affine(job->f, job->j, 2, i);
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *y = kiln_cell_call(cell, rows_of(job->f, 2, i));
        fine &= holds(y, 4, WIDTH * i);
        kiln_scope_end(&scope);
        fine &= kiln_get_mode() == mode;
        kiln_set_mode(KILN_MODE_EAGER);
    }
    kiln_jit_stats s = {.size = sizeof s};
    if (fine) kiln_function_stats(kiln_cell_function(cell), &s);
    kiln_cell_free(&cell);
    return fine && s.calls == 10 ? NULL : "a wrong result of a mode";
}

static void silent(void *user, const char *message) {}

static void modes_belong_to_threads(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(affine, NULL, KILN_JIT(.capture = KILN_CAPTURE_AUTO));
    kiln_set_log(silent, NULL); // of AUTO in graph mode
    run_alike(f, switch_modes, j, NULL);
    kiln_set_log(NULL, NULL);
    assert_int_equal(kiln_get_mode(), KILN_MODE_EAGER);
    assert_int_equal(stats_of(j).calls, THREADS * 20);
    kiln_function_free(&j);
}

// --- gradients ---

// d/dw sum((x w)^2) = 2 w sum(x^2), on weights of one's own: the backward program is compiled by the first who asks.
static kiln_status squared(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_square(kiln_mul(in[0], in[1])), NULL);
    return kiln_error();
}

static const char *differentiate(struct job *job)
{
    for (int i = 0; i < 15; i++) {
        kiln_scope *scope = kiln_scope_begin();
        double v = 1 + job->id;
        kiln_tensor *w = kiln_parameter(kiln_full(job->f->dev, KILN_F32, KILN_SHAPE(WIDTH), v), "w");
        kiln_tensor *in[] = {rows_of(job->f, 2, i), w}, *loss = NULL;
        bool fine = !kiln_call(job->j, in, 2, &loss, 1) && !kiln_backward(loss, NULL) &&
                    holds(loss, 1, 2 * WIDTH * i * i * v * v) && holds(kiln_gradient(w), WIDTH, 2 * v * 2 * i * i);
        kiln_scope_end(&scope);
        if (!fine) return "a wrong gradient";
    }
    return NULL;
}

static void gradients_share_one_backward_program(void **state)
{
    struct fixture *f = *state;
    kiln_function *j = kiln_jit(squared, NULL, NULL);
    run_alike(f, differentiate, j, NULL);
    assert_int_equal(stats_of(j).calls, THREADS * 15);
    look_while_others_call(f, j, differentiate);
    kiln_function_free(&j);
}

// Each thread captures functions of its own, in which all read one weight.
static kiln_status weighted(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_mul(in[0], user), KILN_REDUCE(.axes = KILN_AXES(1)));
    return kiln_error();
}

static const char *capture_with_weight(struct job *job)
{
    for (int i = 0; i < 8; i++) {
        kiln_function *j = kiln_jit(weighted, job->user, NULL);
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = rows_of(job->f, 3, i), *out = NULL;
        bool fine = j && !kiln_call(j, &x, 1, &out, 1) && holds(out, 3, WIDTH * 5. * i);
        kiln_scope_end(&scope);
        kiln_function_free(&j);
        if (!fine) return "a wrong product";
    }
    return NULL;
}

static void captures_read_one_parameter(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *w = kiln_parameter(kiln_full(f->dev, KILN_F32, KILN_SHAPE(WIDTH), 5), "w");
    run_alike(f, capture_with_weight, NULL, w);
    assert_null(kiln_gradient(w));
    ok(kiln_set_gradient(w, kiln_ones(f->dev, KILN_F32, KILN_SHAPE(WIDTH))));
    run_alike(f, capture_with_weight, NULL, w);
    assert_true(holds(kiln_gradient(w), WIDTH, 1));
}

// Some give it gradients meanwhile, on the tape of each.
static const char *give_gradients(struct job *job)
{
    for (int i = 0; i < 100; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = rows_of(job->f, 3, 1);
        kiln_tensor *loss = kiln_sum(kiln_mul(x, job->user), NULL);
        kiln_status status = kiln_backward_with(loss, KILN_BACKWARD(.accumulate = true));
        kiln_scope_end(&scope);
        if (status) return "no gradient";
    }
    return NULL;
}

static void captures_read_what_others_give_gradients(void **state)
{
    struct fixture *f = *state;
    kiln_tensor *w = kiln_parameter(kiln_full(f->dev, KILN_F32, KILN_SHAPE(WIDTH), 5), "w");
    struct job jobs[2 * THREADS];
    for (int i = 0; i < 2 * THREADS; i++)
        jobs[i] = (struct job){.f = f, .id = i, .user = w, .body = i % 2 ? capture_with_weight : give_gradients};
    run_together(jobs, 2 * THREADS);
    assert_true(holds(kiln_gradient(w), WIDTH, THREADS * 100 * 3.)); // none was lost
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FIXTURE(callers_share_one_program),
        FIXTURE(programs_are_evicted_while_others_run),
        FIXTURE(functions_come_and_go_while_others_compile),
        FIXTURE(a_function_may_be_freed_while_a_call_runs),
        FIXTURE(calls_go_on_while_the_background_compiles),
        FIXTURE(functions_are_freed_while_the_background_compiles),
        FIXTURE(kernels_are_counted_for_whom_they_are_compiled),
        FIXTURE(kernels_are_counted_for_their_own_function),
        FIXTURE(functions_are_explained_while_they_run),
        FIXTURE(recordings_are_shared_evicted_and_explained),
        FIXTURE(regions_are_shared),
        FIXTURE(others_go_on_while_one_compiles),
        FIXTURE(values_pass_between_threads),
        FIXTURE(giving_up_is_seen_by_all),
        FIXTURE(modes_belong_to_threads),
        FIXTURE(gradients_share_one_backward_program),
        FIXTURE(captures_read_one_parameter),
        FIXTURE(captures_read_what_others_give_gradients),
    };
    if (choose_device(argc, argv)) return 77;
    setenv("KILN_CACHE_DIR", "/dev/null/none", 1); // where no file can be: what is asked for is compiled here
    return cmocka_run_group_tests(tests, NULL, NULL);
}
