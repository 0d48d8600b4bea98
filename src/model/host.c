// Prints and assertions of a model.
#include "model/host.h"
#include "base/caller.h"
#include "jit/control/host.h"
#include "ops/attrs.h"
#include "ops/families.h"
#include "tensor/apply.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct host_call *get(const struct model_host *of)
{
    struct host_call like;
    if (!host_report_like(of->kind, &like)) {
        error_set(KILN_E_UNSUPPORTED, "model: this version has no call of the host named %.60s", of->kind);
        return NULL;
    }
    like.text = of->text;
    like.place = of->place;
    return host_call_get(&like);
}

kiln_status host_numbers_of(const struct model *m, struct host_numbers *out, size_list *sizes)
{
    out->names = calloc(m->hosts.n + 1, sizeof *out->names);
    if (!out->names) return error_set(KILN_E_MEMORY, "model: out of memory");
    for (size_t i = 0; i < m->hosts.n; i++) {
        struct host_call *h = get(&m->hosts.v[i]);
        if (!h) return error_pending;
        if (vec_push(&out->calls, h)) {
            host_call_unref(h);
            return error_pending;
        }
        snprintf(out->names[i], sizeof out->names[i], "host%zu", i);
        const struct ir_size s = {out->names[i], h->number};
        TRY(vec_push(sizes, s));
    }
    return KILN_OK;
}

void host_numbers_drop(struct host_numbers *n)
{
    for (size_t i = 0; i < n->calls.n; i++) host_call_unref(n->calls.v[i]);
    vec_free(&n->calls);
    free(n->names);
}

bool host_is_call(const struct ir_node *n, int64_t *number)
{
    if (n->op != &op_instances[OP_host_call] && n->op != &op_instances[OP_host_value]) return false;
    *number = n->attrs[AT_host_call_call].i;
    return true;
}

static const struct host_call *held(const struct captured *c, int64_t number)
{
    for (size_t i = 0; i < c->n_hosts; i++)
        if (c->hosts[i]->number == number) return c->hosts[i];
    return NULL;
}

static kiln_status hold(struct captured *c, int64_t number)
{
    struct host_call **more = realloc(c->hosts, sizeof *more * (c->n_hosts + 1));
    if (!more) return error_set(KILN_E_MEMORY, "model: out of memory");
    c->hosts = more;
    c->hosts[c->n_hosts] = host_call_of(number);
    if (!c->hosts[c->n_hosts]) return error_pending;
    c->n_hosts++;
    return KILN_OK;
}

kiln_status host_hold_calls(struct captured *c)
{
    int64_t number;
    for (size_t i = 0; i < c->graph->nodes.n; i++) {
        const struct ir_node *n = &c->graph->nodes.v[i];
        if (!host_is_call(n, &number)) continue;
        if (!held(c, number)) TRY(hold(c, number));
        if (!host_report_fits(held(c, number), (size_t)n->n_in))
            return error_set(KILN_E_FORMAT, "model: a call of the host has %d operands, of which its text names others",
                             (int)n->n_in);
    }
    return KILN_OK;
}

static int32_t find(const struct model *m, const struct model_host *like)
{
    for (size_t i = 0; i < m->hosts.n; i++) {
        const struct model_host *h = &m->hosts.v[i];
        if (!strcmp(h->kind, like->kind) && !strcmp(h->text, like->text) && !strcmp(h->place, like->place))
            return (int32_t)i;
    }
    return -1;
}

static void drop(struct model_host *h)
{
    free(h->kind);
    free(h->text);
    free(h->place);
}

static int32_t add(struct model *m, const struct host_call *h)
{
    char place[CALLER_TEXT_MAX];
    host_call_where(h, place, sizeof place);
    struct model_host made = {model_copy(h->kind->name, strlen(h->kind->name)), model_copy(h->text, strlen(h->text)),
                              model_copy(place, strlen(place))};
    int32_t found = made.kind && made.text && made.place ? find(m, &made) : -1;
    if (found < 0 && !error_pending && !vec_push(&m->hosts, made)) return (int32_t)m->hosts.n - 1;
    drop(&made);
    return found;
}

int32_t host_add(struct model *m, int64_t number)
{
    struct host_call *h = host_call_of(number);
    int32_t at = h && host_call_is_report(h) ? add(m, h) : -1;
    host_call_unref(h);
    return at;
}
