"""A witness over HTTP: `add-checkpoint` of C2SP tlog-witness, and what it knows."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tracklog.collector.publishers import NotPublished
from tracklog.collector.publishers._http import send
from tracklog.journal.checkpoints.witness import LARGEST, Witness
from tracklog.web import logs
from tracklog.web.routing import Router
from tracklog.web.trouble import ClientGone, Trouble, json_response

if TYPE_CHECKING:
    import socket

_BODY_SECONDS = 10.0


class _WitnessRoute(NamedTuple):
    method: str
    path: str
    answer: Callable[[bytes], Response]
    """From the body of a request to the response."""


class WitnessServer:
    """The application; each alert is logged, and posted to a URL if one is given."""

    def __init__(self, witness: Witness, alert: str | None = None) -> None:
        self._witness, self._alert = witness, alert
        self._alerted = max((each.number for each in witness.alerts()), default=0)
        self._router = Router(
            (
                _WitnessRoute("POST", "/add-checkpoint", self._add),
                _WitnessRoute("GET", "/logs", lambda _: _rows(witness.logs())),
                _WitnessRoute("GET", "/alerts", lambda _: _rows(witness.alerts())),
                _WitnessRoute("GET", "/key", self._key),
                _WitnessRoute("GET", "/healthz", lambda _: json_response({"status": "ok"})),
            )
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            page, _ = self._router.find(scope["method"], scope["raw_path"])
            body = await _body(receive) if page.method == "POST" else b""
            response = await asyncio.to_thread(page.answer, body)
        except Trouble as trouble:
            response = trouble.response()
        except ClientGone:
            return
        await response(scope, receive, send)

    def _add(self, body: bytes) -> Response:
        answer = self._witness.add(body)
        if answer.status in (409, 422):
            self._raise_alerts()
        return Response(answer.body, answer.status, media_type=answer.type)

    def _key(self, _body: bytes) -> Response:
        return Response(f"{self._witness.key}\n", media_type="text/plain; charset=utf-8")

    def _raise_alerts(self) -> None:
        for alert in self._witness.alerts(self._alerted):
            self._alerted = alert.number
            message = f"a checkpoint of {alert.origin} was refused: {alert.why}"
            logs.log("error", message, alert=alert.number)
            if self._alert is not None:
                threading.Thread(target=self._post, args=(message,), daemon=True).start()

    def _post(self, message: str) -> None:
        assert self._alert is not None
        try:
            send("POST", self._alert, f"{message}\n".encode())
        except NotPublished as error:
            logs.log("error", error.message)


def _rows(rows: Iterable[Any]) -> Response:
    return json_response([each._asdict() for each in rows])


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGone
                body, more = body + message.get("body", b""), message.get("more_body", False)
                if len(body) > LARGEST:
                    raise Trouble(413, "the request is too large", "send one checkpoint")
    except TimeoutError:
        raise Trouble(408, "the request does not end", "send it again, at once") from None
    return body


class _WitnessProcess(uvicorn.Server):
    """Ends with success when it is asked to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # `stopped_by_signals` has them

    @contextlib.contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """Take the signals over, before the address is printed."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    server: WitnessServer, bound: "socket.socket", ready: Callable[[], None] = lambda: None
) -> None:
    """Serve until asked to stop."""
    logs.take_over()
    config = uvicorn.Config(
        server,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=256,
        timeout_graceful_shutdown=5,
    )
    process = _WitnessProcess(config)
    with process.stopped_by_signals():
        ready()
        process.run(sockets=[bound])
