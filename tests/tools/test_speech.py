#!/usr/bin/env python3
"""docs/examples/speech.c with a small network whose weights are made here: its probabilities are those of the same
network in plain Python, however pieces are batched, and stretches of speech follow from them; what is wrong with what
it is given is said. usage: test_speech.py PROGRAM FOLDER-OF-SOUNDS.PY [BATCH...]
"""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

program, folder, *batches = sys.argv[1:]
sys.path.insert(0, folder)
from sounds import RATE, noise, write_wav  # noqa: E402

PIECE, BEFORE, BEHIND = 512, 64, 64
SIZES = {'stft_conv.weight': (6, 1, 256), 'conv1.weight': (5, 3, 3), 'conv1.bias': (5,), 'conv2.weight': (4, 5, 3),
         'conv2.bias': (4,), 'conv3.weight': (4, 4, 3), 'conv3.bias': (4,), 'conv4.weight': (6, 4, 3),
         'conv4.bias': (6,), 'lstm_cell.weight_ih': (24, 6), 'lstm_cell.weight_hh': (24, 6),
         'lstm_cell.bias_ih': (24,), 'lstm_cell.bias_hh': (24,), 'final_conv.weight': (1, 6, 1),
         'final_conv.bias': (1,)}


def make_weights():
    values = iter(noise(sum(map(math.prod, SIZES.values()))))
    scale = {'stft_conv.weight': 0.1, 'lstm_cell.weight_hh': 1.5, 'lstm_cell.weight_ih': 1.5, 'final_conv.weight': 60}
    return {name: [in_f32(next(values) * scale.get(name, 0.7)) for _ in range(math.prod(shape))]
            for name, shape in SIZES.items()}


def in_f32(v):
    return struct.unpack('f', struct.pack('f', v))[0]


def balanced(weights, samples):
    """With a bias that makes half of the pieces speech."""
    weights['final_conv.bias'] = [0.0]
    middle = sorted(reference(weights, samples))[len(samples) // PIECE // 2]
    weights['final_conv.bias'] = [in_f32(-math.log(middle / (1 - middle)))]


def write_weights(path, weights):
    header, data = {}, b''
    for name, values in weights.items():
        begin = len(data)
        data += struct.pack(f'<{len(values)}f', *values)
        header[name] = {'dtype': 'F32', 'shape': SIZES[name], 'data_offsets': [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack('<Q', len(text)) + text + data)


def convolution(x, w, shape, bias, stride, pad):
    x = [[0.0] * pad + row + [0.0] * pad for row in x]
    out, ins, taps = shape
    return [[bias[o] + sum(w[(o * ins + i) * taps + k] * x[i][at + k] for i in range(ins) for k in range(taps))
             for at in range(0, len(x[0]) - taps + 1, stride)] for o in range(out)]


def sigmoid(v):
    return 1 / (1 + math.exp(-v))


def features(w, piece):
    x = [piece + piece[-2:-2 - BEHIND:-1]]
    x = convolution(x, w['stft_conv.weight'], SIZES['stft_conv.weight'], [0] * 6, 128, 0)
    x = [[math.hypot(a, b) for a, b in zip(x[i], x[i + 3])] for i in range(3)]
    for i, stride in enumerate((1, 2, 2, 1), 1):
        x = convolution(x, w[f'conv{i}.weight'], SIZES[f'conv{i}.weight'], w[f'conv{i}.bias'], stride, 1)
        x = [[max(v, 0) for v in row] for row in x]
    return [row[0] for row in x]


def reference(w, samples):
    pieces = -(-len(samples) // PIECE)
    padded = [0.0] * BEFORE + [v / 32768 for v in samples] + [0.0] * (pieces * PIECE - len(samples))
    h, c, out = [0.0] * 6, [0.0] * 6, []
    for n in range(pieces):
        x = features(w, padded[n * PIECE:n * PIECE + BEFORE + PIECE])
        gates = [sum(w['lstm_cell.weight_ih'][g * 6 + i] * x[i] + w['lstm_cell.weight_hh'][g * 6 + i] * h[i]
                     for i in range(6)) + w['lstm_cell.bias_ih'][g] + w['lstm_cell.bias_hh'][g] for g in range(24)]
        enter, forget, cell, leave = (gates[6 * i:6 * i + 6] for i in range(4))
        c = [sigmoid(f) * a + sigmoid(i) * math.tanh(g) for f, a, i, g in zip(forget, c, enter, cell)]
        h = [sigmoid(o) * math.tanh(a) for o, a in zip(leave, c)]
        y = sum(a * max(b, 0) for a, b in zip(w['final_conv.weight'], h)) + w['final_conv.bias'][0]
        out.append(sigmoid(y))
    return out


def stretches(p, length, threshold, speech, silence, margin):
    """Where there is speech, in samples."""
    found, begin, quiet = [], None, None
    for i, v in enumerate(p):
        at = PIECE * i
        if v >= threshold:
            quiet = None
            begin = at if begin is None else begin
        elif v < threshold - 0.15 and begin is not None:
            quiet = at if quiet is None else quiet
            if at - quiet >= silence:
                found += [[begin, quiet]] if quiet - begin > speech else []
                begin = quiet = None
    if begin is not None and length - begin > speech:
        found.append([begin, length])
    for i, one in enumerate(found):
        if i == 0:
            one[0] = max(0, one[0] - margin)
        if i + 1 < len(found):
            half = min(margin, (found[i + 1][0] - one[1]) / 2)
            one[1] += half
            found[i + 1][0] -= half
        else:
            one[1] = min(length, one[1] + margin)
    return found


def run(*args):
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    if done.returncode == 77:
        sys.exit(77)
    return done.returncode, done.stdout, done.stderr


def good(*args):
    code, out, told = run(*args)
    assert code == 0, (args, code, told)
    return out


def check_values(model, wav, want, length):
    for batch in batches:
        got = list(map(float, good('--model', model, '--probabilities', '--batch', batch, wav).split()))
        assert len(got) == len(want)
        far = max(abs(a - b) for a, b in zip(got, want))
        print(f'{batch} at a time: {far:.2g}')
        assert far < 1e-4 and max(want) - min(want) > 0.6, (min(want), max(want))
    counts = set()
    for threshold, speech, silence, margin in ((0.5, 20, 30, 10), (0.7, 60, 90, 30), (0.3, 10, 40, 100),
                                               (0.6, 500, 40, 10)):
        told = good('--model', model, '--threshold', threshold, '--speech', speech, '--silence', silence, '--margin',
                    margin, wav)
        rows = [] if told == 'no speech\n' else [line.split() for line in told.splitlines()]
        ms = RATE / 1000
        expected = stretches(want, length, threshold, speech * ms, silence * ms, margin * ms)
        got = [[float(row[0]), float(row[2])] for row in rows]
        print(f'threshold {threshold}: {len(expected)} stretches')
        counts.add(len(expected))
        assert len(got) == len(expected), (got, expected)
        assert all(abs(a - b / RATE) < 0.006 for x, y in zip(got, expected) for a, b in zip(x, y)), (got, expected)
    assert len(counts) > 2 and max(counts) > 2, counts


def check_refused(at, model, wav, weights):
    no, slow, half = at / 'none', at / 'slow.wav', at / 'half.safetensors'
    write_wav(slow, [0] * 100, 8000)
    write_weights(half, {k: v for k, v in weights.items() if not k.startswith('lstm')})
    for said, args in (('none', ['--model', no, wav]), ('none', ['--model', model, no]),
                       ('8000 samples a second', ['--model', model, slow]), ('lstm_cell', ['--model', half, wav]),
                       ('test.wav', ['--model', wav, wav])):
        code, printed, told = run(*args)
        assert code == 1 and said in told and not printed, (args, code, told)
    for args in ([], [wav], ['--model', model], ['--model', model, '--batch', '0', wav]):
        code, printed, told = run(*args)
        assert code == 2 and 'usage' in told and not printed, args


def main(at):
    weights, wav, both = make_weights(), at / 'test.wav', at / 'stereo.wav'
    model = at / 'weights.safetensors'
    n = 45 * PIECE - 100
    samples = [round(30000 * v * (i // 2500 % 3 == 0)) for i, v in enumerate(noise(n))]
    balanced(weights, samples)
    write_weights(model, weights)
    write_wav(wav, samples)
    write_wav(both, [v for s in samples for v in (s, s)], channels=2)
    want = reference(weights, samples)
    check_values(model, wav, want, n)
    assert good('--model', model, '--probabilities', both) == good('--model', model, '--probabilities', wav)
    write_wav(both, [], channels=2)
    assert good('--model', model, both) == 'no speech\n'
    check_refused(at, model, wav, weights)


with tempfile.TemporaryDirectory() as place:
    main(pathlib.Path(place))
