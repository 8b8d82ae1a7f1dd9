"""The plain shape of a span or a log record, into which both encodings of OTLP are read.

It is OTLP JSON in a canonical form: ids in lower-case hex, 64-bit integers as decimal strings,
bytes in padded base64, defaults and unknown keys left out. So an item has the same bytes, and the
same hash, in both encodings.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import orjson

Signal = Literal["traces", "logs"]
Message = dict[str, Any]

SORTED = orjson.OPT_SORT_KEYS
DEEPEST = 64
"""The deepest nesting of values; an item that is deeper is refused."""


class Undecodable(Exception):
    """A body that cannot be read at all."""


class BadItem(Exception):
    """One span or log record that is refused; the others are accepted."""

    def __init__(self, pointer: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.pointer, self.message, self.hint = pointer, message, hint


class RefusedItem(NamedTuple):
    """A refused item, with the reason."""

    pointer: str
    message: str
    hint: str


KEYS: Mapping[Signal, tuple[str, str, str]] = {
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
}


class Envelope:
    """The resource and the scope of some items, each with its `schemaUrl`, as OTLP has them."""

    __slots__ = ("before", "behind", "resource", "scope", "signal")

    def __init__(self, signal: Signal, resource: Message, scope: Message) -> None:
        self.signal, self.resource, self.scope = signal, resource, scope
        outer, inner, last = KEYS[signal]
        request = {outer: [{**resource, inner: [{**scope, last: []}]}]}
        # No other key of the plain shape has this name, and in a text its quotes are escaped.
        before, key, self.behind = orjson.dumps(request, option=SORTED).partition(
            b'"%b":[' % last.encode()
        )
        self.before = before + key


class Item(NamedTuple):
    """A span or a log record in the plain shape."""

    envelope: Envelope
    pointer: str
    body: Message

    def raw(self) -> bytes:
        """The item alone, as an OTLP request in JSON, keys sorted, compact."""
        around = self.envelope
        return around.before + orjson.dumps(self.body, None, SORTED) + around.behind


Field = tuple[str, str, bool]
"""Key in JSON, type, and whether it is repeated; a type with a capital is a message."""


def _shape(*rows: str) -> dict[int, Field]:
    shape = {}
    for row in rows:
        number, key, kind = row.split()
        shape[int(number)] = (key, kind.rstrip("*"), kind.endswith("*"))
    return shape


ENVELOPE = ("3 schemaUrl string",)
SHAPES: Mapping[str, dict[int, Field]] = {
    "Span": _shape(
        "1 traceId id",
        "2 spanId id",
        "3 traceState string",
        "4 parentSpanId id",
        "5 name string",
        "6 kind enum",
        "7 startTimeUnixNano fixed64",
        "8 endTimeUnixNano fixed64",
        "9 attributes KeyValue*",
        "10 droppedAttributesCount uint32",
        "11 events Event*",
        "12 droppedEventsCount uint32",
        "13 links Link*",
        "14 droppedLinksCount uint32",
        "15 status Status",
        "16 flags fixed32",
    ),
    "Event": _shape(
        "1 timeUnixNano fixed64",
        "2 name string",
        "3 attributes KeyValue*",
        "4 droppedAttributesCount uint32",
    ),
    "Link": _shape(
        "1 traceId id",
        "2 spanId id",
        "3 traceState string",
        "4 attributes KeyValue*",
        "5 droppedAttributesCount uint32",
        "6 flags fixed32",
    ),
    "Status": _shape("2 message string", "3 code enum"),
    "LogRecord": _shape(
        "1 timeUnixNano fixed64",
        "2 severityNumber enum",
        "3 severityText string",
        "5 body AnyValue",
        "6 attributes KeyValue*",
        "7 droppedAttributesCount uint32",
        "8 flags fixed32",
        "9 traceId id",
        "10 spanId id",
        "11 observedTimeUnixNano fixed64",
        "12 eventName string",
    ),
    "Resource": _shape(
        "1 attributes KeyValue*", "2 droppedAttributesCount uint32", "3 entityRefs EntityRef*"
    ),
    "EntityRef": _shape(
        "1 schemaUrl string", "2 type string", "3 idKeys string*", "4 descriptionKeys string*"
    ),
    "Scope": _shape(
        "1 name string",
        "2 version string",
        "3 attributes KeyValue*",
        "4 droppedAttributesCount uint32",
    ),
    "KeyValue": _shape("1 key string", "2 value AnyValue"),
    "AnyValue": _shape(
        "1 stringValue string",
        "2 boolValue bool",
        "3 intValue int64",
        "4 doubleValue double",
        "5 arrayValue ArrayValue",
        "6 kvlistValue KeyValueList",
        "7 bytesValue bytes",
    ),
    "ArrayValue": _shape("1 values AnyValue*"),
    "KeyValueList": _shape("1 values KeyValue*"),
    # Metrics are only counted: the content of a point is not read.
    "Metrics": _shape("1 resourceMetrics ResourceMetrics*"),
    "ResourceMetrics": _shape("2 scopeMetrics ScopeMetrics*"),
    "ScopeMetrics": _shape("2 metrics Metric*"),
    "Metric": _shape(
        "5 gauge Points",
        "7 sum Points",
        "9 histogram Points",
        "10 exponentialHistogram Points",
        "11 summary Points",
    ),
    "Points": _shape("1 dataPoints DataPoint*"),
    "DataPoint": {},
}
ITEMS: Mapping[Signal, str] = {"traces": "Span", "logs": "LogRecord"}
BY_KEY = {
    name: {key: (kind, many) for key, kind, many in shape.values()}
    for name, shape in SHAPES.items()
}


def double(value: float) -> Any:
    # JSON has no such number: OTLP writes it as text, and so do we.
    if math.isnan(value):
        return "NaN"
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else value


def too_deep(where: str = "") -> BadItem:
    return BadItem(where, f"values within values, more than {DEEPEST} deep", "send it flatter")


def checked(signal: Signal, body: Message) -> Message:
    """The item, if its ids are valid."""
    if signal == "traces":
        ids = body.get("traceId", ""), body.get("spanId", ""), body.get("parentSpanId", _ABOVE)
        usual = tuple(map(len, ids)) == _LENGTHS and _NO_IDS.isdisjoint(ids)
        if usual and "links" not in body:
            return body  # as most are
        _identify(body, "traceId", 32, "")
        _identify(body, "spanId", 16, "")
        _identify(body, "parentSpanId", 16, "", needed=False)
        for n, link in enumerate(body.get("links", ())):
            _identify(link, "traceId", 32, f"/links/{n}")
            _identify(link, "spanId", 16, f"/links/{n}")
    else:
        _identify(body, "traceId", 32, "", needed=False)
        _identify(body, "spanId", 16, "", needed=False)
    return body


_NO_IDS = frozenset(("0" * 32, "0" * 16))
_ABOVE = "1" * 16  # of a span that has none above it
_LENGTHS = (32, 16, 16)


def _identify(body: Message, key: str, digits: int, where: str, *, needed: bool = True) -> None:
    found = body.get(key, "")
    if not found and not needed:
        return
    if len(found) != digits or found.count("0") == digits:
        what = "it is missing" if not found else "it is no id"
        raise BadItem(f"{where}/{key}", what, f"send {digits} hex digits, not all zero")


def any_value(value: Message | None) -> Any:
    """An AnyValue as a JSON value; bytes stay base64, and NaN is a text."""
    if not value:
        return None
    ((key, found),) = value.items()
    match key:
        case "intValue":
            return int(found)
        case "arrayValue":
            return [any_value(each) for each in found.get("values", ())]
        case "kvlistValue":
            return attributes(found.get("values", ()))
    return found


_NO_VALUE: Message = {}


def attributes(pairs: Any) -> dict[str, Any]:
    """Attributes by key; of two with one key the last."""
    try:
        return {
            # Most are texts, and are read without a call.
            pair["key"]: value["stringValue"] if "stringValue" in value else any_value(value)
            for pair in pairs or ()
            for value in (pair["value"],)
        }
    except KeyError:  # one has no name, or no value
        return {pair.get("key", ""): any_value(pair.get("value", _NO_VALUE)) for pair in pairs}


def not_numbers(raw: bytes) -> bool:
    """Whether a stored item contains a double that JSON has no number for."""
    return b'"doubleValue":"' in raw  # in a text the quotes would be escaped
