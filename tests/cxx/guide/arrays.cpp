// Examples of tensors.md, complex.md, linear-algebra.md, images.md.
#include "guide.hpp"

#include <cmath>

EXAMPLE("tensors", "dtypes", 1)
{
    tensor x = linspace(-1, 2, 6), scale = full({1}, 0.25);
    tensor q = x.quantize(scale, i8, quantize_opts{.bits = 4});
    cout << q << '\n' << q.pack_int4().unpack_int4(i8).dequantize(scale) << '\n';
    cout << (x * 3.14159).to_float8().from_float8(f32) << '\n';
}

EXAMPLE("tensors", "Storage dtypes", 1)
{
    tensor w = linspace(-9, 14.1, 8).reshape({2, 4});
    tensor f8 = w.to(KILN_F8_E4M3), i4 = w.to(KILN_I4);
    cout << f8 << '\n' << i4.flip(0) << '\n' << i4.bitcast(u8) << '\n' << f8.to(f32).sum() << '\n';
    f8 + w;
}

EXAMPLE("tensors", "Storage dtypes", 2)
{
    tensor half = ones({2}, f16), byte = ones({2}, u8);
    const char *space = "";
    for (const tensor &t : {half + 1.0, half + byte, byte + 1, byte + 1.0, byte + byte.to(i8)}) {
        cout << space << name_of(t.dtype());
        space = " ";
    }
    cout << '\n';
}

EXAMPLE("tensors", "Storage dtypes", 3)
{
    tensor x = arange(0, 4, 1);
    cout << x * 3 - 1 << '\n'
         << where(x > 1.5, x, 0) << '\n'
         << x.clip(1, 2) << '\n'
         << arange(0, 4, 1, u8) * 0.5 << '\n';
    cout << x.mul_(10) << '\n';
}

EXAMPLE("tensors", "Making and reading", 1)
{
    generator mine(42);
    use_generator now(mine);
    tensor waits = exponential({1000}, 2), faces = zeros({6}).categorical({1000});
    std::printf("%.1f %.0f\n", waits.mean().item(), faces.max().item());
}

EXAMPLE("tensors", "Broadcasting", 1)
{
    cout << arange(0, 3, 1, i32).reshape({3, 1}) * 10 + arange(0, 4, 1, i32) << '\n';
}

EXAMPLE("tensors", "Views", 1)
{
    tensor x = arange(0, 12, 1, i32).reshape({3, 4}), t = x.transpose(0, 1);
    cout << x(slice(1), slice(0, end, 2)) << '\n' << x(whole, -1) << '\n';
    cout << is_view_of(t, x) << ' ' << is_view_of(t.reshape({12}), x) << '\n';
}

EXAMPLE("tensors", "Indexing", 1)
{
    tensor x = arange(0, 12, 1, i32).reshape({3, 4});
    cout << x(-1, slice(2)) << '\n' << x(slice(0, end, 2), slice(1, 3)) << '\n' << x(ellipsis, new_axis, 0) << '\n';
}

EXAMPLE("tensors", "Indexing", 2)
{
    tensor x = arange(0, 12, 1, i32).reshape({3, 4}), rows{2, 0}, columns{1, -1};
    cout << x(rows) << '\n' << x(rows, columns) << '\n' << x(x > 8) << '\n';
}

EXAMPLE("tensors", "Indexing", 3)
{
    tensor x = zeros({2, 3});
    x.set(5, 0);
    x.set_add(1, 1, tensor{0, 0, 2});
    x.set(-1, x == 0);
    cout << x << '\n';
}

EXAMPLE("tensors", "Printing", 1)
{
    tensor x = arange(0, 400, 1).reshape({20, 20}) / 7, row = x[0] * 1e-5;
    x.print(stdout, {.precision = 2, .threshold = 100, .edge = 2});
    row.print(stdout, {.width = 60, .notation = KILN_PRINT_PLAIN, .sign = KILN_PRINT_SIGN_PLUS});
    set_print_options({.precision = 1, .threshold = 10});
    row.to(f64).print();
    set_print_options();
}

EXAMPLE("tensors", "Writes", 1)
{
    tensor x = zeros({2, 3}), second = x[1];
    second.assign(arange(1, 4, 1));
    x.set(9, whole, slice(2, 3));
    second.mul_(10);
    cout << x << '\n';
}

EXAMPLE("tensors", "Scalar semantics", 1)
{
    tensor a = from_data<int32_t>({-7, 7, INT32_MIN}), b = from_data<int32_t>({2, 0, -1});
    cout << a.floor_divide(b) << '\n' << a % b << '\n' << from_data<float>({300, -1.7f, NAN}).to(i8) << '\n';
}

EXAMPLE("complex", "", 1)
{
    tensor x = (arange(0, 8, 1) * 0.78539816).sin(); // one period of eight samples
    tensor spectrum = x.rfft(-1), back = spectrum.irfft(-1);
    cout << spectrum.abs().round() << '\n' << ((back - x).abs().max() < 1e-6) << '\n';
}

EXAMPLE("complex", "Fourier transforms", 1)
{
    tensor image = uniform({32, 32}, 0, 1), f = fftfreq(32, 1);
    tensor far = f.unsqueeze(1).square() + f.square();
    tensor smooth = (image.fft2() * where(far < 0.04, 1.0, 0.0)).ifft2().real();
    cout << (smooth.std() < image.std()) << '\n';
}

EXAMPLE("linear-algebra", "", 1)
{
    tensor a{{2.0, 1.0}, {1.0, 3.0}}, b{3.0, 4.0};
    cout << a.solve(b) << '\n' << a.det().round() << '\n' << einsum("ij,j->i", {a, b}) << '\n';
}

EXAMPLE("linear-algebra", "", 2)
{
    tensor{{1.0, 2.0}, {2.0, 4.0}}.inv();
}

EXAMPLE("images", "", 1)
{
    tensor x = arange(0, 16, 1).reshape({1, 1, 4, 4});
    auto [largest, places] = x.max_pool2d_with_indices(2);
    cout << places.flatten(0, -1) << '\n' << largest.max_unpool2d(places, 2) << '\n';
    cout << x.interpolate({2, 8}, 0, "bilinear") << '\n';
}

EXAMPLE("images", "A batch, each sample in its own way", 1)
{
    tensor bytes = randint({8, 3, 40, 40}, 0, 256, u8);
    tensor angles = uniform({8}, -15, 15), factors = uniform({8}, 0.8, 1.2); // degrees
    tensor small = bytes.rotate(angles, "bilinear").resize(36, 36, resize_opts{.antialias = true});
    tensor inputs = small.center_crop(32, 32).adjust_brightness(factors).to(f32) * (1.0 / 255);
    cout << name_of(inputs.dtype()) << " [" << inputs.size(0) << ',' << inputs.size(1) << ',' << inputs.size(2) << ','
         << inputs.size(3) << "]\n";
}

EXAMPLE("images", "Sampling at computed places", 1)
{
    tensor image = arange(0, 9, 1).reshape({1, 1, 3, 3});
    tensor theta = tensor{{{-1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}}}; // x' = -x, y' = y
    cout << image.grid_sample(theta.affine_grid({3, 3}, false)).round() << '\n';
}

EXAMPLE("images", "Boxes", 1)
{
    tensor boxes{{0.0, 0.0, 4.0, 4.0}, {0.0, 0.0, 4.0, 5.0}, {6.0, 6.0, 8.0, 8.0}}, scores{0.5, 0.9, 0.4};
    cout << boxes.nms(scores, 0.5) << '\n' << std::get<0>(boxes.nms_sized(scores, 0.5, 4)) << '\n';
}

EXAMPLE("images", "Cells", 1)
{
    auto net = nn::sequential(nn::conv1d(1, 8, 5, {.stride = 2, .pad_mode = "same"}), nn::relu(),
                              nn::conv_transpose1d(8, 1, 4, {.stride = {2}, .padding = {1}}));
    tensor y = net(ones({2, 1, 64}));
    cout << '[' << y.size(0) << ',' << y.size(1) << ',' << y.size(2) << "]\n";
}
