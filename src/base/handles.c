// Each object has a head before it with a mark, which says of which kind it is and whether it is alive. Memory of what
// was freed stays what it is: it goes to a list of its kind, from which the oldest is taken again, and only when there
// are many. So a mark may be read at any time after freeing, a stale pointer meets another object late, and what is
// kept is bounded by the most that were alive at once.
#include "base/handles.h"
#include "base/process.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define HIDE(p, size_B) ASAN_POISON_MEMORY_REGION(p, size_B)
#define SHOW(p, size_B) ASAN_UNPOISON_MEMORY_REGION(p, size_B)
#else
#define HIDE(p, size_B) ((void)(size_B))
#define SHOW(p, size_B) ((void)(size_B))
#endif

#define KEPT_MIN 64 // freed objects of a kind before the oldest is used again

struct head {
    struct head *next; // freed: the one freed after it
    atomic_uint_least64_t mark;
    size_t size_B, unused;
};
_Static_assert(sizeof(struct head) % _Alignof(max_align_t) == 0, "what follows a head is aligned as malloc aligns");

static const char *const names[HANDLE_KINDS] = {
    "device", "graph",  "function", "cell",    "optimiser", "schedule", "loader",     "archive",  "checkpoint",
    "region", "bundle", "model",    "average", "generator", "table",    "vocabulary", "training", "metric"};
static const uint64_t alive = 0x4b696c6e48616e00, closed = 0x467265656448616e;

static struct {
    struct head *oldest, *newest;
    size_t n;
} freed[HANDLE_KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_freed, lock)

static struct head *head_of(const void *p)
{
    return (struct head *)(uintptr_t)p - 1;
}

static struct head *take_freed(enum handle_kind kind)
{
    struct head *h = NULL;
    pthread_mutex_lock(&lock);
    if (freed[kind].n > KEPT_MIN) {
        h = freed[kind].oldest;
        freed[kind].oldest = h->next;
        freed[kind].n--;
    }
    pthread_mutex_unlock(&lock);
    return h;
}

static const char *gone(enum handle_kind kind)
{
    return kind == HANDLE_DEVICE ? "closed" : kind == HANDLE_REGION ? "ended" : "freed";
}

void *handle_new(enum handle_kind kind, size_t size_B)
{
    struct head *h = take_freed(kind);
    if (!h) h = malloc(sizeof *h + size_B);
    if (!h) return NULL;
    h->next = NULL;
    h->size_B = size_B;
    SHOW(h + 1, size_B);
    atomic_init(&h->mark, alive + kind);
    return memset(h + 1, 0, size_B);
}

void handle_close(void *p)
{
    atomic_store_explicit(&head_of(p)->mark, closed, memory_order_relaxed);
}

void handle_free(enum handle_kind kind, void *p)
{
    if (!p) return;
    struct head *h = head_of(p);
    handle_close(p);
    h->next = NULL;
    HIDE(p, h->size_B);
    pthread_mutex_lock(&lock);
    if (freed[kind].n++)
        freed[kind].newest->next = h;
    else
        freed[kind].oldest = h;
    freed[kind].newest = h;
    pthread_mutex_unlock(&lock);
}

kiln_status handle_check(const char *function, const char *argument, enum handle_kind kind, const void *p)
{
    if (KILN_UNLIKELY(!p)) return error_set(KILN_E_ARGUMENT, "%s: %s is NULL", function, argument);
    if (KILN_LIKELY(atomic_load_explicit(&head_of(p)->mark, memory_order_relaxed) == alive + kind)) return KILN_OK;
    return error_set(KILN_E_HANDLE, "%s: the %s was %s, or is no %s", function, names[kind], gone(kind), names[kind]);
}

bool handle_may_free(const char *function, enum handle_kind kind, void *pointer)
{
    void *p;
    if (!pointer) return false;
    memcpy(&p, pointer, sizeof p);
    if (!p) return false;
    if (!handle_check(function, "", kind, p)) return true;
    memset(pointer, 0, sizeof p);
    return false;
}
