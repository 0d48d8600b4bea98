#!/usr/bin/env python3
"""Writes numpy.txt, what NumPy prints for the arrays made here. Needs NumPy 2.0 to 2.2; usage: record.py > numpy.txt

A case is a line "case DTYPE DIMS", a line with the elements' bits in hexadecimal, the text, and a line "end".
"""
import numpy as np

NAMES = {'bool': 'bool', 'uint8': 'u8', 'int8': 'i8', 'int16': 'i16', 'int32': 'i32', 'int64': 'i64',
         'float16': 'f16', 'float32': 'f32', 'float64': 'f64'}
FLOATS = (np.float16, np.float32, np.float64)
rng = np.random.default_rng(7)


def record(a):
    unsigned = np.dtype(f'u{a.dtype.itemsize}')
    bits = ' '.join(f'{int(x):x}' for x in np.ascontiguousarray(a).reshape(-1).view(unsigned))
    print('case', NAMES[a.dtype.name], ' '.join(map(str, a.shape)))
    print(bits)
    print(np.array2string(a) if a.ndim else str(a))
    print('end')


def scalars():
    for dtype in FLOATS:
        for x in (0, -0.0, 1, -2.5, 0.1, 1 / 3, 1e-4, 9.9e-5, 65504, 6e-8, np.nan, np.inf, -np.inf):
            record(np.array(x, dtype))
    for x in (1e15, 1e16, 123456789012345680, 1.5e300, 5e-324, 2.0 ** -44, 1.7976931348623157e308):
        record(np.array(x))
    for x in (99999992, 1e10, 1.2345679e10, 1e16, 3.4028235e38, 1e-45, 2.0 ** -96):
        record(np.array(x, np.float32))
    for dtype, x in ((np.bool_, True), (np.bool_, False), (np.int8, -128), (np.uint8, 255), (np.int64, -2 ** 63)):
        record(np.array(x, dtype))


def notations():
    for dtype in FLOATS:
        for row in ([4, 10, 18], [1, 2.5, 3.25], [0.1, 0.2, 0.3], [1, 1000], [1, 1001], [1e-4, 1e-3], [9e-5, 1e-3],
                    [0, 0], [0, 1e-4], [-1, 1], [-0.0, 0.5], [1, np.nan], [np.nan], [np.inf, -np.inf], [-np.inf, 12345],
                    [0.1, 2000, np.nan, -np.inf], [123.456, 7.2000003], [2 / 3, 200 / 3], [1e-5, np.inf]):
            record(np.array(row, dtype))
    for row in ([1e8], [99999999], [99999999.5, 1e6], [1e-300, 1e300], [1e100], [-1e100, 3], [1.123456789, 2],
                [0.99999999999, 0.5], [123456.123456789], [1e-8, 1], [1.5, 1e-100]):
        record(np.array(row))
    for row in ([99999992, 1500], [99999992], [16777217, 0.1], [33554432, 0.5 ** 12], [9.02, 5.4, 7.2000003],
                [1e38, 1]):
        record(np.array(row, np.float32))
    record(np.array([[9.02, 5.4, 7.2000003]] * 2, np.float32))
    record(np.array([True, False, True]))
    record(np.array([[True], [False]]))
    for dtype in (np.uint8, np.int8, np.int16, np.int32, np.int64):
        record(np.array([1, 2, 3], dtype))
        record(np.array([[0, 100], [-7 if dtype is not np.uint8 else 7, 5]], dtype))


def shapes():
    for dims in ((0,), (2, 0), (0, 3), (1,), (1, 1, 1), (1, 3, 3, 4), (2, 2, 2, 2, 2), (1, 1, 1, 1, 1, 1, 1, 2)):
        record(np.full(dims, 2, np.float32))
    for n in (10, 25, 26, 30, 100, 1000):
        record(np.arange(n, dtype=np.int32))
    record(rng.standard_normal((3, 17)).astype(np.float32))
    record(rng.standard_normal((2, 3, 9)))
    record((rng.standard_normal((2, 2, 13)) * 1e5).astype(np.float32))
    record(rng.integers(0, 2, (3, 40)).astype(bool))
    record(np.arange(1001, dtype=np.int16))
    record(np.arange(1200, dtype=np.int16).reshape(40, 30))
    record(np.arange(1200, dtype=np.float32).reshape(200, 6))
    record(np.arange(1260, dtype=np.int16).reshape(7, 30, 6))
    record(np.linspace(0, 1, 1001, dtype=np.float32))
    record(np.zeros((2, 7, 9, 9), np.uint8))
    far = np.ones(1001, np.float32)
    far[500] = 1e9
    record(far)


def many_dimensions():
    record(np.arange(2 ** 9, dtype=np.int16).reshape((2,) * 9))
    record(np.arange(2 ** 8, dtype=np.float32).reshape((2, 1) * 8))
    record(np.arange(40, dtype=np.int32).reshape((1,) * 15 + (40,)))
    record(np.arange(1260, dtype=np.int16).reshape((7,) + (1,) * 13 + (30, 6)))


np.set_printoptions(legacy=False)
scalars()
notations()
shapes()
many_dimensions()
