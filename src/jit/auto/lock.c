// The lock of all that AUTO records, and compiled bodies, which go once nobody holds it: a program may wait for a
// device, or for a thread that compiles, before it goes.
#include "base/process.h"
#include "base/thread.h"
#include "jit/auto/auto.h"
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_tries, lock)
static pthread_cond_t mark_gone = PTHREAD_COND_INITIALIZER;
static THREAD_LOCAL int depth;
static struct auto_body *buried;

static void body_free(struct auto_body *b)
{
    program_destroy(&b->program);
    ir_graph_destroy(&b->graph);
    free(b->inputs);
    free(b->replaced);
    free(b);
}

static void renew_waits(void)
{
    pthread_cond_init(&mark_gone, NULL);
}

__attribute__((constructor)) static void prepare_forks(void)
{
    process_at_fork(NULL, renew_waits);
}

void auto_lock(void)
{
    if (depth++ == 0) pthread_mutex_lock(&lock);
}

static void unlock(void)
{
    struct auto_body *gone = buried;
    buried = NULL;
    pthread_mutex_unlock(&lock);
    while (gone) {
        struct auto_body *next = gone->next;
        body_free(gone);
        gone = next;
    }
}

void auto_unlock(void)
{
    if (--depth == 0) unlock();
}

int auto_unlock_all(void)
{
    int was = depth;
    depth = 0;
    unlock();
    return was;
}

void auto_lock_again(int was)
{
    pthread_mutex_lock(&lock);
    depth = was;
}

void auto_lock_wait(void)
{
    int was = depth;
    depth = 0;
    pthread_cond_wait(&mark_gone, &lock);
    depth = was;
}

void auto_lock_wake(void)
{
    pthread_cond_broadcast(&mark_gone);
}

static void bury(struct auto_body *b)
{
    b->next = buried;
    buried = b;
}

void auto_body_unref(struct trie *t, struct auto_body *b)
{
    if (!b || --b->refs) return;
    struct auto_body **p = &t->bodies;
    while (*p && *p != b) p = &(*p)->next;
    if (*p) {
        *p = b->next;
        t->n_bodies--;
        t->size_B -= b->size_B;
    }
    bury(b);
}
