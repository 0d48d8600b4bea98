// A network that obeys u'' = -u, u(0) = 0, u'(0) = 1: the sine.
#include <kiln/kiln.hpp>
#include <cstdio>
using namespace kiln;

int main()
{
    device dev;
    dev.seed(0);
    auto net = nn::sequential(nn::dense(1, 32), nn::tanh(), nn::dense(32, 32), nn::tanh(), nn::dense(32, 1));
    auto opt = optim::adam(net.parameters(), {.lr = 5e-3});
    auto x = linspace(0, 3, 32).reshape({-1, 1}).requires_grad();
    for (int i = 0; i < 500; i++) {
        auto u = net(x);
        auto u_x = gradient(u, x, true);
        auto u_xx = gradient(u_x, x, true);
        auto loss = (u_xx + u).square().mean() + u[0].square().sum() + (u_x[0] - 1).square().sum();
        loss.backward();
        opt.step();
        opt.zero_grad();
    }
    auto worst = (net(x) - x.sin()).abs().max().item();
    std::printf("%g\n", worst);
    return worst > 0.1;
}
