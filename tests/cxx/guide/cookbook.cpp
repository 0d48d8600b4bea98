// Examples of cookbook.md.
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
    std::vector<float> values = x.to_vector(); // waits for the device
    cout << values[0] << ' ' << values[3] << ", mean " << x.mean().item() << '\n';
}

EXAMPLE("cookbook", "Keep a tensor after its scope has ended", 1)
{
    tensor x;
    {
        scope inner;
        x = ones({2}); // a value holds what it names, whatever scope it was made in
    }
    cout << x << '\n';
}

EXAMPLE("cookbook", "Go on with a value in place of the last one", 1)
{
    tensor h = ones({2});
    for (int i = 0; i < 3; i++) h = (h + h) * 2; // an assignment frees the old value
    cout << h << '\n';
}

EXAMPLE("cookbook", "Normalise each row", 1)
{
    tensor x{{1.0, 3.0}, {2.0, 6.0}};
    cout << (x - x.mean(1, true)) / x.std(1, true) << '\n';
}

EXAMPLE("cookbook", "Take rows by number, and elements by a condition", 1)
{
    tensor x = arange(0, 6, 1, i32).reshape({3, 2});
    cout << x(tensor{2, 0}) << '\n' << masked_select(x, x > 2) << '\n';
}

EXAMPLE("cookbook", "Write into a part of a tensor", 1)
{
    tensor x = zeros({3, 3});
    x.set(7, 1, slice(0, 2)); // x[1, 0:2] = 7
    cout << x << '\n';
}

EXAMPLE("cookbook", "Replace what is no number", 1)
{
    tensor x{1.0, double(NAN), 3.0};
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
    std::vector<tensor> part = arange(0, 6, 1).split(3, 0); // views
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
    double first = normal({1}, 0, 1).item();
    dev.seed(7);
    cout << (first == normal({1}, 0, 1).item() ? "the same" : "others") << '\n';
}

EXAMPLE("cookbook", "Solve a linear system", 1)
{
    cout << tensor{{2.0, 1.0}, {1.0, 3.0}}.solve(tensor{{3.0}, {5.0}}) << '\n';
}

EXAMPLE("cookbook", "Find out what failed, and where", 1)
{
    try {
        ones({2, 3}).matmul(ones({2, 3})).relu();
    } catch (const error &e) {
        cout << e.what() << '\n';
        MUST(e.code() == KILN_E_SHAPE && e.file() == "cookbook.cpp" && e.line() > 0);
    }
}

EXAMPLE("cookbook", "End the program at the first error", 1)
{
    cout << ones({2}) << '\n'; // an exception that nobody catches ends the program, with its message
}

EXAMPLE("cookbook", "Find the op that made NaN", 1)
{
    tensor x = tensor{1.0, -1.0}.log();
    if (!x.isfinite().all().item()) cout << "the logarithm of a negative number\n";
}

EXAMPLE("cookbook", "See what a network is made of", 1)
{
    nn::sequential(nn::dense(4, 8), nn::relu(), nn::dense(8, 2)).print();
}

EXAMPLE("cookbook", "Freeze a part of a network", 1)
{
    auto net = nn::sequential(nn::dense(4, 8), nn::dense(8, 2));
    net.child("0").requires_grad(false);
    net(ones({1, 4})).sum().backward();
    cout << (net.parameter("0.weight").grad().defined() ? "trained" : "frozen") << ", "
         << (net.parameter("1.weight").grad().defined() ? "trained" : "frozen") << '\n';
}

EXAMPLE("cookbook", "Share weights between two cells", 1)
{
    auto embed = nn::embedding(5, 4), head = nn::identity();
    head.add_parameter("weight", embed.parameter("weight"));
    cout << embed.parameter("weight").is_same(head.parameter("weight")) << '\n';
}

EXAMPLE("cookbook", "Choose how weights begin", 1)
{
    cout << nn::dense(2, 2, {.weight_init = "eye", .bias_init = "0.5"})(ones({1, 2})) << '\n';
}

EXAMPLE("cookbook", "Write a cell of my own", 1)
{
    double by = 0.5;
    auto net = nn::sequential(nn::lambda([=](const tensor &x) { return x + by; }), nn::relu());
    cout << net(arange(-2, 2, 1)) << '\n';
}

EXAMPLE("cookbook", "Add up gradients over several batches", 1)
{
    tensor w = parameter(ones({2}), "w");
    auto sgd = optim::sgd({w}, {.lr = 0.5});
    for (int batch = 1; batch <= 4; batch++) {
        ((w * batch).sum() / 4).backward(kiln_backward_opts{.accumulate = true});
        if (batch % 4) continue;
        sgd.step();
        sgd.zero_grad();
    }
    cout << w << '\n';
}

EXAMPLE("cookbook", "Bound the gradient", 1)
{
    tensor w = parameter(ones({2}), "w");
    (w * tensor{30.0, 40.0}).sum().backward();
    tensor before = optim::clip_grad_norm({w}, 1);
    std::printf("%.1f, then %.1f\n", before.item(), w.grad().norm().item());
}

EXAMPLE("cookbook", "No weight decay for biases and norms", 1)
{
    auto net = nn::dense(2, 2);
    std::vector<tensor> decayed, free_of_it;
    for (const tensor &p : net.parameters()) (p.rank() > 1 ? decayed : free_of_it).push_back(p);
    auto opt = optim::adamw(decayed, {.lr = 1e-3, .weight_decay = 0.1});
    opt.add_group(free_of_it, {.weight_decay = KILN_ZERO});
    cout << decayed.size() << " and " << free_of_it.size() << '\n';
}

EXAMPLE("cookbook", "Let the rate rise, then fall", 1)
{
    auto s = optim::warmup(3, optim::cosine(1, 0, 10));
    for (int step = 0; step < 8; step++) std::printf("%s%.2f", step ? " " : "", s.lr(step));
    std::printf("\n");
}

EXAMPLE("cookbook", "Train in bf16", 1)
{
    auto layer = nn::dense(4, 2, {.dtype = bf16});
    layer(ones({1, 4}, bf16)).to(f32).mean().backward();
    cout << name_of(layer.parameter("weight").grad().dtype()) << '\n';
}

EXAMPLE("cookbook", "Log losses, and stop when nothing gets better", 1)
{
    training t("", {.epochs = 9, .progress = "none", .monitor = "valid", .patience = 2});
    const double losses[] = {1.0, 0.8, 0.9, 0.85, 0.81};
    while (t.epoch()) {
        t.step(); // once a batch
        t.log("valid", losses[t.steps() - 1]);
    }
    cout << t.best()->first << " at step " << t.best()->second << '\n';
}

EXAMPLE("cookbook", "See what takes the time", 1)
{
    {
        profile now("run.json"); // as long as it lives; or KILN_PROFILE=run.json in the environment
        tensor x = ones({64, 64});
        for (int i = 0; i < 3; i++) x = x.matmul(x).relu();
    }
    FILE *table = std::fopen("run.txt", "w");
    profile_print(table);
    std::fclose(table);
    MUST(read_all("run.txt").find("matmul") != std::string::npos);
    MUST(read_all("run.json").find("matmul") != std::string::npos);
    cout << "written\n";
}

EXAMPLE("cookbook", "Take the gradient of a function, and the gradient of that", 1)
{
    tensor x = parameter(full({}, 3), "x");
    tensor first = gradients(x.cube(), {x}, true)[0]; // 3 x^2
    tensor second = gradients(first, {x})[0];         // 6 x
    cout << first.item() << ' ' << second.item() << '\n';
}

EXAMPLE("cookbook", "Train on a part of a result", 1)
{
    tensor w = parameter(ones({2}), "w");
    tensor target = (w * 3).detach(); // a value, as far as gradients go
    (w * target).sum().backward();
    cout << w.grad() << '\n';
}

EXAMPLE("cookbook", "Compile a function", 1)
{
    auto area = jit([](const tensor &radius) { return radius.square() * 3.14159; });
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
    cout << '[' << y.size(0) << ", " << y.size(1) << "] by " << net.stats().programs << " program\n";
}

EXAMPLE("cookbook", "Repeat something in a graph", 1)
{
    tensor one = full_int({}, 1);
    auto next = [](const tensor &, const tensor &a, const tensor &b) { return std::tuple(b, a + b); };
    cout << std::get<0>(for_loop(10, next, one, one)) << '\n'; // eagerly, or as one node of a graph
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
    for (const auto &entry : adam.state()) all.push_back(entry);
    checkpoint c;
    c.put(all);
    c.put("steps", adam.steps());
    c.save("run.ckpt");
    for (const auto &entry : all) cout << entry.first << '\n';

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
    cout << ones({2}).to(cpu) + 1 << '\n';
}

EXAMPLE("cookbook", "Measure time", 1)
{
    tensor x = ones({64, 64});
    dev.mark(0);
    x = x.matmul(x);
    dev.mark(1);
    cout << (dev.elapsed(0, 1) > 0 ? "the device's own time" : "no clock") << '\n';
}
