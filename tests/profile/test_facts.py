#!/usr/bin/env python3
"""What stands beside the spans of a profile: ops, types, bytes, operations, lines and cells, and the memory over time.

usage: test_facts.py PROFILED [vulkan] [no-llvm]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]
VULKAN = 'vulkan' in sys.argv[2:]
LLVM = 'no-llvm' not in sys.argv[2:]
SOURCE = pathlib.Path(__file__).with_name('profiled.c')
LINES = {mark: f'profiled.c:{n}' for n, line in enumerate(SOURCE.read_text().splitlines(), 1)
         for mark in re.findall(r'// line: (.*)', line)}


class Facts:
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'trace.json')
            env = {**os.environ, 'KILN_DEBUG': '', 'KILN_PROFILE': '', 'KILN_CACHE_DIR': f'{folder}/cache'}
            command = [PROGRAM, cls.device, str(path)]
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
            if done.returncode:
                raise AssertionError(done.stderr)
            cls.trace = json.loads(path.read_text())
        cls.spans = [e for e in cls.trace['traceEvents'] if e['ph'] == 'X']
        cls.name = cls.trace['otherData']['devices'][0]['name']

    def span(self, mark, cat='launch', n=1):
        found = [e for e in self.spans if e['cat'] == cat and e['args'].get('line') == LINES[mark]]
        self.assertEqual(len(found), n, (mark, found))
        return found[0]

    def check(self, mark, op, types, read_B, written_B, flops, cat='launch', n=1):
        e = self.span(mark, cat, n)
        expected = {'device': self.name, 'op': op, 'in': types[:-1], 'out': types[-1:], 'read_B': read_B,
                    'written_B': written_B, 'flops': flops, 'line': LINES[mark]}
        self.assertEqual(e['args'], {k: v for k, v in expected.items() if v != []})
        self.assertEqual(e['name'], op)

    def test_product(self):
        self.check('matmul', 'matmul', ['f32[8,4]', 'f32[4,3]', 'f32[8,3]'], 4 * (32 + 12), 4 * 24, 2 * 8 * 4 * 3)

    def test_elementwise(self):
        self.check('add', 'add', ['f16[5,6]', 'f32[6]', 'f32[5,6]'], 2 * 30 + 4 * 6, 4 * 30, 30)
        # 0.5 * x * erfc(x * c): three products and a function
        self.check('gelu', 'gelu', ['f32[16,10]', 'f32[16,10]'], 640, 640, 4 * 160)
        self.check('integers', 'add', ['i32[10]', 'i32[10]', 'i32[10]'], 80, 40, 0)

    def test_views_are_read_as_what_they_show(self):
        self.check('strided', 'neg', ['f32[10,16]', 'f32[10,16]'], 640, 640, 160)

    def test_convolution(self):
        self.check('conv2d', 'conv2d', ['f32[2,3,8,8]', 'f32[4,3,3,3]', 'f32[2,4,6,6]'], 4 * (384 + 108), 4 * 288,
                   2 * 288 * 27)

    def test_rows(self):
        # the largest, a difference, exp, the sum, a product: of each element; a quotient of each row
        self.check('softmax', 'softmax', ['f32[16,10]', 'f32[16,10]'], 640, 640, 5 * 160 + 16)
        self.check('sum', 'sum', ['f32[16,10]', 'f32[10]'], 640, 40, 160)

    def test_copies(self):
        for mark in ('download', 'upload'):
            self.check(mark, mark, ['f32[16,10]', 'f32[16,10]'], 640, 640, 0, 'copy')

    def fused(self):
        return [e for e in self.spans if e['cat'] == 'launch' and e['args'].get('line') == LINES['fused mul']]

    def test_fused_kernel(self):
        launches = self.fused()
        self.assertEqual(len(launches), 3)
        args = launches[0]['args']
        if self.fuses:
            self.assertEqual(args['op'], 'tanh+add+mul')
            self.assertEqual(sorted(args['in']), ['f32[10]', 'f32[16,10]'])
            self.assertEqual(args['out'], ['f32[16,10]'])
            self.assertEqual((args['read_B'], args['written_B'], args['flops']), (640 + 40, 640, 3 * 160))
            self.assertEqual(args['lines'], ', '.join(LINES[f'fused {op}'] for op in ('tanh', 'add', 'mul')))

    def test_calls(self):
        calls = [e for e in self.spans if e['cat'] == 'call' and e['args']['line'] == LINES['call']]
        self.assertEqual(len(calls), 3)
        for e in calls:
            self.assertEqual(e['args'], {'op': 'call', 'in': ['f32[16,10]', 'f32[10]'], 'out': ['f32[16,10]'],
                                         'read_B': 680, 'written_B': 640, 'flops': 480, 'line': LINES['call']})

    def test_compilation(self):
        e = self.span('call', 'compile')['args']
        self.assertEqual((e['op'], e['in'], e['out']), ('compile', ['f32[16,10]', 'f32[10]'], ['f32[16,10]']))
        self.assertEqual(e['flops'], 480)
        if self.fuses:
            self.assertEqual((e['read_B'], e['written_B']), (680, 640))

    def test_cells(self):
        forward = [e['args'] for e in self.spans if e['cat'] == 'launch' and e['args'].get('line') == LINES['cell']]
        self.assertEqual([(a['op'], a.get('backward', False)) for a in forward],
                         [('matmul', False), ('add', False), ('matmul', True)])
        self.assertEqual({a['cell'] for a in forward}, {'sequential.1 (dense 192 → 7)'})
        self.assertEqual(forward[0]['flops'], 2 * 2 * 192 * 7)
        for mark in ('matmul', 'add', 'softmax'):
            self.assertNotIn('cell', self.span(mark)['args'])

    def test_what_was_captured_before_the_profile_keeps_its_place(self):
        for mark in ('early', 'early step', 'early block'):
            found = [e['args'] for e in self.spans if e['cat'] == 'launch' and e['args'].get('line') == LINES[mark]]
            self.assertEqual({a.get('cell') for a in found}, {'sequential.1 (dense 192 → 5)'}, mark)
            products = [a.get('backward', False) for a in found if 'matmul' in a['op']]
            self.assertEqual(sorted(products), [False, True], (mark, found))

    def counts(self, what):
        return [(e['ts'], e['args']['bytes']) for e in self.trace['traceEvents']
                if e['ph'] == 'C' and e['name'] == f'{what}, {self.name}']

    def test_memory_rises_and_falls(self):
        used, peaks = self.counts('memory in use'), self.counts('peak of memory')
        self.assertEqual(used, sorted(used, key=lambda c: c[0]))
        steps = [b - a for (_, a), (_, b) in zip(used, used[1:])]
        self.assertEqual(steps.count(4 << 20), 1)
        self.assertEqual(steps.count(-(4 << 20)), 1)
        self.assertLess(steps.index(4 << 20), steps.index(-(4 << 20)))
        most = 0
        rises = [(t, most := n) for t, n in used if n > most]
        self.assertEqual(peaks, rises)
        self.assertEqual(self.trace['otherData']['devices'][0]['peak_B'], most)

    def test_nothing_is_lost(self):
        self.assertEqual(self.trace['otherData']['lost'], 0)
        for e in self.spans:
            if e['cat'] in ('launch', 'copy'):
                self.assertGreaterEqual(e['dur'], 0)
                self.assertEqual(e['args']['device'], self.name)


class Environment(unittest.TestCase):
    def test_a_profile_of_the_whole_run_is_the_only_one(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, part = pathlib.Path(folder, 'whole.json'), pathlib.Path(folder, 'part.json')
            env = {**os.environ, 'KILN_DEBUG': '', 'KILN_PROFILE': str(whole), 'KILN_CACHE_DIR': f'{folder}/cache'}
            done = subprocess.run([PROGRAM, 'cpu', str(part)], env=env, capture_output=True, text=True, timeout=200)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f'profile_begin: a profile is being taken already, for {whole}', done.stderr)
            names = {e['name'] for e in json.loads(whole.read_text())['traceEvents']}
            self.assertIn('normal', names)
            self.assertFalse(part.exists())


class Cpu(Facts, unittest.TestCase):
    device = 'cpu'
    fuses = LLVM


@unittest.skipUnless(VULKAN, 'no Vulkan device in this build')
class Vulkan(Facts, unittest.TestCase):
    device = 'vulkan'
    fuses = True


class Null(Facts, unittest.TestCase):
    device = 'null'
    fuses = True


if __name__ == '__main__':
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    suite = unittest.TestSuite(map(load, (Cpu, Vulkan, Null, Environment)))
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
