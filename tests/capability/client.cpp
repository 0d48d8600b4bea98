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

// What a lambda gives of a bundle, captured, and its gradient.
static bool bundles(kiln_device *dev)
{
    kiln_scope *scope = kiln_scope_begin();
    auto fn = [](void *, kiln_bundle *in, kiln_bundle **out) -> kiln_status {
        *out = kiln_bundle_create();
        size_t count = kiln_bundle_count(in);
        kiln_bundle_append(*out, nullptr, KILN_INT(count));
        kiln_bundle_append(*out, nullptr, KILN_TRUTH(true));
        kiln_bundle_append(*out, "none", KILN_NONE);
        return kiln_bundle_append(*out, "y", KILN_TENSOR(kiln_abs(kiln_square(kiln_bundle_tensor(in, "x")))));
    };
    kiln_bundle *in = kiln_bundle_create(), *out = nullptr, *grads = nullptr;
    kiln_bundle_set(in, "x", KILN_TENSOR(kiln_full(dev, KILN_F32, KILN_SHAPE(1), 3)));
    kiln_bundle_set(in, "text", KILN_STRING("text"));
    kiln_function *f = kiln_bundle_jit(fn, nullptr, KILN_JIT(.name = "square", .in_place = true));
    kiln_bundle_call(f, in, &out);
    kiln_bundle_grad(fn, nullptr, in, KILN_BUNDLE_GRAD(.names = KILN_NAMES("x")), nullptr, &grads);
    bool right = kiln_bundle_int_at(out, 0) == 2 && kiln_item(kiln_bundle_tensor(out, "y")) == 9 &&
                 kiln_item(kiln_bundle_tensor(grads, "x")) == 6 && !kiln_error();
    kiln_function_free(&f);
    kiln_scope_end(&scope);
    return right;
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
    if (!bundles(dev)) return 6;
    gradient.reset();
    x.reset();
    kiln_device_close(&dev);
    std::puts("good");
    return 0;
}
