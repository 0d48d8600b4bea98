/// @file host.hpp
/// Calls of the host with lambdas, rules for gradients, prints and assertions: kiln/host.h.
#ifndef KILN_HOST_HPP
#define KILN_HOST_HPP

#include <kiln/function.hpp>

#include <mutex>

namespace kiln {

/// What a function of the host does, KILN_HOST_IO and kin, and the dtypes and shapes of what it gives, in order; none
/// given: whatever it gives, as f64.
struct host_opts {
    struct type {
        kiln_dtype dtype;
        std::vector<int64_t> shape;
    };
    host_opts(unsigned what, std::vector<type> types = {}) : flags(what), gives(std::move(types)) {}
    unsigned flags;
    std::vector<type> gives;
};

/// What with_gradient makes.
template <class F, class G> struct with_rule {
    F f;
    G rule;
    template <class... A> auto operator()(const A &...a) -> decltype(f(a...)) { return f(a...); }
};
/// A function for host_call with a rule for its gradient: `rule(x, y, dy)` where it has one input and one output, else
/// `rule(in, out, dout)` with a std::vector of tensors each. It gives the gradients by the inputs, a tensor or several;
/// an empty one stands for zeros.
template <class F, class G> with_rule<F, G> with_gradient(F f, G rule)
{
    return {std::move(f), std::move(rule)};
}

namespace detail {

template <class F> struct rule_of {
    static constexpr kiln_bprop_fn run = nullptr;
};

// Calls a rule with what the library says.
template <class G>
void call_rule(G &rule, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout, kiln_tensor **din)
{
    const tensor_list x = shared(in, kiln_rule_n_in()), y = shared(out, kiln_rule_n_out()),
                      dy = shared(dout, kiln_rule_n_out());
    tensor_list given;
    auto take = [&](auto &&r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (is_list<R>)
            given = r;
        else if constexpr (is_tuple<R>)
            std::apply([&](const auto &...g) { given = {g...}; }, r);
        else
            given = {r};
    };
    if constexpr (std::is_invocable<G &, const tensor &, const tensor &, const tensor &>::value) {
        if (x.size() != 1 || y.size() != 1)
            throw error(KILN_E_ARGUMENT, "a rule of (x, y, dy) for a function of " + std::to_string(x.size()) +
                                             " inputs and " + std::to_string(y.size()) + " outputs");
        take(rule(x[0], y[0], dy[0]));
    } else {
        take(rule(x, y, dy));
    }
    if (given.size() > x.size()) throw error(KILN_E_ARGUMENT, "a rule gave more gradients than there are inputs");
    for (size_t i = 0; i < given.size(); i++)
        if (given[i].defined()) din[i] = made(kiln_alias(given[i].get()));
}

template <class F, class G> struct rule_of<with_rule<F, G>> {
    static kiln_status run(void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout,
                           kiln_tensor **din)
    {
        call_rule(static_cast<with_rule<F, G> *>(user)->rule, in, out, dout, din);
        return KILN_OK;
    }
};

// A kiln_bundle_fn whose `user` is an F; the first entry is a pointer that owns it.
template <class F, class... A> struct on_host {
    template <size_t... I> static decltype(auto) call(F &f, const bundle &b, std::index_sequence<I...>)
    {
        (void)b;
        return f(entry<argument<A>>(b, static_cast<int64_t>(I + 1))...);
    }
    static kiln_status run(void *user, kiln_bundle *in, kiln_bundle **out)
    {
        auto &f = *static_cast<F *>(user);
        const bundle b = bundle::share(in);
        if constexpr (std::is_void<decltype(call(f, b, std::index_sequence_for<A...>()))>::value) {
            call(f, b, std::index_sequence_for<A...>());
        } else {
            bundle given;
            append(given, "", call(f, b, std::index_sequence_for<A...>()));
            *out = made(kiln_bundle_alias(given.get()));
        }
        return KILN_OK;
    }
};

// A bundle that owns a function: so does, by it, what is made of it, graphs and the tape.
template <class F> bundle owner_of(F *f)
{
    bundle b;
    auto v = sized<kiln_value>();
    v.kind = KILN_KIND_POINTER;
    v.pointer = f;
    v.release = [](void *held) { delete static_cast<F *>(held); };
    check(kiln_bundle_append(b.get(), nullptr, &v));
    return b;
}

// Examples of what a function gives.
template <class R> KILN_CXX bundle example(const std::vector<host_opts::type> &types)
{
    const no_grad off;
    tensor_list like;
    for (const host_opts::type &t : types)
        like.push_back(taken(kiln_zeros(nullptr, t.dtype, t.shape.size(), t.shape.data())));
    bundle b;
    append(b, "", result<R>(like));
    return b;
}

} // namespace detail

/// Calls a function of the host with the values of the other arguments, in graphs at each run: kiln_bundle_host_call.
/// Graphs own it, and so does the tape, where with_gradient made it.
template <class F, class... A>
KILN_CXX auto host_call(const host_opts &opts, F f, const A &...a) -> detail::result_of<F, A...>
{
    using R = detail::result_of<F, A...>;
    auto *own = new F(std::move(f));
    bundle in = detail::owner_of(own);
    (detail::append(in, "", detail::argument<A>(a)), ...);
    bundle spec = bundle::adopt(nullptr);
    if constexpr (!std::is_void<R>::value) {
        if (!opts.gives.empty() && opts.gives.size() != detail::count_of<R>())
            throw error(KILN_E_ARGUMENT, "host_call: " + std::to_string(opts.gives.size()) +
                                             " types for a function that gives " +
                                             std::to_string(detail::count_of<R>()) + " tensors");
        if (!opts.gives.empty()) spec = detail::example<R>(opts.gives);
    }
    kiln_bundle *out = nullptr;
    detail::check(kiln_bundle_host_call(detail::on_host<F, A...>::run, own, in.get(), spec.get(),
                                        std::is_void<R>::value ? nullptr : &out, opts.flags, detail::rule_of<F>::run));
    if constexpr (!std::is_void<R>::value) return detail::entry<R>(bundle::adopt(detail::made(out)), 0);
}

/// The gradient of an op by a rule of the program's, `rule(in, out, dout)` as for with_gradient: kiln_register_bprop.
/// It stays to the end of the process.
template <class G> KILN_CXX void register_bprop(const char *op, G rule)
{
    static std::mutex lock;
    static std::vector<std::unique_ptr<G>> kept;
    const std::lock_guard<std::mutex> held(lock);
    kept.push_back(std::make_unique<G>(std::move(rule)));
    detail::check(kiln_register_bprop(
        op,
        [](void *user, kiln_tensor *const *in, kiln_tensor *const *out, kiln_tensor *const *dout, kiln_tensor **din) {
            detail::call_rule(*static_cast<G *>(user), in, out, dout, din);
            return KILN_OK;
        },
        kept.back().get()));
}
/// Brings the rule of the library back.
KILN_CXX void register_bprop(const char *op)
{
    detail::check(kiln_register_bprop(op, nullptr, nullptr));
}

/// An op of the program's own, by expressions: kiln_register_op.
KILN_CXX void register_op(const kiln_op_spec &spec)
{
    auto s = detail::with_size(spec);
    detail::check(kiln_register_op(&s));
}
/// Runs an op without attributes by its name.
template <class... A> KILN_CXX tensor apply(const char *op, const A &...a)
{
    const tensors in = detail::listed(a...);
    return detail::taken(kiln_apply(op, in.data(), in.size()));
}

/// Prints a line to stdout, at each run of a graph, too; each {} stands for a tensor.
template <class... A> KILN_CXX void debug_print(const char *format, const A &...a)
{
    detail::check(kiln_debug_print(format, static_cast<const tensor &>(a).get()...));
}
/// An error, KILN_E_ASSERT, where an element is false, at each run of a graph, too.
template <class... A> KILN_CXX void assert_all(const tensor &condition, const char *format, const A &...a)
{
    detail::check(kiln_assert(condition.get(), format, static_cast<const tensor &>(a).get()...));
}

} // namespace kiln
#endif
