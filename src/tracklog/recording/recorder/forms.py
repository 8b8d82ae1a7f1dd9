"""The check and the encoding of the payload of each type of event."""

from collections.abc import Iterable
from typing import Any

import orjson
from jsonschema_rs import Draft202012Validator

from tracklog.dialects.awf.line import PAYLOADS, canonical, ordered
from tracklog.dialects.awf.shapes import KINDS
from tracklog.dialects.schemas import schema_of
from tracklog.model import problems
from tracklog.model.errors import InvalidEvent
from tracklog.model.fact import BLOCK_KEYS

REMEMBERED = 1024
"""How many checked key orders and encoded heads are remembered."""
OWNERS = {"role": "message", "call_id": "tool", "kind": "step"}
"""The keys that distinguish the payload classes; no other class may use them."""
PLAIN = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
SPLITTERS = (
    ("\x85".encode(), rb"\u0085"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)
"""Characters at which a simple reader would split a line, and their replacement."""
CONSTRAINTS = {"type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf", "not"}
JSON_HINT = "give a dict of strings, numbers, booleans, None, lists and dicts with string keys"
JSON: dict[str, Any] = {
    "type": ["string", "number", "boolean", "null", "array", "object"],
    "items": {"$ref": "#/$defs/Json"},
    "additionalProperties": {"$ref": "#/$defs/Json"},
}
"""Any JSON value: not NaN, no bytes, no key that is not a string."""


def encode(value: Any) -> bytes:
    """Compact JSON: exact integers, escaped surrogates, no character that splits a line."""
    try:
        text = orjson.dumps(value, option=PLAIN)
    except TypeError:  # an integer of 65 bits, a lone surrogate, or a deep nesting
        return canonical(value)
    return text if text.isascii() else _unsplittable(text)


class _Orders(set[tuple[str, ...]]):
    """Orders of keys that were checked, and the last one."""

    usual: list[str] | None = None

    def remember(self, arranged: dict[str, Any]) -> None:
        if len(self) >= REMEMBERED:
            self.clear()
        self.add(tuple(arranged))
        self.usual = [*arranged]


class Form:
    """The check of one type of event; orders of keys that passed are remembered."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.word = kind.partition(".")[0]
        self.schema = _writers(schema_of(KINDS[kind]), kind)
        self.validator = Draft202012Validator(self.schema)
        self.is_valid, self.fine = self.validator.is_valid, _Orders()

    def spell(self, payload: Any) -> bytes:
        """The payload as bytes, or InvalidEvent with every problem."""
        try:
            if not self.is_valid(payload):
                raise self._refusal(payload)
        except ValueError as error:  # a key that is no string, or a value that JSON does not have
            raise InvalidEvent(f"{self.kind}: the payload is no JSON: {error}", JSON_HINT) from None
        if [*payload] != self.fine.usual and tuple(payload) not in self.fine:
            return self._arranged(payload)
        if "blocks" in payload:
            for block in payload["blocks"]:
                fine = _FINE_BLOCKS[block["type"]]
                if [*block] != fine.usual and tuple(block) not in fine:
                    return self._arranged(payload)
        try:
            text = orjson.dumps(payload, option=PLAIN)
        except TypeError:
            return canonical(payload)
        return text if text.isascii() else _unsplittable(text)

    def _refusal(self, payload: Any) -> InvalidEvent:
        try:
            canonical({"payload": payload})
        except InvalidEvent as error:
            return error  # NaN, which the schema accepts as null
        problem_list = problems.of(self.validator.iter_errors(payload), self.schema, payload)
        faults = "; ".join(f"payload{each.pointer}: {each.message}" for each in problem_list)
        return InvalidEvent(
            f"{self.kind}: {faults}", problem_list[0].hint if problem_list else JSON_HINT
        )

    def _arranged(self, payload: dict[str, Any]) -> bytes:
        """Refuse missing and misleading keys, then put all keys in order."""
        owner = "step" if self.word == "run" else self.word
        for key, other in OWNERS.items():
            if other != owner and key in payload:
                raise InvalidEvent(
                    f"{self.kind}: the key {key!r} belongs to {other} payloads",
                    "choose another name for it",
                )
        known = PAYLOADS[self.word]
        check_keys((key for key in payload if key not in known), known, f"{self.word} payloads")
        for block in payload.get("blocks", ()):
            self._check_block(block)
        body: dict[str, Any] = ordered({"type": self.kind, "payload": payload})["payload"]
        self.fine.remember(body)
        for block in body.get("blocks", ()):
            _FINE_BLOCKS[block["type"]].remember(block)
        return encode(body)

    def _check_block(self, block: dict[str, Any]) -> None:
        name = block["type"]
        own = BLOCK_KEYS[name]
        absent = [key for key in own if key not in block]
        if absent and not (name == "thinking" and "opaque" in block):
            raise InvalidEvent(
                f"{self.kind}: a {name} block without {', '.join(absent)}",
                f"a {name} block has {', '.join(own)}",
            )
        check_keys((key for key in block if key not in own), own, f"{name} blocks")


class _Forms(dict[str, Form]):
    """One form per type of event, made on first use."""

    def __missing__(self, kind: str) -> Form:
        form = self[kind] = Form(kind)
        return form


FORMS = _Forms()
_FINE_BLOCKS = {name: _Orders() for name in BLOCK_KEYS}


def check_keys(keys: Iterable[Any], known: Iterable[str], whose: str) -> None:
    """Refuse extra keys that a reader that ignores letter case would mistake for a known one."""
    names = {key.lower() for key in known}
    for key in keys:
        if key.lower() in names:
            raise InvalidEvent(
                f"the key {key!r} belongs to {whose}",
                "choose another name, or leave it to the recorder",
            )


def _unsplittable(text: bytes) -> bytes:
    for raw, escaped in SPLITTERS:
        if raw in text:
            text = text.replace(raw, escaped)
    return text


def _writers(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    """The payload schema of the dialect, narrowed to what may be written.

    AWF-26: no foreign type of block; and no values that JSON does not have, such as NaN.
    """
    shapes = {name: _narrowed(shape) for name, shape in schema["$defs"].items()}
    payload = shapes[schema["properties"]["payload"]["$ref"].rpartition("/")[2]]
    if "role" in payload["properties"]:
        payload["properties"]["role"] = {"const": kind.rpartition(".")[2]}
    payload["properties"]["blocks"] = {"type": "array", "items": {"$ref": "#/$defs/Block"}}
    blocks = [shape for name, shape in shapes.items() if name.endswith("Block")]
    return {**payload, "$defs": {"Block": _merged(blocks), "Json": JSON}}


def _narrowed(schema: dict[str, Any]) -> dict[str, Any]:
    if not CONSTRAINTS & schema.keys():
        return {"$ref": "#/$defs/Json"}
    narrow = dict(schema)
    if "properties" in schema:
        narrow["properties"] = {key: _narrowed(each) for key, each in schema["properties"].items()}
    if schema.get("type") == "object":
        narrow["additionalProperties"] = {"$ref": "#/$defs/Json"}
    return narrow


def _merged(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema for the blocks of all types, faster than a union.

    The required keys of each type are checked once for each order of keys.
    """
    parts = {key: part for block in blocks for key, part in block["properties"].items()}
    return {
        "type": "object",
        "properties": parts | {"type": {"enum": list(BLOCK_KEYS)}},
        "required": ["type", "fidelity"],
        "additionalProperties": {"$ref": "#/$defs/Json"},
    }
