// Examples of pretrained.md that it quotes of programs; the others are in start.cpp.
#include "guide.hpp"

#include <algorithm>

namespace {

cell conv(int64_t in, int64_t out, int64_t size, int64_t stride)
{
    return nn::conv2d(in, out, size, {.stride = {stride, stride}, .padding = {size / 2, size / 2}, .no_bias = true});
}

// A block of a residual network, with the names of torchvision's.
cell block(int64_t in, int64_t out, int64_t stride)
{
    const bool down = stride != 1 || in != out;
    auto made = cell::make("block", [down](cell_ref self, const tensor &x) {
        tensor y = self.child("bn1")(self.child("conv1")(x)).relu();
        y = self.child("bn2")(self.child("conv2")(y));
        return (y + (down ? self.child("downsample")(x) : x)).relu();
    });
    made.add_child("conv1", conv(in, out, 3, stride));
    made.add_child("bn1", nn::batch_norm2d(out));
    made.add_child("conv2", conv(out, out, 3, 1));
    made.add_child("bn2", nn::batch_norm2d(out));
    if (down) made.add_child("downsample", nn::sequential(conv(in, out, 1, stride), nn::batch_norm2d(out)));
    return made;
}

} // namespace

EXAMPLE("pretrained", "Into cells", 2)
{
    std::vector<std::string> names;
    for (const auto &[name, value] : block(2, 4, 2).state()) names.push_back(name);
    for (const char *name : {"conv1.weight", "bn1.gamma", "conv2.weight", "bn2.moving_mean", "downsample.1.beta"})
        MUST(std::find(names.begin(), names.end(), name) != names.end());
}

EXAMPLE("pretrained", "Into cells", 3)
{
    auto same = block(3, 3, 1), down = block(3, 4, 2);
    tensor x = normal({2, 3, 8, 8}, 0, 1);
    tensor y = same.child("bn1")(same.child("conv1")(x)).relu();
    y = same.child("bn2")(same.child("conv2")(y));
    MUST(same(x).allclose((y + x).relu()).item() == 1);
    MUST(down(x).shape() == (std::vector<int64_t>{2, 4, 4, 4}));
}

EXAMPLE("pretrained", "Into cells", 4)
{
    auto net = block(3, 4, 2), again = block(3, 4, 2);
    net.save("resnet.safetensors");
    archive file("resnet.safetensors");
    again.load(file);
    tensor x = normal({1, 3, 8, 8}, 0, 1);
    MUST(again.eval()(x).array_equal(net.eval()(x), false).item() == 1);
}

EXAMPLE("pretrained", "Two networks from end to end", 1)
{
    safetensors_save("model.safetensors", {{"bert.pooler.bias", full({2}, 0.5, f16)}, {"cls.bias", zeros({1})}});
    archive file("model.safetensors");
    bundle weights = file.as_bundle({.prefix = "bert.", .dtype = KILN_F32});
    MUST(weights.count() == 1 && weights["pooler.bias"].dtype() == f32);
    MUST(weights["pooler.bias"].sum().item() == 1);
}
