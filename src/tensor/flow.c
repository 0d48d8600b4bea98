// Trips and effects: counted where they happen, on the thread that makes them.
//
// What an effect gives is kept as long as the run lasts, up to a limit: where a later op fails, the graph is run op by
// op up to there, and the effect, which is not had twice, gives the same again.
#include "tensor/flow.h"
#include "tensor/apply.h"
#include <kiln/ops.h>
#include <stdlib.h>

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

void flow_effects_finish(struct flow_effects *e)
{
    for (size_t i = 0; i < e->n_kept; i++)
        if (e->kept[i].tensor) tensor_destroy(e->kept[i].tensor);
    free(e->kept);
    e->kept = NULL;
    e->n_kept = e->kept_B = 0;
}

static bool is_plain_number(const kiln_tensor *t)
{
    return !t->storage && t->type.dtype == KILN_F64;
}

// A handle of its own; memory that somebody else has may be written yet.
static kiln_tensor *keep(kiln_tensor *t)
{
    bool shared = t->storage && (atomic_load(&t->storage->refs) > 1 || t->storage->borrowed);
    kiln_tensor *copy = shared ? tensor_empty(t->storage->dev, &t->type) : kiln_alias(t);
    if (copy && shared && kiln_assign(copy, t)) return NULL;
    return copy ? kiln_own(copy) : NULL;
}

static kiln_status keep_result(struct flow_effects *e, kiln_tensor *t)
{
    uint64_t size_B = sizeof *e->kept + (is_plain_number(t) ? 0 : sizeof *t);
    if (t->storage) size_B += (uint64_t)type_numel(&t->type) * dtype_size_B[t->type.dtype];
    e->lost |= e->kept_B + size_B > FLOW_KEPT_MOST_B;
    if (e->lost) {
        flow_effects_finish(e);
        return KILN_OK;
    }
    if (!(e->n_kept & (e->n_kept - 1))) { // room for twice as many
        struct flow_kept *more = realloc(e->kept, sizeof *more * (e->n_kept ? 2 * e->n_kept : 1));
        if (!more) return error_set(KILN_E_MEMORY, "host: out of memory");
        e->kept = more;
    }
    struct flow_kept *k = &e->kept[e->n_kept];
    *k = (struct flow_kept){.number = t->number};
    if (!is_plain_number(t) && !(k->tensor = keep(t))) return error_pending;
    e->n_kept++;
    e->kept_B += size_B;
    return KILN_OK;
}

static kiln_status keep_results(struct flow_effects *e, const struct host_call *h, kiln_tensor *const *out)
{
    kiln_status status = KILN_OK;
    thread_state.no_grad++;
    for (int i = 0; i < h->n_out && !e->lost && !e->is_second_attempt && !status; i++) status = keep_result(e, out[i]);
    thread_state.no_grad--;
    e->lost |= status != KILN_OK; // the run cannot be caught up with
    return status;
}

static kiln_status give_again(struct flow_effects *e, const struct host_call *h, kiln_tensor **out)
{
    for (int i = 0; i < h->n_out; i++) {
        if (e->n_taken >= e->n_kept) return error_set(KILN_E_INTERNAL, "%s: what it gave was not kept", h->kind->name);
        const struct flow_kept *k = &e->kept[e->n_taken++];
        out[i] = k->tensor ? kiln_alias(k->tensor) : kiln_scalar(k->number);
        if (!out[i]) return error_pending;
    }
    return KILN_OK;
}

kiln_status flow_call_host(const struct host_call *h, kiln_device *dev, kiln_tensor *const *in, size_t n_in,
                           kiln_tensor **out)
{
    struct flow_effects *e = thread_state.effects;
    if (!h->effect || !e) return call(h, dev, in, n_in, out);
    if (e->skip) {
        e->skip--;
        return give_again(e, h, out);
    }
    if (e->failed && e->is_second_attempt) return error_set(KILN_E_STATE, "%s: it failed before", h->kind->name);
    kiln_status status = call(h, dev, in, n_in, out);
    if (status)
        e->failed = true;
    else
        e->done++;
    return status ? status : keep_results(e, h, out);
}
