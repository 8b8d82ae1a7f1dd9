"""Record one command in a home: a transcript while it runs, then the journal.

The transcript is `<home>/transcripts/<run-id>.jsonl`. It is admitted to the journal while it grows.
A file `<run-id>.open` marks an open recording; the next one finishes a recording that was killed.
"""

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tracklog.dialects import awf
from tracklog.formats.output_recorder import OutputRecorder
from tracklog.formats.providers import ReplyStatus
from tracklog.home.home import Home
from tracklog.intake import secrets
from tracklog.model.errors import TracklogError
from tracklog.model.fact import Linked, Noted
from tracklog.recording.recorder import Recorder, end_interrupted
from tracklog.recording.transcript.state import is_locked

log = logging.getLogger("tracklog")

PAUSE = 0.5
"""Seconds between two admissions while the command runs."""
LONGEST = 8 << 20
"""The longest event in bytes; of a longer one the longest strings are cut, with a mark."""


class Recording:
    """Records one command; a home that cannot be written to leaves the transcript, or nothing."""

    def __init__(
        self,
        home: Path,
        command: Sequence[str],
        *,
        provider: str | None = None,
        tee_raw: bool = False,
        redact: bool = False,
        run_id: str | None = None,
        parent_run_id: str | None = None,
        store: tuple[str, Path] | None = None,
    ) -> None:
        self._store = store
        """The URL of a database and the folder for its caches; else the journal is in the home."""
        self.run_id = run_id or str(uuid.uuid4())
        self._parent = parent_run_id
        self.path = home / "transcripts" / f"{self.run_id}.jsonl"
        self._home = home
        self._redact = redact
        self._command = list(command)
        self._provider, self._tee_raw = provider, tee_raw
        self._opened: Home | None = None
        self._through = 0
        self._admitted = 0.0
        self._reported: str | None = None
        self._recorder: Recorder
        self._scribe: OutputRecorder

    def __enter__(self) -> Self:
        options: dict[str, Any] = {"max_event_bytes": LONGEST, "durability": "interval"}
        if self._redact:
            options["masker"] = secrets.masker()
        self._recorder = Recorder.open(self.run_id, self._home, self._parent, **options)
        self._marker.touch(0o600)
        tee = self.path.with_suffix(".raw") if self._tee_raw else None
        self._scribe = OutputRecorder(self._recorder, self._command, name=self._provider, tee=tee)
        self._scribe.begin()
        with self._patiently():
            self._open_home()
            self._report(
                Noted(label="exec", data={"command": self._command, "cwd": str(Path.cwd())})
            )
            self._admit(now=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._recorder.close()
        with self._patiently():
            self._admit(now=True)
            if self._opened is not None:
                self._marker.unlink(missing_ok=True)
                self._opened.close()

    @property
    def _marker(self) -> Path:
        return self.path.with_suffix(".open")

    def feed(self, chunk: bytes) -> None:
        """Add the next bytes of its output."""
        self._scribe.feed(chunk)
        with self._patiently():
            self._name()
            self._admit()

    def miss(self, size: int) -> None:
        """Count bytes that could not be read in time."""
        self._scribe.miss(size)

    def finish(self, status: ReplyStatus, exit_code: int | None, stderr: bytes) -> None:
        """Record the end of the command."""
        self._scribe.finish(status, exit_code, stderr)
        with self._patiently():
            self._name()
            if missed := self._scribe.dropped:
                text = f"{missed} bytes were printed faster than they could be recorded"
                data = {"name": "recording-dropped", "bytes": missed}
                self._report(Noted(label="finding", text=text, data=data))

    def _open_home(self) -> None:
        place, folders = self._store or (self._home, None)
        redact = secrets.redact if self._redact else None
        self._opened = Home(place, folders=folders, redact=redact)
        recover(self._opened, but=self.run_id, folder=self._home)

    def _name(self) -> None:
        """The provider's own id of the conversation, so that a later import is recognised."""
        session, provider = self._scribe.session, self._scribe.provider
        if session and provider and session != self._reported:
            self._reported = session
            self._report(Linked(kind="alias", system=provider.name, alias=session))

    def _report(self, fact: Linked | Noted) -> None:
        if self._opened is not None:
            self._opened.record_fact((awf.dialect.family, self.run_id), fact, writer="exec")

    def _admit(self, *, now: bool = False) -> None:
        """Admit the new lines to the journal."""
        if self._opened is None or not (now or time.monotonic() - self._admitted > PAUSE):
            return
        self._through = admit(self._opened, self.path, self._through)
        self._admitted = time.monotonic()

    @contextmanager
    def _patiently(self) -> Iterator[None]:
        """Retry on errors: the transcript has everything, and the journal is updated later."""
        try:
            yield
        except (TracklogError, OSError) as error:
            log.warning("%s is not in the journal yet: %s", self.path, error)


def admit(home: Home, path: Path, after: int = 0) -> int:
    """Admit the complete lines of a transcript from an offset on; returns the offset after them."""
    with path.open("rb") as file:
        file.seek(after)
        held = file.read()
    whole = held[: held.rfind(b"\n") + 1]
    lines = [line for line in whole.split(b"\n") if line]
    if lines:
        home.intake.admit(lines, awf.dialect.name)
    return after + len(whole)


def recover(home: Home, but: str = "", folder: Path | None = None) -> list[str]:
    """Finish recordings that were killed, in this folder or the home; returns their runs."""
    recovered: list[str] = []
    for marker in sorted(((folder or home.path) / "transcripts").glob("*.open")):
        path = marker.with_suffix(".jsonl")
        if path.stem == but or is_locked(path):
            continue  # its recorder is alive
        try:
            if path.exists():
                end_interrupted(path)
                admit(home, path)
            marker.unlink(missing_ok=True)
            recovered.append(path.stem)
        except TracklogError as error:
            log.warning("%s cannot be finished: %s", path, error.message)
    return recovered
