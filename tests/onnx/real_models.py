#!/usr/bin/env python3
"""Makes of ONNX models folders as test_onnx_nodes takes them: the model, inputs, what onnxruntime gives for them.

usage: real_models.py FOLDER MODEL.onnx... [--dim NAME=SIZE...] [--set INPUT=VALUE...]

Needs onnx, onnxruntime and numpy. Models of older operator sets than 13 are converted to 13. Open dimensions are 1, or
what --dim says by name or place ("x:2"); inputs are random, or what --set says. Prints the time of a call on one thread
and on all.
"""
import pathlib
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, version_converter


def load(path):
    model = onnx.load(path)
    version = next(o.version for o in model.opset_import if o.domain in ('', 'ai.onnx'))
    if version >= 13:
        return model
    print(f'  version {version}, converted to 13')
    return version_converter.convert_version(model, 13)


def shape_of(value, dims):
    shape = []
    for i, d in enumerate(value.type.tensor_type.shape.dim):
        named = dims.get(f'{value.name}:{i}', dims.get(d.dim_param))
        shape.append(d.dim_value if d.dim_value > 0 else int(named or 1))
    return shape


def make_input(value, dims, values, rng):
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    shape = shape_of(value, dims)
    if value.name in values:
        return np.full(shape, float(values[value.name])).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape).astype(dtype) * dtype.type(0.5)
    return rng.integers(0, 200, shape).astype(dtype)


def seconds(path, feeds, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(path, options)
    session.run(None, feeds)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def make(path, folder, dims, values):
    print(path)
    model = load(path)
    name = pathlib.Path(path).stem
    name = pathlib.Path(path).parent.name + '_' + name if name == 'model' else name
    data = folder / name / 'test_data_set_0'
    data.mkdir(parents=True, exist_ok=True)
    target = str(folder / name / 'model.onnx')
    onnx.save(model, target)
    constants = {t.name for t in model.graph.initializer}
    rng = np.random.default_rng(1)
    feeds = {v.name: make_input(v, dims, values, rng) for v in model.graph.input if v.name not in constants}
    session = ort.InferenceSession(target)
    for i, (key, array) in enumerate(feeds.items()):
        (data / f'input_{i}.pb').write_bytes(numpy_helper.from_array(array, key).SerializeToString())
    for i, array in enumerate(session.run(None, feeds)):
        (data / f'output_{i}.pb').write_bytes(numpy_helper.from_array(np.asarray(array)).SerializeToString())
        print(f'  output {array.dtype}{list(array.shape)}')
    print(f'  onnxruntime {ort.__version__}: {seconds(target, feeds, 1) * 1e3:.3f} ms on one thread, '
          f'{seconds(target, feeds, 0) * 1e3:.3f} ms on all')


def main(arguments):
    pairs = {'--dim': {}, '--set': {}}
    paths, option = [], None
    for a in arguments:
        if a in pairs:
            option = a
        elif option:
            key, value = a.split('=')
            pairs[option][key] = value
        else:
            paths.append(a)
    if len(paths) < 2:
        sys.exit(__doc__)
    for path in paths[1:]:
        try:
            make(path, pathlib.Path(paths[0]), pairs['--dim'], pairs['--set'])
        except Exception as error:
            print(f'  {type(error).__name__}: {str(error)[:300]}')


if __name__ == '__main__':
    main(sys.argv[1:])
