#!/usr/bin/env python3
"""Compares docs/examples/embed.c with onnxruntime, numpy and the package tokenizers, for a model of sentences at hand.

usage: real_embed.py PROGRAM MODEL.onnx VOCAB [OUTPUT]

OUTPUT is the model's, with a vector for each word piece. Needs what make_embed.py needs; $KILN_DEVICE is the program's.
Prints the largest difference of a vector's element, for a batch of padded sentences and for one at a time, and the time
that onnxruntime takes on two threads for each.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort

from make_embed import SENTENCES, pad, pool, tokenize

LENGTH = 128


def run_program(program, model, vocab, text, batch, output):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'vectors.npy')
        subprocess.run([program, '--model', model, '--vocab', vocab, '--text', text, '--length', str(LENGTH), '--batch',
                        str(batch), '--out', out, *(['--output', output] if output else [])], check=True)
        return np.load(out)


def run_onnx(session, ids, output):
    rows, mask = pad(ids)
    feeds = {'input_ids': rows, 'attention_mask': mask, 'token_type_ids': 0 * rows}
    taken = {i.name for i in session.get_inputs()}
    began = time.perf_counter()
    hidden = session.run([output], {k: v for k, v in feeds.items() if k in taken})[0]
    return pool(hidden.astype('f8'), mask), time.perf_counter() - began


def main(program, model, vocab, output='last_hidden_state'):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(model, options)
    # Bytes, for a piece may hold what Python takes for the end of a line.
    pieces = [line.decode() for line in pathlib.Path(vocab).read_bytes().rstrip(b'\n').split(b'\n')]
    ids = tokenize(pieces, SENTENCES, LENGTH)
    with tempfile.NamedTemporaryFile('w', newline='\n') as text:
        text.write(''.join(s + '\n' for s in SENTENCES))
        text.flush()
        told = subprocess.run([program, '--vocab', vocab, '--text', text.name, '--length', str(LENGTH), '--ids'],
                              capture_output=True, text=True, check=True).stdout
        assert [list(map(int, line.split())) for line in told.splitlines()] == ids, 'other ids'
        for batch in (len(ids), 1):
            got = run_program(program, model, vocab, text.name, batch, output)
            made = [run_onnx(session, ids[i:i + batch], output) for i in range(0, len(ids), batch)]
            want, seconds = np.concatenate([m[0] for m in made]), sum(m[1] for m in made)
            print(f'{len(ids)} sentences, {batch} at a time: the largest difference is {np.abs(got - want).max():.2g}; '
                  f'onnxruntime takes {1e3 * seconds:.0f} ms')
            assert np.abs(got - want).max() < 1e-4


if __name__ == '__main__':
    main(*sys.argv[1:])
