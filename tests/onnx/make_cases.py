#!/usr/bin/env python3
"""Writes cases.bin: small models of each op that is mapped, inputs, and the outputs that onnxruntime
computes, or ONNX's reference where that does not.

usage: make_cases.py OUT

Needs onnx, onnxruntime and numpy; run by hand when ops are added. The file is a list of cases, each a name, the model,
inputs and outputs (TensorProto): all with their length before them, in 4 bytes, little-endian.
"""
import pathlib
import struct
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ort.set_default_logger_severity(4)
RNG = np.random.default_rng(7)
CASES = []
TYPES = {'f4': 1, 'u1': 2, 'i1': 3, 'i2': 5, 'i4': 6, 'i8': 7, '?': 9, 'f2': 10, 'f8': 11}
OF = {np.dtype(k): v for k, v in TYPES.items()}


def rand(*shape, lo=-2.0, hi=2.0, dtype='f4'):
    return (RNG.random(shape) * (hi - lo) + lo).astype(dtype)


def ints(*shape, lo=-5, hi=6, dtype='i8'):
    return RNG.integers(lo, hi, shape).astype(dtype)


def i64(*values):
    return np.array(values, 'i8')


def port(name, array):
    return helper.make_tensor_value_info(name, OF[array.dtype], array.shape)


def save(name, model, feeds):
    try:
        want = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    except Exception as error:  # what it does not do, the reference does
        print(f'{name}: by the reference, for {str(error)[:100]}')
        want = ReferenceEvaluator(model).run(None, feeds)
    CASES.append((name, model.SerializeToString(), [numpy_helper.from_array(v, k) for k, v in feeds.items()],
                  [numpy_helper.from_array(np.asarray(v)) for v in want]))


def model_of(nodes, inputs, outputs, constants, opset, functions=()):
    graph = helper.make_graph(nodes, 'g', [port(k, v) for k, v in inputs.items()],
                              [helper.make_empty_tensor_value_info(o) if isinstance(o, str) else o for o in outputs],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    imports = [helper.make_opsetid('', opset)] + [helper.make_opsetid(f.domain, 1) for f in functions]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=list(functions))


def op(kind, *args, opset=13, n_out=1, const=(), name='', **attrs):
    """One node on args, which are inputs of the model but for those that `const` numbers; None is left out."""
    names = ['' if a is None else f'x{i}' for i, a in enumerate(args)]
    inputs = {n: a for i, (n, a) in enumerate(zip(names, args)) if a is not None and i not in const}
    constants = {n: a for i, (n, a) in enumerate(zip(names, args)) if a is not None and i in const}
    outs = [f'y{i}' for i in range(n_out)]
    model = model_of([helper.make_node(kind, names, outs, **attrs)], inputs, outs, constants, opset)
    save(f'{kind}-{opset}{"-" + name if name else ""}', model, inputs)


def elementwise():
    for kind in 'Neg Abs Sign Floor Ceil Round Exp Sin Cos Tan Sinh Cosh Tanh Atan Asinh Erf Relu Sigmoid Softplus ' \
                'Softsign Identity'.split():
        op(kind, rand(2, 5))
    for kind in 'Sqrt Log Reciprocal'.split():
        op(kind, rand(2, 5, lo=0.2))
    for kind in 'Asin Acos Atanh'.split():
        op(kind, rand(7, lo=-0.9, hi=0.9))
    op('Acosh', rand(7, lo=1.2, hi=4))
    for kind in 'Add Sub Mul Div'.split():
        op(kind, rand(2, 3, 4), rand(3, 1, lo=0.5))
        op(kind, ints(2, 6, lo=-20, hi=20), ints(6, lo=1, hi=6), name='i64')
    op('Add', rand(4, dtype='f2'), rand(4, dtype='f2'), opset=14, name='f16')
    op('Add', rand(4, dtype='f8'), rand(4, dtype='f8'), opset=14, name='f64')
    op('Pow', rand(2, 3, lo=0.2), rand(3))
    op('Pow', rand(2, 3), np.float32(2), const=[1], name='square')
    op('Pow', ints(5), i64(3), const=[1], name='cube')
    op('Pow', rand(5, lo=0.2), ints(5, lo=0, hi=4), name='mixed')
    op('Mod', ints(9, lo=-9, hi=9), ints(9, lo=1, hi=5))
    op('Mod', rand(9), rand(9, lo=0.5), name='fmod', fmod=1)
    for kind in 'Max Min Sum Mean'.split():
        op(kind, rand(2, 3), rand(3), rand(1))
    for kind in 'Equal Less LessOrEqual Greater GreaterOrEqual'.split():
        op(kind, ints(3, 4, lo=0, hi=3, dtype='i4'), ints(4, lo=0, hi=3, dtype='i4'))
    for kind in 'And Or Xor'.split():
        op(kind, rand(2, 4) > 0, rand(4) > 0)
    op('Not', rand(5) > 0)
    for kind in 'BitwiseAnd BitwiseOr BitwiseXor'.split():
        op(kind, ints(6, dtype='i4'), ints(6, dtype='i4'), opset=18)
    op('BitwiseNot', ints(6, dtype='i4'), opset=18)
    for way in 'LEFT RIGHT'.split():
        op('BitShift', ints(6, lo=0, hi=200, dtype='u1'), ints(6, lo=0, hi=7, dtype='u1'), direction=way, name=way)
    op('Where', rand(2, 3) > 0, rand(2, 3), rand(3))
    special = np.array([1, np.nan, np.inf, -np.inf], 'f4')
    op('IsNaN', special)
    op('IsInf', special)
    op('IsInf', special, detect_negative=0, name='above')
    op('Clip', rand(9), np.float32(-0.5), np.float32(1), const=[1, 2])
    op('Clip', rand(9), None, np.float32(1), const=[2], name='above')


def activations():
    for kind, attrs in {'LeakyRelu': {'alpha': 0.3}, 'Elu': {'alpha': 1.5}, 'Selu': {'alpha': 1.2, 'gamma': 1.1},
                        'Celu': {'alpha': 0.7}, 'ThresholdedRelu': {'alpha': 0.4},
                        'HardSigmoid': {'alpha': 0.3, 'beta': 0.4},
                        'Shrink': {'lambd': 0.7, 'bias': 0.2}}.items():
        op(kind, rand(3, 7))
        op(kind, rand(3, 7), name='set', **attrs)
    op('PRelu', rand(2, 3, 4), rand(3, 1))
    op('HardSwish', rand(9, lo=-4, hi=4), opset=14)
    op('Mish', rand(9, lo=-4, hi=4), opset=18)
    op('Gelu', rand(9), opset=20)
    op('Gelu', rand(9), opset=20, approximate='tanh', name='tanh')
    for kind in 'Softmax LogSoftmax Hardmax'.split():
        op(kind, rand(2, 3, 4))
        op(kind, rand(2, 3, 4), axis=1, name='axis')
    op('Dropout', rand(6))


def reductions():
    for kind in 'ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp ' \
                'ReduceSumSquare ReduceLogSum'.split():
        x = rand(2, 3, 4, lo=0.3)
        if kind == 'ReduceSum':
            op(kind, x, i64(1), const=[1], keepdims=0)
        else:
            op(kind, x, axes=[1], keepdims=0)
        op(kind, x, i64(0, -1), opset=18, const=[1])
        op(kind, x, opset=18, name='all')
    op('ReduceSum', ints(3, 4, dtype='i4'), i64(1), const=[1], name='i32')
    op('ReduceSum', rand(3), i64(), const=[1], noop_with_empty_axes=1, name='none')
    for kind in 'ArgMax ArgMin'.split():
        op(kind, ints(3, 5, lo=0, hi=3, dtype='f4'), axis=1)
        op(kind, ints(3, 5, lo=0, hi=3, dtype='f4'), axis=1, keepdims=0, select_last_index=1, name='last')
    for exclusive in (0, 1):
        for reverse in (0, 1):
            op('CumSum', rand(2, 4), np.array(1, 'i8'), const=[1], opset=14, exclusive=exclusive, reverse=reverse,
               name=f'{exclusive}{reverse}')
    op('CumSum', ints(5, dtype='i4'), np.array(0, 'i8'), const=[1], opset=14, name='i32')
    op('TopK', rand(3, 6), i64(2), const=[1], n_out=2)
    op('TopK', rand(6, 3), i64(3), const=[1], n_out=2, axis=0, largest=0, name='least')


def products():
    op('MatMul', rand(2, 3, 4), rand(4, 5))
    op('MatMul', rand(4), rand(4), name='vectors')
    op('Gemm', rand(3, 4), rand(4, 5), rand(5))
    op('Gemm', rand(4, 3), rand(5, 4), rand(3, 1), transA=1, transB=1, alpha=0.5, beta=2.0, name='set')
    for equation, *shapes in (('ij,jk->ik', (3, 4), (4, 5)), ('bhqd,bhkd->bhqk', (2, 2, 3, 4), (2, 2, 5, 4)),
                              ('ij->ji', (3, 4)), ('ii->i', (4, 4)), ('ij->', (3, 4)),
                              ('...ij,...jk->...ik', (2, 3, 4), (2, 4, 5)),
                              ('i,j,k->ijk', (2,), (3,), (4,)), ('ij,kj', (3, 4), (5, 4))):
        op('Einsum', *[rand(*s) for s in shapes], equation=equation, name=equation)
    op('MatMulInteger', ints(3, 4, lo=0, hi=200, dtype='u1'), ints(4, 5, lo=-90, hi=90, dtype='i1'), np.array(7, 'u1'),
       np.array(-3, 'i1'))


def convolutions():
    x = rand(2, 4, 7, 6)
    op('Conv', x, rand(3, 4, 3, 3), rand(3), const=[1, 2])
    op('Conv', x, rand(6, 2, 3, 2), group=2, strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2], name='set')
    op('Conv', x, rand(4, 1, 3, 3), group=4, auto_pad='SAME_UPPER', strides=[2, 2], name='upper')
    op('Conv', x, rand(3, 4, 2, 2), auto_pad='SAME_LOWER', name='lower')
    op('Conv', rand(2, 3, 9), rand(5, 3, 4), rand(5), strides=[2], pads=[2, 1], name='line')
    op('ConvTranspose', x, rand(4, 3, 3, 3), rand(3))
    op('ConvTranspose', x, rand(4, 2, 3, 2), group=2, strides=[2, 3], pads=[1, 0, 1, 0], output_padding=[1, 2],
       name='set')
    op('ConvTranspose', x, rand(4, 3, 3, 3), strides=[2, 2], output_shape=[14, 12], name='shape')
    op('ConvTranspose', rand(1, 3, 5), rand(3, 2, 4), strides=[2], pads=[1, 2], name='line')
    for kind, attrs in (('MaxPool', {}), ('AveragePool', {}), ('AveragePool', {'count_include_pad': 1})):
        tail = 'include' if attrs else ''
        op(kind, x, kernel_shape=[3, 2], name='plain' + tail, **attrs)
        op(kind, x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], name='even' + tail, **attrs)
        op(kind, x, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 0], name='uneven' + tail, **attrs)
        op(kind, x, kernel_shape=[2, 2], strides=[2, 2], auto_pad='SAME_UPPER', name='upper' + tail, **attrs)
        op(kind, rand(2, 3, 8), kernel_shape=[3], strides=[2], ceil_mode=1, name='ceil' + tail, opset=19, **attrs)
    op('MaxPool', x, kernel_shape=[2, 2], dilations=[2, 2], name='dilated')
    op('GlobalAveragePool', x)
    op('GlobalMaxPool', x)


def norms():
    x = rand(2, 4, 3, 3)
    each = [rand(4), rand(4), rand(4), rand(4, lo=0.5)]
    op('BatchNormalization', x, *each, opset=13)
    op('BatchNormalization', x, *each, opset=15, epsilon=0.1)
    op('InstanceNormalization', x, *each[:2])
    op('LayerNormalization', rand(2, 3, 8), rand(8), rand(8), opset=17)
    op('LayerNormalization', rand(2, 3, 8), rand(3, 8), opset=17, axis=1, epsilon=0.01, n_out=3, name='all')
    op('GroupNormalization', x, *each[:2], opset=21, num_groups=2)
    op('LRN', rand(1, 6, 2, 2), size=3, alpha=0.1)
    op('LRN', rand(6, 6, 2, 2), size=4, alpha=0.1, beta=0.5, bias=2.0, name='even')
    op('LpNormalization', rand(3, 4), axis=1)
    op('LpNormalization', rand(3, 4), axis=0, p=1, name='p1')
    op('MeanVarianceNormalization', x)


def shapes():
    x = rand(2, 3, 4)
    op('Reshape', x, i64(0, -1), const=[1])
    op('Reshape', x, i64(4, 6), const=[1], opset=14)
    op('Transpose', x)
    op('Transpose', x, perm=[2, 0, 1], name='perm')
    op('Flatten', x)
    op('Flatten', x, axis=-1, name='last')
    op('Squeeze', rand(1, 3, 1), i64(0), const=[1])
    op('Squeeze', rand(1, 3, 1), name='all')
    op('Unsqueeze', rand(3, 2), i64(0, -1), const=[1])
    op('Expand', rand(3, 1), i64(2, 1, 4), const=[1])
    op('Tile', rand(2, 3), i64(2, 2), const=[1])
    op('Concat', rand(2, 3), rand(2, 1), axis=-1)
    op('Split', rand(2, 6), axis=1, n_out=3)
    op('Split', rand(2, 6), i64(1, 5), const=[1], axis=1, n_out=2, name='sizes')
    op('Split', rand(7), axis=0, n_out=3, num_outputs=3, opset=18)
    op('Slice', rand(5, 6), i64(1), i64(-1), const=[1, 2])
    op('Slice', rand(5, 6), i64(-1, 9), i64(-100, 1), i64(0, -1), i64(-2, -1), const=[1, 2, 3, 4], name='back')
    op('Slice', rand(5, 6), i64(1), i64(2**63 - 1), i64(1), i64(2), const=[1, 2, 3, 4], name='end')
    op('Pad', rand(2, 3), i64(0, 1, 1, 0), np.float32(1.5), const=[1, 2])
    for mode in 'reflect edge'.split():
        op('Pad', rand(3, 4), i64(1, 2, 0, 1), const=[1], mode=mode, name=mode)
    op('Pad', rand(3, 4), i64(1, -1), None, i64(1), const=[1, 3], opset=18, name='axes')
    op('Pad', rand(3, 4), i64(1, 2, 0, 1), const=[1], opset=19, mode='wrap', name='wrap')
    op('DepthToSpace', rand(1, 8, 2, 3), blocksize=2)
    op('DepthToSpace', rand(1, 8, 2, 3), blocksize=2, mode='CRD', name='crd')
    op('SpaceToDepth', rand(1, 2, 4, 6), blocksize=2)
    op('Trilu', rand(3, 4), opset=14)
    op('Trilu', rand(3, 4), np.array(-1, 'i8'), const=[1], opset=14, upper=0, name='lower')
    op('EyeLike', rand(3, 4), k=1)
    op('Shape', x)
    op('Shape', x, opset=15, start=-2, name='part')
    op('Size', x)
    op('ConstantOfShape', i64(2, 3), const=[0], value=numpy_helper.from_array(np.array([7], 'i8')))
    op('Range', np.array(1, 'i8'), np.array(9, 'i8'), np.array(3, 'i8'), const=[0, 1, 2])
    for to in ('i8', 'f2', 'f8', '?', 'u1'):
        op('Cast', rand(6, lo=0.4, hi=9), to=OF[np.dtype(to)], name=to[-2:].replace('?', 'bool'))
    op('CastLike', rand(6), ints(1), opset=15)
    op('NonZero', np.array([[1, 0], [3, 4]], 'i8'), const=[0])
    op('Constant', value_floats=[1.0, 2.5])


def indices():
    x = rand(3, 4, 5)
    op('Gather', x, ints(2, 2, lo=-3, hi=3))
    op('Gather', x, np.array(1, 'i8'), axis=-1, name='one')
    op('GatherElements', x, ints(3, 2, 5, lo=-4, hi=4), axis=1)
    op('GatherND', x, ints(2, 2, lo=0, hi=3))
    op('GatherND', x, ints(3, 2, 1, lo=-4, hi=4), batch_dims=1, name='batch')
    op('ScatterElements', rand(3, 4), i64(2, 0, 1, 2).reshape(1, 4), rand(1, 4), axis=0)
    op('ScatterElements', rand(3, 4), ints(3, 4, lo=0, hi=4), rand(3, 4), axis=1, opset=16, reduction='add', name='add')
    op('ScatterND', rand(4, 3), i64(3, -4).reshape(2, 1), rand(2, 3))
    op('ScatterND', rand(4, 3), i64(1, 1, 1, 1, 0, 2).reshape(3, 2), rand(3), opset=16, reduction='add', name='add')
    op('OneHot', ints(3, lo=-4, hi=4), np.array(4, 'i8'), np.array([0, 5], 'f4'), const=[1])
    op('OneHot', ints(2, 3, lo=0, hi=4), np.array(4, 'i8'), np.array([1, 3], 'i4'), const=[1], axis=1, name='axis')


def resizing():
    x = rand(1, 2, 3, 4)
    none = np.array([], 'f4')
    for mode in 'nearest linear cubic'.split():
        for way in 'half_pixel asymmetric align_corners pytorch_half_pixel'.split():
            op('Resize', x, none, None, i64(1, 2, 5, 7), const=[1, 3], mode=mode, coordinate_transformation_mode=way,
               name=f'{mode}-{way}')
    op('Resize', x, none, np.array([1, 1, 2, 2], 'f4'), const=[1, 2], nearest_mode='floor',
       coordinate_transformation_mode='asymmetric', name='twice')
    op('Resize', x, None, np.array([0.5, 0.75], 'f4'), const=[2], opset=18, mode='linear', axes=[2, 3], name='smaller')
    op('Resize', x, None, np.array([2, 2], 'f4'), const=[2], opset=19, mode='cubic', axes=[2, 3], exclude_outside=1,
       cubic_coeff_a=-0.5, name='inside')


def quantised():
    x, scale, zero = rand(3, 4), np.array(0.02, 'f4'), np.array(120, 'u1')
    op('QuantizeLinear', x, scale, zero)
    op('QuantizeLinear', x, rand(3, lo=0.01, hi=0.05), ints(3, dtype='i1'), axis=0, name='axis')
    op('DequantizeLinear', ints(3, 4, lo=0, hi=255, dtype='u1'), scale, zero, opset=19)
    op('DequantizeLinear', ints(3, 4, dtype='i1'), rand(4, lo=0.01, hi=0.05), ints(4, dtype='i1'), opset=19, axis=1,
       name='axis')
    op('DynamicQuantizeLinear', x, n_out=3)
    image, filters = ints(1, 3, 5, 5, lo=0, hi=255, dtype='u1'), ints(4, 3, 3, 3, lo=-90, hi=90, dtype='i1')
    op('ConvInteger', image, ints(4, 3, 3, 3, lo=0, hi=255, dtype='u1'), zero, pads=[1, 1, 1, 1])
    op('QLinearConv', image, np.array(0.01, 'f4'), zero, filters, rand(4, lo=0.01, hi=0.02), np.zeros(4, 'i1'),
       np.array(0.1, 'f4'), np.array(100, 'u1'), ints(4, lo=-900, hi=900, dtype='i4'), const=[3, 4, 5], strides=[2, 2])
    op('QLinearMatMul', ints(3, 4, lo=0, hi=255, dtype='u1'), np.array(0.01, 'f4'), zero,
       ints(4, 5, lo=-90, hi=90, dtype='i1'), np.array(0.02, 'f4'), np.array(3, 'i1'), np.array(0.03, 'f4'),
       np.array(90, 'u1'))


def recurrent():
    for kind, gates in (('RNN', 1), ('GRU', 3), ('LSTM', 4)):
        for way, d in (('forward', 1), ('reverse', 1), ('bidirectional', 2)):
            n_out = 3 if kind == 'LSTM' else 2
            op(kind, rand(4, 2, 3), rand(d, gates * 5, 3), rand(d, gates * 5, 5), rand(d, 2 * gates * 5), None,
               rand(d, 2, 5), opset=14, hidden_size=5, direction=way, n_out=n_out, name=way)
    op('GRU', rand(4, 2, 3), rand(1, 15, 3), rand(1, 15, 5), rand(1, 30), opset=14, hidden_size=5,
       linear_before_reset=1, n_out=2, name='linear')


def graph(nodes, inputs, outputs):
    return helper.make_graph(nodes, 'body', [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
                             [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs])


def control():
    f, i, b = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
    then = graph([helper.make_node('Mul', ['x', 'x'], ['t'])], [], [('t', f, None)])
    other = graph([helper.make_node('Neg', ['x'], ['e'])], [], [('e', f, None)])
    node = helper.make_node('If', ['c'], ['y'], then_branch=then, else_branch=other)
    for value in (True, False):
        feeds = {'c': np.array(value), 'x': rand(3)}
        save(f'If-{value}', model_of([node], feeds, ['y'], {}, 16), feeds)
    body = graph([helper.make_node('Identity', ['cond'], ['again']), helper.make_node('Add', ['v', 'x'], ['w']),
                  helper.make_node('Cast', ['n'], ['m'], to=f), helper.make_node('Mul', ['w', 'm'], ['row'])],
                 [('n', i, []), ('cond', b, []), ('v', f, None)], [('again', b, []), ('w', f, None), ('row', f, None)])
    node = helper.make_node('Loop', ['k', '', 'x'], ['last', 'rows'], body=body)
    feeds = {'x': rand(3)}
    save('Loop-counted', model_of([node], feeds, ['last', 'rows'], {'k': np.array(4, 'i8')}, 16), feeds)
    body = graph([helper.make_node('Add', ['v', 'x'], ['w']), helper.make_node('ReduceSum', ['w'], ['s'], keepdims=0),
                  helper.make_node('Less', ['s', 'limit'], ['again'])],
                 [('n', i, []), ('cond', b, []), ('v', f, None)], [('again', b, []), ('w', f, None)])
    node = helper.make_node('Loop', ['', 'go', 'x'], ['last'], body=body)
    feeds = {'x': rand(3, lo=0.3)}
    constants = {'limit': np.float32(9), 'go': np.array(True)}
    save('Loop-while', model_of([node], feeds, ['last'], constants, 16), feeds)
    body = graph([helper.make_node('Add', ['s', 'e'], ['t']), helper.make_node('Mul', ['t', 'e'], ['o'])],
                 [('s', f, None), ('e', f, None)], [('t', f, None), ('o', f, None)])
    for name, attrs in (('plain', {}), ('back', {'scan_input_directions': [1], 'scan_output_directions': [1],
                                               'scan_input_axes': [1], 'scan_output_axes': [1]})):
        node = helper.make_node('Scan', ['s0', 'xs'], ['last', 'all'], body=body, num_scan_inputs=1, **attrs)
        feeds = {'s0': rand(3), 'xs': rand(3, 3)}
        save(f'Scan-{name}', model_of([node], feeds, ['last', 'all'], {}, 16), feeds)


def chains():
    """Arithmetic on shapes, constants, and functions of the model's own."""
    nodes = [helper.make_node('Shape', ['x'], ['s']), helper.make_node('Gather', ['s', 'zero'], ['n'], axis=0),
             helper.make_node('Gather', ['s', 'one'], ['m'], axis=0), helper.make_node('Div', ['m', 'two'], ['half']),
             helper.make_node('Unsqueeze', ['n', 'at'], ['n1']), helper.make_node('Unsqueeze', ['half', 'at'], ['h1']),
             helper.make_node('Concat', ['n1', 'twos', 'h1'], ['shape'], axis=0),
             helper.make_node('Reshape', ['x', 'shape'], ['y']),
             helper.make_node('ConstantOfShape', ['shape'], ['zeros']), helper.make_node('Add', ['y', 'zeros'], ['z'])]
    constants = {'zero': np.array(0, 'i8'), 'one': np.array(1, 'i8'), 'two': np.array(2, 'i8'), 'at': i64(0),
                 'twos': i64(2)}
    feeds = {'x': rand(3, 8)}
    save('chain-shape', model_of(nodes, feeds, ['z'], constants, 17), feeds)
    nodes = [helper.make_node('Shape', ['x'], ['s']), helper.make_node('Size', ['s'], ['rank']),
             helper.make_node('Equal', ['rank', 'two'], ['c']),
             helper.make_node('If', ['c'], ['y'],
                              then_branch=graph([helper.make_node('Transpose', ['x'], ['t'])], [], [('t', 1, None)]),
                              else_branch=graph([helper.make_node('Neg', ['x'], ['e'])], [], [('e', 1, None)]))]
    save('chain-if', model_of(nodes, feeds, ['y'], {'two': np.array(2, 'i8')}, 17), feeds)
    inner = helper.make_node('LeakyRelu', ['a'], ['b'])
    inner.attribute.append(onnx.AttributeProto(name='alpha', type=onnx.AttributeProto.FLOAT, ref_attr_name='slope'))
    function = helper.make_function('own', 'Bent', ['a'], ['c'], [inner, helper.make_node('Add', ['b', 'a'], ['c'])],
                                    [helper.make_opsetid('', 17)], ['slope'])
    nodes = [helper.make_node('Bent', ['x'], ['h'], domain='own', slope=0.25),
             helper.make_node('Bent', ['h'], ['y'], domain='own')]
    save('chain-function', model_of(nodes, feeds, ['y'], {}, 17, [function]), feeds)
    one = numpy_helper.from_array(np.array([1], 'f4'))
    mask = [helper.make_node('Shape', ['x'], ['s']), helper.make_node('ConstantOfShape', ['s'], ['ones'], value=one),
            helper.make_node('Trilu', ['ones'], ['low'], upper=0),
            helper.make_node('Cast', ['low'], ['keep'], to=TensorProto.BOOL),
            helper.make_node('Where', ['keep', 'x', 'least'], ['masked']),
            helper.make_node('Softmax', ['masked'], ['y'], axis=-1)]
    feeds = {'x': rand(2, 6, 6)}
    save('chain-mask', model_of(mask, feeds, ['y'], {'least': np.float32(-1e9)}, 17), feeds)


def part(data):
    return struct.pack('<I', len(data)) + data


def main(out):
    for make in (elementwise, activations, reductions, products, convolutions, norms, shapes, indices, resizing,
                 quantised, recurrent, control, chains):
        make()
    blob = b''
    for name, model, inputs, outputs in CASES:
        blob += part(name.encode()) + part(model)
        for tensors in (inputs, outputs):
            blob += struct.pack('<I', len(tensors)) + b''.join(part(t.SerializeToString()) for t in tensors)
    pathlib.Path(out).write_bytes(blob)
    print(f'{len(CASES)} cases, {len(blob)} bytes')


if __name__ == '__main__':
    main(sys.argv[1])
