#!/usr/bin/env python3
"""Times the cases of kiln-bench with JAX and prints one JSON document, in the form of `kiln-bench --json`.

usage: jax_rows.py [--device cpu|cuda] [--size small|large] [--threads N] [--modes eager,compile] [--group NAME]
                   [--filter TEXT] [--budget S] > jax.json
Times are medians of several runs after a warm-up, in nanoseconds for one call, by the host's clock until the result is
there. XLA takes as many threads as it may use processors, so N threads are N processors.
"""
from rows import report
from jax_base import jax, once
import jax_ops, jax_products, jax_nets  # the cases, in this order

report(f"jax {jax.__version__}", jax.devices()[0].device_kind, once,
       lambda fn, compiled: jax.jit(fn) if compiled else fn)
