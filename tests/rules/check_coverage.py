#!/usr/bin/env python3
"""Check docs/coverage.md: every op of the tables, by topic, with the names that it has in other frameworks, and what
these have that Kiln has not.

usage: check_coverage.py ROOT [--write]

Ops are read from the tables of src/ops, names of others from tests/coverage, where same.txt says which are the same
under another name and other.txt which are no ops here, and why. --write makes the page.
"""
import pathlib
import re
import sys

PAGE = 'docs/coverage.md'
PEERS = {'array_api': 'array API', 'numpy': 'NumPy', 'pytorch': 'PyTorch', 'mlx': 'MLX', 'mindspore': 'MindSpore'}
ROW = re.compile(r'^(UNARY|BINARY|TERNARY|STRUCTURED|COMPOSITE|DECLARED)\((\w+)(.*)\)$')
PREFIX = re.compile(r'^(?:nn\.functional|linalg|special|fft|random|fast)\.')
TOPICS = {'Creation': 'creation', 'Conversion': 'conversion', 'Reductions': 'reductions', 'Matrix products': 'products',
          'Views': 'shapes', 'Views the other way round': 'shapes', 'Softmax, norms': 'networks', 'Losses': 'losses',
          'Convolution and pooling': 'convolution', 'Tensors side by side': 'shapes', 'Linear algebra': 'linalg',
          'Triangles, the identity, tensors like others': 'shapes', 'Reading by index': 'indexing',
          'A part at a place that is a tensor': 'indexing', 'Writing by index': 'indexing', 'Fourier': 'fft',
          'Scans and sorting': 'sorting', 'Places in sorted lines': 'sorting', 'Matrices': 'linalg',
          'Random numbers': 'random', 'Complex numbers': 'complex'}


class Op:
    def __init__(self, kind, name, text, topic):
        def column(c):
            found = re.search(r'\.%s = "((?:[^"\\]|\\.)*)"' % c, text)
            return found.group(1) if found else ''
        self.kind, self.name, self.doc = kind, name, column('doc')
        self.also, self.was = column('also'), column('was')
        self.alias = column('alias')
        self.topic = column('topic') or topic
        self.hidden = 'OP_HIDDEN' in text or name.endswith(('_backward', '_again')) or name.endswith('_grad')
        self.zero = 'OP_ZERO_GRAD' in text or '.zero_grad = true' in text
        lower = re.search(r'FN\(\w+, (\w+)\)', text)
        self.lower = lower.group(1) if lower else ''
        self.derived = kind in ('UNARY', 'BINARY', 'TERNARY') and '.grad =' in text


def topic_of(comment, elementwise):
    title = re.sub(r'\s*\([^)]*\).*', '', comment).split('. ')[0].rstrip('.')
    if elementwise:
        return 'elementwise'
    return next((t for known, t in TOPICS.items() if title.startswith(known)), '')


def read_ops(root):
    ops = []
    for table in ('elementwise', 'structured', 'composites'):
        topic = 'elementwise'
        for line in (root / f'src/ops/{table}.def').read_text().splitlines():
            found = ROW.match(line)
            if found:
                ops.append(Op(found.group(1), found.group(2), found.group(3), topic))
            elif line.startswith('// '):
                topic = topic_of(line[3:], table == 'elementwise') or topic
    return ops


def rules(root):
    text = ''.join(p.read_text() for p in sorted((root / 'src/grad/rules').glob('*.c')))
    return set(re.findall(r'\.op = "(\w+)"', text))


def on_cpu_alone(root, ops):
    """Ops of which no device but the CPU has the kernel: their lowering asks for one of the kernels that say so."""
    kernels = (root / 'src/ops/kernels.def').read_text()
    alone = set(re.findall(r'^\w+_KERNEL\((\w+),.*\.cpu_only = true', kernels, re.M))
    text = ''.join(p.read_text() for p in sorted((root / 'src/ops').glob('*.c')))
    bodies = dict(re.findall(r'^(?:static )?kiln_status (\w+)\(.*?\)\n\{\n(.*?)^\}', text, re.M | re.S))
    asked = {name: set(re.findall(r'\bFAMILY_(\w+)', body)) for name, body in bodies.items()}
    for name, body in bodies.items():  # what a helper beside it asks for, where it is not one way of several
        asked[name] |= {f for called in re.findall(r'^ *return (\w+)\(', body, re.M) for f in asked.get(called, ())}
    return sorted(op.name for op in ops if asked.get(op.lower, set()) & alone)


def words(path):
    return [line for line in path.read_text().splitlines() if line and not line.startswith('#')]


def read_peers(root):
    folder = root / 'tests/coverage'
    same, other = {}, []
    for line in words(folder / 'same.txt'):
        ours, _, names = line.partition(':')
        same.update({name: ours for name in names.split()})
    for line in words(folder / 'other.txt'):
        reason, _, names = line.partition(':')
        other.append((reason, set(names.split())))
    return {peer: words(folder / f'{peer}.txt') for peer in PEERS}, same, other


def gradient(op, with_rule):
    if op.zero:
        return 'zero'
    if op.kind == 'COMPOSITE' or op.kind == 'DECLARED':
        return 'by its parts'
    if op.derived:
        return 'derived'
    return 'rule' if op.name in with_rule else 'none'


def find(name, known, same):
    """Our op of a peer's name: by the list, else by the name itself, with or without what stands before it."""
    short = PREFIX.sub('', name)
    for candidate in (same.get(name), same.get(short), short):
        if candidate in known:
            return known[candidate]
    return None


def match(ops, peers, same, other):
    known = {}
    for op in ops:
        for name in (op.name, op.also):
            if name:
                known[name] = op
    names = {op.name: {} for op in ops}
    missing = {}
    for peer, listed in peers.items():
        for name in listed:
            op = find(name, known, same)
            if op:
                names[op.name].setdefault(peer, []).append(name)
            elif not any(name in group or PREFIX.sub('', name) in group for _, group in other):
                missing.setdefault(peer, []).append(name)
    stale = sorted({ours for ours in same.values() if ours not in known})
    return names, missing, stale


def cell(names):
    return ', '.join(f'`{n}`' for n in sorted(names, key=lambda n: (len(n), n))[:2])


def page(ops, names, missing, other, with_rule, alone):
    by_hand = sum(op.kind == 'DECLARED' for op in ops)
    composites = sum(op.kind == 'COMPOSITE' for op in ops)
    out = ['# Coverage\n\n',
           f'Written by `tests/rules/check_coverage.py . --write` from the op tables: {len(ops)} public ops, of which '
           f'{composites}\nare [composites](adding-an-op.md#a-composite) and {by_hand} functions declared by hand; '
           'second names, in-place twins, backward ops and forms\nwith numbers are not counted.\n\n'
           'A gradient is *derived* from the expression of its row, a registered *rule*, made *by its parts*, *zero* '
           'by definition,\nor *none*: then a backward through the op is an error, or nothing goes through it. '
           'There is no forward mode and no\nvectorisation of functions, so that no rule of these goes by a loop or by '
           'reversing twice.\n\n'
           'All ops run on all devices. On Vulkan these are computed by the CPU, to which operands are copied and '
           'results back,\ncounted as `fallbacks` of `kiln_device_get_stats`, and refused in strict-device mode: '
           f'{", ".join(f"`{n}`" for n in alone)},\nand composites of these. So is f64 where the device has none.\n']
    topics = dict.fromkeys(op.topic for op in ops)
    for topic in sorted(topics):
        out.append(f'\n## {topic.capitalize()}\n\n| op | gradient | ' + ' | '.join(PEERS.values()) + ' |\n')
        out.append('|---' * (2 + len(PEERS)) + '|\n')
        for op in sorted((o for o in ops if o.topic == topic), key=lambda o: o.name):
            cells = [cell(names[op.name].get(peer, [])) for peer in PEERS]
            out.append(f'| `{op.name}` | {gradient(op, with_rule)} | ' + ' | '.join(cells) + ' |\n')
    out.append('\n## What others have\n\nNot there:\n\n')
    for peer, title in PEERS.items():
        out.append(f'- {title}: ' + (', '.join(f'`{n}`' for n in sorted(missing.get(peer, []))) or 'nothing') + '\n')
    out.append('\nNo ops here, for other reasons:\n\n')
    out += [f'- {reason}: ' + ', '.join(f'`{n}`' for n in sorted(group)) + '\n' for reason, group in other]
    return ''.join(out)


def main(root, *options):
    root = pathlib.Path(root)
    rows = read_ops(root)
    ops = [op for op in rows if not op.hidden]
    peers, same, other = read_peers(root)
    names, missing, stale = match(ops, peers, same, other)
    want, with_rule = None, rules(root)
    wrong = [f'same.txt names {name}, which is no op' for name in stale]
    wrong += [f'{op.name} has no topic' for op in ops if not op.topic]
    wrong += [f'{op.name} has no gradient, no rule, and does not say that it is zero' for op in ops
              if op.kind == 'STRUCTURED' and gradient(op, with_rule) == 'none']
    want = page(ops, names, missing, other, with_rule, on_cpu_alone(root, rows))
    if '--write' in options:
        (root / PAGE).write_text(want)
    elif not (root / PAGE).exists() or (root / PAGE).read_text() != want:
        wrong.append(f'{PAGE} is not what the tables say; tests/rules/check_coverage.py . --write makes it')
    left = ', '.join(f'{len(missing.get(p, []))} of {PEERS[p]}' for p in PEERS)
    print('\n'.join(wrong) or f'{len(ops)} ops; missing: {left}')
    return int(bool(wrong))


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
