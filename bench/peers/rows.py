"""What torch_rows.py and jax_rows.py share: arguments, sizes, the table of cases, medians, and the document they print.

Times are medians of several runs after a warm-up, in nanoseconds for one call.
"""
import argparse
import json
import math
import os
import statistics
import sys
import time

ap = argparse.ArgumentParser()
ap.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
ap.add_argument("--size", default="small", choices=["small", "large"])
ap.add_argument("--threads", type=int, default=2)
ap.add_argument("--modes", default="eager,compile")
ap.add_argument("--filter", default="")
ap.add_argument("--group", default="", help="only rows of this family")
ap.add_argument("--budget", type=float, default=1.0, help="seconds of timed runs for a row")
ap.add_argument("--growth", action="store_true", help="memory of a new process over ten calls, instead of times")
args = ap.parse_args()
big = args.size == "large"

# Elements of vectors, rows and columns of matrices, sides of square products; images of the convolution; batch and
# sides of attention; batches of the networks; vocabulary, width, heads, layers, length and batch of the transformer.
N = 1 << (27 if big else 22)
R, C = (65536, 2048) if big else (4096, 1024)
G = 8192 if big else 1024
B = 256 if big else 32
S, H, D, QB = (4096, 16, 128, 4) if big else (512, 8, 64, 1)
BL = 1024 if big else 64
BM = 8192 if big else 128
LL, LB, LU = (256, 256, 1024) if big else (64, 64, 256)  # the LSTM: length, batch, units
V, DM, HD, LY, SQ, BS = (50304, 768, 12, 12, 1024, 4) if big else (512, 128, 4, 2, 128, 4)
cases = {}


family = ""


def group(name):
    """The family of the cases that follow."""
    global family
    family = name


def case(name, fn, inputs, flops=0, nbytes=0):
    """inputs() makes the arguments when the case is measured, so that no other case's are in memory."""
    cases[name] = (family, fn, inputs, flops, nbytes)


def small_chain(s):
    for _ in range(1000):
        s = s + 1.0
    return s


SLOW_NS, ENDLESS_NS = 2e9, 30e9


def measure(once, fn, inputs):
    """once(fn, inputs) makes one call and gives its time; the first one counts by the host's clock, for it compiles.

    A call of seconds (products of half floats where the processor has none) is timed once, after the first one; of one
    that takes half a minute the first is all, for what it compiles is little beside that."""
    t = time.perf_counter()
    once(fn, inputs)
    first = (time.perf_counter() - t) * 1e9
    est = first if first > ENDLESS_NS else max(once(fn, inputs), 1.0)
    if est > SLOW_NS:
        return dict(time_ns=est, min_ns=est, p90_ns=est, runs=1, first_ns=first)
    for _ in range(2):
        once(fn, inputs)
    est = max(once(fn, inputs), 1.0)
    n = int(min(200, max(5, args.budget * 1e9 / est)))
    runs = sorted(once(fn, inputs) for _ in range(n))
    return dict(time_ns=statistics.median(runs), min_ns=runs[0], p90_ns=runs[int(0.9 * (n - 1))], runs=n,
                first_ns=first)


def status_B(key):
    """A figure of this process's memory."""
    with open("/proc/self/status") as f:
        return next(1024 * int(line.split()[1]) for line in f if line.startswith(key))


def growth(once, prepare, fn, make_inputs):
    """In a process of its own: the peak of resident memory over ten calls, less what the inputs left resident."""
    readable, writable = os.pipe()
    child = os.fork()
    if not child:
        inputs, called = make_inputs(), prepare(fn)
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        before = status_B("VmRSS:")
        for _ in range(10):
            once(called, inputs)
        os.write(writable, str(status_B("VmHWM:") - before).encode())
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as f:
        text = f.read()
    os.waitpid(child, 0)
    if not text:
        raise RuntimeError("the process ended")
    return dict(growth_B=int(text))


def report(framework, device, once, prepare):
    """prepare(fn, compiled) is what is called for a case."""
    rows = []
    for name, (family, fn, make_inputs, flops, nbytes) in cases.items():
        if args.filter not in name or args.group not in ("", family):
            continue
        inputs = None
        for mode in args.modes.split(","):
            if mode == "compile" and (name == "dispatch_1000" or (name == "scan_1000" and framework.startswith("torch"))):
                continue
            try:
                if args.growth:
                    rows.append(dict(name=name, group=family, mode=mode, **growth(
                        once, lambda fn: prepare(fn, mode == "compile"), fn, make_inputs)))
                    continue
                inputs = make_inputs() if inputs is None else inputs
                row = measure(once, prepare(fn, mode == "compile"), inputs)
            except Exception as e:  # a peer that cannot run a case says so, and the comparison shows a gap
                row = dict(error=(str(e).splitlines() or [type(e).__name__])[0][:200])
            rows.append(dict(name=name, group=family, mode=mode, flops=flops, bytes=nbytes, **row))
            print(name, mode, f"{row.get('time_ns', math.nan) / 1e6:.3f} ms", file=sys.stderr)
    print(json.dumps(dict(framework=framework, device=device, size=args.size, threads=args.threads, rows=rows),
                     indent=1))
