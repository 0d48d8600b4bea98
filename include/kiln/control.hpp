/// @file control.hpp
/// Conditions, loops and calls of the host with lambdas: kiln/control.h, kiln/host.h.
#ifndef KILN_CONTROL_HPP
#define KILN_CONTROL_HPP

#include <kiln/function.hpp>

namespace kiln {

/// Runs one of two functions on the other arguments: kiln_cond.
template <class F, class G, class... A>
KILN_CXX auto cond(const tensor &pred, F yes, G no, const A &...a) -> detail::result_of<F, A...>
{
    using R = detail::result_of<F, A...>;
    struct both {
        F yes;
        G no;
        static kiln_status run_yes(void *user, kiln_tensor *const *in, size_t n, kiln_tensor **out, size_t n_out)
        {
            return detail::call_function<F>(&static_cast<both *>(user)->yes, in, n, out, n_out);
        }
        static kiln_status run_no(void *user, kiln_tensor *const *in, size_t n, kiln_tensor **out, size_t n_out)
        {
            return detail::call_function<G>(&static_cast<both *>(user)->no, in, n, out, n_out);
        }
    } fns = {std::move(yes), std::move(no)};
    tensors in = detail::listed(a...);
    detail::results out(detail::count_of<R>::value);
    detail::check(
        kiln_cond(pred.get(), both::run_yes, both::run_no, &fns, in.data(), in.size(), out.data(), out.size()));
    return detail::result<R>(out);
}

/// Carries its last arguments through trips of `body`, as long as `going` holds: kiln_while.
template <class C, class F, class... A>
KILN_CXX auto while_loop(C going, F body, const A &...a) -> detail::result_of<F, A...>
{
    using R = detail::result_of<F, A...>;
    struct both {
        C going;
        F body;
        static kiln_status test(void *user, kiln_tensor *const *in, size_t n, kiln_tensor **out, size_t n_out)
        {
            return detail::call_function<C>(&static_cast<both *>(user)->going, in, n, out, n_out);
        }
        static kiln_status run(void *user, kiln_tensor *const *in, size_t n, kiln_tensor **out, size_t n_out)
        {
            return detail::call_function<F>(&static_cast<both *>(user)->body, in, n, out, n_out);
        }
    } fns = {std::move(going), std::move(body)};
    tensors in = detail::listed(a...);
    detail::results out(in.size());
    detail::check(kiln_while(both::test, both::run, &fns, in.data(), in.size(), nullptr, out.data(), out.size()));
    return detail::result<R>(out);
}

/// `count` trips of `body`, which gets the number of the trip and what is carried: kiln_for.
template <class F, class... A>
KILN_CXX auto for_loop(const tensor &count, F body, const A &...a) -> detail::result_of<F, tensor, A...>
{
    using R = detail::result_of<F, tensor, A...>;
    tensors in = detail::listed(a...);
    detail::results out(in.size());
    detail::check(
        kiln_for(count.get(), detail::call_function<F>, &body, in.data(), in.size(), nullptr, out.data(), out.size()));
    return detail::result<R>(out);
}

/// A loop along the first axis of its arguments behind the first `Carried`, which are handed from trip to trip:
/// `auto [h, ys] = scan([&](tensor h, tensor x) { …; return std::tuple(h, y); }, h0, xs)`. See kiln_scan.
template <size_t Carried = 1, class F, class... A>
KILN_CXX auto scan(F body, const A &...a) -> detail::result_of<F, A...>
{
    using R = detail::result_of<F, A...>;
    auto o = detail::sized<kiln_scan_opts>();
    o.carried = Carried;
    tensors in = detail::listed(a...);
    detail::results out(detail::count_of<R>::value);
    detail::check(kiln_scan(detail::call_function<F>, &body, in.data(), in.size(), &o, out.data(), out.size()));
    return detail::result<R>(out);
}

/// Calls a function of the host with the values of the other arguments, in graphs at each run: kiln_host_call, without
/// a specification. The function is kept as long as the captured function that calls it. `flags`: KILN_HOST_IO and kin.
template <class F, class... A> KILN_CXX auto host_call(unsigned flags, F f, const A &...a) -> detail::result_of<F, A...>
{
    using R = detail::result_of<F, A...>;
    auto kept = std::make_shared<F>(std::move(f));
    if (detail::keeper *k = detail::present_keeper()) k->push_back(kept);
    tensors in = detail::listed(a...);
    detail::results out(detail::count_of<R>::value);
    detail::check(kiln_host_call(detail::call_function<F>, kept.get(), in.data(), in.size(), nullptr, out.data(),
                                 out.size(), flags, nullptr));
    return detail::result<R>(out);
}

} // namespace kiln
#endif
