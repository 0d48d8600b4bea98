// The end of a thread, by a key of the C library: what its parts left with it is dropped, part by part.
#include "base/thread.h"
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic(void (*)(void)) drops[THREAD_PARTS];
static THREAD_LOCAL unsigned due; // a bit a part
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool process_ends;

static void run(unsigned parts)
{
    // What is dropped may make the thread ask again.
    while (due & parts) {
        int part = __builtin_ctz(due & parts);
        due &= ~(1u << part);
        atomic_load (&drops[part])();
    }
}

static void end_thread(void *unused)
{
    (void)unused;
    run(~0u);
}

static void make_key(void)
{
    pthread_key_create(&key, end_thread);
}

// Nobody ends the threads' storage of the one that ends the process.
__attribute__((destructor)) static void end_process(void)
{
    process_ends = true;
    run(~(1u << THREAD_SCOPES | 1u << THREAD_DEVICE | 1u << THREAD_SECTIONS));
}

bool thread_ends_process(void)
{
    return process_ends;
}

void thread_at_end(enum thread_part part, void (*drop)(void))
{
    pthread_once(&once, make_key);
    atomic_store(&drops[part], drop);
    due |= 1u << part;
    pthread_setspecific(key, &due);
}
