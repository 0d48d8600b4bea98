#!/usr/bin/env python3
"""Fail when a file, a function or a line outgrows its cap, a function's brace is not on a line of its own, or a file
does not begin by saying what it is for.

usage: check_size.py ROOT

A function is what lies between a '{' and the next '}', both alone in column 0. Tables (*.def), results and the
scripts of peers are exempt.
"""
import pathlib
import re
import sys

FOLDERS = ('src', 'shaders', 'include', 'tests', 'tools', 'bench', 'docs/examples', 'docs/site')
FILE_CAP = {'.c': 1000, '.h': 500, '.cpp': 1000, '.comp': 1000, '.glsl': 1000, '.py': 1000, '.sh': 500, '.S': 1000}
C_LIKE = {'.c', '.h', '.cpp'}
FUNCTION_CAP = 100
COLUMNS = 120
BRACE_AT_END = re.compile(r'^[A-Za-z_].*\)\s*\{$')
# After the line that names an interpreter, or the version of GLSL, which must come first.
HEAD = re.compile(r'(#!.*\n|#version .*\n)?(///? |/\*\*? |# |""")[@\w]')
CONTROL = re.compile(r'^(extern|namespace|struct|union|enum|typedef|#)')


def functions(lines):
    """Yields (line number of the brace, number of lines between the braces)."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == '{':
            start = number
        elif line == '}' and start is not None:
            yield start, number - start - 1
            start = None


def check(path, name):
    text = path.read_text(errors='replace')
    lines = text.splitlines()
    bad = []
    if not HEAD.match(text):
        bad.append(f'{name}: begins with no comment that says what it is for')
    if len(lines) > FILE_CAP[path.suffix]:
        bad.append(f'{name}: {len(lines)} lines, {FILE_CAP[path.suffix]} are allowed')
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            bad.append(f'{name}:{number}: {len(line)} columns, {COLUMNS} are allowed')
        if path.suffix in C_LIKE and BRACE_AT_END.match(line) and not CONTROL.match(line):
            bad.append(f'{name}:{number}: the brace of a function stands on a line of its own')
    if path.suffix in C_LIKE:
        bad += [f'{name}:{start}: a function of {length} lines, {FUNCTION_CAP} are allowed'
                for start, length in functions(lines) if length > FUNCTION_CAP]
    return bad


def main(root):
    root = pathlib.Path(root).resolve()
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob('*'))
             if path.suffix in FILE_CAP and path.is_file() and not {'results', 'peers'} & set(path.parts)]
    bad = [complaint for path in paths for complaint in check(path, path.relative_to(root))]
    if not paths:
        bad.append(f'{root}: no source files found')
    print('\n'.join(bad) if bad else f'{len(paths)} files are within their caps')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
