/// @file data.hpp
/// Scopes, generators and loaders for C++: what frees itself.
#ifndef KILN_DATA_HPP
#define KILN_DATA_HPP

#include <kiln/function.hpp>

#include <mutex>

namespace kiln {

/// A scope of C, for code between that makes handles of C; tensors of C++ are in none.
class scope {
  public:
    KILN_CXX scope() : s_(detail::made(kiln_scope_begin())) {}
    ~scope() { kiln_scope_end(&s_); }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

  private:
    kiln_scope *s_;
};

/// A generator of random numbers: kiln/random.h.
class generator : public handle<kiln_generator, kiln_generator_free> {
  public:
    using handle::handle;
    KILN_CXX explicit generator(uint64_t seed) : handle(detail::made(kiln_generator_new(seed))) {}
    KILN_CXX generator fork() { return generator(detail::made(kiln_generator_fork(get()))); }
    /// Seed and offset.
    KILN_CXX std::tuple<uint64_t, uint64_t> state() const
    {
        uint64_t seed = 0, offset = 0;
        detail::check(kiln_generator_state(get(), &seed, &offset));
        return {seed, offset};
    }
    KILN_CXX void set_state(uint64_t seed, uint64_t offset)
    {
        detail::check(kiln_generator_set_state(get(), seed, offset));
    }
};

/// This thread draws from a generator as long as this lives.
class use_generator {
  public:
    KILN_CXX explicit use_generator(const generator &g) : before_(kiln_use_generator(g.get()))
    {
        if (kiln_error() != KILN_OK) detail::raise();
    }
    ~use_generator() { kiln_use_generator(before_); }
    use_generator(const use_generator &) = delete;
    use_generator &operator=(const use_generator &) = delete;

  private:
    kiln_generator *before_;
};

/// Dtype and shape of one sample of a field.
struct field {
    kiln_dtype dtype;
    std::vector<int64_t> shape;
};

/// The k-th number of a sample, in [0, 1): kiln_sample_uniform.
KILN_CXX double sample_uniform(const kiln_sample &sample, uint64_t k)
{
    return detail::checked(kiln_sample_uniform(&sample, k));
}

/// Batches of samples: kiln/data.h. `while (loader.next()) train(loader[0], loader[1]);` is one epoch. It owns the
/// functions that it is given, which run on its threads; what they throw comes out of next().
class loader {
  public:
    KILN_CXX explicit loader(const tensors &fields = {}, const kiln_loader_opts &opts = {}, device_ref dev = {})
        : state_(new state), n_(fields.size())
    {
        auto o = detail::with_size(opts);
        state_->c = holder(detail::made(kiln_loader_create(dev.get(), fields.data(), n_, &o)));
    }
    kiln_loader *get() const { return state_->c.get(); }

    /// Fields behind those that there are. Data of the host, which must stay; see kiln_loader_add_host.
    KILN_CXX void add_host(kiln_dtype dtype, const ints &shape, const void *data)
    {
        detail::check(kiln_loader_add_host(get(), dtype, shape.size(), shape.data(), data));
        n_++;
    }
    /// A field of `shape[0]` samples, each made by `f(index, row, row_B)`.
    template <class F> KILN_CXX void add_fn(kiln_dtype dtype, const ints &shape, F f)
    {
        auto *own = state_->keep(std::move(f));
        detail::check(kiln_loader_add_fn(get(), dtype, shape.size(), shape.data(), own->sample, own));
        n_++;
    }
    /// Fields of `count` samples, each made by `f(index, rows)`.
    template <class F> KILN_CXX void add_dataset(int64_t count, const std::vector<field> &fields, F f)
    {
        std::vector<kiln_field_spec> specs;
        std::vector<const kiln_field_spec *> list;
        for (const field &each : fields) {
            auto spec = detail::sized<kiln_field_spec>();
            spec.dtype = each.dtype;
            spec.rank = each.shape.size();
            spec.dims = each.shape.data();
            specs.push_back(spec);
        }
        for (const kiln_field_spec &spec : specs) list.push_back(&spec);
        auto *own = state_->keep(std::move(f));
        detail::check(kiln_loader_add_dataset(get(), count, list.size(), list.data(), own->rows, own));
        n_ += list.size();
    }
    /// Two fields of a language model: windows, and the same moved by one.
    KILN_CXX void add_windows(const tensor &ids, int64_t length, int64_t stride = 0)
    {
        detail::check(kiln_loader_add_windows(get(), ids.get(), length, stride));
        n_ += 2;
    }
    KILN_CXX void convert(size_t field, kiln_dtype dtype, const kiln_convert_opts &opts = {})
    {
        auto o = detail::with_size(opts);
        detail::check(kiln_loader_convert(get(), field, dtype, &o));
    }
    /// `f(const kiln_sample &)` changes samples in place.
    template <class F> KILN_CXX void augment(F f)
    {
        auto *own = state_->keep(std::move(f));
        detail::check(kiln_loader_augment(get(), own->change, own));
    }
    KILN_CXX void random_crop(size_t field, int64_t padding, const kiln_image_opts &opts = {})
    {
        auto o = detail::with_size(opts);
        detail::check(kiln_loader_random_crop(get(), field, padding, &o));
    }
    KILN_CXX void random_flip(size_t field, const kiln_image_opts &opts = {})
    {
        auto o = detail::with_size(opts);
        detail::check(kiln_loader_random_flip(get(), field, &o));
    }
    KILN_CXX void cutout(size_t field, int64_t side, const kiln_image_opts &opts = {})
    {
        auto o = detail::with_size(opts);
        detail::check(kiln_loader_cutout(get(), field, side, &o));
    }
    KILN_CXX void jitter(size_t field, double brightness, double contrast, const kiln_image_opts &opts = {})
    {
        auto o = detail::with_size(opts);
        detail::check(kiln_loader_jitter(get(), field, brightness, contrast, &o));
    }
    KILN_CXX void normalise(size_t field, const std::vector<double> &mean, const std::vector<double> &std_dev,
                            const kiln_image_opts &opts = {})
    {
        auto o = detail::with_size(opts);
        if (mean.size() != std_dev.size())
            throw error(KILN_E_ARGUMENT, "loader::normalise: other numbers of means and deviations");
        detail::check(kiln_loader_normalise(get(), field, mean.size(), mean.data(), std_dev.data(), &o));
    }

    /// The next batch; false at the end of an epoch, behind which the next begins.
    KILN_CXX bool next()
    {
        bool more = false;
        detail::results out(n_);
        const kiln_status status = kiln_loader_next(get(), out.data(), n_, &more);
        if (status != KILN_OK) state_->throw_again();
        detail::check(status);
        batch_ = out.all();
        return more;
    }
    const tensor &operator[](size_t field) const { return batch_.at(field); }
    KILN_CXX int64_t samples() const { return detail::checked(kiln_loader_samples(get())); }
    KILN_CXX int64_t batches() const { return detail::checked(kiln_loader_batches(get())); }
    KILN_CXX kiln_loader_state position() const
    {
        auto s = detail::sized<kiln_loader_state>();
        detail::check(kiln_loader_get_state(get(), &s));
        return s;
    }
    KILN_CXX void set_position(const kiln_loader_state &s) { detail::check(kiln_loader_set_state(get(), &s)); }

  private:
    using holder = handle<kiln_loader, kiln_loader_free>;
    struct state;
    // A function of the user's in the forms of C; what it throws is kept for next().
    template <class F> struct function {
        F f;
        state *of;
        static kiln_status sample(void *user, int64_t index, void *row, size_t row_B)
        {
            auto *own = static_cast<function *>(user);
            return own->of->guard([&] { own->f(index, row, row_B); });
        }
        static kiln_status rows(void *user, int64_t index, void *const *rows, size_t)
        {
            auto *own = static_cast<function *>(user);
            return own->of->guard([&] { own->f(index, rows); });
        }
        static kiln_status change(void *user, const kiln_sample *sample)
        {
            auto *own = static_cast<function *>(user);
            return own->of->guard([&] { own->f(*sample); });
        }
    };
    struct state {
        std::mutex lock;
        std::exception_ptr error;
        std::vector<std::shared_ptr<void>> functions;
        holder c; // goes first, and its threads with it

        template <class F> function<F> *keep(F f)
        {
            auto own = std::make_shared<function<F>>(function<F>{std::move(f), this});
            functions.push_back(own);
            return own.get();
        }
        template <class Call> kiln_status guard(Call call) noexcept
        {
            try {
                call();
                return KILN_OK;
            } catch (...) {
                const std::lock_guard<std::mutex> held(lock);
                if (!error) error = std::current_exception();
                return KILN_E_STATE;
            }
        }
        void throw_again()
        {
            std::exception_ptr e;
            {
                const std::lock_guard<std::mutex> held(lock);
                std::swap(e, error);
            }
            if (!e) return;
            kiln_error_clear();
            std::rethrow_exception(e);
        }
    };
    std::unique_ptr<state> state_;
    size_t n_;
    std::vector<tensor> batch_;
};

} // namespace kiln
#endif
