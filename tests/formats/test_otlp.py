"""OTLP comes in: both encodings, exact answers, and what spans and log records tell."""

import gzip
import json
import math
import os
import re
import struct
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path

import httpx
import orjson
import pytest
from google.protobuf import json_format
from google.rpc.status_pb2 import Status
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from support.asking import ask
from support.collecting import Collector, collector
from support.failing import FailingDisk
from support.telemetry import (
    TRACE,
    Door,
    as_protobuf,
    chat,
    logs,
    message,
    pairs,
    span,
    traces,
    value,
)
from tracklog.dialects import tracklog as native
from tracklog.formats.importers import LineWriter, run_id
from tracklog.formats.importers._reading import SourceReading
from tracklog.formats.importers.otlp import MAPPING, attrs, importer, wire, write_items
from tracklog.formats.importers.otlp.attrs import Attrs
from tracklog.formats.importers.otlp.memory import KnownFacts, Memory
from tracklog.formats.importers.otlp.shape import SHAPES
from tracklog.formats.importers.otlp.view import spelled
from tracklog.formats.protobuf_fields import varint
from tracklog.journal.blobs import FileBlobs
from tracklog.testing import ImporterSuite
from tracklog.web.trouble import Trouble

SAMPLES = sorted((Path(__file__).parents[1] / "samples/otlp").glob("*.json"))
PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def door(tmp_path):
    made = Door(tmp_path / "home")
    yield made
    made.close()


# The wire.


def from_json(signal, body):
    return wire.from_document(signal, wire.parsed(body))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
attributes = st.dictionaries(texts, values, max_size=4).map(pairs)
ids = st.integers(1, 2**64 - 1).map(lambda number: f"{number:016x}")
trace_ids = st.integers(1, 2**128 - 1).map(lambda number: f"{number:032x}")
times = st.integers(0, 2**64 - 1).map(str)
spans = st.fixed_dictionaries(
    {"traceId": trace_ids, "spanId": ids},
    optional={
        "parentSpanId": ids,
        "name": texts,
        "kind": st.integers(0, 5),
        "startTimeUnixNano": times,
        "endTimeUnixNano": times,
        "attributes": attributes,
        "droppedAttributesCount": st.integers(0, 2**32 - 1),
        "flags": st.integers(0, 2**32 - 1),
        "events": st.lists(
            st.fixed_dictionaries({"name": texts, "timeUnixNano": times, "attributes": attributes}),
            max_size=2,
        ),
        "links": st.lists(st.fixed_dictionaries({"traceId": trace_ids, "spanId": ids}), max_size=2),
        "status": st.fixed_dictionaries({"code": st.integers(0, 2), "message": texts}),
    },
)
records = st.fixed_dictionaries(
    {},
    optional={
        "timeUnixNano": times,
        "observedTimeUnixNano": times,
        "severityNumber": st.integers(0, 24),
        "eventName": texts,
        "body": values.map(value),
        "attributes": attributes,
        "traceId": trace_ids,
        "spanId": ids,
    },
)


def items_of(found):
    return [(item.raw(), item.body) for item in found]


@settings(max_examples=60, deadline=None)
@given(st.lists(spans, max_size=3), attributes)
def test_both_encodings_of_spans_read_the_same(given_spans, resource):
    held = {"attributes": resource}
    document = {"resourceSpans": [{"resource": held, "scopeSpans": [{"spans": given_spans}]}]}
    by_json = [*from_json("traces", orjson.dumps(document))]
    by_protobuf = [*wire.from_protobuf("traces", as_protobuf("traces", document))]
    assert [item.raw() for item in by_json] == [item.raw() for item in by_protobuf]
    assert len(by_json) == len(given_spans)


@settings(max_examples=60, deadline=None)
@given(st.lists(records, max_size=3))
def test_both_encodings_of_log_records_read_the_same(given_records):
    document = {"resourceLogs": [{"scopeLogs": [{"scope": {}, "logRecords": given_records}]}]}
    by_json = [*from_json("logs", orjson.dumps(document))]
    by_protobuf = [*wire.from_protobuf("logs", as_protobuf("logs", document))]
    assert items_of(by_json) == items_of(by_protobuf)
    assert len(by_json) == len(given_records)


def test_an_item_read_from_its_own_bytes_has_the_same_bytes():
    """So a blob can be imported again."""
    document = traces(span(1, attributes={"a": [1, {"b": 2.5}], "n": None}))
    (item,) = wire.from_document("traces", document)
    (again,) = from_json("traces", item.raw())
    assert again.raw() == item.raw()


def field(number, kind, content):
    head = varint(number << 3 | kind)
    return head + (varint(len(content)) + content if kind == 2 else content)


def in_request(item):
    return field(1, 2, field(2, 2, field(2, 2, item)))


IDS = field(1, 2, bytes.fromhex(TRACE)) + field(2, 2, bytes(7) + b"\1")


def test_unknown_fields_are_skipped_by_their_wire_type():
    strange = b"".join(
        (
            field(99, 0, varint(7)),
            field(98, 1, bytes(8)),
            field(97, 2, b"xyz"),
            field(96, 5, bytes(4)),
            field(5, 0, varint(3)),  # a name that is no text
        )
    )
    (item,) = wire.from_protobuf("traces", in_request(strange + IDS + field(5, 2, b"job")))
    assert item.body == {"traceId": TRACE, "spanId": "0000000000000001", "name": "job"}


def test_the_last_scalar_wins_and_messages_are_merged():
    status = field(15, 2, field(2, 2, b"why")) + field(15, 2, field(3, 0, varint(2)))
    names = field(5, 2, b"first") + field(5, 2, b"last")
    (item,) = wire.from_protobuf("traces", in_request(IDS + names + status))
    assert item.body["name"] == "last"
    assert item.body["status"] == {"message": "why", "code": 2}


@settings(max_examples=60)
@given(spans, spans, attributes, attributes)
def test_what_is_sent_in_two_pieces_is_merged_as_the_reference_merges_it(one, other, more, yet):
    """Two encodings behind each other are one message: so says protobuf."""
    halves = [
        ExportTraceServiceRequest.FromString(
            as_protobuf("traces", traces(each) | {})
        ).resource_spans[0]
        for each in (one, other)
    ]
    for half, pairs_of in zip(halves, (more, yet), strict=True):
        json_format.ParseDict({"attributes": pairs_of}, half.resource)
    pieces = b"".join(half.scope_spans[0].spans[0].SerializeToString() for half in halves)
    around = b"".join(field(1, 2, half.resource.SerializeToString()) for half in halves)
    merged = type(halves[0].scope_spans[0].spans[0]).FromString(pieces).SerializeToString()
    resource = type(halves[0].resource).FromString(
        b"".join(half.resource.SerializeToString() for half in halves)
    )
    sent = field(1, 2, around + field(2, 2, field(2, 2, pieces)))
    whole = field(
        1, 2, field(1, 2, resource.SerializeToString()) + field(2, 2, field(2, 2, merged))
    )
    assert items_of(wire.from_protobuf("traces", sent)) == items_of(
        wire.from_protobuf("traces", whole)
    )


@pytest.mark.parametrize(
    ("pieces", "read"),
    [
        ((field(1, 2, b"text"), field(3, 0, varint(7))), 7),  # one member at a time
        ((field(3, 0, varint(7)), field(1, 2, b"text")), "text"),
        ((field(2, 0, varint(0)),), False),
        ((field(3, 0, varint(0)),), 0),
        ((field(1, 2, b""),), ""),
        ((), None),
        (
            (
                field(5, 2, field(1, 2, field(1, 2, b"a"))),
                field(5, 2, field(1, 2, field(1, 2, b"b"))),
            ),
            ["a", "b"],
        ),
        ((field(8, 0, varint(1)), field(1, 2, b"x")), "x"),  # of profiles only
        ((field(7, 2, b"\x00\xff"),), "AP8="),
    ],
)
def test_of_the_members_of_a_value_the_last_one_counts(pieces, read):
    attribute = field(1, 2, b"n") + field(2, 2, b"".join(pieces))
    for given_bytes in (attribute, field(3, 0, varint(9)) + attribute):
        (item,) = wire.from_protobuf("traces", in_request(IDS + field(9, 2, given_bytes)))
        assert wire.attributes(item.body["attributes"]) == {"n": read}


def test_a_negative_integer_is_a_varint_of_ten_bytes():
    negative = varint((1 << 64) - 5)
    assert len(negative) == 10
    attribute = field(1, 2, b"n") + field(2, 2, field(3, 0, negative))
    (item,) = wire.from_protobuf("traces", in_request(IDS + field(9, 2, attribute)))
    assert wire.attributes(item.body["attributes"]) == {"n": -5}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_has_none_for_is_its_name(number):
    attribute = field(1, 2, b"n") + field(2, 2, field(4, 1, struct.pack("<d", number)))
    (item,) = wire.from_protobuf("traces", in_request(IDS + field(9, 2, attribute)))
    spelled = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(number)]
    assert wire.attributes(item.body["attributes"]) == {"n": spelled}
    (same,) = wire.from_document(
        "traces", traces(span() | {"attributes": [{"key": "n", "value": {"doubleValue": spelled}}]})
    )
    assert wire.attributes(same.body["attributes"]) == {"n": spelled}


@pytest.mark.parametrize(
    "bad",
    [
        field(5, 2, b"\xff\xfe"),  # no UTF-8
        field(5, 3, b""),  # a group
        b"\x2a\x09abc",  # torn
        field(9, 2, b"\x0a\x01k\x12\x02\x0a\x03abc"),  # a text longer than its value
        field(9, 2, b"\x0a\x01k\x12\x05\x0a\x03\xffbc"),  # an attribute that is no UTF-8
        b"\xff" * 11,  # no varint
    ],
)
def test_one_bad_span_is_refused_and_the_others_are_stored(bad):
    both = field(2, 2, IDS + bad) + field(2, 2, IDS + field(5, 2, b"good"))
    refused, kept = wire.from_protobuf("traces", field(1, 2, field(2, 2, both)))
    assert isinstance(refused, wire.RefusedItem)
    assert refused.pointer == "/resourceSpans/0/scopeSpans/0/spans/0"
    assert refused.hint
    assert kept.body["name"] == "good"


@pytest.mark.parametrize(
    "body", [b"\x0a\x05abc", b"\x0b", b"\x00", b"\xff" * 12, b"\x0a\x02\x0a\xff"]
)
def test_a_broken_envelope_is_undecodable(body):
    with pytest.raises(wire.Undecodable):
        list(wire.from_protobuf("traces", body))


def deep(levels):
    """An AnyValue so many levels deep."""
    found = {"stringValue": "x"}
    for _ in range(levels - 1):
        found = {"arrayValue": {"values": [found]}}
    return found


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_values_deeper_than_64_levels_are_refused_and_the_rest_is_stored(encoding):
    document = traces(
        span(1) | {"attributes": [{"key": "deep", "value": deep(65)}]},
        span(2) | {"attributes": [{"key": "deep", "value": deep(64)}]},
    )
    if encoding == "json":
        refused, kept = wire.from_document("traces", document)
    else:
        # The reference implementation's own JSON reader does not go as deep.
        def any_value(levels):
            inner = field(1, 2, b"x")
            for _ in range(levels - 1):
                inner = field(5, 2, field(1, 2, inner))
            return field(9, 2, field(1, 2, b"deep") + field(2, 2, inner))

        both = field(2, 2, IDS + any_value(65)) + field(2, 2, IDS + any_value(64))
        refused, kept = wire.from_protobuf("traces", field(1, 2, field(2, 2, both)))
    assert isinstance(refused, wire.RefusedItem)
    assert "64 deep" in refused.message
    assert isinstance(kept, wire.Item)


REFUSED = {
    "zero trace": {"traceId": "0" * 32},
    "short trace": {"traceId": "abcd"},
    "no trace": {"traceId": None},
    "odd span": {"spanId": "abc"},
    "zero span": {"spanId": "0" * 16},
    "zero parent": {"parentSpanId": "0" * 16},
    "base64 id": {"spanId": "AAAAAAAAAAE="},
    "named enum": {"kind": "SPAN_KIND_CLIENT"},
    "status by name": {"status": {"code": "STATUS_CODE_ERROR"}},
    "bad time": {"startTimeUnixNano": "soon"},
    "negative time": {"startTimeUnixNano": -1},
    "bad link": {"links": [{"traceId": "0" * 32, "spanId": "1" * 16}]},
    "two values": {"attributes": [{"key": "a", "value": {"stringValue": "x", "intValue": "1"}}]},
    "attributes object": {"attributes": {"a": 1}},
    "bad bytes": {"attributes": [{"key": "a", "value": {"bytesValue": "!"}}]},
    "bad bool": {"attributes": [{"key": "a", "value": {"boolValue": "yes"}}]},
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_span_in_json_is_refused_with_pointer_and_hint(case):
    refused, kept = wire.from_document("traces", traces(span() | REFUSED[case], span(2)))
    assert isinstance(refused, wire.RefusedItem), refused
    key = next(iter(REFUSED[case]))
    assert refused.pointer.startswith(f"/resourceSpans/0/scopeSpans/0/spans/0/{key}")
    assert refused.message
    assert refused.hint
    assert isinstance(kept, wire.Item)


def test_json_is_read_by_its_rules():
    (item,) = wire.from_document(
        "traces",
        traces(
            span()
            | {
                "traceId": TRACE.upper(),
                "startTimeUnixNano": 1778000000000000000,
                "kind": 3,
                "unknownKey": {"x": 1},
                "traceState": None,
                "attributes": [
                    {"key": "number", "value": {"intValue": 5}},
                    {"key": "text", "value": {"intValue": "-7"}},
                    {"key": "url alphabet", "value": {"bytesValue": "_-8"}},
                    {"key": "nothing", "value": {}},
                    {"key": "missing"},
                    {"key": "null", "value": None},
                    {"key": "empty", "value": {"stringValue": ""}},
                ],
            }
        ),
    )
    assert item.body["traceId"] == TRACE
    assert item.body["startTimeUnixNano"] == "1778000000000000000"
    assert "unknownKey" not in item.body
    assert wire.attributes(item.body["attributes"]) == {
        "number": 5,
        "text": -7,
        "url alphabet": "/+8=",
        "nothing": None,
        "missing": None,
        "null": None,
        "empty": "",
    }


def test_an_empty_id_in_a_log_record_means_none():
    (item,) = wire.from_document("logs", logs({"traceId": "", "spanId": "", "body": value("x")}))
    assert "traceId" not in item.body


@pytest.mark.parametrize(
    "bad",
    [
        {"traceId": "0" * 32},
        {"traceId": "abc"},
        {"spanId": "0" * 16},
        {"traceId": "ab" * 15},
        {"severityNumber": "SEVERITY_NUMBER_INFO"},
        {"body": {"doubleValue": "soon"}},
    ],
)
def test_a_bad_log_record_is_refused_and_the_others_are_stored(bad):
    refused, kept = wire.from_document("logs", logs(bad, {"body": value("x")}))
    assert refused.pointer.startswith(f"/resourceLogs/0/scopeLogs/0/logRecords/0/{next(iter(bad))}")
    assert refused.hint
    assert kept.body == {"body": {"stringValue": "x"}}


def test_the_name_of_an_enum_is_refused_with_the_hint_that_it_is_a_number():
    (refused,) = wire.from_document("traces", traces(span(kind="SPAN_KIND_CLIENT")))
    assert "SPAN_KIND_CLIENT" in refused.message
    assert "integers" in refused.hint


def test_half_a_character_costs_nobody_the_batch():
    """Programs that cut a text leave them, escaped."""
    body = orjson.dumps(traces(span(name="cut"))).replace(b'"cut"', b'"cut \\ud83d"')
    (item,) = from_json("traces", body)
    assert item.body["name"] == "cut \ufffd"


def test_the_bytes_of_a_partial_success_are_those_of_the_specification():
    said = wire.partial_success("logs", 2, "bad", as_json=False)
    assert said == bytes.fromhex("0A 07 08 02 12 03 62 61 64")
    said = wire.partial_success("logs", 2, "bad", as_json=True)
    assert said == b'{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"bad"}}'
    assert wire.partial_success("traces", 0, "", as_json=False) == b""
    assert wire.partial_success("traces", 0, "", as_json=True) == b"{}"
    advice = wire.partial_success("traces", 0, "look", as_json=True)
    assert advice == b'{"partialSuccess":{"errorMessage":"look"}}'


def test_answers_are_read_by_the_reference_implementation():

    long = "é" * 300
    said = ExportTraceServiceResponse.FromString(
        wire.partial_success("traces", 70_000, long, as_json=False)
    )
    assert said.partial_success.rejected_spans == 70_000
    assert said.partial_success.error_message == long
    status = Status.FromString(wire.status(3, "no", as_json=False))
    assert (status.code, status.message) == (3, "no")


def readable(signal, read):
    """Every item read is whole, every refusal says why; nothing but `Undecodable` is raised."""
    try:
        found = [*read()]
    except wire.Undecodable:
        return
    for each in found:
        if isinstance(each, wire.Item):
            assert orjson.loads(each.raw())
        else:
            assert each.message
            assert each.hint


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["traces", "logs"]))
def test_any_bytes_are_read_or_undecodable(body, signal):
    readable(signal, lambda: wire.from_protobuf(signal, body))
    readable(signal, lambda: wire.from_protobuf(signal, in_request(body)))
    readable(signal, lambda: from_json(signal, body))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_request_is_read_or_undecodable(data):
    signal = data.draw(st.sampled_from(["traces", "logs"]))
    document = traces(span(1, attributes={"a": [1, "x"]})) if signal == "traces" else logs({})
    body = bytearray(as_protobuf(signal, document))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, max(0, len(body) - 1)))
        change = data.draw(st.sampled_from(["set", "cut", "insert"]))
        if change == "cut":
            del body[place:]
        elif change == "insert" or not body:
            body[place:place] = data.draw(st.binary(min_size=1, max_size=3))
        else:
            body[place] = data.draw(st.integers(0, 255))
    readable(signal, lambda: wire.from_protobuf(signal, bytes(body)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
KEYS = [key for shape in SHAPES.values() for key, _, _ in shape.values()]


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.sampled_from(KEYS), json_values | attributes, max_size=6),
    json_values,
    st.sampled_from(["traces", "logs"]),
)
def test_any_json_is_read_or_undecodable(item, around, signal):
    outer, inner, last = wire.KEYS[signal]
    for document in (
        {outer: [{inner: [{last: [item, around]}]}]},
        {outer: [{"resource": around, inner: around}]},
        {outer: around},
        around,
    ):
        readable(signal, lambda document=document: wire.from_document(signal, document))


# What they tell.


def reduced(line):
    """A line as samples have it."""
    origin = line.pop("origin")
    del line["id"]
    kept = {
        key: origin[key] for key in ("record", "clock", "generation", "pending") if key in origin
    }
    return line | ({"origin": kept} if kept else {})


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_gives_its_facts(path, door):
    """Set TRACKLOG_REFRESH=1 to write the results into the samples, and read the difference."""
    sample = json.loads(path.read_text())
    for sent in sample["sent"]:
        taken = door.send(sent["body"], sent["to"].rpartition("/")[2])
        assert (taken.rejected, taken.message) == (0, "")
    told = [reduced(line) for line in door.lines()]
    if os.environ.get("TRACKLOG_REFRESH"):
        path.write_text(json.dumps(sample | {"facts": told}, indent=1, ensure_ascii=False) + "\n")
    assert told == sample["facts"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_sent_again_changes_nothing(path, door):
    sent = json.loads(path.read_text())["sent"]
    for each in sent:
        door.send(each["body"])
    last = door.home.journal.last
    for each in sent:
        assert door.send(each["body"]).rejected == 0
    assert door.home.journal.last == last
    door.begin_again()
    for each in sent:
        assert door.send(each["body"]).rejected == 0
    assert door.home.journal.last == last


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_restart_between_two_requests_changes_nothing(path, tmp_path):
    sent = json.loads(path.read_text())["sent"]
    steady, shaken = Door(tmp_path / "steady"), Door(tmp_path / "shaken")
    for each in sent:
        steady.send(each["body"])
        shaken.send(each["body"])
        shaken.begin_again()
    assert shaken.lines() == steady.lines()
    steady.close()
    shaken.close()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_item_is_stored_as_the_blob_that_its_lines_name(path, door):
    for each in json.loads(path.read_text())["sent"]:
        door.send(each["body"])
        for item in wire.from_document(each["to"].rpartition("/")[2], each["body"]):
            name = sha256(item.raw()).hexdigest()
            assert door.home.blobs.get(name) == item.raw()
    for line in door.lines():
        assert door.home.blobs.size(line["origin"]["raw"])
        assert line["origin"]["writer"] == "otlp"
        assert line["origin"]["fidelity"] == "reported"


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_file_gives_the_same_facts_as_the_wire(path, tmp_path, door):
    sent = json.loads(path.read_text())["sent"]
    for each in sent:
        door.send(each["body"])
    file = tmp_path / "telemetry.jsonl"
    file.write_bytes(b"".join(orjson.dumps(each["body"]) + b"\n" for each in sent))
    assert importer.recognise(file, file.read_bytes()[:1000]) > 0.9
    told = [
        orjson.loads(line)
        for batch in SourceReading(importer, file).lines()
        for line in batch.lines
    ]
    for line, place in zip(told, door.lines(), strict=True):
        assert line["origin"].pop("path") == str(file)
        assert line["origin"].pop("offset") >= 0
        assert line == place
    verdicts = door.home.intake.admit(
        [line for batch in SourceReading(importer, file).lines() for line in batch.lines],
        "tracklog",
    )
    assert {verdict.verdict for verdict in verdicts} == {"duplicate"}


class TestFiles(ImporterSuite):
    """What any importer must do, with the requests of all samples in one file and one printed."""

    importer = importer

    @pytest.fixture(autouse=True)
    def _written(self, tmp_path_factory):
        self.samples = tmp_path_factory.mktemp("written")
        sent = [each["body"] for path in SAMPLES for each in json.loads(path.read_text())["sent"]]
        lines = b"".join(orjson.dumps(body) + b"\n" for body in sent)
        (self.samples / "all.jsonl").write_bytes(lines)
        (self.samples / "printed.json").write_text(json.dumps(sent[0], indent=2))


def test_a_file_that_speaks_of_requests_is_none(tmp_path):
    assert importer.recognise(tmp_path / "x.jsonl", b'{"type":"user","text":"resourceSpans"}') == 0


def test_a_file_that_grew_is_read_on(tmp_path):
    sent = json.loads((SAMPLES[0].parent / "genai-b-agent.json").read_text())["sent"]
    file = tmp_path / "telemetry.jsonl"
    lines = [orjson.dumps(each["body"]) + b"\n" for each in sent]
    file.write_bytes(b"".join(lines))
    whole = [line for batch in SourceReading(importer, file).lines() for line in batch.lines]
    file.write_bytes(lines[0])
    told, place = [], None
    for more in [*lines[1:], b""]:
        for batch in SourceReading(importer, file).lines(place, final=False):
            told += batch.lines
            place = batch.place
        with file.open("ab") as grown:
            grown.write(more)
    assert told == whole


def test_a_printed_document_is_one_request(tmp_path):
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(traces(span(1, "job")), indent=2))
    told = [
        orjson.loads(line)
        for batch in SourceReading(importer, file).lines()
        for line in batch.lines
    ]
    assert [line["fact"] for line in told] == ["Began", "Noted", "Ended", "Linked"]


def test_what_a_file_holds_beside_requests_is_stored_and_noted(tmp_path):
    file = tmp_path / "mixed.jsonl"
    bad = traces(span() | {"kind": "SPAN_KIND_CLIENT"})
    file.write_bytes(
        b"\n".join(
            [orjson.dumps(traces(span(1))), b'{"resourceSpans":7}', orjson.dumps(bad), b"[1]"]
        )
        + b"\n"
    )
    told = [
        orjson.loads(line)
        for batch in SourceReading(importer, file).lines()
        for line in batch.lines
    ]
    found = [line["text"] for line in told if line.get("label") == "finding"]
    assert [text.partition(" ")[0] for text in found] == ["/resourceSpans", "'SPAN_KIND_CLIENT'"]
    assert told[-1]["data"] == [1]


def test_the_id_of_a_line_is_made_as_ids_are():
    (item,) = wire.from_document("traces", traces(span(1, "job")))
    teller = LineWriter("otlp", "1", "")
    ((_, run, _),) = write_items([item], teller, Memory())
    expected = [native.line_id("otlp", "1", run, item.raw(), n=n) for n in (0, 1, 2)]
    assert [orjson.loads(line)["id"] for line in teller.lines][:2] == expected[:2]


@pytest.mark.parametrize(
    ("key", "run"),
    [
        ("tracklog.run.id", "anything at all"),
        ("gen_ai.conversation.id", "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f"),
        ("session.id", run_id("otlp", "s-1")),
        ("conversation.id", run_id("otlp", "c-1")),
        ("thread.id", run_id("otlp", "t-1")),
        (None, run_id("otlp", TRACE)),
    ],
)
def test_the_strongest_key_names_the_run_and_the_others_are_aliases(key, run, door):
    keys = {
        "tracklog.run.id": "anything at all",
        "gen_ai.conversation.id": "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f",
        "session.id": "s-1",
        "conversation.id": "c-1",
        "thread.id": "t-1",
    }
    weaker = dict(list(keys.items())[list(keys).index(key) :]) if key else {}
    door.send(traces(span(1, attributes=weaker)))
    assert {line["run"] for line in door.lines()} == {run}
    told = {line["system"]: line["alias"] for line in door.facts("Linked")}
    expected = {name: value for name, value in weaker.items() if value != run}
    assert told == expected | {"trace_id": TRACE}


def test_a_span_without_a_key_belongs_to_the_run_of_its_trace(door):
    """A tool seldom names the conversation that it was called in."""
    door.send(traces(span(2, "chat", {"session.id": "s", "gen_ai.operation.name": "chat"}, 1)))
    door.begin_again()
    door.send(traces(span(3, "execute_tool x", {"gen_ai.operation.name": "execute_tool"}, 1)))
    assert {line["run"] for line in door.lines()} == {run_id("otlp", "s")}


def test_telemetry_and_file_of_an_agent_meet_in_one_run(door):
    thread = "019982b8-3422-79e0-8b3b-05abaf4f3c3e"
    event = {"event.name": "codex.user_prompt", "conversation.id": thread, "prompt": "hi"}
    door.send(logs({"attributes": pairs(event)}, **{"service.name": "codex_cli_rs"}))
    (line,) = door.facts("Said")
    assert line["run"] == "ccaa664d-f560-4adf-a669-7ce101fa96c2"


def test_of_a_history_only_new_messages_are_recorded(door):
    said = [("user", "one")]
    for turn, answer in enumerate(["first", "second", "third"], 2):
        door.send(traces(chat(turn, said, answer)))
        said += [("assistant", answer), ("user", f"and {turn}")]
    words = [line["blocks"][0]["text"] for line in door.facts("Said")]
    assert words == ["one", "first", "and 2", "second", "and 3", "third"]


def test_the_same_message_sent_twice_is_recorded_twice(door):
    door.send(traces(chat(2, [("user", "yes")], "go on?")))
    door.send(
        traces(chat(3, [("user", "yes"), ("assistant", "go on?"), ("user", "yes")], "go on?"))
    )
    words = [line["blocks"][0]["text"] for line in door.facts("Said")]
    assert words == ["yes", "go on?", "yes", "go on?"]


def test_of_a_window_on_a_history_only_the_end_is_recorded(door):
    door.send(traces(chat(2, [("user", "a"), ("assistant", "b"), ("user", "c")], "d")))
    door.send(traces(chat(3, [("user", "c"), ("assistant", "d"), ("user", "c")], "e")))
    words = [line["blocks"][0]["text"] for line in door.facts("Said")]
    assert words == ["a", "b", "c", "d", "c", "e"]


def test_a_model_call_that_is_tried_again_repeats_no_question(door):
    door.send(traces(chat(2, [("user", "a")], "b")))
    door.send(traces(chat(3, [("user", "a")], "other")))
    words = [line["blocks"][0]["text"] for line in door.facts("Said")]
    assert words == ["a", "b", "other"]


def test_turns_that_arrive_backwards_are_recorded_once(door):
    door.send(traces(chat(3, [("user", "a"), ("assistant", "b"), ("user", "c")], "d")))
    door.send(traces(chat(2, [("user", "a")], "b")))
    words = [line["blocks"][0]["text"] for line in door.facts("Said")]
    assert words == ["a", "b", "c", "d"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12), st.data())
def test_each_part_of_a_growing_history_is_recorded_once(words, data):
    """The law behind it: told in growing prefixes, all parts come out once, in order."""
    past = KnownFacts({})
    told = []
    cuts = sorted(data.draw(st.lists(st.integers(1, len(words)), min_size=1, max_size=5)))
    for cut in [*cuts, len(words)]:
        history = words[:cut]
        for word, new in zip(history, past.news(history), strict=True):
            if new:
                past.facts.append(word)
                told.append(word)
    assert told == words


def test_children_come_before_parents_and_stay_with_them(door):
    child = span(3, "inner", parent=2)
    door.send(traces(child))
    door.send(traces(span(2, "outer", parent=1)))
    began = [(line["step"], line["cause"]) for line in door.facts("Began")]
    assert began == [("inner", f"{TRACE}/{2:016x}"), ("outer", f"{TRACE}/{1:016x}")]
    assert len({line["run"] for line in door.lines()}) == 1


@pytest.mark.parametrize("order", ["child first", "parent first"])
def test_an_agent_with_a_conversation_of_its_own_is_a_sub_run(order, door):
    inner = span(
        3, "invoke_agent b", {"gen_ai.operation.name": "invoke_agent", "session.id": "b"}, 2
    )
    tool = span(
        2,
        "execute_tool ask",
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c", "session.id": "a"},
        1,
    )
    for each in [inner, tool] if order == "child first" else [tool, inner]:
        door.send(traces(each))
    (link,) = [line for line in door.facts("Linked") if line["kind"] == "sub-run"]
    assert (link["run"], link["parent"]) == (run_id("otlp", "b"), run_id("otlp", "a"))
    assert link["call_id"] == "c"
    with_parents = door.tree()
    assert [branch.depth for branch in with_parents] == [0, 1]
    assert door.unseen() == [f"{TRACE}/0000000000000001"]


def test_a_parent_that_was_not_seen_is_marked_until_it_comes(door):
    child, parent = span(2, "inner", parent=1), span(1, "outer")
    door.send(traces(child))
    assert door.unseen() == [f"{TRACE}/0000000000000001"]
    assert len(door.runs()) == 1
    door.send(logs({"traceId": TRACE, "spanId": "00000000000000aa", "body": {"stringValue": "x"}}))
    assert door.unseen() == [f"{TRACE}/0000000000000001"]
    door.send(traces(parent))
    assert door.unseen() == []
    assert len(door.runs()) == 1


def test_an_agent_that_sends_only_traces_spends_what_its_spans_report(door):
    """Its log events, where they come as well, stand for what its spans tell of the same."""
    sample = json.loads((SAMPLES[0].parent / "gemini-cli.json").read_text())["sent"]
    by_signal = {each["to"]: each["body"] for each in sample}
    door.send(by_signal["/v1/traces"])
    (row,) = door.costs()
    assert (row["input_tokens"], row["output_tokens"]) == (500, 20)
    door.send(by_signal["/v1/logs"], "logs")
    (row,) = door.costs()
    assert (row["input_tokens"], row["output_tokens"]) == (500, 50)


def test_a_span_still_open_is_visible(door):
    open_span = span(1, "job")
    del open_span["endTimeUnixNano"]
    door.send(traces(open_span))
    (run,) = door.runs()
    assert (run["status"], run["title"]) == ("working", "job")
    door.send(traces(span(1, "job")))
    (run,) = door.runs()
    assert run["status"] == "done"


@pytest.mark.parametrize("mark", ["tracklog.unfinished", "tracklog.dangling"])
def test_what_was_exported_open_comes_back_open(mark, door):
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    door.send(traces(span(1, "execute_tool look", {**tool, mark: True})))
    assert [len(door.facts(fact)) for fact in ("Began", "Called", "Returned", "Ended")] == [
        1,
        1,
        0,
        0,
    ]


def test_a_correction_keeps_both_and_the_later_counts(door):
    door.send(traces(chat(2, [("user", "a")], "b", **{"gen_ai.usage.output_tokens": 5})))
    door.send(traces(chat(2, [("user", "a")], "better", **{"gen_ai.usage.output_tokens": 4})))
    assert len(door.facts("Spent")) == 2
    assert {line["origin"]["record"] for line in door.lines()} == {f"{TRACE}/{2:016x}"}
    (cost,) = door.costs()
    assert cost["output_tokens"] == 4
    door.home.index.catch_up()
    assert "corrected" in {found.finding.name for found in door.home.index.findings()}


def test_a_span_an_event_and_an_agent_spend_once(door):
    usage = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}
    keyed = {**usage, "gen_ai.response.id": "r", "gen_ai.conversation.id": "talk"}
    door.send(traces(chat(2, [("user", "a")], "b", **keyed)))
    details = {
        "attributes": pairs({**keyed, "gen_ai.output.messages": [message("assistant", "b")]}),
        "eventName": "gen_ai.client.inference.operation.details",
        "traceId": TRACE,
        "spanId": f"{2:016x}",
    }
    door.send(logs(details))
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "talk", **usage}
    door.send(traces(span(1, "invoke_agent", agent)))
    (cost,) = door.costs()
    assert (cost["input_tokens"], cost["output_tokens"]) == (10, 5)
    assert [line["blocks"][0]["text"] for line in door.facts("Said")] == ["a", "b"]


def test_totals_that_differ_from_the_calls_are_a_finding(door):
    usage = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5}
    door.send(traces(chat(2, [("user", "a")], "b", **usage)))
    more = {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 5}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "talk", **more}
    door.send(traces(span(1, "invoke_agent x", agent)))
    (found,) = [line for line in door.facts("Noted") if line["label"] == "finding"]
    assert found["data"] == {"name": "totals-differ", "told": [30, 5], "heard": [10, 5]}


@pytest.mark.parametrize("deep", ["[" * 500 + "]" * 500, '{"a":' * 300 + "1" + "}" * 300])
def test_json_in_an_attribute_that_goes_too_deep_stays_text(deep, door):
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": deep}
    for number, key in enumerate(("gen_ai.input.messages", "gen_ai.output.messages"), 2):
        door.send(traces(chat(number, [], "", **{key: deep})))
    door.send(traces(span(1, "execute_tool x", tool)))
    (called,) = door.facts("Called")
    assert called["input"] == deep


def test_an_attribute_whose_name_goes_too_deep_is_stored_beside_the_others(door):
    deep = f"gen_ai.prompt.0{'.a' * 3000}"
    door.send(traces(span(1, "chat", {"gen_ai.operation.name": "chat", deep: "x"})))
    (raw,) = {line["origin"]["raw"] for line in door.lines()}
    assert deep.encode() in door.home.blobs.get(raw)


def test_large_values_are_moved_to_blobs_completely(door):
    long = "word " * 40_000
    arguments = json.dumps({"text": long, "small": 1})
    door.send(
        traces(
            span(
                1,
                "execute_tool x",
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": arguments},
            ),
            chat(2, [("user", long)], "short"),
        )
    )
    (called,) = door.facts("Called")
    blob = called["input"]["text"]["$blob"]
    assert (blob["bytes"], blob["media_type"]) == (len(long), "text/plain")
    assert door.home.blobs.get(blob["sha256"]) == long.encode()
    assert called["input"]["small"] == 1
    said = door.facts("Said")[0]
    assert said["blocks"][0]["text"]["$blob"]["sha256"] == blob["sha256"]


def test_blobs_that_lines_name_as_their_origin_outlive_pruning(door):
    door.send(traces(span(1, "job")))
    raw = door.lines()[0]["origin"]["raw"]
    assert raw in door.home._named_blobs()


def test_nothing_about_persons_is_in_the_lines(door):
    personal = {"user.email": "someone@example.org", "user.id": "u", "enduser.id": "e", "team": "t"}
    door.send(traces(span(1, "job", personal)))
    door.send(logs({"attributes": pairs(personal | {"event.name": "claude_code.api_error"})}))
    assert b"someone@example.org" not in b"".join(
        record.line for record in door.home.journal.records()
    )


def test_what_is_redacted_in_the_lines_is_redacted_in_what_is_stored_beside_them(tmp_path):
    def redact(content):
        return content.replace(b"s3cret", b"******"), ["secret"] if b"s3cret" in content else []

    made = Door(tmp_path, redact=redact)
    document = traces(span(1, "job", {"password": "s3cret"}))
    made.send(document)
    last = made.home.journal.last
    kept = [made.home.blobs.get(name) for name in made.home.blobs.list()]
    assert kept
    assert not [content for content in kept if b"s3cret" in content]
    assert made.home.blobs.size(made.lines()[0]["origin"]["raw"])
    made.send(document)
    assert made.home.journal.last == last
    (item,) = wire.from_document("traces", document)
    # What a line is known by does not depend on what was taken out.
    first = made.lines()[0]
    assert first["id"] == native.line_id("otlp", MAPPING, first["run"], item.raw())
    made.close()


def test_calls_without_ids_are_joined_by_their_order(door):
    """Each response is that of the first call which has none; told again it is the same."""
    calls = [
        {"role": "assistant", "parts": [{"type": "tool_call", "name": "look", "arguments": n}]}
        for n in ({"at": 1}, {"at": 1}, {"at": 2})
    ]
    returns = [
        {"role": "tool", "parts": [{"type": "tool_call_response", "response": f"saw {n}"}]}
        for n in (1, 2, 3)
    ]
    first = {"gen_ai.output.messages": json.dumps(calls[:1])}
    door.send(traces(chat(2, [], "", **first)))
    history = {
        "gen_ai.input.messages": json.dumps([calls[0], returns[0], *calls[1:], *returns[1:]])
    }
    door.send(traces(chat(3, [], "done", **history)))
    called = {line["call_id"]: line["input"] for line in door.facts("Called")}
    returned = {line["call_id"]: line["output"] for line in door.facts("Returned")}
    assert [(called[id], output) for id, output in returned.items()] == [
        ({"at": 1}, "saw 1"),
        ({"at": 1}, "saw 2"),
        ({"at": 2}, "saw 3"),
    ]
    (run,) = door.runs()
    assert (run["tool_calls"], run["open_calls"]) == (3, 0)


def test_a_tool_span_without_an_id_is_the_call_that_the_model_asked_for(door):
    asked = {"type": "tool_call", "id": "call_1", "name": "look", "arguments": {"at": 1}}
    output = json.dumps([{"role": "assistant", "parts": [asked]}])
    door.send(traces(chat(2, [("user", "a")], "", **{"gen_ai.output.messages": output})))
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.arguments": '{"at":1}',
        "gen_ai.conversation.id": "talk",
    }
    for number in (3, 4):
        door.send(traces(span(number, "execute_tool look", tool, 1)))
    assert [line["call_id"] for line in door.facts("Returned")] == ["call_1", f"{TRACE}/{4:016x}"]
    (run,) = door.runs()
    assert run["tool_calls"] == 2


@pytest.mark.parametrize("order", ["log first", "span first"])
def test_a_call_reported_by_its_span_and_by_a_log_event_without_an_id_is_one_call(order, door):
    named = {"session.id": "s", "event.name": "gemini_cli.tool_call", "function_name": "ls"}
    asked = [{"type": "tool_call", "id": "ls-1", "name": "ls", "arguments": {"dir": "."}}]
    door.send(traces(chat(2, [], "", **{"gen_ai.conversation.id": "s", "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": asked}])}), **GEMINI))  # fmt: skip  # one request
    log = logs({"attributes": pairs(named | {"function_args": '{"dir":"."}', "success": True})},
               **GEMINI)  # fmt: skip  # one request
    tool = {"gen_ai.operation.name": "tool_call", "gen_ai.tool.name": "ls", "session.id": "s",
            "gen_ai.tool.call_id": "ls-1", "gen_ai.tool.call.arguments": '{"dir":"."}'}  # fmt: skip  # one row
    both = [log, traces(span(3, "tool_call", tool, 1), **GEMINI)]
    for each in both if order == "log first" else reversed(both):
        door.send(each)
    assert {line["call_id"] for line in door.facts("Called")} == {"ls-1"}
    door.home.index.catch_up()
    (row,) = ask(door.home, "tools")
    assert (row["tool"], row["calls"]) == ("ls", 1)


GEMINI = {"service.name": "gemini-cli"}


def test_what_a_model_was_given_and_gave_may_be_one_text(door):
    attributes = {"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.provider": "p"}
    words = {"input.value": "What is up?", "output.value": "Not much."}
    door.send(traces(span(2, "llm", attributes | words | {"metadata": '{"a":1}'}, 1)))
    said = [(line["role"], line["blocks"][0]["text"]) for line in door.facts("Said")]
    assert said == [("user", "What is up?"), ("assistant", "Not much.")]
    assert door.facts("Said")[1]["extra"]["metadata"] == '{"a":1}'
    many = {"input.value": json.dumps({"messages": [{"role": "user", "content": "And now?"}]})}
    door.send(traces(span(3, "llm", attributes | many, 1)))
    assert door.facts("Said")[2]["blocks"] == [{"type": "text", "text": "And now?"}]


def test_a_time_is_as_precise_as_it_was_given():
    assert spelled(1778000000_123456789) == "2026-05-05T16:53:20.123456789Z"
    assert spelled(1778000000_500000000) == "2026-05-05T16:53:20.5Z"
    assert spelled(1778000000_000000000) == "2026-05-05T16:53:20Z"
    assert spelled(2**64 - 1) == "2554-07-21T23:34:33.709551615Z"
    assert spelled(0) is None


def test_a_request_that_the_disk_does_not_take_is_taken_when_sent_again(tmp_path):
    """Nothing is remembered that was not kept."""
    made = Door(tmp_path)
    document = traces(chat(2, [("user", "a")], "b"))
    made.home.blobs = FileBlobs(tmp_path, FailingDisk(fail_at=3, error=28))
    with pytest.raises(Trouble) as raised:
        made.send(document)
    assert raised.value.status == 503
    assert made.lines() == []
    made.send(document)
    assert [line["blocks"][0]["text"] for line in made.facts("Said")] == ["a", "b"]
    made.close()


@pytest.fixture(scope="module")
def old_door(tmp_path_factory):
    """One that has heard a lot already."""
    made = Door(tmp_path_factory.mktemp("home"))
    yield made
    made.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(spans, max_size=4), st.lists(records, max_size=4))
def test_any_item_is_stored(old_door, given_spans, given_records):
    """Whatever attributes it has: no traceback, and no line that is refused."""
    for document in (traces(*given_spans), logs(*given_records)):
        taken = old_door.send(document)
        assert (taken.rejected, taken.message) == (0, "")
        for item in wire.from_document(
            "logs" if "resourceLogs" in document else "traces", document
        ):
            assert old_door.home.blobs.size(sha256(item.raw()).hexdigest())


ODD = st.sampled_from(["", "x", "[", "[{}]", '[{"role":1,"parts":[1,null,{"type":[]}]}]', "{}"])
VOCABULARY = sorted(
    {
        *(name for names in (*wire.BY_KEY,) for name in [names]),
        "gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind",
        "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
        "gen_ai.prompt.0.role", "gen_ai.prompt.0.content", "gen_ai.prompt.0", "gen_ai.completion.1.x",
        "llm.input_messages.0.message.contents.0", "llm.output_messages.1.message.tool_calls.0",
        "llm.output_messages.1.message.role", "gen_ai.usage.input_tokens", "llm.cost.total",
        "gen_ai.usage.cache_read.input_tokens", "gen_ai.response.finish_reasons", "session.id",
        "gen_ai.tool.call.id", "gen_ai.tool.call.arguments", "gen_ai.tool.name", "event.name",
        "event.timestamp", "conversation.id", "call_id", "success", "duration_ms", "prompt",
        "gen_ai.evaluation.score.value", "evaluations.0.evaluation.score", "logfire.span_type",
        "logfire.pending_parent_id", "exception.type", "gen_ai.agent.name", "service.name",
    }
)  # fmt: skip  # what the mapping looks at
EVENT_NAMES = [
    *(f"claude_code.{name}" for name in ("user_prompt", "api_request", "tool_result", "x")),
    *(f"codex.{name}" for name in ("sse_event", "tool_decision", "conversation_starts")),
    *(f"gemini_cli.{name}" for name in ("api_response", "tool_call", "chat_compression")),
    "gen_ai.choice",
    "gen_ai.tool.message",
    "gen_ai.client.inference.operation.details",
    "gen_ai.evaluation.result",
    "exception",
]
OPERATIONS = ["chat", "execute_tool", "invoke_agent", "embeddings", "create_agent", "plan", "LLM"]
odd_attributes = st.dictionaries(
    st.sampled_from(VOCABULARY), values | ODD | st.sampled_from(OPERATIONS), max_size=8
)


@settings(max_examples=150, deadline=None)
@given(odd_attributes, odd_attributes, st.sampled_from(EVENT_NAMES), values | ODD)
def test_any_value_of_any_known_attribute_is_stored(old_door, some, others, name, body):
    happening = {"name": name, "attributes": pairs(others)}
    both = traces(
        span(1, attributes=some, events=[happening]), span(2, attributes=others, parent=1)
    )
    record = {"eventName": name, "attributes": pairs(some), "body": value(body)}
    for document in (both, logs(record, {"attributes": pairs(others | {"event.name": name})})):
        taken = old_door.send(document)
        assert (taken.rejected, taken.message) == (0, ""), taken
    old_door.home.index.catch_up()
    assert not [
        found for found in old_door.home.index.findings() if found.finding.name == "not-understood"
    ]


def test_what_is_remembered_of_names_of_attributes_is_bounded():
    for n in range(2500):
        assert Attrs({f"name.{n}": 1, "other": 2}).names.all.keys() == {f"name.{n}", "other"}
    assert len(attrs._KNOWN) <= 1000
    long = "n" * 100_000
    assert Attrs({long: 1}).names.has("nnn")
    assert (long,) not in attrs._KNOWN


# Over HTTP.


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with collector(tmp_path_factory.mktemp("home") / "home") as made:
        yield made


def post(server, path, body, headers, **more):
    return server.http.post(path, content=body, headers=headers | more)


def heard(server):
    return server.get("/api/events?limit=1").json()["last"]


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
@pytest.mark.parametrize(("headers", "empty"), [(PROTOBUF, b""), (JSON, b"{}")])
def test_an_empty_request_is_answered_in_its_own_type(server, signal, headers, empty):
    for body in (b"", empty):
        answer = post(server, f"/v1/{signal}", body, headers)
        assert (answer.status_code, answer.content) == (200, empty)
        assert answer.headers["content-type"] == headers["Content-Type"]


def test_parameters_of_a_content_type_are_ignored(server):
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert post(server, "/v1/traces", b"{}", headers).status_code == 200


def test_empty_envelopes_are_ignored(server):
    assert (
        post(server, "/v1/traces", b'{"resourceSpans":[{},{"scopeSpans":[{}]}]}', JSON).json() == {}
    )
    assert post(server, "/v1/traces", b"\x0a\x00\x0a\x02\x12\x00", PROTOBUF).content == b""


def test_both_encodings_are_one_item(server):
    document = traces(span(0xAA01, "over both"))
    before = heard(server)
    assert post(server, "/v1/traces", orjson.dumps(document), JSON).json() == {}
    once = heard(server)
    assert once > before
    answer = post(server, "/v1/traces", as_protobuf("traces", document), PROTOBUF)
    assert (answer.status_code, answer.content) == (200, b"")
    assert heard(server) == once


@pytest.mark.parametrize("headers", [PROTOBUF, JSON], ids=["protobuf", "json"])
def test_gzip_is_taken(server, headers):
    document = logs({"body": value(f"packed {headers}"), "timeUnixNano": "5"})
    plain = orjson.dumps(document) if headers is JSON else as_protobuf("logs", document)
    before = heard(server)
    answer = post(server, "/v1/logs", gzip.compress(plain), headers, **{"Content-Encoding": "gzip"})
    assert answer.status_code == 200
    assert heard(server) > before


def test_what_is_refused_is_counted_and_the_rest_is_stored(server):
    document = traces(
        span(0xAB01, "good"),
        *(span(0xAB02 + n) | {"kind": "SPAN_KIND_CLIENT"} for n in range(5)),
    )
    before = heard(server)
    said = post(server, "/v1/traces", orjson.dumps(document), JSON).json()["partialSuccess"]
    assert said["rejectedSpans"] == "5"
    assert said["errorMessage"].startswith("/resourceSpans/0/scopeSpans/0/spans/1/kind: ")
    assert "SPAN_KIND_CLIENT is 3" in said["errorMessage"]
    assert said["errorMessage"].endswith("and 2 more")
    assert heard(server) > before


def test_the_answer_to_a_part_is_exact_in_protobuf(server):
    both = field(2, 2, IDS + field(5, 2, b"\xff")) + field(2, 2, IDS + field(5, 2, b"exact"))
    answer = post(server, "/v1/traces", field(1, 2, field(2, 2, both)), PROTOBUF)
    words = "/resourceSpans/0/scopeSpans/0/spans/0: a text that is no UTF-8; send text as UTF-8"
    assert answer.content == wire.partial_success("traces", 1, words, as_json=False)
    assert answer.content[:2] == bytes([0x0A, len(answer.content) - 2])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"resource_spans":[]}', "resourceSpans, not resource_spans"),
        (b'{"resourceSpans":[{"scope_spans":[{}]}]}', "scopeSpans, not scope_spans"),
        (b'{"resourceLogs":[]}', "/v1/logs"),
        (b'{"spans":[]}', "no resourceSpans"),
    ],
)
def test_a_body_that_reads_as_empty_gets_advice(server, body, words):
    answer = post(server, "/v1/traces", body, JSON)
    said = answer.json()["partialSuccess"]
    assert answer.status_code == 200
    assert words in said["errorMessage"]
    assert "rejectedSpans" not in said


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{", JSON),
        (b"[]", JSON),
        (b'{"resourceSpans":{}}', JSON),
        (b'{"resourceSpans":[{"resource":{"attributes":[{"key":7}]}}]}', JSON),
        (b"[" * 100_000, JSON),
        (b"\x0a\x05abc", PROTOBUF),
        (b"not gzip", JSON | {"Content-Encoding": "gzip"}),
        (gzip.compress(b"{}", mtime=0)[:-4], JSON | {"Content-Encoding": "gzip"}),
    ],
)
def test_an_undecodable_body_is_a_400_with_a_status(server, body, headers):
    answer = post(server, "/v1/traces", body, headers)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == headers["Content-Type"]
    if headers["Content-Type"] == "application/json":
        assert answer.json()["code"] == 3
        assert answer.json()["message"]
    else:
        assert answer.content[:3] == b"\x08\x03\x12"


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=60)
    | st.binary(max_size=60).map(in_request)
    | json_values.map(lambda found: json.dumps(found).encode())
    | st.lists(spans | records, max_size=2).map(lambda found: orjson.dumps(traces(*found))),
    st.sampled_from(["/v1/traces", "/v1/logs", "/v1/metrics"]),
    st.sampled_from([PROTOBUF, JSON]),
    st.booleans(),
)
def test_whatever_is_sent_the_answer_is_no_500(server, body, path, headers, packed):
    if packed:
        headers, body = headers | {"Content-Encoding": "gzip"}, gzip.compress(body)
    answer = post(server, path, body, headers)
    assert answer.status_code in (200, 400)
    assert answer.headers["content-type"] == headers["Content-Type"]


def test_a_400_in_json_has_code_and_message_only(server):
    assert post(server, "/v1/logs", b"[]", JSON).json() == {
        "code": 3,
        "message": "the body is no JSON object: send an OTLP request as its content type says",
    }


@pytest.mark.parametrize("kind", ["application/grpc", "application/grpc+proto"])
def test_a_grpc_client_gets_a_hint_to_use_http(server, kind):
    answer = post(server, "/v1/traces", b"", {"Content-Type": kind})
    assert answer.status_code == 415
    assert "http/protobuf" in answer.json()["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        JSON | {"Content-Encoding": "br"},
    ],
)
def test_other_types_and_encodings_are_a_415(server, headers):
    assert post(server, "/v1/traces", b"{}", headers).status_code == 415


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with collector(tmp_path_factory.mktemp("home") / "home", TRACKLOG_TOKEN="secret") as made:
        yield made


@pytest.mark.parametrize("headers", [PROTOBUF, JSON], ids=["protobuf", "json"])
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics"])
@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({}, 401, 16),
        ({"Host": "evil.example"}, 421, 7),
        ({"Origin": "https://evil.example"}, 403, 7),
        ({"Authorization": "Bearer secret", "Content-Encoding": "br"}, 415, 3),
    ],
    ids=["token", "host", "origin", "encoding"],
)
def test_whoever_refuses_an_exporter_says_so_as_a_status(
    guarded, headers, path, more, status, code
):
    answer = post(guarded, path, b"", headers, **more)
    assert answer.status_code == status
    assert answer.headers["content-type"] == headers["Content-Type"]
    said = Status.FromString(answer.content) if headers == PROTOBUF else None
    found = (said.code, said.message) if said else tuple(answer.json().values())
    assert found[0] == code
    assert found[1]


def test_a_body_is_measured_unpacked_and_a_bomb_is_a_413(server):
    bomb = gzip.compress(b" " * (65 << 20), 9)
    assert len(bomb) < 1 << 20
    answer = post(server, "/v1/traces", bomb, JSON | {"Content-Encoding": "gzip"})
    assert answer.status_code == 413
    assert answer.json()["code"] == 8


def test_a_long_answer_is_packed_for_who_takes_it(server):
    long = "x" * 400
    bad = [span() | {"kind": f"{long}{n}"} for n in range(9)]
    document = traces(*(each | {"traceId": long} for each in bad))
    body = orjson.dumps(document)
    plain = post(server, "/v1/traces", body, JSON, **{"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert len(plain.content) < 4 << 20
    packed = post(server, "/v1/traces", body, JSON, **{"Accept-Encoding": "gzip"})
    assert packed.json() == plain.json()


def test_too_much_at_once_is_a_429_that_says_when_to_come_again(tmp_path):
    with collector(tmp_path / "home", "--max-rate", "1") as server:
        body = orjson.dumps(traces(*(span(n) for n in range(1, 9))))
        assert post(server, "/v1/traces", body, JSON).status_code == 200
        answer = post(server, "/v1/traces", body, JSON)
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["code"] == 8


def test_metrics_are_taken_and_dropped(server):
    before = heard(server)
    answer = post(server, "/v1/metrics", b'{"resourceMetrics":[{"anything":1}]}', JSON)
    assert (answer.status_code, answer.json()) == (200, {})
    assert heard(server) == before
    counted = server.get("/metrics").text
    assert 'path="/v1/metrics"' in counted or 'route="/v1/metrics"' in counted


def test_a_request_whose_answer_was_lost_is_taken_once(tmp_path):
    """The collector is killed after it kept a batch; the client sends it again."""
    home = tmp_path / "home"
    bodies = [
        orjson.dumps(each["body"])
        for each in json.loads((SAMPLES[0].parent / "genai-b-agent.json").read_text())["sent"]
    ]
    last = None
    for _ in range(3):
        server = Collector(home)
        for body in bodies:
            assert post(server, "/v1/traces", body, JSON).json() == {}
        found = heard(server)
        assert last in (None, found)
        last = found
        server.kill()


def test_the_sdk_exports_spans_and_logs(tmp_path):
    """The real exporters, with gzip, from a program that calls a model and a tool."""

    with collector(tmp_path / "home") as server:
        resource = Resource.create({"service.name": "sdk", "service.instance.id": "here"})
        spans_out = OTLPSpanExporter(f"{server.url}/v1/traces", compression=Compression.Gzip)
        logs_out = OTLPLogExporter(f"{server.url}/v1/logs", compression=Compression.Gzip)
        tracers, loggers = TracerProvider(resource=resource), LoggerProvider(resource=resource)
        tracers.add_span_processor(BatchSpanProcessor(spans_out))
        loggers.add_log_record_processor(BatchLogRecordProcessor(logs_out))
        tracer = tracers.get_tracer("program")
        about = {"gen_ai.conversation.id": "sdk-talk"}
        with tracer.start_as_current_span(
            "invoke_agent sdk", attributes={"gen_ai.operation.name": "invoke_agent", **about}
        ):
            usage = {"gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3}
            with tracer.start_as_current_span(
                "chat m",
                attributes={"gen_ai.operation.name": "chat", "gen_ai.response.id": "r1"}
                | {"gen_ai.provider.name": "openai", "gen_ai.request.model": "m", **about, **usage},
            ):
                pass
            with (
                pytest.raises(ValueError, match="broken"),
                tracer.start_as_current_span(
                    "execute_tool look",
                    attributes={
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": "look",
                    },
                ),
            ):
                raise ValueError("broken")
            loggers.get_logger("program").emit(
                LogRecord(
                    body={"text": "seen"},
                    event_name="program.saw",
                    severity_number=SeverityNumber.INFO,
                    attributes={"where": ("here", "there"), **about},
                )
            )
        tracers.shutdown()
        loggers.shutdown()
        (run,) = server.get("/api/runs").json()
        assert (run["run"], run["status"]) == (run_id("otlp", "sdk-talk"), "done")
        assert (run["tokens_in"], run["tokens_out"]) == (12, 3)
        assert (run["tool_calls"], run["tool_failures"]) == (1, 1)
        lines = [frame["event"] for frame in server.get("/api/events").json()["events"]]
        (returned,) = [line for line in lines if line["fact"] == "Returned"]
        assert returned["error"]["type"] == "ValueError"
        assert returned["error"]["message"] == "broken"
        (noted,) = [line for line in lines if line.get("kind") == "program.saw"]
        assert noted["data"] == {
            "body": {"text": "seen"},
            "attributes": {"where": ["here", "there"]},
            "severity": "INFO",
        } or noted["data"]["body"] == {"text": "seen"}
        assert noted["run"] == run["run"]
        verified = server.get("/api/events").json()
        assert verified["last"] == len(verified["events"])


# The page that tells agents where to report.


PAGE = Path(__file__).parents[2] / "docs/how-to/send-opentelemetry.md"
SECTIONS = {
    part.partition("\n")[0]: part for part in re.split("^## ", PAGE.read_text(), flags=re.MULTILINE)
}


def listing(section, language):
    return re.search(rf"^```{language}\n(.*?)^```", SECTIONS[section], re.DOTALL | re.MULTILINE)[1]


def exported(section, server):
    """What a shell has in its environment after the listing of a section."""
    typed = re.findall(r"^\$ (.*)$", listing(section, "console"), re.MULTILINE)
    script = "\n".join(typed).replace("http://127.0.0.1:4318", server.url)
    done = subprocess.run(
        ["bash", "-euc", f"{script}\nenv -0"],
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"]},
        check=True,
    )
    return dict(pair.split("=", 1) for pair in done.stdout.decode().split("\0") if pair)


def send_as(sample, endpoint):
    """Sends what an agent would, in protobuf, to where its settings say."""
    for sent in json.loads((SAMPLES[0].parent / f"{sample}.json").read_text())["sent"]:
        body = as_protobuf(sent["to"].rpartition("/")[2], sent["body"])
        with httpx.Client(trust_env=False, timeout=30) as http:
            answer = http.post(endpoint(sent["to"]), content=body, headers=PROTOBUF)
        assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("section", "sample", "needed"),
    [
        (
            "Claude Code",
            "claude-code",
            (
                "CLAUDE_CODE_ENABLE_TELEMETRY OTEL_LOGS_EXPORTER OTEL_METRICS_EXPORTER "
                "OTEL_EXPORTER_OTLP_PROTOCOL OTEL_LOG_USER_PROMPTS OTEL_LOG_TOOL_DETAILS"
            ),
        ),
        ("Gemini CLI", "gemini-cli", "GEMINI_TELEMETRY_ENABLED GEMINI_TELEMETRY_OTLP_PROTOCOL"),
        ("Copilot CLI", "copilot-cli", "COPILOT_OTEL_ENABLED"),
    ],
)
def test_the_page_points_an_agent_to_an_address_that_works(section, sample, needed, tmp_path):
    with collector(tmp_path / "home") as server:
        environment = exported(section, server)
        assert environment.keys() >= set(needed.split())
        names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "GEMINI_TELEMETRY_OTLP_ENDPOINT")
        (base,) = [environment[name] for name in names if name in environment]
        send_as(sample, lambda path: base + path)
        assert len(server.get("/api/runs").json()) == 1


def test_the_page_points_codex_to_an_address_that_works(tmp_path):
    with collector(tmp_path / "home") as server:
        text = listing("Codex", "toml").replace("http://127.0.0.1:4318", server.url)
        settings = tomllib.loads(text)["otel"]
        exporter = settings["exporter"]["otlp-http"]
        assert exporter["protocol"] == "binary"
        assert "trace_exporter" not in settings
        places = {"/v1/logs": exporter["endpoint"], "/v1/traces": f"{server.url}/v1/traces"}
        send_as("codex", places.__getitem__)
        (run,) = server.get("/api/runs").json()
        assert run["run"] == "ccaa664d-f560-4adf-a669-7ce101fa96c2"


def test_the_page_points_an_sdk_here_with_nothing_but_its_environment(tmp_path):
    program = """
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
with provider.get_tracer("program").start_as_current_span("job"):
    pass
provider.shutdown()
"""
    token = "s3cret"
    with collector(tmp_path / "home", TRACKLOG_TOKEN=token) as server:
        environment = exported("Any OpenTelemetry SDK", server)
        said = listing("With a token", "console").replace("$(cat token)", token)
        headers = re.search(r'OTEL_EXPORTER_OTLP_HEADERS="(.*)"', said)[1]
        environment["OTEL_EXPORTER_OTLP_HEADERS"] = headers
        subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
        server.http.headers["Authorization"] = f"Bearer {token}"
        (run,) = server.get("/api/runs").json()
        assert (run["title"], run["status"]) == ("job", "done")
