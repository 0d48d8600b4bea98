#!/usr/bin/env python3
"""Fail when an object of the library needs a symbol of a layer that docs/layers.txt does not allow it to see, or when
files of the layers named below call each other in a circle. Includes can be got round by a declaration; symbols cannot.

usage: check_calls.py ROOT OBJECT_FOLDER...
"""
import collections
import pathlib
import subprocess
import sys

import check_layers

NO_CIRCLES = ('src/pass', 'src/fuse', 'src/spirv', 'src/program', 'src/jit')


def symbols(paths):
    """Returns {path: (defined, needed)}: the names of object files."""
    found = {str(path): (set(), set()) for path in paths}
    lines = subprocess.run(['nm', '-A', *found], capture_output=True, text=True, check=True).stdout.splitlines()
    for line in lines:
        path, _, rest = line.partition(':')
        fields = rest.split()
        if len(fields) == 2 and fields[0] == 'U':
            found[path][1].add(fields[1])
        elif len(fields) == 3 and fields[1].isupper():
            found[path][0].add(fields[2])
    return found


def source_of(name, sources):
    """Meson names the object of a/b.c `a_b.c.o`, with its folder's path in front or not."""
    for end in range(len(name)):
        found = sources.get(name[end:].removesuffix('.o'))
        if found:
            return found
    return None


def load_objects(root, folders):
    """Returns {source: (defined, needed)} of all objects whose source is a file of src/."""
    paths = [str(p.relative_to(root)) for p in (root / 'src').rglob('*.c')]
    sources = {path.replace('/', '_'): path for path in paths}
    found = {}
    for folder in folders:
        for path in pathlib.Path(folder).rglob('*.o'):
            source = source_of(path.name, sources) or source_of('src_' + path.name, sources)
            if source:
                found[str(path)] = source
    return {found[path]: names for path, names in symbols(found).items()}


def call_edges(objects):
    """Returns {source: {source: symbol}}: who needs a symbol of whom, and one such symbol."""
    owner = {name: source for source, (defined, _) in objects.items() for name in defined}
    edges = collections.defaultdict(dict)
    for source, (_, needed) in objects.items():
        for name in sorted(needed):
            if owner.get(name, source) != source:
                edges[source].setdefault(owner[name], name)
    return edges


def circles(edges):
    """Strongly connected components of more than one file (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in edges.get(v, {}):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for v in sorted(edges):
        if v not in index:
            visit(v)
    return found


def complaints(root, edges):
    rules, _ = check_layers.load(root / 'docs/layers.txt')
    bad = []
    for source in sorted(edges):
        layer = check_layers.layer_of(root / source, root, rules)
        for target, name in sorted(edges[source].items()):
            other = check_layers.layer_of(root / target, root, rules)
            if other != layer and other not in rules.get(layer, ()) and 'public' not in rules.get(layer, ()):
                bad.append(f'{source}: {layer} must not call {other} ({name} of {target})')
    for circle in circles(edges):
        if any(path.startswith(NO_CIRCLES) for path in circle):
            bad.append('a circle of calls: ' + ' '.join(circle))
    return bad


def main(root, *folders):
    root = pathlib.Path(root).resolve()
    objects = load_objects(root, folders)
    edges = call_edges(objects)
    bad = complaints(root, edges)
    missing = sum(1 for _ in (root / 'src').rglob('*.c')) // 2 - len(objects)
    if missing > 0 or not objects:
        bad.append(f'only {len(objects)} objects of src/ were found')
    print('\n'.join(bad) if bad else f'{len(objects)} objects call only what their layers allow')
    return bool(bad)


if __name__ == '__main__':
    sys.setrecursionlimit(10000)
    sys.exit(main(*sys.argv[1:]))
