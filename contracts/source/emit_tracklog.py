"""Writes openwop, fishbowl, awf and tracklog lines: one file, standard library only, to be copied.

    from tracklog_emit import Emitter

    with Emitter.file("events.jsonl") as emitter:
        stage = emitter.bind(run="evening-1", actor="host")
        stage.fishbowl("agent.spoke", {"text": "Good evening."}, turn=1)

        coder = emitter.bind(run="r-1", agent="coder")
        coder.tracklog("Began", what="agent", task="Add /v2/health")

`bind` returns a new emitter and changes nothing; there is no global state.
Each method adds the envelope of its dialect around what it is given, and returns the event's
identity there, to be used as the cause of a later one.
The envelope is checked here; the rest is checked by `tracklog check`, or where it is recorded.
Whatever cannot be written raises; a key that is a number becomes a string, as json does it.
Python 3.11 or newer, on Linux or macOS.
"""

import atexit
import copy
import fcntl
import itertools
import json
import math
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, Self
from weakref import WeakSet

__all__ = [
    "Emitter",
    "FileSink",
    "HttpSink",
    "Invalid",
    "Problem",
    "ShortWrite",
    "Sink",
    "new_id",
]

# include settings.py
# include errors.py
# include lines.py
# include file.py
# include spool.py
# include answer.py
# include client.py
# include extension.py
# include refused.py
# include http.py
# include closing.py


AWF_TYPES = frozenset(
    {
        "run.started",
        "run.completed",
        "step.started",
        "step.completed",
        "step.call_workflow.started",
        "step.call_workflow.completed",
        "message.user",
        "message.assistant",
        "tool.call",
        "tool.result",
    }
)
FACTS = frozenset(
    {
        "Began",
        "Ended",
        "Moved",
        "Called",
        "Returned",
        "Said",
        "Decided",
        "Asked",
        "Answered",
        "Linked",
        "Spent",
        "Noted",
    }
)
ORIGIN = {"writer": "tracklog_emit", "fidelity": "observed"}


class Sink(Protocol):
    """Where lines go. An emitter calls it from one thread at a time."""

    def write(self, line: bytes, dialect: str, /) -> None:
        """Takes one line with its line end, whole, or raises."""

    def close(self) -> None: ...


class FileSink(GrowingFile):
    """A private file that only grows; see GrowingFile for durability."""

    def write(self, line: bytes, _dialect: str = "", /) -> None:
        self.append(line)


class _Tee:
    """A file, and a collector beside it."""

    def __init__(self, file: FileSink, http: HttpSink) -> None:
        self.file, self.http = file, http

    def write(self, line: bytes, dialect: str, /) -> None:
        self.file.write(line)
        self.http.write(line, dialect)

    def close(self) -> None:
        try:
            self.file.close()
        finally:
            self.http.close()


class _Shared:
    """What all emitters of one sink have in common: the sink, and the last number of each run."""

    lock = threading.RLock()
    """One for the process; re-entrant, for a signal handler that emits."""
    alive: ClassVar["WeakSet[_Shared]"] = WeakSet()

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.last: dict[str, int] = {}
        self.foreign: set[str] = set()
        self.alive.add(self)

    def number(self, run: str, first: int) -> int:
        """The next number of a run, in a process that may count it."""
        if run in self.foreign:
            hint = "bind another run, or say with bind(run=…, after=…) where to go on"
            raise Invalid(Problem("/run", f"{run} is being numbered by the parent process", hint))
        return self.last.get(run, first - 1) + 1

    @classmethod
    def renew(cls) -> None:
        # A child must not wait for a lock that another thread of its parent held.
        cls.lock = threading.RLock()
        for shared in cls.alive:
            shared.foreign |= set(shared.last)


os.register_at_fork(after_in_child=_Shared.renew)


class Emitter:
    """Writes the events of any number of runs to one sink, in any of the four dialects.

    The run, the parent run and the trace come from the environment unless they are bound.
    """

    def __init__(self, sink: Sink, environ: Mapping[str, str] | None = None) -> None:
        environ = os.environ if environ is None else environ
        self._shared = _Shared(sink)
        self.run = environ.get(RUN_ENV) or new_id()
        self.parent = environ.get(PARENT_ENV) or None
        self.traceparent = environ.get(TRACE_ENV) or None
        self._bound: dict[str, Any] = {}
        self._prepare()

    @classmethod
    def file(
        cls,
        path: "str | os.PathLike[str]",
        durability: str = "os",
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """An emitter that appends to a file, and reports to a collector if TRACKLOG_URL says so."""
        http = HttpSink.from_environment(environ)
        file = FileSink(path, durability)
        return cls(file if http is None else _Tee(file, http), environ)

    @classmethod
    def http(
        cls, url: str | None = None, *, environ: Mapping[str, str] | None = None, **options: Any
    ) -> Self:
        """An emitter that reports to the collector at `url`, or where TRACKLOG_URL says.

        The options are those of HttpSink: token, spool, deadline.
        """
        sink = (
            HttpSink(url, environ=environ, **options)
            if url
            else HttpSink.from_environment(environ, **options)
        )
        if sink is None:
            raise ValueError(f"events have nowhere to go: give a url, or set {URL_ENV}")
        return cls(sink, environ)

    def bind(
        self,
        *,
        run: str | None = None,
        parent: str | None = None,
        traceparent: str | None = None,
        after: int | None = None,
        **fields: Any,
    ) -> Self:
        """Another emitter to the same sink, with more said beforehand.

        Fields are what the methods take: actor, turn; node; path, iteration; agent, step, origin …
        `after` is the last number of a run that is continued in openwop or awf.
        """
        unknown = set(fields) - BINDABLE
        if unknown:
            raise TypeError(
                f"{min(unknown)} cannot be bound; these can: {', '.join(sorted(BINDABLE))}"
            )
        bound = copy.copy(self)
        bound.run = self.run if run is None else run
        bound.parent = self.parent if parent is None else parent
        bound.traceparent = self.traceparent if traceparent is None else traceparent
        bound._bound = {**self._bound, **fields}
        bound._prepare()
        if after is not None:
            with self._shared.lock:
                self._shared.last[bound.run] = _count(after, "/after")
                self._shared.foreign.discard(bound.run)
        return bound

    def child_env(self, run: str | None = None) -> dict[str, str]:
        """What a child process needs in its environment to name this run as its parent.

        Merge it: `subprocess.run(command, env={**os.environ, **emitter.child_env()})`.
        """
        child = {RUN_ENV: run or new_id(), PARENT_ENV: self.run}
        return {**child, TRACE_ENV: self.traceparent} if self.traceparent else child

    def close(self) -> None:
        """Closes the sink, for every emitter that is bound to it."""
        sink = self._shared.sink
        file, http = (sink.file, sink.http) if isinstance(sink, _Tee) else (sink, None)
        try:
            if isinstance(file, HttpSink):
                http = file
            else:
                with self._shared.lock:
                    file.close()
        finally:
            if http is not None:  # it has its own lock: nobody else waits while it sends
                http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fishbowl(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        actor: str | None = None,
        turn: int | None = None,
        id: str | None = None,
        at: "str | datetime | None" = None,
    ) -> str:
        """Writes a fishbowl event and returns its id."""
        if id is None:
            known = id = new_id()
        else:
            known = _escaped(id, "/id")
        who = self._actor if actor is None else _name(actor, "/actor")
        turn = self._turn if turn is None else _count(turn, "/turn")
        if who is None:
            hint = "give actor=, or bind it: an agent, the scenario, the visitor or the system"
            raise Invalid(Problem("/actor", "nobody is said to have done this", hint))
        self._write(
            f'{{"id":"{known}","run_id":{self._run},"turn":{turn},"kind":{_kind(kind)},'
            f'"actor":{who},"payload":{_object(payload, "/payload")},"created_at":{_at(at)},'
            '"schema_version":1}\n',
            "fishbowl",
        )
        return id

    def openwop(
        self,
        type: str,
        payload: Any = None,
        *,
        node: str | None = None,
        cause: str | None = None,
        at: "str | datetime | None" = None,
        **extra: Any,
    ) -> str:
        """Writes an openwop event with the run's next sequence and returns its eventId."""
        if len(self.run) > OPENWOP_RUN:
            hint = f"use a run id of at most {OPENWOP_RUN} characters"
            raise Invalid(Problem("/runId", "no eventId can be made from so long a run id", hint))
        where = self._node if node is None else f'"nodeId":{_name(node, "/nodeId")},'
        why = "" if cause is None else f'"causationId":{_name(cause, "/causationId")},'
        if type == "run.started" and self.parent:
            extra = {"parent_run_id": self.parent, **extra}
        run, shared = self._run, self._shared
        tail = (
            f'"timestamp":{_at(at, 3)},"type":{_name(type, "/type")},{where}{why}"payload":'
            f"{_json({} if payload is None else payload, '/payload')},"
            f'"schemaVersion":1,"engineVersion":"1"{_more(extra, OPENWOP_KEYS)}}}\n'
        )
        with shared.lock:
            number = shared.number(self.run, 0)
            head = f'{{"eventId":"evt-{run[1:-1]}-{number}","runId":{run},"sequence":{number},'
            shared.sink.write(_utf8(head + tail), "openwop")
            shared.last[self.run] = number
        return f"evt-{self.run}-{number}"

    def awf(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        path: str | None = None,
        iteration: int | None = None,
        child: str | None = None,
        at: "str | datetime | None" = None,
        **extra: Any,
    ) -> int:
        """Writes an awf event with the run's next seq and returns that; the run is a UUID v4."""
        if type not in AWF_TYPES:
            hint = "one of " + ", ".join(sorted(AWF_TYPES))
            raise Invalid(Problem("/type", f"{type!r} is none of the ten types", hint))
        if not _UUID4.fullmatch(self.run):
            hint = "bind a run id made by new_id()"
            raise Invalid(Problem("/run_id", f"{self.run!r} is no lower-case UUID v4", hint))
        called = "" if child is None else f'"child_run_id":{_name(child, "/child_run_id")},'
        where = self._path if path is None else _text(path, "/path")
        turn = self._iteration if iteration is None else _count(iteration, "/iteration")
        shared = self._shared
        tail = (
            f'"run_id":{self._run},{self._parent}{called}"type":"{type}","path":{where},'
            f'"iteration":{turn},"timestamp":{_at(at)},"payload":'
            f"{'null' if payload is None else _object(payload, '/payload')}{_more(extra, AWF_KEYS)}}}\n"
        )
        if not tail.isascii():
            tail = _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", tail)
        with shared.lock:
            number = shared.number(self.run, 1)
            shared.sink.write(f'{{"seq":{number},{tail}'.encode(), "awf")
            shared.last[self.run] = number
        return number

    def tracklog(
        self,
        fact: str,
        *,
        id: str | None = None,
        at: "str | datetime | None" = None,
        origin: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> str:
        """Writes one fact in the native dialect and returns its id.

        The fields are the fact's own; `from` is written from_. A run that begins under a parent
        run is linked to it.
        """
        if fact not in FACTS:
            hint = "one of " + ", ".join(sorted(FACTS))
            raise Invalid(Problem("/fact", f"{fact!r} is none of the twelve facts", hint))
        if "from_" in fields:
            names = {"from_": "from"}
            fields = {names.get(key, key): value for key, value in fields.items()}
        if id is None:
            known = id = new_id()
        else:
            known = _escaped(id, "/id")
        source = self._origin if origin is None else _object(origin, "/origin")
        about = self._about
        if about and not ABOUT.isdisjoint(fields):
            about, fields = "", {**self._bound_about, **fields}
        if "run" in fields:
            raise Invalid(Problem("/run", "the run is the emitter's", "bind(run=…) another one"))
        said = _object(fields, "")[1:-1]
        self._write(
            f'{{"id":"{known}","run":{self._run},"at":{_at(at)},"fact":"{fact}",'
            f'{about}{said}{"," if said else ""}"origin":{source}}}\n',
            "tracklog",
        )
        if fact == "Began" and self.parent and fields.get("what") == "run":
            self.tracklog("Linked", at=at, origin=origin, kind="sub-run", parent=self.parent)
        return id

    def _prepare(self) -> None:
        """Writes down once what every event of this emitter repeats."""
        get = self._bound.get
        self._run = _name(self.run, "/run")
        if self.parent == self.run:
            self.parent = None
        parent = self.parent
        self._parent = f'"parent_run_id":{_name(parent, "/parent_run_id")},' if parent else ""
        self._actor = None if get("actor") is None else _name(get("actor"), "/actor")
        node = get("node")
        self._node = "" if node is None else f'"nodeId":{_name(node, "/nodeId")},'
        self._turn = _count(get("turn", 0), "/turn")
        self._path = _text(get("path", ""), "/path")
        self._iteration = _count(get("iteration", 0), "/iteration")
        self._origin = _object(get("origin", ORIGIN), "/origin")
        self._bound_about = {key: value for key, value in self._bound.items() if key in ABOUT}
        about = _object(self._bound_about, "")[1:-1]
        self._about = about + "," if about else ""

    def _write(self, text: str, dialect: str) -> None:
        line = _utf8(text)
        with self._shared.lock:
            self._shared.sink.write(line, dialect)


ABOUT = frozenset({"agent", "step", "family", "cause"})
"""What may stand on every native line."""
BINDABLE = ABOUT | {"actor", "turn", "node", "path", "iteration", "origin"}
OPENWOP_RUN = 100
OPENWOP_KEYS = frozenset(
    [
        "eventId",
        "runId",
        "sequence",
        "timestamp",
        "type",
        "nodeId",
        "causationId",
        "payload",
        "schemaVersion",
    ]
) | {"engineVersion"}
AWF_KEYS = frozenset(
    [
        "seq",
        "run_id",
        "parent_run_id",
        "child_run_id",
        "type",
        "path",
        "iteration",
        "timestamp",
        "payload",
    ]
)
_KIND = re.compile(r"[a-z][a-z0-9]*(\.[a-z][a-z0-9]*)+")
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


# include values.py
