#!/usr/bin/env python3
"""docs/examples/embed.c: ids and vectors are those of make_embed.py, however sentences are batched; what is wrong with
what it is given is said. usage: test_embed.py PROGRAM FOLDER [BATCH...]
"""
import ast
import math
import os
import struct
import subprocess
import sys
import tempfile

program, folder, *batches = sys.argv[1:]
model, vocab, text = (os.path.join(folder, name) for name in ('model.onnx', 'vocab.txt', 'sentences.txt'))
LENGTH = ['--length', '40']


def run(*args):
    done = subprocess.run([program, *args], capture_output=True)
    told = done.stderr.decode()
    sys.stderr.write(told)  # the validation layer, where it runs, is heard by who started this
    return done.returncode, done.stdout.decode(), told


def good(*args):
    code, out, told = run(*args)
    if code == 77:
        sys.exit(77)
    assert code == 0, (args, code, told)
    return out


def read_npy(path):
    data = open(path, 'rb').read()
    size, = struct.unpack('<H', data[8:10])
    header = ast.literal_eval(data[10:10 + size].decode())
    rows, columns = header['shape']
    form = {'<f4': 'f', '<f8': 'd'}[header['descr']]
    values = struct.unpack(f'<{rows * columns}{form}', data[10 + size:])
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def apart(got, want):
    assert (len(got), len(got[0])) == (len(want), len(want[0]))
    return max(abs(a - b) if math.isfinite(a) else math.inf for x, y in zip(got, want) for a, b in zip(x, y))


def vectors(at, *args):
    out = os.path.join(at, 'vectors.npy')
    good('--model', model, '--vocab', vocab, *LENGTH, '--out', out, *args)
    return read_npy(out)


def check_ids(at):
    want = open(os.path.join(folder, 'ids.txt')).read()
    assert good('--vocab', vocab, '--text', text, '--ids', *LENGTH) == want
    # Lines may end as on other systems, the last one not at all; a length cuts off, and what is no UTF-8 is nothing.
    lines = open(vocab, 'rb').read().replace(b'\n', b'\r\n')[:-2]
    other, windows = os.path.join(at, 'vocab.txt'), os.path.join(at, 'text.txt')
    open(other, 'wb').write(lines)
    open(windows, 'wb').write(open(text, 'rb').read().replace(b'\n', b'\r\n')[:-2])
    assert good('--vocab', other, '--text', windows, '--ids', *LENGTH) == want
    lines = good('--vocab', vocab, '--ids', '--length', '4', 'the cat is eating', 'the cat', 'cat').splitlines()
    whole = good('--vocab', vocab, '--ids', 'the cat is eating').split()
    assert lines[0].split() == [*whole[:3], whole[-1]] and lines[1].split() == [*whole[:3], whole[-1]], lines
    assert lines[2].split() == [whole[0], whole[2], whole[-1]]
    assert good('--vocab', vocab, '--ids', '--length', '2', 'the cat').split() == [whole[0], whole[-1]]
    for broken in (b'\xffthe c\xc3at\x80', b'th\xed\xa0\x80e cat', b'the \xf8\x88\x80\x80cat', b'the cat\xe2\x82',
                   b'\xc1\x81the cat'):
        got = good('--vocab', vocab, '--ids', broken).split()
        assert got == [*whole[:3], whole[-1]], (broken, got)


def check_folder(at):
    """A folder of weights is the same network, and has its own vocabulary."""
    want = read_npy(os.path.join(folder, 'vectors.npy'))
    out = os.path.join(at, 'folder.npy')
    good('--model', folder, *LENGTH, '--text', text, '--batch', '7', '--out', out)
    far = apart(read_npy(out), want)
    print(f'folder: {far:.2g}')
    assert far < 1e-4
    bare = os.path.join(at, 'bare')
    os.mkdir(bare)
    config = open(os.path.join(folder, 'config.json'), 'rb').read()
    for said, files in (('config.json', []), ('num_attention_heads', [('config.json', b'{}')]),
                        ('pytorch_model.bin', [('config.json', config)]),
                        ('position_embeddings', [('model.safetensors', b'\x08' + bytes(7) + b'{}      ')])):
        for name, data in files:
            open(os.path.join(bare, name), 'wb').write(data)
        code, printed, told = run('--model', bare, '--vocab', vocab, 'the')
        assert code == 1 and said in told and not printed, (said, code, told)
    code, printed, told = run('--model', bare, 'the')
    assert code == 1 and 'vocab.txt' in told and not printed, told


def check_vectors(at):
    want = read_npy(os.path.join(folder, 'vectors.npy'))
    for batch in batches:
        far = apart(vectors(at, '--text', text, '--batch', batch), want)
        print(f'{batch} at a time: {far:.2g}')
        assert far < 1e-4
    # The sentences of the command line come first, those of the file behind them.
    assert apart(vectors(at, '--text', text, 'the'), [want[5], *want]) < 1e-4
    pooled = vectors(at, '--output', 'pooler_output', '--text', text)
    assert all(abs(sum(x * x for x in row) - 1) < 1e-4 for row in pooled) and apart(pooled, want) > 0.1
    told = good('--model', model, '--vocab', vocab, 'A man is eating food.', 'Somebody has lunch.').splitlines()
    cosine = sum(a * b for a, b in zip(want[0], want[1]))
    first, second = told[0].split(None, 2), told[1].split(None, 2)
    assert first[2] == 'A man is eating food.' and second[2] == 'Somebody has lunch.', told
    rows = [list(map(float, row[:2])) for row in (first, second)]
    assert apart(rows, [[1, cosine], [cosine, 1]]) < 6e-4, (told, cosine)


def without(at, name, line):
    path = os.path.join(at, name)
    open(path, 'wb').write(open(vocab, 'rb').read().replace(line, b'[gone]\n', 1))
    return path


def check_refused(at):
    out, no = os.path.join(at, 'none.npy'), os.path.join(at, 'no')
    half = os.path.join(at, 'half.onnx')
    open(half, 'wb').write(open(model, 'rb').read()[:50000])
    renamed = os.path.join(at, 'renamed.onnx')
    open(renamed, 'wb').write(open(model, 'rb').read().replace(b'token_type_ids', b'token_kind_ids'))
    unmasked = os.path.join(at, 'unmasked.onnx')
    open(unmasked, 'wb').write(open(model, 'rb').read().replace(b'attention_mask', b'token_type_ids'))
    for said, args in (
            (no, ['--model', no, '--vocab', vocab, 'a']), (no, ['--model', model, '--vocab', no, 'a']),
            (no, ['--model', model, '--vocab', vocab, '--text', no]),
            ('half.onnx', ['--model', half, '--vocab', vocab, 'a']),
            ('token_kind_ids', ['--model', renamed, '--vocab', vocab, 'a']),
            ('unmasked.onnx', ['--model', unmasked, '--vocab', vocab, 'a']),
            ('[CLS]', ['--model', model, '--vocab', without(at, 'a.txt', b'[CLS]\n'), 'a']),
            ('[UNK]', ['--model', model, '--vocab', without(at, 'b.txt', b'[UNK]\n'), 'a']),
            ('[PAD]', ['--model', model, '--vocab', os.devnull, 'a']), (at, ['--model', model, '--vocab', at, 'a']),
            ('no output logits', ['--model', model, '--vocab', vocab, '--output', 'logits', 'a']),
            ('no sentences', ['--model', model, '--vocab', vocab]),
            ('no sentences', ['--model', model, '--vocab', vocab, '--text', os.devnull]),
            # More pieces than the model has places for.
            ('65', ['--model', model, '--vocab', vocab, 'the ' * 63])):
        code, printed, told = run(*args, '--out', out)
        assert code == 1 and said in told and not printed and not os.path.exists(out), (args, code, printed, told)
    code, _, told = run('--model', model, '--vocab', vocab, '--out', os.path.join(no, 'x.npy'), 'a')
    assert code == 1 and no in told, told
    for args in ([], ['--model', model], ['--vocab', vocab, 'a'], ['--vocab', vocab, '--ids', '--length', '1', 'a'],
                 ['--model', model, '--vocab', vocab, '--batch', '0', 'a']):
        code, printed, told = run(*args)
        assert code == 2 and 'usage' in told and not printed, args


with tempfile.TemporaryDirectory() as place:
    check_ids(place)
    check_vectors(place)
    check_folder(place)
    check_refused(place)
