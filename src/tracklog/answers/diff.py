"""Two runs side by side: where they part, what each did instead, and what it took.

A step is what a run said, called, got back, decided, asked or came to, without its ids and times.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from tracklog.answers import Question, flag, now_of, text
from tracklog.answers.phrases import phrase
from tracklog.answers.related import put_own_spends
from tracklog.folds import Position, call_name, run_of, said_in, short, text_of
from tracklog.folds import runs as runs_fold
from tracklog.home.home import Home
from tracklog.index.gc_paused import gc_paused
from tracklog.journal.frame import Run
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Linked,
    Moved,
    Returned,
    Said,
)
from tracklog.reading.record import Dialects
from tracklog.reading.replay import picked
from tracklog.reading.walk import Reading, Records, accumulate, facts_in

MOST_EDITS = 128
"""Edits that are looked for one by one between two anchors; beyond them, what is rare is matched."""
MOST_CHANGES = 100
"""Changes that are told of one value; of more, the rest is counted."""
SIZES = (
    "seconds", "steps", "tool_calls", "tool_failures", "tokens_in", "tokens_out", "tokens_cached",
    "tokens", "cost_usd",
)  # fmt: skip  # one row
"""What is compared of the runs as a whole."""

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_HEX = r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b"
_TAGGED = r"\b[a-z]{2,12}_(?=[A-Za-z0-9]*\d)[A-Za-z0-9]{12,}\b"
_CLOCK = r"\b1[0-9]{9}(?:[0-9]{3}){0,2}\b"
_LONG = r"(?=[0-9A-Za-z_-]{9})"  # each of them begins so, and hardly anything else does
_NAMES = re.compile(f"{_LONG}(?:(?P<time>{_TIME}|{_CLOCK})|(?P<id>{_UUID}|{_HEX}|{_TAGGED}))")
"""What differs between any two runs and means nothing: times, and ids that a machine made."""
_DIGIT = re.compile(r"\d")
"""Each of them has one: a UUID its version."""

Kind = Literal["same", "changed", "only_a", "only_b"]


class Step(NamedTuple):
    """What a run did, in one place."""

    seq: int
    fact: str
    agent: str | None
    shape: bytes
    """The hash of who did what sort of thing, whatever it said."""
    whole: bytes
    """The hash of all of it, ids and times apart."""
    nth: int
    """Its place among the facts of its record."""


@dataclass(frozen=True, slots=True)
class Change:
    """One place of a value that is not what it was; a side that has no such place is None."""

    pointer: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Row:
    """One step of one run, of the other, or of both."""

    kind: Kind
    a: dict[str, Any] | None
    b: dict[str, Any] | None
    changes: list[Change] = field(default_factory=list)
    more: int = 0
    """Changes that are not listed."""


@dataclass(frozen=True, slots=True)
class Diff:
    """Two runs, aligned."""

    a: str
    b: str
    same: bool
    counts: dict[str, int]
    first: Row | None
    """Where they part: all before it is the same in both."""
    at: int
    """The steps that both have in common from their beginning on."""
    rows: list[Row]
    """All that is not the same, in order."""
    deltas: dict[str, dict[str, Any]]
    """What each took as a whole, and by how much the second took more."""


def diff(home: Home, a: str, b: str, now: str, *, exact: bool = False) -> Diff:
    """The runs of two keys, step by step; with `exact`, ids and times count too."""
    with gc_paused():
        return _diff(home, a, b, now, exact=exact)


def _diff(home: Home, a: str, b: str, now: str, *, exact: bool) -> Diff:
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
    counts = dict.fromkeys(("same", "changed", "only_a", "only_b"), 0)
    for row in rows:
        counts[row.kind] += 1
    counts["same"] = len(matched) - len(rows)
    wholes = [runs_fold.row(home.index.state("runs", key), now) for key in (a, b)]
    put_own_spends(home.index, wholes)
    deltas = _deltas(*wholes)
    return Diff(a, b, not rows, counts, rows[0] if rows else None, at, rows, deltas)


def _steps_of(home: Home, run: Run, *, exact: bool) -> list[Step]:
    return steps(lambda: home.journal.records(run=run), home.dialects, exact=exact)


def steps(records: Records, dialects: Dialects, *, exact: bool = False) -> list[Step]:
    """What a run did, in order; a call or a message that is told twice is one step."""
    return accumulate(records, dialects, lambda: _Steps(exact=exact), _Steps.add).found


class _Steps:
    """The steps of a run, as its records are read."""

    def __init__(self, *, exact: bool) -> None:
        self.exact = exact
        self.found: list[Step] = []
        self.seen: set[tuple[Any, ...]] = set()

    def add(self, reading: Reading) -> None:
        position = reading.position
        if position is None or not reading.stands:
            return
        own = text_of([position.run])[2:-2]
        for nth, fact in enumerate(reading.facts):
            if fact.copied is True or _known(self.seen, position, fact):
                continue
            value = _value(fact)
            if value is None:
                continue
            agent = None if fact.agent is None else text_of(fact.agent)
            said = text_of([type(fact).__name__, fact.agent, *_sort(fact)]), text_of([value])
            shape, whole = said if self.exact else (_nameless(each, own) for each in said)
            hashes = _hash(shape), _hash(shape + whole)
            self.found.append(Step(position.seq, type(fact).__name__, agent, *hashes, nth))


def _known(seen: set[tuple[Any, ...]], told: Position, fact: Fact) -> bool:
    """Whether a call, its return or a message was told before, by any of its ids."""
    ids: list[tuple[Any, ...]] = []
    if isinstance(fact, Called | Returned):
        ids.append((type(fact), call_name(told, fact)))
        if isinstance(fact, Called) and fact.provider_call_id is not None:
            ids.append((Called, f"={text_of(fact.provider_call_id)}"))
    elif isinstance(fact, Said) and fact.message_id is not None:
        ids.append((Said, fact.message_id, fact.role, said_in(fact.blocks)))
    known = any(id in seen for id in ids)
    seen.update(ids)
    return known


def _sort(fact: Fact) -> tuple[Any, ...]:
    """What sort of thing it is: two steps of one sort can be one step that changed."""
    match fact:
        case Called() | Returned():
            return (fact.tool,)
        case Said():
            return (fact.role,)
        case Began() | Ended():
            return (fact.what, fact.step if fact.what == "step" else None)
        case Decided():
            return (fact.by, fact.name)
        case Linked():
            return (fact.kind, fact.from_, fact.to)
    return ()


def _value(fact: Fact) -> Any:
    """What a step says, as JSON; None for what is no step."""
    match fact:
        case Said():
            return [dict(block) for block in fact.blocks]
        case Called():
            return {"tool": fact.tool, "input": fact.input}
        case Returned():
            return {"ok": fact.ok, "output": fact.output, "error": fact.error}
        case Decided():
            return {"verdict": fact.verdict, "score": fact.score, "passed": fact.passed}
        case Asked():
            return {"text": fact.text, "options": fact.options}
        case Answered():
            return {"answer": fact.answer}
        case Moved():
            return {"from": fact.from_, "to": fact.to, "reason": fact.reason}
        case Began():
            return {"task": fact.task, "model": fact.model}
        case Ended():
            return {"outcome": fact.outcome, "passed": fact.passed, "error": fact.error}
        case Linked(kind="handoff" | "message"):
            return {"from": fact.from_, "to": fact.to, "reason": fact.reason}
        case Linked(kind="sub-run") if fact.child is not None:
            return {}
    return None


class _Inside(NamedTuple):
    """What a step says, read again from its record."""

    words: str
    raw: Any
    clean: Any
    """As it is compared."""


_Looked = Mapping[tuple[int, int], _Inside]
"""By record and place in it."""


def _inside(
    home: Home,
    run: Run,
    steps: Sequence[Step],
    apart: Iterable[int | None],
    changed: Collection[int | None],
    *,
    exact: bool,
) -> _Looked:
    """What the steps at these places say; of those that changed, what it is compared by, too."""
    wanted = {_place(steps[n]): n in changed for n in apart if n is not None}
    found: dict[tuple[int, int], _Inside] = {}
    for record in picked(home.journal, run, {seq for seq, _ in wanted}):
        for nth, fact in enumerate(facts_in(record, home.dialects)):
            place = (record.seq, nth)
            if place in wanted:
                told, value, clean = short(phrase(fact), 300) or "", None, None
                if wanted[place]:
                    value = fact.input if isinstance(fact, Called) else _value(fact)
                    clean = value if exact else without_names(value, run[1])
                found[place] = _Inside(told, value, clean)
    return found


def without_names(value: Any, run: str = "") -> Any:
    """A JSON value in which times, ids that a machine made and the run's own name are the same."""
    if isinstance(value, str):
        return _unnamed(value, run)
    if isinstance(value, int) and not isinstance(value, bool) and value > 10**9:
        return without_names(str(value))
    if isinstance(value, Mapping):
        return {
            without_names(str(key), run): without_names(each, run) for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_names(each, run) for each in value]
    return value


def _unnamed(text: str, run: str) -> str:
    if len(run) >= 6 and run in text:
        text = text.replace(run, "<run>")
    if not _DIGIT.search(text):
        return text
    return _NAMES.sub(lambda found: f"<{found.lastgroup}>", text)


def _nameless(json: str, run: str) -> str:
    """The same of a value that was spelled out: what follows an escape begins a word there, too."""
    return _unnamed(_ESCAPE.sub(r"\g<0> ", json) if "\\" in json else json, run)


_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")


def _hash(text: str) -> bytes:
    return blake2b(text.encode(errors="replace"), digest_size=12).digest()


Pair = tuple[int | None, int | None]
"""A place in the one list, in the other, or in both."""


def compare(a: Sequence[Step], b: Sequence[Step]) -> list[Pair]:
    """The two lists as one: equal steps side by side, then those of one sort, then the rest.

    What is equal at the beginning and at the end is always matched.
    `compare(b, a)` is its mirror.
    """
    whole_a, whole_b = [step.whole for step in a], [step.whole for step in b]
    if whole_b < whole_a:  # one of the two orders is looked at, so that both say the same
        return [(i, j) for j, i in compare(b, a)]
    rows: list[Pair] = []
    done_a = done_b = 0
    for i, j in [*align(whole_a, whole_b), (len(a), len(b))]:
        rows += _between(a[done_a:i], b[done_b:j], done_a, done_b)
        if i < len(a):
            rows.append((i, j))
        done_a, done_b = i + 1, j + 1
    return rows


def _between(a: Sequence[Step], b: Sequence[Step], at_a: int, at_b: int) -> Iterator[Pair]:
    """What stands between two equal steps: steps of one sort side by side, the rest alone."""
    ends = (len(a), len(b))
    pairs = (
        [*align([step.shape for step in a], [step.shape for step in b]), ends]
        if a and b
        else [ends]
    )
    done_a = done_b = 0
    for i, j in pairs:
        yield from ((at_a + n, None) for n in range(done_a, i))
        yield from ((None, at_b + n) for n in range(done_b, j))
        if (i, j) != ends:
            yield at_a + i, at_b + j
        done_a, done_b = i + 1, j + 1


def align(a: Sequence[bytes], b: Sequence[bytes]) -> list[tuple[int, int]]:
    """Places of equal items in two lists, in order in both, in time that is nearly linear.

    The common beginning and end, then what stands once in both (patience), then a shortest edit
    while it is short, else each item with the one of the same count.
    """
    found: list[tuple[int, int]] = []
    left = [(0, len(a), 0, len(b))]
    while left:
        a1, a2, b1, b2 = left.pop()
        while a1 < a2 and b1 < b2 and a[a1] == b[b1]:
            found.append((a1, b1))
            a1, b1 = a1 + 1, b1 + 1
        while a1 < a2 and b1 < b2 and a[a2 - 1] == b[b2 - 1]:
            a2, b2 = a2 - 1, b2 - 1
            found.append((a2, b2))
        if a1 == a2 or b1 == b2:
            continue
        anchors = _anchors(a, b, a1, a2, b1, b2)
        if not anchors:
            found += _edited(a, b, a1, a2, b1, b2)
            continue
        for i, j in [*anchors, (a2, b2)]:
            left.append((a1, i, b1, j))
            a1, b1 = i, j
    return sorted(set(found))


def _anchors(
    a: Sequence[bytes], b: Sequence[bytes], a1: int, a2: int, b1: int, b2: int
) -> list[tuple[int, int]]:
    """Items that stand once in each of two stretches, in the order of both."""
    once_a, once_b = _once(a, a1, a2), _once(b, b1, b2)
    pairs = sorted((i, once_b[item]) for item, i in once_a.items() if item in once_b)
    return _rising(pairs)


def _once(items: Sequence[bytes], begin: int, end: int) -> dict[bytes, int]:
    places: dict[bytes, int] = {}
    for n in range(begin, end):
        places[items[n]] = -1 if items[n] in places else n
    return {item: n for item, n in places.items() if n >= 0}


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of some pairs that rises on both sides; they rise on the first."""
    tops: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for n, (_, j) in enumerate(pairs):
        place = bisect_left(tops, j)
        before.append(last[place - 1] if place else -1)
        tops[place : place + 1] = [j]
        last[place : place + 1] = [n]
    found: list[tuple[int, int]] = []
    n = last[-1] if last else -1
    while n >= 0:
        found.append(pairs[n])
        n = before[n]
    return found[::-1]


def _edited(
    a: Sequence[bytes], b: Sequence[bytes], a1: int, a2: int, b1: int, b2: int
) -> list[tuple[int, int]]:
    """Equal items by a shortest edit, as long as it has few edits (Myers)."""
    n, m = a2 - a1, b2 - b1
    far = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(n + m, MOST_EDITS) + 1):
        trail.append(dict(far))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and far.get(k - 1, -1) < far.get(k + 1, -1))
            x = far[k + 1] if down else far[k - 1] + 1
            y = x - k
            while x < n and y < m and a[a1 + x] == b[b1 + y]:
                x, y = x + 1, y + 1
            far[k] = x
            if x >= n and y >= m:
                return [(a1 + i, b1 + j) for i, j in _traced(trail, n, m)]
    return _by_count(a, b, a1, a2, b1, b2)


def _traced(trail: list[dict[int, int]], x: int, y: int) -> Iterator[tuple[int, int]]:
    for edits in range(len(trail) - 1, -1, -1):
        far, k = trail[edits], x - y
        down = k == -edits or (k != edits and far.get(k - 1, -1) < far.get(k + 1, -1))
        from_k = k + 1 if down else k - 1
        from_x = far.get(from_k, 0)
        from_y = from_x - from_k
        while x > from_x and y > from_y and x > 0 and y > 0:
            x, y = x - 1, y - 1
            yield x, y
        x, y = from_x, max(from_y, 0)


def _by_count(
    a: Sequence[bytes], b: Sequence[bytes], a1: int, a2: int, b1: int, b2: int
) -> list[tuple[int, int]]:
    """The first of an item with the first of the other list, the second with the second."""
    counted = dict(_numbered(b, b1, b2))
    pairs = [(i, counted[key]) for key, i in _numbered(a, a1, a2) if key in counted]
    return _rising(pairs)


def _numbered(
    items: Sequence[bytes], begin: int, end: int
) -> Iterator[tuple[tuple[bytes, int], int]]:
    counts: dict[bytes, int] = {}
    for n in range(begin, end):
        counts[items[n]] = counts.get(items[n], 0) + 1
        yield (items[n], counts[items[n]]), n


def changes(a: Any, b: Any) -> Iterator[Change]:
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
            yield Change(pointer, None if one is ABSENT else one, None if two is ABSENT else two)


ABSENT = object()


def _token(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _at(values: Sequence[Any], n: int) -> Any:
    return values[n] if n < len(values) else ABSENT


def _equal(a: Sequence[Step], b: Sequence[Step], i: int | None, j: int | None) -> bool:
    return i is not None and j is not None and a[i].whole == b[j].whole


def _row(
    a: Sequence[Step],
    b: Sequence[Step],
    i: int | None,
    j: int | None,
    inside: tuple[_Looked, _Looked],
) -> Row:
    told = _told(a, i, inside[0]), _told(b, j, inside[1])
    if i is None or j is None:
        return Row("only_b" if i is None else "only_a", *told)
    one, two = inside[0].get(_place(a[i]), NOTHING), inside[1].get(_place(b[j]), NOTHING)
    changed = changes(one.clean, two.clean)
    shown = [Change(each.pointer, *_raw(one.raw, two.raw, each)) for each in changed]
    more = max(0, len(shown) - MOST_CHANGES)
    return Row("changed", *told, shown[:MOST_CHANGES], more)


NOTHING = _Inside("", None, None)


def _place(step: Step) -> tuple[int, int]:
    return step.seq, step.nth


def _raw(a: Any, b: Any, change: Change) -> tuple[Any, Any]:
    """What stood at the place before ids and times were taken out."""
    return _look(a, change.pointer, change.a), _look(b, change.pointer, change.b)


def _look(value: Any, pointer: str, otherwise: Any) -> Any:
    try:
        for token in pointer.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            value = value[int(key)] if isinstance(value, list | tuple) else value[key]
    except (KeyError, IndexError, ValueError, TypeError):
        return otherwise  # its key was an id itself, or it is not there
    return value


def _told(steps: Sequence[Step], place: int | None, inside: _Looked) -> dict[str, Any] | None:
    if place is None:
        return None
    step = steps[place]
    return {
        "step": place + 1,
        "seq": step.seq,
        "fact": step.fact,
        "agent": step.agent,
        "words": inside.get(_place(step), NOTHING).words,
    }


def _deltas(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = {}
    for name in SIZES:
        one, two = a[name], b[name]
        if one is not None or two is not None:
            more = None if one is None or two is None else round(two - one, 9)
            found[name] = {"a": one, "b": two, "delta": more}
    return found


def asked(home: Home, a: str, b: str, exact: bool = False, *, now: str | None = None) -> Diff:
    """The difference of two runs that are named in any way."""
    one, two = (":".join(home.run(name)) for name in (a, b))
    return diff(home, one, two, now_of(home, now), exact=exact)


question = Question(
    name="diff",
    about="Compare two runs, step by step, and show where they part.",
    ask=asked,
    params=(
        text("a", "A run: its id, the beginning of it, or `family:run`.", required=True, run=True),
        text("b", "The other run.", required=True, run=True),
        flag("exact", "Ids and times count, too."),
    ),
)
