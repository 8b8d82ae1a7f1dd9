"""Write facts as OpenWOP events."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tracklog.dialects import Scene, millis
from tracklog.dialects.openwop.catalog import HOST_ID, MANIFEST_ID, SUPPRESSED, TYPES
from tracklog.dialects.openwop.checks import SECRET
from tracklog.dialects.openwop.shapes import KINDS
from tracklog.dialects.openwop.state import THRESHOLD
from tracklog.model.event import Body, Event
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Linked,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)

WORKFLOW_ID = r"[a-z][a-z0-9_-]*"
NO_AGENT = "core.system"
"""The agent of a tool call that no agent made (WOP-61)."""
SPEAKERS = {"user": "user", "system": "host:system", "world": "host:world"}


def write(fact: Fact, scene: Scene) -> Body | None:
    event = _event(fact, scene)
    if event is None:
        return None
    kind, node, payload, cause = event
    body: Body = {
        "eventId": _cut(scene.id),
        "runId": _cut(scene.run),
        "sequence": scene.seq - 1,
        "timestamp": millis(scene.at),
        "type": kind,
    }
    if node is not None:
        body["nodeId"] = _cut(node)
    if cause is not None:
        body["causationId"] = cause
    # WOP-43: secrets are removed before anything can be persisted.
    return body | {"payload": redacted(payload), "schemaVersion": 1, "engineVersion": "1"}


SECRET_NAMES = frozenset(
    [
        "apikey",
        "authorization",
        "password",
        "passwd",
        "secret",
        "clientsecret",
        "accesstoken",
        "refreshtoken",
        "bearertoken",
        "privatekey",
        "credential",
        "credentialref",
        "cookie",
        "token",
        "sessiontoken",
        "secretkey",
    ]
)
"""Keys that hold a secret, whatever its form; case, - and _ are ignored."""


def redacted(value: Any) -> Any:
    """A JSON value without values that are named like a secret or look like one."""
    if isinstance(value, str):
        return SECRET.sub("[REDACTED:key]", value)
    if isinstance(value, list | tuple):
        return [redacted(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        SECRET.sub("[REDACTED:key]", key): f"[REDACTED:{key}]"
        if re.sub("[-_]", "", key).lower() in SECRET_NAMES and each not in (None, "")
        else redacted(each)
        for key, each in value.items()
    }


def carries(event: Event, _facts: Iterable[Fact]) -> bool:
    """Whether a line may be carried: not if it holds a secret."""
    return bool(redacted(event.body) == event.body)


Sentence = tuple[str, str | None, Body, str | None]
"""A type, its node, its payload and its cause."""


def _event(fact: Fact, scene: Scene) -> Sentence | None:
    node = _cut(fact.step or fact.agent or "main")
    match fact:
        case Began():
            return _write_began(fact, scene, node)
        case Ended():
            return _write_ended(fact, scene, node)
        case Moved():
            return _write_moved(fact, scene, node)
        case Called():
            return _write_called(fact, scene, node)
        case Returned():
            return _write_returned(fact, scene, node)
        case Said():
            return _write_message(fact, scene, node)
        case Decided():
            return _write_decided(fact, scene, node)
        case Asked():
            return _write_asked(fact, scene, node)
        case Answered():
            asked, cause = scene.memory.get(f"question {fact.question_id}", (node, None))
            interrupt = f"int:{_key(fact.question_id)}"
            answer = {"nodeId": asked, "interruptId": interrupt, "resumeValue": fact.answer}
            return "interrupt.resolved", asked, answer, cause
        case Linked():
            return _write_linked(fact, scene, node)
        case Spent():
            return _write_spent(fact, fact.step)
        case Noted():
            return _write_noted(fact, scene, node)
    return None


def _cut(name: str, most: int = 128) -> str:
    return name[:most] or "unknown"


def _key(question: str) -> str:
    return _cut(question.removeprefix("int:"), 250)


def _agent(name: str | None, fallback: str = "host:agent") -> str:
    """An agent's id: unchanged if it has the form of one, else with the prefix of the host."""
    if not name:
        return fallback
    if re.fullmatch(MANIFEST_ID, name) or re.fullmatch(HOST_ID, name):
        return _cut(name, 256)
    return _cut("host:" + re.sub(r"[\r\n]+", " ", name), 256)


def _write_began(fact: Began, scene: Scene, node: str) -> Sentence | None:
    if fact.what != "step" and "run" not in scene.memory:
        # Where the agents make up the run, it begins with the first agent and ends with the last.
        scene.memory["run"] = {fact.agent} if fact.what == "agent" else None
        task = fact.task or ""
        named = re.fullmatch(WORKFLOW_ID, task) is not None
        payload: Body = {"workflowId": task if named else "converted"}
        return "run.started", None, payload | ({} if named else {"inputs": {"task": task}}), None
    if fact.what == "run":
        return None
    if fact.what == "agent" and scene.memory["run"] is not None:
        scene.memory["run"].add(fact.agent)
    started: Body = {"nodeId": node, "typeId": f"tracklog.{fact.what}", "attempt": 0}
    if fact.agent:
        started["agent"] = {"agentId": _agent(fact.agent)}
    return "node.started", node, started, None


def _write_ended(fact: Ended, scene: Scene, node: str) -> Sentence | None:
    alive, is_run = scene.memory.get("run"), fact.what == "run"
    if fact.what == "agent" and alive is not None:
        alive.discard(fact.agent)
        is_run = not alive
    if is_run and scene.memory.setdefault("ended", scene.id) != scene.id:
        return None
    scope = "run" if is_run else "node"
    payload: Body = {} if is_run else {"nodeId": node}
    if fact.outcome == "cancelled":
        kind = f"{scope}.cancelled"
        payload |= {"reason": fact.reason} if fact.reason else {}
    elif fact.passed is False or fact.error is not None:
        kind = f"{scope}.failed"
        payload["error"] = _error(fact.error, fact.outcome or "failed", fact.reason)
    else:
        kind = f"{scope}.completed"
        payload["outputs"] = {"outcome": fact.outcome} if fact.outcome else {}
    return kind, None if is_run else node, payload, None


def _error(error: Any, code: str, message: str | None) -> Body:
    """An error object, whatever the fact holds."""
    if isinstance(error, dict):
        code = str(error.get("code") or error.get("error") or code)
        message = str(error.get("message") or message or code)
        more = {"details": error["details"]} if isinstance(error.get("details"), dict) else {}
        return {"code": code, "message": message, **more}
    return {"code": code, "message": str(error if error is not None else message or code) or code}


def _write_moved(fact: Moved, scene: Scene, node: str) -> Sentence | None:
    open_ = f"waiting {node}"
    if fact.phase == "waiting" and open_ not in scene.memory:
        interrupt, cause = scene.memory.get(f"asked {node}", (f"int:{node}", None))
        scene.memory[open_] = interrupt
        payload: Body = {"nodeId": node, "interruptId": interrupt}
        payload |= {"reason": fact.reason} if fact.reason else {}
        return "node.suspended", node, payload, cause
    if fact.phase == "working" and open_ in scene.memory:
        payload = {"nodeId": node, "interruptId": scene.memory.pop(open_)}
        return "node.resumed", node, payload, None
    return None


def _tool(name: str) -> str:
    scope, _, rest = name.partition(":")
    return name if scope and rest else f"openwop:{name.strip(':') or 'unknown'}"


def _write_called(fact: Called, scene: Scene, node: str) -> Sentence:
    tool, call = _tool(fact.tool), fact.call_id or "unknown"
    scene.memory[f"call {call}"] = _cut(scene.id), tool
    return (
        "agent.toolCalled",
        node,
        {
            "agentId": _agent(fact.agent, NO_AGENT),
            "toolId": tool,
            "toolName": tool,
            "callId": call,
            "arguments": fact.input,
        },
        None,
    )


def _write_returned(fact: Returned, scene: Scene, node: str) -> Sentence:
    call = fact.call_id or "unknown"
    cause, called = scene.memory.pop(f"call {call}", (None, None))
    tool = _tool(fact.tool) if fact.tool else called or "openwop:unknown"
    payload: Body = {
        "agentId": _agent(fact.agent, NO_AGENT),
        "toolId": tool,
        "toolName": tool,
        "callId": call,
    }
    failed = fact.ok is False or fact.error is not None
    if failed or (fact.ok is None and fact.output is None):
        error = _error(fact.error, fact.status or "tool_failed", None)
        payload["error"] = {"error": error["code"], **error}
        if fact.status in ("error", "forbidden", "rate_limited"):
            payload["status"] = fact.status
    else:
        payload["result"] = fact.output
    if fact.seconds is not None and fact.seconds >= 0:
        payload["durationMs"] = round(fact.seconds * 1000)
    return "agent.toolReturned", node, payload, cause


def _write_message(fact: Said, scene: Scene, node: str) -> Sentence:
    words = [str(block.get("text") or block.get("thinking") or "") for block in fact.blocks]
    if fact.role == "thought":
        payload = {"agentId": _agent(fact.agent), "reasoning": "\n".join(words)}
        return "agent.reasoned", node, payload | {"verbosity": "full"}, None
    plain = all(block.get("type") == "text" for block in fact.blocks)
    message: Body = {
        "messageId": _cut(fact.message_id or scene.id, 256),
        "from": SPEAKERS.get(fact.role) or _agent(fact.agent),
        "content": "\n".join(words) if plain else [dict(block) for block in fact.blocks],
        "ts": _epoch(scene.at),
    }
    if fact.to:
        message["to"] = _cut(fact.to, 256)
    written = {"channel": "messages", "value": message, "reducer": "append", "nodeId": node}
    return "channel.written", node, written | {"writtenAt": millis(scene.at)}, None


def _epoch(at: str) -> int:
    """Milliseconds since 1970; 0 before that."""
    time = millis(at)
    if time < "1970":
        return 0
    minute = datetime.fromisoformat(f"{time[:16]}:00+00:00")
    # The seconds are added separately: the last minute of a day may have 61.
    return int(minute.timestamp()) * 1000 + int(time[17:19]) * 1000 + int(time[20:23])


def _write_decided(fact: Decided, scene: Scene, node: str) -> Sentence:
    agent = _agent(fact.by or fact.agent)
    if fact.name == "runOrchestrator" and isinstance(fact.verdict, dict):
        decided = {"agentId": agent, "decision": fact.verdict}
        if _fits("runOrchestrator.decided", decided):
            if fact.verdict["kind"] == "next-worker":
                scene.memory["directed"] = _cut(scene.id)
            return "runOrchestrator.decided", node, decided, None
    verdict = fact.verdict
    if verdict is None and fact.score is not None:
        verdict = {"score": fact.score}
    payload: Body = {"agentId": agent, "decision": verdict}
    if fact.confidence is not None and 0 <= fact.confidence <= 1:
        payload["confidence"] = fact.confidence
        if fact.confidence < THRESHOLD:
            scene.memory[f"unsure {node}"] = _cut(scene.id)
    return (
        "agent.decided",
        node,
        payload | ({"reasoning": fact.reason} if fact.reason else {}),
        None,
    )


def _write_asked(fact: Asked, scene: Scene, node: str) -> Sentence:
    key = _key(fact.question_id)
    scene.memory[f"question {fact.question_id}"] = node, _cut(scene.id)
    scene.memory[f"asked {node}"] = f"int:{key}", _cut(scene.id)
    question: Body = {"id": "answer", "question": fact.text or fact.what or "?"}
    payload: Body = {"kind": "clarification", "key": key, "data": {"questions": [question]}}
    if isinstance(fact.schema, dict):
        payload["resumeSchema"] = fact.schema
    return "interrupt.requested", node, payload, scene.memory.pop(f"unsure {node}", None)


def _write_noted(fact: Noted, scene: Scene, node: str) -> Sentence:
    if fact.kind in TYPES and isinstance(fact.data, dict) and _fits(fact.kind, fact.data):
        suppressed = fact.kind == "cap.breached" and fact.data["kind"] == SUPPRESSED
        cause = scene.memory.pop(f"unsure {node}", None) if suppressed else None
        return fact.kind, fact.step, fact.data, cause
    level = "error" if fact.label in ("error", "refusal") else "info"
    fields = {"label": fact.label, "kind": fact.kind, "data": fact.data}
    values = {key: value for key, value in fields.items() if value is not None}
    note: Body = {"level": level, "message": fact.text or fact.label, "fields": values}
    if fact.agent:
        note["agentId"] = _agent(fact.agent)
    return "log.appended", fact.step, note, None


def _fits(kind: str, payload: Body) -> bool:
    """Whether a payload has the shape of its type."""
    if kind not in KINDS:
        return True
    event = {"eventId": "e", "runId": "r", "sequence": 0, "timestamp": "2026-01-01T00:00:00Z"}
    try:
        KINDS[kind].model_validate({**event, "type": kind, "payload": payload})
    except ValueError:
        return False
    return True


def _write_linked(fact: Linked, scene: Scene, node: str) -> Sentence | None:
    if fact.kind == "handoff" and fact.from_ and fact.to:
        giver, taker = _agent(fact.from_), _agent(fact.to)
        payload: Body = {
            "from": {"agentId": giver},
            "to": {"agentId": taker},
            "fromAgentId": giver,
            "toAgentId": taker,
        }
        payload |= {"reason": fact.reason} if fact.reason else {}
        return (
            "agent.handoff",
            node,
            payload | ({} if fact.context is None else {"context": fact.context}),
            None,
        )
    child = fact.child.get("run") if isinstance(fact.child, dict) else fact.child
    if fact.kind == "sub-run" and isinstance(child, str) and child:
        known = fact.context if isinstance(fact.context, dict) else {}
        workflow = str(known.get("workflowId") or "converted")
        dispatched = {"childRunId": child, "childWorkflowId": workflow}
        if "directed" in scene.memory:
            return "node.dispatched", node, dispatched, scene.memory["directed"]
        # node.dispatched follows a supervisor's decision, and there was none.
        note = {"level": "info", "message": f"child run {child}", "fields": dispatched}
        return "log.appended", node, note, None
    return None


def _write_spent(fact: Spent, node: str | None) -> Sentence | None:
    usage = fact.usage or {}
    names = {
        "input_tokens": "inputTokens",
        "output_tokens": "outputTokens",
        "total_tokens": "totalTokens",
        "cached_tokens": "cacheReadTokens",
        "cache_write_tokens": "cacheWriteTokens",
    }
    counts = {
        theirs: usage[ours]
        for ours, theirs in names.items()
        if isinstance(usage.get(ours), int) and usage[ours] >= 0
    }
    if not {"inputTokens", "outputTokens"} <= counts.keys():
        return None
    payload: Body = {"provider": fact.provider or "unknown", "model": fact.model or "unknown"}
    payload |= counts
    if fact.cost_usd is not None and fact.cost_usd >= 0:
        payload["costEstimateUsd"] = fact.cost_usd
    if fact.copied:
        payload["cacheHit"] = True
    return "provider.usage", node, payload, None
