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
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakSet

__all__ = [
    "AgentEmitter",
    "AgentOutcome",
    "AgentStatus",
    "AuditResult",
    "HttpSink",
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
DIALECT = "kahn-agent"


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

    def __init__(
        self,
        path: "str | os.PathLike[str] | None" = None,
        run_id: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path, run_id, **options)
        self._steps: dict[tuple[Any, Any], Any] = {}

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

    def ask(
        self,
        question: str,
        timeout: float | None = None,
        *,
        question_id: str | None = None,
        **fields: Any,
    ) -> Any:
        """Asks a person through the collector, and returns the answer, or None without one.

        From the question to the answer the agent is blocked on the record, at the step of its last
        event unless another is given. None comes after `timeout` seconds, or as soon as the
        question can no longer be answered; the agent then goes on with the reason `timeout`. Of
        two answers the first counts. While the collector is away the question waits in the spool,
        and this call waits for the collector. An agent that was restarted asks again under its old
        `question_id`, and gets the answer that was given meanwhile. Without a timeout it waits for
        ever; without a collector it raises, and nothing is written.
        """
        if self._http is None:
            hint = f"give a url, or set {URL_ENV}"
            raise ValueError(f"nobody can answer an emitter that only writes a file: {hint}")
        fields = {"run_id": self.run_id, **self._fields, **fields}
        who = (fields["run_id"], fields.get("agent_id"))
        fields.setdefault("step", self._steps.get(who, 0))
        until = math.inf if timeout is None else time.monotonic() + timeout
        known = question_id or str(uuid.uuid4())
        question_of = _Question(self._http, known, who[0])
        # Asked before it is told again: an answer that is there already belongs to the first asking.
        answered = question_of.answered(until, at_once=True) if question_id else None
        thinking, blocked = AgentStatus.THINKING, AgentStatus.BLOCKED_ON_CLARIFICATION
        said = {"question": question, **({} if timeout is None else {"expires": _later(timeout)})}
        reason = f"clarification:{known}"
        self.agent_transition(from_=thinking, to=blocked, reason=reason, **{**said, **fields})
        self._http.hurry()
        answered = answered or question_of.answered(until)
        back: dict[str, Any] = {"reason": f"timeout:{known}"}
        if answered:
            back = {"reason": f"operator_response:{known}", "answer": answered[0]}
        self.agent_transition(from_=blocked, to=thinking, **{**fields, **back})
        self._http.hurry()
        return answered[0] if answered else None

    def _append(self, event: dict[str, Any]) -> bytes:
        line = super()._append(event)
        who = (event["run_id"], event.get("agent_id"))
        if "step" in event and all(isinstance(name, str) for name in who):
            self._steps[who] = event["step"]
        return line


def _later(seconds: float) -> str:
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Question:
    """A question that a collector was asked."""

    def __init__(self, http: HttpSink, question_id: str, run_id: str) -> None:
        from urllib.parse import quote  # noqa: PLC0415 - only for who asks

        self._http = http
        self._path = f"/api/inbox/{quote(question_id, safe='')}/answer?run=kahn:{run_id}"

    def answered(self, until: float, *, at_once: bool = False) -> tuple[Any] | None:
        """The answer, alone in a tuple; None when there is none by then, or none yet if at once."""
        failures = 0
        while True:
            left = max(0.0, until - time.monotonic())
            if failures and not left:
                return None
            wait = 0 if at_once else int(min(30.0, left))
            pause, began = 0.2, time.monotonic()
            try:
                status, body, pause = self._asked(wait, left)
                if status == 200:
                    return (json.loads(body)["answer"],)
                if status == 410 or (at_once and status in (204, 404)):
                    return None
                failures = 0 if status in (204, 404) else failures + 1
            except (Unreachable, ValueError, KeyError, TypeError):
                failures += 1
            left = max(0.0, until - time.monotonic())
            if left <= 0:
                return None
            pause = max(pause, min(5.0, 0.1 * 2 ** min(failures, 6)))
            if failures or time.monotonic() - began < wait / 2 or not wait:
                time.sleep(min(pause, left))

    def _asked(self, wait: int, left: float) -> tuple[int, bytes, float]:
        """What the collector says within the time that is left, however it hangs or drips."""
        from queue import Empty, SimpleQueue  # noqa: PLC0415 - only for who asks

        said: SimpleQueue[tuple[int, bytes, float] | Unreachable] = SimpleQueue()

        def ask() -> None:
            try:
                said.put(self._http.get(f"{self._path}&wait={wait}", wait + 2.0))
            except Unreachable as error:
                said.put(error)

        threading.Thread(target=ask, name="tracklog-ask", daemon=True).start()
        try:
            answer = said.get(timeout=min(wait + 4.0, left))
        except Empty:
            raise Unreachable("the collector did not answer in time") from None
        if isinstance(answer, Unreachable):
            raise answer
        return answer
