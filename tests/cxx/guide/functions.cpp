// Examples of captures.md, control-flow.md, host-calls.md.
#include "guide.hpp"

#include <cstring>

EXAMPLE("captures", "STRICT", 1)
{
    auto f = jit([](const tensor &x, const tensor &y, const tensor &z) {
        cout << "captured\n";
        return x.matmul(y) + z;
    });
    auto reads = jit([](const tensor &x) { return x.sum().item() > 0 ? -x : x.abs(); });
    tensor out;
    for (int i = 0; i < 3; i++) out = f(ones({2, 3}), ones({3, 4}), ones({2, 4}));
    cout << out << '\n';
    try {
        reads(out);
    } catch (const error &e) {
        cout << kiln_status_name(e.code()) << '\n';
    }
}

EXAMPLE("captures", "What a function may reach", 1)
{
    tensor total = zeros({}).as_state(), scale = full({}, 10);
    auto count = jit([&](const tensor &x) {
        total.add_(x.sum());
        return total * constant(scale);
    });
    tensor out;
    for (int i = 0; i < 3; i++) out = count(ones({4}));
    cout << "total " << total.item() << ", scaled " << out.item() << '\n';
}

EXAMPLE("captures", "AUTO", 1)
{
    auto f = jit(
        [](const tensor &x) {
            tensor norm = x.square().sum().sqrt(), y = x * 2;
            if (norm.item() > 10) y = y / norm; // the graph breaks here
            return y;
        },
        {.capture = KILN_CAPTURE_AUTO});
    for (int i = 0; i < 4; i++) cout << f(full({4}, i < 3 ? 1 : 100)) << '\n';
    cout << f.stats().breaks << " breaks, " << f.stats().captures << " new recordings\n";
}

EXAMPLE("captures", "AUTO", 2)
{
    tensor x = ones({3});
    for (int i = 0; i < 3; i++) {
        KILN_CAPTURE(dev.get())
        {
            tensor y = (x + i) * 2;
            cout << y.sum().item() << '\n';
        }
    }
}

EXAMPLE("captures", "TRACE", 1)
{
    auto f =
        jit([](const tensor &x, const tensor &y) { return x / x.max().item() + y; }, {.capture = KILN_CAPTURE_TRACE});
    for (int i = 1; i <= 2; i++) cout << f(full({2}, 4.0 * i), zeros({2})) << '\n';
}

EXAMPLE("captures", "What the host changes", 1)
{
    double rate = 0.5;
    kiln_set_log([](void *, const char *message) { cout << message << '\n'; }, nullptr);
    auto f = jit([&](const tensor &x) { return (-x).exp() * rate; }, {.verify = 4, .name = "decay"});
    for (int i = 1; i <= 5; i++) {
        if (i == 3) rate = 0.25;
        cout << f(zeros({})).item() << '\n';
    }
}

EXAMPLE("captures", "Gradients", 1)
{
    auto net = nn::dense(3, 1, {.weight_init = "zeros", .bias_init = "zeros"});
    auto sgd = optim::sgd(net.parameters(), {.lr = 0.1});
    auto step = jit([&](const tensor &x, const tensor &y) {
        sgd.zero_grad();
        tensor loss = (net(x) - y).square().mean();
        loss.backward();
        sgd.step();
        return loss;
    });
    for (int i = 0; i < 3; i++) std::printf("loss %.4g\n", step(ones({8, 3}), full({8, 1}, 4)).item());
    std::printf("%d ops in %d launches a step\n", int(step.stats().nodes),
                int(step.stats().launches / step.stats().calls));
}

EXAMPLE("captures", "Gradients", 2)
{
    tensor p = parameter(ones({2}), "p");
    auto once = jit([](const tensor &x) {
        tensor loss = x.square().sum();
        loss.backward();
        return loss;
    });
    auto halves = jit([](const tensor &x, const tensor &of) {
        tensor loss = x.square().sum();
        loss.backward();
        set_gradient(of, of.grad() * 0.5);
        return loss;
    });
    once(p * 3);
    cout << p.grad() << '\n';
    try {
        halves(p * 3, p);
    } catch (const error &e) {
        cout << kiln_status_name(e.code()) << '\n';
    }
}

EXAMPLE("captures", "Giving inputs away", 1)
{
    const int64_t first[] = {0};
    auto f = jit([](const tensor &x, const tensor &rate) { return (x * rate + 0.1).tanh(); },
                 {.name = "next_state", .donate = {1, first}});
    tensor x = full({1000, 1000}, 1), rate = 0.5;
    dev.reset_stats();
    const uint64_t before_B = dev.stats().heap_used_B;
    for (int i = 0; i < 3; i++) x = f(x, rate); // the handle without a tensor goes
    cout << dev.stats().heap_peak_B - before_B << " bytes more\n";
    tensor y = f(x, rate);
    try {
        x + y;
    } catch (const error &e) {
        cout << kiln_status_name(e.code()) << '\n';
    }
}

EXAMPLE("captures", "The bits of results", 1)
{
    auto up_and_down = [](const tensor &x) { return (x + 0.3) - x; };
    tensor x = full({1}, 1000, f16);
    cout << "eager " << up_and_down(x).item() << '\n';
    for (bool eager : {false, true})
        cout << "captured " << jit(up_and_down, {.eager_rounding = eager})(x).item() << '\n';
}

EXAMPLE("captures", "Where capture is off", 1)
{
    auto f = jit(
        [](const tensor &x) {
            tensor y = -x.exp();
            {
                no_capture here;
                cout << (y.sum().item() < 0 ? "negative" : "not negative") << '\n';
            }
            return y * 2;
        },
        {.capture = KILN_CAPTURE_AUTO});
    tensor out;
    for (int i = 0; i < 2; i++) out = f(zeros({2}));
    cout << out << '\n' << f.stats().single_ops << " ops by themselves\n";
}

EXAMPLE("control-flow", "", 1)
{
    for (int n = 2; n <= 4; n++) {
        auto power = [n](const tensor &x) {
            tensor y = x;
            for (int i = 1; i < n; i++) y *= x;
            return y.item() > 10 ? y * 0.5 : y;
        };
        auto [value, by] = value_and_grad(power)(full({}, 2));
        cout << n << ": " << value.item() << ", gradient " << by.item() << '\n';
    }
}

EXAMPLE("control-flow", "", 2)
{
    tensor x{-2.0, -1.0, 1.0, 2.0};
    cout << where(x > 0, x.abs().sqrt(), x.square()) << '\n';
}

EXAMPLE("control-flow", "Conditions and loops in graphs", 1)
{
    auto root = jit([](const tensor &a) {
        return while_loop([&](const tensor &x) { return ((x.square() - a).abs() > 1e-4).any(); },
                          [&](const tensor &x) { return (x + a / x) * 0.5; }, a.ones_like());
    });
    auto sums = jit([](const tensor &rows) {
        auto add_row = [](const tensor &sum, const tensor &row) {
            tensor now = sum * 0.5 + row;
            return std::tuple(now, now.square());
        };
        return scan(add_row, rows[0].zeros_like(), rows);
    });
    cout << root(tensor{4.0, 9.0, 2.25}) << '\n';
    auto [last, squares] = sums(tensor{{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}});
    cout << last << '\n' << squares << '\n';
}

EXAMPLE("control-flow", "Conditions and loops in graphs", 2)
{
    auto put_all = jit([](const tensor &rows, const tensor &places) {
        auto put = [](const tensor &table, const tensor &row, const tensor &place) {
            tensor now = table.update_at(0, place, row.unsqueeze(0));
            return std::tuple(now, now.mean());
        };
        return scan(put, zeros({3, 2}), rows, places);
    });
    auto [table, means] = put_all(tensor{{1.0, 2.0}, {3.0, 4.0}}, tensor{2, 0});
    cout << table << '\n' << means << '\n';
}

EXAMPLE("control-flow", "Conditions and loops in graphs", 3)
{
    auto often = jit([](const tensor &x) {
        return for_loop(
            {.unroll = 4}, 10, [](const tensor &trip, const tensor &y) { return y * 0.5 + trip; }, x);
    });
    cout << often(tensor{1024.0, 0.0}) << '\n';
}

EXAMPLE("control-flow", "Conditions and loops in graphs", 4)
{
    const int steps = 200, batch = 4;
    auto net = nn::dense(1, 1, {.weight_init = "zeros"});
    auto params = net.parameters();
    auto adam = optim::adam(params);
    adam.set_schedule(optim::cosine(0.2, 0.001, 2 * steps));
    auto train = jit([&](const tensor &x, const tensor &y) {
        auto step = [&](const tensor &trip, const tensor &) {
            tensor at = trip * batch % 8;
            tensor loss = loss::mse(net(x.slice_at(0, at, batch)), y.slice_at(0, at, batch));
            adam.zero_grad();
            loss.backward();
            tensor norm = optim::clip_grad_norm(params, 1);
            cond(
                norm.isfinite(), [&] { adam.step(); }, [] {}); // a bad batch moves nothing
            return loss.detach();
        };
        return for_loop(steps, step, zeros({}));
    });
    tensor x = arange(0, 8, 1).reshape({8, 1});
    for (int call = 0; call < 2; call++) {
        tensor loss = train(x * 0.25, x * 0.5 + 3);
        std::printf("after %d steps: the loss is %s, y is %.3f x + %.3f\n", int(adam.steps()),
                    loss.item() < 1e-3 ? "small" : "large", params[0].item(), params[1].item());
    }
    std::printf("captures: %d\n", int(train.stats().captures));
}

EXAMPLE("host-calls", "", 1)
{
    auto counts = jit([](const tensor &x) {
        auto step = [](const tensor &trip, const tensor &v) {
            tensor bits = host_call(
                {KILN_HOST_PURE, {{i32, {4}}}},
                [](const tensor &of) {
                    std::vector<int32_t> each = of.to_vector<int32_t>();
                    for (int32_t &n : each) n = __builtin_popcount(unsigned(n));
                    return from_data(each);
                },
                v);
            debug_print("trip {}: {} in {}", trip, bits, v);
            assert_all(bits < 4, "too many bits in {}", v);
            return v + bits;
        };
        return for_loop(3, step, x);
    });
    cout << counts(from_data<int32_t>({1, 2, 4, 8})) << '\n';
    cout.flush();
    try {
        counts(from_data<int32_t>({1, 2, 4, 15}));
    } catch (const error &e) {
        std::printf("%s", e.code() == KILN_E_ASSERT ? "an assertion failed\n" : "");
    }
}

namespace {
struct query {
    std::string name;
    tensor place;
    KILN_FIELDS(name, place)
};
struct found {
    tensor values, line;
    KILN_FIELDS(values, line)
};
} // namespace

EXAMPLE("host-calls", "Bundles in and out", 1)
{
    auto look_up = [](const query &q) {
        const float place = q.place.item<float>();
        return found{from_data<float>({float(q.name.size()), place}), q.place + 1};
    };
    auto doubles = jit([&](const tensor &place) {
        const host_opts gives(KILN_HOST_READS, {{f32, {2}}, {i64, {}}});
        found f = host_call(gives, look_up, query{"weights", place});
        return std::tuple(f.values * 2, f.line);
    });
    for (int i = 3; i <= 4; i++) {
        auto [values, line] = doubles(full_int({}, i));
        cout << values << '\n' << line << '\n';
    }
}
