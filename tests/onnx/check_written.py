#!/usr/bin/env python3
"""Checks models that Kiln wrote with ONNX's checker, and compares what onnxruntime gives for them with what Kiln gave.

usage: check_written.py FOLDER [--tolerance T]

FOLDER is one that test_onnx_written or test_onnx_networks filled: a folder for each model, with model.onnx,
input_0.npy ... and output_0.npy ... Needs onnx, onnxruntime and numpy. Inputs of bfloat16, which numpy lacks, are
checked and not run. Prints what fails, and how many models there were of each kind.
"""
import collections
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort

BFLOAT16 = onnx.TensorProto.BFLOAT16


def arrays(folder, kind):
    return [np.load(folder / f'{kind}_{i}.npy') for i in range(len(list(folder.glob(f'{kind}_*.npy'))))]


def uses_bfloat16(model):
    values = list(model.graph.input) + list(model.graph.output)
    return any(v.type.tensor_type.elem_type == BFLOAT16 for v in values)


def differs(got, want, tolerance):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f'is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}'
    if got.dtype.kind != 'f':
        return None if np.array_equal(got, want) else f'{np.count_nonzero(got != want)} elements differ'
    bound = tolerance or {2: 6e-3, 4: 2e-5, 8: 1e-9}[got.dtype.itemsize]
    got, want = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all='ignore'):
        off = np.abs(got - want) / (1 + np.abs(want))
    off = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, off)
    worst = np.max(np.where(np.isnan(off), np.inf, off), initial=0)
    return None if worst <= bound else f'is off by {worst:.3g}'


def check(folder, tolerance):
    path = folder / 'model.onnx'
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    if uses_bfloat16(model):
        return 'checked', 'bfloat16'
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(str(path), options)
    except Exception as error:
        if 'NOT_IMPLEMENTED' in str(error):
            return 'checked', 'onnxruntime has no kernel'
        return 'failed', str(error)[:300]
    feeds = dict(zip([v.name for v in session.get_inputs()], arrays(folder, 'input')))
    wanted = arrays(folder, 'output')
    for i, (got, want) in enumerate(zip(session.run(None, feeds), wanted)):
        why = differs(np.asarray(got), want, tolerance)
        if why:
            return 'failed', f'output {i} {why}'
    return 'agrees', ''


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    tolerance = float(arguments[2]) if len(arguments) > 2 else 0
    counts = collections.Counter()
    for folder in sorted(p for p in pathlib.Path(arguments[0]).iterdir() if p.is_dir()):
        try:
            outcome, why = check(folder, tolerance)
        except Exception as error:
            outcome, why = 'failed', f'{type(error).__name__}: {str(error)[:300]}'
        counts[f'{outcome}{", " + why if outcome == "checked" else ""}'] += 1
        if outcome == 'failed':
            print(f'{folder.name}: {why}')
    print(', '.join(f'{n} {outcome}' for outcome, n in sorted(counts.items())))
    return 1 if counts['failed'] else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
