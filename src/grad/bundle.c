// kiln_bundle_grad: gradients by what is in a bundle, as a bundle.
//
// The tensors of the input are flattened. What the caller differentiates by is a part of them, and a form, in which the
// entries without a gradient are left out; the gradients are put into it.
#include "base/leave.h"
#include "base/options.h"
#include "grad/bundle.h"
#include <stdlib.h>
#include <string.h>

static const char name[] = "bundle_grad";

struct asked {
    kiln_bundle_grad_opts o;
    struct bundle_content *in;    // borrowed
    struct bundle_content *mould; // of the gradients
    VEC(int64_t) wrt;             // of the flattened input
    bundle_tensors tensors, sens; // borrowed
};

static kiln_status add_slot(struct bundle_content *to, struct bundle_name *named)
{
    struct bundle_value *v = bundle_value_slot(KILN_KIND_TENSOR, NULL);
    if (!v) return error_set(KILN_E_MEMORY, "%s: out of memory", name);
    return bundle_content_insert(name, to, to->entries.n, named, v);
}

// The gradients by an entry, whose first slot is number `at` of all.
static kiln_status add_entry(struct asked *a, struct bundle_content *to, const struct bundle_entry *e, size_t at)
{
    if (e->value->slot) {
        TRY(vec_push(&a->wrt, (int64_t)at));
        return add_slot(to, e->name);
    }
    if (e->value->kind != KILN_KIND_BUNDLE || !e->value->bundle->n_slots) return KILN_OK;
    struct bundle_content *inside = bundle_content_new();
    kiln_status status = inside ? KILN_OK : error_pending;
    const struct bundle_content *from = e->value->bundle;
    for (size_t i = 0; i < from->entries.n && !status; i++) {
        const struct bundle_value *v = from->entries.v[i].value;
        status = add_entry(a, inside, &from->entries.v[i], at);
        at += v->slot + (v->kind == KILN_KIND_BUNDLE ? v->bundle->n_slots : 0);
    }
    struct bundle_value *v = status ? NULL : bundle_value_of(inside);
    if (!v) bundle_content_unref(inside);
    if (!v) return status ? status : error_set(KILN_E_MEMORY, "%s: out of memory", name);
    return bundle_content_insert(name, to, to->entries.n, e->name, v);
}

static kiln_status add_index(struct asked *a, size_t index)
{
    size_t at = 0;
    for (size_t i = 0; i < index; i++) {
        const struct bundle_value *v = a->in->entries.v[i].value;
        at += v->slot + (v->kind == KILN_KIND_BUNDLE ? v->bundle->n_slots : 0);
    }
    return add_entry(a, a->mould, &a->in->entries.v[index], at);
}

static kiln_status add_asked(struct asked *a, bool *taken, size_t index)
{
    if (taken[index]) return error_set(KILN_E_ARGUMENT, "%s: entry %zu is asked for twice", name, index);
    taken[index] = true;
    return add_index(a, index);
}

static kiln_status add_wrt(struct asked *a, bool *taken)
{
    int64_t n = (int64_t)a->in->entries.n;
    for (size_t i = 0; i < a->o.wrt.count; i++) {
        int64_t v = a->o.wrt.v[i];
        if (v < -n || v >= n)
            return error_set(KILN_E_ARGUMENT, "%s: .wrt names entry %lld, in has %lld", name, (long long)v,
                             (long long)n);
        TRY(add_asked(a, taken, (size_t)(v < 0 ? v + n : v)));
    }
    for (size_t i = 0; i < a->o.names.count; i++) {
        int64_t at = a->o.names.v[i] ? bundle_content_find(a->in, a->o.names.v[i]) : -1;
        if (at < 0)
            return error_set(KILN_E_ARGUMENT, "%s: .names entry %zu, \"%.60s\", is no entry of in", name, i,
                             a->o.names.v[i] ? a->o.names.v[i] : "NULL");
        TRY(add_asked(a, taken, (size_t)at));
    }
    return KILN_OK;
}

static kiln_status choose(struct asked *a)
{
    bool all = !a->o.wrt.count && !a->o.names.count;
    const char *null = a->o.wrt.count && !a->o.wrt.v         ? ".wrt"
                       : a->o.names.count && !a->o.names.v   ? ".names"
                       : a->o.params.count && !a->o.params.v ? ".params"
                                                             : NULL;
    if (null) return error_set(KILN_E_ARGUMENT, "%s: the list %s is NULL", name, null);
    if (!(a->mould = bundle_content_new())) return error_pending;
    bool *taken = calloc(a->in->entries.n + 1, sizeof *taken);
    if (!taken) return error_set(KILN_E_MEMORY, "%s: out of memory", name);
    kiln_status status = all ? KILN_OK : add_wrt(a, taken);
    free(taken);
    const struct bundle_value whole = {.kind = KILN_KIND_BUNDLE, .bundle = a->in};
    if (all && !a->o.params.count && !status) {
        struct bundle_entry e = {.value = (struct bundle_value *)&whole};
        status = add_entry(a, a->mould, &e, 0);
    }
    TRY(status);
    for (size_t i = 0; i < a->o.params.count; i++) TRY(add_slot(a->mould, NULL));
    if (a->mould->n_slots) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: nothing to differentiate by: no entry is a tensor or a mutable number",
                     name);
}

kiln_status grad_bundle_aux(const struct grad_bundle *b, size_t *n_aux)
{
    const struct bundle_content *out = b->run.out;
    *n_aux = 0;
    if (!b->has_aux) return KILN_OK;
    if (!out || !out->entries.n)
        return error_set(KILN_E_ARGUMENT, "%s: .has_aux, but fn gave no entry to differentiate", name);
    const struct bundle_value *first = out->entries.v[0].value;
    *n_aux = b->run.made.n - (first->slot + (first->kind == KILN_KIND_BUNDLE ? first->bundle->n_slots : 0));
    return KILN_OK;
}

// The mould is the one entry that `in` as a whole gave, or the entries that were asked for.
static kiln_status give_gradients(struct asked *a, bool whole, kiln_tensor **tensors, size_t n, kiln_bundle **grads)
{
    struct bundle_content *form = whole ? a->mould->entries.v[0].value->bundle : a->mould;
    const struct bundle_result r = {.out = form};
    return bundle_give(&r, NULL, tensors, n, grads);
}

static kiln_status differentiate(struct asked *a, struct grad_bundle *b, kiln_bundle **value, kiln_bundle **grads)
{
    const kiln_grad_opts o = {.size = sizeof o,
                              .wrt = {a->wrt.n, a->wrt.v},
                              .params = a->o.params,
                              .sens = {a->sens.n, a->sens.v},
                              .create_graph = a->o.create_graph};
    TRY(grad_of_bundle(name, b, a->tensors.v, a->tensors.n, &o));
    bool whole = !a->o.wrt.count && !a->o.names.count && !a->o.params.count;
    size_t n_grads = (size_t)a->mould->n_slots, n_values = b->n_results - n_grads;
    kiln_bundle *given = NULL;
    kiln_status status = bundle_give(&b->run.result, NULL, b->results, n_values, &given);
    kiln_status last = give_gradients(a, whole, b->results + n_values, n_grads, grads);
    if (!status) status = last;
    if (value && !status)
        *value = given;
    else
        kiln_bundle_free(&given);
    return status;
}

static kiln_status read_sens(struct asked *a)
{
    struct bundle_content *sens;
    if (!a->o.sens) return KILN_OK;
    TRY(bundle_check(name, ".sens", a->o.sens));
    TRY(bundle_read(name, a->o.sens, &sens));
    TRY(bundle_flatten(sens, &a->sens));
    if (a->sens.n) return KILN_OK;
    return error_set(KILN_E_ARGUMENT, "%s: .sens has no tensor", name);
}

static kiln_status prepare(struct asked *a, const kiln_bundle *in, const kiln_bundle_grad_opts *opts)
{
    TRY(bundle_check(name, "in", in));
    TRY(options_read(name, KILN_BUNDLE_GRAD, &a->o, opts));
    TRY(bundle_read(name, in, &a->in));
    bundle_content_ref(a->in);
    TRY(read_sens(a));
    TRY(choose(a));
    return bundle_flatten(a->in, &a->tensors);
}

static void finish(void *at)
{
    struct asked *a = at;
    bundle_content_unref(a->in);
    bundle_content_unref(a->mould);
    vec_free(&a->wrt);
    vec_free(&a->tensors);
    vec_free(&a->sens);
}

kiln_status kiln_bundle_grad(kiln_bundle_fn fn, void *user, kiln_bundle *in, const kiln_bundle_grad_opts *opts,
                             kiln_bundle **value, kiln_bundle **grads)
{
    if (error_pending) return error_pending;
    if (!fn || !grads) return error_set(KILN_E_ARGUMENT, "%s: %s is NULL", name, fn ? "grads" : "fn");
    struct asked a = {.in = NULL};
    *grads = NULL;
    if (value) *value = NULL;
    kiln_status status = prepare(&a, in, opts);
    struct grad_bundle b = {.has_aux = a.o.has_aux,
                            .run = {.fn = fn, .user = user, .op = name, .name = "fn", .in = a.in, .by_value = true}};
    struct leave left;
    leave_push(&left, finish, &a);
    if (!status) status = differentiate(&a, &b, value, grads);
    leave_pop(&left);
    bundle_run_finish(&b.run);
    free(b.results);
    finish(&a);
    return status;
}
