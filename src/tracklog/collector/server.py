"""The server process: the socket, the signals, and the order of the shutdown."""

import asyncio
import contextlib
import errno
import gc
import os
import resource
import select
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from tracklog.collector.app import Collector
from tracklog.collector.openapi import HEADER, VERSION
from tracklog.collector.protocol import HttpConnection, connections_with
from tracklog.collector.tenants import Tenants
from tracklog.model.errors import TracklogError
from tracklog.web import logs
from tracklog.web.limits import Limits

_BACKLOG = 2048
_FILES = 128  # of journal, index, blobs and hosts, besides the connections
_AT_ONCE = 64  # connections accepted before other work gets its turn
_RESERVED = 4  # file descriptors for telling clients that there are no others
_HANDSHAKE = 10.0  # seconds
_REST = 0.1  # seconds until it is tried again
_STOPPED_TWICE = 1.0  # seconds that are left after a second signal
_FINISHING = 2.0  # seconds of the grace period for cleaning up cancelled requests
_TURN = 0.001  # seconds that a worker thread may hold the interpreter while the loop waits for it


class Server(uvicorn.Server):
    """Stops on request: accepts no more, closes streams, finishes requests."""

    def __init__(
        self,
        config: uvicorn.Config,
        collector: Collector | Tenants,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(config)
        self.collector, self._tls = collector, tls
        self.deadline = Deadline(collector.limits.grace_seconds)
        self._listeners: list[SocketListener] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signals: list[int] = []

    @contextlib.contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """Take the signals over: before the address is printed, until all is closed."""
        # Not the signal handlers of the loop: these run also while the loop waits for a disk or a
        # lock.
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        self._loop = asyncio.get_running_loop()
        self._log_signals()
        yield

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self.deadline.begin()
        self.force_exit = self.should_exit
        self.should_exit = True
        self._signals.append(number)
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._log_signals)

    def _log_signals(self) -> None:
        """In the loop: a signal handler may have interrupted the log in the middle of a line."""
        while self._signals:
            name = signal.Signals(self._signals.pop(0)).name
            logs.log("info", "stopping", signal=name)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                assert isinstance(connection, HttpConnection)
                connection.grow_old(now)
        return await super().on_tick(counter)

    async def startup(self, sockets: "list[socket.socket] | None" = None) -> None:
        await self.collector.open()
        await super().startup([])
        self._listeners = [
            SocketListener(each, self._connection, self._tls) for each in sockets or ()
        ]

    def _connection(self) -> HttpConnection:
        protocol = self.config.http_protocol_class
        assert issubclass(protocol, HttpConnection), "we serve with our own protocol"
        return protocol(self.config, self.server_state, {})

    async def shutdown(self, sockets: "list[socket.socket] | None" = None) -> None:
        for listener in self._listeners:
            listener.close()
        await self.collector.stop()
        await super().shutdown(sockets)


class Deadline:
    """Ends the process when it was asked to stop and has not done so in time.

    Acknowledged lines are on disk by then; it only waits for something that does not come: a lock
    of another process, a disk that hangs, a host's child.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._thread = threading.Thread(target=self._wait, name="deadline", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Start it from a signal handler, where no lock may be acquired."""
        with contextlib.suppress(OSError):
            os.write(self._write, b"!")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._write, b".")

    def _wait(self) -> None:
        written = select.poll()
        written.register(self._read, select.POLLIN)
        byte = os.read(self._read, 1)
        until = time.monotonic() + self.seconds
        while b"." not in byte and (left := until - time.monotonic()) > 0:
            if written.poll(1000 * left):
                byte += os.read(self._read, 64)
                if byte.count(b"!") > 1:  # a second signal: only a little longer
                    until = min(until, time.monotonic() + _STOPPED_TWICE)
        if b"." in byte:
            os.close(self._read)
            os.close(self._write)
            return
        logs.log("warning", "stopped without waiting any longer", seconds=self.seconds)
        os._exit(0)


class SocketListener:
    """Accepts connections; without a free file descriptor it tells clients so, and resumes when
    there is one.

    A few descriptors are reserved to tell clients to try again. When these are used up too, the
    others wait in the queue of the system.
    """

    def __init__(
        self,
        bound: socket.socket,
        connect: Callable[[], HttpConnection],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.bound, self.connect, self._tls = bound, connect, tls
        self._loop = asyncio.get_running_loop()
        self._reserve = [_nothing() for _ in range(_RESERVED)]
        self._opening: set[asyncio.Task[None]] = set()
        self._resting: asyncio.TimerHandle | None = None
        self._closed = False
        self._loop.add_reader(bound.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            self._refill()  # first, or connections would use up the reserve
            is_short = len(self._reserve) < _RESERVED
            try:
                client, _ = self.bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    logs.log_failure("a connection was not accepted", error)
                    self._rest()
                else:
                    self._turn_away()
                return
            self._open(client, is_surplus=is_short)

    def _turn_away(self) -> None:
        """Accept one connection with a reserved descriptor, and refuse it."""
        if self._reserve:
            os.close(self._reserve.pop())
            with contextlib.suppress(OSError):
                client, _ = self.bound.accept()
                self._open(client, is_surplus=True)
                return
        self._rest()

    def _rest(self) -> None:
        self._loop.remove_reader(self.bound.fileno())
        self._resting = self._loop.call_later(_REST, self._go_on)

    def _go_on(self) -> None:
        self._resting = None
        self._refill()
        self._loop.add_reader(self.bound.fileno(), self._accept)

    def _refill(self) -> None:
        with contextlib.suppress(OSError):
            while len(self._reserve) < _RESERVED and not self._closed:
                self._reserve.append(_nothing())

    def _open(self, client: socket.socket, *, is_surplus: bool) -> None:
        client.setblocking(False)
        connection = self.connect()
        connection.is_surplus = is_surplus
        connection.on_closed = self._refill
        task = self._loop.create_task(self._opened(client, connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _opened(self, client: socket.socket, connection: HttpConnection) -> None:
        try:
            patience = None if self._tls is None else _HANDSHAKE
            await self._loop.connect_accepted_socket(
                lambda: connection, client, ssl=self._tls, ssl_handshake_timeout=patience
            )
        except OSError:  # the client has left, or speaks no TLS
            client.close()

    def close(self) -> None:
        self._closed = True
        if self._resting is not None:
            self._resting.cancel()
        else:
            self._loop.remove_reader(self.bound.fileno())
        for each in self._reserve:
            os.close(each)
        self._reserve = []


def _nothing() -> int:
    return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def _next_free(family: int, address: tuple[Any, ...]) -> int:
    """The next port that nothing listens on; 0, which is any free one, where all are taken."""
    host, port, *rest = address
    for free in range(port + 1, 1 << 16):
        with socket.socket(family, socket.SOCK_STREAM) as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, free, *rest))
            return free
    return 0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; a readable error where it cannot be opened."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            free = _next_free(family, address)
            raise TracklogError(
                f"port {port} of {host} is in use",
                "another program listens there, perhaps a collector or the demo: stop it with Ctrl-C "
                "where it runs, or with `kill %1` if this shell started it with `&`; or choose "
                f"another port with `--port {free}` (`make run PORT={free}`)",
            ) from None
        if error.errno == errno.EACCES:
            raise TracklogError(
                f"port {port} cannot be used by this user", "choose one above 1023"
            ) from None
        raise TracklogError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}",
            "see `tracklog serve --help` for --host and --port",
        ) from None
    bound.setblocking(False)
    return bound


def tls_of(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """What serves https; None without a certificate."""
    if certificate is None:
        if key is not None:
            raise TracklogError("--tls-key needs --tls-cert", "name the certificate, too")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        raise TracklogError(
            f"the certificate cannot be used: {error}", "give a certificate and its key, as PEM"
        ) from error
    return context


def tls_files(certificate: str | None, key: str | None) -> tuple[bytes, bytes] | None:
    """The key and the certificate, for gRPC; None without a certificate."""
    if certificate is None:
        return None
    return Path(key or certificate).read_bytes(), Path(certificate).read_bytes()


def serve(
    collector: Collector | Tenants,
    bound: socket.socket,
    ready: Callable[[], None] = lambda: None,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve until asked to stop; on return everything acknowledged is stored and closed."""
    limits = within(collector.limits, _allow_files())
    logs.take_over()
    config = uvicorn.Config(
        collector,
        http=connections_with(limits, collector.counts),
        ws="none",
        loop="uvloop",
        lifespan="off",
        log_config=None,
        access_log=False,
        headers=[(HEADER, VERSION)],
        server_header=False,
        date_header=False,
        proxy_headers=False,  # only the login page needs them
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(0.1, limits.grace_seconds - _FINISHING),  # type: ignore[arg-type]  # it takes parts of a second
        backlog=_BACKLOG,
    )
    server = Server(config, collector, tls)
    _settle()
    with server.stopped_by_signals():
        try:
            collector.start()
            ready()
            server.run(sockets=[bound])
        finally:
            collector.close()
            server.deadline.close()
    logs.log("info", "stopped", last=collector.last)


def _settle() -> None:
    """Let the loop get its turn soon; exclude the objects so far from garbage collection."""
    sys.setswitchinterval(_TURN)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # a batch of lines alone makes hundreds of objects


def within(limits: Limits, files: int) -> Limits:
    """The limits, with fewer connections if otherwise no open files were left for the journal."""
    room = files - _FILES
    connections = min(limits.connections, max(8, room - limits.overflow))
    overflow = min(limits.overflow, max(4, room - connections))
    return replace(limits, connections=connections, overflow=overflow)


def _allow_files() -> int:
    """Raise the limit of open files as far as this user may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if allowed == resource.RLIM_INFINITY else allowed
