"""What the cases of torch_rows.py are made of: random inputs, one timed call, gradients."""
import time

import torch

from rows import args

torch.set_num_threads(args.threads)
torch.manual_seed(0)
dev = args.device
cuda = dev == "cuda"


def rnd(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=dev).to(dtype)


def ints(high, *shape, low=0, dtype=torch.int64):
    return torch.randint(low, high, shape, device=dev, dtype=dtype)


def once(fn, inputs):
    if cuda:
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        fn(*inputs)
        b.record()
        b.synchronize()
        return a.elapsed_time(b) * 1e6
    t = time.perf_counter()
    fn(*inputs)
    return (time.perf_counter() - t) * 1e9


class Grad:
    """A forward function with the gradients by its first inputs; the last input is the gradient of its result. Compiled
    are the forward and, with it, the backward."""
    def __init__(self, fn, wrt):
        self.fn, self.wrt = fn, wrt

    def __call__(self, *inputs):
        y = self.fn(*inputs[:-1])
        return y, *torch.autograd.grad(y, inputs[:self.wrt], inputs[-1])

    def compiled(self):
        return Grad(torch.compile(self.fn), self.wrt)


def grad_inputs(make, fn, wrt):
    """The inputs that make() gives, the first ones to be differentiated by, and a gradient of the result."""
    def inputs():
        made = make()
        given = [x.requires_grad_() if i < wrt else x for i, x in enumerate(made)]
        with torch.no_grad():
            y = fn(*given)
        return (*given, torch.randn_like(y))
    return inputs


def prepare(fn, compiled):
    torch._dynamo.reset()
    if not compiled:
        return fn
    return fn.compiled() if hasattr(fn, "compiled") else torch.compile(fn)
