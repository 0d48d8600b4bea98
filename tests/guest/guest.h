// Programs that the library is linked to, each a process of its own: exit status 0, or a line that says what failed.
#pragma once
#include <kiln/kiln.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static kiln_device *dev;

#define NEED(condition) need(condition, #condition, __FILE__, __LINE__)

static inline void need(bool good, const char *what, const char *file, int line)
{
    if (good) return;
    fprintf(stderr, "%s:%d: failed: %s: %s\n", file, line, what, kiln_error_message());
    _exit(1);
}

static inline void sleep_ms(int ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left)) {}
}

// The child ends within the limit, with this status.
static inline void expect_end(pid_t child, int limit_s, int status)
{
    int got = 0;
    NEED(child > 0);
    for (int ms = 0; ms < 1000 * limit_s; ms += 10) {
        if (waitpid(child, &got, WNOHANG) == child) {
            NEED(WIFEXITED(got) && WEXITSTATUS(got) == status);
            return;
        }
        sleep_ms(10);
    }
    kill(child, SIGKILL);
    NEED(!"the child hangs");
}

static inline kiln_status chain(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    kiln_tensor *x = in[0];
    for (int i = 0; i < *(const int *)user; i++) x = kiln_add(kiln_mul(x, in[0]), kiln_scalar(1));
    out[0] = kiln_sum(x, NULL);
    return kiln_error();
}

// What chain gives for 2: y -> 2 y + 1, n times from 2.
static inline double chain_of_2(int n)
{
    double y = 2;
    for (int i = 0; i < n; i++) y = 2 * y + 1;
    return y;
}

// A product that is worth all threads, and a captured function of `n` links, at most 15 lest sums be rounded. Without a
// cache folder it is compiled each time.
static inline void work_anew(int n)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *m = kiln_full(dev, KILN_F32, KILN_SHAPE(512, 512), 2),
                *x = kiln_full(dev, KILN_F32, KILN_SHAPE(64), 2);
    NEED(kiln_item(kiln_sum(kiln_matmul(m, m), NULL)) == 4.0 * 512 * 512 * 512);
    kiln_function *f = kiln_jit(chain, &n, NULL);
    for (int i = 0; i < 3; i++) {
        kiln_tensor *out = NULL;
        NEED(!kiln_call(f, &x, 1, &out, 1));
        NEED(kiln_item(out) == 64 * chain_of_2(n));
    }
    kiln_function_free(&f);
    kiln_scope_end(&scope);
}
