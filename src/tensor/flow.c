// Trips and effects: counted where they happen, on the thread that makes them.
#include "tensor/flow.h"

char *flow_text(char *text, size_t size_B)
{
    size_t n = 0;
    text[0] = '\0';
    for (const struct flow_trip *t = thread_state.trips; t && n < size_B; t = t->outer) {
        if (t->trip < 0) continue;
        const char *form = n ? ", %lld of the one around" : ", in trip %lld of its loop";
        n += (size_t)snprintf(text + n, size_B - n, form, (long long)t->trip);
    }
    return text;
}

static kiln_status call(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                        kiln_tensor **out)
{
    const struct thread_state around = thread_state;
    thread_state.sink = NULL;
    thread_state.capture = 0;
    thread_state.no_grad = 1;
    thread_state.numbers_given = thread_state.indices_fit = false;
    thread_state.effects = NULL;
    kiln_status status = h->kind->run(h, dev, in, n_in, out);
    struct kiln_scope *scope = thread_state.scope;
    thread_state = around;
    thread_state.scope = scope;
    return error_pending ? error_pending : status;
}

kiln_status flow_call_host(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                           kiln_tensor **out)
{
    struct flow_effects *e = thread_state.effects;
    if (!h->effect || !e) return call(h, dev, in, n_in, out);
    if (e->skip) {
        e->skip--;
        return KILN_OK;
    }
    if (e->failed && e->is_second_attempt) return error_set(KILN_E_STATE, "%s: it failed before", h->kind->name);
    kiln_status status = call(h, dev, in, n_in, out);
    if (status)
        e->failed = true;
    else
        e->done++;
    e->gave |= h->n_out > 0;
    return status;
}
