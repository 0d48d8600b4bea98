// The thread's state, kept by public functions that call the user's code: when that is left for good, scopes that were
// opened since go, and the rest is as it was. See base/leave.h.
#pragma once
#include "base/leave.h"
#include "tensor/tensor.h"
#include <kiln/grad.h>

struct state_leave {
    struct leave record;
    struct thread_state saved;
    void (*undo)(void *user);
    void *user;
};
void state_push(struct state_leave *l, void (*undo)(void *user), void *user); // undo: first, or NULL
static inline void state_pop(struct state_leave *l)
{
    leave_pop(&l->record);
}

// Calls a function of the user's.
kiln_status state_call(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out);
