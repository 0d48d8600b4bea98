// Examples of getting-started.md, pretrained.md, training.md.
#include "guide.hpp"

EXAMPLE("getting-started", "Tensors", 1)
{
    tensor x = from_data<float>({1, 2, 3, 4, 5, 6}, {2, 3});
    tensor y = x * 2 + 1; // numbers stand where tensors may
    cout << y << '\n' << y.sum(1) << '\n' << y.mean().item() << '\n';
}

EXAMPLE("getting-started", "Gradients", 1)
{
    tensor w = parameter(ones({3}), "w");
    w.square().sum().backward();
    cout << w.grad() << '\n';
}

EXAMPLE("pretrained", "", 1)
{
    safetensors_save("model.safetensors", {{"fc.weight", ones({3, 2})}, {"fc.bias", zeros({3})}});
    archive file("model.safetensors");
    for (size_t i = 0; i < file.count(); i++) {
        tensor t = file.get_tensor(i);
        cout << file.name(i) << ": " << name_of(t.dtype()) << ", " << t.rank() << " axes\n";
    }
}

EXAMPLE("pretrained", "Into cells", 1)
{
    auto net = nn::sequential(nn::conv2d(1, 2, 3, {.pad_mode = "same"}), nn::batch_norm2d(2));
    // As PyTorch writes a convolution and a norm behind it, but for a head that is of no use here.
    safetensors_save("stem.safetensors", {{"stem.0.weight", ones({2, 1, 3, 3})},
                                          {"stem.1.weight", full({2}, 1)},
                                          {"stem.1.bias", full({2}, 2)},
                                          {"stem.1.running_mean", full({2}, 3)},
                                          {"stem.1.running_var", full({2}, 4)},
                                          {"head.weight", full({2}, 5)}});
    archive file("stem.safetensors");
    try {
        net.load(file);
    } catch (const error &e) {
        std::printf("%.76s ...\n", e.what());
        std::fflush(stdout);
    }
    net.load(file, {.prefix = "stem."});
    cout << net.parameter("1.beta") << '\n';
}

EXAMPLE("pretrained", "As the state of a function", 1)
{
    safetensors_save("model.safetensors", {{"fc.weight", ones({3, 2})}, {"fc.bias", zeros({3})}});
    bundle state = archive("model.safetensors").as_bundle({.prefix = "fc."});
    // in: x [.., k], a [m, k], b [m]
    auto layer = jit([](const bundle &in) {
        bundle out;
        out.set("y", (in["x"].matmul(in["weight"].transpose(0, 1)) + in["bias"]).relu());
        return out;
    });
    bundle in = state.copy();
    in.set("x", tensor{{3.0, 4.0}});
    layer(in).print();
    state.save("fc.safetensors");
}

EXAMPLE("pretrained", "Weights that stay packed", 1)
{
    std::vector<uint8_t> block = {0x00, 0x38, 1, 2, 0xff};
    block.resize(34);
    tensor w = from_data(block, {1, 34}), x = ones({2, 32});
    int64_t format = packing("q8_0");
    cout << w.unpack_blocks(format).narrow(1, 0, 4) << '\n' << x.matmul_packed(w, format) << '\n';
}

EXAMPLE("training", "", 1)
{
    tensor x = normal({64, 8}, 0, 1), y = x.sum(1, true);
    auto net = nn::dense(8, 1);
    auto sgd = optim::sgd(net.parameters(), {.lr = 0.1});
    training t("", {.epochs = 3, .progress = "none"});
    while (t.epoch()) {
        for (int i = 0; i < 20 && t.goes_on(); i++) {
            tensor loss = loss::mse(net(x), y);
            loss.backward();
            sgd.step();
            sgd.zero_grad();
            t.log("train/loss", loss);
            t.log("lr", sgd.lr());
            t.step();
        }
    }
    auto rows = t.history("train/loss");
    cout << t.steps() << " steps, " << rows.size() << " rows, the last at step " << rows.back().first
         << "; the loss fell: " << (rows.back().second < 1e-3 * rows.front().second ? "yes" : "no") << '\n';
}

EXAMPLE("training", "Metrics", 1)
{
    const std::vector<float> scores = {0.9f, 0.1f, 0.2f, 0.8f, 0.7f, 0.3f, 0.4f, 0.6f};
    const std::vector<int64_t> labels = {0, 1, 1, 1};
    metric m({.classes = 2, .auroc = true, .average = "binary"});
    tensor all = from_data(scores, {4, 2}), truth = from_data(labels);
    for (int i = 0; i < 4; i += 2) m.update(all(slice(i, i + 2)), truth(slice(i, i + 2)));
    std::printf("accuracy %.2f, recall %.2f, area %.2f\n", m.value("accuracy"), m.value("recall"), m.value("auroc"));
    std::fflush(stdout);
    cout << m.matrix() << '\n';
}

namespace {

// Makes steps up to `last`; the sum of the parameters is the result.
double train(device &dev, const char *path, int64_t last)
{
    dev.seed(7);
    auto net = nn::dense(8, 1);
    auto adam = optim::adam(net.parameters());
    training t(path, {.steps = last, .progress = "none", .checkpoint_every = 10, .resume = true});
    t.keep("net", net);
    t.keep("optim", adam);
    while (t.goes_on()) {
        tensor loss = loss::mse(net(normal({64, 8}, 0, 1)), 1);
        loss.backward();
        adam.step();
        adam.zero_grad();
        t.log("loss", loss);
        t.step();
    }
    return net.parameter("weight").sum().item();
}

} // namespace

EXAMPLE("training", "Checkpoints", 1)
{
    train(dev, "interrupted", 10);
    double two_parts = train(dev, "interrupted", 20), whole = train(dev, "whole", 20);
    cout << "the same: " << (two_parts == whole ? "yes" : "no") << '\n';
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
