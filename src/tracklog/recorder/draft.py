"""An event on its way to a transcript: checked, in bytes, and not yet numbered."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

import orjson
from jsonschema_rs import Draft202012Validator

from tracklog import __version__, problems
from tracklog.dialects.awf.line import ENVELOPE, PAYLOADS, canonical, ordered
from tracklog.dialects.awf.rules import UUID4
from tracklog.dialects.awf.shapes import KINDS
from tracklog.errors import InvalidEvent, UnsafeTranscript
from tracklog.schemas import schema_of

SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
MARK = "tracklog/"
PRODUCER = f"{MARK}{__version__}"
SCHEMA_VERSION = 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REMEMBERED = 1024
"""How many spellings of heads and of keys are remembered, so that each is judged once."""

RESERVED = ("elapsed_ms", "seam", "lost", "chain")
"""Extra keys that only the recorder itself can know."""
OWNERS = {"role": "message", "call_id": "tool", "kind": "step"}
"""The keys by which a reader tells the classes of payload apart; no other class may use them."""

PLAIN = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
SPLITTERS = (
    ("\x85".encode(), rb"\u0085"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)
"""Characters at which a naive reader would split a line, and what is written instead."""
CONSTRAINTS = {"type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf", "not"}
JSON_HINT = "give a dict of strings, numbers, booleans, None, lists and dicts with string keys"


class Draft(NamedTuple):
    """An event without its number and its time."""

    type: str
    head: bytes
    """From the comma after the number through the quote before the time."""
    payload: bytes
    extras: bytes
    """Each with a comma in front."""
    at: int | None = None
    """In nanoseconds since 1970; None for the moment of writing."""
    elapsed: int | None = None
    """In nanoseconds since the recorder opened; None for the moment of writing."""
    lost: int = 0
    """How many events before it were given up."""

    @property
    def size(self) -> int:
        return len(self.head) + len(self.payload) + len(self.extras)


class Drafts:
    """Makes the drafts of one run: refuses what may not be written, and spells out the rest."""

    def __init__(
        self,
        run_id: str,
        parent_run_id: str | None,
        *,
        resumes: Callable[[], bool] = lambda: False,
        any_id: bool = False,
    ) -> None:
        self.run_id, self.parent_run_id = run_id, parent_run_id
        self._resumes = resumes
        self._any_id = any_id
        self._heads: dict[tuple[str, str, int, str | None], bytes] = {}
        self._extras: set[tuple[str, ...]] = set()

    def draft(
        self,
        kind: str,
        payload: Any,
        path: str,
        iteration: int,
        child_run_id: str | None,
        extras: dict[str, Any],
    ) -> Draft:
        """InvalidEvent if it may not be written."""
        try:
            head = self._heads[kind, path, iteration, child_run_id]
        except (KeyError, TypeError):
            head = self._head(kind, path, iteration, child_run_id)
        if kind == "run.started" and isinstance(payload, dict):
            payload = self._marked(payload)
        spelled = _form(kind).spell(payload)
        if not extras:
            return Draft(kind, head, spelled, b"")
        at = nanoseconds(extras.pop("timestamp")) if "timestamp" in extras else None
        return Draft(kind, head, spelled, self._spell_extras(extras), at)

    def _head(self, kind: str, path: str, iteration: int, child_run_id: str | None) -> bytes:
        if not isinstance(kind, str) or kind not in KINDS:  # AWF-15
            known = ", ".join(KINDS)
            raise InvalidEvent(f"{kind!r} is no type of event", f"the types are: {known}")
        if not isinstance(path, str):
            raise InvalidEvent(f"path is {path!r}", "give step names joined by dots, or ''")
        if kind.startswith("run.") and path:
            raise InvalidEvent(f"{kind} has the path {path!r}", "events of the run have no path")
        if isinstance(iteration, bool) or not isinstance(iteration, int) or iteration < 0:
            raise InvalidEvent(f"iteration is {iteration!r}", "give a whole number, 0 or more")
        self._check_child(kind, child_run_id)
        envelope = {
            "run_id": self.run_id,
            "parent_run_id": self.parent_run_id,
            "child_run_id": child_run_id,
            "type": kind,
            "path": path,
            "iteration": iteration,
        }
        present = {key: value for key, value in envelope.items() if value is not None}
        head = b"," + encode(present)[1:-1] + b',"timestamp":"'
        if len(self._heads) >= REMEMBERED:
            self._heads.clear()
        self._heads[kind, path, iteration, child_run_id] = head
        return head

    def _check_child(self, kind: str, child_run_id: str | None) -> None:
        calls = kind.startswith("step.call_workflow.")
        if calls and child_run_id is None:  # AWF-19
            raise InvalidEvent(f"{kind} without child_run_id", "give the id of the child run")
        if not calls and child_run_id is not None:
            raise InvalidEvent(
                f"child_run_id on {kind}", "only step.call_workflow.* names a child run"
            )
        if child_run_id is not None:
            fault = id_fault(child_run_id, any_id=self._any_id)
            if fault:
                raise InvalidEvent(*fault)

    def _marked(self, payload: dict[str, Any]) -> dict[str, Any]:
        marks = {"schema_version": SCHEMA_VERSION, "producer": PRODUCER}
        resumed = {"resumed": True} if self._resumes() else {}
        return {**payload, **marks, **resumed}

    def _spell_extras(self, extras: dict[str, Any]) -> bytes:
        keys = tuple(extras)
        if keys not in self._extras:
            _check_keys(keys, (*ENVELOPE, *RESERVED), "the envelope")
            if len(self._extras) >= REMEMBERED:
                self._extras.clear()
            self._extras.add(keys)
        given = {key: value for key, value in extras.items() if value is not None}
        if not given:
            return b""
        try:
            valid = _extras_check().is_valid(given)
        except ValueError as error:
            raise InvalidEvent(f"an extra key is no JSON: {error}", JSON_HINT) from None
        if not valid:
            fault = next(iter(_extras_check().iter_errors(given)))
            place = problems.pointer(fault.instance_path)
            raise InvalidEvent(f"{place}: {fault.message}", "step_seq and attempt count from 1")
        return b"," + encode(given)[1:-1]


class _Form:
    """What the payload of one type of event must look like; orders of keys are remembered."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.word = kind.partition(".")[0]
        self.schema = _writers(schema_of(KINDS[kind]), kind)
        self.validator = Draft202012Validator(self.schema)
        self.fine: set[tuple[str, ...]] = set()

    def spell(self, payload: Any) -> bytes:
        """The payload in bytes, or InvalidEvent with everything that is wrong."""
        try:
            valid = self.validator.is_valid(payload)
        except ValueError as error:  # a key that is no string, or a value that JSON has not
            raise InvalidEvent(f"{self.kind}: the payload is no JSON: {error}", JSON_HINT) from None
        if not valid:
            raise self._refusal(payload)
        fine = self.fine
        if tuple(payload) in fine:
            for block in payload.get("blocks", ()):
                if tuple(block) not in fine:
                    break
            else:
                return encode(payload)
        return self._arranged(payload)

    def _refusal(self, payload: Any) -> InvalidEvent:
        found = problems.of(self.validator.iter_errors(payload), self.schema, payload)
        faults = "; ".join(f"payload{each.pointer}: {each.message}" for each in found)
        return InvalidEvent(f"{self.kind}: {faults}", found[0].hint if found else JSON_HINT)

    def _arranged(self, payload: dict[str, Any]) -> bytes:
        """Refuse keys that a reader would misread, then put the others in their order."""
        owner = "step" if self.word == "run" else self.word
        for key, other in OWNERS.items():
            if other != owner and key in payload:
                raise InvalidEvent(
                    f"{self.kind}: the key {key!r} belongs to {other} payloads",
                    "choose another name for it",
                )
        known = PAYLOADS[self.word]
        _check_keys((key for key in payload if key not in known), known, f"{self.word} payloads")
        body = ordered({"type": self.kind, "payload": payload})["payload"]
        self._remember(body)
        for block in body.get("blocks", ()):
            self._remember(block)
        return encode(body)

    def _remember(self, arranged: dict[str, Any]) -> None:
        if len(self.fine) >= REMEMBERED:
            self.fine.clear()
        self.fine.add(tuple(arranged))


def encode(value: Any) -> bytes:
    """Compact JSON: exact integers, escaped surrogates, nothing that splits a line."""
    try:
        text = orjson.dumps(value, option=PLAIN)
    except TypeError:  # an integer of 65 bits, a lone surrogate, a deep nest
        return canonical(value)
    return text if text.isascii() else _unsplittable(text)


def check(event: dict[str, Any]) -> None:
    """InvalidEvent if the payload or an extra key of a whole event may not be written."""
    _form(event["type"]).spell(event.get("payload"))
    extras = {key: value for key, value in event.items() if key not in ENVELOPE}
    if not _extras_check().is_valid(extras):
        raise InvalidEvent("an extra key has a value that may not be written", JSON_HINT)


def id_fault(run_id: Any, *, any_id: bool = False) -> tuple[str, str] | None:
    """AWF-63: a run id is a lower-case UUID v4; it becomes the name of a file."""
    pattern = SAFE_ID if any_id else UUID4
    if isinstance(run_id, str) and pattern.fullmatch(run_id):
        return None
    hint = "give the run's UUID v4 in lower case: str(uuid.uuid4())"
    if any_id:
        hint = "1 to 128 of A-Z a-z 0-9 . _ -, first a letter or a digit"
    return f"{run_id!r} is no run id", hint


def check_id(run_id: Any, *, any_id: bool = False) -> None:
    """Refuse to open a transcript for what is no run id."""
    fault = id_fault(run_id, any_id=any_id)
    if fault:
        raise UnsafeTranscript(*fault)


def nanoseconds(at: Any) -> int:
    """A time of the caller's, as nanoseconds since 1970."""
    if not isinstance(at, datetime) or at.utcoffset() is None:
        raise InvalidEvent(f"the timestamp {at!r} has no zone", "give an aware datetime")
    return (at - EPOCH) // timedelta(microseconds=1) * 1000


def _unsplittable(text: bytes) -> bytes:
    for raw, escaped in SPLITTERS:
        if raw in text:
            text = text.replace(raw, escaped)
    return text


def _check_keys(keys: Iterable[Any], known: Iterable[str], whose: str) -> None:
    """A reader that ignores letter case must not take an extra key for a known one."""
    names = {key.lower() for key in known}
    for key in keys:
        if key.lower() in names:
            raise InvalidEvent(
                f"the key {key!r} belongs to {whose}",
                "choose another name, or leave it to the recorder",
            )


@cache
def _form(kind: str) -> _Form:
    return _Form(kind)


JSON: dict[str, Any] = {
    "type": ["string", "number", "boolean", "null", "array", "object"],
    "items": {"$ref": "#/$defs/Json"},
    "additionalProperties": {"$ref": "#/$defs/Json"},
}


@cache
def _extras_check() -> Draft202012Validator:
    number = {"type": "integer", "minimum": 1}
    return Draft202012Validator(
        {
            "type": "object",
            "properties": {
                "step_seq": number,
                "attempt": number,
                "frames": {"type": "array", "items": {"type": "object"}},
                "span_id": {"type": "string"},
                "parent_span_id": {"type": "string"},
            },
            "additionalProperties": {"$ref": "#/$defs/Json"},
            "$defs": {"Json": JSON},
        }
    )


def _writers(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    """What the dialect takes as a payload, narrowed to what may be written.

    AWF-26: no foreign type of block; and no free place for what JSON has not, NaN above all.
    """
    shapes = {name: _narrowed(shape) for name, shape in schema["$defs"].items()}
    if "Message" in shapes:
        shapes["Message"]["properties"]["role"] = {"const": kind.rpartition(".")[2]}
    return {**schema["properties"]["payload"], "$defs": {**shapes, "Json": JSON}}


def _narrowed(schema: Any) -> Any:
    if not CONSTRAINTS & schema.keys():
        return {"$ref": "#/$defs/Json"}
    narrow = dict(schema)
    if "properties" in schema:
        narrow["properties"] = {key: _narrowed(each) for key, each in schema["properties"].items()}
    if "anyOf" in schema:
        kept = [each for each in schema["anyOf"] if each.get("$ref") != "#/$defs/OtherBlock"]
        narrow["anyOf"] = [_narrowed(each) for each in kept]
    if schema.get("type") == "array":
        narrow["items"] = _narrowed(schema.get("items", {}))
    if schema.get("type") == "object":
        narrow["additionalProperties"] = {"$ref": "#/$defs/Json"}
    return narrow
