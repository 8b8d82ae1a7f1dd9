"""Run a recorded run, and the runs that it called, again from recorded answers."""

from collections.abc import Callable, Iterator

from tracklog.dialects import awf
from tracklog.home.home import Home
from tracklog.hosts.workflow.past import address, lane, recorded_in
from tracklog.journal.frame import Run as Named
from tracklog.recording.tape import By, OnMiss, Recorded, Tape, anybodys
from tracklog.recording.tape import recorded_in as recorded_in_any
from tracklog.recording.transcript.reader import Reader, Reading
from tracklog.recording.transcript.views import Run

TapeOf = Callable[[str], Tape | None]


def tape_of(home: Home, name: str, by: By, miss: OnMiss, tapes: list[Tape]) -> tuple[Tape, TapeOf]:
    """The tape of a run of any dialect, and how to find those of its sub-runs; all go to `tapes`."""
    read: dict[str, list[Recorded]] = {}

    def prepare(run: Named) -> None:
        if run[0] != awf.dialect.family:
            read[run[1]] = list(anybodys(recorded_in_any(home, run)))
            return
        told = Run(run[1], _readings(home, run))
        read[run[1]] = [*recorded_in(told), *_calls(told)]
        for step in told.steps:
            if step.child_run_id and step.child_run_id not in read:
                prepare((run[0], step.child_run_id))

    def tape(run_id: str) -> Tape | None:
        tapes.append(Tape(read.get(run_id, ()), by=by, miss=miss))
        return tapes[-1]

    run = home.run(name)
    prepare(run)
    first = tape(run[1])
    assert first is not None
    return first, tape


def _calls(run: Run) -> Iterator[Recorded]:
    for step in run.steps:
        if step.child_run_id and step.started is not None:
            where = lane(address(step.path, step.frames))
            yield Recorded(
                kind="call", lane=where, asked=None, answer=step.child_run_id,
                seq=step.started.seq or 0,
            )  # fmt: skip


def _readings(home: Home, run: Named) -> list[Reading]:
    """The events of a run as its transcript had them."""
    records = home.journal.records(run=run)
    lines = [each.line for each in records if each.dialect == awf.dialect.name and each.line]
    return Reader(b"".join(line + b"\n" for line in lines)).read_all()[0]
