// L-BFGS: the two loops of Nocedal and Wright, algorithm 7.4, over all parameters as one vector.
//
// Nothing is read by the host: whether a pair is taken up, whether there is one yet, are values of the device, so that
// a step is captured as any other is. A place without a pair has rho = 0 and does nothing. The launches of a step are
// as many as the history is long, times a constant, and two for each parameter.
#include "optim/lbfgs.h"
#include "base/dtype.h"
#include "optim/kinds.h"
#include "base/options.h"

#include <kiln/ops.h>
#include <math.h>
#include <stdlib.h>

static const double least_curvature = 1e-10;

kiln_tensor *lbfgs_gradient(const kiln_optim *opt)
{
    const struct optim_group *o = opt->groups[0];
    kiln_dtype dtype = kiln_tensor_dtype(opt->whole[LBFGS_STEP]);
    kiln_tensor **parts = malloc(o->n * sizeof *parts), *all = NULL;
    if (!parts) error_set(KILN_E_MEMORY, "optim_lbfgs: host memory is exhausted");
    for (size_t i = 0; parts && i < o->n; i++) {
        kiln_tensor *p = o->params[i], *g = kiln_gradient(p);
        if (!g && !kiln_error()) g = kiln_zeros(kiln_tensor_device(p), dtype, kiln_rank(p), kiln_dims(p));
        parts[i] = g ? kiln_cast(kiln_reshape(g, KILN_SHAPE(1, kiln_numel(p))), dtype) : NULL;
    }
    if (parts && !kiln_error()) all = kiln_concat(parts, o->n, 1);
    free(parts);
    return all;
}

static kiln_tensor *dot(kiln_tensor *a, kiln_tensor *b)
{
    return kiln_sum(kiln_mul(a, b), NULL);
}

static kiln_tensor *pushed(kiln_tensor *rows, kiln_tensor *row)
{
    int64_t n = kiln_dims(rows)[0];
    if (n == 1) return row;
    kiln_tensor *both[] = {kiln_narrow(rows, 0, 1, n - 1), row};
    return kiln_concat(both, 2, 0);
}

static kiln_status take_up(kiln_optim *opt, kiln_tensor *g)
{
    kiln_tensor **w = opt->whole, *y = kiln_sub(g, w[LBFGS_GRADIENT]);
    kiln_tensor *fits = kiln_greater(dot(w[LBFGS_STEP], y), least_curvature);
    kiln_tensor *s_now = kiln_where(fits, pushed(w[LBFGS_S], w[LBFGS_STEP]), w[LBFGS_S]);
    kiln_tensor *y_now = kiln_where(fits, pushed(w[LBFGS_Y], y), w[LBFGS_Y]);
    TRY(optim_replace(&w[LBFGS_S], s_now));
    return optim_replace(&w[LBFGS_Y], y_now);
}

// Both loops. rho: of all pairs.
static kiln_tensor *two_loops(const kiln_optim *opt, kiln_tensor *g, kiln_tensor *rho, kiln_tensor *gamma)
{
    kiln_tensor *s_all = opt->whole[LBFGS_S], *y_all = opt->whole[LBFGS_Y], *q = g;
    int64_t m = kiln_dims(s_all)[0];
    kiln_tensor **alpha = calloc((size_t)m, sizeof *alpha);
    if (!alpha) {
        error_set(KILN_E_MEMORY, "optim_lbfgs: host memory is exhausted");
        return NULL;
    }
    for (int64_t i = m - 1; i >= 0; i--) {
        kiln_tensor *s = kiln_narrow(s_all, 0, i, 1), *y = kiln_narrow(y_all, 0, i, 1);
        alpha[i] = kiln_mul(kiln_narrow(rho, 0, i, 1), dot(s, q));
        q = kiln_sub(q, kiln_mul(y, alpha[i]));
    }
    q = kiln_mul(q, gamma);
    for (int64_t i = 0; i < m; i++) {
        kiln_tensor *s = kiln_narrow(s_all, 0, i, 1), *y = kiln_narrow(y_all, 0, i, 1);
        kiln_tensor *beta = kiln_mul(kiln_narrow(rho, 0, i, 1), dot(y, q));
        q = kiln_addcmul(q, s, kiln_sub(alpha[i], beta));
    }
    free(alpha);
    return q;
}

kiln_status lbfgs_direct(kiln_optim *opt, kiln_tensor *g, struct lbfgs_direction *d)
{
    if (!g) return kiln_error();
    TRY(take_up(opt, g));
    kiln_tensor *s = opt->whole[LBFGS_S], *y = opt->whole[LBFGS_Y];
    int64_t m = kiln_dims(s)[0];
    kiln_tensor *curvature = kiln_sum(kiln_mul(s, y), KILN_REDUCE(.axes = KILN_AXES(1)));
    kiln_tensor *rho = kiln_where(kiln_greater(curvature, 0), kiln_div(1, curvature), 0.0);
    kiln_tensor *newest = kiln_narrow(curvature, 0, m - 1, 1), *last = kiln_narrow(y, 0, m - 1, 1);
    kiln_tensor *any = kiln_greater(newest, 0);
    d->r = two_loops(opt, g, rho, kiln_where(any, kiln_div(newest, dot(last, last)), 1.0));
    kiln_tensor *size = kiln_sum(kiln_abs(g), NULL);
    d->initial = kiln_where(any, 1.0, kiln_minimum(kiln_reciprocal(size), 1.0));
    return kiln_error();
}

kiln_status lbfgs_move(const kiln_optim *opt, kiln_tensor *step)
{
    const struct optim_group *o = opt->groups[0];
    int64_t at = 0;
    for (size_t i = 0; i < o->n; i++) {
        kiln_tensor *p = o->params[i];
        int64_t n = kiln_numel(p);
        TRY(kiln_add_(p, kiln_reshape(kiln_narrow(step, 1, at, n), kiln_rank(p), kiln_dims(p))));
        at += n;
    }
    return KILN_OK;
}

static kiln_status step_lbfgs(kiln_optim *opt, const struct optim_step *s)
{
    struct lbfgs_direction d;
    kiln_tensor *g = lbfgs_gradient(opt);
    TRY(lbfgs_direct(opt, g, &d));
    // Where the gradient is 0 the first length is infinite, and the direction 0.
    kiln_tensor *step = kiln_mul(kiln_mul(d.r, d.initial), s->minus_rate);
    TRY(lbfgs_move(opt, step));
    TRY(optim_replace(&opt->whole[LBFGS_STEP], step));
    return optim_replace(&opt->whole[LBFGS_GRADIENT], g);
}

static kiln_status make_whole(kiln_optim *opt, int64_t history)
{
    static const char *const names[WHOLE_MAX] = {"optim.s", "optim.y", "optim.step", "optim.gradient"};
    const struct optim_group *o = opt->groups[0];
    int64_t n = 0;
    bool wide = true;
    for (size_t i = 0; i < o->n; i++) {
        n += kiln_numel(o->params[i]);
        wide &= kiln_tensor_dtype(o->params[i]) == KILN_F64;
    }
    for (size_t i = 0; i < WHOLE_MAX; i++) {
        const int64_t dims[] = {i <= LBFGS_Y ? history : 1, n};
        opt->whole[i] = optim_state_tensor(kiln_tensor_device(o->params[0]), wide ? KILN_F64 : KILN_F32, 2, dims, 0);
        opt->whole_names[i] = names[i];
        if (!opt->whole[i]) return kiln_error();
    }
    return KILN_OK;
}

static kiln_status check_search(const kiln_lbfgs_opts *o)
{
    TRY(kiln_error());
    if (o->history < 0 || o->history > 1000)
        return error_set(KILN_E_ARGUMENT, "optim_lbfgs: .history must be in [0, 1000], got %lld",
                         (long long)o->history);
    if (o->iterations < 0 || o->evaluations < 0)
        return error_set(KILN_E_ARGUMENT,
                         "optim_lbfgs: .iterations and .evaluations must not be below 0, got %lld, %lld",
                         (long long)o->iterations, (long long)o->evaluations);
    if (!(o->tolerance_grad >= 0) || !(o->tolerance_change >= 0))
        return error_set(KILN_E_ARGUMENT,
                         "optim_lbfgs: .tolerance_grad and .tolerance_change must not be below 0, got %g, %g",
                         o->tolerance_grad, o->tolerance_change);
    return KILN_OK;
}

kiln_optim *kiln_optim_lbfgs(kiln_tensor *const *params, size_t n, const kiln_lbfgs_opts *opts)
{
    static const struct optim_field fields[] = {{0}};
    static const struct optim_kind kind = {
        .name = "optim_lbfgs", .whole = step_lbfgs, .closure = lbfgs_search, .fields = fields};
    kiln_lbfgs_opts o;
    if (options_read("optim_lbfgs", KILN_LBFGS, &o, opts) || check_search(&o)) return NULL;
    struct optim_numbers numbers = {.lr = option_or(o.lr, 1)};
    kiln_optim *opt = optim_make(&kind, &numbers, params, n);
    if (!opt) return NULL;
    opt->search.iterations = o.iterations ? o.iterations : 20;
    opt->search.evaluations = o.evaluations ? o.evaluations : opt->search.iterations * 5 / 4;
    opt->search.tolerance_grad = option_or(o.tolerance_grad, 1e-7);
    opt->search.tolerance_change = option_or(o.tolerance_change, 1e-9);
    opt->search.fixed = o.fixed;
    if (make_whole(opt, o.history ? o.history : 10)) kiln_optim_free(&opt);
    return opt;
}
