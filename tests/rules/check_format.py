#!/usr/bin/env python3
"""Fail when a C or C++ file is not as clang-format leaves it. Exit with 77 where its version is not there.

usage: check_format.py ROOT

Versions differ in what they make of the same .clang-format; one is named, that of Debian 12. Tables (*.def) are left
out: their rows are laid out by hand.
"""
import pathlib
import re
import shutil
import subprocess
import sys

VERSION = 14
FOLDERS = ('src', 'include', 'tests', 'tools', 'bench', 'docs/examples')
SUFFIXES = {'.c', '.h', '.cpp'}
SKIP = 77


def find():
    """Returns the program, or None, and what was found instead."""
    found = []
    for name in (f'clang-format-{VERSION}', 'clang-format'):
        program = shutil.which(name)
        if not program:
            continue
        text = subprocess.run([program, '--version'], capture_output=True, text=True).stdout.strip()
        version = re.search(r'version (\d+)\.', text)
        if version and int(version[1]) == VERSION:
            return program, found
        found.append(text)
    return None, found


def main(root):
    root = pathlib.Path(root).resolve()
    program, found = find()
    if not program:
        print(f'needs clang-format {VERSION}; found {" and ".join(found) or "none"}')
        return SKIP
    paths = [str(path.relative_to(root)) for folder in FOLDERS for path in sorted((root / folder).rglob('*'))
             if path.suffix in SUFFIXES and path.is_file()]
    if not paths:
        print(f'{root}: no source files found')
        return 1
    result = subprocess.run([program, '--dry-run', '-Werror', *paths], cwd=root, capture_output=True, text=True)
    print(result.stderr if result.returncode else f'{len(paths)} files are as clang-format leaves them')
    return int(result.returncode != 0)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
