#!/usr/bin/env python3
"""DLPack with the arrays of NumPy, PyTorch and JAX, through ctypes, both ways: the same memory, strides of views, dtypes,
and every deleter called once, whoever lets go first. Peers that Python does not find are passed over; without any the
test is skipped. usage: dlpack_peers.py LIBRARY
"""
import ctypes
import gc
import importlib
import sys
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint64, c_void_p

lib, python = ctypes.CDLL(sys.argv[1]), ctypes.pythonapi


class Tensor(Structure):
    _fields_ = [('data', c_void_p), ('device_type', c_int32), ('device_id', c_int32), ('ndim', c_int32),
                ('code', c_uint8), ('bits', c_uint8), ('lanes', c_uint16), ('shape', POINTER(c_int64)),
                ('strides', POINTER(c_int64)), ('byte_offset', c_uint64)]


class Managed(Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, POINTER(Managed))
Managed._fields_ = [('tensor', Tensor), ('context', c_void_p), ('deleter', c_void_p)]

for name, result, *args in (
        ('kiln_device_open', c_void_p, c_char_p), ('kiln_from_dlpack', c_void_p, c_void_p, c_void_p),
        ('kiln_to_dlpack', c_void_p, c_void_p), ('kiln_free', None, POINTER(c_void_p)),
        ('kiln_own', c_void_p, c_void_p), ('kiln_add', c_void_p, c_void_p, c_void_p),
        ('kiln_read', c_int, c_void_p, c_void_p, c_size_t), ('kiln_rank', c_size_t, c_void_p),
        ('kiln_dims', POINTER(c_int64), c_void_p), ('kiln_strides', POINTER(c_int64), c_void_p),
        ('kiln_error', c_int), ('kiln_error_message', c_char_p), ('kiln_error_clear', None),
        ('kiln_transpose', c_void_p, c_void_p, c_int64, c_int64),
        ('kiln_from_data', c_void_p, c_void_p, c_int, c_size_t, POINTER(c_int64), c_void_p),
        ('kiln_device_close', None, POINTER(c_void_p))):
    getattr(lib, name).restype, getattr(lib, name).argtypes = result, args
for name, result, *args in (
        ('PyCapsule_GetPointer', c_void_p, ctypes.py_object, c_char_p),
        ('PyCapsule_SetName', c_int, ctypes.py_object, c_char_p),
        ('PyCapsule_New', ctypes.py_object, c_void_p, c_char_p, c_void_p)):
    getattr(python, name).restype, getattr(python, name).argtypes = result, args
OURS, USED = ctypes.create_string_buffer(b'dltensor'), ctypes.create_string_buffer(b'used_dltensor')
F32 = 8
counted = []  # callbacks stay alive


def count_deleter(address):
    """Puts a deleter in front of the one that is there; the list gets longer at each call."""
    managed, calls = ctypes.cast(address, POINTER(Managed)).contents, []
    behind = DELETER(managed.deleter)

    def deleter(which):
        calls.append(1)
        behind(which)

    counted.append((DELETER(deleter), behind))
    managed.deleter = ctypes.cast(counted[-1][0], c_void_p).value
    return calls


def check(value):
    assert not lib.kiln_error(), lib.kiln_error_message().decode()
    return value


def free(*handles):
    for handle in handles:
        lib.kiln_free(ctypes.byref(c_void_p(handle)))


def taken(dev, array):
    """The array as a tensor, and the calls of its deleter."""
    capsule = array.__dlpack__()
    address = python.PyCapsule_GetPointer(capsule, OURS)
    calls = count_deleter(address)
    tensor = check(lib.kiln_from_dlpack(dev, address))
    python.PyCapsule_SetName(capsule, USED)
    return tensor, calls


def numbers(tensor, kind=ctypes.c_float):
    n = 1
    for i in range(lib.kiln_rank(tensor)):
        n *= lib.kiln_dims(tensor)[i]
    out = (kind * n)()
    lib.kiln_read(tensor, out, ctypes.sizeof(out))
    check(None)
    return list(out)


class Given:
    """A tensor, as peers ask for it."""
    def __init__(self, tensor):
        self.address = check(lib.kiln_to_dlpack(tensor))
        self.calls = count_deleter(self.address)
        self.data = ctypes.cast(self.address, POINTER(Managed)).contents.tensor.data

    def __dlpack__(self, **_):
        return python.PyCapsule_New(self.address, OURS, None)

    def __dlpack_device__(self):
        return 1, 0


def address_of(array):
    get = getattr(array, 'data_ptr', None) or getattr(array, 'unsafe_buffer_pointer', None)
    return get() if get else array.ctypes.data


def theirs(dev, peer):
    """Their arrays as tensors."""
    for array, strides in peer['views']:
        want = [float(v) for v in peer['numpy'](array).reshape(-1)]
        tensor, calls = taken(dev, array)
        assert numbers(tensor) == want and [lib.kiln_dims(tensor)[i] for i in range(len(array.shape))] == list(array.shape)
        given = Given(tensor)
        assert given.data == address_of(array), 'a copy was made'
        assert [lib.kiln_strides(tensor)[i] for i in range(len(strides))] == strides
        DELETER(ctypes.cast(given.address, POINTER(Managed)).contents.deleter)(ctypes.cast(given.address, POINTER(Managed)))
        assert given.calls == [1] and calls == []
        del array  # the list of views still has it
        twice = check(lib.kiln_add(tensor, tensor))
        assert numbers(twice) == [2 * v for v in want]
        free(twice, tensor)
        assert calls == [1], calls
    lone, calls = taken(dev, peer['make']())
    gc.collect()
    assert numbers(lone) == [0, 1, 2, 3, 4, 5] and calls == []
    free(lone)
    assert calls == [1]
    for make, kind in peer['dtypes']:
        tensor, calls = taken(dev, make)
        assert numbers(tensor, kind) == [1, 0, 1], kind
        free(tensor)
        assert calls == [1]


def ours(dev, peer):
    """Our tensors as their arrays."""
    data, dims = (ctypes.c_float * 6)(*range(6)), (c_int64 * 2)(2, 3)
    tensor = lib.kiln_own(check(lib.kiln_from_data(dev, F32, 2, dims, data)))
    turned = lib.kiln_own(check(lib.kiln_transpose(tensor, 0, 1)))
    for which, want in ((tensor, [[0, 1, 2], [3, 4, 5]]), (turned, [[0, 3], [1, 4], [2, 5]])):
        given = Given(which)
        array = peer['take'](given)
        assert peer['numpy'](array).tolist() == want
        if peer['shares']:
            assert address_of(array) == given.data and given.calls == []
        del array
        gc.collect()
        assert given.calls == [1], given.calls
    # The array outlives the tensor.
    given = Given(turned)
    array = peer['take'](given)
    free(tensor, turned)
    assert peer['numpy'](array).tolist() == [[0, 3], [1, 4], [2, 5]]
    del array
    gc.collect()
    assert given.calls == [1]


def numpy_peer(np):
    grid = np.arange(24, dtype='f4').reshape(4, 6)
    return {'numpy': np.asarray, 'take': np.from_dlpack, 'shares': True, 'make': lambda: np.arange(6, dtype='f4'),
            'views': [(grid, [6, 1]), (grid.T, [1, 6]), (grid[::2, 1:5:2], [12, 2]), (grid[1:, 2:], [6, 1])],
            'dtypes': [(np.array([1, 0, 1], d), k) for d, k in
                       (('?', ctypes.c_bool), ('i1', ctypes.c_int8), ('i8', c_int64), ('f8', ctypes.c_double),
                        ('u2', c_uint16))]}


def torch_peer(torch):
    grid = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    return {'numpy': lambda t: t.numpy(), 'take': torch.from_dlpack, 'shares': True,
            'make': lambda: torch.arange(6, dtype=torch.float32),
            'views': [(grid, [6, 1]), (grid.t(), [1, 6]), (grid[::2, 1:5:2], [12, 2]), (grid[1:, 2:], [6, 1])],
            'dtypes': [(torch.tensor([1, 0, 1], dtype=d), k) for d, k in
                       ((torch.bool, ctypes.c_bool), (torch.int32, c_int), (torch.uint8, c_uint8),
                        (torch.float64, ctypes.c_double))]}


def jax_peer(jax):
    import numpy as np
    grid = jax.numpy.arange(24, dtype='float32').reshape(4, 6)
    # JAX copies what does not lie as it wants.
    return {'numpy': np.asarray, 'take': jax.dlpack.from_dlpack, 'shares': False,
            'make': lambda: jax.numpy.arange(6, dtype='float32'), 'views': [(grid, [6, 1])],
            'dtypes': [(jax.numpy.array([1, 0, 1], d), k) for d, k in
                       (('int32', c_int), ('int8', ctypes.c_int8), ('uint8', c_uint8))]}


def main():
    dev, found = check(lib.kiln_device_open(b'cpu')), []
    for name, make in (('numpy', numpy_peer), ('torch', torch_peer), ('jax', jax_peer)):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if name == 'jax':
            importlib.import_module('jax.dlpack')
        peer = make(module)
        theirs(dev, peer)
        ours(dev, peer)
        found.append(f'{name} {module.__version__}')
    lib.kiln_device_close(ctypes.byref(c_void_p(dev)))
    check(None)
    print('arrays of', ', '.join(found) if found else 'none: skipped')
    return 0 if found else 77


if __name__ == '__main__':
    sys.exit(main())
