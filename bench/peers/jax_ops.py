"""Cases of jax_rows.py: elementwise ops, reductions, norms, indexing, random numbers, moves."""
import jax
import jax.numpy as jnp
from jax import lax, nn

from rows import B, C, D, H, N, QB, R, S, case, group
from jax_base import batch_norm, cross_entropy, grad_inputs, gradient, ints, layer_norm, next_key, rnd


def grad(name, fn, wrt, make, flops=0, nbytes=0):
    case(name, gradient(fn, wrt), grad_inputs(make, fn), flops, nbytes)


def chain5(x, y):
    return nn.sigmoid(jnp.tanh(nn.relu(x * y + x) * 0.5 - y)) + x


group("vector")
one = lambda: (rnd(N),)
two = lambda: (rnd(N), rnd(N))
case("add", lambda x, y: x + y, two, N, 12 * N)
case("chain5", chain5, two, 0, 12 * N)
case("chain5_f16", chain5, lambda: (rnd(N, dtype=jnp.float16), rnd(N, dtype=jnp.float16)), 0, 6 * N)
case("chain5_bf16", chain5, lambda: (rnd(N, dtype=jnp.bfloat16), rnd(N, dtype=jnp.bfloat16)), 0, 6 * N)
case("chain_i32", lambda x, y: jnp.maximum(x * y + x, 0) * 3 - y + x, lambda: (ints(2000, N) - 1000, ints(2000, N) - 1000),
     0, 12 * N)
case("sin", jnp.sin, one, N, 8 * N)
grad("gelu_grad", lambda x: nn.gelu(x, approximate=False), 1, one, 0, 16 * N)

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
case("var_rows", lambda m: m.var(-1), matrix, 0, 4 * R * C)
case("argmax_rows", lambda m: m.argmax(-1), matrix, 0, 4 * R * C)
case("argmax_cols", lambda m: m.argmax(0), matrix, 0, 4 * R * C)
case("logsumexp_rows", lambda m: nn.logsumexp(m, -1), matrix, 0, 4 * R * C)
case("cumsum_rows", lambda m: m.cumsum(1), matrix, 0, 8 * R * C)
case("cumsum_cols", lambda m: m.cumsum(0), matrix, 0, 8 * R * C)
case("distances", lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1), lambda: (rnd(1024, 16), rnd(1024, 16)),
     3 * 1024 * 1024 * 16, 4 * (1024 * 1024 + 2 * 1024 * 16))

group("norm")
scaled = lambda: (rnd(R, C), rnd(C))
softmax = lambda m: nn.softmax(m, -1)
affine = lambda: (rnd(B, 64, 56, 56), rnd(64), rnd(64))
bf16 = lambda: (rnd(R, C, dtype=jnp.bfloat16), rnd(C, dtype=jnp.bfloat16))


def group_norm(x, w):
    groups = x.reshape(x.shape[0], 8, -1)
    mean, var = groups.mean(-1, keepdims=True), groups.var(-1, keepdims=True)
    return ((groups - mean) * lax.rsqrt(var + 1e-5)).reshape(x.shape) * w[:, None, None] + w[:, None, None]


case("softmax", softmax, matrix, 0, 8 * R * C)
case("layer_norm", lambda m, r: layer_norm(m, r, r), scaled, 0, 8 * R * C)
case("rms_norm", lambda m, r: m * lax.rsqrt((m * m).mean(-1, keepdims=True) + 1e-6) * r, scaled, 0, 8 * R * C)
case("group_norm", group_norm, lambda: (rnd(B, 64, 56, 56), rnd(64)), 0, 8 * IMAGES)
case("cross_entropy", cross_entropy, lambda: (rnd(R, C), ints(C, R)), 0, 4 * R * C)
case("softmax_bf16", lambda m, r: softmax(m), bf16, 0, 4 * R * C)
case("layer_norm_bf16", lambda m, r: layer_norm(m, r, r), bf16, 0, 4 * R * C)
case("batch_norm_train", batch_norm, affine, 0, 8 * IMAGES)
grad("softmax_grad", softmax, 1, matrix, 0, 16 * R * C)
grad("layer_norm_grad", layer_norm, 3, lambda: (rnd(R, C), rnd(C), rnd(C)), 0, 16 * R * C)
grad("batch_norm_grad", lambda x, w, b: batch_norm(x, w, b)[0], 3, affine, 0, 16 * IMAGES)

group("index")
case("gather_rows", lambda m, t: m[t % 4096], lambda: (rnd(R, C), ints(C, R)), 0, 8 * R * C)
case("gather_cols", lambda m, i: jnp.take_along_axis(m, i, 1), lambda: (rnd(R, C), ints(C, R, C // 4)), 0, 16 * R * C // 4)
case("scatter_add", lambda t, i, m: t.at[i, jnp.arange(C)[None]].add(m),
     lambda: (rnd(64, C), ints(64, R // 4, C), rnd(R // 4, C)), 0, 12 * R * C // 4)
case("take", lambda x, i: x[i], lambda: (rnd(N), ints(N, N // 4)), 0, 16 * N // 4)
grad("embedding_grad", lambda table, ids: table[ids], 1, lambda: (rnd(R, C // 4), ints(R, 2 * R)), 0,
     4 * (3 * 2 * R + 2 * R) * C // 4)


def sort_rows(m):
    places = jnp.broadcast_to(jnp.arange(m.shape[1]), m.shape)
    return lax.sort((m, places), num_keys=1)


case("sort_rows", sort_rows, lambda: (rnd(R // 4, C),))
case("topk_rows", lambda m: lax.top_k(m, 10), matrix, 0, 4 * R * C)
case("searchsorted", jnp.searchsorted, lambda: (jnp.sort(rnd(N // 16)), rnd(N)))
case("histogram", lambda x: jnp.histogram(x, 100, (-3, 3))[0], one, 0, 4 * N)

group("random")
key = next_key()
case("categorical", lambda m: jax.random.categorical(key, m), matrix, 0, 4 * R * C)
case("normal", lambda k: jax.random.normal(k, (N,)), lambda: (key,), 0, 4 * N)
case("dropout", lambda k, x: jnp.where(jax.random.bernoulli(k, 0.5, x.shape), x * 2, 0), lambda: (key, rnd(N)), 0, 8 * N)

group("move")
pair = lambda: (rnd(R, C), rnd(R, C))
case("transpose_add", lambda m: m.T + 1.0, matrix, 0, 8 * R * C)
case("strided_add", lambda x, y: x[:, ::2] + y[:, ::2], pair, 0, 10 * R * C)


def strided_chain(x, y):
    x, y = x[:, ::2], y[:, ::2]
    return nn.relu(x * y + x - 0.5) * y


case("strided_chain", strided_chain, pair, 0, 10 * R * C)
case("permute_nhwc", lambda x: x.transpose(0, 2, 3, 1), images, 0, 8 * IMAGES)
case("permute_heads", lambda x: x.transpose(0, 2, 1, 3), lambda: (rnd(8 * QB, S, H, D),), 0, 64 * QB * S * H * D)
case("permute_inner", lambda x: x.transpose(0, 2, 1), lambda: (rnd(N // 4096, 64, 64),), 0, 8 * N)
case("concat", lambda *parts: jnp.concatenate(parts, 1), lambda: tuple(rnd(R, C // 4) for _ in range(4)), 0, 8 * R * C)
case("pad", lambda x: jnp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), images, 0, 8 * IMAGES)
