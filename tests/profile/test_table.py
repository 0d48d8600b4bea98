#!/usr/bin/env python3
"""kiln-prof: the table of a file is that of the process that left it, its figures are those of the spans, and what is
no profile is an error.

usage: test_table.py PROFILED KILN_PROF [vulkan]
"""
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, PROF = sys.argv[1:3]
DEVICES = ['cpu'] + (['vulkan'] if 'vulkan' in sys.argv[3:] else [])
ENV = {**os.environ, 'KILN_DEBUG': '', 'KILN_PROFILE': ''}


def run(*args, **env):
    return subprocess.run([PROF, *args], env={**ENV, **env}, capture_output=True, timeout=100)


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def file(self, data):
        path = self.root / 'given.json'
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return str(path)


class Tables(Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.traces = {}
        for device in DEVICES:
            path = cls.root / f'{device}.json'
            subprocess.run([PROGRAM, device, str(path)], env={**ENV, 'KILN_CACHE_DIR': f'{cls.root}/cache'}, check=True,
                           capture_output=True, timeout=200)
            cls.traces[path] = [e for e in json.loads(path.read_text())['traceEvents']
                                if e['ph'] == 'X' and e['cat'] in ('launch', 'copy')]

    def good(self, *args):
        done = run(*args)
        self.assertEqual((done.returncode, done.stderr), (0, b''))
        return done.stdout.decode()

    def csv(self, path, *args):
        return list(csv.DictReader(io.StringIO(self.good(str(path), '--csv', *args))))

    def test_it_is_the_table_of_the_process(self):
        for path in self.traces:
            for by in ('kernel', 'line'):
                text = self.good(str(path), '--no-ceilings', '--by', by)
                self.same_table(text, pathlib.Path(f'{path}.{by}').read_text())

    def same_table(self, text, other):
        """A file has its times rounded: the last digit of a figure may be the next."""
        self.assertEqual(text.count('\n'), other.count('\n'))
        for a, b in zip(text.splitlines(), other.splitlines()):
            self.assertEqual(len(a.split()), len(b.split()), f'{a}\n{b}')
            for x, y in zip(a.split(), b.split()):
                if x != y:
                    self.assertAlmostEqual(float(x), float(y), delta=0.0101 + 0.01 * abs(float(y)), msg=f'{a}\n{b}')

    def test_figures_are_those_of_the_spans(self):
        keys = {'kernel': lambda e: e['name'], 'op': lambda e: e['args']['op'],
                'line': lambda e: e['args'].get('lines', e['args'].get('line', '(no line)')),
                'cell': lambda e: e['args'].get('cell', '(no cell)')}
        for path, spans in self.traces.items():
            for by, key in keys.items():
                rows = {r[by]: r for r in self.csv(path, '--no-ceilings', '--by', by)}
                self.assertEqual(set(rows), {key(e) for e in spans})
                for name, r in rows.items():
                    mine = [e for e in spans if key(e) == name]
                    time_ms = sum(e['dur'] for e in mine) / 1e3
                    self.assertEqual(int(r['calls']), len(mine))
                    self.assertAlmostEqual(float(r['total_ms']), time_ms, 9)
                    bytes_ = sum(e['args']['read_B'] + e['args']['written_B'] for e in mine)
                    if time_ms and bytes_:
                        self.assertAlmostEqual(float(r['mean_us']), 1e3 * time_ms / len(mine), 6)
                        self.assertAlmostEqual(float(r['GB_per_s']) * time_ms * 1e6 / bytes_, 1, 9)
                    self.assertEqual(r['ceiling_percent'], '')

    def test_the_longest_come_first_and_shares_are_all(self):
        for path in self.traces:
            for args in ([], ['--top', '2'], ['--by', 'line', '--top', '1']):
                rows = self.csv(path, '--no-ceilings', *args)
                self.assertAlmostEqual(sum(float(r['share_percent']) for r in rows), 100, 6)
                if '--top' in args:
                    self.assertEqual(len(rows), int(args[-1]) + 1)
                    self.assertRegex(next(iter(rows.pop().values())), r'^\(\d+ others\)$')
                times = [float(r['total_ms']) for r in rows]
                self.assertEqual(times, sorted(times, reverse=True))

    def test_shares_of_the_ceilings(self):
        path, spans = next(iter(self.traces.items()))
        text = self.good(str(path))
        top = re.search(r': at most (\d+) bytes in use; ceilings: ([\d.]+) GB/s, ([\d.]+) GFLOP/s', text)
        self.assertTrue(top, text)
        memory, arithmetic = float(top[2]) * 1e9, float(top[3]) * 1e9
        self.assertGreater(min(memory, arithmetic), 1e6)
        for name in ('matmul', 'conv2d', 'upload'):
            mine = [e for e in spans if e['name'] == name]
            least = sum(max((e['args']['read_B'] + e['args']['written_B']) / memory, e['args']['flops'] / arithmetic)
                        for e in mine)
            line = next(l for l in text.splitlines() if l.startswith(name + ' ')).split()
            expected = 100 * least / (sum(e['dur'] for e in mine) / 1e6)
            self.assertAlmostEqual(float(line[-1]), expected, delta=0.06 + expected / 50)

    def test_what_the_host_did_stands_below(self):
        text = self.good(str(next(iter(self.traces))), '--no-ceilings')
        below = text.splitlines()[-1]
        for category, n in (('call', 5), ('capture', 1), ('compile', 1)):
            self.assertRegex(below, rf'\b{category} [\d.]+ ms in {n}\b')

    def test_its_own_profile_is_not_taken(self):
        path = next(iter(self.traces))
        before = path.read_bytes()
        self.assertEqual(run(str(path), KILN_PROFILE=str(path)).returncode, 0)
        self.assertEqual(path.read_bytes(), before)


def event(**args):
    e = {'ph': 'X', 'cat': 'launch', 'name': 'k', 'pid': 1, 'tid': 1, 'ts': 0, 'dur': 1.5, **args}
    return json.dumps({'traceEvents': [{k: v for k, v in e.items() if v is not None}]})


class Files(Folder):
    def bad(self, data, message):
        done = run(self.file(data), '--no-ceilings')
        self.assertEqual((done.returncode, done.stdout), (1, b''), data[:80])
        self.assertRegex(done.stderr.decode(), '^kiln-prof: profile_print_file: .*' + message)

    def good(self, data, *args):
        done = run(self.file(data), '--no-ceilings', *args)
        self.assertEqual((done.returncode, done.stderr), (0, b''), data[:80])
        return done.stdout.decode()

    def test_files_that_are_none(self):
        for path, message in ((str(self.root / 'absent'), 'No such file'), (str(self.root), 'Is a directory')):
            done = run(path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr.decode())

    def test_what_is_no_profile(self):
        for data, message in (
                ('', r"given.json:1: '\{' is missing"), ('[]', "'{' is missing"), ('{}', '"traceEvents" is missing'),
                ('{"traceEvents": 1}', r"'\[' is missing"), ('{"traceEvents": []} x', 'something stands behind'),
                ('{"traceEvents": [],}', '\'"\' is missing'), ('{"traceEvents": [\n\n1]}', ":3: '{' is missing"),
                (event(dur=-1), 'an amount is negative'), (event(dur='1'), 'no number'),
                (event().replace('1.5', '1e999'), 'no number that can be'),
                (event().replace('1.5', 'nan'), 'no number'),
                (event().replace('1.5', '0x10'), 'is missing'), (event().replace('1.5', '1' * 100), 'is missing'),
                (event(args={'flops': -3}), 'an amount is negative'), (event(name=7), '\'"\' is missing'),
                ('{"traceEvents": [{"name": "a\\q"}]}', 'an escape that there is not'),
                ('{"traceEvents": [{"name": "\\u12"}]}', 'an escape that there is not'),
                ('{"traceEvents": [{"name": "a\nb"}]}', 'a control character'),
                ('{"traceEvents": [{"name": "a', 'a string does not end'), (b'{"\0": 1}', 'a control character'),
                ('{"a": ' * 100, 'too deep'), ('{"a": ' + '[' * 100000, 'too deep'), ('{"a": tru}', 'no number')):
            self.bad(data, message)

    def test_events_of_other_kinds_and_fields_are_left_out(self):
        self.assertIn('k ', self.good(event(more={'a': [1, {'b': None}]}, args=[1, 2])))
        for args in ({'ph': 'i'}, {'cat': 'call'}, {'ph': None}, {'cat': None}):
            self.assertRegex(self.good(event(**args)), r'(?m)^all +0 ')

    def test_names_do_not_reach_the_terminal(self):
        text = self.good(event(name='a\x1b[2Jb"c' + 'd' * 5000 + '\u00e9\ud800'))
        self.assertIn('a?[2Jb"cddd', text)
        self.assertTrue(all(c == '\n' or ord(c) >= 32 for c in text))
        self.assertEqual(len(set(map(len, text.splitlines()[:3]))), 1)
        row = list(csv.reader(io.StringIO(self.good(event(name='a,"b"'), '--csv'))))[1]
        self.assertEqual(row[0], 'a,"b"')

    def test_many_names(self):
        events = [{'ph': 'X', 'cat': 'launch', 'name': f'k{i}', 'dur': i} for i in range(20000)]
        rows = list(csv.reader(io.StringIO(self.good(json.dumps({'traceEvents': events}), '--csv'))))
        self.assertEqual([r[0] for r in rows[1:4]], ['k19999', 'k19998', 'k19997'])
        self.assertEqual(len(rows), 20001)


if __name__ == '__main__':
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(c) for c in (Tables, Files))
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
