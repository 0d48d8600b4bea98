#!/usr/bin/env python3
"""Fail when a source file includes a layer that docs/layers.txt does not allow it to see.

usage: check_layers.py ROOT

Checked are the files of src/, include/kiln/, tools/, bench/ and docs/examples/: includes in quotes (by layer or
relative to the file), and <kiln/...>. A folder or public header without a rule fails, and so does an include that
names no file of the project and no generated one.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<(kiln/[^>]+)>)')
OUTSIDE = ('tools', 'bench', 'docs/examples')
SUFFIXES = {'.c', '.h', '.def', '.cpp', '.inc', '.S'}


def load(path):
    """Returns the rules {layer: set of layers} and the owners {public header: layer}."""
    rules, owners = {}, {}
    for line in path.read_text().splitlines():
        line = line.split('#')[0].strip()
        if line.startswith('<'):
            name, owner = line.split()
            owners[name[1:-1]] = owner
        elif line:
            layer, _, deps = line.partition(':')
            rules[layer.strip()] = set(deps.split())
    return rules, owners


def layer_of(path, root, rules):
    """The layer that holds a file: a folder of src/, or what has a line of its own inside one (a folder or a file);
    'include', or one of OUTSIDE; None for other places."""
    rel = path.relative_to(root)
    for name in OUTSIDE:
        if rel.is_relative_to(name):
            return name
    if rel.parts[0] != 'src':
        return rel.parts[0]
    for end in range(len(rel.parts), 2, -1):
        if '/'.join(rel.parts[1:end]) in rules:
            return '/'.join(rel.parts[1:end])
    return rel.parts[1] if len(rel.parts) > 2 else 'src'


def check_public(layer, header, rules, owners):
    """A <kiln/...> include from a file of `layer`; returns a complaint or None."""
    owner = owners.get(header)
    if owner is None:
        return f'<{header}> has no line in docs/layers.txt'
    allowed = rules[layer]
    if 'public' in allowed or owner == layer.split('/')[0] or owner in allowed:
        return None
    return f'{layer} must not include <{header}>, which belongs to {owner}'


def is_generated(folder, name):
    """Files that the build writes stand by name in a meson.build of their layer."""
    quoted = f"'{pathlib.Path(name).name}'"
    return any(quoted in build.read_text() for build in folder.rglob('meson.build'))


def check_quoted(path, root, layer, name, rules):
    """An include in quotes; returns a complaint or None."""
    near = (path.parent / name).resolve()
    if near.exists() and near.is_relative_to(root):
        target = layer_of(near, root, rules)
    elif name.startswith('kiln/'):
        return f'public headers are included with <>: "{name}"'
    else:
        target = layer_of(root / 'src' / name, root, rules)
        if '/' not in name or target not in rules:
            return f'"{name}" names no layer'
        if not (root / 'src' / name).exists() and not is_generated(root / 'src' / name.split('/')[0], name):
            return f'"{name}" does not exist'
    if target == layer or target in rules[layer]:
        return None
    return f'{layer} must not include {target} ("{name}")'


def check_file(path, root, layer, rules, owners):
    bad = []
    for number, line in enumerate(path.read_text(errors='replace').splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        if match[2]:
            complaint = check_public(layer, match[2], rules, owners)
        else:
            complaint = check_quoted(path, root, layer, match[1], rules)
        if complaint:
            bad.append(f'{path.relative_to(root)}:{number}: {complaint}')
    return bad


def check_headers(root, rules, owners):
    """Public headers include only the standard library and public headers of layers below their own."""
    bad = []
    for path in sorted((root / 'include/kiln').glob('*.h')):
        owner = owners.get(f'kiln/{path.name}')
        if owner is None:
            bad.append(f'include/kiln/{path.name}: no line in docs/layers.txt')
            continue
        layer = {'public': 'nn'}.get(owner, owner)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            complaint = None
            if match and match[1]:
                complaint = f'a public header must not include "{match[1]}"'
            elif match:
                complaint = check_public(layer, match[2], rules, owners)
            if complaint:
                bad.append(f'include/kiln/{path.name}:{number}: {complaint}')
    return bad


def check_names(root, rules, owners):
    """Each rule has its folder, each owner its header, and the library knows its sources by the same folders."""
    bad = [f'docs/layers.txt: there is no {layer}' for layer in rules
           if not (root / 'src' / layer).exists() and not (layer in OUTSIDE and (root / layer).is_dir())]
    bad += [f'docs/layers.txt: there is no <{header}>' for header in owners
            if not (root / 'include' / header).exists() and not is_generated(root / 'include', header)]
    text = (root / 'src/base/caller.c').read_text()
    known = set(re.findall(r'"(\w+)"', re.search(r'layers\[\] = {(.*?)};', text, re.S)[1]))
    folders = {path.name for path in (root / 'src').iterdir() if path.is_dir()}
    bad += [f'src/base/caller.c: layers[] lacks {name}' for name in sorted(folders - known)]
    return bad + [f'src/base/caller.c: there is no layer {name}' for name in sorted(known - folders)]


def main(root):
    root = pathlib.Path(root).resolve()
    rules, owners = load(root / 'docs/layers.txt')
    bad = [f'docs/layers.txt: {layer} depends on {dep}, which has no line'
           for layer, deps in rules.items() for dep in deps if dep != 'public' and dep not in rules]
    bad += check_names(root, rules, owners) + check_headers(root, rules, owners)
    files = 0
    for top in ('src',) + OUTSIDE:
        for path in sorted((root / top).rglob('*')):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            files += 1
            layer = layer_of(path, root, rules)
            if layer not in rules:
                bad.append(f'{path.relative_to(root)}: the folder {layer} has no line in docs/layers.txt')
            else:
                bad += check_file(path, root, layer, rules, owners)
    if not files:
        bad.append(f'{root}: no source files found')
    print('\n'.join(bad) if bad else f'{files} files keep to their layers')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
