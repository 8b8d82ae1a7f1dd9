"""Routes: their paths and parameters, and how a request finds one."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tracklog.answers import Arguments, Param
from tracklog.web.guard import LOCAL
from tracklog.web.tokens import Identity, Right
from tracklog.web.trouble import Trouble


def read(param: Param, texts: Sequence[str] = ()) -> Any:
    """The value of a parameter, from a query; of one that is given twice, the last.

    A parameter of several values is repeated; values from a list of options may also be cut by
    commas, which other values may contain.
    """
    if not texts:
        if param.required:
            raise Trouble(400, f"{param.name} is missing", f"add ?{param.name}=…: {param.about}")
        return param.default
    if param.many:
        parts = [part for text in texts for part in (text.split(",") if param.options else [text])]
        return tuple(_value(param, each) for each in parts if each)
    return _value(param, texts[-1])


def _value(param: Param, text: str) -> Any:
    if param.kind == "string":
        if param.options and text not in param.options:
            raise _wrong(param, text, f"one of {', '.join(param.options)}")
        return text
    if param.kind == "boolean":
        if text not in ("0", "1", "true", "false"):
            raise _wrong(param, text, "true or false")
        return text in ("1", "true")
    try:
        value = int(text) if param.kind == "integer" else float(text)
    except ValueError:
        raise _wrong(param, text, _KINDS[param.kind]) from None
    if len(text) > 18 or not text.isascii():
        raise _wrong(param, text, f"{_KINDS[param.kind]} of at most 18 digits")
    least, most = param.least, param.most
    if not ((least is None or value >= least) and (most is None or value <= most)):
        bounds = f"from {least:,} to {most:,}" if most is not None else f"at least {least:,}"
        raise _wrong(param, text, bounds)
    return value


def _wrong(param: Param, text: str, wanted: str) -> Trouble:
    return Trouble(400, f"{param.name} is {text[:50]!r}", f"it must be {wanted}")


_KINDS = {"integer": "a whole number", "number": "a number"}


@dataclass(slots=True)
class RoutedRequest:
    """One request, on its way to its route."""

    scope: Scope
    receive: Receive
    send: Send
    headers: dict[bytes, bytes]
    names: dict[str, str] = field(default_factory=dict)
    """The values in the path, by the names in the route's braces."""
    status: int = 0
    """The status of the answer, once there is one."""
    identity: Identity = LOCAL
    """Who asks."""
    check_again: Callable[[], object] = bool
    """Raises an error if who asks may not do so any more."""
    query: Arguments = field(default_factory=dict)
    """The values in the query, every parameter of the route with its default."""


Schema = Mapping[str, Any]
"""A JSON Schema."""
Endpoint = Callable[[Any, RoutedRequest], Awaitable[Response | None]]
"""Is given the application, and answers by a response, or by itself and with None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route: its path, its parameters and its handler."""

    method: str
    path: str
    about: str
    """The first sentence is the title."""
    endpoint: Endpoint
    params: tuple[Param, ...] = ()
    takes: frozenset[bytes] = frozenset()
    """The content types of a body; a route that takes none writes nothing."""
    body: Any = None
    """The type of the body, from which its schema is made; or the schema."""
    gives: str = "application/json"
    schema: Schema = field(default_factory=dict)
    """The schema of a good answer."""
    result: Any = None
    """The type of a good answer, from which its schema is made."""
    also: Mapping[str, Schema] = field(default_factory=dict)
    """Other content types of a good answer, and their schemas."""
    error: Schema = field(default_factory=dict)
    """The schema of a bad answer, where it has one of its own."""
    answers: Mapping[int, str] = field(default_factory=dict)
    """What other statuses than 200 mean here."""
    needs: tuple[Right, ...] = ()
    """The rights of which one is needed; reading, or with a body operating, if none is named."""
    free: bool = False
    """Whether it is answered without the token."""
    waits: bool = False
    """Whether it may stay open: a stream, a long poll."""
    rights: tuple[Right, ...] = field(init=False, repr=False, compare=False)
    """The rights of which one is needed."""
    _defaults: Arguments | None = field(init=False, repr=False, compare=False, default=None)
    """The values of a query without any parameter; None where one is required."""

    def __post_init__(self) -> None:
        rights: tuple[Right, ...] = self.needs or (("operate",) if self.takes else ("read",))
        object.__setattr__(self, "rights", rights)
        if not any(param.required for param in self.params):
            defaults = {param.name: param.default for param in self.params}
            object.__setattr__(self, "_defaults", defaults)

    def read(self, query: bytes) -> Arguments:
        """The values of the query's parameters."""
        if not query and self._defaults is not None:
            return dict(self._defaults)
        data: dict[str, list[str]] = {}
        for name, text in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            data.setdefault(name, []).append(text)
        unknown = sorted(data.keys() - {param.name for param in self.params})
        if unknown:
            known = ", ".join(param.name for param in self.params)
            hint = f"there is: {known}" if known else "leave it out: nothing is chosen here"
            raise Trouble(400, f"there is no parameter {unknown[0][:50]!r}", hint)
        return {param.name: read(param, data.get(param.name, ())) for param in self.params}


_REMEMBERED = 1024  # paths
_SEGMENT = re.compile(rb"\{([a-z_0-9]+)\}(.*)")


class Routed(Protocol):
    """What can be found by a method and a path."""

    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str:
        """`/v1/runs/{run}`, `/v1/runs/{run}:fork`: a name in braces stands for one segment."""
        ...


R = TypeVar("R", bound=Routed)


class Router(Generic[R]):
    """Finds the route of a path, cut at slashes before anything is unquoted: a run may hold one."""

    def __init__(self, routes: Iterable[R]) -> None:
        self._fixed: dict[bytes, dict[str, R]] = {}
        self._found: dict[tuple[str, bytes], tuple[R, dict[str, str]]] = {}
        self._named: dict[int, dict[tuple[bytes, ...], dict[str, R]]] = {}
        # A segment with something behind its name is more special than one without.
        for route in sorted(routes, key=lambda route: -route.path.count("}:")):
            path = route.path.encode()
            if b"{" not in path:
                self._fixed.setdefault(path, {})[route.method] = route
                continue
            parts = tuple(path.split(b"/"))
            self._named.setdefault(len(parts), {}).setdefault(parts, {})[route.method] = route

    def find(self, method: str, path: bytes) -> tuple[R, dict[str, str]]:
        """The route and the names in the path; recent results are cached."""
        known = self._found.get((method, path))
        if known is None:
            known = self._find(method, path)
            if len(self._found) < _REMEMBERED:
                self._found[method, path] = known
        return known

    def _find(self, method: str, path: bytes) -> tuple[R, dict[str, str]]:
        methods = self._fixed.get(path)
        if methods is not None:
            return _of(methods, method), {}
        parts = path.split(b"/")
        for pattern, methods in self._named.get(len(parts), {}).items():
            names = _names(pattern, parts)
            if names is not None:
                return _of(methods, method), names
        raise Trouble(404, "there is nothing here", "GET /api/openapi.json says what there is")


def _names(pattern: Iterable[bytes], parts: Iterable[bytes]) -> dict[str, str] | None:
    """The names of a pattern with their values in a path; None if the path does not fit."""
    names: dict[bytes, bytes] = {}
    for want, part in zip(pattern, parts, strict=True):
        named = _SEGMENT.fullmatch(want)
        if named is None:
            if want != part:
                return None
        elif len(part) > len(named[2]) and part.endswith(named[2]):
            names[named[1]] = part.removesuffix(named[2])
        else:
            return None
    return {name.decode(): _unquoted(part) for name, part in names.items()}


def _of(methods: Mapping[str, R], method: str) -> R:
    route = methods.get("GET" if method == "HEAD" else method)
    if route is None:
        allowed = ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))
        hint = f"ask with one of: {allowed}"
        raise Trouble(405, f"{method} is not done here", hint, headers={"Allow": allowed})
    return route


_DOTS = re.compile(r"~+\.\.?")


def _unquoted(part: bytes) -> str:
    """The name that a segment stands for; `~.` and `~..` for those that a browser would remove."""
    try:
        name = unquote(part.decode("ascii"), errors="strict")
        return name[1:] if _DOTS.fullmatch(name) else name
    except UnicodeDecodeError:
        raise Trouble(400, "the path is not UTF-8", "quote its bytes with %") from None
