#!/usr/bin/env python3
"""Capabilities that take more than one process: a debugger, compilers, an installation, a tool, Meson.

usage: processes.py capability_NN BUILD_DIR SOURCE_DIR [PROGRAM...]

Exit status 77 with a reason means that the machine lacks what the test needs.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CHANGED = ('KILN_DEVICE', 'KILN_DEBUG', 'CFLAGS', 'CXXFLAGS', 'LDFLAGS')
GRAPH = ('%0: f32[8,16] = input "x"\n%1: f32[8,16] = tanh(%0)\n%2: f32[8,16] = mul(%1, %0)\n'
         '%3: f32[8] = sum(%2) {axes = [1], keepdims = false}\nreturn %3 "y"\n')
CLEAN = {k: v for k, v in os.environ.items() if k not in CHANGED}
GRADIENT = [9.02, 5.4, 7.2] * 2


def check(condition, text):
    if not condition:
        sys.exit(f'failed: {text}')


def skip(reason):
    print(f'skipped: {reason}')
    sys.exit(77)


def run(*command, status=0, **env):
    done = subprocess.run([str(c) for c in command], env={**CLEAN, **env}, capture_output=True, text=True, timeout=500)
    check(status is None or done.returncode == status,
          f'{" ".join(map(str, command))}: status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}')
    return done


def line_of(path, text):
    numbers = [i for i, line in enumerate(path.read_text().splitlines(), 1) if text in line]
    check(len(numbers) == 1, f'{path.name} has {len(numbers)} lines with {text}')
    return numbers[0]


def capability_15(build, source, program):
    """Any debugger: the program stops where the op fails, and the user's frame shows its line and its variables."""
    if not shutil.which('gdb'):
        skip('gdb is not installed')
    line = line_of(HERE / 'failing.c', 'kiln_matmul(h, w)')
    commands = ['set confirm off', 'set debuginfod enabled off', 'set breakpoint pending on', 'break error_set',
                'run', 'backtrace', 'frame function train_step', 'info locals', 'frame function kiln_matmul',
                r'echo finish:\n', 'finish', 'continue']
    ran = run('gdb', '-batch', '-nx', *[f'-ex={c}' for c in commands], program, KILN_DEVICE='cpu')
    out = ran.stdout
    if 'ptrace: Operation not permitted' in out or 'Could not trace the inferior' in out:
        skip('this machine does not let gdb trace a process')
    check(re.search(r'Breakpoint 1, .*error_set \(code=.*KILN_E_SHAPE', out), f'gdb did not stop at the error:\n{out}')
    frame = rf'train_step \(x=0x\w+, w=0x\w+\) at .*failing\.c:{line}\b'
    check(re.search(r'#\d+ .*kiln_matmul \(a=.*, b=.*\)', out), f'no frame of the op:\n{out}')
    check(re.search(r'#\d+ .*' + frame, out), f'no frame of its caller:\n{out}')
    check(re.search(r'^step = 7$', out, re.M), f'no variables of the caller:\n{out}')
    finished = out[out.index('finish:'):]
    check(re.search(frame, finished), f'finishing the op does not lead to its caller:\n{finished}')
    # The program goes on to its message, which is the same without a debugger.
    message = run(program).stderr
    check(message.startswith('matmul: ') and f'(failing.c:{line})' in message, message)
    check('f32[2,3]' in message and 'f32[4,5]' in message, message)
    check(message in ran.stderr, f'no message after the breakpoint:\n{ran.stderr}')


def install(build, folder):
    run('meson', 'install', '-C', build, '--no-rebuild', '--destdir', folder)
    pc = list(pathlib.Path(folder).rglob('kiln.pc'))
    check(len(pc) == 1, f'{len(pc)} files kiln.pc')
    pkg = {'PKG_CONFIG_PATH': str(pc[0].parent), 'PKG_CONFIG_SYSROOT_DIR': str(folder)}
    flags = run('pkg-config', '--cflags', '--libs', 'kiln', **pkg).stdout.split()
    check(any(f == '-lkiln' for f in flags), f'pkg-config says {flags}')
    version = run('pkg-config', '--modversion', 'kiln', **pkg).stdout.strip()
    check(re.fullmatch(r'\d+\.\d+\.\d+', version), version)
    library = next(pathlib.Path(folder).rglob('libkiln.so'))
    return flags, library.parent


def capability_73(build, source, *_):
    """C and C++ programs build against the installed library through pkg-config, without a warning, and run."""
    with tempfile.TemporaryDirectory() as folder:
        flags, where = install(build, folder)
        program = source / 'docs' / 'examples' / 'api_program.c'
        warnings = ['-Wall', '-Wextra', '-Wno-unused-parameter', '-Werror', '-O1', '-g']
        cases = [(compiler, ['-std=c17'], path) for compiler in ('gcc', 'clang')
                 for path in (program, HERE / 'client.c')]
        cases += [(compiler, ['-std=c++20', '-x', 'c++'], path) for compiler in ('g++', 'clang++')
                  for path in (program, HERE / 'client.c', HERE / 'client.cpp')]
        tried = []
        for compiler, language, path in cases:
            if not shutil.which(compiler):
                print(f'{compiler} is not installed')
                continue
            binary = pathlib.Path(folder) / f'{path.stem}-{compiler}-{len(tried)}'
            run(compiler, *language, *warnings, path, '-x', 'none', '-o', binary, *flags)
            done = run(binary, LD_LIBRARY_PATH=str(where), KILN_DEVICE='cpu')
            if path == program:
                got = [float(x) for x in re.findall(r'[\d.]+', done.stdout)]
                good = len(got) == 6 and all(abs(a - b) <= 1e-6 * b for a, b in zip(got, GRADIENT))
            else:
                good = done.stdout == 'good\n'
            check(good, f'{binary.name} prints {done.stdout}')
            tried.append(compiler)
        check('gcc' in tried or 'clang' in tried, 'no C compiler was tried')
        check('g++' in tried or 'clang++' in tried, 'no C++ compiler was tried')
        print(f'{len(tried)} programs built and run')


def capability_74(build, source, bench):
    """kiln-bench runs, writes JSON, compares."""
    keys = {'name', 'mode', 'time_ns', 'min_ns', 'p90_ns', 'runs', 'first_ns', 'bytes', 'flops', 'launches'}
    with tempfile.TemporaryDirectory() as folder:
        files = [f'{folder}/{name}.json' for name in 'ab']
        for path in files:
            run(bench, '--device', 'cpu', '--budget', '0.02', '--filter', 'sum_[ar]*', '--json', path)
            rows = json.loads(pathlib.Path(path).read_text())
            rows = rows['rows'] if isinstance(rows, dict) else rows
            check({r['name'] for r in rows} == {'sum_all', 'sum_rows'}, rows)
            for row in rows:
                check(keys <= set(row), f'{sorted(keys - set(row))} are missing in {row}')
                check(0 < row['min_ns'] <= row['time_ns'] <= row['p90_ns'], row)
                check(row['runs'] > 0 and row['launches'] >= 1, row)
        out = run(bench, '--compare', *files).stdout
        check(re.search(r'^sum_all\b.*\d\.\d+', out, re.M) and re.search(r'^sum_rows\b', out, re.M), out)
        done = run(bench, '--filter', 'no_such_row', status=None)
        check(done.returncode != 0 and 'no_such_row' in done.stderr, 'a filter that matches nothing passes')


def has_vulkan(info):
    return any(d['device'].get('usable') for d in json.loads(run(info, '--json').stdout)['devices'])


ALL_FORMS = ('--list', '--glsl', '--spirv', '--llvm')


def check_glsl(text, *others):
    for part in ('#version 460', 'void main()', '; SPIR-V', 'OpEntryPoint GLCompute', *others):
        check(part in text, f'no {part} in:\n{text[:8000]}')


def dump_while_running(dump, bench, device, folder):
    """What kiln-shader-dump shows of a program's folder while the program runs."""
    kernel = '*.ll' if device == 'cpu' else '*.spvasm'
    command = [bench, '--device', device, '--size', 'tiny', '--filter', 'rms_norm', '--modes', 'jit', '--budget', '60']
    running = subprocess.Popen([str(c) for c in command], env={**CLEAN, 'KILN_DUMP': folder},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 100
        files = pathlib.Path(folder)
        while not (list(files.rglob(kernel)) and list(files.rglob('plan.txt'))):  # which is written last
            check(running.poll() is None, f'the program ended with status {running.returncode}')
            check(time.monotonic() < end, f'no kernel was dumped: {list(files.rglob("*"))}')
            time.sleep(0.02)
        text = run(dump, '--dump', folder, *ALL_FORMS).stdout
        check(running.poll() is None, 'the program ended before it was looked at')
    finally:
        running.terminate()
        running.wait(100)
    return text


def capability_75(build, source, dump, bench, info):
    """kiln-shader-dump shows GLSL and SPIR-V of eager kernels, of a graph, of a running program."""
    check_glsl(run(dump, '--op', 'tanh', '--dtype', 'f32').stdout, 'OpFMul')
    devices = ['cpu', 'vulkan'] if has_vulkan(info) else ['cpu']
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, 'graph.kiln')
        path.write_text(GRAPH)
        for device in devices:
            graph = run(dump, '--graph', path, '--device', device, *ALL_FORMS).stdout
            program = dump_while_running(dump, bench, device, f'{folder}/{device}')
            for text in (graph, program):
                check(': fused' in text, text)
                if device == 'vulkan':
                    check_glsl(text)
                else:
                    check(re.search(r'^define .*@k_\w+', text, re.M), text[:8000])
            for op in ('tanh(', 'mul(', 'sum('):
                check(op in graph, f'the node {op} is not shown:\n{graph}')
        print(f'shown for {" and ".join(devices)}')


def rows_of(bench, *args, budget=0.001):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, 'rows.json')
        run(bench, '--budget', str(budget), '--json', path, *args, MALLOC_PERTURB_='0')  # which costs time
        rows = json.loads(path.read_text())['rows']
    return {(row['name'], row['mode']): row for row in rows}


def products(bench, names, *args):
    """The rows that spend more than half of their time in matrix products: those of half of a product's speed."""
    rows = rows_of(bench, *args, '--filter', 'matmul_*', budget=0.1) | rows_of(bench, *args, '--filter', 'att*')
    speed = {key: row['flops'] / row['min_ns'] for key, row in rows.items()}
    return {name for name in names if speed.get((name, 'eager'), 0) > speed['matmul_f32', 'eager'] / 2}


def check_faster(bench, names, *args):
    """The fastest call of each row, captured, is faster than the fastest eager one, or the median call than the median
    one, as where a software driver now and then has a processor more; on a busy machine after a while, or clearly by
    the medians of one run, which had the same company throughout.

    Where products take most of the time, what fusing saves is less than what two calls differ by: such a row may be
    5 % slower. Where eager calls run at the speed of memory already, nothing can be faster, and only launches count.
    """
    best, median, slower, level, at_limit, in_one_run = {}, {}, names, None, set(), set()
    for budget in (0.001, 0.01, 0.01, 0.1, 0.1, 0.3, 0.3, 0.3, 1, 1, 1):
        for name in slower:
            rows = rows_of(bench, *args, '--filter', name, budget=budget)
            eager, jit = rows[name, 'eager'], rows[name, 'jit']
            if budget >= 0.1 and jit['time_ns'] < 0.95 * eager['time_ns']:
                in_one_run.add(name)
            for key, row in rows.items():
                best[key] = min(row['min_ns'], best.get(key, row['min_ns']))
                median[key] = min(row['time_ns'], median.get(key, row['time_ns']))
                if key == (name, 'eager') and best[key] < 1.2 * (row['ceiling_ns'] or 0):
                    at_limit.add(name)
        slower = [name for name in slower if name not in at_limit | in_one_run and
                  best[name, 'jit'] >= best[name, 'eager'] and
                  (budget < 0.1 or median[name, 'jit'] >= median[name, 'eager'])]
        if slower and level is None:
            level = products(bench, slower, *args)
        slower = [name for name in slower if best[name, 'jit'] > best[name, 'eager'] * (1.05 if name in level else 1)]
        if not slower:
            break
    check(not slower, f'captured is not faster: {slower} of {best}')
    print(', '.join(f'{name} {best[name, "eager"] / best[name, "jit"]:.2f} times as fast' for name in names))


def capability_77(build, source, bench, info):
    """Where ops of a bench row fuse, the captured row takes fewer launches, and less time."""
    named = ['chain5', 'broadcast', 'transpose_add', 'rms_norm', 'group_norm', 'cross_entropy', 'gather_rows',
             'histogram', 'categorical', 'matmul_bias_gelu', 'einsum', 'resize', 'attention', 'attention_causal',
             'sdpa_cached', 'dispatch_1000', 'scan_1000', 'while_device', 'lstm_step', 'lenet_step', 'mlp_step',
             'gpt_step', 'decode_128']
    for device in ['cpu', 'vulkan'] if has_vulkan(info) else ['cpu']:
        rows = {}
        for name in named:
            rows.update(rows_of(bench, '--device', device, '--size', 'tiny', '--filter', name))
        check({name for name, _ in rows} == set(named), f'rows are missing: {sorted(rows)}')
        several = [name for name, mode in rows if mode == 'eager' and rows[name, mode]['launches'] >= 2]
        counts = {name: (int(rows[name, 'eager']['launches']), int(rows[name, 'jit']['launches'])) for name in several}
        print(f'{device}: launches eager, captured: {counts}')
        alone = {name for name, (eager, jit) in counts.items() if jit >= eager}
        # On the CPU these rows are products, with nothing beside softmax and scale, or copies, that could fuse; and an
        # op with a kernel an axis.
        # On a GPU the device decides how many trips this one makes, so that gates stand between its launches.
        by_device = {'attention', 'einsum', 'resize'} if device == 'cpu' else {'while_device'}
        check(alone <= by_device, f'{device}: no fewer launches: {alone}')
        check(len(several) >= 12, several)
        fused = sorted(set(several) - alone)
        check_faster(bench, fused, '--device', device, *(['--size', 'tiny'] if device == 'vulkan' else []))


def check_llvm(build, bench):
    """A kernel that LLVM compiled in this process has run: with the module one launch does what six do without."""
    check('libLLVM' in run('readelf', '-d', build / 'libkiln-llvm.so').stdout, 'the module is without LLVM')
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, 'trace.json')
        row = rows_of_traced(bench, trace, folder)
        spans = [e for e in json.loads(trace.read_text())['traceEvents'] if e['ph'] == 'X']
        compiled = {e['name'] for e in spans if e['cat'] == 'kernel'}
        launched = [e for e in spans if e['cat'] == 'launch' and e['name'] in compiled]
        check(compiled and row['launches'] == 1 and len(launched) >= row['runs'], f'{compiled}, {row}')
        objects = [p for p in pathlib.Path(folder, 'cache/objects').iterdir() if b'\x7fELF' in p.read_bytes()]
        check(len(objects) == len(compiled), f'{len(objects)} objects for {compiled}')
        print(f'{compiled} compiled by LLVM, {len(launched)} launches')


def rows_of_traced(bench, trace, folder):
    path = pathlib.Path(folder, 'row.json')
    run(bench, '--budget', '0.001', '--json', path, '--device', 'cpu', '--size', 'tiny', '--filter', 'rms_norm',
        '--modes', 'jit', KILN_PROFILE=str(trace), KILN_CACHE_DIR=f'{folder}/cache')
    return json.loads(path.read_text())['rows'][0]


def capability_76(build, source, info, test_program, bench):
    """Plain Meson works with the distribution's packages, and each of them is in use."""
    with tempfile.TemporaryDirectory() as folder:
        plain = run('meson', 'setup', f'{folder}/plain', source).stdout
        for what in ('Vulkan device', 'glslang in the library', 'OpenBLAS'):
            check(re.search(rf'{what} *: YES', plain), f'a plain build is without {what}:\n{plain}')
        check(re.search(r'LLVM *: \d+', plain), f'a plain build did not find LLVM:\n{plain}')
        left_out = [f'-D{o}=disabled' for o in ('vulkan', 'openblas', 'llvm')]
        left_out += [f'-D{o}=false' for o in ('tests', 'bench', 'examples')]
        bare = run('meson', 'setup', f'{folder}/bare', source, *left_out).stdout
        for what in ('Vulkan device', 'glslang in the library', 'OpenBLAS', 'LLVM'):
            check(re.search(rf'{what} *: NO', bare, re.I), f'an option does not leave {what} out:\n{bare}')

    symbols = run('nm', build / 'libkiln.so').stdout
    check('glslang_shader_create' in symbols, 'libkiln is without glslang')
    check('spvValidateBinary' in symbols or 'spvValidateWithOptions' in symbols, 'libkiln is without SPIRV-Tools')
    needed = run('readelf', '-d', build / 'libkiln.so').stdout
    for library in ('libvulkan', 'libopenblas', 'libLLVM'):
        check(library not in needed, f'{library} is linked, so programs do not start without it')
    check('libcmocka' in run('readelf', '-d', test_program).stdout, 'the tests are without cmocka')
    library = json.loads(run(info, '--json').stdout)['library']
    check(library['blas'] is True and 'openblas' in library['blas path'], library)
    check('libvulkan' in json.dumps(library), f'no Vulkan loader: {library}')
    check_llvm(build, bench)


if __name__ == '__main__':
    tests = (capability_15, capability_73, capability_74, capability_75, capability_76, capability_77)
    test = {f.__name__: f for f in tests}[sys.argv[1]]
    test(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), *sys.argv[4:])
