// What lambdas throw passes through the library from wherever they are called: nothing is left of the call, no tensor,
// no scope, no error, no mode of the thread; and the same call works when they throw no more.
#include "check.hpp"

namespace {

bool fails;
tensor thrown_at(const tensor &x)
{
    tensor y = x * 2; // something that is left behind
    if (fails) throw mine();
    return y + 1;
}
std::vector<tensor> all_thrown_at(const std::vector<tensor> &x)
{
    return {thrown_at(x[0]), thrown_at(x[1])};
}

device *dev;
// Runs something twice: when it throws, and when it does not.
template <class F> void both(int line, F f)
{
    const uint64_t before = dev->stats().tensors;
    for (bool now : {true, false}) {
        bool left = false;
        fails = now;
        try {
            f();
        } catch (const mine &) {
            left = true;
        } catch (const error &e) {
            std::printf("line %d: %s\n", line, e.what());
            failures++;
        }
        const bool clean = kiln_error() == KILN_OK && kiln_grad_enabled() && !kiln_is_capturing();
        const uint64_t after = dev->stats().tensors;
        if (left == now && clean && after == before) continue;
        std::printf("line %d: %s, %s, %d tensors are left\n", line, left ? "thrown" : "not thrown",
                    clean ? "clean" : "not clean", static_cast<int>(after - before));
        failures++;
    }
    fails = false;
}
#define BOTH(...) both(__LINE__, [&] { __VA_ARGS__; })

kiln_jit_opts options(kiln_capture capture)
{
    kiln_jit_opts o{};
    o.capture = capture;
    return o;
}

void captures()
{
    const tensor x = ones({2});
    for (kiln_capture capture : {KILN_CAPTURE_STRICT, KILN_CAPTURE_AUTO, KILN_CAPTURE_TRACE}) {
        const kiln_jit_opts o = options(capture);
        auto plain = jit(thrown_at, o);
        auto inner = jit([](const tensor &a) { return jit(thrown_at)(a) * 2; }, o);
        auto slope = [](const tensor &a) { return grad([](const tensor &b) { return thrown_at(b).sum(); })(a); };
        auto inside = jit(slope, o);
        BOTH(plain(x));
        BOTH(inner(x));
        BOTH(inside(x));
    }
    auto list = jit(all_thrown_at);
    auto mixed = jit([](int n, const tensor &a) { return std::pair(n, thrown_at(a)); });
    BOTH(list({x, x}));
    BOTH(mixed(3, x));
    const host_number number([]() -> double {
        if (fails) throw mine();
        return 2;
    });
    auto asks = jit([&](const tensor &a) { return a * number.get(); });
    BOTH(number.get());
    BOTH(asks(x));
    asks(x);
    BOTH(asks(x)); // of a program that is there
}

void gradients()
{
    const tensor x = ones({2});
    auto sum = [](const tensor &a) { return thrown_at(a).sum(); };
    auto twice = [&](const tensor &a) { return grad(sum, true)(a).sum() + sum(a); };
    auto product = [&](const tensor &a, const tensor &b) { return sum(a) * sum(b); };
    auto lists = [](const std::vector<tensor> &v) { return all_thrown_at(v)[0].sum(); };
    BOTH(grad(sum)(x));
    BOTH(value_and_grad(product, {0, 1})(x, x));
    BOTH(grad(twice)(x));
    BOTH(grad(lists)({x, x}));
    BOTH(gradcheck(sum, kiln_gradcheck_opts{}, ones({2}, f64)));
    BOTH(tensor w = parameter(x, "w"); tensor y = w * 3; auto seen = register_hook(y, thrown_at); y.sum().backward());
}

template <class F> void run(bool captured, int line, F f)
{
    const tensor x = ones({2, 2});
    auto made = jit(f);
    auto call = [&] { captured ? made(x) : f(x); };
    both(line, call);
    if (captured) both(line, call); // of a program that is there, if it calls f
}
#define RUN(f) run(captured, __LINE__, f)

void control(bool captured)
{
    auto same = [](const tensor &b) { return b; };
    auto chosen = [&](const tensor &a) { return cond(ones({}) > 0, thrown_at, same, a); };
    auto switched = [&](const tensor &a) { return switch_on(ones({}, i64), std::make_tuple(same, thrown_at), a); };
    auto body = [](const tensor &a) {
        auto going = [](const tensor &b) { return (b < 9).all(); };
        return while_loop(going, thrown_at, a);
    };
    auto test = [](const tensor &a) {
        auto going = [](const tensor &b) { return (thrown_at(b) < 9).all(); };
        return while_loop(
            going, [](const tensor &b) { return b * 2; }, a);
    };
    auto counted = [](const tensor &a) {
        auto trip = [](const tensor &, const tensor &b) { return thrown_at(b); };
        return for_loop(3, trip, a);
    };
    auto scanned = [](const tensor &a) {
        auto trip = [](const tensor &h, const tensor &b) { return std::tuple(h + thrown_at(b), b); };
        return std::get<1>(scan(trip, zeros({2}), a));
    };
    auto slope = [&](const tensor &a) { return grad([&](const tensor &b) { return counted(b).sum(); })(a); };
    if (!captured) {
        RUN(chosen);
        RUN(switched);
        RUN(body);
        RUN(test);
        RUN(counted);
        RUN(scanned);
        RUN(slope);
        return;
    }
    const tensor x = ones({2, 2}); // captured once: a program does not call them
    BOTH(jit(chosen)(x));
    BOTH(jit(switched)(x));
    BOTH(jit(body)(x));
    BOTH(jit(test)(x));
    BOTH(jit(counted)(x));
    BOTH(jit(scanned)(x));
    BOTH(jit(slope)(x));
}

void host(bool captured)
{
    const host_opts gives(KILN_HOST_IO, {{f32, {2, 2}}}), pure(KILN_HOST_PURE, {{f32, {2, 2}}});
    auto called = [&](const tensor &a) { return host_call(gives, thrown_at, a) * 2; };
    auto learnt = [](const tensor &a) { return host_call(KILN_HOST_READS, thrown_at, a); };
    auto in_loop = [&](const tensor &a) {
        auto trip = [&](const tensor &, const tensor &b) { return host_call(gives, thrown_at, b) + 1; };
        return for_loop(3, trip, a);
    };
    auto in_branch = [&](const tensor &a) {
        auto yes = [&](const tensor &b) { return host_call(gives, thrown_at, b); };
        return cond(
            a.sum() > 0, yes, [](const tensor &b) { return b; }, a);
    };
    RUN(called);
    RUN(learnt);
    RUN(in_loop);
    RUN(in_branch);
    auto rule = [](const tensor &, const tensor &, const tensor &dy) { return thrown_at(dy); };
    auto with = [&](const tensor &a) {
        auto doubled = [](const tensor &b) { return b * 2; };
        return host_call(pure, with_gradient(doubled, rule), a).sum();
    };
    auto slope = [&](const tensor &a) { return grad(with)(a); };
    const tensor x = ones({2, 2});
    if (captured) {
        BOTH(jit(slope)(x));
        BOTH(auto f = jit(with); f(parameter(x, "w")).backward());
    } else {
        RUN(slope);
        BOTH(with(parameter(x, "w")).backward());
    }
}

void cells()
{
    const tensor x = ones({1, 2});
    auto net = nn::sequential(nn::dense(2, 2), nn::lambda(thrown_at)), marked = nn::sequential(nn::lambda(thrown_at));
    auto plain = nn::dense(2, 2);
    BOTH(net(x));
    BOTH(grad([&](const tensor &a) { return net(a).sum(); })(x));
    BOTH(auto fresh = nn::lambda(thrown_at); fresh.jit()(x));
    BOTH(auto h = plain.register_forward_pre_hook([](cell_ref, std::vector<tensor> &in) { in[0] = thrown_at(in[0]); });
         plain(x));
    auto behind = [](cell_ref, const std::vector<tensor> &, std::vector<tensor> &out) { out[0] = thrown_at(out[0]); };
    BOTH(auto h = plain.register_forward_hook(behind); plain(x));
    auto back = [](cell_ref, size_t, const tensor &g) { return thrown_at(g); };
    plain.requires_grad(false);
    BOTH(auto h = plain.register_backward_hook(back); plain(parameter(x, "x")).sum().backward());
    BOTH(auto h = plain.register_backward_pre_hook(back); plain(parameter(x, "x")).sum().backward());
}

void trained()
{
    BOTH({
        const tensor w = parameter(ones({2}), "w");
        auto closure = [&] {
            tensor loss = (thrown_at(w) * w).sum();
            loss.backward();
            return loss;
        };
        optim::sgd({w}).step(closure);
    });
    BOTH({
        const tensor w = parameter(ones({2}), "w");
        auto closure = [&] {
            tensor loss = (thrown_at(w) * w).sum();
            loss.backward();
            return loss;
        };
        optim::lbfgs({w}).step(closure);
    });
    for (int workers = 0; workers < 3; workers++) {
        kiln_loader_opts o{};
        o.prefetch = workers ? 0 : -1;
        o.workers = workers;
        BOTH({
            loader l({}, o);
            l.add_fn(f32, {4, 2}, [](int64_t, void *row, size_t row_B) {
                std::memset(row, 0, row_B);
                thrown_at(ones({2}));
            });
            l.next();
        });
        BOTH({
            loader l({ones({4, 2})}, o);
            l.augment([](const kiln_sample &) { thrown_at(ones({2})); });
            l.next();
        });
    }
}

} // namespace

int main()
{
    device opened;
    dev = &opened;
    captures();
    gradients();
    for (bool captured : {false, true}) {
        control(captured);
        host(captured);
    }
    cells();
    trained();
    return failures != 0;
}
