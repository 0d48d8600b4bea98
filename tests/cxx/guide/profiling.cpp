// Examples of profiling.md and install.md, and that of training.md which draws curves.
#include "guide.hpp"

#include <cmath>

// A file of C that closes itself.
using file_ptr = std::unique_ptr<FILE, int (*)(FILE *)>;
static file_ptr open(const char *path)
{
    return file_ptr(std::fopen(path, "w"), std::fclose);
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
    MUST(read_all("lines.txt").find("profiling.cpp:") != std::string::npos);
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
