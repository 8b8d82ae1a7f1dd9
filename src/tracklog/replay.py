"""What a fold's states were at any past moment: the same steps, over the same records."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import orjson

from tracklog.check import understand
from tracklog.dialects import Dialect
from tracklog.event import Event, Finding
from tracklog.fact import Fact
from tracklog.folds import Fold, Told
from tracklog.frame import Record

S = TypeVar("S")


def replay(
    fold: Fold[S],
    records: Iterable[Record],
    dialects: Mapping[str, Dialect],
    until: int | None = None,
) -> dict[str, S]:
    """The fold's states by key, as they were when record `until` had been heard, or at the end.

    What was erased since, or is in a dialect that is not here, says nothing.
    """
    states: dict[str, S] = {}
    for record in records:
        if until is not None and record.seq > until:
            break
        for told, fact in meaning(record, dialects):
            if not isinstance(fact, fold.facts):
                continue
            try:
                key = fold.key(told, fact)
                if key is not None:
                    states[key] = fold.step(states.get(key) or fold.State(), told, fact)
            except Exception:  # noqa: BLE001, S112  # the index has it as a finding
                continue
    return states


def meaning(record: Record, dialects: Mapping[str, Dialect]) -> Iterator[tuple[Told, Fact]]:
    """The facts of a record, each with where and when it was told."""
    event = event_of(record, dialects)
    if isinstance(event, Event):
        told = told_of(record, event)
        for fact in facts_of(dialects[record.dialect], event)[0]:
            yield told, fact


def event_of(record: Record, dialects: Mapping[str, Dialect]) -> Event | Finding | None:
    """The event of a record; None when it was erased, and why when it cannot be understood."""
    if not record.line:
        return None
    dialect = dialects.get(record.dialect)
    if dialect is None:
        return Finding("unknown-dialect", f"no dialect {record.dialect!r} is here to read it")
    try:
        return understand(dialect, record.line)
    except Exception as error:  # noqa: BLE001  # one record must not stop the others
        return failure(f"the dialect {record.dialect}", error)


def facts_of(dialect: Dialect, event: Event) -> tuple[list[Fact], Finding | None]:
    """What an event means, as far as its dialect can say it, and why not further."""
    facts: list[Fact] = []
    try:
        facts += dialect.facts(event)
    except Exception as error:  # noqa: BLE001  # one record must not stop the others
        return facts, failure(f"the dialect {dialect.name}", error)
    return facts, None


def told_of(record: Record, event: Event) -> Told:
    return Told(
        record.seq,
        record.received,
        record.family,
        record.run,
        event.at,
        event.kind,
        event.id,
        event.cause,
        record.dialect,
    )


def thaw(fold: Fold[S], state: bytes) -> S:
    """A state, from the JSON that an index keeps."""
    return fold.State(**orjson.loads(state))


def failure(who: str, error: Exception) -> Finding:
    """What is found when a plug raises, though no plug may."""
    said = f"{who} failed here: {type(error).__name__}: {error}"
    return Finding("not-understood", said, "error")
