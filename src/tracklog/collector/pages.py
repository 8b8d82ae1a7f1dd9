"""Pages for a browser: the console, and the login page."""

import base64
import mimetypes
import os
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from starlette.responses import RedirectResponse, Response
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

import tracklog
from tracklog.web import bodies
from tracklog.web.guard import COOKIE
from tracklog.web.tokens import cookie_of
from tracklog.web.trouble import Trouble

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.web.routing import RoutedRequest


def _hash(text: str) -> str:
    """The hash of a style or script for the content security policy."""
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode()


FORM = frozenset({b"application/x-www-form-urlencoded"})
_STYLE = (
    ":root{color-scheme:light dark;--ink:#1c2430;--paper:#f6f7f9;--card:#fff;--line:#d5dae1;"
    "--accent:#0b63ce}@media(prefers-color-scheme:dark){:root{--ink:#e4e9f0;--paper:#11161d;"
    "--card:#1a212b;--line:#333d4a;--accent:#6db1ff}}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:12vh auto 0;max-width:26rem;padding:1.5rem;"
    "color:var(--ink);background:var(--paper)}"
    "form{display:flex;gap:.5rem;flex-wrap:wrap;align-items:end;padding:1rem;background:var(--card);"
    "border:1px solid var(--line);border-radius:8px}label{flex:1}"
    "input,button{font:inherit;padding:.4rem .7rem;border:1px solid var(--line);border-radius:6px}"
    "input{display:block;width:100%;box-sizing:border-box}"
    "button{background:var(--accent);color:var(--card);border-color:var(--accent);cursor:pointer}"
    "a{color:var(--accent)}code,pre{font-family:ui-monospace,monospace}"
)
_KEEP = "document.forms[0].action+=location.hash"
"""Keeps the fragment of a link, so that the browser goes to the record after the login."""
_SHUT = "base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
_PLAIN = f"default-src 'none'; style-src '{_hash(_STYLE)}'; script-src '{_hash(_KEEP)}'; {_SHUT}"
_CONSOLE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    f"font-src 'self'; connect-src 'self'; {_SHUT}"
)
SAFE: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
"""Headers of every response."""


class Console:
    """The built console: its files by path, listed beforehand, so that no path leads out."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(tracklog.__file__).parent / "console"

    @cached_property
    def files(self) -> dict[str, Path]:
        if not (self.folder / "index.html").is_file():
            return {}
        paths = (path for path in self.folder.rglob("*") if path.is_file())
        return {f"/{path.relative_to(self.folder).as_posix()}": path for path in paths}

    def page(self, path: str) -> Response | None:
        """The file of a path; the console routes paths below /console itself."""
        file = self.files.get("/index.html" if path == "/" else path)
        if file is None:
            return None
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        cache = "max-age=31536000, immutable" if path.startswith("/assets/") else "no-cache"
        headers = {"Content-Security-Policy": _CONSOLE, "Cache-Control": cache}
        return Response(file.read_bytes(), 200, headers, kind)


async def front(collector: "Collector", call: "RoutedRequest") -> Response:
    """The console; without a token, the login page."""
    try:
        peer = (call.scope.get("client") or ("",))[0]
        collector.guard.check_token(call.headers, peer=peer)
    except Trouble:
        return _asked()
    page = collector.console.page("/")
    if page is not None:
        return page
    return _page("tracklog", _UNBUILT, 503)


async def login(collector: "Collector", call: "RoutedRequest") -> Response:
    """Check the token once, and set a cookie that no other page can use."""
    guard, address = collector.guard, await address_of(call)
    body = await bodies.read(call.receive, call.headers, collector.held)
    collector.held.now -= len(body)
    form = parse_qs(body.decode("latin-1"))
    try:
        guard.logins.check(address)
    except Trouble as trouble:
        page = _page("tracklog", f"<p>{trouble.message}; {trouble.hint}.</p>", trouble.status)
        page.headers.update(trouble.headers or {})
        return page
    token = form.get("token", [""])[0]
    if not guard.knows(token):
        guard.logins.note(address)
        return _asked("<p>That is not the token.</p>")
    response = RedirectResponse("/", 303)
    secure = call.scope.get("scheme") == "https"
    response.set_cookie(COOKIE, cookie_of(token), httponly=True, samesite="strict", secure=secure)
    return response


async def address_of(call: "RoutedRequest") -> str:
    """The address of the client, also behind a proxy on this machine."""

    async def read(scope: Any, _receive: Any, _send: Any) -> None:
        client.append((scope.get("client") or ("",))[0])

    client: list[str] = []
    trusted = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1")  # as uvicorn has it
    reading: Any = ProxyHeadersMiddleware(read, trusted)
    await reading(dict(call.scope), call.receive, call.send)
    return client[0]


def _asked(note: str = "") -> Response:
    page = _page("tracklog", note + _LOGIN, 401)
    # Without any referrer a browser sends its form with a null origin, which is refused.
    page.headers["Referrer-Policy"] = "same-origin"
    return page


_LOGIN = (
    "<form method=post action=/login><label>Token <input name=token type=password "
    "autocomplete=current-password autofocus></label> <button>Enter</button></form>"
    "<p>The token is the value of TRACKLOG_TOKEN where the collector was started, or the content of "
    f"the file that TRACKLOG_TOKEN_FILE names there.</p><script>{_KEEP}</script>"
)
_UNBUILT = (
    "<p>The console was not built into this installation. In a checkout, <code>make setup</code> "
    "builds it.</p>"
)


def _page(title: str, body: str, status: int = 200) -> Response:
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
        f'<meta name=viewport content="width=device-width"><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{body}"
        '<p><a href="/api/openapi.json">The HTTP interface (OpenAPI)</a></p></html>'
    )
    headers = {"Content-Security-Policy": _PLAIN, "Cache-Control": "no-store"}
    return Response(text, status, headers, "text/html")
