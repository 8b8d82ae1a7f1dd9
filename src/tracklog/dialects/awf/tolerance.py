"""Deviations in files of the original program that one line shows; each is read with a finding."""

import re
from datetime import UTC, datetime
from typing import Any

from tracklog.dialects import text
from tracklog.dialects.awf.shapes import KINDS
from tracklog.model.event import Body, Finding
from tracklog.model.fact import BLOCK_KEYS

STAND_IN: Body = {"name": "", "kind": ""}
"""The payload of a run event where the original wrote null: nothing is known."""


def tolerate(body: Body) -> tuple[Body, list[Finding]]:
    """Apply the tolerances that one line needs, with a finding for each."""
    findings: list[Finding] = []
    body = _read_time(body, findings)
    kind = text(body.get("type")) or ""
    brief = bool(kind) and "iteration" not in body
    if brief:
        findings.append(Finding("no-iteration", f"{kind} without iteration, read as 0"))
        body = body | {"iteration": 0}
        if kind == "step.call_workflow.completed" and "child_run_id" not in body:
            findings.append(Finding("no-child", f"{kind} without child_run_id"))
            body |= {"child_run_id": ""}
    if kind in ("run.started", "run.completed") and body.get("payload", "") in (None, {}):
        empty = body["payload"] is None
        name, word = ("payload-null", "a null") if empty else ("payload-empty", "an empty")
        findings.append(Finding(name, f"{kind} with {word} payload"))
        return body | {"payload": STAND_IN}, findings
    payload = body.get("payload")
    if kind in KINDS and isinstance(payload, dict):
        read_payload = _read_brief(body, kind, payload, findings) if brief else payload
        read_payload = _read_payload(kind, read_payload, findings)
        body = body if read_payload is payload else body | {"payload": read_payload}
    return body, findings


def _read_brief(body: Body, kind: str, payload: Body, findings: list[Finding]) -> Body:
    """The payload of a line that has only the keys of the transcript's guide.

    Such a line has no `iteration`. The other keys, which only the field reference names, are
    derived from the line.
    """
    filled: Body = {}
    match kind.partition(".")[0]:
        case "tool":
            filled = _brief_tool(kind, payload)
        case "message":
            filled = {"role": kind.partition(".")[2]}
            if kind == "message.user" and isinstance(payload.get("prompt"), str):
                filled["blocks"] = [
                    {"type": "text", "fidelity": "router", "text": payload[part], "part": part}
                    for part in ("prompt", "system_prompt")
                    if isinstance(payload.get(part), str)
                ]
        case "step":
            filled = {"name": (text(body.get("path")) or "").rpartition(".")[2]}
            if "call_workflow" in kind:
                filled["kind"] = "call_workflow"
            elif kind == "step.completed":
                filled["kind"] = ""
        case "run":
            filled = {"name": "", "kind": "workflow"}
    filled = {key: value for key, value in filled.items() if key not in payload}
    if not filled:
        return payload
    findings.append(Finding("brief-payload", f"{kind} without {', '.join(filled)} in its payload"))
    return payload | filled


def _brief_tool(kind: str, payload: Body) -> Body:
    """The keys of a tool payload, taken from its one block or from the keys of a block.

    A call has no output, and a result need not repeat its input. A result may have no id, because
    the guide names none in its block. A call without an id or a name is refused.
    """
    blocks = payload.get("blocks")
    first = blocks[0] if isinstance(blocks, list) and blocks else payload
    if not isinstance(first, dict):
        return {}
    ended = kind == "tool.result"
    id = payload.get("call_id", first.get("tool_id"))
    if ended and id is None and {"tool_content", "output"} & (first.keys() | payload.keys()):
        id = ""
    nameless = "" if ended or "tool_id" in first else None
    name = payload.get("name", first.get("tool_name", nameless))
    if not isinstance(id, str) or not isinstance(name, str):
        return {}
    output = first.get("tool_content") if ended else None
    return {"name": name, "call_id": id, "input": first.get("tool_input"), "output": output}


LOCAL = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?([+-][0-9]{2}:[0-9]{2})"
)


def _read_time(body: Body, findings: list[Finding]) -> Body:
    local = LOCAL.fullmatch(text(body.get("timestamp")) or "")
    if not local:
        return body
    seconds, fraction, offset = local.groups()
    try:
        moved = datetime.fromisoformat(seconds + offset).astimezone(UTC)
    except (ValueError, OverflowError):
        return body  # no such day: the check reports it
    findings.append(Finding("time-local", f"{local[0]} was read in UTC", "info"))
    return body | {"timestamp": f"{moved.isoformat()[:19]}{fraction or ''}Z"}


def _read_payload(kind: str, payload: Body, findings: list[Finding]) -> Body:
    if kind.startswith("tool.") and "blocks" not in payload:
        return _restated(kind, payload, findings)
    if "blocks" in payload and payload["blocks"] is None:
        findings.append(Finding("blocks-null", "blocks is null, read as empty"))
        return payload | {"blocks": []}
    blocks = payload.get("blocks")
    if not isinstance(blocks, list):
        return payload
    read = [read_block(block, findings) for block in blocks]
    same = all(new is old for new, old in zip(read, blocks, strict=True))
    return payload if same else payload | {"blocks": read}


def _restated(kind: str, payload: Body, findings: list[Finding]) -> Body:
    """A tool payload with the one block that repeats it, where it has none."""
    name, id, fidelity = (payload.get(key) for key in ("name", "call_id", "fidelity"))
    words = isinstance(name, str) and isinstance(id, str) and isinstance(fidelity, str)
    own, other = ("input", "output") if kind == "tool.call" else ("output", "input")
    if not words or own not in payload:
        return payload  # nothing to repeat: the check reports what is missing
    block: Body = {"type": "tool_use", "fidelity": fidelity, "tool_name": name, "tool_id": id}
    if kind == "tool.call":
        block["tool_input"] = payload["input"]
    else:
        block |= {"type": "tool_result", "tool_content": payload["output"]}
    findings.append(
        Finding("no-blocks", f"{kind} without blocks: read as one block with the same content")
    )
    return {other: None} | payload | {"blocks": [block]}


def read_block(block: Any, findings: list[Finding]) -> Any:
    name = block.get("type") if isinstance(block, dict) else None
    if not isinstance(name, str) or name not in BLOCK_KEYS or "opaque" in block:
        return block
    absent = [key for key in BLOCK_KEYS[name] if key not in block]
    if not absent:
        return block
    findings.append(Finding("block-key", f"a {name} block without {', '.join(absent)}"))
    empty: Body = {"tool_input": None, "tool_content": None}
    if name == "stream":
        empty["chunk"] = block.get("text", "")
    return block | {key: empty.get(key, "") for key in absent}
