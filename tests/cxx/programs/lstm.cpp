// An LSTM learns to add up what it has seen.
#include <kiln/kiln.hpp>
#include <cstdio>
using namespace kiln;

int main()
{
    device dev;
    dev.seed(0);
    auto lstm = nn::lstm(1, 24, {.batch_first = true});
    auto head = nn::dense(24, 1);
    auto params = parameters(lstm, head);
    auto opt = optim::adam(params, {.lr = 0.01});
    double first = 0, last = 0;
    for (int i = 0; i < 100; i++) {
        auto x = uniform({32, 10, 1}, -1, 1);
        auto loss = (head(lstm(x)) - x.cumsum(1)).square().mean();
        loss.backward();
        optim::clip_grad_norm(params, 1);
        opt.step();
        opt.zero_grad();
        last = loss.item();
        if (i == 0) first = last;
    }
    std::printf("%g %g\n", first, last);
    return last > first / 4;
}
