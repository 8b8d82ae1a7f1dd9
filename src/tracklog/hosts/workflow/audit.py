"""The audit file: two lines for each run, whether or not the run is recorded.

AWF-79: `workflow.started` and `workflow.completed`, with the id of the run in both.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

log = logging.getLogger("tracklog")

LONGEST = 4096
"""Bytes of a line with its line end; a write of this length is never mixed with another one."""
SHOWN = 1000


class Audit:
    """Appends to `audit.jsonl`; if that fails, the run continues and a warning is printed."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock

    def started(self, run_id: str, workflow: str, **more: Any) -> None:
        """Write that a run begins."""
        self._write("workflow.started", run_id, workflow, more)

    def completed(self, run_id: str, workflow: str, status: str, error: str | None) -> None:
        """Write that a run has ended, with or without an error."""
        more = {"status": status} | ({"error": _cut(error)} if error else {})
        self._write("workflow.completed", run_id, workflow, more)

    def settle(self, run_id: str, workflow: str, end: Mapping[str, Any]) -> None:
        """Write the end of a run whose host was killed before it could."""
        if self.last_event(run_id) == "workflow.started":
            self.completed(run_id, workflow, end.get("status", "ok"), end.get("error"))

    def last_event(self, run_id: str) -> str | None:
        """The kind of the last line about a run, or None."""
        last = None
        if self.path.exists():
            mark = run_id.encode()
            for line in self.path.read_bytes().split(b"\n"):
                if mark in line and (entry := _read(line)).get("execution_id") == run_id:
                    last = entry.get("event")
        return last

    def _write(self, event: str, run_id: str, workflow: str, more: dict[str, Any]) -> None:
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        line = {"event": event, "execution_id": run_id, "timestamp": at.replace("+00:00", "Z")}
        line |= {"workflow": _cut(workflow), **more}
        written = orjson.dumps(line) + b"\n"
        assert len(written) <= LONGEST
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self.path, flags, 0o600)
            try:
                os.write(fd, written)
            finally:
                os.close(fd)
        except OSError as error:
            log.warning("%s of %s was not written to %s: %s", event, run_id, self.path, error)


def _cut(text: str) -> str:
    """The part of a text that fits into a line, however it is escaped."""
    size = 0
    rows: list[str] = []
    for char in text:
        size += max(len(orjson.dumps(char.encode("utf-8", "replace").decode())) - 2, 1)
        if size > SHOWN:
            return "".join(rows) + "…"
        rows.append(char.encode("utf-8", "replace").decode())
    return text.encode("utf-8", "replace").decode()


def _read(line: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
