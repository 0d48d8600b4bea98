// How many threads there are to be is asked of OpenMP, whose threads OpenBLAS has; loops of the library's own run on
// threads of its own (pool.c). Ranges depend on the number of threads; results must not, so kernels that fold values do
// it in chunks of a fixed size.
#include "base/process.h"
#include "cpu/parallel.h"
#include "cpu/pool.h"
#include "base/thread.h"

#ifdef __GLIBC__
#include <execinfo.h>
#endif
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { COST_OF_FORK = 1 << 15 };     // elements of a cheap loop for which a second thread is worth its start
enum { LONG = 32, MOST_PIECES = 4 }; // in forks
enum { SCRATCH_STEP_B = 1 << 14, HUGE_PAGE_B = 1 << 21 };

static void *wait_at(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

// Stacks for n threads, and what they and the caller will want besides.
static bool has_room(int n)
{
    enum { BESIDES_MIB = 48 };
    pthread_attr_t attr;
    size_t stack_B = 8 << 20;
    if (!pthread_attr_init(&attr)) {
        pthread_attr_getstacksize(&attr, &stack_B);
        pthread_attr_destroy(&attr);
    }
    return process_can_map((uint64_t)n * stack_B + ((uint64_t)BESIDES_MIB << 20));
}

// The threads of a pool leave by pthread_exit, for which the GNU C library opens its unwinder, or ends the process. A
// backtrace opens it too.
static bool can_unwind(void)
{
#ifdef __GLIBC__
    void *frame;
    return backtrace(&frame, 1) == 1;
#else
    return true;
#endif
}

// libgomp, whose threads OpenBLAS takes, ends the process when it cannot start one.
static bool try_threads(int n)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    int started = 0;
    pthread_mutex_lock(&gate);
    while (threads && started < n && !pthread_create(&threads[started], NULL, wait_at, &gate)) started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
    return started == n;
}

static bool can_start(int n)
{
    if (has_room(n) && can_unwind() && try_threads(n)) return true;
    log_warn("a pool of %d threads cannot be started (a limit on processes or on memory): work is done on one", n + 1);
    return false;
}

// A child has the pool's books, and none of its threads.
static atomic_bool pool_is_used;
static THREAD_LOCAL bool pool_lost;

// The runtime may hold its locks until its own handlers of fork have run, so that nothing is asked of it here.
static void lose_pool(void)
{
    pool_lost = atomic_load(&pool_is_used);
    cpu_pool_lost();
}

__attribute__((constructor)) static void install(void)
{
    process_at_fork(NULL, lose_pool);
}

void cpu_pool_used(void)
{
    atomic_store_explicit(&pool_is_used, true, memory_order_relaxed);
}

void cpu_pool_settle(void)
{
    if (!pool_lost) return;
    pool_lost = false;
    omp_set_num_threads(1); // of this thread; also for libraries that use its pool
}

static int pool_threads(void)
{
    cpu_pool_settle();
    static THREAD_LOCAL bool asked;
    int n = omp_get_max_threads();
    if (n == 1 || asked) return n;
    asked = true;
    if (can_start(n - 1)) return n;
    omp_set_num_threads(1);
    return 1;
}

int cpu_threads_wanted(void)
{
    cpu_pool_settle();
    return omp_get_max_threads();
}

int cpu_threads(void)
{
    return omp_in_parallel() ? 1 : pool_threads();
}

int cpu_pool_leave(void)
{
    int threads = cpu_threads_wanted();
    if (threads > 1) omp_set_num_threads(1); // of this thread
    return threads;
}

void cpu_pool_return(int threads)
{
    if (threads > 1) omp_set_num_threads(threads);
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

    cpu_pool_used();
    // Several ranges a thread where the work is long, so that a thread that loses its processor holds little.
    int64_t pieces = worth / threads / LONG;
    if (pieces > units / threads) pieces = units / threads;
    pieces = pieces < 1 ? 1 : pieces < MOST_PIECES ? pieces : MOST_PIECES;
    return cpu_pool_run((int)threads, units, (int)pieces, fn, user);
}

struct scratch {
    void *memory[CPU_SCRATCH_COUNT];
    size_t size_B[CPU_SCRATCH_COUNT];
};

static THREAD_LOCAL struct scratch *mine;

static void scratch_free(void)
{
    for (int i = 0; i < CPU_SCRATCH_COUNT; i++) free(mine->memory[i]);
    free(mine);
    mine = NULL;
}

void *cpu_scratch(enum cpu_scratch_slot slot, size_t size_B)
{
    if (!mine) {
        mine = calloc(1, sizeof *mine);
        if (mine) thread_at_end(THREAD_SCRATCH, scratch_free);
    }
    if (mine && mine->size_B[slot] >= size_B && mine->memory[slot]) return mine->memory[slot];
    if (mine) {
        size_t step_B = size_B < HUGE_PAGE_B ? SCRATCH_STEP_B : HUGE_PAGE_B;
        size_t rounded_B = (size_B + step_B) / step_B * step_B;
        free(mine->memory[slot]);
        mine->memory[slot] = rounded_B > size_B ? aligned_alloc(size_B < HUGE_PAGE_B ? 64 : step_B, rounded_B) : NULL;
        if (step_B == HUGE_PAGE_B && mine->memory[slot]) madvise(mine->memory[slot], rounded_B, MADV_HUGEPAGE);
        mine->size_B[slot] = mine->memory[slot] ? rounded_B : 0;
        if (mine->memory[slot]) return mine->memory[slot];
    }
    error_set(KILN_E_MEMORY, "out of memory: %zu bytes of scratch for a kernel", size_B);
    return NULL;
}
