/// @file nn.hpp
/// Cells for C++: kiln/nn.h. Layers are in kiln/layers.hpp, optimisers in kiln/optim.hpp.
///
/// A kiln::cell frees what it holds, and is moved into the one that takes it. A kiln::cell_ref is one that somebody
/// else owns. Both have the same functions. Options are the structs of C, `{.no_bias = true}` in C++20; their size is
/// set here.
#ifndef KILN_NN_HPP
#define KILN_NN_HPP

#include <kiln/files.hpp>

#include <kiln/function.hpp>

namespace kiln {

class cell;
class cell_ref;

/// How cell::load reads a file; see kiln_cell_load_opts.
struct load_opts {
    std::string prefix;   ///< before each name in the file ("model."); others are passed over
    bool partial = false; ///< what the file lacks stays as it is, and what the cell lacks is passed over
    std::function<std::string(const std::string &)> rename = {}; ///< a name in the cell; "": it is passed over
    std::function<void(kiln_load_problem, const std::string &name, const std::string &message)> report = {};
};

namespace detail {

struct reporting {
    const load_opts &o;
    renaming name;
    static const char *rename(void *user, const char *name)
    {
        return renaming::run(&static_cast<reporting *>(user)->name, name);
    }
    static void report(void *user, kiln_load_problem problem, const char *name, const char *message)
    {
        auto *r = static_cast<reporting *>(user);
        r->name.error.keep([&] { r->o.report(problem, name, message); });
    }
};

// Puts what a hook left in a list in the place of what was there.
inline void replace(kiln_tensor **t, size_t n, const tensor_list &before, const tensor_list &now)
{
    if (now.size() != n) throw error(KILN_E_ARGUMENT, "a hook changed the number of tensors");
    for (size_t i = 0; i < n; i++)
        if (now[i].get() != before[i].get()) t[i] = made(kiln_alias(now[i].get()));
}

// A hook of a cell, in each of the forms of C.
template <class F> struct cell_hook {
    explicit cell_hook(F made) : f(std::move(made)) {}
    F f;
    static kiln_status before(void *user, kiln_cell *c, kiln_tensor **in, size_t n_in);
    static kiln_status behind(void *user, kiln_cell *c, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                              size_t n_out);
    static kiln_tensor *gradient(void *user, kiln_cell *c, size_t index, kiln_tensor *grad);
};

// The functions of cells, owned or not.
template <class Self> class cell_functions {
  public:
    KILN_CXX tensor operator()(const tensor &x) const { return taken(kiln_cell_call(c(), x.get())); }
    /// With N outputs: `auto [y, h, c] = lstm.call<3>(x, h, c)`.
    template <size_t N, class... A> KILN_CXX auto call(const A &...a) const
    {
        tensors in = listed(a...);
        results out(N);
        check(kiln_cell_call_n(c(), in.data(), in.size(), out.data(), N));
        return out.template as_tuple<N>();
    }
    /// With several inputs and one output.
    template <class... A, std::enable_if_t<(sizeof...(A) > 1), int> = 0> KILN_CXX tensor operator()(const A &...a) const
    {
        return std::get<0>(call<1>(a...));
    }

    KILN_CXX std::vector<tensor> parameters() const
    {
        std::vector<kiln_tensor *> v(kiln_cell_parameters(c(), nullptr, 0));
        kiln_cell_parameters(c(), v.data(), v.size());
        if (kiln_error() != KILN_OK) raise();
        return shared(v.data(), v.size());
    }
    KILN_CXX tensor parameter(const char *path) const { return tensor::share(made(kiln_cell_parameter(c(), path))); }
    KILN_CXX int64_t parameter_count() const { return checked(kiln_cell_parameter_count(c())); }
    KILN_CXX cell_ref child(const char *path) const;
    /// What a checkpoint must hold: parameters and buffers by their names.
    KILN_CXX named_tensors state() const { return named<kiln_cell_state>(c()); }
    KILN_CXX void restore(const checkpoint &from) const { check(kiln_cell_restore(c(), from.get())); }
    /// As safetensors, which load reads.
    KILN_CXX void save(const std::string &path) const { check(kiln_cell_save(c(), path.c_str())); }
    KILN_CXX void load(archive &from, const load_opts &opts = {}) const
    {
        reporting r = {opts, {opts.rename, {}, {}}};
        auto o = sized<kiln_cell_load_opts>();
        o.prefix = opts.prefix.empty() ? nullptr : opts.prefix.c_str();
        o.partial = opts.partial;
        o.rename = opts.rename ? reporting::rename : nullptr;
        o.report = opts.report ? reporting::report : nullptr;
        o.user = &r;
        kiln_status status = kiln_cell_load(c(), from.get(), &o);
        r.name.error.again();
        check(status);
    }

    KILN_CXX const Self &train(bool on = true) const
    {
        check(kiln_cell_set_training(c(), on));
        return self();
    }
    KILN_CXX const Self &eval() const { return train(false); }
    KILN_CXX bool is_training() const { return checked(kiln_cell_is_training(c())); }
    /// Freezes (false) or thaws all parameters.
    KILN_CXX const Self &requires_grad(bool on = true) const
    {
        check(kiln_cell_set_requires_grad(c(), on));
        return self();
    }
    KILN_CXX const Self &to(device_ref dev) const
    {
        check(kiln_cell_to_device(c(), dev.get()));
        return self();
    }
    KILN_CXX const Self &jit(const kiln_jit_opts &opts = {}) const
    {
        auto o = with_size(opts);
        check(kiln_cell_jit(c(), &o));
        return self();
    }
    /// The captured function of a cell with a mark, borrowed; nullptr where there is none.
    KILN_CXX kiln_function *function() const { return checked(kiln_cell_function(c())); }
    /// Of that function: calls, captures, programs and what else kiln_function_stats counts.
    KILN_CXX kiln_jit_stats stats() const
    {
        auto s = sized<kiln_jit_stats>();
        kiln_function_stats(made(kiln_cell_function(c())), &s);
        return checked(s);
    }
    KILN_CXX std::string kind() const { return made(kiln_cell_kind(c())); }
    KILN_CXX std::string name() const { return made(kiln_cell_name(c())); }
    KILN_CXX void print(FILE *file = stdout) const
    {
        kiln_cell_print(c(), file);
        if (kiln_error() != KILN_OK) raise();
    }

    /// What a call with these inputs does, cell by cell: kiln_cell_summary.
    template <class... A> KILN_CXX void summary(FILE *file, const A &...a) const
    {
        const tensors in = listed(a...);
        check(kiln_cell_summary_n(c(), in.data(), in.size(), 1, file));
    }

    KILN_CXX tensor add_parameter(const char *name, const tensor &init) const
    {
        return tensor::share(made(kiln_cell_add_parameter(c(), name, init.get())));
    }
    /// Filled by an initialiser: kiln_initializer.
    KILN_CXX tensor make_parameter(const char *name, const ints &shape, const char *init, kiln_dtype dtype = KILN_F32,
                                   device_ref dev = {}) const
    {
        return tensor::share(
            made(kiln_cell_make_parameter(c(), name, dev.get(), dtype, shape.size(), shape.data(), init)));
    }
    KILN_CXX tensor add_buffer(const char *name, const tensor &t) const
    {
        return tensor::share(made(kiln_cell_add_buffer(c(), name, t.get())));
    }
    KILN_CXX cell_ref add_child(const char *name, cell child) const;
    /// To a sequential one.
    KILN_CXX const Self &append(cell child) const;
    /// Hooks, see kiln/nn.h. `f(self, in)` before the call, which may put others into `in`, a std::vector<tensor> &.
    template <class F> KILN_CXX hook register_forward_pre_hook(F f) const
    {
        return hold<kiln_cell_register_forward_pre_hook>(std::make_shared<cell_hook<F>>(std::move(f)),
                                                         cell_hook<F>::before);
    }
    /// `f(self, in, out)` behind it, which may put others into `out`.
    template <class F> KILN_CXX hook register_forward_hook(F f) const
    {
        return hold<kiln_cell_register_forward_hook>(std::make_shared<cell_hook<F>>(std::move(f)),
                                                     cell_hook<F>::behind);
    }
    /// `f(self, index, grad)` with the gradients by outputs; it may give another.
    template <class F> KILN_CXX hook register_backward_pre_hook(F f) const
    {
        return hold<kiln_cell_register_backward_pre_hook>(std::make_shared<cell_hook<F>>(std::move(f)),
                                                          cell_hook<F>::gradient);
    }
    /// The same with those by inputs.
    template <class F> KILN_CXX hook register_backward_hook(F f) const
    {
        return hold<kiln_cell_register_backward_hook>(std::make_shared<cell_hook<F>>(std::move(f)),
                                                      cell_hook<F>::gradient);
    }
    KILN_CXX const Self &weight_norm(const char *name = "weight", int64_t axis = 0) const
    {
        check(kiln_cell_weight_norm(c(), name, axis));
        return self();
    }
    KILN_CXX const Self &spectral_norm(const char *name = "weight", int64_t axis = 0, int64_t iterations = 1) const
    {
        check(kiln_cell_spectral_norm(c(), name, axis, iterations));
        return self();
    }

  private:
    kiln_cell *c() const { return static_cast<const Self *>(this)->get(); }
    const Self &self() const { return *static_cast<const Self *>(this); }
    template <auto Register, class Held, class Run> KILN_CXX hook hold(std::shared_ptr<Held> held, Run run) const
    {
        kiln_cell *cell = c();
        const uint64_t id = checked(Register(cell, run, held.get()));
        return hook(held, [cell, id] { return undone([&] { return kiln_cell_remove_hook(cell, id); }); });
    }
};

} // namespace detail

/// A cell that somebody else owns.
class cell_ref : public detail::cell_functions<cell_ref> {
  public:
    cell_ref(kiln_cell *c) : c_(c) {}
    kiln_cell *get() const { return c_; }

  private:
    kiln_cell *c_;
};

namespace detail {

template <class F> kiln_status cell_hook<F>::before(void *user, kiln_cell *c, kiln_tensor **in, size_t n_in)
{
    const tensor_list given = shared(in, n_in);
    tensor_list now = given;
    static_cast<cell_hook *>(user)->f(cell_ref(c), now);
    replace(in, n_in, given, now);
    return KILN_OK;
}
template <class F>
kiln_status cell_hook<F>::behind(void *user, kiln_cell *c, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                                 size_t n_out)
{
    const tensor_list given = shared(out, n_out), inputs = shared(in, n_in);
    tensor_list now = given;
    static_cast<cell_hook *>(user)->f(cell_ref(c), inputs, now);
    replace(out, n_out, given, now);
    return KILN_OK;
}
template <class F> kiln_tensor *cell_hook<F>::gradient(void *user, kiln_cell *c, size_t index, kiln_tensor *grad)
{
    return hooked(static_cast<cell_hook *>(user)->f, cell_ref(c), index, tensor::share(grad));
}

} // namespace detail

/// A cell. It is moved into the one that takes it, and frees what it holds.
class cell : public handle<kiln_cell, kiln_cell_free>, public detail::cell_functions<cell> {
  public:
    using handle::handle;
    /// Takes over a handle of C, or throws the error why there is none.
    KILN_CXX static cell adopt(kiln_cell *c) { return cell(detail::made(c)); }
    /// A cell of a function, which it owns: `f(self, x, …)` gets a cell_ref and tensors, and gives as those of jit do.
    template <class F> KILN_CXX static cell make(const char *kind, F f);
    operator cell_ref() const { return cell_ref(get()); }
};

namespace detail {

template <class Self> KILN_CXX cell_ref cell_functions<Self>::child(const char *path) const
{
    return cell_ref(made(kiln_cell_child(c(), path)));
}
template <class Self> KILN_CXX cell_ref cell_functions<Self>::add_child(const char *name, cell child) const
{
    return cell_ref(made(kiln_cell_add_child(c(), name, child.release())));
}
template <class Self> KILN_CXX const Self &cell_functions<Self>::append(cell child) const
{
    check(kiln_sequential_append(c(), child.release()));
    return self();
}

inline void add_parameters(std::vector<tensor> &all, const cell &c)
{
    for (tensor &p : c.parameters()) all.push_back(std::move(p));
}
inline void add_parameters(std::vector<tensor> &all, const tensor &p)
{
    all.push_back(p);
}

// A function with the cell as its first argument.
template <class F> struct with_self {
    F &f;
    cell_ref self;
    template <class... A> auto operator()(const A &...a) -> decltype(f(self, a...)) { return f(self, a...); }
};

// What a cell of a function owns.
template <class F> struct construct {
    F f;
    static kiln_status run(kiln_cell *c, void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out,
                           size_t n_out)
    {
        auto *own = static_cast<construct *>(user);
        with_self<F> f = {own->f, c};
        call_any(f, shared(in, n_in), out, n_out);
        return KILN_OK;
    }
    static void drop(void *user) { delete static_cast<construct *>(user); }
};

} // namespace detail

template <class F> KILN_CXX cell cell::make(const char *kind, F f)
{
    using own = detail::construct<F>;
    auto o = detail::sized<kiln_cell_opts>();
    o.kind = kind;
    o.construct = own::run;
    o.user = new own{std::move(f)};
    o.user_free = own::drop;
    return adopt(kiln_cell_create(&o));
}

/// The parameters of cells, and single ones.
template <class... C> KILN_CXX std::vector<tensor> parameters(const C &...cells)
{
    std::vector<tensor> all;
    (detail::add_parameters(all, cells), ...);
    return all;
}

/// A new tensor, filled as a text says: kiln_initializer.
KILN_CXX tensor initializer(const ints &shape, const char *init, kiln_dtype dtype = KILN_F32, device_ref dev = {})
{
    return detail::taken(kiln_initializer(dev.get(), dtype, shape.size(), shape.data(), init));
}

} // namespace kiln
#endif
