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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tracklog.web.tokens import ROLES, Identity, Right, Tokens, cookie_of
from tracklog.web.trouble import Trouble

Headers = Mapping[bytes, bytes]

LOCAL, MASTER = Identity("local"), Identity("token")
"""Everybody, where no token is asked for; and who has the token of the environment."""
_LONGEST_NAME = 256
_READ: tuple[Right, ...] = ("read",)

COOKIE = "tracklog"
SHORTEST = 16
"""Characters of a token, where other machines can guess at it."""
_MINUTE = 60.0
_FAILURES_EACH, _FAILURES_ALL = 10, 100
"""Wrong tokens in a minute, from one address and from all."""


@lru_cache(1024)
def address(text: str) -> str:
    """An address in one spelling; one of IPv4 that a socket of IPv6 reports is one of IPv4."""
    try:
        read = ipaddress.ip_address(text)
    except ValueError:
        return ""
    return str(getattr(read, "ipv4_mapped", None) or read)


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

    def __init__(
        self,
        token: str | None = None,
        hosts: Iterable[str] = (),
        *,
        tokens: Tokens | None = None,
        proxy: "Proxy | None" = None,
        always: bool = False,
    ) -> None:
        self.token, self.tokens, self._proxy = token, tokens, proxy
        self._always = always
        """Whether a token is asked for even where there is none yet."""
        self.beside: tuple[Guard, ...] = ()
        """The guards of other tenants, whose tokens the same login page takes."""
        self._cookie = None if token is None else cookie_of(token)
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
        """Refuse two Host headers: a proxy before us may have checked the other one. The same holds
        for the header with the user.
        """
        names = [name for name, _ in headers]
        if names.count(b"host") > 1:
            raise Trouble(400, "there is more than one Host header", "send one")
        if self._proxy is not None and names.count(self._proxy.header) > 1:
            raise Trouble(400, "there is more than one header with the user", "send one")

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

    def check_token(
        self, headers: Headers, rights: Collection[Right] = _READ, peer: str = ""
    ) -> Identity:
        """Who asks; an error where a token is needed, or where it has none of these rights."""
        identity = self._identity(headers, peer)
        if identity is None:
            raise Trouble(
                401,
                "this server asks for its token",
                "send `Authorization: Bearer …` with the value of TRACKLOG_TOKEN where it was started, "
                "or with the content of the file that TRACKLOG_TOKEN_FILE names there, or with a token "
                "that `tracklog token create` made",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if identity.rights.isdisjoint(rights):
            raise Trouble(
                403,
                f"{identity.name!r} may not do this: it needs the right to {' or '.join(rights)}",
                "`tracklog token create --role ROLE` makes a token with another role",
            )
        return identity

    def _identity(self, headers: Headers, peer: str) -> Identity | None:
        """Who asks; None where nothing says so and something must."""
        if self._proxy is not None and (user := self._proxy.user(headers, peer)) is not None:
            return user
        if not self._always and not self._asks():
            return LOCAL
        for cookie in cookies(headers):
            if (found := self._owner(cookie)) is not None:
                return found
        return None

    def _asks(self) -> bool:
        """Whether there is anything that says who somebody is."""
        known = self._cookie is not None or self._proxy is not None
        return known or bool(self.tokens and self.tokens.all())

    def _owner(self, cookie: str) -> Identity | None:
        if self._cookie is not None and hmac.compare_digest(cookie, self._cookie):
            return MASTER
        return self.tokens.identity(cookie) if self.tokens is not None else None

    def active(self) -> tuple[str, ...]:
        """The tokens that can be used: when they change, the token of each open stream is checked again."""
        return self.tokens.active() if self.tokens is not None else ()

    def knows(self, token: str) -> bool:
        """Whether a text is a token that may read, also of a tenant beside this one."""
        cookie = cookie_of(token)
        owners = (guard._owner(cookie) for guard in (self, *self.beside))
        return any(owner is not None and "read" in owner.rights for owner in owners)

    def refusal(self, token: str) -> str:
        """Why a text does not open the console, for whoever typed it."""
        cookie = cookie_of(token)
        for guard in (self, *self.beside):
            if guard._owner(cookie) is not None:
                return "This token may send events, but not read. Ask for one with the role read."
            if guard.tokens is not None and (ended := guard.tokens.ended(cookie)):
                return f"This token {ended.replace('revoked', 'was revoked')}. Ask for a new one."
        return "That is not the token."

    def has(self, cookie: str) -> bool:
        """Whether a cookie is of a token that can be used here."""
        return self._owner(cookie) is not None


def name_of(identity: Identity, typed: str | None) -> str:
    """The name under which an act is recorded: a typed one does not hide whose token it was."""
    if identity is LOCAL or identity is MASTER:
        return typed or "operator"
    if identity.is_person or typed in (None, identity.name):
        return identity.name
    return f"{typed} ({identity.name})"


@dataclass(frozen=True)
class Proxy:
    """A proxy that says who its user is: a header counts, if it comes from one of its addresses."""

    addresses: frozenset[str]
    header: bytes = b"x-forwarded-user"
    role: str = "operate"

    def user(self, headers: Headers, peer: str) -> Identity | None:
        """The user that the proxy names."""
        name = headers.get(self.header, b"").decode("utf-8", "replace").strip()
        if (
            address(peer) not in self.addresses
            or not 0 < len(name) <= _LONGEST_NAME
            or not name.isprintable()
        ):
            return None
        return Identity(name, ROLES[self.role], is_person=True)


def cookies(headers: Headers) -> Iterator[str]:
    """The cookies of the tokens that a request carries: of its `Authorization`, then its own."""
    scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        yield cookie_of(given.strip().decode("latin-1"))
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value.isascii():
            yield value
            return


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
