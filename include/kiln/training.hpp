/// @file training.hpp
/// Help around a training loop for C++: kiln/train.h.
///
///     kiln::training t("runs/first", {.epochs = 5});
///     t.keep("net", net);
///     t.keep("adam", adam);
///     while (t.epoch()) {
///         while (t.goes_on() && loader.next()) {
///             t.log("train/loss", one_step(loader[0], loader[1]));
///             t.step();
///         }
///     }
#ifndef KILN_TRAINING_HPP
#define KILN_TRAINING_HPP

#include <kiln/data.hpp>

#include <kiln/nn.hpp>

#include <kiln/optim.hpp>

namespace kiln {

/// A training. What it keeps outlives it, and stays where it is.
class training : public handle<kiln_training, kiln_training_free> {
  public:
    /// Without files where `path` is "".
    KILN_CXX explicit training(const std::string &path = "", const kiln_training_opts &opts = {})
    {
        auto o = detail::with_size(opts);
        handle::operator=(handle(detail::made(kiln_training_create(path.empty() ? nullptr : path.c_str(), &o))));
    }
    KILN_CXX bool epoch() { return detail::checked(kiln_training_epoch(get())); }
    KILN_CXX bool goes_on() { return detail::checked(kiln_training_goes_on(get())); }
    KILN_CXX void step() { detail::check(kiln_training_step(get())); }
    KILN_CXX void stop() { detail::check(kiln_training_stop(get())); }
    KILN_CXX int64_t steps() const { return detail::checked(kiln_training_steps(get())); }
    KILN_CXX int64_t epochs() const { return detail::checked(kiln_training_epochs(get())); }

    /// What checkpoints hold, under names of its own.
    KILN_CXX void keep(const char *name, cell_ref c) { detail::check(kiln_training_keep_cell(get(), name, c.get())); }
    KILN_CXX void keep(const char *name, const cell &c)
    {
        detail::check(kiln_training_keep_cell(get(), name, c.get()));
    }
    KILN_CXX void keep(const char *name, const optimiser &o)
    {
        detail::check(kiln_training_keep_optim(get(), name, o.get()));
    }
    KILN_CXX void keep(const char *name, const average &a)
    {
        detail::check(kiln_training_keep_average(get(), name, a.get()));
    }
    KILN_CXX void keep(const char *name, const loader &l)
    {
        detail::check(kiln_training_keep_loader(get(), name, l.get()));
    }
    KILN_CXX void keep(const char *name, const generator &g)
    {
        detail::check(kiln_training_keep_generator(get(), name, g.get()));
    }
    KILN_CXX void keep(const char *name, const tensor &t)
    {
        detail::check(kiln_training_keep_tensor(get(), name, t.get()));
    }
    KILN_CXX void keep(const char *name, int64_t *value) { detail::check(kiln_training_keep_int(get(), name, value)); }
    KILN_CXX void keep(const char *name, double *value)
    {
        detail::check(kiln_training_keep_double(get(), name, value));
    }
    KILN_CXX void save() { detail::check(kiln_training_save(get())); }
    KILN_CXX void restore_best() { detail::check(kiln_training_restore_best(get())); }
    /// The best value of .monitor so far, and its step; nothing where there is none.
    KILN_CXX std::optional<std::pair<double, int64_t>> best() const
    {
        std::pair<double, int64_t> b;
        if (!detail::checked(kiln_training_best(get(), &b.first, &b.second))) return {};
        return b;
    }

    /// A number, now; a tensor of one element, when a row is made.
    KILN_CXX void log(const char *name, const tensor &x)
    {
        detail::check(kiln_training_log_tensor(get(), name, x.get()));
    }
    template <class T, detail::if_number<T> = 0> KILN_CXX void log(const char *name, T value)
    {
        detail::check(kiln_training_log(get(), name, static_cast<double>(value)));
    }
    /// With a weight in the mean.
    KILN_CXX void log_mean(const char *name, double mean, double weight)
    {
        detail::check(kiln_training_log_mean(get(), name, mean, weight));
    }
    /// Steps and values of the rows that have a name.
    KILN_CXX std::vector<std::pair<int64_t, double>> history(const char *name) const
    {
        const size_t n = detail::checked(kiln_training_history(get(), name, nullptr, nullptr, 0));
        std::vector<int64_t> steps(n);
        std::vector<double> values(n);
        kiln_training_history(get(), name, steps.data(), values.data(), n);
        std::vector<std::pair<int64_t, double>> rows;
        for (size_t i = 0; i < n; i++) rows.emplace_back(steps[i], values[i]);
        return rows;
    }
    KILN_CXX void save_curves(const std::string &path, const kiln_curves_opts &opts = {}) const
    {
        auto o = detail::with_size(opts);
        detail::check(kiln_training_save_curves(get(), path.c_str(), &o));
    }
};

/// A metric over batches.
class metric : public handle<kiln_metric, kiln_metric_free> {
  public:
    KILN_CXX explicit metric(const kiln_metric_opts &opts)
    {
        auto o = detail::with_size(opts);
        handle::operator=(handle(detail::made(kiln_metric_create(&o))));
    }
    KILN_CXX void update(const tensor &scores, const tensor &labels)
    {
        detail::check(kiln_metric_update(get(), scores.get(), labels.get()));
    }
    KILN_CXX double value(const char *what) const { return detail::checked(kiln_metric_value(get(), what)); }
    KILN_CXX tensor matrix() const { return detail::taken(kiln_metric_matrix(get())); }
    KILN_CXX void reset() { detail::check(kiln_metric_reset(get())); }
};

} // namespace kiln
#endif
