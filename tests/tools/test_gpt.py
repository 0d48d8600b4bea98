#!/usr/bin/env python3
"""The checkpoints of docs/examples/gpt.c: what a network generates, it generates again when it is read from its file,
without training; one of another shape is refused. usage: test_gpt.py PROGRAM TEXT_FOLDER
"""
import os
import subprocess
import sys
import tempfile

program, text = sys.argv[1:]
small = ["--text", text, "--width", "32", "--heads", "4", "--layers", "2", "--length", "32", "--batch", "4"]


def run(*args):
    command = [program, *small, "--eager-steps", "0", "--sample", "0", *args]
    return subprocess.run(command, capture_output=True, encoding="latin-1")  # an untrained network writes any bytes


def generated(made):
    assert made.returncode == 0, made.stdout + made.stderr
    lines = made.stdout[made.stdout.index("generated: "):].splitlines()
    return "\n".join(line for line in lines if " letters in " not in line)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "gpt.ckpt")
    first = generated(run("--steps", "25", "--generate", "20", "--checkpoint", path))
    assert os.path.exists(path)
    again = generated(run("--steps", "0", "--generate", "20", "--checkpoint", path, "--seed", "7"))
    assert first == again, f"{first!r} is not {again!r}"
    untrained = generated(run("--steps", "0", "--generate", "20", "--seed", "7"))
    assert untrained != again, "the file is not read"
    longer = generated(run("--steps", "5", "--generate", "20", "--checkpoint", path))  # goes on, and is saved
    assert generated(run("--steps", "0", "--generate", "20", "--checkpoint", path)) == longer
    for other in (["--heads", "2"], ["--width", "64"], ["--length", "16", "--generate", "3"]):
        refused = run("--steps", "0", *other, "--checkpoint", path)
        told = "checkpoint" in refused.stderr or path in refused.stderr
        assert refused.returncode not in (0, 77) and told, (other, refused.stderr)
    assert run("--generate", "32").returncode == 2  # nothing is left of --length to go on from
