#!/usr/bin/env python3
"""Fail where the headers of C have something that is made, a layer, an optimiser, an archive, which those of C++ do not
make.

usage: check_cover.py ROOT BUILD-INCLUDE COMPILER...

kiln.hpp is preprocessed, so that what its macros put together counts. A function that makes an object of one of the
types of MADE, or is a loss, has to be called by a header of C++, or to stand in APART with the reason.
"""
import pathlib
import re
import subprocess
import sys

MADE = {'kiln_cell', 'kiln_optim', 'kiln_schedule', 'kiln_average', 'kiln_archive', 'kiln_checkpoint', 'kiln_bundle',
        'kiln_generator', 'kiln_loader', 'kiln_model', 'kiln_table', 'kiln_vocabulary', 'kiln_training', 'kiln_metric',
        'kiln_graph'}
PATTERNS = ('kiln_loss_',)
APART = {
    'kiln_bundle_keep': 'bundles of C++ are in no scope',
    'kiln_optim_schedule': 'it lends what the optimiser owns',
    'kiln_nn_lambda': 'nn::lambda is made by kiln_cell_create, so that the cell owns its function',
}
FUNCTION = re.compile(r'\bKILN_API\s+([^;{}()]*?)\b(kiln_\w+)\s*\(')


def functions_of_c(root):
    """Yields (header, type of the result, name)."""
    for header in sorted((root / 'include/kiln').glob('*.h')):
        text = re.sub(r'//[^\n]*', '', header.read_text())
        text = re.sub(r'^\s*#(?:[^\n]*\\\n)*[^\n]*$', '', text, flags=re.M)
        for kind, name in FUNCTION.findall(text):
            yield header.name, kind.strip(), name


def called_by_cxx(root, include, compiler):
    """The names in the text of the headers of C++, macros expanded."""
    command = [*compiler, '-std=c++17', '-E', '-DKILN_NO_FRAMES', f'-I{root}/include', f'-I{include}',
               str(root / 'include/kiln/kiln.hpp')]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names, is_cxx = set(), False
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            is_cxx = marker[1].endswith('.hpp')
        elif is_cxx:
            names.update(re.findall(r'\bkiln_\w+', line))
    return names


def must_be(kind, name):
    words = kind.rstrip('*').split()
    return (kind.endswith('*') and words and words[-1] in MADE) or name.startswith(PATTERNS)


def main(root, include, *compiler):
    root = pathlib.Path(root).resolve()
    called, bad, count = called_by_cxx(root, include, compiler), [], 0
    names = set()
    for header, kind, name in functions_of_c(root):
        names.add(name)
        if not must_be(kind, name):
            continue
        count += 1
        if name not in called and name not in APART:
            bad.append(f'{header}: {name} has no form in include/kiln/*.hpp')
    bad += [f'APART names {name}, which is {"called" if name in called else "not there"}' for name in APART
            if name in called or name not in names]
    print('\n'.join(bad) if bad else f'{count} functions of C have their form in C++')
    return bool(bad) or count < 80


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
