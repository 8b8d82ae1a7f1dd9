"""The rules across the events of a run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from tracklog.dialects import text
from tracklog.dialects.awf.line import ENVELOPE, PAYLOADS
from tracklog.dialects.awf.meaning import go_case
from tracklog.dialects.awf.shapes import KINDS
from tracklog.model.event import Event, Finding
from tracklog.model.fact import BLOCK_KEYS, Block

EXTRAS: dict[str, set[str]] = {
    "envelope": {
        "step_seq", "attempt", "frames", "elapsed_ms", "span_id", "parent_span_id", "seam",
        "lost", "chain",
    },
    "run": {
        "schema_version", "producer", "inputs_sha256", "resumed", "status", "exit_code",
        "duration_ms", "had_output", "synthetic", "truncated",
    },
    "step": {
        "blocks", "status", "exit_code", "duration_ms", "had_output", "synthetic", "output",
        "stderr", "truncated",
    },
    "message": {
        "provider", "provider_version", "model", "provider_session_id", "status", "error",
        "errors", "exit_code", "duration_ms", "stop_reason", "turns", "usage", "cost_usd",
        "report", "stderr_tail", "turn", "final", "truncated",
    },
    "tool": {
        "provider_call_id", "tool_server", "duration_ms", "is_error", "truncated",
    },
    "block": {
        "text", "part", "turn", "message_id", "is_error", "exit_code", "tool_name", "tool_id_synthetic",
        "tool_server", "parent_tool_id", "opaque", "signature", "partial", "refusal",
        "provider_type", "truncated",
    },
}  # fmt: skip  # words in rows
"""The optional keys that have a meaning; any other key is stored, with a finding."""


@dataclass(slots=True)
class _State:
    high: int = 0
    """The greatest number of this series."""
    last: str = ""
    begun: bool = False
    ended: bool = False
    ours: bool = False
    """Whether the run's start carries our producer mark."""
    parent: str | None = None
    open: dict[str, tuple[bool, Any, Any]] = field(default_factory=dict)
    """Open steps: by number, whether the step calls a workflow, its path and its iteration."""
    called: dict[str, str] = field(default_factory=dict)
    """Open tool calls, by call id."""
    returned: set[str] = field(default_factory=set)
    reported: set[tuple[str, str]] = field(default_factory=set)
    """Findings that are given once per run."""


UUID4 = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def rules(state: _State | None, event: Event) -> tuple[_State, list[Finding]]:
    fresh = state is None
    state = state or _State()
    findings = [*_check_seq(state, event, fresh), *_check_bookends(state, event)]
    findings += _check_envelope(state, event, fresh)
    if event.kind not in KINDS:
        findings += _once(state, "unknown-type", event.kind, f"the event type {event.kind!r}")
        return state, findings
    findings += _check_payload(state, event)
    word = event.kind.partition(".")[0]
    if word == "step":
        findings += _check_step(state, event)
    elif word in ("message", "tool"):
        findings += _check_tools(state, event)
    return state, findings


def _once(state: _State, name: str, key: str, about: str) -> Iterator[Finding]:
    """A finding about something unknown, given once per run."""
    if (name, key) not in state.reported:
        state.reported.add((name, key))
        level: Literal["info", "warning"] = "info" if name == "unknown-key" else "warning"
        yield Finding(name, f"{about} is unknown here; it is stored", level)


def _check_seq(state: _State, event: Event, fresh: bool) -> Iterator[Finding]:
    seq = int(event.body["seq"])
    if fresh:
        if seq != 1:
            yield Finding("seq-first", f"the first number is {seq}, not 1", "error")
        state.high = seq
    elif seq == 1:
        # A resumed run of the original starts a new segment, whose numbers repeat.
        yield Finding("seq-restart", "the numbering starts again at 1")
        state.high = 1
        state.ended = False
    elif seq < state.high:
        yield Finding("seq-order", f"number {seq} after number {state.high}", "error")
    elif seq > state.high + 1:
        yield Finding(
            "seq-gap", f"number {seq} after number {state.high}: {seq - state.high - 1} missing"
        )
    state.high = max(state.high, seq)


def _check_bookends(state: _State, event: Event) -> Iterator[Finding]:
    body = event.body
    if event.kind == "run.started":
        state.ours = str(body["payload"].get("producer", "")).startswith("tracklog/")
    elif not state.begun:
        yield Finding("no-start", f"the run begins with {event.kind}, not run.started")
    state.begun = True
    if state.ended and "seam" not in body:
        yield Finding("after-end", f"{event.kind} after run.completed")
    state.ended = event.kind == "run.completed" or (state.ended and "seam" not in body)


def _check_envelope(state: _State, event: Event, fresh: bool) -> Iterator[Finding]:
    body = event.body
    if fresh and not UUID4.fullmatch(event.run):
        yield Finding("run-id-form", f"the run id {event.run!r} is no UUID v4 in lower case")
    parent = text(body.get("parent_run_id")) or None
    if not fresh and parent != state.parent:
        yield Finding("link-parent", f"the parent is {parent}, before it was {state.parent}")
    state.parent = state.parent or parent
    if "child_run_id" in body and not event.kind.startswith("step.call_workflow."):
        yield Finding("child-misplaced", f"{event.kind} has a child_run_id")
    if "/" in body["path"]:
        yield Finding("path-slash", f"the path {body['path']!r} has slashes, not dots", "info")
    if event.at is None:
        yield Finding("time-zero", "the timestamp is the zero time, so the time is unknown", "info")
        return
    time = event.at[:19] + event.at[20:-1].ljust(9, "0")
    if time < state.last:
        yield Finding("time-back", f"{event.at} is earlier than the event before", "info")
    state.last = time


def _check_payload(state: _State, event: Event) -> Iterator[Finding]:
    body, payload = event.body, event.body["payload"]
    word = event.kind.partition(".")[0]
    known = {*PAYLOADS[word], *EXTRAS[word]}
    for place, keys, those in (
        ("envelope", body, {*ENVELOPE, *EXTRAS["envelope"]}),
        ("payload", payload, known),
    ):
        for key in keys.keys() - those:
            yield from _once(state, "unknown-key", f"{place} {key}", f"{key} in the {place}")
    for block in payload.get("blocks", ()):
        yield from _check_block(state, block)
    ended = event.kind == "step.completed" and not state.ours
    if ended and isinstance(payload.get("result"), bool):
        yield Finding(
            "result-bool",
            "the result is a boolean, which says whether there was any output",
            "info",
        )
    if word == "message" and not event.kind.endswith(payload["role"]):
        yield Finding("role-mismatch", f"{event.kind} has the role {payload['role']}")


def _check_block(state: _State, block: Block) -> Iterator[Finding]:
    name = block["type"]
    if name not in BLOCK_KEYS:
        yield from _once(state, "unknown-block", name, f"the block type {name!r}")
        return
    for key in block.keys() - {"type", "fidelity", *BLOCK_KEYS[name], *EXTRAS["block"]}:
        yield from _once(state, "unknown-key", f"block {key}", f"{key} in a {name} block")
    if go_case(block.get("tool_content")):
        yield Finding("go-case", "the output of a tool has capitalised keys", "info")


def _check_step(state: _State, event: Event) -> Iterator[Finding]:
    body = event.body
    step = ("call_workflow" in event.kind, body["path"], body["iteration"])
    if event.kind.endswith(".started"):
        state.open[event.id or ""] = step
        return
    nearest = [place for place, other in state.open.items() if other == step][-1:]
    paired = event.cause if event.cause in state.open else next(iter(nearest), None)
    if paired is None:
        yield Finding("step-orphan", f"{body['path']!r} ended and never began")
    else:
        del state.open[paired]


def _check_tools(state: _State, event: Event) -> Iterator[Finding]:
    payload = event.body["payload"]
    if event.kind in ("tool.call", "tool.result"):
        ids = {payload["call_id"], text(payload.get("provider_call_id")) or ""}
        yield from _pair(state, event.kind == "tool.call", ids, payload["name"])
        if go_case(payload["output"]):
            yield Finding("go-case", "the output of a tool has capitalised keys", "info")
        wanted = "tool_use" if event.kind == "tool.call" else "tool_result"
        restated = [(block["type"], block.get("tool_id")) for block in payload["blocks"]]
        if restated != [(wanted, payload["call_id"])]:
            yield Finding(
                "tool-blocks", f"its blocks must be exactly one {wanted} with its call_id"
            )
        return
    for block in payload["blocks"]:
        if block["type"] in ("tool_use", "tool_result"):
            name = block.get("tool_name") or "a tool"
            yield from _pair(state, block["type"] == "tool_use", {block["tool_id"]}, name)


def _pair(state: _State, call: bool, ids: set[str], name: str) -> Iterator[Finding]:
    ids = ids - {""}  # calls without an id are not paired
    if call:
        for id in ids:
            state.called.setdefault(id, name)
        return
    if ids and not ids & state.called.keys():
        yield Finding("tool-orphan", f"a result of {name} without its call")
    state.returned |= ids


def rest(state: _State) -> list[Finding]:
    findings = [
        Finding("step-open", f"{path!r} began (seq {seq}) and never ended")
        for seq, (_, path, _) in state.open.items()
    ]
    findings += [
        Finding("tool-dangling", f"the call {id} of {name} has no result", "info")
        for id, name in state.called.items()
        if id not in state.returned
    ]
    if not state.ended:
        findings.append(Finding("no-end", "no run.completed"))
    return findings
