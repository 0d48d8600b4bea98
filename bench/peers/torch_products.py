"""Cases of torch_rows.py: products, linear algebra, convolutions and pooling."""
import torch
import torch.nn.functional as F

from rows import B, C, G, N, case, group
from torch_base import Grad, dev, grad_inputs, rnd

group("product")


def product(name, m, k, n, batch=None, dtype=torch.float32, at=False, bt=False):
    """A product, of which at and bt say that an operand is stored transposed."""
    def inputs():
        dims = ((k, m) if at else (m, k)), ((n, k) if bt else (k, n))
        return tuple(rnd(*([batch] if batch else []), *d, dtype=dtype) for d in dims)
    size = {"f64": 8, "bf16": 2}.get(name.split("_")[1], 4)
    case(name, lambda a, b: (a.mT if at else a) @ (b.mT if bt else b), inputs, 2 * m * k * n * (batch or 1),
         size * (batch or 1) * (m * k + k * n + m * n))


square = lambda dtype: lambda: (rnd(G, G, dtype=dtype), rnd(G, G, dtype=dtype))
matmul = lambda a, b: a @ b
case("matmul_f32", matmul, square(torch.float32), 2 * G**3, 12 * G * G)
case("matmul_bias_gelu", lambda a, b, bias: F.gelu(a @ b + bias, approximate="tanh"),
     lambda: (rnd(G, G), rnd(G, G), rnd(G)), 2 * G**3, 12 * G * G)
case("matmul_bf16", matmul, square(torch.bfloat16), 2 * G**3, 6 * G * G)
case("matmul_f16", matmul, square(torch.half), 2 * G**3, 6 * G * G)
case("matmul_batch", matmul, lambda: (rnd(64, 128, 128), rnd(64, 128, 128)), 2 * 64 * 128**3)
product("matmul_32", 32, 32, 32)
product("matmul_64", 64, 64, 64)
product("matmul_128", 128, 128, 128)
product("matmul_256", 256, 256, 256)
product("matmul_512", 512, 512, 512)
product("matmul_2048", 2048, 2048, 2048)
product("matmul_4096", 4096, 4096, 4096)
product("matmul_odd", 509, 1021, 257)
product("matmul_at", 1024, 1024, 1024, at=True)
product("matmul_bt", 1024, 1024, 1024, bt=True)
product("matmul_atbt", 1024, 1024, 1024, at=True, bt=True)
product("matmul_skinny", 8192, 512, 16)
product("matmul_decode", 4, 4096, 4096)
product("matmul_decode_bt", 4, 4096, 4096, bt=True)
product("matmul_tiny8", 8, 8, 8, batch=4096)
product("matmul_tiny16", 16, 16, 16, batch=4096)
product("matmul_f64", 1024, 1024, 1024, dtype=torch.float64)
product("matmul_bf16_2048", 2048, 2048, 2048, dtype=torch.bfloat16)
case("einsum", lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b), lambda: (rnd(8, 256, 16, 64), rnd(8, 256, 16, 64)),
     2 * 8 * 16 * 256 * 256 * 64)

group("linear")
case("solve", torch.linalg.solve, lambda: (rnd(G, G), rnd(G, 16)), 2 * G**3 // 3)
case("svd", lambda a: torch.linalg.svd(a, full_matrices=False)[1], lambda: (rnd(64, 64, 64),))
case("solve_batch", torch.linalg.solve, lambda: (rnd(8 * B, 32, 32) + 16 * torch.eye(32, device=dev), rnd(8 * B, 32, 8)))
case("fft_1m", torch.fft.fft, lambda: (torch.complex(rnd(N // 4), rnd(N // 4)),), 0, 16 * (N // 4))
case("fft2_1024", torch.fft.fft2, lambda: (torch.complex(rnd(C, C), rnd(C, C)),), 0, 16 * C * C)

group("image")


def convolution(name, images, channels, made, side, kernel, stride=1, groups=1, gradient=False):
    fn = lambda x, w: F.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups)
    make = lambda: (rnd(images, channels, side, side), rnd(made, channels // groups, kernel, kernel))
    flops = 2 * images * made * (channels // groups) * kernel**2 * (side // stride)**2
    if gradient:
        case(name, Grad(fn, 2), grad_inputs(make, fn, 2), 3 * flops)
    else:
        case(name, fn, make, flops)


def pool(x):
    return F.max_pool2d(x, 3, 2, 1)


POOLED = 4 * B * 64 * (56 * 56 + 28 * 28)
images = lambda: (rnd(B, 64, 56, 56),)
convolution("conv3x3", B, 64, 64, 56, 3)
convolution("conv1x1", 32, 64, 256, 56, 1)
convolution("conv7x7", 8, 3, 64, 224, 7, stride=2)
convolution("conv_depthwise", 32, 64, 64, 56, 3, groups=64)
convolution("conv_deep", 8, 512, 512, 7, 3)
convolution("conv_grad", 16, 64, 64, 56, 3, gradient=True)
convolution("conv_depthwise_grad", 16, 64, 64, 56, 3, groups=64, gradient=True)
case("max_pool", pool, images, 0, POOLED)
case("max_pool_grad", Grad(pool, 1), grad_inputs(images, pool, 1), 0, 2 * POOLED)
case("conv1d", lambda x, w: F.conv1d(x, w, padding=4), lambda: (rnd(B, 64, 1024), rnd(64, 64, 9)),
     2 * B * 64 * 64 * 9 * 1024)
case("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
     lambda: (rnd(B, 64, 28, 28), rnd(64, 32, 4, 4)), 2 * B * 64 * 32 * 16 * 28 * 28)
case("resize", lambda x: F.interpolate(x, (224, 224), mode="bilinear"), lambda: (rnd(B, 3, 256, 256),), 0,
     4 * B * 3 * (256 * 256 + 224 * 224))
