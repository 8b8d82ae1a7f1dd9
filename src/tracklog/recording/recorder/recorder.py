"""The recorder: one transcript per run; the disk first, then the subscribers."""

import asyncio
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from tracklog.model.errors import (
    ForkedRecorder,
    InvalidEvent,
    MaskFailed,
    NotOpened,
    NotRecorded,
    RecorderClosed,
    ReentrantCall,
    WriteFailed,
)
from tracklog.recording.fanout import BUFFER, FanOut, FanOutStats, Subscription
from tracklog.recording.recorder.draft import Draft, Drafts, check_id
from tracklog.recording.recorder.options import Options
from tracklog.recording.recorder.scopes import RunScope
from tracklog.recording.recorder.spill import Spill
from tracklog.recording.recorder.tee import Tee
from tracklog.recording.recorder.writer import DISK_HINT, TranscriptWriter
from tracklog.recording.transcript.entry import Entry

log = logging.getLogger("tracklog")

PATIENCE = 2.0
"""Seconds for which a closing recorder tries to write pending events."""
PAUSE = 0.05

Health = Literal["ok", "degraded", "broken", "closed"]


class Stats(NamedTuple):
    """The counters of a recorder."""

    last_seq: int
    durable_seq: int
    """Every event up to this number survives a power loss."""
    written: int
    """Events written by this recorder; earlier events of the file are not counted."""
    failed: int
    """Writes that failed."""
    spilled: int
    """Events that wait for the disk now."""
    lost: int
    """Events dropped by the error policy."""
    masked: int
    mask_errors: int
    truncated: int
    syncs: int
    health: Health
    fanout: FanOutStats


class Recorder:
    """Writes the transcript of one run; every method may be called from any thread."""

    def __init__(
        self, run_id: str, storage: str | Path, parent_run_id: str | None, options: Options
    ) -> None:
        any_id = options.allow_any_id
        check_id(run_id, any_id=any_id)
        if parent_run_id is not None:
            check_id(parent_run_id, any_id=any_id)
        self.run_id, self.parent_run_id = run_id, parent_run_id
        self.storage = Path(storage)
        self.path = self.storage / "transcripts" / f"{run_id}.jsonl"  # AWF-6
        self.options = options
        self._writer = TranscriptWriter(run_id, self.path, options)
        drafts = Drafts(run_id, parent_run_id, resumes=lambda: self._writer.resumes, any_id=any_id)
        self._draft, self._write = drafts.draft, self._writer.write
        self._fanout = FanOut(run_id, self._writer.read)
        self._spill = Spill()
        # a lock that knows its owner and is never acquired twice
        self._mutex: Any = threading.RLock()
        self._gone: type[NotRecorded] | None = None
        self._ticker: _Ticker | None = None
        self._ticks = options.durability == "interval"
        self._plain = False
        """Whether an event only has to be written: open, no subscriber, nothing pending."""
        self._tees: list[Tee] = []
        _alive.add(self)

    @classmethod
    def open(
        cls,
        run_id: str,
        storage: str | Path = "storage",
        parent_run_id: str | None = None,
        **options: Any,
    ) -> "Recorder":
        """Open the recorder of a run, with its transcript locked and repaired; see `Options`.

        Raises NotOpened if it is not safe to write. If the disk fails, the recorder tries again at
        each event, unless `on_error` is `fail`.
        """
        recorder = cls(run_id, storage, parent_run_id, Options(**options))
        try:
            recorder._writer.open()
        except OSError as error:
            if recorder.options.on_error == "fail":
                raise WriteFailed(f"{recorder.path}: {error}", DISK_HINT) from error
            log.warning("%s cannot be opened yet: %s", recorder.path, error)
        return recorder

    @classmethod
    def try_open(
        cls,
        run_id: str,
        storage: str | Path = "storage",
        parent_run_id: str | None = None,
        **options: Any,
    ) -> "Recorder":
        """`open`, or a NullRecorder and a warning: a missing transcript stops no run."""
        try:
            return cls.open(run_id, storage, parent_run_id, **options)
        except (NotOpened, WriteFailed) as error:
            log.warning("the run %s goes on without a transcript: %s", run_id, error.message)
            return NullRecorder()

    def record(
        self,
        type: str,
        payload: Any,
        path: str = "",
        iteration: int = 0,
        child_run_id: str | None = None,
        *,
        step_seq: int | None = None,
        **extras: Any,
    ) -> Entry | None:
        """Write one event and return it as it stands in the file; NotRecorded if it was not
        written.

        Only a NullRecorder returns None.
        """
        if self._gone is not None:
            raise self._refusal()
        draft = self._draft(type, payload, path, iteration, child_run_id, step_seq, extras)
        mutex = self._mutex
        if self._plain and not mutex._is_owned():
            with mutex:
                if self._plain:
                    # the short form of `_commit`: there is nothing else to do
                    return self._write(draft)
        return self._commit(draft)

    def emit(
        self,
        type: str,
        payload: Any,
        path: str = "",
        iteration: int = 0,
        child_run_id: str | None = None,
        *,
        step_seq: int | None = None,
        timeout: float = -1,
        **extras: Any,
    ) -> Entry | None:
        """`record` under the error policy: None where the event is not in the file yet."""
        try:
            if self._gone is not None:
                raise self._refusal()
            draft = self._draft(type, payload, path, iteration, child_run_id, step_seq, extras)
            if self._spill.waits(time.monotonic()):
                self._store(draft)
                return None
            return self._commit(draft, timeout)
        except WriteFailed as error:
            if self.options.on_error == "degrade":
                log.warning("%s of %s is held in memory: %s", type, self.run_id, error.message)
                self._spill.failed(time.monotonic())
                self._store(draft)
            else:
                self._give_up(type, error)
        except NotRecorded as error:
            self._give_up(type, error)
        return None

    def run(self, name: str, **extras: Any) -> RunScope:
        """The run as a context: writes its start and its end, however it ends."""
        return RunScope(self, name, extras)

    def child(self, run_id: str, **options: Any) -> "Recorder":
        """The recorder of a sub-run: a file of its own in the same folder, linked to this run."""
        return Recorder.open(run_id, self.storage, self.run_id, **self._inherited(options))

    def try_child(self, run_id: str, **options: Any) -> "Recorder":
        """`child`, or a NullRecorder and a warning."""
        return Recorder.try_open(run_id, self.storage, self.run_id, **self._inherited(options))

    def subscribe(
        self,
        name: str | None = None,
        buffer: int = BUFFER,
        types: Iterable[str] | None = None,
        after_seq: int | None = None,
        *,
        heal: bool = False,
    ) -> Subscription:
        """The events written from now on, or after `after_seq`, as they are written."""
        if self._gone is ForkedRecorder:
            raise self._refusal()
        if self._mutex._is_owned():
            raise self._reentrant("a subscription")
        with self._mutex:
            self._plain = False
            # Inside the critical section: the file has all up to `last`, the queue all after it.
            last = self._writer.last
            backlog = None if after_seq is None else (after_seq + 1, last)
            last = max(last, after_seq or 0)
            return self._fanout.subscribe(name, buffer, types, backlog, heal=heal, last_seq=last)

    def tee(self, path: str | Path) -> Tee:
        """Copy every event from now on to a second file too, 0600, in a thread of its own."""
        tee = Tee(Path(path), self.subscribe(name=f"tee {path}", heal=True))
        self._tees.append(tee)
        return tee

    def stats(self) -> Stats:
        """The counters; `fanout` has those of the subscribers."""
        writer = self._writer
        return Stats(
            last_seq=writer.last,
            durable_seq=writer.durable,
            written=writer.last - writer.first,
            failed=writer.failed,
            spilled=len(self._spill),
            lost=self._spill.lost_total,
            masked=writer.masked,
            mask_errors=writer.mask_errors,
            truncated=writer.truncated,
            syncs=writer.syncs,
            health=self.health(),
            fanout=self._fanout.stats()._replace(published=writer.last - writer.first),
        )

    def health(self) -> Health:
        """`broken`: nothing can be written now; `degraded`: less is durable than was requested."""
        file = self._writer.file
        if self._gone is not None:
            return "closed"
        if file is None or file.broken:
            return "broken"
        return "degraded" if self._writer.sync_failed or self._spill else "ok"

    @property
    def durable_seq(self) -> int:
        """Every event up to this number survives a power loss."""
        return self._writer.durable

    def close(self) -> None:
        """Flush to disk, end the subscriptions, close the file; may be called more than once."""
        if self._gone is not None:  # AWF-56
            return
        if self._mutex._is_owned():
            raise self._reentrant("a close")
        if self._ticker is not None:
            self._ticker.stop()
        with self._mutex:
            failure = self._finish() if self._gone is None else None
        for tee in self._tees:
            tee.join()
        if failure is not None and self.options.on_error == "fail":
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def _commit(self, draft: Draft, timeout: float = -1) -> Entry:
        """AWF-13, AWF-60: one critical section per event, whatever its size."""
        mutex = self._mutex
        if mutex._is_owned():
            raise self._reentrant(draft[0])
        if timeout < 0:
            with mutex:
                entry = self._commit_with_care(draft)
        elif mutex.acquire(timeout=timeout):
            try:
                entry = self._commit_with_care(draft)
            finally:
                mutex.release()
        else:
            raise WriteFailed(f"{self.path} has been busy for {timeout:g} s", DISK_HINT)
        if self._fanout.due:
            self._fanout.warn()  # outside of the lock: a slow log blocks no write
        return entry

    def _commit_with_care(self, draft: Draft) -> Entry:
        """Write pending events first, in order; report losses; serve the subscribers last."""
        if self._gone is not None:
            raise self._refusal()
        self._drain()
        lost = self._spill.lost
        entry = self._writer.write(draft, lost)
        self._spill.report_loss(lost)
        self._deliver(entry)
        self._plain = self._fanout.empty and not self._ticks
        if self._spill.used:  # read last: another thread adds to it, then unsets `_plain`
            self._plain = False
        return entry

    def _deliver(self, entry: Entry) -> None:
        if self._ticks and self._ticker is None:
            self._ticker = _Ticker(self._writer)
        self._fanout.offer(entry)

    def _drain(self) -> None:
        """Write the pending events, in order."""
        if not self._spill:
            return
        while (waiting := self._spill.first()) is not None:
            try:
                self._deliver(self._writer.write(waiting.draft, waiting.lost, waiting.elapsed))
            except (InvalidEvent, MaskFailed) as error:
                self._give_up(waiting.draft[0], error)
            self._spill.drop_first()
        self._spill.worked()

    def _drain_patiently(self) -> WriteFailed | None:
        """The last attempt for pending events: the disk is tried again for a while."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._drain()
            except WriteFailed as error:
                if time.monotonic() < until:
                    time.sleep(PAUSE)
                    continue
                count = len(self._spill)
                log.warning("%d events of %s are lost: %s", count, self.run_id, error.message)
                return error
            return None

    def _store(self, draft: Draft) -> None:
        if not self._spill.add(*self._writer.stamped(draft)):
            log.warning("%s of %s is dropped: too many events are pending", draft[0], self.run_id)
        self._plain = False

    def _give_up(self, type: str, error: NotRecorded) -> None:
        if self.options.on_error == "fail":
            raise error
        self._spill.give_up()
        self._plain = False
        log.warning("%s of %s is dropped: %s", type, self.run_id, error.message)

    def _finish(self) -> WriteFailed | None:
        """The last steps under the lock: pending events, the disk, the subscribers, the file."""
        failure = self._drain_patiently()
        self._gone, self._plain = RecorderClosed, False
        self._writer.close()
        self._fanout.close()
        if self._writer.sync_failed and failure is None:
            failure = WriteFailed(f"{self.path} could not be put on disk", DISK_HINT)
        return failure

    def _inherited(self, options: dict[str, Any]) -> dict[str, Any]:
        own = {field.name: getattr(self.options, field.name) for field in fields(self.options)}
        return {**own, "resume": False, **options}

    def _reentrant(self, what: str) -> ReentrantCall:
        return ReentrantCall(
            f"{what} on {self.run_id} comes from inside another call",
            "do not use a recorder from its own masker, nor from a signal that interrupts it",
        )

    def _refusal(self) -> NotRecorded:
        if self._gone is ForkedRecorder:
            return ForkedRecorder(
                f"the recorder of {self.run_id} belongs to the parent process",
                "open a recorder of its own in the child process, for a run of its own",
            )
        return RecorderClosed(
            f"the recorder of {self.run_id} is closed", "record before close, or open it again"
        )

    def _disown(self) -> None:
        """In a forked process: leave the file and its lock to the parent."""
        if self._gone is None:
            self._gone, self._plain = ForkedRecorder, False
            if self._writer.file is not None:
                self._writer.file.disown()


class NullRecorder(Recorder):
    """Accepts everything and stores nothing: no file, no thread, subscriptions that end at once."""

    def __init__(self) -> None:
        self.run_id, self.parent_run_id = "", None
        self.options = Options()
        self._fanout = FanOut()
        self._fanout.close()

    def record(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    def emit(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    def child(self, *_: Any, **__: Any) -> "NullRecorder":
        """Another NullRecorder."""
        return NullRecorder()

    def try_child(self, *_: Any, **__: Any) -> "NullRecorder":
        """Another NullRecorder."""
        return NullRecorder()

    def subscribe(self, *_: Any, **__: Any) -> Subscription:
        """A subscription that has ended."""
        return self._fanout.subscribe()

    def tee(self, path: str | Path) -> Tee:
        """A tee that has ended."""
        return Tee(Path(path), self.subscribe(), idle=True)

    def stats(self) -> Stats:
        """All zero."""
        return Stats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "closed", self._fanout.stats())

    def health(self) -> Health:
        """Always the same: there is nothing to monitor."""
        return "closed"

    @property
    def durable_seq(self) -> int:
        """Always 0: nothing is stored."""
        return 0

    def close(self) -> None:
        """Do nothing."""


class _Ticker:
    """Flushes lines to disk at an interval, in a thread of its own."""

    def __init__(self, writer: TranscriptWriter) -> None:
        self._writer = writer
        self._over = threading.Event()
        name = f"tracklog-sync-{writer.run_id[:8]}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._writer.options.fsync_interval):
            self._writer.sync()


_alive: "weakref.WeakSet[Recorder]" = weakref.WeakSet()


def _disown_all() -> None:
    for recorder in list(_alive):
        recorder._disown()


os.register_at_fork(after_in_child=_disown_all)
