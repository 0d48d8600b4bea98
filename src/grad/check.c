// kiln_gradcheck. Input: a function and f64 tensors. The function's result is folded to a number, sum(y r) with fixed
// weights r, so that one backward gives all derivatives, which central differences of the number must match, taken
// before they are summed. Order 2 checks, in the same way, the function that folds the gradients themselves. Written
// with the public interface only.
#include "base/options.h"
#include "grad/state.h"
#include "tensor/apply.h"
#include <kiln/grad.h>
#include <kiln/ops.h>
#include <math.h>
#include <stdlib.h>

struct checked {
    kiln_fn fn; // one output
    void *user;
    kiln_ints wrt;
    int order;
    double eps, rtol, atol;
};

// Weights in [0.5, 1.5), different for neighbours, the same at each call.
static kiln_tensor *weights_for(kiln_tensor *y)
{
    int64_t n = kiln_numel(y);
    double *v = malloc(sizeof *v * (size_t)(n > 0 ? n : 1));
    if (!v) {
        error_set(KILN_E_MEMORY, "gradcheck: out of memory");
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) v[i] = 0.5 + fmod((double)(i + 1) * 0.6180339887498949, 1.0);
    kiln_tensor *t = kiln_from_data(kiln_tensor_device(y), KILN_F64, kiln_rank(y), kiln_dims(y), v);
    free(v);
    return t;
}

static kiln_tensor *weighted(kiln_tensor *y)
{
    return kiln_mul(y, weights_for(y));
}

static kiln_tensor *sum_all(kiln_tensor *const *terms, size_t n)
{
    kiln_tensor *total = NULL;
    for (size_t i = 0; i < n && !error_pending; i++) {
        kiln_tensor *one = kiln_sum(terms[i], NULL);
        total = total ? kiln_add(total, one) : one;
    }
    return total;
}

// The result, weighted.
static kiln_status result(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct checked *c = user;
    kiln_tensor *y = NULL;
    TRY(c->fn(c->user, in, n_in, &y, 1));
    if (!y) return error_pending ? error_pending : error_set(KILN_E_ARGUMENT, "gradcheck: fn left its output NULL");
    out[0] = weighted(y);
    return error_pending;
}

static kiln_status folded(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    kiln_tensor *y = NULL;
    TRY(result(user, in, n_in, &y, 1));
    out[0] = sum_all(&y, 1);
    return error_pending;
}

// The gradients of a folded function, weighted: as many as .wrt names.
static kiln_status gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct checked *c = user;
    TRY(kiln_grad(folded, user, in, n_in, KILN_GRAD(.wrt = c->wrt), out, n_out));
    for (size_t i = 0; i < n_out && !error_pending; i++) out[i] = weighted(out[i]);
    return error_pending;
}

static kiln_status folded_gradients(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    const struct checked *c = user;
    kiln_tensor **grads = calloc(c->wrt.count, sizeof *grads);
    if (!grads) return error_set(KILN_E_MEMORY, "gradcheck: out of memory");
    if (!gradients(user, in, n_in, grads, c->wrt.count)) out[0] = sum_all(grads, c->wrt.count);
    free(grads);
    return error_pending;
}

// What one order checks: the derivatives of `folded`, which is the sum of what `terms` gives.
struct order {
    kiln_fn folded, terms;
    size_t n_terms;
};

// sum(high) - sum(low), term by term: a sum of thousands would lose what a small derivative adds to it.
static double difference(kiln_tensor **high, kiln_tensor *const *low, size_t n)
{
    for (size_t i = 0; i < n && !error_pending; i++) high[i] = kiln_sub(high[i], low[i]);
    kiln_tensor *total = sum_all(high, n);
    return total ? kiln_item(total) : 0;
}

// The terms of the function where input `input` has the values v.
static kiln_status evaluate(struct checked *c, const struct order *order, kiln_tensor **moved, size_t n_in,
                            size_t input, const double *v, kiln_tensor **terms)
{
    kiln_tensor *at = moved[input];
    moved[input] = kiln_from_data(kiln_tensor_device(at), KILN_F64, kiln_rank(at), kiln_dims(at), v);
    kiln_status status = error_pending;
    if (!status) {
        kiln_no_grad_begin();
        status = order->terms(c, moved, n_in, terms, order->n_terms);
        kiln_no_grad_end();
    }
    moved[input] = at;
    return error_pending ? error_pending : status;
}

struct worst {
    double excess, analytic, numeric;
    size_t input;
    int64_t element;
};

// The central difference along element i of one input, whose values v are given back as they were.
static kiln_status central(struct checked *c, const struct order *order, kiln_tensor **moved, size_t n_in, size_t input,
                           double *v, int64_t i, double *numeric)
{
    double x = v[i], high = x + c->eps, low = x - c->eps;
    kiln_tensor **terms = calloc(2 * order->n_terms, sizeof(kiln_tensor *));
    if (!terms) return error_set(KILN_E_MEMORY, "gradcheck: out of memory");
    struct leave left;
    leave_push(&left, free, terms);
    kiln_scope *scope = kiln_scope_begin();
    kiln_status status = scope ? KILN_OK : error_pending;
    v[i] = high;
    if (!status) status = evaluate(c, order, moved, n_in, input, v, terms);
    v[i] = low;
    if (!status) status = evaluate(c, order, moved, n_in, input, v, terms + order->n_terms);
    v[i] = x;
    if (!status) *numeric = difference(terms, terms + order->n_terms, order->n_terms) / (high - low);
    kiln_scope_end(&scope);
    leave_pop(&left);
    free(terms);
    return error_pending ? error_pending : status;
}

// Central differences along one input. `moved` holds all inputs and is given back as it was.
static kiln_status check_input(struct checked *c, const struct order *order, kiln_tensor **moved, size_t n_in,
                               size_t input, double *v, const double *analytic, struct worst *w)
{
    for (int64_t i = 0, n = kiln_numel(moved[input]); i < n; i++) {
        double numeric;
        TRY(central(c, order, moved, n_in, input, v, i, &numeric));
        double excess = fabs(numeric - analytic[i]) - (c->atol + c->rtol * fabs(numeric));
        if (isnan(numeric) != isnan(analytic[i])) excess = INFINITY;
        if (excess > w->excess) *w = (struct worst){excess, analytic[i], numeric, input, i};
    }
    return KILN_OK;
}

static kiln_status check_one(struct checked *c, const struct order *order, kiln_tensor **moved, size_t n_in,
                             size_t input, kiln_tensor *grad, struct worst *w)
{
    size_t size_B = sizeof(double) * (size_t)kiln_numel(moved[input]);
    double *v = malloc(size_B + 1), *analytic = malloc(size_B + 1);
    struct leave values[2];
    leave_push(&values[0], free, v);
    leave_push(&values[1], free, analytic);
    kiln_status status = v && analytic ? KILN_OK : error_set(KILN_E_MEMORY, "gradcheck: out of memory");
    if (!status) status = kiln_read(moved[input], v, size_B);
    if (!status) status = kiln_read(grad, analytic, size_B);
    if (!status) status = check_input(c, order, moved, n_in, input, v, analytic, w);
    leave_pop(&values[0]);
    free(v);
    free(analytic);
    return status;
}

static kiln_status check_order(struct checked *c, int order, kiln_tensor *const *in, size_t n_in)
{
    const struct order by_order[] = {{folded, result, 1}, {folded_gradients, gradients, c->wrt.count}};
    struct worst w = {.excess = 0};
    kiln_tensor **grads = calloc(c->wrt.count + n_in, sizeof *grads);
    if (!grads) return error_set(KILN_E_MEMORY, "gradcheck: out of memory");
    kiln_tensor **moved = grads + c->wrt.count;
    for (size_t i = 0; i < n_in; i++) moved[i] = in[i];
    struct leave left;
    leave_push(&left, free, grads);
    kiln_status status =
        kiln_grad(by_order[order > 1].folded, c, in, n_in, KILN_GRAD(.wrt = c->wrt), grads, c->wrt.count);
    for (size_t i = 0; i < c->wrt.count && !status; i++)
        status = check_one(c, &by_order[order > 1], moved, n_in, (size_t)c->wrt.v[i], grads[i], &w);
    leave_pop(&left);
    free(grads);
    if (!status && w.excess > 0)
        status =
            error_set(KILN_E_GRADIENT,
                      "gradcheck: order %d, input %zu, element %lld: the gradient is %.12g, differences give %.12g",
                      order, w.input, (long long)w.element, w.analytic, w.numeric);
    return status;
}

static kiln_status check(struct checked *c, const kiln_gradcheck_opts *o, kiln_tensor *const *in, size_t n_in)
{
    int64_t all[32];
    size_t n = 0;
    if (n_in && !in) return error_set(KILN_E_ARGUMENT, "gradcheck: in is NULL");
    if (o->wrt.count && !o->wrt.v) return error_set(KILN_E_ARGUMENT, "gradcheck: the list .wrt is NULL");
    for (size_t i = 0; i < n_in; i++) {
        if (!in[i]) return error_set(KILN_E_ARGUMENT, "gradcheck: in[%zu] is NULL", i);
        if (kiln_tensor_dtype(in[i]) == KILN_F64 && n < COUNT_OF(all)) all[n++] = (int64_t)i;
    }
    c->wrt = o->wrt.count ? o->wrt : (kiln_ints){n, all};
    if (!c->wrt.count) return error_set(KILN_E_ARGUMENT, "gradcheck: no input is f64");
    for (size_t i = 0; i < c->wrt.count; i++) {
        int64_t k = c->wrt.v[i];
        if (k < 0 || k >= (int64_t)n_in || kiln_tensor_dtype(in[k]) != KILN_F64)
            return error_set(KILN_E_ARGUMENT, "gradcheck: .wrt names input %lld, which is not f64", (long long)k);
    }
    TRY(check_order(c, 1, in, n_in));
    return o->order >= 2 ? check_order(c, 2, in, n_in) : KILN_OK;
}

kiln_status kiln_gradcheck(kiln_fn fn, void *user, kiln_tensor *const *in, size_t n_in, const kiln_gradcheck_opts *opts)
{
    kiln_gradcheck_opts o;
    if (error_pending) return error_pending;
    TRY(options_read("gradcheck", KILN_GRADCHECK, &o, opts));
    if (!fn) return error_set(KILN_E_ARGUMENT, "gradcheck: fn is NULL");
    struct checked c = {.fn = fn, .user = user, .order = o.order};
    c.eps = o.eps > 0 ? o.eps : 1e-6;
    c.rtol = o.rtol > 0 ? o.rtol : 1e-5;
    c.atol = o.atol > 0 ? o.atol : 1e-7;
    struct state_leave left;
    state_push(&left, NULL, NULL);
    kiln_scope *scope = kiln_scope_begin();
    kiln_status status = scope ? check(&c, &o, in, n_in) : error_pending;
    kiln_scope_end(&scope);
    state_pop(&left);
    return status;
}
