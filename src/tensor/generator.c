// Generators: a place in a stream, shared by those who use it. To callers one is freed when they free it; its memory
// stays while a thread uses it.
#include "base/handles.h"
#include "base/process.h"
#include "base/thread.h"
#include "tensor/draw.h"
#include "tensor/tensor.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the states and users of all
GUARD_LOCK(guard_generators, lock)

static kiln_status check(const char *function, const kiln_generator *g)
{
    return error_pending ? error_pending : handle_check(function, "g", HANDLE_GENERATOR, g);
}

static kiln_generator *create(const char *function, uint64_t seed)
{
    kiln_generator *g = handle_new(HANDLE_GENERATOR, sizeof *g);
    if (!g) {
        error_set(KILN_E_MEMORY, "%s: out of memory", function);
        return NULL;
    }
    g->users = 1;
    g->at.seed = seed;
    return g;
}

kiln_generator *kiln_generator_new(uint64_t seed)
{
    return error_pending ? NULL : create("generator_new", seed);
}

static void take_hold(kiln_generator *g)
{
    if (!g) return;
    pthread_mutex_lock(&lock);
    g->users++;
    pthread_mutex_unlock(&lock);
}

static void let_go(kiln_generator *g)
{
    if (!g) return;
    pthread_mutex_lock(&lock);
    bool last = --g->users == 0;
    pthread_mutex_unlock(&lock);
    if (last) handle_free(HANDLE_GENERATOR, g);
}

void kiln_generator_free(kiln_generator **g)
{
    if (!handle_may_free("generator_free", HANDLE_GENERATOR, g)) return;
    handle_close(*g);
    let_go(*g);
    *g = NULL;
}

kiln_generator *kiln_generator_fork(kiln_generator *g)
{
    if (check("generator_fork", g)) return NULL;
    struct rng at = generator_take(g, 1);
    return create("generator_fork", rng_of_trip(&at, 0).seed);
}

kiln_status kiln_generator_state(const kiln_generator *g, uint64_t *seed, uint64_t *offset)
{
    TRY(check("generator_state", g));
    pthread_mutex_lock(&lock);
    if (seed) *seed = g->at.seed;
    if (offset) *offset = g->at.offset;
    pthread_mutex_unlock(&lock);
    return KILN_OK;
}

kiln_status kiln_generator_set_state(kiln_generator *g, uint64_t seed, uint64_t offset)
{
    TRY(check("generator_set_state", g));
    pthread_mutex_lock(&lock);
    g->at = (struct rng){seed, offset};
    pthread_mutex_unlock(&lock);
    return KILN_OK;
}

struct rng generator_take(kiln_generator *g, uint64_t n)
{
    pthread_mutex_lock(&lock);
    struct rng at = g->at;
    g->at.offset += n;
    pthread_mutex_unlock(&lock);
    return at;
}

void generator_give_back(kiln_generator *g, const struct rng *taken, uint64_t n)
{
    pthread_mutex_lock(&lock);
    if (g->at.seed == taken->seed && g->at.offset == taken->offset + n) g->at = *taken;
    pthread_mutex_unlock(&lock);
}

static void drop(void)
{
    let_go(thread_state.generator);
    thread_state.generator = NULL;
}

kiln_generator *kiln_use_generator(kiln_generator *g)
{
    kiln_generator *before = thread_state.generator;
    if (error_pending || (g && check("use_generator", g))) return before;
    if (thread_state.capture || thread_state.draws) {
        error_set(KILN_E_STATE, "use_generator: not in %s; use it around the call",
                  thread_state.capture ? "a capture" : "a region of control flow");
        return before;
    }
    if (g && !before) thread_at_end(THREAD_GENERATOR, drop);
    take_hold(g);
    thread_state.generator = g;
    let_go(before);
    return before;
}
