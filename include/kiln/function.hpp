/// @file function.hpp
/// Lambdas as functions of the library: gradients, captured functions.
///
/// A function takes tensors, up to eight, or one std::vector<tensor>; it gives a tensor, a std::tuple of tensors, a
/// std::vector<tensor> or nothing. What it throws comes out of the call that ran it.
#ifndef KILN_FUNCTION_HPP
#define KILN_FUNCTION_HPP

#include <kiln/tensor.hpp>

#include <functional>

namespace kiln {
namespace detail {

using tensor_list = std::vector<tensor>;
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

template <class T> struct count_of;
template <> struct count_of<void> {
    static constexpr size_t value = 0;
};
template <> struct count_of<tensor> {
    static constexpr size_t value = 1;
};
template <class... T> struct count_of<std::tuple<T...>> {
    static constexpr size_t value = sizeof...(T);
};
template <class A, class B> struct count_of<std::pair<A, B>> {
    static constexpr size_t value = 2;
};

// Hands a tensor on: the library takes handles of the scope around the function.
inline void give_one(kiln_tensor **out, size_t n_out, size_t i, const tensor &t)
{
    if (i >= n_out) throw error(KILN_E_ARGUMENT, "a function gave more tensors than are taken");
    if (t.defined()) out[i] = made(kiln_alias(t.get()));
}
inline void give(kiln_tensor **out, size_t n_out, const tensor &t)
{
    give_one(out, n_out, 0, t);
}
inline void give(kiln_tensor **out, size_t n_out, const tensor_list &v)
{
    for (size_t i = 0; i < v.size(); i++) give_one(out, n_out, i, v[i]);
}
template <class T, size_t... I> void give_each(kiln_tensor **out, size_t n_out, const T &t, std::index_sequence<I...>)
{
    (give_one(out, n_out, I, std::get<I>(t)), ...);
}
template <class... T> void give(kiln_tensor **out, size_t n_out, const std::tuple<T...> &t)
{
    give_each(out, n_out, t, std::index_sequence_for<T...>());
}
template <class A, class B> void give(kiln_tensor **out, size_t n_out, const std::pair<A, B> &t)
{
    give_each(out, n_out, t, std::make_index_sequence<2>());
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

inline tensor_list in_bundle(kiln_bundle *b)
{
    tensor_list v;
    for (int64_t i = 0; b && i < static_cast<int64_t>(kiln_bundle_count(b)); i++)
        v.push_back(taken(kiln_bundle_tensor_at(b, i)));
    return v;
}

// A kiln_bundle_fn: for functions whose number of results is not in their type.
template <class F> kiln_status call_bundle_function(void *user, kiln_bundle *in, kiln_bundle **out)
{
    F &f = *static_cast<F *>(user);
    tensors given;
    if constexpr (takes_list<F>) given = tensors(f(in_bundle(in)));
    *out = made(kiln_bundle_of(given.data(), given.size()));
    return KILN_OK;
}

// What F gives for arguments A.
template <class F, class... A> using result_of = std::decay_t<std::invoke_result_t<F &, const A &...>>;

template <class R> R result(results &out)
{
    if constexpr (std::is_same<R, tensor>::value)
        return out.take(0);
    else if constexpr (std::is_same<R, tensor_list>::value)
        return out.all();
    else if constexpr (!std::is_void<R>::value)
        return std::make_from_tuple<R>(out.as_tuple<count_of<R>::value>());
}

template <class... A> tensors listed(const A &...a)
{
    return tensors(tensor_list{tensor(a)...});
}
inline tensors listed(const tensor_list &v)
{
    return tensors(v);
}

// Functions that captured graphs call later live as long as the captured function that is being made.
using keeper = std::vector<std::shared_ptr<void>>;
inline keeper *&present_keeper()
{
    static thread_local keeper *k = nullptr;
    return k;
}
struct keeps {
    explicit keeps(keeper &k) : before(std::exchange(present_keeper(), &k)) {}
    ~keeps() { present_keeper() = before; }
    keeps(const keeps &) = delete;
    keeper *before;
};

} // namespace detail

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

/// What jit makes: called as the function is. It is moved, not copied.
template <class F> class jitted {
    struct state {
        F f;
        detail::keeper keeper;
        template <class... A> auto operator()(const A &...a) -> std::invoke_result_t<F &, const A &...>
        {
            detail::keeps now(keeper);
            return f(a...);
        }
    };
    template <class R> static constexpr bool is_list = std::is_same<R, detail::tensor_list>::value;
    static constexpr bool by_bundles()
    {
        if constexpr (detail::takes_list<F>) return is_list<detail::result_of<F, detail::tensor_list>>;
        return false;
    }

  public:
    KILN_CXX jitted(F f, const kiln_jit_opts &opts) : state_(new state{std::move(f), {}})
    {
        auto o = detail::with_size(opts);
        if constexpr (by_bundles())
            fn_ = holder(detail::made(kiln_bundle_jit(detail::call_bundle_function<state>, state_.get(), &o)));
        else
            fn_ = holder(detail::made(kiln_jit(detail::call_function<state>, state_.get(), &o)));
    }
    template <class... A> KILN_CXX auto operator()(const A &...a) -> detail::result_of<F, A...>
    {
        using R = detail::result_of<F, A...>;
        tensors in = detail::listed(a...);
        if constexpr (by_bundles()) {
            handle<kiln_bundle, kiln_bundle_free> b(
                kiln_bundle_own(detail::made(kiln_bundle_of(in.data(), in.size()))));
            kiln_bundle *out = nullptr;
            detail::check(kiln_bundle_call(fn_.get(), b.get(), &out));
            handle<kiln_bundle, kiln_bundle_free> given(out ? kiln_bundle_own(out) : nullptr);
            return detail::in_bundle(out);
        } else {
            static_assert(!is_list<R>, "what gives a std::vector takes one; else let it give a std::tuple");
            detail::results out(detail::count_of<R>::value);
            detail::check(kiln_call(fn_.get(), in.data(), in.size(), out.data(), out.size()));
            return detail::result<R>(out);
        }
    }
    kiln_function *get() const { return fn_.get(); } ///< borrowed
    kiln_jit_stats stats() const
    {
        auto s = detail::sized<kiln_jit_stats>();
        kiln_function_stats(fn_.get(), &s);
        return s;
    }
    void explain(FILE *file = stderr) const { kiln_explain(fn_.get(), file); }

  private:
    using holder = handle<kiln_function, kiln_function_free>;
    std::unique_ptr<state> state_; // freed behind the function
    holder fn_;
};

/// A captured function: kiln_jit. `jit([&](const tensor &x, const tensor &y) { … })`.
template <class F> KILN_CXX jitted<std::decay_t<F>> jit(F &&f, const kiln_jit_opts &opts = {})
{
    return jitted<std::decay_t<F>>(std::forward<F>(f), opts);
}

namespace detail {

template <class R> constexpr bool has_aux = count_of<R>::value > 1;

// Gradients of f at `in`, behind its results where `with_value`.
template <class R, class F>
KILN_CXX void differentiate(F &f, const tensors &in, const ints &wrt, bool create_graph, bool with_value, results &out)
{
    auto o = sized<kiln_grad_opts>();
    o.wrt = wrt.list();
    o.outputs = count_of<R>::value;
    o.has_aux = has_aux<R>;
    o.create_graph = create_graph;
    check(with_value ? kiln_value_and_grad(call_function<F>, &f, in.data(), in.size(), &o, out.data(), out.size())
                     : kiln_grad(call_function<F>, &f, in.data(), in.size(), &o, out.data(), out.size()));
}

} // namespace detail

/// What grad and value_and_grad make: called as the function is.
template <class F, bool WithValue, bool One> class differentiated {
  public:
    differentiated(F f, ints wrt, bool create_graph)
        : f_(std::move(f)), wrt_(std::move(wrt)), create_graph_(create_graph)
    {
    }
    template <class... A, class R = detail::result_of<F, A...>> KILN_CXX auto operator()(const A &...a)
    {
        constexpr size_t n = detail::count_of<R>::value;
        static_assert(n > 0, "a function that gives a tensor");
        const size_t n_wrt = One ? 1 : wrt_.size(), first = WithValue ? n : 0;
        tensors in = detail::listed(a...);
        detail::results out(first + n_wrt + (WithValue ? 0 : n - 1));
        detail::differentiate<R>(f_, in, wrt_, create_graph_, WithValue, out);
        std::vector<tensor> grads;
        for (size_t i = 0; i < n_wrt; i++) grads.push_back(out.take(first + i));
        if constexpr (WithValue && One)
            return std::make_tuple(detail::result<R>(out), grads[0]);
        else if constexpr (WithValue)
            return std::make_tuple(detail::result<R>(out), grads);
        else if constexpr (One)
            return grads[0];
        else
            return grads;
    }

  private:
    F f_;
    ints wrt_;
    bool create_graph_;
};

/// The gradient of a function by its first argument: `grad(f)(x)`. Of a std::tuple the first is differentiated.
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

/// No tape on this thread as long as this lives.
class no_grad {
  public:
    no_grad() { kiln_no_grad_begin(); }
    ~no_grad() { kiln_no_grad_end(); }
    no_grad(const no_grad &) = delete;
    no_grad &operator=(const no_grad &) = delete;
};

} // namespace kiln
#endif
