"""OTLP over gRPC: each call is answered as the same request over HTTP is, by the collector itself."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import ASGIApp, Message

from tracklog.formats.protobuf_fields import bytes_field, integer_field, text_field
from tracklog.model.errors import MissingExtra, TracklogError
from tracklog.web import logs
from tracklog.web.limits import Limits

_PATHS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "/v1/traces",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "/v1/logs",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "/v1/metrics",
}
_CODES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED",
    413: "RESOURCE_EXHAUSTED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE",
}  # fmt: skip  # one table
_RETRY = "type.googleapis.com/google.rpc.RetryInfo"

Export = Callable[[bytes, Any], Awaitable[bytes]]


class GrpcServer:
    """Listens for exporters, from `start` to `stop`."""

    def __init__(
        self,
        collector: ASGIApp,
        limits: Limits,
        host: str,
        port: int,
        tls: tuple[bytes, bytes] | None = None,
    ) -> None:
        """Listens for TLS if it is given a private key and a certificate."""
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own lines are no JSON as ours are
        try:
            import grpc  # type: ignore[import-untyped]  # noqa: F401, PLC0415  # an extra
        except ImportError as missing:
            raise MissingExtra("OpenTelemetry over gRPC", "grpc", missing) from missing
        self._collector, self._most, self._tls = collector, limits.body, tls
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._server: Any = None  # grpcio has no types

    async def start(self) -> None:
        """Begin to listen."""
        import grpc  # noqa: PLC0415  # an extra
        from grpc import aio  # noqa: PLC0415

        methods = {
            name: grpc.unary_unary_rpc_method_handler(self._export(path))
            for name, path in _PATHS.items()
        }

        class ExportHandler(grpc.GenericRpcHandler):  # type: ignore[misc]  # it has no types
            """Finds the method of a call; bytes stay bytes."""

            def service(self, call: Any) -> Any:
                return methods.get(call.method)

        options = [("grpc.max_receive_message_length", self._most), ("grpc.so_reuseport", 0)]
        self._server = aio.server(options=options)
        self._server.add_generic_rpc_handlers((ExportHandler(),))
        try:
            if self._tls is None:
                self._server.add_insecure_port(self.address)
            else:
                self._server.add_secure_port(self.address, grpc.ssl_server_credentials([self._tls]))
        except RuntimeError as error:
            raise TracklogError(
                f"gRPC cannot listen at {self.address}",
                "another program uses this port: choose one with --grpc PORT",
            ) from error
        await self._server.start()
        logs.log("info", "listening for gRPC", address=self.address)

    async def stop(self) -> None:
        """End, after the calls that have begun."""
        if self._server is not None:
            await self._server.stop(1.0)

    def _export(self, path: str) -> Export:
        async def export(request: bytes, context: Any) -> bytes:
            headers = [(b"host", b"localhost"), (b"content-type", b"application/x-protobuf")]
            for key, value in context.invocation_metadata() or ():
                if key == "authorization":
                    text = value if isinstance(value, str) else value.decode("latin-1")
                    headers.append((b"authorization", text.encode("latin-1", "replace")))
            status, answer, pause = await self._answered(path, headers, request)
            if status == 200:
                return answer
            await _fail(context, status, answer, pause)
            raise AssertionError("abort raises")

        return export

    async def _answered(
        self, path: str, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> tuple[int, bytes, int | None]:
        """The status, the body and `Retry-After` of the same request over HTTP."""
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
            "query_string": b"", "headers": headers, "client": None,
        }  # fmt: skip
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._collector(scope, receive, send)
        start, *parts = sent
        pause = dict(start["headers"]).get(b"retry-after")
        content = b"".join(part.get("body", b"") for part in parts)
        return start["status"], content, None if pause is None else int(pause)


async def _fail(context: Any, status: int, answer: bytes, pause: int | None) -> None:
    """End a call with an error; with a pause, exporters send the same again after it."""
    import grpc  # noqa: PLC0415  # an extra

    if pause is not None:
        delay = bytes_field(1, integer_field(1, pause))
        retry = text_field(1, _RETRY) + bytes_field(2, delay)
        details = answer + bytes_field(3, retry)
        context.set_trailing_metadata((("grpc-status-details-bin", details),))
    code = grpc.StatusCode[_CODES.get(status, "INTERNAL")]
    await context.abort(code, _message(answer))


def _message(status: bytes) -> str:
    """The text of a google.rpc.Status that was written here: a code, then the message."""
    marked = status.find(b"\x12")
    rest = status[marked + 1 :]
    while rest and rest[0] & 128:
        rest = rest[1:]
    return rest[1:].decode("utf-8", "replace")
