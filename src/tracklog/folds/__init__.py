"""One question per file: a pure function from a state and a fact to a state.

To write another: a file here named after its question, with a `State` (a dataclass of JSON values,
all with defaults), a `step`, and at its end `fold = Fold(...)`.
If the question is answered from many states, its file also has a pure `answer(...)`.
No fold knows a dialect, reads a clock or raises: age and "lost" are computed when asked, from `now`.
The folder is the registry; an outside package offers its `Fold` under `tracklog.folds`.
What several folds need to agree on stands here: keys, amounts, times, the joining of tool calls.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import orjson

from tracklog.model.fact import Decided, Fact, Noted, blob_of
from tracklog.model.own_notes import OWN_FAMILY, OWN_LABELS, OWN_RUNS

if TYPE_CHECKING:
    from tracklog.folds._cells import Cells

S = TypeVar("S")


class Position(NamedTuple):
    """The position of a fact: its record, its run, its time, and how it came here."""

    seq: int
    received: str
    """When the journal numbered it: UTC, three fraction digits."""
    family: str
    run: str
    at: str | None
    """The emitter's clock, as it spelled it; None where it has none."""
    kind: str
    id: str | None
    cause: str | None
    dialect: str
    """For display only: no fold depends on it."""
    withdrawn: bool = False
    """A later record withdrew it: shown, and not counted as a message."""
    writer: str = ""
    """The writer of a line that was made from a record of another program, where it is named."""
    read: bool = False
    """It was read from a file, so the time of receipt is not the time of the event."""
    unnamed: bool = False
    """The source has no id for the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold(Generic[S]):
    """The shape of a fold."""

    name: str
    about: str
    """The question that it answers."""
    State: type[S]
    """A dataclass of JSON values, all with defaults; `State()` is the state before any fact."""
    facts: tuple[type[Fact], ...]
    """The facts that it uses."""
    key: Callable[[Position, Any], str | None]
    """The key of the state that a fact belongs to, by `run_key` or `row_key`; None to ignore the fact.
    A state belongs to one run, so that a run can be folded again when an importer is improved."""
    step: Callable[[S, Position, Any], S]
    """Returns the state after the fact; it may change the state that it gets. Sums are integers, so
    that their order does not matter."""
    listed: bool = False
    """Whether answers read the states that changed last, so that the index stores their order."""
    rewound: bool = False
    """Whether past states of a run are stored now and then, so that `show --at` is fast."""
    sums: Callable[[str, S], "Sums"] | None = None
    """From the key of a state and the state, what it adds to rows that all runs share, by the key of
    the row. The index stores the sums, so that a question about many runs reads few rows."""
    ranked: str = ""
    """An amount of these rows: the index stores their order by it, so that the largest are read first."""
    shared: bool = False
    """Whether answers read only the rows that several runs add to."""
    cells: Callable[[S], "Cells"] | None = None
    """What a state adds to the counts of each minute, over all runs; the index stores the sums."""


Sums = Mapping[str, Mapping[str, int]]
"""Integers by name, in rows by key."""


def summed(every: Iterable[Sums]) -> dict[str, dict[str, int]]:
    """The sum of what many states add; what comes to nothing is left out."""
    rows: dict[str, dict[str, int]] = {}
    for sums in every:
        for key, amounts in sums.items():
            row = rows.get(key)
            if row is None:
                rows[key] = dict(amounts)
                continue
            for name, amount in amounts.items():
                row[name] = row.get(name, 0) + amount
    return {key: counts for key, row in rows.items() if (counts := _nonzero(row))}


def less(sums: Sums) -> Sums:
    """What has to be added so that nothing is left of these sums."""
    return {
        key: {name: -amount for name, amount in amounts.items()} for key, amounts in sums.items()
    }


def _nonzero(row: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in row.items() if amount}


def run_key(position: Position) -> str:
    """The key of a run, `family:run`. A family has no colon in its name, so `run_of` can split it."""
    return f"{position.family}:{position.run}"


def run_of(key: str) -> tuple[str, str]:
    """The family and the run of a `run_key`."""
    family, _, run = key.partition(":")
    return family, run


def is_own_note(position: Position, fact: Fact) -> bool:
    """Whether tracklog notes what was done to itself: this is part of the record, and of no run."""
    return type(fact) is Noted and position.run in OWN_RUNS and position.family == OWN_FAMILY


def row_key(position: Position, *names: str) -> str:
    """The key of one row among many of a run; the names are separated by `MARK`."""
    key = MARK.join((f"{position.family}:{position.run}", *names))
    if (
        key.count(MARK) == len(names) and "\x1b" not in key
    ):  # the usual case: no name contains `MARK`
        return key
    return key if _plain(position, names) else _masked(position, names)


def rows_of(family: str, run: str) -> str:
    """The prefix of the keys of all rows of a run, and of no other run."""
    return mask(f"{family}:{run}") + MARK


MARK = "\x1f"
LOST_AFTER = 900.0
"""Seconds without a sign of life after which a working run counts as lost, by default."""
MINUTE = 60_000
"""In milliseconds."""


def _plain(position: Position, names: tuple[str, ...]) -> bool:
    # The last name may hold anything: nothing follows that it could be mistaken for.
    return not any(MARK in name or "\x1b" in name for name in (position.run, *names[:-1]))


def _masked(position: Position, names: tuple[str, ...]) -> str:
    return MARK.join([mask(run_key(position)), *map(mask, names[:-1]), *names[-1:]])


def mask(name: str) -> str:
    """A name that has no `MARK` in it, so that another name can follow."""
    return name.replace("\x1b", "\x1b0").replace(MARK, "\x1b1")


def name_text(value: Any) -> str | None:
    """A name as text, whatever type it has; None stays None."""
    return value if value is None or isinstance(value, str) else text_of(value)


DEEPEST = 500
"""A value that is nested deeper has no text: not every interpreter could write it."""


def text_of(value: Any) -> str:
    """Any JSON value as text: a string as it is, else its JSON with sorted keys."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # an integer of more than 64 bits, or deeper than orjson goes
        pass
    if _deeper(value, DEEPEST):
        return f"({type(value).__name__})"
    try:
        return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return f"({type(value).__name__})"


def _deeper(value: Any, most: int) -> bool:
    """Whether a value is nested deeper than this, whatever the interpreter can recurse into."""
    level = [value]
    for _ in range(most):
        lists = [each for each in level if isinstance(each, list | tuple)]
        objects = [each.values() for each in level if isinstance(each, Mapping)]
        level = [each for inner in (*lists, *objects) for each in inner]
        if not level:
            return False
    return True


def short(value: Any, most: int = 500) -> str | None:
    """The beginning of a text, for lists; the journal has all of it."""
    text = name_text(value)
    return text if text is None or len(text) <= most else text[: most - 1] + "…"


def text_in(blocks: Any, *, typed: bool = False) -> str:
    """The words of content blocks, one paragraph each; only what a person typed, if asked."""
    parts: list[Any] = []
    for block in blocks if isinstance(blocks, tuple | list) else ():
        if isinstance(block, Mapping) and not (typed and block.get("injected") is True):
            parts += [block.get(key) for key in ("text", "thinking", "command", "chunk")]
    return "\n\n".join(text for text in map(unlifted, parts) if isinstance(text, str) and text)


def unlifted(value: Any) -> Any:
    """A value as it is; of one that was lifted out, its beginning, its kind and its size."""
    if (blob := blob_of(value)) is None:
        return value
    size = number(blob.get("bytes"))
    kind = name_text(blob.get("media_type")) or "bytes"
    lifted = kind if size is None else f"{size:,} bytes of {kind}"
    begun = name_text(blob.get("preview"))
    return f"{begun}… ({lifted})" if begun else f"({lifted})"


def number(value: Any) -> float | None:
    """A finite number as it was given; None for anything else."""
    if type(value) not in _NUMBERS:
        return None
    return value if -MOST <= value <= MOST else None


_NUMBERS = (int, float)
MOST = 2**53
"""Greater numbers are not exact in JavaScript, and no count is that large."""


def integer(value: Any, scale: int = 1) -> int | None:
    """An amount in integer units, `scale` to the one; None for what is no amount."""
    given = number(value)
    return None if given is None or given < 0 else min(round(given * scale), MOST)


def model_name(name: str | None) -> str | None:
    """A model's name; None for the placeholders that stand for no model, such as `<synthetic>`."""
    model = name_text(name)
    return None if model is None or model[:1] in ("", "<") else model


def add(one: int, other: int | None) -> int:
    """A sum that stays a JSON integer, in whatever order it is made."""
    return min(one + (other or 0), MOST)


@lru_cache(maxsize=4096)
def epoch_ms(spelled: str | None) -> int | None:
    """A time in milliseconds since 1970; None where there is none that can be read."""
    try:
        at = datetime.fromisoformat(spelled or "")
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


READ = ("reconstructed", "inferred")
"""The fidelity of facts that were read from a file, which may be old."""


def is_read(position: Position, fact: Fact) -> bool:
    """Whether a fact was read from a file, so that its time of receipt says nothing."""
    return position.read or fact.fidelity in READ


OWN_KEYS = frozenset(f"{OWN_FAMILY}:{run}" for run in OWN_RUNS)
"""Their keys; the index has no state of a run under them."""

NO_SIGN = OWN_LABELS
"""Notes that tracklog itself adds to a run: they do not show that the run is active."""


def last_sign(before: str, position: Position, fact: Fact) -> str:
    """The time of the last activity; "" as long as that is not known.

    For a live event that is the time of receipt. For an event from a file it is the event's own
    time: a file without times may be of any age.
    """
    if isinstance(fact, Noted) and fact.label in NO_SIGN:
        return before
    if not is_read(position, fact):
        return position.received
    sign, received = position.at, position.received
    at, arrived = epoch_ms(sign), epoch_ms(received)
    if at is None and not position.read and not before:
        return received
    if sign is None or at is None or fact.copied is True:
        return before
    if arrived is not None and at > arrived:  # a clock that is ahead
        sign, at = received, arrived
    known = epoch_ms(before)
    return before if known is not None and known > at else sign


LATE = 3600.0
"""Seconds after which an event that only now arrives, as by an import, is late."""


def when(position: Position) -> int:
    """The time of an event: by the emitter's clock, else the time of receipt."""
    at = epoch_ms(position.at)
    return at if at is not None else epoch_ms(position.received) or 0


def silence(received: str, now: str) -> float:
    """The seconds between the last record and `now`; 0 when either cannot be read."""
    arrived, asked = epoch_ms(received), epoch_ms(now)
    return 0.0 if arrived is None or asked is None else max(0, asked - arrived) / 1000


RANKS = {"observed": 0, "reported": 1, "reconstructed": 2, "inferred": 3}


def rank(fact: Fact) -> int:
    """How directly a fact was observed, 0 first: of two copies the lower rank counts."""
    fidelity = fact.fidelity
    return RANKS.get(fidelity if type(fidelity) is str else text_of(fidelity), len(RANKS))


def audit_result(fact: Decided) -> str | None:
    """The result of an audit; None for a decision that is no audit."""
    if isinstance(fact.passed, bool):
        return "pass" if fact.passed else "fail"
    return "warn" if fact.verdict == "warn" else None


UNREPORTED = len(RANKS) + 1


def end_rank(far: int, ok: bool | None) -> tuple[bool, int, int]:
    """The rank of a report of a call's end; of several the lowest counts, in any order of arrival.

    Of reports that nobody observed, one that knows how the call went counts before one that does
    not: a model gets a result without knowing whether the tool failed. Of those that are equally
    far, a failure counts first.
    """
    return far > 0 and ok is None, far, 0 if not far or ok is False else 1
