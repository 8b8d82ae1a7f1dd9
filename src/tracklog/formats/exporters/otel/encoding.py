"""Spans as the bytes of an OTLP request, in JSON or in protobuf."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.formats.exporters import MAPPING, dumps, nanoseconds
from tracklog.formats.exporters.otel.spans import ExportSpan, Values
from tracklog.formats.protobuf_fields import (
    bytes_field,
    double_field,
    fixed_field,
    integer_field,
    text_field,
)


class Encoding(ABC):
    """An encoding of spans."""

    def __init__(self, schema_url: str) -> None:
        self.schema_url = schema_url

    def begin(self) -> Iterator[bytes]:
        yield from ()

    def open(self, resource: Values) -> Iterator[bytes]:
        self.resource = resource
        yield from ()

    @abstractmethod
    def spans(self, spans: list[ExportSpan]) -> Iterator[bytes]: ...

    def close(self) -> Iterator[bytes]:
        yield from ()

    def end(self) -> Iterator[bytes]:
        yield from ()


SCOPE = {"tracklog.export.mapping": MAPPING}


class Json(Encoding):
    """OTLP as JSON: ids in hex, 64-bit integers as text."""

    begun = False

    def begin(self) -> Iterator[bytes]:
        yield b'{"resourceSpans":['

    def open(self, resource: Values) -> Iterator[bytes]:
        scope = {"name": "tracklog", "attributes": _pairs(SCOPE)}
        content = dumps({"attributes": _pairs(resource)})
        yield b'%b{"resource":%b,"schemaUrl":%b,"scopeSpans":[{"scope":%b,"schemaUrl":%b,"spans":[' % (
            b"," if self.begun else b"", content, dumps(self.schema_url), dumps(scope),
            dumps(self.schema_url),
        )  # fmt: skip  # one template and what fills it
        self.begun, self.between = True, b""

    def spans(self, spans: list[ExportSpan]) -> Iterator[bytes]:
        for span in spans:
            yield self.between + dumps(_as_json(span))
            self.between = b","

    def close(self) -> Iterator[bytes]:
        yield b"]}]}"

    def end(self) -> Iterator[bytes]:
        yield b"]}\n"


def _as_json(span: ExportSpan) -> dict[str, Any]:
    body: dict[str, Any] = {"traceId": span.trace, "spanId": span.id}
    if span.parent and span.parent != span.id:
        body["parentSpanId"] = span.parent
    body |= {
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(nanoseconds(span.first.at)),
        "endTimeUnixNano": str(nanoseconds(span.last.at)),
        "attributes": _pairs(span.values),
    }
    if span.events:
        body["events"] = [
            {"timeUnixNano": str(at_ns), "name": name, "attributes": _pairs(values)}
            for at_ns, name, values in span.events
        ]
    if span.links:
        body["links"] = [{"traceId": trace, "spanId": other} for trace, other in span.links]
    message = {"message": span.message} if span.message else {}
    return body | ({"status": {**message, "code": span.code}} if span.code else {})


def _pairs(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int() if -(2**63) <= value < 2**63:
            return {"intValue": str(value)}
        case float() | int():
            return {"doubleValue": float(value)}
        case list() | tuple():
            return {"arrayValue": {"values": [_value(each) for each in value]}}
        case Mapping():
            return {"kvlistValue": {"values": _pairs(value)}}
        case None:
            return {}
    return {"stringValue": str(value)}


class Protobuf(Encoding):
    """OTLP as protobuf: repeated fields may come in pieces, so each piece is complete."""

    def spans(self, spans: list[ExportSpan]) -> Iterator[bytes]:
        if not spans:
            return
        resource = bytes_field(1, _attributes(1, self.resource))
        scope = bytes_field(1, text_field(1, "tracklog") + _attributes(3, SCOPE))
        url = text_field(3, self.schema_url)
        inner = scope + b"".join(bytes_field(2, _encoded(span)) for span in spans) + url
        yield bytes_field(1, resource + bytes_field(2, inner) + url)


def _attributes(number: int, values: Mapping[str, Any]) -> bytes:
    return b"".join(
        bytes_field(number, text_field(1, key) + bytes_field(2, _any(value)))
        for key, value in values.items()
    )


def _any(value: Any) -> bytes:
    match value:
        case bool():
            return integer_field(2, value)
        case int() if -(2**63) <= value < 2**63:
            return integer_field(3, value)
        case float() | int():
            return double_field(4, float(value))
        case list() | tuple():
            return bytes_field(5, b"".join(bytes_field(1, _any(each)) for each in value))
        case Mapping():
            return bytes_field(6, _attributes(1, value))
        case None:
            return b""
    return text_field(1, str(value))


def _encoded(span: ExportSpan) -> bytes:
    parts = [bytes_field(1, bytes.fromhex(span.trace)), bytes_field(2, bytes.fromhex(span.id))]
    if span.parent and span.parent != span.id:
        parts.append(bytes_field(4, bytes.fromhex(span.parent)))
    parts += [
        text_field(5, span.name),
        integer_field(6, span.kind),
        fixed_field(7, nanoseconds(span.first.at)),
        fixed_field(8, nanoseconds(span.last.at)),
        _attributes(9, span.values),
    ]
    for at_ns, name, values in span.events:
        parts.append(
            bytes_field(11, fixed_field(1, at_ns) + text_field(2, name) + _attributes(3, values))
        )
    for trace, other in span.links:
        parts.append(
            bytes_field(
                13, bytes_field(1, bytes.fromhex(trace)) + bytes_field(2, bytes.fromhex(other))
            )
        )
    if span.code:
        message = text_field(2, span.message) if span.message else b""
        parts.append(bytes_field(15, message + integer_field(3, span.code)))
    return b"".join(parts)
