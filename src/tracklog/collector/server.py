"""The process: a socket, the signals, and the order in which things stop."""

import asyncio
import contextlib
import errno
import gc
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import uvicorn

from tracklog.collector import logs
from tracklog.collector.app import Collector
from tracklog.collector.limits import Limits
from tracklog.collector.openapi import HEADER, VERSION
from tracklog.collector.protocol import Connection, connections_with
from tracklog.errors import TracklogError

_BACKLOG = 2048
_FILES = 128  # of journal, index, blobs and hosts, besides the connections
_TURN = 0.001  # seconds a thread that answers keeps the interpreter while the loop waits for it


class Server(uvicorn.Server):
    """Stops when told: takes no more, lets watchers go, finishes what was begun."""

    def __init__(self, config: uvicorn.Config, collector: Collector) -> None:
        super().__init__(config)
        self.collector = collector

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._told, number)
        yield
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    def _told(self, number: int) -> None:
        logs.say("info", "stopping", signal=signal.Signals(number).name)
        self.force_exit = self.should_exit
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                assert isinstance(connection, Connection)
                connection.grow_old(now)
        return await super().on_tick(counter)

    async def startup(self, sockets: "list[socket.socket] | None" = None) -> None:
        for host in self.collector.hosts.values():
            await host.start()
        await super().startup(sockets)

    async def shutdown(self, sockets: "list[socket.socket] | None" = None) -> None:
        for host in self.collector.hosts.values():
            await host.stop()
        await self.collector.hub.stop()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; why not, in words, where it cannot be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise TracklogError(
                f"port {port} of {host} is taken",
                "another collector may be running there; `--port 0` takes any that is free",
            ) from None
        if error.errno == errno.EACCES:
            raise TracklogError(
                f"port {port} may not be taken by this user", "choose one above 1023"
            ) from None
        raise TracklogError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}",
            "see `tracklog serve --help` for --host and --port",
        ) from None
    bound.setblocking(False)
    return bound


def serve(
    collector: Collector, bound: socket.socket, ready: Callable[[], None] = lambda: None
) -> None:
    """Serves until it is told to stop; on return everything acknowledged is kept and closed."""
    limits = within(collector.limits, _allow_files())
    logs.take_over()
    options: dict[str, Any] = {
        "http": connections_with(limits, collector.counts),
        "ws": "none",
        "loop": "uvloop",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "headers": [(HEADER, VERSION)],
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": 10,
        "backlog": _BACKLOG,
    }
    config = uvicorn.Config(collector, **options)
    server = Server(config, collector)
    _settle()
    ready()
    try:
        server.run(sockets=[bound])
    finally:
        collector.close()
    logs.say("info", "stopped", last=collector.home.journal.last)


def _settle() -> None:
    """The loop gets its turn soon; what is there by now stays, and is not swept again and again."""
    sys.setswitchinterval(_TURN)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # a batch of lines alone makes hundreds of objects


def within(limits: Limits, files: int) -> Limits:
    """Those limits, with as many connections as leave files to keep the record in."""
    room = files - _FILES - limits.turned_away
    return replace(limits, connections=min(limits.connections, max(8, room)))


def _allow_files() -> int:
    """As many open files as this user may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if allowed == resource.RLIM_INFINITY else allowed
