// Threads that end with scopes open, and default devices that other threads close.
#include "guest.h"

static char heard[4][400];
static int n_heard;

static void listen(void *user, const char *message)
{
    (void)user;
    if (n_heard < 4) snprintf(heard[n_heard], sizeof heard[0], "%s", message);
    n_heard++;
}

static void run(void *(*fn)(void *), void *user)
{
    pthread_t thread;
    NEED(!pthread_create(&thread, NULL, fn, user));
    NEED(!pthread_join(thread, NULL));
}

static uint64_t tensors(void)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    return s.tensors;
}

static int line;

static void *leave_scopes_open(void *parameter)
{
    kiln_scope *outer = kiln_scope_begin();
    line = __LINE__ - 1;
    kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(1000));
    kiln_scope *inner = kiln_scope_begin();
    kiln_tensor *loss = kiln_sum(kiln_mul(kiln_mul(x, x), (kiln_tensor *)parameter), NULL);
    NEED(loss != NULL && outer != inner);
    return NULL;
}

static void *leave_one_by_exit(void *unused)
{
    kiln_scope *scope = kiln_scope_begin();
    NEED(scope && kiln_ones(dev, KILN_F32, KILN_SHAPE(10)));
    pthread_exit(unused);
}

static void scopes_end_with_their_thread(void)
{
    char place[64];
    kiln_tensor *w = kiln_parameter(kiln_ones(dev, KILN_F32, KILN_SHAPE(1000)), "w");
    uint64_t before = tensors();
    for (int i = 0; i < 50; i++) run(leave_scopes_open, w);
    NEED(tensors() == before);
    snprintf(place, sizeof place, "2 open scopes, begun at threads.c:%d", line);
    NEED(n_heard == 1 && strstr(heard[0], place)); // the same line is told once
    run(leave_one_by_exit, NULL);
    NEED(tensors() == before && n_heard == 2 && strstr(heard[1], "1 open scope,"));
    kiln_free(&w);
}

static void *leave_region_open(void *exits)
{
    kiln_capture_region *region = kiln_capture_begin(dev, __FILE__, __LINE__);
    line = __LINE__ - 1;
    NEED(region && kiln_add(kiln_ones(dev, KILN_F32, KILN_SHAPE(1000)), kiln_scalar(1)));
    if (exits) pthread_exit(NULL);
    return NULL;
}

static void *leave_both_open(void *state)
{
    kiln_scope *scope = kiln_scope_begin();
    line = __LINE__ - 1;
    kiln_capture_region *outer = kiln_capture_begin(dev, __FILE__, __LINE__);
    kiln_capture_region *inner = kiln_capture_begin(dev, __FILE__, __LINE__);
    NEED(scope && outer && inner && kiln_scope_begin());
    NEED(!kiln_add_(state, kiln_scalar(1))); // what was written is done
    return NULL;
}

static void *leave_block(void *unused)
{
    KILN_CAPTURE(dev)
    {
        NEED(kiln_add(kiln_ones(dev, KILN_F32, KILN_SHAPE(1000)), kiln_scalar(1)));
        pthread_exit(unused);
    }
    return NULL;
}

static void regions_end_with_their_thread(void)
{
    char place[100];
    kiln_tensor *state = kiln_zeros(dev, KILN_F32, KILN_SHAPE0);
    uint64_t before = tensors();
    n_heard = 0;
    for (int i = 0; i < 6; i++) run(leave_region_open, i % 2 ? state : NULL);
    NEED(tensors() == before);
    snprintf(place, sizeof place, "1 open capture region, begun at threads.c:%d", line);
    NEED(n_heard == 1 && strstr(heard[0], place));
    for (int i = 0; i < 3; i++) run(leave_both_open, state);
    NEED(tensors() == before && kiln_item(state) == 3);
    snprintf(place, sizeof place, "4 open scopes and capture regions, begun at threads.c:%d", line);
    NEED(n_heard == 2 && strstr(heard[1], place));
    run(leave_block, NULL);
    NEED(tensors() == before && n_heard == 2);
    kiln_free(&state);
}

static pthread_barrier_t meeting;

static void *keep_default(void *other)
{
    NEED(!kiln_set_device(other));
    pthread_barrier_wait(&meeting);
    pthread_barrier_wait(&meeting); // closed by now
    kiln_tensor *x = kiln_ones(NULL, KILN_F32, KILN_SHAPE(2));
    NEED(!x && kiln_error() == KILN_E_STATE && strstr(kiln_error_message(), "default device"));
    NEED(strstr(kiln_error_message(), "null")); // its name
    kiln_error_clear();
    NEED(!kiln_set_device(dev));
    x = kiln_ones(NULL, KILN_F32, KILN_SHAPE(2));
    NEED(x && kiln_tensor_device(x) == dev);
    kiln_free(&x);
    return NULL;
}

static void defaults_do_not_dangle(void)
{
    pthread_t thread = 0;
    kiln_device *other = kiln_device_open("null");
    pthread_barrier_init(&meeting, NULL, 2);
    NEED(other && !pthread_create(&thread, NULL, keep_default, other));
    pthread_barrier_wait(&meeting);
    kiln_device_close(&other);
    pthread_barrier_wait(&meeting);
    NEED(!pthread_join(thread, NULL));
}

static void closing_twice_is_an_error(void)
{
    for (int alive = 0; alive < 2; alive++) { // with a tensor the device lives on inside
        kiln_device *other = kiln_device_open("null"), *copy = other, *again = other;
        kiln_tensor *x = alive ? kiln_ones(other, KILN_F32, KILN_SHAPE(2)) : NULL;
        kiln_device_close(&other);
        NEED(!other && !kiln_error());
        kiln_device_close(&copy);
        NEED(kiln_error() == KILN_E_HANDLE && strstr(kiln_error_message(), "device_close: "));
        kiln_error_clear();
        NEED(kiln_set_device(again) == KILN_E_HANDLE);
        kiln_error_clear();
        kiln_free(&x);
    }
}

int main(void)
{
    kiln_set_log(listen, NULL);
    dev = kiln_device_open("cpu");
    NEED(dev != NULL);
    scopes_end_with_their_thread();
    regions_end_with_their_thread();
    defaults_do_not_dangle();
    closing_twice_is_an_error();
    kiln_device_close(&dev);
    return 0;
}
