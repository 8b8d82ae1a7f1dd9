"""Compare the records that were signed before with the journal, before more of it is signed.

A journal in files: each segment has a row in the tree file, with the size, the hash, and the inode
and times of the part that was compared. If a segment is still the same file, it is not read. If it
has grown or was touched, its old part must have the same hash, else each record is compared.

Any journal: with each checkpoint some records are compared again, in turn, so that a changed row, or
a database, which has no files, does not hide a change for ever.
"""

import os
import time
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import orjson

from tracklog.journal.checkpoints import tree
from tracklog.journal.checkpoints.trees import Trees
from tracklog.journal.frame import leaf_of, seq_of
from tracklog.journal.segments import CHUNK, lines
from tracklog.journal.stores import Readable
from tracklog.model.errors import NotExtended

AGAIN = 10_000
"""Records that are compared again with each checkpoint."""
_AGAIN_BYTES = 64 << 20
_SHARE = 50
"""They are compared once in so many times the time that it takes: at most 2 % of a thread. The same
holds for the segment that still grows.
"""
_TURN = "compared"
_HINT = (
    "the journal was rewritten: nothing is signed; `tracklog verify --checkpoint FILE` names what "
    "was changed, and a backup or an archive has the records"
)


@runtime_checkable
class InFiles(Protocol):
    """A store whose records are in files."""

    def segment_files(self) -> list[tuple[int, Path]]:
        """The files in order, each with the number of its first record."""


@runtime_checkable
class WithArchive(Protocol):
    """A store of which old records may be in an archive."""

    def archived_through(self) -> int:
        """The last record that is in an archive and not in the store; 0 for none."""


class ComparedSegment(NamedTuple):
    """The part of a segment that was compared with the tree."""

    through: int
    """Its last record."""
    size: int
    digest: str
    stamp: list[int]
    """The file as it was then: device, inode, size, and the times of its last changes."""


class Recheck:
    """Compares signed records with the journal; one for each process that makes checkpoints."""

    def __init__(self) -> None:
        self._due = 0.0

    def check(self, trees: Trees, store: Readable) -> None:
        """Raise `NotExtended` if a signed record is not in the journal as it was signed."""
        if store.last < trees.size:
            raise NotExtended(
                f"the journal ends with record {store.last}, and {trees.size} records were signed",
                _HINT,
            )
        begun = time.monotonic()
        due = begun >= self._due
        if isinstance(store, InFiles):
            _check_files(trees, store, store.origin().through, open_too=due)
        else:
            _compare(trees, store, trees.size - 1, 1)
        if due:
            _compare_in_turn(trees, store)
            ended = time.monotonic()
            self._due = ended + _SHARE * (ended - begun)


def _check_files(trees: Trees, store: InFiles, pruned: int, *, open_too: bool) -> None:
    """Compare the segments that are not the files that were compared before.

    The last one, which grows all the time, only if it is due.
    """
    wanted, files = pruned + 1, store.segment_files()
    for first, path in files:
        if first > trees.size:
            break
        if first != wanted:
            raise _gone(wanted)
        if not open_too and first == files[-1][0]:
            return
        row = trees.segment(first)
        known = ComparedSegment(*orjson.loads(row)) if row else None
        compared = _compare_file(trees, path, first, known)
        if compared != known:
            trees.put_segment(first, orjson.dumps([*compared]))
        wanted = compared.through + 1
    if wanted <= trees.size:
        raise _gone(wanted)
    trees.forget_segments(pruned)


def _compare_file(
    trees: Trees, path: Path, first: int, known: ComparedSegment | None
) -> ComparedSegment:
    """Compare the signed records of one segment with the tree."""
    with path.open("rb") as file:
        fd, state = file.fileno(), os.fstat(file.fileno())
        file_id, times = (state.st_dev, state.st_ino), (state.st_mtime_ns, state.st_ctime_ns)
        stamp = [*file_id, state.st_size, *times]
        if known is not None and (known.stamp, known.size) == (stamp, state.st_size):
            return known
        hash, start, seq = sha256(), 0, first
        if known is not None:
            for at in range(0, known.size, CHUNK):
                hash.update(os.pread(fd, min(CHUNK, known.size - at), at))
            if hash.hexdigest() == known.digest:
                start, seq = known.size, known.through + 1
            else:
                hash = sha256()
        for _, line in lines(fd, start, state.st_size):
            if seq > trees.size:
                break
            _compare_record(trees, seq, line)
            hash.update(line + b"\n")
            start, seq = start + len(line) + 1, seq + 1
    trees.check_path(first, seq - 1)
    return ComparedSegment(seq - 1, start, hash.hexdigest(), stamp)


def _compare_in_turn(trees: Trees, store: Readable) -> None:
    """Compare the next records, from the beginning again after the last one."""
    least = store.origin().through
    if isinstance(store, WithArchive):
        least = max(least, store.archived_through())
    after = max(least, int(trees.state(_TURN) or 0))
    after = after if after < trees.size else least
    trees.put_state(_TURN, str(_compare(trees, store, after, AGAIN)).encode())


def _compare(trees: Trees, store: Readable, after: int, count: int) -> int:
    """Compare so many records behind one; the last that was compared."""
    end, left, begin = min(trees.size, after + count), _AGAIN_BYTES, max(0, after)
    if begin < store.origin().through:
        return begin
    seq = begin
    while seq < end and left > 0:
        frames = store.read(seq, min(1000, end - seq))
        if not frames:
            raise _gone(seq + 1)
        for frame in frames:
            seq += 1
            _compare_record(trees, seq, frame)
            left -= len(frame)
    trees.check_path(begin + 1, seq)
    return seq


def _compare_record(trees: Trees, seq: int, frame: bytes) -> None:
    if seq_of(frame) != seq or tree.leaf_hash(leaf_of(frame)) != trees.hash_of(seq):
        raise NotExtended(f"record {seq} is not the one that was signed", _HINT)


def _gone(seq: int) -> NotExtended:
    return NotExtended(f"record {seq} was signed, and it is gone", _HINT)
