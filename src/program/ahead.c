// Kernels of one program, compiled side by side: as many threads as the process has processors take those in turn that
// are not there.
#include "base/process.h"
#include "program/impl.h"

enum { MAX_THREADS = 16 };

struct compilation {
    kiln_device *dev;
    const struct fuse_step *steps;
    size_t n;
    atomic_size_t next;
    struct kernel_count *count;
    struct jit_kernel **out;
};

static void *work(void *user)
{
    struct compilation *c = user;
    for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->n;)
        if (c->steps[i].kernel && !c->out[i] && jit_kernel_get(c->dev, c->steps[i].kernel, c->count, &c->out[i]))
            kiln_error_clear();
    return NULL;
}

void compile_ahead(kiln_device *dev, const struct fuse_step *steps, size_t n, struct kernel_count *count,
                   struct jit_kernel **out)
{
    struct compilation c = {.dev = dev, .steps = steps, .n = n, .count = count, .out = out};
    pthread_t threads[MAX_THREADS];
    size_t n_kernels = 0;
    int n_threads = 0;
    int processors = process_processors();
    for (size_t i = 0; i < n; i++) {
        out[i] = steps[i].kernel ? jit_kernel_find(dev, steps[i].kernel) : NULL;
        n_kernels += steps[i].kernel && !out[i];
    }
    for (; n_threads < MAX_THREADS && n_threads + 1 < processors && (size_t)n_threads + 1 < n_kernels; n_threads++)
        if (pthread_create(&threads[n_threads], NULL, work, &c)) break;
    if (n_kernels) work(&c);
    for (int i = 0; i < n_threads; i++) pthread_join(threads[i], NULL);
}
