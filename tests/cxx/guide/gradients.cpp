// Examples of gradients.md, modes.md, execution.md, errors.md, deployment.md, onnx.md, graphs.md, shapes.md.
#include "guide.hpp"

#include <cmath>

EXAMPLE("gradients", "The tape", 1)
{
    tensor w = parameter(tensor{1.0, 2.0, 3.0}, "w"), loss = w.square().sum();
    loss.backward();
    cout << w.grad() << '\n';
}

EXAMPLE("gradients", "Gradients of functions", 1)
{
    auto f = [](const tensor &x, const tensor &y, const tensor &z) { return x * y.exp() * z.square(); };
    auto with_z = [&](const tensor &x, const tensor &y, const tensor &z) { return std::tuple(f(x, y, z), z); };
    tensor x = full({2}, 3), y = zeros({2}), z = full({2}, 5);
    cout << grad(f)(x, y, z) << '\n'; // by the first input
    auto [values, by] = value_and_grad(with_z, {1, 2})(x, y, z);
    cout << by[0] << '\n' << by[1] << '\n' << std::get<1>(values) << '\n'; // by y, by z, and z itself
    auto weighted = [&](const tensor &a) { return (f(a, y, z) * x).sum(); };
    cout << f(x, y, z) << '\n' << grad(weighted)(x) << '\n'; // the value, and 3 times the gradient
}

EXAMPLE("gradients", "Higher orders", 1)
{
    auto cube = [](const tensor &x) { return x.square() * x; };
    tensor x = full({}, 2, f64);
    cout << "second derivative of x^3 at 2: " << grad(grad(cube))(x).item() << '\n';
    gradcheck(cube, {.order = 2}, x);
    cout << "both orders agree with differences\n";
}

EXAMPLE("gradients", "Losses of derivatives", 1)
{
    tensor w = parameter(full({1}, 3), "w"), x = full({1}, 2);
    auto curve = [&](const tensor &at) { return (w * at.square()).sum(); }; // w x^2
    tensor slope = grad(curve, true)(x);                                    // 2 w x
    slope.square().sum().backward();                                        // 4 w^2 x^2
    cout << w.grad() << '\n';                                               // 8 w x^2
    grad(curve)(x).square().sum().backward();
}

EXAMPLE("gradients", "Losses of derivatives", 2)
{
    tensor x = parameter(full({1}, 2), "x"), y = x.pow(3);
    tensor first = gradient(y, x, true), second = gradient(first, x);
    cout << first << '\n' << second << '\n';
}

EXAMPLE("gradients", "Where there is no tape", 1)
{
    tensor w = parameter(ones({2}), "w");
    gradient(w.square().detach().sum(), w);
}

EXAMPLE("gradients", "The registry of rules", 1)
{
    static int calls;
    register_bprop("mul",
                   [](const std::vector<tensor> &in, const std::vector<tensor> &, const std::vector<tensor> &dout) {
                       calls++;
                       return std::tuple(in[1] * dout[0], in[0] * dout[0]);
                   });
    tensor x = parameter(ones({2, 3}), "x"), z = parameter(full({1}, 2), "z");
    x.mul(z).sum().backward();
    cout << x.grad() << '\n' << z.grad() << '\n'; // summed over what was broadcast
    cout << calls << " call\n";
    register_bprop("mul"); // the library's own again
}

EXAMPLE("gradients", "The registry of rules", 2)
{
    register_op({.name = "swish2",
                 .n_in = 1,
                 .expr = "x / (1 + exp(-2 * x))",
                 .grad = {"s = 1 / (1 + exp(-2 * x)); dy * (s + 2 * x * s * (1 - s))"}});
    tensor x = parameter(zeros({2}), "x");
    apply("swish2", x).sum().backward();
    cout << x.grad() << '\n';
}

EXAMPLE("gradients", "Hooks", 1)
{
    tensor w = parameter(ones({3}), "w"), h = w * 4;
    auto halve = register_hook(h, [](const tensor &grad) { return grad * 0.5; });
    h.sum().backward();
    cout << w.grad() << '\n';
}

EXAMPLE("gradients", "Writes and versions", 1)
{
    tensor w = parameter(ones({2}), "w"), h = w.exp(), loss = h.sum();
    h.add_(1);
    loss.backward();
}

EXAMPLE("gradients", "Writes and versions", 2)
{
    tensor w = parameter(ones({2}), "w");
    try {
        w.mul_(2);
    } catch (const error &e) {
        cout << e.what() << '\n';
    }
    no_grad off;
    cout << w.mul_(2) << '\n';
}

EXAMPLE("gradients", "The reverse graph", 1)
{
    tensor x = parameter(ones({2, 3}), "x");
    backward_graph((x * 2.0).matmul(ones({3, 3}))).print();
}

EXAMPLE("modes", "Eager mode", 1)
{
    cout << tensor{1.0, 2.0, 3.0} * tensor{4.0, 5.0, 6.0} << '\n';
}

EXAMPLE("modes", "A captured function", 1)
{
    auto weights = [](const tensor &x, const tensor &mask) { return (x * 0.5 + mask).softmax(-1); };
    tensor x = ones({2, 4}), mask = zeros({2, 4});
    uint64_t before = dev.stats().launches;
    weights(x, mask);
    cout << "eager: " << dev.stats().launches - before << " launches\n";
    auto captured = jit(weights);
    before = dev.stats().launches;
    tensor out = captured(x, mask);
    cout << "captured: " << dev.stats().launches - before << " launch\n" << out << '\n';
}

EXAMPLE("modes", "Graph mode", 1)
{
    auto net = nn::dense(3, 2);
    tensor x = ones({4, 3}), first = net(x);
    set_mode(KILN_MODE_GRAPH);
    tensor second = net(x);
    set_mode(KILN_MODE_EAGER);
    cout << ((first - second).abs().max().item() < 1e-6 ? "the same" : "different") << '\n';
}

EXAMPLE("execution", "Devices", 1)
{
    device other("cpu");
    tensor a = ones({2}, f32, dev), b = ones({2}, f32, other);
    try {
        a + b;
    } catch (const error &e) {
        cout << kiln_status_name(e.code()) << '\n';
    }
    cout << a + b.to(dev) << '\n';
}

EXAMPLE("execution", "Asynchronous execution", 1)
{
    tensor x = ones({64, 64});
    for (int i = 0; i < 10; i++) x = x.matmul(x) * (1.0 / 64);
    cout << x.mean().item() << '\n'; // waits here
    cout << dev.stats().launches << " launches\n";
}

EXAMPLE("execution", "Printing", 1)
{
    cout << arange(0, 6, 1) / 3 << '\n';
    cout << from_data<double>({1, 1e9, -0.001, INFINITY}, {2, 2}) << '\n';
    cout << arange(0, 2000, 1, i32) << '\n' << full({2, 1}, 1, boolean) << '\n';
}

EXAMPLE("errors", "Errors are sticky", 1)
{
    tensor a = ones({2, 3}), b = ones({4, 5});
    try {
        tensor y = (a.matmul(b) + 1).relu();
    } catch (const error &e) {
        cout << kiln_status_name(e.code()) << ": " << e.what() << '\n';
    }
    cout << a.sum() << '\n';
}

EXAMPLE("errors", "Who owns a handle", 1)
{
    tensor b, c;
    {
        tensor a = ones({2});
        b = a + a; // copies share a tensor, the last one frees it
        c = a * a;
    }
    cout << b << '\n' << c << '\n';
}

EXAMPLE("deployment", "", 1)
{
    tensor w = parameter(ones({3, 2}), "w"), b = parameter(zeros({2}), "b");
    const int64_t batch = symbol("batch", {.max = 64, .unique = true});
    auto f =
        jit([&](const tensor &x) { return (x.matmul(w) + b).softmax(-1); }, {.input_types = types{{f32, {batch, 3}}}});
    model made;
    made.add("main", model_names{{"features"}, {"classes"}}, f, ones({4, 3}));
    made.save("net.kiln");
    model m("net.kiln"); // in another process, most of the time
    auto g = m.function();
    for (int rows = 1; rows < 3; rows++) cout << g(ones({rows, 3})) << '\n';
    g(ones({65, 3}));
}

EXAMPLE("deployment", "What goes into a file", 1)
{
    auto net = nn::sequential(nn::dense(4, 3), nn::relu());
    model m;
    m.name_weights(net.state());
    cout << net.state()[0].first << ", " << net.state()[1].first << '\n';
}

EXAMPLE("onnx", "Writing", 1)
{
    auto net = nn::dense(3, 2);
    auto f = jit([&](const tensor &x) { return net(x); });
    graph_export("net.onnx", f, ones({4, 3}));
    model m("net.onnx");
    cout << 0 << '\n' << m.outputs()[0].name << ": " << m.outputs()[0].text << '\n';
}

EXAMPLE("graphs", "", 1)
{
    graph g("%0: f32[2,3] = input \"x\"\n"
            "%2: f32[2,3] = mul(%0, 2.5)\n"
            "%3: f32[2] = sum(%2) {axes = [1], keepdims = false}\n"
            "return %3 \"y\"\n");
    cout << g.nodes() << " nodes, " << g.inputs() << " inputs" << std::endl;
    g.print();
}

EXAMPLE("graphs", "", 2)
{
    graph g("%0: f32[2,3] = input \"x\"\n"
            "%1: f32[2,3] = input \"y\"\n"
            "%2: f32[2,2] = matmul(%0, %1)\n");
}

EXAMPLE("shapes", "New sizes", 1)
{
    auto f = jit([](const tensor &x) { return (x * 0.5).softmax(-1); });
    uint64_t before = 0;
    for (int length = 100; length < 140; length++) {
        f(ones({8, length}));
        if (length == 129) before = f.stats().kernels_compiled;
    }
    const auto s = f.stats();
    std::printf("%d captures, %d of them followed another, %d programs\n", int(s.captures), int(s.reused),
                int(s.programs));
    std::printf("%d kernels after the first of each order, %d calls in eager mode\n", int(s.kernels_compiled - before),
                int(s.fallbacks));
}

EXAMPLE("shapes", "Declared dimensions", 1)
{
    const int64_t batch = symbol("batch of classify", {.max = 64});
    const int64_t width = symbol("width", {.divisor = 8, .unique = true});
    auto f = jit([](const tensor &x, const tensor &y) { return x.matmul(y).argmax(-1); },
                 {.input_types = types{{f32, {batch, width}}, {f32, {width, 10}}}});
    f(ones({3, 12}), ones({12, 10}));
}

EXAMPLE("shapes", "Sizes that depend on values", 1)
{
    auto positive = jit([](const tensor &x) { return masked_select_sized(x, x > 0, 4, -1); });
    for (const tensor &x : {tensor{3.0, -1.0, 2.0, -5.0, 7.0}, tensor{-2.0, -3.0, 9.0, -4.0, -1.0}}) {
        auto [values, count] = positive(x);
        cout << values << '\n' << count.item<int>() << " of them\n";
    }
}
