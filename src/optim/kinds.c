// The formulas of SGD, Adam, AdamW and RMSprop, each in the fewest launches that the public ops allow.
//
// Input: a parameter, its gradient, its state; in a scope of its own, without recording. The parameter and most state
// are written in place. A velocity is a new tensor that takes the place of the old one: g + momentum v is one launch
// that way.
#include "optim/kinds.h"
#include "base/dtype.h"
#include "base/options.h"

#include <kiln/ops.h>
#include <math.h>
#include <string.h>

kiln_status optim_descend(kiln_tensor *p, kiln_tensor *direction, const struct optim_step *s)
{
    return kiln_addcmul_(p, direction, s->minus_rate);
}

kiln_tensor *optim_decayed(const struct optim_group *g, kiln_tensor *p, kiln_tensor *gradient)
{
    return g->o.weight_decay > 0 && !g->o.decoupled ? kiln_addcmul(gradient, p, g->o.weight_decay) : gradient;
}

kiln_status optim_shrink(const struct optim_group *g, kiln_tensor *p, const struct optim_step *s)
{
    return g->o.weight_decay > 0 && g->o.decoupled ? kiln_mul_(p, s->decay) : KILN_OK;
}

kiln_tensor *optim_wide(kiln_tensor *g)
{
    return g && dtype_is_half_float(kiln_tensor_dtype(g)) ? kiln_cast(g, KILN_F32) : g;
}

static kiln_status update_sgd(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                              const struct optim_step *s)
{
    double momentum = o->o.momentum;
    g = optim_decayed(o, p, g);
    if (!o->opt->kind.slots[0]) return optim_descend(p, g, s);
    kiln_tensor *share = o->o.dampening > 0 ? kiln_mul(g, 1 - o->o.dampening) : g;
    TRY(optim_replace(&slots[0], kiln_addcmul(share, slots[0], momentum)));
    return optim_descend(p, o->o.nesterov ? kiln_addcmul(g, slots[0], momentum) : slots[0], s);
}

double optim_adam_s(const struct optim_group *g)
{
    return sqrt(1 - pow(g->o.beta2, (double)g->opt->steps));
}

double optim_adam_c(const struct optim_group *g)
{
    return 1 - pow(g->o.beta1, (double)g->opt->steps);
}

double optim_adam_eps(const struct optim_group *g)
{
    return optim_adam_s(g) * g->o.eps;
}

static double adam_rate(const struct optim_group *g)
{
    return g->lr_now * optim_adam_s(g) / optim_adam_c(g);
}

static kiln_status update_adam(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                               const struct optim_step *s)
{
    g = optim_decayed(o, p, g);
    TRY(kiln_lerp_(slots[0], g, 1 - o->o.beta1));
    TRY(kiln_lerp_(slots[1], kiln_square(optim_wide(g)), 1 - o->o.beta2));
    TRY(optim_shrink(o, p, s));
    return optim_descend(p, kiln_div(slots[0], kiln_add(kiln_sqrt(slots[1]), s->eps)), s);
}

// beta1 is the formula's alpha.
static kiln_status update_rmsprop(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                                  const struct optim_step *s)
{
    g = optim_decayed(o, p, g);
    TRY(kiln_lerp_(slots[0], kiln_square(optim_wide(g)), 1 - o->o.beta1));
    kiln_tensor *direction = kiln_div(g, kiln_add(kiln_sqrt(slots[0]), s->eps));
    if (!o->opt->kind.slots[1]) return optim_descend(p, direction, s);
    TRY(optim_replace(&slots[1], kiln_addcmul(direction, slots[1], o->o.momentum)));
    return optim_descend(p, slots[1], s);
}

static const struct optim_field sgd_fields[] = {OPTIM_FIELD("momentum", momentum, 1, false),
                                                OPTIM_FIELD("dampening", dampening, 1, true),
                                                OPTIM_FIELD("weight_decay", weight_decay, INFINITY, false),
                                                {0}};

kiln_optim *kiln_optim_sgd(kiln_tensor *const *params, size_t n, const kiln_sgd_opts *opts)
{
    kiln_sgd_opts o;
    if (options_read("optim_sgd", KILN_SGD, &o, opts)) return NULL;
    if (!kiln_error() && o.nesterov && (o.momentum == 0 || o.dampening > 0)) {
        error_set(KILN_E_ARGUMENT, "optim_sgd: .nesterov needs a momentum and no dampening, got %g and %g", o.momentum,
                  o.dampening);
        return NULL;
    }
    struct optim_kind kind = {.name = "optim_sgd",
                              .update = update_sgd,
                              .slots = {o.momentum == 0 ? NULL : "velocity"},
                              .fields = sgd_fields};
    struct optim_numbers numbers = {.lr = option_or(o.lr, 0.01),
                                    .momentum = o.momentum,
                                    .weight_decay = o.weight_decay,
                                    .nesterov = o.nesterov,
                                    .dampening = o.dampening};
    return optim_make(&kind, &numbers, params, n);
}

static const struct optim_field adam_fields[] = {OPTIM_FIELD("beta1", beta1, 1, false),
                                                 OPTIM_FIELD("beta2", beta2, 1, false),
                                                 OPTIM_FIELD("eps", eps, INFINITY, false),
                                                 OPTIM_FIELD("weight_decay", weight_decay, INFINITY, false),
                                                 {0}};

static kiln_optim *adam(const char *name, bool decoupled, kiln_tensor *const *params, size_t n,
                        const kiln_adam_opts *opts)
{
    kiln_adam_opts o;
    if (options_read_as(name, "KILN_ADAM", &o, sizeof o, opts)) return NULL;
    struct optim_kind kind = {.name = name,
                              .update = update_adam,
                              .slots = {"moment1", "moment2"},
                              .rate = adam_rate,
                              .eps = optim_adam_eps,
                              .fields = adam_fields};
    struct optim_numbers numbers = {.lr = option_or(o.lr, 1e-3),
                                    .beta1 = option_or(o.beta1, 0.9),
                                    .beta2 = option_or(o.beta2, 0.999),
                                    .eps = option_or(o.eps, 1e-8),
                                    .weight_decay = option_or(o.weight_decay, decoupled ? 0.01 : 0),
                                    .decoupled = decoupled};
    return optim_make(&kind, &numbers, params, n);
}

kiln_optim *kiln_optim_adam(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts)
{
    return adam("optim_adam", false, params, n, opts);
}

kiln_optim *kiln_optim_adamw(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts)
{
    return adam("optim_adamw", true, params, n, opts);
}

static const struct optim_field rmsprop_fields[] = {OPTIM_FIELD("alpha", beta1, 1, false),
                                                    OPTIM_FIELD("eps", eps, INFINITY, false),
                                                    OPTIM_FIELD("momentum", momentum, 1, false),
                                                    OPTIM_FIELD("weight_decay", weight_decay, INFINITY, false),
                                                    {0}};

kiln_optim *kiln_optim_rmsprop(kiln_tensor *const *params, size_t n, const kiln_rmsprop_opts *opts)
{
    kiln_rmsprop_opts o;
    if (options_read("optim_rmsprop", KILN_RMSPROP, &o, opts)) return NULL;
    struct optim_kind kind = {.name = "optim_rmsprop",
                              .update = update_rmsprop,
                              .slots = {"square", o.momentum == 0 ? NULL : "velocity"},
                              .fields = rmsprop_fields};
    struct optim_numbers numbers = {.lr = option_or(o.lr, 0.01),
                                    .beta1 = option_or(o.alpha, 0.99),
                                    .eps = option_or(o.eps, 1e-8),
                                    .momentum = o.momentum,
                                    .weight_decay = o.weight_decay};
    return optim_make(&kind, &numbers, params, n);
}
