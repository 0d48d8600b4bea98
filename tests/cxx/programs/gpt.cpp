// Steps of a small GPT that learns to count: the next token is the last one plus 1.
#include <kiln/kiln.hpp>
#include <cstdio>
using namespace kiln;

int main()
{
    device dev;
    dev.seed(0);
    auto tokens = nn::embedding(16, 32), places = nn::embedding(12, 32);
    auto body = nn::transformer_encoder(32, 4, 2, {.feed_forward = 64, .norm_first = true, .causal = true});
    auto head = nn::dense(32, 16);
    auto opt = optim::adamw(parameters(tokens, places, body, head), {.lr = 3e-3});
    auto step = [&](const tensor &ids) {
        auto x = tokens(ids(whole, slice(0, -1))) + places(arange(0, 12, 1, i64));
        auto loss = cross_entropy(head(body(x)).reshape({-1, 16}), ids(whole, slice(1)).reshape({-1}));
        loss.backward();
        opt.step();
        opt.zero_grad();
        return loss.item();
    };
    double first = 0, last = 0;
    for (int i = 0; i < 60; i++) {
        auto ids = (randint({16, 1}, 0, 16) + arange(0, 13, 1, i64)) % 16;
        last = step(ids);
        if (i == 0) first = last;
    }
    std::printf("%g %g\n", first, last);
    return last > first / 4;
}
