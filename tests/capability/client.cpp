// A C++ program: containers, a handle with a destructor, an exception out of the user's own code, a function of
// gradients with state.
#include <kiln/kiln.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct free_tensor {
    void operator()(kiln_tensor *t) const { kiln_free(&t); }
};
using tensor = std::unique_ptr<kiln_tensor, free_tensor>;

static tensor checked(kiln_tensor *t)
{
    if (t) return tensor(kiln_own(t));
    std::string text = kiln_error_message();
    kiln_error_clear();
    throw std::runtime_error(text);
}

int main()
{
    kiln_device *dev = kiln_device_open("cpu");
    std::vector<float> values = {1, 2, 3, 4, 5, 6};
    std::vector<int64_t> dims = {2, 3};
    tensor x = checked(kiln_from_data(dev, KILN_F32, dims.size(), dims.data(), values.data()));

    double scale = 3;
    auto fn = [](void *user, kiln_tensor *const *in, size_t, kiln_tensor **out, size_t) -> kiln_status {
        out[0] = kiln_mul(kiln_square(in[0]), kiln_scalar(*static_cast<double *>(user)));
        return kiln_error();
    };
    kiln_tensor *in[] = {x.get()}, *dx = nullptr;
    if (kiln_grad(fn, &scale, in, 1, KILN_GRAD(.wrt = KILN_ARGS(0)), &dx, 1)) return 1;
    tensor gradient(dx);
    std::vector<float> got(6);
    if (kiln_read(gradient.get(), got.data(), got.size() * sizeof got[0])) return 2;
    for (size_t i = 0; i < got.size(); i++) {
        if (std::fabs(got[i] - 6 * values[i]) > 1e-5f) return 3;
    }
    std::string message;
    try {
        checked(kiln_matmul(x.get(), x.get()));
    } catch (const std::runtime_error &e) {
        message = e.what();
    }
    if (message.find("matmul: ") != 0 || message.find("client.cpp:") == std::string::npos) {
        std::fprintf(stderr, "%s\n", message.c_str());
        return 4;
    }
    kiln_device_stats stats = {};
    stats.size = sizeof stats;
    kiln_device_get_stats(dev, &stats);
    if (stats.tensors != 2) return 5;
    gradient.reset();
    x.reset();
    kiln_device_close(&dev);
    std::puts("good");
    return 0;
}
