"""The difference of two runs: where they differ, what each did instead, and what each cost."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from tracklog.answers import JsonValue, Question, flag, now_of, text
from tracklog.answers.alignment import compare
from tracklog.answers.phrases import phrase
from tracklog.answers.run_steps import RunStep, steps, value_of, without_names
from tracklog.answers.spends import own_spends
from tracklog.folds import run_of, short
from tracklog.folds import runs as runs_fold
from tracklog.home.home import Home
from tracklog.index.gc_paused import gc_paused
from tracklog.journal.frame import Run
from tracklog.model.fact import Called, Returned
from tracklog.reading.replay import picked
from tracklog.reading.walk import facts_in

MOST_CHANGES = 100
"""Changes that are listed of one value; of more, the rest is counted."""
SIZES = (
    "seconds", "steps", "tool_calls", "tool_failures", "tokens_in", "tokens_out", "tokens_cached",
    "tokens", "cost_usd",
)  # fmt: skip  # one row
"""The totals of the runs that are compared."""


@dataclass(frozen=True, slots=True)
class DiffChange:
    """One place of a value that is not the same; a side that has no such place is null."""

    pointer: str
    a: JsonValue
    b: JsonValue


@dataclass(frozen=True, slots=True)
class DiffStep:
    """A step of one run."""

    step: int
    """Its place among the steps of the run, counted from 1."""
    seq: int
    fact: str
    agent: str | None
    words: str
    failed: bool
    """It is the result of a call that failed."""
    seconds: float | None
    """How long the call took, of a result that says it."""


@dataclass(frozen=True, slots=True)
class DiffFailures:
    """The failed calls of a run among its steps."""

    steps: int
    failed: list[int]
    """The places of the steps that are results of failed calls, counted from 1."""


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A step of one run, of the other, or of both with changes."""

    kind: Literal["changed", "only_a", "only_b"]
    a: DiffStep | None
    b: DiffStep | None
    changes: list[DiffChange] = field(default_factory=list)
    more: int = 0
    """Changes that are not listed."""


@dataclass(frozen=True, slots=True)
class DiffCounts:
    """How many steps are the same, and how many are not."""

    same: int
    changed: int
    only_a: int
    only_b: int


@dataclass(frozen=True, slots=True)
class DiffDelta:
    """An amount in both runs, and by how much the second is more."""

    a: float | None
    b: float | None
    delta: float | None


@dataclass(frozen=True, slots=True)
class DiffAnswer:
    """Two runs, step by step."""

    a: str
    b: str
    same: bool
    counts: DiffCounts
    first: DiffRow | None
    """The first difference: everything before it is the same in both runs."""
    at: int
    """The steps that both have in common from their beginning on."""
    rows: list[DiffRow]
    """All that is not the same, in order."""
    deltas: dict[str, DiffDelta]
    """The totals of each run by name; those that are known of at least one run."""
    failures_a: DiffFailures
    failures_b: DiffFailures


def diff(home: Home, a: str, b: str, exact: bool = False, *, now: str | None = None) -> DiffAnswer:
    """Two runs, step by step; with `exact`, ids and times count too."""
    one, two = (":".join(home.run(name)) for name in (a, b))
    with gc_paused():
        return _diff(home, one, two, now_of(home, now), exact=exact)


def _diff(home: Home, a: str, b: str, now: str, *, exact: bool) -> DiffAnswer:
    one, two = (_steps_of(home, run_of(key), exact=exact) for key in (a, b))
    matched = compare(one, two)
    apart = [pair for pair in matched if not _equal(one, two, *pair)]
    changed = {(i, j) for i, j in apart if i is not None and j is not None}
    inside = (
        _inside(home, run_of(a), one, [i for i, _ in apart], {i for i, _ in changed}, exact=exact),
        _inside(home, run_of(b), two, [j for _, j in apart], {j for _, j in changed}, exact=exact),
    )
    rows = [_row(one, two, i, j, inside) for i, j in apart]
    at = next((n for n, pair in enumerate(matched) if not _equal(one, two, *pair)), len(matched))
    kinds = [row.kind for row in rows]
    counts = DiffCounts(
        same=len(matched) - len(rows),
        changed=kinds.count("changed"),
        only_a=kinds.count("only_a"),
        only_b=kinds.count("only_b"),
    )
    spent = own_spends(home.index, {a, b})
    rows_of_runs = [
        runs_fold.row(home.index.state("runs", key), now) | spent[key].reported() for key in (a, b)
    ]
    sizes = [{name: row[name] for name in SIZES} for row in rows_of_runs]
    deltas = _deltas(*sizes)
    first = rows[0] if rows else None
    failures = (_failures(one), _failures(two))
    return DiffAnswer(a, b, not rows, counts, first, at, rows, deltas, *failures)


def _failures(steps: Sequence[RunStep]) -> DiffFailures:
    return DiffFailures(len(steps), [n for n, step in enumerate(steps, 1) if step.failed])


def _steps_of(home: Home, run: Run, *, exact: bool) -> list[RunStep]:
    return steps(lambda: home.journal.records(run=run), home.dialects, exact=exact)


class _Inside(NamedTuple):
    """The content of a step, read again from its record."""

    words: str
    raw: Any
    clean: Any
    """As it is compared."""
    seconds: float | None = None
    """How long the call took, of a result."""


_Looked = Mapping[tuple[int, int], _Inside]
"""By record and place in it."""


def _inside(
    home: Home,
    run: Run,
    steps: Sequence[RunStep],
    apart: Iterable[int | None],
    changed: Collection[int | None],
    *,
    exact: bool,
) -> _Looked:
    """The content of the steps at these positions; of changed ones also the text to compare."""
    wanted = {_place(steps[n]): n in changed for n in apart if n is not None}
    pairs: dict[tuple[int, int], _Inside] = {}
    for record in picked(home.journal, run, {seq for seq, _ in wanted}):
        for nth, fact in enumerate(facts_in(record, home.dialects)):
            place = (record.seq, nth)
            if place in wanted:
                words, value, clean = short(phrase(fact), 300) or "", None, None
                if wanted[place]:
                    value = fact.input if isinstance(fact, Called) else value_of(fact)
                    clean = value if exact else without_names(value, run[1])
                took = fact.seconds if isinstance(fact, Returned) else None
                pairs[place] = _Inside(words, value, clean, took)
    return pairs


def changes(a: Any, b: Any) -> Iterator[DiffChange]:
    """Each place where two JSON values differ, by its JSON pointer, however deep they are."""
    left: list[tuple[str, Any, Any]] = [("", a, b)]
    while left:
        pointer, one, two = left.pop()
        if isinstance(one, Mapping) and isinstance(two, Mapping):
            for key in sorted({*one, *two}, key=str, reverse=True):
                place = f"{pointer}/{_token(key)}"
                left.append((place, one.get(key, ABSENT), two.get(key, ABSENT)))
        elif isinstance(one, list | tuple) and isinstance(two, list | tuple):
            size = max(len(one), len(two))
            left += [(f"{pointer}/{n}", _at(one, n), _at(two, n)) for n in reversed(range(size))]
        elif type(one) is not type(two) or one != two:
            yield DiffChange(
                pointer, None if one is ABSENT else one, None if two is ABSENT else two
            )


ABSENT = object()


def _token(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _at(values: Sequence[JsonValue], n: int) -> JsonValue:
    return values[n] if n < len(values) else ABSENT


def _equal(a: Sequence[RunStep], b: Sequence[RunStep], i: int | None, j: int | None) -> bool:
    return i is not None and j is not None and a[i].whole == b[j].whole


def _row(
    a: Sequence[RunStep],
    b: Sequence[RunStep],
    i: int | None,
    j: int | None,
    inside: tuple[_Looked, _Looked],
) -> DiffRow:
    sides = _step(a, i, inside[0]), _step(b, j, inside[1])
    if i is None or j is None:
        return DiffRow("only_b" if i is None else "only_a", *sides)
    one, two = inside[0].get(_place(a[i]), NOTHING), inside[1].get(_place(b[j]), NOTHING)
    changed = changes(one.clean, two.clean)
    diff_changes = [DiffChange(each.pointer, *_raw(one.raw, two.raw, each)) for each in changed]
    more = max(0, len(diff_changes) - MOST_CHANGES)
    return DiffRow("changed", *sides, diff_changes[:MOST_CHANGES], more)


NOTHING = _Inside("", None, None)


def _place(step: RunStep) -> tuple[int, int]:
    return step.seq, step.nth


def _raw(a: JsonValue, b: JsonValue, change: DiffChange) -> tuple[JsonValue, JsonValue]:
    """The value at the position before ids and times were removed."""
    return _look(a, change.pointer, change.a), _look(b, change.pointer, change.b)


def _look(value: Any, pointer: str, otherwise: JsonValue) -> JsonValue:
    try:
        for token in pointer.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list | tuple) else value[key]
    except (KeyError, IndexError, ValueError, TypeError):
        return otherwise  # its key was an id itself, or it is not there
    return value


def _step(steps: Sequence[RunStep], place: int | None, inside: _Looked) -> DiffStep | None:
    if place is None:
        return None
    step = steps[place]
    found = inside.get(_place(step), NOTHING)
    return DiffStep(
        place + 1, step.seq, step.fact, step.agent, found.words, step.failed, found.seconds
    )


def _deltas(a: Mapping[str, float | None], b: Mapping[str, float | None]) -> dict[str, DiffDelta]:
    deltas = {}
    for name in SIZES:
        one, two = a[name], b[name]
        if one is not None or two is not None:
            more = None if one is None or two is None else round(two - one, 9)
            deltas[name] = DiffDelta(one, two, more)
    return deltas


question = Question(
    name="diff",
    about="Compare two runs step by step, and show where they differ. Ids and times are not "
    "compared. The time, tokens and money that each run took are shown, too.",
    ask=diff,
    params=(
        text("a", "A run: its id, the beginning of it, or `family:run`.", required=True, run=True),
        text("b", "The other run.", required=True, run=True),
        flag("exact", "Ids and times count, too."),
    ),
    examples=(
        "diff agent-coder-1 agent-coder-2",
        "diff nightly-41 nightly-42 --json | jq .first",
        "diff a b --exact              (ids and times count, too)",
    ),
)
