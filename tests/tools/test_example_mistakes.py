#!/usr/bin/env python3
"""The programs of docs/examples say what is wrong with what they are given: the option, the file, and why; the usage
comes behind that. usage: test_example_mistakes.py PROGRAM...
"""
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAMS = {pathlib.Path(path).name: pathlib.Path(path).resolve() for path in sys.argv[1:]}
NO = '/nonexistent'
NO_FILE = 'No such file or directory'

# Status, what is said first, the command line.
USAGE = [
    ("unrecognized option '--nonsense'", '--nonsense'),
    ('option \'--device\' requires an argument', '--device'),
]
MISTAKES = {
    'embed': [
        (2, '--model is missing'), (1, f'{NO}: {NO_FILE}', '--model', NO),
        (2, '--batch "x": it is no number', '--batch', 'x'),
        (1, f'{NO}: {NO_FILE}', '--model', NO, '--vocab', os.devnull, 'a'),
        (2, '--vocab FILE is missing', '--model', __file__, 'a'), (2, '--vocab FILE is missing', '--ids', 'a'),
        (1, f'{NO}: {NO_FILE}', '--ids', '--vocab', NO, 'a'), (1, f'/etc/vocab.txt: {NO_FILE}', '--model', '/etc', 'a'),
        (2, '--length 1: it has to be 2 or more', '--length', '1'),
        (2, '--length takes 65536 at most', '--ids', '--length', '65537'),
    ],
    'fashion_mnist': [
        (2, 'unexpected argument "stray"', 'stray'), (2, '--epochs "x": it is no number', '--epochs', 'x'),
        (2, '--epochs -1: it has to be 0 or more', '--epochs', '-1'),
        (2, '--lr 0: it has to be more than 0', '--lr', '0'),
        (2, '--modes takes eager, jit, or both', '--modes', 'both'), (2, '--data "": it is empty', '--data', ''),
        (77, f'{NO}/train-images-idx3-ubyte.gz: cannot be opened: {NO_FILE}', '--data', NO),
        (1, 'there is no device "nothing"', '--device', 'nothing'),
    ],
    'getting_started': [(2, 'usage: getting_started [EPOCHS [NAME]], 1 epoch or more', 'x')],
    'gpt': [
        (2, 'unexpected argument "stray"', 'stray'), (2, '--width has to be a multiple of --heads', '--heads', '5'),
        (2, '--batch 0: it has to be 1 or more', '--batch', '0'), (2, '--batch takes 1024 at most', '--batch', '5000'),
        (2, '--generate has to be less than --length', '--generate', '64'), (1, f'{NO}: {NO_FILE}', '--text', NO),
        (1, 'no .md files with enough text', '--text', '/dev'),
    ],
    'image_pipeline': [
        (2, 'unexpected argument "stray"', 'stray'), (2, '--side has to be even', '--side', '17'),
        (2, '--blur "wide": it is no number', '--blur', 'wide'),
        (2, '--noise 0: it has to be more than 0', '--noise', '0'),
        (77, f'{NO}: cannot be opened: {NO_FILE}', '--input', NO),
        (1, 'that is not 1 dB better: --side may be too small', '--side', '32'),
    ],
    'kalman': [(2, 'unexpected argument "stray"', 'stray'), (2, '--steps 1: it has to be 2 or more', '--steps', '1')],
    'language_model': [
        (2, '--text FILE is missing'), (2, 'unexpected argument "stray"', '--text', 'a', 'stray'),
        (77, f'{NO}: cannot be opened: {NO_FILE}', '--text', NO),
        (1, 'the text is too short for --batch and --length', '--text', __file__, '--batch', '1024'),
    ],
    'resnet': [(2, 'unexpected argument "stray"', 'stray'), (2, '--batch 0: it has to be 1 or more', '--batch', '0')],
    'speech': [
        (2, '--model FILE is missing', 'a.wav'), (2, 'SOUND.wav is missing', '--model', 'a'),
        (2, 'there is more than one sound', '--model', 'a', 'a.wav', 'b.wav'),
        (1, f'{NO}: cannot be opened: {NO_FILE}', '--model', NO, NO),
    ],
    'vae': [(2, 'unexpected argument "stray"', 'stray'), (2, '--latent "3x": it is no number', '--latent', '3x')],
}


def try_one(folder, name, status, said, *args):
    done = subprocess.run([PROGRAMS[name], *args], cwd=folder, capture_output=True, text=True, timeout=60)
    told = done.stderr
    assert done.returncode == status, (name, args, done.returncode, told)
    assert said in told, (name, args, told)
    if status == 2:
        assert done.stdout == '' and f'usage: {name}' in told, (name, args, told)
        assert told.index(said) <= told.index('usage: '), (name, args, told)


assert set(MISTAKES) == set(PROGRAMS), set(MISTAKES) ^ set(PROGRAMS)
with tempfile.TemporaryDirectory() as place:
    for name, mistakes in MISTAKES.items():
        for mistake in mistakes:
            try_one(place, name, *mistake)
        for mistake in USAGE if name != 'getting_started' else ():
            try_one(place, name, 2, *mistake)
print(f'{sum(map(len, MISTAKES.values()))} mistakes of {len(PROGRAMS)} programs')
