#!/usr/bin/env python3
"""What `meson install` leaves, and how programs of others find it: with pkg-config, with CMake, where it was put and
where it was moved to.

usage: test_install.py CASE BUILD_DIR SOURCE_DIR [OPTION...]

Exit status 77 with a reason means that the machine lacks what the test needs.
"""
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STRIPPED_MAX_B = 15_000_000
# Nothing may lead a program to the library but what was installed.
CHANGED = ('KILN_DEVICE', 'KILN_DEBUG', 'KILN_LLVM', 'LD_LIBRARY_PATH', 'PKG_CONFIG_PATH', 'CMAKE_PREFIX_PATH',
           'CFLAGS', 'CXXFLAGS', 'LDFLAGS', 'DESTDIR', 'MAKEFLAGS')
CLEAN = {k: v for k, v in os.environ.items() if k not in CHANGED}
LINK = re.compile(r'\]\(([^)#\s]+)(?:#[^)]*)?\)')
PROGRAM = (HERE / 'guest.c').read_text()


def check(condition, text):
    if not condition:
        sys.exit(f'failed: {text}')


def skip(reason):
    print(f'skipped: {reason}')
    sys.exit(77)


def need(program):
    return shutil.which(program) or skip(f'{program} is not installed')


def run(*command, status=0, cwd=None, **env):
    done = subprocess.run([str(c) for c in command], env={**CLEAN, **env}, capture_output=True, text=True, timeout=500,
                          cwd=cwd)
    check(status is None or done.returncode == status,
          f'{" ".join(map(str, command))}: status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}')
    return done


def option(build, name):
    options = json.loads(run('meson', 'introspect', '--buildoptions', build).stdout)
    return next(o['value'] for o in options if o['name'] == name)


def install(build, folder):
    """The prefix, in the folder."""
    run('meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', folder)
    return pathlib.Path(f'{folder}{option(build, "prefix")}')


def project_version(build):
    return json.loads(run('meson', 'introspect', '--projectinfo', build).stdout)['version']


def minor_version(build):
    return '.'.join(project_version(build).split('.')[:2])


def soversion(build):
    """Until 1.0 a minor version may break programs, so a program must not be loaded with another one's library."""
    minor = minor_version(build)
    return minor if minor.startswith('0.') else minor.split('.')[0]


def check_soname(program, build):
    """The loader looks for the library of the version that the program was linked to, by that name and no other."""
    needed = re.findall(r'\(NEEDED\).*\[(libkiln\S*)\]', run('readelf', '-d', program).stdout)
    check(needed == [f'libkiln.so.{soversion(build)}'], f'{program} needs {needed}')


def good_output(text, build):
    check(text == f'kiln {project_version(build)}: 14\n', f'the program prints {text}')


# --- what there is

def expected(build):
    """Patterns, and whether each may have no file."""
    marks = {'@lib@': option(build, 'libdir'), '@version@': project_version(build), '@soversion@': soversion(build),
             '@minor@': minor_version(build)}
    for line in (HERE / 'installed.txt').read_text().splitlines():
        if not line.startswith('#'):
            for mark, value in marks.items():
                line = line.replace(mark, value)
            yield line.lstrip('?'), line.startswith('?')


def matches(name, pattern):
    return fnmatch.fnmatchcase(name, pattern) and name.count('/') == pattern.count('/')


def check_links(docs):
    """Links of installed pages lead to what is installed: who reads them may have no tree of the sources."""
    targets = {(page, target) for page in docs.rglob('*.md') for target in LINK.findall(page.read_text())
               if '://' not in target}
    missing = sorted(f'{page.relative_to(docs)}: {target}' for page, target in targets
                     if not (page.parent / target).exists() or '..' in os.path.relpath(page.parent / target, docs))
    check(targets and not missing, f'pages link to what is not installed: {missing}')


def check_size(library):
    with tempfile.TemporaryDirectory() as folder:
        run('strip', '--strip-unneeded', '-o', f'{folder}/stripped', library)
        size_B = os.path.getsize(f'{folder}/stripped')
    print(f'{library.name}: {size_B} bytes stripped')
    check(size_B < STRIPPED_MAX_B, f'{library.name} has {size_B} bytes stripped, {STRIPPED_MAX_B} are allowed')


def case_files(build, source, *parts):
    """DESTDIR holds what is listed and nothing else, every header among it, and pages whose links hold."""
    source = pathlib.Path(source).resolve()
    with tempfile.TemporaryDirectory() as folder:
        prefix = install(build, folder)
        found = {str(p.relative_to(prefix)) for p in pathlib.Path(folder).rglob('*') if not p.is_dir()}
        patterns = list(expected(build))
        extra = sorted(name for name in found if not any(matches(name, p) for p, _ in patterns))
        missing = [p for p, may_lack in patterns if not may_lack and not any(matches(name, p) for name in found)]
        check(not extra and not missing, f'installed but not listed: {extra}, listed but not installed: {missing}')
        check('llvm' not in parts or any(name.endswith('libkiln-llvm.so') for name in found), 'there is no LLVM module')
        headers = {p.name for p in (source / 'include/kiln').glob('*.h*')}
        headers |= {p.name for p in pathlib.Path(build, 'include/kiln').glob('*.h*')}
        check(headers == {p.name for p in (prefix / 'include/kiln').iterdir()}, f'the headers are {sorted(headers)}')
        check_links(prefix / 'share/doc/kiln')
        for page in (prefix / 'share/man/man1').iterdir():
            check(f'"kiln {project_version(build)}"' in page.read_text(), f'{page.name} is of another version')
        print(f'{len(found)} files')


def case_size(build, source, *_):
    """The library is small enough to go with programs."""
    check_size(pathlib.Path(build, f'libkiln.so.{project_version(build)}'))


# --- pkg-config

def build_as_the_readme_says(prefix, folder, build, source, **pc):
    """`cc prog.c $(pkg-config --cflags --libs kiln)`, and the program runs, with nothing in the environment."""
    pc = pc or {'PKG_CONFIG_PATH': str(next(prefix.rglob('kiln.pc')).parent)}
    command = re.search(r'`(cc (\S+\.c) \$\(pkg-config --cflags --libs kiln\))`', (source / 'README.md').read_text())
    pathlib.Path(folder, command[2]).write_text(PROGRAM)
    run('sh', '-ec', command[1], cwd=folder, **pc)
    check_soname(pathlib.Path(folder, 'a.out'), build)
    done = run(pathlib.Path(folder, 'a.out'), KILN_DEVICE='cpu', KILN_CACHE_DIR=f'{folder}/cache')
    good_output(done.stdout, build)
    return run('pkg-config', '--libs', 'kiln', **pc).stdout


def build_others(prefix, folder, build):
    """A program in C++, and examples where they were installed."""
    flags = run('pkg-config', '--cflags', '--libs', 'kiln', PKG_CONFIG_PATH=str(next(prefix.rglob('kiln.pc')).parent))
    flags = flags.stdout.split()
    if shutil.which('c++'):
        run('c++', '-std=c++17', '-O0', HERE / 'guest.cpp', '-o', f'{folder}/cxx', *flags)
        good_output(run(f'{folder}/cxx', KILN_DEVICE='cpu', KILN_CACHE_DIR=f'{folder}/cache').stdout, build)
    for name in ('api_program.c', 'embed.c', 'gpt.c'):
        run('cc', '-fsyntax-only', prefix / 'share/doc/kiln/examples' / name, *flags)


def info_of(prefix, folder):
    return json.loads(run(prefix / 'bin/kiln-info', '--json', KILN_CACHE_DIR=f'{folder}/cache').stdout)['library']


def check_place(prefix, folder, parts):
    """The tools run, with the library and the module of this prefix."""
    library = info_of(prefix, folder)
    names = ['kiln path'] + (['llvm module path'] if 'llvm' in parts else [])
    for name in names:
        check(pathlib.Path(library[name]).resolve().is_relative_to(prefix.resolve()), f'{name}: {library[name]}')


def case_pkgconfig(build, source, *parts):
    """A private prefix, then the same moved elsewhere."""
    need('pkg-config')
    source = pathlib.Path(source).resolve()
    with tempfile.TemporaryDirectory() as folder:
        prefix = install(build, f'{folder}/stage')
        pathlib.Path(folder, 'one').mkdir()
        build_as_the_readme_says(prefix, f'{folder}/one', build, source)
        build_others(prefix, folder, build)
        check_place(prefix, folder, parts)
        moved = prefix.rename(f'{folder}/moved')
        pathlib.Path(folder, 'two').mkdir()
        libs = build_as_the_readme_says(moved, f'{folder}/two', build, source)
        check_place(moved, folder, parts)
        check('-lkiln' in libs.split(), libs)
        pc = {'PKG_CONFIG_PATH': str(next(moved.rglob('kiln.pc')).parent)}
        defined = run('pkg-config', '--define-prefix', '--libs', 'kiln', **pc).stdout
        check(defined == libs, f'with --define-prefix: {defined}, without: {libs}')
        done = run('pkg-config', '--modversion', 'kiln', **pc)
        check(done.stdout.strip() == project_version(build), done.stdout)


# --- CMake

CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.18)
project(guest {languages})
find_package(kiln {wanted} REQUIRED)
foreach(file {files})
  string(MAKE_C_IDENTIFIER ${{file}} name)
  add_executable(${{name}} ${{file}})
  target_link_libraries(${{name}} PRIVATE kiln::kiln)
endforeach()
"""


def cmake_project(folder, wanted, files):
    pathlib.Path(folder).mkdir()
    languages = 'C CXX' if any('cpp' in file for file in files) else 'C'
    text = CMAKE_LISTS.format(languages=languages, wanted=wanted, files=' '.join(files))
    for file, standard in files.items():
        text += f'set_target_properties({file.replace(".", "_")} PROPERTIES {standard})\n'
        pathlib.Path(folder, file).write_text((HERE / f'guest{pathlib.Path(file).suffix}').read_text())
    pathlib.Path(folder, 'CMakeLists.txt').write_text(text)
    return folder


def configure(folder, prefix, status=0):
    return run('cmake', '-S', folder, '-B', f'{folder}/build', f'-DCMAKE_PREFIX_PATH={prefix}', status=status)


def check_versions(folder, prefix, major, minor, patch):
    fits = ['', f'{major}.{minor}', f'{major}.{minor}.{patch}', f'{major}.{minor}.{patch} EXACT', f'{major}',
            f'{major}.{minor}...{major + 1}', f'{major}.{minor}...{major}.{minor + 1}',
            f'{major}...{major}.{minor}.{patch}']
    fits_not = [f'{major}.{minor}.{patch + 1}', f'{major}.{minor + 1}', f'{major + 1}',
                f'{major}.{minor}.{patch + 1} EXACT', f'{major}.{minor + 1}...{major + 1}',
                f'{major}...<{major}.{minor}.{patch}']
    fits_not += [f'{major}.{minor - 1}'] if major == 0 and minor > 0 else []
    pathlib.Path(folder).mkdir()
    asks = ''.join(f'unset(kiln_DIR CACHE)\nfind_package(kiln {wanted} QUIET)\nmessage("({wanted}) ${{kiln_FOUND}}")\n'
                   for wanted in fits + fits_not)
    pathlib.Path(folder, 'CMakeLists.txt').write_text(
        f'cmake_minimum_required(VERSION 3.19)\nproject(versions C)\n{asks}find_package(kiln {fits_not[0]} REQUIRED)\n')
    done = configure(folder, prefix, status=1)
    found = dict(re.findall(r'^\((.*)\) (\w*)$', done.stderr, re.M))
    check(found == {**{w: '1' for w in fits}, **{w: '0' for w in fits_not}}, f'by versions found: {found}')
    check(f'version: {major}.{minor}.{patch}' in done.stderr, f'the error does not name the version: {done.stderr}')


def case_cmake(build, source, *_):
    """Programs in C, C++17 and C++20, where it was installed and where it was moved to; versions that fit or not."""
    need('cmake')
    need('make')
    files = {'c17.c': 'C_STANDARD 17'}
    if shutil.which('c++'):
        files |= {f'cxx{n}.cpp': f'CXX_STANDARD {n} CXX_STANDARD_REQUIRED ON' for n in (17, 20)}
    major, minor, patch = map(int, project_version(build).split('.'))
    with tempfile.TemporaryDirectory() as folder:
        prefix = install(build, f'{folder}/stage').rename(f'{folder}/prefix')
        project = cmake_project(f'{folder}/guest', f'{major}.{minor}', files)
        configure(project, prefix)
        run('cmake', '--build', f'{project}/build')
        for file in files:
            program = f'{project}/build/{file.replace(".", "_")}'
            check_soname(program, build)
            good_output(run(program, KILN_DEVICE='cpu', KILN_CACHE_DIR=f'{folder}/cache').stdout, build)
            print(f'{file}: built and run')
        check_versions(f'{folder}/versions', prefix, major, minor, patch)
        next(prefix.rglob(f'libkiln.so.{major}.{minor}.{patch}')).unlink()
        done = configure(cmake_project(f'{folder}/broken', major, {'c17.c': 'C_STANDARD 17'}), prefix, status=1)
        check('is not whole' in done.stderr, f'a library that is gone: {done.stderr}')


if __name__ == '__main__':
    globals()[f'case_{sys.argv[1]}'](*sys.argv[2:])
