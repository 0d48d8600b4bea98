#!/usr/bin/env python3
"""Build the site of docs/ and check it: every link leads to a page and a place in it, no two places of a page have one
name, tags close in order, nothing comes from elsewhere, nothing of Markdown is left over, and the search knows where
things are. First the Markdown itself, piece by piece.

usage: check_site.py ROOT
"""
import html.parser
import json
import pathlib
import re
import sys
import tempfile

VOID = {'br', 'img', 'input', 'link', 'meta', 'hr'}
LEFT_OVER = re.compile(r'\]\([\w./#-]+\)|```|^\s*\|[ -]*\||\*\*\w|\0')
CASES = [
    ('# A `b` c', '<h1 id="a-b-c">A <code>b</code> c'),
    ('one\ntwo', '<p>one two</p>'),
    ('**b** and *i*, 2 * 3 * 4', '<p><strong>b</strong> and <em>i</em>, 2 * 3 * 4</p>'),
    ('a < b & c', '<p>a &lt; b &amp; c</p>'),
    ('`a < *b*`', '<p><code>a &lt; *b*</code></p>'),
    ('[text `code`](x.md#y)', '<p><a href="LINK x.md#y">text <code>code</code></a></p>'),
    ('- one\n  more\n- two', '<ul>\n<li>one more</li>\n<li>two</li>\n</ul>'),
    ('1. one\n\n   ```c\n   int x;\n   ```\n2. two', '<ol>\n<li>one\nCODE c int x;</li>\n<li>two</li>\n</ol>'),
    ('| a | b |\n|---|---|\n| `x \\| y` | z\\*<br>w |', '<td><code>x | y</code></td><td>z*<br>w</td>'),
    ('```text\n# no heading\n```', 'CODE text # no heading'),
    ('    indented\n\n    more', 'CODE plain indented\n\nmore'),
    ('text\n- item', '<p>text</p>\n<ul>\n<li>item</li>\n</ul>'),
    ('![alt](a.svg)', 'IMAGE a.svg alt'),
    ('![a](1.svg) ![b](2.svg)', 'IMAGE 1.svg aIMAGE 2.svg b'),
]

# What has to be found in a page that is bad.
FAULTS = [
    ('<p><a href="nowhere.html">x</a></p>', 'nowhere.html leads nowhere'),
    ('<p><a href="index.html#nothing">x</a></p>', 'there is no such place'),
    ('<p id="a">x</p><p id="a">y</p>', 'two places are named a'),
    ('<ul><li>x</ul></li>', '</ul>'),
    ('<p>x', 'not closed'),
    ('<p><img src="assets/icon.svg"></p>', 'a picture without a text'),
    ('<script src="https://example.org/x.js"></script>', 'comes from elsewhere'),
    ('<p>see [this](page.md)</p>', 'left over'),
]


class Reader(html.parser.HTMLParser):
    """Links, names and text of one page; what is wrong with its tags."""

    def __init__(self):
        super().__init__()
        self.links, self.names, self.bad, self.open, self.text = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.links += [attrs[key] for key in ('href', 'src') if attrs.get(key)]
        if 'id' in attrs:
            self.names.append(attrs['id'])
        if tag == 'img' and not attrs.get('alt'):
            self.bad.append(f'a picture without a text: {attrs.get("src")}')
        if tag in ('script', 'link', 'img') and re.match(r'\w+:|//', attrs.get('src') or attrs.get('href') or ''):
            self.bad.append(f'comes from elsewhere: {attrs}')

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open[-1] != tag:
            self.bad.append(f'</{tag}> at {self.getpos()} closes {self.open[-1:]}')
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        if not {'code', 'pre', 'script', 'svg'} & set(self.open):
            self.text.append(data)


def check_markdown(markdown):
    bad = []
    for text, want in CASES:
        page = markdown.Page(text, lambda t: f'LINK {t}', lambda t, i: f'CODE {i} {t}',
                             lambda t: '<code>' + t.replace('<', '&lt;') + '</code>', lambda t, alt: f'IMAGE {t} {alt}',
                             lambda cells: '')
        if want not in page.html:
            bad.append(f'{text!r} became {page.html!r}, not {want!r}')
    return bad


def read_pages(folder):
    pages = {}
    for path in sorted(folder.rglob('*.html')):
        reader = Reader()
        reader.feed(path.read_text())
        pages[path] = reader
    return pages


def check_page(path, reader, pages, folder):
    bad = list(reader.bad) + [f'not closed: {reader.open}'] * bool(reader.open)
    bad += [f'two places are named {name}' for name in {n for n in reader.names if reader.names.count(n) > 1}]
    for link in reader.links:
        if re.match(r'\w+:', link):
            continue
        file, _, anchor = link.partition('#')
        target = (path.parent / file).resolve() if file else path
        if not target.is_file():
            bad.append(f'{link} leads nowhere')
        elif anchor and target in pages and anchor not in pages[target].names:
            bad.append(f'{link}: there is no such place')
    if not path.is_relative_to(folder / 'files'):
        bad += [f'left over: {text.strip()[:80]}' for text in reader.text if LEFT_OVER.search(text)]
    return [f'{path.relative_to(folder)}: {text}' for text in bad]


def check_faults(pages, folder):
    bad = []
    for text, wanted in FAULTS:
        reader = Reader()
        reader.feed(text)
        found = check_page(folder / 'fault.html', reader, pages, folder)
        if not any(wanted in complaint for complaint in found):
            bad.append(f'{text} is not told: {found}')
    return bad


def main(root):
    root = pathlib.Path(root).resolve()
    sys.path.insert(0, str(root / 'docs/site'))
    import build
    import markdown
    bad = check_markdown(markdown)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place).resolve()
        site = build.Site(root, folder)
        site.build()
        bad += site.bad
        pages = read_pages(folder)
        bad += check_faults(pages, folder)
        for path, reader in pages.items():
            bad += check_page(path, reader, pages, folder)
        words = json.loads((folder / 'assets/words.js').read_text().removeprefix('window.kilnWords = ').rstrip(';\n'))
        for title, where, _, _ in words:
            file, _, anchor = where.partition('#')
            if folder / file not in pages or (anchor and anchor not in pages[folder / file].names):
                bad.append(f'the search: {title} is not at {where}')
        written = {str(p.relative_to(root)) for p in [root / 'README.md', *(root / 'docs').rglob('*.md')]}
        bad += [f'{page} is not in the site' for page in sorted(written - set(site.sources))]
        names = [name for name, _, _, _ in words if name.startswith('kiln_')]
        if len(names) < 1000:
            bad.append(f'the search knows {len(names)} functions')
        links = sum(len(reader.links) for reader in pages.values())
    print('\n'.join(bad) or f'{len(pages)} pages, {links} links, {len(words)} entries of the search')
    return int(bool(bad))


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
