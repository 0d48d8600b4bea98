#!/usr/bin/env python3
"""Draw the pictures of the guide from what the library really does.

usage: draw.py BUILD

Compiles pictures.c against the library in BUILD, runs it, and writes SVG files beside this script:
op_way.svg       the call stacks of an eager op and of a captured function, taken by gdb where a launch begins
e3_forward.svg   the graph of example E3 when it is captured, from its text form
e3_reverse.svg   the reverse graph of the same example's tape
auto_steps.svg   the steps of four calls of an AUTO function, from the profile of the run
"""
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STYLE = ('<style>.pic text{font:13px sans-serif}.pic .mono{font:12px monospace}.pic .small{font-size:11px;fill:#555}'
         '.pic rect{stroke:#555;rx:4}.pic path,.pic line{stroke:#555;fill:none}.pic .ground{stroke:none}</style>'
         '<defs><marker id="NAME" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
         '<path d="M0 0L8 4L0 8z" style="fill:#555"/></marker></defs>')
BLUE, GREEN, YELLOW, RED, WHITE, PURPLE = '#dbe9f7', '#dff1dd', '#fbf0cf', '#f7dcdc', '#ffffff', '#e9e0f5'


class Picture:
    def __init__(self):
        self.parts, self.width, self.height = [], 0, 0

    def text(self, x, y, text, kind='', anchor='start'):
        self.parts.append(f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{html.escape(text)}</text>')

    def box(self, x, y, w, h, colour, lines, round_=False):
        self.width, self.height = max(self.width, x + w), max(self.height, y + h)
        self.parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{colour}"'
                          + (f' style="rx:{h // 2}"' if round_ else '') + '/>')
        for i, line in enumerate(lines):
            self.text(x + w / 2, y + h / 2 + 4 + 15 * (i - (len(lines) - 1) / 2), line, 'mono' if i == 0 else 'small',
                      'middle')

    def arrow(self, x1, y1, x2, y2):
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#NAME)"/>')

    def legend(self, entries):
        """What the colours mean, in a line below all else: (colour, text)."""
        x, y = 12, self.height + 20
        for colour, text in entries:
            self.parts.append(f'<rect x="{x}" y="{y}" width="18" height="14" fill="{colour}"/>')
            self.text(x + 24, y + 11, text, 'small')
            x += 40 + 7 * len(text)
        self.width, self.height = max(self.width, x - 16), y + 14

    def write(self, name):
        w, h = int(self.width + 12), int(self.height + 12)
        marks = pathlib.Path(name).stem + '_arrow'       # several pictures may stand in one page
        text = (f'<svg xmlns="http://www.w3.org/2000/svg" class="pic" width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
                f'{STYLE}<rect class="ground" width="{w}" height="{h}" fill="#fff"/>\n' + '\n'.join(self.parts) + '\n</svg>\n')
        (HERE / name).write_text(text.replace('NAME', marks))


def build(build_dir, folder):
    program = folder / 'pictures'
    subprocess.run(['cc', '-std=c17', '-g', '-I', HERE.parent.parent / 'include', '-I', build_dir / 'include',
                    HERE / 'pictures.c', '-o', program, build_dir / 'libkiln.so', f'-Wl,-rpath,{build_dir}'], check=True)
    return program


def run(program, what, env=()):
    env = {**os.environ, 'KILN_DEVICE': 'cpu', 'KILN_LOG': '0', 'OMP_NUM_THREADS': '1', **dict(env)}
    return subprocess.run([program, what], env=env, check=True, capture_output=True, text=True)


# --- a graph, from its text form

def parse(text):
    """Lines of the text form: inputs, calls and results of a graph without regions."""
    nodes, results = [], []
    for line in text.splitlines():
        if found := re.match(r'%(\d+): (\S+) = input "(.*)"', line):
            nodes.append((int(found[1]), found[3], found[2], [], True))
        elif found := re.match(r'%(\d+): (\S+) = ([\w.]+)\((.*?)\)', line):
            operands = [int(x) for x in re.findall(r'%(\d+)', found[4])]
            nodes.append((int(found[1]), found[3], found[2], operands, False))
        elif found := re.match(r'return %(\d+) "(.*)"', line):
            results.append((int(found[1]), found[2]))
    return nodes, results


def draw_graph(name, text):
    nodes, results = parse(text)
    nodes += [(-1 - i, f'return "{title}"', '', [value], True) for i, (value, title) in enumerate(results)]
    users = {n[0]: [m for m in nodes if n[0] in m[3]] for n in nodes}
    level = {}
    for key, _, _, operands, _ in nodes:
        level[key] = 1 + max((level[o] for o in operands), default=-1)
    for key, _, _, operands, given in reversed(nodes):      # an input stands just above its first user
        if given and not operands and users[key]:
            level[key] = min(level[u[0]] for u in users[key]) - 1
    rows = [[n for n in nodes if level[n[0]] == y] for y in range(max(level.values()) + 1)]
    picture, w, h, centre = Picture(), 132, 40, {}
    width = max(len(row) for row in rows) * (w + 24)
    for y, row in enumerate(rows):
        row.sort(key=lambda n: sum(centre[o][0] for o in n[3]) / len(n[3]) if n[3] else 1e9)
        left = (width - len(row) * (w + 24)) / 2 + 12
        for i, (key, title, kind, operands, given) in enumerate(row):
            x, top = left + i * (w + 24) + 6, 12 + y * (h + 34)
            centre[key] = (x + w / 2, top)
            picture.box(x, top, w, h, WHITE if given else BLUE, [title, kind] if kind else [title], given)
            for o in operands:
                picture.arrow(centre[o][0], centre[o][1] + h, x + w / 2, top)
    picture.legend([(BLUE, 'an op and the type of its result'), (WHITE, 'an input, or a result')])
    picture.write(name)


# --- the way of an op, from call stacks

def stacks(program):
    """Call stacks, outermost frame first, each a list of (function, file)."""
    commands = ['set breakpoint pending on', 'set print frame-arguments none']
    for function in ('device_launch', 'device_launch_compiled'):
        commands += [f'break {function}', 'commands', 'bt', 'continue', 'end']
    script = program.parent / 'gdb.txt'
    script.write_text('\n'.join(commands + ['run way']) + '\n')
    env = {**os.environ, 'KILN_DEVICE': 'cpu', 'KILN_LOG': '0', 'OMP_NUM_THREADS': '1', 'DEBUGINFOD_URLS': ''}
    text = subprocess.run(['gdb', '-q', '-batch', '-x', script, program], env=env, capture_output=True, text=True).stdout
    found = []
    for frame in re.finditer(r'^#(\d+) +(?:0x\w+ in )?(\w+) \(.*\) at (\S+)$', text, re.M):
        if frame[1] == '0':
            found.append([])
        place = re.sub(r'^.*(src/|docs/)|:\d+$', r'\1', frame[3])
        if not found[-1] or found[-1][0][0] != frame[2]:
            found[-1].insert(0, (frame[2], place))
    return found


def draw_way(name, program):
    all_stacks = stacks(program)
    eager = next(s for s in all_stacks if any(f == 'kiln_mul' for f, _ in s))
    captured = next(s for s in all_stacks if s[-1][0] == 'device_launch_compiled')
    colours = {'docs': WHITE, 'tensor': BLUE, 'ops': GREEN, 'jit': YELLOW, 'program': PURPLE, 'device': RED}
    picture = Picture()
    for column, (title, stack) in enumerate((('eager: kiln_mul(x, y)', eager),
                                             ('captured: kiln_call of a function of two ops', captured))):
        x, w, h = 12 + column * 370, 340, 40
        picture.text(x, 22, title)
        for i, (function, place) in enumerate(stack):
            folder = place.split('/')[1] if place.startswith('src/') else 'docs'
            y = 34 + i * (h + 16)
            picture.box(x, y, w, h, colours.get(folder, WHITE), [function, place])
            if i:
                picture.arrow(x + w / 2, y - 16, x + w / 2, y)
    picture.legend([(WHITE, 'the program'), (BLUE, 'src/tensor'), (GREEN, 'src/ops'), (YELLOW, 'src/jit'),
                    (PURPLE, 'src/program'), (RED, 'src/device')])
    picture.write(name)


# --- the steps of an AUTO function, from a profile

def draw_steps(name, program, folder):
    profile = folder / 'profile.json'
    run(program, 'auto', {'KILN_PROFILE': str(profile)}.items())
    events = [e for e in json.loads(profile.read_text())['traceEvents'] if e['ph'] == 'X']
    events.sort(key=lambda e: e['ts'])
    calls = [e for e in events if e['cat'] == 'call']
    colours = {'compile': YELLOW, 'launch': GREEN, 'copy': RED}
    words = {'compile': 'compile a program', 'launch': 'launch', 'copy': 'break: the host reads'}
    picture = Picture()
    for n, call in enumerate(calls):
        inside = [e for e in events if call['ts'] <= e['ts'] < call['ts'] + call['dur'] and e['cat'] in colours]
        y = 12 + n * 62
        picture.text(12, y + 26, f'call {n + 1}')
        for i, e in enumerate(inside):
            x, w = 70 + i * 176, 160
            what = e['name'] if e['cat'] == 'launch' else '' if e['cat'] == 'compile' else e['name']
            picture.box(x, y, w, 42, colours[e['cat']], [what, words[e['cat']]] if what else [words[e['cat']]])
            if i:
                picture.arrow(x - 16, y + 21, x, y + 21)
    picture.legend([(YELLOW, 'compilation'), (GREEN, 'work of the device'), (RED, 'a break: the host waits for a value')])
    picture.write(name)


def main(build_dir):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = build(pathlib.Path(build_dir).resolve(), folder)
        e3 = run(program, 'e3')
        draw_graph('e3_forward.svg', e3.stderr.split('\n%0')[0])   # the backward graph follows it
        draw_graph('e3_reverse.svg', e3.stdout)
        draw_way('op_way.svg', program)
        draw_steps('auto_steps.svg', program, folder)


if __name__ == '__main__':
    main(*sys.argv[1:])
