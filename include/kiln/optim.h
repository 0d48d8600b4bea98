/// @file optim.h
/// Optimisers, learning rate schedules, gradient clipping.
///
///     kiln_optim *opt = kiln_optim_adam(params, n, KILN_ADAM(.lr = 1e-3));
///     kiln_optim_set_schedule(opt, kiln_schedule_cosine(1e-3, 0, 1000));
///     for (...) {
///         kiln_scope *scope = kiln_scope_begin();
///         kiln_backward(kiln_cross_entropy(kiln_cell_call(net, x), labels, NULL), NULL);
///         kiln_clip_grad_norm(params, n, 1.0);
///         kiln_optim_step(opt);
///         kiln_optim_zero_grad(opt);
///         kiln_scope_end(&scope);
///     }
///     kiln_optim_free(&opt);
///
/// An optimiser holds handles of its own on the parameters and owns its state, whatever scope is open. It is used by
/// one thread at a time. While an error is pending nothing has an effect; freeing works.
#ifndef KILN_OPTIM_H
#define KILN_OPTIM_H

#include <kiln/grad.h>
#include <kiln/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_optim kiln_optim;
typedef struct kiln_schedule kiln_schedule;

// --- optimisers. In the formulas p is a parameter, g its gradient, t the number of the step from 1. State is kept in
// the dtype of the parameter, of f16 and bf16 ones in f32. Errors: KILN_E_ARGUMENT for no parameters, a NULL, one that
// is not a floating point leaf or is no parameter (frozen ones are), or a number out of range.

/// Options of kiln_optim_sgd.
typedef struct kiln_sgd_opts {
    size_t size KILN_0;
    double lr KILN_0;           ///< learning rate; 0: 0.01, KILN_ZERO: 0
    double momentum KILN_0;     ///< in [0, 1)
    double weight_decay KILN_0; ///< >= 0
    bool nesterov KILN_0;       ///< needs momentum and no dampening
    double dampening KILN_0;    ///< in [0, 1]
} kiln_sgd_opts;
#define KILN_SGD(...) KILN_OPTS_(kiln_sgd_opts, __VA_ARGS__)
/// g += weight_decay p; v = momentum v + (1 - dampening) g, from v = 0; p -= lr v, with nesterov p -= lr (g + momentum
/// v).
KILN_API kiln_optim *kiln_optim_sgd(kiln_tensor *const *params, size_t n, const kiln_sgd_opts *opts);

/// Options of kiln_optim_adam and kiln_optim_adamw.
typedef struct kiln_adam_opts {
    size_t size KILN_0;
    double lr KILN_0;           ///< learning rate; 0: 0.001, KILN_ZERO: 0
    double beta1 KILN_0;        ///< in [0, 1); 0: 0.9, KILN_ZERO: 0
    double beta2 KILN_0;        ///< in [0, 1); 0: 0.999, KILN_ZERO: 0
    double eps KILN_0;          ///< > 0; 0: 1e-8
    double weight_decay KILN_0; ///< >= 0; 0: none, for kiln_optim_adamw 0.01; KILN_ZERO: 0
} kiln_adam_opts;
#define KILN_ADAM(...) KILN_OPTS_(kiln_adam_opts, __VA_ARGS__)
/// Kingma and Ba 2015. g += weight_decay p; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// p -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps).
KILN_API kiln_optim *kiln_optim_adam(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts);
/// Loshchilov and Hutter 2019: the same without weight_decay in g; instead p -= lr weight_decay p before the update.
KILN_API kiln_optim *kiln_optim_adamw(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts);

/// Options of kiln_optim_rmsprop.
typedef struct kiln_rmsprop_opts {
    size_t size KILN_0;
    double lr KILN_0;           ///< learning rate; 0: 0.01, KILN_ZERO: 0
    double alpha KILN_0;        ///< in [0, 1); 0: 0.99, KILN_ZERO: 0
    double eps KILN_0;          ///< > 0; 0: 1e-8
    double momentum KILN_0;     ///< in [0, 1)
    double weight_decay KILN_0; ///< >= 0
} kiln_rmsprop_opts;
#define KILN_RMSPROP(...) KILN_OPTS_(kiln_rmsprop_opts, __VA_ARGS__)
/// g += weight_decay p; v = alpha v + (1 - alpha) g^2; b = momentum b + g / (sqrt(v) + eps); p -= lr b.
KILN_API kiln_optim *kiln_optim_rmsprop(kiln_tensor *const *params, size_t n, const kiln_rmsprop_opts *opts);

/// Frees the optimiser and its state and nulls the pointer; NULL is fine. The parameters stay.
KILN_API void kiln_optim_free(kiln_optim **opt);

/// Moves every parameter by its gradient (kiln_gradient) and raises the number of steps by one. Nothing is recorded for
/// gradients. A parameter without a gradient stays as it is, its state too; where none has one, the log is told once.
KILN_API kiln_status kiln_optim_step(kiln_optim *opt);
/// Drops the gradients of all parameters.
KILN_API kiln_status kiln_optim_zero_grad(kiln_optim *opt);

/// The learning rate of the next step. Setting it drops a schedule. A negative or non-finite rate is an error; NaN and
/// an error for NULL.
KILN_API double kiln_optim_lr(const kiln_optim *opt);
KILN_API kiln_status kiln_optim_set_lr(kiln_optim *opt, double lr);
/// Lets a schedule give the rate: step t (from 1) uses kiln_schedule_lr(schedule, t - 1). The optimiser owns the
/// schedule from the call on, even where the call fails; one it had is freed. NULL with no error pending drops the
/// schedule and keeps the present rate.
KILN_API kiln_status kiln_optim_set_schedule(kiln_optim *opt, kiln_schedule *schedule);

/// Steps done. Setting it, with the state below, continues a run bit for bit.
KILN_API int64_t kiln_optim_steps(const kiln_optim *opt);
KILN_API kiln_status kiln_optim_set_steps(kiln_optim *opt, int64_t steps);

/// The state that a checkpoint must hold beside the number of steps and the learning rate: tensors named
/// "optim.<i>.<what>" with i the index of the parameter ("optim.0.moment1"). Writes up to `max` of each and returns how
/// many there are. Names live as long as the optimiser; tensors are borrowed, valid until the next step, and may be
/// written (kiln_checkpoint_restore, kiln_write, kiln_assign). Either array may be NULL.
KILN_API size_t kiln_optim_state(kiln_optim *opt, const char **names, kiln_tensor **tensors, size_t max);

// --- schedules: the learning rate as a function of the number of steps done. They have no state. Each function returns
// an object to free or to give to an optimiser, or NULL with an error pending (KILN_E_ARGUMENT for a number out of
// range).

KILN_API kiln_schedule *kiln_schedule_constant(double lr);
/// lr gamma^(step / period), in integers.
KILN_API kiln_schedule *kiln_schedule_step(double lr, int64_t period, double gamma);
/// lr gamma^(number of milestones <= step); the milestones ascend.
KILN_API kiln_schedule *kiln_schedule_multi_step(double lr, size_t n, const int64_t *milestones, double gamma);
/// lr gamma^step.
KILN_API kiln_schedule *kiln_schedule_exponential(double lr, double gamma);
/// From lr down to min_lr along half a cosine over `total` steps, then min_lr (Loshchilov and Hutter 2017).
KILN_API kiln_schedule *kiln_schedule_cosine(double lr, double min_lr, int64_t total);
/// Rises linearly to the first rate of `after` over `warmup` steps (step s uses (s + 1) / (warmup + 1) of it), then
/// goes on with after(s - warmup). Owns `after` from the call on, even where it fails.
KILN_API kiln_schedule *kiln_schedule_warmup(int64_t warmup, kiln_schedule *after);

/// Options of kiln_schedule_one_cycle.
typedef struct kiln_one_cycle_opts {
    size_t size KILN_0;
    double pct_start KILN_0;        ///< part of the steps that rises, in (0, 1); 0: 0.3
    double div_factor KILN_0;       ///< first rate = max_lr / div_factor; 0: 25
    double final_div_factor KILN_0; ///< last rate = first rate / final_div_factor; 0: 1e4
} kiln_one_cycle_opts;
#define KILN_ONE_CYCLE(...) KILN_OPTS_(kiln_one_cycle_opts, __VA_ARGS__)
/// Up to max_lr and down again, each along half a cosine, over `total` steps (Smith and Topin 2018): the top is reached
/// at step pct_start total - 1, the last rate at step total - 1 and after.
KILN_API kiln_schedule *kiln_schedule_one_cycle(double max_lr, int64_t total, const kiln_one_cycle_opts *opts);

/// The rate of step `step` (from 0). NaN and an error for NULL or a negative step.
KILN_API double kiln_schedule_lr(const kiln_schedule *schedule, int64_t step);
KILN_API void kiln_schedule_free(kiln_schedule **schedule);

// --- clipping, between backward and the step

/// Scales all gradients together so that their norm, taken over all of them as one vector, is at most max_norm. Returns
/// the norm before that: a new handle of rank 0, f32 (f64 where all gradients are f64), read only when the caller reads
/// it. Parameters without a gradient are passed over; with none at all the norm is 0. A norm that is not finite makes
/// the gradients NaN or 0. Errors: KILN_E_ARGUMENT for max_norm that is not positive; NULL on error.
KILN_API kiln_tensor *kiln_clip_grad_norm(kiln_tensor *const *params, size_t n, double max_norm);
/// Limits each element of each gradient to [-limit, limit]. limit > 0.
KILN_API kiln_status kiln_clip_grad_value(kiln_tensor *const *params, size_t n, double limit);

#ifdef __cplusplus
}
#endif
#endif
