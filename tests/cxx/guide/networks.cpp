// Examples of networks.md, data.md, containers.md, generation.md.
#include "guide.hpp"

#include <cmath>
#include <fstream>

EXAMPLE("networks", "Cells", 1)
{
    auto net = nn::sequential(nn::conv2d(1, 4, 3, {.bias = true, .pad_mode = "same"}), nn::batch_norm2d(4), nn::relu(),
                              nn::max_pool2d(2), nn::flatten(), nn::dense(4 * 4 * 4, 10));
    net.print();
    std::fflush(stdout);
    tensor logits = net(ones({2, 1, 8, 8}));
    cout << '[' << logits.size(0) << ", " << logits.size(1) << "]\n" << net.parameter("1.moving_mean") << '\n';
}

EXAMPLE("networks", "Cells", 2)
{
    auto net = cell::make(
        "net", [](cell_ref self, const tensor &x, const tensor &y) { return (x * self.parameter("z")).matmul(y); });
    net.make_parameter("z", 1, "2.0");
    cout << grad([&](const tensor &x, const tensor &y) { return net(x, y); })(ones({2, 3}), ones({3, 3})) << '\n';
}

EXAMPLE("networks", "Recurrent networks", 1)
{
    auto gru = nn::gru(3, 4, {.layers = 2, .bidirectional = true, .lengths = true});
    auto [y, last] = gru.call<2>(ones({5, 2, 3}), tensor{5, 2}); // every step's output, and the last states
    cout << '[' << y.size(0) << ", " << y.size(1) << ", " << y.size(2) << "]\n";
    cout << '[' << last.size(0) << ", " << last.size(1) << ", " << last.size(2) << "]\n";
    cout << y(slice(2), 1) << '\n'; // behind its end
    cout << (gru.parameter("weight_ih_l1_reverse").is_trained() ? "trained" : "frozen") << '\n';
}

EXAMPLE("networks", "Attention", 1)
{
    auto all = jit([](const tensor &x) {
        struct caches {
            tensor keys, values, position;
            KILN_FIELDS(keys, values, position)
        };
        // Queries of 0 see all keys alike.
        auto next = [](const caches &c, const tensor &now) {
            auto [y, keys, values] = attention_cached(now.zeros_like(), now, now, c.keys, c.values, c.position);
            return std::tuple(caches{keys, values, c.position + 1}, y);
        };
        tensor cache = zeros({1, 1, 8, 1}); // batch, heads, places, width
        return std::get<1>(scan(next, caches{cache, cache, full_int({}, 0)}, x)).reshape({-1});
    });
    cout << all(arange(1, 5, 1).reshape({4, 1, 1, 1, 1})) << '\n'; // means of what came so far
}

EXAMPLE("networks", "Around cells", 1)
{
    auto layer = nn::dense(2, 2);
    layer.weight_norm();
    nn::sequential(nn::residual(std::move(layer)), nn::glu("swiglu")).print();
}

EXAMPLE("networks", "Training", 1)
{
    dev.seed(1);
    auto net = nn::sequential(nn::dense(2, 16), nn::tanh(), nn::dense(16, 1));
    net.train();
    auto params = net.parameters();
    auto adam = optim::adam(params, {.lr = 0.02});
    adam.set_schedule(optim::cosine(0.02, 0.001, 300));
    // Whether exactly one of two inputs is 1.
    tensor x{{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}}, y{{0.0}, {1.0}, {1.0}, {0.0}};
    for (int step = 0; step < 300; step++) {
        loss::bce_with_logits(net(x), y).backward();
        optim::clip_grad_norm(params, 1);
        adam.step();
    }
    net.eval();
    cout << net(x).sigmoid().reshape({4}).round() << '\n';
}

EXAMPLE("networks", "Optimisers", 1)
{
    // Rosenbrock's valley, whose least value is at [1. 1.].
    tensor p = parameter(from_data<double>({-1.2, 1}), "p");
    auto lbfgs = optim::lbfgs({p}, {.iterations = 100});
    double loss = lbfgs.step([&] {
        tensor x = p(slice(0, 1)), y = p(slice(1)), sum = ((1 - x).square() + 100 * (y - x.square()).square()).sum();
        sum.backward();
        return sum;
    });
    std::printf("from %.1f\n", loss);
    std::fflush(stdout);
    cout << p.round() << '\n';
}

EXAMPLE("networks", "Groups of parameters", 1)
{
    tensor weight = parameter(ones({2, 2}), "weight"), bias = parameter(ones({2}), "bias");
    auto adamw = optim::adamw({weight}, {.lr = 0.5, .weight_decay = 0.1});
    adamw.add_group({bias}, {.lr_scale = 0.1, .weight_decay = KILN_ZERO});
    set_gradient(weight, zeros({2, 2}));
    set_gradient(bias, ones({2}));
    adamw.step();
    cout << weight << '\n' << bias << '\n' << adamw.group_lr(0) << ' ' << adamw.group_lr(1) << '\n';
}

EXAMPLE("networks", "Schedules", 1)
{
    auto sgd = optim::sgd({parameter(ones({2}), "p")});
    sgd.set_schedule(optim::plateau(0.5, {.factor = 0.2, .patience = 1}));
    const char *space = "";
    for (double loss : {3, 2, 2, 2, 1}) {
        sgd.report(loss);
        cout << space << sgd.lr();
        space = " ";
    }
    cout << '\n';
}

EXAMPLE("networks", "Averages", 1)
{
    tensor p = parameter(zeros({2}), "p");
    auto mean = optim::swa({p});
    for (int i = 1; i <= 4; i++) {
        no_grad off;
        p.add_(2); // in the place of a step
        mean.update();
    }
    mean.swap();
    cout << p << '\n';
    mean.swap();
    cout << p << '\n';
}

EXAMPLE("networks", "Averages", 2)
{
    tensor guesses{0, 1, 1, 2, 2, 2}, truth{0, 1, 2, 2, 2, 0};
    cout << guesses.confusion_matrix(truth, 3) << '\n'
         << guesses.f_score(truth, 3, f_score_opts{.average = "none"}) << '\n';
}

EXAMPLE("networks", "Files", 1)
{
    auto net = nn::dense(2, 1, {.weight_init = "ones"});
    checkpoint c;
    c.put(net.state());
    c.put("step", 100);
    c.save("run.ckpt");
    checkpoint again("run.ckpt");
    net.restore(again);
    cout << net.state().size() << " tensors, step " << again.get_int("step") << '\n';
}

EXAMPLE("data", "Loaders", 1)
{
    loader l({arange(0, 10, 1, u8)}, {.batch = 4});
    l.convert(0, f32, {.scale = 0.5});
    while (l.next()) cout << l[0] << '\n';
}

EXAMPLE("data", "Loaders", 2)
{
    loader l({}, {.batch = 3, .workers = 2});
    l.add_dataset(3, {{f32, {2}}, {i32, {}}}, [](int64_t index, void *const *rows) {
        auto *point = static_cast<float *>(rows[0]);
        point[0] = float(index);
        point[1] = 10 * float(index);
        *static_cast<int32_t *>(rows[1]) = index % 2 == 0;
    });
    l.next();
    cout << l[0] << '\n' << l[1] << '\n';
}

EXAMPLE("data", "Loaders", 3)
{
    std::vector<uint8_t> images(8 * 32 * 32);
    loader l({}, {.batch = 8, .shuffle = true, .workers = 2});
    l.add_host(u8, {8, 1, 32, 32}, images.data());
    l.convert(0, f32, {.scale = 1.0 / 255});
    l.random_crop(0, 4);             // moved by up to 4 pixels, zeros where it ends
    l.random_flip(0);                // left for right, every other time
    l.jitter(0, 0.2, 0.2);           // brightness and contrast
    l.cutout(0, 8, {.chance = 0.5}); // a square is filled
    l.normalise(0, {0.5}, {0.25});
    l.next();
    cout << l[0].min().item() << ' ' << l[0].max().item() << '\n';
}

EXAMPLE("data", "Images", 1)
{
    save_image("small.png", arange(0, 18, 1, i32).reshape({2, 3, 3}).to(u8));
    auto size = image_size("small.png");
    cout << size[0] << " x " << size[1] << ", " << size[2] << " channels\n";
    cout << load_image("small.png", 1).reshape({2, 3}) << '\n'; // grey
}

EXAMPLE("data", "Sound", 1)
{
    save_wav("tone.wav", arange(0, 8, 1).sin(), 8000);
    auto [sound, rate] = load_wav("tone.wav");
    cout << '[' << sound.size(0) << ", " << sound.size(1) << "] at " << rate << " a second\n";
}

EXAMPLE("data", "Tables", 1)
{
    std::ofstream("iris.csv") << "length,width,species\n5.1,3.5,setosa\n7.0,,versicolor\n4.9,3.0,setosa\n";
    table t("iris.csv");
    cout << t.matrix({"length", "width"}) << '\n' << t.codes("species") << '\n';
}

EXAMPLE("data", "Texts", 1)
{
    const std::string text = "to be or not to be";
    auto v = vocabulary::characters(text);
    loader l({}, {.batch = 2});
    l.add_windows(v.encode(text), 5);
    l.next();
    for (int i = 0; i < 2; i++) cout << '"' << v.decode(l[size_t(i)]) << "\"\n";
}

EXAMPLE("containers", "", 1)
{
    bundle b;
    b.set("x", arange(0, 3, 1));
    b.set("steps", 3);
    b.append(tensor());
    b.set("x", b["x"] * 2);
    b.print();
    bundle list = b.slice(0, -1); // from the first to the last but one
    list.insert(0, "begin");
    list.reverse();
    list.remove(1);
    list.print();
    std::printf("%d and %d entries, \"x\" at %d\n", int(b.count()), int(list.count()), int(b.index("x")));
}

EXAMPLE("containers", "Functions of bundles", 1)
{
    // y = x * scale + bias, where there is a bias.
    auto f = jit([](const bundle &in) {
        tensor y = in["x"] * in["scale"];
        if (in.kind("bias") != KILN_KIND_NONE) y = y + in["bias"];
        bundle out;
        out.set("y", y);
        out.set("sum", y.sum());
        return out;
    });
    auto show = [&](const bundle &in) {
        bundle out = f(in);
        std::printf("%d captured: ", int(f.stats().captures));
        out.print();
    };
    bundle in;
    in.set("x", ones({2}));
    in.set("scale", 2.0);
    in.set("bias", tensor());
    show(in);
    in.set("x", full({2}, 5));
    show(in); // another tensor: the same program
    in.set("bias", full({2}, 100));
    show(in); // a tensor where nothing was: another program
    in.set("scale", 3.0);
    show(in); // another number: another program
    bundle numbers = in.as_mutable();
    show(numbers); // numbers that programs take at run time:
    numbers.set("scale", mutable_number(4.0));
    show(numbers); // the same program
}

EXAMPLE("containers", "Gradients", 1)
{
    using pair = std::pair<tensor, tensor>;
    auto product = [](const pair &z, const tensor &scale) { return z.first.matmul(z.second) * scale; };
    const pair z(ones({1, 2}), tensor{{1.0, 2.0}, {3.0, 4.0}});
    auto [by_first, by_second] = grad([&](const pair &at) { return product(at, 10); })(z);
    cout << "{z: [" << by_first << ", " << by_second << "]}\n";
    cout << "{scale: " << grad([&](const tensor &scale) { return product(z, scale); })(tensor(10.0)) << "}\n";
}

namespace {

// A model of one layer, and what it keeps of the tokens so far.
struct language {
    tensor embed, places, qkv, out; // [11,16], [12,16], [16,48], [16,16]
};
struct cache {
    tensor keys, values; // [1,2,12,8]
    KILN_FIELDS(keys, values)
};

// Logits [1, L, 11] of L tokens [1, L] that stand from place `at` on, and the cache with them.
std::tuple<tensor, cache> forward(const language &m, const tensor &tokens, const tensor &at, const cache &c)
{
    const int64_t n = tokens.size(1);
    tensor x = m.embed.embedding(tokens) + m.places.slice_at(0, at, n);
    std::vector<tensor> part = x.matmul(m.qkv).split(3, -1);
    for (tensor &p : part) p = p.reshape({1, n, 2, 8}).transpose(1, 2);
    auto [y, keys, values] = attention_cached(part[0], part[1], part[2], c.keys, c.values, at);
    y = y.transpose(1, 2).reshape({1, n, 16});
    return {(x + y.matmul(m.out)).matmul(m.embed.transpose(0, 1)), cache{keys, values}};
}
tensor choose(const tensor &logits)
{
    return logits(whole, slice(-1)).argmax(-1);
}

} // namespace

EXAMPLE("generation", "The program", 1)
{
    dev.seed(3);
    const language m = {parameter(normal({11, 16}, 0, 1), "embed"), parameter(normal({12, 16}, 0, 2), "places"),
                        parameter(normal({16, 48}, 0, 0.5), "qkv"), parameter(normal({16, 16}, 0, 2), "out")};
    auto generate = jit([&](const tensor &prompt) {
        auto one = [&](const tensor &token, const cache &c, const tensor &at) {
            auto [logits, now] = forward(m, token, at, c);
            tensor next = choose(logits);
            return std::tuple(next, now, at + 1, next);
        };
        const tensor none = zeros({1, 2, 12, 8}), start = full_int({}, 0);
        auto [logits, c] = forward(m, prompt, start, cache{none, none}); // the whole prompt at once
        tensor first = choose(logits);
        auto made = scan<3>({.length = 7}, one, first, c, start + 4);
        return concat({first, std::get<3>(made).reshape({1, -1})}, 1);
    });
    no_grad off;
    const tensor prompt{{1, 5, 2, 8}};
    tensor tokens = generate(prompt); // captured and compiled
    tokens = generate(prompt);        // the graph alone
    cout << tokens << '\n';
    tensor all = prompt; // the same without a cache: everything anew for each token
    for (int i = 4; i < 12; i++) {
        const tensor none = zeros({1, 2, 12, 8});
        all = concat({all, choose(std::get<0>(forward(m, all, full_int({}, 0), cache{none, none})))}, 1);
    }
    cout << all(whole, slice(4)).array_equal(tokens, false) << '\n' << generate.stats().captures << " capture\n";
}

EXAMPLE("generation", "What programs add", 1)
{
    dev.seed(1);
    tensor logits{{2.0, 1.0, 4.0, 3.0, 0.0}};
    auto [best, at] = (logits / 0.7).topk(2, -1, true); // the two best, and which they are
    tensor drawn = best.categorical({4});               // four draws, of a row of logits each
    cout << at.gather(1, drawn.reshape({1, 4})) << '\n';
}
