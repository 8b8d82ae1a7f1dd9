"""Targets of the fuzzer that ask a collector: over HTTP, as bytes of a connection, MCP and gRPC."""

import asyncio
import contextlib
import gzip
import io
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from uvicorn.server import ServerState

from tracklog.collector.app import Collector
from tracklog.collector.grpc import _PATHS, GrpcServer
from tracklog.collector.mcp.endpoint import PATH as MCP
from tracklog.collector.protocol import connections_with
from tracklog.collector.routes import ROUTES
from tracklog.formats import registry
from tracklog.home.home import Home
from tracklog.web.limits import Limits

SAMPLES = Path(__file__).parents[1] / "tests" / "samples"
ASKED = [route for route in ROUTES if not route.waits]
RUN = b"""{"ts":"2026-05-05T09:00:00.000Z","run_id":"a","event":"agent_run_start","agent_id":"b","task":"c"}
{"ts":"2026-05-05T09:00:01.000Z","run_id":"a","event":"tool_invocation","agent_id":"b","step":0,\
"tool_name":"Read","duration_s":0.1,"ok":true}"""
NAMES = {
    "agent": registry.hook_names(),
    "dialect": ["kahn-agent", "kahn-ci", "awf", "fishbowl", "openwop", "ralph", "tracklog"],
    "family": ["kahn"],
    "format": registry.exporter_names(),
    "host": ["workflow", "fishbowl", "openwop"],
    "run": ["a"],
}
"""Values of paths that are known to the collector."""

Target = Callable[[bytes], None]
Ask = Callable[[bytes], Awaitable[None]]


def _collector(stack: contextlib.ExitStack) -> tuple[asyncio.Runner, Collector]:
    loop = stack.enter_context(asyncio.Runner())
    home = Home("memory:")
    home.intake.admit(RUN.split(b"\n"), "kahn-agent")
    collector = Collector(home)
    stack.callback(collector.close)
    return loop, collector


def _runner(loop: asyncio.Runner, ask: Ask) -> Target:
    """Asks within a minute; what was logged is part of a failure."""

    async def asked(data: bytes) -> None:
        await asyncio.wait_for(ask(data), 60)

    def run(data: bytes) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as log:
            try:
                loop.run(asked(data))
            except AssertionError as error:
                raise AssertionError(f"{error}: {log.getvalue()[-2000:]}") from None

    return run


async def _answer(
    collector: Collector, method: str, path: str, query: bytes, headers: list[Any], body: bytes
) -> dict[bytes, bytes]:
    """Ask, and return the headers of the answer; fails if the status is 500."""
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode()}
    scope |= {"query_string": query, "client": ("127.0.0.1", 1), "http_version": "1.1"}
    scope |= {"headers": [(b"host", b"localhost"), *headers], "root_path": ""}
    scope |= {"scheme": "http", "server": ("127.0.0.1", 80)}
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    begun: dict[str, Any] = {}

    async def receive() -> Any:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        begun.update(message)

    await collector(scope, receive, send)
    if begun.get("status") == 500:
        raise AssertionError(f"{method} {path} answered 500")
    return dict(begun.get("headers", ()))


def http(stack: contextlib.ExitStack) -> Target:
    """Any route, with known or unknown names, any query, any body, plain or packed."""
    loop, collector = _collector(stack)

    async def ask(data: bytes) -> None:
        which, how = (data + b"\0\0")[:2]
        names, _, body = data[2:].partition(b"\n")
        route = ASKED[which % len(ASKED)]
        path = "/".join(
            _value(part[1:-1], names, how) if part.startswith("{") else part
            for part in route.path.split("/")
        )
        headers = []
        if route.takes:
            kinds = sorted(route.takes)
            headers.append((b"content-type", kinds[(how >> 1) % len(kinds)]))
            if how & 8:
                headers.append((b"content-encoding", b"gzip"))
                body = gzip.compress(body, 1) if how & 16 else body
            headers.append((b"content-length", b"%d" % len(body)))
        query = names[:200] if how & 32 else b""
        await _answer(collector, route.method, path, query, headers, body)

    return _runner(loop, ask)


def _value(name: str, names: bytes, how: int) -> str:
    known = NAMES.get(name, ["0" * 64])
    return str(known[len(names) % len(known)]) if how & 1 else names.hex()[:4] or "x"


def http_seeds(lines: list[bytes]) -> list[bytes]:
    """Each route with some lines; hooks with their own events, and OpenTelemetry as JSON."""
    bodies = [*lines[:60], b'{"run":"kahn:a","tag":"x"}', b"token=a", b"{}", b""]
    seeds = [
        bytes([at, how]) + b"run=a&limit=1\n" + body
        for at in range(len(ASKED))
        for how, body in zip((1, 33, 0, 32, 25, 9), bodies[at::9], strict=False)
    ]
    paths = [route.path for route in ASKED]
    hooks, traces, logs = map(paths.index, ("/api/hooks/{agent}", "/v1/traces", "/v1/logs"))
    for number, agent in enumerate(NAMES["agent"]):
        start = bytes([hooks, 1]) + b"x" * number + b"\n"
        seeds += [start + line for line in _events(SAMPLES / "hooks" / f"{agent}.jsonl")]
    for path in sorted((SAMPLES / "otlp").glob("*.json"))[:12]:
        for sent in orjson.loads(path.read_bytes())["sent"][:2]:
            at = traces if sent["to"] == "/v1/traces" else logs
            seeds.append(bytes([at, 1]) + b"\n" + orjson.dumps(sent["body"])[: 1 << 14])
    return seeds


def _events(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()[:20] if path.exists() else []


class _Pipe(asyncio.Transport):
    """A connection whose other end is the fuzzer."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 80)})
        self.sent, self.closed = bytearray(), False

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, parts: Any) -> None:
        self.sent += b"".join(parts)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = write_eof = close

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


def wire(stack: contextlib.ExitStack) -> Target:
    """Bytes of a connection, in pieces: the first byte says of which size."""
    loop, collector = _collector(stack)
    made = connections_with(collector.limits, collector.counts)
    config = uvicorn.Config(collector, http=made, ws="none", lifespan="off", log_config=None)
    config.load()

    async def feed(data: bytes) -> None:
        pipe, state = _Pipe(), ServerState()
        connection = made(config, state, {}, asyncio.get_running_loop())
        connection.connection_made(pipe)
        size, rest = (data[0] if data else 0) * 8 + 1, data[1:]
        for at in range(0, len(rest), size):
            if not pipe.closed:
                connection.data_received(rest[at : at + size])
        connection.eof_received()
        connection.connection_lost(None)
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=60)
        if b"HTTP/1.1 500" in pipe.sent:
            raise AssertionError("it answered 500")

    return _runner(loop, feed)


def wire_seeds() -> list[bytes]:
    post = b"POST /api/events/kahn-agent HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    line = RUN.split(b"\n")[0]
    chunks = b"%x;a=b\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (len(line), line)
    return [
        b"\xff" + post + b"Content-Length: %d\r\n\r\n" % len(line) + line,
        b"\2" + post + b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
        b"\xff" + post + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n{}\n",
        b"\xffGET /api/runs?limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2,
        b"\1HEAD /healthz HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\nHost: a\r\n\r\n",
    ]


def mcp(stack: contextlib.ExitStack) -> Target:
    """Requests to the tools of MCP, in one session."""
    loop, collector = _collector(stack)
    kinds = b"application/json, text/event-stream"
    headers = [(b"content-type", b"application/json"), (b"accept", kinds)]

    async def begin() -> None:
        collector.offer_mcp(operate=True)
        assert collector.mcp is not None
        await collector.mcp.start()
        answer = await _answer(collector, "POST", MCP, b"", headers, mcp_seeds()[0])
        headers.append((b"mcp-session-id", answer[b"mcp-session-id"]))
        ready = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        await _answer(collector, "POST", MCP, b"", headers, ready)

    async def end() -> None:
        assert collector.mcp is not None
        await collector.mcp.stop()

    loop.run(begin())
    stack.callback(lambda: loop.run(end()))

    async def ask(data: bytes) -> None:
        await _answer(collector, "POST", MCP, b"", headers, data)

    return _runner(loop, ask)


def mcp_seeds() -> list[bytes]:
    client = {"name": "a", "version": "1"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}),
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/read", {"uri": "tracklog://run/kahn/a"}),
    ]
    tools = {
        "runs": {"limit": 1}, "show": {"run": "kahn:a"}, "story": {"run": "kahn:a"},
        "why": {"run": "kahn:a", "seq": 1}, "search": {"text": "c"}, "costs": {}, "series": {},
        "findings": {}, "diff": {"a": "kahn:a", "b": "kahn:a"},
    }  # fmt: skip  # one table
    calls += [("tools/call", {"name": name, "arguments": given}) for name, given in tools.items()]
    rows = [{"jsonrpc": "2.0", "id": 1, "method": name, "params": given} for name, given in calls]
    return [orjson.dumps(row) for row in rows]


class _Aborted(Exception):
    pass


class _Context:
    """The context of a call over gRPC."""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def set_trailing_metadata(self, _metadata: Any) -> None: ...

    async def abort(self, code: Any, message: str) -> None:
        if code.name == "INTERNAL":
            raise AssertionError(message)
        raise _Aborted(message)


def grpc(stack: contextlib.ExitStack) -> Target:
    """Messages of OpenTelemetry over gRPC; the first byte says which signal."""
    loop, collector = _collector(stack)
    server = GrpcServer(collector, Limits(), "127.0.0.1", 1)
    exports = [server._export(path) for path in _PATHS.values()]

    async def ask(data: bytes) -> None:
        with contextlib.suppress(_Aborted):
            await exports[(data[0] if data else 0) % len(exports)](data[1:], _Context())

    return _runner(loop, ask)
