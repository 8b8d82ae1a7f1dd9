"""Who may ask: checks the Host header, the Origin, the token and the content type, in this order.

A page elsewhere on the web can make a browser send requests to this machine; it can choose
neither the Host header, nor hide its Origin, nor send JSON without asking first.
"""

import hmac
import ipaddress
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

from tracklog.web.trouble import Trouble

Headers = Mapping[bytes, bytes]

COOKIE = "tracklog"
SHORTEST = 16
"""Characters of a token, where other machines can guess at it."""
_MINUTE = 60.0
_FAILURES_EACH, _FAILURES_ALL = 10, 100
"""Wrong tokens in a minute, from one address and from all."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets a request pass, or raises the error answer."""

    def __init__(self, token: str | None = None, hosts: Iterable[str] = ()) -> None:
        self.token = token
        self._token = None if token is None else _digest(token)
        self._hosts = {"localhost", socket.gethostname().lower(), *map(_name, hosts)}
        self._known: set[bytes] = set()
        self.logins = Throttle()

    def check_host(self, headers: Headers) -> None:
        """Accept only our own names and bare addresses, against DNS names that others point here."""
        host = headers.get(b"host", b"")
        if host in self._known:
            return
        name = host_of(host.decode("latin-1"))
        if name is None or (name not in self._hosts and not _is_address(name)):
            raise Trouble(
                421,
                "the Host header names another machine",
                "ask for it by address, or start `tracklog serve --allow-host NAME`",
            )
        if len(self._known) < 1024:
            self._known.add(host)

    def check_single(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse two Host headers: a proxy before us may have checked the other one."""
        if [name for name, _ in headers].count(b"host") > 1:
            raise Trouble(400, "there is more than one Host header", "send one")

    def check_origin(self, headers: Headers) -> None:
        """A page elsewhere must not write here."""
        origin = headers.get(b"origin")
        site = headers.get(b"sec-fetch-site", b"none")
        host = headers.get(b"host", b"").lower()  # as a browser writes its origin
        own = (b"http://" + host, b"https://" + host)
        if (origin is not None and origin not in own) or site in (b"cross-site", b"same-site"):
            raise Trouble(
                403, "a page of another origin may not write here", "ask from this server's pages"
            )

    def check_type(self, headers: Headers, allowed: frozenset[bytes]) -> None:
        """Refuse a content type that a form of another page can send, and a missing one."""
        kind = headers.get(b"content-type", b"")
        if kind not in allowed and kind.partition(b";")[0].strip().lower() not in allowed:
            text, taken = kind.decode("latin-1"), b", ".join(sorted(allowed)).decode()
            raise Trouble(
                415,
                f"the content type {text!r} is not taken here",
                f"say what it is; Content-Type may be: {taken}",
            )

    def check_token(self, headers: Headers) -> None:
        """Require the token, if there is one."""
        if self._token is None:
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(
            _digest(given.strip().decode("latin-1")), self._token
        ):
            return
        if hmac.compare_digest(_cookie(headers), self.cookie()):
            return
        raise Trouble(
            401,
            "this server asks for its token",
            "send `Authorization: Bearer …` with the value of TRACKLOG_TOKEN where it was started, "
            "or with the content of the file that TRACKLOG_TOKEN_FILE names there",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def knows(self, token: str) -> bool:
        """Whether a text is the token."""
        return self._token is not None and hmac.compare_digest(_digest(token), self._token)

    def cookie(self) -> str:
        """The cookie that a browser sends instead of the token."""
        return sha256(b"tracklog cookie " + (self._token or b"")).hexdigest()


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _cookie(headers: Headers) -> str:
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value.isascii():
            return value
    return ""


class Throttle:
    """Counts wrong tokens at the login page, from each address and in total, in the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: deque[tuple[float, str]] = deque()

    def check(self, address: str) -> None:
        """Raise before a token is compared, if too many were wrong."""
        now = self._clock()
        while self._failures and self._failures[0][0] <= now - _MINUTE:
            self._failures.popleft()
        own = [at for at, who in self._failures if who == address]
        every = [at for at, _ in self._failures]
        for failures, most in ((own, _FAILURES_EACH), (every, _FAILURES_ALL)):
            if len(failures) >= most:
                seconds = max(1, round(failures[-most] + _MINUTE - now))
                raise Trouble(
                    429,
                    "too many wrong tokens were given",
                    f"try again in {seconds} s",
                    headers={"Retry-After": str(seconds)},
                )

    def note(self, address: str) -> None:
        """Count a wrong token."""
        self._failures.append((self._clock(), address))


_HOST = re.compile(
    r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^][:@/?#\s]+))(?::(?P<port>[0-9]{0,5}))?"
)


def host_of(header: str) -> str | None:
    """The name or address in a Host header, without port and final dot; None where it has none.

    It is parsed as a whole, as RFC 3986 writes a host and a port: nothing before it, nothing
    after it, an IPv6 address in brackets.
    """
    match = _HOST.fullmatch(header.strip(" \t").lower())
    if match is None or int(match["port"] or 0) > 65535:
        return None
    if match["six"] is not None:
        return match["six"] if _is_address(match["six"]) and ":" in match["six"] else None
    return str(match["name"]).removesuffix(".") or None


def _name(host: str) -> str:
    """A configured name of this machine; an IPv6 address may be without brackets."""
    host = host.strip().lower()
    return host if _is_address(host) else host_of(host) or host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
