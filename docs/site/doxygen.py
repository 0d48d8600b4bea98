#!/usr/bin/env python3
"""The reference by Doxygen: the public headers, with README.md as the first page and a group for each topic.

usage: doxygen.py ROOT BUILD-INCLUDE OUTPUT VERSION [xml]

Doxygen reads copies of the headers in which each function says its group, the topic of docs/guide/ops.md, and has a
text of its own where the header has one for several. Its warnings are errors. With "xml" it writes XML in the place of
HTML.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/rules'))
import check_coverage  # noqa: E402
import check_guide  # noqa: E402
import public_api  # noqa: E402


def identifier(title):
    return 'topic_' + re.sub(r'\W+', '_', title.lower()).strip('_')


class Groups:
    """Which function is in which group."""

    def __init__(self, root, functions):
        self.words = check_guide.Words(root / 'tests/rules/guide_words.txt')
        ops = check_guide.topic_keys(root)
        declared = {op.name for op in check_coverage.read_ops(root) if op.kind == 'DECLARED'}
        titles = {key: title for keys, title, _ in self.words.topics for key in keys}
        self.of, self.text = {}, {}
        for function in functions:
            key = check_guide.key_of(function, ops, declared)
            self.of[function.name] = titles.get(key, f'More: {key}')
            self.text[function.name] = check_guide.text_of(function, self.words)

    def definitions(self):
        """Text that defines them, in the order of the guide."""
        titles = [title for _, title, _ in self.words.topics]
        titles += sorted(set(self.of.values()) - set(titles))
        return ''.join(f'/** @defgroup {identifier(title)} {title} */\n' for title in titles)


def marked(text):
    """The lines of a comment for Doxygen, which takes some signs for commands and tags."""
    text = re.sub(r'(?<![\w\\])([@\\#%])(?=\w)', r'\\\1', text).replace('<', '\\<')
    return re.sub(r'`([^`]*[\[{][^`]*)`', r'\1', text)  # Doxygen takes brackets in code for links


def header(path, groups):
    """A header as Doxygen is to read it."""
    out, comment, shared, group = [], [], '', None
    lines = path.read_text().splitlines()
    for at, line in enumerate(lines):
        if line.startswith('///'):
            comment.append('///' + marked(line[3:]) if not line.startswith('/// @file') else line)
            continue
        name = next((found[1] for end in range(at, min(at + 8, len(lines))) if line.startswith('KILN_API')
                     for found in [re.search(r'\b(kiln_\w+)\s*\(', ' '.join(lines[at:end + 1]))] if found), None)
        if name:
            group = groups.of.get(name)
            shared = comment or shared
            own = groups.words.texts.get(name)
            text = [f'/// {marked(own)}'] if own else comment or shared
            out += [*text, f'/// @ingroup {identifier(group)}'] if group else text
        elif line.startswith('typedef struct') and comment and group:
            out += [*comment, f'/// @ingroup {identifier(group)}']
        else:
            out += comment
        if not line.strip():
            shared = ''
        comment = []
        before, mark, after = line.partition('///<')
        out.append(before + mark + marked(after))
    return '\n'.join(out + comment) + '\n'


def first_page(root):
    """README.md with links to the site beside the reference."""
    def where(found):
        path, _, anchor = found[2].partition('#')
        if '://' in path:
            return found[0]
        page = re.sub(r'\.md$', '.html', path.removeprefix('docs/')) if path.endswith('.md') else 'index.html'
        return f'<a href="../../site/{page}{"#" + anchor if anchor else ""}">{found[1]}</a>'
    text = re.sub(r'^!\[.*\n', '', (root / 'README.md').read_text(), flags=re.M)
    return re.sub(r'\[([^\]]*)\]\(([^)\s]*)\)', where, text)


def main(root, build_include, output, version, *options):
    root, output = pathlib.Path(root).resolve(), pathlib.Path(output).resolve()
    functions, _ = public_api.read_api(root / 'include/kiln', build_include)
    groups, source = Groups(root, functions), output / 'input'
    source.mkdir(parents=True, exist_ok=True)
    for path in public_api.headers(root / 'include/kiln', build_include):
        (source / path.name).write_text(header(path, groups))
    (source / 'topics.dox').write_text(groups.definitions())
    (source / 'README.md').write_text(first_page(root))
    xml = 'xml' in options
    text = (root / 'docs/Doxyfile.in').read_text()
    for key, value in {'VERSION': version, 'INPUT': source, 'OUTPUT': output, 'HTML': 'NO' if xml else 'YES',
                       'XML': 'YES' if xml else 'NO'}.items():
        text = text.replace(f'@{key}@', str(value))
    (output / 'Doxyfile').write_text(text)
    result = subprocess.run(['doxygen', str(output / 'Doxyfile')], capture_output=True, text=True)
    print(result.stderr.replace(str(source) + '/', '')[:20000] or f'{len(functions)} functions in {output}')
    return int(bool(result.returncode or result.stderr.strip()))


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
