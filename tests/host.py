"""What tests of files ask of the machine they run on, before they mount, or start programs as somebody else."""
import os
import shutil
import subprocess

NOBODY = 65534
AS_NOBODY = {'user': NOBODY, 'group': NOBODY, 'extra_groups': []}


def can_mount():
    """Whether this process may mount in a namespace of its own."""
    if not shutil.which('unshare'):
        return False
    mount = ['mount', '-t', 'tmpfs', 'none', '/mnt']
    return subprocess.run(['unshare', '-m', *mount], capture_output=True).returncode == 0


def can_be_nobody(command, **env):
    """Whether another user may start the program, which this command ends well."""
    if os.geteuid() != 0:
        return False
    try:
        done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, **AS_NOBODY)
    except OSError:
        return False
    return done.returncode == 0
