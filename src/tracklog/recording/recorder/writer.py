"""Write drafts to the file of one run; assigns the number, the time and the seam."""

import logging
import os
import time
from bisect import bisect_right
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from tracklog.model.errors import MaskFailed, NotOpened, TranscriptFinished, WriteFailed
from tracklog.recording.recorder import tail
from tracklog.recording.recorder.appendfile import AppendFile
from tracklog.recording.recorder.draft import MARK, Draft
from tracklog.recording.recorder.forms import encode
from tracklog.recording.recorder.masking import mask, shorten
from tracklog.recording.recorder.options import Options
from tracklog.recording.transcript.entry import Entry, loads

log = logging.getLogger("tracklog")

INDEX_EVERY = 256
"""Lines between two entries of the index from numbers to file positions."""
MILESTONES = frozenset(
    {
        "run.started",
        "run.completed",
        "step.completed",
        "step.call_workflow.started",
        "step.call_workflow.completed",
        "message.user",
        "message.assistant",
    }
)
"""The types that durability `lifecycle` flushes to disk at once."""
LINE = b'{"seq":%d%b%b.%06dZ","payload":%b,"elapsed_ms":%d%b}\n'
LINE_IN_STEP = b'{"seq":%d%b%b.%06dZ","payload":%b,"elapsed_ms":%d,"step_seq":%d%b}\n'
_entry = tuple.__new__
"""Half the cost of calling the class, once per event."""
DISK_HINT = "free some space or repair the disk; the file holds only complete lines"


class TranscriptWriter:
    """Writes a transcript; the caller makes sure that calls do not overlap."""

    def __init__(self, run_id: str, path: Path, options: Options) -> None:
        self.run_id, self.path, self.options = run_id, path, options
        self.file: AppendFile | None = None
        self.last = self.first = 0
        """The number of the last event in the file, and of the last one before it was opened."""
        self.durable = 0
        """Every event up to this number survives a power loss."""
        self.resumes = False
        """Whether the file had events before it was opened."""
        self.sync_failed = False
        self.failed = self.syncs = 0
        self.masked = self.mask_errors = self.truncated = 0
        self._seam: tail.Seam | None = None
        self._chain: str | None = None
        self._next = ""
        self._index: list[tuple[int, int]] = [(0, 0)]
        self._clock, self._monotonic = options.clock, options.monotonic
        self._began = self._monotonic()
        self._second, self._second_text = 0, b"1970-01-01T00:00:00"
        """The second of the last event, in nanoseconds since 1970, and its text."""
        self._alters = options.masker is not None or options.max_event_bytes is not None
        self._follows = True
        """Whether more has to be done after a line than to write it."""
        self._syncs_all = options.durability == "sync"
        self._syncs_some = options.durability == "lifecycle"

    def open(self) -> None:
        """Lock the file, repair its end, and find the last number in it."""
        options = self.options
        file = AppendFile.open(
            self.path, options.lock, strict_perms=options.strict_perms, disk=options.disk
        )
        try:
            end = tail.read(self.path, MARK)
            self._check_end(end)
            seam = tail.repair(file, end)
            if seam is not None:
                file.sync()
        except BaseException:
            file.close()
            raise
        self._seam = seam
        self.last = self.first = self.durable = end.last_seq
        self._index.append((end.last_seq + 1, file.size))
        self.resumes = end.last_seq > 0
        if options.integrity == "chain" or end.chain:
            self._chain, self._alters = end.chain, True
        self._follows = True
        self.file = file

    def write(self, draft: Draft, lost: int = 0, elapsed: int | None = None) -> Entry:
        """Number the draft, write it, and flush it to disk if the options say so.

        Afterwards either the file has the event as one line, or nothing was written and no number
        was used.
        """
        file = self.file or self._open_late()
        kind, head, payload, step_seq, extras, at = draft
        seq = self.last + 1
        rest = (self._clock() if at is None else at) - self._second
        if not 0 <= rest < 1_000_000_000:
            rest = self._turn_second(rest)
        if elapsed is None:
            elapsed = self._monotonic() - self._began
        if lost or self._seam is not None:
            extras += self._marks(lost)
        start = seq, head, self._second_text, rest // 1000, payload, elapsed // 1_000_000
        if step_seq is None:
            line = LINE % (*start, extras)
        else:
            line = LINE_IN_STEP % (*start, step_seq, extras)
        if self._alters:
            line = self._altered(line)
        size = file.size
        try:
            file.append(line)
            self.last = seq
        except BaseException as error:
            self._undo(file, size, seq)
            if isinstance(error, OSError):
                self.failed += 1
                raise WriteFailed(f"{self.path}: {error}", DISK_HINT) from error
            raise
        if not seq % INDEX_EVERY:
            self._index.append((seq, size))
        if self._follows:
            self._follow(kind)
        return _entry(Entry, (seq, kind, line))

    def stamped(self, draft: Draft) -> tuple[Draft, int]:
        """The draft with the current time, and the time since opening; for writing it later."""
        kind, head, payload, step_seq, extras, at = draft
        now = self._clock() if at is None else at
        return (kind, head, payload, step_seq, extras, now), self._monotonic() - self._began

    def sync(self) -> None:
        """Flush to disk; after a failure no durability is promised any more."""
        file, reached = self.file, self.last
        if file is None or reached == self.durable:
            return
        try:
            file.sync()
        except OSError as error:
            # A later success does not cover the pages that this failure dropped.
            self.sync_failed = True
            log.warning("%s cannot be flushed to disk: %s", self.path, error)
            return
        self.syncs += 1
        if not self.sync_failed:
            self.durable = reached

    def close(self) -> None:
        """Flush to disk, close the file and release its lock."""
        if self.file is not None:
            self.sync()
            self.file.close()

    def read(self, first: int, last: int) -> Iterator[Entry]:
        """The events from one number through another, from the file, through the index."""
        index = list(self._index)
        place = bisect_right(index, (first, 1 << 62)) - 1
        with self.path.open("rb") as file:
            if self.file is not None and os.fstat(file.fileno()).st_ino != self.file.inode:
                raise OSError(f"{self.path} was replaced by another file")
            file.seek(index[place][1])
            while (line := file.readline()).endswith(b"\n"):
                entry = _read(line[:-1])
                if entry is None or entry.seq is None or entry.seq < first:
                    continue
                if entry.seq > last:
                    return
                yield entry

    def _check_end(self, end: tail.Tail) -> None:
        if end.finished and not self.options.resume:
            raise TranscriptFinished(
                f"the run {self.run_id} has ended", "open it with resume=True to go on with it"
            )

    def _open_late(self) -> AppendFile:
        """Open the file at the next event, after the disk failed while opening."""
        try:
            self.open()
        except (OSError, NotOpened) as error:
            self.failed += 1
            raise WriteFailed(f"{self.path} cannot be opened: {error}", DISK_HINT) from error
        assert self.file is not None
        return self.file

    def _turn_second(self, rest: int) -> int:
        """Encode a new second and return the rest of the time."""
        seconds, rest = divmod(self._second + rest, 1_000_000_000)
        self._second = seconds * 1_000_000_000
        self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode()
        return rest

    def _follow(self, kind: str) -> None:
        """The work after a written line: the next link, the end of the seam, the flush."""
        self._seam = None
        if self._chain is not None:
            self._chain = self._next
        else:
            self._follows = self._syncs_all or self._syncs_some
        if self._syncs_all or (self._syncs_some and kind in MILESTONES):
            self.sync()

    def _marks(self, lost: int) -> bytes:
        marks: dict[str, Any] = {}
        if self._seam is not None:
            marks["seam"] = self._seam.body()
        if lost:
            marks["lost"] = {"count": lost}
        return b"," + encode(marks)[1:-1]

    def _altered(self, line: bytes) -> bytes:
        line = line[:-1]
        masker, limit = self.options.masker, self.options.max_event_bytes
        if masker is not None:
            self.masked += 1
            try:
                line, failed = mask(line, masker, self.options.on_mask_error)
            except MaskFailed:
                self.mask_errors += 1
                raise
            self.mask_errors += failed
        if limit is not None and len(line) > limit:
            self.truncated += 1
            line = shorten(line, limit)
        if self._chain is not None:
            line, self._next = chained(line, self._chain)
        return line + b"\n"

    def _undo(self, file: AppendFile, size: int, seq: int) -> None:
        """Restore the file, unless the line is complete and only an interrupt came late."""
        if self.last == seq or file.broken:
            return  # nothing to undo, or it was tried just now
        try:
            file.cut(size)
        except OSError as error:
            log.warning("%s cannot be truncated; it is tried again: %s", self.path, error)


def chained(line: bytes, before: str) -> tuple[bytes, str]:
    """The line with the link to the line before as its last key, and that link."""
    link = sha256(before.encode() + line).hexdigest()
    return b'%b,"chain":"%b"}' % (line[:-1], link.encode()), link


def _read(line: bytes) -> Entry | None:
    try:
        body = loads(line)
        return Entry(body["seq"], body["type"], line + b"\n")
    except (ValueError, KeyError, TypeError):
        return None  # a foreign or damaged line: it has no number
