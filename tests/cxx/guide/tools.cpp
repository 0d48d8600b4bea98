// Examples of explain.md, timing.md, profiling.md, performance-tips.md, tools.md, install.md.
#include "guide.hpp"

#include <kiln/debug.h>

#include <cmath>
#include <cstring>

// A file of C that closes itself.
using file_ptr = std::unique_ptr<FILE, int (*)(FILE *)>;
static file_ptr open(const char *path)
{
    return file_ptr(std::fopen(path, "w"), std::fclose);
}

EXAMPLE("explain", "", 1)
{
    auto f = jit([](const tensor &x, const tensor &w, const tensor &b) { return (x.matmul(w) + b).relu().sum(1); });
    tensor w = ones({3, 5}), b = ones({5});
    for (int rows = 2; rows <= 4; rows += 2) {
        tensor x = ones({rows, 3});
        for (int i = 0; i < 5; i++) f(x, w, b);
    }
    f.explain(stdout);
}

EXAMPLE("explain", "Each kernel, value by value", 1)
{
    auto f = jit([](const tensor &x, const tensor &w, const tensor &b) { return (x.matmul(w) + b).relu().sum(1); },
                 {.name = "layer"});
    f(ones({4, 3}), ones({3, 5}), ones({5}));
    f.explain(stdout, KILN_EXPLAIN_DETAIL);
}

EXAMPLE("explain", "kiln_function_stats", 1)
{
    auto f = jit([](const tensor &x, const tensor &by) { return (x * by).relu(); });
    for (int i = 0; i < 10; i++) f(ones({3}), double(i));
    const kiln_jit_stats s = f.stats();
    cout << s.calls << " calls, " << s.captures << " captures, " << s.launches << " launches\n";
}

EXAMPLE("explain", "A network as a table", 1)
{
    auto net = nn::sequential(nn::conv2d(1, 4, 3, {.pad_mode = "same"}), nn::batch_norm2d(4), nn::relu(), nn::flatten(),
                              nn::dense(4 * 8 * 8, 10));
    net.summary(stdout, ones({2, 1, 8, 8}));
}

EXAMPLE("timing", "", 1)
{
    auto layer = [](const tensor &x, const tensor &w, const tensor &b) { return (x.matmul(w) + b).gelu(); };
    tensor x = ones({64, 96}), w = ones({96, 32}), b = ones({32});
    auto eager = bench(layer, {.budget_s = 0.02}, x, w, b);
    auto fast = bench(layer, {.budget_s = 0.02, .jit = true}, x, w, b);
    bench_print(fast, open("times.txt").get());
    MUST(read_all("times.txt").find("median") == 0);
    cout << std::floor(fast.flops / 2e3) * 1e3
         << " multiply-adds, some compilation: " << (fast.compile_ns > 0 ? "yes" : "no") << '\n';
    cout << "eager: " << eager.launches << " launches a call, captured: " << fast.launches << '\n';
}

EXAMPLE("timing", "Options", 1)
{
    device cpu("cpu");
    const double bytes_a_second = cpu.ceiling(KILN_CEILING_COPY, 64 << 20);
    const double operations_a_second = cpu.ceiling(KILN_CEILING_FMA, 0);
    cout << (bytes_a_second > 1e8) << ' ' << (operations_a_second > 1e8) << '\n';
}

// How far the rows of x are from each other.
static tensor spread(const tensor &x)
{
    return (x.unsqueeze(0) - x.unsqueeze(1)).abs().mean();
}

EXAMPLE("profiling", "A first profile", 1)
{
    auto net = nn::sequential(nn::dense(784, 256), nn::relu(), nn::dense(256, 10));
    tensor x = normal({512, 784}, 0, 1), out;
    {
        profile run("run.json");
        for (int i = 0; i < 30; i++) out = spread(net(x).softmax(-1));
    }
    profile_print("run.json", open("kernels.txt").get(), {.no_ceilings = true});
    const std::string table = read_all("kernels.txt");
    for (const char *kernel : {"sub ", "matmul ", "abs ", "mean ", "softmax "})
        MUST(table.find(kernel) != std::string::npos);
    MUST(out.item() > 0 && out.item() < 1);
}

EXAMPLE("profiling", "The second profile", 1)
{
    tensor x = normal({512, 10}, 0, 1), out;
    auto f = jit(spread);
    for (int i = 0; i < 30; i++) out = f(x);
    MUST(std::abs(out.item() - spread(x).item()) < 1e-5);
    MUST(f.stats().launches == 30); // difference, absolute value and mean are one kernel
}

EXAMPLE("profiling", "In the program", 1)
{
    tensor x = normal({64, 64}, 0, 1);
    {
        profile part("part.json");
        for (int i = 0; i < 10; i++) x = x.matmul(x).tanh();
    }
    profile_print(open("part.txt").get(), {.by = KILN_PROFILE_BY_OP, .top = 5});
    const std::string table = read_all("part.txt");
    MUST(table.find("matmul ") != std::string::npos && table.find("tanh ") != std::string::npos);
}

EXAMPLE("profiling", "In the program", 2)
{
    auto net = nn::sequential(nn::dense(64, 32), nn::relu(), nn::dense(32, 10));
    tensor x = normal({16, 64}, 0, 1);
    {
        profile whole_net("net.json");
        for (int i = 0; i < 10; i++) net(x).softmax(-1);
    }
    profile_print(open("net.txt").get(), {.by = KILN_PROFILE_BY_CELL, .no_ceilings = true});
    profile_print(open("lines.txt").get(), {.by = KILN_PROFILE_BY_LINE, .no_ceilings = true});
    MUST(read_all("net.txt").find("dense") != std::string::npos);
    MUST(read_all("lines.txt").find("tools.cpp:") != std::string::npos);
}

EXAMPLE("performance-tips", "First, find out", 1)
{
    tensor x = ones({256, 256});
    const kiln_device_stats before = dev.stats();
    for (int i = 0; i < 10; i++) x = (x + 1) * 0.5; // two launches a turn
    dev.synchronize();
    const kiln_device_stats after = dev.stats();
    cout << after.launches - before.launches << " launches, " << after.fallbacks - before.fallbacks << " fallbacks\n";
}

EXAMPLE("performance-tips", "Do not wait", 1)
{
    tensor sum = zeros({}), x = ones({8});
    for (int step = 1; step <= 200; step++) {
        sum.add_((x * step).mean()); // in the place of a loss
        if (step % 100 == 0) {
            cout << "step " << step << ": " << sum.item() / 100 << '\n';
            sum.assign(0);
        }
    }
}

EXAMPLE("tools", "From C", 1)
{
    for (size_t i = 0; i < kiln_kernel_count(); i++) {
        kiln_kernel_info k = {.size = sizeof k};
        if (kiln_kernel_get_info(i, &k) == KILN_OK && !std::strcmp(k.row, "softmax"))
            cout << k.symbol << ": " << k.kind << ", " << k.inputs << " in, " << k.outputs << " out\n";
    }
}

EXAMPLE("install", "Versions", 1)
{
#if KILN_VERSION < KILN_VERSION_NUMBER(0, 1, 0)
#error "this needs Kiln 0.1"
#endif
    if (kiln_version() != KILN_VERSION)
        cout << "compiled for " << KILN_VERSION_STRING << ", runs with " << version_string() << '\n';
    MUST(version_string() == KILN_VERSION_STRING);
}
