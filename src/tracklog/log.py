"""The public API: open a journal from Python, append events, read them, and ask questions.

Everything here is imported by `import tracklog` when it is first used: `tracklog.open`,
`tracklog.check`, `tracklog.Log`, `tracklog.Recorder`, and the classes of facts.
"""

import builtins
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Self, Unpack

import orjson

from tracklog.answers.costs import CostRow
from tracklog.answers.costs import costs as costs_of
from tracklog.answers.run_list import RunRow, RunsAsked
from tracklog.answers.runs import runs as runs_of
from tracklog.answers.search import SearchRow
from tracklog.answers.search import search as search_in
from tracklog.answers.show import ShowAnswer, show
from tracklog.answers.why import WhyAnswer
from tracklog.answers.why import why as why_of
from tracklog.dialects import checking
from tracklog.formats import export as exporting
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.intake.intake import Verdict, Verdicts
from tracklog.journal.frame import Record
from tracklog.journal.stores import Durability
from tracklog.journal.verify import Head, Report
from tracklog.journal.verify import verify as verify_home
from tracklog.model.errors import UnknownName
from tracklog.model.lines import split
from tracklog.reading.walk import Reading, walk

Event = bytes | str | Mapping[str, Any]
"""An event to append: its JSON line, or a mapping that is written as one."""


class Log:
    """A journal with its index: append events, read them, ask questions.

    Any number of threads and processes may use one journal at once. It is a context manager that
    closes itself.
    """

    def __init__(self, home: Home) -> None:
        self.home = home

    def append(self, event: Event, dialect: str | None = None) -> Verdict:
        """Append one event; on return it is as durable as the log promises.

        The verdict says `accepted` with the number of the record, `duplicate` with the number it
        had before, or `refused` with every problem. Without a dialect it is recognised.
        """
        return self.admit([event], dialect)[0]

    def admit(
        self, events: Iterable[Event], dialect: str | None = None, *, key: str | None = None
    ) -> Verdicts:
        """Append a batch: its accepted events are recorded together, or none of them.

        With a key the batch may be sent again after a failure: the same events under the same key
        get the first verdicts again, and other events are an error.
        """
        return self.home.intake.admit(map(_line, events), dialect, batch=key)

    def read(self, after: int = 0, run: str | None = None) -> Iterator[Record]:
        """The records after a number, in order, of all runs or of one; the lines are unchanged."""
        return self.home.journal.records(after, None if run is None else self.home.run(run))

    def walk(self, run: str | None = None) -> Iterator[Reading]:
        """The records with their events, facts and findings, and whether each counts."""
        name = None if run is None else self.home.run(run)
        return walk(lambda: self.home.journal.records(run=name), self.home.dialects)

    def runs(self, **filters: Unpack[RunsAsked]) -> list[RunRow]:
        """The runs, latest activity first; by status, agent, dialect, outcome or text."""
        self._catch_up()
        return runs_of(self.home, **filters)

    def run(self, name: str, at: int | None = None) -> ShowAnswer:
        """One run: status, outcome, agents, tools, tokens and cost, now or at a record."""
        self._catch_up()
        return show(self.home, name, at)

    def search(self, query: str, limit: int = 20) -> list[SearchRow]:
        """The records that contain all words of a query, newest first."""
        self._catch_up()
        return search_in(self.home, query, limit=limit)

    def costs(self, by: str = "run") -> list[CostRow]:
        """Tokens and money by run, agent, model or provider, most expensive first."""
        self._catch_up()
        return costs_of(self.home, by)

    def why(self, run: str, seq: int) -> WhyAnswer:
        """What led to a record, from the prompt on, and what it caused."""
        self._catch_up()
        return why_of(self.home, run, seq)

    def verify(self, anchor: Head | None = None) -> Report:
        """Check every record against the hash chain; an anchor is a head that was noted before."""
        return verify_home(self.home.path, anchor)

    def export(self, run: str, format: str) -> bytes:
        """One run in another format, such as `otel`, `atif`, `agui`, `cloudevents` or `html`."""
        self._catch_up()
        flight = exporting.flight_now(self.home, self.home.run(run))
        return b"".join(exporting.export(flight, format))

    def close(self) -> None:
        """Close the journal and its index."""
        self.home.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _catch_up(self) -> None:
        self.home.index.catch_up()


def open(  # as a file is opened
    place: str | Path, *, durability: Durability = "sync", readonly: bool = False
) -> Log:
    """Open the journal at a path or `file:` URL; it is created where there is none.

    `durability` is what an append promises on return: `sync`, `interval`, `lifecycle` or `os`.
    """
    text = str(place)
    scheme, colon, rest = text.partition(":")
    if colon and "/" not in scheme and scheme != "file":
        raise UnknownName(
            f"a log cannot be opened at {text!r}", "give a path, or a URL that begins with file:"
        )
    path = Path(rest if colon and scheme == "file" else text)
    return Log(Home(path, durability=durability, readonly=readonly))


def check(
    lines: bytes | Iterable[Event], dialect: str | None = None
) -> builtins.list[checking.Verdict | checking.Found]:
    """Judge lines without recording them: a verdict for each, and what is surprising across them.

    Without a dialect each line is recognised.
    """
    data = lines if isinstance(lines, bytes) else b"\n".join(map(_line, lines)) + b"\n"
    dialects = registry.dialects() if dialect is None else [registry.dialect(dialect)]
    return list(checking.check(split(BytesIO(data)), dialects))


def _line(event: Event) -> bytes:
    if isinstance(event, bytes):
        return event
    return event.encode() if isinstance(event, str) else orjson.dumps(event)
