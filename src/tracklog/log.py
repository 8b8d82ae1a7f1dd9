"""The public API: open a journal from Python, append events, read them, and ask questions.

Everything here is imported by `import tracklog` when it is first used. A program that only reads
needs `tracklog.open`, and one that writes needs `Log.append`. A program that runs agents (a host)
also finds here: leases, a folder for its files, transcripts and tapes. The questions of the command
line are methods of `Log` that return typed answers.
"""

import builtins
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import orjson

from tracklog.dialects import checking
from tracklog.dialects import tracklog as native
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.intake.verdicts import Verdict, Verdicts
from tracklog.journal import disk
from tracklog.journal.frame import Record, Run, stamp
from tracklog.journal.leases import Leases, lease
from tracklog.journal.stores import Durability
from tracklog.model.errors import NotAppended
from tracklog.model.event import Event
from tracklog.model.fact import Fact
from tracklog.model.lines import split, without_half_surrogates
from tracklog.reading.walk import Reading, walk

if TYPE_CHECKING:
    from tracklog.answers.costs import CostRow
    from tracklog.answers.run_list import RunRow
    from tracklog.answers.run_params import RunsAsked
    from tracklog.answers.search import SearchRow
    from tracklog.answers.show import ShowAnswer
    from tracklog.answers.why import WhyAnswer
    from tracklog.journal.merkle import Head
    from tracklog.journal.verify import Report
    from tracklog.recording.tape import RecordedAnswer
    from tracklog.recording.transcript.views import TranscriptRun

NewEvent = bytes | str | Mapping[str, Any]
"""An event to append: its JSON line, or a mapping that is written as one."""


class Log:
    """A journal with its index: append events, read them, ask questions.

    Any number of threads and processes may use one journal at once. In a `with` block the log is
    closed at the end. Where a method takes a run, give any name by which the run can be found, or
    the pair of its family and its id.
    """

    def __init__(self, home: Home) -> None:
        self.home = home

    @property
    def place(self) -> str:
        """The path at which the journal was opened, as `--home` takes it."""
        return str(self.home.path)

    @property
    def durability(self) -> Durability:
        """What an append promises on return: `sync`, `interval`, `lifecycle` or `os`."""
        durability: Durability = self.home.store.durability
        return durability

    def clock(self) -> float:
        """The time of the journal's clock, in seconds since 1970."""
        return self.home.clock()

    def now(self) -> str:
        """The time of the journal's clock, as text, in the form that records use."""
        return stamp(self.clock())

    def append(self, event: NewEvent, dialect: str | None = None) -> Verdict:
        """Append one event; on return it is as durable as the log promises.

        The verdict is `accepted` with the number of the record, `duplicate` with the number that the
        event has already, or `refused` with every problem. Without `dialect` it is recognised.
        """
        return self.admit([event], dialect)[0]

    def admit(
        self, events: Iterable[NewEvent], dialect: str | None = None, *, key: str | None = None
    ) -> Verdicts:
        """Append a batch: its accepted events are recorded together, or none of them.

        With a key the batch may be sent again after a failure: the same events under the same key
        get the first verdicts again, and other events are an error.
        """
        return self.home.intake.admit(map(_line, events), dialect, batch=key)

    def append_fact(self, run: Run, fact: Fact, *, writer: str = "api") -> int:
        """Append a fact for which the run's own dialect has no event; return the record's number."""
        verdict = self.append(self.fact_line(run, fact, writer=writer), native.dialect.name)
        if verdict.seq is None:
            why = "; ".join(problem.message for problem in verdict.problems)
            what = getattr(fact, "label", None) or type(fact).__name__
            raise NotAppended(f"{what} was not recorded: {why}", "see `tracklog doctor`")
        return verdict.seq

    def fact_line(
        self, run: Run, fact: Fact, *, writer: str = "api", at: str | None = None
    ) -> bytes:
        """A fact as an event of tracklog's own dialect, to be appended in a batch with others."""
        return self.home.fact_line(run, fact, writer=writer, at=at)

    def admit_transcript(self, path: Path, after: int = 0) -> int:
        """Append the complete lines of a recorder's transcript that begin at the offset `after`.

        Returns the offset at which to continue when the file has grown.
        """
        from tracklog.formats.exec import admit  # noqa: PLC0415  # only for hosts

        return admit(self.home, path, after)

    @property
    def last(self) -> int:
        """The number of the last record; 0 when there is none."""
        return self.home.journal.last

    def read(
        self, after: int = 0, run: str | Run | None = None, through: int | None = None
    ) -> Iterator[Record]:
        """The records after a number, in order, of all runs or of one; the lines are unchanged.

        `through` is the last number that is read; without it, all records are read.
        """
        return self.home.journal.records(after, self._run(run), through)

    def wait(self, after: int, seconds: float | None = None) -> bool:
        """Wait until there is a record after a number; False if none came within `seconds`."""
        return self.home.journal.wait(after, seconds)

    def tail(
        self,
        after: int = 0,
        run: str | Run | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[Record]:
        """The records after a number, and then each new record, until `stop` returns true.

        `stop` is called about twice a second while nothing comes.
        """
        return self.home.journal.follow(after, self._run(run), stop or (lambda: False))

    def walk(self, run: str | Run | None = None) -> Iterator[Reading]:
        """The records with their events, facts and findings, and whether each counts."""
        key = self._run(run)
        return walk(lambda: self.home.journal.records(run=key), self.home.dialects)

    def event(self, record: Record) -> Event | None:
        """The event of a record; None when it was erased, or its dialect is not installed."""
        return self.home.event(record)

    def facts_in(self, record: Record) -> Sequence[Fact]:
        """The facts of a record by itself; `walk` also says whether the record counts."""
        return self.home.facts_in(record)

    def find(self, name: str) -> Run:
        """The family and the id of a run.

        The name is `family:id`, an id, or a name that another system has for the run. The beginning
        of a name is enough if only one run has it. Otherwise `NoSuchRun` is raised.
        """
        return self.home.run(name)

    def transcript(self, run: str | Run) -> "TranscriptRun":
        """A run that a recorder wrote, step by step, from the journal."""
        from tracklog.recording.transcript.views import run_of  # noqa: PLC0415  # only for hosts

        key = self.find(run) if isinstance(run, str) else run
        return run_of(key[1], self.read(run=key))

    def recorded_answers(self, run: str | Run) -> "list[RecordedAnswer]":
        """What models and tools answered in a run of any dialect, to be served from a `Tape`.

        An answer of a model is used for the next question to any model; an answer of a tool, for the next call of that tool.
        """
        from tracklog.recording.tape import for_any_lane, recorded_in  # noqa: PLC0415  # hosts

        key = self.find(run) if isinstance(run, str) else run
        return list(for_any_lane(recorded_in(self.home, key)))

    def lease(self, name: str | Run, wait: float | None = 0.0) -> AbstractContextManager[bool]:
        """Hold a named lock over all processes while a block runs; the value says if it was taken.

        `wait` is how many seconds to wait for another holder; None is as long as it takes. A
        process that ends, however it ends, holds no lease.
        """
        return lease(self.leases(), name, wait)

    def leases(self) -> Leases:
        """A holder of many leases, for a host that takes and releases them as runs come and go."""
        return self.home.storage.leases()

    def folder(self, name: str = "") -> Path:
        """A folder for a host's own files, such as a cache, private to this user and machine.

        It is beside the journal and is created when it is missing. Record as an event what must not
        be lost.
        """
        path = self.home.path / "hosts" / name
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def runs(self, **filters: "Unpack[RunsAsked]") -> "list[RunRow]":
        """The runs, latest activity first; by status, agent, dialect, outcome or text."""
        from tracklog.answers.runs import runs  # noqa: PLC0415  # each answer when it is asked

        self._catch_up()
        return runs(self.home, **filters)

    def run(self, name: str, at: int | None = None) -> "ShowAnswer":
        """One run: status, outcome, agents, tools, tokens and cost, now or at a record."""
        from tracklog.answers.show import show  # noqa: PLC0415

        self._catch_up()
        return show(self.home, name, at)

    def search(self, query: str, limit: int = 20) -> "list[SearchRow]":
        """The records that contain all words of a query, newest first."""
        from tracklog.answers.search import search  # noqa: PLC0415

        self._catch_up()
        return search(self.home, query, limit=limit)

    def costs(self, by: str = "run") -> "list[CostRow]":
        """Tokens and money by run, project, agent, model, provider or day, most expensive first."""
        from tracklog.answers.costs import costs  # noqa: PLC0415

        self._catch_up()
        return costs(self.home, by, newest=sys.maxsize, limit=sys.maxsize)

    def why(self, run: str, seq: int) -> "WhyAnswer":
        """What led to a record, from the prompt on, and what it caused."""
        from tracklog.answers.why import why  # noqa: PLC0415

        self._catch_up()
        return why(self.home, run, seq)

    def verify(self, anchor: "Head | None" = None) -> "Report":
        """Check every record against the hash chain; an anchor is a head that was noted before."""
        return self.home.storage.verify(anchor)

    def export(self, run: str, format: str) -> bytes:
        """One run in another format, such as `otel`, `atif`, `agui`, `cloudevents` or `html`."""
        from tracklog.formats import export  # noqa: PLC0415

        self._catch_up()
        return b"".join(export.export(export.export_run_now(self.home, self.find(run)), format))

    def close(self) -> None:
        """Close the journal and its index."""
        self.home.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _run(self, run: str | Run | None) -> Run | None:
        return self.find(run) if isinstance(run, str) else run

    def _catch_up(self) -> None:
        self.home.index.catch_up()


def open(  # as a file is opened
    place: str | Path, *, durability: Durability = "sync", readonly: bool = False
) -> Log:
    """Open the journal at a path or URL, such as `file:/var/lib/tracklog`; it is created where
    there is none. `memory:` is a journal that ends with its `Log`.

    `durability` is what an append promises on return: `sync`, `interval`, `lifecycle` or `os`.
    """
    return Log(Home(place, durability=durability, readonly=readonly))


def check(
    lines: bytes | Iterable[NewEvent], dialect: str | None = None
) -> builtins.list[checking.LineVerdict | checking.LocatedFinding]:
    """Check lines without recording them: a verdict for each line, and the findings about all of them.

    Without a dialect, the dialect of each line is recognised.
    """
    data = lines if isinstance(lines, bytes) else b"\n".join(map(_line, lines)) + b"\n"
    dialects = registry.dialects() if dialect is None else [registry.dialect(dialect)]
    return list(checking.check(split(BytesIO(data)), dialects))


def body_of(record: Record) -> dict[str, Any]:
    """The line of a record as a JSON object, unchanged but for text that no UTF-8 can hold.

    `Log.event` has it as the dialect understands it.
    """
    body: dict[str, Any]
    try:
        body = orjson.loads(record.line)
    except orjson.JSONDecodeError:
        body = orjson.loads(without_half_surrogates(record.line))
    return body


def write_file(path: Path, content: bytes) -> None:
    """Write a file that only this user may read: complete and on disk on return, or unchanged."""
    disk.write_file(disk.Disk(), path, content)


def _line(event: NewEvent) -> bytes:
    if isinstance(event, bytes):
        return event
    return event.encode() if isinstance(event, str) else orjson.dumps(event)
