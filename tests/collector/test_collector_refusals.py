"""What an exporter is told by a collector that has no room, no time or no use for what it sends."""

import asyncio
import fcntl
import re
import threading
from collections.abc import Iterator

import orjson
import pytest
from google.protobuf import json_format
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from support.collecting import Collector, collector, start
from support.waiting import eventually
from tracklog.collector.protocol import _Answer

PROTOBUF, JSON = "application/x-protobuf", "application/json"
UNAVAILABLE, EXHAUSTED, INVALID = 14, 8, 3


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Collector]:
    limits = {"header": 16_384, "header_seconds": 1, "silent_seconds": 1}
    with collector(tmp_path_factory.mktemp("home"), limits=limits) as made:
        yield made


FULL = {"connections": 2, "overflow": 6, "overflow_seconds": 1, "header_seconds": 60}
"""Room for two; six more are heard out."""


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Iterator[Collector]:
    with collector(tmp_path_factory.mktemp("home"), limits=FULL) as made, greet(made), greet(made):
        yield made


def greet(server: Collector):
    """A connection that was answered once."""
    made = server.raw()
    made.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"}\n"):
        answer += made.recv(1000)
    assert answer.startswith(b"HTTP/1.1 200 ")
    return made


def heard(socket) -> bytes:
    """All that comes until the other end closes."""
    found = b""
    while read := socket.recv(1 << 16):
        found += read
    return found


def asked(server, *sent: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    """What is answered to bytes that are sent: the status, the headers and the body."""
    rude = server.raw()
    for piece in sent:
        rude.sendall(piece)
    return answered(rude)


def answered(rude) -> tuple[int, dict[bytes, bytes], bytes]:
    with rude:
        answer = heard(rude)
    head, _, body = answer.partition(b"\r\n\r\n")
    top, *lines = head.split(b"\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
    assert int(headers[b"content-length"]) == len(body)
    assert headers[b"connection"] == b"close"
    return int(top.split()[1]), headers, body


def head(kind: str, path: str = "/v1/traces", more: str = "") -> bytes:
    lines = f"Host: localhost\r\nContent-Type: {kind}\r\nAccept: */*\r\n{more}"
    return f"POST {path} HTTP/1.1\r\n{lines}".encode()


def counted(server: Collector, name: str) -> int:
    """What /metrics says of it; 0 where it says nothing."""
    lines = server.get("/metrics").text.splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


def check_status(headers, body: bytes, kind: str, code: int, words: str) -> None:
    assert headers[b"content-type"] == kind.encode()
    if kind == PROTOBUF:
        said = Status.FromString(body)
        assert (said.code, words in said.message) == (code, True)
    else:
        said = orjson.loads(body)
        assert said.keys() == {"code", "message"}
        assert (said["code"], words in said["message"]) == (code, True)


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs?x=1", "http://localhost/v1/metrics"])
def test_an_exporter_without_a_free_connection_gets_a_status(full, kind, path):
    sent = head(kind, path, "Content-Length: 5000000\r\n\r\n") + b"x" * 5_000_000
    status, headers, body = asked(full, sent)
    assert (status, headers[b"retry-after"]) == (503, b"1")
    check_status(headers, body, kind, UNAVAILABLE, "too many connections")


def test_other_clients_without_a_free_connection_get_the_usual_error(full):
    status, headers, body = asked(full, b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (status, headers[b"retry-after"]) == (503, b"1")
    assert orjson.loads(body).keys() == {"error", "hint"}


def test_whoever_is_refused_is_not_waited_for(full):
    long = head(JSON) + b"X: " + b"y" * 9000
    rude = [full.raw() for _ in range(3)]
    for each, sent in zip(rude, (b"", b"POST /v1/tra", long), strict=True):
        each.sendall(sent)
    for each in rude:
        status, headers, body = answered(each)
        assert (status, headers[b"retry-after"]) == (503, b"1")
        assert b"too many connections" in body


def test_only_a_limited_number_of_excess_connections_is_answered(full):
    many = [full.raw() for _ in range(20)]
    answers = [heard(each) for each in many]
    for each in many:
        each.close()
    told = [answer for answer in answers if answer]
    assert 1 <= len(told) <= FULL["overflow"]
    assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in told)


def test_there_is_room_again_when_others_have_left(tmp_path):
    with collector(tmp_path, limits={"connections": 1, "overflow_seconds": 60}) as server:
        first, second = server.raw(), server.raw()
        assert server.get("/healthz").status_code == 503  # both of them were let in before
        first.close()
        assert eventually(lambda: server.get("/healthz").status_code == 200)  # `second` waits on
        second.close()


def test_the_sdk_tries_again_until_there_is_room(tmp_path):
    """The real exporter is refused, and delivers once others have left."""
    with collector(tmp_path, limits=FULL) as server:
        exporter = OTLPSpanExporter(f"{server.url}/v1/traces", timeout=60)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        end = provider.get_tracer("t").start_span("step").end
        sending = threading.Thread(target=end)
        refused = 'tracklog_requests_total{method="none",route="refused",status="503"}'
        with greet(server):
            assert counted(server, refused) == 0
            sending.start()
            assert eventually(lambda: counted(server, refused))
            assert server.get("/api/events").json()["last"] == 0
        sending.join(60)
        provider.shutdown()
        assert "Began" in {each["event"]["fact"] for each in frames(server)}


def frames(server: Collector) -> list[dict]:
    return server.get("/api/events").json()["events"]


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_a_header_that_is_too_large_is_a_status_for_an_exporter(server, kind):
    status, headers, body = asked(server, head(kind, more="X: ") + b"y" * 100_000)
    assert status == 431
    assert b"retry-after" not in headers  # it would be as large again
    check_status(headers, body, kind, EXHAUSTED, "the header is too large")


def test_a_header_that_does_not_end_is_a_status_for_an_exporter(server):
    slow = {kind: server.raw() for kind in (PROTOBUF, JSON)}
    for kind, each in slow.items():
        each.sendall(head(kind))
    for kind, each in slow.items():
        status, headers, body = answered(each)
        assert (status, headers[b"retry-after"]) == (503, b"1")
        check_status(headers, body, kind, UNAVAILABLE, "did not arrive in time")


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_what_is_no_http_is_a_status_for_an_exporter(server, kind):
    status, headers, body = asked(server, head(kind, more="\x00: x\r\n\r\n"))
    assert status == 400
    check_status(headers, body, kind, INVALID, "no HTTP request")


def test_a_second_request_that_does_not_end_is_cut_off_as_the_first_is(server):
    rude = {begun: greet(server) for begun in (b"\r\n", b"GET / HT")}
    for begun, each in rude.items():
        each.sendall(begun)
    for each in rude.values():
        status, _, _ = answered(each)
        assert status == 408


def test_the_header_of_a_second_request_is_measured_too(server):
    with greet(server) as rude:
        rude.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * 60_000)
        assert heard(rude).startswith(b"HTTP/1.1 431 ")


def test_a_header_begun_during_an_answer_does_not_cut_the_answer_off(server):
    server.post([start("pipelined")])
    with server.raw() as rude:
        rude.sendall(
            b"GET /api/inbox/nobody/answer?wait=3&run=kahn:pipelined HTTP/1.1\r\n"
            b"Host: localhost\r\n\r\nGET /"
        )
        answer = heard(rude)
    assert answer.startswith(b"HTTP/1.1 204 ")
    assert b"HTTP/1.1 408 " in answer  # and then the second is not waited for


def test_answers_with_and_without_a_body_are_complete_and_in_the_order_of_the_requests(server):
    line = start("expected") + b"\n"
    posted = head(JSON, "/api/events", f"Content-Length: {len(line)}\r\nExpect: 100-continue")
    question = b"%b /healthz HTTP/1.1\r\nHost: localhost\r\n%b\r\n"
    with server.raw() as rude:
        rude.sendall(question % (b"HEAD", b"") + question % (b"GET", b""))
        rude.sendall(posted + b"\r\n\r\n" + line + question % (b"HEAD", b"Connection: close\r\n"))
        answer = heard(rude)
    assert re.findall(rb"HTTP/1.1 ([0-9]+) ", answer) == [b"200", b"200", b"100", b"200", b"200"]
    assert (answer.count(b'"status":"ok"'), answer.count(b'"accepted":1')) == (1, 1)


def test_an_acknowledgement_has_the_same_header_whether_the_connection_stays_open_or_not(server):
    line = start("acknowledged") + b"\n"
    posted = b"%b\r\n\r\n%b" % (head(JSON, "/api/events", f"Content-Length: {len(line)}"), line)
    counted = 'requests_total{method="POST",route="/api/events",status="200"} '
    before = server.get("/metrics").text
    with server.raw() as rude:
        rude.sendall(posted + posted.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        first, last = heard(rude).split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200 OK\r\n")
    assert all(b'"refused":0' in each for each in (first, last))
    lines = [each.partition(b"\r\n\r\n")[0].lower().split(b"\r\n") for each in (first, last)]
    fields = [dict(line.split(b": ", 1) for line in each[1:]) for each in lines]
    assert fields[1].pop(b"connection") == b"close"
    for each, text in zip(fields, (first, last), strict=True):
        assert int(each.pop(b"content-length")) == len(text.partition(b"\r\n\r\n")[2])
    assert fields[0] == fields[1]
    assert {b"content-type", b"tracklog-protocol"} <= fields[0].keys()
    times = [
        float((re.findall(re.escape(counted) + "(.*)", text) or ["0"])[0])
        for text in (before, server.get("/metrics").text)
    ]
    assert times[1] - times[0] == 2


class Wire(asyncio.Transport):
    """Notes what it is given at one go."""

    def __init__(self):
        self.went = []

    def write(self, data):
        self.went.append(data)

    def writelines(self, pieces):
        assert all(pieces)  # asyncio waits for ever to have sent an empty one
        self.went.append(b"".join(pieces))

    def is_closing(self):
        return False


def test_a_head_goes_with_its_body_or_alone_when_nothing_follows_at_once():
    async def told(*rounds):
        wire = Wire()
        answer = _Answer(wire, asyncio.get_running_loop())
        for pieces in rounds:
            for piece in pieces:
                answer.write(piece)
            await asyncio.sleep(0)
        return wire.went

    assert asyncio.run(told([b"head ", b"body", b"more"])) == [b"head body", b"more"]
    assert asyncio.run(told([b"head"], [b"late"])) == [b"head", b"late"]
    assert asyncio.run(told([b"head", b""])) == [b"head"]
    goes_on = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert asyncio.run(told([goes_on, b"head ", b"body"])) == [goes_on, b"head body"]


@pytest.mark.parametrize("path", ["/v1/traces", "/api/events"])
def test_a_client_that_is_still_sending_gets_the_answer_to_too_much(tmp_path, path):
    """What is not taken is read to its end: a socket closed before that would lose the answer."""
    with collector(tmp_path, limits={"held": 100_000}) as server:
        more = "Content-Length: 8000000\r\nConnection: close\r\n\r\n"
        status, headers, body = asked(server, head(JSON, path, more), b" " * 8_000_000)
        assert (status, headers[b"retry-after"]) == (429, b"1")
        assert b"too much" in body
        assert "tracklog_held_bytes 0" in server.get("/metrics").text


def points(server: Collector) -> int:
    return counted(server, "tracklog_metric_points_dropped_total")


KINDS = ("gauge", "sum", "histogram", "exponentialHistogram", "summary")


def metrics(*counts: int) -> dict:
    """A request with a metric of each kind, which has so many points."""
    made = [
        {"name": kind, kind: {"dataPoints": [{"timeUnixNano": "1"}] * count}}
        for kind, count in zip(KINDS, counts, strict=True)
    ]
    return {"resourceMetrics": [{"scopeMetrics": [{"metrics": made}, {}]}, {"unknown": 1}]}


def send(server: Collector, body: bytes, kind: str):
    return server.http.post("/v1/metrics", content=body, headers={"Content-Type": kind})


def as_protobuf(document: dict) -> bytes:
    message = ExportMetricsServiceRequest()
    json_format.ParseDict(document, message, ignore_unknown_fields=True)
    return message.SerializeToString()


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_the_points_of_metrics_are_counted_and_dropped(server, kind):
    before, last = points(server), server.get("/api/events").json()["last"]
    document = metrics(1, 2, 3, 4, 0)
    body = orjson.dumps(document) if kind == JSON else as_protobuf(document)
    answer = send(server, body, kind)
    assert (answer.status_code, answer.content) == (200, b"{}" if kind == JSON else b"")
    assert points(server) == before + 10
    assert server.get("/api/events").json()["last"] == last


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PROTOBUF, b"\x0a\xff"),
        (PROTOBUF, as_protobuf(metrics(1, 1, 1, 1, 1))[:-1]),
        (JSON, b"{"),
        (JSON, b"[]"),
        (JSON, b'{"resourceMetrics":{}}'),
        (JSON, b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"sum":{"dataPoints":7}}]}]}]}'),
    ],
)
def test_metrics_that_cannot_be_read_are_a_400_with_a_status(server, kind, body):
    before = points(server)
    answer = send(server, body, kind)
    assert answer.status_code == 400
    head = {name.lower(): value for name, value in answer.headers.raw}
    check_status(head, answer.content, kind, INVALID, "content type")
    assert points(server) == before


def test_the_sdk_exports_metrics_and_they_are_counted(server):
    before = points(server)
    exporter = OTLPMetricExporter(f"{server.url}/v1/metrics")
    provider = MeterProvider([PeriodicExportingMetricReader(exporter)])
    counter = provider.get_meter("t").create_counter("calls")
    for tool in ("read", "write", "read"):
        counter.add(1, {"tool": tool})
    provider.shutdown()
    assert points(server) == before + 2


def test_lines_that_are_not_stored_in_time_are_a_503_and_each_is_stored_once_by_its_retry(tmp_path):
    """The first had begun, and is stored when the disk answers; the second had not, and is not."""
    with collector(tmp_path, limits={"append_seconds": 0.2}, durability="sync") as server:

        def post(run: str):
            return server.post([start(run)], params={"batch": run})

        assert post("before").status_code == 200
        with (tmp_path / "journal" / "lock").open("rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for run in ("begun", "waiting"):
                answer = post(run)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
                assert "not stored yet" in answer.json()["error"]
        assert eventually(lambda: post("begun").status_code == 200)
        assert post("begun").json()["replayed"]
        assert "replayed" not in post("waiting").json()
        runs = [row["run"] for row in server.get("/api/runs").json()]
        assert sorted(runs) == ["before", "begun", "waiting"]
        assert eventually(lambda: "tracklog_held_bytes 0" in server.get("/metrics").text)
