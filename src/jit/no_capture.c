// Capture off for a while, on one thread: functions that are called run as they are, and of a walk of AUTO the ops run
// at once. A depth in the thread's state tells it.
#include "base/leave_frame.h"
#include "jit/capture/recorder.h"
#include "jit/function.h"

kiln_status kiln_no_capture_begin(void)
{
    thread_state.no_capture++;
    if (error_pending) return error_pending;
    const struct recorder *r = recorder_current();
    if (!r) return KILN_OK;
    return error_set(KILN_E_STATE,
                     "no_capture_begin: %s is being captured, and ops have no values to run on; capture it with "
                     "KILN_CAPTURE_AUTO, or begin around its call",
                     r->name);
}

void kiln_no_capture_end(void)
{
    if (thread_state.no_capture)
        thread_state.no_capture--;
    else
        error_set(KILN_E_STATE, "no_capture_end: without kiln_no_capture_begin on this thread");
}

static struct leave_frame *frame_of(kiln_no_capture_place *p)
{
    _Static_assert(sizeof(struct leave_frame) <= sizeof p->reserved, "a block's place in its function");
    return (struct leave_frame *)(void *)p->reserved;
}

// longjmp goes past it.
static void leave_block(void *at)
{
    kiln_no_capture_place *p = at;
    p->open = false;
    if (thread_state.no_capture) thread_state.no_capture--;
}

bool kiln_no_capture_enter(kiln_no_capture_place *p)
{
    if (!p) {
        error_set(KILN_E_ARGUMENT, "no_capture_enter: p is NULL");
        return false;
    }
    if (p->entered) return false;
    p->entered = p->open = true;
    (void)kiln_no_capture_begin(); // an error is pending then
    leave_frame_begin(frame_of(p), leave_block, p);
    return true;
}

void kiln_no_capture_leave(kiln_no_capture_place *p)
{
    if (!p || !p->open) return;
    leave_frame_end(frame_of(p));
    leave_block(p);
}
