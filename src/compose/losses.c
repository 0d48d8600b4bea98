// Losses of elements: a function of x and its target, then a reduction.
#include "compose/losses.h"

bool loss_reduction_is(int64_t reduction, const kiln_tensor *x)
{
    if (error_pending) return false;
    if (reduction < 0 || reduction > KILN_REDUCTION_BATCH_MEAN)
        error_set(KILN_E_ARGUMENT, "reduction %lld is none", (long long)reduction);
    else if (reduction == KILN_REDUCTION_BATCH_MEAN && kiln_rank(x) == 0)
        error_set(KILN_E_ARGUMENT, "a batch mean of rank 0");
    return !error_pending;
}

bool loss_fits(const char *name, kiln_tensor *target, kiln_tensor *x, int64_t reduction)
{
    if (!loss_reduction_is(reduction, x)) return false;
    size_t rank = kiln_rank(x), own = kiln_rank(target);
    bool fits = own <= rank;
    for (size_t i = 0; fits && i < own; i++) {
        int64_t d = kiln_dims(target)[own - 1 - i];
        fits = d == 1 || d == kiln_dims(x)[rank - 1 - i];
    }
    if (!fits)
        error_set(KILN_E_SHAPE, "%s is %s, it must broadcast to x, which is %s", name, type_of(target).s, type_of(x).s);
    return fits;
}

bool loss_positive(const char *name, double v, bool or_zero)
{
    if (!error_pending && !(v > 0 || (or_zero && v == 0)))
        error_set(KILN_E_ARGUMENT, "%s must %s, it is %g", name, or_zero ? "not be negative" : "be positive", v);
    return !error_pending;
}

kiln_tensor *loss_reduce(kiln_tensor *t, int64_t reduction)
{
    if (error_pending) return NULL;
    switch (reduction) {
    case KILN_REDUCTION_MEAN: return kiln_mean(t, NULL);
    case KILN_REDUCTION_SUM: return kiln_sum(t, NULL);
    case KILN_REDUCTION_BATCH_MEAN: return kiln_div(kiln_sum(t, NULL), kiln_scalar((double)kiln_dims(t)[0]));
    default: return t;
    }
}

kiln_tensor *loss_above(kiln_tensor *t)
{
    return kiln_relu(t);
}

static kiln_tensor *weighted(kiln_tensor *t, kiln_tensor *weight)
{
    return weight ? kiln_mul(t, weight) : t;
}

// As kiln_loss_bce: the least normal numbers, so that logarithms and their gradients stay finite.
kiln_tensor *compose_loss_weighted_bce(kiln_tensor *x, kiln_tensor *target, const kiln_loss_weighted_bce_opts *o)
{
    if (!loss_fits("target", target, x, o->reduction)) return NULL;
    if (o->weight && !loss_fits("weight", o->weight, x, o->reduction)) return NULL;
    kiln_tensor *least = kiln_scalar(kiln_tensor_dtype(x) == KILN_F16 ? 0x1p-14 : 0x1p-126), *one = kiln_scalar(1);
    kiln_tensor *hit = kiln_xlogy(target, kiln_clip(x, least, one));
    kiln_tensor *miss = kiln_xlogy(kiln_sub(one, target), kiln_clip(kiln_sub(one, x), least, one));
    return loss_reduce(weighted(kiln_neg(kiln_add(hit, miss)), o->weight), o->reduction);
}

// t pos_weight log(1 + exp(-x)) + (1 - t) log(1 + exp(x))
kiln_tensor *compose_loss_weighted_bce_with_logits(kiln_tensor *x, kiln_tensor *target,
                                                   const kiln_loss_weighted_bce_with_logits_opts *o)
{
    if (!loss_fits("target", target, x, o->reduction)) return NULL;
    if (o->weight && !loss_fits("weight", o->weight, x, o->reduction)) return NULL;
    if (o->pos_weight && !loss_fits("pos_weight", o->pos_weight, x, o->reduction)) return NULL;
    kiln_tensor *t = kiln_bce_with_logits(x, target);
    if (o->pos_weight) {
        kiln_tensor *hit = kiln_mul(target, kiln_softplus(kiln_neg(x)));
        kiln_tensor *miss = kiln_mul(kiln_sub(kiln_scalar(1), target), kiln_softplus(x));
        t = kiln_add(kiln_mul(hit, o->pos_weight), miss);
    }
    return loss_reduce(weighted(t, o->weight), o->reduction);
}

kiln_tensor *compose_loss_kl_div_log(kiln_tensor *log_probs, kiln_tensor *log_target, int64_t reduction)
{
    if (!loss_fits("log_target", log_target, log_probs, reduction)) return NULL;
    return loss_reduce(kiln_mul(kiln_exp(log_target), kiln_sub(log_target, log_probs)), reduction);
}

kiln_tensor *compose_loss_log_cosh(kiln_tensor *x, kiln_tensor *target, int64_t reduction)
{
    if (!loss_fits("target", target, x, reduction)) return NULL;
    kiln_tensor *d = kiln_abs_difference(x, target);
    kiln_tensor *tail = kiln_softplus(kiln_mul(d, kiln_scalar(-2)));
    return loss_reduce(kiln_sub(kiln_add(d, tail), kiln_scalar(0.69314718055994530942)), reduction);
}

static kiln_tensor *margin_of(kiln_tensor *x, kiln_tensor *target)
{
    return kiln_sub(kiln_scalar(1), kiln_mul(x, target));
}

kiln_tensor *compose_loss_hinge(kiln_tensor *x, kiln_tensor *target, int64_t reduction)
{
    if (!loss_fits("target", target, x, reduction)) return NULL;
    return loss_reduce(loss_above(margin_of(x, target)), reduction);
}

kiln_tensor *compose_loss_squared_hinge(kiln_tensor *x, kiln_tensor *target, int64_t reduction)
{
    if (!loss_fits("target", target, x, reduction)) return NULL;
    return loss_reduce(kiln_square(loss_above(margin_of(x, target))), reduction);
}

kiln_tensor *compose_loss_soft_margin(kiln_tensor *x, kiln_tensor *target, int64_t reduction)
{
    if (!loss_fits("target", target, x, reduction)) return NULL;
    return loss_reduce(kiln_softplus(kiln_neg(kiln_mul(x, target))), reduction);
}

kiln_tensor *compose_loss_hinge_embedding(kiln_tensor *x, kiln_tensor *target, double margin, int64_t reduction)
{
    if (!loss_fits("target", target, x, reduction)) return NULL;
    kiln_tensor *apart = loss_above(kiln_sub(kiln_scalar(margin), x));
    return loss_reduce(kiln_where(kiln_greater(target, kiln_scalar(0)), x, apart), reduction);
}

// alpha_t (1 - p_t)^gamma times the binary cross entropy, p_t the probability of the target.
kiln_tensor *compose_loss_focal(kiln_tensor *logits, kiln_tensor *target, const kiln_loss_focal_opts *o)
{
    if (!loss_fits("target", target, logits, o->reduction)) return NULL;
    if (!(o->alpha < 1)) error_set(KILN_E_ARGUMENT, "alpha is %g, it must be below 1", o->alpha);
    if (!loss_positive("gamma", o->gamma, true)) return NULL;
    kiln_tensor *one = kiln_scalar(1), *p = kiln_sigmoid(logits), *t = kiln_bce_with_logits(logits, target);
    // 1 - p_t = p + t - 2 p t
    kiln_tensor *missed = kiln_sub(kiln_add(p, target), kiln_mul(kiln_mul(p, target), kiln_scalar(2)));
    if (o->gamma == 2)
        t = kiln_mul(t, kiln_square(missed));
    else if (o->gamma != 0)
        t = kiln_mul(t, kiln_pow(missed, kiln_scalar(o->gamma)));
    if (o->alpha >= 0) {
        kiln_tensor *share = kiln_mul(target, kiln_scalar(2 * o->alpha - 1));
        t = kiln_mul(t, kiln_add(share, kiln_sub(one, kiln_scalar(o->alpha))));
    }
    return loss_reduce(t, o->reduction);
}

kiln_tensor *compose_loss_gaussian_nll(kiln_tensor *mean, kiln_tensor *target, kiln_tensor *var,
                                       const kiln_loss_gaussian_nll_opts *o)
{
    if (!loss_fits("target", target, mean, o->reduction) || !loss_fits("var", var, mean, o->reduction)) return NULL;
    if (!loss_positive("eps", o->eps, true)) return NULL;
    kiln_tensor *least = kiln_scalar(o->eps);
    // The gradient goes past the bound, as if there were none.
    kiln_tensor *lift = kiln_stop_gradient(kiln_sub(kiln_maximum(var, least), var));
    kiln_tensor *v = kiln_add(var, lift);
    kiln_tensor *t = kiln_add(kiln_log(v), kiln_div(kiln_squared_difference(mean, target), v));
    t = kiln_mul(t, kiln_scalar(0.5));
    if (o->full) t = kiln_add(t, kiln_scalar(0.91893853320467274178));
    return loss_reduce(t, o->reduction);
}

kiln_tensor *compose_loss_poisson_nll(kiln_tensor *x, kiln_tensor *target, const kiln_loss_poisson_nll_opts *o)
{
    if (!loss_fits("target", target, x, o->reduction) || !loss_positive("eps", o->eps, true)) return NULL;
    kiln_tensor *t = o->rates ? kiln_sub(x, kiln_mul(target, kiln_log(kiln_add(x, kiln_scalar(o->eps)))))
                              : kiln_sub(kiln_exp(x), kiln_mul(target, x));
    if (o->full) { // Stirling's approximation of log target!, of targets above 1
        kiln_tensor *one = kiln_scalar(1), *n = kiln_maximum(target, one);
        kiln_tensor *stirling =
            kiln_add(kiln_sub(kiln_mul(n, kiln_log(n)), n),
                     kiln_mul(kiln_log(kiln_mul(n, kiln_scalar(6.28318530717958647692))), kiln_scalar(0.5)));
        t = kiln_add(t, kiln_where(kiln_greater(target, one), stirling, kiln_scalar(0)));
    }
    return loss_reduce(t, o->reduction);
}

// 1 - (2 sum(x t) + smooth) / (sum(x) + sum(t) + smooth), of each sample: over all axes but the first.
kiln_tensor *compose_loss_dice(kiln_tensor *x, kiln_tensor *target, const kiln_loss_dice_opts *o)
{
    if (!loss_fits("target", target, x, o->reduction) || !loss_positive("smooth", o->smooth, true)) return NULL;
    if (kiln_rank(x) < 2) error_set(KILN_E_SHAPE, "x must be [N, ...], it is %s", type_of(x).s);
    if (error_pending) return NULL;
    kiln_tensor *wide = kiln_expand(target, kiln_rank(x), kiln_dims(x)), *smooth = kiln_scalar(o->smooth);
    int64_t axes[KILN_MAX_RANK];
    for (size_t i = 1; i < kiln_rank(x); i++) axes[i - 1] = (int64_t)i;
    const kiln_reduce_opts *over = KILN_REDUCE(.axes = {kiln_rank(x) - 1, axes});
    kiln_tensor *common = kiln_mul(kiln_sum(kiln_mul(x, wide), over), kiln_scalar(2));
    kiln_tensor *all = kiln_add(kiln_sum(x, over), kiln_sum(wide, over));
    kiln_tensor *share = kiln_div(kiln_add(common, smooth), kiln_add(all, smooth));
    return loss_reduce(kiln_sub(kiln_scalar(1), share), o->reduction);
}
