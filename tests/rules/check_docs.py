#!/usr/bin/env python3
"""Check the pages of docs/ against the project: programs, quoted sources, environment variables and links.

usage: check_docs.py ROOT BUILD-INCLUDE LIBRARY COMPILER...

A ```c block that begins with #include is a program; any other ```c block is the body of the main function that
docs/guide/README.md shows. Both are compiled without a warning and run on the CPU. Where a ```text block comes next,
before any other block and heading, it must be what the program printed; a program without one prints nothing, or the
numbers that its comments state with "about". ```cpp blocks are the same in C++17, where there is a compiler of it, with
CXX_FRAME around them. A block ```c from FILE must lie in that file, line by line. Each variable that src/ asks for has
a row in docs/guide/environment.md, and each row is asked for; the flags of KILN_DEBUG stand there as in
src/base/debug.def. The table of constructs in docs/guide/modes.md is that of tests/jit/modes.def, which a test goes
through line by line.
Links between pages lead somewhere.
"""
import concurrent.futures
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FRAME = ('#include <kiln/kiln.h>', '#include <math.h>', '', 'int main(void)', '{',
         '    kiln_device *dev = kiln_device_open(NULL);', '    kiln_scope *scope = kiln_scope_begin();')
FRAME_END = ('    if (kiln_error()) fprintf(stderr, "%s\\n", kiln_error_message());', '    kiln_scope_end(&scope);',
             '    kiln_device_close(&dev);', '    return 0;', '}')
CXX_FRAME = ('#include <kiln/kiln.hpp>', '#include <iostream>', 'using namespace kiln;', 'using std::cout;',
             'int main()', '{', '    kiln::device dev;')
WARNINGS = ('-g', '-Wall', '-Wextra', '-Wno-unused-parameter', '-Werror')
CXX = ('c++', '-std=c++17', '-Wno-unused-value')
PAGE = 'docs/guide/environment.md'
FLAGS = 'src/base/debug.def'
MODES, LINES = 'docs/guide/modes.md', 'tests/jit/modes.def'


def blocks_of(text):
    """Yields (line, info, lines) for each fenced block, and (line, 'heading', []) for headings between."""
    info, lines, start, indent = None, [], 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith('```'):
            if info is None:
                indent = len(line) - len(line.lstrip())     # a block within a list
                info, lines, start = line.strip()[3:].strip(), [], number
            else:
                yield start, info, lines
                info = None
        elif info is not None:
            lines.append(line[indent:])
        elif line.startswith('#'):
            yield number, 'heading', []


def whole(lines):
    """The source of a program: as it is, or put into the frame."""
    if lines and lines[0].startswith('#include'):
        return '\n'.join(lines) + '\n'
    return '\n'.join(FRAME + tuple('    ' + line if line else '' for line in lines) + FRAME_END) + '\n'


def whole_cxx(lines):
    return '\n'.join(lines if lines and lines[0].startswith('#include') else [*CXX_FRAME, *lines, '}']) + '\n'


def batch(bodies):
    """One source of many examples in the frame, each a function of its own with the lines that it has by itself."""
    parts = ['\n'.join(line for line in FRAME if line.startswith('#'))]
    for number, lines in enumerate(bodies):
        text = whole(lines).replace('int main(void)', f'static int example_{number}(void)', 1)
        parts.append('#line 1 "example.c"\n' + re.sub(r'^#include.*$', '', text, flags=re.M))
    table = ', '.join(f'example_{number}' for number in range(len(bodies)))
    main = ('#include <stdlib.h>', 'int main(int argc, char **argv)', '{',
            f'    int (*const examples[])(void) = {{{table}}};', '    return examples[atoi(argv[1])]();', '}')
    return '\n'.join([*parts, *main]) + '\n'


def build(text, tools, folder, cxx=False):
    """Compiles a source to folder/example; returns what the compiler complains about, or ''."""
    include, library, compiler = tools
    source = folder / ('example.cpp' if cxx else 'example.c')
    source.write_text(text)
    words = CXX if cxx else [*compiler, '-std=c17']
    result = subprocess.run([*words, *WARNINGS, source.name, '-o', 'example', *[f'-I{path}' for path in include],
                             str(library), '-lm', f'-Wl,-rpath,{library.parent}'], cwd=folder, capture_output=True,
                            text=True)
    return result.stderr or 'failed' if result.returncode else ''


def read_ahead(tools, folder):
    """The tools with kiln.hpp as GCC has read it once, for all; a compiler that cannot use it reads it anew."""
    include, library, compiler = tools
    header = folder / 'kiln/kiln.hpp'
    header.parent.mkdir()
    header.write_text(f'#include "{include[0]}/kiln/kiln.hpp"\n')
    subprocess.run([*CXX, *WARNINGS, *[f'-I{path}' for path in include], '-x', 'c++-header', str(header), '-o',
                    f'{header}.gch'], capture_output=True)
    return [folder, *include], library, compiler


def start(folder, *args):
    """Runs folder/example in a folder of its own; returns what it printed, or a complaint."""
    env = {**os.environ, 'KILN_DEVICE': 'cpu', 'OMP_WAIT_POLICY': 'passive'}
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run([str(folder / 'example'), *args], cwd=place, env=env, capture_output=True, text=True,
                              timeout=120)
    if done.returncode:
        return None, f'exit status {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout + done.stderr, None


def run(lines, tools, cxx=False):
    """Compiles and runs one example; returns what it printed, or a complaint."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        complaint = build(whole_cxx(lines) if cxx else whole(lines), tools, folder, cxx)
        return (None, complaint) if complaint else start(folder)


def run_batch(bodies, tools):
    """The same of many examples in the frame, compiled together; where that fails, each by itself."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if build(batch(bodies), tools, folder):
            return [run(lines, tools) for lines in bodies]
        return [start(folder, str(number)) for number in range(len(bodies))]


def about(printed, lines):
    """Whether a program without a ```text block printed the numbers of its comments "about [3.]", to 2 %."""
    stated = [float(x) for x in re.findall(r'// about \[(\S+)\]', '\n'.join(lines))]
    found = [float(x) for x in re.findall(r'-?\d+\.?\d*', printed)]
    return len(stated) == len(found) and all(abs(a - b) <= 0.02 * abs(a) for a, b in zip(stated, found))


def is_program(info):
    return info == 'c' or (info == 'cpp' and shutil.which('c++') is not None)


def run_all(pages, tools):
    """{(page, line): (printed, complaint)} of all programs, as many at once as there are processors."""
    jobs, results = {}, {}
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        cxx_tools = read_ahead(tools, pathlib.Path(name)) if is_program('cpp') else tools
        for page in pages:
            framed = []
            for line, info, lines in blocks_of(page.read_text()):
                if is_program(info) and (info == 'cpp' or lines[0].startswith('#include')):
                    jobs[page, line] = pool.submit(run, lines, cxx_tools if info == 'cpp' else tools,
                                                   info == 'cpp')
                elif is_program(info):
                    framed.append((line, lines))
            if framed:
                jobs[page, None] = pool.submit(run_batch, [lines for _, lines in framed], tools)
                results.update({(page, line): number for number, (line, _) in enumerate(framed)})
    results = {place: jobs[place[0], None].result()[number] for place, number in results.items()}
    return results | {place: job.result() for place, job in jobs.items() if place[1] is not None}


def check_programs(page, root, results, counts):
    bad, blocks = [], list(blocks_of(page.read_text()))
    for index, (line, info, lines) in enumerate(blocks):
        place = f'{page.relative_to(root)}:{line}'
        if info.startswith('c from '):
            source = root / info[7:]
            text = source.read_text() if source.exists() else ''
            counts['quoted'] += 1
            if '\n'.join(lines) not in text:
                bad.append(f'{place}: this does not stand in {info[7:]}')
        if not is_program(info):
            continue
        counts['programs'] += 1
        printed, complaint = results[page, line]
        if complaint:
            bad.append(f'{place}: {complaint}')
            continue
        if 'this build is without' in printed:
            continue
        following = blocks[index + 1] if index + 1 < len(blocks) else (0, '', [])
        if following[1] == 'text':
            counts['compared'] += 1
            if printed.rstrip('\n') != '\n'.join(following[2]):
                bad.append(f'{place}: the program printed\n{printed}')
        elif not about(printed, lines):
            bad.append(f'{place}: the page does not show what the program printed:\n{printed}')
    return bad


def check_environment(root):
    asked, asked_flags = set(), set()
    for path in sorted((root / 'src').rglob('*.[ch]')):
        text = path.read_text()
        asked |= set(re.findall(r'getenv\(\s*"(\w+)"', text))
        asked_flags |= set(re.findall(r'debug_(?:flag|value)\(\s*"([\w-]+)', text))
        # A name kept in a variable is asked for as well.
        asked |= set(re.findall(r'variable\[\]\s*=\s*"([A-Z]\w+)"', text))
    page = (root / PAGE).read_text()
    rows = set(re.findall(r'^\| `(\w+)`', page, re.M))
    flags = re.findall(r'^DEBUG_FLAG\("(.*?)", "(.*)"\)$', (root / FLAGS).read_text(), re.M)
    shown_flags = re.findall(r'^\| `KILN_DEBUG=([^`]+)` \| (.*) \|$', page, re.M)
    bad = [f'{PAGE}: no row for {name}' for name in sorted(asked - rows)]
    bad += [f'{PAGE}: nothing in src/ asks for {name}' for name in sorted(rows - asked)]
    if flags != shown_flags:
        lines = difflib.unified_diff([' '.join(f) for f in flags], [' '.join(f) for f in shown_flags], FLAGS, PAGE,
                                     lineterm='', n=0)
        bad.append(f'{PAGE}: the flags of KILN_DEBUG are not those of {FLAGS}:\n' + '\n'.join(lines))
    names = {name.split('=')[0] for name, _ in flags}
    bad += [f'{FLAGS}: no row for {name}' for name in sorted(asked_flags - names)]
    bad += [f'{FLAGS}: nothing in src/ asks for {name}' for name in sorted(names - asked_flags)]
    return bad if asked and flags else bad + ['src/: no variable found']


def check_modes(root):
    text = (root / LINES).read_text()
    words = dict(re.findall(r'^OUTCOME\((\w+), "(.*)"\)$', text, re.M))
    rows = [[construct] + [words[name] for name in outcomes.split(', ')]
            for construct, outcomes in re.findall(r'^CONSTRUCT\("(.*)", \w+, ([\w, ]+)\)$', text, re.M)]
    shown = (root / MODES).read_text().splitlines()
    bad = [f'{MODES}: the line is missing: {line}' for line in (f'| {" | ".join(row)} |' for row in rows)
           if line not in shown]
    known = {row[0] for row in rows}
    bad += [f'{MODES}: not in {LINES}: {line}' for line in shown
            if line.count(' | ') == 5 and set(line.split(' | ')[1:3]) & set(words.values())
            and line.split(' | ')[0][2:] not in known]
    return bad if len(rows) > 1 else bad + [f'{LINES}: no lines found']


def check_links(page, root):
    prose = re.sub(r'^ *```.*?^ *```', '', page.read_text(), flags=re.M | re.S)
    bad = []
    for target in re.findall(r'\]\(([^)#\s]+)(?:#[^)]*)?\)', prose):
        if '://' not in target and not (page.parent / target).exists():
            bad.append(f'{page.relative_to(root)}: the link {target} leads nowhere')
    return bad


def main(root, build_include, library, *compiler):
    root, library = pathlib.Path(root).resolve(), pathlib.Path(library).resolve()
    tools = ([root / 'include', pathlib.Path(build_include).resolve()], library, compiler)
    pages = [root / 'README.md', *sorted((root / 'docs').rglob('*.md'))]
    counts, bad = {'programs': 0, 'compared': 0, 'quoted': 0}, check_environment(root) + check_modes(root)
    guide = (root / 'docs/guide/README.md').read_text()
    bad += [f'docs/guide/README.md: the frame lacks {line!r}' for line in FRAME + FRAME_END if line not in guide]
    results = run_all(pages, tools)
    for page in pages:
        bad += check_programs(page, root, results, counts) + check_links(page, root)
    if not all(counts.values()):
        bad.append(f'nothing to check: {counts}')
    print('\n'.join(bad) if bad else f'{len(pages)} pages: {counts["programs"]} programs run, '
          f'{counts["compared"]} outputs compared, {counts["quoted"]} quotations found')
    return bool(bad)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
