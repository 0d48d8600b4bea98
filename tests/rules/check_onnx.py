#!/usr/bin/env python3
"""Check the tables of docs/guide/onnx.md: that of ONNX ops against the columns .onnx of the op tables, that of ops that
are not written against tests/onnx/unwritten.def.

usage: check_onnx.py ROOT [--write]

--write puts the tables that are right between the lines that mark them.
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


def unwritten(root):
    lines = []
    for line in (root / 'tests/onnx/unwritten.def').read_text().splitlines():
        row = re.match(r'UNWRITTEN\((\w+), "([^"]*)", "([^"]*)"\)', line)
        if row:
            op, dtypes, why = row.groups()
            lines.append((why, f'`{op}`' + ('' if dtypes == 'all' else f' of {dtypes}')))
    reasons = dict.fromkeys(why for why, _ in lines)
    text = ''.join(f'- {why}: {", ".join(op for w, op in lines if w == why)}\n' for why in reasons)
    return text, len(lines)


def check(page, begin, end, want, write):
    """The page's text, with what is wrong about the part between two marks."""
    text = page.read_text()
    before, _, rest = text.partition(begin)
    have, found, after = rest.partition(end)
    if not found:
        return [f'{PAGE}: no lines mark the part {begin.strip()}']
    if write:
        page.write_text(before + begin + want + end + after)
        return []
    missing = [line for line in want.splitlines() if line not in have.splitlines()]
    stale = [line for line in have.splitlines() if line not in want.splitlines()]
    wrong = [f'{PAGE} lacks: {m}' for m in missing] + [f'{PAGE} has: {s}' for s in stale]
    return wrong or ([] if have == want else [f'{PAGE}: lines stand in another order'])


def main(root, *options):
    root = pathlib.Path(root)
    page, write = root / PAGE, '--write' in options
    ops, n = table(root)
    left, n_left = unwritten(root)
    wrong = check(page, BEGIN, END, ops, write)
    wrong += check(page, BEGIN.replace('ops', 'unwritten'), END.replace('ops', 'unwritten'), left, write)
    print('\n'.join(wrong) or f'{n} ops, {n_left} not written')
    return int(bool(wrong) or n < 100 or n_left < 10)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
