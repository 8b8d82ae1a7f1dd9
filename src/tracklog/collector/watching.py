"""Who watches a stream: what it is sent, and whether it still may read."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tracklog.collector.protocol import HttpConnection
from tracklog.journal.frame import Record, Run
from tracklog.model.errors import NoSuchRun
from tracklog.web.trouble import Trouble

if TYPE_CHECKING:
    from tracklog.home.home import Home

_FULL = 256 << 10  # unread bytes of a watcher from which it is left out


class StreamFilter(NamedTuple):
    """The filter of a watcher; all records by default."""

    run: Run | None = None
    """The run; a family of "" matches any."""
    dialect: str | None = None
    kind: str | None = None

    def matches(self, record: Record, home: "Home") -> bool:
        if self.run is not None and (
            self.run[1] != record.run or self.run[0] not in ("", record.family)
        ):
            return False
        if self.dialect is not None and self.dialect != record.dialect:
            return False
        if self.kind is None:
            return True
        event = home.event(record)
        return event is not None and event.kind == self.kind


ALL = StreamFilter()


def filter_of(home: "Home", run: str | None, dialect: str | None, kind: str | None) -> StreamFilter:
    """The filter from the query; a run may be named before it begins."""
    if dialect is not None and dialect not in home.dialects:
        known = ", ".join(sorted(home.dialects))
        raise Trouble(404, f"there is no dialect {dialect!r}", f"the dialects are: {known}")
    if run is None:
        return StreamFilter(None, dialect, kind)
    try:
        return StreamFilter(home.run(run), dialect, kind)
    except NoSuchRun:
        families = {each.family for each in home.dialects.values()}
        family, colon, name = run.partition(":")
        key = (family, name) if colon and family in families else ("", run)
        return StreamFilter(key, dialect, kind)


class Watcher:
    """A watcher, and the number up to which it has every record."""

    __slots__ = (
        "check_again",
        "connection",
        "cursor",
        "gone",
        "left",
        "refused",
        "wanted",
        "write",
    )

    cursor: Any
    """A number; of a store with several shards one for each."""

    def __init__(self, connection: HttpConnection, wanted: StreamFilter, cursor: Any) -> None:
        self.connection, self.wanted, self.cursor = connection, wanted, cursor
        self.write: Callable[[bytes], None] = connection.transport.write
        self.left = asyncio.Event()
        self.gone = self.refused = False
        self.check_again: Callable[[], object] = bool
        """Raises an error if the token of the watcher was revoked or has expired."""
        connection.on_lost = self._lost
        try:
            connection.transport.set_write_buffer_limits(_FULL)
        except RuntimeError:  # it left before anything was sent
            self._lost()

    def _lost(self) -> None:
        self.gone = True
        self.left.set()

    def check(self) -> bool:
        """Whether it still may read."""
        try:
            self.check_again()
        except Trouble:
            self.refused = True
        return not self.refused

    def send(self, content: bytes) -> None:
        if content and not self.gone:
            self.hand(chunk(content))

    def hand(self, shared: bytes) -> None:
        """Write bytes to the connection; the client may already be gone."""
        try:
            self.write(shared)
        except RuntimeError:  # the transport is closed, without a notification
            self._lost()

    async def drain(self, seconds: float) -> None:
        """Wait until there is room again; a client that does not read is closed, and can resume."""
        try:
            async with asyncio.timeout(seconds):
                await self.connection.flow.drain()
        except TimeoutError:
            self.connection.transport.abort()
            while not self.gone:
                await self.left.wait()
                self.left.clear()


def chunk(content: bytes) -> bytes:
    """Bytes as a chunk of an HTTP body of unknown length."""
    return b"%x\r\n%b\r\n" % (len(content), content)
