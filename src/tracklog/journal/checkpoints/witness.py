"""A witness: it remembers the last checkpoint of each journal, and signs only what continues it.

The protocol is that of C2SP tlog-witness. What it knows is in a folder: `witness.key`, `witness.db`.
"""

import base64
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from tracklog.journal.checkpoints import tree
from tracklog.journal.checkpoints.checkpoint import Checkpoint
from tracklog.journal.checkpoints.notes import (
    COSIGNATURE,
    ED25519,
    Note,
    Signer,
    Verifier,
    read_note,
    signer,
    verified,
)
from tracklog.journal.disk import Disk, make_folders
from tracklog.journal.frame import stamp
from tracklog.model.errors import BadCheckpoint

KEY, FILE = "witness.key", "witness.db"
MOST_PROOF = 63
"""Hashes of a consistency proof, as the protocol limits them."""
LARGEST = 64 << 10
"""Bytes of a request."""
SIZE_TYPE = "text/x.tlog.size"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS logs (origin TEXT PRIMARY KEY, key TEXT, note TEXT, at TEXT);
CREATE TABLE IF NOT EXISTS alerts (
    number INTEGER PRIMARY KEY, at TEXT, origin TEXT, why TEXT, known TEXT, given TEXT,
    UNIQUE (origin, given)
);
CREATE TABLE IF NOT EXISTS changes (number INTEGER PRIMARY KEY, at TEXT, by TEXT, key TEXT);
"""


class WitnessAnswer(NamedTuple):
    """An answer to `add-checkpoint`."""

    status: int
    body: str
    type: str = "text/plain; charset=utf-8"


class WitnessedLog(NamedTuple):
    """A journal that is witnessed."""

    origin: str
    key: str
    note: str | None
    """The last checkpoint with the signature of the witness; None before the first one."""
    at: str | None


class WitnessAlert(NamedTuple):
    """A signed checkpoint that does not continue the last one: both are the evidence."""

    number: int
    at: str
    origin: str
    why: str
    known: str
    given: str


class WitnessChange(NamedTuple):
    """Who had a journal witnessed, and when."""

    at: str
    by: str
    key: str
    """The public key of the journal."""


class Witness:
    """The checkpoints that a witness has seen; safe to use from many threads and processes."""

    def __init__(
        self, folder: Path, name: str | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        make_folders(Disk(), folder)
        made = name or f"tracklog-witness/{os.urandom(8).hex()}"
        self._signer: Signer = signer(folder / KEY, made, COSIGNATURE)
        self.key: Verifier = self._signer.verifier
        if name is not None and self.key.name != name:
            raise BadCheckpoint(
                f"the key of this witness is that of {self.key.name!r}",
                "a name is chosen with the first start, and cannot be changed",
            )
        self._clock, self._lock = clock, threading.Lock()
        path = folder / FILE
        if not path.exists():
            path.touch(mode=0o600)
        self._database = sqlite3.connect(
            path, timeout=60, isolation_level=None, check_same_thread=False
        )
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.executescript(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def trust(self, key: Verifier, by: str) -> None:
        """Witness the journal of this key; another key for the same journal is refused."""
        if key.kind != ED25519:
            raise BadCheckpoint("this is the key of a witness", "give the key of a journal")
        with self._changing():
            known = self._log(key.name)
            if known is not None and known.key != str(key):
                raise BadCheckpoint(
                    f"{key.name!r} is known with another key", f"its key is {known.key}"
                )
            if known is None:
                row = (key.name, str(key))
                self._database.execute("INSERT INTO logs VALUES (?, ?, NULL, NULL)", row)
                self._database.execute(
                    "INSERT INTO changes (at, by, key) VALUES (?, ?, ?)",
                    (stamp(self._clock()), by, str(key)),
                )

    def changes(self) -> list[WitnessChange]:
        """Who had which journal witnessed, the oldest first."""
        rows = self._database.execute("SELECT at, by, key FROM changes ORDER BY number").fetchall()
        return [WitnessChange(*row) for row in rows]

    def logs(self) -> list[WitnessedLog]:
        """Every journal that is witnessed."""
        rows = self._database.execute("SELECT * FROM logs ORDER BY origin").fetchall()
        return [WitnessedLog(*row) for row in rows]

    def alerts(self, after: int = 0) -> list[WitnessAlert]:
        """What did not fit, the oldest first."""
        ask = "SELECT * FROM alerts WHERE number > ? ORDER BY number"
        return [WitnessAlert(*row) for row in self._database.execute(ask, (after,)).fetchall()]

    def add(self, body: bytes) -> WitnessAnswer:
        """Sign a checkpoint if it continues the last one of its journal."""
        try:
            old, proof, note = _request(body)
            stated = Checkpoint.of(note.text)
        except (BadCheckpoint, ValueError) as error:
            return WitnessAnswer(400, f"{getattr(error, 'message', 'this is no request')}\n")
        with self._changing():
            known = self._log(stated.origin)
            if known is None:
                return WitnessAnswer(404, f"{stated.origin} is not witnessed here\n")
            try:
                trusted = bool(verified(note, [Verifier.of(known.key)]))
            except BadCheckpoint:
                trusted = False
            if not trusted:
                return WitnessAnswer(403, "no signature is that of the journal's key\n")
            if old > stated.size:
                return WitnessAnswer(400, "the old size is larger than the new one\n")
            return self._judge(known, note, stated, old, proof)

    def _judge(
        self, known: WitnessedLog, note: Note, stated: Checkpoint, old: int, proof: list[bytes]
    ) -> WitnessAnswer:
        last = Checkpoint.of(read_note(known.note.encode()).text) if known.note else None
        size, root = (last.size, last.root) if last else (0, tree.EMPTY)
        conflict = WitnessAnswer(409, f"{size}\n", SIZE_TYPE)
        if stated.size < size:
            self._alert(known, note, f"it has {stated.size} records, and {size} were signed before")
            return conflict
        if stated.size == size and stated.root != root:
            self._alert(known, note, f"it has other records than were signed before, up to {size}")
            return conflict
        if old != size:
            return conflict
        if not tree.is_extension(size, stated.size, root, stated.root, proof):
            self._alert(known, note, f"it does not prove that it continues the {size} records")
            return WitnessAnswer(422, "the consistency proof is wrong\n")
        line = self._signer.sign(note.text, int(self._clock()))
        self._database.execute(
            "UPDATE logs SET note = ?, at = ? WHERE origin = ?",
            (str(note.signed(line)), stamp(self._clock()), known.origin),
        )
        return WitnessAnswer(200, str(line))

    def _alert(self, known: WitnessedLog, note: Note, why: str) -> None:
        self._database.execute(
            "INSERT OR IGNORE INTO alerts (at, origin, why, known, given) VALUES (?, ?, ?, ?, ?)",
            (stamp(self._clock()), known.origin, why, known.note or "", str(note)),
        )

    def _log(self, origin: str) -> WitnessedLog | None:
        row = self._database.execute("SELECT * FROM logs WHERE origin = ?", (origin,)).fetchone()
        return WitnessedLog(*row) if row else None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Compare and change without another request in between; it is on disk in the end."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")


def request_body(old: int, proof: list[bytes], note: Note) -> bytes:
    """The body of `add-checkpoint`."""
    hashes = "".join(f"{base64.b64encode(each).decode()}\n" for each in proof)
    return f"old {old}\n{hashes}\n{note}".encode()


def _request(body: bytes) -> tuple[int, list[bytes], Note]:
    """The old size, the proof and the checkpoint in a body of `add-checkpoint`."""
    head, blank, rest = body.partition(b"\n\n")
    first, *lines = head.decode("ascii").split("\n")
    size = first.removeprefix("old ")
    if not blank or len(body) > LARGEST or f"old {int(size)}" != first or int(size) < 0:
        raise ValueError
    proof = [base64.b64decode(line, validate=True) for line in lines]
    if len(proof) > MOST_PROOF or any(len(each) != 32 for each in proof):
        raise ValueError
    return int(size), proof, read_note(rest)
