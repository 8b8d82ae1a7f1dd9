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
    ":root{color-scheme:light dark;--ink:light-dark(#16181b,#eceef1);--soft:light-dark(#626872,#8f98a5);"
    "--paper:light-dark(#f1f1ed,#0a0c0f);--card:light-dark(#fff,#121519);--line:light-dark(#e5e5df,#232931);"
    "--edge:light-dark(#d2d2ca,#333b46);--accent:light-dark(#2350c4,#93b4ff);"
    "--bad:light-dark(#a80f3a,#ff8aa3);--on:light-dark(#fff,#0a0c0f)}"
    "*{box-sizing:border-box}"
    "body{display:grid;align-content:center;min-height:100vh;max-width:412px;margin:auto;padding:16px;"
    "font:13px/1.5 'Inter Variable',system-ui,sans-serif;color:var(--ink);background:var(--paper)}"
    "header{display:flex;align-items:center;gap:10px;margin-bottom:16px;font-size:17px;font-weight:600}"
    "svg{fill:none;stroke:#fff;stroke-width:1.8;stroke-linecap:round;stroke-linejoin:round}"
    "rect{fill:light-dark(#e8590c,#ff7a2e);stroke:none}"
    "h1{margin:0;font-size:18px;line-height:1.3}p{margin:4px 0 0;color:var(--soft)}"
    "form{padding:22px;background:var(--card);border:1px solid var(--line);border-radius:8px}"
    "label{display:block;margin:20px 0 6px;font-size:12px;font-weight:500}"
    ".field{position:relative}"
    "input,button{width:100%;min-height:38px;font:inherit;padding:0 10px;border:1px solid var(--edge);"
    "border-radius:6px;color:var(--ink);background:var(--card)}"
    ":focus-visible{outline:2px solid var(--accent);outline-offset:1px}"
    "button{margin-top:14px;font-weight:600;cursor:pointer;color:var(--on);background:var(--accent);"
    "border-color:var(--accent)}"
    ".field button{position:absolute;right:0;top:0;width:auto;margin:0;font-weight:400;"
    "color:var(--soft);background:none;border:0}"
    ".why{margin:8px 0 0;font-weight:500;color:var(--bad)}"
    "footer{margin-top:14px;font-size:12px}a{color:var(--accent)}"
    "code,pre{font-family:ui-monospace,monospace;font-size:.94em}"
)
_KEEP = (
    "const f=document.forms[0],b=f.querySelector('.field button');f.action+=location.hash;"
    "b.hidden=false;b.onclick=()=>{const hid=f.token.type=='password';"
    "f.token.type=hid?'text':'password';b.textContent=hid?'hide':'show'}"
)
"""Keeps the fragment of a link, so that the browser goes to the record after the login; and shows
what was typed."""
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
    return _page("Not built", _UNBUILT, 503)


async def login(collector: "Collector", call: "RoutedRequest") -> Response:
    """Check the token once, and set a cookie that no other page can use."""
    guard, address = collector.guard, await address_of(call)
    body = await bodies.read(call.receive, call.headers, collector.held)
    collector.held.now -= len(body)
    form = parse_qs(body.decode("latin-1"))
    try:
        guard.logins.check(address)
    except Trouble as trouble:
        page = _page("Wait", f"<p>{trouble.message}; {trouble.hint}.</p>", trouble.status)
        page.headers.update(trouble.headers or {})
        return page
    token = form.get("token", [""])[0]
    if not guard.knows(token):
        guard.logins.note(address)
        return _asked(guard.refusal(token))
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


def _asked(why: str = "") -> Response:
    note = f"<p class=why role=alert id=why>✕ {why}</p>" if why else ""
    page = _page("This console needs a token", _LOGIN.replace("<!>", note), 401)
    # Without any referrer a browser sends its form with a null origin, which is refused.
    page.headers["Referrer-Policy"] = "same-origin"
    return page


_LOGIN = (
    "<form method=post action=/login><h1>This console needs a token</h1>"
    "<p>Enter one of this collector that may read.</p>"
    "<label for=token>Token</label><div class=field><input id=token name=token type=password "
    "autocomplete=current-password autofocus required aria-describedby=why>"
    "<button type=button hidden>show</button></div><!>"
    "<button>Open the console</button></form>"
    "<footer><p>No token yet? Where the collector runs, <code>tracklog token create NAME --role "
    "operate</code> makes one. If the collector was started with TRACKLOG_TOKEN or "
    "TRACKLOG_TOKEN_FILE, that token is also taken. This browser stores it as a cookie that no script "
    f"can read.</p></footer><script>{_KEEP}</script>"
)
_UNBUILT = (
    "<h1>tracklog</h1><p>The console was not built into this installation. In a checkout, "
    "<code>make setup</code> builds it.</p>"
)
_LOGO = (
    "<header><svg viewBox='0 0 24 24' width=24 height=24 aria-hidden=true>"
    "<rect width=24 height=24 rx=6 /><path d='M4.5 13h3.2l2-6.5 4 11.5 2.3-8 1 3h2.5'/></svg>"
    "tracklog</header>"
)


def _page(title: str, body: str, status: int = 200) -> Response:
    text = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title} · tracklog</title>"
        f'<meta name=viewport content="width=device-width"><style>{_STYLE}</style>'
        f"{_LOGO}<main>{body}</main></html>"
    )
    headers = {"Content-Security-Policy": _PLAIN, "Cache-Control": "no-store"}
    return Response(text, status, headers, "text/html")
