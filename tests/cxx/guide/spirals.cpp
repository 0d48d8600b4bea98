// Examples of getting-started.md that it quotes of a program, and that program by its parts.
#include "guide.hpp"

#include <cmath>

namespace {

constexpr int POINTS = 512, BATCH = 64;

cell make_net()
{
    return nn::sequential(nn::dense(2, 32), nn::gelu(), nn::dense(32, 32), nn::gelu(), nn::dense(32, 2));
}

// Points [POINTS, 2] of two spirals, in turn, and the number of the spiral of each.
struct spirals {
    std::vector<float> points;
    std::vector<int32_t> labels;
    spirals()
    {
        for (int i = 0; i < POINTS; i++) {
            const double t = 0.5 + 5.5 * i / POINTS, side = i % 2 ? M_PI : 0;
            for (double each : {std::cos(t + side), std::sin(t + side)}) points.push_back(float(t / 6 * each));
            labels.push_back(i % 2);
        }
    }
    loader load() const
    {
        loader l({}, {.batch = BATCH, .shuffle = true, .seed = 1});
        l.add_host(f32, {POINTS, 2}, points.data());
        l.add_host(i32, {POINTS}, labels.data());
        return l;
    }
};

// One pass over the data; gives the mean loss of its batches.
template <class F> double epoch(loader &data, F &train)
{
    double sum = 0;
    while (data.next()) sum += train(data[0], data[1]).item();
    return sum / double(data.batches());
}

// A step as a function of points and labels: it runs op by op, and as a graph.
auto step_of(const cell &net, optimiser &opt)
{
    return [&](const tensor &points, const tensor &labels) {
        tensor loss = net(points).cross_entropy(labels);
        loss.backward();
        opt.step();
        return loss;
    };
}

double accuracy(const cell &net, loader &data)
{
    double right = 0;
    net.eval();
    no_grad off;
    while (data.next()) right += (net(data[0]).argmax(-1) == data[1]).sum().item();
    return right / double(data.samples());
}

} // namespace

EXAMPLE("getting-started", "A network", 1)
{
    auto net = make_net();
    MUST(net(ones({5, 2})).shape() == (std::vector<int64_t>{5, 2}));
    MUST(net.parameter_count() == 2 * 32 + 32 + 32 * 32 + 32 + 32 * 2 + 2);
}

EXAMPLE("getting-started", "A network", 2)
{
    const spirals s;
    loader data = s.load();
    MUST(data.samples() == POINTS && data.batches() == POINTS / BATCH);
    tensor labels = zeros({});
    while (data.next()) {
        MUST(data[0].shape() == (std::vector<int64_t>{BATCH, 2}));
        labels += data[1].sum();
    }
    MUST(labels.item() == POINTS / 2);
}

EXAMPLE("getting-started", "Training", 1)
{
    auto net = make_net();
    auto opt = optim::adamw(net.parameters(), {.lr = 0.01});
    auto step = step_of(net, opt);
    const spirals s;
    tensor points = from_data(s.points, {POINTS, 2}), labels = from_data(s.labels);
    const double first = step(points, labels).item(); // op by op
    MUST(std::abs(first - std::log(2)) < 0.1);
    MUST(step(points, labels).item() < first);
    auto graph = jit(step);
    MUST(graph(points, labels).item() < first && graph.stats().captures == 1);
}

EXAMPLE("getting-started", "Training", 2)
{
    auto net = make_net();
    auto opt = optim::adamw(net.parameters(), {.lr = 0.01});
    net.train();
    MUST(net.is_training() && net.parameters().size() == 6 && opt.lr() == 0.01);
}

namespace {

// The network as the program trains it: some epochs op by op, the rest as a graph; prints losses as the program does.
struct trained {
    spirals s;
    loader data = s.load();
    cell net = make_net();
    optimiser opt = optim::adamw(net.parameters(), {.lr = 0.01});
    std::vector<double> losses;

    template <class F> void run(F &step, int epochs)
    {
        net.train();
        for (int i = 0; i < epochs; i++) losses.push_back(epoch(data, step));
    }
};

} // namespace

EXAMPLE("getting-started", "Training", 3)
{
    dev.seed(1);
    trained t;
    auto step = step_of(t.net, t.opt);
    t.run(step, 4);
    MUST(std::abs(t.losses[0] - 0.645) < 0.01 && std::abs(t.losses[3] - 0.567) < 0.01); // as the page states
}

EXAMPLE("getting-started", "Training", 4)
{
    trained t;
    const double guessed = accuracy(t.net, t.data);
    MUST(!t.net.is_training() && guessed > 0.2 && guessed < 0.8);
}

EXAMPLE("getting-started", "As one graph", 1)
{
    dev.seed(1);
    trained t;
    auto step = jit(step_of(t.net, t.opt), {.name = "step"});
    {
        no_capture here;
        t.run(step, 4);
    }
    t.run(step, 60);
    MUST(std::abs(t.losses[3] - 0.567) < 0.01 && std::abs(t.losses[4] - 0.564) < 0.02 && t.losses[63] < 0.001);
    MUST(accuracy(t.net, t.data) == 1);
    MUST(step.stats().captures == 1);
}

EXAMPLE("getting-started", "Saved and loaded", 1)
{
    auto net = make_net();
    safetensors_save("spirals.safetensors", net.state());
    MUST(archive("spirals.safetensors").count() == 6);
}

EXAMPLE("getting-started", "Saved and loaded", 2)
{
    auto net = make_net(), again = make_net();
    safetensors_save("spirals.safetensors", net.state());
    auto file = archive::safetensors("spirals.safetensors");
    again.load(file);
    tensor x{{0.5, 0.1}, {-1.0, 2.0}};
    MUST(net(x).array_equal(again(x), false).item() == 1);
}

EXAMPLE("getting-started", "Without the code", 1)
{
    auto net = make_net();
    const int64_t batch = symbol("batch");
    auto f = jit([&](const tensor &points) { return net(points); }, {.input_types = types{{f32, {batch, 2}}}});
    {
        no_grad off;
        model m;
        m.add("main", {{"points"}, {"logits"}}, f, zeros({4, 2}));
        m.save("spirals.kiln");
    }
    auto g = model("spirals.kiln").function();
    for (int64_t rows : {1, 4, 7}) {
        tensor x = normal({rows, 2}, 0, 1);
        MUST(g(x).allclose(net(x)).item() == 1);
    }
}
