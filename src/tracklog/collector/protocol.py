"""One connection: uvicorn's protocol, with time limits for slow or hostile clients.

A stream gets the connection itself, in the scope's extensions, so that bytes shared by a thousand
watchers are handed to their sockets without being copied for each.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from tracklog.collector import otlp
from tracklog.collector.ingest import SEND_JSON
from tracklog.collector.metrics import Counts
from tracklog.web.limits import Limits
from tracklog.web.trouble import Trouble

EXTENSION = "tracklog.connection"
_READ_OUT = 8 << 10  # bytes of a header, of a connection that is refused
_FRAMED = 16  # bytes of framing that each byte of a chunked body may have
_PROBED = 1.0  # seconds between two checks whether a client that sends no more still reads
_JSON = b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_PROBE = b"HTTP/1.1 100 Continue\r\n\r\n"  # which any client ignores


class _TurnedAwayError(Exception):
    """Ends the reading of a request that was answered before it was read."""


class _Answer(asyncio.Transport):
    """Sends the head of a response with the first part of its body: one packet instead of two.

    A head without a body at once is sent alone, in the next round of the loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.transport, self.loop = transport, loop
        self.head: bytes | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.head:
            head, self.head = self.head, b""
            # asyncio never finishes with an empty part of several, and then never closes
            self.transport.writelines((head, data) if data else (head,))
        elif self.head is None and data[:12] != b"HTTP/1.1 100":
            self.head = bytes(data)
            self.loop.call_soon(self.send_head)
        else:
            self.transport.write(data)

    def send_head(self) -> None:
        if self.head and not self.is_closing():
            self.transport.write(self.head)
        self.head = b""

    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def close(self) -> None:
        self.send_head()
        self.transport.close()


class _Trailers(list[tuple[bytes, bytes]]):
    """Takes the place of the headers behind a header: trailers are measured, and not used."""

    connection: "HttpConnection"

    def append(self, field: tuple[bytes, bytes]) -> None:
        super().append(field)
        self.connection.measure(self)


class HttpConnection(HttpToolsProtocol):
    """Knows since when it waits for the rest of a request, and how large its header is."""

    limits = Limits()
    """The limits of the server; each server sets them on a subclass."""
    counts = Counts()
    surplus: "set[HttpConnection]" = set()  # noqa: RUF012  # shared by the connections of a server
    """Connections over the limit: read as far as their header, to be told to try again."""
    on_closed: Callable[[], None] | None = None
    """Called when the connection is closed: its file descriptor is free again."""
    is_surplus = False
    """Whether this one was accepted only to be refused."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.began = self.last_read = self.loop.time()
        self.in_header, self.in_body, self.refused = True, False, False
        self.fed = self.unsent = self.framing = 0
        self.half_closed = False
        self.url, self.headers = b"", []
        self.on_lost: Callable[[], None] | None = None
        if self.is_surplus or (len(self.connections) - len(self.surplus) > self.limits.connections):
            self.surplus.add(self)
            if len(self.surplus) > self.limits.overflow:
                transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.surplus.discard(self)
        if self.on_lost is not None:
            self.on_lost()
        if self.on_closed is not None:
            self.loop.call_soon(self.on_closed)

    def data_received(self, data: bytes) -> None:
        # read and dropped, up to the size of a body, so that the client reads the response
        if self.refused:
            self.fed += len(data)
            if self.fed > self.limits.body:
                self.transport.abort()
            return
        self.last_read = self.loop.time()
        if not self.in_body:
            if not self.in_header:
                self.in_header, self.began = True, self.last_read
            self.fed += len(data)
        else:
            self.framing += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.in_header:
            if self.fed > self.limits.header:
                self._refuse_header()
            elif self.fed > _READ_OUT and self in self.surplus:
                self._turn_away()
        elif self.in_body and self.framing > self.limits.header:
            self._refuse_header("the framing of the body")

    def eof_received(self) -> bool:  # type: ignore[override]  # whether the connection stays open
        """A client that sends no more may still read: its request is answered first."""
        if self.refused or self.in_body or self._is_answered() or self.on_lost is not None:
            return False
        if not self.half_closed:
            self.half_closed = True
            self.loop.call_later(_PROBED, self._probe, self.cycle)
        return True

    def _probe(self, cycle: object) -> None:
        """Find out whether the client has left: then the probe is answered by a reset."""
        if self.cycle is not cycle or self.cycle.response_started or self.transport.is_closing():
            return
        if self.scope["http_version"] == "1.1" and not self.pipeline:
            self.transport.write(_PROBE)
            self.loop.call_later(_PROBED, self._probe, cycle)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.half_closed and self._is_answered() and not self.pipeline:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self.in_header:
            self.in_header, self.began = True, self.last_read
        self.scope["extensions"] = {EXTENSION: self}  # type: ignore[dict-item]  # ours

    def measure(self, fields: list[tuple[bytes, bytes]], size: int = 0) -> None:
        """Refuse a header, or trailers, however many of their lines came in one piece."""
        size += sum([len(name) + len(value) + 4 for name, value in fields])
        if size > self.limits.header or len(fields) > self.limits.fields:
            self._refuse_header()
            raise _TurnedAwayError

    def _refuse_header(self, what: str = "the header") -> None:
        limits = self.limits
        most = f"send at most {limits.header:,} bytes in {limits.fields} lines of it"
        self.refuse(431, f"{what} is too large", most)

    def on_body(self, body: bytes) -> None:
        if self.framing:
            self.framing = max(0, self.framing - (1 + _FRAMED) * len(body))
        super().on_body(body)

    def on_headers_complete(self) -> None:
        if self in self.surplus:
            self._turn_away()
            raise _TurnedAwayError  # so that nothing more of it is read
        self.measure(self.headers, len(self.url))
        if self.url[:1] != b"/":
            self._take_authority()
        super().on_headers_complete()  # which may find that it cannot be read
        send_json = partial(self.send_json, self.cycle)
        self.scope["extensions"][SEND_JSON] = send_json  # type: ignore[assignment]  # ours
        self.cycle.transport = _Answer(self.transport, self.loop)
        self.in_header, self.in_body, self.fed, self.framing = False, True, 0, 0
        self.headers = trailers = _Trailers()
        trailers.connection = self

    def _take_authority(self) -> None:
        """The authority of a target with a scheme replaces the Host header (RFC 9112, 3.2.2)."""
        target = httptools.parse_url(self.url)
        if target.host:
            host = re.split(rb"[/?#]", self.url.partition(b"://")[2], maxsplit=1)[0]  # unchanged
            others = [pair for pair in self.headers if pair[0] != b"host"]
            self.headers[:] = [*others, (b"host", host)]
            query = b"?" + target.query if target.query else b""
            self.url = (target.path or b"/") + query

    def send_json(self, cycle: RequestResponseCycle, body: bytes) -> bool:
        """Answer a request with JSON, in one piece; False where uvicorn has to do it in its way.

        Its own `send` is called twice, and checks every header of every answer.
        """
        if cycle.disconnected or not cycle.keep_alive or self.flow.write_paused:
            return False
        head = b"".join([b"%b: %b\r\n" % pair for pair in cycle.default_headers])
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        self.transport.write(_JSON % (head, len(body), body))
        cycle.on_response()
        return True

    def on_message_complete(self) -> None:
        self.in_body = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's words
        self.refuse(
            400, "this is no HTTP request", "send a method, a path and headers as HTTP/1.1 has them"
        )

    def shutdown(self) -> None:
        """Answer the requests that have arrived; incomplete ones get a moment."""
        if self.refused:
            self.transport.close()
        elif self.in_header and self.fed and self._is_answered():
            self._stop()
        else:
            super().shutdown()
            if self.in_body:
                self.loop.call_later(self.limits.stopping_seconds, self._stop)

    def _stop(self) -> None:
        if self.in_header or self.in_body:
            self.refuse(503, "the server is stopping", "send it again later")

    def refuse(self, status: int, why: str, hint: str) -> None:
        """Answer without a route; further bytes are dropped until the client has read the response.

        A socket that is closed with unread bytes is reset, and the response is lost.
        """
        if self.refused or self.transport.is_closing():
            return
        self.refused, self.fed = True, 0
        if not (self.in_header and self._is_answered()):
            if self.cycle.response_started:
                self.transport.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        path = self._path()
        if status == 408 and path in otlp.PATHS:
            status = 503  # the only code for which exporters try again
        self.counts.requests["none", "refused", status] += 1
        headers = {"Connection": "close"}
        if status in (408, 503):
            headers["Retry-After"] = "1"
        sent = dict(self.headers if self.in_header else self.scope["headers"])
        content = otlp.refused(path, sent, Trouble(status, why, hint, headers=headers))
        pairs = (*self.server_state.default_headers, *content.raw_headers)
        head = b"".join(b"%b: %b\r\n" % pair for pair in pairs)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + bytes(content.body))
        self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(self.limits.overflow_seconds, self.transport.abort)

    def _is_answered(self) -> bool:
        """Whether no request is in progress except for a header."""
        return self.cycle is None or self.cycle.response_complete

    def _turn_away(self) -> None:
        self.refuse(503, "there are too many connections", "try again in a second")

    def _path(self) -> str:
        """The path of the request, as far as it was received."""
        try:
            return (httptools.parse_url(self.url).path or b"").decode("latin-1")
        except httptools.HttpParserError:
            return ""

    def grow_old(self, now: float) -> None:
        """Close a connection whose request does not arrive; the server calls it regularly."""
        if self.refused or self.transport.is_closing():
            return
        age = now - self.began
        if self in self.surplus:
            if age > self.limits.overflow_seconds:
                self._turn_away()
        elif self.in_header:
            if not self._is_answered():
                self.began = now  # requests sent ahead have time until they can be answered
            elif age > self.limits.header_seconds:
                self.refuse(408, "the header did not arrive in time", "send it at once")
        elif self.in_body and not self.flow.read_paused:
            silent = now - self.last_read > self.limits.silent_seconds
            if silent or age > self.limits.body_seconds:
                self.refuse(408, "the body did not arrive in time", "send it again, at once")
        elif self.on_lost is None:  # watchers are checked by the stream
            self._check_is_read(now)

    def _check_is_read(self, now: float) -> None:
        """Close a connection whose response nobody reads."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self.unsent:
            self.unsent, self.last_read = unsent, now
        elif unsent and now - self.last_read > self.limits.stalled_seconds:
            self.transport.abort()


def connections_with(limits: Limits, counts: Counts) -> type[HttpConnection]:
    """The protocol of a server with these limits, which counts refusals."""
    own = {"limits": limits, "counts": counts, "surplus": set()}
    return type("Connection", (HttpConnection,), own)
