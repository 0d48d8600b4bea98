// L-BFGS with a closure: iterations, each along a line on which a step that meets the strong Wolfe conditions is looked
// for (Nocedal and Wright, algorithms 3.5 and 3.6).
//
// The host reads the loss and its slope at each trial. Each iteration begins at a point of which loss and gradient are
// known, and ends at one; the search ends after `evaluations` calls of the closure at the latest, and no trial is kept
// that is not below the start.
#include "optim/lbfgs.h"
#include "optim/kinds.h"

#include <kiln/jit.h>
#include <kiln/ops.h>
#include <math.h>

static const double decrease = 1e-4, curvature = 0.9;

struct point {
    double t, loss, slope;
};

struct line {
    kiln_optim *opt;
    kiln_closure_fn fn;
    void *user;
    kiln_tensor *direction; // [1, n]
    double at;              // where the parameters are
    double reach;           // the largest element of the direction
    int64_t left;           // evaluations
    kiln_status status;
};

// A number of the device's.
static double item(kiln_tensor *t)
{
    return t ? kiln_item(t) : NAN;
}

static kiln_status call(struct line *l, double *loss)
{
    kiln_scope *scope = kiln_scope_begin();
    if (!scope) return kiln_error();
    kiln_tensor *t = l->fn(l->user);
    if (!t && !kiln_error()) error_set(KILN_E_ARGUMENT, "optim_step_closure: the closure gave no loss");
    if (!kiln_error()) *loss = kiln_item(t);
    kiln_scope_end(&scope);
    l->left--;
    return kiln_error();
}

static kiln_status move_to(struct line *l, double t)
{
    kiln_scope *scope = kiln_scope_begin();
    kiln_no_grad_begin();
    kiln_status status = lbfgs_move(l->opt, kiln_mul(l->direction, t - l->at));
    kiln_no_grad_end();
    kiln_scope_end(&scope);
    l->at = t;
    return status;
}

static struct point try_at(struct line *l, double t)
{
    struct point p = {t, NAN, NAN};
    if (!l->status) l->status = move_to(l, t);
    if (!l->status) l->status = call(l, &p.loss);
    if (l->status) return p;
    kiln_scope *scope = kiln_scope_begin();
    kiln_no_grad_begin();
    p.slope = item(kiln_sum(kiln_mul(lbfgs_gradient(l->opt), l->direction), NULL));
    kiln_no_grad_end();
    kiln_scope_end(&scope);
    l->status = kiln_error();
    return p;
}

static bool decreases(const struct point *from, const struct point *p)
{
    return p->loss <= from->loss + decrease * p->t * from->slope;
}

static bool is_flat(const struct point *from, const struct point *p)
{
    return fabs(p->slope) <= -curvature * from->slope;
}

// The least of the cubic through both points and slopes (3.59), well inside of them.
static double between(const struct point *a, const struct point *b)
{
    double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->t - b->t);
    double square = d1 * d1 - a->slope * b->slope, d2 = copysign(sqrt(square), b->t - a->t);
    double t = b->t - (b->t - a->t) * (b->slope + d2 - d1) / (b->slope - a->slope + 2 * d2);
    double low = fmin(a->t, b->t), width = fabs(b->t - a->t);
    return t > low + 0.1 * width && t < low + 0.9 * width ? t : low + 0.5 * width;
}

static struct point zoom(struct line *l, const struct point *from, struct point low, struct point high)
{
    while (!l->status && l->left > 0 && fabs(high.t - low.t) * l->reach > l->opt->search.tolerance_change) {
        struct point p = try_at(l, between(&low, &high));
        if (!decreases(from, &p) || !(p.loss < low.loss)) {
            high = p;
            continue;
        }
        if (is_flat(from, &p)) return p;
        if (p.slope * (high.t - low.t) >= 0) high = low;
        low = p;
    }
    return low;
}

static struct point search(struct line *l, const struct point *from, double t)
{
    struct point before = *from;
    while (!l->status && l->left > 0) {
        struct point p = try_at(l, t);
        if (!decreases(from, &p) || (before.t > 0 && !(p.loss < before.loss))) return zoom(l, from, before, p);
        if (is_flat(from, &p)) return p;
        if (p.slope >= 0) return zoom(l, from, p, before);
        before = p;
        t *= 2;
    }
    return before;
}

// The step of an iteration, from where loss and gradient g are known to the next such point.
static kiln_status advance(struct line *l, double rate, double initial, struct point *now, bool last)
{
    const struct optim_search *o = &l->opt->search;
    struct point found = {rate * initial, NAN, NAN};
    l->at = 0;
    if (!o->fixed) found = search(l, now, rate * initial);
    TRY(l->status);
    if (l->at != found.t) {
        TRY(move_to(l, found.t));
        if (!last) TRY(call(l, &found.loss));
    }
    *now = found;
    return KILN_OK;
}

// One iteration; *done: there is nothing more to gain.
static kiln_status iterate(struct line *l, double rate, struct point *now, bool last, bool *done)
{
    kiln_optim *opt = l->opt;
    struct lbfgs_direction d;
    double before = now->loss;
    kiln_no_grad_begin();
    kiln_tensor *g = lbfgs_gradient(opt);
    bool flat = !(item(kiln_max(kiln_abs(g), NULL)) > opt->search.tolerance_grad);
    kiln_status status = kiln_error();
    if (!status && !flat) status = lbfgs_direct(opt, g, &d);
    if (!status && !flat) l->direction = kiln_neg(d.r);
    double initial = status || flat ? 0 : item(d.initial);
    now->slope = status || flat ? 0 : item(kiln_sum(kiln_mul(g, l->direction), NULL));
    l->reach = status || flat ? 0 : item(kiln_max(kiln_abs(l->direction), NULL));
    kiln_no_grad_end();
    TRY(status ? status : kiln_error());
    *done = flat || !(now->slope < 0);
    if (*done) return KILN_OK;
    now->t = 0;
    TRY(advance(l, rate, initial, now, last));
    kiln_no_grad_begin();
    status = optim_replace(&opt->whole[LBFGS_STEP], kiln_mul(l->direction, l->at));
    if (!status) status = optim_replace(&opt->whole[LBFGS_GRADIENT], g);
    kiln_no_grad_end();
    *done = l->at * l->reach <= opt->search.tolerance_change || fabs(now->loss - before) < opt->search.tolerance_change;
    return status;
}

kiln_status lbfgs_search(kiln_optim *opt, kiln_closure_fn fn, void *user, double *loss)
{
    if (kiln_is_capturing())
        return error_set(KILN_E_STATE,
                         "optim_step_closure: a line search reads the loss at each trial; capture what the "
                         "closure does, and call this outside of captures, or use kiln_optim_step");
    struct line l = {.opt = opt, .fn = fn, .user = user, .left = opt->search.evaluations + 1};
    struct point now = {0};
    double rate = optim_group_rate(opt->groups[0]);
    TRY(call(&l, &now.loss));
    if (loss) *loss = now.loss;
    bool done = false;
    for (int64_t i = 0; i < opt->search.iterations && l.left > 0 && !done; i++) {
        kiln_scope *scope = kiln_scope_begin();
        if (!scope) return kiln_error();
        kiln_status status = iterate(&l, rate, &now, i + 1 == opt->search.iterations || l.left <= 1, &done);
        kiln_scope_end(&scope);
        TRY(status);
    }
    opt->steps++;
    return KILN_OK;
}
