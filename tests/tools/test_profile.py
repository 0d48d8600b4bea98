#!/usr/bin/env python3
"""What a profile of a run holds: programs with KILN_PROFILE set, and the trace that they leave.

usage: test_profile.py BENCH EXAMPLE [vulkan]

EXAMPLE is a program with a captured function in AUTO.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH, EXAMPLE = sys.argv[1:3]
VULKAN = 'vulkan' in sys.argv[3:]
LLVM = 'no-llvm' not in sys.argv[3:]


class Profile(unittest.TestCase):
    def take(self, device, *args):
        return self.run_program([BENCH, '--device', device, '--budget', '0.001', *args])

    def run_program(self, command):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'trace.json')
            env = {**os.environ, 'KILN_PROFILE': str(path), 'KILN_DEBUG': '', 'KILN_CACHE_DIR': f'{folder}/cache',
                   'KILN_DEVICE': 'cpu'}
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(path.read_text())

    def spans(self, trace):
        spans = [e for e in trace['traceEvents'] if e['ph'] == 'X']
        for e in spans:
            self.assertTrue(e['ts'] >= 0 and e['dur'] >= 0, e)
        return spans

    def tracks(self, trace):
        return {e['tid']: e['args']['name'] for e in trace['traceEvents'] if e['name'] == 'thread_name'}

    def check_inside(self, spans, inner, outer):
        """Every span of the one kind lies within one of the other on its track."""
        outside = [e for e in spans if e['cat'] == outer]
        for e in (e for e in spans if e['cat'] == inner):
            self.assertTrue(any(o['tid'] == e['tid'] and o['ts'] <= e['ts'] + 0.01 and
                                e['ts'] + e['dur'] <= o['ts'] + o['dur'] + 0.01 for o in outside), e)

    def fused(self, spans):
        """The launches of kernels that were compiled."""
        names = {e['name'] for e in spans if e['cat'] == 'kernel'}
        return [e for e in spans if e['cat'] == 'launch' and e['name'] in names]

    def check_jit(self, device):
        trace = self.take(device, '--filter', 'rms_norm', '--modes', 'jit')
        spans = self.spans(trace)
        kinds = {e['cat'] for e in spans}
        self.assertLessEqual({'call', 'capture', 'compile', 'kernel', 'launch'}, kinds)
        self.check_inside(spans, 'capture', 'call')
        self.check_inside(spans, 'compile', 'call')
        self.check_inside(spans, 'kernel', 'compile')
        self.check_inside(spans, 'load', 'compile')
        self.assertEqual(trace['otherData']['lost'], 0)
        return trace, spans

    @unittest.skipUnless(LLVM, 'no LLVM in this build')
    def test_cpu(self):
        trace, spans = self.check_jit('cpu')
        fused = self.fused(spans)
        calls = [e for e in spans if e['cat'] == 'call']
        self.assertEqual(len(fused), len(calls))
        self.assertGreaterEqual(len(calls), 10)
        self.check_inside([e for e in spans if e in fused or e in calls], 'launch', 'call')

    def test_cpu_eager(self):
        spans = self.spans(self.take('cpu', '--filter', 'chain5', '--modes', 'eager'))
        self.assertGreaterEqual(sum(e['name'] == 'tanh' for e in spans), 9)  # the first, 3 to warm up, 5 at least
        self.assertNotIn('capture', {e['cat'] for e in spans})

    def test_auto(self):
        spans = self.spans(self.run_program([EXAMPLE]))
        counts = {cat: sum(e['cat'] == cat for e in spans) for cat in ('call', 'capture', 'segment', 'break')}
        self.assertEqual(counts, {'call': 3, 'capture': 1, 'segment': 3, 'break': 0})
        self.check_inside(spans, 'capture', 'segment')
        self.check_inside(spans, 'segment', 'call')

    @unittest.skipUnless(VULKAN, 'no Vulkan device in this build')
    def test_vulkan_launches_have_a_track_of_the_device(self):
        trace, spans = self.check_jit('vulkan')
        tracks = self.tracks(trace)
        launches = [e for e in spans if tracks[e['tid']].startswith('device ')]
        fused = [e for e in self.fused(spans) if e in launches]
        calls = [e for e in spans if e['cat'] == 'call']
        self.assertEqual(len(fused), len(calls))
        self.assertTrue(all(e['dur'] > 0 for e in fused))
        ends = sorted((e['ts'], e['ts'] + e['dur']) for e in launches)
        for (_, end), (start, _) in zip(ends, ends[1:]):
            self.assertLess(end, start + 1)  # one after the other, but for rounding


if __name__ == '__main__':
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Profile)
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
