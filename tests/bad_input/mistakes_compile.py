#!/usr/bin/env python3
"""Fail when a compiler takes a mistake that it has to tell, or does not take what is right.

usage: mistakes_compile.py INCLUDE BUILT_INCLUDE COMPILER...

Each case is a statement of a function that has a device and a tensor, and what is said of it; "" where it is right.
"""
import os
import re
import subprocess
import sys

CASES = [
    ('kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 3));', ''),
    ('kiln_zeros(dev, KILN_F32, KILN_SHAPE(2.5));', 'invalid operands to binary'),
    ('kiln_zeros(dev, KILN_F32, KILN_SHAPE(2, 3 / 2.f));', 'invalid operands to binary'),
    ('kiln_mul(x, 3);', ''),
    ('kiln_mul(3, x);', ''),
    ('kiln_mul(x, "3");', 'incompatible|not compatible|cannot|passing'),
    ('kiln_matmul(x, 3);', 'makes pointer from integer|incompatible integer to pointer'),
    ('kiln_sum(x, KILN_CONV2D(.groups = 2));', 'incompatible pointer type'),
    ('kiln_sum(x, KILN_REDUCE(.axis = 1));', "no member named|does not refer to any field"),
    ('kiln_relu(x, x);', 'too many arguments|passed 2 arguments'),
]


def said(compiler, includes, statement):
    code = (f'#include <kiln/kiln.h>\nvoid f(kiln_device *dev, kiln_tensor *x)\n{{\n    (void)dev, (void)x;\n'
            f'    {statement}\n}}\n')
    flags = ['-std=c17', '-fsyntax-only', '-x', 'c', '-'] + [f'-I{i}' for i in includes]
    env = {**os.environ, 'LC_ALL': 'C'}
    return subprocess.run(compiler + flags, input=code, capture_output=True, text=True, env=env).stderr


def main(include, built, *compiler):
    bad = []
    for statement, want in CASES:
        text = said(list(compiler), [include, built], statement)
        if bool(text) != bool(want) or not re.search(want, text):
            bad.append(f'{statement} "{want}" expected, got "{text}"')
    print('\n'.join(bad) or f'{len(CASES)} statements')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
