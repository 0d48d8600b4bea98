// A convolutional network learns which quarter of an image is bright.
#include <kiln/kiln.hpp>
#include <cstdio>
using namespace kiln;

int main()
{
    device dev;
    dev.seed(0);
    auto labels = randint({256}, 0, 4);
    auto images = normal({256, 1, 8, 8}, 0, 0.3);
    for (int i = 0; i < 256; i++) {
        int label = labels[i].item<int>(), y = label / 2 * 4, x = label % 2 * 4;
        images(i, 0, slice(y, y + 4), slice(x, x + 4)).add_(1);
    }
    auto net = nn::sequential(nn::conv2d(1, 8, 3, {.padding = {1, 1}, .bias = true}), nn::relu(), nn::max_pool2d(2),
                              nn::flatten(), nn::dense(8 * 4 * 4, 4));
    auto opt = optim::adam(net.parameters(), {.lr = 0.01});
    for (int epoch = 0; epoch < 5; epoch++)
        for (int i = 0; i < 256; i += 32) {
            auto loss = cross_entropy(net(images[slice(i, i + 32)]), labels[slice(i, i + 32)]);
            loss.backward();
            opt.step();
            opt.zero_grad();
        }
    auto right = (net(images).argmax(1) == labels).mean().item();
    std::printf("%g\n", right);
    return right < 0.95;
}
