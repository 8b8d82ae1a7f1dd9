"""What happened in a run over its own time, in slices: for the scrubber over the full range."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import add
from typing import Literal, get_args

from tracklog.answers import Question, integer, key_of, run_param
from tracklog.answers.run_turns import RunTimes, times_of
from tracklog.home.home import Home
from tracklog.journal.frame import stamp

GAP = 600_000
"""Milliseconds without an event that are cut out."""


@dataclass(frozen=True, slots=True)
class DensityWait:
    """A time in which the run waited for a person."""

    question_id: str
    begin: str
    end: str | None
    """Null while it goes on."""


@dataclass(frozen=True, slots=True)
class DensityGap:
    """A long time without an event, which has no slices."""

    slice: int
    """The slice that comes after it."""
    begin: str
    end: str


@dataclass(frozen=True, slots=True)
class DensityAnswer:
    """The events of a run from its first to its last, in slices of equal length."""

    begin: str | None
    """Null where nothing of the run has a time."""
    end: str | None
    at: list[str]
    """When each slice begins."""
    model: list[int]
    """Per slice, the turns of models."""
    tool: list[int]
    """The tool calls that began."""
    failed: list[int]
    """Those of them that failed."""
    failed_steps: list[int]
    """The steps that ended and failed."""
    seq: list[int | None]
    """The first record in the slice; null where nothing happened."""
    waits: list[DensityWait]
    gaps: list[DensityGap]


class _Axis:
    """The time of a run without its long gaps."""

    def __init__(self, times: Iterable[int]) -> None:
        every = sorted(times)
        self.begin, self.end = every[0], every[-1]
        gaps = [(one, other) for one, other in pairwise(every) if other - one > GAP]
        self.gaps = gaps
        self._ends = [end for _, end in gaps]
        self._cut = [0]
        for begin, end in gaps:
            self._cut.append(self._cut[-1] + end - begin)
        self.length = self.end - self.begin - self._cut[-1]

    def place(self, at: int) -> int:
        """The position of a time on the axis."""
        return at - self.begin - self._cut[bisect_right(self._ends, at)]

    def time(self, place: int) -> int:
        """The time at a position: after the gap, where it is at one."""
        at = self.begin + place
        for begin, end in self.gaps:
            if at >= begin:
                at += end - begin
        return at


def density(home: Home, run: str, slices: int = 300) -> DensityAnswer:
    """Turns, tool calls and failures per slice, waits and gaps."""
    times = times_of(home, key_of(home, run))
    points = _points(times)
    if not points:
        return DensityAnswer(None, None, [], [], [], [], [], [], [], [])
    axis = _Axis([times.begin, times.end, *(at for at, *_ in points)])
    counts = {kind: [0] * slices for kind in get_args(_Kind)}
    seqs: list[int | None] = [None] * slices
    for at, seq, kind in points:
        place = min(axis.place(at) * slices // max(axis.length, 1), slices - 1)
        first = seqs[place]
        seqs[place] = seq if first is None else min(first, seq)
        counts[kind][place] += 1
    return DensityAnswer(
        begin=stamp(axis.begin / 1000),
        end=stamp(axis.end / 1000),
        at=[stamp(axis.time(n * axis.length // slices) / 1000) for n in range(slices)],
        model=counts["turn"],
        tool=list(map(add, counts["call"], counts["failed call"])),
        failed=counts["failed call"],
        failed_steps=counts["failed step"],
        seq=seqs,
        waits=[
            DensityWait(
                wait.id,
                stamp(wait.begin / 1000),
                None if wait.end is None else stamp(wait.end / 1000),
            )
            for wait in times.waits
        ],
        gaps=[
            DensityGap(
                min(axis.place(end) * slices // max(axis.length, 1), slices - 1),
                stamp(begin / 1000),
                stamp(end / 1000),
            )
            for begin, end in axis.gaps
        ],
    )


_Kind = Literal["turn", "call", "failed call", "failed step", "other"]


def _points(times: RunTimes) -> list[tuple[int, int, _Kind]]:
    """What happened: when, its record, and what it was."""
    points: list[tuple[int, int, _Kind]] = [(at, seq, "other") for at, seq in times.inputs]
    points += [(turn.last_words, turn.seq, "turn") for turn in times.turns if turn.has_words]
    for call in times.calls:
        points.append((call.begin, call.seq, "failed call" if call.failed else "call"))
    points += [(wait.begin, wait.seq, "other") for wait in times.waits]
    for step in times.steps:
        points.append((step.begin, step.seq, "other"))
        if step.end is not None and step.end_seq is not None:
            points.append((step.end, step.end_seq, "failed step" if step.failed else "other"))
    return points


question = Question(
    name="density",
    about="Count turns, tool calls and failures of a run over its own time, in slices. Times of "
    "more than ten minutes without an event are cut out.",
    ask=density,
    params=(
        run_param(),
        integer("slices", "Into how many slices the time is cut.", least=1, most=2000, default=300),
    ),
    paths=("/api/runs/{family}/{run}/density",),
    examples=("density agent-coder-1 --json",),
)
