// Examples of cookbook.md: networks and training.
#include "guide.hpp"

EXAMPLE("cookbook", "See what a network is made of", 1)
{
    nn::sequential(nn::dense(4, 8), nn::relu(), nn::dense(8, 2)).print();
}

EXAMPLE("cookbook", "Freeze a part of a network", 1)
{
    auto net = nn::sequential(nn::dense(4, 8), nn::dense(8, 2));
    net.child("0").requires_grad(false);
    net(ones({1, 4})).sum().backward();
    auto said = [&](const char *name) { return net.parameter(name).grad().defined() ? "trained" : "frozen"; };
    cout << said("0.weight") << ", " << said("1.weight") << '\n';
}

EXAMPLE("cookbook", "Share weights between two cells", 1)
{
    auto embed = nn::embedding(5, 4), head = nn::identity();
    head.add_parameter("weight", embed.parameter("weight"));
    cout << embed.parameter("weight").is_same(head.parameter("weight")) << '\n';
}

EXAMPLE("cookbook", "Choose how weights begin", 1)
{
    auto layer = nn::dense(2, 2, {.weight_init = "eye", .bias_init = "0.5"});
    cout << layer(ones({1, 2})) << '\n';
}

EXAMPLE("cookbook", "Write a cell of my own", 1)
{
    const double by = 0.5;
    auto net = nn::sequential(nn::lambda([=](const tensor &x) { return x + by; }), nn::relu());
    cout << net(arange(-2, 2, 1)) << '\n';
}

EXAMPLE("cookbook", "Add up gradients over several batches", 1)
{
    tensor w = parameter(ones({2}), "w");
    auto sgd = optim::sgd({w}, {.lr = 0.5});
    for (int batch = 1; batch <= 4; batch++) {
        tensor loss = (w * batch).sum() / 4;
        loss.backward(kiln_backward_opts{.accumulate = true});
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
    const double before = optim::clip_grad_norm({w}, 1).item();
    std::printf("%.1f, then %.1f\n", before, w.grad().norm().item());
}

EXAMPLE("cookbook", "No weight decay for biases and norms", 1)
{
    auto net = nn::dense(2, 2);
    std::vector<tensor> decayed, free_of_it;
    for (const tensor &p : net.parameters()) (p.rank() > 1 ? decayed : free_of_it).push_back(p);
    auto opt = optim::adamw(decayed, {.lr = 1e-3, .weight_decay = 0.1});
    opt.add_group(free_of_it, {.weight_decay = KILN_ZERO});
    cout << decayed.size() << " and " << free_of_it.size() << '\n';
    MUST(opt.groups() == 2);
}

EXAMPLE("cookbook", "Let the rate rise, then fall", 1)
{
    auto s = optim::warmup(3, optim::cosine(1, 0, 10));
    for (int step = 0; step < 8; step++) std::printf("%s%.2f", step ? " " : "", s.lr(step));
    std::printf("\n");
}

EXAMPLE("cookbook", "Train in bf16", 1)
{
    auto layer = nn::dense(4, 2, {.dtype = KILN_BF16});
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
    auto [best, step] = t.best().value();
    cout << best << " at step " << step << '\n';
}

EXAMPLE("cookbook", "See what takes the time", 1)
{
    {
        profile run("run.json"); // as long as it lives
        tensor x = ones({64, 64});
        for (int i = 0; i < 3; i++) x = x.matmul(x).relu();
    }
    const std::unique_ptr<FILE, int (*)(FILE *)> table(std::fopen("run.txt", "w"), std::fclose);
    profile_print(table.get()); // the same as a table
    std::fflush(table.get());
    MUST(read_all("run.txt").find("matmul") != std::string::npos);
    MUST(read_all("run.json").find("matmul") != std::string::npos);
    cout << "written\n";
}

EXAMPLE("cookbook", "Take the gradient of a function, and the gradient of that", 1)
{
    tensor x = parameter(full({}, 3), "x");
    tensor first = gradient(x.cube(), x, true); // 3 x^2
    tensor second = gradient(first, x);         // 6 x
    cout << first.item() << ' ' << second.item() << '\n';
}

EXAMPLE("cookbook", "Train on a part of a result", 1)
{
    tensor w = parameter(ones({2}), "w");
    tensor target = (w * 3).detach(); // a value, as far as gradients go
    (w * target).sum().backward();
    cout << w.grad() << '\n';
}
