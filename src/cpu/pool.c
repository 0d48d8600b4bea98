// One loop at a time is in the pool. Its ranges are dealt out to the threads in order, a row of pieces to each; a
// thread takes the pieces of its own row, then what is left in the rows of others. So the caller never waits for a
// thread that has not come: it does the work itself, and waits only for pieces that are being worked on.
//
// `gate` holds the number of the loop, whether threads may still join it, and how many have joined and not left. A
// thread reads the loop only between joining and leaving, and the caller changes it only when all have left.
//
// Threads without a loop look for one for a bounded time, and then sleep until `bell` rings; so does a caller that
// waits. On a busy machine a sleeping caller gives its processor to the thread that it waits for.
#include "cpu/pool.h"
#include "base/clock.h"
#include "base/process.h"
#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_THREADS = 256, LINE_B = 64 };
enum { SPIN_NS = 100000, LONG_SPIN_NS = 10000000 };
enum { JOINED = 0x7fff, OPEN = 0x8000, NEXT = 0x10000 }; // of gate

struct row { // of pieces
    _Alignas(LINE_B) atomic_int taken;
};

static struct {
    pthread_mutex_t lock; // held by the caller of the loop
    _Alignas(LINE_B) atomic_uint gate;
    _Alignas(LINE_B) atomic_uint bell, sleepers, caller_sleeps;
    int started; // threads, besides callers
    atomic_llong spin_ns;
    // The loop.
    _Alignas(LINE_B) int64_t units;
    int threads, pieces; // rows, and pieces in each
    cpu_range_fn *fn;
    void *user;
    pthread_mutex_t error_lock;
    struct error_record error;
    struct row rows[MOST_THREADS];
    _Alignas(LINE_B) atomic_int helpers; // threads that have come to help
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .error_lock = PTHREAD_MUTEX_INITIALIZER};

static void futex_wait(atomic_uint *word, unsigned value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void pause_here(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

// Whether the gate left the state `is` describes while this thread looked at it.
typedef bool gate_test(unsigned gate, unsigned seen);
static bool looks_until(gate_test *is, unsigned seen)
{
    enum { LOOKS = 64 };
    int64_t spin_ns = atomic_load_explicit(&pool.spin_ns, memory_order_relaxed);
    if (!spin_ns) return is(atomic_load(&pool.gate), seen);
    for (int64_t end = (int64_t)clock_now_ns() + spin_ns; (int64_t)clock_now_ns() < end;)
        for (int i = 0; i < LOOKS; i++) {
            if (is(atomic_load_explicit(&pool.gate, memory_order_acquire), seen)) return true;
            pause_here();
        }
    return false;
}

static void run_piece(int row, int piece)
{
    int64_t n = (int64_t)pool.threads * pool.pieces, at = (int64_t)row * pool.pieces + piece;
    // pool.units * at may not fit when there are more than 2^48 of them: no array is that large.
    if (!pool.fn(pool.user, pool.units * at / n, pool.units * (at + 1) / n)) return;
    struct error_record mine;
    error_capture(&mine);
    pthread_mutex_lock(&pool.error_lock);
    if (!pool.error.code) pool.error = mine;
    pthread_mutex_unlock(&pool.error_lock);
}

static void work(int id)
{
    for (int i = 0; i < pool.threads; i++) {
        int row = (id + i) % pool.threads;
        atomic_int *taken = &pool.rows[row].taken;
        while (atomic_load_explicit(taken, memory_order_relaxed) < pool.pieces) {
            int piece = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
            if (piece < pool.pieces) run_piece(row, piece);
        }
    }
}

static bool join(unsigned seen, unsigned *now)
{
    unsigned gate = atomic_load(&pool.gate);
    while (gate & OPEN && gate / NEXT != seen)
        if (atomic_compare_exchange_weak(&pool.gate, &gate, gate + 1)) {
            *now = gate / NEXT;
            return true;
        }
    return false;
}

static void leave(void)
{
    unsigned before = atomic_fetch_sub(&pool.gate, 1);
    if (!(before & OPEN) && (before & JOINED) == 1 && atomic_load(&pool.caller_sleeps)) futex_wake(&pool.gate, 1);
}

static bool is_other(unsigned gate, unsigned seen)
{
    return gate & OPEN && gate / NEXT != seen;
}

static bool is_empty(unsigned gate, unsigned seen)
{
    (void)seen;
    return !(gate & JOINED);
}

static void *serve(void *at)
{
    int id = (int)(intptr_t)at;
    unsigned seen = ~0u;
    omp_set_num_threads(1); // of this thread: what it calls works alone
    for (;;) {
        unsigned bell = atomic_load(&pool.bell);
        if (join(seen, &seen)) {
            // Whoever comes first helps: who is woken is not ours to say.
            if (atomic_fetch_add(&pool.helpers, 1) < pool.threads - 1) work(id % pool.threads);
            leave();
        } else if (!looks_until(is_other, seen)) {
            atomic_fetch_add(&pool.sleepers, 1);
            if (!is_other(atomic_load(&pool.gate), seen)) futex_wait(&pool.bell, bell);
            atomic_fetch_sub(&pool.sleepers, 1);
        }
    }
    return NULL;
}

// Signals are for the threads of the program.
static void start_threads(int wanted)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.started < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)(pool.started + 1))) break;
        pthread_detach(thread);
        pool.started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void set_spin(int threads)
{
    const char *policy = getenv("OMP_WAIT_POLICY");
    bool is_long = policy && !strcasecmp(policy, "active"), is_none = policy && !strcasecmp(policy, "passive");
    // Threads that have no processor of their own had better not hold one.
    if (threads > omp_get_num_procs()) is_none = true;
    atomic_store(&pool.spin_ns, is_none ? 0 : is_long ? LONG_SPIN_NS : SPIN_NS);
}

static void open_gate(void)
{
    unsigned next = atomic_load_explicit(&pool.gate, memory_order_relaxed) / NEXT + 1;
    atomic_store(&pool.gate, next * NEXT | OPEN);
    atomic_fetch_add(&pool.bell, 1);
    if (atomic_load(&pool.sleepers)) futex_wake(&pool.bell, pool.threads - 1);
}

static void wait_for_all(void)
{
    atomic_fetch_and(&pool.gate, ~(unsigned)OPEN);
    if (looks_until(is_empty, 0)) return;
    atomic_store(&pool.caller_sleeps, 1);
    for (unsigned gate; (gate = atomic_load(&pool.gate)) & JOINED;) futex_wait(&pool.gate, gate);
    atomic_store(&pool.caller_sleeps, 0);
}

kiln_status cpu_pool_run(int threads, int64_t units, int pieces, cpu_range_fn *fn, void *user)
{
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (pthread_mutex_trylock(&pool.lock)) return fn(user, 0, units);
    if (pool.started < threads - 1) {
        set_spin(threads);
        start_threads(threads - 1);
    }
    pool.threads = threads < pool.started + 1 ? threads : pool.started + 1;
    pool.units = units, pool.pieces = pieces, pool.fn = fn, pool.user = user;
    pool.error = (struct error_record){.code = KILN_OK};
    for (int i = 0; i < pool.threads; i++) atomic_store_explicit(&pool.rows[i].taken, 0, memory_order_relaxed);
    atomic_store_explicit(&pool.helpers, 0, memory_order_relaxed);
    int wanted = omp_get_max_threads();
    omp_set_num_threads(1); // what a range calls works alone
    open_gate();
    work(0);
    wait_for_all();
    omp_set_num_threads(wanted);
    struct error_record error = pool.error;
    pthread_mutex_unlock(&pool.lock);
    return error.code ? error_raise(&error) : KILN_OK;
}

void cpu_pool_lost(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&pool.lock, &unlocked, sizeof unlocked);
    memcpy(&pool.error_lock, &unlocked, sizeof unlocked);
    pool.started = 0;
    atomic_store(&pool.gate, 0);
    atomic_store(&pool.sleepers, 0);
}
