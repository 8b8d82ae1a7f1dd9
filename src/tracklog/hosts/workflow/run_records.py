"""The leases, transcripts and journal of a host's runs, and the end of a run that was killed."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import tracklog
from tracklog import Leases, Log, NoSuchRun, Noted, Record, Recorder, TracklogError, write_file
from tracklog.hosts import RunOver
from tracklog.hosts._notes import put
from tracklog.hosts.workflow import FAMILY, processes
from tracklog.hosts.workflow.audit import Audit
from tracklog.hosts.workflow.history import History

log = logging.getLogger("tracklog")

PAUSE = 0.5
"""Seconds between two times at which transcripts are read into the journal."""
FIRST = 0.1
"""Seconds before the first time, so that a new run is visible soon."""
STOP = "stop-requested"
"""The label of the note that requests the end of a run."""


class RunRecords:
    """Leases and records the runs of one host.

    Transcripts that cannot be written to the journal now are written by the next host.
    """

    def __init__(self, path: Path, audit: Audit, leases: Leases) -> None:
        self._path, self._audit, self._leases = path, audit, leases
        self._folder = path / "hosts" / "workflow"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._journal: Log | None = None
        self._through: dict[Path, int] = {}
        self._mine: dict[str, str] = {}
        self._read_to = 0
        self._admitting = threading.Lock()

    def take(self, run_id: str) -> bool:
        """Take the lease of a run; False if another host has it."""
        return self._leases.take((FAMILY, run_id))

    def opened(self, run_id: str, workflow: str) -> None:
        """Store that a run begins: if this host is killed, the next one ends the run."""
        if run_id not in self._mine:
            self.take(run_id)
            self._mine[run_id] = workflow
            write_file(self._folder / f"{run_id}.open", workflow.encode())
        self._through.setdefault(self._path / "transcripts" / f"{run_id}.jsonl", 0)

    def settle(self, run_id: str, workflow: str, end: Mapping[str, Any]) -> None:
        """Finish the records of a run that had ended when its host was killed."""
        self.opened(run_id, workflow)
        self._audit.settle(run_id, workflow, end)
        self._admit()

    @asynccontextmanager
    async def recording(self, stop: Callable[[], object]) -> AsyncIterator[None]:
        """Write the transcripts to the journal while they grow, and once more at the end.

        `stop` is called if somebody requested the end of one of the runs.
        """
        task = asyncio.create_task(self._record(stop))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            self._admit()

    def close(self) -> None:
        """Close the journal; the runs have ended."""
        for run_id in self._mine:
            path = self._path / "transcripts" / f"{run_id}.jsonl"
            if not path.exists() or self._through.get(path) == path.stat().st_size:
                (self._folder / f"{run_id}.open").unlink(missing_ok=True)
        if self._journal is not None:
            self._journal.close()

    def sweep(self, but: str) -> list[str]:
        """End the runs of hosts that were killed, each once; returns their ids.

        The run `but`, which continues now, is not ended, nor are its unfinished sub-runs.
        """
        runs: list[str] = []
        for marker in sorted(self._folder.glob("*.open")):
            run_id = marker.stem
            if self._continues(run_id, but) or not self.take(run_id):
                continue  # it continues now, or another host runs it
            try:
                processes.end_leftovers(run_id)
                path = self._path / "transcripts" / f"{run_id}.jsonl"
                workflow = marker.read_text()
                self._audit.settle(run_id, workflow, end_killed(path, run_id))
                self._through[path] = 0
                self._admit()
                marker.unlink(missing_ok=True)
                runs.append(run_id)
            except (TracklogError, OSError) as error:
                log.warning("%s cannot be ended: %s", run_id, error)
            finally:
                self._leases.release((FAMILY, run_id))
        return runs

    def _continues(self, run_id: str, outer: str) -> bool:
        """Whether a run is `outer`, or an unfinished sub-run of it at any depth."""
        seen: set[str] = set()
        while run_id != outer and run_id not in seen:
            seen.add(run_id)
            history = History.of(self._path / "transcripts" / f"{run_id}.jsonl", run_id)
            if history.run is None or history.end is not None or history.run.parent_run_id is None:
                return False
            run_id = history.run.parent_run_id
        return run_id == outer

    async def _record(self, stop: Callable[[], object]) -> None:
        pause = FIRST
        while True:
            await asyncio.sleep(pause)
            pause = PAUSE
            if await asyncio.shield(asyncio.to_thread(self._admit)):
                stop()

    def _end_requested(self, journal: Log) -> bool:
        """Whether the end of one of these runs was requested since the last call."""
        asked, end = False, journal.last
        for run_id in self._mine:
            for record in journal.read(self._read_to, (FAMILY, run_id), end):
                asked = asked or _is_end_request(journal, record)
        self._read_to = end
        return asked

    def _admit(self) -> bool:
        """Write new lines of the transcripts to the journal; True if the end of a run was requested."""
        with self._admitting:  # a run may end while a thread does this
            try:
                if self._journal is None:
                    self._journal = tracklog.open(self._path)
                for path, through in list(self._through.items()):
                    if path.exists() and path.stat().st_size > through:
                        self._through[path] = self._journal.admit_transcript(path, through)
                return self._end_requested(self._journal)
            except (TracklogError, OSError) as error:
                log.warning("the runs are not in the journal yet: %s", error)
                return False


def _is_end_request(journal: Log, record: Record) -> bool:
    if record.dialect == FAMILY or STOP.encode() not in record.line:
        return False
    return any(isinstance(fact, Noted) and fact.label == STOP for fact in journal.facts_in(record))


def ask_to_end(journal: Log, run_id: str, by: str) -> int:
    """Record the request to end a run, which its host reads; returns the number of the record."""
    ended: bool | None = None
    for record in journal.read(run=(FAMILY, run_id)):
        event = journal.event(record) if record.dialect == FAMILY else None
        if event is not None:
            ended = event.kind == "run.completed"
    if ended is None:
        raise NoSuchRun(f"there is no workflow run {run_id!r}", "`tracklog runs` lists the runs")
    if ended:
        raise RunOver(f"the run {run_id} has ended", "`tracklog runs` shows which have not")
    return put(journal, (FAMILY, run_id), STOP, {"by": by})


def end_killed(path: Path, run_id: str) -> Mapping[str, Any]:
    """End a transcript whose host was killed: its open steps, then its run.

    Returns the payload of the end. A transcript that has an end is not changed.
    """
    history = History.of(path, run_id)
    killed = {"error": "the host was killed", "status": "interrupted"}
    if history.run is None or history.run.state != "interrupted":
        return history.end or killed
    start = history.start or {}
    with Recorder.open(run_id, path.parent.parent, history.run.parent_run_id) as recorder:
        history.end_open_steps(recorder)
        end = {"name": start.get("name", ""), "kind": "workflow", **killed, "synthetic": True}
        recorder.emit("run.completed", end)
    return killed
