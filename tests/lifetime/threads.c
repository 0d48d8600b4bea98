// What is per thread and what is shared.
#include "lifetime.h"

#include <pthread.h>

#define THREADS 4

static void run(void *(*fn)(void *), void *user)
{
    pthread_t thread;
    void *failure = NULL;
    assert_int_equal(pthread_create(&thread, NULL, fn, user), 0);
    assert_int_equal(pthread_join(thread, &failure), 0);
    if (failure) fail_msg("%s", (const char *)failure);
}

static void *own_error(void *user)
{
    if (kiln_error()) return (void *)"a thread begins with another's error";
    kiln_tensor *t = kiln_ones(dev, KILN_F32, KILN_SHAPE(2)), *bad = kiln_reshape(t, KILN_SHAPE(3));
    const char *failure = NULL;
    if (bad || kiln_error() != KILN_E_SHAPE) failure = "no error of its own";
    if (!strstr(kiln_error_message(), "reshape: ")) failure = "another's message";
    kiln_free(&t);
    return (void *)failure;
}

void errors_are_per_thread(void **state)
{
    assert_null(kiln_matmul(NULL, NULL));
    run(own_error, NULL);
    expect_error(KILN_E_ARGUMENT, "matmul: ", "threads.c:");
    run(own_error, NULL);
    EXPECT_NO_ERROR();
}

static void *own_settings(void *user)
{
    kiln_device *null = user;
    if (!kiln_grad_enabled()) return (void *)"no-grad of another thread";
    if (kiln_get_device() == null) return (void *)"the default device of another thread";
    kiln_tensor *t = kiln_ones(NULL, KILN_F32, KILN_SHAPE(2));
    const char *failure = t && kiln_tensor_device(t) == dev ? NULL : "not on the first device that was opened";
    kiln_free(&t);
    return (void *)failure;
}

void settings_are_per_thread(void **state)
{
    kiln_device *null = kiln_device_open("null");
    assert_int_equal(kiln_set_device(null), KILN_OK);
    kiln_no_grad_begin();
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = kiln_ones(NULL, KILN_F32, KILN_SHAPE(2));
    assert_ptr_equal(kiln_tensor_device(t), null);
    // A scope that is open here owns nothing that is made there: own_settings frees it itself.
    run(own_settings, null);
    kiln_scope_end(&scope);
    kiln_no_grad_end();
    assert_int_equal(kiln_set_device(dev), KILN_OK);
    kiln_device_close(&null);
}

struct share {
    kiln_tensor *weight, *constant;
    int number;
    double loss, gradient;
    const char *failure;
};

// The gradient of sum((n w + c)^2) by a parameter of its own, twenty times over.
static void *compute(void *user)
{
    struct share *s = user;
    for (int i = 0; i < 20 && !s->failure; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *n = kiln_parameter(kiln_full(dev, KILN_F32, KILN_SHAPE0, s->number), "n");
        kiln_tensor *y = kiln_add(kiln_mul(s->weight, n), s->constant);
        kiln_tensor *loss = kiln_sum(kiln_square(y), NULL);
        kiln_backward(loss, NULL);
        s->loss = kiln_item(loss);
        s->gradient = kiln_item(kiln_gradient(n));
        if (kiln_error()) s->failure = "an op failed";
        // w is 0 .. 63, c is 1.
        double sum = 0, slope = 0;
        for (int k = 0; k < 64; k++) {
            sum += (s->number * k + 1) * (s->number * k + 1);
            slope += 2.0 * (s->number * k + 1) * k;
        }
        if (s->loss != sum || s->gradient != slope) s->failure = "wrong numbers";
        kiln_scope_end(&scope);
    }
    return (void *)s->failure;
}

void threads_share_tensors(void **state)
{
    struct share shares[THREADS] = {0};
    pthread_t threads[THREADS];
    kiln_tensor *w = kiln_arange(dev, KILN_F32, 0, 64, 1), *c = kiln_ones(dev, KILN_F32, KILN_SHAPE(64));
    for (int i = 0; i < THREADS; i++) {
        shares[i] = (struct share){.weight = w, .constant = c, .number = i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, compute, &shares[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failure = NULL;
        assert_int_equal(pthread_join(threads[i], &failure), 0);
        if (failure) fail_msg("thread %d: %s (%g, %g)", i, (const char *)failure, shares[i].loss, shares[i].gradient);
    }
    kiln_free(&w);
    kiln_free(&c);
}

static kiln_status broken_sample(void *user, int64_t index, void *row, size_t row_B)
{
    if (index == 2) return KILN_E_IO;
    memset(row, 0, row_B);
    return KILN_OK;
}

void errors_of_library_threads_reach_the_caller(void **state)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_loader *loader = kiln_loader_create(dev, NULL, 0, KILN_LOADER(.batch = 1, .prefetch = 2));
    assert_int_equal(kiln_loader_add_fn(loader, KILN_F32, KILN_SHAPE(4, 3), broken_sample, NULL), KILN_OK);
    kiln_tensor *batch = NULL;
    bool more = false;
    // The third sample fails on the loader's thread, ahead of the second call here.
    for (int i = 0; i < 2; i++) assert_int_equal(kiln_loader_next(loader, &batch, 1, &more), KILN_OK);
    EXPECT_NO_ERROR();
    assert_int_equal(kiln_loader_next(loader, &batch, 1, &more), KILN_E_IO);
    assert_null(batch);
    expect_error(KILN_E_IO, "sample 2", "(threads.c:");
    kiln_loader_free(&loader);
    kiln_scope_end(&scope);
}

static void *free_it(void *user)
{
    kiln_tensor **t = user;
    kiln_free(t);
    return *t || kiln_error() ? (void *)"it was not freed" : NULL;
}

void handles_may_be_freed_on_another_thread(void **state)
{
    uint64_t before = stats_now().tensors;
    for (int i = 0; i < 50; i++) {
        kiln_tensor *t = kiln_ones(dev, KILN_F32, KILN_SHAPE(3));
        run(free_it, &t);
        assert_null(t);
    }
    assert_int_equal(stats_now().tensors, before);
}
