#!/usr/bin/env python3
"""The installed library as other programs take it in.

usage: test_guest.py CASE BUILD_DIR [PROGRAM...]
"""
import ctypes
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

TLS_MAX_B = 256  # of the 1.6 KB that glibc sets aside for all libraries that are opened at run time
PT_TLS, ET_DYN = 7, 3


def check(condition, text):
    if not condition:
        sys.exit(f'failed: {text}')


def run(*command, **env):
    done = subprocess.run([str(c) for c in command], env={**os.environ, **env}, capture_output=True, text=True,
                          timeout=250)
    check(done.returncode == 0, f'{" ".join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}')
    return done


def install(build, folder):
    run('meson', 'install', '-C', build, '--no-rebuild', '--destdir', folder)
    library = next(pathlib.Path(folder).rglob('libkiln.so'))
    module = list(pathlib.Path(folder).rglob('libkiln-llvm.so'))
    return library, module[0] if module else None


def thread_storage_B(library):
    """The size of an ELF file's segment of thread storage."""
    data = library.read_bytes()
    check(data[:5] == b'\x7fELF\x02' and struct.unpack_from('<H', data, 16)[0] == ET_DYN, f'{library}: no library')
    at, = struct.unpack_from('<Q', data, 32)
    size, count = struct.unpack_from('<HH', data, 54)
    segments = [struct.unpack_from('<IIQQQQQQ', data, at + i * size) for i in range(count)]
    return sum(s[6] for s in segments if s[0] == PT_TLS)


def case_tls(build):
    """Thread storage fits what the loader has for libraries that come late."""
    with tempfile.TemporaryDirectory() as folder:
        for library in install(build, folder):
            if library:
                used = thread_storage_B(library)
                print(f'{library.name}: {used} bytes of thread storage')
                check(used <= TLS_MAX_B, f'{library.name} has {used} bytes of thread storage, {TLS_MAX_B} are allowed')


def case_plugin(build, program, *more):
    """A C program opens the library by its path, which takes its module from beside it."""
    with tempfile.TemporaryDirectory() as folder:
        library, _ = install(build, folder)
        out = run(program, library, *more, KILN_LLVM='', KILN_CACHE_DIR=folder + '/cache')
        check(out.stdout == 'good\n' and not out.stderr, out)


def case_unload(build, program):
    """It closes the library while a thread that has used it lives."""
    case_plugin(build, program, 'unload')


def case_leave(program, how, times, *device):
    """A process ends in the midst of things, again and again."""
    for i in range(int(times)):
        out = run(program, how, str(i % 10 * 7), *device)
        check(not out.stdout and not out.stderr, out)


FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t,
                            ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)


def case_ctypes(build):
    """Python opens both libraries and works with one of them."""
    with tempfile.TemporaryDirectory() as folder:
        library, module = install(build, folder)
        os.environ.update(KILN_CACHE_DIR=folder + '/cache', KILN_LLVM='')
        if module:
            ctypes.CDLL(str(module))
        k = ctypes.CDLL(str(library))
        for name in ('device_open', 'full', 'mul', 'sum', 'matmul', 'jit', 'error_message'):
            getattr(k, f'kiln_{name}').restype = ctypes.c_char_p if name == 'error_message' else ctypes.c_void_p
        k.kiln_item.restype = ctypes.c_double

        def at(pointer):
            return ctypes.c_void_p(pointer)

        def cubes(user, given, n_in, out, n_out):
            x = at(given[0])
            out[0] = k.kiln_sum(at(k.kiln_mul(at(k.kiln_mul(x, x)), x)), None)
            return 0

        dev = at(k.kiln_device_open(b'cpu'))
        check(dev, k.kiln_error_message())
        dims = (ctypes.c_int64 * 2)(300, 300)
        x = at(k.kiln_full(dev, 8, ctypes.c_size_t(2), dims, ctypes.c_double(2)))
        check(k.kiln_item(at(k.kiln_sum(at(k.kiln_matmul(x, x)), None))) == 4 * 300 ** 3, k.kiln_error_message())
        callback = FUNCTION(cubes)
        f = at(k.kiln_jit(callback, None, None))
        for _ in range(2):
            out = ctypes.c_void_p()
            check(k.kiln_call(f, ctypes.byref(x), ctypes.c_size_t(1), ctypes.byref(out), ctypes.c_size_t(1)) == 0,
                  k.kiln_error_message())
            check(k.kiln_item(out) == 8 * 300 ** 2, 'a captured function')
        k.kiln_function_free(ctypes.byref(f))
        k.kiln_device_close(ctypes.byref(dev))


if __name__ == '__main__':
    globals()[f'case_{sys.argv[1]}'](*sys.argv[2:])
