#!/usr/bin/env python3
"""Fail where kiln.hpp does not compile as it should.

usage: check_compile.py TESTS INCLUDE...

Some tests of TESTS without a warning, in turn by g++ and clang++, as far as they are there, in C++17 and C++20. By
each: not without exceptions, nor in C++14, which a message says; and a program that does nothing but include kiln.hpp
within MOST_S of processor time.
"""
import pathlib
import resource
import shutil
import subprocess
import sys

SKIP = 77
MOST_S = 5.0
WARNINGS = ['-Wall', '-Wextra', '-Wconversion', '-Wsign-conversion', '-Wshadow', '-Wpedantic', '-Wnon-virtual-dtor',
            '-Werror']
NAMES = ('files', 'layers', 'trees')     # which have all headers and most templates
STANDARDS = ('-std=c++17', '-std=c++20')
EMPTY = '#include <kiln/kiln.hpp>\nint main() {}\n'
REFUSED = (('-std=c++17', '-fno-exceptions', 'kiln.hpp reports errors as exceptions'),
           ('-std=c++14', '-fexceptions', 'kiln.hpp needs C++17'))


def compile_text(compiler, include, text, *options):
    command = [compiler, *options, *[f'-I{path}' for path in include], '-fsyntax-only', '-x', 'c++', '-']
    return subprocess.run(command, input=text, capture_output=True, text=True)


def used_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def check_test(compiler, std, test, include):
    done = compile_text(compiler, [*include, test.parent], test.read_text(), std, *WARNINGS)
    return [f'{compiler} {std} {test.name}:\n{done.stderr[:4000]}'] if done.returncode else []


def check_compiler(compiler, include):
    bad = []
    for std, option, text in REFUSED:
        done = compile_text(compiler, include, EMPTY, std, option)
        if not done.returncode or text not in done.stderr:
            bad.append(f'{compiler} {std} {option}: no message "{text}"\n{done.stderr[:400]}')
    before = used_s()
    done = compile_text(compiler, include, EMPTY, '-std=c++17')
    took = used_s() - before
    print(f'{compiler}: {took:.2f} s for a program that does nothing')
    if done.returncode or took > MOST_S:
        bad.append(f'{compiler}: {took:.2f} s for a program that does nothing, {MOST_S} s are allowed\n{done.stderr}')
    return bad


def main(tests, *include):
    paths = [pathlib.Path(tests) / f'{name}.cpp' for name in NAMES]
    compilers = [name for name in ('g++', 'clang++') if shutil.which(name)]
    if not compilers:
        print('needs g++ or clang++')
        return SKIP
    bad = [complaint for compiler in compilers for complaint in check_compiler(compiler, include)]
    for i, path in enumerate(paths):
        bad += check_test(compilers[i % len(compilers)], STANDARDS[i // len(compilers) % 2], path, include)
    print('\n'.join(bad) if bad else f'{len(paths)} tests without a warning by {" and ".join(compilers)}')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
