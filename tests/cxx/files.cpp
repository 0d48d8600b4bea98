// Files, models, data and bundles of kiln.hpp: what is written comes back, functions are owned, exceptions come out.
#include "check.hpp"

#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace {

std::string folder;
std::string at(const char *name)
{
    return folder + "/" + name;
}

void arrays()
{
    tensor x{{1.0, 2.0}, {3.0, 4.0}}, i{1, 2};
    npy_save(at("x.npy"), x);
    CHECK(same(npy_load(at("x.npy")), x));
    npz_save(at("a.npz"), {{"x", x}, {"i", i}}, true);
    safetensors_save(at("a.safetensors"), {{"x", x}, {"i", i}});
    for (const char *name : {"a.npz", "a.safetensors"}) {
        archive a(at(name));
        CHECK(a.count() == 2 && a.has("x") && !a.has("y") && same(a["x"], x) && same(a.get_tensor("i"), i));
        CHECK(same(a.get_tensor(a.name(0) == "x" ? size_t(0) : size_t(1)), x) && a.metadata().empty());
    }
    CHECK(archive::npz(at("a.npz")).count() == 2 && archive::safetensors(at("a.safetensors")).count() == 2);
    CHECK(line_of([] { archive::gguf(at("a.npz")); }, KILN_E_FORMAT) == __LINE__);
    CHECK(line_of([] { archive::torch(at("none.pt")); }, KILN_E_MISSING) == __LINE__);
    CHECK(line_of([] { archive a(at("none")); }, KILN_E_MISSING) == __LINE__);
    CHECK(line_of([] { archive(at("a.npz"))["y"]; }, KILN_E_ARGUMENT) == __LINE__);
    CHECK(line_of([] { archive(at("a.npz")).packed("x"); }, KILN_E_ARGUMENT) == __LINE__);
    CHECK(packing("q8_0") >= 0 && line_of([] { packing("none"); }, KILN_E_UNSUPPORTED) == __LINE__);
    CHECK(line_of([] { idx_load(at("a.npz")); }, KILN_E_FORMAT) == __LINE__);
}

void checkpoints()
{
    auto net = nn::dense(2, 3), again = nn::dense(2, 3);
    auto opt = optim::adam(net.parameters());
    net(ones({1, 2})).sum().backward();
    opt.step();
    checkpoint c;
    c.put(net.state());
    c.put(opt.state());
    c.put("step", 7);
    c.put("loss", 0.1);
    c.put("note", "text");
    c.put("single", tensor{5});
    c.save(at("run.ckpt"));
    checkpoint d(at("run.ckpt"));
    again.restore(d);
    CHECK(same(again.parameter("weight"), net.parameter("weight")) && d.has("step") && !d.has("steps"));
    CHECK(d.get_int("step") == 7 && d.get_double("loss") == 0.1 && d.get_string("note") == "text");
    CHECK(is(d.get_tensor("single"), {5}));
    for (auto &each : opt.state()) each.second.mul_(0);
    d.restore(opt.state());
    CHECK(opt.state()[0].second.abs().sum().item() > 0);
    CHECK(line_of([&] { d.get_int("note"); }, KILN_E_ARGUMENT) == __LINE__);
}

void loading()
{
    auto net = nn::sequential(nn::dense(2, 3), nn::dense(3, 1));
    net.save(at("net.safetensors"));
    safetensors_save(at("other.safetensors"), {{"m.0.w", zeros({3, 2})}, {"m.more", zeros({1})}});
    archive file(at("net.safetensors")), other(at("other.safetensors"));
    auto copy = nn::sequential(nn::dense(2, 3), nn::dense(3, 1));
    copy.load(file);
    CHECK(same(copy.parameter("1.weight"), net.parameter("1.weight")));
    int missing = 0, unexpected = 0;
    load_opts o;
    o.prefix = "m.";
    o.partial = true;
    o.rename = [](const std::string &name) { return name == "m.0.w" ? "m.0.weight" : name; };
    o.report = [&](kiln_load_problem p, const std::string &name, const std::string &) {
        missing += p == KILN_LOAD_MISSING && name != "m.0.weight";
        unexpected += p == KILN_LOAD_UNEXPECTED && name == "m.more";
    };
    copy.load(other, o);
    CHECK(is(copy.parameter("0.weight"), {0, 0, 0, 0, 0, 0}) && missing == 3 && unexpected == 1);
    o.rename = [](const std::string &) -> std::string { throw mine(); };
    CHECK(throws<mine>([&] { copy.load(other, o); }) && kiln_error() == KILN_OK);
    o.rename = nullptr;
    o.report = [](kiln_load_problem, const std::string &, const std::string &) { throw mine(); };
    CHECK(throws<mine>([&] { copy.load(other, o); }) && kiln_error() == KILN_OK);
    CHECK(line_of([&] { copy.load(other); }, KILN_E_ARGUMENT) == __LINE__);

    kiln_archive_bundle_opts b{};
    b.prefix = "0.";
    auto state = file.as_bundle(b, [](const std::string &name) { return name == "bias" ? "" : "the " + name; });
    CHECK(state.count() == 1 && same(state["the weight"], net.parameter("0.weight")));
    CHECK(throws<mine>([&] { file.as_bundle({}, [](const std::string &) -> std::string { throw mine(); }); }));
    state.save(at("state.safetensors"));
    CHECK(archive(at("state.safetensors")).has("the weight"));
}

void models()
{
    auto net = nn::dense(2, 1);
    auto f = jit([&](const tensor &x) { return std::tuple(net(x), x.sum()); });
    model m;
    m.name_weights(net.state());
    m.add("forward", model_names{{"x"}, {"y", "s"}}, f, ones({3, 2}));
    m.add("plain", f, ones({3, 2}));
    m.save(at("m.kiln"));
    model again(at("m.kiln"));
    auto forward = again.function("forward");
    auto [y, s] = forward.call<2>(ones({3, 2}));
    CHECK(same(y, net(ones({3, 2}))) && s.item() == 6 && forward.call_all({ones({3, 2})}).size() == 2);
    CHECK(again.functions() == (std::vector<std::string>{"forward", "plain"}) && again.parameters().size() == 2);
    CHECK(again.inputs("forward")[0].name == "x" && again.outputs("forward")[1].text == "f32[]");
    CHECK(again.weights().size() == 2 && again.weights()[0].first == "weight");
    CHECK(line_of([&] { again.function("none"); }, KILN_E_ARGUMENT) == __LINE__);
    auto one = jit([&](const tensor &x) { return net(x).relu(); });
    graph_export(at("m.onnx"), one, ones({3, 2}));
    model onnx(at("m.onnx"));
    onnx.train();
    CHECK(same(onnx.function()(ones({3, 2})), one(ones({3, 2})), 1e-6) && onnx.parameters().size() == 2);
}

void generators(device &dev)
{
    generator g(42), h(42);
    auto draw = [&](const generator &of) {
        use_generator now(of);
        return normal({3}, 0, 1);
    };
    tensor a = draw(g);
    auto [seed, offset] = g.state();
    tensor b = draw(g);
    CHECK(same(draw(h), a) && !same(a, b));
    h.set_state(seed, offset);
    CHECK(same(draw(h), b) && !same(draw(g.fork()), draw(g.fork())));
    auto state = dev.rng_state();
    a = normal({3}, 0, 1);
    dev.set_rng_state(state.first, state.second);
    CHECK(same(normal({3}, 0, 1), a));
}

void loaders()
{
    kiln_loader_opts o{};
    o.batch = 2;
    o.workers = 2;
    std::vector<int32_t> host = {0, 1, 2, 3};
    int changes = 0;
    loader l({arange(0, 4, 1)}, o);
    l.add_host(i32, {4, 1}, host.data());
    l.add_fn(i64, {4}, [](int64_t i, void *row, size_t) { *static_cast<int64_t *>(row) = i * i; });
    l.add_dataset(4, {{f32, {2}}, {i32, {}}}, [](int64_t i, void *const *rows) {
        static_cast<float *>(rows[0])[0] = static_cast<float *>(rows[0])[1] = static_cast<float>(i);
        *static_cast<int32_t *>(rows[1]) = static_cast<int32_t>(-i);
    });
    kiln_convert_opts scale{};
    scale.scale = 10;
    l.convert(1, f32, scale);
    std::mutex lock;
    l.augment([&](const kiln_sample &s) {
        const std::lock_guard<std::mutex> held(lock);
        changes += sample_uniform(s, 0) >= 0;
    });
    CHECK(l.samples() == 4 && l.batches() == 2 && l.next());
    CHECK(is(l[0], {0, 1}) && is(l[1], {0, 10}) && is(l[2], {0, 1}) && is(l[3], {0, 0, 1, 1}) && is(l[4], {0, -1}));
    auto place = l.position();
    l.next();
    l.set_position(place);
    CHECK(l.next() && is(l[2], {4, 9}) && !l.next() && changes >= 4);

    bool fails = true;
    loader bad({}, o);
    bad.add_fn(f32, {4}, [&](int64_t i, void *row, size_t) {
        if (i == 1 && fails) throw mine();
        *static_cast<float *>(row) = 1;
    });
    CHECK(throws<mine>([&] { bad.next(); }) && kiln_error() == KILN_OK);
    fails = false;
    loader windows;
    windows.add_windows(arange(0, 9, 1, i64), 2);
    CHECK(windows.next() && is(windows[1], {1, 2}) && windows.samples() == 4);
    loader moved = std::move(windows);
    CHECK(moved.next() && is(moved[0], {2, 3}));

    loader images({(arange(0, 32, 1).reshape({2, 4, 4})).to(u8)}, o);
    images.convert(0, f32);
    images.random_crop(0, 1);
    images.random_flip(0);
    images.cutout(0, 2);
    images.jitter(0, 0.1, 0.1);
    images.normalise(0, {16}, {8});
    CHECK(images.next() && images[0].shape() == (std::vector<int64_t>{2, 4, 4}) && images[0].min().item() < 0);
    CHECK(line_of([&] { images.convert(9, f32); }, KILN_E_STATE) == __LINE__);
}

void bundles()
{
    bundle b;
    tensor x{1.0, 2.0};
    b.set("x", x);
    b.set("n", 3);
    b.append("half", 0.5);
    b.append("on", true);
    b.set("text", "words");
    bundle inner(tensors{x, x});
    b.set("inner", inner);
    b.append(tensor());
    CHECK(b.count() == 7 && b.has("n") && b.index("half") == 2 && b.name(0) == "x" && b.name(6).empty());
    CHECK(same(b["x"], x) && b.get<int>("n") == 3 && b.get<double>("half") == 0.5 && b.get<bool>("on"));
    CHECK(b.get<std::string>("text") == "words" && same(b.get<bundle>("inner")[1], x) && b.get<int>(1) == 3);
    CHECK(b.kind("n") == KILN_KIND_INT && b.kind(6) == KILN_KIND_NONE);
    bundle same_one = b, other = b.copy();
    same_one.set(1, 4);
    CHECK(b.get<int>("n") == 4 && other.get<int>("n") == 3 && b.is_same(same_one) && !b.is_same(other));
    other.remove("x");
    other.remove(-1);
    CHECK(other.pop<int>("n") == 3 && other.pop<bundle>().count() == 2 && other.count() == 3);
    other.reverse();
    other.insert(0, 9, "first");
    CHECK(other.name(0) == "first" && other.slice(1, 3).count() == 2 && other.slice(1).count() == 3);
    other.extend(inner);
    CHECK(other.count() == 6 && other.as_mutable().count() == 6);
    int dropped = 0;
    {
        bundle p;
        p.set_pointer("p", &dropped, [](void *v) { ++*static_cast<int *>(v); });
        CHECK(p.get<void *>("p") == &dropped);
    }
    CHECK(dropped == 1);
    CHECK(line_of([&] { b["none"]; }, KILN_E_ARGUMENT) == __LINE__);
    CHECK(line_of([&] { b.get<int>("text"); }, KILN_E_ARGUMENT) == __LINE__);
}

void media()
{
    try {
        tensor x = arange(0, 24, 1).reshape({2, 4, 3}).to(u8);
        save_image(at("x.png"), x);
        CHECK(same(load_image(at("x.png")), x) && image_size(at("x.png")) == (std::vector<int64_t>{2, 4, 3}));
        std::vector<uint8_t> pixels(24);
        read_image(at("x.png"), 2, 4, 3, pixels.data(), pixels.size());
        CHECK(pixels[23] == 23);
        kiln_save_image_opts o{};
        o.quality = 95;
        save_image(at("x.jpg"), x, o);
        CHECK(load_image(at("x.jpg"), 1).shape() == (std::vector<int64_t>{2, 4, 1}));
    } catch (const error &e) {
        CHECK(e.code() == KILN_E_UNSUPPORTED); // a build without libpng or libjpeg
    }
    save_wav(at("x.wav"), tensor{0.0, 0.5, -0.5}, 8000);
    auto [sound, rate] = load_wav(at("x.wav"));
    CHECK(rate == 8000 && is(sound, {0, 0.5, -0.5}));

    csv_save(at("t.csv"), {{"a", tensor{1, 2}}, {"b", tensor{0.5, 1.5}}});
    table t(at("t.csv"));
    CHECK(t.rows() == 2 && t.columns() == 2 && t.name(1) == "b" && t.type(0) == KILN_COLUMN_INT && t.find("b") == 1);
    CHECK(is(t.column("a"), {1, 2}) && t.text(1, 1) == "1.5" && is(t.missing("a"), {0, 0}) && is(t.codes("a"), {0, 1}));
    CHECK(is(t.matrix({"b", "a"}), {0.5, 1, 1.5, 2}));
    auto v = vocabulary::characters("abba");
    CHECK(v.count() == 2 && is(v.encode("bab"), {1, 0, 1}) && v.decode(tensor{0, 1}) == "ab" && v.text() == "ab");
    CHECK(vocabulary::bytes().count() == 256 && vocabulary::of_file(at("t.csv")).count() > 5);
    CHECK(vocabulary::bytes().encode_file(at("t.csv")).numel() > 5);
    CHECK(line_of([&] { v.encode("x"); }, KILN_E_ARGUMENT) == __LINE__);
}

} // namespace

int main()
{
    char name[] = "/tmp/kiln-cxx-XXXXXX";
    folder = mkdtemp(name);
    {
        device dev;
        dev.seed(1);
        const uint64_t before = dev.stats().tensors;
        for (auto test : {arrays, checkpoints, loading, models, loaders, bundles, media}) {
            test();
            CHECK(dev.stats().tensors == before);
        }
        generators(dev);
    }
    const int left = std::system(("rm -r " + folder).c_str());
    return failures || left;
}
