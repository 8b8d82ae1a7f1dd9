"""The two trees of a journal in a file: hashes, and the state of each run, up to the last checkpoint.

The file is SQLite, so what is added is there completely or not at all. It is a cache as long as
nothing is pruned; the hashes of pruned records are only here.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import orjson

from tracklog.journal import merkle
from tracklog.journal.checkpoints import tree
from tracklog.journal.frame import Run, leaf_of, run_of, seq_of
from tracklog.journal.stores import Readable

if TYPE_CHECKING:
    import sqlite3
from tracklog.model.errors import NotExtended, NotProven

FILE = "tree.db"
"""Its name in the folder of a storage."""
_WIDTH, _HEIGHT = 256, 8
"""Hashes of a tile, and how many levels of the tree it spans, as C2SP tlog-tiles has them."""
_BYTES = 32
_BATCH = 10_000
_CACHED = 512

_SCHEMA = """
CREATE TABLE IF NOT EXISTS tiles (
    tree INTEGER, level INTEGER, number INTEGER, hashes BLOB,
    PRIMARY KEY (tree, level, number)
);
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY, family TEXT, run TEXT, records INTEGER, digest BLOB,
    UNIQUE (family, run)
);
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS segments (first INTEGER PRIMARY KEY, compared BLOB);
"""


class Added(NamedTuple):
    """A record as the trees need it."""

    seq: int
    run: Run
    leaf: bytes


class RunState(NamedTuple):
    """The records of a run so far."""

    number: int
    """Its place in the run tree."""
    records: int
    digest: bytes

    def plus(self, record: Added) -> "RunState":
        """With one record more."""
        digest = digest_after(self.digest, record.seq, record.leaf)
        return RunState(self.number, self.records + 1, digest)


def digest_after(before: bytes, seq: int, leaf: bytes) -> bytes:
    """The digest of a run after one record more."""
    return sha256(before + seq.to_bytes(8, "big") + leaf).digest()


def run_entry(run: Run, records: int, digest: bytes) -> bytes:
    """The leaf of a run in the run tree."""
    return orjson.dumps([*run, records, digest.hex()])


class Tiles:
    """The hashes of one tree, in tiles: tile n of level k holds 256 hashes of height 8 k."""

    def __init__(self, database: "sqlite3.Connection", number: int) -> None:
        self._database, self._number = database, number
        self._tiles: dict[tuple[int, int], bytearray] = {}
        self._changed: set[tuple[int, int]] = set()

    def put(self, index: int, hash: bytes, level: int = 0) -> None:
        """Set a hash, one that is there or the next one."""
        number, place = divmod(index, _WIDTH)
        self._tile(level, number)[place * _BYTES : (place + 1) * _BYTES] = hash
        self._changed.add((level, number))

    def node(self, height: int, index: int) -> bytes:
        """The hash of a complete subtree."""
        level, rest = divmod(height, _HEIGHT)
        if rest:
            return tree.node_hash(
                self.node(height - 1, 2 * index), self.node(height - 1, 2 * index + 1)
            )
        number, place = divmod(index, _WIDTH)
        return bytes(self._tile(level, number)[place * _BYTES : (place + 1) * _BYTES])

    def save(self) -> None:
        """Write what was changed, level by level: a full tile is one hash of the next level."""
        level = 0
        while changed := sorted(number for at, number in self._changed if at == level):
            for number in changed:
                hashes = self._tiles[level, number]
                self._database.execute(
                    "INSERT OR REPLACE INTO tiles VALUES (?, ?, ?, ?)",
                    (self._number, level, number, bytes(hashes)),
                )
                if len(hashes) == _WIDTH * _BYTES:
                    self.put(number, _top(bytes(hashes)), level + 1)
            level += 1
        self._changed.clear()
        if len(self._tiles) > _CACHED:
            self._tiles.clear()

    def leads_up(self, first: int, last: int) -> bool:
        """Whether each full tile between two leaves is one hash of the level above, up to the top."""
        level = 0
        while True:
            first, last = first // _WIDTH, last // _WIDTH
            for number in range(first, last + 1):
                hashes = bytes(self._tile(level, number))
                if len(hashes) < _WIDTH * _BYTES:
                    continue
                if _top(hashes) != self.node((level + 1) * _HEIGHT, number):
                    return False
            if not first and not last:
                return True
            level += 1

    def forget(self) -> None:
        """Drop what was not saved."""
        self._tiles.clear()
        self._changed.clear()

    def _tile(self, level: int, number: int) -> bytearray:
        tile = self._tiles.get((level, number))
        if tile is None:
            row = self._database.execute(
                "SELECT hashes FROM tiles WHERE tree = ? AND level = ? AND number = ?",
                (self._number, level, number),
            ).fetchone()
            if len(self._tiles) > _CACHED and not self._changed:
                self._tiles.clear()
            tile = self._tiles[level, number] = bytearray(row[0] if row else b"")
        return tile


def _top(hashes: bytes) -> bytes:
    """The root of a full tile."""
    level = [hashes[at : at + _BYTES] for at in range(0, len(hashes), _BYTES)]
    while len(level) > 1:
        level = [tree.node_hash(*pair) for pair in list(pairwise(level))[::2]]
    return level[0]


class Trees:
    """The record tree and the run tree of a journal; without a path, in memory."""

    def __init__(self, path: Path | None = None, *, readonly: bool = False) -> None:
        if path is None:
            place = "file::memory:"
        else:
            place = f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rwc'}"
        if path is not None and not readonly and not path.exists():
            path.touch(mode=0o600)
        import sqlite3  # noqa: PLC0415  # a collector without checkpoints starts sooner

        self._database = sqlite3.connect(
            place, uri=True, timeout=60, isolation_level=None, check_same_thread=False
        )
        if not readonly:
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_SCHEMA)
        self.records, self._entries = Tiles(self._database, 0), Tiles(self._database, 1)
        self._read_sizes()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While nobody else changes the file: what is done is there in the end, or nothing of it."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self.records.forget()
            self._entries.forget()
            self._read_sizes()
            yield
            self._save()
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            self.records.forget()
            self._entries.forget()
            self._read_sizes()
            raise

    def root(self, size: int | None = None) -> bytes:
        """The root over all records, or over the first `size`."""
        return tree.root(self.records.node, self.size if size is None else size)

    def runs_root(self) -> bytes:
        """The root over all runs."""
        return tree.root(self._entries.node, self.runs)

    def run(self, run: Run) -> RunState | None:
        """The state of a run; None where it has no record."""
        row = self._database.execute(
            "SELECT number, records, digest FROM runs WHERE family = ? AND run = ?", run
        ).fetchone()
        return RunState(*row) if row else None

    def run_path(self, number: int) -> list[bytes]:
        """The hashes that lead from a run to the root of the run tree."""
        return tree.inclusion(self._entries.node, number, self.runs)

    def extend(self, store: Readable, through: int) -> None:
        """Add the records of a store up to the end of a group, each compared with the chain."""
        self._skip(store.origin().through)
        frames = _frames(store, self.size)
        batch: list[Added] = []
        for link in store.links(self.size):
            if link.through > through:
                break
            if link.kind != "group" or link.through <= self.size + len(batch):
                continue
            group = [next(frames, b"") for _ in range(link.through - self.size - len(batch))]
            leaves = [leaf_of(frame) for frame in group]
            if merkle.root(leaves) != link.root:
                raise NotProven(
                    f"a record from {self.size + len(batch) + 1} to {link.through} is damaged: "
                    "nothing after it is signed",
                    "`tracklog verify` names it",
                )
            batch += map(_added, group, leaves)
            if len(batch) >= _BATCH:
                self.add(batch)
                batch = []
        self.add(batch)

    def add(self, records: Iterable[Added]) -> None:
        """Add records, which follow those that are there."""
        states: dict[Run, RunState] = {}
        for record in records:
            self.records.put(self.size, tree.leaf_hash(record.leaf))
            self.size += 1
            state = states.get(record.run) or self.run(record.run)
            if state is None:
                state = RunState(self.runs, 0, bytes(_BYTES))
                self.runs += 1
            states[record.run] = state.plus(record)
        for run, state in states.items():
            self._entries.put(state.number, tree.leaf_hash(run_entry(run, *state[1:])))
        self._database.executemany(
            "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)",
            [(state.number, *run, *state[1:]) for run, state in states.items()],
        )
        self.records.save()
        self._entries.save()

    def fill(self, hashes: Iterable[bytes]) -> None:
        """Add records of which only the hashes are left."""
        for hash in hashes:
            self.records.put(self.size, hash)
            self.size += 1
            if self.size % _BATCH == 0:
                self.records.save()
        self.records.save()

    def hash_of(self, seq: int) -> bytes:
        """The hash of a record in the tree."""
        return self.records.node(0, seq - 1)

    def state(self, name: str) -> bytes | None:
        """A value that was stored beside the trees."""
        row = self._database.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def put_state(self, name: str, value: bytes) -> None:
        """Store a value beside the trees."""
        self._database.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))

    def segment(self, first: int) -> bytes | None:
        """What was stored about the segment that begins with this record."""
        ask = "SELECT compared FROM segments WHERE first = ?"
        row = self._database.execute(ask, (first,)).fetchone()
        return row[0] if row else None

    def put_segment(self, first: int, value: bytes) -> None:
        """Store what was compared of the segment that begins with this record."""
        self._database.execute("INSERT OR REPLACE INTO segments VALUES (?, ?)", (first, value))

    def forget_segments(self, through: int) -> None:
        """Drop what was stored about segments up to this record."""
        self._database.execute("DELETE FROM segments WHERE first <= ?", (through,))

    def check_path(self, first: int, last: int) -> None:
        """Raise `NotExtended` if the hashes of these records do not lead to those above them."""
        if last >= first and not self.records.leads_up(first - 1, last - 1):
            raise NotExtended(
                f"the hashes in {FILE} do not lead to the root that was signed",
                "the file was changed: bring it back from a backup",
            )

    def copy(self, path: Path) -> None:
        """Copy the file as it is now."""
        with Trees(path) as target:
            self._database.backup(target._database)

    def _read_sizes(self) -> None:
        self.size: int = self._size_of(0)
        """How many records the trees have."""
        self.runs: int = self._size_of(1)
        """How many runs."""

    def _size_of(self, number: int) -> int:
        row = self._database.execute(
            "SELECT number, length(hashes) FROM tiles WHERE tree = ? AND level = 0 "
            "ORDER BY number DESC LIMIT 1",
            (number,),
        ).fetchone()
        return row[0] * _WIDTH + row[1] // _BYTES if row else 0

    def _save(self) -> None:
        self.records.save()
        self._entries.save()

    def _skip(self, through: int) -> None:
        """Count records that were pruned before they could be added as 32 zero bytes."""
        if through > self.size:
            unknown = tree.leaf_hash(bytes(_BYTES))
            self.fill(unknown for _ in range(through - self.size))


def added(store: Readable, after: int, through: int) -> Iterator[Added]:
    """The records of a store behind `after`, as they are: nothing is compared with the chain."""
    for frame in _frames(store, after):
        seq = seq_of(frame)
        if seq > through:
            return
        yield _added(frame, leaf_of(frame))


def _added(frame: bytes, leaf: bytes) -> Added:
    return Added(seq_of(frame), run_of(frame) or ("", ""), leaf)


def _frames(store: Readable, after: int) -> Iterator[bytes]:
    while frames := store.read(after, 1000):
        yield from frames
        after = seq_of(frames[-1])
