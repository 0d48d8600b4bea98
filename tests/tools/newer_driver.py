#!/usr/bin/env python3
"""Runs a test program with the software Vulkan driver of a newer Debian, which multiplies matrices of subgroups.

usage: newer_driver.py PROGRAM [ARGUMENT...]

KILN_TEST_ROOT names the folder of such a system: debootstrap --variant=minbase unstable FOLDER, and in it the packages
mesa-vulkan-drivers (26 or newer), libvulkan1, libcmocka0, libgomp1 and libstdc++6. The program runs with all its
libraries from there, by that system's loader. Exit status 77 where the variable is not set.
"""
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    root = os.environ.get('KILN_TEST_ROOT')
    if not root:
        print('skipped: KILN_TEST_ROOT does not name a system with a newer driver')
        return 77
    manifests = glob.glob(f'{root}/usr/share/vulkan/icd.d/lvp_icd*.json')
    if not manifests:
        sys.exit(f'{root} has no software Vulkan driver')
    manifest = json.loads(pathlib.Path(manifests[0]).read_text())
    folder = f'{root}/usr/lib/x86_64-linux-gnu'
    manifest['ICD']['library_path'] = f'{folder}/' + pathlib.Path(manifest['ICD']['library_path']).name
    with tempfile.TemporaryDirectory() as own:
        path = pathlib.Path(own) / 'driver.json'
        path.write_text(json.dumps(manifest))
        env = os.environ | {'VK_DRIVER_FILES': str(path), 'VK_ICD_FILENAMES': str(path), 'KILN_TEST_MATRICES': '1',
                            'KILN_CACHE_DIR': own, 'GALLIVM_PERF': 'nopt'}
        env.pop('LP_NATIVE_VECTOR_WIDTH', None)  # of 128 bits the driver has no matrices
        loader = [f'{root}/lib64/ld-linux-x86-64.so.2', '--library-path', folder]
        return subprocess.run([*loader, *sys.argv[1:]], env=env).returncode


if __name__ == '__main__':
    sys.exit(main())
