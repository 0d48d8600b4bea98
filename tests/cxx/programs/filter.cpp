// A filter of images: blurs, takes the edges by Sobel's operator, and finds the border of a square.
#include <kiln/kiln.hpp>
#include <cstdio>
using namespace kiln;

int main()
{
    device dev;
    auto image = zeros({1, 1, 32, 32});
    image(0, 0, slice(8, 24), slice(8, 24)).add_(1);
    auto filter = jit([](const tensor &x) {
        auto blur = full({1, 1, 3, 3}, 1.0 / 9);
        tensor sobel{{-1.0, 0.0, 1.0}, {-2.0, 0.0, 2.0}, {-1.0, 0.0, 1.0}};
        auto across = sobel.reshape({1, 1, 3, 3}), down = sobel.swapaxes(0, 1).reshape({1, 1, 3, 3});
        auto smooth = conv2d(x, blur, {}, 1, 1);
        return hypot(conv2d(smooth, across, {}, 1, 1), conv2d(smooth, down, {}, 1, 1));
    });
    auto edges = filter(image)(0, 0);
    std::printf("%g %g %g\n", edges(16, 8).item(), edges(16, 16).item(), edges(2, 2).item());
    return edges(16, 8).item() < 2 || edges(16, 16).item() > 1e-5 || edges(2, 2).item() > 1e-5;
}
