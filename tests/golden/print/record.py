#!/usr/bin/env python3
"""Writes numpy.txt, what NumPy prints for the arrays made here. Needs NumPy 2.2; usage: record.py > numpy.txt

A case is a line "case DTYPE DIMS", with " | " and options behind it where they are not NumPy's own, a line with the
elements' bits in hexadecimal, of complex numbers two each, the text, and a line "end".
"""
import numpy as np
from numpy._core import arrayprint

NAMES = {'bool': 'bool', 'uint8': 'u8', 'int8': 'i8', 'int16': 'i16', 'int32': 'i32', 'int64': 'i64',
         'uint64': 'u64',
         'float16': 'f16', 'float32': 'f32', 'float64': 'f64', 'complex64': 'c64'}
FLOATS = (np.float16, np.float32, np.float64)
rng = np.random.default_rng(7)


def record(a, scientific=False, **options):
    """`options`: of np.set_printoptions. NumPy has none for exponents at all times: it is made to see a need."""
    unsigned = np.dtype(f'u{4 if a.dtype.kind == "c" else a.dtype.itemsize}')
    bits = ' '.join(f'{int(x):x}' for x in np.ascontiguousarray(a).reshape(-1).view(unsigned))
    said = options | ({'scientific': True} if scientific else {})
    print('case', NAMES[a.dtype.name], ' '.join(map(str, a.shape)),
          '| ' + ' '.join(f'{k}={ord(v) if isinstance(v, str) else int(v)}' for k, v in said.items()) if said else '')
    print(bits)
    least = arrayprint.FloatingFormat
    if scientific:
        arrayprint.FloatingFormat = Scientific
    with np.printoptions(**options):
        print(np.array2string(a) if a.ndim else str(a))
    arrayprint.FloatingFormat = least
    print('end')


class Scientific(arrayprint.FloatingFormat):
    """As NumPy's own, which sets exp_format where a value asks for it."""

    @property
    def exp_format(self):
        return True

    @exp_format.setter
    def exp_format(self, value):
        pass


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


def complex_numbers():
    for x in (0, 1 + 2j, -1.5j, 2, complex(-0.0, 1), complex(np.nan, np.inf), 1e-5 + 1e20j):
        record(np.array(x, np.complex64))
    record(np.array([1 + 2j, -3.25 - 0.5j], np.complex64))
    record(np.array([[1e9 + 1j, 2], [0, -1e-5j]], np.complex64))
    record(np.array([complex(np.nan, 1), complex(1, -np.inf)], np.complex64))
    record(np.arange(1200).reshape(40, 30).astype(np.complex64))
    record(np.zeros((0, 3), np.complex64))


ROWS = ([0.12345678, 1.5, -2.25], [1 / 3, 2 / 3], [0.0004, 0.0006, 0.0005, 1], [0.5, 1.5, 2.5], [0.4, 0.04], [1e-9, 5],
        [1e8, 1], [123456.789, 0.001], [9.9996, 1], [0, 0], [-0.0, 0.25], [1, np.nan], [np.nan, np.inf],
        [-np.inf, 0.125], [np.nan], [-1e-7, 1e-7], [99999.996, -0.004], [1e30, -1e-30], [3, 4], [-3, -4.5])


def options():
    for dtype in (np.float32, np.float64, np.float16):
        for row in ROWS:
            if dtype == np.float16 and max(map(abs, row)) > 60000:
                continue
            a = np.array(row, dtype)
            for precision in (0, 1, 3, 12):
                record(a, precision=precision)
                record(a, precision=precision, suppress=True)
            record(a, suppress=True)
            record(a, scientific=True)
            record(a, scientific=True, precision=2)
            for sign in '+ ':
                record(a, sign=sign)
                record(a, sign=sign, scientific=True)
            record(a, sign=' ', precision=2, suppress=True)


def options_of_others():
    for dtype in (np.int8, np.int64, np.int32):
        for row in ([1, 20, 3], [-1, 20, 3], [-1, -20], [0], [-100, 7]):
            for sign in '+ -':
                record(np.array(row, dtype), sign=sign, precision=2)
    record(np.array([2 ** 64 - 1, 0], np.uint64), sign='+')
    record(np.array([True, False]), sign='+', precision=1, scientific=True)
    record(np.array([[1 + 2j, -3.25 - 0.51j]], np.complex64), precision=1)
    record(np.array([1 + 2j, 3.25 - 0.5j], np.complex64), sign=' ')
    record(np.array([1 + 2j, -3.25 - 0.5j], np.complex64), sign='+')
    record(np.array([1 + 2j, -3.25 - 0.5j], np.complex64), scientific=True, precision=2)
    record(np.array([1e-7 + 2j, 3e-9j], np.complex64), suppress=True)
    for a in (np.array(1.23456789), np.array(5), np.array(True), np.array(1 + 0.123456j, np.complex64),
              np.array(np.inf)):
        record(a, precision=2, sign='+', scientific=True)
        record(a, threshold=0, linewidth=1)
    for dims in ((0,), (2, 0)):
        record(np.zeros(dims, np.float32), precision=1, threshold=0, sign='+')


def cuts():
    a = np.arange(60, dtype=np.float32).reshape(4, 15) / 7
    for threshold in (0, 59, 60):
        for edgeitems in (1, 2, 3, 8):
            record(a, threshold=threshold, edgeitems=edgeitems)
    for linewidth in (1, 10, 20, 40, 200):
        record(a, linewidth=linewidth)
        record(a, linewidth=linewidth, threshold=10, precision=2, sign='+')
        record(np.arange(30), linewidth=linewidth)
    record(np.arange(5000).reshape(10, 20, 25), edgeitems=1)
    record(np.arange(5000).reshape(10, 20, 25), edgeitems=2, linewidth=30)
    record(np.arange(2000, dtype=np.int32), threshold=2000, linewidth=120)
    record(np.arange(1100, dtype=np.float64) * 1e-3, edgeitems=4, precision=1)
    record(np.arange(70) % 3 == 0, threshold=50, edgeitems=5, linewidth=33)
    record((np.arange(40) * (1 + 0.5j)).astype(np.complex64), threshold=20, precision=1, linewidth=40)
    far = np.ones(40, np.float32)
    far[20] = 1e9
    record(far, threshold=10)
    record(far, threshold=100)


np.set_printoptions(legacy=False)
scalars()
notations()
shapes()
many_dimensions()
complex_numbers()
options()
options_of_others()
cuts()
