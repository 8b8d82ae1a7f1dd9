"""The collector as an ASGI application: each request is routed, guarded, read and answered."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeGuard, TypeVar

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from tracklog.collector import otlp
from tracklog.collector.committing import Committer
from tracklog.collector.grpc import GrpcServer
from tracklog.collector.hooks import HookIntake
from tracklog.collector.ingest import BY_ADDRESS
from tracklog.collector.mcp.endpoint import PATH as MCP
from tracklog.collector.mcp.endpoint import McpEndpoint
from tracklog.collector.mcp.server import BY as MCP_BY
from tracklog.collector.metrics import Counts
from tracklog.collector.pages import SAFE, Console
from tracklog.collector.question_runner import AS_OF, IndexWorker, QuestionRunner
from tracklog.collector.routes import ROUTES
from tracklog.collector.sharded_stream import ShardedHub
from tracklog.collector.sources import Imports
from tracklog.collector.stream import Hub
from tracklog.collector.token_worker import token_worker
from tracklog.demo import is_demo
from tracklog.hosts import Answering
from tracklog.journal.sharding import Sharded, ShardedStore, by_shard
from tracklog.model.errors import TracklogError
from tracklog.web import logs
from tracklog.web.bodies import Held
from tracklog.web.guard import Guard, name_of
from tracklog.web.limits import Limits
from tracklog.web.routing import Route, RoutedRequest, Router
from tracklog.web.tokens import Identity
from tracklog.web.trouble import ClientGone, Trouble, shortage_of, trouble_of

if TYPE_CHECKING:
    from tracklog.collector.alerts.worker import AlertWorker
    from tracklog.collector.archiving import ArchiveWorker
    from tracklog.collector.checkpointing import CheckpointWorker
    from tracklog.home.home import Home
    from tracklog.hosts import Mounted

T = TypeVar("T")
_THREADS = 4  # large bodies that are cut and checked at once


class Rate:
    """Limits the events per second, with a burst of two seconds."""

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._left = 2.0 * per_second
        self._at = time.monotonic()

    def take(self, count: int) -> None:
        if not self.per_second:
            return
        now = time.monotonic()
        most = 2.0 * self.per_second
        self._left = min(most, self._left + (now - self._at) * self.per_second)
        self._at = now
        if self._left <= 0:
            seconds = max(1, round(-self._left / self.per_second + 1))
            raise Trouble(
                429,
                f"more than {self.per_second:,} events in a second",
                f"send it again in {seconds} s; nothing of it was stored",
                headers={"Retry-After": str(seconds)},
            )
        self._left -= count  # a batch larger than the burst passes, and later ones wait for it


LINES_PATHS = frozenset({"/api/events", "/api/events/{dialect}"})
"""Where lines are sent; `GET /api/events` asks for a run like other routes."""
TAKEN_BY_DEMO = frozenset(
    {"/api/convert/{dialect}", "/api/inbox/{question}/answer", "/api/marks", "/api/views", "/login"}
)
"""Routes that a demo serves although they have a body: nothing foreign is recorded by them."""


Role = Literal["all", "collect", "index", "archive"]
"""What one process of several on a database does: everything, or only one of the jobs."""
_OPERATED = frozenset({"/healthz", "/metrics"})  # what a process with another job answers


class Collector:
    """One home, and everything that a request needs."""

    def __init__(
        self,
        home: "Home",
        *,
        limits: Limits | None = None,
        guard: Guard | None = None,
        role: Role = "all",
    ) -> None:
        self.home, self.role = home, role
        if role != "all" and not home.shares_index:
            raise TracklogError(
                f"--role {role} is for several processes on one database with its index",
                "give --store postgresql://..., with a user who may create schemas in the database",
            )
        if role == "collect":
            home.index.waits = True
        home.intake.recogniser.option = BY_ADDRESS
        self.limits = limits or Limits()
        self.guard = guard or Guard()
        self.held = Held(self.limits)
        self.rate = Rate(self.limits.events_per_second)
        self.hub = (
            ShardedHub(home, self.limits, home.store)
            if isinstance(home.store, ShardedStore)
            else Hub(home, self.limits)
        )
        self.hub.active = self.guard.active
        self.runner = QuestionRunner(home)
        self.imports = Imports()
        self.worker = IndexWorker(home)
        self.token_worker = token_worker(self.guard)
        self.archivers: list[ArchiveWorker] = []
        self.checkpointer: CheckpointWorker | None = None
        self.alerter: AlertWorker | None = None
        self.mcp: McpEndpoint | None = None
        self.grpc: GrpcServer | None = None
        self.counts = Counts()
        self.telemetry = otlp.Telemetry(home)
        self.hooks = HookIntake(self.telemetry)
        self.router = Router(ROUTES)
        self.console = Console()
        self.pool = ThreadPoolExecutor(_THREADS, "checker")
        self.committer = Committer(home.intake)
        self.hosts: dict[str, Mounted] = {}
        """Hosts by name: they start runs here, and some have paths of their own."""
        self.inline = home.store.durability == "os"
        """Whether lines are admitted without a thread: with no disk to wait for, a thread costs
        more.
        """
        self.demo = is_demo(home.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "nothing else is served"
        for host in self.hosts.values():
            if _answers(host) and host.claims(scope["path"]):
                await host(scope, receive, send)
                return
        headers = dict(scope["headers"])
        call = RoutedRequest(scope, receive, send, headers)
        path = "other"

        async def counted(message: Message) -> None:
            call.status = message.get("status", call.status)
            await send(message)

        try:
            if len(headers) < len(scope["headers"]):
                self.guard.check_single(scope["headers"])
            self.guard.check_host(headers)
            page = self._of_console(scope)
            if self.mcp is not None and scope["path"] == MCP:
                path = MCP
                self.guard.check_origin(headers)
                peer = (scope.get("client") or ("",))[0]
                identity = self.guard.check_token(headers, peer=peer)
                _check_may_see(identity, None)
                await self.mcp({**scope, MCP_BY: name_of(identity, None)}, receive, counted)
                response = None
            elif page is None:
                route, call.names = self.router.find(scope["method"], scope["raw_path"])
                path, call.send = route.path, counted
                response = await self._answered(route, call)
            else:
                response = page
        except Trouble as trouble:
            response = otlp.refused(scope["path"], headers, trouble)
        except TracklogError as error:
            response = otlp.refused(scope["path"], headers, trouble_of(error))
            if response.status_code >= 500:
                logs.log("error", error.message, route=path, hint=error.hint)
        except ClientGone:
            return
        except asyncio.CancelledError:  # the server stops, and has waited long enough
            late = Trouble(
                503,
                "the server is stopping",
                "try again later",
                headers={"Retry-After": "1", "Connection": "close"},
            )
            response = otlp.refused(scope["path"], headers, late)
        except Exception as error:  # noqa: BLE001  # the client gets an answer, the log has the place
            short = shortage_of(error) if isinstance(error, OSError) else None
            if short is not None:
                logs.log("error", short.message, route=path)
            else:
                logs.log_failure("a request failed", error, route=path, method=scope["method"])
            ours = Trouble(500, "something went wrong here", "see the server's log")
            response = otlp.refused(scope["path"], headers, short or ours)
        if response is not None:
            call.status = response.status_code
            for name, value in SAFE.items():
                response.headers.setdefault(name, value)
            response.headers.setdefault("Cache-Control", "no-store")
            if (at := AS_OF.get()) is not None:
                response.headers["Tracklog-As-Of"] = str(at)
            with contextlib.suppress(asyncio.CancelledError):  # nobody reads it, and we stop
                await response(scope, receive, send)
        self.counts.requests[scope["method"][:10], path, call.status] += 1

    def _of_console(self, scope: Scope) -> Response | None:
        """Whether the path is a file of the console: it holds no secret, so it needs no token."""
        if scope["method"] not in ("GET", "HEAD") or scope["path"] == "/":
            return None
        return self.console.page(scope["path"])

    async def _answered(self, route: Route, call: RoutedRequest) -> Response | None:
        if route.takes:
            self.guard.check_origin(call.headers)
        if not route.free:
            peer = (call.scope.get("client") or ("",))[0]
            if route.waits:
                call.check_again = partial(self.guard.check_token, call.headers, route.rights, peer)
            call.identity = self.guard.check_token(call.headers, route.rights, peer)
        if route.takes:
            self.guard.check_type(call.headers, route.takes)
        if self.role in ("index", "archive") and route.path not in _OPERATED:
            raise Trouble(
                404,
                f"this process has the role {self.role!r} and answers only /healthz and /metrics",
                "ask a collector with the role `collect` or `all`",
            )
        if self.demo and route.takes and route.path not in TAKEN_BY_DEMO:
            raise Trouble(
                403,
                "this is the demo: it shows invented runs and refuses events from outside",
                "stop it (Ctrl-C) and start `tracklog serve`, which records; then send this again",
            )
        call.query = route.read(call.scope["query_string"])
        if call.identity.run_prefix is not None and not route.free:
            await self._check_run(route, call)
        return await route.endpoint(self, call)

    async def _check_run(self, route: Route, call: RoutedRequest) -> None:
        """A token that is bound to runs may only write to them, and ask about one of them."""
        if route.path in LINES_PATHS and route.takes:
            return  # the lines are checked when they are read
        run, named = call.names.get("run"), call.query.get("run")
        if run is None and isinstance(named, str):
            family, run = await self.runner.run(lambda: self.home.run(named))
            call.query = {**call.query, "run": f"{family}:{run}"}  # not another name of another
        _check_may_see(call.identity, run)

    def archive(self, place: str, hot: float | None = None, by: str = "operator") -> None:
        """Copy the records to an archive while the server runs; move those that are older than that
        many seconds. Who started it is recorded.
        """
        from tracklog.collector import archiving  # noqa: PLC0415  # a server without it starts sooner

        self.archivers = archiving.workers(self.home, place, hot, by)

    @property
    def last(self) -> int:
        """The last record."""
        return self.home.journal.last

    def start(self) -> None:
        """Begin the jobs of this process that are done beside the requests."""
        if self.role in ("all", "index"):
            self.worker.start()
        if self.token_worker is not None:
            self.token_worker.start()
        for archiver in self.archivers:
            archiver.start()
        if self.alerter is not None:
            self.alerter.start()

    def sign_checkpoints(self, places: Sequence[str], every: float) -> None:
        """Make checkpoints while the server runs, and publish them."""
        if isinstance(self.home.storage, Sharded):
            raise by_shard("checkpoints")
        from tracklog.collector.checkpointing import CheckpointWorker  # noqa: PLC0415  # as above

        self.checkpointer = CheckpointWorker(self.home, places, every=every)

    def alert(self, path: Path, console: str) -> None:
        """Evaluate rules while the server runs; messages name the address of the console."""
        from tracklog.collector.alerts.worker import AlertWorker  # noqa: PLC0415  # as above

        self.alerter = AlertWorker(self.home, path, console)

    async def open(self) -> None:
        """Begin what runs in the event loop."""
        for host in self.hosts.values():
            await host.start()
        for service in self.services:
            await service.start()
        if self.checkpointer is not None:  # last: who cannot serve publishes nothing
            self.checkpointer.start()

    async def stop(self) -> None:
        """End what runs in the event loop, and every live stream."""
        for host in self.hosts.values():
            await host.stop()
        for service in self.services:
            await service.stop()
        await self.hub.stop()

    @property
    def services(self) -> "list[McpEndpoint | GrpcServer]":
        """What runs in the event loop from the start to the end of the server."""
        return [each for each in (self.mcp, self.grpc) if each is not None]

    def offer_mcp(self, *, operate: bool) -> None:
        """Answer agents at /mcp, in the running event loop or in the one that comes."""
        self.mcp = McpEndpoint(self._read, operate=operate)

    async def _read(self, read: Callable[["Home"], T]) -> T:
        answer = await self.runner.ask(lambda: read(self.home))
        self.hub.poke()  # a tool may have recorded a question
        return answer

    def close(self) -> None:
        """Close the home after the last request, when everything begun is finished."""
        self.pool.shutdown()
        self.committer.close()
        self.telemetry.close()
        for archiver in self.archivers:
            archiver.close()
        if self.checkpointer is not None:
            self.checkpointer.close()
        if self.alerter is not None:
            self.alerter.close()
        if self.token_worker is not None:
            self.token_worker.close()
        self.worker.close()
        self.runner.close()
        self.home.close()


def _check_may_see(identity: Identity, run: str | None) -> None:
    """Refuse who may only ask about some runs, and does not ask about one of them."""
    if not identity.may_see(run):
        raise Trouble(
            403,
            f"{identity.name!r} may only ask about one run that begins with {identity.run_prefix!r}",
            "name the run in the path, or with ?run=",
        )


def _answers(host: "Mounted") -> TypeGuard[Answering]:
    """Whether a host has paths of its own; looked up once for each kind of host."""
    return _is_answering(type(host))


@cache
def _is_answering(kind: type) -> bool:
    return issubclass(kind, Answering)
