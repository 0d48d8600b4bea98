// Examples of cookbook.md: tensors, errors, graphs, files, devices. Those of networks and training are in steps.cpp.
#include "guide.hpp"

#include <cmath>

EXAMPLE("cookbook", "Make a tensor of numbers that I have", 1)
{
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    cout << from_data(values, {2, 3}) << '\n'; // the size is compared
}

EXAMPLE("cookbook", "Get numbers out of a tensor", 1)
{
    tensor x = arange(0, 4, 1);
    const std::vector<float> values = x.to_vector(); // waits for the device
    cout << values[0] << ' ' << values[3] << ", mean " << x.mean().item() << '\n';
}

EXAMPLE("cookbook", "Keep a tensor after its scope has ended", 1)
{
    tensor x;
    {
        scope inner;
        x = ones({2}); // no scope owns it: it lives as long as a handle on it
    }
    cout << x << '\n';
}

EXAMPLE("cookbook", "Normalise each row", 1)
{
    tensor x{{1.0, 3.0}, {2.0, 6.0}};
    cout << (x - x.mean(1, true)) / x.std(1, true) << '\n';
}

EXAMPLE("cookbook", "Take rows by number, and elements by a condition", 1)
{
    tensor x = arange(0, 6, 1, i32).reshape({3, 2}), ids{2, 0};
    cout << x[ids] << '\n' << x[x > 2] << '\n';
}

EXAMPLE("cookbook", "Write into a part of a tensor", 1)
{
    tensor x = zeros({3, 3});
    x.set(7, 1, slice(0, 2)); // x[1, 0:2] = 7
    cout << x << '\n';
}

EXAMPLE("cookbook", "Replace what is no number", 1)
{
    tensor x{1.0, std::nan(""), 3.0};
    cout << where(x.isnan(), 0, x) << '\n';
}

EXAMPLE("cookbook", "Sort, and find the k largest", 1)
{
    tensor x{3.0, 1.0, 4.0, 2.0};
    auto [best, where] = x.topk(2, 0, true);
    cout << best << '\n' << where << '\n' << x.argsort(0) << '\n';
}

EXAMPLE("cookbook", "Split a tensor, and put it together again", 1)
{
    const std::vector<tensor> part = arange(0, 6, 1).split(3); // views
    cout << stack(part, 0) << '\n' << concat({part[2], part[0]}, 0) << '\n';
}

EXAMPLE("cookbook", "Multiply matrices by letters", 1)
{
    tensor scores = einsum("bqd,bkd->bqk", {ones({2, 3, 4}), ones({2, 5, 4})});
    cout << '[' << scores.size(0) << ", " << scores.size(1) << ", " << scores.size(2) << "]\n";
}

EXAMPLE("cookbook", "Draw the same random numbers again", 1)
{
    dev.seed(7);
    const double first = normal({1}, 0, 1).item();
    dev.seed(7);
    cout << (first == normal({1}, 0, 1).item() ? "the same" : "others") << '\n';
}

EXAMPLE("cookbook", "Solve a linear system", 1)
{
    tensor a{{2.0, 1.0}, {1.0, 3.0}}, b{{3.0}, {5.0}};
    cout << a.solve(b) << '\n';
}

EXAMPLE("cookbook", "Find out what failed, and where", 1)
{
    try {
        tensor x = ones({2, 3}).matmul(ones({2, 3}));
        cout << x.relu() << '\n'; // is not reached
    } catch (const error &e) {
        cout << e.what() << '\n';
        MUST(e.code() == KILN_E_SHAPE && e.file() == "cookbook.cpp" && e.line() > 0);
    }
}

EXAMPLE("cookbook", "End the program at the first error", 1)
{
    cout << ones({2}) << '\n'; // an error that nobody catches ends the program, with its message
}

EXAMPLE("cookbook", "Find the op that made NaN", 1)
{
    if (!tensor{1.0, -1.0}.log().isfinite().all().item()) cout << "the logarithm of a negative number\n";
}

EXAMPLE("cookbook", "Compile a function", 1)
{
    auto area = jit([](const tensor &r) { return r.square() * 3.14159; });
    cout << area(arange(0, 3, 1)) << '\n';
}

EXAMPLE("cookbook", "Hand a number to a graph without compiling anew", 1)
{
    auto scaled = jit([](const tensor &x, const tensor &by) { return (x * by - 1).relu(); });
    tensor y;
    for (int i = 1; i < 4; i++) y = scaled(ones({2}), mutable_number(i));
    cout << y.max().item() << " after " << scaled.stats().captures << " capture\n";
}

EXAMPLE("cookbook", "Run a network as a graph", 1)
{
    auto net = nn::sequential(nn::dense(4, 2, {.weight_init = "ones"}), nn::relu());
    net.jit(); // from now on its calls are those of a captured function
    tensor y = net(ones({1, 4}));
    cout << '[' << y.size(0) << ", " << y.size(1) << "] by " << net.jit_stats().programs << " program\n";
}

EXAMPLE("cookbook", "Repeat something in a graph", 1)
{
    tensor one = full_int({}, 1);
    auto next = [](const tensor &, const tensor &a, const tensor &b) { return std::tuple(b, a + b); };
    auto [a, b] = for_loop(10, next, one, one); // eagerly, or as one node of a graph
    cout << a << '\n';
}

EXAMPLE("cookbook", "Save and load weights", 1)
{
    auto net = nn::dense(2, 1, {.weight_init = "ones"}), again = nn::dense(2, 1);
    net.save("dense.safetensors");
    archive file("dense.safetensors");
    again.load(file);
    cout << again.parameter("weight") << '\n';
}

EXAMPLE("cookbook", "Load a part of someone else's weights", 1)
{
    safetensors_save("theirs.safetensors", {{"encoder.proj.weight", full({1, 2}, 5)}});
    auto net = nn::dense(2, 1);
    archive file("theirs.safetensors");
    net.load(file, {.prefix = "encoder.proj.", .partial = true}); // the bias stays
    cout << net.parameter("weight") << '\n';
}

EXAMPLE("cookbook", "Go on with training where it stopped", 1)
{
    tensor w = parameter(ones({2}), "w");
    auto adam = optim::adam({w});
    set_gradient(w, ones({2}));
    adam.step();

    named_tensors all = {{"w", w}};
    for (const auto &each : adam.state()) all.push_back(each);
    checkpoint c;
    c.put(all);
    c.put("steps", adam.steps());
    c.save("run.ckpt");
    for (const auto &[name, value] : all) cout << name << '\n';

    const std::vector<float> before = w.to_vector();
    no_grad off;
    w.assign(0);
    checkpoint saved("run.ckpt");
    saved.restore(all);
    adam.set_steps(saved.get_int("steps"));
    MUST(w.to_vector() == before && before[0] < 1 && adam.steps() == 1);
}

EXAMPLE("cookbook", "Read a NumPy file", 1)
{
    npy_save("x.npy", arange(0, 3, 1));
    cout << npy_load("x.npy") << '\n';
}

EXAMPLE("cookbook", "Use the GPU if there is one", 1)
{
    cout << dev.info().kind << '\n';
}

EXAMPLE("cookbook", "Run one program on two devices", 1)
{
    device cpu("cpu");
    tensor there = ones({2}).to(cpu);
    cout << there + 1 << '\n';
}

EXAMPLE("cookbook", "Measure time", 1)
{
    tensor x = ones({64, 64});
    dev.mark(0);
    x = x.matmul(x);
    dev.mark(1);
    cout << (dev.elapsed(0, 1) > 0 ? "the device's own time" : "no clock") << '\n';
}
