// LAMB, Adafactor and Muon: formulas with norms, sums and products of a whole parameter, each in a number of launches
// that depends on its rank at most.
#include "optim/kinds.h"
#include "base/options.h"

#include <kiln/ops.h>
#include <math.h>
#include <string.h>

#define WEIGHT_DECAY OPTIM_FIELD("weight_decay", weight_decay, INFINITY, false)
#define EPS          OPTIM_FIELD("eps", eps, INFINITY, false)

// LAMB: the direction of AdamW, as long as the parameter itself.

static double lamb_share(const struct optim_group *g)
{
    return optim_adam_s(g) / optim_adam_c(g);
}

static kiln_status update_lamb(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                               const struct optim_step *s)
{
    g = optim_wide(g);
    TRY(kiln_lerp_(slots[0], g, 1 - o->o.beta1));
    TRY(kiln_lerp_(slots[1], kiln_square(g), 1 - o->o.beta2));
    kiln_tensor *wide = optim_wide(p);
    kiln_tensor *direction = kiln_mul(kiln_div(slots[0], kiln_add(kiln_sqrt(slots[1]), s->eps)), s->more);
    if (o->o.weight_decay > 0) direction = kiln_addcmul(direction, wide, o->o.weight_decay);
    kiln_tensor *own = kiln_norm(wide, NULL), *of = kiln_norm(direction, NULL);
    kiln_tensor *both = kiln_logical_and(kiln_greater(own, 0), kiln_greater(of, 0));
    kiln_tensor *trust = kiln_where(both, kiln_div(own, of), 1.0);
    return optim_descend(p, kiln_mul(direction, trust), s);
}

static const struct optim_field lamb_fields[] = {
    OPTIM_FIELD("beta1", beta1, 1, false), OPTIM_FIELD("beta2", beta2, 1, false), EPS, WEIGHT_DECAY, {0}};

kiln_optim *kiln_optim_lamb(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts)
{
    static const struct optim_kind kind = {.name = "optim_lamb",
                                           .update = update_lamb,
                                           .slots = {"moment1", "moment2"},
                                           .eps = optim_adam_eps,
                                           .more = lamb_share,
                                           .fields = lamb_fields};
    kiln_adam_opts o;
    if (options_read_as("optim_lamb", "KILN_ADAM", &o, sizeof o, opts)) return NULL;
    struct optim_numbers numbers = {.lr = option_or(o.lr, 1e-3),
                                    .beta1 = option_or(o.beta1, 0.9),
                                    .beta2 = option_or(o.beta2, 0.999),
                                    .eps = option_or(o.eps, 1e-6),
                                    .weight_decay = o.weight_decay};
    return optim_make(&kind, &numbers, params, n);
}

// Adafactor. Of parameters of rank 2 and more the squares are kept as their means along rows and along columns, which
// are those of the paper divided by the lengths; the lengths cancel.

static bool adafactor_dims(kiln_tensor *p, size_t j, int64_t *dims)
{
    int rank = (int)kiln_rank(p);
    if (j == 2) return rank < 2;
    if (rank < 2) return false;
    dims[j == 0 ? rank - 1 : rank - 2] = 1;
    return true;
}

static double adafactor_rate(const struct optim_group *g)
{
    return fmin(g->lr_now, 1 / sqrt((double)g->opt->steps));
}

// By how much the squares move towards the new ones.
static double adafactor_share(const struct optim_group *g)
{
    return pow((double)g->opt->steps, -g->o.decay);
}

static kiln_tensor *mean_along(kiln_tensor *x, int64_t axis)
{
    return kiln_mean(x, KILN_REDUCE(.axes = KILN_AXES(axis), .keepdims = true));
}

static kiln_tensor *root_mean_square(kiln_tensor *x)
{
    return kiln_sqrt(kiln_mean(kiln_square(x), NULL));
}

static kiln_tensor *adafactor_variance(kiln_tensor *square, kiln_tensor **slots, const struct optim_step *s)
{
    if (slots[2]) return kiln_lerp_(slots[2], square, s->more) ? NULL : slots[2];
    if (kiln_lerp_(slots[0], mean_along(square, -1), s->more)) return NULL;
    if (kiln_lerp_(slots[1], mean_along(square, -2), s->more)) return NULL;
    return kiln_mul(kiln_div(slots[0], mean_along(slots[0], -2)), slots[1]);
}

static kiln_status update_adafactor(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                                    const struct optim_step *s)
{
    if (kiln_numel(p) == 0) return KILN_OK;
    g = optim_wide(g);
    kiln_tensor *variance = adafactor_variance(kiln_add(kiln_square(g), o->o.eps), slots, s);
    if (!variance) return kiln_error();
    kiln_tensor *u = kiln_div(g, kiln_sqrt(variance));
    kiln_tensor *least = kiln_maximum(kiln_div(root_mean_square(u), o->o.clip), 1.0);
    kiln_tensor *size = kiln_maximum(root_mean_square(optim_wide(p)), o->o.eps2);
    TRY(optim_shrink(o, p, s));
    return optim_descend(p, kiln_mul(u, kiln_div(size, least)), s);
}

static const struct optim_field adafactor_fields[] = {OPTIM_FIELD("beta2_decay", decay, 1, true),
                                                      OPTIM_FIELD("eps1", eps, INFINITY, false),
                                                      OPTIM_FIELD("eps2", eps2, INFINITY, false),
                                                      OPTIM_FIELD("clip", clip, INFINITY, false),
                                                      WEIGHT_DECAY,
                                                      {0}};

kiln_optim *kiln_optim_adafactor(kiln_tensor *const *params, size_t n, const kiln_adafactor_opts *opts)
{
    static const struct optim_kind kind = {.name = "optim_adafactor",
                                           .update = update_adafactor,
                                           .slots = {"row", "column", "square"},
                                           .rate = adafactor_rate,
                                           .more = adafactor_share,
                                           .slot_dims = adafactor_dims,
                                           .fields = adafactor_fields};
    kiln_adafactor_opts o;
    if (options_read("optim_adafactor", KILN_ADAFACTOR, &o, opts)) return NULL;
    struct optim_numbers numbers = {.lr = option_or(o.lr, 0.01),
                                    .decay = o.beta2_decay == 0 ? 0.8 : o.beta2_decay,
                                    .eps = option_or(o.eps1, 1e-30),
                                    .eps2 = option_or(o.eps2, 1e-3),
                                    .clip = o.clip == 0 ? 1 : o.clip,
                                    .weight_decay = o.weight_decay,
                                    .decoupled = true};
    return optim_make(&kind, &numbers, params, n);
}

// Muon: the velocity, as a matrix, with all singular values near 1. A quintic iteration brings them there: of a matrix
// X of norm 1, X = a X + (b A + c A A) X with A = X X^T, on the shorter side.

static kiln_status muon_accepts(const char *name, kiln_tensor *p, size_t i)
{
    if (kiln_rank(p) >= 2) return KILN_OK;
    return error_set(KILN_E_SHAPE,
                     "%s: parameter %zu \"%s\" has rank %zu, and only matrices and tensors of higher rank have a "
                     "direction to make orthogonal; give it to another optimiser",
                     name, i, kiln_name(p), (size_t)kiln_rank(p));
}

static kiln_tensor *orthogonal(kiln_tensor *x, int64_t steps)
{
    const double a = 3.4445, b = -4.7750, c = 2.0315;
    bool tall = kiln_dims(x)[0] > kiln_dims(x)[1];
    if (tall) x = kiln_transpose(x, -1, -2);
    x = kiln_div(x, kiln_add(kiln_norm(x, NULL), 1e-7));
    for (int64_t i = 0; i < steps; i++) {
        kiln_tensor *gram = kiln_matmul(x, kiln_transpose(x, -1, -2));
        kiln_tensor *poly = kiln_add(kiln_mul(gram, b), kiln_mul(kiln_matmul(gram, gram), c));
        x = kiln_add(kiln_mul(x, a), kiln_matmul(poly, x));
    }
    return tall ? kiln_transpose(x, -1, -2) : x;
}

static kiln_status update_muon(const struct optim_group *o, kiln_tensor *p, kiln_tensor *g, kiln_tensor **slots,
                               const struct optim_step *s)
{
    if (kiln_numel(p) == 0) return KILN_OK;
    double momentum = o->o.momentum;
    TRY(optim_replace(&slots[0], kiln_addcmul(g, slots[0], momentum)));
    kiln_tensor *ahead = o->o.nesterov ? kiln_addcmul(optim_wide(g), slots[0], momentum) : slots[0];
    int64_t rows = kiln_dims(p)[0], columns = (int64_t)kiln_numel(p) / rows;
    kiln_tensor *x = orthogonal(kiln_reshape(ahead, KILN_SHAPE(rows, columns)), o->o.steps);
    if (rows > columns) x = kiln_mul(x, sqrt((double)rows / (double)columns));
    TRY(optim_shrink(o, p, s));
    return optim_descend(p, kiln_reshape(x, kiln_rank(p), kiln_dims(p)), s);
}

static const struct optim_field muon_fields[] = {OPTIM_FIELD("momentum", momentum, 1, false), WEIGHT_DECAY, {0}};

kiln_optim *kiln_optim_muon(kiln_tensor *const *params, size_t n, const kiln_muon_opts *opts)
{
    static const struct optim_kind kind = {.name = "optim_muon",
                                           .update = update_muon,
                                           .slots = {"velocity"},
                                           .accepts = muon_accepts,
                                           .fields = muon_fields};
    kiln_muon_opts o;
    if (options_read("optim_muon", KILN_MUON, &o, opts)) return NULL;
    if (!kiln_error() && (o.steps < 0 || o.steps > 100)) {
        error_set(KILN_E_ARGUMENT, "optim_muon: .steps must be in [0, 100], got %lld", (long long)o.steps);
        return NULL;
    }
    struct optim_numbers numbers = {.lr = option_or(o.lr, 0.02),
                                    .momentum = option_or(o.momentum, 0.95),
                                    .weight_decay = o.weight_decay,
                                    .nesterov = !o.plain,
                                    .decoupled = true,
                                    .steps = o.steps ? o.steps : 5};
    return optim_make(&kind, &numbers, params, n);
}
