// Puts the thread's state back when the user's code is left by a longjmp or an exception.
#include "grad/state.h"

static void restore(void *at)
{
    struct state_leave *l = at;
    if (l->undo) l->undo(l->user);
    while (thread_state.scope != l->saved.scope) scope_drop(thread_state.scope);
    thread_state = l->saved;
}

void state_push(struct state_leave *l, void (*undo)(void *user), void *user)
{
    l->saved = thread_state;
    l->undo = undo;
    l->user = user;
    leave_push(&l->record, restore, l);
}

struct function_call {
    kiln_fn fn;
    void *user;
    kiln_tensor *const *in;
    size_t n_in;
    kiln_tensor **out;
    size_t n_out;
    kiln_status status;
};

static void call(void *at)
{
    struct function_call *c = at;
    c->status = c->fn(c->user, c->in, c->n_in, c->out, c->n_out);
}

kiln_status state_call(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    struct function_call c = {fn, user, in, n_in, out, n_out, KILN_OK};
    leave_call(call, &c);
    return c.status;
}
