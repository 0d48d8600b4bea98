#!/usr/bin/env python3
"""The Debian packages: what goes into which, and, which takes as long as a build, the packages themselves.

usage: test_debian.py lists|packages BUILD_DIR SOURCE_DIR

Exit status 77 with a reason means that the machine lacks what the test needs.
"""
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import test_install
from test_install import check, run, skip

# Named by the SONAME.
LIBRARY = 'libkiln0.1'
PACKAGES = (LIBRARY, 'libkiln-dev', 'kiln-tools', 'kiln-doc')


def changelog_version(source):
    return re.match(r'kiln \((\S+)\) ', (source / 'tools/debian/changelog').read_text())[1]


def patterns(path):
    return path.read_text().split()


def takes(pattern, name):
    """As dh_install: a pattern stands for a file, or for a folder with all that is in it."""
    parts, wanted = name.split('/'), pattern.split('/')
    return len(parts) >= len(wanted) and all(fnmatch.fnmatchcase(p, w) for p, w in zip(parts, wanted))


def case_lists(build, source):
    """What is installed goes into one package each, and each line of their lists stands for something."""
    debian = source / 'tools/debian'
    check(changelog_version(source) == test_install.project_version(build),
          f'the changelog is of {changelog_version(source)}, the project of {test_install.project_version(build)}')
    lists = {package: patterns(debian / f'{package}.install') for package in PACKAGES}
    lists['none'] = patterns(debian / 'not-installed')
    with tempfile.TemporaryDirectory() as folder:
        prefix = test_install.install(build, folder)
        libdir = test_install.option(build, 'libdir')
        names = [str(p.relative_to(prefix)) for p in prefix.rglob('*') if not p.is_dir()]
    names = [f'usr/lib/triplet/{name.removeprefix(libdir + "/")}' if name.startswith(libdir + '/') else f'usr/{name}'
             for name in names]
    for name in names:
        owners = [package for package, wanted in lists.items() if any(takes(w, name) for w in wanted)]
        check(len(owners) == 1, f'{name} goes into {owners}')
    for package, wanted in lists.items():
        for pattern in wanted:
            check(any(takes(pattern, name) for name in names) or 'llvm' in pattern, f'{package}: nothing is {pattern}')
    check(LIBRARY == f'libkiln{test_install.soversion(build)}', f'the library is that of {LIBRARY}')
    control = (debian / 'control').read_text()
    check(re.findall(r'^Package: (.*)$', control, re.M) == list(PACKAGES), 'the packages of control')
    print(f'{len(names)} files in {len(PACKAGES)} packages')


def field(deb, name):
    return run('dpkg-deb', '-f', deb, name).stdout.strip()


def check_fields(debs, version):
    own = f'{LIBRARY} (= {version})'
    check(own in field(debs['libkiln-dev'], 'Depends') and own in field(debs['kiln-tools'], 'Depends'), 'dependencies')
    depends, recommends = field(debs[LIBRARY], 'Depends'), field(debs[LIBRARY], 'Recommends')
    check('libgomp1' in depends and 'zlib1g' in depends, f'{LIBRARY} depends on {depends}')
    check('llvm' not in depends and 'llvm' in recommends.lower(), f'{LIBRARY} recommends {recommends}')
    check('glslang' in field(debs[LIBRARY], 'Static-Built-Using'), 'what is linked in')


def check_shlibs(deb, folder):
    """Packages of programs will depend on the package of the library that they were linked to."""
    run('dpkg-deb', '-e', deb, f'{folder}/control')
    version = LIBRARY.removeprefix('libkiln')
    lines = pathlib.Path(folder, 'control/shlibs').read_text().splitlines()
    check(lines and all(line.startswith(f'libkiln {version} {LIBRARY} (>= {version}.') for line in lines), f'{lines}')


def check_program(root, folder, version):
    """A program of the unpacked packages builds and runs."""
    pc = next(root.rglob('kiln.pc'))
    check('rpath' not in pc.read_text(), 'a distribution has no use for -rpath')
    shutil.copy(test_install.HERE / 'guest.c', folder)
    flags = run('pkg-config', '--cflags', '--libs', 'kiln', PKG_CONFIG_PATH=str(pc.parent),
                PKG_CONFIG_SYSROOT_DIR=str(root)).stdout.split()
    run('cc', f'{folder}/guest.c', '-o', f'{folder}/guest', *flags)
    library = next(root.rglob('libkiln.so'))
    where = {'LD_LIBRARY_PATH': str(library.parent), 'KILN_CACHE_DIR': f'{folder}/cache', 'KILN_DEVICE': 'cpu'}
    done = run(f'{folder}/guest', **where)
    check(done.stdout == f'kiln {version}: 14\n', done.stdout)
    for binary in [library, *root.rglob('bin/kiln-*')]:
        check('RUNPATH' not in run('readelf', '-d', binary).stdout, f'{binary} has a RUNPATH')
    check(library.stat().st_size < test_install.STRIPPED_MAX_B, 'the library is large, or not stripped')


def case_packages(build, source):
    """tools/deb makes all packages; unpacked, a program runs with them."""
    for program in ('dpkg-buildpackage', 'dh', 'meson'):
        if not shutil.which(program):
            skip(f'{program} is not installed')
    version = changelog_version(source)
    with tempfile.TemporaryDirectory() as folder:
        jobs = {'DEB_BUILD_OPTIONS': f'parallel={os.cpu_count()} noautodbgsym'}
        done = subprocess.run([source / 'tools/deb', '--out', folder], env={**test_install.CLEAN, **jobs},
                              capture_output=True, text=True)
        if 'Unmet build dependencies' in done.stderr:
            skip(re.search(r'Unmet build dependencies.*', done.stderr)[0])
        check(done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:])
        debs = {path.name.split('_')[0]: path for path in pathlib.Path(folder).glob('*.deb')}
        check(set(debs) == set(PACKAGES), f'made are {sorted(debs)}')
        check_fields(debs, version)
        check_shlibs(debs[LIBRARY], folder)
        root = pathlib.Path(folder, 'root')
        for path in debs.values():
            run('dpkg-deb', '-x', path, root)
        check_program(root, folder, version)
        if shutil.which('lintian'):
            run('lintian', '--fail-on', 'error', '--allow-root', next(pathlib.Path(folder).glob('*.changes')))


if __name__ == '__main__':
    globals()[f'case_{sys.argv[1]}'](sys.argv[2], pathlib.Path(sys.argv[3]).resolve())
