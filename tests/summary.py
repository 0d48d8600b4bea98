#!/usr/bin/env python3
"""Counts the tests of one or more runs of `meson test` and prints `N passed, N failed, N skipped` as the last line.

usage: summary.py TESTLOG_JSON...

A program made with cmocka counts by its cases, every other one as a single test. Skipped and failed cases are named.
Each run is told with its time and its slowest tests. A suite that takes longer than it may is said to be slow, and does
not fail: a machine may be busy.
"""
import json
import os
import pathlib
import re
import sys

COUNT = {'passed': re.compile(r'^\[  PASSED  \] (\d+) test', re.M),
         'failed': re.compile(r'^\[  FAILED  \] (\d+) test', re.M),
         'skipped': re.compile(r'^\[  SKIPPED \] (\d+) test', re.M)}
CASE = {'failed': re.compile(r'^\[  FAILED  \] ([A-Za-z_]\w*)$', re.M),
        'skipped': re.compile(r'^\[  SKIPPED \] ([A-Za-z_]\w*)$', re.M)}
RESULT = {'OK': 'passed', 'EXPECTEDFAIL': 'passed', 'SKIP': 'skipped'}
SUITE_MIN = 20  # on two processors: the run of testlog.json, without what takes many minutes
SLOWEST = 5


def tell_times(log, entries):
    """Prints how long a run took, from the start of its first test to the end of its last, and what took long."""
    folder, processors = pathlib.Path(log).parts[-3], len(os.sched_getaffinity(0))
    ends = [entry['starttime'] + entry['duration'] for entry in entries]
    minutes = (max(ends) - min(entry['starttime'] for entry in entries)) / 60
    slowest = sorted(entries, key=lambda entry: -entry['duration'])[:SLOWEST]
    print(f'time: {folder}: {minutes:.1f} minutes on {processors} processors; '
          + ', '.join(f'{entry["name"].split(" / ")[-1]} {entry["duration"]:.0f} s' for entry in slowest))
    if minutes > SUITE_MIN and processors >= 2 and pathlib.Path(log).name == 'testlog.json':
        print(f'slow: {folder}: the suite is to take less than {SUITE_MIN} minutes on 2 processors')


def count(entry):
    """Returns ({'passed': n, ...}, {'failed': {names}, 'skipped': {names}}) of one program."""
    text = entry.get('stdout', '') + '\n' + entry.get('stderr', '')
    totals = {kind: sum(int(n) for n in pattern.findall(text)) for kind, pattern in COUNT.items()}
    names = {kind: set(pattern.findall(text)) for kind, pattern in CASE.items()}
    outcome = RESULT.get(entry['result'], 'failed')
    if not any(totals.values()):
        totals[outcome] = 1
    elif outcome == 'failed' and not totals['failed']:
        totals['failed'] = 1  # all cases passed, yet the program failed: a leak, a crash at exit
    return totals, names


def main(*logs):
    totals = dict.fromkeys(COUNT, 0)
    for log in logs:
        folder = pathlib.Path(log).parts[-3]
        entries = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
        if entries:
            tell_times(log, entries)
        for entry in entries:
            program, names = count(entry)
            for kind, number in program.items():
                totals[kind] += number
            for kind in ('skipped', 'failed'):
                if program[kind]:
                    cases = ', '.join(sorted(names[kind])) or entry['result'].lower()
                    print(f'{kind}: {folder}: {entry["name"]}: {cases}')
    print(', '.join(f'{number} {kind}' for kind, number in totals.items()))
    return totals['failed'] > 0 or totals['passed'] == 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
