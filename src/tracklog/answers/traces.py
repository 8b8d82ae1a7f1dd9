"""The tool calls of runs over their own time, in slices: how busy each was, and where it failed."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tracklog.answers import Question, text
from tracklog.folds import calls as calls_fold
from tracklog.folds import epoch_ms, rows_of, run_of
from tracklog.folds import runs as runs_fold
from tracklog.home.home import Home

SLICES = 36
LONGEST = 5_000  # calls; those of a longer run are not read for a small picture


@dataclass(frozen=True, slots=True)
class TraceRow:
    """The tool calls of a run, from its first event to its last, in slices of equal length."""

    family: str
    run: str
    calls: list[int]
    """Per slice, the calls that began; empty where a run has none, no times, or too many calls."""
    failed: list[int]
    """Those of them that failed."""


class Traces:
    """What was read of each run, as long as it has recorded nothing new."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._held: dict[str, tuple[int, TraceRow]] = {}

    def of(self, keys: Iterable[str]) -> list[TraceRow]:
        states = self._home.index.load("runs", set(keys))
        rows = {key: self._row(key, state) for key, state in states.items()}
        self._held = {key: (states[key].last_seq, row) for key, row in rows.items()}
        return list(rows.values())

    def _row(self, key: str, state: runs_fold.State) -> TraceRow:
        seq, row = self._held.get(key, (0, None))
        if row is not None and seq == state.last_seq:
            return row
        family, run = run_of(key)
        if not 0 < state.tool_calls <= LONGEST:
            return TraceRow(family, run, [], [])
        calls = [each for _, each in self._home.index.states("calls", rows_of(family, run))]
        return TraceRow(family, run, *_sliced(state, calls))


def _sliced(
    state: runs_fold.State, calls: Sequence[calls_fold.State]
) -> tuple[list[int], list[int]]:
    at = {each.returned_seq: each.returned_ms for each in calls}
    at |= {each.called_seq: each.called_ms for each in calls}
    rows = [row for row in calls_fold.answer(calls) if not row["copied"]]
    every = [(at[row["called_seq"] or row["returned_seq"]], row["ok"] is False) for row in rows]
    timed = [(ms, bad) for ms, bad in every if ms is not None]
    if not timed:
        return [], []
    times = [ms for ms, _ in timed]
    begin = min([*times, epoch_ms(state.first_at) or times[0]])
    end = max([*times, epoch_ms(state.last_at) or times[0]])
    slices, failed = [0] * SLICES, [0] * SLICES
    for ms, bad in timed:
        place = min((ms - begin) * SLICES // max(end - begin, 1), SLICES - 1)
        slices[place] += 1
        failed[place] += bad
    return slices, failed


def traces(home: Home, run: Collection[str]) -> list[TraceRow]:
    """The traces of these runs; runs that are not here are left out."""
    return home.cache(Traces).of(run)


question = Question(
    name="traces",
    about="Count the tool calls of runs and their failures, in 36 equal slices of each run's time.",
    ask=traces,
    params=(text("run", "A run, as `family:run`.", many=True, default=()),),
    examples=("traces --run kahn:release-2-4-1 --json",),
)
