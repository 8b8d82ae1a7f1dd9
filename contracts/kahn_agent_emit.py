"""Writes kahn agent transitions: one file, standard library only, made to be copied into a producer.

    from kahn_agent_emit import AgentEmitter

    with AgentEmitter("transitions.jsonl", run_id="agent-coder-1") as run:
        coder = run.bind(agent_id="coder")
        coder.agent_run_start(task="Add /v2/health")
        coder.agent_transition(step=0, from_="thinking", to="tool_call", reason="tool_call:Read")
        coder.tool_invocation(step=0, tool_name="Read", duration_s=0.04, ok=True)
        run.audit_checkpoint(agent_id=None, checkpoint_id="audit:rls", result="pass", duration_s=1)

Keys that the contract does not declare are written behind the declared ones, unchanged.
A tool's full output has no place here: give a summary, which is cropped to 2048 characters.
CI producers have a sibling file, kahn_emit.py; a producer takes the one that it needs.
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
    "AgentEmitter",
    "AgentOutcome",
    "AgentStatus",
    "AuditResult",
    "Invalid",
    "Problem",
    "ShortWrite",
    "agent_run_end",
    "agent_run_start",
    "agent_transition",
    "audit_checkpoint",
    "line_of",
    "now_ts",
    "problems",
    "shape",
    "tool_invocation",
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


class AgentStatus(StrEnum):
    """What an agent is doing."""

    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    RESPONSE = "response"
    REFLECT = "reflect"
    BLOCKED_ON_CLARIFICATION = "blocked-on-clarification"
    CONVERGED = "converged"
    FAILED = "failed"


class AgentOutcome(StrEnum):
    """How an agent ended: success is `converged`, never an exit code."""

    CONVERGED = "converged"
    PARTIAL = "partial"
    ESCAPED = "escaped"
    """Out of scope, but it ended by itself."""
    ABORTED = "aborted"
    """Ended from outside: a timeout, a kill, an operator."""


class AuditResult(StrEnum):
    """What a checkpoint found."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    WARN = "warn"


SUMMARY = 2048
AGENT_ID = _matches(
    r"[a-z0-9][a-z0-9:-]{0,63}", "1 to 64 of a-z 0-9 : -, first a letter or a digit"
)
CHECKPOINT_ID = _matches(
    r"[a-z0-9][a-z0-9:.-]{0,127}", "1 to 128 of a-z 0-9 : . -, first a letter or a digit"
)
STATUS = _one_of(AgentStatus)
_AGENT = {**BASE, "agent_id": AGENT_ID}
EVENTS: dict[str, dict[str, Field]] = {
    "agent_run_start": {**_AGENT, "task": TEXT, "model": _optional(TEXT)},
    "agent_transition": {
        **_AGENT,
        "step": COUNT,
        "from": STATUS,
        "to": STATUS,
        "reason": _optional(TEXT),
    },
    "tool_invocation": {
        **_AGENT,
        "step": COUNT,
        "tool_name": TEXT,
        "duration_s": SECONDS,
        "ok": BOOL,
        "input_summary": _optional(TEXT),
        "output_summary": Field(
            f"a string of at most {SUMMARY} characters",
            lambda value: isinstance(value, str) and len(value) <= SUMMARY,
            free=True,
            required=False,
        ),
        "error": _optional(TEXT),
    },
    "audit_checkpoint": {
        **BASE,
        # K2: always written, null when it is about the run as a whole.
        "agent_id": Field("an agent id, or null", lambda v: v is None or AGENT_ID.fits(v)),
        "checkpoint_id": CHECKPOINT_ID,
        "result": _one_of(AuditResult),
        "duration_s": SECONDS,
        "evidence": Field(
            "a JSON object", lambda value: isinstance(value, dict), free=True, required=False
        ),
    },
    "agent_run_end": {
        **_AGENT,
        "outcome": _one_of(AgentOutcome),
        "total_steps": COUNT,
        "total_tool_calls": COUNT,
        "total_audit_checkpoints": COUNT,
        "audits_passed": COUNT,
        "audits_failed": COUNT,
        "total_duration_s": SECONDS,
        "convergence_score": Field(
            "a number from 0 to 1", lambda v: _is_number(v) and 0 <= v <= 1, float, required=False
        ),
    },
}
"""The contract: for each event its keys in the order in which they are written."""
STARTS = ("agent_run_start",)


def agent_run_start(
    *,
    run_id: str,
    agent_id: str,
    task: str,
    model: str | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """An agent began its task."""
    given = {"agent_id": agent_id, "task": task, "model": model}
    return _event("agent_run_start", ts, run_id, given, extra)


def agent_transition(
    *,
    run_id: str,
    agent_id: str,
    step: int,
    from_: str,
    to: str,
    reason: str | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """An agent changed its status; `reason` may read `kind:detail`."""
    given = {"agent_id": agent_id, "step": step, "from": from_, "to": to, "reason": reason}
    return _event("agent_transition", ts, run_id, given, extra)


def tool_invocation(
    *,
    run_id: str,
    agent_id: str,
    step: int,
    tool_name: str,
    duration_s: float,
    ok: bool,
    input_summary: str | None = None,
    output_summary: str | None = None,
    error: str | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """An agent used a tool; a long summary is cropped, and a key beside it says so."""
    given = {
        "agent_id": agent_id,
        "step": step,
        "tool_name": tool_name,
        "duration_s": duration_s,
        "ok": ok,
        "input_summary": input_summary,
        "output_summary": output_summary,
        "error": error,
    }
    return _event("tool_invocation", ts, run_id, given, extra)


def audit_checkpoint(
    *,
    run_id: str,
    agent_id: str | None,
    checkpoint_id: str,
    result: str,
    duration_s: float,
    evidence: dict[str, Any] | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Something was asserted about an agent, or about the run when `agent_id` is None."""
    given = {
        "agent_id": agent_id,
        "checkpoint_id": checkpoint_id,
        "result": result,
        "duration_s": duration_s,
        "evidence": evidence,
    }
    return _event("audit_checkpoint", ts, run_id, given, extra)


def agent_run_end(
    *,
    run_id: str,
    agent_id: str,
    outcome: str,
    total_steps: int,
    total_tool_calls: int,
    total_audit_checkpoints: int,
    audits_passed: int,
    audits_failed: int,
    total_duration_s: float,
    convergence_score: float | None = None,
    ts: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """An agent ended."""
    given = {
        "agent_id": agent_id,
        "outcome": outcome,
        "total_steps": total_steps,
        "total_tool_calls": total_tool_calls,
        "total_audit_checkpoints": total_audit_checkpoints,
        "audits_passed": audits_passed,
        "audits_failed": audits_failed,
        "total_duration_s": total_duration_s,
        "convergence_score": convergence_score,
    }
    return _event("agent_run_end", ts, run_id, given, extra)


def _settle(event: dict[str, Any]) -> dict[str, Any]:
    """What the builders add to the contract: the crop of K11, and a key that tells of it."""
    if event.get("event") == "tool_invocation":
        for key in ("input", "output", "error"):
            name = key if key == "error" else f"{key}_summary"
            text = event.get(name)
            if isinstance(text, str) and len(text) > SUMMARY:
                event[name] = text[:SUMMARY]
                event[f"{key}_truncated"] = True
    elif event.get("event") == "audit_checkpoint" and "agent_id" not in event:
        return _ordered({**event, "agent_id": None}, EVENTS["audit_checkpoint"])
    return event


class AgentEmitter(Run):
    """Writes the agent transitions of one run; each method takes what its builder takes."""

    def agent_run_start(self, **fields: Any) -> bytes:
        return self._build(agent_run_start, fields)

    def agent_transition(self, **fields: Any) -> bytes:
        return self._build(agent_transition, fields)

    def tool_invocation(self, **fields: Any) -> bytes:
        return self._build(tool_invocation, fields)

    def audit_checkpoint(self, **fields: Any) -> bytes:
        return self._build(audit_checkpoint, fields)

    def agent_run_end(self, **fields: Any) -> bytes:
        return self._build(agent_run_end, fields)
