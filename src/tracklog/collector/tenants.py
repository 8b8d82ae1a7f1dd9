"""Several tenants of one database in one process: the token of a request says whose it is."""

from collections import OrderedDict
from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from tracklog.collector.app import Collector
from tracklog.collector.grpc import GrpcServer
from tracklog.web import guard
from tracklog.web.guard import Headers

_KNOWN = 4096  # tokens whose tenant is remembered


class Tenants:
    """A collector for each tenant, with its own record, tokens and limits; they share nothing that
    was recorded.

    A request without a known token gets what needs none: the console's files, the login page, the
    state of the server; all else is refused.
    """

    def __init__(self, collectors: Mapping[str, Collector]) -> None:
        self.collectors = dict(collectors)
        self._first = first = next(iter(self.collectors.values()))
        self.limits, self.counts = first.limits, first.counts
        self.grpc: GrpcServer | None = None
        self._known: OrderedDict[str, Collector] = OrderedDict()
        guards = [each.guard for each in self.collectors.values()]
        for each in guards:
            each.beside = tuple(other for other in guards if other is not each)
            each.logins = guards[0].logins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.of(dict(scope["headers"]))(scope, receive, send)

    def of(self, headers: Headers) -> Collector:
        """The collector of the tenant whose token a request carries; else the first one, which
        refuses it.
        """
        for cookie in guard.cookies(headers):
            known = self._known.get(cookie)
            if known is not None and known.guard.has(cookie):
                return known
            for each in self.collectors.values():
                if each.guard.has(cookie):
                    self._known[cookie] = each
                    if len(self._known) > _KNOWN:
                        self._known.popitem(last=False)
                    return each
        return self._first

    def start(self) -> None:
        """Begin the jobs that are done beside the requests."""
        for each in self.collectors.values():
            each.start()

    async def open(self) -> None:
        """Begin what runs in the event loop."""
        for each in self.collectors.values():
            await each.open()
        if self.grpc is not None:
            await self.grpc.start()

    async def stop(self) -> None:
        """End what runs in the event loop, and every live stream."""
        if self.grpc is not None:
            await self.grpc.stop()
        for each in self.collectors.values():
            await each.stop()

    @property
    def last(self) -> int:
        """How many records all tenants have."""
        return sum(each.last for each in self.collectors.values())

    def close(self) -> None:
        """Close every record, when everything begun is finished."""
        for each in self.collectors.values():
            each.close()
