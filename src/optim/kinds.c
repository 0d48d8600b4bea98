// The formulas of the optimisers, each in the fewest launches that the public ops allow.
//
// Input: a parameter, its gradient, its state; in a scope of its own, without recording. The parameter and most state
// are written in place. A velocity is a new tensor that takes the place of the old one: g + momentum v is one launch
// that way.
#include "optim/kinds.h"
#include "base/dtype.h"
#include "base/options.h"

#include <kiln/jit.h>
#include <kiln/ops.h>
#include <math.h>
#include <string.h>

// The new state takes the place of the old one, outside the scope of the step. In a graph it is the memory that stays.
static kiln_status replace(kiln_tensor **slot, kiln_tensor *next)
{
    if (!next) return kiln_error();
    if (kiln_is_capturing()) return kiln_assign(*slot, next);
    kiln_own(next);
    kiln_free(slot);
    *slot = next;
    return kiln_state(next);
}

static kiln_status descend(kiln_tensor *p, kiln_tensor *direction, const struct optim_step *s)
{
    return kiln_addcmul_(p, direction, s->minus_rate);
}

static kiln_tensor *decayed(const kiln_optim *opt, kiln_tensor *p, kiln_tensor *g)
{
    return opt->weight_decay > 0 ? kiln_addcmul(g, p, kiln_scalar(opt->weight_decay)) : g;
}

// In f32 at least: the squares of small gradients would vanish in f16.
static kiln_tensor *square(kiln_tensor *g)
{
    kiln_dtype dtype = g ? kiln_tensor_dtype(g) : KILN_F32;
    return kiln_square(dtype_is_half_float(dtype) ? kiln_cast(g, KILN_F32) : g);
}

static kiln_status update_sgd(const kiln_optim *opt, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                              const struct optim_step *s)
{
    g = decayed(opt, p, g);
    if (opt->momentum == 0) return descend(p, g, s);
    kiln_tensor *share = opt->dampening > 0 ? kiln_mul(g, kiln_scalar(1 - opt->dampening)) : g;
    TRY(replace(&slots[0], kiln_addcmul(share, slots[0], kiln_scalar(opt->momentum))));
    return descend(p, opt->nesterov ? kiln_addcmul(g, slots[0], kiln_scalar(opt->momentum)) : slots[0], s);
}

// The corrections of both moments go into two numbers: with s^2 = c2,
// lr (m / c1) / (sqrt(v / c2) + eps) = (lr s / c1) m / (sqrt(v) + s eps).
static double adam_s(const kiln_optim *opt)
{
    return sqrt(1 - pow(opt->beta2, (double)opt->steps));
}

static double adam_rate(const kiln_optim *opt)
{
    return opt->lr_now * adam_s(opt) / (1 - pow(opt->beta1, (double)opt->steps));
}

static double adam_eps(const kiln_optim *opt)
{
    return adam_s(opt) * opt->eps;
}

static kiln_status update_adam(const kiln_optim *opt, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                               const struct optim_step *s)
{
    if (!opt->decoupled) g = decayed(opt, p, g);
    TRY(kiln_lerp_(slots[0], g, kiln_scalar(1 - opt->beta1)));
    TRY(kiln_lerp_(slots[1], square(g), kiln_scalar(1 - opt->beta2)));
    if (opt->decoupled && opt->weight_decay > 0) TRY(kiln_mul_(p, s->decay));
    kiln_tensor *direction = kiln_div(slots[0], kiln_add(kiln_sqrt(slots[1]), s->eps));
    return descend(p, direction, s);
}

// beta1 is the formula's alpha.
static kiln_status update_rmsprop(const kiln_optim *opt, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                                  const struct optim_step *s)
{
    g = decayed(opt, p, g);
    TRY(kiln_lerp_(slots[0], square(g), kiln_scalar(1 - opt->beta1)));
    kiln_tensor *direction = kiln_div(g, kiln_add(kiln_sqrt(slots[0]), s->eps));
    if (opt->momentum == 0) return descend(p, direction, s);
    TRY(replace(&slots[1], kiln_addcmul(direction, slots[1], kiln_scalar(opt->momentum))));
    return descend(p, slots[1], s);
}

// Whether v is in [0, end), or [0, end] with `closed`; NaN is not.
static bool in_range(const char *kind, const char *name, double v, double end, bool closed)
{
    bool fits = v >= 0 && (v < end || (closed && v == end));
    if (!fits)
        error_set(KILN_E_ARGUMENT, "%s: .%s must be in [0, %g%s, got %g", kind, name, end, closed ? "]" : ")", v);
    return fits;
}

kiln_optim *kiln_optim_sgd(kiln_tensor *const *params, size_t n, const kiln_sgd_opts *opts)
{
    kiln_sgd_opts o;
    if (options_read("optim_sgd", KILN_SGD, &o, opts)) return NULL;
    if (kiln_error() || !in_range("optim_sgd", "momentum", o.momentum, 1, false) ||
        !in_range("optim_sgd", "dampening", o.dampening, 1, true) ||
        !in_range("optim_sgd", "weight_decay", o.weight_decay, INFINITY, false))
        return NULL;
    if (o.nesterov && (o.momentum == 0 || o.dampening > 0)) {
        error_set(KILN_E_ARGUMENT, "optim_sgd: .nesterov needs a momentum and no dampening, got %g and %g", o.momentum,
                  o.dampening);
        return NULL;
    }
    kiln_optim init = {.kind = {"optim_sgd", update_sgd, {o.momentum > 0 ? "velocity" : NULL}},
                       .lr = option_or(o.lr, 0.01),
                       .momentum = o.momentum,
                       .weight_decay = o.weight_decay,
                       .nesterov = o.nesterov,
                       .dampening = o.dampening};
    return optim_make(&init, params, n);
}

static kiln_optim *adam(const char *name, bool decoupled, kiln_tensor *const *params, size_t n,
                        const kiln_adam_opts *opts)
{
    kiln_adam_opts o;
    if (options_read_as(name, "KILN_ADAM", &o, sizeof o, opts)) return NULL;
    kiln_optim init = {.kind = {name, update_adam, {"moment1", "moment2"}, adam_rate, adam_eps},
                       .lr = option_or(o.lr, 1e-3),
                       .beta1 = option_or(o.beta1, 0.9),
                       .beta2 = option_or(o.beta2, 0.999),
                       .eps = option_or(o.eps, 1e-8),
                       .weight_decay = option_or(o.weight_decay, decoupled ? 0.01 : 0),
                       .decoupled = decoupled};
    if (kiln_error() || !in_range(name, "beta1", init.beta1, 1, false) ||
        !in_range(name, "beta2", init.beta2, 1, false) || !in_range(name, "eps", init.eps, INFINITY, false) ||
        !in_range(name, "weight_decay", init.weight_decay, INFINITY, false))
        return NULL;
    return optim_make(&init, params, n);
}

kiln_optim *kiln_optim_adam(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts)
{
    return adam("optim_adam", false, params, n, opts);
}

kiln_optim *kiln_optim_adamw(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts)
{
    return adam("optim_adamw", true, params, n, opts);
}

kiln_optim *kiln_optim_rmsprop(kiln_tensor *const *params, size_t n, const kiln_rmsprop_opts *opts)
{
    kiln_rmsprop_opts o;
    if (options_read("optim_rmsprop", KILN_RMSPROP, &o, opts)) return NULL;
    kiln_optim init = {.kind = {"optim_rmsprop", update_rmsprop, {"square", o.momentum > 0 ? "velocity" : NULL}},
                       .lr = option_or(o.lr, 0.01),
                       .beta1 = option_or(o.alpha, 0.99),
                       .eps = option_or(o.eps, 1e-8),
                       .momentum = o.momentum,
                       .weight_decay = o.weight_decay};
    if (kiln_error() || !in_range("optim_rmsprop", "alpha", init.beta1, 1, false) ||
        !in_range("optim_rmsprop", "eps", init.eps, INFINITY, false) ||
        !in_range("optim_rmsprop", "momentum", init.momentum, 1, false) ||
        !in_range("optim_rmsprop", "weight_decay", init.weight_decay, INFINITY, false))
        return NULL;
    return optim_make(&init, params, n);
}
