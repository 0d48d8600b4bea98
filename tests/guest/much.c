// usage: much WHAT: much of one thing. "signals": a timer that interrupts every system call; "handles": a million of
// them; "tape": a million ops to differentiate; "shapes": a captured function of a hundred thousand shapes; for
// patience: "elements": 2^32 of them; "wide-shapes": more and less than 2^32 of them in turns, captured; "soak": ten
// minutes of everything.
#include "../clock.h"
#include "guest.h"

#include <errno.h>
#include <kiln/io.h>
#include <kiln/nn.h>
#include <kiln/optim.h>
#include <sys/time.h>

static uint64_t resident_B(void)
{
    unsigned long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    NEED(f && fscanf(f, "%lu %lu", &size, &resident) == 2);
    fclose(f);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t tensors(void)
{
    kiln_device_stats s = {.size = sizeof s};
    kiln_device_get_stats(dev, &s);
    return s.tensors;
}

// --- signals

static atomic_long n_signals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&n_signals, 1);
}

static void save_and_load(void)
{
    char path[] = "/tmp/kiln-much-XXXXXX";
    int fd = mkstemp(path);
    NEED(fd >= 0 && !close(fd));
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_arange(dev, KILN_F32, 0, 200000, 1);
    NEED(!kiln_npy_save(path, x));
    kiln_tensor *y = kiln_npy_load(dev, path);
    NEED(y && kiln_item(kiln_max(kiln_abs(kiln_sub(x, y)), NULL)) == 0);
    const char *names[] = {"x"};
    NEED(!kiln_safetensors_save(path, names, &x, 1));
    kiln_archive *archive = kiln_safetensors_load(path);
    NEED(archive && (y = kiln_archive_get(archive, dev, "x")));
    NEED(kiln_item(kiln_max(kiln_abs(kiln_sub(x, y)), NULL)) == 0);
    kiln_archive_free(&archive);
    kiln_scope_end(&scope);
    NEED(!unlink(path));
}

// Without SA_RESTART: what waits or writes is interrupted, again and again.
static void run_under_signals(void)
{
    struct sigaction act = {.sa_handler = count_signal};
    struct itimerval every = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    NEED(!sigaction(SIGALRM, &act, NULL) && !setitimer(ITIMER_REAL, &every, NULL));
    kiln_device *again = kiln_device_open("cpu");
    NEED(again != NULL);
    for (int i = 1; i <= 6 || atomic_load(&n_signals) < 300; i++) {
        work_anew(1 + i % 15);
        save_and_load();
    }
    NEED(!kiln_device_synchronize(dev));
    kiln_device_close(&again);
    NEED(!setitimer(ITIMER_REAL, &never, NULL));
}

// --- handles

enum { MILLION = 1000000 };

static void hold_a_million_handles(void)
{
    uint64_t before = tensors(), empty_B = resident_B();
    kiln_tensor **all = malloc(MILLION * sizeof *all), *sum = kiln_zeros(dev, KILN_I64, KILN_SHAPE0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MILLION; i++) NEED((all[i] = kiln_full(dev, KILN_I32, KILN_SHAPE(1), i)));
        NEED(tensors() == before + MILLION + 1 && resident_B() - empty_B < 2000000000);
        for (int i = 0; i < MILLION; i += 99991) NEED(kiln_item_int(all[i]) == i);
        for (int i = 0; i < MILLION; i++) kiln_free(&all[(i * 7919L) % MILLION]); // in no order
        NEED(tensors() == before + 1);
    }
    kiln_scope *scope = kiln_scope_begin();
    for (int i = 0; i < MILLION; i++) NEED(kiln_reshape(sum, KILN_SHAPE(1, 1)));
    kiln_scope_end(&scope);
    NEED(tensors() == before + 1);
    kiln_free(&sum);
    free(all);
}

// --- the tape

static void *go_back_a_million_ops(void *unused)
{
    kiln_tensor *w = kiln_parameter(kiln_full(dev, KILN_F32, KILN_SHAPE(1), 3), "w"), *x = kiln_mul(w, w);
    for (int i = 0; i < MILLION; i++) {
        kiln_tensor *y = i % 2 ? kiln_neg(x) : kiln_add(x, w);
        kiln_free(&x);
        NEED((x = y));
    }
    // ...-(-(w^2 + w) + w) + ...: an even number of signs, and every second w is taken back.
    NEED(!kiln_backward(x, NULL) && kiln_item(kiln_gradient(w)) == 6);
    kiln_free(&x);
    // Once more, and nobody goes back: the tape goes with its last handle.
    x = kiln_mul(w, w);
    for (int i = 0; i < MILLION; i++) {
        kiln_tensor *y = kiln_neg(x);
        kiln_free(&x);
        NEED((x = y));
    }
    kiln_free(&x);
    kiln_free(&w);
    return unused;
}

// A thread's stack is small here.
static void differentiate_a_million_ops(void)
{
    pthread_attr_t small;
    pthread_t thread;
    NEED(!pthread_attr_init(&small) && !pthread_attr_setstacksize(&small, 256 << 10));
    NEED(!pthread_create(&thread, &small, go_back_a_million_ops, NULL) && !pthread_join(thread, NULL));
}

// --- shapes

static void call_with_many_shapes(int n)
{
    int links = 2;
    kiln_jit_stats stats = {.size = sizeof stats};
    uint64_t warm_B = 0;
    kiln_function *f = kiln_jit(chain, &links, KILN_JIT(.cache_B = 8 << 20)); // each is captured, some are kept
    for (int i = 1; i <= n; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_ones(dev, KILN_F32, KILN_SHAPE(i % 331 + 1, i / 331 + 1)), *y = NULL;
        NEED(!kiln_call(f, &x, 1, &y, 1));
        NEED(kiln_item(y) == 3 * (double)kiln_numel(x));
        kiln_scope_end(&scope);
        if (i == n / 10) warm_B = resident_B();
    }
    kiln_function_stats(f, &stats);
    printf("%d shapes: %llu captures, %llu programs of %llu KiB, resident %+lld KiB after the first tenth\n", n,
           (unsigned long long)stats.captures, (unsigned long long)stats.programs,
           (unsigned long long)stats.program_B / 1024, ((long long)resident_B() - (long long)warm_B) / 1024);
    NEED(stats.captures == (uint64_t)n && stats.reused == stats.captures - 1 && !stats.fallbacks);
    NEED(stats.programs > 100 && stats.program_B <= 8 << 20 && resident_B() < warm_B + (64 << 20));
    kiln_function_free(&f);
}

// --- for patience

static void fill_two_to_the_32(void)
{
    const int64_t n = (int64_t)1 << 32;
    kiln_tensor *x = kiln_full(dev, KILN_U8, KILN_SHAPE(n), 1);
    if (!x && (kiln_error() == KILN_E_DEVICE_MEMORY || kiln_error() == KILN_E_MEMORY)) exit(77);
    kiln_scope *scope = kiln_scope_begin();
    NEED(x && kiln_numel(x) == n);
    kiln_tensor *end = kiln_slice(x, KILN_SLICE(.start = KILN_ARGS(n - 3), .stop = KILN_ARGS(n)));
    NEED(!kiln_assign(end, kiln_full(dev, KILN_U8, KILN_SHAPE(3), 5)));
    NEED(kiln_item_int(kiln_sum(kiln_astype(end, KILN_I64), NULL)) == 15);
    NEED(kiln_item_int(kiln_max(x, NULL)) == 5);
    NEED(kiln_item_int(kiln_argmax(x, NULL)) == n - 3);
    kiln_tensor *folded = kiln_reshape(x, KILN_SHAPE(1 << 16, 1 << 16));
    NEED(kiln_item_int(kiln_max(
             kiln_slice(folded, KILN_SLICE(.start = KILN_ARGS(0, 0), .stop = KILN_ARGS(65535, 65536))), NULL)) == 1);
    kiln_scope_end(&scope);
    kiln_free(&x);
}

static kiln_status count_and_shift(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    out[0] = kiln_sum(kiln_cast(in[0], KILN_I64), NULL);
    out[1] = kiln_narrow(kiln_add(in[0], kiln_scalar_int(3)), 0, kiln_dim(in[0], 0) - 2, 2);
    return kiln_error();
}

// Sizes on both sides of 2^31 and 2^32, one program after the other.
static void sizes_beyond_32_bits(void)
{
    static const int64_t sizes[] = {5,  (INT64_C(1) << 31) + 3, 7, (INT64_C(1) << 32) + 1, (INT64_C(1) << 31) - 1,
                                    64, (INT64_C(1) << 32) + 9};
    kiln_jit_stats stats = {.size = sizeof stats};
    kiln_function *f = kiln_jit(count_and_shift, NULL, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_ones(dev, KILN_U8, KILN_SHAPE(sizes[i])), *y[2];
        if (!x && (kiln_error() == KILN_E_DEVICE_MEMORY || kiln_error() == KILN_E_MEMORY)) exit(77);
        NEED(!kiln_write(kiln_narrow(x, 0, sizes[i] - 1, 1), (uint8_t[]){9}, 1));
        NEED(!kiln_call(f, &x, 1, y, 2));
        NEED(kiln_item_int(y[0]) == sizes[i] + 8);
        uint8_t end[2];
        NEED(!kiln_read(y[1], end, sizeof end) && end[0] == 4 && end[1] == 12);
        kiln_scope_end(&scope);
    }
    kiln_function_stats(f, &stats);
    NEED(stats.captures == sizeof sizes / sizeof *sizes && stats.reused == stats.captures - 1 && !stats.fallbacks);
    kiln_function_free(&f);
}

static void train_a_little(void)
{
    kiln_cell *net = kiln_nn_sequential(
        KILN_CELLS(kiln_nn_dense(dev, 12, 16, NULL), kiln_nn_relu(), kiln_nn_dense(dev, 16, 4, NULL)));
    kiln_tensor *params[4];
    NEED(net && kiln_cell_parameters(net, params, 4) == 4);
    kiln_optim *opt = kiln_optim_adam(params, 4, NULL);
    for (int i = 0; i < 20; i++) {
        kiln_scope *scope = kiln_scope_begin();
        kiln_tensor *x = kiln_normal(dev, KILN_F32, KILN_SHAPE(8, 12), 0, 1);
        kiln_tensor *labels = kiln_randint(dev, KILN_I64, KILN_SHAPE(8), 0, 4);
        NEED(!kiln_backward(kiln_cross_entropy(kiln_cell_call(net, x), labels, NULL), NULL));
        NEED(!kiln_optim_step(opt));
        kiln_scope_end(&scope);
    }
    kiln_optim_free(&opt);
    kiln_cell_free(&net);
}

static void *soak_thread(void *end)
{
    for (int i = 0; clock_s() < *(const double *)end; i++) {
        work_anew(1 + i % 15);
        train_a_little();
        save_and_load();
    }
    return NULL;
}

// Threads come and go, devices too.
static void soak(double seconds)
{
    double begin = clock_s(), end = begin + seconds;
    uint64_t warm_B = 0, before = tensors();
    while (clock_s() < end) {
        pthread_t threads[3];
        double until = clock_s() + 5;
        kiln_device *own = kiln_device_open("cpu");
        for (int i = 0; i < 3; i++) NEED(!pthread_create(&threads[i], NULL, soak_thread, &until));
        for (int i = 0; i < 3; i++) NEED(!pthread_join(threads[i], NULL));
        kiln_device_close(&own);
        NEED(tensors() == before);
        if (!warm_B && clock_s() > begin + seconds / 5) warm_B = resident_B();
        if (warm_B) NEED(resident_B() < warm_B + (48 << 20));
    }
    printf("resident %+lld KiB after the first fifth\n", ((long long)resident_B() - (long long)warm_B) / 1024);
}

int main(int argc, char **argv)
{
    NEED(argc == 2);
    const char *what = argv[1];
    dev = kiln_device_open("cpu");
    NEED(dev != NULL);
    if (!strcmp(what, "signals"))
        run_under_signals();
    else if (!strcmp(what, "handles"))
        hold_a_million_handles();
    else if (!strcmp(what, "tape"))
        differentiate_a_million_ops();
    else if (!strcmp(what, "shapes"))
        call_with_many_shapes(100000);
    else if (!strcmp(what, "few-shapes"))
        call_with_many_shapes(2000);
    else if (!strcmp(what, "elements"))
        fill_two_to_the_32();
    else if (!strcmp(what, "wide-shapes"))
        sizes_beyond_32_bits();
    else if (!strcmp(what, "soak"))
        soak(600);
    else
        NEED(!"no such test");
    kiln_device_close(&dev);
    return 0;
}
