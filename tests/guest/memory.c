// One allocation of the library fails, each time another one, in a process of its own: whatever that breaks is broken
// once. The next calls work.
#include "guest.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>

// The C library's own, under the names by which a program that brings a malloc reaches them.
void *__libc_malloc(size_t size_B);
void *__libc_calloc(size_t n, size_t size_B);
void *__libc_realloc(void *p, size_t size_B);
void *__libc_memalign(size_t align_B, size_t size_B);

static uintptr_t library_begin, library_end;
static atomic_long countdown; // of the library's allocations; 0: none fails

static int find_library(struct dl_phdr_info *info, size_t size_B, void *unused)
{
    (void)size_B, (void)unused;
    if (!strstr(info->dlpi_name, "libkiln.so")) return 0;
    library_begin = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > library_end) library_end = end;
    }
    return 1;
}

static bool fails(uintptr_t caller)
{
    if (caller < library_begin || caller >= library_end || !atomic_load(&countdown)) return false;
    return atomic_fetch_sub(&countdown, 1) == 1;
}

#define EXPORTED __attribute__((visibility("default")))
#define FAILS()  fails((uintptr_t)__builtin_return_address(0))

EXPORTED void *malloc(size_t size_B)
{
    return FAILS() ? NULL : __libc_malloc(size_B);
}

EXPORTED void *calloc(size_t n, size_t size_B)
{
    return FAILS() ? NULL : __libc_calloc(n, size_B);
}

EXPORTED void *realloc(void *p, size_t size_B)
{
    return FAILS() ? NULL : __libc_realloc(p, size_B);
}

EXPORTED void *aligned_alloc(size_t align_B, size_t size_B)
{
    return FAILS() ? NULL : __libc_memalign(align_B, size_B);
}

static kiln_status loss(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    (void)n_in, (void)n_out;
    kiln_tensor *y = kiln_mul(kiln_softmax(kiln_matmul(in[0], (kiln_tensor *)user), 1), in[0]);
    out[0] = kiln_sum(kiln_square(kiln_mul(y, kiln_scalar(1))), NULL);
    return kiln_error();
}

// The gradient of the captured loss by w, in *out; false with an error.
static bool attempt(kiln_tensor *x, kiln_tensor *w, float *out)
{
    kiln_tensor *y = NULL;
    kiln_function *f = kiln_jit(loss, w, NULL);
    bool good = f && !kiln_call(f, &x, 1, &y, 1) && !kiln_backward(y, NULL) && kiln_gradient(w) &&
                !kiln_read(kiln_gradient(w), out, 16 * sizeof *out);
    kiln_function_free(&f);
    kiln_free(&y);
    return good;
}

static long fail_and_recover(long which)
{
    float values[16], expected[16];
    for (int i = 0; i < 16; i++) values[i] = (float)(i % 5) / 8;
    kiln_tensor *x = kiln_from_data(dev, KILN_F32, KILN_SHAPE(4, 4), values);
    kiln_tensor *w = kiln_parameter(kiln_from_data(dev, KILN_F32, KILN_SHAPE(4, 4), values), "w");
    kiln_tensor *y = NULL;
    NEED(!loss(w, &x, 1, &y, 1) && !kiln_backward(y, NULL) && !kiln_read(kiln_gradient(w), expected, sizeof expected));
    atomic_store(&countdown, which);
    bool good = attempt(x, w, values);
    long left = atomic_exchange(&countdown, 0);
    NEED(good || kiln_error() == KILN_E_MEMORY || kiln_error() == KILN_E_DEVICE_MEMORY);
    kiln_error_clear();
    for (int i = 0; i < 2; i++) {
        NEED(attempt(x, w, values));
        for (int k = 0; k < 16; k++) NEED(values[k] - expected[k] < 1e-6f && expected[k] - values[k] < 1e-6f);
    }
    return left;
}

static void quiet(void *user, const char *message)
{
    (void)user, (void)message;
}

int main(int argc, char **argv)
{
    long n = 1000000, step = argc > 1 ? atol(argv[1]) : 37;
    dl_iterate_phdr(find_library, NULL);
    NEED(library_end && step > 0);
    kiln_set_log(quiet, NULL);
    dev = kiln_device_open("cpu");
    NEED(dev != NULL);
    int told[2];
    NEED(!pipe(told));
    pid_t child = fork(); // how many there are
    if (child == 0) {
        long left = fail_and_recover(n);
        _exit(write(told[1], &left, sizeof left) != sizeof left);
    }
    expect_end(child, 60, 0);
    long left;
    NEED(read(told[0], &left, sizeof left) == sizeof left && left < n);
    n -= left;
    printf("%ld allocations\n", n);
    for (long i = 1; i <= n; i += step) {
        fflush(NULL);
        child = fork();
        if (child == 0) {
            fail_and_recover(i);
            _exit(0);
        }
        int status;
        NEED(waitpid(child, &status, 0) == child);
        if (!WIFEXITED(status) || WEXITSTATUS(status)) fprintf(stderr, "allocation %ld: status %x\n", i, status);
        NEED(WIFEXITED(status) && !WEXITSTATUS(status));
    }
    return 0;
}
