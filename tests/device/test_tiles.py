#!/usr/bin/env python3
"""Measured tiles as processes share them.

usage: test_tiles.py STEPS KILN_CACHE KILN_INFO

STEPS computes products and sums of rows and prints a hash of the bits of each. Products have the same bits in all
tiles, for their sums run in order; sums of rows do not, and show which tile was taken.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

STEPS, CACHE, INFO = sys.argv[1:4]
ENV = {k: v for k, v in os.environ.items() if not k.startswith('KILN_')}


class Tiles(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        self.env = ENV | {'KILN_CACHE_DIR': str(self.folder)}

    def run_program(self, *args, status=0, **env):
        done = subprocess.run(args, env=self.env | env, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def bits(self, says='', **env):
        done = self.run_program(STEPS, **env)
        self.assertRegex(done.stderr, f'^{says}$' if says else '^$')
        return done.stdout.split()

    def table(self):
        found = list(self.folder.glob('tiles-*.txt'))
        self.assertEqual(len(found), 1)
        return found[0]

    def test_forced(self):
        start = self.bits()
        found = {row: self.bits(KILN_DEBUG=f'tile=row:{row}') for row in (1, 256)}
        self.assertEqual(len({sums for _, sums in found.values()}), 2)
        self.assertEqual({products for products, _ in found.values()}, {start[0]})
        self.assertEqual(self.bits(KILN_DEBUG='tile=product:32:1,tile=row:256'), found[256])
        for word in ('product:48', 'row:65552'):
            says = rf'kiln: KILN_DEBUG: tile={word}: there is no such tile\n'
            self.assertEqual(self.bits(says, KILN_DEBUG=f'tile={word}'), start)
        # What is forced is not measured, and not kept.
        self.bits(KILN_DEBUG='tile=row:16', KILN_TUNE='1')
        self.assertEqual(list(self.folder.glob('tiles-*')), [])

    def measure_two_at_once(self, bits):
        env = self.env | {'KILN_TUNE': '1'}
        running = [subprocess.Popen([STEPS], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
        for p in running:
            out, err = p.communicate()
            self.assertEqual((out.decode().split(), err, p.returncode), (bits, b'', 0))
        self.assertRegex(self.table().read_text(), r'\nend 2\n$')
        self.assertEqual(list(self.folder.glob('*.tmp')), [])

    def test_measured_in_one_process_taken_in_the_next(self):
        start = self.bits()
        self.measure_two_at_once(start)
        text = self.table().read_text()
        self.assertRegex(text, r'^kiln tiles 2\ndevice .*\n(product|row) ')
        self.assertRegex(text, r'(?m)^product f32 128 128 1 tile \d+ 1$')
        lanes = re.search(r'(?m)^row f32 8 8192 1 tile (\d+) 1$', text)[1]
        taken = self.bits()
        self.assertEqual(taken[0], start[0])
        self.assertEqual(taken, self.bits())
        self.assertEqual(taken[1], self.bits(KILN_DEBUG=f'tile=row:{lanes}')[1])
        self.assertIn('"classes with measured tiles": 2', self.run_program(INFO, '--json').stdout)
        # Whatever it says is taken, as long as it is a tile.
        other = '256' if lanes != '256' else '1'
        changed = text.replace(f'row f32 8 8192 1 tile {lanes} 1', f'row f32 8 8192 1 tile {other} 1')
        self.table().write_text(changed)
        self.assertEqual(self.bits()[1], self.bits(KILN_DEBUG=f'tile=row:{other}')[1])
        # What is there is not measured again.
        self.bits(KILN_TUNE='1')
        self.assertEqual(self.table().read_text(), changed)
        # Broken: told once, and as if it were not there.
        for broken, cause in ((changed[:-3], 'it ends in the middle'),
                              (changed.replace('tiles 2', 'tiles 9'), 'it is of version 9, this library has 2'),
                              (changed.replace(f'tile {other} 1', 'tile 4096 1'), r'line \d is no tile')):
            self.table().write_text(broken)
            says = rf'kiln: {re.escape(str(self.table()))}: {cause}; tiles are chosen as if there were no such file\n'
            self.assertEqual(self.bits(says), start)
            self.assertRegex(self.run_program(INFO, '--json').stdout, cause)
            self.run_program(CACHE, 'verify', status=1)
        # The next measurement replaces it.
        self.bits(r'kiln: .*\n', KILN_TUNE='1')
        self.run_program(CACHE, 'verify')
        self.bits()

    def test_folders_that_keep_nothing(self):
        start = self.bits(KILN_CACHE_DIR='/dev/null/none', KILN_TUNE='1')
        self.folder.chmod(0o777)
        self.assertEqual(self.bits(KILN_TUNE='1'), start)
        self.folder.chmod(0o700)
        self.assertEqual(list(self.folder.glob('tiles-*')), [])
        self.assertEqual(self.bits(), start)

    def test_by_command(self):
        done = self.run_program(CACHE, 'tune', 'vulkan')
        self.assertRegex(done.stdout, r'^.* is measured\ntiles .* good +tiles-\S+\.txt')
        n = int(re.search(r'\nend (\d+)\n$', self.table().read_text())[1])
        self.assertGreater(n, 20)
        self.assertIn('tiles', self.run_program(CACHE, 'list').stdout)
        self.run_program(CACHE, 'clear')
        self.assertEqual(list(self.folder.glob('tiles-*')), [])
        self.assertIn('has nothing that is measured', self.run_program(CACHE, 'tune', 'cpu', status=1).stderr)
        self.run_program(CACHE, 'tune', 'vulkan', 'stray', status=2)


if __name__ == '__main__':
    if subprocess.run([STEPS], capture_output=True, env=ENV | {'KILN_CACHE_DIR': '/dev/null/none'}).returncode == 77:
        print('there is no Vulkan device')
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
