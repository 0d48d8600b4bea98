// The calls of the host that graphs of the process know.
#include "ir/host.h"
#include "base/caller.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_call *calls;

static bool same(const struct host_call *a, const struct host_call *b)
{
    if (a->kind != b->kind || a->fn != b->fn || a->rule != b->rule || a->user != b->user || a->flags != b->flags ||
        a->effect != b->effect || a->folds != b->folds || a->caller != b->caller)
        return false;
    if (a->n_out != b->n_out || strcmp(a->text, b->text)) return false;
    if (!a->place != !b->place || (a->place && strcmp(a->place, b->place))) return false;
    if (!a->form != !b->form || (a->form && !a->kind->form_same(a->form, b->form))) return false;
    for (int i = 0; i < a->n_out; i++)
        if (!type_equal(&a->out[i], &b->out[i])) return false;
    return true;
}

static struct host_call *copy(const struct host_call *like)
{
    size_t text_B = strlen(like->text) + 1, types_B = sizeof *like->out * (size_t)like->n_out;
    size_t place_B = like->place ? strlen(like->place) + 1 : 0;
    struct host_call *h = malloc(sizeof *h + types_B + text_B + place_B);
    if (!h) return NULL;
    *h = *like;
    struct type *out = (struct type *)(void *)(h + 1);
    char *text = (char *)(out + like->n_out);
    if (types_B) memcpy(out, like->out, types_B);
    memcpy(text, like->text, text_B);
    h->out = out;
    if (place_B) h->place = memcpy(text + text_B, like->place, place_B);
    h->text = text;
    atomic_init(&h->refs, 1);
    if (h->form) h->kind->form_ref(h->form);
    return h;
}

struct host_call *host_call_get(const struct host_call *like)
{
    static int64_t last;
    struct host_call *h;
    pthread_mutex_lock(&lock);
    for (h = calls; h && !same(h, like); h = h->next) {}
    if (h)
        atomic_fetch_add(&h->refs, 1);
    else if ((h = copy(like))) {
        h->number = ++last;
        h->next = calls;
        calls = h;
    }
    pthread_mutex_unlock(&lock);
    if (!h) error_set(KILN_E_MEMORY, "%s: out of memory", like->kind->name);
    return h;
}

struct host_call *host_call_of(int64_t number)
{
    pthread_mutex_lock(&lock);
    struct host_call *h = calls;
    while (h && h->number != number) h = h->next;
    if (h) atomic_fetch_add(&h->refs, 1);
    pthread_mutex_unlock(&lock);
    if (!h) error_set(KILN_E_FORMAT, "graph: there is no call %lld of the host", (long long)number);
    return h;
}

const char *host_call_where(const struct host_call *h, char *text, size_t size_B)
{
    if (h->place)
        snprintf(text, size_B, "%s", h->place);
    else
        caller_describe(h->caller, text, size_B);
    return text;
}

struct host_call *host_call_ref(struct host_call *h)
{
    atomic_fetch_add(&h->refs, 1);
    return h;
}

void host_call_unref(struct host_call *h)
{
    if (!h) return;
    pthread_mutex_lock(&lock);
    bool last = atomic_fetch_sub(&h->refs, 1) == 1;
    for (struct host_call **at = &calls; last && *at; at = &(*at)->next)
        if (*at == h) {
            *at = h->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (last && h->form) h->kind->form_unref(h->form);
    if (last) free(h);
}
