#!/usr/bin/env python3
"""Check docs/guide/ops.md, the list of all public functions by topic, and the names in the pages of the guide.

usage: check_guide.py ROOT BUILD-INCLUDE [--write]

Functions and their texts are read from the headers, topics of ops from the tables of src/ops; guide_words.txt beside
this file has the order and the words of topics, and texts for functions whose header speaks of several at once. --write
makes the page. Every function has a text, and every name of Kiln in README.md and docs/guide is one that the headers,
the build or the environment know; options in calls have the fields that are given.
"""
import pathlib
import re
import sys

import check_coverage
import public_api

PAGE = 'docs/guide/ops.md'
GRADIENT = re.compile(r'(_backward|_again|_grad)$')
NAME = re.compile(r'\b(?:kiln|KILN)_\w*\w')
CALL = re.compile(r'\b(KILN_[A-Z0-9_]+)\(((?:[^()]|\([^()]*\))*)\)')
HEAD = """# Ops and functions by topic

All public functions, written by `tests/rules/check_guide.py . build/include --write` from their headers. The
[coverage](../coverage.md) page has the names that ops have in NumPy, PyTorch, MLX and MindSpore.

How calls are written here: `shape` stands for rank and dimensions, which `KILN_SHAPE(2, 3)` gives; a name in capitals
is the macro of the options, as in `kiln_sum(x, KILN_REDUCE(.axes = KILN_AXES(1)))`, and NULL takes all defaults.
Elementwise ops of two or three operands take plain numbers, too: `kiln_mul(x, 3)`. `name_` is the same op in place.
Handles that are made belong to the innermost scope ([ownership](errors.md)).
"""


class Words:
    """Topics in order: keys, title and lead; and texts of functions."""

    def __init__(self, path):
        self.topics, self.texts = [], {}
        for line in path.read_text().splitlines():
            topic = re.match(r'\[(.*)\] (.*)$', line)
            text = re.match(r'(kiln_\w+): (.*)$', line)
            if topic:
                self.topics.append(([key.strip() for key in topic[1].split(',')], topic[2], []))
            elif text:
                self.texts[text[1]] = text[2]
            elif line and not line.startswith('#'):
                self.topics[-1][2].append(line)


def topic_keys(root):
    """{op: topic}: of elementwise ops the comment above its rows, of others that of docs/coverage.md."""
    ops = check_coverage.read_ops(root)
    keys = {name: op.topic for op in ops for name in (op.name, op.also, op.was) if name}
    title = ''
    for line in (root / 'src/ops/elementwise.def').read_text().splitlines():
        row = check_coverage.ROW.match(line)
        if line.startswith('// '):
            title = line[3:].split(',')[0].rstrip('.').lower()
        elif row:
            keys[row[2]] = title
            keys.update({other: title for other in re.findall(r'\.(?:also|was) = "(\w+)"', row[3])})
    return keys


def key_of(function, ops, declared):
    short = function.name[5:]
    if function.header in ('ops.h', 'composites.h'):
        return 'gradients of ops' if GRADIENT.search(short) else ops.get(short, function.header)
    if short in declared:
        return ops[short]
    return f'{function.header}/{function.section}' if function.section else function.header


def sentences(doc, whole):
    """The first paragraph of a text that the build wrote, else the first sentence, or two short ones."""
    text = re.sub(r'^ {4}.*$', '', doc, flags=re.M)
    text = re.sub(r'\s+', ' ', text.split('\n\n')[0] if whole else text).strip()
    if whole:
        return text
    parts = re.split(r'(?<=[.:;])(?<!al\.) (?=[A-Z`"(*]|kiln)', text)
    out = parts[0]
    for part in parts[1:]:
        if len(out) > 60 and not out.endswith((':', ';')):
            break
        if part.startswith(('Errors', 'KILN_E_')):
            break
        out += ' ' + part
    return out.rstrip(':;')


def marked(text, arguments):
    """A text of a header as Markdown in a table: names are code, nothing else is read as marks."""
    pieces = re.split(r'(`[^`]*`)', text)
    for at in range(0, len(pieces), 2):
        piece = re.sub(r'([*|<\\])', r'\\\1', pieces[at])
        piece = re.sub(r'(?<![\w.])\.(?=[a-z]\w*\b)(\w+)', r'`.\1`', piece)
        pieces[at] = re.sub(r'\b((?:kiln|KILN)_\w+(?:\(\))?)(?!`)', r'`\1`', piece)
    out = ''.join(pieces)
    formula = re.match(r'\w+[\[(^]|[a-z] ', out) or re.match(r'\w*', out)[0] in arguments
    return out if formula else out[:1].upper() + out[1:]


def text_of(function, words):
    own = words.texts.get(function.name)
    if own:
        return own
    written = function.header in ('ops.h', 'composites.h')
    return sentences(function.doc, written) if function.doc else None


def rows(functions, options, words, known):
    """Lines of a table; a function without a text of its own shares the line above."""
    out = []
    for function in functions:
        call, text = f'`{function.call(options)}`', text_of(function, words)
        if text is None:
            if out:
                out[-1][0].append(call)
            continue
        text = marked(text, {name for _, name in function.arguments})
        if text and text[-1] not in '.)':
            text += '.'
        if function.name + '_' in known:
            text += f' In place: `{function.name}_`.'
        used = [macro for macro in re.findall(r'KILN_\w+', call) if macro in options]
        fields = [f'`.{field}`' for macro in used for field in options[macro][1]]
        if fields:
            text += f' Options: {", ".join(fields)}.'
        out.append(([call], text))
    return [f'| {"<br>".join(calls)} | {text} |' for calls, text in out]


def page(functions, options, words, root):
    """The page, and complaints. What guide_words.txt does not know has a topic of its own at the end."""
    ops, by_key, known = topic_keys(root), {}, {f.name for f in functions}
    declared = {op.name for op in check_coverage.read_ops(root) if op.kind == 'DECLARED'}
    for function in functions:
        in_place = function.name.endswith('_') and function.name[:-1] in known
        if not takes_operands(function) and not in_place:
            by_key.setdefault(key_of(function, ops, declared), []).append(function)
    named = {key for keys, _, _ in words.topics for key in keys}
    bad = [f'guide_words.txt: {key} has no functions' for key in sorted(named - set(by_key))]
    bad += [f'guide_words.txt: {key} is in two topics' for key in sorted(named)
            if sum(key in keys for keys, _, _ in words.topics) > 1]
    out = [HEAD]
    rest = [([key], f'More: {key}', []) for key in sorted(set(by_key) - named)]
    for keys, title, lead in words.topics + rest:
        out.append(f'\n## {title}\n\n' + (' '.join(lead) + '\n\n' if lead else ''))
        out.append('| call | what it does |\n|---|---|\n')
        lines = rows([f for key in keys for f in by_key.get(key, [])], options, words, known)
        out.append(''.join(f'{line}\n' for line in lines))
    out.append('\n## What numbers go through\n\nOps with plain numbers among their operands are calls of these; '
               'programs need not name them:\n'
               + ', '.join(f'`{f.name}`' for f in functions if takes_operands(f)) + '.\n')
    return ''.join(out), bad


def takes_operands(function):
    return any('kiln_operand' in kind for kind, _ in function.arguments)


def known_names(root, include, build_include):
    text = ''.join(p.read_text() for p in public_api.headers(include, build_include))
    text += ''.join(p.read_text() for p in sorted((root / 'include/kiln').rglob('*.hpp')))
    text += (pathlib.Path(build_include) / 'kiln/ops.hpp').read_text()
    text += (root / 'docs/guide/environment.md').read_text()
    return set(NAME.findall(text))


def check_names(root, names, options):
    """Names in the pages; what a program of a page defines is its own."""
    bad = []
    for path in [root / 'README.md', *sorted((root / 'docs/guide').glob('*.md'))]:
        text = path.read_text()
        for name in sorted(set(NAME.findall(text)) - names):
            if not any(other.startswith(name) for other in names):  # "kiln_bundle_...", a family
                bad.append(f'{path.relative_to(root)}: no header has {name}')
        for macro, inside in CALL.findall(text):
            fields = set(re.findall(r'(?:^|[,(\s])\.(\w+)\s*=', re.sub(r'\([^()]*\)', '', inside)))
            known = {*options[macro][1], 'field'} if macro in options else fields  # "field": any
            bad += [f'{path.relative_to(root)}: {macro} has no .{name}' for name in sorted(fields - known)]
    return bad


def main(root, build_include, *rest):
    root = pathlib.Path(root).resolve()
    include = root / 'include/kiln'
    functions, options = public_api.read_api(include, build_include)
    words = Words(pathlib.Path(__file__).resolve().parent / 'guide_words.txt')
    want, bad = page(functions, options, words, root)
    names = {f.name for f in functions}
    bad += [f'guide_words.txt: {name} is no function' for name in sorted(set(words.texts) - names)]
    for before, function in zip([None, *functions], functions):
        if text_of(function, words) is None and (before is None or before.header != function.header):
            bad.append(f'{function.header}: {function.name} has no text')
    if '--write' in rest:
        (root / PAGE).write_text(want)
    elif not (root / PAGE).exists() or (root / PAGE).read_text() != want:
        bad.append(f'{PAGE} is not what the headers say; tests/rules/check_guide.py . build/include --write makes it')
    guide = ''.join(p.read_text() for p in sorted((root / 'docs/guide').glob('*.md')))
    bad += [f'docs/guide: no page names {name}' for name in sorted(names - set(NAME.findall(guide)))]
    bad += check_names(root, known_names(root, include, build_include), options)
    print('\n'.join(bad) or f'{len(names)} functions in {len(words.topics)} topics')
    return int(bool(bad) or not names)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
