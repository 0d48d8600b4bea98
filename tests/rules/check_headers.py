#!/usr/bin/env python3
"""Fail when a header of src/ does not stand by itself, when headers of all layers cannot be included together, or when
a struct of a header shares its name with one of another file.

usage: check_headers.py ROOT BUILD_ROOT COMPILER...

The headers of src/llvm take part where the compiler finds those of LLVM. Left out are templates, which are included
several times with other macros around them.
"""
import collections
import pathlib
import re
import subprocess
import sys

# Written for one instruction set at a time; compiled by the generator's own macros.
APART = ('src/cpu/kernels/', 'src/codegen/gen/')


def compile_text(text, root, build, compiler):
    parts = [f'-DKILN_WITH_{part}=1' for part in ('VULKAN', 'GLSLANG', 'LLVM', 'OPENBLAS')]
    folders = [f'-I{folder}' for folder in (root / 'src', root / 'include', build / 'src', build / 'include')]
    command = [*compiler, '-std=c17', '-fsyntax-only', '-Werror', '-D_GNU_SOURCE', '-DKILN_ISA_LIST=', *parts, *folders,
               '-x', 'c', '-']
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    return result.returncode, result.stderr


def shared_names(root):
    """Complaints; structs of single files may be called alike."""
    places = collections.defaultdict(set)
    for path in sorted((root / 'src').rglob('*.[ch]')):
        for name in re.findall(r'^(?:static )?struct (\w+) \{', path.read_text(), re.M):
            places[name].add(str(path.relative_to(root)))
    return [f'struct {name} is defined in {", ".join(sorted(files))}' for name, files in sorted(places.items())
            if len(files) > 1 and any(f.endswith('.h') for f in files)]


def main(root, build, *compiler):
    root, build = pathlib.Path(root).resolve(), pathlib.Path(build).resolve()
    headers = [str(p.relative_to(root / 'src')) for p in sorted((root / 'src').rglob('*.h'))]
    headers = [h for h in headers if not f'src/{h}'.startswith(APART)]
    if compile_text('#include <llvm-c/Core.h>\n', root, build, compiler)[0]:
        headers = [h for h in headers if not h.startswith('llvm/')]
    bad = shared_names(root)
    for header in headers:
        code, errors = compile_text(f'#include "{header}"\n', root, build, compiler)
        if code:
            bad.append(f'src/{header} does not stand by itself:\n{errors}')
    code, errors = compile_text(''.join(f'#include "{h}"\n' for h in headers), root, build, compiler)
    if code:
        bad.append(f'the headers of all layers cannot be included together:\n{errors}')
    print('\n'.join(bad) if bad else f'{len(headers)} headers, alone and together')
    return bool(bad) or not headers


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
