"""OTLP over gRPC: stored, refused and limited as over HTTP."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult

from support.collecting import collector, lasting_port, made_certificate
from tracklog.formats.protobuf_fields import bytes_field

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
TOKEN = "a-token-of-the-tests"
BEARER = (("authorization", f"Bearer {TOKEN}"),)


@contextlib.contextmanager
def serving(home, *options):
    port = lasting_port()
    options = ("--grpc", str(port), "--durability", "os", *options)
    with collector(home, *options, TRACKLOG_TOKEN=TOKEN) as started:
        started.grpc = f"127.0.0.1:{port}"
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("grpc") / "home") as started:
        yield started


def call(server, method, body, metadata=BEARER):
    with grpc.insecure_channel(server.grpc) as channel:
        return channel.unary_unary(method)(body, metadata=metadata, timeout=30, wait_for_ready=True)


def test_the_exporter_of_an_sdk_is_recorded_as_over_http(server):
    exporter = OTLPSpanExporter(
        endpoint=f"http://{server.grpc}", insecure=True, headers=BEARER, timeout=30
    )
    results = []
    export = exporter.export
    exporter.export = lambda spans: results.append(export(spans)) or results[-1]
    provider = TracerProvider(resource=Resource.create({"service.name": "greeter"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("invoke_agent hello") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
        span.set_attribute("gen_ai.conversation.id", "over-grpc")
    provider.shutdown()
    assert results == [SpanExportResult.SUCCESS]
    rows = server.http.get("/api/runs", headers={"Authorization": f"Bearer {TOKEN}"}).json()
    assert "invoke_agent hello" in [row["title"] for row in rows]


@pytest.mark.parametrize(
    ("body", "metadata", "code", "words"),
    [
        (b"", (), grpc.StatusCode.UNAUTHENTICATED, "token"),
        (b"\x0a\xff", BEARER, grpc.StatusCode.INVALID_ARGUMENT, "OTLP request"),
    ],
)
def test_a_refusal_has_the_code_and_the_words_of_http(server, body, metadata, code, words):
    with pytest.raises(grpc.RpcError) as refused:
        call(server, TRACES, body, metadata)
    assert refused.value.code() == code
    assert words in refused.value.details()


def test_metrics_are_accepted_and_an_unknown_method_is_not(server):
    assert call(server, METRICS, b"") == b""
    with pytest.raises(grpc.RpcError) as refused:
        call(server, "/opentelemetry.proto.collector.x/Export", b"")
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_too_many_items_are_refused_with_the_time_of_the_next_try(tmp_path):
    span = b"\x0a\x10" + bytes(range(1, 17)) + b"\x12\x08" + bytes(range(1, 9)) + b"\x2a\x01x"
    scope = bytes_field(2, span)
    spans = bytes_field(1, bytes_field(2, scope)) * 600
    with serving(tmp_path / "home", "--max-rate", "1") as limited:
        call(limited, TRACES, spans)  # more than the burst: the next waits for ten minutes
        with pytest.raises(grpc.RpcError) as refused:
            call(limited, TRACES, spans)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "events in a second" in refused.value.details()
    details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    assert b"google.rpc.RetryInfo" in details


BLOCKED = """
import sys
sys.modules["grpc"] = None
from tracklog.__main__ import main
sys.argv = ["tracklog", *sys.argv[1:]]
main()
"""


def test_without_the_extra_the_line_that_installs_it_is_printed(tmp_path):
    arguments = ["serve", "--home", tmp_path / "home", "--port", "0", "--grpc"]
    ran = subprocess.run(
        [sys.executable, "-c", BLOCKED, *arguments],
        env={**os.environ}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "pip install 'tracklog[grpc]'" in ran.stderr


def test_a_collector_with_a_certificate_asks_for_tls_over_grpc_too(tmp_path):
    certificate, key = made_certificate(tmp_path)
    with serving(tmp_path / "home", "--tls-cert", certificate, "--tls-key", key) as server:
        trusted = grpc.ssl_channel_credentials(Path(certificate).read_bytes())
        with grpc.secure_channel(server.grpc, trusted) as channel:
            answer = channel.unary_unary(TRACES)(
                b"", metadata=BEARER, timeout=60, wait_for_ready=True
            )
            assert answer == b""
        with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary(TRACES)(b"", metadata=BEARER, timeout=60)
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
