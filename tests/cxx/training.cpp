// Trainings, metrics, timings, profiles, summaries of kiln.hpp, and the functions of tensors beside the ops.
#include "check.hpp"

#include <cstdlib>
#include <unistd.h>

namespace {

std::string folder;
std::string at(const char *name)
{
    return folder + "/" + name;
}
// What a function writes into a file.
template <class F> std::string written(F f)
{
    FILE *file = std::tmpfile();
    f(file);
    std::string text(static_cast<size_t>(std::ftell(file)), 0);
    std::rewind(file);
    CHECK(std::fread(text.data(), 1, text.size(), file) == text.size());
    std::fclose(file);
    return text;
}

// One that stops, and one that goes on from there.
void trained(bool again)
{
    auto net = nn::dense(1, 1);
    auto sgd = optim::sgd(net.parameters());
    auto mean = optim::swa(net.parameters());
    generator g(1);
    tensor seen = zeros({1});
    loader l({arange(0, 4, 1).reshape({4, 1})});
    int64_t count = 0;
    double sum = 0;
    kiln_training_opts o{};
    o.epochs = 2;
    o.progress = "none";
    o.resume = again;
    o.monitor = "train/loss";
    o.keep_best = true;
    o.log_every = 1;
    training t(at("run"), o);
    t.keep("net", net);
    t.keep("sgd", sgd);
    t.keep("mean", mean);
    t.keep("data", l);
    t.keep("random", g);
    t.keep("seen", seen);
    t.keep("count", &count);
    t.keep("sum", &sum);
    while (t.epoch()) {
        while (t.goes_on() && l.next()) {
            count++;
            t.log("train/loss", static_cast<double>(8 - count));
            t.log("count", full({}, static_cast<double>(count)));
            t.log_mean("weighted", 1, 2);
            t.step();
        }
        if (!again && t.epochs() == 0) t.stop();
    }
    CHECK(count == (again ? 8 : 4) && t.steps() == count && t.best() &&
          t.best()->first == 8 - static_cast<double>(count));
    CHECK(t.history("count").size() == static_cast<size_t>(count) && t.history("count")[2].second == 3);
    t.save();
    t.restore_best();
    t.save_curves(at("curves.svg"));
    CHECK(line_of([&] { t.save_curves(at("curves.txt")); }, KILN_E_ARGUMENT) == __LINE__);
}

void metrics()
{
    kiln_metric_opts o{};
    o.classes = 2;
    metric m(o);
    m.update(tensor{0, 1, 1}, tensor{0, 1, 0});
    CHECK(std::abs(m.value("accuracy") - 2.0 / 3) < 1e-9 && is(m.matrix(), {1, 1, 0, 1}));
    m.reset();
    CHECK(std::isnan(m.value("accuracy")));
    CHECK(line_of([&] { m.value("no"); }, KILN_E_ARGUMENT) == __LINE__);
}

void tools(device &dev)
{
    kiln_bench_opts o{};
    o.budget_s = 1e-3;
    o.no_ceilings = true;
    auto f = [](const tensor &a, const tensor &b) { return a.matmul(b).relu(); };
    auto g = jit(f);
    const tensor x = ones({8, 8});
    const kiln_bench_result eager = bench(f, o, x, x), captured = bench(g, o, x, x);
    CHECK(eager.runs >= 5 && eager.launches == 2 && captured.runs >= 5 && captured.flops == 1024);
    CHECK(written([&](FILE *file) { bench_print(eager, file); }).size() > 20);
    CHECK(version_string() == KILN_VERSION_STRING && dev.ceiling(KILN_CEILING_COPY, 1 << 20) > 0);
    {
        profile now(at("profile.json"));
        g(x, x);
        CHECK(written([](FILE *file) {
                  kiln_profile_print_opts p{};
                  p.no_ceilings = true;
                  profile_print(file, p);
              }).size() > 20);
    }
    auto net = nn::sequential(nn::dense(8, 4), nn::relu());
    CHECK(written([&](FILE *file) { net.summary(file, x); }).find("dense") != std::string::npos);
    CHECK(written([&](FILE *file) { x.print(file); }).find("1. 1.") != std::string::npos);
}

void arrays()
{
    tensor x{3.0, 0.0, 3.0, 5.0};
    CHECK(is(nonzero(x), {0, 2, 3}) && is(masked_select(x, x > 3), {5}));
    auto [values, inverse, counts] = unique(x);
    CHECK(is(values, {0, 3, 5}) && is(inverse, {1, 0, 1, 2}) && is(counts, {1, 2, 1}));
    CHECK(is(std::get<0>(nonzero_sized(x, 4, -1)), {0, 2, 3, -1}) && std::get<1>(nonzero_sized(x, 4)).item() == 3);
    CHECK(is(std::get<0>(masked_select_sized(x, x > 1, 2)), {3, 3}) && is(std::get<0>(unique_sized(x, 2)), {0, 3}));
    CHECK(is(meshgrid({x, x})[0][1], {0, 0, 0, 0}) && is(split_sizes(x, {1, 3})[1], {0, 3, 5}));
    CHECK(is(index_put(x, 9, false, 1), {3, 9, 3, 5}) && is(index_put(x, 1, true, tensor{0, 0}), {5, 0, 3, 5}));
    tensor z = view_as_complex(x.reshape({2, 2}));
    CHECK(z.dtype() == c64 && same(view_as_real(z), x.reshape({2, 2})) && is_view_of(z, x) && is_contiguous(x));
    const uint64_t before = version(x);
    write<float>(x, {1, 2, 3, 4});
    CHECK(is(x, {1, 2, 3, 4}) && version(x) > before && strides(x.reshape({2, 2})) == (std::vector<int64_t>{2, 1}));
    CHECK(throws<error>([&] { write<double>(x, {1, 2, 3, 4}); }) && name_of(x.dtype()) == "f32" && is_leaf(x));
    tensor w = parameter(x, "w");
    set_gradient(w, x);
    CHECK(same(w.grad(), x));
    graph g = backward_graph(w * 2);
    CHECK(g.nodes() == 1 && g.inputs() == 1 && g.outputs() == 1 && g.op(0) == "mul.grad0");
    CHECK(written([&](FILE *file) { g.dot(file); }).find("digraph") != std::string::npos);
    CHECK(graph(written([&](FILE *file) { g.print(file); })).nodes() == 1);
    CHECK(line_of([] { graph bad("nothing"); }, KILN_E_FORMAT) == __LINE__);
    kiln_print_opts o{};
    o.precision = 2;
    set_print_options(o);
    CHECK((x / 3).to_string() == "[0.33 0.67 1.   1.33]" && print_options().precision == 2);
    set_print_options();
    CHECK((x / 3).to_string(o) == "[0.33 0.67 1.   1.33]");
}

} // namespace

int main()
{
    char name[] = "/tmp/kiln-cxx-XXXXXX";
    folder = mkdtemp(name);
    {
        device dev;
        const uint64_t before = dev.stats().tensors;
        trained(false);
        trained(true);
        metrics();
        tools(dev);
        arrays();
        CHECK(dev.stats().tensors == before);
    }
    const int left = std::system(("rm -r " + folder).c_str());
    return failures || left;
}
