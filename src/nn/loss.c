// Losses: an elementwise part, then a reduction.
#include "nn/cell.h"
#include "base/dtype.h"

#include <inttypes.h>
#include <kiln/ops.h>

static kiln_tensor *reduce(kiln_tensor *t, kiln_reduction reduction)
{
    if (!t) return NULL;
    switch (reduction) {
    case KILN_REDUCTION_MEAN: return kiln_mean(t, NULL);
    case KILN_REDUCTION_SUM: return kiln_sum(t, NULL);
    case KILN_REDUCTION_NONE: return t;
    case KILN_REDUCTION_BATCH_MEAN: return kiln_div(kiln_sum(t, NULL), kiln_scalar((double)kiln_dims(t)[0]));
    }
    return NULL;
}

static void refuse_shapes(const char *loss, const kiln_tensor *x, const kiln_tensor *target)
{
    char text[2][KILN_MAX_RANK * 12 + 16];
    const kiln_tensor *both[] = {target, x};
    for (int k = 0; k < 2; k++) {
        size_t n = (size_t)snprintf(text[k], sizeof text[k], "%s[", kiln_dtype_name(kiln_tensor_dtype(both[k])));
        for (size_t i = 0; i < kiln_rank(both[k]) && n < sizeof text[k]; i++)
            n += (size_t)snprintf(text[k] + n, sizeof text[k] - n, "%s%" PRId64, i ? "," : "", kiln_dims(both[k])[i]);
    }
    error_set(KILN_E_SHAPE, "%s: the target does not broadcast to x: it is %s], x is %s]", loss, text[0], text[1]);
}

// Sound arguments: a target whose shape broadcasts to that of x, not the other way round, which is a usual slip.
static bool sound(const char *loss, kiln_tensor *x, kiln_tensor *target, kiln_reduction reduction)
{
    if (kiln_error()) return false;
    if (!x || !target) {
        error_set(KILN_E_ARGUMENT, "%s: %s is NULL", loss, x ? "the target" : "x");
        return false;
    }
    if ((unsigned)reduction > KILN_REDUCTION_BATCH_MEAN ||
        (reduction == KILN_REDUCTION_BATCH_MEAN && kiln_rank(x) == 0)) {
        error_set(KILN_E_ARGUMENT, "%s: unknown reduction %d, or a batch mean of rank 0", loss, (int)reduction);
        return false;
    }
    size_t rank = kiln_rank(x), target_rank = kiln_rank(target);
    bool fits = target_rank <= rank;
    for (size_t i = 0; fits && i < target_rank; i++) {
        int64_t d = kiln_dims(target)[target_rank - 1 - i];
        fits = d == 1 || d == kiln_dims(x)[rank - 1 - i];
        if (!fits) refuse_shapes(loss, x, target);
    }
    if (target_rank > rank) refuse_shapes(loss, x, target);
    return fits;
}

kiln_tensor *kiln_loss_mse(kiln_tensor *x, kiln_tensor *target, kiln_reduction reduction)
{
    if (!sound("loss_mse", x, target, reduction)) return NULL;
    kiln_scope *scope = kiln_scope_begin();
    return scope_return(&scope, reduce(kiln_squared_difference(x, target), reduction));
}

kiln_tensor *kiln_loss_l1(kiln_tensor *x, kiln_tensor *target, kiln_reduction reduction)
{
    if (!sound("loss_l1", x, target, reduction)) return NULL;
    kiln_scope *scope = kiln_scope_begin();
    return scope_return(&scope, reduce(kiln_abs_difference(x, target), reduction));
}

static bool positive(const char *loss, const char *name, double v)
{
    if (!kiln_error() && !(v > 0)) error_set(KILN_E_ARGUMENT, "%s: %s must be positive, got %g", loss, name, v);
    return v > 0;
}

kiln_tensor *kiln_loss_smooth_l1(kiln_tensor *x, kiln_tensor *target, double beta, kiln_reduction reduction)
{
    if (!sound("loss_smooth_l1", x, target, reduction) || !positive("loss_smooth_l1", "beta", beta)) return NULL;
    kiln_scope *scope = kiln_scope_begin();
    return scope_return(&scope, reduce(kiln_smooth_l1(x, target, beta), reduction));
}

kiln_tensor *kiln_loss_huber(kiln_tensor *x, kiln_tensor *target, double delta, kiln_reduction reduction)
{
    if (!sound("loss_huber", x, target, reduction) || !positive("loss_huber", "delta", delta)) return NULL;
    kiln_scope *scope = kiln_scope_begin();
    return scope_return(&scope, reduce(kiln_mul(kiln_smooth_l1(x, target, delta), kiln_scalar(delta)), reduction));
}

kiln_tensor *kiln_loss_bce(kiln_tensor *x, kiln_tensor *target, kiln_reduction reduction)
{
    if (!sound("loss_bce", x, target, reduction)) return NULL;
    kiln_scope *scope = kiln_scope_begin();
    // The least normal numbers: the logarithm and its gradient stay finite.
    kiln_tensor *least = kiln_scalar(kiln_tensor_dtype(x) == KILN_F16 ? 0x1p-14 : 0x1p-126), *one = kiln_scalar(1);
    kiln_tensor *hit = kiln_xlogy(target, kiln_clip(x, least, one));
    kiln_tensor *miss = kiln_xlogy(kiln_sub(one, target), kiln_clip(kiln_sub(one, x), least, one));
    return scope_return(&scope, reduce(kiln_neg(kiln_add(hit, miss)), reduction));
}

kiln_tensor *kiln_loss_bce_with_logits(kiln_tensor *x, kiln_tensor *target, kiln_reduction reduction)
{
    if (!sound("loss_bce_with_logits", x, target, reduction)) return NULL;
    kiln_scope *scope = kiln_scope_begin();
    return scope_return(&scope, reduce(kiln_bce_with_logits(x, target), reduction));
}

// Gather counts indices below 0 from the end. Labels below 0 name no class: moved by the number of classes they are out
// of range there too.
static kiln_tensor *label_index(kiln_tensor *labels, int64_t classes)
{
    kiln_dtype dtype = kiln_tensor_dtype(labels);
    if (dtype_info[dtype].kind != KIND_INT || !dtype_info[dtype].is_signed) return labels;
    kiln_tensor *wide = kiln_cast(labels, KILN_I64), *below = kiln_sub(wide, kiln_scalar_int(classes));
    return kiln_where(kiln_less(wide, kiln_scalar_int(0)), below, wide);
}

kiln_tensor *kiln_loss_nll(kiln_tensor *log_probs, kiln_tensor *labels, kiln_reduction reduction)
{
    if (kiln_error()) return NULL;
    if (!log_probs || !labels || kiln_rank(log_probs) != kiln_rank(labels) + 1 || kiln_rank(log_probs) < 2) {
        error_set(log_probs && labels ? KILN_E_SHAPE : KILN_E_ARGUMENT,
                  "loss_nll: log_probs must be [N, C, ...] and labels [N, ...], got ranks %zu and %zu",
                  log_probs ? kiln_rank(log_probs) : 0, labels ? kiln_rank(labels) : 0);
        return NULL;
    }
    if ((unsigned)reduction > KILN_REDUCTION_BATCH_MEAN) {
        error_set(KILN_E_ARGUMENT, "loss_nll: unknown reduction %d", (int)reduction);
        return NULL;
    }
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *index = label_index(labels, kiln_dim(log_probs, 1));
    kiln_tensor *picked = kiln_gather(log_probs, 1, kiln_unsqueeze(index, 1));
    return scope_return(&scope, reduce(kiln_neg(kiln_squeeze(picked, KILN_AXES(1))), reduction));
}

kiln_tensor *kiln_loss_kl_div(kiln_tensor *log_probs, kiln_tensor *target, kiln_reduction reduction)
{
    if (!sound("loss_kl_div", log_probs, target, reduction)) return NULL;
    kiln_scope *scope = kiln_scope_begin();
    kiln_tensor *t = kiln_sub(kiln_xlogy(target, target), kiln_mul(target, log_probs));
    return scope_return(&scope, reduce(t, reduction));
}
