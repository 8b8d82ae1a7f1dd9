"""MCP over HTTP, for an application that has checked the request before."""

import asyncio
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from tracklog.collector.mcp.server import HomeReader, make_server

if TYPE_CHECKING:
    from mcp.server import MCPServer

PATH = "/mcp"


class McpEndpoint:
    """Serves the tools at one path, in both eras of the protocol, from `start` to `stop`."""

    def __init__(self, read: HomeReader, *, operate: bool) -> None:
        self._server: MCPServer[object] = make_server(read, operate=operate)
        from mcp.server.transport_security import (  # noqa: PLC0415  # an extra
            TransportSecuritySettings,
        )

        # Host, origin and token are checked by the guard of the application.
        unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._server.streamable_http_app(
            streamable_http_path=PATH, transport_security=unchecked, json_response=True
        )
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; requests are answered when this returns."""
        ready = asyncio.Event()
        self._running = asyncio.create_task(self._run(ready))
        await ready.wait()

    async def _run(self, ready: asyncio.Event) -> None:
        # In one task: the SDK closes its sessions in the task that opened them.
        async with self._server.session_manager.run():
            ready.set()
            await self._stopping.wait()

    async def stop(self) -> None:
        """End all sessions."""
        self._stopping.set()
        if self._running is not None:
            await self._running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._server.session_manager.handle_request(scope, receive, send)
