#!/usr/bin/env python3
"""The classifier that fashion_mnist exports is run by kiln-run on npy files: it classifies the test images as well as
the program said that it does.

usage: test_export.py FASHION_MNIST KILN_RUN
"""
import ast
import gzip
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

EXAMPLE, RUN = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
LABELS = '/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz'
LIMIT = 1000


def run(*args, folder):
    done = subprocess.run(args, cwd=folder, capture_output=True, text=True, timeout=280)
    if done.returncode:
        sys.exit(f'{args}: {done.stderr[-2000:]}')
    return done


def read_integers(path):
    data = path.read_bytes()
    assert data[:6] == b'\x93NUMPY'
    length = struct.unpack('<H', data[8:10])[0]
    header = ast.literal_eval(data[10:10 + length].decode())
    assert header['descr'] == '<i8' and not header['fortran_order'], header
    count = header['shape'][0]
    return struct.unpack(f'<{count}q', data[10 + length:])


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = run(EXAMPLE, '--epochs', '1', '--limit', str(LIMIT), '--compare', '0', '--modes', 'jit', '--export',
                   'net.kiln', '--sample', 'images.npy', folder=folder).stdout
        said = float(re.search(r'^test accuracy: ([0-9.]+)$', text, re.M).group(1))
        listed = run(RUN, 'net.kiln', '--list', folder=folder).stdout
        assert 'function classify\n  input images: f32[count,1,28,28]\n  output classes: i64[count]\n' in listed, listed
        assert 'weight 0.weight: f32[6,1,5,5]' in listed, listed
        compiled = run(RUN, 'net.kiln', '--compile', '--size', f'count={LIMIT}', '--stats', folder=folder)
        assert re.match(r'classify: \d+ ops, \d+ launches, ', compiled.stdout), compiled.stdout
        again = run(RUN, 'net.kiln', '--input', 'images=images.npy', '--output', 'classes=classes.npy', '--output',
                    'probabilities=p.npy', '--stats', folder=folder)
        assert ' 0 kernels compiled' in again.stderr, again.stderr
        classes = read_integers(folder / 'classes.npy')
    with gzip.open(LABELS) as f:
        labels = f.read()[8:8 + LIMIT]
    right = sum(a == b for a, b in zip(classes, labels)) / LIMIT
    assert len(classes) == LIMIT and abs(right - said) < 1e-4, (right, said)
    print(f'{right} of the images are classified as they should be, as the program said')


main()
