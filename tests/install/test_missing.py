#!/usr/bin/env python3
"""Configures the project on a machine that lacks things: each is named with its package and its switch, and with these
switches the project configures.

usage: test_missing.py SOURCE_DIR COMPILER...
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

PACKAGES = {'zlib': 'zlib1g-dev', 'openmp': ('gcc', 'libomp-dev'), 'vulkan 1.3.239': 'libvulkan-dev',
            'openblas': 'libopenblas-dev', 'libpng 1.6': 'libpng-dev', 'libjpeg': 'libjpeg62-turbo-dev',
            'glslang': 'glslang-dev', 'glslang-default-resource-limits': 'glslang-dev', 'SPIRV-Tools': 'spirv-tools',
            'LLVM 14': 'llvm-dev', 'cmocka': 'libcmocka-dev'}
NEEDED = ('zlib', 'openmp')  # in any case
LINE = re.compile(r'^  (.*): package (\S+?)(?:, or without it (-D\S+))?$', re.M)

# Stands for the compiler of a machine without these libraries and headers: looks for no archive, finds none.
COMPILER = '''\
#!/bin/sh
for word; do
    case $word in
    --print-search-dirs) echo 'libraries: =/nowhere'; exit ;;
    -fopenmp) case '{hidden}' in *openmp*) exit 1 ;; esac ;;
    -l*) case '{hidden}' in *"|${{word#-l}}|"*) exit 1 ;; esac ;;
    *.c) if grep -qE '<({headers})\\.h' "$word" 2>/dev/null; then exit 1; fi ;;
    esac
done
exec {compiler} "$@"
'''


def check(condition, text):
    if not condition:
        sys.exit(f'failed: {text}')


class Machine:
    """A folder with a compiler, programs and files of pkg-config; what `hidden` names is not there."""

    def __init__(self, folder, compiler, hidden):
        self.folder = pathlib.Path(folder)
        self.bin, self.pc = self.folder / 'bin', self.folder / 'pc'
        self.bin.mkdir(parents=True)
        self.pc.mkdir()
        for program in ('pkg-config', 'ninja', 'sh', 'as', 'ld', 'ar', 'env', 'grep'):
            if shutil.which(program):
                (self.bin / program).symlink_to(shutil.which(program))
        (self.bin / 'python3').write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        (self.bin / 'cc').write_text(COMPILER.format(
            hidden=f'|{"|".join(hidden)}|', headers='|'.join(hidden), compiler=shlex.join(compiler)))
        for program in ('python3', 'cc'):
            (self.bin / program).chmod(0o755)
        for folder in subprocess.run(['pkg-config', '--variable', 'pc_path', 'pkg-config'], capture_output=True,
                                     text=True, check=True).stdout.strip().split(':'):
            for path in pathlib.Path(folder).glob('*.pc'):
                if path.stem not in hidden and not (self.pc / path.name).exists():
                    (self.pc / path.name).symlink_to(path)
        self.meson = shutil.which('meson')

    def configure(self, source, name, *options):
        env = {'PATH': str(self.bin), 'HOME': str(self.folder), 'CC': str(self.bin / 'cc'), 'LC_ALL': 'C',
               'PKG_CONFIG_LIBDIR': str(self.pc)}
        done = subprocess.run([self.meson, 'setup', str(self.folder / name), str(source), *options],
                              env=env, capture_output=True, text=True, timeout=200)
        return done.returncode, done.stdout + done.stderr


def told(output):
    """{what: (package, switch)} and the command that installs all."""
    command = re.search(r'^On Debian: apt-get install (.*)$', output, re.M)
    check(command, f'no command:\n{output}')
    return {what: (package, switch) for what, package, switch in LINE.findall(output)}, command[1].split()


def check_page(page, lines):
    """The guide's table has the same packages and switches."""
    rows = [row.split('|')[2:4] for row in page.splitlines() if row.startswith('| ')]
    rows = [tuple(cell.strip(' `') for cell in row) for row in rows]
    for what, help in lines.items():
        check(help in rows or what == 'openmp', f'docs/guide/install.md has no row with {help} for {what}')


def check_all(source, compiler, folder):
    """Nothing is there but the compiler."""
    names = ('zlib', 'z', 'openmp', 'vulkan', 'openblas', 'libpng', 'libjpeg', 'cmocka')
    code, output = Machine(f'{folder}/none', compiler, names).configure(source, 'build')
    check(code != 0, 'a machine without libraries is configured')
    lines, packages = told(output)
    check(set(lines) == set(PACKAGES), f'told is {sorted(lines)}:\n{output[-3000:]}')
    for what, (package, switch) in lines.items():
        check(package in PACKAGES[what], f'{what}: {package}')
        check((what in NEEDED) == (not switch), f'{what}: {switch}')
    check(set(packages) == {package for package, _ in lines.values()}, packages)
    check(len(packages) == len(set(packages)), packages)
    check_page((source / 'docs/guide/install.md').read_text(), lines)
    # With what is needed in any case, and the switches as they were told.
    switches = sorted({switch for _, switch in lines.values() if switch})
    machine = Machine(f'{folder}/least', compiler, [name for name in names if name not in ('zlib', 'z', 'openmp')])
    code, output = machine.configure(source, 'build', *switches)
    check(code == 0, f'{switches}:\n{output[-3000:]}')
    print(f'{len(lines)} things are told; configures with {" ".join(switches)}')


def check_one(source, compiler, folder):
    """One thing is missing, and it alone is told."""
    options = ('-Dllvm=disabled', '-Dvulkan=disabled', '-Dopenblas=disabled', '-Dtests=false')
    machine = Machine(f'{folder}/one', compiler, ['libpng'])
    code, output = machine.configure(source, 'build', *options)
    check(code != 0 and told(output) == ({'libpng 1.6': ('libpng-dev', '-Dpng=disabled')}, ['libpng-dev']), output)


def main(source, *compiler):
    source = pathlib.Path(source).resolve()
    compiler = [word for word in compiler if not word.endswith('ccache')]
    folders = [folder for folder in os.environ['PATH'].split(':') if 'ccache' not in folder]  # which asks PATH in turn
    compiler[0] = shutil.which(compiler[0], path=':'.join(folders))
    with tempfile.TemporaryDirectory() as folder:
        check_all(source, compiler, folder)
        check_one(source, compiler, folder)


if __name__ == '__main__':
    main(*sys.argv[1:])
