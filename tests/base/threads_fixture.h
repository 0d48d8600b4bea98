// What the tests of threads share: jobs that start together, tensors of equal elements.
#pragma once
#include "../jit/jit_fixture.h"
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 8, WIDTH = 8 };

// What a thread does, and why it failed. A thread may not assert: cmocka jumps to the thread of the test.
struct job {
    struct fixture *f;
    int id;
    kiln_function *j;
    void *user;
    const char *(*body)(struct job *);
    const char *failure;
    char error[256];
};

static pthread_barrier_t start;

static inline void *run_job(void *at)
{
    struct job *job = at;
    kiln_scope *scope = kiln_scope_begin();
    pthread_barrier_wait(&start);
    job->failure = job->body(job);
    if (kiln_error()) {
        snprintf(job->error, sizeof job->error, "%s", kiln_error_message());
        job->failure = job->error;
        kiln_error_clear();
    }
    kiln_scope_end(&scope);
    return NULL;
}

// Starts them at one time and waits for all.
static inline void run_together(struct job *jobs, int n)
{
    pthread_t threads[2 * THREADS];
    pthread_barrier_init(&start, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < n; i++)
        if (jobs[i].failure) fail_msg("thread %d: %s", i, jobs[i].failure);
}

static inline void run_alike(struct fixture *f, const char *(*body)(struct job *), kiln_function *j, void *user)
{
    struct job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) jobs[i] = (struct job){.f = f, .id = i, .j = j, .user = user, .body = body};
    run_together(jobs, THREADS);
}

static inline bool computes(void)
{
    return strcmp(jit_device, "null") != 0;
}

// Whether all elements are `want`, as far as the device computes.
static inline bool holds(kiln_tensor *t, int64_t n, double want)
{
    double v[256];
    if (!t || kiln_numel(t) != n) return false;
    read_all(t, v);
    for (int64_t i = 0; i < n && computes(); i++)
        if (!(fabs(v[i] - want) <= 1e-5 * (1 + fabs(want)))) return false;
    return true;
}

static inline kiln_tensor *rows_of(struct fixture *f, int64_t rows, double v)
{
    return kiln_full(f->dev, KILN_F32, KILN_SHAPE(rows, WIDTH), v);
}
