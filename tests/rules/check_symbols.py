#!/usr/bin/env python3
"""Fail when libkiln exports anything but its public functions, or lacks one.

usage: check_symbols.py LIBRARY GOLDEN INCLUDE_DIR HEADER... [--update]

The exported symbols must be those of GOLDEN (hand-written functions, one a line) and those that the HEADERs declare,
which the build writes from the op tables. GOLDEN must agree with the hand-written headers of INCLUDE_DIR. --update
writes GOLDEN from those headers; the difference then shows in review.
"""
import pathlib
import re
import subprocess
import sys

COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.S)
DECLARATION = re.compile(r'\bKILN_API\b[^;{]*?\b(kiln_\w+)\s*\(')


def declared(path):
    text = COMMENT.sub('', path.read_text())
    text = re.sub(r'^\s*#.*$', '', text, flags=re.M)
    return set(DECLARATION.findall(text))


def exported(library):
    out = subprocess.run(['nm', '-D', '--defined-only', library], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in out.splitlines()]
    # Type A: the name of the version itself.
    return {row[-1].split('@')[0] for row in rows if len(row) >= 3 and row[-2] != 'A'}


def main(library, golden, include, *rest):
    golden, options = pathlib.Path(golden), [word for word in rest if word.startswith('--')]
    written = [pathlib.Path(word) for word in rest if not word.startswith('--')]
    names = {path.name for path in written}
    headers = [path for path in sorted(pathlib.Path(include).glob('*.h')) if path.name not in names]
    by_hand = set().union(*(declared(path) for path in headers))
    if '--update' in options:
        golden.write_text(''.join(f'{name}\n' for name in sorted(by_hand)))
    listed = set(golden.read_text().split())
    found, from_table = exported(library), set().union(*(declared(path) for path in written))
    bad = [f'declared but not in {golden.name}: {name}' for name in sorted(by_hand - listed)]
    bad += [f'in {golden.name} but not declared: {name}' for name in sorted(listed - by_hand)]
    bad += [f'declared in two places: {name}' for name in sorted(listed & from_table)]
    bad += [f'exported but not public: {name}' for name in sorted(found - listed - from_table)]
    bad += [f'public but not exported: {name}' for name in sorted((listed | from_table) - found)]
    if not found:
        bad.append(f'{library} exports nothing')
    print('\n'.join(bad) if bad else f'{len(found)} symbols: {len(listed)} by hand, {len(from_table)} from the table')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
