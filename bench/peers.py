"""From POST to queryable: the same spans over OTLP, sent here, to Phoenix and to MLflow.

Each takes a trace and is asked for it, by its own API, until its answer holds every span with all
that was told of it; one trace after the other, in turns, so that noise hits all alike.
The ids of the spans are looked for in the bytes of the answer, so that nobody is charged for what a
client does with it. Each keeps what it took as durably as it does by default.
"""

import contextlib
import http.client
import json
import os
import re
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

sys.path.insert(0, str(Path(__file__).parent))

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from timing import goal, peer_python
from tracklog.formats.importers import LineWriter, run_id
from tracklog.formats.importers.otlp import MAPPING, WRITER, wire, write_items
from tracklog.formats.importers.otlp.memory import Memory

ROUNDS = int(os.environ.get("ROUNDS", "15"))
SIZES = (10, 100)
PATIENCE = 300
"""Seconds for a server to start: the first time it makes its tables."""


def trace_of(count: int) -> tuple[str, bytes]:
    """The id of a trace and a request with so many spans: an agent that asks a model for tools."""
    trace, now = secrets.token_bytes(16), time.time_ns()
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    block.resource.attributes.append(_pair("service.name", "bench"))
    spans = block.scope_spans.add().spans
    root = secrets.token_bytes(8)
    for n in range(count):
        kind = "invoke_agent" if n == 0 else "chat" if n % 2 else "execute_tool"
        begun = now - 10**9 + n * 10**6
        span = spans.add(
            trace_id=trace,
            span_id=root if n == 0 else secrets.token_bytes(8),
            parent_span_id=b"" if n == 0 else root,
            name=f"{kind} {'coder' if n == 0 else 'gpt-5' if n % 2 else 'read_file'}",
            kind=Span.SPAN_KIND_CLIENT if kind == "chat" else Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=begun,
            end_time_unix_nano=begun + 5 * 10**5,
        )
        span.attributes.extend(_pair(key, value) for key, value in _attributes(kind, n).items())
    return trace.hex(), request.SerializeToString()


def _attributes(kind: str, n: int) -> dict[str, object]:
    said = [{"role": "user", "parts": [{"type": "text", "content": f"Step {n}. " + "words " * 80}]}]
    common = {"gen_ai.operation.name": kind, "gen_ai.agent.name": "coder"}
    match kind:
        case "chat":
            return common | {
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "gpt-5",
                "gen_ai.response.id": secrets.token_hex(8),
                "gen_ai.usage.input_tokens": 1000 + n,
                "gen_ai.usage.output_tokens": 50,
                "gen_ai.input.messages": json.dumps(said),
            }
        case "execute_tool":
            return common | {
                "gen_ai.tool.name": "read_file",
                "gen_ai.tool.call.id": f"call_{n}",
                "gen_ai.tool.call.arguments": json.dumps({"path": f"src/{n}.py"}),
                "gen_ai.tool.call.result": "text " * 100,
            }
    return common


def _pair(key: str, value: object) -> KeyValue:
    if isinstance(value, int):
        return KeyValue(key=key, value=AnyValue(int_value=value))
    return KeyValue(key=key, value=AnyValue(string_value=str(value)))


class Server:
    """One of those that are compared."""

    name: str
    told: re.Pattern[bytes]
    """How the id of a span is written in its answers."""
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(self, python: Path, folder: Path) -> None:
        self.port = _free_port()
        log = (folder / f"{self.name}.log").open("wb")
        self.process = subprocess.Popen(
            self.command(python, folder), stdout=log, stderr=log, cwd=folder,
            env={**os.environ, **self.environment(folder)},
        )  # fmt: skip  # one call
        self.log = Path(log.name)
        log.close()
        self.http = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def command(self, python: Path, folder: Path) -> list[str]:
        raise NotImplementedError

    def environment(self, folder: Path) -> dict[str, str]:  # noqa: ARG002  # others need it
        return {}

    def request(self, body: bytes) -> tuple[str, str, bytes]:
        """Where a trace is sent, and as what."""
        return "/v1/traces", "application/x-protobuf", body

    def question(self, trace: str) -> str:
        """Where the spans of a trace are asked for."""
        raise NotImplementedError

    def spans(self, trace: str) -> int:
        """How many spans of a trace it tells of."""
        status, said = self.ask("GET", self.question(trace))
        return len(set(self.told.findall(said))) if status == 200 else 0

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes]:
        self.http.request(method, path, body, headers)
        answer = self.http.getresponse()
        return answer.status, answer.read()

    def started(self) -> None:
        """Waits until it takes a trace and tells of it."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.took(1)
                return
            self.http.close()
            time.sleep(0.2)
        raise RuntimeError(f"{self.name} did not start:\n{self.log.read_text()[-3000:]}")

    def took(self, count: int) -> float:
        """Seconds from POST until every span of a trace is told."""
        trace, body = trace_of(count)
        path, kind, body = self.request(body)
        self.http.close()  # it may have been idle for too long
        self.http.connect()
        began = time.perf_counter()
        status, said = self.ask("POST", path, body, **{"Content-Type": kind}, **self.headers)
        if status != 200:
            raise http.client.HTTPException(f"{self.name}: {status} {said[:300]!r}")
        while self.spans(trace) < count:
            if time.perf_counter() - began > 60:
                raise RuntimeError(f"{self.name} tells of {self.spans(trace)} of {count} spans")
        return time.perf_counter() - began

    def end(self) -> None:
        self.http.close()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)


class Ours(Server):
    name = "ours, by OTLP"
    told = re.compile(rb'"record":"[0-9a-f]{32}/([0-9a-f]{16})"')

    def command(self, python: Path, folder: Path) -> list[str]:  # noqa: ARG002  # ours is here
        home = str(folder / f"home-{self.port}")
        return [sys.executable, "-m", "tracklog", "serve", "--home", home, "--port", str(self.port)]

    def question(self, trace: str) -> str:
        return f"/api/events?run=tracklog:{run_id('otlp', trace)}&limit=10000"


class Lines(Ours):
    """The same content as lines: what the spans tell, sent by a client that writes them itself."""

    name = "ours, as lines"

    def request(self, body: bytes) -> tuple[str, str, bytes]:
        items = [each for each in wire.from_protobuf("traces", body) if isinstance(each, wire.Item)]
        out = LineWriter(WRITER, MAPPING, "")
        list(write_items(items, out, Memory()))
        lines = b"".join(line + b"\n" for line in out.lines)
        return "/api/events/tracklog", "application/x-ndjson", lines


class Phoenix(Server):
    name = "Phoenix"
    told = re.compile(rb'"span_id": ?"([0-9a-f]{16})"')

    def command(self, python: Path, folder: Path) -> list[str]:  # noqa: ARG002  # by environment
        return [str(python), "-m", "phoenix.server.main", "serve"]

    def environment(self, folder: Path) -> dict[str, str]:
        return {
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(self.port),
            "PHOENIX_GRPC_PORT": str(_free_port()),
            "PHOENIX_WORKING_DIR": str(folder / "phoenix"),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }

    def question(self, trace: str) -> str:
        return f"/v1/projects/default/spans?limit=1000&trace_id={trace}"


class MLflow(Server):
    name = "MLflow"
    told = re.compile(rb'"span_id": ?"([^"]+)"')
    headers = MappingProxyType({"x-mlflow-experiment-id": "0"})

    def command(self, python: Path, folder: Path) -> list[str]:
        at = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        kept = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
        return [str(python), "-m", "mlflow", "server", *at, *kept]

    def question(self, trace: str) -> str:
        return f"/api/3.0/mlflow/traces/get?trace_id=tr-{trace}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def servers(python: Path) -> "Iterator[list[Server]]":
    with tempfile.TemporaryDirectory() as folder:
        made: list[Server] = []
        try:
            made.extend(kind(python, Path(folder)) for kind in (Lines, Ours, Phoenix, MLflow))
            for server in made:
                server.started()
            yield made
        finally:
            for server in made:
                server.end()


def main() -> None:
    python = peer_python(Path(__file__).parent / "tracers")
    if python is None:
        print("  Phoenix and MLflow could not be installed; nothing is claimed against them")
        return
    with servers(python) as made:
        for count in SIZES:
            taken: dict[str, list[float]] = {}
            for turn in range(ROUNDS + 2):
                for server in made:
                    took = server.took(count)
                    if turn > 1:
                        taken.setdefault(server.name, []).append(took)
            median = {name: statistics.median(each) for name, each in taken.items()}
            for name, each in median.items():
                print(
                    f"  {name:<14} {count:>4} spans  {each * 1000:>9.1f} ms until all can be asked for"
                )
            best = min(median["Phoenix"], median["MLflow"])
            for name, least in ((Lines.name, 20), (Ours.name, 10)):
                goal(
                    f"{count} spans until queryable, the better peer / {name}",
                    best / median[name],
                    at_least=least,
                    peer=f"{best * 1000:,.1f} ms",
                    ours=f"{median[name] * 1000:,.1f} ms",
                )


if __name__ == "__main__":
    main()
