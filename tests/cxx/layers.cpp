// Layers, optimisers, schedules, averages, losses of kiln.hpp: each gives what the one of C gives.
#include "check.hpp"

namespace {

using shape = std::vector<int64_t>;

// Calls a cell with inputs of these shapes, ones in them; the shape of what it gives.
template <class... S> shape given(const cell &c, const S &...in)
{
    return c(ones(in)...).shape();
}

void convolution()
{
    kiln_nn_conv_transpose_opts twice{};
    twice.stride[0] = twice.stride[1] = twice.stride[2] = 2;
    CHECK(given(nn::conv1d(2, 4, 3), ints{1, 2, 8}) == (shape{1, 4, 6}));
    CHECK(given(nn::conv2d(2, 4, 3), ints{1, 2, 8, 7}) == (shape{1, 4, 6, 5}));
    CHECK(given(nn::conv3d(2, 4, 3), ints{1, 2, 5, 5, 5}) == (shape{1, 4, 3, 3, 3}));
    CHECK(given(nn::conv_transpose1d(2, 3, 2, twice), ints{1, 2, 4}) == (shape{1, 3, 8}));
    CHECK(given(nn::conv_transpose2d(2, 3, 2, twice), ints{1, 2, 4, 5}) == (shape{1, 3, 8, 10}));
    CHECK(given(nn::conv_transpose3d(2, 3, 2, twice), ints{1, 2, 2, 2, 2}) == (shape{1, 3, 4, 4, 4}));
    CHECK(given(nn::max_pool1d(2), ints{1, 2, 8}) == (shape{1, 2, 4}));
    CHECK(given(nn::avg_pool1d(2, 1), ints{1, 2, 8}) == (shape{1, 2, 7}));
    CHECK(given(nn::max_pool2d(2), ints{1, 2, 8, 6}) == (shape{1, 2, 4, 3}));
    CHECK(given(nn::avg_pool2d({2, 3}), ints{1, 2, 8, 6}) == (shape{1, 2, 4, 2}));
    CHECK(given(nn::max_pool3d(2), ints{1, 2, 4, 4, 4}) == (shape{1, 2, 2, 2, 2}));
    CHECK(given(nn::avg_pool3d(2, 1), ints{1, 2, 4, 4, 4}) == (shape{1, 2, 3, 3, 3}));
    kiln_pool2d_opts pool{};
    pool.kernel[0] = pool.kernel[1] = 3;
    pool.padding[0] = pool.padding[1] = 1;
    CHECK(given(nn::max_pool2d(pool), ints{1, 2, 9, 9}) == (shape{1, 2, 3, 3}));
    CHECK(given(nn::adaptive_avg_pool({2, 3}), ints{1, 2, 8, 6}) == (shape{1, 2, 2, 3}));
    CHECK(given(nn::adaptive_max_pool(4), ints{1, 2, 8}) == (shape{1, 2, 4}));
    kiln_interpolate_opts scale{};
    scale.scale = 2;
    CHECK(given(nn::upsample(scale), ints{1, 2, 3, 3}) == (shape{1, 2, 6, 6}));
    CHECK(given(nn::batch_norm2d(2), ints{3, 2, 4, 4}) == (shape{3, 2, 4, 4}));
    CHECK(given(nn::instance_norm(2), ints{3, 2, 4, 4}) == (shape{3, 2, 4, 4}));
    CHECK(given(nn::group_norm(2, 4), ints{3, 4, 4}) == (shape{3, 4, 4}));
}

void sequences()
{
    const ints x = {5, 2, 3}, h = {2, 4};
    CHECK(given(nn::rnn(3, 4), x) == (shape{5, 2, 4}) && given(nn::gru(3, 4), x) == (shape{5, 2, 4}));
    auto lstm = nn::lstm(3, 4);
    auto [y, last_h, last_c] = lstm.call<3>(ones(x));
    CHECK(y.shape() == (shape{5, 2, 4}) && last_h.shape() == (shape{1, 2, 4}) && same(last_h[0], y[-1]));
    CHECK(given(nn::rnn_cell(3, 4), ints{2, 3}, h) == (shape{2, 4}));
    CHECK(given(nn::gru_cell(3, 4), ints{2, 3}, h) == (shape{2, 4}));
    CHECK(std::get<1>(nn::lstm_cell(3, 4).call<2>(ones({2, 3}), ones(h), ones(h))).shape() == (shape{2, 4}));
    CHECK(given(nn::multi_head_attention(8, 2), ints{2, 3, 8}) == (shape{2, 3, 8}));
    CHECK(given(nn::positional_encoding(10, 8), ints{2, 3, 8}) == (shape{2, 3, 8}));
    CHECK(given(nn::transformer_encoder_layer(8, 2), ints{2, 3, 8}) == (shape{2, 3, 8}));
    CHECK(given(nn::transformer_decoder_layer(8, 2), ints{2, 3, 8}, ints{2, 5, 8}) == (shape{2, 3, 8}));
    CHECK(given(nn::transformer_encoder(8, 2, 2), ints{2, 3, 8}) == (shape{2, 3, 8}));
    CHECK(given(nn::transformer_decoder(8, 2, 2), ints{2, 3, 8}, ints{2, 5, 8}) == (shape{2, 3, 8}));
    tensor ids{{1, 2}, {0, 3}};
    CHECK(nn::embedding(4, 3)(ids).shape() == (shape{2, 2, 3}));
    auto bag = nn::embedding_bag(4, 3, "sum");
    CHECK(same(bag(ids)[0], bag.parameter("weight")[1] + bag.parameter("weight")[2]));
    CHECK(given(nn::bilinear(3, 4, 2), ints{5, 3}, ints{5, 4}) == (shape{5, 2}));
}

void elementwise()
{
    tensor x{{-1.0, 2.0}};
    CHECK(same(nn::relu()(x), x.relu()) && same(nn::gelu()(x), x.gelu()) && same(nn::silu()(x), x.silu()));
    CHECK(same(nn::sigmoid()(x), x.sigmoid()) && same(nn::tanh()(x), x.tanh()) && same(nn::unary("exp")(x), x.exp()));
    CHECK(is(nn::leaky_relu(0.5)(x), {-0.5, 2}) && same(nn::softmax(-1)(x), x.softmax(-1)));
    CHECK(same(nn::identity()(x), x) && same(nn::residual(nn::relu())(x), x + x.relu()) &&
          same(nn::dropout(0.5)(x), x));
    CHECK(same(nn::glu()(x), x(whole, slice(0, 1)) * x(whole, slice(1)).sigmoid()));
    CHECK(given(nn::flatten(), ints{2, 3, 4}) == (shape{2, 12}));
    CHECK(given(nn::unflatten(1, {3, -1}), ints{2, 12}) == (shape{2, 3, 4}));
    CHECK(same(nn::rms_norm(2)(x), x / (x.square().mean() + 1e-5).sqrt(), 1e-6));
    CHECK(std::abs(nn::layer_norm(2)(x).sum().item()) < 1e-6);
    CHECK(same(nn::lambda([](const tensor &a) { return a * 3; })(x), x * 3));
    auto two = nn::lambda([](const tensor &a, const tensor &b) { return std::tuple(a + b, a - b); });
    CHECK(is(std::get<1>(two.call<2>(x, x)), {0, 0}));
}

void losses()
{
    tensor x{0.25, 0.5}, t{0.75, 0.5}, logits{{1.0, 2.0}, {0.0, 3.0}}, labels{1, 0};
    CHECK(loss::mse(x, t).item() == 0.125 && loss::l1(x, t, KILN_REDUCTION_SUM).item() == 0.5);
    CHECK(loss::smooth_l1(x, t).item() == 0.0625 && loss::huber(x, t, 0.25).item() == 0.046875);
    CHECK(same(loss::bce(x, t), loss::bce_with_logits((x / (1 - x)).log(), t), 1e-6));
    CHECK(same(loss::nll(logits.log_softmax(1), labels), cross_entropy(logits, labels), 1e-6));
    CHECK(is(loss::kl_div(t.log(), t, KILN_REDUCTION_BATCH_MEAN), {0}, 1e-6));
}

using make_optimiser = optimiser (*)(const tensors &);
template <class O, optimiser (*Make)(const tensors &, const O &)> optimiser plain(const tensors &p)
{
    return Make(p, O{});
}

void optimisers()
{
    // Each moves the parameters towards the least of a bowl.
    const make_optimiser all[] = {
        plain<kiln_sgd_opts, optim::sgd>,           plain<kiln_adam_opts, optim::adam>,
        plain<kiln_adam_opts, optim::adamw>,        plain<kiln_adam_opts, optim::adamax>,
        plain<kiln_nadam_opts, optim::nadam>,       plain<kiln_adam_opts, optim::radam>,
        plain<kiln_rmsprop_opts, optim::rmsprop>,   plain<kiln_adagrad_opts, optim::adagrad>,
        plain<kiln_adadelta_opts, optim::adadelta>, plain<kiln_adafactor_opts, optim::adafactor>,
        plain<kiln_lion_opts, optim::lion>,         plain<kiln_adam_opts, optim::lamb>,
        plain<kiln_muon_opts, optim::muon>,         plain<kiln_lbfgs_opts, optim::lbfgs>};
    for (make_optimiser make : all) {
        tensor p = parameter(ones({2, 2}), "p");
        optimiser opt = make({p});
        double first = 0, last = 0;
        for (int i = 0; i < 8; i++) {
            tensor bowl = (p * p).sum();
            bowl.backward();
            opt.step();
            opt.zero_grad();
            (i ? last : first) = bowl.item();
        }
        CHECK(last < first && opt.steps() == 8 && !p.grad().defined());
    }
}

void groups()
{
    tensor a = parameter(ones({2}), "a"), b = parameter(ones({2}), "b");
    kiln_sgd_opts o{};
    o.lr = 0.5;
    o.momentum = 0.5;
    auto opt = optim::sgd({a}, o);
    kiln_optim_group_opts group{};
    group.lr = 0.25;
    opt.add_group({b}, group);
    double loss = opt.step([&] {
        tensor sum = (a + b).sum();
        sum.backward();
        return sum;
    });
    CHECK(loss == 4 && is(a, {0.5, 0.5}) && is(b, {0.75, 0.75}) && opt.groups() == 2 && opt.group_lr(1) == 0.25);
    opt.set_group_lr(1, 0.125);
    CHECK(opt.group_lr(1) == 0.125 && opt.state().size() == 2 && opt.state()[0].first == "optim.0.velocity");
    opt.set_schedule(optim::warmup(1, optim::constant(1)));
    opt.set_steps(0);
    CHECK(opt.lr() == 0.5);
    CHECK(throws<mine>([&] { opt.step([]() -> tensor { throw mine(); }); }) && kiln_error() == KILN_OK);
    auto search = optim::lbfgs({a, b});
    CHECK(throws<mine>([&] { search.step([]() -> tensor { throw mine(); }); }) && kiln_error() == KILN_OK);
    double before = search.step([&] {
        tensor bowl = (a * a + b * b).sum();
        search.zero_grad();
        bowl.backward();
        return bowl;
    });
    CHECK(before > 0.1 && (a * a + b * b).sum().item() < 1e-6);
    CHECK(line_of([&] { opt.set_lr(-1); }, KILN_E_ARGUMENT) == __LINE__);
    CHECK(line_of([&] { optim::sgd(tensors()); }, KILN_E_ARGUMENT) == __LINE__);
}

void schedules()
{
    CHECK(optim::constant(0.5).lr(9) == 0.5 && optim::step(1, 2, 0.5).lr(4) == 0.25);
    CHECK(optim::multi_step(1, {2, 3}, 0.5).lr(3) == 0.25 && optim::exponential(1, 0.5).lr(2) == 0.25);
    CHECK(optim::cosine(1, 0, 10).lr(10) == 0 && optim::linear(1, 0, 4).lr(1) == 0.75);
    CHECK(optim::polynomial(1, 0, 4, 2).lr(2) == 0.25 && optim::one_cycle(1, 10).lr(2) == 1);
    kiln_plateau_opts o{};
    o.patience = -1;
    o.factor = 0.5;
    auto p = optim::plateau(1, o);
    p.report(1);
    p.report(2);
    CHECK(p.lr(0) == 0.5 && p.state().size() == 4);
    auto q = optim::plateau(1, o);
    q.set_state(p.state());
    CHECK(q.lr(0) == 0.5);
    CHECK(line_of([] { optim::cosine(1, 0, -1); }, KILN_E_ARGUMENT) == __LINE__);
}

void averages()
{
    tensor p = parameter(zeros({1}), "p");
    kiln_ema_opts o{};
    o.decay = 0.5;
    auto ema = optim::ema({p}, o), swa = optim::swa({p});
    for (int i = 0; i < 2; i++) {
        no_grad off;
        p.add_(1);
        ema.update();
        swa.update();
    }
    CHECK(is(ema.state()[0].second, {1.25}) && is(swa.state()[0].second, {1.5}) && swa.updates() == 2);
    swa.swap();
    CHECK(swa.is_in() && is(p, {1.5}));
    swa.swap();
    CHECK(!swa.is_in() && is(p, {2}));
}

// A cell with parameters and children of its own, made of a lambda.
void cells(device &dev)
{
    auto c = cell::make("scaled",
                        [](cell_ref self, const tensor &x) { return self.child("fc")(x) * self.parameter("scale"); });
    c.add_parameter("scale", tensor{2.0});
    c.add_child("fc", nn::dense(3, 1)).weight_norm();
    c.add_buffer("count", zeros({1}));
    c.make_parameter("unused", {2, 2}, "orthogonal");
    CHECK(c.parameter_count() == 1 + 3 + 1 + 1 + 4 && c.kind() == "scaled" && c.state().size() == 6);
    tensor x{{1.0, 2.0, 3.0}};
    CHECK(same(c(x), c.child("fc")(x) * 2));
    c.jit();
    CHECK(same(c(x), c.child("fc")(x) * 2) && c.function());
    CHECK(line_of([&] { c.parameter("no"); }, KILN_E_ARGUMENT) == __LINE__);
    CHECK(line_of([&] { c.child("no"); }, KILN_E_ARGUMENT) == __LINE__);
    CHECK(line_of([&] { nn::dense(-1, 2); }, KILN_E_ARGUMENT) == __LINE__);

    auto net = nn::sequential(nn::dense(2, 4), nn::dropout(0.5));
    net.append(nn::dense(4, 1)).train();
    CHECK(net.is_training() && !net.eval().is_training() && net.child("2").name() == "2");
    net.requires_grad(false);
    CHECK(!net.parameters()[0].is_trained());
    net.requires_grad();
    net.to(dev);
    auto file = std::tmpfile();
    net.print(file);
    CHECK(std::ftell(file) > 20);
    std::fclose(file);
    CHECK(is(initializer({2, 2}, "eye"), {1, 0, 0, 1}));
}

void hooks()
{
    int before = 0, behind = 0, gradients = 0;
    auto net = nn::sequential(nn::dense(2, 1));
    tensor x = ones({1, 2});
    const double plain = net(x).item();
    {
        auto pre =
            net.register_forward_pre_hook([&](cell_ref, std::vector<tensor> &in) { before++, in[0] = in[0] * 0; });
        auto post =
            net.register_forward_hook([&](cell_ref self, const std::vector<tensor> &, std::vector<tensor> &out) {
                behind += self.kind() == "sequential";
                out[0] = out[0] + 1;
            });
        CHECK(same(net(x), net.parameter("0.bias") + 1) && before == 1 && behind == 1);
    }
    CHECK(net(x).item() == plain && before == 1);
    auto back =
        net.child("0").register_backward_hook([&](cell_ref, size_t, const tensor &g) { gradients += g.numel() == 2; });
    auto doubled = net.register_backward_pre_hook([](cell_ref, size_t, const tensor &g) { return g * 2; });
    tensor y = parameter(x, "y");
    net(y).backward();
    CHECK(gradients == 1 && same(y.grad(), net.parameter("0.weight") * 2));
    tensor w = parameter(ones({2}), "w"), z = w * 2;
    auto seen = register_hook(z, [](const tensor &g) { return g * 10; });
    z.sum().backward();
    CHECK(is(w.grad(), {20, 20}));
    hook late;
    {
        auto gone = nn::relu();
        late = gone.register_forward_hook([](cell_ref, const std::vector<tensor> &, std::vector<tensor> &) {});
    }
    late.remove();
    CHECK(kiln_error() == KILN_OK);
    auto bad =
        net.register_forward_hook([](cell_ref, const std::vector<tensor> &, std::vector<tensor> &) { throw mine(); });
    CHECK(throws<mine>([&] { net(x); }));
    bad.remove();
    CHECK(net(x).item() == plain);
}

} // namespace

int main()
{
    device dev;
    dev.seed(1);
    const uint64_t before = dev.stats().tensors;
    for (auto test : {convolution, sequences, elementwise, losses, optimisers, groups, schedules, averages, hooks})
        test();
    cells(dev);
    CHECK(dev.stats().tensors == before);
    return failures != 0;
}
