"""Cases of jax_rows.py: attention, the cost of calls, loops, networks."""
import functools, math

import jax
import jax.numpy as jnp
from jax import lax, nn

from rows import BL, BM, BS, D, DM, H, HD, LB, LL, LU, LY, QB, S, SQ, V, big, case, group, small_chain
from jax_base import attention, batch_norm, conv, cross_entropy, dense, dense_layers, grad_inputs, gradient, ints, layer_norm
from jax_base import rnd

group("attention")
DTYPE = jnp.bfloat16 if big else jnp.float32
qkv = lambda: tuple(rnd(QB, H, S, D, dtype=DTYPE) for _ in range(3))
causal = functools.partial(attention, causal=True)


def sized(name, fn, length, gradient_of=False):
    make = lambda: tuple(rnd(1, 8, length, 64) for _ in range(3))
    flops = 4 * 8 * length * length * 64
    if gradient_of:
        case(name, gradient(fn, 3), grad_inputs(make, fn), 3.5 * flops)
    else:
        case(name, fn, make, flops)


case("attention", attention, qkv, 4 * QB * H * S * S * D)
case("attention_causal", causal, qkv, 2 * QB * H * S * S * D)
sized("attention_2048", attention, 2048)
sized("attention_causal_2048", causal, 2048)
sized("attention_grad", attention, 512, gradient_of=True)
sized("attention_causal_grad", causal, 512, gradient_of=True)


def sdpa_cached(x, keys, values):
    def place(carry, x):
        at, keys, values = carry
        keys, values = (lax.dynamic_update_slice_in_dim(c, x, at, 2) for c in (keys, values))
        s = jnp.einsum("bhsd,bhtd->bhst", x, keys) / math.sqrt(D)
        s = jnp.where(jnp.arange(S) <= at, s, -jnp.inf)
        return (at + 1, keys, values), jnp.einsum("bhst,bhtd->bhsd", nn.softmax(s, -1), values)
    return lax.scan(place, (S // 2, keys, values), x)[1]


case("sdpa_cached", sdpa_cached, lambda: (rnd(16, 4, H, 1, D), rnd(4, H, S, D), rnd(4, H, S, D)), 4 * 16 * 4 * H * S * D)

group("call")


def products(a, b):
    for _ in range(128):
        a = a @ b
    return a


case("dispatch_1000", small_chain, lambda: (rnd(4),))
case("products_128", products, lambda: (rnd(8, 8), jnp.eye(8)))

group("loop")


def lstm_loss(wi, wh, b, x):
    def step(carry, row):
        h, c = carry
        i, f, g, o = jnp.split(row + h @ wh, 4, -1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        h = nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((LB, LU))
    return lax.scan(step, (zero, zero), x @ wi + b)[1].sum()


def rnn_loss(wi, wh, b, x):
    h = jnp.zeros(x.shape[1:])
    for t in range(x.shape[0]):
        h = jnp.tanh(x[t] @ wi + h @ wh + b)
    return h.sum()


case("scan_1000", lambda s, x: lax.scan(lambda s, row: (s * 0.5 + row, None), s, x)[0],
     lambda: (jnp.zeros(4), rnd(1000, 4)))
case("while_device", lambda one, n: lax.while_loop(lambda s: s.max() < n, lambda s: s + one, jnp.zeros(4)),
     lambda: (jnp.ones(4), jnp.float32(1000)))
case("lstm_step", jax.value_and_grad(lstm_loss, (0, 1, 2)),
     lambda: (rnd(LU, 4 * LU, scale=LU**-0.5), rnd(LU, 4 * LU, scale=LU**-0.5), rnd(4 * LU), rnd(LL, LB, LU)),
     12 * LL * LB * LU * 4 * LU)
UNITS = LU // 2
case("rnn_64", jax.value_and_grad(rnn_loss, (0, 1, 2)),
     lambda: (rnd(UNITS, UNITS, scale=UNITS**-0.5), rnd(UNITS, UNITS, scale=UNITS**-0.5), rnd(UNITS),
              rnd(min(LL, 64), LB // 2, UNITS)), 12 * min(LL, 64) * (LB // 2) * UNITS**2)

group("net")


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


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


def sgd_step(net):
    def step(p, momentum, images, labels):
        loss, grad = jax.value_and_grad(lambda p: cross_entropy(net(p, images), labels))(p)
        momentum = jax.tree.map(lambda u, g: 0.9 * u + g, momentum, grad)
        return jax.tree.map(lambda w, u: w - 0.01 * u, p, momentum), momentum, loss
    return step


def zeros_of(p):
    return jax.tree.map(jnp.zeros_like, p)


def trained(make, *data):
    """Parameters, the optimiser's sums, and a batch."""
    def inputs():
        p = make()
        return p, zeros_of(p), *(d() for d in data)
    return inputs


def norm_scales(width):
    return dict(scale=(jnp.ones(width), jnp.zeros(width)), seen=(jnp.zeros(width), jnp.ones(width)))


def residual_block(i, o):
    p = dict(convs=[rnd(o, i, 3, 3, scale=0.1), rnd(o, o, 3, 3, scale=0.1)], norms=[norm_scales(o), norm_scales(o)])
    return p if i == o else dict(p, skip=rnd(o, i, 1, 1, scale=0.1))


def resnet_layers(w):
    blocks = [residual_block(w, w), residual_block(w, 2 * w), residual_block(2 * w, 4 * w)]
    return dict(stem=rnd(w, 3, 3, 3, scale=0.1), norm=norm_scales(w), blocks=blocks, head=dense_layers(4 * w, 10))


def norm(p, x, seen):
    y, mean, var = batch_norm(x, *p["scale"])
    count = x.size // x.shape[1]
    seen.append((0.9 * p["seen"][0] + 0.1 * mean, 0.9 * p["seen"][1] + 0.1 * var * count / (count - 1)))
    return y


def resnet(p, x, labels):
    """The loss, and the running statistics of all norms."""
    seen = []
    x = nn.relu(norm(p["norm"], conv(x, p["stem"], 1), seen))
    for b in p["blocks"]:
        stride = 2 if "skip" in b else 1
        y = nn.relu(norm(b["norms"][0], conv(x, b["convs"][0], 1, stride), seen))
        y = norm(b["norms"][1], conv(y, b["convs"][1], 1), seen)
        x = nn.relu(y + (conv(x, b["skip"], 0, stride) if "skip" in b else x))
    return cross_entropy(dense(x.mean((2, 3)), p["head"]), labels), seen


def resnet_step(p, momentum, images, labels):
    (loss, seen), grad = jax.value_and_grad(resnet, has_aux=True)(p, images, labels)
    momentum = jax.tree.map(lambda u, g: 0.9 * u + g, momentum, grad)
    return jax.tree.map(lambda w, u: w - 0.01 * u, p, momentum), momentum, seen, loss


def split_heads(z, heads):
    return (u.reshape(*z.shape[:2], heads, -1).transpose(0, 2, 1, 3) for u in jnp.split(z, 3, -1))


def block(x, p, heads=HD, causal=True):
    y = attention(*split_heads(dense(layer_norm(x, *p["norm1"]), [p["qkv"]]), heads), causal=causal)
    x = x + dense(y.transpose(0, 2, 1, 3).reshape(x.shape), [p["out"]])
    return x + dense(nn.gelu(dense(layer_norm(x, *p["norm2"]), [p["up"]])), [p["down"]])


def gpt(p, ids):
    x = p["tok"][ids] + p["pos"]
    for block_p in p["blocks"]:
        x = block(x, block_p)
    return layer_norm(x, *p["norm"]) @ p["head"]


def norm_layer(width):
    return jnp.ones(width), jnp.zeros(width)


def block_layers(d):
    widths = dict(qkv=(d, 3 * d), out=(d, d), up=(d, 4 * d), down=(4 * d, d))
    return dict(norm1=norm_layer(d), norm2=norm_layer(d), **{k: dense_layers(*w)[0] for k, w in widths.items()})


def adamw(p, m1, m2, grad):
    m1 = jax.tree.map(lambda u, g: 0.9 * u + 0.1 * g, m1, grad)
    m2 = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, m2, grad)
    return jax.tree.map(lambda w, u, v: w * (1 - 1e-6) - 1e-4 * u / (jnp.sqrt(v) + 1e-8), p, m1, m2), m1, m2


def adamw_step(loss_fn):
    def step(p, m1, m2, x, y):
        loss, grad = jax.value_and_grad(loss_fn)(p, x, y)
        return *adamw(p, m1, m2, grad), loss
    return step


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


def encoder(blocks, x):
    for p in blocks:
        x = block(x, p, heads=8, causal=False)
    return x


def mse(p, x, y):
    return ((encoder(p, x) - y)**2).mean()


def adam_100(p, m1, m2, grads):
    p, m1, m2 = adamw(p, m1, m2, grads)
    return p, m1, m2, p[-1].sum()


def lenet_layers():
    return dict(conv=[(rnd(6, 1, 5, 5, scale=0.1), rnd(6, scale=0.1)), (rnd(16, 6, 5, 5, scale=0.1), rnd(16, scale=0.1))],
                dense=dense_layers(400, 120, 84, 10))


def gpt_layers():
    return dict(tok=rnd(V, DM, scale=0.1), pos=rnd(SQ, DM, scale=0.1), blocks=[block_layers(DM) for _ in range(LY)],
                norm=norm_layer(DM), head=rnd(DM, V, scale=0.1))


def with_moments(make, *data):
    """As trained, with two sums."""
    def inputs():
        p = make()
        return p, zeros_of(p), zeros_of(p), *(d() for d in data)
    return inputs


tensors = lambda: [jnp.zeros((64, 256)) for _ in range(100)]
tokens = lambda: ints(V, BS, SQ)
batch = lambda: rnd(8, 128, 256)
encoder_layers = lambda: [block_layers(256) for _ in range(4)]
ENCODER = 4 * 8 * 128 * (24 * 256 * 256 + 4 * 128 * 256)
case("lenet_step", sgd_step(lenet), trained(lenet_layers, lambda: rnd(BL, 1, 28, 28), lambda: ints(10, BL)))
case("mlp_step", sgd_step(lambda p, images: dense(images, p)),
     trained(lambda: dense_layers(784, 512, 512, 10), lambda: rnd(BM, 784), lambda: ints(10, BM)))
case("resnet_step", resnet_step, trained(lambda: resnet_layers(32), lambda: rnd(16, 3, 32, 32), lambda: ints(10, 16)))
case("encoder", encoder, lambda: (encoder_layers(), batch()), ENCODER)
case("encoder_step", adamw_step(mse), with_moments(encoder_layers, batch, batch), 3 * ENCODER)
case("adam_100", adam_100, with_moments(tensors, lambda: [rnd(64, 256) for _ in range(100)]), 0, 28 * 100 * 64 * 256)
case("gpt_step", adamw_step(lambda p, ids, targets: cross_entropy(gpt(p, ids), targets)),
     with_moments(gpt_layers, tokens, tokens))
case("decode_128", decode, lambda: (gpt_layers(), jnp.ones(1, jnp.int32)))
