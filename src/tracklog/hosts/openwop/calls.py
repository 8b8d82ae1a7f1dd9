"""A request to one of the routes, and the checks of its body and its query."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tracklog.hosts.openwop.failures import Failure
from tracklog.hosts.openwop.options import refuse_unknown
from tracklog.hosts.openwop.requests import Request
from tracklog.hosts.openwop.settings import Key
from tracklog.hosts.openwop.wires import Wire

WHOLE_BODY = {"field": "body"}
"""The place of a fault that concerns a body as such."""


@dataclass(slots=True)
class HostCall:
    """One request."""

    scope: Scope
    receive: Receive
    send: Send
    headers: dict[bytes, bytes]
    wire: Wire
    key: Key
    tenant: str
    names: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    request: Request | None = None

    def header(self, *names: str) -> str | None:
        """The first of some headers that was sent."""
        for name in names:
            if (value := self.headers.get(name.encode())) is not None:
                return value.decode("latin-1").strip()
        return None

    @property
    def caller(self) -> dict[str, Any]:
        """The person or program that asks, as it is recorded on the first event of a run."""
        data: dict[str, Any] = {"principal": self.key.principal, "tenant": self.tenant}
        if self.key.operator:
            return {**data, "operator": True}
        return {**data, "scopes": sorted(self.key.scopes)}

    @property
    def is_v2(self) -> bool:
        return self.wire.version.startswith("2")

    def accept(self, body: Mapping[str, Any], *names: str) -> None:
        """Refuse what a body asks for beside these members."""
        refuse_unknown(body, names)

    def accept_query(self, names: Iterable[str]) -> None:
        """Take the parameters of a request."""
        self.query = query_in(self.scope, names)

    def json(
        self, data: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """An answer, as the caller's version of the protocol has it."""
        raw = orjson.dumps(self.wire.reply(data, self.tenant))
        return Response(raw, status, headers, "application/json")


def query_in(scope: Scope, names: Iterable[str]) -> dict[str, str]:
    """The parameters of a request; an unknown one, or one that comes twice, is refused."""
    known, found = sorted(names), dict[str, str]()
    for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        if name not in known:
            others = f"there are: {', '.join(known)}" if known else "there are none"
            text = f"there is no parameter {name[:50]!r} here; {others}"
            raise Failure("validation_error", text, {"field": name})
        if name in found:
            text = f"the parameter {name} is there twice"
            raise Failure("validation_error", text, {"field": name})
        found[name] = value
    return found


def without_null(body: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """A body without those of its known members that are null: they are taken as absent."""
    known = {*names}
    return {k: value for k, value in body.items() if value is not None or k not in known}


def text_member(body: Mapping[str, Any], name: str) -> str | None:
    """A member of a body that is a text."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise Failure("validation_error", f"{name} must be a text", {"field": name})
    return value


def number(
    query: Mapping[str, str], name: str, default: int, least: int | None, most: int | None
) -> int:
    """A whole number of the query."""
    text = query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,15}", text):
        raise Failure("validation_error", f"{name} is a whole number", {"field": name})
    value = int(text)
    if (least is not None and value < least) or (most is not None and value > most):
        limits = f"from {least} to {most}" if most is not None else f"{least} or more"
        raise Failure("validation_error", f"{name} is {limits}", {"field": name})
    return value
