"""Cases of torch_rows.py: elementwise ops, reductions, norms, indexing, random numbers, moves."""
import torch
import torch.nn.functional as F

from rows import B, C, D, H, N, QB, R, S, case, group
from torch_base import Grad, dev, grad_inputs, ints, rnd


def grad(name, fn, wrt, make, flops=0, nbytes=0):
    case(name, Grad(fn, wrt), grad_inputs(make, fn, wrt), flops, nbytes)


def chain5(x, y):
    return torch.sigmoid(torch.tanh(F.relu(x * y + x) * 0.5 - y)) + x


group("vector")
one = lambda: (rnd(N),)
two = lambda: (rnd(N), rnd(N))
case("add", lambda x, y: x + y, two, N, 12 * N)
case("chain5", chain5, two, 0, 12 * N)
case("chain5_f16", chain5, lambda: (rnd(N, dtype=torch.half), rnd(N, dtype=torch.half)), 0, 6 * N)
case("chain5_bf16", chain5, lambda: (rnd(N, dtype=torch.bfloat16), rnd(N, dtype=torch.bfloat16)), 0, 6 * N)
case("chain_i32", lambda x, y: torch.clamp_min(x * y + x, 0) * 3 - y + x,
     lambda: tuple(ints(1000, N, low=-1000, dtype=torch.int32) for _ in range(2)), 0, 12 * N)
case("sin", torch.sin, one, N, 8 * N)
grad("gelu_grad", F.gelu, 1, one, 0, 16 * N)

group("matrix")
matrix = lambda: (rnd(R, C),)
case("sum_all", lambda x: x.sum(), one, N, 4 * N)
case("broadcast", lambda m, r, c: (m * r + c) * 0.5, lambda: (rnd(R, C), rnd(C), rnd(R, 1)), 0, 8 * R * C)
case("sum_rows", lambda m: m.sum(-1), matrix, 0, 4 * R * C)
case("sum_cols", lambda m: m.sum(0), matrix, 0, 4 * R * C)
cube = lambda: (rnd(R // 64, 64, C),)
case("reduce_middle", lambda x: x.sum(1), cube, 0, 4 * R * C)
case("reduce_first", lambda x: x.sum(0), cube, 0, 4 * R * C)
images = lambda: (rnd(B, 64, 56, 56),)
IMAGES = B * 64 * 56 * 56
case("mean_channels", lambda x: x.mean((0, 2, 3)), images, 0, 4 * IMAGES)
case("mean_images", lambda x: x.mean((2, 3)), images, 0, 4 * IMAGES)
case("var_rows", lambda m: m.var(-1, correction=0), matrix, 0, 4 * R * C)
case("argmax_rows", lambda m: m.argmax(-1), matrix, 0, 4 * R * C)
case("argmax_cols", lambda m: m.argmax(0), matrix, 0, 4 * R * C)
case("logsumexp_rows", lambda m: m.logsumexp(-1), matrix, 0, 4 * R * C)
case("cumsum_rows", lambda m: m.cumsum(1), matrix, 0, 8 * R * C)
case("cumsum_cols", lambda m: m.cumsum(0), matrix, 0, 8 * R * C)
case("distances", lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1), lambda: (rnd(1024, 16), rnd(1024, 16)),
     3 * 1024 * 1024 * 16, 4 * (1024 * 1024 + 2 * 1024 * 16))

group("norm")
scaled = lambda: (rnd(R, C), rnd(C))
softmax = lambda m: torch.softmax(m, -1)
layer_norm = lambda m, w, b: F.layer_norm(m, (C,), w, b)
batch_norm = lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)
affine = lambda: (rnd(B, 64, 56, 56), rnd(64), rnd(64))
bf16 = lambda: (rnd(R, C, dtype=torch.bfloat16), rnd(C, dtype=torch.bfloat16))
case("softmax", softmax, matrix, 0, 8 * R * C)
case("layer_norm", lambda m, r: F.layer_norm(m, (C,), r, r), scaled, 0, 8 * R * C)
case("rms_norm", lambda m, r: m * torch.rsqrt((m * m).mean(-1, keepdim=True) + 1e-6) * r, scaled, 0, 8 * R * C)
case("group_norm", lambda x, w: F.group_norm(x, 8, w, w), lambda: (rnd(B, 64, 56, 56), rnd(64)), 0, 8 * IMAGES)
case("cross_entropy", lambda m, t: F.cross_entropy(m, t), lambda: (rnd(R, C), ints(C, R)), 0, 4 * R * C)
case("softmax_bf16", lambda m, r: torch.softmax(m, -1), bf16, 0, 4 * R * C)
case("layer_norm_bf16", lambda m, r: F.layer_norm(m, (C,), r, r), bf16, 0, 4 * R * C)
case("batch_norm_train", lambda x, w, b: torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5), affine, 0,
     8 * IMAGES)
grad("softmax_grad", softmax, 1, matrix, 0, 16 * R * C)
grad("layer_norm_grad", layer_norm, 3, lambda: (rnd(R, C), rnd(C), rnd(C)), 0, 16 * R * C)
grad("batch_norm_grad", batch_norm, 3, affine, 0, 16 * IMAGES)

group("index")
case("gather_rows", lambda m, t: m[t % 4096], lambda: (rnd(R, C), ints(C, R)), 0, 8 * R * C)
case("gather_cols", lambda m, i: m.gather(1, i), lambda: (rnd(R, C), ints(C, R, C // 4)), 0, 16 * R * C // 4)
case("scatter_add", lambda t, i, m: t.scatter_add(0, i, m), lambda: (rnd(64, C), ints(64, R // 4, C), rnd(R // 4, C)), 0,
     12 * R * C // 4)
case("take", torch.take, lambda: (rnd(N), ints(N, N // 4)), 0, 16 * N // 4)
grad("embedding_grad", lambda table, ids: F.embedding(ids, table), 1, lambda: (rnd(R, C // 4), ints(R, 2 * R)), 0,
     4 * (3 * 2 * R + 2 * R) * C // 4)
case("sort_rows", lambda m: m.sort(-1), lambda: (rnd(R // 4, C),))
case("topk_rows", lambda m: m.topk(10), matrix, 0, 4 * R * C)
case("searchsorted", torch.searchsorted, lambda: (rnd(N // 16).sort().values, rnd(N)))
case("histogram", lambda x: torch.histc(x, 100, -3, 3), one, 0, 4 * N)

group("random")
case("categorical", lambda m: torch.distributions.Categorical(logits=m).sample(), matrix, 0, 4 * R * C)
case("normal", lambda: torch.randn(N, device=dev), lambda: (), 0, 4 * N)
case("dropout", lambda x: F.dropout(x, 0.5, True), one, 0, 8 * N)

group("move")
pair = lambda: (rnd(R, C), rnd(R, C))
case("transpose_add", lambda m: m.t().contiguous() + 1.0, matrix, 0, 8 * R * C)
case("strided_add", lambda x, y: x[:, ::2] + y[:, ::2], pair, 0, 10 * R * C)


def strided_chain(x, y):
    x, y = x[:, ::2], y[:, ::2]
    return F.relu(x * y + x - 0.5) * y


case("strided_chain", strided_chain, pair, 0, 10 * R * C)
case("permute_nhwc", lambda x: x.permute(0, 2, 3, 1).contiguous(), images, 0, 8 * IMAGES)
case("permute_heads", lambda x: x.permute(0, 2, 1, 3).contiguous(), lambda: (rnd(8 * QB, S, H, D),), 0,
     64 * QB * S * H * D)
case("permute_inner", lambda x: x.permute(0, 2, 1).contiguous(), lambda: (rnd(N // 4096, 64, 64),), 0, 8 * N)
case("concat", lambda *parts: torch.cat(parts, 1), lambda: tuple(rnd(R, C // 4) for _ in range(4)), 0, 8 * R * C)
case("pad", lambda x: F.pad(x, (1, 1, 1, 1)), images, 0, 8 * IMAGES)
