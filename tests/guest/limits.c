// usage: limits as MiB | limits nproc N: works within a limit of address space or of threads, and says what it was
// told.
#include "guest.h"

#include <grp.h>
#include <sys/resource.h>

static void report(void *user, const char *message)
{
    (void)user;
    printf("%s\n", message);
}

// What does not fit is an error; what fits is right.
static void multiply(int64_t n)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(n, n), 2), *y = x ? kiln_matmul(x, x) : NULL;
    double sum = y ? kiln_item(kiln_sum(y, NULL)) : 0;
    if (kiln_error())
        NEED(kiln_error() == KILN_E_MEMORY || kiln_error() == KILN_E_DEVICE_MEMORY);
    else
        NEED(sum == 4.0 * (double)n * (double)n * (double)n);
    kiln_error_clear();
    kiln_scope_end(&scope);
}

static void *multiply_again(void *unused)
{
    for (int i = 0; i < 5; i++) multiply(512);
    return unused;
}

int main(int argc, char **argv)
{
    NEED(argc == 3);
    kiln_set_log(report, NULL);
    bool threads = !strcmp(argv[1], "nproc");
    struct rlimit limit = {.rlim_cur = strtoul(argv[2], NULL, 10) << (threads ? 0 : 20)};
    limit.rlim_max = limit.rlim_cur;
    // The superuser has no limit of processes; an id of its own counts no others.
    if (threads && getuid() == 0 && (setgroups(0, NULL) || setgid(54321) || setuid(54321))) return 77;
    NEED(!setrlimit(threads ? RLIMIT_NPROC : RLIMIT_AS, &limit));
    dev = kiln_device_open("cpu");
    NEED(dev != NULL);
    for (int64_t n = 128; n <= 2048; n *= 2) multiply(n);
    pthread_t more[4];
    int n = 0;
    while (n < 4 && !pthread_create(&more[n], NULL, multiply_again, NULL)) n++;
    for (int i = 0; i < n; i++) NEED(!pthread_join(more[i], NULL));
    int links = 5;
    kiln_tensor *x = kiln_full(dev, KILN_F32, KILN_SHAPE(64), 2), *y = NULL;
    kiln_function *f = kiln_jit(chain, &links, NULL);
    NEED(!kiln_call(f, &x, 1, &y, 1) && kiln_item(y) == 64 * chain_of_2(links));
    kiln_device_close(&dev);
    return 0;
}
