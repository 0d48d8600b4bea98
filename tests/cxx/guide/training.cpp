// Examples of training.md and getting-started.md.
#include "guide.hpp"

#include <cmath>
#include <fstream>

EXAMPLE("training", "", 1)
{
    tensor x = normal({64, 8}, 0, 1), y = x.sum(1, true);
    auto net = nn::dense(8, 1);
    auto opt = optim::sgd(net.parameters(), {.lr = 0.1});

    training t("", {.epochs = 3, .progress = "none"});
    while (t.epoch()) {
        for (int i = 0; i < 20 && t.goes_on(); i++) {
            tensor loss = loss::mse(net(x), y);
            loss.backward();
            opt.step();
            opt.zero_grad();
            t.log("train/loss", loss);
            t.log("lr", opt.lr());
            t.step();
        }
    }
    auto rows = t.history("train/loss");
    std::printf("%d steps, %zu rows, the last at step %d; the loss fell: %s\n", int(t.steps()), rows.size(),
                int(rows[5].first), rows[5].second < 1e-3 * rows[0].second ? "yes" : "no");
}

EXAMPLE("training", "Metrics", 1)
{
    tensor scores{{0.9, 0.1}, {0.2, 0.8}, {0.7, 0.3}, {0.4, 0.6}}, labels{0, 1, 1, 1};
    metric m({.classes = 2, .auroc = true, .average = "binary"});
    for (int i = 0; i < 4; i += 2) m.update(scores[slice(i, i + 2)], labels[slice(i, i + 2)]);
    std::printf("accuracy %.2f, recall %.2f, area %.2f\n", m.value("accuracy"), m.value("recall"), m.value("auroc"));
    std::fflush(stdout);
    cout << m.matrix() << '\n';
}

EXAMPLE("training", "Curves", 1)
{
    training t("", {.progress = "none", .log_every = 1});
    for (int i = 0; i < 100; i++) {
        t.log("train/loss", std::exp(-0.05 * i));
        t.step();
    }
    t.save_curves("loss.svg", {.names = KILN_NAMES("train/loss"), .log_y = true});
    t.save_curves("page.html", {.title = "An example"});

    MUST(t.history("train/loss").size() == 100);
    MUST(read_all("loss.svg").find("train/loss") != std::string::npos);
    MUST(read_all("page.html").find("An example") != std::string::npos);
}

// Makes steps up to `last`; the sum of the parameters is the result.
static double train(device &dev, const char *path, int64_t last)
{
    dev.seed(7);
    auto net = nn::dense(8, 1);
    auto opt = optim::adam(net.parameters());
    training t(path, {.steps = last, .progress = "none", .checkpoint_every = 10, .resume = true});
    t.keep("net", net);
    t.keep("optim", opt);
    while (t.goes_on()) {
        tensor loss = loss::mse(net(normal({64, 8}, 0, 1)), 1);
        loss.backward();
        opt.step();
        opt.zero_grad();
        t.log("loss", loss);
        t.step();
    }
    return net.parameter("weight").sum().item();
}

EXAMPLE("training", "Checkpoints", 1)
{
    const double first = train(dev, "interrupted", 10), two_parts = train(dev, "interrupted", 20);
    MUST(first != two_parts);
    cout << "the same: " << (two_parts == train(dev, "whole", 20) ? "yes" : "no") << '\n';
}

EXAMPLE("training", "The best, and early stopping", 1)
{
    training t("", {.epochs = 100, .progress = "none", .monitor = "valid/loss", .patience = 2});
    const double losses[] = {0.9, 0.5, 0.4, 0.41, 0.43, 0.39};
    while (t.epoch()) {
        t.step();
        t.log("valid/loss", losses[t.epochs()]);
    }
    if (auto best = t.best())
        std::printf("%d epochs, the best is %.2f at step %d\n", int(t.epochs()), best->first, int(best->second));
}

EXAMPLE("getting-started", "Tensors", 1)
{
    tensor x{{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}};
    tensor y = x * 2 + 1; // numbers stand where tensors may
    cout << y << '\n' << y.sum(1) << '\n' << y.mean().item() << '\n';
}

EXAMPLE("getting-started", "Gradients", 1)
{
    tensor w = parameter(ones({3}), "w");
    w.square().sum().backward();
    cout << w.grad() << '\n';
}

// The program of getting-started.md, docs/examples/getting_started.c, by its parts.
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

// A step as a function of points and labels: it runs op by op, and as a graph.
#define STEP                                             \
    [&](const tensor &points, const tensor &labels) {    \
        tensor loss = net(points).cross_entropy(labels); \
        loss.backward();                                 \
        opt.step();                                      \
        return loss;                                     \
    }

EXAMPLE("getting-started", "Training", 1)
{
    auto net = make_net();
    auto opt = optim::adamw(net.parameters(), {.lr = 0.01});
    auto step = STEP;
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
    auto step = [&, &net = t.net, &opt = t.opt] { return STEP; }();
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
    auto &net = t.net;
    auto &opt = t.opt;
    auto step = jit(STEP, {.name = "step"});
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
