#!/usr/bin/env python3
"""Fail when a public function is no macro that keeps the frame of its caller.

usage: check_frames.py FRAMES_H GOLDEN HEADER...

GOLDEN lists the functions written by hand, the HEADERs declare those from the tables.
"""
import pathlib
import re
import sys

DECLARATION = re.compile(r'\bKILN_API\b[^;{]*?\b(kiln_\w+)\s*\(')
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/', re.S)


def main(frames, golden, *headers):
    text = pathlib.Path(frames).read_text()
    kept = set(re.findall(r'^#define (kiln_\w+)\(\.\.\.\) .*\b\1\(__VA_ARGS__\)', text, re.M))
    public = set(pathlib.Path(golden).read_text().split())
    for path in headers:
        public |= set(DECLARATION.findall(COMMENT.sub('', pathlib.Path(path).read_text())))
    bad = [f'a call of it can become a jump: {name}' for name in sorted(public - kept)]
    bad += [f'a macro of no public function: {name}' for name in sorted(kept - public)]
    print('\n'.join(bad) if bad else f'{len(kept)} functions')
    return bool(bad or not kept)


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
