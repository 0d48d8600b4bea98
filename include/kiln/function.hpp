/// @file function.hpp
/// Lambdas as functions of the library: captured functions, gradients, hooks.
///
/// A function takes tensors or other trees (kiln/tree.hpp) and gives a tree or nothing: tensors, lists of them, structs
/// that name their members. What it throws comes out of the call that ran it.
#ifndef KILN_FUNCTION_HPP
#define KILN_FUNCTION_HPP

#include <kiln/tree.hpp>

#include <functional>

namespace kiln {
namespace detail {

// --- what a function takes and gives

// A number stands for a tensor.
template <class A>
using argument = std::conditional_t<std::is_arithmetic<std::decay_t<A>>::value, tensor, std::decay_t<A>>;
// What F gives for arguments A.
template <class F, class... A> using result_of = std::decay_t<std::invoke_result_t<F &, const argument<A> &...>>;

// Arguments and result of a function that is no template.
template <class F, class = void> struct signature {
    static constexpr bool known = false;
};
template <class R, class... A> struct signature<R (*)(A...)> {
    static constexpr bool known = true;
    using arguments = std::tuple<std::decay_t<A>...>;
    using result = std::decay_t<R>;
};
template <class C, class R, class... A> struct signature<R (C::*)(A...)> : signature<R (*)(A...)> {
};
template <class C, class R, class... A> struct signature<R (C::*)(A...) const> : signature<R (*)(A...)> {
};
template <class C, class R, class... A> struct signature<R (C::*)(A...) noexcept> : signature<R (*)(A...)> {
};
template <class C, class R, class... A> struct signature<R (C::*)(A...) const noexcept> : signature<R (*)(A...)> {
};
template <class F> struct signature<F, std::void_t<decltype(&F::operator())>> : signature<decltype(&F::operator())> {
};

// Whether tensors alone go in, and so many as the type says come out.
template <class R> struct gives_tensors : std::bool_constant<std::is_void<R>::value || is_tensor<R>> {
};
template <class... T> struct gives_tensors<std::tuple<T...>> : std::bool_constant<(is_tensor<T> && ...)> {
};
template <class A, class B> struct gives_tensors<std::pair<A, B>> : std::bool_constant<is_tensor<A> && is_tensor<B>> {
};
template <class A> struct takes_tensors;
template <class... A> struct takes_tensors<std::tuple<A...>> {
    static constexpr bool value = (is_tensor<A> && ...);
};
// Functions that are templates have to be so.
template <class F> constexpr bool is_of_tensors()
{
    if constexpr (signature<F>::known)
        return takes_tensors<typename signature<F>::arguments>::value &&
               gives_tensors<typename signature<F>::result>::value;
    return true;
}

template <class R> constexpr size_t count_of()
{
    static_assert(fixed_count<R>() >= 0, "what a function gives here has as many tensors as its type says");
    return static_cast<size_t>(fixed_count<R>());
}

// --- tensors in and out

enum { MOST_ARGUMENTS = 8 };
template <size_t> using any_tensor = tensor;
template <class F, class I> struct takes;
template <class F, size_t... I> struct takes<F, std::index_sequence<I...>> {
    static constexpr bool value = std::is_invocable<F &, const any_tensor<I> &...>::value;
};
template <class F, size_t N> constexpr bool takes_n = takes<F, std::make_index_sequence<N>>::value;
template <class F> constexpr bool takes_list = std::is_invocable<F &, const tensor_list &>::value;

template <class F, size_t... I> decltype(auto) call_with(F &f, const tensor_list &in, std::index_sequence<I...>)
{
    (void)in;
    return f(in[I]...);
}

// Hands tensors on: the library takes handles of the scope around the function.
template <class R> void give(kiln_tensor **out, size_t n_out, const R &r)
{
    const tensor_list given = tensors_of(r);
    if (given.size() > n_out)
        throw error(KILN_E_ARGUMENT, "a function gave " + std::to_string(given.size()) + " tensors, " +
                                         std::to_string(n_out) + " are taken");
    for (size_t i = 0; i < given.size(); i++) out[i] = made(kiln_alias(given[i].get()));
}
template <class Call> void run_and_give(kiln_tensor **out, size_t n_out, const Call &call)
{
    if constexpr (std::is_void<decltype(call())>::value)
        call();
    else
        give(out, n_out, call());
}

template <class F, size_t N = 0> void call_any(F &f, const tensor_list &in, kiln_tensor **out, size_t n_out)
{
    if constexpr (takes_list<F>) {
        run_and_give(out, n_out, [&] { return f(in); });
    } else if constexpr (N <= MOST_ARGUMENTS) {
        if constexpr (takes_n<F, N>) {
            if (in.size() == N)
                return run_and_give(out, n_out, [&] { return call_with(f, in, std::make_index_sequence<N>()); });
        }
        call_any<F, N + 1>(f, in, out, n_out);
    } else {
        throw error(KILN_E_ARGUMENT, "a function does not take " + std::to_string(in.size()) + " tensors");
    }
}

inline tensor_list shared(kiln_tensor *const *in, size_t n)
{
    tensor_list v;
    for (size_t i = 0; i < n; i++) v.push_back(in[i] ? tensor::share(in[i]) : tensor());
    return v;
}

// A kiln_fn whose `user` is an F.
template <class F>
kiln_status call_function(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
{
    call_any(*static_cast<F *>(user), shared(in, n_in), out, n_out);
    return KILN_OK;
}

// A kiln_fn whose `user` is one: a function of trees, which are as those of a call but for their tensors.
template <class F, class... A> struct on_trees {
    F &f;
    std::tuple<argument<A>...> like;
    on_trees(F &of, const A &...a) : f(of), like(a...) {}
    static kiln_status run(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
    {
        auto *own = static_cast<on_trees *>(user);
        auto now = own->like;
        size_t at = 0;
        replace_tensors(now, shared(in, n_in), at);
        run_and_give(out, n_out, [&] { return std::apply(own->f, std::as_const(now)); });
        return KILN_OK;
    }
};

// What a function gives, of its tensors; `like` is a value of another number of tensors than the type says.
template <class R> R result(const tensor_list &from, size_t at = 0)
{
    if constexpr (!std::is_void<R>::value) {
        R r{};
        place(r, from, at);
        return r;
    }
}

template <class... A> tensors listed(const A &...a)
{
    return tensors(tensors_of(argument<A>(a)...));
}

// --- bundles in and out

// A kiln_bundle_fn whose `user` is an F, with arguments A.
template <class F, class A> struct on_bundles;
template <class F, class... A> struct on_bundles<F, std::tuple<A...>> {
    template <size_t... I> static std::tuple<A...> read_all(const bundle &b, std::index_sequence<I...>)
    {
        (void)b;
        return {entry<A>(b, static_cast<int64_t>(I))...};
    }
    static kiln_status run(void *user, kiln_bundle *in, kiln_bundle **out)
    {
        auto &f = *static_cast<F *>(user);
        const std::tuple<A...> now = read_all(bundle::share(in), std::index_sequence_for<A...>());
        if constexpr (std::is_void<std::invoke_result_t<F &, const A &...>>::value) {
            std::apply(f, now);
        } else {
            bundle given;
            append(given, "", std::apply(f, now));
            *out = made(kiln_bundle_alias(given.get()));
        }
        return KILN_OK;
    }
};

// The name of a function in messages: where the program made it.
inline std::string name_at(const char *file, int line)
{
    const char *name = file;
    for (const char *c = file; *c; c++)
        if (*c == '/') name = c + 1;
    return "the function at " + std::string(name) + ":" + std::to_string(line);
}

// Arguments of a function that is no template, so that lists in braces may be given; void of one that is.
template <class F, bool Known = signature<F>::known> struct arguments_of {
    using type = void;
};
template <class F> struct arguments_of<F, true> {
    using type = typename signature<F>::arguments;
};
template <class Self, class F, class Arguments> struct calls {
    template <class... A> KILN_CXX auto operator()(const A &...a)
    {
        return static_cast<Self *>(this)->template call<result_of<F, A...>>(a...);
    }
};
template <class Self, class F, class... A> struct calls<Self, F, std::tuple<A...>> {
    KILN_CXX auto operator()(const A &...a)
    {
        return static_cast<Self *>(this)->template call<typename signature<F>::result>(a...);
    }
};

} // namespace detail

/// What jit makes: called as the function is. It is moved, not copied; std::ref(f) stands for it elsewhere.
template <class F> class jitted : public detail::calls<jitted<F>, F, typename detail::arguments_of<F>::type> {
    static constexpr bool of_tensors = detail::is_of_tensors<F>();
    template <class, class, class> friend struct detail::calls;

  public:
    KILN_CXX jitted(F f, const kiln_jit_opts &opts, const std::string &name) : f_(new F(std::move(f)))
    {
        auto o = detail::with_size(opts);
        if (!o.name) o.name = name.c_str();
        if constexpr (of_tensors)
            fn_ = holder(detail::made(kiln_jit(detail::call_function<F>, f_.get(), &o)));
        else
            fn_ = holder(detail::made(
                kiln_bundle_jit(detail::on_bundles<F, typename detail::signature<F>::arguments>::run, f_.get(), &o)));
    }
    kiln_function *get() const { return fn_.get(); } ///< borrowed
    KILN_CXX kiln_jit_stats stats() const
    {
        auto s = detail::sized<kiln_jit_stats>();
        kiln_function_stats(fn_.get(), &s);
        return detail::checked(s);
    }
    /// What the program that ran last costs.
    KILN_CXX kiln_cost cost() const
    {
        auto c = detail::sized<kiln_cost>();
        detail::check(kiln_function_cost(fn_.get(), &c));
        return c;
    }
    /// Compiles it for tensors as these, without a run.
    template <class... A> KILN_CXX kiln_cost compile(const A &...a)
    {
        const tensors in = detail::listed(a...);
        std::vector<kiln_type> types;
        for (const tensor &t : in.all()) types.push_back({t.dtype(), t.rank(), kiln_dims(t.get())});
        const kiln_types list = {types.size(), types.data()};
        auto c = detail::sized<kiln_cost>();
        detail::check(kiln_function_compile(fn_.get(), &list, detail::count_of<detail::result_of<F, A...>>(), &c));
        return c;
    }
    /// What was captured and why; a summary, or at a level of kiln/explain.h.
    KILN_CXX void explain(FILE *file = stderr, kiln_explain_level level = KILN_EXPLAIN_SUMMARY) const
    {
        auto o = detail::sized<kiln_explain_opts>();
        o.level = level;
        detail::check(kiln_explain_with(fn_.get(), file, &o));
    }

  private:
    template <class R, class... A> KILN_CXX R call(const A &...a)
    {
        if constexpr (of_tensors) {
            static_assert(detail::gives_tensors<R>::value, "a function that is a template takes and gives tensors");
            const tensors in = detail::listed(a...);
            detail::results out(detail::count_of<R>());
            detail::check(kiln_call(fn_.get(), in.data(), in.size(), out.data(), out.size()));
            return detail::result<R>(out.all());
        } else {
            bundle b;
            kiln_bundle *out = nullptr;
            (detail::append(b, "", a), ...);
            detail::check(kiln_bundle_call(fn_.get(), b.get(), std::is_void<R>::value ? nullptr : &out));
            if constexpr (!std::is_void<R>::value) return detail::entry<R>(bundle::adopt(detail::made(out)), 0);
        }
    }

    using holder = handle<kiln_function, kiln_function_free>;
    std::unique_ptr<F> f_; // freed behind the function
    holder fn_;
};

/// A captured function: kiln_jit. `jit([&](const tensor &x, const tensor &y) { … })`. Messages name it by the line of
/// this call, unless the options have a name. Of arguments that are no tensors alone it is a function of bundles: what
/// is no tensor in them, as numbers, is what a program is made for.
template <class F>
KILN_CXX jitted<std::decay_t<F>> jit(F &&f, const kiln_jit_opts &opts = {}, const char *file = __builtin_FILE(),
                                     int line = __builtin_LINE())
{
    return jitted<std::decay_t<F>>(std::forward<F>(f), opts, detail::name_at(file, line));
}

namespace detail {

template <class R> constexpr bool has_aux = fixed_count<R>() > 1;

// Gradients of f at `in`, behind its results where `with_value`.
template <class R>
KILN_CXX void differentiate(kiln_fn f, void *user, const tensors &in, const ints &wrt, bool create_graph,
                            bool with_value, results &out)
{
    auto o = sized<kiln_grad_opts>();
    o.wrt = wrt.list();
    o.outputs = count_of<R>();
    o.has_aux = has_aux<R>;
    o.create_graph = create_graph;
    check(with_value ? kiln_value_and_grad(f, user, in.data(), in.size(), &o, out.data(), out.size())
                     : kiln_grad(f, user, in.data(), in.size(), &o, out.data(), out.size()));
}

} // namespace detail

/// What grad and value_and_grad make: called as the function is.
template <class F, bool WithValue, bool One>
class differentiated
    : public detail::calls<differentiated<F, WithValue, One>, F, typename detail::arguments_of<F>::type> {
    template <class, class, class> friend struct detail::calls;

  public:
    differentiated(F f, ints wrt, bool create_graph)
        : f_(std::move(f)), wrt_(std::move(wrt)), create_graph_(create_graph)
    {
    }

  private:
    template <class R, class... A> KILN_CXX auto call(const A &...a)
    {
        constexpr size_t n = detail::count_of<R>();
        static_assert(n > 0, "a function that gives a tensor");
        using arguments = std::tuple<detail::argument<A>...>;
        using first = std::tuple_element_t<0, arguments>;
        static_assert(One || detail::takes_tensors<arguments>::value, "by several arguments: tensors");
        detail::on_trees<F, A...> f(f_, a...);
        ints wrt = wrt_;
        if (One) wrt = up_to(detail::count_tensors(std::get<0>(f.like)));
        const tensors in = detail::listed(a...);
        const size_t at = WithValue ? n : 0;
        detail::results out(at + wrt.size() + (WithValue ? 0 : n - 1));
        detail::differentiate<R>(f.run, &f, in, wrt, create_graph_, WithValue, out);
        const std::vector<tensor> all = out.all();
        if constexpr (One) {
            first grads = std::get<0>(f.like);
            size_t next = at;
            detail::replace_tensors(grads, all, next);
            if constexpr (WithValue)
                return std::make_tuple(detail::result<R>(all), std::move(grads));
            else
                return grads;
        } else {
            using list = std::vector<tensor>::difference_type;
            std::vector<tensor> grads(all.begin() + static_cast<list>(at),
                                      all.begin() + static_cast<list>(at + wrt.size()));
            if constexpr (WithValue)
                return std::make_tuple(detail::result<R>(all), std::move(grads));
            else
                return grads;
        }
    }

    static ints up_to(size_t n)
    {
        std::vector<int64_t> v;
        for (size_t i = 0; i < n; i++) v.push_back(static_cast<int64_t>(i));
        return ints(std::move(v));
    }
    F f_;
    ints wrt_;
    bool create_graph_;
};

/// The gradient of a function by its first argument: `grad(f)(x)`, of the form that the argument has. Of several
/// tensors that it gives the first is differentiated.
template <class F> auto grad(F f, bool create_graph = false)
{
    return differentiated<F, false, true>(std::move(f), {}, create_graph);
}
/// By the arguments of these numbers: a std::vector of gradients.
template <class F> auto grad(F f, std::initializer_list<int64_t> wrt, bool create_graph = false)
{
    return differentiated<F, false, false>(std::move(f), ints(wrt), create_graph);
}
/// A std::tuple of what the function gives and the gradient by its first argument.
template <class F> auto value_and_grad(F f, bool create_graph = false)
{
    return differentiated<F, true, true>(std::move(f), {}, create_graph);
}
/// A std::tuple of what the function gives and a std::vector of gradients.
template <class F> auto value_and_grad(F f, std::initializer_list<int64_t> wrt, bool create_graph = false)
{
    return differentiated<F, true, false>(std::move(f), ints(wrt), create_graph);
}

/// The gradient of `out` by a tensor that it was made of, as the tape has it: kiln_gradients.
KILN_CXX tensor gradient(const tensor &out, const tensor &by, bool create_graph = false)
{
    auto o = detail::sized<kiln_gradients_opts>();
    kiln_tensor *wrt = by.get(), *g = nullptr;
    o.create_graph = create_graph;
    detail::check(kiln_gradients(out.get(), &wrt, 1, &o, &g));
    return tensor::adopt(g);
}
KILN_CXX std::vector<tensor> gradients(const tensor &out, const tensors &by, bool create_graph = false)
{
    auto o = detail::sized<kiln_gradients_opts>();
    detail::results grads(by.size());
    o.create_graph = create_graph;
    detail::check(kiln_gradients(out.get(), by.data(), by.size(), &o, grads.data()));
    return grads.all();
}
/// Compares the gradients of a function with central differences; see kiln_gradcheck.
template <class F, class... A> KILN_CXX void gradcheck(F f, const kiln_gradcheck_opts &opts, const A &...a)
{
    auto o = detail::with_size(opts);
    detail::on_trees<F, A...> own(f, a...);
    const tensors in = detail::listed(a...);
    detail::check(kiln_gradcheck(own.run, &own, in.data(), in.size(), &o));
}

/// No tape on this thread as long as this lives.
class no_grad {
  public:
    no_grad() { kiln_no_grad_begin(); }
    ~no_grad() { kiln_no_grad_end(); }
    no_grad(const no_grad &) = delete;
    no_grad &operator=(const no_grad &) = delete;
};

/// No captures on this thread as long as this lives: kiln_no_capture_begin.
class no_capture {
  public:
    KILN_CXX no_capture() { detail::check(kiln_no_capture_begin()); }
    ~no_capture() { kiln_no_capture_end(); }
    no_capture(const no_capture &) = delete;
    no_capture &operator=(const no_capture &) = delete;
};

/// A number that programs take at run time; see kiln_mutable.
template <class T, detail::if_number<T> = 0> KILN_CXX tensor mutable_number(T v)
{
    return detail::taken(std::is_same<T, bool>::value       ? kiln_mutable_bool(v != T())
                         : std::is_floating_point<T>::value ? kiln_mutable(static_cast<double>(v))
                                                            : kiln_mutable_int(static_cast<int64_t>(v)));
}
/// The value that t has, for a captured function to keep.
KILN_CXX tensor constant(const tensor &t)
{
    return detail::taken(kiln_constant(t.get()));
}

/// A number that captured functions ask the host for at each call, as a learning rate. It outlives them.
///
///     kiln::host_number rate([&] { return lr; });
///     auto step = kiln::jit([&](const kiln::tensor &x) { return x * rate.get(); });
class host_number {
  public:
    template <class F> explicit host_number(F f) : f_(new std::function<double()>(std::move(f))) {}
    KILN_CXX tensor get() const { return detail::taken(kiln_host_number(call, f_.get())); }

  private:
    static double call(void *f) { return (*static_cast<std::function<double()> *>(f))(); }
    std::unique_ptr<std::function<double()>> f_;
};

/// A function that is called when something happens; it is called no more when this goes. It is moved, not copied.
class [[nodiscard]] hook {
  public:
    hook() = default;
    /// `remove` is called once, and says whether `held`, the function, is not called any more.
    hook(std::shared_ptr<void> held, std::function<bool()> remove) : held_(std::move(held)), remove_(std::move(remove))
    {
    }
    hook(hook &&o) noexcept : held_(std::move(o.held_)), remove_(std::exchange(o.remove_, nullptr)) {}
    hook &operator=(hook &&o) noexcept
    {
        if (this != &o) {
            remove();
            held_ = std::move(o.held_);
            remove_ = std::exchange(o.remove_, nullptr);
        }
        return *this;
    }
    ~hook() { remove(); }
    void remove()
    {
        if (remove_ && !std::exchange(remove_, nullptr)()) new std::shared_ptr<void>(std::move(held_)); // still called
        held_ = nullptr;
    }

  private:
    std::shared_ptr<void> held_;
    std::function<bool()> remove_;
};

namespace detail {

// Calls a hook that may give another gradient in the place of its last argument.
template <class F, class... A> kiln_tensor *hooked(F &f, const A &...a)
{
    if constexpr (std::is_void<decltype(f(a...))>::value) {
        f(a...);
        return nullptr;
    } else {
        tensor other = f(a...);
        return other.defined() ? made(kiln_alias(other.get())) : nullptr;
    }
}
template <class F> kiln_tensor *call_hook(void *user, kiln_tensor *grad)
{
    return hooked(*static_cast<F *>(user), tensor::share(grad));
}

// Undoes something without a trace in the error state; false where that failed.
template <class F> bool undone(F undo)
{
    if (kiln_error() != KILN_OK) return false;
    const kiln_status status = undo();
    kiln_error_clear();
    return status == KILN_OK || status == KILN_E_HANDLE;
}

} // namespace detail

/// Calls `f(grad)` when the gradient of a tensor is known; it may give another in its place. As long as the hook lives.
template <class F> KILN_CXX hook register_hook(const tensor &t, F f)
{
    auto held = std::make_shared<F>(std::move(f));
    const uint64_t id = detail::checked(kiln_register_hook(t.get(), detail::call_hook<F>, held.get()));
    return hook(held, [t, id] { return detail::undone([&] { return kiln_remove_hook(t.get(), id); }); });
}

} // namespace kiln
#endif
