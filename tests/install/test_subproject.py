#!/usr/bin/env python3
"""A Meson project takes the tree of this one as its subproject, through tools/kiln.wrap.

usage: test_subproject.py configure|build SOURCE_DIR

`configure` looks at the targets that there are; `build`, which takes minutes, makes the outer program and runs it.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
OUTER = '''\
project('outer', 'c', version: '7.0.0', meson_version: '>=1.0.0', default_options: ['c_std=c11'])
add_test_setup('outer', is_default: true) # one is allowed in all
kiln = dependency('kiln', version: '>=0.1', default_options: [{options}])
test('guest', executable('guest', 'guest.c', dependencies: kiln))
'''
# The least of it.
OPTIONS = ['bench=false', 'examples=false', 'isa=v2', *(f'{part}=disabled' for part in
           ('vulkan', 'glslang', 'openblas', 'llvm', 'png', 'jpeg'))]


def check(condition, text):
    if not condition:
        sys.exit(f'failed: {text}')


def run(*command, **env):
    env = {**{k: v for k, v in os.environ.items() if not k.startswith(('KILN_', 'LD_LIBRARY_PATH'))}, **env}
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True, timeout=3000)
    check(done.returncode == 0, f'{" ".join(map(str, command))}: {done.stdout[-4000:]}\n{done.stderr[-4000:]}')
    return done.stdout


def make_outer(source, outer):
    (outer / 'subprojects').mkdir(parents=True)
    (outer / 'subprojects/kiln').symlink_to(source)
    shutil.copy(source / 'tools/kiln.wrap', outer / 'subprojects')
    shutil.copy(HERE / 'guest.c', outer)
    options = ', '.join(f"'{option}'" for option in OPTIONS)
    (outer / 'meson.build').write_text(OUTER.format(options=options))
    run('meson', 'setup', outer / 'build', outer, PKG_CONFIG_LIBDIR=pkg_config_without_kiln(outer))


def pkg_config_without_kiln(outer):
    """Another Kiln that is installed does not come first."""
    (outer / 'pc').mkdir()
    folders = run('pkg-config', '--variable', 'pc_path', 'pkg-config').strip().split(':')
    for path in (path for folder in folders for path in pathlib.Path(folder).glob('*.pc')):
        if path.name != 'kiln.pc' and not (outer / 'pc' / path.name).exists():
            (outer / 'pc' / path.name).symlink_to(path)
    return str(outer / 'pc')


def introspect(outer, what):
    return json.loads(run('meson', 'introspect', f'--{what}', outer / 'build'))


def main(how, source):
    source = pathlib.Path(source).resolve()
    with tempfile.TemporaryDirectory() as folder:
        outer = pathlib.Path(folder, 'outer')
        make_outer(source, outer)
        targets = {t['name']: t for t in introspect(outer, 'targets')}
        check(targets['kiln']['type'] == 'shared library' and targets['kiln']['subproject'] == 'kiln', targets['kiln'])
        check('kiln-info' in targets and not any(name.startswith('test_') for name in targets), sorted(targets))
        tests = [t['name'] for t in introspect(outer, 'tests')]
        check(tests == ['guest'], f'{tests}: tests of the subproject are tests of the outer')
        if how == 'build':
            run('ninja', '-C', outer / 'build', 'guest')
            printed = run(outer / 'build/guest', KILN_DEVICE='cpu', KILN_CACHE_DIR=f'{folder}/cache')
            check(printed.startswith('kiln ') and printed.endswith(': 14\n'), printed)
            check('_v3' not in run('nm', outer / 'build/subprojects/kiln' / targets['kiln']['filename'][0]), 'isa=v2')
        print(f'{how}: good')


if __name__ == '__main__':
    main(*sys.argv[1:])
