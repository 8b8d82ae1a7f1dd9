"""Run a recorded run, and the runs that it called, again from recorded answers."""

from collections.abc import Callable, Iterator

from tracklog import Log, OnMiss, RecordedAnswer, Run, ServeBy, Tape, TranscriptRun
from tracklog.hosts.workflow import FAMILY
from tracklog.hosts.workflow.history import address, lane, recorded_in

TapeOf = Callable[[str], Tape | None]


def tape_of(
    journal: Log, name: str, by: ServeBy, miss: OnMiss, tapes: list[Tape]
) -> tuple[Tape, TapeOf]:
    """The tape of a run of any dialect, and a function for those of its sub-runs.

    All tapes are added to `tapes`.
    """
    answers: dict[str, list[RecordedAnswer]] = {}

    def prepare(run: Run) -> None:
        family, run_id = run
        if family != FAMILY:
            answers[run_id] = journal.recorded_answers(run)
            return
        transcript = journal.transcript(run)
        answers[run_id] = [*recorded_in(transcript), *_calls(transcript)]
        for step in transcript.steps:
            if step.child_run_id and step.child_run_id not in answers:
                prepare((family, step.child_run_id))

    def tape(run_id: str) -> Tape | None:
        tapes.append(Tape(answers.get(run_id, ()), by=by, miss=miss))
        return tapes[-1]

    run = journal.find(name)
    prepare(run)
    first = tape(run[1])
    assert first is not None
    return first, tape


def _calls(transcript: TranscriptRun) -> Iterator[RecordedAnswer]:
    for step in transcript.steps:
        if step.child_run_id and step.started is not None:
            where = lane(address(step.path, step.frames))
            yield RecordedAnswer(
                kind="call", lane=where, asked=None, answer=step.child_run_id,
                seq=step.started.seq or 0,
            )  # fmt: skip
