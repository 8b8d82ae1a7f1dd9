"""Follow a growing transcript, also when it is truncated or replaced."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from tracklog.model.lines import BOM, Line
from tracklog.recording.transcript.reader import Flaw, TranscriptEvent, read_line

POLL = 0.1
LAST = 1 << 12
"""How many bytes before the offset are compared to see that the file is the same."""


class Follow:
    """The events of a growing file: iterate it, or `async for` over it, until `stop` returns true.

    A last line without a line end is pending, not a problem. A file that shrank, or has other bytes
    before the offset, is reported as `rotated`; events of its run that were yielded before are not
    yielded again.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        poll: float = POLL,
        stop: Callable[[], bool] = lambda: False,
        strict: bool = False,
    ) -> None:
        self.path = Path(path)
        self._held: list[bytes] = []
        self._poll, self._stop, self._strict = poll, stop, strict
        self._inode: int | None = None
        self._last = b""
        self._number, self._offset = 1, 0
        self._cursor: tuple[object, int] | None = None
        self._catching_up = False

    def __iter__(self) -> Iterator[TranscriptEvent | Flaw]:
        while True:
            over = self._stop()
            yield from self.poll()
            if over:
                return
            time.sleep(self._poll)

    async def __aiter__(self) -> AsyncIterator[TranscriptEvent | Flaw]:
        while True:
            over = self._stop()
            for event in self.poll():
                yield event
            if over:
                return
            await asyncio.sleep(self._poll)

    @property
    def pending(self) -> bytes:
        """The bytes after the last line end."""
        return b"".join(self._held)

    def poll(self) -> Iterator[TranscriptEvent | Flaw]:
        """The new events since the last call, without waiting."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            status = os.fstat(file.fileno())
            end = self._offset + sum(map(len, self._held))
            file.seek(end - len(self._last))
            if self._inode not in (None, status.st_ino) or file.read(len(self._last)) != self._last:
                yield self._rotated(status.st_size)
            self._inode = status.st_ino
            file.seek(self._offset + sum(map(len, self._held)))
            while chunk := file.read(1 << 18):
                self._last = (self._last + chunk)[-LAST:]
                yield from self._cut(chunk)

    def _rotated(self, size: int) -> Flaw:
        self._held, self._number, self._offset, self._last = [], 1, 0, b""
        self._catching_up = self._cursor is not None
        return Flaw(
            "rotated", 1, 0, f"the file was truncated or replaced, it has {size} bytes", "info"
        )

    def _cut(self, chunk: bytes) -> Iterator[TranscriptEvent | Flaw]:
        if b"\n" not in chunk:
            self._held.append(chunk)
            return
        *lines, rest = (self.pending + chunk).split(b"\n")
        self._held = []
        for raw in lines:
            number, offset = self._number, self._offset
            self._number, self._offset = number + 1, offset + len(raw) + 1
            bom = offset == 0 and raw.startswith(BOM)
            data = raw.removeprefix(BOM) if bom else raw
            data = data.removesuffix(b"\r")
            if data.strip():
                line = Line(number, offset, data, len(raw), True, bom)
                yield from self._new(read_line(line, strict=self._strict))
        self._held = [rest] if rest else []

    def _new(self, events: Iterator[TranscriptEvent | Flaw]) -> Iterator[TranscriptEvent | Flaw]:
        """The events not yielded before: after a rotation, only those after the cursor."""
        for each in events:
            if isinstance(each, TranscriptEvent):
                run, seq = each.body.get("run_id"), each.seq or 0
                if self._catching_up and self._cursor is not None:
                    if run == self._cursor[0] and seq <= self._cursor[1]:
                        continue
                    self._catching_up = False
                self._cursor = run, seq
            yield each
