// One pool of threads: libgomp's, which OpenBLAS shares. Ranges depend on the number of threads; results must not, so
// kernels that fold values do it in chunks of a fixed size.
#include "cpu/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>

enum { COST_OF_FORK = 1 << 15 }; // elements of a cheap loop for which a second thread is worth its start
enum { SCRATCH_STEP_B = 1 << 14 };

int cpu_threads(void)
{
    return omp_in_parallel() ? 1 : omp_get_max_threads();
}

kiln_status cpu_parallel(int64_t units, int64_t unit_cost, cpu_range_fn *fn, void *user)
{
    if (units <= 0) return KILN_OK;
    if (unit_cost < 1) unit_cost = 1;
    if (units == 1 || units * (double)unit_cost < 2 * COST_OF_FORK) return fn(user, 0, units);
    int64_t threads = cpu_threads(), worth = (int64_t)(units * (double)unit_cost / COST_OF_FORK);
    if (threads > worth) threads = worth;
    if (threads > units) threads = units;
    if (threads <= 1) return fn(user, 0, units);

    struct error_record first = {.code = KILN_OK};
#pragma omp parallel num_threads((int)threads)
    {
        int64_t id = omp_get_thread_num(), n = omp_get_num_threads();
        // units * id may not fit when there are more than 2^57 of them: no array is that large.
        kiln_status status = fn(user, units * id / n, units * (id + 1) / n);
        if (status) {
#pragma omp critical(cpu_parallel_error)
            {
                struct error_record mine;
                error_capture(&mine);
                if (!first.code) first = mine;
            }
        }
    }
    return first.code ? error_raise(&first) : KILN_OK;
}

struct scratch {
    void *memory[CPU_SCRATCH_COUNT];
    size_t size_B[CPU_SCRATCH_COUNT];
};

static _Thread_local struct scratch *mine;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void scratch_free(void *p)
{
    struct scratch *s = p;
    for (int i = 0; i < CPU_SCRATCH_COUNT; i++) free(s->memory[i]);
    free(s);
    mine = NULL;
}

static void key_create(void)
{
    pthread_key_create(&key, scratch_free);
}

void *cpu_scratch(enum cpu_scratch_slot slot, size_t size_B)
{
    if (!mine) {
        pthread_once(&key_once, key_create);
        mine = calloc(1, sizeof *mine);
        if (mine) pthread_setspecific(key, mine);
    }
    if (mine && mine->size_B[slot] >= size_B && mine->memory[slot]) return mine->memory[slot];
    if (mine) {
        size_t rounded_B = (size_B + SCRATCH_STEP_B) / SCRATCH_STEP_B * SCRATCH_STEP_B;
        free(mine->memory[slot]);
        mine->memory[slot] = rounded_B > size_B ? aligned_alloc(64, rounded_B) : NULL;
        mine->size_B[slot] = mine->memory[slot] ? rounded_B : 0;
        if (mine->memory[slot]) return mine->memory[slot];
    }
    error_set(KILN_E_MEMORY, "out of memory: %zu bytes of scratch for a kernel", size_B);
    return NULL;
}
