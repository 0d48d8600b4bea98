// Functions of kiln.hpp on trees; loops with their options; calls of the host, their rules, and who owns what.
#include "check.hpp"

namespace {

struct layer {
    tensor w, b;
    std::string kind = "dense";
    KILN_FIELDS(w, b, kind)
    tensor operator()(const tensor &x) const { return x.matmul(w) + b; }
};
struct network {
    std::vector<layer> layers;
    std::map<std::string, tensor> more;
    std::optional<tensor> scale;
    int power = 1;
    KILN_FIELDS(layers, more, scale, power)
};

network made_network()
{
    network n;
    n.layers = {{ones({2, 3}), zeros({3})}, {ones({3, 1}) * 2, ones({1})}};
    n.more = {{"shift", tensor{10.0}}};
    return n;
}
tensor run(const network &n, const tensor &x)
{
    tensor y = x;
    for (const layer &l : n.layers) y = l(y);
    for (int i = 1; i < n.power; i++) y = y * y;
    return (n.scale ? y * *n.scale : y) + n.more.at("shift");
}

void captured()
{
    int calls = 0;
    auto f = jit([&](const network &n, const tensor &x) {
        calls++;
        return run(n, x);
    });
    network n = made_network();
    tensor x = ones({1, 2});
    CHECK(is(f(n, x), {23}) && is(f(n, x + 1), {35}) && calls == 1);
    n.layers[1].w = n.layers[1].w * 2;
    CHECK(is(f(n, x), {35}) && calls == 1); // another value of a tensor
    n.power = 2;
    CHECK(is(f(n, x), {635}) && calls == 2); // another number
    n.scale = tensor{0.5};
    CHECK(is(f(n, x), {322.5}) && calls == 3); // one tensor more
    auto g = jit([](const network &m, int times) {
        network twice = m;
        for (layer &l : twice.layers) l.w = l.w * times;
        twice.layers.pop_back();
        return twice;
    });
    network given = g(n, 3);
    CHECK(given.layers.size() == 1 && is(given.layers[0].w, {3, 3, 3, 3, 3, 3}) && given.power == 2);
    CHECK(given.layers[0].kind == "dense" && is(given.more["shift"], {10}) && is(*given.scale, {0.5}));
    auto lists = jit([](const std::vector<tensor> &v) { return std::pair(v, std::array<tensor, 2>{v[0], v[1] + 1}); });
    auto [list, pair] = lists({x, x});
    CHECK(list.size() == 2 && is(pair[1], {2, 2}));
    auto text = jit([](const std::string &name, const bundle &b) {
        return std::tuple(b[name.c_str()] * 2, name + "!", std::optional<tensor>());
    });
    bundle b;
    b.set("x", x);
    auto [y, named, nothing] = text("x", b);
    CHECK(is(y, {2, 2}) && named == "x!" && !nothing);
    int effects = 0;
    auto none = jit([&](const std::vector<tensor> &v) { effects += static_cast<int>(v.size()); });
    none({x, x});
    CHECK(effects == 2);
}

void differentiated_trees()
{
    network n = made_network();
    tensor x = ones({1, 2});
    auto loss = [](const network &m, const tensor &in) { return run(m, in).sum(); };
    network g = grad(loss)(n, x);
    CHECK(is(g.layers[0].w, {2, 2, 2, 2, 2, 2}) && is(g.layers[1].w, {2, 2, 2}) && is(g.layers[1].b, {1}));
    CHECK(is(g.more["shift"], {1}) && !g.scale && g.layers[1].kind == "dense");
    auto [value, again] = jit([&](const network &m, const tensor &in) { return value_and_grad(loss)(m, in); })(n, x);
    CHECK(value.item() == 23 && is(again.layers[0].b, {2, 2, 2}));
    kiln_gradcheck_opts o{};
    gradcheck([](const tensor &a) { return (a * a).sum(); }, o, ones({2}, f64));
    auto bad = [](const tensor &a) { return a.detach().sum() + a.sum() * 0; };
    CHECK(line_of([&] { gradcheck(bad, o, ones({2}, f64)); }, KILN_E_GRADIENT) == __LINE__);
}

void loops()
{
    struct state {
        tensor x, n;
        KILN_FIELDS(x, n)
    };
    auto powers = [](const tensor &x) {
        kiln_loop_opts o{};
        o.bound = 8;
        o.save_every = 2;
        state last = while_loop(
            o, [](const state &s) { return s.n < 3; },
            [](const state &s) {
                return state{s.x * s.x, s.n + 1};
            },
            state{x, zeros({}, i64)});
        return last.x;
    };
    tensor two{2.0};
    CHECK(is(powers(two), {256}) && is(jit(powers)(two), {256}));
    auto slope = jit([&](const tensor &x) { return grad([&](const tensor &a) { return powers(a).sum(); })(x); });
    CHECK(is(slope(two), {8 * 128}));
    auto counted = [](int64_t bound) {
        kiln_loop_opts o{};
        o.bound = bound;
        return while_loop(
            o, [](const tensor &a) { return (a < 100).all(); }, [](const tensor &a) { return a * 2; }, tensor{1.0});
    };
    CHECK(is(counted(7), {128}) && line_of([&] { counted(6); }, KILN_E_STATE) > 0);
    kiln_loop_opts unrolled{};
    unrolled.unroll = 2;
    auto sums = jit([&](const tensor &x) {
        return for_loop(
            unrolled, 4,
            [](const tensor &i, const std::vector<tensor> &v) {
                return std::vector{v[1], v[0] + i};
            },
            std::vector{x, x * 10});
    });
    CHECK(is(sums(two)[0], {2 + 0 + 2}) && is(sums(two)[1], {20 + 1 + 3}));
    kiln_scan_opts reverse{};
    reverse.reverse = true;
    tensor xs{1.0, 2.0, 3.0};
    auto [h, ys] = scan(
        reverse, [](const tensor &s, const tensor &x) { return std::tuple(s + x, s); }, zeros({}), xs);
    CHECK(h.item() == 6 && is(ys, {5, 3, 0}));
    kiln_scan_opts length{};
    length.length = 3;
    state end = scan(
        length,
        [](const state &s) {
            return state{s.x * 2, s.n + 1};
        },
        state{two, zeros({}, i64)});
    CHECK(is(end.x, {16}) && end.n.item<int>() == 3);
    auto [last, seen] = scan(
        [](const state &s, const std::pair<tensor, tensor> &x) {
            return std::tuple(state{s.x + x.first, s.n + 1}, std::pair(x.second * s.x, s.n));
        },
        state{two, zeros({}, i64)}, std::pair(xs, xs));
    CHECK(is(last.x, {8}) && is(seen.first, {2, 6, 15}) && is(seen.second, {0, 1, 2}));
    auto pick = jit([](const tensor &i, const tensor &x) {
        return switch_on(i,
                         std::tuple([](const tensor &a) { return a + 1; }, [](const tensor &a) { return a * 10; },
                                    [](const tensor &a) { return a - 1; }),
                         x);
    });
    CHECK(is(pick(zeros({}, i64), two), {3}) && is(pick(ones({}, i64), two), {20}) &&
          is(pick(ones({}, i64) * 2, two), {1}));
}

// Counts those that are alive.
struct counted {
    static inline int alive = 0;
    counted() { alive++; }
    counted(const counted &) { alive++; }
    counted(counted &&) noexcept { alive++; }
    ~counted() { alive--; }
};

void host()
{
    tensor x{{1.0, 2.0}, {3.0, 4.0}};
    const counted mark;
    {
        auto f = jit([&](const tensor &a) {
            auto [s, t] = host_call(
                {KILN_HOST_PURE, {{f32, {}}, {i64, {2}}}},
                [mark](const tensor &b) {
                    return std::tuple(b.sum(), tensor{5, 6});
                },
                a);
            return std::tuple(s * 2, t);
        });
        CHECK(is(std::get<0>(f(x)), {20}) && is(std::get<1>(f(x + 1)), {5, 6}) && counted::alive > 1);
        CHECK(std::get<0>(f(x)).dtype() == f32 && std::get<1>(f(x)).dtype() == i64);
    }
    CHECK(counted::alive == 1); // a graph owns its functions, and is gone
    for (int i = 0; i < 3; i++)
        host_call(
            KILN_HOST_IO, [mark](const tensor &) {}, x);
    CHECK(counted::alive == 1);
    auto in_loop = jit([&](const tensor &a) {
        return for_loop(
            3,
            [&](const tensor &, const tensor &b) {
                return host_call(
                    {KILN_HOST_PURE, {{f32, {2, 2}}}}, [mark](const tensor &c) { return c + 1; }, b);
            },
            a);
    });
    CHECK(is(in_loop(x), {4, 5, 6, 7}));
    const host_opts wrong(KILN_HOST_PURE, {{f32, {2}}});
    auto itself = [](const tensor &a) { return a; };
    CHECK(line_of([&] { host_call(wrong, itself, x); }, KILN_E_SHAPE) == __LINE__);
    CHECK(throws<error>([&] {
        host_call(
            {KILN_HOST_PURE, {{f32, {}}, {f32, {}}}}, [](const tensor &a) { return a; }, x);
    }));
    CHECK(throws<mine>([&] {
        host_call(
            KILN_HOST_IO, [](const tensor &) { throw mine(); }, x);
    }));
    bool fails = true;
    auto g = jit([&](const tensor &a) {
        return host_call(
                   {KILN_HOST_IO, {{f32, {2, 2}}}},
                   [&fails](const tensor &b) {
                       if (fails) throw mine();
                       return b * 2;
                   },
                   a) +
               1;
    });
    CHECK(throws<mine>([&] { g(x); }) && kiln_error() == KILN_OK);
    fails = false;
    CHECK(is(g(x), {3, 5, 7, 9}));
    struct options {
        double by;
        KILN_FIELDS(by)
    };
    CHECK(is(host_call(
                 KILN_HOST_PURE, [](const options &o, const tensor &a) { return a * o.by; }, options{0.5}, x),
             {0.5, 1, 1.5, 2}));
}

void rules()
{
    const counted mark;
    // Something that the library cannot differentiate, and what it is told of it.
    auto cubed = [&](const tensor &x) {
        return host_call({KILN_HOST_PURE, {{f32, {2}}}},
                         with_gradient(
                             [mark](const tensor &a) {
                                 std::vector<float> v = a.to_vector<float>();
                                 for (float &each : v) each = each * each * each;
                                 return from_data(v);
                             },
                             [](const tensor &a, const tensor &, const tensor &dy) { return dy * 3 * a * a; }),
                         x);
    };
    tensor w = parameter(tensor{1.0, 2.0}, "w");
    {
        tensor y = (cubed(w) * cubed(w)).sum(); // the functions are gone, but for what the tape holds
        CHECK(counted::alive > 1 && y.item() == 65);
        y.backward();
        CHECK(is(w.grad(), {6, 2 * 8 * 12}));
    }
    CHECK(counted::alive == 1);
    auto f = jit([&](const tensor &x) { return cubed(x).sum(); });
    CHECK(is(grad(std::ref(f))(tensor{1.0, 2.0}), {3, 12}) &&
          is(grad([&](const tensor &x) { return cubed(x).sum(); })(tensor{1.0, 2.0}), {3, 12}));
    auto two = with_gradient(
        [](const tensor &a, const tensor &b) { return std::tuple(a * b, a + b); },
        [](const std::vector<tensor> &in, const std::vector<tensor> &out, const std::vector<tensor> &dout) {
            CHECK(out.size() == 2);
            return std::tuple(dout[0] * in[1] + dout[1], tensor());
        });
    auto both = [&](const tensor &a, const tensor &b) {
        auto [p, s] = host_call({KILN_HOST_PURE, {{f32, {2}}, {f32, {2}}}}, two, a, b);
        return (p + s).sum();
    };
    auto by = grad(both, {0, 1})(tensor{1.0, 2.0}, tensor{3.0, 4.0});
    CHECK(is(by[0], {4, 5}) && is(by[1], {0, 0}));
    CHECK(is(std::get<0>(two(tensor{2.0}, tensor{3.0})), {6})); // called as it is

    register_bprop("sinh", [](const std::vector<tensor> &, const std::vector<tensor> &,
                              const std::vector<tensor> &dout) { return dout[0] * 100; });
    auto slope = grad([](const tensor &x) { return x.sinh().sum(); });
    CHECK(is(slope(zeros({1})), {100}));
    register_bprop("sinh");
    CHECK(is(slope(zeros({1})), {1}));
    kiln_op_spec spec{};
    spec.name = "cxx_half";
    spec.n_in = 1;
    spec.expr = "x * 0.5";
    spec.grad[0] = "dy * 0.5";
    register_op(spec);
    CHECK(is(apply("cxx_half", tensor{3.0}), {1.5}));
    CHECK(line_of([] { apply("no such op", tensor{3.0}); }, KILN_E_ARGUMENT) == __LINE__);
    CHECK(line_of([] { register_bprop("no such op"); }, KILN_E_ARGUMENT) == __LINE__);
}

template <class F> std::string message_of(F f)
{
    try {
        f();
    } catch (const error &e) {
        return e.what();
    }
    return "";
}

void numbers()
{
    double rate = 2;
    const host_number by([&] { return rate; });
    auto f = jit([&](const tensor &x) { return x * by.get(); });
    CHECK(is(f(tensor{3.0}), {6}));
    rate = 5;
    CHECK(is(f(tensor{3.0}), {15}) && f.stats().captures == 1);
    auto g = jit([](const tensor &x, const tensor &n) { return x * n; });
    g(tensor{3.0}, mutable_number(2.0));
    CHECK(is(g(tensor{3.0}, mutable_number(4.0)), {12}) && g.stats().captures == 1);
    CHECK(line_of([] { assert_all(tensor{true, false}, "{} is wrong", tensor{1}); }, KILN_E_ASSERT) == __LINE__);
    const int line = __LINE__ + 2;
    auto h = jit([](const tensor &x) {
        assert_all(x > 0, "{} is not positive", x);
        return x.log();
    });
    const std::string place = "assert at trees.cpp:" + std::to_string(line);
    CHECK(is(h(tensor{1.0}), {0}) && message_of([&] { h(tensor{-1.0}); }).find(place) == 0);
    tensor kept{1.0};
    auto with_constant = jit([&](const tensor &x) { return x + constant(kept); });
    CHECK(is(with_constant(kept), {2}));
    CHECK(g.compile(ones({3}), ones({3})).ops == 1 && g.cost().launches == 1);
}

// Messages name a function by the line of the program that made it.
void names()
{
    tensor outside = ones({2});
    auto f = jit([&](const tensor &x) { return x.item() > 0 ? x : -x; });
    const std::string here = "the function at trees.cpp:" + std::to_string(__LINE__ - 1);
    CHECK(message_of([&] { f(ones({1})); }).find(here) != std::string::npos);
    auto g = jit([](const network &n, const tensor &x) { return x + n.power * x.item(); });
    const std::string there = "the function at trees.cpp:" + std::to_string(__LINE__ - 1);
    CHECK(message_of([&] { g(made_network(), ones({1})); }).find(there) != std::string::npos);
    kiln_jit_opts o{};
    o.name = "mine";
    auto h = jit([](const tensor &x) { return x * x.item(); }, o);
    CHECK(message_of([&] { h(ones({1})); }).find("mine") != std::string::npos);
    FILE *file = std::tmpfile();
    auto fine = jit([](const tensor &x) { return x + 1; });
    const std::string own = "the function at trees.cpp:" + std::to_string(__LINE__ - 1);
    fine(outside);
    fine.explain(file);
    fine.explain(file, KILN_EXPLAIN_DETAIL);
    std::string text(static_cast<size_t>(std::ftell(file)), 0);
    std::rewind(file);
    CHECK(std::fread(text.data(), 1, text.size(), file) == text.size());
    std::fclose(file);
    CHECK(text.find(own) != std::string::npos && text.find(".hpp") == std::string::npos);
}

} // namespace

int main()
{
    device dev;
    dev.seed(1);
    const uint64_t before = dev.stats().tensors;
    for (auto test : {captured, differentiated_trees, loops, host, rules, numbers, names}) {
        test();
        CHECK(dev.stats().tensors == before);
    }
    CHECK(counted::alive == 0);
    return failures != 0;
}
