#!/usr/bin/env python3
"""The pages of docs/ as one site of HTML that needs nothing but itself.

usage: build.py ROOT OUTPUT

README.md is the first page; docs/guide/README.md gives the groups of the list at the side; files that pages link to
become pages, too, with numbered lines. Names of functions lead to their rows in the list of ops. Links that lead
nowhere end the build.
"""
import html
import json
import os
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import colours  # noqa: E402
import markdown  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
OPS = 'docs/guide/ops.md'
MORE = ('Of the library', ['docs/architecture.md', 'docs/adding-an-op.md', 'docs/words.md', 'docs/performance.md',
                           'docs/coverage.md', 'docs/changes.md', 'docs/status.md', 'docs/decisions'])
GRAPHICS = {'.svg', '.png', '.jpg'}
FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="{up}assets/icon.svg">
<link rel="stylesheet" href="{up}assets/site.css">
<script>
try {{ const t = localStorage.getItem("kiln-theme"); if (t) document.documentElement.dataset.theme = t; }}
catch (e) {{ /* the system's choice */ }}
</script>
</head>
<body data-up="{up}">
<a class="skip" href="#content">To the text</a>
<header>
<button id="menu" aria-label="List of pages" aria-expanded="false">☰</button>
<a class="home" href="{up}index.html">Kiln</a>
<div class="search" role="search"><input id="search" type="search" placeholder="Search  /" aria-label="Search"
 autocomplete="off"><ol id="found" hidden></ol></div>
<button id="theme" aria-label="Light or dark">◐</button>
</header>
<div class="frame">
<nav id="pages" aria-label="Pages">
{nav}
</nav>
<main id="content">
{body}
{around}
</main>
<aside aria-label="On this page">
{toc}
</aside>
</div>
<script src="{up}assets/site.js"></script>
</body>
</html>
"""


class Site:
    def __init__(self, root, output):
        self.root, self.output = root, output
        self.bad, self.files, self.index = [], set(), []
        self.sources = ['README.md', *self.guide()]
        for folder in ('docs', 'docs/decisions'):
            self.sources += [str(p.relative_to(root)) for p in sorted((root / folder).glob('*.md'))]
        self.titles = {source: self.title_of(source) for source in self.sources}
        self.functions = set(re.findall(r'^\| `(kiln_\w+)\(|<br>`(kiln_\w+)\(', (root / OPS).read_text(), re.M))
        self.functions = {a or b for a, b in self.functions}

    def guide(self):
        found = [str(p.relative_to(self.root)) for p in sorted((self.root / 'docs/guide').glob('*.md'))]
        listed = re.findall(r'\]\(([\w-]+\.md)\)', (self.root / 'docs/guide/README.md').read_text())
        first = [f'docs/guide/{name}' for name in listed]
        ordered = list(dict.fromkeys(['docs/guide/README.md', *first]))
        return [page for page in ordered if page in found] + [page for page in found if page not in ordered]

    def title_of(self, source):
        found = re.search(r'^# (.*)$', (self.root / source).read_text(), re.M)
        if not found:
            self.bad.append(f'{source}: no heading')
        return re.sub(r'[`*]', '', found[1]) if found else source

    def address(self, source):
        """Where the page of a file of the project lies in the site."""
        if source == 'README.md':
            return 'index.html'
        if source in self.titles:
            return re.sub(r'\.md$', '.html', source.removeprefix('docs/'))
        if pathlib.PurePath(source).suffix in GRAPHICS:
            return f'files/{source}'
        return f'files/{source}.html'

    def nav(self, here, up):
        def entry(source, title):
            where = ' aria-current="page"' if source == here else ''
            return f'<li><a href="{up}{self.address(source)}"{where}>{html.escape(title)}</a></li>'
        out, group = [entry('README.md', 'Overview')], []
        for line in (self.root / 'docs/guide/README.md').read_text().splitlines():
            title, item = re.match(r'\*\*(.*)\*\*$', line), re.match(r'- \[([^\]]*)\]\(([\w-]+\.md)\)', line)
            if title:
                out.append(f'</ul><h2>{html.escape(title[1])}</h2><ul>')
            elif item:
                group.append(f'docs/guide/{item[2]}')
                out.append(entry(group[-1], re.sub(r'[`*]', '', item[1])))
                more = re.search(r' and \[from JAX\]\((from-jax\.md)\)', line)
                if more:
                    out.append(entry('docs/guide/from-jax.md', 'From JAX'))
            elif line.startswith('## '):
                break
        out.append(f'</ul><h2>{MORE[0]}</h2><ul>')
        for source in MORE[1]:
            if source == 'docs/decisions':
                self.files.add(source)
                out.append(entry(source, 'Decisions'))
            elif source in self.titles:
                out.append(entry(source, self.titles[source]))
        return '<ul>' + '\n'.join(out) + '</ul>'

    def link(self, source, up, target):
        if re.match(r'\w+:', target):
            return target
        path, _, anchor = target.partition('#')
        if not path:
            return '#' + anchor
        full = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if not (self.root / full).exists():
            self.bad.append(f'{source}: the link {target} leads nowhere')
        elif full not in self.titles:
            self.files.add(full)
        return up + self.address(full) + ('#' + anchor if anchor else '')

    def function(self, up, name):
        return f'{up}{self.address(OPS)}#{name}' if name in self.functions else None

    def picture(self, source, up, target, text):
        """Drawings stand in the page itself, so that they have its colours."""
        where, path = self.link(source, up, target), (self.root / source).parent / target
        if path.suffix == '.svg' and path.exists():
            inside = path.read_text().replace('<svg ', f'<svg role="img" aria-label="{html.escape(text)}" ', 1)
        else:
            inside = f'<img src="{where}" alt="{html.escape(text)}">'
        return f'<figure>{inside}<figcaption>{html.escape(text)}</figcaption></figure>'

    def code(self, up, text, info):
        language = info.split()[0] if info else 'plain'
        quoted = f'<div class="from">{html.escape(info.split(" from ")[1])}</div>' if ' from ' in info else ''
        looks = language in colours.LANGUAGES or '#include' in text
        inside = colours.paint(text, lambda name: self.function(up, name)) if looks else html.escape(text, quote=False)
        return f'<div class="code {language}">{quoted}<pre><code>{inside}</code></pre></div>'

    def name(self, up, text):
        found = re.match(r'kiln_\w+', text)
        where = self.function(up, found[0]) if found else None
        inside = f'<code>{html.escape(text, quote=False)}</code>'
        return f'<a class="f" href="{where}">{inside}</a>' if where else inside

    def row(self, source, cells):
        names = re.findall(r'`(kiln_\w+)\(', cells[0]) if source == OPS else []
        return f' id="{names[0]}"' if names else ''

    def page(self, source):
        up = '../' * self.address(source).count('/')
        name = (lambda text: f'<code>{html.escape(text, quote=False)}</code>') if source == OPS else (
            lambda text: self.name(up, text))
        text = (self.root / source).read_text()
        page = markdown.Page(text, lambda t: self.link(source, up, t), lambda t, i: self.code(up, t, i), name,
                             lambda t, alt: self.picture(source, up, t, alt), lambda cells: self.row(source, cells))
        body = page.html
        if source == OPS:  # further names of a row
            body = re.sub(r'<br><code>(kiln_\w+)\(', r'<br><code id="\1">\1(', body)
        self.remember(source, page)
        self.write(self.address(source), self.titles[source], body, source, page.headings)

    def remember(self, source, page):
        """What the search finds: [title, address, section, text]; functions by themselves."""
        where = self.address(source)
        if source == OPS:
            for line in (self.root / source).read_text().splitlines():
                found = re.match(r'\| (.*?) \| (.*) \|$', line)
                if found:
                    text = re.sub(r'[`\\]', '', found[2])
                    self.index += [[name, f'{where}#{name}', '', text[:160]] for name in
                                   re.findall(r'`(kiln_\w+)\(', found[1])]
            return
        for title, anchor, words in page.sections:
            text = re.sub(r'\s+', ' ', ' '.join(words)).strip()
            if title or text:
                self.index.append([self.titles[source], where + (f'#{anchor}' if anchor else ''),
                                   title if title != self.titles[source] else '', text[:1200]])

    def around(self, source, up):
        """Links to the page before and the one after it."""
        if source not in self.sources:
            return ''
        at = self.sources.index(source)
        out = []
        for other, word in ((at - 1, '← '), (at + 1, '→ ')):
            if 0 <= other < len(self.sources):
                page = self.sources[other]
                out.append(f'<a href="{up}{self.address(page)}">{word}{html.escape(self.titles[page])}</a>')
        return f'<div class="around">{"".join(out)}</div>'

    def write(self, where, title, body, source, headings=()):
        up = '../' * where.count('/')
        toc = ''.join(f'<li class="l{level}"><a href="#{anchor}">{html.escape(text)}</a></li>'
                      for level, text, anchor in headings if level in (2, 3))
        toc = f'<h2>On this page</h2><ul>{toc}</ul>' if toc else ''
        path = self.output / where
        path.parent.mkdir(parents=True, exist_ok=True)
        full = title if title == 'Kiln' else f'{title} – Kiln'
        path.write_text(FRAME.format(title=html.escape(full), up=up, nav=self.nav(source, up), body=body, toc=toc,
                                     around=self.around(source, up)))

    def file(self, source):
        """A file that a page leads to: a picture as it is, a folder as a list, a text with its lines."""
        path, where = self.root / source, self.address(source)
        up = '../' * where.count('/')
        if path.suffix in GRAPHICS:
            target = self.output / where
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
            return
        title = f'<h1>{html.escape(source)}</h1>'
        if path.is_dir():
            inside = [str(p.relative_to(self.root)) for p in sorted(path.iterdir())
                      if p.is_file() and p.suffix in ('.c', '.h', '.hpp', '.cpp', '.md', '.def', '.py')]
            self.files |= {p for p in inside if p not in self.titles}
            items = ''.join(f'<li><a href="{up}{self.address(p)}">{html.escape(self.titles.get(p, p.split("/")[-1]))}'
                            '</a></li>' for p in inside)
            self.write(where, source, f'{title}<ul>{items}</ul>', source)
            return
        text = path.read_text(errors='replace').rstrip('\n')
        c = path.suffix in ('.c', '.h', '.hpp', '.cpp')
        painted = colours.paint(text, lambda name: self.function(up, name)) if c else html.escape(text, quote=False)
        numbers = '\n'.join(str(n) for n in range(1, text.count('\n') + 2))
        self.write(where, source, f'{title}<div class="code file"><pre class="lines" aria-hidden="true">{numbers}</pre>'
                   f'<pre><code>{painted}</code></pre></div>', source)

    def build(self):
        if (self.output / 'assets/words.js').exists():  # an earlier site, and no other folder
            shutil.rmtree(self.output)
        (self.output / 'assets').mkdir(parents=True, exist_ok=True)
        for asset in ('site.css', 'site.js', 'icon.svg'):
            shutil.copy(HERE / asset, self.output / 'assets' / asset)
        for source in self.sources:
            self.page(source)
        done = set()
        while self.files - done:
            for source in sorted(self.files - done):
                self.file(source)
                done.add(source)
        words = json.dumps(self.index, ensure_ascii=False, separators=(',', ':'))
        (self.output / 'assets/words.js').write_text(f'window.kilnWords = {words};\n')
        return len(self.sources), len(done)


def main(root, output):
    site = Site(pathlib.Path(root).resolve(), pathlib.Path(output).resolve())
    pages, files = site.build()
    print('\n'.join(site.bad) or f'{pages} pages and {files} files in {site.output / "index.html"}')
    return int(bool(site.bad))


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
