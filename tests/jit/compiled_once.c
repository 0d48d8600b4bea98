// Equal kernels are compiled once, also where threads ask for them at the same time: one compiles, the others wait.
#include "jit_fixture.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 6 };

struct asker {
    kiln_device *dev;
    pthread_barrier_t *start;
    double factor; // a constant of the kernel, so that each round has kernels of its own
    kiln_function *f;
    double value;
    kiln_status status;
};

// Rows that are scaled, and a product of them with what is computed beside.
static kiln_status rows(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct asker *a = user;
    kiln_tensor *x = kiln_tanh(kiln_mul(in[0], kiln_scalar(a->factor)));
    out[0] = kiln_matmul(kiln_softmax(kiln_add(x, in[0]), -1), kiln_exp(kiln_mul(x, kiln_scalar(-a->factor))));
    return kiln_error();
}

static void *ask(void *user)
{
    struct asker *a = user;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *x = kiln_full(a->dev, KILN_F32, KILN_SHAPE(24, 24), 0.25), *out = NULL;
    a->f = kiln_jit(rows, a, NULL);
    pthread_barrier_wait(a->start);
    a->status = kiln_call(a->f, &x, 1, &out, 1);
    if (!a->status) a->value = kiln_item(kiln_sum(out, NULL));
    kiln_scope_end(&scope);
    return NULL;
}

static uint64_t compiled_by(kiln_device *dev, double factor, int n_threads)
{
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    struct asker askers[THREADS];
    uint64_t sum = 0;
    pthread_barrier_init(&start, NULL, (unsigned)n_threads);
    for (int i = 0; i < n_threads; i++) {
        askers[i] = (struct asker){.dev = dev, .start = &start, .factor = factor};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < n_threads; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(askers[i].status, KILN_OK);
        assert_true(askers[i].value == askers[0].value);
        kiln_jit_stats stats = {.size = sizeof stats};
        kiln_function_stats(askers[i].f, &stats);
        sum += stats.kernels_compiled;
    }
    for (int i = 0; i < n_threads; i++) kiln_function_free(&askers[i].f);
    pthread_barrier_destroy(&start);
    return sum;
}

static void threads_compile_as_many_as_one(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t alone = compiled_by(f->dev, 0.5 + i, 1); // its kernels go with the function
        assert_in_range(alone, 1, 4);
        assert_int_equal(compiled_by(f->dev, 0.5 + i, THREADS), alone);
    }
}

int main(int argc, char **argv)
{
    setenv("KILN_CACHE_DIR", "/dev/null/none", 1); // where no file can be: what is counted must be compiled here
    if (choose_device(argc, argv) || !KILN_WITH_LLVM) return 77;
    const struct CMUnitTest tests[] = {FIXTURE(threads_compile_as_many_as_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
