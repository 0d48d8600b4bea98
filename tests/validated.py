#!/usr/bin/env python3
"""Runs a program under the Vulkan validation layer, and fails when the layer says a word.

usage: validated.py PROGRAM [ARGUMENT...]
"""
import os
import subprocess
import sys

SAID = 'kiln: validation: '


def main(*command):
    flags = [flag for flag in os.environ.get('KILN_DEBUG', '').split(',') if flag]
    env = {**os.environ, 'KILN_DEBUG': ','.join([*flags, 'validate'])}
    env.pop('KILN_LOG', None)  # 0 would silence the layer
    done = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, errors='replace')
    sys.stderr.write(done.stderr)
    if any(line.startswith(SAID) for line in done.stderr.splitlines()):
        print('the validation layer objects')
        return 1
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
