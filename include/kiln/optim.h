/// @file optim.h
/// Optimisers, learning rate schedules, averages of parameters, gradient clipping.
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
typedef struct kiln_average kiln_average;
/// Computes a loss, a scalar, and its gradients (kiln_backward). NULL with an error pending ends the step.
typedef kiln_tensor *(*kiln_closure_fn)(void *user);

// --- optimisers. In the formulas p is a parameter, g its gradient, t the number of the step from 1. State is kept in
// the dtype of the parameter, of f16 and bf16 ones in f32. Errors: KILN_E_ARGUMENT for no parameters, a NULL, one that
// is not a floating point leaf or is no parameter (frozen ones are), one that is there twice, or a number out of range;
// KILN_E_DEVICE_MISMATCH for parameters on two devices. The message names the optimiser, the option and its value.
//
// In a captured step the formulas that go element by element are fused, with all parameters of the same shape and more
// in one launch. LAMB, Adafactor and Muon take reductions and products beside: so many launches a parameter, whatever
// its size. L-BFGS takes so many for each pair of its history.

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
    double eps KILN_0;          ///< >= 0; 0: 1e-8, KILN_ZERO: 0
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
    double eps KILN_0;          ///< >= 0; 0: 1e-8, KILN_ZERO: 0
    double momentum KILN_0;     ///< in [0, 1)
    double weight_decay KILN_0; ///< >= 0
} kiln_rmsprop_opts;
#define KILN_RMSPROP(...) KILN_OPTS_(kiln_rmsprop_opts, __VA_ARGS__)
/// g += weight_decay p; v = alpha v + (1 - alpha) g^2; b = momentum b + g / (sqrt(v) + eps); p -= lr b.
KILN_API kiln_optim *kiln_optim_rmsprop(kiln_tensor *const *params, size_t n, const kiln_rmsprop_opts *opts);

/// Options of kiln_optim_adagrad.
typedef struct kiln_adagrad_opts {
    size_t size KILN_0;
    double lr KILN_0;                  ///< learning rate; 0: 0.01, KILN_ZERO: 0
    double lr_decay KILN_0;            ///< >= 0
    double eps KILN_0;                 ///< >= 0; 0: 1e-10
    double weight_decay KILN_0;        ///< >= 0
    double initial_accumulator KILN_0; ///< >= 0: the sums at first
} kiln_adagrad_opts;
#define KILN_ADAGRAD(...) KILN_OPTS_(kiln_adagrad_opts, __VA_ARGS__)
/// Duchi, Hazan and Singer 2011, the diagonal form. g += weight_decay p; v += g^2;
/// p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(v) + eps).
KILN_API kiln_optim *kiln_optim_adagrad(kiln_tensor *const *params, size_t n, const kiln_adagrad_opts *opts);

/// Options of kiln_optim_adadelta.
typedef struct kiln_adadelta_opts {
    size_t size KILN_0;
    double lr KILN_0;           ///< learning rate; 0: 1, KILN_ZERO: 0
    double rho KILN_0;          ///< in [0, 1); 0: 0.9, KILN_ZERO: 0
    double eps KILN_0;          ///< >= 0; 0: 1e-6
    double weight_decay KILN_0; ///< >= 0
} kiln_adadelta_opts;
#define KILN_ADADELTA(...) KILN_OPTS_(kiln_adadelta_opts, __VA_ARGS__)
/// Zeiler 2012. g += weight_decay p; v = rho v + (1 - rho) g^2; d = sqrt(u + eps) / sqrt(v + eps) g;
/// u = rho u + (1 - rho) d^2; p -= lr d.
KILN_API kiln_optim *kiln_optim_adadelta(kiln_tensor *const *params, size_t n, const kiln_adadelta_opts *opts);

/// Kingma and Ba 2015, section 7.1; the rate is 0.002 by default. g += weight_decay p; m = beta1 m + (1 - beta1) g;
/// u = max(beta2 u, |g| + eps); p -= lr / (1 - beta1^t) m / u.
KILN_API kiln_optim *kiln_optim_adamax(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts);

/// Options of kiln_optim_nadam.
typedef struct kiln_nadam_opts {
    size_t size KILN_0;
    double lr KILN_0;             ///< learning rate; 0: 0.002, KILN_ZERO: 0
    double beta1 KILN_0;          ///< in [0, 1); 0: 0.9, KILN_ZERO: 0
    double beta2 KILN_0;          ///< in [0, 1); 0: 0.999, KILN_ZERO: 0
    double eps KILN_0;            ///< >= 0; 0: 1e-8
    double weight_decay KILN_0;   ///< >= 0
    double momentum_decay KILN_0; ///< psi, >= 0; 0: 0.004, KILN_ZERO: 0
    bool decoupled KILN_0;        ///< decay as in kiln_optim_adamw, not in g
} kiln_nadam_opts;
#define KILN_NADAM(...) KILN_OPTS_(kiln_nadam_opts, __VA_ARGS__)
/// Dozat 2016. mu(t) = beta1 (1 - 0.96^(t psi) / 2), pi(t) = mu(1) ... mu(t); g += weight_decay p; m and v as in Adam;
/// p -= lr (mu(t + 1) m / (1 - pi(t + 1)) + (1 - mu(t)) g / (1 - pi(t))) / (sqrt(v / (1 - beta2^t)) + eps).
KILN_API kiln_optim *kiln_optim_nadam(kiln_tensor *const *params, size_t n, const kiln_nadam_opts *opts);

/// Liu et al. 2020. g += weight_decay p; m and v as in Adam; with r(inf) = 2 / (1 - beta2) - 1 and
/// r(t) = r(inf) - 2 t beta2^t / (1 - beta2^t): where r(t) > 5, Adam's step times
/// sqrt((r(t) - 4) (r(t) - 2) r(inf) / ((r(inf) - 4) (r(inf) - 2) r(t))), else p -= lr m / (1 - beta1^t).
KILN_API kiln_optim *kiln_optim_radam(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts);

/// Options of kiln_optim_lion.
typedef struct kiln_lion_opts {
    size_t size KILN_0;
    double lr KILN_0;           ///< learning rate; 0: 0.0001, KILN_ZERO: 0
    double beta1 KILN_0;        ///< in [0, 1); 0: 0.9, KILN_ZERO: 0
    double beta2 KILN_0;        ///< in [0, 1); 0: 0.99, KILN_ZERO: 0
    double weight_decay KILN_0; ///< >= 0
} kiln_lion_opts;
#define KILN_LION(...) KILN_OPTS_(kiln_lion_opts, __VA_ARGS__)
/// Chen et al. 2023. p -= lr weight_decay p; p -= lr sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g.
KILN_API kiln_optim *kiln_optim_lion(kiln_tensor *const *params, size_t n, const kiln_lion_opts *opts);

/// You et al. 2020; eps is 1e-6 by default. m and v as in Adam; u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)
/// + weight_decay p; p -= lr |p| / |u| u, by the norms over the whole parameter; where one of them is 0, p -= lr u.
KILN_API kiln_optim *kiln_optim_lamb(kiln_tensor *const *params, size_t n, const kiln_adam_opts *opts);

/// Options of kiln_optim_adafactor.
typedef struct kiln_adafactor_opts {
    size_t size KILN_0;
    double lr KILN_0;           ///< the most that the relative rate is; 0: 0.01, KILN_ZERO: 0
    double beta2_decay KILN_0;  ///< in (0, 1]; 0: 0.8
    double eps1 KILN_0;         ///< added to squares, >= 0; 0: 1e-30
    double eps2 KILN_0;         ///< the least size of a parameter, >= 0; 0: 0.001, KILN_ZERO: 0
    double clip KILN_0;         ///< the most that the root mean square of an update is, > 0; 0: 1
    double weight_decay KILN_0; ///< >= 0
} kiln_adafactor_opts;
#define KILN_ADAFACTOR(...) KILN_OPTS_(kiln_adafactor_opts, __VA_ARGS__)
/// Shazeer and Stern 2018, without a first moment. b = 1 - t^-beta2_decay; of parameters of rank 2 and more the means
/// of g^2 + eps1 along the last axis and along the one before are kept: R = b R + (1 - b) mean, C likewise, V = R C /
/// mean(R); else V = b V + (1 - b) (g^2 + eps1). U = g / sqrt(V); p -= lr weight_decay p; p -= min(lr, 1 / sqrt(t))
/// max(eps2, rms(p)) U / max(1, rms(U) / clip).
KILN_API kiln_optim *kiln_optim_adafactor(kiln_tensor *const *params, size_t n, const kiln_adafactor_opts *opts);

/// Options of kiln_optim_muon.
typedef struct kiln_muon_opts {
    size_t size KILN_0;
    double lr KILN_0;           ///< learning rate; 0: 0.02, KILN_ZERO: 0
    double momentum KILN_0;     ///< in [0, 1); 0: 0.95, KILN_ZERO: 0
    double weight_decay KILN_0; ///< >= 0
    int64_t steps KILN_0;       ///< of the iteration; 0: 5
    bool plain KILN_0;          ///< without Nesterov's look ahead
} kiln_muon_opts;
#define KILN_MUON(...) KILN_OPTS_(kiln_muon_opts, __VA_ARGS__)
/// Jordan et al. 2024, for matrices; of higher rank all axes but the first are one. v = momentum v + g; O is
/// g + momentum v, or v with .plain, divided by its norm, after `steps` times X = 3.4445 X + (-4.775 A + 2.0315 A A) X
/// with A = X X^T; p -= lr weight_decay p; p -= lr sqrt(max(1, rows / columns)) O. Computed in f32, of f64 parameters
/// in f64. Errors: KILN_E_SHAPE for a parameter of rank below 2.
KILN_API kiln_optim *kiln_optim_muon(kiln_tensor *const *params, size_t n, const kiln_muon_opts *opts);

/// Options of kiln_optim_lbfgs. All but the first two are of kiln_optim_step_closure.
typedef struct kiln_lbfgs_opts {
    size_t size KILN_0;
    double lr KILN_0;               ///< length of a step, with a search of the first trial; 0: 1, KILN_ZERO: 0
    int64_t history KILN_0;         ///< pairs; 0: 10
    int64_t iterations KILN_0;      ///< of a step, at most; 0: 20
    int64_t evaluations KILN_0;     ///< of the closure beside the first, at most; 0: iterations 5 / 4
    double tolerance_grad KILN_0;   ///< ends where no element of the gradient is larger; 0: 1e-7, KILN_ZERO: 0
    double tolerance_change KILN_0; ///< ends where no element, or the loss, changes by more; 0: 1e-9, KILN_ZERO: 0
    bool fixed KILN_0;              ///< steps of length lr, no line search
} kiln_lbfgs_opts;
#define KILN_LBFGS(...) KILN_OPTS_(kiln_lbfgs_opts, __VA_ARGS__)
/// Nocedal and Wright 2006, algorithms 7.4 and 7.5, over all parameters as one vector; a pair is taken up where its
/// curvature is above 1e-10. kiln_optim_step makes one step of length lr along the direction, the first times
/// min(1, 1 / sum |g|); it may be captured. kiln_optim_step_closure makes `iterations`, with a line search by the
/// strong Wolfe conditions (algorithms 3.5 and 3.6; 1e-4 and 0.9), and reads losses; the closure may call a captured
/// function. One group. Its state is "optim.s", "optim.y", "optim.step" and "optim.gradient".
KILN_API kiln_optim *kiln_optim_lbfgs(kiln_tensor *const *params, size_t n, const kiln_lbfgs_opts *opts);

/// Options of kiln_optim_add_group: what is 0 is as in the first group; KILN_ZERO is 0.
typedef struct kiln_optim_group_opts {
    size_t size KILN_0;
    double lr KILN_0;               ///< a rate of its own, which neither kiln_optim_set_lr nor a schedule changes
    double lr_scale KILN_0;         ///< >= 0, times the rate, whosever it is; 0: 1
    double weight_decay KILN_0;     ///< >= 0
    double momentum KILN_0;         ///< in [0, 1)
    double beta1 KILN_0;            ///< in [0, 1); RMSprop's alpha, Adadelta's rho
    double beta2 KILN_0;            ///< in [0, 1)
    double eps KILN_0;              ///< >= 0
    kiln_schedule *schedule KILN_0; ///< of its own; the optimiser's from the call on, even where the call fails
} kiln_optim_group_opts;
#define KILN_OPTIM_GROUP(...) KILN_OPTS_(kiln_optim_group_opts, __VA_ARGS__)
/// Adds parameters with numbers of their own; they count on from those before. A function that was captured before does
/// not move them. Errors as above, KILN_E_ARGUMENT for a number that the optimiser does not have or a parameter of
/// another group, KILN_E_UNSUPPORTED for kiln_optim_lbfgs.
KILN_API kiln_status kiln_optim_add_group(kiln_optim *opt, kiln_tensor *const *params, size_t n,
                                          const kiln_optim_group_opts *opts);
KILN_API size_t kiln_optim_groups(const kiln_optim *opt); ///< how many, the first included
/// The rate of a group's next step, with its scale. Setting it drops a schedule of the group's and its scale, and gives
/// the group a rate of its own.
KILN_API double kiln_optim_group_lr(const kiln_optim *opt, size_t group);
KILN_API kiln_status kiln_optim_set_group_lr(kiln_optim *opt, size_t group, double lr);

/// The schedule that gives a group a rate of its own, of group 0 the optimiser's where it has none; borrowed, to ask it
/// or to keep its state (kiln_schedule_state). NULL where there is none.
KILN_API kiln_schedule *kiln_optim_schedule(const kiln_optim *opt, size_t group);

/// Frees the optimiser and its state and nulls the pointer; NULL is fine. The parameters stay.
KILN_API void kiln_optim_free(kiln_optim **opt);

/// Moves every parameter by its gradient (kiln_gradient) and raises the number of steps by one. Nothing is recorded for
/// gradients. A parameter without a gradient stays as it is, its state too; where none has one, the log is told once.
KILN_API kiln_status kiln_optim_step(kiln_optim *opt);
/// Calls the closure, then steps; kiln_optim_lbfgs calls it at each trial. *loss, unless it is NULL, is what the first
/// call gave. Errors: what the closure leaves pending, KILN_E_ARGUMENT where it gives NULL; KILN_E_STATE for
/// kiln_optim_lbfgs in a capture. Where an error comes from a trial the parameters are where that was made.
KILN_API kiln_status kiln_optim_step_closure(kiln_optim *opt, kiln_closure_fn fn, void *user, double *loss);
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

/// Tells the optimiser's schedules a metric (kiln_schedule_report).
KILN_API kiln_status kiln_optim_report(kiln_optim *opt, double metric);

// --- schedules: the learning rate as a function of the number of steps done. Plateaus alone have a state. Each
// function returns an object to free or to give to one optimiser, or NULL with an error pending (KILN_E_ARGUMENT for a
// number out of range). One that an optimiser or a warm-up owns is refused elsewhere and stays where it is.

KILN_API kiln_schedule *kiln_schedule_constant(double lr);
/// lr gamma^(step / period), in integers.
KILN_API kiln_schedule *kiln_schedule_step(double lr, int64_t period, double gamma);
/// lr gamma^(number of milestones <= step); the milestones ascend.
KILN_API kiln_schedule *kiln_schedule_multi_step(double lr, size_t n, const int64_t *milestones, double gamma);
/// lr gamma^step.
KILN_API kiln_schedule *kiln_schedule_exponential(double lr, double gamma);
/// From lr down to min_lr along half a cosine over `total` steps, then min_lr (Loshchilov and Hutter 2017).
KILN_API kiln_schedule *kiln_schedule_cosine(double lr, double min_lr, int64_t total);
/// From lr to end_lr along a line over `total` steps, then end_lr.
KILN_API kiln_schedule *kiln_schedule_linear(double lr, double end_lr, int64_t total);
/// end_lr + (lr - end_lr) (1 - step / total)^power, then end_lr; power > 0.
KILN_API kiln_schedule *kiln_schedule_polynomial(double lr, double end_lr, int64_t total, double power);
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

/// Options of kiln_schedule_plateau.
typedef struct kiln_plateau_opts {
    size_t size KILN_0;
    double factor KILN_0;    ///< in (0, 1); 0: 0.1
    int64_t patience KILN_0; ///< reports without progress that are borne; 0: 10, -1: none
    double threshold KILN_0; ///< what counts as progress, as a part of the best metric; 0: 1e-4, KILN_ZERO: 0
    int64_t cooldown KILN_0; ///< reports after a fall that do not count
    double min_lr KILN_0;    ///< the least rate
    bool rises KILN_0;       ///< better is more, not less
    bool absolute KILN_0;    ///< the threshold is a difference
} kiln_plateau_opts;
#define KILN_PLATEAU(...) KILN_OPTS_(kiln_plateau_opts, __VA_ARGS__)
/// lr, times factor each time that more than `patience` reports in a row bring no progress. A metric of NaN is none.
KILN_API kiln_schedule *kiln_schedule_plateau(double lr, const kiln_plateau_opts *opts);
/// Tells a plateau, warm-ups before it or not, a metric; other schedules do not listen.
KILN_API kiln_status kiln_schedule_report(kiln_schedule *schedule, double metric);
/// What a checkpoint must hold of a schedule: of a plateau 4 numbers, of others none. Writes up to `max` and returns
/// how many there are; setting takes as many.
KILN_API size_t kiln_schedule_state(const kiln_schedule *schedule, double *values, size_t max);
KILN_API kiln_status kiln_schedule_set_state(kiln_schedule *schedule, const double *values, size_t n);

/// The rate of step `step` (from 0). NaN and an error for NULL or a negative step.
KILN_API double kiln_schedule_lr(const kiln_schedule *schedule, int64_t step);
KILN_API void kiln_schedule_free(kiln_schedule **schedule);

// --- averages of parameters over steps, kept beside them and put in their place to evaluate. An average holds handles
// of its own on the parameters, and its values in their dtypes, of f16 and bf16 ones in f32. Errors: KILN_E_ARGUMENT
// for no parameters, a NULL, and what is not a floating point leaf; running statistics may be among them.

/// Options of kiln_average_ema.
typedef struct kiln_ema_opts {
    size_t size KILN_0;
    double decay KILN_0; ///< in [0, 1); 0: 0.999, KILN_ZERO: 0
    bool warmup KILN_0;  ///< the decay is min(decay, (1 + k) / (10 + k)) after k updates
} kiln_ema_opts;
#define KILN_EMA(...) KILN_OPTS_(kiln_ema_opts, __VA_ARGS__)
/// Polyak and Juditsky 1992, with exponential weights: a = decay a + (1 - decay) p, from a = p as it is now.
KILN_API kiln_average *kiln_average_ema(kiln_tensor *const *params, size_t n, const kiln_ema_opts *opts);
/// Izmailov et al. 2018 (SWA): the mean of the values at all updates.
KILN_API kiln_average *kiln_average_swa(kiln_tensor *const *params, size_t n);
/// Frees it and nulls the pointer; NULL is fine. Parameters stay as they are.
KILN_API void kiln_average_free(kiln_average **average);
/// Takes up the parameters as they are now; may be captured, behind kiln_optim_step. KILN_E_STATE while they are in.
KILN_API kiln_status kiln_average_update(kiln_average *average);
/// Puts the averages into the parameters, and at the next call the parameters' own values back. Where the first fails
/// midway, kiln_average_is_in is true and the next call puts the own values back, too. KILN_E_STATE in a capture.
KILN_API kiln_status kiln_average_swap(kiln_average *average);
KILN_API bool kiln_average_is_in(const kiln_average *average); ///< whether the averages are in the parameters
KILN_API int64_t kiln_average_updates(const kiln_average *average);
KILN_API kiln_status kiln_average_set_updates(kiln_average *average, int64_t updates);
/// The averages by name, "average.<i>", as kiln_optim_state gives an optimiser's state; with the number of updates all
/// that a checkpoint must hold.
KILN_API size_t kiln_average_state(kiln_average *average, const char **names, kiln_tensor **tensors, size_t max);

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
