"""OTLP over HTTP: `/v1/traces`, `/v1/logs`, `/v1/metrics`, so that any exporter can send here."""

import asyncio
import contextlib
import gzip
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from starlette.responses import Response

from tracklog.collector.ingest import RATE, late_trouble
from tracklog.collector.shapes import ref
from tracklog.dialects import tracklog as native
from tracklog.dialects.checking import parse
from tracklog.formats.importers import LineWriter, hashed
from tracklog.formats.importers.otlp import MAPPING, WRITER, wire, write_items
from tracklog.formats.importers.otlp.memory import HOOKS, Memory
from tracklog.model.event import Body, Refusal
from tracklog.web import bodies
from tracklog.web.routing import Schema
from tracklog.web.trouble import Trouble

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.home.home import Home
    from tracklog.intake.verdicts import Verdict
    from tracklog.web.bodies import Held
    from tracklog.web.routing import RoutedRequest

T = TypeVar("T")
Headers = Mapping[bytes, bytes]

PROTOBUF, JSON = b"application/x-protobuf", b"application/json"
TYPES = frozenset({PROTOBUF, JSON})
PATHS = frozenset({"/v1/traces", "/v1/logs", "/v1/metrics"})
_SPEAK = "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf (or http/json), and the port to 4318"

BINARY: Schema = {"type": "string", "format": "binary"}
BODY: Schema = {
    "anyOf": [BINARY, ref("JsonObject")],
    "description": "An OTLP export request, opentelemetry-proto 1.11: protobuf or JSON.",
}
ANSWER: Schema = {
    "type": "object",
    "properties": {
        "partialSuccess": {
            "type": "object",
            "properties": {
                "rejectedSpans": {"type": "string", "pattern": "^[0-9]+$"},
                "rejectedLogRecords": {"type": "string", "pattern": "^[0-9]+$"},
                "errorMessage": {"type": "string"},
            },
        }
    },
}
STATUS: Schema = {
    "type": "object",
    "description": "A google.rpc.Status.",
    "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
}

_TAIL = 20_000  # how many records back an active trace is searched
_REPORTED = 3  # refusals that are listed in words
_WORDS = 500  # characters of each
_PACKED = 1024  # size of a response from which it is compressed
_CODES = {
    400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 413: 8, 415: 3, 421: 7, 429: 8, 431: 8, 503: 14,
}  # fmt: skip  # one table
"""The codes of google.rpc.Status for our status codes."""
_GZIP = re.compile(rb"(?:^|,)gzip(?:;q=(?!0(?:\.0*)?(?:,|$))[^,]*)?(?:,|$)")
"""An `Accept-Encoding` that accepts gzip: named, and not with a weight of 0."""
_OURS = (WRITER, HOOKS)
_MARKS = tuple(f'"writer":"{writer}"'.encode() for writer in _OURS)


async def traces(collector: "Collector", call: "RoutedRequest") -> Response:
    """Spans."""
    return await _received(collector, call, "traces")


async def logs(collector: "Collector", call: "RoutedRequest") -> Response:
    """Log records."""
    return await _received(collector, call, "logs")


async def metrics(collector: "Collector", call: "RoutedRequest") -> Response:
    """Metrics: accepted, because agents report errors otherwise, counted and dropped."""
    points = await _read(collector, call, wire.points)
    collector.counts.points += points or 0
    as_json = _as_json(call.headers)
    return _response(call.headers, 200, b"{}" if as_json else b"", as_json=as_json)


async def _received(collector: "Collector", call: "RoutedRequest", signal: wire.Signal) -> Response:
    telemetry, expect = collector.telemetry, collector.rate.take
    taken = await _read(
        collector, call, lambda body, as_json: telemetry.take(signal, body, as_json, expect)
    )
    taken = taken or Taken()
    if taken.verdicts:
        collector.hub.poke()
        collector.counts.lines(native.dialect.name, taken.verdicts)
    as_json = _as_json(call.headers)
    content = wire.partial_success(signal, taken.rejected, taken.message, as_json=as_json)
    return _response(call.headers, 200, content, as_json=as_json)


async def _read(
    collector: "Collector", call: "RoutedRequest", read: Callable[[bytes, bool], T]
) -> T | None:
    """The result of a function, in a thread, for the body; an empty body has no items."""
    held = collector.held
    body = await bodies.read(call.receive, call.headers, held)
    weight = len(body)
    try:
        if not body:
            return None
        job = collector.telemetry.pool.submit(read, body, _as_json(call.headers))
        async with asyncio.timeout(held.limits.append_seconds + weight / RATE):
            return await asyncio.wrap_future(job)
    except TimeoutError:
        if job.running():  # its items are in memory until it ends
            loop = asyncio.get_running_loop()
            job.add_done_callback(partial(_give_back, loop, held, weight))
            weight = 0
        raise late_trouble() from None
    except wire.Undecodable as error:
        hint = "send an OTLP request as its content type says"
        raise Trouble(400, str(error), hint) from None
    finally:
        held.now -= weight


def _give_back(loop: asyncio.AbstractEventLoop, held: "Held", size: int, _job: object) -> None:
    def give_back() -> None:
        held.now -= size

    with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody asks for room
        loop.call_soon_threadsafe(give_back)


def _as_json(headers: Headers) -> bool:
    """Whether the response is JSON, as the request is; the default is JSON."""
    return _kind(headers) != PROTOBUF


def _kind(headers: Headers) -> bytes:
    """The media type of a request; parameters are ignored."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def refused(path: str, headers: Headers, trouble: Trouble) -> Response:
    """An error in the form of the client: a `google.rpc.Status` for an exporter."""
    return _failed(headers, trouble) if path in PATHS else trouble.response()


def _failed(headers: Headers, trouble: Trouble) -> Response:
    """A Status, in the type of the request."""
    kind, as_json = _kind(headers), _as_json(headers)
    # A client that uses gRPC gets a hint.
    hint = _SPEAK if trouble.status == 415 and kind not in TYPES else trouble.hint
    words = f"{trouble.message}: {hint}" if hint else trouble.message
    content = wire.status(_CODES.get(trouble.status, 13), words, as_json=as_json)
    return _response(headers, trouble.status, content, as_json=as_json, more=trouble.headers)


def _response(
    headers: Headers,
    status: int,
    body: bytes,
    *,
    as_json: bool,
    more: Mapping[str, str] | None = None,
) -> Response:
    """A response in the type of the request, compressed where that is worth it and accepted."""
    more = dict(more or {})
    accepted = headers.get(b"accept-encoding", b"").lower().replace(b" ", b"")
    if len(body) >= _PACKED and _GZIP.search(accepted):
        body = gzip.compress(body, 6)
        more["Content-Encoding"] = "gzip"
    return Response(body, status, more, (JSON if as_json else PROTOBUF).decode())


class Taken(NamedTuple):
    """The result of a request."""

    rejected: int = 0
    message: str = ""
    verdicts: "list[Verdict]" = []  # noqa: RUF012  # never changed


class Telemetry:
    """Admits items to a home, one request at a time: what is new depends on earlier requests."""

    def __init__(self, home: "Home") -> None:
        self.home = home
        self._turn = threading.Lock()
        self._memory: Memory | None = None
        self.pool = ThreadPoolExecutor(2, "telemetry")
        """A pool of its own: requests that wait here do not block those that send lines."""

    def take(
        self,
        signal: wire.Signal,
        body: bytes,
        as_json: bool,
        expect: Callable[[int], None] = lambda _: None,
    ) -> Taken:
        """Admit the items of a body; raises `Undecodable` or, where they cannot be stored,
        `Trouble`.

        `expect` is called with the number of items, and may raise before any of them is admitted.
        """
        document = None
        if as_json:
            document = wire.parsed(body)
            telemetry = [*wire.from_document(signal, document)]
        else:
            telemetry = [*wire.from_protobuf(signal, body)]
        expect(len(telemetry))
        items = [each for each in telemetry if isinstance(each, wire.Item)]
        refused = [each for each in telemetry if isinstance(each, wire.RefusedItem)]
        message = "" if telemetry else wire.advice(signal, document)
        verdicts: list[Verdict] = []
        if items:
            verdicts, more = self._admitted(items)
            refused += more
        return Taken(len(refused), _row(refused) or message, verdicts)

    def close(self) -> None:
        """Finish what was begun, after the last request."""
        self.pool.shutdown()

    def _admitted(self, items: list[wire.Item]) -> "tuple[list[Verdict], list[wire.RefusedItem]]":
        rows: list[tuple[wire.Item, str, int]] = []

        def write(out: LineWriter, memory: Memory) -> None:
            rows.extend(write_items(items, out, memory))

        def judge(verdicts: "list[Verdict]", memory: Memory) -> "list[wire.RefusedItem]":
            return self._refused(rows, verdicts, memory)

        return self.admit(WRITER, MAPPING, write, judge)

    def admit(
        self,
        writer: str,
        mapping: str,
        write: Callable[[LineWriter, Memory], None],
        judge: "Callable[[list[Verdict], Memory], T]",
    ) -> "tuple[list[Verdict], T]":
        """Admit the lines that `write` writes, and what `judge` makes of their verdicts.

        One at a time: what is new depends on what was admitted before.
        """
        with self._turn:
            memory = self._remembered()
            contents: dict[str, bytes] = {}
            put = _into(contents)
            out = LineWriter(writer, mapping, "", put=put, redact=self.home.redact)
            try:
                write(out, memory)
                # The blobs first: a line must not refer to a blob that does not exist.
                self.home.blobs.put_all(contents.values())
                lines, bodies = out.lines, out.bodies
                verdicts = self.home.intake.admit(
                    lines, native.dialect.name, bodies=bodies, source="reader"
                )
            except OSError as error:
                self._memory = None  # the facts it remembers were not stored
                raise Trouble(
                    503,
                    f"the disk refused it: {error.strerror or error}",
                    "keep it and send it again",
                    headers={"Retry-After": "5"},
                ) from error
            except BaseException:
                self._memory = None
                raise
            return verdicts, judge(verdicts, memory)

    def _refused(
        self,
        lines: list[tuple[wire.Item, str, int]],
        verdicts: "list[Verdict]",
        memory: Memory,
    ) -> list[wire.RefusedItem]:
        """The items with a refused line; an item's verdict is the worst of its lines'."""
        if not any(verdict.problems for verdict in verdicts):
            return []
        left = iter(verdicts)
        refusals = []
        for item, run, count in lines:
            problems = [problem for _ in range(count) for problem in next(left).problems]
            if problems:
                first = problems[0]
                refusals.append(
                    wire.RefusedItem(item.pointer, f"{first.pointer} {first.message}", first.hint)
                )
                memory.forget(run)
        return refusals

    def _remembered(self) -> Memory:
        if self._memory is None:
            self._memory = Memory(recall=self.recall, fetch=self.home.blobs.get)
            for body in _bodies(record.line for record in self.home.newest(_TAIL)):
                self._memory.remember(body)
            self._memory.unnamed.settle(self._memory.agent_above)
        return self._memory

    def recall(self, run: str) -> Iterator[Body]:
        """What OTLP and hooks reported of a run, from its own lines."""
        of = (native.dialect.family, run)
        yield from _bodies(record.line for record in self.home.journal.records(run=of))


def _into(contents: dict[str, bytes]) -> Callable[[bytes], str]:
    """Collects the lines to store."""

    def put(content: bytes) -> str:
        name = hashed(content)
        contents[name] = content
        return name

    return put


def _bodies(lines: Iterable[bytes]) -> Iterator[Body]:
    for line in lines:
        if any(mark in line for mark in _MARKS) and not isinstance(parsed := parse(line), Refusal):
            body, _ = parsed
            if body.get("origin", {}).get("writer") in _OURS:
                yield body


def _row(refused: list[wire.RefusedItem]) -> str:
    """The first few in words, then the number of the others."""
    texts = [
        f"{each.pointer}: {each.message}; {each.hint}"[:_WORDS] for each in refused[:_REPORTED]
    ]
    if len(refused) > _REPORTED:
        texts.append(f"and {len(refused) - _REPORTED} more")
    return " · ".join(texts)
