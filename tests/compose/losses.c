// Losses against plain loops. Reductions: the mean unless a case says otherwise.
#include "compose/case.h"

#include <kiln/nn.h>

// A reference gives the losses of elements (or samples) and their weights, and reduces them here.
static void finish(struct host *out, const long double *loss, const long double *weight, int64_t n, int reduction,
                   int dtype)
{
    long double sum = 0, all = 0;
    for (int64_t i = 0; i < n; i++) sum += loss[i], all += weight ? weight[i] : 1;
    *out = host_new(dtype, 0, NULL);
    out->v[0] = reduction == KILN_REDUCTION_SUM ? sum : sum / all;
}

static long double softplus(long double x)
{
    return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

// The element of t that broadcasts to element i of x.
static long double beside(const struct host *t, const struct host *x, int64_t i)
{
    return t->v[host_at(t, x->rank, x->dims, i)];
}

static long double logistic(long double x)
{
    return 1 / (1 + expl(-x));
}

static long double focal(long double x, long double target, long double gamma)
{
    long double p = logistic(x);
    return (softplus(x) - x * target) * powl(p + target - 2 * p * target, gamma);
}

// An elementwise loss of x and target, and of a third input where there is one, without reduction.
#define ELEMENTS(name, call_expr, formula)                             \
    static void call_##name(kiln_tensor *const *in, kiln_tensor **out) \
    {                                                                  \
        out[0] = call_expr;                                            \
    }                                                                  \
    static void expect_##name(const struct host *in, struct host *out) \
    {                                                                  \
        out[0] = host_new(in[0].dtype, in[0].rank, in[0].dims);        \
        for (int64_t i = 0; i < in[0].n; i++) {                        \
            long double x = in[0].v[i], t = beside(&in[1], &in[0], i); \
            out[0].v[i] = formula;                                     \
        }                                                              \
    }

// 16-bit floats are rounded at each step.
#define HALVES (1 << 18)
#define NONE   KILN_REDUCTION_NONE
ELEMENTS(log_cosh, kiln_loss_log_cosh(in[0], in[1], NONE), logl(coshl(x - t)))
ELEMENTS(hinge, kiln_loss_hinge(in[0], in[1], NONE), fmaxl(0, 1 - x * t))
ELEMENTS(squared_hinge, kiln_loss_squared_hinge(in[0], in[1], NONE), powl(fmaxl(0, 1 - x * t), 2))
ELEMENTS(soft_margin, kiln_loss_soft_margin(in[0], in[1], NONE), softplus(-x *t))
ELEMENTS(kl_div_log, kiln_loss_kl_div_log(in[0], in[1], NONE), expl(t) * (t - x))
ELEMENTS(poisson, kiln_loss_poisson_nll(in[0], in[1], KILN_LOSS_POISSON_NLL(.reduction = NONE)), expl(x) - t * x)
ELEMENTS(poisson_full, kiln_loss_poisson_nll(in[0], in[1], KILN_LOSS_POISSON_NLL(.full = true, .reduction = NONE)),
         expl(x) - t * x + (t > 1 ? t * logl(t) - t + logl(2 * PI_L * t) / 2 : 0))
ELEMENTS(poisson_rates, kiln_loss_poisson_nll(in[0], in[1], KILN_LOSS_POISSON_NLL(.rates = true, .reduction = NONE)),
         x - t * logl(x + 1e-8L))
ELEMENTS(hinge_embedding, kiln_loss_hinge_embedding(in[0], in[1], 1.5, NONE), t > 0 ? x : fmaxl(0, 1.5L - x))
ELEMENTS(focal, kiln_loss_focal(in[0], kiln_sigmoid(in[1]), KILN_LOSS_FOCAL(.reduction = NONE)),
         focal(x, logistic(t), 2) * (0.25L * logistic(t) + 0.75L * (1 - logistic(t))))
ELEMENTS(focal_plain,
         kiln_loss_focal(in[0], kiln_sigmoid(in[1]), KILN_LOSS_FOCAL(.alpha = -1, .gamma = 1.5, .reduction = NONE)),
         focal(x, logistic(t), 1.5L))

static void call_hinge_mean(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_loss_hinge(in[0], in[1], KILN_REDUCTION_MEAN);
    out[1] = kiln_loss_hinge(in[0], in[1], KILN_REDUCTION_SUM);
    out[2] = kiln_loss_hinge(in[0], in[1], KILN_REDUCTION_BATCH_MEAN);
}

static void expect_hinge_mean(const struct host *in, struct host *out)
{
    long double sum = 0;
    for (int64_t i = 0; i < in[0].n; i++) sum += fmaxl(0, 1 - in[0].v[i] * in[1].v[i]);
    for (int k = 0; k < 3; k++) {
        out[k] = host_new(in[0].dtype, 0, NULL);
        out[k].v[0] = k == 0 ? sum / (long double)in[0].n : k == 1 ? sum : sum / (long double)in[0].dims[0];
    }
}

// x, target and weights come as numbers that are brought into (0, 1) here.
static void call_bce(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *x = kiln_sigmoid(in[0]), *t = kiln_sigmoid(in[1]), *w = kiln_exp(in[2]);
    out[0] = kiln_loss_weighted_bce(x, t, KILN_LOSS_WEIGHTED_BCE(.weight = w));
}

static void call_bce_with_logits(kiln_tensor *const *in, kiln_tensor **out)
{
    kiln_tensor *t = kiln_sigmoid(in[1]), *w = kiln_exp(in[2]), *pos = kiln_exp(in[3]);
    out[0] = kiln_loss_weighted_bce_with_logits(in[0], t,
                                                KILN_LOSS_WEIGHTED_BCE_WITH_LOGITS(.weight = w, .pos_weight = pos));
}

static void bce(const struct host *in, struct host *out, const struct host *pos)
{
    long double loss[64];
    for (int64_t i = 0; i < in[0].n; i++) {
        long double x = in[0].v[i], t = 1 / (1 + expl(-beside(&in[1], &in[0], i)));
        long double p = pos ? expl(beside(pos, &in[0], i)) : 1;
        loss[i] = expl(beside(&in[2], &in[0], i)) * (p * t * softplus(-x) + (1 - t) * softplus(x));
    }
    finish(out, loss, NULL, in[0].n, KILN_REDUCTION_MEAN, in[0].dtype);
}

static void expect_bce(const struct host *in, struct host *out)
{
    bce(in, out, NULL);
}

static void expect_bce_with_logits(const struct host *in, struct host *out)
{
    bce(in, out, &in[3]);
}

static void call_gaussian(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_loss_gaussian_nll(in[0], in[1], kiln_exp(in[2]), KILN_LOSS_GAUSSIAN_NLL(.full = true));
}

static void expect_gaussian(const struct host *in, struct host *out)
{
    long double loss[64];
    for (int64_t i = 0; i < in[0].n; i++) {
        long double d = in[0].v[i] - in[1].v[i], log_v = beside(&in[2], &in[0], i);
        loss[i] = (log_v + d * d / expl(log_v) + logl(2 * PI_L)) / 2;
    }
    finish(out, loss, NULL, in[0].n, KILN_REDUCTION_MEAN, in[0].dtype);
}

static void call_dice(kiln_tensor *const *in, kiln_tensor **out)
{
    out[0] = kiln_loss_dice(kiln_sigmoid(in[0]), kiln_sigmoid(in[1]), KILN_LOSS_DICE(.smooth = 0.5, .reduction = NONE));
}

static void expect_dice(const struct host *in, struct host *out)
{
    int64_t n = in[0].dims[0], each = in[0].n / n;
    out[0] = host_new(in[0].dtype, 1, &n);
    for (int64_t s = 0; s < n; s++) {
        long double common = 0, all = 0;
        for (int64_t i = s * each; i < (s + 1) * each; i++) {
            long double x = 1 / (1 + expl(-in[0].v[i])), t = 1 / (1 + expl(-beside(&in[1], &in[0], i)));
            common += x * t, all += x + t;
        }
        out[0].v[s] = 1 - (2 * common + 0.5L) / (all + 0.5L);
    }
}

static const struct op_case losses_cases[] = {
    {"loss_log_cosh", "rows", "3x4 3x4", IN_WIDE, call_log_cosh, expect_log_cosh, .units = 16, .order = 2},
    {"loss_log_cosh", "rows, halves", "3x4 3x4", IN_HALF, call_log_cosh, expect_log_cosh, .units = HALVES},
    {"loss_log_cosh", "large", "5 5", IN_FLOATS, call_log_cosh, expect_log_cosh, .lo = -300, .hi = 300, .units = 8},
    {"loss_hinge", "broadcast", "3x4 4", IN_FLOATS, call_hinge, expect_hinge, .units = 4, .order = 2},
    {"loss_hinge", "reductions", "3x4 3x4", IN_WIDE, call_hinge_mean, expect_hinge_mean, .n_out = 3, .units = 16,
     .order = 1},
    {"loss_squared_hinge", "rows", "3x4 3x4", IN_WIDE, call_squared_hinge, expect_squared_hinge, .units = 8,
     .order = 2},
    {"loss_squared_hinge", "rows, halves", "3x4 3x4", IN_HALF, call_squared_hinge, expect_squared_hinge,
     .units = HALVES, .order = 2},
    {"loss_soft_margin", "rows", "3x4 3x4", IN_FLOATS, call_soft_margin, expect_soft_margin, .units = 8, .order = 2},
    {"loss_kl_div_log", "rows", "3x4 3x4", IN_WIDE, call_kl_div_log, expect_kl_div_log, .units = 16, .order = 2},
    {"loss_kl_div_log", "rows, halves", "3x4 3x4", IN_HALF, call_kl_div_log, expect_kl_div_log, .units = HALVES},
    {"loss_poisson_nll", "logarithms", "3x4 3x4", IN_WIDE, call_poisson, expect_poisson, .units = 8, .order = 2},
    {"loss_poisson_nll", "logarithms, halves", "3x4 3x4", IN_HALF, call_poisson, expect_poisson, .units = HALVES},
    {"loss_poisson_nll", "full", "3x4 3x4", IN_WIDE, call_poisson_full, expect_poisson_full, .lo = 0.2, .hi = 3.2,
     .units = 16, .order = 2},
    {"loss_poisson_nll", "rates", "3x4 3x4", IN_WIDE, call_poisson_rates, expect_poisson_rates, .lo = 0.2, .hi = 3,
     .units = 16, .order = 2},
    {"loss_hinge_embedding", "rows", "3x4 3x4", IN_FLOATS, call_hinge_embedding, expect_hinge_embedding, .units = 4,
     .order = 1},
    {"loss_focal", "rows", "3x4 3x4", IN_WIDE, call_focal, expect_focal, .units = 32, .order = 2},
    {"loss_focal", "no weights", "3x4 4", IN_WIDE, call_focal_plain, expect_focal_plain, .units = 32, .order = 2},
    {"loss_weighted_bce", "weights", "3x4 3x4 4", IN_WIDE, call_bce, expect_bce, .units = 32, .order = 2},
    {"loss_weighted_bce_with_logits", "weights", "3x4 3x4 3x1 4", IN_WIDE, call_bce_with_logits, expect_bce_with_logits,
     .units = 32, .order = 2},
    {"loss_gaussian_nll", "rows", "3x4 3x4 3x1", IN_WIDE, call_gaussian, expect_gaussian, .units = 32, .order = 2},
    {"loss_dice", "images", "2x3x4 2x3x4", IN_WIDE, call_dice, expect_dice, .units = 32, .order = 2},
};
FAMILY_OF(losses);
