#!/usr/bin/env python3
"""Fail where an example of the guide lacks its form in C++, or that prints something else.

usage: check_guide.py GUIDE PROGRAM

PROGRAM prints what each example of tests/cxx/guide prints, behind a line `@@ page | heading | number`. All pages are
gone through: each ```c example, those that are quoted `from` a file too, has its form, by the heading that it stands
below and its number there, or stands in APART with the reason. It prints what the ```text block behind the example
says, nothing where there is none. Places of lines are not compared.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Examples that C++ has no use for.
APART = {
    ('errors', 'Errors are sticky', 2): 'options of a wrong size, which kiln.hpp sets',
}


def plain(text):
    """Without places of lines, trailing white space, and what messages call a file."""
    text = re.sub(r' ?\(?\b(?:the function )?(?:at )?[\w.-]+\.c(?:pp)?:\d+\)?', ' LINE', text)
    return '\n'.join(line.rstrip() for line in text.strip('\n').splitlines())


def examples_of(path):
    """{(page, heading, number): text}, in order."""
    found, heading, number, info, lines, is_example = {}, '', 0, None, [], False
    for line in path.read_text().splitlines():
        if line.lstrip().startswith('```'):
            if info is None:
                info, lines = line.strip()[3:].strip(), []
                continue
            if is_example and info == 'text':
                found[path.stem, heading, number] = '\n'.join(lines)
            is_example = info.split()[:1] == ['c']
            if is_example:
                number += 1
                found[path.stem, heading, number] = ''
            info = None
        elif info is not None:
            lines.append(line.removeprefix('    ') if line.startswith('    ') and not lines else line)
        elif line.startswith('## ') or line.startswith('### '):
            heading, number, is_example = line.lstrip('# '), 0, False
    return found


def printed_by(program):
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, 'KILN_DEVICE': 'cpu', 'KILN_LOG': '0'}
        done = subprocess.run([program], cwd=folder, env=env, capture_output=True, text=True, timeout=250)
    found = {}
    for part in re.split(r'^@@ ', done.stdout, flags=re.M)[1:]:
        head, _, text = part.partition('\n')
        page, heading, number = head.split(' | ')
        key = page, heading, int(number)
        found[key] = text if key not in found else f'two forms: {found[key]}{text}'
    return found, done


def main(guide, program):
    printed, done = printed_by(str(pathlib.Path(program).resolve()))
    bad = [f'exit status {done.returncode}\n{done.stderr}'] if done.returncode else []
    count, known = collections.Counter(), set()
    for path in sorted(pathlib.Path(guide).glob('*.md')):
        for key, text in examples_of(path).items():
            known.add(key)
            place = f'{path.name}, "{key[1]}", example {key[2]}'
            if key in APART:
                continue
            if key not in printed:
                bad.append(f'{place}: it has no form in tests/cxx/guide')
            elif plain(printed[key]) != plain(text):
                bad.append(f'{place}: C++ printed\n{printed[key]}')
            count[path.name] += 1
    bad += [f'the guide has no such example: {key}' for key in [*printed, *APART] if key not in known]
    bad += [f'APART names an example that has its form: {key}' for key in APART if key in printed]
    print('\n'.join(bad) if bad else f'{sum(count.values())} examples of {len(count)} pages')
    return bool(bad) or not count


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
