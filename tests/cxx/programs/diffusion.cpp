// Diffusion of points: a network learns to take noise off a circle, and makes points of noise.
#include <kiln/kiln.hpp>
#include <cstdio>
using namespace kiln;

int main()
{
    device dev;
    dev.seed(0);
    auto betas = linspace(1e-4, 0.2, 40);
    auto kept = (1 - betas).cumprod(0);
    auto net = nn::sequential(nn::dense(3, 64), nn::silu(), nn::dense(64, 64), nn::silu(), nn::dense(64, 2));
    auto opt = optim::adam(net.parameters(), {.lr = 3e-3});
    for (int i = 0; i < 600; i++) {
        auto angle = uniform({256, 1}, 0, 6.2831853);
        auto points = concat({angle.cos(), angle.sin()}, 1);
        auto t = randint({256, 1}, 0, 40);
        auto noise = normal({256, 2}, 0, 1);
        auto noisy = kept[t].sqrt() * points + (1 - kept[t]).sqrt() * noise;
        auto loss = (net(concat({noisy, t / 40.0}, 1)) - noise).square().mean();
        loss.backward();
        opt.step();
        opt.zero_grad();
    }
    no_grad no_tape;
    auto x = normal({256, 2}, 0, 1);
    for (int t = 39; t >= 0; t--) {
        auto noise = net(concat({x, full({256, 1}, t / 40.0)}, 1));
        x = (x - betas[t] / (1 - kept[t]).sqrt() * noise) / (1 - betas[t]).sqrt();
        if (t > 0) x += betas[t].sqrt() * normal({256, 2}, 0, 1);
    }
    auto off = (x.square().sum(1).sqrt() - 1).abs().mean().item();
    std::printf("%g\n", off);
    return off > 0.4;
}
