"""One connection: uvicorn's protocol, with an end to the patience that the rude live on.

A stream gets the connection itself, in the scope's extensions, so that the bytes which a thousand
watchers share are handed to their sockets without being copied for each.
"""

import asyncio
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tracklog.collector import otlp
from tracklog.collector.limits import Limits
from tracklog.collector.trouble import Trouble

EXTENSION = "tracklog.connection"


class Connection(HttpToolsProtocol):
    """Knows since when it waits for the rest of a request, and how large its header is."""

    limits = Limits()
    """Those of the server; a server sets them on a class of its own."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.began = self.heard = self.loop.time()
        self.in_header, self.in_body = True, False
        self.fed = 0
        self.on_lost: Callable[[], None] | None = None
        if len(self.connections) > self.limits.connections:
            self.refuse(503, "there are too many connections", "come again in a second")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.on_lost is not None:
            self.on_lost()

    def data_received(self, data: bytes) -> None:
        self.heard = self.loop.time()
        if self.in_header:
            if not self.fed:
                self.began = self.heard
            self.fed += len(data)
        super().data_received(data)
        if self.in_header and self.fed > self.limits.header and not self.transport.is_closing():
            limit = f"send at most {self.limits.header:,} bytes of it"
            self.refuse(431, "the header is too large", limit)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.in_header = True
        self.scope["extensions"] = {EXTENSION: self}  # type: ignore[dict-item]  # ours

    def on_headers_complete(self) -> None:
        self.in_header, self.in_body, self.fed = False, True, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.in_body = False
        super().on_message_complete()

    def refuse(self, status: int, why: str, hint: str) -> None:
        """Answers what no route hears of, and closes."""
        path = "" if self.in_header else self.scope["path"]
        if status == 408 and path in otlp.PATHS:
            status = 503  # the one code for it that exporters send again for
        trouble = Trouble(status, why, hint, headers={"Retry-After": "1", "Connection": "close"})
        said = otlp.refused(path, {} if self.in_header else dict(self.headers), trouble)
        head = b"".join(b"%b: %b\r\n" % pair for pair in said.raw_headers)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + bytes(said.body))
        self.transport.close()

    def grow_old(self, now: float) -> None:
        """Closes a connection whose request does not arrive; the server calls it now and then."""
        if self.transport.is_closing():
            return
        if self.in_header and (self.fed or self.cycle is None):
            if now - self.began > self.limits.header_seconds:
                self.refuse(408, "the header did not arrive in time", "send it at once")
        elif self.in_body and not self.flow.read_paused:
            silent = now - self.heard > self.limits.silent_seconds
            if silent or now - self.began > self.limits.body_seconds:
                if self.cycle is None or not self.cycle.response_started:
                    self.refuse(408, "the body did not arrive in time", "send it again, at once")
                else:
                    self.transport.abort()


def connections_with(limits: Limits) -> type[Connection]:
    """The protocol of a server that has these limits."""
    return type("Connection", (Connection,), {"limits": limits})
