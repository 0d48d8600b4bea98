// Examples of pretrained.md.
#include "guide.hpp"

#include <algorithm>

EXAMPLE("pretrained", "", 1)
{
    safetensors_save("model.safetensors", {{"fc.weight", ones({3, 2})}, {"fc.bias", zeros({3})}});

    archive file("model.safetensors");
    for (size_t i = 0; i < file.count(); i++) {
        tensor t = file.get_tensor(i);
        cout << file.name(i) << ": " << name_of(t.dtype()) << ", " << t.rank() << " axes\n";
    }
}

EXAMPLE("pretrained", "Into cells", 1)
{
    auto net = nn::sequential(nn::conv2d(1, 2, 3, {.pad_mode = "same"}), nn::batch_norm2d(2));

    // As PyTorch writes a convolution and a norm behind it, but for a head that is of no use here.
    named_tensors arrays = {{"stem.0.weight", ones({2, 1, 3, 3})}};
    for (const char *name :
         {"stem.1.weight", "stem.1.bias", "stem.1.running_mean", "stem.1.running_var", "head.weight"})
        arrays.emplace_back(name, full({2}, double(arrays.size())));
    safetensors_save("stem.safetensors", arrays);

    archive file("stem.safetensors");
    try {
        net.load(file);
    } catch (const error &e) {
        cout << std::string(e.what()).substr(0, 76) << " ...\n";
    }
    net.load(file, {.prefix = "stem."});
    cout << net.parameter("1.beta") << '\n';
}

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

// y = relu(x a^T + b), of x [.., k], a [m, k], b [m] in a bundle.
static bundle layer(const bundle &in)
{
    bundle out;
    out.append("y", (in["x"].matmul(in["weight"].transpose(0, 1)) + in["bias"]).relu());
    return out;
}

EXAMPLE("pretrained", "As the state of a function", 1)
{
    safetensors_save("model.safetensors", {{"fc.weight", ones({3, 2})}, {"fc.bias", zeros({3})}});
    bundle state = archive("model.safetensors").as_bundle({.prefix = "fc."});
    bundle in = state.copy();
    in.append("x", tensor{{3.0, 4.0}});
    jit(layer)(in).print();

    state.save("fc.safetensors");
    MUST(archive("fc.safetensors").count() == 2 && archive("fc.safetensors").has("weight"));
}

EXAMPLE("pretrained", "Weights that stay packed", 1)
{
    std::vector<uint8_t> block = {0x00, 0x38, 1, 2, 0xff};
    block.resize(34);
    tensor w = from_data(block, {1, 34}), x = ones({2, 32});
    const int64_t format = packing("q8_0");
    cout << w.unpack_blocks(format).narrow(1, 0, 4) << '\n' << x.matmul_packed(w, format) << '\n';
}

EXAMPLE("pretrained", "Two networks from end to end", 1)
{
    safetensors_save("model.safetensors", {{"bert.pooler.bias", full({2}, 0.5, f16)}, {"cls.bias", zeros({1})}});
    archive file("model.safetensors");
    bundle weights = file.as_bundle({.prefix = "bert.", .dtype = KILN_F32});
    MUST(weights.count() == 1 && weights["pooler.bias"].dtype() == f32);
    MUST(weights["pooler.bias"].sum().item() == 1);
}
