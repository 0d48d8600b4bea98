#!/usr/bin/env python3
"""Compile the calls that stand in the tables of the guide beside those of other frameworks.

usage: check_tables.py ROOT BUILD-INCLUDE COMPILER...

In docs/guide/from-*.md each piece of code in the second column that has parentheses is a statement of a function in C,
with table_frame.h around it: it must compile without a warning, and each row has such a piece or a sentence. Code
without parentheses is a name, which check_guide.py looks up.
"""
import pathlib
import re
import subprocess
import sys

PAGES = ('docs/guide/from-pytorch.md', 'docs/guide/from-jax.md')
FRAME = pathlib.Path(__file__).resolve().parent


def calls_of(page):
    """Yields (line, code) of the second columns."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if not line.startswith('| ') or set(line) <= set('|- '):
            continue
        cells = [cell.strip() for cell in re.split(r'(?<!\\)\|', line)[1:-1]]
        for code in re.findall(r'`([^`]+)`', cells[1]):
            if '(' in code and not re.match(r'kiln_status \w+\(void', code):
                yield number, code


def source(page):
    lines = ['#include "table_frame.h"', 'void table(void);', 'void table(void)', '{']
    for number, code in calls_of(page):
        lines += [f'#line {number} "{page.name}"', f'    (void)({code});']
    return '\n'.join([*lines, '}']) + '\n'


def main(root, build_include, *compiler):
    root, bad, count = pathlib.Path(root).resolve(), [], 0
    for name in PAGES:
        page = root / name
        found = list(calls_of(page))
        count += len(found)
        folders = [f'-I{folder}' for folder in (FRAME, root / 'include', build_include)]
        command = [*compiler, '-std=c17', '-fsyntax-only', '-Wall', '-Wextra', '-Werror', '-Wno-unused-value', *folders,
                   '-x', 'c', '-']
        result = subprocess.run(command, input=source(page), capture_output=True, text=True)
        if result.returncode or not found:
            bad.append(f'{name}: {result.stderr or "no calls found"}')
    print('\n'.join(bad) or f'{count} calls in {len(PAGES)} pages')
    return int(bool(bad))


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
