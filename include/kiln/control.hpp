/// @file control.hpp
/// Conditions and loops with lambdas: kiln/control.h. What they carry are trees (kiln/tree.hpp). Options, where there
/// are any, come first: `while_loop({.bound = 8}, …)` in C++20.
#ifndef KILN_CONTROL_HPP
#define KILN_CONTROL_HPP

#include <kiln/function.hpp>

namespace kiln {
namespace detail {

// Some regions on the same arguments.
template <class F, class... A> struct regions;
template <class... F, class... A> struct regions<std::tuple<F...>, A...> {
    std::tuple<F...> f;
    std::tuple<argument<A>...> like;

    template <size_t I>
    static kiln_status run(void *user, kiln_tensor *const *in, size_t n_in, kiln_tensor **out, size_t n_out)
    {
        auto *own = static_cast<regions *>(user);
        auto now = own->like;
        size_t at = 0;
        replace_tensors(now, shared(in, n_in), at);
        run_and_give(out, n_out, [&] { return std::apply(std::get<I>(own->f), std::as_const(now)); });
        return KILN_OK;
    }
    template <size_t... I> static std::array<kiln_fn, sizeof...(F)> all(std::index_sequence<I...>)
    {
        return {{run<I>...}};
    }
};

template <size_t I, size_t N, class T, class Like>
void carry_one(T &t, const Like &like, const tensor_list &from, size_t &at)
{
    if constexpr (I < N) {
        t = std::get<I>(like);
        replace_tensors(t, from, at);
    } else {
        place(t, from, at);
    }
}
template <size_t N, class R, class Like, size_t... I>
void carry_each(R &r, const Like &like, const tensor_list &from, size_t &at, std::index_sequence<I...>)
{
    (carry_one<I, N>(std::get<I>(r), like, from, at), ...);
}

// The first N of a tuple as they are, with other tensors; behind them what the types say.
template <size_t N, class R, class Like> R carried_result(const Like &like, const tensor_list &from)
{
    size_t at = 0;
    if constexpr (is_tuple<R> && !(N == 1 && std::is_same<R, std::tuple_element_t<0, Like>>::value)) {
        R r{};
        carry_each<N>(r, like, from, at, std::make_index_sequence<std::tuple_size<R>::value>());
        return r;
    } else {
        R r = std::get<0>(like);
        replace_tensors(r, from, at);
        return r;
    }
}
template <size_t N, class Like, size_t... I> size_t count_carried(const Like &like, std::index_sequence<I...>)
{
    return (size_t(0) + ... + (I < N ? count_tensors(std::get<I>(like)) : 0));
}

template <size_t I, size_t N, class T> constexpr size_t behind_one()
{
    if constexpr (I < N)
        return 0;
    else
        return count_of<T>();
}
template <size_t N, class R, size_t... I> constexpr size_t behind_sum(std::index_sequence<I...>)
{
    return (size_t(0) + ... + behind_one<I, N, std::tuple_element_t<I, R>>());
}

// How many tensors of a result stand behind the first N entries.
template <size_t N, class R> constexpr size_t count_behind()
{
    if constexpr (is_tuple<R>) {
        return behind_sum<N, R>(std::make_index_sequence<std::tuple_size<R>::value>());
    } else {
        return 0;
    }
}
} // namespace detail

/// Runs one of two functions on the other arguments: kiln_cond.
template <class F, class G, class... A>
KILN_CXX auto cond(const tensor &pred, F yes, G no, const A &...a) -> detail::result_of<F, A...>
{
    using R = detail::result_of<F, A...>;
    using both = detail::regions<std::tuple<F, G>, A...>;
    both fns = {{std::move(yes), std::move(no)}, {a...}};
    const tensors in = detail::listed(a...);
    detail::results out(detail::count_of<R>());
    detail::check(kiln_cond(pred.get(), both::template run<0>, both::template run<1>, &fns, in.data(), in.size(),
                            out.data(), out.size()));
    return detail::result<R>(out.all());
}

/// Runs the one of `branches`, a std::tuple of functions, that an index names: kiln_switch.
template <class F, class... More, class... A>
KILN_CXX auto switch_on(const tensor &index, std::tuple<F, More...> branches, const A &...a)
    -> detail::result_of<F, A...>
{
    using R = detail::result_of<F, A...>;
    using all = detail::regions<std::tuple<F, More...>, A...>;
    all fns = {std::move(branches), {a...}};
    const auto list = all::all(std::index_sequence_for<F, More...>());
    const tensors in = detail::listed(a...);
    detail::results out(detail::count_of<R>());
    detail::check(
        kiln_switch(index.get(), list.data(), list.size(), &fns, in.data(), in.size(), out.data(), out.size()));
    return detail::result<R>(out.all());
}

/// Carries its last arguments through trips of `body`, as long as `going` holds: kiln_while.
template <class C, class F, class... A>
KILN_CXX auto while_loop(const kiln_loop_opts &opts, C going, F body, const A &...a) -> detail::result_of<F, A...>
{
    using both = detail::regions<std::tuple<C, F>, A...>;
    both fns = {{std::move(going), std::move(body)}, {a...}};
    auto o = detail::with_size(opts);
    const tensors in = detail::listed(a...);
    detail::results out(in.size());
    detail::check(kiln_while(both::template run<0>, both::template run<1>, &fns, in.data(), in.size(), &o, out.data(),
                             out.size()));
    return detail::carried_result<sizeof...(A), detail::result_of<F, A...>>(fns.like, out.all());
}
template <class C, class F, class... A>
KILN_CXX auto while_loop(C going, F body, const A &...a) -> detail::result_of<F, A...>
{
    return while_loop(kiln_loop_opts{}, std::move(going), std::move(body), a...);
}

/// `count` trips of `body`, which gets the number of the trip and what is carried: kiln_for.
template <class F, class... A>
KILN_CXX auto for_loop(const kiln_loop_opts &opts, const tensor &count, F body, const A &...a)
    -> detail::result_of<F, tensor, A...>
{
    using R = detail::result_of<F, tensor, A...>;
    detail::on_trees<F, tensor, A...> f(body, count, a...);
    auto o = detail::with_size(opts);
    const tensors in = detail::listed(a...);
    detail::results out(in.size());
    detail::check(kiln_for(count.get(), f.run, &f, in.data(), in.size(), &o, out.data(), out.size()));
    return detail::carried_result<sizeof...(A), R>(std::tuple<detail::argument<A>...>(a...), out.all());
}
template <class F, class... A>
KILN_CXX auto for_loop(const tensor &count, F body, const A &...a) -> detail::result_of<F, tensor, A...>
{
    return for_loop(kiln_loop_opts{}, count, std::move(body), a...);
}

/// A loop along the first axis of its arguments behind the first `Carried`, which are handed from trip to trip:
/// `auto [h, ys] = scan([&](tensor h, tensor x) { …; return std::tuple(h, y); }, h0, xs)`. See kiln_scan; the option
/// .carried is set here.
template <size_t Carried = 1, class F, class... A>
KILN_CXX auto scan(const kiln_scan_opts &opts, F body, const A &...a) -> detail::result_of<F, A...>
{
    using R = detail::result_of<F, A...>;
    static_assert(Carried <= sizeof...(A), "there are fewer arguments than are carried");
    detail::on_trees<F, A...> f(body, a...);
    auto o = detail::with_size(opts);
    o.carried = detail::count_carried<Carried>(f.like, std::index_sequence_for<A...>());
    const tensors in = detail::listed(a...);
    detail::results out(o.carried + detail::count_behind<Carried, R>());
    detail::check(kiln_scan(f.run, &f, in.data(), in.size(), &o, out.data(), out.size()));
    return detail::carried_result<Carried, R>(f.like, out.all());
}
template <size_t Carried = 1, class F, class... A>
KILN_CXX auto scan(F body, const A &...a) -> detail::result_of<F, A...>
{
    return scan<Carried>(kiln_scan_opts{}, std::move(body), a...);
}

} // namespace kiln
#endif
