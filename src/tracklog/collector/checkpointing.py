"""Make and publish checkpoints while a collector runs."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tracklog.collector.alerts import NOT_SIGNED, REFUSED, RUN
from tracklog.collector.publishers import WitnessRefused, open_publisher, publish_all
from tracklog.collector.worker import Worker
from tracklog.journal.checkpoints.checkpoint import (
    Checkpoint,
    Checkpoints,
    extension,
    last_checkpoint,
)
from tracklog.journal.checkpoints.notes import Note
from tracklog.model.errors import NotExtended, TracklogError
from tracklog.model.fact import Noted
from tracklog.web import logs

if TYPE_CHECKING:
    from tracklog.home.home import Home

NAME = "checkpoint"
"""Of the lease: of many collectors on one store, one makes checkpoints."""
EVERY = 60.0
_PAUSE = 5.0


def newer(home: "Home") -> int:
    """How many records are newer than the last checkpoint."""
    note = last_checkpoint(home.storage)
    return home.journal.last - (0 if note is None else Checkpoint.of(note.text).size)


def record_refusal(home: "Home", refusal: WitnessRefused | NotExtended) -> None:
    """Record that a checkpoint was refused, by a witness or by us; a ready rule alerts about it."""
    label = NOT_SIGNED if isinstance(refusal, NotExtended) else REFUSED
    home.record_fact(RUN, Noted(label=label, kind=NAME, text=refusal.message), writer=NAME)


class CheckpointWorker(Worker):
    """A thread that signs what is new and publishes it."""

    def __init__(
        self,
        home: "Home",
        places: Sequence[str],
        *,
        every: float = EVERY,
        key: Path | None = None,
    ) -> None:
        super().__init__(NAME, failure="no checkpoint was made", pause=_PAUSE)
        self._home, self._every = home, every
        self._checkpoints = Checkpoints(home.storage, key)
        self._publishers = {place: open_publisher(place) for place in places}
        self._refused = self._rewritten = False
        self.size = 0
        """How many records the last checkpoint has that was published everywhere."""
        self.seen = b""
        """The last checkpoint as acknowledgements have it, in JSON; empty where there is none."""
        self._proven = (0, b"", b"")

    def work(self) -> None:
        """Make checkpoints until the end; the last one has everything that was stored before."""
        with self._home.storage.leases() as leases:
            if not leases.take(NAME):
                return
            try:
                self._sign_all()
            finally:
                self.seen = b""  # another collector may go on from here

    def seen_since(self, old: int) -> bytes:
        """The same, with the proof that it extends the one of `old` records, which a client saw."""
        seen = self.seen
        size = orjson.loads(seen)["records"] if seen else 0
        if not 0 < old < size:
            return seen
        if self._proven[:2] != (old, seen):
            proof = [each.hex() for each in extension(self._home.storage, old, size)]
            self._proven = old, seen, b'%b,"proof":%b}' % (seen[:-1], orjson.dumps(proof))
        return self._proven[2]

    def _sign_all(self) -> None:
        while True:
            last = self.stopped.is_set()
            begun = time.monotonic()
            note = self._made()
            stated = Checkpoint.of(note.text)
            if stated.size != self.size or not stated.size:
                _, failures = publish_all(self._checkpoints, note, self._publishers)
                for error in failures:
                    logs.log("error", error.message, hint=error.hint)
                self._record_refusal(failures)
                self.size = self.size if failures else stated.size
                row = {"origin": stated.origin, "records": stated.size, "root": stated.root.hex()}
                self.seen = orjson.dumps(row)
            if last:
                return
            self.stopped.wait(max(0.05, begun + self._every - time.monotonic()))

    def _made(self) -> Note:
        """The next checkpoint; that the journal was rewritten is recorded once."""
        try:
            note = self._checkpoints.make()
        except NotExtended as error:
            if not self._rewritten:
                record_refusal(self._home, error)
            self._rewritten = True
            raise
        self._rewritten = False
        return note

    def _record_refusal(self, failures: Sequence[TracklogError]) -> None:
        """Record that a witness refused, once until no witness refuses."""
        refusals = [error for error in failures if isinstance(error, WitnessRefused)]
        if refusals and not self._refused:
            record_refusal(self._home, refusals[0])
        self._refused = bool(refusals)

    def close(self) -> None:
        """Stop, after a last checkpoint."""
        super().close()
        self._checkpoints.close()
