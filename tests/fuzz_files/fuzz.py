#!/usr/bin/env python3
"""Runs a fuzzer of this folder.

usage: fuzz.py replay PROGRAM CORPUS            each input of the corpus, once
       fuzz.py short PROGRAM CORPUS [SECONDS]   the corpus, then inputs made from it: the same in each run, 5 s at most
       fuzz.py long PROGRAM CORPUS [SECONDS]    other inputs in each run, 10 minutes
       fuzz.py merge PROGRAM CORPUS FOLDER...   few inputs of the corpus and the folders that reach what all reach

short, long and merge need a build with -Dfuzzers=enabled. An input that fails is kept beside the program, and the last
lines say where; long keeps what it found new in PROGRAM.found, for merge.
"""
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHORT_RUNS = 20000
GAIN = 4  # edges that an input must add to be kept in a corpus
# As tests/meson.build has it, for runs by hand.
SANITIZERS = {'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1', 'ASAN_OPTIONS': 'intercept_tls_get_addr=0',
              'LSAN_OPTIONS': f'suppressions={ROOT}/tests/lsan.supp:print_suppressions=0', 'OMP_WAIT_POLICY': 'passive'}
LIMITS = ['-timeout=20', '-rss_limit_mb=1024', '-malloc_limit_mb=64', '-print_final_stats=1', '-verbosity=1']


def run(program, arguments, quiet=False):
    """In a folder in memory, for a fuzzer writes many files."""
    memory = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix='kiln-fuzz-', dir=memory) as folder:
        env = {**SANITIZERS, **os.environ, 'FUZZ_FOLDER': folder}
        done = subprocess.run([program, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors='replace')
    lines = done.stdout.splitlines()
    if done.returncode or not quiet:
        print('\n'.join(lines if done.returncode else lines[-8:]))
    return done.returncode


def words():
    """Of graphs and expressions, which blind changes of bytes would not spell: what the tables name."""
    names = set()
    for table in ('ops/elementwise.def', 'ops/structured.def', 'scalar/prim.def', 'scalar/lib.def', 'base/dtype.def'):
        text = (ROOT / 'src' / table).read_text()
        names |= set(re.findall(r'^[A-Z_]+\((\w+)', text, re.MULTILINE)) | set(re.findall(r'"([a-z]\w*)"', text))
        names |= set(re.findall(r'(\w+:)(?:int|ints|float|bool|dtype)\b', text))
    return sorted(names)


def fuzz(program, corpus, arguments, found):
    """libFuzzer adds what is new to the first folder."""
    found.mkdir(exist_ok=True)
    prefix = f'{program}-failed-'
    options = [f'-artifact_prefix={prefix}']
    with tempfile.NamedTemporaryFile('w', suffix='.dict') as dictionary:
        if corpus.name in ('graph', 'expression'):
            dictionary.write(''.join(f'"{word}"\n' for word in words()))
            dictionary.flush()
            options.append(f'-dict={dictionary.name}')
        code = run(program, [*LIMITS, *options, *arguments, found, corpus])
    if code:
        print(f'once the failure is mended, the input that failed ({prefix}...) belongs into {corpus}')
    return code


def merged(program, folders):
    """{input: the edges that no input before it reaches}, smallest inputs first, by libFuzzer's notes on a merge."""
    with tempfile.TemporaryDirectory() as place:
        none, control = pathlib.Path(place, 'none'), pathlib.Path(place, 'control')
        none.mkdir()
        options = ['-merge=1', '-use_counters=0', f'-merge_control_file={control}']
        if run(program, [*LIMITS, *options, none, *folders], quiet=True):
            sys.exit(f'{program} fails with one of these inputs')
        first, *lines = control.read_text().splitlines()
    paths, notes = lines[1:int(first) + 1], lines[int(first) + 1:]
    found = {int(note[1]): set(note[2:]) for note in map(str.split, notes) if note[0] == 'FT'}
    return {paths[i]: edges for i, edges in found.items() if edges}


def merge(program, corpus, folders):
    """Takes the input that reaches most of what is left, again and again. What has a name of its own stays."""
    edges, data = {}, {}
    for path in merged(program, [corpus, *folders]):
        data[path] = pathlib.Path(path).read_bytes()
        with tempfile.TemporaryDirectory() as alone:
            pathlib.Path(alone, 'input').write_bytes(data[path])
            edges[path], = merged(program, [alone]).values()
    for path in corpus.iterdir():
        if re.fullmatch('[0-9a-f]{40}', path.name):
            path.unlink()
    left = set().union(*edges.values())
    while left:
        best = max(edges, key=lambda path: (len(edges[path] & left), -len(data[path])))
        if len(edges[best] & left) < GAIN:
            break
        left -= edges[best]
        (corpus / hashlib.sha1(data[best]).hexdigest()).write_bytes(data[best])
    print(f'{len(list(corpus.iterdir()))} inputs of {len(edges)}')
    return 0


def main(act, program, corpus, *rest):
    program, corpus = (pathlib.Path(p).resolve() for p in (program, corpus))
    if act == 'replay':
        return run(program, [corpus])
    if act == 'merge':
        return merge(program, corpus, [pathlib.Path(p).resolve() for p in rest])
    if act == 'short':
        with tempfile.TemporaryDirectory() as found:
            bounds = [f'-runs={SHORT_RUNS}', f'-max_total_time={rest[0] if rest else 5}']
            return fuzz(program, corpus, ['-seed=1', *bounds], pathlib.Path(found))
    if act == 'long':
        return fuzz(program, corpus, [f'-max_total_time={rest[0] if rest else 600}'], program.with_suffix('.found'))
    print(__doc__)
    return 2


if __name__ == '__main__':
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
