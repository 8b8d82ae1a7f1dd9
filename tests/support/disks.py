"""Disks of their own, which can be full."""

import contextlib
import subprocess

import pytest

MOUNT = 'mount -t tmpfs -o size="$2" none "$1" && echo mounted && read -r _; umount -l "$1"'


@contextlib.contextmanager
def small_disk(path, size="8m"):
    """A disk of its own, which only root can have; a limit on the size of files elsewhere.

    A shell unmounts it when its input ends, so also when the tests are killed.
    """
    path.mkdir()
    holder = subprocess.Popen(
        ["/bin/sh", "-c", MOUNT, "sh", path, size],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        if not holder.stdout.readline():
            pytest.skip("no file system can be mounted here")
        yield path
    finally:
        holder.communicate(b"\n")
    assert holder.returncode == 0
