#!/usr/bin/env python3
"""Files that cannot be saved: a full disk, folders that are read-only or of others.

usage: test_durable.py DURABLE [kill COUNT SEED]

What must hold of every kind of file: an error with the path and the system's reason, the old file whole, and nothing
beside it. DURABLE is the program of durable.c; with `kill` only its processes are killed.
"""
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from host import AS_NOBODY, can_be_nobody, can_mount

DURABLE = sys.argv[1]
KINDS = ('checkpoint', 'safetensors', 'npy', 'npz')

mounts = unittest.skipUnless(can_mount(), 'nothing can be mounted here')
NOBODY_CAN = can_be_nobody([DURABLE, 'save', 'npy', '/dev/null', 'A'])
as_nobody = unittest.skipUnless(NOBODY_CAN, 'the program cannot be started as another user')


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.home = pathlib.Path(temporary.name)
        self.home.chmod(0o755)
        self.folder = self.home / 'folder'
        self.folder.mkdir()

    def run_durable(self, *arguments, before='', **more):
        """In a namespace of its own where shell commands come before."""
        command = [DURABLE, *map(str, arguments)]
        if before:
            command = ['unshare', '-m', 'sh', '-ec', before + '\nexec "$@"', 'sh', *command]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, **more)

    def save(self, kind, path, which):
        done = self.run_durable('save', kind, path, which)
        self.assertEqual((done.returncode, done.stderr), (0, ''))

    def which(self, kind, path):
        done = self.run_durable('which', kind, path)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return done.stdout.strip()

    def check_refused(self, reason, **how):
        """Each kind, over an old file and where there is none."""
        for kind in KINDS:
            with self.subTest(kind=kind):
                old, new = self.folder / f'old.{kind}', self.folder / f'new.{kind}'
                self.prepare(old, kind)
                for path in (old, new):
                    done = self.run_durable('save', kind, path, 'B', **how)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(f'{kind}_save: {path}: ', done.stderr)
                    self.assertIn(reason, done.stderr)
                self.assertEqual(self.which(kind, old), 'A')
                self.assertEqual([p.name for p in self.folder.iterdir()], [old.name])
                old.unlink()

    def prepare(self, old, kind):
        self.save(kind, old, 'A')


class Full(Case):
    @mounts
    def test_full_disk(self):
        """A disk on which the old file has room, and half of the new one; what is on it shows when it is full."""
        for kind in KINDS:
            with self.subTest(kind=kind):
                path = self.folder / f'file.{kind}'
                script = f'''
                    mount -t tmpfs -o size=480k none {self.folder}
                    {DURABLE} save {kind} {path} A
                    if "$@"; then exit 3; fi
                    test "$(ls -A {self.folder})" = {path.name}
                    set -- {DURABLE} which {kind} {path}'''
                done = self.run_durable('save', kind, path, 'B', before=script)
                self.assertEqual((done.returncode, done.stdout), (0, 'A\n'))
                self.assertIn(f'{kind}_save: {path}: ', done.stderr)
                self.assertIn('No space left on device', done.stderr)

    def test_file_limit(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
        self.check_refused('File too large', preexec_fn=limit)

    def test_full_device(self):
        """What is no file is written directly."""
        for kind in KINDS:
            done = self.run_durable('save', kind, '/dev/full', 'B')
            self.assertEqual(done.returncode, 1)
            self.assertIn(f'{kind}_save: /dev/full: ', done.stderr)
            self.assertIn('No space left on device', done.stderr)


class Closed(Case):
    @mounts
    def test_read_only_mount(self):
        self.check_refused('Read-only file system',
                           before=f'mount --bind {self.folder} {self.folder}; mount -o remount,ro,bind {self.folder}')

    def check_nobody(self, reason):
        self.check_refused(reason, **AS_NOBODY)

    @as_nobody
    def test_foreign_folder(self):
        """Of the superuser, closed to others' writing; the file is open to it."""
        self.check_nobody('Permission denied')

    @as_nobody
    def test_read_only_folder(self):
        """The user's own."""
        os.chown(self.folder, AS_NOBODY['user'], AS_NOBODY['group'])
        self.folder.chmod(0o555)
        self.check_nobody('Permission denied')

    def test_read_only_file(self):
        if os.geteuid() == 0 and not can_be_nobody([DURABLE, 'save', 'npy', '/dev/null', 'A']):
            self.skipTest('the superuser writes everywhere')
        who = AS_NOBODY if os.geteuid() == 0 else {}
        self.folder.chmod(0o777)
        for kind in KINDS:
            path = self.folder / f'file.{kind}'
            self.save(kind, path, 'A')
            path.chmod(0o444)
            done = self.run_durable('save', kind, path, 'B', **who)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f'{kind}_save: {path}: ', done.stderr)
            self.assertIn('Permission denied', done.stderr)
            self.assertEqual(self.which(kind, path), 'A')
        self.assertEqual(len(list(self.folder.iterdir())), len(KINDS))

    @as_nobody
    def test_foreign_file_in_a_shared_folder(self):
        """As in /tmp: a new file can be made beside it, but not take its place."""
        self.folder.chmod(0o1777)
        for kind in KINDS:
            with self.subTest(kind=kind):
                path = self.folder / f'file.{kind}'
                self.save(kind, path, 'A')
                path.chmod(0o666)
                done = self.run_durable('save', kind, path, 'B', **AS_NOBODY)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f'{kind}_save: {path}: ', done.stderr)
                self.assertIn('Operation not permitted', done.stderr)
                self.assertEqual(self.which(kind, path), 'A')
                self.assertEqual([p.name for p in self.folder.iterdir()], [path.name])
                path.unlink()


class Killed(Case):
    def test_killed(self):
        done = self.run_durable('kill', self.folder / 'file', *sys.argv[3:])
        print(done.stdout, end='')
        self.assertEqual((done.returncode, done.stderr), (0, ''))


if __name__ == '__main__':
    names = ['Killed'] if sys.argv[2:] else ['Full', 'Closed']
    program = unittest.main(argv=[sys.argv[0], '-v', *names], exit=False)
    sys.exit(not program.result.wasSuccessful())
