"""File modes that bind, also where the tests run as root, wherever the clone lies."""

import ctypes
import os
import sys
from contextlib import contextmanager

OVERRIDE, READ = 1, 2
"""The rights of root to go past every mode, and past those that forbid to read."""
_VERSION = 0x20080522


@contextmanager
def modes_bind(*keep: int):
    """The modes of files bind this thread, and those that it starts; root may keep some rights.

    Root does not become another user: the clone, the interpreter and the packages may lie in
    folders that nobody else can enter.
    """
    if os.geteuid() != 0:
        yield
    elif sys.platform == "linux":
        before = _capabilities()
        lost = sum(1 << each for each in (OVERRIDE, READ) if each not in keep)
        _set(before, before[0] & ~lost)
        try:
            yield
        finally:
            _set(before, before[0])
    else:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)


def _capabilities():
    """The first 32 as effective, permitted, inheritable, then the others."""
    words = (ctypes.c_uint32 * 6)()
    _call("capget", words)
    return words


def _set(words, effective: int) -> None:
    _call("capset", (ctypes.c_uint32 * 6)(effective, *words[1:]))


def _call(name: str, words) -> None:
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(header, words):
        raise OSError(ctypes.get_errno(), f"{name} failed")
