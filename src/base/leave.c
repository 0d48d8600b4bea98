// Compiled with -fexceptions, so that the one frame of leave_call takes part in unwinding.
#include "base/thread.h"
#include "base/leave.h"
#include "base/thread.h"
#include "base/base.h"
#include "base/leave_frame.h"

static THREAD_LOCAL struct leave *newest;
static THREAD_LOCAL struct leave *user_since; // the newest when the user's code that runs now was called

struct leave_guard {
    struct leave_frame frame;
    struct leave *since;
    bool inside;
};

void leave_push(struct leave *l, void (*undo)(void *user), void *user)
{
    *l = (struct leave){newest, undo, user};
    newest = l;
}

void leave_pop(struct leave *l)
{
    newest = l->outer;
}

static void undo_all(void *at)
{
    struct leave_guard *g = at;
    if (!g->inside) return;
    g->inside = false;
    user_since = g->since;
    while (newest != g->since) {
        struct leave *l = newest;
        newest = l->outer;
        l->undo(l->user);
    }
}

static void left(struct leave_guard *g)
{
    if (!g->inside) return;
    leave_frame_end(&g->frame);
    undo_all(g);
}

void leave_call(void (*call)(void *user), void *user)
{
    struct leave_guard g __attribute__((cleanup(left))) = {.since = user_since, .inside = true};
    leave_frame_begin(&g.frame, undo_all, &g);
    user_since = newest;
    call(user);
    leave_frame_end(&g.frame);
    user_since = g.since;
    g.inside = false;
}
