#!/usr/bin/env python3
"""Fail when what is no operand compiles as one, or what is one does not, in any standard of C that there is.

usage: number_types.py ROOT BUILD_ROOT COMPILER...
"""
import pathlib
import subprocess
import sys

HEAD = '''#include <kiln/kiln.h>
struct pair { int a, b; };
void *use(kiln_tensor *x, const char *text, struct pair pair, double number);
void *use(kiln_tensor *x, const char *text, struct pair pair, double number)
{
    (void)text, (void)pair, (void)number;
    return %s;
}
'''
GOOD = ['kiln_mul(x, 3)', 'kiln_sub(kiln_mul(x, 3), 1)', 'kiln_sub(1, x)', 'kiln_where(x, x, 0)',
        'kiln_clip(x, 0, 1.0f)',
        'kiln_add(number, x)', 'kiln_add(x, NULL)', 'kiln_isclose(x, 1, 1e-3, 0)', 'kiln_mul(x, (bool)1)',
        'kiln_mul(x, x)', '(void *)(kiln_mul_(x, 2) ? x : x)', '(void *)(kiln_lerp_(x, x, 0.5) ? x : x)',
        'kiln_add(kiln_add(kiln_add(kiln_add(kiln_add(kiln_add(kiln_add(kiln_add(x, 1), 2), 3), 4), 5), 6), 7), 8)']
BAD = ['kiln_mul(x, text)', 'kiln_mul(x, "3")', 'kiln_mul(pair, x)', 'kiln_mul(x, &x)', 'kiln_where(x, text, 0)',
       'kiln_clip(x, 0, pair)', 'kiln_mul(x)', 'kiln_mul(x, 1, 2)', 'kiln_mul(x, &number)',
       '(void *)(kiln_mul_(2, x) ? x : x)', '(void *)(kiln_mul_(x, text) ? x : x)']


def compiles(expression, standard, folders, compiler):
    command = [*compiler, f'-std={standard}', '-fsyntax-only', '-Wall', '-Wextra', '-Wshadow', '-pedantic', '-Werror',
               *folders, '-x', 'c', '-']
    return subprocess.run(command, input=HEAD % expression, capture_output=True, text=True)


def main(root, build, *compiler):
    folders = [f'-I{pathlib.Path(folder) / "include"}' for folder in (root, build)]
    bad = []
    for standard in ('c11', 'gnu11', 'c17', 'c2x'):
        for expression in GOOD:
            done = compiles(expression, standard, folders, compiler)
            if done.returncode:
                bad.append(f'{standard}: {expression} does not compile:\n{done.stderr}')
        for expression in BAD:
            if not compiles(expression, standard, folders, compiler).returncode:
                bad.append(f'{standard}: {expression} compiles')
    print('\n'.join(bad) if bad else f'{len(GOOD)} expressions compile, {len(BAD)} do not')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
