#!/usr/bin/env python3
"""Check the table of ONNX ops in docs/guide/onnx.md against the columns .onnx of the op tables.

usage: check_onnx.py ROOT [--write]

--write puts the table that the columns make between the lines that mark it.
"""
import pathlib
import re
import sys

PAGE = 'docs/guide/onnx.md'
BEGIN, END = '<!-- ops: begin -->\n', '<!-- ops: end -->\n'
ROW = re.compile(r'^(?:UNARY|BINARY|TERNARY|STRUCTURED)\((\w+),.*?\.onnx = "([^"]*)"', re.M)


def entries(root):
    """Yields (ONNX's name, first version, Kiln's row or '', the words behind it)."""
    for table in ('elementwise', 'structured'):
        for row, text in ROW.findall((root / f'src/ops/{table}.def').read_text()):
            for entry in text.split(', '):
                yield row, entry
    for text in re.findall(r'^ONNX\("([^"]*)"\)', (root / 'src/ops/onnx.def').read_text(), re.M):
        for entry in text.split(', '):
            yield '', entry


def how(row, words):
    if words[:1] == ['by']:
        return f'`{row}`, and others' if row else 'several rows'
    return f'`{row}`' + ''.join(f' `{w}`' for w in words)


def table(root):
    ops = {}
    for row, entry in entries(root):
        name, *words = entry.split()
        name, _, since = name.partition('@')
        ops.setdefault(name, []).append((since or '13', how(row, words)))
    lines = ['| ONNX | since | is |\n', '|---|---|---|\n']
    for name in sorted(ops):
        for since, text in ops[name]:
            lines.append(f'| {name} | {since} | {text} |\n')
    return ''.join(lines), len(ops)


def main(root, *options):
    root = pathlib.Path(root)
    page = root / PAGE
    text = page.read_text()
    want, n = table(root)
    before, _, rest = text.partition(BEGIN)
    have, end, after = rest.partition(END)
    if not end:
        print(f'{PAGE}: no lines mark the table')
        return 1
    if '--write' in options:
        page.write_text(before + BEGIN + want + END + after)
        have = want
    missing = [line for line in want.splitlines() if line not in have.splitlines()]
    stale = [line for line in have.splitlines() if line not in want.splitlines()]
    print('\n'.join([f'{PAGE} lacks: {m}' for m in missing] + [f'{PAGE} has: {s}' for s in stale]) or f'{n} ops')
    return int(have != want or n < 100)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
