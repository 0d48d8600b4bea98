#!/usr/bin/env python3
"""Times the cases of torch_rows.py with JAX and prints one JSON document, in the form of `kiln-bench --json`.

usage: jax_rows.py [--device cpu|cuda] [--size small|large] [--threads N] [--modes eager,compile] [--filter TEXT]
                   [--budget S] > jax.json
Times are medians of several runs after a warm-up, in nanoseconds for one call, by the host's clock until the result is
there. XLA takes as many threads as it may use processors, so N threads are N processors.
"""
import functools, math, os, time

from rows import B, BL, BM, BS, C, D, DM, G, H, HD, LB, LL, LU, LY, N, QB, R, S, SQ, V
from rows import args, big, case, report, small_chain

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])
os.environ["JAX_PLATFORMS"] = args.device

import jax
import jax.numpy as jnp
from jax import lax, nn

key = jax.random.PRNGKey(0)


def next_key():
    global key
    key, k = jax.random.split(key)
    return k


def rnd(*shape, dtype=jnp.float32, scale=1.0):
    return (jax.random.normal(next_key(), shape) * scale).astype(dtype)


def ints(high, *shape):
    return jax.random.randint(next_key(), shape, 0, high)


def once(fn, inputs):
    t = time.perf_counter()
    jax.block_until_ready(fn(*inputs))
    return (time.perf_counter() - t) * 1e9


def layer_norm(m, w, b):
    mean, var = m.mean(-1, keepdims=True), m.var(-1, keepdims=True)
    return (m - mean) * lax.rsqrt(var + 1e-5) * w + b


def cross_entropy(logits, t):
    return -jnp.take_along_axis(nn.log_softmax(logits, -1), t[..., None], -1).mean()


def conv(x, w, padding):
    return lax.conv_general_dilated(x, w, (1, 1), [(padding, padding)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"))


def attention(q, k, v, causal=False):
    s = jnp.einsum("bhsd,bhtd->bhst", q, k) / math.sqrt(q.shape[-1])
    if causal:
        s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
    return jnp.einsum("bhst,bhtd->bhsd", nn.softmax(s, -1), v)


x, y = rnd(N), rnd(N)
case("add", lambda x, y: x + y, (x, y), N, 12 * N)
case("chain5", lambda x, y: nn.sigmoid(jnp.tanh(nn.relu(x * y + x) * 0.5 - y)) + x, (x, y), 0, 12 * N)
case("sum_all", lambda x: x.sum(), (x,), N, 4 * N)
m, r, c = rnd(R, C), rnd(C), rnd(R, 1)
case("broadcast", lambda m, r, c: (m * r + c) * 0.5, (m, r, c), 0, 8 * R * C)
case("sum_rows", lambda m: m.sum(-1), (m,), 0, 4 * R * C)
case("sum_cols", lambda m: m.sum(0), (m,), 0, 4 * R * C)
case("transpose_add", lambda m: m.T + 1.0, (m,), 0, 8 * R * C)
case("softmax", lambda m: nn.softmax(m, -1), (m,), 0, 8 * R * C)
case("layer_norm", lambda m, r: layer_norm(m, r, r), (m, r), 0, 8 * R * C)
case("rms_norm", lambda m, r: m * lax.rsqrt((m * m).mean(-1, keepdims=True) + 1e-6) * r, (m, r), 0, 8 * R * C)
t = ints(C, R)
case("cross_entropy", cross_entropy, (m, t), 0, 4 * R * C)
case("gather_rows", lambda m, t: m[t % 4096], (m, t), 0, 8 * R * C)
case("categorical", lambda m: jax.random.categorical(key, m), (m,), 0, 4 * R * C)
a, b, bias = rnd(G, G), rnd(G, G), rnd(G)
matmul = lambda a, b: a @ b
case("matmul_f32", matmul, (a, b), 2 * G**3, 12 * G * G)
case("matmul_bias_gelu", lambda a, b, bias: nn.gelu(a @ b + bias), (a, b, bias), 2 * G**3, 12 * G * G)
case("matmul_bf16", matmul, (a.astype(jnp.bfloat16), b.astype(jnp.bfloat16)), 2 * G**3, 6 * G * G)
case("matmul_f16", matmul, (a.astype(jnp.float16), b.astype(jnp.float16)), 2 * G**3, 6 * G * G)
case("matmul_batch", matmul, (rnd(64, 128, 128), rnd(64, 128, 128)), 2 * 64 * 128**3, 0)
case("einsum", lambda a, b: jnp.einsum("bqhd,bkhd->bhqk", a, b), (rnd(8, 256, 16, 64), rnd(8, 256, 16, 64)),
     2 * 8 * 16 * 256 * 256 * 64, 0)
case("solve", jnp.linalg.solve, (rnd(G, G), rnd(G, 16)), 2 * G**3 // 3, 0)
case("svd", lambda a: jnp.linalg.svd(a, full_matrices=False)[1], (rnd(64, 64, 64),), 0, 0)
case("solve_batch", jnp.linalg.solve, (rnd(8 * B, 32, 32) + 16 * jnp.eye(32), rnd(8 * B, 32, 8)), 0, 0)
case("fft_1m", jnp.fft.fft, (lax.complex(rnd(N // 4), rnd(N // 4)),), 0, 16 * (N // 4))
case("fft2_1024", jnp.fft.fft2, (lax.complex(rnd(C, C), rnd(C, C)),), 0, 16 * C * C)
case("conv3x3", lambda im, w: conv(im, w, 1), (rnd(B, 64, 56, 56), rnd(64, 64, 3, 3)), 2 * B * 64 * 64 * 9 * 56 * 56, 0)
qkv = tuple(rnd(QB, H, S, D, dtype=jnp.bfloat16 if big else jnp.float32) for _ in range(3))
case("attention", attention, qkv, 4 * QB * H * S * S * D, 0)
case("attention_causal", functools.partial(attention, causal=True), qkv, 2 * QB * H * S * S * D, 0)
case("dispatch_1000", small_chain, (rnd(4),))


def products(a, b):
    for _ in range(128):
        a = a @ b
    return a


case("products_128", products, (rnd(8, 8), jnp.eye(8)))
case("scan_1000", lambda s, x: lax.scan(lambda s, row: (s * 0.5 + row, None), s, x)[0], (jnp.zeros(4), rnd(1000, 4)))

case("while_device", lambda one, n: lax.while_loop(lambda s: s.max() < n, lambda s: s + one, jnp.zeros(4)), (jnp.ones(4), jnp.float32(1000)))


def lstm_loss(wi, wh, b, x):
    def step(carry, row):
        h, c = carry
        i, f, g, o = jnp.split(row + h @ wh, 4, -1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((LB, LU))
    return lax.scan(step, (zero, zero), x @ wi + b)[1].sum()


case("lstm_step", jax.value_and_grad(lstm_loss, (0, 1, 2)),
     (rnd(LU, 4 * LU, scale=LU**-0.5), rnd(LU, 4 * LU, scale=LU**-0.5), rnd(4 * LU), rnd(LL, LB, LU)),
     12 * LL * LB * LU * 4 * LU)


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def dense(x, layers):
    for i, (w, b) in enumerate(layers):
        x = x @ w + b if i == len(layers) - 1 else nn.relu(x @ w + b)
    return x


def dense_layers(*widths):
    return [(rnd(i, o, scale=0.1), rnd(o, scale=0.1)) for i, o in zip(widths, widths[1:])]


def lenet(p, images):
    z = images
    for (w, b), padding in zip(p["conv"], (2, 0)):
        z = max_pool(nn.relu(conv(z, w, padding) + b[:, None, None]))
    return dense(z.reshape(z.shape[0], -1), p["dense"])


def sgd_step(net):
    def step(p, momentum, images, labels):
        loss, grad = jax.value_and_grad(lambda p: cross_entropy(net(p, images), labels))(p)
        momentum = jax.tree.map(lambda u, g: 0.9 * u + g, momentum, grad)
        return jax.tree.map(lambda w, u: w - 0.01 * u, p, momentum), momentum, loss
    return step


def zeros_of(p):
    return jax.tree.map(jnp.zeros_like, p)


p = dict(conv=[(rnd(6, 1, 5, 5, scale=0.1), rnd(6, scale=0.1)), (rnd(16, 6, 5, 5, scale=0.1), rnd(16, scale=0.1))],
         dense=dense_layers(400, 120, 84, 10))
case("lenet_step", sgd_step(lenet), (p, zeros_of(p), rnd(BL, 1, 28, 28), ints(10, BL)))
p = dense_layers(784, 512, 512, 10)
case("mlp_step", sgd_step(lambda p, images: dense(images, p)), (p, zeros_of(p), rnd(BM, 784), ints(10, BM)))


def split_heads(z):
    return (u.reshape(BS, SQ, HD, DM // HD).transpose(0, 2, 1, 3) for u in jnp.split(z, 3, -1))


def block(x, p):
    heads = attention(*split_heads(dense(layer_norm(x, *p["norm1"]), [p["qkv"]])), causal=True)
    x = x + dense(heads.transpose(0, 2, 1, 3).reshape(BS, SQ, DM), [p["out"]])
    return x + dense(nn.gelu(dense(layer_norm(x, *p["norm2"]), [p["up"]])), [p["down"]])


def gpt(p, ids):
    x = p["tok"][ids] + p["pos"]
    for block_p in p["blocks"]:
        x = block(x, block_p)
    return layer_norm(x, *p["norm"]) @ p["head"]


def norm_layer():
    return jnp.ones(DM), jnp.zeros(DM)


def block_layers():
    widths = dict(qkv=(DM, 3 * DM), out=(DM, DM), up=(DM, 4 * DM), down=(4 * DM, DM))
    return dict(norm1=norm_layer(), norm2=norm_layer(), **{k: dense_layers(*w)[0] for k, w in widths.items()})


def adamw_step(p, m1, m2, ids, targets):
    loss, grad = jax.value_and_grad(lambda p: cross_entropy(gpt(p, ids), targets))(p)
    m1 = jax.tree.map(lambda u, g: 0.9 * u + 0.1 * g, m1, grad)
    m2 = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, m2, grad)
    p = jax.tree.map(lambda w, u, v: w * (1 - 1e-6) - 1e-4 * u / (jnp.sqrt(v) + 1e-8), p, m1, m2)
    return p, m1, m2, loss


p = dict(tok=rnd(V, DM, scale=0.1), pos=rnd(SQ, DM, scale=0.1), blocks=[block_layers() for _ in range(LY)],
         norm=norm_layer(), head=rnd(DM, V, scale=0.1))
case("gpt_step", adamw_step, (p, zeros_of(p), zeros_of(p), ints(V, BS, SQ), ints(V, BS, SQ)))


def decode(p, token):
    """128 likeliest tokens one by one, by a scan that carries keys and values."""
    n = min(SQ, 128)

    def step(carry, at):
        token, caches = carry
        x, kept = p["tok"][token] + p["pos"][at], []
        for b, (keys, values) in zip(p["blocks"], caches):
            q, k, v = (u.reshape(HD, 1, DM // HD)
                       for u in jnp.split(dense(layer_norm(x, *b["norm1"]), [b["qkv"]]), 3, -1))
            keys = lax.dynamic_update_slice_in_dim(keys, k, at, 1)
            values = lax.dynamic_update_slice_in_dim(values, v, at, 1)
            s = jnp.where(jnp.arange(n) <= at, jnp.einsum("hqd,hkd->hqk", q, keys) / math.sqrt(DM // HD), -jnp.inf)
            x = x + dense(jnp.einsum("hqk,hkd->hqd", nn.softmax(s, -1), values).reshape(1, DM), [b["out"]])
            x = x + dense(nn.gelu(dense(layer_norm(x, *b["norm2"]), [b["up"]])), [b["down"]])
            kept.append((keys, values))
        token = (layer_norm(x, *p["norm"]) @ p["head"]).argmax(-1)
        return (token, kept), token

    none = jnp.zeros((HD, n, DM // HD))
    return lax.scan(step, (token, [(none, none)] * LY), jnp.arange(n))[1]


case("decode_128", decode, (p, jnp.ones(1, jnp.int32)))

report(f"jax {jax.__version__}", jax.devices()[0].device_kind, once,
       lambda fn, compiled: jax.jit(fn) if compiled else fn)
