"""One record: its event, its facts, its position."""

from collections.abc import Mapping

from tracklog.dialects import Dialect, SourceRecord
from tracklog.dialects.checking import understand
from tracklog.folds import Position
from tracklog.journal.frame import Record
from tracklog.model.event import Event, Finding
from tracklog.model.fact import Fact

Dialects = Mapping[str, Dialect]
"""The dialects that can be read, by name."""


def event_or_finding(record: Record, dialects: Dialects) -> Event | Finding | None:
    """The event of a record; None when it was erased, a finding when it cannot be read."""
    if not record.line:
        return None
    dialect = dialects.get(record.dialect)
    if dialect is None:
        return Finding("unknown-dialect", f"no dialect {record.dialect!r} is here to read it")
    try:
        return understand(dialect, record.line)
    except Exception as error:  # noqa: BLE001  # one record must not stop the others
        return failure(f"the dialect {record.dialect}", error)


def event_of(record: Record, dialects: Dialects) -> Event | None:
    """The event of a record; None when it was erased or cannot be read."""
    event = event_or_finding(record, dialects)
    return event if isinstance(event, Event) else None


def facts_of(dialect: Dialect, event: Event) -> tuple[list[Fact], Finding | None]:
    """The facts of an event, up to the one at which its dialect failed, and that failure."""
    facts: list[Fact] = []
    try:
        facts += dialect.facts(event)
    except Exception as error:  # noqa: BLE001  # one record must not stop the others
        return facts, failure(f"the dialect {dialect.name}", error)
    return facts, None


def source_of(dialect: Dialect, event: Event) -> SourceRecord | None:
    """The record of a foreign source that an event was made from, where its dialect says so."""
    try:
        return None if dialect.source is None else dialect.source(event)
    except Exception:  # noqa: BLE001  # a source that cannot be read is none
        return None


def names_of(dialect: Dialect, event: Event) -> tuple[str, ...]:
    """The names by which other events may refer to an event."""
    try:
        return tuple(name for name in dialect.names(event) if isinstance(name, str))
    except Exception:  # noqa: BLE001  # an event without a name cannot be referred to
        return ()


def position_of(record: Record, event: Event) -> Position:
    """The position of an event in the journal, in its run and in time."""
    writer, is_read = _origin(event.body.get("origin"))
    return Position(
        record.seq,
        record.received,
        record.family,
        record.run,
        event.at,
        event.kind,
        event.id,
        event.cause,
        record.dialect,
        False,
        writer,
        is_read,
        event.body.get("synthetic_id") is True,
    )


def _origin(origin: object) -> tuple[str, bool]:
    """The writer of an imported line, and whether it was read from a file."""
    if not isinstance(origin, dict):
        return "", False
    writer = origin.get("writer")
    return writer if isinstance(writer, str) else "", "path" in origin and "mapping" in origin


def failure(who: str, error: Exception) -> Finding:
    """The finding for a plug that raised, though no plug may."""
    message = f"{who} failed here: {type(error).__name__}: {error}"
    return Finding("not-understood", message, "error")
