// Adagrad, Adadelta, Adamax, NAdam, RAdam and Lion: formulas element by element, as in kinds.c.
#include "optim/kinds.h"
#include "base/options.h"

#include <kiln/ops.h>
#include <math.h>

#define WEIGHT_DECAY OPTIM_FIELD("weight_decay", weight_decay, INFINITY, false)
#define EPS          OPTIM_FIELD("eps", eps, INFINITY, false)
#define BETAS        OPTIM_FIELD("beta1", beta1, 1, false), OPTIM_FIELD("beta2", beta2, 1, false)

// Adagrad

static double adagrad_rate(const struct optim_group *g)
{
    return g->lr_now / (1 + (double)(g->opt->steps - 1) * g->o.decay);
}

static kiln_status update_adagrad(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                                  const struct optim_step *s)
{
    g = optim_decayed(o, p, g);
    TRY(kiln_add_(slots[0], kiln_square(optim_wide(g))));
    return optim_descend(p, kiln_div(g, kiln_add(kiln_sqrt(slots[0]), s->eps)), s);
}

static const struct optim_field adagrad_fields[] = {OPTIM_FIELD("lr_decay", decay, INFINITY, false),
                                                    OPTIM_FIELD("initial_accumulator", start, INFINITY, false),
                                                    EPS,
                                                    WEIGHT_DECAY,
                                                    {0}};

kiln_optim *kiln_optim_adagrad(kiln_tensor *const *params, size_t n, const kiln_adagrad_opts *opts)
{
    static const struct optim_kind kind = {.name = "optim_adagrad",
                                           .update = update_adagrad,
                                           .slots = {"sum"},
                                           .rate = adagrad_rate,
                                           .fields = adagrad_fields};
    kiln_adagrad_opts o;
    if (options_read("optim_adagrad", KILN_ADAGRAD, &o, opts)) return NULL;
    struct optim_numbers numbers = {.lr = option_or(o.lr, 0.01),
                                    .decay = o.lr_decay,
                                    .start = o.initial_accumulator,
                                    .eps = option_or(o.eps, 1e-10),
                                    .weight_decay = o.weight_decay};
    return optim_make(&kind, &numbers, params, n);
}

// Adadelta; beta1 is the formula's rho.

static kiln_status update_adadelta(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                                   const struct optim_step *s)
{
    double rest = 1 - o->o.beta1;
    g = optim_wide(optim_decayed(o, p, g));
    TRY(kiln_lerp_(slots[0], kiln_square(g), rest));
    kiln_tensor *ratio = kiln_sqrt(kiln_div(kiln_add(slots[1], s->eps), kiln_add(slots[0], s->eps)));
    kiln_tensor *delta = kiln_mul(ratio, g);
    TRY(kiln_lerp_(slots[1], kiln_square(delta), rest));
    TRY(optim_shrink(o, p, s));
    return optim_descend(p, delta, s);
}

static const struct optim_field adadelta_fields[] = {OPTIM_FIELD("rho", beta1, 1, false), EPS, WEIGHT_DECAY, {0}};

kiln_optim *kiln_optim_adadelta(kiln_tensor *const *params, size_t n, const kiln_adadelta_opts *opts)
{
    static const struct optim_kind kind = {
        .name = "optim_adadelta", .update = update_adadelta, .slots = {"square", "delta"}, .fields = adadelta_fields};
    kiln_adadelta_opts o;
    if (options_read("optim_adadelta", KILN_ADADELTA, &o, opts)) return NULL;
    struct optim_numbers numbers = {.lr = option_or(o.lr, 1),
                                    .beta1 = option_or(o.rho, 0.9),
                                    .eps = option_or(o.eps, 1e-6),
                                    .weight_decay = o.weight_decay};
    return optim_make(&kind, &numbers, params, n);
}

// Adamax

static double adamax_rate(const struct optim_group *g)
{
    return g->lr_now / optim_adam_c(g);
}

static kiln_status update_adamax(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                                 const struct optim_step *s)
{
    g = optim_wide(optim_decayed(o, p, g));
    TRY(kiln_lerp_(slots[0], g, 1 - o->o.beta1));
    kiln_tensor *bound = kiln_maximum(kiln_mul(slots[1], o->o.beta2), kiln_add(kiln_abs(g), s->eps));
    TRY(optim_replace(&slots[1], bound));
    TRY(optim_shrink(o, p, s));
    return optim_descend(p, kiln_div(slots[0], slots[1]), s);
}

static const struct optim_field beta_fields[] = {BETAS, EPS, WEIGHT_DECAY, {0}};

static kiln_optim *make_of_betas(const struct optim_kind *kind, double lr, double beta2, bool decoupled,
                                 kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts)
{
    kiln_adam_opts o;
    if (options_read_as(kind->name, "KILN_ADAM", &o, sizeof o, opts)) return NULL;
    struct optim_numbers numbers = {.lr = option_or(o.lr, lr),
                                    .beta1 = option_or(o.beta1, 0.9),
                                    .beta2 = option_or(o.beta2, beta2),
                                    .eps = option_or(o.eps, 1e-8),
                                    .weight_decay = option_or(o.weight_decay, 0),
                                    .decoupled = decoupled};
    return optim_make(kind, &numbers, params, n);
}

kiln_optim *kiln_optim_adamax(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts)
{
    static const struct optim_kind kind = {.name = "optim_adamax",
                                           .update = update_adamax,
                                           .slots = {"moment", "bound"},
                                           .rate = adamax_rate,
                                           .fields = beta_fields};
    return make_of_betas(&kind, 2e-3, 0.999, false, params, n, opts);
}

// NAdam: lr (a m + b g) / (sqrt(v / s^2) + eps), with the momenta mu(t) and their products pi(t), a = mu(t + 1) /
// (1 - pi(t + 1)) and b = (1 - mu(t)) / (1 - pi(t)), which is never 0.

static double nadam_mu(const struct optim_group *g, int64_t t)
{
    return g->o.beta1 * (1 - 0.5 * pow(0.96, (double)t * g->o.decay));
}

// 1 less a product over all steps so far, which soon is nothing.
static double nadam_rest(const struct optim_group *g, int64_t t)
{
    double product = 1;
    for (int64_t i = 1; i <= t && product > 0x1p-60; i++) product *= nadam_mu(g, i);
    return 1 - product;
}

static double nadam_b(const struct optim_group *g)
{
    return (1 - nadam_mu(g, g->opt->steps)) / nadam_rest(g, g->opt->steps);
}

static double nadam_rate(const struct optim_group *g)
{
    return g->lr_now * optim_adam_s(g) * nadam_b(g);
}

static double nadam_share(const struct optim_group *g)
{
    int64_t next = g->opt->steps + 1;
    return nadam_mu(g, next) / nadam_rest(g, next) / nadam_b(g);
}

static kiln_status update_nadam(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                                const struct optim_step *s)
{
    g = optim_wide(optim_decayed(o, p, g));
    TRY(kiln_lerp_(slots[0], g, 1 - o->o.beta1));
    TRY(kiln_lerp_(slots[1], kiln_square(g), 1 - o->o.beta2));
    TRY(optim_shrink(o, p, s));
    kiln_tensor *ahead = kiln_addcmul(g, slots[0], s->more);
    return optim_descend(p, kiln_div(ahead, kiln_add(kiln_sqrt(slots[1]), s->eps)), s);
}

static const struct optim_field nadam_fields[] = {
    BETAS, EPS, WEIGHT_DECAY, OPTIM_FIELD("momentum_decay", decay, INFINITY, false), {0}};

kiln_optim *kiln_optim_nadam(kiln_tensor *const *params, size_t n, const kiln_nadam_opts *opts)
{
    static const struct optim_kind kind = {.name = "optim_nadam",
                                           .update = update_nadam,
                                           .slots = {"moment1", "moment2"},
                                           .rate = nadam_rate,
                                           .eps = optim_adam_eps,
                                           .more = nadam_share,
                                           .fields = nadam_fields};
    kiln_nadam_opts o;
    if (options_read("optim_nadam", KILN_NADAM, &o, opts)) return NULL;
    struct optim_numbers numbers = {.lr = option_or(o.lr, 2e-3),
                                    .beta1 = option_or(o.beta1, 0.9),
                                    .beta2 = option_or(o.beta2, 0.999),
                                    .eps = option_or(o.eps, 1e-8),
                                    .weight_decay = o.weight_decay,
                                    .decay = option_or(o.momentum_decay, 4e-3),
                                    .decoupled = o.decoupled};
    return optim_make(&kind, &numbers, params, n);
}

// RAdam: m / (more sqrt(v) + eps), where `more` is 0 and eps 1 as long as the variance cannot be told.

static double radam_rectifier(const struct optim_group *g)
{
    double b = pow(g->o.beta2, (double)g->opt->steps), most = 2 / (1 - g->o.beta2) - 1;
    double length = most - 2 * (double)g->opt->steps * b / (1 - b);
    if (!(length > 5)) return 0;
    return sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length));
}

static double radam_rate(const struct optim_group *g)
{
    double r = radam_rectifier(g);
    return g->lr_now / optim_adam_c(g) * (r > 0 ? r * optim_adam_s(g) : 1);
}

static double radam_share(const struct optim_group *g)
{
    return radam_rectifier(g) > 0;
}

static double radam_eps(const struct optim_group *g)
{
    return radam_rectifier(g) > 0 ? optim_adam_eps(g) : 1;
}

static kiln_status update_radam(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                                const struct optim_step *s)
{
    g = optim_wide(optim_decayed(o, p, g));
    TRY(kiln_lerp_(slots[0], g, 1 - o->o.beta1));
    TRY(kiln_lerp_(slots[1], kiln_square(g), 1 - o->o.beta2));
    kiln_tensor *spread = kiln_add(kiln_mul(kiln_sqrt(slots[1]), s->more), s->eps);
    return optim_descend(p, kiln_div(slots[0], spread), s);
}

kiln_optim *kiln_optim_radam(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts)
{
    static const struct optim_kind kind = {.name = "optim_radam",
                                           .update = update_radam,
                                           .slots = {"moment1", "moment2"},
                                           .rate = radam_rate,
                                           .eps = radam_eps,
                                           .more = radam_share,
                                           .fields = beta_fields};
    return make_of_betas(&kind, 1e-3, 0.999, false, params, n, opts);
}

// Lion

static kiln_status update_lion(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                               const struct optim_step *s)
{
    kiln_tensor *direction = kiln_sign(kiln_lerp(slots[0], g, 1 - o->o.beta1));
    TRY(optim_shrink(o, p, s));
    TRY(optim_descend(p, direction, s));
    return kiln_lerp_(slots[0], g, 1 - o->o.beta2);
}

static const struct optim_field lion_fields[] = {BETAS, WEIGHT_DECAY, {0}};

kiln_optim *kiln_optim_lion(kiln_tensor *const *params, size_t n, const kiln_lion_opts *opts)
{
    static const struct optim_kind kind = {
        .name = "optim_lion", .update = update_lion, .slots = {"moment"}, .fields = lion_fields};
    kiln_lion_opts o;
    if (options_read("optim_lion", KILN_LION, &o, opts)) return NULL;
    struct optim_numbers numbers = {.lr = option_or(o.lr, 1e-4),
                                    .beta1 = option_or(o.beta1, 0.9),
                                    .beta2 = option_or(o.beta2, 0.99),
                                    .weight_decay = o.weight_decay,
                                    .decoupled = true};
    return optim_make(&kind, &numbers, params, n);
}
