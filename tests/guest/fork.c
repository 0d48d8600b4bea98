// usage: fork [DEVICE]: children of a process that has used the library go on using it. Kernels are compiled in each.
#include "guest.h"

#include <kiln/data.h>

enum { LIMIT_S = 60 };

static pid_t child_that(void (*act)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        act();
        exit(0);
    }
    return child;
}

static void work_in_child(void)
{
    work_anew(3); // compiled in the parent
    work_anew(5);
}

static void *work_in_thread(void *unused)
{
    work_anew(7);
    return unused;
}

static void work_in_threads_of_child(void)
{
    pthread_t threads[2];
    work_in_thread(NULL);
    for (int i = 0; i < 2; i++) NEED(!pthread_create(&threads[i], NULL, work_in_thread, NULL));
    for (int i = 0; i < 2; i++) NEED(!pthread_join(threads[i], NULL));
}

static void fork_again(void)
{
    work_anew(3);
    expect_end(child_that(work_in_child), LIMIT_S, 0);
}

// --- the parent has threads at work, which hold locks, compile, and are not there in the child

static atomic_bool stop;

static void *keep_working(void *number)
{
    for (int i = 0; !atomic_load(&stop); i++) work_anew(1 + (i * 4 + *(const int *)number) % 15);
    return NULL;
}

static void children_of_a_busy_process(int n)
{
    static const int numbers[] = {0, 1, 2, 3};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) NEED(!pthread_create(&threads[i], NULL, keep_working, (void *)&numbers[i]));
    for (int i = 0; i < n; i++) {
        sleep_ms(20);
        expect_end(child_that(work_in_child), LIMIT_S, 0);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++) NEED(!pthread_join(threads[i], NULL));
}

// --- in the midst of things

static kiln_status fork_inside(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = kiln_mul(in[0], in[0]);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        NEED(!pthread_create(&thread, NULL, work_in_thread, NULL)); // this thread is in a capture
        NEED(!pthread_join(thread, NULL));
        _exit(0);
    }
    expect_end(child, LIMIT_S, 0);
    return kiln_error();
}

static void children_of_a_capture(void)
{
    kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(3), 3), *y = NULL;
    kiln_function *f = kiln_jit(fork_inside, NULL, NULL);
    NEED(!kiln_call(f, &x, 1, &y, 1) && kiln_item(kiln_sum(y, NULL)) == 27);
    kiln_function_free(&f);
    kiln_free(&x);
    kiln_free(&y);
}

static kiln_function *background;

static void call_background(void)
{
    static int n = 15;
    kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(4), 2), *y = NULL;
    if (!background) background = kiln_jit(chain, &n, KILN_JIT(.background = true));
    NEED(!kiln_call(background, &x, 1, &y, 1) && kiln_item(y) == 4 * chain_of_2(n));
    kiln_free(&x);
    kiln_free(&y);
}

// Its compilation was begun by a thread of the parent.
static void end_background(void)
{
    call_background();
    kiln_function_free(&background);
    work_in_child();
}

// --- the loader's thread

static kiln_loader *loader;

static void expect_batches(int from)
{
    bool more = true;
    for (int i = from; i < 10; i++) {
        kiln_tensor *batch = NULL;
        NEED(!kiln_loader_next(loader, &batch, 1, &more) && more);
        NEED(kiln_item(kiln_sum(batch, NULL)) == 2 * i * 2 + 1);
        kiln_free(&batch);
    }
}

static void load_the_rest(void)
{
    expect_batches(3);
    kiln_loader_free(&loader);
}

static void children_of_a_loader(void)
{
    kiln_tensor *numbers = kiln_arange(dev, KILN_F32, 0, 20, 1), *batch = NULL;
    bool more = false;
    loader = kiln_loader_create(dev, &numbers, 1, KILN_LOADER(.batch = 2, .prefetch = 4));
    for (int i = 0; i < 3; i++) {
        NEED(!kiln_loader_next(loader, &batch, 1, &more) && more);
        kiln_free(&batch);
    }
    sleep_ms(20); // its thread waits for room, with four batches ahead
    expect_end(child_that(load_the_rest), LIMIT_S, 0);
    load_the_rest();
    kiln_free(&numbers);
}

// --- a device whose driver stays with the parent

static void be_refused(void)
{
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(4));
    NEED(!x && kiln_error() == KILN_E_STATE && strstr(kiln_error_message(), "forked"));
    kiln_error_clear();
    kiln_device *again = kiln_device_open("vulkan");
    NEED(!again && kiln_error() == KILN_E_STATE && strstr(kiln_error_message(), "forked"));
    kiln_error_clear();
    kiln_device_close(&dev);
    dev = kiln_device_open("cpu");
    work_anew(3);
    _exit(0); // handlers of drivers wait for threads that are not here
}

int main(int argc, char **argv)
{
    dev = kiln_device_open(argc > 1 ? argv[1] : "cpu");
    if (!dev && kiln_error() == KILN_E_MISSING) return 77;
    NEED(dev != NULL);
    work_anew(3);
    if (argc > 1) {
        expect_end(child_that(be_refused), LIMIT_S, 0);
        work_anew(5);
        return 0;
    }
    expect_end(child_that(work_in_child), LIMIT_S, 0);
    expect_end(child_that(work_in_threads_of_child), LIMIT_S, 0);
    expect_end(child_that(fork_again), LIMIT_S, 0);
    children_of_a_capture();
    children_of_a_loader();
    call_background();
    expect_end(child_that(end_background), LIMIT_S, 0);
    kiln_function_free(&background);
    children_of_a_busy_process(10);
    work_anew(9);
    kiln_device_close(&dev);
    return 0;
}
