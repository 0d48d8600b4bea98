#!/usr/bin/env python3
"""The reference by Doxygen: made without a warning, README.md is its first page, each public function is in one group
and has a text. Exit with 77 where there is no Doxygen.

usage: check_reference.py ROOT BUILD-INCLUDE
"""
import collections
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import public_api

SKIP = 77


def groups_of(folder):
    """{function: [(group, text)]}, and how many groups there are."""
    found, count = collections.defaultdict(list), 0
    for path in sorted(folder.glob('group__*.xml')):
        compound = xml.etree.ElementTree.parse(path).getroot().find('compounddef')
        count += 1
        for member in compound.iter('memberdef'):
            if member.get('kind') == 'function':
                text = ''.join(''.join(member.find(f'{part}description').itertext()) for part in ('brief', 'detailed'))
                found[member.findtext('name')].append((compound.findtext('title'), text.strip()))
    return found, count


def main(root, build_include):
    if not shutil.which('doxygen'):
        print('needs doxygen')
        return SKIP
    root, bad = pathlib.Path(root).resolve(), []
    functions, _ = public_api.read_api(root / 'include/kiln', build_include)
    with tempfile.TemporaryDirectory() as output:
        command = [sys.executable, str(root / 'docs/site/doxygen.py'), str(root), build_include, output, '0', 'xml']
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            print(made.stdout + made.stderr)
            return 1
        found, count = groups_of(pathlib.Path(output) / 'xml')
        first = (pathlib.Path(output) / 'xml/indexpage.xml').read_text()
    for function in functions:
        places = found.get(function.name, [])
        if len(places) != 1:
            bad.append(f'{function.name} is in {len(places)} groups')
        elif len(places[0][1]) < 6:
            bad.append(f'{function.name} has no text')
    if 'kiln_device_open' not in first or 'site/guide/README.html' not in first:
        bad.append('the first page is not README.md')
    print('\n'.join(bad) or f'{len(functions)} functions in {count} groups')
    return int(bool(bad))


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
