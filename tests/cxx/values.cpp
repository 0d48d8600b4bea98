// kiln.hpp: ownership, operators with numbers, indices, errors and their lines, lambdas, what they throw.
#include <kiln/kiln.hpp>

#include <type_traits>

#include <cstdio>
#include <iostream>
#include <sstream>

using namespace kiln;

// What an expression gives is no place to write to: x[0] = 5 would change nothing.
static_assert(std::is_assignable<kiln::tensor &, int>::value && std::is_assignable<kiln::tensor &, kiln::tensor>::value,
              "variables take tensors");
static_assert(!std::is_assignable<kiln::tensor, int>::value && !std::is_assignable<kiln::tensor, kiln::tensor>::value,
              "expressions take none");

namespace {

int failures;
#define CHECK(what)                                        \
    do {                                                   \
        if (!(what)) {                                     \
            std::printf("line %d: %s\n", __LINE__, #what); \
            failures++;                                    \
        }                                                  \
    } while (0)

bool is(const tensor &t, const std::vector<double> &expected)
{
    return t.to_vector<double>() == expected;
}

// The line of the error that a function throws, 0 where it throws none.
template <class F> int line_of(F f, kiln_status code)
{
    try {
        f();
    } catch (const error &e) {
        bool right = e.code() == code && e.file() == "values.cpp";
        if (!right) std::printf("%s\n", e.what());
        return right ? e.line() : -1;
    }
    return 0;
}

void ownership(device &dev)
{
    uint64_t before = dev.stats().tensors;
    {
        tensor a = zeros({4}), b = a, c;
        CHECK(a.is_same(b) && !c.defined());
        c = std::move(a);
        CHECK(!a.defined() && c.is_same(b));
        b += 1;
        CHECK(is(c, {0, 0, 0, 0}) && is(b, {1, 1, 1, 1}));
        c.add_(2);
        tensor d = c;
        d.mul_(3);
        CHECK(is(c, {6, 6, 6, 6}));
        std::vector<tensor> many(10, c);
        many.erase(many.begin());
        CHECK(many[0].is_same(c));
    }
    CHECK(dev.stats().tensors == before);
}

void operators()
{
    tensor x{1.0, 2.0, 4.0}, i{5, 7};
    CHECK(is(x + 1, {2, 3, 5}) && is(1 + x, {2, 3, 5}) && is(2 - x, {1, 0, -2}) && is(x * x, {1, 4, 16}));
    CHECK(is(8 / x, {8, 4, 2}) && is(-x, {-1, -2, -4}) && is(i % 3, {2, 1}) && is(x > 1.5, {0, 1, 1}));
    CHECK(is(2 == x, {0, 1, 0}) && is(!(x > 1.5), {1, 0, 0}) && is((x > 1) & (x < 3), {0, 1, 0}));
    CHECK((i + 1).dtype() == i64 && (i + 0.5).dtype() == f32 && (x * 2).dtype() == f32);
    CHECK((tensor{true, false}.dtype() == boolean) && (tensor{{1, 2}, {3, 4}}.shape() == std::vector<int64_t>{2, 2}));
    CHECK(is(where(x > 1.5, x, 0), {0, 2, 4}) && x.sum().item<float>() == 7.0f && i.sum().item<int>() == 12);
    tensor m{{1.0, 2.0}, {3.0, 4.0}};
    CHECK(is(m.sum(0), {4, 6}) && is(m.sum({0, 1}), {10}) && m.sum(1, true).shape() == (std::vector<int64_t>{2, 1}));
    reduce_opts o;
    o.keepdims = true;
    CHECK(m.sum(o).rank() == 2);
    auto [values, places] = sort(x, -1, true);
    CHECK(is(values, {4, 2, 1}) && is(places, {2, 1, 0}));
    CHECK(is(concat({x, x}, 0), {1, 2, 4, 1, 2, 4}) && is(einsum("ij,ij->i", {m, m}), {5, 25}));
    std::ostringstream text;
    text << m;
    CHECK(text.str() == "[[1. 2.]\n [3. 4.]]");
}

void indices()
{
    tensor x = arange(0, 12, 1).reshape({3, 4});
    CHECK(is(x[1], {4, 5, 6, 7}) && is(x(slice(1, 3), 0), {4, 8}) && is(x(whole, -1), {3, 7, 11}));
    CHECK(is(x(ellipsis, slice(0, end, 2))[0], {0, 2}) && x(new_axis).rank() == 3);
    CHECK(is(x(tensor{2, 0}, 1), {9, 1}) && is(x(x > 9), {10, 11}));
    x.set(-1, 0, slice(1, 3));
    CHECK(is(x[0], {0, -1, -1, 3}));
    x[0].assign(7);
    CHECK(is(x[0], {7, 7, 7, 7}));
    CHECK(x.split(3)[2].shape() == (std::vector<int64_t>{1, 4}) && x.unstack(1).size() == 4);
}

void errors()
{
    tensor a = zeros({2, 3}), b = zeros({4});
    CHECK(line_of([&] { a + b; }, KILN_E_SHAPE) == __LINE__);
    CHECK(line_of([&] { a.matmul(b); }, KILN_E_SHAPE) == __LINE__);
    CHECK(line_of([&] { sum(a, 5); }, KILN_E_AXIS) == __LINE__);
    CHECK(line_of([&] { return a.reshape({7}); }, KILN_E_SHAPE) == __LINE__);
    CHECK(line_of([&] { b[9]; }, KILN_E_AXIS) == __LINE__);
    CHECK(line_of([&] { a.add_(b); }, KILN_E_SHAPE) == __LINE__);
    CHECK(line_of([&] { tensor() + 1; }, KILN_E_ARGUMENT) == __LINE__);
    auto bad = jit([&](const tensor &x) {
        tensor y = x + 1;
        return y * zeros({7});
    });
    CHECK(line_of([&] { bad(a); }, KILN_E_SHAPE) == __LINE__ - 2);
    CHECK(kiln_error() == KILN_OK && is(b + 1, {1, 1, 1, 1}));
    bool thrown = false;
    try {
        tensor t{{1, 2}, {3}};
    } catch (const std::invalid_argument &) {
        thrown = true;
    }
    CHECK(thrown);
}

void functions()
{
    tensor x{1.0, 2.0};
    int calls = 0;
    auto f = jit([&](const tensor &a, const tensor &b) {
        calls++;
        return (a * b).sum();
    });
    for (int i = 0; i < 4; i++) CHECK(f(x, x + i).item() == 5 + 3 * i);
    CHECK(calls == 1 && f.stats().captures == 1);
    auto both = jit([](const tensor &a) { return std::tuple(a + 1, a * 2); });
    auto [p, q] = both(x);
    CHECK(is(p, {2, 3}) && is(q, {2, 4}));
    auto list = jit([](const std::vector<tensor> &v) { return std::vector<tensor>{v[1], v[0] + v[1], v[0]}; });
    CHECK(is(list(std::vector<tensor>{x, p})[1], {3, 5}));
    auto cube = [](const tensor &a) { return (a * a * a).sum(); };
    CHECK(is(grad(cube)(x), {3, 12}));
    CHECK(is(jit(grad(cube))(x), {3, 12}));
    auto [value, by] = value_and_grad([](const tensor &a, const tensor &b) { return (a * b).sum(); }, {0, 1})(x, p);
    CHECK(value.item() == 8 && is(by[0], {2, 3}) && is(by[1], {1, 2}));
    tensor w = parameter(x, "w"), loss = (w * w).sum();
    loss.backward();
    CHECK(is(w.grad(), {2, 4}) && w.name() == "w");
}

void control()
{
    tensor x{{1.0, 2.0}, {3.0, 4.0}};
    auto sums = [](const tensor &xs) {
        return scan([](tensor h, tensor a) { return std::tuple(h + a, h); }, zeros({2}), xs);
    };
    auto [h, before] = sums(x);
    auto [h2, before2] = jit(sums)(x);
    CHECK(is(h, {4, 6}) && is(before, {0, 0, 1, 2}) && is(h2, {4, 6}) && is(before2, {0, 0, 1, 2}));
    auto doubled = [](const tensor &a) {
        return while_loop([](tensor b) { return (b < 10).all(); }, [](tensor b) { return b * 2; }, a);
    };
    CHECK(is(jit(doubled)(x), doubled(x).to_vector<double>()));
    CHECK(is(for_loop(
                 3, [](tensor i, tensor a) { return a + i; }, x[0]),
             {4, 5}));
    auto chosen = jit([](const tensor &p, const tensor &a) {
        return cond(
            p, [](tensor b) { return b + 1; }, [](tensor b) { return b - 1; }, a);
    });
    CHECK(is(chosen(tensor(zeros({}) < 1), x[0]), {2, 3}) && is(chosen(zeros({}) > 1, x[0]), {0, 1}));
    int seen = 0;
    auto calls = jit([&](const tensor &a) {
        return host_call(
            KILN_HOST_IO, [&seen](tensor b) { return seen++, b.to(f64); }, a);
    });
    calls(x);
    int after_first = seen;
    CHECK(is(calls(x + 1), {2, 3, 4, 5}) && seen == after_first + 1);
}

struct mine {};

// What a lambda throws comes out, and the function works the next time.
void exceptions(device &dev)
{
    uint64_t before = dev.stats().tensors;
    for (kiln_capture capture : {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE}) {
        bool throws = true, caught = false;
        kiln_jit_opts o{};
        o.capture = capture;
        auto f = jit(
            [&](const tensor &a) {
                tensor b = a * 2;
                if (throws) throw mine();
                return b + 1;
            },
            o);
        try {
            f(ones({2}));
        } catch (const mine &) {
            caught = true;
        }
        throws = false;
        CHECK(caught && !kiln_is_capturing() && is(f(ones({2})), {3, 3}));
        caught = false;
        try {
            grad([](const tensor &a) {
                if (a.rank() == 1) throw mine();
                return a;
            })(ones({2}));
        } catch (const mine &) {
            caught = true;
        }
        CHECK(caught && kiln_grad_enabled());
    }
    CHECK(dev.stats().tensors == before);
}

void signatures()
{
    kiln_symbol_opts rule{};
    rule.max = 4;
    const types takes{{f32, {symbol("rows of values", rule), 3}}, {f32, {-1}}};
    kiln_jit_opts o{};
    o.input_types = takes;
    auto f = jit([](const tensor &x, const tensor &y) { return x.sum() + y.sum(); }, o);
    for (int64_t rows : {1, 2, 4}) CHECK(f(ones({rows, 3}), ones({rows + 7})).item() == double(4 * rows + 7));
    CHECK(line_of([&] { f(ones({5, 3}), ones({1})); }, KILN_E_SHAPE) == __LINE__);
    CHECK(line_of([&] { f(ones({2, 2}), ones({1})); }, KILN_E_SHAPE) == __LINE__);
    CHECK(line_of([&] { f(ones({2, 3}, f64), ones({1})); }, KILN_E_SHAPE) == __LINE__);
    CHECK(f.stats().captures == 3);
}

void networks()
{
    auto net = nn::sequential(nn::dense(2, 8), nn::tanh(), nn::dense(8, 1));
    kiln_adam_opts o{};
    o.lr = 0.05;
    auto opt = optim::adam(net.parameters(), o);
    tensor x{{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}}, y{{0.0}, {1.0}, {1.0}, {0.0}};
    double first = 0, last = 0;
    for (int i = 0; i < 200; i++) {
        tensor loss = (net(x) - y).square().mean();
        loss.backward();
        opt.step();
        opt.zero_grad();
        (i ? last : first) = loss.item();
    }
    CHECK(last < first / 4 && net.parameters().size() == 4);
}

} // namespace

int main()
{
    device dev;
    uint64_t before = dev.stats().tensors;
    dev.seed(1);
    const auto all = {operators, indices, errors, functions, control, signatures, networks};
    ownership(dev);
    for (auto test : all) {
        test();
        CHECK(dev.stats().tensors == before);
    }
    exceptions(dev);
    CHECK(dev.stats().tensors == before);
    return failures != 0;
}
