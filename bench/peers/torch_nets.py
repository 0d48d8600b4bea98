"""Cases of torch_rows.py: attention, the cost of calls, loops, networks."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from rows import BL, BM, BS, D, DM, H, HD, LB, LL, LU, LY, QB, S, SQ, V, big, case, group, small_chain
from torch_base import Grad, cuda, dev, grad_inputs, ints, rnd

group("attention")
DTYPE = torch.bfloat16 if big else torch.float32
qkv = lambda: tuple(rnd(QB, H, S, D, dtype=DTYPE) for _ in range(3))
causal = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
full = lambda q, k, v: F.scaled_dot_product_attention(q, k, v)


def sized(name, fn, length, gradient=False):
    make = lambda: tuple(rnd(1, 8, length, 64) for _ in range(3))
    flops = 4 * 8 * length * length * 64
    if gradient:
        case(name, Grad(fn, 3), grad_inputs(make, fn, 3), 3.5 * flops)
    else:
        case(name, fn, make, flops)


case("attention", full, qkv, 4 * QB * H * S * S * D)
case("attention_causal", causal, qkv, 2 * QB * H * S * S * D)
sized("attention_2048", full, 2048)
sized("attention_causal_2048", causal, 2048)
sized("attention_grad", full, 512, gradient=True)
sized("attention_causal_grad", causal, 512, gradient=True)


def sdpa_cached(x, keys, values):
    places, made = torch.arange(S, device=dev), []
    for i in range(16):
        at = S // 2 + i
        keys[:, :, at:at + 1], values[:, :, at:at + 1] = x[i], x[i]
        made.append(F.scaled_dot_product_attention(x[i], keys, values, attn_mask=(places <= at)[None]))
    return torch.stack(made)


case("sdpa_cached", sdpa_cached, lambda: (rnd(16, 4, H, 1, D), rnd(4, H, S, D), rnd(4, H, S, D)), 4 * 16 * 4 * H * S * D)

group("call")


def products(a, b):
    for _ in range(128):
        a = a @ b
    return a


case("dispatch_1000", small_chain, lambda: (rnd(4),))
case("products_128", products, lambda: (rnd(8, 8), torch.eye(8, device=dev)))

group("loop")


def recurrence(s, x):
    for row in x:
        s = s * 0.5 + row
    return s


def while_below(one, n):
    s = torch.zeros_like(one)
    while s.max() < n: s = s + one
    return s


class Made:
    """A case whose network is made with its inputs; compiled is its call."""
    def __init__(self, make):
        self.make, self.fn = make, None

    def inputs(self):
        self.fn, *data = self.make()
        return tuple(data)

    def __call__(self, *data):
        return self.fn(*data)

    def compiled(self):
        return self.fn.compiled() if hasattr(self.fn, "compiled") else torch.compile(self.fn)


def made(name, make, flops=0, nbytes=0):
    fn = Made(make)
    case(name, fn, fn.inputs, flops, nbytes)


def lstm():
    net = nn.LSTM(LU, LU).to(dev)
    def step(x):
        net.zero_grad(set_to_none=True)
        loss = net(x)[0].sum()
        loss.backward()
        return loss
    return step, rnd(LL, LB, LU)


class Rnn:
    """A recurrent network that the host unrolls, with its gradients."""
    def __init__(self, loss=None):
        self.loss = loss or self.forward

    @staticmethod
    def forward(wi, wh, b, x):
        h = torch.zeros(x.shape[1], x.shape[2], device=dev)
        for row in x:
            h = torch.tanh(row @ wi + h @ wh + b)
        return h.sum()

    def __call__(self, wi, wh, b, x):
        y = self.loss(wi, wh, b, x)
        return y, *torch.autograd.grad(y, (wi, wh, b))

    def compiled(self):
        return Rnn(torch.compile(self.forward))


def rnn_inputs():
    u = LU // 2
    weights = rnd(u, u) * u**-0.5, rnd(u, u) * u**-0.5, rnd(u)
    return *(w.requires_grad_() for w in weights), rnd(min(LL, 64), LB // 2, u)


case("scan_1000", recurrence, lambda: (torch.zeros(4, device=dev), rnd(1000, 4)))
case("while_device", while_below, lambda: (torch.ones(4, device=dev), torch.tensor(1000.0, device=dev)))
made("lstm_step", lstm, 12 * LL * LB * LU * 4 * LU)
case("rnn_64", Rnn(), rnn_inputs, 12 * min(LL, 64) * (LB // 2) * (LU // 2)**2)

group("net")


def trainer(net, loss_fn, make_opt, *data):
    net = net.to(dev)
    opt = make_opt(net.parameters())
    def step(*batch):
        opt.zero_grad(set_to_none=True)
        loss = loss_fn(net, *batch)
        loss.backward()
        opt.step()
        return loss
    return step, *data


sgd = lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9)
adamw = lambda p: torch.optim.AdamW(p, lr=1e-4, fused=cuda or None)
ce = lambda net, x, y: F.cross_entropy(net(x), y)
lenet = lambda: nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                              nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
                              nn.ReLU(), nn.Linear(84, 10))
mlp = lambda: nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


class Residual(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        s = 1 if i == o else 2
        self.c1, self.n1 = nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o)
        self.c2, self.n2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.skip = nn.Identity() if s == 1 else nn.Conv2d(i, o, 1, s, bias=False)

    def forward(self, x):
        return F.relu(self.n2(self.c2(F.relu(self.n1(self.c1(x))))) + self.skip(x))


class ResNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, w, 3, padding=1, bias=False), nn.BatchNorm2d(w)
        self.blocks = nn.Sequential(Residual(w, w), Residual(w, 2 * w), Residual(2 * w, 4 * w))
        self.head = nn.Linear(4 * w, 10)

    def forward(self, x):
        return self.head(self.blocks(F.relu(self.norm(self.stem(x)))).mean((2, 3)))


class Block(nn.Module):
    def __init__(self, d, h, causal=True):
        super().__init__()
        self.causal = causal
        self.h, self.n1, self.n2 = h, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out, self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (z.view(b, s, self.h, d // self.h).transpose(1, 2) for z in self.qkv(self.n1(x)).split(d, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(b, s, d))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocab, d, h, layers, seq):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Parameter(torch.zeros(seq, d))
        self.blocks, self.norm, self.head = nn.Sequential(*[Block(d, h) for _ in range(layers)]), nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)
    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tok(ids) + self.pos)))


class Encoder:
    def __init__(self):
        self.net = nn.Sequential(*[Block(256, 8, causal=False) for _ in range(4)]).to(dev).eval()

    def __call__(self, x):
        with torch.no_grad():
            return self.net(x)


def adam_100():
    params = [torch.zeros(64, 256, device=dev, requires_grad=True) for _ in range(100)]
    opt = torch.optim.AdamW(params, lr=1e-4, fused=cuda or None)
    for p in params:
        p.grad = rnd(64, 256)
    def step():
        opt.step()
        return params[-1].detach().sum()
    return (step,)


class Decoder:
    """128 likeliest tokens of the GPT one by one, over keys and values of those before. Compiled, one step is: a loop of
    Python around it, over caches of one size and a place that is a tensor."""
    def __init__(self, net, step=None):
        self.net, self.step, self.n = net.to(dev), step or self.token, min(SQ, 128)
        self.places = torch.arange(self.n, device=dev)
        self.caches = [torch.zeros(1, HD, self.n, DM // HD, device=dev) for _ in range(2 * LY)]

    def token(self, token, at, caches, length):
        x = self.net.tok(token) + self.net.pos[at]
        for b, keys, values in zip(self.net.blocks, caches[::2], caches[1::2]):
            q, k, v = (z.view(1, HD, 1, DM // HD) for z in b.qkv(b.n1(x)).split(DM, -1))
            keys.index_copy_(2, at, k)
            values.index_copy_(2, at, v)
            seen = (self.places <= at)[None] if length is None else None
            y = F.scaled_dot_product_attention(q, keys[:, :, :length], values[:, :, :length], attn_mask=seen)
            x = x + b.out(y.reshape(1, DM))
            x = x + b.down(F.gelu(b.up(b.n2(x)), approximate="tanh"))
        return self.net.head(self.net.norm(x)).argmax(-1)

    @torch.no_grad()
    def __call__(self, token):
        made = []
        for i in range(self.n):
            token = self.step(token, self.places[i:i + 1], self.caches, None if self.step != self.token else i + 1)
            made.append(token)
        return torch.cat(made)

    def compiled(self):
        return Decoder(self.net, torch.compile(self.token))


gce = lambda net, ids, tgt: F.cross_entropy(net(ids).view(-1, V), tgt.view(-1))
mse = lambda net, x, y: F.mse_loss(net(x), y)
encoder = lambda: nn.Sequential(*[Block(256, 8, causal=False) for _ in range(4)])
TOKENS = 8 * 128
ENCODER = 4 * TOKENS * (24 * 256 * 256 + 4 * 128 * 256)
made("lenet_step", lambda: trainer(lenet(), ce, sgd, rnd(BL, 1, 28, 28), ints(10, BL)))
made("mlp_step", lambda: trainer(mlp(), ce, sgd, rnd(BM, 784), ints(10, BM)))
made("resnet_step", lambda: trainer(ResNet(32), ce, sgd, rnd(16, 3, 32, 32), ints(10, 16)))
made("encoder", lambda: (Encoder(), rnd(8, 128, 256)), ENCODER)
made("encoder_step", lambda: trainer(encoder(), mse, adamw, rnd(8, 128, 256), rnd(8, 128, 256)), 3 * ENCODER)
made("adam_100", adam_100, 0, 28 * 100 * 64 * 256)
made("gpt_step", lambda: trainer(GPT(V, DM, HD, LY, SQ), gce, adamw, ints(V, BS, SQ), ints(V, BS, SQ)))
made("decode_128", lambda: (Decoder(GPT(V, DM, HD, LY, SQ).eval()), torch.ones(1, dtype=torch.long, device=dev)))
