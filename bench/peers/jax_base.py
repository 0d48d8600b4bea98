"""What the cases of jax_rows.py are made of: random inputs, one timed call, gradients, layers."""
import math, os, time

from rows import args

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])
os.environ["JAX_PLATFORMS"] = args.device

import jax
import jax.numpy as jnp
from jax import lax, nn

jax.config.update("jax_enable_x64", False)
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


def gradient(fn, wrt):
    """fn with the gradients by its first inputs; the last input is the gradient of its result."""
    def both(*inputs):
        rest = inputs[wrt:-1]
        y, pull = jax.vjp(lambda *first: fn(*first, *rest), *inputs[:wrt])
        return y, *pull(inputs[-1])
    return both


def grad_inputs(make, fn):
    def inputs():
        made = make()
        y = fn(*made)
        return *made, rnd(*y.shape, dtype=y.dtype)
    return inputs


def conv(x, w, padding, stride=1, groups=1):
    return lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2, feature_group_count=groups,
                                    dimension_numbers=("NCHW", "OIHW", "NCHW"))


def attention(q, k, v, causal=False):
    s = jnp.einsum("bhsd,bhtd->bhst", q, k) / math.sqrt(q.shape[-1])
    if causal:
        s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
    return jnp.einsum("bhst,bhtd->bhsd", nn.softmax(s, -1), v)


def dense(x, layers):
    for i, (w, b) in enumerate(layers):
        x = x @ w + b if i == len(layers) - 1 else nn.relu(x @ w + b)
    return x


def dense_layers(*widths):
    return [(rnd(i, o, scale=0.1), rnd(o, scale=0.1)) for i, o in zip(widths, widths[1:])]


def batch_norm(x, w, b):
    """With the statistics of the batch: the result, mean, variance."""
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    at = lambda v: v[:, None, None]
    return (x - at(mean)) * at(lax.rsqrt(var + 1e-5) * w) + at(b), mean, var
