#!/usr/bin/env python3
"""Runs a tool as a user does and checks what it prints, where, and with which status.

usage: test_tools.py NAME PROGRAM [vulkan|no-vulkan] [sanitized] [no-llvm]

NAME is kiln-cache, kiln-info, kiln-opt, kiln-prof, kiln-run, kiln-shader-dump, kiln-bench or gpu-check.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME, PROGRAM = sys.argv[1:3]
VULKAN = 'vulkan' in sys.argv[3:]
SANITIZED = 'sanitized' in sys.argv[3:]
LLVM = 'no-llvm' not in sys.argv[3:]
BUILD = pathlib.Path(PROGRAM).resolve().parent.parent
MODULE = BUILD / 'libkiln-llvm.so'
MAJOR, MINOR = re.search(r"version: '(\d+)\.(\d+)\.", (ROOT / 'meson.build').read_text()).groups()
# Until 1.0 a minor version may break what the one before promised, so each is a library of its own.
SONAME = f'libkiln.so.{MAJOR}.{MINOR}' if MAJOR == '0' else f'libkiln.so.{MAJOR}'
ENV = {k: v for k, v in os.environ.items() if k not in ('KILN_DEVICE', 'KILN_DEBUG')}


def run(*args, **env):
    return subprocess.run([PROGRAM, *args], env={**ENV, **env}, capture_output=True, text=True, timeout=280)


# A folder with the library alone. One up from it, where the library looks as well, is a folder of the test's own.
def lonely(folder):
    alone = pathlib.Path(folder, 'alone', 'lib')
    alone.mkdir(parents=True)
    shutil.copy(BUILD / SONAME, alone)
    return str(alone)


class Common(unittest.TestCase):
    def good(self, *args, **env):
        done = run(*args, **env)
        self.assertEqual(done.returncode, 0, f'{args}: {done.stderr[-2000:]}')
        return done.stdout

    def bad(self, status, expected, *args):
        done = run(*args)
        self.assertEqual(done.returncode, status, f'{args}: {done.stderr[-2000:]}')
        self.assertIn(expected, done.stderr)
        return done

    def test_help_goes_to_standard_output(self):
        self.assertTrue(self.good('--help').startswith(f'usage: {NAME}'))

    def test_wrong_command_line_is_status_2(self):
        for args in (['--no-such-option'], ['stray']):
            done = self.bad(2, 'usage:', *args)
            self.assertEqual(done.stdout, '')

    def test_man_page_names_every_option(self):
        page = ROOT / 'docs/man' / f'{NAME}.1'
        text = page.read_text().replace('\\-', '-') if page.exists() else self.good('--help')
        for option in re.findall(r'^ +(--[a-z-]+)', self.good('--help'), re.M):
            self.assertIn(option, text)


class Info(Common):
    def test_json_names_the_devices(self):
        document = json.loads(self.good('--json'))
        self.assertIn('kiln version', document['library'])
        self.assertIsInstance(document['library']['blas'], bool)
        cpu = document['devices'][0]
        self.assertEqual(cpu['id'], 'cpu')
        self.assertGreaterEqual(cpu['device']['threads'], 1)
        self.assertGreater(cpu['limit']['memory'], 1 << 20)
        self.assertEqual(sum(v is True for k, v in cpu['fast path'].items() if k.startswith('kernels')
                             and 'run time' not in k), 1)
        for index, device in enumerate(document['devices'][1:]):
            self.assertEqual(device['id'], f'vulkan:{index}')
            self.assertIn('usable', device['device'])
            self.assertGreater(device['limit']['push constants'], 0)

    def test_text_says_why_not(self):
        text = self.good(KILN_BLAS='none')
        self.assertRegex(text, r'matrix products by BLAS +no: no BLAS library')
        self.assertRegex(text, r'blas +no: KILN_BLAS=none')

    def test_module(self):
        library = json.loads(self.good('--json'))['library']
        self.assertEqual(library['llvm module'], LLVM)
        if LLVM:
            self.assertTrue(pathlib.Path(library['llvm module path']).exists())
            self.assertRegex(library['llvm version'], r'^\d+\.\d+')
        else:
            self.assertTrue(library['llvm module: why not'])

    # The library alone in a folder, without the module beside it.
    def test_no_module(self):
        if not LLVM:
            return
        with tempfile.TemporaryDirectory() as folder:
            alone = lonely(folder)
            library = json.loads(self.good('--json', LD_LIBRARY_PATH=alone, KILN_LLVM=''))['library']
            self.assertFalse(library['llvm module'])
            self.assertIn('libkiln-llvm.so', library['llvm module: why not'])
            self.assertNotIn('llvm module path', library)
            cpu = self.good('--json', LD_LIBRARY_PATH=alone, KILN_LLVM=str(MODULE))
            self.assertTrue(json.loads(cpu)['library']['llvm module'])

    # The one that is there is told, not a place behind it where there is none.
    def test_module_that_cannot_be_opened(self):
        if not LLVM:
            return
        with tempfile.TemporaryDirectory() as folder:
            alone = lonely(folder)
            place = pathlib.Path(alone, f'kiln/{MAJOR}.{MINOR}')
            place.mkdir(parents=True)
            pathlib.Path(place, 'libkiln-llvm.so').write_text('no library')
            library = json.loads(self.good('--json', LD_LIBRARY_PATH=alone, KILN_LLVM=''))['library']
            self.assertFalse(library['llvm module'])
            self.assertIn(f'{place}/libkiln-llvm.so: file too short', library['llvm module: why not'])

    def test_run_builds_what_it_opens(self):
        target = re.search(r'^build build (.*) >&2$', (ROOT / 'tools/run').read_text(), re.M).group(1)
        if not (BUILD / 'build.ninja').exists() or not shutil.which('ninja'):
            return
        done = subprocess.run(['ninja', '-C', str(BUILD), '-t', 'inputs', *target.split()], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual('libkiln-llvm.so' in done.stdout, LLVM)
        self.assertIn('docs/examples/fashion_mnist', done.stdout)

    def test_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            def cache(**env):
                env = {'KILN_CACHE_DIR': folder, 'KILN_CACHE_LIMIT': '', **env}
                return json.loads(self.good('--json', **env))['cache']
            empty = {'in use': True, 'folder': folder, 'files': 0, 'size': 0, 'limit': 1 << 30}
            self.assertEqual(cache(), empty)
            self.assertEqual(cache(KILN_CACHE_DIR=f'{folder}/new'), {**empty, 'folder': f'{folder}/new'})
            self.assertFalse(pathlib.Path(folder, 'new').exists())
            pathlib.Path(folder, 'objects').mkdir(0o700)
            pathlib.Path(folder, 'objects', '0' * 32).write_bytes(b'x' * 1000)
            pathlib.Path(folder, 'pipelines-a.bin').write_bytes(b'x' * 234)
            pathlib.Path(folder, 'mine.txt').write_bytes(b'x' * 99)
            self.assertEqual(cache(KILN_CACHE_LIMIT='2M'), {**empty, 'files': 2, 'size': 1234, 'limit': 2 << 20})
            self.assertEqual(cache(KILN_CACHE_LIMIT='0')['limit'], 'none')
            os.chmod(folder, 0o777)
            refused = cache()
            self.assertEqual((refused['in use'], refused['folder']), (False, folder))
            self.assertIn('open to others', refused['in use: why not'])
        nowhere = cache(KILN_CACHE_DIR='', XDG_CACHE_HOME='', HOME='')
        self.assertIn('HOME', nowhere['in use: why not'])
        self.assertNotIn('folder', nowhere)

    def test_environment(self):
        done = run('--json', KILN_LOG='0', KILN_JIT='2', KILN_DEVCE='cpu', OMP_NUM_THREADS='2', KILN_TEST_SEED='1')
        found = json.loads(done.stdout)['environment']
        self.assertEqual((found['KILN_LOG'], found['KILN_JIT'], found['KILN_DEVCE']), ('0', '2', 'cpu'))
        self.assertEqual(found['OMP_NUM_THREADS'], '2')
        self.assertEqual({name for name in found if name.endswith(': note')}, {'KILN_JIT: note', 'KILN_DEVCE: note'})
        self.assertIn('no such variable', found['KILN_DEVCE: note'])
        self.assertNotIn('KILN_TEST_SEED', found)
        self.assertRegex(self.good(KILN_JIT='2'), r'KILN_JIT +2 \(there is no "2"; known are 0 1\)')

    def test_version(self):
        document = json.loads(self.good('--json'))
        version = document['library']['kiln version']
        self.assertEqual(self.good('--version'), f'kiln-info {version}\n')
        self.assertEqual(pathlib.Path(document['library']['kiln path']).name, SONAME)
        self.assertIsInstance(document['library']['libdw'], bool)

    def test_loader(self):
        library = json.loads(self.good('--json'))['library']
        if library['vulkan loader']:
            self.assertRegex(library['vulkan loader version'], r'^1\.\d+\.\d+$')
            self.assertIn('libvulkan', library['vulkan loader path'])
        else:
            self.assertTrue(library['vulkan loader: why not'])
            self.assertFalse(VULKAN and pathlib.Path('/usr/lib/x86_64-linux-gnu/libvulkan.so.1').exists())


class ShaderDump(Common):
    def test_list(self):
        lines = self.good('--list').splitlines()
        kernels = {line.split()[0]: line for line in lines}
        self.assertEqual(len(kernels), len(lines), 'symbols are unique')
        expected = {'add_f32', 'add_i64', 'mul_grad0_f32', 'softmax_f32', 'matmul_f32', 'reduce_sum_f32', 'isnan_f64'}
        self.assertEqual(expected - set(kernels), set())
        self.assertIn('custom', kernels['matmul_f32'])
        self.assertIn('row', kernels['softmax_f32'].split())
        modules = sum(line.endswith('bytes') for line in lines)
        self.assertTrue(300 < modules <= 800 if VULKAN else modules == 0, modules)

    def test_add_in_all_forms(self):
        text = self.good('--op', 'add', '--dtype', 'f32')
        self.assertIn('#version 460', text)
        self.assertRegex(text, r't0 \+ t1')
        if VULKAN:
            for expected in ('; SPIR-V', 'OpEntryPoint GLCompute', 'OpCapability Int64', 'OpFAdd'):
                self.assertIn(expected, text)
            self.assertRegex(text, r'words \d{3,}, bytes \d{4,}, instructions \d{3,}')
            self.assertRegex(text, r'(?m)^ +\d+ OpFAdd$')

    def test_dtypes_compute_in_classes(self):
        for dtype, cls in (('bf16', 'f32'), ('u8', 'i32'), ('bool', 'bool')):
            classes = {line.split()[2] for line in self.good('--list', '--dtype', dtype).splitlines()}
            self.assertEqual(classes, {cls})

    def test_hand_written_kernel(self):
        if not VULKAN:
            return self.bad(0, 'no Vulkan device', '--op', 'matmul', '--glsl')
        text = self.good('--op', 'matmul', '--dtype', 'f32', '--glsl')
        self.assertIn('#define KILN_CLASS_F32 1', text)
        whole = self.good('--op', 'matmul', '--dtype', 'f32', '--expand')
        self.assertNotRegex(whole, r'(?m)^#include "')
        self.assertGreater(len(whole), len(text))

    def test_mistakes(self):
        self.bad(1, 'no kernel matches op nosuch', '--op', 'nosuch')
        self.bad(2, 'no such dtype: "q8"', '--dtype', 'q8')
        self.bad(2, 'exclude each other', '--graph', 'a', '--dump', 'b')
        self.bad(2, 'not for graphs: "--expand"', '--graph', 'a', '--expand')
        self.bad(2, 'only with --graph or --dump: "--llvm"', '--llvm')
        for option in ('--graph', '--dump'):
            self.bad(1, '/nonexistent: cannot be read: No such file or directory', option, '/nonexistent')
        self.bad(1, '/etc: cannot be read: Is a directory', '--graph', '/etc')

    def target(self, *args):
        """What the compiler of a GPU says; skipped where the tool says that it is not there."""
        if not VULKAN:
            self.bad(1, '--target navi21: this build has no Vulkan', '--target', 'navi21', *args)
            self.skipTest('no Vulkan in this build')
        done = run('--target', 'navi21', *args)
        if done.returncode == 1 and "needs Mesa's driver for AMD GPUs" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def figures(self, *args):
        return {k: float(v) for k, v in re.findall(r'(?m)^([A-Za-z][\w -]*?) ([\d.]+)$', self.target(*args))}

    def test_target_statistics(self):
        one = self.figures('--op', 'add_f32')
        # Four fours an invocation: of each two loads and a store of 16 bytes, four additions.
        for key, value in {'Spilled VGPRs': 0, 'whole loads': 8, 'whole widest load': 16, 'whole stores': 4,
                           'whole store bytes': 64, 'whole arithmetic': 16, 'loops': 0}.items():
            self.assertEqual(one[key], value, key)
        self.assertLessEqual(one['VGPRs'], 48)
        narrow = self.figures('--op', 'add_f32', '--spec', '4=1', '--spec', '19=1')
        self.assertEqual((narrow['whole widest load'], narrow['whole arithmetic']), (4, 1))

    def test_target_assembly_and_loops(self):
        text = self.target('--op', 'matmul_f32', '--isa', '--stats')
        loop = {k: int(v) for k, v in re.findall(r'(?m)^loop ([a-z-]+(?: [a-z]+)?) (\d+)$', text)}
        self.assertGreaterEqual(loop['multiply-adds'], 64)
        self.assertGreater(loop['shared accesses'], 0)
        # What is counted is what stands there.
        counted = int(re.search(r'(?m)^whole multiply-adds (\d+)$', text).group(1))
        self.assertEqual(len(re.findall(r'(?m)^\s+v_(?:fma|mac|mad_f)\w*', text)), counted)

    def test_target_of_files_and_graphs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'graph.kiln')
            path.write_text(self.GRAPH)
            self.assertRegex(self.target('--graph', str(path)), r'(?m)^// ---- tanh_mul.*: statistics$')
            each = pathlib.Path(folder, 'list')
            each.write_text('first add_f32\nsecond mul_f32 4=1\n')
            text = self.target('--each', str(each))
            self.assertEqual(re.findall(r'(?m)^// ---- (\w+): statistics$', text), ['first', 'second'])
            for lines, why in (('x nosuch\n', 'nosuch: No such file'), ('x\n', 'a line is a name'),
                               ('x add_f32 4\n', 'a constant is ID=VALUE'), (f'x {path}\n', 'it is no SPIR-V module')):
                each.write_text(lines)
                self.bad(1, why, '--target', 'navi21', '--each', str(each))

    def test_target_mistakes(self):
        self.target('--op', 'add_f32')
        self.bad(1, 'the driver knows no GPU "navi99"', '--target', 'navi99')
        for args, why in ((['--isa'], 'only with --target: "--isa"'),
                          (['--spec', '1=2'], 'only with --target: "--spec"'),
                          (['--target', 'navi21', '--spec', 'x=2'], '--spec takes ID=VALUE, not "x=2"'),
                          (['--target', 'navi21', '--glsl'], 'not with --target: "--glsl"'),
                          (['--target', 'navi21', '--op', 'add', '--each', '-'], 'stand alone')):
            self.bad(2, why, *args)
        done = run('--target', 'navi21', '--op', 'add', VK_DRIVER_FILES='/nonexistent', VK_ICD_FILENAMES='/nonexistent')
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs Mesa's driver for AMD GPUs", done.stderr)

    GRAPH = ('%0: f32[8,16] = input "x"\n%1: f32[16,4] = input "w"\n%2: f32[4] = constant "b"\n'
             '%3: f32[8,16] = tanh(%0)\n%4: f32[8,16] = mul(%3, %0)\n%5: f32[8,4] = matmul(%4, %1)\n'
             '%6: f32[8,4] = add(%5, %2)\nreturn %6 "y"\n')

    def graph(self, *args, text=GRAPH):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'graph.kiln')
            path.write_text(text)
            return self.good('--graph', str(path), *args)

    def test_graph(self):
        text = self.graph()
        self.assertRegex(text, r'(?m)^// ---- tanh_mul.*: fused$')
        for line in ('tanh(%0)', 'mul(', 'kernel tanh_mul', 'v0: row f32 = load 0'):
            self.assertIn(line, text)
        self.assertRegex(text, r'(?m)^not fused further: .+')
        self.assertNotIn('define void', text)

    def test_graph_that_writes(self):
        text = self.graph(text='%0: f32[8] = input "x"\n%1: f32[8] = tanh(%0)\nwrite %1 to %0 "x"\n')
        self.assertIn('tanh(%0)\n# assign: into memory that outlives the run\n', text)
        text = self.graph(text='%0: f32[8] = input "x"\n%1: f32[8] = input "y"\nwrite %1 to %0 "x"\n')
        self.assertIn('# assign: into memory that outlives the run\n', text)

    def test_graph_as_llvm(self):
        text = self.graph('--llvm', '--stats', '--op', 'tanh*')
        if 'built without LLVM' in text:
            self.skipTest('no LLVM in this build')
        self.assertRegex(text, r'define \w*.*void @k_tanh_mul')
        self.assertRegex(text, r'(?m)^instructions \d{2,}, distinct \d+$')
        self.assertRegex(text, r'(?m)^ +\d+ fmul$')

    def test_graph_on_vulkan(self):
        if not VULKAN:
            return self.bad(1, '"vulkan" in this build', '--graph', '/dev/null', '--device', 'vulkan')
        text = self.graph('--device', 'vulkan', '--op', 'tanh_mul*')
        for line in ('#version 460', 'OpEntryPoint GLCompute', 'SPIR-V', 'statistics'):
            self.assertIn(line, text)
        self.assertRegex(text, r'(?m)^ +\d+ OpFMul$')

    def test_graph_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'graph.kiln')
            path.write_text('%0: f32[3] = inputs\n')
            self.bad(1, f'{path}:1:14', '--graph', str(path))
            path.write_text(self.GRAPH)
            self.bad(1, 'no kernel matches', '--graph', str(path), '--op', 'nosuch')
            self.bad(1, 'there are no kernels', '--dump', folder)

    def test_folder_of_a_program(self):
        bench = pathlib.Path(PROGRAM).resolve().parent.parent / 'bench/kiln-bench'
        if not bench.exists():
            self.skipTest('kiln-bench is not built')
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder, 'dump')
            command = [bench, '--device', 'cpu', '--filter', 'rms_norm', '--modes', 'jit', '--budget', '0.001']
            subprocess.run(command, env={**ENV, 'KILN_DUMP': str(root)}, check=True, capture_output=True, timeout=200)
            program = sorted(root.iterdir())[0]
            names = {path.name for path in program.iterdir()}
            self.assertLessEqual({'00-captured.kiln', 'graph.kiln', 'plan.txt'}, names)
            self.assertTrue(any(re.match(r'\d\d-\w+\.kiln$', name) and name[:2] > '00' for name in names), names)
            text = self.good('--dump', str(root))
            self.assertRegex(text, r'(?m)^// ==== 0001-')
            self.assertRegex(text, r'(?m)^// ---- \w*mean_add_rsqrt\w*: fused$')
            self.assertEqual(self.good('--graph', str(program / '00-captured.kiln'), '--list').count(': fused'), 1)


class Cache(Common):
    """What it does with files is shown by tests/disk_cache."""

    def test_wrong_command_line_is_status_2(self):
        for args in (['--no-such-option'], [], ['burn'], ['list', 'stray'], ['clear', '--older', 'old'],
                     ['clear', '--keep-size', '1X'], ['verify', '--long'], ['list', '--older', '1']):
            self.assertEqual(self.bad(2, 'usage:', *args).stdout, '')

    def test_empty_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f'{folder}/absent'
            self.assertEqual(self.good('path', KILN_CACHE_DIR=path).strip(), path)
            self.assertEqual(self.good('list', KILN_CACHE_DIR=path).split(), ['total', '0B', 'in', '0', 'files'])
            self.assertEqual(self.good('verify', KILN_CACHE_DIR=path).strip(), 'no files')
            self.assertIn('0 files', self.good('clear', KILN_CACHE_DIR=path))
            self.assertEqual(os.listdir(folder), [])


class Opt(Common):
    def test_wrong_command_line_is_status_2(self):
        for args in (['--no-such-option'], [], ['a', 'b'], ['--pass', 'nothing', '-'], ['--all', '--pass', 'cse', '-'],
                     ['--list', 'stray']):
            self.assertEqual(self.bad(2, 'usage:', *args).stdout, '')

    def test_list(self):
        names = [line.split()[0] for line in self.good('--list').splitlines()]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual({'fold', 'simplify', 'cse', 'dce'} - set(names), set())

    def test_passes_over_a_file(self):
        golden = ROOT / 'tests/golden/pass'
        self.assertEqual(self.good('--pass', 'fold', str(golden / 'fold.in')), (golden / 'fold.out').read_text())
        self.assertEqual(self.good('--all', str(golden / 'all.in')), (golden / 'all.out').read_text())
        with open(golden / 'all.in') as piped:
            done = subprocess.run([PROGRAM, '--time', '-'], stdin=piped, env=ENV, capture_output=True, text=True)
        self.assertEqual(done.stdout, (golden / 'all.out').read_text())
        self.assertRegex(done.stderr, r'(?m)^simplify +\d+ -> +\d+ nodes +[\d.]+ us$')

    def test_printing(self):
        text = self.good('--print-after-all', '--pass', 'cse', '--pass', 'dce', str(ROOT / 'tests/golden/pass/cse.in'))
        self.assertIn('// ---- after cse\nkiln 1\n', text)
        self.assertIn('// ---- result\nkiln 1\n', text)

    def test_inexact(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, 'graph.kiln')
            path.write_text('%0: f32[3] = input "x"\n%2: f32[3] = pow(%0, 2.0)\nreturn %2 "y"\n')
            self.assertIn('pow(', self.good(str(path)))
            self.assertIn('square(', self.good('--inexact', str(path)))
            path.write_text('%0: f32[3] = inputs\n')
            self.bad(1, f'{path}:1:14', str(path))
        self.bad(1, f'{path}: cannot be read: No such file or directory', str(path))
        self.bad(1, '/etc: cannot be read: Is a directory', '/etc')


# The file of tests/golden/model: functions, and inputs and outputs of theirs as weights.
class Prof(Common):
    """What it makes of files is shown by tests/profile."""

    def test_wrong_command_line_is_status_2(self):
        self.bad(2, 'kiln-prof: no file is given\nusage:')
        for args in (['--no-such-option'], [], ['a', 'b'], ['a', '--by', 'time'], ['a', '--top', '0'],
                     ['a', '--top', '-1'], ['a', '--top', '3x']):
            self.assertEqual(self.bad(2, 'usage:', *args).stdout, '')


class Run(Common):
    FILE = str(ROOT / 'tests/golden/model/version_1.kiln')

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        ENV.update(KILN_DEVICE='cpu', KILN_CACHE_DIR=str(self.dir / 'cache'))

    def write(self, name, shape, values):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
        header += ' ' * ((64 - (len(header) + 11) % 64) % 64) + '\n'
        path = self.dir / name
        path.write_bytes(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header.encode() +
                         struct.pack(f'<{len(values)}f', *values))
        return str(path)

    def read(self, name):
        data = (self.dir / name).read_bytes()
        at = 10 + struct.unpack('<H', data[8:10])[0]
        return struct.unpack(f'<{(len(data) - at) // 4}f', data[at:])

    def test_wrong_command_line_is_status_2(self):
        for cause, *args in (
                ("unrecognized option '--no-such-option'", '--no-such-option'), ('no file is given',),
                ('unexpected argument b', 'a', 'b'), ('this is not NAME=VALUE: x', self.FILE, '--input', 'x'),
                ('--repeat takes a number of 1 or more, not 0', self.FILE, '--repeat', '0'),
                ('--list and --compile exclude each other', self.FILE, '--list', '--compile'),
                ('--list runs nothing', self.FILE, '--list', '--input', 'a=b'),
                ('--compile runs nothing', self.FILE, '--compile', '--save', 'a'),
                ('--size is for --compile alone', self.FILE, '--size', 'n=3'),
                ('given twice: a=c', self.FILE, '--input', 'a=b', '--input', 'a=c')):
            done = self.bad(2, f'{cause}', *args)
            self.assertEqual(done.stdout, '')
            self.assertIn('usage: kiln-run', done.stderr)

    def test_list(self):
        text = self.good(self.FILE, '--list')
        for line in ('function convolution', '  input in0: f32[n,4]', '  output out0: f32[n,3]',
                     '  output out2: i32[n]', '  input number0: number f64[]', 'weight w: f32[4,3] parameter'):
            self.assertIn(line + '\n', text)

    def test_run(self):
        ones = self.write('ones.npy', (1, 1, 3, 3), [1] * 9)
        self.good(self.FILE, '--function', 'convolution', '--input', f'in0={ones}', '--output',
                  f'out0={self.dir / "y.npy"}')
        self.assertEqual(self.read('y.npy'), (4, 6, 4, 6, 9, 6, 4, 6, 4))
        printed = self.good(self.FILE, '--function', 'convolution', '--input', f'in0={ones}')
        self.assertRegex(printed, r'out0 = \[\[\[\[4\. +6\. +4\.\]')

    def test_second_run_compiles_nothing(self):
        rows = self.write('rows.npy', (7, 4), [k / 10 for k in range(28)])
        arguments = [self.FILE, '--function', 'rows']
        first = run(*arguments, '--compile', '--size', 'n=7', '--stats')
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertRegex(first.stdout, r'^rows: \d+ ops, \d+ launches, ')
        if LLVM:
            self.assertNotIn(' 0 kernels compiled', first.stderr)
        again = run(*arguments, '--input', f'in0={rows}', '--output', f'out0={self.dir / "y.npy"}', '--output',
                    f'out1={self.dir / "z.npy"}', '--stats')
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(' 0 kernels compiled', again.stderr)
        y = self.read('y.npy')
        for row in range(7):
            self.assertAlmostEqual(sum(y[3 * row:3 * row + 3]), 1, places=5)

    def test_save(self):
        x, y = self.write('x.npy', (6, 4), [1] * 24), self.write('y.npy', (6, 3), [0] * 18)
        inputs = ['--function', 'step', '--input', f'in0={x}', '--input', f'in1={y}', '--number', 'number0=0.05']
        path, losses = self.FILE, []
        for k in range(3):
            new = str(self.dir / f'{k}.kiln')
            text = self.good(path, *inputs, '--save', new)
            losses.append(float(re.search(r'out0 = ([0-9.e-]+)', text).group(1)))
            self.assertIn(f'out1 = [{2 * k + 2}.]', text)
            path = new
        self.assertTrue(losses[0] > losses[1] > losses[2] > 0, losses)
        self.assertIn('out1 = [6.]', self.good(self.FILE, *inputs, '--repeat', '3'))

    def test_mistakes(self):
        ones = self.write('ones.npy', (1, 1, 3, 3), [1] * 9)
        convolution = [self.FILE, '--function', 'convolution']
        self.bad(1, 'has several functions', self.FILE)
        self.bad(1, 'there is no function "nothing"; there are: "convolution"', self.FILE, '--function', 'nothing')
        self.bad(1, '--input in0=... is missing', *convolution)
        # A wrong name is told for itself, not for what is missing by it.
        self.bad(1, 'the function has no input in1; there are: in0\n', *convolution, '--input', f'in1={ones}')
        self.bad(1, 'the function has no input other; there are: in0\n', *convolution, '--input', f'in0={ones}',
                 '--input', f'other={ones}')
        step = [self.FILE, '--function', 'step', '--input', f'in0={ones}', '--input', f'in1={ones}']
        self.bad(1, 'no input number0; there are: in0, in1\nkiln-run: number0 is a number: --number number0=VALUE\n',
                 *step, '--input', f'number0={ones}')
        self.bad(1, 'no number in0; there are: number0\nkiln-run: in0 is no number: --input in0=FILE\n', *step,
                 '--number', 'in0=3')
        self.bad(1, 'the function has no number x; there are: none\n', *convolution, '--number', 'x=3')
        self.bad(1, 'the function has no output other; there are: out0\n', *convolution, '--input', f'in0={ones}',
                 '--output', f'other={self.dir / "y.npy"}')
        wide = self.write('wide.npy', (1, 1, 3, 4), [1] * 12)
        self.bad(1, 'input 0 of convolution is f32[1,1,3,4], its signature says f32[1,1,3,3]', *convolution, '--input',
                 f'in0={wide}')
        self.bad(1, '--size n=... is missing', self.FILE, '--function', 'rows', '--compile')
        self.bad(1, 'has no open dimension m', self.FILE, '--function', 'rows', '--compile', '--size', 'n=2', '--size',
                 'm=2')
        for size in ('x', '0', '-2', ''):
            self.bad(1, f'--size n={size}: a size is a number of 1 or more', self.FILE, '--function', 'rows',
                     '--compile', '--size', f'n={size}')
        self.bad(1, 'the value is no number', self.FILE, '--function', 'step', '--input', f'in0={ones}', '--input',
                 f'in1={ones}', '--number', 'number0=fast')
        self.bad(1, 'there are no graphs in it', str(ROOT / 'tests/golden/io/numpy.safetensors'))
        self.bad(1, 'cannot be opened', str(self.dir / 'absent.kiln'))


class Bench(Common):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, document):
        path = self.dir / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)

    def test_one_warning_without_the_module(self):
        if not LLVM:
            return
        alone = lonely(self.folder.name)
        done = run('--device', 'cpu', '--size', 'tiny', '--modes', 'jit', '--budget', '0.01', '--filter', '*norm*',
                   LD_LIBRARY_PATH=alone, KILN_LLVM='')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(done.stdout.count('jit'), 1)
        warnings = re.findall('^kiln: (.*(?:llvm|not fused).*)', done.stderr, re.M)
        self.assertEqual(len(warnings), 1, done.stderr)
        self.assertIn('libkiln-llvm.so cannot be opened', warnings[0])

    def test_every_row_of_the_peer_is_there(self):
        rows = self.good('--list').split()
        own = rows.index('train_10000')
        for peer, missing in (('torch', set()), ('jax', set())):
            names = [name for family in ('ops', 'products', 'nets') for name in re.findall(
                r'^[a-z]+\("(\w+)",', (ROOT / f'bench/peers/{peer}_{family}.py').read_text(), re.M)]
            self.assertEqual(len(names), len(set(names)))
            self.assertEqual(set(rows[:own]), {*names} | missing)
        self.assertGreater(own, 100)
        self.assertEqual(rows[own:],
                         ['train_10000', 'cold_start', 'first_call', 'first_rnn', 'compile_1000',
                          'compile_4000', 'warm_gpt', 'import_100mb', 'busy_step',
                          'new_shape', 'resnet_sizes'])
        self.assertEqual(self.good('--list', '--filter', 'sum_*').split(), ['sum_all', 'sum_rows', 'sum_cols'])
        self.assertEqual(self.good('--list', '--group', 'call').split(), ['dispatch_1000', 'products_128'])
        self.bad(2, 'no such group: "sums"', '--group', 'sums')

    def rows(self, *args):
        path = self.dir / 'own.json'
        self.good('--device', 'cpu', '--json', str(path), *args)
        document = json.loads(path.read_text())
        self.assertEqual(document['framework'], 'kiln')
        return {row['name'] + ('' if row['mode'] == 'eager' else f'/{row["mode"]}'): row for row in document['rows']}

    def test_figures(self):
        page = self.dir / 'page.html'
        rows = self.rows('--budget', '0.02', '--filter', '[sd][iu]*_[a1]*', '--html', str(page))
        self.assertEqual(sorted(rows), ['dispatch_1000', 'dispatch_1000/jit', 'sum_all', 'sum_all/jit'])
        for row in rows.values():
            keys = {'mode', 'time_ns', 'min_ns', 'p90_ns', 'runs', 'first_ns', 'bytes', 'flops', 'launches', 'share'}
            self.assertEqual(keys - set(row), set())
            self.assertTrue(0 < row['min_ns'] <= row['time_ns'] <= row['p90_ns'])
            self.assertGreaterEqual(row['runs'], 5)
        self.assertEqual(rows['dispatch_1000']['launches'], 1000)
        if LLVM:  # else single ops run in the place of kernels
            self.assertLess(rows['dispatch_1000/jit']['launches'], 100)
        self.assertGreater(rows['dispatch_1000']['cpu_ns'], 0)
        self.assertEqual(rows['sum_all']['bytes'], 4 << 22)
        self.assertEqual(rows['sum_all']['ceiling'], 'read')
        self.assertGreater(rows['sum_all']['share'], 0)
        self.assertIn('<th>sum_all</th>', page.read_text())
        self.assertIn('<title>sum_all jit: ', page.read_text())
        self.assertIn('class=roof', page.read_text())

    def test_page_sets_runs_beside_others(self):
        row = {'name': 'sum_all', 'mode': 'eager'}
        peer = self.write('peer.json', {'framework': 'peer <1>', 'size': 'tiny', 'rows': [
            {**row, 'time_ns': 1}, {'name': 'sum_rows', 'mode': 'compile', 'time_ns': 1e12}]})
        old = self.write('old.json', {'framework': 'kiln', 'size': 'tiny', 'rows': [{**row, 'time_ns': 1e12}]})
        page = self.dir / 'page.html'
        self.rows('--budget', '0.001', '--size', 'tiny', '--filter', 'sum_*', '--html', str(page),
                  '--beside', peer, '--beside', old)
        text = page.read_text()
        self.assertIn('<th>peer &lt;1&gt;, ms</th><th>ratio</th>', text)
        self.assertRegex(text, r'<tr><th>sum_all</th><td>\S+ \w+</td><td>1e-06 eager</td><td class=behind>0\.00</td>')
        self.assertRegex(text, r'<tr><th>sum_rows</th><td>\S+ \w+</td><td>1e\+06 compile</td><td>\d{5,}\.\d\d</td>')
        self.assertRegex(text, r'<tr><th>sum_cols</th><td>\S+ \w+</td><td></td><td></td></tr>')
        self.assertIn('<td>of 2</td>', text)
        self.assertIn('<th>old.json</th><th>this run</th>', text)
        self.assertRegex(text, r'<tr><th>sum_all</th><td>1e\+06</td><td>\S+</td><td>\S+</td><td><svg')
        self.bad(1, 'absent.json cannot be read', '--filter', 'sum_all', '--beside', str(self.dir / 'absent.json'))
        self.bad(2, 'too many documents beside', *(['--beside', old] * 17))

    def test_growth_is_memory(self):
        rows = self.rows('--growth', '--filter', 'chain5', '--size', 'small')
        self.assertEqual(sorted(rows), ['chain5', 'chain5/jit'])
        if not SANITIZED:
            # The result of a call is there at least, and of op by op one more; ten results are not.
            self.assertGreater(rows['chain5/jit']['growth_B'], 4 << 22)
            self.assertGreater(rows['chain5']['growth_B'], 8 << 22)
            self.assertLess(rows['chain5']['growth_B'], 40 << 22)

    def test_compare_of_memory(self):
        peer = self.write('peer', '''#!/bin/sh
printf '{"framework": "torch", "device": "d", "size": "small", "rows": ['
printf '{"name": "sum_all", "mode": "eager", "growth_B": 0}, {"name": "sum_all", "mode": "compile", "growth_B": 1e12}]}'
''')
        os.chmod(peer, 0o755)
        done = self.compare('--growth', '--python', peer, '--rounds', '1', '--filter', 'sum_all')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r'(?m)^sum_all +eager +\d+\.\d\d +0\.00 +\d+\.\d\d$')
        self.assertRegex(done.stdout, r'(?m)^sum_all +jit +\d+\.\d\d +1000000\.00 +-\d+\.\d\d$')
        self.assertIn('more than torch: sum_all eager\n', done.stdout)
        done = self.compare('--growth', '--peer', 'jax')
        self.assertEqual(done.returncode, 2)

    def test_every_row_runs(self):
        if SANITIZED:
            self.skipTest('the rows take too long in a build with sanitizers')
        rows = self.rows('--budget', '0.001', '--size', 'tiny')
        self.assertEqual([name for name, row in rows.items() if 'error' in row], [])
        self.assertEqual(len(rows), 2 * (len(self.good('--list').split()) - 11) + 15)
        self.assertGreater(rows['cold_start']['time_ns'], 1e5)
        self.assertGreater(rows['first_call/cold']['time_ns'], 1e4)
        for name in ('first_rnn', 'compile_1000', 'compile_4000'):
            self.assertLess(rows[f'{name}/warm']['time_ns'], rows[f'{name}/cold']['time_ns'])
        self.assertLess(rows['warm_gpt/jit']['time_ns'], rows['warm_gpt/jit']['first_ns'])
        for name in ('new_shape/softmax', 'new_shape/gpt_step', 'resnet_sizes/jit'):
            self.assertGreaterEqual(rows[name]['most_ns'], rows[name]['time_ns'], name)
        for name in ('chain5', 'rms_norm', 'broadcast', 'lenet_step', 'gpt_step', 'decode_128'):
            self.assertLess(rows[f'{name}/jit']['launches'], rows[name]['launches'], name)

    @unittest.skipIf(SANITIZED, 'a sanitizer is loaded first')
    def test_opening_the_cpu_starts_no_thread(self):
        """After the first thread of a process each allocation locks: a tenth of the cost of a small op."""
        done = subprocess.run([sys.executable, '-c', f'''
import ctypes
single = ctypes.c_byte.in_dll(ctypes.CDLL(None), '__libc_single_threaded')
before = single.value
kiln = ctypes.CDLL({str(BUILD / 'libkiln.so')!r})
kiln.kiln_device_open.restype = ctypes.c_void_p
print(before, bool(kiln.kiln_device_open(b'cpu')), single.value)
'''], env={**ENV, 'OMP_NUM_THREADS': '2'}, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.stdout, '1 True 1\n', done.stderr)

    def test_modes(self):
        rows = self.rows('--budget', '0.001', '--filter', 'sum_all', '--modes', 'jit')
        self.assertEqual(list(rows), ['sum_all/jit'])
        rows = self.rows('--budget', '0.001', '--filter', 'sum_all', '--modes', 'eager')
        self.assertEqual(list(rows), ['sum_all'])
        for modes in ('', 'jit,', 'eager,jitted'):
            self.bad(2, 'not a list of modes', '--modes', modes)

    def test_memory_does_not_grow(self):
        row = self.rows('--memory', '--filter', 'train_10000')['train_10000']
        self.assertEqual(row['heap_used_B_100'], row['heap_used_B_10000'])
        self.assertEqual(row['heap_reserved_B_100'], row['heap_reserved_B_10000'])
        self.assertEqual(row['heap_allocs_100'], row['heap_allocs_10000'])

    def test_compare_takes_the_better_mode_of_each(self):
        peer = self.write('peer.json', {'framework': 'p', 'device': 'd', 'size': 'small', 'rows': [
            {'name': 'add', 'mode': 'eager', 'time_ns': 8e6}, {'name': 'add', 'mode': 'compile', 'time_ns': 4e6},
            {'name': 'softmax', 'mode': 'eager', 'time_ns': 9e6},
            {'name': 'odd', 'mode': 'eager', 'error': 'no\u00e9 \\'}]})
        own = self.write('own.json', {'framework': 'k', 'device': 'd', 'size': 'small', 'rows': [
            {'name': 'add', 'mode': 'eager', 'time_ns': 3e6}, {'name': 'add', 'mode': 'jit', 'time_ns': 2e6},
            {'name': 'softmax', 'mode': 'eager', 'time_ns': 18e6}, {'name': 'softmax', 'mode': 'jit', 'error': 'no'},
            {'name': 'odd', 'mode': 'eager', 'time_ns': 1e6}, {'name': 'bad', 'mode': 'jit', 'error': 'differs'}]})
        text = self.good('--compare', peer, own)
        self.assertRegex(text, r'(?m)^add +jit +2\.0000 +4\.0000 compile +2\.00$')
        self.assertEqual(text.count('add '), 1)
        self.assertRegex(text, r'(?m)^bad +jit +failed: differs$')
        self.assertRegex(text, r'(?m)^softmax +eager +18\.0000 +9\.0000 eager +0\.50$')
        self.assertRegex(text, r'(?m)^odd +eager +1\.0000 +-$')
        self.assertIn('geometric mean of 2 ratios: 1.000', text)

    def test_compare_in_turns_takes_medians_of_rounds(self):
        peer = self.write('peer', f'''#!/bin/sh
count=$(cat {self.dir}/count 2>/dev/null || echo 0)
echo $((count + 1)) >{self.dir}/count
[ "$count" = 1 ] && time=9000000 || time=$((count + 2))000000
printf '{{"framework": "p", "device": "d", "size": "small", "rows": ['
printf '{{"name": "matmul_batch", "mode": "eager", "time_ns": %d}}]}}' $time
''')
        os.chmod(peer, 0o755)
        done = subprocess.run([ROOT / 'bench/compare', '--bench', PROGRAM, '--python', peer, '--rounds', '3',
                               '--filter', 'matmul_batch', '--budget', '0.001', '--out', str(self.dir / 'out')],
                              env=ENV, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r'(?m)^matmul_batch +(eager|jit) +\d+\.\d+ +4\.0000 eager +\d+\.\d+ \d+% of fma$')
        kiln = json.loads((self.dir / 'out/kiln.json').read_text())
        self.assertEqual((kiln['rounds'], len(kiln['rows'])), (3, 2))

    def test_compare_keeps_whole_rounds_when_it_is_interrupted(self):
        peer = self.write('peer', f'''#!/bin/sh
count=$(cat {self.dir}/count 2>/dev/null || echo 0)
echo $((count + 1)) >{self.dir}/count
[ "$count" = $(cat {self.dir}/last) ] && kill $PPID && exec sleep 60
printf '{{"framework": "p", "device": "d", "size": "small", "rows": ['
printf '{{"name": "sum_all", "mode": "eager", "time_ns": %d}}]}}' $((count + 2))000000
''')
        os.chmod(peer, 0o755)
        self.write('last', '1')
        args = ('--python', peer, '--rounds', '5', '--filter', 'sum_all', '--budget', '0.001')
        done = self.compare(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('compare: interrupted: the figures are those of 1 of 5 rounds\n', done.stderr)
        self.assertRegex(done.stdout, r'(?m)^sum_all +(eager|jit) +\d+\.\d+ +2\.0000 eager')
        self.assertEqual(json.loads((self.dir / 'out/kiln.json').read_text())['rounds'], 1)
        self.write('count', '0')
        self.write('last', '0')
        done = self.compare(*args)
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertIn('compare: interrupted before a round was whole\n', done.stderr)

    def compare(self, *args):
        return subprocess.run([ROOT / 'bench/compare', '--bench', PROGRAM, '--out', str(self.dir / 'out'), *args],
                              env=ENV, capture_output=True, text=True, timeout=200)

    def test_compare_of_two_builds(self):
        done = self.compare('--before', PROGRAM, '--before', PROGRAM, '--rounds', '2', '--size', 'tiny', '--filter',
                            'sum_', '--budget', '0.001', '--device', 'cpu')
        self.assertEqual(done.returncode, 0, done.stderr)
        for row in ('sum_all', 'sum_rows', 'sum_cols', 'cumsum_rows', 'cumsum_cols'):
            for mode in ('eager', 'jit'):
                self.assertRegex(done.stdout,
                                 rf'(?m)^{row} +{mode} +\d+\.\d{{4}}( +\d+\.\d{{4}} +\d+\.\d\d){{2}}$')
        self.assertRegex(done.stdout, r'(?m)^geometric mean of 10 ratios, before2: \d+\.\d+$')
        documents = sorted(path.name for path in (self.dir / 'out').iterdir())
        self.assertEqual(documents, ['before.json', 'before2.json', 'kiln.json'])

    def test_compare_with_two_peers(self):
        peer = self.write('peer', f'''#!/bin/sh
name=$(basename "$1" _rows.py)
echo $name >>{self.dir}/order
[ $name = jax ] && fails='{{"name": "sum_rows", "mode": "eager", "error": "no"}},'
printf '{{"framework": "%s", "device": "d", "size": "small", "rows": [%s' $name "$fails"
printf '{{"name": "sum_all", "mode": "eager", "time_ns": 9e9}},'
printf '{{"name": "sum_all", "mode": "compile", "time_ns": 2e9}}]}}'
''')
        os.chmod(peer, 0o755)
        done = self.compare('--peer', 'torch', '--peer', 'jax', '--python', peer, '--rounds', '3', '--filter', 'sum_',
                            '--budget', '0.001', '--modes', 'eager', '--markdown', str(self.dir / 'table.md'))
        self.assertEqual(done.returncode, 0, done.stderr)
        table = (self.dir / 'table.md').read_text()
        self.assertIn('| row | ours, ms | torch, ms | ratio | jax, ms | ratio | share of the ceiling |\n', table)
        self.assertIn('| **matrix** | | | | | | |\n', table)
        self.assertRegex(table, r'(?m)^\| `sum_all` \| \S+ eager( \| 2e\+03 compile \| \d+\.\d\d){2}'
                                r' \| \d+% of read \|$')
        means = re.search(r'(?m)^jax: geometric mean of 1 ratios (\d+\.\d\d) \((\d+\.\d\d) if the 1 rows that have a '
                          r'ceiling were there\); below 0\.97: none\.$', table)
        (row,) = (r for r in json.loads((self.dir / 'out/kiln.json').read_text())['rows'] if r['name'] == 'sum_all')
        self.assertAlmostEqual(float(means[1]) / 2e9 * row['time_ns'], 1, places=2)
        self.assertAlmostEqual(float(means[2]) / float(means[1]) * min(row['share'], 1), 1, places=2)
        self.assertRegex(done.stdout, r'(?m)^sum_all +eager +\d+\.\d+( +2000\.0000 compile +\d+\.\d\d){2}'
                                      r' \d+% of read$')
        self.assertRegex(done.stdout, r'(?m)^sum_rows +eager +\d+\.\d+( +-){2} +\d+% of read$')
        self.assertIn('jax: sum_rows eager failed: no', done.stdout)
        order = (self.dir / 'order').read_text().split()
        self.assertEqual(order, ['torch', 'jax', 'torch', 'jax', 'jax', 'torch'])

    def test_compare_refuses_bad_options(self):
        for expected, *args in (("invalid choice: 'numpy'", '--peer', 'numpy'), ('at least 1', '--rounds', '0'),
                                ('there is no program', '--before', str(self.dir / 'absent')),
                                ('the peers have no such rows', '--size', 'tiny'),
                                ('unrecognized arguments', '--after', PROGRAM)):
            done = self.compare(*args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn(expected, done.stderr)

    def instructions(self, *args):
        return subprocess.run([sys.executable, ROOT / 'bench/instructions', *args],
                              env={**ENV, 'PATH': str(self.dir)}, capture_output=True, text=True, timeout=200)

    def test_counts_are_those_of_the_baseline(self):
        fake = self.write('bench', '''#!/bin/sh
for arg; do path=$arg; done
row() { printf '%s{"name": "a", "mode": "%s", "launches": %s, "moved_B": %s, "kernels": 1}' "$@"; }
{ row '{"rows": [' eager 2 8; row , jit "${CAPTURED:-1}" "${MOVED:-8}"; row , auto "${AUTO:-2}" 8; echo ]}; } >"$path"
''')
        os.chmod(fake, 0o755)
        baseline = str(self.dir / 'counts.json')

        def counts(*args, **env):
            return subprocess.run([ROOT / 'bench/counts', '--baseline', baseline, *args, fake], env={**ENV, **env},
                                  capture_output=True, text=True, timeout=60)

        self.assertEqual(counts('--write').returncode, 0)
        self.assertEqual((counts().returncode, counts().stdout), (0, ''))
        done = counts(CAPTURED='2')
        self.assertEqual(done.returncode, 1)
        self.assertIn('a: jit launches is 2, was 1', done.stdout)
        self.assertNotIn('more than', done.stdout)
        done = counts('--write', CAPTURED='3', AUTO='4', MOVED='9')
        self.assertEqual(done.returncode, 1)
        for worse in ('launches of jit is 3, more than 2 of eager', 'launches of auto is 4, more than 2 of eager',
                      'moved_B of jit is 9, more than 8 of eager'):
            self.assertIn(f'a: {worse}', done.stdout)

    def test_marked_rows_are_slower_captured(self):
        rows = self.rows('--budget', '0.001', '--size', 'tiny', '--group', 'vector', '--modes', 'eager,jit,auto')
        for name in {name.split('/')[0] for name in rows}:
            for mode, allowed in (('jit', 1.03), ('auto', 1.10)):
                row, eager = rows[f'{name}/{mode}'], rows[name]
                if 'slower' in row:  # also in rounds in turns
                    self.assertGreater(row['slower'], allowed)
                    self.assertGreater(row['time_ns'] / eager['time_ns'], allowed)

    def test_instructions_of_two_builds(self):
        self.assertEqual(self.instructions(PROGRAM).returncode, 77)
        valgrind = self.write('valgrind', '''#!/bin/sh
for arg; do
    case $arg in
    --callgrind-out-file=*) out=${arg#*=} ;;
    */other) scale=2 ;;
    1e-9) count=1005 ;;
    1e9) count=1200 ;;
    --cold-child) count=30 ;;
    chain5) count=70 ;;
    compile_1000 | unrolled_16) count=100 ;;
    compile_4000) count=310 ;;
    unrolled_64) count=${LARGE:-310} ;;
    parameters_500) count=50 ;;
    parameters_2000) count=${MANY:-200} ;;
    esac
done
echo "totals: $((count * ${scale:-1}))" >"$out"
''')
        os.chmod(valgrind, 0o755)
        other = self.write('other', '#!/bin/sh\n')
        os.chmod(other, 0o755)
        done = self.instructions(PROGRAM, other)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, first in (('dispatch_1000 eager', 1), ('cold_start', 30),
                            ('first_call cold', 70), ('first_call warm', 70),
                            ('compile_1000', 100), ('compile_4000', 310),
                            ('unrolled_16', 100), ('unrolled_64', 310),
                            ('parameters_500', 50), ('parameters_2000', 200)):
            self.assertRegex(done.stdout, rf'(?m)^{name} +{first} +{2 * first} +2\.000$')
        held = ('--compiler', 'gcc-1', '--results', str(self.dir))
        self.assertEqual(self.instructions(*held, PROGRAM).returncode, 77)
        self.assertEqual(self.instructions(*held, '--write', PROGRAM).returncode, 0)
        self.assertEqual(self.instructions(*held, PROGRAM).returncode, 0)
        done = self.instructions(*held, other)
        self.assertEqual(done.returncode, 1)
        self.assertIn('cold_start: 60 instructions, 2.000 of the 30 before', done.stdout)
        ENV['LARGE'] = '340'
        self.addCleanup(ENV.pop, 'LARGE')
        self.assertIn('unrolled_64: 4.43 times the instructions of unrolled_16, beside those of cold_start',
                      self.instructions(*held, PROGRAM).stdout)
        ENV['MANY'] = '221'
        self.addCleanup(ENV.pop, 'MANY')
        self.assertIn('parameters_2000: 4.42 times the instructions of parameters_500',
                      self.instructions(*held, PROGRAM).stdout)
        self.assertEqual(self.instructions('--write', PROGRAM).returncode, 2)
        done = self.instructions(str(self.dir / 'absent'))
        self.assertEqual(done.returncode, 2)
        self.assertIn('there is no program', done.stderr)

    def test_compare_refuses_what_is_no_document(self):
        good = self.write('good.json', {'rows': [{'name': 'add', 'mode': 'eager', 'time_ns': 1}]})
        other = self.write('other.json', {'rows': [{'name': 'sub', 'mode': 'eager', 'time_ns': 1}]})
        self.bad(1, 'absent.json cannot be read: No such file or directory', '--compare', str(self.dir / 'absent.json'),
                 good)
        self.bad(1, 'empty.json cannot be read: it is empty', '--compare', self.write('empty.json', ''), good)
        # Before the rows are timed, not after.
        for option in ('--json', '--html'):
            done = self.bad(1, '/absent/a cannot be written: No such file or directory', '--size', 'tiny', option,
                            f'{self.dir}/absent/a')
            self.assertEqual(done.stdout, '')
        self.bad(1, 'no row in common', '--compare', good, other)
        self.bad(1, 'there is no list "rows"', '--compare', self.write('a.json', '{"rows": 3}'), good)
        broken = ('{"rows": [', '{"rows" [', '["\\u12"]', '{"rows": [1 2]}', '{} x', '[' * 100, '"\\q"',
                  '{"a": tru}')
        for text in broken:
            self.bad(1, 'at byte', '--compare', self.write('b.json', text), good)
        self.bad(2, 'takes two files', '--compare', good)

    def test_mistakes(self):
        self.bad(1, 'there is no device', '--device', 'ascend', '--filter', 'add')
        self.bad(1, 'no row matches', '--device', 'cpu', '--filter', 'nosuch')
        self.bad(1, 'cannot be written', '--device', 'cpu', '--budget', '0.001', '--filter', 'matmul_batch', '--json',
                 str(self.dir / 'no/such/folder.json'))
        self.bad(2, 'no such size: "huge"', '--size', 'huge')
        self.bad(2, 'not a list of modes: "fast"', '--modes', 'fast')


class GpuCheck(Common):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.folder.name)
        (self.dir / 'bin').mkdir()

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, body):
        path = self.dir / 'bin' / name
        path.write_text(f'#!/bin/sh\n{body}\n')
        path.chmod(0o755)

    def check(self, status, *args):
        done = run('--bin', str(self.dir / 'bin'), '--out', str(self.dir / 'out'), *args)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads((self.dir / 'out/gpu-check.json').read_text())

    def test_verdicts_of_programs(self):
        self.program('test_elementwise', 'echo "on $1 with $KILN_TEST_DEVICES \\"x\\\\y\\""')
        self.program('test_nn', 'echo "on $KILN_DEVICE"; exit 3')
        self.program('test_io', 'exit 77')
        document = self.check(1, '--part', 'tests', '--device', 'vulkan:0')
        programs = {p['name']: p for p in document['tests']['programs']}
        self.assertEqual({n: p['verdict'] for n, p in programs.items()},
                         {'test_elementwise': 'passed', 'test_nn': 'failed', 'test_io': 'skipped'})
        self.assertEqual(programs['test_elementwise']['tail'], 'on vulkan with vulkan "x\\y"\n')
        self.assertEqual(programs['test_nn']['tail'], 'on vulkan:0\n')
        self.assertEqual(programs['test_nn']['status'], 3)

    def test_parts_are_kept_and_merged(self):
        self.program('test_nn', 'exit 0')
        self.program('kiln-bench', '''
if [ "$1" = --list ]; then echo add; echo mul; echo hang; exit 0; fi
while [ "$1" != --filter ]; do shift; done
[ "$2" = hang ] && exit 9
printf '{"framework": "kiln", "device": "d", "size": "large", "threads": 0,\\n "rows": [\\n' >"$4"
printf '  {"name": "%s", "mode": "eager", "time_ns": 5}\\n ]}\\n' "$2" >>"$4"''')
        self.check(0, '--part', 'tests')
        document = self.check(1, '--part', 'bench')
        self.assertEqual(document['tests']['programs'][0]['verdict'], 'passed')
        rows = {row['name']: row for row in document['bench']['rows']}
        self.assertEqual(document['bench']['framework'], 'kiln')
        self.assertEqual(rows['add']['time_ns'], 5)
        self.assertEqual(rows['mul']['time_ns'], 5)
        self.assertEqual(rows['hang']['error'], 'ended with status 9')

    def test_rows_of_a_stopped_peer_are_kept(self):
        self.program('python', '[ "$1" = -c ] && exit 0\necho "add eager 1.500 ms" >&2; echo "x: odd" >&2; exit 124')
        document = self.check(0, '--part', 'peer', '--python', str(self.dir / 'bin/python'))
        self.assertEqual(document['peer']['rows'], [{'name': 'add', 'mode': 'eager', 'time_ns': 1500000}])

    def test_mistakes(self):
        self.bad(2, 'there is no part "all"', '--part', 'all')
        self.bad(2, 'takes a number', '--minutes', 'x')
        self.bad(2, 'needs a value', '--out')
        self.bad(2, 'there is no folder', '--bin', str(self.dir / 'absent'))


SUITES = {'kiln-cache': Cache, 'kiln-info': Info, 'kiln-opt': Opt, 'kiln-prof': Prof, 'kiln-run': Run,
          'kiln-shader-dump': ShaderDump, 'kiln-bench': Bench, 'gpu-check': GpuCheck}

if __name__ == '__main__':
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(SUITES[NAME])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(not result.wasSuccessful() or not result.testsRun)
