"""The canonical line: keys in their order, exact numbers, no character that breaks a line."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tracklog.dialects import text
from tracklog.dialects.awf.shapes import KINDS
from tracklog.model.errors import InvalidEvent
from tracklog.model.event import Body
from tracklog.model.fact import BLOCK_KEYS

ENVELOPE = (
    "seq", "run_id", "parent_run_id", "child_run_id", "type", "path", "iteration", "timestamp",
    "payload",
)  # fmt: skip  # one table row, in its order
PAYLOADS = {
    "run": ("name", "kind", "error", "result"),
    "step": ("name", "kind", "error", "result"),
    "message": ("role", "blocks"),
    "tool": ("name", "call_id", "input", "output", "error", "fidelity", "blocks"),
}
"""The keys of each payload class in their order, by the first word of the type."""


def ordered(body: Body) -> Body:
    """The body with its keys in the order of the contract, extra keys after them, the chain last."""
    body = _arranged(body, ENVELOPE)
    payload, kind = body.get("payload"), text(body.get("type"))
    if kind in KINDS and isinstance(payload, dict):
        payload = _arranged(payload, PAYLOADS[kind.partition(".")[0]])
        if isinstance(payload.get("blocks"), list | tuple):
            payload["blocks"] = [
                arranged_block(block) if isinstance(block, Mapping) else block
                for block in payload["blocks"]
            ]
        body["payload"] = payload
    if "chain" in body:
        body["chain"] = body.pop("chain")
    return body


def _arranged(value: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    first = {key: value[key] for key in keys if key in value}
    return first | {key: part for key, part in value.items() if key not in first}


def arranged_block(block: Mapping[str, Any]) -> dict[str, Any]:
    """The block with its keys in order: type, fidelity, the keys of the type, extra keys."""
    own = BLOCK_KEYS.get(text(block.get("type")) or "", ())
    return _arranged(block, ("type", "fidelity", *own))


ESCAPED = re.compile("[\x85\u2028\u2029\ud800-\udfff]")


def canonical(body: Body) -> bytes:
    """The canonical line, without its line end; values that JSON cannot hold are refused."""
    try:
        _check_json(body, "")
        line = json.dumps(ordered(body), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except RecursionError as error:
        raise InvalidEvent("the event is nested too deeply", "is it part of itself?") from error
    # Simple splitters break lines at the first three characters; the others cannot be encoded in
    # UTF-8.
    return ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", line).encode()


def _check_json(value: Any, pointer: str) -> None:
    match value:
        case None | bool() | str() | int():
            return
        case float():
            if value - value != 0:  # NaN and the infinities
                raise InvalidEvent(
                    f"{value} at {pointer or '/'} is no JSON number", "leave it out, or write null"
                )
        case dict():
            for key, part in value.items():
                if not isinstance(key, str):
                    raise InvalidEvent(
                        f"the key {key!r} at {pointer or '/'} is no string",
                        "JSON has string keys only: write str(key)",
                    )
                _check_json(part, f"{pointer}/{key}")
        case list() | tuple():
            for place, part in enumerate(value):
                _check_json(part, f"{pointer}/{place}")
        case _:
            raise InvalidEvent(
                f"a {type(value).__name__} at {pointer or '/'} is no JSON value",
                "write it as a string, a number, a list or an object",
            )
