"""Writes kahn CI transitions: one file, standard library only, made to be copied into a producer.

    from kahn_emit import Emitter, done_when_result, outcome_of

    with Emitter("transitions.jsonl", run_id="ci-42") as run:
        run.run_start(total_nodes=1)
        run.node_transition(node_id="lint", from_="pending", to="ready")
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
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakSet

__all__ = [
    "Emitter",
    "HttpSink",
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
# include kahn.py


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
DIALECT = "kahn-ci"


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
        result = {key: value for key, value in result.items() if key not in ("tail", "truncated")}
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
