#!/usr/bin/env python3
"""The checks of the code base find what they are there for: each is run on a small tree that breaks its rule.

usage: test_checks.py
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
HERE = pathlib.Path(__file__).resolve().parent
LAYERS = """base:
fuse: base
tensor: base
program: base
grad: base tensor
jit/capture: base tensor program
jit: base tensor grad program jit/capture
jit/call.c: base tensor grad program jit jit/capture
"""
FILES = {
    'src/base/base.h': '#pragma once\n',
    'src/base/a.c': '#include "base/base.h"\nint base_a(void)\n{\n    return 1;\n}\n',
    'src/base/caller.c': 'const char *const layers[] = {"base", "fuse", "grad", "jit", "program", "tensor"};\n',
    'src/fuse/a.c': 'int base_a(void);\nint fuse_a(void)\n{\n    return base_a();\n}\n',
    'src/tensor/tensor.h': '#pragma once\n',
    'src/grad/tape.h': '#pragma once\nint grad_tape(void);\n',
    'src/grad/tape.c': '#include "grad/tape.h"\nint grad_tape(void)\n{\n    return 2;\n}\n',
    'src/program/run.c': 'int base_a(void);\nint program_run(void)\n{\n    return base_a();\n}\n',
    'src/jit/function.h': '#pragma once\nint jit_function(void);\n',
    'src/jit/function.c': '#include "jit/function.h"\nint jit_function(void)\n{\n    return 3;\n}\n',
    'src/jit/capture/record.c': '#include "base/base.h"\nint capture_record(void)\n{\n    return 4;\n}\n',
    'src/jit/call.c': '#include "jit/function.h"\nint jit_call(void)\n{\n    return jit_function();\n}\n',
}
FILES = {name: f'// What {name} is for.\n{text}' for name, text in FILES.items()}


def make(root, changes):
    shutil.copy(HERE.parents[1] / '.clang-format', root)
    (root / 'docs').mkdir()
    (root / 'docs/layers.txt').write_text(LAYERS)
    (root / 'include/kiln').mkdir(parents=True)
    for name, text in {**FILES, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def compile_all(root):
    folder = root / 'objects'
    folder.mkdir()
    for path in sorted((root / 'src').rglob('*.c')):
        name = str(path.relative_to(root)).replace('/', '_') + '.o'
        subprocess.run(['cc', '-c', '-I', str(root / 'src'), str(path), '-o', str(folder / name)], check=True)
    return folder


def run(script, *args):
    result = subprocess.run([sys.executable, str(HERE / script), *map(str, args)], capture_output=True, text=True)
    return result.returncode, result.stdout


def check(what, changes, script, wanted):
    """`wanted`: a piece of the complaint, or None where the tree keeps the rule."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        make(root, changes)
        args = [root, compile_all(root)] if script == 'check_calls.py' else [root]
        code, text = run(script, *args)
    if code == SKIP:
        print(f'left out: {what}: {text.strip()}')
        return True
    good = code == 0 if wanted is None else code != 0 and wanted in text
    print(f'{"ok" if good else "NOT OK"}: {what}' + ('' if good else f'\n{text}'))
    return good


def main():
    up = '#include "grad/tape.h"\nint program_run(void)\n{\n    return grad_tape();\n}\n'
    declared = 'int grad_tape(void);\nint program_run(void)\n{\n    return grad_tape();\n}\n'
    into_call = '#include "base/base.h"\nint jit_call(void);\nint jit_function(void)\n{\n    return jit_call();\n}\n'
    capture_up = '#include "jit/function.h"\nint capture_record(void)\n{\n    return jit_function();\n}\n'
    indented = '#include "base/base.h"\nint base_a(void)\n{\n  return 1;\n}\n'

    def circle(layer):
        return {f'src/{layer}/a.c': 'int pb(void);\nint pa(void)\n{\n    return pb();\n}\n',
                f'src/{layer}/b.c': 'int pa(void);\nint pb(void)\n{\n    return pa();\n}\n'}

    results = [
        check('a tree that keeps to its layers', {}, 'check_layers.py', None),
        check('program includes grad', {'src/program/run.c': up}, 'check_layers.py', 'program must not include grad'),
        check('a folder inside a layer includes the layer', {'src/jit/capture/record.c': capture_up}, 'check_layers.py',
              'jit/capture must not include jit '),
        check('calls that keep to their layers', {}, 'check_calls.py', None),
        check('program declares and calls what grad has', {'src/program/run.c': declared}, 'check_calls.py',
              'program must not call grad (grad_tape'),
        check('a layer calls the file above it', {'src/jit/function.c': into_call}, 'check_calls.py',
              'jit must not call jit/call.c'),
        check('two files that call each other', circle('program'), 'check_calls.py',
              'src/program/a.c src/program/b.c'),
        check('two files of fuse that call each other', circle('fuse'), 'check_calls.py', 'src/fuse/a.c src/fuse/b.c'),
        check('files that say what they are for', {}, 'check_size.py', None),
        check('a file that begins with an include', {'src/base/a.c': indented}, 'check_size.py',
              'src/base/a.c: begins'),
        check('a tree as clang-format leaves it', {}, 'check_format.py', None),
        check('a file with a body of two spaces', {'src/base/a.c': indented}, 'check_format.py', 'src/base/a.c:3:'),
    ]
    passed = sum(results)
    print(f'{passed} passed, {len(results) - passed} failed')
    return passed != len(results)


if __name__ == '__main__':
    sys.exit(main())
