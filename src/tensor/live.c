// Which handles are alive, and who made them: on in debug builds (compiled without optimisation and with assertions)
// and with KILN_DEBUG=handles, for it walks the stack at every new handle. When a device is closed, what still lives on
// it is told to the log. Input: the list of live handles, newest first; output: one warning that names the first few
// with their type and the line that made them. Invariant: a handle is on the list from its making until just before its
// storage is let go, so that the storages of what is listed may be looked at under the lock.
#include "base/process.h"
#include "base/caller.h"
#include "base/str.h"
#include "tensor/tensor.h"
#include <pthread.h>

#define SHOWN_MAX 8

#if !defined(NDEBUG) && !defined(__OPTIMIZE__)
bool live_tracked = true;
#else
bool live_tracked;
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
GUARD_LOCK(guard_live, lock)
static kiln_tensor *newest;

void live_add(kiln_tensor *t)
{
    t->made_at = caller_find();
    pthread_mutex_lock(&lock);
    t->live_prev = NULL;
    t->live_next = newest;
    if (newest) newest->live_prev = t;
    newest = t;
    pthread_mutex_unlock(&lock);
}

void live_remove(kiln_tensor *t)
{
    pthread_mutex_lock(&lock);
    if (t->live_prev)
        t->live_prev->live_next = t->live_next;
    else
        newest = t->live_next;
    if (t->live_next) t->live_next->live_prev = t->live_prev;
    pthread_mutex_unlock(&lock);
}

static void describe(struct str *s, const kiln_tensor *t)
{
    char type[TYPE_TEXT_MAX], place[CALLER_TEXT_MAX];
    str_addf(s, "%s", type_text(&t->type, type, sizeof type));
    if (caller_describe(t->made_at, place, sizeof place)) str_addf(s, " made at %s", place);
}

static void report(kiln_device *dev)
{
    if (!live_tracked) return;
    struct str s;
    str_init(&s);
    int n = 0;
    pthread_mutex_lock(&lock);
    for (const kiln_tensor *t = newest; t; t = t->live_next) {
        if (!t->storage || t->storage->dev != dev) continue;
        if (n < SHOWN_MAX) {
            str_add(&s, n ? ", " : ": ");
            describe(&s, t);
        }
        n++;
    }
    pthread_mutex_unlock(&lock);
    if (n > SHOWN_MAX) str_addf(&s, " and %d more", n - SHOWN_MAX);
    const char *some = n == 1 ? "handle" : "handles", *are = n == 1 ? "is" : "are";
    if (n) log_warn("device_close: %d %s on %s %s still alive%s", n, some, dev->name, are, str_text(&s));
    str_free(&s);
}

__attribute__((constructor)) static void arm(void)
{
    live_tracked |= debug_flag("handles");
    device_upper.report_alive = report;
}
