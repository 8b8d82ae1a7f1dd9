"""What the original left on disk and a single line shows, read with a finding each."""

import re
from datetime import UTC, datetime
from typing import Any

from tracklog.dialects import text
from tracklog.dialects.awf.shapes import KINDS
from tracklog.event import Body, Finding
from tracklog.fact import BLOCK_KEYS

STAND_IN: Body = {"name": "", "kind": ""}
"""A run event's payload where the original left it null: nothing is known."""


def tolerate(body: Body) -> tuple[Body, list[Finding]]:
    """The rows of the original's habits that a single line shows, each read with its finding."""
    found: list[Finding] = []
    body = _read_time(body, found)
    kind = body.get("type")
    if kind in ("run.started", "run.completed") and body.get("payload", "") is None:
        found.append(Finding("payload-null", f"{kind} with a null payload"))
        return body | {"payload": STAND_IN}, found
    payload = body.get("payload")
    if kind in list(KINDS) and isinstance(payload, dict):
        read_payload = _read_payload(payload, found)
        body = body if read_payload is payload else body | {"payload": read_payload}
    return body, found


LOCAL = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?([+-][0-9]{2}:[0-9]{2})"
)


def _read_time(body: Body, found: list[Finding]) -> Body:
    local = LOCAL.fullmatch(text(body.get("timestamp")) or "")
    if not local:
        return body
    whole, fraction, offset = local.groups()
    try:
        moved = datetime.fromisoformat(whole + offset).astimezone(UTC)
    except (ValueError, OverflowError):
        return body  # no such day: the check says so
    found.append(Finding("time-local", f"{local[0]} was read in UTC", "info"))
    return body | {"timestamp": f"{moved.isoformat()[:19]}{fraction or ''}Z"}


def _read_payload(payload: Body, found: list[Finding]) -> Body:
    if "blocks" in payload and payload["blocks"] is None:
        found.append(Finding("blocks-null", "blocks is null, read as empty"))
        return payload | {"blocks": []}
    blocks = payload.get("blocks")
    if not isinstance(blocks, list):
        return payload
    whole = [read_block(block, found) for block in blocks]
    same = all(new is old for new, old in zip(whole, blocks, strict=True))
    return payload if same else payload | {"blocks": whole}


def read_block(block: Any, found: list[Finding]) -> Any:
    name = block.get("type") if isinstance(block, dict) else None
    if not isinstance(name, str) or name not in BLOCK_KEYS or "opaque" in block:
        return block
    absent = [key for key in BLOCK_KEYS[name] if key not in block]
    if not absent:
        return block
    found.append(Finding("block-key", f"a {name} block without {', '.join(absent)}"))
    empty: Body = {"tool_input": None, "tool_content": None}
    if name == "stream":
        empty["chunk"] = block.get("text", "")
    return block | {key: empty.get(key, "") for key in absent}
