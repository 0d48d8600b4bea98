#!/usr/bin/env python3
"""The cache of compiled kernels and of decisions about graphs on disk, as processes that share its folder see it.

usage: test_cache.py STEPS [bench=BENCH] [cache=CACHE] [full_disk=LIBRARY] [no_compiler=LIBRARY] DEVICE

STEPS trains a small network and prints what came out and what was compiled. BENCH is kiln-bench, CACHE kiln-cache; the
libraries are preloaded. What must hold whatever lies in the folder: the same numbers, nothing printed, and, once the
folder can be written again, files that the next process uses.
"""
import fcntl
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from host import NOBODY, can_be_nobody, can_mount

STEPS, DEVICE = sys.argv[1], sys.argv[-1]
TOOLS = dict(a.split('=', 1) for a in sys.argv[2:-1])
CPU = DEVICE == 'cpu'
FOLDER = 'objects' if CPU else 'modules'
LENET = [TOOLS.get('bench'), '--device', DEVICE, '--filter', 'lenet_step', '--modes', 'jit', '--budget', '0.001']
ROUNDS = 24 if CPU else 3
CAUGHT = 99  # of no_compiler.c
MISSING = 77  # of steps.c: there is no such device

# Files are read and written by the same code for all devices.
once = unittest.skipUnless(CPU, 'shown by the run for the CPU')

NOBODY_CAN = CPU and can_be_nobody([STEPS, DEVICE], KILN_CACHE_DIR='/dev/null')
mounts = unittest.skipUnless(CPU and can_mount(), 'nothing can be mounted here')
as_nobody = unittest.skipUnless(NOBODY_CAN, 'the program cannot be started as another user')

# --- an entry: magic, sizes of key and code, hash, the function's name, key, code

HEAD = struct.Struct('<8sQQQ64s')
ALL = (1 << 64) - 1


def mix(a, b):
    product = a * b
    return (product ^ product >> 64) & ALL


def hash_bytes(h, data):
    """As src/base/hash.h has it."""
    words = [data[i:i + 8].ljust(8, b'\0') for i in range(0, len(data), 8)]
    for word in [*(int.from_bytes(w, 'little') for w in words), len(data)]:
        h = mix(h ^ 0xa0761d6478bd642f, word ^ 0xe7037ed1a0b428db)
    return h


class Entry:
    def __init__(self, data):
        self.magic, key_B, code_B, _, symbol = HEAD.unpack_from(data)
        self.symbol = symbol.rstrip(b'\0')
        self.key = data[HEAD.size:HEAD.size + key_B]
        self.code = data[HEAD.size + key_B:]
        assert len(self.code) == code_B

    def name(self):
        return f'{hash_bytes(1, self.key):016x}{hash_bytes(2, self.key):016x}'

    def pack(self):
        """With the hash that fits, whatever was changed."""
        h = hash_bytes(hash_bytes(hash_bytes(0, self.key), self.code), self.symbol)
        return HEAD.pack(self.magic, len(self.key), len(self.code), h, self.symbol) + self.key + self.code


def changed(data, **changes):
    entry = Entry(data)
    for part, change in changes.items():
        setattr(entry, part, change(getattr(entry, part)))
    return entry.pack()


def flip(data, bit):
    out = bytearray(data)
    out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


def unresolved(code):
    """The ELF object, whose relocations now ask for a symbol that nobody has, in place of the file's name."""
    out = bytearray(code)
    table_at, = struct.unpack_from('<Q', code, 40)
    header_B, n = struct.unpack_from('<HH', code, 58)
    for header_at in range(table_at, table_at + n * header_B, header_B):
        kind, = struct.unpack_from('<I', code, header_at + 4)
        at, size_B = struct.unpack_from('<QQ', code, header_at + 24)
        if kind == 2:  # symbols, the function last
            name, = struct.unpack_from('<I', code, at + size_B - 24)
            struct.pack_into('<IBBH', out, at + 24, name + 2, 0x10, 0, 0)
        if kind == 4:  # relocations
            for entry_at in range(at, at + size_B, 24):
                struct.pack_into('<I', out, entry_at + 12, 1)
    return bytes(out)


def write(path, data):
    """A file of the cache is its owner's alone."""
    path.write_bytes(data)
    path.chmod(0o600)


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.home = pathlib.Path(temporary.name)
        self.folder = self.home / 'cache'

    def environment(self, **more):
        env = {**os.environ, 'KILN_CACHE_DIR': str(self.folder), 'KILN_DEBUG': '', 'KILN_DEVICE': 'cpu', **more}
        return {k: v for k, v in env.items() if v is not None}

    def start(self, env=None, prepare=None, before='', user=None):
        """After shell commands, in a namespace of its own where there are any."""
        command = [STEPS, DEVICE]
        if before:
            command = ['unshare', '-m', 'sh', '-ec', before + '\nexec "$@"', 'sh', *command]
        return subprocess.Popen(command, env=env or self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, preexec_fn=prepare, user=user, group=user,
                                extra_groups=None if user is None else [])

    def finish(self, process):
        out, err = process.communicate(timeout=240)
        self.assertEqual((process.returncode, err), (0, ''))
        return json.loads(out)

    def run_steps(self, env=None, prepare=None, **how):
        """What a process prints; its numbers are those of every process before it."""
        result = self.finish(self.start(env, prepare, **how))
        self.assertEqual((result['losses'], result['weights']), (EXPECTED['losses'], EXPECTED['weights']))
        return result['compiled_on_device']

    def files(self):
        """The entries, by name; nothing else lies there."""
        return {p.name: p.read_bytes() for p in sorted((self.folder / FOLDER).glob('*'))}

    def everything(self):
        """All files of the cache but drivers', with their inodes and contents."""
        return {p: (p.stat().st_ino, p.read_bytes()) for p in sorted(self.folder.rglob('*'))
                if p.is_file() and not p.name.startswith('pipelines-')}

    def cache(self, *args, status=0, env=None):
        """What kiln-cache prints."""
        done = subprocess.run([TOOLS['cache'], *args], env=env or self.environment(), capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def fill(self):
        """A folder as the first process left it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(FULL, self.folder, copy_function=shutil.copy2)
        return self.files()

    def check_healed(self, good, compiled):
        """The process compiles so many kernels, and leaves the folder as it was."""
        self.assertEqual(self.run_steps(), compiled)
        self.assertEqual(self.files(), good)

    def damage(self, change):
        """All entries, each by change(data, name)."""
        good = self.fill()
        for name, data in good.items():
            path = self.folder / FOLDER / name
            bad = change(data, name)
            self.assertNotEqual(bad, data)
            write(path, bad)
        return good

    def check_damage(self, change):
        good = self.damage(change)
        self.check_healed(good, len(good))


class Warm(Case):
    """What a second process does."""

    def profile(self, command):
        path = self.home / 'trace.json'
        done = subprocess.run(command, env=self.environment(KILN_PROFILE=str(path)), capture_output=True, text=True,
                              timeout=240)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        spans = [e['cat'] for e in json.loads(path.read_text())['traceEvents'] if e['ph'] == 'X']
        return {kind: spans.count(kind) for kind in ('compile', 'kernel', 'load', 'warm', 'launch')}

    def check_second(self, command):
        """Returns how many kernels the first process compiled, and how often it loaded one that it had let go."""
        first, second = self.profile(command), self.profile(command)
        self.assertGreater(first['kernel'], 3)
        # Two kernels that come to the same text may be compiled at the same time.
        self.assertGreaterEqual(first['kernel'], len(self.files()))
        self.assertGreater(len(self.files()), 3)
        self.assertEqual(first['warm'], 0 if CPU else 1)  # glslang made its tables
        self.assertEqual((second['kernel'], second['warm']), (0, 0))
        self.assertEqual(second['load'], first['kernel'] + first['load'])
        return first['kernel'], first['load']

    def test_steps(self):
        self.assertEqual(self.check_second([STEPS, DEVICE]), (EXPECTED['compiled_on_device'], 0))
        self.assertEqual(self.run_steps(), 0)

    @unittest.skipUnless('bench' in TOOLS, 'there is no kiln-bench')
    def test_lenet(self):
        """kiln-bench itself compares what the captured step gives with eager mode."""
        self.check_second(LENET)

    @unittest.skipUnless(CPU and 'no_compiler' in TOOLS, 'LLVM is for the CPU; a sanitizer lets nothing be preloaded')
    def test_llvm_is_idle(self):
        env = self.environment(LD_PRELOAD=TOOLS['no_compiler'])
        cold = self.start(env)
        self.assertIn('called: LLVM', cold.communicate(timeout=240)[1])
        self.assertEqual(cold.returncode, CAUGHT)
        self.fill()
        self.assertEqual(self.run_steps(env), 0)
        if 'bench' in TOOLS:
            codes = [subprocess.run(LENET, env=e, capture_output=True, timeout=240).returncode
                     for e in (env, self.environment(), env)]
            self.assertEqual(codes, [CAUGHT, 0, 0])


class Corrupt(Case):
    def test_form(self):
        """What follows forges entries: this is how they are made."""
        for name, data in self.fill().items():
            entry = Entry(data)
            self.assertEqual((entry.name(), entry.pack()), (name, data))

    def test_bit_flipped(self):
        chance = random.Random(1)
        for i in range(ROUNDS):
            with self.subTest(round=i):
                end_B = HEAD.size if i % 3 == 0 else None
                self.check_damage(lambda data, _: flip(data, chance.randrange(8 * len(data[:end_B]))))

    def test_truncated(self):
        chance = random.Random(2)
        for at in (lambda n: n - 1, lambda n: HEAD.size, lambda n: HEAD.size - 1, lambda n: 1, lambda n: n // 2,
                   chance.randrange)[:6 if CPU else 2]:
            self.check_damage(lambda data, _: data[:at(len(data))])

    def test_empty(self):
        self.check_damage(lambda data, _: b'')

    @once
    def test_longer(self):
        self.check_damage(lambda data, _: data + b'\0')

    @once
    def test_sizes(self):
        """Sizes that are not those of the parts."""
        def grown(data, _):
            magic, key_B, code_B, h, symbol = HEAD.unpack_from(data)
            return HEAD.pack(magic, key_B + 1 & ALL, code_B - 1 & ALL, h, symbol) + data[HEAD.size:]

        def huge(data, _):
            magic, key_B, code_B, h, symbol = HEAD.unpack_from(data)
            return HEAD.pack(magic, key_B, code_B + (1 << 63) & ALL, h, symbol) + data[HEAD.size:]
        self.check_damage(grown)
        self.check_damage(huge)

    def test_magic(self):
        self.check_damage(lambda data, _: changed(data, magic=lambda m: b'kilnk00\0'))
        self.check_damage(lambda data, _: b'\x7fELF' + data[4:])

    @once
    def test_name(self):
        """Bytes behind the name's end."""
        for at in (HEAD.size - 1, HEAD.size - 2):
            self.check_damage(lambda data, _: flip(data, 8 * at))

    @once
    def test_zeros(self):
        """As a file system leaves a file after a loss of power."""
        self.check_damage(lambda data, _: bytes(len(data)))


class Foreign(Case):
    """Whole entries of others, under the names of ours."""

    def check_foreign(self, change):
        self.check_damage(lambda data, _: changed(data, key=change))

    def test_version(self):
        def older(key):
            first, rest = key.split(b'\n', 1)
            kind, version, build = first.split(b' ')
            return b' '.join((kind, b'9' * len(version), build)) + b'\n' + rest
        self.check_foreign(older)

    def test_build(self):
        """The library's and the compiler's."""
        def other(key, which):
            builds = list(re.finditer(rb'(?<![0-9a-f])[0-9a-f]{40}', key[:4096]))
            self.assertEqual(len(builds), 2)
            at = builds[which].start()
            return key[:at] + bytes([key[at] ^ 1]) + key[at + 1:]
        for which in (0, 1):
            self.check_foreign(lambda key: other(key, which))

    @unittest.skipUnless(CPU, 'a module is for every processor')
    def test_processor(self):
        """The processor, in its own words."""
        def other(key, part):
            words = key.split(b', ')
            self.assertGreater(len(words[part]), 4)
            words[part] = words[part][:-1] + bytes([words[part][-1] ^ 1])
            return b', '.join(words)
        first, *_ = (Entry(data).key for data in self.fill().values())
        n_parts = first[:first.index(b'saved:')].count(b', ') + 1
        self.assertGreater(n_parts, 5)
        for part in range(n_parts):
            self.check_foreign(lambda key: other(key, part))

    def test_kernel(self):
        """Each under the name of the next."""
        good = self.fill()
        names = list(good)
        self.check_damage(lambda data, name: good[names[names.index(name) - 1]])

    def test_family(self):
        self.check_foreign(lambda key: flip(key, 8 * len(key) - 4))
        self.check_foreign(lambda key: key + b'\0')
        self.check_foreign(lambda key: b'')

    @unittest.skipUnless(CPU, 'what a driver does with words that are no module is its own affair')
    def test_code_that_does_not_load(self):
        """Entries in order in which there is no such function: compiled anew, and again nothing is printed."""
        good = self.fill()
        codes = [Entry(data).code for data in good.values()]
        others = dict(zip(good, [*codes[1:], codes[0]]))
        self.check_damage(lambda data, _: changed(data, code=lambda code: b'no object' * 50))
        self.check_damage(lambda data, _: changed(data, code=lambda code: b''))
        self.check_damage(lambda data, _: changed(data, code=lambda code: code[:len(code) // 2]))
        self.check_damage(lambda data, name: changed(data, code=lambda code: others[name]))
        self.check_damage(lambda data, _: changed(data, code=unresolved))
        self.check_damage(lambda data, _: changed(data, symbol=lambda symbol: b'k_other'))

    @unittest.skipIf(CPU, "pipelines are a driver's")
    def test_driver(self):
        """The file of the driver's pipelines: of another device, another driver, damaged."""
        good_modules = self.fill()
        path, = self.folder.glob('pipelines-*')
        good = path.read_bytes()
        self.assertEqual(self.run_steps(), 0)
        self.assertEqual(path.read_bytes(), good)
        vendor, version, uuid, driver, head_B = 24, 32, 40, 56, 72
        bad = [flip(good, 8 * at) for at in (0, 8, 16, vendor, version, uuid, driver, head_B)]
        for data in [*bad, b'', good[:head_B], good + b'\0']:
            write(path, data)
            self.assertEqual(self.run_steps(), 0)
            self.assertEqual(path.read_bytes(), good)
        self.assertEqual(self.files(), good_modules)


class Decisions(Case):
    """What passes and fusion found out about the graph of the step."""

    def decisions(self, folder):
        return {p: p.read_bytes() for p in sorted((self.folder / folder).glob('*'))}

    def damaged(self, folder, change):
        """Each file of the folder by change(data)."""
        self.fill()
        good = self.decisions(folder)
        self.assertGreater(len(good), 0)
        for path, data in good.items():
            write(path, change(data))
        return good

    def check_healed_of(self, folder, change):
        good = self.damaged(folder, change)
        self.assertEqual(self.run_steps(), 0)
        self.assertEqual(self.decisions(folder), good)

    def test_damage(self):
        chance = random.Random(4)
        def foreign(data):
            return changed(data, key=lambda key: key.replace(b' 0.', b' 9.', 1))
        for folder in 'passes', 'fusion':
            for change in (lambda data: b'', lambda data: data[:len(data) // 2], lambda data: bytes(len(data)),
                           lambda data: data + b'\0', foreign,
                           *[lambda data: flip(data, chance.randrange(8 * len(data))) for _ in range(4)]):
                self.check_healed_of(folder, change)

    def test_other_graph(self):
        """Whole files, of a graph that differs in one number of its key: under the name of ours."""
        for folder in 'passes', 'fusion':
            self.check_healed_of(folder, lambda data: changed(data, key=lambda key: flip(key, 8 * len(key) - 8)))

    def test_content_of_others(self):
        """Files in order that hold no decisions: nothing is believed."""
        chance = random.Random(5)
        for content in (lambda c: b'', lambda c: c + b'\0', lambda c: c[:-1], lambda c: b'\xff' * len(c),
                        lambda c: bytes(len(c)), lambda c: c[:8] + c[8:][::-1]):
            self.check_healed_of('fusion', lambda data: changed(data, code=content))
        self.check_healed_of('passes', lambda data: changed(data, code=lambda c: b'\xff' * 8))
        for _ in range(ROUNDS):
            self.damaged('fusion', lambda data: changed(data, code=lambda c: flip(c, chance.randrange(8 * len(c)))))
            result = self.finish(self.start())  # another order of sums, at most
            for a, b in zip(result['losses'], EXPECTED['losses']):
                self.assertAlmostEqual(a, b, delta=1e-5 * abs(b))

    def test_decisions_are_followed(self):
        """By one that makes no groups, kernels are others; without passes the graph is another."""
        def alone(content):
            n, = struct.unpack_from('<i', content)
            return content[:8] + struct.pack(f'<{n}i', *[-1] * n) + content[8 + 4 * n:]
        self.damaged('fusion', lambda data: changed(data, code=alone))
        self.assertLess(self.finish(self.start())['compiled'], 1)  # single ops run in the place of kernels
        self.damaged('passes', lambda data: changed(data, code=lambda c: b''))
        n = len(self.decisions('fusion'))
        self.finish(self.start())
        self.assertGreater(len(self.decisions('fusion')), n)

    def test_same_program(self):
        """From disk comes what is found without: fusion's decisions are those for the same graph."""
        plans = []
        for _ in range(2):
            dump = self.home / f'dump{len(plans)}'
            dump.mkdir()
            self.run_steps(self.environment(KILN_DUMP=str(dump)))
            if plans:
                self.assertEqual(self.everything(), before)
            self.fill()
            before = self.everything()
            plans.append({p.relative_to(dump): p.read_bytes() for p in sorted(dump.rglob('*')) if p.is_file() and
                          not re.match(r'\d\d-', p.name)})
        self.assertGreater(len(plans[0]), 2)
        self.assertEqual(plans[0], plans[1])

    def test_threads_are_another_device(self):
        """A device of other abilities finds out for itself."""
        if not CPU:
            self.skipTest('there is one such device')
        self.fill()
        n = len(self.decisions('fusion'))
        self.finish(self.start(self.environment(OMP_NUM_THREADS='7')))
        self.assertGreater(len(self.decisions('fusion')), n)


@once
class Limit(Case):
    """$KILN_CACHE_LIMIT, and what is used longest ago."""

    def size(self):
        return sum(p.stat().st_size for p in self.folder.rglob('*') if p.is_file())

    def age(self, path, days):
        at = time.time() - days * 86400
        os.utime(path, (at, at))

    def test_never_beyond(self):
        self.fill()
        full = self.size()
        for part in 2, 4, 100:
            shutil.rmtree(self.folder)
            self.run_steps(self.environment(KILN_CACHE_LIMIT=str(full // part)))
            self.assertLessEqual(self.size(), full // part)
        for text in '0', '1G', '', f'{full // 1024 + 1}K':
            shutil.rmtree(self.folder)
            self.run_steps(self.environment(KILN_CACHE_LIMIT=text))
            self.assertEqual(self.size(), full)
            self.assertEqual(self.run_steps(), 0)

    def test_no_size(self):
        for text in 'much', '-1', '1X', '1KB', '99999999999999999999', '99999999T':
            shutil.rmtree(self.folder, ignore_errors=True)
            process = self.start(self.environment(KILN_CACHE_LIMIT=text))
            out, err = process.communicate(timeout=240)
            self.assertEqual(process.returncode, 0)
            self.assertEqual(err, f'kiln: KILN_CACHE_LIMIT: "{text}" is no size, such as 512M; it is 1G\n')
            self.assertEqual(self.run_steps(), 0)

    def test_oldest_go(self):
        """Others in the folder stay, and so does what was used."""
        good = self.fill()
        folder = self.folder / FOLDER
        # The kernel that is asked for last goes missing: what makes room for it is asked for no more.
        names = sorted(good, key=lambda name: (folder / name).stat().st_mtime_ns, reverse=True)
        for i, name in enumerate(names):
            self.age(folder / name, 10 + i)
        notes, more = self.folder / 'notes.txt', folder / 'notes'
        for path in notes, more:
            write(path, b'mine' * 100)
            self.age(path, 1000)
        self.run_steps()  # all are used, and marked
        self.assertTrue(all(time.time() - (folder / name).stat().st_mtime < 3600 for name in names))
        for i, name in enumerate(names):
            self.age(folder / name, 0.5 + 0.01 * i)
        marks = {name: (folder / name).stat().st_mtime for name in names}
        self.run_steps()  # today already
        self.assertEqual(marks, {name: (folder / name).stat().st_mtime for name in names})
        for path in self.decisions():
            self.age(path, 0.1)
        (folder / names[0]).unlink()
        left = sum(len(good[name]) for name in names[:len(names) // 2]) + sum(
            p.stat().st_size for p in self.decisions())
        self.assertEqual(self.run_steps(self.environment(KILN_CACHE_LIMIT=str(left))), 1)
        kept = set(self.files()) - {'notes'}
        self.assertEqual(kept, set(names[:len(kept)]))
        self.assertTrue(0 < len(kept) < len(names))
        self.assertEqual((notes.read_bytes(), more.read_bytes()), (b'mine' * 100, b'mine' * 100))

    def decisions(self):
        return [p for folder in ('passes', 'fusion') for p in (self.folder / folder).iterdir()]

    def test_deleted_while_in_use(self):
        for _ in range(8):
            process = self.start()
            while process.poll() is None:
                shutil.rmtree(self.folder, ignore_errors=True)
                time.sleep(0.003)
            result = self.finish(process)
            self.assertEqual((result['losses'], result['weights']), (EXPECTED['losses'], EXPECTED['weights']))
        self.run_steps()
        self.assertEqual(self.run_steps(), 0)


@once
@unittest.skipUnless('cache' in TOOLS, 'there is no kiln-cache')
class Tool(Case):
    """kiln-cache."""

    def test_list(self):
        self.assertEqual(self.cache('list').split(), ['total', '0B', 'in', '0', 'files'])
        good = self.fill()
        listed = self.cache('list')
        self.assertRegex(listed, rf'(?m)^object +[\d.]+K in {len(good)} files$')
        self.assertRegex(listed, r'(?m)^fusion .*\n(.*\n)*total')
        detailed = self.cache('list', '--long')
        for name, data in good.items():
            self.assertRegex(detailed, rf'(?m)^object .* good +objects/{name}  {Entry(data).symbol.decode()}$')
        self.assertIn('the function at steps.c:', detailed)

    def test_path(self):
        self.assertEqual(self.cache('path'), f'{self.folder}\n')
        none = self.environment(KILN_CACHE_DIR=None, HOME=None, XDG_CACHE_HOME=None)
        for command in 'path', 'list', 'verify', 'clear':
            self.assertIn('there is no folder', self.cache(command, status=1, env=none))

    def test_verify(self):
        self.assertEqual(self.cache('verify'), 'no files\n')
        good = self.fill()
        n = len(self.everything()) - 1  # but .counted
        self.assertEqual(self.cache('verify'), f'{n} good\n')
        first, second, third, *_ = good
        folder = self.folder / FOLDER
        write(folder / first, flip(good[first], 8 * (HEAD.size + 300)))
        old = Entry(good[second])
        old.key = old.key.replace(b' 0.', b' 9.', 1)
        (folder / second).unlink()
        write(folder / old.name(), old.pack())
        (folder / third).rename(folder / ('0' * 32))
        write(folder / f'{third}.1-2.tmp', b'half')
        write(folder / 'notes', b'mine')
        told = self.cache('verify', status=1)
        self.assertEqual(re.findall(r' damaged +objects/(\w+)', told), sorted([first, '0' * 32], key=told.index))
        self.assertTrue(told.endswith(f'{n - 3} good\n1 other build\n2 damaged\n1 unfinished\n'), told)
        (folder / first).chmod(0o666)  # nobody reads what others may write
        self.assertIn(f'objects/{first}', self.cache('verify', status=1))
        folder.chmod(0o777)
        self.folder.chmod(0o777)
        self.assertIn('is not used', self.cache('verify', status=1))

    def test_clear(self):
        good = self.fill()
        folder = self.folder / FOLDER
        write(folder / 'notes', b'mine')
        names = list(good)
        for i, name in enumerate(names):
            at = time.time() - (10 + i) * 86400
            os.utime(folder / name, (at, at))
        self.assertIn('removed         0B in 0 files', self.cache('clear', '--older', '300'))
        self.assertIn(' in 1 file\n', self.cache('clear', '--older', str(10.5 + len(names) - 2)))
        self.assertEqual(set(self.files()), {*names[:-1], 'notes'})
        size = sum(p.stat().st_size for p in self.folder.rglob('*') if p.is_file())
        self.cache('clear', '--keep-size', str(size - 5))
        self.assertEqual(set(self.files()), {*names[:-2], 'notes'})
        self.cache('clear', '--keep-size', '1T')
        self.assertEqual(set(self.files()), {*names[:-2], 'notes'})
        self.cache('clear')
        self.assertEqual(set(self.files()), {'notes'})
        self.assertEqual(self.cache('verify'), 'no files\n')
        self.assertEqual(self.run_steps(), EXPECTED['compiled_on_device'])

    def test_usage(self):
        for args in ([], ['burn'], ['list', 'twice'], ['list', '--older', '1'], ['verify', '--long'],
                     ['clear', '--older', 'old'], ['clear', '--older', '-1'], ['clear', '--older', 'nan'],
                     ['clear', '--keep-size', '1X'], ['clear', '--keep-size', ''], ['--nonsense']):
            self.assertIn('usage: kiln-cache', self.cache(*args, status=2))
        self.assertIn('usage: kiln-cache', self.cache('--help'))
        self.assertRegex(self.cache('--version'), r'^kiln-cache \d')


class Odd(Case):
    """Entries that are no files of ours, and folders that cannot be used."""

    def check_odd(self, make, heals):
        good = self.fill()
        for name in good:
            path = self.folder / FOLDER / name
            path.unlink()
            make(path, good[name])
        self.assertEqual(self.run_steps(), len(good))
        left = sorted(p.name for p in (self.folder / FOLDER).glob('*'))
        self.assertEqual(left, sorted(good))
        if heals:
            self.assertEqual(self.files(), good)
            self.assertEqual(self.run_steps(), 0)

    def test_link(self):
        def make(path, data):
            elsewhere = self.home / path.name
            write(elsewhere, data)
            path.symlink_to(elsewhere)
        self.check_odd(make, True)
        self.check_odd(lambda path, data: path.symlink_to(path), True)

    @once
    def test_pipe(self):
        self.check_odd(lambda path, data: os.mkfifo(path, 0o600), True)

    @once
    def test_folder(self):
        self.check_odd(lambda path, data: path.mkdir(), False)

    @once
    def test_open_to_others(self):
        for mode in 0o620, 0o602, 0o666:
            def make(path, data):
                path.write_bytes(data)
                path.chmod(mode)
            self.check_odd(make, True)

    @once
    @unittest.skipUnless(os.geteuid() == 0, 'only the superuser can give a file away')
    def test_of_another_user(self):
        def make(path, data):
            write(path, data)
            os.chown(path, 12345, -1)
        self.check_odd(make, True)
        good = self.fill()
        os.chown(self.folder / FOLDER, 12345, -1)
        self.check_unused(str(self.folder))
        self.assertEqual(self.files(), good)

    def check_unused(self, folder, **more):
        """Nothing is kept, and nothing is lost."""
        env = self.environment(KILN_CACHE_DIR=folder, **more)
        self.assertEqual(self.run_steps(env), EXPECTED['compiled_on_device'])

    @once
    @mounts
    def test_read_only_mount(self):
        """What is there is used; nothing else is written, or said."""
        good = self.fill()
        lock = f'mount --bind {self.folder} {self.folder}; mount -o remount,ro,bind {self.folder}'
        self.assertEqual(self.run_steps(before=lock), 0)
        first, *_ = good
        (self.folder / FOLDER / first).unlink()
        self.assertEqual(self.run_steps(before=lock), 1)
        self.assertEqual(set(self.files()), {*good} - {first})

    @once
    @mounts
    def test_small_disk(self):
        """Some entries have room, and are whole; nothing is left of the others."""
        sizes = [len(data) for data in self.fill().values()]
        copy = self.home / 'copy'
        script = f'''
            mount -t tmpfs -o size={(sum(sizes) // 2 + 4095) // 4096 * 4}k none {self.folder}
            "$@" >/dev/null
            cp -a {self.folder} {copy}'''
        self.run_steps(before=script)
        shutil.rmtree(self.folder)
        copy.rename(self.folder)
        kept = self.files()
        self.assertTrue(0 < len(kept) < len(sizes))
        for name, data in kept.items():
            self.assertEqual(Entry(data).name(), name)
        self.assertEqual(self.run_steps(), len(sizes) - len(kept))

    @once
    @as_nobody
    def test_folder_of_another(self):
        """Entries of another user are not taken, and nothing is written beside them; nor where the user's own folder
        is closed to writing."""
        everything, good = EXPECTED['compiled_on_device'], self.fill()
        for path in (self.home, self.folder, self.folder / FOLDER):
            path.chmod(0o755)
        for path in (self.folder / FOLDER).iterdir():
            path.chmod(0o644)
        self.assertEqual(self.run_steps(user=NOBODY), everything)
        self.assertEqual(self.files(), good)
        shutil.rmtree(self.folder)
        for path in (self.folder, self.folder / FOLDER):
            path.mkdir()
            os.chown(path, NOBODY, NOBODY)
        (self.folder / FOLDER).chmod(0o555)
        self.assertEqual(self.run_steps(user=NOBODY), everything)
        self.assertEqual(self.files(), {})
        (self.folder / FOLDER).chmod(0o755)
        self.assertEqual(self.run_steps(user=NOBODY), everything)
        self.assertEqual(self.run_steps(user=NOBODY), 0)

    def test_no_folder(self):
        file = self.home / 'file'
        file.write_text('mine')
        loop = self.home / 'loop'
        loop.symlink_to(loop)
        for folder in (file, file / 'below', loop, '/dev/null', '/proc/none/cache', self.home / ('long/' * 1000),
                       self.home / ('x' * 300))[:None if CPU else 2]:
            with self.subTest(folder=str(folder)[:40]):
                self.check_unused(str(folder))
        self.assertEqual(file.read_text(), 'mine')
        self.check_unused(None, HOME=None, XDG_CACHE_HOME=None)

    @unittest.skipIf(os.geteuid() == 0, 'the superuser writes everywhere')
    def test_not_writable(self):
        self.folder.mkdir(mode=0o500)
        self.check_unused(str(self.folder))
        self.assertEqual(self.files(), {})

    @once
    def test_others_may_write(self):
        """The folder: nothing is written to it, and what is there is not taken."""
        for mode in 0o770, 0o702, 0o777, 0o1777:
            shutil.rmtree(self.folder, ignore_errors=True)
            (self.folder / FOLDER).mkdir(parents=True)
            (self.folder / FOLDER).chmod(mode)
            self.check_unused(str(self.folder))
            self.assertEqual(self.files(), {})
            good = self.fill()
            (self.folder / FOLDER).chmod(mode)
            self.check_unused(str(self.folder))
            self.assertEqual(self.files(), good)

    def compiled_with(self, mode, change=lambda above: None, folder='cache'):
        """How many kernels are compiled where a full cache lies in a folder of this mode."""
        above = self.home / f'{mode:o}'
        shutil.copytree(FULL, above / 'cache', copy_function=shutil.copy2)
        above.chmod(mode)
        change(above)
        compiled = self.run_steps(self.environment(KILN_CACHE_DIR=str(above / folder)))
        shutil.rmtree(above)
        return compiled

    @once
    def test_folders_above(self):
        """Where others can exchange the folder, what lies in it is not taken."""
        everything = EXPECTED['compiled_on_device']
        self.assertEqual(self.compiled_with(0o755), 0)
        self.assertEqual(self.compiled_with(0o1777), 0)
        self.assertEqual(self.compiled_with(0o777), everything)
        self.assertEqual(self.compiled_with(0o755, lambda above: (above / 'cache' / FOLDER).chmod(0o777)), everything)
        self.assertEqual(self.compiled_with(0o755, lambda above: (above / 'cache').chmod(0o777)), everything)
        for mode, compiled in (0o755, 0), (0o777, everything):  # a link counts for where it leads
            self.assertEqual(self.compiled_with(mode, lambda above: (above / 'link').symlink_to('cache'), 'link'),
                             compiled)
        if os.geteuid() == 0:
            self.assertEqual(self.compiled_with(0o755, lambda above: os.chown(above, 12345, -1)), everything)

    @once
    def test_places(self):
        """Where the variables say, made on the way, for the owner alone."""
        for more, place in (({'XDG_CACHE_HOME': f'{self.home}/a/b'}, 'a/b/kiln'),
                            ({'XDG_CACHE_HOME': None, 'HOME': str(self.home)}, '.cache/kiln')):
            env = self.environment(KILN_CACHE_DIR=None, MESA_SHADER_CACHE_DISABLE='true', **more)
            self.assertEqual(self.run_steps(env), EXPECTED['compiled_on_device'])
            self.assertEqual(self.run_steps(env), 0)
            folder = self.home / place / FOLDER
            self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
            self.assertEqual({p.stat().st_mode & 0o777 for p in folder.iterdir()}, {0o600})

    def test_file_limit(self):
        """A file that may not grow so large is not begun: the signal would end the process."""
        sizes = sorted(len(data) for data in self.fill().values())
        for limit in (0, 100, sizes[len(sizes) // 2]):
            shutil.rmtree(self.folder)
            self.assertEqual(self.run_steps(prepare=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))),
                             EXPECTED['compiled_on_device'])
            self.assertEqual(sorted(len(data) for data in self.files().values()), [n for n in sizes if n <= limit])
            self.folder.mkdir(exist_ok=True)
        self.assertEqual(self.run_steps(), sum(n > limit for n in sizes))

    @unittest.skipUnless('full_disk' in TOOLS, 'a sanitizer lets nothing be preloaded')
    def test_full_disk(self):
        env = self.environment(LD_PRELOAD=TOOLS['full_disk'])
        self.assertEqual(self.run_steps(env), EXPECTED['compiled_on_device'])
        kept = {path.name: data for path, (_, data) in self.everything().items()}
        self.assertIn(kept, ({}, {'.counted': b''}))  # when files were counted takes no room
        self.assertEqual(self.run_steps(), EXPECTED['compiled_on_device'])
        self.assertEqual(self.run_steps(), 0)


class Together(Case):
    def test_at_once(self):
        """Eight processes on an empty folder; the ninth compiles nothing and writes nothing."""
        for _ in range(3 if CPU else 1):
            shutil.rmtree(self.folder, ignore_errors=True)
            processes = [self.start() for _ in range(8)]
            for result in map(self.finish, processes):
                self.assertEqual(result['losses'], EXPECTED['losses'])
                self.assertEqual(result['weights'], EXPECTED['weights'])
            self.assertEqual(len(self.files()), EXPECTED['compiled_on_device'])
            if 'cache' in TOOLS:
                self.assertRegex(self.cache('verify'), r'\A\d+ good\n\Z')
            before = self.everything()
            self.assertEqual(self.run_steps(), 0)
            self.assertEqual(self.everything(), before)

    @once
    def test_at_once_with_little_room(self):
        """All evict while others read and write."""
        good = self.fill()
        shutil.rmtree(self.folder)
        env = self.environment(KILN_CACHE_LIMIT=str(sum(map(len, good.values())) // 2))
        for result in map(self.finish, [self.start(env) for _ in range(8)]):
            self.assertEqual((result['losses'], result['weights']), (EXPECTED['losses'], EXPECTED['weights']))
        if 'cache' in TOOLS:
            self.assertNotIn('damaged', self.cache('verify'))

    def test_killed(self):
        """Processes that end while they write leave whole entries or none."""
        chance = random.Random(3)
        for _ in range(12 if CPU else 3):
            process = self.start()
            time.sleep(chance.uniform(0.01, 0.12 if CPU else 0.5))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            names = {Entry(data).name() if len(data) > HEAD.size else '' for name, data in self.files().items()
                     if '.' not in name}
            self.assertLessEqual(names, set(self.files()))
        self.run_steps()
        self.assertEqual(self.run_steps(), 0)
        next((self.folder / FOLDER).iterdir()).unlink()  # what a process left goes when another writes
        self.run_steps()
        self.assertEqual([name for name in self.files() if '.' in name], [])

    @once
    def test_leftovers(self):
        """Of processes that are gone, with no lock on them, and of no others."""
        folder = self.folder / FOLDER
        good = self.fill()
        gone = subprocess.Popen(['true'])
        gone.wait()
        first = next(iter(good))
        names = {'old': f'{"0" * 32}.{gone.pid}-7.tmp', 'locked': f'{first}.{gone.pid}-8.tmp',
                 'alive': f'{first}.{os.getpid()}-9.tmp', 'other': f'notes.{gone.pid}-x.tmp'}
        for name in names.values():
            write(folder / name, b'half a file')
        (folder / first).unlink()
        with (folder / names['locked']).open() as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            self.assertEqual(self.run_steps(), 1)
        self.assertEqual(set(self.files()), {*good, *names.values()} - {names['old']})


def take_expected(folder):
    """What a process with an empty folder gives; the folder is full then."""
    env = {**os.environ, 'KILN_CACHE_DIR': str(folder), 'KILN_DEBUG': ''}
    done = subprocess.run([STEPS, DEVICE], env=env, capture_output=True, text=True, timeout=240)
    if done.returncode == MISSING:
        print(done.stderr)
        sys.exit(MISSING)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory() as place:
        FULL = pathlib.Path(place, 'full')
        EXPECTED = take_expected(FULL)
        program = unittest.main(argv=[sys.argv[0], '-v'], exit=False)
    sys.exit(not program.result.wasSuccessful())
