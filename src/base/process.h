// The process ends or forks, whatever its threads are doing.
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

// --- sections
//
// Code of other libraries that keep a state: compilers, drivers, the BLAS. While the process ends no thread is in one,
// for their destructors take that state away; nor while it forks, so that the child finds it whole. A thread that comes
// meanwhile waits. Sections may nest.

// False: the process ends, and the library may be gone already; the section is left out.
bool section_try(void);
// The same, but at the end of the process other threads than the one that ends it stay in here.
bool section_enter(void);
void section_leave(void);
// In a section, after such a library was opened or used: the destructors of the statics that it has made by then run
// after the threads have left the sections.
void section_opened(void);

// --- locks
//
// At a fork all locks that are guarded are free or held by the thread that forks, which is all that the child has.
// What is held for longer than a few milliseconds delays the fork.
struct guarded {
    pthread_mutex_t *lock;
    bool recursive;
    struct guarded *prev, *next;
};
void lock_guard(struct guarded *g, pthread_mutex_t *lock, bool recursive);
void lock_unguard(struct guarded *g);
// For a lock in static storage.
#define GUARD_LOCK(name, lock)                          \
    __attribute__((constructor)) static void name(void) \
    {                                                   \
        static struct guarded guarded_;                 \
        lock_guard(&guarded_, &(lock), false);          \
    }

// Processors that the calling thread may run on: those of the machine, or fewer in a cpuset or under `taskset`.
int process_processors(void);
// Bytes of the largest cache of a processor; a guess where the system does not say.
int64_t process_last_cache_B(void);
// Of less than what the last cache holds, and a quarter more, a part is there when it is read next. Where as many
// quarters of it are touched, results are better written past the caches. Processors without AVX-512 have slower memory
// behind such caches, which gains more: rms_norm of 32 MiB beside 32 MiB, on a Zen 3, 1.5 ms and 0.85.
static inline int process_stream_quarters(int64_t vector_bits)
{
    return vector_bits < 512 ? 4 : 5;
}
// --- limits

// Whether so much address space can be had beside what is in use: for libraries that do not live without.
bool process_can_map(uint64_t size_B);

// --- forks and the end

// How many forks lie between the first process and this one. What a thread is working on belongs to the generation in
// which the thread began; in a later one that thread does not exist.
unsigned process_generation(void);
// Functions to be called before each fork and in each child, in the order in which they came; NULL: none. The locks are
// free then.
void process_at_fork(void (*before)(void), void (*in_child)(void));
// To be called at the end of the process, before the sections are closed.
void process_at_end(void (*act)(void));
