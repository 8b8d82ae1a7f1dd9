"""Write the facts of any dialect as awf events."""

import json
from hashlib import sha256
from typing import Any

from tracklog.dialects import Scene, text
from tracklog.dialects.awf.line import arranged_block, ordered
from tracklog.dialects.awf.rules import UUID4
from tracklog.dialects.awf.tolerance import read_block
from tracklog.model.event import Body, Finding
from tracklog.model.fact import (
    BLOCK_KEYS,
    Began,
    Block,
    Called,
    Ended,
    Fact,
    Linked,
    Returned,
    Said,
    Spent,
)


def run_uuid(*parts: str) -> str:
    """A UUID v4 that is always the same for the same parts."""
    digest = bytearray(sha256("\n".join(parts).encode("utf-8", "surrogatepass")).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x40  # version 4
    digest[8] = digest[8] & 0x3F | 0x80  # the variant of RFC 9562
    digits = digest.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


STATUSES = ("ok", "failed", "cancelled", "timeout", "interrupted", "skipped")


def write(fact: Fact, scene: Scene) -> Body | None:
    sentence = _sentence(fact, scene)
    if sentence is None:
        return None
    kind, payload, extra = sentence
    path = "" if kind.startswith("run.") else (fact.step or fact.agent or "").replace("/", "%2F")
    seconds, _, fraction = scene.at.removesuffix("Z").partition(".")
    body: Body = {
        "seq": scene.seq,
        "run_id": _run(scene.run),
        "type": kind,
        "path": path,
        "iteration": 0,
        "timestamp": f"{seconds}.{fraction[:6]:0<6}Z",
        "payload": payload,
        **extra,
    }
    if parent := scene.memory.get("parent"):
        body["parent_run_id"] = parent
    return ordered(body)


def _run(run: Any) -> str:
    """The run's id where it is a UUID v4, else one derived from it."""
    name = str(run["run"] if isinstance(run, dict) and "run" in run else run)
    return name if UUID4.fullmatch(name) else run_uuid("tracklog", name, "")


def _sentence(fact: Fact, scene: Scene) -> tuple[str, Body, Body] | None:
    step = fact.step or fact.agent or ""
    calls = scene.memory.setdefault("sub-runs", {})
    match fact:
        case Linked(kind="sub-run") if fact.parent:
            scene.memory["parent"] = _run(fact.parent)
        case Linked(kind="sub-run") if fact.child:
            calls[step] = {"child_run_id": _run(fact.child)}
            opening = {"name": step or "sub-run", "kind": "call_workflow"}
            return "step.call_workflow.started", opening, calls[step]
        case Began(what="run"):
            scene.memory["name"] = fact.task or "run"
            return "run.started", {"name": scene.memory["name"], "kind": "workflow"}, {}
        case Began() if step not in calls:
            return "step.started", {"name": step, "kind": fact.what}, {}
        case Ended(what="run"):
            name = scene.memory.get("name", "run")
            return "run.completed", {"name": name, "kind": "workflow", **_write_end(fact)}, {}
        case Ended() if step in calls:
            ending = {"name": step or "sub-run", "kind": "call_workflow", **_write_end(fact)}
            return "step.call_workflow.completed", ending, calls.pop(step)
        case Ended():
            return "step.completed", {"name": step, "kind": fact.what, **_write_end(fact)}, {}
        case Said():
            return _write_message(fact)
        case Called():
            scene.memory[f"call {fact.call_id}"] = (fact.tool, fact.input)
            return "tool.call", _write_call(fact), {}
        case Returned():
            return "tool.result", _write_result(fact, scene), {}
        case Spent():
            return "message.assistant", {"role": "assistant", "blocks": [], **_write_cost(fact)}, {}
    return None


def _write_end(fact: Ended) -> Body:
    status = {True: "ok", False: "failed", None: None}[fact.passed]
    status = fact.outcome if fact.outcome in STATUSES else status
    error = fact.error if isinstance(fact.error, str) else fact.reason
    if fact.passed is False:
        error = error or fact.outcome or "failed"
    fields = {
        "error": error if fact.passed is False else None,
        "status": status,
        "exit_code": fact.exit_code,
        "duration_ms": None if fact.seconds is None else fact.seconds * 1000,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _mark(fact: Fact) -> str:
    return "router" if fact.fidelity == "observed" else "agent_emitted"


def _write_message(fact: Said) -> tuple[str, Body, Body]:
    role = "user" if fact.role in ("user", "system", "world") else "assistant"
    blocks = [_write_block(block, fact) for block in fact.blocks]
    fields = {"model": fact.model, "stop_reason": fact.stop_reason}
    extra = {key: value for key, value in fields.items() if value is not None}
    return f"message.{role}", {"role": role, "blocks": blocks, **extra}, {}


def _write_block(block: Block, fact: Said) -> Body:
    """AWF-26: only the six types are written; any other block is put into a stream block."""
    name = text(block.get("type")) or ""
    mark = {"fidelity": _mark(fact)}
    findings: list[Finding] = []
    full: Body = read_block(dict(block), findings)
    if name not in BLOCK_KEYS or not all(_fits(key, full) for key in BLOCK_KEYS[name]):
        chunk = json.dumps(dict(block), ensure_ascii=False)
        return {"type": "stream", **mark, "chunk": chunk, "provider_type": name}
    if fact.role == "thought" and name == "text":
        return {"type": "thinking", **mark, "thinking": full["text"]}
    part = {"part": "system_prompt"} if fact.role == "system" and name == "text" else {}
    full |= mark | part
    return arranged_block(full)


def _fits(key: str, block: Body) -> bool:
    return key in ("tool_input", "tool_content") or isinstance(block.get(key), str)


def _write_call(fact: Called) -> Body:
    use = {"tool_name": fact.tool, "tool_id": fact.call_id, "tool_input": fact.input}
    body: Body = {"name": fact.tool, "call_id": fact.call_id, "input": fact.input, "output": None}
    body |= {"fidelity": _mark(fact)}
    body |= {"blocks": [{"type": "tool_use", "fidelity": _mark(fact), **use}]}
    fields = {"provider_call_id": fact.provider_call_id, "tool_server": fact.tool_server}
    return body | {key: value for key, value in fields.items() if value is not None}


def _write_result(fact: Returned, scene: Scene) -> Body:
    tool, given = scene.memory.get(f"call {fact.call_id}", ("unknown", None))
    error = fact.error if isinstance(fact.error, str) else None
    output = None if error else fact.output
    body: Body = {"name": fact.tool or tool, "call_id": fact.call_id, "input": given}
    body |= {"output": output, **({"error": error} if error else {}), "fidelity": _mark(fact)}
    result = {"tool_id": fact.call_id, "tool_content": error or output}
    body |= {"blocks": [{"type": "tool_result", "fidelity": _mark(fact), **result}]}
    if fact.ok is False and not error:
        body["is_error"] = True
    return body | ({} if fact.seconds is None else {"duration_ms": fact.seconds * 1000})


def _write_cost(fact: Spent) -> Body:
    fields = {
        "provider": fact.provider,
        "model": fact.model,
        "usage": dict(fact.usage) if fact.usage else None,
        "cost_usd": fact.cost_usd,
    }
    return {key: value for key, value in fields.items() if value is not None}
