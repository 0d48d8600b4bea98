#!/usr/bin/env python3
"""Fail when src/ asks for an environment variable in a way that its meaning forbids.

usage: check_environment.py ROOT

Whoever starts a program with raised privileges chooses its environment. Variables that name a library, a file or a
folder are therefore read with secure_getenv, which finds none in such a program; getenv is for those of PLAIN, which
name none. The environment is changed only where CHANGES says: setenv races with getenv in other threads.
"""
import pathlib
import re
import sys

PLAIN = {'KILN_CPU_ISA', 'KILN_DEBUG', 'KILN_DEVICE', 'KILN_JIT', 'KILN_JIT_RECOMPILES', 'KILN_LAUNCH_BLOCKING',
         'KILN_LOG', 'KILN_MODE', 'KILN_TUNE', 'KILN_WAIT_S', 'OPENBLAS_CORETYPE', 'NO_COLOR', 'TERM', 'COLUMNS',
         'OMP_WAIT_POLICY'}
CHANGES = {'src/cpu/blas.c'}
ASKS = re.compile(r'(?<!\w)(secure_)?getenv\(\s*("?)(\w+)')
SETS = re.compile(r'(?<!\w)(setenv|unsetenv|putenv|clearenv)\(')


def main(root):
    root = pathlib.Path(root).resolve()
    bad, plain, secure, changes = [], set(), set(), set()
    for path in sorted((root / 'src').rglob('*.[ch]')):
        name, text = str(path.relative_to(root)), path.read_text()
        for number, line in enumerate(text.splitlines(), 1):
            for safe, quoted, variable in ASKS.findall(line):
                if not quoted:
                    named = re.search(rf'\b{variable}\[\] = "(\w+)"', text)
                    variable = named[1] if named else variable
                (secure if safe else plain).add(variable)
                if not safe and variable not in PLAIN:
                    bad.append(f'{name}:{number}: {variable} is not known to name no file: secure_getenv')
                if safe and variable in PLAIN:
                    bad.append(f'{name}:{number}: {variable} names no file: getenv')
            if SETS.search(line):
                changes.add(name)
                if name not in CHANGES:
                    bad.append(f'{name}:{number}: the environment belongs to the program')
    bad += [f'nothing in src/ asks for {variable}' for variable in sorted(PLAIN - plain)]
    bad += [f'{name} leaves the environment alone: strike it from CHANGES' for name in sorted(CHANGES - changes)]
    table = (root / 'src/base/environment.def').read_text()
    named, page = set(re.findall(r'^VARIABLE\((\w+)', table, re.M)), (root / 'docs/guide/environment.md').read_text()
    told = set(re.findall(r'^\| `(KILN_\w+)`', page, re.M))
    read = {name for name in plain | secure if name.startswith('KILN_')}
    for name, where in ((named, 'src/base/environment.def'), (told, 'docs/guide/environment.md')):
        bad += [f'{where} lacks {variable}' for variable in sorted(read - name)]
        bad += [f'{where}: nothing in src/ asks for {variable}' for variable in sorted(name - read)]
    if not secure:
        bad.append('src/: nothing is read with secure_getenv')
    print('\n'.join(bad) if bad else f'{len(plain)} variables are read as they are, {len(secure)} with care')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
