"""Writes kahn CI transitions: one file, standard library only, made to be copied into a producer.

    from kahn_emit import Emitter, done_when_result, outcome_of

    with Emitter("transitions.jsonl", run_id="ci-42") as run:
        run.run_start(total_nodes=1)
        run.node_transition(node_id="lint", from_="ready", to="running", attempt=1)
        checks = [done_when_result(cmd="ruff check", rc=0, duration_s=0.8)]
        run.node_attempt(
            node_id="lint", attempt=1, duration_s=0.9, converged=True, done_when_results=checks
        )
        run.node_transition(node_id="lint", from_="running", to="done")
        outcome = outcome_of(done=1, failed=0, blocked=0)
        run.run_end(outcome=outcome, done=1, failed=0, blocked=0, total_duration_s=1.2)

Keys that the contract does not declare are written behind the declared ones, unchanged.
Agents have a sibling file, kahn_agent_emit.py; a producer takes the one that it needs.
Python 3.11 or newer, on Linux or macOS.
"""

import copy
import json
import math
import os
import re
import stat
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self

__all__ = [
    "Emitter",
    "Invalid",
    "Outcome",
    "Problem",
    "ShortWrite",
    "Status",
    "backoff_s",
    "done_when_result",
    "flakes",
    "line_of",
    "node_attempt",
    "node_transition",
    "now_ts",
    "outcome_of",
    "problems",
    "run_end",
    "run_start",
    "severity_outcome",
    "shape",
    "worst",
]

# <shared> These bytes stand alike in kahn_emit.py and kahn_agent_emit.py.

DEPTH = 200
RUN_ENV, PARENT_ENV, TRACE_ENV = "TRACKLOG_RUN_ID", "TRACKLOG_PARENT_RUN_ID", "TRACEPARENT"


def now_ts() -> str:
    """The time now, as the contract writes it: UTC, milliseconds, Z."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Problem(NamedTuple):
    """One fault of an event: where, what, and what to do."""

    pointer: str
    message: str
    hint: str


class Invalid(ValueError):
    """The event cannot be written; `problems` names every fault, and no byte was written."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{at or '/'}: {what} ({hint})" for at, what, hint in problems))


class ShortWrite(OSError):
    """The system took only a part of a line; the rest was not sent after it."""


class Field(NamedTuple):
    """What the contract says of one key."""

    wanted: str
    fits: Callable[[Any], bool]
    number: type | None = None
    """int or float: how its digits are written, whatever number was given."""
    free: bool = False
    """Whether it is text of the producer's own, which a redactor may change."""
    required: bool = True
    items: "Mapping[str, Field] | None" = None
    """The keys of each object in it, where it is a list of objects."""


def _is_ts(value: Any) -> bool:
    if not isinstance(value, str) or not _TS.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value[:-1])
    except ValueError:
        return False
    return True


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _matches(pattern: str, wanted: str) -> Field:
    # K4: the whole string, so that "coder\n" is refused.
    match = re.compile(pattern).fullmatch
    return Field(wanted, lambda value: isinstance(value, str) and match(value) is not None)


def _one_of(values: Iterable[str]) -> Field:
    known = [str(value) for value in values]
    return Field("one of " + ", ".join(known), lambda v: isinstance(v, str) and v in known)


def _whole(least: int | None = None) -> Field:
    def fits(value: Any) -> bool:
        return _is_number(value) and value == int(value) and (least is None or value >= least)

    return Field("a whole number" + ("" if least is None else f", {least} or more"), fits, int)


def _optional(field: Field) -> Field:
    return field._replace(required=False)


_TS = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
TS = Field("UTC with milliseconds and Z, like 2026-05-05T09:00:00.000Z", _is_ts)
RUN_ID = _matches(
    r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}", "1 to 64 of A-Z a-z 0-9 _ -, first a letter or a digit"
)
TEXT = Field("a string", lambda value: isinstance(value, str), free=True)
BOOL = Field("true or false", lambda value: isinstance(value, bool))
COUNT = _whole(0)
SECONDS = Field("a number of seconds, 0 or more", lambda v: _is_number(v) and v >= 0, float)
BASE = {"ts": TS, "run_id": RUN_ID, "event": TEXT._replace(free=False)}


def problems(event: Mapping[str, Any]) -> list[Problem]:
    """Every fault of an event: its shape, and what JSON has no word for."""
    kind = event.get("event")
    known = isinstance(kind, str) and kind in EVENTS
    wrong = () if known else (_refused("/event", kind, "one of " + ", ".join(EVENTS)),)
    fields = EVENTS[str(kind)] if known else BASE
    found = [*wrong, *_faults("", event, fields), *_unwritable("", event)]
    return list({problem.pointer: problem for problem in reversed(found)}.values())[::-1]


def _faults(at: str, body: Mapping[str, Any], fields: Mapping[str, Field]) -> Iterator[Problem]:
    for key, field in fields.items():
        here = f"{at}/{key}"
        if key not in body:
            if field.required:
                yield Problem(here, f"{key} is missing", f"add it: {field.wanted}")
        elif not field.fits(body[key]):
            yield _refused(here, body[key], field.wanted)
        elif field.items:
            for number, item in enumerate(body[key]):
                yield from _faults(f"{here}/{number}", item, field.items)


def _refused(at: str, value: Any, wanted: str) -> Problem:
    if value is None:  # KAHN-40
        return Problem(at, "null stands here", f"leave the key out, or write {wanted}")
    try:
        shown = repr(value)
    except ValueError:  # an integer of thousands of digits
        shown = "so long a number"
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return Problem(at, f"{shown} does not belong here", f"write {wanted}")


def _unwritable(at: str, value: Any, within: tuple[int, ...] = ()) -> Iterator[Problem]:
    """The places whose value is no JSON."""
    if id(value) in within:
        yield Problem(at, "the value contains itself", "write a tree")
    elif len(within) > DEPTH:
        yield Problem(at, f"nested deeper than {DEPTH} levels", "flatten it")
    elif isinstance(value, dict):
        for key, inner in value.items():
            name = str(key).replace("~", "~0").replace("/", "~1")
            if not isinstance(key, str):
                yield Problem(f"{at}/{name}", f"the key {key!r} is no string", "use string keys")
            yield from _unwritable(f"{at}/{name}", inner, (*within, id(value)))
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from _unwritable(f"{at}/{number}", inner, (*within, id(value)))
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(at, f"{value} is no JSON number", "leave the key out, or write a number")
    elif value is not None and not isinstance(value, (str, int, float)):
        kind = type(value).__name__
        yield Problem(at, f"a {kind} is no JSON value", "turn it into text, numbers, lists, dicts")


def _event(
    event: str, ts: str | None, run_id: str, given: dict[str, Any], extra: dict[str, Any]
) -> dict[str, Any]:
    fields = EVENTS[event]
    said = {key: value for key, value in given.items() if fields[key].required or value is not None}
    at = now_ts() if ts is None else ts
    return shape({"ts": at, "run_id": run_id, "event": event, **said, **extra})


def shape(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event as it is written (K17): keys in declared order, unknown keys as given, cropped."""
    fields = EVENTS.get(str(event.get("event")), {})
    return _settle(_ordered(event, fields))


def _ordered(body: Mapping[str, Any], fields: Mapping[str, Field]) -> dict[str, Any]:
    ordered = {key: body[key] for key in fields if key in body}
    ordered.update(body)
    for key, field in fields.items():
        value = ordered.get(key)
        if field.number is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                ordered[key] = float(value)
            except OverflowError:
                raise Invalid(_refused(f"/{key}", value, field.wanted)) from None
        elif field.number is int and isinstance(value, float) and value.is_integer():
            ordered[key] = int(value)
    return ordered


def line_of(event: Mapping[str, Any]) -> bytes:
    """The canonical line of a shaped event (K17), with its line end."""
    try:
        text = _text(event, EVENTS.get(str(event.get("event")), {}))
    except (TypeError, ValueError, RecursionError) as error:
        found = [*_unwritable("", event)] or [Problem("", str(error), "write what JSON can hold")]
        raise Invalid(*found) from error
    return _utf8(text + "\n")


def _text(body: Mapping[str, Any], fields: Mapping[str, Field]) -> str:
    parts = []
    for key, value in body.items():
        field = fields.get(key)
        if field is None:
            text = _json(value)
        elif field.number is float and isinstance(value, float):
            text = _decimal(value)
        elif field.items and field.fits(value):
            text = f"[{','.join(_text(item, field.items) for item in value)}]"
        else:
            text = _json(value)
        parts.append(f"{_json(key)}:{text}")
    return "{" + ",".join(parts) + "}"


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _decimal(value: float) -> str:
    """The shortest digits that read back the same, always with a decimal point: 1.0e-07."""
    if not math.isfinite(value):
        raise ValueError(value)
    text = float.__repr__(value)
    return text if "." in text else text.replace("e", ".0e")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate has no bytes in UTF-8: U+FFFD stands for it
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class Appender:
    """A file that only grows: each line is one write, so that lines of many writers never mix."""

    _lock = threading.RLock()
    """One for the process; re-entrant, for a signal handler that emits."""

    def __init__(self, path: "str | os.PathLike[str]", durability: str = "os") -> None:
        if durability not in ("os", "sync"):
            raise ValueError(f"durability {durability!r} is unknown: write 'os' or 'sync'")
        self._sync = durability == "sync"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._fd: int | None = os.open(path, flags, 0o666)
        self._torn = self._unterminated(path)

    def append(self, line: bytes) -> None:
        """Writes one line, whole, or raises; a short write is never followed by the rest (K19)."""
        with Appender._lock:
            if self._fd is None:
                raise ValueError("the emitter is closed: open another one")
            # What a crash or a short write left without its end would swallow this line.
            line = b"\n" + line if self._torn else line
            written = os.write(self._fd, line)
            self._torn = written != len(line)
            if self._torn:
                raise ShortWrite(f"only {written} of {len(line)} bytes were written")
            if self._sync:
                os.fsync(self._fd)

    def close(self) -> None:
        """Makes the lines durable and closes the file; a second call does nothing."""
        with Appender._lock:
            fd, self._fd = self._fd, None
        if fd is not None:
            try:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    os.fsync(fd)
            finally:
                os.close(fd)

    def _unterminated(self, path: "str | os.PathLike[str]") -> bool:
        assert self._fd is not None
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return False
        try:
            with open(path, "rb", buffering=0) as file:
                before = -1
                while (end := file.seek(-1, os.SEEK_END)) != before:
                    if file.read(1) == b"\n":
                        return False
                    before = end
                    time.sleep(0.02)  # another writer may be in the middle of its line
                return True
        except OSError:  # it cannot be read: a blank line is the lesser harm
            return True

    @classmethod
    def _renew(cls) -> None:
        cls._lock = threading.RLock()


# A child must not wait for a lock that another thread of its parent held.
os.register_at_fork(after_in_child=Appender._renew)


def _run_id(value: str) -> str:
    if not RUN_ID.fits(value):
        raise Invalid(_refused("/run_id", value, RUN_ID.wanted))
    return value


class Run:
    """Writes the events of one run to one file.

    run_id and parent_run_id come from the environment unless given; a run that has neither gets a
    fresh id. `validate` checks each event; `redact` is called with each free text before it is
    cropped, and what it returns is written; durability is "os" (the file is synced when it is
    closed) or "sync" (after each line). Whatever cannot be written raises.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str]",
        run_id: str | None = None,
        *,
        parent_run_id: str | None = None,
        traceparent: str | None = None,
        validate: bool = False,
        redact: Callable[[str], str] | None = None,
        durability: str = "os",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self.run_id = _run_id(run_id or environ.get(RUN_ENV) or str(uuid.uuid4()))
        parent = parent_run_id or environ.get(PARENT_ENV)
        self.parent_run_id = parent if parent != self.run_id else None
        self.traceparent = traceparent or environ.get(TRACE_ENV)
        self._validate, self._redact = validate, redact
        self._fields: dict[str, Any] = {}
        self._file = Appender(path, durability)

    def bind(self, **fields: Any) -> Self:
        """Another emitter to the same file, whose every event carries these fields too."""
        bound = copy.copy(self)
        bound.run_id = _run_id(fields.pop("run_id", self.run_id))
        bound._fields = {**self._fields, **fields}
        return bound

    def emit(self, event: Mapping[str, Any]) -> bytes:
        """Writes an event given as a dict and returns its line; ts and run_id may be left out."""
        body = {"ts": now_ts(), "run_id": self.run_id, **self._fields, **event}
        return self._append(shape(self._redacted(body, body.get("event"))))

    def child_env(self, run_id: str | None = None) -> dict[str, str]:
        """What a child process needs in its environment to name this run as its parent.

        Merge it: `subprocess.run(command, env={**os.environ, **run.child_env()})`.
        """
        child = {RUN_ENV: run_id or str(uuid.uuid4()), PARENT_ENV: self.run_id}
        return {**child, TRACE_ENV: self.traceparent} if self.traceparent else child

    def close(self) -> None:
        """Syncs and closes the file, for every emitter that is bound to it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _build(self, build: Callable[..., dict[str, Any]], fields: Mapping[str, Any]) -> bytes:
        given = {"run_id": self.run_id, **self._fields, **fields}
        return self._append(build(**self._redacted(given, build.__name__)))

    def _append(self, event: dict[str, Any]) -> bytes:
        if self.parent_run_id and event.get("event") in STARTS:  # K33
            event.setdefault("parent_run_id", self.parent_run_id)
        if self._validate and (found := problems(event)):
            raise Invalid(*found)
        line = line_of(event)
        self._file.append(line)
        return line

    def _redacted(self, body: dict[str, Any], event: Any) -> dict[str, Any]:
        if self._redact is None:
            return body
        fields = EVENTS.get(str(event), BASE)
        fixed = {key for key, field in fields.items() if not field.free} | {"from_"}
        return {key: value if key in fixed else self._clean(value) for key, value in body.items()}

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str) and self._redact is not None:
            return self._redact(value)
        if isinstance(value, dict):
            return {key: self._clean(inner) for key, inner in value.items()}
        return [self._clean(inner) for inner in value] if isinstance(value, list) else value


# </shared>


class Status(StrEnum):
    """Where a node stands."""

    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"


class Outcome(StrEnum):
    """How a run ended, from best to worst."""

    CLEAN = "clean"
    CLEAN_WITH_FLAKE = "clean_with_flake"
    PARTIAL = "partial"
    STUCK = "stuck"
    CATASTROPHIC = "catastrophic"


TAIL = 4096
NODE_ID = _matches(r"[a-z0-9][a-z0-9-]{0,63}", "1 to 64 of a-z 0-9 -, first a letter or a digit")
ATTEMPT = _whole(1)
STATUS = _one_of(Status)
RESULT = {
    "cmd": TEXT,
    "rc": _whole(),
    "duration_s": SECONDS,
    "tail": _optional(
        Field(f"at most {TAIL} characters", lambda v: isinstance(v, str) and len(v) <= TAIL)
    ),
    "truncated": _optional(BOOL),
}
RESULTS = Field(
    "a list of results, see done_when_result",
    lambda value: isinstance(value, list) and all(isinstance(item, dict) for item in value),
    free=True,
    items=RESULT,
)
EVENTS: dict[str, dict[str, Field]] = {
    "run_start": {**BASE, "total_nodes": COUNT},
    "node_transition": {
        **BASE,
        "node_id": NODE_ID,
        "from": STATUS,
        "to": STATUS,
        "attempt": _optional(ATTEMPT),
        "reason": _optional(TEXT),
    },
    "node_attempt": {
        **BASE,
        "node_id": NODE_ID,
        "attempt": ATTEMPT,
        "duration_s": SECONDS,
        "converged": BOOL,
        "done_when_results": RESULTS,
        "backoff_s": _optional(SECONDS),
    },
    "run_end": {
        **BASE,
        "outcome": _one_of(Outcome),
        "done": COUNT,
        "failed": COUNT,
        "blocked": COUNT,
        "total_duration_s": SECONDS,
        "total_attempts": _optional(COUNT),
        "flake_retries": _optional(COUNT),
        "exit_code": _optional(_whole()),
    },
}
"""The contract: for each event its keys in the order in which they are written."""
STARTS = ("run_start",)


def run_start(
    *, run_id: str, total_nodes: int, ts: str | None = None, **extra: Any
) -> dict[str, Any]:
    """The first event of a run."""
    return _event("run_start", ts, run_id, {"total_nodes": total_nodes}, extra)


def node_transition(
    *,
    run_id: str,
    node_id: str,
    from_: str,
    to: str,
    attempt: int | None = None,
    reason: str | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """A node changed its status; `attempt` goes with `to="running"`, and only with it."""
    given = {"node_id": node_id, "from": from_, "to": to, "attempt": attempt, "reason": reason}
    return _event("node_transition", ts, run_id, given, extra)


def node_attempt(
    *,
    run_id: str,
    node_id: str,
    attempt: int,
    duration_s: float,
    converged: bool,
    done_when_results: list[dict[str, Any]],
    backoff_s: float | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """A node was tried; the results come from `done_when_result`."""
    given = {
        "node_id": node_id,
        "attempt": attempt,
        "duration_s": duration_s,
        "converged": converged,
        "done_when_results": done_when_results,
        "backoff_s": backoff_s,
    }
    return _event("node_attempt", ts, run_id, given, extra)


def done_when_result(
    *, cmd: str, rc: int, duration_s: float, tail: str | None = None, **extra: Any
) -> dict[str, Any]:
    """How one check of a node went; give stderr + stdout as `tail`.

    When it is written, the end of the tail is kept, and nothing of it when the check passed.
    """
    result = {"cmd": cmd, "rc": rc, "duration_s": duration_s, **extra}
    return result if tail is None else {**result, "tail": tail}


def run_end(
    *,
    run_id: str,
    outcome: str,
    done: int,
    failed: int,
    blocked: int,
    total_duration_s: float,
    total_attempts: int | None = None,
    flake_retries: int | None = None,
    exit_code: int | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """The last event of a run; `exit_code` is 1 on a bad outcome unless given, and never 0."""
    given = {
        "outcome": outcome,
        "done": done,
        "failed": failed,
        "blocked": blocked,
        "total_duration_s": total_duration_s,
        "total_attempts": total_attempts,
        "flake_retries": flake_retries,
        "exit_code": exit_code,
    }
    return _event("run_end", ts, run_id, given, extra)


def _settle(event: dict[str, Any]) -> dict[str, Any]:
    """What binds every writer, beyond the schema."""
    match event.get("event"):
        case "node_transition":
            _settle_transition(event)
        case "node_attempt":
            _settle_attempt(event)
        case "run_end":
            _settle_exit_code(event)
    return event


def _settle_transition(event: dict[str, Any]) -> None:
    running = event.get("to") == Status.RUNNING
    if running and "attempt" not in event:
        hint = "add the number of the attempt, from 1"
        raise Invalid(Problem("/attempt", "attempt is missing on the way to running", hint))
    if not running and "attempt" in event:
        message = f"attempt goes with running, not with {event.get('to')}"
        raise Invalid(Problem("/attempt", message, "leave it out"))


def _settle_attempt(event: dict[str, Any]) -> None:
    results = event.get("done_when_results")
    if isinstance(results, list):
        event["done_when_results"] = [
            _settle_result(item) if isinstance(item, dict) else item for item in results
        ]
    if event.get("attempt") == 1 and "backoff_s" in event:
        if event["backoff_s"]:
            message = "there is no backoff before the first attempt"
            raise Invalid(Problem("/backoff_s", message, "leave it out on attempt 1"))
        del event["backoff_s"]


def _settle_result(given: Mapping[str, Any]) -> dict[str, Any]:
    result = _ordered(given, RESULT)
    tail = result.get("tail")
    if result.get("rc") == 0:
        result.pop("tail", None)
    elif isinstance(tail, str) and len(tail) * 4 > TAIL:
        encoded = _utf8(tail)
        if len(encoded) > TAIL:  # K13: its end, in bytes, from a whole code point on
            result |= {"tail": encoded[-TAIL:].decode(errors="ignore"), "truncated": True}
    return _ordered(result, RESULT)


def _settle_exit_code(event: dict[str, Any]) -> None:
    """K14: never 0; none on a clean outcome; 1 on any other unless another was given."""
    outcome, given = event.get("outcome"), event.get("exit_code")
    if outcome in (Outcome.CLEAN, Outcome.CLEAN_WITH_FLAKE):
        if given:
            message = f"exit code {given} does not go with the outcome {outcome}"
            raise Invalid(Problem("/exit_code", message, "leave it out, or give another outcome"))
        event.pop("exit_code", None)
    elif "exit_code" in event and given == 0:
        message = f"exit code 0 does not go with the outcome {outcome}"
        raise Invalid(Problem("/exit_code", message, "leave it out: 1 is written"))
    elif outcome in list(Outcome) and "exit_code" not in event:
        ordered = _ordered({**event, "exit_code": 1}, EVENTS["run_end"])
        event.clear()
        event.update(ordered)


class Emitter(Run):
    """Writes the CI transitions of one run; each method takes what its builder takes."""

    def run_start(self, **fields: Any) -> bytes:
        return self._build(run_start, fields)

    def node_transition(self, **fields: Any) -> bytes:
        return self._build(node_transition, fields)

    def node_attempt(self, **fields: Any) -> bytes:
        return self._build(node_attempt, fields)

    def run_end(self, **fields: Any) -> bytes:
        return self._build(run_end, fields)


def outcome_of(*, done: int, failed: int, blocked: int, flake_retries: int = 0) -> Outcome:
    """The outcome of a run, from how its nodes ended."""
    if not failed and not blocked:
        return Outcome.CLEAN_WITH_FLAKE if flake_retries else Outcome.CLEAN
    if not done:
        return Outcome.CATASTROPHIC
    return Outcome.STUCK if failed and blocked else Outcome.PARTIAL


def backoff_s(attempt: int) -> float:
    """The seconds to wait before an attempt: none before the first, then 2, 4, 8 … 60."""
    return float(min(2 ** (attempt - 1), 60)) if attempt > 1 else 0.0


SEVERITIES = dict(zip(("none", "minor", "moderate", "major", "critical"), Outcome, strict=True))


def severity_outcome(severity: str) -> Outcome:
    """The outcome that a deviation of this severity means (K26); an unknown one is an error."""
    if severity not in SEVERITIES:
        hint = "one of " + ", ".join(SEVERITIES)
        message = f"{severity!r} is no severity"
        raise Invalid(Problem("/deviation/severity", message, hint))
    return SEVERITIES[severity]


def worst(outcomes: Iterable[str]) -> Outcome:
    """The worst of the outcomes of a run's nodes; clean when there is none (K26)."""
    order = list(Outcome)
    return max((Outcome(outcome) for outcome in outcomes), key=order.index, default=order[0])


def flakes(attempts: Iterable[tuple[str, bool]]) -> int:
    """How many phases of one prompt failed and later succeeded (K25), from (phase, succeeded)."""
    failed: set[str] = set()
    healed: set[str] = set()
    for phase, succeeded in attempts:
        if not succeeded:
            failed.add(phase)
        elif phase in failed:
            healed.add(phase)
    return len(healed)
