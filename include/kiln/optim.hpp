/// @file optim.hpp
/// Optimisers, schedules, averages and clipping for C++: each kiln_optim_x, kiln_schedule_x and kiln_average_x that
/// makes one is optim::x.
#ifndef KILN_OPTIM_HPP
#define KILN_OPTIM_HPP

#include <kiln/files.hpp>

#include <kiln/function.hpp>

namespace kiln {

namespace detail {

template <class F> struct closure {
    F &f;
    thrown error;
    static kiln_tensor *run(void *user)
    {
        auto *c = static_cast<closure *>(user);
        kiln_tensor *loss = nullptr;
        c->error.keep([&] { loss = made(kiln_alias(tensor(c->f()).get())); });
        return loss;
    }
};

} // namespace detail

/// A schedule of learning rates.
class schedule : public handle<kiln_schedule, kiln_schedule_free> {
  public:
    using handle::handle;
    KILN_CXX static schedule adopt(kiln_schedule *s) { return schedule(detail::made(s)); }
    KILN_CXX double lr(int64_t step) const { return detail::checked(kiln_schedule_lr(get(), step)); }
    /// Tells a plateau a metric.
    KILN_CXX void report(double metric) { detail::check(kiln_schedule_report(get(), metric)); }
    KILN_CXX std::vector<double> state() const
    {
        std::vector<double> v(detail::checked(kiln_schedule_state(get(), nullptr, 0)));
        kiln_schedule_state(get(), v.data(), v.size());
        return v;
    }
    KILN_CXX void set_state(const std::vector<double> &v)
    {
        detail::check(kiln_schedule_set_state(get(), v.data(), v.size()));
    }
};

/// An optimiser. It shares its parameters.
class optimiser : public handle<kiln_optim, kiln_optim_free> {
  public:
    using handle::handle;
    KILN_CXX static optimiser adopt(kiln_optim *o) { return optimiser(detail::made(o)); }
    KILN_CXX void step() { detail::check(kiln_optim_step(get())); }
    /// With a function that gives the loss, behind its backward; the first loss that it gave.
    template <class F> KILN_CXX double step(F closure)
    {
        double loss = 0;
        detail::closure<F> c = {closure, {}};
        kiln_status status = kiln_optim_step_closure(get(), detail::closure<F>::run, &c, &loss);
        c.error.again();
        detail::check(status);
        return loss;
    }
    KILN_CXX void zero_grad() { detail::check(kiln_optim_zero_grad(get())); }
    KILN_CXX double lr() const { return detail::checked(kiln_optim_lr(get())); }
    KILN_CXX void set_lr(double lr) { detail::check(kiln_optim_set_lr(get(), lr)); }
    KILN_CXX void set_schedule(schedule s) { detail::check(kiln_optim_set_schedule(get(), s.release())); }
    KILN_CXX void report(double metric) { detail::check(kiln_optim_report(get(), metric)); }
    KILN_CXX int64_t steps() const { return detail::checked(kiln_optim_steps(get())); }
    KILN_CXX void set_steps(int64_t steps) { detail::check(kiln_optim_set_steps(get(), steps)); }
    /// What a checkpoint must hold beside the steps and the rate; its tensors may be written.
    KILN_CXX named_tensors state() const { return detail::named<kiln_optim_state>(get()); }
    /// Parameters with numbers, and a schedule, of their own.
    KILN_CXX void add_group(const tensors &params, const kiln_optim_group_opts &opts = {}, schedule own = schedule())
    {
        auto o = detail::with_size(opts);
        if (own) o.schedule = own.release();
        detail::check(kiln_optim_add_group(get(), params.data(), params.size(), &o));
    }
    KILN_CXX size_t groups() const { return detail::checked(kiln_optim_groups(get())); }
    KILN_CXX double group_lr(size_t group) const { return detail::checked(kiln_optim_group_lr(get(), group)); }
    KILN_CXX void set_group_lr(size_t group, double lr) { detail::check(kiln_optim_set_group_lr(get(), group, lr)); }
};

/// An average of parameters.
class average : public handle<kiln_average, kiln_average_free> {
  public:
    using handle::handle;
    KILN_CXX static average adopt(kiln_average *a) { return average(detail::made(a)); }
    KILN_CXX void update() { detail::check(kiln_average_update(get())); }
    /// Puts the averages into the parameters; at the next call their own values back.
    KILN_CXX void swap() { detail::check(kiln_average_swap(get())); }
    KILN_CXX bool is_in() const { return detail::checked(kiln_average_is_in(get())); }
    KILN_CXX int64_t updates() const { return detail::checked(kiln_average_updates(get())); }
    KILN_CXX void set_updates(int64_t updates) { detail::check(kiln_average_set_updates(get(), updates)); }
    KILN_CXX named_tensors state() const { return detail::named<kiln_average_state>(get()); }
};

namespace optim {

#define KILN_OPTIMISER(name, opts)                                                     \
    KILN_CXX optimiser name(const tensors &params, const opts &o = {})                 \
    {                                                                                  \
        auto o_ = detail::with_size<opts>(o);                                          \
        return optimiser::adopt(kiln_optim_##name(params.data(), params.size(), &o_)); \
    }
KILN_OPTIMISER(sgd, kiln_sgd_opts)
KILN_OPTIMISER(adam, kiln_adam_opts)
KILN_OPTIMISER(adamw, kiln_adam_opts)
KILN_OPTIMISER(adamax, kiln_adam_opts)
KILN_OPTIMISER(nadam, kiln_nadam_opts)
KILN_OPTIMISER(radam, kiln_adam_opts)
KILN_OPTIMISER(rmsprop, kiln_rmsprop_opts)
KILN_OPTIMISER(adagrad, kiln_adagrad_opts)
KILN_OPTIMISER(adadelta, kiln_adadelta_opts)
KILN_OPTIMISER(adafactor, kiln_adafactor_opts)
KILN_OPTIMISER(lion, kiln_lion_opts)
KILN_OPTIMISER(lamb, kiln_adam_opts)
KILN_OPTIMISER(muon, kiln_muon_opts)
KILN_OPTIMISER(lbfgs, kiln_lbfgs_opts)
#undef KILN_OPTIMISER

#define KILN_SCHEDULE(name, parameters, arguments)              \
    KILN_CXX schedule name parameters                           \
    {                                                           \
        return schedule::adopt(kiln_schedule_##name arguments); \
    }
KILN_SCHEDULE(constant, (double lr), (lr))
KILN_SCHEDULE(step, (double lr, int64_t period, double gamma), (lr, period, gamma))
KILN_SCHEDULE(multi_step, (double lr, const ints &milestones, double gamma),
              (lr, milestones.size(), milestones.data(), gamma))
KILN_SCHEDULE(exponential, (double lr, double gamma), (lr, gamma))
KILN_SCHEDULE(cosine, (double lr, double min_lr, int64_t total), (lr, min_lr, total))
KILN_SCHEDULE(linear, (double lr, double end_lr, int64_t total), (lr, end_lr, total))
KILN_SCHEDULE(polynomial, (double lr, double end_lr, int64_t total, double power), (lr, end_lr, total, power))
KILN_SCHEDULE(warmup, (int64_t steps, schedule after), (steps, after.release()))
#undef KILN_SCHEDULE
KILN_CXX schedule one_cycle(double max_lr, int64_t total, const kiln_one_cycle_opts &opts = {})
{
    auto o = detail::with_size(opts);
    return schedule::adopt(kiln_schedule_one_cycle(max_lr, total, &o));
}
KILN_CXX schedule plateau(double lr, const kiln_plateau_opts &opts = {})
{
    auto o = detail::with_size(opts);
    return schedule::adopt(kiln_schedule_plateau(lr, &o));
}

KILN_CXX average ema(const tensors &params, const kiln_ema_opts &opts = {})
{
    auto o = detail::with_size(opts);
    return average::adopt(kiln_average_ema(params.data(), params.size(), &o));
}
KILN_CXX average swa(const tensors &params)
{
    return average::adopt(kiln_average_swa(params.data(), params.size()));
}

/// The norm before; see kiln_clip_grad_norm.
KILN_CXX tensor clip_grad_norm(const tensors &params, double max_norm)
{
    return detail::taken(kiln_clip_grad_norm(params.data(), params.size(), max_norm));
}
KILN_CXX void clip_grad_value(const tensors &params, double limit)
{
    detail::check(kiln_clip_grad_value(params.data(), params.size(), limit));
}

} // namespace optim

} // namespace kiln
#endif
