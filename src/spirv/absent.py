#!/usr/bin/env python3
"""Write C that stands for the parts of glslang that nothing here calls, so that the linker leaves them out: its way to
the optimiser of SPIRV-Tools, which would bring all of that, and the parser of HLSL. They are a fifth of the library.

usage: absent.py OUTPUT COMPILER...

What these parts define is defined here, weakly, as a function that ends the process; the archives' own are not looked
for then. Where the archives or nm are not found, or have other members, nothing is left out.
"""
import pathlib
import re
import subprocess
import sys

PARTS = {'SPIRV': re.compile(r'SpvTools'), 'MachineIndependent': re.compile(r'hlsl(ParseHelper|Parseables|Grammar)')}


def functions(archive, member):
    """The functions that members of the archive define."""
    done = subprocess.run(['nm', '-A', '--defined-only', archive], capture_output=True, text=True)
    rows = (line.split() for line in done.stdout.splitlines())
    return {row[-1] for row in rows if len(row) == 3 and row[1] == 'T' and member.search(row[0].split(':')[-2])}


def main(output, *compiler):
    names = set()
    for library, member in PARTS.items():
        path = subprocess.run([*compiler, f'-print-file-name=lib{library}.a'], capture_output=True, text=True)
        names |= functions(path.stdout.strip(), member)
    text = '// Written by absent.py.\n#include <stdlib.h>\n\n'
    text += '__attribute__((used)) static void kiln_absent(void)\n{\n    abort();\n}\n\n'
    for name in sorted(names):
        text += f'__asm__(".weak {name}\\n.hidden {name}\\n.set {name}, kiln_absent\\n");\n'
    pathlib.Path(output).write_text(text)


if __name__ == '__main__':
    main(*sys.argv[1:])
