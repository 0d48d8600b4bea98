#!/usr/bin/env python3
"""Fail when the guide shows a message that no mistake gets.

usage: mistakes_guide.py PROGRAM GUIDE

The messages are the code in the first column of the table "Messages and what they mean"; "…" stands for any text.
"""
import re
import subprocess
import sys

ROW = re.compile(r'^\| `(.+?)` \|', re.M)


def pattern(shown):
    text = re.escape(shown.replace('train.c:42', '{here}').replace('train.c:31', '{there}'))
    return re.compile(text.replace(re.escape('…'), '.*'))


def main(program, guide):
    listed = subprocess.run([program, '--list'], check=True, capture_output=True, text=True).stdout
    messages = {line.split('\t')[4].removeprefix('kiln: ') for line in listed.splitlines() if line.count('\t') >= 4}
    text = open(guide, encoding='utf-8').read()
    section = text[text.index('## Messages and what they mean'):]
    section = section[:section.index('\n## ', 3)]
    shown = ROW.findall(section)
    bad = [s for s in shown if not any(pattern(s).fullmatch(m) for m in messages)]
    print('\n'.join(f'no mistake gets: {s}' for s in bad) or f'{len(shown)} messages of {len(messages)}')
    return bool(bad) or len(shown) < 20


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
