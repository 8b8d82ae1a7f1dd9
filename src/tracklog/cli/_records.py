"""Print records: a row for a person, the stored line, or an object for a program."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

import click

from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    import orjson

    from tracklog.home.home import Home
    from tracklog.journal.frame import Record

WIDE = 110
"""The width from which a row has all its columns; a pipe always has."""
MOST = 400


def printer(
    home: "Home", *, raw: bool, as_json: bool, one_run: bool = False
) -> "Callable[[Record], None]":
    """A function that prints a record in the requested form."""
    if raw:
        return _put_line
    if as_json:
        return lambda record: terminal.put_json(_object(record))
    width = terminal.width()
    return lambda record: click.echo(_row(record, home, width, one_run=one_run))


def _put_line(record: "Record") -> None:
    if record.line:
        terminal.put_bytes(record.line + b"\n")


class _RecordRow(TypedDict, total=False):
    """A record as JSON."""

    seq: int
    received: str
    dialect: str
    family: str
    run: str
    event: "orjson.Fragment | None"
    """None when the record was erased or damaged."""
    damaged: bool


def _object(record: "Record") -> _RecordRow:
    """The record as JSON; its line is included unchanged, unless it is no JSON any more."""
    import orjson

    from tracklog.model.lines import without_half_surrogates

    head: _RecordRow = {"seq": record.seq, "received": record.received, "dialect": record.dialect}
    head["family"], head["run"] = record.family, record.run
    if not record.line:
        return {**head, "event": None}
    try:
        orjson.loads(without_half_surrogates(record.line))
    except orjson.JSONDecodeError:
        return {**head, "event": None, "damaged": True}
    return {**head, "event": orjson.Fragment(record.line)}


def _row(record: "Record", home: "Home", width: int | None, *, one_run: bool) -> str:
    """A record on one line; on a terminal it is cut to the width."""
    narrow = width is not None and width < WIDE
    kind, at, text, look = _words(record, home)
    time = terminal.time_text(at, record.received)
    head = f"{record.seq:>{6 if narrow else 8}}  {time[5:] if narrow else time}  "
    if not (narrow and one_run):
        run = f"{terminal.printable(record.run):<20}"  # complete, where there is room
        run = run if width is None else terminal.fitted(record.run, 12 if narrow else 20)
        head += f"{click.style(run, fg='cyan')}  "
    head += f"{click.style(f'{terminal.printable(kind):<{18 if narrow else 24}}', **look)} "
    room = MOST if width is None else width - terminal.cells(click.unstyle(head))
    return head + terminal.fitted(text, max(room, 0)).rstrip()


def _words(record: "Record", home: "Home") -> tuple[str, str | None, str, terminal.Style]:
    """The kind of a record, its own time, a short text, and the style of the kind."""
    from tracklog.answers.phrases import summary
    from tracklog.folds import text_of
    from tracklog.reading.walk import read_alone

    if record.erased is not None:
        return "erased", None, record.erased.reason, {"fg": "red"}
    if record.dialect not in home.dialects:
        return record.dialect, None, "the dialect of this record is not installed", {"fg": "yellow"}
    reading = read_alone(record, home.dialects)
    event, facts = reading.event, reading.marks or reading.facts
    if event is None:
        return "damaged", None, "`tracklog verify` shows what was changed", {"fg": "red"}
    who = next((text_of(fact.agent) for fact in facts if fact.agent is not None), event.actor)
    text = ": ".join(filter(None, (who, summary(facts))))
    return event.kind, event.at, text, {"bold": True}
