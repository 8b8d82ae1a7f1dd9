"""The last record of each run, so that a writer sees which runs other processes moved.

The numbers stand in the lock file: a table of slots, a run's slot chosen by its hash. Runs may
share a slot, so a slot is never earlier than the last record of a run in it, and may be later.

A slot is written under the lock, before the records are. A process that is killed in between
leaves a number that is too late, which is harmless. A loss of power may leave any number, which is
harmless too: nobody compares a number with what was known before the process began, and no process
outlives the loss of power.
"""

import os
import sys
from array import array
from collections.abc import Collection, Mapping
from zlib import crc32

from tracklog.journal.disk import Disk
from tracklog.journal.frame import Run

SLOTS = 1 << 11
_MANY = 8
"""The number of runs from which it is faster to read and write the complete table."""


def slot(run: Run) -> int:
    """The slot of a run, the same in every process."""
    return crc32("\0".join(run).encode("utf-8", "surrogatepass")) % SLOTS


def read(lock: int, runs: Collection[Run]) -> dict[Run, int]:
    """For each run a number behind which it has no record."""
    if len(runs) >= _MANY:
        table = _table(lock)
        return {run: table[slot(run)] for run in runs}
    pread = os.pread
    return {run: int.from_bytes(pread(lock, 8, slot(run) * 8), sys.byteorder) for run in runs}


def write(disk: Disk, lock: int, lasts: Mapping[Run, int]) -> None:
    """Notes the last record of each run; call it under the lock, before they are written."""
    if len(lasts) < _MANY:
        for run, last in lasts.items():
            disk.write_at(lock, last.to_bytes(8, sys.byteorder), slot(run) * 8)
        return
    table = _table(lock)
    for run, last in lasts.items():
        table[slot(run)] = last
    disk.write_at(lock, table.tobytes(), 0)


def _table(lock: int) -> "array[int]":
    table = array("Q")
    table.frombytes(os.pread(lock, SLOTS * 8, 0).ljust(SLOTS * 8, b"\0"))
    return table
