// Examples of explain.md, performance-tips.md, timing.md, tools.md.
#include "guide.hpp"

#include <kiln/debug.h>

#include <cmath>
#include <cstring>

EXAMPLE("explain", "", 1)
{
    auto layer = jit([](const tensor &x, const tensor &w, const tensor &b) { return (x.matmul(w) + b).relu().sum(1); });
    tensor w = ones({3, 5}), b = ones({5});
    for (int rows = 2; rows <= 4; rows += 2)
        for (int i = 0; i < 5; i++) layer(ones({rows, 3}), w, b);
    layer.explain(stdout);
}

EXAMPLE("explain", "Each kernel, value by value", 1)
{
    auto layer = jit([](const tensor &x, const tensor &w, const tensor &b) { return (x.matmul(w) + b).relu().sum(1); },
                     {.name = "layer"});
    layer(ones({4, 3}), ones({3, 5}), ones({5}));
    layer.explain(stdout, KILN_EXPLAIN_DETAIL);
}

EXAMPLE("explain", "kiln_function_stats", 1)
{
    auto scale = jit([](const tensor &x, const tensor &by) { return (x * by).relu(); });
    for (int i = 0; i < 10; i++) scale(ones({3}), i);
    auto s = scale.stats();
    cout << s.calls << " calls, " << s.captures << " captures, " << s.launches << " launches\n";
}

EXAMPLE("explain", "A network as a table", 1)
{
    auto net = nn::sequential(nn::conv2d(1, 4, 3, {.pad_mode = "same"}), nn::batch_norm2d(4), nn::relu(), nn::flatten(),
                              nn::dense(4 * 8 * 8, 10));
    net.summary(stdout, ones({2, 1, 8, 8}));
}

EXAMPLE("performance-tips", "First, find out", 1)
{
    tensor x = ones({256, 256});
    auto before = dev.stats();
    for (int i = 0; i < 10; i++) x = (x + 1) * 0.5; // two launches a turn
    dev.synchronize();
    auto after = dev.stats();
    cout << after.launches - before.launches << " launches, " << after.fallbacks - before.fallbacks << " fallbacks\n";
}

EXAMPLE("performance-tips", "Do not wait", 1)
{
    tensor sum = zeros({}), x = ones({8});
    for (int step = 1; step <= 200; step++) {
        sum.add_((x * step).mean()); // in the place of a loss
        if (step % 100) continue;
        cout << "step " << step << ": " << sum.item() / 100 << '\n';
        sum.assign(0);
    }
}

EXAMPLE("timing", "", 1)
{
    auto layer = [](const tensor &x, const tensor &w, const tensor &b) { return (x.matmul(w) + b).gelu(); };
    tensor x = ones({64, 96}), w = ones({96, 32}), b = ones({32});
    auto eager = bench(layer, {.budget_s = 0.02}, x, w, b);
    auto jit = bench(layer, {.budget_s = 0.02, .jit = true}, x, w, b);
    FILE *f = std::fopen("times.txt", "w");
    bench_print(jit, f);
    std::fclose(f);
    cout << std::floor(jit.flops / 2e3) * 1e3
         << " multiply-adds, some compilation: " << (jit.compile_ns > 0 ? "yes" : "no") << '\n';
    cout << "eager: " << eager.launches << " launches a call, captured: " << jit.launches << '\n';
}

EXAMPLE("timing", "Options", 1)
{
    device cpu("cpu");
    double bytes_a_second = cpu.ceiling(KILN_CEILING_COPY, 64 << 20);
    double operations_a_second = cpu.ceiling(KILN_CEILING_FMA, 0);
    double of_bf16 = cpu.ceiling(KILN_CEILING_FMA_BF16, 0);
    double launches_a_second = cpu.ceiling(KILN_CEILING_LAUNCH, 0);
    cout << (bytes_a_second > 1e8) << ' ' << (operations_a_second > 1e8) << '\n';
    cout << (of_bf16 > 1e8) << ' ' << (launches_a_second > 1e4) << '\n';
}

EXAMPLE("tools", "From C", 1)
{
    for (size_t i = 0; i < kiln_kernel_count(); i++) {
        kiln_kernel_info k{};
        k.size = sizeof k;
        if (kiln_kernel_get_info(i, &k) == KILN_OK && !std::strcmp(k.row, "softmax"))
            cout << k.symbol << ": " << k.kind << ", " << k.inputs << " in, " << k.outputs << " out\n";
    }
}
