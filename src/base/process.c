// Ends and forks. Both close the sections: they wait until no other thread is in one. A fork takes the guarded locks
// too, all or none: while one is held, the others are let go, and it tries again, so that the order in which threads
// take them does not matter. Neither waits for ever; a child whose parent could not wait gets fresh locks.
#include "base/process.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/thread.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_US = 200, EXIT_LIMIT_S = 60, FORK_LIMIT_S = 10, HOOKS_MAX = 16 };

static atomic_int inside; // threads in sections
static atomic_bool closed;
static atomic_bool ending;
static atomic_bool held; // closed by the main thread, which ends itself or the process
static pthread_t closer; // at the end
static THREAD_LOCAL int depth;

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct guarded *all;
static struct {
    void (*before)(void), (*in_child)(void);
} hooks[HOOKS_MAX];
static int n_hooks;
static void (*end_hooks[HOOKS_MAX])(void);
static int n_end_hooks;
static atomic_uint generation;

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_US * 1000}, NULL);
}

// --- sections

bool section_try(void)
{
    static atomic_bool armed;
    if (KILN_UNLIKELY(!atomic_load_explicit(&armed, memory_order_relaxed)) && !atomic_exchange(&armed, true))
        section_opened();
    if (depth == 0) {
        atomic_fetch_add(&inside, 1);
        while (KILN_UNLIKELY(atomic_load(&closed))) {
            atomic_fetch_sub(&inside, 1);
            if (atomic_load(&ending)) return false;
            if (atomic_load(&held) && pthread_equal(closer, pthread_self())) {
                atomic_fetch_add(&inside, 1);
                break;
            }
            pause_briefly();
            atomic_fetch_add(&inside, 1);
        }
    }
    depth++;
    return true;
}

bool section_enter(void)
{
    while (!section_try()) {
        if (pthread_equal(closer, pthread_self())) return false;
        pause_briefly();
    }
    return true;
}

void section_leave(void)
{
    if (--depth == 0) atomic_fetch_sub(&inside, 1);
}

static bool others_are_out(void)
{
    return atomic_load(&inside) == (depth > 0);
}

static double now_s(void)
{
    return 1e-9 * (double)clock_now_ns();
}

static void close_sections(void)
{
    closer = pthread_self();
    atomic_store(&closed, true);
    for (double end = now_s() + EXIT_LIMIT_S; !others_are_out() && now_s() < end;) pause_briefly();
}

static void end_sections(void)
{
    if (atomic_load(&ending)) return;
    if (!atomic_load(&held))
        for (int i = 0; i < n_end_hooks; i++) end_hooks[i]();
    atomic_store(&ending, true);
    close_sections();
}

// A library that works for the first time makes statics while it does, whose destructors come before all that was
// registered earlier. What a thread leaves to be done at its end comes before any of them: exit does that first. Should
// the thread alone end, its keys are destroyed next, which exit does not do; then the sections are opened again.
static void hold_sections(void *unused)
{
    (void)unused;
    for (int i = 0; i < n_end_hooks; i++) end_hooks[i]();
    atomic_store(&held, true);
    close_sections();
}

static void release_sections(void)
{
    if (!atomic_exchange(&held, false) || atomic_load(&ending)) return;
    atomic_store(&closed, false);
}

// Handlers run last in, first out, those of the libraries' statics among them. Made at each power of two, for later
// statics are rare. They are for threads other than the main one that end the process.
void section_opened(void)
{
    static atomic_uint count;
    unsigned n = atomic_fetch_add(&count, 1) + 1;
    if ((n & (n - 1)) == 0) atexit(end_sections);
}

// --- locks

void lock_guard(struct guarded *g, pthread_mutex_t *lock, bool recursive)
{
    *g = (struct guarded){.lock = lock, .recursive = recursive};
    pthread_mutex_lock(&list_lock);
    g->next = all;
    if (all) all->prev = g;
    all = g;
    pthread_mutex_unlock(&list_lock);
}

void lock_unguard(struct guarded *g)
{
    if (!g->lock) return;
    pthread_mutex_lock(&list_lock);
    if (g->prev)
        g->prev->next = g->next;
    else
        all = g->next;
    if (g->next) g->next->prev = g->prev;
    pthread_mutex_unlock(&list_lock);
    g->lock = NULL;
}

static void unlock_until(const struct guarded *end)
{
    for (struct guarded *g = all; g != end; g = g->next) pthread_mutex_unlock(g->lock);
}

static bool lock_all(void)
{
    for (struct guarded *g = all; g; g = g->next)
        if (pthread_mutex_trylock(g->lock)) {
            unlock_until(g);
            return false;
        }
    return true;
}

static void renew(struct guarded *g)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, g->recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    pthread_mutex_init(g->lock, &a);
    pthread_mutexattr_destroy(&a);
}

// --- forks

static bool holds_all; // between prepare and parent

static bool try_to_hold(void)
{
    if (!lock_all()) return false;
    if (atomic_load(&ending)) return true;
    atomic_store(&closed, true);
    if (others_are_out()) return true;
    atomic_store(&closed, false);
    unlock_until(NULL);
    return false;
}

static void before_fork(void)
{
    for (int i = 0; i < n_hooks; i++)
        if (hooks[i].before) hooks[i].before();
    pthread_mutex_lock(&list_lock);
    double end = now_s() + FORK_LIMIT_S;
    while (!(holds_all = try_to_hold()) && now_s() < end) {
        pthread_mutex_unlock(&list_lock); // to make or end an object takes it
        pause_briefly();
        pthread_mutex_lock(&list_lock);
    }
}

static void after_fork(void)
{
    if (holds_all) {
        if (!atomic_load(&ending)) atomic_store(&closed, false);
        unlock_until(NULL);
    }
    pthread_mutex_unlock(&list_lock);
}

static void in_child(void)
{
    atomic_fetch_add(&generation, 1);
    atomic_store(&inside, depth > 0);
    if (!atomic_load(&ending)) atomic_store(&closed, atomic_load(&held));
    for (struct guarded *g = all; g; g = g->next) renew(g);
    pthread_mutex_init(&list_lock, NULL);
    for (int i = 0; i < n_hooks; i++)
        if (hooks[i].in_child) hooks[i].in_child();
}

unsigned process_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

void process_at_fork(void (*before)(void), void (*child)(void))
{
    pthread_mutex_lock(&list_lock);
    if (n_hooks < HOOKS_MAX) {
        hooks[n_hooks].before = before;
        hooks[n_hooks++].in_child = child;
    }
    pthread_mutex_unlock(&list_lock);
}

void process_at_end(void (*act)(void))
{
    pthread_mutex_lock(&list_lock);
    if (n_end_hooks < HOOKS_MAX) end_hooks[n_end_hooks++] = act;
    pthread_mutex_unlock(&list_lock);
}

// What one core reaches of the last cache, as the kernel tells; 0: it does not. sysconf counts the caches of a whole
// package together where it has several.
static long shared_cache_B(void)
{
    long size_KiB = 0;
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    if (!f) return 0;
    if (fscanf(f, "%ldK", &size_KiB) != 1) size_KiB = 0;
    fclose(f);
    return size_KiB * 1024;
}

int process_processors(void)
{
    cpu_set_t allowed;
    int n = sched_getaffinity(0, sizeof allowed, &allowed) ? 0 : CPU_COUNT(&allowed);
    if (n <= 0) n = (int)sysconf(_SC_NPROCESSORS_ONLN); // more of them than the set can tell
    return n > 0 ? n : 1;
}

int64_t process_last_cache_B(void)
{
    enum { GUESS_B = 32 << 20 };
    static atomic_long known;
    long size_B = atomic_load_explicit(&known, memory_order_relaxed);
    if (size_B) return size_B;
    size_B = shared_cache_B();
#ifdef _SC_LEVEL3_CACHE_SIZE
    if (size_B <= 0) size_B = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    if (size_B <= 0) size_B = GUESS_B;
    atomic_store_explicit(&known, size_B, memory_order_relaxed);
    return size_B;
}

bool process_can_map(uint64_t size_B)
{
    void *p = mmap(NULL, (size_t)size_B, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    munmap(p, (size_t)size_B);
    return true;
}

// Of the C library, for compilers of C++.
int __cxa_thread_atexit_impl(void (*act)(void *), void *user, void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

__attribute__((constructor)) static void install(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
    if (gettid() != getpid() || !__cxa_thread_atexit_impl) return; // opened by another thread than the main one
    thread_at_end(THREAD_SECTIONS, release_sections);
    __cxa_thread_atexit_impl(hold_sections, NULL, &__dso_handle);
}
